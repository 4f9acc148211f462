/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Blocks that visit shards. A micro-batch in flight has the block of each visitor that is here,
 * from its forward pass to its backward pass; the memory of moves is one micro-batch's, since a
 * pass is over before another starts:
 *
 *     slot      visit     [floats]          the block
 *               saved                       of the operator
 *     shared    back      [2][floats]       backward: the block, and its gradient
 *               arrived   [2][floats]       what a move receives, until the next round
 *
 * The backward pass starts with the blocks that the forward pass ended with, so it moves a block
 * and its gradient R - 1 times, as often as the forward pass the block.
 */
#include "model/rounds.h"

#include "base/memory.h"

#include <string.h>

/* A micro-batch in flight. */
typedef struct rounds_slot {
    float *visit[FAST_VISITORS_MAX]; /* blocks */
    float *saved;                    /* of the operator */
} rounds_slot;

struct fast_rounds {
    fast_rounds_options options;         /* the caller's */
    int64_t count;                       /* number of rounds */
    int64_t floats[FAST_VISITORS_MAX];   /* of a block; 0: no such visitor */
    rounds_slot *slots;                  /* [options.slots] */
    float *back[FAST_VISITORS_MAX];      /* the block and its gradient */
    float *arrived[FAST_VISITORS_MAX];   /* receives a move */
    fast_reshard on[FAST_VISITORS_MAX];  /* forward moves */
    fast_reshard off[FAST_VISITORS_MAX]; /* backward moves */
};

/* The arguments that do not change; operators tell sizes and neighbours by them alone. */
static fast_round_call plain_call(const fast_rounds_options *o)
{
    return (fast_round_call){
        .graph = o->graph, .samples = o->samples, .shards = o->shards, .shard = o->shard
    };
}

/* A move of a visitor. */
static fast_reshard move_of(const fast_rounds_options *o, int visitor, bool back, int64_t floats)
{
    const fast_round_call call = plain_call(o);

    return (fast_reshard){ .forward = FAST_RESHARD_SHIFT,
                           .backward = FAST_RESHARD_SHIFT,
                           .inner = floats,
                           .to = o->op->next(&call, visitor, back),
                           .from = o->op->next(&call, visitor, !back) };
}

/* Allocate what a visitor needs. */
static fast_err fill_visitor(fast_rounds *rounds, int v)
{
    const fast_rounds_options *o = &rounds->options;
    const int64_t floats = rounds->floats[v];

    rounds->on[v] = move_of(o, v, false, floats);
    rounds->off[v] = move_of(o, v, true, 2 * floats);
    FAST_TRY(fast__alloc("blocks and gradients", 2 * floats, sizeof(float), &rounds->back[v]));
    FAST_TRY(fast__alloc("blocks that arrive", 2 * floats, sizeof(float), &rounds->arrived[v]));
    for (int64_t i = 0; i < o->slots; i++)
        FAST_TRY(fast__alloc("visiting blocks", floats, sizeof(float), &rounds->slots[i].visit[v]));
    return FAST_OK;
}

/* Allocate all memory. Operators without saved values get one float, which nobody reads. */
static fast_err fill(fast_rounds *rounds)
{
    const fast_rounds_options *o = &rounds->options;
    const fast_round_call call = plain_call(o);

    FAST_TRY(fast__alloc("rounds", o->slots, sizeof *rounds->slots, &rounds->slots));
    for (int64_t i = 0; i < o->slots; i++)
        FAST_TRY(fast__alloc("values of rounds", o->op->saved(&call) + 1, sizeof(float),
                             &rounds->slots[i].saved));
    for (int v = 0; v < FAST_VISITORS_MAX; v++) {
        rounds->floats[v] = o->op->floats(&call, v);
        if (rounds->floats[v] > 0)
            FAST_TRY(fill_visitor(rounds, v));
    }
    return FAST_OK;
}

fast_err fast__rounds_new(const fast_rounds_options *options, fast_rounds **out)
{
    const fast_round_call call = plain_call(options);
    fast_rounds *rounds = NULL;

    FAST_ASSERT(options->slots > 0 && options->samples > 0);
    FAST_TRY(fast__alloc("rounds", 1, sizeof *rounds, &rounds));
    rounds->options = *options;
    rounds->count = options->op->rounds(&call);
    const fast_err err = fill(rounds);
    if (err) {
        fast__rounds_free(rounds);
        return err;
    }
    *out = rounds;
    return FAST_OK;
}

void fast__rounds_free(fast_rounds *rounds)
{
    if (!rounds)
        return;
    for (int64_t i = 0; rounds->slots && i < rounds->options.slots; i++) {
        for (int v = 0; v < FAST_VISITORS_MAX; v++)
            fast__free(rounds->slots[i].visit[v]);
        fast__free(rounds->slots[i].saved);
    }
    for (int v = 0; v < FAST_VISITORS_MAX; v++) {
        fast__free(rounds->back[v]);
        fast__free(rounds->arrived[v]);
    }
    fast__free(rounds->slots);
    fast__free(rounds);
}

int64_t fast__rounds_bytes(const fast_rounds_options *options)
{
    const fast_round_call call = plain_call(options);
    int64_t floats = options->op->saved(&call);

    for (int v = 0; v < FAST_VISITORS_MAX; v++)
        floats += options->op->floats(&call, v);
    return floats * (int64_t)sizeof(float);
}

int64_t fast__rounds_count(const fast_rounds *rounds)
{
    return rounds->count;
}

/* Take what has arrived, or in the first round of a pass the blocks that are here:
 *
 *     forward     round 0 its own blocks, from start(); then those that arrived
 *     backward    round R - 1 the blocks that the forward pass ended with, and zeros as gradients;
 *                 then those that arrived, with the gradients of the shards visited so far
 */
static void take_blocks(const fast_rounds *rounds, int64_t slot, bool backward, bool first)
{
    const rounds_slot *own = &rounds->slots[slot];

    for (int v = 0; v < FAST_VISITORS_MAX; v++) {
        const size_t size = (size_t)rounds->floats[v] * sizeof(float);

        if (size == 0)
            continue;
        if (!backward && !first)
            memcpy(own->visit[v], rounds->arrived[v], size);
        else if (backward && !first)
            memcpy(rounds->back[v], rounds->arrived[v], 2 * size);
        else if (backward) {
            memcpy(rounds->back[v], own->visit[v], size);
            memset(rounds->back[v] + rounds->floats[v], 0, size);
        }
    }
}

/* The operator sees the same call in all rounds but for the blocks. Its backward pass is twice the
 * forward pass's operations, as of all products of activations. */
double fast__rounds_run(fast_rounds *rounds, int64_t slot, bool backward, fast_round_call *call)
{
    const fast_rounds_options *o = &rounds->options;
    const int64_t first = backward ? rounds->count - 1 : 0;

    FAST_ASSERT(slot >= 0 && slot < o->slots);
    FAST_ASSERT(call->round >= 0 && call->round < rounds->count);
    take_blocks(rounds, slot, backward, call->round == first);
    call->graph = o->graph;
    call->samples = o->samples;
    call->shards = o->shards;
    call->shard = o->shard;
    call->saved = rounds->slots[slot].saved;
    for (int v = 0; v < FAST_VISITORS_MAX; v++) {
        call->visit[v] = backward ? rounds->back[v] : rounds->slots[slot].visit[v];
        call->visit_grad[v] = backward ? rounds->back[v] + rounds->floats[v] : NULL;
    }
    if (!backward && call->round == 0)
        o->op->start(call);
    if (backward)
        o->op->backward(call);
    else
        o->op->forward(call);
    if (backward && call->round == 0)
        o->op->finish(call);
    return (backward ? 2 : 1) * o->op->operations(call);
}

bool fast__rounds_move(const fast_rounds *rounds, int64_t slot, bool backward, int visitor,
                       fast_stage_exchange *out)
{
    if (rounds->floats[visitor] == 0)
        return false;
    *out = (fast_stage_exchange){
        .value = { .how = backward ? &rounds->off[visitor] : &rounds->on[visitor],
                   .kind = FAST_RESHARD_SHIFT,
                   .samples = 1,
                   .shards = rounds->options.shards },
        .from = backward ? rounds->back[visitor] : rounds->slots[slot].visit[visitor],
        .to = rounds->arrived[visitor]
    };
    return true;
}
