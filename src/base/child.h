/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "base/err.h"

/*
 * A child process. Its standard output and error are delivered as lines through pipes; its standard
 * input is empty, or lines that answer it. It inherits no other descriptor, has the default SIGPIPE
 * and no blocked signals, and leads a process group of its own: Ctrl-C at the terminal reaches this
 * program alone, which then decides. One thread at a time may use the functions below.
 */
typedef struct fast_child fast_child;

/* How a child is started; zero means default. */
typedef struct fast_child_options {
    const char *const *argv; /* program (a path, or found in $PATH) and arguments; ends with NULL */
    int64_t line_max;        /* longest line in bytes, the rest of a line is cut; 0: 1 MiB */
    bool input;              /* fast__child_answer() writes to its input; default: empty */
    bool stays;              /* keep running when the starting thread ends; default: SIGTERM */
} fast_child_options;

/* Kinds of events. */
typedef enum fast_child_kind {
    FAST_CHILD_OUT, /* a line of standard output */
    FAST_CHILD_ERR, /* a line of standard error */
    FAST_CHILD_END  /* the child ended, and all of its lines were delivered */
} fast_child_kind;

/* One event of a child. */
typedef struct fast_child_event {
    fast_child_kind kind; /* which of the fields below are set */
    const char *line;     /* without line feed; valid until the next call on the child */
    bool cut;             /* the line was longer than line_max */
    int code;             /* END: exit code, or -1 if a signal ended the child */
    int signal;           /* END: the signal that ended it, else 0 */
} fast_child_event;

/* Start a child, which the caller frees. FAST_ENOENT if there is no such program, FAST_EIO if it
 * cannot be started, FAST_ENOMEM. */
fast_err fast__child_start(const fast_child_options *options, fast_child **out);

/* Deliver the next event of `count` children (at most 256); entries that are NULL or have ended are
 * skipped. *which is set to the child's index. Waits at most `wait_ns` nanoseconds: FAST_ETIMEDOUT,
 * also when a signal arrived. FAST_EINVAL if no child is left, FAST_ENOMEM. Asking starts after
 * *which, so that a talkative child does not starve the others; start with -1. */
fast_err fast__child_next(fast_child *const *children, int64_t count, int64_t wait_ns,
                          int64_t *which, fast_child_event *event_out);

/* Ask the child and its descendants to end (SIGTERM), or end them at once (SIGKILL). No effect on a
 * child that has ended. */
void fast__child_terminate(fast_child *child);
void fast__child_kill(fast_child *child);

/* Write an empty line to the input of a child that has one; end its input. No effect if the child
 * has no input or does not read it any more. */
void fast__child_answer(fast_child *child);
void fast__child_end_input(fast_child *child);

/* Terminate, discard its lines for at most `wait_ns`, then kill. */
void fast__child_stop(fast_child *child, int64_t wait_ns);

/* Return the process id, which stays valid as a label after the end. */
int64_t fast__child_pid(const fast_child *child);

/* Kill the child if it still runs, and free it; NULL is allowed. */
void fast__child_free(fast_child *child);
