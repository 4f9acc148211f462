/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Flows: vectors that a strategy sends in messages of its own, to one or to many, and that its
 * receivers add up. Who sends opens a flow and encodes; who receives opens the same one and decodes
 * what comes from anyone by it, because only the sender's half has a state:
 *
 *     sender      C(x + e) -> bytes,  e <- x + e - decode(bytes)     where the codec feeds back
 *     receiver    y <- y + scale decode(bytes)
 *
 * One flow has one residual e: a sender takes one flow where the same bytes go to all, and one for
 * each receiver where they differ.
 *
 * Cost: the codec's, in simulated time as coded.c counts it. Memory: the codec's state. Nothing is
 * allocated after a flow was made.
 */
#include "comm/flow.h"

#include "base/memory.h"

struct fast_flow {
    fast_flow *next;             /* in a list */
    fast_flow_options options;   /* as they were asked for */
    const fast_chain *chain;     /* what it is encoded by */
    int64_t count;               /* of floats */
    fast_coder *coder;           /* of the range */
    fast_coded_figures *figures; /* what was done */
};

static fast_err check(const fast_chain *chain)
{
    if (fast__chain_traits(chain) & FAST_CODEC_VOTES)
        return fast__fail(FAST_EINVAL,
                          "codec %s takes the votes of all workers in one sum, and here each "
                          "message stands alone; take sign",
                          fast__chain_text(chain));
    return FAST_OK;
}

fast_err fast__flow_new(const fast_coded_options *o, const fast_flow_options *options,
                        fast_coded_figures *figures, fast_flow **out)
{
    const int64_t rest = o->layout->count - options->offset;
    const int64_t count = options->count > 0 ? options->count : rest;
    fast_flow *flow = NULL;

    FAST_ASSERT(options->offset >= 0 && count > 0 && count <= rest);
    fast_coder_options coder = fast__coded_coder(o, options->offset, count);
    coder.flow |= (uint64_t)(options->number + 1) << 32; /* sums and spaces have those below */
    if (options->down) { /* what is said of feedback is of the way there, and counts if it can */
        const unsigned exact = FAST_CODEC_KEEPS | FAST_CODEC_LOSSLESS | FAST_CODEC_UNBIASED;

        coder.chain = o->down;
        if (coder.feedback == 1 && (fast__chain_traits(o->down) & exact))
            coder.feedback = 0;
    }
    if (options->decodes)
        coder.feedback = 2;
    FAST_TRY(check(coder.chain));
    FAST_TRY(fast__alloc("a flow", 1, sizeof *flow, &flow));
    flow->options = *options;
    flow->chain = coder.chain;
    flow->count = count;
    flow->figures = figures;
    const fast_err err = fast__coder_new(&coder, &flow->coder);
    if (err)
        fast__flow_free(flow);
    else
        *out = flow;
    return err;
}

void fast__flow_free(fast_flow *flow)
{
    if (!flow)
        return;
    fast__coder_free(flow->coder);
    fast__free(flow);
}

bool fast__flow_is(const fast_flow *flow, const fast_flow_options *o)
{
    const fast_flow_options *own = &flow->options;

    return own->number == o->number && own->down == o->down && own->decodes == o->decodes &&
           own->offset == o->offset && own->count == o->count;
}

fast_flow **fast__flow_next(fast_flow *flow)
{
    return &flow->next;
}

float *fast__flow_state(fast_flow *flow, int64_t *count_out)
{
    return fast__coder_state(flow->coder, count_out);
}

size_t fast_flow_bound(const fast_flow *flow)
{
    return fast__coder_bound(flow->coder);
}

fast_err fast__flow_encode(fast_flow *flow, fast_actor *actor, int64_t step, double progress,
                           const float *x, uint8_t *out, size_t *size_out)
{
    const int64_t begin = fast_now(actor);

    FAST_ASSERT(!flow->options.decodes && x != NULL);
    *size_out = fast__coder_encode(flow->coder, step, progress, x, out);
    fast__count(&flow->figures->bytes_in, flow->count * (int64_t)sizeof *x);
    fast__count(&flow->figures->bytes_out, (int64_t)*size_out);
    return fast__charge_encode(actor, flow->chain, begin, flow->count, *size_out, flow->figures);
}

fast_err fast__flow_decode(fast_flow *flow, fast_actor *actor, const uint8_t *in, size_t size,
                           float scale, float *y)
{
    const int64_t begin = fast_now(actor);

    FAST_TRY(fast__coder_decode(flow->coder, in, size, FAST_DECODE_ADD, scale, y));
    fast__count(&flow->figures->bytes_dec, flow->count * (int64_t)sizeof *y);
    return fast__charge_decode(actor, flow->chain, begin, flow->count, size, flow->figures);
}
