/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The program's own tables as JSON: systems, options of a run with the parts that they name, and
 * clusters. They are read from fast_part_list() and fast_system_list(), as help and the manual are,
 * so that a form in the dashboard has what the command line has.
 */
#include "serve/server.h"

#include <string.h>

/* Kinds of parts that options name. */
static const char *const kinds[] = { "model",   "data",      "optimizer",      "schedule",
                                     "engine",  "strategy",  "topology",       "codec",
                                     "cluster", "transport", "representative", "system",
                                     "fault" };

/* "a|b|c" as an array. */
static void put_words(fast_page *text, const char *words)
{
    char word[128];

    fast__page_add(text, "[");
    while (words && *words) {
        const size_t length = strcspn(words, "|");

        if (length > 0 && length < sizeof word) {
            memcpy(word, words, length);
            word[length] = '\0';
            fast__page_comma(text);
            fast__page_string(text, word);
        }
        words += length + (words[length] == '|');
    }
    fast__page_add(text, "]");
}

static void put_option(fast_page *text, const fast_option *option)
{
    static const char *const types[] = { "bool", "int", "real", "text", "choice" };
    const bool limited = option->min < option->max;

    fast__page_comma(text);
    fast__page_add(text, "{");
    fast__page_pair(text, "name", option->name);
    fast__page_pair(text, "standard", option->standard);
    fast__page_pair(text, "help", option->help);
    fast__page_pair(text, "type", types[option->type]);
    fast__page_key(text, "min");
    if (limited)
        fast__page_real(text, option->min);
    else
        fast__page_add(text, "null");
    fast__page_key(text, "max");
    if (limited)
        fast__page_real(text, option->max);
    else
        fast__page_add(text, "null");
    fast__page_key(text, "choices");
    if (option->type == FAST_OPTION_CHOICE)
        put_words(text, option->choices);
    else
        fast__page_add(text, "null");
    fast__page_pair(text, "kind", option->type == FAST_OPTION_TEXT ? option->choices : NULL);
    fast__page_add(text, "}");
}

static void put_options(fast_page *text, const fast_option *options)
{
    fast__page_add(text, "[");
    for (const fast_option *option = options; option && option->name; option++)
        put_option(text, option);
    fast__page_add(text, "]");
}

/* The parts of a kind, each with its options. */
static void put_parts(fast_page *text, const char *kind)
{
    int64_t count = 0;
    const fast_part *parts = fast_part_list(kind, &count);

    fast__page_add(text, "[");
    for (int64_t i = 0; i < count; i++) {
        fast__page_comma(text);
        fast__page_add(text, "{");
        fast__page_pair(text, "name", parts[i].name);
        fast__page_pair(text, "summary", parts[i].summary ? parts[i].summary : "");
        fast__page_key(text, "options");
        put_options(text, parts[i].options);
        fast__page_add(text, "}");
    }
    fast__page_add(text, "]");
}

void fast__serve_options(fast_server *server, fast_request *request, int64_t id)
{
    fast_page text = { .bytes = NULL };
    int64_t count = 0;
    const fast_part *train = fast_part_list("train", &count);

    (void)id;
    fast__page_add(&text, "{\"groups\":[");
    for (const fast_option_group *group = server->groups; group; group++) {
        fast__page_comma(&text);
        fast__page_add(&text, "{");
        fast__page_pair(&text, "title", group->title);
        fast__page_key(&text, "names");
        put_words(&text, group->names);
        fast__page_add(&text, "}");
        if (!group->names)
            break;
    }
    fast__page_add(&text, "]");
    fast__page_key(&text, "options");
    put_options(&text, count > 0 ? train[0].options : NULL);
    fast__page_key(&text, "parts");
    fast__page_add(&text, "{");
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
        fast__page_key(&text, kinds[i]);
        put_parts(&text, kinds[i]);
    }
    fast__page_add(&text, "}}");
    fast__reply(request, 200, "application/json", &text);
}

void fast__serve_clusters(fast_server *server, fast_request *request, int64_t id)
{
    fast_page text = { .bytes = NULL };

    (void)server;
    (void)id;
    fast__page_add(&text, "{");
    fast__page_key(&text, "clusters");
    put_parts(&text, "cluster");
    fast__page_key(&text, "faults");
    put_parts(&text, "fault");
    fast__page_add(&text, "}");
    fast__reply(request, 200, "application/json", &text);
}

static void put_system(fast_page *text, const fast_system *s)
{
    fast__page_comma(text);
    fast__page_add(text, "{");
    fast__page_pair(text, "name", s->name);
    fast__page_pair(text, "title", s->title);
    fast__page_pair(text, "by", s->by);
    fast__page_key(text, "row");
    if (s->row > 0)
        fast__page_int(text, s->row);
    else
        fast__page_add(text, "null");
    fast__page_pair(text, "flags", s->flags);
    fast__page_pair(text, "parallelism", s->parallelism);
    fast__page_pair(text, "optimisation", s->optimisation);
    fast__page_pair(text, "scheduling", s->scheduling);
    fast__page_pair(text, "exchange", s->exchange);
    fast__page_pair(text, "topology", s->topology);
    fast__page_pair(text, "consistency", s->consistency);
    fast__page_pair(text, "remarks", s->remarks);
    fast__page_pair(text, "missing", s->missing);
    fast__page_pair(text, "alias_of", s->alias_of);
    fast__page_pair(text, "differs", s->differs);
    fast__page_add(text, "}");
}

void fast__serve_systems(fast_server *server, fast_request *request, int64_t id)
{
    fast_page text = { .bytes = NULL };
    int64_t count = 0;
    const fast_system *systems = fast_system_list(&count);

    (void)server;
    (void)id;
    fast__page_add(&text, "{\"systems\":[");
    for (int64_t i = 0; i < count; i++)
        put_system(&text, &systems[i]);
    fast__page_add(&text, "]}");
    fast__reply(request, 200, "application/json", &text);
}
