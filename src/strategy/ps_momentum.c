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
 * Cost: up to SAMPLE weights of a range, evenly spaced, with some operations for each weight and
 * update; memory of at most 2 ROOM floats.
 */
#include "strategy/ps_momentum.h"

#include "base/memory.h"
#include "tensor/device.h"

#include <math.h>

enum {
    SAMPLE = 8192,  /* sampled weights, at most */
    ROOM = 1 << 20, /* floats of the ring of steps, at most */
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

void fast__implicit_see(fast_implicit *m, int64_t version, int64_t read, const float *g, double lr)
{
    const int64_t r = read, early = read - m->lag;
    float *step, *pull;
    const float *at, *after, *z;
    double yz = 0, xz = 0;

    if (m->size == 0)
        return;
    FAST_ASSERT(version >= 1 && read >= 0 && read < version);
    step = m->steps + version % m->room * m->size;
    /* The sample is small; its ring is host memory. */
    const float *x = fast__map(g, (m->size - 1) * m->stride + 1, FAST_ACCESS_READ);
    for (int64_t i = 0; i < m->size; i++)
        step[i] = (float)(lr * (double)x[i * m->stride]);
    fast__unmap(g, (m->size - 1) * m->stride + 1, FAST_ACCESS_READ);
    /* Steps r and r + 1 must still be in the ring; of several gradients at one version the first
     * counts. */
    if (r < 1 || r <= version - m->room || m->pulled[r % m->room] == r)
        return;
    at = m->steps + r % m->room * m->size;
    after = m->steps + (r + 1) % m->room * m->size;
    pull = m->pulls + r % m->room * m->size;
    z = early >= 1 && m->pulled[early % m->room] == early ? m->pulls + early % m->room * m->size
                                                          : NULL;
    for (int64_t i = 0; i < m->size; i++) {
        pull[i] = step[i] - at[i];
        if (z) {
            yz += (double)(step[i] - after[i]) * (double)z[i];
            xz += (double)pull[i] * (double)z[i];
        }
    }
    m->pulled[r % m->room] = r;
    if (z)
        count_pair(m, yz, xz);
}

double fast__implicit_estimate(const fast_implicit *m, double *error_out)
{
    FAST_ASSERT(error_out != NULL);
    const double mu = m->xz != 0 ? m->yz / m->xz : NAN;

    *error_out = sqrt(fmax(0, m->yz_yz - 2 * mu * m->yz_xz + mu * mu * m->xz_xz)) / fabs(m->xz);
    return m->pairs >= PAIRS_MIN && *error_out < 0.5 ? mu : NAN;
}
