/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The transforms of one variant F(M x M, R x R), included once for each with M, R and N = M + R - 1
 * and the maps defined; not a header of its own. A two-dimensional transform is the one-dimensional
 * one on every column, then on every row; between them lies a block that stays in the first-level
 * cache. All vectors of a pixel are done before the next pixel: pixels are often a multiple of 4 KiB
 * apart, so that only a few fit into the ways of the cache at once. Tiles that reach over the border
 * take a slower path with zeros outside.
 */

/* Columns of the image at `from`, mapped, to mid. `inside` promises a tile without border. */
#define COLUMNS_OF_IMAGE(map, in, out)                                              \
    for (int j = 0; j < (in); j++) {                                                \
        const bool column_in = inside || (j >= tile->first[1] && j < tile->end[1]); \
        for (int64_t v = 0; v < tile->vectors; v++) {                               \
            fast_vec x[in], y[out];                                                 \
            UNROLL for (int i = 0; i < (in); i++)                                   \
            {                                                                       \
                const bool in_ = inside || (column_in && i >= tile->first[0] &&     \
                                            i < tile->end[0]);                      \
                x[i] = in_ ? load(image + i * tile->row + j * tile->column +        \
                                  v * FAST_VEC)                                     \
                           : splat(0.0f);                                           \
            }                                                                       \
            map(x, y);                                                              \
            UNROLL for (int i = 0; i < (out); i++) mid[v][i][j] = y[i];             \
        }                                                                           \
    }

/* Rows of mid, mapped, to the planes. */
#define ROWS_TO_PLANES(map)                                                             \
    for (int i = 0; i < N; i++) {                                                       \
        for (int64_t v = 0; v < tile->vectors; v++) {                                   \
            fast_vec y[N];                                                              \
            map(mid[v][i], y);                                                          \
            UNROLL for (int j = 0; j < N; j++)                                          \
                store(plane + (i * N + j) * tile->plane_step + v * FAST_VEC, y[j]);     \
        }                                                                               \
    }

/* Columns of the planes, times one weight each where there are, mapped, to mid. */
#define COLUMNS_OF_PLANES(map, out)                                                           \
    for (int j = 0; j < N; j++) {                                                             \
        for (int64_t v = 0; v < tile->vectors; v++) {                                         \
            fast_vec x[N], y[out];                                                            \
            UNROLL for (int i = 0; i < N; i++) x[i] =                                         \
                scaled(plane + (i * N + j) * tile->plane_step + v * FAST_VEC,                 \
                       scale ? scale + (i * N + j) * tile->scale_step : NULL);                \
            map(x, y);                                                                        \
            UNROLL for (int i = 0; i < (out); i++) mid[v][i][j] = y[i];                       \
        }                                                                                     \
    }

INLINE void NAME(input_channel)(const fast_winograd_tile *tile, const float *image, float *plane,
                                const bool inside)
{
    fast_vec mid[FAST_WINOGRAD_VECTORS][N][N];
    COLUMNS_OF_IMAGE(MAP_BT, N, N)
    ROWS_TO_PLANES(MAP_BT)
}

static void NAME(input)(const fast_winograd_tile *tile)
{
    const bool inside = is_inside(tile, N);
    for (int64_t c = 0; c < tile->channels; c++) {
        const float *image = tile->image + c * tile->channel;
        float *plane = tile->plane + c * tile->plane_channel;
        if (inside)
            NAME(input_channel)(tile, image, plane, true);
        else
            NAME(input_channel)(tile, image, plane, false);
    }
}

INLINE void NAME(output_grad_channel)(const fast_winograd_tile *tile, const float *image,
                                      float *plane, const bool inside)
{
    fast_vec mid[FAST_WINOGRAD_VECTORS][N][M];
    COLUMNS_OF_IMAGE(MAP_A, M, N)
    ROWS_TO_PLANES(MAP_A)
}

static void NAME(output_grad)(const fast_winograd_tile *tile)
{
    const bool inside = is_inside(tile, M);
    for (int64_t c = 0; c < tile->channels; c++) {
        const float *image = tile->image + c * tile->channel;
        float *plane = tile->plane + c * tile->plane_channel;
        if (inside)
            NAME(output_grad_channel)(tile, image, plane, true);
        else
            NAME(output_grad_channel)(tile, image, plane, false);
    }
}

INLINE void NAME(weights_one_channel)(const fast_winograd_tile *tile, const float *image,
                                      float *sums, const bool inside)
{
    fast_vec mid[FAST_WINOGRAD_VECTORS][N][M];
    COLUMNS_OF_IMAGE(MAP_A, M, N)
    for (int i = 0; i < N; i++) {
        const float *plane = tile->plane + i * N * tile->plane_step;
        fast_vec sum[N];
        UNROLL for (int j = 0; j < N; j++) sum[j] = load(sums + (i * N + j) * FAST_VEC);
        for (int64_t v = 0; v < tile->vectors; v++) {
            fast_vec y[N];
            MAP_A(mid[v][i], y);
            UNROLL for (int j = 0; j < N; j++) sum[j] +=
                y[j] * load(plane + j * tile->plane_step + v * FAST_VEC);
        }
        UNROLL for (int j = 0; j < N; j++) store(sums + (i * N + j) * FAST_VEC, sum[j]);
    }
}

static void NAME(weights_one)(const fast_winograd_tile *tile, float *sums)
{
    const bool inside = is_inside(tile, M);
    for (int64_t c = 0; c < tile->channels; c++) {
        const float *image = tile->image + c * tile->channel;
        if (inside)
            NAME(weights_one_channel)(tile, image, sums + c * N * N * FAST_VEC, true);
        else
            NAME(weights_one_channel)(tile, image, sums + c * N * N * FAST_VEC, false);
    }
}

INLINE void NAME(output_channel)(const fast_winograd_tile *tile, float *image, const float *plane,
                                 const float *scale, float bias, const bool inside)
{
    fast_vec mid[FAST_WINOGRAD_VECTORS][M][N];
    COLUMNS_OF_PLANES(MAP_AT, M)
    for (int i = 0; i < (inside ? M : tile->end[0]); i++) {
        for (int64_t v = 0; v < tile->vectors; v++) {
            float *to = image + i * tile->row + v * FAST_VEC;
            fast_vec y[M];
            MAP_AT(mid[v][i], y);
            UNROLL for (int j = 0; j < M; j++)
            {
                const fast_vec sum = y[j] + splat(bias);
                if (inside || j < tile->end[1])
                    store(to + j * tile->column, tile->relu ? relu_vec(sum) : sum);
            }
        }
    }
}

static void NAME(output_scaled)(const fast_winograd_tile *tile, float *image, const float *plane,
                                const float *scale, float bias, bool inside)
{
    if (inside)
        NAME(output_channel)(tile, image, plane, scale, bias, true);
    else
        NAME(output_channel)(tile, image, plane, scale, bias, false);
}

static void NAME(output)(const fast_winograd_tile *tile)
{
    const bool inside = is_inside(tile, M);
    for (int64_t c = 0; c < tile->channels; c++) {
        float *image = tile->image + c * tile->channel;
        const float *plane = tile->plane + c * tile->plane_channel;
        const float bias = tile->bias ? tile->bias[c] : 0.0f;
        if (tile->scale)
            NAME(output_scaled)(tile, image, plane, tile->scale + c, bias, inside);
        else if (inside)
            NAME(output_channel)(tile, image, plane, NULL, bias, true);
        else
            NAME(output_channel)(tile, image, plane, NULL, bias, false);
    }
}

/* Write or add one row of a gradient; known columns are added to. */
INLINE void NAME(add_row)(const fast_winograd_tile *tile, float *to, const fast_vec y[N],
                          const int known, const bool inside)
{
    UNROLL for (int j = 0; j < N; j++)
    {
        float *at = to + j * tile->column;
        if (!inside && (j < tile->first[1] || j >= tile->end[1]))
            continue;
        store(at, j < known ? load(at) + y[j] : y[j]);
    }
}

INLINE void NAME(input_grad_channel)(const fast_winograd_tile *tile, float *image,
                                     const float *plane, const bool inside)
{
    const float *const scale = NULL;
    fast_vec mid[FAST_WINOGRAD_VECTORS][N][N];
    COLUMNS_OF_PLANES(MAP_B, N)
    for (int i = inside ? 0 : tile->first[0]; i < (inside ? N : tile->end[0]); i++) {
        const int known = i < tile->known[0] ? N : tile->known[1];
        for (int64_t v = 0; v < tile->vectors; v++) {
            float *to = image + i * tile->row + v * FAST_VEC;
            fast_vec y[N];
            MAP_B(mid[v][i], y);
            /* Known are none, the overlap with the tile to the left, or all: as constants. */
            if (known == N)
                NAME(add_row)(tile, to, y, N, inside);
            else if (known == 0)
                NAME(add_row)(tile, to, y, 0, inside);
            else
                NAME(add_row)(tile, to, y, N - M, inside);
        }
    }
}

static void NAME(input_grad)(const fast_winograd_tile *tile)
{
    const bool inside = is_inside(tile, N);
    for (int64_t c = 0; c < tile->channels; c++) {
        float *image = tile->image + c * tile->channel;
        const float *plane = tile->plane + c * tile->plane_channel;
        if (inside)
            NAME(input_grad_channel)(tile, image, plane, true);
        else
            NAME(input_grad_channel)(tile, image, plane, false);
    }
}

static void NAME(weights)(const float *from, float *to, int64_t count)
{
    for (int64_t q = 0; q < count; q += FAST_VEC) {
        fast_vec mid[N][R], x[R], y[N];
        for (int j = 0; j < R; j++) {
            UNROLL for (int i = 0; i < R; i++) x[i] = load(from + (i * R + j) * count + q);
            MAP_G(x, y);
            UNROLL for (int i = 0; i < N; i++) mid[i][j] = y[i];
        }
        for (int i = 0; i < N; i++) {
            MAP_G(mid[i], y);
            UNROLL for (int j = 0; j < N; j++) store(to + (i * N + j) * count + q, y[j]);
        }
    }
}

static void NAME(weights_grad)(const float *from, float *to, int64_t count)
{
    for (int64_t q = 0; q < count; q += FAST_VEC) {
        fast_vec mid[R][N], x[N], y[R];
        for (int j = 0; j < N; j++) {
            UNROLL for (int i = 0; i < N; i++) x[i] = load(from + (i * N + j) * count + q);
            MAP_GT(x, y);
            UNROLL for (int i = 0; i < R; i++) mid[i][j] = y[i];
        }
        for (int i = 0; i < R; i++) {
            MAP_GT(mid[i], y);
            UNROLL for (int j = 0; j < R; j++) store(to + (i * R + j) * count + q, y[j]);
        }
    }
}

#undef COLUMNS_OF_IMAGE
#undef ROWS_TO_PLANES
#undef COLUMNS_OF_PLANES
#undef NAME
#undef M
#undef R
#undef N
#undef MAP_BT
#undef MAP_B
#undef MAP_AT
#undef MAP_A
#undef MAP_G
#undef MAP_GT
