/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How much of the machine a run used over time, by column: {"wall_s": [...], "cpu": [...], ...}.
 * Rows come once a second; of a long run, each K successive ones become their mean, so that there
 * are at most SERVE_USAGE_MAX. `wall_s` is that of the last of them.
 */
#include "serve/server.h"

#include <math.h>

enum { USAGE_COLUMNS = 6 };

/* Columns after `seq`. */
static const char *const names[USAGE_COLUMNS] = { "wall_s",         "cpu",
                                                  "machine_cpu",    "memory",
                                                  "received_per_s", "sent_per_s" };

/* Rows on their way into columns. */
typedef struct usage_columns {
    int64_t rows;                   /* of the run */
    int64_t every;                  /* of which one mean is made */
    int64_t seen;                   /* rows so far */
    double sums[USAGE_COLUMNS];     /* of values since the last mean */
    int64_t counts[USAGE_COLUMNS];  /* of values in the sums */
    json_t *columns[USAGE_COLUMNS]; /* that are made */
} usage_columns;

/* First pass: count the rows. */
static fast_err count_row(void *ctx, const void *row)
{
    (void)row;
    ((usage_columns *)ctx)->rows++;
    return FAST_OK;
}

/* Second pass: add a row, and append the means of `every` rows. */
static fast_err add_row(void *ctx, const void *row)
{
    usage_columns *u = ctx;
    const fast_stored_usage *r = row;
    const double memory = r->memory < 0 ? NAN : (double)r->memory;
    const double values[USAGE_COLUMNS] = { r->wall_s,         r->cpu,       r->machine_cpu, memory,
                                           r->received_per_s, r->sent_per_s };

    u->seen++;
    for (int i = 0; i < USAGE_COLUMNS; i++) {
        if (isfinite(values[i])) {
            u->sums[i] = i == 0 ? values[i] : u->sums[i] + values[i];
            u->counts[i] = i == 0 ? 1 : u->counts[i] + 1;
        }
        /* The last mean may be of fewer rows: a run ends when it ends. */
        if (u->seen % u->every != 0 && u->seen != u->rows)
            continue;
        fast__json_append(&u->columns[i],
                          fast__json_exact(u->counts[i] ? u->sums[i] / (double)u->counts[i] : NAN));
        u->sums[i] = 0;
        u->counts[i] = 0;
    }
    return FAST_OK;
}

/* Rows are read twice, since their number decides how many become one mean. A store that cannot be
 * read gives empty columns: the page of a run does without them. */
json_t *fast__serve_usage(fast_server *server, int64_t run)
{
    usage_columns u = { .rows = 0 };
    json_t *object = json_object();

    if (fast_store_read(server->store, FAST_STORE_USAGE, run, -1, count_row, &u) != FAST_OK)
        u.rows = 0;
    u.every = (u.rows + SERVE_USAGE_MAX - 1) / SERVE_USAGE_MAX;
    u.every = u.every < 1 ? 1 : u.every;
    for (int i = 0; i < USAGE_COLUMNS; i++)
        u.columns[i] = json_array();
    if (u.rows > 0)
        (void)!fast_store_read(server->store, FAST_STORE_USAGE, run, -1, add_row, &u);
    for (int i = 0; i < USAGE_COLUMNS; i++)
        fast__json_set(&object, names[i], u.columns[i]);
    return object;
}
