/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Question: how fast are get, put and add of a space between actors that share memory?
 * Bound: get and put copy each float once, so what memcpy() moves on vectors of the same size in
 * the same run; add reads two vectors and writes one, so what fast__vector_add() does.
 * Method: two actors on `threads`, the second sleeps. The first alternates the operations with
 * their bounds; the best of the rounds counts, since other programs disturb some of them. Then both
 * work at once on one tensor, for how they share a lock.
 * Expected: 0.9 or more of memcpy at 4 MiB; for small tensors the lock and the look at the mailbox,
 * about 0.1 us, show.
 *
 * Usage: bench_space
 */
#include "fast/space.h"
#include "base/clock.h"
#include "base/memory.h"
#include "tensor/vector.h"

#include <stdio.h>
#include <string.h>

enum { ROUNDS = 41, SIZES = 5, OPERATIONS = 5 };
static const int64_t sizes[SIZES] = { 64, 4096, 65536, 1 << 20, 1 << 23 }; /* floats */
static const char *const names[OPERATIONS] = { "memcpy", "get", "put", "vector add", "add" };

/* The best times in nanoseconds, and the vectors. */
typedef struct bench {
    int64_t best[SIZES][OPERATIONS];
    int64_t both_ns; /* of BOTH rounds of get and add by each of two actors at once */
    float *x, *y, *z;
} bench;
enum { BOTH = 5000 };

static fast_err operate(fast_space *space, int op, int64_t t, bench *b)
{
    const size_t bytes = (size_t)sizes[t] * sizeof(float);
    switch (op) {
    case 0:
        memcpy(b->y, b->x, bytes);
        return FAST_OK;
    case 1:
        return fast_space_get(space, t, b->y, NULL, FAST_SOON);
    case 2:
        return fast_space_put(space, t, b->x, FAST_SOON);
    case 3:
        fast__vector_add(sizes[t], b->x, b->z);
        return FAST_OK;
    default:
        return fast_space_add(space, t, b->x, FAST_SOON);
    }
}

static fast_err measure(fast_space *space, bench *b)
{
    for (int64_t t = 0; t < SIZES; t++) {
        const int64_t repeat = sizes[t] < 65536 ? 1000 : 1;
        for (int round = 0; round < ROUNDS; round++)
            for (int op = 0; op < OPERATIONS; op++) {
                const int64_t begin = fast__clock_ns();
                for (int64_t i = 0; i < repeat; i++)
                    FAST_TRY(operate(space, op, t, b));
                const int64_t time = (fast__clock_ns() - begin) / repeat;
                if (round == 0 || time < b->best[t][op])
                    b->best[t][op] = time;
            }
    }
    return FAST_OK;
}

static fast_err work(fast_actor *actor, void *ctx)
{
    bench *b = ctx;
    fast_space_tensor tensors[SIZES];
    char names_of[SIZES][16];
    const int64_t owner = 0, writers[] = { 0, 1 };
    for (int64_t t = 0; t < SIZES; t++) {
        snprintf(names_of[t], sizeof names_of[t], "%lld", (long long)sizes[t]);
        tensors[t] = (fast_space_tensor){ names_of[t], sizes[t], NULL };
    }
    const fast_space_options options = { .name = "bench",
                                         .tensors = tensors,
                                         .tensor_count = SIZES,
                                         .owners = &owner,
                                         .owner_count = 1,
                                         .writers = writers,
                                         .writer_count = 2 };
    fast_space *space;
    FAST_TRY(fast_space_open(actor, &options, &space));
    fast_err err = FAST_OK;
    if (fast_actor_id(actor) == 0)
        err = measure(space, b);
    if (!err)
        err = fast_space_tick(space, 1);
    /* Both at once: the other waits for the first here. */
    float *mine = NULL;
    fast_space_read read = { .clock_min = 1 };
    if (!err)
        err = fast__alloc("a benchmark", 1 << 18, sizeof *mine, &mine);
    if (!err)
        err = fast_space_get(space, 2, mine, &read, FAST_SOON);
    const int64_t begin = fast__clock_ns();
    for (int i = 0; i < BOTH && !err; i++) {
        err = fast_space_get(space, 2, mine, NULL, FAST_SOON);
        if (!err)
            err = fast_space_add(space, 2, b->x, FAST_SOON);
    }
    /* Until the slower one is done. */
    read.clock_min = 2;
    if (!err)
        err = fast_space_tick(space, 2);
    if (!err)
        err = fast_space_get(space, 2, mine, &read, FAST_SOON);
    if (fast_actor_id(actor) == 0)
        b->both_ns = fast__clock_ns() - begin;
    fast__free(mine);
    fast_space_close(space);
    return err;
}

int main(void)
{
    static bench b;
    const int64_t largest = sizes[SIZES - 1];
    const fast_role role = { "worker", 2, work, &b };
    if (fast__alloc("a benchmark", largest, sizeof *b.x, &b.x) != FAST_OK ||
        fast__alloc("a benchmark", largest, sizeof *b.y, &b.y) != FAST_OK ||
        fast__alloc("a benchmark", largest, sizeof *b.z, &b.z) != FAST_OK ||
        fast_actors_run((const char *[]){ "timeout=300", NULL }, &role, 1, NULL) != FAST_OK) {
        fprintf(stderr, "bench_space: %s\n", fast_error_detail());
        return 1;
    }
    printf("%10s", "KiB");
    for (int op = 0; op < OPERATIONS; op++)
        printf("  %10s us", names[op]);
    printf("   get/memcpy  put/memcpy\n");
    for (int t = 0; t < SIZES; t++) {
        printf("%10.2f", (double)sizes[t] / 256);
        for (int op = 0; op < OPERATIONS; op++)
            printf("  %13.3f", (double)b.best[t][op] / 1e3);
        printf("   %10.2f  %10.2f\n", (double)b.best[t][0] / (double)b.best[t][1],
               (double)b.best[t][0] / (double)b.best[t][2]);
    }
    printf("two actors at once, 256 KiB: %.1f us for a get and an add by each\n",
           (double)b.both_ns / 1e3 / BOTH);
    fast__free(b.x);
    fast__free(b.y);
    fast__free(b.z);
    return 0;
}
