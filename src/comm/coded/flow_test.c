/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Flows. Goal: of changes, the decoded values and the residual add up to the inputs, for any
 * receiver with a flow of the same range; of values, both ends hold the same bits after each
 * message, and approach x; exact codecs are exact; a missing message is noticed, and all values are
 * sent again on request; hostile bytes are refused; figures count.
 * Method: one actor plays both ends, for all codecs.
 */
#include "comm/flow.h"

#include "base/memory.h"
#include "base/rng.h"
#include "tensor/vector.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { COUNT = 700, STEPS = 60 };

static const fast_segment segments[] = {
    { .name = "a", .count = 600, .shape = { 20, 30 }, .rank = 2 },
    { .name = "b", .offset = 600, .count = 100, .shape = { 100 }, .rank = 1 },
};
static const fast_layout layout = { segments, 2, COUNT };
static uint8_t room[65536]; /* of a message */

/* A test: the work of its actor. */
typedef struct job {
    const char *codec; /* of all flows */
    fast_err (*run)(fast_actor *actor, const struct job *job, const fast_coded_options *o,
                    fast_flows *ends);
} job;

/* FAST_OK if it holds; else where it does not: actors tell by their error. */
static fast_err need(bool holds, int line, const char *codec)
{
    return holds ? FAST_OK : fast__fail(FAST_EFORMAT, "line %d does not hold with %s", line, codec);
}
#define NEED(what) FAST_TRY(need(what, __LINE__, j->codec))

static void draw(int step, float *x)
{
    fast_rng rng;

    fast__rng_init(&rng, 7, FAST_PURPOSE_CODEC, (uint64_t)step, 0, 0);
    for (int i = 0; i < COUNT; i++)
        x[i] = fast__rng_normal(&rng);
}

static fast_err program(fast_actor *actor, void *ctx)
{
    const job *j = ctx;
    fast_chain *chain = NULL, *none = NULL;
    fast_flows ends[2] = { 0 }; /* the sender's and the receiver's */
    fast_coded_figures figures = { 0 };
    fast_err err = fast__chain_open(j->codec, &chain);

    if (!err)
        err = fast__chain_open("none", &none);
    if (!err) {
        const fast_coded_options o = { .up = chain,
                                       .down = none,
                                       .layout = &layout,
                                       .size = 2,
                                       .rank = 1,
                                       .seed = 3,
                                       .figures = &figures };

        err = j->run(actor, j, &o, ends);
    }
    fast__flows_drop(&ends[0]);
    fast__flows_drop(&ends[1]);
    fast__chain_close(chain);
    fast__chain_close(none);
    return err;
}

static void run(const job *j)
{
    const char *const options[] = { "transport=sim", NULL };
    const fast_role role = { "worker", 1, program, (void *)(uintptr_t)j };

    if (fast_actors_run(options, &role, 1, NULL))
        fail_msg("%s: %s", j->codec, fast_error_detail());
}

/* Traits of a codec with its standard options. */
static unsigned traits_of(const char *spec)
{
    fast_chain *chain = NULL;

    assert_int_equal(fast__chain_open(spec, &chain), FAST_OK);
    const unsigned traits = fast__chain_traits(chain);
    fast__chain_close(chain);
    return traits;
}

/* A range of the vector goes to one who has opened the same range. */
static fast_err send_changes(fast_actor *actor, const job *j, const fast_coded_options *o,
                             fast_flows *ends)
{
    const fast_flow_options out = { .number = 5, .offset = 30, .count = 600 };
    fast_flow_options in = out;
    static float x[COUNT], sent[600], sum[600];
    fast_flow *flow = NULL, *same = NULL, *other = NULL;
    size_t size = 0;

    in.decodes = true;
    memset(sent, 0, sizeof sent);
    memset(sum, 0, sizeof sum);
    FAST_TRY(fast__flows_get(&ends[0], o, &out, &flow));
    FAST_TRY(fast__flows_get(&ends[0], o, &out, &same));
    FAST_TRY(fast__flows_get(&ends[1], o, &in, &other));
    NEED(same == flow && other != flow);
    NEED(fast_flow_bound(flow) < sizeof room);
    for (int step = 0; step < STEPS; step++) {
        draw(step, x);
        FAST_TRY(fast__flow_encode(flow, actor, step, step, x + 30, room, &size));
        FAST_TRY(fast__flow_decode(other, actor, room, size, 2, sum));
        fast__vector_add(600, x + 30, sent);
        NEED(size < 2 || fast__flow_decode(other, actor, room, size - 1, 1, x) == FAST_EFORMAT);
    }
    NEED(fast__counted(&o->figures->bytes_in) == STEPS * 600 * 4);
    NEED(fast__counted(&o->figures->bytes_dec) >= STEPS * 600 * 4);
    NEED(fast__counted(&o->figures->encode_ns) > 0 && fast__counted(&o->figures->decode_ns) > 0);
    double off = 0, norm = 0;
    for (int i = 0; i < 600; i++) {
        off += pow((double)sum[i] / 2 - (double)sent[i], 2);
        norm += pow((double)sent[i], 2);
    }
    NEED(isfinite(off) && off < 2 * norm); /* the residual is bounded by the sum */
    return FAST_OK;
}

static void changes_are_delivered(void **state)
{
    (void)state;
    for (int i = 0; fast__codecs[i]; i++) {
        const unsigned traits = traits_of(fast__codecs[i]->name);

        if (traits & (FAST_CODEC_VOTES | FAST_CODEC_MOMENTUM))
            continue;
        run(&(job){ fast__codecs[i]->name, send_changes });
    }
    run(&(job){ "none+lz4", send_changes });
}

/* Both ends play; x stands still from half of the steps on. */
static fast_err send_values(fast_actor *actor, const job *j, const fast_coded_options *o,
                            fast_flows *ends)
{
    const fast_flow_options out = { .values = true };
    const fast_flow_options in = { .values = true, .decodes = true };
    const bool exact = (fast__chain_traits(o->up) & FAST_CODEC_LOSSLESS) != 0;
    static float x[COUNT];
    fast_flow *flow = NULL, *other = NULL;
    const float *held = NULL;
    double first = 0, last = 0;
    size_t size = 0;

    FAST_TRY(fast__flows_get(&ends[0], o, &out, &flow));
    FAST_TRY(fast__flows_get(&ends[1], o, &in, &other));
    NEED(fast_flow_bound(flow) < sizeof room);
    for (int step = 0; step < STEPS; step++) {
        draw(step < 3 ? step : 3, x);
        FAST_TRY(fast__flow_encode(flow, actor, step, step, x, room, &size));
        FAST_TRY(fast__flow_follow(other, actor, room, size, &held));
        const float *own = exact ? x : fast_flow_receiver_copy(flow);
        NEED(memcmp(own, held, sizeof x) == 0);
        NEED(fast_flow_sent_fraction(flow) >= 0 && fast_flow_sent_fraction(flow) <= 1.000001);
        NEED(step > 0 || memcmp(held, x, sizeof x) == 0); /* the first has everything */
        last = 0;
        for (int i = 0; i < COUNT; i++)
            last += pow((double)held[i] - (double)x[i], 2);
        first = step == 3 ? last : first;
    }
    NEED(last <= first && (exact ? last == 0 : true));
    if (exact)
        return FAST_OK;
    /* One is lost: it is noticed, until everything comes. */
    FAST_TRY(fast__flow_encode(flow, actor, STEPS, 1, x, room, &size));
    FAST_TRY(fast__flow_encode(flow, actor, STEPS, 1, x, room, &size));
    NEED(fast__flow_follow(other, actor, room, size, &held) == FAST_EFORMAT);
    fast_flow_reset(flow);
    FAST_TRY(fast__flow_encode(flow, actor, STEPS, 1, x, room, &size));
    FAST_TRY(fast__flow_follow(other, actor, room, size, &held));
    NEED(memcmp(held, x, sizeof x) == 0);
    return FAST_OK;
}

static void values_are_followed(void **state)
{
    (void)state;
    for (int i = 0; fast__codecs[i]; i++)
        if (!(traits_of(fast__codecs[i]->name) & (FAST_CODEC_VOTES | FAST_CODEC_ACCUMULATES)))
            run(&(job){ fast__codecs[i]->name, send_values });
    run(&(job){ "none+lz4", send_values });
    run(&(job){ "topk:ratio=0.1+zstd", send_values });
}

/* Raw values: each message alone. */
static fast_err send_raw(fast_actor *actor, const job *j, const fast_coded_options *o,
                         fast_flows *ends)
{
    const fast_flow_options out = { .raw = true, .offset = 100, .count = 50 };
    const fast_flow_options in = { .raw = true, .offset = 100, .count = 50, .decodes = true };
    static float x[COUNT];
    fast_flow *flow = NULL, *other = NULL;
    const float *held = NULL;
    size_t size = 0;

    FAST_TRY(fast__flows_get(&ends[0], o, &out, &flow));
    FAST_TRY(fast__flows_get(&ends[1], o, &in, &other));
    for (int step = 0; step < STEPS; step++) {
        draw(step, x);
        FAST_TRY(fast__flow_encode(flow, actor, step, step, x + 100, room, &size));
        if (step % 3 == 1) /* lost */
            continue;
        FAST_TRY(fast__flow_follow(other, actor, room, size, &held));
        for (int i = 0; i < 50; i++)
            NEED(fabs((double)held[i] - (double)x[100 + i]) < 0.03);
    }
    return FAST_OK;
}

static void raw_values_stand_alone(void **state)
{
    (void)state;
    run(&(job){ "fp16", send_raw });
    run(&(job){ "int8", send_raw });
    run(&(job){ "none+zstd", send_raw });
}

static fast_err open_all(fast_actor *actor, const job *j, const fast_coded_options *o,
                         fast_flows *ends)
{
    fast_flow_options options = { .values = true };
    fast_flow *flow = NULL;

    (void)actor;
    (void)j;
    FAST_TRY(fast__flows_get(&ends[0], o, &options, &flow));
    options.number = 1;
    options.decodes = true;
    FAST_TRY(fast__flows_get(&ends[0], o, &options, &flow));
    options.values = false;
    return fast__flows_get(&ends[0], o, &options, &flow);
}

static fast_err run_out(fast_actor *actor, const job *j, const fast_coded_options *o,
                        fast_flows *ends)
{
    fast_err err = FAST_ENOMEM;

    for (int64_t n = 0; n < 100 && err; n++) {
        fast__alloc_fail_after(n, true);
        err = open_all(actor, j, o, ends);
        fast__alloc_fail_after(-1, true);
        NEED(!err || err == FAST_ENOMEM);
        fast__flows_drop(&ends[0]);
    }
    return err;
}

static void memory_may_run_out(void **state)
{
    (void)state;
    run(&(job){ "topk+zstd", run_out });
    run(&(job){ "none+lz4", run_out });
}

static void nonsense_is_refused(void **state)
{
    static const struct {
        const char *codec;
        bool values, raw;
        const char *reason;
    } cases[] = { { "vote", false, false, "sign" },
                  { "vote", true, false, "sign" },
                  { "dgc:momentum=0", true, false, "topk" },
                  { "topk", false, true, "as they are" } };

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        fast_chain *chain = NULL;

        assert_int_equal(fast__chain_open(cases[i].codec, &chain), FAST_OK);
        assert_int_equal(fast__flow_check(chain, cases[i].values, cases[i].raw), FAST_EINVAL);
        assert_non_null(strstr(fast_error_detail(), cases[i].reason));
        fast__chain_close(chain);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(changes_are_delivered),  cmocka_unit_test(values_are_followed),
        cmocka_unit_test(raw_values_stand_alone), cmocka_unit_test(memory_may_run_out),
        cmocka_unit_test(nonsense_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
