/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `fast help --markdown`: docs/options.md, made of the tables, so that it cannot be out of date: a
 * test compares them.
 *
 *   | flag | default | meaning |
 *   |---|---|---|
 *   | `--json` | `no` | print the result as one JSON object, the last line of standard output |
 *
 * Numbers show their limits, "(0 to 65535)", where the table has any. The page must not depend on
 * the build that makes it: engines are not listed, and systems have a page of their own.
 */
#include "cli_tables.h"
#include "manual.h"

#include <string.h>

/* Text in a cell of a table. */
static void put(FILE *out, const char *text)
{
    for (; *text; text++) {
        if (strchr("|<>*_`\\", *text))
            fputc('\\', out);
        fputc(*text, out);
    }
}

/* Code in a cell: only the bar ends it. */
static void put_code(FILE *out, const char *text)
{
    fputc('`', out);
    for (; *text; text++) {
        if (*text == '|')
            fputc('\\', out);
        fputc(*text, out);
    }
    fputc('`', out);
}

/* Write an option as a row of a table, with its limits. */
static void put_row(FILE *out, const char *name, const fast_option *option)
{
    fputs("| ", out);
    put_code(out, name);
    fputs(" | ", out);
    if (option->standard[0])
        put_code(out, option->standard);
    fputs(" | ", out);
    put(out, option->help);
    if (option->type == FAST_OPTION_INT || option->type == FAST_OPTION_REAL) {
        if (option->min != option->max)
            fprintf(out, " (%.12g to %.12g)", option->min, option->max);
    }
    fputs(" |\n", out);
}

/* Write an option as a row whose name is a flag. */
static void put_flag_row(FILE *out, const fast_option *option)
{
    char flag[CLI_FLAG_MAX];

    cli_flag_text(option, flag);
    put_row(out, flag, option);
}

/* Write the section of a command: its examples and its own flags. */
static void put_command(FILE *out, const cli_command *command)
{
    fprintf(out, "\n## fast %s\n\n", command->name);
    put(out, command->summary);
    fputs("\n\n```\n", out);
    for (const cli_example *example = command->examples; example->line; example++)
        fprintf(out, "%-52s # %s\n", example->line, example->does);
    fputs("```\n", out);
    if (command->kind)
        fputs("\nThe [options of a run](#options-of-a-run) are flags of this command.\n", out);
    if (command->flags && command->flags->name) {
        fputs("\n| flag | default | meaning |\n|---|---|---|\n", out);
        for (const fast_option *option = command->flags; option->name; option++)
            put_flag_row(out, option);
    }
}

/* Write the options of a run, a table for each group. */
static void put_run(FILE *out)
{
    int64_t count = 0;
    const fast_part *part = fast_part_list("train", &count);

    fputs("\n## Options of a run\n\n"
          "The C API takes them as text, `\"batch=128\"`; the program as flags, `--batch 128`.\n",
          out);
    if (count == 0)
        return;
    for (const cli_group *group = cli_groups;; group++) {
        bool titled = false;

        for (const fast_option *option = part->options; option->name; option++) {
            if (cli_group_of(option) != group)
                continue;
            if (!titled)
                fprintf(out, "\n### %s\n\n| flag | default | meaning |\n|---|---|---|\n",
                        group->title);
            titled = true;
            put_flag_row(out, option);
        }
        if (!group->names)
            return;
    }
}

/* Write the options of a part as a table. */
static void put_keys(FILE *out, const fast_option *options)
{
    if (!options || !options->name)
        return;
    fputs("\n| key | default | meaning |\n|---|---|---|\n", out);
    for (const fast_option *option = options; option->name; option++) {
        char value[CLI_FLAG_MAX], name[2 * CLI_FLAG_MAX];

        cli_flag_value(option, value);
        snprintf(name, sizeof name, "%s=%s", option->name, value);
        put_row(out, name, option);
    }
}

/* The exclusions of a part, as a list under its options. */
static void put_exclusions(FILE *out, const fast_exclusion *rows)
{
    char when[CLI_FLAG_MAX], rule[CLI_RULE_MAX];

    if (rows && rows->when)
        fputc('\n', out);
    for (; rows && rows->when; rows++) {
        cli_exclusion_text(rows, when, rule);
        fputs("- ", out);
        put_code(out, when);
        fputc(' ', out);
        put(out, rule);
        fputs(".\n", out);
    }
}

/* Write the section of a kind of parts. */
static void put_topic(FILE *out, const cli_topic *topic)
{
    int64_t count = 0;
    const fast_part *parts = cli_part_list(topic->kind, &count);
    const fast_option *shared = cli_shared_options(parts, count);

    fprintf(out, "\n## %s\n\n%s\n", topic->title, topic->how);
    /* Engines differ from build to build; this page must not. */
    if (strcmp(topic->kind, "engine") == 0) {
        fputs("`fast info` shows those of a build, the fastest first.\n", out);
        return;
    }
    if (strcmp(topic->kind, "system") == 0) {
        fputs("[Systems](systems.md) has them all.\n", out);
        return;
    }
    for (int64_t i = 0; i < count; i++) {
        fprintf(out, "\n### %s (%s)\n\n", parts[i].name, topic->kind);
        put(out, parts[i].summary ? parts[i].summary : "");
        fputc('\n', out);
        if (!shared)
            put_keys(out, parts[i].options);
        put_exclusions(out, parts[i].exclusions);
    }
    if (shared) {
        fputs("\nAll of them take:\n", out);
        put_keys(out, shared);
    }
}

/* Write the whole page. A test compares it with docs/options.md. */
int cli_markdown(FILE *out)
{
    fputs("# Options\n\n"
          "Made by `fast help --markdown` from the tables that the program parses with.\n"
          "A flag is `--name value` or `--name=value`.\n"
          "A part that is chosen by name takes options of its own as "
          "`name:key=value,key=value`.\n"
          "`N` is a whole number, which may end in k, M, G, Ki, Mi or Gi; `X` is a number.\n",
          out);
    for (const cli_command *command = cli_commands; command->name; command++)
        put_command(out, command);
    put_run(out);
    for (const cli_topic *topic = cli_topics; topic->name; topic++)
        put_topic(out, topic);
    return CLI_DONE;
}
