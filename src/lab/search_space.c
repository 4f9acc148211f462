/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The space of a search: options with lists of values or with ranges, and settings in it.
 *
 *   list    lr=0.1,0.2,0.4     coordinate 0, 1, 2
 *   range   lr=0.001..1:log    coordinate u in [0, 1]: low * (high / low)^u
 *           mu=0..0.99:linear  low + u * (high - low)
 *
 * Numbers of a range are written with four digits, which is finer than any tuned option needs and
 * short enough for commands and tables; whole numbers are rounded.
 */
#include "lab/search.h"

#include <math.h>
#include <string.h>

int64_t fast__search_space_count(const fast_search_space *space)
{
    int64_t count = 1;

    for (int64_t i = 0; i < space->count; i++) {
        const int64_t values = space->options[i].values.count;

        if (values == 0)
            return 0;
        count =
            count > FAST_SEARCH_SETTINGS_MAX / values ? FAST_SEARCH_SETTINGS_MAX : count * values;
    }
    return count;
}

void fast__search_space_at(const fast_search_space *space, int64_t i, double *at)
{
    for (int64_t k = space->count - 1; k >= 0; k--) {
        const int64_t count = space->options[k].values.count;

        FAST_ASSERT(count > 0);
        at[k] = (double)(i % count);
        i /= count;
    }
}

void fast__search_space_draw(const fast_search_space *space, fast_rng *rng, double *at)
{
    for (int64_t k = 0; k < space->count; k++) {
        const int64_t count = space->options[k].values.count;

        at[k] = count > 0 ? (double)fast__rng_below(rng, (uint64_t)count)
                          : (double)fast__rng_uniform(rng);
    }
}

fast_err fast__search_space_words(const fast_search_space *space, const double *at, fast_words *out)
{
    for (int64_t k = 0; k < space->count; k++) {
        const fast_search_option *o = &space->options[k];

        if (o->values.count > 0) {
            FAST_ASSERT(at[k] >= 0 && at[k] < (double)o->values.count);
            FAST_TRY(fast__words_add(out, o->values.items[(int64_t)at[k]]));
            continue;
        }
        const double value =
            o->log ? o->low * pow(o->high / o->low, at[k]) : o->low + at[k] * (o->high - o->low);
        if (o->whole)
            FAST_TRY(fast__words_format(out, "%s=%.0f", o->name, round(value)));
        else
            FAST_TRY(fast__words_format(out, "%s=%.4g", o->name, value));
    }
    return FAST_OK;
}

double fast__search_space_distance(const fast_search_space *space, const double *a, const double *b)
{
    double sum = 0;

    for (int64_t k = 0; k < space->count; k++) {
        const fast_search_option *o = &space->options[k];
        double d = a[k] - b[k];

        if (o->values.count > 0)
            d = o->numbers ? d / fmax(1, (double)(o->values.count - 1)) : d != 0;
        sum += d * d;
    }
    return sum;
}

void fast__search_space_fini(fast_search_space *space)
{
    for (int64_t i = 0; i < space->count; i++)
        fast__words_fini(&space->options[i].values);
    *space = (fast_search_space){ 0 };
}
