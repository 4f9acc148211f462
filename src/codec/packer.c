/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The lossless stages of a chain over bytes that no codec made: lists of cached keys and their
 * values (space/space_sparse.c). A frame is like that of a coder:
 *
 *     byte 0: stages that were applied, from the first; then, after those, the bytes
 *
 * A stage that makes the bytes more, and those after it, are left out. Cost: that of the stages;
 * memory: two buffers of the longest bytes.
 */
#include "base/memory.h"
#include "codec/chain.h"

#include <string.h>

struct fast_packer {
    const fast_chain *chain; /* borrowed */
    uint8_t *bytes[2];       /* [room] each: before and after a stage */
    void *scratch;           /* of the stages */
    size_t room;             /* bytes, before or after any stage, at most */
};

fast_err fast__packer_new(const fast_chain *chain, size_t largest, fast_packer **out)
{
    fast_packer *p = NULL;
    size_t scratch = 0, size = largest;
    fast_err err;

    FAST_ASSERT(chain->stage_count > 0 && largest > 0);
    FAST_TRY(fast__alloc("stages of a codec", 1, sizeof *p, &p));
    p->chain = chain;
    p->room = largest;
    for (int i = 0; i < chain->stage_count; i++) {
        const fast_stage *stage = chain->stages[i];
        const size_t need = stage->scratch ? stage->scratch(chain->stage_configs[i], p->room) : 0;

        scratch = need > scratch ? need : scratch;
        size = stage->bound(chain->stage_configs[i], p->room);
        p->room = size > p->room ? size : p->room;
    }
    err = fast__alloc("stages of a codec", (int64_t)p->room, 1, &p->bytes[0]);
    if (!err)
        err = fast__alloc("stages of a codec", (int64_t)p->room, 1, &p->bytes[1]);
    if (!err && scratch > 0)
        err = fast__alloc("scratch of stages", (int64_t)scratch, 1, &p->scratch);
    if (err)
        fast__packer_free(p);
    else
        *out = p;
    return err;
}

void fast__packer_free(fast_packer *p)
{
    if (!p)
        return;
    fast__free(p->bytes[0]);
    fast__free(p->bytes[1]);
    fast__free(p->scratch);
    fast__free(p);
}

size_t fast__packer_bound(const fast_packer *p)
{
    return p->room + 1;
}

/* Swap the buffers: the newer bytes are always in bytes[0]. */
static void swap(fast_packer *p)
{
    uint8_t *const other = p->bytes[1];

    p->bytes[1] = p->bytes[0];
    p->bytes[0] = other;
}

size_t fast__packer_pack(fast_packer *p, const void *in, size_t size, uint8_t *out)
{
    const fast_chain *chain = p->chain;
    int done = 0;

    FAST_ASSERT(size <= p->room);
    memcpy(p->bytes[0], in, size);
    for (; done < chain->stage_count; done++) {
        const size_t packed = chain->stages[done]->pack(chain->stage_configs[done], p->bytes[0],
                                                        size, p->scratch, p->bytes[1]);

        if (packed >= size)
            break;
        size = packed;
        swap(p);
    }
    out[0] = (uint8_t)done;
    memcpy(out + 1, p->bytes[0], size);
    return size + 1;
}

fast_err fast__packer_unpack(fast_packer *p, const void *in, size_t size, void **out,
                             size_t *size_out)
{
    const fast_chain *chain = p->chain;
    const uint8_t *at = in;

    if (size < 1 || size - 1 > p->room || at[0] > chain->stage_count)
        return fast__fail(FAST_EFORMAT, "codec %s: %zu bytes do not begin with a number of stages",
                          chain->text, size);
    /* A copy, so that the bytes are aligned whether a stage was applied or not. */
    memcpy(p->bytes[0], at + 1, --size);
    for (int i = at[0] - 1; i >= 0; i--) {
        size_t unpacked = 0;

        FAST_TRY(chain->stages[i]->unpack(chain->stage_configs[i], p->bytes[0], size, p->scratch,
                                          p->bytes[1], p->room, &unpacked));
        size = unpacked;
        swap(p);
    }
    *out = p->bytes[0];
    *size_out = size;
    return FAST_OK;
}
