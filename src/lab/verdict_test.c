/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Goal: in situations whose answer is known the verdict is right: it recommends the right line, or
 * nothing, and says what it does not know.
 * Method: each situation is a table of runs, filled in by hand; the verdict's words, the order and
 * the places are compared. Budgets are read from texts, hostile ones included.
 */
#include "lab/compare.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#define NEVER INFINITY

/* The runs of a line: seconds until the target, and the rest alike for its three seeds. */
typedef struct line_figures {
    double times[3];   /* NEVER: not reached */
    double end;        /* seconds of a run that did not reach it */
    double accuracy;   /* at the end */
    double samples;    /* in thousands */
    double megabytes;  /* sent */
    double wait;       /* fraction of the workers' time */
    double batch;      /* samples of a step; 0: 16 */
    double off;        /* measured over predicted step; 0: 1 */
    const char *tuned; /* chosen of three trials; NULL: nothing is tuned */
} line_figures;

/* A situation and its answer. */
typedef struct situation {
    const char *name;          /* for messages */
    const char *systems;       /* "system=bsp,ssp" */
    const char *budget;        /* "10s"; NULL: none */
    int64_t seeds;             /* 1 or 3; 0: 3 */
    line_figures lines[4];     /* in the order of the systems */
    const char *spoiled;       /* status of the last seed of the first system; or NULL */
    bool canceled;             /* by the user */
    const char *first;         /* name of the best line */
    int64_t places[4];         /* of the lines, best first */
    const char *says[4];       /* parts of the verdict */
    const char *never_says[2]; /* texts that would be wrong */
} situation;

static void fill_line(fast_compare *c, int64_t line, const line_figures *f)
{
    for (int64_t i = 0; i < c->seed_count; i++) {
        const int64_t at = c->line_count * c->trial_count + line * c->seed_count + i;
        fast_compared_run *run = c->tasks[at].view;
        fast_compare_measures *m = &run->measures;
        const bool reached = isfinite(f->times[i]);

        run->status = reached ? "target" : "done";
        m->time_to_target_s = reached ? f->times[i] : NAN;
        m->time_s = m->virtual_time_s = reached ? f->times[i] : f->end;
        m->test_accuracy = f->accuracy + 0.0001 * (double)i;
        m->samples = 1000 * f->samples;
        m->bytes_sent = 1e6 * f->megabytes;
        m->wait_s = f->wait;
        m->compute_s = 1 - f->wait;
        m->exchange_s = m->codec_s = 0;
        m->batch = f->batch > 0 ? f->batch : 16;
        m->predicted_step_s = 0.01;
        m->step_s = 0.01 * (f->off > 0 ? f->off : 1);
    }
    if (f->tuned)
        c->lines[line].tuned = f->tuned;
}

static const situation situations[] = {
    { .name = "a clear winner",
      .systems = "system=bsp,easgd",
      .lines = { { { 8, 8.5, 9 }, 0, .95, 10, 400, .4 }, { { 4, 4.25, 4.5 }, 0, .95, 11, 100, 0 } },
      .first = "easgd",
      .places = { 1, 2 },
      .says = { "Choose easgd: it reached 95% first, after 4.25 s (4 s to 4.5 s) over 3 seeds",
                "2 times sooner than bsp (8.5 s): it needed 1.1 times the samples, but 0.45 times "
                "the time for each; it sent 0.25 times the bytes; its workers waited 0% of their "
                "time, those of bsp 40%." },
      .never_says = { "told apart", "as far as" } },
    { .name = "a tie, one of which sends far less",
      .systems = "system=bsp,ssp",
      .lines = { { { 4, 5, 6 }, 0, .95, 10, 400, 0 }, { { 4.5, 5.5, 6.5 }, 0, .95, 10, 90, 0 } },
      .first = "bsp",
      .places = { 1, 1 },
      .says = { "ssp cannot be told apart from it here: the spreads over the seeds overlap.",
                "Of these, ssp sends the least, 90 MB instead of 400 MB" },
      .never_says = { "sooner than" } },
    { .name = "more epochs but less time, compared by epochs",
      .systems = "system=bsp,fedavg",
      .lines = { { { 4.7, 4.75, 4.8 }, 0, .95, 10, 400, .4 },
                 { { NEVER, NEVER, NEVER }, 4.19, .93, 18, 20, 0 } },
      .first = "bsp",
      .places = { 1, 0 },
      .says = { "Choose bsp, as far as this comparison goes: ",
                "fedavg has no place: its runs ended after 6 epochs (4.19 s), before bsp was "
                "there, "
                "so it may be sooner; --budget 5.76s gives all lines the same time." },
      .never_says = { "fedavg: not within", "told apart" } },
    { .name = "more epochs but less time, with one budget",
      .systems = "system=bsp,fedavg",
      .budget = "6s",
      .lines = { { { 4.7, 4.75, 4.8 }, 0, .95, 10, 400, .4 },
                 { { 4.3, 4.4, 4.5 }, 0, .95, 25, 30, 0 } },
      .first = "fedavg",
      .places = { 1, 2 },
      .says = { "Choose fedavg: it reached 95% first, after 4.4 s",
                "it needed 2.5 times the samples, but 0.37 times the time for each" },
      .never_says = { "as far as" } },
    { .name = "a target after the budget is not reached",
      .systems = "system=bsp,fedavg",
      .budget = "4.6s",
      .lines = { { { 4.7, 4.75, 4.8 }, 0, .95, 10, 400, .4 },
                 { { 4.3, 4.4, 4.5 }, 0, .95, 25, 30, 0 } },
      .first = "fedavg",
      .places = { 1, 2 },
      .says = { "bsp: not within 4.6 s." },
      .never_says = { "no place" } },
    { .name = "beaten without the target, since it had longer",
      .systems = "system=bsp,downpour",
      .lines = { { { 4.7, 4.75, 4.8 }, 0, .95, 10, 400, .4 },
                 { { NEVER, NEVER, NEVER }, 9, .5, 30, 20, 0 } },
      .first = "bsp",
      .places = { 1, 0 },
      .says = { "Choose bsp: it reached", "downpour: not within 6 epochs (9 s)." },
      .never_says = { "as far as", "never" } },
    { .name = "the edge of the tuning range",
      .systems = "system=bsp,easgd",
      .lines = { { { 8, 8.5, 9 }, 0, .95, 10, 400, .4, .tuned = "lr=0.2" },
                 { { 4, 4.25, 4.5 }, 0, .95, 11, 100, 0, .tuned = "lr=0.4" } },
      .first = "easgd",
      .places = { 1, 2 },
      .says = { "The trials of easgd (lr=0.4) chose the edge of what was tuned" },
      .never_says = { "bsp (lr" } },
    { .name = "a seed of the fastest diverges",
      .systems = "system=easgd,bsp",
      .lines = { { { 2, 2.1, 2.2 }, 0, .95, 10, 100, 0 }, { { 5, 5.1, 5.2 }, 0, .95, 10, 400, 0 } },
      .spoiled = "diverged",
      .first = "easgd",
      .places = { 1, 1 },
      .says = { "bsp cannot be told apart from it here",
                "easgd reached the target with some seeds only.",
                "easgd: 1 of 3 runs have no result (diverged: the loss is not a finite number)." },
      .never_says = { "sooner than" } },
    { .name = "an interrupted comparison",
      .systems = "system=bsp,fedavg",
      .canceled = true,
      .lines = { { { 4.7, 4.75, 4.8 }, 0, .95, 10, 400, .4 }, { { 4, 4, 4 }, 0, .95, 25, 30, 0 } },
      .spoiled = "canceled",
      .first = "fedavg",
      .places = { 0, 0 },
      .says = { "Incomplete: no recommendation. 5 of 6 runs have a result." },
      .never_says = { "Choose", "told apart" } },
    { .name = "nobody reaches the target",
      .systems = "system=bsp,fedavg",
      .lines = { { { NEVER, NEVER, NEVER }, 8, .80, 10, 400, .4 },
                 { { NEVER, NEVER, NEVER }, 4, .85, 10, 30, 0 } },
      .first = "fedavg",
      .places = { 1, 2 },
      .says = { "None reached 95% with most seeds. Choose fedavg: it ended with the best accuracy",
                "The lines took 4 s to 8 s: --budget gives all the same time." },
      .never_says = { "reached 95% first" } },
    { .name = "one seed",
      .systems = "system=bsp,ssp",
      .seeds = 1,
      .lines = { { { 4 }, 0, .95, 10, 400, 0 }, { { 5 }, 0, .95, 10, 400, 0 } },
      .first = "bsp",
      .places = { 1, 2 },
      .says = { "One seed shows no spread: --seeds 3 finds ties." } },
    { .name = "unequal batches, and a cost model that is off",
      .systems = "system=bsp,fedavg",
      .lines = { { { 8, 8.5, 9 }, 0, .95, 10, 400, .4, .batch = 64 },
                 { { 4, 4.25, 4.5 }, 0, .95, 11, 100, 0, .batch = 4, .off = 2 } },
      .first = "fedavg",
      .places = { 1, 2 },
      .says = { "The batches differ: fedavg takes 4 samples a worker and step, bsp 64",
                "off by more than 25% for fedavg (a step: predicted 10 ms, measured 20 ms)" } },
    { .name = "fewest bytes, though the slowest",
      .systems = "system=bsp,fedavg",
      .budget = "500MB",
      .lines = { { { 4, 4.1, 4.2 }, 0, .95, 10, 400, .4 }, { { 8, 8, 8 }, 0, .95, 25, 20, 0 } },
      .first = "fedavg",
      .places = { 1, 2 },
      .says = { "Choose fedavg: it reached 95% with the fewest bytes, after 20 MB over 3 seeds",
                "That is 0.05 times as much as bsp (400 MB), in 1.95 times the time" },
      .never_says = { "first, after" } },
};

static void check(const situation *s)
{
    const char *const options[] = { s->systems, "target=0.95", NULL };
    const bool tuned = s->lines[0].tuned != NULL;
    const char *const tune[] = { tuned ? "lr=0.1,0.2,0.4" : "no", NULL };
    fast_compare *c = NULL;
    int64_t count = 0;

    assert_int_equal(fast_compare_open(&(fast_compare_config){ .options = options,
                                                               .tune = tune,
                                                               .seeds = s->seeds,
                                                               .budget = s->budget },
                                       &c),
                     FAST_OK);
    for (int64_t i = 0; i < c->line_count; i++)
        fill_line(c, i, &s->lines[i]);
    if (s->spoiled) {
        fast_compared_run *run = c->tasks[c->line_count * c->trial_count + c->seed_count - 1].view;

        run->status = s->spoiled;
        if (strcmp(s->spoiled, "diverged") == 0)
            run->error = "diverged: the loss is not a finite number";
    }
    if (s->canceled)
        fast_compare_cancel(c);
    assert_int_equal(fast__compare_rank(c), FAST_OK);
    const fast_compared *lines = fast_compare_lines(c, &count);
    const char *verdict = fast_compare_verdict(c);
    for (int i = 0; i < 4; i++) {
        if (s->says[i] && !strstr(verdict, s->says[i]))
            fail_msg("%s: \"%s\" is missing in: %s", s->name, s->says[i], verdict);
        if (i < 2 && s->never_says[i] && strstr(verdict, s->never_says[i]))
            fail_msg("%s: \"%s\" is wrong in: %s", s->name, s->never_says[i], verdict);
    }
    assert_string_equal(lines[0].name, s->first);
    for (int64_t i = 0; i < count; i++)
        if (lines[i].place != s->places[i])
            fail_msg("%s: place %lld of %s", s->name, (long long)lines[i].place, lines[i].name);
    fast_compare_close(c);
}

static void all_situations(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof situations / sizeof *situations; i++)
        check(&situations[i]);
}

static void budgets(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        fast_compare_by by;
        double amount;
    } good[] = { { "", FAST_BY_TIME, 0 },           { "10s", FAST_BY_TIME, 10 },
                 { "1.5e2ms", FAST_BY_TIME, 0.15 }, { "2min", FAST_BY_TIME, 120 },
                 { "1h", FAST_BY_TIME, 3600 },      { "5MB", FAST_BY_BYTES, 5e6 },
                 { "2GiB", FAST_BY_BYTES, 0x1p31 }, { "100000samples", FAST_BY_SAMPLES, 1e5 } };
    static const char *const bad[] = { "10",    "s",       "10 s", "-3s",       "0s",   "nans",
                                       "infs",  "1e999s",  "10ss", "samples",   "5mb",  "1e308GB",
                                       "10s,5", "++--1MB", "1.",   "1e5sample", "%n%ns" };
    fast_budget b;

    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        assert_int_equal(fast__budget_read(good[i].text, &b), FAST_OK);
        assert_int_equal(b.by, good[i].by);
        assert_true(fabs(b.amount - good[i].amount) <= 1e-12 * good[i].amount);
    }
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        assert_int_equal(fast__budget_read(bad[i], &b), FAST_EINVAL);
    const char *const epochs[] = { "system=bsp,ssp", "epochs=3", NULL };
    fast_compare *c = NULL;
    assert_int_equal(
        fast_compare_open(&(fast_compare_config){ .options = epochs, .budget = "3s" }, &c),
        FAST_EINVAL);
    assert_non_null(strstr(fast_error_detail(), "leave out epochs"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_situations),
        cmocka_unit_test(budgets),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
