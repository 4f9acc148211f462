/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Codecs in strategies with a centre. Goal: a codec that loses nothing changes no bit; any other
 * sends less and still learns; replicas that must be equal are; decoded values and residuals add up
 * to the input; invalid combinations are refused with a reason before anything runs. Method: small
 * runs, compared by hash, by the workers' weights, by bytes and by loss.
 */
#include "base/hash.h"
#include "codec/codec.h"
#include "comm/flow.h"
#include "run/team.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { OPTIONS_MAX = 32 };
#define LIST(...) ((const char *[]){ __VA_ARGS__, NULL })
#define COUNT(x)  (sizeof(x) / sizeof(x)[0])

#ifdef FAST_SANITIZED
enum { STRIDE = 13, LAST = 1 }; /* every STRIDE-th codec; of the lossless ones, the last */
#else
enum { STRIDE = 1, LAST = 0 };
#endif

static const char *const always[] = { "engine=ref",
                                      "model=mlp:hidden=12",
                                      "data=digits:train=320,test=48",
                                      "batch=8",
                                      "lr=0.05",
                                      "optimizer=sgd",
                                      "steps=16",
                                      "plan=no",
                                      "timeout=60",
                                      "evaluate=end" };

static fast_err open_run(const char *const *more, fast_run **run)
{
    const char *options[OPTIONS_MAX] = { NULL };
    int count = 0;

    for (size_t i = 0; i < COUNT(always); i++)
        options[count++] = always[i];
    for (; more && *more; more++)
        options[count++] = *more;
    assert_true(count < OPTIONS_MAX);
    return fast_run_open(options, run);
}

/* Train; where `equal`, all workers end with the same weights. */
static fast_result result_of(bool equal, const char *const *more)
{
    fast_run *run = NULL;

    if (open_run(more, &run) != FAST_OK || fast_run_train(run) != FAST_OK)
        fail_msg("%s %s: %s", more[0], more[1] ? more[1] : "", fast_error_detail());
    const fast_result result = *fast_run_result(run);
    for (int64_t i = 0; equal && i < run->team->workers; i++) {
        const fast_trainer *t = &run->team->actors[i]->context.trainer;

        if (fast__hash(t->w, (size_t)t->count * sizeof(float), 0) != result.params_hash)
            fail_msg("%s %s: worker %lld has another model", more[0], more[1], (long long)i);
    }
    if (!isfinite(result.loss))
        fail_msg("%s %s: the loss is %g", more[0], more[1], result.loss);
    fast_run_close(run);
    return result;
}

static void refuse(const char *reason, const char *const *options)
{
    fast_run *run = NULL;
    const fast_err got = open_run(options, &run);

    if (got != FAST_EINVAL || !strstr(fast_error_detail(), reason))
        fail_msg("%s %s: \"%s\" says nothing of \"%s\"", options[0], options[1],
                 got ? fast_error_detail() : "", reason);
}

/* Strategies, with workers and a cluster for which the order of messages is the same with and
 * without a codec. */
static const struct member {
    const char *strategy;
    const char *workers;
    const char *cluster;
    bool equal; /* all workers end with the same weights */
} members[] = {
    { "strategy=quorum", "workers=3", "cluster=ethernet-10g", true },
    { "strategy=quorum:servers=3", "workers=4", "cluster=ethernet-10g", true },
    { "strategy=quorum:servers=0,partial=yes", "workers=2", "cluster=ideal", true },
    { "strategy=elastic:period=2", "workers=2", "cluster=ideal", false },
    { "strategy=distill", "workers=3", "cluster=ethernet-10g", true },
    { "strategy=mpca:period=2", "workers=2", "cluster=infiniband", false },
    { "strategy=elastic_tree:up=2,down=3", "workers=2", "cluster=ethernet-10g", false },
    { "strategy=dogwild:chunk=1000", "workers=1", "cluster=infiniband", false },
};

/* Steps that take so long that messages come between the same ones, with a codec and without. */
#define LONG "transport=sim", "batch=64", "data=digits:train=640,test=48"

/* Weights are sent, or come back. */
static bool weights_of(const struct member *m)
{
    return !strstr(m->strategy, "quorum") && !strstr(m->strategy, "distill");
}

static void what_loses_nothing_changes_nothing(void **state)
{
    static const char *const ups[] = { "codec=topk:ratio=1", "codec=topk:ratio=1", "codec=lz4" };
    static const char *const downs[] = { "codec_down=none", "codec_down=topk:ratio=1+zstd",
                                         "codec_down=zstd" };

    (void)state;
    for (size_t i = 0; i < COUNT(members); i++) {
        const struct member *m = &members[i];
        const fast_result plain =
            result_of(m->equal, LIST(m->strategy, m->workers, m->cluster, LONG));

        /* Where weights are sent, or answers are, codecs that are told to lose nothing keep the
         * bits; others are differences, which round. */
        for (size_t k = weights_of(m) || LAST ? 2 : 0; k < COUNT(downs); k++) {
            const fast_result coded = result_of(
                m->equal, LIST(m->strategy, m->workers, m->cluster, LONG, ups[k], downs[k]));

            if (coded.params_hash != plain.params_hash)
                fail_msg("%s differs with a codec that loses nothing", m->strategy);
        }
    }
}

/* A codec by its name, for differences and weights as well; NULL: it is for gradients alone. */
static const char *spec_of(const fast_codec *codec)
{
    if (strcmp(codec->name, "vote") == 0 || strcmp(codec->name, "dct") == 0)
        return NULL;
    return strcmp(codec->name, "dgc") == 0            ? "dgc:momentum=0"
           : strcmp(codec->name, "significance") == 0 ? "significance:threshold=0.5"
           : strcmp(codec->name, "budget") == 0       ? "budget:bytes=400"
           : strcmp(codec->name, "skip") == 0         ? "skip:probability=0.9"
                                                      : codec->name;
}

/* Codecs that leave out zeros, or gradients of weights that are 0: these runs have few. */
static bool is_dense(const char *spec)
{
    return strcmp(spec, "nonzero") == 0 || strcmp(spec, "kkt") == 0 || strcmp(spec, "decay") == 0;
}

static void every_codec_runs(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT(members); i++) {
        const struct member *m = &members[i];
        const fast_result plain =
            result_of(m->equal, LIST(m->strategy, m->workers, "transport=sim"));

        for (int k = 0; fast__codecs[k]; k++) {
            const char *spec = spec_of(fast__codecs[k]);
            const bool keeps = (fast__codecs[k]->traits & FAST_CODEC_ACCUMULATES) != 0;
            char codec[64], down[64];

            if (!spec || k % STRIDE != 0)
                continue;
            if (keeps && (strstr(m->strategy, "mpca") || strstr(m->strategy, "tree"))) {
                refuse("take topk", LIST(m->strategy, "codec=dgc:momentum=0", "workers=2"));
                continue;
            }
            snprintf(codec, sizeof codec, "codec=%s", spec);
            snprintf(down, sizeof down, "codec_down=%s",
                     strstr(m->strategy, "dogwild")                              ? "bf16"
                     : keeps || (fast__codecs[k]->traits & FAST_CODEC_MODEL)     ? "topk"
                     : fast__codecs[k]->rounds && strstr(m->strategy, "distill") ? "none"
                                                                                 : spec);
            const fast_result up =
                result_of(m->equal, LIST(m->strategy, codec, m->workers, "transport=sim"));
            const fast_result both =
                result_of(m->equal, LIST(m->strategy, codec, down, m->workers,
                                         k % 2 ? "transport=sim" : "transport=threads"));

            if (!(up.test_loss < plain.test_loss + 0.3 && both.test_loss < plain.test_loss + 0.3))
                fail_msg("%s %s: loss %g, both ways %g, without %g", m->strategy, codec,
                         up.test_loss, both.test_loss, plain.test_loss);
            if (up.bytes_sent >= plain.bytes_sent + (is_dense(spec) ? plain.bytes_sent / 100 : 0))
                fail_msg("%s %s sends %lld bytes, where floats are %lld", m->strategy, codec,
                         (long long)up.bytes_sent, (long long)plain.bytes_sent);
        }
    }
}

/* Late gradients, added or dropped, are encoded once: replicas stay equal, in sim and on threads,
 * and a slow worker's gradients do not grow by being sent again. */
static void late_gradients_are_coded(void **state)
{
    static const char *const ways[] = { "strategy=quorum:quorum=2,late=add,servers=2",
                                        "strategy=quorum:backup=1", "strategy=quorum:partial=yes" };

    (void)state;
    for (size_t i = 0; i < COUNT(ways); i++) {
        const fast_result plain = result_of(
            true, LIST(ways[i], "workers=4", "accumulate=2", "transport=sim", "cluster=hetero"));
        const fast_result coded =
            result_of(true, LIST(ways[i], "workers=4", "accumulate=2", "transport=sim",
                                 "cluster=hetero", "codec=onebit", "codec_down=sign"));

        assert_true(coded.test_loss < plain.test_loss + 0.3);
        assert_true(coded.bytes_sent < plain.bytes_sent);
        (void)result_of(true, LIST(ways[i], "workers=4", "accumulate=2", "transport=threads",
                                   "codec=topk:ratio=0.05"));
    }
}

/* A worker that encodes its gradients, and decodes them itself: the decoded sum and the
 * residual add up to the input. */
static fast_err echo_gradients(fast_trainer *t, const void *config)
{
    const size_t size = (size_t)t->count * sizeof(double);
    double *in = calloc(2, size), *out = in + t->count;
    float *y = calloc((size_t)t->count, sizeof *y);
    fast_flow *to = NULL, *from = NULL;
    fast_err err = fast_trainer_flow(t, &(fast_flow_options){ .number = 0 }, &to);

    (void)config;
    if (!err)
        err = fast_trainer_flow(t, &(fast_flow_options){ .number = 1, .decodes = true }, &from);
    uint8_t *bytes = err ? NULL : malloc(fast_flow_bound(to));
    while (!err && fast_trainer_next(t)) {
        size_t length = 0;

        err = fast_trainer_gradient(t, NULL, NULL);
        memset(y, 0, (size_t)t->count * sizeof *y);
        if (!err)
            err = fast_trainer_encode(t, to, t->g, bytes, &length);
        if (!err)
            err = fast_trainer_decode(t, from, bytes, length, 1, y);
        for (int64_t i = 0; i < t->count; i++) {
            in[i] += (double)t->g[i];
            out[i] += (double)y[i];
        }
        if (!err)
            err = fast_trainer_update(t, y, 1);
    }
    const float *residual = err ? NULL : fast__flow_residual(to);
    if (!err && !residual)
        err = fast__fail(FAST_EFORMAT, "the codec has no residual");
    for (int64_t i = 0; !err && i < t->count; i++)
        if (!(fabs(in[i] - out[i] - (double)residual[i]) < 1e-4))
            err = fast__fail(FAST_EFORMAT,
                             "element %lld: %g went in, %g came out and the residual is %g",
                             (long long)i, in[i], out[i], (double)residual[i]);
    free(bytes);
    free(y);
    free(in);
    return err ? err : fast_trainer_end(t);
}

static void decoded_sum_and_residual_are_the_input(void **state)
{
    static const fast_strategy strategy = { .name = "echo_gradients",
                                            .summary = "gradients that come back",
                                            .uses_codec = true,
                                            .sends = "gradients",
                                            .worker = echo_gradients };
    static const char *const codecs[] = { "codec=onebit",        "codec=sign",
                                          "codec=topk",          "codec=threshold:tau=0.001",
                                          "codec=powersgd",      "codec=randk:ratio=0.1",
                                          "codec=adaptive+zstd", "codec=structured" };

    (void)state;
    for (size_t i = 0; i < COUNT(codecs); i += STRIDE) {
        const char *const options[] = {
            "engine=ref",    "model=mlp:hidden=12", "batch=4",   "data=digits:train=320,test=48",
            "workers=2",     "optimizer=sgd",       "steps=100", codecs[i],
            "transport=sim", "evaluate=end",        NULL
        };
        fast_run *run = NULL;

        if (fast_run_open_strategy(options, &strategy, &run) || fast_run_train(run))
            fail_msg("%s: %s", codecs[i], fast_error_detail());
        fast_run_close(run);
    }
}

static void nonsense_is_refused(void **state)
{
    (void)state;
    refuse("take sign", LIST("strategy=quorum", "codec=vote", "workers=2"));
    refuse("take sign", LIST("strategy=quorum", "codec=topk", "codec_down=vote", "workers=2"));
    refuse("take sign", LIST("strategy=elastic", "codec=vote", "workers=2"));
    refuse("for gradients", LIST("strategy=elastic", "codec=dgc", "workers=2"));
    refuse("take topk",
           LIST("strategy=elastic", "codec=topk", "codec_down=dgc:momentum=0", "workers=2"));
    refuse("may get lost", LIST("strategy=dogwild", "codec=topk", "codec_down=topk", "workers=2"));
    refuse("leave out feedback", LIST("strategy=mpca", "codec=topk", "feedback=no", "workers=2"));
    refuse("share one model", LIST("strategy=hogwild", "codec=topk", "workers=2"));
    refuse("share one model", LIST("strategy=hogwild", "codec_down=fp16", "workers=2"));
    refuse("sends nothing", LIST("strategy=ensemble", "codec=topk", "workers=2"));
    refuse("sends nothing", LIST("strategy=ensemble", "codec_down=fp16", "workers=2"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_loses_nothing_changes_nothing),
        cmocka_unit_test(every_codec_runs),
        cmocka_unit_test(late_gradients_are_coded),
        cmocka_unit_test(decoded_sum_and_residual_are_the_input),
        cmocka_unit_test(nonsense_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
