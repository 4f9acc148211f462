/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Figures of logits, and the loss of the figures of all shards. With label smoothing e over V
 * classes the loss is s - (1 - e) z_l - e / V sum z.
 */
#include "engine/class_range.h"

#include <math.h>

enum { LOG_SUM, LABEL, LARGEST, SUM };

void fast__class_figures(int64_t rows, int64_t K, int64_t first, const float *z,
                         const int32_t *labels, float *own, float *figures)
{
    FAST_ASSERT(K > 0);
    for (int64_t r = 0; r < rows; r++, z += K, figures += FAST_FIGURES) {
        const int64_t at = labels ? labels[r] - first : -1;
        double exps = 0, sum = 0;
        float max = z[0];

        for (int64_t k = 1; k < K; k++)
            max = z[k] > max ? z[k] : max;
        for (int64_t k = 0; k < K; k++) {
            exps += (double)expf(z[k] - max);
            sum += (double)z[k];
        }
        own[r] = at >= 0 && at < K ? (float)at : -1.0F;
        figures[LOG_SUM] = (float)(log(exps) + (double)max);
        figures[LABEL] = at >= 0 && at < K ? z[at] : 0.0F;
        figures[LARGEST] = max;
        figures[SUM] = (float)sum;
    }
}

void fast__class_figures_back(int64_t rows, int64_t K, const float *z, const float *own,
                              const float *figures, const float *grad, float *dz)
{
    for (int64_t r = 0; r < rows; r++, z += K, dz += K) {
        const float *f = figures + r * FAST_FIGURES, *g = grad + r * FAST_FIGURES;

        for (int64_t k = 0; k < K; k++)
            dz[k] += g[LOG_SUM] * expf(z[k] - f[LOG_SUM]) + g[SUM];
        if (own[r] >= 0.0F)
            dz[(int64_t)own[r]] += g[LABEL];
    }
}

double fast__figures_loss(const fast_graph *graph, int64_t rows, const float *y, int64_t *correct,
                          float *dy)
{
    const int64_t T = graph->outputs / FAST_FIGURES;
    const double smoothing = (double)graph->label_smoothing;
    const double even = smoothing / (double)graph->nodes[graph->node_count - 1].columns[1];
    double total = 0;

    *correct = 0;
    for (int64_t r = 0; r < rows; r++) {
        const float *f = y + r * T * FAST_FIGURES;
        double max = -INFINITY, largest = -INFINITY, exps = 0, label = 0, sum = 0;

        for (int64_t t = 0; t < T; t++) {
            max = fmax(max, (double)f[t * FAST_FIGURES + LOG_SUM]);
            largest = fmax(largest, (double)f[t * FAST_FIGURES + LARGEST]);
            label += (double)f[t * FAST_FIGURES + LABEL];
            sum += (double)f[t * FAST_FIGURES + SUM];
        }
        for (int64_t t = 0; t < T; t++)
            exps += exp((double)f[t * FAST_FIGURES + LOG_SUM] - max);
        const double log_sum = log(exps) + max;

        total += log_sum - (1 - smoothing) * label - even * sum;
        *correct += label >= largest;
        for (int64_t t = 0; dy && t < T; t++) {
            const double own = exp((double)f[t * FAST_FIGURES + LOG_SUM] - log_sum);
            float *g = dy + (r * T + t) * FAST_FIGURES;

            g[LOG_SUM] = (float)(own / (double)rows);
            g[LABEL] = (float)((smoothing - 1) / (double)rows);
            g[LARGEST] = 0;
            g[SUM] = (float)(-even / (double)rows);
        }
    }
    return total / (double)rows;
}
