/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Goal: each kind of fault does what its words say, at its time, and overlapping ones add up; the
 * failure detector tells what it should. Method: small programs that look at the clock, at what
 * arrives and at membership, on a cluster with round numbers: latency 1 ms, detection 100 ms, no
 * cost of bytes. Opening a world with faults survives every allocation that fails.
 */
#include "base/memory.h"
#include "transport/transport.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#define MS INT64_C(1000000)
enum { TAG = 5, NOTES_MAX = 64, ACTORS = 4 };

/* Events that actor 0 saw, with their times. */
typedef struct notes {
    char text[NOTES_MAX][64];
    int count;
} notes;

static notes seen;

static void note(const char *what, int64_t id, int64_t time)
{
    assert_true(seen.count < NOTES_MAX);
    snprintf(seen.text[seen.count++], sizeof seen.text[0], "%s %lld at %lld", what, (long long)id,
             (long long)(time / MS));
}

static void expect_notes(const char *const *expected)
{
    int i = 0;
    for (; expected[i]; i++) {
        assert_true(i < seen.count);
        assert_string_equal(seen.text[i], expected[i]);
    }
    assert_int_equal(i, seen.count);
}

static void run_with(fast_actor_fn *main, const char *faults)
{
    char option[256];
    snprintf(option, sizeof option, "faults=%s", faults);
    const char *options[] = { "transport=sim", "cluster=ideal:latency=1ms,detection=100ms",
                              "timeout=100", option, NULL };
    const fast_role role = { "worker", ACTORS, main, NULL };
    seen.count = 0;
    const fast_err err = fast_actors_run(options, &role, 1, NULL);
    if (err && err != FAST_ECANCELED)
        fail_msg("%s", fast_error_detail());
}

/* Actor 0 watches the others for a second; they sleep. */
static fast_err watch(fast_actor *actor, void *ctx)
{
    (void)ctx;
    fast_member member;
    for (int64_t time = 0; time <= 1000 * MS; time += MS) {
        FAST_TRY(fast_sleep_until(actor, time));
        while (fast_actor_id(actor) == 0 && fast_member_next(actor, &member))
            if (!member.ended)
                note(member.down ? "down" : "up", member.id, member.time);
    }
    return fast_actor_id(actor) == 0 ? FAST_OK : fast_sleep_until(actor, 1100 * MS);
}

static void test_members(void **state)
{
    (void)state;
    run_with(watch, "crash 3 at 200ms");
    expect_notes((const char *[]){ "down 3 at 300", NULL });
    run_with(watch, "crash 3 at 200ms; restart 3 at 500ms");
    expect_notes((const char *[]){ "down 3 at 300", "up 3 at 501", NULL });
    /* A restart before the detector noticed: both are told, one after the other. */
    run_with(watch, "crash 3 at 200ms; restart 3 at 250ms");
    expect_notes((const char *[]){ "down 3 at 250", "up 3 at 251", NULL });
    run_with(watch, "pause 2 at 200ms for 300ms");
    expect_notes((const char *[]){ "down 2 at 300", "up 2 at 501", NULL });
    run_with(watch, "pause 2 at 200ms for 90ms");
    expect_notes((const char *[]){ NULL });
    run_with(watch, "join 1 at 400ms");
    expect_notes((const char *[]){ "down 1 at 100", "up 1 at 401", NULL });
    run_with(watch, "slow 1 at 0s by 1000; lossy 0-1 at 0s loss 0.5; jump 2 at 1ms by 1s");
    expect_notes((const char *[]){ NULL });
}

static void test_links(void **state)
{
    (void)state;
    run_with(watch, "cut 0-1 at 200ms for 300ms");
    expect_notes((const char *[]){ "down 1 at 300", "up 1 at 501", NULL });
    run_with(watch, "cut 1>0 at 200ms for 300ms");
    expect_notes((const char *[]){ "down 1 at 300", "up 1 at 501", NULL });
    /* Node 0 hears of 1 all the time: only its own words do not arrive. */
    run_with(watch, "cut 0>1 at 200ms for 300ms");
    expect_notes((const char *[]){ NULL });
    /* Two cuts that overlap are one, and a crash in between has no end with them. */
    run_with(watch, "cut 0-1 at 200ms for 200ms; cut 1>0 at 350ms for 250ms");
    expect_notes((const char *[]){ "down 1 at 300", "up 1 at 601", NULL });
    run_with(watch, "cut 0-1 at 200ms for 200ms; crash 1 at 350ms");
    expect_notes((const char *[]){ "down 1 at 300", NULL });
    run_with(watch, "partition 0,1|2,3 at 200ms for 200ms");
    expect_notes(
        (const char *[]){ "down 2 at 300", "down 3 at 300", "up 2 at 401", "up 3 at 401", NULL });
    run_with(watch, "partition 0,1>2 at 200ms for 200ms");
    expect_notes((const char *[]){ NULL });
    run_with(watch, "partition 2,3>0 at 200ms for 200ms");
    expect_notes(
        (const char *[]){ "down 2 at 300", "down 3 at 300", "up 2 at 401", "up 3 at 401", NULL });
    /* One side alone is cut off from all that are not named. */
    run_with(watch, "partition 1,2 at 200ms for 200ms");
    expect_notes(
        (const char *[]){ "down 1 at 300", "down 2 at 300", "up 1 at 401", "up 2 at 401", NULL });
}

/* Actor 1 sends every 100 ms, with a charge of 1 ms before; actor 0 notes when it arrives. */
static fast_err tick(fast_actor *actor, void *ctx)
{
    (void)ctx;
    for (int64_t i = 0; i < 6; i++) {
        fast_msg *msg = NULL;
        if (fast_actor_id(actor) == 1) {
            FAST_TRY(fast_sleep_until(actor, i * 100 * MS));
            FAST_TRY(fast_charge(actor, 1e6, 0));
            FAST_TRY(fast_msg_new(actor, TAG, &msg));
            msg->words[0] = i;
            const fast_err err = fast_send(actor, 0, &msg);
            if (err && err != FAST_EPEER)
                return err;
        } else if (fast_actor_id(actor) == 0) {
            fast_err err = FAST_EPEER;
            while (err == FAST_EPEER) {
                err = fast_receive(actor, 1, TAG, FAST_SOON, &msg);
                if (err == FAST_EPEER && fast__peer(actor, 1)->ended)
                    return FAST_OK;
                if (err == FAST_EPEER)
                    FAST_TRY(fast_sleep_until(actor, fast_now(actor) + MS));
            }
            if (err)
                return err;
            note("got", msg->words[0], fast_now(actor));
            fast_msg_free(msg);
        }
    }
    return FAST_OK;
}

static void run_ticks(const char *faults)
{
    char option[256];
    snprintf(option, sizeof option, "faults=%s", faults);
    const char *options[] = { "transport=sim", "cluster=ideal:latency=1ms,detection=10s,speed=1e9",
                              "timeout=100", option, NULL };
    const fast_role role = { "worker", 2, tick, NULL };
    seen.count = 0;
    const fast_err err = fast_actors_run(options, &role, 1, NULL);
    if (err)
        fail_msg("%s", fast_error_detail());
}

static void test_times(void **state)
{
    (void)state;
    run_ticks("");
    expect_notes((const char *[]){ "got 0 at 2", "got 1 at 102", "got 2 at 202", "got 3 at 302",
                                   "got 4 at 402", "got 5 at 502", NULL });
    run_ticks("slow 1 at 150ms for 200ms by 50");
    expect_notes((const char *[]){ "got 0 at 2", "got 1 at 102", "got 2 at 251", "got 3 at 351",
                                   "got 4 at 402", "got 5 at 502", NULL });
    /* The slowest of two that overlap counts. */
    run_ticks("slow 1 at 150ms for 200ms by 50; slow 1 at 250ms for 300ms by 20");
    expect_notes((const char *[]){ "got 0 at 2", "got 1 at 102", "got 2 at 251", "got 3 at 351",
                                   "got 4 at 421", "got 5 at 521", NULL });
    run_ticks("pause 1 at 50ms for 200ms");
    expect_notes((const char *[]){ "got 0 at 2", "got 1 at 252", "got 2 at 253", "got 3 at 302",
                                   "got 4 at 402", "got 5 at 502", NULL });
    run_ticks("cut 1>0 at 150ms for 170ms");
    expect_notes((const char *[]){ "got 0 at 2", "got 1 at 102", "got 2 at 320", "got 3 at 320",
                                   "got 4 at 402", "got 5 at 502", NULL });
    /* The other way does not matter. */
    run_ticks("cut 0>1 at 150ms for 170ms");
    expect_notes((const char *[]){ "got 0 at 2", "got 1 at 102", "got 2 at 202", "got 3 at 302",
                                   "got 4 at 402", "got 5 at 502", NULL });
    run_ticks("join 1 at 250ms");
    expect_notes((const char *[]){ "got 0 at 252", "got 1 at 253", "got 2 at 254", "got 3 at 302",
                                   "got 4 at 402", "got 5 at 502", NULL });
    /* Its clock is ahead by 100 ms from then on: it sends early. */
    run_ticks("jump 1 at 150ms by 100ms");
    expect_notes((const char *[]){ "got 0 at 2", "got 1 at 102", "got 2 at 152", "got 3 at 202",
                                   "got 4 at 302", "got 5 at 402", NULL });
}

/* Actor 1 sends a frozen vector (1, 2, 3) to all; what arrives is what it says, or not. */
static float got[ACTORS][3];

static fast_err sow(fast_actor *actor, void *ctx)
{
    (void)ctx;
    const int64_t me = fast_actor_id(actor);
    fast_msg *msg = NULL;
    fast_buffer *buffer = NULL;
    if (me != 1) {
        FAST_TRY(fast_receive(actor, 1, TAG, FAST_SOON, &msg));
        memcpy(got[me], fast_msg_data(msg, 0), sizeof got[me]);
        fast_msg_free(msg);
        return FAST_OK;
    }
    FAST_TRY(fast_buffer_new(actor, sizeof got[0], &buffer));
    float *x = fast_buffer_data(buffer);
    for (int i = 0; i < 3; i++)
        x[i] = (float)(i + 1);
    fast_buffer_freeze(buffer);
    for (int64_t to = 0; to < ACTORS; to++) {
        if (to == me)
            continue;
        FAST_TRY(fast_msg_new(actor, TAG, &msg));
        fast_msg_add_view(msg, buffer, 0, sizeof got[0]);
        FAST_TRY(fast_send(actor, to, &msg));
    }
    /* The sender's own numbers stay true. */
    assert_true(x[2] == 3);
    fast_buffer_free(buffer);
    return FAST_OK;
}

static void test_lies(void **state)
{
    (void)state;
    run_with(sow, "lie 0 at 0s how nan");
    assert_true(got[0][2] == 3 && got[3][0] == 1);
    run_with(sow, "lie 1 at 0s how negate");
    assert_true(got[0][2] == -3 && got[3][0] == -1);
    run_with(sow, "lie 1 at 0s how scale");
    assert_true(got[0][2] == 30 && got[2][1] == 20);
    run_with(sow, "lie 1 at 0s how nan");
    assert_true(isnan(got[0][2]) && isnan(got[3][0]));
    run_with(sow, "lie 1 at 0s how random");
    assert_true(fabsf(got[0][2]) <= 1 && got[0][0] != got[3][0]);
    run_with(sow, "lie 1 at 5ms how nan");
    assert_true(got[0][2] == 3);
}

static void test_memory(void **state)
{
    (void)state;
    fast_actors_config config;
    const char *options[] = { "transport=sim",
                              "faults=crash 1 at 1s; partition 0|1 at 1s; lossy 0-1 at 1s loss 0.1",
                              NULL };
    const fast_role role = { "worker", 2, sow, NULL };
    assert_int_equal(fast__actors_parse(options, &config), FAST_OK);
    fast_err err = FAST_ENOMEM;
    for (int64_t n = 0; err; n++) {
        fast_world *world = NULL;
        fast__alloc_fail_after(n, true);
        err = fast__world_open(&config, &role, 1, &world);
        fast__alloc_fail_after(-1, true);
        assert_true(err == FAST_OK || err == FAST_ENOMEM);
        fast__world_close(world);
        assert_true(n < 1000);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_members), cmocka_unit_test(test_links),  cmocka_unit_test(test_times),
        cmocka_unit_test(test_lies),    cmocka_unit_test(test_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
