/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sources of new samples that are arrays: an NPY or IDX file without answers, which is read batch
 * by batch, and sets in memory, which are handed out in parts.
 *
 * An array fits a recipe if its samples have the recipe's shape; dimensions of 1 do not count, so
 * [N, 28, 28] fits [1, 28, 28]. Bytes and floats are both fine where they mean the same numbers. A
 * model that learnt from bytes, 0 to 255, refuses fractions below 1: they are bytes that somebody
 * has divided already, and would be divided twice.
 *
 * Memory: one batch, whatever the size of the file.
 */
#include "base/memory.h"
#include "data/array.h"
#include "data/recipe.h"

#include <math.h>
#include <string.h>

/* A file that is read from its start to its end. */
typedef struct array_source {
    fast_source base;
    const fast_recipe *recipe; /* borrowed */
    fast_byte_reader reader;   /* behind the header */
    fast_array array;          /* the header */
    int64_t done;              /* samples that were handed out */
    char *name;                /* of the file */
} array_source;

/* A set in memory. */
typedef struct set_source {
    fast_source base;
    const fast_recipe *recipe; /* borrowed */
    fast_data *data;           /* owned */
    int64_t done;              /* samples that were handed out */
} set_source;

/* Compare two shapes without their dimensions of 1: an image of one channel may be saved with or
 * without the channel, a single column with or without its dimension. */
static bool shapes_agree(int rank, const int64_t *shape, const fast_data *like)
{
    int j = 0;

    for (int i = 0; i < rank; i++) {
        if (shape[i] == 1)
            continue;
        while (j < like->rank && like->shape[j] == 1)
            j++;
        if (j == like->rank || like->shape[j++] != shape[i])
            return false;
    }
    for (; j < like->rank; j++)
        if (like->shape[j] != 1)
            return false;
    return true;
}

/* FAST_EFORMAT if the samples have another shape than the model's. */
static fast_err check_shape(const char *name, int rank, const int64_t *shape, const fast_data *like)
{
    int64_t count = 1;

    if (shapes_agree(rank, shape, like))
        return FAST_OK;
    for (int i = 0; i < rank; i++)
        count *= shape[i];
    return fast__fail(FAST_EFORMAT,
                      "a sample of %s has %lld values, %lld in its last dimension; the model takes "
                      "%lld, %lld in the last",
                      name, (long long)count, (long long)(rank > 0 ? shape[rank - 1] : 1),
                      (long long)like->features, (long long)like->shape[like->rank - 1]);
}

/* FAST_EFORMAT if floats look like bytes that were divided by 255 already: no value is above 1, and
 * some are between 0 and 1. A black image alone is no sign of it. */
static fast_err check_range(const char *name, const fast_data *like, const fast_data *data)
{
    const float *x = data->x;
    bool fractions = false;

    if (like->dtype != FAST_U8 || like->tokens || data->dtype != FAST_F32 || !data->x)
        return FAST_OK;
    for (int64_t i = 0; i < data->count * data->features; i++) {
        if (x[i] > 1)
            return FAST_OK;
        fractions = fractions || (x[i] > 0 && x[i] < 1);
    }
    if (fractions)
        return fast__fail(FAST_EFORMAT,
                          "%s has values from 0 to 1, and the model learnt from bytes of 0 to 255; "
                          "multiply by 255",
                          name);
    return FAST_OK;
}

/* Read the next samples of a file. Bytes stay bytes, as in a training set; other numbers become
 * floats. Behind the last sample the file must end. */
static fast_err array_next(fast_source *source, int64_t count, fast_data **out)
{
    array_source *self = (array_source *)source;
    const int64_t left = self->array.shape[0] - self->done;
    fast_data *data = NULL;

    *out = NULL;
    if (left == 0)
        return FAST_OK;
    count = count < left ? count : left;
    const bool bytes = self->array.width == 1 && self->array.kind != 'i';
    FAST_TRY(fast__recipe_set(self->recipe, bytes ? FAST_U8 : FAST_F32, count, &data));
    const int64_t values = count * data->features;
    fast_err err = bytes ? fast__reader_read(&self->reader, data->x, values)
                         : fast__array_read(&self->reader, &self->array, values, data->x);
    if (!err && count == left)
        err = fast__reader_end(&self->reader);
    if (!err)
        err = fast__data_check(data);
    if (!err)
        err = check_range(self->name, self->recipe->like, data);
    if (err) {
        fast_data_free(data);
        return err;
    }
    self->done += count;
    *out = data;
    return FAST_OK;
}

/* Close the file. */
static void array_close(fast_source *source)
{
    array_source *self = (array_source *)source;

    fast__reader_close(&self->reader);
    fast__free(self->name);
    fast__free(self);
}

/* Read the header: NPY by its magic, else IDX. The magic is read with a reader of its own, because
 * a gzipped file cannot be rewound. */
static fast_err read_header(array_source *self)
{
    fast_byte_reader *reader = &self->reader;
    uint8_t magic[2] = { 0, 0 };
    fast_byte_reader peek;

    FAST_TRY(fast__reader_open(self->name, &peek));
    fast_err err = fast__reader_read(&peek, magic, 2);
    fast__reader_close(&peek);
    FAST_TRY(err);
    if (magic[0] == 'P' && magic[1] == 'K')
        return fast__fail(FAST_EFORMAT, "%s is an NPZ archive; write npz:file=%s,x=NAME,y=NAME",
                          self->name, self->name);
    FAST_TRY(fast__reader_open(self->name, reader));
    err = magic[0] == 0x93 ? fast__npy_header(reader, &self->array)
                           : fast__idx_header(reader, &self->array);
    if (!err)
        err = check_shape(self->name, self->array.rank - 1, self->array.shape + 1,
                          self->recipe->like);
    if (err) {
        fast__reader_close(reader);
        *reader = (fast_byte_reader){ 0 };
    }
    return err;
}

/* Open a file by its magic; a file of samples alone has no answers to evaluate. */
fast_err fast__array_source_open(const fast_recipe *recipe, const char *path, bool answers,
                                 fast_source **out)
{
    array_source *self;

    if (strcmp(path, "-") == 0)
        return fast__fail(FAST_EINVAL, "arrays are read from files, not from standard input");
    if (answers)
        return fast__fail(FAST_EINVAL,
                          "%s has samples and no answers; write npy:x=FILE,y=FILE or "
                          "idx:images=FILE,labels=FILE",
                          path);
    FAST_TRY(fast__alloc("a source", 1, sizeof *self, &self));
    self->base = (fast_source){ .next = array_next, .close = array_close };
    self->recipe = recipe;
    fast_err err = fast__alloc("a name", (int64_t)strlen(path) + 1, 1, &self->name);
    if (!err) {
        memcpy(self->name, path, strlen(path) + 1);
        err = read_header(self);
    }
    if (err) {
        fast__free(self->name);
        fast__free(self);
        return err;
    }
    *out = &self->base;
    return FAST_OK;
}

/* Copy the next samples of a set, under the constants of the recipe: those that the set came with
 * are of its own values, and the model has not seen them. */
static fast_err set_next(fast_source *source, int64_t count, fast_data **out)
{
    set_source *self = (set_source *)source;
    const fast_data *all = self->data;
    const int64_t left = all->count - self->done;
    fast_data *data;

    *out = NULL;
    if (left == 0)
        return FAST_OK;
    count = count < left ? count : left;
    FAST_TRY(fast__recipe_set(self->recipe, all->dtype, count, &data));
    const size_t size = fast__data_row_size(all);
    for (int64_t i = 0; i < count; i++) {
        const fast_err err =
            fast__data_row(all, self->done + i, (char *)data->x + (size_t)i * size);
        if (err) {
            fast_data_free(data);
            return err;
        }
    }
    if (source->answers && all->labels)
        memcpy(data->labels, all->labels + self->done * all->positions,
               (size_t)(count * all->positions) * sizeof(int32_t));
    if (source->answers && all->targets)
        memcpy(data->targets, all->targets + self->done * all->outputs,
               (size_t)(count * all->outputs) * sizeof(float));
    self->done += count;
    *out = data;
    return FAST_OK;
}

/* Free the set. */
static void set_close(fast_source *source)
{
    set_source *self = (set_source *)source;

    fast_data_free(self->data);
    fast__free(self);
}

/* FAST_EFORMAT if a set has other samples than the model, or other answers where they count. A set
 * may have fewer classes: the last ones need not occur in it. */
static fast_err check_set(const fast_recipe *recipe, bool answers, const fast_data *data)
{
    const fast_data *like = recipe->like;

    FAST_TRY(check_shape("the data", data->rank, data->shape, like));
    FAST_TRY(check_range("the data", like, data));
    if (data->tokens != like->tokens || data->vocabulary > like->vocabulary)
        return fast__fail(FAST_EFORMAT, "the data have %lld tokens; the model knows %lld",
                          (long long)data->vocabulary, (long long)like->vocabulary);
    if (answers &&
        ((data->classes == 0) != (like->classes == 0) || data->positions != like->positions ||
         data->classes > like->classes || (data->classes == 0 && data->outputs != like->outputs)))
        return fast__fail(FAST_EFORMAT,
                          "the data have %lld classes and %lld outputs; the model has %lld and "
                          "%lld",
                          (long long)data->classes, (long long)data->outputs,
                          (long long)like->classes, (long long)like->outputs);
    return FAST_OK;
}

/* Check that the set fits, and take it. */
fast_err fast__set_source_open(const fast_recipe *recipe, bool answers, fast_data **move,
                               fast_source **out)
{
    fast_data *data = *move;
    set_source *self;

    *move = NULL;
    fast_err err = check_set(recipe, answers, data);
    if (!err)
        err = fast__alloc("a source", 1, sizeof *self, &self);
    if (err) {
        fast_data_free(data);
        return err;
    }
    *self = (set_source){ .base = { .answers = answers, .next = set_next, .close = set_close },
                          .recipe = recipe,
                          .data = data };
    *out = &self->base;
    return FAST_OK;
}
