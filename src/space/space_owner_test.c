/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Goal: an owner survives whatever arrives, and nothing is allocated once a space is in use.
 * Method: messages that make no sense, sent by hand, are counted and change nothing; every
 * allocation of open fails once; options that cannot be are refused. Actors are threads, placed
 * apart from each other so that they use messages, or together.
 */
#include "space/space_form.h"

#include "base/hash.h"
#include "base/memory.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

enum { COUNT = 11 };

static fast_space_options options_of(void)
{
    static const fast_space_tensor tensors[] = { { "a", COUNT, NULL }, { "b", 1, NULL } };
    static const int64_t ids[] = { 0, 1, 2 };
    return (fast_space_options){ .name = "space",
                                 .tensors = tensors,
                                 .tensor_count = 2,
                                 .owners = ids,
                                 .owner_count = 1,
                                 .writers = ids,
                                 .writer_count = 3 };
}

static void run_on(const char *transport, fast_actor_fn *program, void *ctx, bool far)
{
    const fast_role roles[] = { { "worker", 3, program, ctx } };
    fast_actors_config config;
    fast_world *world = NULL;
    assert_int_equal(fast__actors_parse((const char *[]){ "timeout=60", transport, NULL }, &config),
                     FAST_OK);
    assert_int_equal(fast__world_open(&config, roles, 1, &world), FAST_OK);
    for (int64_t i = 0; i < 3 && far; i++)
        world->places[i].node = i;
    const fast_err err = fast__world_run(world, NULL);
    if (err)
        fail_msg("%s: %s", fast_err_name(err), fast_error_detail());
    fast__world_close(world);
}

static void run(fast_actor_fn *program, void *ctx, bool far)
{
    run_on("transport=threads", program, ctx, far);
}

static fast_err expect(fast_err err, fast_err expected)
{
    if (err == expected)
        return FAST_OK;
    return fast__fail(FAST_EFORMAT, "got %s and not %s", fast_err_name(err),
                      fast_err_name(expected));
}

/* A message that no space would send. */
typedef struct hostile {
    int64_t words[FAST_MSG_WORDS];
    int64_t size; /* of its part; -1: none */
} hostile;

static const hostile before_hello[] = {
    { { FAST_SPACE_ADD, 0, 0, 1, 0, 0 }, COUNT * 4 },
    { { FAST_SPACE_GET, 0, 0, 1, 0, 0 }, -1 },
    { { FAST_SPACE_LEAVE, 0, 0, 0, 0, 0 }, -1 },
    { { FAST_SPACE_HELLO, 0, 0, 12345, 0, 0 }, -1 }, /* another space */
    { { FAST_SPACE_HELLO, 0, 0, 0, -1, 0 }, -1 },    /* a negative life */
    { { FAST_SPACE_HELLO, 3, 0, 0, 0, 0 }, -1 },     /* no such tensor */
};
static const hostile after_hello[] = {
    { { 0, 0, 0, 0, 0, 0 }, -1 },
    { { 99, 0, 0, 0, 0, 0 }, -1 },
    { { FAST_SPACE_VALUE, 0, 0, 1, 0, 0 }, COUNT * 4 },       /* an answer */
    { { FAST_SPACE_ADD, 2, 0, 1, 0, 0 }, COUNT * 4 },         /* no such tensor */
    { { FAST_SPACE_ADD, -1, 0, 1, 0, 0 }, COUNT * 4 },        /* a negative tensor */
    { { FAST_SPACE_ADD, INT64_MAX, 0, 1, 0, 0 }, COUNT * 4 }, /* tensor out of range */
    { { FAST_SPACE_ADD, 0, 1, 1, 0, 0 }, COUNT * 4 },         /* no such owner */
    { { FAST_SPACE_ADD, 0, 0, 1, 0, 0 }, COUNT * 4 - 1 },     /* short */
    { { FAST_SPACE_ADD, 0, 0, 1, 0, 0 }, COUNT * 4 + 4 },     /* long */
    { { FAST_SPACE_ADD, 0, 0, 1, 0, 0 }, -1 },                /* empty */
    { { FAST_SPACE_ADD, 0, 0, 7, 0, 0 }, COUNT * 4 },         /* out of order */
    { { FAST_SPACE_ADD, 0, 0, 1, -1, 0 }, COUNT * 4 },        /* a negative clock */
    { { FAST_SPACE_PUT, 0, 0, 1, 0, 5 }, COUNT * 4 },         /* read what is not there yet */
    { { FAST_SPACE_TICK, 0, 0, 1, -5, 0 }, -1 },
    { { FAST_SPACE_GET, 0, 0, 0, 0, 0 }, -1 }, /* without an id */
    { { FAST_SPACE_WATCH, 0, 0, 0, INT64_MAX, 0 }, -1 },
};
enum {
    BEFORE = sizeof before_hello / sizeof before_hello[0],
    AFTER = sizeof after_hello / sizeof after_hello[0]
};

static fast_err send_hostile_to(fast_actor *actor, int64_t to, uint64_t tag, const hostile *h)
{
    fast_msg *msg;
    FAST_TRY(fast_msg_new(actor, tag, &msg));
    memcpy(msg->words, h->words, sizeof h->words);
    if (h->size >= 0) {
        fast_buffer *buffer;
        const fast_err err = fast_buffer_new(actor, (size_t)h->size, &buffer);
        if (err) {
            fast_msg_free(msg);
            return err;
        }
        memset(fast_buffer_data(buffer), 0x3f, (size_t)h->size);
        fast_msg_add(msg, &buffer);
    }
    return fast_send(actor, to, &msg);
}

static fast_err send_hostile(fast_actor *actor, uint64_t tag, const hostile *h)
{
    return send_hostile_to(actor, 0, tag, h);
}

/* The owner: nothing but the one update of a good actor was applied. */
static fast_err defend(fast_actor *actor, const fast_space_options *options)
{
    fast_space *space;
    fast_space_counters counters;
    FAST_TRY(fast_space_open(actor, options, &space));
    fast_err err = fast_space_serve(space, FAST_SOON);
    fast_space_count(space, &counters);
    if (!err && counters.refused != BEFORE + AFTER)
        err = fast__fail(FAST_EFORMAT, "%lld were refused", (long long)counters.refused);
    if (!err && (counters.applied != 1 || counters.rejected != 0))
        err = fast__fail(FAST_EFORMAT, "%lld were applied", (long long)counters.applied);
    fast_space_close(space);
    return err;
}

/* A good actor, between whose messages others come. */
static fast_err slip_in(fast_actor *actor, const fast_space_options *options, const float *x)
{
    fast_space *space;
    float y[COUNT];
    FAST_TRY(fast_space_open(actor, options, &space));
    fast_err err = FAST_OK;
    for (int i = 0; i < AFTER && !err; i++)
        err = send_hostile(actor, fast__space_tag(space, false), &after_hello[i]);
    if (!err)
        err = fast_space_add(space, 0, x, FAST_SOON);
    if (!err)
        err = fast_space_get(space, 0, y, NULL, FAST_SOON);
    for (int i = 0; i < COUNT && !err; i++)
        if (y[i] != 2 * x[i])
            err = fast__fail(FAST_EFORMAT, "value %d is %g", i, (double)y[i]);
    fast_space_close(space);
    return err;
}

/* Actor 0 owns, 1 never opens the space and writes to it all the same, 2 does once it opened it. */
static fast_err attack(fast_actor *actor, void *ctx)
{
    static const float x[COUNT] = { 1, 2, 3 };
    fast_space_options options = options_of();
    (void)ctx;
    options.tensors = (const fast_space_tensor[]){ { "a", COUNT, x }, { "b", 1, NULL } };
    if (fast_actor_id(actor) == 0)
        return defend(actor, &options);
    if (fast_actor_id(actor) == 2)
        return slip_in(actor, &options, x);
    const uint64_t tag = FAST_TAG_SPACE | fast__hash("space", 5, 0) >> 16 << 8;
    for (int i = 0; i < BEFORE; i++)
        FAST_TRY(send_hostile(actor, tag, &before_hello[i]));
    return FAST_OK;
}

static void hostile_messages_are_refused(void **state)
{
    (void)state;
    run(attack, NULL, true);
}

/* Answers of an owner are not trusted either: a late, short or strange one is dropped. */
static const hostile answers[] = {
    { { FAST_SPACE_VALUE, 0, 0, 1, 0, 0 }, COUNT * 4 },     /* nobody asked */
    { { FAST_SPACE_VALUE, 0, 0, 2, 9, 9 }, COUNT * 4 - 4 }, /* short, to what will be asked */
    { { FAST_SPACE_VALUE, 0, 5, 1, 0, 0 }, COUNT * 4 },     /* no such owner */
    { { FAST_SPACE_VALUE, 9, 0, 1, 0, 0 }, COUNT * 4 },     /* no such tensor */
    { { FAST_SPACE_ACK, 0, 0, 1000, 0, 0 }, -1 },           /* of what was not sent */
    { { FAST_SPACE_NOTIFY, 1, 0, 0, 7, 7 }, -1 },           /* nobody watches */
    { { 77, 0, 0, 0, 0, 0 }, -1 },
};

static fast_err lie(fast_actor *actor, void *ctx)
{
    const fast_space_options options = options_of();
    fast_space *space;
    float x[COUNT] = { 5 }, y[COUNT];
    (void)ctx;
    FAST_TRY(fast_space_open(actor, &options, &space));
    fast_err err = FAST_OK;
    const uint64_t tag = fast__space_tag(space, true);
    if (fast_actor_id(actor) == 0) {
        for (size_t i = 0; i < sizeof answers / sizeof answers[0] && !err; i++)
            for (int64_t to = 1; to < 3 && !err; to++)
                err = send_hostile_to(actor, to, tag, &answers[i]);
    } else {
        for (int i = 0; i < 20 && !err; i++)
            err = fast_space_add(space, 0, x, FAST_SOON);
        if (!err)
            err = fast_space_get(space, 0, y, &(fast_space_read){ .version_min = 20 }, FAST_SOON);
        if (!err && (y[0] < 100 || y[1] != 0))
            err = fast__fail(FAST_EFORMAT, "read %g and %g", (double)y[0], (double)y[1]);
    }
    fast_space_close(space);
    return err;
}

static void hostile_answers_are_dropped(void **state)
{
    (void)state;
    run(lie, NULL, true);
}

/* Fail the n-th allocation of open for every n, at an owner and at who uses it. */
static fast_err starve(fast_actor *actor, void *ctx)
{
    fast_space_options options = options_of();
    fast_space *space = NULL;
    (void)ctx;
    fast_err err = FAST_ENOMEM;
    /* A name for each try: an actor that was in a store does not come again. */
    for (int n = 0; err; n++) {
        char name[32];
        if (n > 100)
            return fast__fail(FAST_EFORMAT, "open allocates without end");
        snprintf(name, sizeof name, "space %d", n);
        options.name = name;
        fast__alloc_fail_after(n, true);
        err = fast_space_open(actor, &options, &space);
        fast__alloc_fail_after(-1, true);
        if (err && err != FAST_ENOMEM)
            return fast__fail(FAST_EFORMAT, "allocation %d: %s: %s", n, fast_err_name(err),
                              fast_error_detail());
    }
    /* Nobody waits for the others here: each was open in the names that it got. */
    fast__space_abandon(space);
    return FAST_OK;
}

static void open_survives_without_memory(void **state)
{
    (void)state;
    run(starve, NULL, true);
    run(starve, NULL, false);
}

/* After the first rounds nothing is allocated, near and far. */
static fast_err exercise(fast_actor *actor, void *ctx)
{
    const fast_space_options options = options_of();
    fast_space *space;
    float x[COUNT] = { 1 }, y[COUNT];
    int64_t before = 0;
    fast_err err = FAST_OK;
    (void)ctx;
    FAST_TRY(fast_space_open(actor, &options, &space));
    for (int64_t i = 1; i <= 200 && !err; i++) {
        /* Measured before anybody ends: that news takes memory. */
        if (i == 100)
            before = fast__alloc_count();
        if (i == 190 && fast__alloc_count() != before)
            err = fast__fail(FAST_EFORMAT, "%lld allocations in 90 rounds",
                             (long long)(fast__alloc_count() - before));
        if (err)
            break;
        err = fast_space_add(space, 0, x, FAST_SOON);
        if (!err)
            err = fast_space_put(space, 1, x, FAST_SOON);
        if (!err)
            err = fast_space_tick(space, i);
        if (!err)
            err = fast_space_get(space, 0, y, &(fast_space_read){ .clock_min = i - 1 }, FAST_SOON);
    }
    fast_space_close(space);
    return err;
}

static void rounds_allocate_nothing(void **state)
{
    (void)state;
    run(exercise, NULL, false);
    /* On threads the number of messages in flight depends on timing. */
    run_on("transport=sim", exercise, NULL, false);
}

/* Count the messages of one actor's operations on a tensor of COUNT floats. */
static fast_err spend(fast_actor *actor, void *ctx)
{
    const int *what = ctx;
    fast_space_options options = options_of();
    fast_space *space;
    float x[COUNT] = { 0 };
    fast_err err = FAST_OK;
    FAST_TRY(fast_space_open(actor, &options, &space));
    for (int64_t i = 1; i <= 10 && fast_actor_id(actor) == 2 && !err; i++) {
        switch (*what) {
        case 1:
            err = fast_space_get(space, 0, x, NULL, FAST_SOON);
            break;
        case 2:
            err = fast_space_put(space, 0, x, FAST_SOON);
            break;
        case 3:
            err = fast_space_add(space, 0, x, FAST_SOON);
            break;
        case 4:
            err = fast_space_tick(space, i);
            break;
        default:
            break;
        }
    }
    fast_space_close(space);
    return err;
}

static void messages_cost_what_is_documented(void **state)
{
    (void)state;
    const int64_t bytes[5] = { 0, 10 * (128 + 4 * COUNT), 10 * (128 + 4 * COUNT),
                               10 * (128 + 4 * COUNT), 10 * 128 };
    for (int what = 0; what < 5; what++) {
        const fast_role role = { "worker", 3, spend, &what };
        fast_actors_result result;
        assert_int_equal(
            fast_actors_run((const char *[]){ "transport=sim", NULL }, &role, 1, &result), FAST_OK);
        /* Two actors open and close: a greeting, a leave and its answer each. */
        assert_int_equal(result.messages_sent, 6 + (what ? 20 : 0));
        assert_int_equal(result.bytes_sent, 6 * 64 + bytes[what]);
        assert_int_equal(result.copies, 0);
        assert_int_equal(
            fast_actors_run((const char *[]){ "transport=threads", NULL }, &role, 1, &result),
            FAST_OK);
        assert_int_equal(result.messages_sent, 0);
    }
}

/* Options and calls that cannot be. */
static fast_err misuse(fast_actor *actor, void *ctx)
{
    fast_space *space = NULL;
    float x[COUNT];
    (void)ctx;
    if (fast_actor_id(actor) != 0)
        return FAST_OK;
    const fast_space_options good = options_of();
    fast_space_options bad[11];
    for (int i = 0; i < 11; i++)
        bad[i] = good;
    bad[0].name = NULL;
    bad[1].name = "";
    bad[2].tensor_count = 0;
    bad[3].tensors = (const fast_space_tensor[]){ { "a", 1, NULL }, { "a", 1, NULL } };
    bad[4].tensors = (const fast_space_tensor[]){ { "a", 1, NULL }, { "b", 0, NULL } };
    bad[5].tensors = (const fast_space_tensor[]){ { "a", INT64_MAX, NULL }, { "b", 9, NULL } };
    bad[6].owner_count = 0;
    bad[7].owners = (const int64_t[]){ 7 };
    bad[8].owner_count = 2;
    bad[8].owners = (const int64_t[]){ 0, 0 };
    bad[9].writers = (const int64_t[]){ 0, 1, 3 };
    bad[10].writers = (const int64_t[]){ 1, 2, 1 };
    for (int i = 0; i < 11; i++)
        FAST_TRY(expect(fast_space_open(actor, &bad[i], &space), FAST_EINVAL));
    FAST_TRY(fast_space_open(actor, &good, &space));
    fast_err err = expect(fast_space_get(space, 2, x, NULL, FAST_SOON), FAST_EINVAL);
    if (!err)
        err = expect(fast_space_add(space, -1, x, FAST_SOON), FAST_EINVAL);
    if (!err)
        err = fast_space_tick(space, 3);
    if (!err)
        err = expect(fast_space_tick(space, 2), FAST_EINVAL);
    fast_space_read read = { .clock_min = 4 };
    if (!err)
        err = expect(fast_space_get(space, 0, x, &read, FAST_SOON), FAST_EINVAL);
    if (!err && fast_space_find(space, "c") != -1)
        err = fast__fail(FAST_EFORMAT, "found what is not there");
    /* Two names with one tag, as if their hashes were equal. */
    fast_space *other = NULL;
    fast_space_options twin = good;
    twin.name = "twin";
    const uint64_t key = space->key;
    space->key = fast__hash("twin", 4, 0) >> 16;
    if (!err)
        err = expect(fast_space_open(actor, &twin, &other), FAST_EINVAL);
    space->key = key;
    fast_space_close(space);
    fast_space_close(NULL);
    return err;
}

static void misuse_is_refused(void **state)
{
    (void)state;
    run(misuse, NULL, true);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(hostile_messages_are_refused),
        cmocka_unit_test(hostile_answers_are_dropped),
        cmocka_unit_test(open_survives_without_memory),
        cmocka_unit_test(rounds_allocate_nothing),
        cmocka_unit_test(messages_cost_what_is_documented),
        cmocka_unit_test(misuse_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
