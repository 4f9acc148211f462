/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `fast help`: what a person wants to read, made of the tables: examples first, options in groups,
 * defaults shown. A topic is a command, a kind of part (models, data, ...) or one part by its name.
 *
 *   adam (optimizer)
 *     adam            momentum over a running mean of squares
 *         beta1=X                 decay of the mean of gradients [0.9]
 *         clip_norm=X             scale the gradient down to this norm; 0 does not
 *                                 [0]
 *
 * Defaults are in brackets; flags that are off by default show none. Pages go to standard output,
 * as wide as cli_page_init() finds. Exit codes: 0, or 2 for a topic that does not exist, with the
 * nearest name among all commands, topics and parts.
 *
 * --man, --markdown and --complete print the same tables for other programs: manual.c, markdown.c
 * and complete.c. If several are given, the first of this order is printed.
 */
#include "fast/comparison.h"

#include "cli_page.h"
#include "cli_tables.h"
#include "manual.h"

#include <string.h>

/* Names of at most this many topics and parts are searched for the nearest. */
enum { NAMES_MAX = 512 };

/* Help and default of an option, as one text. */
static void describe(const fast_option *option, bool flag, char *text, size_t size)
{
    if (option->type == FAST_OPTION_BOOL && flag && strcmp(option->standard, "no") == 0)
        snprintf(text, size, "%s", option->help);
    else if (option->standard[0])
        snprintf(text, size, "%s [%s]", option->help, option->standard);
    else
        snprintf(text, size, "%s", option->help);
}

/* Print a flag with its help and default. */
static void print_flag(cli_page *page, const fast_option *option)
{
    char flag[CLI_FLAG_MAX], text[512];

    cli_flag_text(option, flag);
    describe(option, true, text, sizeof text);
    cli_page_row(page, 2, 26, flag, text);
}

/* Is an option of this name one of the command's own flags, which win? */
static bool is_own_flag(const fast_option *flags, const char *name)
{
    for (; flags && flags->name; flags++)
        if (strcmp(flags->name, name) == 0)
            return true;
    return false;
}

/* Print the options of a run, group by group, without those that are `flags` of the command too;
 * groups without any are left out. The last group, whose names are NULL, takes the options that no
 * other group names. */
static void print_groups(cli_page *page, const fast_option *options, const fast_option *flags)
{
    for (const cli_group *group = cli_groups;; group++) {
        bool titled = false;

        for (const fast_option *option = options; option->name; option++) {
            if (cli_group_of(option) != group || is_own_flag(flags, option->name))
                continue;
            if (!titled)
                cli_page_title(page, group->title);
            titled = true;
            print_flag(page, option);
        }
        if (!group->names)
            return;
    }
}

/* Print the examples of a command, which come before its flags: most readers need no more. */
static void print_examples(cli_page *page, const cli_example *examples)
{
    cli_page_title(page, "Examples");
    for (const cli_example *example = examples; example->line; example++) {
        fprintf(page->out, "  %s\n", example->line);
        cli_page_text(page, 6, example->does);
    }
}

/* Print the help of one command: usage, summary, examples, its own flags under "Output", then the
 * options of its part in their groups, and how parts are named. */
static void print_command(cli_page *page, const cli_command *command)
{
    const fast_part *part = cli_command_part(command);

    fprintf(page->out, "fast %s %s\n", command->name, command->usage);
    cli_page_text(page, 2, command->summary);
    print_examples(page, command->examples);
    if (command->flags) {
        cli_page_title(page, "Output");
        for (const fast_option *option = command->flags; option->name; option++)
            print_flag(page, option);
    }
    if (part && part->options)
        print_groups(page, part->options, command->flags);
    if (command->kind) {
        fputc('\n', page->out);
        const bool simulates = strcmp(command->kind, "simulate") == 0;
        cli_page_text(
            page, 0,
            simulates
                ? "CLUSTER and ALLREDUCE are names, with options of their own as "
                  "name:key=value,key=value. fast help clusters lists clusters, fast help faults "
                  "what "
                  "may go wrong."
                : "MODEL, DATA, ENGINE, OPTIMIZER and SCHEDULE are names, with options of their "
                  "own as name:key=value,key=value. fast help models (data, optimizers, "
                  "schedules, engines, layers) lists them.");
    }
}

/* Print the options of a part as key=value. */
static void print_keys(cli_page *page, const fast_option *options)
{
    for (const fast_option *option = options; option && option->name; option++) {
        char left[2 * CLI_FLAG_MAX], value[CLI_FLAG_MAX], text[512];

        cli_flag_value(option, value);
        snprintf(left, sizeof left, "%s=%s", option->name, value);
        describe(option, false, text, sizeof text);
        cli_page_row(page, 6, 30, left, text);
    }
}

/* Print a part, with its options if asked for. */
static void print_part(cli_page *page, const fast_part *part, bool keys)
{
    cli_page_row(page, 2, 18, part->name, part->summary ? part->summary : "");
    if (keys)
        print_keys(page, part->options);
}

/* Print all parts of a kind; options that all of them share are printed once. */
static void print_topic(cli_page *page, const cli_topic *topic)
{
    int64_t count = 0;
    const fast_part *parts = cli_part_list(topic->kind, &count);

    fprintf(page->out, "%s\n", topic->title);
    cli_page_text(page, 2, topic->how);
    fputc('\n', page->out);
    const fast_option *shared = cli_shared_options(parts, count);
    const bool searchers = strcmp(topic->kind, "searcher") == 0;
    for (int64_t i = 0; i < count; i++) {
        print_part(page, &parts[i], !shared);
        if (searchers && fast_searcher_missing(i)[0])
            cli_page_row(page, 6, 30, "missing of its paper", fast_searcher_missing(i));
    }
    if (shared) {
        fputs("\n  each with\n", page->out);
        print_keys(page, shared);
    }
}

/* Print what `fast help` alone shows: an example of each command, commands and topics. */
static void print_overview(cli_page *page)
{
    cli_page_text(page, 0, "fast - train deep neural networks, on any machine");
    cli_page_title(page, "Examples");
    for (const cli_command *command = cli_commands; command->name; command++)
        cli_page_row(page, 2, 20, command->examples[0].line, command->examples[0].does);
    cli_page_title(page, "Commands");
    for (const cli_command *command = cli_commands; command->name; command++)
        cli_page_row(page, 2, 20, command->name, command->summary);
    cli_page_title(page, "Topics");
    for (const cli_topic *topic = cli_topics; topic->name; topic++) {
        char left[64];

        snprintf(left, sizeof left, "help %s", topic->name);
        cli_page_row(page, 2, 20, left, topic->summary);
    }
    fputc('\n', page->out);
    cli_page_text(page, 0,
                  "fast COMMAND --help explains a command, fast help NAME one part (lenet, adam), "
                  "fast --version prints the version.");
}

/* Options of a part that do not go together, with the reasons:
 *
 *       backup     needs slack=0, because backup workers are those that a round
 *                  does not wait for
 */
static void print_exclusions(cli_page *page, const fast_exclusion *rows)
{
    char when[CLI_FLAG_MAX], rule[CLI_RULE_MAX];

    if (rows && rows->when)
        fputs("\n    Options that do not go together\n", page->out);
    for (; rows && rows->when; rows++) {
        cli_exclusion_text(rows, when, rule);
        cli_page_row(page, 6, 30, when, rule);
    }
}

/* Every part with this name, of any kind. */
static bool print_parts_named(cli_page *page, const char *name)
{
    bool found = false;

    for (const cli_topic *topic = cli_topics; topic->name; topic++) {
        int64_t count = 0;
        const fast_part *parts = cli_part_list(topic->kind, &count);

        for (int64_t i = 0; i < count; i++) {
            if (strcmp(parts[i].name, name) != 0)
                continue;
            fprintf(page->out, "%s%s (%s)\n", found ? "\n" : "", name, topic->kind);
            print_part(page, &parts[i], true);
            print_exclusions(page, parts[i].exclusions);
            found = true;
        }
    }
    return found;
}

/* Names of topics and parts, for fast_text_nearest(). */
static const char *name_at(const void *ctx, int64_t i)
{
    const char *const *names = ctx;

    return names[i];
}

/* Say that there is no such topic, and which is the nearest. */
static int no_topic(const char *name)
{
    const char *names[NAMES_MAX], *nearest;
    int64_t used = 0;

    for (const cli_command *command = cli_commands; command->name && used < NAMES_MAX; command++)
        names[used++] = command->name;
    for (const cli_topic *topic = cli_topics; topic->name; topic++) {
        int64_t count = 0;
        const fast_part *parts = cli_part_list(topic->kind, &count);

        if (used < NAMES_MAX)
            names[used++] = topic->name;
        for (int64_t i = 0; i < count && used < NAMES_MAX; i++)
            names[used++] = parts[i].name;
    }
    nearest = fast_text_nearest(name, name_at, names, used);
    if (nearest)
        return cli_fail(CLI_USAGE, "no help on \"%.60s\"; did you mean \"%s\"?", name, nearest);
    return cli_fail(
        CLI_USAGE,
        "no help on \"%.60s\"; fast help lists commands and topics (models, data, layers of "
        "networks, ...)",
        name);
}

/* A topic is looked for among commands, then kinds of parts, then parts, then options; at last a
 * word that people use for a command leads to it. */
int cli_help_topic(const char *name)
{
    const cli_command *command = cli_command_find(name);
    cli_page page;

    cli_page_init(&page, stdout);
    if (command) {
        print_command(&page, command);
        return CLI_DONE;
    }
    for (const cli_topic *topic = cli_topics; topic->name; topic++) {
        if (strcmp(topic->name, name) != 0 && strcmp(topic->kind, name) != 0)
            continue;
        print_topic(&page, topic);
        return CLI_DONE;
    }
    const bool part = print_parts_named(&page, name);
    if (cli_help_option(name, part) || part)
        return CLI_DONE;
    if (strcmp(name, "version") == 0) {
        fputs("fast --version prints the version, fast info what this build has.\n", stdout);
        return CLI_DONE;
    }
    const char *how, *other = cli_other_word(name, &how);
    if (!other)
        return no_topic(name);
    fprintf(stdout, "%s: %s\n\n", name, how);
    print_command(&page, cli_command_find(other));
    return CLI_DONE;
}

/* One command line, read. */
typedef struct help_line {
    const char *topic; /* or NULL */
    const char *shell; /* of --complete, or NULL */
    bool man;          /* print the manual page */
    bool markdown;     /* print docs/options.md */
} help_line;

/* Take one flag of the command line, or a word that is no flag (option NULL), for
 * cli_flags_read(). */
static int set(void *ctx, const fast_option *option, const char *value)
{
    help_line *line = ctx;

    if (!option && line->topic)
        return cli_fail(CLI_USAGE, "help takes one topic, not \"%.60s\" too", value);
    if (!option)
        line->topic = value;
    else if (strcmp(option->name, "complete") == 0)
        line->shell = value;
    else if (strcmp(option->name, "man") == 0)
        line->man = strcmp(value, "no") != 0;
    else
        line->markdown = strcmp(value, "no") != 0;
    return CLI_DONE;
}

/* The command `fast help`. */
int cli_help(int argc, char **argv)
{
    help_line line = { NULL, NULL, false, false };
    const int code = cli_flags_read(cli_command_find("help"), argc, argv, set, &line);
    cli_page page;

    if (code != CLI_DONE)
        return code == CLI_HELPED ? CLI_DONE : code;
    if (line.man)
        return cli_manual(stdout);
    if (line.markdown)
        return cli_markdown(stdout);
    if (line.shell)
        return cli_complete(stdout, line.shell);
    if (line.topic)
        return cli_help_topic(line.topic);
    cli_page_init(&page, stdout);
    print_overview(&page);
    return CLI_DONE;
}
