/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One run's measurements for Prometheus, while it trains: a thread that answers /metrics on the
 * loopback, and nothing else. It needs no token: what it tells is what the machine's users may see,
 * and the guard still refuses other hosts' names and other origins.
 *
 * The thread that trains only copies numbers under a lock; text is made by the thread that serves.
 */
#include "fast/serve.h"

#include "base/memory.h"
#include "base/thread.h"
#include "serve/http.h"
#include "serve/scrape.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { WORDS = 10, WORD_SIZE = 256 };

struct fast_exporter {
    fast_http *http;              /* touched by the thread alone, but for open and close */
    fast_thread thread;           /* answers */
    atomic_bool stop;             /* it ends */
    fast_mutex mutex;             /* guards `run` */
    fast_stored_run run;          /* measures; its texts are constant */
    char words[WORDS][WORD_SIZE]; /* that the texts of `run` point to */
};

/* Any local program may read the measures. */
static bool is_open(void *ctx, const char *method, const char *path)
{
    (void)ctx;
    (void)method;
    return strcmp(path, "/metrics") == 0;
}

/* Answer one request, in the exporter's thread. The numbers are copied under the lock; the text is
 * made without it, so that training never waits for a slow client. */
static void handle(void *ctx, fast_http_request *request)
{
    fast_exporter *exporter = ctx;
    fast_scrape scrape = { .samples = { { .bytes = NULL } } };
    fast_page text = { .bytes = NULL };
    fast_stored_run run;

    if (strcmp(fast__request_uri(request)->path, "/metrics") != 0 ||
        strcmp(fast__request_method(request), "GET") != 0) {
        fast__reply_error(request, 404, "there is nothing but /metrics here");
        return;
    }
    fast__mutex_lock(&exporter->mutex);
    run = exporter->run;
    fast__mutex_unlock(&exporter->mutex);
    fast__scrape_add(&scrape, &run);
    fast__scrape_end(&scrape, &text);
    fast__reply(request, 200, FAST_SCRAPE_TYPE, &text);
}

/* The exporter's thread: answer until the exporter closes or waiting fails. */
static void *serve(void *ctx)
{
    fast_exporter *exporter = ctx;

    while (!atomic_load(&exporter->stop) && fast__http_wait(exporter->http) == FAST_OK)
        continue;
    return NULL;
}

/* The options that describe the run, which do not change. */
static void describe(fast_exporter *exporter, const fast_run *run)
{
    fast_stored_run *r = &exporter->run;
    const struct {
        const char *option; /* of the run */
        const char **field; /* where it goes */
    } texts[] = {
        { "name", &r->name },       { "model", &r->model },         { "data", &r->data },
        { "system", &r->system },   { "strategy", &r->strategy },   { "topology", &r->topology },
        { "codec", &r->codec },     { "optimizer", &r->optimizer }, { "transport", &r->transport },
        { "cluster", &r->cluster },
    };

    _Static_assert(sizeof texts / sizeof texts[0] == WORDS, "a word for each text");
    for (int i = 0; i < WORDS; i++) {
        const char *value = fast_run_option(run, texts[i].option);

        snprintf(exporter->words[i], WORD_SIZE, "%s", value ? value : "");
        *texts[i].field = exporter->words[i];
    }
    /* Values that only the store has are left out of the samples. */
    r->id = -1;
    r->version = fast_version();
    r->workers = strtoll(fast_run_option(run, "workers"), NULL, 10);
    r->seed = strtoll(fast_run_option(run, "seed"), NULL, 10);
    r->created = (double)time(NULL);
    r->finished = NAN;
    r->step_count = -1;
    r->dropped = -1;
}

/* Called by the thread that trains, after each report of progress: a few stores under a lock. */
void fast_exporter_update(fast_exporter *exporter, const fast_result *result)
{
    fast_stored_run *r = &exporter->run;

    FAST_ASSERT(result);
    fast__mutex_lock(&exporter->mutex);
    r->status = result->stop && result->stop[0] ? result->stop : "running";
    r->epoch = result->epoch;
    r->steps = result->steps;
    r->samples = result->samples;
    r->loss = result->loss;
    r->train_accuracy = result->train_accuracy;
    r->test_loss = result->test_loss;
    r->test_accuracy = result->test_accuracy;
    r->samples_per_s = result->samples_per_s;
    r->time_s = result->time_s;
    r->wall_time_s = result->wall_time_s;
    r->time_to_target_s = result->time_to_target_s;
    r->bytes_sent = result->bytes_sent;
    r->staleness_mean = result->staleness_mean;
    r->divergence = result->divergence;
    fast__mutex_unlock(&exporter->mutex);
}

/* The first values are those of the run before its first step, so that a scrape never finds an
 * empty page. */
fast_err fast_exporter_open(const fast_run *run, int64_t port, fast_exporter **out)
{
    fast_exporter *exporter;
    fast_err err;

    FAST_TRY(fast__alloc("exporter", 1, sizeof *exporter, &exporter));
    fast__mutex_init(&exporter->mutex);
    describe(exporter, run);
    fast_exporter_update(exporter, fast_run_result(run));
    /* The thread starts last: it uses everything above. */
    err = fast__http_open(
        &(fast_http_options){ .port = port, .open = is_open, .handler = handle, .ctx = exporter },
        &exporter->http);
    if (err)
        goto undo_exporter;
    err = fast__thread_start(&exporter->thread, serve, exporter);
    if (err)
        goto undo_http;
    *out = exporter;
    return FAST_OK;

undo_http:
    fast__http_close(exporter->http);
undo_exporter:
    fast__mutex_fini(&exporter->mutex);
    fast__free(exporter);
    return err;
}

int64_t fast_exporter_port(const fast_exporter *exporter)
{
    return fast__http_port(exporter->http);
}

/* The thread ends after at most one tick of the server. */
void fast_exporter_close(fast_exporter *exporter)
{
    if (!exporter)
        return;
    atomic_store(&exporter->stop, true);
    fast__thread_join(&exporter->thread);
    fast__http_close(exporter->http);
    fast__mutex_fini(&exporter->mutex);
    fast__free(exporter);
}
