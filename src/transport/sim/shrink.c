/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reduces a failing fault schedule to the faults that cause the failure.
 *
 * First delta debugging (ddmin; Zeller and Hildebrandt, TSE 2002) on the list of faults: split it
 * into n pieces, drop one piece after the other, and continue with a list that still fails; n grows
 * up to the number of faults. At the end no single fault can be dropped. Then every time, length
 * and number is replaced by the roundest one that still fails: whole seconds before tenths, and so
 * on. Each test runs the program once; contradictory schedules (a restart without its crash) are
 * not tested. Cost: at most quadratic in the number of faults, n log n usually.
 */
#include "transport/sim/shrink.h"

#include "base/memory.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* The state of a search. */
typedef struct shrink_search {
    fast_faults *best;     /* the smallest schedule that fails */
    fast_shrink_fn *fails; /* the test */
    void *ctx;             /* passed to the test */
    int64_t tries;         /* tests so far */
    int64_t tries_max;     /* tests at most */
    int64_t rounded;       /* numbers that were rounded */
} shrink_search;

/* Test a candidate. Takes it: it becomes the best, or is freed. */
static fast_err ask(shrink_search *s, fast_faults *candidate, bool *fails_out)
{
    bool fails = false;
    fast_err err = FAST_OK;
    if (s->tries < s->tries_max && fast__faults_check(candidate) == FAST_OK) {
        s->tries++;
        err = s->fails(s->ctx, candidate, &fails);
    }
    if (err || !fails) {
        fast__faults_free(candidate);
    } else {
        fast__faults_free(s->best);
        s->best = candidate;
    }
    *fails_out = !err && fails;
    return err;
}

/* Test the best without the faults [from, to). */
static fast_err ask_without(shrink_search *s, int64_t from, int64_t to, bool *fails_out)
{
    bool chosen[FAST_FAULTS_MAX];
    fast_faults *candidate = NULL;
    FAST_ASSERT(s->best->count <= FAST_FAULTS_MAX);
    for (int64_t i = 0; i < s->best->count; i++)
        chosen[i] = i < from || i >= to;
    FAST_TRY(fast__faults_pick(s->best, chosen, &candidate));
    return ask(s, candidate, fails_out);
}

/* Delta debugging on the list. */
static fast_err drop_faults(shrink_search *s)
{
    int64_t pieces = 2;
    while (s->best->count > 0 && s->tries < s->tries_max) {
        const int64_t count = s->best->count;
        if (pieces > count)
            pieces = count;
        bool smaller = false;
        /* From the end, so that a restart is dropped before its crash. */
        for (int64_t i = pieces - 1; i >= 0 && !smaller; i--)
            FAST_TRY(ask_without(s, count * i / pieces, count * (i + 1) / pieces, &smaller));
        if (smaller)
            pieces = pieces > 2 ? pieces - 1 : 2;
        else if (pieces == count)
            return FAST_OK;
        else
            pieces = pieces * 2;
    }
    return FAST_OK;
}

/* Drop pairs of faults of one node, like a crash and its restart, which cannot be dropped alone. */
static fast_err drop_pairs(shrink_search *s)
{
    bool chosen[FAST_FAULTS_MAX];
    for (int64_t i = 0; i < s->best->count; i++) {
        for (int64_t j = i + 1; j < s->best->count; j++) {
            fast_faults *candidate = NULL;
            bool smaller = false;
            if (s->best->list[i].node != s->best->list[j].node)
                continue;
            for (int64_t k = 0; k < s->best->count; k++)
                chosen[k] = k != i && k != j;
            FAST_TRY(fast__faults_pick(s->best, chosen, &candidate));
            FAST_TRY(ask(s, candidate, &smaller));
            if (smaller)
                return drop_pairs(s);
        }
    }
    return FAST_OK;
}

/* A field of a fault that is rounded. */
typedef enum shrink_field {
    FIELD_AT,     /* start of the fault */
    FIELD_LENGTH, /* duration */
    FIELD_JUMP,   /* shift of a clock */
    FIELD_BY      /* factor or probability */
} shrink_field;

/* Return the field of a fault that holds a time. */
static int64_t *time_of(fast_fault *fault, shrink_field which)
{
    if (which == FIELD_AT)
        return &fault->at;
    return which == FIELD_LENGTH ? &fault->length : &fault->jump;
}

/* Test the best with another time of fault `i`. */
static fast_err ask_time(shrink_search *s, int64_t i, shrink_field which, int64_t time,
                         bool *fails_out)
{
    fast_faults *candidate = NULL;
    FAST_TRY(fast__faults_pick(s->best, NULL, &candidate));
    *time_of(&candidate->list[i], which) = time;
    return ask(s, candidate, fails_out);
}

/* Test the best with another number of fault `i`. */
static fast_err ask_by(shrink_search *s, int64_t i, double by, bool *fails_out)
{
    fast_faults *candidate = NULL;
    FAST_TRY(fast__faults_pick(s->best, NULL, &candidate));
    candidate->list[i].by = by;
    return ask(s, candidate, fails_out);
}

/* Replace a time by the roundest one that still fails: the two nearest multiples of 1000 s, 100 s,
 * ... 1 ns, but none that is half as long again. */
static fast_err round_time(shrink_search *s, int64_t i, shrink_field which)
{
    const int64_t time = *time_of(&s->best->list[i], which);
    const int64_t least = which == FIELD_LENGTH ? 1 : -FAST_FAULT_TIME_MAX;
    for (int64_t grain = 1000000000000; grain > 0; grain /= 10) {
        const int64_t below = time / grain * grain;
        const int64_t above = below + (time < 0 ? -grain : grain);
        bool done = false;
        if (below == time)
            return FAST_OK;
        if (below >= least && (which != FIELD_JUMP || below != 0))
            FAST_TRY(ask_time(s, i, which, below, &done));
        if (!done && llabs(above) <= llabs(time) / 2 * 3 && llabs(above) <= FAST_FAULT_TIME_MAX)
            FAST_TRY(ask_time(s, i, which, above, &done));
        s->rounded += done;
        if (done)
            return FAST_OK;
    }
    return FAST_OK;
}

/* Replace a factor or a probability by a value of one significant digit, then of two. */
static fast_err round_by(shrink_search *s, int64_t i)
{
    const double by = s->best->list[i].by;
    for (int digits = 0; digits < 2 && by > 0; digits++) {
        /* Powers of ten are exact, their inverses are not: 0.3 is 3 / 10. */
        const double scale = floor(log10(by)) - digits;
        const double power = pow(10, fabs(scale));
        const double rounded = scale < 0 ? round(by * power) / power : round(by / power) * power;
        bool done = false;
        if (rounded == by)
            return FAST_OK;
        FAST_TRY(ask_by(s, i, rounded, &done));
        s->rounded += done;
        if (done)
            return FAST_OK;
    }
    return FAST_OK;
}

/* Round all numbers of fault `i`. */
static fast_err round_fault(shrink_search *s, int64_t i)
{
    if (s->best->list[i].length > 0)
        FAST_TRY(round_time(s, i, FIELD_LENGTH));
    if (s->best->list[i].kind == FAST_FAULT_JUMP)
        FAST_TRY(round_time(s, i, FIELD_JUMP));
    if (s->best->list[i].kind == FAST_FAULT_SLOW || s->best->list[i].kind == FAST_FAULT_LOSSY)
        FAST_TRY(round_by(s, i));
    return round_time(s, i, FIELD_AT);
}

/* Reduce s->best, which must fail. */
static fast_err shrink(shrink_search *s)
{
    fast_faults *copy = NULL;
    bool fails = false;
    FAST_TRY(fast__faults_pick(s->best, NULL, &copy));
    FAST_TRY(ask(s, copy, &fails));
    if (!fails)
        return fast__fail(FAST_EINVAL, "this schedule does not fail, so it cannot be shrunk");
    FAST_TRY(drop_faults(s));
    FAST_TRY(drop_pairs(s));
    /* A number that was rounded may allow another one to be rounded. */
    int64_t rounded = -1;
    while (rounded != s->rounded && s->tries < s->tries_max) {
        rounded = s->rounded;
        for (int64_t i = 0; i < s->best->count; i++)
            FAST_TRY(round_fault(s, i));
    }
    return FAST_OK;
}

fast_err fast__faults_shrink(const fast_faults *faults, fast_shrink_fn *fails, void *ctx,
                             int64_t tries_max, fast_faults **out, int64_t *tries_out)
{
    FAST_ASSERT(tries_max > 0);
    shrink_search s = { .fails = fails, .ctx = ctx, .tries_max = tries_max };
    FAST_TRY(fast__faults_pick(faults, NULL, &s.best));
    const fast_err err = shrink(&s);
    if (err) {
        fast__faults_free(s.best);
        return err;
    }
    *out = s.best;
    if (tries_out)
        *tries_out = s.tries;
    return FAST_OK;
}
