/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `fast plan`: how should a model be split over a cluster?
 *
 *     options -> a run of one worker, for its network and rule -> a job (split/placement.h)
 *             -> a planner searches (split/planner.h): estimates, then dry runs
 *             -> the best plans are trained for a few steps, on the simulator or on threads
 *             -> a table, what else was possible, and why the best is the best
 *
 * All plans of a job train the same samples in a step, so their steps compare.
 *
 *     row     a plan, its predicted step and memory, and what a short run of it took
 *     others  the best plan that has replicas alone, stages alone, shards alone, and one worker:
 *             beside the best plan they say what its combination is good for
 *     unfit   plans whose workers take too much memory: by the estimate, or in their short run,
 *             where the engine's workspaces are compiled. Such a plan is left out
 *
 * Options of the table above are the planner's; all others are those of a run, and are given to the
 * run of one worker, to short runs and to the command that is printed. Options that a plan would
 * contradict are refused:
 *
 *     system                   its strategy, mesh and schedule are what is searched
 *     transport, placement     short runs are on the simulator or on threads (verify), and a plan
 *                              names the nodes of its workers
 *     global_batch             batch is of all workers
 *     preprocess, phases, ...  a split model does not allow them (run/split_checks.c)
 *
 * Ownership: the result is the first member of the lab, which owns all of its texts; rows point
 * into one array, the best plans first, the others behind.
 */
#include "lab/planning.h"

#include "base/memory.h"
#include "run/memory_budget.h"
#include "run/run.h"
#include "split/planner.h"
#include "strategy/strategy.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

enum { TOP_MAX = 512, OTHERS_MAX = 4, SIM_STEPS = 3, REAL_STEPS = 8, TEXT_MAX = 2048 };
enum { VERIFY_SIM, VERIFY_THREADS, VERIFY_NO };

typedef fast_plan_config C;

static const fast_option options_table[] = {
    FAST_OPT_TEXT(C, cluster, "", "cluster",
                  "nodes and links: a preset, or a file, whose nodes may have a capacity"),
    FAST_OPT_INT(C, workers, "0", 0, FAST_PLAN_WORKERS_MAX,
                 "workers at most; 0: as many as the cluster has nodes"),
    FAST_OPT_INT(C, batch, "64", 1, 1 << 24, "samples of a step, over all workers"),
    FAST_OPT_TEXT(C, memory, "", NULL,
                  "memory that a worker may take, like 64MB; else the capacity of its node"),
    FAST_OPT_TEXT(C, planner, "", "planner", "how plans are searched: fast help planners"),
    FAST_OPT_INT(C, top, "3", 1, TOP_MAX, "plans to show"),
    FAST_OPT_CHOICE(C, verify, "sim", "sim|threads|no",
                    "train the plans that are shown for a few steps: on the simulator, or on this "
                    "machine"),
    FAST_OPT_INT(C, dry_runs, "48", 1, FAST_PLANS_MAX,
                 "plans that are measured on the simulator without data, the best by the estimate"),
    FAST_OPT_TEXT(C, mesh, "", "mesh", "dimensions that are given, like pipe=4; else any"),
    FAST_OPT_TEXT(C, layout, "", NULL, "how shards split layers; else any"),
    FAST_OPT_TEXT(C, cuts, "", NULL, "first layers of the later stages; else any"),
    FAST_OPT_TEXT(C, pipeline, "", NULL,
                  "schedule of the stages, as in fast train; else the fastest of 1f1b, gpipe, "
                  "interleaved and zero_bubble"),
    FAST_OPT_INT(C, chunks, "0", 0, FAST_PLAN_STAGES_MAX,
                 "stages of each worker with pipeline interleaved; 0: any"),
    FAST_OPT_INT(C, accumulate, "0", 0, 1 << 16, "micro-batches of a step; 0: any"),
    FAST_OPT_TEXT(C, strategy, "", "strategy",
                  "allreduce, zero or ps along data; else allreduce, or zero where memory is "
                  "short"),
    FAST_OPT_BOOL(C, recompute, "yes", "compute activations twice where memory is short"),
    FAST_OPT_END,
};

const fast_part fast__plan_part_of_lab = { "plan", "plan how to split a model", options_table };

/* A planning under way, and the memory of its result. */
typedef struct plan_lab {
    fast_plan_result result;                  /* first: what the caller gets */
    C config;                                 /* own options */
    fast_words run_options;                   /* options of runs */
    fast_run *run;                            /* of one worker, for its network */
    fast_plan_space *space;                   /* of the network on the cluster */
    fast_planning planning;                   /* the search */
    fast_plan_row rows[TOP_MAX + OTHERS_MAX]; /* shown */
    const fast_planned *best[TOP_MAX];        /* plans of the rows */
    int64_t tried;                            /* plans from the best one on that were run */
    int kinds[OTHERS_MAX];                    /* of the others */
    fast_words texts;                         /* of the rows */
    char why[TEXT_MAX];                       /* of the result */
    fast_plan_progress_fn *progress;          /* the caller's, or NULL */
    void *ctx;                                /* its argument */
} plan_lab;

/* Does the table have an option of this name? */
static bool is_own(const char *option, size_t length)
{
    for (const fast_option *o = options_table; o->name; o++)
        if (strlen(o->name) == length && strncmp(o->name, option, length) == 0)
            return true;
    return false;
}

/* Refuse options of runs that a plan would contradict, or that split models do not allow: all of
 * them by their names, since none has a meaning here whatever its value. */
static fast_err check_option(const char *option, size_t length)
{
    static const char *const refused[] = {
        "system", "transport", "placement", "global_batch", "preprocess",  "phases",
        "faults", "record",    "replay",    "tied",         "micro_batch", "resume",
    };

    for (size_t i = 0; i < sizeof refused / sizeof refused[0]; i++)
        if (strlen(refused[i]) == length && strncmp(refused[i], option, length) == 0)
            return fast__fail(FAST_EINVAL,
                              "plan: %.100s has no meaning where plans are searched; leave it out",
                              option);
    return FAST_OK;
}

/* Divide the caller's options between the table and the runs. */
static fast_err read_options(plan_lab *lab, const char *const *options)
{
    fast__options_default(options_table, &lab->config);
    for (int64_t i = 0; options && options[i]; i++) {
        const size_t length = strcspn(options[i], "=");
        char name[64];

        if (!options[i][length] || length >= sizeof name)
            return fast__fail(FAST_EINVAL, "plan: \"%.60s\" is not name=value", options[i]);
        snprintf(name, sizeof name, "%.*s", (int)length, options[i]);
        FAST_TRY(check_option(options[i], length));
        if (is_own(name, length))
            FAST_TRY(fast__options_set("plan", options_table, &lab->config, name,
                                       options[i] + length + 1));
        else
            FAST_TRY(fast__words_add(&lab->run_options, options[i]));
    }
    return FAST_OK;
}

/* Open a run of one worker: it has the network and the rule. */
static fast_err open_run(plan_lab *lab)
{
    static const char *const own[] = { "workers=1",  "batch=16", "evaluate=no", "steps=1",
                                       "store=none", "save=",    "load=",       "checkpoint=",
                                       "log=",       "trace=" };
    fast_words words = { 0 };
    fast_err err = FAST_OK;

    for (int64_t i = 0; i < lab->run_options.count && !err; i++)
        err = fast__words_add(&words, lab->run_options.items[i]);
    for (size_t i = 0; i < sizeof own / sizeof own[0] && !err; i++)
        err = fast__words_add(&words, own[i]);
    if (!err)
        err = fast_run_open((const char *const *)words.items, &lab->run);
    fast__words_fini(&words);
    if (!err && !lab->run->graph)
        err = fast__fail(FAST_EINVAL, "plan: a learner of the caller's cannot be split");
    return err;
}

/* Parse the dimensions of a mesh that are given; others stay 0. */
static fast_err given_mesh(const char *text, fast_mesh *out)
{
    fast_mesh mesh = { 0 };

    if (!text[0] || strcmp(text, "auto") == 0)
        return FAST_OK;
    FAST_TRY(fast__mesh_given(text, &mesh));
    /* The closed forms and dry runs of plans have workers in a grid. */
    if (mesh.replicas[0])
        return fast__fail(FAST_EINVAL,
                          "plan: mesh=%.100s has replicas of single stages, and a plan has as many "
                          "of each; give data",
                          text);
    *out = mesh;
    return FAST_OK;
}

/* Refuse a strategy whose name or options are wrong. Which strategies have plans is the planner's
 * to say; it does not know their options. */
static fast_err check_strategy(const C *c)
{
    const fast_strategy *strategy = NULL;
    void *config = NULL;

    if (!c->strategy[0] || strcmp(c->strategy, "auto") == 0)
        return FAST_OK;
    FAST_TRY(fast__strategy_open(c->strategy, NULL, &strategy, &config));
    fast__free(config);
    return FAST_OK;
}

/* Make the job and its space. */
static fast_err open_space(plan_lab *lab)
{
    const C *c = &lab->config;
    fast_plan_job job = { .graph = lab->run->graph,
                          .cluster = c->cluster,
                          .workers = c->workers,
                          .batch = c->batch,
                          .pipeline = c->pipeline,
                          .chunks = c->chunks,
                          .micro_batches = c->accumulate,
                          .strategy = c->strategy,
                          .layout = c->layout,
                          .cuts = c->cuts,
                          .recompute = c->recompute,
                          .seed = lab->run->config.seed };

    if (lab->run->data.train && c->batch > lab->run->data.train->count)
        return fast__fail(FAST_EINVAL,
                          "plan: batch=%lld is of all workers, and there are %lld samples",
                          (long long)c->batch, (long long)lab->run->data.train->count);
    FAST_TRY(check_strategy(c));
    FAST_TRY(given_mesh(c->mesh, &job.mesh));
    fast__plan_job_rule(&job, lab->run->optimizer);
    /* Stages are compiled as the whole network is, and their workspaces are parts of its own. */
    fast_engine_options engine = fast__run_engine_options(lab->run);
    engine.batch = lab->run->program->batch;
    FAST_TRY(fast__plan_job_engine(&job, lab->run->engine, &engine));
    /* The simulator charges each sample; a machine computes whole lanes of them. */
    job.granule = c->verify == VERIFY_THREADS ? job.lanes : 1;
    if (c->memory[0])
        FAST_TRY(fast__memory_size(c->memory, &job.memory));
    return fast__plan_space_open(&job, &lab->space);
}

/* Tell the caller how far the search is. */
static bool on_search(void *ctx, const fast_planning *planning)
{
    plan_lab *lab = ctx;

    if (!lab->progress)
        return true;
    return planning->dry_runs > 0
               ? lab->progress(lab->ctx, "dry runs", planning->dry_runs,
                               planning->planner->measures ? 0 : planning->dry_max)
               : lab->progress(lab->ctx, "plans", planning->offered, 0);
}

/* Say where the time of a plan goes. */
static void explain(const plan_lab *lab, const fast_planned *planned, char *text, size_t size)
{
    const fast_plan_cost *c = &planned->cost;
    const fast_plan *plan = &planned->plan;
    const double step = fmax(c->step_s, 1e-12);
    const double waits = c->bubble * fmax(0, c->step_s - c->exchange_s) / step;
    const int64_t most = fast__plan_memory_max(lab->space, plan, c->fullest);
    size_t used = (size_t)snprintf(text, size, "passes of the busiest worker %.0f%% of the step",
                                   100 * fmin(1, c->compute_s / step));

    if (plan->mesh.pipe > 1 || c->bubble > 0.05)
        used += (size_t)snprintf(text + used, size - used, ", waiting for each other %.0f%%",
                                 100 * waits);
    if (plan->mesh.data > 1)
        used += (size_t)snprintf(text + used, size - used,
                                 ", gradients, updates and waiting for other replicas "
                                 "%.0f%%",
                                 100 * c->exchange_s / step);
    if (most > 0)
        snprintf(text + used, size - used, "; worker %lld takes %.0f%% of its memory",
                 (long long)c->fullest, 100 * (double)c->memory / (double)most);
}

/* Write the options of a plan as flags. */
static fast_err flags_of(const plan_lab *lab, const fast_plan *plan, char *text, size_t size)
{
    char options[TEXT_MAX];
    size_t used = 0;

    if (fast__plan_options(lab->space, plan, options, sizeof options) > sizeof options)
        return fast__fail(FAST_EINVAL, "plan: the options of a plan are too long to be written");
    for (const char *o = options; *o; o += strlen(o) + 1) {
        const size_t length = strcspn(o, "=");

        used += (size_t)snprintf(text + used, size - used, "%s--%.*s %s", used > 0 ? " " : "",
                                 (int)length, o, o + length + 1);
        if (used >= size)
            return fast__fail(FAST_EINVAL, "plan: the options of a plan are too long");
    }
    return FAST_OK;
}

/* Fill a row; its texts are the lab's. */
static fast_err fill_row(plan_lab *lab, const fast_planned *planned, fast_plan_row *row)
{
    const fast_plan *plan = &planned->plan;
    char text[TEXT_MAX], schedule[FAST_PIPELINE_NAME_MAX] = "", *mesh;

    *row = (fast_plan_row){ .workers = fast__mesh_size(&plan->mesh),
                            .batch = fast__plan_micro_batch(lab->space, plan),
                            .accumulate = plan->way.micro_batches,
                            .chunks = plan->mesh.pipe > 1 ? plan->way.chunks : 0,
                            .step_s = planned->cost.step_s,
                            .estimate_s = planned->estimate.step_s,
                            .compute_s = planned->cost.compute_s,
                            .exchange_s = planned->cost.exchange_s,
                            .bubble = planned->cost.bubble,
                            .memory = planned->cost.memory,
                            .fullest = planned->cost.fullest,
                            .verified_s = NAN };
    FAST_TRY(flags_of(lab, plan, text, sizeof text));
    FAST_TRY(fast__words_add(&lab->texts, text));
    row->options = lab->texts.items[lab->texts.count - 1];
    mesh = text + strlen("--mesh ");
    mesh[strcspn(mesh, " ")] = '\0';
    if (plan->mesh.pipe > 1)
        fast__pipe_name(plan->way.pipeline, schedule);
    FAST_TRY(fast__words_add(&lab->texts, schedule));
    row->pipeline = lab->texts.items[lab->texts.count - 1];
    FAST_TRY(fast__words_add(&lab->texts, mesh));
    row->mesh = lab->texts.items[lab->texts.count - 1];
    explain(lab, planned, text, sizeof text);
    FAST_TRY(fast__words_add(&lab->texts, text));
    row->why = lab->texts.items[lab->texts.count - 1];
    return FAST_OK;
}

/* Train a plan for a few steps: the caller's options of a run, then the plan's, then where it is
 * trained. Nodes have no meaning for threads. */
static fast_err verify(plan_lab *lab, const fast_planned *planned, fast_plan_row *row)
{
    const bool sim = lab->config.verify == VERIFY_SIM;
    char options[TEXT_MAX];
    fast_words words = { 0 };
    fast_err err = FAST_OK;

    fast__plan_options(lab->space, &planned->plan, options, sizeof options);
    for (int64_t i = 0; i < lab->run_options.count && !err; i++)
        err = fast__words_add(&words, lab->run_options.items[i]);
    for (const char *o = options; *o && !err; o += strlen(o) + 1)
        if (sim || strncmp(o, "placement=", 10) != 0)
            err = fast__words_add(&words, o);
    if (!err)
        err = fast__words_format(&words, "transport=%s", sim ? "sim" : "threads");
    if (!err && sim)
        err = fast__words_format(&words, "cluster=%s", lab->config.cluster);
    if (!err)
        err = fast__words_add(&words, "evaluate=no");
    if (!err)
        err = fast__words_add(&words, "store=none");
    if (!err)
        err = fast__plan_verify(&words, fast__plan_warm(lab->space, &planned->plan),
                                sim ? SIM_STEPS : REAL_STEPS, &row->verified_s,
                                &row->verified_memory);
    fast__words_fini(&words);
    return err;
}

/* Did a worker take more memory in a run than it may? The estimate is of sums, not of a compiled
 * program. */
static bool overflowed(const plan_lab *lab, const fast_planned *planned, const fast_plan_row *row)
{
    const int64_t most = fast__plan_memory_max(lab->space, &planned->plan, planned->cost.fullest);

    return most > 0 && row->verified_memory > most;
}

/* Fill the rows of the best plans, and verify them; such as take too much memory are left out. */
static fast_err fill_rows(plan_lab *lab)
{
    const int64_t top = lab->config.top;
    int64_t count = 0;

    for (int64_t i = 0; i < lab->planning.count && count < top; i++, lab->tried++) {
        const fast_planned *planned = &lab->planning.plans[i];

        FAST_TRY(fill_row(lab, planned, &lab->rows[count]));
        if (lab->progress && lab->config.verify != VERIFY_NO &&
            !lab->progress(lab->ctx, "short runs", count, top))
            return fast__fail(FAST_ECANCELED, "the search was stopped");
        if (lab->config.verify != VERIFY_NO)
            FAST_TRY(verify(lab, planned, &lab->rows[count]));
        if (!overflowed(lab, planned, &lab->rows[count]))
            lab->best[count++] = planned;
        else
            lab->planning.unfit++;
    }
    if (count == 0)
        return fast__fail(FAST_EINVAL,
                          "plan: all %lld plans took more memory in a run than workers may; allow "
                          "more memory, workers or micro-batches",
                          (long long)lab->planning.count);
    lab->result.rows = lab->rows;
    lab->result.row_count = count;
    return FAST_OK;
}

/* Is a plan of this kind: 0 data alone, 1 pipe alone, 2 tensor alone, 3 one worker? */
static bool is_kind(const fast_plan *plan, int kind)
{
    const fast_mesh *m = &plan->mesh;

    return (kind == 0 ? m->data > 1 : m->data == 1) && (kind == 1 ? m->pipe > 1 : m->pipe == 1) &&
           (kind == 2 ? m->tensor > 1 : m->tensor == 1);
}

/* Was a plan left out, since it took too much memory in its run? */
static bool is_left_out(const plan_lab *lab, int64_t index)
{
    bool shown = false;

    for (int64_t i = 0; i < lab->result.row_count; i++)
        shown = shown || lab->best[i] == &lab->planning.plans[index];
    return index < lab->tried && !shown;
}

/* Fill the rows of the best plan of each kind, where that is not the best of all. Plans are sorted,
 * so the first of a kind is its best; a kind that has no plan is left out. */
static fast_err fill_others(plan_lab *lab)
{
    lab->result.others = lab->rows + lab->result.row_count;
    for (int kind = 0; kind < OTHERS_MAX; kind++)
        for (int64_t i = 0; i < lab->planning.count; i++) {
            const fast_planned *planned = &lab->planning.plans[i];

            if (!is_kind(&planned->plan, kind) || is_left_out(lab, i))
                continue;
            if (planned != lab->best[0]) {
                lab->kinds[lab->result.other_count] = kind;
                FAST_TRY(fill_row(lab, planned,
                                  &lab->rows[lab->result.row_count + lab->result.other_count++]));
            }
            break;
        }
    return FAST_OK;
}

/* Append a sentence. */
static void say(plan_lab *lab, const char *format, ...) __attribute__((format(printf, 2, 3)));

static void say(plan_lab *lab, const char *format, ...)
{
    const size_t used = strlen(lab->why);
    va_list list;

    va_start(list, format);
    vsnprintf(lab->why + used, sizeof lab->why - used, format, list);
    va_end(list);
}

/* Say why the best is the best, by what others lose:
 *
 *     The best plan: passes of the busiest worker 58% of the step, waiting for each other 42%.
 *     Replicas alone (data=2) take 1.16 times as long: ...
 *     1661 plans take too much memory as they are; the fastest of them, data=4, ...
 */
static void say_why(plan_lab *lab)
{
    static const char *const kinds[] = { "Replicas alone (%s) take", "Stages alone (%s) take",
                                         "Shards alone (%s) take", "One worker (%s) takes" };
    const fast_plan_row *best = &lab->rows[0];

    say(lab, "The best plan: %s.", best->why);
    if (lab->config.pipeline[0] && lab->best[0]->plan.mesh.pipe == 1)
        say(lab, " It has one stage, so pipeline=%.40s has no effect.", lab->config.pipeline);
    for (int64_t i = 0; i < lab->result.other_count; i++) {
        const fast_plan_row *other = &lab->result.others[i];
        say(lab, " ");
        say(lab, kinds[lab->kinds[i]], other->mesh);
        say(lab, " %.2f times as long: %s.", other->step_s / best->step_s, other->why);
    }
    if (lab->planning.unfit > 0)
        say(lab,
            " %lld plans take too much memory as they are; the fastest of them, %s, would take "
            "%.3g ms and %.1f MB on worker %lld.",
            (long long)lab->planning.unfit, lab->result.unfit_mesh, 1e3 * lab->result.unfit_s,
            (double)lab->result.unfit_memory * 1e-6,
            (long long)lab->planning.fastest_unfit.cost.fullest);
}

/* The command that trains with the best plan. */
static fast_err put_command(plan_lab *lab)
{
    char text[2 * TEXT_MAX] = "fast train", word[TEXT_MAX];
    const char *best = lab->rows[0].options, *placement = strstr(best, "--placement ");
    size_t used = strlen(text);

    for (int64_t i = 0; i < lab->run_options.count; i++) {
        const char *o = lab->run_options.items[i];
        const size_t length = strcspn(o, "=");

        fast_text_quote(o + length + 1, word, sizeof word);
        used +=
            (size_t)snprintf(text + used, sizeof text - used, " --%.*s %s", (int)length, o, word);
    }
    /* On this machine the nodes of a cluster have no meaning. */
    if (lab->config.verify == VERIFY_THREADS) {
        snprintf(text + used, sizeof text - used, " --transport threads %.*s",
                 (int)(placement ? placement - best - 1 : (int64_t)strlen(best)), best);
        FAST_TRY(fast__words_add(&lab->texts, text));
        lab->result.command = lab->texts.items[lab->texts.count - 1];
        return FAST_OK;
    }
    if (lab->config.cluster[0]) {
        fast_text_quote(lab->config.cluster, word, sizeof word);
        used += (size_t)snprintf(text + used, sizeof text - used, " --cluster %s", word);
    }
    snprintf(text + used, sizeof text - used, " --transport sim %s", lab->rows[0].options);
    FAST_TRY(fast__words_add(&lab->texts, text));
    lab->result.command = lab->texts.items[lab->texts.count - 1];
    return FAST_OK;
}

/* Fill in what the result says of the whole search. */
static fast_err fill_result(plan_lab *lab)
{
    fast_plan_result *r = &lab->result;
    const fast_planning *p = &lab->planning;

    r->planner = p->planner->name;
    r->model = lab->run->config.model;
    r->cluster = lab->config.cluster;
    r->params = lab->run->graph->params.count;
    r->batch = lab->config.batch;
    r->nodes = lab->space->node_count;
    r->offered = p->offered;
    r->dry_runs = p->dry_runs;
    r->unfit = p->unfit;
    r->unfit_mesh = "";
    if (p->unfit > 0) {
        fast_plan_row row;

        FAST_TRY(fill_row(lab, &p->fastest_unfit, &row));
        r->unfit_mesh = row.mesh;
        r->unfit_s = row.step_s;
        r->unfit_memory = row.memory;
    }
    FAST_TRY(fill_others(lab));
    say_why(lab);
    r->why = lab->why;
    return put_command(lab);
}

/* Search, verify, explain. The run of one worker stays open: plans are of its network. */
static fast_err run_lab(plan_lab *lab, const char *const *options)
{
    FAST_TRY(read_options(lab, options));
    FAST_TRY(open_run(lab));
    FAST_TRY(open_space(lab));
    FAST_TRY(fast__plan_search(lab->space,
                               &(fast_planning_options){ .planner = lab->config.planner,
                                                         .dry_runs = lab->config.dry_runs,
                                                         .watch = on_search,
                                                         .watch_ctx = lab },
                               &lab->planning));
    FAST_TRY(fill_rows(lab));
    return fill_result(lab);
}

fast_err fast_plan_run(const char *const *options, fast_plan_progress_fn *progress, void *ctx,
                       fast_plan_result **out)
{
    plan_lab *lab = NULL;

    FAST_ASSERT(out != NULL);
    FAST_TRY(fast__alloc("a planning", 1, sizeof *lab, &lab));
    lab->progress = progress;
    lab->ctx = ctx;
    const fast_err err = run_lab(lab, options);
    if (err) {
        fast_plan_free(&lab->result);
        return err;
    }
    *out = &lab->result;
    return FAST_OK;
}

void fast_plan_free(fast_plan_result *result)
{
    plan_lab *lab = (plan_lab *)result;

    if (!lab)
        return;
    fast__planning_fini(&lab->planning);
    fast__plan_space_close(lab->space);
    fast_run_close(lab->run);
    fast__words_fini(&lab->run_options);
    fast__words_fini(&lab->texts);
    fast__free(lab);
}
