/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Matrix products of the shapes that layers have: C (m x n) = A (m x k) B (k x n), column major.
 *
 * libxsmm generates code for one shape when a program is compiled; on a product of m = 64 lanes it
 * reaches 95 to 99% of the core's peak, where general libraries reach 80 to 90%. If it cannot
 * (other processor, or not in this build) OpenBLAS does the work, and without that plain loops do.
 *
 * The libraries have thread pools, but a worker is one thread: fast__gemm_setup() limits both to
 * one.
 */
#include "engine/cpu/gemm.h"

#include "engine/cpu/simd.h"

#include <pthread.h>
#include <string.h>

#ifdef FAST_HAVE_XSMM
#include <libxsmm.h>
#endif
#ifdef FAST_HAVE_BLAS
#include <cblas.h>
#undef I
/* OpenBLAS may be built without OpenMP, so the function is looked up at run time. */
extern void omp_set_num_threads(int count) __attribute__((weak));
#endif
#ifdef FAST_HAVE_ONEDNN
#include <dnnl.h>
#endif

/* Initialise the libraries, once a process, with no better instruction set than the kernels'.
 * OpenBLAS takes its own from OPENBLAS_CORETYPE when it is loaded, which is too early for this. */
static void setup_once(void)
{
    const fast_isa isa = fast__isa();

    (void)isa;
#ifdef FAST_HAVE_BLAS
    openblas_set_num_threads(1);
#endif
#ifdef FAST_HAVE_XSMM
    libxsmm_init();
    if (isa < FAST_ISA_AVX512)
        libxsmm_set_target_archid(isa == FAST_ISA_AVX2 ? LIBXSMM_X86_AVX2 : LIBXSMM_X86_SSE4);
#endif
#ifdef FAST_HAVE_ONEDNN
    if (isa < FAST_ISA_AVX512)
        dnnl_set_max_cpu_isa(isa == FAST_ISA_AVX2 ? dnnl_cpu_isa_avx2 : dnnl_cpu_isa_sse41);
#endif
}

/* Initialise once a process, and limit this thread to one thread of the libraries. */
void fast__gemm_setup(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;

    pthread_once(&once, setup_once);
#ifdef FAST_HAVE_BLAS
    /* OpenMP stores the count per thread, and OpenBLAS and oneDNN read it at every call. */
    if (omp_set_num_threads)
        omp_set_num_threads(1);
#endif
}

/* Generate the kernel of a shape. libxsmm caches kernels, so equal shapes share one. */
void fast__gemm_init(fast_gemm *gemm)
{
    FAST_ASSERT(gemm->m > 0 && gemm->n > 0 && gemm->k > 0);
    FAST_ASSERT(gemm->lda >= gemm->m && gemm->ldc >= gemm->m);
    FAST_ASSERT(gemm->ldb >= (gemm->trans_b ? gemm->n : gemm->k));

    fast__gemm_setup();
    gemm->kernel = NULL;
#ifdef FAST_HAVE_XSMM
    const float alpha = 1, beta = gemm->accumulate ? 1 : 0;
    const int flags = gemm->trans_b ? LIBXSMM_GEMM_FLAG_TRANS_B : LIBXSMM_GEMM_FLAG_NONE;
    const int prefetch = LIBXSMM_GEMM_PREFETCH_NONE;
    const libxsmm_smmfunction code =
        libxsmm_smmdispatch(gemm->m, gemm->n, gemm->k, &gemm->lda, &gemm->ldb, &gemm->ldc, &alpha,
                            &beta, &flags, &prefetch);
    memcpy(&gemm->kernel, &code, sizeof code);
#endif
}

/* The product without libxsmm: by OpenBLAS, or by plain loops over columns of A. */
#ifdef FAST_HAVE_BLAS
static void run_other(const fast_gemm *g, const float *a, const float *b, float *c)
{
    cblas_sgemm(CblasColMajor, CblasNoTrans, g->trans_b ? CblasTrans : CblasNoTrans, g->m, g->n,
                g->k, 1, a, g->lda, b, g->ldb, g->accumulate ? 1 : 0, c, g->ldc);
}
#else
static void run_other(const fast_gemm *g, const float *a, const float *b, float *c)
{
    const int64_t row = g->trans_b ? 1 : g->ldb, column = g->trans_b ? g->ldb : 1;

    for (int64_t j = 0; j < g->n; j++) {
        float *out = c + j * g->ldc;
        if (!g->accumulate)
            memset(out, 0, (size_t)g->m * sizeof *out);
        for (int64_t p = 0; p < g->k; p++) {
            const float scale = b[j * row + p * column];
            const float *in = a + p * g->lda;
            for (int64_t i = 0; i < g->m; i++)
                out[i] += scale * in[i];
        }
    }
}
#endif

/* c = a b or c += a b, by the generated kernel if there is one. */
void fast__gemm_run(const fast_gemm *gemm, const float *a, const float *b, float *c)
{
#ifdef FAST_HAVE_XSMM
    if (gemm->kernel) {
        libxsmm_smmfunction code;
        memcpy(&code, &gemm->kernel, sizeof code);
        code(a, b, c);
        return;
    }
#endif
    run_other(gemm, a, b, c);
}
