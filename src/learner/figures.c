/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Figures of a model on a set, as scikit-learn 1.2 defines them.
 *
 * Classes. The predicted class is the first largest output. With C the confusion matrix,
 *
 *     precision_k = C_kk / sum_i C_ik      recall_k = C_kk / sum_j C_kj
 *     F1_k        = 2 C_kk / (actual_k + predicted_k)
 *
 * 0 where a divisor is 0. Macro averages are means over the classes that occur or were predicted:
 * precision_recall_fscore_support(average="macro", zero_division=0).
 *
 * AUC_k, class k against all others, is the probability that a row of the class has a larger score
 * than one outside, ties counted half (Mann-Whitney): with R_k the sum of the ranks of the class's
 * n_k rows among all n, ties sharing the mean of their ranks,
 *
 *     AUC_k = (R_k - n_k (n_k + 1) / 2) / (n_k (n - n_k))
 *
 * The score is the log-odds z_k - log sum_{j != k} exp z_j, which has the order of the probability
 * but does not saturate at 1. AUC is the mean of the defined AUC_k, as of
 * roc_auc_score(multi_class="ovr").
 *
 * Regression, per output o: R2_o = 1 - sum (t - y)^2 / sum (t - mean t)^2; where the divisor is 0,
 * R2_o is 1 without errors and 0 with them. R2 is the mean over outputs: r2_score(). It needs two
 * rows. The mean and the squares of targets are updated as Welford does, so that nothing cancels.
 *
 * Cost: an addition of a row copies and compares its outputs; AUC computes two exponentials and a
 * logarithm for each row and class, and sorts the rows once for each class.
 */
#include "learner/figures.h"

#include "base/memory.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Sums of one output of a regression. */
typedef struct value_sums {
    double mean;     /* of the targets */
    double squares;  /* sum of squared distances of the targets from their mean */
    double errors;   /* sum of squared errors */
    double absolute; /* sum of absolute errors */
} value_sums;

/* Sums of a row's outputs. */
typedef struct row_odds {
    int64_t top; /* the class of the largest output */
    double max;  /* that output */
    double sum;  /* of exp(z - max) over all outputs */
    double rest; /* log of the sum of exp z over the other outputs */
} row_odds;

/* A score with its answer, for the sort. */
typedef struct ranked {
    double score;  /* log-odds of the class */
    bool positive; /* the row is of the class */
} ranked;

struct fast_figure_sums {
    fast_figures_options options; /* of the set */
    int64_t rows;                 /* added */
    int64_t invalid;              /* rows with an output that is not finite */
    fast_class_figures *by_class; /* [classes]: counts while rows are added */
    int64_t *confusion;           /* [classes][classes]; NULL: too many classes */
    value_sums *values;           /* [outputs]; NULL: classes */
    float *outputs;               /* [options.rows][classes]: as they came; NULL: no AUC */
    int32_t *labels;              /* [options.rows]; NULL: no AUC */
    row_odds *odds;               /* [options.rows], when AUC is computed; NULL: no AUC */
    ranked *order;                /* [options.rows], for the sort; NULL: no AUC */
};

/* Take the memory of the ranks, where the set is small enough. */
static fast_err new_scores(fast_figure_sums *sums)
{
    const fast_figures_options *o = &sums->options;
    int64_t count = 0;

    if (o->classes < 2 || o->classes > FAST_FIGURES_AUC_MAX || o->rows < 1 ||
        !fast__mul_size(o->classes, o->rows, &count) || count > FAST_FIGURES_SCORES_MAX)
        return FAST_OK;
    FAST_TRY(fast__alloc("outputs to rank", count, sizeof *sums->outputs, &sums->outputs));
    FAST_TRY(fast__alloc("labels to rank", o->rows, sizeof *sums->labels, &sums->labels));
    FAST_TRY(fast__alloc("sums of rows", o->rows, sizeof *sums->odds, &sums->odds));
    return fast__alloc("ranks", o->rows, sizeof *sums->order, &sums->order);
}

/* Take all memory; fast__figures_free() frees what is there on failure. */
static fast_err new_parts(fast_figure_sums *sums)
{
    const int64_t K = sums->options.classes;

    if (K == 0)
        return fast__alloc("figures of outputs", sums->options.outputs, sizeof *sums->values,
                           &sums->values);
    FAST_TRY(fast__alloc("figures of classes", K, sizeof *sums->by_class, &sums->by_class));
    if (K <= FAST_FIGURES_CONFUSION_MAX)
        FAST_TRY(
            fast__alloc("a confusion matrix", K * K, sizeof *sums->confusion, &sums->confusion));
    return new_scores(sums);
}

fast_err fast__figures_new(const fast_figures_options *options, fast_figure_sums **out)
{
    fast_figure_sums *sums = NULL;
    fast_err err;

    FAST_ASSERT(options->outputs > 0);
    FAST_ASSERT(options->classes == 0 || options->classes == options->outputs);
    FAST_TRY(fast__alloc("figures", 1, sizeof *sums, &sums));
    sums->options = *options;
    err = new_parts(sums);
    if (err)
        fast__figures_free(sums);
    else
        *out = sums;
    return err;
}

void fast__figures_free(fast_figure_sums *sums)
{
    if (!sums)
        return;
    fast__free(sums->by_class);
    fast__free(sums->confusion);
    fast__free(sums->values);
    fast__free(sums->outputs);
    fast__free(sums->labels);
    fast__free(sums->odds);
    fast__free(sums->order);
    fast__free(sums);
}

void fast__figures_clear(fast_figure_sums *sums)
{
    const int64_t K = sums->options.classes;

    sums->rows = sums->invalid = 0;
    if (sums->by_class)
        memset(sums->by_class, 0, (size_t)K * sizeof *sums->by_class);
    if (sums->confusion)
        memset(sums->confusion, 0, (size_t)(K * K) * sizeof *sums->confusion);
    if (sums->values)
        memset(sums->values, 0, (size_t)sums->options.outputs * sizeof *sums->values);
}

/* Index of the first largest of n values, as the losses count it. */
static int64_t largest(int64_t n, const float *y)
{
    int64_t best = 0;

    for (int64_t i = 1; i < n; i++)
        best = y[i] > y[best] ? i : best;
    return best;
}

/* log sum_{j != skip} exp z_j. */
static double log_sum_without(int64_t K, const float *z, int64_t skip)
{
    double max = -INFINITY, sum = 0;

    for (int64_t j = 0; j < K; j++)
        max = j == skip ? max : fmax(max, (double)z[j]);
    for (int64_t j = 0; j < K; j++)
        sum += j == skip ? 0 : exp((double)z[j] - max);
    return max + log(sum);
}

/* Sums of a row, from which the log-odds of each class follow. */
static row_odds odds_of(int64_t K, const float *z)
{
    row_odds odds = { .top = largest(K, z) };

    odds.max = (double)z[odds.top];
    for (int64_t k = 0; k < K; k++)
        odds.sum += exp((double)z[k] - odds.max);
    odds.rest = log_sum_without(K, z, odds.top);
    return odds;
}

/* The log-odds of class k in a row. Only for the largest output the others must be summed by
 * themselves: elsewhere its 1 stays in the difference. */
static double score_of(int64_t K, const float *z, const row_odds *odds, int64_t k)
{
    if (K == 2)
        return (double)z[k] - (double)z[1 - k];
    return (double)z[k] - (k == odds->top
                               ? odds->rest
                               : odds->max + log(odds->sum - exp((double)z[k] - odds->max)));
}

/* Count a row of a classification. */
static void add_class(fast_figure_sums *sums, const float *z, int64_t label)
{
    const int64_t K = sums->options.classes;
    const int64_t top = largest(K, z);

    FAST_ASSERT(label >= 0 && label < K);
    sums->by_class[label].actual++;
    sums->by_class[top].predicted++;
    sums->by_class[label].correct += top == label;
    if (sums->confusion)
        sums->confusion[label * K + top]++;
    if (sums->outputs && sums->rows < sums->options.rows) {
        sums->labels[sums->rows] = (int32_t)label;
        memcpy(sums->outputs + sums->rows * K, z, (size_t)K * sizeof *z);
    }
}

/* Count a row of a regression, number sums->rows. */
static void add_values(fast_figure_sums *sums, const float *y, const float *t)
{
    for (int64_t o = 0; o < sums->options.outputs; o++) {
        value_sums *v = &sums->values[o];
        const double error = (double)y[o] - (double)t[o];
        const double distance = (double)t[o] - v->mean;

        v->errors += error * error;
        v->absolute += fabs(error);
        v->mean += distance / (double)(sums->rows + 1);
        v->squares += distance * ((double)t[o] - v->mean);
    }
}

void fast__figures_add(fast_figure_sums *sums, int64_t rows, const float *outputs,
                       const int32_t *labels, const float *targets)
{
    const int64_t K = sums->options.outputs;
    const bool classes = sums->options.classes > 0;

    FAST_ASSERT((labels != NULL) != (targets != NULL));
    FAST_ASSERT(classes || targets != NULL);
    for (int64_t r = 0; r < rows; r++) {
        const float *y = outputs + r * K;
        bool finite = true;

        for (int64_t k = 0; k < K; k++)
            finite = finite && isfinite(y[k]);
        sums->invalid += !finite;
        if (classes)
            add_class(sums, y, labels ? labels[r] : largest(K, targets + r * K));
        else
            add_values(sums, y, targets + r * K);
        sums->rows++;
    }
}

/* Ascending scores. */
static int compare_scores(const void *a, const void *b)
{
    const double x = ((const ranked *)a)->score, y = ((const ranked *)b)->score;

    return (x > y) - (x < y);
}

/* The AUC of a class; NAN if all rows or none are of the class. */
static double auc_of(fast_figure_sums *sums, int64_t class)
{
    const int64_t n = sums->rows, K = sums->options.classes;
    int64_t positives = 0;
    double ranks = 0; /* sum of twice the mean rank: whole numbers, exact to 2^53 */

    for (int64_t i = 0; i < n; i++) {
        const bool positive = sums->labels[i] == class;

        sums->order[i] =
            (ranked){ score_of(K, sums->outputs + i * K, &sums->odds[i], class), positive };
        positives += positive;
    }
    if (positives == 0 || positives == n)
        return NAN;
    qsort(sums->order, (size_t)n, sizeof *sums->order, compare_scores);
    for (int64_t first = 0, end; first < n; first = end) {
        int64_t tied = 0;

        for (end = first; end < n && sums->order[end].score <= sums->order[first].score; end++)
            tied += sums->order[end].positive;
        ranks += (double)(first + 1 + end) * (double)tied;
    }
    return (ranks / 2 - (double)positives * (double)(positives + 1) / 2) /
           ((double)positives * (double)(n - positives));
}

/* The AUC of every class, and their mean. */
static double compute_auc(fast_figure_sums *sums)
{
    const int64_t K = sums->options.classes;
    const bool ranked_all =
        sums->outputs && sums->invalid == 0 && sums->rows > 0 && sums->rows <= sums->options.rows;
    double sum = 0;
    int64_t defined = 0;

    for (int64_t k = 0; k < K; k++)
        sums->by_class[k].auc = NAN;
    for (int64_t i = 0; i < sums->rows && ranked_all; i++)
        sums->odds[i] = odds_of(K, sums->outputs + i * K);
    for (int64_t k = 0; k < K && ranked_all; k++) {
        const double auc = K == 2 && k == 1 ? sums->by_class[0].auc : auc_of(sums, k);

        sums->by_class[k].auc = auc;
        if (isnan(auc))
            continue;
        sum += auc;
        defined++;
    }
    return defined > 0 ? sum / (double)defined : NAN;
}

/* a / b, and 0 where b is 0. */
static double ratio(double a, double b)
{
    return b > 0 ? a / b : 0;
}

/* Figures of each class and their means. */
static void compute_classes(fast_figure_sums *sums, fast_figures *out)
{
    int64_t correct = 0, seen = 0;
    double precision = 0, recall = 0, f1 = 0;

    for (int64_t k = 0; k < sums->options.classes; k++) {
        fast_class_figures *c = &sums->by_class[k];
        const bool absent = c->actual + c->predicted == 0;

        c->precision = absent ? NAN : ratio((double)c->correct, (double)c->predicted);
        c->recall = absent ? NAN : ratio((double)c->correct, (double)c->actual);
        c->f1 = absent ? NAN : ratio(2 * (double)c->correct, (double)(c->actual + c->predicted));
        if (absent)
            continue;
        correct += c->correct;
        precision += c->precision;
        recall += c->recall;
        f1 += c->f1;
        seen++;
    }
    out->by_class = sums->by_class;
    out->confusion = sums->confusion;
    out->auc = compute_auc(sums);
    if (seen == 0)
        return;
    out->accuracy = (double)correct / (double)sums->rows;
    out->precision = precision / (double)seen;
    out->recall = recall / (double)seen;
    out->f1 = f1 / (double)seen;
}

/* Figures of a regression. */
static void compute_values(const fast_figure_sums *sums, fast_figures *out)
{
    const int64_t outputs = sums->options.outputs;
    const double count = (double)sums->rows * (double)outputs;
    double errors = 0, absolute = 0, r2 = 0;

    for (int64_t o = 0; o < outputs; o++) {
        const value_sums *v = &sums->values[o];
        const double constant = v->errors > 0 ? 0 : 1 - v->errors; /* keeps a NAN */

        errors += v->errors;
        absolute += v->absolute;
        r2 += v->squares > 0 ? 1 - v->errors / v->squares : constant;
    }
    if (sums->rows == 0)
        return;
    out->mae = absolute / count;
    out->rmse = sqrt(errors / count);
    out->r2 = sums->rows > 1 ? r2 / (double)outputs : NAN;
}

void fast__figures_compute(fast_figure_sums *sums, fast_figures *out)
{
    *out = (fast_figures){ .rows = sums->rows,
                           .invalid = sums->invalid,
                           .classes = sums->options.classes,
                           .accuracy = NAN,
                           .precision = NAN,
                           .recall = NAN,
                           .f1 = NAN,
                           .auc = NAN,
                           .mae = NAN,
                           .rmse = NAN,
                           .r2 = NAN };
    if (sums->options.classes > 0)
        compute_classes(sums, out);
    else
        compute_values(sums, out);
}

/* Figures of one class as an object. */
static json_t *class_json(const fast_class_figures *c)
{
    json_t *o = json_object();

    fast__json_set(&o, "actual", json_integer(c->actual));
    fast__json_set(&o, "predicted", json_integer(c->predicted));
    fast__json_set(&o, "correct", json_integer(c->correct));
    fast__json_set(&o, "precision", fast__json_real(c->precision));
    fast__json_set(&o, "recall", fast__json_real(c->recall));
    fast__json_set(&o, "f1", fast__json_real(c->f1));
    fast__json_set(&o, "auc", fast__json_real(c->auc));
    return o;
}

/* The confusion matrix as an array of rows. */
static json_t *confusion_json(const fast_figures *figures)
{
    json_t *rows = json_array();

    for (int64_t i = 0; i < figures->classes; i++) {
        json_t *row = json_array();

        for (int64_t j = 0; j < figures->classes; j++)
            fast__json_append(&row, json_integer(figures->confusion[i * figures->classes + j]));
        fast__json_append(&rows, row);
    }
    return rows;
}

/* The figures of a classification. */
static void put_classes(json_t **o, const fast_figures *figures, int64_t matrix_max)
{
    const bool many = figures->classes > FAST_FIGURES_CONFUSION_MAX; /* words of a language */
    json_t *list = json_array();

    fast__json_set(o, "accuracy", fast__json_real(figures->accuracy));
    fast__json_set(o, "precision", fast__json_real(figures->precision));
    fast__json_set(o, "recall", fast__json_real(figures->recall));
    fast__json_set(o, "f1", fast__json_real(figures->f1));
    fast__json_set(o, "auc", fast__json_real(figures->auc));
    for (int64_t k = 0; k < figures->classes && !many; k++)
        fast__json_append(&list, class_json(&figures->by_class[k]));
    fast__json_set(o, "by_class", list);
    fast__json_set(o, "confusion",
                   figures->confusion && figures->classes <= matrix_max ? confusion_json(figures)
                                                                        : json_null());
}

json_t *fast__figures_json(const fast_figures *figures, int64_t matrix_max)
{
    json_t *o = json_object();

    fast__json_set(&o, "rows", json_integer(figures->rows));
    fast__json_set(&o, "invalid", json_integer(figures->invalid));
    fast__json_set(&o, "classes", json_integer(figures->classes));
    if (figures->classes > 0) {
        put_classes(&o, figures, matrix_max);
        return o;
    }
    fast__json_set(&o, "mae", fast__json_real(figures->mae));
    fast__json_set(&o, "rmse", fast__json_real(figures->rmse));
    fast__json_set(&o, "r2", fast__json_real(figures->r2));
    return o;
}
