/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The choice of a convolution's method by measurement. Each method that fits a shape is opened and
 * timed: forward, the gradient of the input alone, of the weights alone, and both at once, since a
 * method may share work between them. The fastest forward and the fastest backward pass win, from
 * up to three methods. All passes of a method are timed in sequence, so that each finds the caches
 * as the others left them, and the shortest of several times counts: disturbances only add time.
 * The clock is the thread's CPU time, so that a busy machine disturbs little. A method far behind
 * the best is not timed again. About 0.2 s a shape.
 */
#include "base/clock.h"
#include "base/memory.h"
#include "engine/cpu/conv_method.h"
#include "engine/cpu/simd.h"

enum { METHODS = FAST_CONV_METHODS_MAX };
enum { BOTH = FAST_CONV_PASSES, TIMES }; /* timed: each pass, and both gradients at once */

/* The opened methods of a shape while they are compared. */
typedef struct conv_trial {
    void *self[METHODS];          /* the methods' objects */
    void *local[METHODS];         /* their objects of one workspace */
    bool open[METHODS];           /* whether the method fits and was opened */
    int64_t time[METHODS][TIMES]; /* nanoseconds; INT64_MAX where not measured */
    float *memory;                /* one block for all arrays of `io` */
    fast_conv_io io;              /* arrays of the timed calls */
} conv_trial;

/* Free the trial and all that it opened. */
static void trial_close(conv_trial *trial)
{
    for (int i = 0; fast__conv_registry[i]; i++) {
        const fast_conv_method *method = fast__conv_registry[i];
        if (trial->open[i] && method->local_close)
            method->local_close(trial->local[i]);
        if (trial->open[i])
            method->close(trial->self[i]);
    }
    fast__free(trial->memory);
    fast__free(trial);
}

/* Return the time of one pass of one method in nanoseconds. */
static int64_t time_pass(const fast_conv_method *method, const void *self, const fast_conv_io *io,
                         int pass)
{
    fast_conv_io one = *io;
    if (pass == FAST_CONV_DATA)
        one.dw = NULL;
    if (pass == FAST_CONV_WEIGHTS)
        one.dx = NULL;
    const int64_t start = fast__clock_thread_ns();
    if (pass == FAST_CONV_FORWARD)
        method->forward(self, &one);
    else
        method->backward(self, &one);
    return fast__clock_thread_ns() - start;
}

/* Time all passes of one method in sequence, storing the shortest time of each. Returns their
 * sum. */
static int64_t time_round(const fast_conv_shape *shape, conv_trial *trial, int index)
{
    int64_t sum = 0;
    trial->io.local = trial->local[index];
    for (int pass = 0; pass < TIMES; pass++) {
        if (pass != FAST_CONV_FORWARD && !shape->train)
            continue;
        if ((pass == FAST_CONV_DATA || pass == BOTH) && !shape->data)
            continue;
        const int64_t took =
            time_pass(fast__conv_registry[index], trial->self[index], &trial->io, pass);
        sum += took;
        if (took < trial->time[index][pass])
            trial->time[index][pass] = took;
    }
    return sum;
}

enum {
    ROUNDS = 7,                  /* at most; the first round warms up */
    BUSY_NS_MAX = 200 * 1000000, /* no further round after this time */
    SLOWER_MAX = 3               /* a method this many times slower than the best is dropped */
};

/* Time the methods round by round, so that a slow phase of the machine affects all of them. The
 * shortest time of each counts: noise only adds. A method that is clearly slower is dropped after
 * its first round, so that compiling a large network stays within seconds. */
static void time_methods(const fast_conv_shape *shape, conv_trial *trial)
{
    bool behind[METHODS] = { false };
    int64_t best = INT64_MAX;
    const int64_t start = fast__clock_thread_ns();
    for (int round = 0; round < ROUNDS && fast__clock_thread_ns() - start < BUSY_NS_MAX; round++) {
        for (int i = 0; fast__conv_registry[i]; i++) {
            if (!trial->open[i] || behind[i])
                continue;
            const int64_t sum = time_round(shape, trial, i);
            best = sum < best ? sum : best;
            behind[i] = sum / SLOWER_MAX > best;
        }
    }
}

/* Allocate the arrays and fill the inputs. */
static fast_err trial_memory(conv_trial *trial, const fast_conv_shape *s, int64_t scratch)
{
    const int64_t in = s->in_h * s->in_w * s->in_c * s->lanes;
    const int64_t out = s->out_h * s->out_w * s->out_c * s->lanes;
    const int64_t weights = s->out_c * (s->in_c / s->groups) * s->kernel[0] * s->kernel[1];
    const int64_t padded = (weights + FAST_VEC - 1) / FAST_VEC * FAST_VEC;
    FAST_TRY(fast__alloc("a convolution's measurement", 2 * (in + out + padded) + scratch,
                         sizeof *trial->memory, &trial->memory));
    float *at = trial->memory;
    /* The values matter little, but zeros and denormals may be faster or slower than others. */
    for (int64_t i = 0; i < in + out + padded; i++)
        at[i] = (float)((uint32_t)i * 2654435761u >> 8) * 0x1p-24f - 0.5f;
    trial->io = (fast_conv_io){ .x = at, .dy = at + in, .w = at + in + out };
    at += in + out + padded;
    trial->io.dx = s->data ? at : NULL;
    trial->io.y = at + in;
    trial->io.dw = at + in + out;
    trial->io.scratch = at + in + out + padded;
    return FAST_OK;
}

/* Open all methods that fit; a method that fails with FAST_ENOTSUP is skipped. */
static fast_err trial_open(const fast_conv_shape *shape, conv_trial **out)
{
    conv_trial *trial;
    int64_t scratch = 0;
    FAST_TRY(fast__alloc("a convolution's measurement", 1, sizeof *trial, &trial));
    fast_err err = FAST_OK;
    for (int i = 0; fast__conv_registry[i] && !err; i++) {
        const fast_conv_method *method = fast__conv_registry[i];
        FAST_ASSERT(i < METHODS);
        for (int pass = 0; pass < TIMES; pass++)
            trial->time[i][pass] = INT64_MAX;
        if (!method->fits(shape))
            continue;
        err = method->open(shape, &trial->self[i]);
        trial->open[i] = err == FAST_OK;
        if (!err && method->local_open)
            err = method->local_open(trial->self[i], &trial->local[i]);
        if (!err && method->scratch(trial->self[i]) > scratch)
            scratch = method->scratch(trial->self[i]);
        if (err == FAST_ENOTSUP)
            err = FAST_OK;
    }
    if (!err)
        err = trial_memory(trial, shape, scratch);
    if (err) {
        trial_close(trial);
        return err;
    }
    *out = trial;
    return FAST_OK;
}

/* Return the method with the shortest time of a pass. */
static int fastest(const conv_trial *trial, int pass)
{
    int best = -1;
    for (int i = 0; fast__conv_registry[i]; i++)
        if (trial->open[i] && (best < 0 || trial->time[i][pass] < trial->time[best][pass]))
            best = i;
    FAST_ASSERT(best >= 0); /* im2col fits everything */
    return best;
}

/* Open every method that fits, time them together, and take the fastest for each pass; one
 * method for both gradients if that is faster than the best two. */
fast_err fast__conv_choose(const fast_conv_shape *shape,
                           const fast_conv_method *best[FAST_CONV_PASSES])
{
    conv_trial *trial;
    FAST_TRY(trial_open(shape, &trial));
    time_methods(shape, trial);
    const int forward = fastest(trial, FAST_CONV_FORWARD);
    int data = forward, weights = forward;
    if (shape->train)
        weights = data = fastest(trial, FAST_CONV_WEIGHTS);
    if (shape->train && shape->data) {
        const int both = fastest(trial, BOTH);
        data = fastest(trial, FAST_CONV_DATA);
        if (trial->time[both][BOTH] <=
            trial->time[data][FAST_CONV_DATA] + trial->time[weights][FAST_CONV_WEIGHTS])
            data = weights = both;
    }
    best[FAST_CONV_FORWARD] = fast__conv_registry[forward];
    best[FAST_CONV_DATA] = fast__conv_registry[data];
    best[FAST_CONV_WEIGHTS] = fast__conv_registry[weights];
    trial_close(trial);
    return FAST_OK;
}
