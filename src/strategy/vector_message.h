/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "fast/strategy.h"

/*
 * Messages of one vector between a worker and a master. The one part of a message is a buffer with
 *
 *     contributions   doubles              if they are sent
 *     state           float[state_count]   if it is sent
 *     values          float[count], or the bytes of a flow
 */
typedef struct fast_vector_message {
    const double *shares; /* contributions; NULL: not sent */
    const float *s;       /* state; NULL: not sent */
    const float *x;       /* values */
    int64_t count;        /* length of x */
    fast_flow *flow;      /* encodes x; NULL: floats are sent */
} fast_vector_message;

/* Copy and encode the vector to a new frozen buffer, which the caller frees; its first *size_out
 * bytes are the part. Fails as fast_trainer_encode() does, FAST_ENOMEM. */
fast_err fast__vector_message_pack(fast_trainer *t, const fast_vector_message *what,
                                   fast_buffer **out, size_t *size_out);

/* The address of a message. */
typedef struct fast_vector_address {
    int64_t to;           /* actor number of the receiver */
    uint64_t tag;         /* of the message */
    const int64_t *words; /* of the message */
    int64_t word_count;   /* length of words */
    bool unreliable;      /* the message may get lost */
} fast_vector_address;

/* Send the first `size` bytes of a buffer, which stays the caller's; NULL: words alone. Fails as
 * fast_send() does. */
fast_err fast__vector_message_send(fast_trainer *t, const fast_vector_address *address,
                                   fast_buffer *buffer, size_t size);
