/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Codecs of the strategy quorum. Of a server's stretch of the vector the gradient is encoded, what
 * lies in the state goes as it is:
 *
 *     part of a message   the state's floats, then the encoding
 *
 * A worker has a flow to each server, and what an encoding lost is added to its next gradient. A
 * gradient that comes late and is added to a later round is the same bytes again: encoded a second
 * time it would take what is owed twice. One that is dropped is lost with all that was in it. The
 * sum has a flow of its own from each server, by codec_down: all workers get all sums, in order, so
 * that they decode the same.
 *
 * Cost: the codec's. Memory: an encoding for each server at a worker; at a server the decoded
 * stretches of all workers.
 */
#include "base/err.h"
#include "base/memory.h"
#include "strategy/quorum.h"

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
    if (out->coded == 0)
        return FAST_OK;
    FAST_TRY(fast_trainer_flow(t, &options, &out->flow));
    return how->decodes
               ? FAST_OK
               : fast__alloc("an encoding", (int64_t)fast_flow_bound(out->flow), 1, &out->bytes);
}

void fast__quorum_code_close(fast_quorum_code *code)
{
    fast__free(code->bytes);
    *code = (fast_quorum_code){ 0 };
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

    FAST_TRY(fast_buffer_new(t->actor, size + code->size, &buffer));
    char *data = fast_buffer_data(buffer);
    if (size > 0)
        memcpy(data, rest, size);
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

    if (all < rest || (code->coded == 0 && all != rest))
        return fast__fail(FAST_EFORMAT, "%zu bytes are no encoding of %lld numbers", all,
                          (long long)(code->coded + code->rest));
    if (rest > 0)
        memcpy(x + code->coded, data, rest);
    if (code->coded == 0)
        return FAST_OK;
    memset(x, 0, (size_t)code->coded * sizeof *x);
    return fast_trainer_decode(t, code->flow, data + rest, all - rest, 1, x);
}
