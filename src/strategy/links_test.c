/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Gossip and partial exchange through codecs. Goal: a codec that loses nothing changes nothing, to
 * the bit; with any other the theorems of mixing hold still: the mean moves by the mean update,
 * masses are conserved, replicas come together without updates, those that take the same gradients
 * are equal; crashes are survived; fewer bytes are sent, and a model learns. Method: replicas that
 * begin far from each other with gradients that are made up (replicas.h), for all codecs; then real
 * runs of a small model.
 */
#include "codec/codec.h"
#include "replicas.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define LIST(...) ((const char *[]){ __VA_ARGS__, NULL })

/* Codecs with another set of traits each; sanitizers see the first few. */
static const char *const codecs[] = { "topk:ratio=0.05",
                                      "qsgd",
                                      "powersgd",
                                      "sign",
                                      "fp16",
                                      "onebit",
                                      "terngrad",
                                      "randk:ratio=0.1",
                                      "threshold",
                                      "sketch",
                                      "natural",
                                      "int8:round=random",
                                      "significant",
                                      "adaptive",
                                      "structured",
                                      "dorefa",
                                      "fixed:bits=8",
                                      "flexpoint",
                                      "topk:ratio=0.1+zstd" };
#ifdef FAST_SANITIZED
enum { CODECS = 4, PUSHED = 1, ROUNDS = 60, EACH = 1, LEAP = 13 };
#else
enum { CODECS = sizeof codecs / sizeof *codecs, PUSHED = 3, ROUNDS = 240, EACH = 12, LEAP = 4 };
#endif

static void run_ok(const test_replicas_options *o, test_replicas *r)
{
    test_replicas_run(o, r);
    if (r->err != FAST_OK)
        fail_msg("%s on %s, %s: %s", o->strategy, o->topology ? o->topology : "-",
                 o->codec ? o->codec : "-", fast_error_detail());
}

/* How far the mean of the replicas went from where it was. */
static double mean_moved(const test_replicas *r)
{
    double worst = 0;

    for (int64_t i = 0; i < r->count; i++)
        worst = fmax(worst, fabs(test_replicas_mean(r->last, r->workers, i) -
                                 test_replicas_mean(r->first, r->workers, i)));
    return worst;
}

/* How far any replica is from the mean of where all began. */
static double from_mean(const test_replicas *r)
{
    double worst = 0;

    for (int64_t k = 0; k < r->workers; k++)
        for (int64_t i = 0; i < r->count; i++)
            worst = fmax(worst,
                         fabs((double)r->last[k][i] - test_replicas_mean(r->first, r->workers, i)));
    return worst;
}

/* Synchronous members on any transport: the same bits as without a codec. */
static void lossless_changes_nothing(void **state)
{
    static const char *const members[][2] = {
        { "gossip", "ring" },
        { "gossip:first=adapt,rounds=2", "pairs" },
        { "gossip:drop=0.3,correct=1", "full" },
        { "gossip:push=yes", "exponential:one=yes" },
        { "gossip:sends=gradients", "ring" },
        { "partial:how=scatter,slack=0", "halton" },
        { "partial:how=scatter,slack=0,sends=gradients", "ring" },
    };

    (void)state;
    for (size_t m = 0; m < sizeof members / sizeof *members; m++)
        for (int threads = 0; threads < 2; threads++) {
            test_replicas_options o = { .strategy = members[m][0],
                                        .topology = members[m][1],
                                        .workers = 5,
                                        .steps = 7,
                                        .lr = "0.1",
                                        .learner = true };
            test_replicas a, b;

            run_ok(&o, &a);
            o.codec = "none+lz4";
            o.transport = threads ? "threads" : "sim";
            run_ok(&o, &b);
            assert_true(b.result.codec_bytes_in > 0);
            for (int64_t k = 0; k < o.workers; k++)
                if (memcmp(a.last[k], b.last[k], (size_t)a.count * sizeof **a.last) != 0)
                    fail_msg("%s on %s: worker %d has other bits", o.strategy, o.topology, (int)k);
            test_replicas_free(&a);
            test_replicas_free(&b);
        }
}

/* Without updates: the mean stays, and all come to it, whatever a codec loses. Graphs that change
 * and links that drop have differences of their own. */
static void replicas_come_to_the_mean(void **state)
{
    static const char *const members[][2] = {
        { "gossip", "ring" },          { "gossip:first=adapt", "pairs" },
        { "gossip:drop=0.4", "ring" }, { "gossip_async:overlap=no", "full" },
        { "gossip_async", "ring" },
    };

    (void)state;
    for (int c = 0; c < CODECS; c++)
        for (size_t m = 0; m < sizeof members / sizeof *members; m++) {
            if (c >= 5 && m != (size_t)c % 5)
                continue;
            const test_replicas_options o = { .strategy = members[m][0],
                                              .topology = members[m][1],
                                              .codec = codecs[c],
                                              .workers = 5,
                                              .steps = ROUNDS,
                                              .scattered = true };
            test_replicas r;

            run_ok(&o, &r);
            const double before = test_replicas_distance(r.first, 5, r.count);
            const double after = test_replicas_distance(r.last, 5, r.count);
            /* Where differences are even, some codecs say little of them. */
            const bool fast = ROUNDS >= 240 && strstr("topk:ratio=0.05 qsgd fp16", o.codec);
            if (!(mean_moved(&r) < 2e-5) || !(after < (fast ? 0.05 : 0.7) * before))
                fail_msg("%s on %s, %s: the mean moved by %g, %g of %g apart", o.strategy,
                         o.topology, o.codec, mean_moved(&r), after, before);
            test_replicas_free(&r);
        }
}

/* Masses are conserved, with what they carry: push-sum comes to the mean of where all began. */
static void pushes_come_to_the_mean(void **state)
{
    static const char *const members[][2] = {
        { "gossip:push=yes", "exponential" },
        { "gossip:push=yes", "exponential:one=yes" },
        { "gossip:push=yes,drop=0.3", "exponential" },
        { "gossip_async:how=push", "full" },
    };

    (void)state;
    for (int c = 0; c < PUSHED; c++)
        for (size_t m = 0; m < sizeof members / sizeof *members; m++)
            for (int threads = 0; threads < 2; threads++) {
                const test_replicas_options o = { .strategy = members[m][0],
                                                  .topology = members[m][1],
                                                  .codec = codecs[c],
                                                  .workers = 4,
                                                  .steps = 900,
                                                  .transport = threads ? "threads" : "sim",
                                                  .scattered = true };
                test_replicas r;

                if (threads &&
                    (c > 0 || m == 3)) /* paces differ: one may end before it heard of all */
                    continue;
                run_ok(&o, &r);
                if (!(from_mean(&r) < 0.15))
                    fail_msg("%s on %s, %s: %g from the mean", o.strategy, o.topology, o.codec,
                             from_mean(&r));
                test_replicas_free(&r);
            }
}

/* mean_i w_i after k + 1 steps = mean_i w_i after k steps - lr mean_i g_i. */
static void mean_moves_by_the_mean_gradient(void **state)
{
    static const char *const members[] = { "gossip", "gossip:first=adapt,rounds=2",
                                           "gossip:drop=0.4,correct=1" };
    static const char *const topologies[] = { "full", "ring", "pairs" };

    (void)state;
    for (int c = 0; c < 4; c++)
        for (size_t m = 0; m < sizeof members / sizeof *members; m++) {
            test_replicas_options o = { .strategy = members[m],
                                        .topology = topologies[(m + (size_t)c) % 3],
                                        .codec = codecs[c],
                                        .lr = "0.125",
                                        .workers = 5,
                                        .steps = 6,
                                        .scattered = true };
            test_replicas a, b;

            run_ok(&o, &a);
            o.steps++;
            run_ok(&o, &b);
            for (int64_t i = 0; i < a.count; i++) {
                double g = 0;

                for (int64_t w = 0; w < o.workers; w++)
                    g += (double)test_replicas_gradient(w, o.steps - 1, i) / (double)o.workers;
                assert_true(fabs(test_replicas_mean(b.last, o.workers, i) -
                                 (test_replicas_mean(a.last, o.workers, i) - 0.125 * g)) < 2e-6);
            }
            test_replicas_free(&a);
            test_replicas_free(&b);
        }
}

/* Who takes the same gradients holds the same: what a codec lost is lost to its sender, too, until
 * it is sent. */
static void the_same_gradients_make_equal_replicas(void **state)
{
    static const char *const members[] = { "gossip:sends=gradients",
                                           "partial:how=scatter,sends=gradients,slack=0",
                                           "partial:parts=3", "partial:parts=1" };

    (void)state;
    for (int c = 0; c < CODECS; c++)
        for (size_t m = 0; m < sizeof members / sizeof *members; m++)
            for (int threads = 0; threads < 2; threads++) {
                const test_replicas_options o = { .strategy = members[m],
                                                  .topology = "full",
                                                  .codec = codecs[c],
                                                  .transport = threads ? "threads" : "sim",
                                                  .lr = "0.125",
                                                  .workers = 4,
                                                  .steps = 20 };
                test_replicas r;

                if (threads && c > 2)
                    continue;
                run_ok(&o, &r);
                assert_true(test_replicas_distance(r.last, 1, r.count) == 0);
                if (!(test_replicas_distance(r.last, 4, r.count) < 1e-4))
                    fail_msg("%s, %s: %g apart", o.strategy, o.codec,
                             test_replicas_distance(r.last, 4, r.count));
                test_replicas_free(&r);
            }
}

/* The others come to some agreement. */
static void all_members_come_together(void **state)
{
    static const char *const members[][3] = {
        { "gossip_async:how=push,mass=no", "full", "topk:ratio=0.1" },
        { "gossip_async:how=pull", "full", "sign" },
        { "gossip_async:how=pull,p=0.5", "ring", "qsgd" },
        { "partial:how=scatter", "halton", "topk:ratio=0.1" },
        { "partial:how=scatter", "full", "powersgd" },
        { "partial:how=states,window=no,part=0.4", "full", "bf16" },
        { "partial:how=states,window=no,part=0.4", "full", "none+zstd" },
    };

    (void)state;
    for (size_t m = 0; m < sizeof members / sizeof *members; m++)
        for (int threads = 0; threads < 2; threads++) {
            const test_replicas_options o = { .strategy = members[m][0],
                                              .topology = members[m][1],
                                              .codec = members[m][2],
                                              .transport = threads ? "threads" : "sim",
                                              .workers = 4,
                                              .steps = 300,
                                              .scattered = true };
            test_replicas r;

            run_ok(&o, &r);
            if (!threads && test_replicas_distance(r.last, 4, r.count) >
                                0.05 * test_replicas_distance(r.first, 4, r.count))
                fail_msg("%s, %s: %g apart", o.strategy, o.codec,
                         test_replicas_distance(r.last, 4, r.count));
            for (int64_t k = 0; k < 4; k++)
                for (int64_t i = 0; i < r.count; i++)
                    assert_true(fabsf(r.last[k][i]) < 1.5f);
            test_replicas_free(&r);
        }
}

/* Who crashed and came back holds nothing: it asks for everything, and mixes on. */
static void survivors_finish(void **state)
{
    static const char *const members[] = { "gossip_async",
                                           "gossip_async:overlap=no",
                                           "gossip_async:how=push",
                                           "gossip_async:how=pull",
                                           "partial",
                                           "partial:how=scatter",
                                           "partial:how=scatter,slack=2" };

    (void)state;
    for (size_t m = 0; m < sizeof members / sizeof *members; m++)
        for (int restart = 0; restart < 2; restart++) {
            const test_replicas_options o = { .strategy = members[m],
                                              .codec = "topk:ratio=0.1",
                                              .cluster = "cluster=wan",
                                              .faults = restart
                                                            ? "crash 1 at 300ms; restart 1 at 900ms"
                                                            : "crash 1 at 300ms",
                                              .lr = "0.05",
                                              .workers = 4,
                                              .steps = 60,
                                              .learner = true };
            test_replicas r;

            test_replicas_run(&o, &r);
            if (r.err != FAST_OK && r.err != FAST_ECANCELED)
                fail_msg("%s: %s", members[m], fast_error_detail());
            for (int64_t k = 0; k < 4; k++)
                if (k != 1) {
                    assert_int_equal(r.steps[k], 60);
                    assert_non_null(r.last[k]);
                    for (int64_t i = 0; i < r.count; i++)
                        assert_true(fabsf(r.last[k][i]) < 100);
                }
            test_replicas_free(&r);
        }
}

/* Pauses and cut links make answers late: they are taken in, in their order. */
static void averages_get_over_pauses(void **state)
{
    (void)state;
    for (int64_t workers = 2; workers <= 8; workers += 3)
        for (int64_t seed = 1; seed <= 4; seed++) {
            const test_replicas_options o = { .strategy = "gossip_async",
                                              .codec = seed % 2 ? "sign" : "topk:ratio=0.1",
                                              .cluster = "cluster=wan",
                                              .faults =
                                                  "random:count=4,kinds=pause+slow+cut,span=2s",
                                              .workers = workers,
                                              .steps = 30,
                                              .seed = seed,
                                              .scattered = true };
            test_replicas r;

            run_ok(&o, &r);
            for (int64_t k = 0; k < workers; k++)
                assert_int_equal(r.steps[k], 30);
            for (int64_t k = 0; k < workers; k++)
                for (int64_t i = 0; i < r.count; i++)
                    assert_true(fabsf(r.last[k][i]) < 3);
            test_replicas_free(&r);
        }
}

static void memory_may_run_out(void **state)
{
    static const char *const members[][2] = {
        { "gossip:drop=0.1", "sign" },          { "gossip:push=yes", "qsgd" },
        { "gossip:sends=gradients", "topk" },   { "gossip_async", "topk" },
        { "gossip_async:how=push", "sign" },    { "partial", "onebit" },
        { "partial:how=scatter", "none+zstd" }, { "partial:how=states", "fp16" },
    };

    (void)state;
    for (size_t m = 0; m < sizeof members / sizeof *members; m++)
        for (int64_t n = 1; n < 80; n += n < EACH ? 1 : LEAP) {
            const test_replicas_options o = { .strategy = members[m][0],
                                              .codec = members[m][1],
                                              .workers = 3,
                                              .steps = 4,
                                              .alloc_fail = n };
            test_replicas r;

            test_replicas_run(&o, &r);
            if (r.err != FAST_OK && r.err != FAST_ENOMEM && r.err != FAST_EPEER &&
                r.err != FAST_ECANCELED)
                fail_msg("%s, %s, allocation %d: %s", o.strategy, o.codec, (int)n,
                         fast_error_detail());
            if (n == 1)
                assert_null(r.last[0]);
            test_replicas_free(&r);
        }
}

/* Real runs. */

static fast_err open_run(const char *const *more, fast_run **run)
{
    const char *options[24] = { "model=mlp:hidden=24",
                                "data=digits:train=1000,test=300",
                                "plan=no",
                                "transport=sim",
                                "workers=4",
                                "batch=8",
                                "lr=0.02",
                                "evaluate=end",
                                "steps=400" };
    int count = 9;

    for (; *more; more++)
        options[count++] = *more;
    return fast_run_open(options, run);
}

static fast_result result_of(const char *const *more)
{
    fast_run *run = NULL;

    if (open_run(more, &run) != FAST_OK || fast_run_train(run) != FAST_OK)
        fail_msg("%s %s: %s", more[0], more[1] ? more[1] : "", fast_error_detail());
    const fast_result result = *fast_run_result(run);
    fast_run_close(run);
    return result;
}

/* On a ring, within a few points of no codec, by a fraction of the bytes. */
static void a_ring_learns(void **state)
{
#ifdef FAST_SANITIZED
    (void)result_of(LIST("strategy=gossip", "codec=sign", "steps=20"));
#else
    static const struct {
        const char *codec;
        int64_t smaller; /* times, at least */
    } cases[] = {
        { "codec=topk:ratio=0.01", 40 }, { "codec=sign", 25 }, { "codec=qsgd", 7 },
        { "codec=powersgd", 8 },         { "codec=int8", 3 },
    };
    const fast_result plain = result_of(LIST("strategy=gossip"));

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const fast_result r = result_of(LIST("strategy=gossip", cases[i].codec));

        if (!(r.test_accuracy > plain.test_accuracy - 0.05) ||
            r.bytes_sent * cases[i].smaller > plain.bytes_sent)
            fail_msg("%s: %g, where no codec has %g, with %lld of %lld bytes", cases[i].codec,
                     r.test_accuracy, plain.test_accuracy, (long long)r.bytes_sent,
                     (long long)plain.bytes_sent);
        assert_true(r.codec_bytes_in > r.codec_bytes_out && r.codec_s > 0);
        assert_true(r.break_even_mbit_per_s > 0);
    }
#endif
    (void)state;
}

/* On a cluster with slow nodes no worker of Strom's waits for another, and late updates are
 * applied; a sum of the same messages waits. */
static void peers_do_not_wait(void **state)
{
    static const char *const systems[] = { "system=strom", "system=deeplearning4j-sharing" };

    (void)state;
    for (int i = 0; i < 2; i++) {
        const fast_result r =
            result_of(LIST(systems[i], "cluster=hetero", "strategy=partial:flush=no", "steps=40"));
        const fast_result sum =
            result_of(LIST("strategy=allreduce", "codec=threshold", "cluster=hetero", "steps=40"));

        assert_true(r.wait_s == 0 && sum.wait_s > 0);
        assert_true(r.staleness_max > 0 && sum.staleness_max == 0);
        assert_true(r.codec_bytes_out > 0 && r.codec_bytes_out < r.codec_bytes_in / 2);
    }
}

static void cancel_early(void *ctx, const fast_event *event)
{
    fast_run **run = ctx;

    if (event->kind == FAST_EVENT_EVALUATE && event->step == 4)
        fast_run_cancel(*run);
}

/* Asynchronous workers continue after a cancel without the messages that were in flight; the
 * copies at neighbours of synchronous workers are still valid. */
static void cancelled_runs_continue(void **state)
{
    static const char *const members[] = { "strategy=gossip", "strategy=gossip:drop=0.3",
                                           "strategy=gossip_async",
                                           "strategy=gossip_async:how=push",
                                           "strategy=partial:how=scatter" };

    (void)state;
    for (size_t m = 0; m < sizeof members / sizeof *members; m++) {
        fast_run *run = NULL;

        assert_int_equal(open_run(LIST(members[m], "codec=topk:ratio=0.1", "evaluate=2steps",
                                       "steps=40", "transport=threads"),
                                  &run),
                         FAST_OK);
        fast_run_watch(run, cancel_early, &run);
        assert_int_equal(fast_run_train(run), FAST_OK);
        fast_run_watch(run, NULL, NULL);
        assert_int_equal(fast_run_train(run), FAST_OK);
        assert_true(isfinite(fast_run_result(run)->test_loss));
        fast_run_close(run);
    }
}

/* Bytes of all that the links of a worker hold after `steps`. */
static size_t memory_after(const char *strategy, const char *topology, const char *steps)
{
    fast_run *run = NULL;
    fast_pack pack = { 0 };

    assert_int_equal(open_run(LIST(strategy, topology, steps, "codec=topk:ratio=0.1", "workers=8",
                                   "transport=sim"),
                              &run),
                     FAST_OK);
    assert_int_equal(fast_run_train(run), FAST_OK);
    fast__flows_pack(&run->team->actors[3]->context.codecs.flows, &pack, 0);
    fast_run_close(run);
    return pack.size;
}

/* The mass of a worker: the first number of its persistent block. */
static double mass_of(const fast_run *run, int64_t rank)
{
    const fast_memory_block *block = run->team->actors[rank]->context.blocks;
    double mass;

    while (block && block->id != 0)
        block = block->next;
    assert_non_null(block);
    memcpy(&mass, block->data, sizeof mass);
    return mass;
}

/* A mix conserves the sum of mass times model, so also that of mass times contributions: an update
 * of worker j by g / a adds P / a to those of a replica of mass a. Without push masses are 1. */
static void mixes_conserve_contributions(void **state)
{
    static const char *const members[][2] = {
        { "strategy=gossip:push=yes", "topology=exponential:one=yes" },
        { "strategy=gossip:push=yes", "topology=ring" },
        { "strategy=gossip:push=yes", "topology=halton" },
        { "strategy=gossip", "topology=ring" },
        { "strategy=gossip:first=adapt", "topology=full" },
    };
    const int64_t count = (int64_t)(sizeof members / sizeof *members);

    (void)state;
    for (int64_t i = 0; i < 2 * count; i++) {
        const char *strategy = members[i % count][0], *topology = members[i % count][1];
        fast_run *run = NULL;

        assert_int_equal(open_run(LIST(strategy, topology, "steps=6",
                                       i < count ? "codec=none" : "codec=topk:ratio=0.1",
                                       "workers=5", "transport=sim"),
                                  &run),
                         FAST_OK);
        assert_int_equal(fast_run_train(run), FAST_OK);
        for (int64_t j = 0; j < 5; j++) {
            double sum = 0;

            for (int64_t k = 0; k < 5; k++)
                sum += mass_of(run, k) * run->team->actors[k]->context.shares.w[j];
            if (fabs(sum - 5 * 6) > 1e-3)
                fail_msg("%s %s: all replicas hold %g of the 30 of worker %lld", strategy, topology,
                         sum, (long long)j);
        }
        fast_run_close(run);
    }
}

/* A graph that changes takes the memory of all its links before the first step, and no more. */
static void links_are_there_before_the_first_step(void **state)
{
    static const char *const members[][2] = {
        { "strategy=gossip", "topology=pairs" },
        { "strategy=gossip:push=yes", "topology=exponential:one=yes" },
        { "strategy=gossip:correct=1", "topology=hypercube:one=yes" },
    };

    (void)state;
    for (size_t m = 0; m < sizeof members / sizeof *members; m++) {
        const char *strategy = members[m][0], *topology = members[m][1];
        const size_t first = memory_after(strategy, topology, "steps=1");

        assert_true(first > 0 && memory_after(strategy, topology, "steps=14") == first);
    }
}

static void refuse(const char *reason, bool late, const char *const *options)
{
    fast_run *run = NULL;
    fast_err err = open_run(options, &run);

    if (!err && late)
        err = fast_run_train(run);
    if (err != FAST_EINVAL || !strstr(fast_error_detail(), reason))
        fail_msg("%s %s: \"%s\" says nothing of \"%s\"", options[0], options[1],
                 err ? fast_error_detail() : "", reason);
    fast_run_close(late ? run : NULL);
}

static void nonsense_is_refused(void **state)
{
    (void)state;
    refuse("votes", false, LIST("strategy=gossip:sends=gradients", "codec=vote"));
    refuse("take", false, LIST("strategy=gossip", "codec=vote"));
    refuse("topk", false, LIST("strategy=gossip", "codec=dgc:momentum=0"));
    refuse("momentum", false, LIST("strategy=gossip_async", "codec=dgc"));
    refuse("adagrad", false, LIST("strategy=local", "codec=onebit:adagrad=yes"));
    refuse("answers", false, LIST("codec=onebit", "codec_down=onebit:adagrad=yes"));
    refuse("codec_down", false, LIST("strategy=gossip", "codec=sign", "codec_down=fp16"));
    refuse("codec_down", false, LIST("strategy=partial", "codec=sign", "codec_down=fp16"));
    refuse("feedback", false, LIST("strategy=gossip", "codec=sign", "feedback=no"));
    refuse("as they are", false, LIST("strategy=partial:how=states", "codec=topk"));
    refuse("parts", true, LIST("strategy=partial:parts=0", "codec=topk"));
    refuse("part", true, LIST("strategy=partial:how=states,part=0.0001", "codec=fp16"));
    refuse("push", true, LIST("strategy=gossip", "codec=topk", "topology=halton"));
    refuse("the same", true, LIST("strategy=partial:how=scatter", "codec=topk", "topology=pairs"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lossless_changes_nothing),
        cmocka_unit_test(replicas_come_to_the_mean),
        cmocka_unit_test(pushes_come_to_the_mean),
        cmocka_unit_test(mean_moves_by_the_mean_gradient),
        cmocka_unit_test(the_same_gradients_make_equal_replicas),
        cmocka_unit_test(all_members_come_together),
        cmocka_unit_test(survivors_finish),
        cmocka_unit_test(averages_get_over_pauses),
        cmocka_unit_test(memory_may_run_out),
        cmocka_unit_test(a_ring_learns),
        cmocka_unit_test(peers_do_not_wait),
        cmocka_unit_test(cancelled_runs_continue),
        cmocka_unit_test(mixes_conserve_contributions),
        cmocka_unit_test(links_are_there_before_the_first_step),
        cmocka_unit_test(nonsense_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
