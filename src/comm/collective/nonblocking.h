/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "comm/collective.h"

/* A collective that goes on besides its actor's program. The group keeps those that are done and
 * waited for, to use them again. */
struct fast_request {
    fast_task task;             /* what the actor advances; first, so that it is the request */
    fast_collective collective; /* under way; its group is NULL once the group is gone */
    struct fast_request *next;  /* in one of the group's lists */
};

/* Begin this collective as a task, and do at once what can be done. */
fast_err fast__request_start(const fast_collective *collective, fast_request **out);
