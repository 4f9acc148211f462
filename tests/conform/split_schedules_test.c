/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Goal: schedules that divide the work of a pipeline further train the model that the whole one
 * trains, with the bubbles and the activations of their papers: interleaved 1F1B, whose workers
 * have several stages, and zero_bubble, whose backward passes are divided.
 *
 * Method: on engine ref parameters are compared to the bit with whole models that accumulate as
 * many micro-batches. In virtual time, with equal layers and messages that take no time, the bubble
 * is compared with the closed form, and the micro-batches in flight with their bound.
 */
#include "split_runs.h"

#include "base/memory.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#define LIST(...) ((const char *const[]){ __VA_ARGS__, NULL })

enum { OPTIONS_MAX = 24 };

static const char *const small[] = { "model=mlp:hidden=14x12x10x8x9,dropout=0.2",
                                     "data=digits:train=320,test=64",
                                     "engine=ref",
                                     "plan=no",
                                     "timeout=60",
                                     "batch=2",
                                     "accumulate=6",
                                     "steps=5",
                                     "evaluate=end",
                                     "optimizer=momentum",
                                     "lr=0.05",
                                     NULL };

/* Train; gives the hash of the parameters, 0 at ranks that have no whole result. */
static uint64_t hash_of(const char *const *more)
{
    fast_run *run = test_open_run(small, more);
    if (fast_run_train(run))
        fail_msg("%s", fast_error_detail());
    const uint64_t hash = fast_run_result(run)->params_hash;
    assert_true(test_rank() > 0 || isfinite(fast_run_result(run)->loss));
    fast_run_close(run);
    return hash;
}

/* A split run and a whole one with the same replicas have the same bits, where the whole result is.
 */
static void check_equal(const char *const *base, const char *replicas, const char *const *split)
{
    const char *a[OPTIONS_MAX], *b[OPTIONS_MAX];
    int n = 0, m;
    for (; base && base[n]; n++)
        a[n] = b[n] = base[n];
    a[n] = replicas;
    a[n + 1] = NULL;
    b[n] = test_transport();
    for (m = 0; split[m]; m++)
        b[n + 1 + m] = split[m];
    b[n + 1 + m] = NULL;
    const uint64_t right = hash_of(a), got = hash_of(b);
    if (test_rank() == 0 && got != right)
        fail_msg("%s %s %s: other bits than %s", base ? base[0] : small[0], split[0], split[1],
                 replicas);
}

static void chunks_equal_the_whole(void **state)
{
    (void)state;
    static const char *const interleaved = "pipeline=interleaved";
    check_equal(NULL, "workers=1", LIST("mesh=pipe=2", interleaved));
    check_equal(NULL, "workers=1", LIST("mesh=pipe=2", interleaved, "chunks=3"));
    check_equal(NULL, "workers=1", LIST("mesh=pipe=3", interleaved, "chunks=2"));
    check_equal(NULL, "workers=1", LIST("mesh=pipe=2", interleaved, "chunks=1"));
    check_equal(NULL, "workers=2", LIST("mesh=data=2,pipe=3", interleaved));
}

/* Statistics and skips, a transformer with dropout, one group of micro-batches, rules and
 * strategies, evaluations in mid-run. */
static void chunks_go_with_the_rest(void **state)
{
    (void)state;
    static const char *const interleaved = "pipeline=interleaved";
    check_equal(LIST("model=resnet8:width=4", "steps=3", "accumulate=2"), "workers=1",
                LIST("mesh=pipe=2", interleaved));
    check_equal(LIST("model=gpt:width=16,heads=2,depth=3,dropout=0.1", "data=copy", "steps=4"),
                "workers=1", LIST("mesh=pipe=2", interleaved));
    check_equal(LIST("optimizer=lars", "accumulate=3"), "workers=1",
                LIST("mesh=pipe=3", interleaved));
    check_equal(LIST("optimizer=adam", "lr=0.01", "evaluate=2steps"), "workers=2",
                LIST("mesh=data=2,pipe=2", interleaved));
    check_equal(LIST("strategy=allreduce:overlap=yes,bucket=64"), "workers=2",
                LIST("mesh=data=2,pipe=2", interleaved));
    check_equal(LIST("strategy=zero:stage=2", "optimizer=adam"), "workers=2",
                LIST("mesh=data=2,pipe=2", interleaved));
    check_equal(LIST("model=dsn:modules=4", "accumulate=2"), "workers=1",
                LIST("mesh=pipe=2", interleaved));
}

/* Divided backward passes: of dense layers, convolutions with statistics and skips, attention and
 * layer norms, recurrent layers, heads in all stages; fewer micro-batches than stages, and one. */
static void halves_equal_the_whole(void **state)
{
    (void)state;
    static const char *const zero = "pipeline=zero_bubble";
    check_equal(NULL, "workers=1", LIST("mesh=pipe=2", zero));
    check_equal(NULL, "workers=1", LIST("mesh=pipe=4", zero));
    check_equal(LIST("accumulate=2"), "workers=1", LIST("mesh=pipe=4", zero));
    check_equal(LIST("accumulate=1"), "workers=2", LIST("mesh=data=2,pipe=3", zero));
    check_equal(LIST("model=resnet8:width=4", "steps=3", "accumulate=3"), "workers=1",
                LIST("mesh=pipe=3", zero));
    check_equal(LIST("model=gpt:width=16,heads=2,depth=2,dropout=0.1", "data=copy", "steps=4"),
                "workers=1", LIST("mesh=pipe=3", zero));
    check_equal(LIST("model=lstm:hidden=8,layers=2", "data=copy", "steps=3"), "workers=1",
                LIST("mesh=pipe=2", zero));
    check_equal(LIST("model=dsn:modules=4", "accumulate=3"), "workers=1",
                LIST("mesh=pipe=4", zero));
    check_equal(LIST("strategy=allreduce:overlap=yes,bucket=64", "optimizer=adam", "lr=0.01"),
                "workers=2", LIST("mesh=data=2,pipe=2", zero));
}

/* On the engine of users and with shards, whose sums have another order: within rounding. */
static void halves_stay_close(void **state)
{
    (void)state;
    static const char *const cases[][4] = {
        { "model=gpt:width=32,heads=4,depth=3", "data=copy", "mesh=pipe=2", "engine=auto" },
        { "model=resnet8:width=8", "batch=8", "mesh=pipe=2", "engine=auto" },
        { "model=gpt:width=16,heads=2,depth=4", "data=copy", "mesh=pipe=2,tensor=2", "engine=ref" },
        { "model=gpt:width=16,heads=2,depth=2,experts=4,every=2,top=2", "data=copy",
          "mesh=pipe=2,tensor=2", "engine=ref" },
    };
    for (int i = 0; i < 4; i++) {
        const char *const *c = cases[i];
        double loss;
        const double far = test_split_distance(small, LIST(c[0], c[1], "lr=0.005", "steps=8", c[3]),
                                               LIST(c[0], c[1], "lr=0.005", "steps=8", c[3], c[2],
                                                    "pipeline=zero_bubble", test_transport()),
                                               &loss);
        /* The fast engine may choose other methods each time: its losses are compared. */
        if (!(i < 2 ? loss < 1e-3 : far < 1e-5))
            fail_msg("%s %s: distance %g, of losses %g", c[0], c[2], far, loss);
    }
}

/* The whole run: cuts by hand, the norm of all chunks. */
static void chunks_are_cut_by_hand(void **state)
{
    (void)state;
    double loss;
    check_equal(NULL, "workers=1",
                LIST("mesh=pipe=2", "pipeline=interleaved", "cuts=dense2,dense3,dense5"));
    const double far = test_split_distance(small, LIST("optimizer=sgd:clip_norm=0.5"),
                                           LIST("optimizer=sgd:clip_norm=0.5", "mesh=pipe=3",
                                                "pipeline=interleaved", test_transport()),
                                           &loss);
    assert_true(far < 1e-5);
}

/* Shards of chunks: sums in another order. */
static void chunks_have_shards(void **state)
{
    (void)state;
    double loss;
    const double far = test_split_distance(
        small, LIST("model=gpt:width=16,heads=2,depth=4", "data=copy", "steps=8", "accumulate=2"),
        LIST("model=gpt:width=16,heads=2,depth=4", "data=copy", "steps=8", "accumulate=2",
             "mesh=pipe=2,tensor=2", "pipeline=interleaved", test_transport()),
        &loss);
    if (!(far < 1e-5))
        fail_msg("distance %g", far);
}

/* A checkpoint has the names of the whole model: it moves between schedules and splits. */
static void checkpoints_move(void **state)
{
    (void)state;
    static const char *const splits[][3] = {
        { "workers=1", NULL },
        { "mesh=pipe=2", "pipeline=interleaved", NULL },
        { "mesh=pipe=3", "pipeline=interleaved", NULL },
        { "mesh=pipe=2", "pipeline=zero_bubble", NULL },
    };
    enum { SPLITS = sizeof splits / sizeof splits[0] };
    char path[] = "/tmp/fast_schedule_XXXXXX", checkpoint[64], resume[64];
    if (test_is_mpi())
        skip();
    const int fd = mkstemp(path);
    assert_true(fd >= 0);
    close(fd);
    snprintf(checkpoint, sizeof checkpoint, "checkpoint=%s", path);
    snprintf(resume, sizeof resume, "resume=%s", path);
    const char *const rule = "optimizer=adam", *const steady = "schedule=constant";
    const uint64_t right = hash_of(LIST(rule, steady));
    for (int a = 0; a < SPLITS; a++)
        for (int b = 0; b < SPLITS; b++) {
            if (a == b && a != 1)
                continue;
            (void)hash_of(LIST(rule, steady, checkpoint, "steps=3", test_transport(), splits[a][0],
                               splits[a][1]));
            if (hash_of(LIST(rule, steady, resume, test_transport(), splits[b][0], splits[b][1])) !=
                right)
                fail_msg("saved with %s, resumed with %s: other bits", splits[a][0], splits[b][0]);
        }
    remove(path);
}

/* Write a network of equal layers to a file of this name. */
static void write_layers(char *path, int layers)
{
    const int fd = mkstemp(path);
    FILE *file = fd >= 0 ? fdopen(fd, "w") : NULL;
    assert_non_null(file);
    fprintf(file, "embed 16\n");
    for (int i = 0; i < layers; i++)
        fprintf(file, "dense 16\n");
    fclose(file);
}

/* Train equal stages in virtual time, where messages take none: the bubble is the closed form's,
 * and each worker has the micro-batches in flight that the schedule says. */
static void check_bubble(const char *path, fast_pipe_place place, const char *pipeline)
{
    char model[64], accumulate[32], mesh[32], chunks[32], cluster[96], name[32];
    snprintf(model, sizeof model, "model=file:%s", path);
    snprintf(accumulate, sizeof accumulate, "accumulate=%d", (int)place.micro_batches);
    snprintf(mesh, sizeof mesh, "mesh=pipe=%d", (int)place.stages);
    snprintf(chunks, sizeof chunks, "chunks=%d", (int)place.chunks);
    snprintf(name, sizeof name, "pipeline=%s", pipeline);
    snprintf(cluster, sizeof cluster,
             "cluster=ideal:nodes=%d,speed=1GFLOP/s,latency=0us,bandwidth=0", (int)place.stages);
    fast_run *run =
        test_open_run(small, LIST(model, "data=copy:symbols=14", accumulate, "batch=8", "steps=6",
                                  "evaluate=no", "transport=sim", cluster, mesh, name, chunks));
    if (fast_run_train(run))
        fail_msg("%s", fast_error_detail());
    const double right = fast__pipe_bubble(&place);
    const double bubble =
        1 - fast_run_result(run)->compute_s / fast_run_result(run)->virtual_time_s;
    if (!(fabs(bubble - right) < 0.01))
        fail_msg("%s %s %s %s: bubble %g, not %g", name, mesh, accumulate, chunks, bubble, right);
    for (place.stage = 0; place.stage < place.stages; place.stage++)
        assert_int_equal(run->team->actors[place.stage]->context.pipe.in_flight_max,
                         fast__pipe_flight(&place));
    fast_run_close(run);
}

static void bubbles_are_those_of_the_papers(void **state)
{
    (void)state;
    char path[] = "/tmp/fast_layers_XXXXXX";
    if (test_is_mpi() || strcmp(test_transport(), "transport=sim") != 0)
        skip();
    write_layers(path, 8);
    for (int64_t M = 4; M <= 16; M *= 2) {
        check_bubble(path, (fast_pipe_place){ FAST_PIPELINE_INTERLEAVED, 4, 0, M, 2 },
                     "interleaved");
        check_bubble(path, (fast_pipe_place){ FAST_PIPELINE_INTERLEAVED, 2, 0, M, 4 },
                     "interleaved");
        check_bubble(path, (fast_pipe_place){ FAST_PIPELINE_ZERO_BUBBLE, 4, 0, M, 1 },
                     "zero_bubble");
    }
    remove(path);
}

/* Workers have the vectors of their stages, and a loader for each that needs one. */
static void workers_have_several_stages(void **state)
{
    (void)state;
    if (test_is_mpi())
        skip();
    fast_run *run = test_open_run(
        small, LIST("mesh=pipe=2", "pipeline=interleaved", "chunks=3", test_transport()));
    const fast_team_split *split = &run->team->split;
    assert_int_equal(fast_run_train(run), FAST_OK);
    assert_int_equal(split->chunks, 3);
    for (int64_t i = 0; i < 2; i++) {
        const fast_team_actor *self = run->team->actors[i];
        const fast_pipe *pipe = &self->context.pipe;
        char layers[128];
        int64_t count = 0;
        assert_int_equal(pipe->chunk_count, 3);
        for (int64_t k = 0; k < 3; k++) {
            assert_int_equal(pipe->chunks[k].number, 2 * k + i);
            assert_int_equal(pipe->chunks[k].offset, count);
            count += split->stages[2 * k + i]->graph.params.count;
        }
        assert_int_equal(self->context.trainer.count, count);
        assert_int_equal(fast__split_describe(run->team, i, layers, sizeof layers), count);
        assert_string_equal(layers, i == 0 ? "dense1, dense3, dense5" : "dense2, dense4, dense6");
    }
    fast_run_close(run);
}

/* Workspaces of a stage with M micro-batches in flight. */
static int64_t bytes_of(const char *accumulate, const char *recompute)
{
    fast_run *run =
        test_open_run(small, LIST("model=gpt:width=16,heads=2,depth=6", "data=copy", "engine=cpu",
                                  "batch=16", "steps=1", "evaluate=no", "mesh=pipe=2",
                                  "pipeline=gpipe", accumulate, recompute, test_transport()));
    assert_int_equal(fast_run_train(run), FAST_OK);
    const int64_t bytes = fast__split_workspace_bytes(run->team, 0);
    fast_run_close(run);
    return bytes;
}

/* GPipe: a micro-batch in flight adds what crosses the cuts of its stage, not the activations
 * between them, and those of one micro-batch are there once. */
static void recomputed_micro_batches_are_small(void **state)
{
    (void)state;
    if (test_is_mpi())
        skip();
    const int64_t plain[2] = { bytes_of("accumulate=2", "recompute=no"),
                               bytes_of("accumulate=8", "recompute=no") };
    const int64_t again[2] = { bytes_of("accumulate=2", "recompute=yes"),
                               bytes_of("accumulate=8", "recompute=yes") };
    if (!(5 * (again[1] - again[0]) < 2 * (plain[1] - plain[0])))
        fail_msg("six more micro-batches: %lld bytes, and %lld without recomputation",
                 (long long)(again[1] - again[0]), (long long)(plain[1] - plain[0]));
    assert_true(2 * again[1] < plain[1]);
}

static void the_rest_is_refused(void **state)
{
    (void)state;
    static const char *const bad[][3] = {
        { "pipeline=interleaved", "accumulate=5", "groups of 2" },
        { "pipeline=interleaved", "mesh=pipe=1", "several workers" },
        { "pipeline=interleaved", "chunks=9", "cannot be cut" },
        { "pipeline=1f1b", "chunks=2", "pipeline=interleaved" },
        { "pipeline=zero_bubble", "chunks=2", "pipeline=interleaved" },
        { "pipeline=zero_bubble", "recompute=yes", "both halves" },
        { "pipeline=1f1b", "chunks=-1", "chunks" },
    };
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        const char *why = test_refusal(small, LIST("mesh=pipe=2", bad[i][0], bad[i][1]));
        if (!strstr(why, bad[i][2]))
            fail_msg("%s %s: %s", bad[i][0], bad[i][1], why);
    }
    assert_non_null(strstr(test_refusal(small, LIST("chunks=2")), "mesh"));
    assert_non_null(
        strstr(test_refusal(small, LIST("model=mlp:hidden=16x16", "mesh=pipe=2,tensor=4",
                                        "layout=dense=cannon", "batch=4", "pipeline=zero_bubble")),
               "rounds"));
}

static void memory_can_run_out(void **state)
{
    (void)state;
    if (strcmp(test_transport(), "transport=sim") != 0)
        skip();
    test_out_of_memory(small, LIST("model=mlp:hidden=4x4x4", "data=digits:train=64,test=16",
                                   "steps=1", "accumulate=2", "transport=sim", "mesh=pipe=2",
                                   "pipeline=interleaved"));
    test_out_of_memory(small, LIST("model=mlp:hidden=4x4", "data=digits:train=64,test=16",
                                   "steps=1", "accumulate=2", "transport=sim", "mesh=pipe=2",
                                   "pipeline=zero_bubble", "engine=cpu"));
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(chunks_equal_the_whole),
        cmocka_unit_test(chunks_go_with_the_rest),
        cmocka_unit_test(halves_equal_the_whole),
        cmocka_unit_test(halves_stay_close),
        cmocka_unit_test(chunks_are_cut_by_hand),
        cmocka_unit_test(chunks_have_shards),
        cmocka_unit_test(checkpoints_move),
        cmocka_unit_test(bubbles_are_those_of_the_papers),
        cmocka_unit_test(workers_have_several_stages),
        cmocka_unit_test(recomputed_micro_batches_are_small),
        cmocka_unit_test(the_rest_is_refused),
        cmocka_unit_test(memory_can_run_out),
    };
    return test_split_main(argc, argv, tests, sizeof tests / sizeof tests[0]);
}
