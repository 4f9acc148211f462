/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "base/thread.h"
#include "model/native.h"
#include "run/checkpoint/cut.h"
#include "run/checkpoint/saved_states.h"
#include "run/measures.h"
#include "run/phases.h"
#include "run/preprocess.h"
#include "run/representative.h"
#include "run/run.h"
#include "run/saved_teachers.h"
#include "run/split_team.h"
#include "strategy/strategy.h"
#include "trainer/context.h"
#include "transport/transport.h"

/*
 * The team of a run: its actors, each with a trainer's context, a learner and measures of its own.
 *
 *   team.c         strategy + transport -> a world of actors -> their end
 *   team_actor.c   one actor: its parts, its programs, and the trainer's host operations
 *   split_team.c   workers that have stages of the model; split_checks.c: what they cannot do;
 *                  split_steps.c: steps of a replica of them
 *   preprocess.c   actors that make batches for workers
 *   monitor.c      between steps: evaluation of the representative model, target, cancel, progress
 *   measure.c      measures of several workers (measures.h)
 *   saved_states.c saved state of actors in checkpoints; collect_states.c: how it comes together
 *                  at a step of synchronous workers, cut.c: in an asynchronous team
 *   phases.c       the phases of a run, and the change from one to the next
 *   representative.c   which model is representative; ensemble_members.c: an ensemble
 *   codec_checks.c     codecs: options and checks
 *
 * The run's own learner holds the representative model, which is evaluated, saved and hashed. Where
 * a strategy makes replicas identical it is a copy of worker 0's; elsewhere it is made by policy. A
 * single worker trains that learner itself, in the caller's thread, as allreduce does with nobody
 * to add to.
 *
 * Threads and locks. fast_run_train() waits in the caller's thread while a world runs. An actor is
 * a thread, or a fiber of the simulator, and runs fast__team_worker() or fast__team_server():
 *
 *     caller    fast__team_train --> fast__world_run .................. --> fast__monitor_finish
 *     worker 0      strategy->worker: step, host_next, step, host_next, ...
 *     worker 1      strategy->worker: step, host_next, ...
 *     server 0      strategy->server: requests
 *
 *     mutex           ballot, saved, representative, progress, measures, costs, and the run itself:
 *                     its learner, result, clock and sinks, while actors run
 *     shared.mutex    the model of workers that share memory (trainer/context.h)
 *     stop            atomics, read at every step without a lock
 *
 * fast__team_lock() is a critical section of the recording around the mutex: a replay admits
 * workers in the recorded order. Sections whose order changes no result take the mutex alone. An
 * actor's own context, loader and progress need no lock: others read them when its program has
 * ended, or, of a server, while it waits for the worker that reads (saved_states.c).
 */

/* Why a team stopped, as bits. */
enum {
    FAST_WHY_CANCELED = 1,
    FAST_WHY_TARGET = 2,
    FAST_WHY_DIVERGED = 4,
    FAST_WHY_PATIENCE = 8,
    FAST_WHYS = 4 /* number of bits */
};
/* The bit of a stop reason that ends a run for good. */
int fast__team_why(const char *stop);

/* Losses of one epoch: whole numbers, so that their order does not matter. */
typedef struct fast_epoch_sums {
    int64_t epoch;     /* from 0 */
    int64_t loss;      /* sum of mean losses, times 2^28 */
    double large;      /* sum of losses that are too large for that, or of a single worker, or of
                          an epoch that was resumed */
    int64_t batches;   /* in the sums */
    int64_t correct;   /* positions */
    int64_t positions; /* evaluated */
} fast_epoch_sums;

/* Losses since the store's last row of metrics. */
typedef struct fast_interval_sums {
    double loss;       /* sum of mean losses */
    int64_t batches;   /* in the sum */
    int64_t correct;   /* positions */
    int64_t positions; /* evaluated */
} fast_interval_sums;

/* A worker's sums when it had taken `step` steps. */
typedef struct fast_step_sums {
    int64_t step;         /* at which something was due; 0: unused */
    fast_epoch_sums sums; /* of the worker's epoch so far */
} fast_step_sums;

/* Steps that a worker remembers: those of the open votes, the one before and the next. */
enum { FAST_STEP_SUMS = 4 };

/* Losses of one worker, so that an evaluation tells those of its own step whoever is ahead. Guarded
 * by the team's mutex. */
typedef struct fast_worker_sums {
    int64_t step;                       /* the worker's, counted */
    fast_epoch_sums now;                /* of its current epoch */
    fast_step_sums due[FAST_STEP_SUMS]; /* at its last steps with an evaluation or a checkpoint */
    int64_t due_count;                  /* of all such steps: the next one replaces the oldest */
} fast_worker_sums;

/* Where a worker is between its steps. */
typedef struct fast_actor_progress {
    int64_t step_voted; /* of the last vote that it took part in; -1: none */
    int64_t step_held;  /* up to which evaluation in another process may delay it; 0: none does */
    int64_t votes_cast; /* asynchronous strategies: opened votes that it took part in */
    int64_t shown_ns;   /* when it last looked whether to show progress */
    int64_t news;       /* changes of the membership that it has reported */
    double loss;        /* mean of the last batches */
    int64_t loss_count; /* batches in `loss`, at most the policy's */
    bool begun;         /* it has come to its first step */
    bool yields;        /* it has joined a snapshot that others have not joined */
    int64_t rounds;     /* by which it waits for others, before its last step */
    int64_t next;       /* the largest value of them after that step */
    int64_t counted;    /* steps of it in the sum of all; -1: as many as it has taken */
} fast_actor_progress;

/* One worker or server of the team in this process. */
typedef struct fast_team_actor {
    fast_context context;   /* the trainer's; its host is this struct */
    struct fast_team *team; /* that it belongs to */
    int64_t number;         /* of all workers; of all servers, at servers */
    fast_group *everyone;   /* split model: all workers; else NULL */
    fast_pipe_options pipe; /* split model: the worker's place */
    fast_loader *loader;    /* the worker's shard of the data; NULL at servers */
    fast_loader **loaders;  /* split model: the same for each of the worker's stages, NULL
                                          where it needs no batches */
    fast_preprocess_client preprocess; /* of a worker: where its batches are made */
    fast_workspace *workspace;         /* of the worker's own; NULL on sim and at servers */
    fast_saved_teachers *teachers;     /* of the worker's model; or NULL */
    fast_actor_progress progress;      /* between steps */
    fast_worker_sums sums;             /* of its losses */
    fast_actor_measures measures;      /* of all calls */
    fast_task asked;           /* a server of another process: answers worker 0's requests */
    fast_service *cut;         /* obeys worker 0 when a snapshot is taken; or NULL */
    fast_cut_worker cutting;   /* its part in snapshots */
    fast_err err;              /* of a call between steps; FAST_OK: none failed */
    char why[FAST_DETAIL_MAX]; /* detail of err */
    bool over;                 /* its program has ended */
    bool lost;                 /* its program failed: its replica counts no more */
} fast_team_actor;

/* The actors of this process and of the others. */
typedef struct fast_team_place {
    fast_world *world;          /* while it trains; else NULL */
    bool alone;                 /* all actors are in this process */
    bool first;                 /* worker 0 is in this process */
    bool agreeing;              /* its actors agree on the next phase */
    bool recorded;              /* an earlier call was recorded or replayed */
    int64_t here;               /* workers in this process */
    int64_t actors_here;        /* actors in this process */
    char *job;                  /* that a recording belongs to; NULL: not recorded */
    fast_role roles[3];         /* worker, server, preprocessor: those that the run has */
    fast_workspaces workspaces; /* that simulated learners share */
    fast_equal_replicas equal;  /* of simulated workers, where the strategy keeps them equal */
    bool *mine;                 /* [workers + servers]: they are in this process */
} fast_team_place;

/* Whether the run said that an actor is missing. */
typedef struct fast_missing {
    bool is;      /* it is, and a note said so */
    int64_t time; /* of the last note: older news are of no interest */
} fast_missing;

/* Steps of all workers of this process. Guarded by the team's mutex. */
typedef struct fast_team_progress {
    fast_epoch_sums epochs[2];   /* the current one and the one before, by parity */
    fast_epoch_sums resumed;     /* of the epoch in which the run was resumed, before that */
    fast_interval_sums interval; /* since the store's last row of metrics */
    fast_step_sums *remote;      /* [workers] as workers of other processes sent them; NULL: all
                                    workers are in this process */
    int64_t steps_sum;           /* of all workers */
    int64_t workers_up;          /* workers whose program has not ended */
    fast_missing *missing;       /* [workers + servers] */
    int64_t step_begun;          /* synchronous, with a topology or without exchanges: the largest
                                  step that a worker was let to */
    atomic_uint counted; /* changes when a worker counts a step at which something is due, or
                                  ends; worker 0 may sleep on it */
} fast_team_progress;

/* How a team stops. */
typedef struct fast_team_stop {
    /* A learner that fails ends the run. Its worker sets `broken` and writes the next two before
     * its actor ends; they are read when all actors have. */
    atomic_llong broken;          /* rank of the worker; -1: no learner failed */
    fast_err err;                 /* of its learner */
    char detail[FAST_DETAIL_MAX]; /* of err, in one line */
    atomic_llong step;            /* synchronous workers stop at this step; INT64_MAX: at none */
    atomic_bool now;              /* asynchronous workers stop at once */
    atomic_bool finished;         /* the target was reached, or the loss is not a number */
    atomic_int why;               /* bits of FAST_WHY_*, wherever it was seen */
    atomic_llong canceler;        /* 1 + rank of the one worker that canceled; 0: nobody, several */
} fast_team_stop;

typedef struct fast_team {
    fast_run *run;                 /* that it belongs to */
    fast_phases phases;            /* strategies, one after the other; the next three are of the
                                      current one */
    const fast_strategy *strategy; /* borrowed */
    void *config;                  /* options of the strategy; borrowed */
    fast_topology *topology;       /* borrowed; NULL where the strategy has none */
    bool single;                   /* one worker that was asked for no strategy: it trains the
                                      run's learner and has no measures of several workers */
    int64_t workers;               /* in all processes */
    int64_t servers;               /* that any phase needs, in all processes */
    int64_t *ids;                  /* [workers + servers]: actors' numbers */
    fast_team_actor **actors;      /* [workers + servers]; NULL for actors of other processes */
    fast_team_place place;         /* where they are */
    fast_team_split split;         /* the stages of a split model */
    fast_shared_model shared;      /* of workers that share memory; has its own mutex */
    fast_team_stop stop;           /* atomic */

    fast_mutex mutex;                   /* guards the fields below */
    fast_saved_states saved;            /* of actors, for checkpoints */
    fast_cut cut;                       /* asynchronous: the snapshot that is taken */
    fast_representative representative; /* which model stands for the run */
    fast_ballot ballot;                 /* votes on it */
    fast_team_progress progress;        /* of all workers */
    fast_team_measures measures;        /* of all actors */
    fast_team_costs costs;              /* of an exchange, for the forecast */
} fast_team;

/* Make the team of the run's options. */
fast_err fast__team_new(fast_run *run, fast_team **out);
void fast__team_free(fast_team *team); /* NULL is allowed */

/* Train to the end. */
fast_err fast__team_train(fast_team *team);
/* Tell the ranks that wait for this one to train that it will not, because of `err` with the
 * calling thread's detail, or FAST_OK where the run is closed. Returns err, with that detail. */
fast_err fast__team_decline(fast_run *run, fast_err err);

/* FAST_ENOTSUP, with the reason, where a checkpoint does not hold the whole state of the run.
 * `option` is the one that asks for it. */
fast_err fast__team_can_resume(const fast_team *team, const char *option);

/* Free the servers' contexts: the next world makes new ones. */
void fast__team_free_servers(fast_team *team);

/* The mutex. Where the run is recorded workers take it in an order that a replay repeats, so that
 * the fields it guards change in that order. */
#define FAST_CRITICAL_TEAM ((uint64_t)0x7465616d)
void fast__team_lock(const fast_team_actor *self);
void fast__team_unlock(const fast_team_actor *self);

/* team_actor.c */

/* Make actor i of the team, which starts with the run's model or with its saved state. FAST_ENOMEM,
 * FAST_EINVAL, FAST_EFORMAT. */
fast_err fast__team_actor_new(fast_team *team, int64_t i, fast_team_actor **out);
void fast__team_actor_free(fast_team_actor *self); /* NULL is allowed */
/* Start anew with the run's model. */
void fast__team_actor_reset(fast_team_actor *self);
/* Continue in the team's current phase. */
void fast__team_actor_enter(fast_team_actor *self);
/* The programs of workers and servers; `ctx` is the team. */
fast_err fast__team_worker(fast_actor *actor, void *ctx);
fast_err fast__team_server(fast_actor *actor, void *ctx);
/* A learner failed, with this error and the calling actor's detail: the team stops. */
void fast__team_break(fast_team_actor *self, fast_err err);

/* codec_checks.c */

/* Open the run's codecs, from its options alone. */
fast_err fast__run_codec_open(fast_run *run);
void fast__run_codec_close(fast_run *run);
/* The codecs of the current phase. */
fast_codec_pair fast__run_codecs(const fast_run *run);
/* FAST_EINVAL where mixing over a directed graph would not conserve the mean with these codecs. */
fast_err fast__codec_check_directed(const fast_run *run, const fast_strategy *strategy,
                                    const void *config);
/* FAST_EINVAL, with the reason, where the codecs do not fit the messages of a strategy. */
fast_err fast__codec_check_strategy(const fast_run *run, const fast_strategy *strategy,
                                    const void *config);
/* Make an encoded sum of a worker; NULL in *out where the run has no codec. */
fast_err fast__codec_sum_new(const fast_run *run, int64_t rank, fast_coded **out);
/* Return the members of the largest group that sums: replicas of the model, or of a stage. */
int64_t fast__codec_members(const fast_run *run);
/* FAST_EINVAL where the chains of a phase and the run's options do not fit. */
fast_err fast__codec_check(const fast_run *run);

/* recorded_job.c */

/* The job that a recording of the run belongs to, as lines; the caller frees it. */
fast_err fast__run_job(fast_run *run, char **out);
/* FAST_EINVAL, with the reason, where there is nothing to record. */
fast_err fast__team_can_record(const fast_team *team);
/* An actor's program starts or ends: in a replay its weights must be the recorded ones. */
void fast__team_compare(fast_team_actor *self, const char *when);

/* collect_states.c */

/* A checkpoint with the state of actors is due: this worker's is saved, and the last worker writes
 * the file. */
fast_err fast__collect_due(fast_team_actor *self, int64_t step);
/* The program of a worker is over, and the team is in several processes: the state of remote actors
 * comes to worker 0. */
fast_err fast__collect_leave(fast_team_actor *self, int64_t step);
/* A server's program starts: from now on it answers worker 0's requests for its state. */
void fast__collect_serve(fast_team_actor *self);
/* A server's program is over with `err`: send its state if worker 0 asks for it. */
fast_err fast__collect_served(fast_team_actor *self, fast_err err);

/* epoch_sums.c; the team's mutex is held, but for the last two */

/* Nothing has trained yet: a resumed run continues the sums of its epoch. */
void fast__sums_resume(fast_team *team);
/* Count a step of a worker with its batch; NULL: a step without one. */
void fast__sums_count(fast_team_actor *self, const fast_gradient *gradient);
/* The newest epoch of this process that has sums becomes the run's. */
void fast__sums_take(fast_team *team);
/* The newest epoch of all processes becomes the run's, when all programs have ended. */
void fast__sums_take_all(fast_team *team);
/* Return the sums of a worker of this process when it had taken `step` steps, which was due; its
 * last ones for any other step. */
fast_step_sums fast__sums_of(const fast_team_actor *self, int64_t step);
/* Of a synchronous team: the batches up to `step` become the run's sums; else as above. */
void fast__sums_take_at(fast_team *team, int64_t step);
/* Worker 0 waits until the others have counted `step`, a second at most. */
void fast__sums_wait(fast_team *team, int64_t step);
/* A worker has counted a step at which something is due, or has ended. */
void fast__sums_wake(fast_team *team);

/* remote_sums.c: losses of workers of other processes. Both fail as messages do. */

/* A worker of another process than worker 0's sends its sums: of its step, or `last` when its
 * program ends. */
fast_err fast__sums_send(fast_team_actor *self, bool last);
/* Worker 0 receives those of all workers of other processes that are not gone. */
fast_err fast__sums_receive(fast_team_actor *self, bool last);

/* team_crash.c */

/* Say which worker crashed and when, where a synchronous run on sim failed because of it; returns
 * err, with a detail of its own or unchanged. */
fast_err fast__team_crash(const fast_team *team, fast_err err);

/* monitor.c */

/* A worker of this process takes part in a vote. The mutex is held. */
void fast__monitor_cast(fast_vote *vote, const fast_team_actor *self);
/* Between steps of a worker: false if it is to stop, with self->err if something failed. */
bool fast__monitor_next(fast_team_actor *self);
/* news.c: tell of actors that are lost, hang, or are back, while an asynchronous run continues. */
void fast__monitor_news(fast_team_actor *self);
/* Return the worker's steps in the sum of all, which counts no step that it left out. */
int64_t fast__monitor_counted(fast_team_actor *self);
/* A gradient was computed; NULL: a step was counted without one. */
void fast__monitor_step(fast_team_actor *self, const fast_gradient *gradient);
/* The worker continues at another step. */
void fast__monitor_move(fast_team_actor *self, int64_t step);
/* All members of a group learn whether one wants to stop, and why: bits of FAST_WHY_*. Fails
 * as a collective does. */
fast_err fast__monitor_agree(fast_team *team, fast_group *group, int own, bool *stop_out);
/* The worker's program starts once more: its node was restarted. */
void fast__monitor_return(fast_team_actor *self);
/* The worker's program is over. Its replica, and those of remote workers that send theirs here,
 * enter the last vote. */
fast_err fast__monitor_leave(fast_team_actor *self);
/* All programs are over: make the representative of their last replicas; evaluate it if due. */
fast_err fast__monitor_finish(fast_team *team);
