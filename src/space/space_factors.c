/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The factored form: updates whose layers are given as factors, which the owner multiplies out
 * (Project Adam: Chilimbi et al. 2014). A message to the owner of a range of the first tensor has
 * two parts:
 *
 *     0   the floats of its range that belong to no layer, in their order
 *     1   the number of rows of each layer (int64), 0 for layers outside the range; then for each
 *         other layer u, rows x (the outputs that the range touches), and v, rows x inputs
 *
 * A layer of O x C that is cut over s owners costs rows (O + s C) floats instead of O C. Local
 * owners share memory with the writer: there the product is made in the writer's vector. The sum
 * follows the order of the rows, so an update has the same bits either way.
 *
 * Simulated time: 2 rows operations for each element, at the owner; a local writer has been charged
 * for them with its gradient.
 */
#include "space/space_form.h"

#include "base/memory.h"
#include "tensor/factors.h"
#include "tensor/vector.h"

#include <string.h>

/* The part of a layer that lies in an owner's range. */
typedef struct layer_part {
    int64_t begin, end;  /* elements of the matrix; equal: none */
    int64_t first, last; /* rows of the matrix, including those that are cut */
} layer_part;

/* Return the part of a layer that lies in an owner's range. */
static layer_part part_of(const fast_space *space, int64_t owner, const fast_space_layer *layer)
{
    FAST_ASSERT(layer->inputs > 0);
    const int64_t size = layer->outputs * layer->inputs;
    int64_t offset, count;
    fast__space_range(space, owner, 0, &offset, &count);
    const int64_t from = offset - layer->offset, to = offset + count - layer->offset;
    layer_part p = { .begin = from > 0 ? from : 0, .end = to < size ? to : size };
    if (p.begin >= p.end)
        return (layer_part){ 0 };
    p.first = p.begin / layer->inputs;
    p.last = (p.end + layer->inputs - 1) / layer->inputs;
    return p;
}

fast_err fast__space_layers_new(fast_space *space, const fast_space_options *o)
{
    FAST_ASSERT(o->layer_count > 0 && !space->layers.list);
    int64_t at = 0;
    if (o->codec || o->sparse || fast__space_is_coded(space, FAST_SPACE_UP, 0))
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
    FAST_TRY(fast__alloc("layers of a space", o->layer_count, sizeof *space->layers.list,
                         &space->layers.list));
    memcpy(space->layers.list, o->layers, (size_t)o->layer_count * sizeof *space->layers.list);
    space->layers.count = o->layer_count;
    return FAST_OK;
}

/* Set the floats of both parts for these rows. */
static void measure(const fast_space *space, int64_t owner, const int64_t *rows, int64_t *plain_out,
                    int64_t *thin_out)
{
    int64_t offset;
    fast__space_range(space, owner, 0, &offset, plain_out);
    *thin_out = 0;
    for (int64_t i = 0; i < space->layers.count; i++) {
        const layer_part p = part_of(space, owner, &space->layers.list[i]);
        *plain_out -= p.end - p.begin;
        if (p.end > p.begin)
            *thin_out += rows[i] * (p.last - p.first + space->layers.list[i].inputs);
    }
    FAST_ASSERT(*plain_out >= 0 && *thin_out >= 0);
}

/* Set the bytes of both parts for these rows. */
static void size_parts(const fast_space *space, int64_t owner, const int64_t *rows, size_t sizes[2])
{
    FAST_ASSERT(rows);
    int64_t plain, thin;
    measure(space, owner, rows, &plain, &thin);
    sizes[0] = (size_t)plain * sizeof(float);
    sizes[1] = (size_t)space->layers.count * sizeof *rows + (size_t)thin * sizeof(float);
}

/* Copy the floats that belong to no layer from x, the owner's range, to `plain`, or back. */
static void copy_plain(const fast_space *space, int64_t owner, float *x, float *plain, bool pack)
{
    FAST_ASSERT(x && plain);
    int64_t offset, count, at = 0;
    fast__space_range(space, owner, 0, &offset, &count);
    for (int64_t i = 0; i <= space->layers.count; i++) {
        const bool last = i == space->layers.count;
        const layer_part p =
            last ? (layer_part){ 0 } : part_of(space, owner, &space->layers.list[i]);
        if (!last && p.end == p.begin)
            continue;
        const int64_t end = last ? count : space->layers.list[i].offset + p.begin - offset;
        if (end > at)
            fast__vector_copy(end - at, pack ? x + at : plain, pack ? plain : x + at);
        plain += end - at;
        at = end + p.end - p.begin;
    }
}

static size_t factored_bound(const fast_space *space, const fast_space_operation *op)
{
    FAST_ASSERT(op->factors);
    size_t sizes[2];
    size_parts(space, op->owner, op->factors->rows, sizes);
    return sizes[0] + sizes[1];
}

/* Rows of u are cut to the outputs that the range touches; v is sent whole. */
static fast_err factored_pack(fast_space *space, const fast_space_operation *op,
                              fast_space_packed *out)
{
    FAST_ASSERT(out);
    FAST_ASSERT(op->x && op->factors);
    const fast_space_layers *layers = &space->layers;
    size_parts(space, op->owner, op->factors->rows, out->sizes);
    FAST_TRY(fast_buffer_new(space->actor, out->sizes[0], &out->buffers[0]));
    const fast_err err = fast_buffer_new(space->actor, out->sizes[1], &out->buffers[1]);
    if (err) {
        fast_buffer_free(out->buffers[0]);
        return err;
    }
    /* With `pack` it only reads x. */
    copy_plain(space, op->owner, (float *)op->x, fast_buffer_data(out->buffers[0]), true);
    int64_t *rows = fast_buffer_data(out->buffers[1]);
    float *to = (float *)(void *)(rows + layers->count);
    for (int64_t i = 0; i < layers->count; i++) {
        const fast_space_layer *layer = &layers->list[i];
        const float *u = op->factors->values[i], *v = u + op->factors->rows[i] * layer->outputs;
        const layer_part p = part_of(space, op->owner, layer);
        const int64_t wide = p.last - p.first;
        rows[i] = p.end > p.begin ? op->factors->rows[i] : 0;
        for (int64_t r = 0; r < rows[i]; r++, to += wide)
            memcpy(to, u + r * layer->outputs + p.first, (size_t)wide * sizeof *to);
        const size_t size = (size_t)(rows[i] * layer->inputs) * sizeof *to;
        if (size > 0)
            memcpy(to, v, size);
        to += rows[i] * layer->inputs;
    }
    return FAST_OK;
}

/* Return true if the parts have the sizes that their rows say. */
static bool is_consistent(const fast_space *space, const fast_msg *msg, const int64_t *rows)
{
    FAST_ASSERT(msg->part_count == 2);
    size_t sizes[2];
    if (!space->dense || msg->declared != 0 ||
        msg->parts[1].size < (size_t)space->layers.count * sizeof *rows ||
        (uintptr_t)rows % sizeof *rows != 0 ||
        (uintptr_t)fast_msg_data(msg, 0) % sizeof(float) != 0)
        return false;
    for (int64_t i = 0; i < space->layers.count; i++)
        if (rows[i] < 0 || rows[i] > space->layers.list[i].rows)
            return false;
    size_parts(space, space->map.me, rows, sizes);
    return msg->parts[0].size == sizes[0] && msg->parts[1].size == sizes[1];
}

/* The order of the sum is that of the rows, as at a local writer. */
static bool factored_unpack(fast_space *space, const fast_msg *msg, fast_space_operation *op)
{
    const fast_space_layers *layers = &space->layers;
    const int64_t *rows = fast_msg_data(msg, 1);
    FAST_ASSERT(msg->part_count == 2 && op->owner == space->map.me);
    if (!is_consistent(space, msg, rows))
        return false;
    /* Without `pack` it only reads the message. */
    copy_plain(space, op->owner, space->dense, (float *)(uintptr_t)fast_msg_data(msg, 0), false);
    const float *from = (const float *)(const void *)(rows + layers->count);
    for (int64_t i = 0; i < layers->count; i++) {
        const fast_space_layer *layer = &layers->list[i];
        const layer_part p = part_of(space, op->owner, layer);
        const int64_t wide = p.last - p.first;
        const fast_outer part = { from, from + rows[i] * wide, rows[i], wide };
        if (p.end == p.begin)
            continue;
        fast__factors_compose(&part, 1, layer->inputs, p.begin, p.end,
                              space->dense + (layer->offset + p.begin - op->offset));
        from += rows[i] * (wide + layer->inputs);
        op->work += 2 * (double)rows[i] * (double)(p.end - p.begin);
    }
    op->x = space->dense;
    return true;
}

/* Charge for the products. */
static fast_err factored_cost(fast_space *space, const fast_msg *msg,
                              const fast_space_operation *op)
{
    FAST_ASSERT(op->work >= 0);
    (void)msg;
    return op->work > 0 ? fast_charge(space->actor, op->work, 0) : FAST_OK;
}

const fast_space_form fast__space_form_factored = {
    .name = "factored",
    .bound = factored_bound,
    .pack = factored_pack,
    .unpack = factored_unpack,
    .cost = factored_cost,
};

/* Local owners read x, so the product is made there first; remote ones get the factors. */
fast_err fast_space_add_factors(fast_space *space, float *x, const float *const *factors,
                                const int64_t *rows, int64_t deadline)
{
    FAST_ASSERT(space && x && factors && rows);
    if (!space->layers.list)
        return fast__fail(FAST_EINVAL, "space \"%s\" has no layers to be added to as factors",
                          space->name);
    for (int64_t i = 0; i < space->layers.count; i++)
        if (rows[i] < 0 || rows[i] > space->layers.list[i].rows)
            return fast__fail(FAST_EINVAL,
                              "layer %lld of space \"%s\" takes up to %lld rows, not "
                              "%lld",
                              (long long)i, space->name, (long long)space->layers.list[i].rows,
                              (long long)rows[i]);
    for (int64_t i = 0; i < space->layers.count && space->map.remote_count < space->map.owner_count;
         i++) {
        const fast_space_layer *layer = &space->layers.list[i];
        const fast_outer part = { factors[i], factors[i] + rows[i] * layer->outputs, rows[i],
                                  layer->outputs };
        fast__factors_compose(&part, 1, layer->inputs, 0, layer->outputs * layer->inputs,
                              x + layer->offset);
    }
    const fast_space_factored factored = { .values = factors, .rows = rows };
    return fast__space_execute(
        space, &(fast_space_operation){
                   .kind = FAST_SPACE_ADD, .x = x, .factors = &factored, .deadline = deadline });
}
