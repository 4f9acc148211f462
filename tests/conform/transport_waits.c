/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Transports, waiting: deadlines pass and name whom was waited for, FAST_SOON is the run's timeout,
 * sleeping, waking, tasks that advance in waits, and a clock that does not go back.
 */
#include "conform/transport_suite.h"
#include "trace.h"

#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#ifdef FAST_SANITIZED
enum { WAKES = 200 };
#else
enum { WAKES = 2000 };
#endif

/* Actor 0 waits in vain for actor 1, who is up and answers nobody until it is told. */
static fast_err deadline_main(fast_actor *actor, void *ctx)
{
    (void)ctx;
    fast_msg *msg = NULL;
    if (fast_actor_id(actor) == 0) {
        fast_actor_at(actor, 17, "weights");
        const int64_t begin = fast_now(actor), deadline = begin + 30000000;
        FAST_TRY(EXPECT_ERR(fast_receive(actor, 1, 9, deadline, &msg), FAST_ETIMEDOUT));
        FAST_TRY(EXPECT(fast_now(actor) >= deadline));
        FAST_TRY(EXPECT(msg == NULL));
        FAST_TRY(EXPECT(strstr(fast_error_detail(), "worker 1") != NULL));
        FAST_TRY(EXPECT(strstr(fast_error_detail(), "17") != NULL));
        FAST_TRY(EXPECT(strstr(fast_error_detail(), "weights") != NULL));
        /* A deadline in the past only looks; so does one that is over. */
        FAST_TRY(EXPECT_ERR(fast_receive(actor, FAST_ANY, 9, 1, &msg), FAST_ETIMEDOUT));
        for (int64_t to = 1; to < fast_actor_count(actor); to++)
            FAST_TRY(suite_send(actor, to, 1, 0));
        return FAST_OK;
    }
    return suite_receive(actor, 0, 1, 0);
}

static fast_err run_deadline(const suite *on)
{
    return suite_run(on, deadline_main, NULL, on->count, NULL, NULL);
}

static fast_err soon_main(fast_actor *actor, void *ctx)
{
    (void)ctx;
    fast_msg *msg = NULL;
    if (fast_actor_id(actor) == 0) {
        const int64_t begin = fast_now(actor);
        FAST_TRY(EXPECT_ERR(fast_receive(actor, 1, 9, FAST_SOON, &msg), FAST_ETIMEDOUT));
        FAST_TRY(EXPECT(fast_now(actor) - begin >= 50000000));
        for (int64_t to = 1; to < fast_actor_count(actor); to++)
            FAST_TRY(suite_send(actor, to, 1, 0));
        return FAST_OK;
    }
    FAST_TRY(fast_receive(actor, 0, 1, suite_late(actor), &msg));
    fast_msg_free(msg);
    return FAST_OK;
}

static fast_err run_soon(const suite *on)
{
    return suite_run(on, soon_main, NULL, on->count, "timeout=0.05", NULL);
}

/* Sleeping ends at its time; what came meanwhile is there; a time in the past does not sleep. */
static fast_err sleep_main(fast_actor *actor, void *ctx)
{
    (void)ctx;
    const int64_t count = fast_actor_count(actor), id = fast_actor_id(actor);
    int64_t last = 0;
    for (int i = 1; i <= 5; i++) {
        const int64_t time = fast_now(actor) + i * 1000000;
        FAST_TRY(suite_send(actor, (id + 1) % count, 1, i));
        FAST_TRY(fast_sleep_until(actor, time));
        FAST_TRY(EXPECT(fast_now(actor) >= time));
        FAST_TRY(EXPECT(time > last));
        last = time;
    }
    FAST_TRY(fast_sleep_until(actor, 0));
    FAST_TRY(suite_barrier(actor));
    for (int i = 1; i <= 5; i++) {
        fast_msg *msg = NULL;
        FAST_TRY(fast_receive(actor, (id + count - 1) % count, 1, FAST_AT_ONCE, &msg));
        const int64_t word = msg->words[0];
        fast_msg_free(msg);
        FAST_TRY(EXPECT(word == i));
    }
    return FAST_OK;
}

static fast_err run_sleep(const suite *on)
{
    return suite_run(on, sleep_main, NULL, on->count, NULL, NULL);
}

/* A task that is never done. */
static fast_err idle_advance(fast_actor *actor, fast_task *task, bool *done)
{
    (void)actor, (void)task;
    *done = false;
    return FAST_OK;
}

/* Compute for a while that differs every time, so that others find this actor watching, falling
 * asleep, sleeping and waking up. */
static void dawdle(fast_actor *actor)
{
    const uint64_t r = fast_random(actor);
    for (volatile uint64_t i = 0; i < (r >> 8) % ((r & 7) == 0 ? 20000 : 400); i++)
        continue;
}

/* Set the next actor's flag for each round, after one's own was set. */
static fast_err wake_rounds(fast_actor *actor, atomic_llong *flags, const int64_t *local,
                            int64_t count, int64_t rank)
{
    const int64_t next = local[(rank + 1) % count];
    for (int64_t round = 1; round <= WAKES; round++) {
        const fast_wait wait = { .whom = local[(rank + count - 1) % count],
                                 .since = fast_now(actor),
                                 .deadline = suite_late(actor),
                                 .doing = "wake" };
        dawdle(actor);
        while (atomic_load(&flags[local[rank] * 8]) < round - (rank == 0)) {
            dawdle(actor); /* a wake-up between the check and the wait must end the wait */
            FAST_TRY(fast__wait_once(actor, &wait));
        }
        /* A wait that lost its wake-up ends all the same, when it looks for whom to blame. */
        FAST_TRY(EXPECT(fast_now(actor) - wait.since < 10000000000));
        dawdle(actor);
        atomic_store(&flags[next * 8], round);
        actor->world->transport->wake(actor, next);
    }
    return FAST_OK;
}

/* Local actors in a ring of flags: each waits for its own, then sets the next one's and wakes it.
 * Then again with a task, which waits must not prefer. */
static fast_err wake_main(fast_actor *actor, void *ctx)
{
    (void)ctx;
    const int64_t id = fast_actor_id(actor);
    int64_t local[SUITE_ACTORS], count = 0, rank = 0;
    for (int64_t i = 0; i < fast_actor_count(actor); i++)
        if (fast_actor_is_local(actor, i)) {
            rank = i == id ? count : rank;
            local[count++] = i;
        }
    if (count == 1)
        return FAST_OK;
    for (uint64_t key = 11; key < 13; key++) {
        atomic_llong *flags = NULL;
        fast_task task = { .advance = idle_advance, .background = true };
        FAST_TRY(fast_actor_share(actor, key, SUITE_ACTORS * 8 * sizeof *flags, &flags));
        if (key == 12)
            fast__post(actor, &task);
        const fast_err err = wake_rounds(actor, flags, local, count, rank);
        fast__unpost(actor, &task);
        FAST_TRY(err);
    }
    return FAST_OK;
}

static fast_err run_wake(const suite *on)
{
    return suite_run(on, wake_main, NULL, on->count, NULL, NULL);
}

/* The same with messages: every actor dawdles and then sends to or receives from its neighbours. */
static fast_err park_main(fast_actor *actor, void *ctx)
{
    (void)ctx;
    const int64_t count = fast_actor_count(actor), id = fast_actor_id(actor);
    for (int64_t round = 0; round < WAKES; round++) {
        dawdle(actor);
        FAST_TRY(suite_send(actor, (id + 1) % count, 1, round));
        dawdle(actor);
        FAST_TRY(suite_receive(actor, (id + count - 1) % count, 1, round));
    }
    return FAST_OK;
}

static fast_err run_park(const suite *on)
{
    for (int64_t count = SUITE_ACTORS; count > (on->alone ? 1 : SUITE_ACTORS - 1); count--)
        FAST_TRY(suite_run(on, park_main, NULL, count, NULL, NULL));
    return FAST_OK;
}

/* A task that answers pings while its actor waits for something else. */
typedef struct echo {
    fast_task task;
    int64_t answered; /* pings */
    int64_t until;    /* pings after which it ends */
} echo;

static fast_err echo_advance(fast_actor *actor, fast_task *task, bool *done)
{
    echo *e = (echo *)task;
    fast_msg *msg = NULL;
    while (e->answered < e->until && (msg = fast__take(actor, FAST_ANY, 21)) != NULL) {
        const int64_t from = msg->from, word = msg->words[0];
        fast_msg_free(msg);
        FAST_TRY(suite_send(actor, from, 22, word + 1));
        e->answered++;
    }
    *done = e->answered == e->until;
    return FAST_OK;
}

static fast_err task_main(fast_actor *actor, void *ctx)
{
    (void)ctx;
    enum { PINGS = 20 };
    const int64_t count = fast_actor_count(actor), id = fast_actor_id(actor);
    if (id == 0) {
        echo e = { .task = { .advance = echo_advance }, .until = PINGS * (count - 1) };
        fast__post(actor, &e.task);
        /* Only the last ping's sender lets it go, after every answer. */
        const fast_err err = suite_barrier(actor);
        if (err)
            fast__unpost(actor, &e.task);
        FAST_TRY(err);
        FAST_TRY(EXPECT(e.task.done));
        FAST_TRY(EXPECT(e.task.err == FAST_OK));
        return EXPECT(e.answered == e.until);
    }
    for (int64_t i = 0; i < PINGS; i++) {
        FAST_TRY(suite_send(actor, 0, 21, i));
        FAST_TRY(suite_receive(actor, 0, 22, i + 1));
    }
    return suite_barrier(actor);
}

static fast_err run_task(const suite *on)
{
    return suite_run(on, task_main, NULL, on->count, NULL, NULL);
}

/* The clock is not negative and does not go back, whatever the actor does. */
static fast_err clock_main(fast_actor *actor, void *ctx)
{
    (void)ctx;
    const int64_t count = fast_actor_count(actor), id = fast_actor_id(actor);
    int64_t last = fast_now(actor);
    FAST_TRY(EXPECT(last >= 0));
    for (int64_t i = 0; i < 100; i++) {
        FAST_TRY(suite_send(actor, (id + 1) % count, 1, i));
        if (i % 3 == 0)
            FAST_TRY(fast_charge(actor, 1000, 1000));
        if (i % 10 == 0)
            FAST_TRY(fast_sleep_until(actor, fast_now(actor) + 1000));
        FAST_TRY(suite_receive(actor, (id + count - 1) % count, 1, i));
        const int64_t now = fast_now(actor);
        FAST_TRY(EXPECT(now >= last));
        last = now;
    }
    return FAST_OK;
}

static fast_err run_clock(const suite *on)
{
    fast_actors_result result;
    FAST_TRY(suite_run(on, clock_main, NULL, on->count, NULL, &result));
    return EXPECT(result.time_ns > 0 && result.wait_ns >= 0);
}

/* Store the node of this process, in a run of several processes. */
static fast_err trace_main(fast_actor *actor, void *ctx)
{
    atomic_llong *node = ctx;
    fast_msg *msg = NULL;
    atomic_store(node, fast_actor_node(actor, fast_actor_id(actor)));
    /* A wait in vain is nested in its receive, if the machine lets this thread come to it before
     * the deadline; those of clock_main() may find their message. */
    const fast_err err = fast_receive(actor, FAST_ANY, 9, fast_now(actor) + 100000000, &msg);
    FAST_TRY(EXPECT_ERR(err, FAST_ETIMEDOUT));
    return clock_main(actor, NULL);
}

/* A run writes its timeline: valid, ordered, nested. Each process writes a file of its own, the
 * first one that of the given name; all ranks of one machine have one parent. */
static fast_err run_trace(const suite *on)
{
    char path[64], option[80], own[80], why[256];
    trace_summary trace;
    atomic_llong node = 0;
    snprintf(path, sizeof path, "transport_trace.%d.json", (int)(on->alone ? getpid() : getppid()));
    snprintf(option, sizeof option, "trace=%s", path);
    FAST_TRY(suite_run(on, trace_main, &node, on->count, option, NULL));
    snprintf(own, sizeof own, "%s.%lld", path, (long long)atomic_load(&node));
    const char *file = on->alone || atomic_load(&node) == 0 ? path : own;
    const bool good = trace_check(file, &trace, why);
    unlink(file);
    if (!good)
        return fast__fail(FAST_EFORMAT, "the timeline: %s", why);
    FAST_TRY(EXPECT(trace.spans >= 200));
    FAST_TRY(EXPECT(trace.depth_max >= 2));
    FAST_TRY(EXPECT(!trace.dropped));
    return on->alone ? EXPECT(trace.arrows == on->count * 100) : FAST_OK;
}

const suite_case suite_waits[] = {
    { "a deadline names whom", run_deadline, true },
    { "FAST_SOON is the run's timeout", run_soon, true },
    { "sleeping", run_sleep, true },
    { "waking", run_wake, true },
    { "falling asleep at any moment", run_park, false },
    { "tasks advance in waits", run_task, true },
    { "the clock", run_clock, true },
    { "the timeline", run_trace, true },
    { NULL, NULL, false },
};
