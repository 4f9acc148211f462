/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Chains of copies. Goal: whatever happens to owners, as long as one copy is whole, no update is
 * lost and none is applied twice; owners that come back catch up and take over in turn. Method:
 * workers add ones, owners crash and come back in the simulator at times of a random plan, and on
 * threads in turn; at the end the values are the number of adds, at every copy.
 */
#include "base/rng.h"
#include "small_run.h"
#include "space/space.h"
#include "space/space_state.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

enum { WORKERS = 3, SERVERS = 4, FLOATS = 40 };

/* The state that all actors of a run share. */
typedef struct job {
    int64_t shards;        /* owners of a copy */
    int64_t rounds;        /* adds of each worker */
    bool restarts;         /* owners start anew by themselves, in turn */
    bool sums;             /* the function at the owners has state: it adds every second update */
    _Atomic int64_t anew;  /* owners that did */
    _Atomic int64_t wrong; /* values that are not the number of adds */
    _Atomic int64_t ended; /* workers that came to their end */
} job;

/* The function's state: x of updates that wait for the next. */
typedef struct waiting {
    int64_t count;     /* 0 or 1 */
    float sum[FLOATS]; /* of the update that waits */
} waiting;

static bool add_pairs(void *ctx, const fast_space_update *u, float *w)
{
    waiting *wait = ctx;

    for (int64_t i = 0; i < u->count; i++)
        wait->sum[i] += u->x[i];
    if (++wait->count == 2) {
        for (int64_t i = 0; i < u->count; i++)
            w[i] += wait->sum[i];
        *wait = (waiting){ .count = 0 };
    }
    return true;
}

static size_t save_waiting(void *ctx, void *out)
{
    if (out)
        memcpy(out, ctx, sizeof(waiting));
    return sizeof(waiting);
}

static fast_err load_waiting(void *ctx, const void *bytes, size_t size)
{
    assert_int_equal(size, sizeof(waiting));
    memcpy(ctx, bytes, size);
    return FAST_OK;
}

static fast_err open_space(fast_actor *actor, const job *j, waiting *wait, fast_space **out)
{
    static const int64_t writers[WORKERS] = { 0, 1, 2 },
                         servers[SERVERS] = { WORKERS, WORKERS + 1, WORKERS + 2, WORKERS + 3 };
    const fast_space_tensor tensor = { "w", FLOATS, NULL };

    return fast_space_open(actor,
                           &(fast_space_options){ .name = "model",
                                                  .tensors = &tensor,
                                                  .tensor_count = 1,
                                                  .owners = servers,
                                                  .owner_count = j->shards,
                                                  .copies = servers + j->shards,
                                                  .copy_count = SERVERS / j->shards - 1,
                                                  .writers = writers,
                                                  .writer_count = WORKERS,
                                                  .apply = j->sums ? add_pairs : NULL,
                                                  .save = j->sums ? save_waiting : NULL,
                                                  .load = j->sums ? load_waiting : NULL,
                                                  .ctx = wait },
                           out);
}

/* Add ones, read within one round, and compare at the end. */
static fast_err work(fast_actor *actor, void *ctx)
{
    job *j = ctx;
    float ones[FLOATS], w[FLOATS];
    fast_space *space = NULL;
    fast_err err = open_space(actor, j, NULL, &space);

    for (int i = 0; i < FLOATS; i++)
        ones[i] = 1;
    for (int64_t r = 0; !err && r < j->rounds; r++) {
        fast_space_read read = { .clock_min = r - 1 };

        err = fast_space_get(space, 0, w, &read, FAST_SOON);
        if (!err)
            err = fast_space_add(space, 0, ones, FAST_SOON);
        if (!err)
            err = fast_space_tick(space, r + 1);
        if (!err) /* own updates are in every value that is read */
            err = fast_space_get(space, 0, w, NULL, FAST_SOON);
        for (int i = 0; !err && !j->sums && i < FLOATS; i++)
            j->wrong += w[i] < (float)(r + 1);
    }
    fast_space_read last = { .clock_min = j->rounds };
    if (!err)
        err = fast_space_get(space, 0, w, &last, FAST_SOON);
    for (int i = 0; !err && i < FLOATS; i++)
        j->wrong += w[i] != (float)(WORKERS * j->rounds);
    j->wrong += !err && last.version != WORKERS * j->rounds;
    j->ended += !err;
    fast_space_close(space);
    return err;
}

/* Serve; on threads start anew once, in turn, when a part of the updates is there. */
static fast_err serve(fast_actor *actor, void *ctx)
{
    job *j = ctx;
    const int64_t turn = fast_actor_index(actor, fast_actor_id(actor));
    fast_space *space = NULL;
    waiting wait = { .count = 0 };
    bool anew = false, counted = false;
    fast_err err = open_space(actor, j, &wait, &space);

    while (!err && j->restarts) {
        fast_space_counters seen;

        err = fast_space_serve(space, fast_now(actor) + 1000000);
        if (err != FAST_ETIMEDOUT)
            break;
        err = FAST_OK;
        fast_space_count(space, &seen);
        if (anew && !counted && space->copies.link->joined) {
            counted = true;
            j->anew++;
        }
        if (anew || j->anew != turn || seen.applied * (SERVERS + 2) < (turn + 1) * j->rounds)
            continue;
        fast__space_abandon(space);
        space = NULL;
        wait = (waiting){ .count = 0 };
        err = open_space(actor, j, &wait, &space);
        if (!err)
            err = fast__space_start_anew(space);
        anew = true;
    }
    if (!err)
        err = fast_space_serve(space, INT64_MAX);
    fast_space_close(space);
    return err;
}

static fast_err run(job *j, const char *const *options)
{
    const fast_role roles[] = { { "worker", WORKERS, work, j }, { "server", SERVERS, serve, j } };

    return fast_actors_run(options, roles, 2, NULL);
}

/* Crash an owner at a time, each for a while, and more than once. */
static void random_plan(uint64_t seed, char *text, size_t size)
{
    fast_rng rng;
    size_t used = (size_t)snprintf(text, size, "faults=");
    int64_t at = 300;

    fast__rng_init(&rng, seed, FAST_PURPOSE_NODE, 0, 0, 0);
    for (int i = 0; i < 6; i++) {
        const int64_t node = WORKERS + (int64_t)fast__rng_below(&rng, SERVERS);
        const int64_t away = 20 + (int64_t)fast__rng_below(&rng, 400);

        used += (size_t)snprintf(text + used, size - used,
                                 "%scrash %lld at %lldus; restart %lld at "
                                 "%lldus",
                                 i > 0 ? "; " : "", (long long)node, (long long)at, (long long)node,
                                 (long long)(at + away));
        at += away + 600 + (int64_t)fast__rng_below(&rng, 500);
    }
}

static void no_update_is_lost_or_doubled(void **state)
{
    char faults[1024];

    (void)state;
    for (uint64_t seed = 0; seed < 24; seed++) {
        job j = { .shards = seed % 3 == 2 ? 2 : 1, .rounds = 30, .sums = seed % 2 == 1 };
        const char *const options[] = { "transport=sim", test_separate_servers(WORKERS, SERVERS),
                                        "timeout=5", faults, NULL };

        random_plan(seed, faults, sizeof faults);
        const fast_err err = run(&j, options);
        if (err || j.wrong || j.ended != WORKERS)
            fail_msg("seed %d, %s: %lld wrong values, %s", (int)seed, faults, (long long)j.wrong,
                     fast_error_detail());
    }
}

/* The same on threads: each owner loses its state once, the first as well as the last. */
static void owners_start_anew_on_threads(void **state)
{
    static const char *const options[] = { "transport=threads", "timeout=20", NULL };

    (void)state;
    for (int i = 0; i < 3; i++) {
        job j = { .shards = i == 2 ? 2 : 1, .rounds = 1000, .restarts = true, .sums = i == 1 };
        const fast_err err = run(&j, options);

        if (err || j.wrong || j.anew == 0)
            fail_msg("%lld wrong values, %lld owners started anew, %s", (long long)j.wrong,
                     (long long)j.anew, err ? fast_error_detail() : "no error");
    }
}

/* A copy that only hangs is left out, and joins again when it is heard. */
static void silent_copies_join_again(void **state)
{
    static const char *const faults[] = { "faults=pause 3 at 500us for 700ms",
                                          "faults=pause 4 at 500us for 700ms",
                                          "faults=pause 6 at 500us for 700ms" };

    (void)state;
    for (int i = 0; i < 3; i++) {
        job j = { .shards = 1, .rounds = 30 };
        const char *const options[] = { "transport=sim", test_separate_servers(WORKERS, SERVERS),
                                        "timeout=5", faults[i], NULL };

        assert_int_equal(run(&j, options), FAST_OK);
        assert_true(j.wrong == 0 && j.ended == WORKERS);
    }
}

/* Without a copy left the model is gone: the workers end, and name a server. */
static void the_last_copy_is_missed(void **state)
{
    job j = { .shards = 2, .rounds = 30 };
    const char *const options[] = { "transport=sim", test_separate_servers(WORKERS, SERVERS),
                                    "timeout=5", "faults=crash 3 at 500us; crash 5 at 600us",
                                    NULL };

    (void)state;
    assert_int_equal(run(&j, options), FAST_EPEER);
    if (!strstr(fast_error_detail(), "server"))
        fail_msg("%s", fast_error_detail());
}

/* Options whose effects copies could not share. */
static fast_err try_options(fast_actor *actor, void *ctx)
{
    static const int64_t servers[] = { 0 }, copies[] = { 1 }, twice[] = { 0 };
    const fast_space_tensor tensor = { "w", FLOATS, NULL };
    const fast_space_options good = { .name = "model",
                                      .tensors = &tensor,
                                      .tensor_count = 1,
                                      .owners = servers,
                                      .owner_count = 1,
                                      .copies = copies,
                                      .copy_count = 1 };
    fast_space_options bad[5] = { good, good, good, good, good };

    (void)ctx;
    bad[0].eager = true;
    bad[1].pieces = true;
    bad[2].announce = 1;
    bad[3].copies = twice;
    bad[4].codec_down = "topk:ratio=0.5";
    for (int i = 0; i < 5; i++) {
        fast_space *space = NULL;

        assert_int_equal(fast_space_open(actor, &bad[i], &space), FAST_EINVAL);
        assert_null(space);
    }
    return FAST_OK;
}

static void options_are_refused(void **state)
{
    static const char *const options[] = { "transport=threads", NULL };
    const fast_role role = { "worker", 2, try_options, NULL };

    (void)state;
    assert_int_equal(fast_actors_run(options, &role, 1, NULL), FAST_OK);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(no_update_is_lost_or_doubled),
        cmocka_unit_test(owners_start_anew_on_threads),
        cmocka_unit_test(silent_copies_join_again),
        cmocka_unit_test(the_last_copy_is_missed),
        cmocka_unit_test(options_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
