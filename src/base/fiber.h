/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "base/err.h"

/*
 * Coroutines on stacks of their own, all in one mapping. A thread resumes a fiber and gets control
 * back when the fiber yields or ends.
 */
enum { FAST_STACK_SIZE = 256 << 10 }; /* of a simulated actor */

/* The stacks of several fibers: pages take memory once they are written. */
typedef struct fast_stacks {
    unsigned char *base; /* the mapping */
    size_t size;         /* bytes of the mapping */
    int64_t count;       /* number of stacks */
    int64_t each;        /* bytes of one stack */
} fast_stacks;

typedef struct fast_fiber {
    void *context;        /* where it continues; of fcontext, or a ucontext_t */
    void *caller;         /* where its resumer continues */
    unsigned char *stack; /* the lowest address of its stack */
    size_t size;          /* bytes of the stack that it uses */
    void (*main)(void *); /* its program */
    void *ctx;            /* passed to main */
    bool alive;           /* started and not ended */
    void *fake;           /* address sanitizer: its fake stack while it sleeps */
    const void *above;    /* address sanitizer: the stack that resumed it */
    size_t above_size;    /* bytes of that stack */
    void *race;           /* thread sanitizer: its handle */
    void *race_caller;    /* thread sanitizer: handle of its resumer */
} fast_fiber;

/* Map the stacks of `count` fibers, `each` bytes of whole pages for one. FAST_ENOMEM. */
fast_err fast__stacks_open(int64_t count, int64_t each, fast_stacks *out);
void fast__stacks_close(fast_stacks *stacks); /* zeroed memory is allowed */

/* Initialise a fiber on stack `i`, which no living fiber uses; it starts at its first resume. */
void fast__fiber_begin(fast_fiber *fiber, const fast_stacks *stacks, int64_t i,
                       void (*main)(void *ctx), void *ctx);
/* Run a fiber until it yields or ends. Not from inside the fiber. */
void fast__fiber_resume(fast_fiber *fiber);
/* Return to the resumer, from inside the fiber. */
void fast__fiber_yield(fast_fiber *fiber);
