/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The momentum of late gradients. They move a model as if by momentum (Mitliagkas et al.,
 * "Asynchrony begets momentum", 2016): where the staleness is geometric, with P workers,
 *
 *     E (w_(t+1) - w_t) = mu E (w_t - w_(t-1)) - (1 - mu) lr E grad f(w_t),   mu = 1 - 1/P
 *
 * With s_t = lr g the step that made version t, and s'_t the one of the first gradient that was
 * computed at version t, which is applied later, mu is the slope of a regression:
 *
 *     y_t = s'_t - s_(t+1)        x_t = s'_t - s_t        E y_t = mu E x_t
 *
 * For a smooth loss y_t = lr H (w_t - w_(t-d)), d the staleness, and x_t = lr H (w_t - w_(t-d-1)):
 * the slope is d / (d + 1), which with d = P - 1 is the theorem's. Both hold the noise of s'_t, and
 * least squares would tend to 1/2 whatever mu is. So mu is estimated with an instrument: the x of L
 * versions earlier, with which they have no sample in common:
 *
 *     mu = sum_t <y_t, x_(t-L)> / sum_t <x_t, x_(t-L)>
 *
 * Its standard error is that of a ratio of sums. It is large where batches are small: differences
 * of gradients are mostly noise, and the estimate rests on the curvature that remains. Momentum of
 * the rule and of the servers is not included: steps are gradients (YellowFin, Zhang and Mitliagkas
 * 2017, measures both together).
 *
 * Cost: up to SAMPLE weights of a range, in evenly spaced groups of a cache line, with some
 * operations for each weight and update; memory of at most 2 ROOM floats.
 */
#include "strategy/ps_momentum.h"

#include "base/memory.h"
#include "tensor/clones.h"
#include "tensor/device.h"

#include <math.h>

enum {
    SAMPLE = 8192,  /* sampled weights, at most */
    ROOM = 1 << 20, /* floats of the ring of steps, at most */
    LINE = 16,      /* floats of a cache line */
    PAIRS_MIN = 16  /* terms of the sums below which there is no estimate */
};

void fast__implicit_fini(fast_implicit *m)
{
    FAST_ASSERT(m->size >= 0);
    fast__free(m->steps);
    fast__free(m->pulls);
    fast__free(m->pulled);
    *m = (fast_implicit){ .size = 0 };
}

fast_err fast__implicit_init(int64_t count, int64_t writers, fast_implicit *out)
{
    fast_implicit m = { .room = 4 * writers + 8, .lag = 2 * writers + 1 };
    fast_err err;

    FAST_ASSERT(writers > 0);
    m.size = m.room < ROOM / 64 ? ROOM / m.room : 64;
    m.size = m.size < SAMPLE ? m.size : SAMPLE;
    m.size = m.size < count ? m.size : count;
    if (m.size == 0) {
        *out = m;
        return FAST_OK;
    }
    m.stride = count / m.size;
    err = fast__alloc("sampled steps", m.room * m.size, sizeof *m.steps, &m.steps);
    if (!err)
        err = fast__alloc("differences of steps", m.room * m.size, sizeof *m.pulls, &m.pulls);
    if (!err)
        err = fast__alloc("versions of steps", m.room, sizeof *m.pulled, &m.pulled);
    if (err) {
        fast__implicit_fini(&m);
        return err;
    }
    for (int64_t i = 0; i < m.room; i++)
        m.pulled[i] = -1;
    *out = m;
    return FAST_OK;
}

/* Add a pair to the sums of the regression. */
static void count_pair(fast_implicit *m, double yz, double xz)
{
    FAST_ASSERT(m->pairs >= 0);
    m->yz += yz;
    m->xz += xz;
    m->yz_yz += yz * yz;
    m->yz_xz += yz * xz;
    m->xz_xz += xz * xz;
    m->pairs++;
}

/* step <- lr x, for the sampled weights: `stride` lines of x are skipped for each that is taken. */
FAST_CLONES static void sample_step(int64_t size, int64_t stride, double lr,
                                    const float *restrict x, float *restrict step)
{
    for (int64_t at = 0; at < size; at += LINE) {
        const int64_t n = size - at < LINE ? size - at : LINE;

        for (int64_t i = 0; i < n; i++)
            step[at + i] = (float)(lr * (double)x[at * stride + i]);
    }
}

/* pull <- step - at. */
FAST_CLONES static void subtract(int64_t size, const float *restrict step, const float *restrict at,
                                 float *restrict pull)
{
    for (int64_t i = 0; i < size; i++)
        pull[i] = step[i] - at[i];
}

/* Add <step - after, z> and <pull, z> to the sums, in the lanes of a vector. */
FAST_CLONES static void add_products(int64_t size, const float *step, const float *after,
                                     const float *pull, const float *z, double *restrict yz,
                                     double *restrict xz)
{
    for (int64_t at = 0; at < size; at += LINE) {
        const int64_t n = size - at < LINE ? size - at : LINE;

        for (int64_t i = 0; i < n; i++) {
            yz[i] += (double)(step[at + i] - after[at + i]) * (double)z[at + i];
            xz[i] += (double)pull[at + i] * (double)z[at + i];
        }
    }
}

void fast__implicit_see(fast_implicit *m, int64_t version, int64_t read, const float *g, double lr)
{
    const int64_t r = read, early = read - m->lag;
    double yz[LINE] = { 0 }, xz[LINE] = { 0 };
    float *step, *pull;

    if (m->size == 0)
        return;
    FAST_ASSERT(version >= 1 && read >= 0 && read < version);
    step = m->steps + version % m->room * m->size;
    /* The sample is small; its ring is host memory. */
    const float *x = fast__map(g, (m->size - 1) * m->stride + 1, FAST_ACCESS_READ);
    sample_step(m->size, m->stride, lr, x, step);
    fast__unmap(g, (m->size - 1) * m->stride + 1, FAST_ACCESS_READ);
    /* Steps r and r + 1 must still be in the ring; of several gradients at one version the first
     * counts. */
    if (r < 1 || r <= version - m->room || m->pulled[r % m->room] == r)
        return;
    pull = m->pulls + r % m->room * m->size;
    subtract(m->size, step, m->steps + r % m->room * m->size, pull);
    m->pulled[r % m->room] = r;
    if (early < 1 || m->pulled[early % m->room] != early)
        return;
    add_products(m->size, step, m->steps + (r + 1) % m->room * m->size, pull,
                 m->pulls + early % m->room * m->size, yz, xz);
    for (int i = 1; i < LINE; i++) {
        yz[0] += yz[i];
        xz[0] += xz[i];
    }
    count_pair(m, yz[0], xz[0]);
}

double fast__implicit_estimate(const fast_implicit *m, double *error_out)
{
    FAST_ASSERT(error_out != NULL);
    const double mu = m->xz != 0 ? m->yz / m->xz : NAN;

    *error_out = sqrt(fmax(0, m->yz_yz - 2 * mu * m->yz_xz + mu * mu * m->xz_xz)) / fabs(m->xz);
    return m->pairs >= PAIRS_MIN && *error_out < 0.5 ? mu : NAN;
}
