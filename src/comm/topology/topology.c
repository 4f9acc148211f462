/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The three shapes of a topology and their queries. topology.h has the formulas of the weights;
 * topologies.c the graphs by name; topology_check.c the conditions for mixing.
 *
 *   shape       memory                             query of one rank
 *   circulant   8 bytes for each offset and step   O(degree)
 *   list        16 bytes for each end of a link    O(degree), a copy
 *   pairs       none                               O(1), computed from the step
 *
 * A topology is immutable once it is made: any number of threads may query it.
 */
#include "comm/topology.h"

#include "base/memory.h"
#include "base/rng.h"

#include <string.h>

int64_t fast_topology_size(const fast_topology *topology)
{
    FAST_ASSERT(topology);
    return topology->size;
}

/* Over all steps and both directions: room for the arrays of fast_topology_out() and _in(). */
int64_t fast_topology_degree_max(const fast_topology *topology)
{
    FAST_ASSERT(topology);
    return topology->degree_max;
}

/* 0 where a random order never repeats. */
int64_t fast_topology_period(const fast_topology *topology)
{
    FAST_ASSERT(topology);
    return topology->period;
}

/* Directed graphs need push-sum where in- and out-degrees differ. */
bool fast_topology_is_directed(const fast_topology *topology)
{
    FAST_ASSERT(topology);
    return topology->directed;
}

int64_t fast_topology_out(const fast_topology *topology, int64_t step, int64_t rank, int64_t *ranks,
                          double *weights, double *self_out)
{
    FAST_ASSERT(step >= 0);
    FAST_ASSERT(rank >= 0 && rank < topology->size);
    return topology->shape->peers(topology, step, rank, false, ranks, weights, self_out);
}

int64_t fast_topology_in(const fast_topology *topology, int64_t step, int64_t rank, int64_t *ranks,
                         double *weights, double *self_out)
{
    FAST_ASSERT(step >= 0);
    FAST_ASSERT(rank >= 0 && rank < topology->size);
    return topology->shape->peers(topology, step, rank, true, ranks, weights, self_out);
}

/* Walks that start anywhere wrap around: i is taken modulo the number of peers. */
int64_t fast__topology_out_at(const fast_topology *topology, int64_t step, int64_t rank, int64_t i,
                              int64_t *count_out)
{
    FAST_ASSERT(step >= 0 && i >= 0);
    FAST_ASSERT(rank >= 0 && rank < topology->size);
    return topology->shape->out_at(topology, step, rank, i, count_out);
}

/* Free the lists of one step. */
static void links_fini(fast_topology_links *links)
{
    FAST_ASSERT(links);
    fast__free(links->start);
    fast__free(links->peer);
    fast__free(links->weight);
    fast__free(links->self);
}

/* Undirected lists share `in` and `out`, which are then freed once. */
void fast_topology_free(fast_topology *topology)
{
    if (!topology)
        return;
    for (int64_t t = 0; t < topology->period; t++) {
        if (topology->in && topology->in != topology->out)
            links_fini(&topology->in[t]);
        if (topology->out)
            links_fini(&topology->out[t]);
    }
    if (topology->in != topology->out)
        fast__free(topology->in);
    fast__free(topology->out);
    fast__free(topology->offset);
    fast__free(topology->offset_start);
    fast__free(topology->number);
    fast__free(topology);
}

/* Circulant. */

/* Return the numbers of ranks in the pass that a step belongs to, then the ranks of numbers; NULL
 * where a rank is its own number. */
static const uint32_t *numbers_of(const fast_topology *topology, int64_t step)
{
    FAST_ASSERT(topology->steps > 0);
    const int64_t pass = topology->numberings ? step / topology->steps % topology->numberings : 0;

    return topology->number ? topology->number + 2 * pass * topology->size : NULL;
}

/* The peers of a rank: at the offsets of the step, from its number in this pass. */
static int64_t circulant_peers(const fast_topology *topology, int64_t step, int64_t rank, bool in,
                               int64_t *ranks, double *weights, double *self_out)
{
    FAST_ASSERT(topology->period > 0);
    const int64_t t = step % topology->steps;
    const uint32_t *number = numbers_of(topology, step);
    const int64_t own = number ? number[rank] : rank;
    const int64_t *offset = topology->offset + topology->offset_start[t];
    const int64_t count = topology->offset_start[t + 1] - topology->offset_start[t];
    const double share = 1.0 / (double)(count + 1);

    for (int64_t i = 0; i < count; i++) {
        const int64_t peer = (in ? own - offset[i] + topology->size : own + offset[i]);

        ranks[i] = peer % topology->size;
        if (number)
            ranks[i] = number[topology->size + ranks[i]];
        weights[i] = share;
    }
    *self_out = share;
    return count;
}

/* Peer i of a rank, in the order of circulant_peers(). Constant time, however many peers the rank
 * has. */
static int64_t circulant_out_at(const fast_topology *topology, int64_t step, int64_t rank,
                                int64_t i, int64_t *count_out)
{
    FAST_ASSERT(topology->period > 0);
    const uint32_t *number = numbers_of(topology, step);
    const int64_t *start = topology->offset_start + step % topology->steps;
    const int64_t count = start[1] - start[0];

    *count_out = count;
    if (count == 0)
        return -1;
    const int64_t peer = (number ? number[rank] : rank) + topology->offset[start[0] + i % count];

    return number ? number[topology->size + peer % topology->size] : peer % topology->size;
}

static const fast_shape circulant = { circulant_peers, circulant_out_at };

/* True if the offsets of a step lead back as well: o is among them with size - o. */
static bool is_symmetric(int64_t size, const int64_t *offset, int64_t count)
{
    FAST_ASSERT(count >= 0 && count < size);
    for (int64_t i = 0; i < count; i++) {
        bool found = false;

        for (int64_t k = 0; k < count && !found; k++)
            found = offset[k] == size - offset[i];
        if (!found)
            return false;
    }
    return true;
}

/* Counts and offsets are copied. */
fast_err fast__topology_circulant(int64_t size, int64_t period, const int64_t *counts,
                                  const int64_t *offsets, fast_topology **out)
{
    fast_topology *topology = NULL;
    int64_t total = 0;
    fast_err err;

    FAST_ASSERT(size >= 1 && period >= 1);
    for (int64_t t = 0; t < period; t++)
        total += counts[t];
    FAST_TRY(fast__alloc("a topology", 1, sizeof *topology, &topology));
    topology->shape = &circulant;
    topology->size = size;
    topology->period = period;
    topology->steps = period;
    err = fast__alloc("a topology's offsets", total, sizeof *offsets, &topology->offset);
    if (!err)
        err =
            fast__alloc("a topology's steps", period + 1, sizeof *offsets, &topology->offset_start);
    if (err)
        goto undo_topology;
    memcpy(topology->offset, offsets, (size_t)total * sizeof *offsets);
    for (int64_t t = 0; t < period; t++) {
        const int64_t start = topology->offset_start[t];

        topology->offset_start[t + 1] = start + counts[t];
        if (counts[t] > topology->degree_max)
            topology->degree_max = counts[t];
        /* All-to-all is symmetric; looking it up would take the square of the size. */
        if (counts[t] != size - 1 && !is_symmetric(size, offsets + start, counts[t]))
            topology->directed = true;
    }
    *out = topology;
    return FAST_OK;

undo_topology:
    fast_topology_free(topology);
    return err;
}

/* The first numbering is a random one too, so that neighbours by rank, often on one machine, are
 * not partners more often than others. */
fast_err fast__topology_renumber(fast_topology *topology, int64_t numberings, uint64_t seed)
{
    const int64_t size = topology->size;

    FAST_ASSERT(topology->shape == &circulant && !topology->number && numberings > 0);
    FAST_TRY(fast__alloc("a topology's numberings", 2 * numberings * size, sizeof *topology->number,
                         &topology->number));
    for (int64_t pass = 0; pass < numberings; pass++) {
        uint32_t *number = topology->number + 2 * pass * size;

        for (int64_t r = 0; r < size; r++) {
            number[r] = (uint32_t)fast__rng_permute(seed, FAST_PURPOSE_TOPOLOGY, (uint64_t)pass,
                                                    (uint64_t)size, (uint64_t)r);
            number[size + number[r]] = (uint32_t)r;
        }
    }
    topology->numberings = numberings;
    topology->period = topology->steps * numberings;
    return FAST_OK;
}

/* Lists. */

/* The peers of a rank: its list of the step. */
static int64_t list_peers(const fast_topology *topology, int64_t step, int64_t rank, bool in,
                          int64_t *ranks, double *weights, double *self_out)
{
    FAST_ASSERT(topology->period > 0);
    const int64_t t = step % topology->period;
    const fast_topology_links *links = in ? &topology->in[t] : &topology->out[t];
    const int64_t start = links->start[rank];
    const int64_t count = links->start[rank + 1] - start;

    memcpy(ranks, links->peer + start, (size_t)count * sizeof *ranks);
    memcpy(weights, links->weight + start, (size_t)count * sizeof *weights);
    *self_out = links->self[rank];
    return count;
}

/* Peer i of a rank's list of the step, in the order of list_peers(). */
static int64_t list_out_at(const fast_topology *topology, int64_t step, int64_t rank, int64_t i,
                           int64_t *count_out)
{
    FAST_ASSERT(topology->period > 0);
    const fast_topology_links *links = &topology->out[step % topology->period];
    const int64_t count = links->start[rank + 1] - links->start[rank];

    *count_out = count;
    return count ? links->peer[links->start[rank] + i % count] : -1;
}

static const fast_shape list = { list_peers, list_out_at };

/* Append one end of a link to a rank's list; `start` is the next free place of each rank. */
static void place(fast_topology_links *links, int64_t *next, int64_t rank, int64_t peer,
                  double weight)
{
    FAST_ASSERT(rank != peer);
    links->peer[next[rank]] = peer;
    links->weight[next[rank]] = weight;
    next[rank]++;
}

/* Insertion sort by peer: lists are short and often sorted already. False if one is twice. */
static bool sort_peers(fast_topology_links *links, int64_t start, int64_t end)
{
    FAST_ASSERT(start <= end);
    for (int64_t i = start + 1; i < end; i++) {
        const int64_t peer = links->peer[i];
        const double weight = links->weight[i];
        int64_t k = i;

        for (; k > start && links->peer[k - 1] > peer; k--) {
            links->peer[k] = links->peer[k - 1];
            links->weight[k] = links->weight[k - 1];
        }
        if (k > start && links->peer[k - 1] == peer)
            return false;
        links->peer[k] = peer;
        links->weight[k] = weight;
    }
    return true;
}

/* The lists of one step in one direction, `in` or out; undirected links stand in both. */
static fast_err list_fill(int64_t size, const fast_topology_link *link, int64_t count,
                          bool directed, bool in, fast_topology_links *links)
{
    FAST_ASSERT(count >= 0);
    const int64_t ends = directed ? count : 2 * count;
    int64_t *next = NULL;
    fast_err err;

    FAST_TRY(fast__alloc("a topology's lists", size + 1, sizeof *links->start, &links->start));
    FAST_TRY(fast__alloc("a topology's links", ends, sizeof *links->peer, &links->peer));
    FAST_TRY(fast__alloc("a topology's weights", ends, sizeof *links->weight, &links->weight));
    FAST_TRY(fast__alloc("a topology's own shares", size, sizeof *links->self, &links->self));
    FAST_TRY(fast__alloc("a topology's lists", size, sizeof *next, &next));
    /* Count the links of each rank, add up the counts, then place each link: a counting sort. */
    for (int64_t i = 0; i < count; i++) {
        links->start[(in ? link[i].to : link[i].from) + 1]++;
        if (!directed)
            links->start[link[i].to + 1]++;
    }
    for (int64_t r = 0; r < size; r++) {
        links->start[r + 1] += links->start[r];
        next[r] = links->start[r];
    }
    for (int64_t i = 0; i < count; i++) {
        place(links, next, in ? link[i].to : link[i].from, in ? link[i].from : link[i].to,
              link[i].weight);
        if (!directed)
            place(links, next, link[i].to, link[i].from, link[i].weight);
    }
    fast__free(next);
    err = FAST_OK;
    for (int64_t r = 0; r < size && !err; r++)
        if (!sort_peers(links, links->start[r], links->start[r + 1]))
            err = fast__fail(FAST_EINVAL, "a link of rank %lld is given twice", (long long)r);
    return err;
}

/* Set weights that were not given, and each rank's share of its own value: the formulas of
 * topology.h. */
static void list_weigh(int64_t size, const fast_topology_links *out, fast_topology_links *links,
                       bool directed, bool in)
{
    FAST_ASSERT(size >= 1);
    for (int64_t r = 0; r < size; r++) {
        const int64_t degree = out->start[r + 1] - out->start[r];
        double given = 0;

        for (int64_t i = links->start[r]; i < links->start[r + 1]; i++) {
            const int64_t peer = links->peer[i];
            const int64_t other = out->start[peer + 1] - out->start[peer];
            const int64_t larger = other > degree ? other : degree;
            const int64_t giver = in ? other : degree;

            if (links->weight[i] < 0)
                links->weight[i] = 1.0 / (double)(1 + (directed ? giver : larger));
            given += links->weight[i];
        }
        links->self[r] = 1 - given;
    }
}

/* Make the lists of one step, and check their links. */
static fast_err list_step(fast_topology *topology, int64_t t, const fast_topology_link *link,
                          int64_t count)
{
    FAST_ASSERT(t >= 0 && t < topology->period);
    const int64_t size = topology->size;
    fast_topology_links *out = &topology->out[t];

    for (int64_t i = 0; i < count; i++) {
        FAST_ASSERT(link[i].from >= 0 && link[i].from < size);
        FAST_ASSERT(link[i].to >= 0 && link[i].to < size);
        if (link[i].from == link[i].to)
            return fast__fail(FAST_EINVAL, "a link leads from rank %lld to itself",
                              (long long)link[i].from);
    }
    FAST_TRY(list_fill(size, link, count, topology->directed, false, out));
    if (topology->directed)
        FAST_TRY(list_fill(size, link, count, true, true, &topology->in[t]));
    list_weigh(size, out, out, topology->directed, false);
    if (topology->directed) {
        list_weigh(size, out, &topology->in[t], true, true);
        /* A rank's own share is the one that it does not give away, in both directions. */
        memcpy(topology->in[t].self, out->self, (size_t)size * sizeof *out->self);
    }
    /* Callers allocate room for degree_max peers in either direction. */
    for (int64_t r = 0; r < size; r++) {
        const fast_topology_links *in = &topology->in[t];
        const int64_t sends = out->start[r + 1] - out->start[r];
        const int64_t receives = in->start[r + 1] - in->start[r];
        const int64_t degree = sends > receives ? sends : receives;

        if (degree > topology->degree_max)
            topology->degree_max = degree;
    }
    return FAST_OK;
}

/* A failed step leaves lists that fast_topology_free() frees, as all memory starts zeroed. */
fast_err fast__topology_list(int64_t size, int64_t period, const int64_t *starts,
                             const fast_topology_link *links, bool directed, fast_topology **out)
{
    fast_topology *topology = NULL;
    fast_err err;

    FAST_ASSERT(size >= 1 && period >= 1);
    FAST_TRY(fast__alloc("a topology", 1, sizeof *topology, &topology));
    topology->shape = &list;
    topology->size = size;
    topology->period = period;
    topology->directed = directed;
    err = fast__alloc("a topology's steps", period, sizeof *topology->out, &topology->out);
    topology->in = topology->out;
    if (!err && directed) {
        topology->in = NULL;
        err = fast__alloc("a topology's steps", period, sizeof *topology->in, &topology->in);
    }
    for (int64_t t = 0; t < period && !err; t++)
        err = list_step(topology, t, links + starts[t], starts[t + 1] - starts[t]);
    if (err) {
        fast_topology_free(topology);
        return err;
    }
    *out = topology;
    return FAST_OK;
}

/* Pairs: the circle method. With n players, or n + 1 where n is odd, the last one is fixed while
 * the others rotate around it: in round t, r exchanges with t - r modulo n - 1. The rank that is
 * paired with the extra player rests. */

/* Return the rank that a rank exchanges with in a round; itself: it rests. */
static int64_t partner(int64_t size, int64_t round, int64_t rank)
{
    FAST_ASSERT(rank >= 0 && rank < size);
    const int64_t players = size + size % 2;
    const int64_t circle = players - 1;
    int64_t other;

    if (rank == circle) {
        /* The rank that would be paired with itself: 2 r = t. The inverse of 2 is players / 2. */
        other = round % circle * (players / 2) % circle;
    } else {
        other = (round - rank) % circle;
        if (other < 0)
            other += circle;
        if (other == rank)
            other = circle;
    }
    return other < size ? other : rank;
}

/* The peer of a rank: its partner in the round. */
static int64_t pairs_peers(const fast_topology *topology, int64_t step, int64_t rank, bool in,
                           int64_t *ranks, double *weights, double *self_out)
{
    FAST_ASSERT(step >= 0);
    const int64_t rounds = topology->size + topology->size % 2 - 1;
    int64_t round = step % rounds;
    int64_t other;

    (void)in;
    /* All ranks draw the same round from the step's own random numbers: nothing is exchanged. */
    if (topology->shuffled) {
        fast_rng rng;

        fast__rng_init(&rng, topology->seed, FAST_PURPOSE_TOPOLOGY, 0, (uint64_t)step, 0);
        round = (int64_t)fast__rng_below(&rng, (uint64_t)rounds);
    }
    other = partner(topology->size, round, rank);
    *self_out = other == rank ? 1 : 0.5;
    if (other == rank)
        return 0;
    ranks[0] = other;
    weights[0] = 0.5;
    return 1;
}

/* The partner again: every i is this peer. */
static int64_t pairs_out_at(const fast_topology *topology, int64_t step, int64_t rank, int64_t i,
                            int64_t *count_out)
{
    int64_t other = -1;
    double weight, self;

    FAST_ASSERT(i >= 0);
    *count_out = pairs_peers(topology, step, rank, false, &other, &weight, &self);
    return other;
}

static const fast_shape pairs = { pairs_peers, pairs_out_at };

/* An odd number of ranks plays one more round, in which each rank rests once. */
fast_err fast__topology_pairs(int64_t size, bool shuffled, uint64_t seed, fast_topology **out)
{
    fast_topology *topology = NULL;

    FAST_ASSERT(size >= 1);
    FAST_TRY(fast__alloc("a topology", 1, sizeof *topology, &topology));
    topology->shape = &pairs;
    topology->size = size;
    topology->degree_max = size > 1;
    topology->period = shuffled && size > 2 ? 0 : size + size % 2 - 1;
    topology->shuffled = shuffled;
    topology->seed = seed;
    *out = topology;
    return FAST_OK;
}
