/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The public encoder: a chain and a coder over a layout of matrices, without a run. A codec that
 * compares with the weights or looks at the loss has nothing to look at here, and is refused.
 */
#include "base/memory.h"
#include "codec/codec.h"
#include "fast/codec.h"

#include <stdio.h>
#include <string.h>

struct fast_encoder {
    fast_chain *chain;      /* parsed text of the codec */
    fast_coder *coder;      /* the flow, with its residual */
    fast_segment *segments; /* of the layout */
    fast_layout layout;     /* matrices of the vector */
    int64_t step;           /* vectors encoded so far */
};

/* Lay the matrices out one after the other. FAST_EINVAL if they do not fill the vector. */
static fast_err lay_out(const fast_encoder_options *o, fast_encoder *self)
{
    const int64_t blocks = o->rows ? o->blocks : 1;
    int64_t offset = 0;

    if (o->count < 1 || o->count > INT32_MAX || blocks < 1 || (o->rows && !o->counts))
        return fast__fail(FAST_EINVAL, "an encoder of %lld floats in %lld matrices",
                          (long long)o->count, (long long)blocks);
    FAST_TRY(fast__alloc("an encoder's matrices", blocks, sizeof *self->segments, &self->segments));
    for (int64_t i = 0; i < blocks; i++) {
        fast_segment *s = &self->segments[i];
        const int64_t rows = o->rows ? o->rows[i] : 1;
        const int64_t count = o->rows ? o->counts[i] : o->count;

        if (rows < 1 || count < 1 || count % rows != 0 || count > o->count - offset)
            return fast__fail(FAST_EINVAL,
                              "matrix %lld of an encoder: %lld floats in %lld rows, where %lld "
                              "floats are left",
                              (long long)i, (long long)count, (long long)rows,
                              (long long)(o->count - offset));
        snprintf(s->name, sizeof s->name, "%lld", (long long)i);
        s->offset = offset;
        s->count = count;
        s->rank = rows > 1 ? 2 : 1;
        s->shape[0] = rows > 1 ? rows : count;
        s->shape[1] = rows > 1 ? count / rows : 0;
        offset += count;
    }
    if (offset != o->count)
        return fast__fail(FAST_EINVAL,
                          "the matrices of an encoder have %lld floats, its vector %lld",
                          (long long)offset, (long long)o->count);
    self->layout = (fast_layout){ self->segments, blocks, o->count };
    return FAST_OK;
}

/* Fill in a zero-initialised encoder. */
static fast_err open_encoder(const fast_encoder_options *o, fast_encoder *self)
{
    const unsigned needs_run = FAST_CODEC_MODEL | FAST_CODEC_LOSS;

    FAST_TRY(lay_out(o, self));
    FAST_TRY(fast__chain_open(o->codec ? o->codec : "none", &self->chain));
    if (fast__chain_selects(self->chain) || (fast__chain_traits(self->chain) & needs_run))
        return fast__fail(FAST_EINVAL,
                          "codec %s looks at the weights or the loss of a run, which an encoder "
                          "does not have",
                          fast__chain_text(self->chain));
    return fast__coder_new(&(fast_coder_options){ .chain = self->chain,
                                                  .layout = &self->layout,
                                                  .count = o->count,
                                                  .seed = (uint64_t)o->seed,
                                                  .flow = (uint64_t)o->flow },
                           &self->coder);
}

fast_err fast_encoder_open(const fast_encoder_options *options, fast_encoder **out)
{
    fast_encoder *self = NULL;

    FAST_ASSERT(options != NULL && out != NULL);
    FAST_TRY(fast__check_size("fast_encoder_options", options->size, sizeof *options));
    FAST_TRY(fast__alloc("an encoder", 1, sizeof *self, &self));
    const fast_err err = open_encoder(options, self);
    if (err) {
        fast_encoder_close(self);
        return err;
    }
    *out = self;
    return FAST_OK;
}

void fast_encoder_close(fast_encoder *encoder)
{
    if (!encoder)
        return;
    fast__coder_free(encoder->coder);
    fast__chain_close(encoder->chain);
    fast__free(encoder->segments);
    fast__free(encoder);
}

size_t fast_encoder_bound(const fast_encoder *encoder)
{
    return fast__coder_bound(encoder->coder);
}

size_t fast_encoder_encode(fast_encoder *encoder, const float *x, void *out)
{
    return fast__coder_encode(encoder->coder, encoder->step++, 0, x, out);
}

fast_err fast_encoder_decode(fast_encoder *encoder, const void *in, size_t size, float scale,
                             float *y)
{
    return fast__coder_decode(encoder->coder, in, size, FAST_DECODE_ADD, scale, y);
}
