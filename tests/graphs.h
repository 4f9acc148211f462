/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "engine/element.h"
#include "engine/engine.h"

/*
 * Graphs by hand, for tests of engines: one line adds a node,
 *
 *     conv out=5 kernel=3x2 stride=2 pad=1x0 dilation=1 groups=1 bias=0 norm=1
 *     max_pool kernel=2 stride=2      batch_norm ghost=4      embed out=7 vocabulary=11 position=1
 *     map kind=2 a=0 b=6      scale shape=1x5      transpose order=1x0      slice axis=1 start=1
 * count=2
 *     route kind=2 slots=3      dispatch slots=12      experts out=5 count=4      head balance=1
 *     delay steps=1      repeat count=4
 *     lstm out=6      attention heads=2      leaky_relu a=0.1      dropout a=0.5      dense out=4
 *
 * and a case is one operator with the shapes of its inputs and the batch:
 *
 *     conv n=3 in=4x7x9 out=6 kernel=3 stride=2        concat n=2 in=3x4x5,2x4x5
 *
 * A pair such as a kernel is "3" or "3x2" (y, x).
 */
enum { TEST_NODES_MAX = 48, TEST_SEGMENTS_MAX = 96 };

typedef struct test_graph {
    fast_graph graph;
    fast_node nodes[TEST_NODES_MAX];
    fast_segment params[TEST_SEGMENTS_MAX];
    fast_segment state[TEST_SEGMENTS_MAX];
    fast_element elements[TEST_NODES_MAX]; /* configurations of elementary nodes, by node */
    int64_t n;                             /* a case's batch */
    int op;                                /* a case's node under test */
    int input_count;                       /* a case's inputs */
    int64_t x[FAST_INPUTS_MAX];       /* segment that holds input k of a case, or -1: the batch */
    int64_t x_count[FAST_INPUTS_MAX]; /* elements of input k of one sample */
} test_graph;

/* Node 0 of the given shape, "3x7x9"; vocabulary > 0 makes it tokens. */
void test_graph_begin(test_graph *g, const char *shape, int64_t vocabulary);

/* Add a node on other nodes; gives its index. */
int test_graph_add(test_graph *g, const char *text, int input_count, const int *inputs);
int test_graph_add1(test_graph *g, const char *text, int input);
int test_graph_add2(test_graph *g, const char *text, int input, int input2);
/* On the node before. */
int test_graph_then(test_graph *g, const char *text);
/* An operator of the user's that gives its input another shape. */
int test_graph_reshape(test_graph *g, const char *shape, int input);

/* Operators with attributes, odd shapes and limit cases, for every suite; the last is NULL. */
extern const char *const test_cases[];

/* Set the loss; the last node gives the outputs. Heads have the same loss, a weight `a`, a
 * smoothing `b`, and with squares answer the targets from `first` on. */
void test_graph_end(test_graph *g, fast_loss loss, float label_smoothing);

/* The graph of a case. The inputs of its operator are parameters (rows of embeddings, one a
 * sample), so that their gradients can be seen; with `direct` they are the batch itself, as in the
 * first layer of a network. The loss is the mean of squares. */
void test_graph_case(test_graph *g, const char *text, bool direct);

/* The number after "key=" in a line, or the standard value; and whether "key=value" is there. */
double test_word_number(const char *text, const char *key, double standard);
bool test_word_is(const char *text, const char *key, const char *value);

/* Fill with numbers in [-spread, spread] that depend on the seed only. */
void test_fill(uint64_t seed, int64_t count, float spread, float *out);

/* Random parameters for a case, such that no function has a kink within `margin` of them; state is
 * mean 0.1 and variance 1.5, or so. x as in a batch: tokens, or the case's direct input. */
void test_graph_init(const test_graph *g, uint64_t seed, float *params, float *state, float *x);

/* An engine with a compiled graph. Fails the test where something fails. */
typedef struct test_runner {
    const fast_engine *engine;
    fast_program *program;
    fast_workspace *workspace;
} test_runner;

void test_runner_open(test_runner *runner, const fast_engine *engine, const fast_graph *graph,
                      int64_t batch);
void test_runner_close(test_runner *runner);

/* Largest |a - b|, divided by the largest |b| or by `floor`: NaN counts as infinite. */
double test_distance(int64_t count, const float *a, const float *b, double floor);

/* Allocate memory for tests; aborts when memory is exhausted. */
float *test_floats(int64_t count);
