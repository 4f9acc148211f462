/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory that the actors of one node share: a list a node, found by key. A world has a handful of
 * them, asked for when groups and spaces are made.
 */
#include "base/memory.h"
#include "transport/sim/sim.h"

#include <string.h>

typedef struct fast_sim_share {
    uint64_t key;                /* what it was asked for by */
    size_t size;                 /* of the memory */
    void *memory;                /* cleared when it was made */
    struct fast_sim_share *next; /* of the same node */
} fast_sim_share;

fast_err fast__sim_share(fast_actor *actor, uint64_t key, size_t size, void *out)
{
    fast_sim_node *node = ((fast_sim_actor *)actor)->node;
    fast_sim_share *share = node->shares;

    while (share && share->key != key)
        share = share->next;
    if (share && share->size != size)
        return fast__fail(FAST_EINVAL, "shared memory %llx has %zu bytes, not %zu",
                          (unsigned long long)key, share->size, size);
    if (!share) {
        FAST_TRY(fast__alloc("shared memory", 1, sizeof *share, &share));
        const fast_err err = fast__alloc("shared memory", (int64_t)size, 1, &share->memory);
        if (err) {
            fast__free(share);
            return err;
        }
        share->key = key;
        share->size = size;
        share->next = node->shares;
        node->shares = share;
    }
    memcpy(out, &share->memory, sizeof share->memory);
    return FAST_OK;
}

void fast__sim_share_close(fast_sim *sim)
{
    for (int64_t i = 0; i < sim->node_count; i++)
        while (sim->nodes[i].shares) {
            fast_sim_share *share = sim->nodes[i].shares;
            sim->nodes[i].shares = share->next;
            fast__free(share->memory);
            fast__free(share);
        }
}
