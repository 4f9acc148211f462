/* SPDX-License-Identifier: Apache-2.0 */
/*
 * 04_space - actors share a tensor: four workers throw darts at a quarter of a disc and add their
 * hits to a space. None is more than two rounds ahead of the slowest: bounded staleness.
 *
 *     cc 04_space.c -o 04_space $(pkg-config --cflags --libs fast)
 *     ./04_space threads; ./04_space sim; mpirun -n 2 ./04_space mpi
 */
#include <fast/space.h>
#include <stdio.h>

enum { WORKERS = 4, ROUNDS = 20, DARTS = 50000, AHEAD = 2 };

static fast_err play(fast_actor *actor, fast_space *space)
{
    fast_err err = FAST_OK;
    for (int64_t round = 1; round <= ROUNDS && !err; round++) {
        float add[2] = { 0, DARTS }, sum[2];
        for (int i = 0; i < DARTS; i++) {
            const double x = (double)(fast_random(actor) >> 11) / 0x1p53;
            const double y = (double)(fast_random(actor) >> 11) / 0x1p53;
            add[0] += x * x + y * y < 1;
        }
        err = fast_space_add(space, 0, add, FAST_SOON);
        err = err ? err : fast_space_tick(space, round);
        /* The last read waits for all workers; earlier ones allow a slack of two rounds. */
        fast_space_read read = { .clock_min = round < ROUNDS ? round - AHEAD : ROUNDS };
        err = err ? err : fast_space_get(space, 0, sum, &read, FAST_SOON);
        if (!err && fast_actor_id(actor) == 0 && round % 5 == 0)
            printf("round %2d: all have done %2d, %2d updates, pi is about %.4f\n", (int)round,
                   (int)read.clock, (int)read.version, 4.0 * (double)sum[0] / (double)sum[1]);
    }
    return err;
}

static fast_err work(fast_actor *actor, void *ctx)
{
    fast_space *space = NULL;
    fast_err err = fast_space_open(actor, ctx, &space);
    err = err ? err : play(actor, space);
    fast_space_close(space);
    return err;
}

int main(int argc, char **argv)
{
    const fast_space_tensor tensor = { "hits and darts", 2, NULL };
    const int64_t ids[WORKERS] = { 0, 1, 2, 3 }; /* actor 0 owns it, all are writers */
    fast_space_options board = { .name = "board", .tensors = &tensor, .tensor_count = 1 };
    board.owners = board.writers = ids;
    board.owner_count = 1, board.writer_count = WORKERS;
    char transport[32];
    snprintf(transport, sizeof transport, "transport=%s", argc > 1 ? argv[1] : "threads");
    const fast_role role = { "worker", WORKERS, work, &board };
    const fast_err err = fast_actors_run((const char *[]){ transport, NULL }, &role, 1, NULL);
    if (err)
        fprintf(stderr, "%s\nusage: 04_space [threads | sim | mpi]\n", fast_error_detail());
    return err ? 1 : 0;
}
