/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Randomised gossip: at a tick one of n ranks, i, averages with its neighbour j with probability
 * P_ij. Boyd, Ghosh, Prabhakar and Shah, "Randomized gossip algorithms", 2006. The expected mixing
 * matrix of a tick is
 *
 *     W = I - L / (2 n),   L_ij = -(P_ij + P_ji) for i /= j,   rows of L sum to 0
 *
 * and after k ticks the expected squared distance to the mean is at most lambda_2(W)^k of the
 * first one. lambda_2(W) = 1 - mu / (2 n), mu the smallest eigenvalue of L besides that of the
 * ones, at most 4: mu > m where L + 5 11' / n - m I is positive definite, which is so if it has a
 * Cholesky factor. Inverse iteration gives a vector u of length 1 and sum 0, and u'Lu, the sum of
 * P_ij (u_i - u_j)^2 over the edges, is never less than mu; bisection ends between it and the most
 * that has a factor just below it.
 *
 * mu is concave in P, and for its unit eigenvector u a supergradient is
 *
 *     d mu / d P_ij = (u_i - u_j)^2
 *
 * u is found by inverse iteration with the factor of m = 0, from the last u on. The
 * probabilities of a rank lie on a simplex, so they are raised by mirror ascent: P_ij grows by the
 * factor e^(s (u_i - u_j)^2 / mu), and a rank's sum is scaled to 1 again. The steps s shrink as
 * n / sqrt(k), since mu has kinks where eigenvalues are equal; the best P so far is the result.
 *
 * Cost: n^3 / 3 multiplications for each of ASCENTS steps, and about as many where mu rises. From
 * ranks FULL on there are fewer steps, so that their cost stays the same.
 */
#include "comm/edges.h"

#include "base/memory.h"
#include "base/rng.h"

#include <math.h>
#include <string.h>

enum {
    ASCENTS = 400,   /* steps of the optimisation */
    FULL = 256,      /* ranks at most that take all of them */
    INVERSIONS = 6,  /* inverse iterations of one of these steps */
    SETTLING = 40,   /* inverse iterations before u'Lu bounds mu */
    BISECTIONS = 100 /* of the interval that holds mu, at most */
};

static const double FIRST_STEP = 0.5; /* s of the first ascent for each rank */
static const double FLOOR = 1e-9;     /* of a probability: one of 0 could not grow again */
static const double GAIN = 1e-9;      /* relative gain of mu that counts */
static const double SINGULAR = 1e-12; /* mu of a graph that is not connected, with rounding */
static const double MU_MAX = 4;       /* of one pair; larger graphs have less */
static const double WIDTH = 1e-14;    /* of the interval of mu, relative to it */
static const double BELOW[] = { 1e-13, 1e-10, 1e-7, 1e-4 }; /* u'Lu, relative: tried in turn */

/* Memory of the eigenvalue's search. */
typedef struct spectrum {
    int64_t n;      /* ranks */
    double *factor; /* [n][n]: L + 5 11' / n - m I, then its lower Cholesky factor */
    double *u;      /* [n]: the eigenvector, of length 1 and sum 0 */
    double *x;      /* [n]: scratch */
    uint64_t calls; /* number of stir() so far */
} spectrum;

/* Free the memory, also after a failed spectrum_init(). */
static void spectrum_fini(spectrum *s)
{
    FAST_ASSERT(s != NULL);
    fast__free(s->factor);
    fast__free(s->u);
    fast__free(s->x);
}

/* Make u of length 1 and sum 0; return the length that it had without its mean. */
static double centre(int64_t n, double *u)
{
    double mean = 0, square = 0;

    FAST_ASSERT(n > 0);
    for (int64_t i = 0; i < n; i++)
        mean += u[i] / (double)n;
    for (int64_t i = 0; i < n; i++) {
        u[i] -= mean;
        square += u[i] * u[i];
    }
    for (int64_t i = 0; i < n && square > 0; i++)
        u[i] /= sqrt(square);
    return sqrt(square);
}

/* Add random numbers to u, others at each call. An earlier u may be orthogonal to the eigenvector
 * that is looked for, and so may any fixed vector: the optimisation would lead to that graph. */
static void stir(spectrum *s)
{
    fast_rng rng;

    FAST_ASSERT(s->u != NULL);
    fast__rng_init(&rng, 1, FAST_PURPOSE_TOPOLOGY, 3, s->calls++, 0);
    for (int64_t i = 0; i < s->n; i++)
        s->u[i] += 0.1 * ((double)fast__rng_uniform(&rng) - 0.5);
    centre(s->n, s->u);
}

/* Allocate. */
static fast_err spectrum_init(int64_t n, spectrum *s)
{
    fast_err err;

    FAST_ASSERT(n >= 1 && n <= FAST_EDGES_SIZE_MAX);
    *s = (spectrum){ .n = n };
    err = fast__alloc("a mixing matrix", n * n, sizeof *s->factor, &s->factor);
    if (!err)
        err = fast__alloc("an eigenvector", n, sizeof *s->u, &s->u);
    if (!err)
        err = fast__alloc("an eigenvector", n, sizeof *s->x, &s->x);
    if (err)
        spectrum_fini(s);
    return err;
}

/* Fill in L + 5 11' / n - m I. */
static void set_matrix(const fast_edges *e, double m, spectrum *s)
{
    const int64_t n = s->n;

    FAST_ASSERT(e->size == n);
    for (int64_t i = 0; i < n * n; i++)
        s->factor[i] = (MU_MAX + 1) / (double)n;
    for (int64_t i = 0; i < n; i++)
        for (int64_t k = e->start[i]; k < e->start[i + 1]; k++) {
            const int64_t j = e->peer[k];

            s->factor[i * n + i] += e->p[k];
            s->factor[j * n + j] += e->p[k];
            s->factor[i * n + j] -= e->p[k];
            s->factor[j * n + i] -= e->p[k];
        }
    for (int64_t i = 0; i < n; i++)
        s->factor[i * n + i] -= m;
}

/* The sum of x_k y_k, in four sums that do not wait for each other. */
static double dot(const double *x, const double *y, int64_t n)
{
    double sum[4] = { 0 };
    int64_t k = 0;

    FAST_ASSERT(n >= 0);
    for (; k + 4 <= n; k += 4)
        for (int i = 0; i < 4; i++)
            sum[i] += x[k + i] * y[k + i];
    for (; k < n; k++)
        sum[0] += x[k] * y[k];
    return sum[0] + sum[1] + (sum[2] + sum[3]);
}

/* Replace the matrix by its lower Cholesky factor. False unless it is positive definite. */
static bool factorise(spectrum *s)
{
    const int64_t n = s->n;
    double *a = s->factor;

    FAST_ASSERT(a != NULL);
    for (int64_t j = 0; j < n; j++)
        for (int64_t i = j; i < n; i++) {
            const double sum = a[i * n + j] - dot(a + i * n, a + j * n, j);

            if (i == j && !(sum > 0))
                return false;
            a[i * n + j] = i == j ? sqrt(sum) : sum / a[j * n + j];
        }
    return true;
}

/* One inverse iteration: u <- A^-1 u, of length 1. */
static void invert(spectrum *s)
{
    const int64_t n = s->n;
    const double *a = s->factor;

    FAST_ASSERT(a[0] > 0);
    for (int64_t i = 0; i < n; i++)
        s->x[i] = (s->u[i] - dot(a + i * n, s->x, i)) / a[i * n + i];
    for (int64_t i = n - 1; i >= 0; i--) {
        double sum = s->x[i];

        for (int64_t k = i + 1; k < n; k++)
            sum -= a[k * n + i] * s->x[k];
        s->x[i] = sum / a[i * n + i];
    }
    memcpy(s->u, s->x, (size_t)n * sizeof *s->u);
    centre(n, s->u);
}

/* True if mu is more than m. */
static bool is_above(const fast_edges *e, double m, spectrum *s)
{
    FAST_ASSERT(m >= 0);
    if (m >= MU_MAX)
        return false;
    set_matrix(e, m, s);
    return factorise(s);
}

/* Return u'Lu after more inverse iterations: mu or a little more. MU_MAX if there is no factor. */
static double bound_mu(const fast_edges *e, spectrum *s)
{
    double sum = 0;

    FAST_ASSERT(e->size == s->n);
    if (!is_above(e, 0, s))
        return MU_MAX;
    for (int i = 0; i < SETTLING; i++)
        invert(s);
    for (int64_t i = 0; i < s->n; i++)
        for (int64_t k = e->start[i]; k < e->start[i + 1]; k++) {
            const double d = s->u[i] - s->u[e->peer[k]];

            sum += e->p[k] * d * d;
        }
    return sum < MU_MAX ? sum : MU_MAX;
}

/* Find mu, which is more than `least`. u is no eigenvector of another one: it was stirred. */
static double find_mu(const fast_edges *e, double least, spectrum *s)
{
    double low = least, high = bound_mu(e, s) * (1 + BELOW[0]);

    FAST_ASSERT(least >= 0);
    for (size_t i = 0; i < sizeof BELOW / sizeof *BELOW; i++) {
        const double m = high * (1 - 2 * BELOW[i]);

        if (m > low && is_above(e, m, s)) {
            low = m;
            break;
        }
    }
    for (int i = 0; i < BISECTIONS && high - low > WIDTH * high; i++) {
        const double m = (low + high) / 2;

        if (is_above(e, m, s))
            low = m;
        else
            high = m;
    }
    return (low + high) / 2;
}

fast_err fast__edges_eigenvalue(const fast_edges *edges, double *out)
{
    spectrum s;

    FAST_ASSERT(edges->size >= 1);
    *out = 0;
    if (edges->size == 1)
        return FAST_OK;
    FAST_TRY(spectrum_init(edges->size, &s));
    stir(&s);
    *out = is_above(edges, SINGULAR, &s)
               ? 1 - find_mu(edges, SINGULAR, &s) / (2 * (double)edges->size)
               : 1;
    spectrum_fini(&s);
    return FAST_OK;
}

/* Scale the probabilities of a rank so that they sum to 1; all 0 stay so. */
static void scale_rank(fast_edges *e, int64_t rank)
{
    double sum = 0;

    FAST_ASSERT(rank >= 0 && rank < e->size);
    for (int64_t k = e->start[rank]; k < e->start[rank + 1]; k++)
        sum += e->p[k];
    for (int64_t k = e->start[rank]; k < e->start[rank + 1] && sum > 0; k++)
        e->p[k] /= sum;
}

/* One step of mirror ascent of size `step`, by the eigenvector of mu. */
static void ascend(fast_edges *e, const spectrum *s, double mu, double step)
{
    FAST_ASSERT(mu > 0 && step > 0);
    for (int64_t i = 0; i < e->size; i++) {
        for (int64_t k = e->start[i]; k < e->start[i + 1]; k++) {
            const double d = s->u[i] - s->u[e->peer[k]];
            const double grown = e->p[k] * exp(fmin(step * d * d / mu, 30));

            e->p[k] = grown > FLOOR ? grown : FLOOR;
        }
        scale_rank(e, i);
    }
}

/* Return the number of steps of the optimisation. */
static int ascents(int64_t n)
{
    const double ratio = (double)FULL / (double)n;

    FAST_ASSERT(n >= 1);
    return n <= FULL ? ASCENTS : (int)(ASCENTS * ratio * ratio * ratio);
}

fast_err fast__edges_optimise(fast_edges *edges)
{
    const int64_t count = edges->start[edges->size];
    double *best = NULL, most;
    spectrum s;

    if (edges->size == 1)
        return FAST_OK;
    FAST_ASSERT(count > 0);
    FAST_TRY(fast__alloc("probabilities of edges", count, sizeof *best, &best));
    const fast_err err = spectrum_init(edges->size, &s);
    if (err) {
        fast__free(best);
        return err;
    }
    memcpy(best, edges->p, (size_t)count * sizeof *best);
    stir(&s);
    most = is_above(edges, SINGULAR, &s) ? find_mu(edges, SINGULAR, &s) : 0;
    for (int k = 0; k < ascents(edges->size) && most > 0 && is_above(edges, 0, &s); k++) {
        stir(&s);
        for (int i = 0; i < INVERSIONS; i++)
            invert(&s);
        if (is_above(edges, most * (1 + GAIN), &s)) {
            most = find_mu(edges, most, &s);
            memcpy(best, edges->p, (size_t)count * sizeof *best);
        }
        ascend(edges, &s, most, FIRST_STEP * (double)edges->size / sqrt((double)(k + 1)));
    }
    memcpy(edges->p, best, (size_t)count * sizeof *best);
    spectrum_fini(&s);
    fast__free(best);
    return FAST_OK;
}

void fast__edges_free(fast_edges *edges)
{
    if (!edges)
        return;
    FAST_ASSERT(edges->size >= 1);
    fast__free(edges->start);
    fast__free(edges->peer);
    fast__free(edges->p);
    fast__free(edges);
}

/* List the edges of all ranks. `peers` and `weights` have room for the largest degree. */
static void fill(const fast_topology *topology, bool weighted, int64_t *peers, double *weights,
                 fast_edges *e)
{
    double self;

    FAST_ASSERT(e->start[0] == 0);
    for (int64_t i = 0; i < e->size; i++) {
        const int64_t count = fast_topology_out(topology, 0, i, peers, weights, &self);

        for (int64_t k = 0; k < count; k++) {
            e->peer[e->start[i] + k] = peers[k];
            e->p[e->start[i] + k] = weighted ? weights[k] : 1;
        }
        e->start[i + 1] = e->start[i] + count;
        scale_rank(e, i);
    }
}

fast_err fast__edges_new(const fast_topology *topology, bool weighted, fast_edges **out)
{
    const int64_t size = fast_topology_size(topology);
    const int64_t degree = fast_topology_degree_max(topology);
    fast_edges *e = NULL;
    int64_t *peers = NULL;
    double *weights = NULL;

    FAST_ASSERT(size <= FAST_EDGES_SIZE_MAX && fast_topology_period(topology) == 1);
    FAST_TRY(fast__alloc("edges", 1, sizeof *e, &e));
    e->size = size;
    fast_err err = fast__alloc("edges of ranks", size + 1, sizeof *e->start, &e->start);
    if (!err)
        err = fast__alloc("ends of edges", size * degree, sizeof *e->peer, &e->peer);
    if (!err)
        err = fast__alloc("probabilities of edges", size * degree, sizeof *e->p, &e->p);
    if (!err)
        err = fast__alloc("neighbours", degree, sizeof *peers, &peers);
    if (!err)
        err = fast__alloc("weights", degree, sizeof *weights, &weights);
    if (!err)
        fill(topology, weighted, peers, weights, e);
    fast__free(peers);
    fast__free(weights);
    if (err)
        fast__edges_free(e);
    else
        *out = e;
    return err;
}
