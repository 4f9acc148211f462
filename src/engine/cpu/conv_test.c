/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Goal: every convolution method computes what the definition says, for every shape that it
 * accepts. Method: fixed corner shapes and random ones (odd sizes, strides, dilation, groups,
 * padding, one channel, 1x1 kernels, 16 to 80 lanes), forward with bias and ReLU, gradient of the
 * input and of the weights, together and alone, against loops in double precision; twice to the
 * bit. Then the choice: forced names, names that do not exist, choices read from a plan, and memory
 * that runs out.
 */
#include "engine/cpu/conv.h"
#include "engine/cpu/conv_method.h"

#include "base/file.h"
#include "base/hash.h"
#include "base/memory.h"
#include "base/rng.h"
#include "engine/cpu/simd.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

typedef struct problem {
    fast_conv_shape s;
    int64_t in, out, weights; /* floats */
    float *x, *dy, *w, *bias;
    double *y, *dx, *dw; /* the truth */
} problem;

static fast_conv_shape shape(int64_t in_c, int64_t in_h, int64_t in_w, int64_t out_c,
                             int64_t kernel, int64_t stride, int64_t pad, int64_t dilation,
                             int64_t groups, int64_t lanes)
{
    const int64_t span = dilation * (kernel - 1) + 1;
    return (fast_conv_shape){
        .in_c = in_c,
        .in_h = in_h,
        .in_w = in_w,
        .out_c = out_c,
        .out_h = (in_h + 2 * pad - span) / stride + 1,
        .out_w = (in_w + 2 * pad - span) / stride + 1,
        .kernel = { kernel, kernel },
        .stride = { stride, stride },
        .pad = { pad, pad },
        .dilation = { dilation, dilation },
        .groups = groups,
        .lanes = lanes,
        .train = true,
        .data = true,
    };
}

static void *take(int64_t count, size_t size)
{
    void *memory;
    assert_int_equal(fast__alloc("a test", count, size, &memory), FAST_OK);
    return memory;
}

/* Visit every product x[in] w[weight] that adds to y[out]. */
typedef void visit_fn(problem *p, int64_t in, int64_t weight, int64_t out);
static void visit_taps(problem *p, int64_t y, int64_t x, int64_t o, visit_fn *visit)
{
    const fast_conv_shape *s = &p->s;
    const int64_t in_g = s->in_c / s->groups, out_g = s->out_c / s->groups;
    for (int64_t c = 0; c < in_g; c++) {
        for (int64_t ky = 0; ky < s->kernel[0]; ky++) {
            for (int64_t kx = 0; kx < s->kernel[1]; kx++) {
                const int64_t iy = y * s->stride[0] + ky * s->dilation[0] - s->pad[0];
                const int64_t ix = x * s->stride[1] + kx * s->dilation[1] - s->pad[1];
                if (iy < 0 || iy >= s->in_h || ix < 0 || ix >= s->in_w)
                    continue;
                const int64_t ic = o / out_g * in_g + c;
                visit(p, ((iy * s->in_w + ix) * s->in_c + ic) * s->lanes,
                      ((o * in_g + c) * s->kernel[0] + ky) * s->kernel[1] + kx,
                      ((y * s->out_w + x) * s->out_c + o) * s->lanes);
            }
        }
    }
}

static void add_product(problem *p, int64_t in, int64_t weight, int64_t out)
{
    const double w = p->w[weight];
    double dw = 0;
    for (int64_t l = 0; l < p->s.lanes; l++) {
        p->y[out + l] += w * p->x[in + l];
        p->dx[in + l] += w * p->dy[out + l];
        dw += (double)p->x[in + l] * p->dy[out + l];
    }
    p->dw[weight] += dw;
}

static void problem_open(problem *p, const fast_conv_shape *s, uint64_t seed)
{
    fast_rng rng;
    fast__rng_init(&rng, seed, FAST_PURPOSE_TEST, 0, 0, 0);
    *p = (problem){ .s = *s };
    p->in = s->in_h * s->in_w * s->in_c * s->lanes;
    p->out = s->out_h * s->out_w * s->out_c * s->lanes;
    p->weights = s->out_c * (s->in_c / s->groups) * s->kernel[0] * s->kernel[1];
    p->x = take(p->in, sizeof(float));
    p->dy = take(p->out, sizeof(float));
    p->w = take(p->weights, sizeof(float));
    p->bias = take(s->out_c, sizeof(float));
    p->y = take(p->out, sizeof(double));
    p->dx = take(p->in, sizeof(double));
    p->dw = take(p->weights, sizeof(double));
    for (int64_t i = 0; i < p->in; i++)
        p->x[i] = fast__rng_uniform(&rng) * 2 - 1;
    for (int64_t i = 0; i < p->out; i++)
        p->dy[i] = fast__rng_uniform(&rng) * 2 - 1;
    for (int64_t i = 0; i < p->weights; i++)
        p->w[i] = fast__rng_uniform(&rng) * 2 - 1;
    for (int64_t i = 0; i < s->out_c; i++)
        p->bias[i] = fast__rng_uniform(&rng) * 2 - 1;
    for (int64_t y = 0; y < s->out_h; y++)
        for (int64_t x = 0; x < s->out_w; x++)
            for (int64_t o = 0; o < s->out_c; o++)
                visit_taps(p, y, x, o, add_product);
}

static void problem_close(problem *p)
{
    fast__free(p->x);
    fast__free(p->dy);
    fast__free(p->w);
    fast__free(p->bias);
    fast__free(p->y);
    fast__free(p->dx);
    fast__free(p->dw);
}

/* The largest difference, relative to the largest value. */
static double difference(const float *got, const double *want, int64_t count)
{
    double worst = 0, largest = 1e-30;
    for (int64_t i = 0; i < count; i++) {
        const double d = fabs((double)got[i] - want[i]);
        worst = d > worst || d != d ? d : worst;
        largest = fabs(want[i]) > largest ? fabs(want[i]) : largest;
    }
    return worst / largest;
}

static double tolerance(const char *method)
{
    if (strstr(method, "winograd"))
        return strstr(method, "4x4_5x5") || strstr(method, "6x6") ? 1e-4 : 1e-5;
    return strstr(method, "onednn") ? 1e-5 : 2e-6; /* it sums in longer chains */
}

/* All outputs of one method for one problem. */
typedef struct results {
    float *y, *relu, *dx, *dw;
} results;

static void compute(const problem *p, const fast_conv *conv, const results *r)
{
    float *scratch = take(fast__conv_scratch_count(conv), sizeof(float));
    /* Nothing may depend on what scratch and outputs held before. */
    memset(scratch, 0x7f, (size_t)fast__conv_scratch_count(conv) * sizeof(float));
    memset(r->y, 0x7f, (size_t)p->out * sizeof(float));
    memset(r->dx, 0x7f, (size_t)p->in * sizeof(float));
    memset(r->dw, 0x7f, (size_t)p->weights * sizeof(float));
    void *local;
    assert_int_equal(fast__conv_local_new(conv, &local), FAST_OK);
    fast_conv_io io = { .local = local,
                        .scratch = scratch,
                        .x = p->x,
                        .w = p->w,
                        .bias = p->bias,
                        .relu = true,
                        .y = r->relu,
                        .dy = p->dy,
                        .dx = p->s.data ? r->dx : NULL,
                        .dw = r->dw };
    fast__conv_forward(conv, &io);
    io.bias = NULL;
    io.relu = false;
    io.y = r->y;
    fast__conv_forward(conv, &io);
    fast__conv_backward(conv, &io);
    fast__conv_local_free(conv, local);
    fast__free(scratch);
}

static void results_open(results *r, const problem *p)
{
    r->y = take(p->out, sizeof(float));
    r->relu = take(p->out, sizeof(float));
    r->dx = take(p->in, sizeof(float));
    r->dw = take(p->weights, sizeof(float));
}

static void results_close(results *r)
{
    fast__free(r->y);
    fast__free(r->relu);
    fast__free(r->dx);
    fast__free(r->dw);
}

static void check_relu(const problem *p, const results *r, double limit)
{
    const int64_t lanes = p->s.lanes, out_c = p->s.out_c;
    for (int64_t i = 0; i < p->out; i++) {
        double want = p->y[i] + p->bias[i / lanes % out_c];
        want = want > 0 ? want : 0;
        assert_true(fabs(r->relu[i] - want) <= limit * 100 * (1 + fabs(want)));
    }
}

static void check_method(problem *p, const char *method)
{
    fast_conv *conv;
    const fast_err err = fast__conv_new(&p->s, NULL, method, &conv);
    if (err == FAST_ENOTSUP)
        return;
    assert_int_equal(err, FAST_OK);
    assert_string_equal(fast__conv_describe(conv), method);
    results one, two;
    results_open(&one, p);
    results_open(&two, p);
    compute(p, conv, &one);
    compute(p, conv, &two);
    const double y = difference(one.y, p->y, p->out);
    const double dx = p->s.data ? difference(one.dx, p->dx, p->in) : 0;
    const double dw = difference(one.dw, p->dw, p->weights);
    const double limit = tolerance(method);
    if (!(y < limit && dx < limit && dw < limit))
        fail_msg("%s: %lldx%lldx%lld -> %lld kernel %lldx%lld stride %lld,%lld pad %lld,%lld "
                 "dilation %lld,%lld groups %lld lanes %lld: errors %g %g %g",
                 method, (long long)p->s.in_c, (long long)p->s.in_h, (long long)p->s.in_w,
                 (long long)p->s.out_c, (long long)p->s.kernel[0], (long long)p->s.kernel[1],
                 (long long)p->s.stride[0], (long long)p->s.stride[1], (long long)p->s.pad[0],
                 (long long)p->s.pad[1], (long long)p->s.dilation[0], (long long)p->s.dilation[1],
                 (long long)p->s.groups, (long long)p->s.lanes, y, dx, dw);
    check_relu(p, &one, limit);
    assert_memory_equal(one.y, two.y, (size_t)p->out * sizeof(float));
    assert_memory_equal(one.dx, two.dx, (size_t)p->in * sizeof(float));
    assert_memory_equal(one.dw, two.dw, (size_t)p->weights * sizeof(float));
    results_close(&one);
    results_close(&two);
    fast__conv_free(conv);
}

static void check_shape(const fast_conv_shape *s, uint64_t seed)
{
    problem p;
    problem_open(&p, s, seed);
    for (const char *const *name = fast__conv_methods(); *name; name++)
        check_method(&p, *name);
    problem_close(&p);
}

static void corner_shapes(void **state)
{
    (void)state;
    const fast_conv_shape shapes[] = {
        shape(1, 12, 12, 5, 5, 1, 0, 1, 1, 64),  /* first layer */
        shape(4, 12, 12, 10, 5, 1, 0, 1, 1, 32), /* whole tiles of 4x4 */
        shape(3, 7, 7, 6, 3, 1, 1, 1, 1, 16),    /* odd size, padded */
        shape(5, 9, 6, 7, 5, 1, 2, 1, 1, 16),    /* oblong */
        shape(6, 8, 8, 9, 3, 2, 1, 1, 1, 80),    /* stride */
        shape(6, 8, 8, 9, 1, 2, 0, 1, 1, 32),    /* shortcut */
        shape(6, 5, 5, 4, 1, 1, 0, 1, 1, 16),    /* 1x1 */
        shape(4, 10, 10, 6, 3, 1, 2, 2, 2, 16),  /* dilation, groups */
        shape(6, 6, 6, 6, 3, 1, 1, 1, 6, 16),    /* one group a channel */
        shape(2, 3, 3, 2, 3, 1, 0, 1, 1, 16),    /* one output */
        shape(2, 1, 1, 3, 3, 1, 1, 1, 1, 16),    /* one input */
        shape(2, 4, 4, 3, 3, 1, 4, 1, 1, 16),    /* windows wholly outside */
        shape(2, 9, 9, 3, 2, 3, 0, 1, 1, 16),    /* inputs that no tap reaches */
        shape(2, 9, 9, 3, 3, 2, 1, 2, 1, 16),    /* stride and dilation with a common divisor */
        shape(17, 6, 6, 18, 3, 1, 1, 1, 1, 48),  /* one more than a vector */
        shape(9, 23, 25, 9, 3, 1, 1, 1, 1, 64),  /* images that a cache does not hold */
        shape(5, 37, 23, 5, 5, 1, 2, 1, 1, 64),  /* the same, 5x5 */
        shape(17, 23, 31, 5, 3, 2, 1, 1, 1, 64), /* the same, stride */
    };
    for (size_t i = 0; i < sizeof shapes / sizeof shapes[0]; i++)
        check_shape(&shapes[i], i);
}

/* Without the gradient of the input, where methods may go other ways. */
static void first_layers(void **state)
{
    (void)state;
    fast_conv_shape shapes[] = {
        shape(1, 12, 12, 6, 5, 1, 0, 1, 1, 64), shape(1, 13, 10, 7, 5, 1, 2, 1, 1, 48),
        shape(1, 9, 9, 5, 3, 1, 1, 1, 1, 80),   shape(1, 1, 5, 3, 3, 1, 1, 1, 1, 16),
        shape(3, 9, 9, 5, 3, 1, 1, 1, 1, 16),   shape(1, 9, 9, 5, 3, 2, 1, 1, 1, 16),
    };
    for (size_t i = 0; i < sizeof shapes / sizeof shapes[0]; i++) {
        shapes[i].data = false;
        check_shape(&shapes[i], i);
    }
}

#ifdef FAST_SLOW
enum { RANDOM_SHAPES = 15 };
#else
enum { RANDOM_SHAPES = 60 };
#endif

static void random_shapes(void **state)
{
    (void)state;
    fast_rng rng;
    fast__rng_init(&rng, 7, FAST_PURPOSE_TEST, 0, 0, 0);
    for (int done = 0; done < RANDOM_SHAPES;) {
        fast_conv_shape s = { .train = true, .data = true };
        s.groups = fast__rng_below(&rng, 4) ? 1 : 1 + (int64_t)fast__rng_below(&rng, 3);
        s.in_c = s.groups * (1 + (int64_t)fast__rng_below(&rng, 9));
        s.out_c = s.groups * (1 + (int64_t)fast__rng_below(&rng, 9));
        s.in_h = 1 + (int64_t)fast__rng_below(&rng, 14);
        s.in_w = 1 + (int64_t)fast__rng_below(&rng, 14);
        s.lanes = 16 * (1 + (int64_t)fast__rng_below(&rng, 3));
        const bool plain = fast__rng_below(&rng, 2); /* a shape that fits Winograd */
        const int64_t kernel = 3 + 2 * (int64_t)fast__rng_below(&rng, 2);
        for (int axis = 0; axis < 2; axis++) {
            s.kernel[axis] = plain ? kernel : 1 + (int64_t)fast__rng_below(&rng, 5);
            s.stride[axis] = plain ? 1 : 1 + (int64_t)fast__rng_below(&rng, 3);
            s.dilation[axis] = plain ? 1 : 1 + (int64_t)fast__rng_below(&rng, 3);
            s.pad[axis] = (int64_t)fast__rng_below(&rng, 4);
        }
        const int64_t span_y = s.dilation[0] * (s.kernel[0] - 1) + 1;
        const int64_t span_x = s.dilation[1] * (s.kernel[1] - 1) + 1;
        if (s.in_h + 2 * s.pad[0] < span_y || s.in_w + 2 * s.pad[1] < span_x)
            continue;
        s.out_h = (s.in_h + 2 * s.pad[0] - span_y) / s.stride[0] + 1;
        s.out_w = (s.in_w + 2 * s.pad[1] - span_x) / s.stride[1] + 1;
        check_shape(&s, (uint64_t)done + 100);
        done++;
    }
}

/* A gradient that is computed alone equals the one computed with the other. */
static void gradients_alone(void **state)
{
    (void)state;
    problem p;
    const fast_conv_shape s = shape(5, 9, 9, 6, 3, 1, 1, 1, 1, 16);
    problem_open(&p, &s, 3);
    for (const char *const *name = fast__conv_methods(); *name; name++) {
        fast_conv *conv;
        if (fast__conv_new(&s, NULL, *name, &conv) != FAST_OK)
            continue;
        results all, alone;
        results_open(&all, &p);
        results_open(&alone, &p);
        compute(&p, conv, &all);
        float *scratch = take(fast__conv_scratch_count(conv), sizeof(float));
        void *local;
        assert_int_equal(fast__conv_local_new(conv, &local), FAST_OK);
        fast_conv_io io = { .local = local, .scratch = scratch, .x = p.x, .w = p.w, .dy = p.dy };
        io.dx = alone.dx;
        fast__conv_backward(conv, &io);
        io.dx = NULL;
        io.dw = alone.dw;
        fast__conv_backward(conv, &io);
        assert_memory_equal(all.dx, alone.dx, (size_t)p.in * sizeof(float));
        assert_memory_equal(all.dw, alone.dw, (size_t)p.weights * sizeof(float));
        fast__conv_local_free(conv, local);
        fast__free(scratch);
        results_close(&all);
        results_close(&alone);
        fast__conv_free(conv);
    }
    problem_close(&p);
}

/* The accuracy that winograd.c promises, on layers of lenet and resnet8 (relative to the largest
 * value; forward, gradient of the input, of the weights). */
static void winograd_accuracy(void **state)
{
    (void)state;
    static const struct {
        const char *method;
        int64_t kernel;
        double limit;
    } promises[] = {
        { "winograd_2x2_3x3", 3, 5e-7 }, { "winograd_4x4_3x3", 3, 3e-6 },
        { "winograd_6x6_3x3", 3, 2e-5 }, { "winograd_2x2_5x5", 5, 5e-6 },
        { "winograd_4x4_5x5", 5, 2e-5 },
    };
    const fast_conv_shape shapes[] = { shape(16, 28, 28, 16, 3, 1, 1, 1, 1, 16),
                                       shape(64, 7, 7, 64, 3, 1, 1, 1, 1, 16),
                                       shape(20, 12, 12, 50, 5, 1, 0, 1, 1, 16) };
    for (size_t k = 0; k < sizeof shapes / sizeof shapes[0]; k++) {
        problem p;
        problem_open(&p, &shapes[k], k);
        for (size_t i = 0; i < sizeof promises / sizeof promises[0]; i++) {
            fast_conv *conv;
            results r;
            if (promises[i].kernel != shapes[k].kernel[0])
                continue;
            assert_int_equal(fast__conv_new(&shapes[k], NULL, promises[i].method, &conv), FAST_OK);
            results_open(&r, &p);
            compute(&p, conv, &r);
            const double errors[3] = { difference(r.y, p.y, p.out), difference(r.dx, p.dx, p.in),
                                       difference(r.dw, p.dw, p.weights) };
            print_message("%s, %lld channels: %.1e %.1e %.1e\n", promises[i].method,
                          (long long)shapes[k].in_c, errors[0], errors[1], errors[2]);
            for (int e = 0; e < 3; e++)
                assert_true(errors[e] < promises[i].limit);
            results_close(&r);
            fast__conv_free(conv);
        }
        problem_close(&p);
    }
}

static void names_and_fits(void **state)
{
    (void)state;
    const fast_conv_shape s = shape(4, 8, 8, 4, 3, 2, 1, 1, 1, 16);
    fast_conv *conv = NULL;
    assert_int_equal(fast__conv_new(&s, NULL, "im2cool", &conv), FAST_EINVAL);
    assert_non_null(strstr(fast_error_detail(), "im2col"));
    assert_null(conv);
    for (const char *const *name = fast__conv_methods(); *name; name++) {
        if (!strstr(*name, "winograd"))
            continue;
        assert_int_equal(fast__conv_new(&s, NULL, *name, &conv), FAST_ENOTSUP);
        assert_null(conv);
    }
    fast__conv_free(NULL);
}

/* A shape that was measured once is not measured again. */
static void plan_is_obeyed(void **state)
{
    (void)state;
    const fast_conv_shape s = shape(2, 6, 6, 3, 3, 1, 1, 1, 1, 16);
    fast_conv_plan *plan;
    fast_conv *conv;
    char first[256];
    assert_int_equal(fast__plan_open("", &plan), FAST_OK);
    assert_int_equal(fast__conv_new(&s, plan, NULL, &conv), FAST_OK);
    snprintf(first, sizeof first, "%s", fast__conv_describe(conv));
    fast__conv_free(conv);
    const uint64_t hash = fast__plan_hash(plan);
    assert_true(hash != 0);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(fast__conv_new(&s, plan, NULL, &conv), FAST_OK);
        assert_string_equal(fast__conv_describe(conv), first);
        fast__conv_free(conv);
    }
    fast__plan_close(plan);
}

/* Replace the file's only line by one with the same key and another choice. */
static void rewrite_choice(const char *path, const char *choice)
{
    char *text, pair[1024];
    size_t size;
    assert_int_equal(fast__file_read(path, 4096, &text, &size), FAST_OK);
    char *tab = strchr(text, '\t');
    assert_non_null(tab);
    *tab = '\0';
    snprintf(pair, sizeof pair, "%s\t%s", text + 17, choice); /* 16 digits and a space */
    fast__free(text);
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    fprintf(file, "%016llx %s\n", (unsigned long long)fast__hash(pair, strlen(pair), 0), pair);
    fclose(file);
}

static void describe_with_plan(const fast_conv_shape *s, const char *path, char text[256])
{
    fast_conv_plan *plan;
    fast_conv *conv;
    assert_int_equal(fast__plan_open(path, &plan), FAST_OK);
    assert_int_equal(fast__conv_new(s, plan, NULL, &conv), FAST_OK);
    snprintf(text, 256, "%s", fast__conv_describe(conv));
    fast__conv_free(conv);
    fast__plan_close(plan);
}

/* The file decides; what it cannot decide is measured; another instruction set is another key. */
static void plan_file_decides(void **state)
{
    (void)state;
    const fast_conv_shape s = shape(2, 6, 6, 3, 3, 2, 1, 1, 1, 16);
    char path[] = "/tmp/fast-conv-XXXXXX", lock[64], text[256];
    const int file = mkstemp(path);
    assert_true(file >= 0);
    close(file);
    describe_with_plan(&s, path, text);
    rewrite_choice(path, "im2col / im2col / im2col");
    describe_with_plan(&s, path, text);
    assert_string_equal(text, "im2col");
    static const char *const nonsense[] = { "im2cool", "im2col / im2col", "winograd_2x2_3x3", " / ",
                                            "im2col / im2col / im2col / im2col" };
    for (size_t i = 0; i < sizeof nonsense / sizeof nonsense[0]; i++) {
        rewrite_choice(path, nonsense[i]);
        describe_with_plan(&s, path, text);
        assert_string_not_equal(text, nonsense[i]);
    }
    rewrite_choice(path, "im2col");
    const fast_isa isa = fast__isa(); /* which the environment may have lowered */
    assert_int_equal(setenv("FAST_ISA", "base", 1), 0);
    describe_with_plan(&s, path, text);
    assert_int_equal(setenv("FAST_ISA", fast__isa_name(isa), 1), 0);
    char *all;
    size_t size, lines = 0;
    assert_int_equal(fast__file_read(path, 4096, &all, &size), FAST_OK);
    for (size_t i = 0; i < size; i++)
        lines += all[i] == '\n';
    fast__free(all);
    assert_int_equal(lines, isa == FAST_ISA_BASE ? 1 : 2);
    unlink(path);
    snprintf(lock, sizeof lock, "%s.lock", path);
    unlink(lock);
}

static void out_of_memory(void **state)
{
    (void)state;
    const fast_conv_shape s = shape(2, 6, 6, 3, 3, 1, 1, 1, 1, 16);
    const char *const *names = fast__conv_methods();
    for (int k = 0; k == 0 || names[k - 1]; k++) {
        const char *name = k == 0 ? NULL : names[k - 1]; /* NULL measures */
        for (int n = 0;; n++) {
            fast_conv *conv = NULL;
            fast_conv_plan *plan = NULL;
            void *local = NULL;
            fast__alloc_fail_after(n, true);
            fast_err err = fast__plan_open("", &plan);
            if (!err)
                err = fast__conv_new(&s, plan, name, &conv);
            if (!err)
                err = fast__conv_local_new(conv, &local);
            fast__alloc_fail_after(-1, true);
            if (!err || err == FAST_ENOTSUP) {
                fast__conv_local_free(conv, local);
                fast__conv_free(conv);
                fast__plan_close(plan);
                break;
            }
            assert_int_equal(err, FAST_ENOMEM);
            fast__conv_free(conv);
            fast__plan_close(plan);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(corner_shapes),     cmocka_unit_test(random_shapes),
        cmocka_unit_test(first_layers),      cmocka_unit_test(gradients_alone),
        cmocka_unit_test(winograd_accuracy), cmocka_unit_test(names_and_fits),
        cmocka_unit_test(plan_is_obeyed),    cmocka_unit_test(plan_file_decides),
        cmocka_unit_test(out_of_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
