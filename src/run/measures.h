/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "comm/allreduces.h"
#include "fast/strategy.h"
#include "run/run.h"
#include "trainer/host.h"
#include "transport/transport.h"

/*
 * Measures of several workers; measure.c says what they mean, forecast.c how a step's time is
 * forecast.
 */
struct fast_team;
struct fast_team_actor;

/* Staleness of updates. */
typedef struct fast_staleness {
    int64_t counts[FAST_STALENESS_BUCKETS]; /* of updates, as in fast_result */
    int64_t count;                          /* of all updates */
    int64_t sum;                            /* of their staleness */
    int64_t max;                            /* largest staleness; 0 before the first */
} fast_staleness;

/* Activity of one actor in all calls that are over. */
typedef struct fast_tally {
    int64_t compute_ns, wait_ns, flight_ns; /* as fast_counters has them */
    int64_t bytes, messages;                /* sent */
    int64_t encode_ns, decode_ns;           /* in codecs */
    int64_t codec_in, codec_out, codec_dec; /* bytes, as fast_coded_figures has them */
    int64_t life_ns;                        /* from its start to its last step */
    int64_t pause_ns;                       /* in life_ns: between steps, while it evaluates */
    int64_t stood_ns;                       /* in life_ns: while another worker evaluates */
    int64_t steps;                          /* taken */
} fast_tally;

/* Computing time of the first steps, from which the others are forecast on a real machine. */
enum { FAST_FIRST_STEPS = 32, FAST_FIRST_SKIPPED = 2 };
typedef struct fast_first {
    double seconds[FAST_FIRST_STEPS]; /* of each, but for the very first, which warm up */
    int64_t seen;                     /* steps so far, those included */
} fast_first;

/* Measures of one actor. Counters are written by the actor; others may read them. */
typedef struct fast_actor_measures {
    fast_tally tally;      /* of calls that are over; guarded by the team's mutex */
    double *contributions; /* [fast__share_columns()] of its replica at its last vote; guarded by
                              the team's mutex. NULL at servers */
    fast_counter steps;    /* taken in this call */
    fast_counter pause_ns; /* between steps in this call */
    fast_counter end_ns;   /* when it took its last step of this call; 0: it has not */
    fast_counters end;     /* the actor's counters of time at end_ns */
    fast_first begun;      /* computing in its first steps */
    int64_t first_ns;      /* compute_ns of its actor at the last of them */
} fast_actor_measures;

/* Measures of all actors of this process. Guarded by the team's mutex. */
typedef struct fast_team_measures {
    fast_staleness staleness; /* of updates that were applied */
    double momentum_sum;      /* of measured momentum, weighted by its certainty */
    double momentum_weight;   /* of the sum: 1 over the square of its standard error */
    double divergence;        /* of replicas at the last vote; NAN before one */
    bool live;                /* the actors' counters are of the current call */
    double elsewhere_s;       /* sum of the mean steps of workers in other processes */
    int64_t pause_before_ns;  /* of the run, when the current call started */
    int64_t *waited;          /* [workers + servers]: ns that others waited for each */
    double *column_means;     /* [fast__share_columns()] scratch of completeness */
    int64_t figures_due;      /* results until sums over workers are made again; 0: at the next */
    char waited_for[64];      /* name of the actor that the others waited for most */
} fast_team_measures;

/* Costs of worker 0's exchange. Guarded by the team's mutex. */
typedef struct fast_team_costs {
    bool known;                     /* the trainer told them */
    fast_cost cost;                 /* its parts are those below */
    int64_t parts[FAST_COST_PARTS]; /* floats of sums that start during the backward pass */
    double part_s[FAST_COST_PARTS]; /* seconds of each */
    double small_s;                 /* seconds of a sum of one number: its latency */
    double sum_s;                   /* seconds of a sum of all parameters; NAN: unknown */
    fast_comm_cost network;         /* measured between processes; alpha is 0 if it was not */
} fast_team_costs;

/* Bring the measures of several workers in the run's result up to date, or the computing time of a
 * single one. In mid-run they are as of the last vote, and the team's mutex is held. */
void fast__team_measure(struct fast_team *team);
/* Count an update of this staleness. */
void fast__staleness_add(fast_staleness *s, int64_t staleness);
/* Activity of actor i so far, the current call included. */
fast_tally fast__measure_tally(const struct fast_team *team, int64_t i);
/* A tally as times in seconds. */
fast_worker fast__measure_split(const fast_tally *tally);
/* A call starts. */
void fast__measure_begin(struct fast_team *team);
/* A worker votes. The team's mutex is held. */
void fast__measure_vote(struct fast_team_actor *self);
/* A worker has taken its last step: its later activity belongs to the end. */
void fast__measure_leave(struct fast_team_actor *self);
/* A worker that crashed starts again: the time in between is not training. */
void fast__measure_return(struct fast_team_actor *self);
/* The call is over, and its world still open. */
void fast__measure_end(struct fast_team *team);

/* Take the time of a step. */
void fast__first_add(fast_first *first, double seconds);
/* Of all workers before their first step: measure the links between processes, for the forecast. A
 * failure leaves them unknown. */
void fast__forecast_network(struct fast_team_actor *self);
/* Of a worker whose group is still there: forecast the times of its sums by the transport's
 * costs. */
void fast__forecast_sums(struct fast_team_actor *self);
