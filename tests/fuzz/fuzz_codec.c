/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Fuzzes the decoders of all codecs and stages: the first byte chooses one, the second the length
 * of the vector, the third whether it is cut by layers; the rest are its bytes. Whatever they are,
 * they give an error in one line or a vector.
 */
#include "base/memory.h"
#include "codec/codec.h"

#include <string.h>

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

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static float y[256];
    const char *name;
    fast_chain *chain = NULL;
    fast_coder *coder = NULL;

    if (size < 3 || !(name = name_at(data[0])))
        return 0;
    FAST_ASSERT(fast__chain_open(name, &chain) == FAST_OK);
    const fast_coder_options o = {
        .chain = chain, .layout = &layout, .count = data[1] + 1, .scope = data[2] % 3, .feedback = 2
    };
    FAST_ASSERT(fast__coder_new(&o, &coder) == FAST_OK);
    const fast_err err = fast__coder_decode(coder, data + 3, size - 3, FAST_DECODE_ADD, 1, y);
    FAST_ASSERT(err == FAST_OK || err == FAST_EFORMAT);
    FAST_ASSERT(!err || fast_error_detail()[0] != '\0');
    memset(y, 0, sizeof y);
    fast__coder_free(coder);
    fast__chain_close(chain);
    return 0;
}
