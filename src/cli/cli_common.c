/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Parts that several commands share: options as the library takes them, the first Ctrl-C, and
 * numbers for people.
 */
#include "cli.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>

/* Append "name=value", or the value alone without a name. Return CLI_DONE, or CLI_FAILED without
 * memory, which is said. */
int cli_list_add(cli_list *list, const char *name, const char *value)
{
    const size_t size = strlen(name ? name : "") + strlen(value) + 2;
    char **items = realloc(list->items, ((size_t)list->count + 2) * sizeof *items);
    char *text = malloc(size);

    if (items)
        list->items = items;
    if (!items || !text) {
        free(text);
        return cli_fail(CLI_FAILED, "out of memory");
    }
    snprintf(text, size, "%s%s%s", name ? name : "", name ? "=" : "", value);
    list->items[list->count++] = text;
    list->items[list->count] = NULL;
    return CLI_DONE;
}

void cli_list_free(cli_list *list)
{
    for (int i = 0; i < list->count; i++)
        free(list->items[i]);
    free(list->items);
    *list = (cli_list){ NULL, 0 };
}

/* Read by the signal handler, which gets no argument of its own. */
static void (*volatile cancel_call)(void *object);
static void *volatile cancel_object;

/* Signals SIGINT (Ctrl-C), SIGTERM, and SIGUSR1, which mpirun passes on to all ranks:
 *
 *   first    cancel(object) sets a flag of the work, which ends at its next safe point
 *   second   the default action: the program ends at once, without saving; but SIGUSR1, which asks
 *            for a saved run, changes nothing, also when the run has ended
 *
 * The object is cleared before the call, so that a signal that interrupts this handler counts as
 * the second one. The program ends by raise(), not by exit(), so that a shell sees the signal and
 * stops the loop in which it was started. Only calls that a signal handler may make. */
static void on_interrupt(int number)
{
    void *object = cancel_object;

    if (object) {
        cancel_object = NULL;
        cancel_call(object);
        return;
    }
    if (number == SIGUSR1)
        return;
    signal(number, SIG_DFL);
    raise(number);
}

/* The object is cleared before the function is set: a signal in between finds no object.
 *
 * SA_RESTART lets reads and writes of the run continue after the first signal. Without an object
 * the handler stays installed and treats the next signal as the second one: a command calls this
 * before it frees the object. */
void cli_on_interrupt(void (*cancel)(void *object), void *object)
{
    struct sigaction action = { .sa_handler = on_interrupt, .sa_flags = SA_RESTART };

    cancel_object = NULL;
    cancel_call = cancel;
    cancel_object = object;
    if (!object)
        return;
    sigemptyset(&action.sa_mask);
    sigaction(SIGINT, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
    sigaction(SIGUSR1, &action, NULL);
}

/* A comma before each group of three digits from the right: 669706 gives "669,706". All
 * callers pass counts: the sign of a negative number would be taken for a digit ("-,123"). */
void cli_group_digits(int64_t value, char text[32])
{
    char digits[24];
    const int count = snprintf(digits, sizeof digits, "%lld", (long long)value);
    int used = 0;

    for (int i = 0; i < count; i++) {
        if (i > 0 && (count - i) % 3 == 0)
            text[used++] = ',';
        text[used++] = digits[i];
    }
    text[used] = '\0';
}
