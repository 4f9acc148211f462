/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The canonical sum of vectors that one actor can all reach, block by block:
 *
 *     leaf(j) = x[2j] + x[2j+1]  for j < r,   x[j+r]  otherwise        j < 2^k, n = 2^k + r
 *     node(p) = leaf(2p) + leaf(2p+1), and so on up to the root
 *
 * Two leaves, that is two to four vectors, are added in one pass, so that no leaf is ever stored.
 * The nodes of a block wait on a stack with one place for each level, like the digits of a binary
 * counter, which stays in the first-level cache: every vector is read once and, where all are to
 * become the sum, written once while its lines are still in the cache. Two vectors need no stack.
 *
 * Cost of n vectors of S bytes: n S read, S or n S written, (n - 1) S / 4 additions. Stores that
 * bypass the caches were tried and are slower at every size from 64 KiB to 32 MiB.
 */
#include "comm/sum.h"

#include "tensor/clones.h"

#include <string.h>

/* Floats of a block, and levels of the tree over FAST_SUM_MAX vectors. */
enum { BLOCK = 512, LEVELS = 12 };
_Static_assert(1 << LEVELS == FAST_SUM_MAX, "the stack has a place for each level");

FAST_CLONES static void add2(int64_t n, const float *a, const float *b, float *y)
{
    FAST_EACH
    for (int64_t i = 0; i < n; i++)
        y[i] = a[i] + b[i];
}

FAST_CLONES static void add3(int64_t n, const float *a, const float *b, const float *c, float *y)
{
    FAST_EACH
    for (int64_t i = 0; i < n; i++)
        y[i] = (a[i] + b[i]) + c[i];
}

FAST_CLONES static void add4(int64_t n, const float *a, const float *b, const float *c,
                             const float *d, float *y)
{
    FAST_EACH
    for (int64_t i = 0; i < n; i++)
        y[i] = (a[i] + b[i]) + (c[i] + d[i]);
}

/* Both become their sum. */
FAST_CLONES static void add_both(int64_t n, float *a, float *b)
{
    FAST_EACH
    for (int64_t i = 0; i < n; i++) {
        const float sum = a[i] + b[i];
        a[i] = sum;
        b[i] = sum;
    }
}

/* The tree over n vectors: 2^k leaves, of which the first r are pairs. */
typedef struct sum_tree {
    const float *const *x; /* the vectors */
    int64_t at;            /* of the block in each */
    int64_t leaves;        /* 2^k */
    int64_t pairs;         /* r */
} sum_tree;

static sum_tree tree_of(const float *const *x, int64_t n)
{
    FAST_ASSERT(n >= 1);
    FAST_ASSERT(n <= FAST_SUM_MAX);
    int64_t leaves = 1;
    while (leaves * 2 <= n)
        leaves *= 2;
    return (sum_tree){ .x = x, .leaves = leaves, .pairs = n - leaves };
}

/* y = leaf(2p) + leaf(2p+1) of a block of n. */
static void add_leaves(const sum_tree *tree, int64_t p, int64_t n, float *y)
{
    FAST_ASSERT(p >= 0 && n > 0);
    const float *const *x = tree->x;
    const int64_t at = tree->at;
    const int64_t r = tree->pairs;
    const int64_t j = 2 * p;
    if (j + 1 < r)
        add4(n, x[2 * j] + at, x[2 * j + 1] + at, x[2 * j + 2] + at, x[2 * j + 3] + at, y);
    else if (j < r)
        add3(n, x[2 * j] + at, x[2 * j + 1] + at, x[j + 1 + r] + at, y);
    else
        add2(n, x[j + r] + at, x[j + 1 + r] + at, y);
}

/* The sum of a block of n >= 1 vectors' elements. */
static void sum_block(const sum_tree *tree, int64_t n, float *y)
{
    FAST_ASSERT(n > 0 && n <= BLOCK);
    float stack[LEVELS][BLOCK];
    if (tree->leaves == 1) {
        memcpy(y, tree->x[0] + tree->at, (size_t)n * sizeof *y);
        return;
    }
    const int64_t nodes = tree->leaves / 2;
    int height = 0; /* of nodes on the stack */
    for (int64_t p = 0; p < nodes; p++) {
        float *top = nodes == 1 ? y : stack[height];
        add_leaves(tree, p, n, top);
        height++;
        /* As often as 2 divides p + 1: add the two topmost nodes. */
        for (int64_t left = p + 1; left % 2 == 0; left /= 2) {
            height--;
            float *sum = p + 1 == nodes && height == 1 ? y : stack[height - 1];
            add2(n, stack[height - 1], stack[height], sum);
        }
    }
    FAST_ASSERT(height == 1);
}

void fast__sum_range(const float *const *x, int64_t n, int64_t offset, int64_t count, float *y)
{
    FAST_ASSERT(offset >= 0);
    FAST_ASSERT(count >= 0);
    sum_tree tree = tree_of(x, n);
    for (tree.at = offset; tree.at < offset + count; tree.at += BLOCK) {
        const int64_t left = offset + count - tree.at;
        sum_block(&tree, left < BLOCK ? left : BLOCK, y + (tree.at - offset));
    }
}

void fast__sum(const float *const *x, int64_t n, int64_t count, float *y)
{
    FAST_ASSERT(y);
    fast__sum_range(x, n, 0, count, y);
}

void fast__sum_all(float *const *x, int64_t n, int64_t offset, int64_t count)
{
    FAST_ASSERT(offset >= 0);
    FAST_ASSERT(count >= 0);
    if (n == 2) {
        add_both(count, x[0] + offset, x[1] + offset);
        return;
    }
    float sum[BLOCK];
    sum_tree tree = tree_of((const float *const *)x, n);
    for (tree.at = offset; n > 1 && tree.at < offset + count; tree.at += BLOCK) {
        const int64_t left = offset + count - tree.at;
        const int64_t size = left < BLOCK ? left : BLOCK;
        sum_block(&tree, size, sum);
        for (int64_t i = 0; i < n; i++)
            memcpy(x[i] + tree.at, sum, (size_t)size * sizeof *sum);
    }
}
