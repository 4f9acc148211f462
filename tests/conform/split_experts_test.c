/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Goal: experts that are split over shards are those of the whole model: losses, gradients and what
 * is sent.
 *
 * Method: transformers with a mixture of experts, with one and with two experts of a position and
 * with slots that are too few, are trained split and whole: after one step of plain descent, whose
 * change is the gradient, and after 20 steps. The bytes that shards send are counted by hand.
 *
 * The word "mpi" runs all that does not need virtual time over the ranks of mpirun.
 */
#include "split_runs.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

static const char *const small[] = { "data=copy:train=160,test=32",
                                     "engine=ref",
                                     "plan=no",
                                     "timeout=60",
                                     "batch=4",
                                     "accumulate=2",
                                     "evaluate=no",
                                     "optimizer=sgd",
                                     "lr=0.1",
                                     NULL };

/* Parameters and losses of a split run are those of the whole one. */
static void check(const char *model, const char *mesh, const char *more, double bound)
{
    test_split_equals(small, (const char *const[]){ model, more, NULL }, mesh, NULL, bound);
}

static void splits_equal_the_whole(void **state)
{
    (void)state;
    static const char *const models[] = {
        "model=gpt:width=16,heads=2,depth=1,experts=4",
        "model=gpt:width=16,heads=2,depth=2,experts=4,top=2,capacity=0.8,balance=0.5",
        "model=gpt:width=16,heads=2,depth=2,experts=4,every=2,capacity=0.6,dropout=0.1",
    };
    static const char *const meshes[] = { "mesh=tensor=2", "mesh=tensor=4", "mesh=data=2,tensor=2",
                                          "mesh=pipe=2,tensor=2" };
    for (int m = 0; m < 3; m++)
        for (int k = 0; k < 4; k++) {
            if (m == 0 && k == 3) /* one block, of which each stage has a half */
                continue;
            check(models[m], meshes[k], "steps=1", 1e-5);
            check(models[m], meshes[k], "steps=20", 1e-4);
        }
}

static void fast_engines_stay_close(void **state)
{
    (void)state;
    check("model=gpt:width=32,heads=4,depth=2,experts=4,top=2", "mesh=tensor=2", "engine=auto",
          1e-4);
}

/* A shard has half of the experts, and nothing else less than the whole. */
static void shards_hold_their_experts(void **state)
{
    (void)state;
    enum { C = 16, E = 4 };
    fast_run *run = test_open_run(
        small, (const char *const[]){ "model=gpt:width=16,heads=2,depth=1,experts=4",
                                      "mesh=tensor=2", "layout=experts", test_transport(), NULL });
    const int64_t experts = E * (4 * C * C + 4 * C) + E * (4 * C * C + C);
    const int64_t all = run->learner->params.count;
    for (int t = 0; t < 2; t++)
        assert_int_equal(run->team->split.shards[t].shard->params.count, all - experts / 2);
    fast_run_close(run);
}

/* Each shard sends (T - 1) / T^2 of the slots in each of four all-to-alls, and (T - 1) / T of the
 * values in two gathers: the value behind, and the gradient of the one before. At a step's end the
 * gradients of norm and router are summed, and the share of the balance. */
static void shards_send_what_is_counted(void **state)
{
    (void)state;
    enum { C = 16, E = 4, T = 2, MICRO = 2, BATCH = 4, STEPS = 8 };
    double bytes[2];
    int64_t positions = 0;
    if (test_is_mpi())
        skip();
    for (int i = 0; i < 2; i++) {
        const char *const options[] = { "model=gpt:width=16,heads=2,depth=1,experts=4",
                                        "mesh=tensor=2",
                                        "layout=experts",
                                        i ? "steps=16" : "steps=8",
                                        "transport=sim",
                                        NULL };
        fast_run *run = test_open_run(small, options);
        assert_int_equal(fast_run_train(run), FAST_OK);
        bytes[i] = (double)fast_run_result(run)->bytes_sent;
        positions = run->graph->nodes[0].count;
        fast_run_close(run);
    }
    const int64_t slots = E * (int64_t)ceil(1.25 * (double)positions / E);
    const double moved = (double)(BATCH * slots * C) / (T * T) * 4;
    const double gathered = (double)(BATCH * positions * C) / T * 2;
    const double summed = 2 * C + E * C + 1; /* norm, router, balance */
    const double floats = T * STEPS * (MICRO * (moved + gathered) + summed);
    const double headers = bytes[1] - bytes[0] - 4 * floats;
    /* A message for each exchange of a micro-batch; of a step's end one for each range and one. */
    assert_true(headers == 64.0 * T * STEPS * (MICRO * 6 + 2));
}

/* A split that does not fit is refused with one sentence. */
static void the_rest_is_refused(void **state)
{
    (void)state;
    static const char *const bad[][3] = {
        { "model=gpt:width=16,heads=2,depth=1,experts=3", "layout=experts",
          "has 3 experts, which 2 shards do not divide" },
        { "model=gpt:width=16,heads=2,depth=1", "layout=experts", "no stage has a mixture" },
        { "model=gpt:width=16,heads=2,depth=1,experts=2", "batch=3",
          "a batch of 3 samples is not divided by 2 shards" },
    };
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        const char *const options[] = { bad[i][0], bad[i][1], "mesh=tensor=2", NULL };
        if (!strstr(test_refusal(small, options), bad[i][2]))
            fail_msg("%s: %s", bad[i][1], fast_error_detail());
    }
}

static void memory_can_run_out(void **state)
{
    (void)state;
    test_out_of_memory(small, (const char *const[]){ "model=gpt:width=8,heads=2,depth=1,experts=2",
                                                     "data=copy:train=16,test=8", "steps=1",
                                                     "transport=sim", "mesh=tensor=2", NULL });
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(splits_equal_the_whole),    cmocka_unit_test(fast_engines_stay_close),
        cmocka_unit_test(shards_hold_their_experts), cmocka_unit_test(shards_send_what_is_counted),
        cmocka_unit_test(the_rest_is_refused),       cmocka_unit_test(memory_can_run_out),
    };
    return test_split_main(argc, argv, tests, sizeof tests / sizeof tests[0]);
}
