/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Goal: every line gets the same trials and the same seeds, the best trial is what runs, a run that
 * fails is a line with its reason, a cancel ends the processes, curves are bounded, and the report
 * shows hostile names as text.
 * Method: a shell script stands in for the program: it writes down how it was called and prints
 * what `fast train --json` would. Nothing trains.
 */
#include "base/clock.h"
#include "lab/compare.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

static char folder[64];
static char program[128];
static char calls[128];

/* Rates 0.1, 0.2 and 0.4 reach the target after 3, 1 and 2 s; ssp with 0.4 fails; downpour always
 * does; gossip diverges; easgd never ends. */
static const char script[] =
    "#!/bin/sh\n"
    "echo \"$*\" >> \"$(dirname \"$0\")/calls\"\n"
    "case \"$*\" in *downpour*) echo 'fast: no such thing <b>' >&2; exit 2;; esac\n"
    "case \"$*\" in *easgd*) exec sleep 600;; esac\n"
    "case \"$*\" in *ssp*'--lr 0.4'*) kill -9 $$;; esac\n"
    "t=5\n"
    "case \"$*\" in *changing*) t=4; p=0.01; case \"$*\" in *ssp*) t=5;; esac\n"
    "  case \"$*\" in *ssp*bandwidth=1.25e+08*) t=6;; *bandwidth*) t=20; p=0.05;; esac\n"
    "  echo \"{\\\"time_to_target_s\\\": $t, \\\"virtual_time_s\\\": $t, \\\"step_s\\\": $p, "
    "\\\"predicted_step_s\\\": $p, \\\"workers\\\": 4, \\\"samples\\\": 9, \\\"time_s\\\": $t, "
    "\\\"stop\\\": \\\"target\\\"}\"; exit;; esac\n"
    /* Ten evaluations, each waits for an answer; accuracy by learning rate; the end of the input
       ends the run. */
    "case \"$*\" in *curves*) i=0; a=1; case \"$*\" in *'--lr 0.2'*) a=4;; *'--lr 0.4'*) a=2;; "
    "esac\n"
    "  trap '' TERM; while [ $i -lt 10 ]; do i=$((i+1));\n"
    "  echo \"{\\\"time_s\\\": $i, \\\"samples\\\": ${i}00, \\\"progress\\\": $((i/10)).$((i%10)), "
    "\\\"test_accuracy\\\": 0.$a$((i%10))}\"\n"
    "  case \"$*\" in *lockstep*) read answer || { echo \"{\\\"time_s\\\": $i, \\\"samples\\\": "
    "${i}00, \\\"test_accuracy\\\": 0.$a$i, "
    "\\\"stop\\\": \\\"canceled\\\"}\"; exit; };; esac; done\n"
    "  echo \"{\\\"time_s\\\": 10, \\\"samples\\\": 1000, \\\"test_accuracy\\\": 0.${a}9, "
    "\\\"stop\\\": \\\"done\\\"}\"; exit;; esac\n"
    "n=$(echo \"$*\" | sed -n 's/.*--steps \\([0-9]*\\).*/\\1/p')\n"
    "case \"$*\" in *slow*) [ $n -le 2000 ] && echo \"{\\\"time_s\\\": $n, \\\"steps\\\": $n, "
    "\\\"samples\\\": $n, \\\"bytes_sent\\\": $((n / 100 * 5000)), \\\"test_accuracy\\\": 0.5, "
    "\\\"stop\\\": \\\"done\\\"}\" && exit;; esac\n"
    "case \"$*\" in *'--lr 0.1'*) t=3;; *'--lr 0.2'*) t=1;; *'--lr 0.4'*) t=2;; esac\n"
    "case \"$*\" in *crossbow*) i=0; while [ $i -lt 3000 ]; do i=$((i+1));\n"
    "  echo \"{\\\"time_s\\\": $i, \\\"samples\\\": $i, \\\"test_accuracy\\\": 0.5}\"; done;; "
    "esac\n"
    "echo '{\"time_s\": 0.5, \"samples\": 5, \"test_accuracy\": 0.5, \"bytes_sent\": 10}'\n"
    "echo '{\"time_s\": 1, \"samples\": 9, \"test_accuracy\": 0.9, \"bytes_sent\": 20}'\n"
    "echo 'not json'\n"
    "case \"$*\" in *gossip*) echo '{\"stop\": \"diverged\", \"test_accuracy\": null}'; exit 1;; "
    "esac\n"
    "echo \"{\\\"time_to_target_s\\\": $t, \\\"test_accuracy\\\": 0.9, \\\"samples\\\": 9, "
    "\\\"time_s\\\": 1, \\\"stop\\\": \\\"target\\\"}\"\n";

static int set_up(void **state)
{
    (void)state;
    snprintf(folder, sizeof folder, "%s/fast_compare_XXXXXX",
             getenv("TMPDIR") ? getenv("TMPDIR") : "/tmp");
    if (!mkdtemp(folder))
        return 1;
    snprintf(program, sizeof program, "%s/fast", folder);
    snprintf(calls, sizeof calls, "%s/calls", folder);
    FILE *file = fopen(program, "w");
    if (!file)
        return 1;
    fputs(script, file);
    return fclose(file) != 0 || chmod(program, 0700) != 0;
}

static int tear_down(void **state)
{
    (void)state;
    char command[128];
    snprintf(command, sizeof command, "rm -rf '%s'", folder);
    return system(command);
}

/* Lines of the list of calls that hold both words. */
static int count_calls(const char *one, const char *other)
{
    FILE *file = fopen(calls, "r");
    char line[4096];
    int count = 0;

    while (file && fgets(line, sizeof line, file))
        count += strstr(line, one) && strstr(line, other);
    if (file)
        fclose(file);
    return count;
}

static fast_compare *open_with(const char *system, const char *const *tune, int64_t jobs)
{
    const char *const options[] = { system, "data=digits", "transport=sim", "target=0.9", NULL };
    fast_compare *compare = NULL;

    unlink(calls);
    assert_int_equal(
        fast_compare_open(
            &(fast_compare_config){
                .program = program, .options = options, .tune = tune, .seeds = 2, .jobs = jobs },
            &compare),
        FAST_OK);
    return compare;
}

static const char *const rates[] = { "lr=0.1,0.2,0.4", NULL };

/* The same trials for all, on held-out data with a seed of their own; then the best with each seed
 * on the test set. */
static void equal_trials(void **state)
{
    (void)state;
    fast_compare *compare = open_with("system=bsp,ssp,gossip", rates, 2);
    int64_t count = 0;

    assert_int_equal(fast_compare_run(compare), FAST_OK);
    const fast_compared *lines = fast_compare_lines(compare, &count);
    assert_int_equal(count, 3);
    const char *const names[] = { "--system bsp", "--system ssp", "--strategy gossip" };
    for (int i = 0; i < 3; i++) {
        assert_int_equal(count_calls(names[i], "--holdout 0.1 --seed 1000 "), 3);
        assert_int_equal(count_calls(names[i], "--holdout"), 3);
        assert_int_equal(count_calls(names[i], ""), i == 2 ? 3 : 5); /* no trial of gossip worked */
    }
    assert_int_equal(count_calls("--lr 0.2", "--seed 1 "), 2);
    assert_int_equal(count_calls("--lr 0.2", "--seed 2 "), 2);
    assert_string_equal(lines[0].tuned, "lr=0.2");
    assert_string_equal(lines[1].tuned, "lr=0.2");
    assert_true(lines[0].time_to_target_s.median == 1);
    assert_int_equal(lines[0].runs[0].point_count, 2);
    assert_true(lines[0].runs[0].points[1].bytes_sent == 20);
    /* The trial that was killed is said; the line continues without it. */
    const fast_compared *ssp = strcmp(lines[0].name, "ssp") == 0 ? &lines[0] : &lines[1];
    assert_string_equal(ssp->trials[2].status, "failed");
    assert_non_null(strstr(ssp->trials[2].error, "signal 9"));
    assert_null(ssp->error);
    assert_string_equal(lines[2].name, "gossip");
    assert_string_equal(lines[2].trials[0].status, "diverged");
    assert_null(lines[2].shown);
    assert_non_null(strstr(lines[2].error, "no trial worked: diverged"));
    assert_string_equal(lines[0].runs[1].command,
                        strcmp(lines[0].name, "bsp") == 0
                            ? "fast train --system bsp --data digits --transport sim --target 0.9 "
                              "--lr 0.2 --seed 2"
                            : "fast train --system ssp --data digits --transport sim --target 0.9 "
                              "--lr 0.2 --seed 2");
    fast_compare_close(compare);
}

/* One line fails, the other is whole. */
static void failing_arm(void **state)
{
    (void)state;
    const char *const no[] = { "no", NULL };
    fast_compare *compare = open_with("system=downpour,bsp", no, 1);
    int64_t count = 0;

    assert_int_equal(fast_compare_run(compare), FAST_OK);
    const fast_compared *lines = fast_compare_lines(compare, &count);
    assert_string_equal(lines[0].name, "bsp");
    assert_int_equal(lines[1].failed_count, 2);
    assert_string_equal(lines[1].error, "no such thing <b>");
    assert_string_equal(lines[1].runs[0].status, "failed");
    fast_compare_close(compare);

    compare = open_with("system=bsp", no, 1);
    unlink(program);
    assert_int_equal(fast_compare_run(compare), FAST_OK);
    assert_non_null(strstr(compare->lines[0].error, "cannot start"));
    fast_compare_close(compare);
    tear_down(NULL);
    set_up(NULL);
}

static void cancel_at_end(void *ctx, const fast_compare_progress *progress)
{
    if (progress->run)
        fast_compare_cancel(ctx);
}

/* A cancel after the first run: the others, one of which would take ten minutes, end; the runs
 * that there are count. */
static void cancel(void **state)
{
    (void)state;
    const char *const no[] = { "no", NULL };
    fast_compare *compare = open_with("system=bsp,easgd", no, 3);
    const int64_t begin = fast__clock_ns();

    fast_compare_watch(compare, cancel_at_end, compare);
    assert_int_equal(fast_compare_run(compare), FAST_ECANCELED);
    assert_true(fast__clock_ns() - begin < INT64_C(300000000000));
    assert_string_equal(compare->lines[0].name, "bsp");
    assert_non_null(compare->lines[0].shown);
    assert_null(compare->lines[1].shown);
    assert_string_equal(compare->lines[1].runs[0].status, "canceled");
    assert_non_null(strstr(fast_compare_verdict(compare), "Incomplete: no recommendation. "));
    fast_compare_close(compare);
}

/* More evaluations than are stored: the first and the last stay, and the order. */
static void long_curves(void **state)
{
    (void)state;
    const char *const no[] = { "no", NULL };
    fast_compare *compare = open_with("system=crossbow", no, 1);

    assert_int_equal(fast_compare_run(compare), FAST_OK);
    const fast_compared_run *run = &compare->lines[0].runs[0];
    assert_in_range(run->point_count, FAST_COMPARE_POINTS_MAX / 4, FAST_COMPARE_POINTS_MAX + 1);
    assert_true(run->points[0].samples == 1);
    for (int64_t i = 1; i + 3 < run->point_count; i++)
        assert_true(run->points[i].samples > run->points[i - 1].samples);
    fast_compare_close(compare);
}

static char *read_report(fast_compare *compare)
{
    char path[160];
    char *page;

    snprintf(path, sizeof path, "%s/report.html", folder);
    assert_int_equal(fast_compare_report(compare, path, "fast compare '<script>'"), FAST_OK);
    FILE *file = fopen(path, "r");
    assert_non_null(file);
    page = calloc(1, 1 << 20);
    assert_non_null(page);
    assert_true(fread(page, 1, (1 << 20) - 1, file) > 1000);
    fclose(file);
    return page;
}

/* Names, errors and commands with the characters of HTML are text; the page needs nothing else. */
static void hostile_report(void **state)
{
    (void)state;
    const char *const no[] = { "no", NULL };
    const char *const options[] = {
        "model=<script>alert(1)</script>,\"><img src=x onerror=a>&\x01\xff",
        "system=bsp",
        "data=digits:</title>",
        "target=0.9",
        "transport=sim",
        NULL
    };
    fast_compare *compare = NULL;

    assert_int_equal(
        fast_compare_open(
            &(fast_compare_config){
                .program = program, .options = options, .tune = no, .seeds = 1, .jobs = 1 },
            &compare),
        FAST_OK);
    for (int pass = 0; pass < 2; pass++) { /* before a run, and after */
        char *page = read_report(compare);
        assert_null(strstr(page, "<script"));
        assert_null(strstr(page, "<img"));
        assert_null(strstr(page, "http:"));
        assert_null(strstr(page, "https:"));
        assert_null(strchr(page, '\x01'));
        assert_null(strchr(page, '\xff'));
        assert_non_null(strstr(page, "&lt;script&gt;alert(1)&lt;/script&gt;"));
        assert_non_null(strstr(page, "&lt;/title&gt;"));
        assert_non_null(strstr(page, "</html>"));
        if (pass == 1)
            assert_non_null(strstr(page, "<polyline"));
        free(page);
        if (pass == 0)
            assert_int_equal(fast_compare_run(compare), FAST_OK);
    }
    assert_true(fast_compare_report(compare, "/nowhere/at/all.html", NULL) != FAST_OK);
    fast_compare_close(compare);
}

/* The cost model is asked about a tenth of the bandwidth and twice the workers: a step of bsp then
 * takes five times as long, so that ssp is first; each answer is simulated for two lines. */
static void changes(void **state)
{
    (void)state;
    const char *const no[] = { "no", NULL };
    const char *const options[] = { "system=bsp,ssp", "data=digits:changing", "cluster=hetero",
                                    "target=0.9", NULL };
    fast_compare *compare = NULL;
    const fast_compare_config config = {
        .program = program, .options = options, .tune = no, .seeds = 2, .jobs = 2, .changes = true
    };

    unlink(calls);
    assert_int_equal(fast_compare_open(&config, &compare), FAST_OK);
    assert_int_equal(fast_compare_run(compare), FAST_OK);
    assert_int_equal(count_calls("--cluster hetero:bandwidth=1.25e+08", "--steps 8 "), 2);
    assert_int_equal(count_calls("--cluster hetero:bandwidth=1.25e+08", ""), 4);
    assert_int_equal(count_calls("--workers 8", ""), 4);
    assert_non_null(strstr(fast_compare_verdict(compare),
                           " With a tenth of the bandwidth ssp would be first: 5 s by the cost "
                           "model, 6 s in a simulation with one seed (bsp: 20 s). With twice the "
                           "workers bsp stays first: 4 s by the cost model, 4 s in a simulation "
                           "with one seed (ssp: 5 s)."));
    fast_compare_close(compare);
}

/* Steps are fitted to a budget: a step takes 1 s and is one sample; every hundredth one sends 5000
 * bytes, so that the first probes send none. A line whose probe fails has its reason. */
static void budgets(void **state)
{
    (void)state;
    static const struct {
        const char *budget;
        const char *steps;
    } cases[] = { { "500s", "--steps 500 " },
                  { "50kB", "--steps 1280 " },
                  { "77samples", "--steps 77 " } };
    const char *const no[] = { "no", NULL };
    const char *const options[] = { "system=bsp,downpour", "data=digits:slow", "transport=sim",
                                    "target=0.9", NULL };

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        fast_compare *compare = NULL;
        const fast_compare_config config = { .program = program,
                                             .options = options,
                                             .tune = no,
                                             .seeds = 2,
                                             .jobs = 2,
                                             .budget = cases[i].budget };

        unlink(calls);
        assert_int_equal(fast_compare_open(&config, &compare), FAST_OK);
        assert_int_equal(fast_compare_run(compare), FAST_OK);
        assert_int_equal(count_calls("--system bsp", cases[i].steps), 2);
        assert_int_equal(count_calls("--system downpour", "--steps"), 1);
        assert_string_equal(compare->lines[0].name, "bsp");
        assert_string_equal(compare->lines[1].error, "no such thing <b>");
        fast_compare_close(compare);
    }
}

/* Trials of a searcher: those behind are stopped at their rung and cost what they have used; the
 * best is run with every seed. On a transport of real time held trials start again, which costs
 * more. */
static void searched(void **state)
{
    (void)state;
    static const char *const transports[] = { "transport=sim", "transport=threads" };

    for (int i = 0; i < 2; i++) {
        const char *const options[] = { "system=bsp,d-psgd", "data=digits:curves", transports[i],
                                        NULL };
        const fast_compare_config config = { .program = program,
                                             .options = options,
                                             .tune = rates,
                                             .searcher = "asha:first=0.3",
                                             .seeds = 2,
                                             .jobs = 2 };
        fast_compare *compare = NULL;
        double samples, seconds;

        unlink(calls);
        assert_int_equal(fast_compare_open(&config, &compare), FAST_OK);
        assert_int_equal(fast_compare_run(compare), FAST_OK);
        for (int64_t k = 0; k < 2; k++) {
            const fast_compared *line = &compare->lines[k];

            assert_string_equal(line->tuned, "lr=0.2");
            assert_int_equal(line->trial_count, 3);
            assert_string_equal(line->trials[0].status, "stopped");
            assert_string_equal(line->trials[1].status, "done");
            assert_string_equal(line->trials[2].status, "stopped");
            assert_null(line->trials[0].error);
            assert_true(line->trials[0].measures.samples == 300);
            assert_true(line->trials[0].point_count > 0);
            assert_string_equal(line->runs[0].status, "done");
        }
        /* Of each line 300 + 1000 + 300 samples, and the first 300 of the best again. */
        fast_compare_cost(compare, true, &samples, &seconds);
        assert_true(samples == 2 * (i == 0 ? 1600 : 1900));
        assert_true(seconds == samples / 100);
        assert_int_equal(count_calls("--holdout", "--lockstep"), i == 0 ? 6 : 8);
        assert_int_equal(count_calls("--lockstep", ""), i == 0 ? 6 : 8);
        fast_compare_close(compare);
    }
}

/* Count the trials that were asked to wait or to end when the comparison is canceled. */
static void cancel_when_held(void *ctx, const fast_compare_progress *progress)
{
    fast_compare *compare = ctx;

    (void)progress;
    for (int64_t i = 0; i < compare->trial_count; i++)
        if (strcmp(compare->views[i].status, "held") == 0)
            fast_compare_cancel(compare);
}

/* A search is the trials of one line, and the command of the run that it recommends. A cancel ends
 * held trials too. */
static void search_alone(void **state)
{
    (void)state;
    const char *const options[] = { "system=bsp", "data=digits:curves", "transport=sim", NULL };
    const char *const lists[] = { "system=bsp,ssp", "data=digits", NULL };
    const char *const range[] = { "lr=0.1..0.4:log", NULL };
    fast_compare_config config = { .program = program,
                                   .options = options,
                                   .tune = rates,
                                   .searcher = "race:first=0.1",
                                   .trials_only = true,
                                   .jobs = 2 };
    fast_compare *compare = NULL;

    unlink(calls);
    assert_int_equal(fast_compare_open(&config, &compare), FAST_OK);
    assert_int_equal(fast_compare_run(compare), FAST_OK);
    assert_int_equal(count_calls("", ""), 3);
    assert_string_equal(compare->lines[0].tuned, "lr=0.2");
    assert_string_equal(compare->lines[0].runs[0].command,
                        "fast train --system bsp --data digits:curves --transport sim --lr 0.2 "
                        "--seed 1");
    fast_compare_close(compare);

    assert_int_equal(fast_compare_open(&config, &compare), FAST_OK);
    fast_compare_watch(compare, cancel_when_held, compare);
    const int64_t began = fast__clock_ns();
    assert_int_equal(fast_compare_run(compare), FAST_ECANCELED);
    assert_true(fast__clock_ns() - began < INT64_C(5000000000)); /* the grace of one trial */
    for (int64_t i = 0; i < 3; i++)
        assert_string_equal(compare->views[i].status, "canceled");
    fast_compare_close(compare);

    config.tune = range;
    config.searcher = "grid";
    assert_int_equal(fast_compare_open(&config, &compare), FAST_EINVAL);
    assert_non_null(strstr(fast_error_detail(), "needs values, not a range"));
    config.options = lists;
    assert_int_equal(fast_compare_open(&config, &compare), FAST_EINVAL);
    assert_non_null(strstr(fast_error_detail(), "search them with --tune system="));
    config.options = options;
    config.tune = NULL;
    assert_int_equal(fast_compare_open(&config, &compare), FAST_EINVAL);
    assert_non_null(strstr(fast_error_detail(), "nothing to search"));
}

/* A line without a place shows none in the report, and the limit of its runs in place of a time. */
static void no_place(void **state)
{
    (void)state;
    const char *const no[] = { "no", NULL };
    fast_compare *compare = open_with("system=bsp,ssp", no, 1);

    assert_int_equal(fast_compare_run(compare), FAST_OK);
    for (int64_t i = 0; i < 2; i++) { /* the runs of the second line ended before the target */
        fast_compared_run *run = compare->tasks[2 + i].view;

        run->status = "done";
        run->measures.time_to_target_s = NAN;
    }
    assert_int_equal(fast__compare_rank(compare), FAST_OK);
    assert_int_equal(compare->lines[1].place, 0);
    char *page = read_report(compare);
    assert_non_null(strstr(page, "ssp</td><td>-</td><td>not within 8 epochs (1 s)</td>"));
    assert_null(strstr(page, "<td>0</td>"));
    assert_null(strstr(page, "<td>never"));
    free(page);
    fast_compare_close(compare);
    const char *const stores[] = { "system=bsp", "data=digits", "store=no", NULL };
    assert_int_equal(fast_compare_open(
                         &(fast_compare_config){ .program = program, .options = stores }, &compare),
                     FAST_EINVAL);
    assert_non_null(strstr(fast_error_detail(), "write none"));
}

/* The trials' seed differs from the runs'; only trials hold out; threads run one by one. */
static void seeds(void **state)
{
    (void)state;
    const char *const options[] = { "system=bsp", "data=digits", "seed=999", "holdout=0.3", NULL };
    fast_compare *compare = NULL;
    fast_compare_config config = {
        .program = program, .options = options, .tune = rates, .seeds = 3, .jobs = 8
    };

    assert_int_equal(fast_compare_open(&config, &compare), FAST_OK);
    assert_int_equal(compare->trial_seed, 1002);
    assert_int_equal(compare->jobs, 1);
    assert_int_equal(compare->lines[0].runs[2].seed, 1001);
    assert_int_equal(fast_compare_run(compare), FAST_OK);
    assert_non_null(strstr(compare->lines[0].trials[0].command, "--holdout 0.3 --seed 1002"));
    assert_null(fast__words_value(&compare->sweep.job, "holdout"));
    fast_compare_close(compare);
    config.seeds = 10000;
    assert_int_equal(fast_compare_open(&config, &compare), FAST_EINVAL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(equal_trials),   cmocka_unit_test(failing_arm),
        cmocka_unit_test(cancel),         cmocka_unit_test(long_curves),
        cmocka_unit_test(hostile_report), cmocka_unit_test(seeds),
        cmocka_unit_test(budgets),        cmocka_unit_test(changes),
        cmocka_unit_test(searched),       cmocka_unit_test(search_alone),
        cmocka_unit_test(no_place),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
