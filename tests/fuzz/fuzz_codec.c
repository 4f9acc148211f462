/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Fuzzes the decoders of all codecs and stages: a line names a chain, or a byte below 32 chooses
 * one by its number; then a byte is the length of the vector, another whether it is cut by layers;
 * the rest are its bytes. Whatever they are, they give an error in one line or a vector. A chain
 * that this build cannot open is passed over.
 */
#include "base/memory.h"
#include "codec/codec.h"

#include <stdio.h>
#include <string.h>

enum { NAME_SIZE = 128 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const fast_segment segments[] = {
    { .name = "a", .offset = 0, .count = 120, .shape = { 8, 15 }, .rank = 2 },
    { .name = "b", .offset = 120, .count = 136, .shape = { 136 }, .rank = 1 },
};
static const fast_layout layout = { segments, 2, 256 };

/* Codec number i, or the stage that comes after all codecs; NULL past the last. */
static const char *name_at(int i)
{
    int codecs = 0;

    while (fast__codecs[codecs])
        if (codecs++ == i)
            return fast__codecs[i]->name;
    for (int s = 0; fast__stages[s]; s++)
        if (codecs + s == i)
            return fast__stages[s]->name;
    return NULL;
}

/* The chain that an input begins with, and how many bytes say so; 0: none does. */
static size_t name_of(const uint8_t *data, size_t size, char name[NAME_SIZE])
{
    const uint8_t *end = size > 0 ? memchr(data, '\n', size < NAME_SIZE ? size : NAME_SIZE) : NULL;

    if (size > 0 && data[0] < 32 && data[0] != '\n') {
        const char *found = name_at(data[0]);

        snprintf(name, NAME_SIZE, "%s", found ? found : "");
        return found ? 1 : 0;
    }
    if (!end || memchr(data, '\0', (size_t)(end - data)))
        return 0;
    snprintf(name, NAME_SIZE, "%.*s", (int)(end - data), (const char *)data);
    return (size_t)(end - data) + 1;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static float y[256];
    char name[NAME_SIZE];
    fast_chain *chain = NULL;
    fast_coder *coder = NULL;

    const size_t head = name_of(data, size, name);

    if (head == 0 || size - head < 2 || fast__chain_open(name, &chain) != FAST_OK)
        return 0;
    data += head;
    size -= head;
    const fast_coder_options o = {
        .chain = chain, .layout = &layout, .count = data[0] + 1, .scope = data[1] % 3, .feedback = 2
    };
    FAST_ASSERT(fast__coder_new(&o, &coder) == FAST_OK);
    const fast_err err = fast__coder_decode(coder, data + 2, size - 2, FAST_DECODE_ADD, 1, y);
    FAST_ASSERT(err == FAST_OK || err == FAST_EFORMAT);
    FAST_ASSERT(!err || fast_error_detail()[0] != '\0');
    memset(y, 0, sizeof y);
    fast__coder_free(coder);
    fast__chain_close(chain);
    return 0;
}
