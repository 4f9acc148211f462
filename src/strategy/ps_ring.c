/* SPDX-License-Identifier: Apache-2.0 */
/*
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
#include "strategy/ps.h"

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
