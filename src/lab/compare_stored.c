/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Runs that the store has from before. A comparison that the user named and that was stopped
 * continues where it was: runs under its name that are whole, and whose command is the same word
 * for word, are read instead of run; a run that diverged would do so again. The command holds
 * everything that a run depends on, its seed included.
 *
 * Runs are listed once, at the beginning; what is read of one is its result, which is the object of
 * `fast train --json`, and its evaluations. No store, or one that cannot be read, is no reason to
 * stop: everything is then run.
 *
 * Example: `fast compare --name lr-study ...` is stopped when 50 of its 80 tasks have a result. The
 * same command reads those 50, chooses by the stored trials as it did before, and runs the other
 * 30. With another option in the job all commands differ, and all 80 run. A comparison that the
 * user did not name gets a new name each time and reads nothing.
 */
#include "lab/compare.h"

#include "base/memory.h"
#include "fast/store.h"

#include <math.h>
#include <string.h>

struct fast_compare_stored {
    fast_store *store;   /* open for reading */
    fast_words commands; /* of whole runs */
    int64_t *ids;        /* numbers in the store of the commands' runs */
    int64_t size;        /* places of `ids` */
};

/* Note a run of the store that may be used again. */
static fast_err add_run(void *ctx, const void *row)
{
    fast_compare_stored *stored = ctx;
    const fast_stored_run *run = row;

    if (!run->command || stored->commands.count == stored->size)
        return FAST_OK;
    FAST_TRY(fast__words_add(&stored->commands, run->command));
    stored->ids[stored->commands.count - 1] = run->id;
    return FAST_OK;
}

fast_err fast__compare_stored_open(const fast_compare *compare, fast_compare_stored **out)
{
    char where[160];
    const bool standard = strcmp(compare->store, "auto") == 0;
    fast_compare_stored *stored;
    fast_err err;

    *out = NULL;
    if (!compare->named || strcmp(compare->store, "none") == 0)
        return FAST_OK;
    FAST_TRY(fast__alloc("stored runs", 1, sizeof *stored, &stored));
    stored->size = FAST_COMPARE_RUNS_MAX;
    err = fast__alloc("stored runs", stored->size, sizeof *stored->ids, &stored->ids);
    if (!err)
        err = fast_store_open(standard ? NULL : compare->store, false, &stored->store);
    snprintf(where, sizeof where, "batch_of=%s", compare->name);
    if (!err)
        err = fast_store_list(
            stored->store, &(fast_store_query){ .where = where, .status = "done,target,diverged" },
            add_run, stored, NULL);
    if (err) {
        fast__compare_stored_close(stored);
        return err == FAST_ENOMEM ? err : FAST_OK;
    }
    *out = stored;
    return FAST_OK;
}

/* Read the result of a stored run. */
static fast_err read_result(void *ctx, const void *row)
{
    const fast_stored_run *run = row;

    return run->result ? fast__task_read(ctx, run->result) : FAST_OK;
}

/* Read one evaluation of a stored run. */
static fast_err read_point(void *ctx, const void *row)
{
    const fast_stored_metric *m = row;

    return fast__task_point(ctx, &(fast_compare_point){ .time_s = m->time_s,
                                                        .samples = (double)m->samples,
                                                        .bytes_sent = (double)m->bytes,
                                                        .test_accuracy = m->test_accuracy,
                                                        .test_loss = m->test_loss,
                                                        .divergence = m->divergence,
                                                        .staleness_mean = m->staleness_mean,
                                                        .progress = NAN });
}

fast_err fast__compare_stored_read(fast_compare_stored *stored, fast_compare_task *task,
                                   bool *found_out)
{
    *found_out = false;
    for (int64_t i = 0; stored && task->key && i < stored->commands.count; i++) {
        if (strcmp(stored->commands.items[i], task->key) != 0)
            continue;
        fast_err err = fast_store_read(stored->store, FAST_STORE_METRICS, stored->ids[i], -1,
                                       read_point, task);
        if (!err)
            err = fast_store_find(stored->store, stored->ids[i], read_result, task);
        if (err == FAST_ENOMEM)
            return err;
        *found_out = !err && task->outcome;
        return FAST_OK;
    }
    return FAST_OK;
}

void fast__compare_stored_close(fast_compare_stored *stored)
{
    if (!stored)
        return;
    fast_store_close(stored->store);
    fast__words_fini(&stored->commands);
    fast__free(stored->ids);
    fast__free(stored);
}
