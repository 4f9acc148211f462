/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "strategy/strategy.h"
#include "trainer/context.h"

/*
 * A strategy's programs alone: real trainers on a fake host, without a run around them. There is no
 * model, data set, evaluation or checkpoint; every worker learns a quadratic,
 *
 *     loss = 1/2 |w - target|^2,   g = w - target,   target = rank + 1 in every element,
 *
 * whose w starts at 0, with the rule sgd at the rate 0.5, so that all values are exact floats. It
 * has two layers, of which the last is reported first. Teachers move the target of each element to
 * share * (mean of the teachers' w) + (1 - share) * target.
 *
 *     fake_result r;
 *
 *     fake_run(&(fake_options){ .strategy = "ensemble", .workers = 2, .steps = 3 }, &r);
 *     assert_int_equal(r.err, FAST_OK);
 *     fake_assert_calls(&r, 1, "", "next gradient update", "next end");
 *
 * Calls. Every function of the trainer that acts is recorded, by its name without fast_trainer_, in
 * the order in which the strategy of one actor calls it. Pure queries (lr, codes, by_range, ...)
 * and fast_trainer_note(), fast_trainer_momentum() are not. A test
 * whose source includes this header is linked so that these calls pass through fake_host.c; whole
 * runs in the same test are not affected.
 *
 * Costs. The last fast_cost that an actor told is in `cost`. Beside it stand the costs that really
 * arose until then: floats of sums over all workers, and operations and bytes that the transport
 * was charged for kernels.
 *
 * Errors. With fail_call = n the n-th recorded call of actor `fail_actor` fails with FAST_EIO
 * instead of being made; calls that return no error are recorded, but are not counted. A strategy
 * must return that error: fake_assert_errors() tries every n.
 */

enum {
    FAKE_WORKERS_MAX = 4,  /* workers */
    FAKE_ACTORS_MAX = 8,   /* workers and servers */
    FAKE_COUNT = 6,        /* length of w: a matrix of 2 x 2 and a bias of 2 */
    FAKE_CALLS_SIZE = 4096 /* bytes of a sequence of calls */
};

typedef struct fake_options {
    const char *strategy;     /* name:key=value,... */
    const fast_strategy *own; /* a strategy of the test, chosen if it has that name; or NULL */
    const char *topology;     /* of a strategy that has one; NULL: the strategy's standard one */
    const char *optimizer;    /* name:key=value,...; NULL: sgd */
    const char *transport;    /* "sim" or "threads"; NULL: sim */
    int64_t workers;          /* at least 1 */
    int64_t steps;            /* of each worker */
    bool share;               /* workers may share one model */
    int64_t fail_actor;       /* workers come first, then servers */
    int64_t fail_call;        /* from 1; 0: none fails */
} fake_options;

/* One worker or server after its program. */
typedef struct fake_actor {
    fast_err err;                /* that its program returned */
    char calls[FAKE_CALLS_SIZE]; /* in their order, separated by spaces; cut if too long */
    int64_t failable;            /* calls that could have failed */
    int64_t steps;               /* that it counted */
    int64_t observed[2];         /* number of measures, by fast_observation */
    bool costed;                 /* it told its cost */
    fast_cost cost;              /* that it told last, without `parts` */
    double cost_parts;           /* sum of `parts` of that cost */
    double charged_operations;   /* by kernels */
    double charged_bytes;        /* by kernels */
    double summed;               /* floats of sums after gradients */
    double summed_early;         /* floats of sums that the last gradient started */
    int64_t early_step;          /* step of that gradient, from 0 */
    bool has_centre;             /* it set a centre */
    float w[FAKE_COUNT];         /* its parameters at the end */
    float centre[FAKE_COUNT];    /* its centre at the end */
    double contributions[FAKE_WORKERS_MAX]; /* of each worker in its replica */
} fake_actor;

typedef struct fake_result {
    fast_err err;                       /* of the whole: the first failure by actor number */
    char detail[FAST_DETAIL_MAX];       /* of err */
    int64_t actor_count;                /* workers and servers */
    fake_actor actors[FAKE_ACTORS_MAX]; /* workers first */
} fake_result;

/* Run all programs to their end and fill *out, with vectors on the host; then once more with
 * vectors on the device `check`, which must give the same. A strategy, topology or option that
 * makes no sense fails the test. */
void fake_run(const fake_options *options, fake_result *out);

/* Fail the test unless the actor's calls are `head`, then `step` once for each step that it
 * counted, then `tail`; each may be "". */
void fake_assert_calls(const fake_result *result, int64_t actor, const char *head, const char *step,
                       const char *tail);

/* Let each call of each actor fail, one in every run, and fail the test unless that actor's program
 * returns the error and all other programs come to an end. Returns the number of runs. */
int64_t fake_assert_errors(const fake_options *options);
