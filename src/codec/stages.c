/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The lossless stages of a chain over the bytes of a frame:
 *
 *     byte 0: number of stages that were applied, from the first; then the bytes after them
 *
 * A stage that makes the bytes more, and those after it, are left out. Nothing is allocated after
 * fast__stages_init().
 */
#include "codec/stages.h"

#include "base/memory.h"
#include "codec/chain.h"

#include <string.h>

fast_err fast__stages_init(const fast_chain *chain, size_t plain, fast_stages *out)
{
    size_t scratch = 0;

    *out = (fast_stages){ .chain = chain, .plain = plain, .room = plain };
    for (int i = 0; i < chain->stage_count; i++) {
        const fast_stage *stage = chain->stages[i];
        const size_t need = stage->scratch ? stage->scratch(chain->stage_configs[i], out->room) : 0;
        const size_t size = stage->bound(chain->stage_configs[i], out->room);

        scratch = need > scratch ? need : scratch;
        out->room = size > out->room ? size : out->room;
    }
    for (int i = 0; i < 2 && chain->stage_count > 0; i++)
        FAST_TRY(fast__alloc("stages of a codec", (int64_t)out->room, 1, &out->bytes[i]));
    return chain->stage_count > 0
               ? fast__alloc("scratch of stages", (int64_t)scratch, 1, &out->scratch)
               : FAST_OK;
}

void fast__stages_fini(fast_stages *stages)
{
    fast__free(stages->bytes[0]);
    fast__free(stages->bytes[1]);
    fast__free(stages->scratch);
    *stages = (fast_stages){ 0 };
}

size_t fast__stages_pack(fast_stages *s, size_t size, uint8_t *out)
{
    const fast_chain *chain = s->chain;
    int done = 0;

    FAST_ASSERT(chain->stage_count > 0 && size <= s->plain);
    for (; done < chain->stage_count; done++) {
        const size_t packed = chain->stages[done]->pack(chain->stage_configs[done], s->bytes[0],
                                                        size, s->scratch, s->bytes[1]);
        uint8_t *swap = s->bytes[0];

        if (packed >= size)
            break;
        s->bytes[0] = s->bytes[1];
        s->bytes[1] = swap;
        size = packed;
    }
    out[0] = (uint8_t)done;
    memcpy(out + 1, s->bytes[0], size);
    return 1 + size;
}

fast_err fast__stages_unpack(fast_stages *s, const uint8_t **in, size_t *size)
{
    const fast_chain *chain = s->chain;

    if (*size < 1 || **in > chain->stage_count)
        return fast__fail(FAST_EFORMAT,
                          "codec %s: the frame does not begin with a number of stages",
                          chain->text);
    int done = *(*in)++;
    --*size;
    while (done-- > 0) {
        uint8_t *out = *in == s->bytes[0] ? s->bytes[1] : s->bytes[0];
        size_t unpacked;

        FAST_TRY(chain->stages[done]->unpack(chain->stage_configs[done], *in, *size, s->scratch,
                                             out, s->room, &unpacked));
        *in = out;
        *size = unpacked;
    }
    return FAST_OK;
}
