/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "fast/lab.h"
#include "fast/run.h"

#include <stdio.h>

/*
 * The program `fast`, on the public header alone. A command is a function of one file; main.c finds
 * it in the table of commands.c, from which help, the manual and completion are made too. Talk goes
 * to standard error, data to standard output. `fast` alone and `fast --help` are `fast help`;
 * `fast COMMAND --help` is `fast help COMMAND`; `fast --version` prints the version.
 *
 *   main.c                  exit codes, errors, the choice of the command
 *   commands.c, flags.c     tables of commands and flags; the reader of command lines
 *   cmd_*.c, help.c         one command each; runs_*.c are the verbs of `fast runs`
 *   cli_page.c, cli_json.c  output for people and for programs
 *   launcher.c              mpirun or srun, which started this process
 *   progress.c, busy.c      lines on standard error that are redrawn while work is done
 *   manual.c, markdown.c, complete.c   fast(1), docs/options.md and completion scripts
 */
enum {
    CLI_DONE = 0,
    CLI_FAILED = 1,
    CLI_USAGE = 2,     /* something on the command line is wrong; nothing ran */
    CLI_AGAIN = 75,    /* saved, and to be run again (EX_TEMPFAIL) */
    CLI_CANCELED = 130 /* stopped, and nothing was saved */
};

/* A command line to show, and what it does. */
typedef struct cli_example {
    const char *line; /* as it is typed */
    const char *does; /* one line, no full stop */
} cli_example;

/* One command: a row of cli_commands[]. */
typedef struct cli_command {
    const char *name;            /* as it is typed: "train" */
    const char *usage;           /* arguments after the name: "[TOPIC]" */
    const char *summary;         /* one line, no full stop */
    const char *kind;            /* the part whose options it takes as flags: "train", or NULL */
    const fast_option *flags;    /* the command's own flags, like --json; all BOOL or TEXT */
    const char *words;           /* words it takes: "a|b|c" to choose from, or NULL */
    const cli_example *examples; /* ends with a row whose line is NULL */
    /* argv[0] is the command's name. Returns the program's exit code. */
    int (*main)(int argc, char **argv); /* runs the command; returns the exit code */
} cli_command;

extern const cli_command cli_commands[];               /* commands.c; the last has no name */
const cli_command *cli_command_find(const char *name); /* NULL if no command has this name */
/* The part whose options a command takes as flags; NULL if it takes none. */
const fast_part *cli_command_part(const cli_command *command);

/* The commands. Each reads its command line, does its work and returns the program's exit code. */
int cli_train(int argc, char **argv);
int cli_predict(int argc, char **argv);
int cli_evaluate(int argc, char **argv);
int cli_show(int argc, char **argv);
int cli_export(int argc, char **argv);
int cli_compare(int argc, char **argv);
int cli_search(int argc, char **argv);
int cli_plan(int argc, char **argv);
int cli_find_lr(int argc, char **argv);
int cli_bench(int argc, char **argv);
int cli_simulate(int argc, char **argv);
int cli_runs(int argc, char **argv);
int cli_systems(int argc, char **argv);
int cli_ui(int argc, char **argv);
int cli_pack(int argc, char **argv);
int cli_shard(int argc, char **argv);
int cli_run(int argc, char **argv);
int cli_info(int argc, char **argv);
int cli_help(int argc, char **argv);

/* Fill in the command line of a packed program. True: it is done, with *code_out. packed.c */
bool cli_packed(int *argc, char ***argv, int *code_out);

/* Help on a command or a topic, to standard output. */
int cli_help_topic(const char *topic);

/* Number of ranks that a launcher (mpirun, srun) has started, 1 without one; this one's number. */
int cli_ranks(void);
int cli_rank(void);
/* Write the launcher's own words, for a command that is to be run again: "mpirun -n 2 "; nothing
 * without one. argv[0] is the command's name. */
void cli_put_launcher(FILE *file, int argc, char **argv);

/* Print the options of this name, of all commands and parts, after an empty line where `behind`;
 * false if there is no such option. */
bool cli_help_option(const char *word, bool behind);

/* Return the command for a word that people try instead of its name, with a command line; NULL for
 * any other word. */
const char *cli_other_word(const char *word, const char **how_out);

/* Say one sentence of trouble on standard error: "fast: ...", and return `code`. Control characters
 * of names and files are written as "?": a terminal would obey them. One of several ranks
 * also says which it is and on which machine. */
int cli_fail(int code, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Say why a call of the library failed; the exit code for it: CLI_USAGE where the user's words or
 * files are wrong, else CLI_FAILED. */
int cli_fail_err(fast_err err);

/* Options of a command line as the library takes them: "name=value", ..., NULL. */
typedef struct cli_list {
    char **items; /* NULL while empty */
    int count;    /* number of options */
} cli_list;

/* Append "name=value", or "value" for a NULL name. Returns an exit code. */
int cli_list_add(cli_list *list, const char *name, const char *value);
void cli_list_free(cli_list *list);

/* Let the first SIGINT or SIGTERM call `cancel` with `object`, in the signal handler; the next one
 * ends the program. A NULL object makes the first one end it. */
void cli_on_interrupt(void (*cancel)(void *object), void *object);

/* 1234567 as "1,234,567". */
void cli_group_digits(int64_t value, char text[32]);

/* A word as a shell reads it back. */
void cli_put_quoted(FILE *file, const char *word);

/* True if `file` is a terminal that wants colours: NO_COLOR and TERM=dumb do not. */
bool cli_has_color(FILE *file);
