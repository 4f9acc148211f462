/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The canonical sum of vectors that one actor can all reach, block by block:
 *
 *     leaf(j) = x[2j] + x[2j+1]  for j < r,   x[j+r]  otherwise        j < 2^k, n = 2^k + r
 *     node(p) = leaf(2p) + leaf(2p+1), and so on up to the root
 *
 * Two leaves, that is two to four vectors, are added in one pass, so that no leaf is ever stored.
 * The nodes of a block wait on a stack with one place for each level, like the digits of a binary
 * counter, which stays in the first-level cache: every vector is read once.
 *
 * Cost of n vectors of S bytes: n S read, S or n S written, (n - 1) S / 4 additions. A block of a
 * vector is mapped for the pass that reads it; on the host that is a pointer and two comparisons.
 */
#include "tensor/clones.h"
#include "tensor/view.h"

#include <string.h>

/* Floats of a block, and levels of the tree over FAST_VIEW_SUM_MAX vectors. */
enum { BLOCK = 512, LEVELS = 12, LEAVES_MAX = 4 };
_Static_assert(1 << LEVELS == FAST_VIEW_SUM_MAX, "the stack has a place for each level");

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

/* The tree over n vectors, at one block of each. */
typedef struct view_tree {
    const fast_view *x; /* the vectors */
    int64_t leaves;     /* 2^k */
    int64_t pairs;      /* r: the first leaves are pairs of vectors */
    int64_t at;         /* first element of the block */
    int64_t count;      /* elements of the block, at most BLOCK */
} view_tree;

static view_tree tree_of(const fast_view *x, int64_t n)
{
    FAST_ASSERT(n >= 1 && n <= FAST_VIEW_SUM_MAX);
    int64_t leaves = 1;
    while (leaves * 2 <= n)
        leaves *= 2;
    return (view_tree){ .x = x, .leaves = leaves, .pairs = n - leaves };
}

/* Move to the block that begins at element `at` of `count`. */
static void set_block(view_tree *tree, int64_t at, int64_t count)
{
    tree->at = at;
    tree->count = count - at < BLOCK ? count - at : BLOCK;
}

/* y = leaf(2p) + leaf(2p+1) of the block: vectors `first` to `first` + 2, 3 or 4. */
static void add_leaves(const view_tree *tree, int64_t p, float *y)
{
    const int64_t j = 2 * p, r = tree->pairs;
    const int64_t first = j < r ? 2 * j : j + r;
    const int count = j + 1 < r ? 4 : j < r ? 3 : 2;
    fast_view part[LEAVES_MAX];
    float *x[LEAVES_MAX];

    for (int i = 0; i < count; i++) {
        part[i] = fast__view_slice(tree->x[first + i], tree->at, tree->count);
        x[i] = fast__view_map(part[i], FAST_ACCESS_READ);
    }
    if (count == 4)
        add4(tree->count, x[0], x[1], x[2], x[3], y);
    else if (count == 3)
        add3(tree->count, x[0], x[1], x[2], y);
    else
        add2(tree->count, x[0], x[1], y);
    for (int i = 0; i < count; i++)
        fast__view_unmap(part[i], FAST_ACCESS_READ, x[i]);
}

/* y = the sum of the block over two or more vectors. */
static void sum_block(const view_tree *tree, float *y)
{
    float stack[LEVELS][BLOCK];
    const int64_t nodes = tree->leaves / 2;
    int height = 0; /* of nodes on the stack */

    FAST_ASSERT(nodes >= 1);
    for (int64_t p = 0; p < nodes; p++) {
        add_leaves(tree, p, nodes == 1 ? y : stack[height]);
        height++;
        /* As often as 2 divides p + 1: add the two topmost nodes. */
        for (int64_t left = p + 1; left % 2 == 0; left /= 2) {
            height--;
            float *sum = p + 1 == nodes && height == 1 ? y : stack[height - 1];
            add2(tree->count, stack[height - 1], stack[height], sum);
        }
    }
    FAST_ASSERT(height == 1);
}

/* Assert that vectors have the count and the device of y. */
static void check_like(const fast_view *x, int64_t n, fast_view y)
{
    for (int64_t i = 0; i < n; i++) {
        FAST_ASSERT(x[i].count == y.count);
        FAST_ASSERT(x[i].device == y.device);
    }
}

void fast__view_sum(const fast_view *x, int64_t n, fast_view y)
{
    view_tree tree = tree_of(x, n);

    check_like(x, n, y);
    if (n == 1) {
        fast__view_copy(x[0], y);
        return;
    }
    float *to = fast__view_map(y, FAST_ACCESS_WRITE);
    for (int64_t at = 0; at < y.count; at += BLOCK) {
        set_block(&tree, at, y.count);
        sum_block(&tree, to + at);
    }
    fast__view_unmap(y, FAST_ACCESS_WRITE, to);
}

void fast__view_sum_all(const fast_view *x, int64_t n)
{
    view_tree tree = tree_of(x, n);
    float sum[BLOCK];

    check_like(x, n, x[0]);
    for (int64_t at = 0; n > 1 && at < x[0].count; at += BLOCK) {
        set_block(&tree, at, x[0].count);
        sum_block(&tree, sum);
        for (int64_t i = 0; i < n; i++)
            fast__view_copy(fast__view_input(sum, tree.count),
                            fast__view_slice(x[i], at, tree.count));
    }
}
