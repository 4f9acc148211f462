/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The log: one line at a time to the program's callback, or nowhere.
 *
 * The callback and its context are the only state shared by the whole process. A mutex guards them
 * and serialises the lines. The callback must not log itself.
 */
#include "base/log.h"

#include "base/line.h"

#include <pthread.h>

enum { LINE_SIZE = 1024 };

static pthread_mutex_t log_mutex = PTHREAD_MUTEX_INITIALIZER;
static fast_log_fn *log_write; /* guarded by log_mutex; NULL drops the lines */
static void *log_ctx;          /* guarded by log_mutex */

void fast_log_set(fast_log_fn *log, void *ctx)
{
    pthread_mutex_lock(&log_mutex);
    log_write = log;
    log_ctx = ctx;
    pthread_mutex_unlock(&log_mutex);
}

void fast__log(fast_log_level level, const char *format, ...)
{
    char line[LINE_SIZE];
    va_list args;
    va_start(args, format);
    fast__line_format(line, sizeof line, format, args);
    va_end(args);

    pthread_mutex_lock(&log_mutex);
    if (log_write)
        log_write(log_ctx, level, line);
    pthread_mutex_unlock(&log_mutex);
}
