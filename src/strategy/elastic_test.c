/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Elastic averaging. Goal: springs keep the sum of all models and pull them together; the limits of
 * its options are other strategies; every member runs on threads and repeats to the bit on sim; a
 * worker that crashes is survived where nobody waits for it, and named where all do. Method: the
 * exchanges on vectors of actors, where values of a coarse dyadic grid make float arithmetic exact;
 * small runs, compared by their hashes, losses and accuracies.
 */
#include "small_run.h"
#include "strategy/elastic.h"

#include "base/err.h"
#include "fast/run.h"
#include "space/space.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

enum { N = 67, WORKERS = 3, ROUNDS = 40 };

/* A value of a grid of 1/16 within 4, of an element of a worker's model. */
static float grid(int64_t id, int64_t i)
{
    return (float)((id * 37 + i * 11) % 128 - 64) / 16;
}

/* Results of all actors. */
typedef struct models {
    float w[WORKERS][N];
    float z[WORKERS][N]; /* copies of the centre */
    float apart[WORKERS][ROUNDS];
    float residual[WORKERS][N]; /* by codecs */
    const char *codec, *down;   /* NULL: none */
    float alpha, mu;
    int64_t rounds;
} models;

static void pull(float alpha, float beta, float *w, float *z, float *d)
{
    fast__elastic_pull.run(&(fast_spring){ alpha, beta }, N, (float *[]){ w, d, z });
}

static void pull_is_symmetric(void **state)
{
    float w[N], z[N], d[N];

    (void)state;
    for (int64_t i = 0; i < N; i++) {
        w[i] = grid(1, i);
        z[i] = grid(2, i);
    }
    pull(0.25f, 0.25f, w, z, d);
    for (int64_t i = 0; i < N; i++) {
        const float before = grid(1, i) - grid(2, i);

        assert_true(w[i] + (z[i] + d[i]) == grid(1, i) + grid(2, i));
        assert_true(w[i] - (z[i] + d[i]) == before / 2); /* 1 - 2 alpha */
    }
    pull(0, 1, w, z, d); /* the centre jumps, the worker stays */
    for (int64_t i = 0; i < N; i++)
        assert_true(z[i] + d[i] == w[i]);
}

/* Workers 0 to 2 and a master, actor 3, on a space, in any order. */
static fast_err spring_main(fast_actor *actor, void *ctx)
{
    static const int64_t owner[] = { WORKERS };
    static const float zeros[N];
    models *m = ctx;
    const int64_t id = fast_actor_id(actor);
    const fast_space_tensor centre = { "z", N, zeros };
    const fast_space_options options = { .name = "centre",
                                         .tensors = &centre,
                                         .tensor_count = 1,
                                         .owners = owner,
                                         .owner_count = 1,
                                         .codec = m->codec,
                                         .codec_down = m->down };
    fast_space *space = NULL;
    fast_space_read read;
    fast_elastic_end end = { .actor = actor, .n = N, .spring = { m->alpha, m->alpha } };

    FAST_TRY(fast_space_open(actor, &options, &space));
    if (id < WORKERS) {
        end.w = m->w[id];
        end.z = m->z[id];
    }
    if (id == WORKERS)
        FAST_TRY(fast_space_serve(space, INT64_MAX));
    for (int64_t k = 0; k < m->rounds && id < WORKERS; k++) {
        FAST_TRY(fast__elastic_exchange(space, &end, &read));
        m->apart[id][k] = fabsf(m->w[id][0] - m->z[id][0]);
        FAST_TRY(fast_space_tick(space, k + 1));
    }
    if (id < WORKERS) { /* the centre after all of them */
        const float *residual = fast__space_residual(space, 0);

        read = (fast_space_read){ .version_min = WORKERS * m->rounds, .full_values = true };
        FAST_TRY(fast_space_get(space, 0, m->z[id], &read, FAST_SOON));
        if (residual)
            memcpy(m->residual[id], residual, sizeof m->residual[id]);
    }
    fast_space_close(space);
    return FAST_OK;
}

static void run_actors(const char *transport, int64_t count, fast_actor_fn *program, models *m)
{
    const fast_role role = { "worker", count, program, m };
    const char *options[] = { transport, "timeout=60", NULL };

    for (int64_t id = 0; id < WORKERS; id++)
        for (int64_t i = 0; i < N; i++)
            m->w[id][i] = grid(id, i);
    if (fast_actors_run(options, &role, 1, NULL) != FAST_OK)
        fail_msg("%s", fast_error_detail());
}

static void check_sum(const models *m, double tolerance)
{
    for (int64_t i = 0; i < N; i++) {
        double before = 0, after = (double)m->z[0][i];

        for (int64_t id = 0; id < WORKERS; id++) {
            before += (double)grid(id, i);
            after += (double)m->w[id][i] + (double)m->residual[id][i];
            assert_memory_equal(m->z[id], m->z[0], sizeof m->z[0]);
        }
        if (!(fabs(after - before) <= tolerance))
            fail_msg("element %d: the sum was %g and is %g", (int)i, before, after);
    }
}

/* The sum of all models and the centre is conserved in any order of exchanges; without gradients
 * they converge to one point. */
static void exchange_keeps_the_sum(void **state)
{
    static const char *const transports[] = { "transport=threads", "transport=sim" };

    (void)state;
    for (int k = 0; k < 2; k++) {
        models m = { .alpha = 0.25f, .rounds = 3 }; /* 1/16 and 3 x 3 halvings twice: exact */

        run_actors(transports[k], WORKERS + 1, spring_main, &m);
        check_sum(&m, 0);
        m.rounds = ROUNDS;
        run_actors(transports[k], WORKERS + 1, spring_main, &m);
        check_sum(&m, 1e-4);
        if (k == 1) /* in sim workers come in turns: all come near the centre */
            for (int64_t id = 0; id < WORKERS; id++)
                assert_true(m.apart[id][ROUNDS - 1] < 1e-3f + 0.01f * m.apart[id][0]);
    }
}

/* With any codec the sum of models, centre and residuals is conserved. */
static void codecs_keep_the_sum(void **state)
{
    static const char *const transports[] = { "transport=threads", "transport=sim" };
    static const char *const codecs[] = { "topk:ratio=0.1", "onebit", "sign", "threshold:tau=0.1",
                                          "terngrad" };
    static const char *const downs[] = { NULL, "topk:ratio=0.1", "qsgd", "sign", "onebit" };

    (void)state;
    for (int k = 0; k < 2; k++)
        for (size_t c = 0; c < sizeof codecs / sizeof codecs[0]; c++) {
            models m = { .alpha = 0.25f, .rounds = ROUNDS, .codec = codecs[c], .down = downs[c] };

            run_actors(transports[k], WORKERS + 1, spring_main, &m);
            if (c + 1 < sizeof codecs / sizeof codecs[0])
                check_sum(&m, 2e-4);
            for (int64_t id = 0; id < WORKERS; id++) /* and they come together */
                for (int64_t i = 0; i < N; i++)
                    assert_true(fabsf(m.w[id][i]) < 16 && isfinite(m.z[id][i]));
        }
}

/* A codec that keeps all is no codec, where neither it nor the network takes time; of two workers
 * the order is the same. */
static void whole_codecs_change_nothing(void **state)
{
    const char *const plain[] = { "cluster=ideal", NULL };
    const char *const all[] = { "cluster=ideal", "codec=topk:ratio=1", NULL };
    const char *const stages[] = { "cluster=ideal", "codec=zstd", "codec_down=zstd", NULL };
    const char *const two[] = { "transport=threads", "codec=topk:ratio=0.1",
                                "codec_down=topk:ratio=0.1", NULL };
    static const char *const members[] = { "elastic:period=2", "elastic:period=1,servers=3" };
    static const int counts[] = { 2, 1 };

    (void)state;
    for (size_t i = 0; i < sizeof members / sizeof members[0]; i++) {
        const uint64_t hash = test_small_run(members[i], counts[i], plain).params_hash;

        assert_true(hash == test_small_run(members[i], counts[i], all).params_hash);
        assert_true(hash == test_small_run(members[i], counts[i], stages).params_hash);
        (void)test_small_run(members[i], counts[i], two);
    }
}

static fast_err round_main(fast_actor *actor, void *ctx)
{
    models *m = ctx;
    const int64_t id = fast_actor_id(actor);
    float d[N], sum[N], before[N];
    fast_elastic_centre c = { .z = { .x = m->z[id] },
                              .z_before = { .x = m->mu > 0 ? before : NULL },
                              .d = { .x = d },
                              .sum = { .x = sum },
                              .alpha = m->alpha,
                              .mu = m->mu };
    fast_group *group = NULL;
    fast_err err;

    memset(m->z[id], 0, sizeof m->z[id]);
    memset(before, 0, sizeof before);
    FAST_TRY(fast_group_all(actor, NULL, &group));
    err = FAST_OK;
    for (int64_t k = 0; k < m->rounds && !err; k++)
        err = fast__elastic_together(group, N, &c, m->w[id]);
    fast_group_free(group);
    return err;
}

static void rounds_keep_the_sum(void **state)
{
    models m = { .alpha = 0.25f, .rounds = 3 };

    (void)state;
    run_actors("transport=sim", WORKERS, round_main, &m);
    check_sum(&m, 0);
    m.rounds = ROUNDS;
    run_actors("transport=threads", WORKERS, round_main, &m);
    check_sum(&m, 1e-4);
    for (int64_t i = 0; i < N; i++) /* all models and the centre have met */
        assert_true(fabsf(m.w[0][i] - m.z[0][i]) < 0.05f);
}

/* alpha = 1 / P, mu = 0: the centre is the mean of the models before. */
static void centre_is_the_mean(void **state)
{
    models m = { .alpha = 1.0f / WORKERS, .rounds = 1 };

    (void)state;
    run_actors("transport=sim", WORKERS, round_main, &m);
    for (int64_t i = 0; i < N; i++)
        assert_true(fabsf(m.z[0][i] - (grid(0, i) + grid(1, i) + grid(2, i)) / 3) < 1e-6f);
}

/* Two rounds with momentum, by hand: z2 = z1 + alpha sum (w - z1) + mu (z1 - z0). */
static void momentum_is_its_formula(void **state)
{
    models m = { .alpha = 0.25f, .mu = 0.5f, .rounds = 2 };

    (void)state;
    run_actors("transport=sim", WORKERS, round_main, &m);
    for (int64_t i = 0; i < N; i++) {
        const float sum = grid(0, i) + grid(1, i) + grid(2, i);
        const float z1 = 0.25f * sum;
        const float moved = 0.75f * sum; /* the models after the first round */

        assert_true(m.z[1][i] == z1 + 0.25f * (moved - 3 * z1) + 0.5f * z1);
    }
}

static fast_result train_with(const char *strategy, int workers, const char *const *more)
{
    const char *list[24] = { "evaluate=12steps" };
    int used = 1;

    for (int i = 0; more && more[i]; i++)
        list[used++] = more[i];
    return test_small_run(strategy, workers, list);
}

static const char *const sim[] = { "transport=sim", NULL };
static const char *const threads[] = { "transport=threads", NULL };

static const char *const members[] = {
    "elastic",      "elastic:servers=2,period=1",
    "elastic_sync", "elastic_sync:mu=0.9,restart=5",
    "elastic_tree", "elastic_tree:up=1x2,down=2,slack=1",
    "mpca",
};
enum { MEMBERS = sizeof members / sizeof *members };

/* Every member runs on both transports, repeats on sim, and with a rate of 0 goes nowhere. */
static void members_run_and_repeat(void **state)
{
    static const char *const still[] = { "transport=sim", "lr=0", NULL };
    const uint64_t first = train_with("allreduce", 3, still).params_hash;

    (void)state;
    for (int i = 0; i < MEMBERS; i++) {
        const fast_result a = train_with(members[i], 3, sim);
        const fast_result b = train_with(members[i], 3, sim);

        assert_int_equal(a.params_hash, b.params_hash);
        assert_memory_equal(&a.virtual_time_s, &b.virtual_time_s, sizeof a.virtual_time_s);
        assert_int_not_equal(a.params_hash, first);
        assert_int_equal(train_with(members[i], 3, threads).steps, 24);
        assert_int_equal(train_with(members[i], 3, still).params_hash, first);
    }
}

/* Rounds give the same bits everywhere. */
static void rounds_are_the_same_on_threads(void **state)
{
    (void)state;
    for (int i = 2; i < 4; i++)
        assert_int_equal(train_with(members[i], 3, sim).params_hash,
                         train_with(members[i], 3, threads).params_hash);
}

/* Without springs workers are on their own: the training losses are those of plain SGD. */
static void no_spring_is_plain(void **state)
{
    const fast_result plain = train_with("allreduce", 1, sim);
    static const char *const loose[] = { "elastic:alpha=0,period=1", "elastic_sync:alpha=0",
                                         "elastic_tree:alpha=0", "mpca:rho=0" };

    (void)state;
    for (int i = 0; i < 4; i++) {
        const fast_result one = train_with(loose[i], 1, sim);

        assert_memory_equal(&one.loss, &plain.loss, sizeof one.loss);
        assert_memory_equal(&one.train_accuracy, &plain.train_accuracy, sizeof one.loss);
    }
    /* The root of a tree is its own model: the very same bits. */
    assert_int_equal(train_with("elastic_tree:alpha=0", 1, sim).params_hash, plain.params_hash);
}

/* The model of the run is the centre: where that never moves, it is the first one. */
static void centre_stands_for_the_run(void **state)
{
    static const char *const still[] = { "transport=sim", "lr=0", NULL };
    const uint64_t first = train_with("allreduce", 3, still).params_hash;

    (void)state;
    assert_int_equal(train_with("elastic:alpha=0", 3, sim).params_hash, first);
    assert_int_equal(train_with("elastic_sync:alpha=0", 3, threads).params_hash, first);
    assert_int_equal(train_with("elastic:alpha=0.5,beta=0", 3, threads).params_hash, first);
}

/* Two workers of a tree that send each step hold each other; alone they drift apart. */
static void tree_of_two_stays_together(void **state)
{
    static const char *const laptop[] = { "transport=sim", "cluster=laptop", NULL };
    const double alone = train_with("elastic_tree:alpha=0,up=1,down=1", 2, laptop).divergence;
    const double held = train_with("elastic_tree:alpha=0.5,up=1,down=1", 2, laptop).divergence;
    const double rarely = train_with("elastic_tree:alpha=0.5,up=8,down=8", 2, laptop).divergence;

    (void)state;
    assert_true(alone > 0);
    assert_true(held < 0.1 * alone);
    assert_true(held < rarely && rarely < alone);
}

/* Models every second step: with a slack of s each is at most 2 s steps old when it is applied,
 * where without a bound the slowest worker's are older, and with s = 0 all workers take each pair
 * of steps together. The bound holds for unequal periods of up to 4 steps too. */
static void slack_bounds_staleness(void **state)
{
    static const char *const uneven[] = { "transport=sim", "cluster=hetero:speed_jitter=3",
                                          "steps=60", NULL };

    (void)state;
    assert_true(train_with("elastic_tree:up=2,down=2", 6, uneven).staleness_max > 8);
    assert_int_equal(train_with("elastic_tree:up=2,down=2,slack=0", 6, uneven).staleness_max, 0);
    assert_in_range(train_with("elastic_tree:up=2,down=2,slack=2", 6, uneven).staleness_max, 1, 4);
    assert_in_range(train_with("elastic_tree:up=3x4,down=2,slack=1", 6, uneven).staleness_max, 1,
                    4);
}

/* Restarts come every few steps, or where the rate changes: here after an epoch of 13. */
static void restarts_matter(void **state)
{
    static const char *const flat[] = { "transport=sim", "schedule=constant", NULL };
    static const char *const steps[] = { "transport=sim", "schedule=step:every=1", NULL };
    const fast_result never = train_with("elastic_sync", 3, flat);

    (void)state;
    assert_int_not_equal(train_with("elastic_sync:restart=4", 3, flat).params_hash,
                         never.params_hash);
    assert_int_equal(train_with("elastic_sync:restart=-1", 3, flat).params_hash, never.params_hash);
    assert_int_not_equal(train_with("elastic_sync:restart=-1", 3, steps).params_hash,
                         train_with("elastic_sync", 3, steps).params_hash);
}

/* Who nobody waits for may crash; in rounds the one who is missing is named. */
static void crashes(void **state)
{
    static const char *const crash[] = { "transport=sim", "faults=crash 2 at 300us", "steps=60",
                                         NULL };
    static const char *const survivors[] = { "elastic", "elastic_tree", "mpca",
                                             "elastic_tree:slack=0" };
    const char *options[] = { "model=mlp:hidden=12",
                              "data=digits:train=160,test=32",
                              "engine=ref",
                              "batch=4",
                              "steps=60",
                              "workers=4",
                              "strategy=elastic_sync",
                              "transport=sim",
                              "faults=crash 2 at 300us",
                              NULL };
    fast_run *run = NULL;

    (void)state;
    for (int i = 0; i < 4; i++)
        assert_true(train_with(survivors[i], 4, crash).steps < 60); /* the mean: one is missing */
    assert_int_equal(fast_run_open(options, &run), FAST_OK);
    assert_int_equal(fast_run_train(run), FAST_EPEER);
    assert_non_null(strstr(fast_error_detail(), "worker 2"));
    fast_run_close(run);
}

/* They learn, about as well as synchronous SGD: within 3 points here, and 5 where another engine
 * rounds otherwise; 400 samples tell 2 points apart. */
static void members_learn(void **state)
{
    static const char *const longer[] = { "data=digits:train=4000,test=400",
                                          "model=mlp:hidden=64",
                                          "transport=sim",
                                          "steps=300",
                                          "lr=0.1",
                                          "optimizer=momentum",
                                          "batch=16",
                                          "evaluate=end",
                                          "engine=auto",
                                          NULL };
#ifdef FAST_SANITIZED
    const bool all = false;
#else
    const bool all = true;
#endif
    const double sync = all ? train_with("allreduce", 4, longer).test_accuracy : 0;

    (void)state;
    for (int i = 0; i < MEMBERS && all; i++) {
        const double accuracy = train_with(members[i], 4, longer).test_accuracy;

        print_message("%-34s %.3f (allreduce %.3f)\n", members[i], accuracy, sync);
        if (!(accuracy > sync - 0.05))
            fail_msg("%s learned only %.3f, allreduce %.3f", members[i], accuracy, sync);
    }
}

static void nonsense_is_refused(void **state)
{
    static const char *const bad[] = { "elastic_tree:up=",      "elastic_tree:up=0",
                                       "elastic_tree:up=2x",    "elastic_tree:down=a",
                                       "elastic:alpha=2",       "elastic_sync:period=0",
                                       "elastic_sync:restart=1" };

    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        char text[128];
        const char *options[] = { text, "workers=2", "data=digits:train=64,test=16",
                                  "model=mlp:hidden=4", NULL };
        fast_run *run = NULL;

        snprintf(text, sizeof text, "strategy=%s", bad[i]);
        if (fast_run_open(options, &run) != FAST_EINVAL)
            fail_msg("%s is not refused", bad[i]);
        assert_null(run);
    }
}

/* Return the steps of all workers that learned. */
static double learned(const char *strategy, const char *const *more)
{
    const fast_result r = test_small_run(strategy, 4, more);

    return rint(r.samples_per_s * r.time_s) / 4; /* a batch has 4 samples */
}

/* Learners join while throughput grows: all of equal nodes; not one whose node is slow. The first
 * `tune` steps are worker 0's alone, and a bound that no learner reaches leaves it alone. */
static void learners_join_while_it_pays(void **state)
{
    static const char *const even[] = { "steps=64", NULL }, *const slow[] = {
        "steps=64", "faults=slow 2 at 0s by 50", NULL
    };
    const char *tuned = "elastic_sync:mu=0.9,tune=8", *rare = "elastic_sync:mu=0.9,period=8,tune=8";

    (void)state;
    assert_true(learned("elastic_sync:mu=0.9", even) == 64 * 4);
    /* 8 steps each with 1, 2 and 3 learners, then 4. */
    assert_true(learned(tuned, even) == 8 * (1 + 2 + 3) + (64 - 24) * 4);
    assert_true(test_small_run(tuned, 4, even).params_hash ==
                test_small_run(tuned, 4, even).params_hash);
    /* 8 steps each with 1, 2, and 3 of which one is slow; then 2. */
    assert_true(learned(rare, slow) == 8 * (1 + 2 + 3) + (64 - 24) * 2);
    assert_true(learned("elastic_sync:mu=0.9,tune=64", even) == 64);
    assert_true(learned("elastic_sync:tune=8,gain=100", even) == 8 + 8 * 2 + (64 - 16));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pull_is_symmetric),
        cmocka_unit_test(exchange_keeps_the_sum),
        cmocka_unit_test(codecs_keep_the_sum),
        cmocka_unit_test(whole_codecs_change_nothing),
        cmocka_unit_test(rounds_keep_the_sum),
        cmocka_unit_test(centre_is_the_mean),
        cmocka_unit_test(momentum_is_its_formula),
        cmocka_unit_test(members_run_and_repeat),
        cmocka_unit_test(rounds_are_the_same_on_threads),
        cmocka_unit_test(no_spring_is_plain),
        cmocka_unit_test(centre_stands_for_the_run),
        cmocka_unit_test(tree_of_two_stays_together),
        cmocka_unit_test(slack_bounds_staleness),
        cmocka_unit_test(restarts_matter),
        cmocka_unit_test(learners_join_while_it_pays),
        cmocka_unit_test(crashes),
        cmocka_unit_test(members_learn),
        cmocka_unit_test(nonsense_is_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
