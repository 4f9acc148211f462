/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The strategy quorum. Goal: its limits are allreduce to the bit; replicas are equal whenever they
 * are at the same step, whoever is late, crashes or is stopped; a quorum is faster than waiting for
 * all where some are slow; who crashes is survived while the quorum stands, and else named, in
 * time; partial work counts by its samples. Method: small runs, most of them in the simulator,
 * whose replicas are compared one by one.
 */
#include "base/memory.h"
#include "run/team.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

enum { OPTIONS_MAX = 32 };

#ifdef FAST_SANITIZED
enum { TRIES = 1, SCHEDULES = 5, STRIDE = 211, CRASHES = 1, BRIEF = 3 };
#else
enum { TRIES = 8, SCHEDULES = 80, STRIDE = 5, CRASHES = 4, BRIEF = 1 };
#endif

/* Every test's job; later options win. */
static const char *const always[] = { "engine=ref",
                                      "model=mlp:hidden=12",
                                      "data=digits:train=320,test=24",
                                      "batch=8",
                                      "lr=0.1",
                                      "steps=24",
                                      "workers=4",
                                      "evaluate=end",
                                      "timeout=20",
                                      "plan=no" };

#define LIST(...) ((const char *[]){ __VA_ARGS__, NULL })
#define SIM       "transport=sim", "cluster=hetero"

static fast_err open_with(const char *const *more, fast_network *network, fast_run **run)
{
    const char *options[OPTIONS_MAX] = { NULL };
    int count = 0;

    for (size_t i = 0; i < sizeof always / sizeof *always; i++)
        options[count++] = always[i];
    for (; more && *more; more++)
        options[count++] = *more;
    assert_true(count < OPTIONS_MAX);
    return fast_run_open_with(options, network, NULL, NULL, run);
}

static fast_run *open_run(const char *const *more)
{
    fast_run *run = NULL;

    if (open_with(more, NULL, &run))
        fail_msg("%s", fast_error_detail());
    return run;
}

static void train(fast_run *run)
{
    if (fast_run_train(run))
        fail_msg("%s", fast_error_detail());
}

/* All workers that came to the end are at the same step, with the same weights and state; so is
 * what stands for the run. */
static void replicas_are_equal(const fast_run *run)
{
    const fast_trainer *first = NULL;

    for (int64_t i = 0; i < run->team->workers; i++) {
        const fast_trainer *t = &run->team->actors[i]->context.trainer;

        if (run->team->actors[i]->lost)
            continue;
        if (!first)
            first = t;
        assert_int_equal(t->step, first->step);
        assert_memory_equal(t->w, first->w, (size_t)t->count * sizeof *t->w);
        assert_memory_equal(t->s, first->s, (size_t)t->state_count * sizeof *t->s);
    }
    assert_non_null(first);
    assert_memory_equal(run->learner->w, first->w, (size_t)first->count * sizeof *first->w);
}

static fast_result result_with(const char *const *more, fast_network *network)
{
    fast_run *run = NULL;
    fast_result result;

    if (open_with(more, network, &run))
        fail_msg("%s", fast_error_detail());
    train(run);
    result = *fast_run_result(run);
    assert_string_equal(result.stop, "done");
    if (strncmp(run->config.strategy, "quorum", 6) == 0)
        replicas_are_equal(run);
    fast_run_close(run);
    return result;
}

static fast_result result_of(const char *const *more)
{
    return result_with(more, NULL);
}

static fast_network *network_with_state(void)
{
    static const char *const lines[] = {
        "conv 3 kernel=5 stride=2", "batch_norm", "relu", "dropout 0.3", "flatten", "dense 10"
    };
    fast_network *network = NULL;

    assert_int_equal(fast_network_new(&network), FAST_OK);
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++)
        assert_int_equal(fast_network_add(network, lines[i]), FAST_OK);
    return network;
}

/* Waiting for all, with any number of servers, any rule, with state and in parts, is allreduce. */
static void waiting_for_all_is_allreduce(void **state)
{
    static const char *const specs[] = { "strategy=quorum", "strategy=quorum:quorum=3,servers=2",
                                         "strategy=quorum:backup=0,servers=0,late=add",
                                         "strategy=quorum:partial=yes" };
    static const char *const rules[] = { "optimizer=momentum", "optimizer=adam", "optimizer=lamb" };
    fast_network *network = network_with_state();

    (void)state;
    for (size_t i = 0; i < sizeof specs / sizeof *specs; i++) {
        const char *rule = rules[i % 3];
        const char **plain = LIST("workers=3", rule, "lr=0.01", "strategy=allreduce");
        const char **far = LIST("workers=3", rule, "lr=0.01", specs[i], SIM);
        const char **near = LIST("workers=3", rule, "lr=0.01", specs[i]);
        const uint64_t hash = result_with(plain, network).params_hash;

        assert_true(result_with(far, network).params_hash == hash);
        assert_true(result_with(near, network).params_hash == hash);
    }
    fast_network_free(network);
    for (int k = 1; k <= 3; k++) {
        char parts[64];
        const char *p = (snprintf(parts, sizeof parts, "accumulate=%d", k), parts);
        const uint64_t hash = result_of(LIST("batch=4", p, "strategy=allreduce")).params_hash;

        assert_true(result_of(LIST("batch=4", p, "strategy=quorum")).params_hash == hash);
        assert_true(result_of(LIST("batch=4", p, "strategy=quorum:quorum=4,partial=yes", SIM))
                        .params_hash == hash);
    }
    assert_true(result_of(LIST("workers=1", "strategy=quorum")).params_hash ==
                result_of(LIST("workers=1")).params_hash);
}

/* A job whose computing takes longer than its messages. */
#define LARGE "batch=64", "model=mlp:hidden=64", "data=digits:train=1024,test=24", "engine=auto"
#define LARGE_PARTS                                                                      \
    "batch=16", "accumulate=4", "model=mlp:hidden=64", "data=digits:train=1024,test=24", \
        "engine=auto"

/* On equal nodes nobody is a straggler: partial work is whole work, whatever the quorum. */
static void partial_work_without_stragglers_is_whole(void **state)
{
    const uint64_t hash = result_of(LIST("strategy=allreduce", LARGE_PARTS)).params_hash;
    const char *spec = "strategy=quorum:quorum=1,partial=yes";

    (void)state;
    assert_true(
        result_of(LIST(spec, LARGE_PARTS, "transport=sim",
                       "cluster=ethernet-10g:latency=1us,bandwidth=100000Gbit/s,speed_jitter=0"))
            .params_hash == hash);
    assert_true(result_of(LIST(spec, LARGE_PARTS, SIM)).params_hash != hash);
}

/* Nodes of full, half, half and a quarter of the speed: who does not wait for the last is done
 * earlier, by about the ratio of the speeds. */
static void a_quorum_is_faster_than_all(void **state)
{
    const double time_s = result_of(LIST("strategy=allreduce", LARGE, SIM)).time_s;
    fast_result r = result_of(LIST("strategy=quorum:backup=1", LARGE, SIM));

    (void)state;
    assert_true(r.time_s < 0.75 * time_s);
    r = result_of(LIST("strategy=quorum:backup=1,late=add,servers=0", LARGE, SIM));
    assert_true(r.time_s < 0.65 * time_s && r.staleness_max > 0 && r.completeness > 0.9);
    r = result_of(LIST("strategy=quorum:quorum=1", LARGE, SIM));
    assert_true(r.time_s < 0.4 * time_s);
    r = result_of(LIST("strategy=quorum:quorum=1,partial=yes", LARGE_PARTS, SIM));
    assert_true(r.time_s < 0.6 * time_s && r.completeness > 0.9);
}

/* The others wait for who has missed `lag` steps. */
static void lag_is_bounded(void **state)
{
    const double far = result_of(LIST("strategy=quorum:quorum=1,lag=100", LARGE, SIM)).time_s;
    const double near = result_of(LIST("strategy=quorum:quorum=1,lag=1", LARGE, SIM)).time_s;

    (void)state;
    assert_true(near > 1.3 * far);
}

static void crashes_are_survived(void **state)
{
    static const char *const specs[] = { "strategy=quorum:backup=1",
                                         "strategy=quorum:quorum=2,late=add",
                                         "strategy=quorum:backup=2,servers=2",
                                         "strategy=quorum:quorum=1,partial=yes" };

    (void)state;
    for (size_t i = 0; i < sizeof specs / sizeof *specs; i++)
        for (int k = 0; k < CRASHES; k++) {
            char faults[128];
            fast_run *run;

            snprintf(faults, sizeof faults, "faults=crash 3 at %d.4ms", 9 - 3 * k);
            run = open_run(LIST(specs[i], "transport=sim", faults, "steps=200", "accumulate=2",
                                "batch=4", "epochs=1"));
            train(run);
            assert_true(run->team->actors[3]->lost && !run->team->actors[0]->lost);
            assert_string_equal(fast_run_result(run)->stop, "done");
            assert_int_equal(run->team->actors[1]->context.trainer.step, 200);
            assert_true(fast_run_result(run)->loss < 1.5); /* it was 2.3 */
            replicas_are_equal(run);
            fast_run_close(run);
        }
}

/* Who is missing is named: crashes as soon as they are noticed, long before the deadline. */
static void a_lost_quorum_is_told(void **state)
{
    static const char *const faults[] = { "faults=crash 1 at 1ms",
                                          "faults=crash 1 at 1ms; crash 2 at 2ms",
                                          "faults=pause 1 at 1ms for 4s", "faults=crash 0 at 2ms" };
    static const char *const specs[] = { "strategy=quorum", "strategy=quorum:backup=1",
                                         "strategy=quorum:quorum=4,partial=yes",
                                         "strategy=quorum:backup=1" };
    static const char *const names[] = { "worker 1 is down", "workers 1, 2 are down", "worker 1",
                                         "server 0" };

    (void)state;
    for (size_t i = 0; i < sizeof specs / sizeof *specs; i++) {
        fast_run *run =
            open_run(LIST(specs[i], "transport=sim", faults[i],
                          strstr(faults[i], "pause") ? "timeout=2" : "timeout=1000", "steps=4000"));

        assert_int_not_equal(fast_run_train(run), FAST_OK);
        if (!strstr(fast_error_detail(), names[i]))
            fail_msg("%s: %s", faults[i], fast_error_detail());
        assert_true(fast_run_result(run)->time_s < (strstr(faults[i], "pause") ? 4.5 : 1));
        fast_run_close(run);
    }
}

/* A worker that sleeps is late, and is back with the others' model. */
static void sleepers_catch_up(void **state)
{
    fast_run *run = open_run(LIST("strategy=quorum:backup=1", "transport=sim", "steps=400",
                                  "faults=pause 2 at 1ms for 3ms; pause 3 at 6ms for 2ms"));

    (void)state;
    train(run);
    for (int i = 0; i < 4; i++)
        assert_false(run->team->actors[i]->lost);
    replicas_are_equal(run);
    fast_run_close(run);
}

/* One that is taken for dead because it stood still or could not be reached, or that begins anew,
 * takes the model of another and continues: it comes to the end with the others' bits, the rule's
 * state included, and contributes again. */
static void who_was_away_joins_again(void **state)
{
    static const char *const faults[] = {
        "faults=pause 2 at 250ms for 4s",
        "faults=crash 2 at 250ms; restart 2 at 300ms",
        "faults=crash 2 at 250ms; restart 2 at 5s",
        "faults=partition 0,1,3|2 at 250ms for 4s",
        "faults=crash 2 at 0s; restart 2 at 1us",
        "faults=partition 0,1,3|2 at 250ms for 4s; pause 3 at 5s for 4s",
    };
    static const char *const specs[][2] = {
        { "strategy=quorum:backup=1", "codec=none" },
        { "strategy=quorum:backup=1,late=add,servers=2", "codec=none" },
        { "strategy=quorum:quorum=2,partial=yes", "codec=none" },
        { "strategy=quorum:backup=2,servers=2", "codec=topk:ratio=0.1" },
    };

    (void)state;
    for (size_t i = 0; i < sizeof specs / sizeof *specs; i++)
        for (size_t k = i % BRIEF; k < sizeof faults / sizeof *faults; k += BRIEF) {
            fast_run *run = open_run(LIST(specs[i][0], specs[i][1], faults[k], "transport=sim",
                                          "cluster=wan", "batch=4", "accumulate=2", "timeout=60",
                                          "steps=200", "optimizer=momentum"));
            const double *contributions;

            train(run);
            for (int r = 0; r < 4; r++)
                if (run->team->actors[r]->lost)
                    fail_msg("%s, %s: worker %d is lost", specs[i][0], faults[k], r);
            replicas_are_equal(run);
            contributions = run->team->actors[0]->context.shares.w;
            if (strstr(specs[i][0], "partial") && contributions[2] < 30)
                fail_msg("%s: worker 2 contributed %g steps", faults[k], contributions[2]);
            assert_true(fast_run_result(run)->time_s < 50); /* no deadline has passed */
            fast_run_close(run);
        }
}

/* Random faults and speeds: it ends, and the remaining workers agree. */
static void replicas_agree_in_every_schedule(void **state)
{
    static const char *const specs[] = { "strategy=quorum:backup=2",
                                         "strategy=quorum:quorum=1,servers=3",
                                         "strategy=quorum:quorum=2,late=add",
                                         "strategy=quorum:quorum=1,partial=yes,servers=2",
                                         "strategy=quorum:quorum=3,lag=2,late=add,servers=0" };
    int ended = 0;

    (void)state;
    for (int k = 0; k < SCHEDULES; k++) {
        char seed[64];
        const char *s = (snprintf(seed, sizeof seed, "seed=%d", k), seed);
        fast_run *run =
            open_run(LIST(specs[k % 5], "transport=sim", "cluster=hetero:speed_jitter=0.8",
                          "timeout=2", "faults=random:count=2,kinds=crash+pause+restart,span=20ms",
                          s, "batch=4", "accumulate=2", "steps=60"));

        if (fast_run_train(run))
            assert_true(fast_error_detail()[0] != '\0');
        else {
            replicas_are_equal(run);
            ended++;
        }
        assert_true(fast_run_result(run)->time_s < 60);
        fast_run_close(run);
    }
    assert_true(ended > SCHEDULES / 4);
}

typedef struct stopper {
    fast_run *run;
    long delay_us; /* of the thread that cancels */
} stopper;

static void *cancel_soon(void *ctx)
{
    const stopper *s = ctx;
    const struct timespec delay = { 0, s->delay_us * 1000L };

    nanosleep(&delay, NULL);
    fast_run_cancel(s->run);
    return NULL;
}

/* Cancel at any moment: all stop at the same step, and continue from there. */
static void stopped_at_any_moment(void **state)
{
    static const char *const specs[] = { "strategy=quorum:backup=1", "strategy=quorum:quorum=1",
                                         "strategy=quorum:quorum=1,late=add,servers=2",
                                         "strategy=quorum:quorum=2,partial=yes" };
    static const char *const transports[] = { "transport=threads", "transport=sim" };

    (void)state;
    for (int k = 0; k < 4 * TRIES; k++) {
        fast_run *run = open_run(LIST(specs[k % 4], transports[k / 4 % 2], "steps=150", "batch=4",
                                      "accumulate=3", "evaluate=20steps"));

        srand((unsigned)k);
        for (int i = 0; i < 2; i++) {
            stopper s = { .run = run, .delay_us = rand() % 9000 };
            pthread_t thread;

            assert_int_equal(pthread_create(&thread, NULL, cancel_soon, &s), 0);
            train(run);
            pthread_join(thread, NULL);
            replicas_are_equal(run);
        }
        while (run->step < run->step_count && !run->finished) /* the last cancel may come late */
            train(run);
        assert_int_equal(fast_run_result(run)->steps, 150);
        replicas_are_equal(run);
        fast_run_close(run);
    }
}

static void nonsense_is_refused(void **state)
{
    static const char *const bad[] = { "strategy=quorum:quorum=5", "strategy=quorum:backup=4",
                                       "strategy=quorum:quorum=2,backup=1",
                                       "strategy=quorum:partial=yes,late=add" };

    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        fast_run *run = NULL;

        assert_int_equal(open_with(LIST(bad[i]), NULL, &run), FAST_EINVAL);
        assert_null(run);
    }
}

static void every_allocation_may_fail(void **state)
{
    fast_err err = FAST_ENOMEM;

    (void)state;
    for (int64_t n = 0; err; n += STRIDE) {
        fast_run *run = open_run(LIST("strategy=quorum:quorum=1,partial=yes,servers=2", SIM,
                                      "steps=3", "accumulate=3", "batch=4", "pool=0"));

        fast__alloc_fail_after(n, true);
        err = fast_run_train(run);
        fast__alloc_fail_after(-1, true);
        fast_run_close(run);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(waiting_for_all_is_allreduce),
        cmocka_unit_test(partial_work_without_stragglers_is_whole),
        cmocka_unit_test(a_quorum_is_faster_than_all),
        cmocka_unit_test(lag_is_bounded),
        cmocka_unit_test(crashes_are_survived),
        cmocka_unit_test(a_lost_quorum_is_told),
        cmocka_unit_test(sleepers_catch_up),
        cmocka_unit_test(who_was_away_joins_again),
        cmocka_unit_test(replicas_agree_in_every_schedule),
        cmocka_unit_test(stopped_at_any_moment),
        cmocka_unit_test(nonsense_is_refused),
        cmocka_unit_test(every_allocation_may_fail),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
