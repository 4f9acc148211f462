/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Goal: what faults are made of works by itself: crash, restart, late start, pause, slow-down,
 * clock jump, cut links, news of members, running out of memory. Method: small programs, with one
 * call at a known time; every time and error that follows is known.
 */
#include "base/memory.h"
#include "transport/sim/sim.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { TAG = 5 };
#define MS(x) ((int64_t)(x)*1000000)

/* Results of the programs. */
typedef struct notes {
    int64_t times[8];
    int64_t lives[8];
    fast_err errs[8];
    int64_t freed; /* ghosts that came to their end */
} notes;

typedef struct script {
    fast_sim_call call; /* first */
    int what;           /* which of the faults below */
    int64_t a, b;       /* its numbers */
} script;

enum { CRASH, RESTART, PAUSE, SLOW, JUMP, CUT, MEND, TELL, CRASH_LATER };

static void act(fast_sim *sim, fast_sim_call *call)
{
    script *s = (script *)call;
    switch (s->what) {
    case CRASH:
        fast__sim_crash(sim, s->a);
        break;
    case RESTART:
        fast__sim_restart(sim, s->a);
        break;
    case PAUSE:
        fast__sim_pause(sim, s->a, sim->now + s->b);
        break;
    case SLOW:
        fast__sim_slow(sim, s->a, (double)s->b);
        break;
    case JUMP:
        fast__sim_clock_jump(sim, s->a, s->b);
        break;
    case CUT:
        fast__sim_link_edit(sim, s->a, s->b)->cut = true;
        break;
    case MEND:
        fast__sim_link_edit(sim, s->a, s->b)->cut = false;
        fast__sim_links_mended(sim);
        break;
    case TELL:
        fast__sim_tell(sim, FAST_ANY, s->a, s->b != 0, MS(10));
        break;
    case CRASH_LATER: /* planned now, so that it comes after what was planned before */
        s->what = CRASH;
        fast__sim_at(sim, s->b, call, false);
        break;
    }
}

typedef struct timed {
    int64_t at;
    script script;
} timed;

static const char *trace = "trace="; /* a file, in one test */

static fast_err run(int64_t actors, fast_actor_fn *main, notes *n, timed *calls, int count)
{
    const fast_role role = { "worker", actors, main, n };
    const char *options[] = { "transport=sim", "cluster=ideal:latency=1ms,speed=1e9", trace, NULL };
    fast_actors_config config;
    fast_world *world = NULL;
    assert_int_equal(fast__actors_parse(options, &config), FAST_OK);
    assert_int_equal(fast__world_open(&config, &role, 1, &world), FAST_OK);
    for (int i = 0; i < count; i++) {
        calls[i].script.call.run = act;
        fast__sim_at((fast_sim *)world, calls[i].at, &calls[i].script.call,
                     calls[i].script.what == RESTART);
    }
    const fast_err err = fast__world_run(world, NULL);
    fast__world_close(world);
    return err;
}

/* Holds something until it ends, whatever happens. */
static fast_err wait_long(fast_actor *actor, void *ctx)
{
    notes *n = ctx;
    const int64_t id = fast_actor_id(actor);
    fast_buffer *buffer = NULL;
    fast_msg *msg = NULL;
    FAST_TRY(fast_buffer_new(actor, 100, &buffer));
    n->lives[id] = fast_actor_life(actor);
    fast_err err = id ? fast_sleep_until(actor, fast_now(actor) + MS(50))
                      : fast_receive(actor, 1, TAG, MS(200), &msg);
    n->errs[id] = err;
    n->times[id] = fast_now(actor);
    if (err == FAST_ECANCELED) { /* a ghost reaches nobody and waits for nothing */
        assert_int_equal(fast_sleep_until(actor, MS(1000)), FAST_ECANCELED);
        assert_int_equal(fast_charge(actor, 1e9, 0), FAST_ECANCELED);
        assert_int_equal(fast_msg_new(actor, TAG, &msg), FAST_OK);
        assert_int_equal(fast_send(actor, 0, &msg), FAST_ECANCELED);
        assert_null(msg);
    } else if (id && !err) {
        FAST_TRY(fast_msg_new(actor, TAG, &msg));
        err = fast_send(actor, 0, &msg);
    }
    n->freed++;
    fast_msg_free(msg);
    fast_buffer_free(buffer);
    return err;
}

static void test_crash_unwinds_and_restart_begins_again(void **state)
{
    (void)state;
    notes n = { 0 };
    timed crash[] = { { MS(20), { .what = CRASH, .a = 1 } } };
    assert_int_equal(run(2, wait_long, &n, crash, 1), FAST_ETIMEDOUT);
    assert_int_equal(n.errs[1], FAST_ECANCELED);
    assert_int_equal(n.times[1], MS(20));
    assert_int_equal(n.errs[0], FAST_ETIMEDOUT);
    assert_int_equal(n.times[0], MS(200));
    assert_int_equal(n.freed, 2);

    n = (notes){ 0 };
    timed both[] = { { MS(20), { .what = CRASH, .a = 1 } },
                     { MS(30), { .what = RESTART, .a = 1 } } };
    assert_int_equal(run(2, wait_long, &n, both, 2), FAST_OK);
    assert_int_equal(n.lives[1], 1);
    assert_int_equal(n.errs[1], FAST_OK);
    assert_int_equal(n.times[1], MS(80)); /* its 50 ms begin again */
    assert_int_equal(n.times[0], MS(81));
    assert_int_equal(n.freed, 3);
}

static void test_news_of_members(void **state)
{
    (void)state;
    notes n = { 0 };
    timed calls[] = { { MS(20), { .what = CRASH, .a = 1 } },
                      { MS(20), { .what = TELL, .a = 1, .b = 1 } } };
    assert_int_equal(run(2, wait_long, &n, calls, 2), FAST_EPEER);
    assert_int_equal(n.errs[0], FAST_EPEER);
    assert_int_equal(n.times[0], MS(30)); /* 10 ms of detection */
}

/* Actor 1 computes for 10 ms, then both sleep until 100 ms. */
static fast_err busy(fast_actor *actor, void *ctx)
{
    notes *n = ctx;
    const int64_t id = fast_actor_id(actor);
    FAST_TRY(fast_charge(actor, id ? 1e7 : 0, 0));
    n->times[id] = fast_now(actor);
    FAST_TRY(fast_sleep_until(actor, MS(100)));
    n->times[2 + id] = fast_now(actor);
    FAST_TRY(fast_charge(actor, id ? 1e7 : 0, 0));
    n->times[4 + id] = fast_now(actor);
    return FAST_OK;
}

static void test_pauses_and_slow_nodes(void **state)
{
    (void)state;
    notes n = { 0 };
    timed calls[] = { { MS(5), { .what = PAUSE, .a = 1, .b = MS(20) } },
                      { MS(95), { .what = PAUSE, .a = 1, .b = MS(10) } },
                      { MS(60), { .what = SLOW, .a = 1, .b = 3 } } };
    assert_int_equal(run(2, busy, &n, calls, 3), FAST_OK);
    assert_int_equal(n.times[1], MS(30));  /* 10 ms of work, 20 ms of standing still */
    assert_int_equal(n.times[2], MS(100)); /* the other node is not paused */
    assert_int_equal(n.times[3], MS(105)); /* it wakes when the pause is over */
    assert_int_equal(n.times[5], MS(135)); /* three times as long */
}

static void test_clock_jumps(void **state)
{
    (void)state;
    notes n = { 0 };
    timed ahead[] = { { MS(50), { .what = JUMP, .a = 1, .b = MS(500) } } };
    assert_int_equal(run(2, busy, &n, ahead, 1), FAST_OK);
    assert_int_equal(n.times[3], MS(550)); /* its deadline passed with the jump */
    timed back[] = { { MS(50), { .what = JUMP, .a = 1, .b = -MS(5000) } } };
    assert_int_equal(run(2, busy, &n, back, 1), FAST_OK);
    assert_int_equal(n.times[3], MS(100)); /* by its own clock, which went back to 0 */
    assert_int_equal(n.times[2], MS(100));
}

/* Compute 40 ms with a report in the middle, twice. */
typedef struct job {
    fast_work work; /* first */
    fast_actor *actor;
    notes *n;
    int64_t reports;
} job;

static fast_err job_run(fast_work *work)
{
    ((job *)work)->n->freed++;
    fast_work_report(work, 2e7, 0, 1);
    work->operations = 4e7;
    return FAST_OK;
}

static void job_report(void *ctx, int64_t offset, int64_t count)
{
    job *j = ctx;
    (void)offset;
    (void)count;
    j->n->times[j->reports++] = fast_now(j->actor);
}

static fast_err work_twice(fast_actor *actor, void *ctx)
{
    job j = { .actor = actor, .n = ctx };
    for (int i = 0; i < 2; i++) {
        j.work = (fast_work){ .run = job_run, .report = job_report, .ctx = &j };
        FAST_TRY(fast_compute(actor, &j.work));
        j.n->times[4 + i] = fast_now(actor);
        j.n->lives[i] = fast_actor_life(actor);
    }
    return FAST_OK;
}

static void test_works_and_pauses(void **state)
{
    (void)state;
    notes n = { 0 };
    timed calls[] = { { MS(10), { .what = PAUSE, .a = 0, .b = MS(5) } },
                      { MS(30), { .what = PAUSE, .a = 0, .b = MS(7) } } };
    assert_int_equal(run(1, work_twice, &n, calls, 2), FAST_OK);
    assert_int_equal(n.times[0], MS(25)); /* 20 ms of work, 5 of standing still */
    assert_int_equal(n.times[4], MS(52)); /* all pauses come on top */
    assert_int_equal(n.times[1], MS(72));
    assert_int_equal(n.times[5], MS(92));
}

static void test_works_and_crashes(void **state)
{
    (void)state;
    notes n = { 0 };
    /* At the instant at which the second work is asked for: it is not run any more. */
    timed later[] = { { MS(30), { .what = CRASH_LATER, .a = 0, .b = MS(40) } } };
    assert_int_equal(run(2, work_twice, &n, later, 1), FAST_ECANCELED);
    assert_int_equal(n.times[4], MS(40));
    assert_int_equal(n.freed, 3); /* one, and the two of the other actor */
    /* The end of the first life's work does not end the second life's. */
    n = (notes){ 0 };
    timed both[] = { { MS(10), { .what = CRASH, .a = 0 } },
                     { MS(15), { .what = RESTART, .a = 0 } } };
    assert_int_equal(run(1, work_twice, &n, both, 2), FAST_OK);
    assert_int_equal(n.times[0], MS(35));
    assert_int_equal(n.times[4], MS(55));
    assert_int_equal(n.times[5], MS(95));
    assert_int_equal(n.lives[1], 1);
}

/* The timeline holds what an actor did in all its lives. */
static void test_timelines_continue(void **state)
{
    (void)state;
    char path[] = "/tmp/fast_timeline_XXXXXX", option[64], text[4096] = "";
    notes n = { 0 };
    timed both[] = { { MS(50), { .what = CRASH, .a = 0 } },
                     { MS(60), { .what = RESTART, .a = 0 } } };
    const int fd = mkstemp(path);
    assert_true(fd >= 0);
    snprintf(option, sizeof option, "trace=%s", path);
    trace = option;
    const fast_err err = run(1, work_twice, &n, both, 2);
    trace = "trace=";
    FILE *file = fdopen(fd, "r");
    assert_non_null(file);
    fclose(file);
    file = fopen(path, "r"); /* the run has replaced it */
    assert_non_null(file);
    text[fread(text, 1, sizeof text - 1, file)] = 0;
    fclose(file);
    remove(path);
    assert_int_equal(err, FAST_OK);
    int spans = 0;
    for (const char *at = text; (at = strstr(at, "\"cat\":\"compute\"")) != NULL; at++)
        spans++;
    assert_true(spans >= 3); /* one and a half before the crash, two after it */
}

/* Actor 0 sends at once and at 50 ms; actor 1, in each life, receives one and leaves. */
static fast_err two_lives(fast_actor *actor, void *ctx)
{
    notes *n = ctx;
    const int64_t life = fast_actor_life(actor);
    fast_msg *msg = NULL;
    if (fast_actor_id(actor) == 1) {
        FAST_TRY(fast_receive(actor, 0, TAG, FAST_SOON, &msg));
        n->times[life] = fast_now(actor);
        n->lives[life] = msg->words[0];
        fast_msg_free(msg);
        return FAST_OK;
    }
    for (int i = 0; i < 2; i++) {
        FAST_TRY(fast_msg_new(actor, TAG, &msg));
        msg->words[0] = i;
        msg->declared = (size_t)MS(20) * (size_t)(1 - i); /* the first takes 20 ms */
        FAST_TRY(fast_send(actor, 1, &msg));
        FAST_TRY(fast_sleep_until(actor, fast_now(actor) + MS(50)));
    }
    return FAST_OK;
}

static void test_messages_to_an_earlier_life_are_lost(void **state)
{
    (void)state;
    notes n = { 0 };
    timed calls[] = { { MS(10), { .what = CRASH, .a = 1 } },
                      { MS(15), { .what = RESTART, .a = 1 } } };
    assert_int_equal(run(2, two_lives, &n, calls, 2), FAST_OK);
    assert_int_equal(n.lives[1], 1); /* the second message */
    assert_int_equal(n.times[1], MS(51));
    assert_int_equal(n.times[0], 0);
}

/* Both send to each other each 10 ms and note what came when. */
static fast_err chat(fast_actor *actor, void *ctx)
{
    notes *n = ctx;
    const int64_t id = fast_actor_id(actor);
    for (int i = 0; i < 10; i++) {
        fast_msg *msg = NULL;
        FAST_TRY(fast_msg_new(actor, TAG, &msg));
        msg->words[0] = i;
        FAST_TRY(fast_send(actor, 1 - id, &msg));
        FAST_TRY(fast_sleep_until(actor, fast_now(actor) + MS(10)));
    }
    for (int i = 0; i < 10; i++) {
        fast_msg *msg = NULL;
        FAST_TRY(fast_receive(actor, 1 - id, TAG, FAST_SOON, &msg));
        assert_int_equal(msg->words[0], i);
        fast_msg_free(msg);
    }
    n->times[id] = fast_now(actor);
    return FAST_OK;
}

static void test_cut_links_hold_messages_back(void **state)
{
    (void)state;
    notes n = { 0 };
    timed calls[] = { { MS(25), { .what = CUT, .a = 0, .b = 1 } },
                      { MS(300), { .what = MEND, .a = 0, .b = 1 } } };
    assert_int_equal(run(2, chat, &n, calls, 2), FAST_OK);
    assert_int_equal(n.times[0], MS(100)); /* the other way was open */
    assert_int_equal(n.times[1], MS(300));
    timed again[] = { { MS(25), { .what = CUT, .a = 0, .b = 1 } } };
    assert_int_equal(run(2, chat, &n, again, 1), FAST_ETIMEDOUT); /* and frees what is stuck */
}

static fast_err note_start(fast_actor *actor, void *ctx)
{
    ((notes *)ctx)->times[fast_actor_id(actor)] = fast_now(actor);
    return FAST_OK;
}

static void test_late_start(void **state)
{
    (void)state;
    notes n = { 0 };
    const fast_role role = { "worker", 2, note_start, &n };
    const char *options[] = { "transport=sim", NULL };
    fast_actors_config config;
    fast_world *world = NULL;
    assert_int_equal(fast__actors_parse(options, &config), FAST_OK);
    assert_int_equal(fast__world_open(&config, &role, 1, &world), FAST_OK);
    fast__sim_start_late((fast_sim *)world, 1, MS(70));
    assert_int_equal(fast__world_run(world, NULL), FAST_OK);
    fast__world_close(world);
    assert_int_equal(n.times[0], 0);
    assert_int_equal(n.times[1], MS(70));
}

/* Every allocation fails once: opening, and then running. */
static void test_out_of_memory(void **state)
{
    (void)state;
    notes n = { 0 };
    const fast_role role = { "worker", 4, note_start, &n };
    const char *options[] = { "transport=sim", "cluster=laptop", "pool=2", NULL };
    fast_err err = FAST_ENOMEM;
    int64_t count = 0;
    for (; err == FAST_ENOMEM; count++) {
        fast__alloc_fail_after(count, true);
        err = fast_actors_run(options, &role, 1, NULL);
        fast__alloc_fail_after(-1, true);
    }
    assert_int_equal(err, FAST_OK);
    assert_true(count > 10);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_crash_unwinds_and_restart_begins_again),
        cmocka_unit_test(test_news_of_members),
        cmocka_unit_test(test_pauses_and_slow_nodes),
        cmocka_unit_test(test_works_and_pauses),
        cmocka_unit_test(test_works_and_crashes),
        cmocka_unit_test(test_messages_to_an_earlier_life_are_lost),
        cmocka_unit_test(test_timelines_continue),
        cmocka_unit_test(test_clock_jumps),
        cmocka_unit_test(test_cut_links_hold_messages_back),
        cmocka_unit_test(test_late_start),
        cmocka_unit_test(test_out_of_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
