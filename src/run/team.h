/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "base/pack.h"
#include "base/thread.h"
#include "comm/flow.h"
#include "model/native.h"
#include "run/represent.h"
#include "run/run.h"
#include "run/then.h"
#include "space/space_checkpoint.h"
#include "strategy/strategy.h"
#include "transport/transport.h"

/*
 * The team of a run: its actors, each in a seat with its own learner, rule and view of the run.
 *
 *   team.c      strategy + transport -> seats -> a world of actors -> their end
 *   trainer.c   what a strategy's program calls
 *   factors.c   gradients that are left as factors
 *   codec.c     codecs: checks, and sums that they make shorter
 *   kept.c      what strategies keep from one step to the next
 *   spaces.c    their spaces, and what those leave
 *   owed.c      all that actors keep, in checkpoints; gather.c: how it comes together
 *   together.c  one model for all workers of a process
 *   measure.c   what the result says of several workers
 *   monitor.c   between steps: evaluation of the representative model, target, cancel, progress
 *   then.c      the phases of a run, and the way from one to the next
 *   represent.c which model that is; members.c: several that stand together
 *
 * The run's own learner holds the representative model: what is evaluated, saved and hashed. Where
 * a strategy keeps replicas identical it is a copy of worker 0's; elsewhere it is made by policy.
 */

enum { FAST_VOTES = 2 };
enum { FAST_WHY_CANCELED = 1, FAST_WHY_TARGET = 2, FAST_WHY_DIVERGED = 4, FAST_WHYS = 3 };

/* How stale updates were. */
typedef struct fast_staleness {
    int64_t counts[FAST_STALENESS_BUCKETS]; /* of updates, as in fast_result */
    int64_t count;                          /* of all of them */
    int64_t sum;                            /* of their staleness */
    int64_t max;                            /* of it */
} fast_staleness;

/* What one actor did in all calls that are over. */
typedef struct fast_tally {
    int64_t compute_ns, wait_ns, flight_ns; /* as fast_counters has them */
    int64_t bytes, messages;                /* sent */
    int64_t encode_ns, decode_ns;           /* in codecs */
    int64_t codec_in, codec_out, codec_dec; /* bytes, as fast_coded_figures has them */
    int64_t life_ns;                        /* from its beginning to its last step */
    int64_t pause_ns;                       /* of that: between steps, where the run is judged */
    int64_t stood_ns;                       /* of that: while others judged */
    int64_t steps;                          /* taken */
} fast_tally;

struct fast_taken; /* factors.c */

/* Memory of a strategy at one worker (kept.c). */
typedef struct fast_kept {
    struct fast_kept *next; /* of the worker's */
    int64_t number;         /* which, by the strategy */
    size_t size;            /* bytes of data */
    void *data;             /* what it keeps */
} fast_kept;

/* What one actor keeps, in records. */
typedef struct fast_blob {
    uint8_t *bytes; /* of them; NULL: none yet */
    size_t size;    /* that is used */
    size_t room;    /* that there is */
    int64_t step;   /* that it is of; -1: none */
} fast_blob;

/* A space of a strategy, or what one left (spaces.c). */
typedef struct fast_left {
    struct fast_left *next; /* of the actor's */
    int64_t number;         /* of its name */
    fast_space *space;      /* while it is open; NULL: it is not */
    fast_blob blob;         /* what it left when it was closed */
} fast_left;

typedef struct fast_seat {
    fast_trainer trainer;       /* what the strategy sees; trainer.run is the seat */
    struct fast_team *team;     /* that it belongs to */
    fast_loader *loader;        /* the worker's share of the data; NULL at servers */
    fast_learner *learner;      /* likewise */
    fast_workspace *workspace;  /* of its own; NULL on sim */
    fast_optimizer *optimizer;  /* this actor's state of the rule */
    fast_coded *coded;          /* what sums of its vectors go through; NULL: none was yet */
    fast_flows flows;           /* that its strategy asked for, and of which phase */
    fast_kept *kept;            /* what its strategy keeps; NULL: nothing */
    fast_left *spaces;          /* its strategy's spaces, and what they left; NULL: none */
    fast_task asked;            /* a server of another process: asks of worker 0 */
    int64_t step_begun;         /* the step that its replica is from */
    fast_coded_figures figures; /* what all of its codecs did */
    float *first;               /* servers: memory of w and s */
    float *centre;              /* memory of trainer.centre; NULL: none was asked for */
    fast_settle_fn *settle;     /* brings in what w waits for; NULL: nothing */
    void *settle_ctx;           /* its */
    double rate;                /* operations a ns of the last gradient, where time is virtual */
    fast_coded_piece *pieces;   /* that its sums are made of; NULL: none */
    int64_t piece_count;        /* of them */
    int64_t pieces_left;        /* of this step's: not finished */
    struct fast_taken *taken;   /* layers whose gradients are left as factors; NULL: none was */
    int64_t taken_count;        /* of layers that could be */
    fast_gradient done;         /* what the parts of this step measured; loss: their sum */
    int64_t done_count;         /* of those parts */
    fast_err err;               /* what a call between steps met */
    char why[FAST_DETAIL_MAX];  /* its detail */
    int64_t step_judged;        /* of the last vote that it took part in; -1: none */
    int64_t step_held;          /* after which no judge of another process is waited for; 0: none */
    int64_t votes_cast;         /* asynchronous strategies: opened votes that it took part in */
    int64_t shown_ns;           /* when it last looked whether to show progress */
    double loss;                /* mean of the last batches */
    int64_t loss_count;         /* batches in it, at most the policy's */
    double owed;                /* elements of updates that were made in reports: not charged yet */
    float *own_w;               /* its own parameters, while it shares the team's; or NULL */
    fast_optimizer *own_rule;   /* likewise */
    double *carried;    /* [workers]: contributions that the replica holds; then [workers] those at
                        the last vote, guarded by the team's mutex */
    fast_tally tally;   /* of calls that are over; guarded likewise */
    fast_counter steps; /* taken in this call; others may look, likewise below */
    fast_first begun;   /* computing in its first steps */
    int64_t first_ns;   /* compute_ns of its actor at the last of them */
    fast_counter pause_ns; /* between steps in this call */
    fast_counter end_ns;   /* when it took its last step of this call; 0: it goes on */
    fast_counters end;     /* the actor's counters of time then */
    bool computing;        /* inside a gradient: updates in its reports are timed with it */
    bool over;             /* its program has ended */
    bool lost;             /* its program failed: its replica counts no more */
} fast_seat;

/* Losses of one epoch: whole numbers, so that their order does not matter. */
typedef struct fast_epoch_sums {
    int64_t epoch;     /* which */
    int64_t loss;      /* sum of mean losses, times 2^28 */
    double large;      /* sum of those that are too large for that */
    int64_t batches;   /* of them */
    int64_t correct;   /* positions */
    int64_t positions; /* judged */
} fast_epoch_sums;

/* What all workers keep, for checkpoints (owed.c). */
typedef struct fast_owed {
    bool open;          /* checkpoints are asked for */
    bool on;            /* workers keep something in the phase that goes on */
    bool votes;         /* their replicas differ: there is a vote */
    fast_vote vote;     /* which model stands for those of the step */
    fast_blob *blobs;   /* [workers, servers]; NULL: nobody asks */
    int64_t servers;    /* that keep something in the phase that goes on */
    int64_t step;       /* that is collected, or was; -1: none */
    int64_t arrived;    /* workers of this process that have put theirs in */
    int64_t whole;      /* the step at which all had; -1: none */
    int64_t loaded;     /* the step that a checkpoint brought it for; 0: none did */
    fast_run_sums sums; /* of the epoch, when worker 0 put its own in */
} fast_owed;

/* Sums of a step that are told one by one; the last stands for all that follow. */
enum { FAST_COST_PARTS = 64 };

typedef struct fast_team {
    fast_run *run;
    fast_phase *phases;  /* [FAST_PHASES_MAX]: strategies, one after the other */
    int64_t phase_count; /* of them */
    int64_t phase;       /* the one that goes on: the next three are its */
    const fast_strategy *strategy;
    void *config;            /* of the strategy */
    fast_topology *topology; /* NULL where the strategy has none */
    int64_t workers;
    int64_t servers;             /* that any phase needs */
    bool meeting;                /* its actors meet between two phases */
    int64_t *ids;                /* workers, then servers: actors' numbers */
    fast_seat **seats;           /* [workers + servers]; NULL for actors of other processes */
    fast_world *world;           /* while it trains */
    char *job;                   /* what a recording of it belongs to; NULL: not recorded */
    bool recorded;               /* or replayed, by an earlier call */
    bool alone;                  /* all actors are in this process */
    bool first;                  /* worker 0 is */
    int64_t here;                /* workers that are */
    fast_role roles[2];          /* worker, server */
    fast_workspaces workspaces;  /* that simulated learners take turns with */
    float *shared_w;             /* one model for all workers (together.c); NULL: there is none */
    fast_optimizer *shared_rule; /* its rule's state */

    /* Guarded by mutex. */
    fast_mutex mutex;
    fast_owed owed;
    fast_represent represent; /* which model stands for the run */
    fast_vote votes[FAST_VOTES];
    fast_vote last; /* of the replicas that the workers ended with */
    fast_epoch_sums epochs[2];
    int64_t sharers;      /* workers that share the model */
    int64_t steps_sum;    /* of all workers of this process */
    int64_t workers_up;   /* of them: those whose program goes on */
    int64_t votes_opened; /* asynchronous strategies: evaluations that became due */
    int64_t step_begun;   /* synchronous, topology or apart: the largest that a worker was let to */
    int64_t vote_step;    /* of the vote that is open; -1: none */
    fast_staleness staleness; /* of updates that were applied, by all actors of this process */
    double momentum_sum;      /* of measured momentum, weighted by its certainty */
    double momentum_weight;   /* of the sum: 1 over the square of its standard error */
    double divergence;        /* at the last vote; NAN before one */
    fast_cost cost;           /* of worker 0's exchange; its parts are those below */
    bool costed;              /* it told it */
    int64_t parts[FAST_COST_PARTS]; /* floats of sums that begin during the way back */
    double small_s;                 /* of a sum of one number: its latency */
    double sum_s;                   /* seconds of a sum of all parameters, by the model; NAN */
    double part_s[FAST_COST_PARTS]; /* of the parts */
    bool live;                      /* the actors' counters are of the call that goes on */
    int64_t pause_before_ns;        /* of the run, when it began */
    int64_t *waited;                /* [workers + servers]: ns that others waited for each */
    char waited_for[64];            /* name of whom they waited for most */

    /* A learner that fails ends the run. Who sets `broken` writes the other two, before its actor
     * ends; they are read when all have. */
    atomic_llong broken;              /* rank of the worker; -1: none */
    fast_err broken_err;              /* what its learner met */
    char broken_why[FAST_DETAIL_MAX]; /* in one line */

    atomic_llong stop_step; /* synchronous workers stop at this step */
    atomic_bool stop;       /* asynchronous ones at once */
    atomic_bool finished;   /* the target was reached, or the loss is not a number */
    atomic_int why;         /* bits of FAST_WHY_*: what stopped the team, wherever it was seen */
} fast_team;

/* Make the team of the run's options; NULL in *out where one worker needs none. */
fast_err fast__team_new(fast_run *run, fast_team **out);
void fast__team_free(fast_team *team); /* NULL is allowed */

/* Train to the end. */
fast_err fast__team_train(fast_team *team);

/* FAST_ENOTSUP, with the reason, where a checkpoint does not hold all that the run is. `option` is
 * what asks for it. */
fast_err fast__team_can_resume(const fast_team *team, const char *option);

/* A learner failed, with this error and the calling actor's detail: the team stops. */
void fast__team_break(fast_seat *seat, fast_err err);

/* Free the servers' seats: the next world makes new ones. */
void fast__team_free_servers(fast_team *team);

/* Bring the measures of several workers in the run's result up to date: of a call that goes on as
 * of its last vote, the mutex is held. */
void fast__team_measure(fast_team *team);
/* Count an update that is so stale. */
void fast__staleness_add(fast_staleness *s, int64_t staleness);
/* What an actor has done so far, this call included. */
fast_tally fast__measure_tally(const fast_team *team, int64_t i);
/* The same as times in seconds. */
fast_worker fast__measure_split(const fast_tally *tally);
/* A call begins; a worker votes, the mutex is held; the call is over, and its world still open. */
void fast__measure_begin(fast_team *team);
void fast__measure_vote(fast_seat *seat);
/* A worker has taken its last step: what it does from now on, it does for the end. */
void fast__measure_leave(fast_seat *seat);
void fast__measure_end(fast_team *team);

/* codec.c: open the run's codecs, from its options alone; close them. */
fast_err fast__run_codec_open(fast_run *run);
void fast__run_codec_close(fast_run *run);
/* FAST_EINVAL, with the reason, where the codecs do not go with what a strategy sends. */
fast_err fast__codec_check_strategy(const fast_run *run, const fast_strategy *strategy,
                                    const void *config);
/* What a worker's sums go through; NULL in *out where the run has no codec. */
fast_err fast__codec_sum_new(const fast_run *run, int64_t rank, fast_coded **out);
/* Refuse what the chains of a phase and the run's options do not allow. */
fast_err fast__codec_check(const fast_run *run);

/* owed.c: make room for what workers keep in the phase that goes on; give it back. */
fast_err fast__owed_open(fast_team *team);
void fast__owed_free(fast_team *team);
/* The same for another phase, where there was room before. */
fast_err fast__owed_again(fast_team *team);
/* Does a checkpoint of this step hold what workers keep? */
bool fast__owed_is_due(const fast_team *team, int64_t step);
/* A worker comes to a step at which all is saved: false while an earlier one is collected. The
 * mutex is held, here and below. */
bool fast__owed_turn(fast_team *team, int64_t step);
/* It puts its own in; true in *last_out if it is the last one. FAST_ENOMEM. */
fast_err fast__owed_arrive(fast_seat *seat, int64_t step, bool *last_out);
/* Pack what worker i of this process keeps; take in what one of another process has packed. */
fast_err fast__owed_pack(fast_team *team, int64_t i, int64_t step);
fast_err fast__owed_take(fast_team *team, int64_t i, int64_t step, const void *bytes, size_t size);
/* In mid-run: somebody has not put its own in yet. */
bool fast__owed_waits(const fast_run *run);
/* Tensors of a checkpoint at run->step, as the run is now; write them to the lists. FAST_EINVAL or
 * FAST_EPEER if something is missing. */
int64_t fast__owed_count(const fast_run *run);
fast_err fast__owed_list(fast_run *run, struct fast_tensor *tensors,
                         char (*names)[FAST_TENSOR_NAME_MAX]);
/* Look for them in a file; take them over. run->step is the file's. */
fast_err fast__owed_check(const fast_run *run, const char *path,
                          const struct fast_tensors *tensors);
fast_err fast__owed_load(fast_run *run, const struct fast_tensors *tensors);
/* A worker's seat is new: it begins with what was loaded for it. FAST_EFORMAT, FAST_ENOMEM. */
fast_err fast__owed_begin(fast_seat *seat);
/* codec.c: take over a record of the worker's sums, or of one of its flows. */
fast_err fast__codec_unpack(fast_seat *seat, bool flow, const fast_record *record);

/* Room for so many bytes. FAST_ENOMEM. */
fast_err fast__blob_reserve(fast_blob *blob, size_t size);
/* A seat's space of this number was opened: what the other ends of its flows left. */
fast_err fast__owed_others(const fast_seat *seat, int64_t number, fast_space *space);

/* spaces.c: what a space of this number left; all of it is given back; pack it, or what open ones
 * hold now. */
fast_err fast__spaces_leave(fast_seat *seat, int64_t number, const void *bytes, size_t size);
void fast__spaces_drop(fast_seat *seat);
void fast__spaces_pack(const fast_seat *seat, fast_pack *pack, int64_t kind);
/* codec.c: open a space with the run's codecs. */
fast_err fast__codec_space_open(fast_trainer *t, const fast_space_options *options,
                                fast_space_first_fn *first, void *ctx, fast_space **out);

/* kept.c: the memory of this number, made if there is none; all of it is given back. */
fast_err fast__kept_get(fast_seat *seat, int64_t number, size_t size, void **out);
void fast__kept_drop(fast_seat *seat);

/* Its sums are no longer cut in pieces. */
void fast__codec_uncut(fast_seat *seat);

/* factors.c: a gradient begins; take what it offers, true if that was wanted, and where its range
 * is. Then none is wanted any more, or the memory is freed. */
void fast__factors_begin(fast_seat *seat);
bool fast__factors_take(fast_seat *seat, const fast_factors *factors, int64_t *offset_out,
                        int64_t *count_out);
void fast__factors_forget(fast_seat *seat);
void fast__factors_free(fast_seat *seat);

/* The worker's replica is its own again: a copy of the shared one. */
void fast__seat_unshare(fast_seat *seat);

/* Of a worker whose group is still there: what the transport's prices make of its sums. */
void fast__forecast_sums(fast_seat *seat);

/* The mutex, which workers take in turns where the run is recorded, so that in a replay what it
 * guards changes in the same order. */
#define FAST_TURN_TEAM ((uint64_t)0x7465616d)
void fast__team_lock(const fast_seat *seat);
void fast__team_unlock(const fast_seat *seat);

/* record.c: what a recording of the run belongs to, as lines; the caller frees it. */
fast_err fast__run_job(fast_run *run, char **out);
/* FAST_EINVAL, with the reason, where there is nothing to record. */
fast_err fast__team_can_record(const fast_team *team);
/* Where an actor's program begins and ends: in a replay its weights must be those of then. */
void fast__team_compare(fast_seat *seat, const char *when);

/* gather.c: a checkpoint is due that holds what actors keep: this worker puts its own in, and the
 * last one saves it. */
fast_err fast__gather_due(fast_seat *seat, int64_t step);
/* The program of a worker is over, and the team is in several processes: what those of others keep
 * comes to worker 0. */
fast_err fast__gather_leave(fast_seat *seat, int64_t step);
/* A server's program begins, and is over with `err`: likewise, and in between when worker 0 asks.
 */
void fast__gather_serve(fast_seat *seat);
fast_err fast__gather_served(fast_seat *seat, fast_err err);

/* A worker of this process takes part in a vote. The mutex is held. */
void fast__monitor_cast(fast_vote *vote, const fast_seat *seat);
/* Between steps of a worker: false if it is to stop. */
bool fast__monitor_next(fast_seat *seat);
/* A gradient was computed; NULL: a step was counted without one. */
void fast__monitor_step(fast_seat *seat, const fast_gradient *gradient);
/* The worker goes on at another step. */
void fast__monitor_move(fast_seat *seat, int64_t step);
/* The worker's program begins once more: its node was restarted. */
void fast__monitor_return(fast_seat *seat);
/* The worker's program is over. Its replica, and those of far workers that end up here, are kept
 * for the last mean. */
fast_err fast__monitor_leave(fast_seat *seat);
/* All programs are over: the representative of where they ended, judged if that is due. */
fast_err fast__monitor_finish(fast_team *team);
