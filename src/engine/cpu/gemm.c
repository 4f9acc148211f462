/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Matrix products of the shapes that layers have: C (m x n) = A (m x k) B (k x n), column major.
 *
 * libxsmm generates code for one shape when a program is compiled; on a product of m = 64 lanes it
 * reaches 95 to 99% of an Intel core's peak, but 50 to 62% of an AVX2 core's by AMD. FAST's own
 * micro-kernel reaches 80 to 95%, on any processor; a general library 60 to 90%. So the fastest of
 * them is measured for the large products of a network, once a machine. All but OpenBLAS add the
 * terms of a sum in the order of k, and give the same bits.
 *
 * libxsmm's code walks all of k for a few columns of C. Where k is long, A no longer fits the
 * first-level cache, and with AVX2 a product of 64 x 512 x 2048 reaches 36 GFLOP/s; in parts of 128
 * it reaches 84, OpenBLAS 70.
 *
 * The libraries have thread pools, but a worker is one thread: fast__gemm_setup() limits both to
 * one.
 */
#include "engine/cpu/gemm.h"

#include "base/clock.h"
#include "base/memory.h"
#include "engine/cpu/gemm_kernels.h"
#include "engine/cpu/sequence_kernels.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>

#ifdef FAST_HAVE_XSMM
#include <libxsmm.h>
#include <libxsmm_version.h>
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

enum {
    METHODS = FAST_GEMM_WHOLE + 1,
    PART = 128,            /* terms of a part: with 64 lanes half of a first-level cache */
    PANEL = 64,            /* rows of the largest panel of a sequence's product */
    BLOCK_FLOATS = 1 << 17 /* floats of C that such a product works on */
};

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

#ifdef FAST_HAVE_XSMM
/* libxsmm's code for `k` terms of the product, or NULL. It caches kernels: equal shapes share one.
 */
static void *generate(const fast_gemm *gemm, int k, bool accumulate)
{
    const float alpha = 1, beta = accumulate ? 1 : 0;
    const int flags = gemm->trans_b ? LIBXSMM_GEMM_FLAG_TRANS_B : LIBXSMM_GEMM_FLAG_NONE;
    const int prefetch = LIBXSMM_GEMM_PREFETCH_NONE;
    const libxsmm_smmfunction code = libxsmm_smmdispatch(
        gemm->m, gemm->n, k, &gemm->lda, &gemm->ldb, &gemm->ldc, &alpha, &beta, &flags, &prefetch);
    void *kernel;

    memcpy(&kernel, &code, sizeof code);
    return kernel;
}

/* Run generated code. */
static void call(void *kernel, const float *a, const float *b, float *c)
{
    libxsmm_smmfunction code;

    memcpy(&code, &kernel, sizeof code);
    code(a, b, c);
}
#endif

/* Generate the kernel of a shape. */
void fast__gemm_init(fast_gemm *gemm)
{
    FAST_ASSERT(gemm->m > 0 && gemm->n > 0 && gemm->k > 0);
    FAST_ASSERT(gemm->lda >= gemm->m && gemm->ldc >= gemm->m);
    FAST_ASSERT(gemm->ldb >= (gemm->trans_b ? gemm->n : gemm->k));

    fast__gemm_setup();
    const fast_isa isa = fast__isa();
    gemm->own = FAST_KERNELS_PICK(gemm, isa);
    gemm->sequence = FAST_KERNELS_PICK(sequence, isa);
    gemm->method = FAST_GEMM_OWN;
    gemm->kernel = gemm->parts[0] = gemm->parts[1] = NULL;
#ifdef FAST_HAVE_XSMM
    gemm->kernel = generate(gemm, gemm->k, gemm->accumulate);
    if (gemm->kernel)
        gemm->method = FAST_GEMM_XSMM;
    if (gemm->k > PART && gemm->k % PART == 0) {
        gemm->parts[0] = generate(gemm, PART, gemm->accumulate);
        gemm->parts[1] = generate(gemm, PART, true);
    }
#endif
}

/* Tell whether this build has the method for the shape. */
static bool can_run(const fast_gemm *gemm)
{
#ifdef FAST_HAVE_BLAS
    const bool blas = true;
#else
    const bool blas = false;
#endif
    return gemm->method == FAST_GEMM_OWN || (gemm->method == FAST_GEMM_XSMM && gemm->kernel) ||
           (gemm->method == FAST_GEMM_BLAS && blas) ||
           (gemm->method == FAST_GEMM_PARTS && gemm->parts[0] && gemm->parts[1]) ||
           (gemm->method == FAST_GEMM_WHOLE && gemm->positions > 1);
}

/* The product by OpenBLAS; never chosen where the build has none. */
static void run_blas(const fast_gemm *g, const float *a, const float *b, float *c)
{
#ifdef FAST_HAVE_BLAS
    cblas_sgemm(CblasColMajor, CblasNoTrans, g->trans_b ? CblasTrans : CblasNoTrans, g->m, g->n,
                g->k, 1, a, g->lda, b, g->ldb, g->accumulate ? 1 : 0, c, g->ldc);
#else
    (void)g, (void)a, (void)b, (void)c;
    FAST_ASSERT(!"OpenBLAS is in this build");
#endif
}

/* c = a b or c += a b, by the chosen method. */
void fast__gemm_run(const fast_gemm *gemm, const float *a, const float *b, float *c)
{
    if (gemm->method == FAST_GEMM_BLAS) {
        run_blas(gemm, a, b, c);
        return;
    }
#ifdef FAST_HAVE_XSMM
    if (gemm->method == FAST_GEMM_XSMM) {
        call(gemm->kernel, a, b, c);
        return;
    }
    if (gemm->method == FAST_GEMM_PARTS) {
        for (int64_t k = 0; k < gemm->k; k += PART)
            call(gemm->parts[k > 0], a + k * gemm->lda, b + k * (gemm->trans_b ? gemm->ldb : 1), c);
        return;
    }
#endif
    gemm->own->run(gemm, a, b, c);
}

/* B as the tiles read it: whole tiles of columns. */
int64_t fast__gemm_packed(const fast_gemm *gemm)
{
    const int64_t columns =
        (gemm->n + FAST_GEMM_COLUMNS - 1) / FAST_GEMM_COLUMNS * FAST_GEMM_COLUMNS;

    return gemm->method == FAST_GEMM_WHOLE ? gemm->k * columns : 0;
}

/* As many positions as have C in a third of a second-level cache, in whole panels. */
int64_t fast__gemm_block(const fast_gemm *gemm)
{
    const int64_t rows = BLOCK_FLOATS / gemm->n / PANEL * PANEL;
    const int64_t block = (rows < PANEL ? PANEL : rows) / gemm->m;

    return block < 1 ? 1 : block;
}

/* Only the method that needs it. */
void fast__gemm_pack(const fast_gemm *gemm, const float *b, float *packed)
{
    if (gemm->method == FAST_GEMM_WHOLE)
        gemm->sequence->pack(gemm->k, gemm->n, b, gemm->ldb, gemm->trans_b, packed);
}

/* One position after the other, or blocks of them. */
void fast__gemm_sequence(const fast_gemm *gemm, int64_t count, const float *a, const float *b,
                         const float *packed, float *c)
{
    const int64_t whole = gemm->method == FAST_GEMM_WHOLE;
    const int64_t each = whole ? fast__gemm_block(gemm) : 1;

    FAST_ASSERT(gemm->lda == gemm->m && gemm->ldc == gemm->m);
    for (int64_t p = 0; p < count; p += each) {
        const float *from = a + p * gemm->k * gemm->m;
        float *to = c + p * gemm->n * gemm->m;
        const int64_t now = count - p < each ? count - p : each;
        if (whole)
            gemm->sequence->products(now, gemm->m, gemm->k, gemm->n, from, packed, gemm->accumulate,
                                     to);
        else
            fast__gemm_run(gemm, from, b, to);
    }
}

static const char *const names[METHODS] = { "own", "xsmm", "blas", "xsmm_parts", "whole" };

/* The method's name, as the plan and the description of a network have it. */
const char *fast__gemm_name(const fast_gemm *gemm)
{
    return names[gemm->method];
}

/* Choices are void when one of these changes. */
void fast__gemm_machine(char *text, size_t size)
{
    const char *blas = "none", *xsmm = "none", *build = "plain";
    char onednn[32] = "none";
#ifdef FAST_HAVE_BLAS
    blas = openblas_get_config();
#endif
#ifdef FAST_HAVE_XSMM
    xsmm = LIBXSMM_CONFIG_VERSION;
#endif
#ifdef FAST_HAVE_ONEDNN
    const dnnl_version_t *v = dnnl_version();
    snprintf(onednn, sizeof onednn, "%d.%d.%d", v->major, v->minor, v->patch);
#endif
#ifdef FAST_SANITIZED
    build = "sanitized";
#endif
    snprintf(text, size, "isa %s build %s xsmm %s onednn %s blas %.64s",
             fast__isa_name(fast__isa()), build, xsmm, onednn, blas);
}

enum {
    ROUNDS = 9,             /* of each method, in turns; the shortest time counts */
    SMALL = 1 << 20,        /* multiply-adds below which a choice saves nothing that counts */
    BUSY_NS_MAX = 60000000, /* no further round after this time */
    MEASURED_ROWS = 1024,   /* of a sequence */
    KEY_MAX = 256           /* bytes of a plan's key */
};

/* Measure the methods that this build has for the shape, on `count` positions; take the fastest. */
static fast_err measure(fast_gemm *gemm, int64_t count)
{
    const int64_t a = (int64_t)gemm->lda * gemm->k * count;
    const int64_t b = (int64_t)gemm->ldb * (gemm->trans_b ? gemm->k : gemm->n);
    const int64_t c = (int64_t)gemm->ldc * gemm->n * count;
    const int64_t packed = (int64_t)gemm->k * (gemm->n + FAST_GEMM_COLUMNS);
    int64_t best[METHODS];
    float *memory;

    FAST_TRY(fast__alloc("a product's measurement", a + b + c + packed, sizeof *memory, &memory));
    for (int64_t i = 0; i < a + b + c; i++)
        memory[i] = (float)((uint32_t)i * 2654435761u >> 8) * 0x1p-24f - 0.5f;
    for (int i = 0; i < METHODS; i++)
        best[i] = INT64_MAX;
    const int64_t start = fast__clock_thread_ns();
    for (int round = 0; round < ROUNDS && fast__clock_thread_ns() - start < BUSY_NS_MAX; round++)
        for (int i = 0; i < METHODS; i++) {
            fast_gemm trial = *gemm;
            float *left = memory, *right = left + a, *to = right + b;
            trial.method = (fast_gemm_method)i;
            if (!can_run(&trial))
                continue;
            const int64_t from = fast__clock_thread_ns();
            if (gemm->positions > 1) {
                fast__gemm_pack(&trial, right, to + c);
                fast__gemm_sequence(&trial, count, left, right, to + c, to);
            } else
                fast__gemm_run(&trial, left, right, to);
            const int64_t took = fast__clock_thread_ns() - from;
            best[i] = took < best[i] ? took : best[i];
        }
    fast__free(memory);
    for (int i = 0; i < METHODS; i++)
        if (best[i] < best[gemm->method])
            gemm->method = (fast_gemm_method)i;
    return FAST_OK;
}

/* Small products take the default; so do builds that have no other. */
fast_err fast__gemm_choose(fast_gemm *gemm, fast_conv_plan *plan)
{
    char key[KEY_MAX], machine[KEY_MAX / 2];
    /* Of a sequence a block or two are measured: as many rows as a large matrix has. */
    const int64_t most = (MEASURED_ROWS + gemm->m - 1) / gemm->m;
    const int64_t count = gemm->positions <= 1     ? 1
                          : gemm->positions < most ? gemm->positions
                                                   : most;

    fast__gemm_init(gemm);
    if (count * gemm->m * gemm->n * gemm->k < SMALL)
        return FAST_OK;
    fast__gemm_machine(machine, sizeof machine);
    snprintf(key, sizeof key, "gemm 3 %lldx %dx%dx%d ld %d %d %d trans %d add %d %s",
             (long long)count, gemm->m, gemm->n, gemm->k, gemm->lda, gemm->ldb, gemm->ldc,
             gemm->trans_b, gemm->accumulate, machine);
    const char *choice = plan ? fast__plan_get(plan, key) : NULL;
    for (int i = 0; choice && i < METHODS; i++) {
        fast_gemm trial = *gemm;
        trial.method = (fast_gemm_method)i;
        if (strcmp(choice, names[i]) != 0 || !can_run(&trial))
            continue;
        gemm->method = trial.method;
        return FAST_OK;
    }
    FAST_TRY(measure(gemm, count));
    return plan ? fast__plan_put(plan, key, fast__gemm_name(gemm)) : FAST_OK;
}
