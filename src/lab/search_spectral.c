/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Spectral search over lists of values (Harmonica; Hazan, Klivans and Yuan 2017). A setting is a
 * point of the cube {-1, 1}^n: an option with v values has ceil(log2 v) bits. The measure is taken
 * for a sparse polynomial of few bits, which few trials determine:
 *
 *   f(x) = c + sum over sets S of at most `degree` bits of a_S prod_{i in S} x_i
 *
 *   stage      draw trials in the space that is left; fit a_S by the Lasso; retain the `terms`
 *              largest
 *   restrict   fix the bits of those terms where their sum is least; repeat `stages` times
 *   end        the last trials are drawn at random in the space that is left
 *
 * The Lasso minimises |f - y|^2 / 2m + penalty |a|_1 by coordinate descent, with a penalty of
 * PENALTY times the one above which all coefficients are 0. Sets of bits that the space left does
 * not vary are out. A trial that diverged counts as the worst one that did not.
 *
 * Example: 60 options of two values have 36,050 sets of up to three bits, and a function of five of
 * them is found with some hundred trials; random search sees nothing of 2^60 settings.
 *
 * Cost: O(sets * trials * sweeps) a stage; at most SETS_MAX sets.
 */
#include "lab/search.h"

#include "base/memory.h"

#include <math.h>
#include <string.h>

#define PENALTY 0.1
enum { BITS_MAX = 48, SETS_MAX = 20000, SWEEPS = 200, SET_BITS = 3, FIXED_MAX = 18, TRIES = 4096 };

/* A set of bits, and its coefficient. */
typedef struct bit_set {
    int bits[SET_BITS]; /* ascending; -1 behind the last */
    double value;       /* coefficient */
} bit_set;

/* The bits of a space, and what is fixed. */
typedef struct cube {
    const fast_search_space *space; /* of the settings */
    int count;                      /* number of bits */
    int option[BITS_MAX];           /* whose bit this is */
    int shift[BITS_MAX];            /* its place in the index of a value */
    int fixed[BITS_MAX];            /* 0: free; else -1 or 1 */
} cube;

/* Bit i of a setting: 1 where the bit of the value's index is 0, else -1. */
static int bit_of(const cube *c, const double *at, int i)
{
    return ((int64_t)at[c->option[i]] >> c->shift[i]) & 1 ? -1 : 1;
}

/* List the bits of all options. FAST_EINVAL for too many. */
static fast_err open_cube(const fast_search *search, cube *c)
{
    *c = (cube){ .space = search->space };
    for (int k = 0; k < (int)search->space->count; k++)
        for (int shift = 0; (INT64_C(1) << shift) < search->space->options[k].values.count;
             shift++) {
            if (c->count == BITS_MAX)
                return fast__fail(FAST_EINVAL,
                                  "searcher spectral has room for %d bits; give fewer values",
                                  BITS_MAX);
            c->option[c->count] = k;
            c->shift[c->count++] = shift;
        }
    return FAST_OK;
}

/* True if a value of an option agrees with its fixed bits. */
static bool is_left(const cube *c, int option, int64_t value)
{
    for (int i = 0; i < c->count; i++)
        if (c->option[i] == option && c->fixed[i] != 0 &&
            c->fixed[i] != ((value >> c->shift[i]) & 1 ? -1 : 1))
            return false;
    return true;
}

/* True if every option has a value that is left. */
static bool is_possible(const cube *c)
{
    for (int k = 0; k < (int)c->space->count; k++) {
        int64_t value = 0;

        while (value < c->space->options[k].values.count && !is_left(c, k, value))
            value++;
        if (value == c->space->options[k].values.count)
            return false;
    }
    return true;
}

/* True if a setting is in the space that is left. */
static bool is_inside(const cube *c, const double *at)
{
    for (int i = 0; i < c->count; i++)
        if (c->fixed[i] != 0 && c->fixed[i] != bit_of(c, at, i))
            return false;
    return true;
}

/* Draw a setting of the space that is left. */
static void draw(const cube *c, fast_rng *rng, double *at)
{
    for (int k = 0; k < (int)c->space->count; k++) {
        const int64_t values = c->space->options[k].values.count;
        int64_t left = 0, value = 0;

        for (int64_t v = 0; v < values; v++)
            left += is_left(c, k, v);
        left = (int64_t)fast__rng_below(rng, (uint64_t)left);
        while (!is_left(c, k, value) || left-- > 0)
            value++;
        at[k] = (double)value;
    }
}

/* Append a set; false if there is no room. */
static bool add_set(int a, int b, int c, bit_set *sets, int *count)
{
    if (*count == SETS_MAX)
        return false;
    sets[(*count)++] = (bit_set){ .bits = { a, b, c } };
    return true;
}

/* List the sets of at most `degree` free bits; false if they are more than SETS_MAX. */
static bool list_sets(const cube *c, int degree, bit_set *sets, int *count)
{
    bool fits = true;

    for (int i = 0; fits && i < c->count; i++) {
        if (c->fixed[i] != 0)
            continue;
        fits = add_set(i, -1, -1, sets, count);
        for (int j = i + 1; fits && degree > 1 && j < c->count; j++) {
            if (c->fixed[j] != 0)
                continue;
            fits = add_set(i, j, -1, sets, count);
            for (int k = j + 1; fits && degree > 2 && k < c->count; k++)
                if (c->fixed[k] == 0)
                    fits = add_set(i, j, k, sets, count);
        }
    }
    return fits;
}

/* Measured settings in the space that is left. */
typedef struct samples {
    int64_t count;                            /* number of them */
    const double *at[FAST_SEARCH_TRIALS_MAX]; /* settings */
    double y[FAST_SEARCH_TRIALS_MAX];         /* values less their mean; then residuals */
} samples;

/* Take the trials of rounds before `stage`. */
static void take_samples(const fast_search *search, const cube *c, int64_t stage, samples *out)
{
    double worst = -INFINITY, mean = 0;

    out->count = 0;
    for (int64_t i = 0; i < search->count; i++)
        if (isfinite(search->trials[i].value))
            worst = fmax(worst, search->trials[i].value);
    for (int64_t i = 0; i < search->count; i++) {
        const fast_trial *t = &search->trials[i];

        if (t->round >= stage || !is_inside(c, t->at))
            continue;
        out->at[out->count] = t->at;
        out->y[out->count++] = isfinite(t->value) ? t->value : isfinite(worst) ? worst : 0;
    }
    for (int64_t i = 0; i < out->count; i++)
        mean += out->y[i] / (double)out->count;
    for (int64_t i = 0; i < out->count; i++)
        out->y[i] -= mean;
}

/* The product of a set's bits for each sample. */
static void fill_column(const cube *c, const samples *s, const bit_set *set, int8_t *column)
{
    for (int64_t i = 0; i < s->count; i++) {
        int sign = 1;

        for (int k = 0; k < SET_BITS && set->bits[k] >= 0; k++)
            sign *= bit_of(c, s->at[i], set->bits[k]);
        column[i] = (int8_t)sign;
    }
}

static double product(const samples *s, const int8_t *column)
{
    double sum = 0;

    for (int64_t i = 0; i < s->count; i++)
        sum += s->y[i] * column[i];
    return sum / (double)s->count;
}

/* The Lasso by coordinate descent: columns have mean square 1, so that each coefficient in turn is
 * its soft threshold; s->y is the residual throughout. */
static void fit(samples *s, bit_set *sets, int count, const int8_t *columns)
{
    double penalty = 0, change = INFINITY;

    for (int k = 0; k < count; k++)
        penalty = fmax(penalty, PENALTY * fabs(product(s, columns + k * s->count)));
    const double enough = 1e-6 * penalty;
    for (int sweep = 0; sweep < SWEEPS && change > enough; sweep++) {
        change = 0;
        for (int k = 0; k < count; k++) {
            const int8_t *column = columns + k * s->count;
            const double whole = product(s, column) + sets[k].value;
            const double value = copysign(fmax(0, fabs(whole) - penalty), whole);
            const double step = value - sets[k].value;

            for (int64_t i = 0; step != 0 && i < s->count; i++)
                s->y[i] -= step * column[i];
            sets[k].value = value;
            change = fmax(change, fabs(step));
        }
    }
}

/* Move the `terms` largest coefficients to the front, whose bits fit into FIXED_MAX; return their
 * number. Equal ones stay in their order. */
static int take_largest(bit_set *sets, int count, int terms)
{
    int taken = 0;

    for (; taken < terms && taken < count && (taken + 1) * SET_BITS <= FIXED_MAX; taken++) {
        int best = taken;

        for (int k = taken + 1; k < count; k++)
            if (fabs(sets[k].value) > fabs(sets[best].value))
                best = k;
        const bit_set swap = sets[best];
        memmove(sets + taken + 1, sets + taken, (size_t)(best - taken) * sizeof *sets);
        sets[taken] = swap;
        if (swap.value == 0)
            break;
    }
    return taken;
}

/* Fix the bits of the terms where their sum is least. */
static void restrict_to_least(cube *c, const bit_set *terms, int count)
{
    int used[FIXED_MAX], bits = 0;
    uint32_t best = 0;
    double least = INFINITY;

    for (int k = 0; k < count; k++)
        for (int j = 0; j < SET_BITS && terms[k].bits[j] >= 0; j++) {
            bool known = false;

            for (int i = 0; i < bits; i++)
                known = known || used[i] == terms[k].bits[j];
            if (!known)
                used[bits++] = terms[k].bits[j];
        }
    for (uint32_t choice = 0; choice < UINT32_C(1) << bits; choice++) {
        double sum = 0;

        for (int i = 0; i < bits; i++)
            c->fixed[used[i]] = choice >> i & 1 ? -1 : 1;
        for (int k = 0; k < count; k++) {
            double term = terms[k].value;

            for (int j = 0; j < SET_BITS && terms[k].bits[j] >= 0; j++)
                term *= c->fixed[terms[k].bits[j]];
            sum += term;
        }
        if (sum < least && is_possible(c)) {
            least = sum;
            best = choice;
        }
    }
    for (int i = 0; i < bits; i++)
        c->fixed[used[i]] = best >> i & 1 ? -1 : 1;
}

/* One stage: fit what was measured before it, and fix bits. Stage 0 only looks whether the sets are
 * too many. */
static fast_err narrow(const fast_search *search, int64_t stage, cube *c)
{
    samples s;
    bit_set *sets;
    int8_t *columns = NULL;
    int count = 0;

    FAST_TRY(fast__alloc("sets of bits", SETS_MAX, sizeof *sets, &sets));
    const bool fits = list_sets(c, (int)search->config.degree, sets, &count);
    take_samples(search, c, stage, &s);
    fast_err err = fits ? fast__alloc("signs", (int64_t)count * s.count + 1, 1, &columns)
                        : fast__fail(FAST_EINVAL,
                                     "searcher spectral: more than %d products of %d "
                                     "bits; lower degree",
                                     SETS_MAX, c->count);
    if (!err && count > 0 && s.count > 1) {
        for (int k = 0; k < count; k++)
            fill_column(c, &s, &sets[k], columns + k * s.count);
        fit(&s, sets, count, columns);
        restrict_to_least(c, sets, take_largest(sets, count, (int)search->config.terms));
    }
    fast__free(columns);
    fast__free(sets);
    return err;
}

/* True if a setting is that of a trial. */
static bool is_tried(const fast_search *search, const double *at)
{
    for (int64_t i = 0; i < search->count; i++)
        if (memcmp(search->trials[i].at, at, (size_t)search->space->count * sizeof *at) == 0)
            return true;
    return false;
}

/* The restrictions of earlier stages follow from the trials again. */
fast_err fast__spectral_plan(fast_search *search)
{
    const int64_t rounds = search->config.stages + 1, all = fast__search_trial_count(search);
    const int64_t until = all * (search->round + 1) / rounds;
    cube c;

    if (search->round >= rounds)
        return FAST_OK;
    FAST_TRY(open_cube(search, &c));
    for (int64_t stage = 0; stage <= search->round; stage++)
        FAST_TRY(narrow(search, stage, &c));
    for (uint64_t i = 0; i < TRIES && search->count < until; i++) {
        double at[FAST_SEARCH_OPTIONS_MAX] = { 0 };
        fast_rng rng;

        fast__rng_init(&rng, search->seed, FAST_PURPOSE_SEARCH, (uint64_t)search->round, 4, i);
        draw(&c, &rng, at);
        if (!is_tried(search, at))
            FAST_TRY(fast__search_add(search, at, -1, 1));
    }
    return FAST_OK;
}
