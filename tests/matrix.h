/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "base/err.h"
#include "cover.h"
#include "fast/plugin.h"

#include <stdbool.h>
#include <stdint.h>

/*
 * The compatibility matrix: its dimensions, and what a cell does. A cell is one value of each
 * dimension, a run of four workers on a few points that takes milliseconds. Strategies are those of
 * the registry and, as members of each, what the presets of the named systems choose; topologies,
 * update rules and transports are those of the registries.
 *
 * A further dimension is a line in matrix.c: its option, and where its values come from.
 */
enum { TEST_STRATEGY, TEST_TOPOLOGY, TEST_RULE, TEST_TRANSPORT, TEST_DIMENSIONS };
enum { TEST_VALUES_MAX = 160, TEST_CELL_TEXT = 320 };

typedef struct test_dimension {
    const char *option;                  /* of a run: "topology" */
    const char *values[TEST_VALUES_MAX]; /* its values, as the option takes them */
    int count;                           /* entries of values */
} test_dimension;

/* Points of four classes that a small network tells apart soon; one thread at a time may ask. The
 * caller frees them. */
enum { TEST_POINTS_MAX = 256 };
fast_data *test_points(int64_t count, uint64_t stream);

/* 192 and 64 of these points, between the setup and the teardown of a group of tests. */
extern fast_data *test_train_points, *test_test_points;
int test_points_begin(void **state);
int test_points_end(void **state);

/* The dimensions; the same list at each call. Lists of values are constant from the first on. */
const test_dimension *test_matrix(void);

typedef enum test_outcome {
    TEST_RAN,     /* it ran, its loss fell, and in sim it did the same on the device check */
    TEST_REFUSED, /* FAST_EINVAL or FAST_ENOTSUP, with a sentence */
    TEST_FAILED   /* anything else */
} test_outcome;

/* Run a cell: for one step only where `probe`, so that it says whether the cell is refused and
 * nothing more. `why` receives the sentence of a refusal or a failure. */
test_outcome test_cell(const test_row *cell, bool probe, char why[TEST_CELL_TEXT]);

/* "strategy=gossip topology=ring optimizer=sgd transport=sim" */
void test_cell_name(const test_row *cell, char text[TEST_CELL_TEXT]);

/* The strategy of the registry that a member is of. */
bool test_member_of(const char *member, const char *strategy);
/* Whether its workers must share memory. */
bool test_is_near(const char *member);
/* Whether that strategy has a topology to choose. */
bool test_has_topology(const char *member);
