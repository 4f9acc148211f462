/* SPDX-License-Identifier: Apache-2.0 */
/*
 * record: wraps a transport whose order is the machine's, writes down what that order was, and
 * makes it so again. An actor's program is determined but for what it is told from outside:
 *
 *     wait     which messages it takes, of whom, in which order; and that it came back
 *     now      the clock
 *     turns    when its pieces of work on shared memory come in the order of all of them
 *     values   flags that others set: a cancel
 *
 * Each of these is an event on the actor's tape (recording.h), in the order in which the program
 * meets them. In a replay, a wait takes the messages that are due and holds back those that are
 * not, however long it takes for them to come; the clock reads what it read; a turn waits until all
 * turns before it are over. Everything else follows: what programs send, when they time out, whom
 * they blame. Programs know nothing of it.
 *
 * Turns. Whoever touches shared memory that others write does so between fast_turn_begin() and
 * fast_turn_end(). Recording, that is a lock and a number; there are LOCKS of them, chosen by the
 * caller's key, so that memories that have nothing to do with each other do not wait for each
 * other. A turn is short and waits for nobody, hence no circle.
 *
 * A program that does not follow its tape (other code, another machine's arithmetic) is found out
 * by the kind of its next event, by a turn that is over, or because nothing moves for as long as a
 * wait may take; then the run is canceled and fails with who, where and what.
 *
 * Cost while recording: some 10 ns an event, 1 to 4 bytes; two or three events for each message and
 * each reading of shared memory.
 */
#include "transport/record/replay.h"

#include "base/file.h"
#include "base/memory.h"
#include "transport/transport.h"

#include <inttypes.h>
#include <stdalign.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

enum {
    SPINS = 2000,          /* looks at a turn before its actor sleeps */
    NAP_NS = 50 * 1000000, /* a sleep after which it is looked whether anything moves */
};

/* Messages of one sender that are not due. */
typedef struct held_messages {
    fast_msg *first; /* the oldest */
    fast_msg *last;  /* the newest, if there is one */
} held_messages;

/* Touched by its actor alone, but for what comes last. */
struct fast_trace {
    fast_actor *actor;
    int64_t clock;                        /* the last reading */
    int64_t turns[FAST_TRACE_LOCKS];      /* the next that could be its own */
    int lock;                             /* of the turn that it has; -1: none */
    unsigned char *events;                /* recording: [FAST_TRACE_PIECE] */
    size_t used;                          /* bytes of them */
    fast_trace_reader reader;             /* replaying */
    fast_trace_event next;                /* the event that is due */
    bool has_next;                        /* and it was read */
    bool passing;                         /* a message that is due is being delivered */
    held_messages *held;                  /* replaying: [actors] */
    alignas(FAST_ALIGN) atomic_uint bell; /* others ring it when its turn comes */
    atomic_bool asleep;                   /* it listens */
};

/* An order of turns. */
typedef struct order_lock {
    alignas(FAST_ALIGN) fast_mutex mutex; /* held in a turn */
    atomic_llong next;                    /* the turn that is due */
} order_lock;

struct fast_record_state {
    bool replay;                            /* else it is recorded */
    bool over;                              /* all programs are: clocks stand still */
    order_lock locks[FAST_TRACE_LOCKS];     /* orders of turns */
    int64_t count;                          /* of actors */
    fast_trace *tapes;                      /* theirs */
    fast_recording_writer file;             /* recording */
    fast_recording recording;               /* replaying */
    alignas(FAST_ALIGN) atomic_llong moves; /* events that were replayed, by all */
    atomic_bool broken;                     /* the run does not follow */
    fast_mutex mutex;                       /* guards why */
    char why[FAST_DETAIL_MAX];              /* it does not */
};

/* The run does not follow its recording: keep the first reason, and let everybody stop. */
__attribute__((format(printf, 2, 3))) static void fall_out(fast_world *world, const char *format,
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
        world->inner->wake(record->tapes[i].actor, i);
        atomic_fetch_add(&record->tapes[i].bell, 1);
        fast__futex_wake(&record->tapes[i].bell);
    }
}

static const char *kind_text(fast_trace_kind kind)
{
    static const char *const texts[] = { "reads the clock", "takes a message",
                                         "comes back from a "
                                         "wait",
                                         "uses shared memory", "looks at a flag" };
    return texts[kind];
}

/* The event that is due, which must be of this kind. False if the run has fallen out. */
static bool is_due(fast_trace *tape, fast_trace_kind kind)
{
    fast_world *world = tape->actor->world;
    fast_record_state *record = world->record;
    char name[64];
    if (atomic_load_explicit(&record->broken, memory_order_relaxed))
        return false;
    if (!tape->has_next)
        tape->has_next = fast__trace_read(&record->recording, &tape->reader, &tape->next);
    if (tape->has_next && tape->next.kind == kind)
        return true;
    fast__actor_name(world, tape->actor->id, name, sizeof name);
    fall_out(world,
             "the run does not follow its recording: %s, at step %" PRId64
             ", %s where %s; was it recorded by this program, with these data?",
             name, tape->actor->step, kind_text(kind),
             tape->has_next ? kind_text(tape->next.kind) : "its recording ends");
    return false;
}

/* Take it. */
static uint64_t take_event(fast_trace *tape)
{
    FAST_ASSERT(tape->has_next);
    tape->has_next = false;
    atomic_fetch_add_explicit(&tape->actor->world->record->moves, 1, memory_order_relaxed);
    return tape->next.value;
}

/* Recording: write an event down. */
static void put_event(fast_trace *tape, fast_trace_kind kind, uint64_t value)
{
    if (tape->used > FAST_TRACE_PIECE - FAST_TRACE_EVENT_MAX) {
        fast__recording_append(&tape->actor->world->record->file, tape->actor->id, tape->events,
                               tape->used);
        tape->used = 0;
    }
    tape->used += fast__trace_put(tape->events + tape->used, kind, value);
}

int64_t fast__record_look(fast_actor *actor)
{
    return actor->tape ? actor->tape->clock : actor->world->inner->now(actor);
}

int64_t fast__record_value(fast_actor *actor, int64_t value)
{
    fast_trace *tape = actor->tape;
    if (!tape)
        return value;
    if (!actor->world->record->replay)
        put_event(tape, FAST_TRACE_VALUE, fast__trace_fold(value));
    else if (is_due(tape, FAST_TRACE_VALUE))
        return fast__trace_unfold(take_event(tape));
    return value;
}

/* Watches a wait of a replay: does anything move at all? */
typedef struct replay_watch {
    long long moves; /* when last looked */
    int64_t since;   /* by the machine's clock */
} replay_watch;

/* False if nothing has moved for as long as a wait may take. Judging a model holds everyone. */
static bool is_alive(fast_actor *actor, replay_watch *w)
{
    fast_world *world = actor->world;
    const long long moves = atomic_load(&world->record->moves);
    const int64_t now = world->inner->now(actor);
    if (moves != w->moves || atomic_load(&world->hold) == INT64_MAX)
        *w = (replay_watch){ moves, now };
    return now - w->since <= world->timeout_ns;
}

/* Wait for an actor's turn. */
static void wait_turn(fast_trace *tape, int lock, long long turn)
{
    fast_actor *actor = tape->actor;
    fast_record_state *record = actor->world->record;
    order_lock *l = &record->locks[lock];
    replay_watch w = { -1, 0 };
    char name[64], other[64];

    for (int i = 0; i < SPINS && atomic_load(&l->next) < turn; i++)
        fast__cpu_pause();
    while (atomic_load(&l->next) < turn && !atomic_load(&record->broken)) {
        const unsigned bell = atomic_load(&tape->bell);
        atomic_store(&tape->asleep, true);
        if (atomic_load(&l->next) < turn)
            fast__futex_wait(&tape->bell, bell, NAP_NS);
        atomic_store(&tape->asleep, false);
        if (atomic_load(&l->next) >= turn || is_alive(actor, &w))
            continue;
        fast__actor_name(actor->world, actor->id, name, sizeof name);
        fast__actor_name(actor->world, record->recording.whose[lock][atomic_load(&l->next)], other,
                         sizeof other);
        fall_out(actor->world,
                 "the run does not follow its recording: %s, at step %" PRId64
                 ", waits to use shared memory after %s, which does not come",
                 name, actor->step, other);
    }
}

void fast_turn_begin(fast_actor *actor, uint64_t key)
{
    FAST_ASSERT(actor != NULL);
    fast_trace *tape = actor->tape;
    if (!tape)
        return;
    FAST_ASSERT(tape->lock < 0);
    fast_record_state *record = actor->world->record;
    const int lock = (int)(key * 0x9e3779b97f4a7c15u >> 60) % FAST_TRACE_LOCKS;
    order_lock *l = &record->locks[lock];
    tape->lock = lock;
    if (record->replay) {
        if (is_due(tape, FAST_TRACE_LOCK)) {
            const uint64_t value = tape->next.value;
            if (value % FAST_TRACE_LOCKS == (uint64_t)lock) {
                tape->turns[lock] += (int64_t)(value / FAST_TRACE_LOCKS);
                wait_turn(tape, lock, tape->turns[lock]++);
                (void)take_event(tape);
            } else {
                fall_out(actor->world, "the run does not follow its recording: it uses other "
                                       "shared memory");
            }
        }
        fast__mutex_lock(&l->mutex);
        return;
    }
    fast__mutex_lock(&l->mutex);
    const long long turn = atomic_load_explicit(&l->next, memory_order_relaxed);
    atomic_store_explicit(&l->next, turn + 1, memory_order_relaxed);
    put_event(tape, FAST_TRACE_LOCK,
              (uint64_t)(turn - tape->turns[lock]) * FAST_TRACE_LOCKS + (uint64_t)lock);
    tape->turns[lock] = turn + 1;
}

void fast_turn_end(fast_actor *actor)
{
    FAST_ASSERT(actor != NULL);
    fast_trace *tape = actor->tape;
    if (!tape)
        return;
    FAST_ASSERT(tape->lock >= 0);
    fast_record_state *record = actor->world->record;
    order_lock *l = &record->locks[tape->lock];
    const fast_recording *recording = &record->recording;
    fast__mutex_unlock(&l->mutex);
    if (record->replay && !atomic_load_explicit(&record->broken, memory_order_relaxed)) {
        const long long next = atomic_fetch_add(&l->next, 1) + 1;
        if (next < recording->turns[tape->lock]) {
            fast_trace *other = &record->tapes[recording->whose[tape->lock][next]];
            if (atomic_load(&other->asleep)) {
                atomic_fetch_add(&other->bell, 1);
                fast__futex_wake(&other->bell);
            }
        }
    }
    tape->lock = -1;
}

bool fast__record_deliver(fast_actor *actor, fast_msg *msg)
{
    fast_trace *tape = actor->tape;
    if (!actor->world->record->replay) {
        put_event(tape, FAST_TRACE_DELIVER, (uint64_t)msg->from);
        return false;
    }
    if (tape->passing)
        return false;
    held_messages *h = &tape->held[msg->from];
    msg->next = NULL;
    *(h->first ? &h->last->next : &h->first) = msg;
    h->last = msg;
    return true;
}

static int64_t record_now(fast_actor *actor)
{
    fast_trace *tape = actor->tape;
    if (actor->world->record->over)
        return tape->clock;
    if (!actor->world->record->replay) {
        const int64_t now = actor->world->inner->now(actor);
        put_event(tape, FAST_TRACE_NOW, fast__trace_fold(now - tape->clock));
        tape->clock = now;
    } else if (is_due(tape, FAST_TRACE_NOW)) {
        tape->clock += fast__trace_unfold(take_event(tape));
    }
    return tape->clock;
}

/* Replaying: the next message of the sender, when it comes; NULL if it does not. */
static fast_msg *await(fast_actor *actor, int64_t from)
{
    fast_trace *tape = actor->tape;
    const fast_world *world = actor->world;
    held_messages *h = &tape->held[from];
    replay_watch w = { -1, 0 };
    char name[64], other[64];

    while (!h->first) {
        if (world->inner->wait(actor, world->inner->now(actor) + NAP_NS))
            return NULL;
        if (h->first || is_alive(actor, &w))
            continue;
        fast__actor_name(world, actor->id, name, sizeof name);
        fast__actor_name(world, from, other, sizeof other);
        fall_out(actor->world,
                 "the run does not follow its recording: %s, at step %" PRId64
                 ", waits for a message of %s, which does not come",
                 name, actor->step, other);
        return NULL;
    }
    fast_msg *msg = h->first;
    h->first = msg->next;
    return msg;
}

static fast_err stop(const fast_actor *actor)
{
    (void)actor;
    return fast__fail(FAST_ECANCELED, "the replay was stopped");
}

static fast_err record_wait(fast_actor *actor, int64_t deadline)
{
    fast_trace *tape = actor->tape;
    const fast_record_state *record = actor->world->record;
    if (!record->replay) {
        const fast_err err = actor->world->inner->wait(actor, deadline);
        put_event(tape, FAST_TRACE_WAIT, actor->brief);
        return err;
    }
    for (;;) {
        if (!tape->has_next)
            tape->has_next = fast__trace_read(&record->recording, &tape->reader, &tape->next);
        if (!tape->has_next || tape->next.kind != FAST_TRACE_DELIVER)
            break;
        fast_msg *msg = await(actor, (int64_t)tape->next.value);
        if (!msg)
            return stop(actor);
        (void)take_event(tape);
        tape->passing = true;
        (void)fast__deliver(actor, msg);
        tape->passing = false;
    }
    if (!is_due(tape, FAST_TRACE_WAIT))
        return stop(actor);
    actor->brief = take_event(tape) != 0;
    return FAST_OK;
}

static void record_send(fast_actor *actor, fast_msg *msg)
{
    actor->world->inner->send(actor, msg);
}

static void record_wake(fast_actor *actor, int64_t id)
{
    actor->world->inner->wake(actor, id);
}

static fast_err record_charge(fast_actor *actor, double operations, double bytes)
{
    if (atomic_load_explicit(&actor->world->record->broken, memory_order_relaxed))
        return stop(actor);
    return actor->world->inner->charge(actor, operations, bytes);
}

static fast_err record_compute(fast_actor *actor, fast_work *work)
{
    const fast_transport *inner = actor->world->inner;
    if (atomic_load_explicit(&actor->world->record->broken, memory_order_relaxed))
        return stop(actor);
    return inner->compute ? inner->compute(actor, work) : fast__compute_direct(actor, work);
}

static fast_err record_share(fast_actor *actor, uint64_t key, size_t size, void *out)
{
    return actor->world->inner->share(actor, key, size, out);
}

/* What was sent and never due is lost, as it was in the run that was recorded. */
static void lose_held(fast_world *world, fast_trace *tape)
{
    for (int64_t i = 0; tape->held && i < world->count; i++)
        for (fast_msg *msg = tape->held[i].first; msg;) {
            fast_msg *next = msg->next;
            if (msg->tag != FAST_TAG_ENDED)
                atomic_fetch_add(&world->lost, 1);
            fast_msg_free(msg);
            msg = next;
        }
    fast__free(tape->held);
    tape->held = NULL;
}

static fast_err record_run(fast_world *world)
{
    fast_record_state *record = world->record;
    FAST_TRY(world->inner->run(world));
    record->over = true;
    for (int64_t i = 0; i < record->count; i++) {
        fast_trace *tape = &record->tapes[i];
        char name[64];
        lose_held(world, tape);
        if (!record->replay) {
            fast__recording_append(&record->file, i, tape->events, tape->used);
        } else if (!atomic_load(&record->broken) &&
                   (tape->has_next || !fast__trace_is_at_end(&record->recording, &tape->reader))) {
            fast__actor_name(world, i, name, sizeof name);
            fall_out(world, "the run does not follow its recording: %s ended before its tape",
                     name);
        }
    }
    if (!record->replay)
        fast__recording_finish(&record->file);
    return atomic_load(&record->broken) ? fast__fail(FAST_EINVAL, "%s", record->why) : FAST_OK;
}

static void record_free(fast_world *world)
{
    fast_record_state *record = world->record;
    for (int64_t i = 0; record->tapes && i < record->count; i++) {
        lose_held(world, &record->tapes[i]);
        fast__free(record->tapes[i].events);
    }
    if (record->file.path[0])
        fast__recording_discard(&record->file);
    fast__recording_fini(&record->recording);
    for (int i = 0; i < FAST_TRACE_LOCKS; i++)
        fast__mutex_fini(&record->locks[i].mutex);
    fast__mutex_fini(&record->mutex);
    fast__free(record->tapes);
    fast__free(record);
    world->record = NULL;
}

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
        fall_out(world, "%s", why);
}

/* The memory of all tapes. */
static fast_err make_tapes(fast_world *world)
{
    fast_record_state *record = world->record;
    FAST_TRY(fast__alloc("tapes", world->count, sizeof *record->tapes, &record->tapes));
    record->count = world->count;
    for (int64_t i = 0; i < world->count; i++) {
        fast_trace *tape = &record->tapes[i];
        FAST_ASSERT(world->actors[i] != NULL);
        tape->actor = world->actors[i];
        tape->lock = -1;
        if (record->replay) {
            FAST_TRY(fast__alloc("a tape", world->count, sizeof *tape->held, &tape->held));
            fast__trace_rewind(&record->recording, i, &tape->reader);
        } else {
            FAST_TRY(fast__alloc("a tape", FAST_TRACE_PIECE, 1, &tape->events));
        }
    }
    return FAST_OK;
}

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

static fast_err build(fast_world *world, const char *text)
{
    const fast_actors_config *c = &world->config;
    if (world->record->replay)
        FAST_TRY(load(world, c->replay, text));
    FAST_TRY(make_tapes(world));
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
        world->actors[i]->tape = &record->tapes[i];
    world->transport = &fast__transport_record;
    return FAST_OK;
}

static fast_err record_open(const fast_actors_config *config, const fast_role *roles,
                            int64_t role_count, fast_world **world_out)
{
    (void)config, (void)roles, (void)role_count, (void)world_out;
    return fast__fail(FAST_EINVAL, "record wraps another transport: say record=FILE");
}

const fast_transport fast__transport_record = {
    .name = "record",
    .summary = "wraps another transport and records or replays its run",
    .open = record_open,
    .close = record_close,
    .run = record_run,
    .send = record_send,
    .wait = record_wait,
    .wake = record_wake,
    .now = record_now,
    .charge = record_charge,
    .compute = record_compute,
    .share = record_share,
};
