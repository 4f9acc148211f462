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
 * bypass the caches were tried and are slower at every size from 64 KiB to 32 MiB. A block of a
 * vector is mapped for the pass that reads it; where only the host exists that is a branch.
 */
#include "tensor/sum.h"

#include "tensor/clones.h"
#include "tensor/vector.h"

/* Floats of a block, and levels of the tree over FAST_SUM_MAX vectors. */
enum { BLOCK = 512, LEVELS = 12, PARTS = 4 };
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

/* y = leaf(2p) + leaf(2p+1) of a block of n: vectors `first` to `first` + 2, 3 or 4. */
static void add_leaves(const sum_tree *tree, int64_t p, int64_t n, float *y)
{
    FAST_ASSERT(p >= 0 && n > 0);
    const int64_t j = 2 * p, r = tree->pairs;
    const int64_t first = j < r ? 2 * j : j + r;
    const int count = j + 1 < r ? 4 : j < r ? 3 : 2;
    const float *x[PARTS];

    for (int i = 0; i < count; i++)
        x[i] = fast__map(tree->x[first + i] + tree->at, n, FAST_ACCESS_READ);
    if (count == 4)
        add4(n, x[0], x[1], x[2], x[3], y);
    else if (count == 3)
        add3(n, x[0], x[1], x[2], y);
    else
        add2(n, x[0], x[1], y);
    for (int i = 0; i < count; i++)
        fast__unmap(tree->x[first + i] + tree->at, n, FAST_ACCESS_READ);
}

/* The sum of a block of n >= 1 vectors' elements. */
static void sum_block(const sum_tree *tree, int64_t n, float *y)
{
    FAST_ASSERT(n > 0 && n <= BLOCK);
    float stack[LEVELS][BLOCK];
    if (tree->leaves == 1) {
        fast__vector_copy(n, tree->x[0] + tree->at, y);
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
    float *to = fast__map(y, count, FAST_ACCESS_WRITE);
    for (tree.at = offset; tree.at < offset + count; tree.at += BLOCK) {
        const int64_t left = offset + count - tree.at;
        sum_block(&tree, left < BLOCK ? left : BLOCK, to + (tree.at - offset));
    }
    fast__unmap(y, count, FAST_ACCESS_WRITE);
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
        float *a = fast__map(x[0] + offset, count, FAST_ACCESS_UPDATE);
        float *b = fast__map(x[1] + offset, count, FAST_ACCESS_UPDATE);
        add_both(count, a, b);
        fast__unmap(x[1] + offset, count, FAST_ACCESS_UPDATE);
        fast__unmap(x[0] + offset, count, FAST_ACCESS_UPDATE);
        return;
    }
    float sum[BLOCK];
    sum_tree tree = tree_of((const float *const *)x, n);
    for (tree.at = offset; n > 1 && tree.at < offset + count; tree.at += BLOCK) {
        const int64_t left = offset + count - tree.at;
        const int64_t size = left < BLOCK ? left : BLOCK;
        sum_block(&tree, size, sum);
        for (int64_t i = 0; i < n; i++)
            fast__vector_copy(size, sum, x[i] + tree.at);
    }
}
