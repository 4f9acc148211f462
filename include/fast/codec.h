/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * codec.h - FAST's codecs by themselves, for programs that send vectors by other means: a hook of
 * PyTorch's DDP, a protocol of one's own. The rules of fast.h hold.
 *
 *     fast_encoder *encoder = NULL;
 *     const fast_encoder_options options = { .codec = "topk:ratio=0.01", .count = 1000 };
 *     if (fast_encoder_open(&options, &encoder) != FAST_OK)
 *         puts(fast_error_detail());
 *     else
 *         printf("at most %zu bytes\n", fast_encoder_bound(encoder));
 *     fast_encoder_close(encoder);
 *
 * An encoder is one flow of vectors: elements that a lossy codec leaves out are its residual and
 * part of the next vector (error feedback). Receivers decode with an encoder of equal options.
 */

#include "fast/fast.h"

#ifdef __cplusplus
extern "C" {
#endif

/* A flow of vectors of one length through a codec. */
typedef struct fast_encoder fast_encoder;

/* How an encoder is made; zero means default. */
typedef struct fast_encoder_options {
    size_t size;           /* bytes of this struct, as in fast.h; 0 means sizeof */
    const char *codec;     /* a chain, as --codec of `fast train`: "topk:ratio=0.01+lz4" */
    int64_t count;         /* floats of a vector */
    const int64_t *rows;   /* [blocks] rows of each matrix of which the vector consists; NULL: it is
                              one block of one row */
    const int64_t *counts; /* [blocks] floats of each; they sum to `count`; NULL without rows */
    int64_t blocks;        /* number of matrices */
    int64_t seed;          /* of random choices */
    int64_t flow;          /* number of this sender: each has its own random choices */
} fast_encoder_options;

/* Make an encoder. FAST_EINVAL for an unknown codec, one that needs a run (its weights, its loss),
 * and sizes that contradict each other; FAST_ENOMEM. */
FAST_API FAST_MUST_CHECK fast_err fast_encoder_open(const fast_encoder_options *options,
                                                    fast_encoder **out);
FAST_API void fast_encoder_close(fast_encoder *encoder); /* NULL is allowed */

/* Return the bytes that an encoded vector takes at most. */
FAST_API size_t fast_encoder_bound(const fast_encoder *encoder);

/* Encode x to out[bound] and return the bytes written. The residual changes: send each result. */
FAST_API size_t fast_encoder_encode(fast_encoder *encoder, const float *x, void *out);

/* Decode: y becomes y + scale d. FAST_EFORMAT: these are no bytes of such an encoder; y is
 * undefined. */
FAST_API FAST_MUST_CHECK fast_err fast_encoder_decode(fast_encoder *encoder, const void *in,
                                                      size_t size, float scale, float *y);

#ifdef __cplusplus
}
#endif
