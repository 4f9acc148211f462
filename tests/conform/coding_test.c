/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Training with codecs. Goal: with every codec all replicas are the same bits after the same steps,
 * on threads as in sim and on ranks; without one nothing changes; error feedback learns what its
 * absence does not; what is sent is smaller; a run that is canceled or resumed is the same run, or
 * says why not; what makes no sense is refused before anything runs. Method: a small model on small
 * data, compared by params_hash and by the workers' own weights.
 *
 * With the argument "mpi", under mpirun: the same hash on the ranks as on threads.
 */
#include "base/hash.h"
#include "codec/codec.h"
#include "run/team.h"
#include "strategy/strategy.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

enum { OPTIONS_MAX = 32 };
#define LIST(...) ((const char *[]){ __VA_ARGS__, NULL })

#ifdef FAST_SANITIZED
enum { WORKERS_MAX = 3 };
#else
enum { WORKERS_MAX = 5 };
#endif

static const char *const always[] = { "engine=ref",
                                      "model=mlp:hidden=12",
                                      "data=digits:train=160,test=24",
                                      "batch=8",
                                      "lr=0.1",
                                      "steps=6",
                                      "plan=no",
                                      "evaluate=end" };

static fast_err open_run(const char *const *more, fast_run **run)
{
    const char *options[OPTIONS_MAX] = { NULL };
    int count = 0;

    for (size_t i = 0; i < sizeof always / sizeof *always; i++)
        options[count++] = always[i];
    for (; more && *more; more++)
        options[count++] = *more;
    assert_true(count < OPTIONS_MAX);
    return fast_run_open(options, run);
}

/* Train; every worker's weights must be the same where the strategy says so. */
static fast_result result_of(const char *const *more)
{
    fast_run *run = NULL;

    if (open_run(more, &run) != FAST_OK || fast_run_train(run) != FAST_OK)
        fail_msg("%s %s: %s", more[0], more[1] ? more[1] : "", fast_error_detail());
    const fast_result result = *fast_run_result(run);
    for (int64_t i = 0; run->team && run->team->strategy->identical && i < run->team->workers;
         i++) {
        const fast_team_actor *actor = run->team->actors[i];

        if (actor && fast__hash(actor->context.trainer.w,
                                (size_t)actor->context.trainer.count * sizeof(float),
                                0) != result.params_hash)
            fail_msg("%s %s: worker %lld has another model", more[0], more[1], (long long)i);
    }
    fast_run_close(run);
    return result;
}

/* A codec by its name, beside the standard rule, which has momentum. */
static const char *spec_of(const fast_codec *codec)
{
    return strcmp(codec->name, "dgc") == 0 ? "dgc:momentum=0" : codec->name;
}

/* The codec of answers: their sender does not know the weights that they change. */
static const char *down_of(const fast_codec *codec)
{
    return codec->traits & FAST_CODEC_MODEL || strcmp(codec->name, "dct") == 0 ? "topk"
                                                                               : spec_of(codec);
}

/* The rule beside a codec: one of the two has momentum. */
static const char *rule_of(const fast_codec *codec)
{
    return strcmp(codec->name, "dct") == 0 ? "optimizer=sgd" : "optimizer=momentum";
}

static void every_codec_keeps_replicas_equal(void **state)
{
    (void)state;
    for (int i = 0; fast__codecs[i]; i++)
        for (int n = 2; n <= WORKERS_MAX; n++) {
            const char *rule = rule_of(fast__codecs[i]);
            char codec[64], down[64], workers[32];

            snprintf(codec, sizeof codec, "codec=%s", spec_of(fast__codecs[i]));
            snprintf(workers, sizeof workers, "workers=%d", n);
            snprintf(down, sizeof down, "codec_down=%s",
                     n % 2 || fast__codecs[i]->rounds ? "none" : down_of(fast__codecs[i]));
            const fast_result a = result_of(LIST(codec, down, workers, rule, "transport=threads"));
            const fast_result b = result_of(LIST(codec, down, workers, rule, "transport=sim"));
            assert_true(isfinite(a.loss) && a.params_hash == b.params_hash);
            assert_true(a.codec_bytes_in > 0 && a.codec_bytes_out > 0 && b.codec_s > 0);
        }
}

/* A selection that holds nothing back is its strategy with a codec that loses nothing, to the bit;
 * one that holds back something is another run, and repeats on other transports. */
static void selections_work_everywhere(void **state)
{
    static const char *const strategies[] = {
        "strategy=allreduce",
        "strategy=allreduce:overlap=yes",
        "strategy=local:period=2",
        "strategy=local:period=2,delay=yes",
        "strategy=gossip",
        "strategy=gossip:sends=gradients",
        "strategy=elastic_sync",
        "strategy=quorum",
        "strategy=ps:slack=0",
        "strategy=ps:slack=0,overlap=yes,servers=2",
        "strategy=distill",
        "strategy=federated:period=2",
        "strategy=partial:how=parts",
    };
    static const char *const none[] = { "codec=significance:threshold=0",
                                        "codec=skip:probability=0", "codec=budget:bytes=100000000",
                                        "codec=kkt:l1=0" };
    static const char *const some[] = { "codec=significance:threshold=0.5",
                                        "codec=skip:probability=0.5", "codec=budget:bytes=200",
                                        "codec=significance:threshold=0.1+skip+int8" };

    (void)state;
    for (size_t s = 0; s < sizeof strategies / sizeof strategies[0]; s++)
        for (size_t c = s % 2; c < 4; c += 2) { /* every pair of neighbours has all */
            /* Models that depend on the times of messages repeat in the simulator. */
            const bool timed =
                strstr(strategies[s], "partial") || strstr(strategies[s], "federated");
            const fast_result exact =
                result_of(LIST(strategies[s], "codec=nonzero", "workers=3", "transport=sim"));
            const fast_result all =
                result_of(LIST(strategies[s], none[c], "workers=3", "transport=sim"));
            const fast_result a =
                result_of(LIST(strategies[s], some[c], "workers=3", "transport=sim"));
            const fast_result b =
                result_of(LIST(strategies[s], some[c], "workers=3", "transport=threads"));

            /* A budget does not know that it is large enough: weights go as differences. */
            if (all.params_hash != exact.params_hash && !strstr(none[c], "budget"))
                fail_msg("%s %s loses something", strategies[s], none[c]);
            if (a.params_hash == exact.params_hash)
                fail_msg("%s %s holds nothing back", strategies[s], some[c]);
            if (!timed && a.params_hash != b.params_hash)
                fail_msg("%s %s: other bits on threads", strategies[s], some[c]);
            assert_true(isfinite(a.loss) && isfinite(b.loss));
        }
}

static void periodic_strategies_code_too(void **state)
{
    static const char *const strategies[] = { "strategy=local:period=2",
                                              "strategy=local:period=3,outer=nesterov",
                                              "strategy=local:period=2,delay=yes",
                                              "strategy=elastic_sync:period=2" };
    static const char *const codecs[] = { "codec=fp16", "codec=onebit", "codec=topk:ratio=0.05" };

    (void)state;
    for (size_t i = 0; i < sizeof strategies / sizeof *strategies; i++) {
        const fast_result plain = result_of(LIST(strategies[i], "workers=3", "transport=sim"));

        for (size_t k = 0; k < sizeof codecs / sizeof *codecs; k++) {
            const char *s = strategies[i], *c = codecs[k];
            const fast_result a = result_of(LIST(s, c, "workers=3", "transport=threads"));
            const fast_result b = result_of(LIST(s, c, "workers=3", "transport=sim"));

            assert_true(a.params_hash == b.params_hash && a.params_hash != plain.params_hash);
            /* Codecs for changes would ruin weights that are sent as they are. */
            assert_true(fabs(a.test_loss - plain.test_loss) < 0.3 * plain.test_loss);
        }
    }
}

static void nothing_changes_without(void **state)
{
    (void)state;
    const fast_result one = result_of(LIST("workers=1"));
    const fast_result coded = result_of(LIST("workers=1", "codec=onebit"));
    const fast_result threads = result_of(LIST("workers=1", "codec=onebit", "transport=threads"));
    assert_true(one.params_hash == coded.params_hash && one.params_hash == threads.params_hash);
    assert_true(coded.codec_bytes_in == 0 && threads.codec_bytes_in == 0);

    const fast_result plain = result_of(LIST("workers=3", "transport=sim"));
    const fast_result none = result_of(LIST("workers=3", "transport=sim", "codec=none"));
    const fast_result half = result_of(LIST("workers=3", "transport=sim", "codec=fp16"));
    assert_true(plain.params_hash == none.params_hash && plain.bytes_sent == none.bytes_sent);
    assert_true(half.params_hash != none.params_hash);
    assert_true(fabs(half.test_loss - none.test_loss) < 0.01 * none.test_loss);
}

/* The messages' own counters, not the codec's figures. */
static void less_is_sent(void **state)
{
    (void)state;
    const fast_result plain = result_of(LIST("workers=2", "transport=sim"));
    const fast_result bits = result_of(LIST("workers=2", "transport=sim", "codec=onebit"));
    const fast_result few = result_of(LIST("workers=2", "transport=sim", "codec=topk:ratio=0.01"));
    const fast_result both =
        result_of(LIST("workers=4", "transport=sim", "codec=int8", "codec_down=int8"));
    const fast_result four = result_of(LIST("workers=4", "transport=sim"));

    assert_true(bits.bytes_sent * 15 < plain.bytes_sent);
    assert_true(few.bytes_sent * 20 < plain.bytes_sent);
    assert_true(both.bytes_sent * 3 < four.bytes_sent);
    assert_true(bits.codec_bytes_in > 20 * bits.codec_bytes_out);
    assert_true(bits.break_even_mbit_per_s > 0 && isnan(plain.break_even_mbit_per_s));
}

/* With feedback within a few points of no codec; without, the loss that is known. */
static void feedback_learns(void **state)
{
#ifndef FAST_SANITIZED
    static const char *const codecs[] = { "codec=onebit", "codec=sign", "codec=topk:ratio=0.01" };
#define LEARN                                                                               \
    "workers=4", "transport=sim", "data=digits:train=2000,test=500", "model=mlp:hidden=32", \
        "steps=800", "lr=0.02", "engine=auto"
    const fast_result plain = result_of(LIST("codec=none", LEARN));
    const fast_result fed = result_of(LIST("codec=topk:ratio=0.001", LEARN));
    const fast_result lost = result_of(LIST("codec=topk:ratio=0.001", "feedback=no", LEARN));

    for (size_t i = 0; i < sizeof codecs / sizeof *codecs; i++) {
        const fast_result coded = result_of(LIST(codecs[i], LEARN));

        if (!(coded.test_accuracy > plain.test_accuracy - 0.06))
            fail_msg("%s: %g, where no codec has %g", codecs[i], coded.test_accuracy,
                     plain.test_accuracy);
    }
    assert_true(lost.test_accuracy < fed.test_accuracy - 0.1);
#endif
    (void)state;
}

static void cancel_early(void *ctx, const fast_event *event)
{
    fast_run **run = ctx;

    if (event->kind == FAST_EVENT_EVALUATE && event->step == 2)
        fast_run_cancel(*run);
}

/* Residuals last from call to call. */
static void canceled_runs_continue(void **state)
{
    (void)state;
    const char *const *options =
        LIST("workers=2", "codec=topk:ratio=0.02", "evaluate=1steps", "transport=sim");
    const fast_result whole = result_of(options);
    fast_run *run = NULL;

    assert_int_equal(open_run(options, &run), FAST_OK);
    fast_run_watch(run, cancel_early, &run);
    assert_int_equal(fast_run_train(run), FAST_OK);
    assert_true(fast_run_result(run)->canceled);
    fast_run_watch(run, NULL, NULL);
    assert_int_equal(fast_run_train(run), FAST_OK);
    assert_true(fast_run_result(run)->params_hash == whole.params_hash);
    fast_run_close(run);
}

/* Codecs without residuals: the same bits, random draws included. */
static void resumed_runs_are_the_same(void **state)
{
    static const char *const codecs[] = { "codec=fp16", "codec=qsgd", "codec=terngrad" };
    char folder[] = "coding-test-XXXXXX", save[64], load[64];

    (void)state;
    assert_non_null(mkdtemp(folder));
    snprintf(save, sizeof save, "checkpoint=%s/c", folder);
    snprintf(load, sizeof load, "resume=%s/c", folder);
    for (size_t i = 0; i < sizeof codecs / sizeof *codecs; i++) {
        const char *c = codecs[i];
        fast_run *run = NULL;

        const fast_result whole = result_of(LIST(c, "workers=2", "schedule=constant"));
        (void)result_of(LIST(c, "workers=2", "schedule=constant", "steps=3", save));
        const fast_result rest = result_of(LIST(c, "workers=2", "schedule=constant", load));
        assert_true(whole.params_hash == rest.params_hash);
        assert_int_equal(open_run(LIST("codec=bf16", "workers=2", "schedule=constant", load), &run),
                         FAST_EINVAL);
        assert_non_null(strstr(fast_error_detail(), c));
    }
    assert_int_equal(unlink(save + strlen("checkpoint=")), 0);
    assert_int_equal(rmdir(folder), 0);
}

static void refuse(const char *reason, fast_err err, const char *const *options)
{
    fast_run *run = NULL;
    const fast_err got = open_run(options, &run);

    if (got != err || !strstr(fast_error_detail(), reason))
        fail_msg("%s: \"%s\" says nothing of \"%s\"", options[0], got ? fast_error_detail() : "",
                 reason);
}

static void what_makes_no_sense_is_refused(void **state)
{
    (void)state;
    refuse("codec", FAST_EINVAL, LIST("codec=gzip9", "workers=2"));
    refuse("ratio", FAST_EINVAL, LIST("codec=topk:ratio=7", "workers=2"));
    refuse("codec=NAME", FAST_EINVAL, LIST("feedback=yes", "workers=2"));
    refuse("codec=NAME", FAST_EINVAL, LIST("codec_small=9", "workers=2"));
    refuse("codec=sign", FAST_EINVAL, LIST("codec_down=sign", "workers=2"));
    refuse("grow", FAST_EINVAL, LIST("codec=qsgd", "feedback=yes", "workers=2"));
    refuse("layers", FAST_EINVAL,
           LIST("codec=sign", "codec_small=9", "codec_scope=model", "workers=2"));
    for (int i = 0; fast__strategies[i]; i++) {
        const fast_strategy *s = fast__strategies[i];
        char strategy[64];

        snprintf(strategy, sizeof strategy, "strategy=%s", s->name);
        if (!s->uses_codec)
            refuse(s->shares_memory                   ? "share one model in memory"
                   : strcmp(s->sends, "nothing") == 0 ? "sends nothing"
                                                      : "does not encode",
                   FAST_EINVAL, LIST(strategy, "workers=2", "codec=fp16"));
    }
}

/* Momentum counts once: in the codec, or in the rule. */
static void momentum_counts_once(void **state)
{
    static const char *const rules[] = { "optimizer=momentum", "optimizer=nesterov",
                                         "optimizer=adam", "optimizer=rmsprop:momentum=0.5" };
    static const char *const members[] = { "strategy=local", "strategy=elastic_sync",
                                           "strategy=ps:send=differences" };

    (void)state;
    for (size_t i = 0; i < sizeof rules / sizeof *rules; i++)
        refuse("optimizer=sgd", FAST_EINVAL, LIST(rules[i], "codec=dgc", "workers=2"));
    for (size_t i = 0; i < sizeof members / sizeof *members; i++)
        refuse("for gradients", FAST_EINVAL,
               LIST(members[i], "codec=dgc", "workers=2", "optimizer=sgd"));
    refuse("both ways", FAST_EINVAL,
           LIST("codec=dgc", "codec_down=dgc", "workers=2", "optimizer=sgd"));
    /* All is sent, and what is sent has no momentum left: that of the codec does nothing. */
    const fast_result a = result_of(
        LIST("codec=dgc:ratio=1", "workers=2", "optimizer=sgd", "transport=sim", "steps=4"));
    const fast_result b = result_of(
        LIST("codec=topk:ratio=1", "workers=2", "optimizer=sgd", "transport=sim", "steps=4"));
    assert_true(a.params_hash == b.params_hash);
    assert_true(isfinite(
        result_of(LIST("codec=dgc:momentum=0,ratio=0.1", "workers=2", "transport=sim")).loss));
}

/* The JSON of a run has the figures of its codec, and only then. */
static void json_has_the_codec(void **state)
{
    const char *const *specs[] = { LIST("workers=2", "transport=sim", "codec=int8"),
                                   LIST("workers=2", "transport=sim") };

    (void)state;
    for (int i = 0; i < 2; i++) {
        fast_run *run = NULL;

        assert_int_equal(open_run(specs[i], &run), FAST_OK);
        assert_int_equal(fast_run_train(run), FAST_OK);
        const char *json = fast_run_json(run);
        const char *ratio = json ? strstr(json, "\"codec_ratio\": ") : NULL;
        assert_non_null(json);
        assert_int_equal(ratio != NULL, i == 0);
        assert_int_equal(strstr(json, "\"codec_down\": ") != NULL, i == 0);
        if (ratio) /* from 4 bytes to 1, and a scale */
            assert_true(fabs(atof(strchr(ratio, ' ')) - 4) < 0.5);
        fast_run_close(run);
    }
}

static void every_codec_on_ranks(void **state)
{
    (void)state;
    for (int i = 0; fast__codecs[i]; i++) {
        char codec[64], down[64];

        snprintf(codec, sizeof codec, "codec=%s", spec_of(fast__codecs[i]));
        snprintf(down, sizeof down, "codec_down=%s",
                 i % 2 || fast__codecs[i]->rounds ? "none" : down_of(fast__codecs[i]));
        const fast_result a = result_of(LIST(codec, down, "workers=2", "transport=threads"));
        const fast_result b = result_of(LIST(codec, down, "workers=2", "transport=mpi"));
        assert_true(a.params_hash == b.params_hash);
    }
}

int main(int argc, char **argv)
{
    const struct CMUnitTest on_ranks[] = { cmocka_unit_test(every_codec_on_ranks) };
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_codec_keeps_replicas_equal),
        cmocka_unit_test(periodic_strategies_code_too),
        cmocka_unit_test(selections_work_everywhere),
        cmocka_unit_test(nothing_changes_without),
        cmocka_unit_test(less_is_sent),
        cmocka_unit_test(feedback_learns),
        cmocka_unit_test(canceled_runs_continue),
        cmocka_unit_test(resumed_runs_are_the_same),
        cmocka_unit_test(what_makes_no_sense_is_refused),
        cmocka_unit_test(momentum_counts_once),
        cmocka_unit_test(json_has_the_codec),
    };

    if (argc > 1 && strcmp(argv[1], "mpi") == 0)
        return cmocka_run_group_tests(on_ranks, NULL, NULL);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
