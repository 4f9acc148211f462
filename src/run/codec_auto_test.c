/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Goal: codec=auto takes a chain that pays where links are slow, none where they are not, says why,
 * and changes nothing else. Method: short runs in sim on clusters with slow and fast links, beside
 * the same runs with the codec given by name, which must end with the same bits; every candidate's
 * own step time bounds that of the choice; limit cases are refused or need no rehearsal.
 */
#include "base/memory.h"
#include "fast/run.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

/* Sanitizers look at one of each. */
#ifdef FAST_SANITIZED
enum { EXTRA = 12, BRIEF = 1 };
#else
enum { EXTRA = 12, BRIEF = 0 };
#endif

/* Result of a run with given options. */
typedef struct outcome {
    char codec[128], down[128], note[512];
    double step_s;
    uint64_t hash;
} outcome;

static fast_run *open_like(const char *const *extra)
{
    const char *options[EXTRA + 12] = { "data=digits:train=600,test=60",
                                        "model=mlp:hidden=64",
                                        "workers=4",
                                        "transport=sim",
                                        "batch=8",
                                        "lr=0.05",
                                        "steps=8",
                                        "evaluate=no",
                                        "engine=ref" };
    int count = 9;
    fast_run *run = NULL;

    for (; extra && *extra; extra++)
        options[count++] = *extra;
    if (fast_run_open(options, &run))
        return NULL;
    return run;
}

static outcome train(const char *const *extra)
{
    outcome o = { .note = "" };
    fast_run *run = open_like(extra);

    if (!run)
        fail_msg("%s", fast_error_detail());
    assert_int_equal(fast_run_train(run), FAST_OK);
    const fast_result *r = fast_run_result(run);
    snprintf(o.codec, sizeof o.codec, "%s", fast_run_option(run, "codec"));
    snprintf(o.down, sizeof o.down, "%s", fast_run_option(run, "codec_down"));
    snprintf(o.note, sizeof o.note, "%s", r->codec_note ? r->codec_note : "");
    o.step_s = r->step_s;
    o.hash = r->params_hash;
    fast_run_close(run);
    return o;
}

#define TRAIN(...) train((const char *const[]){ __VA_ARGS__, NULL })

/* The chosen chain, given by name, is the same run. */
static void a_slow_link_gets_a_codec(void **state)
{
    static const char *const strategies[] = { "strategy=allreduce", "strategy=ps:slack=0",
                                              "strategy=local:period=3" };
    (void)state;
    for (size_t i = 0; i < (BRIEF ? 1 : sizeof strategies / sizeof strategies[0]); i++) {
        const outcome a = TRAIN("cluster=wan", strategies[i], "codec=auto", "codec_down=auto");
        const outcome again = TRAIN("cluster=wan", strategies[i], "codec=auto", "codec_down=auto");
        char codec[160], down[160];

        assert_string_not_equal(a.codec, "none");
        assert_non_null(strstr(a.note, a.codec));
        assert_non_null(strstr(a.note, "it pays"));
        assert_string_equal(a.note, again.note);
        assert_int_equal(a.hash, again.hash);
        snprintf(codec, sizeof codec, "codec=%s", a.codec);
        snprintf(down, sizeof down, "codec_down=%s", a.down);
        const outcome named = TRAIN("cluster=wan", strategies[i], codec, down);
        assert_int_equal(a.hash, named.hash);
        assert_true(a.step_s == named.step_s);
        assert_string_equal(named.note, "");
    }
}

/* No candidate by itself is much faster than what was chosen. */
static void the_choice_is_nearly_the_best(void **state)
{
    static const char *const names[] = { "codec=none",     "codec=bf16",
                                         "codec=int8",     "codec=qsgd:code=elias",
                                         "codec=terngrad", "codec=topk" };
    static const char *const clusters[] = { "cluster=edge", "cluster=ethernet-1g" };

    (void)state;
    for (size_t k = 0; k < (BRIEF ? 1 : sizeof clusters / sizeof clusters[0]); k++) {
        const outcome a = TRAIN(clusters[k], "codec=auto");

        for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
            assert_true(a.step_s <= 1.1 * TRAIN(clusters[k], names[i]).step_s);
    }
}

static void a_fast_link_gets_none(void **state)
{
    (void)state;
    const outcome a = TRAIN("cluster=infiniband", "codec=auto", "codec_down=auto");
    const outcome plain = TRAIN("cluster=infiniband");

    assert_string_equal(a.codec, "none");
    assert_string_equal(a.down, "none");
    assert_non_null(strstr(a.note, "no codec pays"));
    assert_int_equal(a.hash, plain.hash);
    assert_true(a.step_s == plain.step_s);
}

/* Runs that need no rehearsal, and runs that have another codec already. */
static void limits(void **state)
{
    (void)state;
    assert_non_null(strstr(TRAIN("transport=threads", "codec=auto").note, "share memory"));
    assert_non_null(strstr(TRAIN("workers=1", "codec=auto").note, "sends nothing"));
    const outcome a = TRAIN("cluster=wan", "codec=int8", "codec_down=auto");
    assert_string_equal(a.codec, "int8");
    assert_string_not_equal(a.down, "none");
    /* A strategy that encodes nothing: auto finds that none goes with it. */
    assert_string_equal(TRAIN("strategy=ensemble", "codec=auto").codec, "none");
    assert_null(open_like(
        (const char *const[]){ "transport=threads", "codec=auto", "record=x.rec", NULL }));
    assert_non_null(strstr(fast_error_detail(), "a recording is of one codec"));
    /* Other wrong options are refused as without codec=auto. */
    assert_null(open_like((const char *const[]){ "codec=auto", "strategy=nosuch", NULL }));
    assert_non_null(strstr(fast_error_detail(), "nosuch"));
}

#ifndef FAST_SANITIZED
/* Out of memory in any rehearsal: an error, and nothing is lost. */
static void memory_may_end(void **state)
{
    (void)state;
    for (int64_t n = 1; n < 4000; n += 397) {
        fast__alloc_fail_after(n, true);
        fast_run *run = open_like((const char *const[]){ "cluster=wan", "codec=auto", NULL });
        fast__alloc_fail_after(-1, true);
        fast_run_close(run);
    }
}
#endif

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_slow_link_gets_a_codec), cmocka_unit_test(the_choice_is_nearly_the_best),
        cmocka_unit_test(a_fast_link_gets_none),    cmocka_unit_test(limits),
#ifndef FAST_SANITIZED
        cmocka_unit_test(memory_may_end),
#endif
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
