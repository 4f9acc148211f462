/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Schedules of pipelines, in closed form: move i of a step needs no table.
 *
 *   gpipe    i < M: F_i, else B_(i - M)
 *   1f1b     with w = min(S - 1 - s, M) forward passes ahead:
 *            i < w: F_i;   i >= 2 M - w: B_(i - M);   between them in turn
 *            F_(w + (i - w) / 2), B_((i - w) / 2)
 *
 * A step of equal stages takes M + S - 1 times the passes of one micro-batch: the first micro-batch
 * reaches the last stage after S - 1 forward passes, and the last gradient the first stage S - 1
 * backward passes after that.
 */
#include "split/pipeline.h"

/* Forward passes that a stage makes before its first backward pass, with 1f1b. */
static int64_t ahead_of(const fast_pipe_place *place)
{
    const int64_t ahead = place->stages - 1 - place->stage;

    FAST_ASSERT(place->stage >= 0 && place->stage < place->stages);
    return ahead < place->micro_batches ? ahead : place->micro_batches;
}

fast_pipe_move fast__pipe_move(const fast_pipe_place *place, int64_t i)
{
    const int64_t M = place->micro_batches;
    const int64_t w = place->pipeline == FAST_PIPELINE_GPIPE ? M : ahead_of(place);

    FAST_ASSERT(place->pipeline != FAST_PIPELINE_PIPEDREAM);
    FAST_ASSERT(i >= 0 && i < 2 * M);
    if (i < w)
        return (fast_pipe_move){ false, i };
    if (i >= 2 * M - w)
        return (fast_pipe_move){ true, i - M };
    return (fast_pipe_move){ (i - w) % 2 == 1, (i - w) / 2 + ((i - w) % 2 == 0 ? w : 0) };
}

int64_t fast__pipe_flight(const fast_pipe_place *place)
{
    const int64_t depth = place->stages - place->stage;

    if (place->pipeline == FAST_PIPELINE_GPIPE)
        return place->micro_batches;
    if (place->pipeline == FAST_PIPELINE_PIPEDREAM)
        return depth;
    return depth < place->micro_batches ? depth : place->micro_batches;
}

double fast__pipe_bubble(const fast_pipe_place *place)
{
    FAST_ASSERT(place->stages >= 1 && place->micro_batches >= 1);
    return (double)(place->stages - 1) / (double)(place->micro_batches + place->stages - 1);
}
