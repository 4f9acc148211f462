/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Proxies: a hierarchy of parameter servers. Workers form groups of neighbouring ranks, as many as
 * there are proxies; a group is synchronous with its proxy, and the proxies are the writers of the
 * model, with whatever slack, filter or compensation the options say (MXNet's hierarchy of servers;
 * Rudra's, Gupta et al. 2016; Gaia's servers per data centre, Hsieh et al. 2017).
 *
 *     worker   get(w) of its proxy's round r;  g_i <- gradient;  add(g_i);  tick(r + 1)
 *     proxy    of all its workers that are up:  g <- sum g_i / m, in the canonical order;
 *              add(g) to the model; get(w) within the slack; put(w) for the group
 *
 * With a filter or a budget the proxy keeps back what is not significant, and its group goes on
 * with it all the same, by plain SGD: w - lr (what is kept back), as Gaia's data centres do; the
 * slack is between the proxies: a mirror clock. With one worker a group it is the program without
 * proxies. Cost: a worker's messages stay in its group; between groups travel 2 messages of the
 * model for each proxy and round.
 */
#include "base/memory.h"
#include "comm/sum.h"
#include "strategy/ps.h"
#include "tensor/vector.h"

#include <stdio.h>
#include <string.h>

/* The tensors of a group's space. */
enum { GROUP_W, GROUP_G, GROUP_CARRIED, GROUP_S };

/* A group's gradients at its proxy. Written under the space's lock, read between rounds. */
typedef struct group {
    int64_t first;      /* rank of its first worker */
    int64_t size;       /* of workers */
    float **round;      /* [size] gradients of the round */
    bool *came;         /* [size] whose came */
    const float **list; /* [size] those, in the order of ranks */
    float *mean;        /* of them */
} group;

/* The ranks of a proxy's workers: as equal as possible. */
static void group_of(int64_t proxy, int64_t proxies, int64_t workers, int64_t *first_out,
                     int64_t *size_out)
{
    *first_out = proxy * workers / proxies;
    *size_out = (proxy + 1) * workers / proxies - *first_out;
}

static bool collect(void *ctx, const fast_space_update *u, float *w)
{
    group *gr = ctx;
    const int64_t i = u->from - gr->first;

    if (u->tensor == GROUP_S) {
        fast__vector_add(u->count, u->x, w);
        return true;
    }
    FAST_ASSERT(u->tensor == GROUP_G && i >= 0 && i < gr->size);
    if (gr->came[i])
        return false;
    memcpy(gr->round[i], u->x, (size_t)u->count * sizeof *u->x);
    gr->came[i] = true;
    return true;
}

static fast_err open_group(fast_trainer *t, const ps_config *c, int64_t proxy, group *gr,
                           fast_space **out)
{
    const fast_space_tensor tensors[] = { { "w", t->count, t->w },
                                          { "g", t->count, NULL },
                                          { "carried", c->proxies, NULL },
                                          { "s", t->state_count, t->s } };
    const int64_t id = t->server_ids[t->servers - c->proxies + proxy];
    int64_t first, size;
    char name[32];

    group_of(proxy, c->proxies, t->workers, &first, &size);
    snprintf(name, sizeof name, "group %lld", (long long)proxy);
    return fast_space_open(t->actor,
                           &(fast_space_options){ .name = name,
                                                  .tensors = tensors,
                                                  .tensor_count = t->state_count > 0 ? 4 : 3,
                                                  .owners = &id,
                                                  .owner_count = 1,
                                                  .writers = t->worker_ids + first,
                                                  .writer_count = size,
                                                  .apply = collect,
                                                  .ctx = gr },
                           out);
}

/* A worker's round: `rounds` is how many its proxy must have made. */
static fast_err read_group(fast_trainer *t, fast_space *space, int64_t rounds, float *seen)
{
    fast_space_read read = { .version_min = rounds };

    fast_actor_at(t->actor, t->step, "weights");
    FAST_TRY(fast_space_get(space, GROUP_W, t->w, &read, FAST_SOON));
    if (!seen)
        return FAST_OK;
    FAST_TRY(fast_space_get(space, GROUP_S, t->s, NULL, FAST_SOON));
    memcpy(seen, t->s, (size_t)t->state_count * sizeof *t->s);
    return FAST_OK;
}

static fast_err write_group(fast_trainer *t, fast_space *space, int64_t size, float *seen)
{
    fast_actor_at(t->actor, t->step, "gradient");
    FAST_TRY(fast_space_add(space, GROUP_G, t->g, FAST_SOON));
    for (int64_t i = 0; seen && i < t->state_count; i++)
        seen[i] = (t->s[i] - seen[i]) / (float)size;
    if (seen)
        FAST_TRY(fast_space_add(space, GROUP_S, seen, FAST_SOON));
    return fast_space_tick(space, t->step);
}

/* What the last model holds of each group, and so of each of its workers. */
static fast_err carry_group(fast_trainer *t, const ps_config *c, fast_space *space, float *counts)
{
    const fast_vector w = fast_trainer_model(t);

    FAST_TRY(fast_space_get(space, GROUP_CARRIED, counts, NULL, FAST_SOON));
    for (int64_t k = 0; k < c->proxies; k++) {
        int64_t first, size;

        group_of(k, c->proxies, t->workers, &first, &size);
        for (int64_t i = first; i < first + size; i++)
            w.shares[i] = (double)counts[k];
    }
    fast_trainer_adopt(t, &w);
    return FAST_OK;
}

static fast_err work(fast_trainer *t, const ps_config *c, fast_space *space, int64_t size,
                     float *seen, float *counts)
{
    const int64_t begin = t->step;

    if (begin > 0) /* a run that goes on: its clocks do too */
        FAST_TRY(fast_space_tick(space, begin));
    while (fast_trainer_next(t)) {
        FAST_TRY(read_group(t, space, t->step - begin, seen));
        FAST_TRY(fast_trainer_gradient(t, NULL, NULL));
        FAST_TRY(write_group(t, space, size, seen));
    }
    FAST_TRY(fast_trainer_end(t));
    FAST_TRY(read_group(t, space, t->step - begin, seen));
    return carry_group(t, c, space, counts);
}

fast_err fast__ps_group_worker(fast_trainer *t, const ps_config *c)
{
    fast_space *space = NULL;
    float *seen = NULL, *counts = NULL;
    int64_t proxy = 0, first, size;
    fast_err err = FAST_OK;

    for (;; proxy++) {
        group_of(proxy, c->proxies, t->workers, &first, &size);
        if (t->rank < first + size)
            break;
    }
    err = fast__alloc("what is carried", c->proxies, sizeof *counts, &counts);
    if (!err && t->state_count > 0)
        err = fast__alloc("the state read", t->state_count, sizeof *seen, &seen);
    if (!err)
        err = open_group(t, c, proxy, NULL, &space);
    if (!err)
        err = work(t, c, space, size, seen, counts);
    fast_space_close(space);
    fast__free(seen);
    fast__free(counts);
    return err;
}

/* The mean of the gradients that came; the number of them. The round is empty then. */
static fast_err take_round(fast_trainer *t, group *gr, int64_t *used_out)
{
    const int64_t count = t->count;
    int64_t used = 0;

    for (int64_t i = 0; i < gr->size; i++) {
        if (gr->came[i])
            gr->list[used++] = gr->round[i];
        gr->came[i] = false;
    }
    *used_out = used;
    if (used > 0)
        FAST_TRY(fast_trainer_sum_list(t, gr->list, used, count, gr->mean));
    if (used > 1)
        fast__vector_scale(count, 1.0f / (float)used, gr->mean);
    return FAST_OK;
}

/* One round between the group and the model. */
static fast_err relay(ps_writer *wr, fast_space *space)
{
    fast_trainer *t = wr->t;

    if (t->state_count > 0)
        FAST_TRY(fast_space_get(space, GROUP_S, t->s, NULL, FAST_SOON));
    fast__ps_collect(wr);
    FAST_TRY(fast__ps_push(wr));
    FAST_TRY(fast__ps_tick(wr));
    FAST_TRY(fast__ps_read(wr, wr->step >= t->step_count));
    if (wr->selected) /* what was kept back is the group's already */
        fast__vector_axpy(t->count, -(float)fast_trainer_lr(t, wr->step - 1), wr->sum, t->w);
    if (t->state_count > 0)
        FAST_TRY(fast_space_put(space, GROUP_S, t->s, FAST_SOON));
    return FAST_OK;
}

/* Rounds until nobody is left in the group: two that bring nothing, one after the other. The first
 * may be the clock of a run that goes on. */
static fast_err serve_group(ps_writer *wr, group *gr, fast_space *space, float *counts)
{
    fast_trainer *t = wr->t;
    int empty = 0;

    while (empty < 2) {
        fast_space_read read = { .clock_min = wr->step + 1 };
        int64_t used;

        fast_actor_at(t->actor, wr->step, "a group's gradients");
        FAST_TRY(fast_space_get(space, GROUP_CARRIED, counts, &read, FAST_SOON));
        FAST_TRY(take_round(t, gr, &used));
        empty = used > 0 ? 0 : empty + 1;
        wr->step = read.clock;
        if (used == 0)
            continue;
        FAST_TRY(relay(wr, space));
        if (wr->step >= t->step_count) {
            FAST_TRY(fast__ps_ask_contributions(wr, counts));
            FAST_TRY(fast_space_put(space, GROUP_CARRIED, counts, FAST_SOON));
        }
        FAST_TRY(fast_space_put(space, GROUP_W, t->w, FAST_SOON));
    }
    return FAST_OK;
}

static fast_err group_init(group *gr, int64_t count)
{
    FAST_TRY(fast__alloc("a group's round", gr->size, sizeof *gr->round, &gr->round));
    FAST_TRY(fast__alloc("a round's senders", gr->size, sizeof *gr->came, &gr->came));
    FAST_TRY(fast__alloc("a round's list", gr->size, sizeof *gr->list, &gr->list));
    FAST_TRY(fast__alloc("a group's mean", count, sizeof *gr->mean, &gr->mean));
    for (int64_t i = 0; i < gr->size; i++)
        FAST_TRY(fast__alloc("a group's gradients", count, sizeof **gr->round, &gr->round[i]));
    return FAST_OK;
}

static void group_fini(group *gr)
{
    for (int64_t i = 0; gr->round && i < gr->size; i++)
        fast__free(gr->round[i]);
    fast__free(gr->round);
    fast__free(gr->came);
    fast__free(gr->list);
    fast__free(gr->mean);
}

fast_err fast__ps_proxy(fast_trainer *t, const ps_config *c, int64_t proxy)
{
    ps_writer wr = { .t = NULL };
    group gr = { .size = 0 };
    fast_space *space = NULL;
    float *counts = NULL;
    fast_err err;

    t->step = 0; /* the group's clocks say it: of a run that goes on they may differ */
    group_of(proxy, c->proxies, t->workers, &gr.first, &gr.size);
    err = fast__alloc("what is carried", c->proxies, sizeof *counts, &counts);
    if (!err)
        err = group_init(&gr, t->count);
    if (!err)
        err = fast__ps_writer_open(t, c, gr.mean, &wr);
    if (!err)
        err = open_group(t, c, proxy, &gr, &space);
    if (!err)
        err = serve_group(&wr, &gr, space, counts);
    fast_space_close(space);
    const fast_err last = fast__ps_writer_close(&wr);
    group_fini(&gr);
    fast__free(counts);
    return err ? err : last;
}
