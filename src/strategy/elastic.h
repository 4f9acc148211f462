/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "fast/strategy.h"

/*
 * What the elastic strategies share: a spring between two models.
 */

/* The spring's constants. */
typedef struct fast_spring {
    float alpha; /* how far w moves */
    float beta;  /* how far z is to move */
} fast_spring;
/* x = w, d, z:  d = w - z;  w -= alpha d;  d *= beta. The other model is to add d: with alpha = beta
 * the change that one loses the other gains, so that w + z stays (the elastic symmetry). */
extern const fast_kernel fast__elastic_pull;

/* One end of an asynchronous exchange. */
typedef struct fast_elastic_end {
    fast_trainer *t;   /* the worker; NULL: no contributions and no costs */
    fast_actor *actor; /* its actor, whose pool lends memory for the difference */
    float *w;          /* [n] its model */
    float *z;          /* [n + workers] the centre and its contributions, as it was read */
    double *shares;    /* [2 workers] scratch: contributions of the centre and of the difference */
    int64_t n;         /* parameters */
    int64_t workers;   /* 0: the centre has no contributions */
    bool separate;     /* the centre's contributions are tensor 1, which no codec touches */
    fast_spring spring;
} fast_elastic_end;

/* The asynchronous exchange with the centre, tensor 0 of a space, of n + workers floats, or n where
 * its contributions are separate: z is read and retained. `read` says which version was read. */
fast_err fast__elastic_read(fast_space *space, const fast_elastic_end *end, fast_space_read *read);
fast_err fast__elastic_exchange(fast_space *space, const fast_elastic_end *end,
                                fast_space_read *read);

/* The centre of a synchronous exchange, a copy at each worker that stays equal to the others'. */
typedef struct fast_elastic_centre {
    fast_vector z;        /* [n] the centre */
    fast_vector z_before; /* [n] before its last move; x is NULL where mu is 0 */
    fast_vector d;        /* [n] scratch: this worker's difference */
    fast_vector sum;      /* [n] scratch: of all differences */
    fast_trainer *t;      /* whose sums it makes; NULL: the group's */
    float alpha;          /* of the spring */
    float mu;             /* momentum of the centre */
    int64_t versions;     /* moves that the centre made */
} fast_elastic_centre;

/* d_i = w_i - z;  w_i -= alpha d_i;  z += alpha sum_i d_i + mu (z - z_before). */
fast_err fast__elastic_together(fast_group *group, int64_t n, fast_elastic_centre *c, float *w);
