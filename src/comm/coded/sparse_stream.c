/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Streams of sorted indices and their values. A stream becomes dense where that is shorter: with v
 * bytes a value,
 *
 *     (4 + v) count > v size:   for floats count > size / 2, for 8 bits size / 5, for 2 size / 17
 *
 * In a message, with the words: bytes of the part, count, (the caller's), form, hash of the indices
 *
 *     part 0   form 0: count indices (uint32), then values; 1, dense: values of all elements;
 *              2: values, whose indices are those of the last message of this link (Kylix)
 *     values   floats; or with b bits, for each BLOCK values: the largest magnitude m, then codes
 *              c of b bits, value m c / (2^(b-1) - 1) for |c| < 2^(b-1), rounded at random to a
 *              neighbour so that the mean is the value (QSGD: Alistarh et al. 2017)
 *
 * A block with a value that is not finite is NaN.
 */
#include "comm/coded/sparse_stream.h"

#include "base/err.h"
#include "base/hash.h"
#include "base/memory.h"
#include "codec/bits.h"
#include "codec/noise.h"
#include "tensor/vector.h"

#include <math.h>
#include <string.h>

enum { BLOCK = 512 };                                        /* values with one scale */
enum { FORM_SPARSE = 0, FORM_DENSE = 1, FORM_REPEATED = 2 }; /* of a message */

/* Return the bytes of values in a message. */
static size_t value_bytes(int bits, int64_t count)
{
    FAST_ASSERT(count >= 0);
    if (bits == 0)
        return (size_t)count * sizeof(float);
    const int64_t whole = count / BLOCK, rest = count % BLOCK;
    return (size_t)whole * (sizeof(float) + (size_t)(BLOCK * bits / 8)) +
           (rest > 0 ? sizeof(float) + (size_t)((rest * bits + 7) / 8) : 0);
}

bool fast__stream_dense_is_shorter(int bits, int64_t count, int64_t range)
{
    FAST_ASSERT(count >= 0 && range >= 0);
    if (bits == 0)
        return count > range / 2;
    return (32 + bits) * count > bits * range;
}

/* Return the bytes of a stream in memory. */
static size_t memory_bytes(bool dense, int64_t count)
{
    FAST_ASSERT(count >= 0);
    return (size_t)count * (dense ? sizeof(float) : sizeof(uint32_t) + sizeof(float));
}

fast_stream fast__stream_of(fast_buffer *buffer, const void *data, bool dense, int64_t count)
{
    FAST_ASSERT(count == 0 || data);
    const unsigned char *bytes = data;
    const size_t indices = dense ? 0 : (size_t)count * sizeof(uint32_t);
    return (fast_stream){
        .buffer = buffer,
        .dense = dense,
        .count = count,
        .index = dense ? NULL : (const uint32_t *)(const void *)bytes,
        .value = count > 0 ? (const float *)(const void *)(bytes + indices) : NULL,
    };
}

/* Make a stream that is to be filled; never an empty buffer. */
static fast_err stream_new(fast_actor *actor, bool dense, int64_t count, uint32_t **index_out,
                           float **value_out, fast_stream *out)
{
    fast_buffer *buffer = NULL;
    FAST_ASSERT(index_out && value_out);
    FAST_TRY(fast_buffer_new(actor, memory_bytes(dense, count) + 1, &buffer));
    unsigned char *data = fast_buffer_data(buffer);
    *index_out = (uint32_t *)(void *)data;
    *value_out = (float *)(void *)(data + (dense ? 0 : (size_t)count * sizeof(uint32_t)));
    *out = fast__stream_of(buffer, data, dense, count);
    return FAST_OK;
}

void fast__stream_replace(fast_stream *sum, fast_stream by)
{
    FAST_ASSERT(sum->buffer != by.buffer || !by.buffer);
    fast_buffer_free(sum->buffer);
    *sum = by;
}

fast_err fast__stream_start(fast_actor *actor, int bits, const fast_sparse *x, fast_stream *out)
{
    const bool dense = fast__stream_dense_is_shorter(bits, x->count, x->size);
    uint32_t *index;
    float *value;
    FAST_ASSERT(out && !out->buffer);
    FAST_TRY(stream_new(actor, dense, dense ? x->size : x->count, &index, &value, out));
    if (dense) {
        memset(value, 0, (size_t)x->size * sizeof *value);
        for (int64_t i = 0; i < x->count; i++)
            value[x->index[i]] = x->value[i]; /* as it is: -0 too */
    } else if (x->count > 0) {
        memcpy(index, x->index, (size_t)x->count * sizeof *index);
        memcpy(value, x->value, (size_t)x->count * sizeof *value);
    }
    return FAST_OK;
}

/* Return the number of indices that a or b has. */
static int64_t count_union(const fast_stream *a, const fast_stream *b)
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
static void merge(const fast_stream *a, const fast_stream *b, uint32_t *index, float *value)
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
static void add_entries(int64_t size, const float *x, const fast_stream *add, float *y)
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
static void add_dense(int64_t size, const fast_stream *a, const fast_stream *b, float *y)
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

fast_err fast__stream_combine(fast_actor *actor, int bits, int64_t range, const fast_stream *a,
                              const fast_stream *b, fast_stream *out)
{
    FAST_ASSERT(b->dense || b->count <= range);
    int64_t count = range;
    bool dense = a->dense || b->dense;
    uint32_t *index;
    float *value;
    if (!dense) {
        count = count_union(a, b);
        dense = fast__stream_dense_is_shorter(bits, count, range);
    }
    if (dense)
        count = range;
    FAST_TRY(stream_new(actor, dense, count, &index, &value, out));
    if (dense)
        add_dense(range, a, b, value);
    else
        merge(a, b, index, value);
    return fast_charge(actor, (double)count, 3.0 * (double)memory_bytes(dense, count));
}

fast_err fast__stream_cut(fast_actor *actor, int bits, const fast_stream *x, int64_t from,
                          int64_t to, fast_stream *out)
{
    FAST_ASSERT(from >= 0 && from <= to);
    int64_t first = 0, count = to - from;
    uint32_t *index;
    float *value;
    if (!x->dense) {
        while (first < x->count && x->index[first] < from)
            first++;
        for (count = 0; first + count < x->count && x->index[first + count] < to;)
            count++;
    }
    const bool dense = x->dense || fast__stream_dense_is_shorter(bits, count, to - from);
    FAST_TRY(stream_new(actor, dense, dense ? to - from : count, &index, &value, out));
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
    return FAST_OK;
}

fast_err fast__stream_join(fast_actor *actor, int bits, const fast_stream *parts, int64_t count,
                           const int64_t *starts, fast_stream *out)
{
    /* Dense parts count with all their elements: their sum is at least half full. */
    const int64_t range = starts[count];
    int64_t entries = 0;
    bool dense = false;
    uint32_t *index;
    float *value;
    for (int64_t q = 0; q < count; q++) {
        entries += parts[q].count;
        dense |= parts[q].dense;
    }
    dense |= fast__stream_dense_is_shorter(bits, entries, range);
    FAST_ASSERT(entries <= range);
    FAST_TRY(stream_new(actor, dense, dense ? range : entries, &index, &value, out));
    if (dense)
        memset(value, 0, (size_t)range * sizeof *value);
    for (int64_t q = 0, at = 0; q < count; q++) {
        const fast_stream *x = &parts[q];
        for (int64_t i = 0; i < x->count; i++, at++) {
            const int64_t element = starts[q] + (x->dense ? i : (int64_t)x->index[i]);
            value[dense ? element : at] = x->value[i];
            if (!dense)
                index[at] = (uint32_t)element;
        }
    }
    return FAST_OK;
}

/* Values of few bits. */

/* Write values as codes; `back` gets the values that the codes stand for. */
static void put_values(fast_stream_form form, int64_t count, const float *x, uint8_t *out,
                       float *back)
{
    const int most = (1 << (form.bits - 1)) - 1;
    FAST_ASSERT(form.bits == 2 || form.bits == 4 || form.bits == 8);
    for (int64_t at = 0; at < count; at += BLOCK) {
        const int64_t n = count - at < BLOCK ? count - at : BLOCK;
        float scale = 0;
        for (int64_t i = 0; i < n; i++)
            scale = !isfinite(x[at + i]) ? NAN : fmaxf(scale, fabsf(x[at + i])) + 0 * scale;
        memcpy(out, &scale, sizeof scale);
        fast_bit_writer w = { .at = out + sizeof scale };
        for (int64_t i = 0; i < n; i++) {
            const float exact = scale > 0 ? x[at + i] / scale * (float)most : 0;
            const float noise = fast__noise_uniform(form.key, (uint32_t)(at + i));
            const int level = (int)floorf(exact + noise);
            const int code = level > most ? most : level; /* the sum is rounded, too */
            fast__bits_put(&w, (uint64_t)(code + most), (unsigned)form.bits);
            back[at + i] = scale * ((float)code / (float)most);
        }
        out = fast__bits_flush(&w);
    }
}

/* Read the values of codes. A code beyond the largest is hostile; its value is finite all the
 * same. */
static void get_values(int bits, int64_t count, const uint8_t *in, float *y)
{
    const int most = (1 << (bits - 1)) - 1;
    for (int64_t at = 0; at < count; at += BLOCK) {
        const int64_t n = count - at < BLOCK ? count - at : BLOCK;
        const size_t size = (size_t)((n * bits + 7) / 8);
        float scale;
        memcpy(&scale, in, sizeof scale);
        fast_bit_reader r = { .at = in + sizeof scale, .end = in + sizeof scale + size };
        for (int64_t i = 0; i < n; i++) {
            const int code = (int)fast__bits_get(&r, (unsigned)bits) - most;
            y[at + i] = scale * ((float)code / (float)most);
        }
        FAST_ASSERT(!r.bad);
        in += sizeof scale + size;
    }
}

/* Messages. */

/* Remember the indices of a stream; they replace those before. */
static fast_err remember(fast_stream_list *list, const fast_stream *x)
{
    FAST_ASSERT(x->count > 0 && !x->dense);
    if (x->count > list->room) {
        fast__stream_list_free(list);
        FAST_TRY(fast__alloc("indices of a link", x->count, sizeof *list->index, &list->index));
        list->room = x->count;
    }
    memcpy(list->index, x->index, (size_t)x->count * sizeof *x->index);
    list->count = x->count;
    return FAST_OK;
}

void fast__stream_list_free(fast_stream_list *list)
{
    FAST_ASSERT(list->room == 0 || list->index);
    fast__free(list->index);
    *list = (fast_stream_list){ 0 };
}

/* Return true if the indices of a stream are those of the list. */
static bool repeats(const fast_stream_list *list, const fast_stream *x)
{
    FAST_ASSERT(list);
    return x->count > 0 && x->count == list->count &&
           memcmp(x->index, list->index, (size_t)x->count * sizeof *x->index) == 0;
}

/* Return the hash of a stream's indices, by which the ends of a link find that they agree. */
static int64_t hash_of(int64_t count, const uint32_t *index)
{
    FAST_ASSERT(count == 0 || index);
    return count > 0 ? (int64_t)fast__hash(index, (size_t)count * sizeof *index, 0) : 0;
}

/* Make the part of rounded values, with the indices unless they are left out. The rounded stream is
 * made too, also where nobody asks for it: it costs little beside the codes. */
static fast_err add_rounded(fast_actor *actor, fast_stream_form form, const fast_stream *x,
                            size_t indices, fast_msg *msg, fast_stream *rounded)
{
    fast_buffer *buffer = NULL;
    fast_stream own = { 0 };
    uint32_t *index;
    float *value;
    FAST_TRY(fast_buffer_new(actor, indices + value_bytes(form.bits, x->count), &buffer));
    const fast_err err = stream_new(actor, x->dense, x->count, &index, &value, &own);
    if (err) {
        fast_buffer_free(buffer);
        return err;
    }
    uint8_t *out = fast_buffer_data(buffer);
    if (indices > 0)
        memcpy(out, x->index, indices);
    put_values(form, x->count, x->value, out + indices, value);
    if (!x->dense)
        memcpy(index, x->index, (size_t)x->count * sizeof *index);
    fast_msg_add(msg, &buffer);
    if (rounded)
        fast__stream_replace(rounded, own);
    else
        fast_buffer_free(own.buffer);
    return fast_charge(actor, 8 * (double)x->count, 8 * (double)x->count);
}

fast_err fast__stream_pack(fast_actor *actor, fast_stream_form form, const fast_stream *x,
                           fast_stream_list *last, fast_msg *msg, fast_stream *rounded)
{
    const bool repeated = last && !x->dense && repeats(last, x);
    const size_t listed = x->dense ? 0 : (size_t)x->count * sizeof *x->index;
    const size_t indices = repeated ? 0 : listed;
    FAST_ASSERT(msg->part_count == 0);
    msg->words[0] = (int64_t)(indices + value_bytes(form.bits, x->count));
    msg->words[1] = x->count;
    msg->words[3] = x->dense ? FORM_DENSE : repeated ? FORM_REPEATED : FORM_SPARSE;
    msg->words[4] = repeated ? hash_of(x->count, x->index) : 0;
    if (x->count == 0)
        return FAST_OK;
    if (last && !x->dense && !repeated)
        FAST_TRY(remember(last, x));
    if (form.bits > 0)
        return add_rounded(actor, form, x, indices, msg, rounded);
    /* Indices and values lie one behind the other, so that a view has both, or the values. */
    if (!fast_buffer_is_frozen(x->buffer))
        fast_buffer_freeze(x->buffer);
    fast_msg_add_view(msg, x->buffer, listed - indices, (size_t)msg->words[0]);
    return FAST_OK;
}

/* Return true if the message has the words and the size of a stream of a range. Nothing of the part
 * is read before: every word may be forged. */
static bool is_sane(int bits, int64_t range, const fast_stream_list *last, const fast_msg *msg)
{
    const int64_t count = msg->words[1], form = msg->words[3];
    if (count < 0 || count > range || form < FORM_SPARSE || form > FORM_REPEATED ||
        (form == FORM_DENSE && count != range))
        return false;
    if (form == FORM_REPEATED && (!last || last->count != count || count == 0 ||
                                  msg->words[4] != hash_of(count, last->index)))
        return false;
    const size_t indices = form == FORM_SPARSE ? (size_t)count * sizeof(uint32_t) : 0;
    const size_t size = indices + value_bytes(bits, count);
    return msg->words[0] == (int64_t)size && msg->part_count == (size > 0) &&
           (size == 0 || msg->parts[0].size == size);
}

/* Return true if indices ascend below the range. */
static bool ascend(int64_t range, int64_t count, const uint32_t *index)
{
    FAST_ASSERT(count == 0 || index);
    for (int64_t i = 0; i < count; i++)
        if (index[i] >= range || (i > 0 && index[i] <= index[i - 1]))
            return false;
    return true;
}

/* Copy the values of a message and its indices, or those of the list, to a stream of its own. The
 * message has the size that its words say. */
static fast_err unpack_copy(fast_actor *actor, int bits, const fast_stream_list *last,
                            const fast_msg *msg, fast_stream *out)
{
    const int64_t count = msg->words[1], form = msg->words[3];
    const uint8_t *in = fast_msg_data(msg, 0);
    const size_t indices = (size_t)count * sizeof(uint32_t);
    uint32_t *index;
    float *value;
    FAST_ASSERT(count > 0);
    FAST_TRY(stream_new(actor, form == FORM_DENSE, count, &index, &value, out));
    if (form != FORM_DENSE)
        memcpy(index, form == FORM_REPEATED ? (const void *)last->index : in, indices);
    in += form == FORM_SPARSE ? indices : 0;
    if (bits > 0)
        get_values(bits, count, in, value);
    else
        memcpy(value, in, (size_t)count * sizeof *value);
    return bits > 0 ? fast_charge(actor, 4 * (double)count, 8 * (double)count) : FAST_OK;
}

fast_err fast__stream_unpack(fast_actor *actor, fast_stream_form form, int64_t range,
                             fast_stream_list *last, fast_msg *msg, fast_stream *out)
{
    fast_err err = FAST_OK;
    FAST_ASSERT(!out->buffer);
    if (!is_sane(form.bits, range, last, msg))
        return fast__fail(FAST_EINVAL, "it is no stream of %lld elements", (long long)range);
    const int64_t count = msg->words[1];
    *out = (fast_stream){ .dense = msg->words[3] == FORM_DENSE };
    if (count == 0)
        return FAST_OK;
    if (form.bits > 0 || msg->words[3] == FORM_REPEATED) {
        FAST_TRY(unpack_copy(actor, form.bits, last, msg, out));
    } else {
        *out = fast__stream_of(NULL, fast_msg_data(msg, 0), out->dense, count);
        out->buffer = fast_msg_take(msg, 0);
    }
    if (!out->dense && !ascend(range, count, out->index))
        err = fast__fail(FAST_EINVAL, "its indices do not ascend below %lld", (long long)range);
    if (!err && last && msg->words[3] == FORM_SPARSE)
        err = remember(last, out);
    if (err)
        fast__stream_replace(out, (fast_stream){ 0 });
    return err;
}
