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
#include "data/make.h"
#include "data/npy.h"
#include "data/zip.h"

typedef enum numpy_as { AS_IMAGE, AS_SEQUENCE, AS_TOKENS } numpy_as;

/* Where arrays come from: the members of a zip file in memory, or files. */
typedef struct source {
    const char *file; /* the zip file's name */
    void *bytes;      /* the zip file, or NULL: names are paths */
    size_t size;
} source;

/* What the options of both kinds have in common. */
typedef struct numpy_config {
    char file[FAST_PATH_MAX]; /* NPZ only */
    char x[FAST_PATH_MAX];    /* array or file of the samples */
    char y[FAST_PATH_MAX];    /* of their labels or targets */
    char test_x[FAST_PATH_MAX];
    char test_y[FAST_PATH_MAX];
    int as;               /* a numpy_as */
    int64_t classes;      /* 0: the largest training label decides */
    int64_t vocabulary;   /* of tokens; 0: the largest training token decides */
    double test_fraction; /* of the samples, where there is no test array */
    int normalize;        /* a fast_normalize */
} numpy_config;

#define COMMON_OPTIONS                                                                      \
    FAST_OPT_CHOICE(numpy_config, as, "image", "image|sequence|tokens",                     \
                    "what x holds: images and vectors, sequences of vectors, or tokens"),   \
        FAST_OPT_INT(numpy_config, classes, "0", 0, FAST_CLASSES_MAX,                       \
                     "classes; 0 takes the largest training label for the last"),           \
        FAST_OPT_INT(numpy_config, vocabulary, "0", 0, FAST_CLASSES_MAX,                    \
                     "tokens that exist; 0 takes the largest training token for the last"), \
        FAST_OPT_REAL(numpy_config, test_fraction, "0.2", 0, 0.9,                           \
                      "part of the samples to test on where there is no test array"),       \
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

static fast_err open_array(const source *from, const char *name, fast_stream *stream, fast_npy *npy)
{
    if (from->bytes != NULL)
        FAST_TRY(fast__zip_open(from->file, from->bytes, from->size, name, stream));
    else
        FAST_TRY(fast__stream_open(name, stream));
    const fast_err err = fast__npy_header(stream, npy);
    if (err)
        fast__stream_close(stream);
    return err;
}

/* The sizes of a set from the headers of its two arrays. */
static fast_err plan(const numpy_config *c, const char *x_name, const fast_npy *x,
                     const char *y_name, const fast_npy *y, fast_data *like)
{
    const int64_t *d = x->shape;
    if (x->shape[0] != y->shape[0])
        return fast__fail(FAST_EFORMAT, "%s has %lld samples but %s has %lld labels", x_name,
                          (long long)x->shape[0], y_name, (long long)y->shape[0]);
    if (y->rank > 2)
        return fast__fail(FAST_EFORMAT, "labels in %s have %d dimensions, expected 1 or 2", y_name,
                          y->rank);
    if (c->as == AS_TOKENS && x->rank != 2)
        return fast__fail(FAST_EFORMAT, "tokens in %s have %d dimensions, expected 2", x_name,
                          x->rank);
    if (c->as == AS_SEQUENCE && x->rank != 3)
        return fast__fail(FAST_EFORMAT, "sequences in %s have %d dimensions, expected 3", x_name,
                          x->rank);
    const int64_t rows = x->rank > 1 ? d[1] : 1;
    *like = (fast_data){ .count = d[0], .rank = 1, .shape = { rows, 1, 1 } };
    if (c->as == AS_SEQUENCE) {
        like->rank = 2;
        like->shape[1] = d[2];
    } else if (x->rank > 2) {
        like->rank = 3;
        like->shape[0] = x->rank == 4 ? d[1] : 1;
        like->shape[1] = d[x->rank - 2];
        like->shape[2] = d[x->rank - 1];
    }
    like->dtype = x->width == 1 && x->kind != 'i' ? FAST_U8 : FAST_F32;
    like->tokens = c->as == AS_TOKENS;
    const int64_t answers = y->rank == 2 ? y->shape[1] : 1;
    if (y->kind == 'f') {
        like->outputs = answers;
    } else {
        like->positions = answers;
        like->classes = FAST_CLASSES_MAX; /* until the labels are read */
    }
    return FAST_OK;
}

/* One more than the largest value: classes or vocabulary where they are not given. */
static int64_t count_labels(const int32_t *labels, int64_t count)
{
    int32_t top = 0;
    for (int64_t i = 0; i < count; i++)
        top = labels[i] > top ? labels[i] : top;
    return (int64_t)top + 1;
}

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

static fast_err fill(fast_stream *x_stream, const fast_npy *x, fast_stream *y_stream,
                     const fast_npy *y, int64_t classes, int64_t vocabulary, fast_data *data)
{
    const bool bytes = data->dtype == FAST_U8;
    FAST_TRY(fast__npy_read(x_stream, x, bytes ? data->x : NULL, bytes ? NULL : data->x, NULL, 0));
    FAST_TRY(fast__npy_read(y_stream, y, NULL, data->targets, data->labels,
                            classes > 0 ? classes : FAST_CLASSES_MAX));
    if (data->labels != NULL)
        data->classes = data->outputs =
            classes > 0 ? classes : count_labels(data->labels, data->count * data->positions);
    if (data->tokens)
        data->vocabulary = vocabulary > 0 ? vocabulary : count_tokens(data);
    return FAST_OK;
}

/* Read one set; `like` is the training set, whose classes hold for the test set, or NULL. */
static fast_err read_set(const numpy_config *c, const source *from, const char *x_name,
                         const char *y_name, const fast_data *train, fast_data **out)
{
    fast_stream x_stream, y_stream;
    fast_npy x, y;
    fast_data like;
    fast_data *data = NULL;
    FAST_TRY(open_array(from, x_name, &x_stream, &x));
    fast_err err = open_array(from, y_name, &y_stream, &y);
    if (err)
        goto close_x;
    err = plan(c, x_name, &x, y_name, &y, &like);
    if (!err)
        err = fast__data_make(&like, &data);
    if (!err)
        err = fill(&x_stream, &x, &y_stream, &y, train != NULL ? train->classes : c->classes,
                   train != NULL ? train->vocabulary : c->vocabulary, data);
    if (err)
        fast_data_free(data);
    else
        *out = data;
    fast__stream_close(&y_stream);
close_x:
    fast__stream_close(&x_stream);
    return err;
}

static fast_err open_sets(const numpy_config *c, const source *from, fast_data **train_out,
                          fast_data **test_out)
{
    if ((c->test_x[0] == 0) != (c->test_y[0] == 0))
        return fast__fail(FAST_EINVAL, "test_x and test_y are given together, or neither");
    fast_data *train;
    fast_data *test = NULL;
    FAST_TRY(read_set(c, from, c->x, c->y, NULL, &train));
    const fast_err err = c->test_x[0] == 0
                             ? fast__data_split(&train, c->test_fraction, true, &train, &test)
                             : read_set(c, from, c->test_x, c->test_y, train, &test);
    if (err) {
        fast_data_free(train);
        return err;
    }
    return fast__data_finish((fast_normalize)c->normalize, &train, &test, train_out, test_out);
}

static fast_err npy_open(const void *config, uint64_t seed, fast_data **train_out,
                         fast_data **test_out)
{
    (void)seed;
    const numpy_config *c = config;
    if (c->x[0] == 0 || c->y[0] == 0)
        return fast__fail(FAST_EINVAL, "data npy needs files: npy:x=FILE,y=FILE");
    return open_sets(c, &(source){ .file = c->x }, train_out, test_out);
}

static fast_err npz_open(const void *config, uint64_t seed, fast_data **train_out,
                         fast_data **test_out)
{
    (void)seed;
    const numpy_config *c = config;
    if (c->file[0] == 0)
        return fast__fail(FAST_EINVAL, "data npz needs a file: npz:file=FILE");
    source from = { .file = c->file };
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
