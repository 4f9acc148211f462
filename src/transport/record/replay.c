/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Record and replay: wraps a transport whose order the machine decides, records that order, and
 * repeats it. An actor's program is deterministic but for its inputs from outside:
 *
 *     wait     the senders of the delivered messages, in order; and that the wait returned
 *     now      the clock
 *     locks    the position of its critical sections in the order of all critical sections
 *     values   flags that other threads set: a cancel
 *
 * Each of these is an event in the actor's trace (recording.h), in the order in which the program
 * reaches them. In a replay, a wait delivers the messages that are due and holds back the others,
 * however late they arrive; the clock returns the recorded times; a critical section waits until
 * all sections before it are over. Everything else follows: messages, timeouts, blame. Programs do
 * not notice.
 *
 * Critical sections. A program accesses shared memory between fast_critical_begin() and
 * fast_critical_end(). While recording, that is a lock and a serial number; the caller's key
 * selects one of FAST_TRACE_LOCKS locks, so that unrelated memory rarely shares one. A section is
 * short and waits for no actor, hence there is no deadlock.
 *
 * A program that does not follow its trace (other code, other arithmetic) is detected by the kind
 * of its next event, by a section that is over, or because no event is replayed for the time of a
 * timeout; then the run is canceled and fails with the actor, its step and the mismatch.
 *
 * Cost while recording: some 10 ns and 1 to 4 bytes an event; two or three events for each message
 * and each access to shared memory.
 */
#include "transport/record/replay.h"

#include "base/file.h"
#include "base/memory.h"
#include "transport/record/recording.h"
#include "transport/transport.h"

#include <inttypes.h>
#include <stdalign.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

enum {
    SPINS = 2000,          /* polls of a lock's order before its actor sleeps */
    NAP_NS = 50 * 1000000, /* a sleep after which the progress of the replay is checked */
};

/* Used by its actor alone, except for the last two fields. */
struct fast_trace {
    fast_actor *actor;                    /* whose trace this is */
    int64_t clock;                        /* the last time that the program read */
    int64_t sections[FAST_TRACE_LOCKS];   /* for each lock, the next section that may be its own */
    int lock;                             /* of its open critical section; -1: not in one */
    unsigned char *events;                /* recording: [FAST_TRACE_PIECE] */
    size_t used;                          /* bytes of events */
    fast_trace_reader reader;             /* replaying: position in the trace */
    fast_trace_event next;                /* the event that is due, if has_next */
    bool has_next;                        /* `next` was read and not taken */
    bool passing;                         /* a message that is due is being delivered */
    fast_msg_queue *held;                 /* replaying: [actors] messages that are not due */
    alignas(FAST_ALIGN) atomic_uint bell; /* futex: changed when its critical section is due */
    atomic_bool asleep;                   /* it sleeps on the bell */
};

/* A lock of critical sections. */
typedef struct order_lock {
    alignas(FAST_ALIGN) fast_mutex mutex; /* held in a section */
    atomic_llong next;                    /* serial number of the section that is due */
} order_lock;

struct fast_record_state {
    fast_transport wrapper;                 /* the inner transport with some operations replaced */
    bool replay;                            /* else the run is recorded */
    bool over;                              /* all programs returned: the clocks stand still */
    order_lock locks[FAST_TRACE_LOCKS];     /* of critical sections */
    int64_t count;                          /* number of actors */
    fast_trace *traces;                     /* [count] */
    fast_recording_writer file;             /* recording */
    fast_recording recording;               /* replaying */
    alignas(FAST_ALIGN) atomic_llong moves; /* events that were replayed, by all actors */
    atomic_bool broken;                     /* the run does not follow its recording */
    fast_mutex mutex;                       /* guards why */
    char why[FAST_DETAIL_MAX];              /* the first mismatch */
};

/* The run does not follow its recording: store the first mismatch and stop all actors. */
__attribute__((format(printf, 2, 3))) static void diverge(fast_world *world, const char *format,
                                                          ...)
{
    fast_record_state *record = world->record;
    fast__mutex_lock(&record->mutex);
    if (!atomic_load(&record->broken)) {
        va_list args;
        va_start(args, format);
        vsnprintf(record->why, sizeof record->why, format, args);
        va_end(args);
    }
    atomic_store(&record->broken, true);
    fast__mutex_unlock(&record->mutex);
    atomic_store(&world->canceled, true);
    for (int64_t i = 0; i < record->count; i++) {
        world->inner->wake(record->traces[i].actor, i);
        atomic_fetch_add(&record->traces[i].bell, 1);
        fast__futex_wake(&record->traces[i].bell);
    }
}

/* Return what a program does at an event of this kind, for the error of a mismatch. */
static const char *kind_text(fast_trace_kind kind)
{
    static const char *const texts[] = { "reads the clock", "takes a message",
                                         "comes back from a wait", "uses shared memory",
                                         "looks at a flag" };
    return texts[kind];
}

/* Read the event that is due, which must be of this kind. False if the run has diverged. */
static bool is_due(fast_trace *trace, fast_trace_kind kind)
{
    fast_world *world = trace->actor->world;
    fast_record_state *record = world->record;
    char name[64];
    if (atomic_load_explicit(&record->broken, memory_order_relaxed))
        return false;
    if (!trace->has_next)
        trace->has_next = fast__trace_read(&record->recording, &trace->reader, &trace->next);
    if (trace->has_next && trace->next.kind == kind)
        return true;
    fast__actor_name(world, trace->actor->id, name, sizeof name);
    diverge(world,
            "the run does not follow its recording: %s, at step %" PRId64
            ", %s where %s; was it recorded by this program, with these data?",
            name, trace->actor->step, kind_text(kind),
            trace->has_next ? kind_text(trace->next.kind) : "its recording ends");
    return false;
}

/* Take the event that is due and return its value. */
static uint64_t take_event(fast_trace *trace)
{
    FAST_ASSERT(trace->has_next);
    trace->has_next = false;
    atomic_fetch_add_explicit(&trace->actor->world->record->moves, 1, memory_order_relaxed);
    return trace->next.value;
}

/* Recording: append an event to the trace. */
static void put_event(fast_trace *trace, fast_trace_kind kind, uint64_t value)
{
    if (trace->used > FAST_TRACE_PIECE - FAST_TRACE_EVENT_MAX) {
        fast__recording_append(&trace->actor->world->record->file, trace->actor->id, trace->events,
                               trace->used);
        trace->used = 0;
    }
    trace->used += fast__trace_put(trace->events + trace->used, kind, value);
}

int64_t fast__record_peek_now(fast_actor *actor)
{
    return actor->trace ? actor->trace->clock : actor->world->inner->now(actor);
}

int64_t fast__record_value(fast_actor *actor, int64_t value)
{
    fast_trace *trace = actor->trace;
    if (!trace)
        return value;
    if (!actor->world->record->replay)
        put_event(trace, FAST_TRACE_VALUE, fast__trace_fold(value));
    else if (is_due(trace, FAST_TRACE_VALUE))
        return fast__trace_unfold(take_event(trace));
    return value;
}

/* Watches whether a replay makes progress. */
typedef struct replay_watch {
    long long moves; /* events replayed at the last check */
    int64_t since;   /* time of the last progress, on the machine's clock */
} replay_watch;

/* False if no event was replayed for the time of a timeout, unless an evaluation holds the actors.
 * */
static bool is_alive(fast_actor *actor, replay_watch *w)
{
    fast_world *world = actor->world;
    const long long moves = atomic_load(&world->record->moves);
    const int64_t now = world->inner->now(actor);
    if (moves != w->moves || atomic_load(&world->hold) == INT64_MAX)
        *w = (replay_watch){ moves, now };
    return now - w->since <= world->timeout_ns;
}

/* Wait until a critical section is due. */
static void wait_section(fast_trace *trace, int lock, long long section)
{
    fast_actor *actor = trace->actor;
    fast_record_state *record = actor->world->record;
    order_lock *l = &record->locks[lock];
    replay_watch w = { -1, 0 };
    char name[64], other[64];

    for (int i = 0; i < SPINS && atomic_load(&l->next) < section; i++)
        fast__cpu_pause();
    while (atomic_load(&l->next) < section && !atomic_load(&record->broken)) {
        const unsigned bell = atomic_load(&trace->bell);
        atomic_store(&trace->asleep, true);
        if (atomic_load(&l->next) < section)
            fast__futex_wait(&trace->bell, bell, NAP_NS);
        atomic_store(&trace->asleep, false);
        if (atomic_load(&l->next) >= section || is_alive(actor, &w))
            continue;
        fast__actor_name(actor->world, actor->id, name, sizeof name);
        fast__actor_name(actor->world, record->recording.owner_of[lock][atomic_load(&l->next)],
                         other, sizeof other);
        diverge(actor->world,
                "the run does not follow its recording: %s, at step %" PRId64
                ", waits to use shared memory after %s, which does not come",
                name, actor->step, other);
    }
}

void fast_critical_begin(fast_actor *actor, uint64_t key)
{
    FAST_ASSERT(actor != NULL);
    fast_trace *trace = actor->trace;
    if (!trace)
        return;
    FAST_ASSERT(trace->lock < 0);
    fast_record_state *record = actor->world->record;
    const int lock = (int)(key * 0x9e3779b97f4a7c15u >> 60) % FAST_TRACE_LOCKS;
    order_lock *l = &record->locks[lock];
    trace->lock = lock;
    if (record->replay) {
        if (is_due(trace, FAST_TRACE_LOCK)) {
            const uint64_t value = trace->next.value;
            if (value % FAST_TRACE_LOCKS == (uint64_t)lock) {
                trace->sections[lock] += (int64_t)(value / FAST_TRACE_LOCKS);
                wait_section(trace, lock, trace->sections[lock]++);
                (void)take_event(trace);
            } else {
                diverge(actor->world, "the run does not follow its recording: it uses other "
                                      "shared memory");
            }
        }
        fast__mutex_lock(&l->mutex);
        return;
    }
    fast__mutex_lock(&l->mutex);
    const long long section = atomic_load_explicit(&l->next, memory_order_relaxed);
    atomic_store_explicit(&l->next, section + 1, memory_order_relaxed);
    put_event(trace, FAST_TRACE_LOCK,
              (uint64_t)(section - trace->sections[lock]) * FAST_TRACE_LOCKS + (uint64_t)lock);
    trace->sections[lock] = section + 1;
}

void fast_critical_end(fast_actor *actor)
{
    FAST_ASSERT(actor != NULL);
    fast_trace *trace = actor->trace;
    if (!trace)
        return;
    FAST_ASSERT(trace->lock >= 0);
    fast_record_state *record = actor->world->record;
    order_lock *l = &record->locks[trace->lock];
    const fast_recording *recording = &record->recording;
    fast__mutex_unlock(&l->mutex);
    if (record->replay && !atomic_load_explicit(&record->broken, memory_order_relaxed)) {
        const long long next = atomic_fetch_add(&l->next, 1) + 1;
        if (next < recording->sections[trace->lock]) {
            fast_trace *other = &record->traces[recording->owner_of[trace->lock][next]];
            if (atomic_load(&other->asleep)) {
                atomic_fetch_add(&other->bell, 1);
                fast__futex_wake(&other->bell);
            }
        }
    }
    trace->lock = -1;
}

bool fast__record_deliver(fast_actor *actor, fast_msg *msg)
{
    fast_trace *trace = actor->trace;
    if (!actor->world->record->replay) {
        put_event(trace, FAST_TRACE_DELIVER, (uint64_t)msg->from);
        return false;
    }
    if (trace->passing)
        return false;
    FAST_ASSERT(msg->from >= 0 && msg->from < actor->world->count);
    fast_msg_queue *h = &trace->held[msg->from];
    fast__msg_push(h, msg);
    return true;
}

/* transport->now: record the clock, or return the recorded one. It stands still after the run, so
 * that sums over the run are those of the recording. */
static int64_t record_now(fast_actor *actor)
{
    fast_trace *trace = actor->trace;
    if (actor->world->record->over)
        return trace->clock;
    if (!actor->world->record->replay) {
        const int64_t now = actor->world->inner->now(actor);
        put_event(trace, FAST_TRACE_NOW, fast__trace_fold(now - trace->clock));
        trace->clock = now;
    } else if (is_due(trace, FAST_TRACE_NOW)) {
        trace->clock += fast__trace_unfold(take_event(trace));
    }
    return trace->clock;
}

/* Replaying: wait for the next message of the sender; NULL if the replay stops. */
static fast_msg *await(fast_actor *actor, int64_t from)
{
    fast_trace *trace = actor->trace;
    const fast_world *world = actor->world;
    fast_msg_queue *h = &trace->held[from];
    replay_watch w = { -1, 0 };
    char name[64], other[64];

    while (!h->first) {
        if (world->inner->wait(actor, world->inner->now(actor) + NAP_NS))
            return NULL;
        if (h->first || is_alive(actor, &w))
            continue;
        fast__actor_name(world, actor->id, name, sizeof name);
        fast__actor_name(world, from, other, sizeof other);
        diverge(actor->world,
                "the run does not follow its recording: %s, at step %" PRId64
                ", waits for a message of %s, which does not come",
                name, actor->step, other);
        return NULL;
    }
    return fast__msg_pop(h);
}

/* Fail the call of an actor whose replay was stopped. */
static fast_err stop(void)
{
    return fast__fail(FAST_ECANCELED, "the replay was stopped");
}

/* transport->wait. Recording: the inner transport delivers, and fast__record_deliver() writes an
 * event for each message; then the return of the wait is an event. Replaying: deliver the messages
 * that the trace lists, waiting for each as long as it takes, until the trace says that the wait
 * returned. */
static fast_err record_wait(fast_actor *actor, int64_t deadline)
{
    fast_trace *trace = actor->trace;
    const fast_record_state *record = actor->world->record;
    if (!record->replay) {
        const fast_err err = actor->world->inner->wait(actor, deadline);
        put_event(trace, FAST_TRACE_WAIT, actor->waiting.brief);
        return err;
    }
    for (;;) {
        if (!trace->has_next)
            trace->has_next = fast__trace_read(&record->recording, &trace->reader, &trace->next);
        if (!trace->has_next || trace->next.kind != FAST_TRACE_DELIVER)
            break;
        fast_msg *msg = await(actor, (int64_t)trace->next.value);
        if (!msg)
            return stop();
        (void)take_event(trace);
        trace->passing = true;
        (void)fast__deliver(actor, msg);
        trace->passing = false;
    }
    if (!is_due(trace, FAST_TRACE_WAIT))
        return stop();
    actor->waiting.brief = take_event(trace) != 0;
    return FAST_OK;
}

/* transport->charge: as the inner transport, unless the replay was stopped. */
static fast_err record_charge(fast_actor *actor, double operations, double bytes)
{
    if (atomic_load_explicit(&actor->world->record->broken, memory_order_relaxed))
        return stop();
    const fast_transport *inner = actor->world->inner;
    return inner->charge ? inner->charge(actor, operations, bytes) : FAST_OK;
}

/* transport->compute: as the inner transport, unless the replay was stopped. */
static fast_err record_compute(fast_actor *actor, fast_work *work)
{
    const fast_transport *inner = actor->world->inner;
    if (atomic_load_explicit(&actor->world->record->broken, memory_order_relaxed))
        return stop();
    return inner->compute ? inner->compute(actor, work) : fast__compute_direct(actor, work);
}

/* Drop messages that never became due: the recorded run did not receive them either. */
static void lose_held(fast_world *world, fast_trace *trace)
{
    for (int64_t i = 0; trace->held && i < world->count; i++) {
        fast_msg *msg;
        while ((msg = fast__msg_pop(&trace->held[i]))) {
            if (msg->tag != FAST_TAG_ENDED)
                atomic_fetch_add(&world->lost, 1);
            fast_msg_free(msg);
        }
    }
    fast__free(trace->held);
    trace->held = NULL;
}

/* transport->run: after the run, write the rest of each trace, or verify that each was used up. */
static fast_err record_run(fast_world *world)
{
    fast_record_state *record = world->record;
    FAST_TRY(world->inner->run(world));
    record->over = true;
    for (int64_t i = 0; i < record->count; i++) {
        fast_trace *trace = &record->traces[i];
        char name[64];
        lose_held(world, trace);
        if (!record->replay) {
            fast__recording_append(&record->file, i, trace->events, trace->used);
        } else if (!atomic_load(&record->broken) &&
                   (trace->has_next ||
                    !fast__trace_is_at_end(&record->recording, &trace->reader))) {
            fast__actor_name(world, i, name, sizeof name);
            diverge(world, "the run does not follow its recording: %s ended before its trace",
                    name);
        }
    }
    if (!record->replay)
        fast__recording_finish(&record->file);
    return atomic_load(&record->broken) ? fast__fail(FAST_EINVAL, "%s", record->why) : FAST_OK;
}

/* Free the record state of a world. */
static void record_free(fast_world *world)
{
    fast_record_state *record = world->record;
    for (int64_t i = 0; record->traces && i < record->count; i++) {
        lose_held(world, &record->traces[i]);
        fast__free(record->traces[i].events);
    }
    if (record->file.path[0])
        fast__recording_discard(&record->file);
    fast__recording_fini(&record->recording);
    for (int i = 0; i < FAST_TRACE_LOCKS; i++)
        fast__mutex_fini(&record->locks[i].mutex);
    fast__mutex_fini(&record->mutex);
    fast__free(record->traces);
    fast__free(record);
    world->record = NULL;
}

/* transport->close: remove the wrapper and close the inner transport. */
static void record_close(fast_world *world)
{
    if (!world)
        return;
    record_free(world);
    world->transport = world->inner;
    world->inner->close(world);
}

const char *fast__record_note(const fast_world *world)
{
    const fast_record_state *record = world->record;
    return record && !record->replay && record->file.why[0] ? record->file.why : NULL;
}

bool fast__record_is_broken(const fast_world *world)
{
    return world->record && atomic_load(&world->record->broken);
}

void fast__record_stop(fast_world *world, const char *why)
{
    if (world->record && world->record->replay)
        diverge(world, "%s", why);
}

/* Allocate the traces of all actors. */
static fast_err make_traces(fast_world *world)
{
    fast_record_state *record = world->record;
    FAST_TRY(fast__alloc("traces", world->count, sizeof *record->traces, &record->traces));
    record->count = world->count;
    for (int64_t i = 0; i < world->count; i++) {
        fast_trace *trace = &record->traces[i];
        FAST_ASSERT(world->actors[i] != NULL);
        trace->actor = world->actors[i];
        trace->lock = -1;
        if (record->replay) {
            FAST_TRY(fast__alloc("a trace", world->count, sizeof *trace->held, &trace->held));
            fast__trace_rewind(&record->recording, i, &trace->reader);
        } else {
            FAST_TRY(fast__alloc("a trace", FAST_TRACE_PIECE, 1, &trace->events));
        }
    }
    return FAST_OK;
}

/* Read and verify the recording at `path`. */
static fast_err load(fast_world *world, const char *path, const char *text)
{
    fast_recording *recording = &world->record->recording;
    unsigned char *bytes = NULL;
    size_t size = 0;
    FAST_TRY(fast__file_read(path, FAST_RECORDING_MAX, &bytes, &size));
    FAST_TRY(fast__recording_parse(path, bytes, size, recording));
    FAST_TRY(fast__record_check(path, recording, text));
    if (recording->actors != world->count)
        return fast__fail(FAST_EINVAL,
                          "recording \"%.200s\" is of %" PRId64 " actors, not %" PRId64, path,
                          recording->actors, world->count);
    return FAST_OK;
}

/* Open the files and traces of a record state. */
static fast_err build(fast_world *world, const char *text)
{
    const fast_actors_config *c = &world->config;
    if (world->record->replay)
        FAST_TRY(load(world, c->replay, text));
    FAST_TRY(make_traces(world));
    if (!world->record->replay)
        FAST_TRY(fast__recording_create(&world->record->file, c->record, world->count, text));
    return FAST_OK;
}

fast_err fast__record_wrap(fast_world *world)
{
    FAST_ASSERT(world != NULL && world->record == NULL);
    fast_record_state *record = NULL;
    char *text = NULL;
    FAST_TRY(fast__record_text(world, &text));
    fast_err err = fast__alloc("a record", 1, sizeof *record, &record);
    if (err) {
        fast__free(text);
        return err;
    }
    for (int i = 0; i < FAST_TRACE_LOCKS; i++)
        fast__mutex_init(&record->locks[i].mutex);
    fast__mutex_init(&record->mutex);
    record->replay = world->config.replay[0] != '\0';
    world->record = record;
    err = build(world, text);
    fast__free(text);
    if (err) {
        record_free(world);
        return err;
    }
    for (int64_t i = 0; i < world->count; i++)
        world->actors[i]->trace = &record->traces[i];
    record->wrapper = *world->inner;
    record->wrapper.close = record_close;
    record->wrapper.run = record_run;
    record->wrapper.wait = record_wait;
    record->wrapper.now = record_now;
    record->wrapper.charge = record_charge;
    record->wrapper.compute = record_compute;
    world->transport = &record->wrapper;
    return FAST_OK;
}
