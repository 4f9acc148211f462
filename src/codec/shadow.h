/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "codec/codec.h"

/* Values that are sent as differences to what their receiver holds; shadow.c says how. */

/* The codec of such vectors, with its scratch: one for a range, whoever receives. */
typedef struct fast_shadows fast_shadows;

/* What one receiver holds of a vector: kept by the sender, and by the receiver itself. All 0: it
 * has nothing yet. */
typedef struct fast_shadow {
    float *values;   /* [count], then the codec's state; NULL: nothing yet */
    uint32_t flow;   /* sender: distinct for each receiver, for what is drawn by chance */
    uint32_t number; /* of messages that made it */
    bool whole;      /* it stands for values: something came, or was sent */
    double kept;     /* sender: the part of the last difference's square that was sent */
} fast_shadow;

/* True if values go as differences by this chain: it loses something, and is not fit for values. */
bool fast__shadow_needed(const fast_chain *chain);
/* Refuse a chain that does not go with differences: FAST_EINVAL. `option` is its name. */
fast_err fast__shadow_check(const fast_chain *chain, const char *option);

/* The options as of a coder; `feedback` is not looked at, what is owed is in the differences. */
fast_err fast__shadows_new(const fast_coder_options *options, fast_shadows **out);
void fast__shadows_free(fast_shadows *shadows); /* NULL is allowed */
void fast__shadow_fini(fast_shadow *shadow);    /* likewise; it is as all 0 then */
/* Room for what a receiver holds and the codec keeps for it: so many floats, made before the first
 * message or with it. FAST_ENOMEM. */
int64_t fast__shadows_floats(const fast_shadows *shadows);
fast_err fast__shadow_reserve(const fast_shadows *shadows, fast_shadow *shadow);
/* Bytes of one message at most. */
size_t fast__shadows_bound(const fast_shadows *shadows);
/* Sender: bring the shadow nearer to x, and write the message that does so to out: its bytes in
 * *size_out. The first is whole. FAST_ENOMEM, at the first. */
fast_err fast__shadow_send(fast_shadows *shadows, fast_shadow *shadow, int64_t step,
                           double progress, const float *x, uint8_t *out, size_t *size_out);
/* Receiver: take a message in. FAST_EFORMAT if it makes no sense, or if one before it is missing:
 * the shadow stays as it is then. FAST_ENOMEM, at the first. */
fast_err fast__shadow_take(fast_shadows *shadows, fast_shadow *shadow, const uint8_t *in,
                           size_t size);

/* c comes as near to d as a multiple of it can: c <- s c, s = <d, c> / <c, c>; s comes out. */
float fast__shadow_fit(int64_t count, const float *d, float *c);
