/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The loops of `gossip`, `gossip_async` and `elastic_tree` alone. Goal: the order of gradient,
 * update and mix, and the models and contributions of the formulas; an error of any call ends the
 * program that met it. Method: the fake host on `sim`, where messages arrive in a known order,
 * against the formulas on one number for each worker; one step halves the distance to its target.
 */
#include "fake_host.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

enum { STEPS = 3 };

/* The models by the formulas: an element of w and the contributions of each worker. */
typedef struct mixed {
    int64_t workers;                                   /* number of workers */
    double w[FAKE_WORKERS_MAX];                        /* [worker] */
    double shares[FAKE_WORKERS_MAX][FAKE_WORKERS_MAX]; /* [worker][of worker] */
} mixed;

/* w_i <- w_i - 1/2 (at_i - target_i) */
static void update(mixed *m, const double *at)
{
    for (int64_t i = 0; i < m->workers; i++) {
        m->w[i] -= 0.5 * (at[i] - (double)(i + 1));
        m->shares[i][i] += (double)m->workers;
    }
}

/* Model i <- own times itself and `other` times model j of `from`. */
static void take(mixed *m, int64_t i, double own, const mixed *from, int64_t j, double other)
{
    m->w[i] = own * m->w[i] + other * from->w[j];
    for (int64_t k = 0; k < m->workers; k++)
        m->shares[i][k] = own * m->shares[i][k] + other * from->shares[j][k];
}

/* Mix with equal weights over all workers: a ring of at most 3 is complete. */
static void mix(mixed *m)
{
    const mixed before = *m;

    for (int64_t i = 0; i < m->workers; i++) {
        const double weight = 1 / (double)m->workers;

        take(m, i, weight, &before, (i + 1) % m->workers, m->workers > 1 ? weight : 0);
        if (m->workers == 1)
            *m = before;
        for (int64_t j = 2; j < m->workers; j++)
            take(m, i, 1, &before, (i + j) % m->workers, weight);
    }
}

static void assert_models(const fake_result *r, const mixed *m)
{
    assert_int_equal(r->err, FAST_OK);
    for (int64_t i = 0; i < m->workers; i++) {
        for (int64_t j = 0; j < FAKE_COUNT; j++)
            assert_float_equal(r->actors[i].w[j], (float)m->w[i], 1e-6f);
        for (int64_t k = 0; k < m->workers; k++)
            assert_true(fabs(r->actors[i].contributions[k] - m->shares[i][k]) < 1e-6);
    }
}

static void run(const char *strategy, const char *topology, int64_t workers, fake_result *out)
{
    fake_run(
        &(fake_options){
            .strategy = strategy, .topology = topology, .workers = workers, .steps = STEPS },
        out);
    assert_int_equal(out->err, FAST_OK);
}

/* w_i <- sum_j w_ij w_j - 1/2 g_i(w_i); in rounds the mix is made twice. */
static void weights_are_combined(void **state)
{
    static const char *const steps[] = { "next gradient update", "next gradient apply_range update",
                                         "next gradient apply_range apply_range update" };

    (void)state;
    for (int64_t workers = 1; workers <= 3; workers++) {
        mixed m = { .workers = workers };
        fake_result r;

        for (int step = 0; step < STEPS; step++) {
            double at[FAKE_WORKERS_MAX];

            memcpy(at, m.w, sizeof at);
            mix(&m);
            update(&m, at);
        }
        run("gossip", NULL, workers, &r);
        assert_models(&r, &m);
        for (int64_t k = 0; k < workers; k++)
            fake_assert_calls(&r, k, "persist", steps[workers - 1], "next end");
        run("gossip:rounds=2", NULL, workers, &r); /* a complete graph is mixed after one */
        assert_models(&r, &m);
        run("gossip:correct=1", NULL, workers, &r);
        assert_models(&r, &m);
    }
}

/* w_i <- sum_j w_ij (w_j - 1/2 g_j), at each step or at each second one. */
static void updates_are_combined(void **state)
{
    static const char *const steps[] = { "next gradient update", "next gradient update apply_range",
                                         "next gradient update apply_range apply_range" };

    (void)state;
    for (int64_t workers = 1; workers <= 3; workers++)
        for (int64_t period = 1; period <= 2; period++) {
            mixed m = { .workers = workers };
            fake_result r;

            for (int step = 1; step <= STEPS; step++) {
                update(&m, m.w);
                if (step % period == 0)
                    mix(&m);
            }
            run(period == 1 ? "gossip:first=adapt" : "gossip:first=adapt,period=2", NULL, workers,
                &r);
            assert_models(&r, &m);
            for (int64_t k = 0; period == 1 && k < workers; k++)
                fake_assert_calls(&r, k, "persist", steps[workers - 1], "next end");
        }
}

/* Mixed gradients of a complete graph are their mean: replicas stay equal. */
static void gradients_are_combined(void **state)
{
    static const char *const steps[] = { "next gradient update", "next gradient apply update",
                                         "next gradient apply apply update" };

    (void)state;
    for (int64_t workers = 1; workers <= 3; workers++) {
        mixed m = { .workers = workers };
        fake_result r;

        for (int64_t i = 0; i < workers; i++) {
            m.w[i] = (double)(workers + 1) / 2 * 0.875;
            for (int64_t k = 0; k < workers; k++)
                m.shares[i][k] = STEPS;
        }
        run("gossip:sends=gradients", NULL, workers, &r);
        assert_models(&r, &m);
        for (int64_t k = 0; k < workers; k++)
            fake_assert_calls(&r, k, "persist", steps[workers - 1], "next end");
    }
}

/* Push-sum on the exponential graph of 3: half goes to the next rank and, at each second step,
 * to the one after it. */
static void pushes_follow_the_graph(void **state)
{
    mixed m = { .workers = 3 };
    fake_result r;

    (void)state;
    for (int step = 0; step < STEPS; step++) {
        mixed before;

        update(&m, m.w);
        before = m;
        for (int64_t i = 0; i < 3; i++)
            take(&m, i, 0.5, &before, (i + (step % 2 == 0 ? 2 : 1)) % 3, 0.5);
    }
    run("gossip:push=yes,first=adapt", "exponential:one=yes", 3, &r);
    assert_models(&r, &m);
    for (int64_t k = 0; k < 3; k++)
        fake_assert_calls(&r, k, "persist", "next gradient update apply_range", "next end");
}

/* Two workers that start together average, or pull half of each other's model, at each step. */
static void pairs_average(void **state)
{
    mixed m = { .workers = 2 };
    fake_result r;

    (void)state;
    for (int step = 0; step < STEPS; step++) {
        double at[FAKE_WORKERS_MAX];

        memcpy(at, m.w, sizeof at);
        mix(&m);
        update(&m, at);
    }
    run("gossip_async", NULL, 2, &r);
    assert_models(&r, &m);
    for (int64_t k = 0; k < 2; k++)
        fake_assert_calls(&r, k, "persist persist", "next gradient apply_range update", "next end");
    run("gossip_async:how=pull", NULL, 2, &r);
    assert_models(&r, &m);
    for (int64_t k = 0; k < 2; k++)
        fake_assert_calls(&r, k, "persist persist", "next gradient apply_range update", "next end");
    run("gossip_async", NULL, 1, &r);
    fake_assert_calls(&r, 0, "persist persist", "next gradient update", "next end");
    assert_true(r.actors[0].w[0] == 0.875f);
}

/* Exchanges move contributions between workers, and lose none: on `full` an average is symmetric.
 * */
static void averages_conserve_contributions(void **state)
{
    static const char *const strategies[] = { "gossip_async", "gossip_async:overlap=no" };

    (void)state;
    for (int64_t i = 0; i < 4; i++) {
        const int64_t workers = 2 + i % 2;
        fake_result r;

        run(strategies[i / 2], NULL, workers, &r);
        for (int64_t k = 0; k < workers; k++) {
            double sum = 0;

            for (int64_t j = 0; j < workers; j++)
                sum += r.actors[j].contributions[k];
            assert_true(fabs(sum - (double)(workers * STEPS)) < 1e-9);
        }
    }
}

/* Two workers push at each step. A model arrives two steps after it was pushed: that of the first
 * step before the third gradient, the last two in the flush. */
static void pushes_are_weighted(void **state)
{
    static const char *const strategies[] = { "gossip_async:how=push",
                                              "gossip_async:how=push,mass=no" };

    (void)state;
    for (int64_t i = 0; i < 2; i++) {
        mixed m = { .workers = 2 }, sent[STEPS];
        double mass = 0.5, sent_mass[STEPS]; /* equal at both, by symmetry */
        fake_result r;

        for (int step = 0; step < STEPS + 2; step++) {
            if (step >= 2) {
                const double share =
                    i == 0 ? sent_mass[step - 2] / (mass + sent_mass[step - 2]) : 0.5;

                for (int64_t k = 0; k < 2; k++)
                    take(&m, k, 1 - share, &sent[step - 2], 1 - k, share);
                mass += sent_mass[step - 2];
            }
            if (step >= STEPS)
                continue;
            update(&m, m.w);
            mass /= 2;
            sent_mass[step] = mass;
            sent[step] = m;
        }
        assert_true(mass == 0.5);
        run(strategies[i], NULL, 2, &r);
        assert_models(&r, &m);
        for (int64_t k = 0; k < 2; k++)
            assert_string_equal(
                r.actors[k].calls,
                "persist persist next gradient update next gradient update "
                "next apply_range gradient update next end apply_range apply_range");
    }
}

/* Models that were sent after the second step are applied before the fourth gradient; the root of
 * three has two children. */
static void trees_pull(void **state)
{
    (void)state;
    for (int64_t workers = 1; workers <= 3; workers++) {
        mixed m = { .workers = workers }, sent = { 0 };
        fake_result r;

        for (int step = 0; step < 4; step++) {
            if (step == 2)
                sent = m;
            for (int64_t j = 1; step == 3 && j < workers; j++) {
                take(&m, 0, 0.5, &sent, j, 0.5);
                take(&m, j, 0.5, &sent, 0, 0.5);
            }
            update(&m, m.w);
        }
        fake_run(&(fake_options){ .strategy = "elastic_tree:alpha=0.5,up=2,down=2x3",
                                  .workers = workers,
                                  .steps = 4 },
                 &r);
        assert_models(&r, &m);
        assert_true(r.actors[0].has_centre && r.actors[0].centre[0] == r.actors[0].w[0]);
        for (int64_t k = 0; k < workers; k++) {
            assert_true(r.actors[k].has_centre == (k == 0));
            assert_string_equal(r.actors[k].calls,
                                workers == 1 ? "next gradient update next gradient update "
                                               "next gradient update next gradient update next end"
                                : workers == 3 && k == 0
                                    ? "next gradient update next gradient update next gradient "
                                      "update next apply apply gradient update next end"
                                    : "next gradient update next gradient update next gradient "
                                      "update next apply gradient update next end");
        }
    }
}

static void errors_end_the_program(void **state)
{
    static const char *const strategies[] = {
        "gossip",
        "gossip:first=adapt,rounds=2",
        "gossip:sends=gradients",
        "gossip:push=yes",
        "gossip_async",
        "gossip_async:overlap=no,edges=best",
        "gossip_async:how=push",
        "gossip_async:how=pull",
        "elastic_tree:up=1,down=1",
        "elastic_tree:up=1,down=1,slack=0",
        "broadcast",
        "broadcast:how=gossip",
    };
    const int64_t count = (int64_t)(sizeof strategies / sizeof *strategies);

    (void)state;
    for (int64_t i = 0; i < 3 * count; i++) {
        const fake_options options = { .strategy = strategies[i / 3],
                                       .workers = 1 + i % 3,
                                       .steps = STEPS };

        assert_true(fake_assert_errors(&options) >= options.workers * (3 * STEPS + 2));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(weights_are_combined),   cmocka_unit_test(updates_are_combined),
        cmocka_unit_test(gradients_are_combined), cmocka_unit_test(pushes_follow_the_graph),
        cmocka_unit_test(pairs_average),          cmocka_unit_test(averages_conserve_contributions),
        cmocka_unit_test(pushes_are_weighted),    cmocka_unit_test(trees_pull),
        cmocka_unit_test(errors_end_the_program),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
