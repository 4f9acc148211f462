/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Winograd's convolutions F(m x m, r x r) with the batch innermost (Lavin and Gray, "Fast
 * Algorithms for Convolutional Neural Networks", 2015), for stride 1, any padding, r = 3 or 5. With
 * n = m + r - 1 an m x m tile of outputs takes n n products a pair of channels instead of m m r r:
 *
 *   V = B' x B     U = G w G'     M = U V (for each of the n n planes)     y = A' M A
 *   dM = A dy A'   dU = sum over tiles and lanes of dM V   dw = G' dU G   dx = sum of B (U' dM) B'
 *
 *   F(2x2,3x3) saves 2.25 times, F(4x4,3x3) 4, F(6x6,3x3) 5.06, F(2x2,5x5) 2.78, F(4x4,5x5) 6.25.
 *
 * The cost is accuracy: errors relative to the largest value are up to 5e-7, 3e-6, 2e-5, 5e-6 and
 * 2e-5, which has no effect on training.
 *
 *     image   |  tile 0   |     each tile overlaps the next one by r - 1 input pixels;
 *             |      |  tile 1   |     m output pixels of a tile are its own
 *     plane   (i, j) of n n: element (i, j) of every transformed tile, [channel][position][16]
 *
 * A block of positions (a tile and 16 lanes are one) is transformed, multiplied and transformed
 * back while its planes are in the second-level cache; nothing is saved between passes, since
 * recomputing V costs less than reading it from memory. In the backward pass dM serves both
 * gradients, and the gradient of V replaces V. A plane is [channel][position][16], so a product has
 * positions times 16 rows.
 */
#include "base/memory.h"
#include "engine/cpu/conv_kernels.h"
#include "engine/cpu/conv_method.h"
#include "engine/cpu/gemm.h"
#include "engine/cpu/winograd_kernels.h"

#include <string.h>

enum {
    POSITIONS = 4, /* of a block: fewer make slow products; planes of more leave the second cache */
    CACHED = 1 << 18 /* floats of an image of which the second cache has a part */
};

/* How the positions of one pass are divided into blocks. */
typedef struct winograd_blocking {
    int64_t block;     /* positions of a block: a multiple of `vectors` */
    int64_t in_step;   /* floats from plane to plane of V, one vector more than needed, */
    int64_t out_step;  /* and of M, so that planes use different sets of the cache */
    fast_gemm gemm[2]; /* M = V U', or dV = dM U: of a whole block and of the last one */
} winograd_blocking;

typedef struct conv_winograd {
    fast_conv_shape shape;                /* the convolution */
    const fast_winograd_kernels *kernels; /* transforms of the variant */
    const fast_conv_kernels *conv;        /* sums of products, bias and relu */
    int64_t planes;                       /* number of planes, n n */
    int64_t tiles_y, tiles_x;             /* number of tiles along each axis */
    int64_t vectors;                      /* vectors of 16 lanes that are transformed together */
    int64_t positions;                    /* tiles times lanes / 16 */
    int64_t weights; /* floats from plane to plane of U: in_c out_c, to an odd number of vectors */
    winograd_blocking forward, backward;
} conv_winograd;

/* The parts of the scratch memory. */
typedef struct winograd_memory {
    float *packed; /* [r r][weights]: weights by taps */
    float *u;      /* [n n][weights] */
    float *du;     /* [n n][weights]: backward only */
    float *v, *m;  /* planes of a block */
} winograd_memory;

/* The transforms of a variant for this processor. */
static const fast_winograd_kernels *kernels_of(int variant)
{
    const fast_isa isa = fast__isa();
    return &(*FAST_KERNELS_PICK(winograd_list, isa))[variant];
}

/* Winograd needs stride 1, no dilation, one group and the variant's kernel size. */
static bool fits(const fast_conv_shape *s, int variant)
{
    const fast_winograd_kernels *k = kernels_of(variant);
    for (int axis = 0; axis < 2; axis++)
        if (s->kernel[axis] != k->r || s->stride[axis] != 1 || s->dilation[axis] != 1)
            return false;
    return s->groups == 1 && s->in_c * s->out_c < INT32_MAX / 256;
}

/* Divide the positions into blocks. */
static winograd_blocking make_blocking(const conv_winograd *self, bool back)
{
    const fast_conv_shape *s = &self->shape;
    winograd_blocking b = { .block = POSITIONS / self->vectors * self->vectors };
    if (b.block > self->positions)
        b.block = self->positions;
    b.in_step = (s->in_c * b.block | 1) * FAST_VEC;
    b.out_step = (s->out_c * b.block | 1) * FAST_VEC;
    const int64_t rest = self->positions % b.block;
    for (int last = 0; last < 2; last++) {
        const int k = (int)(back ? s->out_c : s->in_c), ld = (int)(b.block * FAST_VEC);
        b.gemm[last] = (fast_gemm){ .m = last && rest ? (int)(rest * FAST_VEC) : ld,
                                    .n = (int)(back ? s->in_c : s->out_c),
                                    .k = k,
                                    .lda = ld,
                                    .ldb = k,
                                    .ldc = ld };
        fast__gemm_init(&b.gemm[last]);
    }
    return b;
}

/* Sizes and blocks of both passes; all memory is scratch. */
static fast_err winograd_open(const fast_conv_shape *s, int variant, void **out)
{
    conv_winograd *self;
    FAST_TRY(fast__alloc("a convolution", 1, sizeof *self, &self));
    const fast_winograd_kernels *k = kernels_of(variant);
    self->shape = *s;
    self->kernels = k;
    self->conv = fast__conv_kernels();
    self->planes = (int64_t)k->n * k->n;
    self->tiles_y = (s->out_h + k->m - 1) / k->m;
    self->tiles_x = (s->out_w + k->m - 1) / k->m;
    self->vectors = FAST_WINOGRAD_VECTORS;
    while (s->lanes / FAST_VEC % self->vectors != 0)
        self->vectors--;
    self->positions = self->tiles_y * self->tiles_x * (s->lanes / FAST_VEC);
    self->weights = ((s->in_c * s->out_c + FAST_VEC - 1) / FAST_VEC | 1) * FAST_VEC;
    self->forward = make_blocking(self, false);
    if (s->train)
        self->backward = make_blocking(self, true);
    *out = self;
    return FAST_OK;
}

/* All other memory is the caller's scratch. */
static void winograd_close(void *self)
{
    fast__free(self);
}

/* Take `count` floats at *at; NULL while only measuring. */
static float *take(float *base, int64_t count, int64_t *at)
{
    float *part = base ? base + *at : NULL;
    *at += count;
    return part;
}

/* Lay out the parts of a pass from `base`, which may be NULL; returns their size in floats. */
static int64_t lay_out(const conv_winograd *self, const winograd_blocking *b, bool back,
                       float *base, winograd_memory *parts)
{
    const int64_t r = self->kernels->r, u = self->planes * self->weights;
    int64_t at = 0;
    parts->packed = take(base, r * r * self->weights, &at);
    parts->u = take(base, u, &at);
    parts->du = take(base, back ? u : 0, &at);
    parts->v = take(base, self->planes * b->in_step, &at);
    parts->m = take(base, self->planes * b->out_step, &at);
    return at;
}

/* The larger of both passes, which lay it out differently. */
static int64_t winograd_scratch(const void *memory_of)
{
    const conv_winograd *self = memory_of;
    winograd_memory parts;
    const int64_t forward = lay_out(self, &self->forward, false, NULL, &parts);
    const int64_t backward = lay_out(self, &self->backward, self->shape.train, NULL, &parts);
    return forward > backward ? forward : backward;
}

/* Reorder weights by taps, [r r][o][c] or, transposed, [r r][c][o]; then compute U. */
static void transform_weights(const conv_winograd *self, const float *w, bool transposed,
                              const winograd_memory *parts)
{
    const int64_t area = (int64_t)self->kernels->r * self->kernels->r;
    const int64_t in_c = self->shape.in_c, out_c = self->shape.out_c;
    for (int64_t o = 0; o < out_c; o++) {
        for (int64_t c = 0; c < in_c; c++) {
            float *to = parts->packed + (transposed ? c * out_c + o : o * in_c + c);
            for (int64_t tap = 0; tap < area; tap++)
                to[tap * self->weights] = *w++;
        }
    }
    for (int64_t tap = 0; tap < area; tap++)
        memset(parts->packed + tap * self->weights + in_c * out_c, 0,
               (size_t)(self->weights - in_c * out_c) * sizeof(float));
    self->kernels->weights(parts->packed, parts->u, self->weights);
}

/* Transform dU [n n][o][c] to dw. */
static void finish_weights(const conv_winograd *self, const winograd_memory *parts, float *dw)
{
    const int64_t area = (int64_t)self->kernels->r * self->kernels->r;
    self->kernels->weights_grad(parts->du, parts->packed, self->weights);
    for (int64_t i = 0; i < self->shape.in_c * self->shape.out_c; i++)
        for (int64_t tap = 0; tap < area; tap++)
            *dw++ = parts->packed[tap * self->weights + i];
}

/* Describe the tile of a position in the input or in the output. */
static fast_winograd_tile tile_at(const conv_winograd *self, const winograd_blocking *b,
                                  int64_t position, bool input, const float *image)
{
    const fast_conv_shape *s = &self->shape;
    const fast_winograd_kernels *k = self->kernels;
    const int64_t tiles = self->tiles_y * self->tiles_x;
    const int64_t unit = position / self->vectors, tile = unit % tiles;
    const int64_t lane = unit / tiles * self->vectors * FAST_VEC;
    const int64_t at[2] = { tile / self->tiles_x, tile % self->tiles_x };
    const int64_t channels = input ? s->in_c : s->out_c;
    const int64_t size[2] = { input ? s->in_h : s->out_h, input ? s->in_w : s->out_w };
    fast_winograd_tile t = { .column = channels * s->lanes,
                             .row = size[1] * channels * s->lanes,
                             .channel = s->lanes,
                             .channels = channels,
                             .vectors = self->vectors,
                             .plane_step = input ? b->in_step : b->out_step,
                             .plane_channel = b->block * FAST_VEC };
    int64_t offset = lane;
    for (int axis = 0; axis < 2; axis++) {
        const int64_t start = at[axis] * k->m - (input ? s->pad[axis] : 0);
        const int64_t end = size[axis] - start, extent = input ? k->n : k->m;
        t.first[axis] = (int)(start < 0 ? -start : 0);
        t.end[axis] = (int)(end < 0 ? 0 : end < extent ? end : extent);
        if (t.first[axis] > t.end[axis])
            t.first[axis] = t.end[axis];
        t.known[axis] = at[axis] > 0 ? k->n - k->m : 0;
        offset += start * (axis == 0 ? t.row : t.column);
    }
    /* A pointer before the image is never dereferenced, but must not be formed by pointer
     * arithmetic. */
    t.image = (float *)((uintptr_t)image + (uintptr_t)(offset * (int64_t)sizeof *image));
    return t;
}

/* Tell whether transforms prefetch an image: one that the second-level cache no longer has. What
 * the forward pass reads was written just before, and comes from the third-level cache in time. */
static bool prefetches(const conv_winograd *self, bool back, bool input)
{
    const fast_conv_shape *s = &self->shape;
    const int64_t rows = input ? s->in_h * s->in_w * s->in_c : s->out_h * s->out_w * s->out_c;

    return rows * s->lanes > CACHED && (back || !input);
}

typedef void transform_fn(const fast_winograd_tile *tile);

/* Transform the positions [first, first + count) between an image and planes. */
static void transform_block(const conv_winograd *self, const winograd_blocking *b, int64_t first,
                            int64_t count, bool input, const float *image, float *planes,
                            const fast_conv_io *finish, transform_fn *transform)
{
    const bool ahead = prefetches(self, b == &self->backward, input);
    for (int64_t p = 0; p < count; p += self->vectors) {
        fast_winograd_tile tile = tile_at(self, b, first + p, input, image);
        tile.plane = planes + p * FAST_VEC;
        tile.ahead = ahead;
        if (finish) {
            tile.bias = finish->bias;
            tile.relu = finish->relu;
        }
        transform(&tile);
    }
}

/* With one input channel each product has one term: the output transform computes it, which saves a
 * trip through memory. */
static void outputs_of_one(const conv_winograd *self, int64_t first, int64_t count,
                           const fast_conv_io *io, const winograd_memory *parts)
{
    for (int64_t p = 0; p < count; p += self->vectors) {
        fast_winograd_tile tile = tile_at(self, &self->forward, first + p, false, io->y);
        tile.plane = parts->v + p * FAST_VEC;
        tile.plane_step = self->forward.in_step;
        tile.plane_channel = 0;
        tile.scale = parts->u;
        tile.scale_step = self->weights;
        tile.bias = io->bias;
        tile.relu = io->relu;
        self->kernels->output(&tile);
    }
}

/* Blocks of positions: transform, multiply plane by plane, transform back. */
static void winograd_forward(const void *memory_of, const fast_conv_io *io)
{
    const conv_winograd *self = memory_of;
    const winograd_blocking *b = &self->forward;
    winograd_memory parts;
    lay_out(self, b, false, io->scratch, &parts);
    transform_weights(self, io->w, false, &parts);
    for (int64_t first = 0; first < self->positions; first += b->block) {
        const int64_t left = self->positions - first, count = left < b->block ? left : b->block;
        transform_block(self, b, first, count, true, io->x, parts.v, NULL, self->kernels->input);
        if (self->shape.in_c == 1) {
            outputs_of_one(self, first, count, io, &parts);
            continue;
        }
        for (int64_t t = 0; t < self->planes; t++)
            fast__gemm_run(&b->gemm[count < b->block], parts.v + t * b->in_step,
                           parts.u + t * self->weights, parts.m + t * b->out_step);
        transform_block(self, b, first, count, false, io->y, parts.m, io, self->kernels->output);
    }
}

/* The products of one block of the backward pass. */
static void multiply_back(const conv_winograd *self, int64_t count, const fast_conv_io *io,
                          const winograd_memory *parts)
{
    const winograd_blocking *b = &self->backward;
    const fast_dot dot = { .m = self->shape.out_c,
                           .n = self->shape.in_c,
                           .count = 1,
                           .length = count * FAST_VEC,
                           .a_row = b->block * FAST_VEC,
                           .b_row = b->block * FAST_VEC,
                           .ldc = self->shape.in_c };
    for (int64_t t = 0; t < self->planes; t++) {
        float *v = parts->v + t * b->in_step, *m = parts->m + t * b->out_step;
        if (io->dw)
            self->conv->dot(&dot, m, v, parts->du + t * self->weights);
        if (io->dx)
            fast__gemm_run(&b->gemm[count < b->block], m, parts->u + t * self->weights, v);
    }
}

/* The gradient of the weights for one input channel: as in outputs_of_one(), the transform computes
 * the products. The sums over lanes replace M. */
static void weights_of_one(const conv_winograd *self, const fast_conv_io *io,
                           const winograd_memory *parts)
{
    const winograd_blocking *b = &self->backward;
    const int64_t sums = self->shape.out_c * self->planes;
    memset(parts->m, 0, (size_t)(sums * FAST_VEC) * sizeof *parts->m);
    for (int64_t first = 0; first < self->positions; first += b->block) {
        const int64_t left = self->positions - first, count = left < b->block ? left : b->block;
        transform_block(self, b, first, count, true, io->x, parts->v, NULL, self->kernels->input);
        for (int64_t p = 0; p < count; p += self->vectors) {
            fast_winograd_tile tile = tile_at(self, b, first + p, false, io->dy);
            tile.plane = parts->v + p * FAST_VEC;
            tile.plane_step = b->in_step;
            self->kernels->weights_one(&tile, parts->m);
        }
    }
    for (int64_t i = 0; i < sums; i++) {
        const float *lane = parts->m + i * FAST_VEC;
        float sum[4] = { 0 };
        for (int k = 0; k < FAST_VEC; k++)
            sum[k % 4] += lane[k];
        parts->du[i % self->planes * self->weights + i / self->planes] =
            (sum[0] + sum[1]) + (sum[2] + sum[3]);
    }
    finish_weights(self, parts, io->dw);
}

/* Blocks of positions: V and dM, products for dU and dV, transform of dV. */
static void winograd_backward(const void *memory_of, const fast_conv_io *io)
{
    const conv_winograd *self = memory_of;
    const fast_winograd_kernels *k = self->kernels;
    const winograd_blocking *b = &self->backward;
    winograd_memory parts;
    FAST_ASSERT(self->shape.train);
    lay_out(self, b, true, io->scratch, &parts);
    if (self->shape.in_c == 1 && io->dw && !io->dx) {
        weights_of_one(self, io, &parts);
        return;
    }
    if (io->dx)
        transform_weights(self, io->w, true, &parts);
    if (io->dw)
        memset(parts.du, 0, (size_t)(self->planes * self->weights) * sizeof *parts.du);
    for (int64_t first = 0; first < self->positions; first += b->block) {
        const int64_t left = self->positions - first, count = left < b->block ? left : b->block;
        if (io->dw)
            transform_block(self, b, first, count, true, io->x, parts.v, NULL, k->input);
        transform_block(self, b, first, count, false, io->dy, parts.m, NULL, k->output_grad);
        multiply_back(self, count, io, &parts);
        if (io->dx)
            transform_block(self, b, first, count, true, io->dx, parts.v, NULL, k->input_grad);
    }
    if (io->dw)
        finish_weights(self, &parts, io->dw);
}

/* Variants are numbered as in the tables of kernels. */
#define VARIANT(index, size)                                              \
    static bool fits_##size(const fast_conv_shape *shape)                 \
    {                                                                     \
        return fits(shape, index);                                        \
    }                                                                     \
    static fast_err open_##size(const fast_conv_shape *shape, void **out) \
    {                                                                     \
        return winograd_open(shape, index, out);                          \
    }                                                                     \
    const fast_conv_method fast__conv_winograd_##size = {                 \
        .name = "winograd_" #size,                                        \
        .fits = fits_##size,                                              \
        .open = open_##size,                                              \
        .close = winograd_close,                                          \
        .scratch = winograd_scratch,                                      \
        .forward = winograd_forward,                                      \
        .backward = winograd_backward,                                    \
    };

VARIANT(0, 2x2_3x3)
VARIANT(1, 4x4_3x3)
VARIANT(2, 6x6_3x3)
VARIANT(3, 2x2_5x5)
VARIANT(4, 4x4_5x5)
