/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sufficient factors: a dense layer's gradient is a sum of outer products, so the batch's output
 * gradients u and inputs v represent it in rows (O + C) floats instead of O C. Each worker sends
 * its factors to all other workers, and all multiply out the same sum (SFB: Xie et al. 2015):
 *
 *     sum_i g_i = sum over ranks i, and rows r of each in order, of u_ir v_ir'
 *
 * which is the sum of the products to rounding, and the same bits at every worker, on every
 * transport. The form is chosen for each layer (Poseidon: Zhang et al. 2017), by the floats that a
 * worker sends; a message counts as MESSAGE_FLOATS more, about latency times bandwidth:
 *
 *     factors    (P - 1) (rows (O + C) + MESSAGE_FLOATS)
 *     allreduce  2 (P - 1) / P  O C
 *     servers    (P + S - 2) / S  O C      a node with a worker and one of S servers: its gradient
 *                                          to the other servers, and weights to the other workers
 *
 * Poseidon's choice is between the first and the last (ps_hybrid.c); for S = P the last two are
 * equal.
 *
 * Layers of other kinds, and foreign learners, have no factors and are summed as they are. Cost in
 * computing: the products of all P workers, at each of them.
 */
#include "strategy/factoring.h"

#include "base/err.h"
#include "base/memory.h"

#include <stdio.h>
#include <string.h>

enum { MESSAGE_FLOATS = 2048 };

bool fast__factors_pay(int mode, double factors, double plain)
{
    FAST_ASSERT(mode >= FAST_FACTORS_AUTO && mode <= FAST_FACTORS_NO);
    return mode == FAST_FACTORS_YES || (mode == FAST_FACTORS_AUTO && factors < plain);
}

void fast__factors_tell(fast_trainer *t, const fast_factored_layer *what, bool chosen,
                        double factors, double plain)
{
    char text[256];

    FAST_ASSERT(what->name != NULL);
    snprintf(text, sizeof text,
             "%s (%lld x %lld, %lld samples) is sent as %s: %.0f bytes a step as factors, %.0f as "
             "a gradient",
             what->name, (long long)what->outputs, (long long)what->inputs,
             (long long)what->samples, chosen ? "factors" : "a gradient",
             factors * (double)sizeof(float), plain * (double)sizeof(float));
    fast_trainer_note(t, text);
}

double fast__factoring_floats(const fast_trainer *t, int64_t servers,
                              const fast_factored_layer *what, double *plain_out)
{
    const double peers = (double)(t->workers - 1),
                 size = (double)what->outputs * (double)what->inputs;
    const double row = (double)(what->outputs + what->inputs);
    const double owners = (double)(servers > 0 ? servers : t->workers);

    FAST_ASSERT(t->workers > 1);
    FAST_ASSERT(servers >= 0);
    *plain_out = (peers + owners - 1) / owners * size;
    return peers * ((double)what->samples * row + MESSAGE_FLOATS);
}

/* Choose the form of layer i; if it is factors, prepare their exchange. */
static fast_err choose(fast_factoring *f, int64_t i, int mode, int64_t servers,
                       const fast_factored_layer *what)
{
    fast_trainer *t = f->t;
    double plain;
    const double factors = fast__factoring_floats(t, servers, what, &plain);
    const bool chosen = fast__factors_pay(mode, factors, plain);

    FAST_ASSERT(f->count <= i);
    fast__factors_tell(t, what, chosen, factors, plain);
    if (!chosen)
        return FAST_OK;
    fast_factor_layer *layer = &f->layers[f->count++];
    *layer = (fast_factor_layer){ .number = i, .what = *what };
    FAST_TRY(fast__allgatherv_init(&layer->spread, t->group, "factors"));
    return fast_trainer_use_factors(t, i, true);
}

void fast__factoring_cost(const fast_trainer *t, int mode, int64_t servers, fast_cost *out)
{
    fast_factored_layer what;

    FAST_ASSERT(t->count > 0);
    if (mode == FAST_FACTORS_NO || t->workers == 1 || t->workers > FAST_FACTORS_WORKERS_MAX)
        return;
    for (int64_t i = 0; fast_trainer_factored_layer(t, i, &what); i++) {
        double plain;
        const double factors = fast__factoring_floats(t, servers, &what, &plain);

        if (!fast__factors_pay(mode, factors, plain))
            continue;
        out->round_trips++;
        out->waits += factors / (double)t->count;
    }
}

fast_err fast__factoring_open(fast_trainer *t, int mode, int64_t servers, fast_factoring *out)
{
    fast_factored_layer what;
    int64_t count = 0;
    fast_err err;

    *out = (fast_factoring){ .t = t };
    if (mode == FAST_FACTORS_NO || t->workers == 1)
        return FAST_OK;
    /* Every worker holds the factors of all workers until they are multiplied out. */
    if (t->workers > FAST_FACTORS_WORKERS_MAX) {
        if (mode == FAST_FACTORS_AUTO)
            return FAST_OK;
        return fast__fail(FAST_EINVAL, "factors=yes takes at most %d workers, not %lld",
                          FAST_FACTORS_WORKERS_MAX, (long long)t->workers);
    }
    while (fast_trainer_factored_layer(t, count, &what))
        count++;
    if (count == 0)
        fast_trainer_note(t, "no layer's gradient has factors: all are summed as they are");
    FAST_TRY(fast__alloc("layers with factors", count, sizeof *out->layers, &out->layers));
    err = FAST_OK;
    for (int64_t i = 0; i < count && !err; i++) {
        (void)fast_trainer_factored_layer(t, i, &what);
        err = choose(out, i, mode, servers, &what);
    }
    FAST_ASSERT(out->count <= count);
    if (err)
        fast__factoring_close(out);
    return err;
}

void fast__factoring_drop(fast_factoring *f)
{
    FAST_ASSERT(f->count == 0 || f->layers);
    for (int64_t i = 0; i < f->count; i++)
        fast__allgatherv_drop(&f->layers[i].spread);
}

void fast__factoring_close(fast_factoring *f)
{
    for (int64_t i = 0; i < f->count; i++) {
        fast__allgatherv_fini(&f->layers[i].spread);
        const fast_err err = fast_trainer_use_factors(f->t, f->layers[i].number, false);
        FAST_ASSERT(!err || !f->layers[i].spread.parts); /* it has its memory */
    }
    fast__free(f->layers);
    *f = (fast_factoring){ .t = f->t };
}

fast_factor_layer *fast__factoring_find(const fast_factoring *f, int64_t offset)
{
    FAST_ASSERT(offset >= 0);
    for (int64_t i = 0; i < f->count; i++)
        if (f->layers[i].what.offset == offset)
            return &f->layers[i];
    return NULL;
}

fast_err fast__factoring_start(fast_factoring *f, fast_factor_layer *layer)
{
    fast_trainer *t = f->t;
    int64_t rows;
    const float *factors = fast_trainer_factors(t, layer->number, &rows);
    const size_t size =
        (size_t)(rows * (layer->what.outputs + layer->what.inputs)) * sizeof *factors;
    fast_buffer *buffer = NULL;

    FAST_ASSERT(rows >= 0 && rows <= layer->what.rows);
    FAST_TRY(fast_buffer_new(t->actor, size, &buffer));
    if (size > 0)
        memcpy(fast_buffer_data(buffer), factors, size);
    return fast__allgatherv_start(&layer->spread, &buffer, size);
}

fast_err fast__factoring_finish(fast_factoring *f, fast_factor_layer *layer, int64_t deadline)
{
    fast_trainer *t = f->t;
    const size_t row = (size_t)(layer->what.outputs + layer->what.inputs) * sizeof(float);
    const float *factors[FAST_FACTORS_WORKERS_MAX];
    int64_t rows[FAST_FACTORS_WORKERS_MAX];

    FAST_ASSERT(t->workers <= FAST_FACTORS_WORKERS_MAX);
    for (int64_t r = 0; r < t->workers; r++) {
        const fast_allgatherv_part *part = NULL;

        FAST_TRY(fast__allgatherv_wait(&layer->spread, r, deadline, &part));
        if (part->size % row != 0)
            return fast__fail(FAST_EINVAL,
                              "factors of %s from worker %lld have %zu bytes, not rows of %zu",
                              layer->what.name, (long long)r, part->size, row);
        factors[r] = part->data;
        rows[r] = (int64_t)(part->size / row);
    }
    /* The canonical order: ranks, and rows of each rank. All workers compute equal bits. */
    FAST_TRY(fast_trainer_multiply_factors(t, layer->number, factors, rows, t->workers,
                                           t->g + layer->what.offset));
    fast__allgatherv_drop(&layer->spread);
    return FAST_OK;
}
