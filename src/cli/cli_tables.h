/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "cli.h"
#include "fast/serve.h"

/*
 * Tables that help, the manual, completion and docs/options.md read besides the options' own:
 * groups of flags, and topics. A group is fast_option_group, with names in the order of the
 * options' table. An option that no group names is shown in the last group, so that a new one is
 * never lost.
 */
typedef fast_option_group cli_group;

extern const cli_group cli_groups[]; /* the last has names NULL: all others */

/* The group of an option. */
const cli_group *cli_group_of(const fast_option *option);

/* A kind of part that can be chosen by name: `fast help models`. */
typedef struct cli_topic {
    const char *name;    /* "models" */
    const char *kind;    /* "model", for cli_part_list() */
    const char *title;   /* of the page */
    const char *summary; /* one line, no full stop */
    const char *how;     /* how a part is chosen: a sentence with a full stop */
} cli_topic;

extern const cli_topic cli_topics[]; /* the last has no name */

/* The parts of a kind: those of fast_part_list(), and the searchers. */
const fast_part *cli_part_list(const char *kind, int64_t *count_out);

/* The options that all of several parts take alike, shown once for all of them; or NULL. */
const fast_option *cli_shared_options(const fast_part *parts, int64_t count);

enum { CLI_FLAG_MAX = 128, CLI_RULE_MAX = 512 };

/* Write one row of a part's exclusions for people: `when` as "slack=0 and eager", `rule` as "does
 * not go with send or push, because ...". Text that does not fit is cut. */
void cli_exclusion_text(const fast_exclusion *row, char when[CLI_FLAG_MAX],
                        char rule[CLI_RULE_MAX]);

/* "--clip-norm" */
void cli_flag_name(const fast_option *option, char flag[CLI_FLAG_MAX]);
/* The form of a value: "N", "X", "yes|no", "a|b", "MODEL", "TEXT". */
void cli_flag_value(const fast_option *option, char value[CLI_FLAG_MAX]);
/* True if its value is a file's name: TEXT of the kind "file". */
bool cli_flag_is_file(const fast_option *option);
/* "--clip-norm X" */
void cli_flag_text(const fast_option *option, char flag[CLI_FLAG_MAX]);

/*
 * Read a command line by the command's tables: each flag is given to `set` with its option and its
 * value as text, a word that is no flag with option NULL; anything but CLI_DONE from `set` ends it.
 * Unknown flags and missing values are usage errors that name the nearest flag. --help prints the
 * command's help and gives CLI_HELPED.
 */
enum { CLI_HELPED = -1 };
typedef int cli_set_fn(void *ctx, const fast_option *option, const char *value);
int cli_flags_read(const cli_command *command, int argc, char **argv, cli_set_fn *set, void *ctx);
