/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A loop of the caller's that computes gradients: fast_run_train() turned inside out. The run
 * trains on a stack of its own, and its learner is a function that hands each request to the
 * caller's loop and returns with the answer.
 *
 *     coroutine   where all requests come from the thread that trains: one actor in this process,
 *                 or simulated workers without a pool of threads. The exchange between two
 *                 requests happens in the caller's thread
 *     thread      where workers are threads: transport threads with several actors, a rank of mpi
 *                 with a worker and a server, a pool
 *
 * The loop is the context of the run's learner, and needs no other place.
 */
#include "run/caller_loop.h"

#include "base/handover.h"
#include "base/memory.h"
#include "fast/learner.h"
#include "run/team.h"

#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

typedef struct caller_loop {
    fast_run *run;                 /* that it drives */
    fast_handover *handover;       /* of requests; NULL until the first call */
    fast_learner_request *current; /* lent to the caller; NULL: none */
    atomic_bool left;              /* the run is closed before its end */
    bool ended;                    /* fast_run_train() has returned */
    atomic_bool canceled;          /* by the caller, before the last answer */
    fast_err err;                  /* of fast_run_train() */
    char detail[FAST_DETAIL_MAX];  /* text of err */
} caller_loop;

/* Say in a request why it fails. */
static void fail(const caller_loop *loop, fast_learner_request *request)
{
    request->samples = 0;
    snprintf(request->error, sizeof request->error, "%s",
             atomic_load(&loop->left) ? "the loop was left before its end"
                                      : "a run with a loop is trained by fast_run_next()");
}

/* Let the messages of a synchronous step leave before the loop computes: the other workers wait for
 * them. Where nobody waits they leave at the next exchange. */
static void flush(const fast_team *team)
{
    const fast_world *world = team->place.world;

    for (int64_t i = 0; team->strategy->synchronous && world->inner->flush && i < team->workers;
         i++)
        if (world->places[i].here)
            world->inner->flush(world->actors[i]);
}

/* The learner's gradient(): hand the request to the loop. */
static fast_err ask(void *ctx, fast_learner_request *request)
{
    caller_loop *loop = ctx;

    if (!loop->handover || atomic_load(&loop->left)) {
        fail(loop, request);
        return FAST_EINVAL;
    }
    if (loop->run->team->place.actors_here == 1 && !loop->run->team->single)
        flush(loop->run->team);
    fast__handover_give(loop->handover, request);
    if (atomic_load(&loop->run->cancel))
        atomic_store(&loop->canceled, true);
    return FAST_OK;
}

/* Synchronous loops take the same number of steps: one that continues alone would train another
 * model. Fail if another process's loop has ended, and name it. */
static fast_err check_even(const caller_loop *loop)
{
    const fast_team *team = loop->run->team;
    const long long who = atomic_load(&team->stop.canceler);
    char name[64] = "those of several workers";

    if (atomic_load(&loop->canceled) || !loop->run->result.canceled || team->place.alone ||
        !team->strategy->synchronous)
        return FAST_OK;
    if (who > 0)
        snprintf(name, sizeof name, "that of worker %lld", who - 1);
    return fast__fail(FAST_EPEER,
                      "this worker's loop takes step %lld, and %s has ended; strategy %s needs the "
                      "same number of steps everywhere",
                      (long long)loop->run->step, name, team->strategy->name);
}

/* Train to the end: the generator of requests. */
static void train(void *ctx)
{
    caller_loop *loop = ctx;

    loop->err = fast_run_train(loop->run);
    if (!loop->err)
        loop->err = check_even(loop);
    snprintf(loop->detail, sizeof loop->detail, "%s", loop->err ? fast_error_detail() : "");
}

/* Do requests come from other threads than the one that trains? */
static bool is_threaded(const fast_run *run)
{
    if (strcmp(run->config.transport, "sim") == 0)
        return run->config.pool != 0;
    return run->team->place.actors_here != 1;
}

/* Continue the run until its next request or its end. */
static fast_err advance(caller_loop *loop)
{
    void *item = NULL;

    if (loop->ended)
        return FAST_OK;
    FAST_TRY(fast__handover_next(loop->handover, &item));
    loop->current = item;
    loop->ended = !item;
    return FAST_OK;
}

/* Return the loop of a run; NULL if it has none. */
static caller_loop *loop_of(const fast_run *run)
{
    return run->foreign && run->foreign->kind.gradient == ask ? run->foreign->kind.ctx : NULL;
}

bool fast__caller_loop_is(const fast_run *run)
{
    return loop_of(run) != NULL;
}

fast_err fast_run_next(fast_run *run, fast_learner_request **out)
{
    FAST_ASSERT(run != NULL && out != NULL);
    caller_loop *loop = loop_of(run);

    if (!loop)
        return fast__fail(FAST_EINVAL, "this run has no loop; open it by fast_run_open_loop()");
    if (!loop->handover)
        FAST_TRY(fast__handover_new(is_threaded(run), train, loop, &loop->handover));
    FAST_TRY(advance(loop));
    *out = loop->current;
    return loop->current || !loop->err ? FAST_OK : fast__fail(loop->err, "%s", loop->detail);
}

fast_err fast__caller_loop_open(fast_run *run, const fast_learner_kind *kind)
{
    fast_learner_kind mine = *kind;
    caller_loop *loop = NULL;

    if (kind->gradient || kind->evaluate)
        return fast__fail(FAST_EINVAL, "learner %.63s has functions, and a loop calls none",
                          kind->name ? kind->name : "");
    mine.gradient = ask;
    mine.ctx = NULL;
    FAST_TRY(fast__foreign_open(&mine, &run->foreign));
    FAST_TRY(fast__alloc("a loop", 1, sizeof *loop, &loop));
    loop->run = run;
    run->foreign->kind.ctx = loop;
    return FAST_OK;
}

void fast__caller_loop_close(fast_run *run)
{
    caller_loop *loop = loop_of(run);

    if (!loop)
        return;
    if (loop->current) {
        fast_run_cancel(run);
        atomic_store(&loop->left, true);
    }
    while (loop->current) {
        fail(loop, loop->current);
        if (advance(loop))
            break; /* cannot be: it was started */
    }
    fast__handover_free(loop->handover);
    fast__free(loop);
}
