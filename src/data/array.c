/* SPDX-License-Identifier: Apache-2.0 */
/*
 * From arrays in files to data sets. A header's claims are compared with the bytes that the reader
 * can still deliver before memory is taken. Elements are decoded in chunks, through 64-bit words
 * that are assembled in the file's byte order, so the host's order does not matter. Bytes stay
 * bytes in memory; all other numbers become floats.
 */
#include "data/array.h"

#include "base/memory.h"

#include <string.h>

enum { CHUNK = 1024 }; /* elements that are decoded at once */

/* Multiply the dimensions out, and refuse an array that claims more bytes than its reader can
 * still deliver: before any memory is allocated. */
fast_err fast__array_check(const fast_byte_reader *reader, fast_array *array)
{
    int64_t size = array->width;
    FAST_ASSERT(array->width > 0);
    FAST_ASSERT(array->rank <= FAST_ARRAY_RANK_MAX);
    if (array->rank == 0)
        return fast__fail(FAST_EFORMAT, "%s holds a single number, expected an array",
                          reader->name);
    for (int i = 0; i < array->rank; i++) {
        if (array->shape[i] == 0)
            return fast__fail(FAST_EFORMAT, "dimension %d of %s is 0", i, reader->name);
        if (!fast__mul_size(size, array->shape[i], &size))
            return fast__fail(FAST_EFORMAT, "the dimensions of %s overflow", reader->name);
    }
    if (size > reader->bound)
        return fast__fail(FAST_EFORMAT, "%s claims %lld bytes of data but can hold at most %lld",
                          reader->name, (long long)size, (long long)reader->bound);
    array->count = size / array->width;
    return FAST_OK;
}

/* Derive the sizes of a set from the shapes of its samples and answers: classes for whole
 * numbers, regression for floats. */
fast_err fast__array_plan(const char *x_name, const fast_array *x, const char *y_name,
                          const fast_array *y, fast_data *like)
{
    const int64_t *d = x->shape;
    if (d[0] != y->shape[0])
        return fast__fail(FAST_EFORMAT, "%s has %lld samples but %s has %lld labels", x_name,
                          (long long)d[0], y_name, (long long)y->shape[0]);
    if (y->rank > 2)
        return fast__fail(FAST_EFORMAT, "labels in %s have %d dimensions, expected 1 or 2", y_name,
                          y->rank);
    *like = (fast_data){ .count = d[0], .rank = 1, .shape = { x->rank > 1 ? d[1] : 1, 1, 1 } };
    if (x->rank > 2) {
        like->rank = 3;
        like->shape[0] = x->rank == 4 ? d[1] : 1;
        like->shape[1] = d[x->rank - 2];
        like->shape[2] = d[x->rank - 1];
    } else {
        like->channels = like->shape[0]; /* one per column */
    }
    like->dtype = x->width == 1 && x->kind != 'i' ? FAST_U8 : FAST_F32;
    const int64_t answers = y->rank == 2 ? y->shape[1] : 1;
    if (y->kind == 'f') {
        like->outputs = answers;
    } else {
        like->positions = answers;
        like->classes = FAST_CLASSES_MAX;
    }
    return FAST_OK;
}

/* One element as a double, which holds every type but the largest 64-bit integers exactly. */
static double decode(const fast_array *array, const uint8_t *b)
{
    uint64_t bits = 0;
    for (int i = 0; i < array->width; i++)
        bits |= (uint64_t)b[i] << 8 * (array->big_endian ? array->width - 1 - i : i);
    if (array->kind == 'f' && array->width == 4) {
        const uint32_t word = (uint32_t)bits;
        float value;
        memcpy(&value, &word, sizeof value);
        return (double)value;
    }
    if (array->kind == 'f') {
        double value;
        memcpy(&value, &bits, sizeof value);
        return value;
    }
    if (array->kind != 'i')
        return (double)bits;
    /* Sign extension: move the sign to the top and back. */
    const int shift = 64 - 8 * array->width;
    return (double)((int64_t)(bits << shift) >> shift);
}

fast_err fast__array_read(fast_byte_reader *reader, const fast_array *array, int64_t count,
                          float *out)
{
    uint8_t raw[CHUNK * 8];
    for (int64_t done = 0; done < count;) {
        const int64_t part = count - done < CHUNK ? count - done : CHUNK;
        FAST_TRY(fast__reader_read(reader, raw, part * array->width));
        for (int64_t i = 0; i < part; i++)
            out[done + i] = (float)decode(array, raw + i * array->width);
        done += part;
    }
    return FAST_OK;
}

/* Read all elements as labels in [0, limit). */
static fast_err read_labels(fast_byte_reader *reader, const fast_array *array, int64_t limit,
                            int32_t *labels)
{
    uint8_t raw[CHUNK * 8];
    for (int64_t i = 0; i < array->count; i++) {
        const int64_t left = array->count - i;
        if (i % CHUNK == 0)
            FAST_TRY(fast__reader_read(reader, raw, (left < CHUNK ? left : CHUNK) * array->width));
        const double value = decode(array, raw + i % CHUNK * array->width);
        if (!(value >= 0 && value < (double)limit))
            return fast__fail(FAST_EFORMAT, "label %lld of %s is %.15g, not in 0 to %lld",
                              (long long)i, reader->name, value, (long long)limit - 1);
        labels[i] = (int32_t)value;
    }
    return FAST_OK;
}

/* Read both arrays into the set, which has the sizes of the plan. Labels are checked against
 * `classes` later. */
fast_err fast__array_fill(fast_byte_reader *x_reader, const fast_array *x,
                          fast_byte_reader *y_reader, const fast_array *y, int64_t classes,
                          fast_data *data)
{
    FAST_ASSERT(data->count * data->features == x->count);
    if (data->dtype == FAST_U8)
        FAST_TRY(fast__reader_read(x_reader, data->x, x->count));
    else
        FAST_TRY(fast__array_read(x_reader, x, x->count, data->x));
    FAST_TRY(fast__reader_end(x_reader));
    if (data->labels != NULL)
        FAST_TRY(read_labels(y_reader, y, classes > 0 ? classes : FAST_CLASSES_MAX, data->labels));
    else
        FAST_TRY(fast__array_read(y_reader, y, y->count, data->targets));
    FAST_TRY(fast__reader_end(y_reader));
    if (data->labels == NULL)
        return FAST_OK;
    int32_t top = 0;
    for (int64_t i = 0; i < y->count; i++)
        top = data->labels[i] > top ? data->labels[i] : top;
    data->classes = data->outputs = classes > 0 ? classes : (int64_t)top + 1;
    return FAST_OK;
}
