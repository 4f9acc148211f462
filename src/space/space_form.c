/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which form values travel in, and the two plain ones: sizes and dense. The sender decides by the
 * operation and the options of the space; the receiver, which has the same options, decides by the
 * message's kind and the number of its parts, so that no word of a message names its form:
 *
 *     parts   declared bytes    form
 *     0       4 x count         sizes
 *     0       0                 staged, if the space takes pieces
 *     1       0                 encoded if the tensor has a codec in this direction, else dense
 *     2       0                 factored if the space has layers, else sparse
 *
 * A hostile message can at most select a form that does not fit; its unpack() then refuses it.
 */
#include "space/space_form.h"

#include "tensor/vector.h"

#include <string.h>

/* Four bytes a float, for both plain forms. */
static size_t dense_bound(const fast_space *space, const fast_space_operation *op)
{
    (void)space;
    FAST_ASSERT(op->count > 0);
    return (size_t)op->count * sizeof *op->x;
}

/* The message has no part: a simulated network is charged for the declared bytes. */
static fast_err sizes_pack(fast_space *space, const fast_space_operation *op,
                           fast_space_packed *out)
{
    FAST_ASSERT(!op->x);
    out->declared = dense_bound(space, op);
    return FAST_OK;
}

/* An operation without values changes no float, but counts as an update. */
static bool sizes_unpack(fast_space *space, const fast_msg *msg, fast_space_operation *op)
{
    FAST_ASSERT(msg->part_count == 0);
    op->x = NULL;
    return msg->declared == dense_bound(space, op);
}

const fast_space_form fast__space_form_sizes = {
    .name = "sizes",
    .bound = dense_bound,
    .pack = sizes_pack,
    .unpack = sizes_unpack,
};

/* One copy. The buffer moves to the message; the caller may change its vector at once. */
static fast_err dense_pack(fast_space *space, const fast_space_operation *op,
                           fast_space_packed *out)
{
    FAST_ASSERT(op->x);
    out->sizes[0] = dense_bound(space, op);
    FAST_TRY(fast_buffer_new(space->actor, out->sizes[0], &out->buffers[0]));
    fast__vector_copy(op->count, op->x, fast_buffer_data(out->buffers[0]));
    return FAST_OK;
}

/* Values are used where they arrived: no copy. Misaligned parts are refused, since a hostile
 * sender chooses their offset. */
static bool dense_unpack(fast_space *space, const fast_msg *msg, fast_space_operation *op)
{
    FAST_ASSERT(op->kind != FAST_SPACE_GET);
    if (msg->part_count != 1 || msg->parts[0].size != dense_bound(space, op) || msg->declared != 0)
        return false;
    op->x = fast_msg_data(msg, 0);
    return (uintptr_t)op->x % sizeof *op->x == 0;
}

const fast_space_form fast__space_form_dense = {
    .name = "dense",
    .bound = dense_bound,
    .pack = dense_pack,
    .unpack = dense_unpack,
};

/* The first form that fits, the most specific first. Sparse pays off below half of the elements:
 * an entry takes 8 bytes, an element 4. */
const fast_space_form *fast__space_form_of(const fast_space *space, fast_space_operation *op)
{
    FAST_ASSERT(op->kind == FAST_SPACE_PUT || op->kind == FAST_SPACE_ADD ||
                op->kind == FAST_SPACE_VALUE);
    if (!op->x)
        return &fast__space_form_sizes;
    if (op->kind == FAST_SPACE_VALUE)
        return fast__space_is_coded(space, FAST_SPACE_DOWN, op->tensor) ? &fast__space_form_encoded
                                                                        : &fast__space_form_dense;
    if (op->kind == FAST_SPACE_PUT)
        return &fast__space_form_dense;
    if (op->flags & FAST_SPACE_ENDS)
        return &fast__space_form_staged;
    if (fast__space_is_coded(space, FAST_SPACE_UP, op->tensor))
        return &fast__space_form_encoded;
    if (op->factors)
        return &fast__space_form_factored;
    if (space->sparse.enabled && op->count < UINT32_MAX) {
        op->entries = fast__space_count_nonzero(op->x, op->count);
        if (op->entries == 0) /* a range of which nothing is selected: one entry, a 0 */
            op->entries = 1;
        if (op->entries < op->count / 2 || (space->sparse.staging && op->tensor == 0))
            return &fast__space_form_sparse;
    }
    return &fast__space_form_dense;
}

/* Mirrors fast__space_form_of(), from the parts of the message. */
const fast_space_form *fast__space_form_in(const fast_space *space, const fast_msg *msg,
                                           const fast_space_operation *op)
{
    FAST_ASSERT(op->count > 0);
    const bool adds = op->kind == FAST_SPACE_ADD, read = op->kind == FAST_SPACE_VALUE;
    const fast_space_way way = adds ? FAST_SPACE_UP : FAST_SPACE_DOWN;
    if (msg->part_count == 0 && msg->declared == dense_bound(space, op))
        return &fast__space_form_sizes;
    if (adds && msg->part_count == 0 && msg->declared == 0 && op->tensor == 0 &&
        space->pieces.enabled)
        return &fast__space_form_staged;
    if ((adds || read) && fast__space_is_coded(space, way, op->tensor))
        return &fast__space_form_encoded;
    if (msg->part_count == 2 && space->layers.list)
        return adds && op->tensor == 0 ? &fast__space_form_factored : NULL;
    if (msg->part_count == 2)
        return adds ? &fast__space_form_sparse : NULL;
    return &fast__space_form_dense;
}

/* The bound is checked here once for all forms: pools are sized by it. */
fast_err fast__space_pack(fast_space *space, fast_space_operation *op, fast_space_packed *out)
{
    const fast_space_form *form = fast__space_form_of(space, op);
    *out = (fast_space_packed){ 0 };
    FAST_TRY(form->pack(space, op, out));
    FAST_ASSERT(out->sizes[0] + out->sizes[1] + out->declared <= form->bound(space, op));
    return FAST_OK;
}

/* Frozen buffers are shared with other messages and added as views; others move. */
fast_err fast__space_fill(fast_space *space, fast_space_operation *op, fast_msg *msg)
{
    fast_space_packed packed;
    FAST_ASSERT(msg->part_count == 0);
    FAST_TRY(fast__space_pack(space, op, &packed));
    msg->declared = packed.declared;
    for (int i = 0; i < 2 && packed.buffers[i]; i++) {
        if (fast_buffer_is_frozen(packed.buffers[i])) {
            fast_msg_add_view(msg, packed.buffers[i], 0, packed.sizes[i]);
            fast_buffer_free(packed.buffers[i]);
        } else {
            fast_msg_add(msg, &packed.buffers[i]);
            msg->parts[i].size = packed.sizes[i];
        }
    }
    return FAST_OK;
}

/* Sets op->form even where it returns false, which no caller reads then. */
bool fast__space_unpack(fast_space *space, const fast_msg *msg, fast_space_operation *op)
{
    FAST_ASSERT(op->count > 0);
    op->form = fast__space_form_in(space, msg, op);
    return op->form && op->form->unpack(space, msg, op);
}
