/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "fast/strategy.h"
#include "learner/learner.h"

/*
 * The host of a trainer: the program around one actor of a strategy. It decides whether there is
 * another step and collects measures; everything else a trainer does by itself. `run` implements it
 * for real runs, tests/fake_host.c for tests of a strategy alone.
 *
 * Every operation is called by the actor that the trainer belongs to, in its own thread or
 * coroutine; those of different actors may overlap. `host` is the pointer that was given with the
 * operations. Arguments are lent for the call. No operation may be NULL.
 */

/* Sums of a step that are forecast one by one; the last stands for all that follow. */
enum { FAST_COST_PARTS = 64 };

/* A measure of an actor. */
typedef enum fast_observation {
    FAST_OBSERVE_STALENESS, /* of an update that was applied, in updates; no error */
    FAST_OBSERVE_MOMENTUM,  /* that asynchrony gave this server's part of the model */
} fast_observation;

typedef struct fast_host_ops {
    /* Between two steps of a worker: store in *more_out whether it takes another one. Evaluation,
     * checkpoints, a cancel and agreement with other workers belong here. May block, and may read w
     * and s. On failure the worker's program ends: the error is returned by fast_trainer_end(). */
    fast_err (*next)(void *host, bool *more_out);
    /* The worker is about to compute on the batches first, ..., first + count - 1 of its loader:
     * have them ready where other actors make them. May block. On failure nothing is computed. */
    fast_err (*prepare)(void *host, int64_t first, int64_t count);
    /* The worker is at `step`. If trainer.step is that already, it has counted a step: `gradient`
     * has the figures of its batch; NULL: a step of the other workers that this one missed. Else it
     * continues at another step: the host stores it in trainer.step, in one with what it derives
     * from the steps of all workers. Never blocks on a peer. */
    void (*stepped)(void *host, int64_t step, const fast_gradient *gradient);
    /* The worker's learner failed with this error and the calling actor's detail, which ends the
     * run whatever the strategy does. May be called more than once. Never blocks. */
    void (*failed)(void *host, fast_err err);
    /* Take in a measure with its standard error, at least 0. Never blocks on a peer. */
    void (*observed)(void *host, fast_observation kind, double value, double error);
    /* The cost of worker 0's exchange, for the forecast; a later call replaces an earlier one.
     * Called at worker 0 only, and only without codecs. Never blocks on a peer. */
    void (*costed)(void *host, const fast_cost *cost);
    /* A line for the user. Called at worker 0 only. May block for the user's callback. */
    void (*noted)(void *host, const char *text);
    /* The actor opens space `id`, which no other actor can reach yet: load into it the saved state
     * of the other ends of its flows, where the run is resumed. FAST_EFORMAT, FAST_ENOMEM: the
     * space is not opened. */
    fast_err (*restore)(void *host, int64_t id, fast_space *space);
    /* Draw the initial weights w and state s of an ensemble's member; those of member 0 are the
     * run's. Values that were not drawn for the run, but loaded, imported or a caller's, stay. */
    void (*draw)(void *host, int64_t member, float *w, float *s);
    /* Open saved models as the worker's teachers, in the place of those before: stores all but
     * temperature and share in *out, which is lent until the next call. FAST_EINVAL if they do not
     * answer what the worker's model is asked; FAST_ENOENT, FAST_EFORMAT, FAST_ENOMEM. */
    fast_err (*teachers)(void *host, const char *files, fast_teachers *out);
} fast_host_ops;
