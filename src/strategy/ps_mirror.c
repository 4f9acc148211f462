/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Mirrors: a model at each data centre, and none between them (Gaia: Hsieh et al. 2017). A proxy is
 * the server of its data centre; all others hold a mirror of its updates.
 *
 *     data centre k, round c:   g <- mean of its workers' gradients
 *                               d <- rule(w_k, g) - w_k;   own += d
 *                               add(significant part of d and of earlier ones) to all others
 *                               tick(c + 1) at all others
 *                               w_k <- w_0 + own + updates of the others, once they have all
 *                                      finished c + 1 - s rounds (mirror clocks)
 *
 * Between data centres travel changes alone, in both directions, and of them those that the codec
 * selects; the others wait in the codec's residual, one for each pair, while the data centre itself
 * uses them at once. An add of many bytes is announced, and the receiver's next read waits for it
 * (selective barrier). The last add sends all that waits: then the models are equal, to rounding.
 *
 * The updates of the others to data centre k are a space that its proxy owns, so that several may
 * arrive at once. With one data centre it is a synchronous group. Batch norm's statistics stay in
 * their data centre. Cost: for each pair of data centres and round the selected changes, one way.
 */
#include "strategy/ps_mirror.h"
#include "base/memory.h"
#include "space/space.h"
#include "tensor/vector.h"
#include "trainer/remember.h"

#include <stdio.h>
#include <string.h>

/* The updates of another data centre, which arrive by the space's function. */
static bool apply(void *ctx, const fast_space_update *u, float *w)
{
    ps_mirrors *m = ctx;

    FAST_ASSERT(u->tensor == 0);
    fast__vector_add(u->count, u->x, w);
    m->counts[u->from - m->ids[0]]++;
    return true;
}

/* Open the space of the updates of all other data centres to data centre `to`. */
static fast_err open_mirror(ps_mirrors *m, int64_t to)
{
    fast_trainer *t = m->t;
    const fast_space_tensor tensor = { "w", t->count, t->w };
    int64_t writers[PS_MIRRORS_MAX], count = 0;
    char name[32];

    FAST_ASSERT(to >= 0 && to < m->count);
    for (int64_t k = 0; k < m->count; k++)
        if (k != to)
            writers[count++] = m->ids[k];
    snprintf(name, sizeof name, "mirror %lld", (long long)to);
    return fast_trainer_space(t,
                              &(fast_space_options){ .name = name,
                                                     .tensors = &tensor,
                                                     .tensor_count = 1,
                                                     .owners = &m->ids[to],
                                                     .owner_count = 1,
                                                     .writers = writers,
                                                     .writer_count = count,
                                                     .announce = m->c->barrier,
                                                     .replica = true, /* nobody reads it by get */
                                                     .apply = apply,
                                                     .apply_on_device = true,
                                                     .ctx = m },
                              &m->spaces[to]);
}

/* Have snapshots include the model of the data centre and its part of it. */
static fast_err remember(ps_mirrors *m)
{
    fast_trainer *t = m->t;
    const size_t size = (size_t)t->count * sizeof(float);

    FAST_ASSERT(m->own != NULL);
    FAST_TRY(fast__trainer_remember(t, 25, m->own, size));
    FAST_TRY(fast__trainer_remember(t, 26, t->w, size));
    FAST_TRY(fast__trainer_remember(t, 27, (void *)m->counts, sizeof m->counts));
    FAST_TRY(fast__trainer_remember(t, 28, &m->done, sizeof m->done));
    return fast__trainer_check_saved(t, m->done >= 0 && m->done <= t->step_count);
}

fast_err fast__ps_mirrors_open(fast_trainer *t, const ps_config *c, int64_t me, ps_mirrors *m)
{
    const fast_device *device = fast__device_of(t->w);

    FAST_ASSERT(c->proxies <= PS_MIRRORS_MAX);
    memset(m, 0, sizeof *m);
    m->t = t;
    m->c = c;
    m->me = me;
    m->count = fast__ps_writers(c, t, &m->ids);
    FAST_TRY(fast__vector_new(device, "a data centre's updates", t->count, &m->own));
    FAST_TRY(fast__vector_new(device, "a data centre's change", t->count, &m->change));
    if (m->count == 1)
        return remember(m);
    /* A codec compares changes with the weights of its own data centre. */
    fast_trainer_reference(t, t->w);
    for (int64_t k = 0; k < m->count; k++)
        FAST_TRY(open_mirror(m, k));
    return remember(m);
}

fast_err fast__ps_mirrors_close(ps_mirrors *m)
{
    fast_err first = FAST_OK;

    /* Other data centres first: the own space waits until they have left. */
    for (int64_t i = 1; m->t && i <= m->count; i++) {
        const int64_t k = (m->me + i) % m->count;
        const fast_err err = m->spaces[k] ? fast_trainer_space_close(m->t, m->spaces[k]) : FAST_OK;

        m->spaces[k] = NULL;
        first = first ? first : err;
    }
    FAST_ASSERT(m->count <= PS_MIRRORS_MAX);
    fast__vector_free(m->own);
    fast__vector_free(m->change);
    m->own = m->change = NULL;
    return first;
}

/* Set this data centre's clock at all others, after adding x, if it is not NULL. A data centre that
 * is down misses updates. */
static fast_err tell_others(ps_mirrors *m, const float *x, int64_t clock)
{
    FAST_ASSERT(clock >= 0);
    for (int64_t i = 1; i < m->count; i++) {
        fast_space *space = m->spaces[(m->me + i) % m->count];
        fast_err err = x ? fast_space_add(space, 0, x, FAST_SOON) : FAST_OK;

        if (!err)
            err = fast_space_tick(space, clock);
        if (err && err != FAST_EPEER)
            return err;
    }
    return FAST_OK;
}

/* Update the data centre's model by its workers' mean gradient, and send the change to others. */
static fast_err write_mirrors(ps_mirrors *m, const float *g, int64_t step, int64_t clock)
{
    fast_trainer *t = m->t;

    FAST_ASSERT(step > 0);
    fast__vector_copy(t->count, t->w, m->change);
    fast_trainer_update_range(t, step, fast_trainer_lr(t, step - 1), t->w, g, 1, 0, t->count);
    fast__vector_difference(t->count, 1, t->w, m->change); /* change <- w - change */
    fast__vector_add(t->count, m->change, m->own);
    m->counts[m->me]++;
    return tell_others(m, m->change, clock);
}

/* Read the updates of the others, once all have finished `clock` rounds; x NULL: only wait. */
static fast_err wait_for_others(ps_mirrors *m, float *x, int64_t clock)
{
    fast_space_read read = { .clock_min = clock };

    FAST_ASSERT(m->count > 1);
    return fast_space_get(m->spaces[m->me], 0, x, &read, FAST_SOON);
}

/* With slack 0 clocks count halves of rounds, written and read: nobody writes the next round before
 * all have read this one, so that all read the same updates. */
fast_err fast__ps_mirrors_round(ps_mirrors *m, const float *g, int64_t step, bool last)
{
    fast_trainer *t = m->t;
    const bool rounds = m->c->slack == 0;
    const int64_t slack = m->c->slack < 0 ? step : last ? 0 : m->c->slack;

    FAST_ASSERT(m->own != NULL);
    fast_actor_at(t->actor, step, "updates of other data centres");
    if (rounds && m->count > 1 && m->done > 0)
        FAST_TRY(wait_for_others(m, NULL, 2 * m->done));
    FAST_TRY(write_mirrors(m, g, step, rounds ? 2 * step - 1 : step));
    if (m->count == 1)
        return FAST_OK;
    FAST_TRY(wait_for_others(m, t->w, rounds ? 2 * step - 1 : step - slack));
    m->done = step;
    if (rounds)
        FAST_TRY(tell_others(m, NULL, 2 * step));
    fast__vector_add(t->count, m->own, t->w);
    return fast_charge(t->actor, 4 * (double)t->count, 36 * (double)t->count);
}
