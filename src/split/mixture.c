/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The kind `experts` (Lepikhin et al. 2020): shard t of T has a T-th of the experts of a mixture
 * (engine/experts.h), and routes its own samples. Positions travel to their experts and back by
 * all-to-all:
 *
 *     a | norm ... router, route, dispatch |  own samples, all slots
 *                                          -- all-to-all --
 *       | experts, activation, experts     |  all samples, own slots
 *                                          -- all-to-all --
 *       | combine, add with a              |  own samples     e: gathered
 *
 * The route and a stay at the shard meanwhile. Slots belong to samples, so their number is fixed,
 * and what a sample computes does not depend on the split.
 *
 * Floats that a shard sends for a micro-batch of B samples [T', C], with S slots of C floats each
 * in all: (T - 1) / T^2 B S C in each of four all-to-alls, and (T - 1) / T B T' C forward for the
 * outputs and backward for the gradient of a. Router and norm are computed for the own samples:
 * their gradients are summed over the shards.
 */
#include "split/kinds.h"

/* The marks of a run's nodes. */
typedef enum experts_role {
    ROLE_CHOICE,  /* norms, router and route: of the own samples */
    ROLE_EXPERTS, /* experts, and activations between them: the own ones */
    ROLE_BACK     /* combine, dropout and residual: of the own samples */
} experts_role;

/* Nodes that the sections of a run begin and end with. */
typedef struct experts_run {
    int route;    /* slots and gates */
    int dispatch; /* end of the first section */
    int last;     /* last experts: end of the second section */
    int combine;  /* start of the third */
    int end;      /* end of it */
} experts_run;

static bool is_op(const fast_assembly *b, int i, fast_op op)
{
    return i < b->graph->node_count && b->graph->nodes[i].op == op;
}

/* Does node i have these two inputs? */
static bool joins(const fast_assembly *b, int i, int first, int second)
{
    const fast_node *node = &b->graph->nodes[i];

    return node->input_count == 2 && node->inputs[0] == first && node->inputs[1] == second;
}

/* Are experts i divided by the shards? */
static bool divides(fast_assembly *b, int i)
{
    const long long experts = (long long)b->graph->nodes[i].groups;

    if (!fast__assembly_maps(b, i))
        return false;
    if (experts % b->shards == 0)
        return true;
    fast__assembly_unfit(b, i, "has %lld experts, which %lld shards do not divide", experts,
                         (long long)b->shards);
    return false;
}

/* Find the nodes of a mixture behind node a. */
static bool find_run(fast_assembly *b, int a, experts_run *run)
{
    const fast_node *nodes = b->graph->nodes;
    int i = a;

    while (is_op(b, i + 1, FAST_OP_LAYER_NORM) && fast__assembly_follows(b, i + 1, i))
        i++;
    const int x = i;
    if (!is_op(b, i + 1, FAST_OP_DENSE) || !fast__assembly_follows(b, i + 1, i) ||
        nodes[i + 1].weight[FAST_W_GAIN] >= 0)
        return false;
    i++;
    if (is_op(b, i + 1, FAST_OP_HEAD) && nodes[i + 1].loss == FAST_LOSS_BALANCE &&
        fast__assembly_follows(b, i + 1, i))
        i++;
    run->route = i + 1, run->dispatch = i + 2;
    if (!is_op(b, run->route, FAST_OP_ROUTE) || !fast__assembly_follows(b, run->route, i) ||
        !is_op(b, run->dispatch, FAST_OP_DISPATCH) || !joins(b, run->dispatch, x, run->route))
        return false;
    for (i = run->dispatch; fast__assembly_follows(b, i + 1, i); i++) {
        const fast_op op = nodes[i + 1].op;

        if (op == FAST_OP_EXPERTS ? !divides(b, i + 1)
                                  : op != FAST_OP_GELU && op != FAST_OP_RELU && op != FAST_OP_TANH)
            return false;
    }
    run->last = i, run->combine = i + 1;
    return nodes[run->last].op == FAST_OP_EXPERTS && is_op(b, run->combine, FAST_OP_COMBINE) &&
           joins(b, run->combine, run->last, run->route);
}

/* Find the end of the run: dropout and a residual belong to it. */
static int experts_find(fast_assembly *b, int a)
{
    experts_run run;

    if (b->graph->nodes[a].rank != 2 || !find_run(b, a, &run))
        return 0;
    int end = run.combine;
    if (is_op(b, end + 1, FAST_OP_DROPOUT) && fast__assembly_follows(b, end + 1, end))
        end++;
    if (is_op(b, end + 1, FAST_OP_ADD) && (joins(b, end + 1, a, end) || joins(b, end + 1, end, a)))
        end++;
    for (int i = a + 1; i <= end; i++)
        b->marks[i] = i <= run.dispatch ? ROLE_CHOICE : i <= run.last ? ROLE_EXPERTS : ROLE_BACK;
    return end < b->graph->node_count - 1 && !fast__split_can_cut(b->graph, end) ? 0 : end;
}

/* Change a node to a vector, or a sequence, of `count` elements. */
static void set_shape(fast_node *node, int rank, int64_t rows, int64_t columns)
{
    node->rank = rank;
    node->shape[0] = rows;
    node->shape[1] = rank == 2 ? columns : 0;
    node->shape[2] = 0;
    node->count = rows * (rank == 2 ? columns : 1);
}

/* The section of the choices: its outputs are the slots, the route and a, in one vector. */
static void make_choice(fast_assembly *b, int a, const experts_run *run)
{
    const fast_node *nodes = b->graph->nodes, *slots = &nodes[run->dispatch];
    const int parts[3] = { run->dispatch, run->route, a };
    fast_split_section *section = fast__assembly_begin(b, a);
    int flat[3];

    for (int i = a + 1; i <= run->dispatch; i++) {
        fast_split_slice slices[FAST_WEIGHTS_MAX];

        for (int w = 0; w < FAST_WEIGHTS_MAX; w++)
            slices[w] = (fast_split_slice){ .partial = true };
        fast_node *node = fast__assembly_add(b, section, i, slices);
        if (node->op == FAST_OP_HEAD)
            node->a /= (float)b->shards; /* the mean over all samples */
    }
    for (int k = 0; k < 3; k++) {
        fast_node *node =
            fast__assembly_insert(b, section, FAST_OP_FLATTEN, b->index[parts[k]], -1);

        set_shape(node, 1, node->count, 0);
        flat[k] = section->graph.node_count - 1;
    }
    fast_node *all = fast__assembly_insert(b, section, FAST_OP_CONCAT, flat[0], -1);
    for (int k = 1; k < 3; k++) {
        all->inputs[all->input_count++] = flat[k];
        section->retained += nodes[parts[k]].count;
    }
    set_shape(all, 1, slots->count + section->retained, 0);
    section->divided = true;
    section->enter = (fast_reshard){ .forward = FAST_RESHARD_SLICE,
                                     .backward = FAST_RESHARD_GATHER,
                                     .samples = true };
    section->leave = (fast_reshard){ .forward = FAST_RESHARD_SWAP_BACK,
                                     .backward = FAST_RESHARD_SWAP,
                                     .samples = true,
                                     .other = slots->shape[0],
                                     .inner = slots->shape[1] };
    fast__assembly_end(b, section, run->dispatch);
}

/* The section of the own experts. */
static void make_experts(fast_assembly *b, const experts_run *run)
{
    const fast_node *out = &b->graph->nodes[run->last];
    fast_split_section *section = fast__assembly_begin(b, run->dispatch);
    fast_node *input = section->graph.nodes;

    set_shape(input, 2, input->shape[0] / b->shards, input->shape[1]);
    for (int i = run->dispatch + 1; i <= run->last; i++) {
        fast_split_slice slices[FAST_WEIGHTS_MAX];

        for (int w = 0; w < FAST_WEIGHTS_MAX; w++)
            slices[w] = (fast_split_slice){ .split = true };
        fast_node *node = fast__assembly_add(b, section, i, slices);
        node->groups /= b->shards;
        set_shape(node, 2, node->shape[0] / b->shards, node->shape[1]);
    }
    section->leave = (fast_reshard){ .forward = FAST_RESHARD_SWAP,
                                     .backward = FAST_RESHARD_SWAP_BACK,
                                     .samples = true,
                                     .other = out->shape[0],
                                     .inner = out->shape[1] };
    fast__assembly_end(b, section, run->last);
}

/* The section behind: the slots that came back, the route and a that stayed are its inputs. */
static void make_back(fast_assembly *b, int a, const experts_run *run)
{
    const fast_node *nodes = b->graph->nodes;
    const int parts[3] = { run->last, run->route, a };
    fast_split_section *section = fast__assembly_begin(b, run->last);
    int64_t first = 0;

    for (int k = 0; k < 3; k++) {
        const fast_node *part = &nodes[parts[k]];
        fast_node *node = fast__assembly_insert(b, section, FAST_OP_PART, 0, parts[k]);

        set_shape(node, 2, part->shape[0], part->shape[1]);
        node->columns[0] = first;
        first += part->count;
    }
    set_shape(section->graph.nodes, 1, first, 0);
    for (int i = run->combine; i <= run->end; i++)
        (void)fast__assembly_add(b, section, i, NULL);
    section->divided = true;
    section->leave = (fast_reshard){ .forward = FAST_RESHARD_GATHER,
                                     .backward = FAST_RESHARD_SLICE,
                                     .samples = true };
    fast__assembly_end(b, section, run->end);
}

static void experts_make(fast_assembly *b, int a, int e)
{
    experts_run run = { .end = e };
    const bool found = find_run(b, a, &run);

    FAST_ASSERT(found);
    make_choice(b, a, &run);
    make_experts(b, &run);
    make_back(b, a, &run);
}

const fast_split_kind fast__split_experts = {
    .name = "experts",
    .help = "a mixture of experts: own experts, own samples, all-to-all between them",
    .needs = "a mixture of experts",
    .find = experts_find,
    .make = experts_make,
};
