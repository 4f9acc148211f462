/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/*
 * A pairwise cover: rows that choose a value in each of some dimensions, so that every two values
 * of two dimensions that go together occur in a row. It has about as many rows as the two largest
 * dimensions have pairs, where all combinations are the product of all. The same at each call.
 */
enum { TEST_DIMENSIONS_MAX = 6 };

typedef struct test_row {
    int value[TEST_DIMENSIONS_MAX]; /* by dimension */
} test_row;

/* Whether value va of dimension a goes with vb of b; a < b. */
typedef bool test_pair_fn(const void *ctx, int a, int va, int b, int vb);

/* Cover `count` dimensions, where dimension i has sizes[i] values, in rows[0 .. room). Returns the
 * number of rows; -1 if a pair that is allowed does not fit in any row, or there is no room. */
int test_cover(const int *sizes, int count, test_pair_fn *allowed, const void *ctx, test_row *rows,
               int room);
