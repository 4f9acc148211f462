/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Factors to servers: a dense layer's gradient goes to the servers as the batch's output gradients
 * and inputs, and they multiply them out (Project Adam: Chilimbi et al. 2014). A layer of O x C of
 * which s servers hold something is written, by floats, as
 *
 *     factors   rows (O + s C)        gradient   O C
 *
 * and `auto` takes the smaller. Servers answer with whole weights either way. Computing moves from
 * the workers to the servers: 2 rows O C operations for each write. The update equals the plain one
 * up to rounding: the product of one worker is summed by row, and products of several workers are
 * summed as their gradients would be.
 */
#include "base/err.h"
#include "base/memory.h"
#include "strategy/ps.h"

bool fast__ps_may_factor(const ps_config *c)
{
    FAST_ASSERT(c->push > 0);
    return c->send == PS_SEND_GRADIENTS && c->push == 1 && c->value == 0 && c->proxies == 0 &&
           !c->tasks && c->barrier == 0;
}

bool fast__ps_in_pieces(const ps_config *c, const ps_layers *layers)
{
    FAST_ASSERT(layers->count >= 0);
    return c->overlap && fast__ps_may_factor(c) && layers->count == 0;
}

/* Count the servers that hold a range of the layer: all ranges are as equal as possible. */
static int64_t holders(const fast_trainer *t, int64_t shards, const fast_factored_layer *what)
{
    const int64_t end = what->offset + what->outputs * what->inputs;
    int64_t count = 0, at = 0;

    for (int64_t i = 0; i < shards; i++) {
        const int64_t next = at + t->count / shards + (i < t->count % shards);

        count += next > what->offset && at < end;
        at = next;
    }
    FAST_ASSERT(at == t->count && count > 0);
    return count;
}

/* Compare the floats of a write as factors and as a gradient, and report the choice. */
static bool choose(fast_trainer *t, const ps_config *c, int mode, const fast_factored_layer *what)
{
    const int64_t s = holders(t, fast__ps_shards(c, t->workers), what);
    const double factors =
        (double)what->samples * ((double)what->outputs + (double)s * (double)what->inputs);
    const double plain = (double)what->outputs * (double)what->inputs;
    const bool chosen = fast__factors_pay(mode, factors, plain);

    FAST_ASSERT(factors >= 0 && plain > 0);
    fast__factors_tell(t, what, chosen, factors, plain);
    return chosen;
}

/* Set *mode to the option, or to NO where factors are impossible. FAST_EINVAL, with the reason, if
 * the user asked for them. */
static fast_err choose_mode(fast_trainer *t, const ps_config *c, int *mode)
{
    const bool coded = fast_trainer_codec_fit(t) != FAST_FIT_NONE;

    FAST_ASSERT(c->factors >= FAST_FACTORS_AUTO && c->factors <= FAST_FACTORS_NO);
    *mode = c->factors;
    if (*mode == FAST_FACTORS_NO)
        return FAST_OK;
    if (coded && *mode == FAST_FACTORS_YES)
        return fast__fail(FAST_EINVAL, "ps: factors are sent as they are, and a codec encodes the "
                                       "whole gradient; leave out one of them");
    /* A local step needs the gradient that factors stand for. */
    if (coded || !fast__ps_may_factor(c) || c->fetch > 1 || c->cache_age > 0) {
        fast_trainer_note(t, coded ? "the codec encodes whole gradients: none is sent as factors"
                                   : "workers write no whole gradients: none is sent as factors");
        *mode = FAST_FACTORS_NO;
    }
    return FAST_OK;
}

fast_err fast__ps_layers_new(fast_trainer *t, const ps_config *c, ps_layers *out)
{
    fast_factored_layer what;
    int64_t count = 0;
    int mode;
    fast_err err;

    *out = (ps_layers){ 0 };
    err = fast__ps_hybrid_init(t, c, &out->hybrid);
    if (err) {
        fast__ps_layers_free(out);
        return err;
    }
    FAST_TRY(choose_mode(t, c, &mode));
    while (mode != FAST_FACTORS_NO && fast_trainer_factored_layer(t, count, &what))
        count++;
    if (count == 0)
        return FAST_OK;
    err = fast__alloc("layers with factors", count, sizeof *out->layers, &out->layers);
    if (!err)
        err = fast__alloc("layers with factors", count, sizeof *out->numbers, &out->numbers);
    if (!err)
        err = fast__alloc("layers with factors", count, sizeof *out->factors, &out->factors);
    if (!err)
        err = fast__alloc("layers with factors", count, sizeof *out->rows, &out->rows);
    for (int64_t i = 0; i < count && !err; i++) {
        (void)fast_trainer_factored_layer(t, i, &what);
        if (!choose(t, c, mode, &what))
            continue;
        out->layers[out->count] =
            (fast_space_layer){ what.offset, what.outputs, what.inputs, what.rows };
        out->numbers[out->count++] = i;
        /* A server only needs the shapes. */
        if (t->g)
            err = fast_trainer_use_factors(t, i, true);
    }
    FAST_ASSERT(out->count <= count);
    if (err)
        fast__ps_layers_free(out);
    return err;
}

void fast__ps_layers_free(ps_layers *l)
{
    FAST_ASSERT(l->count == 0 || l->layers);
    fast__ps_hybrid_fini(&l->hybrid);
    fast__free(l->layers);
    fast__free(l->numbers);
    fast__free(l->factors);
    fast__free(l->rows);
    *l = (ps_layers){ 0 };
}

void fast__ps_layers_take(const fast_trainer *t, ps_layers *l)
{
    FAST_ASSERT(t->g != NULL);
    for (int64_t i = 0; i < l->count; i++)
        l->factors[i] = fast_trainer_factors(t, l->numbers[i], &l->rows[i]);
}
