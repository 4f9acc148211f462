/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The forecast's figures of all strategies. Goal: the cost that worker 0 tells its host is the cost
 * that arose in the same steps: bytes that kernels move through memory are the bytes that the
 * transport was charged for them, and floats of sums are the floats that were summed. Method: the
 * fake host on `sim`, without jitter, which records both; every strategy of the registry with its
 * default options, and members whose options change what they compute.
 */
#include "fake_host.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>

#include <cmocka.h>

enum { STEPS = 8 };

/* Equal up to the rounding of a mean over steps. */
static void assert_same(const char *strategy, int64_t workers, const char *what, double forecast,
                        double charged)
{
    if (fabs(forecast - charged) > 1e-9 * (1 + fabs(charged)))
        fail_msg("%s, %lld workers: the forecast has %g %s, and %g were charged", strategy,
                 (long long)workers, forecast, what, charged);
}

/* Run a strategy and compare. Strategies whose kernels run at servers only forecast 0 and charge
 * worker 0 nothing. */
static void compare(const char *strategy, const char *optimizer, int64_t workers)
{
    const fake_options options = {
        .strategy = strategy, .optimizer = optimizer, .workers = workers, .steps = STEPS
    };
    fake_result r;

    fake_run(&options, &r);
    if (r.err)
        fail_msg("%s, %lld workers: %s", strategy, (long long)workers, r.detail);
    const fake_actor *a = &r.actors[0];
    const double floats = (double)a->steps * FAKE_COUNT;

    assert_true(a->costed);
    assert_same(strategy, workers, "bytes of kernels", a->cost.moved * floats, a->charged_bytes);
    assert_same(strategy, workers, "floats of sums", a->cost.allreduces * floats, a->summed);
    assert_same(strategy, workers, "floats of early sums", a->cost_parts, a->summed_early);
}

static void every_strategy_forecasts_what_it_costs(void **state)
{
    (void)state;
    for (int i = 0; fast__strategies[i]; i++)
        for (int64_t workers = 1; workers <= 3; workers++)
            compare(fast__strategies[i]->name, NULL, workers);
}

static void members_forecast_what_they_cost(void **state)
{
    static const char *const members[] = {
        "allreduce:overlap=yes,bucket=4",
        "allreduce:overlap=yes",
        "allreduce:priority=yes,bucket=8",
        "local:period=2",
        "local:period=4,outer=nesterov",
        "local:period=2,delay=yes",
        "local:period=2,polyak=0,state=average",
        "distill:teach=0.25,fresh=no",
        "elastic:period=1",
        "elastic_sync:period=2,mu=0.9,restart=4",
        "elastic_tree:up=1,down=2",
        "gossip:first=adapt",
        "gossip:sends=gradients",
        "gossip:push=yes,rounds=2,correct=1",
        "gossip_async:overlap=no",
        "gossip_async:how=push,flush=no",
        "gossip_async:how=pull,p=0.5",
        "partial:how=scatter",
        "partial:how=scatter,slack=0,sends=gradients",
        "partial:how=states,window=no",
    };

    (void)state;
    for (size_t i = 0; i < sizeof members / sizeof *members; i++)
        for (int64_t workers = 1; workers <= 3; workers++)
            compare(members[i], NULL, workers);
}

/* State of the rule that is averaged or mixed is exchanged like weights. */
static void state_of_the_rule_is_forecast(void **state)
{
    static const char *const members[] = { "local:period=2,state=average",
                                           "local:period=1,state=reset", "gossip:state=average",
                                           "gossip:first=adapt,state=average,period=2" };

    (void)state;
    for (size_t i = 0; i < sizeof members / sizeof *members; i++)
        for (int64_t workers = 1; workers <= 3; workers++)
            compare(members[i], "momentum", workers);
}

/* The figures by hand: three workers of a ring mix two models a step, 12 bytes for each parameter.
 * */
static void figures_of_a_ring(void **state)
{
    const fake_options options = { .strategy = "gossip", .workers = 3, .steps = STEPS };
    fake_result r;

    (void)state;
    fake_run(&options, &r);
    assert_int_equal(r.err, FAST_OK);
    assert_true(r.actors[0].cost.moved == 2 * 12);
    assert_true(r.actors[0].charged_bytes == 2 * 12 * FAKE_COUNT * STEPS);
    assert_true(r.actors[0].charged_operations == 2 * 3 * FAKE_COUNT * STEPS);
    assert_true(r.actors[0].cost.allreduces == 0 && r.actors[0].summed == 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_strategy_forecasts_what_it_costs),
        cmocka_unit_test(members_forecast_what_they_cost),
        cmocka_unit_test(state_of_the_rule_is_forecast),
        cmocka_unit_test(figures_of_a_ring),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
