/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Data sets in memory: make, copy, check, free.
 *
 * A set stores its samples in the type they were read in (bytes or floats), because bytes take a
 * quarter of the memory and of the bandwidth of a gather; x' = (x - mean) * scale is applied when a
 * batch is made. Every set, read or drawn, passes fast__data_check(), so that later code can trust
 * labels, tokens and numbers.
 *
 * Samples that are not in memory (rows.h) are checked when they are read; everything else about
 * such a set is the same.
 */
#include "data/data.h"

#include "base/log.h"
#include "base/memory.h"
#include "data/make.h"

#include <math.h>
#include <string.h>

/* Fill the derived fields of `data`; FAST_EINVAL if sizes contradict each other. */
static fast_err derive(fast_data *data)
{
    if (data->count < 1 || data->count > UINT32_MAX)
        return fast__fail(FAST_EINVAL, "a data set has 1 to 2^32-1 samples, not %lld",
                          (long long)data->count);
    if (data->rank < 1 || data->rank > 3)
        return fast__fail(FAST_EINVAL, "a sample has 1 to 3 dimensions, not %d", data->rank);
    FAST_ASSERT(data->dtype == FAST_U8 || data->dtype == FAST_F32);
    int64_t features = 1;
    for (int i = 0; i < data->rank; i++) {
        if (data->shape[i] < 1 || !fast__mul_size(features, data->shape[i], &features))
            return fast__fail(FAST_EINVAL, "dimension %d of a sample is %lld", i,
                              (long long)data->shape[i]);
    }
    for (int i = data->rank; i < 3; i++)
        data->shape[i] = 1;
    data->features = features;
    if (data->channels == 0)
        data->channels = data->rank == 3 ? data->shape[0] : 1;
    FAST_ASSERT(data->channels > 0 && features % data->channels == 0);
    if (data->positions == 0)
        data->positions = 1;
    if (data->classes > 0)
        data->outputs = data->classes;
    if (data->classes < 0 || data->classes > FAST_CLASSES_MAX)
        return fast__fail(FAST_EINVAL, "a data set has at most %d classes, not %lld",
                          FAST_CLASSES_MAX, (long long)data->classes);
    if (data->target_scale == 0)
        data->target_scale = 1;
    if (data->positions < 1)
        return fast__fail(FAST_EINVAL, "a sample has at least 1 position, not %lld",
                          (long long)data->positions);
    if (data->outputs < 1)
        return fast__fail(FAST_EINVAL, "a data set needs classes or regression outputs");
    return FAST_OK;
}

/* Refuse a set that the machine has no memory for: the system would end the program instead. */
static fast_err check_memory(const fast_data *data, int64_t values)
{
    enum { LARGE = 1 << 28 };
    int64_t bytes;
    if (!fast__mul_size(values, (int64_t)fast__dtype_size(data->dtype), &bytes))
        bytes = INT64_MAX;
    if (bytes < LARGE)
        return FAST_OK;
    const int64_t available = fast__memory_available();
    if (bytes > available)
        return fast__fail(FAST_ENOMEM,
                          "%lld samples of %lld values take %.1f GB, and %.1f GB of memory are "
                          "free: take fewer, or stream them from shards (fast help shards)",
                          (long long)data->count, (long long)data->features, (double)bytes / 1e9,
                          (double)available / 1e9);
    fast__log(FAST_LOG_INFO, "%lld samples take %.1f GB of memory", (long long)data->count,
              (double)bytes / 1e9);
    return FAST_OK;
}

/* Allocate samples, answers and the constants of normalisation. */
static fast_err alloc_arrays(fast_data *data)
{
    int64_t values, answers;
    if (!fast__mul_size(data->count, data->features, &values) ||
        !fast__mul_size(data->count, data->classes > 0 ? data->positions : data->outputs, &answers))
        return fast__fail(FAST_ENOMEM, "%lld samples of %lld features are too many",
                          (long long)data->count, (long long)data->features);
    if (data->rows == NULL) {
        FAST_TRY(check_memory(data, values));
        FAST_TRY(fast__alloc("samples", values, fast__dtype_size(data->dtype), &data->x));
    }
    FAST_TRY(fast__alloc("channel means", data->channels, sizeof(float), &data->mean));
    FAST_TRY(fast__alloc("channel scales", data->channels, sizeof(float), &data->scale));
    for (int64_t c = 0; c < data->channels; c++)
        data->scale[c] = 1;
    if (data->classes > 0)
        return fast__alloc("labels", answers, sizeof(int32_t), &data->labels);
    return fast__alloc("targets", answers, sizeof(float), &data->targets);
}

/* Derive the sizes first, so that a contradiction costs no memory; then allocate zeroed arrays. */
fast_err fast__data_make(const fast_data *like, fast_data **out)
{
    fast_data sizes = *like;
    sizes.x = NULL;
    sizes.mean = sizes.scale = sizes.targets = NULL;
    sizes.labels = NULL;
    sizes.alphabet = sizes.class_names = sizes.recipe = sizes.summary = NULL;
    FAST_TRY(derive(&sizes));

    fast_data *data;
    FAST_TRY(fast__alloc("a data set", 1, sizeof *data, &data));
    *data = sizes;
    const fast_err err = alloc_arrays(data);
    if (err) {
        data->rows = NULL; /* still the caller's */
        fast_data_free(data);
        return err;
    }
    *out = data;
    return FAST_OK;
}

void fast_data_free(fast_data *data)
{
    if (data == NULL)
        return;
    if (data->rows != NULL)
        data->rows->ops->free(data->rows);
    fast__free(data->x);
    fast__free(data->mean);
    fast__free(data->scale);
    fast__free(data->labels);
    fast__free(data->targets);
    fast__free(data->alphabet);
    fast__free(data->class_names);
    fast__free(data->recipe);
    fast__free(data->summary);
    fast__free(data);
}

/* The inverse of the standardisation of a table's targets; one product and one sum a value. */
void fast__data_restore_targets(const fast_data *data, int64_t count, float *values)
{
    if (data->classes > 0 || (data->target_scale == 1 && data->target_mean == 0))
        return;
    for (int64_t i = 0; i < count; i++)
        values[i] = values[i] / data->target_scale + data->target_mean;
}

/* The names end where the last zero byte is: the number of classes is known, the size is not
 * stored. */
size_t fast__class_names_size(const char *names, int64_t classes)
{
    const char *end = names;

    for (int64_t i = 0; i < classes; i++)
        end += strlen(end) + 1;
    return (size_t)(end - names);
}

/* Copy `size` bytes into memory of their own; NULL stays NULL. */
static fast_err copy_bytes(const char *from, size_t size, char **out)
{
    if (from == NULL)
        return FAST_OK;
    FAST_TRY(fast__alloc("texts of a data set", (int64_t)size, 1, out));
    memcpy(*out, from, size);
    return FAST_OK;
}

/* Texts that `from` lacks stay NULL. After a failure the set is freed with those that it has. */
fast_err fast__data_copy_texts(const fast_data *from, fast_data *to)
{
    FAST_ASSERT(to->alphabet == NULL && to->class_names == NULL && to->recipe == NULL);
    FAST_TRY(copy_bytes(from->alphabet, (size_t)from->vocabulary, &to->alphabet));
    if (from->class_names != NULL)
        FAST_TRY(copy_bytes(from->class_names,
                            fast__class_names_size(from->class_names, from->classes),
                            &to->class_names));
    FAST_TRY(copy_bytes(from->recipe, from->recipe ? strlen(from->recipe) + 1 : 0, &to->recipe));
    return copy_bytes(from->summary, from->summary ? strlen(from->summary) + 1 : 0, &to->summary);
}

/* Copy the caller's arrays to a set of floats and check them. FAST_EINVAL for options that
 * contradict each other, FAST_EFORMAT for bad values. */
fast_err fast_data_new(const fast_data_options *options, fast_data **out)
{
    FAST_ASSERT(options != NULL && out != NULL);
    FAST_TRY(fast__check_size("fast_data_options", options->size, sizeof *options));
    if (options->x == NULL)
        return fast__fail(FAST_EINVAL, "a data set needs x");
    if ((options->labels == NULL) == (options->targets == NULL))
        return fast__fail(FAST_EINVAL, "a data set needs labels or targets, and not both");
    if (options->labels != NULL && options->classes < 1)
        return fast__fail(FAST_EINVAL, "labels need classes: %lld is not a count",
                          (long long)options->classes);
    if (options->targets != NULL && options->outputs < 1)
        return fast__fail(FAST_EINVAL, "targets need outputs: %lld is not a count",
                          (long long)options->outputs);
    const fast_data like = {
        .count = options->count,
        .rank = options->rank,
        .shape = { options->shape[0], options->shape[1], options->shape[2] },
        .dtype = FAST_F32,
        .positions = options->positions,
        .classes = options->labels != NULL ? options->classes : 0,
        .outputs = options->outputs,
    };
    fast_data *data;
    FAST_TRY(fast__data_make(&like, &data));
    memcpy(data->x, options->x, (size_t)(data->count * data->features) * sizeof(float));
    if (data->labels != NULL)
        memcpy(data->labels, options->labels,
               (size_t)(data->count * data->positions) * sizeof(int32_t));
    else
        memcpy(data->targets, options->targets,
               (size_t)(data->count * data->outputs) * sizeof(float));
    const fast_err err = fast__data_check(data);
    if (err) {
        fast_data_free(data);
        return err;
    }
    *out = data;
    return FAST_OK;
}

/* Return the index of the first value that is not finite, or -1. The exponent's bits decide,
 * because that works under any floating-point option and vectorises. */
static int64_t find_bad(const float *values, int64_t count)
{
    enum { BLOCK = 4096 };
    for (int64_t start = 0; start < count; start += BLOCK) {
        const int64_t end = count - start < BLOCK ? count : start + BLOCK;
        int bad = 0;
        for (int64_t i = start; i < end; i++) {
            uint32_t bits;
            memcpy(&bits, values + i, sizeof bits);
            bad |= (bits & 0x7f800000u) == 0x7f800000u;
        }
        for (int64_t i = start; bad && i < end; i++) {
            if (!isfinite(values[i]))
                return i;
        }
    }
    return -1;
}

/* Check that samples are tokens below the vocabulary. */
static fast_err check_tokens(const fast_data *data, const void *x, int64_t count)
{
    for (int64_t i = 0; i < count * data->features; i++) {
        const float token =
            data->dtype == FAST_U8 ? ((const uint8_t *)x)[i] : ((const float *)x)[i];
        if (!(token >= 0) || token >= (float)data->vocabulary || token != floorf(token))
            return fast__fail(FAST_EFORMAT,
                              "token %g of sample %lld is not a whole number from 0 to %lld", token,
                              (long long)(i / data->features), (long long)data->vocabulary - 1);
    }
    return FAST_OK;
}

/* Floats must be finite, tokens whole and in range; bytes are always fine. */
fast_err fast__data_check_values(const fast_data *data, const void *x, int64_t count)
{
    if (data->dtype == FAST_F32) {
        const int64_t bad = find_bad(x, count * data->features);
        if (bad >= 0)
            return fast__fail(FAST_EFORMAT, "element %lld of sample %lld is not a finite number",
                              (long long)(bad % data->features), (long long)(bad / data->features));
    }
    return data->tokens ? check_tokens(data, x, count) : FAST_OK;
}

size_t fast__data_row_size(const fast_data *data)
{
    return (size_t)data->features * fast__dtype_size(data->dtype);
}

/* From memory, or as the rows read it. */
fast_err fast__data_row(const fast_data *data, int64_t sample, void *out)
{
    FAST_ASSERT(sample >= 0 && sample < data->count);
    if (data->rows != NULL)
        return data->rows->ops->read(data->rows, sample, -1, out);
    const size_t size = fast__data_row_size(data);
    memcpy(out, (const char *)data->x + (size_t)sample * size, size);
    return FAST_OK;
}

/* Check every number, label and token of a set. FAST_EFORMAT names the first that is wrong, by
 * sample. */
fast_err fast__data_check(const fast_data *data)
{
    FAST_ASSERT((data->x != NULL) == (data->rows == NULL));
    FAST_ASSERT(data->mean != NULL && data->scale != NULL);
    FAST_ASSERT((data->labels != NULL) == (data->classes > 0));
    FAST_ASSERT((data->targets != NULL) == (data->classes == 0));
    int64_t bad = -1;
    if (data->x != NULL)
        FAST_TRY(fast__data_check_values(data, data->x, data->count));
    if (data->targets != NULL)
        bad = find_bad(data->targets, data->count * data->outputs);
    if (bad >= 0)
        return fast__fail(FAST_EFORMAT, "target %lld of sample %lld is not a finite number",
                          (long long)(bad % data->outputs), (long long)(bad / data->outputs));
    for (int64_t i = 0; data->labels != NULL && i < data->count * data->positions; i++) {
        if (data->labels[i] < 0 || data->labels[i] >= data->classes)
            return fast__fail(FAST_EFORMAT, "label %d of sample %lld is not in 0 to %lld",
                              data->labels[i], (long long)(i / data->positions),
                              (long long)data->classes - 1);
    }
    return FAST_OK;
}
