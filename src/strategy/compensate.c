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

#include <math.h>
#include <string.h>

void fast__past_fini(fast_past *past)
{
    FAST_ASSERT(past->room >= 0);
    for (int64_t i = 0; past->models && i < past->room; i++)
        fast__free(past->models[i]);
    fast__free(past->models);
    fast__free(past->square);
    fast__free(past->gradient);
    *past = (fast_past){ .models = NULL };
}

fast_err fast__past_init(const fast_compensation *how, int64_t room, int64_t count, fast_past *out)
{
    fast_past past = { .room = room, .begin = -1 };
    fast_err err;

    FAST_ASSERT(room > 0 && count > 0);
    FAST_ASSERT(how->decay >= 0 && how->decay < 1);
    err = fast__alloc("past models", room, sizeof *past.models, &past.models);
    for (int64_t i = 0; i < room && !err; i++)
        err = fast__alloc("a past model", count, sizeof **past.models, &past.models[i]);
    if (!err && how->decay > 0)
        err = fast__alloc("the mean square", count, sizeof *past.square, &past.square);
    if (!err)
        err = fast__alloc("a compensated gradient", count, sizeof *past.gradient, &past.gradient);
    if (err) {
        fast__past_fini(&past);
        return err;
    }
    *out = past;
    return FAST_OK;
}

const float *fast__past_compensate(fast_past *past, const fast_compensation *how, int64_t read,
                                   int64_t version, int64_t count, const float *g, const float *w)
{
    const float lambda = (float)how->lambda;
    const float decay = (float)how->decay;
    int64_t from = read;
    const float *old;

    FAST_ASSERT(read <= version);
    memcpy(past->models[version % past->room], w, (size_t)count * sizeof *w);
    if (past->begin < 0)
        past->begin = version;
    if (from < past->begin)
        from = past->begin;
    if (from <= version - past->room)
        from = version - past->room + 1;
    FAST_ASSERT(from <= version && from > version - past->room);
    old = past->models[from % past->room];
    for (int64_t i = 0; i < count; i++) {
        float part = lambda;

        if (past->square) {
            past->square[i] = decay * past->square[i] + (1 - decay) * g[i] * g[i];
            part /= sqrtf(past->square[i] + 1e-7f);
        }
        past->gradient[i] = g[i] + part * g[i] * g[i] * (w[i] - old[i]);
    }
    return past->gradient;
}
