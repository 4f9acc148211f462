/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Operators that are layers elsewhere, on constants: products, windows over 1 to 3 dimensions,
 * normalisation, softmax. Sums are in double.
 *
 * They are here for two reasons: exporters fold less than they could, so that a product of
 * constants does occur; and ONNX's node tests, which state the meaning of each operator with
 * numbers, can be run on all of them. The layers of the engines are compared with these in the
 * tests of the import.
 *
 * Element i of an output is taken apart into its sample, channel and position; a window's point is
 * numbered in the same way. Padding is skipped and never stored.
 */
#include "model/onnx/onnx_eval.h"
#include "model/onnx/onnx_window.h"

#include <math.h>
#include <string.h>

/* Compute y[.., m, n] = a[.., m, k] b[.., k, n]. Leading dimensions are broadcast; a vector on the
 * left is a row, one on the right a column, and that dimension vanishes from the result. Output
 * element i belongs to matrix i / (m n), row i / n mod m, column i mod n. */
static fast_err run_matmul(fast_onnx_call *c)
{
    fast_onnx_tensor a = *c->in[0];
    fast_onnx_tensor b = *c->in[1];
    int64_t shape[FAST_ONNX_RANK_MAX] = { 0 };
    int64_t lead[FAST_ONNX_RANK_MAX] = { 0 };
    int64_t work = 0;
    int rank = 0;
    const bool row = a.rank == 1;
    const bool column = b.rank == 1;

    if (a.rank == 0 || b.rank == 0)
        return fast__onnx_fail(FAST_EFORMAT, c->node, "multiplies a scalar");
    /* A vector becomes a matrix for the product; its dimension is left out of the result. */
    if (row)
        a.rank = 2, a.shape[1] = a.shape[0], a.shape[0] = 1;
    if (column)
        b.rank = 2, b.shape[1] = 1;
    const int64_t m = a.shape[a.rank - 2];
    const int64_t k = a.shape[a.rank - 1];
    const int64_t n = b.shape[b.rank - 1];
    a.rank -= 2, b.rank -= 2;
    memcpy(lead, a.shape, sizeof lead);
    if (b.shape[b.rank] != k || !fast__onnx_broadcast(&b, a.rank, lead, &rank))
        return fast__onnx_fail(FAST_EFORMAT, c->node, "its inputs' shapes do not fit");
    memcpy(shape, lead, sizeof shape);
    int out_rank = rank;
    if (!row)
        shape[out_rank++] = m;
    if (!column)
        shape[out_rank++] = n;
    FAST_TRY(fast__onnx_out(c, 0, c->in[0]->type, out_rank, shape));
    if (!fast__onnx_count(2, (int64_t[]){ c->out[0].count, k }, &work))
        work = INT64_MAX;
    FAST_TRY(fast__onnx_work(c, work));
    for (int64_t i = 0; i < c->out[0].count; i++) {
        const int64_t block = i / (m * n);
        const double *x =
            a.values + (fast__onnx_broadcast_at(&a, rank, lead, block) * m + i / n % m) * k;
        const double *y = b.values + fast__onnx_broadcast_at(&b, rank, lead, block) * k * n + i % n;
        double sum = 0;
        for (int64_t j = 0; j < k; j++)
            sum += x[j] * y[j * n];
        c->out[0].values[i] = fast__onnx_round(c->in[0]->type, sum);
    }
    return FAST_OK;
}

/* Compute y = alpha A B + beta C, A and B transposed if asked for; C is broadcast to the result. */
static fast_err run_gemm(fast_onnx_call *c)
{
    const fast_onnx_tensor *a = c->in[0];
    const fast_onnx_tensor *b = c->in[1];
    const fast_onnx_tensor *bias = c->in_count > 2 ? c->in[2] : NULL;
    const bool ta = fast__onnx_int(c->node, "transA", 0) != 0;
    const bool tb = fast__onnx_int(c->node, "transB", 0) != 0;
    const double alpha = fast__onnx_real(c->node, "alpha", 1);
    const double beta = fast__onnx_real(c->node, "beta", 1);
    int64_t shape[FAST_ONNX_RANK_MAX] = { 0 };
    int64_t work = 0;
    int rank = 2;

    if (a->rank != 2 || b->rank != 2 || a->shape[!ta] != b->shape[tb])
        return fast__onnx_fail(FAST_EFORMAT, c->node, "its inputs' shapes do not fit");
    shape[0] = a->shape[ta];
    shape[1] = b->shape[!tb];
    const int64_t k = a->shape[!ta];
    if (bias && (!fast__onnx_broadcast(bias, 2, shape, &rank) || rank != 2 ||
                 shape[0] != a->shape[ta] || shape[1] != b->shape[!tb]))
        return fast__onnx_fail(FAST_EFORMAT, c->node, "its bias does not fit");
    FAST_TRY(fast__onnx_out(c, 0, a->type, 2, shape));
    if (!fast__onnx_count(2, (int64_t[]){ c->out[0].count, k }, &work))
        work = INT64_MAX;
    FAST_TRY(fast__onnx_work(c, work));
    for (int64_t i = 0; i < c->out[0].count; i++) {
        const int64_t r = i / shape[1];
        const int64_t s = i % shape[1];
        double sum = 0;
        for (int64_t j = 0; j < k; j++)
            sum += a->values[ta ? j * a->shape[1] + r : r * k + j] *
                   b->values[tb ? s * k + j : j * b->shape[1] + s];
        sum *= alpha;
        if (bias)
            sum += beta * bias->values[fast__onnx_broadcast_at(bias, 2, shape, i)];
        c->out[0].values[i] = fast__onnx_round(a->type, sum);
    }
    return FAST_OK;
}

/* Find the element of the input plane that point `k` of the window at output `o` covers; -1 if
 * that is padding. Both numbers are taken apart from the last dimension on. */
static int64_t window_at(const fast_onnx_window *w, int64_t o, int64_t k)
{
    int64_t at = 0;
    int64_t stride = 1;

    for (int d = w->dims - 1; d >= 0; d--) {
        const int64_t i =
            o % w->out[d] * w->stride[d] - w->pad[d] + k % w->kernel[d] * w->dilation[d];
        if (i < 0 || i >= w->in[d])
            return -1;
        at += i * stride;
        stride *= w->in[d];
        o /= w->out[d];
        k /= w->kernel[d];
    }
    return at;
}

/* Count the points of the window at output `o` that a mean is divided by: those in the input, or
 * also those in its stated padding. Points that only `ceil_mode` adds never count. */
static int64_t window_points(const fast_onnx_window *w, int64_t o, bool with_padding)
{
    int64_t points = 1;

    for (int d = w->dims - 1; d >= 0; d--) {
        const int64_t first = o % w->out[d] * w->stride[d] - w->pad[d];
        int64_t inside = 0;
        for (int64_t k = 0; k < w->kernel[d]; k++) {
            const int64_t i = first + k * w->dilation[d];
            inside += with_padding ? i < w->in[d] + w->pad_end[d] : i >= 0 && i < w->in[d];
        }
        points *= inside;
        o /= w->out[d];
    }
    return points;
}

/* Sum over the channels of a filter's group and the window's points:
 *
 *     y[n, f, o] = b[f] + sum over c, k of w[f, c, k] x[n, first(f) + c, o stride - pad + k
 * dilation]
 *
 * Padding is zero and is skipped. */
static fast_err run_conv(fast_onnx_call *c)
{
    const fast_onnx_tensor *x = c->in[0];
    const fast_onnx_tensor *w = c->in[1];
    const fast_onnx_tensor *b = c->in_count > 2 ? c->in[2] : NULL;
    const int64_t groups = fast__onnx_int(c->node, "group", 1);
    fast_onnx_window window;
    int64_t shape[FAST_ONNX_RANK_MAX] = { 0 };
    int64_t work = 0;

    if (x->rank < 3 || w->rank != x->rank || groups < 1 || groups > 1 << 24 ||
        w->shape[0] % groups || w->shape[1] * groups != x->shape[1] ||
        (b && b->count != w->shape[0]))
        return fast__onnx_fail(FAST_EFORMAT, c->node, "its inputs' shapes do not fit");
    FAST_TRY(fast__onnx_window_read(c->node, x->rank - 2, x->shape + 2, w->shape + 2, &window));
    shape[0] = x->shape[0];
    shape[1] = w->shape[0];
    memcpy(shape + 2, window.out, (size_t)window.dims * sizeof *shape);
    FAST_TRY(fast__onnx_out(c, 0, x->type, x->rank, shape));
    /* Filters of a group read `channels` channels, from `first` on. */
    const int64_t channels = w->shape[1];
    if (!fast__onnx_count(3, (int64_t[]){ c->out[0].count, channels, window.points }, &work))
        work = INT64_MAX;
    FAST_TRY(fast__onnx_work(c, work));
    for (int64_t i = 0; i < c->out[0].count; i++) {
        const int64_t o = i % window.out_count;
        const int64_t f = i / window.out_count % shape[1];
        const int64_t n = i / window.out_count / shape[1];
        const int64_t first = f / (shape[1] / groups) * channels;
        double sum = b ? b->values[f] : 0;
        for (int64_t k = 0; k < window.points; k++) {
            const int64_t at = window_at(&window, o, k);
            for (int64_t ch = 0; at >= 0 && ch < channels; ch++)
                sum += x->values[(n * x->shape[1] + first + ch) * window.in_count + at] *
                       w->values[(f * channels + ch) * window.points + k];
        }
        c->out[0].values[i] = fast__onnx_round(x->type, sum);
    }
    return FAST_OK;
}

/* Compute the largest value or the mean of each window; output 1 of MaxPool is the position of the
 * largest in the whole tensor, by rows, or by columns of its plane with `storage_order`. */
static fast_err run_pool(fast_onnx_call *c)
{
    const fast_onnx_tensor *x = c->in[0];
    const bool max = fast__span_is(c->node->op, "MaxPool");
    const bool padding = fast__onnx_int(c->node, "count_include_pad", 0) != 0;
    const bool column = fast__onnx_int(c->node, "storage_order", 0) != 0;
    fast_onnx_window w;
    int64_t shape[FAST_ONNX_RANK_MAX] = { 0 };

    if (x->rank < 3)
        return fast__onnx_fail(FAST_EFORMAT, c->node, "needs an image");
    FAST_TRY(fast__onnx_window_read(c->node, x->rank - 2, x->shape + 2, NULL, &w));
    memcpy(shape, x->shape, 2 * sizeof *shape);
    memcpy(shape + 2, w.out, (size_t)w.dims * sizeof *shape);
    FAST_TRY(fast__onnx_out(c, 0, x->type, x->rank, shape));
    FAST_TRY(fast__onnx_work(c, c->out[0].count));
    FAST_TRY(fast__onnx_work(c, w.points > 1 << 20 ? INT64_MAX : c->out[0].count * w.points));
    if (c->out_count > 1)
        FAST_TRY(fast__onnx_out(c, 1, FAST_ONNX_INT64, x->rank, shape));
    for (int64_t i = 0; i < c->out[0].count; i++) {
        const int64_t plane = i / w.out_count * w.in_count;
        const int64_t points = max ? 1 : window_points(&w, i % w.out_count, padding);
        double y = max ? -(double)INFINITY : 0;
        int64_t where = 0;
        for (int64_t k = 0; k < w.points; k++) {
            const int64_t at = window_at(&w, i % w.out_count, k);
            if (at < 0)
                continue;
            if (max && x->values[plane + at] > y)
                where = at;
            y = max ? fmax(y, x->values[plane + at]) : y + x->values[plane + at];
        }
        c->out[0].values[i] = fast__onnx_round(x->type, max ? y : y / (double)points);
        if (c->out_count > 1 && column && w.dims == 2)
            where = where % w.in[1] * w.in[0] + where / w.in[1];
        if (c->out_count > 1)
            c->out[1].values[i] = (double)(plane + where);
    }
    return FAST_OK;
}

/* Compute the mean or the largest value of each plane; the spatial dimensions become 1. */
static fast_err run_global_pool(fast_onnx_call *c)
{
    const fast_onnx_tensor *x = c->in[0];
    const bool max = fast__span_is(c->node->op, "GlobalMaxPool");
    int64_t shape[FAST_ONNX_RANK_MAX];

    if (x->rank < 2)
        return fast__onnx_fail(FAST_EFORMAT, c->node, "needs an image");
    for (int d = 0; d < x->rank; d++)
        shape[d] = d < 2 ? x->shape[d] : 1;
    FAST_TRY(fast__onnx_out(c, 0, x->type, x->rank, shape));
    FAST_TRY(fast__onnx_work(c, x->count));
    for (int64_t i = 0; i < c->out[0].count; i++) {
        const int64_t size = x->count / c->out[0].count;
        double y = max ? -(double)INFINITY : 0;
        for (int64_t k = 0; k < size; k++)
            y = max ? fmax(y, x->values[i * size + k]) : y + x->values[i * size + k];
        c->out[0].values[i] = fast__onnx_round(x->type, max ? y : y / (double)size);
    }
    return FAST_OK;
}

/* Compute mean and variance of a channel of [N, C, ...] over samples and positions, in two passes.
 */
static void channel_moments(const fast_onnx_tensor *x, int64_t channel, double *mean, double *var)
{
    const int64_t channels = x->shape[1];
    const int64_t plane = x->count / (x->shape[0] * channels);
    double sum = 0;
    double square = 0;

    for (int64_t i = 0; i < x->shape[0] * plane; i++)
        sum += x->values[(i / plane * channels + channel) * plane + i % plane];
    sum /= (double)(x->shape[0] * plane);
    for (int64_t i = 0; i < x->shape[0] * plane; i++) {
        const double v = x->values[(i / plane * channels + channel) * plane + i % plane] - sum;
        square += v * v;
    }
    *mean = sum;
    *var = square / (double)(x->shape[0] * plane);
}

/* Compute y = (x - mean) / sqrt(var + epsilon) scale + bias by channel. With training_mode mean
 * and variance are those of the batch, and outputs 1 and 2 are the running statistics:
 *
 *     running = running momentum + batch (1 - momentum) */
static fast_err run_batch_norm(fast_onnx_call *c)
{
    const fast_onnx_tensor *x = c->in[0];
    const double eps = fast__onnx_real(c->node, "epsilon", 1e-5);
    const double momentum = fast__onnx_real(c->node, "momentum", 0.9F);
    const bool train = fast__onnx_int(c->node, "training_mode", 0) != 0;

    if (x->rank < 2 || x->count == 0)
        return fast__onnx_fail(FAST_EFORMAT, c->node, "needs channels");
    for (int k = 1; k < 5; k++)
        if (c->in[k]->count != x->shape[1])
            return fast__onnx_fail(FAST_EFORMAT, c->node, "its inputs' shapes do not fit");
    FAST_TRY(fast__onnx_out(c, 0, x->type, x->rank, x->shape));
    for (int k = 1; train && k < 3 && k < c->out_count; k++)
        FAST_TRY(fast__onnx_out(c, k, c->in[k + 2]->type, 1, &x->shape[1]));
    const int64_t plane = x->count / (x->shape[0] * x->shape[1]);
    for (int64_t ch = 0; ch < x->shape[1]; ch++) {
        double mean = c->in[3]->values[ch];
        double var = c->in[4]->values[ch];
        if (train)
            channel_moments(x, ch, &mean, &var);
        for (int k = 1; train && k < 3 && k < c->out_count; k++)
            c->out[k].values[ch] =
                c->in[k + 2]->values[ch] * momentum + (k == 1 ? mean : var) * (1 - momentum);
        for (int64_t i = 0; i < x->shape[0] * plane; i++) {
            const int64_t at = (i / plane * x->shape[1] + ch) * plane + i % plane;
            const double y = (x->values[at] - mean) / sqrt(var + eps) * c->in[1]->values[ch] +
                             c->in[2]->values[ch];
            c->out[0].values[at] = fast__onnx_round(x->type, y);
        }
    }
    return FAST_OK;
}

/* Normalise over the axes from `axis` on; outputs 1 and 2 are the mean and 1 / deviation, with
 * ones in place of those axes. */
static fast_err run_layer_norm(fast_onnx_call *c)
{
    const fast_onnx_tensor *x = c->in[0];
    const int axis = fast__onnx_axis(fast__onnx_int(c->node, "axis", -1), x->rank);
    const double eps = fast__onnx_real(c->node, "epsilon", 1e-5);
    const fast_onnx_tensor *bias = c->in_count > 2 ? c->in[2] : NULL;
    int64_t shape[FAST_ONNX_RANK_MAX] = { 0 };
    int64_t size = 1;

    for (int d = 0; d < x->rank; d++) {
        shape[d] = d < axis ? x->shape[d] : 1;
        size *= d < axis ? 1 : x->shape[d];
    }
    if (axis < 0 || size == 0 || c->in[1]->count != size || (bias && bias->count != size))
        return fast__onnx_fail(FAST_EFORMAT, c->node, "its inputs' shapes do not fit");
    FAST_TRY(fast__onnx_out(c, 0, x->type, x->rank, x->shape));
    for (int k = 1; k < 3 && k < c->out_count; k++)
        FAST_TRY(fast__onnx_out(c, k, FAST_ONNX_FLOAT, x->rank, shape));
    for (int64_t r = 0; r < x->count / size; r++) {
        double mean = 0;
        double var = 0;
        for (int64_t i = 0; i < size; i++)
            mean += x->values[r * size + i] / (double)size;
        for (int64_t i = 0; i < size; i++)
            var += (x->values[r * size + i] - mean) * (x->values[r * size + i] - mean);
        const double scale = 1 / sqrt(var / (double)size + eps);
        for (int k = 1; k < 3 && k < c->out_count; k++)
            c->out[k].values[r] = k == 1 ? mean : scale;
        for (int64_t i = 0; i < size; i++)
            c->out[0].values[r * size + i] = fast__onnx_round(
                x->type, (x->values[r * size + i] - mean) * scale * c->in[1]->values[i] +
                             (bias ? bias->values[i] : 0));
    }
    return FAST_OK;
}

/* Compute probabilities, or their logarithms, along an axis; before version 13 over the axis and
 * all later ones as one. The maximum is subtracted first, so that no exponential overflows. */
static fast_err run_softmax(fast_onnx_call *c)
{
    const fast_onnx_tensor *x = c->in[0];
    const bool old = c->opset < 13;
    const bool logs = fast__span_is(c->node->op, "LogSoftmax");
    const int axis = fast__onnx_axis(fast__onnx_int(c->node, "axis", old ? 1 : -1), x->rank);
    int64_t size = 0;
    int64_t inner = 1;

    if (axis < 0)
        return fast__onnx_fail(FAST_EFORMAT, c->node, "its axis is out of range");
    size = x->shape[axis];
    for (int d = axis + 1; d < x->rank; d++) {
        size *= old ? x->shape[d] : 1;
        inner *= old ? 1 : x->shape[d];
    }
    FAST_TRY(fast__onnx_out(c, 0, x->type, x->rank, x->shape));
    for (int64_t r = 0; size > 0 && r < x->count / size; r++) {
        const int64_t at = r / inner * size * inner + r % inner;
        double max = -(double)INFINITY;
        double sum = 0;
        for (int64_t k = 0; k < size; k++)
            max = fmax(max, x->values[at + k * inner]);
        for (int64_t k = 0; k < size; k++)
            sum += exp(x->values[at + k * inner] - max);
        for (int64_t k = 0; k < size; k++) {
            const double v = x->values[at + k * inner] - max;
            c->out[0].values[at + k * inner] =
                fast__onnx_round(x->type, logs ? v - log(sum) : exp(v) / sum);
        }
    }
    return FAST_OK;
}

/* The operators of this file: the number of inputs that must be there, and the function. Inputs
 * beyond are optional, and NULL where a node leaves them out. */
const fast_onnx_operator fast__onnx_layer_operators[] = {
    { "MatMul", 2, run_matmul },                 /* a b */
    { "Gemm", 2, run_gemm },                     /* alpha a b + beta c */
    { "Conv", 2, run_conv },                     /* x, weight, bias */
    { "MaxPool", 1, run_pool },                  /* largest of windows */
    { "AveragePool", 1, run_pool },              /* mean of windows */
    { "GlobalAveragePool", 1, run_global_pool }, /* mean of planes */
    { "GlobalMaxPool", 1, run_global_pool },     /* largest of planes */
    { "BatchNormalization", 5, run_batch_norm }, /* x, scale, bias, mean, variance */
    { "LayerNormalization", 2, run_layer_norm }, /* x, scale, bias */
    { "Softmax", 1, run_softmax },               /* probabilities */
    { "LogSoftmax", 1, run_softmax },            /* their logarithms */
    { NULL, 0, NULL },
};
