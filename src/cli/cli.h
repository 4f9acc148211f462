/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The program `fast`: what its files share. It stands on the public headers alone.
 *
 * main() finds the command by name and calls its main with argv[0] = the command's name:
 *   fast                     = fast help
 *   fast --help, -h          = fast help
 *   fast --version           the version
 *   fast COMMAND ... --help  = fast help COMMAND
 * A flag is written --name value, --name=value, or --name for yes where it is a BOOL; hyphens in a
 * flag are underscores in an option. Exit codes: 0 done, 1 failed, 2 usage, 75 saved and to be run
 * again.
 */
#include "fast/run.h"

#include <stdio.h>

enum { CLI_DONE = 0, CLI_FAILED = 1, CLI_USAGE = 2, CLI_AGAIN = 75 };

/* A command line to show, and what it does. */
typedef struct cli_example {
    const char *line;
    const char *does;
} cli_example;

/* A command. Help, the manual, completion and docs/options.md are made of this table and of the
 * options' tables. */
typedef struct cli_command {
    const char *name;
    const char *usage;           /* what follows the name: "[TOPIC]" */
    const char *summary;         /* one line, no full stop */
    const char *kind;            /* the part whose options it takes as flags: "train", or NULL */
    const fast_option *flags;    /* flags of the program itself, like --json; may be NULL */
    const cli_example *examples; /* ends with a row whose line is NULL */
    int (*main)(int argc, char **argv);
} cli_command;

extern const cli_command cli_commands[]; /* commands.c; ends with a row whose name is NULL */

int cli_train(int argc, char **argv);
int cli_bench(int argc, char **argv);
int cli_info(int argc, char **argv);
int cli_help(int argc, char **argv);

/* fast help --man, --complete SHELL, --markdown: print to `out`; exit codes. */
int cli_manual(FILE *out);
int cli_markdown(FILE *out);
int cli_complete(FILE *out, const char *shell);

/* usage.c: one sentence on standard error, "fast: ...", and CLI_USAGE. */
int cli_usage(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* The same for an unknown word; names the nearest of `words` (ends with NULL). */
int cli_unknown(const char *kind, const char *word, const char *const *words);
/* "fast: " and the library's detail; CLI_USAGE for FAST_EINVAL, CLI_FAILED for the others. */
int cli_fail(fast_err err);

/*
 * Read a command line by its tables. Each flag is given to `set` with the option's name (lower_snake)
 * and its value as text; `own` tells a flag of the program from an option of the part. A word that is
 * not a flag is given with option NULL. Anything but CLI_DONE from `set` ends it. Unknown flags and
 * missing values are usage errors that name the nearest flag.
 */
typedef int cli_set_fn(void *ctx, const fast_option *option, bool own, const char *value);
int cli_parse(const cli_command *command, int argc, char **argv, cli_set_fn *set, void *ctx);

/* json.c: one JSON object on one line. Text NULL and numbers that are not finite print null. */
typedef struct cli_json {
    FILE *out;
    bool first; /* no key was printed yet */
} cli_json;

void cli_json_begin(cli_json *json, FILE *out);
void cli_json_text(cli_json *json, const char *key, const char *value);
void cli_json_real(cli_json *json, const char *key, double value);
void cli_json_int(cli_json *json, const char *key, int64_t value);
void cli_json_bool(cli_json *json, const char *key, bool value);
void cli_json_end(cli_json *json);
