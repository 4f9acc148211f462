/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "comm/collective.h"

/*
 * An all-gather of buffers whose sizes differ (MPI_Iallgatherv), in two halves, so that the first
 * can be posted while a gradient is computed: each member sends its frozen buffer to every other,
 * P - 1 messages, to the next rank first. Buffers that arrived are lent by rank until drop().
 */
typedef struct fast_allgatherv_part {
    fast_buffer *buffer; /* held; NULL: it has not arrived */
    const void *data;    /* its first byte */
    size_t size;         /* bytes that are used */
} fast_allgatherv_part;

typedef struct fast_allgatherv {
    fast_collective collective;  /* for its group and tag */
    fast_allgatherv_part *parts; /* [size], by rank */
    int64_t size;                /* of the group */
} fast_allgatherv;

/* Prepare for a group; `doing` names it in errors. */
fast_err fast__allgatherv_init(fast_allgatherv *gather, fast_group *group, const char *doing);
/* Release the buffers and free the list of parts. */
void fast__allgatherv_fini(fast_allgatherv *gather);
/* Post the first `size` bytes of a buffer, which becomes frozen. Never blocks. Members start their
 * all-gathers, and all collectives of the group, in the same order. */
fast_err fast__allgatherv_start(fast_allgatherv *gather, fast_buffer **move, size_t size);
/* Wait for the buffer of a rank; the member's own is there at once. */
fast_err fast__allgatherv_wait(fast_allgatherv *gather, int64_t rank, int64_t deadline,
                               const fast_allgatherv_part **out);
/* Release all buffers; it can be started again. */
void fast__allgatherv_drop(fast_allgatherv *gather);
