/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Goal: transformers whose sequences are in slices over shards train as whole ones do, hold less
 * and send what is counted.
 *
 * Method: small transformers are trained split and whole, for one step of plain descent, whose
 * change is the gradient, and for 20; slices of unequal length, dropout, pipelines and replicas are
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

#define GPT      "model=gpt:width=16,heads=4,depth=2"
#define DROPS    "model=gpt:width=16,heads=4,depth=1,dropout=0.2"
#define COPY     "data=copy:train=160,test=32"
#define SEQUENCE "layout=embed=vocabulary,output=vocabulary,sequence"

static const char *const small[] = { COPY,          "engine=ref",    "plan=no",
                                     "timeout=60",  "batch=3",       "accumulate=2",
                                     "evaluate=no", "optimizer=sgd", "lr=0.1",
                                     NULL };

/* Parameters and losses of a split run are those of the whole one. */
static void check(const char *model, const char *mesh, const char *layout, const char *more,
                  double bound)
{
    test_split_equals(small, (const char *const[]){ model, more, NULL }, mesh, layout, bound);
}

static void splits_equal_the_whole(void **state)
{
    (void)state;
    static const char *const layouts[] = { SEQUENCE, "layout=sequence", "layout=ulysses",
                                           "layout=ring" };
    for (int k = 0; k < 4; k++) {
        check(GPT, "mesh=tensor=2", layouts[k], "steps=1", 1e-5);
        check(GPT, "mesh=tensor=4", layouts[k], "steps=1", 1e-5);
        check(GPT, "mesh=tensor=2", layouts[k], "steps=20", 1e-4);
        check(GPT, "mesh=data=2,tensor=2", layouts[k], "steps=3", 1e-4);
        check(GPT, "mesh=pipe=2,tensor=2", layouts[k], "steps=3", 1e-4);
        check(DROPS, "mesh=tensor=2", layouts[k], "steps=3", 1e-4);
        check(GPT, "mesh=tensor=4", layouts[k], "data=copy:train=160,test=32,length=5", 1e-4);
        check(GPT, "mesh=tensor=2", layouts[k], "engine=auto", 1e-4);
    }
    check(GPT, "mesh=tensor=3", "layout=ulysses", "steps=1", 1e-5); /* 1 or 2 heads each */
    check(GPT, "mesh=tensor=3", "layout=ring", "steps=1", 1e-5);
    check("model=gpt:width=16,heads=2,depth=2,experts=2,every=2", "mesh=tensor=2",
          "layout=attention=sequence,sequence", "batch=4", 1e-4);
}

/* The norms, the embedding and the output layer are whole at each shard, the rest is split as by
 * pairs; positions are the shard's own. With ulysses all weights are whole. */
static void shards_hold_their_layers(void **state)
{
    (void)state;
    enum { C = 16, DEPTH = 2 };
    const int64_t block = 12 * C * C + 13 * C;        /* with norms */
    const int64_t split = 12 * C * C + 3 * C + 4 * C; /* and without what shards have whole */
    static const char *const layouts[] = { "layout=sequence", "layout=ulysses", "layout=ring" };
    for (int k = 0; k < 3; k++) {
        fast_run *run =
            test_open_run(small, (const char *const[]){ GPT, "mesh=tensor=4", layouts[k],
                                                        test_transport(), NULL });
        const int64_t P = run->graph->positions, all = run->learner->params.count;
        for (int64_t t = 0; t < 4; t++) {
            const int64_t rows = (t + 1) * P / 4 - t * P / 4;
            const int64_t bias = t == 0 ? 2 * C : 0;
            const int64_t less = k ? 0 : DEPTH * (block - 4 * C - split / 4 - bias);
            assert_int_equal(run->team->split.shards[t].shard->params.count,
                             all - (P - rows) * C - less);
        }
        fast_run_close(run);
    }
}

/* Bytes of the workspaces of shard 0. */
static int64_t workspaces(const char *mesh, const char *layout)
{
    const char *const options[] = { "model=gpt:width=32,heads=4,depth=2",
                                    "data=copy:train=160,test=32,length=32",
                                    mesh,
                                    "batch=8",
                                    "accumulate=1",
                                    "steps=1",
                                    layout,
                                    "transport=sim",
                                    NULL };
    fast_run *run = test_open_run(small, options);
    assert_int_equal(fast_run_train(run), FAST_OK);
    const int64_t bytes = fast__split_workspace_bytes(run->team, 0);
    fast_run_close(run);
    return bytes;
}

static void slices_need_less_memory(void **state)
{
    (void)state;
    if (test_is_mpi())
        skip();
    const char *mesh = "mesh=tensor=4";
    const int64_t pairs = workspaces(mesh, "layout=attention=pairs,dense=pairs");
    const int64_t ring = workspaces(mesh, "layout=ring");
    assert_true(20 * workspaces(mesh, "layout=sequence") < 19 * pairs);
    assert_true(5 * workspaces(mesh, "layout=ulysses") < 4 * pairs);
    assert_true(3 * ring < 2 * pairs);
    assert_true(20 * ring < 11 * workspaces("mesh=tensor=2", "layout=ring"));
}

/* Floats that all shards send for their parts of the gradient: two shards swap theirs once. */
static double count_partial(const fast_run *run)
{
    double floats = 0;
    for (int t = 0; t < 2; t++) {
        const fast_split_shard *shard = run->team->split.shards[t].shard;
        for (int64_t i = 0; i < shard->partial_count; i++)
            floats += (double)shard->partial[i].count;
    }
    return floats;
}

/* Of P positions C floats each: with `sequence` half of them for each of a gather and a scatter
 * of an attention and a pair, in both passes; with `ulysses` a quarter of queries, keys, values and
 * outputs of an attention, in both; with `ring` the keys and values of a half forward, and they and
 * their gradients backward. Four figures of each position, and once a step the sum of the
 * gradients of what shards have whole. */
static void shards_send_what_is_counted(void **state)
{
    (void)state;
    enum { C = 16, T = 2, MICRO = 2, BATCH = 3, DEPTH = 2, STEPS = 8 };
    if (test_is_mpi())
        skip();
    static const char *const layouts[] = { "layout=sequence", "layout=ulysses", "layout=ring" };
    static const int messages[] = { 17, 9, 5 };
    for (int k = 0; k < 3; k++) {
        double bytes[2], floats = 0;
        int64_t ranges = 0;
        for (int i = 0; i < 2; i++) {
            const char *const options[] = {
                GPT, "mesh=tensor=2", layouts[k], i ? "steps=16" : "steps=8", "transport=sim", NULL
            };
            fast_run *run = test_open_run(small, options);
            const double rows = (double)(BATCH * run->graph->positions);
            floats = (k == 0   ? DEPTH * T * 2 * 2 * 2 * C / 2
                      : k == 1 ? DEPTH * T * 2 * 4 * C / 4
                               : DEPTH * T * 3 * 2 * C / 2) *
                     rows;
            floats = STEPS * (MICRO * (floats + 4 * rows) + count_partial(run));
            ranges = run->team->split.shards[0].shard->partial_count;
            assert_int_equal(fast_run_train(run), FAST_OK);
            bytes[i] = (double)fast_run_result(run)->bytes_sent;
            fast_run_close(run);
        }
        const double headers = bytes[1] - bytes[0] - 4 * floats;
        assert_true(headers == 64.0 * T * STEPS * (double)(MICRO * messages[k] + ranges));
    }
}

/* A split that does not fit is refused with one sentence. */
static void the_rest_is_refused(void **state)
{
    (void)state;
    static const char *const bad[][3] = {
        { "model=gpt:width=16,heads=2,depth=1", "layout=sequence", "has 2 heads, which 3 shards" },
        { "model=gpt:width=16,heads=2,depth=1", "layout=ulysses", "has 2 heads, fewer than 3" },
        { "model=gpt:width=16,heads=2,depth=1", "layout=dense=ulysses", "no stage has a sequence" },
    };
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        const char *const options[] = { bad[i][0], bad[i][1], "mesh=tensor=3", NULL };
        if (!strstr(test_refusal(small, options), bad[i][2]))
            fail_msg("%s: %s", bad[i][1], fast_error_detail());
    }
}

static void memory_can_run_out(void **state)
{
    (void)state;
    static const char *const layouts[] = { SEQUENCE, "layout=ulysses", "layout=ring" };
    for (int k = 0; k < 3; k++)
        test_out_of_memory(small, (const char *const[]){ "model=gpt:width=8,heads=2,depth=1",
                                                         "data=copy:train=16,test=8", "steps=1",
                                                         "transport=sim", "mesh=tensor=2",
                                                         layouts[k], NULL });
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(splits_equal_the_whole),  cmocka_unit_test(shards_hold_their_layers),
        cmocka_unit_test(slices_need_less_memory), cmocka_unit_test(shards_send_what_is_counted),
        cmocka_unit_test(the_rest_is_refused),     cmocka_unit_test(memory_can_run_out),
    };
    return test_split_main(argc, argv, tests, sizeof tests / sizeof tests[0]);
}
