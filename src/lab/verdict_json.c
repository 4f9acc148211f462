/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A comparison as JSON, for the store, the pages and `fast compare --json`: the verdict in words
 * and the facts that it is made of, lines with their measures, trials and runs.
 *
 *   {"verdict": "Choose easgd: ...", "complete": true, "best": "easgd", "ties": ["ad-psgd"],
 *    "open": [], "by": "time_s", "target": 0.95, "budget": null, "seeds": 3, "trials": 7,
 *    "cost": {"trials": {...}, "runs": {...}}, "changes": [{...}], "run_it": "fast train ...",
 *    "lines": [{"name": "easgd", "place": 1, "to_target": {"median": ..., "min": ..., "max": ...},
 *               "edge": "lr=0.4", "limit": null, "trials": [...], "runs": [...]}, ...]}
 *
 * `best` is null where nothing is recommended. Amounts of `to_target` have the unit of `by`.
 */
#include "lab/compare.h"

#include "base/memory.h"
#include "store/store.h"

#include <math.h>
#include <stddef.h>
#include <string.h>
#include <time.h>

/* A spread as an object; null where nothing was measured. */
static json_t *spread_json(const fast_compare_spread *s)
{
    json_t *o = json_object();

    if (isnan(s->median)) {
        json_decref(o);
        return json_null();
    }
    fast__json_set(&o, "median", fast__json_real(s->median));
    fast__json_set(&o, "min", fast__json_real(s->min));
    fast__json_set(&o, "max", fast__json_real(s->max));
    return o;
}

/* One run or trial. */
static json_t *run_json(const fast_compared_run *run)
{
    const fast_compare_measures *m = &run->measures;
    json_t *o = json_object();

    fast__json_set(&o, "seed", json_integer(run->seed));
    fast__json_set(&o, "tuned", fast__json_text(run->tuned));
    fast__json_set(&o, "status", fast__json_text(run->status));
    fast__json_set(&o, "error", fast__json_text(run->error));
    fast__json_set(&o, "command", fast__json_text(run->command));
    fast__json_set(&o, "time_to_target_s", fast__json_real(m->time_to_target_s));
    fast__json_set(&o, "test_accuracy", fast__json_real(m->test_accuracy));
    fast__json_set(&o, "test_loss", fast__json_real(m->test_loss));
    fast__json_set(&o, "time_s", fast__json_real(m->time_s));
    fast__json_set(&o, "samples", fast__json_real(m->samples));
    fast__json_set(&o, "bytes_sent", fast__json_real(m->bytes_sent));
    return o;
}

/* Runs or trials of a line. */
static json_t *runs_json(const fast_compared_run *runs, int64_t count)
{
    json_t *array = json_array();

    for (int64_t i = 0; i < count; i++)
        fast__json_append(&array, run_json(&runs[i]));
    return array;
}

/* The spreads of a line, by the names of their measures. */
static const struct {
    const char *name;
    size_t at;
} spreads[] = {
#define SPREAD(name)                         \
    {                                        \
#name, offsetof(fast_compared, name) \
    }
    SPREAD(to_target),  SPREAD(time_to_target_s), SPREAD(accuracy),
    SPREAD(test_loss),  SPREAD(time_s),           SPREAD(samples),
    SPREAD(bytes_sent), SPREAD(compute_share),    SPREAD(exchange_share),
    SPREAD(wait_share), SPREAD(codec_share),      SPREAD(staleness),
    SPREAD(divergence), SPREAD(step_s),           SPREAD(predicted_step_s),
#undef SPREAD
};

/* One line. */
static json_t *line_json(const fast_compare *compare, const fast_compared *line)
{
    json_t *o = json_object();
    char edge[64], limit[96];

    fast__line_limit(compare, line, limit);
    fast__json_set(&o, "name", fast__json_text(line->name));
    fast__json_set(&o, "place", line->place > 0 ? json_integer(line->place) : json_null());
    fast__json_set(&o, "tuned", fast__json_text(line->tuned[0] ? line->tuned : NULL));
    fast__json_set(&o, "edge", fast__json_text(fast__line_edge(compare, line, edge) ? edge : NULL));
    fast__json_set(&o, "reached", json_integer(line->reached_count));
    fast__json_set(&o, "failed", json_integer(line->failed_count));
    fast__json_set(&o, "error", fast__json_text(line->error));
    fast__json_set(&o, "limit", fast__json_text(isfinite(line->not_within) ? limit : NULL));
    for (size_t i = 0; i < sizeof spreads / sizeof *spreads; i++)
        fast__json_set(&o, spreads[i].name,
                       spread_json((const void *)((const char *)line + spreads[i].at)));
    fast__json_set(&o, "trials", runs_json(line->trials, line->trial_count));
    fast__json_set(&o, "runs", runs_json(line->runs, line->run_count));
    return o;
}

/* Names of the lines that a function takes. */
static json_t *names_json(const fast_compare *compare,
                          bool (*takes)(const fast_compare *, const fast_compared *))
{
    json_t *array = json_array();

    for (int64_t i = 0; i < compare->line_count; i++)
        if (!compare->canceled && takes(compare, &compare->lines[i]))
            fast__json_append(&array, fast__json_text(compare->lines[i].name));
    return array;
}

/* Answers to "what if". */
static json_t *changes_json(const fast_compare *compare)
{
    json_t *array = json_array();

    for (int64_t i = 0; i < compare->changes.count; i++) {
        const fast_compare_change *c = &compare->changes.items[i];
        json_t *o = json_object();

        fast__json_set(&o, "what", fast__json_text(c->what));
        fast__json_set(&o, "first", fast__json_text(c->first));
        fast__json_set(&o, "other", fast__json_text(c->other));
        fast__json_set(&o, "predicted_s", fast__json_real(c->predicted_s));
        fast__json_set(&o, "first_s", fast__json_real(c->first_s));
        fast__json_set(&o, "other_s", fast__json_real(c->other_s));
        fast__json_append(&array, o);
    }
    return array;
}

/* Samples and seconds that a kind of runs has used, whole or not. */
static json_t *cost_json(const fast_compare *compare, bool trials)
{
    double samples, seconds;
    json_t *o = json_object();

    fast_compare_cost(compare, trials, &samples, &seconds);
    fast__json_set(&o, "samples", fast__json_real(samples));
    fast__json_set(&o, "time_s", fast__json_real(seconds));
    return o;
}

json_t *fast__verdict_json(const fast_compare *compare)
{
    const fast_compared *first = compare->lines;
    const bool chosen = !compare->canceled && first->shown;
    json_t *o = json_object(), *cost = json_object(), *lines = json_array();
    char budget[48] = "";

    fast__budget_text(&compare->budget, compare->budget.amount, budget);
    fast__json_set(&o, "name", fast__json_text(fast_compare_name(compare)));
    fast__json_set(&o, "verdict", fast__json_text(compare->verdict));
    fast__json_set(&o, "complete", json_boolean(!compare->canceled));
    fast__json_set(&o, "best", fast__json_text(chosen ? first->name : NULL));
    fast__json_set(&o, "run_it", fast__json_text(chosen ? first->runs[0].command : NULL));
    fast__json_set(&o, "ties", names_json(compare, fast__line_ties));
    fast__json_set(&o, "open", names_json(compare, fast__line_is_open));
    fast__json_set(&o, "by", fast__json_text(fast_compare_measure(compare)));
    fast__json_set(&o, "target", fast__json_real(compare->target > 0 ? compare->target : NAN));
    fast__json_set(&o, "budget", fast__json_text(compare->budget.amount > 0 ? budget : NULL));
    fast__json_set(&o, "seeds", json_integer(compare->seed_count));
    fast__json_set(&o, "trials", json_integer(compare->trial_count));
    fast__json_set(&o, "command", fast__json_text(compare->command));
    fast__json_set(&cost, "trials", cost_json(compare, true));
    fast__json_set(&cost, "runs", cost_json(compare, false));
    fast__json_set(&o, "cost", cost);
    fast__json_set(&o, "changes", changes_json(compare));
    for (int64_t i = 0; i < compare->line_count; i++)
        fast__json_append(&lines, line_json(compare, &compare->lines[i]));
    fast__json_set(&o, "lines", lines);
    return o;
}

fast_err fast_compare_json(const fast_compare *compare, FILE *out)
{
    json_t *o = fast__verdict_json(compare);

    return fast__json_write(&o, out);
}

fast_err fast__verdict_store(const fast_compare *compare)
{
    const char *path = strcmp(compare->store, "auto") == 0 ? NULL : compare->store;
    json_t *o = fast__verdict_json(compare);
    fast_store *store = NULL;
    char *text = NULL;

    if (!fast_compare_name(compare)) {
        json_decref(o);
        return FAST_OK;
    }
    FAST_TRY(fast__json_print(&o, &text));
    fast_err err = fast_store_open(path, true, &store);
    if (!err) {
        err = fast__store_comparison_put(
            store,
            &(fast_stored_comparison){ .name = compare->name,
                                       .created = (double)time(NULL),
                                       .status = compare->canceled ? "incomplete" : "complete",
                                       .command = compare->command,
                                       .verdict = compare->verdict,
                                       .result = text });
        fast_store_close(store);
    }
    fast__free(text);
    /* The verdict is told in any case; a build without SQLite, or a full disk, does not hide it. */
    return err == FAST_ENOMEM ? err : FAST_OK;
}
