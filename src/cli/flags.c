/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Flags: how an option is written on a command line, and a reader of command lines by table. A flag
 * is --name value, --name=value, or --name for yes where it is a BOOL; hyphens in a flag are
 * underscores in an option.
 *
 *   on the command line      passed to `set`
 *   --clip-norm 1            clip_norm, "1"
 *   --clip-norm=1            clip_norm, "1"
 *   --json                   json, "yes"      (a BOOL without a value)
 *   --json=off               json, "no"       (no, false, off and 0; yes, true, on and 1)
 *   show                     NULL, "show"     (a word that is no flag)
 *
 * Errors, all with exit code 2:
 *
 *   fast: no option --modle; did you mean --model?
 *   fast: no option -x; options begin with --
 *   fast: --steps needs a value: steps in all, instead of epochs; 0: by epochs
 *   fast: --json=maybe: write yes or no
 *
 * A flag may be repeated: each is given to `set` in the order of the command line. Options of a run
 * are all appended to the list for the library. There the last one counts for a run, and all count
 * as axes of a sweep for `fast compare`.
 */
#include "cli_tables.h"

#include <ctype.h>
#include <string.h>

/* Option names have underscores, flags hyphens. */
void cli_flag_name(const fast_option *option, char flag[CLI_FLAG_MAX])
{
    snprintf(flag, CLI_FLAG_MAX, "--%s", option->name);
    for (char *c = flag; *c; c++)
        if (*c == '_')
            *c = '-';
}

/* The form of a value as help writes it: a letter for numbers, the choices, or the kind of part in
 * capitals.
 *
 *   BOOL "yes|no"   INT "N"   REAL "X"   CHOICE "csv|jsonl"   TEXT "TEXT", "FILE", "MODEL"
 */
void cli_flag_value(const fast_option *option, char value[CLI_FLAG_MAX])
{
    switch (option->type) {
    case FAST_OPTION_BOOL:
        snprintf(value, CLI_FLAG_MAX, "yes|no");
        break;
    case FAST_OPTION_INT:
        snprintf(value, CLI_FLAG_MAX, "N");
        break;
    case FAST_OPTION_REAL:
        snprintf(value, CLI_FLAG_MAX, "X");
        break;
    case FAST_OPTION_CHOICE:
        snprintf(value, CLI_FLAG_MAX, "%s", option->choices);
        break;
    case FAST_OPTION_TEXT:
        snprintf(value, CLI_FLAG_MAX, "%s", option->choices ? option->choices : "TEXT");
        for (char *c = value; *c; c++)
            *c = (char)toupper((unsigned char)*c);
        break;
    }
}

/* Completion offers file names for these flags. */
bool cli_flag_is_file(const fast_option *option)
{
    return option->type == FAST_OPTION_TEXT && option->choices &&
           strcmp(option->choices, "file") == 0;
}

/* Name and value are cut at 60 characters each, so that a long text does not push the name out of
 * the buffer. Choices that would be wider than a page are left to the help text: "--pipeline
 * PIPELINE". A BOOL is shown without a value: "--json". */
void cli_flag_text(const fast_option *option, char flag[CLI_FLAG_MAX])
{
    const size_t widest = 46;
    char name[CLI_FLAG_MAX], value[CLI_FLAG_MAX];

    cli_flag_name(option, name);
    cli_flag_value(option, value);
    if (option->type == FAST_OPTION_CHOICE && strlen(value) > widest) {
        snprintf(value, CLI_FLAG_MAX, "%s", option->name);
        for (char *c = value; *c; c++)
            *c = (char)toupper((unsigned char)*c);
    }
    if (option->type == FAST_OPTION_BOOL)
        snprintf(flag, CLI_FLAG_MAX, "%s", name);
    else
        snprintf(flag, CLI_FLAG_MAX, "%.60s %.60s", name, value);
}

/* Append the terms of a list that `sign` joins: "a, b or c" for '|', "a and b" for '&'. */
static void put_terms(const char *list, char sign, char *text, size_t size)
{
    size_t used = strlen(text);

    while (*list && used < size) {
        const size_t length = strcspn(list, sign == '|' ? "|" : "&");
        const char *next = list + length + (list[length] != '\0');
        const char *join = !*next ? "" : sign == '&' ? " and " : strchr(next, sign) ? ", " : " or ";

        used += (size_t)snprintf(text + used, size - used, "%.*s%s", (int)length, list, join);
        list = next;
    }
}

/* A row of a part's table as two texts, which help prints in two columns:
 *
 *   backup     needs slack=0, because backup workers are those that a round does not wait for
 */
void cli_exclusion_text(const fast_exclusion *row, char when[CLI_FLAG_MAX], char rule[CLI_RULE_MAX])
{
    when[0] = '\0';
    put_terms(row->when, '&', when, CLI_FLAG_MAX);
    snprintf(rule, CLI_RULE_MAX, "%s ", row->excludes ? "does not go with" : "needs");
    put_terms(row->excludes ? row->excludes : row->needs, '|', rule, CLI_RULE_MAX);
    const size_t used = strlen(rule);
    snprintf(rule + used, CLI_RULE_MAX - used, ", because %s", row->why);
}

/* Both tables of a command, as one list. */
typedef struct flag_list {
    const fast_option *own;  /* may be NULL */
    const fast_option *part; /* may be NULL */
    int64_t own_count;       /* number of the command's own flags */
    int64_t count;           /* number of all flags */
} flag_list;

/* Number of rows of a table; 0 for NULL. */
static int64_t table_count(const fast_option *table)
{
    int64_t count = 0;

    while (table && table[count].name)
        count++;
    return count;
}

/* Join the command's own flags with the options of its part. */
static flag_list flags_of(const cli_command *command)
{
    flag_list list = { .own = command->flags };
    const fast_part *part = cli_command_part(command);

    list.part = part ? part->options : NULL;
    list.own_count = table_count(list.own);
    list.count = list.own_count + table_count(list.part);
    return list;
}

/* Return the i-th flag of both tables: the command's own come first. */
static const fast_option *flag_at(const flag_list *list, int64_t i)
{
    return i < list->own_count ? &list->own[i] : &list->part[i - list->own_count];
}

/* Names of flags, for fast_text_nearest(). */
static const char *flag_name_at(const void *ctx, int64_t i)
{
    return flag_at(ctx, i)->name;
}

/* Say that an option was given by its former name; not again while the same option repeats. The
 * note goes to standard error, so that scripts which parse standard output still work. */
static void note_former(const fast_option *option, const char *word, size_t length)
{
    static const fast_option *noted;
    char flag[CLI_FLAG_MAX];

    if (noted == option)
        return;
    noted = option;
    cli_flag_name(option, flag);
    fprintf(stderr, "note: %.*s is called %s now; the old name works in this version only\n",
            (int)length, word, flag);
}

/* Names that options have in other programs, and what to write here. */
static const struct {
    const char *names; /* "|a|b|" */
    const char *hint;  /* the words to write instead */
} foreign[] = {
    { "|batch_size|bs|per_device_train_batch_size|",
      "--batch is the batch size of one worker (--batch 64)" },
    { "|learning_rate|eta|", "--lr is the learning rate (--lr 0.1)" },
    { "|gpu|gpus|cuda|device_ids|num_gpus|",
      "FAST computes on CPU cores: --workers 4 uses four, --transport mpi several machines" },
    { "|num_epochs|n_epochs|max_epochs|", "--epochs is the number of passes (--epochs 3)" },
    { "|num_workers|n_jobs|nproc|world_size|", "--workers is the number of workers (--workers 4)" },
    { "|dataset|train_data|csv|", "--data takes a name or a file (--data my.csv)" },
    { "|wd|weight_decay|", "weight decay is the optimizer's (--optimizer sgd:weight_decay=1e-4)" },
    { "|optim|opt|", "--optimizer is the update rule (--optimizer adam)" },
    { "|momentum|", "momentum is the optimizer's (--optimizer momentum:momentum=0.9)" },
    { "|nesterov|", "Nesterov's momentum is an optimizer (--optimizer nesterov:momentum=0.9)" },
};

/* Return what to write instead of a name of other programs, or NULL. */
static const char *hint_of(const char *name)
{
    char barred[CLI_FLAG_MAX + 2];

    snprintf(barred, sizeof barred, "|%.120s|", name);
    for (size_t i = 0; i < sizeof foreign / sizeof *foreign; i++)
        if (strstr(foreign[i].names, barred))
            return foreign[i].hint;
    return NULL;
}

/* Return what to write instead of a device of other programs that this build has not, or NULL. */
static const char *device_hint(const fast_option *option, const char *value)
{
    const size_t length = strcspn(value, ":"); /* cuda:0 */
    char name[16], barred[20];

    if (strcmp(option->name, "device") != 0 || length >= sizeof name ||
        (option->choices && strstr(option->choices, value)))
        return NULL;
    snprintf(name, sizeof name, "%.*s", (int)length, value);
    snprintf(barred, sizeof barred, "|%s|", name);
    if (strcmp(name, "cpu") == 0)
        return "host is the memory of this machine (--device host)";
    return strstr("|cuda|gpu|rocm|hip|mps|xpu|tpu|", barred) ? hint_of("gpu") : NULL;
}

/* The option of "--name" or "--name=value", or NULL, which is then said. */
static const fast_option *find(const cli_command *command, const flag_list *list, const char *word)
{
    const size_t length = strcspn(word, "=");
    char name[CLI_FLAG_MAX], flag[CLI_FLAG_MAX];
    const char *nearest;

    snprintf(name, sizeof name, "%.*s", (int)(length - 2), word + 2);
    for (char *c = name; *c; c++)
        if (*c == '-')
            *c = '_';
    for (int64_t i = 0; i < list->count; i++) {
        const fast_option *option = flag_at(list, i);

        if (strcmp(option->name, name) == 0)
            return option;
        if (option->former && strcmp(option->former, name) == 0) {
            note_former(option, word, length);
            return option;
        }
    }
    nearest = fast_text_nearest(name, flag_name_at, list, list->count);
    if (cli_command_part(command) && hint_of(name)) {
        cli_fail(CLI_USAGE, "no option %.*s; %s", (int)length, word, hint_of(name));
    } else if (nearest) {
        cli_flag_name(&(fast_option){ .name = nearest }, flag);
        cli_fail(CLI_USAGE, "no option %.*s; did you mean %s?", (int)length, word, flag);
    } else {
        cli_fail(CLI_USAGE, "no option %.*s; fast help %s lists them", (int)length, word,
                 command->name);
    }
    return NULL;
}

/* A BOOL's value as "yes" or "no", from the words that options take; NULL for any other. */
static const char *yes_or_no(const char *value)
{
    static const char *const words[] = { "no", "yes", "false", "true", "off", "on", "0", "1" };

    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (strcmp(value, words[i]) == 0)
            return words[i % 2];
    return NULL;
}

/* Values follow a flag as the next word or behind "="; a BOOL needs none. A word that begins with
 * -- is never taken for a value: a forgotten value must not swallow the next flag. */
int cli_flags_read(const cli_command *command, int argc, char **argv, cli_set_fn *set, void *ctx)
{
    const flag_list list = flags_of(command);

    for (int i = 1; i < argc; i++) {
        const char *word = argv[i];
        const char *value = strchr(word, '=');
        const fast_option *option = NULL;
        int code;

        if (strcmp(word, "--help") == 0 || strcmp(word, "-h") == 0) {
            code = cli_help_topic(command->name);
            return code == CLI_DONE ? CLI_HELPED : code;
        }
        if (word[0] == '-' && word[1] != '-' && word[1])
            return cli_fail(CLI_USAGE, "no option %s; options begin with --", word);
        if (word[0] != '-' || !word[1]) { /* - alone is standard input */
            value = word;
        } else {
            option = find(command, &list, word);
            if (!option)
                return CLI_USAGE;
            if (value)
                value++;
            else if (option->type == FAST_OPTION_BOOL)
                value = "yes";
            else if (i + 1 < argc && strncmp(argv[i + 1], "--", 2) != 0)
                value = argv[++i];
            else
                return cli_fail(CLI_USAGE, "%s needs a value: %s", word, option->help);
            if (option->type == FAST_OPTION_BOOL)
                value = yes_or_no(value);
            if (!value)
                return cli_fail(CLI_USAGE, "%s: write yes or no", word);
            if (device_hint(option, value))
                return cli_fail(CLI_USAGE, "no device \"%.60s\"; %s", value,
                                device_hint(option, value));
            if (!value[0] && option->type == FAST_OPTION_TEXT && option->choices &&
                strcmp(option->choices, "file") == 0)
                return cli_fail(CLI_USAGE, "%s needs the name of a file", word);
        }
        code = set(ctx, option, value);
        if (code != CLI_DONE)
            return code;
    }
    return CLI_DONE;
}
