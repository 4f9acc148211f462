/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A live view of running actors: unlike a timeline, which is complete and read at the end, it is
 * small and read at any time.
 *
 * Each actor writes its spans to a ring of its own: first the slot, then, with release, the count.
 * A reader loads the count with acquire, copies slots, and loads the count again: slots that may
 * have been overwritten since are left out. A slot is two words, the start, and the end with the
 * kind in its low bits, each written atomically; so no lock is needed, and torn slots are detected.
 *
 * Links are a matrix of two counters, each written by its sender alone. Cost: 3 stores a span, 2
 * additions a message; 16 bytes a span, 16 A^2 bytes for A actors, of at most 256.
 */
#include "transport/snapshot.h"

#include "base/memory.h"
#include "transport/transport.h"

enum {
    KIND_BITS = 3, /* bits of a span's kind, below its end */
    RING_MIN = 8,  /* slots of an actor in a large world */
    RING_MAX = 256 /* slots of an actor in a small world */
};

/* One span. */
typedef struct snapshot_slot {
    fast_counter begin; /* nanoseconds */
    fast_counter end;   /* nanoseconds << KIND_BITS | kind */
} snapshot_slot;

/* One actor's ring. */
typedef struct snapshot_ring {
    fast_counter count;   /* spans ever written; written by the actor */
    int64_t seen;         /* spans that the reader has seen */
    snapshot_slot *slots; /* [size] */
} snapshot_ring;

typedef struct snapshot_link {
    fast_counter messages; /* messages sent */
    fast_counter bytes;    /* bytes sent */
} snapshot_link;

typedef struct snapshot_fault {
    const char *name; /* a literal */
    int64_t node;     /* its node, or -1 */
    int64_t time;     /* its time */
} snapshot_fault;

struct fast_snapshot {
    int64_t actors;                              /* actors of the world */
    int64_t size;                                /* slots of a ring */
    snapshot_ring *rings;                        /* [actors] */
    snapshot_slot *slots;                        /* [actors][size] */
    snapshot_link *links;                        /* [actors][actors]; NULL: too many actors */
    snapshot_fault faults[FAST_SNAPSHOT_FAULTS]; /* in order of time */
    fast_counter fault_count;                    /* faults so far; written by the simulator */
};

_Static_assert(FAST_SPAN_COUNT <= 1 << KIND_BITS, "a kind fits its bits");

fast_err fast__snapshot_new(int64_t actors, fast_snapshot **out)
{
    fast_snapshot *snapshot = NULL;

    FAST_ASSERT(actors > 0);
    FAST_TRY(fast__alloc("a snapshot", 1, sizeof *snapshot, &snapshot));
    snapshot->actors = actors;
    snapshot->size = FAST_SNAPSHOT_SPANS / actors;
    snapshot->size = snapshot->size < RING_MIN ? RING_MIN : snapshot->size;
    snapshot->size = snapshot->size > RING_MAX ? RING_MAX : snapshot->size;
    fast_err err = fast__alloc("rings of spans", actors, sizeof *snapshot->rings, &snapshot->rings);
    if (!err)
        err = fast__alloc("rings of spans", actors * snapshot->size, sizeof *snapshot->slots,
                          &snapshot->slots);
    if (!err && actors <= FAST_SNAPSHOT_LINKED_MAX)
        err = fast__alloc("links", actors * actors, sizeof *snapshot->links, &snapshot->links);
    if (err) {
        fast__snapshot_free(snapshot);
        return err;
    }
    for (int64_t i = 0; i < actors; i++)
        snapshot->rings[i].slots = snapshot->slots + i * snapshot->size;
    *out = snapshot;
    return FAST_OK;
}

void fast__snapshot_free(fast_snapshot *snapshot)
{
    if (!snapshot)
        return;
    fast__free(snapshot->rings);
    fast__free(snapshot->slots);
    fast__free(snapshot->links);
    fast__free(snapshot);
}

void fast__snapshot_add_span(fast_snapshot *snapshot, int64_t actor, fast_span span, int64_t begin,
                             int64_t end)
{
    snapshot_ring *r = &snapshot->rings[actor];
    const int64_t count = fast__counted(&r->count);
    snapshot_slot *s = &r->slots[count % snapshot->size];

    FAST_ASSERT((unsigned)span < FAST_SPAN_COUNT);
    if (span == FAST_SPAN_RECEIVE || span == FAST_SPAN_FAULT || end <= begin)
        return;
    /* Stores are ordered: a reader that sees the new slot sees the count of before, too. */
    atomic_store_explicit(&s->begin, begin, memory_order_release);
    atomic_store_explicit(&s->end, end << KIND_BITS | (int64_t)span, memory_order_release);
    atomic_store_explicit(&r->count, count + 1, memory_order_release);
}

void fast__snapshot_add_sent(fast_snapshot *snapshot, int64_t from, int64_t to, int64_t bytes)
{
    if (!snapshot->links)
        return;
    snapshot_link *l = &snapshot->links[from * snapshot->actors + to];
    fast__count(&l->messages, 1);
    fast__count(&l->bytes, bytes);
}

void fast__snapshot_add_fault(fast_snapshot *snapshot, const char *name, int64_t node, int64_t time)
{
    const int64_t count = fast__counted(&snapshot->fault_count);

    if (count == FAST_SNAPSHOT_FAULTS)
        return;
    snapshot->faults[count] = (snapshot_fault){ name, node, time };
    atomic_store_explicit(&snapshot->fault_count, count + 1, memory_order_release);
}

int64_t fast__snapshot_spans(fast_snapshot *snapshot, int64_t actor, fast_snapshot_span *spans,
                             int64_t count_max)
{
    snapshot_ring *r = &snapshot->rings[actor];
    const int64_t count = atomic_load_explicit(&r->count, memory_order_acquire);
    int64_t first = count - snapshot->size > r->seen ? count - snapshot->size : r->seen;
    int64_t taken = 0, skipped = 0;

    if (count - first > count_max)
        first = count - count_max;
    for (int64_t i = first; i < count; i++) {
        const snapshot_slot *s = &r->slots[i % snapshot->size];
        const int64_t begin = atomic_load_explicit(&s->begin, memory_order_acquire);
        const int64_t end = atomic_load_explicit(&s->end, memory_order_acquire);

        spans[taken++] = (fast_snapshot_span){ actor, (fast_span)(end & ((1 << KIND_BITS) - 1)),
                                               begin, end >> KIND_BITS };
    }
    /* Slot number `now` may be half written: the span that was in it, and earlier ones, are left
     * out. */
    const int64_t now = atomic_load_explicit(&r->count, memory_order_acquire);
    while (skipped < taken && first + skipped <= now - snapshot->size)
        skipped++;
    for (int64_t i = skipped; skipped > 0 && i < taken; i++)
        spans[i - skipped] = spans[i];
    r->seen = count;
    return taken - skipped;
}

bool fast__snapshot_link(const fast_snapshot *snapshot, int64_t from, int64_t to,
                         int64_t *messages_out, int64_t *bytes_out)
{
    if (!snapshot->links)
        return false;
    const snapshot_link *l = &snapshot->links[from * snapshot->actors + to];
    *messages_out = fast__counted(&l->messages);
    *bytes_out = fast__counted(&l->bytes);
    return true;
}

bool fast__snapshot_fault_at(const fast_snapshot *snapshot, int64_t i, const char **name_out,
                             int64_t *node_out, int64_t *time_out)
{
    if (i >= atomic_load_explicit(&snapshot->fault_count, memory_order_acquire))
        return false;
    *name_out = snapshot->faults[i].name;
    *node_out = snapshot->faults[i].node;
    *time_out = snapshot->faults[i].time;
    return true;
}
