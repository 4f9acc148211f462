/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Goal: the simulator is large enough: 4,096 actors work, an idle one takes at most 64 KiB, and a
 * ring allreduce of 1,024 actors takes the time of its closed form; actors that end cost no more
 * when there are more of them. Method: the resident memory of this process, read by an actor while
 * all others wait; a ring of messages with declared sizes; events of runs of two sizes.
 */
#include "fast/comm.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <unistd.h>

#include <cmocka.h>

#ifdef FAST_SANITIZED
enum { IDLE = 200, RING = 64 };
#else
enum { IDLE = 4096, RING = 1024 };
#endif

static int64_t resident(void)
{
    long long size = 0, pages = 0;
    FILE *file = fopen("/proc/self/statm", "r");
    assert_non_null(file);
    assert_int_equal(fscanf(file, "%lld %lld", &size, &pages), 2);
    fclose(file);
    return pages * sysconf(_SC_PAGESIZE);
}

/* All wait for a message of actor 0, which looks at the memory first. */
static fast_err idle(fast_actor *actor, void *ctx)
{
    fast_msg *msg = NULL;
    fast_err err = FAST_OK;
    if (fast_actor_id(actor) > 0) {
        err = fast_receive(actor, 0, 1, FAST_SOON, &msg);
        if (!err)
            fast_msg_free(msg);
        return err;
    }
    err = fast_sleep_until(actor, 1000);
    *(int64_t *)ctx = resident();
    for (int64_t to = 1; to < IDLE && !err; to++) {
        err = fast_msg_new(actor, 1, &msg);
        if (!err)
            err = fast_send(actor, to, &msg);
    }
    return err;
}

static void test_many_idle_actors(void **state)
{
    (void)state;
    const char *options[] = { "transport=sim", NULL };
    const int64_t before = resident();
    int64_t during = 0;
    const fast_role role = { "worker", IDLE, idle, &during };
    fast_actors_result result;
    if (fast_actors_run(options, &role, 1, &result))
        fail_msg("%s", fast_error_detail());
    assert_int_equal(result.ended_count, IDLE);
#ifndef FAST_SANITIZED
    const int64_t each = (during - before) / IDLE;
    print_message("an idle actor takes %lld bytes\n", (long long)each);
    assert_in_range(each, 1, 65536);
#else
    (void)before;
#endif
}

/* Vectors of 4 MiB that are not there: only their sizes move. */
static fast_err ring(fast_actor *actor, void *ctx)
{
    fast_group *group = NULL;
    (void)ctx;
    fast_err err = fast_group_all(actor, NULL, &group);
    if (!err)
        err = fast_group_algorithm(group, "ring");
    if (!err)
        err = fast_allreduce(group, NULL, 1 << 20, FAST_SOON);
    fast_group_free(group);
    return err;
}

static void test_ring_allreduce(void **state)
{
    (void)state;
    const char *options[] = { "transport=sim", "cluster=ideal", NULL };
    const fast_role role = { "worker", RING, ring, NULL };
    fast_actors_result result;
    if (fast_actors_run(options, &role, 1, &result))
        fail_msg("%s", fast_error_detail());
    /* 2 (P - 1) steps of L + (m / P) G. */
    const double expected = 2.0 * (RING - 1) * (1000 + 4194304.0 / RING);
    assert_true((double)result.time_ns > 0.99 * expected);
    assert_true((double)result.time_ns < 1.01 * expected);
}

/* Ignore a request: a service that stays for the whole program. */
static fast_err ignore(void *ctx, fast_msg **move)
{
    (void)ctx;
    (void)move;
    return FAST_OK;
}

/* A message to the next actor and one from the actor before, beside a service. Later actors end
 * later, so that each is there while all before it end. */
static fast_err neighbours(fast_actor *actor, void *ctx)
{
    const int64_t id = fast_actor_id(actor), count = fast_actor_count(actor);
    fast_service *service = NULL;
    fast_msg *msg = NULL;
    (void)ctx;
    fast_err err = fast_serve(actor, 2, ignore, NULL, &service);
    if (!err)
        err = fast_msg_new(actor, 1, &msg);
    if (!err)
        err = fast_send(actor, (id + 1) % count, &msg);
    if (!err)
        err = fast_receive(actor, (id + count - 1) % count, 1, FAST_SOON, &msg);
    fast_msg_free(msg);
    if (!err)
        err = fast_sleep_until(actor, (id + 1) * 1000000);
    fast_service_end(service);
    return err;
}

/* Events of a run of actors, divided by their number. */
static double events_each(int64_t actors)
{
    const char *options[] = { "transport=sim", NULL };
    const fast_role role = { "worker", actors, neighbours, NULL };
    fast_actors_result result;
    if (fast_actors_run(options, &role, 1, &result))
        fail_msg("%s", fast_error_detail());
    assert_int_equal(result.ended_count, actors);
    return (double)result.events / (double)actors;
}

/* An actor that ends tells those that it knows, not all: events are linear in actors. */
static void test_ends_are_told_to_peers_only(void **state)
{
    (void)state;
    const double few = events_each(64), many = events_each(512);
    print_message("events for each actor: %.2f of 64, %.2f of 512\n", few, many);
    assert_true(many < 1.1 * few);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_many_idle_actors),
        cmocka_unit_test(test_ring_allreduce),
        cmocka_unit_test(test_ends_are_told_to_peers_only),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
