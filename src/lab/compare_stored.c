/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Runs that the store has from before. A comparison that the user named and that was stopped goes
 * on where it was: runs under its name that are whole, and whose command is the same word for word,
 * are read instead of run; what diverged would do so again. The command holds everything that a run
 * depends on, its seed included.
 *
 * Runs are listed once, at the beginning; what is read of one is its result, which is the object of
 * `fast train --json`, and its evaluations. No store, or one that cannot be read, is no reason to
 * stop: everything is then run.
 */
#include "lab/compare.h"

#include "base/memory.h"
#include "fast/store.h"

#include <math.h>
#include <string.h>

struct fast_kept {
    fast_store *store;
    fast_words commands; /* of whole runs */
    int64_t *ids;        /* theirs */
    int64_t size;        /* places of `ids` */
};

static fast_err add_run(void *ctx, const void *row)
{
    fast_kept *kept = ctx;
    const fast_stored_run *run = row;

    if (!run->command || kept->commands.count == kept->size)
        return FAST_OK;
    FAST_TRY(fast__words_add(&kept->commands, run->command));
    kept->ids[kept->commands.count - 1] = run->id;
    return FAST_OK;
}

fast_err fast__kept_open(const fast_compare *compare, fast_kept **out)
{
    char where[160];
    const bool standard = strcmp(compare->store, "auto") == 0;
    fast_kept *kept;
    fast_err err;

    *out = NULL;
    if (!compare->named || strcmp(compare->store, "none") == 0)
        return FAST_OK;
    FAST_TRY(fast__alloc("kept runs", 1, sizeof *kept, &kept));
    kept->size = FAST_COMPARE_RUNS_MAX;
    err = fast__alloc("kept runs", kept->size, sizeof *kept->ids, &kept->ids);
    if (!err)
        err = fast_store_open(standard ? NULL : compare->store, false, &kept->store);
    snprintf(where, sizeof where, "batch_of=%s", compare->name);
    if (!err)
        err = fast_store_list(
            kept->store, &(fast_store_query){ .where = where, .status = "done,target,diverged" },
            add_run, kept, NULL);
    if (err) {
        fast__kept_close(kept);
        return err == FAST_ENOMEM ? err : FAST_OK;
    }
    *out = kept;
    return FAST_OK;
}

static fast_err read_result(void *ctx, const void *row)
{
    const fast_stored_run *run = row;

    return run->result ? fast__bout_read(ctx, run->result) : FAST_OK;
}

static fast_err read_point(void *ctx, const void *row)
{
    const fast_stored_metric *m = row;

    return fast__bout_point(ctx, &(fast_compare_point){ .time_s = m->time_s,
                                                        .samples = (double)m->samples,
                                                        .bytes_sent = (double)m->bytes,
                                                        .test_accuracy = m->test_accuracy,
                                                        .test_loss = m->test_loss,
                                                        .divergence = m->divergence,
                                                        .staleness_mean = m->staleness_mean });
}

fast_err fast__kept_read(fast_kept *kept, fast_bout *bout, bool *found_out)
{
    *found_out = false;
    for (int64_t i = 0; kept && bout->key && i < kept->commands.count; i++) {
        if (strcmp(kept->commands.items[i], bout->key) != 0)
            continue;
        fast_err err =
            fast_store_read(kept->store, FAST_STORE_METRICS, kept->ids[i], -1, read_point, bout);
        if (!err)
            err = fast_store_find(kept->store, kept->ids[i], read_result, bout);
        if (err == FAST_ENOMEM)
            return err;
        *found_out = !err && bout->outcome;
        return FAST_OK;
    }
    return FAST_OK;
}

void fast__kept_close(fast_kept *kept)
{
    if (!kept)
        return;
    fast_store_close(kept->store);
    fast__words_fini(&kept->commands);
    fast__free(kept->ids);
    fast__free(kept);
}
