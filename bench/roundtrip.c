/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Question: how long does a small message take there and back between two actors on threads?
 * Bound: four transfers of a cache line between the cores, two each way (the inbox and the
 * message), 50 to 100 ns each on the machines that we know. Method: rounds of many round trips;
 * the best and the median round count, since other programs disturb some of them. Then the same
 * with 8 bytes in a buffer, and with 64 actors in pairs that share the cores.
 * An argument names another transport: mpirun -n 2 bench_roundtrip transport=mpi.
 * bench/peer_roundtrip.c asks Open MPI the same. Expected: no slower than Open MPI's shared memory
 * in the same run.
 */
#include "base/err.h"
#include "fast/comm.h"

#include <stdio.h>
#include <stdlib.h>

enum { ROUNDS = 25 };

typedef struct game {
    int64_t trips;     /* of a round */
    size_t size;       /* of a part; 0: none */
    double ns[ROUNDS]; /* a round trip took, by round; of actor 0 */
} game;

static fast_err hit(fast_actor *actor, const game *g, int64_t to)
{
    fast_msg *msg = NULL;
    FAST_TRY(fast_msg_new(actor, 1, &msg));
    if (g->size > 0) {
        fast_buffer *buffer = NULL;
        FAST_TRY(fast_buffer_new(actor, g->size, &buffer));
        fast_msg_add(msg, &buffer);
    }
    return fast_send(actor, to, &msg);
}

static fast_err catch (fast_actor *actor, int64_t from)
{
    fast_msg *msg = NULL;
    FAST_TRY(fast_receive(actor, from, 1, FAST_SOON, &msg));
    fast_msg_free(msg);
    return FAST_OK;
}

static fast_err player(fast_actor *actor, void *ctx)
{
    game *g = ctx;
    const int64_t me = fast_actor_id(actor), other = me ^ 1;
    for (int round = 0; round < ROUNDS; round++) {
        const int64_t begin = fast_now(actor);
        for (int64_t i = 0; i < g->trips; i++) {
            if (me % 2 == 0)
                FAST_TRY(hit(actor, g, other));
            FAST_TRY(catch (actor, other));
            if (me % 2 == 1)
                FAST_TRY(hit(actor, g, other));
        }
        if (me == 0)
            g->ns[round] = (double)(fast_now(actor) - begin) / (double)g->trips;
    }
    return FAST_OK;
}

static int compare(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static void measure(const char *option, const char *what, int64_t actors, int64_t trips,
                    size_t size)
{
    const char *const options[] = { option, NULL };
    game g = { .trips = trips, .size = size };
    const fast_role roles[] = { { "player", actors, player, &g } };
    if (fast_actors_run(options, roles, 1, NULL)) {
        printf("%-28s %s\n", what, fast_error_detail());
        return;
    }
    if (g.ns[0] == 0)
        return; /* the rank of actor 0 speaks */
    qsort(g.ns, ROUNDS, sizeof g.ns[0], compare);
    printf("%-28s %8.1f ns best %8.1f ns median\n", what, g.ns[0], g.ns[ROUNDS / 2]);
}

int main(int argc, char **argv)
{
    const char *option = argc > 1 ? argv[1] : "transport=threads";
    measure(option, "2 actors, header alone", 2, 20000, 0);
    measure(option, "2 actors, 8 bytes", 2, 20000, 8);
    measure(option, "2 actors, 4096 bytes", 2, 20000, 4096);
    measure(option, "64 actors, header alone", 64, 200, 0);
    return 0;
}
