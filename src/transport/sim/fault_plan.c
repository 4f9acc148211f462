/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The execution of a fault schedule: calls of the simulator's hooks at the times of its faults.
 *
 * Each fault starts, may be noticed and may end. Its node, or its direction of a link, is then set
 * to the combined effect of all active faults, so that faults may overlap: a link is cut while any
 * fault cuts it, the largest slow-down and the largest loss count, a node lies like the fault that
 * started last.
 *
 * The failure detector is a model too: an actor that hears nothing of another one for
 * cluster->detection_ns, since it crashed, is paused, has not joined or cannot be reached, is told
 * that it is down (FAST_TAG_DOWN); and that it is up, once it hears of it again. It is not told
 * about actors whose program returned. Slow and lossy nodes are not suspected.
 */
#include "base/memory.h"
#include "transport/sim/fault.h"
#include "transport/sim/sim.h"

#include <math.h>

/* The moments of a fault at which the simulator calls. */
typedef enum fault_moment {
    MOMENT_BEGIN,  /* the fault starts */
    MOMENT_NOTICE, /* the failure detector suspects the actors concerned */
    MOMENT_END,    /* the fault ends */
    MOMENT_COUNT   /* number of moments */
} fault_moment;

typedef struct fault_call {
    fast_sim_call call;      /* first: called by the simulator */
    struct fault_plan *plan; /* that it belongs to */
    const fast_fault *fault; /* its fault */
    fault_moment when;       /* its moment */
} fault_call;

typedef struct fault_plan {
    fast_faults *faults;  /* the schedule */
    fault_call *calls;    /* [fault][MOMENT_COUNT] */
    bool *active;         /* [fault] it has started and not ended */
    bool *crashed;        /* [node] its actors crashed and did not restart */
    bool *absent;         /* [node] it has not joined */
    uint32_t *usual;      /* [2 * fault] loss of a LOSSY link without the fault, per direction */
    const fast_lie **lie; /* [node] how it lies; NULL: it does not */
    fast_rng rng;         /* random lies */
} fault_plan;

/* Return whether fault `i` is active and of this kind. */
static bool is_active(const fault_plan *plan, int64_t i, fast_fault_kind kind)
{
    return plan->active[i] && plan->faults->list[i].kind == kind;
}

/* Return the side of a node in a partition; -1: it is not named. */
static int64_t side_of(const fault_plan *plan, const fast_fault *fault, int64_t node)
{
    for (int64_t i = 0; i < fault->side_count; i++)
        if (plan->faults->sides[fault->side_first + i].node == node)
            return plan->faults->sides[fault->side_first + i].side;
    return -1;
}

/* Return whether a fault affects the direction from one node to another. A single side is cut off
 * from all nodes that are not named; otherwise these are not affected. */
static bool is_about(const fault_plan *plan, const fast_fault *fault, int64_t from, int64_t to)
{
    if (fault->kind != FAST_FAULT_PARTITION)
        return (fault->node == from && fault->other == to) ||
               (!fault->one_way && fault->node == to && fault->other == from);
    const fast_fault_side *sides = plan->faults->sides + fault->side_first;
    const bool alone = sides[fault->side_count - 1].side == 0;
    const int64_t a = side_of(plan, fault, from);
    const int64_t b = side_of(plan, fault, to);
    if (alone)
        return (a < 0) != (b < 0);
    return a >= 0 && b >= 0 && (fault->one_way ? a < b : a != b);
}

/* Return whether any active fault cuts the direction from one node to another. */
static bool is_cut(const fault_plan *plan, int64_t from, int64_t to)
{
    for (int64_t i = 0; i < plan->faults->count; i++)
        if ((is_active(plan, i, FAST_FAULT_CUT) || is_active(plan, i, FAST_FAULT_PARTITION)) &&
            is_about(plan, &plan->faults->list[i], from, to))
            return true;
    return false;
}

/* Set whether a direction of a link is cut, by all active faults. */
static void cut_set(fast_sim *sim, const fault_plan *plan, int64_t from, int64_t to)
{
    fast_sim_link *link = fast__sim_link_edit(sim, from, to);
    if (link)
        link->cut = is_cut(plan, from, to);
}

/* Set the loss of a direction of a link, by all active faults. */
static void loss_set(fast_sim *sim, const fault_plan *plan, int64_t from, int64_t to)
{
    uint32_t loss = 0;
    for (int64_t i = 0; i < plan->faults->count; i++) {
        const fast_fault *fault = &plan->faults->list[i];
        if (fault->kind != FAST_FAULT_LOSSY || !is_about(plan, fault, from, to))
            continue;
        const uint32_t active = plan->active[i] ? (uint32_t)(fault->by * 4294967295.0) : 0;
        const uint32_t usual = plan->usual[2 * i + (fault->node != from)];
        loss = active > loss ? active : loss;
        loss = usual > loss ? usual : loss;
    }
    fast_sim_link *link = fast__sim_link_edit(sim, from, to);
    if (link)
        link->loss = loss;
}

/* A function that is called for each direction of the links that a fault affects. */
typedef void link_fn(fast_sim *sim, const fault_plan *plan, int64_t from, int64_t to);

/* Call `each` for every direction that a fault affects; O(nodes squared) for a partition. */
static void links_each(fast_sim *sim, const fault_plan *plan, const fast_fault *fault,
                       link_fn *each)
{
    if (fault->kind != FAST_FAULT_PARTITION) {
        each(sim, plan, fault->node, fault->other);
        if (!fault->one_way)
            each(sim, plan, fault->other, fault->node);
        return;
    }
    for (int64_t from = 0; from < sim->node_count; from++)
        for (int64_t to = 0; to < sim->node_count; to++)
            if (from != to && is_about(plan, fault, from, to))
                each(sim, plan, from, to);
}

/* Return whether node `to` hears of node `from`. */
static bool is_heard(const fast_sim *sim, const fault_plan *plan, int64_t from, int64_t to)
{
    return !plan->crashed[from] && !plan->absent[from] &&
           sim->nodes[from].paused_until <= sim->now && !is_cut(plan, from, to);
}

/* Tell the actors of node `to`, or of all other nodes for -1, that those of node `from` are down or
 * up, if it is so. */
static void tell(fast_sim *sim, const fault_plan *plan, int64_t from, int64_t to, bool down)
{
    for (int64_t about = 0; about < sim->base.count; about++) {
        if (sim->base.places[about].node != from ||
            (sim->actors[about].base.ended && !sim->actors[about].base.stopped))
            continue;
        for (int64_t id = 0; id < sim->base.count; id++) {
            const int64_t node = sim->base.places[id].node;
            if (node == from || (to >= 0 && node != to) || sim->actors[id].base.ended ||
                is_heard(sim, plan, from, node) == down)
                continue;
            const fast_sim_link *link = fast__sim_link(sim, &sim->nodes[from], &sim->nodes[node]);
            fast__sim_tell(sim, id, about, down, down ? 0 : link->latency_ns);
        }
    }
}

/* For links_each(). */
static void tell_down(fast_sim *sim, const fault_plan *plan, int64_t from, int64_t to)
{
    tell(sim, plan, from, to, true);
}

/* For links_each(), when a cut has ended. */
static void tell_up(fast_sim *sim, const fault_plan *plan, int64_t from, int64_t to)
{
    tell(sim, plan, from, to, false);
}

/* Call a function for every actor of a node. */
static void actors_each(fast_sim *sim, int64_t node, void (*each)(fast_sim *sim, int64_t id))
{
    for (int64_t id = 0; id < sim->base.count; id++)
        if (sim->base.places[id].node == node)
            each(sim, id);
}

/* Crash an actor, unless its program has returned. */
static void crash_one(fast_sim *sim, int64_t id)
{
    if (!sim->actors[id].base.ended)
        fast__sim_crash(sim, id);
}

/* Restart an actor that crashed. */
static void restart_one(fast_sim *sim, int64_t id)
{
    if (sim->actors[id].base.stopped)
        fast__sim_restart(sim, id);
}

/* Set the slow-down of a node, by all active faults. */
static void slow_set(fast_sim *sim, const fault_plan *plan, int64_t node)
{
    double by = 1;
    for (int64_t i = 0; i < plan->faults->count; i++)
        if (is_active(plan, i, FAST_FAULT_SLOW) && plan->faults->list[i].node == node)
            by = fmax(by, plan->faults->list[i].by);
    fast__sim_slow(sim, node, by);
}

/* Set how a node lies, by the active fault that started last. */
static void lie_set(fast_sim *sim, fault_plan *plan, int64_t node)
{
    const fast_fault *last = NULL;
    for (int64_t i = 0; i < plan->faults->count; i++) {
        const fast_fault *fault = &plan->faults->list[i];
        if (is_active(plan, i, FAST_FAULT_LIE) && fault->node == node &&
            (!last || fault->at >= last->at))
            last = fault;
    }
    plan->lie[node] = last ? &last->how : NULL;
    sim->nodes[node].lies = last != NULL;
}

/* Set the node, or the directions, of a fault to the combined effect of all active faults. Called
 * at its start and at its end; other kinds are not combined. */
static void combine(fast_sim *sim, fault_plan *plan, const fast_fault *fault)
{
    if (fault->kind == FAST_FAULT_SLOW)
        slow_set(sim, plan, fault->node);
    else if (fault->kind == FAST_FAULT_CUT || fault->kind == FAST_FAULT_PARTITION)
        links_each(sim, plan, fault, cut_set);
    else if (fault->kind == FAST_FAULT_LOSSY)
        links_each(sim, plan, fault, loss_set);
    else if (fault->kind == FAST_FAULT_LIE)
        lie_set(sim, plan, fault->node);
}

/* Start a fault. */
static void begin(fast_sim *sim, fault_plan *plan, const fast_fault *fault)
{
    const int64_t node = fault->node;
    switch (fault->kind) {
    case FAST_FAULT_CRASH:
        plan->crashed[node] = true;
        actors_each(sim, node, crash_one);
        break;
    case FAST_FAULT_RESTART:
        /* Actors that have not noticed the crash do so now: messages to the old life are lost. */
        tell(sim, plan, node, -1, true);
        plan->crashed[node] = false;
        actors_each(sim, node, restart_one);
        tell(sim, plan, node, -1, false);
        break;
    case FAST_FAULT_PAUSE:
        if (sim->now + fault->length > sim->nodes[node].paused_until)
            fast__sim_pause(sim, node, sim->now + fault->length);
        break;
    case FAST_FAULT_JUMP:
        fast__sim_clock_jump(sim, node, fault->jump);
        break;
    default:
        combine(sim, plan, fault);
        break;
    }
}

/* The fault has lasted for the time of the failure detector: tell the actors concerned. */
static void notice(fast_sim *sim, fault_plan *plan, const fast_fault *fault)
{
    if (fault->kind == FAST_FAULT_CUT || fault->kind == FAST_FAULT_PARTITION)
        links_each(sim, plan, fault, tell_down);
    else if (fault->kind ==
             FAST_FAULT_RESTART) /* a restarted actor learns which others are silent */
        for (int64_t from = 0; from < sim->node_count; from++)
            tell(sim, plan, from, fault->node, true);
    else
        tell(sim, plan, fault->node, -1, true);
}

/* End a fault. */
static void end(fast_sim *sim, fault_plan *plan, const fast_fault *fault)
{
    combine(sim, plan, fault);
    if (fault->kind == FAST_FAULT_JOIN)
        plan->absent[fault->node] = false;
    if (fault->kind == FAST_FAULT_PAUSE || fault->kind == FAST_FAULT_JOIN)
        tell(sim, plan, fault->node, -1, false);
    if (fault->kind == FAST_FAULT_CUT || fault->kind == FAST_FAULT_PARTITION) {
        fast__sim_links_mended(sim);
        links_each(sim, plan, fault, tell_up);
    }
}

/* Falsify a message of a node that lies: fast_sim.alter. */
static void lie(fast_sim *sim, fast_sim_actor *from, fast_msg *msg)
{
    fault_plan *plan = sim->faults;
    const fast_lie *how = plan->lie[from->node - sim->nodes];
    if (how)
        fast__fault_lie(&from->base, msg, *how, &plan->rng);
}

/* Mark the moment on the timelines of the affected actors; a partition affects all. */
static void mark(fast_sim *sim, const fast_fault *fault, bool ends)
{
    static const char *const names[FAST_FAULT_KINDS][2] = {
        { "crash", "" },           { "restart", "" },       { "pause", "pause ends" },
        { "slow", "slow ends" },   { "cut", "cut ends" },   { "partition", "partition ends" },
        { "lossy", "lossy ends" }, { "jump", "jump ends" }, { "", "join" },
        { "lie", "lie ends" },
    };
    if (sim->base.snapshot)
        fast__snapshot_add_fault(sim->base.snapshot, names[fault->kind][ends], fault->node,
                                 sim->now);
    for (int64_t id = 0; id < sim->base.count; id++) {
        fast_actor *actor = &sim->actors[id].base;
        if (actor->timeline &&
            (fault->kind == FAST_FAULT_PARTITION || sim->base.places[id].node == fault->node))
            fast__timeline_add(actor, FAST_SPAN_FAULT, names[fault->kind][ends],
                               sim->base.inner->now(actor), -1, 0);
    }
}

/* Run a moment of a fault: fast_sim_call.run. */
static void fault_run(fast_sim *sim, fast_sim_call *call)
{
    const fault_call *c = (const fault_call *)(const void *)call;
    const int64_t i = c->fault - c->plan->faults->list;
    if (c->when != MOMENT_NOTICE)
        mark(sim, c->fault, c->when == MOMENT_END);
    if (c->when == MOMENT_BEGIN) {
        c->plan->active[i] = true;
        begin(sim, c->plan, c->fault);
    } else if (c->when == MOMENT_NOTICE) {
        notice(sim, c->plan, c->fault);
    } else {
        c->plan->active[i] = false;
        end(sim, c->plan, c->fault);
    }
}

/* Return when the failure detector notices a fault; -1: never. */
static int64_t notice_at(const fast_sim *sim, const fast_fault *fault)
{
    const int64_t detection = sim->cluster->detection_ns;
    switch (fault->kind) {
    case FAST_FAULT_CRASH:
    case FAST_FAULT_RESTART:
        return fault->at + detection;
    case FAST_FAULT_PAUSE:
    case FAST_FAULT_CUT:
    case FAST_FAULT_PARTITION:
        return fault->length == 0 || fault->length > detection ? fault->at + detection : -1;
    case FAST_FAULT_JOIN:
        return fault->at > detection ? detection : -1;
    default:
        return -1;
    }
}

/* Keep a node absent from the start of the run until it joins. */
static void join_late(fast_sim *sim, fault_plan *plan, const fast_fault *fault)
{
    plan->absent[fault->node] = true;
    for (int64_t id = 0; id < sim->base.count; id++)
        if (sim->base.places[id].node == fault->node)
            fast__sim_start_late(sim, id, fault->at);
}

/* Schedule a moment of a fault. */
static void plan_call(fast_sim *sim, fault_plan *plan, int64_t i, fault_moment when, int64_t time)
{
    fault_call *call = &plan->calls[i * MOMENT_COUNT + when];
    *call = (fault_call){
        .call.run = fault_run, .plan = plan, .fault = &plan->faults->list[i], .when = when
    };
    fast__sim_at(sim, time, &call->call,
                 call->fault->kind == FAST_FAULT_RESTART && when == MOMENT_BEGIN);
}

/* Schedule all moments of a fault. */
static void plan_fault(fast_sim *sim, fault_plan *plan, int64_t i)
{
    const fast_fault *fault = &plan->faults->list[i];
    const int64_t notice_time = notice_at(sim, fault);
    const bool joins = fault->kind == FAST_FAULT_JOIN;
    if (fault->kind == FAST_FAULT_LOSSY) {
        const fast_sim_node *a = &sim->nodes[fault->node], *b = &sim->nodes[fault->other];
        plan->usual[2 * i] = fast__sim_link(sim, a, b)->loss;
        plan->usual[2 * i + 1] = fast__sim_link(sim, b, a)->loss;
    }
    if (joins)
        join_late(sim, plan, fault);
    else
        plan_call(sim, plan, i, MOMENT_BEGIN, fault->at);
    if (notice_time >= 0)
        plan_call(sim, plan, i, MOMENT_NOTICE, notice_time);
    if (joins || fault->length > 0)
        plan_call(sim, plan, i, MOMENT_END, fault->at + fault->length);
}

/* Make the schedule and the state of its faults. */
static fast_err plan_open(fast_sim *sim, fault_plan *plan)
{
    const uint64_t seed = (uint64_t)sim->base.config.seed;
    FAST_TRY(fast__faults_make(sim->base.config.faults, seed, sim->node_count, &plan->faults));
    const int64_t count = plan->faults->count;
    const int64_t nodes = sim->node_count;
    FAST_TRY(fast__alloc("faults", count * MOMENT_COUNT, sizeof *plan->calls, &plan->calls));
    FAST_TRY(fast__alloc("faults", count, sizeof *plan->active, &plan->active));
    FAST_TRY(fast__alloc("faults", 2 * count, sizeof *plan->usual, &plan->usual));
    FAST_TRY(fast__alloc("faults", nodes, sizeof *plan->crashed, &plan->crashed));
    FAST_TRY(fast__alloc("faults", nodes, sizeof *plan->absent, &plan->absent));
    FAST_TRY(fast__alloc("faults", nodes, sizeof *plan->lie, &plan->lie));
    fast__rng_init(&plan->rng, seed, FAST_PURPOSE_FAULT, (uint64_t)nodes, 1, 0);
    return FAST_OK;
}

/* Without a schedule nothing is allocated, and messages are not altered. */
fast_err fast__faults_open(fast_sim *sim)
{
    fault_plan *plan = NULL;
    if (sim->base.config.faults[0] == 0)
        return FAST_OK;
    FAST_TRY(fast__alloc("faults", 1, sizeof *plan, &plan));
    sim->faults = plan;
    const fast_err err = plan_open(sim, plan);
    if (err) {
        fast__faults_close(sim);
        return err;
    }
    sim->alter = lie;
    for (int64_t i = 0; i < plan->faults->count; i++)
        plan_fault(sim, plan, i);
    return FAST_OK;
}

const fast_faults *fast__faults_of(const fast_world *world)
{
    const fault_plan *plan = ((const fast_sim *)world)->faults;
    return plan ? plan->faults : NULL;
}

/* Also for a plan that was made in part. */
void fast__faults_close(fast_sim *sim)
{
    fault_plan *plan = sim->faults;
    if (!plan)
        return;
    fast__faults_free(plan->faults);
    fast__free(plan->calls);
    fast__free(plan->active);
    fast__free(plan->usual);
    fast__free(plan->crashed);
    fast__free(plan->absent);
    fast__free(plan->lie);
    fast__free(plan);
    sim->faults = NULL;
}
