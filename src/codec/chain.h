/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "codec/codec.h"

/* Inside a chain; private to this folder. */
struct fast_chain {
    char text[FAST_CHAIN_TEXT_MAX]; /* as it was given */
    const fast_codec *codec;        /* NULL: floats as they are */
    void *config;                   /* of the codec */
    int stage_count;                /* of stages */
    const fast_stage *stages[FAST_STAGES_MAX];
    void *stage_configs[FAST_STAGES_MAX];
};
