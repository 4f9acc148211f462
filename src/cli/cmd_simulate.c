/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `fast simulate`: small programs on a simulated cluster in which things go wrong. One
 * simulation is shown whole: what went wrong when, who gave up, whom they blame. A campaign over
 * seeds shows the first failures, each with the command that repeats it, and counts the rest.
 * What is said is data and goes to standard output; how far a campaign is, to a terminal only.
 * The exit code is 1 if a worker gave up, or a promise was broken.
 * It is 2 if an option or a schedule of faults cannot be read. Ctrl-C has no handler here: it ends
 * the program at once, as a simulation has nothing to save.
 *
 * One simulation (--seeds 1, the default):
 *
 *   allreduce of 4096 bytes, 20 rounds, 4 workers on ethernet-10g, seed 1
 *
 *   Faults
 *     crash 3 at 5ms
 *
 *   Workers
 *     worker 0    gave up in round 0: worker 2 left: it had waited for worker 3
 *     worker 3    crashed in round 0
 *
 *   Result
 *     time        505.020 ms of the cluster's, 1.049 ms of this machine's
 *     traffic     91 messages, 4.22 MB
 *     blamed      worker 3, by 3 of 3 that gave up
 *     trace       c313b1828a8e58b0
 *
 *   repeat it with: fast simulate --faults 'crash 3 at 5ms'
 *
 * The trace is a hash of all events: two simulations with equal hashes ran the same way. With
 * --json each simulation is one object, and the sums of a campaign are left to the reader.
 */
#include "busy.h"
#include "cli_json.h"
#include "cli_page.h"
#include "cli_tables.h"
#include "progress.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { SHOWN_MAX = 10, WORKERS_SHOWN_MAX = 16, COLUMN = 12 };

/* One command line, read. */
typedef struct simulate_line {
    cli_list options; /* for fast_simulate() */
    bool json;        /* print objects */
    int64_t seeds;    /* simulations of the campaign */
} simulate_line;

/* The sums over a campaign. */
typedef struct simulate_show {
    const simulate_line *line; /* the command line */
    bool terminal;             /* say how far it is */
    bool drawn;                /* that is on the screen */
    int64_t count;             /* of simulations */
    int64_t failed;            /* in which somebody gave up */
    int64_t broken;            /* that broke a promise */
    int64_t virtual_ns;        /* virtual time of all simulations */
    double time_s;             /* time of this machine */
    int64_t events;            /* of all simulations */
    cli_busy busy;             /* a sign of life of one that is long */
} simulate_show;

/* Take one flag of the command line, or a word that is no flag (option NULL), for
 * cli_flags_read(). */
static int set(void *ctx, const fast_option *option, const char *value)
{
    simulate_line *line = ctx;
    if (!option)
        return cli_fail(CLI_USAGE, "\"%s\" is not an option; options begin with --", value);
    if (strcmp(option->name, "json") == 0) {
        line->json = strcmp(value, "no") != 0;
        return CLI_DONE;
    }
    if (strcmp(option->name, "seeds") == 0)
        line->seeds = strtoll(value, NULL, 10);
    return cli_list_add(&line->options, option->name, value);
}

/* Bytes in powers of 1000, with three digits: 999 gives "999 bytes", 4866160 gives "4.87 MB". */
static void put_bytes(double bytes, char text[32])
{
    static const char *const units[] = { "bytes", "kB", "MB", "GB", "TB", "PB" };
    int unit = 0;
    while (bytes >= 1000 && unit < 5) {
        bytes /= 1000;
        unit++;
    }
    snprintf(text, 32, unit ? "%.3g %s" : "%.0f %s", bytes, units[unit]);
}

/* Seconds with three decimals of the unit that fits: "5.120 s", "7.306 ms", "250.000 us". */
static void put_seconds(double seconds, char text[32])
{
    if (seconds >= 1)
        snprintf(text, 32, "%.3f s", seconds);
    else if (seconds >= 1e-3)
        snprintf(text, 32, "%.3f ms", seconds * 1e3);
    else
        snprintf(text, 32, "%.3f us", seconds * 1e6);
}

/* Return the actor that most failed actors blame; *count_out is their number. Of several with equal
 * counts the one that is blamed first in the order of actors; NULL if nobody blames anybody. */
static const char *blamed_most(const fast_simulation *s, int64_t *count_out)
{
    const char *best = NULL;
    *count_out = 0;
    for (int64_t i = 0; i < s->actor_count; i++) {
        const char *name = s->actors[i].culprit;
        int64_t count = 0;
        for (int64_t j = 0; name && j < s->actor_count; j++)
            count += s->actors[j].culprit && strcmp(s->actors[j].culprit, name) == 0;
        if (count > *count_out) {
            *count_out = count;
            best = name;
        }
    }
    return best;
}

/* Print the schedule of faults, one a line. After --shrink it holds only the faults without which
 * the failure does not happen, and the number of simulations that finding them took. */
static void show_faults(cli_page *page, const fast_simulation *s)
{
    const char *at = s->faults;
    if (s->shrunk_tries > 0)
        cli_page_title(page, "Faults that matter");
    else
        cli_page_title(page, "Faults");
    if (!*at)
        fprintf(page->out, "  none\n");
    while (*at) {
        const size_t length = strcspn(at, ";");
        fprintf(page->out, "  %.*s\n", (int)length, at);
        at += length;
        at += strspn(at, "; ");
    }
    if (s->shrunk_tries > 0)
        fprintf(page->out, "  (after %lld simulations)\n", (long long)s->shrunk_tries);
}

/* Print how one worker ended. */
static void show_worker(cli_page *page, const fast_simulated *a)
{
    char text[1024], life[48] = "";
    if (a->life > 0)
        snprintf(life, sizeof life, "restarted %lld time%s; ", (long long)a->life,
                 a->life == 1 ? "" : "s");
    if (a->err == FAST_OK)
        snprintf(text, sizeof text, "%sdone, %lld round%s", life, (long long)a->rounds,
                 a->rounds == 1 ? "" : "s");
    else if (a->err == FAST_ECANCELED)
        snprintf(text, sizeof text, "%scrashed in round %lld", life, (long long)a->rounds);
    else
        snprintf(text, sizeof text, "%sgave up in round %lld: %s", life, (long long)a->rounds,
                 a->detail);
    cli_page_row(page, 2, 2 + COLUMN, a->name, text);
}

/* All workers of a cluster of up to 16; of a larger one the first 16 that did not finish, and the
 * numbers of the remaining ones: "and 3 more that did not finish", "45 workers done". */
static void show_workers(cli_page *page, const fast_simulation *s)
{
    int64_t shown = 0, done = 0, others = 0;
    cli_page_title(page, "Workers");
    for (int64_t i = 0; i < s->actor_count; i++) {
        const bool finished = s->actors[i].err == FAST_OK;
        if (s->actor_count > WORKERS_SHOWN_MAX && (finished || shown == WORKERS_SHOWN_MAX)) {
            done += finished;
            others += !finished;
            continue;
        }
        show_worker(page, &s->actors[i]);
        shown++;
    }
    if (others > 0)
        fprintf(page->out, "  and %lld more that did not finish\n", (long long)others);
    if (done > 0)
        fprintf(page->out, "  %lld worker%s done\n", (long long)done, done == 1 ? "" : "s");
}

/* Print the outcome of one simulation, and the command that repeats it. */
static void show_result(cli_page *page, const fast_simulation *s)
{
    char text[256], count[32], bytes[32], virtual_time[32], time[32];
    int64_t blaming = 0;
    const char *blamed = blamed_most(s, &blaming);
    cli_page_title(page, "Result");
    put_seconds((double)s->virtual_time_ns * 1e-9, virtual_time);
    put_seconds(s->time_s, time);
    snprintf(text, sizeof text, "%s of the cluster's, %s of this machine's", virtual_time, time);
    cli_page_row(page, 2, 2 + COLUMN, "time", text);
    cli_group_digits(s->messages_sent, count);
    put_bytes((double)s->bytes_sent, bytes);
    snprintf(text, sizeof text, "%s messages, %s", count, bytes);
    cli_page_row(page, 2, 2 + COLUMN, "traffic", text);
    if (blamed) {
        snprintf(text, sizeof text, "%s, by %lld of %lld that gave up", blamed, (long long)blaming,
                 (long long)s->failed_count);
        cli_page_row(page, 2, 2 + COLUMN, "blamed", text);
    }
    if (s->wrong_count > 0) {
        snprintf(text, sizeof text, "%lld sums: somebody lied", (long long)s->wrong_count);
        cli_page_row(page, 2, 2 + COLUMN, "wrong", text);
    }
    if (s->broken[0])
        cli_page_row(page, 2, 2 + COLUMN, "BROKEN", s->broken);
    snprintf(text, sizeof text, "%016llx", (unsigned long long)s->trace_hash);
    cli_page_row(page, 2, 2 + COLUMN, "trace", text);
}

/* Print one simulation whole, for a command with one seed. */
static void show_whole(const fast_simulation *s)
{
    cli_page page;
    cli_page_init(&page, stdout);
    printf("%s, seed %lld\n", s->title, (long long)s->seed);
    show_faults(&page, s);
    show_workers(&page, s);
    show_result(&page, s);
    if (s->faults[0])
        printf("\nrepeat it with: %s\n", s->command);
}

/* Return the first actor that failed; NULL if all came to the end. */
static const fast_simulated *first_failure(const fast_simulation *s)
{
    for (int64_t i = 0; i < s->actor_count; i++)
        if (s->actors[i].err != FAST_OK && s->actors[i].err != FAST_ECANCELED)
            return &s->actors[i];
    return NULL;
}

/* A failure of a campaign, in a few lines; the first 10 failures only:
 *
 *   seed 4: 3 of 4 workers gave up, because of worker 0
 *     worker 0 is down
 *     fast simulate --seed 4 --faults 'crash 0 at 0s'
 *     (the faults that matter, after 6 simulations)
 */
static void show_failure(simulate_show *show, const fast_simulation *s)
{
    const fast_simulated *first = first_failure(s);
    int64_t blaming = 0;
    const char *blamed = blamed_most(s, &blaming);
    if (show->failed + show->broken > SHOWN_MAX)
        return;
    if (show->drawn)
        fprintf(stderr, "\r\033[K");
    show->drawn = false;
    printf("seed %lld: ", (long long)s->seed);
    if (s->broken[0])
        printf("PROMISE BROKEN: %s\n", s->broken);
    else
        printf("%lld of %lld workers gave up%s%s\n", (long long)s->failed_count,
               (long long)s->actor_count, blamed ? ", because of " : "", blamed ? blamed : "");
    if (first)
        printf("  %s\n", first->detail);
    printf("  %s\n", s->command);
    if (s->shrunk_tries > 0)
        printf("  (the faults that matter, after %lld simulations)\n", (long long)s->shrunk_tries);
}

/* Print one simulation as an object. */
static void print_json(const fast_simulation *s)
{
    const fast_simulated *first = first_failure(s);
    int64_t blaming = 0;
    cli_json json;
    cli_json_begin(&json, stdout);
    cli_json_text(&json, "program", s->program);
    cli_json_int(&json, "workers", s->actor_count);
    cli_json_int(&json, "seed", s->seed);
    cli_json_text(&json, "faults", s->faults);
    cli_json_int(&json, "failed", s->failed_count);
    cli_json_int(&json, "crashed", s->crashed_count);
    cli_json_int(&json, "wrong", s->wrong_count);
    cli_json_text(&json, "blamed", blamed_most(s, &blaming));
    cli_json_text(&json, "detail", first ? first->detail : NULL);
    cli_json_text(&json, "broken", s->broken[0] ? s->broken : NULL);
    cli_json_real(&json, "virtual_time_s", (double)s->virtual_time_ns * 1e-9);
    cli_json_real(&json, "time_s", s->time_s);
    cli_json_int(&json, "messages_sent", s->messages_sent);
    cli_json_int(&json, "bytes_sent", s->bytes_sent);
    cli_json_int(&json, "events", s->events);
    cli_json_hash(&json, "trace_hash", s->trace_hash);
    cli_json_text(&json, "command", s->command);
    cli_json_end(&json);
}

/* Take the report of one simulation. Return false to end the campaign; this one always runs to the
 * end. A terminal shows how far a campaign is whenever another percent of it is done:
 *
 *   120 of 1000 simulations, 0:07 left
 */
static bool on_simulation(void *ctx, const fast_simulation *s)
{
    simulate_show *show = ctx;
    const int64_t seeds = show->line->seeds;
    cli_busy_clear(&show->busy);
    show->count++;
    show->failed += s->failed_count > 0 && !s->broken[0];
    show->broken += s->broken[0] != 0;
    show->virtual_ns += s->virtual_time_ns;
    show->time_s += s->time_s;
    show->events += s->events;
    if (show->line->json) {
        print_json(s);
    } else if (seeds <= 1) {
        show_whole(s);
    } else {
        if (s->failed_count > 0 || s->broken[0])
            show_failure(show, s);
        if (show->terminal && show->count * 100 / seeds != (show->count - 1) * 100 / seeds) {
            const double left = show->time_s / (double)show->count * (double)(seeds - show->count);
            char time[32];

            cli_progress_time(left, time);
            fprintf(stderr, "\r%lld of %lld simulations, %s left\033[K", (long long)show->count,
                    (long long)seeds, time);
            show->drawn = true;
        }
    }
    return true;
}

/* Print the sums over all seeds of a campaign:
 *
 *   and 2 more
 *   20 simulations: 8 finished, in 12 workers gave up, 0 broke a promise
 *   5.120 s of the cluster's time in 37.036 ms of this machine's, 5,970 events
 */
static void show_campaign(const simulate_show *show)
{
    char virtual_time[32], time[32], events[32];
    put_seconds((double)show->virtual_ns * 1e-9, virtual_time);
    put_seconds(show->time_s, time);
    cli_group_digits(show->events, events);
    if (show->drawn)
        fprintf(stderr, "\r\033[K");
    if (show->failed + show->broken > SHOWN_MAX)
        printf("and %lld more\n", (long long)(show->failed + show->broken - SHOWN_MAX));
    printf("%lld simulations: %lld finished, in %lld workers gave up, %lld broke a promise\n",
           (long long)show->count, (long long)(show->count - show->failed - show->broken),
           (long long)show->failed, (long long)show->broken);
    printf("%s of the cluster's time in %s of this machine's, %s events\n", virtual_time, time,
           events);
}

int cli_simulate(int argc, char **argv)
{
    simulate_line line = { .seeds = 1 };
    simulate_show show = { .line = &line, .terminal = isatty(STDERR_FILENO) == 1 };
    int code = cli_flags_read(cli_command_find("simulate"), argc, argv, set, &line);
    if (code == CLI_DONE) {
        if (line.seeds <= 1)
            cli_busy_begin(&show.busy, stderr, "simulating", 0);
        const fast_err err =
            fast_simulate((const char *const *)line.options.items, on_simulation, &show);
        cli_busy_end(&show.busy);
        if (err) {
            code = cli_fail_err(err);
        } else {
            if (!line.json && line.seeds > 1)
                show_campaign(&show);
            code = show.failed + show.broken > 0 ? CLI_FAILED : CLI_DONE;
        }
    }
    cli_list_free(&line.options);
    return code == CLI_HELPED ? CLI_DONE : code;
}
