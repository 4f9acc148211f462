/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Schedules of pipelines, in closed form: move i of a step needs no table. Of N = V M forward
 * passes w are ahead of the first backward pass:
 *
 *     gpipe          w = N
 *     1f1b           w = min(S - 1 - s, N)
 *     interleaved    w = min(2 (S - 1 - s) + (V - 1) S, N), with one chunk as 1f1b
 *
 *     i < w: F_i;   i >= 2 N - w: B_(i - N);   between them in turn F_(w + (i - w) / 2) and
 *     B_((i - w) / 2)
 *
 * With chunks pass k of either kind is of a group of S micro-batches, which go through one chunk
 * after the other, the last chunk first in backward passes:
 *
 *     k = (group V + chunk) S + j     micro-batch group S + j
 *
 * All workers have the same order of forward passes, and of backward passes, so that messages of
 * two neighbours arrive in the order in which they are expected. The gradient of micro-batch 0 is
 * at the last worker after (V - 1) S + 1 of its forward passes, and one forward and one backward
 * pass later at each worker before it.
 *
 * zero_bubble    with u = min(s, M), behind the w forward passes for each b from 0 to M - 1
 *
 *     F_(w + b) while there is one,   B_b,   W_(b - u) from b = u on
 *
 * then the u passes W that are left: a stage retains activations of w + 1 + u micro-batches, S at
 * most. The first gradient reaches stage s after S - 1 forward passes and S - 1 - s passes B. From
 * then on the stage does not wait: at the end W of earlier micro-batches lie between its passes B.
 * A step takes (S - 1) (F + B) - (min(S, M) - 1) W more than its passes, the last term being those
 * that the last stage still has to make: (S - 1) (F + B - W) with M >= S.
 *
 * A step of equal stages takes M + (S - 1) / V times the passes of one micro-batch through all
 * chunks of a worker: the first micro-batch reaches the last worker after S - 1 forward passes of
 * a chunk, and the last gradient the first worker S - 1 backward passes after that.
 */
#include "split/pipeline.h"

#include <stdio.h>
#include <string.h>

void fast__pipe_name(fast_pipeline pipeline, char text[FAST_PIPELINE_NAME_MAX])
{
    const char *at = FAST_PIPELINE_CHOICES;

    for (int i = 0; i < (int)pipeline; i++)
        at = strchr(at, '|') + 1;
    snprintf(text, FAST_PIPELINE_NAME_MAX, "%.*s", (int)strcspn(at, "|"), at);
}

/* V. */
static int64_t chunks_of(const fast_pipe_place *place)
{
    return place->chunks > 1 ? place->chunks : 1;
}

int64_t fast__pipe_width(const fast_pipe_place *place, int64_t stage)
{
    FAST_ASSERT(!place->replicas || (stage >= 0 && stage < place->stages));
    return place->replicas ? place->replicas[stage] : 1;
}

int64_t fast__pipe_number(const fast_pipe_place *place, int64_t i)
{
    FAST_ASSERT(i >= 0);
    return i * fast__pipe_width(place, place->stage) + place->replica;
}

/* Micro-batches that a worker has to be ahead of the last stage: one for each later worker, which
 * the replicas of its stage share. */
static int64_t behind_of(const fast_pipe_place *place)
{
    const int64_t width = fast__pipe_width(place, place->stage);
    int64_t workers = 0;

    for (int64_t s = place->stage + 1; s < place->stages; s++)
        workers += fast__pipe_width(place, s);
    return (workers + width - 1) / width;
}

/* Forward passes of a step that a worker makes before its first backward pass. */
static int64_t ahead_of(const fast_pipe_place *place)
{
    const int64_t S = place->stages, V = chunks_of(place), all = V * place->micro_batches;
    const int64_t behind = behind_of(place);
    const int64_t ahead = place->pipeline == FAST_PIPELINE_GPIPE ? all
                          : V > 1                                ? 2 * behind + (V - 1) * S
                                                                 : behind;

    FAST_ASSERT(place->stage >= 0 && place->stage < S);
    return ahead < all ? ahead : all;
}

/* Pass k of a kind. */
static fast_pipe_move pass_of(const fast_pipe_place *place, fast_pipe_kind kind, int64_t k)
{
    const int64_t S = place->stages, V = chunks_of(place);
    const int64_t chunk = k / S % V, group = k / S / V;

    if (V == 1)
        return (fast_pipe_move){ kind, k, 0 };
    FAST_ASSERT(place->micro_batches % S == 0);
    return (fast_pipe_move){ kind, group * S + k % S,
                             kind == FAST_PIPE_FORWARD ? chunk : V - 1 - chunk };
}

bool fast__pipe_divides(fast_pipeline pipeline)
{
    return pipeline == FAST_PIPELINE_ZERO_BUBBLE;
}

int64_t fast__pipe_moves(const fast_pipe_place *place)
{
    FAST_ASSERT(fast__pipe_drains(place->pipeline));
    return (fast__pipe_divides(place->pipeline) ? 3 : 2) * chunks_of(place) * place->micro_batches;
}

/* Passes W that are behind the passes B of a divided schedule. */
static int64_t late_of(const fast_pipe_place *place)
{
    return place->stage < place->micro_batches ? place->stage : place->micro_batches;
}

/* Moves of a divided schedule before those of round b, which ends with B_b and perhaps a W. */
static int64_t before_round(const fast_pipe_place *place, int64_t b)
{
    const int64_t w = ahead_of(place), u = late_of(place), left = place->micro_batches - w;

    return w + b + (b < left ? b : left) + (b > u ? b - u : 0);
}

/* Move i of a divided schedule. */
static fast_pipe_move divided_move(const fast_pipe_place *place, int64_t i)
{
    const int64_t w = ahead_of(place), M = place->micro_batches;
    int64_t low = 0, high = M; /* i is in round `low` or a later one, before round `high` */

    if (i < w)
        return (fast_pipe_move){ FAST_PIPE_FORWARD, i, 0 };
    if (i >= before_round(place, M))
        return (fast_pipe_move){ FAST_PIPE_WEIGHTS, i - 2 * M, 0 };
    while (high - low > 1) {
        const int64_t middle = (low + high) / 2;

        if (before_round(place, middle) <= i)
            low = middle;
        else
            high = middle;
    }
    i -= before_round(place, low);
    if (w + low < M && i-- == 0)
        return (fast_pipe_move){ FAST_PIPE_FORWARD, w + low, 0 };
    return i == 0 ? (fast_pipe_move){ FAST_PIPE_BACKWARD, low, 0 }
                  : (fast_pipe_move){ FAST_PIPE_WEIGHTS, low - late_of(place), 0 };
}

fast_pipe_move fast__pipe_move(const fast_pipe_place *place, int64_t i)
{
    const int64_t N = chunks_of(place) * place->micro_batches, w = ahead_of(place);

    FAST_ASSERT(i >= 0 && i < fast__pipe_moves(place));
    if (fast__pipe_divides(place->pipeline))
        return divided_move(place, i);
    if (i < w)
        return pass_of(place, FAST_PIPE_FORWARD, i);
    if (i >= 2 * N - w)
        return pass_of(place, FAST_PIPE_BACKWARD, i - N);
    return (i - w) % 2 == 0 ? pass_of(place, FAST_PIPE_FORWARD, w + (i - w) / 2)
                            : pass_of(place, FAST_PIPE_BACKWARD, (i - w) / 2);
}

/* Count the micro-batches in flight through a step: of a chunk, or with -1 of all. */
static int64_t most_of(const fast_pipe_place *place, int64_t chunk)
{
    const int64_t count = fast__pipe_moves(place);
    const fast_pipe_kind last =
        fast__pipe_divides(place->pipeline) ? FAST_PIPE_WEIGHTS : FAST_PIPE_BACKWARD;
    int64_t now = 0, most = 0;

    for (int64_t i = 0; i < count; i++) {
        const fast_pipe_move move = fast__pipe_move(place, i);

        if (chunk >= 0 && move.chunk != chunk)
            continue;
        now += move.kind == FAST_PIPE_FORWARD ? 1 : move.kind == last ? -1 : 0;
        most = now > most ? now : most;
    }
    return most;
}

bool fast__pipe_drains(fast_pipeline pipeline)
{
    return pipeline == FAST_PIPELINE_1F1B || pipeline == FAST_PIPELINE_GPIPE ||
           pipeline == FAST_PIPELINE_INTERLEAVED || pipeline == FAST_PIPELINE_ZERO_BUBBLE;
}

int64_t fast__pipe_ahead(const fast_pipe_place *place)
{
    FAST_ASSERT(place->stage >= 0 && place->stage < place->stages);
    return (place->delay > 1 ? place->delay : 1) * behind_of(place);
}

/* Micro-batches in flight at a stage of a pipeline that is never drained. */
static int64_t flight_of(const fast_pipe_place *place)
{
    if (place->pipeline == FAST_PIPELINE_AMPNET)
        return place->active > 0 ? place->active : place->stages;
    return fast__pipe_ahead(place) + 1;
}

/* The forward pass of micro-batch q is in the step of the backward pass of q - ahead, ahead / M
 * steps before its own, or one more. */
int64_t fast__pipe_staleness(const fast_pipe_place *place)
{
    fast_pipe_place at = *place;

    FAST_ASSERT(place->micro_batches >= 1);
    if (fast__pipe_drains(place->pipeline))
        return 0;
    if (place->pipeline == FAST_PIPELINE_2BW)
        return place->stages > 1;
    if (place->vertical) {
        at.stage = 0;
        at.micro_batches = place->micro_batches * fast__pipe_width(place, place->stage) /
                           fast__pipe_width(place, 0);
    }
    return (fast__pipe_ahead(&at) + at.micro_batches - 1) / at.micro_batches;
}

int64_t fast__pipe_flight(const fast_pipe_place *place)
{
    if (!fast__pipe_drains(place->pipeline))
        return flight_of(place);
    return most_of(place, -1);
}

int64_t fast__pipe_chunk_flight(const fast_pipe_place *place, int64_t chunk)
{
    FAST_ASSERT(chunk >= 0 && chunk < chunks_of(place));
    if (chunks_of(place) == 1)
        return fast__pipe_flight(place);
    return most_of(place, chunk);
}

double fast__pipe_bubble(const fast_pipe_place *place)
{
    const int64_t all = chunks_of(place) * place->micro_batches;

    const int64_t filled = place->stages < all ? place->stages : all;

    FAST_ASSERT(place->stages >= 1 && place->micro_batches >= 1);
    FAST_ASSERT(!place->replicas);
    if (fast__pipe_divides(place->pipeline)) {
        const int64_t waits = 2 * (place->stages - 1) - (filled - 1);

        return (double)waits / (double)(3 * all + waits);
    }
    return (double)(place->stages - 1) / (double)(all + place->stages - 1);
}
