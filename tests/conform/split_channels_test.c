/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Goal: convolutions that are split by channels train as whole ones do: pairs, single ones, and
 * blocks of residual networks with their statistics.
 *
 * Method: networks with batch norm, pooling, dropout and dense layers behind are trained split and
 * whole, for one step of plain descent, whose change is the gradient, and for 20; channels that the
 * shards do not divide are among them. The bytes that shards send are counted by hand.
 *
 * The word "mpi" runs all that does not need virtual time over the ranks of mpirun.
 */
#include "split_runs.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#define RESNET "model=resnet8:width=6"
#define CONVS  "model=alexnet:width=2,hidden=12"
#define SINGLE "layout=conv3=channels"
#define ALL    "layout=channels"

static const char *const small[] = { "data=digits:train=160,test=32",
                                     "engine=ref",
                                     "plan=no",
                                     "timeout=60",
                                     "batch=3",
                                     "accumulate=2",
                                     "evaluate=no",
                                     "optimizer=sgd",
                                     "lr=0.05",
                                     "steps=5",
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
    static const char *const meshes[] = { "mesh=tensor=2", "mesh=tensor=4", "mesh=data=2,tensor=2",
                                          "mesh=pipe=2,tensor=2" };
    for (int k = 0; k < 4; k++) {
        check(RESNET, meshes[k], ALL, "steps=1", 1e-5);
        check(CONVS, meshes[k], ALL, "steps=20", 1e-4);
    }
    check(RESNET, "mesh=tensor=2", "layout=conv=channels", "steps=20", 1e-4);
    check(CONVS, "mesh=tensor=3", SINGLE, "steps=20", 1e-4);
    check(CONVS, "mesh=tensor=2", "layout=conv=channels,dense=pairs", "steps=1", 1e-5);
    check(CONVS, "mesh=tensor=4", "layout=conv5=channels,dense=pairs", "steps=1", 1e-5);
}

static void fast_engines_stay_close(void **state)
{
    (void)state;
    check(RESNET, "mesh=tensor=2", ALL, "engine=auto", 1e-4);
    check(CONVS, "mesh=tensor=3", ALL, "engine=auto", 1e-4);
}

/* Sections that end with a convolution, whose backward passes are divided: gradients of several
 * micro-batches are added once. */
static void divided_passes_add_gradients_once(void **state)
{
    static const char *const models[] = { CONVS, RESNET };

    (void)state;
    for (int k = 0; k < 2; k++) {
        const char *const whole[] = { models[k], "engine=auto", "steps=2", NULL };
        const char *const split[] = {
            models[k], "engine=auto",          "steps=2",        "mesh=pipe=2,tensor=2",
            ALL,       "pipeline=zero_bubble", test_transport(), NULL
        };
        double loss = 0;

        assert_true(test_split_distance(small, whole, split, &loss) < 1e-4);
        assert_true(loss < 1e-4);
    }
}

/* A shard of a residual network has half of the products in its blocks, and half of the first
 * norm of each; the rest of it is whole. */
static void shards_hold_their_channels(void **state)
{
    (void)state;
    fast_run *run = test_open_run(
        small, (const char *const[]){ "model=resnet8:width=4", "mesh=tensor=2",
                                      "layout=conv=channels", test_transport(), NULL });
    const int64_t split = 4 * 9 + 2 * 4 +                 /* the first convolution and its norm */
                          2 * 9 * 4 * 4 + 2 * 4 +         /* block 1 */
                          9 * 4 * 8 + 9 * 8 * 8 + 2 * 8 + /* block 2 */
                          9 * 8 * 16 + 9 * 16 * 16 + 2 * 16;
    const int64_t statistics = 2 * (4 + 4 + 8 + 16);
    const fast_learner *model = run->learner;
    for (int t = 0; t < 2; t++) {
        const fast_split_shard *shard = run->team->split.shards[t].shard;
        assert_int_equal(shard->params.count, model->params.count - split / 2);
        assert_int_equal(shard->state.count, model->state.count - statistics / 2);
    }
    fast_run_close(run);
}

/* A pair sends the sum of its outputs, and that of the gradient of its inputs; a single convolution
 * the gather of its pooled outputs. */
static void shards_send_what_is_counted(void **state)
{
    (void)state;
    enum { T = 2, MICRO = 2, BATCH = 3, STEPS = 8, W = 2 };
    static const char *const layouts[] = { "layout=conv3=channels,conv4=channels",
                                           "layout=conv5=channels" };
    /* conv3, conv4: 3 W channels of 7x7 in, 4 W out. conv5: 4 W of 7x7 in, 3x3 out. */
    const double floats[] = { BATCH * 49 * (3 * W + 4 * W),
                              BATCH * (49 * 4 * W + 9 * 4 * W / 2.0) };
    if (test_is_mpi())
        skip();
    for (int k = 0; k < 2; k++) {
        double bytes[2];
        for (int i = 0; i < 2; i++) {
            const char *const options[] = { CONVS,           "mesh=tensor=2",
                                            layouts[k],      i ? "steps=16" : "steps=8",
                                            "transport=sim", NULL };
            fast_run *run = test_open_run(small, options);
            assert_int_equal(fast_run_train(run), FAST_OK);
            bytes[i] = (double)fast_run_result(run)->bytes_sent;
            fast_run_close(run);
        }
        const double headers = bytes[1] - bytes[0] - 4.0 * T * STEPS * MICRO * floats[k];
        const double messages = headers / (64.0 * T * STEPS * MICRO);
        if (!(messages == 2))
            fail_msg("%s: %g messages", layouts[k], messages);
    }
}

/* A checkpoint has the statistics of all channels: it continues whole, or split in another way. */
static void checkpoints_move_between_splits(void **state)
{
    (void)state;
    char path[] = "/tmp/fast_channels_XXXXXX", checkpoint[64], resume[64];
    if (test_is_mpi())
        skip();
    const int fd = mkstemp(path);
    assert_true(fd >= 0);
    close(fd);
    snprintf(checkpoint, sizeof checkpoint, "checkpoint=%s", path);
    snprintf(resume, sizeof resume, "resume=%s", path);
    for (int i = 0; i < 2; i++) {
        const char *const first[] = { RESNET,     "mesh=tensor=2",     ALL, test_transport(),
                                      checkpoint, "schedule=constant", NULL };
        fast_run *run = test_open_run(small, first);
        assert_int_equal(fast_run_train(run), FAST_OK);
        fast_run_close(run);
        const char *const mesh = i == 0 ? "mesh=tensor=3" : "mesh=pipe=2";
        const char *const whole[] = { RESNET, "schedule=constant", "steps=8", NULL };
        const char *const rest[] = { RESNET, "schedule=constant",      "steps=8",        mesh,
                                     resume, i == 0 ? ALL : "layout=", test_transport(), NULL };
        double loss = 0;
        assert_true(test_split_distance(small, whole, rest, &loss) < 1e-4);
    }
    remove(path);
}

/* A split that does not fit is refused with one sentence. */
static void the_rest_is_refused(void **state)
{
    (void)state;
    static const char *const bad[][3] = {
        { "model=mlp", "layout=channels", "no stage has a convolution of one group" },
        { "model=resnet8:width=2", "layout=conv=channels", "channels, and there are 32 shards" },
        { "model=resnet8:width=4", "layout=block1.conv1=channels",
          "is in a block of which it is not the first of two layers" },
    };
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        const char *const options[] = { bad[i][0], bad[i][1],
                                        i == 1 ? "mesh=tensor=32" : "mesh=tensor=2", NULL };
        if (!strstr(test_refusal(small, options), bad[i][2]))
            fail_msg("%s: %s", bad[i][1], fast_error_detail());
    }
}

static void memory_can_run_out(void **state)
{
    (void)state;
    test_out_of_memory(small, (const char *const[]){ "model=resnet8:width=2",
                                                     "data=digits:train=16,test=8", "steps=1",
                                                     "transport=sim", "mesh=tensor=2", ALL, NULL });
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(splits_equal_the_whole),
        cmocka_unit_test(fast_engines_stay_close),
        cmocka_unit_test(divided_passes_add_gradients_once),
        cmocka_unit_test(shards_hold_their_channels),
        cmocka_unit_test(shards_send_what_is_counted),
        cmocka_unit_test(checkpoints_move_between_splits),
        cmocka_unit_test(the_rest_is_refused),
        cmocka_unit_test(memory_can_run_out),
    };
    return test_split_main(argc, argv, tests, sizeof tests / sizeof tests[0]);
}
