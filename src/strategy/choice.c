/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Random neighbours of pairwise gossip. Probabilities of edges are an option of Ram et al. (2010)
 * and Boyd et al. (2006), who choose them so that the second largest eigenvalue of the expected
 * mixing matrix is least (comm/topology/edges.c). Every worker computes them for itself, with the
 * same result; of more than ALONE workers worker 0 does, and sends each the probabilities of its
 * edges. Only a restarted worker, and one that finds worker 0 down, computes them for itself then.
 */
#include "strategy/choice.h"

#include "base/err.h"
#include "base/memory.h"
#include "comm/edges.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { ALONE = 64 }; /* workers at most that compute probabilities for themselves: a moment each */

/* Return whether probabilities of the same edges are uniform ones, up to rounding. */
static bool is_uniform(const fast_edges *edges, const fast_edges *uniform)
{
    FAST_ASSERT(edges->start[edges->size] == uniform->start[uniform->size]);
    for (int64_t i = 0; i < edges->start[edges->size]; i++)
        if (fabs(edges->p[i] - uniform->p[i]) > 1e-9)
            return false;
    return true;
}

/* Tell the user the eigenvalue of these probabilities, and that of uniform ones. */
static fast_err report(fast_trainer *t, const fast_edges *edges)
{
    fast_edges *uniform = NULL;
    double value, other;
    char text[240];

    FAST_ASSERT(t->rank == 0);
    FAST_TRY(fast__edges_eigenvalue(edges, &value));
    FAST_TRY(fast__edges_new(t->topology, false, &uniform));
    const fast_err err = fast__edges_eigenvalue(uniform, &other);
    const bool equal = is_uniform(edges, uniform);
    const int digits = value < 0.999 ? 4 : 8; /* of many workers it is close to 1 */
    fast__edges_free(uniform);
    FAST_TRY(err);
    snprintf(text, sizeof text,
             "the second largest eigenvalue of the expected mixing matrix is %.*f, with uniform "
             "probabilities %.*f%s",
             digits, value, digits, other,
             equal ? ": these are uniform, and edges changes nothing" : "");
    fast_trainer_note(t, text);
    return FAST_OK;
}

/* Worker 0: send each of the others the probabilities of its edges. One that is down needs none. */
static fast_err send_all(fast_trainer *t, const fast_edges *edges)
{
    const size_t size = (size_t)edges->start[edges->size] * sizeof *edges->p;
    fast_buffer *all = NULL;

    FAST_TRY(fast_buffer_new(t->actor, size, &all));
    FAST_ASSERT(t->rank == 0);
    memcpy(fast_buffer_data(all), edges->p, size);
    fast_buffer_freeze(all);
    fast_err err = FAST_OK;
    for (int64_t r = 1; r < t->workers && !err; r++) {
        const int64_t first = edges->start[r], count = edges->start[r + 1] - first;
        fast_msg *msg = NULL;

        err = fast_msg_new(t->actor, FAST_TAG_EDGES, &msg);
        if (err)
            break;
        fast_msg_add_view(msg, all, (size_t)first * sizeof *edges->p,
                          (size_t)count * sizeof *edges->p);
        err = fast_send(t->actor, t->worker_ids[r], &msg);
        err = err == FAST_EPEER ? FAST_OK : err;
    }
    fast_buffer_free(all);
    return err;
}

/* Get the probabilities of this worker's edges from worker 0. FAST_EPEER if it is down. */
static fast_err receive_own(fast_trainer *t, fast_choice *out)
{
    const size_t size = (size_t)out->count * sizeof *out->p;
    fast_msg *msg = NULL;
    fast_err err = FAST_OK;

    FAST_ASSERT(t->rank > 0);
    FAST_TRY(fast_receive(t->actor, t->worker_ids[0], FAST_TAG_EDGES, FAST_SOON, &msg));
    if (msg->part_count != 1 || msg->parts[0].size != size)
        err = fast__fail(FAST_EFORMAT, "probabilities of edges: a message of a wrong size");
    else
        memcpy(out->p, fast_msg_data(msg, 0), size);
    fast_msg_free(msg);
    return err;
}

/* Find the probabilities of all workers: worker 0 reports them, and with `send` tells the others;
 * copy those of this one. */
static fast_err find_all(fast_trainer *t, int how, bool send, fast_choice *out)
{
    fast_edges *edges = NULL;
    fast_err err = FAST_OK;

    FAST_ASSERT(out->p != NULL);
    FAST_TRY(fast__edges_new(t->topology, how == FAST_EDGES_WEIGHTS, &edges));
    if (how == FAST_EDGES_BEST)
        err = fast__edges_optimise(edges);
    if (!err && t->rank == 0 && send)
        err = send_all(t, edges);
    if (!err && t->rank == 0)
        err = report(t, edges);
    if (!err)
        memcpy(out->p, edges->p + edges->start[t->rank], (size_t)out->count * sizeof *out->p);
    fast__edges_free(edges);
    return err;
}

/* Find the probabilities of this worker's edges, or get them. */
static fast_err find_own(fast_trainer *t, int how, fast_choice *out)
{
    const bool send =
        how == FAST_EDGES_BEST && t->workers > ALONE && fast_actor_life(t->actor) == 0;
    fast_err err = FAST_EPEER;

    FAST_ASSERT(t->workers <= FAST_EDGES_SIZE_MAX);
    if (send && t->rank > 0)
        err = receive_own(t, out);
    return err == FAST_EPEER ? find_all(t, how, send, out) : err;
}

fast_err fast__choice_init(fast_trainer *t, int edges, fast_choice *out)
{
    const int64_t degree = fast_topology_degree_max(t->topology);
    double self;

    *out = (fast_choice){ .t = t };
    FAST_ASSERT(t->topology != NULL);
    if (edges == FAST_EDGES_UNIFORM)
        return FAST_OK;
    if (fast_topology_period(t->topology) != 1)
        return fast__fail(FAST_EINVAL,
                          "gossip_async: edges have probabilities where neighbours stay the same; "
                          "use another topology or edges=uniform");
    if (edges == FAST_EDGES_BEST && t->workers > FAST_EDGES_SIZE_MAX)
        return fast__fail(FAST_EINVAL,
                          "gossip_async: probabilities of edges are optimised for at most %d "
                          "workers, not %lld; use edges=uniform or edges=weights",
                          FAST_EDGES_SIZE_MAX, (long long)t->workers);
    FAST_TRY(fast__alloc("neighbours", degree, sizeof *out->ranks, &out->ranks));
    FAST_TRY(fast__alloc("probabilities of neighbours", degree, sizeof *out->p, &out->p));
    out->count = fast_topology_out(t->topology, 0, t->rank, out->ranks, out->p, &self);
    if (t->workers > (edges == FAST_EDGES_WEIGHTS && t->rank > 0 ? ALONE : FAST_EDGES_SIZE_MAX))
        return FAST_OK; /* the weights are those of the topology already */
    return find_own(t, edges, out);
}

void fast__choice_fini(fast_choice *choice)
{
    FAST_ASSERT(choice != NULL);
    fast__free(choice->ranks);
    fast__free(choice->p);
}

/* One random number at each call, so that a stream does not depend on crashes. */
int64_t fast__choice_draw(const fast_choice *choice)
{
    fast_trainer *t = choice->t;
    int64_t last = -1;
    double sum = 0, left;

    FAST_ASSERT(t != NULL);
    if (!choice->ranks)
        return fast__neighbour_pick(t);
    left = fast__random_uniform(t->actor);
    for (int64_t i = 0; i < choice->count; i++)
        if (!fast_member_is_down(t->actor, t->worker_ids[choice->ranks[i]]))
            sum += choice->p[i];
    left *= sum;
    for (int64_t i = 0; i < choice->count && left >= 0; i++) {
        if (!(choice->p[i] > 0) || fast_member_is_down(t->actor, t->worker_ids[choice->ranks[i]]))
            continue;
        last = choice->ranks[i];
        left -= choice->p[i];
    }
    return last;
}
