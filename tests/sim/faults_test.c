/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Goal: nothing hangs, and errors name the right one. Method: the programs of `fast simulate` on
 * random clusters under random schedules of faults; the promises of simulate_check.c hold in
 * each, and in schedules of a single fault the culprit that every worker names is compared with
 * the truth:
 *
 *     crash, pause, slow, jump, join   the node itself, also if it is restarted
 *     cut, lossy                       one of the two ends of the link
 *     partition                        one of the nodes that it names
 *     lie                              nobody: sums are wrong, but no wait fails
 *
 * At least 99% must be right, by kind. A failing seed prints the command that repeats it, with the
 * schedule shrunk.
 *
 *     faults_test [COUNT [SEED]]     more schedules, from another seed on
 */
#include "base/hash.h"
#include "base/memory.h"
#include "lab/simulate.h"

#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#ifdef FAST_SLOW
enum { COUNT = 60 };
#else
enum { COUNT = 500 };
#endif

static int64_t schedule_count = COUNT;
static int64_t schedule_seed = 1;

enum { RIGHT_PERCENT = 99 };

static int64_t below(fast_rng *rng, int64_t bound)
{
    return (int64_t)fast__rng_below(rng, (uint64_t)bound);
}

/* A program on a cluster, drawn from the seed: rounds are a millisecond or so, waits up to 30 of
 * them. */
static fast_simulate_config draw_config(int64_t seed, fast_rng *rng)
{
    static const char *const clusters[] = { "ethernet-10g", "ethernet-1g", "infiniband", "wan",
                                            "hetero" };
    static const char *const algorithms[] = { "tree", "butterfly", "ring", "rabenseifner", "auto" };
    static const int64_t sizes[] = { 0, 64, 4096, 40000 };
    fast_simulate_config config = { 0 };
    fast__options_default(fast__simulate_options, &config);
    fast__rng_init(rng, (uint64_t)seed, FAST_PURPOSE_TEST, 0, 0, 0);
    config.program = (int)(seed % (FAST_SIMULATE_GOSSIP + 1));
    config.workers = 2 + below(rng, 7);
    config.rounds = 5 + below(rng, 20);
    config.size = sizes[below(rng, 4)];
    config.work = 1e7;
    config.timeout = (double)(3 + 3 * below(rng, 40)) / 100;
    config.seed = seed;
    config.check = below(rng, 2) == 1;
    /* Rounds across continents take longer. */
    const int64_t cluster = below(rng, 5);
    if (cluster == 3)
        config.timeout *= 100;
    snprintf(config.cluster, sizeof config.cluster, "%s", clusters[cluster]);
    snprintf(config.algorithm, sizeof config.algorithm, "%s", algorithms[below(rng, 5)]);
    return config;
}

/* Say how to repeat a simulation, with the faults that matter alone. */
static void say_repeat(const fast_simulate_outcome *o, const char *why)
{
    char command[8192];
    char *text = NULL;
    int64_t tries = 0;
    fast__simulate_command(o, o->faults_text, command, sizeof command);
    print_error("seed %" PRId64 ": %s\n  %s\n", o->seed, why, command);
    if (o->broken[0] && o->faults && fast__simulate_shrink(o, &text, &tries) == FAST_OK) {
        fast__simulate_command(o, text, command, sizeof command);
        print_error("shrunk: %s\n", command);
    }
    fast__free(text);
}

static void test_random(void **state)
{
    (void)state;
    int64_t failed = 0, broken = 0, crashed = 0;
    for (int64_t i = 0; i < schedule_count; i++) {
        const int64_t seed = schedule_seed + i;
        fast_rng rng;
        fast_simulate_config config = draw_config(seed, &rng);
        fast_simulate_outcome o;
        char faults[4096];
        snprintf(config.faults, sizeof config.faults, "random:count=%d", 1 + (int)below(&rng, 6));
        assert_int_equal(fast__simulate_faults(&config, faults, sizeof faults), FAST_OK);
        const fast_err err = fast__simulate_once(&config, faults, seed, &o);
        if (err)
            fail_msg("seed %" PRId64 ": %s", seed, fast_error_detail());
        if (o.broken[0])
            say_repeat(&o, o.broken);
        broken += o.broken[0] != 0;
        failed += o.failed_count > 0;
        crashed += o.crashed_count > 0;
        fast__simulate_fini(&o);
    }
    print_message("%" PRId64 " random schedules: in %" PRId64 " workers gave up, in %" PRId64
                  " some crashed, %" PRId64 " broke a promise\n",
                  schedule_count, failed, crashed, broken);
    assert_int_equal(broken, 0);
    assert_true(failed > schedule_count / 20);
    assert_true(failed < schedule_count);
}

/* The same seed gives the same simulation, with faults too: twice here, and in every build, by one
 * number for 20 of them. A change that is meant to change it replaces the number, which is printed.
 * Programs without collectives, so that it does not change with those. */
static void test_repeat(void **state)
{
    (void)state;
    enum { SEEDS = 20 };
    static const fast_simulate_program programs[] = { FAST_SIMULATE_PING, FAST_SIMULATE_MASTER,
                                                      FAST_SIMULATE_GOSSIP };
    static const uint64_t golden = UINT64_C(0x0e5d799ff9824aef);
    uint64_t hashes[SEEDS];
    for (int64_t seed = 0; seed < SEEDS; seed++) {
        fast_rng rng;
        fast_simulate_config config = draw_config(seed, &rng);
        uint64_t twice[2];
        config.program = programs[seed % 3];
        snprintf(config.faults, sizeof config.faults, "random:count=4,span=30ms");
        for (int i = 0; i < 2; i++) {
            fast_simulate_outcome o;
            assert_int_equal(fast__simulate_once(&config, NULL, seed, &o), FAST_OK);
            twice[i] = o.result.trace_hash;
            fast__simulate_fini(&o);
        }
        assert_true(twice[0] == twice[1]);
        hashes[seed] = twice[0];
    }
    const uint64_t all = fast__hash(hashes, sizeof hashes, 0);
    if (all != golden)
        print_error("the hash of %d seeds is 0x%016" PRIx64 "\n", SEEDS, all);
    assert_true(all == golden);
}

static void time_text(int64_t time, char text[FAST_TIME_TEXT])
{
    fast__time_text(time > 0 ? time : 1, text);
}

/* One fault that lasts longer than the timeout, or makes a round do so. */
static void draw_fault(fast_fault_kind kind, const fast_simulate_config *config, int64_t span,
                       fast_rng *rng, char *text, size_t size)
{
    const int64_t timeout = (int64_t)(config->timeout * 1e9);
    const long long n = config->workers;
    const long long node = below(rng, n);
    const long long other = (node + 1 + below(rng, n - 1)) % n;
    const char *way = below(rng, 3) == 0 ? ">" : "-";
    char at[FAST_TIME_TEXT], length[FAST_TIME_TEXT], later[FAST_TIME_TEXT];
    const int64_t begin = 1 + span / 1000 * below(rng, 900);
    time_text(begin, at);
    time_text(timeout / 10 * (12 + below(rng, 50)), length);
    time_text(timeout / 10 * (12 + below(rng, 20)), later);
    switch (kind) {
    case FAST_FAULT_CRASH:
        snprintf(text, size, "crash %lld at %s", node, at);
        break;
    case FAST_FAULT_RESTART:
        fast__time_text(begin + (timeout / 10 * (1 + below(rng, 30))), later);
        snprintf(text, size, "crash %lld at %s; restart %lld at %s", node, at, node, later);
        break;
    case FAST_FAULT_PAUSE:
        snprintf(text, size, "pause %lld at %s for %s", node, at, length);
        break;
    case FAST_FAULT_SLOW:
        snprintf(text, size, "slow %lld at %s by %lld", node, at,
                 (long long)(timeout / 1000000 * (2 + below(rng, 7))));
        break;
    case FAST_FAULT_CUT:
        snprintf(text, size, "cut %lld%s%lld at %s for %s", node, way, other, at, length);
        break;
    case FAST_FAULT_PARTITION:
        snprintf(text, size, "partition %lld%s%lld at %s for %s", node, *way == '-' ? "|" : ">",
                 other, at, length);
        break;
    case FAST_FAULT_LOSSY:
        snprintf(text, size, "lossy %lld%s%lld at %s loss 0.%lld", node, way, other, at,
                 3 + (long long)below(rng, 6));
        break;
    case FAST_FAULT_JUMP:
        snprintf(text, size, "jump %lld at %s by %s%s", node, at, below(rng, 2) ? "-" : "", length);
        break;
    case FAST_FAULT_JOIN:
        snprintf(text, size, "join %lld at %s", node, later);
        break;
    default:
        snprintf(text, size, "lie %lld at %s how %s", node, at,
                 fast__lie_name((fast_lie)below(rng, 4)));
        break;
    }
}

static bool is_right(const fast_faults *faults, int64_t culprit)
{
    const fast_fault *fault = &faults->list[0];
    if (fault->kind == FAST_FAULT_LIE)
        return false;
    if (fault->kind == FAST_FAULT_PARTITION) {
        for (int64_t i = 0; i < fault->side_count; i++)
            if (faults->sides[i].node == culprit)
                return true;
        return false;
    }
    return culprit >= 0 && (culprit == fault->node || culprit == fault->other);
}

/* Outcomes of single faults of one kind. */
typedef struct tally {
    int64_t runs;   /* simulations */
    int64_t failed; /* in which somebody gave up */
    int64_t blamed; /* workers that blame somebody */
    int64_t right;  /* workers that blame the faulty one */
} tally;

/* The duration without faults. Doubles a timeout that is too short for it. */
static int64_t span_of(fast_simulate_config *config)
{
    fast_simulate_outcome o;
    int64_t failed = 1;
    int64_t span = 0;
    for (int i = 0; i < 10 && failed; i++) {
        assert_int_equal(fast__simulate_once(config, "", config->seed, &o), FAST_OK);
        failed = o.failed_count;
        span = o.result.time_ns;
        config->timeout *= failed ? 2 : 1;
        fast__simulate_fini(&o);
    }
    assert_int_equal(failed, 0);
    return span;
}

static void run_single(fast_fault_kind kind, int64_t seed, int64_t turn, tally *t)
{
    fast_rng rng;
    fast_simulate_config config = draw_config(seed, &rng);
    fast_simulate_outcome o;
    char faults[256];
    /* gossip gets over everything: it is not asked here. */
    config.program = (int)(turn % FAST_SIMULATE_GOSSIP);
    /* A liar also lies about the speeds by which `auto` chooses: workers choose differently. */
    if (kind == FAST_FAULT_LIE && strcmp(config.algorithm, "auto") == 0)
        snprintf(config.algorithm, sizeof config.algorithm, "tree");
    const int64_t span = span_of(&config);
    draw_fault(kind, &config, span, &rng, faults, sizeof faults);
    const fast_err err = fast__simulate_once(&config, faults, seed, &o);
    if (err)
        fail_msg("seed %" PRId64 ", %s: %s", seed, faults, fast_error_detail());
    if (o.broken[0])
        say_repeat(&o, o.broken);
    assert_string_equal(o.broken, "");
    t->runs++;
    t->failed += o.failed_count > 0;
    for (int64_t i = 0; i < config.workers; i++) {
        const fast_simulate_actor *a = &o.actors[i];
        if (a->err != FAST_ETIMEDOUT && a->err != FAST_EPEER)
            continue;
        const bool right = is_right(o.faults, a->culprit);
        t->blamed++;
        t->right += right;
        if (!right && getenv("FAST_VERBOSE"))
            say_repeat(&o, a->detail);
    }
    fast__simulate_fini(&o);
}

static void test_single(void **state)
{
    (void)state;
    static const fast_fault_kind kinds[] = {
        FAST_FAULT_CRASH,     FAST_FAULT_RESTART, FAST_FAULT_PAUSE, FAST_FAULT_SLOW, FAST_FAULT_CUT,
        FAST_FAULT_PARTITION, FAST_FAULT_LOSSY,   FAST_FAULT_JUMP,  FAST_FAULT_JOIN, FAST_FAULT_LIE
    };
    enum { KINDS = sizeof kinds / sizeof kinds[0] };
    tally tallies[KINDS] = { { 0 } };
    const int64_t each = schedule_count / KINDS;
    bool good = true;
    for (int k = 0; k < KINDS; k++) {
        for (int64_t i = 0; i < each; i++)
            run_single(kinds[k], schedule_seed + i * KINDS + k, i, &tallies[k]);
        const tally *t = &tallies[k];
        print_message("single %-9s %6" PRId64 " schedules, in %6" PRId64
                      " workers gave up; %6" PRId64 " of %6" PRId64
                      " blame the right one (%.2f%%)\n",
                      fast__fault_kind_name(kinds[k]), t->runs, t->failed, t->right, t->blamed,
                      t->blamed ? 100.0 * (double)t->right / (double)t->blamed : 100.0);
        /* A clock that jumps is nobody's silence: the deadlines move with it. */
        good = good && (kinds[k] != FAST_FAULT_JUMP || t->failed == 0);
        good = good && t->right * 100 >= t->blamed * RIGHT_PERCENT;
    }
    assert_true(good);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_repeat),
        cmocka_unit_test(test_random),
        cmocka_unit_test(test_single),
    };
    if (argc > 1)
        schedule_count = strtoll(argv[1], NULL, 10);
    if (argc > 2)
        schedule_seed = strtoll(argv[2], NULL, 10);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
