/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "base/file.h"
#include "data/data.h"

/*
 * What readers and synthetic sets share: making, splitting and normalising a set. Private to this
 * folder.
 */

/* Limits that keep a hostile file from asking for a model of absurd size. */
enum { FAST_CLASSES_MAX = 65536 };

/* How x becomes what a model sees; an option of most kinds. */
typedef enum fast_normalize {
    FAST_NORMALIZE_UNIT,     /* bytes: x / 255; floats as they are */
    FAST_NORMALIZE_STANDARD, /* mean 0 and deviation 1 per channel of the training set */
    FAST_NORMALIZE_NONE      /* as they are */
} fast_normalize;
#define FAST_NORMALIZE_CHOICES "unit|standard|none"

/* A set with zeroed arrays. Of `like`, count, rank, shape, dtype, positions (0 means 1), classes
 * (0: regression), outputs, tokens, vocabulary and channels (0: by the shape) count; pointers do
 * not. Normalisation is NONE. FAST_EINVAL where the sizes make no sense. */
fast_err fast__data_make(const fast_data *like, fast_data **out);

/* Choose mean and scale of both sets from the training set; `test` may be NULL. Tokens stay. */
void fast__data_normalize(fast_normalize how, fast_data *train, fast_data *test);

/* Give the last `fraction` of the samples, after a fixed shuffle where asked, to a test set: the
 * same split in every run. With fraction 0 the whole set moves to *train_out and *test_out is
 * NULL. Takes *move, also when it fails. */
fast_err fast__data_split(fast_data **move, double fraction, bool shuffle, fast_data **train_out,
                          fast_data **test_out);

/* The end of every open(): check both sets and that they fit each other, normalise, hand out.
 * Takes both, also when it fails. `test` may point to NULL. */
fast_err fast__data_finish(fast_normalize how, fast_data **train_move, fast_data **test_move,
                           fast_data **train_out, fast_data **test_out);

/* Split a test set off *train_move if *test_move is NULL, as fast__data_split() does, and finish
 * both. Takes both, also when it fails. */
fast_err fast__data_finish_split(fast_normalize how, double fraction, bool shuffle,
                                 fast_data **train_move, fast_data **test_move,
                                 fast_data **train_out, fast_data **test_out);

/* Read samples and their labels (integers) or targets (floats) from two IDX files. `classes` of 0
 * takes the largest label for the last class. The set is neither checked nor normalised yet. */
fast_err fast__idx_read(const char *images, const char *labels, int64_t classes, fast_data **out);

/* Return whether Fashion-MNIST's files are where the Debian package puts them, and this build can
 * unpack them. */
bool fast__fashion_mnist_found(void);

/* The kinds of data sets, one line of fast__data_kinds each. */
extern const fast_data_kind fast__data_fashion_mnist, fast__data_idx, fast__data_csv;
extern const fast_data_kind fast__data_npy, fast__data_npz, fast__data_text;
extern const fast_data_kind fast__data_digits, fast__data_spirals, fast__data_blobs;
extern const fast_data_kind fast__data_linear, fast__data_nonlinear, fast__data_copy;
