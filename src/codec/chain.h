/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "codec/codec.h"

/* Inside a chain; private to this folder. */
struct fast_chain {
    char text[FAST_CHAIN_TEXT_MAX];            /* as users typed it */
    const fast_codec *codec;                   /* NULL: floats are sent as they are */
    void *config;                              /* of the codec; NULL if it has no options */
    int stage_count;                           /* number of stages */
    const fast_stage *stages[FAST_STAGES_MAX]; /* in the order in which they pack */
    void *stage_configs[FAST_STAGES_MAX];      /* of each stage; NULL if it has no options */
};

/* Return the Debian package with the library of a stage; NULL for stages without a library. */
const char *fast__stage_package(const char *name);
