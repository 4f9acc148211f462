/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Goal: the layers of a streaming rollout train on several shards as on one, each shard has its own
 * layers, and all compute each frame at once: in the time that one needs, divided by the shards.
 *
 * Method: networks with delays are trained split and whole, for one step of plain descent, whose
 * change is the gradient, and for 20. Parameters of a shard and bytes are counted by hand. In
 * virtual time a step takes what the layers of a shard take; each frame costs one latency forward
 * and one backward.
 *
 * The word "mpi" runs all that does not need virtual time over the ranks of mpirun.
 */
#include "split_runs.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#define STREAMING "layout=streaming"
#define MODEL     "model=rollout:hidden=6x6x6x6"
#define WORDS     "data=words:train=160,test=32,vocabulary=30,length=9"

static const char *const small[] = { "data=digits:train=160,test=32",
                                     "engine=ref",
                                     "plan=no",
                                     "timeout=60",
                                     "batch=4",
                                     "accumulate=2",
                                     "evaluate=no",
                                     "optimizer=sgd",
                                     "lr=0.1",
                                     "steps=5",
                                     NULL };

/* Parameters and losses of a split run are those of the whole one. */
static void check(const char *model, const char *data, const char *mesh, const char *more,
                  double bound)
{
    test_split_equals(small, (const char *const[]){ model, data, more, NULL }, mesh, STREAMING,
                      bound);
}

static void splits_equal_the_whole(void **state)
{
    (void)state;
    static const char *const meshes[] = { "mesh=tensor=2", "mesh=tensor=3", "mesh=tensor=4",
                                          "mesh=data=2,tensor=2" };
    static const char *const data = "data=digits:train=160,test=32";
    for (int k = 0; k < 4; k++) {
        check(MODEL, data, meshes[k], "steps=1", 1e-5);
        check(MODEL, data, meshes[k], "steps=20", 1e-4);
        check(MODEL ",embedding=6", WORDS, meshes[k], "steps=1", 1e-5); /* gradients before it */
        check(MODEL ",recurrent=no", data, meshes[k], "steps=1", 1e-5);
    }
    check(MODEL, data, "mesh=tensor=2", "accumulate=1", 1e-4);
    check(MODEL, data, "mesh=tensor=4", "engine=auto", 1e-4);
    for (int k = 0; k < 3; k++) /* widths that differ, and blocks larger than what they have */
        check("model=rollout:hidden=9x4x7,embedding=6", WORDS, meshes[k], "steps=5", 1e-5);
    check("model=rollout:hidden=6x6x6x6x6x6,embedding=6", WORDS, "mesh=pipe=2,tensor=2", "steps=20",
          1e-4);
}

/* A shard has the weights of its layers, of about the same work; the embedding is at each. The
 * first layer is larger where it reads images. */
static void shards_hold_their_layers(void **state)
{
    (void)state;
    enum { N = 6, LAYERS = 5, T = 3, WORDS_COUNT = 30 };
    static const char *const data[] = { "data=digits:train=160,test=32", WORDS };
    static const int64_t inputs[] = { 784, N }, outputs[] = { 10, 4 },
                         first[][T + 1] = { { 0, 1, 2, LAYERS }, { 0, 1, 3, LAYERS } };
    for (int k = 0; k < 2; k++) {
        const int64_t embedding = k ? WORDS_COUNT * N : 0;
        int64_t all = embedding;
        fast_run *run = test_open_run(small, (const char *const[]){ MODEL ",embedding=6", data[k],
                                                                    "mesh=tensor=3", STREAMING,
                                                                    test_transport(), NULL });
        for (int64_t t = 0; t < T; t++) {
            int64_t own = 0;
            for (int64_t l = first[k][t]; l < first[k][t + 1]; l++)
                own += l == LAYERS - 1 ? outputs[k] * (N + 1) : N * ((l ? N : inputs[k]) + N + 2);
            assert_int_equal(run->team->split.shards[t].shard->params.count, embedding + own);
            all += own;
        }
        assert_int_equal(run->learner->params.count, all);
        fast_run_close(run);
    }
}

/* The bytes of all workers, or the virtual time, of one step of `mesh`. */
typedef struct test_cost {
    double bytes, seconds;
} test_cost;

static test_cost cost_of(const char *model, const char *mesh, const char *layout,
                         const char *cluster, const char *data, const char *batch)
{
    test_cost cost[2];
    for (int i = 0; i < 2; i++) {
        const char *const options[] = {
            model,           data,   mesh,  cluster, i ? "steps=6" : "steps=2",
            "transport=sim", layout, batch, NULL
        };
        fast_run *run = test_open_run(small, options);
        if (fast_run_train(run))
            fail_msg("%s", fast_error_detail());
        cost[i] = (test_cost){ (double)fast_run_result(run)->bytes_sent,
                               fast_run_result(run)->virtual_time_s };
        fast_run_close(run);
    }
    return (test_cost){ (cost[1].bytes - cost[0].bytes) / 4,
                        (cost[1].seconds - cost[0].seconds) / 4 };
}

/* Of two shards each sends a block of all frames but the last, backward beside its gradient, and
 * its part of two sums: of the outputs, and of the gradient of the embedding. Images have none. */
static void shards_send_what_is_counted(void **state)
{
    (void)state;
    enum { T = 2, MICRO = 2, B = 4, N = 6, HEADER = 64 };
    static const char *const data[] = { WORDS, "data=digits:train=160,test=32" };
    static const int frames[] = { 9, 10 }, classes[] = { 4, 10 };
    if (test_is_mpi())
        skip();
    for (int k = 0; k < 2; k++) {
        const double blocks = 3.0 * (frames[k] - 1) * B * N;
        const double sums = (double)(B * frames[k] * (classes[k] + (k ? 0 : N)));
        const double messages = 2 * (frames[k] - 1) + (k ? 1 : 2);
        const double bytes = cost_of(MODEL ",embedding=6", "mesh=tensor=2", STREAMING,
                                     "cluster=ideal:nodes=2", data[k], "batch=4")
                                 .bytes;
        assert_true(bytes == T * MICRO * (4 * (blocks + sums) + HEADER * messages));
    }
}

/* Write a chain of equal layers to a file of this name. */
static void write_layers(char *path, int layers)
{
    const int fd = mkstemp(path);
    FILE *file = fd >= 0 ? fdopen(fd, "w") : NULL;
    assert_non_null(file);
    fprintf(file, "embed 32\n");
    for (int i = 0; i < layers; i++)
        fprintf(file, "delay\nrnn 32\n");
    fprintf(file, "last\ndense 4\n");
    fclose(file);
}

/* All layers compute each frame at once: S shards take 1 / S of the time of one where messages take
 * none. With a latency each frame but the last takes one more in each pass, and sums take some. */
static void all_layers_compute_at_once(void **state)
{
    (void)state;
    enum { LAYERS = 4, W = 24, MICRO = 2 };
    static const char *const data = "data=words:train=160,test=32,vocabulary=30,length=24";
    char path[] = "/tmp/fast_rollout_XXXXXX", model[64];
    if (test_is_mpi() || strcmp(test_transport(), "transport=sim") != 0)
        skip();
    write_layers(path, LAYERS);
    snprintf(model, sizeof model, "model=file:%s", path);
    const double one =
        cost_of(model, "workers=1",
                "layout=", "cluster=ideal:nodes=1,speed=1GFLOP/s,latency=0us,bandwidth=0", data,
                "batch=32")
            .seconds;
    for (int S = 2; S <= LAYERS; S += 2) {
        char mesh[32], cluster[2][96];
        double seconds[2];
        snprintf(mesh, sizeof mesh, "mesh=tensor=%d", S);
        for (int k = 0; k < 2; k++) {
            snprintf(cluster[k], sizeof cluster[k],
                     "cluster=ideal:nodes=%d,speed=1GFLOP/s,latency=%dus,bandwidth=0", S, 50 * k);
            seconds[k] = cost_of(model, mesh, STREAMING, cluster[k], data, "batch=32").seconds;
        }
        if (!(fabs(seconds[0] * S / one - 1) < 0.01))
            fail_msg("%d shards: %g s, not 1 / %d of %g s", S, seconds[0], S, one);
        const double latencies = (seconds[1] - seconds[0]) / 50e-6;
        const double frames = MICRO * 2.0 * (W - 1);
        if (!(latencies >= frames && latencies < 1.15 * frames))
            fail_msg("%d shards: %g latencies, not %g", S, latencies, frames);
    }
    remove(path);
}

/* A split that does not fit is refused with one sentence. */
static void the_rest_is_refused(void **state)
{
    (void)state;
    static const char *const bad[][4] = {
        { "model=rollout:hidden=6x6", "mesh=tensor=4", "batch=4",
          "unit1 begins a chain of 3 layers behind delays, fewer than 4 shards" },
        { "model=rollout:hidden=6x6,pattern=sequential", "mesh=tensor=2", "batch=4",
          "no stage has a chain of dense or rnn layers behind delays" },
        { "model=rollout:hidden=6x6,skip=all", "mesh=tensor=2", "batch=4",
          "answers begins a chain of 1 layers" },
        { "model=rollout:hidden=6x6x6x6x6x6", "mesh=pipe=2,tensor=2", "pipeline=zero_bubble",
          "zero_bubble divides backward passes" },
    };
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        const char *const options[] = { bad[i][0], bad[i][1], bad[i][2], STREAMING, NULL };
        if (!strstr(test_refusal(small, options), bad[i][3]))
            fail_msg("%s: %s", bad[i][0], fast_error_detail());
    }
}

static void memory_can_run_out(void **state)
{
    (void)state;
    test_out_of_memory(small, (const char *const[]){
                                  "model=rollout:hidden=4x4", "data=digits:train=16,test=8",
                                  "steps=1", "transport=sim", "mesh=tensor=2", STREAMING, NULL });
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(splits_equal_the_whole),      cmocka_unit_test(shards_hold_their_layers),
        cmocka_unit_test(shards_send_what_is_counted), cmocka_unit_test(all_layers_compute_at_once),
        cmocka_unit_test(the_rest_is_refused),         cmocka_unit_test(memory_can_run_out),
    };
    return test_split_main(argc, argv, tests, sizeof tests / sizeof tests[0]);
}
