/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Waiting: the one place where actors block, and where their posted tasks advance meanwhile.
 *
 * A wait is a loop of its caller around fast__wait_once(), which returns on any change that may
 * matter to the caller, at the latest at the deadline. Before the deadline blame.c may ask which
 * actor the wait depends on. At the deadline the transport is polled once more, so that messages
 * that have arrived by then still count; then the wait fails, even if messages keep arriving.
 *
 * A deadline measures the patience of an actor that looks. One that did not look, because its
 * process was suspended, its node paused or its clock set, learns nothing from the hands of the
 * clock: nobody could answer it meanwhile, or it did not see the answers. So the time of a wait is
 * cut into pieces, and an actor that returns from one much too late stood still:
 *
 *     looks        |----|----|----|--- standstill ------------|----|----|----
 *     deadline                        | passed                ^ now: a whole timeout from here
 *
 * The deadlines of all actors of its process are extended, and other processes are told. A deadline
 * that passed while the actor computed, between two waits of one operation, is its own alone.
 */
#include "transport/peers.h"
#include "transport/transport.h"

enum {
    BRIEF_EVERY = 16, /* one of this many brief waits is timed */
    LOOKS = 16,       /* pieces of a timeout in which an actor looks at the clock */
    LATE = 8          /* an actor that is late by this part of a timeout stood still */
};
static const int64_t LATE_MIN_NS = 50000000; /* a busy machine may be as late as this */

/* Return the lateness from which an actor stood still. In virtual time nothing else makes it late.
 */
static int64_t late_ns(const fast_world *world)
{
    const int64_t late = world->timeout_ns / LATE;
    return late > LATE_MIN_NS || world->inner->virtual_clock ? late : LATE_MIN_NS;
}

int64_t fast__soon(fast_actor *actor, int64_t now)
{
    fast_waiting *w = &actor->waiting;
    int64_t *soon = &w->soon[w->soon_count++ % FAST_SOONS];
    w->looked = now;
    *soon = now + actor->world->timeout_ns;
    return *soon;
}

int64_t fast__patience(fast_actor *actor, int64_t timeouts)
{
    FAST_ASSERT(actor != NULL && timeouts > 0);
    const int64_t now = fast_now(actor);
    fast_waiting *w = &actor->waiting;
    w->patient = fast__soon(actor, now + (timeouts - 1) * actor->world->timeout_ns);
    w->looked = now;
    return w->patient;
}

/* Return whether a deadline was made of FAST_SOON: only such a deadline moves. */
static bool is_soon(const fast_actor *actor, int64_t deadline)
{
    for (int i = 0; i < FAST_SOONS; i++)
        if (actor->waiting.soon[i] == deadline)
            return true;
    return false;
}

int64_t fast__deadline(fast_actor *actor, int64_t deadline)
{
    if (deadline > 0)
        return deadline;
    const int64_t now = fast_now(actor);
    if (deadline != FAST_SOON)
        return now;
    return fast__soon(actor, now);
}

/* Any thread may call it: waits read it when their deadline has passed. */
void fast__world_hold(fast_world *world, int64_t time)
{
    FAST_ASSERT(world != NULL && time >= 0);
    atomic_store(&world->hold, time);
}

/* Return when a wait ends whose deadline has passed: later if fast__world_hold() delayed it. */
static int64_t last_moment(fast_actor *actor, const fast_wait *wait, int64_t now)
{
    const fast_world *world = actor->world;
    const int64_t all = fast__record_value(actor, atomic_load(&world->hold));
    const int64_t hold = all > actor->waiting.hold ? all : actor->waiting.hold;

    if (!is_soon(actor, wait->deadline) || hold <= wait->deadline - world->timeout_ns)
        return wait->deadline;
    return (hold < now ? hold : now) + world->timeout_ns;
}

/* This actor was late: extend its deadlines, those of its process, and tell the others. Threads of
 * a process stand still together, and the first that is back tells for all. */
static void stood_still(fast_actor *actor, int64_t now)
{
    fast_world *world = actor->world;
    long long hold = atomic_load(&world->hold);
    const bool alone = world->inner->virtual_clock, first = alone || hold < now - late_ns(world);
    actor->waiting.hold = now;
    fast__blame_forget(actor);
    while (!alone && hold < now && !atomic_compare_exchange_weak(&world->hold, &hold, now))
        continue;
    if (first)
        fast__peers_tell_stood(actor);
}

/* Appended: tasks advance in the order of their posting. */
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
    if (task->watches)
        fast__peers_watch(actor);
    /* A task that is posted inside fast__progress() is advanced there too. */
    if (actor->progress.active && !actor->progress.cursor)
        actor->progress.cursor = task;
}

/* A task that was removed before, or has ended, is ignored. */
void fast__unpost(fast_actor *actor, fast_task *task)
{
    FAST_ASSERT(actor != NULL && task != NULL);
    for (fast_task **at = &actor->tasks; *at; at = &(*at)->next)
        if (*at == task) {
            *at = task->next;
            if (actor->progress.cursor == task)
                actor->progress.cursor = task->next;
            return;
        }
}

/* Advance all tasks once. True if a task ended or took a message. */
static bool advance(fast_actor *actor)
{
    const int64_t count = actor->mailbox.count;
    bool ended = false;

    if (actor->progress.active)
        return false;
    actor->progress.active = true;
    actor->progress.cursor = actor->tasks;
    while (actor->progress.cursor) {
        fast_task *task = actor->progress.cursor;
        bool done = false;
        actor->progress.cursor = task->next;
        task->err = task->advance(actor, task, &done);
        if (done || task->err) {
            fast__unpost(actor, task);
            task->done = true;
            ended = true;
        }
    }
    actor->progress.active = false;
    return ended || actor->mailbox.count != count;
}

/* Deliver messages until `until`; a transport that cancels stops the actor for good. */
static fast_err poll(fast_actor *actor, int64_t until)
{
    const fast_err err = actor->world->transport->wait(actor, until);
    if (err)
        actor->stopped = true;
    return err;
}

/* Does nothing inside a task: tasks do not nest. */
void fast__progress(fast_actor *actor)
{
    FAST_ASSERT(actor != NULL);
    if (actor->progress.active || actor->stopped)
        return;
    if (!poll(actor, FAST_AT_ONCE) && actor->tasks)
        advance(actor);
}

/* Return how far the actor's clock has jumped until now; 0 where clocks do not jump. */
static int64_t jumped(fast_actor *actor)
{
    const fast_transport *inner = actor->world->inner;
    return inner->steady ? inner->now(actor) - inner->steady(actor) : 0;
}

/* Count a wait from `begin` to `now`, `weight` times. From the moment when the message
 * that ended it was sent, it waited for the network instead of its peer. Both
 * times are by the clock as it is at the end of the wait, after its jumps. */
static void count_wait(fast_actor *actor, int64_t whom, int64_t begin, int64_t now, int64_t weight)
{
    const int64_t sent = actor->waiting.sent > begin ? actor->waiting.sent : begin;
    const int64_t flight = sent < now ? now - sent : 0;
    const bool flew = actor->waiting.sent != INT64_MAX;

    fast__count(&actor->counters.wait_ns, weight * (now - begin));
    if (flew)
        fast__count(&actor->counters.flight_ns, weight * flight);
    const int64_t blocked = weight * (now - begin - (flew ? flight : 0));
    if (whom >= 0 && actor->world->waited)
        atomic_fetch_add_explicit(&actor->world->waited[whom], blocked, memory_order_relaxed);
    if (actor->world->snapshot)
        fast__snapshot_add_wait(actor->world->snapshot, actor->id, whom, blocked);
}

/* Block until `until`, and count the wait. */
static fast_err block(fast_actor *actor, const fast_wait *wait, int64_t now, int64_t until)
{
    actor->wait = *wait;
    actor->wait.waiting = true;
    fast__count(&actor->counters.waits, 1);
    actor->waiting.brief = false;
    actor->waiting.sent = INT64_MAX;
    const int64_t before = jumped(actor);
    const fast_err err = poll(actor, until);
    const int64_t jump = jumped(actor) - before; /* of the clock, in this wait */
    actor->wait.waiting = false;
    /* Reading the clock takes long compared with a brief wait: one wait is timed for many. */
    if (!actor->waiting.brief) {
        const int64_t looked = fast_now(actor);
        const bool stood = until < looked && looked - until > late_ns(actor->world);
        actor->waiting.looked = looked;
        count_wait(actor, wait->whom, now + jump, stood && jump == 0 ? until : looked, 1);
        if (stood)
            stood_still(actor, looked);
    } else if (fast__counted(&actor->counters.waits) % BRIEF_EVERY == 0) {
        count_wait(actor, wait->whom, now, fast_now(actor), BRIEF_EVERY);
    }
    if (actor->timeline || (actor->seen && !actor->waiting.brief))
        fast__timeline_add(actor, FAST_SPAN_WAIT, wait->doing, now, wait->whom, 0);
    return err;
}

/* The deadline has passed: poll once more for each deadline, then fail. */
static fast_err expire(fast_actor *actor, const fast_wait *wait)
{
    const uint64_t stamp = actor->mailbox.stamp;
    if (actor->waiting.grace != wait->deadline) {
        actor->waiting.grace = wait->deadline;
        FAST_TRY(poll(actor, FAST_AT_ONCE));
        const bool changed = actor->tasks && advance(actor);
        if (changed || actor->mailbox.stamp != stamp)
            return FAST_OK;
    }
    return fast__blame_timeout(actor, wait, is_soon(actor, wait->deadline));
}

/* Return when a wait looks at the clock next: at `until`, or earlier where a thread may be stopped
 * in its sleep. */
static int64_t next_look(const fast_world *world, int64_t now, int64_t until)
{
    const int64_t piece = world->timeout_ns / LOOKS;
    const int64_t look = now + (piece > LATE_MIN_NS ? piece : LATE_MIN_NS);
    return world->inner->virtual_clock || until < look ? until : look;
}

/* Return when the wait fails, now at the earliest; a deadline that passed while the actor did not
 * look is extended. */
static int64_t ends_at(fast_actor *actor, const fast_wait *wait, int64_t now)
{
    const int64_t gap = now - actor->waiting.looked;
    actor->waiting.looked = now;
    if (now < wait->deadline)
        return wait->deadline;
    if (gap > late_ns(actor->world))
        actor->waiting.hold = now;
    return last_moment(actor, wait, now);
}

/* Order: tasks, membership, deadline, blame, block. Each may end the wait. */
fast_err fast__wait_once(fast_actor *actor, const fast_wait *wait)
{
    FAST_ASSERT(actor != NULL && wait != NULL);
    FAST_ASSERT(wait->whom >= FAST_ANY && wait->whom < actor->world->count);
    FAST_ASSERT(!actor->progress.active);

    if (actor->stopped)
        return fast__fail(FAST_ECANCELED, "this actor was stopped");
    /* The transport is not polled here: that would consume a wake-up that the caller has not seen.
     * Messages that have arrived end the wait below at once. */
    if (actor->tasks && advance(actor))
        return FAST_OK;
    if (actor->met)
        fast__peers_ask(actor, wait->whom);
    if (wait->whom != FAST_ANY && fast__peer(actor, wait->whom)->silent)
        return fast__blame_silent(actor, wait);
    FAST_TRY(fast__peers_check(actor, wait->whom));

    const int64_t now = fast_now(actor);
    const int64_t last = ends_at(actor, wait, now);
    if (now >= last)
        return expire(actor, wait);
    int64_t until = fast__blame_ask_at(actor, wait);
    if (now >= until) {
        fast__blame_ask(actor, wait);
        until = fast__blame_ask_at(actor, wait);
    }
    until = next_look(actor->world, now, until < last ? until : last);
    FAST_TRY(block(actor, wait, now, until));
    if (actor->tasks)
        advance(actor);
    return FAST_OK;
}

/* Tasks advance meanwhile; messages stay in the mailbox. */
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
