/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Updates of a space whose layers are factors: the owner multiplies them out (Project Adam:
 * Chilimbi et al. 2014). To an owner of [from, to) of the first tensor goes a message of two parts:
 *
 *     0   the floats of its range that are of no layer, in their order
 *     1   the rows of each layer (int64), 0 for those that it has nothing of; then for each of the
 *         others u, rows x (the outputs that it has something of), and v, rows x inputs
 *
 * so that a layer of O x C costs rows (O + s C) floats where it is cut over s owners, instead of
 * O C. Near owners share memory with the writer: there the product is made in its own vector. The
 * order of the sum is that of the rows, so an update has the same bits either way.
 *
 * Simulated time: 2 rows operations for each element, at the owner; a near writer has paid for them
 * with its gradient.
 */
#include "space/space.h"

#include "base/memory.h"
#include "tensor/factors.h"

#include <string.h>

/* What an owner has of a layer. */
typedef struct piece {
    int64_t begin, end;  /* of the matrix, in elements; empty: nothing */
    int64_t first, last; /* its rows, with those that are cut */
} piece;

static piece piece_of(const fast_space *space, int64_t owner, const fast_space_layer *layer)
{
    const int64_t size = layer->outputs * layer->inputs;
    int64_t offset, count;
    fast__space_range(space, owner, 0, &offset, &count);
    const int64_t from = offset - layer->offset, to = offset + count - layer->offset;
    piece p = { .begin = from > 0 ? from : 0, .end = to < size ? to : size };
    if (p.begin >= p.end)
        return (piece){ 0 };
    p.first = p.begin / layer->inputs;
    p.last = (p.end + layer->inputs - 1) / layer->inputs;
    return p;
}

fast_err fast__space_layers_new(fast_space *space, const fast_space_options *o)
{
    int64_t at = 0;
    if (o->codec || o->sparse)
        return fast__fail(FAST_EINVAL,
                          "space \"%s\": factors are added as they are; leave out the codec and "
                          "sparse",
                          o->name);
    for (int64_t i = 0; i < o->layer_count; i++) {
        const fast_space_layer *layer = &o->layers[i];
        int64_t size = 0, thin = 0;
        if (layer->offset < at || layer->outputs < 1 || layer->inputs < 1 || layer->rows < 1 ||
            !fast__mul_size(layer->outputs, layer->inputs, &size) ||
            !fast__mul_size(layer->outputs + layer->inputs, layer->rows, &thin) ||
            size > o->tensors[0].count - layer->offset)
            return fast__fail(FAST_EINVAL, "layer %lld does not fit into tensor \"%s\"",
                              (long long)i, o->tensors[0].name);
        at = layer->offset + size;
    }
    FAST_TRY(
        fast__alloc("layers of a space", o->layer_count, sizeof *space->layers, &space->layers));
    memcpy(space->layers, o->layers, (size_t)o->layer_count * sizeof *space->layers);
    space->layer_count = o->layer_count;
    return FAST_OK;
}

/* Floats of both parts, rows given. */
static void measure(const fast_space *space, int64_t owner, const int64_t *rows, int64_t *plain_out,
                    int64_t *thin_out)
{
    int64_t offset;
    fast__space_range(space, owner, 0, &offset, plain_out);
    *thin_out = 0;
    for (int64_t i = 0; i < space->layer_count; i++) {
        const piece p = piece_of(space, owner, &space->layers[i]);
        *plain_out -= p.end - p.begin;
        if (p.end > p.begin)
            *thin_out += rows[i] * (p.last - p.first + space->layers[i].inputs);
    }
}

/* Copy what is of no layer between x, the owner's range, and `plain`. */
static void copy_plain(const fast_space *space, int64_t owner, float *x, float *plain, bool pack)
{
    int64_t offset, count, at = 0;
    fast__space_range(space, owner, 0, &offset, &count);
    for (int64_t i = 0; i <= space->layer_count; i++) {
        const bool last = i == space->layer_count;
        const piece p = last ? (piece){ 0 } : piece_of(space, owner, &space->layers[i]);
        if (!last && p.end == p.begin)
            continue;
        const int64_t end = last ? count : space->layers[i].offset + p.begin - offset;
        if (end > at)
            memcpy(pack ? plain : x + at, pack ? x + at : plain, (size_t)(end - at) * sizeof *x);
        plain += end - at;
        at = end + p.end - p.begin;
    }
}

fast_err fast__space_pack_factors(fast_space *space, fast_msg *msg, int64_t owner, const float *x)
{
    const size_t head = (size_t)space->layer_count * sizeof(int64_t);
    int64_t plain, thin;
    fast_buffer *parts[2];
    measure(space, owner, space->rows, &plain, &thin);
    FAST_TRY(fast_buffer_new(space->actor, (size_t)plain * sizeof *x, &parts[0]));
    const fast_err err = fast_buffer_new(space->actor, head + (size_t)thin * sizeof *x, &parts[1]);
    if (err) {
        fast_buffer_free(parts[0]);
        return err;
    }
    /* It only reads x. */
    copy_plain(space, owner, (float *)x, fast_buffer_data(parts[0]), true);
    int64_t *rows = fast_buffer_data(parts[1]);
    float *to = (float *)(void *)(rows + space->layer_count);
    for (int64_t i = 0; i < space->layer_count; i++) {
        const fast_space_layer *layer = &space->layers[i];
        const piece p = piece_of(space, owner, layer);
        const int64_t wide = p.last - p.first, n = space->rows[i];
        rows[i] = p.end > p.begin ? n : 0;
        for (int64_t r = 0; r < rows[i]; r++, to += wide)
            memcpy(to, space->factors[i] + r * layer->outputs + p.first, (size_t)wide * sizeof *to);
        const size_t size = (size_t)(rows[i] * layer->inputs) * sizeof *to;
        if (size > 0)
            memcpy(to, space->factors[i] + n * layer->outputs, size);
        to += rows[i] * layer->inputs;
    }
    fast_msg_add(msg, &parts[0]);
    msg->parts[0].size = (size_t)plain * sizeof *x;
    fast_msg_add(msg, &parts[1]);
    msg->parts[1].size = head + (size_t)thin * sizeof *x;
    return FAST_OK;
}

/* Are the parts what their rows say? */
static bool is_sane(const fast_space *space, const fast_msg *msg, const int64_t *rows)
{
    const size_t head = (size_t)space->layer_count * sizeof *rows;
    int64_t plain, thin;
    if (!space->dense || msg->declared != 0 || msg->parts[1].size < head ||
        (uintptr_t)rows % sizeof *rows != 0 ||
        (uintptr_t)fast_msg_data(msg, 0) % sizeof(float) != 0)
        return false;
    for (int64_t i = 0; i < space->layer_count; i++)
        if (rows[i] < 0 || rows[i] > space->layers[i].rows)
            return false;
    measure(space, space->me, rows, &plain, &thin);
    return msg->parts[0].size == (size_t)plain * sizeof(float) &&
           msg->parts[1].size == head + (size_t)thin * sizeof(float);
}

bool fast__space_unpack_factors(fast_space *space, const fast_msg *msg, const float **x_out)
{
    const int64_t *rows = fast_msg_data(msg, 1);
    int64_t offset, count;
    if (!is_sane(space, msg, rows))
        return false;
    fast__space_range(space, space->me, 0, &offset, &count);
    /* It only reads the message. */
    copy_plain(space, space->me, space->dense, (float *)(uintptr_t)fast_msg_data(msg, 0), false);
    const float *from = (const float *)(const void *)(rows + space->layer_count);
    for (int64_t i = 0; i < space->layer_count; i++) {
        const fast_space_layer *layer = &space->layers[i];
        const piece p = piece_of(space, space->me, layer);
        const int64_t wide = p.last - p.first;
        const fast_outer part = { from, from + rows[i] * wide, rows[i], wide };
        if (p.end == p.begin)
            continue;
        fast__factors_compose(&part, 1, layer->inputs, p.begin, p.end,
                              space->dense + (layer->offset + p.begin - offset));
        from += rows[i] * (wide + layer->inputs);
        space->composed += 2 * (double)rows[i] * (double)(p.end - p.begin);
    }
    *x_out = space->dense;
    return true;
}

fast_err fast_space_add_factors(fast_space *space, float *x, const float *const *factors,
                                const int64_t *rows, int64_t deadline)
{
    FAST_ASSERT(space && x && factors && rows);
    if (!space->layers)
        return fast__fail(FAST_EINVAL, "space \"%s\" has no layers to be added to as factors",
                          space->name);
    for (int64_t i = 0; i < space->layer_count; i++)
        if (rows[i] < 0 || rows[i] > space->layers[i].rows)
            return fast__fail(FAST_EINVAL,
                              "layer %lld of space \"%s\" takes up to %lld rows, not "
                              "%lld",
                              (long long)i, space->name, (long long)space->layers[i].rows,
                              (long long)rows[i]);
    for (int64_t i = 0; i < space->layer_count && space->far_count < space->owner_count; i++) {
        const fast_space_layer *layer = &space->layers[i];
        const fast_outer part = { factors[i], factors[i] + rows[i] * layer->outputs, rows[i],
                                  layer->outputs };
        fast__factors_compose(&part, 1, layer->inputs, 0, layer->outputs * layer->inputs,
                              x + layer->offset);
    }
    space->factors = factors;
    space->rows = rows;
    const fast_err err = fast_space_add(space, 0, x, deadline);
    space->factors = NULL;
    return err;
}
