/* SPDX-License-Identifier: Apache-2.0 */
/*
 * 05_mixing - actors agree on a mean by messages to their neighbours only. Each starts with its own
 * number and mixes it at each step with those of its neighbours, by the weights of a topology. The
 * largest distance from the mean shrinks by the factor 1 - gap or faster.
 *
 *     cc 05_mixing.c -o 05_mixing $(pkg-config --cflags --libs fast)
 *     ./05_mixing threads ring 8        ./05_mixing sim exponential:one=yes 1000
 */
#include <fast/comm.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { STEPS = 20, DEGREE_MAX = 4096 };

/* Shared by all actors, read-only: the graph. */
static fast_err mix(fast_actor *actor, void *ctx)
{
    const fast_topology *graph = ctx;
    int64_t to[DEGREE_MAX], from[DEGREE_MAX];
    double share[DEGREE_MAX], self;
    float y[DEGREE_MAX], farthest;
    fast_group *group = NULL;
    fast_err err = fast_group_all(actor, "worker", &group);
    const int64_t rank = group ? fast_group_rank(group) : 0;
    const float mean = (float)(fast_topology_size(graph) - 1) / 2;
    float x = (float)rank; /* initial value */

    for (int64_t step = 0; step < STEPS && err == FAST_OK; step++) {
        const int64_t out = fast_topology_out(graph, step, rank, to, share, &self);
        const int64_t in = fast_topology_in(graph, step, rank, from, share, &self);

        fast_actor_at(actor, step, "value");
        err = fast_neighbour_exchange(group, to, out, from, in, &x, 1, y, FAST_SOON);
        double sum = self * x;
        for (int64_t i = 0; i < in; i++)
            sum += share[i] * y[i];
        x = (float)sum;
    }
    farthest = fabsf(x - mean); /* summed over all actors below */
    if (err == FAST_OK)
        err = fast_allreduce(group, &farthest, 1, FAST_SOON);
    if (err == FAST_OK && rank == 0)
        printf("after %d steps: mean distance %.6f, at first %.6f, gap %.4f\n", STEPS,
               farthest / (float)fast_group_size(group), ((double)mean + 0.5) / 2,
               fast_topology_gap(graph));
    fast_group_free(group);
    return err;
}

int main(int argc, char **argv)
{
    char transport[64];
    const int64_t workers = argc > 3 ? atoll(argv[3]) : 8;
    fast_topology *graph = NULL;

    snprintf(transport, sizeof transport, "transport=%s", argc > 1 ? argv[1] : "threads");
    fast_err err = fast_topology_new(argc > 2 ? argv[2] : "ring", workers, 1, &graph);
    const fast_role roles[] = { { "worker", workers, mix, graph } };
    if (err == FAST_OK)
        err = fast_actors_run((const char *[]){ transport, NULL }, roles, 1, NULL);
    if (err != FAST_OK)
        fprintf(stderr, "%s\n", fast_error_detail());
    fast_topology_free(graph);
    return err == FAST_OK ? 0 : 1;
}
