/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "codec/codec.h"

/* All codecs and stages of this folder; private to it. */
extern const fast_codec fast__codec_fp16;
extern const fast_codec fast__codec_bf16;
extern const fast_codec fast__codec_int8;
extern const fast_codec fast__codec_sketch;
extern const fast_codec fast__codec_structured;
extern const fast_codec fast__codec_powersgd;
extern const fast_codec fast__codec_fixed;
extern const fast_codec fast__codec_flexpoint;
extern const fast_codec fast__codec_natural;
extern const fast_codec fast__codec_dorefa;
extern const fast_codec fast__codec_onebit;
extern const fast_codec fast__codec_qsgd;
extern const fast_codec fast__codec_terngrad;
extern const fast_codec fast__codec_topk;
extern const fast_codec fast__codec_sign;
extern const fast_codec fast__codec_vote;
extern const fast_codec fast__codec_randk;
extern const fast_codec fast__codec_threshold;
extern const fast_codec fast__codec_adaptive;
extern const fast_codec fast__codec_dgc;
extern const fast_codec fast__codec_significant;
extern const fast_stage fast__stage_entropy;
extern const fast_stage fast__stage_zstd; /* only where the build has its library */
extern const fast_stage fast__stage_lz4;  /* likewise */

/* The Debian package that would bring a stage which this build is without; NULL: no such stage. */
const char *fast__stage_package(const char *name);
