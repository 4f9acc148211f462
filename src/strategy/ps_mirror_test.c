/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A model at each data centre. Goal: without a filter and slack the data centres compute the rounds
 * of `ps`; the filter works in both directions, and its last vector makes the models equal; mirror
 * clocks and barriers bound how far they are behind each other. Method: small runs, compared by
 * hashes, losses, bytes and the divergence of the replicas.
 */
#include "small_run.h"
#include "space/space.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

static fast_result train(const char *strategy, const char *one, const char *two)
{
    const char *const list[] = { "schedule=constant", one, two, NULL };

    return test_small_run(strategy, 4, list);
}

/* One data centre is a group, to the bit; n of them add n steps of a round where one step of their
 * mean is taken without mirrors, so that an n-th of the learning rate is the same model. */
static void no_filter_is_a_round(void **state)
{
    const fast_result plain = train("ps:slack=0", "lr=0.1", NULL);
    static const char *const rates[] = { "lr=0.05", "lr=0.025" };

    (void)state;
    assert_true(train("ps:slack=0,proxies=1,mirror=yes", "lr=0.1", NULL).params_hash ==
                plain.params_hash);
    for (int i = 0; i < 2; i++) {
        char text[64];

        snprintf(text, sizeof text, "ps:slack=0,proxies=%d,mirror=yes", 2 << i);
        const fast_result sim = train(text, rates[i], NULL),
                          threads = train(text, rates[i], "transport=threads");

        if (!(fabs(sim.test_loss - plain.test_loss) < 1e-5) || sim.completeness != 1)
            fail_msg("%s: loss %.9g, not %.9g", text, sim.test_loss, plain.test_loss);
        assert_true(fabs(threads.test_loss - plain.test_loss) < 1e-5);
        /* Sums of changes in another order: equal to rounding. */
        assert_true(sim.divergence < 1e-6 && threads.divergence < 1e-6);
    }
}

/* Changes that are not significant are not sent, to nobody, until the last vector. */
static void filters_work_in_both_directions(void **state)
{
    const fast_result all = train("ps:slack=0,proxies=2,mirror=yes", "lr=0.05", NULL),
                      none = train("ps:slack=0,proxies=2,mirror=yes", "lr=0.05",
                                   "codec=significance:threshold=1e6"),
                      some = train("ps:slack=0,proxies=2,mirror=yes", "lr=0.05",
                                   "codec=significance:threshold=0.2");
    /* Between data centres: two vectors a round without a filter, two in all with it. */
    const double vector = 4.0 * 9550;

    (void)state;
    assert_true((double)(all.bytes_sent - none.bytes_sent) > 40 * vector);
    assert_true(some.bytes_sent < all.bytes_sent && some.bytes_sent > none.bytes_sent);
    assert_true(some.divergence < 1e-6 && none.divergence < 1e-6);
    assert_true(none.test_loss != all.test_loss);
    /* A data centre uses its own changes at once, whatever is sent. */
    assert_true(fabs(none.test_loss - all.test_loss) < 0.1);
}

/* With a slack the models are those of all updates at the end; without one they are not. */
static void mirror_clocks_bound_the_lead(void **state)
{
    static const char *const slow = "faults=slow 2 at 0s by 50; slow 3 at 0s by 50";
    const fast_result bound = train("ps:slack=1,proxies=2,mirror=yes", slow, NULL),
                      free = train("ps:proxies=2,mirror=yes", slow, NULL);

    (void)state;
    assert_true(bound.divergence < 1e-6 && bound.completeness == 1);
    assert_true(free.divergence > 1e-3 && free.completeness < 1);
}

/* Over a WAN, without a bound: a data centre that waits for announced changes is less behind. */
static void barriers_hold_reads(void **state)
{
    const fast_result free = train("ps:proxies=2,mirror=yes", "cluster=wan", NULL),
                      held = train("ps:proxies=2,mirror=yes,barrier=1", "cluster=wan", NULL);

    (void)state;
    if (!(held.virtual_time_s > free.virtual_time_s) || held.params_hash == free.params_hash)
        fail_msg("%g s with the barrier, %g s without", held.virtual_time_s, free.virtual_time_s);
    assert_true(train("ps:slack=2,proxies=2,mirror=yes,barrier=100", "cluster=wan",
                      "codec=significance:threshold=0.01")
                    .divergence < 1e-6);
}

/* Two actors: one announces an update and sends it later, one owns the values and reads them. */
static fast_err announce_or_read(fast_actor *actor, void *ctx)
{
    static const int64_t owner = 0, writer = 1;
    const fast_space_tensor tensor = { "w", 1, NULL };
    const float one = 1;
    float *seen = ctx, w = -1;
    fast_space *space = NULL;
    fast_err err = fast_space_open(actor,
                                   &(fast_space_options){ .name = "mirror",
                                                          .tensors = &tensor,
                                                          .tensor_count = 1,
                                                          .owners = &owner,
                                                          .owner_count = 1,
                                                          .writers = &writer,
                                                          .writer_count = 1,
                                                          .announce = 1000000 },
                                   &space);

    if (!err && fast_actor_id(actor) == writer) {
        err = fast__space_announce(space);
        if (!err)
            err = fast_sleep_until(actor, 10000000);
        if (!err)
            err = fast_space_add(space, 0, &one, FAST_SOON);
    } else if (!err) {
        err = fast_sleep_until(actor, 5000000);
        if (!err)
            err = fast_space_get(space, 0, &w, NULL, FAST_SOON);
        *seen = w;
    }
    fast_space_close(space);
    return err;
}

static void owners_wait_for_announced_updates(void **state)
{
    static const char *const options[] = { "transport=sim", "timeout=5", NULL };
    float seen = -1;
    const fast_role role = { "worker", 2, announce_or_read, &seen };

    (void)state;
    assert_int_equal(fast_actors_run(options, &role, 1, NULL), FAST_OK);
    assert_true(seen == 1); /* without the barrier it is 0 */
}

/* A data centre that is lost holds up no other one. */
static void data_centres_outlive_each_other(void **state)
{
    const char *cluster = test_separate_servers(4, 2);
    const fast_result r = train("ps:slack=2,proxies=2,mirror=yes", cluster,
                                "faults=crash 3 at 1500us"),
                      lost = train("ps:slack=2,proxies=2,mirror=yes", cluster,
                                   "faults=crash 2 at 1ms; crash 3 at 1ms; crash 5 at 1ms");

    (void)state;
    assert_true(r.steps >= 18 && lost.steps >= 12);
}

static void misfits_are_refused(void **state)
{
    static const char *const bad[] = { "strategy=ps:mirror=yes",
                                       "strategy=ps:mirror=yes,proxies=2,servers=2",
                                       "strategy=ps:mirror=yes,proxies=2,push=2" };

    (void)state;
    test_refused(bad, sizeof bad / sizeof bad[0], "ps: ");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(no_filter_is_a_round),
        cmocka_unit_test(filters_work_in_both_directions),
        cmocka_unit_test(mirror_clocks_bound_the_lead),
        cmocka_unit_test(barriers_hold_reads),
        cmocka_unit_test(owners_wait_for_announced_updates),
        cmocka_unit_test(data_centres_outlive_each_other),
        cmocka_unit_test(misfits_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
