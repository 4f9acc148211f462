/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Allreduce of sparse vectors: streams of sorted indices and their values are merged, and a sum
 * becomes dense where that is shorter:
 *
 *     8 bytes an entry > 4 bytes an element of the range:   count > size / 2
 *
 * With n = 2^k + r members, ranks 2i + 1 give their vectors to ranks 2i for i < r, and at the end
 * ranks 2i pass the sum on. The 2^k that remain are numbered, and sum by one of two methods:
 *
 *   double      each exchanges its whole sum with the partner at distance 1, 2, 4, ...: log2(n)
 *               messages of 8 k, 16 k, ... bytes for k entries each, where no two indices are equal
 *   butterfly   layers of degrees d1, d2, ..., whose product is 2^k. Downwards a member cuts its
 *               range into d equal parts, sends part j to member j of its group, and merges the
 *               parts that arrive. Upwards the groups of the layers, the last one first, send each
 *               other their sums. Groups of the first layer are d1 neighbours, those of the second
 *               one d2 members at the distance d1, ... 2 (d - 1) messages a layer, which take at
 *               most 2 * 4 bytes an element in all. One layer of 2^k is the split and allgather of
 *               SparCML.
 *
 *                   range of a member, 8 members, degrees 4x2:
 *                   |0       |1       |2       |3       |    layer 1: part of neighbours 0 .. 3
 *                   |0   |4   |                              layer 2: half of it, with member + 4
 *
 * Both add in the canonical order (comm.h), so the bits are those of the dense sum, whatever the
 * method: an entry is added to +0 where the other stream has none; v + 0 is v, but -0 + 0 is +0.
 *
 * C. Renggli et al., "SparCML: high-performance sparse communication for machine learning", 2019
 * (SSAR by recursive doubling, and split and allgather). H. Zhao and J. Canny, "Kylix: a sparse
 * allreduce for commodity clusters", 2014 (a butterfly of unequal degrees).
 *
 *     message   words: bytes of the parts, count, size of the dense vector, 1 if it is dense
 *     part 0    dense: floats of the range; sparse: count indices (uint32, from the start of the
 *               range), then count values
 */
#include "comm/coded.h"
#include "comm/collective.h"
#include "tensor/vector.h"

#include <inttypes.h>
#include <string.h>

enum { DEGREE_MAX = FAST_SPARSE_DEGREE_MAX };

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
    int64_t range;              /* elements of the range that `sum` is of */
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
        if (size > 0)
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

/* Make the sum of two streams over a range, in the shorter of the two forms. */
static fast_err combine(sparse_call *s, int64_t range, const sparse_stream *a,
                        const sparse_stream *b, sparse_stream *out)
{
    FAST_ASSERT(b->dense || b->count <= range);
    int64_t count = range;
    bool dense = a->dense || b->dense;
    if (!dense) {
        count = count_union(a, b);
        dense = count > range / 2;
    }
    if (dense)
        count = range;
    fast_buffer *buffer = NULL;
    FAST_TRY(fast_buffer_new(s->group->actor, stream_bytes(dense, count) + 1, &buffer));
    unsigned char *data = fast_buffer_data(buffer);
    if (dense)
        add_dense(range, a, b, (float *)(void *)data);
    else
        merge(a, b, (uint32_t *)(void *)data,
              (float *)(void *)(data + (size_t)count * sizeof(uint32_t)));
    *out = stream_of(buffer, data, dense, count);
    return fast_charge(s->group->actor, (double)count, 3.0 * (double)stream_bytes(dense, count));
}

/* Add a stream that arrived to the partial sum. */
static fast_err add(sparse_call *s, const sparse_stream *came)
{
    FAST_ASSERT(s->sum.buffer);
    sparse_stream sum = { 0 };
    FAST_TRY(combine(s, s->range, &s->sum, came, &sum));
    replace(&s->sum, sum);
    return FAST_OK;
}

/* Send a partial sum to a rank. */
static fast_err send(sparse_call *s, int64_t rank, const sparse_stream *sum)
{
    FAST_ASSERT(rank != s->group->rank);
    fast_actor *actor = s->group->actor;
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

/* Refuse a message of another call, or of another size than that of the range. */
static fast_err check_message(const sparse_call *s, int64_t range, const fast_msg *msg)
{
    FAST_ASSERT(msg);
    const int64_t count = msg->words[1];
    const bool dense = msg->words[3] == 1;
    const bool sane = count >= 0 && count <= range && (!dense || count == range);
    const size_t size = sane ? stream_bytes(dense, count) : 0;
    if (sane && msg->words[2] == s->size && msg->words[0] == (int64_t)size &&
        msg->part_count == (size > 0) && (size == 0 || msg->parts[0].size == size))
        return FAST_OK;
    return fast__fail(FAST_EINVAL,
                      "sparse allreduce of %" PRId64 " floats here and %" PRId64
                      " at actor %" PRId64 "; all members must make the same calls",
                      s->size, msg->words[2], msg->from);
}

/* Wait for the message of a rank, about a range of `range` elements. */
static fast_err receive(sparse_call *s, int64_t rank, int64_t range, fast_msg **out)
{
    FAST_ASSERT(rank != s->group->rank);
    fast_msg *msg = NULL;
    FAST_TRY(fast__collective_receive(&s->collective, rank, s->deadline, &msg));
    const fast_err err = check_message(s, range, msg);
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
    FAST_TRY(receive(s, rank, s->range, &msg));
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
    FAST_TRY(receive(s, rank, s->range, &msg));
    sparse_stream came = stream_in(msg);
    if (msg->part_count > 0)
        came.buffer = fast_msg_take(msg, 0);
    fast_msg_free(msg);
    replace(&s->sum, came);
    return FAST_OK;
}

/* Receive the stream of a rank, with its buffer. */
static fast_err receive_stream(sparse_call *s, int64_t rank, int64_t range, sparse_stream *out)
{
    fast_msg *msg = NULL;
    FAST_TRY(receive(s, rank, range, &msg));
    FAST_ASSERT(!out->buffer);
    *out = stream_in(msg);
    if (msg->part_count > 0)
        out->buffer = fast_msg_take(msg, 0);
    fast_msg_free(msg);
    return FAST_OK;
}

/* Butterfly. */

/* Return the first element of part q of d parts of a range, as equal as can be. */
static int64_t part_at(int64_t range, int64_t d, int64_t q)
{
    FAST_ASSERT(d > 0 && q >= 0 && q <= d);
    return range / d * q + range % d * q / d;
}

/* Copy the elements [from, to) of the partial sum, as a stream whose indices count from `from`. A
 * part may be dense where the whole is a stream: entries cluster in some layers of a model. */
static fast_err cut(sparse_call *s, int64_t from, int64_t to, sparse_stream *out)
{
    FAST_ASSERT(from >= 0 && from <= to && to <= s->range);
    const sparse_stream *x = &s->sum;
    int64_t first = 0, count = to - from;
    if (!x->dense) {
        while (first < x->count && x->index[first] < from)
            first++;
        for (count = 0; first + count < x->count && x->index[first + count] < to;)
            count++;
    }
    const bool dense = x->dense || count > (to - from) / 2;
    fast_buffer *buffer = NULL;
    FAST_TRY(fast_buffer_new(s->group->actor, stream_bytes(dense, dense ? to - from : count) + 1,
                             &buffer));
    unsigned char *data = fast_buffer_data(buffer);
    uint32_t *index = (uint32_t *)(void *)data;
    float *value = (float *)(void *)(dense ? index : index + count);
    if (x->dense && count > 0)
        memcpy(value, x->value + from, (size_t)count * sizeof *value);
    else if (dense)
        memset(value, 0, (size_t)(to - from) * sizeof *value);
    for (int64_t i = 0; i < count && !x->dense; i++) {
        const uint32_t at = (uint32_t)(x->index[first + i] - from);
        value[dense ? (int64_t)at : i] = x->value[first + i];
        if (!dense)
            index[i] = at;
    }
    *out = stream_of(buffer, data, dense, dense ? to - from : count);
    return FAST_OK;
}

/* Release the streams of a group. */
static void drop(sparse_stream *streams, int64_t count)
{
    FAST_ASSERT(count >= 0 && count <= DEGREE_MAX);
    for (int64_t q = 0; q < count; q++)
        fast_buffer_free(streams[q].buffer);
}

/* The members of one layer's group, as this member sees them. Numbers are those of the members that
 * remain after folding; peer_of() makes them ranks. */
typedef struct sparse_layer {
    int64_t degree; /* members */
    int64_t stride; /* between their numbers */
    int64_t own;    /* place of this member among them */
    int64_t first;  /* number of the first one */
    int64_t folded; /* r: numbers below it are ranks 2i, the others follow */
    int64_t range;  /* elements before the layer */
} sparse_layer;

/* Return the rank of member q of the group. */
static int64_t peer_of(const sparse_layer *layer, int64_t q)
{
    FAST_ASSERT(q >= 0 && q < layer->degree);
    const int64_t number = layer->first + q * layer->stride;
    return number < layer->folded ? 2 * number : number + layer->folded;
}

/* Return the elements of part q of the layer's range. */
static int64_t part_size(const sparse_layer *layer, int64_t q)
{
    FAST_ASSERT(layer->range >= 0);
    return part_at(layer->range, layer->degree, q + 1) - part_at(layer->range, layer->degree, q);
}

/* Down: give every member of the group its part, and merge the own one in the canonical order. All
 * parts are sent before any is awaited, so that no two members wait for each other. */
static fast_err scatter(sparse_call *s, const sparse_layer *layer)
{
    const int64_t d = layer->degree, range = part_size(layer, layer->own);
    sparse_stream parts[DEGREE_MAX] = { { 0 } };
    fast_err err = FAST_OK;
    FAST_ASSERT(s->range == layer->range);
    for (int64_t q = 0; q < d && !err; q++) {
        err = cut(s, part_at(s->range, d, q), part_at(s->range, d, q + 1), &parts[q]);
        if (!err && q != layer->own) {
            err = send(s, peer_of(layer, q), &parts[q]);
            replace(&parts[q], (sparse_stream){ 0 });
        }
    }
    for (int64_t q = 0; q < d && !err; q++)
        if (q != layer->own)
            err = receive_stream(s, peer_of(layer, q), range, &parts[q]);
    /* The canonical order: neighbours first, then sums of pairs, as recursive doubling adds. */
    for (int64_t step = 1; step < d; step *= 2)
        for (int64_t q = 0; q < d && !err; q += 2 * step) {
            sparse_stream sum = { 0 };
            err = combine(s, range, &parts[q], &parts[q + step], &sum);
            if (!err)
                replace(&parts[q], sum);
        }
    if (!err) {
        replace(&s->sum, parts[0]);
        s->range = range;
        parts[0] = (sparse_stream){ 0 };
    }
    drop(parts, d);
    return err;
}

/* Put the streams of adjacent parts together, in the shorter form. No element is added: the parts
 * do not overlap, so that the bits are those of their owners. */
static fast_err join(sparse_call *s, const sparse_layer *layer, const sparse_stream *parts)
{
    /* Dense parts count with all their elements: their sum is at least half full. */
    int64_t entries = 0;
    bool dense = false;
    for (int64_t q = 0; q < layer->degree; q++) {
        entries += parts[q].count;
        dense |= parts[q].dense;
    }
    dense |= entries > layer->range / 2;
    FAST_ASSERT(entries <= layer->range);
    const int64_t count = dense ? layer->range : entries;
    fast_buffer *buffer = NULL;
    FAST_TRY(fast_buffer_new(s->group->actor, stream_bytes(dense, count) + 1, &buffer));
    unsigned char *data = fast_buffer_data(buffer);
    uint32_t *index = (uint32_t *)(void *)data;
    float *value = (float *)(void *)(data + (dense ? 0 : (size_t)count * sizeof *index));
    if (dense)
        memset(data, 0, stream_bytes(dense, count));
    for (int64_t q = 0, at = 0; q < layer->degree; q++) {
        const int64_t start = part_at(layer->range, layer->degree, q);
        const sparse_stream *x = &parts[q];
        for (int64_t i = 0; i < x->count; i++, at++) {
            const int64_t element = start + (x->dense ? i : (int64_t)x->index[i]);
            value[dense ? element : at] = x->value[i];
            if (!dense)
                index[at] = (uint32_t)element;
        }
    }
    replace(&s->sum, stream_of(buffer, data, dense, count));
    s->range = layer->range;
    return FAST_OK;
}

/* Up: exchange the sums of the parts with all members of the group. One frozen buffer serves all
 * messages. */
static fast_err gather(sparse_call *s, const sparse_layer *layer)
{
    sparse_stream parts[DEGREE_MAX] = { { 0 } };
    fast_err err = FAST_OK;
    FAST_ASSERT(s->range == part_size(layer, layer->own));
    for (int64_t q = 0; q < layer->degree && !err; q++)
        if (q != layer->own)
            err = send(s, peer_of(layer, q), &s->sum);
    for (int64_t q = 0; q < layer->degree && !err; q++)
        if (q != layer->own)
            err = receive_stream(s, peer_of(layer, q), part_size(layer, q), &parts[q]);
    if (!err) {
        parts[layer->own] = s->sum;
        parts[layer->own].buffer = NULL; /* still that of the sum */
        err = join(s, layer, parts);
    }
    drop(parts, layer->degree);
    return err;
}

/* Down through all layers and up again. `own` is this number of `power`. A group of a layer
 * has as many members as its degree says, those of the last layer the members that are left. The
 * ranges of the layers are nested, so that the gathers need no more than their sizes. */
static fast_err butterfly(sparse_call *s, const fast_sparse_plan *plan, int64_t own, int64_t power)
{
    sparse_layer layers[64];
    int count = 0;
    for (int64_t stride = 1; stride < power; count++) {
        int64_t d = plan->degrees[count < plan->count ? count : plan->count - 1];
        d = d < power / stride ? d : power / stride;
        const int64_t place = own / stride % d;
        FAST_ASSERT(d >= 2 && d <= DEGREE_MAX && count < 64);
        layers[count] = (sparse_layer){ .degree = d,
                                        .stride = stride,
                                        .own = place,
                                        .first = own - place * stride,
                                        .folded = s->group->size - power,
                                        .range = s->range };
        FAST_TRY(scatter(s, &layers[count]));
        stride *= d;
    }
    while (count-- > 0)
        FAST_TRY(gather(s, &layers[count]));
    return FAST_OK;
}

/* Recursive doubling among the numbered members. */
static fast_err double_up(sparse_call *s, int64_t own, int64_t power)
{
    const int64_t r = s->group->size - power;
    for (int64_t distance = 1; distance < power; distance *= 2) {
        const int64_t other = own ^ distance;
        const int64_t peer = other < r ? 2 * other : other + r;
        FAST_ASSERT(other < power);
        FAST_TRY(send(s, peer, &s->sum));
        FAST_TRY(receive_add(s, peer));
    }
    return FAST_OK;
}

/* Fold, sum, unfold. */
static fast_err exchange(sparse_call *s, const fast_sparse_plan *plan)
{
    FAST_ASSERT(s->group->size >= 1);
    const int64_t n = s->group->size, rank = s->group->rank;
    int64_t power = 1;
    while (power * 2 <= n)
        power *= 2;
    const int64_t r = n - power;
    const bool folded = rank < 2 * r;
    if (folded && rank % 2 == 1) {
        FAST_TRY(send(s, rank - 1, &s->sum));
        return receive_all(s, rank - 1);
    }
    if (folded)
        FAST_TRY(receive_add(s, rank + 1));
    const int64_t own = folded ? rank / 2 : rank - r;
    FAST_TRY(plan && plan->count > 0 ? butterfly(s, plan, own, power) : double_up(s, own, power));
    return folded ? send(s, rank + 1, &s->sum) : FAST_OK;
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

fast_err fast_allreduce_sparse(fast_group *group, const fast_sparse *x, float *y, int64_t deadline)
{
    FAST_ASSERT(group != NULL);
    return fast__allreduce_sparse(group, x, NULL, y, deadline);
}

/* The result is dense, whatever form the last partial sum had. */
fast_err fast__allreduce_sparse(fast_group *group, const fast_sparse *x,
                                const fast_sparse_plan *plan, float *y, int64_t deadline)
{
    FAST_ASSERT(group != NULL && x != NULL);
    FAST_TRY(check(x));
    FAST_ASSERT(y != NULL || x->size == 0);
    sparse_call s = {
        .collective = { .group = group, .doing = "sparse allreduce", .element = sizeof *y },
        .group = group,
        .size = x->size,
        .range = x->size,
    };
    FAST_TRY(fast__collective_begin(&s.collective));
    s.deadline = fast__deadline(group->actor, deadline);
    fast_err err = start(&s, x);
    if (!err)
        err = exchange(&s, plan);
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
