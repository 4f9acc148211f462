/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Updates that travel in pieces while the rest of the gradient is computed, and the staged form of
 * the ADD that ends them. A piece is a message to each remote owner whose range it touches. The
 * owner stages it until the update ends; the update is applied if all of its range has arrived.
 *
 *     plain   any stretch of floats: its offset, its count, and the floats
 *     coded   whole blocks of the writer's coder of the range, a layer each: the number of the
 *             first block, their count, and their encoding. A block is sent when all of it has
 *             been given
 *
 * A block's encoding depends on its layer, its residual and the number of the update, so that the
 * bits are those of the whole update (comm/coded/coded_early.c does the same with sums). Local
 * owners get the update when it ends.
 *
 * Cost: a message for each piece and owner. Time for encoding is charged when the update ends: a
 * piece is posted inside a backward pass and must not take simulated time there. Memory: at an
 * owner a range for each writer.
 */
#include "base/memory.h"
#include "space/space_form.h"
#include "tensor/vector.h"

#include <string.h>

/* Note that all of each block is missing. */
static void reset(fast_space *space)
{
    FAST_ASSERT(space->map.owner_count > 0);
    for (int64_t owner = 0; space->pieces.missing && owner < space->map.owner_count; owner++) {
        const fast_coder *coder = fast__space_coder(space, owner, NULL, NULL);
        int64_t at;
        for (int64_t i = 0; coder && i < fast__coder_block_count(coder); i++)
            fast__coder_block_at(coder, i, &at, &space->pieces.missing[owner][i]);
    }
}

/* One counter for each block of each owner's coder. Without a codec no state is needed. */
fast_err fast__space_pieces_new(fast_space *space)
{
    FAST_ASSERT(space->codec && !space->pieces.missing);
    FAST_TRY(fast__alloc("blocks of pieces", space->map.owner_count, sizeof *space->pieces.missing,
                         &space->pieces.missing));
    for (int64_t owner = 0; owner < space->map.owner_count; owner++) {
        fast_coder *coder = fast__space_coder(space, owner, NULL, NULL);
        if (!coder)
            continue;
        FAST_TRY(fast__alloc("blocks of pieces", fast__coder_block_count(coder),
                             sizeof **space->pieces.missing, &space->pieces.missing[owner]));
    }
    reset(space);
    return FAST_OK;
}

void fast__space_pieces_free(fast_space *space)
{
    for (int64_t owner = 0; space->pieces.missing && owner < space->map.owner_count; owner++)
        fast__free(space->pieces.missing[owner]);
    fast__free(space->pieces.missing);
}

/* Send a piece: its two words, and its bytes. That the owner has gone is found at the end of the
 * update. */
static fast_err post(fast_space *space, int64_t owner, int64_t a, int64_t b, fast_buffer **move,
                     size_t size)
{
    FAST_ASSERT(size <= fast_buffer_size(*move));
    const int64_t words[3] = { a, b, 0 };
    fast_msg *msg;
    fast_err err = fast__space_message(space, FAST_SPACE_PIECE, 0, owner, words, &msg);
    if (err) {
        fast_buffer_free(*move);
        *move = NULL;
        return err;
    }
    fast_buffer_freeze(*move);
    fast_msg_add_view(msg, *move, 0, size);
    fast_buffer_free(*move);
    *move = NULL;
    err = fast_send(space->actor, space->map.owners[owner].id, &msg);
    return err == FAST_EPEER ? FAST_OK : err;
}

/* Send floats [low, high) of the tensor x. */
static fast_err post_floats(fast_space *space, int64_t owner, const float *x, int64_t low,
                            int64_t high)
{
    const size_t size = (size_t)(high - low) * sizeof *x;
    fast_buffer *buffer;
    FAST_ASSERT(low < high);
    FAST_TRY(fast_buffer_new(space->actor, size, &buffer));
    fast__vector_copy(high - low, x + low, fast_buffer_data(buffer));
    return post(space, owner, low, high - low, &buffer, size);
}

/* Encode blocks of an owner's range x and send them. */
static fast_err post_blocks(fast_space *space, int64_t owner, const float *x, int64_t first,
                            int64_t count)
{
    FAST_ASSERT(first >= 0 && count > 0);
    fast_coded_figures *figures;
    fast_coder *coder = fast__space_coder(space, owner, NULL, &figures);
    const int64_t begin = fast__steady_now(space->actor);
    int64_t floats = 0, at, size;
    fast_buffer *buffer;
    FAST_TRY(fast_buffer_new(space->actor, fast__coder_bound(coder), &buffer));
    const size_t bytes =
        fast__coder_encode_part(coder, first, count, space->clocks.own, fast__space_progress(space),
                                x, fast_buffer_data(buffer));
    for (int64_t i = first; i < first + count; i++, floats += size)
        fast__coder_block_at(coder, i, &at, &size);
    fast__count(&figures->bytes_in, floats * (int64_t)sizeof *x);
    fast__count(&figures->bytes_out, (int64_t)bytes);
    space->pieces.spent_ns += fast__steady_now(space->actor) - begin;
    space->pieces.spent_floats += floats;
    space->pieces.spent_bytes += bytes;
    return post(space, owner, first, count, &buffer, bytes);
}

/* Floats [low, high) of an owner's range are final: send the blocks that this completes,
 * neighbours together. */
static fast_err send_blocks(fast_space *space, int64_t owner, const float *x, int64_t low,
                            int64_t high)
{
    const fast_coder *coder = fast__space_coder(space, owner, NULL, NULL);
    const int64_t count = fast__coder_block_count(coder);
    int64_t *missing = space->pieces.missing[owner], ready = 0;
    for (int64_t i = 0; i < count; i++) {
        int64_t at, size;
        fast__coder_block_at(coder, i, &at, &size);
        const int64_t from = low > at ? low : at, to = high < at + size ? high : at + size;
        const bool touches = from < to;
        if (touches)
            missing[i] -= to - from;
        FAST_ASSERT(missing[i] >= 0);
        if (touches && missing[i] == 0) {
            ready++;
            continue;
        }
        if (ready > 0)
            FAST_TRY(post_blocks(space, owner, x, i - ready, ready));
        ready = 0;
    }
    return ready > 0 ? post_blocks(space, owner, x, count - ready, ready) : FAST_OK;
}

/* Inside a backward pass: nothing here waits or charges. */
fast_err fast_space_add_piece(fast_space *space, const float *x, int64_t offset, int64_t count)
{
    FAST_ASSERT(space && x && offset >= 0 && count >= 0);
    FAST_ASSERT(offset + count <= space->map.counts[0]);
    if (!space->pieces.enabled)
        return fast__fail(FAST_EINVAL, "space \"%s\" takes no pieces", space->name);
    FAST_TRY(space->task.err);
    for (int64_t owner = 0; owner < space->map.owner_count; owner++) {
        const fast_space_owner *o = &space->map.owners[owner];
        int64_t base, size;
        fast__space_range(space, owner, 0, &base, &size);
        const int64_t low = base > offset ? base : offset;
        const int64_t high = base + size < offset + count ? base + size : offset + count;
        if (low >= high || o->store.head || o->gone || o->refused)
            continue;
        FAST_TRY(space->pieces.missing
                     ? send_blocks(space, owner, x + base, low - base, high - base)
                     : post_floats(space, owner, x, low, high));
    }
    return FAST_OK;
}

/* The residuals of all blocks are final once the whole update was encoded. */
fast_err fast__space_pieces_end(fast_space *space)
{
    FAST_ASSERT(space->pieces.spent_floats >= 0);
    const int64_t ns = space->pieces.spent_ns, floats = space->pieces.spent_floats;
    const size_t bytes = space->pieces.spent_bytes;
    const fast_chain *chain = NULL;
    fast_coded_figures *figures = NULL;
    for (int64_t owner = 0; space->pieces.missing && owner < space->map.owner_count; owner++) {
        fast_coder *coder = fast__space_coder(space, owner, &chain, &figures);
        if (coder && !space->map.owners[owner].store.head)
            fast__coder_encode_end(coder);
    }
    reset(space);
    space->pieces.spent_ns = space->pieces.spent_floats = 0;
    space->pieces.spent_bytes = 0;
    return floats > 0
               ? fast__charge_encode(space->actor, chain, fast__steady_now(space->actor) - ns,
                                     floats, bytes, figures)
               : FAST_OK;
}

/* Offsets and counts come from a message: compared without overflow. */
bool fast__space_is_piece(const fast_space *space, const fast_msg *msg)
{
    FAST_ASSERT(msg);
    FAST_ASSERT(space->map.me >= 0);
    const int64_t at = msg->words[FAST_SPACE_W_A], n = msg->words[FAST_SPACE_W_B];
    int64_t offset, count;
    if (!space->pieces.enabled || msg->words[FAST_SPACE_W_TENSOR] != 0 || n <= 0 || at < 0 ||
        msg->part_count != 1 || msg->declared != 0)
        return false;
    fast__space_range(space, space->map.me, 0, &offset, &count);
    if (space->pieces.missing) { /* blocks */
        const fast_coder *coder = fast__space_coder(space, space->map.me, NULL, NULL);
        count = coder ? fast__coder_block_count(coder) : 0;
        return n <= count && at <= count - n;
    }
    return at >= offset && n <= count && at - offset <= count - n &&
           msg->parts[0].size == (size_t)n * sizeof(float);
}

/* Decode blocks to the range at `stage`; return their floats, or 0 if they make no sense. */
static int64_t take_blocks(fast_space *space, const fast_msg *msg, float *stage)
{
    FAST_ASSERT(stage);
    const int64_t first = msg->words[FAST_SPACE_W_A], n = msg->words[FAST_SPACE_W_B];
    fast_coder *coder = fast__space_coder(space, space->map.me, NULL, NULL);
    int64_t floats = 0, at, size;
    if (fast__coder_decode_part(coder, first, n, fast_msg_data(msg, 0), msg->parts[0].size,
                                FAST_DECODE_SET, 1, stage) != FAST_OK)
        return 0;
    for (int64_t i = first; i < first + n; i++, floats += size)
        fast__coder_block_at(coder, i, &at, &size);
    return floats;
}

/* Charged here, at the owner, when the piece arrives: the owner overlaps it with its waits. */
fast_err fast__space_take_piece(fast_space *space, const fast_msg *msg, float *stage,
                                int64_t *floats_out)
{
    FAST_ASSERT(stage && floats_out);
    const int64_t at = msg->words[FAST_SPACE_W_A], begin = fast__steady_now(space->actor);
    const size_t bytes = msg->parts[0].size;
    const fast_chain *chain;
    fast_coded_figures *figures;
    int64_t offset, count;
    if (space->pieces.missing) {
        (void)fast__space_coder(space, space->map.me, &chain, &figures);
        *floats_out = take_blocks(space, msg, stage);
        fast__count(&figures->bytes_dec, *floats_out * (int64_t)sizeof *stage);
        return fast__charge_decode(space->actor, chain, begin, *floats_out, bytes, figures);
    }
    fast__space_range(space, space->map.me, 0, &offset, &count);
    *floats_out = msg->words[FAST_SPACE_W_B];
    fast__vector_copy(*floats_out, fast_msg_data(msg, 0), stage + (at - offset));
    return fast_charge(space->actor, 0, 2.0 * (double)bytes);
}

/* No bytes: the pieces were sent before. */
static size_t staged_bound(const fast_space *space, const fast_space_operation *op)
{
    FAST_ASSERT(op->flags & FAST_SPACE_ENDS);
    (void)space;
    (void)op;
    return 0;
}

/* The ADD that ends an update has words only. */
static fast_err staged_pack(fast_space *space, const fast_space_operation *op,
                            fast_space_packed *out)
{
    (void)space;
    (void)out;
    FAST_ASSERT(op->flags & FAST_SPACE_ENDS);
    return FAST_OK;
}

/* An update is applied only if all floats of its range have arrived. */
static bool staged_unpack(fast_space *space, const fast_msg *msg, fast_space_operation *op)
{
    FAST_ASSERT(msg->part_count == 0);
    return fast__service_staged(space, msg->from, &op->x) == op->count;
}

const fast_space_form fast__space_form_staged = {
    .name = "staged",
    .bound = staged_bound,
    .pack = staged_pack,
    .unpack = staged_unpack,
};
