/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Allreduce over the dimensions of a network, as PowerAI DDL does it (Cho et al., "PowerAI DDL",
 * 2017): ranks are the points of a box of s_1 x s_2 x ... x s_N, the first dimension fastest. A
 * ring in each line of the first dimension leaves to each of its ranks one of s_1 slices; rings in
 * the second dimension cut that slice once more, and so on. The slices are gathered in reverse.
 *
 *   T = sum over d of 2 (s_d - 1) (L_d + m G_d / (s_1 ... s_d))      additions (P - 1) m / P
 *
 * So few bytes travel over the slow links, if they are those of the last dimension, and the sum of
 * the sides counts in latencies instead of their product. With 16 ranks on 4 nodes, sizes=4x4 sends
 * a quarter of the vector between nodes; ranks of a node must follow each other.
 * The order of additions goes around each ring: deterministic, but not canonical.
 */
#include "base/err.h"
#include "base/memory.h"
#include "comm/allreduces.h"
#include "comm/collective/moves.h"

#include <stdlib.h>
#include <string.h>

enum { DIMENSIONS_MAX = 8 };

/* Options, as they are typed. */
typedef struct dimensions_config {
    char sizes[48]; /* "4x8x2"; "auto": a rectangle */
} dimensions_config;

static const fast_option dimensions_options[] = {
    FAST_OPT_TEXT(dimensions_config, sizes, "auto", NULL,
                  "sides of the box of ranks, the first dimension fastest, like 4x8x2; auto: two, "
                  "nearly equal"),
    FAST_OPT_END,
};

/* The box of a group, equal at all members. */
typedef struct rank_box {
    int64_t count;                 /* of dimensions */
    int64_t sizes[DIMENSIONS_MAX]; /* sides, whose product is the size of the group */
} rank_box;

/* Read "4x8x2". FAST_EINVAL. */
static fast_err parse(const char *text, int64_t size, rank_box *out)
{
    int64_t product = 1;

    FAST_ASSERT(text != NULL && size >= 1);
    for (const char *at = text; *at;) {
        char *end = NULL;
        const long long side = strtoll(at, &end, 10);

        if (end == at || side < 1 || side > size || (*end && *end != 'x') || (*end && !end[1]) ||
            out->count == DIMENSIONS_MAX)
            return fast__fail(FAST_EINVAL,
                              "allreduce dimensions: sizes=%s is no list of at most %d sides up to "
                              "%lld, like 4x8x2",
                              text, DIMENSIONS_MAX, (long long)size);
        out->sizes[out->count++] = side;
        product *= product <= size ? side : 1;
        at = *end ? end + 1 : end;
    }
    if (product == size && out->count > 0)
        return FAST_OK;
    return fast__fail(FAST_EINVAL,
                      "allreduce dimensions: the product of sizes=%s must be the number of "
                      "workers, %lld",
                      text, (long long)size);
}

/* Choose a rectangle that is as near to a square as possible. It follows from the number of ranks
 * alone, so that the bits of a sum are equal on every transport. */
static void choose(int64_t size, rank_box *out)
{
    int64_t side = 1;

    FAST_ASSERT(size >= 1);
    for (int64_t i = 1; i * i <= size; i++)
        side = size % i == 0 ? i : side;
    *out = (rank_box){ .count = 2, .sizes = { side, size / side } };
}

/* The box follows from the options and the number of members: no message is sent. */
static fast_err dimensions_open(fast_group *group, const void *config, void **state_out)
{
    const dimensions_config *c = config;
    rank_box box = { 0 }, *state = NULL;

    FAST_ASSERT(config && !*state_out);
    if (strcmp(c->sizes, "auto") == 0)
        choose(group->size, &box);
    else
        FAST_TRY(parse(c->sizes, group->size, &box));
    FAST_TRY(fast__alloc("the box of a group", 1, sizeof *state, &state));
    *state = box;
    *state_out = state;
    return FAST_OK;
}

/* Free the box. */
static void dimensions_close(fast_group *group, void *state)
{
    FAST_ASSERT(group != NULL);
    fast__free(state);
}

/* Set the line of a rank in dimension d: the rank's place in it, the distance of its ranks, and the
 * range that it cuts, which earlier dimensions have left. */
static int64_t line_of(const fast_ask *ask, int64_t d, int64_t *stride_out, int64_t *offset_out,
                       int64_t *count_out)
{
    const rank_box *box = ask->state;
    int64_t offset = 0, count = ask->count, stride = 1;

    FAST_ASSERT(d >= 0 && d < box->count);
    for (int64_t e = 0; e < d; e++) {
        int64_t inner;

        fast__range(count, box->sizes[e], ask->rank / stride % box->sizes[e], &inner, &count);
        offset += inner;
        stride *= box->sizes[e];
    }
    *stride_out = stride;
    *offset_out = offset;
    *count_out = count;
    return ask->rank / stride % box->sizes[d];
}

/* Make step t of the ring in dimension d, which adds up slices or gathers them. */
static int ring_step(const fast_ask *ask, int64_t d, int64_t t, bool adds, fast_move *moves)
{
    const int64_t n = ((const rank_box *)ask->state)->sizes[d];
    int64_t stride, first, all, offset, count;
    const int64_t place = line_of(ask, d, &stride, &first, &all);
    const int64_t next = ask->rank + ((place + 1) % n - place) * stride;
    const int64_t before = ask->rank + ((place + n - 1) % n - place) * stride;
    const int64_t sent = (place + 2 * n - t - (adds ? 1 : 0)) % n;

    FAST_ASSERT(t >= 0 && t < n - 1);
    fast__range(all, n, sent, &offset, &count);
    moves[0] = (fast_move){ FAST_MOVE_SEND, 0, next, first + offset, count };
    fast__range(all, n, (sent + n - 1) % n, &offset, &count);
    moves[1] =
        (fast_move){ adds ? FAST_MOVE_ADD : FAST_MOVE_COPY, 0, before, first + offset, count };
    return 2;
}

/* Add up slices in each dimension in turn, and gather them in reverse. */
static int dimensions_rounds(const fast_ask *ask, int64_t round, fast_move *moves)
{
    const rank_box *box = ask->state;

    FAST_ASSERT(round >= 0 && box != NULL);
    for (int64_t i = 0; i < 2 * box->count; i++) {
        const bool adds = i < box->count;
        const int64_t d = adds ? i : 2 * box->count - 1 - i;

        if (round < box->sizes[d] - 1)
            return ring_step(ask, d, round, adds, moves);
        round -= box->sizes[d] - 1;
    }
    return FAST_ROUNDS_END;
}

/* One ring after the other, up and down: the closed form at the top, with equal links. */
static double dimensions_seconds(const fast_comm_cost *cost, const fast_ask *ask)
{
    const rank_box *box = ask->state;
    double seconds = 0, count = (double)ask->count;

    FAST_ASSERT(box != NULL);
    for (int64_t d = 0; d < box->count; d++) {
        const double steps = (double)(box->sizes[d] - 1);

        count /= (double)box->sizes[d];
        seconds += 2 * steps * (cost->alpha + 4 * count * cost->beta) + steps * count * cost->gamma;
    }
    return seconds;
}

const fast_algorithm fast__allreduce_dimensions = {
    .name = "dimensions",
    .summary = "rings along each dimension of the network in turn, on smaller and smaller slices",
    .options = dimensions_options,
    .by_place = true,
    .open = dimensions_open,
    .close = dimensions_close,
    .rounds = dimensions_rounds,
    .seconds = dimensions_seconds,
};
