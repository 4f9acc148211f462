/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Blocks of attention. With m the largest score so far, l the sum of exp(s - m) and z that of
 * exp(s - m) v, a block with scores s' changes them to
 *
 *     m' = max(m, s')   l' = l exp(m - m') + sum exp(s' - m')
 *                       z' = z exp(m - m') + sum exp(s' - m') v
 *
 * and z / l is the output. Backward, with L = m + log l and delta = dz . z of the whole rows:
 *
 *     p = exp(s - L)   dv += p dz   ds = p (dz . v - delta)   dq += ds k   dk += ds q
 */
#include "engine/block_attention.h"

#include <math.h>

int64_t fast__attention_sees(const fast_attention_block *b, int64_t i)
{
    if (b->ahead == INT64_MAX || i + b->ahead >= b->keys - 1)
        return b->keys;
    return i + b->ahead < 0 ? 0 : i + b->ahead + 1;
}

static float dot(int64_t n, const float *restrict x, const float *restrict y)
{
    float sum = 0;

    for (int64_t i = 0; i < n; i++)
        sum += x[i] * y[i];
    return sum;
}

static void add(int64_t n, float factor, const float *restrict x, float *restrict y)
{
    for (int64_t i = 0; i < n; i++)
        y[i] += factor * x[i];
}

/* Compute the scores of a query, and return the largest. */
static float score(const fast_attention_block *b, int64_t keys, const float *q, const float *k,
                   float *row)
{
    float max = -INFINITY;

    for (int64_t j = 0; j < keys; j++) {
        row[j] = b->scale * dot(b->D, q, k + j * b->kv_stride);
        max = row[j] > max ? row[j] : max;
    }
    return max;
}

void fast__attention_add(const fast_attention_block *b, const float *q, const float *k,
                         const float *v, float *stats, float *z, float *row)
{
    FAST_ASSERT(b->queries > 0 && b->keys > 0);
    for (int64_t i = 0; i < b->queries; i++) {
        const int64_t keys = fast__attention_sees(b, i);
        float *m = stats + 2 * i, *l = m + 1, *to = z + i * b->z_stride;

        if (keys == 0)
            continue;
        const float largest = score(b, keys, q + i * b->q_stride, k, row);
        const float max = largest > *m ? largest : *m, shrink = expf(*m - max);
        *l *= shrink;
        for (int64_t d = 0; d < b->D; d++)
            to[d] *= shrink;
        for (int64_t j = 0; j < keys; j++) {
            const float p = expf(row[j] - max);

            *l += p;
            add(b->D, p, v + j * b->kv_stride, to);
        }
        *m = max;
    }
}

void fast__attention_end(const fast_attention_block *b, float *stats, float *z)
{
    for (int64_t i = 0; i < b->queries; i++) {
        FAST_ASSERT(!(stats[2 * i + 1] <= 0)); /* NaN where an input is not finite */
        for (int64_t d = 0; d < b->D; d++)
            z[i * b->z_stride + d] /= stats[2 * i + 1];
        stats[2 * i] += logf(stats[2 * i + 1]);
    }
}

void fast__attention_back(const fast_attention_block *b, const float *q, const float *k,
                          const float *v, const float *stats, const float *dz, float *dq, float *dk,
                          float *dv)
{
    FAST_ASSERT(b->queries > 0 && b->keys > 0);
    for (int64_t i = 0; i < b->queries; i++) {
        const int64_t keys = fast__attention_sees(b, i);
        const float *own = q + i * b->q_stride, *from = dz + i * b->z_stride;

        for (int64_t j = 0; j < keys; j++) {
            const int64_t at = j * b->kv_stride;
            const float p = expf(b->scale * dot(b->D, own, k + at) - stats[2 * i]);
            const float ds = b->scale * p * (dot(b->D, from, v + at) - stats[2 * i + 1]);

            add(b->D, p, from, dv + at);
            add(b->D, ds, k + at, dq + i * b->q_stride);
            add(b->D, ds, own, dk + at);
        }
    }
}
