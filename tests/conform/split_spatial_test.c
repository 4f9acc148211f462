/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Goal: images that are split by rows, with an exchange of the rows around them, train as whole
 * ones do.
 *
 * Method: networks with convolutions and pools of several strides, windows and paddings are trained
 * split and whole, for one step of plain descent, whose change is the gradient, and for 20; rows
 * that the shards do not divide, and residual networks with batch norm, are among them. The rows
 * and moments that shards send are counted by hand.
 *
 * The word "mpi" runs all that does not need virtual time over the ranks of mpirun.
 */
#include "split_runs.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#define CONVS  "model=alexnet:width=2,hidden=12"
#define SMALL  "model=lenet"
#define RESNET "model=resnet8:width=4"
#define SMOOTH "model=file:" FAST_SOURCE_FOLDER "/tests/networks/smooth_resnet.net"
#define LOCAL  "model=cots:filters=3x4x5,kernel=3"
#define ALL    "layout=spatial"
#define ROWS   "layout=conv=spatial"
#define HYBRID "layout=conv=spatial,dense=pairs"

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
    static const char *const meshes[] = { "mesh=tensor=2", "mesh=tensor=3", "mesh=tensor=4",
                                          "mesh=data=2,tensor=2", "mesh=pipe=2,tensor=2" };
    for (int k = 0; k < 5; k++) {
        check(CONVS, meshes[k], ALL, "steps=1", 1e-5);
        check(CONVS, meshes[k], HYBRID, "steps=20", 1e-4);
    }
    check(SMALL, "mesh=tensor=2", ALL, "steps=1", 1e-5);
    check(SMALL, "mesh=tensor=4", ALL, "steps=1", 1e-5);
    for (int k = 0; k < 4; k++) {
        check(CONVS, meshes[k], "layout=redundant", "steps=5", 1e-4);
        check(SMALL, meshes[k], "layout=redundant", "steps=1", 1e-5);
        check(LOCAL, meshes[k], "layout=local=spatial", "steps=1", 1e-5);
        check(LOCAL, meshes[k], ALL, "steps=20", 1e-4);
        check(LOCAL ",tile=3", meshes[k], ALL, "steps=5", 1e-4);
    }
}

/* Residual blocks, their strides and projections, and batch norms with the statistics of all rows;
 * running statistics are compared too. Smooth activations have no kinks that rounding could move,
 * so that both engines are compared after many steps. */
static void residual_networks_equal_the_whole(void **state)
{
    (void)state;
    static const char *const meshes[] = { "mesh=tensor=2", "mesh=tensor=4", "mesh=data=2,tensor=2",
                                          "mesh=pipe=2,tensor=2" };
    for (int k = 0; k < 4; k++) {
        check(RESNET, meshes[k], ROWS, "steps=1", 1e-5);
        check(RESNET, meshes[k], ROWS, "steps=20", 1e-4);
        check(SMOOTH, meshes[k], ROWS, "engine=cpu", 1e-5);
        test_split_equals(small, (const char *const[]){ SMOOTH, "engine=cpu", "steps=20", NULL },
                          meshes[k], ROWS, 1e-4);
    }
    check("model=resnet20:width=2", "mesh=tensor=2", ROWS, "steps=1", 1e-5);
    check("model=resnet56:width=1", "mesh=tensor=4", ROWS, "steps=1", 1e-5);
    check("model=densenet:depth=7,growth=3", "mesh=tensor=2", ROWS, "steps=1", 1e-5);
    check(RESNET ",ghost=2", "mesh=tensor=2", ROWS, "steps=1", 1e-5); /* its first layer */
}

/* Activations that are computed again need no other exchange, and statistics follow once; halves of
 * a backward pass exchange in the first one. */
static void passes_of_all_kinds_exchange(void **state)
{
    (void)state;
    static const char *const engines[] = { "engine=ref", "engine=cpu" };
    static const char *const layouts[] = { ROWS, "layout=conv=samples" };
    for (int k = 0; k < 4; k++) {
        const char *const whole[] = { SMOOTH, engines[k % 2], "batch=4", NULL };
        const char *const halves[] = { SMOOTH,
                                       engines[k % 2],
                                       "batch=4",
                                       "mesh=pipe=2,tensor=2",
                                       "pipeline=zero_bubble",
                                       layouts[k / 2],
                                       test_transport(),
                                       NULL };
        double loss;
        test_split_equals(
            small,
            (const char *const[]){ SMOOTH, engines[k % 2], "batch=4", "recompute=yes", NULL },
            "mesh=tensor=2", layouts[k / 2], 1e-4);
        const double far = test_split_distance(small, whole, halves, &loss);
        if (!(far < 1e-4) || !(loss < 1e-4))
            fail_msg("halves of %s %s are off by %g", engines[k % 2], layouts[k / 2], far);
    }
}

static void fast_engines_stay_close(void **state)
{
    (void)state;
    check(CONVS, "mesh=tensor=2", ALL, "engine=auto", 1e-4);
    check(CONVS, "mesh=tensor=3", HYBRID, "engine=auto", 1e-4);
    check(SMALL, "mesh=tensor=2", ALL, "engine=auto", 1e-4);
}

/* Filters of places belong to the shards that have their rows: 14 of 28, 7 of 14, 3 and 4 of 7. */
static void shards_hold_their_places(void **state)
{
    (void)state;
    fast_run *run =
        test_open_run(small, (const char *const[]){ LOCAL, "mesh=tensor=2", "layout=local=spatial",
                                                    test_transport(), NULL });
    const int64_t dense = (5 * 9 + 1) * 10;
    for (int t = 0; t < 2; t++)
        assert_int_equal(run->team->split.parts[t].joint->params.count,
                         14 * 28 * 3 * (9 + 1) + 7 * 14 * 4 * (27 + 1) +
                             (3 + t) * 7 * 5 * (36 + 1) + dense);
    fast_run_close(run);
}

/* Floats of the workspaces of shard t's sections. */
static double workspaces_of(const fast_run *run, int64_t t)
{
    const fast_team_shard *of = &run->team->split.shards[t];
    double bytes = 0;
    for (int64_t k = 0; k < of->shard->section_count; k++)
        bytes += (double)of->sections[k].program->memory;
    return bytes;
}

/* Activations take about a T-th of their memory, with the buffers of exchanges; the prediction has
 * the workspaces of all shards. */
static void activations_take_their_part(void **state)
{
    (void)state;
    static const char *const engines[] = { "engine=ref", "engine=cpu" };
    if (test_is_mpi())
        skip();
    for (int i = 0; i < 2; i++) {
        const char *const common[] = { "model=resnet20", "batch=64", engines[i],
                                       "mesh=tensor=2",  ROWS,       NULL };
        fast_run *run = test_open_run(small, common);
        const double whole = (double)run->program->memory;
        const double own = workspaces_of(run, 0), other = workspaces_of(run, 1);
        const double all = (double)fast_run_result(run)->predicted_memory;
        if (own > 0.8 * whole || own < 0.3 * whole || other < own || own + other > all)
            fail_msg("%s: %g and %g bytes of %g, predicted %g", engines[i], own, other, whole, all);
        fast_run_close(run);
    }
}

/* Return the bytes that all shards send in 8 steps. */
static double bytes_of(const char *model, const char *layout, int64_t *params_out)
{
    double bytes[2];
    for (int i = 0; i < 2; i++) {
        const char *const options[] = { model,           "mesh=tensor=2",
                                        layout,          i ? "steps=16" : "steps=8",
                                        "transport=sim", NULL };
        fast_run *run = test_open_run(small, options);
        assert_int_equal(fast_run_train(run), FAST_OK);
        bytes[i] = (double)fast_run_result(run)->bytes_sent;
        *params_out = run->learner->params.count;
        fast_run_close(run);
    }
    return bytes[1] - bytes[0];
}

/* Images of 28 rows for two shards, 5x5 convolutions with two rows of padding, then 3x3 with one:
 * rows around the middle go each way, forward and backward; but not of the batch, which each shard
 * has. Seven rows are 3 and 4; of the last pool's 3 the first shard has one, which needs 2 of its
 * rows; the second needs the row 2 of the first one. */
static void shards_send_what_is_counted(void **state)
{
    (void)state;
    enum { T = 2, MICRO = 2, BATCH = 3, STEPS = 8, W = 2 };
    if (test_is_mpi())
        skip();
    int64_t params = 0;
    const double bytes = bytes_of(CONVS, ALL, &params);
    const int64_t convs = params - (4 * W * 9 + 1) * 12 - 13 * 12 - 13 * 10;
    /* Rows of both shards together: conv2 2 each, its pool (14 to 7) one of shard 0 to 1, conv3 to
     * conv5 1 each, the last pool one. */
    const int64_t halo = 4 * 14 * W + 14 * 3 * W + 2 * 7 * (3 + 6 + 4) * W + 7 * 4 * W;
    const int64_t gather = 3 * 3 * 4 * W; /* the rows of both */
    const double floats =
        STEPS * ((double)MICRO * BATCH * (double)(2 * halo + gather) + (double)(T * convs));
    /* Messages: two for each halo but those of the pools, which are one, forward and backward, two
     * for the gather; one of each shard for the partial tensors. */
    const double headers = bytes - 4 * floats;
    const double messages = headers / (64.0 * STEPS);
    if (messages != MICRO * (2 * (4 * 2 + 2) + 2) + T)
        fail_msg("%g messages", messages);
}

/* Rows that are computed twice are not sent: what remains is the gather of LeNet's 50 channels of
 * 4x4, 2 rows of each shard, and a step's sum of the convolutions' gradients. */
static void redundant_rows_are_not_sent(void **state)
{
    (void)state;
    enum { T = 2, MICRO = 2, BATCH = 3, STEPS = 8 };
    int64_t params = 0;
    if (test_is_mpi())
        skip();
    const double convs = 20 * 26 + 50 * 501;
    const double floats = STEPS * (MICRO * BATCH * 50 * 4 * 4 + T * convs);
    const double headers = bytes_of(SMALL, "layout=conv=redundant", &params) - 4 * floats;
    const double messages = headers / (64.0 * STEPS);
    if (messages != MICRO * T + T)
        fail_msg("%g messages", messages);
}

/* A residual network of 28, 14 and 7 rows, 4, 8 and 16 channels. Rows of both shards together: the
 * blocks' convolutions of 3x3 take one from each neighbour; those with stride 2 one, of 28 rows, or
 * two, of 14, from the shard before; of 14 rows shard 1 starts its 4 of 7 with row 6, which the
 * projection takes from shard 0. Batch norms exchange 2 C + 1 floats of each shard. */
static void norms_and_blocks_send_what_is_counted(void **state)
{
    (void)state;
    enum { T = 2, MICRO = 2, BATCH = 3, STEPS = 8, NORMS = 9, CHANNELS = 3 * 4 + 3 * 8 + 3 * 16 };
    int64_t params = 0;
    if (test_is_mpi())
        skip();
    const double bytes = bytes_of(RESNET, ROWS, &params);
    const int64_t partial = params - (16 + 1) * 10;
    const int64_t halo = 28 * 4 * (2 + 2 + 1) + 14 * 8 * (2 + 2 + 1) + 7 * 16 * 2;
    const int64_t gather = 7 * 7 * 16, norms = T * (2 * CHANNELS + NORMS);
    const double floats =
        STEPS *
        (MICRO * (BATCH * (double)(2 * halo + gather) + 2 * (double)norms) + (double)(T * partial));
    const double messages = (bytes - 4 * floats) / (64.0 * STEPS);
    /* Halos both ways and one way, norms, all backward too; the gather; the partial tensors. */
    if (messages != MICRO * (2 * (4 * 2 + 3 + NORMS * T) + T) + T)
        fail_msg("%g messages", messages);
}

/* A split that does not fit is refused with one sentence. */
static void the_rest_is_refused(void **state)
{
    (void)state;
    static const char *const bad[][3] = {
        { "model=mlp", ALL, "no stage has convolutions or pools of images" },
        { RESNET, "layout=batch_norm=redundant", "has statistics of rows that are computed once" },
        { RESNET ",ghost=2", "layout=batch_norm=spatial",
          "has statistics of 2 samples each, and shards share those of the whole batch" },
        { "model=lenet", "layout=max_pool2=spatial", "the model has no layer max_pool2" },
    };
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        const char *const options[] = { bad[i][0], bad[i][1], "mesh=tensor=2", NULL };
        if (!strstr(test_refusal(small, options), bad[i][2]))
            fail_msg("%s: %s", bad[i][1], fast_error_detail());
    }
    if (!strstr(test_refusal(small, (const char *const[]){ SMALL, "layout=conv1=spatial",
                                                           "mesh=tensor=25", NULL }),
                "has 24 rows, and there are 25 shards"))
        fail_msg("%s", fast_error_detail());
}

static void memory_can_run_out(void **state)
{
    (void)state;
    test_out_of_memory(small, (const char *const[]){ "model=alexnet:width=1,hidden=8",
                                                     "data=digits:train=16,test=8", "steps=1",
                                                     "transport=sim", "mesh=tensor=2", ALL, NULL });
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(splits_equal_the_whole),
        cmocka_unit_test(residual_networks_equal_the_whole),
        cmocka_unit_test(passes_of_all_kinds_exchange),
        cmocka_unit_test(fast_engines_stay_close),
        cmocka_unit_test(shards_hold_their_places),
        cmocka_unit_test(activations_take_their_part),
        cmocka_unit_test(shards_send_what_is_counted),
        cmocka_unit_test(norms_and_blocks_send_what_is_counted),
        cmocka_unit_test(redundant_rows_are_not_sent),
        cmocka_unit_test(the_rest_is_refused),
        cmocka_unit_test(memory_can_run_out),
    };
    return test_split_main(argc, argv, tests, sizeof tests / sizeof tests[0]);
}
