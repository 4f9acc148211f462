/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Goal: a locally connected layer computes what a convolution does whose filters are free to differ
 * from place to place.
 *
 * Method: where all places have the filters of a convolution, outputs, losses and the gradients of
 * the layers before and behind are those of the convolution, which is tested against PyTorch's
 * numbers (oracle_test), and the gradients of the places add up to its filters'. Finite differences
 * (gradient_test) tell that each place has its own gradient.
 */
#include "jobs.h"
#include "model/network.h"
#include "model/onnx/onnx.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

enum { SAMPLES = 5, SEGMENTS = 6 };

#define BEFORE "input 2 9 7\npre: conv 3 kernel=3 pad=1\ntanh\n"
#define BEHIND "relu\ndense 5\nloss cross_entropy\n"

static fast_graph *parsed(const char *kind, const char *window)
{
    char text[512];
    fast_graph *graph = NULL;
    snprintf(text, sizeof text, BEFORE "window: %s %s\n" BEHIND, kind, window);
    if (fast__graph_parse(text, &graph))
        fail_msg("%s", fast_error_detail());
    return graph;
}

/* Give all places the filters of the convolution: its segments 2 and 3. */
static void spread(const fast_graph *conv, const float *from, const fast_graph *local, float *to)
{
    for (int s = 0; s < SEGMENTS; s++) {
        const fast_segment *a = &conv->params.segments[s], *b = &local->params.segments[s];
        for (int64_t i = 0; i < b->count; i++)
            to[b->offset + i] = from[a->offset + i % a->count];
    }
}

/* The largest difference of gradients, those of all places together, relative to the largest. */
static double gradients_apart(const fast_graph *conv, const float *right, const fast_graph *local,
                              const float *got)
{
    double far = 0, large = 0;
    for (int s = 0; s < SEGMENTS; s++) {
        const fast_segment *a = &conv->params.segments[s], *b = &local->params.segments[s];
        for (int64_t i = 0; i < a->count; i++) {
            double sum = 0;
            for (int64_t k = i; k < b->count; k += a->count)
                sum += (double)got[b->offset + k];
            far = fmax(far, fabs(sum - (double)right[a->offset + i]));
            large = fmax(large, fabs((double)right[a->offset + i]));
        }
    }
    return far / large;
}

static void equal_filters_are_a_convolution(void **state)
{
    (void)state;
    static const char *const windows[] = { "4 kernel=3 pad=1", "6 kernel=3x2 stride=2x1 pad=1x0",
                                           "5 kernel=2 dilation=2 pad=1 bias=yes",
                                           "17 kernel=5 stride=2" };
    static const char *const tiles[] = { "", " tile=1", " tile=2" };
    for (const fast_engine *const *engine = fast__engines; *engine; engine++)
        for (size_t w = 0; w < 3 * sizeof windows / sizeof windows[0]; w++) {
            char tiled[96];
            snprintf(tiled, sizeof tiled, "%s%s", windows[w / 3], tiles[w % 3]);
            fast_graph *graphs[2] = { parsed("conv", windows[w / 3]), parsed("local", tiled) };
            test_runner runners[2];
            test_job jobs[2];
            for (int k = 0; k < 2; k++) {
                test_job_open(&jobs[k], graphs[k], SAMPLES, 1);
                test_runner_open(&runners[k], *engine, graphs[k], SAMPLES);
            }
            spread(graphs[0], jobs[0].params, graphs[1], jobs[1].params);
            const int64_t inputs = SAMPLES * graphs[0]->nodes[0].count, outputs = SAMPLES * 5;
            memcpy(jobs[1].x, jobs[0].x, (size_t)inputs * sizeof(float));
            memcpy(jobs[1].labels, jobs[0].labels, SAMPLES * sizeof(int32_t));
            for (int k = 0; k < 2; k++)
                assert_int_equal(test_job_run(&jobs[k], &runners[k], &(test_job_options){ 0 }),
                                 FAST_OK);
            const double y = test_distance(outputs, jobs[1].outputs, jobs[0].outputs, 1e-2);
            const double g = gradients_apart(graphs[0], jobs[0].grad, graphs[1], jobs[1].grad);
            if (!(y < 2e-5 && g < 2e-5))
                fail_msg("%s: outputs off by %g, gradients by %g", tiled, y, g);
            for (int k = 0; k < 2; k++) {
                test_runner_close(&runners[k]);
                test_job_close(&jobs[k]);
                fast__graph_free(graphs[k]);
            }
        }
}

/* ONNX has no such operator. */
static void other_programs_have_none(void **state)
{
    (void)state;
    fast_graph *graph = parsed("local", "4 kernel=3");
    assert_int_equal(fast__onnx_check(graph), FAST_ENOTSUP);
    assert_non_null(strstr(fast_error_detail(), "a layer local cannot be saved as ONNX"));
    fast__graph_free(graph);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(equal_filters_are_a_convolution),
        cmocka_unit_test(other_programs_have_none),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
