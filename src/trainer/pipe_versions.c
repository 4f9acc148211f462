/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Versions of the weights of a stage, where the next batch enters before the gradient of the last
 * one is there. With w(n) before the update of step n, and k the staleness of the stage:
 *
 *     pipedream       forward w(n - k)     backward w(n - k)     k = delay (S - 1 - s)
 *     vertical sync   forward w(n - k)     backward w(n - k)     k = delay (S - 1), all stages
 *     pipedream_2bw   forward w(n - 1)     backward w(n - 1)
 *     stale           forward w(n - k)     backward w(n)
 *
 * are the weights of the passes whose gradient changes w(n) to w(n + 1). An older version is stored
 * when its update comes: the last backward pass of a step reports each range that it does not read
 * again, which is copied before the strategy updates it. So k older versions and the newest one are
 * all that a stage has; the range that is overwritten is of the version that the pass has read.
 *
 * The passes of `stale` have no function that they are the gradient of. Two estimates bring their
 * weights closer to each other, from the change of the last update or a mean of such changes:
 *
 *     forward     w(n) + k (w(n) - w(n - 1)), the weights that the backward pass will read; with
 *                 momentum w - k lr v: SpecTrain (Chen, Yang and Cheng 2018), for other rules XPipe
 *                 (Guan et al. 2019)
 *     backward    w(n) - k d, the weights that the forward pass read, with
 *                 d <- g d + (1 - g) (w(n) - w(n - 1)) and g = 0.135^(1 / k): PipeMare's
 *                 discrepancy correction (Yang et al. 2021)
 *
 * The learning rate may be divided by the staleness, at first by all of it, and less and less over
 * some steps, as PipeMare does: rate k^(step / steps - 1).
 *
 * Cost: a copy of w a step where versions are stored; an estimate reads two vectors and writes one.
 */
#include "trainer/pipe_versions.h"

#include "base/memory.h"
#include "tensor/vector.h"

#include <math.h>

/* Return whether both passes of a micro-batch read the same version. */
static bool stores(const fast_pipe_place *place)
{
    FAST_ASSERT(place->micro_batches > 0);
    return place->pipeline == FAST_PIPELINE_PIPEDREAM || place->pipeline == FAST_PIPELINE_2BW;
}

fast_err fast__pipe_versions_init(fast_pipe_versions *versions, const fast_pipe_place *place,
                                  fast_pipe_extrapolate extrapolate, const fast_device *device,
                                  int64_t count)
{
    const int64_t late = fast__pipe_staleness(place);
    const bool estimates = extrapolate != FAST_PIPE_EXTRAPOLATE_NO && late > 0;
    const int64_t room = stores(place) ? late : estimates;

    FAST_ASSERT(!estimates || place->pipeline == FAST_PIPELINE_STALE);
    *versions = (fast_pipe_versions){ .place = *place, .extrapolate = extrapolate, .count = count };
    if (room > 0)
        FAST_TRY(
            fast__alloc("versions of weights", room, sizeof *versions->older, &versions->older));
    versions->room = room;
    for (int64_t i = 0; i < room; i++)
        FAST_TRY(fast__vector_new(device, "older weights", count, &versions->older[i]));
    if (estimates)
        FAST_TRY(fast__vector_new(device, "estimated weights", count, &versions->estimate));
    if (estimates && extrapolate == FAST_PIPE_EXTRAPOLATE_BACKWARD)
        FAST_TRY(fast__vector_new(device, "changes of weights", count, &versions->velocity));
    return FAST_OK;
}

void fast__pipe_versions_fini(fast_pipe_versions *versions)
{
    for (int64_t i = 0; versions->older && i < versions->room; i++)
        fast__vector_free(versions->older[i]);
    fast__free(versions->older);
    fast__vector_free(versions->estimate);
    fast__vector_free(versions->velocity);
    *versions = (fast_pipe_versions){ 0 };
}

void fast__pipe_versions_restart(fast_pipe_versions *versions, int64_t step)
{
    FAST_ASSERT(step >= 0);
    versions->begun = step;
    if (versions->velocity)
        fast__vector_fill(versions->count, 0, versions->velocity);
}

/* x = the mean change, w and the weights before the last update. */
static void run_velocity(const void *ctx, int64_t n, float *const *x)
{
    const float decay = *(const float *)ctx;

    for (int64_t i = 0; i < n; i++)
        x[0][i] = decay * x[0][i] + (1 - decay) * (x[1][i] - x[2][i]);
}

/* x = the estimate, w and the weights before the last update. */
static void run_ahead(const void *ctx, int64_t n, float *const *x)
{
    const float k = *(const float *)ctx;

    for (int64_t i = 0; i < n; i++)
        x[0][i] = x[1][i] + k * (x[1][i] - x[2][i]);
}

/* x = the estimate, w and the mean change. */
static void run_back(const void *ctx, int64_t n, float *const *x)
{
    const float k = *(const float *)ctx;

    for (int64_t i = 0; i < n; i++)
        x[0][i] = x[1][i] - k * x[2][i];
}

/* Run one of them on vectors of which the first is written. */
static void run_on(const fast_pipe_versions *versions, fast_host_fn *run, double a, float *out,
                   const float *w, const float *other)
{
    const float factor = (float)a;

    FAST_ASSERT(out != w && out != NULL);
    float *const x[] = { out, (float *)(uintptr_t)w, (float *)(uintptr_t)other };

    fast__device_run(run, &factor, versions->count, 3, 1, x);
}

void fast__pipe_versions_step(fast_pipe_versions *versions, int64_t step, const float *w)
{
    const double correlation = 0.135; /* PipeMare's D */

    FAST_ASSERT(step >= versions->begun);

    if (!versions->velocity || step == versions->begun)
        return;
    run_on(versions, run_velocity,
           pow(correlation, 1 / (double)fast__pipe_staleness(&versions->place)), versions->velocity,
           w, versions->older[0]);
}

int64_t fast__pipe_version(const fast_pipe_versions *versions, int64_t step, int64_t number,
                           int64_t first)
{
    const fast_pipe_place *place = &versions->place;
    const int64_t before = number / place->micro_batches - 1;

    FAST_ASSERT(step >= versions->begun);
    FAST_ASSERT(first <= step);

    if (place->pipeline == FAST_PIPELINE_2BW && place->stages > 1)
        return before > versions->begun ? before : versions->begun;
    return place->vertical && place->stage > 0 ? first : step;
}

const float *fast__pipe_versions_forward(fast_pipe_versions *versions, int64_t step, int64_t number,
                                         int64_t version, const float *w)
{
    const int64_t due = number / versions->place.micro_batches;

    FAST_ASSERT(version <= step && step - version <= versions->room);
    if (version < step)
        return versions->older[version % versions->room];
    if (versions->extrapolate != FAST_PIPE_EXTRAPOLATE_FORWARD || due == step ||
        step == versions->begun)
        return w;
    FAST_ASSERT(versions->estimate != NULL);
    run_on(versions, run_ahead, (double)(due - step), versions->estimate, w, versions->older[0]);
    return versions->estimate;
}

const float *fast__pipe_versions_backward(fast_pipe_versions *versions, int64_t step,
                                          int64_t version, const float *w)
{
    FAST_ASSERT(version <= step);
    if (version == step)
        return w;
    if (stores(&versions->place)) {
        FAST_ASSERT(step - version <= versions->room);
        return versions->older[version % versions->room];
    }
    if (!versions->velocity)
        return w;
    run_on(versions, run_back, (double)(step - version), versions->estimate, w, versions->velocity);
    return versions->estimate;
}

int64_t fast__pipe_versions_age(const fast_pipe_versions *versions, int64_t step, int64_t version)
{
    FAST_ASSERT(version <= step);
    return stores(&versions->place) ? step - version : 0;
}

void fast__pipe_versions_retain(fast_pipe_versions *versions, int64_t step, const float *w,
                                int64_t offset, int64_t count)
{
    FAST_ASSERT(offset >= 0 && count >= 0);
    FAST_ASSERT(versions->count == 0 || offset + count <= versions->count);
    if (versions->room > 0)
        fast__vector_copy(count, w + offset, versions->older[step % versions->room] + offset);
}

int64_t fast__pipe_versions_bytes(const fast_pipe_versions *versions)
{
    const int64_t vectors =
        versions->room + (versions->estimate != NULL) + (versions->velocity != NULL);

    FAST_ASSERT(vectors >= 0);
    return vectors * versions->count * (int64_t)sizeof(float);
}

double fast__pipe_rate(const fast_pipe_place *place, int64_t steps, int64_t step)
{
    const int64_t late = fast__pipe_staleness(place);

    FAST_ASSERT(step >= 0);
    if (step >= steps || late <= 1)
        return 1;
    return pow((double)late, (double)step / (double)steps - 1);
}
