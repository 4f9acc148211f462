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
 * Where the codec selects elements, the proxy holds back gradients that are not significant, and
 * its group uses their sum r nevertheless, by plain SGD: w - lr r, as Gaia's data centres do. The
 * slack is between the proxies: Gaia's mirror clock. With one worker a group it is the program
 * without proxies. Cost: a worker's messages stay in its group; between groups travel 2 messages of
 * the model for each proxy and round.
 */
#include "base/memory.h"
#include "space/space.h"
#include "strategy/ps.h"
#include "tensor/sum.h"
#include "tensor/vector.h"
#include "trainer/remember.h"

#include <stdio.h>
#include <string.h>

/* The tensors of a group's space. */
enum { GROUP_W, GROUP_G, GROUP_CONTRIBUTIONS, GROUP_S };

/* A group's gradients at its proxy. Written under the space's lock, read between rounds. */
typedef struct ps_group {
    int64_t first;      /* rank of its first worker */
    int64_t size;       /* number of workers */
    float **round;      /* [size] gradients of the round */
    bool *arrived;      /* [size] the gradient is in `round` */
    const float **list; /* [size] gradients that arrived, in the order of ranks */
    float *mean;        /* of the gradients that arrived */
    fast_space *space;  /* of the group */
    int64_t awaited;    /* the round that the proxy waits for; 0: it does not wait */
} ps_group;

/* Set the range of ranks of a proxy's workers: groups are as equal as possible. */
static void group_of(int64_t proxy, int64_t proxies, int64_t workers, int64_t *first_out,
                     int64_t *size_out)
{
    *first_out = proxy * workers / proxies;
    *size_out = (proxy + 1) * workers / proxies - *first_out;
    FAST_ASSERT(*size_out > 0);
}

/* The group space's apply function: store a gradient of the round, or add to the state. */
static bool collect(void *ctx, const fast_space_update *u, float *w)
{
    ps_group *gr = ctx;
    const int64_t i = u->from - gr->first;

    if (u->tensor == GROUP_S) {
        fast__vector_add(u->count, u->x, w);
        return true;
    }
    FAST_ASSERT(u->tensor == GROUP_G && i >= 0 && i < gr->size);
    if (gr->arrived[i])
        return false;
    fast__vector_copy(u->count, u->x, gr->round[i]);
    gr->arrived[i] = true;
    return true;
}

/* Open the space of a proxy and its workers; `gr` is NULL except at the proxy. */
static fast_err open_group(fast_trainer *t, const ps_config *c, int64_t proxy, ps_group *gr,
                           fast_space **out)
{
    const fast_space_tensor tensors[] = { { "w", t->count, t->w },
                                          { "g", t->count, NULL },
                                          { "contributions", c->proxies, NULL },
                                          { "s", t->state_count, t->s } };
    const int64_t id = t->server_ids[t->servers - c->proxies + proxy];
    int64_t first, size;
    char name[32];

    FAST_ASSERT(proxy >= 0 && proxy < c->proxies);
    group_of(proxy, c->proxies, t->workers, &first, &size);
    snprintf(name, sizeof name, "group %lld", (long long)proxy);
    return fast__trainer_space_plain(
        t,
        &(fast_space_options){ .name = name,
                               .tensors = tensors,
                               .tensor_count = t->state_count > 0 ? 4 : 3,
                               .owners = &id,
                               .owner_count = 1,
                               .writers = t->worker_ids + first,
                               .writer_count = size,
                               .apply = collect,
                               .apply_on_device = true,
                               .ctx = gr },
        out);
}

/* Read the group's model after `rounds` rounds of its proxy; `seen` is a copy of the state, or
 * NULL. */
static fast_err read_group(fast_trainer *t, fast_space *space, int64_t rounds, float *seen)
{
    fast_space_read read = { .version_min = rounds };

    FAST_ASSERT(rounds >= 0);
    fast_actor_at(t->actor, t->step, "weights");
    FAST_TRY(fast_space_get(space, GROUP_W, t->w, &read, FAST_SOON));
    if (!seen)
        return FAST_OK;
    FAST_TRY(fast_space_get(space, GROUP_S, t->s, NULL, FAST_SOON));
    fast__vector_copy(t->state_count, t->s, seen);
    return FAST_OK;
}

/* Write this worker's gradient and its change of the state, of which each worker's counts
 * 1/size. */
static fast_err write_group(fast_trainer *t, fast_space *space, int64_t size, float *seen)
{
    FAST_ASSERT(size > 0);
    fast_actor_at(t->actor, t->step, "gradient");
    FAST_TRY(fast_space_add(space, GROUP_G, t->g, FAST_SOON));
    if (seen) {
        fast__vector_difference(t->state_count, 1, t->s, seen);
        fast__vector_divide(t->state_count, (float)size, seen);
        FAST_TRY(fast_space_add(space, GROUP_S, seen, FAST_SOON));
    }
    return fast_space_tick(space, t->step);
}

/* Read how many steps of each group, and so of each of its workers, the last model holds. */
static fast_err read_contributions(fast_trainer *t, const ps_config *c, fast_space *space,
                                   float *counts)
{
    const fast_vector w = fast_trainer_model(t);

    FAST_ASSERT(w.shares != NULL);
    FAST_TRY(fast_space_get(space, GROUP_CONTRIBUTIONS, counts, NULL, FAST_SOON));
    for (int64_t k = 0; k < c->proxies; k++) {
        int64_t first, size;

        group_of(k, c->proxies, t->workers, &first, &size);
        for (int64_t i = 0; i < fast_trainer_share_count(t); i++) {
            const int64_t rank = fast_trainer_share_rank(t, i);

            if (rank >= first && rank < first + size)
                w.shares[i] = (double)counts[k];
        }
    }
    fast_trainer_adopt(t, &w);
    return FAST_OK;
}

/* The worker's loop of the formula above. */
static fast_err work(fast_trainer *t, const ps_config *c, fast_space *space, int64_t size,
                     float *seen, float *counts)
{
    int64_t begin = t->step;

    FAST_ASSERT(size > 0);
    if (begin > 0 && !fast_trainer_resumed(t)) /* clocks continue; those of a snapshot are there */
        FAST_TRY(fast_space_tick(space, begin));
    FAST_TRY(fast__trainer_remember(t, 0, &begin, sizeof begin));
    FAST_TRY(fast__trainer_remember(t, 1, seen, seen ? (size_t)t->state_count * sizeof *seen : 0));
    FAST_TRY(fast__trainer_check_saved(t, begin >= 0 && begin <= t->step));
    fast__trainer_cut_at(t, &t->step); /* a group is synchronous, whatever the slack */
    while (fast_trainer_next(t)) {
        FAST_TRY(read_group(t, space, t->step - begin, seen));
        FAST_TRY(fast_trainer_gradient(t, NULL, NULL));
        FAST_TRY(write_group(t, space, size, seen));
    }
    FAST_TRY(fast_trainer_end(t));
    FAST_TRY(read_group(t, space, t->step - begin, seen));
    return read_contributions(t, c, space, counts);
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
    FAST_ASSERT(proxy < c->proxies);
    err = fast__alloc("contributions", c->proxies, sizeof *counts, &counts);
    if (!err && t->state_count > 0)
        err = fast__vector_new(fast__device_of(t->w), "the state read", t->state_count, &seen);
    if (!err)
        err = open_group(t, c, proxy, NULL, &space);
    if (!err)
        err = work(t, c, space, size, seen, counts);
    const fast_err last = fast_trainer_space_close(t, space);
    fast__vector_free(seen);
    fast__free(counts);
    return err ? err : last;
}

/* Compute the mean of the gradients that arrived, and their number; the next round starts empty. */
static fast_err take_round(fast_trainer *t, ps_group *gr, int64_t *used_out)
{
    const int64_t count = t->count;
    int64_t used = 0;

    for (int64_t i = 0; i < gr->size; i++) {
        if (gr->arrived[i])
            gr->list[used++] = gr->round[i];
        gr->arrived[i] = false;
    }
    FAST_ASSERT(used <= gr->size);
    *used_out = used;
    if (used > 0)
        FAST_TRY(fast_trainer_sum_list(t, gr->list, used, count, gr->mean));
    if (used > 1)
        fast__vector_scale(count, 1.0f / (float)used, gr->mean);
    return FAST_OK;
}

/* One round between the group and the model: write the group's mean, read the model. */
static fast_err relay(ps_writer *wr, fast_space *space)
{
    fast_trainer *t = wr->t;

    FAST_ASSERT(wr->step > 0);
    if (t->state_count > 0)
        FAST_TRY(fast_space_get(space, GROUP_S, t->s, NULL, FAST_SOON));
    fast__ps_collect(wr);
    FAST_TRY(fast__ps_push(wr));
    FAST_TRY(fast__ps_tick(wr));
    FAST_TRY(fast__ps_read(wr, wr->step >= t->step_count));
    /* The group uses gradients that the codec holds back, if the read has not added them. */
    if (wr->recent.room == 0 && wr->hold.rounds == 0)
        fast__space_add_waiting(wr->copies.spaces[wr->copies.first],
                                -(float)fast_trainer_lr(t, wr->step - 1), t->w);
    if (t->state_count > 0)
        FAST_TRY(fast_space_put(space, GROUP_S, t->s, FAST_SOON));
    return FAST_OK;
}

/* Return whether the proxy waits for gradients that have not all arrived. */
static bool is_idle(const void *ctx)
{
    const ps_group *gr = ctx;

    FAST_ASSERT(gr->awaited >= 0);
    return gr->awaited > 0 && !fast__space_reached(gr->space, gr->awaited);
}

/* The proxy's loop. It ends after two rounds in a row without a gradient: then no worker is left.
 * One round without a gradient may be the first clock of a resumed run. */
static fast_err serve_group(ps_writer *wr, ps_group *gr, fast_space *space, float *counts)
{
    fast_trainer *t = wr->t;
    int empty = 0;

    FAST_ASSERT(gr->size > 0);
    t->step = wr->step;
    gr->space = space;
    fast__trainer_cut_idle(t, is_idle, gr);
    while (empty < 2) {
        fast_space_read read = { .clock_min = wr->step + 1 };
        int64_t used;

        fast_actor_at(t->actor, wr->step, "a group's gradients");
        gr->awaited = read.clock_min;
        FAST_TRY(fast_space_get(space, GROUP_CONTRIBUTIONS, counts, &read, FAST_SOON));
        gr->awaited = 0;
        FAST_TRY(take_round(t, gr, &used));
        /* The clock passes every worker that is down, so that a round never waits for it. */
        empty = used > 0 ? 0 : empty + 1;
        wr->step = t->step = read.clock;
        if (used == 0)
            continue;
        FAST_TRY(relay(wr, space));
        if (wr->step >= t->step_count) {
            FAST_TRY(fast__ps_ask_contributions(wr, counts));
            FAST_TRY(fast_space_put(space, GROUP_CONTRIBUTIONS, counts, FAST_SOON));
        }
        /* The put is the version that the workers' next read waits for. */
        FAST_TRY(fast_space_put(space, GROUP_W, t->w, FAST_SOON));
    }
    return FAST_OK;
}

/* Allocate for a round of gradients of `count` floats. */
static fast_err group_init(ps_group *gr, const fast_device *device, int64_t count)
{
    FAST_ASSERT(count > 0);
    FAST_TRY(fast__alloc("a group's round", gr->size, sizeof *gr->round, &gr->round));
    FAST_TRY(fast__alloc("a round's senders", gr->size, sizeof *gr->arrived, &gr->arrived));
    FAST_TRY(fast__alloc("a round's list", gr->size, sizeof *gr->list, &gr->list));
    FAST_TRY(fast__vector_new(device, "a group's mean", count, &gr->mean));
    for (int64_t i = 0; i < gr->size; i++)
        FAST_TRY(fast__vector_new(device, "a group's gradients", count, &gr->round[i]));
    return FAST_OK;
}

/* Free the round. */
static void group_fini(ps_group *gr)
{
    FAST_ASSERT(gr->size >= 0);
    for (int64_t i = 0; gr->round && i < gr->size; i++)
        fast__vector_free(gr->round[i]);
    fast__free(gr->round);
    fast__free(gr->arrived);
    fast__free(gr->list);
    fast__vector_free(gr->mean);
}

fast_err fast__ps_proxy(fast_trainer *t, const ps_config *c, int64_t proxy)
{
    ps_writer wr = { .t = NULL };
    ps_group gr = { .size = 0 };
    fast_space *space = NULL;
    float *counts = NULL;
    fast_err err;

    FAST_ASSERT(proxy >= 0 && proxy < c->proxies);
    t->step = 0; /* the group's clocks set it: workers of a resumed run may differ */
    group_of(proxy, c->proxies, t->workers, &gr.first, &gr.size);
    err = fast__alloc("contributions", c->proxies, sizeof *counts, &counts);
    if (!err)
        err = group_init(&gr, fast__device_of(t->w), t->count);
    if (!err)
        err = fast__ps_writer_open(t, c, gr.mean, &wr);
    if (!err)
        err = open_group(t, c, proxy, &gr, &space);
    if (!err)
        err = serve_group(&wr, &gr, space, counts);
    const fast_err closed = fast_trainer_space_close(t, space);
    const fast_err last = fast__ps_writer_close(&wr);
    group_fini(&gr);
    fast__free(counts);
    return err ? err : closed ? closed : last;
}
