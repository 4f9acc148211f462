/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A run as JSON (RFC 8259), one object a line: its result, in the words of `fast train --json`; its
 * options, as they were resolved; the machine and the versions that it ran with. Numbers that have
 * no meaning are null. Bytes that are not valid UTF-8 (from file names) are replaced, so that the
 * line always parses.
 */
#include "base/json.h"
#include "base/memory.h"
#include "base/thread.h"
#include "learner/figures.h"
#include "run/run.h"
#include "run/team.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>
#include <unistd.h>

enum { MATRIX_MAX = 100 }; /* classes of a confusion matrix that is printed: 10,000 numbers */

/* Add a text; null if it is NULL. */
static void put_text(json_t **o, const char *key, const char *value)
{
    fast__json_set(o, key, fast__json_text(value));
}

/* Add a whole number. */
static void put_int(json_t **o, const char *key, int64_t value)
{
    fast__json_set(o, key, json_integer(value));
}

/* Add a number; null if it is not finite. */
static void put_real(json_t **o, const char *key, double value)
{
    fast__json_set(o, key, fast__json_real(value));
}

/* Does the run encode its messages, in any phase? */
static bool is_coded(const fast_run *run)
{
    return strcmp(run->config.codec, "none") != 0 || strcmp(run->config.codec_down, "none") != 0 ||
           strstr(run->config.phases, "codec=");
}

/* An option of several workers; null for a run of one worker. */
static void put_team_option(json_t **o, const fast_run *run, const char *name)
{
    const char *value = fast_run_option(run, name);

    put_text(o, name, !run->team->single && strcmp(value, "auto") != 0 ? value : NULL);
}

/* One list for each measure, with a number for each worker. */
static void put_workers(json_t **o, const fast_run *run)
{
    static const char *const names[] = { "worker_steps", "worker_compute_s", "worker_exchange_s",
                                         "worker_wait_s", "worker_bytes_sent" };
    enum { NAMES = sizeof names / sizeof names[0] };
    json_t *lists[NAMES];

    for (int k = 0; k < NAMES; k++)
        lists[k] = json_array();
    for (int64_t i = 0; i < run->config.workers; i++) {
        fast_worker w = { 0 };
        const bool known = fast_run_worker(run, i, &w);
        const double values[NAMES] = { (double)w.steps, w.compute_s, w.exchange_s, w.wait_s,
                                       (double)w.bytes_sent };

        for (int k = 0; k < NAMES; k++)
            fast__json_append(&lists[k], fast__json_real(known ? values[k] : NAN));
    }
    for (int k = 0; k < NAMES; k++)
        fast__json_set(o, names[k], lists[k]);
}

/* The histogram of staleness as an array. */
static json_t *staleness_of(const fast_result *r)
{
    json_t *counts = json_array();

    for (int i = 0; i < FAST_STALENESS_BUCKETS; i++)
        fast__json_append(&counts, json_integer(r->staleness[i]));
    return counts;
}

/* A split model: its mesh, its schedule, the micro-batches that each worker of this process had in
 * flight at once, and the versions of the weights of their passes. */
static void put_split(json_t **o, const fast_run *run)
{
    json_t *flight = json_array(), *stale = json_array(), *gap = json_array();

    for (int64_t i = 0; i < run->config.workers; i++) {
        const fast_team_actor *self = run->team->actors[i];
        const fast_pipe *pipe = self ? &self->context.pipe : NULL;

        fast__json_append(&flight, pipe ? json_integer(pipe->in_flight_max) : json_null());
        fast__json_append(&stale, pipe ? json_integer(pipe->staleness_max) : json_null());
        fast__json_append(&gap, pipe ? json_integer(pipe->gap_max) : json_null());
    }
    put_text(o, "mesh", fast_run_option(run, "mesh"));
    put_text(o, "layout", fast_run_option(run, "layout"));
    put_text(o, "cuts", fast_run_option(run, "cuts"));
    put_text(o, "pipeline", fast_run_option(run, "pipeline"));
    fast__json_set(o, "worker_in_flight", flight);
    fast__json_set(o, "worker_staleness", stale);
    fast__json_set(o, "worker_gap", gap);
}

/* Measures of several workers. */
static void put_team(json_t **o, const fast_run *run, const fast_result *r)
{
    const bool stale = r->staleness_max >= 0;

    if (run->config.mesh[0])
        put_split(o, run);
    put_text(o, "phases", run->config.phases[0] ? run->config.phases : NULL);
    put_text(o, "representative", run->config.representative);
    put_real(o, "exchange_s", r->exchange_s);
    put_real(o, "bytes_per_step", r->bytes_per_step);
    put_text(o, "waited_for", r->waited_for);
    put_real(o, "waited_share", r->waited_share);
    put_int(o, "workers_lost", r->workers_lost);
    put_real(o, "staleness_p50", stale ? (double)r->staleness_p50 : NAN);
    put_real(o, "staleness_p95", stale ? (double)r->staleness_p95 : NAN);
    fast__json_set(o, "staleness", stale ? staleness_of(r) : json_null());
    put_workers(o, run);
    if (r->codec_note)
        put_text(o, "codec_note", r->codec_note);
    if (!is_coded(run))
        return;
    put_text(o, "codec_down", fast_run_option(run, "codec_down"));
    put_text(o, "codec_sum", r->codec_sum);
    put_int(o, "codec_bytes_in", r->codec_bytes_in);
    put_int(o, "codec_bytes_out", r->codec_bytes_out);
    put_real(o, "codec_ratio",
             r->codec_bytes_out > 0 ? (double)r->codec_bytes_in / (double)r->codec_bytes_out : NAN);
    put_real(o, "encode_s", r->encode_s);
    put_real(o, "decode_s", r->decode_s);
    put_real(o, "break_even_mbit_per_s", r->break_even_mbit_per_s);
}

/* The job, its workers and how long it took. */
static void put_job(json_t **o, const fast_run *run, const fast_result *r)
{
    const char *system = fast_run_option(run, "system");

    put_text(o, "system", system[0] ? system : NULL);
    put_team_option(o, run, "strategy");
    put_text(o, "codec", is_coded(run) ? fast_run_option(run, "codec") : NULL);
    put_team_option(o, run, "topology");
    put_team_option(o, run, "transport");
    put_text(o, "model", fast_run_option(run, "model"));
    put_text(o, "data", fast_run_option(run, "data"));
    put_int(o, "workers", run->config.workers);
    put_int(o, "seed", run->config.seed);
    put_int(o, "steps", r->steps);
    put_int(o, "samples", r->samples);
    put_real(o, "samples_per_s", r->samples_per_s);
    put_real(o, "time_s", r->time_s);
    put_real(o, "virtual_time_s", r->virtual_time_s);
    put_real(o, "loss", r->loss);
    put_real(o, "test_accuracy", r->test_accuracy);
    put_real(o, "time_to_target_s", r->time_to_target_s);
    put_int(o, "bytes_sent", r->bytes_sent);
    put_int(o, "messages_sent", r->messages_sent);
    put_real(o, "compute_s", r->compute_s);
    put_real(o, "wait_s", r->wait_s);
    put_real(o, "codec_s", r->codec_s);
    put_real(o, "staleness_mean", r->staleness_mean);
    put_real(o, "staleness_max", r->staleness_max < 0 ? NAN : (double)r->staleness_max);
    put_real(o, "divergence", r->divergence);
    put_real(o, "completeness", r->completeness);
    put_real(o, "implicit_momentum", r->momentum);
    put_real(o, "implicit_momentum_error", r->momentum_error);
}

/* Whether the model is worth using, and why it is not; and who was lost. */
static void put_verdict(json_t **o, const fast_run *run, const fast_result *r)
{
    const bool few = 2 * r->workers_lost > run->config.workers;
    const char *why = !r->stop[0]                        ? "the run failed"
                      : strcmp(r->stop, "diverged") == 0 ? "the loss is not a finite number"
                      : few                              ? "most workers were lost"
                      : r->canceled                      ? "the run was stopped before its end"
                                                         : NULL;

    fast__json_set(o, "usable", json_boolean(!why));
    if (why)
        put_text(o, "unusable", why);
    if (run->text.lost[0])
        put_text(o, "lost", run->text.lost);
}

/* Files that the run has left, and why one is not where it was asked for. */
static void put_files(json_t **o, const fast_run *run)
{
    if (run->text.checkpoint[0])
        put_text(o, "checkpoint", run->text.checkpoint);
    if (run->text.weights[0])
        put_text(o, "weights", run->text.weights);
    if (run->text.error[0])
        put_text(o, "error", run->text.error);
}

/* Measures of several workers follow those of every run: readers of older logs find their keys in
 * the same places. */
fast_err fast__run_json_log(const fast_result *r, bool several, int64_t step_count, FILE *file)
{
    json_t *o = json_object();

    FAST_ASSERT(file != NULL);
    put_int(&o, "step", r->steps);
    put_real(&o, "progress", step_count > 0 ? (double)r->steps / (double)step_count : NAN);
    put_int(&o, "samples", r->samples);
    put_int(&o, "epoch", r->epoch);
    put_real(&o, "time_s", r->time_s);
    put_real(&o, "loss", r->loss);
    put_real(&o, "train_accuracy", r->train_accuracy);
    put_real(&o, "test_loss", r->test_loss);
    put_real(&o, "test_accuracy", r->test_accuracy);
    if (r->best_step >= 0) {
        put_real(&o, "validation_loss", r->validation_loss);
        put_real(&o, "validation_accuracy", r->validation_accuracy);
        put_int(&o, "best_step", r->best_step);
    }
    if (several) {
        put_int(&o, "bytes_sent", r->bytes_sent);
        put_int(&o, "messages_sent", r->messages_sent);
        put_real(&o, "compute_s", r->compute_s);
        put_real(&o, "exchange_s", r->exchange_s);
        put_real(&o, "wait_s", r->wait_s);
        put_real(&o, "staleness_mean", r->staleness_mean);
        put_real(&o, "staleness_p50", r->staleness_p50 < 0 ? NAN : (double)r->staleness_p50);
        put_real(&o, "staleness_p95", r->staleness_p95 < 0 ? NAN : (double)r->staleness_p95);
        put_real(&o, "staleness_max", r->staleness_max < 0 ? NAN : (double)r->staleness_max);
        fast__json_set(&o, "staleness", staleness_of(r));
        put_real(&o, "divergence", r->divergence);
        put_real(&o, "completeness", r->completeness);
    }
    return fast__json_write(&o, file);
}

/* The figures, with the names of the classes where the data have some. */
static json_t *figures_json(const fast_run *run)
{
    json_t *figures = fast__figures_json(fast_run_figures(run), MATRIX_MAX);
    const json_t *classes = json_object_get(figures, "by_class");
    const char *name = run->data.train ? run->data.train->class_names : NULL;

    for (size_t i = 0; name && i < json_array_size(classes); i++, name += strlen(name) + 1) {
        json_t *row = json_array_get(classes, i);

        fast__json_set(&row, "name", fast__json_text(name));
    }
    return figures;
}

/* Keys are part of the program's interface: `fast compare`, the store and scripts read them. */
fast_err fast__run_json_result(const fast_run *run, char **out)
{
    const fast_result *r = &run->result;
    json_t *o = json_object();

    FAST_ASSERT(out != NULL);
    put_job(&o, run, r);
    /* A run that failed has no trained model: its replicas are lost. */
    fast__json_set(&o, "params_hash", fast__json_hash(r->stop[0] ? r->params_hash : 0));
    fast__json_set(&o, "plan_hash", fast__json_hash(r->plan_hash));
    put_int(&o, "memory_peak", r->memory_peak);
    put_int(&o, "predicted_memory", r->predicted_memory);
    put_int(&o, "model_state_bytes", r->model_state_bytes);
    put_text(&o, "stop", r->stop[0] ? r->stop : "failed");
    put_text(&o, "engine", fast_run_option(run, "engine"));
    put_text(&o, "optimizer", fast_run_option(run, "optimizer"));
    put_text(&o, "schedule", fast_run_option(run, "schedule"));
    put_real(&o, "lr", strtod(fast_run_option(run, "lr"), NULL));
    put_int(&o, "batch", run->config.batch);
    put_int(&o, "epoch", r->epoch);
    put_int(&o, "param_count", r->param_count);
    put_real(&o, "train_accuracy", r->train_accuracy);
    put_real(&o, "test_loss", r->test_loss);
    put_real(&o, "wall_time_s", r->wall_time_s);
    put_real(&o, "step_s", r->step_s);
    put_real(&o, "predicted_step_s", r->predicted_step_s);
    put_real(&o, "predicted_compute_s", r->predicted_compute_s);
    put_real(&o, "predicted_exchange_s", r->predicted_exchange_s);
    put_real(&o, "predicted_straggler_s", r->predicted_straggler_s);
    put_real(&o, "work", r->work);
    put_real(&o, "depth", r->depth);
    if (!run->team->single)
        put_team(&o, run, r);
    if (r->best_step >= 0) {
        put_real(&o, "validation_loss", r->validation_loss);
        put_real(&o, "validation_accuracy", r->validation_accuracy);
        put_int(&o, "best_step", r->best_step);
    }
    if (fast_run_figures(run))
        fast__json_set(&o, "figures", figures_json(run));
    put_verdict(&o, run, r);
    put_files(&o, run);
    return fast__json_print(&o, out);
}

const char *fast_run_json(fast_run *run)
{
    char *text = NULL;

    FAST_ASSERT(run != NULL);
    if (fast__run_json_result(run, &text))
        return NULL;
    fast__free(run->json);
    run->json = text;
    return text;
}

fast_err fast__run_json_options(const fast_run *run, char **out)
{
    json_t *o = json_object();

    for (const fast_option *option = fast__run_options; option->name; option++) {
        const char *value = fast_run_option(run, option->name);

        if (option->type == FAST_OPTION_INT)
            put_int(&o, option->name, strtoll(value, NULL, 10));
        else if (option->type == FAST_OPTION_REAL)
            fast__json_set(&o, option->name, fast__json_exact(strtod(value, NULL)));
        else
            put_text(&o, option->name, value);
    }
    return fast__json_print(&o, out);
}

fast_err fast__run_json_machine(char **out)
{
    int64_t count = 0;
    const fast_feature *features = fast_feature_list(&count);
    struct utsname name;
    char processor[128];
    json_t *o = json_object();

    fast_processor_name(processor, sizeof processor);
    put_text(&o, "processor", processor);
    put_int(&o, "cores", fast__cpu_count());
    put_int(&o, "memory", (int64_t)sysconf(_SC_PHYS_PAGES) * (int64_t)sysconf(_SC_PAGESIZE));
    if (uname(&name) == 0) {
        put_text(&o, "host", name.nodename);
        put_text(&o, "arch", name.machine);
        put_text(&o, "kernel", name.release);
    }
    put_text(&o, "fast", fast_version());
    for (int64_t i = 0; i < count; i++)
        put_text(&o, features[i].name, features[i].version);
    return fast__json_print(&o, out);
}
