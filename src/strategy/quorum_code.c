/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Codecs of the strategy quorum. In a server's range of the vector the gradient is encoded, and the
 * state is sent as floats:
 *
 *     part of a message   the state's floats, the encoding of the gradient
 *
 * A worker has a flow to each server, and the residual of an encoding is added to its next
 * gradient. A late gradient that is added to a later round is sent as the same bytes again: a
 * second encoding would add the residual twice. A dropped gradient is lost with its residual. The
 * sum has a flow of its own from each server, by codec_down: all workers get all sums in order, so
 * that they decode equal values.
 *
 * Cost: the codec's. Memory: an encoding for each server at a worker; at a server the decoded
 * ranges of all workers.
 */
#include "base/err.h"
#include "base/memory.h"
#include "strategy/quorum.h"
#include "tensor/vector.h"
#include "trainer/remember.h"

#include <string.h>

fast_err fast__quorum_code_open(fast_trainer *t, int64_t server, const fast_flow_options *how,
                                fast_quorum_code *out)
{
    fast_flow_options options = *how;
    int64_t count;

    *out = (fast_quorum_code){ .on = true };
    fast__quorum_range(t, server, &options.offset, &count);
    out->coded = options.offset >= t->count          ? 0
                 : options.offset + count > t->count ? t->count - options.offset
                                                     : count;
    out->rest = count - out->coded;
    options.count = out->coded;
    FAST_ASSERT(out->coded >= 0 && out->rest >= 0);
    if (out->coded == 0)
        return FAST_OK;
    FAST_TRY(fast_trainer_flow(t, &options, &out->flow));
    return how->decodes
               ? FAST_OK
               : fast__alloc("an encoding", (int64_t)fast_flow_bound(out->flow), 1, &out->bytes);
}

void fast__quorum_code_close(fast_quorum_code *code)
{
    FAST_ASSERT(code->on || !code->bytes);
    fast__free(code->bytes);
    *code = (fast_quorum_code){ 0 };
}

fast_err fast__quorum_code_remember(fast_trainer *t, fast_quorum_code *code, int64_t number)
{
    const size_t room = code->bytes ? fast_flow_bound(code->flow) : 0;

    FAST_ASSERT(number >= 0);
    FAST_TRY(fast__trainer_remember(t, number, code->bytes, room));
    FAST_TRY(fast__trainer_remember(t, number + 1, &code->size, sizeof code->size));
    return fast__trainer_check_saved(t, code->size <= room);
}

fast_err fast__quorum_encode(fast_trainer *t, fast_quorum_code *code, const float *x)
{
    FAST_ASSERT(code->on);
    return code->coded > 0 ? fast_trainer_encode(t, code->flow, x, code->bytes, &code->size)
                           : FAST_OK;
}

fast_err fast__quorum_pack(fast_trainer *t, const fast_quorum_code *code, const float *rest,
                           fast_buffer **out, size_t *size_out)
{
    const size_t size = (size_t)code->rest * sizeof *rest;
    fast_buffer *buffer = NULL;

    FAST_ASSERT(code->on);
    FAST_TRY(fast_buffer_new(t->actor, size + code->size, &buffer));
    char *data = fast_buffer_data(buffer);
    if (size > 0)
        fast__vector_copy(code->rest, rest, data);
    if (code->size > 0)
        memcpy(data + size, code->bytes, code->size);
    fast_buffer_freeze(buffer);
    *out = buffer;
    *size_out = size + code->size;
    return FAST_OK;
}

fast_err fast__quorum_unpack(fast_trainer *t, const fast_quorum_code *code, const fast_msg *msg,
                             float *x)
{
    const size_t rest = (size_t)code->rest * sizeof *x, all = msg->parts[0].size;
    const char *data = fast_msg_data(msg, 0);

    FAST_ASSERT(code->on);
    if (all < rest || (code->coded == 0 && all != rest))
        return fast__fail(FAST_EFORMAT, "%zu bytes are not an encoding of %lld numbers", all,
                          (long long)(code->coded + code->rest));
    if (rest > 0)
        fast__vector_copy(code->rest, data, x + code->coded);
    if (code->coded == 0)
        return FAST_OK;
    fast__vector_fill(code->coded, 0, x);
    return fast_trainer_decode(t, code->flow, data + rest, all - rest, 1, x);
}
