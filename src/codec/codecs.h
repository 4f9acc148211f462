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
extern const fast_codec fast__codec_dgc;
extern const fast_codec fast__codec_significant;
