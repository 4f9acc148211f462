/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "fast/comm.h"

#include <stdatomic.h>

/*
 * Cuts: consistent snapshots of asynchronous teams, and their resume. cut.c has the protocol.
 */
struct fast_team;
struct fast_team_actor;

/* The cut of a team, guarded by its mutex but for `on`. */
typedef struct fast_cut {
    bool on;          /* the actors of this world can be cut; constant while they run */
    atomic_bool open; /* workers join before their next step; written under the mutex */
    bool resuming;    /* the first one of a resumed run: actors take over their state */
    bool spread;      /* its actors are in several processes; constant */
    bool last;        /* a canceled run was cut, and stops */
    bool saved_last;  /* that cut is saved */
    bool between;     /* it is at the end of a phase, which checkpoints hold without actors */
    bool voting;      /* a state that arrives is that of a voter */
    bool failed;      /* a note has said that a cut was given up */
    bool damaged;     /* an actor could not take over its part of the file */
    int64_t at;       /* steps that a worker has taken when it joins, at least */
    int64_t dues;     /* checkpoints that were due so far */
    int64_t number;   /* of the cut, from 1 */
    int64_t begun;    /* workers that have come to their first step */
    int64_t left;     /* workers that take no further step */
} fast_cut;

/* A worker's own part, used by its thread. */
typedef struct fast_cut_worker {
    atomic_bool open;  /* several processes: it was asked, or told where to join */
    bool asked;        /* it was asked for its round, and not told where to join */
    bool told;         /* it told worker 0 that its process is canceled */
    bool left;         /* it told worker 0 that it takes no further step */
    bool packs;        /* its state is being packed */
    bool restores;     /* its state was loaded by the last command */
    int64_t at;        /* round at which it joins */
    int64_t number;    /* of the cut that it joins; 0: none is open */
    int64_t uncounted; /* messages that were sent before, or came from a file */
} fast_cut_worker;

/* The actors of a world are about to start. */
void fast__cut_begin(struct fast_team *team);
/* An actor's program starts: it obeys worker 0 in its waits. FAST_ENOMEM. */
fast_err fast__cut_serve(struct fast_team_actor *self);
/* Its program is over, with an error or FAST_OK. */
void fast__cut_end(struct fast_team_actor *self, fast_err err);
/* Before the next step of a worker: join the cut that is open, or open one if a checkpoint is due
 * or the run was canceled. Fails as the actor's calls do. */
fast_err fast__cut_next(struct fast_team_actor *self, bool canceled);
/* Return whether a worker of a canceled run takes more steps, to come to the cut that is open. */
bool fast__cut_waits(struct fast_team_actor *self);
/* A worker takes no further step. */
void fast__cut_leave(struct fast_team_actor *self);
