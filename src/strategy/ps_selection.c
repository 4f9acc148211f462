/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Selects the gradients x of a write among those that wait. Each would move its weight by lr |x|;
 * its size is relative to the weight: r = lr |x| / |w|. The filters, one after the other:
 *
 *     KKT            where w = 0 and |x| <= l1 the server's proximal step would leave w at 0: such
 *                    an x is dropped for good (Li et al. 2014, for sparse models)
 *     significance   select r >= bound (Li et al. 2014, "significantly modified"; Gaia: Hsieh et
 *                    al. 2017, where the bound falls with the root of the step)
 *     skip           each selected x waits with probability `skip` (Li et al.: "random skip"); it
 *                    is not scaled up later, because nothing of it is lost
 *     budget         select the `most` largest, ties by index (Bösen: Wei et al. 2015, which sends
 *                    updates by their relative magnitude within a budget of bandwidth)
 *
 * Gradients that are not selected wait and add up. The budget's threshold is found exactly by three
 * passes over the bits of r, which are ordered as r is: 11, 11 and 10 bits at a time. Cost: one
 * pass for the bound, one with a random number each for skips, four more where the budget cuts; 8
 * KiB.
 */
#include "strategy/ps.h"

#include <math.h>
#include <string.h>

/* Return r as an integer of the same order; not a number is the largest, so that it is sent. */
static uint32_t rank_of(float w, float lr, float x)
{
    FAST_ASSERT(lr >= 0);
    const float r = lr * fabsf(x) / (fabsf(w) + 1e-30f);
    uint32_t bits;

    memcpy(&bits, &r, sizeof bits);
    return r == r ? bits : UINT32_MAX;
}

/* Return the rank that `most` elements of `part` reach; *ties_out: how many elements of exactly
 * that rank are sent. */
static uint32_t cut_of(int64_t count, const float *w, float lr, const float *part, int64_t most,
                       int64_t *ties_out)
{
    static const int shifts[3] = { 21, 10, 0 };
    uint32_t prefix = 0, mask = 0;
    int64_t left = most;

    FAST_ASSERT(most > 0);
    for (int pass = 0; pass < 3; pass++) {
        const int bits = pass < 2 ? 11 : 10;
        const uint32_t low = ((uint32_t)1 << bits) - 1;
        uint32_t bin = low;
        int32_t bins[2048] = { 0 };

        for (int64_t i = 0; i < count; i++) {
            const uint32_t rank = rank_of(w[i], lr, part[i]);

            if (part[i] != 0 && (rank & mask) == prefix)
                bins[rank >> shifts[pass] & low]++;
        }
        while (bin > 0 && bins[bin] < left)
            left -= bins[bin--];
        prefix |= bin << shifts[pass];
        mask |= low << shifts[pass];
    }
    FAST_ASSERT(left > 0);
    *ties_out = left;
    return prefix;
}

/* Drop gradients that the server's proximal step would undo. */
static void drop(int64_t count, const float *w, float l1, float *sum)
{
    FAST_ASSERT(l1 > 0);
    for (int64_t i = 0; i < count; i++)
        if (w[i] == 0 && fabsf(sum[i]) <= l1)
            sum[i] = 0;
}

/* Hold back selected gradients at random; return the number of those that are still selected. */
static int64_t skip_some(int64_t count, float skip, fast_rng *rng, float *sum, float *part)
{
    int64_t used = 0;

    FAST_ASSERT(skip < 1 && rng);
    for (int64_t i = 0; i < count; i++) {
        if (part[i] == 0)
            continue;
        if (part[i] == part[i] && fast__rng_uniform(rng) < skip) {
            sum[i] = part[i];
            part[i] = 0;
        }
        used += part[i] != 0;
    }
    return used;
}

void fast__ps_select(int64_t count, const float *w, const ps_selection *how, float *sum,
                     float *part)
{
    const float lr = how->lr, bound = how->bound;
    const int64_t most = how->most;
    int64_t used = 0, ties = 0;
    uint32_t cut;

    FAST_ASSERT(most >= 0);
    FAST_ASSERT(sum != part);
    if (how->l1 > 0)
        drop(count, w, how->l1, sum);
    for (int64_t i = 0; i < count; i++) {
        const bool sent = !(lr * fabsf(sum[i]) < bound * fabsf(w[i]));

        part[i] = sent ? sum[i] : 0;
        sum[i] = sent ? 0 : sum[i];
        used += part[i] != 0;
    }
    if (how->skip > 0)
        used = skip_some(count, how->skip, how->rng, sum, part);
    if (used <= most)
        return;
    cut = most > 0 ? cut_of(count, w, lr, part, most, &ties) : UINT32_MAX;
    for (int64_t i = 0; i < count; i++) {
        const uint32_t rank = rank_of(w[i], lr, part[i]);

        if (part[i] == 0 || rank > cut || (rank == cut && ties-- > 0))
            continue;
        sum[i] += part[i];
        part[i] = 0;
    }
}
