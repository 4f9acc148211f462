/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The cost model of the transport, by which `auto` chooses the fastest algorithm:
 *
 *     T = alpha messages + beta bytes + gamma additions        on the critical path
 *
 * Each algorithm says how many of each it needs (fast_algorithm.seconds); small groups whose size
 * is no power of two simulate its schedule instead (schedule_time.c). The three costs are
 * fitted when a group first needs them: rank 0 and the first member that does not share its memory
 * send a small and a large vector back and forth a few times, rank 0 adds two vectors, and all are
 * told the result, so that all members choose alike. The shortest of a few times counts: other work
 * on the machine only makes them longer. On `sim` the times are virtual and the fit repeats.
 *
 *     alpha = t(small)      beta = (t(large) - t(small)) / bytes     gamma = t(add) / additions
 *
 * A fit takes milliseconds at most. Rank 0 stores it for later groups with the same pair. Where all
 * members share memory, nothing has to be fitted: `direct` is the fastest. The model is that of
 * Hockney; Thakur, Rabenseifner and Gropp, "Optimization of collective communication operations in
 * MPICH", 2005, use it to the same end.
 */
#include "comm/cost_model.h"

#include "base/memory.h"
#include "tensor/vector.h"

#include <math.h>
#include <string.h>

enum {
    LARGE = 1 << 16,  /* floats of a large vector: 256 KiB */
    SMALL = 2,        /* floats of a small one */
    TRIES = 8,        /* of each measurement */
    TRIES_SMALL = 32, /* of a small one: threads take a while to find a core each */
    CHOICES = 8       /* counts whose choice is remembered */
};

/* The algorithm that was chosen for a count. */
typedef struct model_choice {
    int64_t count; /* of floats; -1: this place is free */
    int algorithm; /* its number */
} model_choice;

/* The model of a group; group->cost points to its first field. */
typedef struct cost_model {
    fast_comm_cost cost;           /* fitted, or assumed */
    bool fitted;                   /* measured, not assumed */
    int direct;                    /* number of `direct` where it is possible; else -1 */
    model_choice choices[CHOICES]; /* by count modulo CHOICES */
} cost_model;

/* Before a fit: a fast network between machines of today. */
static const fast_comm_cost assumed = { .alpha = 5e-6, .beta = 1e-10, .gamma = 5e-10 };

/* The message of rank 0 to the other members, which it also stores for later groups. */
typedef struct model_memory {
    fast_comm_cost cost; /* fitted */
    int64_t fitted;      /* 1, or 0: not yet */
    int64_t partner;     /* the rank that rank 0 measures with */
} model_memory;

/* Forget which algorithm was chosen for which count. */
static void forget_choices(cost_model *m)
{
    FAST_ASSERT(m);
    for (int i = 0; i < CHOICES; i++)
        m->choices[i] = (model_choice){ .count = -1 };
}

/* The number of `direct`, open, where all members share memory; else -1. */
static fast_err find_direct(fast_group *group, int *out)
{
    FAST_ASSERT(group && out);
    *out = -1;
    for (int64_t i = 0; i < group->size; i++)
        if (!fast_actor_is_local(group->actor, fast_group_member(group, i)))
            return FAST_OK;
    const int i = fast__allreduce_number(&fast__allreduce_direct);
    const fast_err err = fast__allreduce_open(group, i);
    if (!err)
        *out = i;
    return err == FAST_ENOTSUP ? FAST_OK : err;
}

/* Return the group's model, made on first use. Sends nothing. */
static fast_err model_of(fast_group *group, cost_model **out)
{
    FAST_ASSERT(group && out);
    if (group->cost) {
        *out = (cost_model *)group->cost;
        return FAST_OK;
    }
    cost_model fresh = { .cost = assumed };
    FAST_TRY(find_direct(group, &fresh.direct));
    forget_choices(&fresh);
    cost_model *m = NULL;
    FAST_TRY(fast__alloc("a group's model", 1, sizeof *m, &m));
    *m = fresh;
    group->cost = &m->cost;
    *out = m;
    return FAST_OK;
}

/* The schedule of a measurement: from rank 0 to ask->root and back. */
static int ping(const fast_ask *ask, int64_t round, fast_move moves[FAST_ROUND_MOVES])
{
    FAST_ASSERT(ask->root > 0 && ask->root < ask->size);
    if (round > 0 || (ask->rank != 0 && ask->rank != ask->root))
        return FAST_ROUNDS_END;
    const int64_t peer = ask->rank == 0 ? ask->root : 0;
    const fast_move send = { .kind = FAST_MOVE_SEND, .peer = peer, .count = ask->count };
    const fast_move copy = { .kind = FAST_MOVE_COPY, .peer = peer, .count = ask->count };
    moves[0] = ask->rank == 0 ? send : copy;
    moves[1] = ask->rank == 0 ? copy : send;
    return 2;
}

/* Measure the seconds of one way of `count` floats, the shortest of a few tries, at rank 0. */
static fast_err time_way(fast_group *group, int64_t partner, float *x, int64_t count,
                         int64_t deadline, double *out)
{
    FAST_ASSERT(partner > 0 && partner < group->size);
    double best = INFINITY;
    const int tries = count == SMALL ? TRIES_SMALL : TRIES;
    for (int i = 0; i < tries; i++) {
        fast_collective collective = {
            .group = group,
            .doing = "fitting the model",
            .ask = { .rank = group->rank, .size = group->size, .count = count, .root = partner },
            .rounds = ping,
            .x = x,
            .y = x,
            .element = sizeof *x,
        };
        const int64_t begin = fast_now(group->actor);
        FAST_TRY(fast__collective_run(&collective, deadline));
        const double seconds = (double)(fast_now(group->actor) - begin) * 1e-9 / 2;
        if (seconds < best)
            best = seconds;
    }
    *out = best;
    return FAST_OK;
}

/* Seconds of one addition of a long vector. */
static fast_err time_add(fast_actor *actor, float *x, double *out)
{
    FAST_ASSERT(x && out);
    double best = INFINITY;
    for (int i = 0; i < TRIES; i++) {
        const int64_t begin = fast_now(actor);
        fast__vector_add(LARGE / 2, x, x + LARGE / 2);
        FAST_TRY(fast_charge(actor, LARGE / 2, 12.0 * LARGE / 2));
        const double seconds = (double)(fast_now(actor) - begin) * 1e-9 / (LARGE / 2);
        if (seconds < best)
            best = seconds;
    }
    *out = best;
    return FAST_OK;
}

/* Measure the three costs between rank 0 and its partner. */
static fast_err measure(fast_group *group, int64_t partner, int64_t deadline, fast_comm_cost *out)
{
    FAST_ASSERT(partner > 0 && out);
    float *x = NULL;
    double small = 0, large = 0, add = 0;
    FAST_TRY(fast__alloc("a vector to measure with", LARGE, sizeof *x, &x));
    fast_err err = time_way(group, partner, x, SMALL, deadline, &small);
    if (!err)
        err = time_way(group, partner, x, LARGE, deadline, &large);
    if (!err && group->rank == 0)
        err = time_add(group->actor, x, &add);
    fast__free(x);
    if (err)
        return err;
    /* A clock may be coarse, or jump: costs are never negative. */
    const double beta = (large - small) / ((LARGE - SMALL) * sizeof *x);
    *out = (fast_comm_cost){ .alpha = fmax(small, 1e-9),
                             .beta = fmax(beta, 0),
                             .gamma = fmax(add, 0) };
    return FAST_OK;
}

/* The first member that does not share the actor's memory; else the first other one. */
static int64_t partner_of(const fast_group *group)
{
    FAST_ASSERT(group->size > 1);
    for (int64_t i = 1; i < group->size; i++)
        if (!fast_actor_is_local(group->actor, fast_group_member(group, i)))
            return i;
    return 1;
}

/* Return the memory where rank 0 stores the costs between it and the partner; NULL: none. */
static model_memory *recall(fast_group *group, int64_t partner)
{
    FAST_ASSERT(group->rank == 0);
    model_memory *memory = NULL;
    const uint64_t from = (uint64_t)fast_group_member(group, 0);
    const uint64_t to = (uint64_t)fast_group_member(group, partner);
    const uint64_t key = 0x7072696365000000u ^ from << 32 ^ to;
    return fast_actor_share(group->actor, key, sizeof *memory, &memory) ? NULL : memory;
}

/* Rank 0 remembers the costs of a pair of actors, so that a second group does not measure again. */
fast_err fast__model_fit(fast_group *group, int64_t deadline)
{
    FAST_ASSERT(group);
    FAST_TRY(fast__group_check(group));
    cost_model *m = NULL;
    FAST_TRY(model_of(group, &m));
    if (m->fitted || group->size == 1)
        return FAST_OK;
    model_memory told = { .partner = partner_of(group) };
    model_memory *memory = group->rank == 0 ? recall(group, told.partner) : NULL;
    if (memory && memory->fitted) {
        told.cost = memory->cost;
        told.fitted = 1;
    }
    FAST_TRY(fast_broadcast(group, 0, &told, sizeof told, deadline));
    if (!told.fitted) {
        FAST_TRY(measure(group, told.partner, deadline, &told.cost));
        told.fitted = 1;
        FAST_TRY(fast_broadcast(group, 0, &told, sizeof told, deadline));
        if (memory)
            *memory = told;
    }
    m->cost = told.cost;
    m->fitted = true;
    forget_choices(m);
    return FAST_OK;
}

/* Exact closed forms for powers of two; other sizes by simulating the schedule, if it is small. */
double fast__model_seconds(fast_group *group, int i, int64_t count)
{
    const fast_group_slot *slot = &group->slots[i];
    const fast_algorithm *algorithm = fast__allreduces[i];
    FAST_ASSERT(slot->open);
    if (!group->cost)
        return NAN;
    const fast_ask ask = { .rank = group->rank,
                           .size = group->size,
                           .count = count,
                           .config = slot->config,
                           .state = slot->state };
    /* Closed forms are exact for powers of two and links that send one message after the other;
     * schedules are simulated for other sizes and links. */
    const bool power = (group->size & (group->size - 1)) == 0;
    double seconds = NAN;
    if ((!power || group->cost->side_by_side) && algorithm->rounds &&
        fast__schedule_predict(group->cost, &ask, algorithm->rounds, &seconds))
        return seconds;
    return algorithm->seconds ? algorithm->seconds(group->cost, &ask) : NAN;
}

/* The fastest by the model of those with the canonical order. */
static fast_err fastest(fast_group *group, int64_t count, int *out)
{
    FAST_ASSERT(count >= 0);
    double best = INFINITY;
    int found = -1;
    for (int i = 0; fast__allreduces[i]; i++) {
        if (!fast__allreduces[i]->canonical)
            continue;
        const fast_err err = fast__allreduce_open(group, i);
        if (err == FAST_ENOTSUP)
            continue;
        FAST_TRY(err);
        const double seconds = fast__model_seconds(group, i, count);
        if (found < 0 || seconds < best) {
            found = i;
            best = seconds;
        }
    }
    FAST_ASSERT(found >= 0);
    *out = found;
    return FAST_OK;
}

/* Choices are cached by the count: a training run uses few counts. */
fast_err fast__allreduce_choose(fast_group *group, int64_t count, bool blocking, int64_t *deadline,
                                int *out)
{
    FAST_ASSERT(count >= 0);
    cost_model *m = NULL;
    FAST_TRY(model_of(group, &m));
    if (m->direct >= 0) {
        *out = m->direct;
        return FAST_OK;
    }
    if (!m->fitted && blocking) {
        /* The deadline holds for the fit and what comes after it. */
        *deadline = fast__deadline(group->actor, *deadline);
        FAST_TRY(fast__model_fit(group, *deadline));
    }
    model_choice *choice = &m->choices[count % CHOICES];
    if (choice->count != count) {
        int found = -1;
        FAST_TRY(fastest(group, count, &found));
        *choice = (model_choice){ .count = count, .algorithm = found };
    }
    *out = choice->algorithm;
    return FAST_OK;
}

/* For forecasts of other machines: the group is only used for its size and algorithm. */
double fast__model_at(fast_group *group, const fast_comm_cost *cost, int64_t count)
{
    int64_t deadline = FAST_AT_ONCE;
    int i = group->algorithm;
    cost_model *m = NULL;

    FAST_ASSERT(cost != NULL);
    if (group->size == 1)
        return 0;
    if (model_of(group, &m) ||
        (i < 0 && fast__allreduce_choose(group, count, false, &deadline, &i)))
        return NAN;
    m->cost = *cost;
    return fast__model_seconds(group, i, count);
}

/* Never blocks: before a fit the costs are assumed. */
const char *fast_group_choice(fast_group *group, int64_t count, double *seconds_out)
{
    FAST_ASSERT(group != NULL);
    int i = group->algorithm;
    int64_t deadline = FAST_AT_ONCE;
    if (count < 0 || (i < 0 && fast__allreduce_choose(group, count, false, &deadline, &i)))
        return "";
    if (seconds_out)
        *seconds_out = fast__model_seconds(group, i, count);
    return fast__allreduces[i]->name;
}
