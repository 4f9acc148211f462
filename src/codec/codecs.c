/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The registries of codecs and of stages. A new codec is a file of its own that defines
 * fast__codec_<name>, and a line here; the tests and the benchmark that loop over these lists then
 * cover it.
 */
#include "codec/chain.h"

#include <string.h>

/* clang-format off */
#define CODECS(X)  \
    X(fp16)        \
    X(bf16)        \
    X(int8)        \
    X(sketch)      \
    X(structured)  \
    X(powersgd)    \
    X(fixed)       \
    X(flexpoint)   \
    X(natural)     \
    X(dorefa)      \
    X(onebit)      \
    X(sign)        \
    X(vote)        \
    X(terngrad)    \
    X(qsgd)        \
    X(topk)        \
    X(randk)       \
    X(threshold)   \
    X(adaptive)    \
    X(dgc)         \
    X(kmeans)      \
    X(dct)         \
    X(significant) \
    X(nonzero)     \
    X(significance) \
    X(budget)      \
    X(skip)        \
    X(kkt)         \
    X(decay)

#define STAGES(X)  \
    X(entropy)     \
    X(huffman)     \
    ZSTD(X)        \
    LZ4(X)
/* clang-format on */

/* Stages of libraries that this build may be without. */
#ifdef FAST_HAVE_ZSTD
#define ZSTD(X) X(zstd)
#else
#define ZSTD(X)
#endif
#ifdef FAST_HAVE_LZ4
#define LZ4(X) X(lz4)
#else
#define LZ4(X)
#endif

#define DECLARE_CODEC(name) extern const fast_codec fast__codec_##name;
#define DECLARE_STAGE(name) extern const fast_stage fast__stage_##name;
#define CODEC(name)         &fast__codec_##name,
#define STAGE(name)         &fast__stage_##name,

CODECS(DECLARE_CODEC)
STAGES(DECLARE_STAGE)

const fast_codec *const fast__codecs[] = { CODECS(CODEC) NULL };
const fast_stage *const fast__stages[] = { STAGES(STAGE) NULL };

const char *fast__stage_package(const char *name)
{
    static const char *const packages[][2] = {
        { "zstd", "libzstd-dev" },
        { "lz4", "liblz4-dev" },
    };

    for (size_t i = 0; i < sizeof packages / sizeof packages[0]; i++)
        if (strcmp(packages[i][0], name) == 0)
            return packages[i][1];
    return NULL;
}
