/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A live view of running actors: unlike a timeline, which is complete and read at the end, it is
 * small and read at any time.
 *
 * Each actor writes its spans to a ring of its own: first the slot, then, with release, the count.
 * A reader loads the count with acquire, copies slots, and loads the count again: slots that may
 * have been overwritten since are left out. A slot is two words, the begin, and the end with the
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
typedef struct glance_slot {
    fast_counter begin; /* nanoseconds */
    fast_counter end;   /* nanoseconds << KIND_BITS | kind */
} glance_slot;

/* One actor's ring. */
typedef struct glance_ring {
    fast_counter count; /* spans ever written; written by the actor */
    int64_t seen;       /* spans that the reader has seen */
    glance_slot *slots; /* [size] */
} glance_ring;

typedef struct glance_link {
    fast_counter messages; /* messages sent */
    fast_counter bytes;    /* bytes sent */
} glance_link;

typedef struct glance_fault {
    const char *name; /* a literal */
    int64_t node;     /* its node, or -1 */
    int64_t time;     /* its time */
} glance_fault;

struct fast_glance {
    int64_t actors;                          /* actors of the world */
    int64_t size;                            /* slots of a ring */
    glance_ring *rings;                      /* [actors] */
    glance_slot *slots;                      /* [actors][size] */
    glance_link *links;                      /* [actors][actors]; NULL: too many actors */
    glance_fault faults[FAST_GLANCE_FAULTS]; /* in order of time */
    fast_counter fault_count;                /* faults so far; written by the simulator */
};

_Static_assert(FAST_SPAN_COUNT <= 1 << KIND_BITS, "a kind fits its bits");

fast_err fast__glance_new(int64_t actors, fast_glance **out)
{
    fast_glance *glance = NULL;

    FAST_ASSERT(actors > 0);
    FAST_TRY(fast__alloc("a snapshot", 1, sizeof *glance, &glance));
    glance->actors = actors;
    glance->size = FAST_GLANCE_SPANS / actors;
    glance->size = glance->size < RING_MIN ? RING_MIN : glance->size;
    glance->size = glance->size > RING_MAX ? RING_MAX : glance->size;
    fast_err err = fast__alloc("rings of spans", actors, sizeof *glance->rings, &glance->rings);
    if (!err)
        err = fast__alloc("rings of spans", actors * glance->size, sizeof *glance->slots,
                          &glance->slots);
    if (!err && actors <= FAST_GLANCE_LINKED_MAX)
        err = fast__alloc("links", actors * actors, sizeof *glance->links, &glance->links);
    if (err) {
        fast__glance_free(glance);
        return err;
    }
    for (int64_t i = 0; i < actors; i++)
        glance->rings[i].slots = glance->slots + i * glance->size;
    *out = glance;
    return FAST_OK;
}

void fast__glance_free(fast_glance *glance)
{
    if (!glance)
        return;
    fast__free(glance->rings);
    fast__free(glance->slots);
    fast__free(glance->links);
    fast__free(glance);
}

void fast__glance_span(fast_glance *glance, int64_t actor, fast_span span, int64_t begin,
                       int64_t end)
{
    glance_ring *r = &glance->rings[actor];
    const int64_t count = fast__counted(&r->count);
    glance_slot *s = &r->slots[count % glance->size];

    FAST_ASSERT((unsigned)span < FAST_SPAN_COUNT);
    if (span == FAST_SPAN_RECEIVE || span == FAST_SPAN_FAULT || end <= begin)
        return;
    /* Stores are ordered: a reader that sees the new slot sees the count of before, too. */
    atomic_store_explicit(&s->begin, begin, memory_order_release);
    atomic_store_explicit(&s->end, end << KIND_BITS | (int64_t)span, memory_order_release);
    atomic_store_explicit(&r->count, count + 1, memory_order_release);
}

void fast__glance_sent(fast_glance *glance, int64_t from, int64_t to, int64_t bytes)
{
    if (!glance->links)
        return;
    glance_link *l = &glance->links[from * glance->actors + to];
    fast__count(&l->messages, 1);
    fast__count(&l->bytes, bytes);
}

void fast__glance_fault(fast_glance *glance, const char *name, int64_t node, int64_t time)
{
    const int64_t count = fast__counted(&glance->fault_count);

    if (count == FAST_GLANCE_FAULTS)
        return;
    glance->faults[count] = (glance_fault){ name, node, time };
    atomic_store_explicit(&glance->fault_count, count + 1, memory_order_release);
}

int64_t fast__glance_spans(fast_glance *glance, int64_t actor, fast_glance_seen *spans,
                           int64_t count_max)
{
    glance_ring *r = &glance->rings[actor];
    const int64_t count = atomic_load_explicit(&r->count, memory_order_acquire);
    int64_t first = count - glance->size > r->seen ? count - glance->size : r->seen;
    int64_t taken = 0, skipped = 0;

    if (count - first > count_max)
        first = count - count_max;
    for (int64_t i = first; i < count; i++) {
        const glance_slot *s = &r->slots[i % glance->size];
        const int64_t begin = atomic_load_explicit(&s->begin, memory_order_acquire);
        const int64_t end = atomic_load_explicit(&s->end, memory_order_acquire);

        spans[taken++] = (fast_glance_seen){ actor, (fast_span)(end & ((1 << KIND_BITS) - 1)),
                                             begin, end >> KIND_BITS };
    }
    /* Slot number `now` may be half written: the span that was in it, and earlier ones, are left
     * out. */
    const int64_t now = atomic_load_explicit(&r->count, memory_order_acquire);
    while (skipped < taken && first + skipped <= now - glance->size)
        skipped++;
    for (int64_t i = skipped; skipped > 0 && i < taken; i++)
        spans[i - skipped] = spans[i];
    r->seen = count;
    return taken - skipped;
}

bool fast__glance_link(const fast_glance *glance, int64_t from, int64_t to, int64_t *messages_out,
                       int64_t *bytes_out)
{
    if (!glance->links)
        return false;
    const glance_link *l = &glance->links[from * glance->actors + to];
    *messages_out = fast__counted(&l->messages);
    *bytes_out = fast__counted(&l->bytes);
    return true;
}

bool fast__glance_fault_at(const fast_glance *glance, int64_t i, const char **name_out,
                           int64_t *node_out, int64_t *time_out)
{
    if (i >= atomic_load_explicit(&glance->fault_count, memory_order_acquire))
        return false;
    *name_out = glance->faults[i].name;
    *node_out = glance->faults[i].node;
    *time_out = glance->faults[i].time;
    return true;
}
