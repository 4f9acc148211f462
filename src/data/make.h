/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "base/file.h"
#include "data/data.h"

/*
 * Making, splitting and normalising a set: shared by readers and synthetic sets. Private to this
 * folder.
 */

/* A limit that prevents a hostile file from asking for a model of absurd size. */
enum { FAST_CLASSES_MAX = 65536 };

/* How x is normalised; an option of most kinds. */
typedef enum fast_normalize {
    FAST_NORMALIZE_UNIT,     /* bytes: x / 255; floats as they are */
    FAST_NORMALIZE_STANDARD, /* mean 0 and deviation 1 per channel or column */
    FAST_NORMALIZE_NONE      /* unchanged */
} fast_normalize;
#define FAST_NORMALIZE_CHOICES "unit|standard|none"

/* Make a set with zeroed arrays. `like` gives count, rank, shape, dtype, positions (0 means 1),
 * classes (0: regression), outputs, tokens, vocabulary, channels (0: by the shape) and rows, which
 * the set owns on success and which take the place of x; its other pointers are ignored.
 * Normalisation is FAST_NORMALIZE_NONE. FAST_EINVAL if the sizes contradict each other, FAST_ENOMEM
 * if they need more memory than the machine has free. */
fast_err fast__data_make(const fast_data *like, fast_data **out);

/* Compute mean and scale from the training set for both sets; `test` may be NULL. Tokens are never
 * normalised. FAST_ENOMEM, and errors of reading samples that are not in memory. */
fast_err fast__data_normalize(fast_normalize how, fast_data *train, fast_data *test);

/* Move the last `fraction` of the samples, after a fixed shuffle if `shuffle`, to a test set: the
 * same split in every run. With fraction 0 the whole set moves to *train_out and *test_out is NULL.
 * Takes *move, also when it fails. */
fast_err fast__data_split(fast_data **move, double fraction, bool shuffle, fast_data **train_out,
                          fast_data **test_out);

/* Set test[i] for the samples of `count` that fast__data_split() moves to the test set after the
 * shuffle; `test` is zeroed. */
void fast__data_split_mark(int64_t count, double fraction, bool *test);

/* Finish an open(): check both sets and that they fit each other, normalise, hand out. Takes both,
 * also when it fails. *test_move may be NULL. */
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
extern const fast_data_kind fast__data_folder, fast__data_cifar10, fast__data_shards;
extern const fast_data_kind fast__data_npy, fast__data_npz, fast__data_text;
extern const fast_data_kind fast__data_digits, fast__data_spirals, fast__data_blobs;
extern const fast_data_kind fast__data_linear, fast__data_nonlinear, fast__data_copy;
extern const fast_data_kind fast__data_words;
