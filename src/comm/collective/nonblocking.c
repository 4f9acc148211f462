/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Nonblocking collectives. A request is a task of its actor: the schedule advances whenever the
 * actor waits for anything, when its work reports a range, and when it asks. Each wait for a
 * request has its own deadline; starting has none.
 *
 * A request that fails makes its group unusable, and fails every other request of that group.
 */
#include "comm/collective/nonblocking.h"

#include "base/memory.h"

/* The task of a request: advance its collective. */
static fast_err request_advance(fast_actor *actor, fast_task *task, bool *done)
{
    fast_request *request = (fast_request *)task;
    FAST_ASSERT(request->collective.group != NULL);
    FAST_ASSERT(request->collective.group->actor == actor);
    return fast__collective_advance(&request->collective, done);
}

/* An actor that waits for this one in a collective under way waits for the actor that it waits
 * for. */
static int64_t request_explain(fast_actor *actor, fast_task *task, int64_t origin)
{
    FAST_ASSERT(task);
    const fast_request *request = (const fast_request *)task;
    (void)actor;
    return request->collective.whom == origin ? -1 : request->collective.whom;
}

/* Take a request that was used before, or make one. */
static fast_err request_get(fast_group *group, fast_request **out)
{
    FAST_ASSERT(group && out);
    if (group->requests_free) {
        *out = group->requests_free;
        group->requests_free = (*out)->next;
        return FAST_OK;
    }
    return fast__alloc("a request", 1, sizeof **out, out);
}

/* Return a finished request to its group. */
static void request_put(fast_group *group, fast_request *request)
{
    FAST_ASSERT(request->task.done || request->task.err == FAST_OK);
    request->next = group->requests_free;
    group->requests_free = request;
}

/* Remove a request from the group's list of those under way. */
static void unlink_request(fast_group *group, const fast_request *request)
{
    fast_request **link = &group->requests;
    while (*link && *link != request)
        link = &(*link)->next;
    FAST_ASSERT(*link == request);
    *link = request->next;
}

/* Advanced once at the start, so that the first messages leave at once. */
fast_err fast__request_start(const fast_collective *collective, fast_request **out)
{
    FAST_ASSERT(collective->group && out);
    fast_group *group = collective->group;
    fast_request *request;
    FAST_TRY(fast__group_check(group));
    FAST_TRY(request_get(group, &request));
    *request = (fast_request){ .task = { .advance = request_advance, .explain = request_explain },
                               .collective = *collective };
    bool done = false;
    fast_err err = fast__collective_begin(&request->collective);
    if (!err)
        err = fast__collective_advance(&request->collective, &done);
    if (err) {
        fast__collective_drop(&request->collective);
        request_put(group, request);
        return err;
    }
    /* In the order of starting, which is the order in which they are advanced. */
    fast_request **link = &group->requests;
    while (*link)
        link = &(*link)->next;
    *link = request;
    request->task.done = done;
    if (!done)
        fast__post(group->actor, &request->task);
    *out = request;
    return FAST_OK;
}

/* Return how a finished request ended; the group has the first failure's detail. */
static fast_err ending(const fast_request *request)
{
    FAST_ASSERT(request->task.done);
    if (request->task.err == FAST_OK)
        return FAST_OK;
    if (!request->collective.group)
        return fast__fail(request->task.err, "the group of this request was freed");
    return fast__group_check(request->collective.group);
}

/* Lets the transport deliver messages that have arrived, and never blocks. */
fast_err fast_request_test(fast_request *request, bool *done_out)
{
    FAST_ASSERT(request != NULL && done_out != NULL);
    *done_out = request->task.done;
    if (!request->task.done) {
        fast_actor *actor = request->collective.group->actor;
        const fast_err err = actor->world->transport->wait(actor, FAST_AT_ONCE);
        if (err)
            return fast__group_fail(request->collective.group, err);
        fast__progress(actor);
        *done_out = request->task.done;
    }
    return request->task.done ? ending(request) : FAST_OK;
}

/* Wait until it is done, or cannot be any more. */
static fast_err wait_for(fast_request *request, int64_t deadline)
{
    FAST_ASSERT(request->collective.group);
    fast_collective *collective = &request->collective;
    fast_actor *actor = collective->group->actor;
    const int64_t until = fast__deadline(actor, deadline);
    while (!request->task.done) {
        const int64_t whom = collective->whom;
        const fast_err err = fast__collective_wait(collective, until);
        /* A message that came together with the news of a peer's end still counts. */
        if (err)
            fast__progress(actor);
        if (err && !request->task.done && collective->whom == whom)
            return fast__group_fail(collective->group, err);
    }
    return ending(request);
}

/* The request is given up in any case: after a failure its vector is the caller's again. */
fast_err fast_request_wait(fast_request **move, int64_t deadline)
{
    FAST_ASSERT(move != NULL && *move != NULL);
    fast_request *request = *move;
    *move = NULL;
    fast_group *group = request->collective.group;
    if (!group) {
        const fast_err err = ending(request);
        fast__free(request);
        return err;
    }
    const fast_err err = request->task.done ? ending(request) : wait_for(request, deadline);
    if (!request->task.done)
        fast__unpost(group->actor, &request->task);
    fast__collective_drop(&request->collective);
    unlink_request(group, request);
    request_put(group, request);
    return err;
}

/* A request that outlives its group reports that, and is freed by its wait. */
void fast__group_free_requests(fast_group *group)
{
    FAST_ASSERT(group);
    for (fast_request *request = group->requests, *next; request; request = next) {
        next = request->next;
        if (!request->task.done) {
            fast__unpost(group->actor, &request->task);
            request->task.done = true;
            request->task.err = FAST_ECANCELED;
        }
        fast__collective_drop(&request->collective);
        request->collective.group = NULL;
    }
    for (fast_request *request = group->requests_free, *next; request; request = next) {
        next = request->next;
        fast__free(request);
    }
    group->requests = NULL;
    group->requests_free = NULL;
}
