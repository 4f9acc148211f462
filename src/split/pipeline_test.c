/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Goal: schedules run every pass once and in order, never wait for each other in a circle, take
 * messages in the order in which they were sent, retain no more activations than they say, and have
 * the bubble of the closed form.
 *
 * Method: all stages, chunks and micro-batches of small pipelines; an event simulation of equal
 * passes, whose length is compared with the formula.
 */
#include "split/pipeline.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

enum { STAGES = 6, CHUNKS = 4, MICRO = 12, ALL = STAGES * CHUNKS };

/* Call `check` for every small pipeline of a schedule that is drained. */
static void for_all(void (*check)(fast_pipe_place place))
{
    for (int64_t S = 1; S <= STAGES; S++)
        for (int64_t M = 1; M <= MICRO; M++) {
            check((fast_pipe_place){ FAST_PIPELINE_GPIPE, S, 0, M, 0 });
            check((fast_pipe_place){ FAST_PIPELINE_1F1B, S, 0, M, 1 });
            check((fast_pipe_place){ FAST_PIPELINE_ZERO_BUBBLE, S, 0, M, 1 });
            for (int64_t V = 1; V <= CHUNKS && M % S == 0; V++)
                check((fast_pipe_place){ FAST_PIPELINE_INTERLEAVED, S, 0, M, V });
        }
}

static int64_t chunks_of(const fast_pipe_place *place)
{
    return place->chunks > 1 ? place->chunks : 1;
}

/* Of each chunk, passes come in the order of micro-batches, forward before backward before those of
 * weights, within the bounds, which are reached. */
static void check_worker(const fast_pipe_place *place)
{
    int64_t next[FAST_PIPE_KINDS][CHUNKS] = { { 0 } }, most[CHUNKS] = { 0 }, now = 0, all = 0;
    const bool divides = fast__pipe_divides(place->pipeline);
    const fast_pipe_kind last = divides ? FAST_PIPE_WEIGHTS : FAST_PIPE_BACKWARD;
    for (int64_t i = 0; i < fast__pipe_moves(place); i++) {
        const fast_pipe_move move = fast__pipe_move(place, i);
        const int64_t c = move.chunk;
        assert_in_range(c, 0, chunks_of(place) - 1);
        assert_int_equal(move.micro_batch, next[move.kind][c]++);
        now += move.kind == FAST_PIPE_FORWARD ? 1 : move.kind == last ? -1 : 0;
        const int64_t flight = next[FAST_PIPE_FORWARD][c] - next[last][c];
        assert_true(next[FAST_PIPE_FORWARD][c] >= next[FAST_PIPE_BACKWARD][c]);
        assert_true(next[FAST_PIPE_BACKWARD][c] >= next[FAST_PIPE_WEIGHTS][c]);
        most[c] = flight > most[c] ? flight : most[c];
        all = now > all ? now : all;
    }
    for (int64_t c = 0; c < chunks_of(place); c++) {
        assert_int_equal(next[FAST_PIPE_FORWARD][c], place->micro_batches);
        assert_int_equal(next[FAST_PIPE_BACKWARD][c], place->micro_batches);
        assert_int_equal(next[FAST_PIPE_WEIGHTS][c], divides ? place->micro_batches : 0);
        assert_int_equal(most[c], fast__pipe_chunk_flight(place, c));
    }
    assert_int_equal(all, fast__pipe_flight(place));
}

/* The bounds of the papers. */
static void check_flight(const fast_pipe_place *place)
{
    const int64_t S = place->stages, s = place->stage, M = place->micro_batches, V = place->chunks;
    const int64_t flight = fast__pipe_flight(place);
    const int64_t ahead = V > 1 ? 2 * (S - 1 - s) + (V - 1) * S + 1 : S - s;
    if (place->pipeline == FAST_PIPELINE_GPIPE)
        assert_int_equal(flight, M);
    if (place->pipeline == FAST_PIPELINE_1F1B)
        assert_int_equal(flight, S - s < M ? S - s : M);
    if (place->pipeline == FAST_PIPELINE_ZERO_BUBBLE) /* those of the first stage of 1f1b */
        assert_int_equal(flight, S < M ? S : M);
    if (place->pipeline == FAST_PIPELINE_INTERLEAVED)
        assert_int_equal(flight, ahead < V * M ? ahead : V * M);
}

static void check_workers(fast_pipe_place place)
{
    for (place.stage = 0; place.stage < place.stages; place.stage++) {
        check_worker(&place);
        check_flight(&place);
    }
}

static void schedules_are_complete_and_bounded(void **state)
{
    (void)state;
    for_all(check_workers);
}

/* A worker sends to each neighbour what that receives next: passes of a kind are in the same order
 * at both, without those at the ends of the model. */
static void check_order(fast_pipe_place place)
{
    const int64_t S = place.stages, V = chunks_of(&place), last = V * S - 1;
    for (int kind = FAST_PIPE_FORWARD; kind <= FAST_PIPE_BACKWARD; kind++)
        for (int64_t s = 0; s < S; s++) {
            const int64_t step = kind == FAST_PIPE_FORWARD ? 1 : -1;
            fast_pipe_place from = place, to = place;
            int64_t k = 0;
            from.stage = s;
            to.stage = (s + step + S) % S;
            for (int64_t i = 0; i < fast__pipe_moves(&from); i++) {
                const fast_pipe_move sent = fast__pipe_move(&from, i);
                const int64_t q = sent.chunk * S + s + step;
                fast_pipe_move got;
                if ((int)sent.kind != kind || q < 0 || q > last)
                    continue;
                do /* the model's ends have no neighbour */
                    got = fast__pipe_move(&to, k++);
                while ((int)got.kind != kind || (step > 0 && got.chunk * S + to.stage == 0) ||
                       (step < 0 && got.chunk * S + to.stage == last));
                assert_int_equal(got.micro_batch, sent.micro_batch);
                assert_int_equal(got.chunk * S + to.stage, q);
            }
        }
}

static void messages_arrive_in_the_order_of_passes(void **state)
{
    (void)state;
    for_all(check_order);
}

/* Run all workers with passes of these lengths; gives the length of a step. */
static double simulate(fast_pipe_place place, const double *seconds)
{
    static double ready[FAST_PIPE_KINDS][ALL][MICRO]; /* when a pass has ended */
    double now[STAGES] = { 0 }, end = 0;
    const int64_t S = place.stages, count = fast__pipe_moves(&place);
    const int64_t last = chunks_of(&place) * S - 1;
    int64_t at[STAGES] = { 0 }, left = S * count;
    for (int k = 0; k < FAST_PIPE_KINDS; k++)
        for (int q = 0; q < ALL; q++)
            for (int m = 0; m < MICRO; m++)
                ready[k][q][m] = INFINITY;
    while (left > 0) {
        const int64_t before = left;
        for (place.stage = 0; place.stage < S; place.stage++) {
            const int64_t s = place.stage;
            if (at[s] == count)
                continue;
            const fast_pipe_move move = fast__pipe_move(&place, at[s]);
            const int64_t m = move.micro_batch, q = move.chunk * S + s;
            const double came =
                move.kind == FAST_PIPE_BACKWARD ? q < last ? ready[FAST_PIPE_BACKWARD][q + 1][m] : 0
                : move.kind == FAST_PIPE_FORWARD && q > 0 ? ready[FAST_PIPE_FORWARD][q - 1][m]
                                                          : 0;
            if (isinf(came))
                continue;
            now[s] = fmax(now[s], came) + seconds[move.kind];
            ready[move.kind][q][m] = now[s];
            end = fmax(end, now[s]);
            at[s]++;
            left--;
        }
        assert_true(left < before); /* nobody moves: a circle */
    }
    return end;
}

/* Forward passes of 1 and backward passes of 2, or in halves of 1. */
static void check_bubble(fast_pipe_place place)
{
    static const double whole[FAST_PIPE_KINDS] = { 1, 2 }, halves[FAST_PIPE_KINDS] = { 1, 1, 1 };
    const double *seconds = fast__pipe_divides(place.pipeline) ? halves : whole;
    const double busy = 3.0 * (double)(place.micro_batches * chunks_of(&place));
    const double bubble = 1 - busy / simulate(place, seconds);
    if (!(fabs(bubble - fast__pipe_bubble(&place)) < 1e-12))
        fail_msg("pipeline %d, S=%d M=%d V=%d: bubble %g, not %g", (int)place.pipeline,
                 (int)place.stages, (int)place.micro_batches, (int)place.chunks, bubble,
                 fast__pipe_bubble(&place));
}

static void bubbles_are_those_of_the_closed_form(void **state)
{
    (void)state;
    for_all(check_bubble);
    /* By hand: S = 4, M = 8, V = 2. */
    assert_true(
        fabs(fast__pipe_bubble(&(fast_pipe_place){ FAST_PIPELINE_INTERLEAVED, 4, 0, 8, 2 }) -
             3.0 / 19) < 1e-12);
}

/* ZB-H1 of Qi et al.: (S - 1) (F + B - W) beside (S - 1) (F + B + W) of 1f1b, from M = S on, if B
 * takes at least as long as W. */
static void zero_bubble_is_that_of_the_paper(void **state)
{
    (void)state;
    static const double times[][FAST_PIPE_KINDS] = { { 1, 1, 1 },
                                                     { 1, 1.25, 0.75 },
                                                     { 2, 1, 0.5 } };
    for (int t = 0; t < 3; t++)
        for (int64_t S = 1; S <= STAGES; S++)
            for (int64_t M = S; M <= MICRO; M++) {
                const double F = times[t][0], B = times[t][1], W = times[t][2];
                const double whole[FAST_PIPE_KINDS] = { F, B + W };
                const double busy = (double)M * (F + B + W), n = (double)(S - 1);
                const fast_pipe_place zero = { FAST_PIPELINE_ZERO_BUBBLE, S, 0, M, 1 };
                const fast_pipe_place plain = { FAST_PIPELINE_1F1B, S, 0, M, 1 };
                assert_true(fabs(simulate(zero, times[t]) - busy - n * (F + B - W)) < 1e-9);
                assert_true(fabs(simulate(plain, whole) - busy - n * (F + B + W)) < 1e-9);
            }
}

/* Pipelines whose stages have replicas: every worker of one with its own micro-batches. */
enum { REPLICAS = 3, DEEP = 4, ROUNDS = 5, LONG = 6 * ROUNDS };

/* The passes of a worker, as (backward, own micro-batch, end of a step), in their order: of steps
 * that are drained, or of a stream as trainer/pipe.c runs it. */
typedef struct worker_pass {
    bool backward; /* else forward */
    int64_t own;   /* micro-batch of the worker's */
    bool ends;     /* the last one of a step: the replicas of the stage wait for each other */
} worker_pass;

static int64_t list_passes(const fast_pipe_place *place, int64_t steps, worker_pass *out)
{
    const int64_t M = place->micro_batches, all = steps * M;
    int64_t used = 0, next = 0;
    for (int64_t n = 0; n < steps && fast__pipe_drains(place->pipeline); n++)
        for (int64_t i = 0; i < fast__pipe_moves(place); i++) {
            const fast_pipe_move move = fast__pipe_move(place, i);
            const bool ends = i == fast__pipe_moves(place) - 1;
            out[used++] =
                (worker_pass){ move.kind == FAST_PIPE_BACKWARD, n * M + move.micro_batch, ends };
        }
    for (int64_t i = 0; i < all && !fast__pipe_drains(place->pipeline); i++) {
        while (next <= i + fast__pipe_ahead(place) && next < all)
            out[used++] = (worker_pass){ false, next++, false };
        out[used++] = (worker_pass){ true, i, (i + 1) % M == 0 };
    }
    return used;
}

/* Run all workers, forward passes of stage s taking seconds[s] and backward passes twice that.
 * Gives the time of all steps; fails where nobody can move. */
static double simulate_replicas(fast_pipe_place place, const int16_t *replicas, int64_t M,
                                int64_t steps, const double *seconds)
{
    static worker_pass passes[DEEP][REPLICAS][2 * LONG];
    static double ready[2][DEEP][LONG];
    int64_t count[DEEP][REPLICAS], at[DEEP][REPLICAS] = { { 0 } }, left = 0;
    double now[DEEP][REPLICAS] = { { 0 } }, end = 0;
    bool waits[DEEP][REPLICAS] = { { false } };
    place.replicas = replicas;
    for (place.stage = 0; place.stage < place.stages; place.stage++)
        for (place.replica = 0; place.replica < replicas[place.stage]; place.replica++) {
            const int64_t s = place.stage, j = place.replica;
            place.micro_batches = M / replicas[s];
            count[s][j] = list_passes(&place, steps, passes[s][j]);
            left += count[s][j];
        }
    for (int64_t i = 0; i < 2 * DEEP * LONG; i++)
        (&ready[0][0][0])[i] = INFINITY;
    while (left > 0) {
        const int64_t before = left;
        for (int64_t s = 0; s < place.stages; s++) {
            int64_t waiting = 0;
            double latest = 0;
            for (int64_t j = 0; j < replicas[s]; j++) {
                if (waits[s][j] || at[s][j] == count[s][j])
                    continue;
                const worker_pass pass = passes[s][j][at[s][j]];
                const int64_t n = pass.own * replicas[s] + j;
                const double came = pass.backward ? s < place.stages - 1 ? ready[1][s + 1][n] : 0
                                    : s > 0       ? ready[0][s - 1][n]
                                                  : 0;
                if (isinf(came))
                    continue;
                now[s][j] = fmax(now[s][j], came) + seconds[s] * (pass.backward ? 2 : 1);
                ready[pass.backward][s][n] = now[s][j];
                end = fmax(end, now[s][j]);
                waits[s][j] = pass.ends;
                at[s][j]++;
                left--;
            }
            for (int64_t j = 0; j < replicas[s]; j++) {
                waiting += waits[s][j];
                latest = fmax(latest, now[s][j]);
            }
            for (int64_t j = 0; j < replicas[s] && waiting == replicas[s]; j++) {
                waits[s][j] = false;
                now[s][j] = latest;
            }
        }
        assert_true(left < before); /* nobody moves: a circle */
    }
    return end;
}

/* Replicas of the stages of a pipeline, by its number among all of them; gives their least common
 * multiple. */
static int64_t draw_replicas(int64_t stages, int64_t number, int16_t *out)
{
    bool has[REPLICAS + 1] = { false };
    for (int64_t s = 0; s < stages; s++, number /= REPLICAS) {
        out[s] = (int16_t)(1 + number % REPLICAS);
        has[out[s]] = true;
    }
    return (has[2] ? 2 : 1) * (has[3] ? 3 : 1);
}

/* No circles in any of them, and work in flight as it is told. */
static void replicas_do_not_wait_in_a_circle(void **state)
{
    static const double equal[DEEP] = { 1, 1, 1, 1 }, odd[DEEP] = { 1, 3, 0.5, 2 };
    static const fast_pipeline pipelines[] = { FAST_PIPELINE_1F1B, FAST_PIPELINE_GPIPE,
                                               FAST_PIPELINE_PIPEDREAM };
    (void)state;
    for (int64_t S = 1; S <= DEEP; S++)
        for (int64_t k = 0; k < 81; k++)
            for (int p = 0; p < 3; p++)
                for (int64_t delay = 1; delay <= 1 + (p == 2); delay++) {
                    int16_t replicas[DEEP];
                    const int64_t lcm = draw_replicas(S, k, replicas);
                    const fast_pipe_place place = { .pipeline = pipelines[p],
                                                    .stages = S,
                                                    .delay = delay };
                    (void)simulate_replicas(place, replicas, lcm, ROUNDS, equal);
                    (void)simulate_replicas(place, replicas, lcm, ROUNDS, odd);
                }
}

/* A stage that takes r times as long with r replicas does not hold the others up: M micro-batches
 * through equal stages, of which the first is ahead by r - 1 passes at each end. */
static void replicas_make_stages_equal(void **state)
{
    (void)state;
    for (int16_t r = 1; r <= REPLICAS; r++) {
        const int16_t replicas[] = { r, 1 };
        const double seconds[] = { r, 1 };
        const int64_t M = 24;
        const double busy = 3.0 * (double)M, ends = 3.0 * (double)r;
        const double step = simulate_replicas((fast_pipe_place){ FAST_PIPELINE_1F1B, .stages = 2 },
                                              replicas, M, 1, seconds);
        assert_true(fabs(step - busy - ends) < 1e-9);
        const double stream = simulate_replicas(
            (fast_pipe_place){ FAST_PIPELINE_PIPEDREAM, .stages = 2 }, replicas, r, M / r, seconds);
        assert_true(stream < busy + ends + 3.0 * r);
    }
}

/* By hand: three replicas, one, two. */
static void replicas_are_ahead_of_later_workers(void **state)
{
    static const int16_t replicas[] = { 3, 1, 2 };
    static const int64_t ahead[] = { 1, 2, 0 };
    (void)state;
    for (int64_t s = 0; s < 3; s++)
        for (int64_t j = 0; j < replicas[s]; j++) {
            fast_pipe_place place = { .pipeline = FAST_PIPELINE_1F1B,
                                      .stages = 3,
                                      .stage = s,
                                      .micro_batches = 12 / replicas[s],
                                      .replicas = replicas,
                                      .replica = j };
            assert_int_equal(fast__pipe_width(&place, s), replicas[s]);
            assert_int_equal(fast__pipe_number(&place, 5), 5 * replicas[s] + j);
            assert_int_equal(fast__pipe_flight(&place), ahead[s] + 1);
            assert_int_equal(fast__pipe_staleness(&place), 0);
            place.pipeline = FAST_PIPELINE_GPIPE;
            assert_int_equal(fast__pipe_flight(&place), 12 / replicas[s]);
            place.pipeline = FAST_PIPELINE_PIPEDREAM;
            place.micro_batches = 6 / replicas[s];
            place.delay = 3;
            assert_int_equal(fast__pipe_ahead(&place), 3 * ahead[s]);
            /* Of stage 0: 3 of 2 micro-batches; of stage 1: 6 of 6. */
            assert_int_equal(fast__pipe_staleness(&place), s == 0 ? 2 : s == 1 ? 1 : 0);
            place.vertical = true;
            assert_int_equal(fast__pipe_staleness(&place), 2);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(schedules_are_complete_and_bounded),
        cmocka_unit_test(messages_arrive_in_the_order_of_passes),
        cmocka_unit_test(bubbles_are_those_of_the_closed_form),
        cmocka_unit_test(zero_bubble_is_that_of_the_paper),
        cmocka_unit_test(replicas_do_not_wait_in_a_circle),
        cmocka_unit_test(replicas_make_stages_equal),
        cmocka_unit_test(replicas_are_ahead_of_later_workers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
