/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Goal: the function of a local owner, which writers call in their own threads, is never running
 * once the owner has closed the space, because its context may be on the owner's stack.
 * Method: an owner closes while writers add in a loop, because its wait for them timed out or
 * because it was stopped. The function takes a while and records whether the owner was still there
 * when it returned.
 */
#include "base/thread.h"
#include "space/space_state.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

enum {
    COUNT = 5,              /* floats of the tensor */
    WRITERS = 3,            /* actors 1, 2, 3; actor 0 is the owner */
    APPLY_NS = 2000 * 1000, /* time that an update takes at least */
    ADDS_BEFORE_CLOSE = 2,  /* updates after which the owner closes */
    ADDS_MAX = 60 * 1000    /* adds of a writer that is never told: the test fails */
};

/* State that the actors of a test share. */
typedef struct early_owner {
    bool stopped;        /* the owner is stopped, so that it does not wait for the writers */
    atomic_bool here;    /* the owner has not closed yet */
    atomic_uint applied; /* updates that were applied */
    atomic_int late;     /* updates that ran when the owner had closed */
    atomic_int told;     /* writers whose add failed with FAST_EPEER */
} early_owner;

/* The owner's function. */
static bool apply_slowly(void *ctx, const fast_space_update *update, float *w)
{
    early_owner *test = ctx;
    const bool before = atomic_load(&test->here);
    atomic_uint word = 0;
    fast__futex_wait(&word, 0, APPLY_NS);
    w[0] += update->x[0];
    atomic_fetch_add(&test->applied, 1);
    atomic_fetch_add(&test->late, !before || !atomic_load(&test->here));
    return true;
}

/* The owner: serve until some updates have arrived, then close without waiting for the writers. */
static fast_err own(fast_actor *actor, early_owner *test, const fast_space_options *options)
{
    fast_space *space;
    FAST_TRY(fast_space_open(actor, options, &space));
    unsigned applied;
    while ((applied = atomic_load(&test->applied)) < ADDS_BEFORE_CLOSE)
        fast__futex_wait(&test->applied, applied, APPLY_NS);
    actor->stopped = test->stopped;
    fast_space_close(space);
    atomic_store(&test->here, false);
    actor->stopped = false;
    return FAST_OK;
}

/* A writer: add until the owner has left; the error names it by its role. */
static fast_err write_on(fast_actor *actor, early_owner *test, const fast_space_options *options)
{
    static const float x[COUNT] = { 1 };
    fast_space *space;
    FAST_TRY(fast_space_open(actor, options, &space));
    fast_err err = FAST_OK;
    for (int i = 0; i < ADDS_MAX && !err; i++)
        err = fast_space_add(space, 0, x, FAST_SOON);
    const bool named = err == FAST_EPEER && strncmp(fast_error_detail(), "worker ", 7) == 0;
    fast_space_close(space);
    atomic_fetch_add(&test->told, named);
    return err == FAST_EPEER ? FAST_OK : err;
}

static fast_err take_part(fast_actor *actor, void *ctx)
{
    static const int64_t owners[] = { 0 };
    static const fast_space_tensor tensors[] = { { "w", COUNT, NULL } };
    const fast_space_options options = { .name = "space",
                                         .tensors = tensors,
                                         .tensor_count = 1,
                                         .owners = owners,
                                         .owner_count = 1,
                                         .apply = apply_slowly,
                                         .ctx = ctx };
    return fast_actor_id(actor) == 0 ? own(actor, ctx, &options) : write_on(actor, ctx, &options);
}

static void run(bool stopped)
{
    early_owner test = { .stopped = stopped, .here = true };
    const fast_role roles[] = { { "worker", 1 + WRITERS, take_part, &test } };
    const char *const options[] = { "transport=threads", stopped ? "timeout=60" : "timeout=0.5",
                                    NULL };
    fast_actors_config config;
    fast_world *world = NULL;
    assert_int_equal(fast__actors_parse(options, &config), FAST_OK);
    assert_int_equal(fast__world_open(&config, roles, 1, &world), FAST_OK);
    const fast_err err = fast__world_run(world, NULL);
    if (err)
        fail_msg("%s: %s", fast_err_name(err), fast_error_detail());
    fast__world_close(world);
    assert_int_equal(test.late, 0);
    assert_int_equal(test.told, WRITERS);
    assert_true(test.applied >= ADDS_BEFORE_CLOSE);
}

/* The owner's close gives up after the timeout, while an update is being applied. */
static void close_outwaits_updates(void **state)
{
    (void)state;
    run(false);
}

/* A stopped owner does not wait for writers to leave, but for the update that is being applied. */
static void stopped_owner_outwaits_updates(void **state)
{
    (void)state;
    run(true);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(close_outwaits_updates),
        cmocka_unit_test(stopped_owner_outwaits_updates),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
