/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A run as JSON (RFC 8259), one object a line: its result, in the words of `fast train --json`; its
 * options, as they were resolved; the machine and the versions that it ran with. Numbers that have
 * no meaning are null. Bytes that are not valid UTF-8 (from file names) are replaced, so that the
 * line always parses.
 */
#include "tensor/json.h"
#include "base/memory.h"
#include "base/thread.h"
#include "run/run.h"
#include "run/team.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>
#include <unistd.h>

enum { TEXT_FIRST = 4096 };

/* An object that grows. What cannot be had is remembered, and looked at once, at the end. */
typedef struct object {
    char *text;   /* with a zero byte */
    size_t used;  /* without it */
    size_t room;  /* in all */
    fast_err err; /* of memory */
} object;

/* Room for `size` more bytes and a zero byte. */
static bool make_room(object *o, size_t size)
{
    if (o->err || o->used + size < o->room)
        return !o->err;
    char *text = NULL;
    const size_t room = 2 * (o->room + size) + TEXT_FIRST;
    o->err = fast__alloc("JSON", (int64_t)room, 1, &text);
    if (o->err)
        return false;
    if (o->used > 0)
        memcpy(text, o->text, o->used);
    fast__free(o->text);
    o->text = text;
    o->room = room;
    return true;
}

__attribute__((format(printf, 2, 3))) static void put(object *o, const char *format, ...)
{
    char piece[128];
    va_list args;
    va_start(args, format);
    const int size = vsnprintf(piece, sizeof piece, format, args);
    va_end(args);
    FAST_ASSERT(size >= 0 && (size_t)size < sizeof piece);
    if (!make_room(o, (size_t)size))
        return;
    memcpy(o->text + o->used, piece, (size_t)size + 1);
    o->used += (size_t)size;
}

static void put_string(object *o, const char *text)
{
    size_t left = strlen(text);
    put(o, "\"");
    while (left > 0) {
        const size_t size = (size_t)fast__utf8_length(text, left);
        if (size == 0)
            put(o, "\\ufffd");
        else if (*text == '"' || *text == '\\')
            put(o, "\\%c", *text);
        else if ((unsigned char)*text < 0x20)
            put(o, "\\u%04x", (unsigned)*text);
        else
            put(o, "%.*s", (int)size, text);
        text += size > 0 ? size : 1;
        left -= size > 0 ? size : 1;
    }
    put(o, "\"");
}

static void put_key(object *o, const char *key)
{
    put(o, o->used > 1 ? ", " : "");
    put_string(o, key);
    put(o, ": ");
}

static void put_text(object *o, const char *key, const char *value)
{
    put_key(o, key);
    if (value)
        put_string(o, value);
    else
        put(o, "null");
}

static void put_int(object *o, const char *key, int64_t value)
{
    put_key(o, key);
    put(o, "%lld", (long long)value);
}

static void put_number(object *o, double value)
{
    if (isfinite(value))
        put(o, "%.9g", value);
    else
        put(o, "null");
}

static void put_real(object *o, const char *key, double value)
{
    put_key(o, key);
    put_number(o, value);
}

/* 16 digits as text, because readers keep numbers as doubles of 53 bits; 0 gives null. */
static void put_hash(object *o, const char *key, uint64_t value)
{
    char text[17];
    snprintf(text, sizeof text, "%016llx", (unsigned long long)value);
    put_text(o, key, value ? text : NULL);
}

/* End the object and hand it over. */
static fast_err finish(object *o, char **out)
{
    put(o, "}");
    if (o->err) {
        fast__free(o->text);
        return o->err;
    }
    *out = o->text;
    return FAST_OK;
}

/* Several workers, or one that was asked to take part in a strategy. */
static bool has_team(const fast_run *run)
{
    return strcmp(fast_run_option(run, "transport"), "auto") != 0;
}

static bool is_coded(const fast_run *run)
{
    return strcmp(run->config.codec, "none") != 0 || strcmp(run->config.codec_down, "none") != 0 ||
           strstr(run->config.then, "codec=");
}

/* An option of several workers; null where there is one, alone. */
static void put_team_option(object *o, const fast_run *run, const char *name)
{
    const char *value = fast_run_option(run, name);

    put_text(o, name, has_team(run) && strcmp(value, "auto") != 0 ? value : NULL);
}

/* One number of each worker. */
static void put_workers(object *o, const fast_run *run)
{
    static const char *const names[] = { "worker_steps", "worker_compute_s", "worker_exchange_s",
                                         "worker_wait_s", "worker_bytes_sent" };

    for (int k = 0; k < 5; k++) {
        put_key(o, names[k]);
        put(o, "[");
        for (int64_t i = 0; i < run->config.workers; i++) {
            fast_worker w;
            const bool here = fast_run_worker(run, i, &w);

            put(o, i ? ", " : "");
            put_number(o, !here    ? NAN
                          : k == 0 ? (double)w.steps
                          : k == 1 ? w.compute_s
                          : k == 2 ? w.exchange_s
                          : k == 3 ? w.wait_s
                                   : (double)w.bytes_sent);
        }
        put(o, "]");
    }
}

static void put_staleness(object *o, const fast_result *r)
{
    if (r->staleness_max < 0) {
        put_text(o, "staleness", NULL);
        return;
    }
    put_key(o, "staleness");
    for (int i = 0; i < FAST_STALENESS_BUCKETS; i++)
        put(o, "%s%lld", i ? ", " : "[", (long long)r->staleness[i]);
    put(o, "]");
}

/* What only several workers have. */
static void put_team(object *o, const fast_run *run, const fast_result *r)
{
    const bool stale = r->staleness_max >= 0;

    put_text(o, "then", run->config.then[0] ? run->config.then : NULL);
    put_text(o, "representative", run->config.representative);
    put_real(o, "exchange_s", r->exchange_s);
    put_real(o, "bytes_per_step", r->bytes_per_step);
    put_text(o, "waited_for", r->waited_for);
    put_real(o, "waited_share", r->waited_share);
    put_real(o, "staleness_p50", stale ? (double)r->staleness_p50 : NAN);
    put_real(o, "staleness_p95", stale ? (double)r->staleness_p95 : NAN);
    put_staleness(o, r);
    put_workers(o, run);
    if (r->codec_note)
        put_text(o, "codec_note", r->codec_note);
    if (!is_coded(run))
        return;
    put_text(o, "codec_down", fast_run_option(run, "codec_down"));
    put_int(o, "codec_bytes_in", r->codec_bytes_in);
    put_int(o, "codec_bytes_out", r->codec_bytes_out);
    put_real(o, "codec_ratio",
             r->codec_bytes_out > 0 ? (double)r->codec_bytes_in / (double)r->codec_bytes_out : NAN);
    put_real(o, "encode_s", r->encode_s);
    put_real(o, "decode_s", r->decode_s);
    put_real(o, "break_even_mbit_per_s", r->break_even_mbit_per_s);
}

/* What was trained, with whom and for how long. */
static void put_job(object *o, const fast_run *run, const fast_result *r)
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

fast_err fast__run_json_result(const fast_run *run, char **out)
{
    const fast_result *r = &run->result;
    object o = { 0 };

    FAST_ASSERT(out != NULL);
    put(&o, "{");
    put_job(&o, run, r);
    put_hash(&o, "params_hash", r->params_hash);
    put_hash(&o, "plan_hash", r->plan_hash);
    put_int(&o, "memory_peak", r->memory_peak);
    put_text(&o, "stop", r->stop);
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
    if (has_team(run))
        put_team(&o, run, r);
    return finish(&o, out);
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
    object o = { 0 };

    put(&o, "{");
    for (const fast_option *option = fast__run_options; option->name; option++) {
        const char *value = fast_run_option(run, option->name);
        if (option->type == FAST_OPTION_INT || option->type == FAST_OPTION_REAL) {
            put_key(&o, option->name);
            put(&o, "%.64s", value);
        } else {
            put_text(&o, option->name, value);
        }
    }
    return finish(&o, out);
}

fast_err fast__run_json_machine(char **out)
{
    int64_t count = 0;
    const fast_feature *features = fast_feature_list(&count);
    struct utsname name;
    char processor[128];
    object o = { 0 };

    fast_processor_name(processor, sizeof processor);
    put(&o, "{");
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
    return finish(&o, out);
}
