/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Groups of workers, and ranges of keys.
 *
 * Groups (Li et al. 2014, section 3.1). Workers form groups of neighbouring ranks. The slack bounds
 * the delay inside a group; groups work on the same model and do not wait for each other, so that a
 * slow group, or one that has crashed, delays its own workers alone. With one group it is `ps`, and
 * with a group for each worker the slack is unbounded.
 *
 * Ranges of keys by a consistent-hash ring (Li et al. 2014, section 4.3; space/space_ring.c). Each
 * of S servers is v virtual servers, which are actors of their own: each has one range, with its
 * version, its clock of every worker, and its own part of the optimizer's state. Actor number k of
 * a copy is virtual server k / S of server k mod S, so that a cluster that places servers on S
 * nodes in turn puts the virtual servers of one server on one node.
 *
 * One server more takes about 1 / (S + 1) of the model from the others, and nothing else moves:
 * the cost of a change, which equal ranges do not have.
 *
 * Cost: v messages for each message of a server without a ring, of the same bytes in all. With
 * slack 0 it is `ps` without a ring, to the bit: rules work element by element.
 */
#include "base/memory.h"
#include "strategy/ps_keys.h"

fast_err fast__ps_ring_new(const ps_config *c, const fast_trainer *t, int64_t replica, ps_ring *out)
{
    const int64_t shards = fast__ps_shards(c, t->workers);
    ps_ring ring = { 0 };
    fast_err err;

    FAST_ASSERT(replica >= 0 && shards > 0);
    *out = ring;
    if (c->ring == 0)
        return FAST_OK;
    err = fast__alloc("the ring of servers", shards, sizeof *ring.owners, &ring.owners);
    if (!err)
        err = fast__alloc("the ring of servers", shards, sizeof *ring.ends, &ring.ends);
    if (!err)
        err = fast_space_ring(shards / c->ring, c->ring, ring.owners, ring.ends);
    for (int64_t i = 0; i < shards && !err; i++) {
        const double width = ring.ends[i] - (i > 0 ? ring.ends[i - 1] : 0);

        ring.widest = width > ring.widest ? width : ring.widest;
        ring.owners[i] = t->server_ids[replica * shards + ring.owners[i]];
    }
    if (err)
        fast__ps_ring_free(&ring);
    else
        *out = ring;
    return err;
}

void fast__ps_ring_free(ps_ring *ring)
{
    FAST_ASSERT(ring->widest >= 0 && ring->widest <= 1);
    fast__free(ring->owners);
    fast__free(ring->ends);
    *ring = (ps_ring){ 0 };
}

void fast__ps_group_of(int64_t groups, int64_t workers, int64_t rank, int64_t *first_out,
                       int64_t *size_out)
{
    FAST_ASSERT(groups > 0 && groups <= workers && rank >= 0 && rank < workers);
    /* The last group whose first rank is not above this one: rank >= group * workers / groups. */
    const int64_t group = ((rank + 1) * groups - 1) / workers;

    *first_out = group * workers / groups;
    *size_out = (group + 1) * workers / groups - *first_out;
    FAST_ASSERT(rank >= *first_out && rank < *first_out + *size_out);
}
