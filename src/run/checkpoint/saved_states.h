/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "run/representative.h"
#include "run/run.h"
#include "space/space.h"
#include "trainer/saved.h"

/*
 * The saved state of all workers and servers, for checkpoints; saved_states.c says what it holds,
 * collect_states.c how it comes together.
 *
 *   opening     _open or, at a change of phase, _reopen; _check and _load for a resumed run
 *   actors      _begin when an actor is made, _restore when it opens a space
 *   mid-run     _due, _admit, _arrive; _take for actors of other processes
 *   file        _count and _list, called by checkpoint.c with run->step as the step
 */
struct fast_team;
struct fast_team_actor;
struct fast_tensor;
struct fast_tensors;

typedef struct fast_saved_states {
    bool open;          /* checkpoints are asked for */
    bool on;            /* actors have state to save in the current phase */
    bool votes;         /* replicas differ: there is a vote */
    fast_vote vote;     /* on the model that stands for the replicas of the step */
    fast_saved *states; /* [workers, servers]; NULL: no checkpoint is asked for */
    int64_t servers;    /* that have state to save in the current phase */
    int64_t step;       /* that is collected, or was; -1: none */
    int64_t arrived;    /* workers of this process whose state is saved */
    int64_t whole;      /* the step at which that of all was; -1: none */
    int64_t loaded;     /* the step of the checkpoint that was loaded; 0: none was */
} fast_saved_states;

/* Allocate memory for the states of the current phase. FAST_ENOMEM. */
fast_err fast__saved_states_open(struct fast_team *team);
/* Free it. */
void fast__saved_states_free(struct fast_team *team);
/* Allocate it anew for another phase, if it was open. FAST_ENOMEM. */
fast_err fast__saved_states_reopen(struct fast_team *team);
/* True if a checkpoint of this step holds states. */
bool fast__saved_states_due(const struct fast_team *team, int64_t step);
/* A worker comes to a step at which all states are saved: false while those of an earlier step are
 * collected. The team's mutex is held, here and below. */
bool fast__saved_states_admit(struct fast_team *team, int64_t step);
/* Save the worker's state; true in *last_out if it is the last one. FAST_ENOMEM. */
fast_err fast__saved_states_arrive(struct fast_team_actor *self, int64_t step, bool *last_out);
/* Return whether a snapshot of actors at the run's step can be saved: not where a phase ends. */
bool fast__saved_states_can(const struct fast_team *team);
/* Save the state of actor i of this process. FAST_ENOMEM. */
fast_err fast__saved_states_pack(struct fast_team *team, int64_t i, int64_t step);
/* Take in the state that an actor of another process has packed. FAST_ENOMEM. */
fast_err fast__saved_states_take(struct fast_team *team, int64_t i, int64_t step, const void *bytes,
                                 size_t size);
/* In mid-run: true while a state of run->step is missing. */
bool fast__saved_states_waits(const fast_run *run);
/* Number of tensors in a checkpoint at run->step. */
int64_t fast__saved_states_count(const fast_run *run);
/* Write the tensors of a checkpoint at run->step to the lists. FAST_EINVAL or FAST_EPEER if a state
 * is missing. */
fast_err fast__saved_states_list(fast_run *run, struct fast_tensor *tensors,
                                 char (*names)[FAST_TENSOR_NAME_MAX]);
/* FAST_EINVAL if a file, whose step is run->step, lacks a state. */
fast_err fast__saved_states_check(const fast_run *run, const char *path,
                                  const struct fast_tensors *tensors);
/* Load the states of a file that was checked. FAST_ENOMEM. */
fast_err fast__saved_states_load(fast_run *run, const struct fast_tensors *tensors);
/* A new actor takes over the state that was loaded for it. FAST_EFORMAT, FAST_ENOMEM. */
fast_err fast__saved_states_begin(struct fast_team_actor *self);
/* An actor of a snapshot continues: it takes over its random streams and unread messages. Called by
 * the actor. FAST_EFORMAT, FAST_ENOMEM. */
fast_err fast__saved_states_continue(struct fast_team_actor *self);
/* An actor opens space `id`: load the state of the other ends of its flows. FAST_EFORMAT,
 * FAST_ENOMEM. */
fast_err fast__saved_states_restore(const struct fast_team_actor *self, int64_t id,
                                    fast_space *space);
