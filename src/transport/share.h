/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "fast/fast.h"

/* Memory that near actors ask for by the same key: a list, empty where it is NULL. Transports keep
 * one for each set of near actors, and guard it where those are threads. */
typedef struct fast_share fast_share;

/* As fast_actor_share(): find the memory of the key, or make it, cleared. FAST_EINVAL if it has
 * another size, FAST_ENOMEM. */
fast_err fast__share_find(fast_share **list, uint64_t key, size_t size, void *out);
/* Free all of it; the list is empty then. */
void fast__share_free(fast_share **list);
