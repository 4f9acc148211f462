/* SPDX-License-Identifier: Apache-2.0 */
/*
 * dgc: deep gradient compression (Lin, Han, Mao, Wang and Dally 2018). With g a worker's gradient
 * and u and v its state, which starts at 0,
 *
 *     g <- g min(1, c / |g|)         local clipping, c = clip / sqrt(workers)
 *     u <- momentum u + g            momentum correction: the optimizer itself needs none then
 *     v <- v + u
 *     send the k largest of v by magnitude
 *     u <- 0, v <- 0 where sent      momentum factor masking
 *
 * with k = ratio n, at least one. In the first `warmup` epochs more is sent: 1/4, 1/16, 1/64 ... of
 * the elements in successive epochs, but never less than the ratio. threshold=sample selects as the
 * paper does: elements that reach the threshold of a sample of one of a hundred are sent, and if
 * these are more than k, the k largest of them. threshold=exact costs the same here (select.h).
 *
 * choose=loss is the choice of eSGD (Tao and Li 2018). Each element has a hidden weight h, which
 * starts at 0 and remembers how often an update of the element lowered the loss:
 *
 *     h <- beta h + (1 - beta) [loss of this gradient < loss of the gradient before]
 *                                    where sent in between; all others remain
 *     send the k largest of |v| (1 + h)
 *
 * So important elements are sent at up to half the size of others, which wait with momentum. A
 * sender without a loss sends the largest.
 *
 *     block   entries (entries.h), float or (value=fp16) half
 *
 * At 0.1% an entry takes 5.9 bytes: 670 times smaller. Two vectors of state, u and v, and with
 * choose=loss h and a mark for each element sent last: unsent values stay in v, so the codec needs
 * no error feedback. Cost: u is read and written, then v, then k writes; clipping reads the
 * gradient once more.
 */
#include "codec/codec.h"
#include "codec/entries.h"
#include "codec/select.h"
#include "tensor/vector.h"

#include <math.h>
#include <string.h>

typedef struct dgc_config {
    double ratio;    /* fraction of the elements that is sent */
    double momentum; /* of the correction */
    double clip;     /* norm of the sum of all workers' gradients at most; 0: any */
    double warmup;   /* epochs */
    int value;       /* 0 fp32, 1 fp16 */
    int choose;      /* 0 largest, 1 loss */
    double beta;     /* choose=loss: decay of the hidden weights */
    int threshold;   /* 0 exact, 1 sample */
} dgc_config;

static const fast_option options[] = {
    FAST_OPT_REAL(dgc_config, ratio, "0.001", 1e-9, 1, "fraction of the elements that is sent"),
    FAST_OPT_REAL(dgc_config, momentum, "0.9", 0, 0.9999,
                  "of the correction; the optimizer must have none unless this is 0"),
    FAST_OPT_REAL(dgc_config, clip, "0", 0, 1e9,
                  "clip gradients to this norm / sqrt(workers); 0: never"),
    FAST_OPT_REAL(dgc_config, warmup, "4", 0, 1000,
                  "epochs in which 1/4, 1/16, ... of the elements are sent"),
    FAST_OPT_CHOICE(dgc_config, value, "fp32", "fp32|fp16", "type of the values on the wire"),
    FAST_OPT_CHOICE(dgc_config, choose, "largest", "largest|loss",
                    "the largest elements are sent, or sooner those that lowered the loss (eSGD)"),
    FAST_OPT_REAL(dgc_config, beta, "0.9", 0, 0.9999,
                  "choose=loss: decay of an element's hidden weight, by each time it is sent"),
    FAST_OPT_CHOICE(dgc_config, threshold, "exact", "exact|sample",
                    "exactly the largest, or those that reach the threshold of a sample"),
    FAST_OPT_END,
};

/* Return how many of n elements are sent at this progress, in epochs. */
static int64_t count_of(const dgc_config *c, int64_t n, double progress)
{
    double ratio = c->ratio;

    if (progress < c->warmup)
        ratio = fmax(ratio, pow(0.25, floor(progress) + 1));
    return fast__entries_count(ratio, n);
}

/* Entries at the start of the warm-up, when most are sent. */
static size_t bound(const void *config, const fast_block *block)
{
    const dgc_config *c = config;

    return fast__entries_bound(block->count, count_of(c, block->count, 0), c->value == 1);
}

/* u, the momentum, then v, the accumulated gradients; [count] each. With choose=loss also h and
 * marks of the elements that were sent last, [count] each, and the loss then. */
static int64_t state(const void *config, const fast_block *block)
{
    return ((const dgc_config *)config)->choose == 1 ? 4 * block->count + 1 : 2 * block->count;
}

/* Memory of the selection, and with choose=loss [count] sizes; v itself is in the state. */
static size_t scratch(const void *config, const fast_block *block)
{
    const int choose = ((const dgc_config *)config)->choose;

    return fast__select_scratch(block->count) +
           (choose == 1 ? (size_t)block->count * sizeof(float) : 0);
}

/* With momentum correction the update rule must not have momentum of its own. */
static unsigned more(const void *config)
{
    const dgc_config *c = config;

    return (c->momentum > 0 ? FAST_CODEC_MOMENTUM : 0) | (c->choose == 1 ? FAST_CODEC_LOSS : 0);
}

/* Return the factor of clipping; a norm that is not finite is left, so that it shows. */
static float clip_of(const dgc_config *c, const fast_encoding *e)
{
    const double limit = c->clip / sqrt((double)e->workers);

    if (c->clip == 0)
        return 1;
    const double norm = sqrt(fast__vector_norm2(e->block.count, e->x));
    return norm > limit && isfinite(norm) ? (float)(limit / norm) : 1;
}

/* v += u; update the hidden weights, and return the k elements to send by them, marked. */
static const uint32_t *select_by_loss(const dgc_config *c, const fast_encoding *e, const float *u,
                                      float *v, int64_t k)
{
    const int64_t n = e->block.count;
    float *h = v + n, *marks = h + n, *before = marks + n;
    float *sizes = (float *)(void *)((char *)e->scratch + fast__select_scratch(n));
    const float loss = e->model ? (float)e->model->loss : NAN;
    const float gain = loss < *before ? (float)(1 - c->beta) : 0;

    fast__vector_add(n, u, v);
    for (int64_t i = 0; i < n; i++) {
        h[i] = marks[i] != 0 ? (float)c->beta * h[i] + gain : h[i];
        sizes[i] = v[i] * (1 + h[i]);
        marks[i] = 0;
    }
    *before = loss;
    const uint32_t *index = fast__select_top(n, k, e->key, NULL, sizes, e->scratch);
    for (int64_t i = 0; i < k; i++)
        marks[index[i]] = 1;
    return index;
}

/* Select by the options; *k becomes the number of elements. v += u first. */
static const uint32_t *select_elements(const dgc_config *c, const fast_encoding *e, const float *u,
                                       float *v, int64_t *k)
{
    if (c->choose == 1)
        return select_by_loss(c, e, u, v, *k);
    if (c->threshold == 1)
        return fast__select_sampled(e->block.count, *k, e->key, u, v, e->scratch, k);
    return fast__select_top(e->block.count, *k, e->key, u, v, e->scratch);
}

/* u = m u + clip g; v += u, inside the selection; send the k largest of v and clear both u and v
 * there. */
static size_t encode(const void *config, const fast_encoding *e, uint8_t *out)
{
    const dgc_config *c = config;
    const int64_t n = e->block.count;
    int64_t k = count_of(c, n, e->progress);
    float *u = e->state;
    float *v = u + n;

    FAST_ASSERT(!e->error && e->workers > 0);
    fast__vector_axpby(n, clip_of(c, e), e->x, (float)c->momentum, u);
    const uint32_t *index = select_elements(c, e, u, v, &k);
    for (int64_t i = 0; i < k; i++)
        u[index[i]] = 0;
    return fast__entries_put(k, index, c->value == 1, v, out);
}

/* The sent entries of v, as topk has them. */
static fast_err pairs(const void *config, const fast_decoding *d, uint32_t *index, float *value,
                      int64_t *count_out)
{
    return fast__entries_get("dgc", d, ((const dgc_config *)config)->value == 1, index, value,
                             count_out);
}

const fast_codec fast__codec_dgc = {
    .name = "dgc",
    .summary = "the largest accumulated gradients, with momentum (deep gradient compression)",
    .options = options,
    .config_size = sizeof(dgc_config),
    .traits = FAST_CODEC_SPARSE | FAST_CODEC_ACCUMULATES,
    .more = more,
    .bound = bound,
    .state = state,
    .scratch = scratch,
    .encode = encode,
    .pairs = pairs,
};
