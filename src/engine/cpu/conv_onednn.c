/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Convolution by oneDNN, direct and Winograd: for shapes where its own layouts win although the
 * tensors must be reordered. A pass is four primitives: reorder two inputs, convolve, reorder the
 * output. To oneDNN our tensors are N x C x H x W with the strides of [y][x][c][lanes].
 *
 * Primitives are shared by workspaces. Their scratchpads are ours, since the library's own belong
 * to the creating thread. Memory objects and the stream belong to one workspace.
 *
 *     x, w (ours) --reorder--> x, w (oneDNN's) --convolution--> y (oneDNN's) --reorder--> y (ours)
 *
 * A convolution owns primitives and layouts, a workspace the memory objects, which get their
 * addresses at each call; all memory is the caller's scratch.
 */
#include "engine/cpu/conv_method.h"

#ifdef FAST_HAVE_ONEDNN

#include "base/memory.h"
#include "engine/cpu/conv_kernels.h"
#include "engine/cpu/gemm.h"

#include <dnnl.h>
#include <string.h>

enum { IN_A, IN_B, OUT, TENSORS }; /* tensors of a pass */
enum { KIND_X, KIND_W, KIND_Y };   /* kinds of tensors */

/* The tensors of each pass, and oneDNN's names for them. */
static const struct {
    int kind[TENSORS];           /* kind of each tensor */
    int arg[TENSORS];            /* argument of the primitive */
    dnnl_query_t query[TENSORS]; /* query for the layout that oneDNN chose */
} passes[FAST_CONV_PASSES] = {
    [FAST_CONV_FORWARD] = { { KIND_X, KIND_W, KIND_Y },
                            { DNNL_ARG_SRC, DNNL_ARG_WEIGHTS, DNNL_ARG_DST },
                            { dnnl_query_src_md, dnnl_query_weights_md, dnnl_query_dst_md } },
    [FAST_CONV_DATA] = { { KIND_Y, KIND_W, KIND_X },
                         { DNNL_ARG_DIFF_DST, DNNL_ARG_WEIGHTS, DNNL_ARG_DIFF_SRC },
                         { dnnl_query_diff_dst_md, dnnl_query_weights_md,
                           dnnl_query_diff_src_md } },
    [FAST_CONV_WEIGHTS] = { { KIND_X, KIND_Y, KIND_W },
                            { DNNL_ARG_SRC, DNNL_ARG_DIFF_DST, DNNL_ARG_DIFF_WEIGHTS },
                            { dnnl_query_src_md, dnnl_query_diff_dst_md,
                              dnnl_query_diff_weights_md } },
};

/* The primitives of one pass. */
typedef struct onednn_pass {
    dnnl_primitive_t convolution;      /* the convolution itself */
    dnnl_primitive_t reorder[TENSORS]; /* of the inputs from our layout, of the output to it */
    dnnl_memory_desc_t own[TENSORS];   /* layouts that oneDNN chose */
    int64_t start[TENSORS];            /* offsets in the scratch memory, in floats */
    dnnl_memory_desc_t pad;            /* the convolution's scratchpad */
    dnnl_memory_desc_t reorder_pad[TENSORS]; /* the reorders' scratchpads, which share its memory */
    int64_t pad_start;                       /* offset of the scratchpads, in floats */
    bool open;                               /* the pass was compiled */
} onednn_pass;

/* A convolution, shared by workspaces. */
typedef struct conv_onednn {
    fast_conv_shape shape;              /* the convolution */
    const fast_conv_kernels *kernels;   /* for bias and relu */
    dnnl_engine_t engine;               /* oneDNN's handle of the processor */
    dnnl_memory_desc_t user[3];         /* our layouts, by kind */
    onednn_pass pass[FAST_CONV_PASSES]; /* by pass */
    int64_t scratch;                    /* floats of scratch memory */
} conv_onednn;

/* The objects of one workspace. */
typedef struct onednn_local {
    dnnl_stream_t stream; /* queue of the primitives */
    struct {
        dnnl_memory_t user[TENSORS], own[TENSORS], pad, reorder_pad[TENSORS];
    } pass[FAST_CONV_PASSES];
} onednn_local;

/* Turn oneDNN's status into an error; `what` names the object. */
static fast_err check(dnnl_status_t status, const char *what)
{
    if (status == dnnl_success)
        return FAST_OK;
    if (status == dnnl_out_of_memory)
        return fast__fail(FAST_ENOMEM, "no memory for oneDNN's %s", what);
    return fast__fail(FAST_ENOTSUP, "oneDNN has no %s for this shape", what);
}

/* Describe one of our tensors or, with `any`, let oneDNN choose the layout. */
static fast_err describe(const fast_conv_shape *s, int kind, bool any, dnnl_memory_desc_t *out)
{
    const int64_t g = s->groups, l = s->lanes;
    const bool grouped = g > 1, x = kind == KIND_X;
    const int64_t c = x ? s->in_c : s->out_c, w = x ? s->in_w : s->out_w;
    dnnl_dims_t dims = { l, c, x ? s->in_h : s->out_h, w };
    const dnnl_dims_t strides = { 1, l, w * c * l, c * l };
    const dnnl_dims_t filter = { s->out_c, s->in_c, s->kernel[0], s->kernel[1] };
    const dnnl_dims_t filters = { g, s->out_c / g, s->in_c / g, s->kernel[0], s->kernel[1] };
    const int count = kind == KIND_W && grouped ? 5 : 4;
    if (kind == KIND_W)
        memcpy(dims, grouped ? filters : filter, sizeof dims);
    if (any)
        return check(dnnl_memory_desc_init_by_tag(out, count, dims, dnnl_f32, dnnl_format_tag_any),
                     "layout");
    if (kind == KIND_W)
        return check(dnnl_memory_desc_init_by_tag(out, count, dims, dnnl_f32,
                                                  grouped ? dnnl_goihw : dnnl_oihw),
                     "layout");
    return check(dnnl_memory_desc_init_by_strides(out, count, dims, dnnl_f32, strides), "layout");
}

/* Make a convolution's descriptor; a backward pass needs the forward one as a hint. */
static fast_err make_desc(const conv_onednn *self, int pass, dnnl_alg_kind_t algorithm,
                          const_dnnl_primitive_desc_t hint, dnnl_primitive_attr_t attr,
                          dnnl_primitive_desc_t *out)
{
    const fast_conv_shape *s = &self->shape;
    const dnnl_dims_t stride = { s->stride[0], s->stride[1] }, pad = { s->pad[0], s->pad[1] };
    const dnnl_dims_t dilation = { s->dilation[0] - 1, s->dilation[1] - 1 };
    dnnl_memory_desc_t x, w, y;
    dnnl_convolution_desc_t desc;
    dnnl_status_t status;
    FAST_TRY(describe(s, KIND_X, true, &x));
    FAST_TRY(describe(s, KIND_W, true, &w));
    FAST_TRY(describe(s, KIND_Y, true, &y));
    if (pass == FAST_CONV_FORWARD)
        status = dnnl_dilated_convolution_forward_desc_init(
            &desc, s->train ? dnnl_forward_training : dnnl_forward_inference, algorithm, &x, &w,
            NULL, &y, stride, dilation, pad, pad);
    else if (pass == FAST_CONV_DATA)
        status = dnnl_dilated_convolution_backward_data_desc_init(&desc, algorithm, &x, &w, &y,
                                                                  stride, dilation, pad, pad);
    else
        status = dnnl_dilated_convolution_backward_weights_desc_init(
            &desc, algorithm, &x, &w, NULL, &y, stride, dilation, pad, pad);
    FAST_TRY(check(status, "convolution"));
    return check(dnnl_primitive_desc_create(out, &desc, attr, self->engine, hint), "convolution");
}

/* Floats of a tensor, rounded up to whole cache lines. */
static int64_t floats_of(const dnnl_memory_desc_t *desc)
{
    const int64_t line = FAST_ALIGN;
    return ((int64_t)dnnl_memory_desc_get_size(desc) + line - 1) / line * line /
           (int64_t)sizeof(float);
}

/* Make the primitives of one pass from its descriptor, and lay out its memory. */
static fast_err make_pass(conv_onednn *self, int index, const_dnnl_primitive_desc_t desc,
                          dnnl_primitive_attr_t attr)
{
    onednn_pass *pass = &self->pass[index];
    pass->open = true;
    FAST_TRY(check(dnnl_primitive_create(&pass->convolution, desc), "convolution"));
    pass->pad = *dnnl_primitive_desc_query_md(desc, dnnl_query_scratchpad_md, 0);
    int64_t at = 0, pad = floats_of(&pass->pad);
    for (int i = 0; i < TENSORS; i++) {
        const dnnl_memory_desc_t *user = &self->user[passes[index].kind[i]];
        dnnl_primitive_desc_t reorder;
        pass->own[i] = *dnnl_primitive_desc_query_md(desc, passes[index].query[i], 0);
        pass->start[i] = at;
        at += floats_of(&pass->own[i]);
        FAST_TRY(check(dnnl_reorder_primitive_desc_create(
                           &reorder, i == OUT ? &pass->own[i] : user, self->engine,
                           i == OUT ? user : &pass->own[i], self->engine, attr),
                       "reorder"));
        pass->reorder_pad[i] = *dnnl_primitive_desc_query_md(reorder, dnnl_query_scratchpad_md, 0);
        if (floats_of(&pass->reorder_pad[i]) > pad)
            pad = floats_of(&pass->reorder_pad[i]);
        const dnnl_status_t status = dnnl_primitive_create(&pass->reorder[i], reorder);
        dnnl_primitive_desc_destroy(reorder);
        FAST_TRY(check(status, "reorder"));
    }
    pass->pad_start = at;
    if (at + pad > self->scratch)
        self->scratch = at + pad;
    return FAST_OK;
}

/* Make the passes that the shape needs. */
static fast_err make_passes(conv_onednn *self, dnnl_alg_kind_t algorithm,
                            dnnl_primitive_attr_t attr)
{
    dnnl_primitive_desc_t hint;
    FAST_TRY(make_desc(self, FAST_CONV_FORWARD, algorithm, NULL, attr, &hint));
    fast_err err = make_pass(self, FAST_CONV_FORWARD, hint, attr);
    for (int i = FAST_CONV_DATA; i < FAST_CONV_PASSES && !err && self->shape.train; i++) {
        dnnl_primitive_desc_t desc;
        if (i == FAST_CONV_DATA && !self->shape.data)
            continue;
        err = make_desc(self, i, algorithm, hint, attr, &desc);
        if (!err) {
            err = make_pass(self, i, desc, attr);
            dnnl_primitive_desc_destroy(desc);
        }
    }
    dnnl_primitive_desc_destroy(hint);
    return err;
}

/* Destroy the primitives before their engine; oneDNN accepts NULL for each. */
static void onednn_close(void *memory)
{
    conv_onednn *self = memory;
    if (!self)
        return;
    for (int p = 0; p < FAST_CONV_PASSES; p++) {
        dnnl_primitive_destroy(self->pass[p].convolution);
        for (int i = 0; i < TENSORS; i++)
            dnnl_primitive_destroy(self->pass[p].reorder[i]);
    }
    dnnl_engine_destroy(self->engine);
    fast__free(self);
}

/* Open the convolution with one of oneDNN's algorithms. */
static fast_err open_with(const fast_conv_shape *shape, dnnl_alg_kind_t algorithm, void **out)
{
    conv_onednn *self;
    dnnl_primitive_attr_t attr = NULL;
    FAST_TRY(fast__alloc("a convolution", 1, sizeof *self, &self));
    self->shape = *shape;
    self->kernels = fast__conv_kernels();
    fast_err err = check(dnnl_engine_create(&self->engine, dnnl_cpu, 0), "engine");
    if (!err)
        err = check(dnnl_primitive_attr_create(&attr), "attributes");
    if (!err)
        err = check(dnnl_primitive_attr_set_scratchpad_mode(attr, dnnl_scratchpad_mode_user),
                    "scratchpad");
    for (int kind = KIND_X; kind <= KIND_Y && !err; kind++)
        err = describe(shape, kind, false, &self->user[kind]);
    if (!err)
        err = make_passes(self, algorithm, attr);
    dnnl_primitive_attr_destroy(attr);
    if (err) {
        onednn_close(self);
        return err;
    }
    *out = self;
    return FAST_OK;
}

/* Open with the direct algorithm. */
static fast_err onednn_open(const fast_conv_shape *shape, void **out)
{
    return open_with(shape, dnnl_convolution_direct, out);
}

/* Open with Winograd's algorithm; FAST_ENOTSUP where oneDNN has none. */
static fast_err onednn_winograd_open(const fast_conv_shape *shape, void **out)
{
    return open_with(shape, dnnl_convolution_winograd, out);
}

/* oneDNN counts in int; what else it cannot do shows when it is opened. */
static bool onednn_fits(const fast_conv_shape *shape)
{
    return shape->lanes < INT32_MAX;
}

/* oneDNN's Winograd is F(4x4, 3x3) at stride 1. */
static bool onednn_winograd_fits(const fast_conv_shape *s)
{
    for (int axis = 0; axis < 2; axis++)
        if (s->kernel[axis] != 3 || s->stride[axis] != 1 || s->dilation[axis] != 1 ||
            s->pad[axis] > 1)
            return false;
    return s->groups == 1;
}

/* All tensors in oneDNN's own layouts, and the largest scratchpad. */
static int64_t onednn_scratch(const void *memory)
{
    return ((const conv_onednn *)memory)->scratch;
}

/* Memory objects hold no memory: they are addresses and layouts. */
static void onednn_local_close(void *memory)
{
    onednn_local *local = memory;
    if (!local)
        return;
    for (int p = 0; p < FAST_CONV_PASSES; p++) {
        for (int i = 0; i < TENSORS; i++) {
            dnnl_memory_destroy(local->pass[p].user[i]);
            dnnl_memory_destroy(local->pass[p].own[i]);
            dnnl_memory_destroy(local->pass[p].reorder_pad[i]);
        }
        dnnl_memory_destroy(local->pass[p].pad);
    }
    dnnl_stream_destroy(local->stream);
    fast__free(local);
}

/* Make a memory object without memory; each call sets the address. */
static fast_err make_memory(const conv_onednn *self, const dnnl_memory_desc_t *desc,
                            dnnl_memory_t *out)
{
    return check(dnnl_memory_create(out, desc, self->engine, DNNL_MEMORY_NONE), "memory");
}

/* Make all objects of a workspace. */
static fast_err fill_local(const conv_onednn *self, onednn_local *local)
{
    FAST_TRY(check(dnnl_stream_create(&local->stream, self->engine, dnnl_stream_default_flags),
                   "stream"));
    for (int p = 0; p < FAST_CONV_PASSES; p++) {
        const onednn_pass *pass = &self->pass[p];
        if (!pass->open)
            continue;
        for (int i = 0; i < TENSORS; i++) {
            FAST_TRY(make_memory(self, &self->user[passes[p].kind[i]], &local->pass[p].user[i]));
            FAST_TRY(make_memory(self, &pass->own[i], &local->pass[p].own[i]));
            FAST_TRY(make_memory(self, &pass->reorder_pad[i], &local->pass[p].reorder_pad[i]));
        }
        FAST_TRY(make_memory(self, &pass->pad, &local->pass[p].pad));
    }
    return FAST_OK;
}

/* Objects that a call sets addresses in, so every workspace has its own. */
static fast_err onednn_local_open(const void *memory, void **out)
{
    onednn_local *local;
    FAST_TRY(fast__alloc("a convolution's workspace", 1, sizeof *local, &local));
    const fast_err err = fill_local(memory, local);
    if (err) {
        onednn_local_close(local);
        return err;
    }
    *out = local;
    return FAST_OK;
}

/* Run one primitive. It was made for these shapes and this memory, so a failure is a bug. */
static void execute(dnnl_primitive_t primitive, dnnl_stream_t stream, int count,
                    const dnnl_exec_arg_t *args)
{
    const dnnl_status_t status = dnnl_primitive_execute(primitive, stream, count, args);
    FAST_ASSERT(status == dnnl_success);
}

/* Set the address of a memory object. */
static void point_to(dnnl_memory_t memory, const float *at)
{
    const dnnl_status_t status = dnnl_memory_set_data_handle(memory, (void *)(uintptr_t)at);
    FAST_ASSERT(status == dnnl_success);
}

/* Run one pass: reorder the inputs, convolve, reorder the output. */
static void run(const conv_onednn *self, int index, const fast_conv_io *io,
                const float *const tensor[TENSORS])
{
    const onednn_pass *pass = &self->pass[index];
    onednn_local *local = io->local;
    FAST_ASSERT(pass->open);
    FAST_ASSERT(local);
    dnnl_exec_arg_t args[TENSORS + 1];
    for (int i = 0; i < TENSORS; i++) {
        point_to(local->pass[index].user[i], tensor[i]);
        point_to(local->pass[index].own[i], io->scratch + pass->start[i]);
        point_to(local->pass[index].reorder_pad[i], io->scratch + pass->pad_start);
        args[i] = (dnnl_exec_arg_t){ passes[index].arg[i], local->pass[index].own[i] };
    }
    point_to(local->pass[index].pad, io->scratch + pass->pad_start);
    args[TENSORS] = (dnnl_exec_arg_t){ DNNL_ARG_SCRATCHPAD, local->pass[index].pad };
    for (int i = 0; i <= TENSORS; i++) {
        const int at = i == TENSORS ? OUT : i;
        if (i == OUT) { /* between the inputs and the output */
            execute(pass->convolution, local->stream, TENSORS + 1, args);
            continue;
        }
        dnnl_memory_t user = local->pass[index].user[at], own = local->pass[index].own[at];
        const dnnl_exec_arg_t reorder[] = {
            { DNNL_ARG_FROM, at == OUT ? own : user },
            { DNNL_ARG_TO, at == OUT ? user : own },
            { DNNL_ARG_SCRATCHPAD, local->pass[index].reorder_pad[at] },
        };
        execute(pass->reorder[at], local->stream, 3, reorder);
    }
    dnnl_stream_wait(local->stream);
}

/* Convolve, then add bias and relu, which oneDNN is not asked for. */
static void onednn_forward(const void *memory, const fast_conv_io *io)
{
    const conv_onednn *self = memory;
    const fast_conv_shape *s = &self->shape;
    run(self, FAST_CONV_FORWARD, io, (const float *const[]){ io->x, io->w, io->y });
    if (!io->bias && !io->relu)
        return;
    for (int64_t i = 0; i < s->out_h * s->out_w; i++)
        self->kernels->finish(io->y + i * s->out_c * s->lanes, io->bias, s->out_c, s->lanes,
                              io->relu);
}

/* Each gradient is a pass of its own. */
static void onednn_backward(const void *memory, const fast_conv_io *io)
{
    if (io->dx)
        run(memory, FAST_CONV_DATA, io, (const float *const[]){ io->dy, io->w, io->dx });
    if (io->dw)
        run(memory, FAST_CONV_WEIGHTS, io, (const float *const[]){ io->x, io->dy, io->dw });
}

const fast_conv_method fast__conv_onednn = {
    .name = "onednn",
    .fits = onednn_fits,
    .open = onednn_open,
    .close = onednn_close,
    .scratch = onednn_scratch,
    .local_open = onednn_local_open,
    .local_close = onednn_local_close,
    .forward = onednn_forward,
    .backward = onednn_backward,
};

const fast_conv_method fast__conv_onednn_winograd = {
    .name = "onednn_winograd",
    .fits = onednn_winograd_fits,
    .open = onednn_winograd_open,
    .close = onednn_close,
    .scratch = onednn_scratch,
    .local_open = onednn_local_open,
    .local_close = onednn_local_close,
    .forward = onednn_forward,
    .backward = onednn_backward,
};

#endif
