/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tasks on ranges of keys. Goal: a push or a pull touches its ranges alone, and sets or sees their
 * clocks alone; a task starts after those that it depends on, and a range whose writers are late
 * holds up no other range; sequential dependencies give a synchronous run to the bit, a bounded
 * delay holds for every range, and without dependencies nobody waits; wrong tasks are refused.
 * Method: two owners and four workers in every setting: shared memory, messages only, and mixed, on
 * threads and in the simulator. Programs check their values and return an error.
 */
#include "space/space_store.h"

#include "base/memory.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { OWNERS = 2, WORKERS = 4, ACTORS = OWNERS + WORKERS, COUNT = 101, ROUNDS = 12, GO = 7 };

static const int64_t ids[ACTORS] = { 0, 1, 2, 3, 4, 5 };

/* Where actors live. */
typedef struct setting {
    const char *transport; /* an option */
    const char *cluster;   /* of the simulator, or NULL */
    int64_t near;          /* actors id / near share memory; 0: as the transport places them */
} setting;
static const setting settings[] = {
    { "transport=threads", NULL, ACTORS },
    { "transport=threads", NULL, 1 },
    { "transport=threads", NULL, 2 },
    { "transport=sim", "cluster=hetero:jitter=2", 0 },
    { "transport=sim", "cluster=hetero:nodes=3,jitter=2", 0 },
};

/* Run a program of actors in every setting. */
static void run(fast_actor_fn *program, void *ctx)
{
    const fast_role roles[] = { { "worker", ACTORS, program, ctx } };

    for (size_t i = 0; i < sizeof settings / sizeof settings[0]; i++) {
        fast_actors_config config;
        fast_world *world = NULL;
        assert_int_equal(fast__actors_parse((const char *[]){ settings[i].transport, "timeout=20",
                                                              settings[i].cluster, NULL },
                                            &config),
                         FAST_OK);
        assert_int_equal(fast__world_open(&config, roles, 1, &world), FAST_OK);
        for (int64_t k = 0; settings[i].near > 0 && k < ACTORS; k++)
            world->places[k].node = k / settings[i].near;
        const fast_err err = fast__world_run(world, NULL);
        fast__world_close(world);
        if (err)
            fail_msg("setting %zu: %s: %s", i, fast_err_name(err), fast_error_detail());
    }
}

/* Open a space of one tensor, cut at 30 of 101 floats, with a function at its owners or none. */
static fast_err open_space(fast_actor *actor, const char *name, fast_space_fn *apply, void *ctx,
                           fast_space **out)
{
    static const fast_space_tensor tensors[] = { { "w", COUNT, NULL } };
    static const double ends[OWNERS] = { 0.3, 1 };

    return fast_space_open(actor,
                           &(fast_space_options){ .name = name,
                                                  .tensors = tensors,
                                                  .tensor_count = 1,
                                                  .owners = ids,
                                                  .owner_count = OWNERS,
                                                  .ends = ends,
                                                  .writers = ids + OWNERS,
                                                  .writer_count = WORKERS,
                                                  .apply = apply,
                                                  .ctx = ctx },
                           out);
}

/* Fail with the value that is wrong. */
static fast_err wrong(const char *what, double is, double should)
{
    return fast__fail(FAST_EFORMAT, "%s is %g, not %g", what, is, should);
}

/* Sleep for a random time, so that schedules differ. */
static fast_err dawdle(fast_actor *actor)
{
    const int64_t time = (int64_t)(fast_random(actor) % 200000);

    return fast_sleep_until(actor, fast_now(actor) + time);
}

/* Tell worker `to` to continue, or wait until worker `from` says so. */
static fast_err tell(fast_actor *actor, int64_t to)
{
    fast_msg *msg;

    FAST_TRY(fast_msg_new(actor, GO, &msg));
    return fast_send(actor, to, &msg);
}
static fast_err hear(fast_actor *actor, int64_t from)
{
    fast_msg *msg;

    FAST_TRY(fast_receive(actor, from, GO, FAST_SOON, &msg));
    fast_msg_free(msg);
    return FAST_OK;
}

/* Submit a task and wait for it. */
static fast_err do_task(fast_space *space, const fast_space_task *task)
{
    int64_t number;

    FAST_TRY(fast_space_submit(space, task, &number));
    FAST_TRY(fast_space_wait(space, number, FAST_SOON));
    return fast_space_finished(space, number) ? FAST_OK : wrong("a finished task", 0, 1);
}

/* Worker 0 pushes to range 1 alone, with a clock; worker 1 reads both ranges and all clocks. */
static fast_err use_ranges(fast_actor *actor, fast_space *space, int64_t me)
{
    float x[COUNT], y[COUNT] = { 0 };
    int64_t offset, count, seen = -1;

    for (int i = 0; i < COUNT; i++)
        x[i] = (float)i;
    fast_space_keys(space, 0, 1, &offset, &count);
    if (fast_space_range_count(space) != OWNERS || offset != 30 || count != COUNT - 30)
        return wrong("the second range", (double)offset, 30);
    if (me == 0) {
        FAST_TRY(do_task(
            space, &(fast_space_task){ .range = 1, .range_count = 1, .push = x, .clock = 3 }));
        return tell(actor, ids[OWNERS + 1]);
    }
    if (me != 1)
        return FAST_OK;
    FAST_TRY(hear(actor, ids[OWNERS]));
    /* The vector clock of range 1 is 3, 0, 0, 0, that of range 0 is all 0. */
    for (int64_t i = 0; i < WORKERS; i++)
        for (int64_t r = 0; r < OWNERS; r++) {
            FAST_TRY(do_task(space, &(fast_space_task){ .range = r,
                                                        .range_count = 1,
                                                        .when = { .writer = i, .writer_count = 1 },
                                                        .clock_seen = &seen }));
            if (seen != (i == 0 && r == 1 ? 3 : 0))
                return wrong("a clock", (double)seen, i == 0 && r == 1 ? 3 : 0);
        }
    FAST_TRY(do_task(space, &(fast_space_task){ .range = 1, .range_count = 1, .pull = y }));
    for (int i = 0; i < COUNT; i++)
        if (y[i] != (i < 30 ? 0 : x[i]))
            return wrong("a pulled value", (double)y[i], (double)i);
    y[0] = -1;
    FAST_TRY(do_task(space, &(fast_space_task){ .pull = y }));
    return y[0] == 0 && y[COUNT - 1] == COUNT - 1 ? FAST_OK : wrong("a key", (double)y[0], 0);
}

/* Worker 0 pushes to range 0, and to range 1 only when worker 1 has told it to. Worker 1 pulls both
 * at once: range 1, which is late, holds up neither range 0 nor a push that comes later; a push
 * that depends on the late pull waits for it. */
static fast_err use_graph(fast_actor *actor, fast_space *space, int64_t me)
{
    const fast_space_read when = { .clock_min = 1, .writer = 0, .writer_count = 1 };
    float x[COUNT], y[COUNT] = { 0 };
    int64_t late, early, then, other;

    for (int i = 0; i < COUNT; i++)
        x[i] = 1;
    if (me == 0) {
        FAST_TRY(do_task(space, &(fast_space_task){ .range_count = 1, .push = x, .clock = 1 }));
        FAST_TRY(hear(actor, ids[OWNERS + 1]));
        return do_task(space,
                       &(fast_space_task){ .range = 1, .range_count = 1, .push = x, .clock = 1 });
    }
    if (me != 1)
        return FAST_OK;
    FAST_TRY(fast_space_submit(
        space, &(fast_space_task){ .range = 1, .range_count = 1, .pull = y, .when = when }, &late));
    FAST_TRY(fast_space_submit(
        space,
        &(fast_space_task){
            .range = 1, .range_count = 1, .push = x, .clock = 1, .after = &late, .after_count = 1 },
        &then));
    FAST_TRY(fast_space_submit(
        space, &(fast_space_task){ .range_count = 1, .pull = y, .when = when }, &early));
    FAST_TRY(fast_space_submit(space, &(fast_space_task){ .range_count = 1, .push = x }, &other));
    FAST_TRY(fast_space_wait(space, early, FAST_SOON));
    FAST_TRY(fast_space_wait(space, other, FAST_SOON));
    if (y[0] < 1 || fast_space_finished(space, late) || fast_space_finished(space, then))
        return wrong("a range that is late", (double)y[0], 1);
    FAST_TRY(tell(actor, ids[OWNERS]));
    FAST_TRY(fast_space_wait(space, then, FAST_SOON));
    if (!fast_space_finished(space, late) || y[COUNT - 1] != 1) /* before its own push */
        return wrong("the late range", (double)y[COUNT - 1], 1);
    FAST_TRY(do_task(space, &(fast_space_task){ .pull = y }));
    return y[0] == 2 && y[COUNT - 1] == 2 ? FAST_OK : wrong("the sum", (double)y[0], 2);
}

/* More tasks than the table holds, none of which is waited for. */
static fast_err use_many(fast_actor *actor, fast_space *space, int64_t me)
{
    float x[COUNT], y[COUNT];
    int64_t number;

    for (int i = 0; i < COUNT; i++)
        x[i] = 1;
    for (int64_t k = 0; k < 300; k++)
        FAST_TRY(fast_space_submit(
            space, &(fast_space_task){ .range = k % 2, .range_count = 1, .push = x }, &number));
    FAST_TRY(fast_space_wait(space, 0, FAST_SOON));
    FAST_TRY(do_task(space, &(fast_space_task){ .clock = 1 }));
    FAST_TRY(do_task(space, &(fast_space_task){ .pull = y, .when = { .clock_min = 1 } }));
    (void)actor;
    (void)me;
    return y[0] == 150 * WORKERS && y[COUNT - 1] == 150 * WORKERS
               ? FAST_OK
               : wrong("the sum of all pushes", (double)y[0], 150 * WORKERS);
}

/* The part of a worker in a test. */
typedef fast_err part_fn(fast_actor *actor, fast_space *space, int64_t me);

/* Owners serve; workers run the function. */
static fast_err serve_or_run(fast_actor *actor, void *ctx)
{
    part_fn *const *part = ctx;
    const int64_t me = fast_actor_id(actor) - OWNERS;
    fast_space *space;
    fast_err err;

    FAST_TRY(open_space(actor, "space", NULL, NULL, &space));
    err = me < 0 ? fast_space_serve(space, FAST_SOON) : (*part)(actor, space, me);
    fast_space_close(space);
    return err;
}

/* A push of one range changes the values of no other range, and the clock of no other range and of
 * no other writer. */
static void ranges_have_values_and_clocks_of_their_own(void **state)
{
    part_fn *part = use_ranges;
    (void)state;
    run(serve_or_run, &part);
}

/* Would a pull wait for the whole space, the two workers would wait for each other. */
static void a_late_range_holds_up_no_other(void **state)
{
    part_fn *part = use_graph;
    (void)state;
    run(serve_or_run, &part);
}

/* A submit waits for the oldest tasks where the table is full. */
static void tasks_beyond_the_table_wait_for_room(void **state)
{
    part_fn *part = use_many;
    (void)state;
    run(serve_or_run, &part);
}

/* Consistency: rounds of a made-up gradient at w, pushed and pulled range by range. */

typedef struct consistency {
    int64_t delay; /* tau; 0: sequential; -1: eventual */
} consistency;

/* A gradient that depends on every bit of w. */
static float gradient(float w, int64_t i, int64_t worker, int64_t round)
{
    return 0.1f * w - 1.0f / (float)(3 + i + 7 * worker + 11 * round);
}

/* An owner's rounds: gradients of all workers are summed in the order of their numbers. */
typedef struct rounds {
    float x[WORKERS][COUNT]; /* gradients of the round, of the owner's range */
    int64_t arrived;         /* gradients of the round that are there */
    int64_t clocks[WORKERS]; /* rounds of each worker that were applied */
    int64_t delay;           /* bound to check; -1: none */
    bool broken;             /* an update came earlier than the delay allows */
} rounds;

/* The function at an owner: it checks the bound, then adds, or with a delay of 0 collects a round
 * and subtracts its gradients in the order of the workers. */
static bool add_round(void *ctx, const fast_space_update *u, float *w)
{
    rounds *r = ctx;
    const int64_t me = u->from - OWNERS;

    r->clocks[me] = u->clock + 1;
    for (int64_t i = 0; r->delay >= 0 && i < WORKERS; i++)
        r->broken |= r->clocks[me] > r->clocks[i] + r->delay + 1;
    if (r->delay != 0) {
        for (int64_t i = 0; i < u->count; i++)
            w[i] += u->x[i];
        return true;
    }
    memcpy(r->x[me], u->x, (size_t)u->count * sizeof *u->x);
    if (++r->arrived < WORKERS)
        return true;
    for (int64_t i = 0; i < u->count; i++)
        for (int64_t k = 0; k < WORKERS; k++)
            w[i] -= r->x[k][i];
    r->arrived = 0;
    return true;
}

/* Compute the synchronous rounds alone. */
static void compute(float w[COUNT])
{
    for (int64_t t = 0; t < ROUNDS; t++)
        for (int64_t i = 0; i < COUNT; i++) {
            const float before = w[i];
            for (int64_t k = 0; k < WORKERS; k++)
                w[i] -= gradient(before, i, k, t);
        }
}

/* One worker's rounds: in each, a pull and a push for each range, in a random order; all pulls are
 * in progress at once, and a push depends on the pull of its range. */
static fast_err train(fast_actor *actor, fast_space *space, const consistency *c, int64_t me)
{
    float w[COUNT], g[ROUNDS][COUNT];
    int64_t pulls[OWNERS], pushes[OWNERS], seen[OWNERS];

    for (int64_t t = 0; t < ROUNDS; t++) {
        const int64_t first = (int64_t)(fast_random(actor) % OWNERS);
        const int64_t clock_min = c->delay < 0 ? 0 : t - c->delay;

        for (int64_t k = 0; k < OWNERS; k++) {
            const int64_t r = (first + k) % OWNERS;
            FAST_TRY(fast_space_submit(
                space,
                &(fast_space_task){ .range = r,
                                    .range_count = 1,
                                    .pull = w,
                                    .when = { .clock_min = clock_min > 0 ? clock_min : 0 },
                                    .clock_seen = &seen[r] },
                &pulls[r]));
        }
        FAST_TRY(dawdle(actor));
        for (int64_t k = 0; k < OWNERS; k++) {
            const int64_t r = (first + k) % OWNERS;
            int64_t offset, count;
            FAST_TRY(fast_space_wait(space, pulls[r], FAST_SOON));
            if (seen[r] < clock_min)
                return wrong("the clock of a pull", (double)seen[r], (double)clock_min);
            fast_space_keys(space, 0, r, &offset, &count);
            for (int64_t i = offset; i < offset + count; i++)
                g[t][i] = c->delay == 0 ? gradient(w[i], i, me, t) : 1;
            if (c->delay > 0 && w[offset] < (float)(clock_min * WORKERS))
                return wrong("an old value", (double)w[offset], (double)(clock_min * WORKERS));
            FAST_TRY(fast_space_submit(space,
                                       &(fast_space_task){ .range = r,
                                                           .range_count = 1,
                                                           .push = g[t],
                                                           .clock = t + 1,
                                                           .after = &pulls[r],
                                                           .after_count = 1 },
                                       &pushes[r]));
        }
    }
    return fast_space_wait(space, 0, FAST_SOON);
}

/* Check the values after all rounds: those of the synchronous rounds, or the number of pushes. */
static fast_err check_end(fast_space *space, const consistency *c)
{
    float w[COUNT], expected[COUNT] = { 0 };

    FAST_TRY(do_task(space, &(fast_space_task){ .pull = w, .when = { .clock_min = ROUNDS } }));
    if (c->delay == 0)
        compute(expected);
    for (int i = 0; c->delay != 0 && i < COUNT; i++)
        expected[i] = ROUNDS * WORKERS;
    return memcmp(w, expected, sizeof w) == 0 ? FAST_OK
                                              : wrong("w", (double)w[0], (double)expected[0]);
}

/* The program of an actor: the first ones own, the others train. */
static fast_err train_or_serve(fast_actor *actor, void *ctx)
{
    const consistency *c = ctx;
    const int64_t me = fast_actor_id(actor) - OWNERS;
    rounds *r = calloc(1, sizeof *r);
    fast_space *space = NULL;
    fast_err err;

    assert_non_null(r);
    r->delay = c->delay;
    err = open_space(actor, "model", add_round, r, &space);
    if (!err)
        err = me < 0 ? fast_space_serve(space, FAST_SOON) : train(actor, space, c, me);
    if (!err && me >= 0)
        err = check_end(space, c);
    fast_space_close(space);
    if (!err && r->broken)
        err = wrong("a round ahead of the bound", 1, 0);
    free(r);
    return err;
}

/* A delay of 0: every pull waits for all writers of its range. */
static void sequential_tasks_are_synchronous_to_the_bit(void **state)
{
    (void)state;
    run(train_or_serve, &(consistency){ 0 });
}

/* The owners check the bound at each update, and the workers the values that they pull. */
static void a_bounded_delay_holds_for_every_range(void **state)
{
    (void)state;
    run(train_or_serve, &(consistency){ 1 });
    run(train_or_serve, &(consistency){ 3 });
}

/* No pull waits; all pushes are there in the end. */
static void eventual_tasks_lose_nothing(void **state)
{
    (void)state;
    run(train_or_serve, &(consistency){ -1 });
}

/* Eventual: one worker does all its rounds while the others have not begun. With a bounded delay it
 * stops after tau rounds. */
static fast_err run_ahead(fast_actor *actor, fast_space *space, int64_t me)
{
    static const int64_t far = 40000000; /* ns */
    float x[COUNT] = { 0 }, y[COUNT];
    int64_t number;

    for (int64_t t = 1; me == 0 && t <= 2 * ROUNDS; t++) {
        FAST_TRY(do_task(space, &(fast_space_task){ .pull = y }));
        FAST_TRY(do_task(space, &(fast_space_task){ .push = x, .clock = t }));
    }
    if (me == 0) {
        FAST_TRY(fast_space_submit(
            space, &(fast_space_task){ .pull = y, .when = { .clock_min = 1 } }, &number));
        const fast_err err = fast_space_wait(space, number, fast_now(actor) + far);
        if (err != FAST_ETIMEDOUT || fast_space_finished(space, number))
            return wrong("a wait for workers that are behind", err, FAST_ETIMEDOUT);
        for (int64_t i = OWNERS + 1; i < ACTORS; i++)
            FAST_TRY(tell(actor, i));
        return fast_space_wait(space, number, FAST_SOON);
    }
    FAST_TRY(hear(actor, ids[OWNERS]));
    return do_task(space, &(fast_space_task){ .push = x, .clock = 1 });
}

/* A worker that waits for workers that are behind gets a timeout, and the task stays: it finishes
 * when they have caught up. */
static void a_bound_stops_who_is_ahead(void **state)
{
    part_fn *part = run_ahead;
    (void)state;
    run(serve_or_run, &part);
}

/* Tasks that make no sense. */
static fast_err misuse(fast_actor *actor, fast_space *space, int64_t me)
{
    static const int64_t unknown[9] = { 1, 2, 3, 4, 5, 6, 7, 8, 9 };
    float x[COUNT] = { 0 }, y[COUNT];
    const fast_space_task tasks[] = {
        { .tensor = 1, .pull = y },
        { .range = OWNERS, .range_count = 1, .pull = y },
        { .range = -1, .range_count = 1, .pull = y },
        { .range = 1, .range_count = INT64_MAX, .pull = y },
        { .range_count = -1, .pull = y },
        { .push = x, .pull = y },
        { .push = x, .clock = -1 },
        { .pull = y, .after = unknown, .after_count = 1 },
        { .pull = y, .after = unknown, .after_count = 9 },
        { .pull = y, .after_count = -1 },
        { .pull = y, .when = { .clock_min = 1 } }, /* it would wait for itself */
        { .pull = y, .when = { .writer = 3, .writer_count = 2 } },
        { .pull = y, .when = { .writer = -1, .writer_count = 1 } },
        { .pull = y, .when = { .writer_count = -1 } },
        { .pull = y, .when = { .writer_count = 1, .version_min = 1 } },
        { .size = 8, .pull = y },
    };
    int64_t number = 77;

    (void)actor;
    if (me != 0)
        return FAST_OK;
    for (size_t i = 0; i < sizeof tasks / sizeof tasks[0]; i++)
        if (fast_space_submit(space, &tasks[i], &number) != FAST_EINVAL || number != 77)
            return wrong("a refused task", (double)i, FAST_EINVAL);
    if (fast_space_wait(space, 1, FAST_SOON) != FAST_EINVAL ||
        fast_space_wait(space, -1, FAST_SOON) != FAST_EINVAL || fast_space_finished(space, 1))
        return wrong("a task that was not submitted", 0, FAST_EINVAL);
    FAST_TRY(do_task(space, &(fast_space_task){ .push = x, .clock = 2 }));
    if (fast_space_submit(space, &(fast_space_task){ .push = x, .clock = 1 }, &number) !=
        FAST_EINVAL)
        return wrong("a clock that goes back", 0, FAST_EINVAL);
    return fast_space_wait(space, 0, FAST_SOON);
}

/* A refused task has no number, and changes nothing. */
static void wrong_tasks_are_refused(void **state)
{
    part_fn *part = misuse;
    (void)state;
    run(serve_or_run, &part);
}

/* The first task without memory; in the simulator, where no other thread allocates. */
static fast_err starve(fast_actor *actor, fast_space *space, int64_t me)
{
    float x[COUNT] = { 0 };
    int64_t number;

    const bool alone = actor->world->transport->virtual_clock;

    for (int n = 0; alone && me == 0 && n < 2; n++) {
        fast__alloc_fail_after(n, true);
        const fast_err err = fast_space_submit(space, &(fast_space_task){ .push = x }, &number);
        fast__alloc_fail_after(-1, true);
        if (err != FAST_ENOMEM)
            return wrong("an allocation", n, FAST_ENOMEM);
    }
    return do_task(space, &(fast_space_task){ .push = x });
}

static void tasks_survive_without_memory(void **state)
{
    part_fn *part = starve;
    (void)state;
    run(serve_or_run, &part);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ranges_have_values_and_clocks_of_their_own),
        cmocka_unit_test(a_late_range_holds_up_no_other),
        cmocka_unit_test(tasks_beyond_the_table_wait_for_room),
        cmocka_unit_test(sequential_tasks_are_synchronous_to_the_bit),
        cmocka_unit_test(a_bounded_delay_holds_for_every_range),
        cmocka_unit_test(eventual_tasks_lose_nothing),
        cmocka_unit_test(a_bound_stops_who_is_ahead),
        cmocka_unit_test(wrong_tasks_are_refused),
        cmocka_unit_test(tasks_survive_without_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
