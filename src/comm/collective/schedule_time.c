/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How long a schedule takes by the costs of a transport: its moves are simulated, rank by rank,
 * with a clock for each. A message of b bytes that is sent at t arrives at
 *
 *     max(t, when the sender's last message left it) + alpha + beta b
 *
 * or t + alpha + beta b where links have no contention (cost->side_by_side), and an addition of c
 * floats takes gamma c. Sends never wait. For powers of two and contention this gives the closed
 * forms of the algorithms; for other sizes those only bound it, since the second
 * members of pairs do not wait for the core.
 *
 * Cost: one look at each move of all ranks, so it is done for small groups only.
 */
#include "comm/cost_model.h"

#include <string.h>

enum { FLIGHT_MAX = 256 }; /* messages under way at once */

/* A message under way. */
typedef struct flight {
    int64_t from, to; /* ranks */
    double arrives;   /* in seconds */
} flight;

/* A rank that makes its moves. */
typedef struct player {
    double clock;                      /* its time */
    double left;                       /* when its last message has left it */
    int64_t round;                     /* the next */
    int move, move_count;              /* of this round; FAST_ROUNDS_END: it has made all moves */
    fast_move moves[FAST_ROUND_MOVES]; /* of this round */
} player;

/* The simulation: all ranks and the messages between them. */
typedef struct game {
    const fast_comm_cost *cost;       /* of the transport */
    fast_ask ask;                     /* with the rank that moves now */
    fast_round_fn *rounds;            /* the schedule */
    player players[FAST_PREDICT_MAX]; /* by rank */
    flight flights[FLIGHT_MAX];       /* in the order of sending */
    int flight_count;                 /* number of flights */
} game;

/* Send; false if too many messages are in flight. */
static bool play_send(game *g, player *p, const fast_move *move)
{
    FAST_ASSERT(move->kind == FAST_MOVE_SEND);
    if (g->flight_count == FLIGHT_MAX)
        return false;
    const double start = p->clock > p->left || g->cost->side_by_side ? p->clock : p->left;
    p->left = start + g->cost->beta * 4.0 * (double)move->count;
    g->flights[g->flight_count++] =
        (flight){ .from = g->ask.rank, .to = move->peer, .arrives = p->left + g->cost->alpha };
    return true;
}

/* Receive the oldest message of the peer; false if none was sent yet. */
static bool play_receive(game *g, player *p, const fast_move *move)
{
    FAST_ASSERT(move->kind != FAST_MOVE_SEND);
    for (int i = 0; i < g->flight_count; i++) {
        const flight *f = &g->flights[i];
        if (f->from != move->peer || f->to != g->ask.rank)
            continue;
        if (f->arrives > p->clock)
            p->clock = f->arrives;
        if (move->kind != FAST_MOVE_COPY)
            p->clock += g->cost->gamma * (double)move->count;
        g->flight_count--;
        memmove(g->flights + i, g->flights + i + 1, (size_t)(g->flight_count - i) * sizeof *f);
        return true;
    }
    return false;
}

/* The moves of one rank until it has to wait. True if it made any. */
static bool play(game *g, int64_t rank)
{
    FAST_ASSERT(rank >= 0 && rank < g->ask.size);
    player *p = &g->players[rank];
    bool moved = false;
    g->ask.rank = rank;
    while (p->move_count != FAST_ROUNDS_END) {
        if (p->move == p->move_count) {
            p->move = 0;
            p->move_count = g->rounds(&g->ask, p->round++, p->moves);
            moved = true;
            continue;
        }
        const fast_move *move = &p->moves[p->move];
        if (move->count > 0 || (move->flags & FAST_MOVE_EMPTY)) {
            const bool sends = move->kind == FAST_MOVE_SEND;
            if (!(sends ? play_send(g, p, move) : play_receive(g, p, move)))
                return moved;
        }
        p->move++;
        moved = true;
    }
    return moved;
}

/* Ranks move in turn until none can: a schedule without a deadlock then has no move left. */
bool fast__schedule_predict(const fast_comm_cost *cost, const fast_ask *ask, fast_round_fn *rounds,
                            double *seconds_out)
{
    FAST_ASSERT(ask->size >= 1);
    FAST_ASSERT(rounds != NULL);
    if (ask->size > FAST_PREDICT_MAX)
        return false;
    game g = { .cost = cost, .ask = *ask, .rounds = rounds };
    bool moved = true;
    while (moved) {
        moved = false;
        for (int64_t rank = 0; rank < ask->size; rank++)
            moved |= play(&g, rank);
    }
    double last = 0;
    for (int64_t rank = 0; rank < ask->size; rank++) {
        if (g.players[rank].move_count != FAST_ROUNDS_END)
            return false;
        last = g.players[rank].clock > last ? g.players[rank].clock : last;
    }
    *seconds_out = last;
    return true;
}
