/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Gradients that are left as factors. A strategy names the layers; while a gradient is computed the
 * learner offers the factors of each dense layer, and those of the named ones are copied, samples
 * outermost, to memory of the seat: the product is never made here. Who needs it composes it from
 * its own and others' factors.
 *
 * Memory: rows (outputs + inputs) floats for each layer that is named. Simulated time: a gradient
 * is charged with its product as ever, so composing charges for the rows of others alone:
 * 2 outputs inputs operations for each, and the matrix once through memory.
 */
#include "run/team.h"

#include "base/memory.h"

/* A layer that was asked for. */
typedef struct fast_taken {
    fast_factored layer; /* what it is */
    int64_t segment;     /* its number */
    bool wanted;         /* from the next gradient on */
    int64_t rows;        /* of the last gradient */
    float *memory;       /* of its factors; NULL: it was never wanted */
} fast_taken;

static const fast_learner *learner_of(const fast_seat *seat)
{
    return seat->learner ? seat->learner : seat->team->run->learner;
}

static bool describe(const fast_seat *seat, int64_t i, fast_factored *out, int64_t *segment_out)
{
    const fast_learner *learner = learner_of(seat);
    fast_factorable what;

    FAST_ASSERT(i >= 0);
    if (!learner->ops->factorable || !learner->ops->factorable(learner, i, &what))
        return false;
    const fast_segment *s = &learner->params.segments[what.segment];
    FAST_ASSERT(s->rank >= 2 && s->shape[0] > 0);
    *out = (fast_factored){ .name = s->name,
                            .offset = s->offset,
                            .outputs = s->shape[0],
                            .inputs = s->count / s->shape[0],
                            .samples = what.samples,
                            .rows = what.rows };
    *segment_out = what.segment;
    return true;
}

bool fast_trainer_factored(const fast_trainer *t, int64_t i, fast_factored *out)
{
    int64_t segment;

    return describe(t->run, i, out, &segment);
}

/* A place for every layer that could be asked for. */
static fast_err make_places(fast_seat *seat)
{
    fast_factored layer;
    int64_t segment, count = 0;

    while (describe(seat, count, &layer, &segment))
        count++;
    FAST_TRY(fast__alloc("layers with factors", count, sizeof *seat->taken, &seat->taken));
    seat->taken_count = count;
    for (int64_t i = 0; i < count; i++)
        (void)describe(seat, i, &seat->taken[i].layer, &seat->taken[i].segment);
    return FAST_OK;
}

fast_err fast_trainer_factor(fast_trainer *t, int64_t i, bool wanted)
{
    fast_seat *seat = t->run;
    int64_t size;

    FAST_ASSERT(seat->learner != NULL);
    if (!seat->taken)
        FAST_TRY(make_places(seat));
    FAST_ASSERT(i >= 0 && i < seat->taken_count);
    fast_taken *taken = &seat->taken[i];
    if (wanted && !taken->memory) {
        if (!fast__mul_size(taken->layer.rows, taken->layer.outputs + taken->layer.inputs, &size))
            return fast__fail(FAST_ENOMEM, "factors of %lld rows", (long long)taken->layer.rows);
        FAST_TRY(fast__alloc("a layer's factors", size, sizeof(float), &taken->memory));
    }
    taken->wanted = wanted;
    taken->rows = 0;
    return FAST_OK;
}

void fast__factors_begin(fast_seat *seat)
{
    for (int64_t i = 0; seat->taken && i < seat->taken_count; i++)
        seat->taken[i].rows = 0;
}

bool fast__factors_take(fast_seat *seat, const fast_factors *factors, int64_t *offset_out,
                        int64_t *count_out)
{
    for (int64_t i = 0; i < seat->taken_count; i++) {
        fast_taken *taken = &seat->taken[i];

        if (!taken->wanted || taken->segment != factors->segment)
            continue;
        FAST_ASSERT(factors->rows <= taken->layer.rows);
        fast__factors_pack(factors, taken->memory);
        taken->rows = factors->rows;
        *offset_out = taken->layer.offset;
        *count_out = taken->layer.outputs * taken->layer.inputs;
        return true;
    }
    return false;
}

void fast__factors_forget(fast_seat *seat)
{
    for (int64_t i = 0; seat->taken && i < seat->taken_count; i++)
        seat->taken[i].wanted = false;
}

void fast__factors_free(fast_seat *seat)
{
    for (int64_t i = 0; seat->taken && i < seat->taken_count; i++)
        fast__free(seat->taken[i].memory);
    fast__free(seat->taken);
    seat->taken = NULL;
}

const float *fast_trainer_factors(const fast_trainer *t, int64_t i, int64_t *rows_out)
{
    const fast_seat *seat = t->run;

    FAST_ASSERT(seat->taken != NULL && i >= 0 && i < seat->taken_count);
    FAST_ASSERT(seat->taken[i].wanted);
    *rows_out = seat->taken[i].rows;
    return seat->taken[i].memory;
}

enum { PARTS = 64 }; /* that are composed at a time */

fast_err fast_trainer_compose(fast_trainer *t, int64_t i, const float *const *factors,
                              const int64_t *rows, int64_t count, float *y)
{
    fast_factored layer;
    fast_outer parts[PARTS];
    const int64_t begin = fast_now(t->actor);
    double others = 0; /* rows */

    if (count < 0 || count > PARTS)
        return fast__fail(FAST_EINVAL, "factors of %lld workers; at most %d are multiplied out",
                          (long long)count, PARTS);
    if (!fast_trainer_factored(t, i, &layer))
        return fast__fail(FAST_EINVAL, "there is no layer %lld with factors", (long long)i);
    const int64_t size = layer.outputs * layer.inputs;
    for (int64_t p = 0; p < count; p++) {
        parts[p] = (fast_outer){ factors[p], factors[p] + rows[p] * layer.outputs, rows[p],
                                 layer.outputs };
        others += p > 0 ? (double)rows[p] : 0;
    }
    fast__factors_compose(parts, count, layer.inputs, 0, size, y);
    fast__count(&t->actor->counters.compute_ns, fast_now(t->actor) - begin);
    return fast_charge(t->actor, 2 * others * (double)size, (double)sizeof(float) * (double)size);
}

void fast_trainer_note(fast_trainer *t, const char *text)
{
    fast_seat *seat = t->run;
    fast_run *run = seat->team->run;

    if (t->rank != 0 || !seat->learner)
        return;
    fast__team_lock(seat);
    run->actor = t->actor;
    fast__run_tell(run, FAST_EVENT_NOTE, text);
    run->actor = NULL;
    fast__team_unlock(seat);
}
