/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `fast ui`: the dashboard. It serves the store on 127.0.0.1 until Ctrl-C, prints the address to
 * open, which has the token, and starts a browser only where it is asked to. The address goes to
 * standard output, one line, for programs too.
 *
 *   http://127.0.0.1:41371/?token=a4ec68b96b4513ab6a6062033af7e29d            (standard output)
 *   open this address in a browser; Ctrl-C ends, and runs that were started continue
 *                                                                             (standard error)
 *
 * The line is flushed at once, so that a program which starts `fast ui` can read it from a pipe.
 * --metrics open serves /metrics without the token, for a Prometheus on this machine.
 *
 * Signals: SIGINT and SIGTERM stop the server in order, and a second one does no more than the
 * first; this command does not use cli_on_interrupt(), as it has no long step to abandon. SIGPIPE
 * is ignored. Exit codes: 0 after a signal, 2 for a wrong flag, else as cli_fail_err() says.
 */
#include "cli_tables.h"

#include <errno.h>
#include <signal.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* One command line, read. */
typedef struct ui_line {
    const char *store; /* NULL: the user's */
    long port;         /* 0: a free one */
    bool open;         /* a browser */
    bool open_metrics; /* /metrics without the token */
} ui_line;

/* The server that a signal stops: a handler gets nothing else. */
static fast_server *volatile signalled;

/* Ask the server to end. Only sets a flag, as a signal handler may. */
static void on_signal(int number)
{
    fast_server *server = signalled;

    (void)number;
    if (server)
        fast_server_stop(server);
}

/* Take one flag of the command line, or a word that is no flag (option NULL), for
 * cli_flags_read(). */
static int set(void *ctx, const fast_option *option, const char *value)
{
    ui_line *line = ctx;
    char *end = NULL;

    if (!option)
        return cli_fail(CLI_USAGE, "\"%.60s\" is not an option; options begin with --", value);
    if (strcmp(option->name, "store") == 0) {
        line->store = value;
    } else if (strcmp(option->name, "open") == 0) {
        line->open = strcmp(value, "yes") == 0;
    } else if (strcmp(option->name, "metrics") == 0) {
        line->open_metrics = strcmp(value, "open") == 0;
        if (!line->open_metrics && strcmp(value, "token") != 0)
            return cli_fail(CLI_USAGE, "--metrics is token or open, not \"%.60s\"", value);
    } else {
        line->port = strtol(value, &end, 10);
        if (end == value || *end || line->port < 0 || line->port > 65535)
            return cli_fail(CLI_USAGE, "--port takes a number from 0 to 65535, not \"%.60s\"",
                            value);
    }
    return CLI_DONE;
}

/* Stop at Ctrl-C; a browser that leaves in the middle of an answer is no reason to end. */
static void catch_signals(fast_server *server)
{
    struct sigaction action = { .sa_handler = on_signal };

    signalled = server;
    sigemptyset(&action.sa_mask);
    sigaction(SIGINT, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
    action.sa_handler = SIG_IGN;
    sigaction(SIGPIPE, &action, NULL);
}

/* Let the desktop open the address; it is printed anyway. The child is not waited for, and a
 * desktop without xdg-open is told, but no error. */
static void open_browser(const char *url)
{
    char program[] = "xdg-open";
    char *address = strdup(url);
    char *words[] = { program, address, NULL };
    pid_t pid;
    const int failed = address ? posix_spawnp(&pid, program, NULL, NULL, words, environ) : ENOMEM;

    if (failed)
        fprintf(stderr, "xdg-open cannot be started: %s\n", strerror(failed));
    free(address);
}

/* Open the server, say its address and serve until a signal comes. The server gets the path of this
 * program, by which it starts the runs that the user asks for in the browser, and the groups of
 * options, from which the page builds its form. */
static int serve(const ui_line *line)
{
    char program[4096];
    const ssize_t got = readlink("/proc/self/exe", program, sizeof program - 1);
    fast_server *server = NULL;
    fast_err err;

    program[got > 0 ? got : 0] = '\0';
    err = fast_server_open(&(fast_server_options){ .store = line->store,
                                                   .port = line->port,
                                                   .program = got > 0 ? program : NULL,
                                                   .open_metrics = line->open_metrics,
                                                   .groups = cli_groups },
                           &server);
    if (err)
        return cli_fail_err(err);
    catch_signals(server);
    if (!fast_server_has_pages())
        fputs("this build has no pages, as npm was missing when it was made: install npm and "
              "configure again; /api and /metrics are served\n",
              stderr);
    printf("%s\n", fast_server_url(server));
    fflush(stdout);
    fputs("open this address in a browser; Ctrl-C ends, and runs that were started continue\n",
          stderr);
    if (line->open)
        open_browser(fast_server_url(server));
    err = fast_server_run(server);
    signalled = NULL;
    fast_server_close(server);
    return err ? cli_fail_err(err) : CLI_DONE;
}

/* The command `fast ui`. */
int cli_ui(int argc, char **argv)
{
    ui_line line = { .store = NULL };
    const int code = cli_flags_read(cli_command_find("ui"), argc, argv, set, &line);

    if (code != CLI_DONE)
        return code == CLI_HELPED ? CLI_DONE : code;
    return serve(&line);
}
