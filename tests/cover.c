/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The pairwise cover of tests, greedily: a row begins with the first pair that is missing; each
 * further dimension takes the value that goes with those before and adds the most missing pairs, of
 * several the one that was taken least. Rows times values times dimensions: microseconds each.
 */
#include "cover.h"

#include "base/err.h"
#include "base/memory.h"

#include <string.h>

typedef struct cover {
    const int *sizes;               /* of the dimensions */
    int count;                      /* number of dimensions */
    test_pair_fn *allowed;          /* which pairs go together */
    const void *ctx;                /* for it */
    int first[TEST_DIMENSIONS_MAX]; /* number of a dimension's first value among all */
    int total;                      /* values of all dimensions */
    bool *missing;                  /* [total][total]: lower dimension first */
    int64_t *used;                  /* [total]: rows with that value */
} cover;

static bool *at(const cover *c, int a, int va, int b, int vb)
{
    FAST_ASSERT(a != b);
    if (a > b)
        return at(c, b, vb, a, va);
    return &c->missing[(int64_t)(c->first[a] + va) * c->total + c->first[b] + vb];
}

static bool goes(const cover *c, int a, int va, int b, int vb)
{
    return a < b ? c->allowed(c->ctx, a, va, b, vb) : c->allowed(c->ctx, b, vb, a, va);
}

/* Missing pairs that value v of dimension d adds to a row; -1: it does not go with it. */
static int gain(const cover *c, const test_row *row, int d, int v)
{
    int sum = 0;

    for (int b = 0; b < c->count; b++) {
        if (b == d || row->value[b] < 0)
            continue;
        if (!goes(c, d, v, b, row->value[b]))
            return -1;
        sum += *at(c, d, v, b, row->value[b]);
    }
    return sum;
}

/* Choose the dimensions that are still free; false if none goes. */
static bool complete(const cover *c, test_row *row)
{
    for (int d = 0; d < c->count; d++) {
        int best = -1, best_gain = -1;

        if (row->value[d] >= 0)
            continue;
        for (int v = 0; v < c->sizes[d]; v++) {
            const int g = gain(c, row, d, v);

            if (g > best_gain || (g >= 0 && g == best_gain &&
                                  c->used[c->first[d] + v] < c->used[c->first[d] + best])) {
                best = v;
                best_gain = g;
            }
        }
        if (best < 0)
            return false;
        row->value[d] = best;
    }
    return true;
}

/* Note that a row is in the cover. */
static void take(cover *c, const test_row *row)
{
    for (int a = 0; a < c->count; a++) {
        c->used[c->first[a] + row->value[a]]++;
        for (int b = a + 1; b < c->count; b++)
            *at(c, a, row->value[a], b, row->value[b]) = false;
    }
}

/* Rows for all missing pairs of two dimensions. */
static int add_rows(cover *c, int a, int b, test_row *rows, int used, int room)
{
    for (int va = 0; va < c->sizes[a]; va++)
        for (int vb = 0; vb < c->sizes[b]; vb++) {
            test_row row;

            if (!*at(c, a, va, b, vb))
                continue;
            memset(&row, -1, sizeof row);
            row.value[a] = va;
            row.value[b] = vb;
            if (used == room || !complete(c, &row))
                return -1;
            take(c, &row);
            rows[used++] = row;
        }
    return used;
}

int test_cover(const int *sizes, int count, test_pair_fn *allowed, const void *ctx, test_row *rows,
               int room)
{
    cover c = { .sizes = sizes, .count = count, .allowed = allowed, .ctx = ctx };
    int used = 0;

    FAST_ASSERT(count > 0 && count <= TEST_DIMENSIONS_MAX);
    for (int d = 0; d < count; d++) {
        FAST_ASSERT(sizes[d] > 0);
        c.first[d] = c.total;
        c.total += sizes[d];
    }
    if (fast__alloc("pairs", (int64_t)c.total * c.total, sizeof *c.missing, &c.missing) ||
        fast__alloc("values", c.total, sizeof *c.used, &c.used))
        used = -1;
    for (int a = 0; a < count && used == 0; a++)
        for (int b = a + 1; b < count; b++)
            for (int i = 0; i < sizes[a] * sizes[b]; i++)
                *at(&c, a, i / sizes[b], b, i % sizes[b]) =
                    allowed(ctx, a, i / sizes[b], b, i % sizes[b]);
    for (int a = 0; a < count; a++)
        for (int b = a + 1; b < count && used >= 0; b++)
            used = add_rows(&c, a, b, rows, used, room);
    fast__free(c.missing);
    fast__free(c.used);
    return used;
}
