/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "data/data.h"

/*
 * Shards on disk: a folder with samples in files of equal numbers of rows, their answers, and an
 * index that is written last. docs/streaming.md has the format for other programs:
 *
 *   index.json                form, normalisation and texts of the set; sizes and checksums
 *   train-000000.shard ...    `rows` samples each, the last one fewer, one after the other, in the
 *                             set's type, little endian; if compressed, a zstd frame of them
 *   train.answers             labels as int32 or targets as float, little endian, of all samples
 *   test-000000.shard ..., test.answers       if there is a test set
 */
enum { FAST_STREAM_INDEX_MAX = 64 << 20, FAST_STREAM_NAME_MAX = 40 };

/* A file as the index has it. */
typedef struct fast_stream_file {
    int64_t size;  /* bytes on disk */
    uint64_t hash; /* XXH64 of these bytes */
} fast_stream_file;

/* The training or the test set. */
typedef struct fast_stream_part {
    int64_t count;            /* samples; 0: there is no such set */
    int64_t shards;           /* files of samples */
    fast_stream_file *files;  /* [shards] */
    fast_stream_file answers; /* file of all answers */
} fast_stream_part;

/* The index. */
typedef struct fast_stream_index {
    fast_data form;  /* sizes, types and texts of a sample; mean, scale and texts are owned,
                                count, x, rows and answers unused */
    int64_t rows;    /* samples of a shard */
    bool compressed; /* by zstd */
    fast_stream_part part[2]; /* training set, test set */
} fast_stream_index;

/* Read and check an index: sizes agree with each other, and no number makes later code take more
 * memory than the file has bytes. FAST_ENOENT, FAST_EFORMAT, FAST_ENOMEM. */
fast_err fast__stream_index_read(const char *folder, fast_stream_index *out);

/* Replace the index of a folder. */
fast_err fast__stream_index_write(const char *folder, const fast_stream_index *index);

void fast__stream_index_fini(fast_stream_index *index);

/* Write the name of shard `shard` of part 0 or 1; of its answers if shard is -1. */
void fast__stream_name(int part, int64_t shard, char name[FAST_STREAM_NAME_MAX]);

/* Return the number of samples of shard `shard`. */
int64_t fast__stream_rows(const fast_stream_index *index, int part, int64_t shard);
