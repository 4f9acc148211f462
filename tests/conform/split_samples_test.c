/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Goal: layers that each shard computes for its own samples train as whole ones do, alone and
 * before dense layers that are split: Krizhevsky's hybrid.
 *
 * Method: convolutional networks with dropout, and a transformer, are trained split and whole, for
 * one step of plain descent, whose change is the gradient, and for 20. The bytes that shards send
 * are counted by hand.
 *
 * The word "mpi" runs all that does not need virtual time over the ranks of mpirun.
 */
#include "split_runs.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#define DIGITS "data=digits:train=160,test=32"
#define COPY   "data=copy:train=160,test=32"
#define CONVS  "model=alexnet:width=1,hidden=16"
#define RESNET "model=resnet8:width=4"
#define SMOOTH "model=file:" FAST_SOURCE_FOLDER "/tests/networks/smooth_resnet.net"
#define OWN    "layout=conv=samples"
#define HYBRID "layout=conv=samples,dense=pairs"
#define CLASS  "layout=conv=samples,output=vocabulary,dense=pairs"

static const char *const small[] = { DIGITS,    "engine=ref",   "plan=no",     "timeout=60",
                                     "batch=4", "accumulate=2", "evaluate=no", "optimizer=sgd",
                                     "lr=0.1",  "steps=5",      NULL };

/* Parameters and losses of a split run are those of the whole one. */
static void check(const char *model, const char *mesh, const char *layout, const char *more,
                  double bound)
{
    const char *data = strstr(model, "gpt") ? COPY : DIGITS;
    const char *batch = strstr(mesh, "tensor=3") ? "batch=6" : "batch=4";
    test_split_equals(small, (const char *const[]){ model, data, batch, more, NULL }, mesh, layout,
                      bound);
}

static void splits_equal_the_whole(void **state)
{
    (void)state;
    static const char *const meshes[] = { "mesh=tensor=2", "mesh=tensor=4", "mesh=data=2,tensor=2",
                                          "mesh=pipe=2,tensor=2" };
    for (int k = 0; k < 4; k++) {
        check(CONVS, meshes[k], k == 3 ? "layout=conv=samples" : CLASS, "steps=1", 1e-5);
        check(CONVS, meshes[k], k == 3 ? "layout=conv=samples" : HYBRID, "steps=20", 1e-4);
    }
    check(CONVS, "mesh=tensor=3", "layout=samples", "steps=20", 1e-4);
    check("model=gpt:width=16,heads=2,depth=2,dropout=0.1", "mesh=tensor=2",
          "layout=embed=samples,attention=pairs,dense=pairs", "steps=20", 1e-4);
    check("model=gpt:width=16,heads=2,depth=1,dropout=0.1", "mesh=tensor=2", "layout=samples",
          "steps=1", 1e-5);
    check(CONVS, "mesh=tensor=2", CLASS, "engine=auto", 1e-4);
}

/* Batch norms have the statistics of all samples; running statistics are compared too. A whole
 * residual network is one run, up to its dense layer. */
static void norms_share_their_statistics(void **state)
{
    (void)state;
    static const char *const meshes[] = { "mesh=tensor=2", "mesh=tensor=4", "mesh=data=2,tensor=2",
                                          "mesh=pipe=2,tensor=2" };
    for (int k = 0; k < 4; k++) {
        check(RESNET, meshes[k], OWN, "steps=1", 1e-5);
        check(SMOOTH, meshes[k], OWN, "steps=20", 1e-4);
        check(SMOOTH, meshes[k], OWN, "engine=cpu", 1e-4);
        test_split_equals(small, (const char *const[]){ SMOOTH, "engine=cpu", "steps=20", NULL },
                          meshes[k], OWN, 1e-4);
    }
    check(RESNET ",ghost=2", "mesh=tensor=2", OWN, "steps=1", 1e-5); /* its convolution */
    check("model=resnet20:width=2", "mesh=tensor=2", OWN, "steps=1", 1e-5);
    check("model=resnet56:width=1", "mesh=tensor=2", OWN, "steps=1", 1e-5);
}

/* Each shard gives 2 C + 1 floats for each batch norm, forward and backward, and its part of the
 * pooled outputs. */
static void norms_send_what_is_counted(void **state)
{
    (void)state;
    enum { T = 2, MICRO = 2, BATCH = 4, STEPS = 8, NORMS = 9, CHANNELS = 3 * 4 + 3 * 8 + 3 * 16 };
    double bytes[2];
    int64_t partial = 0;
    if (test_is_mpi())
        skip();
    for (int i = 0; i < 2; i++) {
        const char *const options[] = {
            RESNET, "mesh=tensor=2", OWN, i ? "steps=16" : "steps=8", "transport=sim", NULL
        };
        fast_run *run = test_open_run(small, options);
        assert_int_equal(fast_run_train(run), FAST_OK);
        bytes[i] = (double)fast_run_result(run)->bytes_sent;
        partial = run->learner->params.count - (16 + 1) * 10;
        fast_run_close(run);
    }
    const double norms = 2 * (2 * CHANNELS + NORMS), pooled = (double)BATCH / T * 16;
    const double floats = T * STEPS * (MICRO * (norms + pooled) + (double)partial);
    const double headers = bytes[1] - bytes[0] - 4 * floats;
    if (headers != 64.0 * T * STEPS * (MICRO * (2 * NORMS + 1) + 1))
        fail_msg("%g bytes of headers", headers);
}

/* Convolutions, flattened and gathered, before a pair: (T - 1) / T of the micro-batch's outputs,
 * and as much of their gradient, which is summed where it is scattered. A step ends with the sum of
 * the convolutions' gradients. */
static void shards_send_what_is_counted(void **state)
{
    (void)state;
    enum { T = 2, MICRO = 2, BATCH = 4, STEPS = 8, FLAT = 4 * 3 * 3, CLASSES = 10 };
    double bytes[2];
    int64_t convs = 0;
    if (test_is_mpi())
        skip();
    for (int i = 0; i < 2; i++) {
        const char *const options[] = { CONVS,
                                        "mesh=tensor=2",
                                        "layout=conv=samples,dense1=pairs,dense2=pairs",
                                        i ? "steps=16" : "steps=8",
                                        "transport=sim",
                                        NULL };
        fast_run *run = test_open_run(small, options);
        assert_int_equal(fast_run_train(run), FAST_OK);
        bytes[i] = (double)fast_run_result(run)->bytes_sent;
        convs = run->learner->params.count - (FLAT + 1) * 16 - (16 + 1) * 16 - (16 + 1) * CLASSES;
        fast_run_close(run);
    }
    const double values = (double)BATCH * FLAT / T * (T - 1);
    const double pair = (double)BATCH * 16; /* its outputs */
    const double floats = T * STEPS * (MICRO * (2 * values + pair) + (double)convs);
    const double headers = bytes[1] - bytes[0] - 4 * floats;
    /* A message for each exchange of a micro-batch, and one for the partial tensors of a step. */
    if (headers != 64.0 * T * STEPS * (MICRO * 3 + 1))
        fail_msg("%g bytes of headers", headers);
}

/* A split that does not fit is refused with one sentence. */
static void the_rest_is_refused(void **state)
{
    (void)state;
    static const char *const bad[][3] = {
        { CONVS, "batch=5", "a batch of 5 samples is not divided by 2 shards" },
        { RESNET ",ghost=2", "layout=batch_norm=samples",
          "has statistics of 2 samples each, and shards share those of the whole batch" },
        { "model=mlp", "layout=conv=samples", "the model has no layer conv" },
    };
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        const char *const options[] = { bad[i][0], i == 0 ? "layout=conv=samples" : "batch=4",
                                        bad[i][1], "mesh=tensor=2", NULL };
        if (!strstr(test_refusal(small, options), bad[i][2]))
            fail_msg("%s: %s", bad[i][1], fast_error_detail());
    }
}

static void memory_can_run_out(void **state)
{
    (void)state;
    test_out_of_memory(small,
                       (const char *const[]){ CONVS, "data=digits:train=16,test=8", "steps=1",
                                              "transport=sim", "mesh=tensor=2", HYBRID, NULL });
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(splits_equal_the_whole),
        cmocka_unit_test(norms_share_their_statistics),
        cmocka_unit_test(norms_send_what_is_counted),
        cmocka_unit_test(shards_send_what_is_counted),
        cmocka_unit_test(the_rest_is_refused),
        cmocka_unit_test(memory_can_run_out),
    };
    return test_split_main(argc, argv, tests, sizeof tests / sizeof tests[0]);
}
