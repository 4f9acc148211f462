/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Goal: schedules follow their closed forms at every step, with warm-up and the linear scaling
 * rule, and refuse what makes no sense. Method: values written out by hand or by an independent
 * formula; limit cases of zero steps and of a warm-up longer than the run; each allocation fails.
 */
#include "rule/schedule.h"

#include "base/memory.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

static const double pi = 3.14159265358979323846;

static fast_schedule *make(const char *spec, int64_t steps, int64_t epoch_steps)
{
    fast_schedule *schedule = NULL;
    const fast_schedule_options options = {
        .spec = spec, .lr = 0.5, .steps = steps, .epoch_steps = epoch_steps, .global_batch = 1024
    };

    assert_int_equal(fast__schedule_new(&options, &schedule), FAST_OK);
    return schedule;
}

static void check(const char *spec, int64_t steps, int64_t epoch_steps, int64_t step, double expect)
{
    fast_schedule *schedule = make(spec, steps, epoch_steps);
    const double lr = fast__schedule_lr(schedule, step);

    if (!(fabs(lr - expect) < 1e-12))
        fail_msg("%s at step %lld: %.15g, not %.15g", spec ? spec : "nothing", (long long)step, lr,
                 expect);
    fast__schedule_free(schedule);
}

static void test_constant(void **state)
{
    (void)state;
    for (int64_t s = 0; s < 50; s++) {
        check(NULL, 50, 10, s, 0.5);
        check("constant", 50, 10, s, 0.5);
        check("constant:warmup=2", 50, 10, s, s < 20 ? 0.5 * (double)(s + 1) / 20 : 0.5);
        check("constant:warmup=1,warmup_from=0.2", 50, 10, s,
              s < 10 ? 0.5 * (0.2 + 0.8 * (double)(s + 1) / 10) : 0.5);
        /* 1024 samples at a rate chosen for 256: four times the rate, warm-up included. */
        check("constant:scale=256,warmup=1", 50, 10, s, s < 10 ? 0.2 * (double)(s + 1) : 2.0);
    }
}

static void test_step(void **state)
{
    (void)state;
    for (int64_t s = 0; s < 90; s++) {
        check("step:every=2,gamma=0.5", 90, 10, s, 0.5 * pow(0.5, (double)(s / 20)));
        check("step:every=0.5,gamma=0.9", 90, 10, s, 0.5 * pow(0.9, (double)(s / 5)));
        /* 0.3 epochs of 10 steps are 3 steps, though 0.3 * 10 is not exact. */
        check("step:every=0.3,gamma=0.9", 90, 10, s, 0.5 * pow(0.9, (double)(s / 3)));
        /* Falls count from the beginning of the run, not of what follows the warm-up. */
        check("step:every=2,gamma=0.5,warmup=1", 90, 10, s,
              s < 10 ? 0.05 * (double)(s + 1) : 0.5 * pow(0.5, (double)(s / 20)));
    }
}

static void test_polynomial(void **state)
{
    (void)state;
    for (int64_t s = 0; s < 40; s++) {
        const double t = (double)s / 40;

        check("polynomial", 40, 10, s, 0.5 * (1 - t));
        check("polynomial:power=2,floor=0.1", 40, 10, s, 0.05 + 0.45 * (1 - t) * (1 - t));
        if (s >= 10)
            check("polynomial:warmup=1", 40, 10, s, 0.5 * (1 - (double)(s - 10) / 30));
    }
    check("polynomial:floor=0.1", 40, 10, 40, 0.05);
    check("polynomial:floor=0.1", 40, 10, 1000000, 0.05);
}

static void test_cosine(void **state)
{
    (void)state;
    for (int64_t s = 0; s < 40; s++) {
        check("cosine", 40, 10, s, 0.25 * (1 + cos(pi * (double)s / 40)));
        if (s >= 5)
            check("cosine:warmup=0.5,floor=0.01", 40, 10, s,
                  0.5 * (0.01 + 0.99 * 0.5 * (1 + cos(pi * (double)(s - 5) / 35))));
    }
    /* Restarts (Loshchilov and Hutter 2017): every 3 steps; and after 10, 20, 40 steps. */
    for (int64_t s = 0; s < 70; s++) {
        const int64_t begin = s < 10   ? 0
                              : s < 30 ? 10
                                       : 30,
                      length = s < 10   ? 10
                               : s < 30 ? 20
                                        : 40;

        check("cosine:period=0.3", 70, 10, s, 0.25 * (1 + cos(pi * (double)(s % 3) / 3)));
        check("cosine:period=1,grow=2,floor=0.2", 70, 10, s,
              0.1 + 0.2 * (1 + cos(pi * (double)(s - begin) / (double)length)));
        if (s >= 5)
            check("cosine:period=1,warmup=0.5", 70, 10, s,
                  0.25 * (1 + cos(pi * (double)((s - 5) % 10) / 10)));
    }
    check("cosine", 40, 10, 0, 0.5);
    check("cosine", 40, 10, 20, 0.25);
    check("cosine", 40, 10, 40, 0.0);
}

static void test_cyclic(void **state)
{
    (void)state;
    for (int64_t s = 0; s < 100; s++) {
        const int64_t x = s % 20;
        const double height = (double)(x <= 10 ? x : 20 - x) / 10;

        check("cyclic:period=2,floor=0.2", 100, 10, s, 0.1 + 0.4 * height);
        check("cyclic:period=2,floor=0,gamma=0.5", 100, 10, s,
              0.5 * height * pow(0.5, (double)(s / 20)));
        if (s >= 20)
            check("cyclic:period=2,floor=0.2,warmup=2", 100, 10, s, 0.1 + 0.4 * height);
    }
}

/* Runs of no steps, and warm-ups that outlast the run, have a rate too. */
/* Akiba's slow start, and changes between two steps; warm-up comes first. */
static void test_pieces(void **state)
{
    (void)state;
    for (int64_t s = 0; s < 900; s++) {
        check("pieces:at=40/70/85,factors=0.5/0.075/0.01/0.001", 900, 10, s,
              0.5 * (s < 400   ? 0.5
                     : s < 700 ? 0.075
                     : s < 850 ? 0.01
                               : 0.001));
        check("pieces:at=0.25,factors=1/0.1,warmup=0.1", 900, 10, s,
              s < 1   ? 0.5
              : s < 3 ? 0.5
                      : 0.05);
        check("pieces:at=,factors=0.3", 900, 10, s, 0.15);
    }
}

static void test_limits(void **state)
{
    (void)state;
    check("cosine:floor=0.1", 0, 1, 0, 0.05);
    check("polynomial", 1, 1, 0, 0.5);
    check("cosine:warmup=10", 5, 1, 4, 0.25);
    check("cosine:warmup=5,floor=0.5", 5, 1, 5, 0.25);
    check("constant:warmup=1e6", INT64_MAX, INT64_MAX / 2, 0, 0.5 / 1e15);
}

static void test_hostile(void **state)
{
    static const struct {
        const char *spec;
        const char *says;
    } cases[] = {
        { "", "" },
        { "cosin", "cosine" },
        { "cosine:flor=0.1", "floor" },
        { "cosine:floor=2", "floor" },
        { "cosine:grow=0.5", "grow" },
        { "cosine:grow=2", "period" },
        { "cosine:floor=nan", "floor" },
        { "step:every=0", "every" },
        { "step:power=2", "power" },
        { "cyclic:period=-1", "period" },
        { "pieces:at=3/2,factors=1/1/1", "ascend" },
        { "pieces:at=3,factors=1", "factors" },
        { "pieces:at=3/,factors=1/1", "at=3/" },
        { "pieces:at=-3,factors=1/1", "at=-3" },
        { "pieces:at=0x40,factors=1/1", "at=0x40" },
        { "pieces:at=1/2/3/4/5/6/7/8/9/10/11/12/13/14/15/16", "at most" },
        { "pieces:at=1,factors=nan/inf", "factors" },
        { "constant:warmup=inf", "warmup" },
        { "constant:scale=-256", "scale" },
    };
    static const fast_schedule_options bad[] = {
        { .spec = "constant", .lr = -1, .steps = 1, .epoch_steps = 1 },
        { .spec = "constant", .lr = NAN, .steps = 1, .epoch_steps = 1 },
        { .spec = "constant", .lr = INFINITY, .steps = 1, .epoch_steps = 1 },
        { .spec = "constant", .lr = 1, .steps = -1, .epoch_steps = 1 },
        { .spec = "constant", .lr = 1, .steps = 1, .epoch_steps = 0 },
        { .spec = "constant:scale=64", .lr = 1, .steps = 1, .epoch_steps = 1 },
    };
    fast_schedule *schedule = NULL;

    (void)state;
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        const fast_schedule_options options = {
            .spec = cases[k].spec, .lr = 1, .steps = 10, .epoch_steps = 1, .global_batch = 1
        };

        if (fast__schedule_new(&options, &schedule) != FAST_EINVAL)
            fail_msg("\"%s\" was not refused", cases[k].spec);
        if (!strstr(fast_error_detail(), cases[k].says))
            fail_msg("\"%s\": %s", cases[k].spec, fast_error_detail());
    }
    for (size_t k = 0; k < sizeof bad / sizeof *bad; k++)
        assert_int_equal(fast__schedule_new(&bad[k], &schedule), FAST_EINVAL);
    assert_null(schedule);
}

static void test_out_of_memory(void **state)
{
    const fast_schedule_options options = {
        .spec = "cosine", .lr = 1, .steps = 10, .epoch_steps = 1
    };
    fast_schedule *schedule = NULL;
    fast_err err = FAST_ENOMEM;

    (void)state;
    for (int64_t n = 0; err != FAST_OK; n++) {
        assert_true(n < 20);
        fast__alloc_fail_after(n, true);
        err = fast__schedule_new(&options, &schedule);
        fast__alloc_fail_after(-1, true);
        assert_true(err == FAST_OK || err == FAST_ENOMEM);
        assert_int_equal(schedule != NULL, err == FAST_OK);
    }
    fast__schedule_free(schedule);
    fast__schedule_free(NULL);
}

static void test_list(void **state)
{
    int64_t count = 0;
    const fast_part *parts = fast__schedule_list(&count);

    (void)state;
    assert_int_equal(count, 6);
    for (int64_t i = 0; i < count; i++) {
        fast_schedule *schedule = make(parts[i].name, 100, 10);

        for (int64_t s = 0; s < 100; s++) {
            const double lr = fast__schedule_lr(schedule, s);

            assert_true(lr >= 0 && lr <= 0.5);
        }
        fast__schedule_free(schedule);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_constant),      cmocka_unit_test(test_step),
        cmocka_unit_test(test_polynomial),    cmocka_unit_test(test_cosine),
        cmocka_unit_test(test_cyclic),        cmocka_unit_test(test_pieces),
        cmocka_unit_test(test_limits),        cmocka_unit_test(test_hostile),
        cmocka_unit_test(test_out_of_memory), cmocka_unit_test(test_list),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
