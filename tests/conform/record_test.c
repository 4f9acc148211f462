/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Goal: an asynchronous run on threads that was recorded can be repeated to the bit, whatever its
 * strategy: parameters, losses, evaluations in mid-run and measures. Method: small runs of every
 * asynchronous family, each recorded once and replayed twice; a run that reaches its target, and
 * one that is canceled, stop at the same places. What cannot be recorded or replayed is refused in
 * one sentence, and a recording that cannot be written does not lose its run.
 */
#include "base/err.h"
#include "base/file.h"
#include "base/memory.h"
#include "fast/run.h"

#include <math.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cmocka.h>

enum { SEEN_MAX = 64 };

/* Observations of a run while it trains. */
typedef struct seen {
    fast_run *run;
    int64_t count;           /* of evaluations */
    double losses[SEEN_MAX]; /* of the test set */
    int64_t cancel_at;       /* evaluation at which it is canceled; 0: none */
    char note[256];          /* the last one */
    fast_result result;      /* of the run */
} seen;

static char path[64];

static void watch(void *ctx, const fast_event *event)
{
    seen *s = ctx;

    if (event->kind == FAST_EVENT_NOTE)
        snprintf(s->note, sizeof s->note, "%s", event->text);
    if (event->kind != FAST_EVENT_EVALUATE)
        return;
    assert_true(s->count < SEEN_MAX);
    s->losses[s->count++] = event->result->test_loss;
    if (s->count == s->cancel_at)
        fast_run_cancel(s->run);
}

/* Run with the strategy, `option` (record= or replay=) and more. */
static fast_err run_it(const char *strategy, int workers, const char *option,
                       const char *const *more, seen *s)
{
    char text[128], count[32], file[96];
    const char *options[32] = { "model=mlp:hidden=12",
                                "data=digits:train=320,test=32",
                                "engine=ref",
                                "plan=no",
                                "transport=threads",
                                "timeout=60",
                                "batch=4",
                                "steps=40",
                                "evaluate=10steps",
                                "optimizer=momentum",
                                "lr=0.02",
                                text,
                                count,
                                file };
    int used = 14;
    fast_err err;

    snprintf(text, sizeof text, "strategy=%s", strategy);
    snprintf(count, sizeof count, "workers=%d", workers);
    snprintf(file, sizeof file, "%s=%s", option, path);
    for (int i = 0; more && more[i]; i++)
        options[used++] = more[i];
    FAST_TRY(fast_run_open(options, &s->run));
    fast_run_watch(s->run, watch, s);
    err = fast_run_train(s->run);
    s->result = *fast_run_result(s->run);
    fast_run_close(s->run);
    return err;
}

static bool same(double a, double b)
{
    return a == b || (isnan(a) && isnan(b));
}

static void compare(const char *what, const seen *a, const seen *b)
{
    const fast_result *x = &a->result, *y = &b->result;

    if (x->params_hash != y->params_hash || x->steps != y->steps || !same(x->loss, y->loss) ||
        !same(x->test_loss, y->test_loss) || strcmp(x->stop, y->stop) != 0)
        fail_msg("%s: the replay is another run: %s and %s", what, x->stop, y->stop);
    assert_int_equal(a->count, b->count);
    for (int64_t i = 0; i < a->count; i++)
        assert_true(same(a->losses[i], b->losses[i]));
    assert_true(same(x->staleness_mean, y->staleness_mean));
    assert_int_equal(x->staleness_max, y->staleness_max);
    assert_true(same(x->divergence, y->divergence));
    assert_true(same(x->completeness, y->completeness));
    assert_int_equal(x->bytes_sent, y->bytes_sent);
    assert_int_equal(x->messages_sent, y->messages_sent);
    assert_true(same(x->wait_s, y->wait_s)); /* the actors' clock is replayed, too */
}

/* Record, and replay twice. */
static void repeat(const char *strategy, int workers, const char *const *more, int64_t cancel_at)
{
    seen first = { .cancel_at = cancel_at };

    if (run_it(strategy, workers, "record", more, &first))
        fail_msg("%s: %s", strategy, fast_error_detail());
    for (int i = 0; i < 2; i++) {
        seen again = { 0 };

        if (run_it(strategy, workers, "replay", more, &again))
            fail_msg("%s: %s", strategy, fast_error_detail());
        compare(strategy, &first, &again);
    }
    assert_int_equal(unlink(path), 0);
}

static void families(void **state)
{
    static const struct {
        const char *strategy;
        int workers;
    } all[] = {
        { "ps", 4 },
        { "ps:slack=1,servers=2", 3 },
        { "ps:slack=1,servers=2,tasks=yes", 3 },
        { "ps:servers=0", 3 },
        { "elastic:period=2", 4 },
        { "elastic_tree", 4 },
        { "mpca", 3 },
        { "federated:period=2,part=0.5", 3 },
        { "hogwild:chunk=512", 3 },
        { "hogwild:clusters=2,period=2", 4 },
        { "dogwild", 3 },
        { "ensemble", 2 },
        { "gossip_async", 4 },
        { "gossip_async:how=push", 3 },
        { "gossip_async:how=pull,overlap=no", 3 },
        { "partial", 4 },
    };

    (void)state;
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++)
        repeat(all[i].strategy, all[i].workers, NULL, 0);
}

static void stops(void **state)
{
    static const char *const target[] = { "target=0.2", "evaluate=2steps", "lr=0.05", NULL };

    (void)state;
    repeat("ps", 3, target, 0);
    repeat("gossip_async", 3, NULL, 2);
    repeat("hogwild", 2, NULL, 1);
}

/* A replay with other options is refused before anything runs. */
static void refusals(void **state)
{
    static const char *const other[] = { "lr=0.03", NULL }, *const seed[] = { "seed=2", NULL };
    static const char *const sim[] = { "transport=sim", NULL };
    seen s = { 0 };

    (void)state;
    assert_int_equal(run_it("ps", 2, "record", NULL, &s), FAST_OK);
    assert_int_equal(run_it("ps", 2, "replay", other, &s), FAST_EINVAL);
    assert_non_null(strstr(fast_error_detail(), "lr=0.02, and this one has lr=0.03"));
    assert_int_equal(run_it("ps", 2, "replay", seed, &s), FAST_EINVAL);
    assert_non_null(strstr(fast_error_detail(), "seed=1"));
    assert_int_equal(run_it("ps", 3, "replay", NULL, &s), FAST_EINVAL);
    assert_non_null(strstr(fast_error_detail(), "workers=2"));
    assert_int_equal(run_it("ps", 2, "replay", sim, &s), FAST_EINVAL);
    assert_non_null(strstr(fast_error_detail(), "sim"));
    assert_int_equal(run_it("allreduce", 2, "record", NULL, &s), FAST_EINVAL);
    assert_non_null(strstr(fast_error_detail(), "synchronous"));
    assert_int_equal(unlink(path), 0);
    assert_int_equal(run_it("ps", 2, "replay", NULL, &s), FAST_ENOENT);
}

/* A file that may not grow stands for a full disk: the run comes to its end all the same. */
static void full_disk(void **state)
{
    struct rlimit before, small;
    seen s = { 0 };

    (void)state;
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
    small = before;
    small.rlim_cur = 512;
    signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
    const fast_err err = run_it("ps", 2, "record", NULL, &s);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
    assert_int_equal(err, FAST_OK);
    assert_string_equal(s.result.stop, "done");
    assert_non_null(strstr(s.note, "was given up"));
    assert_int_not_equal(access(path, F_OK), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(families),
        cmocka_unit_test(stops),
        cmocka_unit_test(refusals),
        cmocka_unit_test(full_disk),
    };

    snprintf(path, sizeof path, "record_test.%d.rec", (int)getpid());
    return cmocka_run_group_tests(tests, NULL, NULL);
}
