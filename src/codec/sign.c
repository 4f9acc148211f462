/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sign: the sign of each element, and one magnitude for a group of them:
 *
 *     q_i = sign(v_i) m,   m = mean |v_k| of the group
 *
 * signSGD (Bernstein et al. 2018) sends signs alone; the magnitude makes it a contraction, with
 * which error feedback converges (EF-signSGD, Karimireddy et al. 2019).
 *
 * vote: the signs alone, q_i = sign(v_i); what workers sum up is replaced by its sign, the majority
 * vote (signSGD with majority vote), so a step moves every weight by the learning rate. With betas
 * a worker sends the sign of Lion's step by a mean m of its own gradients (distributed Lion, Liu et
 * al. 2024); both 0 is m = g, equal ones are the momentum of Signum:
 *
 *     v = beta1 m + (1 - beta1) g,   m <- beta2 m + (1 - beta2) g
 *
 *     sign    groups: the magnitude, then signs in words of 32 bits
 *     vote    a byte, 1 where some element is not finite; then signs
 *
 * -0 counts as negative. 1 bit an element and 4 bytes a group. Cost: x and e are read and e is
 * written once.
 */
#include "codec/codec.h"
#include "codec/signs.h"
#include "tensor/vector.h"

#include <math.h>
#include <string.h>

enum { GROUP_MAX = 65536 };

typedef struct sign_config {
    int64_t group; /* elements that share a magnitude */
} sign_config;

static const fast_option options[] = {
    FAST_OPT_INT(sign_config, group, "1024", 1, GROUP_MAX, "elements that share a magnitude"),
    FAST_OPT_END,
};

/* Bytes of a block: a magnitude and the signs of each group. */
static size_t size_of(int64_t group, const fast_block *block)
{
    const int64_t whole = block->count / group;
    const int64_t rest = block->count % group;

    return (size_t)whole * (sizeof(float) + fast__signs_size(group)) +
           (rest ? sizeof(float) + fast__signs_size(rest) : 0);
}

/* The size does not depend on the values. */
static size_t sign_bound(const void *config, const fast_block *block)
{
    return size_of(((const sign_config *)config)->group, block);
}

/* y = +-size by the sign's bit, or y += it, for n elements from `at` on. */
static void take_out(const fast_decoding *d, int64_t at, int64_t n, const uint8_t *in, float size)
{
    const float both[2] = { d->scale * size, -d->scale * size };

    fast__signs_take(n, in, both, d->mode == FAST_DECODE_ADD, d->y + at);
}

/* Group by group: the mean magnitude, then the signs; with feedback e = v - q in the same pass. */
static size_t sign_encode(const void *config, const fast_encoding *e, uint8_t *out)
{
    const int64_t group = ((const sign_config *)config)->group;
    uint8_t *at = out;

    for (int64_t i = 0; i < e->block.count; i += group) {
        const int64_t n = e->block.count - i < group ? e->block.count - i : group;
        float *error = e->error ? e->error + i : NULL;
        fast_signs_sums sums;

        fast__signs_sum(FAST_SIGNS_SIZE, n, e->x + i, error, &sums);
        const float size = sums.size / (float)n;
        const float both[2] = { size, -size };
        memcpy(at, &size, sizeof size);
        fast__signs_put(n, error ? error : e->x + i, both, error, error ? e->x + i + n : NULL,
                        at + sizeof size);
        at += sizeof size + fast__signs_size(n);
    }
    return (size_t)(at - out);
}

/* Group by group: a magnitude, then the signs. */
static fast_err sign_decode(const void *config, const fast_decoding *d)
{
    const int64_t group = ((const sign_config *)config)->group;
    const uint8_t *at = d->in;

    for (int64_t i = 0; i < d->block.count; i += group) {
        const int64_t n = d->block.count - i < group ? d->block.count - i : group;
        float size;

        memcpy(&size, at, sizeof size);
        take_out(d, i, n, at + sizeof size, size);
        at += sizeof size + fast__signs_size(n);
    }
    return FAST_OK;
}

typedef struct vote_config {
    double beta1; /* weight of the mean of gradients in the vote */
    double beta2; /* decay of that mean */
} vote_config;

static const fast_option vote_options[] = {
    FAST_OPT_REAL(vote_config, beta1, "0", 0, 1,
                  "weight of the worker's mean of gradients in its vote; 0: no mean (Lion: 0.9)"),
    FAST_OPT_REAL(vote_config, beta2, "0", 0, 1, "decay of that mean (Lion: 0.99)"),
    FAST_OPT_END,
};

/* The mean of gradients is momentum: the update rule must have none. */
static unsigned vote_more(const void *config)
{
    return ((const vote_config *)config)->beta1 > 0 ? FAST_CODEC_MOMENTUM : 0;
}

/* The mean of gradients. */
static int64_t vote_state(const void *config, const fast_block *block)
{
    return ((const vote_config *)config)->beta1 > 0 ? block->count : 0;
}

/* The mean that is voted by. */
static size_t vote_scratch(const void *config, const fast_block *block)
{
    return (size_t)vote_state(config, block) * sizeof(float);
}

/* The flag, then a bit an element. */
static size_t vote_bound(const void *config, const fast_block *block)
{
    (void)config;
    return 1 + fast__signs_size(block->count);
}

/* Signs alone; the flag tells a block that is not finite. */
static size_t vote_encode(const void *config, const fast_encoding *e, uint8_t *out)
{
    const vote_config *c = config;
    const float *v = e->x;

    if (c->beta1 > 0) {
        float *mean = e->scratch;
        memcpy(mean, e->state, (size_t)e->block.count * sizeof *mean);
        fast__vector_axpby(e->block.count, (float)(1 - c->beta1), e->x, (float)c->beta1, mean);
        fast__vector_axpby(e->block.count, (float)(1 - c->beta2), e->x, (float)c->beta2, e->state);
        v = mean;
    }
    out[0] = !fast__vector_finite(e->block.count, v);
    fast__signs_put(e->block.count, v, NULL, NULL, NULL, out + 1);
    return 1 + fast__signs_size(e->block.count);
}

/* y = +-1, or NaN in every element if the flag is set. */
static fast_err vote_decode(const void *config, const fast_decoding *d)
{
    (void)config;
    if (d->in[0] > 1)
        return fast__fail(FAST_EFORMAT, "codec vote: the first byte is %d, not 0 or 1", d->in[0]);
    take_out(d, 0, d->block.count, d->in + 1, d->in[0] ? NAN : 1);
    return FAST_OK;
}

const fast_codec fast__codec_sign = {
    .name = "sign",
    .summary = "1 bit an element: its sign, and a mean magnitude a group (EF-signSGD)",
    .options = options,
    .config_size = sizeof(sign_config),
    .traits = FAST_CODEC_FEEDBACK | FAST_CODEC_EXACT,
    .operations = 5,
    .bound = sign_bound,
    .encode = sign_encode,
    .decode = sign_decode,
};

const fast_codec fast__codec_vote = {
    .name = "vote",
    .summary = "signs alone; the majority of the workers decides (signSGD, distributed Lion)",
    .options = vote_options,
    .config_size = sizeof(vote_config),
    .more = vote_more,
    .state = vote_state,
    .scratch = vote_scratch,
    .traits = FAST_CODEC_VOTES | FAST_CODEC_EXACT,
    .operations = 2,
    .bound = vote_bound,
    .encode = vote_encode,
    .decode = vote_decode,
};
