/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Goal: matching is exact: the oldest message of the sender and tag asked for, in any mixture,
 * while the table grows; generations are fenced off; control messages act and never reach a
 * program. Method: an actor of a world that does not run, whose mailbox the test fills itself; a
 * plain list is asked the same questions.
 */
#include "base/memory.h"
#include "transport/transport.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

enum { ACTORS = 300 };

static fast_err nothing(fast_actor *actor, void *ctx)
{
    (void)actor;
    (void)ctx;
    return FAST_OK;
}

static fast_world *open_world(void)
{
    static const fast_role roles[] = { { "worker", ACTORS, nothing, NULL } };
    fast_actors_config config;
    fast_world *world = NULL;
    assert_int_equal(fast__actors_parse(NULL, &config), FAST_OK);
    assert_int_equal(fast__world_open(&config, roles, 1, &world), FAST_OK);
    return world;
}

/* Let a message arrive at actor 0. */
static bool arrive(fast_world *world, int64_t from, uint64_t tag, int64_t word, uint32_t generation)
{
    fast_msg *msg = NULL;
    assert_int_equal(fast__pool_msg(world->pool, tag, &msg), FAST_OK);
    msg->from = from;
    msg->to = 0;
    msg->words[0] = word;
    msg->generation = generation;
    return fast__deliver(world->actors[0], msg);
}

/* Take one and return its word, or -1. */
static int64_t take(fast_world *world, int64_t from, uint64_t tag)
{
    fast_msg *msg = fast__take(world->actors[0], from, tag);
    const int64_t word = msg ? msg->words[0] : -1;
    if (msg && from != FAST_ANY)
        assert_int_equal(msg->from, from);
    if (msg && tag != FAST_TAG_ANY)
        assert_true(msg->tag == tag);
    fast_msg_free(msg);
    return word;
}

static void order_is_by_sender_and_tag(void **state)
{
    (void)state;
    fast_world *world = open_world();
    assert_int_equal(take(world, 1, 5), -1);
    arrive(world, 1, 5, 10, 0);
    arrive(world, 2, 5, 11, 0);
    arrive(world, 1, 6, 12, 0);
    arrive(world, 1, 5, 13, 0);
    arrive(world, 0, 5, 14, 0);
    assert_int_equal(take(world, 3, 5), -1);
    assert_int_equal(take(world, 1, 7), -1);
    assert_int_equal(take(world, 1, 6), 12);
    assert_int_equal(take(world, 1, 5), 10);
    assert_int_equal(take(world, FAST_ANY, 5), 11);
    assert_int_equal(take(world, 0, FAST_TAG_ANY), 14);
    assert_int_equal(take(world, FAST_ANY, FAST_TAG_ANY), 13);
    assert_int_equal(take(world, FAST_ANY, FAST_TAG_ANY), -1);
    assert_int_equal(world->actors[0]->mailbox.count, 0);
    fast__world_close(world);
}

static void any_tag_leaves_tags_of_groups(void **state)
{
    (void)state;
    fast_world *world = open_world();
    arrive(world, 1, FAST_TAG_GROUP + 3, 20, 1);
    arrive(world, 1, FAST_TAG_MAX, 21, 0);
    arrive(world, 1, FAST_TAG_MAX - 1, 22, 0);
    assert_int_equal(take(world, FAST_ANY, FAST_TAG_ANY), 22);
    assert_int_equal(take(world, FAST_ANY, FAST_TAG_ANY), -1);
    assert_int_equal(take(world, 1, FAST_TAG_GROUP + 3), 20);
    assert_int_equal(take(world, 1, FAST_TAG_MAX), 21);
    fast__world_close(world);
}

static void old_generations_are_dropped(void **state)
{
    (void)state;
    fast_world *world = open_world();
    fast_actor *actor = world->actors[0];
    arrive(world, 1, 5, 30, 2); /* arrives before the fence is raised */
    arrive(world, 1, 5, 31, 3);
    fast__mailbox_fence(actor, 3);
    assert_false(arrive(world, 1, 5, 32, 2));
    arrive(world, 1, 5, 33, 0); /* of no group */
    assert_int_equal(take(world, 1, 5), 31);
    assert_int_equal(take(world, FAST_ANY, 5), 33);
    assert_int_equal(take(world, 1, 5), -1);
    assert_int_equal(actor->counters.messages_stale, 2);
    fast__world_close(world);
}

/* deliver() returns true only for messages that the actor waits for. */
static void only_what_matters_wakes(void **state)
{
    (void)state;
    fast_world *world = open_world();
    fast_actor *actor = world->actors[0];
    assert_false(arrive(world, 1, 5, 0, 0));
    actor->wait = (fast_wait){ .waiting = true, .whom = 2, .tag = 5 };
    assert_false(arrive(world, 1, 5, 0, 0));
    assert_true(arrive(world, 2, 5, 0, 0));
    actor->wait.whom = FAST_ANY;
    assert_true(arrive(world, 1, 9, 0, 0));
    actor->wait.waiting = false;
    fast__world_close(world);
}

static void control_messages_never_reach_programs(void **state)
{
    (void)state;
    fast_world *world = open_world();
    fast_actor *actor = world->actors[0];
    fast_member member;
    assert_false(fast_member_next(actor, &member));
    assert_true(arrive(world, 3, FAST_TAG_DOWN, 7, 0)); /* 3 says that 7 is down */
    assert_true(fast_member_is_down(actor, 7));
    assert_false(fast_member_is_down(actor, 3));
    arrive(world, 7, FAST_TAG_UP, 7, 0);
    assert_false(fast_member_is_down(actor, 7));
    arrive(world, 4, FAST_TAG_ENDED, FAST_EPEER, 0);
    arrive(world, 4, FAST_TAG_UP, 4, 0); /* who has ended does not come back */
    assert_true(fast_member_is_down(actor, 4));
    assert_int_equal(actor->mailbox.count, 0);
    assert_int_equal(actor->mailbox.down_count, 1);

    /* 7 went down and came back unseen: one change, to what it is now. */
    assert_true(fast_member_next(actor, &member));
    assert_int_equal(member.id, 7);
    assert_false(member.down);
    assert_true(fast_member_next(actor, &member));
    assert_int_equal(member.id, 4);
    assert_true(member.ended);
    assert_false(fast_member_next(actor, &member));
    for (int64_t id = 1; id < ACTORS; id++)
        arrive(world, id, FAST_TAG_ENDED, FAST_OK, 0);
    assert_int_equal(actor->mailbox.down_count, ACTORS - 1);
    int64_t seen = 0;
    while (fast_member_next(actor, &member))
        seen++;
    assert_int_equal(seen, ACTORS - 2); /* 4's end was seen */
    fast__world_close(world);
}

typedef struct entry {
    int64_t from;
    uint64_t tag;
    int64_t word;
} entry;

/* The oldest entry that matches, taken out of a plain list; its word, or -1. */
static int64_t model_take(entry *list, int64_t *count, int64_t from, uint64_t tag)
{
    for (int64_t i = 0; i < *count; i++)
        if ((from == FAST_ANY || list[i].from == from) &&
            (tag == FAST_TAG_ANY || list[i].tag == tag)) {
            const int64_t word = list[i].word;
            memmove(&list[i], &list[i + 1], (size_t)(*count - i - 1) * sizeof *list);
            --*count;
            return word;
        }
    return -1;
}

static void agrees_with_a_plain_list(void **state)
{
    (void)state;
    enum { STEPS = 30000, LIST_MAX = 2000 };
    static entry list[LIST_MAX + 1];
    fast_world *world = open_world();
    fast_rng rng;
    int64_t count = 0;
    fast__rng_init(&rng, 5, FAST_PURPOSE_TEST, 0, 0, 0);
    for (int64_t i = 0; i < STEPS; i++) {
        /* Fill and empty in turns, so that the table grows and is full of old chains. */
        const bool fills = (i / 3000) % 2 == 0;
        const int64_t from = (int64_t)fast__rng_below(&rng, 40);
        const uint64_t tag = fast__rng_below(&rng, 12);
        if (fast__rng_below(&rng, 10) < (fills ? 8u : 2u) && count < LIST_MAX) {
            list[count++] = (entry){ from, tag, i };
            arrive(world, from, tag, i, 0);
            continue;
        }
        const int64_t whom = fast__rng_below(&rng, 4) == 0 ? FAST_ANY : from;
        const uint64_t what = fast__rng_below(&rng, 4) == 0 ? FAST_TAG_ANY : tag;
        assert_int_equal(take(world, whom, what), model_take(list, &count, whom, what));
        assert_int_equal(world->actors[0]->mailbox.count, count);
    }
    while (count > 0)
        assert_int_equal(take(world, FAST_ANY, FAST_TAG_ANY),
                         model_take(list, &count, FAST_ANY, FAST_TAG_ANY));
    fast__world_close(world);
}

/* Without memory for a larger table, or for membership, nothing is lost and nothing breaks. */
static void works_without_memory(void **state)
{
    (void)state;
    fast_world *world = open_world();
    fast_actor *actor = world->actors[0];
    fast_msg *list[200];
    for (int i = 0; i < 200; i++)
        assert_int_equal(fast__pool_msg(world->pool, 5, &list[i]), FAST_OK);
    fast__alloc_fail_after(0, false);
    for (int i = 0; i < 200; i++) {
        list[i]->from = i;
        list[i]->to = 0;
        list[i]->tag = i == 100 ? FAST_TAG_ENDED : 5;
        fast__deliver(actor, list[i]);
    }
    fast__alloc_fail_after(-1, false);
    assert_null(actor->mailbox.table);
    assert_false(fast_member_is_down(actor, 100));
    for (int i = 199; i >= 0; i--)
        assert_int_equal(take(world, i, 5), i == 100 ? -1 : 0);
    fast__world_close(world);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(order_is_by_sender_and_tag),
        cmocka_unit_test(any_tag_leaves_tags_of_groups),
        cmocka_unit_test(old_generations_are_dropped),
        cmocka_unit_test(only_what_matters_wakes),
        cmocka_unit_test(control_messages_never_reach_programs),
        cmocka_unit_test(agrees_with_a_plain_list),
        cmocka_unit_test(works_without_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
