/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A line that says what is done and for how long, while nothing else does:
 *
 *   measuring the simulator: 0:07 of about 0:15
 *
 * The thread sleeps on a condition and wakes twice a second; at the end it is woken at once, so
 * that commands which are quick stay so. A command that ends within a second draws nothing.
 *
 * The line is cut at the width of the terminal and never wraps. "of about" is left out where no
 * forecast was given, and once the forecast is exceeded. Without a terminal no thread is started.
 * A thread that cannot be started is no error: the command works without its sign of life.
 */
#include "busy.h"

#include "progress.h"

#include <math.h>
#include <time.h>
#include <unistd.h>

/* Seconds of a clock that never goes back. */
static double clock_s(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

/* Under the mutex. */
static void draw(cli_busy *busy)
{
    const double gone = clock_s() - busy->begun_s;
    char time[32], about[32], line[256];

    if (gone < 1)
        return;
    cli_progress_time(floor(gone), time);
    cli_progress_time(busy->about_s, about);
    const bool known = busy->about_s > gone; /* no forecast once it is exceeded */
    snprintf(line, sizeof line, "%s: %s%s%s", busy->what, time, known ? " of about " : "",
             known ? about : "");
    fprintf(busy->file, "\r%.*s\033[K", cli_progress_width(busy->file) - 1, line);
    fflush(busy->file);
    busy->drawn = true;
}

/* The thread that draws the line until the work is done. It waits a moment first, so that short
 * work shows nothing. */
static void *busy_main(void *ctx)
{
    cli_busy *busy = ctx;

    pthread_mutex_lock(&busy->mutex);
    while (!busy->ended) {
        struct timespec until;
        clock_gettime(CLOCK_REALTIME, &until);
        until.tv_nsec += 500000000;
        if (until.tv_nsec >= 1000000000) {
            until.tv_nsec -= 1000000000;
            until.tv_sec++;
        }
        pthread_cond_timedwait(&busy->wake, &busy->mutex, &until);
        if (!busy->ended)
            draw(busy);
    }
    pthread_mutex_unlock(&busy->mutex);
    return NULL;
}

void cli_busy_begin(cli_busy *busy, FILE *file, const char *what, double about_s)
{
    *busy = (cli_busy){ .file = file, .about_s = about_s, .begun_s = clock_s() };
    snprintf(busy->what, sizeof busy->what, "%s", what);
    if (!isatty(fileno(file)))
        return;
    pthread_mutex_init(&busy->mutex, NULL);
    pthread_cond_init(&busy->wake, NULL);
    busy->runs = pthread_create(&busy->thread, NULL, busy_main, busy) == 0;
}

/* Under the mutex. */
static void clear(cli_busy *busy)
{
    if (busy->drawn)
        fputs("\r\033[K", busy->file);
    fflush(busy->file);
    busy->drawn = false;
}

void cli_busy_clear(cli_busy *busy)
{
    if (!busy->runs)
        return;
    pthread_mutex_lock(&busy->mutex);
    clear(busy);
    pthread_mutex_unlock(&busy->mutex);
}

void cli_busy_end(cli_busy *busy)
{
    if (!busy->runs)
        return;
    pthread_mutex_lock(&busy->mutex);
    busy->ended = true;
    clear(busy);
    pthread_cond_signal(&busy->wake);
    pthread_mutex_unlock(&busy->mutex);
    pthread_join(busy->thread, NULL);
    pthread_mutex_destroy(&busy->mutex);
    pthread_cond_destroy(&busy->wake);
    busy->runs = false;
}
