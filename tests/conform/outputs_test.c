/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Goal: networks of several outputs, and the models that are made of them, learn what they are
 * defined to learn, whole and split over workers.
 *
 * Method: the loss of a TreeNet is computed by hand from two plain networks that share a trunk; the
 * gradients of a stacked network's module are those of the module by itself. Split runs are
 * compared with those of whole models: stages to the bit on engine ref, with the losses of heads;
 * branches within rounding, with the parameters that a worker holds counted by hand.
 *
 * The word "mpi" runs the splits over the ranks of mpirun.
 */
#include "base/memory.h"
#include "model/network.h"
#include "run/team.h"
#include "split_runs.h"

#ifdef FAST_HAVE_MPI
#include "base/clock.h"
#include "transport/mpi/process.h"
#endif

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

static const char *transport = "transport=threads";
static bool mpi; /* over the ranks of mpirun */
static int64_t rank;

/* Open and train a run: a model, how it is split, and one option more. */
static fast_run *trained(const char *model, const char *mesh, const char *more)
{
    const char *const options[] = { model,
                                    "data=digits:train=160,test=32",
                                    "engine=ref",
                                    "plan=no",
                                    "timeout=60",
                                    "batch=4",
                                    "accumulate=4",
                                    "steps=10",
                                    "evaluate=end",
                                    "optimizer=momentum",
                                    "lr=0.05",
                                    mesh,
                                    strncmp(mesh, "mesh", 4) == 0 ? transport : "transport=threads",
                                    more,
                                    NULL };
    fast_run *run = NULL;
    if (fast_run_open(options, &run) || fast_run_train(run))
        fail_msg("%s %s: %s", model, mesh, fast_error_detail());
    return run;
}

/* Does worker 0's process see the losses of all replicas? */
static bool sees_all(const char *mesh)
{
    return !mpi || !strstr(mesh, "data");
}

/* A network cut into stages has the bits and the loss of the whole one. */
static void check_stages(const char *model, const char *whole, const char *mesh, const char *more)
{
    fast_run *a = trained(model, whole, NULL), *b = trained(model, mesh, more);
    const fast_result *right = fast_run_result(a), *got = fast_run_result(b);
    if (rank == 0) {
        if (got->params_hash != right->params_hash)
            fail_msg("%s %s: other bits than %s", model, mesh, whole);
        if (sees_all(mesh) && !(fabs(got->loss - right->loss) < 1e-6 * right->loss))
            fail_msg("%s %s: loss %g, not %g", model, mesh, got->loss, right->loss);
    }
    fast_run_close(a);
    fast_run_close(b);
}

/* Heads on stages of their own learn, and so does one on the last stage. */
static void heads_learn_on_any_stage(void **state)
{
    (void)state;
    const char *const heads = "model=file:" FAST_SOURCE_FOLDER "/examples/networks/heads.net";
    check_stages(heads, "workers=1", "mesh=pipe=2", NULL);
    check_stages(heads, "workers=1", "mesh=pipe=3", "pipeline=gpipe");
    check_stages(heads, "workers=2", "mesh=data=2,pipe=2", NULL);
}

static void modules_are_stages(void **state)
{
    (void)state;
    check_stages("model=dsn:modules=3,hidden=12", "workers=1", "mesh=pipe=3", NULL);
    check_stages("model=dsn:modules=4,hidden=12", "workers=1", "mesh=pipe=4", "pipeline=gpipe");
    check_stages("model=dsn:modules=3,hidden=12,detach=no", "workers=1", "mesh=pipe=3", NULL);
    check_stages("model=dsn:modules=3,hidden=12", "workers=2", "mesh=data=2,pipe=2", NULL);
}

/* Of T shards each has the trunk, M / T members, and what is behind the sum. */
static void check_layout(const char *model, const char *whole, const char *mesh, const char *layout)
{
    fast_run *a = trained(model, whole, NULL), *b = trained(model, mesh, layout);
    double far = 0, large = 0;
    for (int64_t i = 0; rank == 0 && i < a->learner->params.count; i++) {
        far = fmax(far, fabs((double)a->learner->w[i] - (double)b->learner->w[i]));
        large = fmax(large, fabs((double)a->learner->w[i]));
    }
    const double off = fabs(fast_run_result(a)->loss - fast_run_result(b)->loss);
    const bool told = !sees_all(mesh) || off < 1e-5 * fast_run_result(a)->loss;
    if (rank == 0 && (!(far < 1e-5 * large) || !told))
        fail_msg("%s %s: parameters off by %g of %g, loss by %g", model, mesh, far, large, off);
    fast_run_close(a);
    fast_run_close(b);
}

static void check_branches(const char *model, const char *whole, const char *mesh)
{
    check_layout(model, whole, mesh, NULL);
}

static void branches_equal_the_whole(void **state)
{
    (void)state;
    static const char *const models[] = {
        "model=treenet:branches=4,hidden=16x12",
        "model=treenet:branches=4,hidden=16x12,loss=scores",
        "model=treenet:branches=4,filters=4x6,hidden=12,junction=2",
        "model=treenet:branches=8,hidden=14,junction=0"
    };
    for (int m = 0; m < 4; m++) {
        check_branches(models[m], "workers=1", "mesh=tensor=2");
        check_branches(models[m], "workers=1", "mesh=tensor=4");
        check_branches(models[m], "workers=2", "mesh=data=2,tensor=2");
    }
    check_branches("model=treenet:branches=2,hidden=16x12x14", "workers=1", "mesh=pipe=2,tensor=2");
    check_branches("model=treenet:branches=3,hidden=16x12", "workers=1", "mesh=tensor=3");
    check_layout("model=treenet:branches=4,hidden=16x12,loss=best", "workers=1", "mesh=tensor=2",
                 "layout=concat=branches");
    check_layout("model=treenet:branches=4,hidden=16x12,loss=best", "workers=1",
                 "mesh=pipe=2,tensor=4", "layout=concat=branches");
}

static void a_worker_has_the_trunk_and_its_branch(void **state)
{
    (void)state;
    enum { IN = 784, TRUNK = 16, HIDDEN = 12, OUT = 10, M = 4 };
    fast_run *run = trained("model=treenet:branches=4,hidden=16x12", "mesh=tensor=4", NULL);
    const int64_t trunk = (IN + 1) * TRUNK, member = (TRUNK + 1) * HIDDEN + (HIDDEN + 1) * OUT;
    if (!mpi) {
        for (int64_t t = 0; t < M; t++)
            assert_int_equal(run->team->actors[t]->context.trainer.count, trunk + member);
        assert_int_equal(run->learner->params.count, trunk + M * member);
    }
    fast_run_close(run);
}

/* With one member a TreeNet is the plain network, and a stack of one module, too. */
static void one_member_is_the_plain_network(void **state)
{
    (void)state;
    fast_run *plain = trained("model=mlp:hidden=16x12", "workers=1", NULL);
    fast_run *tree = trained("model=treenet:branches=1,hidden=16x12", "workers=1", NULL);
    assert_true(fast_run_result(plain)->params_hash == fast_run_result(tree)->params_hash);
    fast_run_close(plain);
    fast_run_close(tree);
}

/* Branches that the shards do not divide, or that have heads, are refused with the reason. */
static void other_branches_are_refused(void **state)
{
    (void)state;
    static const char *const bad[][2] = {
        { "model=treenet:branches=3,hidden=15", "3 branches, which 2 shards do not divide" },
        { "model=treenet:branches=4,hidden=15,loss=members", "losses of their own" },
    };
    for (int i = 0; i < 2; i++) {
        const char *const options[] = { bad[i][0], "data=digits:train=64,test=16", "engine=ref",
                                        "mesh=tensor=2", NULL };
        fast_run *run = NULL;
        assert_int_equal(fast_run_open(options, &run), FAST_EINVAL);
        if (!strstr(fast_error_detail(), bad[i][1]))
            fail_msg("%s: %s", bad[i][0], fast_error_detail());
    }
}

/* A network with its parameters, and a batch of points. */
enum { POINTS = 5, FEATURES = 3, CLASSES = 4, PARAMS_MAX = 400 };
typedef struct test_net {
    fast_graph *graph;
    fast_program *program;
    fast_workspace *workspace;
    float w[PARAMS_MAX], g[PARAMS_MAX], y[POINTS * CLASSES];
} test_net;

static void net_open(test_net *net, const char *spec)
{
    const fast_model_input input = { .rank = 1, .shape = { FEATURES }, .outputs = CLASSES };
    const fast_engine_options options = { .batch = POINTS, .train = true, .plan_path = "" };
    char *text = NULL;
    assert_int_equal(fast__model_open(spec, &input, &net->graph, &text), FAST_OK);
    fast__free(text);
    assert_true(net->graph->params.count <= PARAMS_MAX);
    assert_int_equal(fast__engine_ref.compile(net->graph, &options, &net->program), FAST_OK);
    assert_int_equal(fast__engine_ref.workspace_new(net->program, &net->workspace), FAST_OK);
    fast__graph_init(net->graph, 3, 0, net->w, NULL);
}

static void net_close(test_net *net)
{
    fast__engine_ref.workspace_free(net->workspace);
    fast__engine_ref.program_free(net->program);
    fast__graph_free(net->graph);
}

static const int32_t labels[POINTS] = { 2, 0, 3, 1, 2 };

/* Run a pass; gives the loss, and fills y and g. */
static double net_run(test_net *net)
{
    float x[POINTS * FEATURES];
    for (int i = 0; i < POINTS * FEATURES; i++)
        x[i] = sinf((float)(3 * i + 1));
    const fast_batch batch = { .count = POINTS, .x = x, .labels = labels };
    fast_pass pass = {
        .params = net->w, .batch = &batch, .grad = net->g, .train = true, .outputs = net->y
    };
    assert_int_equal(fast__engine_ref.run(net->program, net->workspace, &pass), FAST_OK);
    return pass.loss;
}

/* The probability of class k from scores. */
static double softmax_of(const float *y, int k)
{
    double sum = 0;
    for (int i = 0; i < CLASSES; i++)
        sum += exp((double)y[i]);
    return exp((double)y[k]) / sum;
}

/* The loss of a TreeNet is that of the mean of its members; those of `members` are added. */
static void treenet_losses_by_hand(void **state)
{
    (void)state;
    enum { WIDTH = 6, TRUNK = (FEATURES + 1) * WIDTH, MEMBER = (WIDTH + 1) * CLASSES };
    static const char *const specs[] = { "treenet:branches=2,hidden=6",
                                         "treenet:branches=2,hidden=6,loss=scores",
                                         "treenet:branches=2,hidden=6,loss=members",
                                         "treenet:branches=2,hidden=6,loss=best" };
    static test_net tree, plain[2];
    for (int kind = 0; kind < 4; kind++) {
        double right = 0, sum = 0, least = 0, bias[2][CLASSES] = { { 0 } };
        net_open(&tree, specs[kind]);
        assert_int_equal(tree.graph->params.count, TRUNK + 2 * MEMBER);
        const double loss = net_run(&tree);
        for (int m = 0; m < 2; m++) {
            net_open(&plain[m], "mlp:hidden=6");
            memcpy(plain[m].w, tree.w, TRUNK * sizeof(float));
            memcpy(plain[m].w + TRUNK, tree.w + TRUNK + m * MEMBER, MEMBER * sizeof(float));
            sum += net_run(&plain[m]);
        }
        for (int i = 0; i < POINTS; i++) {
            const float *a = plain[0].y + i * CLASSES, *b = plain[1].y + i * CLASSES;
            const int k = labels[i];
            float mean[CLASSES];
            for (int c = 0; c < CLASSES; c++)
                mean[c] = (a[c] + b[c]) / 2;
            const double p =
                kind == 1 ? softmax_of(mean, k) : (softmax_of(a, k) + softmax_of(b, k)) / 2;
            right -= log(p) / POINTS;
            const int best = softmax_of(b, k) > softmax_of(a, k);
            const float *y = best ? b : a;
            least -= log(softmax_of(y, k)) / POINTS;
            for (int c = 0; c < CLASSES; c++)
                bias[best][c] += (softmax_of(y, c) - (c == k)) / POINTS;
            /* The output is the mean's, also where it is not what is minimised. */
            assert_true(fabs(softmax_of(tree.y + i * CLASSES, k) - p) < 1e-5);
        }
        right = kind == 2 ? sum : kind == 3 ? least : right;
        /* The best member of each sample alone learns from it. */
        for (int m = 0; m < 2; m++)
            for (int c = 0; kind == 3 && c < CLASSES; c++)
                assert_true(fabs((double)tree.g[TRUNK + (m + 1) * MEMBER - CLASSES + c] -
                                 bias[m][c]) < 1e-6);
        if (!(fabs(loss - right) < 1e-5))
            fail_msg("%s: loss %g, not %g", specs[kind], loss, right);
        for (int m = 0; m < 2;
             m++) /* with losses of their own members learn as plain networks do */
            for (int i = 0; kind == 2 && i < MEMBER; i++)
                assert_true(fabsf(tree.g[TRUNK + m * MEMBER + i] - plain[m].g[TRUNK + i]) < 1e-6F);
        for (int i = 0; kind == 2 && i < TRUNK; i++)
            assert_true(fabsf(tree.g[i] - plain[0].g[i] - plain[1].g[i]) < 1e-6F);
        net_close(&tree);
        net_close(&plain[0]);
        net_close(&plain[1]);
    }
}

/* The first module of a stack learns as if it were alone, unless the gradients above reach it. */
static void modules_learn_by_themselves(void **state)
{
    (void)state;
    static test_net stack, alone, joint;
    double apart = 0;
    net_open(&alone, "dsn:modules=1,hidden=5");
    net_open(&stack, "dsn:modules=3,hidden=5");
    net_open(&joint, "dsn:modules=3,hidden=5,detach=no");
    const int64_t module = alone.graph->params.count;
    memcpy(alone.w, stack.w, (size_t)module * sizeof(float));
    memcpy(joint.w, stack.w, (size_t)stack.graph->params.count * sizeof(float));
    const double first = net_run(&alone), all = net_run(&stack);
    assert_true(fabs(net_run(&joint) - all) < 1e-6);
    assert_true(all > 2 * first);
    for (int64_t i = 0; i < module; i++) {
        assert_true(fabsf(stack.g[i] - alone.g[i]) < 1e-7F);
        apart = fmax(apart, fabs((double)(joint.g[i] - alone.g[i])));
    }
    assert_true(apart > 1e-4);
    /* Module 2 reads the answers of module 1 beside the input. */
    assert_int_equal(stack.graph->params.count, 3 * module + (1 + 2) * CLASSES * 5);
    net_close(&stack);
    net_close(&alone);
    net_close(&joint);
}

/* Memory can run out wherever a split TreeNet, or a stack in a pipeline, is opened and trained. */
static void memory_can_run_out(void **state)
{
    (void)state;
    static const char *const small[] = { "data=digits:train=32,test=8",
                                         "engine=ref",
                                         "plan=no",
                                         "batch=4",
                                         "accumulate=2",
                                         "steps=2",
                                         "transport=sim",
                                         NULL };
    test_out_of_memory(small, (const char *const[]){ "model=treenet:branches=2,hidden=8x6",
                                                     "mesh=tensor=2", NULL });
    test_out_of_memory(
        small, (const char *const[]){ "model=dsn:modules=2,hidden=6", "mesh=pipe=2", NULL });
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(heads_learn_on_any_stage),
        cmocka_unit_test(modules_are_stages),
        cmocka_unit_test(branches_equal_the_whole),
        cmocka_unit_test(a_worker_has_the_trunk_and_its_branch),
        cmocka_unit_test(one_member_is_the_plain_network),
        cmocka_unit_test(other_branches_are_refused),
        cmocka_unit_test(treenet_losses_by_hand),
        cmocka_unit_test(modules_learn_by_themselves),
        cmocka_unit_test(memory_can_run_out),
    };
    mpi = argc > 1 && strcmp(argv[1], "mpi") == 0;
    if (argc > 1 && strcmp(argv[1], "sim") == 0)
        transport = "transport=sim";
#ifdef FAST_HAVE_MPI
    if (mpi) {
        const fast_mpi_process *process = NULL;
        transport = "transport=mpi";
        if (fast__mpi_begin(fast__clock_ns() + (int64_t)60 * 1000 * 1000 * 1000, &process))
            return 1;
        rank = process->rank;
    }
#endif
    return cmocka_run_group_tests(tests, NULL, NULL);
}
