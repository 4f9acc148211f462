/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Rounds with one server that is reached by a collective: the sum of all gradients goes up a
 * binomial tree, as slices or as it is, the server makes the update, and weights come back the way
 * (FireCaffe, Iandola et al. 2016; the patterns of Langer et al. 2020, section 3.4.1).
 *
 *     worker i   g_i <- gradient at w;  send g_i;  receive w
 *     server     g <- 1/n sum_i g_i;  w <- rule(w, g);  send w
 *
 * It is `allreduce` to the bit. The server has the whole model, so that every rule can be applied.
 * Cost: via_master.h, and one update at the server.
 */
#include "strategy/ps.h"
#include "strategy/via_master.h"
#include "tensor/vector.h"

/* The worker's loop of the formula above; its state that is not trained is averaged too. */
static fast_err train(fast_trainer *t, fast_via_master *m)
{
    FAST_ASSERT(t->g != NULL);
    while (fast_trainer_next(t)) {
        FAST_TRY(fast_trainer_gradient(t, NULL, NULL));
        fast_actor_at(t->actor, t->step, "gradient");
        FAST_TRY(fast__via_send(m, t->g, t->count));
        fast_actor_at(t->actor, t->step, "weights");
        FAST_TRY(fast__via_receive(m, t->w, t->count));
        fast_trainer_adopt(t, &(fast_vector){ .x = t->w, .age = -1 });
        if (t->state_count == 0)
            continue;
        fast_actor_at(t->actor, t->step, "state");
        FAST_TRY(fast__via_send(m, t->s, t->state_count));
        FAST_TRY(fast__via_receive(m, t->s, t->state_count));
    }
    return fast_trainer_end(t);
}

/* A worker has no part in the rule: its replica is the server's weights. */
fast_err fast__ps_master_worker(fast_trainer *t, const ps_config *c)
{
    fast_via_master m;

    FAST_ASSERT(t->servers == 1);
    FAST_TRY(fast__via_open(t, (fast_via)c->path, &m));
    const fast_err err = train(t, &m);
    fast__via_close(&m);
    return err;
}

/* The server's loop, until the workers have ended. */
static fast_err serve(fast_trainer *t, fast_via_master *m)
{
    bool over = false;

    FAST_ASSERT(t->w != NULL && m->sum != NULL);
    for (;;) {
        fast_actor_at(t->actor, t->step, "gradient");
        FAST_TRY(fast__via_sum(m, t->count, &over));
        if (over)
            return FAST_OK;
        t->lr = fast_trainer_lr(t, t->step++);
        FAST_TRY(fast_trainer_update_by(t, &(fast_vector){ .x = m->sum, .age = -1 },
                                        1.0f / (float)t->workers));
        FAST_TRY(fast__via_answer(m, t->w, t->count));
        if (t->state_count == 0)
            continue;
        fast_actor_at(t->actor, t->step, "state");
        FAST_TRY(fast__via_sum(m, t->state_count, &over));
        if (over)
            return FAST_OK;
        fast__vector_copy(t->state_count, m->sum, t->s);
        fast__vector_divide(t->state_count, (float)t->workers, t->s);
        FAST_TRY(fast__via_answer(m, t->s, t->state_count));
    }
}

/* The server starts with the weights that all workers start with, also after a resume. */
fast_err fast__ps_master(fast_trainer *t, const ps_config *c)
{
    fast_via_master m;

    FAST_ASSERT(t->servers == 1 && t->rank == 0);
    FAST_TRY(fast__via_open(t, (fast_via)c->path, &m));
    const fast_err err = serve(t, &m);
    fast__via_close(&m);
    return err;
}
