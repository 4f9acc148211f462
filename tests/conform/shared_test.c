/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Synchronous workers that share one model. Goal: they do so where they can, and nobody sees it:
 * the same bits as with replicas, for every kind of rule, after a cancel, and when the run
 * continues.
 * Method: params_hash against the same run with algorithm=tree, whose workers have replicas; rules
 * with no, one and two slots, weight decay on some segments, and one that needs norms and must not
 * share; batch norm, whose state stays the workers' own; the run is canceled at an evaluation.
 */
#include "base/err.h"
#include "run/team.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

static fast_run *open_run(int workers, const char *optimizer, const char *model,
                          const char *algorithm)
{
    char text[4][96];
    const char *options[] = { "engine=ref", "data=digits:train=240,test=24",
                              "batch=8",    "lr=0.05",
                              "steps=10",   "evaluate=5steps",
                              "plan=no",    text[0],
                              text[1],      text[2],
                              text[3],      NULL };
    fast_run *run = NULL;

    snprintf(text[0], sizeof text[0], "workers=%d", workers);
    snprintf(text[1], sizeof text[1], "optimizer=%s", optimizer);
    snprintf(text[2], sizeof text[2], "model=%s", model);
    snprintf(text[3], sizeof text[3], "strategy=allreduce:share=yes,algorithm=%s", algorithm);
    if (fast_run_open(options, &run))
        fail_msg("%s", fast_error_detail());
    return run;
}

static void train(fast_run *run)
{
    if (fast_run_train(run))
        fail_msg("%s", fast_error_detail());
}

/* Train to the end; *shared says if there was one model. */
static uint64_t hash_of(int workers, const char *optimizer, const char *model,
                        const char *algorithm, bool *shared)
{
    fast_run *run = open_run(workers, optimizer, model, algorithm);
    uint64_t hash;

    train(run);
    hash = fast_run_result(run)->params_hash;
    *shared = run->team->shared.w != NULL;
    assert_int_equal(run->team->shared.sharers, 0);
    fast_run_close(run);
    return hash;
}

static void expect_same(int workers, const char *optimizer, const char *model, bool can_share)
{
    bool shared = false, apart = true;
    const uint64_t hash = hash_of(workers, optimizer, model, "auto", &shared);

    assert_true(shared == can_share);
    assert_true(hash == hash_of(workers, optimizer, model, "tree", &apart));
    assert_false(apart);
}

static void same_bits_as_replicas(void **state)
{
    (void)state;
    for (int workers = 2; workers <= 5; workers++)
        expect_same(workers, "momentum:weight_decay=0.01", "mlp:hidden=40", true);
    expect_same(3, "sgd", "mlp:hidden=12", true);
    expect_same(3, "adam:weight_decay=0.01", "mlp:hidden=12", true);
    expect_same(2, "momentum", "resnet8", true);
    expect_same(3, "lars", "mlp:hidden=12", false);
    expect_same(2, "sgd:clip_norm=0.1", "mlp:hidden=12", false);
}

/* Cancels the run at its first evaluation. */
static void watch(void *ctx, const fast_event *event)
{
    if (event->kind == FAST_EVENT_EVALUATE && event->step == 5)
        fast_run_cancel(ctx);
}

/* After a cancel workers have replicas again, whose rule continues from the shared one's state. */
static void continues_after_a_cancel(void **state)
{
    bool shared = false;
    const uint64_t whole = hash_of(3, "momentum", "mlp:hidden=12", "auto", &shared);
    fast_run *run = open_run(3, "momentum", "mlp:hidden=12", "auto");

    (void)state;
    fast_run_watch(run, watch, run);
    train(run);
    assert_true(fast_run_result(run)->canceled);
    assert_true(run->step < 10);
    for (int i = 1; i < 3; i++) {
        const fast_trainer *a = &run->team->actors[0]->context.trainer;
        const fast_trainer *b = &run->team->actors[i]->context.trainer;

        assert_ptr_not_equal(a->w, b->w);
        assert_memory_equal(a->w, b->w, (size_t)a->count * sizeof *a->w);
        assert_memory_equal(fast__optimizer_slot(run->team->actors[0]->context.optimizer, 0),
                            fast__optimizer_slot(run->team->actors[i]->context.optimizer, 0),
                            (size_t)a->count * sizeof *a->w);
    }
    train(run);
    assert_true(fast_run_result(run)->params_hash == whole);
    fast_run_close(run);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(same_bits_as_replicas),
        cmocka_unit_test(continues_after_a_cancel),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
