/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Allreduce by the machine's own collective: what the transport offers, MPI_Allreduce on `mpi`.
 *
 * Its order of additions is its own, so it runs only by name. Cost: the library's; the model takes
 * it for the best that is known, Rabenseifner's: 2 log2(n) messages, 2 (n - 1) / n S bytes and
 * (n - 1) / n S / 4 additions for n members of S bytes.
 */
#include "base/memory.h"
#include "comm/allreduces.h"

#include <inttypes.h>
#include <math.h>

/* Refuse members that share a process: the transport's collectives are between processes. */
static fast_err check_processes(const fast_group *group)
{
    FAST_ASSERT(group->size >= 1);
    for (int64_t i = 0; i < group->size; i++)
        for (int64_t j = 0; j < i; j++) {
            const int64_t a = fast_group_member(group, j), b = fast_group_member(group, i);
            if (fast_actor_node(group->actor, a) == fast_actor_node(group->actor, b))
                return fast__fail(FAST_ENOTSUP,
                                  "native needs a process for each member, and actors %" PRId64
                                  " and %" PRId64 " share one; take another algorithm",
                                  a, b);
        }
    return FAST_OK;
}

/* The state is the list of members, which a group need not have. */
static fast_err native_open(fast_group *group, const void *config, void **state_out)
{
    FAST_ASSERT(!*state_out);
    (void)config;
    const fast_transport *transport = group->actor->world->transport;
    if (!transport->native)
        return fast__fail(FAST_ENOTSUP,
                          "transport \"%s\" has no collectives of its own; native needs mpi, or "
                          "take another algorithm",
                          transport->name);
    FAST_TRY(check_processes(group));
    int64_t *ids = NULL;
    FAST_TRY(fast__alloc("members of a group", group->size, sizeof *ids, &ids));
    for (int64_t i = 0; i < group->size; i++)
        ids[i] = fast_group_member(group, i);
    *state_out = ids;
    return FAST_OK;
}

/* The list of members. */
static void native_close(fast_group *group, void *state)
{
    (void)group;
    fast__free(state);
}

/* Blocks inside the transport, which stays responsible for deadlines and failures. */
static fast_err native_run(fast_group *group, void *state, float *x, int64_t count,
                           int64_t deadline)
{
    FAST_ASSERT(count >= 0);
    if (!x)
        return fast__fail(FAST_ENOTSUP, "native moves values, and these have none");
    const fast_native native = {
        .kind = FAST_NATIVE_ALLREDUCE,
        .ids = state,
        .count = group->size,
        .key = group->key,
        .x = fast__map(x, count, FAST_ACCESS_UPDATE),
        .size = count,
        .deadline = fast__deadline(group->actor, deadline),
    };
    const fast_err err = group->actor->world->transport->native(group->actor, &native);
    fast__unmap(x, count, FAST_ACCESS_UPDATE);
    return err;
}

/* The best known algorithm: an estimate, as the library decides. */
static double native_seconds(const fast_comm_cost *cost, const fast_ask *ask)
{
    FAST_ASSERT(ask->size >= 1);
    const double n = (double)ask->size;
    const double count = (double)ask->count;
    const double part = (n - 1) / n * count;
    return cost->alpha * 2 * ceil(log2(n)) + cost->beta * 2 * part * sizeof(float) +
           cost->gamma * part;
}

const fast_algorithm fast__allreduce_native = {
    .name = "native",
    .summary = "the transport's own, on mpi; adds in an order of its own",
    .canonical = false,
    .by_place = true,
    .open = native_open,
    .close = native_close,
    .run = native_run,
    .seconds = native_seconds,
};
