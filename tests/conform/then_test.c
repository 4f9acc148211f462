/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A change of strategy during a run. Goal: a change that changes nothing gives the same bits, on
 * every transport; the next strategy begins with the representative at every worker and with the
 * rule's state as asked; every strategy can follow every other; targets, cancels and checkpoints
 * work before, at and after a change. Method: a small model on small data, compared by params_hash;
 * limits of one strategy that are another; a strategy that gives its replicas known weights.
 *
 * With the argument "mpi", under mpirun: the same hashes on the ranks as in sim.
 */
#include "base/hash.h"
#include "base/memory.h"
#include "run/team.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

enum { OPTIONS_MAX = 32, STEPS = 12 };

#ifdef FAST_SANITIZED
enum { STRIDE = 13, STEP = 4 };
#else
enum { STRIDE = 1, STEP = 1 };
#endif

#define LIST(...) ((const char *[]){ __VA_ARGS__, NULL })

/* Every test's job: epochs of 6 steps; later options win. */
static const char *const always[] = { "engine=ref",      "model=mlp:hidden=8",
                                      "workers=3",       "data=digits:train=160,test=24",
                                      "batch=8",         "lr=0.1",
                                      "steps=12",        "plan=no",
                                      "evaluate=2steps", "schedule=cosine" };

static fast_err apart(fast_trainer *t, const void *config);

static const fast_strategy apart_strategy = { .name = "apart",
                                              .summary = "known replicas",
                                              .worker = apart };

/* Worker i's weights are all 2^i. */
static fast_err apart(fast_trainer *t, const void *config)
{
    (void)config;
    while (fast_trainer_next(t)) {
        FAST_TRY(fast_trainer_gradient(t, NULL, NULL));
        for (int64_t i = 0; i < t->count; i++)
            t->w[i] = (float)(1 << t->rank);
    }
    return fast_trainer_end(t);
}

static fast_err open_run(const char *const *more, fast_run **out)
{
    const char *options[OPTIONS_MAX] = { NULL };
    int count = 0;

    for (size_t i = 0; i < sizeof always / sizeof *always; i++)
        options[count++] = always[i];
    for (; more && *more; more++)
        options[count++] = *more;
    assert_true(count < OPTIONS_MAX);
    for (int i = 0; i < count; i++)
        if (strncmp(options[i], "strategy=apart", 14) == 0)
            return fast_run_open_strategy(options, &apart_strategy, out);
    return fast_run_open(options, out);
}

/* The tests' watcher: a hash of all evaluations, in their order; cancels at one. */
typedef struct watcher {
    fast_run *run;
    uint64_t hash;  /* of steps and losses */
    int64_t cancel; /* step; 0: never */
} watcher;

static void watch(void *ctx, const fast_event *event)
{
    watcher *w = ctx;

    if (event->kind != FAST_EVENT_EVALUATE)
        return;
    w->hash = fast__hash(&event->result->test_loss, sizeof(double), w->hash);
    w->hash = fast__hash(&event->step, sizeof event->step, w->hash);
    if (w->cancel == event->step)
        fast_run_cancel(w->run);
}

/* Train; the hash of the end, without those of the evaluations. */
static uint64_t end_of(const char *const *more)
{
    fast_run *run = NULL;
    uint64_t hash;

    if (open_run(more, &run))
        fail_msg("%s", fast_error_detail());
    if (fast_run_train(run))
        fail_msg("%s", fast_error_detail());
    hash = fast_run_result(run)->params_hash;
    fast_run_close(run);
    return hash;
}

/* Train; the hash of the end and of all evaluations. */
static uint64_t hash_of(const char *const *more)
{
    watcher w = { NULL, 0, 0 };

    if (open_run(more, &w.run))
        fail_msg("%s", fast_error_detail());
    fast_run_watch(w.run, watch, &w);
    if (fast_run_train(w.run))
        fail_msg("%s", fast_error_detail());
    assert_string_equal(fast_run_result(w.run)->stop, "done");
    assert_int_equal(fast_run_result(w.run)->steps, STEPS);
    w.hash = fast__hash(&fast_run_result(w.run)->params_hash, sizeof(uint64_t), w.hash);
    fast_run_close(w.run);
    return w.hash;
}

static const char *const transports[] = { "transport=threads", "transport=sim" };

static void a_change_of_nothing_changes_nothing(void **state)
{
    const uint64_t hash = hash_of(LIST("strategy=allreduce"));

    (void)state;
    for (int t = 0; t < 2; t++) {
        assert_true(hash == hash_of(LIST("strategy=allreduce", transports[t],
                                         "then=allreduce:algorithm=tree@step=5")));
        assert_true(hash ==
                    hash_of(LIST("strategy=allreduce:overlap=yes", transports[t],
                                 "then=allreduce@epoch=0.5", "then=allreduce:overlap=no@epoch=1")));
        assert_true(hash ==
                    hash_of(LIST(transports[t], "then=pytorch-ddp@step=1;allreduce@step=11")));
    }
}

/* Post-local SGD by a change, and by the family's own option. */
static void a_change_is_the_familys_own(void **state)
{
    (void)state;
    for (int t = 0; t < 2; t++) {
        const uint64_t own = hash_of(LIST("strategy=local:period=4,after=1", transports[t]));

        assert_true(own == hash_of(LIST("strategy=local:period=1", transports[t],
                                        "then=local:period=4@epoch=1")));
        assert_true(own != hash_of(LIST("strategy=local:period=4", transports[t])));
    }
}

/* Servers take the workers' state of the rule over, and give plain SGD's model back. */
static void servers_come_and_go(void **state)
{
    const char *const plain = "optimizer=sgd";
    const uint64_t ps = end_of(LIST("strategy=ps:slack=0,servers=2", plain));

    (void)state;
    for (int t = 0; t < 2; t++) {
        assert_true(ps ==
                    end_of(LIST("strategy=ps:slack=0,servers=1", plain, transports[t],
                                "then=ps:slack=0,servers=2@step=4", "then=ps:slack=0@step=8")));
        /* Adam counts its updates: those of the workers before are in its state. */
        assert_true(end_of(LIST("optimizer=adam")) ==
                    end_of(LIST("optimizer=adam", transports[t], "then=ps:slack=0@step=4")));
    }
    /* With a value bound servers count each worker's steps. */
    assert_true(end_of(LIST("strategy=ps:value=1e30", plain, "workers=1")) ==
                end_of(LIST("strategy=ps:value=1e30", plain, "workers=1",
                            "then=ps:value=1e30,servers=2@step=4")));
}

/* All begin with the representative. */
static double weight_of(const char *policy, const char *then)
{
    fast_run *run = NULL;
    double w;

    if (open_run(LIST("strategy=apart", "workers=4", "lr=0", "optimizer=sgd", policy, then), &run))
        fail_msg("%s", fast_error_detail());
    if (fast_run_train(run))
        fail_msg("%s", fast_error_detail());
    w = (double)run->learner->w[0];
    for (int64_t k = 0; k < 4; k++)
        for (int64_t i = 0; i < run->learner->params.count; i++)
            assert_true((double)run->team->actors[k]->context.trainer.w[i] == w);
    fast_run_close(run);
    return w;
}

static void phases_begin_with_the_representative(void **state)
{
    (void)state;
    assert_true(weight_of("representative=auto", "then=ensemble@step=3") == 3.75);
    assert_true(weight_of("representative=auto", "then=allreduce@step=3") == 3.75);
    assert_true(weight_of("representative=auto", "then=ps@step=3") == 3.75);
    assert_true(weight_of("representative=worker:rank=3", "then=gossip@step=3") == 8);
}

static void the_rule_is_retained_or_reset(void **state)
{
    static const char *const pairs[][2] = { { "allreduce", "allreduce" },
                                            { "local:period=1", "local:period=1" } };
    char strategy[64], keep[64], reset[64];

    (void)state;
    for (int i = 0; i < 2; i++) {
        snprintf(strategy, sizeof strategy, "strategy=%s", pairs[i][0]);
        snprintf(keep, sizeof keep, "then=%s@step=6", pairs[i][1]);
        snprintf(reset, sizeof reset, "then=%s@step=6,state=reset", pairs[i][1]);
        assert_true(hash_of(LIST(strategy)) == hash_of(LIST(strategy, keep)));
        assert_true(hash_of(LIST(strategy)) != hash_of(LIST(strategy, reset)));
        assert_true(hash_of(LIST(strategy, "optimizer=sgd")) ==
                    hash_of(LIST(strategy, reset, "optimizer=sgd")));
    }
}

static void every_strategy_follows_every_other(void **state)
{
    (void)state;
    for (int64_t i = 0; fast__strategies[i]; i++)
        for (int64_t k = 0; fast__strategies[k]; k++) {
            const bool near =
                fast__strategies[i]->shares_memory || fast__strategies[k]->shares_memory;
            const char *cluster = near ? "cluster=laptop" : "cluster=hetero";
            char strategy[64], then[64];
            uint64_t hash;

            if ((i + k) % STRIDE != 0)
                continue;
            snprintf(strategy, sizeof strategy, "strategy=%s", fast__strategies[i]->name);
            snprintf(then, sizeof then, "then=%s@step=5", fast__strategies[k]->name);
            hash = hash_of(LIST(strategy, then, "transport=sim", cluster));
            assert_true(hash == hash_of(LIST(strategy, then, "transport=sim", cluster, "pool=1")));
            hash_of(LIST(strategy, then, "transport=threads"));
        }
}

static void targets_end_any_phase(void **state)
{
    static const char *const evaluate[] = { "evaluate=2steps", "evaluate=4steps",
                                            "evaluate=6steps" };

    (void)state;
    for (int i = 0; i < 3; i++) {
        fast_run *run = NULL;

        assert_int_equal(open_run(LIST("then=gossip@step=4", "target=0.001", evaluate[i],
                                       "data=digits:train=160,test=160"),
                                  &run),
                         FAST_OK);
        assert_int_equal(fast_run_train(run), FAST_OK);
        assert_string_equal(fast_run_result(run)->stop, "target");
        if (fast_run_result(run)->steps >= STEPS)
            fail_msg("%s: stopped at step %lld", evaluate[i], (long long)run->step);
        assert_int_equal(run->team->phases.current, i == 2);
        fast_run_close(run);
    }
}

/* Stop at every step, before, at and after the changes, and continue: in the same program, and from
 * the checkpoint where replicas are equal. */
static void canceled_runs_continue(void **state)
{
    const char *const then = "then=local:period=2@step=4;allreduce@step=8";
    const uint64_t hash = end_of(LIST(then, "evaluate=no"));
    char folder[] = "then-test-XXXXXX", path[64], checkpoint[80], resume[80];

    (void)state;
    assert_non_null(mkdtemp(folder));
    snprintf(path, sizeof path, "%s/c.safetensors", folder);
    snprintf(checkpoint, sizeof checkpoint, "checkpoint=%s", path);
    snprintf(resume, sizeof resume, "resume=%s", path);
    for (int64_t step = 1; step < STEPS - 1; step += STEP) {
        watcher w = { NULL, 0, step };
        int64_t at;

        assert_int_equal(
            open_run(LIST(then, "evaluate=1steps", checkpoint, "checkpoint_every=1steps"), &w.run),
            FAST_OK);
        fast_run_watch(w.run, watch, &w);
        assert_int_equal(fast_run_train(w.run), FAST_OK);
        assert_true(fast_run_result(w.run)->canceled);
        at = w.run->step;
        assert_in_range(at, step, step + 2);
        fast_run_watch(w.run, NULL, NULL);
        fast_run_close(w.run);
        assert_int_equal(open_run(LIST(then, "evaluate=no", resume), &w.run), FAST_OK);
        assert_true(w.run->step == at || (at > 4 && at <= 8 && w.run->step == 4));
        assert_int_equal(fast_run_train(w.run), FAST_OK);
        if (fast_run_result(w.run)->params_hash != hash)
            fail_msg("resumed at step %lld", (long long)at);
        fast_run_close(w.run);
        /* The same program. */
        w.cancel = step;
        assert_int_equal(open_run(LIST(then, "evaluate=1steps"), &w.run), FAST_OK);
        fast_run_watch(w.run, watch, &w);
        assert_int_equal(fast_run_train(w.run), FAST_OK);
        assert_true(fast_run_result(w.run)->canceled);
        w.cancel = 0;
        assert_int_equal(fast_run_train(w.run), FAST_OK);
        assert_int_equal(fast_run_result(w.run)->steps, STEPS);
        if (fast_run_result(w.run)->params_hash != hash)
            fail_msg("another hash after a cancel at step %lld", (long long)at);
        fast_run_close(w.run);
    }
    assert_int_equal(unlink(path), 0);
    assert_int_equal(rmdir(folder), 0);
}

/* Rounds of servers that stop at any step and continue use the learning rates that follow. One
 * worker: of several, some may have begun the round that is not made. */
static void canceled_rounds_continue(void **state)
{
    const char *const strategy = "strategy=ps:slack=0,servers=2", *const plain = "optimizer=sgd";
    const uint64_t hash = end_of(LIST(strategy, plain, "workers=1", "evaluate=no"));

    (void)state;
    for (int64_t step = 2; step < STEPS - 2; step += 3) {
        watcher w = { NULL, 0, step };

        assert_int_equal(
            open_run(LIST(strategy, plain, "workers=1", "transport=sim", "evaluate=1steps"),
                     &w.run),
            FAST_OK);
        fast_run_watch(w.run, watch, &w);
        assert_int_equal(fast_run_train(w.run), FAST_OK);
        assert_true(fast_run_result(w.run)->canceled && w.run->step < STEPS);
        w.cancel = 0;
        assert_int_equal(fast_run_train(w.run), FAST_OK);
        assert_int_equal(fast_run_result(w.run)->steps, STEPS);
        if (fast_run_result(w.run)->params_hash != hash)
            fail_msg("another hash after a cancel at step %lld", (long long)step);
        fast_run_close(w.run);
    }
}

static void nonsense_is_refused(void **state)
{
    static const char *const bad[] = {
        "then=local",
        "then=local@",
        "then=@step=3",
        "then=local@step=0",
        "then=local@step=12",
        "then=local@epoch=2",
        "then=none@step=3",
        "then=local@step=3,x=",
        "then=local@step=3,epoch=1",
        "then=local:y=1@step=3",
        "then=gossip@step=5;local@step=5",
        "then=local@step=3,topology=ring",
        "then=pytorch-ddp:bucket=4@step=3",
    };

    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        fast_run *run = NULL;

        if (open_run(LIST(bad[i]), &run) != FAST_EINVAL)
            fail_msg("%s is not refused", bad[i]);
        assert_null(run);
    }
    fast_run *run = NULL;
    assert_int_equal(
        open_run(LIST("then=local@step=3", "transport=sim", "faults=crash 1 at 1ms"), &run),
        FAST_EINVAL);
    assert_int_equal(open_run(LIST("strategy=apart", "checkpoint=c"), &run), FAST_ENOTSUP);
    assert_non_null(strstr(fast_error_detail(), "fast_strategy.resumable"));
}

/* Asynchronous workers are saved at every step, also where their phase ends. */
static void phases_end_beside_checkpoints(void **state)
{
    static const char *const strategies[] = { "strategy=quorum", "strategy=gossip_async",
                                              "strategy=ps:slack=2" };

    (void)state;
    for (size_t i = 0; i < sizeof strategies / sizeof *strategies; i++) {
        fast_run *run = NULL;

        assert_int_equal(open_run(LIST(strategies[i], "phases=allreduce@step=4", "transport=sim",
                                       "checkpoint=then_test.end", "checkpoint_every=1steps"),
                                  &run),
                         FAST_OK);
        assert_int_equal(fast_run_train(run), FAST_OK);
        fast_run_close(run);
    }
    unlink("then_test.end");
}

static void every_allocation_may_fail(void **state)
{
    const char **more = LIST("then=ps@step=1", "transport=sim", "steps=3", "pool=0");
    fast_err err = FAST_ENOMEM;
    fast_run *run = NULL;

    (void)state;
    for (int64_t n = 0; err; n++) {
        fast__alloc_fail_after(n, true);
        err = open_run(more, &run);
        fast__alloc_fail_after(-1, true);
        assert_true(err == FAST_OK || (err == FAST_ENOMEM && !run));
    }
    fast_run_close(run);
    err = FAST_ENOMEM;
    for (int64_t n = 0; err; n += 7 * STEP) {
        assert_int_equal(open_run(more, &run), FAST_OK);
        fast__alloc_fail_after(n, true);
        err = fast_run_train(run);
        fast__alloc_fail_after(-1, true);
        fast_run_close(run);
    }
}

/* Over ranks. */
static void ranks_give_the_same(void **state)
{
    static const char *const thens[] = { "then=local:period=3@step=4",
                                         "then=ps:slack=0,servers=2@step=4;allreduce@step=8",
                                         "then=local:period=3@step=4;allreduce@step=7" };

    (void)state;
    for (int i = 0; i < 3; i++) { /* in mid-run not all ranks evaluate asynchronous workers */
        const char *evaluate = i == 1 ? "evaluate=end" : "evaluate=2steps";
        const uint64_t here = hash_of(LIST(thens[i], "transport=sim", "workers=4", evaluate));
        fast_run *run = NULL;
        watcher w = { NULL, 0, 0 };

        assert_int_equal(open_run(LIST(thens[i], "transport=mpi", "workers=4", evaluate), &run),
                         FAST_OK);
        fast_run_watch(run, watch, &w);
        if (fast_run_train(run))
            fail_msg("%s", fast_error_detail());
        w.hash = fast__hash(&fast_run_result(run)->params_hash, sizeof(uint64_t), w.hash);
        assert_true(w.hash == here || !fast_run_is_first(run));
        assert_int_equal(fast_run_result(run)->steps, STEPS);
        fast_run_close(run);
    }
}

static void ranks_stop_at_a_change(void **state)
{
    static const char *const thens[] = { "then=local@step=4", "then=ps@step=4" };

    (void)state;
    for (int i = 0; i < 2; i++) {
        fast_run *run = NULL;

        assert_string_equal(open_run(LIST(thens[i], "transport=mpi", "workers=4", "target=0.001",
                                          "data=digits:train=160,test=160", "evaluate=4steps"),
                                     &run)
                                ? fast_error_detail()
                                : "",
                            "");
        assert_int_equal(fast_run_train(run), FAST_OK);
        assert_string_equal(fast_run_result(run)->stop, "target");
        assert_int_equal(fast_run_result(run)->steps, 4);
        fast_run_close(run);
    }
}

/* An option of ps that is a codec now joins the codec of the phase before. */
static void moved_options_join_the_codec(void **state)
{
    const char *options[] = { "engine=ref",
                              "model=mlp:hidden=8",
                              "data=digits:train=64,test=16",
                              "batch=8",
                              "plan=no",
                              "workers=2",
                              "transport=sim",
                              "strategy=ps",
                              "codec=fp16",
                              "phases=ps:filter=0.001@step=4;ps:slack=3@step=6",
                              "steps=8",
                              NULL };
    static const char *const chains[] = { "fp16", "significance:threshold=0.001+fp16",
                                          "significance:threshold=0.001+fp16" };
    fast_run *run = NULL;

    (void)state;
    if (fast_run_open(options, &run))
        fail_msg("%s", fast_error_detail());
    for (int i = 0; i < 3; i++)
        assert_string_equal(fast__chain_text(run->team->phases.list[i].codec), chains[i]);
    fast_run_close(run);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest on_ranks[] = { cmocka_unit_test(ranks_give_the_same),
                                           cmocka_unit_test(ranks_stop_at_a_change) };
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_change_of_nothing_changes_nothing),
        cmocka_unit_test(a_change_is_the_familys_own),
        cmocka_unit_test(servers_come_and_go),
        cmocka_unit_test(phases_begin_with_the_representative),
        cmocka_unit_test(the_rule_is_retained_or_reset),
        cmocka_unit_test(every_strategy_follows_every_other),
        cmocka_unit_test(targets_end_any_phase),
        cmocka_unit_test(canceled_runs_continue),
        cmocka_unit_test(canceled_rounds_continue),
        cmocka_unit_test(nonsense_is_refused),
        cmocka_unit_test(moved_options_join_the_codec),
        cmocka_unit_test(phases_end_beside_checkpoints),
        cmocka_unit_test(every_allocation_may_fail),
    };

    if (argc > 1 && strcmp(argv[1], "mpi") == 0)
        return cmocka_run_group_tests(on_ranks, NULL, NULL);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
