/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A store: the ranges of one owner in memory that local actors share. They copy straight between
 * their vectors and it, under a phase-fair lock for each range: a get costs one copy, an add one
 * pass, and neither sends a message. An add is visible when the call returns.
 *
 * Sleeping. An actor that waits for a lock marks the lock in its slot (`wants`); one that waits for
 * a version, a clock or an owner arms its slot. Then it looks once more and sleeps in
 * fast__wait_once(), so that deadlines, canceling and blame work as for messages. An actor that
 * releases or changes something looks for marks afterwards. All of it is sequentially consistent:
 * one of the two sees the other, hence no wake is lost. A lock is held for one copy or one call of
 * the owner's function, never in a wait.
 *
 *     | head | slots, one an actor | ranges, one a tensor | floats of each range ... |
 *
 * Slots, ranges and floats start at cache lines of their own, so that actors that work on different
 * ranges do not share a line. Memory order: the state of the head, versions, clocks and marks are
 * sequentially consistent atomics. The floats are plain memory and are only touched under the lock
 * of their range.
 *
 * Closing. `state` becomes CLOSED before the owner takes each lock once. A writer checks `state`
 * after it has taken a lock: either it was first, and the owner waits for it, or it sees CLOSED.
 */
#include "space/space_store.h"
#include "space/space_wire.h"

#include "base/memory.h"
#include "base/thread.h"
#include "tensor/vector.h"
#include "transport/peers.h"

#include <string.h>

/* Low bits of the marks in fast_space_slot.wants; the tensor's number is above them. */
enum { WANTS_READ = 1, WANTS_WRITE = 2 };

enum { SHUT_POLL_NS = 50 * 1000 }; /* between two tries of a lock by an owner that closes */

/* Return the mark of an actor that sleeps for a lock; never 0. */
static uint64_t mark_of(int64_t tensor, bool write)
{
    FAST_ASSERT(tensor >= 0 && tensor < FAST_SPACE_TENSORS_MAX);
    return (uint64_t)tensor << 2 | (write ? WANTS_WRITE : WANTS_READ);
}

/* Return the offset of the next piece of a store, and advance *at past it, aligned. */
static int64_t lay(int64_t *at, int64_t count, size_t size)
{
    const int64_t here = *at, bytes = count * (int64_t)size;
    FAST_ASSERT(here % FAST_ALIGN == 0 && bytes >= 0);
    *at = here + (bytes + FAST_ALIGN - 1) / FAST_ALIGN * FAST_ALIGN;
    return here;
}

/* Return the floats of a range, padded to whole cache lines. */
static int64_t padded(int64_t count)
{
    FAST_ASSERT(count >= 0);
    const int64_t line = FAST_ALIGN / (int64_t)sizeof(float);
    return (count + line - 1) / line * line;
}

/* Return the floats of all ranges of an owner, padded; set where each starts if `ranges` is not
 * NULL. */
static int64_t place(const fast_space *space, int64_t owner, fast_space_range *ranges)
{
    int64_t floats = 0;
    for (int64_t t = 0; t < space->map.tensor_count; t++) {
        int64_t offset, count;
        fast__space_range(space, owner, t, &offset, &count);
        if (ranges)
            ranges[t].at = floats;
        floats += padded(count);
    }
    return floats;
}

/* The sum over all tensors is checked first, so that place() cannot overflow. */
bool fast__space_store_size(const fast_space *space, int64_t owner, int64_t *size_out)
{
    FAST_ASSERT(size_out);
    int64_t total = 0, bytes;
    /* The floats of all tensors, each with its padding, bound those of one owner. */
    for (int64_t t = 0; t < space->map.tensor_count; t++)
        if (!fast__add_size(total, space->map.counts[t], &total) ||
            !fast__add_size(total, FAST_ALIGN, &total))
            return false;
    if (!fast__mul_size(total, (int64_t)sizeof(float), &bytes) || bytes > INT64_MAX / 4)
        return false;
    fast_space_store store;
    fast__space_store_map(space, NULL, &store);
    *size_out =
        (int64_t)(uintptr_t)store.values + place(space, owner, NULL) * (int64_t)sizeof(float);
    return true;
}

/* The device's memory lasts as long as the world, as shared memory does: other actors may read it
 * while its owner ends. An owner that starts again has the memory of its former life. */
fast_err fast__space_store_values(fast_space *space)
{
    fast_space_store *store = fast__space_own_store(space);
    FAST_ASSERT(store->head);
    if (fast__space_device(space) == &fast__host || store->head->values)
        return FAST_OK;
    return fast__world_vector(space->actor->world, "a space", place(space, space->map.me, NULL),
                              &store->head->values);
}

/* With memory NULL the addresses are offsets, from which the size follows. */
void fast__space_store_map(const fast_space *space, void *memory, fast_space_store *store)
{
    FAST_ASSERT(space && store);
    const uintptr_t base = (uintptr_t)memory;
    const int64_t actors = fast_actor_count(space->actor);
    int64_t at = 0;
    FAST_ASSERT(base % FAST_ALIGN == 0);
    *store = (fast_space_store){ .slowest = -1, .active = -1 };
    store->head = (void *)(base + (uintptr_t)lay(&at, 1, sizeof *store->head));
    store->slots = (void *)(base + (uintptr_t)lay(&at, actors, sizeof *store->slots));
    store->ranges =
        (void *)(base + (uintptr_t)lay(&at, space->map.tensor_count, sizeof *store->ranges));
    store->values = (void *)(base + (uintptr_t)at);
}

/* Valid from the owner's fast__space_store_fill() on, which sets `at`. */
float *fast__space_values(const fast_space *space, int64_t owner, int64_t tensor)
{
    const fast_space_store *store = &space->map.owners[owner].store;
    FAST_ASSERT(store->head);
    return (store->head->values ? store->head->values : store->values) + store->ranges[tensor].at;
}

void fast__space_store_fill(fast_space *space, const fast_space_options *options)
{
    FAST_ASSERT(options);
    fast_space_store *store = fast__space_own_store(space);
    FAST_ASSERT(atomic_load(&store->head->state) != FAST_SPACE_OPEN);
    (void)place(space, space->map.me, store->ranges);
    store->head->signature = space->signature;
    store->head->apply = options->apply;
    store->head->ctx = options->ctx;
    store->head->apply_on_device = options->apply_on_device;
    for (int64_t t = 0; t < space->map.tensor_count; t++) {
        int64_t offset, count;
        fast__space_range(space, space->map.me, t, &offset, &count);
        float *w = fast__space_values(space, space->map.me, t);
        const float *initial = options->tensors[t].initial;
        if (initial)
            fast__vector_copy(count, initial + offset, w);
        else
            fast__vector_fill(count, 0, w);
    }
}

/* `state` is set last: an actor that sees it open sees the values and the function. */
void fast__space_store_open(fast_space *space)
{
    fast_space_store *store = fast__space_own_store(space);

    FAST_ASSERT(atomic_load(&store->head->state) != FAST_SPACE_OPEN);
    fast__space_begin(space, space->map.me);
    atomic_store(&store->head->state, FAST_SPACE_OPEN);
    fast__space_changed(space, store);
    fast__space_end(space);
}

/* Once each range was locked here, later updates find the store closed: they check it under the
 * lock. A stopped actor may not sleep for a lock, so this one polls, for as long as one copy or one
 * call of the owner's function takes. */
void fast__space_store_shut(fast_space *space)
{
    fast_space_store *store = fast__space_own_store(space);
    atomic_uint unused = 0; /* to sleep on: no actor wakes it */
    FAST_ASSERT(store->head);
    fast__space_begin(space, space->map.me);
    atomic_store(&store->head->state, FAST_SPACE_CLOSED);
    for (int64_t t = 0; t < space->map.tensor_count; t++) {
        fast_space_lock *lock = &store->ranges[t].lock;
        fast__space_lock_queue(lock, true);
        while (!fast__space_lock_queued(lock, true))
            fast__futex_wait(&unused, 0, SHUT_POLL_NS);
        fast__space_unlock(space, space->map.me, t, true);
    }
    if (!space->actor->stopped)
        fast__space_changed(space, store);
    fast__space_end(space);
}

/* Return the state of an owner's store: 0, FAST_SPACE_OPEN or FAST_SPACE_CLOSED. */
static int state_of(fast_space *space, int64_t owner)
{
    FAST_ASSERT(space->map.owners[owner].store.head);
    fast__space_begin(space, owner);
    const int state = atomic_load(&space->map.owners[owner].store.head->state);
    fast__space_end(space);
    return state;
}

/* Wait until the owner has filled its store. */
static fast_err wait_open(fast_space *space, int64_t owner, int64_t deadline)
{
    FAST_ASSERT(space->map.owners[owner].store.head);
    fast_space_store *store = &space->map.owners[owner].store;
    const fast_wait wait =
        fast__space_wait(space, space->map.owners[owner].id, "space open", deadline);
    for (;;) {
        fast__space_begin(space, owner);
        fast__space_arm(space, store);
        const bool closed = atomic_load(&store->head->state) == 0;
        fast__space_end(space);
        if (!closed)
            return FAST_OK;
        FAST_TRY(fast__wait_once(space->actor, &wait));
    }
}

fast_err fast__space_owner_left(const fast_space *space, int64_t owner)
{
    const int64_t id = space->map.owners[owner].id;
    char name[64];

    FAST_ASSERT(id >= 0 && id < fast_actor_count(space->actor));
    space->actor->culprit = fast__peers_culprit(space->actor, id);
    fast__actor_name(space->actor->world, id, name, sizeof name);
    return fast__fail(FAST_EPEER, "%s, an owner of space \"%s\", has left it", name, space->name);
}

/* A local owner opens in its own time; after that the head does not change until it closes. */
fast_err fast__space_ready(fast_space *space, int64_t owner, int64_t deadline)
{
    FAST_ASSERT(owner >= 0 && owner < space->map.owner_count);
    FAST_ASSERT(space->map.owners[owner].store.head);
    const int64_t id = space->map.owners[owner].id;
    fast_space_head *head = space->map.owners[owner].store.head;
    int state = state_of(space, owner);
    if (state == 0) {
        FAST_TRY(wait_open(space, owner, deadline));
        state = state_of(space, owner);
    }
    /* Some transports tell only actors that asked of another's end: ask for the owner's. */
    if (space->actor->met && owner != space->map.me)
        fast__peers_ask(space->actor, id);
    if (head->signature != space->signature)
        return fast__fail(FAST_EINVAL,
                          "actor %lld opened space \"%s\" with other tensors, owners or writers",
                          (long long)id, space->name);
    return state == FAST_SPACE_CLOSED ||
                   (owner != space->map.me && fast_member_is_down(space->actor, id))
               ? fast__space_owner_left(space, owner)
               : FAST_OK;
}

/* Wake the actors that sleep for this lock: all readers, or the first writer after this actor. */
static void wake(fast_space *space, fast_space_store *store, int64_t tensor, fast_space_wake whom)
{
    FAST_ASSERT(store->head);
    const int64_t count = fast_actor_count(space->actor), id = fast_actor_id(space->actor);
    if (whom == FAST_SPACE_WAKE_NONE)
        return;
    const uint64_t mark = mark_of(tensor, whom == FAST_SPACE_WAKE_WRITER);
    for (int64_t k = 1; k <= count; k++) {
        fast_space_slot *slot = &store->slots[(id + k) % count];
        for (int who = 0; who < 2; who++) {
            uint64_t expected = mark;
            if (atomic_load(&slot->wants[who]) != mark ||
                !atomic_compare_exchange_strong(&slot->wants[who], &expected, 0))
                continue;
            space->actor->world->transport->wake(space->actor, (id + k) % count);
            if (whom == FAST_SPACE_WAKE_WRITER)
                return;
        }
    }
}

/* Spin first: most locks are held for one copy. Once queued, mark the slot before the next try,
 * so that a release in between is seen. */
bool fast__space_attempt(fast_space *space, int64_t owner, int64_t tensor, bool write, int who,
                         bool *queued)
{
    FAST_ASSERT(queued);
    FAST_ASSERT(who == FAST_SPACE_PROGRAM || who == FAST_SPACE_SERVICE);
    fast_space_store *store = &space->map.owners[owner].store;
    fast_space_lock *lock = &store->ranges[tensor].lock;
    fast_space_slot *slot = &store->slots[fast_actor_id(space->actor)];
    if (!*queued) {
        for (int i = 0; i < FAST_SPACE_SPINS; i++) {
            if (fast__space_lock_try(lock, write))
                return true;
            fast__cpu_pause();
        }
        fast__space_lock_queue(lock, write);
        *queued = true;
    }
    atomic_store(&slot->wants[who], mark_of(tensor, write));
    if (!fast__space_lock_queued(lock, write))
        return false;
    atomic_store(&slot->wants[who], 0);
    *queued = false;
    return true;
}

/* The program gives up its own queue entry, the service its own: they may wait at once. */
void fast__space_cancel(fast_space *space, int64_t owner, int64_t tensor, bool write, int who)
{
    FAST_ASSERT(who == FAST_SPACE_PROGRAM || who == FAST_SPACE_SERVICE);
    fast_space_store *store = &space->map.owners[owner].store;
    /* A wake-up that was meant for this actor is passed on to the next. */
    atomic_store(&store->slots[fast_actor_id(space->actor)].wants[who], 0);
    wake(space, store, tensor, fast__space_lock_leave(&store->ranges[tensor].lock, write));
}

/* The service and the program of an actor have marks of their own. */
fast_err fast__space_lock(fast_space *space, int64_t owner, int64_t tensor, bool write,
                          int64_t deadline)
{
    bool queued = false;
    if (fast__space_attempt(space, owner, tensor, write, FAST_SPACE_PROGRAM, &queued))
        return FAST_OK;
    FAST_ASSERT(!space->actor->trace); /* between begin and end of a recorded run it is free */
    const fast_wait wait =
        fast__space_wait(space, space->map.owners[owner].id, "space lock", deadline);
    do {
        const fast_err err = fast__wait_once(space->actor, &wait);
        if (err) {
            fast__space_cancel(space, owner, tensor, write, FAST_SPACE_PROGRAM);
            return err;
        }
    } while (!fast__space_attempt(space, owner, tensor, write, FAST_SPACE_PROGRAM, &queued));
    return FAST_OK;
}

/* The owner may have closed since fast__space_ready(): the state is read under the lock. */
fast_err fast__space_lock_update(fast_space *space, int64_t owner, int64_t tensor, int64_t deadline)
{
    const fast_space_head *head = space->map.owners[owner].store.head;
    FAST_ASSERT(head);
    FAST_TRY(fast__space_lock(space, owner, tensor, true, deadline));
    if (atomic_load(&head->state) == FAST_SPACE_OPEN)
        return FAST_OK;
    fast__space_unlock(space, owner, tensor, true);
    return fast__space_owner_left(space, owner);
}

/* The wake-up is outside the lock: the next actor finds it free. */
void fast__space_unlock(fast_space *space, int64_t owner, int64_t tensor, bool write)
{
    FAST_ASSERT(space->map.owners[owner].store.head);
    fast_space_store *store = &space->map.owners[owner].store;
    wake(space, store, tensor, fast__space_lock_release(&store->ranges[tensor].lock, write));
}

/* Call the owner's function, which is written for the host unless the owner said otherwise. */
static bool call_apply(const fast_space_head *head, const fast_space_update *update, float *w)
{
    const int64_t count = update->count;
    FAST_ASSERT(head->apply);
    if (head->apply_on_device)
        return head->apply(head->ctx, update, w);
    fast_space_update mapped = *update;
    mapped.x = fast__map(update->x, count, FAST_ACCESS_READ);
    const bool applied = head->apply(head->ctx, &mapped, fast__map(w, count, FAST_ACCESS_UPDATE));
    fast__unmap(w, count, FAST_ACCESS_UPDATE);
    fast__unmap(update->x, count, FAST_ACCESS_READ);
    return applied;
}

/* Runs in the thread of the writer if it is local, else in the owner's. */
void fast__space_apply(fast_space *space, const fast_space_operation *op)
{
    FAST_ASSERT(op->count > 0);
    fast_space_store *store = &space->map.owners[op->owner].store;
    fast_space_range *range = &store->ranges[op->tensor];
    const bool put = op->kind == FAST_SPACE_PUT;
    const int64_t version = atomic_load(&range->version);
    /* A replica may be behind the one that the writer has read. */
    const int64_t read = op->version_read < version ? op->version_read : version;
    float *w = fast__space_values(space, op->owner, op->tensor);
    FAST_ASSERT(put || op->kind == FAST_SPACE_ADD);
    atomic_fetch_add(&store->slots[op->from].updates, 1);
    if (!op->x) {
        /* Sizes only: it counts, and changes nothing. */
    } else if (put) {
        fast__vector_copy(op->count, op->x, w);
    } else if (!store->head->apply) {
        fast__vector_add(op->count, op->x, w);
    } else {
        const fast_space_update update = { .tensor = op->tensor,
                                           .offset = op->offset,
                                           .count = op->count,
                                           .x = op->x,
                                           .from = op->from,
                                           .clock = op->clock,
                                           .version = version,
                                           .read = read };
        if (!call_apply(store->head, &update, w)) {
            atomic_fetch_add(&range->rejected, 1);
            return;
        }
    }
    if (!put) {
        atomic_fetch_add(&range->staleness_sum, version - read);
        if (version - read > atomic_load(&range->staleness_max))
            atomic_store(&range->staleness_max, version - read);
    }
    atomic_fetch_add(&range->applied, 1);
    atomic_store(&range->version, version + 1);
}

/* A put moves two floats for each value; an add costs what the owner's options say. */
fast_err fast__space_charge(fast_space *space, const fast_space_operation *op)
{
    const double n = (double)op->count;
    FAST_ASSERT(op->count >= 0);
    return op->kind == FAST_SPACE_PUT
               ? fast_charge(space->actor, 0, 2 * sizeof(float) * n)
               : fast_charge(space->actor, space->owned.operations * n, space->owned.bytes * n);
}

/* An armed slot stays armed until a change: arming twice costs one load. */
void fast__space_arm(fast_space *space, fast_space_store *store)
{
    fast_space_slot *slot = &store->slots[fast_actor_id(space->actor)];
    /* Counted before it is armed: an actor that sees none waiting changed the store before this
     * actor looks at it. */
    FAST_ASSERT(store->head != NULL);
    if (atomic_load(&slot->armed))
        return;
    atomic_fetch_add(&store->head->waiting, 1);
    atomic_store(&slot->armed, 1);
}

/* Each armed actor is woken once: clearing its mark and the wake go together. */
void fast__space_changed(fast_space *space, fast_space_store *store)
{
    FAST_ASSERT(store->head);
    const int64_t count = fast_actor_count(space->actor), me = fast_actor_id(space->actor);
    for (int64_t i = 0; atomic_load(&store->head->waiting) > 0 && i < count; i++) {
        uint32_t expected = 1;
        if (i == me || !atomic_load(&store->slots[i].armed) ||
            !atomic_compare_exchange_strong(&store->slots[i].armed, &expected, 0))
            continue;
        atomic_fetch_sub(&store->head->waiting, 1);
        space->actor->world->transport->wake(space->actor, i);
    }
}

/* Return true if an actor is in the space, or is expected to join. */
static bool is_in(fast_space *space, fast_space_store *store, int64_t id)
{
    FAST_ASSERT(id >= 0 && id < fast_actor_count(space->actor));
    const uint32_t member = atomic_load(&store->slots[id].member);
    if ((member & 1) || (member == 0 && !space->clocks.expected[id]))
        return false;
    return id == fast_actor_id(space->actor) || !fast_member_is_down(space->actor, id);
}

/* Return true if a writer's clock holds readers back. One that was away does so again once it has
 * caught up with the slowest of the others: they do not stand still for all that it missed. */
static bool counts(fast_space *space, fast_space_store *store, int64_t id)
{
    FAST_ASSERT(space->clocks.excused != NULL);
    bool *excused = &space->clocks.excused[id];
    if (id != fast_actor_id(space->actor) && fast_member_is_down(space->actor, id))
        *excused = true;
    else if (*excused && atomic_load(&store->slots[id].clock) >= store->clock)
        *excused = false;
    return !*excused && is_in(space, store, id);
}

/* O(1) in most calls, O(writers) where the slowest writer has ticked. */
bool fast__space_clock(fast_space *space, fast_space_store *store, int64_t clock_min,
                       int64_t *clock_out)
{
    FAST_ASSERT(store->head && clock_out);
    const int64_t count = space->clocks.writer_count,
                  start = store->slowest < 0 ? 0 : store->slowest;
    int64_t smallest = INT64_MAX, largest = clock_min;
    /* Clocks only rise: a writer whose clock is not above the smallest one found last time has the
     * smallest now, and the search ends. It starts with the writer found last, so that most
     * searches look at one. */
    for (int64_t k = 0; k < count; k++) {
        const int64_t i = (start + k) % count, id = space->clocks.writers[i];
        const int64_t clock = atomic_load(&store->slots[id].clock);
        largest = clock > largest ? clock : largest;
        if (clock >= smallest || !counts(space, store, id))
            continue;
        smallest = clock;
        store->slowest = i;
        if (clock <= store->clock)
            break;
    }
    if (smallest == INT64_MAX) {
        *clock_out = largest;
        return true;
    }
    store->clock = smallest;
    *clock_out = smallest;
    return smallest >= clock_min;
}

/* O(writers of the group). */
bool fast__space_in_time(fast_space *space, fast_space_store *store,
                         const fast_space_operation *get, int64_t *clock_out)
{
    FAST_ASSERT(store->head && clock_out);
    if (!(get->flags & FAST_SPACE_GROUP))
        return fast__space_clock(space, store, get->clock_min, clock_out);
    int64_t smallest = INT64_MAX, largest = get->clock_min;
    for (int64_t i = get->group; i < get->group + get->group_count; i++) {
        const int64_t id = space->clocks.writers[i], clock = atomic_load(&store->slots[id].clock);
        largest = clock > largest ? clock : largest;
        if (clock < smallest && counts(space, store, id))
            smallest = clock;
    }
    *clock_out = smallest == INT64_MAX ? largest : smallest;
    return *clock_out >= get->clock_min;
}

/* Of equal clocks, the writer with fewest updates is behind. */
int64_t fast__space_slowest(fast_space *space, fast_space_store *store,
                            const fast_space_operation *get)
{
    FAST_ASSERT(store->head);
    const bool grouped = (get->flags & FAST_SPACE_GROUP) != 0;
    const int64_t first = grouped ? get->group : 0, reader = get->from;
    const int64_t end = grouped ? first + get->group_count : space->clocks.writer_count;
    int64_t behind = -1, clock_least = 0, updates_least = 0;
    for (int64_t i = first; i < end; i++) {
        const int64_t id = space->clocks.writers[i];
        const int64_t clock = atomic_load(&store->slots[id].clock);
        const int64_t updates = atomic_load(&store->slots[id].updates);
        if (id == reader || !counts(space, store, id))
            continue;
        if (behind >= 0 &&
            (clock > clock_least || (clock == clock_least && updates >= updates_least)))
            continue;
        behind = id;
        clock_least = clock;
        updates_least = updates;
    }
    return behind;
}

/* Usually the actor found last is still in. */
int64_t fast__space_active(fast_space *space, fast_space_store *store, int64_t reader)
{
    FAST_ASSERT(store->head);
    if (store->active >= 0 && store->active != reader && is_in(space, store, store->active))
        return store->active;
    store->active = -1;
    for (int64_t id = 0; id < fast_actor_count(space->actor) && store->active < 0; id++)
        if (id != reader && is_in(space, store, id))
            store->active = id;
    return store->active;
}

/* The lowest bit of `member` is set: the actor cannot enter again in this life. */
void fast__space_left(fast_space *space, int64_t owner, int64_t id)
{
    fast_space_store *store = &space->map.owners[owner].store;
    FAST_ASSERT(store->head && id >= 0 && id < fast_actor_count(space->actor));
    atomic_fetch_or(&store->slots[id].member, 1);
    fast__space_changed(space, store);
    if (owner != space->map.me) /* it may serve until all actors have left */
        space->actor->world->transport->wake(space->actor, space->map.owners[owner].id);
}
