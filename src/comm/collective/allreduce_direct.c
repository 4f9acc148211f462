/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Allreduce in shared memory, for actors of one process. Nothing is sent: each member publishes
 * the address of its vector on a board that all share, waits until all members have, sums one slice
 * of all vectors in the canonical order (sum.c) and writes it to all of them, publishes that, and
 * waits until all members have. The members' operations are numbered; a member's row has two
 * counters, which the member writes and all read:
 *
 *     posted   operations whose vector it has lent
 *     done     operations whose slice it has written
 *
 *     post k:   all members' done >= k + 1 - SLOTS          a slot of the board is used again
 *     sum k:    all members' posted >= k + 1                all vectors are lent
 *     end k:    all members' done >= k + 1                  all slices are written
 *
 * So there are two waits and no barrier behind them. Small vectors are copied to the board instead
 * and each member sums all of them: one wait. Each row has cache lines of its own.
 *
 * A member waits by spinning for a while, where fast_world.spins says that it pays, then blocks in
 * the transport; a member that publishes wakes those that wait for it. Where actors outnumber
 * cores no member spins: arrivals are counted and the last one wakes all, and more vectors count as
 * small, since a wait is expensive. A member that gives up marks the board as broken and waits
 * until no member is `touching`: afterwards none enters, so that its vector is its own again.
 *
 * Instead of writing the sum to all vectors, members may use it piece by piece (direct_use.c).
 *
 * Cost for n members of S bytes each: no messages; 2 S read and written by each member, which is
 * (n - 1) S / 4n additions. Counters and marks are sequentially consistent where one party writes
 * its own and then reads another's.
 */
#include "base/memory.h"
#include "comm/collective/direct.h"
#include "tensor/sum.h"
#include "tensor/vector.h"

#include <inttypes.h>
#include <string.h>

enum {
    SMALL = 64,     /* floats of a small vector: above it, two waits are cheaper than the copies */
    CROWDED = 8192, /* floats of all members' small vectors together, where waits are
                    expensive */
    GRAIN = 32,     /* slices start at multiples of this: whole lines of an aligned vector */
    ANYONE = -1,    /* awaits: to be woken by any member */
    LAST = -2,      /* awaits: to be woken by the last to arrive */
    POLLS = 50,     /* polls of a counter between two reads of the clock */
    PROBE = 16,     /* one spin in this many is long again */
    SPIN_NS = 1000000, /* of spins after one that succeeded: members that do the same work
                              differ by less */
    PROBE_NS = 200000  /* of the long spin: some wake-ups take 60 microseconds */
};

/* Return true if the vector is copied, and all members sum all of it. */
static bool is_small(const direct_member *d, const direct_op *op)
{
    FAST_ASSERT(op->count >= 0);
    return op->count <= d->small;
}

/* Wake the members that wait for this one, or all that wait. */
static void wake(const direct_member *d, bool all)
{
    FAST_ASSERT(d->board);
    if (atomic_load(&d->board->sleepers) == 0)
        return;
    fast_actor *actor = d->group->actor;
    for (int64_t i = 0; i < d->group->size; i++) {
        const long long awaits = atomic_load(&d->board->rows[i].awaits);
        const bool wanted = awaits == ANYONE || awaits == d->group->rank + 1;
        if (i != d->group->rank && awaits != 0 && (wanted || all))
            actor->world->transport->wake(actor, fast_group_member(d->group, i));
    }
}

void fast__direct_tell(const direct_member *d, atomic_ullong *count)
{
    FAST_ASSERT(count);
    bool last = false;
    if (d->crowded)
        last = (atomic_fetch_add(count, 1) + 1) % (uint64_t)d->group->size == 0;
    wake(d, last);
}

/* Ranks are checked from the last one: where they arrive in order, the first wait is the only one.
 */
bool fast__direct_reached(direct_member *d, direct_op *op, const atomic_ullong *counter,
                          uint64_t target)
{
    const ptrdiff_t at = (const char *)counter - (const char *)d->own;

    FAST_ASSERT(op->scan < d->group->size);
    FAST_ASSERT(at >= 0 && at < (ptrdiff_t)sizeof *d->own);
    for (; op->scan >= 0; op->scan--) {
        const char *row = (const char *)&d->board->rows[op->scan];
        const atomic_ullong *theirs = (const atomic_ullong *)(const void *)(row + at);

        if (atomic_load(theirs) < target) {
            op->awaited = theirs;
            op->target = target;
            d->stuck = op->scan;
            return false;
        }
    }
    op->scan = d->group->size - 1;
    return true;
}

/* Lend the vector. False if its slot is still in use, or an earlier operation must post first. */
static bool post(direct_member *d, direct_op *op)
{
    FAST_ASSERT(op->phase == POST);
    direct_row *own = d->own;
    if (atomic_load(&own->posted) != op->number)
        return false;
    if (op->number + 1 > SLOTS && d->done_min < op->number + 1 - SLOTS) {
        if (atomic_load_explicit(&own->done, memory_order_relaxed) < d->own->finished) {
            atomic_store(&own->done, d->own->finished);
            wake(d, false);
        }
        if (!fast__direct_reached(d, op, &own->done, op->number + 1 - SLOTS))
            return false;
        d->done_min = op->number + 1 - SLOTS;
    }
    const size_t at = op->number % SLOTS;
    own->slots[at] = (direct_slot){ .x = op->x, .count = op->count };
    if (is_small(d, op) && op->x && op->count > 0) {
        float *copy = d->copies + (int64_t)at * d->small;
        fast__vector_copy(op->count, op->x, copy);
        own->slots[at].x = copy;
    }
    /* A member that reads the new `posted` reads this too: no line is written twice for it. */
    atomic_store_explicit(&own->done, d->own->finished, memory_order_release);
    atomic_store(&own->posted, op->number + 1);
    fast__direct_tell(d, &d->board->posted[at]);
    return true;
}

/* Collect the vectors' addresses; *valued is false where only sizes travel. */
static fast_err gather(const direct_member *d, const direct_op *op, bool *valued)
{
    FAST_ASSERT(op->phase == SUM);
    *valued = true;
    for (int64_t i = 0; i < d->group->size; i++) {
        const direct_slot *slot = &d->board->rows[i].slots[op->number % SLOTS];
        if (slot->count != op->count)
            return fast__fail(FAST_EINVAL,
                              "allreduce of %" PRId64 " floats here and %" PRId64
                              " at rank %" PRId64 "; every member gives as many",
                              op->count, slot->count, i);
        d->vectors[i] = slot->x;
        *valued &= slot->x != NULL;
    }
    return FAST_OK;
}

/* Set rank r's slice: as equal as whole grains allow. */
static void slice(int64_t count, int64_t n, int64_t r, int64_t *offset_out, int64_t *count_out)
{
    FAST_ASSERT(n >= 1 && r >= 0 && r < n);
    int64_t grains = 0, first = 0;
    fast__range((count + GRAIN - 1) / GRAIN, n, r, &first, &grains);
    const int64_t end = (first + grains) * GRAIN;
    *offset_out = first * GRAIN < count ? first * GRAIN : count;
    *count_out = (end < count ? end : count) - *offset_out;
}

bool fast__direct_enter(direct_member *d)
{
    FAST_ASSERT(d->own);
    atomic_store(&d->own->touching, true);
    return atomic_load(&d->board->broken) == 0;
}

void fast__direct_exit(direct_member *d)
{
    FAST_ASSERT(d->own);
    atomic_store_explicit(&d->own->touching, false, memory_order_release);
}

/* Sum this member's part. *summed is false if a member gave up before: then nothing is touched. */
static fast_err sum(direct_member *d, direct_op *op, bool *summed)
{
    FAST_ASSERT(d->own->finished == op->number);
    const int64_t n = d->group->size;
    bool valued = false;
    FAST_TRY(gather(d, op, &valued));
    int64_t offset = 0, count = op->count;
    *summed = true;
    if (is_small(d, op)) {
        if (valued)
            fast__sum((const float *const *)d->vectors, n, op->count, op->x);
    } else {
        slice(op->count, n, d->group->rank, &offset, &count);
        *summed = fast__direct_enter(d);
        if (*summed && valued)
            fast__sum_all(d->vectors, n, offset, count);
        fast__direct_exit(d);
    }
    if (!*summed)
        return FAST_OK;
    const double work = (double)count * (double)n;
    return fast_charge(d->group->actor, work - (double)count, 2 * work * sizeof(float));
}

/* Do all phases that need not wait. If one does, op->awaited is the counter that has to change, or
 * NULL where an earlier operation of this member, or a member that gave up, is in the way. */
static fast_err step(direct_member *d, direct_op *op, bool *ended)
{
    FAST_ASSERT(ended);
    bool summed = false;
    op->awaited = NULL;
    switch (op->phase) {
    case BEGIN:
        op->number = d->own->next++;
        op->scan = d->group->size - 1;
        op->phase = POST;
        /* fall through */
    case POST:
        if (!post(d, op))
            return FAST_OK;
        op->scan = d->group->size - 1;
        op->phase = SUM;
        /* fall through */
    case SUM:
        if (!fast__direct_reached(d, op, &d->own->posted, op->number + 1) ||
            d->own->finished != op->number)
            return FAST_OK;
        FAST_TRY(sum(d, op, &summed));
        if (!summed)
            return FAST_OK;
        d->own->finished = op->number + 1;
        op->phase = END;
        if (!is_small(d, op)) {
            atomic_store(&d->own->done, d->own->finished);
            fast__direct_tell(d, &d->board->done[op->number % SLOTS]);
        }
        /* fall through */
    case END:
        *ended = is_small(d, op) || fast__direct_reached(d, op, &d->own->done, op->number + 1);
        return FAST_OK;
    case LEFT:
        break;
    }
    FAST_ASSERT(false);
    return FAST_OK;
}

void fast__direct_leave(direct_member *d, direct_op *op)
{
    if (op->phase == BEGIN || op->phase == LEFT)
        return;
    op->phase = LEFT;
    long long none = 0;
    atomic_compare_exchange_strong(&d->board->broken, &none, d->group->rank + 1);
    for (int64_t i = 0; i < d->group->size; i++)
        while (atomic_load(&d->board->rows[i].touching))
            fast__cpu_pause();
    wake(d, true);
}

/* Return the actor that the operation waits for: one that has not arrived, or that gave up. */
static int64_t whom(const direct_member *d, const direct_op *op)
{
    FAST_ASSERT(d->stuck >= 0 && d->stuck < d->group->size);
    const long long broken = atomic_load(&d->board->broken);
    const bool left = !op->awaited && broken > 0 && broken - 1 != d->group->rank;
    return fast_group_member(d->group, left ? broken - 1 : d->stuck);
}

/* Publish which rank this member blocks on: 1 + the rank, ANYONE, LAST, or 0 for none. */
static void await(direct_member *d, long long rank)
{
    FAST_ASSERT(rank >= LAST);
    atomic_store(&d->own->awaits, rank);
    atomic_fetch_add(&d->board->sleepers, rank != 0 ? 1 : -1);
}

/* A wait as a task, so that a wake-up also serves the actor's other tasks. */
typedef struct direct_watch {
    fast_task task;      /* first */
    direct_member *d;    /* the member that waits */
    const direct_op *op; /* the operation that waits */
} direct_watch;

/* The task of a wait: done once the operation can continue. */
static fast_err watch_advance(fast_actor *actor, fast_task *task, bool *done)
{
    FAST_ASSERT(done);
    (void)actor;
    const direct_watch *watch = (const direct_watch *)task;
    const direct_op *op = watch->op;
    if (op->awaited)
        *done = atomic_load(op->awaited) >= op->target;
    else if (op->phase == POST)
        *done = atomic_load(&watch->d->own->posted) == op->number;
    else
        *done = watch->d->own->finished == op->number && atomic_load(&watch->d->board->broken) == 0;
    return FAST_OK;
}

/* Block until the operation can continue or something else happens. */
static fast_err block(direct_member *d, direct_op *op, int64_t deadline)
{
    FAST_ASSERT(op->phase != LEFT);
    fast_actor *actor = d->group->actor;
    const bool alone = d->own->task_count == 0;
    if (op->since < 0)
        op->since = fast_now(actor);
    const fast_wait what = {
        .whom = whom(d, op),
        .since = op->since,
        .deadline = deadline,
        .doing = "allreduce",
    };
    direct_watch watch = {
        .task = { .advance = watch_advance, .background = true, .watches = true },
        .d = d,
        .op = op,
    };
    if (alone)
        await(d, d->crowded && op->phase != POST ? LAST : d->stuck + 1);
    fast__post(actor, &watch.task);
    const fast_err err = fast__wait_once(actor, &what);
    fast__unpost(actor, &watch.task);
    if (alone)
        await(d, 0);
    return err;
}

/* Poll the counter for `time` ns; true if it reached its target. */
static bool poll(const direct_member *d, const direct_op *op, int64_t time)
{
    FAST_ASSERT(op->awaited && time > 0);
    const int64_t end = fast_now(d->group->actor) + time;

    do {
        for (int i = 0; i < POLLS; i++) {
            if (atomic_load(op->awaited) >= op->target)
                return true;
            fast__cpu_pause();
        }
    } while (fast_now(d->group->actor) < end);
    return false;
}

/* Spin for a while; true if the counter reached its target. With a core for each member this costs
 * nothing, and a sleep and its wake-up cost two members more than most waits. Where a spin does not
 * succeed, because two members run on one core or one is late, the next ones are short, except one
 * in PROBE: two members that both fall asleep after short spins would otherwise wake each other for
 * ever, each too late for the other's spin. */
static bool spin(direct_member *d, const direct_op *op)
{
    FAST_ASSERT(d->spin_ns >= 0);
    if (d->spin_ns == 0)
        return false;
    const bool probe = ++d->spin_count % PROBE == 0 && d->spin_ns < PROBE_NS;
    const bool moved = poll(d, op, probe ? PROBE_NS : d->spin_ns);
    d->spin_ns = moved ? SPIN_NS : d->spin_ns / 4 + SPIN_NS / 100;
    return moved;
}

fast_err fast__direct_wait(direct_member *d, direct_op *op, int64_t deadline)
{
    return op->awaited && spin(d, op) ? FAST_OK : block(d, op, deadline);
}

/* Run an operation to its end, or give up. */
static fast_err finish(direct_member *d, direct_op *op, int64_t deadline)
{
    FAST_ASSERT(op->phase == BEGIN);
    fast_group *group = d->group;
    bool ended = false, timed = false;
    if (d->own->task_count > 0)
        fast__progress(group->actor);
    fast_err err = step(d, op, &ended);
    while (!err && !ended) {
        if (!timed)
            deadline = fast__deadline(group->actor, deadline);
        timed = true;
        err = fast__direct_wait(d, op, deadline);
        if (d->own->task_count > 0)
            fast__progress(group->actor); /* operations of tasks come before this one */
        if (!err)
            err = step(d, op, &ended);
    }
    if (err)
        fast__direct_leave(d, op);
    return err;
}

static fast_err direct_run(fast_group *group, void *state, float *x, int64_t count,
                           int64_t deadline)
{
    FAST_ASSERT(count >= 0);
    direct_op op = { .x = x, .count = count, .since = -1 };
    return group->size == 1 ? FAST_OK : finish(state, &op, deadline);
}

/* Restore the operation of a collective: phase, and words: number, scan. */
static direct_op load(const fast_collective *collective)
{
    FAST_ASSERT(collective->ask.state);
    return (direct_op){
        .phase = (direct_phase)collective->phase,
        .number = collective->words[0],
        .scan = (int64_t)collective->words[1],
        .x = collective->y,
        .count = collective->ask.count,
    };
}

/* Save an operation in its collective. */
static void store(fast_collective *collective, const direct_op *op)
{
    FAST_ASSERT(collective->ask.state);
    collective->phase = (int64_t)op->phase;
    collective->words[0] = op->number;
    collective->words[1] = (uint64_t)op->scan;
}

/* Count tasks up or down. While there are any, every change of another member wakes this one. */
static void count_task(direct_member *d, int64_t change)
{
    const int64_t before = d->own->task_count;
    d->own->task_count += change;
    FAST_ASSERT(d->own->task_count >= 0);
    if (before == 0 || d->own->task_count == 0)
        await(d, d->own->task_count > 0 ? ANYONE : 0);
}

static fast_err direct_advance(fast_collective *collective, bool *done)
{
    fast_group *group = collective->group;
    direct_member *d = (direct_member *)collective->ask.state;
    if (group->size == 1) {
        *done = true;
        return FAST_OK;
    }
    direct_op op = load(collective);
    FAST_ASSERT(op.phase != LEFT);
    if (op.phase == BEGIN)
        count_task(d, 1);
    bool ended = false;
    const fast_err err = step(d, &op, &ended);
    store(collective, &op);
    collective->whom = whom(d, &op);
    if (!err && ended) {
        collective->phase = LEFT;
        count_task(d, -1);
        *done = true;
    }
    return err;
}

static void direct_drop(fast_collective *collective)
{
    FAST_ASSERT(collective->ask.state);
    direct_member *d = (direct_member *)collective->ask.state;
    direct_op op = load(collective);
    if (op.phase == BEGIN || op.phase == LEFT)
        return;
    fast__direct_leave(d, &op);
    store(collective, &op);
    count_task(d, -1);
}

static void direct_close(fast_group *group, void *state)
{
    (void)group;
    direct_member *d = state;
    if (!d)
        return;
    fast__free(d->vectors);
    fast__free(d->use.lent);
    fast__free(d);
}

/* Refuse groups whose members do not all share memory. */
static fast_err check_shared(const fast_group *group)
{
    FAST_ASSERT(group->size >= 1);
    if (group->actor->world->record)
        return fast__fail(FAST_ENOTSUP, "a run that is recorded or replayed sums by messages, to "
                                        "the same bits; take another algorithm than direct");
    for (int64_t i = 0; i < group->size; i++) {
        const int64_t id = fast_group_member(group, i);
        if (!fast_actor_is_local(group->actor, id))
            return fast__fail(FAST_ENOTSUP,
                              "direct needs members that share memory, and actor %" PRId64
                              " does not with actor %" PRId64 "; take another algorithm",
                              fast_actor_id(group->actor), id);
    }
    if (group->size > FAST_SUM_MAX)
        return fast__fail(FAST_ENOTSUP, "direct takes at most %d members, not %" PRId64,
                          FAST_SUM_MAX, group->size);
    return FAST_OK;
}

/* Map the board that the members share. */
static fast_err direct_fill(direct_member *d)
{
    FAST_ASSERT(!d->board);
    fast_group *group = d->group;
    FAST_TRY(fast__alloc("vectors of a group", group->size, sizeof *d->vectors, &d->vectors));
    FAST_TRY(fast__alloc("vectors of a group", group->size, sizeof *d->use.lent, &d->use.lent));
    d->spin_ns = group->actor->world->spins > 0 ? SPIN_NS : 0;
    d->crowded = d->spin_ns == 0;
    d->small = d->crowded && CROWDED / group->size > SMALL ? CROWDED / group->size : SMALL;
    const size_t rows = sizeof(direct_board) + (size_t)group->size * sizeof(direct_row);
    const size_t copies = (size_t)d->small * SLOTS * sizeof(float);
    const size_t size = rows + (size_t)group->size * copies;
    unsigned char *memory = NULL;
    /* Actors of one process crash and restart together: each life has its own board. */
    const uint64_t key =
        group->key ^ 0x646972656374 ^ (uint64_t)fast_actor_life(group->actor) << 48;
    FAST_TRY(fast_actor_share(group->actor, key, size + LINES, &memory));
    const uintptr_t up = (LINES - (uintptr_t)memory % LINES) % LINES;
    d->board = (direct_board *)(void *)(memory + up);
    d->own = &d->board->rows[group->rank];
    d->copies = (float *)(void *)(memory + up + rows + (size_t)group->rank * copies);
    return FAST_OK;
}

direct_member *fast__direct_member(fast_group *group)
{
    FAST_ASSERT(group != NULL);
    return group->slots[fast__allreduce_number(&fast__allreduce_direct)].state;
}

/* All members map one board: it is made by the first of them. */
static fast_err direct_open(fast_group *group, const void *config, void **state_out)
{
    FAST_ASSERT(!*state_out);
    (void)config;
    FAST_TRY(check_shared(group));
    direct_member *d = NULL;
    FAST_TRY(fast__alloc("a group's shared memory", 1, sizeof *d, &d));
    d->group = group;
    const fast_err err = direct_fill(d);
    if (err) {
        direct_close(group, d);
        return err;
    }
    *state_out = d;
    return FAST_OK;
}

/* Two waits, and the additions of the vector, which the members share. */
static double direct_seconds(const fast_comm_cost *cost, const fast_ask *ask)
{
    FAST_ASSERT(ask->size >= 1);
    const double n = (double)ask->size;
    const double count = (double)ask->count;
    return n > 1 ? cost->alpha * (ask->count > SMALL ? 2 : 1) + cost->gamma * count : 0;
}

const fast_algorithm fast__allreduce_direct = {
    .name = "direct",
    .summary = "in memory that all members share; nothing is sent",
    .canonical = true,
    .open = direct_open,
    .close = direct_close,
    .run = direct_run,
    .advance = direct_advance,
    .drop = direct_drop,
    .seconds = direct_seconds,
};
