/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A convolution: the methods chosen for its shape, and the passes through them. The choice is read
 * from the plan, or measured (conv_choose.c) and stored there, under a key of the shape, the
 * instruction set and the versions of the libraries. It is written "forward / data / weights", or
 * as one name if one method does all three.
 */
#include "engine/cpu/conv.h"

#include "base/log.h"
#include "base/memory.h"
#include "base/option.h"
#include "engine/cpu/conv_kernels.h"
#include "engine/cpu/conv_method.h"
#include "engine/cpu/gemm.h"

#include <stdio.h>
#include <string.h>

const fast_conv_method *const fast__conv_registry[] = {
#ifdef FAST_HAVE_XSMM
    &fast__conv_xsmm,
#endif
    &fast__conv_im2col,
    &fast__conv_winograd_2x2_3x3,
    &fast__conv_winograd_4x4_3x3,
    &fast__conv_winograd_6x6_3x3,
    &fast__conv_winograd_2x2_5x5,
    &fast__conv_winograd_4x4_5x5,
#ifdef FAST_HAVE_ONEDNN
    &fast__conv_onednn,
    &fast__conv_onednn_winograd,
#endif
    NULL,
};
enum {
    METHODS = sizeof fast__conv_registry / sizeof fast__conv_registry[0] - 1,
    DESCRIBE_MAX = 128, /* bytes of a choice's text */
    KEY_MAX = 512       /* bytes of a plan's key */
};
_Static_assert((int)METHODS <= (int)FAST_CONV_METHODS_MAX, "room to compare all methods");

/* Names that other builds have, so that a missing method is not reported as an unknown one. */
static const char *const optional_names[] = { "xsmm", "onednn", "onednn_winograd" };

struct fast_conv {
    fast_conv_shape shape;                            /* sizes that the caller asked for */
    const fast_conv_method *method[FAST_CONV_PASSES]; /* by pass; may repeat */
    void *self[FAST_CONV_PASSES]; /* by pass; shared by passes with the same method */
    int64_t scratch;              /* floats: the most that any pass needs */
    char describe[DESCRIBE_MAX];  /* for fast__conv_describe() */
};

/* The objects of one workspace, by pass, shared like `self` of the convolution. */
typedef struct conv_local {
    void *of[FAST_CONV_PASSES]; /* by pass; NULL if the method has none */
} conv_local;

/* Name of method `i`, for fast__name_find(). */
static const char *method_name(const void *ctx, int64_t i)
{
    (void)ctx;
    return fast__conv_registry[i]->name;
}

const char *const *fast__conv_methods(void)
{
    static const char *const names[] = {
#ifdef FAST_HAVE_XSMM
        "xsmm",
#endif
        "im2col",
        "winograd_2x2_3x3",
        "winograd_4x4_3x3",
        "winograd_6x6_3x3",
        "winograd_2x2_5x5",
        "winograd_4x4_5x5",
#ifdef FAST_HAVE_ONEDNN
        "onednn",
        "onednn_winograd",
#endif
        NULL,
    };
    _Static_assert(sizeof names / sizeof names[0] == METHODS + 1, "a name for every method");
    return names;
}

/* The kernels of the instruction set that FAST_ISA or the processor allows. */
const fast_conv_kernels *fast__conv_kernels(void)
{
    const fast_isa isa = fast__isa();
    return FAST_KERNELS_PICK(conv, isa);
}

/* Assert that sizes, strides and padding fit each other. */
static void check_shape(const fast_conv_shape *s)
{
    FAST_ASSERT(s->in_c > 0 && s->out_c > 0 && s->groups > 0);
    FAST_ASSERT(s->in_c % s->groups == 0 && s->out_c % s->groups == 0);
    FAST_ASSERT(s->lanes > 0 && s->lanes % FAST_VEC == 0);
    for (int axis = 0; axis < 2; axis++) {
        const int64_t in = axis == 0 ? s->in_h : s->in_w, out = axis == 0 ? s->out_h : s->out_w;
        const int64_t span = s->dilation[axis] * (s->kernel[axis] - 1) + 1;
        FAST_ASSERT(s->stride[axis] > 0 && s->dilation[axis] > 0 && s->pad[axis] >= 0);
        FAST_ASSERT(in + 2 * s->pad[axis] >= span);
        FAST_ASSERT(out == (in + 2 * s->pad[axis] - span) / s->stride[axis] + 1);
    }
}

/* Find a method by name. FAST_ENOTSUP if this build lacks it, FAST_EINVAL if it is unknown. */
static fast_err find_method(const char *name, const fast_conv_method **out)
{
    const int64_t i = fast__name_find(name, method_name, NULL, METHODS, NULL);
    if (i >= 0) {
        *out = fast__conv_registry[i];
        return FAST_OK;
    }
    for (size_t k = 0; k < sizeof optional_names / sizeof optional_names[0]; k++)
        if (strcmp(name, optional_names[k]) == 0)
            return fast__fail(FAST_ENOTSUP,
                              "convolution method \"%s\" is not in this build; install its library "
                              "and configure again",
                              name);
    return fast__name_unknown("convolution method", name, method_name, NULL, METHODS);
}

/* Accept NULL and the names that this build has. */
fast_err fast__conv_method_check(const char *name)
{
    const fast_conv_method *method = NULL;
    return name ? find_method(name, &method) : FAST_OK;
}

/* Write everything that a choice depends on. Increment the number after "conv" when methods
 * change. */
static void plan_key(const fast_conv_shape *s, char key[KEY_MAX])
{
    char machine[KEY_MAX / 2];
    fast__gemm_machine(machine, sizeof machine);
    snprintf(key, KEY_MAX,
             "conv 6 in %lldx%lldx%lld out %lldx%lldx%lld kernel %lldx%lld stride %lldx%lld "
             "pad %lldx%lld dilation %lldx%lld groups %lld lanes %lld train %d data %d %s",
             (long long)s->in_c, (long long)s->in_h, (long long)s->in_w, (long long)s->out_c,
             (long long)s->out_h, (long long)s->out_w, (long long)s->kernel[0],
             (long long)s->kernel[1], (long long)s->stride[0], (long long)s->stride[1],
             (long long)s->pad[0], (long long)s->pad[1], (long long)s->dilation[0],
             (long long)s->dilation[1], (long long)s->groups, (long long)s->lanes, s->train,
             s->data, machine);
}

/* Parse "a / b / c" or "a"; false if a method is missing in this build or does not fit the
 * shape. */
static bool parse_choice(const char *text, const fast_conv_shape *shape,
                         const fast_conv_method *best[FAST_CONV_PASSES])
{
    char copy[DESCRIBE_MAX];
    if (!text || snprintf(copy, sizeof copy, "%s", text) >= (int)sizeof copy)
        return false;
    int count = 0;
    for (char *name = copy; name; count++) {
        char *next = strstr(name, " / ");
        if (next)
            *next = '\0';
        const int64_t i = fast__name_find(name, method_name, NULL, METHODS, NULL);
        if (i < 0 || count == FAST_CONV_PASSES || !fast__conv_registry[i]->fits(shape))
            return false;
        best[count] = fast__conv_registry[i];
        name = next ? next + 3 : NULL;
    }
    if (count == 1)
        best[FAST_CONV_DATA] = best[FAST_CONV_WEIGHTS] = best[FAST_CONV_FORWARD];
    return count == 1 || count == FAST_CONV_PASSES;
}

/* Write the choice as parse_choice() reads it. */
static void write_choice(const fast_conv_method *const best[FAST_CONV_PASSES],
                         char text[DESCRIBE_MAX])
{
    if (best[0] == best[1] && best[1] == best[2])
        snprintf(text, DESCRIBE_MAX, "%s", best[0]->name);
    else
        snprintf(text, DESCRIBE_MAX, "%s / %s / %s", best[FAST_CONV_FORWARD]->name,
                 best[FAST_CONV_DATA]->name, best[FAST_CONV_WEIGHTS]->name);
}

/* Choose the methods: the forced one, the plan's, or the fastest by measurement. */
static fast_err pick(const fast_conv_shape *shape, fast_conv_plan *plan, const char *name,
                     const fast_conv_method *best[FAST_CONV_PASSES])
{
    char key[KEY_MAX], text[DESCRIBE_MAX];
    if (name) {
        const fast_conv_method *method = NULL;
        FAST_TRY(find_method(name, &method));
        if (!method->fits(shape))
            return fast__fail(FAST_ENOTSUP,
                              "convolution method \"%s\" cannot do a %lldx%lld kernel with stride "
                              "%lld, dilation %lld, %lld groups",
                              name, (long long)shape->kernel[0], (long long)shape->kernel[1],
                              (long long)shape->stride[0], (long long)shape->dilation[0],
                              (long long)shape->groups);
        best[0] = best[1] = best[2] = method;
        return FAST_OK;
    }
    plan_key(shape, key);
    if (plan && parse_choice(fast__plan_get(plan, key), shape, best))
        return FAST_OK;
    fast__log(FAST_LOG_INFO, "measuring this machine's fastest convolutions, once");
    FAST_TRY(fast__conv_choose(shape, best));
    write_choice(best, text);
    return plan ? fast__plan_put(plan, key, text) : FAST_OK;
}

/* Return the first pass that uses the method of this pass. */
static int shared_with(const fast_conv *conv, int pass)
{
    int first = 0;
    while (conv->method[first] != conv->method[pass])
        first++;
    return first;
}

/* Take the choice from the caller, the plan or a measurement, in that order; a choice of the
 * plan that no longer opens is measured again. */
fast_err fast__conv_new(const fast_conv_shape *shape, fast_conv_plan *plan, const char *method,
                        fast_conv **out)
{
    fast_conv *conv;
    check_shape(shape);
    fast__gemm_setup();
    FAST_TRY(fast__alloc("a convolution", 1, sizeof *conv, &conv));
    conv->shape = *shape;
    fast_err err = pick(shape, plan, method, conv->method);
    for (int pass = 0; pass < FAST_CONV_PASSES && !err; pass++) {
        const int first = shared_with(conv, pass);
        if (first < pass)
            conv->self[pass] = conv->self[first];
        else
            err = conv->method[pass]->open(shape, &conv->self[pass]);
        if (!err && conv->method[pass]->scratch(conv->self[pass]) > conv->scratch)
            conv->scratch = conv->method[pass]->scratch(conv->self[pass]);
    }
    if (err) {
        fast__conv_free(conv);
        return err;
    }
    write_choice(conv->method, conv->describe);
    *out = conv;
    return FAST_OK;
}

/* Close each method once, although passes may share it. */
void fast__conv_free(fast_conv *conv)
{
    if (!conv)
        return;
    for (int pass = 0; pass < FAST_CONV_PASSES; pass++)
        if (conv->self[pass] && shared_with(conv, pass) == pass)
            conv->method[pass]->close(conv->self[pass]);
    fast__free(conv);
}

/* The text was made when the method was chosen. */
const char *fast__conv_describe(const fast_conv *conv)
{
    return conv->describe;
}

/* The most that any pass needs: passes do not run at once. */
int64_t fast__conv_scratch_count(const fast_conv *conv)
{
    return conv->scratch;
}

/* One object for each method that needs one; passes with a method share its object. */
fast_err fast__conv_local_new(const fast_conv *conv, void **out)
{
    conv_local *local;
    FAST_TRY(fast__alloc("a convolution's workspace", 1, sizeof *local, &local));
    for (int pass = 0; pass < FAST_CONV_PASSES; pass++) {
        const int first = shared_with(conv, pass);
        fast_err err = FAST_OK;
        if (first < pass)
            local->of[pass] = local->of[first];
        else if (conv->method[pass]->local_open)
            err = conv->method[pass]->local_open(conv->self[pass], &local->of[pass]);
        if (err) {
            fast__conv_local_free(conv, local);
            return err;
        }
    }
    *out = local;
    return FAST_OK;
}

/* Free each object once. */
void fast__conv_local_free(const fast_conv *conv, void *memory)
{
    conv_local *local = memory;
    if (!local)
        return;
    for (int pass = 0; pass < FAST_CONV_PASSES; pass++)
        if (local->of[pass] && shared_with(conv, pass) == pass)
            conv->method[pass]->local_close(local->of[pass]);
    fast__free(local);
}

/* Run one pass with the objects of its own method. */
static void run_pass(const fast_conv *conv, int pass, const fast_conv_io *io)
{
    const conv_local *local = io->local;
    fast_conv_io own = *io;
    own.local = local ? local->of[pass] : NULL;
    if (pass == FAST_CONV_FORWARD)
        conv->method[pass]->forward(conv->self[pass], &own);
    else
        conv->method[pass]->backward(conv->self[pass], &own);
}

/* Run the method that was chosen for the forward pass. */
void fast__conv_forward(const fast_conv *conv, const fast_conv_io *io)
{
    run_pass(conv, FAST_CONV_FORWARD, io);
}

/* Run both gradients in one call where one method computes them; else the input's first, because
 * it reads w. */
void fast__conv_backward(const fast_conv *conv, const fast_conv_io *io)
{
    FAST_ASSERT(conv->shape.train);
    FAST_ASSERT(!io->dx || conv->shape.data);
    if (conv->method[FAST_CONV_DATA] == conv->method[FAST_CONV_WEIGHTS] || !io->dx) {
        run_pass(conv, FAST_CONV_WEIGHTS, io);
        return;
    }
    fast_conv_io one = *io;
    one.dw = NULL;
    run_pass(conv, FAST_CONV_DATA, &one);
    if (!io->dw)
        return;
    one = *io;
    one.dx = NULL;
    run_pass(conv, FAST_CONV_WEIGHTS, &one);
}
