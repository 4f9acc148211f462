/* SPDX-License-Identifier: Apache-2.0 */
/*
 * List scheduling: the layers between two cuts are tasks, in the order of their upward rank, which
 * in a network is the order of the layers, and each goes to a node by a rule. A node holds
 * consecutive layers, since what is cut apart would send each activation twice:
 *
 *     heft      where the step ends first (HEFT, Topcuoglu et al. 2002): the load of the slowest
 *               node so far, with the task on the current node or on the fastest free one, whose
 *               activations then cross a link
 *     greedy    where one sample's task ends first, by estimates of computing and sending, as
 *               TensorFlow's placement does (Abadi et al. 2016): loads of other tasks do not count
 *     critical  the critical path in parts of equal time (Mayer et al. 2017): a node takes tasks
 *               until it has its part of the network by its speed
 *     memory    until its part of the memory is full (layer placement, Park et al. 2020)
 *
 * Nodes are taken in the order of their speed; replicas are placed on nodes one after the other.
 * All rules are tried unless one is named, with all numbers of replicas, micro-batches and
 * schedules of one stage a node.
 */
#include "split/planner.h"

#include "base/memory.h"

#include <math.h>
#include <stdlib.h>

enum { RULE_ALL, RULE_HEFT, RULE_GREEDY, RULE_CRITICAL, RULE_MEMORY, RULES };

static const fast_option options[] = {
    FAST_OPT_CHOICE(fast_planner_config, rule, "all", "all|heft|greedy|critical|memory",
                    "where the next layer goes"),
    FAST_OPT_END,
};

/* A placement under way. */
typedef struct list_state {
    const fast_plan_space *space;
    int16_t nodes[FAST_PLAN_WORKERS_MAX]; /* of workers, the fastest first */
    double speeds[FAST_PLAN_WORKERS_MAX]; /* operations a second of each */
    int64_t count;                        /* nodes of a replica at most */
    double speed_sum;                     /* of the nodes of a replica */
    double samples;                       /* of a replica */
} list_state;

/* Operations of a task and bytes of its memory, of one sample. */
static double operations_of(const fast_plan_space *space, int k)
{
    const fast_split_cost *a = &space->prefixes[k - 1], *b = &space->prefixes[k];

    return b->forward - a->forward + b->backward - a->backward;
}

static double memory_of(const fast_plan_space *space, int from, int to, double samples)
{
    const fast_split_cost *a = &space->prefixes[from], *b = &space->prefixes[to];

    return (2 + (double)space->job.slots) * (double)(b->params - a->params) +
           samples * (double)(b->activations - a->activations);
}

/* Seconds in which the activations before task k cross to the next node, both ways. */
static double crossing(const list_state *l, int k, int64_t stage)
{
    const fast_sim_link *link = fast__plan_link(l->space, l->nodes[stage], l->nodes[stage + 1]);
    const double bytes = 8 * (double)l->space->job.graph->nodes[l->space->cuts[k - 1]].count;

    return bytes * fmax(link->ns_per_byte, link->stream_ns_per_byte) * 1e-9;
}

/* Does task k go to the next node? `load` is the seconds of the current one, `most` of all. */
static bool moves(const list_state *l, int rule, int k, int from, int64_t stage, double load,
                  double most)
{
    const fast_plan_space *space = l->space;
    const int n = space->cut_count - 1;
    const double all = space->prefixes[n].forward + space->prefixes[n].backward;
    const double stays = load + l->samples * operations_of(space, k) / l->speeds[stage];
    const double next = l->samples * operations_of(space, k) / l->speeds[stage + 1];
    const double sends = crossing(l, k, stage);

    switch (rule) {
    case RULE_HEFT:
        /* Other tasks are spread over the nodes that are left: none of them ends before. */
        return fmax(most, stays) >
               fmax(fmax(most, l->samples * all / l->speed_sum), l->samples * sends) * (1 + 1e-9);
    case RULE_GREEDY:
        return next / l->samples + sends < operations_of(space, k) / l->speeds[stage];
    case RULE_CRITICAL:
        return load + 0.5 * (stays - load) > l->samples * all / l->speed_sum;
    default:
        return memory_of(space, from, k, l->samples) >
               memory_of(space, 0, n, l->samples) / (double)l->count;
    }
}

/* Place all tasks; the number of stages, and their cuts. */
static int64_t place(const list_state *l, int rule, int cuts[FAST_PLAN_STAGES_MAX])
{
    const int n = l->space->cut_count - 1;
    double load = 0, most = 0;
    int64_t stage = 0;
    int from = 0;

    for (int k = 1; k <= n; k++) {
        const bool parts = l->space->prefixes[k - 1].params > l->space->prefixes[from].params &&
                           l->space->prefixes[n].params > l->space->prefixes[k - 1].params;

        if (stage + 1 < l->count && k > from + 1 && parts &&
            moves(l, rule, k, from, stage, load, most)) {
            cuts[stage++] = k - 1;
            most = fmax(most, load);
            load = 0;
            from = k - 1;
        }
        load += l->samples * operations_of(l->space, k) / l->speeds[stage];
    }
    cuts[stage] = n;
    return stage + 1;
}

/* Sort the places of workers by speed. */
static void sort_nodes(list_state *l)
{
    const fast_plan_space *space = l->space;

    for (int64_t i = 0; i < space->node_count; i++) {
        const double speed =
            space->cluster->nodes[space->places[i] % space->cluster->spec_count].speed;
        const double rate = speed > 0 ? speed : 1e18;
        int64_t k = i;

        for (; k > 0 && l->speeds[k - 1] < rate; k--) {
            l->speeds[k] = l->speeds[k - 1];
            l->nodes[k] = l->nodes[k - 1];
        }
        l->speeds[k] = rate;
        l->nodes[k] = (int16_t)space->places[i];
    }
}

/* Offer the placement of a rule with D replicas: replica d has each D-th node. */
static fast_err offer(fast_planning *planning, list_state *l, int rule, int64_t replicas)
{
    const fast_plan_space *space = planning->space;
    fast_plan plan = { .mesh = { replicas, 1, 1 } };
    int cuts[FAST_PLAN_STAGES_MAX];
    fast_plan_way way = { 0 };
    list_state one = *l;

    one.count = space->node_count / replicas < FAST_PLAN_STAGES_MAX ? space->node_count / replicas
                                                                    : FAST_PLAN_STAGES_MAX;
    one.samples = (double)space->job.batch / (double)replicas;
    one.speed_sum = 0;
    for (int64_t i = 0; i < one.count; i++) { /* the slowest of the nodes of each stage */
        one.nodes[i] = l->nodes[i * replicas];
        one.speeds[i] = l->speeds[i * replicas + replicas - 1];
        one.speed_sum += one.speeds[i];
    }
    plan.mesh.pipe = place(&one, rule, cuts);
    if ((space->job.mesh.pipe > 0 && plan.mesh.pipe != space->job.mesh.pipe) ||
        (space->job.all_workers && fast__mesh_size(&plan.mesh) != space->node_count))
        return FAST_OK;
    const fast_mesh mesh = plan.mesh;
    while (fast__planner_next_way(space, &mesh, &way)) {
        if (way.chunks > 1)
            continue;
        const fast_err err = fast__planner_start(space, &mesh, &way, &plan);
        if (err)
            return err == FAST_EINVAL ? FAST_OK : err;
        for (int64_t s = 0; s < mesh.pipe; s++) {
            plan.cuts[s] = space->job.cuts[0] ? plan.cuts[s] : cuts[s];
            for (int64_t d = 0; d < replicas; d++)
                plan.nodes[d * mesh.pipe + s] = l->nodes[s * replicas + d];
        }
        FAST_TRY(fast__planning_offer(planning, &plan, NULL));
    }
    return FAST_OK;
}

static fast_err search(fast_planning *planning)
{
    const fast_plan_space *space = planning->space;
    list_state *l = NULL;
    fast_err err = FAST_OK;

    FAST_TRY(fast__alloc("a list", 1, sizeof *l, &l));
    l->space = space;
    sort_nodes(l);
    for (int64_t D = 1; D <= space->node_count && !err; D++) {
        if (space->job.batch % D != 0 || (space->job.mesh.data > 0 && D != space->job.mesh.data) ||
            space->job.mesh.tensor > 1)
            continue;
        for (int rule = 1; rule < RULES && !err; rule++)
            if (planning->config.rule == RULE_ALL || planning->config.rule == rule)
                err = offer(planning, l, rule, D);
    }
    fast__free(l);
    return err;
}

const fast_planner fast__planner_list = {
    .name = "list",
    .summary = "layers one after the other to nodes, by heuristics: HEFT, TensorFlow's greedy one, "
               "the critical path, memory",
    .missing =
        "branches of a network on several nodes at a time: layers go to nodes in their order",
    .options = options,
    .search = search,
};
