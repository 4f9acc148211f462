/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Question: how fast is each convolution method on the layers of lenet and resnet8, batch 64, one
 * thread? Prints microseconds of the thread and GFLOP/s by the textbook's operations (2 C O K K H W
 * a sample) for the forward pass, each gradient, and both gradients together. The bound is the
 * core's peak (vector lanes x 2 x frequency) for direct methods; Winograd's may exceed it by its
 * savings.
 *
 * Usage: bench_conv [method] [layer]
 */
#include "engine/cpu/conv.h"
#include "base/memory.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

typedef struct layer {
    const char *name;
    int64_t in_c, in, out_c, kernel, stride, pad;
    bool first; /* no gradient of the input */
} layer;

static const layer layers[] = {
    { "lenet1", 1, 28, 20, 5, 1, 0, true },       { "lenet2", 20, 12, 50, 5, 1, 0, false },
    { "resnet0", 1, 28, 16, 3, 1, 1, true },      { "resnet16", 16, 28, 16, 3, 1, 1, false },
    { "resnet16/2", 16, 28, 32, 3, 2, 1, false }, { "resnet32", 32, 14, 32, 3, 1, 1, false },
    { "resnet32/2", 32, 14, 64, 3, 2, 1, false }, { "resnet64", 64, 7, 64, 3, 1, 1, false },
    { "short16", 16, 28, 32, 1, 2, 0, false },    { "short32", 32, 14, 64, 1, 2, 0, false },
};

enum { ROUNDS = 31 };

static float *take(int64_t count)
{
    float *memory;
    if (fast__alloc("a benchmark", count, sizeof *memory, &memory) != FAST_OK) {
        fprintf(stderr, "bench_conv: %s\n", fast_error_detail());
        exit(1);
    }
    for (int64_t i = 0; i < count; i++)
        memory[i] = (float)((uint32_t)i * 2654435761u >> 8) * 0x1p-24f - 0.5f;
    return memory;
}

/* Return the processor time of this thread, which other programs do not add to. */
static int64_t busy_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

static int compare(const void *a, const void *b)
{
    const int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

/* Least microseconds (what disturbs only ever adds) of a pass (3: both gradients). */
static void measure(const fast_conv *conv, fast_conv_io io, double us[4])
{
    int64_t time[4][ROUNDS];
    float *const dx = io.dx, *const dw = io.dw;
    for (int round = -2; round < ROUNDS; round++) {
        for (int pass = 0; pass < 4; pass++) {
            if (!dx && (pass == 1 || pass == 3))
                continue;
            io.dx = pass == 2 ? NULL : dx;
            io.dw = pass == 1 ? NULL : dw;
            const int64_t start = busy_ns();
            if (pass == 0)
                fast__conv_forward(conv, &io);
            else
                fast__conv_backward(conv, &io);
            if (round >= 0)
                time[pass][round] = busy_ns() - start;
        }
    }
    for (int pass = 0; pass < 4; pass++) {
        us[pass] = 0;
        if (!dx && (pass == 1 || pass == 3))
            continue;
        qsort(time[pass], ROUNDS, sizeof time[pass][0], compare);
        us[pass] = (double)time[pass][0] / 1e3;
    }
}

static void bench(const layer *l, const char *method)
{
    const int64_t out = (l->in + 2 * l->pad - l->kernel) / l->stride + 1;
    const fast_conv_shape s = { .in_c = l->in_c,
                                .in_h = l->in,
                                .in_w = l->in,
                                .out_c = l->out_c,
                                .out_h = out,
                                .out_w = out,
                                .kernel = { l->kernel, l->kernel },
                                .stride = { l->stride, l->stride },
                                .pad = { l->pad, l->pad },
                                .dilation = { 1, 1 },
                                .groups = 1,
                                .lanes = 64,
                                .train = true,
                                .data = !l->first };
    fast_conv *conv;
    if (fast__conv_new(&s, NULL, method, &conv) != FAST_OK)
        return;
    void *local = NULL;
    fast_conv_io io = { .x = take(l->in * l->in * l->in_c * s.lanes),
                        .w = take(l->out_c * l->in_c * l->kernel * l->kernel),
                        .y = take(out * out * l->out_c * s.lanes),
                        .dy = take(out * out * l->out_c * s.lanes),
                        .dw = take(l->out_c * l->in_c * l->kernel * l->kernel),
                        .scratch = take(fast__conv_scratch_count(conv)) };
    if (s.data)
        io.dx = take(l->in * l->in * l->in_c * s.lanes);
    if (fast__conv_local_new(conv, &local) != FAST_OK)
        exit(1);
    io.local = local;
    double us[4];
    measure(conv, io, us);
    const double gflop =
        2e-9 * (double)(l->in_c * l->out_c * l->kernel * l->kernel * out * out * s.lanes);
    printf("%-11s %-16s", l->name, method ? method : fast__conv_describe(conv));
    for (int pass = 0; pass < 4; pass++)
        printf(us[pass] > 0 ? "  %7.0f us %6.1f" : "        -         -", us[pass],
               gflop * (pass == 3 ? 2 : 1) / us[pass] * 1e6);
    printf("\n");
    fflush(stdout);
    fast__conv_local_free(conv, local);
    fast__conv_free(conv);
    fast__free((void *)(uintptr_t)io.x);
    fast__free((void *)(uintptr_t)io.w);
    fast__free((void *)(uintptr_t)io.dy);
    fast__free(io.y);
    fast__free(io.dx);
    fast__free(io.dw);
    fast__free(io.scratch);
}

int main(int argc, char **argv)
{
    const char *method = argc > 1 && strcmp(argv[1], "all") != 0 ? argv[1] : NULL;
    const char *only = argc > 2 ? argv[2] : NULL;
    printf("%-11s %-16s  %17s  %17s  %17s  %17s\n", "layer", "method", "forward GFLOP/s",
           "data GFLOP/s", "weights GFLOP/s", "both GFLOP/s");
    for (size_t i = 0; i < sizeof layers / sizeof layers[0]; i++) {
        if (only && strcmp(only, layers[i].name) != 0)
            continue;
        if (method) {
            bench(&layers[i], strcmp(method, "auto") == 0 ? NULL : method);
            continue;
        }
        for (const char *const *name = fast__conv_methods(); *name; name++)
            bench(&layers[i], *name);
        bench(&layers[i], NULL);
    }
    return 0;
}
