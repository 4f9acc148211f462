/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Visits: an actor works on the values of a tensor where they lie, in one pass, instead of getting
 * a copy, computing a change and adding it. Several actors visit a range at once: each holds its
 * lock as a reader does, and locks one piece of it after the other while it works on that. So gets,
 * which lock pieces too, run beside visits, and puts and adds, which write under the lock, do not.
 *
 *     visit of A    | 0 | 1 | 2 | 3 |                 pieces of the range, over time
 *     visit of B    | 2 | 3 | 0 | 1 |                 it starts at another piece
 *     visit of C       | 3 | 0 | 2 | 1 |              1 was held: it comes back to that one
 *
 * A visit is atomic for each piece, as an add is for each range. Its version is counted when it
 * starts: of visits that overlap, each is stale by those that started before it.
 *
 * The lock of a piece is a word: 0 free, HELD, or AWAITED by threads that sleep. It is held for the
 * time of one pass over a piece, never in a wait, so that its sleepers need no deadline.
 *
 * Cost: one pass over the values and the vectors of the caller, in the caller's thread; no message.
 */
#include "space/space_form.h"
#include "space/space_store.h"

#include "base/thread.h"
#include "tensor/vector.h"

enum { HELD = 1, AWAITED = 2 };

enum {
    PIECE_MIN = 4096,        /* floats of a piece, at least */
    PIECE_GRAIN = 32,        /* pieces start at multiples of it: cache lines of their own */
    PIECE_SPINS = 256,       /* tries of a lock before its thread sleeps */
    PIECE_SLEEP_NS = 1000000 /* of one sleep; the holder wakes it earlier */
};

static void piece_lock(atomic_uint *word)
{
    for (int i = 0; i < PIECE_SPINS; i++) {
        unsigned unlocked = 0;

        if (atomic_load_explicit(word, memory_order_relaxed) == 0 &&
            atomic_compare_exchange_strong(word, &unlocked, HELD))
            return;
        fast__cpu_pause();
    }
    while (atomic_exchange(word, AWAITED) != 0)
        fast__futex_wait(word, AWAITED, PIECE_SLEEP_NS);
}

static void piece_unlock(atomic_uint *word)
{
    const unsigned before = atomic_exchange(word, 0);

    FAST_ASSERT(before != 0);
    if (before == AWAITED)
        fast__futex_wake(word);
}

/* Return the floats of each piece but the last of a range. */
static int64_t piece_size(int64_t count)
{
    const int64_t even = (count + FAST_SPACE_LOCKS - 1) / FAST_SPACE_LOCKS;
    const int64_t size = even > PIECE_MIN ? even : PIECE_MIN;

    FAST_ASSERT(count > 0);
    return (size + PIECE_GRAIN - 1) / PIECE_GRAIN * PIECE_GRAIN;
}

bool fast__space_can_visit(const fast_space *space)
{
    fast_actor *actor = space->actor;

    FAST_ASSERT(actor->world != NULL);
    if (!fast__space_is_local(space) || actor->world->record || space->copies.count > 0 ||
        fast__space_is_coded(space, FAST_SPACE_UP, 0) || fast__space_selects(space))
        return false;
    for (int64_t i = 0; i < fast_actor_count(actor); i++)
        if (!fast_actor_is_local(actor, i))
            return false;
    return true;
}

static bool piece_try(atomic_uint *word)
{
    unsigned unlocked = 0;

    return atomic_load_explicit(word, memory_order_relaxed) == 0 &&
           atomic_compare_exchange_strong(word, &unlocked, HELD);
}

/* Pieces of a range that are locked one after the other, in an order of convenience. */
typedef struct piece_order {
    fast_space_range *range; /* the range */
    int64_t count, first;    /* number of pieces; the one that is looked at first */
    uint64_t left;           /* a bit for each piece that is left */
} piece_order;

static piece_order order_of(const fast_space *space, fast_space_range *range, int64_t count)
{
    const int64_t writers = space->clocks.writer_count > 0 ? space->clocks.writer_count : 1;
    const int64_t rank = space->clocks.rank > 0 ? space->clocks.rank % writers : 0;

    FAST_ASSERT(count > 0 && count <= FAST_SPACE_LOCKS);
    return (piece_order){ range, count, rank * count / writers, (UINT64_C(1) << count) - 1 };
}

/* Lock a piece that is left and return its index, or -1 if none is left: the next one that nobody
 * holds, so that actors pass each other; where all are held, the next one, once it is free. */
static int64_t piece_next(piece_order *o)
{
    atomic_uint *pieces = o->range->pieces;
    int64_t next = -1;

    for (int64_t i = 0; i < o->count && o->left; i++) {
        const int64_t piece = (o->first + i) % o->count;

        if (!(o->left >> piece & 1))
            continue;
        next = next < 0 ? piece : next;
        if (piece_try(&pieces[piece])) {
            o->left &= ~(UINT64_C(1) << piece);
            o->first = piece;
            return piece;
        }
    }
    if (next < 0)
        return -1;
    piece_lock(&pieces[next]);
    o->left &= ~(UINT64_C(1) << next);
    o->first = next;
    return next;
}

/* A reader of a range that nobody can visit finds its pieces unlocked. */
void fast__space_copy(const fast_space *space, const fast_space_operation *op)
{
    fast_space_range *range = &space->map.owners[op->owner].store.ranges[op->tensor];
    const int64_t size = piece_size(op->count);
    float *values = fast__space_values(space, op->owner, op->tensor);
    piece_order order = order_of(space, range, (op->count + size - 1) / size);

    FAST_ASSERT(op->result != NULL);
    for (int64_t piece; (piece = piece_next(&order)) >= 0;) {
        const int64_t at = piece * size;

        fast__vector_copy(op->count - at < size ? op->count - at : size, values + at,
                          op->result + at);
        piece_unlock(&range->pieces[piece]);
    }
}

/* Count a visit, and let the visitor prepare. */
static void begin(fast_space *space, const fast_space_visitor *visitor, fast_space_operation *op)
{
    const fast_space_store *store = &space->map.owners[op->owner].store;
    fast_space_range *range = &store->ranges[op->tensor];

    FAST_ASSERT(op->count > 0);
    piece_lock(&range->starting);
    const int64_t version = atomic_load(&range->version);
    const int64_t read = op->version_read < version ? op->version_read : version;
    const fast_space_update update = { .tensor = op->tensor,
                                       .offset = op->offset,
                                       .count = op->count,
                                       .x = op->x,
                                       .from = op->from,
                                       .clock = op->clock,
                                       .version = version,
                                       .read = read };
    if (visitor->begin)
        visitor->begin(visitor->ctx, store->head->ctx, &update);
    atomic_fetch_add(&store->slots[op->from].updates, 1);
    atomic_fetch_add(&range->staleness_sum, version - read);
    if (version - read > atomic_load(&range->staleness_max))
        atomic_store(&range->staleness_max, version - read);
    atomic_fetch_add(&range->applied, 1);
    atomic_store(&range->version, version + 1);
    piece_unlock(&range->starting);
}

/* Visit all pieces of a range, which is locked for reading; each writer starts at another one, and
 * comes back to those that it finds held. */
static void visit_pieces(fast_space *space, const fast_space_visitor *visitor,
                         const fast_space_operation *op)
{
    fast_space_range *range = &space->map.owners[op->owner].store.ranges[op->tensor];
    const int64_t size = piece_size(op->count);
    float *values = fast__space_values(space, op->owner, op->tensor);
    piece_order order = order_of(space, range, (op->count + size - 1) / size);

    FAST_ASSERT(visitor->piece != NULL);
    for (int64_t piece; (piece = piece_next(&order)) >= 0;) {
        const int64_t at = piece * size;
        const int64_t count = op->count - at < size ? op->count - at : size;

        visitor->piece(visitor->ctx, op->offset + at, count, values + at);
        piece_unlock(&range->pieces[piece]);
        if (visitor->after)
            visitor->after(visitor->ctx, op->offset + at, count);
    }
}

/* Visit an owner's range, once it is open. */
static fast_err visit_range(fast_space *space, const fast_space_visitor *visitor,
                            fast_space_operation *op)
{
    fast_space_store *store = &space->map.owners[op->owner].store;

    FAST_ASSERT(store->head != NULL);
    FAST_TRY(fast__space_ready(space, op->owner, op->deadline));
    FAST_TRY(fast__space_lock(space, op->owner, op->tensor, false, op->deadline));
    const bool open = atomic_load(&store->head->state) == FAST_SPACE_OPEN;
    if (open && visitor->clock) {
        int64_t clock = 0;

        (void)fast__space_clock(space, store, 0, &clock);
        *visitor->clock = clock < *visitor->clock ? clock : *visitor->clock;
    }
    if (open) {
        begin(space, visitor, op);
        visit_pieces(space, visitor, op);
        if (visitor->reads)
            *fast__space_at(space, space->clocks.read, op->owner, op->tensor) =
                atomic_load(&store->ranges[op->tensor].version);
    }
    fast__space_unlock(space, op->owner, op->tensor, false);
    if (!open)
        return fast__space_owner_left(space, op->owner);
    fast__space_changed(space, store);
    return FAST_OK;
}

fast_err fast__space_visit(fast_space *space, const float *x, const fast_space_visitor *visitor,
                           int64_t *version_out, int64_t deadline)
{
    fast_space_operation op = { .kind = FAST_SPACE_ADD, .x = x };

    FAST_ASSERT(visitor->piece && fast__space_can_visit(space));
    FAST_ASSERT(visitor->reads || !visitor->clock);
    FAST_TRY(fast__space_check_open(space, 0));
    if (visitor->clock)
        *visitor->clock = INT64_MAX;
    op.from = fast_actor_id(space->actor);
    op.deadline = fast__deadline(space->actor, deadline);
    *version_out = INT64_MAX;
    for (int64_t i = 0; i < space->map.owner_count; i++) {
        const int64_t owner = (space->map.first + i) % space->map.owner_count;
        fast_space_operation part = fast__space_part(space, &op, owner);

        part.clock = space->map.owners[owner].ticked;
        if (part.count == 0)
            continue;
        FAST_TRY(visit_range(space, visitor, &part));
        const int64_t version = *fast__space_at(space, space->clocks.read, owner, 0);
        *version_out = version < *version_out ? version : *version_out;
    }
    return space->task.err;
}
