/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Goal: embeddings whose tokens, and last layers whose classes are split over shards train as whole
 * ones do, and exchange figures in the place of logits.
 *
 * Method: a transformer and a network of dense layers are trained split and whole, for one step of
 * plain descent, whose change is the gradient, and for 20; shards of unequal size are among them.
 * The bytes that shards send are counted by hand.
 *
 * The word "mpi" runs all that does not need virtual time over the ranks of mpirun.
 */
#include "split_runs.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#define GPT   "model=gpt:width=16,heads=2,depth=1"
#define MLP   "model=mlp:hidden=12"
#define BOTH  "layout=embed=vocabulary,output=vocabulary"
#define PAIRS "layout=embed=vocabulary,output=vocabulary,attention=pairs,dense=pairs"
#define LAST  "layout=output=vocabulary"

static const char *const small[] = { "data=copy:train=160,test=32",
                                     "engine=ref",
                                     "plan=no",
                                     "timeout=60",
                                     "batch=3",
                                     "accumulate=2",
                                     "evaluate=no",
                                     "optimizer=sgd",
                                     "lr=0.1",
                                     NULL };

/* Parameters and losses of a split run are those of the whole one. */
static void check(const char *model, const char *data, const char *mesh, const char *layout,
                  const char *more, double bound)
{
    test_split_equals(small, (const char *const[]){ model, data, more, NULL }, mesh, layout, bound);
}

static void splits_equal_the_whole(void **state)
{
    (void)state;
    static const char *const meshes[] = { "mesh=tensor=2", "mesh=tensor=3", "mesh=data=2,tensor=2",
                                          "mesh=pipe=2,tensor=2" };
    const char *copy = "data=copy:train=160,test=32", *digits = "data=digits:train=160,test=32";
    for (int k = 0; k < 4; k++) {
        check(GPT, copy, meshes[k], BOTH, "steps=1", 1e-5);
        check(GPT, copy, meshes[k], k == 1 ? LAST : PAIRS, "steps=20", 1e-4);
        check(MLP, digits, meshes[k], LAST, "steps=20", 1e-4);
    }
    check(MLP, digits, "mesh=tensor=4", LAST, "steps=1", 1e-5); /* 2 or 3 classes each */
    check(GPT, copy, "mesh=tensor=2", PAIRS, "engine=auto", 1e-4);
}

/* Shards have their tokens and classes; positions are shard 0's. */
static void shards_hold_their_rows(void **state)
{
    (void)state;
    enum { C = 16 };
    fast_run *run = test_open_run(
        small, (const char *const[]){ GPT, "mesh=tensor=3", BOTH, test_transport(), NULL });
    const int64_t V = run->graph->vocabulary, K = run->graph->outputs, P = run->graph->positions;
    const int64_t rest = run->learner->params.count - (V + P) * C - K * (C + 1);
    for (int64_t t = 0; t < 3; t++) {
        const int64_t tokens = (t + 1) * V / 3 - t * V / 3, classes = (t + 1) * K / 3 - t * K / 3;
        assert_int_equal(run->team->split.shards[t].shard->params.count,
                         rest + tokens * C + (t == 0 ? P * C : 0) + classes * (C + 1));
    }
    fast_run_close(run);
}

/* Two sums of activations, of the embedding and of the gradient of the last layer's inputs, and
 * four figures of each row and other shard. */
static void shards_send_what_is_counted(void **state)
{
    (void)state;
    enum { C = 16, T = 2, MICRO = 2, BATCH = 3, STEPS = 8 };
    double bytes[2];
    int64_t P = 0;
    if (test_is_mpi())
        skip();
    for (int i = 0; i < 2; i++) {
        const char *const options[] = {
            GPT, "mesh=tensor=2", BOTH, i ? "steps=16" : "steps=8", "transport=sim", NULL
        };
        fast_run *run = test_open_run(small, options);
        assert_int_equal(fast_run_train(run), FAST_OK);
        bytes[i] = (double)fast_run_result(run)->bytes_sent;
        P = run->graph->positions;
        fast_run_close(run);
    }
    const double floats = (double)(T * STEPS * MICRO * BATCH * P) * (2 * C + 4 * (T - 1));
    const double headers = bytes[1] - bytes[0] - 4 * floats;
    assert_true(headers == 64.0 * T * STEPS * MICRO * 3);
}

/* A split that does not fit is refused with one sentence. */
static void the_rest_is_refused(void **state)
{
    (void)state;
    static const char *const bad[][3] = {
        { "model=mlp:hidden=12", "layout=embed=vocabulary", "the model has no layer embed" },
        { GPT, "layout=attention=vocabulary", "no stage has an embedding" },
        { "data=linear", "layout=output=vocabulary", "no stage has an embedding" },
    };
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        const char *const options[] = { i == 1 ? "model=gpt" : "model=mlp",
                                        i == 0 ? "data=digits" : bad[i][0], bad[i][1],
                                        "mesh=tensor=2", NULL };
        if (!strstr(test_refusal(small, options), bad[i][2]))
            fail_msg("%s: %s", bad[i][1], fast_error_detail());
    }
}

static void memory_can_run_out(void **state)
{
    (void)state;
    test_out_of_memory(small, (const char *const[]){
                                  "model=gpt:width=8,heads=2,depth=1", "data=copy:train=16,test=8",
                                  "steps=1", "transport=sim", "mesh=tensor=2", BOTH, NULL });
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(splits_equal_the_whole),      cmocka_unit_test(shards_hold_their_rows),
        cmocka_unit_test(shards_send_what_is_counted), cmocka_unit_test(the_rest_is_refused),
        cmocka_unit_test(memory_can_run_out),
    };
    return test_split_main(argc, argv, tests, sizeof tests / sizeof tests[0]);
}
