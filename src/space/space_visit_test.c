/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Goal: visits of several actors add up, each is counted once, and nobody sees a piece that another
 * visitor works on; the owner outlasts them. Method: visitors on threads add 1 to each float and
 * find all floats of a piece equal; between visits they get the tensor, and one adds by
 * fast_space_add(). In virtual time visits are refused.
 */
#include "base/thread.h"
#include "space/space_state.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

enum {
    COUNT = 20000, /* floats of the tensor: several pieces */
    VISITORS = 3,  /* actors 1, 2, 3; actor 0 is the owner */
    VISITS = 60    /* of each */
};

/* State that the actors of a test share. */
typedef struct visit_test {
    int64_t begun;       /* ranges that visits began; written by one visitor at a time */
    atomic_int torn;     /* pieces whose floats were not equal */
    atomic_int after;    /* calls after a piece */
    atomic_int possible; /* actors that may visit */
    float last[COUNT];   /* as the owner has it in the end */
    int64_t version;     /* of the last get */
} visit_test;

static void begin(void *ctx, void *owner, const fast_space_update *update)
{
    visit_test *test = ctx;

    assert_ptr_equal(owner, test);
    assert_true(update->version >= update->read);
    test->begun++;
}

static void add_one(void *ctx, int64_t offset, int64_t count, float *values)
{
    visit_test *test = ctx;

    assert_true(offset >= 0 && offset + count <= COUNT);
    for (int64_t i = 1; i < count; i++)
        if (values[i] != values[0])
            atomic_fetch_add(&test->torn, 1);
    for (int64_t i = 0; i < count; i++)
        values[i] += 1;
}

static void count_piece(void *ctx, int64_t offset, int64_t count)
{
    visit_test *test = ctx;

    assert_true(offset >= 0 && count > 0);
    atomic_fetch_add(&test->after, 1);
}

/* Visit, get and add in turn. */
static fast_err visit(fast_actor *actor, visit_test *test, fast_space *space)
{
    const fast_space_visitor visitor = {
        .begin = begin, .piece = add_one, .after = count_piece, .ctx = test, .reads = true
    };
    static _Thread_local float x[COUNT];
    int64_t version;

    for (int i = 0; i < VISITS; i++) {
        if (i % 8 == 3)
            FAST_TRY(fast_space_get(space, 0, x, NULL, FAST_SOON));
        if (i % 16 == 5 && fast_actor_id(actor) == 1) {
            for (int64_t j = 0; j < COUNT; j++)
                x[j] = 1;
            FAST_TRY(fast_space_add(space, 0, x, FAST_SOON));
            continue;
        }
        FAST_TRY(fast__space_visit(space, NULL, &visitor, &version, FAST_SOON));
        assert_true(version > 0);
    }
    return FAST_OK;
}

static fast_err take_part(fast_actor *actor, void *ctx)
{
    static const int64_t owners[] = { 0 };
    static const fast_space_tensor tensors[] = { { "w", COUNT, NULL } };
    visit_test *test = ctx;
    const fast_space_options options = { .name = "space",
                                         .tensors = tensors,
                                         .tensor_count = 1,
                                         .owners = owners,
                                         .owner_count = 1,
                                         .ctx = ctx };
    fast_space *space;

    FAST_TRY(fast_space_open(actor, &options, &space));
    const bool possible = fast__space_can_visit(space);
    atomic_fetch_add(&test->possible, possible);
    fast_err err = FAST_OK;
    if (fast_actor_id(actor) > 0 && possible)
        err = visit(actor, test, space);
    if (fast_actor_id(actor) == 0) {
        err = fast_space_serve(space, INT64_MAX);
        fast_space_read read = { 0 };
        if (!err)
            err = fast_space_get(space, 0, test->last, &read, FAST_SOON);
        test->version = read.version;
    }
    fast_space_close(space);
    return err;
}

static void run(visit_test *test, const char *transport)
{
    const fast_role roles[] = { { "worker", 1 + VISITORS, take_part, test } };
    const char *const options[] = { transport, "timeout=60", NULL };
    fast_actors_config config;
    fast_world *world = NULL;

    assert_int_equal(fast__actors_parse(options, &config), FAST_OK);
    assert_int_equal(fast__world_open(&config, roles, 1, &world), FAST_OK);
    const fast_err err = fast__world_run(world, NULL);
    if (err)
        fail_msg("%s: %s", fast_err_name(err), fast_error_detail());
    fast__world_close(world);
}

static void visits_add_up(void **state)
{
    static visit_test test;
    const int adds = (VISITS - 6) / 16 + 1, visits = VISITORS * VISITS - adds;

    (void)state;
    run(&test, "transport=threads");
    assert_int_equal(test.possible, 1 + VISITORS);
    assert_int_equal(test.torn, 0);
    assert_int_equal(test.begun, visits);
    assert_int_equal(test.after % visits, 0);
    assert_true(test.after >= 2 * visits);
    assert_int_equal(test.version, VISITORS * VISITS);
    for (int64_t j = 0; j < COUNT; j++)
        assert_true(test.last[j] == (float)(VISITORS * VISITS));
}

static void virtual_time_has_no_visits(void **state)
{
    static visit_test test;

    (void)state;
    run(&test, "transport=sim");
    assert_int_equal(test.possible, 0);
    assert_int_equal(test.begun, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(visits_add_up),
        cmocka_unit_test(virtual_time_has_no_visits),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
