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
#include "data/array.h"

/* The element types by their code, which is 8 more than the index; width 0 marks unused codes. */
static const struct {
    char kind; /* as in fast_array */
    int width; /* bytes */
} types[] = { { 'u', 1 }, { 'i', 1 }, { 0, 0 }, { 'i', 2 }, { 'i', 4 }, { 'f', 4 }, { 'f', 8 } };
enum { TYPE_FIRST = 0x08, TYPE_COUNT = sizeof types / sizeof types[0] };

/* Read the header. FAST_EFORMAT if the bytes are no IDX header, or if it claims more than the
 * file can hold. */
fast_err fast__idx_header(fast_byte_reader *reader, fast_array *out)
{
    uint8_t bytes[4];
    FAST_TRY(fast__reader_read(reader, bytes, 4));
    const int type = bytes[2] - TYPE_FIRST;
    if (bytes[0] != 0 || bytes[1] != 0 || type < 0 || type >= TYPE_COUNT || types[type].width == 0)
        return fast__fail(FAST_EFORMAT, "%s is not an IDX file: it begins with %02x %02x %02x %02x",
                          reader->name, bytes[0], bytes[1], bytes[2], bytes[3]);
    fast_array array = {
        .kind = types[type].kind, .width = types[type].width, .big_endian = true, .rank = bytes[3]
    };
    if (array.rank < 1 || array.rank > FAST_ARRAY_RANK_MAX)
        return fast__fail(FAST_EFORMAT, "%s has %d dimensions, expected 1 to %d", reader->name,
                          array.rank, FAST_ARRAY_RANK_MAX);
    for (int i = 0; i < array.rank; i++) {
        FAST_TRY(fast__reader_read(reader, bytes, 4));
        array.shape[i] =
            (int64_t)bytes[0] << 24 | (int64_t)bytes[1] << 16 | (int64_t)bytes[2] << 8 | bytes[3];
    }
    FAST_TRY(fast__array_check(reader, &array));
    *out = array;
    return FAST_OK;
}

/* Read both headers, make the set and fill it. */
static fast_err read_both(fast_byte_reader *x, fast_byte_reader *y, int64_t classes,
                          fast_data **out)
{
    fast_array images, labels;
    fast_data like;
    fast_data *data;
    FAST_TRY(fast__idx_header(x, &images));
    FAST_TRY(fast__idx_header(y, &labels));
    FAST_TRY(fast__array_plan(x->name, &images, y->name, &labels, &like));
    FAST_TRY(fast__data_make(&like, &data));
    const fast_err err = fast__array_fill(x, &images, y, &labels, classes, data);
    if (err) {
        fast_data_free(data);
        return err;
    }
    *out = data;
    return FAST_OK;
}

/* Read a pair of IDX files as one set. FAST_EFORMAT if their numbers of samples differ. */
fast_err fast__idx_read(const char *images, const char *labels, int64_t classes, fast_data **out)
{
    fast_byte_reader x, y;
    FAST_TRY(fast__reader_open(images, &x));
    fast_err err = fast__reader_open(labels, &y);
    if (!err) {
        err = read_both(&x, &y, classes, out);
        fast__reader_close(&y);
    }
    fast__reader_close(&x);
    return err;
}

typedef struct idx_config {
    char images[FAST_PATH_MAX];      /* training samples */
    char labels[FAST_PATH_MAX];      /* their labels */
    char test_images[FAST_PATH_MAX]; /* test samples; "" for none */
    char test_labels[FAST_PATH_MAX]; /* their labels */
    int64_t classes;                 /* 0: the largest training label decides */
    double test_fraction; /* fraction of the samples to test on, if there is no test file */
    int normalize;        /* a fast_normalize */
} idx_config;

static const fast_option idx_options[] = {
    FAST_OPT_TEXT(idx_config, images, "", NULL, "file of the training samples"),
    FAST_OPT_TEXT(idx_config, labels, "", NULL, "file of the training labels or targets"),
    FAST_OPT_TEXT(idx_config, test_images, "", NULL, "file of the test samples"),
    FAST_OPT_TEXT(idx_config, test_labels, "", NULL, "file of the test labels or targets"),
    FAST_OPT_INT(idx_config, classes, "0", 0, FAST_CLASSES_MAX,
                 "classes; 0 takes the largest training label for the last"),
    FAST_OPT_REAL(idx_config, test_fraction, "0", 0, 0.9,
                  "fraction of the samples to test on if there is no test file"),
    FAST_OPT_CHOICE(idx_config, normalize, "unit", FAST_NORMALIZE_CHOICES,
                    "bytes divided by 255, mean 0 and deviation 1, or as they are"),
    FAST_OPT_END,
};

/* Read the training pair, and the test pair if one is named; else split a fraction off. */
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
    if (c->test_images[0] != 0) {
        const fast_err err = fast__idx_read(c->test_images, c->test_labels, train->classes, &test);
        if (err) {
            fast_data_free(train);
            return err;
        }
    }
    return fast__data_finish_split((fast_normalize)c->normalize, c->test_fraction, true, &train,
                                   &test, train_out, test_out);
}

const fast_data_kind fast__data_idx = {
    .name = "idx",
    .summary = "IDX files as of MNIST, plain or gzipped",
    .options = idx_options,
    .config_size = sizeof(idx_config),
    .open = idx_open,
};
