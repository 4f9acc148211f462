/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Initial weights. A segment is drawn from a Philox stream of its own, keyed by the seed and the
 * segment's index alone, so that replicas, shards and resumed runs start with the same values.
 *
 *   uniform      w = a (2 u - 1)   Xavier (Glorot, Bengio 2010): a = sqrt(6 / (fan_in + fan_out));
 *                                  PyTorch's dense and conv: a = 1 / sqrt(fan_in)
 *   normal       w = a n           He et al. 2015: a = sqrt(2 / fan_in)
 *   orthogonal   Gram-Schmidt on a normal matrix (Saxe et al. 2013), the shorter side's vectors
 *                made orthonormal, sums in double. Each vector is projected twice, which leaves
 *                rounding errors only (Giraud et al. 2005), and needs no memory besides w.
 *
 * Cost: linear, but orthogonal: 4 n^2 m for n vectors of m.
 */
#include "model/init.h"

#include "base/rng.h"
#include "model/network.h"

#include <math.h>
#include <string.h>

/* Translate a rule and the fans of a weight to the distribution and its scale, which the segment
 * stores; nothing is drawn yet. */
void fast__init_weight(fast_init_rule rule, double std, int64_t fan_in, int64_t fan_out,
                       fast_segment *segment)
{
    const double in = (double)fan_in;
    const double out = (double)fan_out;

    FAST_ASSERT(fan_in > 0);
    FAST_ASSERT(fan_out > 0);
    switch (rule) {
    case FAST_INIT_RULE_TORCH:
        segment->init = FAST_INIT_UNIFORM;
        segment->init_a = (float)(1 / sqrt(in));
        break;
    case FAST_INIT_RULE_XAVIER:
        segment->init = FAST_INIT_UNIFORM;
        segment->init_a = (float)sqrt(6 / (in + out));
        break;
    case FAST_INIT_RULE_HE:
        segment->init = FAST_INIT_NORMAL;
        segment->init_a = (float)sqrt(2 / in);
        break;
    case FAST_INIT_RULE_ORTHOGONAL:
        segment->init = FAST_INIT_ORTHOGONAL;
        segment->init_a = 1;
        break;
    case FAST_INIT_RULE_NORMAL:
        segment->init = FAST_INIT_NORMAL;
        segment->init_a = (float)std;
        break;
    case FAST_INIT_RULE_ZEROS:
        segment->init = FAST_INIT_ZEROS;
        break;
    }
}

/* PyTorch draws biases within 1 / sqrt(fan_in); all other rules leave them 0. */
void fast__init_bias(fast_init_rule rule, int64_t fan_in, fast_segment *segment)
{
    FAST_ASSERT(fan_in > 0);
    if (rule != FAST_INIT_RULE_TORCH)
        return;
    segment->init = FAST_INIT_UNIFORM;
    segment->init_a = (float)(1 / sqrt((double)fan_in));
}

/* A matrix as vectors: element j of vector i is w[i * vector + j * element]. */
typedef struct init_vectors {
    float *w;        /* element 0 of vector 0 */
    int64_t count;   /* number of vectors */
    int64_t length;  /* elements of a vector */
    int64_t vector;  /* distance from vector to vector */
    int64_t element; /* distance from element to element */
} init_vectors;

/* The product of vectors i and k, in four sums so that the additions overlap. */
static double vectors_dot(const init_vectors *m, int64_t i, int64_t k)
{
    const float *x = m->w + i * m->vector;
    const float *y = m->w + k * m->vector;
    const int64_t e = m->element;
    double sum[4] = { 0 };
    int64_t j = 0;

    for (; j + 4 <= m->length; j += 4)
        for (int64_t l = 0; l < 4; l++)
            sum[l] += (double)x[(j + l) * e] * (double)y[(j + l) * e];
    for (; j < m->length; j++)
        sum[0] += (double)x[j * e] * (double)y[j * e];
    return (sum[0] + sum[1]) + (sum[2] + sum[3]);
}

/* Remove from vector i its components along the vectors before it. Returns its length. */
static double vectors_project(const init_vectors *m, int64_t i)
{
    float *x = m->w + i * m->vector;

    for (int64_t k = 0; k < i; k++) {
        const float *y = m->w + k * m->vector;
        const double dot = vectors_dot(m, i, k);
        for (int64_t j = 0; j < m->length; j++)
            x[j * m->element] =
                (float)((double)x[j * m->element] - dot * (double)y[j * m->element]);
    }
    return sqrt(vectors_dot(m, i, i));
}

/* Multiply a vector by a. */
static void vectors_scale(const init_vectors *m, int64_t i, double a)
{
    for (int64_t j = 0; j < m->length; j++)
        m->w[i * m->vector + j * m->element] =
            (float)(a * (double)m->w[i * m->vector + j * m->element]);
}

/* Draw rows x columns at w: orthonormal rows, or columns if there are more rows, times `gain`. A
 * vector is drawn, projected, scaled to length 1, and projected once more. */
static void draw_orthogonal(fast_rng *rng, int64_t rows, int64_t columns, double gain, float *w)
{
    const bool tall = rows > columns;
    const init_vectors m = { .w = w,
                             .count = tall ? columns : rows,
                             .length = tall ? rows : columns,
                             .vector = tall ? 1 : columns,
                             .element = tall ? columns : 1 };

    FAST_ASSERT(m.count <= m.length);
    for (int64_t i = 0; i < m.count; i++) {
        double length = 0;
        /* A vector that depends on those before it is drawn again: with normal values this has
         * probability zero, and almost never happens in floating point. */
        while (length < 1e-6) {
            for (int64_t j = 0; j < m.length; j++)
                w[i * m.vector + j * m.element] = fast__rng_normal(rng);
            length = vectors_project(&m, i);
            if (length < 1e-6)
                continue;
            vectors_scale(&m, i, 1 / length);
            length = vectors_project(&m, i);
        }
        vectors_scale(&m, i, 1 / length);
    }
    for (int64_t i = 0; i < m.count; i++)
        vectors_scale(&m, i, gain);
}

/* Set a gain to the length of each row of its weight. */
static void draw_gain(const fast_graph *graph, const fast_segment *segment, const float *w,
                      float *out)
{
    const int64_t index = graph->nodes[segment->layer].weight[FAST_W_WEIGHT];
    const fast_segment *weight = &graph->params.segments[index];
    const int64_t columns = weight->count / weight->shape[0];
    const init_vectors m = { .w = (float *)w + weight->offset,
                             .count = weight->shape[0],
                             .length = columns,
                             .vector = columns,
                             .element = 1 };

    FAST_ASSERT(segment->count == weight->shape[0]);
    FAST_ASSERT(weight->offset < segment->offset);
    for (int64_t i = 0; i < m.count; i++)
        out[i] = (float)sqrt(vectors_dot(&m, i, i));
}

/* Draw the values of one segment.
 *
 *     GATES    square blocks of a recurrent weight, each orthogonal on its own
 *     FORGET   the second quarter of an lstm's bias, its forget gate, starts at `a`
 *     GAIN     the lengths of the weight's rows, so that weight norm starts as if it were absent
 */
static void draw_segment(const fast_graph *graph, const fast_segment *segment, fast_rng *rng,
                         float *w)
{
    float *out = w + segment->offset;
    const float a = segment->init_a;
    const int64_t n = segment->count;
    const int64_t rows = segment->shape[0];

    switch ((fast_init)segment->init) {
    case FAST_INIT_ZEROS:
    case FAST_INIT_ONES:
        for (int64_t i = 0; i < n; i++)
            out[i] = segment->init == FAST_INIT_ONES ? 1.0f : 0.0f;
        break;
    case FAST_INIT_UNIFORM:
        for (int64_t i = 0; i < n; i++)
            out[i] = a * (2 * fast__rng_uniform(rng) - 1);
        break;
    case FAST_INIT_NORMAL:
        for (int64_t i = 0; i < n; i++)
            out[i] = a * fast__rng_normal(rng);
        break;
    case FAST_INIT_ORTHOGONAL:
        draw_orthogonal(rng, rows, n / rows, (double)a, out);
        break;
    case FAST_INIT_GATES:
        for (int64_t i = 0; i < n; i += segment->shape[1] * segment->shape[1])
            draw_orthogonal(rng, segment->shape[1], segment->shape[1], (double)a, out + i);
        break;
    case FAST_INIT_FORGET:
        for (int64_t i = 0; i < n; i++)
            out[i] = i >= n / 4 && i < n / 2 ? a : 0.0f;
        break;
    case FAST_INIT_GAIN:
        draw_gain(graph, segment, w, out);
        break;
    }
}

/* Draw a vector of values, or copy those that came with the graph: the seed has nothing to choose
 * then. `layers`, by node, tells which; NULL: all. */
static void draw_layout(const fast_graph *graph, const fast_layout *layout, const bool *layers,
                        const float *initial, const uint64_t key[3], float *w)
{
    fast_rng rng;

    for (int64_t i = 0; i < layout->segment_count; i++) {
        const fast_segment *s = &layout->segments[i];

        if (layers && !layers[s->layer])
            continue;
        if (initial) {
            memcpy(w + s->offset, initial + s->offset, (size_t)s->count * sizeof *w);
            continue;
        }
        fast__rng_init(&rng, key[0], FAST_PURPOSE_INIT, key[1], key[2], (uint64_t)i);
        draw_segment(graph, s, &rng, w);
    }
}

/* Draw the parameters and the state. Streams of both differ by one word of their key. */
static void draw(const fast_graph *graph, uint64_t seed, uint64_t member, const bool *layers,
                 float *w, float *state)
{
    const float *initial = graph->initial;

    FAST_ASSERT(w != NULL || graph->params.count == 0);
    FAST_ASSERT(state != NULL || graph->state.count == 0);
    draw_layout(graph, &graph->params, layers, initial, (const uint64_t[3]){ seed, member, 0 }, w);
    draw_layout(graph, &graph->state, layers, initial ? initial + graph->params.count : NULL,
                (const uint64_t[3]){ seed, member, 1 }, state);
}

void fast__graph_init(const fast_graph *graph, uint64_t seed, uint64_t member, float *w,
                      float *state)
{
    draw(graph, seed, member, NULL, w, state);
}

void fast__graph_init_layers(const fast_graph *graph, uint64_t seed, const bool *layers, float *w,
                             float *state)
{
    FAST_ASSERT(layers != NULL);
    draw(graph, seed, 0, layers, w, state);
}
