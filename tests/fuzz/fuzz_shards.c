/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Shards: the input is an index, a zero byte, the answers and the first shard, split as the two
 * bytes before them say. Checksums are zero in this program (fast__hash is wrapped), or every
 * change would show; so the readers see answers and samples that are hostile.
 */
#include "base/memory.h"
#include "data/data.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
uint64_t __wrap_fast__hash(const void *bytes, size_t size, uint64_t seed);

uint64_t __wrap_fast__hash(const void *bytes, size_t size, uint64_t seed)
{
    (void)bytes;
    (void)size;
    (void)seed;
    return 0;
}

/* Write a file of the folder. */
static void write_file(const char *folder, const char *name, const uint8_t *bytes, size_t size)
{
    char path[128];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    const int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    if (fd < 0 || write(fd, bytes, size) != (ssize_t)size)
        abort();
    close(fd);
}

/* Open the set and read its samples. */
static void read_all(const char *folder)
{
    char spec[192];
    fast_data *train = NULL, *test = NULL;
    snprintf(spec, sizeof spec, "shards:dir=%s,cache=64k", folder);
    fast__alloc_largest();
    const fast_err err = fast__data_open(spec, 1, &train, &test, NULL);
    if (err != FAST_OK && (train != NULL || test != NULL || fast_error_detail()[0] == 0))
        abort();
    if (fast__alloc_largest() > 1 << 24)
        abort();
    if (err == FAST_OK && fast__data_row_size(train) < 1 << 16) {
        uint8_t *row = malloc(fast__data_row_size(train));
        for (int64_t i = 0; i < train->count && i < 4; i++)
            if (fast__data_row(train, i, row) != FAST_OK)
                break;
        free(row);
    }
    fast_data_free(train);
    fast_data_free(test);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char folder[] = "/tmp/fast-fuzz-XXXXXX";
    static const char *const names[] = { "index.json", "train.answers", "train-000000.shard" };
    const uint8_t *end = memchr(data, 0, size);
    const size_t index = end != NULL ? (size_t)(end - data) : size;
    const size_t rest = size - index > 3 ? size - index - 3 : 0;
    size_t answers = rest > 0 ? (size_t)data[index + 1] | (size_t)data[index + 2] << 8 : 0;
    answers = answers < rest ? answers : rest;
    if (mkdtemp(folder) == NULL)
        abort();
    write_file(folder, names[0], data, index);
    write_file(folder, names[1], data + size - rest, answers);
    write_file(folder, names[2], data + size - rest + answers, rest - answers);
    read_all(folder);
    for (int i = 0; i < 3; i++) {
        char path[128];
        snprintf(path, sizeof path, "%s/%s", folder, names[i]);
        remove(path);
    }
    remove(folder);
    return 0;
}
