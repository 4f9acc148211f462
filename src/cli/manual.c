/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `fast help --man`: the manual page fast(1) in man(7) roff, made of the tables. Text is escaped: a
 * backslash, a hyphen that is meant to be typed, and a line that would begin with a control
 * character.
 *
 *   .SH NAME
 *   fast \- train deep neural networks, on any machine
 *   ...
 *   .TP
 *   .B \-\-metrics\-port N
 *   serve what is measured at /metrics (OpenMetrics) on this port of 127.0.0.1; 0: on a free one
 *
 * Sections: NAME, SYNOPSIS (a line a command), DESCRIPTION, COMMANDS (flags and examples of each),
 * OPTIONS OF A RUN in their groups, a section for each kind of part, EXIT STATUS, ENVIRONMENT. The
 * page has no date, so that equal tables give equal pages. To read it: fast help --man | man -l -
 */
#include "manual.h"

#include "cli_tables.h"

#include <string.h>

/* Write text with what roff would read as its own escaped. */
static void put(FILE *out, const char *text)
{
    if (*text == '.' || *text == '\'')
        fputs("\\&", out);
    for (; *text; text++) {
        if (*text == '\\')
            fputs("\\e", out);
        else if (*text == '-')
            fputs("\\-", out);
        else
            fputc(*text, out);
    }
}

/* A tagged paragraph: the tag in bold, then what it is. */
static void put_entry(FILE *out, const char *tag, const char *text, const char *standard)
{
    fputs(".TP\n.B ", out);
    put(out, tag);
    fputc('\n', out);
    put(out, text);
    if (standard && standard[0]) {
        fputs(" [", out);
        put(out, standard);
        fputc(']', out);
    }
    fputc('\n', out);
}

/* Write a table of options as flags. */
static void put_flags(FILE *out, const fast_option *options)
{
    for (const fast_option *option = options; option && option->name; option++) {
        char flag[CLI_FLAG_MAX];

        cli_flag_text(option, flag);
        put_entry(out, flag, option->help,
                  option->type == FAST_OPTION_BOOL ? NULL : option->standard);
    }
}

/* Write the section of a command. */
static void put_command(FILE *out, const cli_command *command)
{
    fputs(".SS fast ", out);
    put(out, command->name);
    fputs("\n", out);
    put(out, command->summary);
    fputc('\n', out);
    put_flags(out, command->flags);
    if (command->kind)
        fputs(".PP\nThe options of a run, below, are flags of this command.\n", out);
    for (const cli_example *example = command->examples; example->line; example++)
        put_entry(out, example->line, example->does, NULL);
}

/* Write the options of a run, in their groups. */
static void put_options(FILE *out)
{
    int64_t count = 0;
    const fast_part *part = fast_part_list("train", &count);

    if (count == 0)
        return;
    fputs(".SH OPTIONS OF A RUN\n", out);
    for (const cli_group *group = cli_groups;; group++) {
        bool titled = false;

        for (const fast_option *option = part->options; option->name; option++) {
            fast_option row[2] = { *option, { .name = NULL } };

            if (cli_group_of(option) != group)
                continue;
            if (!titled)
                fprintf(out, ".SS %s\n", group->title);
            titled = true;
            put_flags(out, row);
        }
        if (!group->names)
            return;
    }
}

/* Write the options of a part, indented. */
static void put_keys(FILE *out, const fast_option *options)
{
    if (!options || !options->name)
        return;
    fputs(".RS\n", out);
    for (const fast_option *option = options; option->name; option++) {
        char value[CLI_FLAG_MAX], tag[2 * CLI_FLAG_MAX];

        cli_flag_value(option, value);
        snprintf(tag, sizeof tag, "%s=%s", option->name, value);
        put_entry(out, tag, option->help, option->standard);
    }
    fputs(".RE\n", out);
}

/* The exclusions of a part, indented under its options. */
static void put_exclusions(FILE *out, const fast_exclusion *rows)
{
    char when[CLI_FLAG_MAX], rule[CLI_RULE_MAX];

    if (rows && rows->when)
        fputs(".RS\n", out);
    for (const fast_exclusion *row = rows; row && row->when; row++) {
        cli_exclusion_text(row, when, rule);
        put_entry(out, when, rule, NULL);
    }
    if (rows && rows->when)
        fputs(".RE\n", out);
}

/* Write the section of a kind of parts. */
static void put_topic(FILE *out, const cli_topic *topic)
{
    int64_t count = 0;
    const fast_part *parts = cli_part_list(topic->kind, &count);

    fputs(".SH ", out);
    for (const char *c = topic->title; *c; c++)
        fputc(*c >= 'a' && *c <= 'z' ? *c - 'a' + 'A' : *c, out);
    fputc('\n', out);
    put(out, topic->how);
    fputc('\n', out);
    const fast_option *shared = cli_shared_options(parts, count);
    for (int64_t i = 0; i < count; i++) {
        put_entry(out, parts[i].name, parts[i].summary ? parts[i].summary : "", NULL);
        if (!shared)
            put_keys(out, parts[i].options);
        put_exclusions(out, parts[i].exclusions);
    }
    if (shared) {
        fputs(".PP\nAll of them take:\n", out);
        put_keys(out, shared);
    }
}

/* Write the whole page. Return CLI_DONE. */
int cli_manual(FILE *out)
{
    fprintf(out, ".TH FAST 1 \"\" \"fast %s\" \"User Commands\"\n", fast_version());
    fputs(".SH NAME\nfast \\- train deep neural networks, on any machine\n"
          ".SH SYNOPSIS\n",
          out);
    for (const cli_command *command = cli_commands; command->name; command++) {
        fputs(".B fast ", out);
        put(out, command->name);
        fputs("\n", out);
        put(out, command->usage);
        fputs("\n.br\n", out);
    }
    fputs(
        ".SH DESCRIPTION\nA flag is \\-\\-name value or \\-\\-name=value. A part that is chosen "
        "by name (a model, a data set, an optimizer) takes options of its own as "
        "name:key=value,key=value. Whole numbers may end in k, M, G, Ki, Mi or Gi. Defaults are in "
        "brackets.\n.SH COMMANDS\n",
        out);
    for (const cli_command *command = cli_commands; command->name; command++)
        put_command(out, command);
    put_options(out);
    for (const cli_topic *topic = cli_topics; topic->name; topic++)
        put_topic(out, topic);
    fputs(".SH EXIT STATUS\n", out);
    put_entry(out, "0", "done", NULL);
    put_entry(out, "1",
              "failed, diverged, or a file could not be saved where it was asked for; after the "
              "last step the result is printed nevertheless, with the place of the files",
              NULL);
    put_entry(out, "2", "the command line, or a file that it names, is wrong; nothing ran", NULL);
    put_entry(out, "75", "stopped and saved: run it again with --resume", NULL);
    put_entry(out, "130",
              "stopped and not saved: several processes without --checkpoint, or a strategy "
              "without checkpoints",
              NULL);
    fputs(".SH ENVIRONMENT\n", out);
    put_entry(out, "FAST_HOME", "folder of the plan file and of saved runs", "~/.cache/fast");
    put_entry(out, "NO_COLOR", "no colours", NULL);
    put_entry(out, "COLUMNS", "width of help", NULL);
    return CLI_DONE;
}
