/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "learner/learner.h"
#include "run/run.h"

/*
 * The model that stands for a run whose workers have replicas of their own: the policies of
 * --representative, and the votes that collect replicas for them (evaluation/representative.c); an
 * ensemble, which is several models together (evaluation/ensemble_members.c).
 */
struct fast_team;
struct fast_team_actor;

typedef enum fast_policy {
    FAST_POLICY_AUTO,      /* the strategy's centre, or the mean */
    FAST_POLICY_AVERAGE,   /* the mean of all replicas */
    FAST_POLICY_BEST,      /* the replica with the smallest training loss */
    FAST_POLICY_CONSENSUS, /* worker 0's after mixing rounds without learning */
    FAST_POLICY_WORKER,    /* one worker's */
    FAST_POLICY_ENSEMBLE,  /* the mean of all replicas' predictions */
} fast_policy;

/* The policies as parts; the last has no name. In the order of fast_policy. */
extern const fast_part fast__policies[];

/* A policy with its options and memory. */
typedef struct fast_representative {
    fast_policy policy; /* of --representative */
    int64_t rounds;     /* consensus: of mixing */
    int64_t rank;       /* worker: its rank */
    int64_t smooth;     /* best: batches of the training loss */
    double *weights;    /* [replicas]: consensus: of each in worker 0's model after all rounds */

    /* Ensemble; NULL and 0 otherwise. */
    float *members;       /* [replicas][params + state]: the models that stand */
    int64_t member_count; /* length of members; 0: the run's own model stands */
    float *outputs;       /* [batch][outputs]: of one member */
    double *mean;         /* [batch][outputs]: of all */
} fast_representative;

/* A vote on one part of the model: all of it, or what the workers of a split model have of it. The
 * sums are of whole numbers, w times 2^40, so that they do not depend on the order in which
 * replicas arrive. */
typedef struct fast_vote_part {
    int64_t params; /* parameters of the part */
    int64_t state;  /* elements of its state */
    int64_t count;  /* replicas that came */
    int64_t *sum;   /* [params + state]: of all replicas */
    int64_t *mixed; /* [params + state]: consensus: the sum with its weights; else NULL */
    float *first;   /* [params + state]: the first replica that came */
    bool same;      /* all replicas equal the first: the mean is exactly that */
    bool saturated; /* a value did not fit, or was not a number */
    double spread;  /* sum of the squared distances of all replicas from the first */
    int64_t centre; /* auto: the version of the centre that came; -1: none */
    int64_t chosen; /* best, worker, ensemble: whose replica is in the middle; -1: none */
    double loss;    /* the chosen one's training loss */
    float *middle;  /* [params + state]: the centre, or the chosen replica */
    float *members; /* [replicas][params + state]: ensemble: all that came, by rank; else NULL */
} fast_vote_part;

/* A vote: replicas that one model is made of, part by part. */
typedef struct fast_vote {
    int64_t step;          /* that it belongs to; -1: free */
    int64_t count;         /* workers whose replicas came */
    int64_t local;         /* workers of this process whose replicas came */
    bool *came;            /* [workers]: its replica is in the vote */
    double limit;          /* values beyond do not fit: their sum might not */
    fast_vote_part *parts; /* [part_count] in the order of fast__split_part() */
    int64_t part_count;    /* length of parts; 1 where the model is whole */
} fast_vote;

/* Votes that are open at a time. */
enum { FAST_VOTES = 2 };

/* The votes of a team. Guarded by its mutex. */
typedef struct fast_ballot {
    fast_vote votes[FAST_VOTES]; /* of the replicas at a step */
    fast_vote last;              /* of the replicas that the workers ended with */
    int64_t opened;              /* asynchronous strategies: evaluations that became due */
    int64_t step;                /* asynchronous strategies: of the open vote; -1: none is */
} fast_ballot;

/* A replica that takes part in a vote. */
typedef struct fast_voter {
    int64_t worker;         /* that has it: its number among all workers */
    const float *w;         /* its parameters */
    const float *s;         /* its state */
    double loss;            /* the mean of its last batches */
    const float *centre;    /* of the strategy; NULL: it has none */
    int64_t centre_version; /* of several the largest stands */
} fast_voter;

/* Read the policy from the run's options ("auto" is the strategy's own), and check it. */
fast_err fast__representative_open(struct fast_team *team);
/* Prepare it for the strategy and topology that the team has now. */
fast_err fast__representative_begin(struct fast_team *team);
void fast__representative_fini(fast_representative *represent);

/* Memory of a vote of this team; free_ also where new_ failed. */
fast_err fast__vote_new(const struct fast_team *team, fast_vote *vote);
void fast__vote_free(const fast_vote *vote);
/* Make a vote empty, for a step. The team's mutex is held, or nothing runs; below, too. */
void fast__vote_clear(const struct fast_team *team, fast_vote *vote, int64_t step);
/* Take a replica in. */
void fast__vote_cast(const struct fast_team *team, fast_vote *vote, const fast_voter *replica);
/* Make the model that a vote elects the run's model, and the distance of its replicas a measure. */
void fast__vote_count(struct fast_team *team, fast_vote *vote);

/* True if several models stand for the run together. */
bool fast__members_stand(const fast_run *run);
/* Loss and accuracy of the mean of the members' predictions, as a learner's evaluate(). */
fast_err fast__members_evaluate(fast_run *run, fast_evaluation *inout);
/* Predictions of all for one batch, at most as large as the run's, as outputs of one model:
 * logarithms of the mean probabilities, or means. */
fast_err fast__members_predict(fast_run *run, const fast_batch *batch, float *outputs);
/* A file for each member beside PATH: "model.safetensors" has "model.0.safetensors", ... */
fast_err fast__members_save(const fast_run *run, const char *path);
