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
 * Links are a matrix of three counters: messages and bytes are written by the sender alone, waits
 * by the receiver.
 *
 * The whole timeline of an actor is summarised in B bins of equal length: nanoseconds of each kind.
 * A span that ends beyond the last bin doubles their length, each two becoming one, so that between
 * B / 2 and B of them are used:
 *
 *     B = 4, length 1     | a | b | c | d |          a span until 5
 *     length 2            | a + b | c + d | . | . |
 *
 * A reader copies the bins between two looks at a version, which is odd while they are doubled.
 *
 * Cost: 5 stores a span, 2 additions a message, one a wait; 16 bytes a span, 32 bytes a bin, 24 A^2
 * bytes for A actors, of at most 256.
 */
#include "transport/snapshot.h"

#include "base/memory.h"
#include "transport/transport.h"

enum {
    KIND_BITS = 3,   /* bits of a span's kind, below its end */
    RING_MIN = 8,    /* slots of an actor in a large world */
    RING_MAX = 256,  /* slots of an actor in a small world */
    BINS_MIN = 16,   /* bins of an actor in a large world */
    BINS_ALL = 32768 /* bins of all actors together, about */
};
static const int64_t BIN_NS = 1024; /* length of a bin at first */

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
    fast_counter wait_ns;  /* for which the receiver was blocked */
} snapshot_link;

/* One actor's bins. */
typedef struct snapshot_bins {
    fast_counter version; /* odd while they are doubled */
    fast_counter bin_ns;  /* length of a bin */
    fast_counter *ns;     /* [bins][FAST_ACTIVITY_KINDS] */
} snapshot_bins;

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
    int64_t bins;                                /* bins of an actor; even */
    snapshot_bins *activity;                     /* [actors] */
    fast_counter *ns;                            /* [actors][bins][FAST_ACTIVITY_KINDS] */
    snapshot_link *links;                        /* [actors][actors]; NULL: too many actors */
    snapshot_fault faults[FAST_SNAPSHOT_FAULTS]; /* in order of time */
    fast_counter fault_count;                    /* faults so far; written by the simulator */
};

_Static_assert(FAST_SPAN_COUNT <= 1 << KIND_BITS, "a kind fits its bits");

int64_t fast__snapshot_bins_of(int64_t actors)
{
    const int64_t bins = BINS_ALL / actors / 2 * 2;

    return bins < BINS_MIN ? BINS_MIN : bins < FAST_SNAPSHOT_BINS ? bins : FAST_SNAPSHOT_BINS;
}

/* Allocate the bins of all actors. */
static fast_err new_bins(fast_snapshot *snapshot)
{
    snapshot->bins = fast__snapshot_bins_of(snapshot->actors);
    FAST_TRY(fast__alloc("timelines", snapshot->actors, sizeof *snapshot->activity,
                         &snapshot->activity));
    FAST_TRY(fast__alloc("timelines", snapshot->actors * snapshot->bins,
                         FAST_ACTIVITY_KINDS * sizeof *snapshot->ns, &snapshot->ns));
    for (int64_t i = 0; i < snapshot->actors; i++) {
        snapshot->activity[i].ns = snapshot->ns + i * snapshot->bins * FAST_ACTIVITY_KINDS;
        atomic_store(&snapshot->activity[i].bin_ns, BIN_NS);
    }
    return FAST_OK;
}

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
    if (!err)
        err = new_bins(snapshot);
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
    fast__free(snapshot->activity);
    fast__free(snapshot->ns);
    fast__free(snapshot->links);
    fast__free(snapshot);
}

/* Double the length of an actor's bins. */
static void double_bins(const fast_snapshot *snapshot, snapshot_bins *b)
{
    const int64_t used = snapshot->bins * FAST_ACTIVITY_KINDS;

    atomic_fetch_add(&b->version, 1);
    for (int64_t i = 0; i < used; i++) {
        const int64_t bin = i / FAST_ACTIVITY_KINDS, kind = i % FAST_ACTIVITY_KINDS;
        const int64_t first = 2 * bin * FAST_ACTIVITY_KINDS + kind;
        const int64_t sum = first < used ? fast__counted(&b->ns[first]) +
                                               fast__counted(&b->ns[first + FAST_ACTIVITY_KINDS])
                                         : 0;
        atomic_store_explicit(&b->ns[i], sum, memory_order_relaxed);
    }
    fast__count(&b->bin_ns, fast__counted(&b->bin_ns));
    atomic_fetch_add(&b->version, 1);
}

/* Add a span to the bins that it overlaps. */
static void add_activity(fast_snapshot *snapshot, int64_t actor, int kind, int64_t begin,
                         int64_t end)
{
    snapshot_bins *b = &snapshot->activity[actor];

    begin = begin < 0 ? 0 : begin;
    if (end > INT64_MAX / 4)
        return;
    while (end > fast__counted(&b->bin_ns) * snapshot->bins)
        double_bins(snapshot, b);
    const int64_t length = fast__counted(&b->bin_ns);
    for (int64_t bin = begin / length; bin * length < end; bin++) {
        const int64_t from = bin * length > begin ? bin * length : begin;
        const int64_t to = (bin + 1) * length < end ? (bin + 1) * length : end;

        fast__count(&b->ns[bin * FAST_ACTIVITY_KINDS + kind], to - from);
    }
}

void fast__snapshot_add_span(fast_snapshot *snapshot, int64_t actor, fast_span span, int64_t begin,
                             int64_t end)
{
    static const int activity_of[FAST_SPAN_COUNT] = { [FAST_SPAN_COMPUTE] = FAST_ACTIVITY_COMPUTE,
                                                      [FAST_SPAN_CODEC] = FAST_ACTIVITY_CODEC,
                                                      [FAST_SPAN_SEND] = FAST_ACTIVITY_SEND,
                                                      [FAST_SPAN_WAIT] = FAST_ACTIVITY_WAIT };
    snapshot_ring *r = &snapshot->rings[actor];
    const int64_t count = fast__counted(&r->count);
    snapshot_slot *s = &r->slots[count % snapshot->size];

    FAST_ASSERT((unsigned)span < FAST_SPAN_COUNT);
    if (span == FAST_SPAN_RECEIVE || span == FAST_SPAN_FAULT || end <= begin)
        return;
    add_activity(snapshot, actor, activity_of[span], begin, end);
    /* Stores are ordered: a reader that sees the new slot sees the count of before, too. */
    atomic_store_explicit(&s->begin, begin, memory_order_release);
    atomic_store_explicit(&s->end, (int64_t)((uint64_t)end << KIND_BITS | (uint64_t)span),
                          memory_order_release);
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

void fast__snapshot_add_wait(fast_snapshot *snapshot, int64_t waiter, int64_t whom, int64_t ns)
{
    if (!snapshot->links || whom < 0 || whom >= snapshot->actors)
        return;
    fast__count(&snapshot->links[whom * snapshot->actors + waiter].wait_ns, ns);
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

int64_t fast__snapshot_activity(const fast_snapshot *snapshot, int64_t actor, uint16_t *parts,
                                int64_t *bin_ns_out)
{
    const snapshot_bins *b = &snapshot->activity[actor];
    const int64_t version = atomic_load(&b->version);
    const int64_t length = fast__counted(&b->bin_ns);
    int64_t used = 0;

    for (int64_t i = 0; i < snapshot->bins * FAST_ACTIVITY_KINDS; i++) {
        const int64_t part = 1000 * (fast__counted(&b->ns[i]) / 8) / (length / 8);

        parts[i] = (uint16_t)(part < 0 ? 0 : part > 1000 ? 1000 : part);
        if (parts[i] > 0)
            used = i / FAST_ACTIVITY_KINDS + 1;
    }
    atomic_thread_fence(memory_order_seq_cst);
    *bin_ns_out = length;
    return version % 2 == 0 && atomic_load(&b->version) == version ? used : 0;
}

bool fast__snapshot_link(const fast_snapshot *snapshot, int64_t from, int64_t to,
                         fast_snapshot_traffic *out)
{
    if (!snapshot->links)
        return false;
    const snapshot_link *l = &snapshot->links[from * snapshot->actors + to];
    out->messages = fast__counted(&l->messages);
    out->bytes = fast__counted(&l->bytes);
    out->wait_ns = fast__counted(&l->wait_ns);
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
