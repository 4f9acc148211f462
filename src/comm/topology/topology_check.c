/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Conditions for mixing, x_j <- sum_i w(i, j) x_i: the shares that a rank takes sum to 1 (a common
 * value stays), those that it gives sum to 1 (the mean stays), none is negative, and over a period
 * every rank is reached. How fast averages spread is the gap 1 - |lambda_2| of the product of
 * a period's mixings: after k periods the distance from the mean has shrunk by |lambda_2|^k.
 *
 * Circulant matrices are diagonal in Fourier's basis, so their product's eigenvalues are
 *
 *     lambda_f = prod_t (1 + sum_o e^(2 pi i f o / n)) / (count_t + 1)     f = 1 .. n - 1
 *
 * and the gap is exact. Other graphs are measured: a vector orthogonal to the ones is mixed over
 * and over, and shrinks as |lambda_2|^k in the end.
 */
#include "base/memory.h"
#include "base/rng.h"
#include "comm/topology.h"

#include <math.h>

enum {
    WINDOW = 4,         /* steps to check, in group sizes, of a topology without a period */
    ITERATIONS = 20000, /* mixing periods at most */
    SETTLED = 64        /* mixing periods between two measurements of the rate */
};

static const double TOLERANCE = 1e-9; /* of sums of weights */

/* Memory for queries: peers and weights of one rank, and a few vectors over ranks. */
typedef struct mixing_scratch {
    int64_t *ranks;  /* [degree_max] */
    double *weights; /* [degree_max] */
    double *x;       /* [size] */
    double *y;       /* [size] */
    int64_t *parent; /* [size]: of the union-find */
} mixing_scratch;

/* Free the memory. */
static void scratch_fini(mixing_scratch *s)
{
    FAST_ASSERT(s);
    fast__free(s->ranks);
    fast__free(s->weights);
    fast__free(s->x);
    fast__free(s->y);
    fast__free(s->parent);
}

/* Make the memory for a topology's checks. */
static fast_err scratch_init(const fast_topology *topology, mixing_scratch *s)
{
    FAST_ASSERT(topology->size >= 1);
    const int64_t degree = topology->degree_max;
    fast_err err;

    *s = (mixing_scratch){ 0 };
    err = fast__alloc("peers", degree, sizeof *s->ranks, &s->ranks);
    if (!err)
        err = fast__alloc("weights", degree, sizeof *s->weights, &s->weights);
    if (!err)
        err = fast__alloc("a vector over ranks", topology->size, sizeof *s->x, &s->x);
    if (!err)
        err = fast__alloc("a vector over ranks", topology->size, sizeof *s->y, &s->y);
    if (!err)
        err = fast__alloc("sets of ranks", topology->size, sizeof *s->parent, &s->parent);
    if (err)
        scratch_fini(s);
    return err;
}

/* Return the number of steps to check. */
static int64_t window(const fast_topology *topology)
{
    FAST_ASSERT(topology->period >= 0);
    return topology->period ? topology->period : WINDOW * topology->size;
}

/* Return the representative of a rank's set, with shorter paths on the way. */
static int64_t root(int64_t *parent, int64_t i)
{
    FAST_ASSERT(parent[i] >= 0);
    while (parent[i] != i) {
        parent[i] = parent[parent[i]];
        i = parent[i];
    }
    return i;
}

/* Check the sums of one step; s->y collects the shares that each rank gives. Join the sets of
 * ranks that are linked. */
static fast_err check_step(const fast_topology *topology, int64_t step, mixing_scratch *s)
{
    FAST_ASSERT(step >= 0);
    for (int64_t r = 0; r < topology->size; r++)
        s->y[r] = 0;
    for (int64_t r = 0; r < topology->size; r++) {
        double self;
        double taken;
        const int64_t count = fast_topology_in(topology, step, r, s->ranks, s->weights, &self);

        if (self < -TOLERANCE)
            return fast__fail(FAST_EINVAL,
                              "rank %lld has weight %.3g for its own value, less than 0",
                              (long long)r, self);
        taken = self;
        s->y[r] += self;
        for (int64_t i = 0; i < count; i++) {
            if (s->weights[i] < 0)
                return fast__fail(FAST_EINVAL,
                                  "rank %lld has weight %.3g for rank %lld, less than 0",
                                  (long long)r, s->weights[i], (long long)s->ranks[i]);
            taken += s->weights[i];
            s->y[s->ranks[i]] += s->weights[i];
            s->parent[root(s->parent, s->ranks[i])] = root(s->parent, r);
        }
        if (fabs(taken - 1) > TOLERANCE)
            return fast__fail(FAST_EINVAL,
                              "the weights that rank %lld receives with sum to %.6g instead of 1; "
                              "a directed graph whose ranks have different degrees fits push-sum "
                              "only: --strategy gossip:push=yes",
                              (long long)r, taken);
    }
    for (int64_t r = 0; r < topology->size; r++)
        if (fabs(s->y[r] - 1) > TOLERANCE)
            return fast__fail(FAST_EINVAL,
                              "the weights that rank %lld sends with sum to %.6g instead of 1",
                              (long long)r, s->y[r]);
    return FAST_OK;
}

/* O(steps x links); a topology without a period is checked over WINDOW sizes of steps. */
fast_err fast_topology_check(const fast_topology *topology)
{
    FAST_ASSERT(topology);
    const int64_t steps = window(topology);
    fast_err err;
    mixing_scratch s;

    FAST_TRY(scratch_init(topology, &s));
    for (int64_t r = 0; r < topology->size; r++)
        s.parent[r] = r;
    err = FAST_OK;
    for (int64_t t = 0; t < steps && !err; t++)
        err = check_step(topology, t, &s);
    /* Sums of 1 both ways make weakly connected strongly connected: what flows out flows back. */
    for (int64_t r = 1; r < topology->size && !err; r++)
        if (root(s.parent, r) != root(s.parent, 0))
            err = fast__fail(FAST_EINVAL, "rank %lld is not reached from rank 0", (long long)r);
    scratch_fini(&s);
    return err;
}

/* Return the exact gap of a circulant topology. */
static double circulant_gap(const fast_topology *topology)
{
    FAST_ASSERT(topology->offset && topology->period > 0);
    const double circle = 2 * acos(-1.0) / (double)topology->size;
    double largest = 0;

    for (int64_t f = 1; f < topology->size; f++) {
        double modulus = 1;

        for (int64_t t = 0; t < topology->period; t++) {
            const int64_t count = topology->offset_start[t + 1] - topology->offset_start[t];
            double re = 1;
            double im = 0;

            for (int64_t i = topology->offset_start[t]; i < topology->offset_start[t + 1]; i++) {
                /* The product is reduced first, so that large sizes lose no digits. */
                const double angle = circle * (double)(f * topology->offset[i] % topology->size);

                re += cos(angle);
                im += sin(angle);
            }
            modulus *= sqrt(re * re + im * im) / (double)(count + 1);
        }
        if (modulus > largest)
            largest = modulus;
    }
    return 1 - largest;
}

/* One mixing step: y = W x, then x = y without its mean, which rounding brings back. */
static void mix(const fast_topology *topology, int64_t step, mixing_scratch *s)
{
    FAST_ASSERT(step >= 0);
    double mean = 0;

    for (int64_t r = 0; r < topology->size; r++) {
        double self;
        const int64_t count = fast_topology_in(topology, step, r, s->ranks, s->weights, &self);

        s->y[r] = self * s->x[r];
        for (int64_t i = 0; i < count; i++)
            s->y[r] += s->weights[i] * s->x[s->ranks[i]];
        mean += s->y[r] / (double)topology->size;
    }
    for (int64_t r = 0; r < topology->size; r++)
        s->x[r] = s->y[r] - mean;
}

/* Scale x to length 1; returns the length that it had. */
static double normalise(int64_t size, double *x)
{
    FAST_ASSERT(size > 0);
    double sum = 0;

    for (int64_t r = 0; r < size; r++)
        sum += x[r] * x[r];
    sum = sqrt(sum);
    for (int64_t r = 0; r < size && sum > 0; r++)
        x[r] /= sum;
    return sum;
}

/* NAN without memory. Power iteration: each block of SETTLED periods refines the rate. */
double fast_topology_gap(const fast_topology *topology)
{
    FAST_ASSERT(topology);
    const int64_t steps = window(topology);
    double rate = 0;
    fast_rng rng;
    mixing_scratch s;

    if (topology->size == 1)
        return 1;
    if (topology->offset && !topology->number)
        return circulant_gap(topology);
    if (scratch_init(topology, &s))
        return NAN;
    fast__rng_init(&rng, 1, FAST_PURPOSE_TOPOLOGY, 1, 0, 0);
    for (int64_t r = 0; r < topology->size; r++)
        s.x[r] = fast__rng_uniform(&rng) - 0.5;
    for (int64_t k = 0; k < ITERATIONS; k += SETTLED) {
        const double before = rate;
        double shrunk = 0;

        normalise(topology->size, s.x);
        for (int64_t i = 0; i < SETTLED; i++) {
            double length;

            for (int64_t t = 0; t < steps; t++)
                mix(topology, t, &s);
            length = normalise(topology->size, s.x);
            if (length < 1e-12) { /* averaged at once */
                scratch_fini(&s);
                return 1;
            }
            shrunk += log(length) / SETTLED;
        }
        rate = exp(shrunk);
        if (fabs(rate - before) < 1e-9)
            break;
    }
    scratch_fini(&s);
    return 1 - rate;
}
