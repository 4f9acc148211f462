/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The comparison that the page "Which strategy?" asks for: `fast compare` as a process, one at a
 * time. It says how far it is as JSON, a line each, and stores its runs and its verdict itself, so
 * that the answer is read from the store as for a comparison of a terminal.
 *
 *   POST /api/comparisons  {"options": {"system": "bsp,easgd", "budget": "10s"}}
 *        202 {"name": NAME} once its options are accepted, 400 and a sentence if they are not,
 *        409 while another one runs
 *   GET  /api/comparisons/current     how far it is: {"state": "running", "name": ...}
 *   POST /api/comparisons/stop        cancel it, as Ctrl-C does; again: end it at once
 *
 * A comparison that is canceled, or whose server ends, is stored as incomplete; the same options
 * with its name continue it. Options are those of `fast train`, whose values may be lists, and a
 * few of `fast compare`; options that name files are refused (serve_files.c).
 */
#include "serve/server.h"

#include "base/child.h"
#include "base/clock.h"
#include "base/memory.h"
#include "base/option.h"
#include "serve/serve_body.h"
#include "serve/serve_words.h"

#include <stdio.h>
#include <string.h>

enum {
    NOTES_MAX = 64,     /* runs that have ended, the newest ones */
    LINES_A_TICK = 200, /* lines that are read before requests are answered again */
    EXIT_USAGE = 2      /* of `fast compare`, where an option is wrong */
};
#define GRACE_NS INT64_C(5000000000)  /* for a comparison that is told to end with the server */
#define START_NS INT64_C(60000000000) /* until a comparison has accepted its options */

/* Options of `fast compare` beyond those of `fast train`. */
static const fast_option own_options[] = {
    { "seeds", "", "", FAST_OPTION_TEXT, 0, 0, 0, 0, NULL },
    { "tune", "", "", FAST_OPTION_TEXT, 0, 0, 0, 0, NULL },
    { "budget", "", "", FAST_OPTION_TEXT, 0, 0, 0, 0, NULL },
    { "changes", "", "", FAST_OPTION_TEXT, 0, 0, 0, 0, NULL },
    { "jobs", "", "", FAST_OPTION_TEXT, 0, 0, 0, 0, NULL },
    { NULL, NULL, NULL, FAST_OPTION_TEXT, 0, 0, 0, 0, NULL },
};

struct serve_compare {
    fast_child *child;          /* NULL once it has ended */
    fast_http_request *request; /* that waits for its start; NULL once it was answered */
    serve_words words;          /* the command line */
    json_t *progress;           /* its last line; NULL before the first */
    json_t *notes;              /* lines about runs that have ended, oldest first */
    char said[512];             /* its last line of standard error that is not JSON */
    int64_t began;              /* when it was started, in ns of the clock */
    int code;                   /* its exit code */
    bool stopping;              /* it was told to stop */
};

/* Free a job; a process that still runs is told to end first. */
static void free_job(serve_compare *job)
{
    if (!job)
        return;
    if (job->child)
        fast__child_stop(job->child, GRACE_NS);
    fast__child_free(job->child);
    fast__serve_words_free(&job->words);
    json_decref(job->progress);
    json_decref(job->notes);
    fast__free(job);
}

/* The reader of the answer has gone. */
static void on_gone(void *ctx)
{
    ((serve_compare *)ctx)->request = NULL;
}

/* An option of the body, as a word of the command line. Values are checked by the process: here
 * they may be lists. */
static fast_err on_option(void *ctx, const char *name, const char *value)
{
    int64_t count = 0;
    const fast_part *train = fast_part_list("train", &count);
    const fast_option *option = fast__options_find(own_options, name);

    FAST_ASSERT(count == 1);
    if (!option)
        option = fast__options_find(train->options, name);
    if (!option)
        return fast__fail(FAST_EINVAL, "a comparison has no option \"%.60s\"", name);
    /* A tuned option is refused like one that is given. */
    const char *equals = strcmp(option->name, "tune") == 0 ? strchr(value, '=') : NULL;
    char tuned[64];
    if (equals && (size_t)(equals - value) < sizeof tuned) {
        snprintf(tuned, sizeof tuned, "%.*s", (int)(equals - value), value);
        const fast_option *found = fast__options_find(train->options, tuned);
        if (found && fast__serve_names_file(found, equals + 1))
            return fast__fail(FAST_EINVAL, "%s names a file; give it on the command line", tuned);
    }
    return fast__serve_words_option(&((serve_compare *)ctx)->words, option, value);
}

/* A comparison has no tags. */
static fast_err on_tag(void *ctx, const char *tag)
{
    (void)ctx;
    (void)tag;
    return fast__fail(FAST_EINVAL, "a comparison takes no tags");
}

/* Read the body into a command line, and start it. The store comes last, so that no option of the
 * body wins over it. The process ends with the thread that started it, even if the server is
 * killed. */
static fast_err begin(fast_server *server, fast_http_request *request, serve_compare *job)
{
    size_t size;
    const char *body = fast__request_body(request, &size);

    FAST_TRY(fast__serve_words_add(&job->words, "%s%s", server->program, ""));
    FAST_TRY(fast__serve_words_add(&job->words, "%s%s", "compare", ""));
    FAST_TRY(fast__serve_words_add(&job->words, "--%s=%s", "progress", "json"));
    FAST_TRY(fast__body_launch(body, size, on_option, on_tag, job));
    FAST_TRY(fast__serve_words_add(&job->words, "--%s=%s", "store", server->path));
    return fast__child_start(&(fast_child_options){ .argv = (const char *const *)job->words.items },
                             &job->child);
}

/* POST /api/comparisons. Answered by fast__compare_tick() once the process has accepted its
 * options. */
void fast__serve_compare(fast_server *server, fast_http_request *request, int64_t id)
{
    serve_compare *job = NULL;
    fast_err err;

    (void)id;
    if (!server->program[0]) {
        fast__reply_error(request, 409, "this server starts no runs");
        return;
    }
    if (server->compare && server->compare->child) {
        fast__reply_error(request, 409, "a comparison runs already; wait for it, or stop it");
        return;
    }
    err = fast__alloc("comparison", 1, sizeof *job, &job);
    if (!err)
        err = begin(server, request, job);
    if (err) {
        free_job(job);
        fast__reply_err(request, err);
        return;
    }
    job->began = fast__clock_ns();
    job->notes = json_array();
    job->request = request;
    free_job(server->compare);
    server->compare = job;
    fast__request_later(request, on_gone, job);
}

/* A line of standard error: JSON tells how far it is, any other is its last words. */
static void take_line(serve_compare *job, const char *line)
{
    json_t *object = line[0] == '{' ? json_loads(line, 0, NULL) : NULL;

    if (!object) {
        snprintf(job->said, sizeof job->said, "%.500s",
                 strncmp(line, "fast: ", 6) == 0 ? line + 6 : line);
        return;
    }
    if (json_is_string(json_object_get(object, "run"))) {
        json_t *note =
            json_pack("{s:O, s:O?, s:O?}", "run", json_object_get(object, "run"), "phase",
                      json_object_get(object, "phase"), "error", json_object_get(object, "error"));

        json_array_append_new(job->notes, note);
        if (json_array_size(job->notes) > NOTES_MAX)
            json_array_remove(job->notes, 0);
    }
    json_decref(job->progress);
    job->progress = object;
}

/* The name of its runs in the store, or NULL before it is known. */
static const char *name_of(const serve_compare *job)
{
    return json_string_value(json_object_get(job->progress, "name"));
}

/* Answer the request that waits, if there is something to say. */
static void answer(serve_compare *job)
{
    fast_http_request *request = job->request;

    const bool late = fast__clock_ns() - job->began > START_NS;

    if (!request || (!name_of(job) && job->child && !late))
        return;
    job->request = NULL;
    if (name_of(job)) {
        json_t *reply = json_object();

        fast__json_set(&reply, "name", fast__json_text(name_of(job)));
        fast__reply_json(request, 202, &reply);
        return;
    }
    if (job->child) {
        fast__reply_error(request, 504, "the comparison has not begun after a minute");
        return;
    }
    fast__reply_error(request, job->code == EXIT_USAGE ? 400 : 500, "%s",
                      job->said[0] ? job->said : "the comparison ended before it began");
}

/* Read what the process has said since the last tick. A talkative process is read for a bounded
 * number of lines, so that requests are answered in between; the rest waits in its pipe. */
void fast__compare_tick(fast_server *server)
{
    serve_compare *job = server->compare;
    int64_t which = -1;

    for (int i = 0; job && job->child && i < LINES_A_TICK; i++) {
        fast_child_event event;

        if (fast__child_next(&job->child, 1, 0, &which, &event) != FAST_OK)
            break;
        if (event.kind == FAST_CHILD_ERR)
            take_line(job, event.line);
        if (event.kind != FAST_CHILD_END)
            continue;
        job->code = event.code;
        fast__child_free(job->child);
        job->child = NULL;
    }
    if (job)
        answer(job);
}

void fast__compare_fini(fast_server *server)
{
    free_job(server->compare);
    server->compare = NULL;
}

/* GET /api/comparisons/current. "none" is the state before the first one; `error` is the last
 * line that a process which failed or was canceled has said. */
void fast__serve_comparing(fast_server *server, fast_http_request *request, int64_t id)
{
    const serve_compare *job = server->compare;
    json_t *o = json_object();

    (void)id;
    fast__json_set(&o, "state",
                   fast__json_text(!job             ? "none"
                                   : !job->child    ? "ended"
                                   : !job->stopping ? "running"
                                                    : "stopping"));
    if (job) {
        fast__json_set(&o, "name", fast__json_text(name_of(job)));
        fast__json_set(&o, "progress", job->progress ? json_incref(job->progress) : json_null());
        fast__json_set(&o, "notes", json_incref(job->notes));
        fast__json_set(&o, "code", job->child ? json_null() : json_integer(job->code));
        fast__json_set(
            &o, "error",
            fast__json_text(!job->child && job->code > 0 && job->said[0] ? job->said : NULL));
    }
    fast__reply_json(request, 200, &o);
}

/* POST /api/comparisons/stop. SIGTERM lets the comparison store what it has; SIGKILL, for one that
 * was told before, does not. */
void fast__serve_compare_stop(fast_server *server, fast_http_request *request, int64_t id)
{
    serve_compare *job = server->compare;
    json_t *o;

    (void)id;
    if (!job || !job->child) {
        fast__reply_error(request, 409, "no comparison runs here");
        return;
    }
    if (job->stopping)
        fast__child_kill(job->child);
    else
        fast__child_terminate(job->child);
    job->stopping = true;
    o = json_object();
    fast__json_set(&o, "stopping", fast__json_text(name_of(job)));
    fast__reply_json(request, 202, &o);
}
