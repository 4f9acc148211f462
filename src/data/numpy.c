/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Data sets from numpy's arrays: two NPY files (plain or gzipped), or two arrays of an NPZ file.
 *
 * The first dimension counts samples. As images, [N, H, W] has one channel and [N, C, H, W]
 * several; as sequences, [N, T, C] has T positions of C features; as tokens, [N, T] has whole
 * numbers below the vocabulary. Answers: integers [N] or [N, positions] are classes, floats [N] or
 * [N, outputs] are regression targets. Bytes stay bytes; other numbers become floats.
 */
#include "base/file.h"
#include "base/memory.h"
#include "data/array.h"
#include "data/zip.h"

#include <string.h>

typedef enum numpy_as { AS_IMAGE, AS_SEQUENCE, AS_TOKENS } numpy_as;

/* The source of arrays: the members of a zip file in memory, or files. */
typedef struct numpy_source {
    const char *file; /* name of the zip file */
    void *bytes;      /* bytes of the zip file; NULL: array names are paths */
    size_t size;      /* number of bytes */
} numpy_source;

/* The options of both kinds. */
typedef struct numpy_config {
    char file[FAST_PATH_MAX];   /* NPZ only */
    char x[FAST_PATH_MAX];      /* array or file of the samples */
    char y[FAST_PATH_MAX];      /* array or file of the labels or targets */
    char test_x[FAST_PATH_MAX]; /* array or file of the test samples; "" for none */
    char test_y[FAST_PATH_MAX]; /* array or file of the test labels or targets */
    int as;                     /* a numpy_as */
    int64_t classes;            /* 0: the largest training label decides */
    int64_t vocabulary;         /* of tokens; 0: the largest training token decides */
    double test_fraction;       /* fraction of the samples to test on, if there is no test array */
    int normalize;              /* a fast_normalize */
} numpy_config;

#define COMMON_OPTIONS                                                                      \
    FAST_OPT_CHOICE(numpy_config, as, "image", "image|sequence|tokens",                     \
                    "what x holds: images and vectors, sequences of vectors, or tokens"),   \
        FAST_OPT_INT(numpy_config, classes, "0", 0, FAST_CLASSES_MAX,                       \
                     "classes; 0 takes the largest training label for the last"),           \
        FAST_OPT_INT(numpy_config, vocabulary, "0", 0, FAST_CLASSES_MAX,                    \
                     "tokens that exist; 0 takes the largest training token for the last"), \
        FAST_OPT_REAL(numpy_config, test_fraction, "0.2", 0, 0.9,                           \
                      "fraction of the samples to test on if there is no test array"),      \
        FAST_OPT_CHOICE(numpy_config, normalize, "unit", FAST_NORMALIZE_CHOICES,            \
                        "bytes divided by 255, mean 0 and deviation 1, or as they are"),    \
        FAST_OPT_END

static const fast_option npy_options[] = {
    FAST_OPT_TEXT(numpy_config, x, "", NULL, "file of the samples"),
    FAST_OPT_TEXT(numpy_config, y, "", NULL, "file of the labels or targets"),
    FAST_OPT_TEXT(numpy_config, test_x, "", NULL, "file of the test samples"),
    FAST_OPT_TEXT(numpy_config, test_y, "", NULL, "file of the test labels or targets"),
    COMMON_OPTIONS,
};

static const fast_option npz_options[] = {
    FAST_OPT_TEXT(numpy_config, file, "", NULL, "the file"),
    FAST_OPT_TEXT(numpy_config, x, "x", NULL, "array of the samples"),
    FAST_OPT_TEXT(numpy_config, y, "y", NULL, "array of the labels or targets"),
    FAST_OPT_TEXT(numpy_config, test_x, "", NULL, "array of the test samples"),
    FAST_OPT_TEXT(numpy_config, test_y, "", NULL, "array of the test labels or targets"),
    COMMON_OPTIONS,
};

/* Open an array and read its header. */
static fast_err open_array(const numpy_source *from, const char *name, fast_byte_reader *reader,
                           fast_array *out)
{
    if (from->bytes != NULL)
        FAST_TRY(fast__zip_open(from->file, from->bytes, from->size, name, reader));
    else
        FAST_TRY(fast__reader_open(name, reader));
    const fast_err err = fast__npy_header(reader, out);
    if (err)
        fast__reader_close(reader);
    return err;
}

/* Describe the set of two arrays: images and vectors as for any format, or sequences, or tokens. */
static fast_err plan_set(const numpy_config *c, const char *x_name, const fast_array *x,
                         const char *y_name, const fast_array *y, fast_data *like)
{
    FAST_TRY(fast__array_plan(x_name, x, y_name, y, like));
    if (c->as == AS_TOKENS && x->rank != 2)
        return fast__fail(FAST_EFORMAT, "tokens in %s have %d dimensions, expected 2", x_name,
                          x->rank);
    if (c->as == AS_SEQUENCE && x->rank != 3)
        return fast__fail(FAST_EFORMAT, "sequences in %s have %d dimensions, expected 3", x_name,
                          x->rank);
    like->tokens = c->as == AS_TOKENS;
    if (c->as == AS_TOKENS)
        like->channels = 1;
    if (c->as == AS_SEQUENCE) {
        like->rank = 2;
        like->channels = x->count / x->shape[0];
        memcpy(like->shape, (const int64_t[]){ x->shape[1], x->shape[2], 1 }, sizeof like->shape);
    }
    return FAST_OK;
}

/* One more than the largest token: the vocabulary if the user gives none. */
static int64_t count_tokens(const fast_data *data)
{
    float top = 0;
    for (int64_t i = 0; i < data->count * data->features; i++) {
        const float token =
            data->dtype == FAST_U8 ? ((const uint8_t *)data->x)[i] : ((const float *)data->x)[i];
        top = token > top ? token : top;
    }
    /* The check at the end refuses what is not a token below the vocabulary. */
    return top < FAST_CLASSES_MAX ? (int64_t)top + 1 : FAST_CLASSES_MAX;
}

/* Read one set; `train` is the training set, whose classes hold for the test set, or NULL. */
static fast_err read_set(const numpy_config *c, const numpy_source *from, const char *x_name,
                         const char *y_name, const fast_data *train, fast_data **out)
{
    fast_byte_reader x_reader, y_reader;
    fast_array x, y;
    fast_data like;
    fast_data *data = NULL;
    FAST_TRY(open_array(from, x_name, &x_reader, &x));
    fast_err err = open_array(from, y_name, &y_reader, &y);
    if (err)
        goto close_x;
    err = plan_set(c, x_name, &x, y_name, &y, &like);
    if (!err)
        err = fast__data_make(&like, &data);
    if (!err)
        err = fast__array_fill(&x_reader, &x, &y_reader, &y,
                               train != NULL ? train->classes : c->classes, data);
    if (!err && data->tokens)
        data->vocabulary = train != NULL       ? train->vocabulary
                           : c->vocabulary > 0 ? c->vocabulary
                                               : count_tokens(data);
    if (err)
        fast_data_free(data);
    else
        *out = data;
    fast__reader_close(&y_reader);
close_x:
    fast__reader_close(&x_reader);
    return err;
}

/* Read the training set, and read or split off the test set. */
static fast_err open_sets(const numpy_config *c, const numpy_source *from, fast_data **train_out,
                          fast_data **test_out)
{
    if ((c->test_x[0] == 0) != (c->test_y[0] == 0))
        return fast__fail(FAST_EINVAL, "test_x and test_y are given together, or neither");
    fast_data *train;
    fast_data *test = NULL;
    FAST_TRY(read_set(c, from, c->x, c->y, NULL, &train));
    const fast_err err =
        c->test_x[0] != 0 ? read_set(c, from, c->test_x, c->test_y, train, &test) : FAST_OK;
    if (err) {
        fast_data_free(train);
        return err;
    }
    return fast__data_finish_split((fast_normalize)c->normalize, c->test_fraction, true, &train,
                                   &test, train_out, test_out);
}

/* Two files, one with samples and one with answers; NPY has one array a file. */
static fast_err npy_open(const void *config, uint64_t seed, fast_data **train_out,
                         fast_data **test_out)
{
    (void)seed;
    const numpy_config *c = config;
    if (c->x[0] == 0 || c->y[0] == 0)
        return fast__fail(FAST_EINVAL, "data npy needs files: npy:x=FILE,y=FILE");
    return open_sets(c, &(numpy_source){ .file = c->x }, train_out, test_out);
}

/* One archive with named arrays; the file is read once for all of them. */
static fast_err npz_open(const void *config, uint64_t seed, fast_data **train_out,
                         fast_data **test_out)
{
    (void)seed;
    const numpy_config *c = config;
    if (c->file[0] == 0)
        return fast__fail(FAST_EINVAL, "data npz needs a file: npz:file=FILE");
    numpy_source from = { .file = c->file };
    FAST_TRY(fast__file_read(c->file, UINT32_MAX, &from.bytes, &from.size));
    const fast_err err = open_sets(c, &from, train_out, test_out);
    fast__free(from.bytes);
    return err;
}

const fast_data_kind fast__data_npy = {
    .name = "npy",
    .summary = "numpy arrays in NPY files",
    .options = npy_options,
    .config_size = sizeof(numpy_config),
    .open = npy_open,
};

const fast_data_kind fast__data_npz = {
    .name = "npz",
    .summary = "numpy arrays in an NPZ file",
    .options = npz_options,
    .config_size = sizeof(numpy_config),
    .open = npz_open,
};
