/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "base/option.h"
#include "data/rows.h"
#include "fast/plugin.h"
#include "tensor/batch.h"

/*
 * A data set: samples in memory in the type they were read in, normalised when a batch is made; or
 * samples that are read when a batch is made (rows.h). Immutable once made; any number of loaders
 * read it at once. The path of data through this folder:
 *
 *   datasets.c                   "csv:file=iris.csv" -> a kind of set, opened
 *   idx.c, fashion_mnist.c       kinds that read files, with their helpers: csv_scan.c (fields),
 *   csv.c, numpy.c, text.c       npy.c (headers), array.c (numbers), zip.c (members of an NPZ),
 *                                byte_reader.c (bytes, gunzipped)
 *   table_fit.c, table_task.c    a training table -> its encoder: first line, answers, classes or
 *   table_columns.c              regression, kinds of columns; category_set.c collects texts
 *   table.c, date.c              encoder + table -> samples; dates as numbers
 *   table_json.c                 encoder -> JSON of a model file -> encoder
 *   table_summary.c              encoder -> one line for people
 *   folder.c, cifar.c            pictures: picture_list.c (files by class), picture.c (PNG and JPEG
 *                                to bytes of one size), resample.c
 *   stream.c, stream_write.c     shards on disk: stream_index.c (their index), stream_cache.c (a
 *                                bounded cache that reads ahead), window.c (their shuffle)
 *   digits.c, points.c           kinds that are drawn, by synthetic.c: images, classes in space,
 *   regression.c, copy.c         regression, memory
 *   data.c, split.c              a set made and checked; divided and normalised (make.h)
 *   loader.c                     set -> batch of a step, by shard.c (whose samples),
 *                                sample_gather.c (to normalised floats), augment.c and prefetch.c
 */
struct fast_data {
    int64_t count;    /* number of samples */
    int rank;         /* rank of one sample */
    int64_t shape[3]; /* [C], [T, C], [C, H, W]; [T] for tokens */
    int64_t features; /* product of shape */
    fast_dtype dtype; /* type of x: U8 or F32 */
    void *x;          /* [count][features]; NULL if `rows` is set */
    fast_rows *rows;  /* samples that are not in memory, or NULL */
    /* x' = (x - mean[c]) * scale[c], where channel c is the c-th run of features / channels
     * elements: C channels for [C, H, W]; one per element of vectors and sequences that are read,
     * where a sequence's column has the same constants at every position; else one channel. */
    int64_t channels; /* number of channels */
    float *mean;      /* [channels] */
    float *scale;     /* [channels] */
    bool fitted;      /* mean and scale were computed from the samples of the training set */
    /* Exactly one of `labels` and `targets` is set. */
    int32_t *labels;    /* [count][positions] */
    float *targets;     /* [count][outputs] */
    int64_t positions;  /* labels per sample */
    int64_t classes;    /* 0 for regression */
    int64_t outputs;    /* classes, or regression outputs */
    bool tokens;        /* x holds whole numbers below `vocabulary` */
    int64_t vocabulary; /* number of different tokens */
    char *alphabet;     /* text as characters: vocabulary bytes, or NULL */
    char *class_names;  /* `classes` UTF-8 texts, each with its zero byte; NULL: numbers */
    char *recipe;       /* JSON text: how the source became x, for files of models; or NULL */
    char *summary;      /* one line for people: how the source was understood; or NULL */
    /* targets are t' = (t - target_mean) * target_scale of the source's t; 0 and 1: unchanged. */
    float target_mean;  /* mean of the source's targets */
    float target_scale; /* 1 over their deviation */
};

/* A kind of data set, chosen by name: --data idx:images=...,labels=... */
typedef struct fast_data_kind {
    const char *name;           /* as it is typed */
    const char *summary;        /* one line, for help */
    const fast_option *options; /* options of its configuration */
    size_t config_size;         /* bytes of its configuration */
    /* Make the training and the test set; *test_out may become NULL. The seed draws synthetic sets;
     * files ignore it. Errors name file, position and expectation. */
    fast_err (*open)(const void *config, uint64_t seed, fast_data **train_out,
                     fast_data **test_out);
} fast_data_kind;

extern const fast_data_kind *const fast__data_kinds[]; /* ends with NULL */
extern const fast_part fast__shard_part;               /* options of fast_shards_write() */

/* Open "name" or "name:key=value,..."; "auto" is fashion-mnist if it is installed, else digits:
 * *note_out (may be NULL) then explains this, otherwise it is NULL. */
fast_err fast__data_open(const char *spec, uint64_t seed, fast_data **train_out,
                         fast_data **test_out, const char **note_out);

/* Test on a fraction (0 < fraction < 1) of the training set, the same samples in every run: it
 * becomes *test, whose old samples are freed, and is removed from *train. So settings can be chosen
 * without the test set. Both are unchanged on failure. */
fast_err fast__data_hold_out(double fraction, fast_data **train, fast_data **test);

/* Return the bytes of `classes` names that lie one after the other, zero bytes included. */
size_t fast__class_names_size(const char *names, int64_t classes);

/* Copy alphabet, class_names, recipe and summary to a set that has none of them. FAST_ENOMEM. */
fast_err fast__data_copy_texts(const fast_data *from, fast_data *to);

/* Copy `all` into a training set and a validation set, which is a fraction (0 < fraction < 1) of
 * it, the same samples in every run. `all` stays the caller's. FAST_EINVAL, FAST_ENOMEM. */
fast_err fast__data_validation(const fast_data *all, double fraction, fast_data **train_out,
                               fast_data **validation_out);
/* Compute the constants of normalisation again, where they are of samples, after a part of the
 * training set was taken out; the other sets (each may be NULL) get the same ones. FAST_ENOMEM. */
fast_err fast__data_refit(fast_data *train, fast_data *held, fast_data *test);

/* Copy sample `sample` to `out` in the set's type, without normalisation, from memory or disk.
 * FAST_EIO, FAST_EFORMAT. */
fast_err fast__data_row(const fast_data *data, int64_t sample, void *out);

/* Return the bytes of one sample. */
size_t fast__data_row_size(const fast_data *data);

/* Check `count` samples at `x` in the form of `data`: finite, and tokens below the vocabulary.
 * FAST_EFORMAT names the first that is wrong. */
fast_err fast__data_check_values(const fast_data *data, const void *x, int64_t count);

/* Map `count` outputs of a regression back to the scale of the source's targets: t = t' /
 * target_scale + target_mean. Classes and targets that are unchanged stay as they are. */
void fast__data_restore_targets(const fast_data *data, int64_t count, float *values);

/* Check that values are finite, labels in range and sizes consistent: every reader ends with it. */
fast_err fast__data_check(const fast_data *data);
