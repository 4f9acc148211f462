/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "base/err.h"

/*
 * Attention of some queries and a block of keys and values, as one of several blocks (online
 * softmax; Milakov and Gimelshein 2018). One head of one sample: rows of D channels, `stride`
 * floats apart.
 */
typedef struct fast_attention_block {
    int64_t queries, keys; /* rows of both */
    int64_t D;             /* channels */
    int64_t ahead; /* causal: query i sees keys up to i + ahead of the block; a negative number of
                      rows hides the first ones. INT64_MAX: each query sees all keys */
    int64_t q_stride, kv_stride, z_stride; /* floats from row to row */
    float scale;                           /* of scores */
} fast_attention_block;

/* Return how many keys of the block query i sees. */
int64_t fast__attention_sees(const fast_attention_block *b, int64_t i);

/* Add a block: z becomes the sum of exp(s - max) v, with stats [queries][2]: max, and the sum of
 * exp(s - max). Before the first block max is -INFINITY, and all else 0. `row` is scratch of a
 * float for each key. */
void fast__attention_add(const fast_attention_block *b, const float *q, const float *k,
                         const float *v, float *stats, float *z, float *row);
/* All blocks are added: divide z by the sums, and set stats[i][0] to log sum exp s. */
void fast__attention_end(const fast_attention_block *b, float *stats, float *z);
/* Add to the gradients what passes through a block; stats[i] is log sum exp s, and dz . z. */
void fast__attention_back(const fast_attention_block *b, const float *q, const float *k,
                          const float *v, const float *stats, const float *dz, float *dq, float *dk,
                          float *dv);
