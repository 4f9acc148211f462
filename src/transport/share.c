/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory that local actors share, found by key. A world has a handful of blocks, requested when
 * groups and spaces are made, so a list is enough.
 */
#include "transport/share.h"

#include "base/err.h"
#include "base/memory.h"

#include <string.h>

struct fast_share {
    uint64_t key;            /* of the block */
    size_t size;             /* bytes of the block */
    void *memory;            /* the block, cleared when it was made */
    struct fast_share *next; /* the block made before */
};

fast_err fast__share_find(fast_share **list, uint64_t key, size_t size, void *out)
{
    FAST_ASSERT(list != NULL && out != NULL);
    fast_share *share = *list;

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
        share->next = *list;
        *list = share;
    }
    memcpy(out, &share->memory, sizeof share->memory);
    return FAST_OK;
}

void fast__share_free(fast_share **list)
{
    FAST_ASSERT(list != NULL);
    while (*list) {
        fast_share *share = *list;
        *list = share->next;
        fast__free(share->memory);
        fast__free(share);
    }
}
