/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "base/option.h"
#include "fast/plugin.h"
#include "tensor/batch.h"

/*
 * A data set: samples in memory in the type they were read in, normalised when a batch is made.
 * Immutable once made; any number of loaders read it at once. The way of data through this folder:
 *
 *   datasets.c                   "csv:file=iris.csv" -> a kind of set, opened
 *   idx.c, fashion_mnist.c       kinds that read files, and below them what they read with:
 *   csv.c, numpy.c, text.c       csv_scan.c (fields), npy.c (one array), zip.c (members of an NPZ),
 *                                stream.c (bytes, gunzipped)
 *   digits.c, points.c           kinds that are drawn, by way of synthetic.c: images, classes in
 *   regression.c, copy.c         space, regression, memory
 *   data.c, split.c              a set made and checked; divided and normalised (make.h)
 *   loader.c                     set -> batch of a step, by way of shard.c (whose samples), of
 *                                sample_gather.c (to normalised floats), of augment.c and of prefetch.c
 */
struct fast_data {
    int64_t count;    /* samples */
    int rank;         /* of one sample */
    int64_t shape[3]; /* [C], [T, C], [C, H, W]; [T] for tokens */
    int64_t features; /* product of shape */
    fast_dtype dtype; /* of x: U8 or F32 */
    void *x;          /* [count][features] */
    /* x' = (x - mean[c]) * scale[c], where channel c is the c-th run of features / channels
     * elements: C for [C, H, W], each column of a table, else one channel. */
    int64_t channels;
    float *mean;  /* [channels] */
    float *scale; /* [channels] */
    /* Exactly one of the two: */
    int32_t *labels;    /* [count][positions] */
    float *targets;     /* [count][outputs] */
    int64_t positions;  /* labels a sample */
    int64_t classes;    /* 0 for regression */
    int64_t outputs;    /* classes, or regression outputs */
    bool tokens;        /* x holds whole numbers below `vocabulary` */
    int64_t vocabulary; /* of tokens */
    char *alphabet;     /* text as characters: vocabulary bytes, or NULL */
};

/* A kind of data set that can be named: --data idx:images=...,labels=... */
typedef struct fast_data_kind {
    const char *name;           /* as it is typed */
    const char *summary;        /* one line, for help */
    const fast_option *options; /* of its configuration */
    size_t config_size;         /* bytes of it */
    /* Make the training and the test set. `*test_out` may be NULL where there is none. The seed
     * draws synthetic sets; files ignore it. Errors name file, place and what was expected. */
    fast_err (*open)(const void *config, uint64_t seed, fast_data **train_out,
                     fast_data **test_out);
} fast_data_kind;

extern const fast_data_kind *const fast__data_kinds[]; /* the last is NULL */

/* Open "name" or "name:key=value,..."; "auto" is fashion-mnist where it is installed, else digits
 * (*note_out then says so, else NULL; may be NULL). */
fast_err fast__data_open(const char *spec, uint64_t seed, fast_data **train_out,
                         fast_data **test_out, const char **note_out);

/* Test on a part of the training set: `fraction` (0 < fraction < 1) of it, the same in every run,
 * becomes *test, whose old samples are freed, and leaves *train. So settings can be chosen without
 * a look at the test set. Both stay as they are when it fails. */
fast_err fast__data_hold_out(double fraction, fast_data **train, fast_data **test);

/* Finite, labels in range, sizes that agree: what every reader ends with. */
fast_err fast__data_check(const fast_data *data);
