/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * kernel.h - vectors and kernels: arithmetic of strategies with measured contributions and costs.
 * strategy.h includes it.
 *
 *     static void run_half(const void *ctx, int64_t n, float *const *x)
 *     {
 *         for (int64_t i = 0; i < n; i++)
 *             x[0][i] = 0.5f * (x[0][i] + x[1][i]);
 *     }
 *
 *     static const fast_kernel half = { .name = "half", .operations = 2, .bytes = 12, .vectors = 2,
 *                                       .written = 1, .run = run_half };
 *     printf("%s takes %d vectors\n", half.name, half.vectors);
 *
 * Values may be in the memory of a device (the option `device` of a run). Code that is not a kernel
 * passes addresses on and does arithmetic with them, but reads and writes no element: it computes
 * by kernels, collectives, spaces and the other functions of the trainer, which take vectors of the
 * host and of the device alike. run() of a kernel is called on host memory.
 *
 * A vector has values and, by worker, the weight of the updates that it holds: its contributions.
 * An update of w by this worker's whole gradient has the weight `workers`, so that the mean of all
 * replicas holds 1 of every worker's. A kernel is an operation that is linear in its vectors, with
 * its cost: it changes the values and the contributions alike, simulated nodes take its time, and
 * the forecast counts it.
 */

#include "fast/comm.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct fast_trainer fast_trainer; /* one actor's view of a run: strategy.h */

/* Values and their contributions. */
typedef struct fast_vector {
    float *x;       /* values: t->count floats, or a range of them */
    double *shares; /* [fast_trainer_share_count()] contributions; NULL if they are not known */
    int64_t age;    /* of values that arrived: updates by which they are late, counted as staleness
                       when they are merged; negative: not counted */
} fast_vector;

/* Return a persistent vector of t->count floats with its contributions, both 0 at first: blocks
 * `number` and FAST_PERSIST_SHARES + `number` of fast_trainer_persist(), for numbers below
 * FAST_PERSIST_SHARES. Fails as fast_trainer_persist() does. */
enum { FAST_PERSIST_SHARES = 16 };
FAST_API FAST_MUST_CHECK fast_err fast_trainer_persist_vector(fast_trainer *t, int64_t number,
                                                              fast_vector *out);

/* Return this replica: w and its contributions; `shares` is NULL at servers. */
FAST_API fast_vector fast_trainer_model(const fast_trainer *t);
/* Return g and its contributions: of this worker, or after fast_trainer_sum() of all workers. */
FAST_API fast_vector fast_trainer_grad(const fast_trainer *t);
/* Return the length of `shares`: the number of workers, or of a sample of them. Above 256 workers
 * contributions of evenly spaced workers are counted, and those of the actor's own worker, so that
 * their cost does not grow with the square of the workers. */
FAST_API int64_t fast_trainer_share_count(const fast_trainer *t);
/* Return the rank of the worker that entry i of `shares` counts: i unless they are a sample. The
 * last entry of a sample is of t->rank. */
FAST_API int64_t fast_trainer_share_rank(const fast_trainer *t, int64_t i);
/* Set `shares` to those of one whole gradient of worker `rank`. */
FAST_API void fast_trainer_shares_of(const fast_trainer *t, int64_t rank, double *shares);

enum { FAST_KERNEL_VECTORS = 5 };
/* An operation and its cost. */
typedef struct fast_kernel {
    const char *name;  /* for messages */
    double operations; /* for each element */
    double bytes;      /* moved through memory for each element */
    int vectors;       /* that run() takes, at most FAST_KERNEL_VECTORS; the first is the result */
    int written;       /* number of those, from the first on, that run() changes */
    bool deferred;     /* its time is spent after the messages that follow it: charged by the next
                          step, gradient or update */
    /* Change x[0 .. written), n elements each. Never blocks. */
    void (*run)(const void *ctx, int64_t n, float *const *x);
} fast_kernel;
/* Apply a kernel `rows` times, to vectors v[row * kernel->vectors + i] of `count` elements each: a
 * range of w counts as its fraction. Fails as fast_charge() does. */
FAST_API FAST_MUST_CHECK fast_err fast_trainer_apply_range(fast_trainer *t,
                                                           const fast_kernel *kernel,
                                                           const void *ctx, const fast_vector *v,
                                                           int64_t rows, int64_t count);
/* Set y to the sum of `n` vectors of `count` elements in the canonical order, at most
 * FAST_SUM_LIST_MAX; charged. */
enum { FAST_SUM_LIST_MAX = 4096 };
FAST_API FAST_MUST_CHECK fast_err fast_trainer_sum_list(fast_trainer *t, const float *const *x,
                                                        int64_t n, int64_t count, float *y);
/* Apply a kernel once, to whole vectors. Fails as fast_charge() does. */
FAST_API FAST_MUST_CHECK fast_err fast_trainer_apply(fast_trainer *t, const fast_kernel *kernel,
                                                     const void *ctx, const fast_vector *v);
/* Set w to v, which may be w itself with contributions that are known now. `shares` NULL: v holds
 * t->step updates of every worker. Without cost. */
FAST_API void fast_trainer_adopt(fast_trainer *t, const fast_vector *v);
/* Make the sum over all workers of a range of g, or start it, also in reports: fast_request_wait()
 * ends it. `group` has all workers; requests of one group end in the order of their start. Without
 * codecs only. */
FAST_API FAST_MUST_CHECK fast_err fast_trainer_sum_range(fast_trainer *t, fast_group *group,
                                                         int64_t offset, int64_t count);
FAST_API FAST_MUST_CHECK fast_err fast_trainer_sum_range_start(fast_trainer *t, fast_group *group,
                                                               int64_t offset, int64_t count,
                                                               fast_request **out);
/* Replace v by the sum over all workers, as in fast_trainer_sum(); workers of a synchronous
 * strategy hold equal shares of their own updates and equal ones of all others', which are summed
 * alike. */
FAST_API FAST_MUST_CHECK fast_err fast_trainer_sum_vector(fast_trainer *t, const fast_vector *v);
/* Update the replica: w <- rule(w, scale v.x), as fast_trainer_update(), with the contributions of
 * v. */
FAST_API FAST_MUST_CHECK fast_err fast_trainer_update_by(fast_trainer *t, const fast_vector *v,
                                                         float scale);

#ifdef __cplusplus
}
#endif
