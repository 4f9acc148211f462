/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "codec/codec.h"

/* Values that are sent as differences to a copy that both ends hold; shadow.c says how. */

/* The codec of such vectors, with its scratch: one for a range, for any number of receivers. */
typedef struct fast_shadows fast_shadows;

/* The copy of a vector that one receiver holds: a second one is the sender's. Zero-initialised: it
 * holds nothing yet. */
typedef struct fast_shadow {
    float *values;   /* [count], then the codec's state; NULL: nothing yet */
    uint32_t flow;   /* sender: distinct for each receiver; keys the random choices */
    uint32_t number; /* messages so far */
    bool whole;      /* it holds values: a message arrived, or was sent */
    double sent;     /* sender: fraction of the last difference's square that was sent */
    double now_s;    /* sender: its time at the last message, where it told; else 0 */
    bool all;        /* sender: the next message is to bring the receiver to x */
    bool complete;   /* sender: no element of the last difference was held back */
} fast_shadow;

/* True if values go as differences by this chain: it is lossy, and not fit for values. */
bool fast__shadow_needed(const fast_chain *chain);
/* Refuse a chain that does not go with differences: FAST_EINVAL. `option` is its name. */
fast_err fast__shadow_check(const fast_chain *chain, const char *option);

/* Make the codec of a range. The options are a coder's; `feedback` is ignored, since the next
 * difference contains the residual. FAST_EINVAL, FAST_ENOMEM. */
fast_err fast__shadows_new(const fast_coder_options *options, fast_shadows **out);
void fast__shadows_free(fast_shadows *shadows); /* NULL is allowed */
void fast__shadow_fini(fast_shadow *shadow);    /* zero-initialises it again; NULL is allowed */
/* Return the elements of `values`: the values and the codec's state. */
int64_t fast__shadows_floats(const fast_shadows *shadows);
/* Allocate `values`, if it is NULL; the first message would. FAST_ENOMEM. */
fast_err fast__shadow_reserve(const fast_shadows *shadows, fast_shadow *shadow);
/* Return the bytes of one message at most. */
size_t fast__shadows_bound(const fast_shadows *shadows);
/* Sender, before a message by a chain that holds elements back: tell its time, and whether the
 * message brings `all` elements that differ, whatever the chain's budget is. */
void fast__shadow_set_pace(fast_shadows *shadows, fast_shadow *shadow, bool all, double now_s);
/* Receiver: return the difference of the last message, [count], 0 where it brought nothing; NULL if
 * it brought all values. */
const float *fast__shadows_decoded(const fast_shadows *shadows);
/* Sender: write to out the message that moves the shadow towards x, its bytes to *size_out, and
 * move the sender's copy. The first message holds all values. FAST_ENOMEM, at the first. */
fast_err fast__shadow_send(fast_shadows *shadows, fast_shadow *shadow, int64_t step,
                           double progress, const float *x, uint8_t *out, size_t *size_out);
/* Receiver: apply a message. FAST_EFORMAT if it is malformed, or if one before it is missing: the
 * shadow is unchanged then. FAST_ENOMEM, at the first. */
fast_err fast__shadow_take(fast_shadows *shadows, fast_shadow *shadow, const uint8_t *in,
                           size_t size);
