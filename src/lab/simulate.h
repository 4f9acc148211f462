/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "fast/lab.h"
#include "transport/sim/fault.h"
#include "transport/transport.h"

/*
 * Simulations of small programs: `fast simulate`, and the campaigns of the tests. The programs are
 * in simulate_programs.c, their guarantees in simulate_check.c.
 */
typedef enum fast_simulate_program {
    FAST_SIMULATE_PING,      /* each round around a ring */
    FAST_SIMULATE_MASTER,    /* all to one and back, received from anyone */
    FAST_SIMULATE_ALLREDUCE, /* the sum of all vectors at everyone */
    FAST_SIMULATE_SPACE,     /* get and add, with bounded staleness */
    FAST_SIMULATE_GOSSIP     /* to another one each round, and on whatever happens */
} fast_simulate_program;

/* The options, as typed. */
typedef struct fast_simulate_config {
    int program;         /* a fast_simulate_program */
    int64_t workers;     /* actors */
    char cluster[4096];  /* preset or file */
    char faults[4096];   /* schedule, random, file; "" */
    int64_t seed;        /* of the first simulation */
    int64_t seeds;       /* of simulations */
    int64_t rounds;      /* of the program */
    int64_t size;        /* bytes of a message or vector */
    char algorithm[256]; /* of the allreduce */
    double work;         /* arithmetic operations of an actor before each exchange */
    double timeout;      /* seconds that a wait takes at most */
    char trace[4096];    /* file for the timeline */
    bool shrink;         /* reduce the first schedule that fails */
    bool check;          /* verify the transport's contract */
} fast_simulate_config;

/* The state of one actor's program, and its outcome. */
typedef struct fast_simulate_actor {
    int64_t rounds;               /* finished in this life */
    int64_t wrong;                /* sums that were not right */
    int64_t missed;               /* GOSSIP: who was not heard of in the end, though it is there */
    int64_t overrun_ns;           /* how far a wait went past its deadline, at most */
    int64_t disorder;             /* messages that came twice, too early or never */
    int64_t node;                 /* where it lives */
    int64_t life;                 /* restarts */
    bool ended;                   /* its program returned */
    bool crashed;                 /* the last life was stopped */
    fast_err err;                 /* how it returned */
    int64_t culprit;              /* whom it blames; or -1 */
    char detail[FAST_DETAIL_MAX]; /* in one line */
} fast_simulate_actor;

/* The last message of each pair, to see that all come once and in order. */
typedef struct fast_simulate_pair {
    int64_t sent;      /* by the sender's present life */
    int64_t from_life; /* the sender's, in the newest message; -1: none came */
    int64_t got;       /* its number */
} fast_simulate_pair;

/* One simulation. */
typedef struct fast_simulate_outcome {
    const fast_simulate_config *config; /* as asked for */
    int64_t seed;                       /* of this one */
    fast_faults *faults;                /* its schedule; NULL: none */
    char *faults_text;                  /* as text; "" */
    fast_actors_result result;          /* measures of the simulation */
    fast_simulate_actor *actors;        /* all */
    fast_simulate_pair *pairs;          /* [to * workers + from]; NULL for more than 512 workers */
    int64_t failed_count;               /* gave up; without those that crashed */
    int64_t crashed_count;              /* crashed for good */
    int64_t wrong_count;                /* sums */
    char broken[256];                   /* which promise; "" */
    double time_s;                      /* of this machine */
} fast_simulate_outcome;

extern const fast_option fast__simulate_options[];
extern const fast_part fast__simulate_part;

/* The program of every actor; ctx is the outcome. */
fast_err fast__simulate_main(fast_actor *actor, void *ctx);

/* Simulate once, with these faults instead of the options' if they are not NULL. FAST_EINVAL and
 * the like: nothing ran. The caller calls fini in any case but an error. */
fast_err fast__simulate_once(const fast_simulate_config *config, const char *faults, int64_t seed,
                             fast_simulate_outcome *out);
void fast__simulate_fini(fast_simulate_outcome *outcome);

/* "random" with the span of a simulation without faults, where it names none. */
fast_err fast__simulate_faults(const fast_simulate_config *config, char *text, size_t size);

/* After a simulation: say in outcome->broken which promise was broken, if one was. */
void fast__simulate_check(fast_simulate_outcome *outcome);

/* Reduce the faults of a failing simulation; the text is the caller's, as is *tries_out. */
fast_err fast__simulate_shrink(const fast_simulate_outcome *outcome, char **text_out,
                               int64_t *tries_out);

/* The command that repeats a simulation, cut if it does not fit. */
void fast__simulate_command(const fast_simulate_outcome *outcome, const char *faults, char *text,
                            size_t size);
