/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "engine/cpu/gemm.h"
#include "engine/cpu/simd.h"

/* The product of gemm.h without a library. gemm_simd.c */
typedef struct fast_gemm_kernels {
    /* c = a b or c += a b. Needs 34 KiB of stack. */
    void (*run)(const fast_gemm *gemm, const float *a, const float *b, float *c);
} fast_gemm_kernels;

FAST_KERNELS(gemm)
