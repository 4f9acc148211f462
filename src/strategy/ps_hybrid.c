/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Hybrid communication (HybComm; Zhang et al., "Poseidon", 2017). For each layer the cheaper of two
 * ways is chosen, by the floats that a node sends (factoring.c):
 *
 *     servers   the gradient goes to the servers, which update the weights and send them back
 *     factors   a dense layer's sufficient factors go to all other workers; each multiplies out the
 *               same sum, and updates its own copy of the layer
 *
 * Both start when the layer's gradient is final, while earlier layers are computed. The servers
 * hold the rest of the model, without the layers of the second kind, as one packed vector:
 *
 *     model    | conv1 | conv2 | dense1 (factors) | dense2 |
 *     packed   | conv1 | conv2 | dense2 |
 *
 * The update rule has its state at the server for the first kind, at every worker for the second.
 * Bits are those of allreduce with the same layers as factors.
 */
#include "base/memory.h"
#include "strategy/ps.h"
#include "tensor/vector.h"

/* True if layers may go to the other workers. */
static bool may_choose(const ps_config *c, const fast_trainer *t)
{
    FAST_ASSERT(t->workers > 0);
    return c->hybrid && t->workers > 1 && t->workers <= FAST_FACTORS_WORKERS_MAX &&
           fast_trainer_codec_fit(t) == FAST_FIT_NONE;
}

/* True if a layer goes to the other workers. */
static bool is_cheaper(const fast_trainer *t, const ps_config *c, const fast_factored_layer *what)
{
    double plain;
    const double factors = fast__factoring_floats(t, fast__ps_shards(c, t->workers), what, &plain);

    FAST_ASSERT(what->outputs > 0 && what->inputs > 0);
    return fast__factors_pay(FAST_FACTORS_AUTO, factors, plain);
}

double fast__ps_hybrid_cost(const ps_config *c, const fast_trainer *t, fast_cost *out)
{
    fast_factored_layer what;
    double rest = (double)t->count;

    FAST_ASSERT(out != NULL);
    if (!may_choose(c, t))
        return 1;
    fast__factoring_cost(t, FAST_FACTORS_AUTO, fast__ps_shards(c, t->workers), out);
    for (int64_t i = 0; fast_trainer_factored_layer(t, i, &what); i++)
        if (is_cheaper(t, c, &what))
            rest -= (double)what.outputs * (double)what.inputs;
    return rest / (double)t->count;
}

/* List the ranges between the layers that go to the other workers: none where there is no such
 * layer, or nothing besides. */
static fast_err list_segments(const fast_trainer *t, const ps_config *c, ps_hybrid *h)
{
    fast_factored_layer what;
    int64_t layers = 0, at = 0, end = 0;

    FAST_ASSERT(h->count == 0);
    while (fast_trainer_factored_layer(t, layers, &what))
        layers++;
    FAST_TRY(fast__alloc("segments", layers + 1, sizeof *h->segments, &h->segments));
    for (int64_t i = 0; i <= layers; i++, at = end) {
        const bool last = !fast_trainer_factored_layer(t, i, &what);

        if (!last && !is_cheaper(t, c, &what)) {
            end = at;
            continue;
        }
        const int64_t stop = last ? t->count : what.offset;
        if (stop > at)
            h->segments[h->count++] = (ps_segment){ at, stop - at, h->floats };
        h->floats += stop - at;
        end = last ? stop : stop + what.outputs * what.inputs;
    }
    FAST_ASSERT(h->floats > 0); /* biases are no factors */
    if (h->floats == t->count)
        h->count = 0;
    return FAST_OK;
}

/* Copy between the model and the packed vector. */
static void pack(const ps_hybrid *h, const float *from, float *to)
{
    FAST_ASSERT(from != NULL && to != NULL);
    for (int64_t i = 0; i < h->count; i++)
        fast__vector_copy(h->segments[i].count, from + h->segments[i].offset,
                          to + h->segments[i].packed);
}

fast_err fast__ps_hybrid_init(fast_trainer *t, const ps_config *c, ps_hybrid *out)
{
    const fast_device *device = fast__device_of(t->w);

    FAST_ASSERT(t->count > 0);
    *out = (ps_hybrid){ 0 };
    if (c->hybrid && fast_trainer_codec_fit(t) != FAST_FIT_NONE)
        fast_trainer_note(t, "the codec encodes whole gradients, so no layer is sent as factors");
    if (!may_choose(c, t))
        return FAST_OK;
    FAST_TRY(list_segments(t, c, out));
    if (t->g) /* also notes the choice of each layer */
        FAST_TRY(fast__factoring_open(t, FAST_FACTORS_AUTO, fast__ps_shards(c, t->workers),
                                      &out->factors));
    if (out->count == 0)
        return FAST_OK;
    FAST_TRY(fast__vector_new(device, "the servers' weights", out->floats, &out->w));
    if (t->g)
        FAST_TRY(fast__vector_new(device, "the servers' gradient", out->floats, &out->g));
    pack(out, t->w, out->w);
    return FAST_OK;
}

void fast__ps_hybrid_fini(ps_hybrid *h)
{
    FAST_ASSERT(h->count == 0 || h->segments);
    if (h->factors.t)
        fast__factoring_close(&h->factors);
    fast__free(h->segments);
    fast__vector_free(h->w);
    fast__vector_free(h->g);
    *h = (ps_hybrid){ 0 };
}

bool fast__ps_hybrid_report(ps_writer *wr, int64_t *offset, int64_t count, fast_err *err_out)
{
    ps_hybrid *h = &wr->layers.hybrid;

    FAST_ASSERT(*offset >= 0 && count >= 0);
    if (h->count == 0)
        return false;
    fast_factor_layer *layer = fast__factoring_find(&h->factors, *offset);
    if (layer && !*err_out)
        *err_out = fast__factoring_start(&h->factors, layer);
    if (layer)
        return true;
    /* Every range is a layer's or lies in a segment. */
    const ps_segment *s = h->segments;
    while (*offset >= s->offset + s->count)
        s++;
    FAST_ASSERT(s < h->segments + h->count && *offset >= s->offset);
    FAST_ASSERT(*offset + count <= s->offset + s->count);
    const int64_t to = s->packed + *offset - s->offset;
    fast__vector_copy(count, wr->t->g + *offset, h->g + to);
    *offset = to;
    return false;
}

void fast__ps_hybrid_unpack(const ps_writer *wr)
{
    const ps_hybrid *h = &wr->layers.hybrid;

    FAST_ASSERT(h->count == 0 || h->w);
    for (int64_t i = 0; i < h->count; i++)
        fast__vector_copy(h->segments[i].count, h->w + h->segments[i].packed,
                          wr->t->w + h->segments[i].offset);
}

fast_err fast__ps_hybrid_finish(ps_writer *wr)
{
    fast_trainer *t = wr->t;
    fast_factoring *f = &wr->layers.hybrid.factors;

    FAST_ASSERT(fast_trainer_can_update_range(t));
    for (int64_t i = 0; i < f->count; i++) {
        const fast_factored_layer *what = &f->layers[i].what;

        FAST_TRY(fast__factoring_finish(f, &f->layers[i], FAST_SOON));
        fast_trainer_update_range(t, t->step, t->lr, t->w + what->offset, t->g + what->offset,
                                  1.0f / (float)t->workers, what->offset,
                                  what->outputs * what->inputs);
    }
    return FAST_OK;
}

void fast__ps_hybrid_update(const ps_owner *o, const fast_space_update *u, double lr, float *w,
                            const float *x, float scale)
{
    const ps_hybrid *h = &o->layers->hybrid;

    FAST_ASSERT(u->offset + u->count <= h->floats);
    for (int64_t i = 0; i < h->count; i++) {
        const ps_segment *s = &h->segments[i];
        const int64_t low = u->offset > s->packed ? u->offset : s->packed;
        const int64_t end = u->offset + u->count, stop = s->packed + s->count;
        const int64_t high = end < stop ? end : stop;

        if (low < high)
            fast_trainer_update_range(o->t, o->begun + o->updates, lr, w + (low - u->offset),
                                      x + (low - u->offset), scale, s->offset + low - s->packed,
                                      high - low);
    }
}
