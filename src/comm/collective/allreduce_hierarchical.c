/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Allreduce in two levels: the members of each node add up to their first one along a tree, these
 * leaders reduce among themselves, and each sends the result back down its tree. With s members on
 * each of P / s nodes, of which only the leaders use the links between nodes:
 *
 *   T = 2 log2(s) (l + m g) + T_across(P / s)        l, g: inside a node
 *
 * Nodes are where the actors live; `members` cuts the ranks into nodes of that many instead, in
 * their order. The order of sums is the canonical one where nodes are equal powers of two of
 * consecutive ranks, whatever their number: the canonical tree joins their subtrees just so.
 */
#include "base/memory.h"
#include "comm/allreduces.h"
#include "comm/collective/moves.h"

/* Options, as they are typed. */
typedef struct hierarchical_config {
    int64_t members; /* of a node; 0: as the actors live */
    int across;      /* number in across_names */
} hierarchical_config;

static const fast_option hierarchical_options[] = {
    FAST_OPT_INT(hierarchical_config, members, "0", 0, 1 << 20,
                 "ranks that count as one node; 0 means those that live on one"),
    FAST_OPT_CHOICE(hierarchical_config, across, "rabenseifner", "tree|butterfly|rabenseifner",
                    "how the nodes' leaders reduce among themselves"),
    FAST_OPT_END,
};

/* By number of the option `across`. */
static const fast_algorithm *const across_choices[] = {
    &fast__allreduce_tree,
    &fast__allreduce_butterfly,
    &fast__allreduce_rabenseifner,
};

/* The ranks of each node, the same at all members. */
typedef struct node_list {
    int64_t node_count; /* of nodes */
    int64_t node;       /* this rank's */
    int64_t place;      /* of this rank in its node; 0: it leads */
    int64_t *begin;     /* first index of each node in `ranks`; one more at the end */
    int64_t *ranks;     /* of node 0 in their order, of node 1, ... */
} node_list;

/* A name for the node of a rank. */
static int64_t node_of(const fast_group *group, const hierarchical_config *config, int64_t rank)
{
    FAST_ASSERT(rank >= 0 && rank < group->size);
    if (config->members > 0)
        return rank / config->members;
    return fast_actor_node(group->actor, fast_group_member(group, rank));
}

/* Number the nodes in the order of their first ranks, and list each one's ranks. `number` has room
 * for every node's name and `head` for one element a rank; both are zeroed. */
static void sort(const fast_group *group, const hierarchical_config *config, node_list *levels,
                 int64_t *number, int64_t *head)
{
    const int64_t n = group->size;
    for (int64_t r = 0; r < n; r++) {
        int64_t *k = &number[node_of(group, config, r)];
        if (*k == 0)
            *k = ++levels->node_count;
        levels->begin[*k]++;
    }
    for (int64_t k = 0; k < levels->node_count; k++) {
        head[k] = levels->begin[k];
        levels->begin[k + 1] += levels->begin[k];
    }
    for (int64_t r = 0; r < n; r++) {
        const int64_t k = number[node_of(group, config, r)] - 1;
        if (r == group->rank) {
            levels->node = k;
            levels->place = head[k] - levels->begin[k];
        }
        levels->ranks[head[k]++] = r;
    }
    FAST_ASSERT(levels->begin[levels->node_count] == n);
}

/* The nodes follow from the members' places: no message is sent. */
static fast_err hierarchical_open(fast_group *group, const void *config, void **state_out)
{
    FAST_ASSERT(config && !*state_out);
    const int64_t n = group->size;
    node_list *levels;
    int64_t *scratch;
    int64_t names = 0;
    for (int64_t r = 0; r < n; r++)
        if (node_of(group, config, r) >= names)
            names = node_of(group, config, r) + 1;
    FAST_TRY(fast__alloc("the nodes of a group", 1, sizeof *levels, &levels));
    fast_err err = fast__alloc("the nodes of a group", 2 * n + 1, sizeof(int64_t), &levels->begin);
    if (err)
        goto undo_levels;
    levels->ranks = levels->begin + n + 1;
    err = fast__alloc("the nodes of a group", names + n, sizeof(int64_t), &scratch);
    if (err)
        goto undo_begin;
    sort(group, config, levels, scratch, scratch + names);
    fast__free(scratch);
    *state_out = levels;
    return FAST_OK;

undo_begin:
    fast__free(levels->begin);
undo_levels:
    fast__free(levels);
    return err;
}

/* `ranks` is in the same block as `begin`. */
static void hierarchical_close(fast_group *group, void *state)
{
    node_list *levels = state;
    (void)group;
    if (levels)
        fast__free(levels->begin);
    fast__free(levels);
}

/* How many rounds a short schedule has. */
static int64_t round_count(fast_round_fn *rounds, const fast_ask *ask)
{
    FAST_ASSERT(rounds);
    fast_move moves[FAST_ROUND_MOVES];
    int64_t count = 0;
    while (rounds(ask, count, moves) != FAST_ROUNDS_END)
        count++;
    return count;
}

/* Up each node's tree, across the leaders, and down the trees. */
static int hierarchical_rounds(const fast_ask *ask, int64_t round, fast_move *moves)
{
    FAST_ASSERT(ask->state && ask->config);
    const node_list *levels = ask->state;
    const hierarchical_config *config = ask->config;
    const int64_t *mates = levels->ranks + levels->begin[levels->node];
    const int64_t size = levels->begin[levels->node + 1] - levels->begin[levels->node];
    const fast_ask inside = { levels->place, size, ask->count, 0, NULL, NULL };
    const fast_ask across = { levels->node, levels->node_count, ask->count, 0, NULL, NULL };
    fast_round_fn *rounds = across_choices[config->across]->rounds;
    const int64_t up = fast__core_of(size).bits + 1;
    const int64_t over = round >= up && levels->place == 0 ? round_count(rounds, &across) : 0;
    int count;

    if (round >= up && round < up + over) {
        count = rounds(&across, round - up, moves);
        for (int i = 0; i < count; i++)
            moves[i].peer = levels->ranks[levels->begin[moves[i].peer]];
        return count;
    }
    count = round < up ? fast__rounds_reduce(&inside, round, moves)
                       : fast__rounds_broadcast(&inside, round - up - over, moves);
    for (int i = 0; i < count; i++)
        moves[i].peer = mates[moves[i].peer];
    return count;
}

/* The largest node decides, and the costs of links between nodes count for all: an upper bound. */
static double hierarchical_seconds(const fast_comm_cost *cost, const fast_ask *ask)
{
    const node_list *levels = ask->state;
    const hierarchical_config *config = ask->config;
    FAST_ASSERT(levels != NULL && config != NULL);
    int64_t largest = 1;
    for (int64_t k = 0; k < levels->node_count; k++)
        if (levels->begin[k + 1] - levels->begin[k] > largest)
            largest = levels->begin[k + 1] - levels->begin[k];
    const fast_ask inside = { 0, largest, ask->count, 0, NULL, NULL };
    const fast_ask across = { 0, levels->node_count, ask->count, 0, NULL, NULL };
    return fast__allreduce_tree.seconds(cost, &inside) +
           across_choices[config->across]->seconds(cost, &across);
}

const fast_algorithm fast__allreduce_hierarchical = {
    .name = "hierarchical",
    .summary = "reduce within nodes, then among their leaders, and back",
    .options = hierarchical_options,
    .open = hierarchical_open,
    .close = hierarchical_close,
    .rounds = hierarchical_rounds,
    .seconds = hierarchical_seconds,
};
