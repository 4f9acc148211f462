/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The option micro_batch. Goal: a run in micro-batches learns what the whole one learns; auto takes
 * the sizes that the plan file's times make fastest, within the memory, and measures what the file
 * lacks; batch norm is told or left alone; what makes no sense is refused; memory may run out
 * anywhere. Method: runs of a few steps, and a plan file whose times the test writes.
 */
#include "base/memory.h"
#include "engine/cpu/plan.h"
#include "run/run.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

static char plan_path[] = "/tmp/fast-micro-XXXXXX";

#define JOB                                                                                   \
    "data=digits:train=256,test=16", "evaluate=no", "steps=4", "store=none", "lr=0.05", plan, \
        "batch=64"

/* Open a run of lenet, or of what `more` names. */
static fast_err open_with(const char *more, const char *more2, const char *more3, fast_run **out)
{
    char plan[64];
    const char *const options[] = { JOB, "model=lenet", more, more2, more3, NULL };

    snprintf(plan, sizeof plan, "plan=%s", plan_path);
    return fast_run_open(options, out);
}

/* Train, and return the loss; copies the run's note. */
static double train(const char *more, const char *more2, char note[256])
{
    fast_run *run;

    if (open_with(more, more2, NULL, &run) || fast_run_train(run))
        fail_msg("%s", fast_error_detail());
    const double loss = fast_run_result(run)->loss;
    snprintf(note, 256, "%s", run->text.micro_note);
    fast_run_close(run);
    return loss;
}

/* Sizes that divide the batch and such that do not, alone, with micro-batches of the loader's and
 * with two workers. */
static void learns_the_same(void **state)
{
    static const char *const others[] = { "seed=1", "accumulate=2", "workers=2", "recompute=yes",
                                          "strategy=elastic:period=2" };
    char note[256];

    (void)state;
    for (int i = 0; i < 5; i++) {
        const double whole = train(others[i], NULL, note);

        assert_string_equal(note, "");
        for (int k = 0; k < 3; k++) {
            static const char *const sizes[] = { "micro_batch=32", "micro_batch=25",
                                                 "micro_batch=64" };
            const double cut = train(others[i], sizes[k], note);

            assert_true(fabs(cut - whole) < 2e-5 * whole);
            assert_string_equal(note, "");
        }
    }
}

/* Replace the times of the plan's lines about micro-batches: seconds[i] of the i-th size. */
static void write_times(const double *seconds, const int64_t *bytes)
{
    FILE *file = fopen(plan_path, "r");
    fast_conv_plan *plan;
    char line[2048];
    int found = 0;

    assert_non_null(file);
    assert_int_equal(fast__plan_open(plan_path, &plan), FAST_OK);
    while (fgets(line, sizeof line, file)) {
        char *tab = strchr(line, '\t'), text[64];

        if (!tab || strncmp(line + 17, "micro 1 ", 8) != 0)
            continue;
        *tab = '\0';
        snprintf(text, sizeof text, "%.9f s %lld bytes", seconds[found], (long long)bytes[found]);
        assert_int_equal(fast__plan_put(plan, line + 17, text), FAST_OK);
        found++;
    }
    assert_int_equal(found, 4); /* 16, 32, 48 and 64 samples */
    fclose(file);
    fast__plan_close(plan);
}

/* Auto measures once, and then follows the plan file. */
static void auto_takes_the_fastest(void **state)
{
    static const double fast32[] = { 4e-3, 5e-3, 9e-3, 12e-3 },
                        mixed[] = { 1e-3, 9e-3, 2e-3, 4e-3 };
    static const double close_by[] = { 4e-3, 5.9e-3, 9e-3, 12e-3 };
    static const int64_t bytes[] = { 1000000, 2000000, 3000000, 4000000 };
    static const int64_t large[] = { 1000000, 2000000, 3000000, 4000000000000 };
    char note[256];

    (void)state;
    const double whole = train("seed=1", NULL, note);
    const double first = train("micro_batch=auto", NULL, note);
    assert_true(strstr(note, "micro-batches") && fabs(first - whole) < 2e-5 * whole);
    write_times(fast32, bytes);
    train("micro_batch=auto", NULL, note);
    assert_string_equal(note, "micro-batches of 2 x 32 samples: 10 ms instead of 12 ms");
    write_times(mixed, bytes);
    train("micro_batch=auto", NULL, note);
    assert_string_equal(note, "micro-batches of 48 + 16 samples: 3 ms instead of 4 ms");
    write_times(close_by, bytes); /* less than a twentieth */
    train("micro_batch=auto", NULL, note);
    assert_string_equal(note, "the batch is computed whole: micro-batches take 11.8 ms instead of "
                              "12 ms");
    write_times(close_by, large); /* the whole batch does not fit */
    train("micro_batch=auto", "memory=1GB", note);
    assert_string_equal(note, "micro-batches of 2 x 32 samples: 11.8 ms");
}

/* Auto leaves batch norm its batch; a size that was asked for is told. */
static void batch_norm_is_told(void **state)
{
    char note[256];

    (void)state;
    train("model=resnet8", "micro_batch=auto", note);
    assert_string_equal(note, "the batch is computed whole: batch norm needs all of it");
    train("model=resnet8", "micro_batch=32", note);
    assert_string_equal(note, "batch norm sees the 32 samples of a micro-batch at a time, instead "
                              "of 64");
}

static void refusals(void **state)
{
    static const char *const cases[][3] = {
        { "micro_batch=0", NULL, "micro_batch=0 is not between 1 and the batch, 64" },
        { "micro_batch=65", NULL, "micro_batch=65 is not between 1 and the batch, 64" },
        { "micro_batch=many", NULL, "micro_batch" },
        { "micro_batch=32", "mesh=pipe=2", "micro_batch does not allow" },
        { "strategy=zero:stage=3", "micro_batch=32", "stage 3 gathers parameters once" },
    };

    (void)state;
    for (int i = 0; i < 5; i++) {
        fast_run *run = NULL;

        assert_int_equal(open_with(cases[i][0], cases[i][1], i == 4 ? "workers=2" : NULL, &run),
                         FAST_EINVAL);
        if (!strstr(fast_error_detail(), cases[i][2]))
            fail_msg("%s", fast_error_detail());
    }
}

/* Memory runs out once in the choice of sizes and in compiling them. */
static void without_memory(void **state)
{
    fast_err err = FAST_ENOMEM;

    (void)state;
    for (int64_t n = 400; err == FAST_ENOMEM && n < 100000; n += 37) {
        fast_run *run = NULL;

        fast__alloc_fail_after(n, true);
        err = open_with("model=mlp:hidden=16", "micro_batch=auto", "engine=ref", &run);
        fast__alloc_fail_after(-1, true);
        if (err != FAST_ENOMEM && err != FAST_OK)
            fail_msg("allocation %lld: %d, %s", (long long)n, (int)err, fast_error_detail());
        if (!err)
            fast_run_close(run);
    }
    assert_int_equal(err, FAST_OK);
}

static int make_plan(void **state)
{
    const int fd = mkstemp(plan_path);

    (void)state;
    close(fd);
    return fd < 0;
}

static int remove_plan(void **state)
{
    char lock[64];

    (void)state;
    snprintf(lock, sizeof lock, "%s.lock", plan_path);
    unlink(lock);
    return unlink(plan_path);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(learns_the_same),
                                        cmocka_unit_test(auto_takes_the_fastest),
                                        cmocka_unit_test(batch_norm_is_told),
                                        cmocka_unit_test(refusals),
                                        cmocka_unit_test(without_memory) };

    return cmocka_run_group_tests(tests, make_plan, remove_plan);
}
