/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Goal: a simulated run is a pure function of its program, cluster and seed. Method: a program that
 * uses everything that draws numbers or computes times: jitter of nodes and links, loss,
 * duplicates, reordering, contention, works with reports, unreliable messages, any-source
 * receives, polls. Each of 20 seeds runs twice and gives the same trace hash, which is also
 * written here, so that every compiler, level of optimisation and sanitizer is held to the same
 * numbers. A change that is meant to change them replaces the table: the test prints it.
 */
#include "fast/comm.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { SEEDS = 20, ACTORS = 12, STEPS = 12, DATA = 1, GOSSIP = 2, DONE = 3 };

static const struct {
    const char *cluster;
    uint64_t hash[SEEDS / 4];
} golden[] = {
    { "edge:retry=20ms",
      {
          0x077c73227c545d11,
          0x835798932f4d40c9,
          0x8034264a840b7be1,
          0x2850385f46b140f0,
          0xcd3788482176b73d,
      } },
    { "hetero:nodes=5,jitter=0.3,reorder=5%",
      {
          0x1b5dff6f2df002e5,
          0x7d8e0c75c004da6f,
          0x552fdeb57d24f818,
          0xf73a64f486bc0922,
          0xe33f6bbeac53b9ff,
      } },
    { "wan:loss=5%,duplicate=5%",
      {
          0xb8d3e1845f8457bc,
          0xf6a1aafdb9111227,
          0xc692ffda92be96fc,
          0x259b7f2a48912141,
          0x8748cb486b7ae6e9,
      } },
    { "laptop:cores=3,speed_jitter=0.2",
      {
          0x4856b107a088eb60,
          0x3b4ed7b7a1478c87,
          0x15ebce30d134723f,
          0x11a33e154098226f,
          0x51bfd6ea59f1f433,
      } },
};

static fast_err step_run(fast_work *work)
{
    for (int i = 1; i <= 4; i++)
        fast_work_report(work, work->operations * i / 4, i, 1);
    return FAST_OK;
}

static void step_report(void *ctx, int64_t offset, int64_t count)
{
    *(int64_t *)ctx += offset * count;
}

static fast_err put(fast_actor *actor, int64_t to, uint64_t tag, size_t size, bool unreliable)
{
    fast_msg *msg = NULL;
    const fast_err err = fast_msg_new(actor, tag, &msg);
    if (err)
        return err;
    msg->declared = size;
    msg->unreliable = unreliable;
    return fast_send(actor, to, &msg);
}

/* Compute, send to two neighbours and, perhaps in vain, to anyone; receive from both. */
static fast_err program(fast_actor *actor, void *ctx)
{
    const int64_t id = fast_actor_id(actor);
    const int64_t count = fast_actor_count(actor);
    int64_t reported = 0;
    fast_msg *msg = NULL;
    fast_err err = FAST_OK;

    (void)ctx;
    for (int64_t step = 0; step < STEPS && !err; step++) {
        const uint64_t random = fast_random(actor);
        fast_work work = { .run = step_run, .report = step_report, .ctx = &reported };
        work.operations = (double)(random % 10000000);
        err = fast_compute(actor, &work);
        for (int64_t hop = 1; hop <= 2 && !err; hop++)
            err = put(actor, (id + hop) % count, DATA, random >> 40 & 0xfffff, false);
        if (!err)
            err = put(actor, (int64_t)(random >> 8) % count, GOSSIP, random & 0xfff, true);
        for (int64_t hop = 1; hop <= 2 && !err; hop++) {
            err = fast_receive(actor, (id + count - hop) % count, DATA, FAST_SOON, &msg);
            if (!err)
                fast_msg_free(msg);
        }
        while (!err && !fast_receive(actor, FAST_ANY, GOSSIP, FAST_AT_ONCE, &msg))
            fast_msg_free(msg);
    }
    /* Nobody leaves before all are done: a message to who has left is an error. */
    if (id > 0 && !err)
        err = put(actor, 0, DONE, 0, false);
    for (int64_t i = 1; i < (id ? 2 : count) && !err; i++) {
        err = fast_receive(actor, id ? 0 : FAST_ANY, DONE, FAST_SOON, &msg);
        if (!err)
            fast_msg_free(msg);
    }
    for (int64_t to = 1; to < count && id == 0 && !err; to++)
        err = put(actor, to, DONE, 0, false);
    return err;
}

static uint64_t run(const char *cluster, int seed)
{
    char cluster_text[128], seed_text[32];
    snprintf(cluster_text, sizeof cluster_text, "cluster=%s", cluster);
    snprintf(seed_text, sizeof seed_text, "seed=%d", seed);
    const char *options[] = { "transport=sim", cluster_text, seed_text, "timeout=10000", NULL };
    const fast_role role = { "worker", ACTORS, program, NULL };
    fast_actors_result result;
    if (fast_actors_run(options, &role, 1, &result))
        fail_msg("%s, seed %d: %s", cluster, seed, fast_error_detail());
    assert_true(result.events > ACTORS * STEPS * 2);
    return result.trace_hash;
}

static void test_twice_the_same(void **state)
{
    (void)state;
    bool same = true;
    for (int c = 0; c < 4; c++)
        for (int i = 0; i < SEEDS / 4; i++) {
            const int seed = 1 + c * (SEEDS / 4) + i;
            const uint64_t hash = run(golden[c].cluster, seed);
            assert_true(run(golden[c].cluster, seed) == hash);
            same = same && hash == golden[c].hash[i];
        }
    for (int c = 0; c < 4 && !same; c++) {
        fprintf(stderr, "    { \"%s\",\n      { ", golden[c].cluster);
        for (int i = 0; i < SEEDS / 4; i++)
            fprintf(stderr, "0x%016llx, ",
                    (unsigned long long)run(golden[c].cluster, 1 + c * (SEEDS / 4) + i));
        fprintf(stderr, "} },\n");
    }
    assert_true(same);
}

/* FAST_SEEDS=1000 runs 1000 more seeds and prints one number for all, to compare builds. */
static void test_many_seeds(void **state)
{
    (void)state;
    const char *text = getenv("FAST_SEEDS");
    const int count = text ? (int)strtol(text, NULL, 10) : 20;
    uint64_t all = 0;
    for (int seed = 100; seed < 100 + count; seed++) {
        const char *cluster = golden[seed % 4].cluster;
        const uint64_t hash = run(cluster, seed);
        if (run(cluster, seed) != hash)
            fail_msg("%s, seed %d: another hash the second time", cluster, seed);
        all = (all ^ hash) * UINT64_C(0x9E3779B97F4A7C15);
    }
    print_message("hash of %d seeds: %016llx\n", count, (unsigned long long)all);
}

static void test_seeds_differ(void **state)
{
    (void)state;
    assert_true(run("edge", 1) != run("edge", 2));
    assert_true(run("edge", 1) != run("wan", 1));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_twice_the_same),
        cmocka_unit_test(test_many_seeds),
        cmocka_unit_test(test_seeds_differ),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
