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
static json_t *words_of(const char *words)
{
    json_t *array = json_array();

    while (words && *words) {
        const size_t length = strcspn(words, "|");

        if (length > 0)
            fast__json_append(&array, json_stringn(words, length));
        words += length + (words[length] == '|');
    }
    return array;
}

/* One option as an object. Limits are null where a number has none. */
static json_t *option_of(const fast_option *option)
{
    static const char *const types[] = { "bool", "int", "real", "text", "choice" };
    const bool limited = option->min < option->max;
    json_t *o = json_object();

    fast__json_set(&o, "name", fast__json_text(option->name));
    fast__json_set(&o, "standard", fast__json_text(option->standard));
    fast__json_set(&o, "help", fast__json_text(option->help));
    fast__json_set(&o, "type", fast__json_text(types[option->type]));
    fast__json_set(&o, "min", limited ? fast__json_exact(option->min) : json_null());
    fast__json_set(&o, "max", limited ? fast__json_exact(option->max) : json_null());
    fast__json_set(&o, "choices",
                   option->type == FAST_OPTION_CHOICE ? words_of(option->choices) : json_null());
    fast__json_set(&o, "kind",
                   fast__json_text(option->type == FAST_OPTION_TEXT ? option->choices : NULL));
    return o;
}

/* A table of options as an array. */
static json_t *options_of(const fast_option *options)
{
    json_t *array = json_array();

    for (const fast_option *option = options; option && option->name; option++)
        fast__json_append(&array, option_of(option));
    return array;
}

/* The parts of a kind, each with its options. */
static json_t *parts_of(const char *kind)
{
    int64_t count = 0;
    const fast_part *parts = fast_part_list(kind, &count);
    json_t *array = json_array();

    for (int64_t i = 0; i < count; i++) {
        json_t *part = json_object();

        fast__json_set(&part, "name", fast__json_text(parts[i].name));
        fast__json_set(&part, "summary", fast__json_text(parts[i].summary ? parts[i].summary : ""));
        fast__json_set(&part, "options", options_of(parts[i].options));
        fast__json_append(&array, part);
    }
    return array;
}

/* GET /api/options: the options of a run in groups, and every part that they can name. */
void fast__serve_options(fast_server *server, fast_http_request *request, int64_t id)
{
    json_t *groups = json_array(), *parts = json_object(), *answer = json_object();
    int64_t count = 0;
    const fast_part *train = fast_part_list("train", &count);

    (void)id;
    /* The last group has no names: it takes all options that no other group names. */
    for (const fast_option_group *group = server->groups; group; group++) {
        json_t *o = json_object();

        fast__json_set(&o, "title", fast__json_text(group->title));
        fast__json_set(&o, "names", words_of(group->names));
        fast__json_append(&groups, o);
        if (!group->names)
            break;
    }
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++)
        fast__json_set(&parts, kinds[i], parts_of(kinds[i]));
    fast__json_set(&answer, "groups", groups);
    fast__json_set(&answer, "options", options_of(count > 0 ? train[0].options : NULL));
    fast__json_set(&answer, "parts", parts);
    fast__reply_json(request, 200, &answer);
}

/* GET /api/clusters: presets of clusters, and the kinds of faults. */
void fast__serve_clusters(fast_server *server, fast_http_request *request, int64_t id)
{
    json_t *answer = json_object();

    (void)server;
    (void)id;
    fast__json_set(&answer, "clusters", parts_of("cluster"));
    fast__json_set(&answer, "faults", parts_of("fault"));
    fast__reply_json(request, 200, &answer);
}

/* One system as an object, with the columns of the survey that it comes from. */
static json_t *system_of(const fast_system *s)
{
    const char *const texts[][2] = {
        { "flags", s->flags },
        { "parallelism", s->parallelism },
        { "optimisation", s->optimisation },
        { "scheduling", s->scheduling },
        { "exchange", s->exchange },
        { "topology", s->topology },
        { "consistency", s->consistency },
        { "remarks", s->remarks },
        { "missing", s->missing },
        { "alias_of", s->alias_of },
        { "differs", s->differs },
    };
    json_t *o = json_object();

    fast__json_set(&o, "name", fast__json_text(s->name));
    fast__json_set(&o, "title", fast__json_text(s->title));
    fast__json_set(&o, "by", fast__json_text(s->by));
    fast__json_set(&o, "row", s->row > 0 ? json_integer(s->row) : json_null());
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++)
        fast__json_set(&o, texts[i][0], fast__json_text(texts[i][1]));
    return o;
}

/* GET /api/systems: all presets. */
void fast__serve_systems(fast_server *server, fast_http_request *request, int64_t id)
{
    json_t *array = json_array(), *answer = json_object();
    int64_t count = 0;
    const fast_system *systems = fast_system_list(&count);

    (void)server;
    (void)id;
    for (int64_t i = 0; i < count; i++)
        fast__json_append(&array, system_of(&systems[i]));
    fast__json_set(&answer, "systems", array);
    fast__reply_json(request, 200, &answer);
}
