/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "fast/strategy.h"

/*
 * The elastic step, shared by the elastic strategies: a spring pulls two models together.
 */

/* The spring's constants. */
typedef struct fast_spring {
    float alpha; /* fraction of the distance that w moves */
    float beta;  /* fraction of the distance that z moves */
} fast_spring;
/* x = w, d, z:  d = w - z;  w -= alpha d;  d *= beta. The caller adds d to the other model. With
 * alpha = beta both moves are opposite, so that w + z does not change (the elastic symmetry). */
extern const fast_kernel fast__elastic_pull;

/* One end of an asynchronous exchange. */
typedef struct fast_elastic_end {
    fast_trainer *t;   /* the worker; NULL: no contributions and no costs */
    fast_actor *actor; /* its actor, whose pool lends memory for the difference */
    float *w;          /* [n] its model */
    float *z;          /* [n + share_count] the centre and its contributions, as it was read */
    double *shares; /* [2 share_count] scratch: contributions of the centre and of the difference */
    int64_t n;      /* parameters */
    int64_t share_count; /* contributions of the centre; 0: it has none */
    bool separate;       /* the centre's contributions are tensor 1, which no codec touches */
    fast_spring spring;  /* its constants */
} fast_elastic_end;

/* Read the centre into end->z: tensor 0 of a space, of n + share_count floats, or n if
 * contributions are separate. *read is the version that was read. Fails as fast_space_get() does.
 */
fast_err fast__elastic_read(fast_space *space, const fast_elastic_end *end, fast_space_read *read);
/* Read the centre, pull w towards it, and add beta (w - z) to the centre. Fails as fast_space_get()
 * and fast_space_add() do. */
fast_err fast__elastic_exchange(fast_space *space, const fast_elastic_end *end,
                                fast_space_read *read);

/* The centre of a synchronous exchange, a copy at each worker that stays equal to the others'. */
typedef struct fast_elastic_centre {
    fast_vector z;        /* [n] the centre */
    fast_vector z_before; /* [n] before its last move; x is NULL where mu is 0 */
    fast_vector d;        /* [n] scratch: this worker's difference */
    fast_vector sum;      /* [n] scratch: of all differences */
    fast_trainer *t;      /* the worker, which makes the sum; NULL: a plain allreduce does */
    float alpha;          /* constant of the spring */
    float mu;             /* momentum of the centre */
    int64_t versions;     /* moves that the centre made */
} fast_elastic_centre;

/* Take the synchronous elastic step of all workers:
 *     d_i = w_i - z;  w_i -= alpha d_i;  z += alpha sum_i d_i + mu (z - z_before). */
fast_err fast__elastic_together(fast_group *group, int64_t n, fast_elastic_centre *c, float *w);
