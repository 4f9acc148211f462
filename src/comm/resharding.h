/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "fast/comm.h"
#include "tensor/reshard.h"

/* Change the layout of a value over the members of a group, rank t as shard t; value->shards is the
 * group's size. `from` has the floats of fast__reshard_before(), `to` receives those of
 * fast__reshard_after(); NONE and SUM allow the same memory for both. All members call it in the
 * same order. Fails as fast_send() and fast_receive() do; FAST_EFORMAT if a message has another
 * size. */
fast_err fast__reshard(fast_group *group, fast_actor *actor, const fast_reshard_value *value,
                       const float *from, float *to);
