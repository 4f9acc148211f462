/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "base/err.h"

/*
 * Counter-based random streams: Philox4x32-10 (Salmon et al., "Parallel Random Numbers: As Easy
 * as 1, 2, 3", SC 2011). A stream is a pure function of (seed, purpose, actor, step, sample). So
 * the order of samples, the initial weights and every mask are the same for any number of workers
 * and any scheduling, and a resumed run needs no generator state.
 */
typedef enum fast_purpose {
    FAST_PURPOSE_INIT = 1,  /* initial weights; sample = segment */
    FAST_PURPOSE_SHUFFLE,   /* order of samples; step = epoch */
    FAST_PURPOSE_SHARD,     /* split among workers */
    FAST_PURPOSE_AUGMENT,   /* step = epoch, sample = index in the data set */
    FAST_PURPOSE_DROPOUT,   /* actor = node, sample = position in the global batch */
    FAST_PURPOSE_SYNTHETIC, /* synthetic data; sample = index */
    FAST_PURPOSE_TEST,      /* for tests */
    FAST_PURPOSE_ACTOR,     /* an actor's own stream; step = life */
    FAST_PURPOSE_NETWORK,   /* jitter, loss, duplication of simulated links */
    FAST_PURPOSE_NODE,      /* jitter of simulated nodes' speeds */
    FAST_PURPOSE_FAULT,     /* random fault schedules */
    FAST_PURPOSE_TOPOLOGY,  /* random graphs */
    FAST_PURPOSE_EXCHANGE,  /* exchanges between workers that are skipped at random */
    FAST_PURPOSE_CODEC,     /* stochastic rounding and random choices of codecs; actor = block */
    FAST_PURPOSE_GENERATE,  /* characters of generated text; step = character */
    FAST_PURPOSE_SEARCH     /* settings of tuned options; sample = trial */
} fast_purpose;

/* A stream: its key, its position, and the block of words it draws from. */
typedef struct fast_rng {
    uint32_t key[2];     /* derived from the seed and the purpose */
    uint32_t counter[4]; /* block, sample, step, actor */
    uint32_t block[4];   /* the words of the current block */
    int left;            /* unused words of the block */
} fast_rng;

/* Run the generator's ten rounds on one counter. */
void fast__philox(const uint32_t counter[4], const uint32_t key[2], uint32_t out[4]);

/* Start a stream. actor must be below 2^32 - 2; step and sample below 2^32. */
void fast__rng_init(fast_rng *rng, uint64_t seed, fast_purpose purpose, uint64_t actor,
                    uint64_t step, uint64_t sample);

/* The next 32 random bits. */
uint32_t fast__rng_u32(fast_rng *rng);
float fast__rng_uniform(fast_rng *rng);                  /* [0, 1), 24 bits */
float fast__rng_normal(fast_rng *rng);                   /* mean 0, variance 1 (Box-Muller) */
uint64_t fast__rng_below(fast_rng *rng, uint64_t bound); /* [0, bound), unbiased */

/* Return position `i` of a pseudo-random permutation of [0, count), without memory and for any
 * position at once: a Feistel network over the smallest power of four that holds count, repeated
 * until the value is inside. */
uint64_t fast__rng_permute(uint64_t seed, fast_purpose purpose, uint64_t step, uint64_t count,
                           uint64_t i);
