/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Allreduce of sparse vectors: streams of sorted indices and their values are merged pairwise by
 * recursive doubling, and a sum becomes dense where that is shorter:
 *
 *     8 bytes an entry > 4 bytes an element of all:   count > size / 2
 *
 * The order is the canonical one (comm.h). With n = 2^k + r members, ranks 2i + 1 give their
 * vectors to ranks 2i for i < r; the 2^k that remain exchange with the partner at distance 1, 2,
 * 4, ... and at the end ranks 2i pass the sum on. What an entry is added to where the other has
 * none is +0, so the sum has the bits of the dense one: v + 0 is v, but -0 + 0 is +0.
 *
 * Cost for n members with k entries each: log2(n) messages of 8 k, 16 k, ... bytes where no two
 * indices are equal, never more than 4 bytes an element; as in C. Renggli et al., "SparCML:
 * high-performance sparse communication for machine learning", 2019 (SSAR by recursive doubling).
 *
 *     message   words: bytes of the parts, count, size of the dense vector, 1 if it is dense
 *     part 0    dense: size floats; sparse: count indices (uint32), then count values
 */
#include "comm/collective.h"
#include "tensor/vector.h"

#include <inttypes.h>
#include <string.h>

/* A partial sum in a buffer that is frozen once it is sent: dense, or a stream. */
typedef struct sparse_stream {
    fast_buffer *buffer;   /* held */
    bool dense;            /* values of all elements, without indices */
    int64_t count;         /* of entries, or of elements */
    const uint32_t *index; /* in the buffer; NULL where it is dense */
    const float *value;    /* in the buffer */
} sparse_stream;

/* One call under way. */
typedef struct sparse_call {
    fast_collective collective; /* for its tag only */
    fast_group *group;          /* lent */
    int64_t size;               /* of the dense vector */
    int64_t deadline;           /* as a time */
    sparse_stream sum;          /* partial sum */
} sparse_call;

/* Return the bytes of a stream, or of a dense vector. */
static size_t stream_bytes(bool dense, int64_t count)
{
    FAST_ASSERT(count >= 0);
    return (size_t)count * (dense ? sizeof(float) : sizeof(uint32_t) + sizeof(float));
}

/* A stream over the bytes of a buffer. */
static sparse_stream stream_of(fast_buffer *buffer, const void *data, bool dense, int64_t count)
{
    FAST_ASSERT(count == 0 || data);
    const unsigned char *bytes = data;
    const size_t indices = dense ? 0 : (size_t)count * sizeof(uint32_t);
    return (sparse_stream){
        .buffer = buffer,
        .dense = dense,
        .count = count,
        .index = dense ? NULL : (const uint32_t *)(const void *)bytes,
        .value = (const float *)(const void *)(bytes + indices),
    };
}

/* Put another partial sum in the place of one. */
static void replace(sparse_stream *sum, sparse_stream by)
{
    FAST_ASSERT(sum->buffer != by.buffer || !by.buffer);
    fast_buffer_free(sum->buffer);
    *sum = by;
}

/* Refuse vectors that are not sparse vectors. */
static fast_err check(const fast_sparse *x)
{
    FAST_ASSERT(x);
    if (x->size < 0 || x->size > UINT32_MAX || x->count < 0 || x->count > x->size)
        return fast__fail(FAST_EINVAL,
                          "a sparse vector of %" PRId64 " entries and size %" PRId64
                          "; there are at most as many entries as elements",
                          x->count, x->size);
    if (x->count > x->space)
        return fast__fail(FAST_EINVAL,
                          "a sparse vector of %" PRId64 " entries in a space of %" PRId64, x->count,
                          x->space);
    if (x->count > 0 && (!x->index || !x->value))
        return fast__fail(FAST_EINVAL, "a sparse vector without indices or values");
    for (int64_t i = 0; i < x->count; i++) {
        if ((int64_t)x->index[i] >= x->size)
            return fast__fail(FAST_EINVAL,
                              "entry %" PRId64 " of a sparse vector has index %" PRIu32
                              "; its size is %" PRId64,
                              i, x->index[i], x->size);
        if (i > 0 && x->index[i] <= x->index[i - 1])
            return fast__fail(FAST_EINVAL,
                              "entry %" PRId64 " of a sparse vector has index %" PRIu32
                              " after %" PRIu32 "; indices ascend, each once",
                              i, x->index[i], x->index[i - 1]);
    }
    return FAST_OK;
}

/* Return the number of indices that a or b has. */
static int64_t count_union(const sparse_stream *a, const sparse_stream *b)
{
    FAST_ASSERT(!a->dense && !b->dense);
    int64_t i = 0, j = 0, count = 0;
    for (; i < a->count && j < b->count; count++) {
        const uint32_t u = a->index[i], v = b->index[j];
        i += u <= v;
        j += v <= u;
    }
    return count + (a->count - i) + (b->count - j);
}

/* Write the sum of two streams. */
static void merge(const sparse_stream *a, const sparse_stream *b, uint32_t *index, float *value)
{
    FAST_ASSERT(!a->dense && !b->dense);
    int64_t i = 0, j = 0, k = 0;
    for (; i < a->count || j < b->count; k++) {
        const bool from_a = i < a->count && (j == b->count || a->index[i] <= b->index[j]);
        const bool from_b = j < b->count && (i == a->count || b->index[j] <= a->index[i]);
        index[k] = from_a ? a->index[i] : b->index[j];
        value[k] = (from_a ? a->value[i] : 0.0f) + (from_b ? b->value[j] : 0.0f);
        i += from_a;
        j += from_b;
    }
}

/* y = x + the entries of `add`; elements without an entry are +0. */
static void add_entries(int64_t size, const float *x, const sparse_stream *add, float *y)
{
    FAST_ASSERT(!add->dense && size >= add->count);
    int64_t at = 0;
    for (int64_t k = 0; k <= add->count; k++) {
        const int64_t end = k < add->count ? (int64_t)add->index[k] : size;
        for (; at < end; at++)
            y[at] = x[at] + 0.0f;
        if (k < add->count) {
            y[at] = x[at] + add->value[k];
            at++;
        }
    }
}

/* y = a + b, everywhere. */
static void add_dense(int64_t size, const sparse_stream *a, const sparse_stream *b, float *y)
{
    FAST_ASSERT(size >= 0 && y);
    if (a->dense && b->dense) {
        memcpy(y, a->value, (size_t)size * sizeof *y);
        fast__vector_add(size, b->value, y);
    } else if (a->dense || b->dense) {
        add_entries(size, a->dense ? a->value : b->value, a->dense ? b : a, y);
    } else {
        /* Both are streams whose sum is dense: merged where they are written. */
        int64_t i = 0, j = 0;
        for (int64_t at = 0; at < size; at++) {
            const bool from_a = i < a->count && a->index[i] == at;
            const bool from_b = j < b->count && b->index[j] == at;
            y[at] = (from_a ? a->value[i] : 0.0f) + (from_b ? b->value[j] : 0.0f);
            i += from_a;
            j += from_b;
        }
    }
}

/* Add a stream that arrived to the partial sum, in the shorter of the two forms. */
static fast_err add(sparse_call *s, const sparse_stream *came)
{
    FAST_ASSERT(came->dense || came->count <= s->size);
    const sparse_stream *sum = &s->sum;
    int64_t count = s->size;
    bool dense = sum->dense || came->dense;
    if (!dense) {
        count = count_union(sum, came);
        dense = count > s->size / 2;
    }
    if (dense)
        count = s->size;
    fast_buffer *buffer = NULL;
    FAST_TRY(fast_buffer_new(s->group->actor, stream_bytes(dense, count) + 1, &buffer));
    unsigned char *data = fast_buffer_data(buffer);
    if (dense)
        add_dense(s->size, sum, came, (float *)(void *)data);
    else
        merge(sum, came, (uint32_t *)(void *)data,
              (float *)(void *)(data + (size_t)count * sizeof(uint32_t)));
    replace(&s->sum, stream_of(buffer, data, dense, count));
    return fast_charge(s->group->actor, (double)count, 3.0 * (double)stream_bytes(dense, count));
}

/* Send the partial sum to a rank. */
static fast_err send(sparse_call *s, int64_t rank)
{
    FAST_ASSERT(rank != s->group->rank);
    fast_actor *actor = s->group->actor;
    const sparse_stream *sum = &s->sum;
    const size_t size = stream_bytes(sum->dense, sum->count);
    fast_msg *msg = NULL;
    FAST_TRY(fast__collective_message(&s->collective, &msg));
    msg->words[0] = (int64_t)size;
    msg->words[1] = sum->count;
    msg->words[2] = s->size;
    msg->words[3] = sum->dense;
    if (size > 0) {
        if (!fast_buffer_is_frozen(sum->buffer))
            fast_buffer_freeze(sum->buffer);
        fast_msg_add_view(msg, sum->buffer, 0, size);
    }
    return fast_send(actor, fast_group_member(s->group, rank), &msg);
}

/* Refuse a message of another call, or of another size. */
static fast_err check_message(const sparse_call *s, const fast_msg *msg)
{
    FAST_ASSERT(msg);
    const int64_t count = msg->words[1];
    const bool dense = msg->words[3] == 1;
    const bool sane = count >= 0 && count <= s->size && (!dense || count == s->size);
    const size_t size = sane ? stream_bytes(dense, count) : 0;
    if (sane && msg->words[2] == s->size && msg->words[0] == (int64_t)size &&
        msg->part_count == (size > 0) && (size == 0 || msg->parts[0].size == size))
        return FAST_OK;
    return fast__fail(FAST_EINVAL,
                      "sparse allreduce of %" PRId64 " floats here and %" PRId64
                      " at actor %" PRId64 "; all members must make the same calls",
                      s->size, msg->words[2], msg->from);
}

/* Wait for the message of a rank. */
static fast_err receive(sparse_call *s, int64_t rank, fast_msg **out)
{
    FAST_ASSERT(rank != s->group->rank);
    fast_msg *msg = NULL;
    FAST_TRY(fast__collective_receive(&s->collective, rank, s->deadline, &msg));
    const fast_err err = check_message(s, msg);
    if (err) {
        fast_msg_free(msg);
        return err;
    }
    *out = msg;
    return FAST_OK;
}

/* Return the stream of a message, whose buffer stays the message's. */
static sparse_stream stream_in(const fast_msg *msg)
{
    FAST_ASSERT(msg->words[1] >= 0);
    const void *data = msg->part_count > 0 ? fast_msg_data(msg, 0) : NULL;
    return stream_of(NULL, data, msg->words[3] == 1, msg->words[1]);
}

/* Add the partial sum of a rank. */
static fast_err receive_add(sparse_call *s, int64_t rank)
{
    FAST_ASSERT(s->sum.buffer);
    fast_msg *msg = NULL;
    FAST_TRY(receive(s, rank, &msg));
    const sparse_stream came = stream_in(msg);
    const fast_err err = add(s, &came);
    fast_msg_free(msg);
    return err;
}

/* Replace the partial sum by that of a rank. */
static fast_err receive_all(sparse_call *s, int64_t rank)
{
    FAST_ASSERT(s->sum.buffer);
    fast_msg *msg = NULL;
    FAST_TRY(receive(s, rank, &msg));
    sparse_stream came = stream_in(msg);
    if (msg->part_count > 0)
        came.buffer = fast_msg_take(msg, 0);
    fast_msg_free(msg);
    replace(&s->sum, came);
    return FAST_OK;
}

/* Fold, double, unfold. */
static fast_err exchange(sparse_call *s)
{
    FAST_ASSERT(s->group->size >= 1);
    const int64_t n = s->group->size, rank = s->group->rank;
    int64_t power = 1;
    while (power * 2 <= n)
        power *= 2;
    const int64_t r = n - power;
    const bool folded = rank < 2 * r;
    if (folded && rank % 2 == 1) {
        FAST_TRY(send(s, rank - 1));
        return receive_all(s, rank - 1);
    }
    if (folded)
        FAST_TRY(receive_add(s, rank + 1));
    const int64_t own = folded ? rank / 2 : rank - r;
    for (int64_t distance = 1; distance < power; distance *= 2) {
        const int64_t other = own ^ distance;
        const int64_t peer = other < r ? 2 * other : other + r;
        FAST_TRY(send(s, peer));
        FAST_TRY(receive_add(s, peer));
    }
    return folded ? send(s, rank + 1) : FAST_OK;
}

/* Make the partial sum of the member's own vector. */
static fast_err start(sparse_call *s, const fast_sparse *x)
{
    FAST_ASSERT(!s->sum.buffer);
    const bool dense = x->count > x->size / 2;
    const int64_t count = dense ? x->size : x->count;
    fast_buffer *buffer = NULL;
    FAST_TRY(fast_buffer_new(s->group->actor, stream_bytes(dense, count) + 1, &buffer));
    unsigned char *data = fast_buffer_data(buffer);
    if (dense) {
        float *y = (float *)(void *)data;
        memset(y, 0, (size_t)count * sizeof *y);
        for (int64_t i = 0; i < x->count; i++)
            y[x->index[i]] = x->value[i]; /* as it is: -0 too */
    } else if (count > 0) {
        const size_t indices = (size_t)count * sizeof *x->index;
        memcpy(data, x->index, indices);
        memcpy(data + indices, x->value, (size_t)count * sizeof *x->value);
    }
    s->sum = stream_of(buffer, data, dense, count);
    return FAST_OK;
}

/* The result is dense, whatever form the last partial sum had. */
fast_err fast_allreduce_sparse(fast_group *group, const fast_sparse *x, float *y, int64_t deadline)
{
    FAST_ASSERT(group != NULL && x != NULL);
    FAST_TRY(check(x));
    FAST_ASSERT(y != NULL || x->size == 0);
    sparse_call s = {
        .collective = { .group = group, .doing = "sparse allreduce", .element = sizeof *y },
        .group = group,
        .size = x->size,
    };
    FAST_TRY(fast__collective_begin(&s.collective));
    s.deadline = fast__deadline(group->actor, deadline);
    fast_err err = start(&s, x);
    if (!err)
        err = exchange(&s);
    if (!err && s.sum.dense && x->size > 0) {
        fast__vector_copy(x->size, s.sum.value, y);
    } else if (!err && x->size > 0) {
        float *to = fast__map(y, x->size, FAST_ACCESS_WRITE);
        memset(to, 0, (size_t)x->size * sizeof *to);
        for (int64_t i = 0; i < s.sum.count; i++)
            to[s.sum.index[i]] = s.sum.value[i];
        fast__unmap(y, x->size, FAST_ACCESS_WRITE);
    }
    fast_buffer_free(s.sum.buffer);
    return err ? fast__group_fail(group, err) : FAST_OK;
}
