/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Allreduce: which algorithm a group uses, and the public calls, blocking and not. A group has
 * for each algorithm its parsed options and the state that the algorithm prepared, from its first
 * use on, so that `auto` may change from one to another from call to call at no cost.
 */
#include "comm/allreduces.h"

#include "base/memory.h"
#include "comm/collective/nonblocking.h"

#include <string.h>

/* The name of algorithm i, for lookups. */
static const char *name_at(const void *ctx, int64_t i)
{
    FAST_ASSERT(fast__allreduces[i]);
    (void)ctx;
    return fast__allreduces[i]->name;
}

/* Return the number of algorithms. */
static int64_t algorithm_count(void)
{
    int64_t count = 0;
    while (fast__allreduces[count])
        count++;
    FAST_ASSERT(count <= FAST_ALLREDUCE_MAX);
    return count;
}

int fast__allreduce_number(const fast_algorithm *algorithm)
{
    int i = 0;
    while (fast__allreduces[i] != algorithm)
        FAST_ASSERT(fast__allreduces[i++]);
    return i;
}

/* Return true if a request under way uses the algorithm's options and state. */
static bool is_busy(const fast_group *group, const fast_algorithm *algorithm)
{
    FAST_ASSERT(algorithm);
    for (const fast_request *request = group->requests; request; request = request->next)
        if (!request->task.done && request->collective.algorithm == algorithm)
            return true;
    return false;
}

/* Open slot i with these options. */
static fast_err open_slot(fast_group *group, int i, const char *options)
{
    FAST_ASSERT(i >= 0 && i < algorithm_count());
    const fast_algorithm *algorithm = fast__allreduces[i];
    fast_group_slot *slot = &group->slots[i];
    fast_group_slot fresh = { .open = true };
    fast__options_default(algorithm->options, fresh.config);
    FAST_TRY(fast__options_parse(algorithm->name, algorithm->options, fresh.config, options));
    if (slot->open && memcmp(slot->config, fresh.config, sizeof fresh.config) == 0)
        return FAST_OK;
    if (slot->open && is_busy(group, algorithm))
        return fast__fail(
            FAST_EINVAL,
            "allreduce %s is under way with other options; wait for its requests first",
            algorithm->name);
    if (algorithm->open)
        FAST_TRY(algorithm->open(group, fresh.config, &fresh.state));
    if (slot->open && algorithm->close)
        algorithm->close(group, slot->state);
    *slot = fresh;
    return FAST_OK;
}

fast_err fast__allreduce_open(fast_group *group, int i)
{
    FAST_ASSERT(i >= 0 && i < algorithm_count());
    return group->slots[i].open ? FAST_OK : open_slot(group, i, NULL);
}

fast_err fast_group_algorithm(fast_group *group, const char *spec)
{
    FAST_ASSERT(group != NULL && spec != NULL);
    char name[32];
    const char *options = NULL;
    FAST_TRY(fast__spec_split(spec, name, sizeof name, &options));
    if (strcmp(name, "auto") == 0) {
        if (options && *options)
            return fast__fail(FAST_EINVAL, "allreduce auto has no options");
        group->algorithm = -1;
        return FAST_OK;
    }
    const int64_t count = algorithm_count();
    const int64_t i = fast__name_find(name, name_at, NULL, count, NULL);
    if (i < 0)
        return fast__name_unknown("allreduce", name, name_at, NULL, count);
    FAST_TRY(open_slot(group, (int)i, options));
    group->algorithm = (int)i;
    return FAST_OK;
}

bool fast__group_is_by_place(const fast_group *group)
{
    FAST_ASSERT(group != NULL);
    return group->algorithm >= 0 && fast__allreduces[group->algorithm]->by_place;
}

/* Choose the algorithm for this call. */
static fast_err pick(fast_group *group, int64_t count, bool blocking, int64_t *deadline, int *out)
{
    FAST_ASSERT(out && deadline);
    FAST_TRY(fast__group_check_count("allreduce", count));
    FAST_TRY(fast__group_check(group));
    *out = group->algorithm;
    if (*out < 0)
        return fast__allreduce_choose(group, count, blocking, deadline, out);
    return FAST_OK;
}

/* The collective of one call. */
static fast_collective collective_of(fast_group *group, int i, float *x, int64_t count)
{
    FAST_ASSERT(count >= 0);
    const fast_group_slot *slot = &group->slots[i];
    const fast_algorithm *algorithm = fast__allreduces[i];
    FAST_ASSERT(slot->open);
    return (
        fast_collective){ .group = group,
                          .doing = "allreduce",
                          .ask = { group->rank, group->size, count, 0, slot->config, slot->state },
                          .rounds = algorithm->rounds,
                          .algorithm = algorithm,
                          .x = x,
                          .y = x,
                          .element = sizeof *x };
}

/* An algorithm with run() is faster than its schedule or has none. */
fast_err fast_allreduce(fast_group *group, float *x, int64_t count, int64_t deadline)
{
    FAST_ASSERT(group != NULL);
    int i = 0;
    FAST_TRY(pick(group, count, true, &deadline, &i));
    const fast_algorithm *algorithm = fast__allreduces[i];
    if (algorithm->run) {
        const fast_err err = algorithm->run(group, group->slots[i].state, x, count, deadline);
        return err ? fast__group_fail(group, err) : FAST_OK;
    }
    fast_collective collective = collective_of(group, i, x, count);
    return fast__collective_run(&collective, deadline);
}

/* Without blocking the model cannot be fitted: `auto` chooses by assumed costs. */
fast_err fast_allreduce_start(fast_group *group, float *x, int64_t count, fast_request **out)
{
    FAST_ASSERT(group != NULL && out != NULL);
    int i = 0;
    int64_t deadline = FAST_AT_ONCE;
    FAST_TRY(pick(group, count, false, &deadline, &i));
    if (!fast__allreduces[i]->rounds && !fast__allreduces[i]->advance)
        return fast__fail(FAST_ENOTSUP,
                          "allreduce %s cannot be started and waited for later; use another",
                          fast__allreduces[i]->name);
    const fast_collective collective = collective_of(group, i, x, count);
    return fast__request_start(&collective, out);
}
