/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Goal: dense layers that are split by outputs, or into blocks on a grid of shards, train as whole
 * ones do, and send what Cannon's and the 1.5D product send.
 *
 * Method: networks of dense layers are trained split and whole, for one step of plain descent,
 * whose change is the gradient, and for 20; layers and batches that the grid does not divide are
 * among them. The bytes that shards send are counted by hand.
 *
 * The word "mpi" runs all that does not need virtual time over the ranks of mpirun.
 */
#include "split_runs.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#define MLP     "model=mlp:hidden=12x18"
#define OUTPUTS "layout=dense=outputs"
#define CANNON  "layout=dense=cannon"

static const char *const small[] = { "data=digits:train=160,test=32",
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
static void check(const char *mesh, const char *layout, const char *more, double bound)
{
    test_split_equals(small, (const char *const[]){ MLP, more, NULL }, mesh, layout, bound);
}

static void splits_equal_the_whole(void **state)
{
    (void)state;
    static const char *const meshes[] = { "mesh=tensor=4", "mesh=data=2,tensor=4",
                                          "mesh=pipe=2,tensor=4" };
    for (int k = 0; k < 3; k++) {
        check(meshes[k], CANNON, "steps=1", 1e-5);
        check(meshes[k], OUTPUTS, "steps=20", 1e-4);
    }
    check("mesh=tensor=4", CANNON, "steps=20", 1e-4);
    check("mesh=tensor=4", CANNON, "batch=5", 1e-4);
    check("mesh=tensor=4", CANNON, "accumulate=1", 1e-4);
    check("mesh=tensor=4", CANNON, "engine=auto", 1e-4);
    check("mesh=tensor=9", "layout=dense2=cannon,dense3=cannon", "steps=1", 1e-5);
    check("mesh=tensor=2", OUTPUTS, "steps=1", 1e-5);
}

/* Bytes of a step, by those of 16 and of 8. */
static double count_bytes(const char *mesh, const char *layout)
{
    double bytes[2];
    for (int i = 0; i < 2; i++) {
        const char *const options[] = {
            MLP, mesh, layout, i ? "steps=16" : "steps=8", "transport=sim", NULL
        };
        fast_run *run = test_open_run(small, options);
        assert_int_equal(fast_run_train(run), FAST_OK);
        bytes[i] = (double)fast_run_result(run)->bytes_sent;
        fast_run_close(run);
    }
    return (bytes[1] - bytes[0]) / 8;
}

/* Cannon's product of the second layer, of 12 inputs and 18 outputs for 4 samples, on 2 x 2 shards:
 * 2 (sqrt T - 1) blocks forward, of inputs and of weights, and backward with their gradients; then
 * all blocks of the outputs, and of the gradient of the inputs, go to each shard. */
static void cannon_sends_what_is_counted(void **state)
{
    (void)state;
    enum { P = 2, T = P * P, MICRO = 2, B = 4, IN = 12, OUT = 18, HEADER = 64 };
    if (test_is_mpi())
        skip();
    const double blocks = (double)(B * IN + IN * OUT) / T; /* one of each */
    const double moves = 3 * (P - 1) * blocks;
    const double gathers = (T - 1) * (double)(B * OUT + B * IN) / T;
    const double messages = 2 * 2 * (P - 1) + 2 * (T - 1);
    const double micro = 4 * (moves + gathers) + HEADER * messages;
    const double bias = 4 * OUT + HEADER; /* its gradient: an allreduce by doubling, 2 rounds */
    assert_true(count_bytes("mesh=tensor=4", "layout=dense2=cannon") ==
                T * (MICRO * micro + 2 * bias));
}

/* The 1.5D product of the second layer: of two shards each sends half of the outputs forward, and
 * its part of the sum of the gradient of the inputs backward. */
static void outputs_send_what_is_counted(void **state)
{
    (void)state;
    enum { T = 2, MICRO = 2, B = 4, IN = 12, OUT = 18, HEADER = 64 };
    if (test_is_mpi())
        skip();
    const double micro = 4.0 * (B * OUT / T + B * IN) + HEADER * 2;
    assert_true(count_bytes("mesh=tensor=2", "layout=dense2=outputs") == T * MICRO * micro);
}

/* A split that does not fit is refused with one sentence. */
static void the_rest_is_refused(void **state)
{
    (void)state;
    static const char *const bad[][4] = {
        { "mesh=tensor=2", CANNON, "batch=4", "dense1 needs a square number of shards, not 2" },
        { "mesh=tensor=9", "layout=dense1=cannon", "batch=4", "784 inputs and 12 outputs" },
        { "mesh=tensor=4", CANNON, "batch=1", "a batch of 1 samples is less than 2 rows" },
        { "mesh=tensor=16", "layout=output=outputs", "batch=4", "has 10 outputs, fewer than 16" },
        { "mesh=tensor=4", "layout=conv=cannon", "batch=4", "the model has no layer conv" },
        { "mesh=tensor=4", "layout=relu=cannon", "batch=4", "no stage has a dense layer" },
    };
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        const char *const options[] = { MLP, bad[i][0], bad[i][1], bad[i][2], NULL };
        if (!strstr(test_refusal(small, options), bad[i][3]))
            fail_msg("%s: %s", bad[i][1], fast_error_detail());
    }
}

static void memory_can_run_out(void **state)
{
    (void)state;
    static const char *const layouts[] = { OUTPUTS, CANNON };
    for (int k = 0; k < 2; k++)
        test_out_of_memory(small, (const char *const[]){ "model=mlp:hidden=4",
                                                         "data=digits:train=16,test=8", "steps=1",
                                                         "transport=sim", "mesh=tensor=4",
                                                         layouts[k], NULL });
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(splits_equal_the_whole),
        cmocka_unit_test(cannon_sends_what_is_counted),
        cmocka_unit_test(outputs_send_what_is_counted),
        cmocka_unit_test(the_rest_is_refused),
        cmocka_unit_test(memory_can_run_out),
    };
    return test_split_main(argc, argv, tests, sizeof tests / sizeof tests[0]);
}
