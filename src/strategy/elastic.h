/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "fast/trainer.h"

/*
 * What the elastic strategies share: a spring between two models.
 */

/* d = w - z;  w -= alpha d;  d *= beta. The other model is to add d: with alpha = beta what one
 * loses the other gains, so that w + z stays (the elastic symmetry). Vectors do not overlap. */
void fast__elastic_pull(int64_t n, float alpha, float beta, float *w, const float *z, float *d);

/* w += alpha (x - w): one end of a spring; equal models stay as they are. */
void fast__elastic_approach(int64_t n, float alpha, const float *x, float *w);

/* What a worker brings to an exchange. */
typedef struct fast_elastic_end {
    float *w;          /* [n] its model */
    float *carried;    /* [workers] what that carries of each worker, moved like it */
    float *z;          /* [n + workers] the centre and what it carries, as it was read */
    fast_actor *actor; /* whose pool lends memory for the difference */
    int64_t n;         /* parameters */
    int64_t workers;   /* 0: nothing is carried along */
    bool apart;        /* what the centre carries is tensor 1, which no codec touches */
    float alpha, beta; /* of the spring */
} fast_elastic_end;

/* The asynchronous exchange with the centre, tensor 0 of a space, of n + workers floats, or n where
 * what it carries is apart: z is read and kept, the rest is as above. `read` says what was seen. */
fast_err fast__elastic_read(fast_space *space, const fast_elastic_end *end, fast_space_read *read);
fast_err fast__elastic_exchange(fast_space *space, const fast_elastic_end *end,
                                fast_space_read *read);

/* The centre of a synchronous exchange, a copy at each worker that stays equal to the others'. */
typedef struct fast_elastic_centre {
    float *z;         /* [n] the centre */
    float *z_before;  /* [n] before its last move; NULL where mu is 0 */
    float *d;         /* [n] scratch: this worker's difference */
    float *sum;       /* [n] scratch: of all differences */
    fast_trainer *t;  /* whose sums it makes; NULL: the group's */
    float alpha;      /* of the spring */
    float mu;         /* momentum of the centre */
    int64_t versions; /* moves that the centre made */
} fast_elastic_centre;

/* d_i = w_i - z;  w_i -= alpha d_i;  z += alpha sum_i d_i + mu (z - z_before). */
fast_err fast__elastic_together(fast_group *group, int64_t n, fast_elastic_centre *c, float *w);
