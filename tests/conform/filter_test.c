/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Filters of users. Goal: a selection of one's own is as good as one of FAST: the same formula
 * gives the same bits, what waits is sent in the end, and a bound of staleness holds; a packing of
 * one's own changes no bit; both get their options, and wrong filters are refused. Method: small
 * runs in the simulator, compared by their hashes; chains alone.
 */
#include "codec/chain.h"
#include "fast/run.h"
#include "fast/space.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

typedef struct limit_config {
    double threshold; /* fraction of the weight at step 1 */
} limit_config;

static const fast_option limit_options[] = {
    FAST_OPT_REAL(limit_config, threshold, "1", 0, 1e30, "smallest change that is sent"),
    FAST_OPT_END,
};

/* The formula of the codec `significance`. */
static void limit(const void *config, const fast_filter_update *u, float *send, float *wait)
{
    const double threshold = ((const limit_config *)config)->threshold;
    const float bound = (float)(threshold / sqrt((double)u->step));

    for (int64_t i = 0; u->w && i < u->count; i++)
        if (u->rate * fabsf(send[i]) < bound * fabsf(u->w[i])) {
            wait[i] = send[i];
            send[i] = 0;
        }
}
static const fast_filter limit_filter = {
    .name = "limit", .options = limit_options, .config_size = sizeof(limit_config), .select = limit
};

/* Every element waits. */
static void hold(const void *config, const fast_filter_update *u, float *send, float *wait)
{
    (void)config;
    for (int64_t i = 0; i < u->count; i++) {
        wait[i] = send[i];
        send[i] = 0;
    }
}
static const fast_filter hold_filter = { .name = "hold", .select = hold };

/* A packing: runs of zero bytes, each as a 0 and its length; other bytes as they are. */
static size_t zeros_bound(const void *config, size_t size)
{
    (void)config;
    return 2 * size;
}
static _Atomic int64_t packed_bytes;
static size_t zeros_pack(const void *config, const uint8_t *in, size_t size, uint8_t *out)
{
    uint8_t *at = out;

    (void)config;
    for (size_t i = 0; i < size;) {
        *at++ = in[i];
        if (in[i++] != 0)
            continue;
        uint8_t run = 1;
        for (; run < 255 && i < size && in[i] == 0; i++)
            run++;
        *at++ = run;
    }
    atomic_fetch_add(&packed_bytes, at - out);
    return (size_t)(at - out);
}
static fast_err zeros_unpack(const void *config, const uint8_t *in, size_t size, uint8_t *out,
                             size_t room, size_t *size_out)
{
    size_t used = 0;

    (void)config;
    for (size_t i = 0; i < size; i++) {
        const uint8_t byte = in[i];
        const size_t run = byte != 0 ? 1 : ++i < size ? in[i] : 0;
        if (run == 0 || run > room - used)
            return FAST_EFORMAT;
        memset(out + used, byte, run);
        used += run;
    }
    *size_out = used;
    return FAST_OK;
}
static const fast_filter zeros_filter = {
    .name = "zeros", .bound = zeros_bound, .pack = zeros_pack, .unpack = zeros_unpack
};

/* Train with a filter, or NULL, and return the result. */
static fast_result train(const fast_filter *filter, const char *strategy, const char *codec)
{
    char strategy_text[128], codec_text[128];
    const char *const options[] = { "model=mlp:hidden=12",
                                    "data=digits:train=160,test=32",
                                    "engine=ref",
                                    "plan=no",
                                    "transport=sim",
                                    "timeout=60",
                                    "batch=4",
                                    "steps=24",
                                    "evaluate=end",
                                    "optimizer=sgd",
                                    "lr=0.05",
                                    "workers=3",
                                    strategy_text,
                                    codec_text,
                                    NULL };
    fast_run *run = NULL;

    snprintf(strategy_text, sizeof strategy_text, "strategy=%s", strategy);
    snprintf(codec_text, sizeof codec_text, "codec=%s", codec);
    if ((filter ? fast_run_open_filter(options, filter, &run) : fast_run_open(options, &run)) ||
        fast_run_train(run))
        fail_msg("%s %s: %s", strategy, codec, fast_error_detail());
    const fast_result result = *fast_run_result(run);
    fast_run_close(run);
    return result;
}

/* Compare a run with a filter and one without. */
static void same(const fast_filter *filter, const char *strategy, const char *codec,
                 const char *other_strategy, const char *other)
{
    const uint64_t a = train(filter, strategy, codec).params_hash;

    if (a != train(NULL, other_strategy, other).params_hash)
        fail_msg("%s %s and %s %s differ", strategy, codec, other_strategy, other);
}

static void a_selection_is_as_good_as_ours(void **state)
{
    (void)state;
    same(&limit_filter, "ps:slack=0", "limit:threshold=0.3", "ps:slack=0",
         "significance:threshold=0.3");
    same(&limit_filter, "ps", "limit:threshold=0.3", "ps", "significance:threshold=0.3");
    same(&limit_filter, "ps:slack=0,cache=yes", "limit:threshold=0.3+skip:probability=0",
         "ps:slack=0", "significance:threshold=0.3");
    same(&limit_filter, "allreduce", "limit:threshold=0.3", "allreduce",
         "significance:threshold=0.3");
    same(&limit_filter, "ps:slack=0", "limit:threshold=0", "ps:slack=0", "none");
    const fast_result all = train(&limit_filter, "ps", "limit:threshold=0"),
                      few = train(&limit_filter, "ps", "limit"); /* the default, 1 */
    assert_true(few.bytes_sent < all.bytes_sent && few.codec_bytes_out < few.codec_bytes_in);
}

static void elements_that_wait_are_sent_in_the_end(void **state)
{
    const fast_result bound = train(&hold_filter, "ps:slack=3,servers=2", "hold");

    (void)state;
    same(&hold_filter, "ps:slack=0", "hold", "ps:slack=0", "significance:threshold=1e6");
    assert_true(bound.staleness_max <= 2 * (2 * 3 + 1)); /* of P = 3 workers, with a slack of 3 */
    assert_true(bound.bytes_sent < train(NULL, "ps:slack=3,servers=2", "none").bytes_sent);
}

static void a_packing_changes_no_bit(void **state)
{
    (void)state;
    packed_bytes = 0;
    same(&zeros_filter, "ps:slack=0", "zeros", "ps:slack=0", "none");
    assert_true(packed_bytes > 0);
    same(&zeros_filter, "ps:slack=0", "topk:ratio=0.1+zeros", "ps:slack=0", "topk:ratio=0.1");
    same(&zeros_filter, "allreduce", "int8+zeros", "allreduce", "int8");
}

/* Expect a filter, or a text that names it, to be refused with these words. */
static void refuse(const fast_filter *filter, const char *text, const char *words)
{
    fast_chain *chain = NULL;

    assert_int_equal(fast__chain_open_with(text, filter, &chain), FAST_EINVAL);
    assert_null(chain);
    if (!strstr(fast_error_detail(), words))
        fail_msg("%s: %s", text, fast_error_detail());
}

static void wrong_filters_are_refused(void **state)
{
    fast_filter filter = limit_filter;

    (void)state;
    refuse(&limit_filter, "limit:treshold=1", "treshold");
    refuse(&limit_filter, "limit:threshold=-1", "threshold");
    refuse(&limit_filter, "topk+limit", "before");
    refuse(&limit_filter, "limt", "limt");
    refuse(&hold_filter, "hold:a=1", "no options");
    refuse(&zeros_filter, "zeros+topk", "before");
    filter.name = "topk";
    refuse(&filter, "none", "there is a codec of this name");
    filter.name = "a+b";
    refuse(&filter, "none", "name");
    filter.name = NULL;
    refuse(&filter, "none", "name");
    filter = limit_filter;
    filter.pack = zeros_pack;
    refuse(&filter, "limit", "either");
    filter = zeros_filter;
    filter.unpack = NULL;
    refuse(&filter, "zeros", "either");
    filter.size = 8;
    refuse(&filter, "zeros", "fast_filter");
}

/* Bytes that are no encoding are an error of the chain, whatever the filter makes of them. */
static void hostile_bytes_are_refused(void **state)
{
    const fast_segment segment = { .count = 8, .shape = { 8 }, .rank = 1 };
    const fast_layout layout = { &segment, 1, 8 };
    static const uint8_t hostile[][4] = { { 1, 0, 0, 0 }, { 1, 0, 255, 0 }, { 1, 9, 9, 9 } };
    fast_chain *chain = NULL;
    fast_coder *coder = NULL;
    float y[8];

    (void)state;
    assert_int_equal(fast__chain_open_with("zeros", &zeros_filter, &chain), FAST_OK);
    assert_int_equal(
        fast__coder_new(
            &(fast_coder_options){ .chain = chain, .layout = &layout, .count = 8, .workers = 1 },
            &coder),
        FAST_OK);
    for (size_t i = 0; i < sizeof hostile / sizeof hostile[0]; i++)
        assert_int_equal(
            fast__coder_decode(coder, hostile[i], sizeof hostile[i], FAST_DECODE_SET, 1, y),
            FAST_EFORMAT);
    fast__coder_free(coder);
    fast__chain_close(chain);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_selection_is_as_good_as_ours),
        cmocka_unit_test(elements_that_wait_are_sent_in_the_end),
        cmocka_unit_test(a_packing_changes_no_bit),
        cmocka_unit_test(wrong_filters_are_refused),
        cmocka_unit_test(hostile_bytes_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
