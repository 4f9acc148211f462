/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reduces a failing fault schedule to what is guilty.
 *
 * First delta debugging (ddmin; Zeller and Hildebrandt, TSE 2002) on the list of faults: with n
 * pieces of the list, drop one piece after the other; what still fails is kept, n grows up to the
 * number of faults. In the end no single fault can be left out. Then every time, length and number
 * of what remains is replaced by the roundest one that still fails: whole seconds before tenths,
 * and so on. Each question runs the program once; schedules that make no sense (a restart without
 * its crash) are not asked. Cost: at most quadratic in the number of faults, n log n usually.
 */
#include "transport/sim/shrink.h"

#include "base/memory.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* The search: what is known to fail, and who says so. */
typedef struct shrink_search {
    fast_faults *best;     /* fails */
    fast_shrink_fn *fails; /* the question */
    void *ctx;             /* its context */
    int64_t tries;         /* questions so far */
    int64_t tries_max;     /* at most */
    int64_t rounded;       /* numbers that became rounder */
} shrink_search;

/* Ask about a candidate, which is taken: it becomes the best, or is freed. */
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

/* Ask about the best without [from, to). */
static fast_err ask_without(shrink_search *s, int64_t from, int64_t to, bool *fails_out)
{
    bool keep[FAST_FAULTS_MAX];
    fast_faults *candidate = NULL;
    FAST_ASSERT(s->best->count <= FAST_FAULTS_MAX);
    for (int64_t i = 0; i < s->best->count; i++)
        keep[i] = i < from || i >= to;
    FAST_TRY(fast__faults_pick(s->best, keep, &candidate));
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
        /* From the end, so that what comes after a dropped piece keeps its place. A restart goes
         * before its crash this way. */
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

/* A crash and its restart, or two others of a node, in pairs: what cannot be dropped alone may be
 * dropped with another. */
static fast_err drop_pairs(shrink_search *s)
{
    bool keep[FAST_FAULTS_MAX];
    for (int64_t i = 0; i < s->best->count; i++) {
        for (int64_t j = i + 1; j < s->best->count; j++) {
            fast_faults *candidate = NULL;
            bool smaller = false;
            if (s->best->list[i].node != s->best->list[j].node)
                continue;
            for (int64_t k = 0; k < s->best->count; k++)
                keep[k] = k != i && k != j;
            FAST_TRY(fast__faults_pick(s->best, keep, &candidate));
            FAST_TRY(ask(s, candidate, &smaller));
            if (smaller)
                return drop_pairs(s);
        }
    }
    return FAST_OK;
}

/* Ask about the best with one field of fault `i` replaced. */
typedef enum shrink_field { FIELD_AT, FIELD_LENGTH, FIELD_JUMP, FIELD_BY } shrink_field;

static int64_t *time_of(fast_fault *fault, shrink_field which)
{
    if (which == FIELD_AT)
        return &fault->at;
    return which == FIELD_LENGTH ? &fault->length : &fault->jump;
}

static fast_err ask_time(shrink_search *s, int64_t i, shrink_field which, int64_t time,
                         bool *fails_out)
{
    bool keep[FAST_FAULTS_MAX];
    fast_faults *candidate = NULL;
    memset(keep, true, sizeof keep);
    FAST_TRY(fast__faults_pick(s->best, keep, &candidate));
    *time_of(&candidate->list[i], which) = time;
    return ask(s, candidate, fails_out);
}

static fast_err ask_by(shrink_search *s, int64_t i, double by, bool *fails_out)
{
    bool keep[FAST_FAULTS_MAX];
    fast_faults *candidate = NULL;
    memset(keep, true, sizeof keep);
    FAST_TRY(fast__faults_pick(s->best, keep, &candidate));
    candidate->list[i].by = by;
    return ask(s, candidate, fails_out);
}

/* The roundest time that still fails: multiples of 1000 s, 100 s, ... 1 ns, the nearest two, but
 * nothing half as long again. */
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

/* Likewise a factor or a chance: one significant digit, then two. */
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

static fast_err shrink(shrink_search *s)
{
    bool keep[FAST_FAULTS_MAX];
    fast_faults *copy = NULL;
    bool fails = false;
    memset(keep, true, sizeof keep);
    FAST_TRY(fast__faults_pick(s->best, keep, &copy));
    FAST_TRY(ask(s, copy, &fails));
    if (!fails)
        return fast__fail(FAST_EINVAL, "this schedule does not fail, so it cannot be shrunk");
    FAST_TRY(drop_faults(s));
    FAST_TRY(drop_pairs(s));
    /* A number that is round now may make room for another one. */
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
    bool keep[FAST_FAULTS_MAX];
    shrink_search s = { .fails = fails, .ctx = ctx, .tries_max = tries_max };
    memset(keep, true, sizeof keep);
    FAST_TRY(fast__faults_pick(faults, keep, &s.best));
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
