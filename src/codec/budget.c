/* SPDX-License-Identifier: Apache-2.0 */
/*
 * budget: the largest relative changes, as many as fit in a budget of bytes; the others add up
 * (Bösen: Wei et al. 2015, which sends updates by their relative magnitude within a budget of
 * bandwidth). With x + e the elements that wait and those of this vector, they are ranked by
 *
 *     r_i = rate |x_i + e_i| / |w_i|
 *
 * ties by index. An entry counts as 8 bytes, an index and a float, whatever encodes it. A block has
 * the fraction of the budget that it is of the vector. The last vector of a run sends everything.
 *
 * The budget is a number of bytes, or the bytes that a bandwidth transfers in the time since the
 * flow's last vector, a leaky bucket. Where the strategy has a bound of staleness, elements that
 * have waited are sent when they are due, before all others and beyond the budget.
 *
 * The threshold is found exactly by three passes over the bits of r, which are ordered as r is: 11,
 * 11 and 10 bits at a time. Cost: a pass over x, four more over x and w where the budget cuts; 8
 * KiB.
 */
#include "codec/codec.h"

#include <math.h>
#include <string.h>

enum { ENTRY = sizeof(uint32_t) + sizeof(float) };

typedef struct budget_config {
    int64_t bytes;    /* of a message */
    double bandwidth; /* bits per second; 0: by bytes */
} budget_config;

static const fast_option options[] = {
    FAST_OPT_INT(budget_config, bytes, "200000", ENTRY, 1e15,
                 "bytes of a whole vector, 8 for each element that is sent"),
    FAST_OPT_REAL(
        budget_config, bandwidth, "0", 0, 1e15,
        "with parameter servers: bits per second that vectors may take, instead of bytes; "
        "0: by bytes"),
    FAST_OPT_END,
};

/* True if the element has waited and must be sent; e->x is the vector without those that wait. */
static bool is_due(const fast_encoding *e, int64_t i, float x)
{
    return e->model->due && x != e->x[i];
}

/* Return r as an integer of the same order; not a number and elements that are due are the largest,
 * so that they are sent. */
static uint32_t rank_of(const fast_encoding *e, int64_t i, float x)
{
    const float r = e->model->rate * fabsf(x) / ((e->w ? fabsf(e->w[i]) : 0) + 1e-30f);
    uint32_t bits;

    memcpy(&bits, &r, sizeof bits);
    return r == r && !is_due(e, i, x) ? bits : UINT32_MAX;
}

/* Return the rank that `most` elements of x reach; *ties_out: how many elements of exactly that
 * rank are sent. */
static uint32_t cut_of(const fast_encoding *e, const float *x, int64_t most, int64_t *ties_out)
{
    static const int shifts[3] = { 21, 10, 0 };
    uint32_t prefix = 0, mask = 0;
    int64_t left = most;

    FAST_ASSERT(most > 0);
    for (int pass = 0; pass < 3; pass++) {
        const uint32_t low = ((uint32_t)1 << (pass < 2 ? 11 : 10)) - 1;
        uint32_t bin = low;
        int32_t bins[2048] = { 0 };

        for (int64_t i = 0; i < e->block.count; i++) {
            const uint32_t rank = rank_of(e, i, x[i]);

            if (x[i] != 0 && (rank & mask) == prefix)
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

/* At least one element is sent. */
static void select_elements(const void *config, const fast_encoding *e, float *send, float *wait)
{
    const budget_config *c = config;
    const bool timed = c->bandwidth > 0 && e->model->elapsed_s >= 0;
    const double bytes = timed ? c->bandwidth / 8 * e->model->elapsed_s : (double)c->bytes;
    const double room = fmin(floor(bytes / ENTRY) * e->fraction, (double)e->block.count);
    int64_t most = room >= 1 ? (int64_t)room : 1, used = 0, due = 0, ties;

    for (int64_t i = 0; i < e->block.count; i++) {
        used += send[i] != 0;
        due += send[i] != 0 && is_due(e, i, send[i]);
    }
    most = due > most ? due : most;
    if (e->model->last || used <= most)
        return;
    const uint32_t cut = cut_of(e, send, most, &ties);
    for (int64_t i = 0; i < e->block.count; i++) {
        const uint32_t rank = rank_of(e, i, send[i]);

        if (send[i] == 0 || rank > cut || (rank == cut && ties-- > 0))
            continue;
        wait[i] += send[i];
        send[i] = 0;
    }
}

const fast_codec fast__codec_budget = {
    .name = "budget",
    .summary = "selects the largest relative changes within a budget of bytes",
    .options = options,
    .config_size = sizeof(budget_config),
    .traits = FAST_CODEC_MODEL | FAST_CODEC_DEFERS,
    .select = select_elements,
};
