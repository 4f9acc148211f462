/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tasks: a worker's step as a graph of tasks, a pull and a push of each range of keys (Li et al.
 * 2014, sections 3.4 and 3.5; space/space_task.c). In round c, with a slack of s,
 *
 *     pull of range r   after rounds c - s of all workers, or of this worker's group, on range r
 *     layer l           after the pulls of the ranges that hold it
 *     push of range r   after the pull of range r, and the gradient
 *
 * Each range has a vector clock: a range whose workers are late holds up the layers that are in it,
 * not those before. The slack is 0: sequential consistency, `allreduce` to the bit; s: a bounded
 * delay; -1: eventual consistency.
 *
 * A codec that selects elements of the whole gradient has one push for all ranges. Cost: that of
 * `ps`; the forward pass starts when its first range has arrived.
 */
#include "space/space.h"
#include "strategy/ps_keys.h"

/* Submit the pulls to one copy. */
static fast_err pull_from(ps_writer *wr, fast_space *space, const fast_space_read *condition)
{
    FAST_ASSERT(space != NULL);
    for (int64_t r = 0; r < fast_space_range_count(space); r++) {
        int64_t number;

        FAST_TRY(fast_space_submit(
            space,
            &(fast_space_task){
                .range = r, .range_count = 1, .pull = wr->t->w, .when = *condition },
            &number));
        if (r == 0)
            wr->visit.pulls = number;
        FAST_ASSERT(number == wr->visit.pulls + r); /* so that one number is enough */
    }
    return FAST_OK;
}

fast_err fast__ps_pull(ps_writer *wr, const fast_space_read *condition)
{
    ps_copies *copies = &wr->copies;
    fast_err err;
    int64_t i;

    FAST_ASSERT(!wr->visit.arriving);
    do {
        i = copies->first;
        err = pull_from(wr, copies->spaces[i], condition);
    } while (fast__ps_copy_lose(copies, i, err));
    return err;
}

/* Wait for the pulls from one copy. */
static fast_err await_from(const ps_writer *wr, fast_space *space, int64_t offset, int64_t count)
{
    int64_t blamed = -1;

    FAST_ASSERT(wr->visit.pulls > 0);
    for (int64_t r = 0; r < fast_space_range_count(space); r++) {
        int64_t low, size;
        fast_err err;

        fast_space_keys(space, 0, r, &low, &size);
        if (size == 0 || low + size <= offset || low >= offset + count)
            continue;
        do
            err = fast_space_wait(space, wr->visit.pulls + r, FAST_SOON);
        while (fast__ps_missed_writer(&wr->copies, err, &blamed));
        FAST_TRY(err);
    }
    return FAST_OK;
}

/* Ranges of a copy that is lost are pulled again from the next, which holds the same updates. */
fast_err fast__ps_await_pulls(ps_writer *wr, int64_t offset, int64_t count)
{
    const fast_space_read condition = fast__ps_condition(wr);

    FAST_ASSERT(count >= 0);
    for (;;) {
        const int64_t i = wr->copies.first;
        const fast_err err = await_from(wr, wr->copies.spaces[i], offset, count);

        if (!fast__ps_copy_lose(&wr->copies, i, err))
            return err;
        FAST_TRY(pull_from(wr, wr->copies.spaces[wr->copies.first], &condition));
    }
}

/* Submit the pushes to one copy. Those to the copy that was read depend on its pulls. */
static fast_err push_to(ps_writer *wr, int64_t copy, const float *x)
{
    fast_space *space = wr->copies.spaces[copy];
    const bool whole = fast__space_selects(space);
    const int64_t count = whole ? 1 : fast_space_range_count(space);
    const bool follows = wr->visit.pulls > 0 && copy == wr->copies.first;

    FAST_ASSERT(!wr->visit.arriving && wr->step > 0);
    for (int64_t r = 0; r < count; r++) {
        const int64_t after = wr->visit.pulls + r;
        int64_t number;

        FAST_TRY(fast_space_submit(space,
                                   &(fast_space_task){ .range = r,
                                                       .range_count = whole ? 0 : 1,
                                                       .push = x,
                                                       .clock = wr->step,
                                                       .after = &after,
                                                       .after_count = follows },
                                   &number));
    }
    return FAST_OK;
}

/* The pulls have finished, so that each push starts at once: x may be changed afterwards. */
fast_err fast__ps_push_ranges(ps_writer *wr, const float *x)
{
    ps_copies *copies = &wr->copies;

    FAST_ASSERT(x != NULL);
    for (int64_t i = 0; i < copies->count; i++) {
        const fast_err err = copies->spaces[i] ? push_to(wr, i, x) : FAST_OK;

        if (!fast__ps_copy_lose(copies, i, err))
            FAST_TRY(err);
    }
    return FAST_OK;
}
