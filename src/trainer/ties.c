/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Weights that share their values: training of a compressed model (Han, Mao and Dally 2016). With
 * w_i = c_k(i), where k(i) is the cluster of element i of a tensor, the gradient of a shared value
 * is the sum of those of its elements,
 *
 *     dL/dc_k = sum of dL/dw_i over the i with k(i) = k,
 *
 * and an update rule that works element by element, given that sum at each of them, moves them
 * alike: they remain equal. Elements that are 0 were pruned: their gradient is 0, and they stay 0.
 *
 * Clusters are read off the weights themselves: elements of a segment that are equal. Cost: two
 * passes over the gradient; a number for each element and a sum for each cluster.
 */
#include "trainer/ties.h"

#include "base/err.h"
#include "base/memory.h"
#include "tensor/device.h"

#include <stdlib.h>
#include <string.h>

static const uint32_t FIXED = UINT32_MAX; /* cluster of elements that are 0 */

struct fast_ties {
    int64_t count;     /* elements of a vector */
    uint32_t *cluster; /* [count]: of each element; FIXED: it remains 0 */
    double *sums;      /* [clusters]: of the last gradient */
    int64_t clusters;  /* of all segments */
};

/* Order floats, for qsort(). */
static int compare(const void *a, const void *b)
{
    float x, y;

    FAST_ASSERT(a && b);
    memcpy(&x, a, sizeof x);
    memcpy(&y, b, sizeof y);
    return (x > y) - (x < y);
}

/* Return where x, which is there, lies among n ascending values. */
static int64_t find(int64_t n, const float *values, float x)
{
    int64_t low = 0, high = n - 1;

    FAST_ASSERT(n > 0);
    while (low < high) {
        const int64_t middle = (low + high) / 2;

        if (values[middle] < x)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* Number the clusters of one segment's elements w[n], behind those before; `values` is scratch. */
static void tie_segment(fast_ties *t, int64_t n, const float *w, uint32_t *cluster, float *values)
{
    int64_t different = 0;

    FAST_ASSERT(n >= 0);
    memcpy(values, w, (size_t)n * sizeof *values);
    qsort(values, (size_t)n, sizeof *values, compare);
    for (int64_t i = 0; i < n; i++)
        if (different == 0 || values[i] != values[different - 1])
            values[different++] = values[i];
    for (int64_t i = 0; i < n; i++)
        cluster[i] = w[i] == 0 ? FIXED : (uint32_t)(t->clusters + find(different, values, w[i]));
    t->clusters += different;
}

fast_err fast__ties_new(const fast_layout *layout, const float *w, fast_ties **out)
{
    float *values = NULL;
    fast_ties *t = NULL;

    FAST_ASSERT(w != NULL && layout->count < FIXED);
    FAST_TRY(fast__alloc("ties", 1, sizeof *t, &t));
    t->count = layout->count;
    fast_err err = fast__alloc("clusters of weights", t->count, sizeof *t->cluster, &t->cluster);
    if (!err)
        err = fast__alloc("values of weights", t->count, sizeof *values, &values);
    if (!err) {
        const float *host = fast__map(w, t->count, FAST_ACCESS_READ);

        memset(t->cluster, 0xff, (size_t)t->count * sizeof *t->cluster);
        for (int64_t i = 0; i < layout->segment_count; i++) {
            const fast_segment *s = &layout->segments[i];

            tie_segment(t, s->count, host + s->offset, t->cluster + s->offset, values);
        }
        fast__unmap(w, t->count, FAST_ACCESS_READ);
        err = fast__alloc("sums of clusters", t->clusters, sizeof *t->sums, &t->sums);
    }
    fast__free(values);
    if (err)
        fast__ties_free(t);
    else
        *out = t;
    return err;
}

void fast__ties_free(fast_ties *t)
{
    if (!t)
        return;
    FAST_ASSERT(t->count >= 0);
    fast__free(t->cluster);
    fast__free(t->sums);
    fast__free(t);
}

void fast__ties_apply(fast_ties *t, float *g)
{
    float *host = fast__map(g, t->count, FAST_ACCESS_UPDATE);

    FAST_ASSERT(g != NULL);
    memset(t->sums, 0, (size_t)t->clusters * sizeof *t->sums);
    for (int64_t i = 0; i < t->count; i++)
        if (t->cluster[i] != FIXED)
            t->sums[t->cluster[i]] += (double)host[i];
    for (int64_t i = 0; i < t->count; i++)
        host[i] = t->cluster[i] == FIXED ? 0 : (float)t->sums[t->cluster[i]];
    fast__unmap(g, t->count, FAST_ACCESS_UPDATE);
}
