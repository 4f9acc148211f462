/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Goal: schedules run every pass once and in order, never wait for each other in a circle, retain
 * no more activations than they say, and have the bubble of the closed form.
 *
 * Method: all stages and micro-batches of small pipelines; an event simulation of equal passes,
 * whose length is compared with the formula.
 */
#include "split/pipeline.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

enum { STAGES = 6, MICRO = 9 };

/* Passes come in the order of micro-batches, forward before backward, within the bound. */
static void check_stage(const fast_pipe_place *place)
{
    int64_t forward = 0, backward = 0, most = 0;
    for (int64_t i = 0; i < 2 * place->micro_batches; i++) {
        const fast_pipe_move move = fast__pipe_move(place, i);
        if (move.backward) {
            assert_int_equal(move.micro_batch, backward++);
            assert_true(move.micro_batch < forward);
        } else {
            assert_int_equal(move.micro_batch, forward++);
        }
        most = forward - backward > most ? forward - backward : most;
    }
    assert_int_equal(forward, place->micro_batches);
    assert_int_equal(backward, place->micro_batches);
    assert_int_equal(most, fast__pipe_flight(place));
    if (place->pipeline == FAST_PIPELINE_1F1B)
        assert_true(most <= place->stages - place->stage);
}

/* Run all stages with forward passes of 1 and backward passes of 2; gives the length of a step. */
static double simulate(fast_pipeline pipeline, int64_t stages, int64_t micro)
{
    double ready[2][STAGES][MICRO]; /* when a pass has ended */
    double now[STAGES] = { 0 }, end = 0;
    int64_t at[STAGES] = { 0 }, left = 2 * stages * micro;
    for (int b = 0; b < 2; b++)
        for (int s = 0; s < STAGES; s++)
            for (int m = 0; m < MICRO; m++)
                ready[b][s][m] = INFINITY;
    while (left > 0) {
        const int64_t before = left;
        for (int64_t s = 0; s < stages; s++) {
            const fast_pipe_place place = { pipeline, stages, s, micro };
            if (at[s] == 2 * micro)
                continue;
            const fast_pipe_move move = fast__pipe_move(&place, at[s]);
            const int64_t m = move.micro_batch;
            const double came = move.backward ? s < stages - 1 ? ready[1][s + 1][m] : 0
                                : s > 0       ? ready[0][s - 1][m]
                                              : 0;
            if (isinf(came))
                continue;
            now[s] = fmax(now[s], came) + (move.backward ? 2 : 1);
            ready[move.backward][s][m] = now[s];
            end = fmax(end, now[s]);
            at[s]++;
            left--;
        }
        assert_true(left < before); /* nobody moves: a circle */
    }
    return end;
}

static void schedules_are_complete_and_bounded(void **state)
{
    (void)state;
    for (int64_t S = 1; S <= STAGES; S++)
        for (int64_t M = 1; M <= MICRO; M++)
            for (int64_t s = 0; s < S; s++) {
                check_stage(&(fast_pipe_place){ FAST_PIPELINE_GPIPE, S, s, M });
                check_stage(&(fast_pipe_place){ FAST_PIPELINE_1F1B, S, s, M });
            }
}

static void bubbles_are_those_of_the_closed_form(void **state)
{
    (void)state;
    for (int p = FAST_PIPELINE_1F1B; p <= FAST_PIPELINE_GPIPE; p++)
        for (int64_t S = 1; S <= STAGES; S++)
            for (int64_t M = 1; M <= MICRO; M++) {
                const fast_pipe_place place = { (fast_pipeline)p, S, 0, M };
                const double length = simulate((fast_pipeline)p, S, M);
                const double bubble = 1 - 3.0 * (double)M / length;
                assert_true(fabs(bubble - fast__pipe_bubble(&place)) < 1e-12);
            }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(schedules_are_complete_and_bounded),
        cmocka_unit_test(bubbles_are_those_of_the_closed_form),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
