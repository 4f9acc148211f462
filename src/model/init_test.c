/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Goal: initial weights follow their rules and depend on seed and segment only. Method: moments and
 * bounds of drawn segments against the formulas; products of orthogonal rows against the identity;
 * the same segment in two networks.
 */
#include "model/init.h"

#include "base/memory.h"
#include "model/network.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* A graph with its drawn weights. */
typedef struct drawn {
    fast_graph *graph;
    float *w;
    float *s;
} drawn;

static drawn draw(const char *text, uint64_t seed)
{
    drawn d = { 0 };

    if (fast__graph_parse(text, &d.graph))
        fail_msg("%s", fast_error_detail());
    d.w = calloc((size_t)d.graph->params.count + 1, sizeof(float));
    d.s = calloc((size_t)d.graph->state.count + 1, sizeof(float));
    d.w[d.graph->params.count] = 42;
    d.s[d.graph->state.count] = 42;
    fast__graph_init(d.graph, seed, 0, d.w, d.s);
    assert_true(d.w[d.graph->params.count] == 42);
    assert_true(d.s[d.graph->state.count] == 42);
    return d;
}

static void drop(drawn *d)
{
    fast__graph_free(d->graph);
    free(d->w);
    free(d->s);
}

static const fast_segment *find(const drawn *d, const char *name, const float **w_out)
{
    for (int64_t i = 0; i < d->graph->params.segment_count; i++) {
        const fast_segment *segment = &d->graph->params.segments[i];
        if (strcmp(segment->name, name) == 0) {
            *w_out = d->w + segment->offset;
            return segment;
        }
    }
    fail_msg("no segment %s", name);
    return NULL;
}

/* Mean near 0, standard deviation near `std`, nothing beyond `bound`. */
static void assert_moments(const drawn *d, const char *name, double std, double bound)
{
    const float *w = NULL;
    const fast_segment *segment = find(d, name, &w);
    const double n = (double)segment->count;
    double sum = 0;
    double square = 0;
    double max = 0;

    for (int64_t i = 0; i < segment->count; i++) {
        sum += (double)w[i];
        square += (double)w[i] * (double)w[i];
        max = fmax(max, fabs((double)w[i]));
    }
    if (fabs(sum / n) > 5 * std / sqrt(n) || fabs(sqrt(square / n) / std - 1) > 5 / sqrt(n) ||
        max > bound || max < 1.5 * std)
        fail_msg("%s: mean %g, deviation %g (not %g), largest %g", name, sum / n, sqrt(square / n),
                 std, max);
}

static void assert_all(const drawn *d, const char *name, float value)
{
    const float *w = NULL;
    const fast_segment *segment = find(d, name, &w);

    for (int64_t i = 0; i < segment->count; i++)
        assert_true(w[i] == value);
}

static void test_rules(void **state)
{
    (void)state;
    const double bound = 1 / sqrt(300.0);
    const double xavier = sqrt(6.0 / 500);
    drawn d = draw("input 3 10 10\n"
                   "conv 40 kernel=3 init=he\n"
                   "batch_norm\n"
                   "a: dense 200 from input\n"
                   "b: dense 200 from input init=xavier\n"
                   "c: dense 200 from input init=normal std=0.5\n"
                   "d: dense 200 from input init=zeros\n"
                   "f: flatten from batch_norm1\n"
                   "concat a b c d f\n"
                   "dense 3\n",
                   1);

    assert_moments(&d, "a.weight", bound / sqrt(3), bound);
    assert_moments(&d, "a.bias", bound / sqrt(3), bound);
    assert_moments(&d, "b.weight", xavier / sqrt(3), xavier);
    assert_moments(&d, "c.weight", 0.5, 0.5 * 6);
    assert_moments(&d, "conv1.weight", sqrt(2.0 / 27), 6 * sqrt(2.0 / 27));
    assert_all(&d, "b.bias", 0);
    assert_all(&d, "c.bias", 0);
    assert_all(&d, "d.weight", 0);
    assert_all(&d, "conv1.bias", 0);
    assert_all(&d, "batch_norm1.weight", 1);
    assert_all(&d, "batch_norm1.bias", 0);
    for (int i = 0; i < 40; i++) {
        assert_true(d.s[i] == 0);
        assert_true(d.s[40 + i] == 1);
    }
    drop(&d);
}

/* The vectors along the shorter side of rows x columns at w are orthonormal. */
static void assert_orthonormal(const float *w, int64_t rows, int64_t columns)
{
    const bool tall = rows > columns;
    const int64_t count = tall ? columns : rows;
    const int64_t length = tall ? rows : columns;

    for (int64_t i = 0; i < count; i++)
        for (int64_t k = 0; k <= i; k++) {
            double dot = 0;
            for (int64_t j = 0; j < length; j++)
                dot += tall ? (double)w[j * columns + i] * (double)w[j * columns + k]
                            : (double)w[i * columns + j] * (double)w[k * columns + j];
            if (fabs(dot - (i == k)) > 2e-6)
                fail_msg("%lld x %lld: product of %lld and %lld is %g", (long long)rows,
                         (long long)columns, (long long)i, (long long)k, dot);
        }
}

static void test_orthogonal(void **state)
{
    (void)state;
    static const int64_t sizes[][2] = { { 64, 64 }, { 20, 70 }, { 70, 20 }, { 1, 9 }, { 9, 1 } };
    const float *w = NULL;

    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        char text[96];
        snprintf(text, sizeof text, "input %d\na: dense %d init=orthogonal\nloss mse",
                 (int)sizes[i][1], (int)sizes[i][0]);
        drawn d = draw(text, i);
        find(&d, "a.weight", &w);
        assert_orthonormal(w, sizes[i][0], sizes[i][1]);
        assert_all(&d, "a.bias", 0);
        drop(&d);
    }
    drawn d = draw("input 3 8 8\nconv 5 kernel=3 init=orthogonal\nflatten", 3);
    find(&d, "conv1.weight", &w);
    assert_orthonormal(w, 5, 27);
    drop(&d);
}

static void test_recurrent(void **state)
{
    (void)state;
    const float *w = NULL;
    drawn d = draw("input 5 7\nlstm 24 layers=2 forget=2\nt: lstm 24 init=torch\ngru 24\n", 9);

    find(&d, "lstm1.weight_hh_l1", &w);
    for (int gate = 0; gate < 4; gate++)
        assert_orthonormal(w + gate * 24 * 24, 24, 24);
    find(&d, "gru1.weight_hh_l0", &w);
    for (int gate = 0; gate < 3; gate++)
        assert_orthonormal(w + gate * 24 * 24, 24, 24);
    assert_moments(&d, "lstm1.weight_ih_l0", sqrt(6.0 / 31) / sqrt(3), sqrt(6.0 / 31));
    find(&d, "lstm1.bias_ih_l0", &w);
    for (int i = 0; i < 96; i++)
        assert_true(w[i] == (i >= 24 && i < 48 ? 2.0f : 0.0f));
    assert_all(&d, "lstm1.bias_hh_l0", 0);
    assert_all(&d, "gru1.bias_ih_l0", 0);
    assert_moments(&d, "t.weight_ih_l0", 1 / sqrt(24.0) / sqrt(3), 1 / sqrt(24.0));
    assert_moments(&d, "t.bias_hh_l0", 1 / sqrt(24.0) / sqrt(3), 1 / sqrt(24.0));
    drop(&d);
}

static void test_embed_and_attention(void **state)
{
    (void)state;
    drawn d = draw("input 30 tokens=50\n"
                   "embed 32 position=yes std=0.02\nattention 4 init=torch\ndense 5",
                   2);

    assert_moments(&d, "embed1.weight", 0.02, 0.12);
    assert_moments(&d, "embed1.position.weight", 0.02, 0.12);
    assert_moments(&d, "attention1.in_proj_weight", sqrt(6.0 / 128) / sqrt(3), sqrt(6.0 / 128));
    assert_moments(&d, "attention1.out_proj.weight", 1 / sqrt(32.0) / sqrt(3), 1 / sqrt(32.0));
    assert_all(&d, "attention1.in_proj_bias", 0);
    assert_all(&d, "attention1.out_proj.bias", 0);
    drop(&d);
    d = draw("input 30 tokens=50\nembed 32 init=torch", 2);
    assert_moments(&d, "embed1.weight", 1, 6);
    drop(&d);
}

/* The gain is the length of each row, so that the effective weight is v itself. */
static void test_gain(void **state)
{
    (void)state;
    const float *v = NULL;
    const float *g = NULL;
    drawn d = draw("input 4 6 6\nconv 5 kernel=3 weight_norm=yes\nflatten", 5);

    find(&d, "conv1.weight_v", &v);
    find(&d, "conv1.weight_g", &g);
    for (int o = 0; o < 5; o++) {
        double square = 0;
        for (int i = 0; i < 36; i++)
            square += (double)v[o * 36 + i] * (double)v[o * 36 + i];
        assert_true(fabs(sqrt(square) - (double)g[o]) < 1e-6);
    }
    drop(&d);
}

/* Same seed and segment: same bits, whatever else the network holds. Other seed: other bits. */
static void test_streams(void **state)
{
    (void)state;
    const size_t size = 20 * 10 * sizeof(float);
    drawn a = draw("input 10\ndense 20\ndense 5", 7);
    drawn b = draw("input 10\ndense 20\nrelu\ndense 20\ndense 7", 7);
    drawn c = draw("input 10\ndense 20\ndense 5", 8);

    assert_memory_equal(a.w, b.w, size);
    assert_memory_not_equal(a.w, c.w, size);
    /* Segments differ from each other. */
    assert_memory_not_equal(b.w, b.w + 220, size);
    drop(&a);
    drop(&b);
    drop(&c);
}

/* Layers that are drawn alone have the bits of the whole model, and no other element changes. */
static void test_layers(void **state)
{
    (void)state;
    drawn all =
        draw("input 4 6 6\nconv 5 kernel=3 weight_norm=yes\nbatch_norm\nflatten\ndense 7", 5);
    drawn part =
        draw("input 4 6 6\nconv 5 kernel=3 weight_norm=yes\nbatch_norm\nflatten\ndense 7", 6);
    const fast_layout *params = &all.graph->params, *values = &all.graph->state;
    bool layers[8] = { false };

    assert_in_range(all.graph->node_count, 5, 8);
    for (int n = 1; n < all.graph->node_count; n += 3) /* conv, dense */
        layers[n] = true;
    for (int64_t i = 0; i < params->count; i++)
        part.w[i] = -7;
    for (int64_t i = 0; i < values->count; i++)
        part.s[i] = -7;
    fast__graph_init_layers(part.graph, 5, layers, part.w, part.s);
    for (int64_t k = 0; k < params->segment_count; k++)
        for (int64_t i = 0; i < params->segments[k].count; i++) {
            const int64_t at = params->segments[k].offset + i;

            assert_true(part.w[at] == (layers[params->segments[k].layer] ? all.w[at] : -7));
        }
    for (int64_t i = 0; i < values->count; i++)
        assert_true(part.s[i] == -7);
    drop(&all);
    drop(&part);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_rules),     cmocka_unit_test(test_orthogonal),
        cmocka_unit_test(test_recurrent), cmocka_unit_test(test_embed_and_attention),
        cmocka_unit_test(test_gain),      cmocka_unit_test(test_streams),
        cmocka_unit_test(test_layers),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
