/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "fast/strategy.h"
#include "run/run.h"

/*
 * The phases of a run: its strategy, and the strategies that follow it (phases.c). A run without
 * --phases has one.
 *
 * Phase i covers the steps [list[i - 1].end, list[i].end), from 0 to step_count without a gap.
 * Only the caller's thread of fast_run_train() changes `current`, between two worlds: actors read
 * it without a lock.
 */
struct fast_team;
struct fast_team_actor;

enum { FAST_PHASES_MAX = 16 };

typedef struct fast_phase {
    const fast_strategy *strategy;       /* of the phase */
    void *config;                        /* its options */
    fast_topology *topology;             /* NULL where it has none */
    int64_t servers;                     /* that it needs */
    char spec[FAST_SPEC_MAX];            /* the strategy and its options, as they were given */
    char place[64];                      /* the topology, as it was given */
    struct fast_chain *own[2];           /* its own codecs; NULL: those of the one before */
    const struct fast_chain *codec;      /* of messages that workers send */
    const struct fast_chain *codec_down; /* of answers */
    int64_t end;                         /* step at which the next one begins, or the run ends */
    bool reset;                          /* the rule's state begins anew with it */
} fast_phase;

/* All phases of a run. */
typedef struct fast_phases {
    fast_phase *list; /* [FAST_PHASES_MAX] */
    int64_t count;    /* of phases */
    int64_t current;  /* from 0 */
} fast_phases;

/* Make the phases of the run's options and enter the first. */
fast_err fast__phases_open(struct fast_team *team);
/* Return the number of workers that compute each batch: the strategy's option `redundant`, or 1.
 * run.c */
int64_t fast__run_redundancy(const struct fast_strategy *strategy, const void *config);
void fast__phases_free(struct fast_team *team);

/* True if there are phases after the current one. */
bool fast__phases_left(const struct fast_team *team);
/* The phase is over: enter the next one, with the run's model at every worker. Nothing runs. */
fast_err fast__phase_next(struct fast_team *team);
/* Enter the phase of the run's step, where a checkpoint was resumed. */
fast_err fast__phase_find(struct fast_team *team);

/* Between two phases, where actors live in several processes: an actor's program by which all learn
 * whether one of them is to stop, and the model of worker 0. */
fast_err fast__phase_agree(struct fast_team_actor *self);
/* The model and the flags of that program become this process's. */
void fast__phase_agreed(struct fast_team *team);
