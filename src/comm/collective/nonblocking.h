/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "comm/collective.h"

/* A collective that runs beside its actor's program. The group retains finished requests, to use
 * them again. */
struct fast_request {
    fast_task task; /* advanced by the actor; the first field, so that a task is its request */
    fast_collective collective; /* under way; its group is NULL once the group is gone */
    struct fast_request *next;  /* in one of the group's lists */
};
