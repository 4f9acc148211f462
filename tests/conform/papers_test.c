/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Presets do what their papers say. Goal: the property that a paper is known for holds for the
 * options of its preset. Method: the options are read from the table of systems, and the part that
 * they name is measured; a limit case equals a simpler system to the bit.
 */
#include "fast/comm.h"
#include "fast/run.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

enum { TEXT_SIZE = 256, RANKS_MAX = 40 };

/* Copy the value of one option of a preset; fail if the preset does not set it. */
static void preset_value(const char *system, const char *option, char value[TEXT_SIZE])
{
    const size_t length = strlen(option);
    int64_t count = 0;
    const fast_system *systems = fast_system_list(&count);

    for (int64_t i = 0; i < count; i++) {
        if (strcmp(systems[i].name, system) != 0)
            continue;
        for (const char *at = systems[i].flags; *at; at += strcspn(at, " "), at += *at == ' ')
            if (strncmp(at, option, length) == 0 && at[length] == '=') {
                snprintf(value, TEXT_SIZE, "%.*s", (int)(strcspn(at, " ") - length - 1),
                         at + length + 1);
                return;
            }
    }
    fail_msg("%s does not set %s", system, option);
}

/* Spread sets of ranks over the links of one step: a rank receives the sets of its senders. */
static void spread(const fast_topology *topology, int64_t step, uint64_t sets[RANKS_MAX])
{
    const int64_t size = fast_topology_size(topology);
    uint64_t next[RANKS_MAX];

    for (int64_t r = 0; r < size; r++) {
        int64_t ranks[RANKS_MAX];
        double weights[RANKS_MAX], self = 0;
        const int64_t count = fast_topology_in(topology, step, r, ranks, weights, &self);

        assert_true(count <= 1); /* one partner a step */
        next[r] = sets[r];
        for (int64_t i = 0; i < count; i++)
            next[r] |= sets[ranks[i]];
    }
    memcpy(sets, next, sizeof next);
}

/* GossipGraD: any value is at all workers after ceil(log2 P) steps, from the start of each pass;
 * partners differ from pass to pass; samples move around a ring. */
static void gossipgrad_spreads_in_log_steps(void **state)
{
    char spec[TEXT_SIZE], shard[TEXT_SIZE];

    (void)state;
    preset_value("gossipgrad", "topology", spec);
    for (int64_t size = 2; size < RANKS_MAX; size++) {
        fast_topology *topology = NULL;
        uint64_t partners = 0;
        int64_t steps = 0;

        while ((int64_t)1 << steps < size)
            steps++;
        assert_int_equal(fast_topology_new(spec, size, 1, &topology), FAST_OK);
        assert_int_equal(fast_topology_check(topology), FAST_OK);
        for (int64_t pass = 0; pass < 4; pass++) {
            uint64_t sets[RANKS_MAX] = { 0 };

            for (int64_t r = 0; r < size; r++)
                sets[r] = (uint64_t)1 << r;
            for (int64_t t = 0; t < steps; t++) {
                int64_t ranks[RANKS_MAX];
                double weights[RANKS_MAX], self;

                spread(topology, pass * steps + t, sets);
                if (fast_topology_out(topology, pass * steps + t, 0, ranks, weights, &self) == 1)
                    partners |= (uint64_t)1 << ranks[0];
            }
            for (int64_t r = 0; r < size; r++)
                assert_true(sets[r] == ((uint64_t)1 << size) - 1);
        }
        if (size > 8) /* more than one pass has */
            assert_true(__builtin_popcountll(partners) > steps);
        fast_topology_free(topology);
    }
    preset_value("gossipgrad", "shard", shard);
    assert_string_equal(shard, "ring");
}

/* Train a preset for a few steps; fail if it does not. The caller closes *out. */
static void train(const char *system, const char *model, int64_t workers, fast_run **out)
{
    char preset[64], count[32];
    const char *options[] = {
        preset,    count,     "transport=sim", model, "data=digits:train=600,test=50",
        "batch=4", "steps=4", "store=none",    NULL
    };

    snprintf(preset, sizeof preset, "system=%s", system);
    snprintf(count, sizeof count, "workers=%lld", (long long)workers);
    if (fast_run_open(options, out) || fast_run_train(*out))
        fail_msg("%s: %s", system, fast_error_detail());
}

/* SparCML and Kylix merge streams of entries, whatever the cost of other methods is: at four and
 * eight workers an allgather is cheaper for this model. */
static void sparse_sums_are_the_papers(void **state)
{
    static const struct {
        const char *system, *sums[2];
    } cases[] = { { "sparcml", { "double", "split" } },
                  { "kylix", { "butterfly", "butterfly" } },
                  { "top-k", { "gather", "gather" } } };

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        for (int64_t workers = 4; workers <= 8; workers *= 2) {
            fast_run *run = NULL;

            train(cases[i].system, "model=mlp:hidden=512", workers, &run);
            const char *sum = fast_run_result(run)->codec_sum;
            assert_non_null(sum);
            if (strcmp(sum, cases[i].sums[0]) != 0 && strcmp(sum, cases[i].sums[1]) != 0)
                fail_msg("%s sums by %s", cases[i].system, sum);
            fast_run_close(run);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gossipgrad_spreads_in_log_steps),
        cmocka_unit_test(sparse_sums_are_the_papers),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
