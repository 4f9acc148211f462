/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The transforms of one variant F(M x M, R x R), included once for each with M, R and N = M + R - 1
 * defined; not a header of its own. A two-dimensional transform is the one-dimensional one on every
 * column, then on every row; between them lies a block that stays in the first-level cache. Tiles
 * that reach over the border go through a copy with zeros outside.
 */

/* One matrix on columns then rows: `out` x `out` results from `in` x `in`. */
#define TWICE(map, in, out, load, store)                                                      \
    do {                                                                                      \
        fast_vec mid_[out][in], x_[in], y_[out];                                              \
        for (int j_ = 0; j_ < (in); j_++) {                                                   \
            _Pragma("GCC unroll 8") for (int i_ = 0; i_ < (in); i_++) x_[i_] = load(i_, j_);  \
            map(x_, y_);                                                                      \
            _Pragma("GCC unroll 8") for (int i_ = 0; i_ < (out); i_++) mid_[i_][j_] = y_[i_]; \
        }                                                                                     \
        for (int i_ = 0; i_ < (out); i_++) {                                                  \
            map(mid_[i_], y_);                                                                \
            store(i_, y_);                                                                    \
        }                                                                                     \
    } while (0)

static void NAME(input)(const fast_winograd_tile *tile)
{
    const bool whole =
        tile->first[0] == 0 && tile->first[1] == 0 && tile->end[0] == N && tile->end[1] == N;
    fast_vec copy[N][N];
    if (!whole)
        memset(copy, 0, sizeof copy);
    for (int64_t c = 0; c < tile->channels; c++) {
        const float *image = tile->image + c * tile->channel;
        float *plane = tile->plane + c * tile->plane_channel;
        int64_t row = tile->row, column = tile->column;
        if (!whole) {
            for (int i = tile->first[0]; i < tile->end[0]; i++)
                for (int j = tile->first[1]; j < tile->end[1]; j++)
                    copy[i][j] = *(const fast_vec *)(const void *)(image + i * row + j * column);
            image = (const float *)copy;
            row = N * FAST_VEC;
            column = FAST_VEC;
        }
#define LOAD(i, j) (*(const fast_vec *)(const void *)(image + (i)*row + (j)*column))
#define STORE(i, y)                                          \
    _Pragma("GCC unroll 8") for (int k_ = 0; k_ < N; k_++) * \
        (fast_vec *)(void *)(plane + ((i)*N + k_) * tile->plane_step) = (y)[k_]
        TWICE(MAP_BT, N, N, LOAD, STORE);
#undef LOAD
    }
}

static void NAME(output_grad)(const fast_winograd_tile *tile)
{
    const bool whole =
        tile->first[0] == 0 && tile->first[1] == 0 && tile->end[0] == M && tile->end[1] == M;
    fast_vec copy[M][M];
    if (!whole)
        memset(copy, 0, sizeof copy);
    for (int64_t c = 0; c < tile->channels; c++) {
        const float *image = tile->image + c * tile->channel;
        float *plane = tile->plane + c * tile->plane_channel;
        int64_t row = tile->row, column = tile->column;
        if (!whole) {
            for (int i = tile->first[0]; i < tile->end[0]; i++)
                for (int j = tile->first[1]; j < tile->end[1]; j++)
                    copy[i][j] = *(const fast_vec *)(const void *)(image + i * row + j * column);
            image = (const float *)copy;
            row = M * FAST_VEC;
            column = FAST_VEC;
        }
#define LOAD(i, j) (*(const fast_vec *)(const void *)(image + (i)*row + (j)*column))
        TWICE(MAP_A, M, N, LOAD, STORE);
#undef LOAD
#undef STORE
    }
}

#define LOAD(i, j) (*(const fast_vec *)(const void *)(plane + ((i)*N + (j)) * tile->plane_step))

static void NAME(output)(const fast_winograd_tile *tile)
{
    for (int64_t c = 0; c < tile->channels; c++) {
        float *image = tile->image + c * tile->channel;
        const float *plane = tile->plane + c * tile->plane_channel;
        const fast_vec bias = splat(tile->bias ? tile->bias[c] : 0.0f);
#define STORE(i, y)                                                                   \
    if ((i) < tile->end[0]) {                                                         \
        _Pragma("GCC unroll 8") for (int k_ = 0; k_ < M; k_++) if (k_ < tile->end[1]) \
        {                                                                             \
            const fast_vec v_ = (y)[k_] + bias;                                       \
            *(fast_vec *)(void *)(image + (i)*tile->row + k_ * tile->column) =        \
                tile->relu ? relu_vec(v_) : v_;                                       \
        }                                                                             \
    }
        TWICE(MAP_AT, N, M, LOAD, STORE);
#undef STORE
    }
}

static void NAME(input_grad)(const fast_winograd_tile *tile)
{
    for (int64_t c = 0; c < tile->channels; c++) {
        float *image = tile->image + c * tile->channel;
        const float *plane = tile->plane + c * tile->plane_channel;
#define STORE(i, y)                                                                          \
    if ((i) >= tile->first[0] && (i) < tile->end[0]) {                                       \
        const int known_ = (i) < tile->known[0] ? N : tile->known[1];                        \
        _Pragma("GCC unroll 8") for (int k_ = 0; k_ < N;                                     \
                                     k_++) if (k_ >= tile->first[1] && k_ < tile->end[1])    \
        {                                                                                    \
            fast_vec *to_ = (fast_vec *)(void *)(image + (i)*tile->row + k_ * tile->column); \
            *to_ = k_ < known_ ? *to_ + (y)[k_] : (y)[k_];                                   \
        }                                                                                    \
    }
        TWICE(MAP_B, N, N, LOAD, STORE);
#undef STORE
    }
}
#undef LOAD

static void NAME(weights)(const float *from, float *to, int64_t count)
{
    for (int64_t q = 0; q < count; q += FAST_VEC) {
#define LOAD(i, j) (*(const fast_vec *)(const void *)(from + ((i)*R + (j)) * count + q))
#define STORE(i, y)                                          \
    _Pragma("GCC unroll 8") for (int k_ = 0; k_ < N; k_++) * \
        (fast_vec *)(void *)(to + ((i)*N + k_) * count + q) = (y)[k_]
        TWICE(MAP_G, R, N, LOAD, STORE);
#undef LOAD
#undef STORE
    }
}

static void NAME(weights_grad)(const float *from, float *to, int64_t count)
{
    for (int64_t q = 0; q < count; q += FAST_VEC) {
#define LOAD(i, j) (*(const fast_vec *)(const void *)(from + ((i)*N + (j)) * count + q))
#define STORE(i, y)                                          \
    _Pragma("GCC unroll 8") for (int k_ = 0; k_ < R; k_++) * \
        (fast_vec *)(void *)(to + ((i)*R + k_) * count + q) = (y)[k_]
        TWICE(MAP_GT, N, R, LOAD, STORE);
#undef LOAD
#undef STORE
    }
}

#undef TWICE
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
