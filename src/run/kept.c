/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What strategies keep from one step to the next, besides replicas: masses of push-sum, the centre
 * of elastic averaging, outer momentum. It belongs to the worker's seat and not to the program, so
 * that a run that goes on after a cancel goes on exactly. It is 0 where a replica begins: in a new
 * run, in another phase, after a restart of the worker.
 *
 * Memory: what is asked for, before the first step; a list, since there are a few at most.
 */
#include "base/memory.h"
#include "run/team.h"

fast_err fast__kept_get(fast_seat *seat, int64_t number, size_t size, void **out)
{
    fast_kept *kept = seat->kept;
    char *data = NULL;

    FAST_ASSERT(number >= 0 && size > 0);
    while (kept && kept->number != number)
        kept = kept->next;
    if (kept) {
        if (kept->size != size)
            return fast__fail(FAST_EINVAL,
                              "strategy %s keeps %zu bytes as number %lld, and the run that this "
                              "one goes on from left %zu there",
                              seat->team->strategy->name, size, (long long)number, kept->size);
        *out = kept->data;
        return FAST_OK;
    }
    FAST_TRY(fast__alloc("what a strategy keeps", (int64_t)size, 1, &data));
    const fast_err err = fast__alloc("what a strategy keeps", 1, sizeof *kept, &kept);
    if (err) {
        fast__free(data);
        return err;
    }
    *kept = (fast_kept){ .next = seat->kept, .number = number, .size = size, .data = data };
    seat->kept = kept;
    *out = data;
    return FAST_OK;
}

void fast__kept_drop(fast_seat *seat)
{
    while (seat->kept) {
        fast_kept *kept = seat->kept;

        seat->kept = kept->next;
        fast__free(kept->data);
        fast__free(kept);
    }
}

fast_err fast_trainer_keep(fast_trainer *t, int64_t number, size_t size, void **out)
{
    return fast__kept_get(t->run, number, size, out);
}
