/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A comparison: lines become trials and runs, each with the command that repeats it.
 *
 * Fair means: every line gets the same trials, evaluated on one fraction of the training set that
 * is held out, with one seed that no run has; what reached the target first, else what ended with
 * the best accuracy (the smallest loss for regression), is run with every seed on the test set.
 * No choice ever sees the test set, and no line gets more attempts than another.
 *
 * Order of events, for L lines, T combinations of the tuned values and S seeds:
 *
 *   open    expand the sweep, take out the options that belong to the comparison (seed, holdout,
 *           name, store), open a search for each line; without trials (T = 0) write the commands of
 *           the runs
 *   run     the trials of a line, seed 1000, with --holdout, as its searcher proposes them; after
 *           the last one choose, which writes the commands of the line's S runs, seeds seed ..
 *           seed + S - 1, no --holdout
 *   rank    spreads over the S runs, places, the verdict
 *
 * The standard comparison has L = 8, T = 7 and S = 3: 8 * (7 + 3) = 80 processes.
 *
 * Tasks lie in one array, and a line's trials and runs are slices of it:
 *
 *   [0, L*T)            trial k of line i at i*T + k
 *   [L*T, L*T + L*S)    run k of line i at L*T + i*S + k
 *
 * Tasks name their line by its index, and ranking sorts the lines. That is safe because ranking
 * happens only at open, where all lines are equal and the stable sort moves none, and after the
 * last task has ended or was canceled.
 *
 * On transports other than sim runs come one after the other, or they would take each other's
 * time.
 */
#include "lab/compare.h"

#include "base/file.h"
#include "base/memory.h"
#include "base/option.h"
#include "base/thread.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* Copy a text to memory of its own. */
static fast_err text_copy(const char *text, char **out)
{
    const size_t size = strlen(text) + 1;

    FAST_TRY(fast__alloc("a text", (int64_t)size, 1, out));
    memcpy(*out, text, size);
    return FAST_OK;
}

/* "lr=0.1" of "lr=0.1", NULL; several with spaces. */
static fast_err join(const fast_words *words, char **out)
{
    char text[1024] = "";

    for (int64_t i = 0; words && i < words->count; i++) {
        const size_t used = strlen(text);
        snprintf(text + used, sizeof text - used, "%s%s", i ? " " : "", words->items[i]);
    }
    return text_copy(text, out);
}

/* Add "name=value" as "--name" and "value". */
static fast_err add_flag(fast_words *argv, const char *option)
{
    char flag[128];
    const char *equals = strchr(option, '=');

    snprintf(flag, sizeof flag, "--%.*s", (int)(equals - option), option);
    for (char *c = flag; *c; c++)
        if (*c == '_')
            *c = '-';
    FAST_TRY(fast__words_add(argv, flag));
    return fast__words_add(argv, equals + 1);
}

/* Append options as flags of a command line; those that `changes` names are left out. */
static fast_err add_flags(fast_words *argv, const fast_words *options, const fast_words *changes)
{
    for (int64_t i = 0; options && i < options->count; i++) {
        char name[64];

        snprintf(name, sizeof name, "%.*s", (int)strcspn(options->items[i], "="),
                 options->items[i]);
        if (!changes || !fast__words_value(changes, name))
            FAST_TRY(add_flag(argv, options->items[i]));
    }
    return FAST_OK;
}

/* "fast" and the words from the second on, quoted for a shell. */
static fast_err quote(const fast_words *argv, char **out)
{
    static const char program[] = "fast";
    size_t size = sizeof program, used = sizeof program - 1;
    char *text;

    for (int64_t i = 1; i < argv->count; i++)
        size += 1 + fast_text_quote(argv->items[i], NULL, 0);
    FAST_TRY(fast__alloc("a command", (int64_t)size, 1, &text));
    memcpy(text, program, sizeof program);
    for (int64_t i = 1; i < argv->count; i++) {
        text[used++] = ' ';
        used += fast_text_quote(argv->items[i], text + used, size - used);
    }
    FAST_ASSERT(used + 1 == size);
    *out = text;
    return FAST_OK;
}

/* Add the flags that repeat nothing: where the run's lines go, and how it is stored. The key is
 * taken before --quiet and --json are added: it must equal the command that the run's process
 * writes to the store, which has the options of the run and not the flags of the program. */
static fast_err add_own_flags(fast_compare *compare, fast_compare_task *task)
{
    fast_words *argv = &task->argv;
    const char *store = task->unstored ? "none" : compare->store;
    char name[128];

    FAST_TRY(add_flag(argv, "log=/dev/stdout"));
    if (task->trial)
        FAST_TRY(fast__trials_add_flags(compare, task));
    if (strcmp(store, "none") != 0) {
        const char *line = compare->sweep.lines[task->line].name; /* lines are sorted later */

        FAST_TRY(fast__words_add(argv, "--batch-of"));
        FAST_TRY(fast__words_add(argv, compare->name));
        if (task->trial)
            snprintf(name, sizeof name, "%.70s, trial %.40s", line, task->tuned);
        else if (task->changes)
            snprintf(name, sizeof name, "%.70s, with %.40s", line, task->changes->items[0]);
        else
            snprintf(name, sizeof name, "%.100s", line);
        FAST_TRY(fast__words_add(argv, "--name"));
        FAST_TRY(fast__words_add(argv, name));
    }
    if (strcmp(store, "auto") != 0) {
        FAST_TRY(fast__words_add(argv, "--store"));
        FAST_TRY(fast__words_add(argv, store));
    }
    if (strcmp(store, "none") != 0)
        FAST_TRY(quote(argv, &task->key));
    FAST_TRY(fast__words_add(argv, "--quiet"));
    if (task->trial)
        FAST_TRY(fast__words_add(argv, "--lockstep"));
    return fast__words_add(argv, "--json");
}

fast_err fast__task_make(fast_compare *compare, fast_compare_task *task, const fast_words *tuned,
                         int64_t seed)
{
    const fast_sweep *sweep = &compare->sweep;
    fast_words *argv = &task->argv;
    char number[64];

    FAST_ASSERT(argv->count == 0);
    /* The order is fixed, since stored runs are found by their command word for word. No option is
       in two of these lists: an axis is never part of the job, and the sweep refuses to tune an
       option that was given. */
    FAST_TRY(fast__words_add(argv, compare->program));
    FAST_TRY(fast__words_add(argv, "train"));
    FAST_TRY(add_flags(argv, &sweep->lines[task->line].options, task->changes));
    FAST_TRY(add_flags(argv, &sweep->job, task->changes));
    FAST_TRY(add_flags(argv, task->changes, NULL));
    FAST_TRY(add_flags(argv, tuned, NULL));
    if (task->steps > 0) {
        snprintf(number, sizeof number, "steps=%lld", (long long)task->steps);
        FAST_TRY(add_flag(argv, number));
    }
    if (task->trial) {
        snprintf(number, sizeof number, "holdout=%g", compare->holdout);
        FAST_TRY(add_flag(argv, number));
    }
    snprintf(number, sizeof number, "seed=%lld", (long long)seed);
    FAST_TRY(add_flag(argv, number));
    task->view->seed = seed;
    FAST_TRY(join(tuned, &task->tuned));
    task->view->tuned = task->tuned;
    FAST_TRY(quote(argv, &task->command));
    task->view->command = task->command;
    return add_own_flags(compare, task);
}

/*
 * Is trial `a` better than `b`? By the first rule that separates them:
 *
 *   1. a trial with a result beats one that failed or diverged;
 *   2. the shorter time to the target wins (or fewer bytes or samples, as the budget has it), and
 *      any time beats "never";
 *   3. where neither reached it, the higher held-out accuracy wins;
 *   4. for regression, which has no accuracy, the smaller held-out loss wins.
 *
 * Strictly better is required, so of equal trials the first one of the grid wins: for
 * lr=0.0125..0.8x2 that is the smaller learning rate.
 */
static bool trial_beats(const fast_budget *budget, const fast_compared_run *a,
                        const fast_compared_run *b)
{
    const fast_compare_measures *x = &a->measures;
    const fast_compare_measures *y = &b->measures;

    if (!fast__run_is_whole(a) || !fast__run_is_whole(b))
        return fast__run_is_whole(a) && !fast__run_is_whole(b);
    const double s = fast__budget_to_target(budget, x), t = fast__budget_to_target(budget, y);
    if (isfinite(s) || isfinite(t))
        return s < t;
    if (isfinite(x->test_accuracy) || isfinite(y->test_accuracy))
        return isfinite(x->test_accuracy) && !(x->test_accuracy <= y->test_accuracy);
    return isfinite(x->test_loss) && !(x->test_loss >= y->test_loss);
}

/* The first trial of a line. */
static fast_compare_task *first_trial(fast_compare *compare, int64_t line)
{
    return compare->tasks + line * compare->trial_count;
}

/* The first task of a line that is no trial. */
static fast_compare_task *first_run(fast_compare *compare, int64_t line)
{
    return compare->tasks + compare->line_count * compare->trial_count + line * compare->seed_count;
}

fast_err fast__compare_choose(fast_compare *compare, int64_t line)
{
    fast_compared *l = &compare->lines[line];
    fast_compare_task *run = first_run(compare, line);
    int64_t best = -1;

    for (int64_t i = 0; i < l->trial_count; i++)
        if (fast__run_is_whole(&l->trials[i]) &&
            (best < 0 || (compare->trials.folder /* the searcher's values count the parents too */
                              ? compare->trials.searches[line]->trials[i].value <
                                    compare->trials.searches[line]->trials[best].value
                              : trial_beats(&compare->budget, &l->trials[i], &l->trials[best]))))
            best = i;
    if (best >= 0)
        l->tuned = l->trials[best].tuned;
    for (int64_t i = 0; i < compare->seed_count; i++) {
        const char *reason = l->trial_count > 0 ? l->trials[0].error : NULL;

        if (best >= 0) {
            run[i].steps = compare->steps ? compare->steps[line] : 0;
            FAST_TRY(fast__task_make(compare, &run[i], &first_trial(compare, line)[best].settings,
                                     run[i].view->seed));
            continue;
        }
        run[i].view->status = "failed";
        snprintf(run[i].error, sizeof run[i].error, "no trial worked: %.230s",
                 reason ? reason : "no result");
        run[i].view->error = run[i].error;
    }
    return FAST_OK;
}

/* Some options are the comparison's own: take one out of the job, and give its value. The last
 * occurrence counts and all are removed; `standard` is the value of an option that was not given.
 * FAST_EINVAL if the value does not fit `out`. */
static fast_err take_text(fast_words *job, const char *name, const char *standard, char *out,
                          size_t out_size)
{
    const char *value = fast__words_value(job, name);
    const size_t length = strlen(name);
    int64_t left = 0;

    if (strlen(value ? value : standard) >= out_size)
        return fast__fail(FAST_EINVAL, "%s is longer than %zu bytes", name, out_size - 1);
    snprintf(out, out_size, "%s", value ? value : standard);
    for (int64_t i = 0; i < job->count; i++) {
        if (strncmp(job->items[i], name, length) == 0 && job->items[i][length] == '=')
            fast__free(job->items[i]);
        else
            job->items[left++] = job->items[i];
    }
    job->count = left;
    if (job->items)
        job->items[left] = NULL;
    return FAST_OK;
}

/* Take an option out of the job and read its number; the standard one if it was not given. */
static fast_err take_number(fast_words *job, const char *name, const char *standard, double *out)
{
    char text[64];

    FAST_TRY(take_text(job, name, standard, text, sizeof text));
    return fast__parse_real(name, text, out);
}

/* The name under which runs are stored; without one of the user's the date and the process give
 * one that nothing else has. */
static fast_err read_name(fast_compare *compare)
{
    char standard[64];
    time_t now = time(NULL);
    struct tm date = { 0 };

    gmtime_r(&now, &date);
    strftime(standard, sizeof standard,
             compare->sweep.trials_only ? "search-%Y%m%d-%H%M%S" : "compare-%Y%m%d-%H%M%S", &date);
    FAST_TRY(take_text(&compare->sweep.job, "name", "", compare->name, sizeof compare->name));
    compare->named = compare->name[0] != '\0';
    if (!compare->named)
        snprintf(compare->name, sizeof compare->name, "%.40s-%d", standard, (int)getpid());
    if (strchr(compare->name, ','))
        return fast__fail(FAST_EINVAL, "name=%s: the name of a %s has no comma", compare->name,
                          compare->sweep.trials_only ? "search" : "comparison");
    FAST_TRY(
        take_text(&compare->sweep.job, "store", "auto", compare->store, sizeof compare->store));
    if (strcmp(compare->store, "no") == 0)
        return fast__fail(FAST_EINVAL, "store=no would be a file of that name; write none to store "
                                       "nothing, or ./no for the file");
    return FAST_OK;
}

/* True if all lines run on sim. */
static bool is_simulated(const fast_sweep *sweep)
{
    const char *job = fast__words_value(&sweep->job, "transport");

    for (int64_t i = 0; i < sweep->space.count; i++)
        if (strcmp(sweep->space.options[i].name, "transport") == 0)
            return false;

    for (int64_t i = 0; i < sweep->line_count; i++) {
        const char *own = fast__words_value(&sweep->lines[i].options, "transport");

        if (strcmp(own ? own : job ? job : "", "sim") != 0)
            return false;
    }
    return true;
}

/* Workers on threads share memory: a budget of bytes would be no limit to most systems, and no
 * measure of them. FAST_EINVAL if a line runs there. */
static fast_err check_bytes(const fast_compare *compare)
{
    const fast_sweep *sweep = &compare->sweep;
    const char *job = fast__words_value(&sweep->job, "transport");

    if (compare->budget.amount <= 0 || compare->budget.by != FAST_BY_BYTES)
        return FAST_OK;
    for (int64_t i = 0; i < sweep->line_count; i++) {
        const char *own = fast__words_value(&sweep->lines[i].options, "transport");
        const char *transport = own ? own : job ? job : "auto";

        if (strncmp(transport, "threads", 7) == 0 || strcmp(transport, "auto") == 0)
            return fast__fail(FAST_EINVAL,
                              "a budget of bytes needs workers that send: threads share memory; "
                              "give transport=sim, or a budget of time or samples");
    }
    return FAST_OK;
}

/*
 * Read what the sweep leaves to the comparison itself: seeds, held-out fraction, name, store,
 * target and the number of processes.
 *
 * The trials' seed must not be the seed of a run, or one run of each line would repeat the random
 * numbers that its tuning was fitted to. It is 1000, and the first seed behind those of the runs if
 * they include 1000. Seeds are at most 2^53, up to which a double holds every whole number.
 *
 * FAST_EINVAL if one of these options is an axis, if nothing is held out, if the runs are more than
 * FAST_COMPARE_RUNS_MAX, or if the seeds leave the range.
 */
static fast_err read_config(fast_compare *compare, const fast_compare_config *config)
{
    static const char *const own[] = { "seed", "holdout", "name", "store", NULL };
    fast_sweep *sweep = &compare->sweep;
    double seed, target;

    for (int64_t i = 0; i < sweep->line_count; i++)
        for (int k = 0; own[k]; k++)
            if (fast__words_value(&sweep->lines[i].options, own[k]))
                return fast__fail(FAST_EINVAL,
                                  "%s is the same for all lines; the number of seeds is --seeds",
                                  own[k]);
    FAST_TRY(take_number(&sweep->job, "seed", "1", &seed));
    FAST_TRY(take_number(&sweep->job, "holdout", "0.1", &compare->holdout));
    FAST_TRY(read_name(compare));
    if (!(compare->holdout > 0))
        return fast__fail(FAST_EINVAL, "holdout=0: trials need a part of the training set; "
                                       "leave it out, or tune nothing");
    const char *text = fast__words_value(&sweep->job, "target");
    target = 0;
    if (text)
        FAST_TRY(fast__parse_real("target", text, &target));
    compare->target = target;
    FAST_TRY(fast__budget_read(config->budget ? config->budget : "", &compare->budget));
    FAST_TRY(check_bytes(compare));
    compare->line_count = sweep->line_count;
    compare->seed_count = sweep->trials_only ? 1 : config->seeds > 0 ? config->seeds : 3;
    compare->trial_seed = FAST_COMPARE_TRIAL_SEED;
    if ((double)compare->trial_seed >= seed &&
        (double)compare->trial_seed < seed + (double)compare->seed_count)
        compare->trial_seed = (int64_t)seed + compare->seed_count;
    compare->seed = (int64_t)seed;
    sweep->simulated = is_simulated(sweep);
    FAST_TRY(fast__trials_open(compare, config->searcher));
    /* The bound is divided by the lines: lines * each could overflow for a large --seeds. */
    const int64_t each = compare->trial_count + compare->seed_count;
    if (config->seeds < 0 || each > FAST_COMPARE_RUNS_MAX / compare->line_count)
        return fast__fail(FAST_EINVAL,
                          "%lld lines of %lld trials and %lld seeds are more than %d "
                          "runs; leave some out",
                          (long long)compare->line_count, (long long)compare->trial_count,
                          (long long)compare->seed_count, FAST_COMPARE_RUNS_MAX);
    if (seed + (double)compare->seed_count > 9007199254740992.0)
        return fast__fail(FAST_EINVAL, "seed=%.0f leaves no room for more", seed);
    compare->task_count = compare->line_count * each;
    compare->changes.asked = config->changes;
    compare->jobs = config->jobs > 0 ? config->jobs : fast__cpu_count();
    if (compare->jobs > FAST_COMPARE_JOBS_MAX)
        compare->jobs = FAST_COMPARE_JOBS_MAX;
    /* Simulated runs measure virtual time, which other processes cannot change; all others would
       share cores and caches and slow each other down. */
    if (!sweep->simulated)
        compare->jobs = 1;
    return FAST_OK;
}

/* Lines, their trials and their runs. Commands of trials are written when a searcher proposes them,
 * those of runs when something was chosen; where nothing is tuned at once, or with a budget when
 * the steps of their line are known. */
static fast_err make_bouts(fast_compare *compare)
{
    const int64_t trials = compare->trial_count;
    const int64_t seeds = compare->seed_count;
    const int64_t lines = compare->line_count;

    FAST_TRY(fast__alloc("lines", lines, sizeof *compare->lines, &compare->lines));
    FAST_TRY(fast__alloc("runs", compare->task_count, sizeof *compare->tasks, &compare->tasks));
    FAST_TRY(fast__alloc("runs", compare->task_count, sizeof *compare->views, &compare->views));
    for (int64_t i = 0; i < lines; i++)
        compare->lines[i].name = compare->sweep.lines[i].name;
    for (int64_t i = 0; i < compare->task_count; i++) {
        fast_compare_task *b = &compare->tasks[i];
        const bool trial = i < lines * trials;
        const int64_t at = trial ? i : i - lines * trials;
        const int64_t number = at % (trial ? trials : seeds);

        b->view = &compare->views[i];
        b->trial = trial;
        b->line = at / (trial ? trials : seeds);
        b->view->status = "waiting";
        b->view->tuned = "";
        b->view->parent = -1;
        b->view->seed = trial ? compare->trial_seed : compare->seed + number;
        fast__read_measures(NULL, &b->view->measures); /* nothing yet */
    }
    for (int64_t i = 0; i < lines; i++) {
        fast_compared *line = &compare->lines[i];

        line->tuned = "";
        line->trials = compare->views + i * trials;
        line->trial_count = compare->trials.searches ? trials : 0;
        line->runs = compare->views + lines * trials + i * seeds;
        line->run_count = seeds;
    }
    return compare->budget.amount > 0 ? FAST_OK : fast__compare_make_tasks(compare);
}

fast_err fast__compare_make_tasks(fast_compare *compare)
{
    for (int64_t i = 0; !compare->trials.searches && i < compare->task_count; i++) {
        fast_compare_task *task = &compare->tasks[i];

        if (strcmp(task->view->status, "waiting") != 0) /* its line could not be fitted */
            continue;
        task->steps = compare->steps ? compare->steps[task->line] : 0;
        FAST_TRY(fast__task_make(compare, task, NULL, task->view->seed));
    }
    return FAST_OK;
}

fast_err fast_compare_open(const fast_compare_config *config, fast_compare **out)
{
    fast_compare *compare;
    fast_err err;

    FAST_TRY(fast__check_size("fast_compare_config", config->size, sizeof *config));
    FAST_TRY(fast__alloc("a comparison", 1, sizeof *compare, &compare));
    err = fast__sweep_open(config, &compare->sweep);
    if (!err)
        err = text_copy(config->program ? config->program : "fast", &compare->program);
    if (!err && config->command)
        err = text_copy(config->command, &compare->command);
    if (!err && config->checkpoint)
        err = text_copy(config->checkpoint, &compare->trials.checkpoint);
    if (!err)
        err = read_config(compare, config);
    if (!err)
        err = make_bouts(compare);
    if (!err)
        err = fast__compare_rank(compare);
    if (err) {
        fast_compare_close(compare);
        return err;
    }
    *out = compare;
    return FAST_OK;
}

void fast_compare_watch(fast_compare *compare, fast_compare_fn *watch, void *ctx)
{
    compare->watcher = (fast_compare_watcher){ watch, ctx };
}

fast_err fast_compare_run(fast_compare *compare)
{
    fast_err err = fast__budget_fit(compare);

    if (!err)
        err = fast__pool_run(compare, compare->tasks,
                             compare->task_count - (compare->sweep.trials_only ? 1 : 0));
    /* A stopped comparison is ranked by the runs that ended; the verdict says so. Other errors
       (FAST_ENOMEM, a broken pipe) return before anything is ranked. */
    if (err && err != FAST_ECANCELED)
        return err;
    if (compare->sweep.trials_only) /* a search has no runs to rank */
        return err ? fast__fail(err, "the search was stopped") : fast__trials_save(compare);
    FAST_TRY(fast__compare_rank(compare));
    if (!err) {
        err = fast__compare_changes(compare);
        if (err && err != FAST_ECANCELED)
            return err;
        /* A cancel after the last run leaves the comparison complete, without these answers. */
        compare->canceled = 0;
        FAST_TRY(fast__verdict(compare));
        return fast__verdict_store(compare);
    }
    FAST_TRY(fast__verdict_store(compare));
    return fast__fail(err, "the comparison was stopped");
}

void fast_compare_cancel(fast_compare *compare)
{
    compare->canceled = 1;
}

const fast_compared *fast_compare_lines(const fast_compare *compare, int64_t *count_out)
{
    *count_out = compare->line_count;
    return compare->lines;
}

const char *fast_compare_verdict(const fast_compare *compare)
{
    return compare->verdict;
}

const char *const *fast_compare_job(const fast_compare *compare)
{
    return (const char *const *)compare->sweep.job.items;
}

const char *fast_compare_name(const fast_compare *compare)
{
    return strcmp(compare->store, "none") == 0 ? NULL : compare->name;
}

const char *fast_compare_measure(const fast_compare *compare)
{
    static const char *const names[] = { "time_s", "bytes_sent", "samples" };

    return names[compare->budget.by];
}

double fast_compare_target(const fast_compare *compare)
{
    return compare->target;
}

/* The page, and where it goes. */
typedef struct report_page {
    char *text;  /* of open_memstream() */
    size_t size; /* bytes of text */
} report_page;

/* Write the report to a stream, for the function that replaces files at once. */
static fast_err put_page(void *ctx, void *stream)
{
    const report_page *p = ctx;

    return fast__file_put(stream, p->text, p->size);
}

fast_err fast_compare_report(const fast_compare *compare, const char *path, const char *command)
{
    /* The page is made in memory and replaces the file at once: a full disk or an interrupt leaves
       the earlier report, never half of a new one. */
    report_page p = { NULL, 0 };
    FILE *out = open_memstream(&p.text, &p.size);
    fast_err err;

    if (!out)
        return fast__fail(FAST_ENOMEM, "no memory for the report");
    fast__report_write(compare, command, out);
    const bool failed = ferror(out) != 0;
    err = fclose(out) != 0 || failed ? fast__fail(FAST_ENOMEM, "no memory for the report")
                                     : fast__file_replace(path, put_page, &p);
    free(p.text);
    return err;
}

void fast__task_fini(fast_compare_task *task)
{
    fast__words_fini(&task->argv);
    fast__words_fini(&task->settings);
    fast__child_free(task->child);
    fast__free(task->tuned);
    fast__free(task->command);
    fast__free(task->key);
    fast__free(task->points);
    *task = (fast_compare_task){ 0 };
}

void fast_compare_close(fast_compare *compare)
{
    if (!compare)
        return;
    for (int64_t i = 0; compare->tasks && i < compare->task_count; i++)
        fast__task_fini(&compare->tasks[i]);
    fast__free(compare->tasks);
    fast__free(compare->views);
    fast__free(compare->lines);
    fast__free(compare->program);
    fast__free(compare->command);
    fast__free(compare->steps);
    fast__trials_close(compare);
    fast__free(compare->trials.checkpoint);
    free(compare->verdict); /* of open_memstream() */
    fast__sweep_close(&compare->sweep);
    fast__free(compare);
}
