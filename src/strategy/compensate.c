/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Delay compensation: a gradient g(w_r), computed at an old model w_r, becomes
 *
 *     constant   g + lambda g * g * (w - w_r)
 *     adaptive   m <- d m + (1 - d) g * g;   g + lambda / sqrt(m + 1e-7) g * g * (w - w_r)
 *
 * element by element: the first two terms of Taylor's series of g(w), with g * g for the diagonal
 * of the Hessian (Zheng et al., "Asynchronous Stochastic Gradient Descent with Delay Compensation",
 * ICML 2017). Where the model did not change since it was read, g is as it was, to the bit.
 *
 * The paper stores one old model for each worker, the one that was sent to it. Here a ring stores
 * the last models by version, and an update names the version that it read: the same vectors, while
 * no update is later than `room` versions; a later one is compared with the oldest stored model.
 * Cost: one copy of the model an update, 5 operations an element; memory: `room` models.
 */
#include "strategy/compensate.h"

#include "base/memory.h"
#include "tensor/vector.h"

#include <math.h>
#include <string.h>

void fast__past_fini(fast_past *past)
{
    FAST_ASSERT(past->room >= 0);
    for (int64_t i = 0; past->models && i < past->room; i++)
        fast__vector_free(past->models[i]);
    fast__free(past->models);
    fast__vector_free(past->square);
    fast__vector_free(past->gradient);
    *past = (fast_past){ .models = NULL };
}

fast_err fast__past_init(const fast_compensation *how, const fast_device *device, int64_t room,
                         int64_t count, fast_past *out)
{
    fast_past past = { .room = room, .begin = -1 };
    fast_err err;

    FAST_ASSERT(room > 0 && count > 0);
    FAST_ASSERT(how->decay >= 0 && how->decay < 1);
    err = fast__alloc("past models", room, sizeof *past.models, &past.models);
    for (int64_t i = 0; i < room && !err; i++)
        err = fast__vector_new(device, "a past model", count, &past.models[i]);
    if (!err && how->decay > 0)
        err = fast__vector_new(device, "the mean square", count, &past.square);
    if (!err)
        err = fast__vector_new(device, "a compensated gradient", count, &past.gradient);
    if (err) {
        fast__past_fini(&past);
        return err;
    }
    *out = past;
    return FAST_OK;
}

/* x = the compensated gradient, the running mean of g * g or NULL, g, w, and the model before. */
static void run_compensate(const void *ctx, int64_t n, float *const *x)
{
    const fast_compensation *how = ctx;
    const float lambda = (float)how->lambda, decay = (float)how->decay;
    float *square = x[1];
    const float *g = x[2], *w = x[3], *old = x[4];

    FAST_ASSERT(x[0] != g);
    for (int64_t i = 0; i < n; i++) {
        float part = lambda;

        if (square) {
            square[i] = decay * square[i] + (1 - decay) * g[i] * g[i];
            part /= sqrtf(square[i] + 1e-7f);
        }
        x[0][i] = g[i] + part * g[i] * g[i] * (w[i] - old[i]);
    }
}

const float *fast__past_compensate(fast_past *past, const fast_compensation *how, int64_t read,
                                   int64_t version, int64_t count, const float *g, const float *w)
{
    int64_t from = read;
    float *old;

    FAST_ASSERT(read <= version);
    fast__vector_copy(count, w, past->models[version % past->room]);
    if (past->begin < 0)
        past->begin = version;
    if (from < past->begin)
        from = past->begin;
    if (from <= version - past->room)
        from = version - past->room + 1;
    FAST_ASSERT(from <= version && from > version - past->room);
    old = past->models[from % past->room];
    float *const x[] = { past->gradient, past->square, (float *)(uintptr_t)g, (float *)(uintptr_t)w,
                         old };
    fast__device_run(run_compensate, how, count, 5, 2, x);
    return past->gradient;
}
