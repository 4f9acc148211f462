/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Collectives between workers 0 to n - 1 and a master, rank n, with no vector of its own.
 *
 * Tree: worker n - 1, which is never one of a pair of the canonical order (moves.h), hands its
 * vector to the master first, and the master takes its place as the root of the workers' tree. So
 * the sum is the canonical one, and with a transfer T and an addition R of the vector
 *
 *     up     ceil(log2(n + 1)) T + ceil(log2 n) R        down     ceil(log2(n + 1)) T
 *
 * n = 4:   round 0       1            2                    n = 3:   round 0     1
 *          3 -> master   0 <- 1       master <- 0 + 1               0 <- 1      master <- 0 + 1
 *                        master <- 2                                2 -> master
 *
 * Slices: T up and T down, as the master's link has n slices to move. Whole: n T each.
 * Exchange of slices among workers: (n - 1) / n T, whatever n is.
 */
#include "comm/master.h"

#include "comm/collective/moves.h"
#include "comm/collective/nonblocking.h"
#include "tensor/vector.h"

/* Set the peers of a schedule over the workers, in which the master stands for the last of them. */
static int for_master(int moved, int64_t master, fast_move *moves)
{
    FAST_ASSERT(master >= 1);
    for (int i = 0; i < moved; i++)
        if (moves[i].peer == master - 1)
            moves[i].peer = master;
    return moved;
}

/* The arguments of the workers' schedule; the master has the last one's place. */
static fast_ask among_workers(const fast_ask *ask)
{
    const int64_t master = ask->size - 1;

    FAST_ASSERT(master >= 1);
    return (fast_ask){ .rank = ask->rank == master ? master - 1 : ask->rank,
                       .size = master,
                       .count = ask->count,
                       .root = master - 1 };
}

/* The sum, up the tree: the last worker's vector first, then the partial sums of larger and larger
 * blocks of workers. Rounds are those of the workers' tree, at the master one later. */
static int tree_up(const fast_ask *ask, int64_t round, fast_move *moves)
{
    const int64_t master = ask->size - 1;
    const fast_ask inner = among_workers(ask);

    FAST_ASSERT(round >= 0);
    if (ask->rank == master - 1) {
        moves[0] = (fast_move){ FAST_MOVE_SEND, 0, master, 0, ask->count };
        return round == 0 ? 1 : FAST_ROUNDS_END;
    }
    if (ask->rank != master)
        return for_master(fast__rounds_reduce(&inner, round, moves), master, moves);
    moves[0] = (fast_move){ FAST_MOVE_COPY, 0, master - 1, 0, ask->count };
    return round == 0 ? 1 : fast__rounds_reduce(&inner, round - 1, moves);
}

/* A copy of the master's vector, down the tree, in the opposite order: the last worker's at the
 * end. */
static int tree_down(const fast_ask *ask, int64_t round, fast_move *moves)
{
    const int64_t master = ask->size - 1;
    const fast_ask inner = among_workers(ask);

    FAST_ASSERT(round >= 0);
    if (ask->rank == master - 1) {
        moves[0] = (fast_move){ FAST_MOVE_COPY, 0, master, 0, ask->count };
        return round == 0 ? 1 : FAST_ROUNDS_END;
    }
    const int moved = fast__rounds_broadcast(&inner, round, moves);
    if (ask->rank != master || moved != FAST_ROUNDS_END)
        return for_master(moved, master, moves);
    /* After the others, the worker whose place the master had. One worker has no tree above it, and
     * its message is the first. */
    if (round > fast__core_of(inner.size).bits + 1)
        return FAST_ROUNDS_END;
    moves[0] = (fast_move){ FAST_MOVE_SEND, inner.size > 1 ? FAST_MOVE_RETAINED : 0, master - 1, 0,
                            ask->count };
    return 1;
}

/* The range of worker i, in the workers' vectors, and in the master's. */
static void range_of(const fast_ask *ask, fast_master_path path, int64_t i, int64_t *offset_out,
                     int64_t *count_out)
{
    FAST_ASSERT(path != FAST_MASTER_TREE);
    if (path == FAST_MASTER_SLICES) {
        fast__range(ask->count, ask->size - 1, i, offset_out, count_out);
    } else {
        *offset_out = 0;
        *count_out = ask->count;
    }
}

/* Up, a range of each worker: one round for each at the master. */
static int ranges_up(const fast_ask *ask, int64_t round, fast_move *moves)
{
    const fast_master_path path = *(const fast_master_path *)ask->config;
    const int64_t master = ask->size - 1, worker = ask->rank == master ? round : ask->rank;
    int64_t offset, count;

    FAST_ASSERT(round >= 0);
    if (ask->rank == master ? round >= master : round > 0)
        return FAST_ROUNDS_END;
    range_of(ask, path, worker, &offset, &count);
    if (ask->rank == master && path == FAST_MASTER_WHOLE)
        offset = worker * ask->count;
    moves[0] = ask->rank == master ? (fast_move){ FAST_MOVE_COPY, 0, worker, offset, count }
                                   : (fast_move){ FAST_MOVE_SEND, 0, master, offset, count };
    return 1;
}

/* Down: whole vectors are views of one buffer. */
static int ranges_down(const fast_ask *ask, int64_t round, fast_move *moves)
{
    const fast_master_path path = *(const fast_master_path *)ask->config;
    const int64_t master = ask->size - 1, worker = ask->rank == master ? round : ask->rank;
    int64_t offset, count;

    FAST_ASSERT(round >= 0);
    if (ask->rank == master ? round >= master : round > 0)
        return FAST_ROUNDS_END;
    range_of(ask, path, worker, &offset, &count);
    const unsigned shared = round == 0 ? FAST_MOVE_RETAIN : FAST_MOVE_RETAIN | FAST_MOVE_RETAINED;
    moves[0] = ask->rank == master
                   ? (fast_move){ FAST_MOVE_SEND, path == FAST_MASTER_WHOLE ? shared : 0, worker,
                                  offset, count }
                   : (fast_move){ FAST_MOVE_COPY, 0, master, offset, count };
    return 1;
}

/* At the master y is the result; the vectors of workers are only read. */
fast_err fast__master_up(fast_group *group, fast_master_path path, const float *x, float *y,
                         int64_t count, int64_t deadline)
{
    FAST_ASSERT(group->size >= 2);
    /* The schedule reads the path from its configuration, which lives as long as this call. */
    return fast__collective_floats(group, "sum at the master",
                                   path == FAST_MASTER_TREE ? tree_up : ranges_up,
                                   (fast_ask){ .count = count, .config = &path }, x, y, deadline);
}

fast_err fast__master_down(fast_group *group, fast_master_path path, float *x, int64_t count,
                           int64_t deadline)
{
    FAST_ASSERT(group->size >= 2);
    return fast__collective_floats(group, "broadcast of the master",
                                   path == FAST_MASTER_TREE ? tree_down : ranges_down,
                                   (fast_ask){ .count = count, .config = &path }, x, x, deadline);
}

/* Start a schedule along the tree: the actor advances it in its waits, and while it computes. */
static fast_err start(fast_group *group, fast_round_fn *rounds, const float *x, float *y,
                      int64_t count, fast_request **out)
{
    FAST_ASSERT(group->size >= 2);
    return fast__request_start(
        &(fast_collective){ .group = group,
                            .doing = "exchange with the master",
                            .ask = { .rank = group->rank, .size = group->size, .count = count },
                            .rounds = rounds,
                            .x = x,
                            .y = y,
                            .element = sizeof *x },
        out);
}

fast_err fast__master_up_start(fast_group *group, const float *x, float *y, int64_t count,
                               fast_request **out)
{
    FAST_ASSERT(x != NULL && y != NULL);
    return start(group, tree_up, x, y, count, out);
}

fast_err fast__master_down_start(fast_group *group, float *x, int64_t count, fast_request **out)
{
    FAST_ASSERT(x != NULL);
    return start(group, tree_down, x, x, count, out);
}

bool fast__master_is_done(const fast_request *request)
{
    FAST_ASSERT(request != NULL);
    return request->task.done;
}

/* In round s each rank sends to the rank s above: no rank is sent to by two at once. */
static int slices_rounds(const fast_ask *ask, int64_t round, fast_move *moves)
{
    const int64_t n = ask->size, room = (ask->count + n - 1) / n;
    int64_t offset, count;

    FAST_ASSERT(round >= 0);
    if (round >= n - 1)
        return FAST_ROUNDS_END;
    const int64_t to = (ask->rank + round + 1) % n, from = (ask->rank + n - round - 1) % n;
    fast__range(ask->count, n, to, &offset, &count);
    moves[0] = (fast_move){ FAST_MOVE_SEND, 0, to, offset, count };
    fast__range(ask->count, n, ask->rank, &offset, &count);
    moves[1] = (fast_move){ FAST_MOVE_COPY, 0, from, from * room, count };
    return 2;
}

/* The own range is copied here: no schedule sends to itself. */
fast_err fast__slices_exchange(fast_group *workers, const float *x, int64_t count, float *y,
                               int64_t deadline)
{
    const int64_t room = (count + workers->size - 1) / workers->size;
    int64_t offset, own;

    FAST_ASSERT(x != NULL && y != NULL && x != y);
    fast__range(count, workers->size, workers->rank, &offset, &own);
    fast__vector_copy(own, x + offset, y + workers->rank * room);
    return fast__collective_floats(workers, "exchange of slices", slices_rounds,
                                   (fast_ask){ .count = count }, x, y, deadline);
}

/* Send the own range to all, and receive theirs: no message waits for another one, so that ranks
 * that start later delay nothing but their own range. */
static int gather_rounds(const fast_ask *ask, int64_t round, fast_move *moves)
{
    const int64_t n = ask->size;
    int64_t offset, count;

    FAST_ASSERT(round >= 0);
    if (round >= 2 * (n - 1))
        return FAST_ROUNDS_END;
    const bool sends = round < n - 1;
    const int64_t peer = (ask->rank + round % (n - 1) + 1) % n;
    fast__range(ask->count, n, sends ? ask->rank : peer, &offset, &count);
    const unsigned shared = FAST_MOVE_RETAIN | (round > 0 ? FAST_MOVE_RETAINED : 0);
    moves[0] = sends ? (fast_move){ FAST_MOVE_SEND, shared, peer, offset, count }
                     : (fast_move){ FAST_MOVE_COPY, 0, peer, offset, count };
    return 1;
}

fast_err fast__slices_gather(fast_group *workers, float *x, int64_t count, int64_t deadline)
{
    FAST_ASSERT(x != NULL);
    return fast__collective_floats(workers, "gathering of slices", gather_rounds,
                                   (fast_ask){ .count = count }, x, x, deadline);
}
