/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The evaluator's table, and the operators that work element by element: functions of one value,
 * functions of two values with numpy's broadcasting, reductions, casts.
 *
 * The evaluator computes what is constant in a file: arithmetic on shapes, as in
 *
 *     Shape(x) -> Gather 0 -> Unsqueeze -> Concat with -1 -> Reshape        x.view(x.size(0), -1)
 *
 * and weights that the exporter left in another form, such as a Transpose of a matrix. It is plain
 * rather than fast: an element's place is found by division. Two budgets make this safe for files
 * that are not trusted, one of memory and one of work, both in proportion to the size of the file.
 *
 * Order of lookup: the tables of functions of one value, of two values, of reductions, then the
 * rows of other files. A new operator is a row.
 */
#include "model/onnx/onnx_eval.h"

#include "base/memory.h"

#include <math.h>
#include <string.h>

/* 2^22 numbers are 32 MiB; larger files may derive more from their weights: a network with a causal
 * mask in each layer computes about six numbers for each byte of them. */
fast_onnx_budget fast__onnx_budget(int64_t file_size)
{
    return (fast_onnx_budget){ .elements = ((int64_t)1 << 22) + 8 * file_size,
                               .work = ((int64_t)1 << 26) + 64 * file_size };
}

/* Every computed tensor passes here: the budget bounds the memory of a whole file. */
fast_err fast__onnx_out(fast_onnx_call *c, int i, int type, int rank, const int64_t *shape)
{
    int64_t count = 0;

    FAST_ASSERT(i < c->out_count);
    if (rank > FAST_ONNX_RANK_MAX)
        return fast__onnx_fail(FAST_ENOTSUP, c->node, "gives more than %d dimensions",
                               FAST_ONNX_RANK_MAX);
    if (!fast__onnx_count(rank, shape, &count) || count > c->budget->elements)
        return fast__onnx_fail(FAST_EFORMAT, c->node,
                               "computes a constant that is too large for this file");
    c->budget->elements -= count;
    return fast__onnx_tensor_new(type, rank, shape, &c->out[i]);
}

/* Operators whose work exceeds the size of their output pass here: the budget bounds their time. */
fast_err fast__onnx_work(fast_onnx_call *c, int64_t count)
{
    if (count > c->budget->work)
        return fast__onnx_fail(FAST_EFORMAT, c->node,
                               "computes a constant that takes too long for this file");
    c->budget->work -= count;
    return FAST_OK;
}

/* Align both shapes to the right; a dimension of 1 takes the size of the other:
 *
 *     a       [   4, 1]
 *     shape   [3, 1, 5]     ->  [3, 4, 5]
 *
 * The shape is rewritten from its end, so that no element is read after it was moved. */
bool fast__onnx_broadcast(const fast_onnx_tensor *a, int rank, int64_t *shape, int *rank_out)
{
    const int out = a->rank > rank ? a->rank : rank;

    /* Align to the right: move the shape, then compare. */
    for (int i = out - 1; i >= 0; i--) {
        const int64_t mine = i - (out - a->rank) >= 0 ? a->shape[i - (out - a->rank)] : 1;
        const int64_t other = i - (out - rank) >= 0 ? shape[i - (out - rank)] : 1;
        if (mine != other && mine != 1 && other != 1)
            return false;
        shape[i] = mine == 1 ? other : mine;
    }
    *rank_out = out;
    return true;
}

/* Take the position apart from the last dimension on; a dimension of size 1 does not move. */
int64_t fast__onnx_broadcast_at(const fast_onnx_tensor *t, int rank, const int64_t *shape,
                                int64_t i)
{
    int64_t at = 0;
    int64_t stride = 1;

    for (int d = rank - 1; d >= 0 && d >= rank - t->rank; d--) {
        const int64_t size = t->shape[d - (rank - t->rank)];
        at += size == 1 ? 0 : i % shape[d] * stride;
        i /= shape[d];
        stride *= size;
    }
    return at;
}

/* Negative axes count from the end. */
int fast__onnx_axis(int64_t axis, int rank)
{
    const int64_t from_0 = axis < 0 ? axis + rank : axis;

    return from_0 >= 0 && from_0 < rank ? (int)from_0 : -1;
}

/* Newer versions of the operators have their axes as an input, older ones as an attribute. */
bool fast__onnx_axes(const fast_onnx_call *c, int i, const char *name, int rank, unsigned standard,
                     unsigned *out)
{
    const fast_onnx_tensor *given = i < c->in_count ? c->in[i] : NULL;
    int64_t axes[FAST_ONNX_RANK_MAX];
    int count = fast__onnx_ints(c->node, name, FAST_ONNX_RANK_MAX, axes);

    if (given && given->count <= FAST_ONNX_RANK_MAX)
        for (count = 0; count < given->count; count++)
            axes[count] = fast__onnx_whole(given->values[count]);
    *out = count <= 0 ? standard : 0;
    for (int k = 0; k < count; k++) {
        const int axis = fast__onnx_axis(axes[k], rank);
        if (axis < 0)
            return false;
        *out |= 1U << axis;
    }
    return true;
}

/* Functions of one value; a and b are attributes.
 *
 *     UNARY(name, value)   defines double name(double x, double a, double b) with this value
 */
typedef double unary_fn(double x, double a, double b);
#define UNARY(name, value)                           \
    static double name(double x, double a, double b) \
    {                                                \
        (void)a, (void)b;                            \
        return value;                                \
    }
UNARY(f_abs, fabs(x))
UNARY(f_neg, -x)
UNARY(f_exp, exp(x))
UNARY(f_log, log(x))
UNARY(f_sqrt, sqrt(x))
UNARY(f_erf, erf(x))
UNARY(f_tanh, tanh(x))
UNARY(f_sin, sin(x))
UNARY(f_cos, cos(x))
UNARY(f_sigmoid, 1 / (1 + exp(-x)))
UNARY(f_relu, x < 0 ? 0 : x)
UNARY(f_reciprocal, 1 / x)
UNARY(f_floor, floor(x))
UNARY(f_ceil, ceil(x))
UNARY(f_round, nearbyint(x))
UNARY(f_sign, (double)((x > 0) - (x < 0)))
UNARY(f_softplus, x > 30 ? x : log1p(exp(x)))
UNARY(f_softsign, x / (1 + fabs(x)))
UNARY(f_not, (double)(x == 0))
UNARY(f_is_nan, (double)(isnan(x) != 0))
UNARY(f_leaky, x < 0 ? a * x : x)
UNARY(f_elu, x < 0 ? a * (exp(x) - 1) : x)
UNARY(f_selu, x > 0 ? b * x : b * (a * exp(x) - a))
UNARY(f_hard_sigmoid, fmax(0, fmin(1, a *x + b)))
UNARY(f_hard_swish, x *fmax(0, fmin(1, x / 6 + 0.5)))

/* A row of functions of one value. */
typedef struct eval_unary {
    const char *name;  /* operator */
    unary_fn *fn;      /* the function */
    const char *a, *b; /* names of the attributes, or NULL */
    double a0, b0;     /* their defaults */
    bool boolean;      /* gives truth values */
} eval_unary;

static const eval_unary unaries[] = {
    { "Abs", f_abs, NULL, NULL, 0, 0, false },               /* |x| */
    { "Neg", f_neg, NULL, NULL, 0, 0, false },               /* -x */
    { "Exp", f_exp, NULL, NULL, 0, 0, false },               /* e^x */
    { "Log", f_log, NULL, NULL, 0, 0, false },               /* ln x */
    { "Sqrt", f_sqrt, NULL, NULL, 0, 0, false },             /* root */
    { "Erf", f_erf, NULL, NULL, 0, 0, false },               /* error function */
    { "Tanh", f_tanh, NULL, NULL, 0, 0, false },             /* hyperbolic */
    { "Sin", f_sin, NULL, NULL, 0, 0, false },               /* sine */
    { "Cos", f_cos, NULL, NULL, 0, 0, false },               /* cosine */
    { "Sigmoid", f_sigmoid, NULL, NULL, 0, 0, false },       /* logistic */
    { "Relu", f_relu, NULL, NULL, 0, 0, false },             /* max(x, 0) */
    { "Reciprocal", f_reciprocal, NULL, NULL, 0, 0, false }, /* 1 / x */
    { "Floor", f_floor, NULL, NULL, 0, 0, false },           /* downwards */
    { "Ceil", f_ceil, NULL, NULL, 0, 0, false },             /* upwards */
    { "Round", f_round, NULL, NULL, 0, 0, false },           /* half to even */
    { "Sign", f_sign, NULL, NULL, 0, 0, false },             /* -1, 0, 1 */
    { "Softplus", f_softplus, NULL, NULL, 0, 0, false },     /* ln(1 + e^x) */
    { "Softsign", f_softsign, NULL, NULL, 0, 0, false },     /* x / (1 + |x|) */
    { "Not", f_not, NULL, NULL, 0, 0, true },                /* negation */
    { "IsNaN", f_is_nan, NULL, NULL, 0, 0, true },           /* no number */
    { "LeakyRelu", f_leaky, "alpha", NULL, 0.01, 0, false }, /* slope alpha below zero */
    { "Elu", f_elu, "alpha", NULL, 1, 0, false },            /* alpha (e^x - 1) below zero */
    { "Selu", f_selu, "alpha", "gamma", 1.67326319217681884765625, 1.05070102214813232421875,
      false },
    { "HardSigmoid", f_hard_sigmoid, "alpha", "beta", 0.2F, 0.5,
      false },                                              /* linear, cut at 0 and 1 */
    { "HardSwish", f_hard_swish, NULL, NULL, 0, 0, false }, /* x hard_sigmoid(x) */
};
enum { UNARIES = sizeof unaries / sizeof unaries[0] };

/* Compute y = f(x) element by element. The attributes a and b, where the function has them, are
 * read once. */
static fast_err run_unary(fast_onnx_call *c, const eval_unary *row)
{
    const fast_onnx_tensor *x = c->in[0];
    const double a = row->a ? fast__onnx_real(c->node, row->a, row->a0) : 0;
    const double b = row->b ? fast__onnx_real(c->node, row->b, row->b0) : 0;
    const int type = row->boolean ? FAST_ONNX_BOOL : x->type;

    FAST_TRY(fast__onnx_out(c, 0, type, x->rank, x->shape));
    for (int64_t i = 0; i < x->count; i++)
        c->out[0].values[i] = fast__onnx_round(type, row->fn(x->values[i], a, b));
    return FAST_OK;
}

/* Functions of two values. `whole` tells that both are whole numbers.
 *
 *     BINARY(name, value)  defines double name(double x, double y, bool whole) with this value
 *
 * Truth values are 0 and 1; NaN is neither less nor greater than anything. */
typedef double binary_fn(double x, double y, bool whole);
#define BINARY(name, value)                            \
    static double name(double x, double y, bool whole) \
    {                                                  \
        (void)whole;                                   \
        return value;                                  \
    }
BINARY(g_add, x + y)
BINARY(g_sub, x - y)
BINARY(g_mul, x *y)
BINARY(g_div, whole ? (y == 0 ? 0 : trunc(x / y)) : x / y)
BINARY(g_pow, pow(x, y))
BINARY(g_mod, whole ? (y == 0 ? 0 : x - floor(x / y) * y) : fmod(x, y))
BINARY(g_max, isnan(x) ? x : isnan(y) ? y : fmax(x, y))
BINARY(g_min, isnan(x) ? x : isnan(y) ? y : fmin(x, y))
BINARY(g_equal, (double)(x == y))
BINARY(g_less, (double)(x < y))
BINARY(g_less_equal, (double)(x <= y))
BINARY(g_greater, (double)(x > y))
BINARY(g_greater_equal, (double)(x >= y))
BINARY(g_and, (double)(x != 0 && y != 0))
BINARY(g_or, (double)(x != 0 || y != 0))
BINARY(g_xor, (double)((x != 0) != (y != 0)))
BINARY(g_prelu, x < 0 ? x * y : x)

/* A row of functions of two values. */
typedef struct eval_binary {
    const char *name; /* operator */
    binary_fn *fn;    /* the function */
    bool boolean;     /* gives truth values */
    bool variadic;    /* any number of inputs, folded from the left */
} eval_binary;

static const eval_binary binaries[] = {
    { "Add", g_add, false, false },                     /* x + y */
    { "Sub", g_sub, false, false },                     /* x - y */
    { "Mul", g_mul, false, false },                     /* x y */
    { "Div", g_div, false, false },                     /* towards zero for whole numbers */
    { "Pow", g_pow, false, false },                     /* type of x */
    { "Mod", g_mod, false, false },                     /* sign of y, or of x with fmod */
    { "PRelu", g_prelu, false, false },                 /* slope y below zero */
    { "Max", g_max, false, true },                      /* largest, NaN wins */
    { "Min", g_min, false, true },                      /* smallest, NaN wins */
    { "Sum", g_add, false, true },                      /* of all inputs */
    { "Mean", g_add, false, true },                     /* of all inputs */
    { "Equal", g_equal, true, false },                  /* x = y */
    { "Less", g_less, true, false },                    /* x < y */
    { "LessOrEqual", g_less_equal, true, false },       /* x <= y */
    { "Greater", g_greater, true, false },              /* x > y */
    { "GreaterOrEqual", g_greater_equal, true, false }, /* x >= y */
    { "And", g_and, true, false },                      /* x and y */
    { "Or", g_or, true, false },                        /* x or y */
    { "Xor", g_xor, true, false },                      /* x or y, not both */
};
enum { BINARIES = sizeof binaries / sizeof binaries[0] };

/* Tell whether a type has whole numbers: division truncates there, and a remainder has the
 * divisor's sign. */
static bool is_whole(int type)
{
    return type != FAST_ONNX_FLOAT && type != FAST_ONNX_DOUBLE && type != FAST_ONNX_FLOAT16;
}

/* Compute y = f(f(x[0], x[1]), x[2]) ..., broadcast. Operators of two inputs and those of any
 * number share the loop; the type is that of the first input, as for a power of mixed types. */
static fast_err run_binary(fast_onnx_call *c, const eval_binary *row)
{
    const int type = row->boolean ? FAST_ONNX_BOOL : c->in[0]->type;
    const bool whole = is_whole(c->in[0]->type) && !fast__onnx_int(c->node, "fmod", 0);
    int64_t shape[FAST_ONNX_RANK_MAX] = { 0 };
    int rank = 0;

    for (int k = 0; k < c->in_count; k++) {
        if (!c->in[k])
            return fast__onnx_fail(FAST_EFORMAT, c->node, "lacks input %d", k);
        if (!fast__onnx_broadcast(c->in[k], rank, shape, &rank))
            return fast__onnx_fail(FAST_EFORMAT, c->node, "its inputs' shapes do not fit");
    }
    FAST_TRY(fast__onnx_out(c, 0, type, rank, shape));
    FAST_TRY(fast__onnx_work(c, c->out[0].count * c->in_count));
    for (int64_t i = 0; i < c->out[0].count; i++) {
        double y = c->in[0]->values[fast__onnx_broadcast_at(c->in[0], rank, shape, i)];
        for (int k = 1; k < c->in_count; k++)
            y = row->fn(y, c->in[k]->values[fast__onnx_broadcast_at(c->in[k], rank, shape, i)],
                        whole);
        if (strcmp(row->name, "Mean") == 0)
            y /= c->in_count;
        c->out[0].values[i] = fast__onnx_round(type, y);
    }
    return FAST_OK;
}

/* Compute y = condition ? a : b; all three are broadcast against each other. */
static fast_err run_where(fast_onnx_call *c)
{
    int64_t shape[FAST_ONNX_RANK_MAX] = { 0 };
    int rank = 0;

    for (int k = 0; k < 3; k++)
        if (!fast__onnx_broadcast(c->in[k], rank, shape, &rank))
            return fast__onnx_fail(FAST_EFORMAT, c->node, "its inputs' shapes do not fit");
    FAST_TRY(fast__onnx_out(c, 0, c->in[1]->type, rank, shape));
    for (int64_t i = 0; i < c->out[0].count; i++) {
        const bool yes = c->in[0]->values[fast__onnx_broadcast_at(c->in[0], rank, shape, i)] != 0;
        const fast_onnx_tensor *from = c->in[yes ? 1 : 2];
        c->out[0].values[i] = from->values[fast__onnx_broadcast_at(from, rank, shape, i)];
    }
    return FAST_OK;
}

/* Compute y = min(max(x, low), high). Bounds are inputs since version 11 and attributes before; an
 * absent bound is infinite. */
static fast_err run_clip(fast_onnx_call *c)
{
    const fast_onnx_tensor *x = c->in[0];
    double bound[2] = { fast__onnx_real(c->node, "min", -(double)INFINITY),
                        fast__onnx_real(c->node, "max", (double)INFINITY) };

    for (int k = 1; k < c->in_count && k < 3; k++)
        if (c->in[k] && c->in[k]->count == 1)
            bound[k - 1] = c->in[k]->values[0];
    FAST_TRY(fast__onnx_out(c, 0, x->type, x->rank, x->shape));
    for (int64_t i = 0; i < x->count; i++)
        c->out[0].values[i] = g_min(g_max(x->values[i], bound[0], false), bound[1], false);
    return FAST_OK;
}

/* Round to the type of attribute `to`: floats are cut towards zero for whole numbers, anything but
 * zero is true. */
static fast_err run_cast(fast_onnx_call *c)
{
    const fast_onnx_tensor *x = c->in[0];
    const int type = (int)fast__onnx_int(c->node, "to", 0);

    if (type < FAST_ONNX_FLOAT || type > FAST_ONNX_UINT64 || type == 8)
        return fast__onnx_fail(FAST_ENOTSUP, c->node, "casts to ONNX type %d", type);
    FAST_TRY(fast__onnx_out(c, 0, type, x->rank, x->shape));
    for (int64_t i = 0; i < x->count; i++)
        c->out[0].values[i] = fast__onnx_round(type, x->values[i]);
    return FAST_OK;
}

/* The reductions: y = post(sum or extremum of pre(x)).
 *
 *     mean       sum x / n          prod       product x         sum_square    sum x^2
 *     sum        sum x              l1         sum |x|           log_sum       ln sum x
 *     max, min   extremum x         l2         root of sum x^2   log_sum_exp   ln sum e^x
 *
 * The two lists have the same order. */
static const char *const reductions[] = { "ReduceMean",     "ReduceSum",       "ReduceMax",
                                          "ReduceMin",      "ReduceProd",      "ReduceL1",
                                          "ReduceL2",       "ReduceSumSquare", "ReduceLogSum",
                                          "ReduceLogSumExp" };
enum { MEAN, SUM, MAX, MIN, PROD, L1, L2, SUM_SQUARE, LOG_SUM, LOG_SUM_EXP, REDUCTIONS };

/* Add one value to a running reduction: a sum, a product or an extremum, of the value or of a
 * function of it. */
static double reduce_step(int kind, double sum, double x)
{
    switch (kind) {
    case MAX:
        return fmax(sum, x);
    case MIN:
        return fmin(sum, x);
    case PROD:
        return sum * x;
    case L1:
        return sum + fabs(x);
    case L2:
    case SUM_SQUARE:
        return sum + x * x;
    case LOG_SUM_EXP:
        return sum + exp(x);
    default:
        return sum + x;
    }
}

/* Reduce over the axes. The output is first seen with the rank of the input and ones where it is
 * reduced, so that an element's sum is found by broadcasting backwards; `keepdims` only decides on
 * the shape that is shown. */
static fast_err run_reduce(fast_onnx_call *c, int kind)
{
    const fast_onnx_tensor *x = c->in[0];
    const bool retain = fast__onnx_int(c->node, "keepdims", 1) != 0;
    const unsigned all =
        fast__onnx_int(c->node, "noop_with_empty_axes", 0) ? 0 : (1U << x->rank) - 1;
    int64_t full[FAST_ONNX_RANK_MAX];
    int64_t shape[FAST_ONNX_RANK_MAX];
    unsigned axes = 0;
    int rank = 0;
    fast_onnx_tensor view;

    if (!fast__onnx_axes(c, 1, "axes", x->rank, all, &axes))
        return fast__onnx_fail(FAST_EFORMAT, c->node, "an axis is out of range");
    for (int d = 0; d < x->rank; d++) {
        full[d] = axes >> d & 1 ? 1 : x->shape[d];
        if (retain || !(axes >> d & 1))
            shape[rank++] = full[d];
    }
    FAST_TRY(fast__onnx_out(c, 0, x->type, rank, shape));
    FAST_TRY(fast__onnx_work(c, x->count));
    /* The same numbers, seen with the rank of the input. */
    view = c->out[0];
    view.rank = x->rank;
    memcpy(view.shape, full, sizeof full);
    for (int64_t i = 0; i < view.count; i++)
        view.values[i] = kind == MAX    ? -(double)INFINITY
                         : kind == MIN  ? (double)INFINITY
                         : kind == PROD ? 1
                                        : 0;
    for (int64_t i = 0; i < x->count; i++) {
        double *sum = &view.values[fast__onnx_broadcast_at(&view, x->rank, x->shape, i)];
        *sum = reduce_step(kind, *sum, x->values[i]);
    }
    for (int64_t i = 0; i < view.count; i++) {
        double *y = &view.values[i];
        *y = kind == MEAN                             ? *y / (double)(x->count / view.count)
             : kind == L2                             ? sqrt(*y)
             : kind == LOG_SUM || kind == LOG_SUM_EXP ? log(*y)
                                                      : *y;
        *y = fast__onnx_round(x->type, *y);
    }
    return FAST_OK;
}

/* Operators of this file with functions of their own. */
static const fast_onnx_operator element_operators[] = {
    { "Where", 3, run_where }, /* condition, a, b */
    { "Clip", 1, run_clip },   /* x, low, high */
    { "Cast", 1, run_cast },   /* to another type */
    { NULL, 0, NULL },
};

static const fast_onnx_operator *const tables[] = { element_operators, fast__onnx_shape_operators,
                                                    fast__onnx_layer_operators };

/* Walk the tables in order: functions of one and two values, reductions, then the other tables. */
const char *fast__onnx_operator(int i)
{
    if (i < UNARIES)
        return unaries[i].name;
    i -= UNARIES;
    if (i < BINARIES)
        return binaries[i].name;
    i -= BINARIES;
    if (i < REDUCTIONS)
        return reductions[i];
    i -= REDUCTIONS;
    for (size_t t = 0; t < sizeof tables / sizeof tables[0]; t++)
        for (const fast_onnx_operator *row = tables[t]; row->name; row++)
            if (i-- == 0)
                return row->name;
    return NULL;
}

/* The importer checks this number, so that its functions may read the inputs without a look. */
int fast__onnx_inputs_min(fast_span op)
{
    for (int i = 0; i < BINARIES; i++)
        if (fast__span_is(op, binaries[i].name))
            return binaries[i].variadic ? 1 : 2;
    for (size_t t = 0; t < sizeof tables / sizeof tables[0]; t++)
        for (const fast_onnx_operator *row = tables[t]; row->name; row++)
            if (fast__span_is(op, row->name))
                return row->inputs_min;
    for (int i = 0; fast__onnx_operator(i); i++)
        if (fast__span_is(op, fast__onnx_operator(i)))
            return 1;
    return 0;
}

/* Check that the first `count` inputs are there, and that the node has an output. */
static fast_err need_inputs(const fast_onnx_call *c, int count)
{
    for (int k = 0; k < count; k++)
        if (k >= c->in_count || !c->in[k])
            return fast__onnx_fail(FAST_EFORMAT, c->node, "lacks input %d", k);
    return c->out_count > 0 ? FAST_OK : fast__onnx_fail(FAST_EFORMAT, c->node, "has no output");
}

/* Look the operator up and run it. Operators of other domains have other meanings: refused. */
fast_err fast__onnx_eval(fast_onnx_call *c)
{
    const fast_span op = c->node->op;
    char text[FAST_SPAN_TEXT_MAX];

    for (int i = 0; c->node->domain.size == 0 && i < UNARIES; i++)
        if (fast__span_is(op, unaries[i].name)) {
            FAST_TRY(need_inputs(c, 1));
            return run_unary(c, &unaries[i]);
        }
    for (int i = 0; c->node->domain.size == 0 && i < BINARIES; i++)
        if (fast__span_is(op, binaries[i].name)) {
            FAST_TRY(need_inputs(c, binaries[i].variadic ? 1 : 2));
            return run_binary(c, &binaries[i]);
        }
    for (int i = 0; c->node->domain.size == 0 && i < REDUCTIONS; i++)
        if (fast__span_is(op, reductions[i])) {
            FAST_TRY(need_inputs(c, 1));
            return run_reduce(c, i);
        }
    for (size_t t = 0; c->node->domain.size == 0 && t < sizeof tables / sizeof tables[0]; t++)
        for (const fast_onnx_operator *row = tables[t]; row->name; row++)
            if (fast__span_is(op, row->name)) {
                FAST_TRY(need_inputs(c, row->inputs_min));
                return row->run(c);
            }
    return fast__onnx_fail(FAST_ENOTSUP, c->node, "operator %s is not supported",
                           fast__span_text(op, text));
}
