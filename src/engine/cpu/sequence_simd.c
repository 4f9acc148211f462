/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Products of one matrix with all positions of a sequence, by the tiles of gemm_simd.c:
 *
 *     products   y_p (L x N) = x_p (L x K) w (K x N)            for every position p
 *     sums       dw (C x O) = sum over p of x_p' (C x L) dy_p (L x O)
 *
 * One position may have as few as 16 lanes. A product of its own would walk through all of w, which
 * is often larger than a cache, for 16 rows. Here the registers of a panel are those of several
 * positions, w is packed once for all of them, and a sum over positions stays in registers for
 * DEPTH terms instead of one position's.
 *
 *          K (DEPTH at a time)          N (6 at a time)
 *         +-----------+                +---+---+---
 *   p 0   | registers |          w     |   |   |         packed: [K / DEPTH][N / 6][DEPTH][6]
 *   p 1   |  of one   |                +---+---+---
 *   p 2   |   panel   |
 *
 * For sums the activations are stored in panels of sample-major columns, [C / tile][P L][tile], and
 * the terms of dy are copied next to each other. Terms are added in the order of k, then of p, so
 * that the bits are those of one product a position.
 */
#define VEC_INLINE static inline __attribute__((always_inline))
#include "engine/cpu/gemm_kernels.h"
#include "engine/cpu/sequence_kernels.h"
#include "engine/cpu/vec.h"

enum { ROWS = VEC_REGISTERS == 32 ? 4 : 2 };
enum { TILE = ROWS * VEC, COLUMNS = FAST_GEMM_COLUMNS, DEPTH = FAST_SEQUENCE_DEPTH };

static int64_t least(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

/* Ask for the lines of `count` floats: what the next tile reads comes while this one computes. */
VEC_INLINE void ask(const float *p, int64_t count)
{
    for (int64_t i = 0; i < count; i += 64 / (int64_t)sizeof *p)
        __builtin_prefetch(p + i);
}

/* Pack w, of which element (k, n) is at n * ldw + k, or at k * ldw + n if `trans`. The columns past
 * the last stay as they are: nothing reads them. */
static void pack(int64_t K, int64_t N, const float *w, int64_t ldw, bool trans, float *to)
{
    for (int64_t k = 0; k < K; k += DEPTH) {
        const int64_t depth = least(K - k, DEPTH);
        for (int64_t j = 0; j < N; j += COLUMNS, to += depth * COLUMNS) {
            const int64_t n = least(N - j, COLUMNS);
            if (trans) {
                for (int64_t p = 0; p < depth; p++)
                    for (int64_t i = 0; i < n; i++)
                        to[p * COLUMNS + i] = w[(k + p) * ldw + j + i];
                continue;
            }
            for (int64_t i = 0; i < n; i++)
                for (int64_t p = 0; p < depth; p++)
                    to[p * COLUMNS + i] = w[(j + i) * ldw + k + p];
        }
    }
}

/* Where the registers of a panel are: the first ones of all positions, then the next ones. */
typedef struct panel_place {
    int rows;                         /* registers, fewer in the last panel */
    int64_t from[FAST_GEMM_ROWS_MAX]; /* floats from x to each, at k = 0 */
    int64_t at[FAST_GEMM_ROWS_MAX];   /* floats from y to each, at n = 0 */
} panel_place;

/* The panel that starts with register r of P positions. */
static panel_place place_of(int64_t r, int64_t P, int64_t L, int64_t K, int64_t N)
{
    panel_place place = { .rows = (int)least(P * (L / VEC) - r, ROWS) };

    for (int i = 0; i < place.rows; i++) {
        const int64_t p = (r + i) / (L / VEC), lane = (r + i) % (L / VEC) * VEC;
        place.from[i] = p * K * L + lane;
        place.at[i] = p * N * L + lane;
    }
    return place;
}

/* to[k][TILE] = the registers of x; those past the last stay as they are. */
static void pack_panel(int64_t depth, int64_t L, const panel_place *place, const float *x,
                       float *to)
{
    for (int i = 0; i < place->rows; i++)
        for (int64_t k = 0; k < depth; k++)
            vec_store(to + k * TILE + i * VEC, vec_load(x + place->from[i] + k * L));
}

/* Ask for the part of the next panel that falls to columns [j, j + COLUMNS) of N. */
VEC_INLINE void ask_panel(int64_t depth, int64_t L, const panel_place *place, const float *x,
                          int64_t j, int64_t N)
{
    for (int64_t k = j * depth / N; k < (j + COLUMNS) * depth / N; k++)
        for (int i = 0; i < place->rows; i++)
            __builtin_prefetch(x + place->from[i] + k * L);
}

/* All products of P positions: depth by depth, panel by panel, tile by tile. */
static void products(int64_t P, int64_t L, int64_t K, int64_t N, const float *x,
                     const float *packed, bool accumulate, float *y)
{
    _Alignas(64) float panel[DEPTH * TILE];
    const int64_t wide = (N + COLUMNS - 1) / COLUMNS * COLUMNS;

    for (int64_t k = 0; k < K; k += DEPTH) {
        const int64_t depth = least(K - k, DEPTH);
        panel_place place = place_of(0, P, L, K, N);
        for (int64_t r = 0; place.rows > 0; r += ROWS) {
            const panel_place next = place_of(r + ROWS, P, L, K, N);
            pack_panel(depth, L, &place, x + k * L, panel);
            fast_gemm_tile tile = { .k = depth,
                                    .a = panel,
                                    .lda = TILE,
                                    .b = packed + k * wide,
                                    .c = y,
                                    .ldc = L,
                                    .at = place.at,
                                    .accumulate = accumulate || k > 0 };
            for (int64_t j = 0; j < N; j += COLUMNS) {
                ask_panel(depth, L, &next, x + k * L, j, N);
                FAST_SIMD(fast__gemm_kernels)
                    .tile[FAST_GEMM_PACKED][place.rows - 1][least(N - j, COLUMNS) - 1](&tile);
                tile.b += depth * COLUMNS;
                tile.c += COLUMNS * L;
            }
            place = next;
        }
    }
}

/* Add the products of some terms to O rows of dw: `panel` floats from one panel of columns to the
 * next. */
static void add_terms(int64_t C, int64_t O, int64_t panel, const fast_gemm_tile *terms, float *dw)
{
    static const int64_t side_by_side[FAST_GEMM_ROWS_MAX] = { 0, VEC, 2 * VEC, 3 * VEC };
    _Alignas(64) float edge[COLUMNS * TILE];
    fast_gemm_tile tile = *terms;

    for (int64_t c = 0; c < C; c += TILE, tile.a += panel) {
        const int64_t width = least(C - c, TILE);
        /* Of the next panel's floats, as many as a column's share. */
        const int64_t share = tile.k * TILE / O;
        const int64_t rows = (width + VEC - 1) / VEC;
        for (int64_t j = 0; j < O; j += COLUMNS) {
            const int64_t n = least(O - j, COLUMNS);
            float *to = dw + j * C + c;
            fast_gemm_tile_fn *run =
                FAST_SIMD(fast__gemm_kernels).tile[FAST_GEMM_DOWN][rows - 1][n - 1];
            tile.b = terms->b + j * tile.stride;
            tile.at = side_by_side;
            tile.c = to;
            tile.ldc = C;
            if (c + TILE < C)
                ask(tile.a + panel + j * share, COLUMNS * share);
            if (width % VEC == 0) {
                run(&tile);
                continue;
            }
            tile.c = edge;
            tile.ldc = TILE;
            for (int64_t i = 0; tile.accumulate && i < n; i++)
                memcpy(edge + i * TILE, to + i * C, (size_t)width * sizeof *edge);
            run(&tile);
            for (int64_t i = 0; i < n; i++)
                memcpy(to + i * C, edge + i * TILE, (size_t)width * sizeof *edge);
        }
    }
}

/* Copy l lanes of P positions of `rows` rows of dy, positions `jump` floats apart, to rows of DEPTH
 * terms. */
static void copy_terms(int64_t P, int64_t l, int64_t L, int64_t jump, int64_t rows, const float *dy,
                       float *to)
{
    for (int64_t p = 0; p < P; p++, dy += jump, to += l)
        for (int64_t i = 0; i < rows; i++)
            for (int64_t at = 0; at < l; at += VEC)
                vec_store(to + i * DEPTH + at, vec_load(dy + i * L + at));
}

/* Rows [first, first + rows) of dw; see fast_sequence_kernels. Positions go together until they
 * have DEPTH terms; more lanes than DEPTH are cut. */
static void sums(const fast_sequence_sums *s, int64_t first, int64_t rows, const float *x,
                 const float *dy, float *scratch, float *dw)
{
    const int64_t P = s->positions, L = s->lanes, group = L < DEPTH ? DEPTH / L : 1;

    for (int64_t p = 0; p < P; p += group)
        for (int64_t l = 0; l < L; l += DEPTH) {
            const int64_t lanes = least(L - l, DEPTH), count = least(P - p, group);
            const fast_gemm_tile terms = { .k = count * lanes,
                                           .a = x + (p * L + l) * TILE,
                                           .lda = TILE,
                                           .b = scratch,
                                           .stride = DEPTH,
                                           .accumulate = p > 0 || l > 0 };
            copy_terms(count, lanes, L, s->outputs * L, rows, dy + (p * s->outputs + first) * L + l,
                       scratch);
            add_terms(s->inputs, rows, P * L * TILE, &terms, dw + first * s->inputs);
        }
}

const fast_sequence_kernels FAST_SIMD(fast__sequence_kernels) = {
    .tile = TILE, .pack = pack, .products = products, .sums = sums
};
