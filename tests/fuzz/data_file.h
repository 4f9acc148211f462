/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * For the fuzz targets of data sets: parts of the input become files in memory, a spec opens them,
 * and what comes out is checked. A rule on memory holds for every input: no allocation above what
 * the input's size allows.
 */
#include "base/memory.h"
#include "data/byte_reader.h"
#include "data/data.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

typedef struct data_file {
    int fd;
    char path[64];
} data_file;

static inline data_file data_file_make(const uint8_t *bytes, size_t size)
{
    data_file file = { .fd = memfd_create("input", 0) };
    if (file.fd < 0 || write(file.fd, bytes, size) != (ssize_t)size)
        abort();
    snprintf(file.path, sizeof file.path, "/proc/self/fd/%d", file.fd);
    return file;
}

static inline void data_file_drop(data_file *file)
{
    close(file->fd);
}

/* Open and free. Every byte can become at most 1032 bytes by deflate, each a float or a label; the
 * constant is for options and messages. */
static inline void data_file_open(const char *spec, size_t input_size)
{
    fast_data *train = NULL, *test = NULL;
    fast__alloc_largest();
    if (fast__data_open(spec, 1, &train, &test, NULL) == FAST_OK) {
        if (train == NULL || fast__data_check(train) != FAST_OK)
            abort();
    } else if (train != NULL || test != NULL || fast_error_detail()[0] == 0) {
        abort();
    }
    const int64_t bound = ((int64_t)input_size + 64) * FAST_DEFLATE_RATIO_MAX * 4 + (1 << 20);
    if (fast__alloc_largest() > bound)
        abort();
    fast_data_free(train);
    fast_data_free(test);
}
