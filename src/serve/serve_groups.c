/* SPDX-License-Identifier: Apache-2.0 */
/*
 * GET /api/groups?by=WORD: runs in groups, with medians and ranges over the runs of each, as
 * {"groups": [...], "total": groups}. Conditions are those of /api/runs.
 *
 *     by           runs in one group have the same
 *     comparison   batch_of
 *     tag          tag; a run with several tags is in several groups
 *     system       system, or strategy where it has none
 *     options      options but for the seed: medians are over seeds
 *
 *     {"key": "ssp", "runs": 5, "running": 0, "seeds": 5, "ids": [9, 8, 7, 6, 5], "run": {newest},
 *      "test_accuracy": {"count": 5, "median": 0.91, "min": 0.90, "max": 0.92}, ...}
 *
 * Measures are of runs that came to their end: a run that still trains would pull them down.
 *
 * One pass over the runs, newest first: a table finds the group of a key, and the measures of each
 * run are one entry. Entries are then sorted by group, and the values of each group by size. Cost:
 * n log n for n runs; 10,000 take some tens of milliseconds.
 */
#include "serve/server.h"

#include "base/memory.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { KEY_MAX = 8192, IDS_MAX = 200, GROUPS_MAX = 2000, MEASURES = 6 };

/* The measures of a group: columns of `runs`. */
static const char *const measures[MEASURES] = { "test_accuracy",    "loss",
                                                "time_to_target_s", "time_s",
                                                "samples_per_s",    "bytes_sent" };

/* Measures of one run in one group. */
typedef struct group_entry {
    int64_t group;           /* its number */
    int64_t seed;            /* of the run */
    double values[MEASURES]; /* NAN: not measured, or the run has not come to its end */
} group_entry;

/* Groups so far. */
typedef struct group_list {
    fast_server *server;  /* whose store is read */
    const char *by;       /* comparison, tag, system or options */
    json_t *numbers;      /* key -> number of the group */
    json_t *groups;       /* by number */
    group_entry *entries; /* [room] */
    int64_t count;        /* number of entries */
    int64_t room;         /* for entries */
} group_list;

/* Double the room for entries. */
static fast_err grow(group_list *list)
{
    group_entry *entries = NULL;
    const int64_t room = list->room ? 2 * list->room : 256;

    FAST_TRY(fast__alloc("runs in groups", room, sizeof *entries, &entries));
    if (list->count > 0)
        memcpy(entries, list->entries, (size_t)list->count * sizeof *entries);
    fast__free(list->entries);
    list->entries = entries;
    list->room = room;
    return FAST_OK;
}

/* Find the group of a key, or make one, whose first run is its newest. -1: there are too many. */
static int64_t group_of(group_list *list, const char *key, const fast_stored_run *run)
{
    const json_t *found = json_object_get(list->numbers, key);
    const int64_t number = (int64_t)json_array_size(list->groups);
    json_t *group;

    if (found)
        return json_integer_value(found);
    if (number == GROUPS_MAX)
        return -1;
    group = json_object();
    fast__json_set(&group, "key", fast__json_text(key));
    fast__json_set(&group, "run", fast__serve_row(FAST_STORE_RUNS, run));
    fast__json_set(&group, "ids", json_array());
    fast__json_set(&group, "runs", json_integer(0));
    fast__json_set(&group, "running", json_integer(0));
    fast__json_append(&list->groups, group);
    fast__json_set(&list->numbers, key, json_integer(number));
    return list->groups && list->numbers ? number : -1;
}

/* True if a run came to its end, so that its measures count. */
static bool is_whole(const char *status)
{
    return strcmp(status, "done") == 0 || strcmp(status, "target") == 0 ||
           strcmp(status, "patience") == 0;
}

/* Add one to a number of a group. */
static void count_up(json_t *group, const char *name)
{
    json_t *value = json_object_get(group, name);

    json_integer_set(value, json_integer_value(value) + 1);
}

/* Add a run to the group of a key. */
static fast_err add_to(group_list *list, const char *key, const fast_stored_run *run)
{
    const double values[MEASURES] = {
        run->test_accuracy, run->loss,          run->time_to_target_s,
        run->time_s,        run->samples_per_s, run->bytes_sent < 0 ? NAN : (double)run->bytes_sent
    };
    const int64_t number = group_of(list, key, run);
    json_t *group, *ids;

    if (!list->groups || !list->numbers)
        return fast__fail(FAST_ENOMEM, "out of memory");
    if (number < 0)
        return FAST_OK;
    if (list->count == list->room)
        FAST_TRY(grow(list));
    group_entry *entry = &list->entries[list->count++];
    entry->group = number;
    entry->seed = run->seed;
    for (int i = 0; i < MEASURES; i++)
        entry->values[i] = is_whole(run->status) ? values[i] : NAN;
    group = json_array_get(list->groups, (size_t)number);
    ids = json_object_get(group, "ids");
    count_up(group, "runs");
    if (strcmp(run->status, "running") == 0)
        count_up(group, "running");
    /* A page lists the runs of a group by their numbers, if there are not too many for an address;
     * larger groups are found by their key. */
    if (json_array_size(ids) < IDS_MAX && json_array_append_new(ids, json_integer(run->id)) != 0)
        return fast__fail(FAST_ENOMEM, "out of memory");
    return FAST_OK;
}

/* A run and the list that it belongs in, for the tags of the run. */
typedef struct tagged_run {
    group_list *list;           /* where to */
    const fast_stored_run *run; /* lent */
    bool tagged;                /* it has a tag */
} tagged_run;

/* Add the run to the group of one of its tags. */
static fast_err add_tagged(void *ctx, const void *row)
{
    tagged_run *tagged = ctx;

    tagged->tagged = true;
    return add_to(tagged->list, ((const fast_stored_tag *)row)->tag, tagged->run);
}

/* Append the words of a command, but for the seed and what a run is called. */
static void add_command(char key[KEY_MAX], size_t used, const char *at)
{
    static const char *const own[] = { "--seed", "--name", "--batch-of", "--store" };
    bool skip = false;

    while (*at) {
        bool quoted = false, mine = skip;
        size_t size = 0;

        for (; at[size] && (quoted || at[size] != ' '); size++) {
            size += !quoted && at[size] == '\\' && at[size + 1];
            quoted ^= at[size] == '\'' && !(size > 0 && !quoted && at[size - 1] == '\\');
        }
        for (size_t i = 0; !skip && i < sizeof own / sizeof *own; i++) {
            const size_t length = strlen(own[i]);

            mine |= strncmp(at, own[i], length) == 0 && (size == length || at[length] == '=');
        }
        skip = !skip && mine && !memchr(at, '=', size);
        if (!mine && used + size + 2 < KEY_MAX)
            used += (size_t)snprintf(key + used, KEY_MAX - used, " %.*s", (int)size, at);
        at += size + (at[size] == ' ');
    }
}

/* Write all options that make a run, but for its seed, as one key. */
static void options_key(const fast_stored_run *run, char key[KEY_MAX])
{
    const char *const texts[] = { run->system,  run->strategy, run->topology,
                                  run->model,   run->data,     run->transport,
                                  run->cluster, run->codec,    run->optimizer };
    size_t used = (size_t)snprintf(key, KEY_MAX, "%lld %lld %lld %.17g", (long long)run->workers,
                                   (long long)run->batch, (long long)run->step_count, run->lr);

    for (size_t i = 0; i < sizeof texts / sizeof *texts && used < KEY_MAX; i++)
        used += (size_t)snprintf(key + used, KEY_MAX - used, "|%s", texts[i] ? texts[i] : "");
    if (run->command && used < KEY_MAX)
        add_command(key, used, run->command);
}

/* Add a run to its group, or by tag to its groups. */
static fast_err add_grouped(void *ctx, const void *row)
{
    group_list *list = ctx;
    const fast_stored_run *run = row;
    char key[KEY_MAX] = "";

    if (strcmp(list->by, "tag") == 0) {
        tagged_run tagged = { list, run, false };

        FAST_TRY(fast_store_read(list->server->store, FAST_STORE_TAGS, run->id, -1, add_tagged,
                                 &tagged));
        return tagged.tagged ? FAST_OK : add_to(list, "", run);
    }
    if (strcmp(list->by, "comparison") == 0)
        snprintf(key, sizeof key, "%s", run->batch_of ? run->batch_of : "");
    else if (strcmp(list->by, "options") == 0)
        options_key(run, key);
    else if (run->system || run->strategy)
        snprintf(key, sizeof key, "%.*s",
                 run->system ? KEY_MAX - 1 : (int)strcspn(run->strategy, ":"),
                 run->system ? run->system : run->strategy);
    return add_to(list, key, run);
}

/* Order entries by group, then by seed, so that equal seeds lie together. */
static int compare_entries(const void *a, const void *b)
{
    const group_entry *x = a, *y = b;

    return x->group != y->group ? (x->group > y->group) - (x->group < y->group)
                                : (x->seed > y->seed) - (x->seed < y->seed);
}

/* Order numbers by size; NAN is left out before. */
static int compare_values(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

/* One measure of a group: count, median, min and max of the values that are numbers. */
static json_t *spread_of(const group_entry *entries, int64_t count, int measure, double *scratch)
{
    json_t *spread = json_object();
    int64_t n = 0;

    for (int64_t i = 0; i < count; i++)
        if (isfinite(entries[i].values[measure]))
            scratch[n++] = entries[i].values[measure];
    if (n > 0)
        qsort(scratch, (size_t)n, sizeof *scratch, compare_values);
    fast__json_set(&spread, "count", json_integer(n));
    fast__json_set(&spread, "median",
                   fast__json_exact(n ? (scratch[(n - 1) / 2] + scratch[n / 2]) / 2 : NAN));
    fast__json_set(&spread, "min", fast__json_exact(n ? scratch[0] : NAN));
    fast__json_set(&spread, "max", fast__json_exact(n ? scratch[n - 1] : NAN));
    return spread;
}

/* Add the spreads of all measures to each group. */
static fast_err add_spreads(group_list *list)
{
    double *scratch = NULL;

    FAST_TRY(fast__alloc("values of groups", list->count + 1, sizeof *scratch, &scratch));
    if (list->count > 0)
        qsort(list->entries, (size_t)list->count, sizeof *list->entries, compare_entries);
    for (int64_t first = 0, end; first < list->count; first = end) {
        const group_entry *entries = &list->entries[first];
        json_t *group = json_array_get(list->groups, (size_t)entries->group);
        int64_t seeds = 1;

        for (end = first + 1; end < list->count && list->entries[end].group == entries->group;
             end++)
            seeds += list->entries[end].seed != list->entries[end - 1].seed;
        json_object_set_new(group, "seeds", json_integer(seeds));
        for (int i = 0; i < MEASURES; i++)
            json_object_set_new(group, measures[i], spread_of(entries, end - first, i, scratch));
    }
    fast__free(scratch);
    return FAST_OK;
}

/* Groups that do not fit are left out, the oldest first, as runs come from the newest on. */
void fast__serve_groups(fast_server *server, fast_http_request *request, int64_t id)
{
    const char *by = fast__uri_arg(fast__request_uri(request), "by");
    group_list list = { .server = server, .by = by };
    fast_store_query query;
    json_t *answer = NULL;
    fast_err err = FAST_OK;

    (void)id;
    if (!by || (strcmp(by, "comparison") != 0 && strcmp(by, "tag") != 0 &&
                strcmp(by, "system") != 0 && strcmp(by, "options") != 0)) {
        fast__reply_error(request, 400, "by is comparison, tag, system or options");
        return;
    }
    fast__serve_query(request, &query);
    /* The first run of a group that is met is its newest, and shows the options of the group; runs
     * are not sorted by what the list is sorted by. */
    query.sort = "-id";
    list.numbers = json_object();
    list.groups = json_array();
    err = fast_store_list(server->store, &query, add_grouped, &list, NULL);
    if (!err)
        err = add_spreads(&list);
    fast__free(list.entries);
    json_decref(list.numbers);
    if (err) {
        json_decref(list.groups);
        fast__reply_err(request, err);
        return;
    }
    answer = json_object();
    fast__json_set(&answer, "total", json_integer((json_int_t)json_array_size(list.groups)));
    fast__json_set(&answer, "groups", list.groups);
    fast__reply_json(request, 200, &answer);
}
