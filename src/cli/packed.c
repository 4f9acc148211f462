/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A packed program: `fast` with a network, settings and files behind it (fast/pack.h, cmd_pack.c).
 * Its commands are those of fast, with what was packed filled in:
 *
 *   ./digits                          says what it is
 *   ./digits train --epochs 3         fast train FLAGS --epochs 3; later flags win
 *   ./digits predict new.csv          fast predict MODEL new.csv, also evaluate, export and show
 *
 * Every other command is the same as of fast. Its settings are
 * {"name": "digits", "train": ["--model=lenet", ...] or null, "model": "l.safetensors" or null}.
 */
#include "cli.h"
#include "cmd_runs.h"
#include "fast/pack.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <unistd.h>

/* Path of this program: by the kernel, or by how it was started where /proc is missing. A program
 * whose file was removed is still read through /proc. */
static const char *own_path(void)
{
    static const char proc[] = "/proc/self/exe";
    static char path[4096];
    const char *given = (const char *)(uintptr_t)getauxval(AT_EXECFN); // NOLINT
    const ssize_t length = readlink(proc, path, sizeof path - 1);

    path[length > 0 ? length : 0] = '\0';
    if (length > 0 && access(path, R_OK) == 0)
        return path;
    return access(proc, R_OK) == 0 ? proc : given;
}

/* Print what the program is and what it can do. Its texts may be of somebody else. */
static int say_what(const json_t *settings)
{
    const char *name = json_string_value(json_object_get(settings, "name"));
    const json_t *train = json_object_get(settings, "train"), *word;
    const char *model = json_string_value(json_object_get(settings, "model"));
    char safe_name[CLI_SAFE_MAX], safe[CLI_SAFE_MAX];
    size_t i;

    name = cli_text_safe(name ? name : "program", CLI_SAFE_MAX, safe_name);
    printf("%s, packed by fast %s\n\n", name, fast_version());
    if (json_is_array(train)) {
        printf("  ./%s train [OPTIONS]            fast train", name);
        json_array_foreach(train, i, word)
        {
            putchar(' ');
            cli_put_quoted(stdout, cli_text_safe(json_string_value(word), CLI_SAFE_MAX, safe));
        }
        putchar('\n');
    }
    if (model)
        printf("  ./%s predict DATA [OPTIONS]     predictions of %s\n"
               "  ./%s evaluate DATA [OPTIONS]    its figures\n"
               "  ./%s export FILE.onnx           the model for other programs\n"
               "  ./%s show                       what it is\n",
               name, cli_text_safe(model, CLI_SAFE_MAX, safe), name, name, name);
    printf("  ./%s help                       every other command of fast\n", name);
    return CLI_DONE;
}

/* Append a word. */
static void put(char **words, int *count, const char *word)
{
    words[(*count)++] = (char *)(uintptr_t)word;
}

/* Make the command line of fast: argv with the packed words after the command. */
static char **fill_in(const json_t *settings, int argc, char **argv, int *count_out)
{
    const json_t *train = json_object_get(settings, "train"), *word;
    const char *model = json_string_value(json_object_get(settings, "model"));
    char **words = malloc(((size_t)argc + json_array_size(train) + 4) * sizeof *words);
    const char *command = argv[1];
    size_t i;

    if (!words)
        return NULL;
    put(words, count_out, argv[0]);
    put(words, count_out, command);
    if (strcmp(command, "train") == 0)
        json_array_foreach(train, i, word) if (json_string_value(word))
            put(words, count_out, json_string_value(word));
    if (model && (strcmp(command, "predict") == 0 || strcmp(command, "evaluate") == 0 ||
                  strcmp(command, "show") == 0 || strcmp(command, "export") == 0))
        put(words, count_out, model);
    for (int at = 2; at < argc; at++)
        put(words, count_out, argv[at]);
    words[*count_out] = NULL;
    return words;
}

bool cli_packed(int *argc, char ***argv, int *code_out)
{
    const char *path = own_path(), *text = NULL;
    const fast_err err = path ? fast_pack_read(path, &text) : FAST_ENOENT;

    if (err == FAST_ENOENT)
        return false;
    if (err) {
        *code_out = cli_fail_err(err);
        return true;
    }
    json_t *settings = json_loads(text, 0, NULL); /* stays until the process ends */
    if (*argc < 2 || strcmp((*argv)[1], "--help") == 0) {
        *code_out = say_what(settings);
        json_decref(settings);
        return true;
    }
    int count = 0;
    char **words = fill_in(settings, *argc, *argv, &count);
    if (!words) {
        *code_out = cli_fail(CLI_FAILED, "no memory for the command line");
        return true;
    }
    *argc = count;
    *argv = words;
    return false;
}
