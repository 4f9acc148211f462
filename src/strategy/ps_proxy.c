/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Proxies: a hierarchy of parameter servers. Workers form groups of neighbouring ranks; a group is
 * synchronous with its proxy, and so are the proxies of a level with the one above (ps_tree.c). The
 * proxies of the first level are the writers of the model, with whatever slack, filter or
 * compensation the options say (MXNet's hierarchy of servers; Rudra's, Gupta et al. 2016; Gaia's
 * servers per data centre, Hsieh et al. 2017).
 *
 *     worker   get(w) of its proxy's round r;  g_i <- gradient;  add(g_i);  tick(r + 1)
 *     proxy    of all its members that are up:  g <- sum g_i / m, in the canonical order;
 *              add(g) above it; get(w) from there; put(w) for its members
 *
 * With `fetch` and `push` a proxy is a cache that is written back: it adds the sum of at most
 * `push` rounds at once, and reads after such a write, `fetch` rounds or more after its last read.
 * In between its members read its own w, to which it applies their gradients by plain SGD,
 * w <- w - lr g. Clocks count the workers' steps at every level, so that no gradient waits for more
 * than push - 1 of them, however deep the tree is.
 *
 * Where the codec selects elements, the proxy holds back gradients that are not significant, and
 * its group uses their sum r nevertheless, by plain SGD: w - lr r, as Gaia's data centres do. The
 * slack is between the proxies: Gaia's mirror clock. With one worker a group it is the program
 * without proxies. Cost: a worker's messages stay in its group; between groups travel 2 messages of
 * the model for each proxy, and for each round or write back.
 *
 * With a value bound a proxy waits before it writes until the other proxies have read, or will not
 * let their groups compute with older weights again. So it reads as late as it can:
 *
 *     worker   ask;  get(w);  g_i <- gradient;  add(g_i);  wait until its proxy has written
 *     proxy    add(g) once the bound allows it;  when all members ask: get(w), put(w)
 *
 * A worker that stands at a snapshot has not asked, and its proxy yields to the others: it promises
 * to read the newest weights. A member's clock counts these three after k steps: k ROUND, then by 2
 * for each time that it yields, then k ROUND + ASK. An odd clock below that is no member's: nobody
 * is left.
 */
#include "base/memory.h"
#include "space/space.h"
#include "strategy/ps_mirror.h"
#include "strategy/ps_rows.h"
#include "tensor/sum.h"
#include "tensor/vector.h"
#include "trainer/part.h"
#include "trainer/remember.h"

#include <stdio.h>
#include <string.h>

/* The tensors of a group's space. With a value bound the version of the contributions is the number
 * of rounds that the proxy has written. */
enum { GROUP_W, GROUP_G, GROUP_CONTRIBUTIONS, GROUP_S };

/* Clocks of members with a value bound. */
enum { ROUND = 1 << 22, ASK = ROUND - 1 };

/* A member of a group: a worker, or a proxy below another one. */
typedef struct ps_member {
    fast_trainer *t;    /* the member's */
    const ps_config *c; /* the run's */
    fast_space *space;  /* of the group */
    int64_t size;       /* number of members */
    int64_t begin;      /* of a worker: steps of the run before it started */
    int64_t rounds;     /* that it has written, and the proxy has to */
    int64_t clock;      /* with a value bound: its clock */
} ps_member;

/* A group's gradients at its proxy. Written under the space's lock, read between rounds. */
typedef struct ps_group {
    const int64_t *members; /* [size] actors */
    int64_t size;           /* number of members */
    float weight;           /* of its mean in the round above */
    float **round;          /* [size] gradients of the round */
    bool *arrived;          /* [size] the gradient is in `round` */
    const float **list;     /* [size] gradients that arrived, in the order of ranks */
    float *mean;            /* of the gradients that arrived */
} ps_group;

/* The group space's apply function: store a gradient of the round, or add to the state. */
static bool collect(void *ctx, const fast_space_update *u, float *w)
{
    ps_group *gr = ctx;
    const int64_t i = fast__index_in(gr->members, gr->size, u->from);

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

/* Open the space of a proxy and its members; `gr` is NULL except at the proxy. */
static fast_err open_group(fast_trainer *t, const ps_config *c, const ps_node *node, ps_group *gr,
                           fast_space **out)
{
    const fast_space_tensor tensors[] = { { "w", t->count, t->w },
                                          { "g", t->count, NULL },
                                          { "contributions", c->proxies, NULL },
                                          { "s", t->state_count, t->s } };
    char name[64];

    FAST_ASSERT(node->size > 0);
    if (node->level == 1)
        snprintf(name, sizeof name, "group %lld", (long long)node->index);
    else
        snprintf(name, sizeof name, "group %lld of level %lld", (long long)node->index,
                 (long long)node->level);
    return fast__trainer_space_plain(
        t,
        &(fast_space_options){ .name = name,
                               .tensors = tensors,
                               .tensor_count = t->state_count > 0 ? 4 : 3,
                               .owners = &node->id,
                               .owner_count = 1,
                               .writers = node->members,
                               .writer_count = node->size,
                               .apply = collect,
                               .apply_on_device = true,
                               .ctx = gr },
        out);
}

/* Set the member's clock to that after `step` steps. */
static fast_err tick_group(ps_member *m, int64_t step)
{
    FAST_ASSERT(step >= 0);
    if (m->c->value == 0)
        return fast_space_tick(m->space, step);
    m->clock = step * ROUND;
    return fast_space_tick(m->space, m->clock);
}

/* With a value bound, at a member that waits in a snapshot: let its proxy yield to the others. */
static fast_err yield_group(void *member)
{
    ps_member *m = member;

    FAST_ASSERT(m->c->value > 0);
    if (m->clock % ROUND >= ASK - 1) /* it asked, or waits for very long */
        return FAST_OK;
    m->clock += 2;
    return fast_space_tick(m->space, m->clock);
}

/* Is the clock of a snapshot one that the member may have after `step` steps? */
static bool is_sane(const ps_member *m, int64_t step)
{
    FAST_ASSERT(step >= 0);
    return !m->space || m->c->value == 0 ||
           (step <= INT64_MAX / ROUND - 1 && m->clock >= 0 && m->clock / ROUND <= step);
}

/* Read the group's model after the rounds of its proxy; `seen` is a copy of the state, or NULL. */
static fast_err read_group(ps_member *m, float *seen)
{
    fast_trainer *t = m->t;
    fast_space_read read = { .version_min = m->rounds };

    FAST_ASSERT(m->rounds >= 0);
    fast_actor_at(t->actor, t->step, "weights");
    if (m->c->value > 0) {
        m->clock += ASK - m->clock % ROUND;
        FAST_TRY(fast_space_tick(m->space, m->clock));
    }
    FAST_TRY(fast_space_get(m->space, GROUP_W, t->w, &read, FAST_SOON));
    if (!seen)
        return FAST_OK;
    FAST_TRY(fast_space_get(m->space, GROUP_S, t->s, NULL, FAST_SOON));
    fast__vector_copy(t->state_count, t->s, seen);
    return FAST_OK;
}

/* Write this member's gradient and its change of the state, of which each member's counts
 * 1/size. */
static fast_err write_group(ps_member *m, const float *g, float *seen, ps_flow *flow)
{
    fast_trainer *t = m->t;

    FAST_ASSERT(m->size > 0);
    fast_actor_at(t->actor, t->step, "gradient");
    if (flow->actor)
        FAST_TRY(fast__ps_flow_begin(flow, fast__ps_priority(t, m->c)));
    FAST_TRY(fast_space_add(m->space, GROUP_G, g, FAST_SOON));
    if (flow->actor)
        FAST_TRY(fast__ps_flow_end(flow));
    if (seen) {
        fast__vector_difference(t->state_count, 1, t->s, seen);
        fast__vector_divide(t->state_count, (float)m->size, seen);
        FAST_TRY(fast_space_add(m->space, GROUP_S, seen, FAST_SOON));
    }
    m->rounds++;
    FAST_TRY(tick_group(m, t->step));
    if (m->c->value == 0)
        return FAST_OK;
    fast_space_read written = { .version_min = m->rounds };

    fast_actor_at(t->actor, t->step, "a write within the value bound");
    return fast_space_get(m->space, GROUP_CONTRIBUTIONS, NULL, &written, FAST_SOON);
}

/* Read how many steps of each group, and so of each of its workers, the last model holds. */
static fast_err read_contributions(fast_trainer *t, const ps_config *c, fast_space *space,
                                   float *counts)
{
    const fast_vector w = fast_trainer_model(t);

    FAST_ASSERT(w.shares != NULL);
    FAST_TRY(fast_space_get(space, GROUP_CONTRIBUTIONS, counts, NULL, FAST_SOON));
    for (int64_t i = 0; i < fast_trainer_share_count(t); i++)
        w.shares[i] =
            (double)counts[fast__ps_node_above(c, t, 1, fast_trainer_share_rank(t, i)).index];
    fast_trainer_adopt(t, &w);
    return FAST_OK;
}

/* The loop below, with reads of rows. A model with a state that is not trained is read whole. */
static fast_err work_by_rows(ps_member *m, ps_flow *flow)
{
    fast_trainer *t = m->t;
    ps_rows rows;

    FAST_ASSERT(t->state_count == 0);
    FAST_TRY(fast__ps_rows_open(t, m->space, m->begin, &rows));
    fast_err err = FAST_OK;
    while (!err && fast_trainer_next(t)) {
        err = fast__ps_rows_gradient(&rows);
        if (!err)
            err = write_group(m, t->g, NULL, flow);
    }
    fast__ps_rows_close(&rows);
    return err;
}

/* Have snapshots include the worker's memory. A group is synchronous, whatever the slack. */
static fast_err remember_member(ps_member *m, float *seen)
{
    fast_trainer *t = m->t;
    FAST_ASSERT(m->rounds == 0);
    m->begin = t->step;
    FAST_TRY(fast__trainer_remember(t, 0, &m->begin, sizeof m->begin));
    FAST_TRY(fast__trainer_remember(t, 1, seen, seen ? (size_t)t->state_count * sizeof *seen : 0));
    FAST_TRY(fast__trainer_remember(t, 5, m->c->value > 0 ? &m->clock : NULL, sizeof m->clock));
    FAST_TRY(
        fast__trainer_check_saved(t, m->begin >= 0 && m->begin <= t->step && is_sane(m, t->step)));
    m->rounds = t->step - m->begin;
    fast__trainer_cut_at(t, &t->step);
    if (m->c->value > 0)
        fast__trainer_cut_yield(t, yield_group, m);
    return FAST_OK;
}

/* The worker's loop of the formula above. */
static fast_err work(ps_member *m, const ps_node *node, float *seen, float *counts)
{
    fast_trainer *t = m->t;
    ps_flow flow;

    FAST_ASSERT(m->size == node->size);
    FAST_TRY(fast__ps_flow_init(t, m->c, node->id, &flow));
    fast__ps_flow_note(t, m->c, m->space);
    if (t->step > 0 &&
        !fast_trainer_resumed(t)) /* clocks continue; those of a snapshot are there */
        FAST_TRY(tick_group(m, t->step));
    FAST_TRY(remember_member(m, seen));
    const bool by_rows = m->c->rows && t->state_count == 0;
    if (by_rows)
        FAST_TRY(work_by_rows(m, &flow));
    while (!by_rows && fast_trainer_next(t)) {
        FAST_TRY(read_group(m, seen));
        FAST_TRY(fast_trainer_gradient(t, NULL, NULL));
        FAST_TRY(write_group(m, t->g, seen, &flow));
    }
    FAST_TRY(fast_trainer_end(t));
    FAST_TRY(read_group(m, seen));
    return read_contributions(t, m->c, m->space, counts);
}

fast_err fast__ps_group_worker(fast_trainer *t, const ps_config *c)
{
    const ps_node node = fast__ps_node_above(c, t, c->levels, t->rank);
    ps_member m = { .t = t, .c = c, .size = node.size };
    float *seen = NULL, *counts = NULL;
    fast_err err = FAST_OK;

    FAST_ASSERT(t->rank >= node.first && t->rank < node.first + node.size);
    err = fast__alloc("contributions", c->proxies, sizeof *counts, &counts);
    if (!err && t->state_count > 0)
        err = fast__vector_new(fast__device_of(t->w), "the state read", t->state_count, &seen);
    if (!err)
        err = open_group(t, c, &node, NULL, &m.space);
    if (!err)
        err = work(&m, &node, seen, counts);
    const fast_err last = fast_trainer_space_close(t, m.space);
    fast__vector_free(seen);
    fast__free(counts);
    return err ? err : last;
}

/* Compute the mean of the gradients that arrived, with its weight, and their number; the next round
 * starts empty. */
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
    if (used == 0)
        return FAST_OK;
    FAST_TRY(fast_trainer_sum_list(t, gr->list, used, count, gr->mean));
    const float scale = gr->weight / (float)used;
    if (scale != 1)
        fast__vector_scale(count, scale, gr->mean);
    return FAST_OK;
}

/* A proxy between its members and the round above: the model, or the space of another proxy. */
typedef struct ps_relay {
    fast_trainer *t;    /* the proxy's */
    const ps_config *c; /* the run's */
    ps_writer wr;       /* level 1: a writer of the model */
    ps_mirrors mirrors; /* or a data centre with a model of its own */
    ps_member up;       /* else a member of the group of the proxy above; its space is NULL: not */
    float *sum;         /* gradients that were not written there; NULL: each round is written */
    ps_flow flow;       /* of its gradients to that space */
    ps_flows *flows;    /* of its members' gradients; or NULL */
    float *seen;        /* the state as it was read there; NULL: the model has none */
    int64_t step;       /* of the group */
    int64_t pushed;     /* step of the last write */
    int64_t read;       /* step of the last read */
    int64_t awaited;    /* the members' clock that the proxy waits for; 0: it does not wait */
    bool pending;       /* it has gradients that were not written */
    bool due;           /* value bound: members have not got the weights of the last round */
    ps_group group;     /* of its members */
    fast_space *space;  /* of its members */
    float *counts;      /* contributions to the model */
} ps_relay;

/* Write the gradients since the last write, and tick. `last`: there are no more rounds. */
static fast_err write_back(ps_relay *r, bool last)
{
    const fast_trainer *t = r->t;
    const bool due = last || t->step - r->pushed >= r->c->push;

    FAST_ASSERT(t->step > 0);
    r->pushed = due ? t->step : r->pushed;
    r->pending = !due;
    if (!r->up.space) {
        if (due)
            FAST_TRY(fast__ps_push(&r->wr));
        return fast__ps_tick(&r->wr);
    }
    if (!due)
        return FAST_OK;
    FAST_TRY(write_group(&r->up, r->sum ? r->sum : r->group.mean, r->seen, &r->flow));
    if (r->sum)
        fast__vector_fill(t->count, 0, r->sum);
    return FAST_OK;
}

/* Read the model or the proxy above after a write; in between apply the group's mean to w. */
static fast_err refresh(ps_relay *r, bool last)
{
    fast_trainer *t = r->t;
    const float rate = (float)fast_trainer_lr(t, t->step - 1);

    FAST_ASSERT(t->step >= r->read);
    const bool cached = !r->up.space && fast__ps_is_cached(&r->wr); /* the cache of a process */

    if (!last && !r->wr.visit.promised &&
        (r->pending || cached || t->step - r->read < r->c->fetch)) {
        fast__vector_axpy(t->count, -rate, r->group.mean, t->w);
        return fast_charge(t->actor, 2 * (double)t->count, 12 * (double)t->count);
    }
    r->read = t->step;
    if (r->up.space)
        return read_group(&r->up, r->seen);
    FAST_TRY(fast__ps_read(&r->wr, last));
    /* The group uses gradients that the codec holds back, if the read has not added them. */
    if (r->wr.recent.room == 0 && r->wr.hold.rounds == 0)
        fast__space_add_waiting(r->wr.copies.spaces[r->wr.copies.first], -rate, t->w);
    return FAST_OK;
}

/* Have snapshots include the proxy's memory besides its writer's, with its numbers from `step`
 * to `read`. */
static fast_err remember_relay(ps_relay *r)
{
    fast_trainer *t = r->t;

    FAST_ASSERT(r->awaited == 0);
    FAST_TRY(fast__trainer_remember(t, 12, &r->step, 3 * sizeof r->step));
    FAST_TRY(fast__trainer_remember(t, 13, &r->up.rounds, sizeof r->up.rounds));
    FAST_TRY(fast__trainer_remember_flags(t, 14, &r->pending, 1));
    if (r->c->value > 0) {
        FAST_TRY(fast__trainer_remember_flags(t, 30, &r->due, 1));
        FAST_TRY(fast__trainer_remember(t, 31, &r->up.clock, sizeof r->up.clock));
        FAST_TRY(fast__trainer_remember(t, 32, r->group.mean, (size_t)t->count * sizeof(float)));
    }
    FAST_TRY(fast__trainer_remember(t, 15, r->sum, (size_t)t->count * sizeof(float)));
    FAST_TRY(fast__trainer_remember(t, 24, r->seen, (size_t)t->state_count * sizeof(float)));
    return fast__trainer_check_saved(
        t, r->step >= 0 && r->step <= t->step_count && r->pushed >= 0 && r->pushed <= r->step &&
               r->read >= 0 && r->read <= r->step && r->up.rounds >= 0 && r->up.rounds <= r->step &&
               is_sane(&r->up, r->step));
}

/* Return whether the proxy waits for gradients that have not all arrived. */
static bool is_idle(const void *ctx)
{
    const ps_relay *r = ctx;

    FAST_ASSERT(r->awaited >= 0);
    return r->awaited > 0 && !fast__space_reached(r->space, r->awaited);
}

/* Read the model or apply the mean to w, and give it to the members: the put is the version that
 * their next read waits for. */
static fast_err answer(ps_relay *r)
{
    fast_trainer *t = r->t;
    const bool last = t->step >= t->step_count;

    FAST_ASSERT(t->step > 0);
    r->due = false;
    if (!r->c->mirror)
        FAST_TRY(refresh(r, last));
    if (t->state_count > 0)
        FAST_TRY(fast_space_put(r->space, GROUP_S, t->s, FAST_SOON));
    for (int64_t k = 0; last && r->c->mirror && k < r->mirrors.count; k++)
        r->counts[k] = (float)r->mirrors.counts[k];
    if (last && r->up.space)
        FAST_TRY(fast_space_get(r->up.space, GROUP_CONTRIBUTIONS, r->counts, NULL, FAST_SOON));
    else if (last && !r->c->mirror)
        FAST_TRY(fast__ps_ask_contributions(&r->wr, r->counts));
    if (last)
        FAST_TRY(fast_space_put(r->space, GROUP_CONTRIBUTIONS, r->counts, FAST_SOON));
    return fast_space_put(r->space, GROUP_W, t->w, FAST_SOON);
}

/* One round: write the group's mean or collect it, and answer; with a value bound that waits until
 * members ask, and they learn that the round is written. */
static fast_err relay(ps_relay *r)
{
    fast_trainer *t = r->t;
    const bool last = t->step >= t->step_count;

    FAST_ASSERT(t->step > 0);
    if (t->state_count > 0)
        FAST_TRY(fast_space_get(r->space, GROUP_S, t->s, NULL, FAST_SOON));
    if (r->c->mirror) {
        FAST_TRY(fast__ps_mirrors_round(&r->mirrors, r->group.mean, t->step, last));
    } else {
        if (!r->up.space)
            fast__ps_collect(&r->wr);
        else if (r->sum)
            fast__vector_add(t->count, r->group.mean, r->sum);
        FAST_TRY(write_back(r, last));
    }
    if (r->c->value == 0)
        return answer(r);
    r->due = true;
    return fast_space_put(r->space, GROUP_CONTRIBUTIONS, r->counts, FAST_SOON);
}

/* Wait until the members' clock is at least `clock`, and return it. */
static fast_err await_members(ps_relay *r, int64_t clock, const char *what, int64_t *out)
{
    fast_space_read read = { .clock_min = clock };

    FAST_ASSERT(clock > 0);
    fast_actor_at(r->t->actor, r->t->step, what);
    r->awaited = clock;
    FAST_TRY(fast_space_get(r->space, GROUP_CONTRIBUTIONS, r->counts, &read, FAST_SOON));
    r->awaited = 0;
    *out = read.clock;
    return FAST_OK;
}

/* With a value bound: yield to the other proxies until all members ask for weights, or nobody is
 * left. */
static fast_err await_request(ps_relay *r)
{
    const int64_t begin = r->t->step * ROUND;
    int64_t clock = begin;

    FAST_ASSERT(r->c->value > 0);
    for (;;) {
        FAST_TRY(await_members(r, clock + 1, "requests of a group", &clock));
        if (clock >= begin + ASK || clock % 2 != 0)
            return FAST_OK;
        FAST_TRY(r->up.space ? yield_group(&r->up) : fast__ps_yield(&r->wr));
    }
}

/* The proxy's loop. It ends after two rounds in a row without a gradient: then no member is left.
 * One round without a gradient may be the first clock of a resumed run. */
static fast_err serve_group(ps_relay *r)
{
    const int64_t unit = r->c->value > 0 ? ROUND : 1;
    fast_trainer *t = r->t;
    int empty = 0;

    FAST_ASSERT(r->group.size > 0);
    if (!r->up.space)
        r->step = r->wr.step;
    FAST_TRY(remember_relay(r));
    t->step = r->step;
    fast__trainer_cut_idle(t, is_idle, r);
    while (empty < 2) {
        int64_t used, clock;

        if (r->c->value > 0)
            FAST_TRY(await_request(r));
        if (r->due)
            FAST_TRY(answer(r));
        FAST_TRY(await_members(r, (t->step + 1) * unit, "a group's gradients", &clock));
        FAST_TRY(take_round(t, &r->group, &used));
        /* The clock passes every member that is down, so that a round never waits for it. */
        empty = used > 0 ? 0 : empty + 1;
        r->step = r->wr.step = t->step = clock / unit;
        if (used > 0)
            FAST_TRY(relay(r));
    }
    /* Workers that stopped early leave gradients behind that were not written back. */
    return r->pending ? write_back(r, true) : FAST_OK;
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

/* Allocate, and open the round above: the model, or the space of the proxy above. */
static fast_err relay_open(ps_relay *r, const ps_node *node)
{
    fast_trainer *t = r->t;
    const fast_device *device = fast__device_of(t->w);

    FAST_ASSERT(node->level >= 1);
    FAST_TRY(fast__alloc("contributions", r->c->proxies, sizeof *r->counts, &r->counts));
    FAST_TRY(group_init(&r->group, device, t->count));
    if (r->c->mirror)
        return fast__ps_mirrors_open(t, r->c, node->index, &r->mirrors);
    if (node->level == 1) {
        FAST_TRY(fast__ps_writer_open(t, r->c, r->group.mean, &r->wr));
        /* It writes before its first read: changes are to the initial state. */
        if (t->state_count > 0 && !fast_trainer_resumed(t))
            fast__vector_copy(t->state_count, t->s, r->wr.state_read);
        return FAST_OK;
    }
    const ps_node up = fast__ps_node_above(r->c, t, node->level - 1, node->first);

    r->up = (ps_member){ .t = t, .c = r->c, .size = up.size };
    if (r->c->push > 1)
        FAST_TRY(fast__vector_new(device, "gradients to push", t->count, &r->sum));
    if (t->state_count > 0) {
        FAST_TRY(fast__vector_new(device, "the state read", t->state_count, &r->seen));
        fast__vector_copy(t->state_count, t->s, r->seen);
    }
    FAST_TRY(fast__ps_flow_init(t, r->c, up.id, &r->flow));
    return open_group(t, r->c, &up, NULL, &r->up.space);
}

fast_err fast__ps_proxy(fast_trainer *t, const ps_config *c, int64_t proxy)
{
    ps_relay r = { .t = t, .c = c };
    int64_t level = 1;
    fast_err err;

    for (; proxy >= fast__ps_width(c, t->workers, level); level++)
        proxy -= fast__ps_width(c, t->workers, level);
    FAST_ASSERT(level <= c->levels);
    const ps_node node = fast__ps_node(c, t, level, proxy);

    t->step = 0; /* the group's clocks set it: workers of a resumed run may differ */
    r.group.members = node.members;
    r.group.size = node.size;
    r.group.weight = (float)node.weight;
    err = relay_open(&r, &node);
    if (!err)
        err = fast__ps_flows_init(t, c, node.size, &r.flows);
    if (!err)
        err = open_group(t, c, &node, &r.group, &r.space);
    if (!err)
        err = serve_group(&r);
    const fast_err closed = fast_trainer_space_close(t, r.space);
    fast__ps_flows_close(r.flows);
    const fast_err above = r.up.space ? fast_trainer_space_close(t, r.up.space) : FAST_OK;
    const fast_err mirrored = fast__ps_mirrors_close(&r.mirrors);
    const fast_err last = fast__ps_writer_close(&r.wr);
    group_fini(&r.group);
    fast__vector_free(r.sum);
    fast__vector_free(r.seen);
    fast__free(r.counts);
    return err ? err : closed ? closed : above ? above : mirrored ? mirrored : last;
}
