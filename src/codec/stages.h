/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "codec/codec.h"

/* The lossless stages of a chain, with their memory. */
typedef struct fast_stages {
    const fast_chain *chain; /* borrowed */
    uint8_t *bytes[2];       /* [room] each: frames between stages; NULL without stages */
    void *scratch;           /* of the stages */
    size_t plain;            /* bytes before the stages, at most */
    size_t room;             /* bytes behind the first one, at most, in any stage */
} fast_stages;

/* Make room for the stages of a chain over at most `plain` bytes. FAST_ENOMEM: fini() is still to
 * be called. */
fast_err fast__stages_init(const fast_chain *chain, size_t plain, fast_stages *out);
void fast__stages_fini(fast_stages *stages); /* all 0 is allowed */
/* Pack the `size` bytes in stages->bytes[0] to out[1 + room] and return the bytes written. */
size_t fast__stages_pack(fast_stages *stages, size_t size, uint8_t *out);
/* Undo the stages: *in and *size become those of the bytes before, which are lent until the next
 * call. Without stages they are in the input. FAST_EFORMAT. */
fast_err fast__stages_unpack(fast_stages *stages, const uint8_t **in, size_t *size);
