/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One product at every position of a sequence, y_p = act(W x_p + b), with what surrounds it: memory
 * for W as the kernels read it, and bias and activation in blocks of positions, while they are in
 * cache. A value of gpt has 25 MB, so that a pass of its own for the bias costs a tenth of the
 * product.
 */
#include "engine/cpu/cpu.h"

/* The forward pass's memory, and that of the backward pass: the largest of `count` products. */
fast_err fast__cpu_sequence_memory(fast_cpu_compile *compile, fast_cpu_step *step, bool back,
                                   const fast_gemm *gemm, int count, int *out)
{
    int64_t most = 0;

    for (int i = 0; i < count; i++)
        most = fast__gemm_packed(&gemm[i]) > most ? fast__gemm_packed(&gemm[i]) : most;
    return back ? fast__cpu_scratch_back(compile, step, most, out)
                : fast__cpu_scratch_forward(compile, step, most, out);
}

/* Without a bias and an activation the product alone. */
void fast__cpu_sequence(const fast_cpu_run *run, const fast_gemm *gemm, int64_t P, const float *x,
                        const float *w, int packed, const fast_cpu_finish *finish, float *y)
{
    const int64_t block = finish ? fast__gemm_block(gemm) : P;
    const int64_t in = (int64_t)gemm->k * gemm->m, out = (int64_t)gemm->n * gemm->m;
    float *memory = fast__cpu_memory(run, packed);

    fast__gemm_pack(gemm, w, memory);
    for (int64_t p = 0; p < P; p += block) {
        const int64_t count = P - p < block ? P - p : block;
        fast__gemm_sequence(gemm, count, x + p * in, w, memory, y + p * out);
        if (finish)
            run->program->elem->bias_act(count, gemm->n, gemm->m, finish->bias, finish->act,
                                         finish->slope, y + p * out);
    }
}
