/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdint.h>

/* A request for a native collective. */
typedef enum fast_native_kind {
    FAST_NATIVE_ALLREDUCE, /* sum of floats, in place at all members */
    FAST_NATIVE_BARRIER    /* returns once all members called it */
} fast_native_kind;
typedef struct fast_native {
    fast_native_kind kind; /* the operation */
    const int64_t *ids;    /* members in their order */
    int64_t count;         /* number of members */
    uint64_t key;          /* of the group, equal at all members */
    float *x;              /* vector to be summed in place; unused by a barrier */
    int64_t size;          /* floats of x */
    int64_t deadline;      /* a time of fast_now(), FAST_SOON or FAST_AT_ONCE */
} fast_native;
