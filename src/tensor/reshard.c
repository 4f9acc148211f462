/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Layouts of a value over shards: which box of it a shard has before and after a change, and the
 * copies between boxes and messages.
 *
 *                 before                        after
 *     SLICE       all                           own range of dim, or its window
 *     GATHER      own range of dim              all
 *     SCATTER     all, as summands              own range of dim
 *     HALO        own range of dim              its window
 *     HALO_ADD    its window, as summands       own range of dim
 *     SWAP        own range of other            own range of dim      SWAP_BACK: the reverse
 *
 * Shard `from` sends to `to` what the box of the one before and that of the other after have in
 * common. Cost: each float is copied once into a message and once out of it.
 */
#include "tensor/reshard.h"

#include "tensor/vector.h"

/* A length that may be left out. */
static int64_t one(int64_t length)
{
    return length > 0 ? length : 1;
}

/* Length of the split dimension, and the floats around it. */
static int64_t dim_of(const fast_reshard_value *v)
{
    return v->how->samples ? v->samples : one(v->how->dim);
}

static int64_t outer_of(const fast_reshard_value *v)
{
    return v->how->samples ? 1 : v->samples * one(v->how->outer);
}

/* The whole value. */
static fast_reshard_box all_of(const fast_reshard_value *v)
{
    return (fast_reshard_box){ { 0, 0 }, { dim_of(v), one(v->how->other) } };
}

/* Cut a dimension of a box to part i of n. */
static void cut(fast_reshard_box *box, int d, int64_t i, int64_t n)
{
    const int64_t length = box->end[d];

    box->first[d] = i * length / n;
    box->end[d] = (i + 1) * length / n;
}

/* The block of shard t of a grid. */
static fast_reshard_box block_of(const fast_reshard_value *v, int64_t t)
{
    fast_reshard_box box = all_of(v);
    const int64_t p = v->how->grid, row = t / p, column = t % p;

    FAST_ASSERT(v->how->samples && p * p == v->shards);
    cut(&box, 0, row, p);
    cut(&box, 1, v->how->skewed ? (row + column) % p : column, p);
    return box;
}

/* The whole value but for shard t's range of dimension d. */
static fast_reshard_box own_of(const fast_reshard_value *v, int64_t t, int d)
{
    fast_reshard_box box = all_of(v);
    const int64_t length = box.end[d];

    if (v->how->grid > 0)
        return block_of(v, t);
    box.first[d] = t * length / v->shards;
    box.end[d] = (t + 1) * length / v->shards;
    return box;
}

/* The rows that shard t needs for its rows of the output; past the ends of dim are zeros. */
static fast_reshard_box window_of(const fast_reshard_value *v, int64_t t)
{
    const fast_reshard_window *w = &v->how->window;
    fast_reshard_box box = own_of(v, t, 0);
    const int64_t a = t * w->rows / v->shards, b = (t + 1) * w->rows / v->shards;

    if (w->rows == 0)
        return box;
    box.first[0] = a * w->stride - w->pad;
    box.end[0] = (b - 1) * w->stride - w->pad + w->reach;
    return box;
}

fast_reshard_box fast__reshard_before(const fast_reshard_value *value, int64_t t)
{
    FAST_ASSERT(t >= 0 && t < value->shards);
    switch (value->kind) {
    case FAST_RESHARD_GATHER:
    case FAST_RESHARD_HALO:
    case FAST_RESHARD_SWAP_BACK:
        return own_of(value, t, 0);
    case FAST_RESHARD_HALO_ADD:
        return window_of(value, t);
    case FAST_RESHARD_SWAP:
        return own_of(value, t, 1);
    default:
        return all_of(value);
    }
}

fast_reshard_box fast__reshard_after(const fast_reshard_value *value, int64_t t)
{
    FAST_ASSERT(t >= 0 && t < value->shards);
    switch (value->kind) {
    case FAST_RESHARD_SLICE:
    case FAST_RESHARD_HALO:
        return window_of(value, t);
    case FAST_RESHARD_SCATTER:
    case FAST_RESHARD_HALO_ADD:
    case FAST_RESHARD_SWAP:
        return own_of(value, t, 0);
    case FAST_RESHARD_SWAP_BACK:
        return own_of(value, t, 1);
    default:
        return all_of(value);
    }
}

fast_reshard_box fast__reshard_common(const fast_reshard_value *value, int64_t from, int64_t to)
{
    const fast_reshard_box a = fast__reshard_before(value, from),
                           b = fast__reshard_after(value, to), whole = all_of(value);
    fast_reshard_box out;

    for (int d = 0; d < 2; d++) {
        out.first[d] = a.first[d] > b.first[d] ? a.first[d] : b.first[d];
        out.end[d] = a.end[d] < b.end[d] ? a.end[d] : b.end[d];
        out.first[d] = out.first[d] > 0 ? out.first[d] : 0;
        out.end[d] = out.end[d] < whole.end[d] ? out.end[d] : whole.end[d];
        if (out.first[d] >= out.end[d])
            return (fast_reshard_box){ 0 };
    }
    return out;
}

int64_t fast__reshard_count(const fast_reshard_value *value, const fast_reshard_box *box)
{
    const int64_t dim = box->end[0] - box->first[0], other = box->end[1] - box->first[1];

    return dim <= 0 || other <= 0
               ? 0
               : outer_of(value) * dim * one(value->how->middle) * other * one(value->how->inner);
}

int64_t fast__reshard_floats(fast_reshard_value value, int64_t t, bool after)
{
    const fast_reshard_box box =
        after ? fast__reshard_after(&value, t) : fast__reshard_before(&value, t);

    return fast__reshard_count(&value, &box);
}

bool fast__reshard_adds(fast_reshard_kind kind)
{
    return kind == FAST_RESHARD_SCATTER || kind == FAST_RESHARD_HALO_ADD;
}

/* Where the floats of a part are in a box that contains it. */
typedef struct box_floats {
    int64_t first; /* of the part, from the start of an outer element */
    int64_t size;  /* of an outer element */
    int64_t row;   /* from one index of dim to the next */
    int64_t step;  /* from one index of middle to the next */
} box_floats;

static box_floats floats_of(const fast_reshard_value *v, const fast_reshard_box *box,
                            const fast_reshard_box *part)
{
    const int64_t inner = one(v->how->inner), step = (box->end[1] - box->first[1]) * inner;
    const int64_t row = one(v->how->middle) * step;

    FAST_ASSERT(part->first[0] >= box->first[0] && part->end[0] <= box->end[0]);
    FAST_ASSERT(part->first[1] >= box->first[1] && part->end[1] <= box->end[1]);
    return (box_floats){ .first = (part->first[0] - box->first[0]) * row +
                                  (part->first[1] - box->first[1]) * inner,
                         .size = (box->end[0] - box->first[0]) * row,
                         .row = row,
                         .step = step };
}

/* Copy or add a run of consecutive floats. */
static void move_run(int64_t count, const float *from, bool add, float *to)
{
    if (add)
        fast__vector_add(count, from, to);
    else
        fast__vector_copy(count, from, to);
}

void fast__reshard_move(const fast_reshard_value *value, const fast_reshard_box *part,
                        const fast_reshard_box *from_box, const float *from,
                        const fast_reshard_box *to_box, bool add, float *to)
{
    const box_floats a = floats_of(value, from_box, part), b = floats_of(value, to_box, part);
    const int64_t rows = part->end[0] - part->first[0], middle = one(value->how->middle);
    const int64_t run = (part->end[1] - part->first[1]) * one(value->how->inner);
    const bool whole = a.step == run && b.step == run; /* rows follow each other in both */

    for (int64_t o = 0; o < outer_of(value); o++) {
        const float *x = from + o * a.size + a.first;
        float *y = to + o * b.size + b.first;

        if (whole) {
            move_run(rows * middle * run, x, add, y);
            continue;
        }
        for (int64_t r = 0; r < rows; r++)
            for (int64_t m = 0; m < middle; m++)
                move_run(run, x + r * a.row + m * a.step, add, y + r * b.row + m * b.step);
    }
}

void fast__reshard_own(const fast_reshard_value *value, int64_t t, const float *from, float *to)
{
    const fast_reshard_box before = fast__reshard_before(value, t),
                           after = fast__reshard_after(value, t),
                           part = fast__reshard_common(value, t, t);

    if (fast__reshard_count(value, &part) > 0)
        fast__reshard_move(value, &part, &before, from, &after, fast__reshard_adds(value->kind),
                           to);
}

void fast__reshard_slice(const fast_reshard_value *value, int64_t t, const float *from, float *to)
{
    const fast_reshard_box after = fast__reshard_after(value, t);

    FAST_ASSERT(value->kind == FAST_RESHARD_SLICE);
    fast__vector_fill(fast__reshard_count(value, &after), 0, to);
    fast__reshard_own(value, t, from, to);
}
