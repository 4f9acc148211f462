/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Vectors with contributions, kernels on them, and the measures that follow.
 *
 *   contributions  c_j, the weight of worker j's updates in a vector. Every kernel is linear, so
 *                  that y = f(x) for the values is c(y) = f(c(x)) for the contributions
 *   charge         operations and bytes of the kernel for each element, once for all its rows
 *   staleness      of values that arrived: their age when they are merged; of gradients: the lag of
 *                  their update (step.c); at the owners of a space: versions since the read
 *                  (opened_spaces.c)
 *   forecast       bytes of kernels and floats of sums at worker 0, by step
 *
 * Vectors are on the device of the run's model, and values that arrived on the host. Kernels are
 * written for the host: they run on mapped memory.
 *
 * Cost: a kernel on five floats more than its own, and 25 operations for each worker, of at most
 * 257: above 256 workers those of a sample and of the own worker are counted.
 */
#include "trainer/context.h"

#include "base/memory.h"
#include "tensor/sum.h"
#include "tensor/vector.h"

#include <string.h>

enum { SHARES_MAX = 256 }; /* workers whose contributions are counted */

fast_vector fast_trainer_model(const fast_trainer *t)
{
    FAST_ASSERT(t->w != NULL);
    return (fast_vector){ .x = t->w, .shares = fast__context_of(t)->shares.w, .age = -1 };
}

fast_vector fast_trainer_grad(const fast_trainer *t)
{
    FAST_ASSERT(t->g != NULL);
    return (fast_vector){ .x = t->g, .shares = fast__context_of(t)->shares.g, .age = -1 };
}

/* Ranks from one counted worker to the next: 1 while all are counted. */
static int64_t share_stride(int64_t workers)
{
    FAST_ASSERT(workers > 0);
    return (workers + SHARES_MAX - 1) / SHARES_MAX;
}

int64_t fast__share_columns(int64_t workers)
{
    const int64_t stride = share_stride(workers);

    FAST_ASSERT(stride > 0);
    return (workers + stride - 1) / stride;
}

int64_t fast_trainer_share_count(const fast_trainer *t)
{
    FAST_ASSERT(t->workers > 0);
    return fast__share_columns(t->workers) + (share_stride(t->workers) > 1);
}

int64_t fast_trainer_share_rank(const fast_trainer *t, int64_t i)
{
    const int64_t rank = i * share_stride(t->workers);

    FAST_ASSERT(i >= 0 && i < fast_trainer_share_count(t));
    return i < fast__share_columns(t->workers) ? rank : t->rank;
}

void fast_trainer_shares_of(const fast_trainer *t, int64_t rank, double *shares)
{
    FAST_ASSERT(shares != NULL);
    FAST_ASSERT(rank >= 0 && rank < t->workers);
    for (int64_t i = 0; i < fast_trainer_share_count(t); i++)
        shares[i] = fast_trainer_share_rank(t, i) == rank ? (double)t->workers : 0;
}

/* y <- y + fraction (sum_k a_k x_k - y), y = x_0: the usual kernel, which writes one vector, as
 * loops over the workers that a compiler turns into vector code. x_k may be y. */
static void combine_shares(int64_t n, int vectors, const float *a, const fast_vector *v,
                           double fraction)
{
    double *y = v[0].shares;
    double own = 1 - fraction;

    if (!y)
        return;
    for (int k = 0; k < vectors; k++)
        own += v[k].shares == y ? fraction * (double)a[k] : 0;
    for (int64_t j = 0; j < n; j++)
        y[j] *= own;
    for (int k = 1; k < vectors; k++) {
        const double *x = v[k].shares;
        const double weight = fraction * (double)a[k];

        for (int64_t j = 0; x && x != y && j < n; j++)
            y[j] += weight * x[j];
    }
}

/* Apply a kernel to the contributions of one row, of which `fraction` changes. Run on unit vectors
 * it gives its own coefficients: y_i = sum_k a_ik x_k. */
static void apply_shares(const fast_trainer *t, const fast_kernel *kernel, const void *ctx,
                         const fast_vector *v, double fraction)
{
    float a[FAST_KERNEL_VECTORS][FAST_KERNEL_VECTORS] = { { 0 } };
    float *x[FAST_KERNEL_VECTORS];
    bool known = false;

    for (int i = 0; i < kernel->vectors; i++) {
        x[i] = a[i];
        a[i][i] = 1;
        known = known || v[i].shares;
    }
    if (!known)
        return;
    FAST_ASSERT(fraction >= 0 && fraction <= 1);
    kernel->run(ctx, kernel->vectors, x);
    if (kernel->written == 1) {
        combine_shares(fast_trainer_share_count(t), kernel->vectors, a[0], v, fraction);
        return;
    }
    for (int64_t j = 0; j < fast_trainer_share_count(t); j++) {
        double old[FAST_KERNEL_VECTORS];

        for (int i = 0; i < kernel->vectors; i++)
            old[i] = v[i].shares ? v[i].shares[j] : 0;
        for (int i = 0; i < kernel->written; i++) {
            double y = 0;

            for (int k = 0; k < kernel->vectors; k++)
                y += (double)a[i][k] * old[k];
            if (v[i].shares)
                v[i].shares[j] = old[i] + fraction * (y - old[i]);
        }
    }
}

fast_err fast_trainer_apply_range(fast_trainer *t, const fast_kernel *kernel, const void *ctx,
                                  const fast_vector *v, int64_t rows, int64_t count)
{
    fast_context *c = fast__context_of(t);
    const double elements = (double)rows * (double)count;

    FAST_ASSERT(kernel->vectors > 0 && kernel->vectors <= FAST_KERNEL_VECTORS);
    FAST_ASSERT(kernel->written > 0 && kernel->written <= kernel->vectors);
    FAST_ASSERT(rows >= 0 && count >= 0);
    for (int64_t row = 0; row < rows; row++) {
        const fast_vector *operand = v + row * kernel->vectors;
        float *x[FAST_KERNEL_VECTORS];

        for (int i = 0; i < kernel->vectors; i++) {
            x[i] = operand[i].x;
            if (operand[i].age >= 0)
                fast__context_stale(c, operand[i].age);
        }
        fast__device_run(kernel->run, ctx, count, kernel->vectors, kernel->written, x);
        apply_shares(t, kernel, ctx, operand, (double)count / (double)t->count);
    }
    c->traffic.moved += elements * kernel->bytes;
    /* A deferred kernel runs now, and its time is charged with the next step, gradient or update.
     * */
    if (kernel->deferred) {
        c->work.operations += kernel->operations * elements;
        c->work.bytes += kernel->bytes * elements;
    }
    if (kernel->deferred || (kernel->operations == 0 && kernel->bytes == 0))
        return FAST_OK;
    return fast_charge(t->actor, kernel->operations * elements, kernel->bytes * elements);
}

fast_err fast_trainer_apply(fast_trainer *t, const fast_kernel *kernel, const void *ctx,
                            const fast_vector *v)
{
    FAST_ASSERT(v != NULL);
    return fast_trainer_apply_range(t, kernel, ctx, v, 1, t->count);
}

fast_err fast_trainer_sum_list(fast_trainer *t, const float *const *x, int64_t n, int64_t count,
                               float *y)
{
    FAST_ASSERT(x != NULL && y != NULL);
    FAST_ASSERT(n > 0 && n <= FAST_SUM_LIST_MAX && count >= 0);
    fast__sum(x, n, count, y);
    return fast_charge(t->actor, (double)(n * count), 4 * (double)((n + 1) * count));
}

void fast_trainer_adopt(fast_trainer *t, const fast_vector *v)
{
    double *shares = fast__context_of(t)->shares.w;

    FAST_ASSERT(v->x != NULL);
    if (v->x != t->w)
        fast__vector_copy(t->count, v->x, t->w);
    if (v->age >= 0)
        fast__context_stale(fast__context_of(t), v->age);
    for (int64_t i = 0; shares && i < fast_trainer_share_count(t); i++)
        shares[i] = v->shares ? v->shares[i] : (double)t->step;
}

/* The sum over workers of which each holds `own` of its updates and `other` of any other's. */
static void sum_shares(const fast_trainer *t, double *shares)
{
    const int64_t count = fast_trainer_share_count(t);
    const double own = shares[share_stride(t->workers) > 1 ? count - 1 : t->rank];
    const double other = t->workers > 1 ? shares[t->rank > 0 ? 0 : 1] : 0;

    FAST_ASSERT(shares != NULL);
    FAST_ASSERT(t->rank < t->workers);
    for (int64_t i = 0; i < count; i++)
        shares[i] = own + (double)(t->workers - 1) * other;
}

/* Reports may have started the sum of this gradient before it was complete: then it holds the
 * updates of all workers already. Workers of a synchronous strategy compute at the newest
 * weights, but in a pipeline that is not drained. */
void fast__context_own_gradient(fast_context *context)
{
    fast_trainer *t = &context->trainer;

    FAST_ASSERT(context->learner != NULL);
    fast_trainer_shares_of(t, t->rank, context->shares.g);
    if (context->shares.summed_step >= t->step) /* reports started its sum */
        sum_shares(t, context->shares.g);
    t->staleness = -1;
    if (context->options.phase.synchronous)
        fast__context_stale(context, context->pipe.staleness);
}

/* The sum of g is counted once a step, however many ranges it is started in. Inside a gradient the
 * step is not counted yet, and g gets its contributions when it is complete. */
void fast__context_summed(fast_context *context, const float *x)
{
    fast_trainer *t = &context->trainer;
    const int64_t step = t->step + (context->work.computing ? 1 : 0);

    FAST_ASSERT(x != NULL);
    if (x == t->w)
        sum_shares(t, context->shares.w);
    if (x != t->g || context->shares.summed_step >= step)
        return;
    context->shares.summed_step = step;
    if (!context->work.computing)
        sum_shares(t, context->shares.g);
}

fast_err fast_trainer_sum_range(fast_trainer *t, fast_group *group, int64_t offset, int64_t count)
{
    fast_context *c = fast__context_of(t);

    FAST_ASSERT(group != NULL);
    FAST_ASSERT(offset >= 0 && count >= 0 && offset + count <= t->count);
    fast__context_summed(c, t->g);
    fast__context_sum_floats(c, count, false);
    return fast_allreduce(group, t->g + offset, count, FAST_SOON);
}

/* Did the gradient of this step start sums? */
static bool had_buckets(const fast_context *c)
{
    return c->traffic.part_count > 0 && c->traffic.part_step == c->trainer.step - 1;
}

fast_err fast_trainer_sum_range_start(fast_trainer *t, fast_group *group, int64_t offset,
                                      int64_t count, fast_request **out)
{
    fast_context *c = fast__context_of(t);

    FAST_ASSERT(group != NULL && out != NULL);
    FAST_ASSERT(offset >= 0 && count >= 0 && offset + count <= t->count);
    fast__context_summed(c, t->g);
    /* The last bucket starts when the gradient is complete: it belongs to the same row of sums. */
    fast__context_sum_floats(c, count, group == t->group && (c->work.computing || had_buckets(c)));
    return fast_allreduce_start(group, t->g + offset, count, out);
}

fast_err fast_trainer_sum_vector(fast_trainer *t, const fast_vector *v)
{
    FAST_ASSERT(v != NULL && v->x != NULL);
    FAST_TRY(fast__context_sum(fast__context_of(t), v->x));
    if (v->shares && v->x != t->w && v->x != t->g)
        sum_shares(t, v->shares);
    return FAST_OK;
}

fast_err fast_trainer_update_by(fast_trainer *t, const fast_vector *v, float scale)
{
    FAST_ASSERT(v != NULL && v->x != NULL);
    return fast__context_update(fast__context_of(t), v->x, v->shares, scale);
}

/* Measures: staleness, floats of sums, and the cost of an exchange, for the host. */

void fast__context_stale(fast_context *context, int64_t staleness)
{
    const fast_context_options *o = &context->options;

    FAST_ASSERT(staleness >= 0);
    o->host->observed(o->host_ctx, FAST_OBSERVE_STALENESS, (double)staleness, 0);
}

void fast__context_sum_floats(fast_context *context, int64_t count, bool overlapped)
{
    fast_context_traffic *traffic = &context->traffic;

    FAST_ASSERT(count >= 0);
    if (!overlapped) {
        traffic->summed += (double)count;
        return;
    }
    const int64_t step = context->trainer.step - (context->work.computing ? 0 : 1);
    if (traffic->part_step != step) {
        traffic->part_step = step;
        traffic->part_count = 0;
    }
    /* The forecast has room for a few sums in a step; all later ones count as one. */
    const int64_t last = FAST_COST_PARTS - 1;
    if (traffic->part_count <= last)
        traffic->parts[traffic->part_count++] = count;
    else
        traffic->parts[last] += count;
}

void fast__context_tell_cost(fast_context *context)
{
    const fast_context_options *o = &context->options;
    const fast_context_traffic *traffic = &context->traffic;
    const fast_trainer *t = &context->trainer;
    const double steps = (double)(t->step - context->traffic.step_first);
    fast_cost cost = { .barrier = o->phase.synchronous ? (double)t->period : 0 };

    if (t->rank != 0 || !context->learner || steps <= 0 ||
        fast_trainer_codec_fit(t) != FAST_FIT_NONE)
        return;
    if (o->phase.cost)
        o->phase.cost(o->phase.config, t, &cost);
    cost.allreduces = traffic->summed / (steps * (double)t->count);
    cost.moved = traffic->moved / (steps * (double)t->count);
    if (traffic->part_count > 0) {
        cost.buckets = traffic->parts;
        cost.bucket_count = traffic->part_count;
    }
    o->host->costed(o->host_ctx, &cost);
}
