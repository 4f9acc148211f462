/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "fast/comm.h"

/* Partial sums of a sparse allreduce, and their form in messages: sparse_stream.c. */

/* A partial sum of a range of elements in a buffer that is frozen once it is sent. */
typedef struct fast_stream {
    fast_buffer *buffer;   /* held; NULL: it is lent, or empty */
    bool dense;            /* values of all elements, without indices */
    int64_t count;         /* of entries, or of elements */
    const uint32_t *index; /* [count] from the start of the range, ascending; NULL where dense */
    const float *value;    /* [count] */
} fast_stream;

/* The form of values in messages. */
typedef struct fast_stream_form {
    int bits;     /* of a value: 2, 4 or 8, rounded at random; 0: floats */
    uint64_t key; /* of the random numbers */
} fast_stream_form;

/* A list of indices that one end of a link remembers. */
typedef struct fast_stream_list {
    uint32_t *index; /* [count] */
    int64_t count;   /* number of indices; 0: none was sent yet */
    int64_t room;    /* indices that fit */
} fast_stream_list;

/* Return true if a stream of `count` entries of a range takes more bytes than the range itself. */
bool fast__stream_dense_is_shorter(int bits, int64_t count, int64_t range);
/* Return a stream over memory: the floats of a range, or indices followed by values. */
fast_stream fast__stream_of(fast_buffer *buffer, const void *data, bool dense, int64_t count);
/* Make the stream of a sparse vector. FAST_ENOMEM. */
fast_err fast__stream_start(fast_actor *actor, int bits, const fast_sparse *x, fast_stream *out);
/* Put another partial sum in the place of one. */
void fast__stream_replace(fast_stream *sum, fast_stream by);
/* Make the sum of two streams over a range, in the shorter form. FAST_ENOMEM. */
fast_err fast__stream_combine(fast_actor *actor, int bits, int64_t range, const fast_stream *a,
                              const fast_stream *b, fast_stream *out);
/* Copy the elements [from, to) of x, as a stream whose indices count from `from`. A part may be
 * dense where the whole is a stream: entries cluster in some layers of a model. FAST_ENOMEM. */
fast_err fast__stream_cut(fast_actor *actor, int bits, const fast_stream *x, int64_t from,
                          int64_t to, fast_stream *out);
/* Put streams of adjacent parts of a range together; part q starts at starts[q], and starts[count]
 * is the range. No element is added: the bits are those of the parts. FAST_ENOMEM. */
fast_err fast__stream_join(fast_actor *actor, int bits, const fast_stream *parts, int64_t count,
                           const int64_t *starts, fast_stream *out);
/* Add a stream to a message: words 0, 1, 3, 4 and a part. Where `last` is not NULL, indices that
 * equal it are left out, and else remembered there. Where `rounded` is not NULL the values are
 * replaced there by those that the receiver gets. FAST_ENOMEM. */
fast_err fast__stream_pack(fast_actor *actor, fast_stream_form form, const fast_stream *x,
                           fast_stream_list *last, fast_msg *msg, fast_stream *rounded);
/* Read a stream of a range from a message, which may be hostile; it holds the message's part or a
 * buffer of its own. Where indices were left out they are those of `last`. FAST_EINVAL if it makes
 * no sense, FAST_ENOMEM. */
fast_err fast__stream_unpack(fast_actor *actor, fast_stream_form form, int64_t range,
                             fast_stream_list *last, fast_msg *msg, fast_stream *out);
/* Forget a list. */
void fast__stream_list_free(fast_stream_list *list);
