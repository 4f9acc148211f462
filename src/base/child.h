/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "base/err.h"

/*
 * A program that runs beside this one. Its standard output and error come back as lines through
 * pipes; its standard input is empty. It gets no other descriptor of ours, the default SIGPIPE and
 * no blocked signals, and leads a process group of its own: Ctrl-C at the terminal reaches this
 * program alone, which then decides. Not for several threads at once.
 */
typedef struct fast_child fast_child;

/* How it is started; zero means default. */
typedef struct fast_child_options {
    const char *const *argv; /* the program, by path or found in $PATH, and its arguments; NULL */
    int64_t line_max;        /* bytes of a line at most, the rest is left out; 0: 1 MiB */
    bool stays;              /* go on when the thread that started it ends; else: SIGTERM */
} fast_child_options;

/* What happened to one. */
typedef enum fast_child_kind {
    FAST_CHILD_OUT, /* a line of standard output */
    FAST_CHILD_ERR, /* a line of standard error */
    FAST_CHILD_END  /* it ended, and all of its lines were read */
} fast_child_kind;

typedef struct fast_child_event {
    fast_child_kind kind;
    const char *line; /* without its line feed; "" at the end; until the next call on the child */
    bool cut;         /* the line was longer than line_max */
    int code;         /* at the end: exit code, or -1 where a signal ended it */
    int signal;       /* at the end: that signal, else 0 */
} fast_child_event;

/* FAST_ENOENT if there is no such program, FAST_EIO if it cannot be started, FAST_ENOMEM. The
 * caller frees it. */
fast_err fast__child_start(const fast_child_options *options, fast_child **out);

/*
 * The next event of any of `count` children (at most 256), of which those that are NULL or have
 * ended are left out; *which is its index. Waits at most `wait_ns` nanoseconds: FAST_ETIMEDOUT,
 * also when a signal came in. FAST_EINVAL if there is nobody to wait for, FAST_ENOMEM. The one
 * after *which is asked first, so that one that talks much does not silence the others; begin with
 * -1.
 */
fast_err fast__child_next(fast_child *const *children, int64_t count, int64_t wait_ns,
                          int64_t *which, fast_child_event *event_out);

/* Ask it and what it started to end (SIGTERM), or end them at once (SIGKILL). Does nothing to one
 * that has ended. */
void fast__child_terminate(fast_child *child);
void fast__child_kill(fast_child *child);

/* Terminate, wait at most `wait_ns` while reading and dropping its lines, then kill. */
void fast__child_stop(fast_child *child, int64_t wait_ns);

/* Its process number, for the log and for a store; stays the same after its end. */
int64_t fast__child_pid(const fast_child *child);

/* Kill it if it runs, and forget it; NULL is allowed. */
void fast__child_free(fast_child *child);
