/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Transports, who is there: roles and places, random streams, peers that ended or failed, news
 * about them, runs that are canceled, errors with names, memory shared by local actors, and a
 * second run in the same process.
 */
#include "conform/transport_suite.h"

#include <stdatomic.h>
#include <string.h>

/* Roles, numbers within roles, nodes: the same tables at everyone. */
static fast_err roles_main(fast_actor *actor, void *ctx)
{
    const char *role = ctx;
    const int64_t id = fast_actor_id(actor);
    FAST_TRY(EXPECT(fast_actor_count(actor) == 6));
    FAST_TRY(EXPECT(id >= 0 && id < 6));
    FAST_TRY(EXPECT(strcmp(fast_actor_role(actor, id), role) == 0));
    FAST_TRY(EXPECT(fast_actor_first(actor, "server") == 0));
    FAST_TRY(EXPECT(fast_actor_first(actor, "worker") == 1));
    FAST_TRY(EXPECT(fast_actor_first(actor, "client") == 5));
    FAST_TRY(EXPECT(fast_actor_first(actor, "nobody") == -1));
    FAST_TRY(EXPECT(fast_actor_size(actor, "worker") == 4));
    FAST_TRY(EXPECT(fast_actor_size(actor, "nobody") == 0));
    FAST_TRY(EXPECT(fast_actor_life(actor) == 0));
    FAST_TRY(EXPECT(fast_actor_is_local(actor, id)));
    for (int64_t i = 0; i < 6; i++) {
        const char *name = fast_actor_role(actor, i);
        FAST_TRY(EXPECT(fast_actor_index(actor, i) == i - fast_actor_first(actor, name)));
        FAST_TRY(EXPECT(fast_actor_node(actor, i) >= 0));
        FAST_TRY(EXPECT(!fast_member_is_down(actor, i) || i != id));
        /* Who shares memory lives on one node, and both say so. */
        if (fast_actor_is_local(actor, i))
            FAST_TRY(EXPECT(fast_actor_node(actor, i) == fast_actor_node(actor, id)));
        FAST_TRY(suite_send(actor, i, 1, fast_actor_is_local(actor, i)));
    }
    for (int64_t i = 0; i < 6; i++)
        FAST_TRY(suite_receive(actor, i, 1, fast_actor_is_local(actor, i)));
    return FAST_OK;
}

static fast_err run_roles(const suite *on)
{
    const fast_role roles[] = { { "server", 1, roles_main, "server" },
                                { "worker", 4, roles_main, "worker" },
                                { "client", 1, roles_main, "client" } };
    return suite_run_roles(on, roles, 3, NULL, NULL);
}

/* An actor's numbers follow from (seed, actor, life) alone: the same on any transport. */
static fast_err random_main(fast_actor *actor, void *ctx)
{
    (void)ctx;
    fast_rng rng;
    fast__rng_init(&rng, 7, FAST_PURPOSE_ACTOR, (uint64_t)fast_actor_id(actor), 0, 0);
    for (int i = 0; i < 100; i++) {
        const uint64_t high = fast__rng_u32(&rng);
        const uint64_t low = fast__rng_u32(&rng);
        FAST_TRY(EXPECT(fast_random(actor) == (high << 32 | low)));
    }
    return FAST_OK;
}

static fast_err run_random(const suite *on)
{
    return suite_run(on, random_main, NULL, on->count, NULL, NULL);
}

/* Actor 1 sends and ends: what it sent is received first, then it is gone, and is named; what is
 * sent to it then goes nowhere. */
static fast_err ended_main(fast_actor *actor, void *ctx)
{
    (void)ctx;
    const int64_t id = fast_actor_id(actor);
    fast_msg *msg = NULL;
    if (id == 1) {
        for (int64_t i = 0; i < 10; i++)
            for (int64_t to = 0; to < fast_actor_count(actor); to++)
                FAST_TRY(suite_send(actor, to, 1, i));
        return FAST_OK;
    }
    FAST_TRY(EXPECT_ERR(fast_receive(actor, 1, 2, FAST_SOON, &msg), FAST_EPEER));
    FAST_TRY(EXPECT(strstr(fast_error_detail(), "worker 1") != NULL));
    FAST_TRY(EXPECT(msg == NULL));
    FAST_TRY(EXPECT(fast_member_is_down(actor, 1)));
    for (int64_t i = 0; i < 10; i++)
        FAST_TRY(suite_receive(actor, 1, 1, i));
    FAST_TRY(EXPECT_ERR(fast_receive(actor, 1, 1, FAST_SOON, &msg), FAST_EPEER));
    FAST_TRY(EXPECT_ERR(suite_send(actor, 1, 3, 0), FAST_EPEER));
    /* The other actors continue. */
    const int64_t other = id == 0 ? 2 : 0;
    if (id == 0 || id == 2) {
        FAST_TRY(suite_send(actor, other, 4, id));
        FAST_TRY(suite_receive(actor, other, 4, other));
    }
    return FAST_OK;
}

static fast_err run_ended(const suite *on)
{
    return suite_run(on, ended_main, NULL, SUITE_ACTORS, NULL, NULL);
}

/* Actor 2 fails. Who waits for it hears so, with its name; its run fails with its words. */
typedef struct failing {
    atomic_bool hosted; /* this process has the actor that fails */
} failing;

static fast_err failed_main(fast_actor *actor, void *ctx)
{
    failing *f = ctx;
    fast_msg *msg = NULL;
    if (fast_actor_id(actor) == 2) {
        atomic_store(&f->hosted, true);
        return fast__fail(FAST_EIO, "the disk of step %d is full", 99);
    }
    FAST_TRY(EXPECT_ERR(fast_receive(actor, 2, 1, FAST_SOON, &msg), FAST_EPEER));
    return EXPECT(strstr(fast_error_detail(), "worker 2") != NULL);
}

static fast_err run_failed(const suite *on)
{
    failing f = { false };
    fast_actors_result result;
    const fast_err err = suite_run(on, failed_main, &f, SUITE_ACTORS, NULL, &result);
    if (!atomic_load(&f.hosted))
        return err;
    FAST_TRY(EXPECT_ERR(err, FAST_EIO));
    FAST_TRY(EXPECT(strcmp(fast_error_detail(), "worker 2: the disk of step 99 is full") == 0));
    return on->alone ? EXPECT(result.ended_count == SUITE_ACTORS - 1) : FAST_OK;
}

/* Two fail, in the other order of time: the error is the first's by number. */
static fast_err two_main(fast_actor *actor, void *ctx)
{
    failing *f = ctx;
    fast_msg *msg = NULL;
    const int64_t id = fast_actor_id(actor);
    atomic_store(&f->hosted, true);
    if (id == 3)
        return fast__fail(FAST_EIO, "late");
    if (id == 1) {
        FAST_TRY(EXPECT_ERR(fast_receive(actor, 3, 1, FAST_SOON, &msg), FAST_EPEER));
        return fast__fail(FAST_EFORMAT, "early");
    }
    return FAST_OK;
}

static fast_err run_two(const suite *on)
{
    failing f = { false };
    const fast_err err = suite_run(on, two_main, &f, SUITE_ACTORS, NULL, NULL);
    if (!on->alone)
        return FAST_OK;
    FAST_TRY(EXPECT_ERR(err, FAST_EFORMAT));
    return EXPECT(strcmp(fast_error_detail(), "worker 1: early") == 0);
}

/* News of each peer that ended comes once; then everyone else has left. */
static fast_err events_main(fast_actor *actor, void *ctx)
{
    (void)ctx;
    const int64_t count = fast_actor_count(actor), id = fast_actor_id(actor);
    fast_msg *msg = NULL;
    fast_member member;
    FAST_TRY(suite_barrier(actor));
    if (id != 0)
        return FAST_OK;
    FAST_TRY(EXPECT_ERR(fast_receive(actor, FAST_ANY, 9, FAST_SOON, &msg), FAST_EPEER));
    int64_t seen = 0;
    while (fast_member_next(actor, &member)) {
        FAST_TRY(EXPECT(member.id > 0 && member.id < count));
        FAST_TRY(EXPECT(member.down && member.ended));
        FAST_TRY(EXPECT(member.culprit == -1));
        FAST_TRY(EXPECT(member.time >= 0 && member.time <= fast_now(actor)));
        FAST_TRY(EXPECT((seen >> member.id & 1) == 0));
        seen |= (int64_t)1 << member.id;
    }
    return EXPECT(seen == ((int64_t)1 << count) - 2);
}

static fast_err run_events(const suite *on)
{
    return suite_run(on, events_main, NULL, on->count, NULL, NULL);
}

/* A canceled run: waits end at once, every further call fails the same way. */
static fast_err cancel_main(fast_actor *actor, void *ctx)
{
    (void)ctx;
    const int64_t count = fast_actor_count(actor), id = fast_actor_id(actor);
    fast_msg *msg = NULL;
    FAST_TRY(suite_barrier(actor));
    if (id == 0) {
        FAST_TRY(fast_sleep_until(actor, fast_now(actor) + 5000000));
        atomic_store(&actor->world->canceled, true);
        for (int64_t i = 1; i < count; i++)
            if (fast_actor_is_local(actor, i))
                actor->world->transport->wake(actor, i);
    } else {
        FAST_TRY(EXPECT_ERR(fast_receive(actor, 0, 9, suite_late(actor), &msg), FAST_ECANCELED));
    }
    FAST_TRY(EXPECT_ERR(fast_receive(actor, FAST_ANY, 9, FAST_SOON, &msg), FAST_ECANCELED));
    FAST_TRY(EXPECT_ERR(suite_send(actor, (id + 1) % count, 1, 0), FAST_ECANCELED));
    return fast_sleep_until(actor, fast_now(actor) + 1000000000);
}

static fast_err run_cancel(const suite *on)
{
    if (!on->alone)
        return FAST_OK; /* nothing can cancel other processes */
    FAST_TRY(
        EXPECT_ERR(suite_run(on, cancel_main, NULL, SUITE_ACTORS, NULL, NULL), FAST_ECANCELED));
    return FAST_OK;
}

/* Local actors share memory by keys: zeroed, one for all, with one size. */
static fast_err share_main(fast_actor *actor, void *ctx)
{
    (void)ctx;
    const int64_t count = fast_actor_count(actor), id = fast_actor_id(actor);
    bool lonely = true;
    for (int64_t i = 0; i < count; i++)
        lonely = lonely && (i == id || !fast_actor_is_local(actor, i));
    if (lonely)
        return suite_barrier(actor), suite_barrier(actor);
    atomic_llong *sum = NULL, *other = NULL, *again = NULL;
    char *wrong = NULL;
    FAST_TRY(fast_actor_share(actor, 1, 1000, &sum));
    FAST_TRY(fast_actor_share(actor, 2, 500, &other));
    FAST_TRY(fast_actor_share(actor, 1, 1000, &again));
    FAST_TRY(EXPECT(sum == again && sum != other));
    FAST_TRY(EXPECT((uintptr_t)sum % 64 == 0));
    FAST_TRY(EXPECT(atomic_load(&sum[100]) == 0));
    FAST_TRY(EXPECT_ERR(fast_actor_share(actor, 1, 999, &wrong), FAST_EINVAL));
    FAST_TRY(EXPECT(wrong == NULL));
    atomic_fetch_add(&sum[0], id + 1);
    FAST_TRY(suite_barrier(actor));
    int64_t expected = 0;
    for (int64_t i = 0; i < count; i++)
        expected += fast_actor_is_local(actor, i) ? i + 1 : 0;
    FAST_TRY(EXPECT(atomic_load(&sum[0]) == expected));
    return suite_barrier(actor);
}

static fast_err run_share(const suite *on)
{
    return suite_run(on, share_main, NULL, on->count, NULL, NULL);
}

/* A run leaves nothing behind: a second one begins at zero, with other actors. */
static fast_err run_twice(const suite *on)
{
    for (int64_t count = SUITE_ACTORS; count < SUITE_ACTORS + 3; count++) {
        fast_actors_result result;
        FAST_TRY(suite_run(on, share_main, NULL, count, NULL, &result));
        FAST_TRY(EXPECT(result.actor_count == count));
        FAST_TRY(EXPECT(!on->alone || result.ended_count == count));
        FAST_TRY(EXPECT(!on->alone || result.messages_sent == 4 * (count - 1)));
    }
    return FAST_OK;
}

const suite_case suite_members[] = {
    { "roles, numbers, nodes", run_roles, false },     { "random streams", run_random, true },
    { "a peer that ended", run_ended, false },         { "a peer that failed", run_failed, false },
    { "the first failure by number", run_two, false }, { "news of members", run_events, true },
    { "a canceled run", run_cancel, false },           { "shared memory", run_share, true },
    { "runs one after the other", run_twice, false },  { NULL, NULL, false },
};
