/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A world: the state that the actors of one process share, from the table of places to the pool of
 * messages; and its run, from the start of the first program to the sum of all counters.
 */
#include "base/memory.h"
#include "tensor/device.h"
#include "transport/transport.h"

#include <stdio.h>
#include <string.h>

/* Numbers of actors fit the 32 bits of random streams, and their tables fit the memory. */
static const int64_t ACTORS_MAX = 1 << 20;

/* FAST_EINVAL unless roles have different names, programs and sizes in range. Counts the actors. */
static fast_err check_roles(const fast_role *roles, int64_t role_count, int64_t *count_out)
{
    int64_t count = 0;

    if (!roles || role_count < 1)
        return fast__fail(FAST_EINVAL, "no roles: a run needs at least one actor");
    for (int64_t i = 0; i < role_count; i++) {
        const fast_role *role = &roles[i];
        if (!role->name || !role->name[0])
            return fast__fail(FAST_EINVAL, "role %lld has no name", (long long)i);
        if (!role->main)
            return fast__fail(FAST_EINVAL, "role %s has no program", role->name);
        if (role->count < 1 || role->count > ACTORS_MAX)
            return fast__fail(FAST_EINVAL, "role %s has %lld actors; it takes 1 to %lld",
                              role->name, (long long)role->count, (long long)ACTORS_MAX);
        for (int64_t j = 0; j < i; j++)
            if (strcmp(role->name, roles[j].name) == 0)
                return fast__fail(FAST_EINVAL, "two roles are named %s", role->name);
        count += role->count;
        if (count > ACTORS_MAX)
            return fast__fail(FAST_EINVAL, "more than %lld actors", (long long)ACTORS_MAX);
    }
    *count_out = count;
    return FAST_OK;
}

int64_t fast__world_first_node(const fast_world *world, int64_t role)
{
    FAST_ASSERT(role >= 0 && role < world->role_count);
    return world->config.dedicated && role == 1 ? world->roles[0].count : 0;
}

fast_err fast__world_init(fast_world *world, const fast_transport *transport,
                          const fast_actors_config *config, const fast_role *roles,
                          int64_t role_count)
{
    int64_t count = 0;

    FAST_ASSERT(world != NULL && transport != NULL && config != NULL);
    FAST_TRY(check_roles(roles, role_count, &count));
    world->transport = transport;
    world->inner = transport;
    world->config = *config;
    world->roles = roles;
    world->role_count = role_count;
    world->count = count;
    world->device = &fast__host;
    world->timeout_ns = (int64_t)(config->timeout * 1e9);
    fast_err err = fast__alloc("the table of actors", count, sizeof *world->places, &world->places);
    if (!err)
        err = fast__alloc("the table of actors", count, sizeof *world->actors, &world->actors);
    if (!err)
        err = fast__alloc("waits by actor", count, sizeof *world->waited, &world->waited);
    if (!err && transport->serial)
        err = fast__alloc("actors that watch", (count + 63) / 64, sizeof *world->watchers,
                          &world->watchers);
    if (!err)
        err = fast__pool_new(&world->pool);
    if (!err && config->snapshot)
        err = fast__snapshot_new(count, &world->snapshot);
    if (err) {
        fast__world_fini(world);
        return err;
    }
    /* Actors are numbered through all roles; transports with several nodes change the places. */
    int64_t id = 0;
    for (int64_t role = 0; role < role_count; role++)
        for (int64_t i = 0; i < roles[role].count; i++)
            world->places[id++] = (fast_place){ .role = (int)role, .here = true };
    return FAST_OK;
}

struct fast_world_vector {
    float *at;               /* first element */
    fast_world_vector *next; /* the vector allocated before */
};

fast_err fast__world_vector(fast_world *world, const char *what, int64_t count, float **out)
{
    fast_world_vector *entry = NULL;

    FAST_ASSERT(world != NULL && out != NULL);
    FAST_TRY(fast__alloc(what, 1, sizeof *entry, &entry));
    const fast_err err = fast__vector_new(world->device, what, count, &entry->at);
    if (err) {
        fast__free(entry);
        return err;
    }
    *out = entry->at;
    entry->next = atomic_load(&world->vectors);
    while (!atomic_compare_exchange_weak(&world->vectors, &entry->next, entry))
        ;
    return FAST_OK;
}

/* Also for a world whose init failed. */
void fast__world_fini(fast_world *world)
{
    while (world->vectors) {
        fast_world_vector *entry = world->vectors;

        world->vectors = entry->next;
        fast__vector_free(entry->at);
        fast__free(entry);
    }
    fast__free(world->places);
    fast__free(world->actors);
    fast__free(world->waited);
    fast__free(world->watchers);
    fast__pool_free(world->pool);
    fast__snapshot_free(world->snapshot);
    world->places = NULL;
    world->actors = NULL;
    world->waited = NULL;
    world->watchers = NULL;
    world->pool = NULL;
    world->snapshot = NULL;
}

/* Decorators wrap from the inside out: a recording is the outermost. */
fast_err fast__world_open(const fast_actors_config *config, const fast_role *roles,
                          int64_t role_count, fast_world **out)
{
    const fast_transport *transport = NULL;
    int64_t count = 0;

    FAST_ASSERT(config != NULL && out != NULL);
    FAST_TRY(fast__transport_find(config->transport, &transport));
    /* Before open(), which is collective on mpi. */
    FAST_TRY(check_roles(roles, role_count, &count));
    fast_world *world = NULL;
    FAST_TRY(transport->open(config, roles, role_count, &world));
    fast_err err = config->check ? fast__check_wrap(world) : FAST_OK;
    if (!err && (config->record[0] || config->replay[0]))
        err = fast__record_wrap(world);
    if (err) {
        fast__world_close(world);
        return err;
    }
    *out = world;
    return FAST_OK;
}

void fast__world_decline(const char *name, const char *why)
{
    const fast_transport *transport = NULL;

    FAST_ASSERT(name != NULL && why != NULL);
    if (fast__transport_find(name, &transport) == FAST_OK && transport->decline)
        transport->decline(why);
}

/* Return the first failure by actor number, with the actor's name before its detail. */
static fast_err first_failure(const fast_world *world)
{
    for (int64_t id = 0; id < world->count; id++) {
        const fast_actor *actor = world->actors[id];
        if (!actor || actor->err == FAST_OK)
            continue;
        char name[64], detail[FAST_DETAIL_MAX];
        fast__actor_name(world, id, name, sizeof name);
        snprintf(detail, sizeof detail, "%s",
                 actor->detail[0] ? actor->detail : fast_err_text(actor->err));
        return fast__fail(actor->err, "%s: %s", name, detail);
    }
    return FAST_OK;
}

/* Sum the counters of all actors. */
static void sum_up(const fast_world *world, fast_actors_result *out)
{
    int64_t begin = INT64_MAX, end = 0;

    *out = (fast_actors_result){ .actor_count = world->count,
                                 .messages_lost = atomic_load(&world->lost),
                                 .copies = atomic_load(&world->sums.copies),
                                 .events = world->events,
                                 .trace_hash = world->trace_hash };
    for (int64_t id = 0; id < world->count; id++) {
        const fast_actor *actor = world->actors[id];
        if (!actor)
            continue;
        const fast_counters *counters = &actor->counters;
        out->ended_count += actor->ended && actor->err == FAST_OK;
        out->messages_sent += counters->messages_sent;
        out->bytes_sent += counters->bytes_sent;
        out->messages_stale += counters->messages_stale;
        out->compute_ns += counters->compute_ns;
        out->wait_ns += counters->wait_ns;
        begin = actor->begin < begin ? actor->begin : begin;
        end = actor->end > end ? actor->end : end;
    }
    out->time_ns = end > begin ? end - begin : 0;
}

/* The transport's own failure comes first, then that of the first actor, then the file's. */
fast_err fast__world_run(fast_world *world, fast_actors_result *result_out)
{
    FAST_ASSERT(world != NULL);
    fast_err err = world->transport->run(world);
    if (result_out)
        sum_up(world, result_out);
    if (err)
        return err;
    /* The timeline of a failed run is the most useful one: it is written before failures are
     * reported. */
    if (world->config.trace[0])
        err = fast__timeline_write(world, world->config.trace);
    const fast_err failure = first_failure(world);
    return failure ? failure : err;
}

/* The outermost decorator closes the transport below it. */
void fast__world_close(fast_world *world)
{
    if (world)
        world->transport->close(world);
}
