/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Waiting: the one place where actors block, and where what they posted goes on meanwhile.
 *
 * A wait is a loop of its caller around fast__wait_once(), which returns whenever something changed
 * that may matter to it, at the latest at the deadline. Before the deadline blame.c may ask whom it
 * hangs on. After it, one last look is taken, so that what has arrived by then still counts; then
 * the wait fails, however many messages keep coming.
 */
#include "transport/peers.h"
#include "transport/transport.h"

/* Of so many brief waits one is timed. */
enum { BRIEF_EVERY = 16 };

int64_t fast__deadline(fast_actor *actor, int64_t deadline)
{
    if (deadline > 0)
        return deadline;
    const int64_t now = fast_now(actor);
    if (deadline != FAST_SOON)
        return now;
    actor->soon = now + actor->world->timeout_ns;
    return actor->soon;
}

void fast__world_hold(fast_world *world, int64_t time)
{
    FAST_ASSERT(world != NULL && time >= 0);
    atomic_store(&world->hold, time);
}

/* When a wait ends whose deadline has passed: later, if its actors were held meanwhile. */
static int64_t last_moment(fast_actor *actor, const fast_wait *wait, int64_t now)
{
    const fast_world *world = actor->world;
    const int64_t hold = fast__record_value(actor, atomic_load(&world->hold));

    if (wait->deadline != actor->soon || hold <= wait->deadline - world->timeout_ns)
        return wait->deadline;
    return (hold < now ? hold : now) + world->timeout_ns;
}

void fast__post(fast_actor *actor, fast_task *task)
{
    FAST_ASSERT(actor != NULL && task != NULL);
    FAST_ASSERT(task->advance != NULL);
    fast_task **end = &actor->tasks;
    while (*end) {
        FAST_ASSERT(*end != task);
        end = &(*end)->next;
    }
    task->next = NULL;
    task->done = false;
    task->err = FAST_OK;
    *end = task;
    /* What is posted inside fast__progress() has its turn there too. */
    if (actor->advancing && !actor->cursor)
        actor->cursor = task;
}

void fast__unpost(fast_actor *actor, fast_task *task)
{
    FAST_ASSERT(actor != NULL && task != NULL);
    for (fast_task **at = &actor->tasks; *at; at = &(*at)->next)
        if (*at == task) {
            *at = task->next;
            if (actor->cursor == task)
                actor->cursor = task->next;
            return;
        }
}

/* Advance all tasks once. True if one ended, or a message was taken. */
static bool advance(fast_actor *actor)
{
    const int64_t count = actor->mailbox.count;
    bool ended = false;

    if (actor->advancing)
        return false;
    actor->advancing = true;
    actor->cursor = actor->tasks;
    while (actor->cursor) {
        fast_task *task = actor->cursor;
        bool done = false;
        actor->cursor = task->next;
        task->err = task->advance(actor, task, &done);
        if (done || task->err) {
            fast__unpost(actor, task);
            task->done = true;
            ended = true;
        }
    }
    actor->advancing = false;
    return ended || actor->mailbox.count != count;
}

/* Take what has arrived, without waiting. */
static fast_err poll(fast_actor *actor, int64_t until)
{
    const fast_err err = actor->world->transport->wait(actor, until);
    if (err)
        actor->stopped = true;
    return err;
}

void fast__progress(fast_actor *actor)
{
    FAST_ASSERT(actor != NULL);
    if (actor->advancing || actor->stopped)
        return;
    if (!poll(actor, FAST_AT_ONCE) && actor->tasks)
        advance(actor);
}

/* A wait that began at `begin` is over; it stands for as many as `weight`. Once the message that
 * ended it was sent, it did not wait for its peer any more, but for the network. */
static void count_wait(fast_actor *actor, int64_t whom, int64_t begin, int64_t weight)
{
    const int64_t now = fast_now(actor);
    const int64_t sent = actor->sent > begin ? actor->sent : begin;
    const int64_t flight = sent < now ? now - sent : 0;
    const bool flew = actor->sent != INT64_MAX;

    fast__count(&actor->counters.wait_ns, weight * (now - begin));
    if (flew)
        fast__count(&actor->counters.flight_ns, weight * flight);
    if (whom >= 0 && actor->world->waited)
        atomic_fetch_add_explicit(&actor->world->waited[whom],
                                  weight * (now - begin - (flew ? flight : 0)),
                                  memory_order_relaxed);
}

/* Block until `until`, and count it. */
static fast_err block(fast_actor *actor, const fast_wait *wait, int64_t now, int64_t until)
{
    actor->wait = *wait;
    actor->wait.waiting = true;
    fast__count(&actor->counters.waits, 1);
    actor->brief = false;
    actor->sent = INT64_MAX;
    const fast_err err = poll(actor, until);
    actor->wait.waiting = false;
    /* To read the clock takes a good part of a brief wait: one stands for many. */
    if (!actor->brief)
        count_wait(actor, wait->whom, now, 1);
    else if (fast__counted(&actor->counters.waits) % BRIEF_EVERY == 0)
        count_wait(actor, wait->whom, now, BRIEF_EVERY);
    if (actor->timeline || (actor->seen && !actor->brief))
        fast__timeline_add(actor, FAST_SPAN_WAIT, wait->doing, now, wait->whom, 0);
    return err;
}

/* The deadline has passed: one more look for each deadline, then the end. */
static fast_err expire(fast_actor *actor, const fast_wait *wait)
{
    const uint64_t stamp = actor->mailbox.stamp;
    if (actor->grace != wait->deadline) {
        actor->grace = wait->deadline;
        FAST_TRY(poll(actor, FAST_AT_ONCE));
        const bool changed = actor->tasks && advance(actor);
        if (changed || actor->mailbox.stamp != stamp)
            return FAST_OK;
    }
    return fast__blame_timeout(actor, wait);
}

fast_err fast__wait_once(fast_actor *actor, const fast_wait *wait)
{
    FAST_ASSERT(actor != NULL && wait != NULL);
    FAST_ASSERT(wait->whom >= FAST_ANY && wait->whom < actor->world->count);
    FAST_ASSERT(!actor->advancing);

    if (actor->stopped)
        return fast__fail(FAST_ECANCELED, "this actor was stopped");
    /* The transport is not polled here: that would take a wake-up which the caller has not seen.
     * What has arrived ends the wait below at once. */
    if (actor->tasks && advance(actor))
        return FAST_OK;
    if (actor->met)
        fast__peers_ask(actor, wait->whom);
    FAST_TRY(fast__peers_check(actor, wait->whom));

    const int64_t now = fast_now(actor);
    const int64_t last = now >= wait->deadline ? last_moment(actor, wait, now) : wait->deadline;
    if (now >= last)
        return expire(actor, wait);
    int64_t until = fast__blame_ask_at(actor, wait);
    if (now >= until) {
        fast__blame_ask(actor, wait);
        until = fast__blame_ask_at(actor, wait);
    }
    FAST_TRY(block(actor, wait, now, until < last ? until : last));
    if (actor->tasks)
        advance(actor);
    return FAST_OK;
}

fast_err fast_sleep_until(fast_actor *actor, int64_t time)
{
    FAST_ASSERT(actor != NULL);
    if (actor->stopped)
        return fast__fail(FAST_ECANCELED, "this actor was stopped");
    while (fast_now(actor) < time) {
        FAST_TRY(poll(actor, time));
        if (actor->tasks)
            advance(actor);
    }
    return FAST_OK;
}
