/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Goal: bounded staleness is bounded, whatever the machines do. Method: small runs of `ps` on
 * random clusters whose nodes slow down and pause at random, with and without eager servers,
 * queues, several servers and proxies. With slack s a worker that computes round c has read all
 * that the P - 1 others did in c - s rounds, and none of them is past round c + s while it does:
 *
 *     no update is more than (P - 1)(2 s + 1) updates late
 *
 * and, where all synchronise every s + 1 rounds (global), none past the next barrier after c:
 * (P - 1)(s + 1). It is s more where servers are eager: what they sent may lack the worker's own
 * last s updates.
 * Some schedules must come close to the bound, or the test would say nothing: at least one update
 * is later than with slack s - 1 it could be. A schedule that breaks the bound is printed.
 *
 *     staleness_test [COUNT [SEED]]     more schedules, from another seed on
 */
#include "base/rng.h"
#include "small_run.h"

#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#ifdef FAST_SLOW
enum { COUNT = 40 };
#else
enum { COUNT = 400 };
#endif

static int64_t schedule_count = COUNT;
static int64_t schedule_seed = 1;

static int64_t below(fast_rng *rng, int64_t bound)
{
    return (int64_t)fast__rng_below(rng, (uint64_t)bound);
}

/* A schedule, drawn from a seed. */
typedef struct schedule {
    int64_t workers;    /* number of workers */
    int64_t writers;    /* of the model: they, or proxies */
    int64_t slack;      /* in rounds */
    int64_t bound;      /* of the updates that one may be late */
    bool global;        /* all synchronise where the slack ends */
    char strategy[128]; /* with its options */
    char cluster[64];   /* an option, like the others */
    char faults[96];
    char seed[32];
} schedule;

static schedule draw(int64_t seed)
{
    static const char *const clusters[] = { "ethernet-10g", "ethernet-1g", "infiniband", "wan",
                                            "hetero" };
    fast_rng rng;
    schedule s = { .workers = 0 };
    int64_t proxies, eager;

    fast__rng_init(&rng, (uint64_t)seed, FAST_PURPOSE_TEST, 0, 0, 0);
    s.workers = 2 + below(&rng, 6);
    s.slack = below(&rng, 4);
    proxies = below(&rng, 4) == 0 ? 1 + below(&rng, s.workers) : 0;
    s.writers = proxies > 0 ? proxies : s.workers;
    eager = below(&rng, 2);
    s.bound = s.slack == 0 ? 0 : (s.writers - 1) * (2 * s.slack + 1) + eager * s.slack;
    snprintf(s.strategy, sizeof s.strategy,
             "ps:slack=%" PRId64 ",servers=%" PRId64 ",proxies=%" PRId64 ",eager=%s,stalest=%s",
             s.slack, below(&rng, 4), proxies, eager ? "yes" : "no", below(&rng, 2) ? "yes" : "no");
    snprintf(s.cluster, sizeof s.cluster, "cluster=%s", clusters[below(&rng, 5)]);
    snprintf(s.faults, sizeof s.faults, "faults=random:count=%" PRId64 ",kinds=slow+pause,span=%s",
             1 + below(&rng, 4), below(&rng, 2) ? "1ms" : "20ms");
    snprintf(s.seed, sizeof s.seed, "seed=%" PRId64, seed);
    if (s.slack > 0 && below(&rng, 3) == 0) {
        strcat(s.strategy, ",global=yes");
        s.bound = (s.writers - 1) * (s.slack + 1) + eager * s.slack;
        s.global = true;
    }
    /* Without a draw, so that the other schedules stay as they are: tasks on each range of keys. */
    if (seed % 3 == 0 && proxies == 0 && !eager)
        strcat(s.strategy, ",tasks=yes,ring=2");
    return s;
}

static void bounded_staleness_is_bounded(void **state)
{
    int64_t close = 0, broken = 0;

    (void)state;
    for (int64_t i = 0; i < schedule_count; i++) {
        const schedule s = draw(schedule_seed + i);
        const char *const more[] = {
            s.cluster, s.faults,   s.seed, "model=mlp:hidden=2", "data=digits:train=64,test=4",
            "batch=1", "steps=10", NULL
        };
        const fast_result r = test_small_run(s.strategy, (int)s.workers, more);
        const int64_t late = r.staleness_max;

        close += s.slack > 0 && !s.global && late > (s.writers - 1) * (2 * s.slack - 1) + s.slack;
        if (late <= s.bound && r.steps == 10)
            continue;
        broken++;
        print_error("%s workers=%" PRId64 " %s %s %s: %" PRId64 " updates late\n", s.strategy,
                    s.workers, s.cluster, s.faults, s.seed, late);
    }
    print_message("%" PRId64 " schedules, %" PRId64 " close to the bound, %" PRId64 " past it\n",
                  schedule_count, close, broken);
    assert_int_equal(broken, 0);
    assert_true(close > 0);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bounded_staleness_is_bounded),
    };

    if (argc > 1)
        schedule_count = strtoll(argv[1], NULL, 10);
    if (argc > 2)
        schedule_seed = strtoll(argv[2], NULL, 10);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
