/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "base/err.h"

/*
 * Coroutines on stacks of their own, all in one mapping. A thread resumes a fiber and gets control
 * back when the fiber yields or ends.
 */
enum { FAST_STACK_SIZE = 256 << 10 };

/* The stacks of all fibers of a world: pages are real once they are touched. */
typedef struct fast_stacks {
    unsigned char *base; /* the mapping */
    size_t size;         /* of it */
    int64_t count;       /* of stacks */
} fast_stacks;

typedef struct fast_fiber {
    void *context;        /* where it goes on; of fcontext, or a ucontext_t */
    void *caller;         /* where whoever resumed it goes on */
    unsigned char *stack; /* the lowest address of its stack */
    size_t size;          /* of what it uses of it */
    void (*main)(void *); /* its program */
    void *ctx;            /* given to it */
    bool alive;           /* begun and not ended */
    void *fake;           /* address sanitizer: its fake stack while it sleeps */
    const void *above;    /* address sanitizer: the stack that resumed it */
    size_t above_size;    /* of that stack */
    void *race;           /* thread sanitizer: its handle */
    void *race_caller;    /* thread sanitizer: of whoever resumed it */
} fast_fiber;

fast_err fast__stacks_open(int64_t count, fast_stacks *out);
void fast__stacks_close(fast_stacks *stacks); /* zeroed memory is allowed */

/* Prepare a fiber on stack `i`, which no living fiber uses; it begins at its first resume. */
void fast__fiber_begin(fast_fiber *fiber, const fast_stacks *stacks, int64_t i,
                       void (*main)(void *ctx), void *ctx);
/* Go on with it until it yields or ends. Not from inside itself. */
void fast__fiber_resume(fast_fiber *fiber);
/* From inside: go back to whoever resumed it. */
void fast__fiber_yield(fast_fiber *fiber);
