/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Goal: the error of a wait that timed out names who is at the end of the chain of waits, in one
 * line that reads well. Method: small programs whose chain is known, on `sim` with faults, and on
 * `threads` for what needs no faults; texts and culprits are compared.
 */
#include "transport/transport.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

enum { TAG = 7, ACTORS_MAX = 300 };

/* A test: the programs of its actors, and how they ended. */
typedef struct story {
    int64_t waits_for[ACTORS_MAX]; /* whom; own number: computes; FAST_ANY; -2: ends at once */
    int64_t later_ns[ACTORS_MAX];  /* sleeps so long before its wait */
    char detail[ACTORS_MAX][FAST_DETAIL_MAX];
    int64_t culprit[ACTORS_MAX]; /* as the actor found it */
    fast_err err[ACTORS_MAX];    /* of its wait */
    int64_t waited[ACTORS_MAX];  /* nanoseconds */
} story;

static fast_err play(fast_actor *actor, void *ctx)
{
    story *s = ctx;
    const int64_t me = fast_actor_id(actor);
    const int64_t whom = s->waits_for[me];
    fast_msg *msg = NULL;
    FAST_TRY(fast_sleep_until(actor, s->later_ns[me]));
    const int64_t begin = fast_now(actor);
    fast_actor_at(actor, 12, "weights");
    if (whom == -2)
        return FAST_OK;
    if (whom == me)
        return fast_sleep_until(actor, begin + INT64_C(3000000000));
    s->err[me] = fast_receive(actor, whom, TAG, FAST_SOON, &msg);
    fast_msg_free(msg);
    s->waited[me] = fast_now(actor) - begin;
    s->culprit[me] = actor->culprit;
    snprintf(s->detail[me], FAST_DETAIL_MAX, "%s", fast_error_detail());
    return s->err[me];
}

static void tell_story(story *s, int64_t count, const char *transport, const char *faults)
{
    char transport_option[64], faults_option[256];
    snprintf(transport_option, sizeof transport_option, "transport=%s", transport);
    snprintf(faults_option, sizeof faults_option, "faults=%s", faults);
    const char *options[] = { transport_option, faults_option, "timeout=1", "check=yes", NULL };
    const fast_role role = { "worker", count, play, s };
    const fast_err err = fast_actors_run(options, &role, 1, NULL);
    if (err != FAST_ETIMEDOUT && err != FAST_EPEER)
        fail_msg("%s: %s", fast_err_name(err), fast_error_detail());
}

static void expect_detail(const story *s, int64_t i, const char *detail, int64_t culprit)
{
    assert_string_equal(s->detail[i], detail);
    assert_int_equal(s->culprit[i], culprit);
    assert_true(s->waited[i] <= INT64_C(1000000000));
}

static void test_computes(void **state)
{
    (void)state;
    static story s = { .waits_for = { 1, 2, 2 } };
    tell_story(&s, 3, "sim", "");
    expect_detail(&s, 0,
                  "worker 0 waited 1 s for worker 1 (step 12, weights), which waits for worker 2, "
                  "which does not answer",
                  2);
    expect_detail(&s, 1,
                  "worker 1 waited 1 s for worker 2 (step 12, weights), which does not answer", 2);
}

/* A wait that ends because another actor has given up says whom it was for, and for what. */
static void test_told(void **state)
{
    (void)state;
    static story s = { .waits_for = { 1, 2, 2 }, .later_ns = { 0, 400000000, 0 } };
    tell_story(&s, 3, "sim", "");
    expect_detail(
        &s, 1, "worker 1 waited 0.6 s for worker 2 (step 12, weights), which does not answer", 2);
    assert_int_equal(s.err[1], FAST_EPEER);
}

static void test_threads(void **state)
{
    (void)state;
    static story s = { .waits_for = { 1, 2, 2 } };
    tell_story(&s, 3, "threads", "");
    /* Who is first to give up tells the other, which then names the same. */
    assert_int_equal(s.culprit[0], 2);
    assert_int_equal(s.culprit[1], 2);
    for (int64_t i = 0; i < 2; i++)
        assert_non_null(strstr(s.detail[i], "worker 2"));
    assert_non_null(strstr(s.detail[1], " s for worker 2 (step 12, weights), which does not"));
}

static void test_circle(void **state)
{
    (void)state;
    static story s = { .waits_for = { 1, 2, 3, 1 } };
    tell_story(&s, 4, "sim", "");
    expect_detail(&s, 2,
                  "worker 2 waited 1 s for worker 3 (step 12, weights), which waits for worker 1, "
                  "which waits for worker 2: they wait for each other, or a message between them "
                  "is lost",
                  3);
    assert_non_null(strstr(s.detail[0], "they wait for each other"));
}

static void test_pause(void **state)
{
    (void)state;
    static story s = { .waits_for = { 1, 2, 3, 3 } };
    tell_story(&s, 4, "sim", "pause 2 at 100ms for 2s");
    assert_int_equal(s.culprit[0], 2);
    assert_int_equal(s.culprit[1], 2);
}

/* The last of a chain of 300 sleeps: the text leaves the middle out. */
static void test_long(void **state)
{
    (void)state;
    static story s;
    const int64_t count = 200;
    for (int64_t i = 0; i < count; i++)
        s.waits_for[i] = i + 1 < count ? i + 1 : i;
    tell_story(&s, count, "sim", "");
    for (int64_t i = 0; i + 1 < count; i++)
        assert_int_equal(s.culprit[i], count - 1);
    assert_string_equal(s.detail[0],
                        "worker 0 waited 1 s for worker 1 (step 12, weights), which waits for "
                        "worker 2, which waits for worker 3, which waits for worker 4, and so on "
                        "over 191 more, which waits for worker 196, which waits for worker 197, "
                        "which waits for worker 198, which waits for worker 199, which does not "
                        "answer");
}

static void test_anyone(void **state)
{
    (void)state;
    static story s = { .waits_for = { FAST_ANY, 0, 0, 3, 0 } };
    tell_story(&s, 5, "sim", "");
    expect_detail(&s, 0,
                  "worker 0 waited 1 s for anyone (step 12, weights), most likely for worker 3, "
                  "which does not answer",
                  3);
    expect_detail(&s, 1,
                  "worker 1 waited 1 s for worker 0 (step 12, weights), which waits for worker 3, "
                  "which does not answer",
                  3);
}

static void test_clock(void **state)
{
    (void)state;
    static story s = { .waits_for = { 1, 1 } };
    tell_story(&s, 2, "sim", "jump 0 at 200ms by 5s");
    /* The jump is no time that it waited: it waits for a whole timeout after it. */
    assert_int_equal(s.culprit[0], 1);
    assert_string_equal(s.detail[0], "worker 0 waited 6.2 s for worker 1 (step 12, weights), "
                                     "which does not answer");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_computes), cmocka_unit_test(test_threads),
        cmocka_unit_test(test_circle),   cmocka_unit_test(test_pause),
        cmocka_unit_test(test_long),     cmocka_unit_test(test_anyone),
        cmocka_unit_test(test_clock),    cmocka_unit_test(test_told),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
