/* SPDX-License-Identifier: Apache-2.0 */
/*
 * IDX, the format of MNIST and its relatives, plain or gzipped:
 *
 *   byte 0, 1   zero
 *   byte 2      type: 0x08 u8, 0x09 i8, 0x0b i16, 0x0c i32, 0x0d f32, 0x0e f64
 *   byte 3      number of dimensions
 *   4 bytes     each dimension, big endian, unsigned
 *   ...         the elements, row major, big endian
 *
 * Samples: [N] and [N, C] give vectors, [N, H, W] images of one channel, [N, C, H, W] images.
 * u8 stays u8; everything else becomes float. Labels: integers [N] or [N, positions] are classes,
 * floats [N] or [N, outputs] are regression targets.
 */
#include "data/idx.h"

#include "base/memory.h"
#include "data/stream.h"

#include <string.h>

enum { DIMS_MAX = 4, IDX_U8 = 0x08, IDX_I8, IDX_I16 = 0x0b, IDX_I32, IDX_F32, IDX_F64 };

typedef struct idx_header {
    int type;               /* one of the codes above */
    int64_t width;          /* bytes of an element */
    int rank;               /* dimensions */
    int64_t dims[DIMS_MAX]; /* the first counts samples */
    int64_t count;          /* elements in all */
} idx_header;

static int64_t width_of(int type)
{
    switch (type) {
    case IDX_U8:
    case IDX_I8:
        return 1;
    case IDX_I16:
        return 2;
    case IDX_I32:
    case IDX_F32:
        return 4;
    case IDX_F64:
        return 8;
    default:
        return 0;
    }
}

static uint32_t big32(const uint8_t *b)
{
    return (uint32_t)b[0] << 24 | (uint32_t)b[1] << 16 | (uint32_t)b[2] << 8 | b[3];
}

/* Read the header and refuse what the rest of the file cannot hold. */
static fast_err read_header(fast_stream *stream, idx_header *header)
{
    uint8_t bytes[4];
    FAST_TRY(fast__stream_read(stream, bytes, 4));
    header->type = bytes[2];
    header->width = width_of(bytes[2]);
    header->rank = bytes[3];
    if (bytes[0] != 0 || bytes[1] != 0 || header->width == 0)
        return fast__fail(FAST_EFORMAT, "%s is not an IDX file: it begins with %02x %02x %02x %02x",
                          stream->name, bytes[0], bytes[1], bytes[2], bytes[3]);
    if (header->rank < 1 || header->rank > DIMS_MAX)
        return fast__fail(FAST_EFORMAT, "%s has %d dimensions, expected 1 to %d", stream->name,
                          header->rank, DIMS_MAX);
    int64_t size = header->width;
    for (int i = 0; i < header->rank; i++) {
        FAST_TRY(fast__stream_read(stream, bytes, 4));
        header->dims[i] = big32(bytes);
        if (header->dims[i] == 0)
            return fast__fail(FAST_EFORMAT, "dimension %d of %s is 0", i, stream->name);
        if (!fast__mul_size(size, header->dims[i], &size))
            return fast__fail(FAST_EFORMAT, "the dimensions of %s overflow", stream->name);
    }
    if (size > stream->bound)
        return fast__fail(FAST_EFORMAT, "%s claims %lld bytes of data but can hold at most %lld",
                          stream->name, (long long)size, (long long)stream->bound);
    header->count = size / header->width;
    return FAST_OK;
}

/* One element, of any type but u8. */
static double decode(int type, const uint8_t *b)
{
    switch (type) {
    case IDX_U8:
        return b[0];
    case IDX_I8:
        return (int8_t)b[0];
    case IDX_I16:
        return (int16_t)(uint16_t)(b[0] << 8 | b[1]);
    case IDX_I32:
        return (int32_t)big32(b);
    case IDX_F32: {
        const uint32_t bits = big32(b);
        float value;
        memcpy(&value, &bits, sizeof value);
        return (double)value;
    }
    default: {
        const uint64_t bits = (uint64_t)big32(b) << 32 | big32(b + 4);
        double value;
        memcpy(&value, &bits, sizeof value);
        return value;
    }
    }
}

/* Read all elements as floats, or as integers where `ints` is set. */
static fast_err read_elements(fast_stream *stream, const idx_header *header, float *floats,
                              int32_t *ints)
{
    enum { CHUNK = 1024 };
    uint8_t bytes[CHUNK * 8];
    for (int64_t done = 0; done < header->count;) {
        const int64_t left = header->count - done;
        const int64_t count = left < CHUNK ? left : CHUNK;
        FAST_TRY(fast__stream_read(stream, bytes, count * header->width));
        for (int64_t i = 0; i < count; i++) {
            const double value = decode(header->type, bytes + i * header->width);
            if (ints != NULL)
                ints[done + i] = (int32_t)value;
            else
                floats[done + i] = (float)value;
        }
        done += count;
    }
    return FAST_OK;
}

/* The sizes of a set from both headers. */
static fast_err plan(const fast_stream *x, const idx_header *images, const fast_stream *y,
                     const idx_header *labels, fast_data *like)
{
    if (images->dims[0] != labels->dims[0])
        return fast__fail(FAST_EFORMAT, "%s has %lld samples but %s has %lld labels", x->name,
                          (long long)images->dims[0], y->name, (long long)labels->dims[0]);
    if (labels->rank > 2)
        return fast__fail(FAST_EFORMAT, "labels in %s have %d dimensions, expected 1 or 2", y->name,
                          labels->rank);
    like->count = images->dims[0];
    like->dtype = images->type == IDX_U8 ? FAST_U8 : FAST_F32;
    like->rank = images->rank < 3 ? 1 : 3;
    like->shape[0] = images->rank == 1 || images->rank == 3 ? 1 : images->dims[1];
    like->shape[1] = images->rank < 3 ? 1 : images->dims[images->rank - 2];
    like->shape[2] = images->rank < 3 ? 1 : images->dims[images->rank - 1];
    const int64_t answers = labels->rank == 2 ? labels->dims[1] : 1;
    if (labels->type == IDX_F32 || labels->type == IDX_F64) {
        like->outputs = answers;
    } else {
        like->positions = answers;
        like->classes = FAST_CLASSES_MAX; /* until the labels are read */
    }
    return FAST_OK;
}

/* Fix the number of classes once the labels are known. */
static fast_err count_classes(const char *name, int64_t classes, fast_data *data)
{
    int64_t top = 0;
    for (int64_t i = 0; i < data->count * data->positions; i++) {
        const int32_t label = data->labels[i];
        if (label < 0 || label >= (classes > 0 ? classes : FAST_CLASSES_MAX))
            return fast__fail(FAST_EFORMAT, "label %lld of %s is %d, not in 0 to %lld",
                              (long long)i, name, label,
                              (long long)(classes > 0 ? classes : FAST_CLASSES_MAX) - 1);
        top = label > top ? label : top;
    }
    data->classes = data->outputs = classes > 0 ? classes : top + 1;
    return FAST_OK;
}

static fast_err fill(fast_stream *x, const idx_header *images, fast_stream *y,
                     const idx_header *labels, int64_t classes, fast_data *data)
{
    if (data->dtype == FAST_U8)
        FAST_TRY(fast__stream_read(x, data->x, images->count));
    else
        FAST_TRY(read_elements(x, images, data->x, NULL));
    FAST_TRY(fast__stream_end(x));
    FAST_TRY(read_elements(y, labels, data->targets, data->labels));
    FAST_TRY(fast__stream_end(y));
    return data->labels != NULL ? count_classes(y->name, classes, data) : FAST_OK;
}

static fast_err read_both(fast_stream *x, fast_stream *y, int64_t classes, fast_data **out)
{
    idx_header images, labels;
    fast_data like = { 0 };
    FAST_TRY(read_header(x, &images));
    FAST_TRY(read_header(y, &labels));
    FAST_TRY(plan(x, &images, y, &labels, &like));
    fast_data *data;
    FAST_TRY(fast__data_make(&like, &data));
    const fast_err err = fill(x, &images, y, &labels, classes, data);
    if (err) {
        fast_data_free(data);
        return err;
    }
    *out = data;
    return FAST_OK;
}

fast_err fast__idx_read(const char *images, const char *labels, int64_t classes, fast_data **out)
{
    fast_stream x, y;
    FAST_TRY(fast__stream_open(images, &x));
    fast_err err = fast__stream_open(labels, &y);
    if (!err) {
        err = read_both(&x, &y, classes, out);
        fast__stream_close(&y);
    }
    fast__stream_close(&x);
    return err;
}

typedef struct idx_config {
    char images[FAST_PATH_MAX];      /* training samples */
    char labels[FAST_PATH_MAX];      /* their labels */
    char test_images[FAST_PATH_MAX]; /* test samples; "" for none */
    char test_labels[FAST_PATH_MAX]; /* their labels */
    int64_t classes;                 /* 0: the largest training label decides */
    double test_fraction;            /* of the training samples, where there is no test file */
    int normalize;                   /* a fast_normalize */
} idx_config;

static const fast_option idx_options[] = {
    FAST_OPT_TEXT(idx_config, images, "", NULL, "file of the training samples"),
    FAST_OPT_TEXT(idx_config, labels, "", NULL, "file of the training labels or targets"),
    FAST_OPT_TEXT(idx_config, test_images, "", NULL, "file of the test samples"),
    FAST_OPT_TEXT(idx_config, test_labels, "", NULL, "file of the test labels or targets"),
    FAST_OPT_INT(idx_config, classes, "0", 0, FAST_CLASSES_MAX,
                 "classes; 0 takes the largest training label for the last"),
    FAST_OPT_REAL(idx_config, test_fraction, "0", 0, 0.9,
                  "part of the samples to test on where there is no test file"),
    FAST_OPT_CHOICE(idx_config, normalize, "unit", FAST_NORMALIZE_CHOICES,
                    "bytes divided by 255, mean 0 and deviation 1, or as they are"),
    FAST_OPT_END,
};

static fast_err idx_open(const void *config, uint64_t seed, fast_data **train_out,
                         fast_data **test_out)
{
    (void)seed;
    const idx_config *c = config;
    if (c->images[0] == 0 || c->labels[0] == 0)
        return fast__fail(FAST_EINVAL, "data idx needs files: idx:images=FILE,labels=FILE");
    if ((c->test_images[0] == 0) != (c->test_labels[0] == 0))
        return fast__fail(FAST_EINVAL, "data idx needs test_images and test_labels, or neither");
    fast_data *train;
    fast_data *test = NULL;
    FAST_TRY(fast__idx_read(c->images, c->labels, c->classes, &train));
    fast_err err = FAST_OK;
    if (c->test_images[0] != 0)
        err = fast__idx_read(c->test_images, c->test_labels, train->classes, &test);
    else
        err = fast__data_split(&train, c->test_fraction, true, &train, &test);
    if (err) {
        fast_data_free(train);
        return err;
    }
    return fast__data_finish((fast_normalize)c->normalize, &train, &test, train_out, test_out);
}

const fast_data_kind fast__data_idx = {
    .name = "idx",
    .summary = "IDX files as of MNIST, plain or gzipped",
    .options = idx_options,
    .config_size = sizeof(idx_config),
    .open = idx_open,
};
