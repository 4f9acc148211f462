/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The registries of codecs and of stages. A new one is a file of its own and a line here; the tests
 * and the benchmark that loop over these lists then cover it.
 */
#include "codec/codecs.h"

#include <string.h>

/* A line for each. */
/* clang-format off */
const fast_codec *const fast__codecs[] = {
    &fast__codec_fp16,
    &fast__codec_bf16,
    &fast__codec_int8,
    &fast__codec_sketch,
    &fast__codec_structured,
    &fast__codec_powersgd,
    &fast__codec_fixed,
    &fast__codec_flexpoint,
    &fast__codec_natural,
    &fast__codec_dorefa,
    &fast__codec_onebit,
    &fast__codec_sign,
    &fast__codec_vote,
    &fast__codec_terngrad,
    &fast__codec_qsgd,
    &fast__codec_topk,
    &fast__codec_randk,
    &fast__codec_threshold,
    &fast__codec_adaptive,
    &fast__codec_dgc,
    &fast__codec_significant,
    NULL,
};
/* clang-format on */

const fast_stage *const fast__stages[] = {
    &fast__stage_entropy,
#ifdef FAST_HAVE_ZSTD
    &fast__stage_zstd,
#endif
#ifdef FAST_HAVE_LZ4
    &fast__stage_lz4,
#endif
    NULL,
};

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
