/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "fast/strategy.h"

/* Rows of the model that a worker reads from its proxy: ps_rows.c. */
typedef struct ps_rows {
    fast_trainer *t;   /* the worker's */
    fast_space *space; /* of its group; the first tensor is the model */
    int64_t begin;     /* steps of the run before the worker started */
    int64_t epoch;     /* whose rows are known; -1: none */
    uint8_t *wanted;   /* [count] 1: a batch of that epoch reads this weight */
} ps_rows;
/* Start to read rows instead of the model. FAST_ENOMEM. */
fast_err fast__ps_rows_open(fast_trainer *t, fast_space *space, int64_t begin, ps_rows *out);
void fast__ps_rows_close(ps_rows *r);
/* Read the rows of the next batch, as new as the proxy's last round, and compute its gradient. */
fast_err fast__ps_rows_gradient(ps_rows *r);
