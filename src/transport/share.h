/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "fast/fast.h"

/* A list of memory blocks that local actors share, by key; NULL is an empty list. Transports have
 * one for each set of local actors, guarded by a mutex if these are threads. */
typedef struct fast_share fast_share;

/* As fast_actor_share(): find the block of a key, or allocate it, cleared. FAST_EINVAL if it has
 * another size, FAST_ENOMEM. */
fast_err fast__share_find(fast_share **list, uint64_t key, size_t size, void *out);
/* Free all blocks and empty the list. */
void fast__share_free(fast_share **list);
