/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "data/byte_reader.h"
#include "data/make.h"

/*
 * One array of numbers in a file, whatever the format: the readers of IDX and NPY parse their
 * headers into this struct and share everything after it.
 */
enum { FAST_ARRAY_RANK_MAX = 4 };

typedef struct fast_array {
    char kind;                          /* f: floats, i: signed, u: unsigned, b: truth values */
    int width;                          /* bytes of an element: 1, 2, 4 or 8 */
    bool big_endian;                    /* byte order of the elements in the file */
    int rank;                           /* number of dimensions */
    int64_t shape[FAST_ARRAY_RANK_MAX]; /* the first dimension counts samples */
    int64_t count;                      /* product of shape; set by fast__array_check() */
} fast_array;

/* Compute array->count. FAST_EFORMAT if the array is a scalar, a dimension is 0, or the reader
 * cannot hold as many bytes as the shape claims. */
fast_err fast__array_check(const fast_byte_reader *reader, fast_array *array);

/* Read the header of an NPY array, which fast__array_check() then accepted. FAST_EFORMAT if the
 * bytes are no such header, or of an array that FAST cannot use: Python objects, records, Fortran
 * order, big endian. */
fast_err fast__npy_header(fast_byte_reader *reader, fast_array *out);

/* Read the header of an IDX array. FAST_EFORMAT if the bytes are no such header. */
fast_err fast__idx_header(fast_byte_reader *reader, fast_array *out);

/* Read the next `count` elements of an array as floats. */
fast_err fast__array_read(fast_byte_reader *reader, const fast_array *array, int64_t count,
                          float *out);

/* Describe in `like` the data set of samples x and answers y: images, vectors, and classes for
 * integers or regression targets for floats. Until the labels are read, classes is
 * FAST_CLASSES_MAX. FAST_EFORMAT if the two do not fit each other. */
fast_err fast__array_plan(const char *x_name, const fast_array *x, const char *y_name,
                          const fast_array *y, fast_data *like);

/* Read samples and answers into `data`, which was made as fast__array_plan() says, and set its
 * number of classes: `classes`, or 0 to take the largest label for the last class. FAST_EFORMAT if
 * a label is out of range or either reader ends early or late. */
fast_err fast__array_fill(fast_byte_reader *x_reader, const fast_array *x,
                          fast_byte_reader *y_reader, const fast_array *y, int64_t classes,
                          fast_data *data);
