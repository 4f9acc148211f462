/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `fast help batch`: an option by its name, wherever it is: a flag of a command or a key of a part.
 * Owners whose option has the same help share one entry:
 *
 *   --batch N   (train, compare, bench)
 *       samples per worker and step [64]
 *   ratio=X   (codec topk, codec randk)
 *       fraction of the values that is sent [0.01]
 *
 * Words that people try instead of a command's name lead to the command (other_words).
 */
#include "cli_page.h"
#include "cli_tables.h"

#include <string.h>

enum { HITS_MAX = 512, OWNERS_MAX = 512 };

/* An option that was found. */
typedef struct option_hit {
    const fast_option *option; /* the row of its table */
    const char *kind;          /* "codec"; NULL: a flag of a command */
    const char *owner;         /* name of the part or of the command */
    bool printed;              /* with another owner */
} option_hit;

/* All options that were found. */
typedef struct option_hits {
    option_hit list[HITS_MAX]; /* in the order of the tables */
    int count;                 /* number of hits */
} option_hits;

/* Add the option of a table whose name this is, if it has one. */
static void search(option_hits *hits, const fast_option *table, const char *name, const char *kind,
                   const char *owner)
{
    for (; table && table->name; table++)
        if (strcmp(table->name, name) == 0 && hits->count < HITS_MAX)
            hits->list[hits->count++] =
                (option_hit){ .option = table, .kind = kind, .owner = owner };
}

/* Search the flags of all commands, then the keys of all parts. */
static void search_all(option_hits *hits, const char *name)
{
    for (const cli_command *command = cli_commands; command->name; command++) {
        const fast_part *part = cli_command_part(command);
        const int before = hits->count;

        search(hits, command->flags, name, NULL, command->name);
        if (hits->count == before) /* a command's own flag wins */
            search(hits, part ? part->options : NULL, name, NULL, command->name);
    }
    for (const cli_topic *topic = cli_topics; topic->name; topic++) {
        int64_t count = 0;
        const fast_part *parts = cli_part_list(topic->kind, &count);

        for (int64_t i = 0; i < count; i++)
            search(hits, parts[i].options, name, topic->kind, parts[i].name);
    }
}

/* Print the option of a hit, with all later owners of the same help. */
static void print_hit(cli_page *page, option_hits *hits, int first)
{
    const option_hit *hit = &hits->list[first];
    char left[2 * CLI_FLAG_MAX], value[CLI_FLAG_MAX], text[1024];
    size_t used = 0;

    cli_flag_value(hit->option, value);
    if (hit->kind)
        snprintf(left, sizeof left, "%s=%s", hit->option->name, value);
    else
        cli_flag_text(hit->option, left);
    fprintf(page->out, "%s   (", left);
    for (int i = first; i < hits->count; i++) {
        option_hit *other = &hits->list[i];

        if (other->printed || (other->kind == NULL) != (hit->kind == NULL) ||
            strcmp(other->option->help, hit->option->help) != 0)
            continue;
        other->printed = true;
        used +=
            (size_t)fprintf(page->out, "%s%s%s%s", used > 0 ? ", " : "",
                            other->kind ? other->kind : "", other->kind ? " " : "", other->owner);
    }
    fputs(")\n", page->out);
    snprintf(text, sizeof text, hit->option->standard[0] ? "%s [%s]" : "%s", hit->option->help,
             hit->option->standard);
    cli_page_text(page, 6, text);
}

bool cli_help_option(const char *word, bool behind)
{
    static option_hits hits;
    char name[CLI_FLAG_MAX];
    cli_page page;

    word += strspn(word, "-");
    snprintf(name, sizeof name, "%s", word);
    for (char *c = name; *c; c++)
        if (*c == '-')
            *c = '_';
    hits.count = 0;
    search_all(&hits, name);
    cli_page_init(&page, stdout);
    for (int i = 0; i < hits.count; i++)
        if (!hits.list[i].printed) {
            if (i > 0 || behind)
                fputc('\n', page.out);
            print_hit(&page, &hits, i);
        }
    return hits.count > 0;
}

/* Words for commands that have another name here. */
static const struct {
    const char *words;   /* "|a|b|" */
    const char *command; /* that does it */
    const char *how;     /* its command line */
} other_words[] = {
    { "|eval|test|score|measure|validate|accuracy|", "evaluate", "fast evaluate MODEL DATA" },
    { "|infer|inference|run|classify|generate|sample|apply|use|forward|", "predict",
      "fast predict MODEL DATA" },
    { "|describe|inspect|cat|print|model|view|metadata|", "show", "fast show MODEL" },
    { "|fit|learn|start|resume|continue|load|save|finetune|", "train",
      "fast train --help has --load, --save and --resume" },
    { "|onnx|convert|", "export", "fast export MODEL.safetensors MODEL.onnx" },
    { "|tune|sweep|search|grid|", "compare", "fast compare --tune lr=0.05,0.1" },
    { "|benchmark|perf|speed|profile|", "bench", "fast bench" },
    { "|sim|simulation|", "simulate", "fast simulate" },
    { "|list|ls|history|log|logs|status|results|", "runs", "fast runs" },
    { "|web|serve|server|dashboard|browser|gui|", "ui", "fast ui" },
    { "|features|about|config|build|", "info", "fast info" },
    { "|man|manual|usage|options|", "help", "fast help" },
    { NULL, NULL, NULL },
};

const char *cli_other_word(const char *word, const char **how_out)
{
    char barred[64];

    if (!word[0] || strlen(word) > sizeof barred - 3 || strchr(word, '|'))
        return NULL;
    snprintf(barred, sizeof barred, "|%s|", word);
    for (int i = 0; other_words[i].words; i++)
        if (strstr(other_words[i].words, barred)) {
            *how_out = other_words[i].how;
            return other_words[i].command;
        }
    return NULL;
}
