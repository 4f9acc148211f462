/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The representative: which model is evaluated, saved and hashed where workers' replicas differ.
 * Replicas w_i come to a vote, in any order; what it makes of them is by policy
 *
 *   auto        the newest copy of the strategy's centre; where it has none, the mean
 *   average     1/n sum_i w_i
 *   best        w_i of the smallest training loss, a mean over the last `smooth` batches of worker
 *               i: what one would pick without a look at the test data
 *   consensus   worker 0's after `rounds` of mixing without learning, x_i <- sum_j W_ij x_j, over
 *               the strategy's topology or, where it has none, the full graph. Mixing is linear: it
 *               is sum_j v_j w_j with v = e_0 W_R ... W_1, and nobody has to exchange anything. It
 *               is divided by sum_j v_j, which is push-sum where W is not doubly stochastic, and
 *               leaves out who is gone
 *   worker      w_K; where K is gone, the next rank's that is there
 *   ensemble    all of them: ensemble_members.c. The best of them is what a single file can hold
 *
 * Sums are of whole numbers, so that threads which come in another order give the same bits. Where
 * a strategy makes replicas identical all policies are the same model.
 *
 * Cost of a vote: two passes over each replica; memory: a vote holds 20 bytes a parameter, with
 * consensus 28, with ensemble 4 for each worker besides.
 *
 * Which vector becomes the run's parameters, the first that applies:
 *
 *     centre >= 0    the strategy's centre of the largest version
 *     same           the first replica: all are equal to the bit
 *     chosen >= 0    best, worker, ensemble: the retained replica
 *     mixed          consensus: sum_j v_j w_j / sum_j v_j over the replicas that came
 *     sum            the mean
 *
 * Where the last two would apply and a value is too large for a sum, w[0] becomes NAN.
 *
 * Why sums fit: a value counts below 2^22 / P, so the sum of P values is below 2^22, and times 2^40
 * below 2^62. Rounding to 2^-40 errs by 2^-41 at most, less than a float of 1e-4 resolves.
 *
 * Divergence is the root mean square distance from the mean m: sqrt(1/n sum_i |w_i - m|^2).
 *
 * A vote is used under the team's mutex, or while no actor runs. Its memory is allocated with the
 * team: FAST_ENOMEM can occur when the run is opened, never in a vote.
 */
#include "run/representative.h"

#include "base/memory.h"
#include "run/team.h"
#include "tensor/vector.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static const double FIXED = 1099511627776.0; /* 2^40: the unit of votes is 2^-40 */
static const double LIMIT = 4194304.0;       /* 2^22: sums beyond do not fit */

static const fast_option best_options[] = {
    FAST_OPT_INT(fast_representative, smooth, "32", 1, 1e9,
                 "batches of the training loss that replicas are compared by"),
    FAST_OPT_END,
};

static const fast_option consensus_options[] = {
    FAST_OPT_INT(fast_representative, rounds, "8", 0, 1e6, "rounds of mixing without learning"),
    FAST_OPT_END,
};

static const fast_option worker_options[] = {
    FAST_OPT_INT(fast_representative, rank, "0", 0, 65535, "whose replica, from 0"),
    FAST_OPT_END,
};

const fast_part fast__policies[] = {
    { "auto", "what suits the strategy: its centre, the mean of its replicas, or an ensemble",
      NULL },
    { "average", "the mean of all replicas", NULL },
    { "best", "the replica with the smallest training loss", best_options },
    { "consensus", "worker 0's replica after rounds of mixing over the topology without learning",
      consensus_options },
    { "worker", "one worker's replica", worker_options },
    { "ensemble", "all replicas: the mean of their predictions; saved are the best and all",
      best_options },
    { NULL, NULL, NULL },
};

/* Names of policies, for fast__name_find(). */
static const char *name_at(const void *ctx, int64_t i)
{
    (void)ctx;
    return fast__policies[i].name;
}

/* Elements of a replica: parameters and state. */
static int64_t replica_count(const fast_team *team)
{
    return team->run->learner->params.count + team->run->learner->state.count;
}

/* Parse "name:key=value" into a policy with its options. */
static fast_err parse(fast_representative *r, const char *spec)
{
    const int64_t count = (int64_t)(sizeof fast__policies / sizeof *fast__policies) - 1;
    const char *rest = NULL;
    char name[32];
    int64_t i;

    FAST_TRY(fast__spec_split(spec, name, sizeof name, &rest));
    i = fast__name_find(name, name_at, NULL, count, NULL);
    if (i < 0)
        return fast__name_unknown("representative", name, name_at, NULL, count);
    r->smooth = 32;
    fast__options_default(fast__policies[i].options, r);
    FAST_TRY(fast__options_parse(fast__policies[i].name, fast__policies[i].options, r, rest));
    r->policy = (fast_policy)i;
    return FAST_OK;
}

/* The policy: what was asked for, or, with auto, the strategy's own. */
static fast_err choose(fast_team *team, const fast_strategy *strategy)
{
    const char *own = strategy->representative;
    const bool foreign = team->run->foreign != NULL;

    FAST_TRY(
        parse(&team->representative, team->single ? "auto" : team->run->config.representative));
    if (team->representative.policy == FAST_POLICY_AUTO && own)
        return parse(&team->representative, foreign && strcmp(own, "ensemble") == 0 ? "best" : own);
    if (team->representative.policy == FAST_POLICY_ENSEMBLE && foreign)
        return fast__fail(FAST_ENOTSUP, "representative=ensemble: a learner of one's own tells no "
                                        "predictions; take best");
    return FAST_OK;
}

fast_err fast__representative_open(fast_team *team)
{
    fast_representative *r = &team->representative;
    const fast_graph *graph = team->run->graph;
    const int64_t batch = team->run->config.batch;
    bool mixes = false, stands = false; /* consensus, ensemble: in any phase */

    for (int64_t i = 0; i < team->phases.count; i++) {
        const fast_strategy *strategy = team->phases.list[i].strategy;

        FAST_TRY(choose(team, strategy));
        mixes = mixes || (!strategy->identical && r->policy == FAST_POLICY_CONSENSUS);
        stands = stands || (!strategy->identical && r->policy == FAST_POLICY_ENSEMBLE);
    }
    if (r->policy == FAST_POLICY_WORKER && r->rank >= team->workers)
        return fast__fail(FAST_EINVAL,
                          "representative worker:rank=%lld: there are %lld workers, from 0",
                          (long long)r->rank, (long long)team->workers);
    if (mixes)
        FAST_TRY(fast__alloc("weights of mixing", team->workers, sizeof *r->weights, &r->weights));
    if (stands) {
        const int64_t each = graph->positions * graph->outputs;

        FAST_TRY(fast__alloc("an ensemble's models", team->workers * replica_count(team),
                             sizeof *r->members, &r->members));
        FAST_TRY(fast__alloc("predictions", batch * each, sizeof *r->outputs, &r->outputs));
        FAST_TRY(fast__alloc("mean predictions", batch * each, sizeof *r->mean, &r->mean));
    }
    return fast__representative_begin(team);
}

/* One round backwards: next_j = sum_i v_i W_ij, with row i of W what rank i takes of whom. */
static void mix_back(const fast_team *team, int64_t step, const double *v, double *next,
                     int64_t *ranks, double *weights)
{
    memset(next, 0, (size_t)team->workers * sizeof *next);
    for (int64_t i = 0; i < team->workers; i++) {
        double self = 1 / (double)team->workers;
        int64_t count;

        if (!team->topology) { /* the full graph: an equal share of everyone */
            for (int64_t j = 0; j < team->workers; j++)
                next[j] += v[i] * self;
            continue;
        }
        count = fast_topology_in(team->topology, step, i, ranks, weights, &self);
        next[i] += v[i] * self;
        for (int64_t k = 0; k < count; k++)
            next[ranks[k]] += v[i] * weights[k];
    }
}

fast_err fast__representative_begin(fast_team *team)
{
    fast_representative *r = &team->representative;
    const int64_t degree = team->topology ? fast_topology_degree_max(team->topology) : 0;
    double *next = NULL, *weights = NULL;
    int64_t *ranks = NULL;
    fast_err err;

    r->member_count = 0;
    FAST_TRY(choose(team, team->strategy));
    if (!r->weights)
        return FAST_OK;
    memset(r->weights, 0, (size_t)team->workers * sizeof *r->weights);
    r->weights[0] = 1;
    err = fast__alloc("weights of a round", team->workers, sizeof *next, &next);
    if (!err)
        err = fast__alloc("weights of neighbours", degree, sizeof *weights, &weights);
    if (!err)
        err = fast__alloc("neighbours", degree, sizeof *ranks, &ranks);
    for (int64_t round = r->rounds; !err && round > 0; round--) {
        mix_back(team, round - 1, r->weights, next, ranks, weights);
        memcpy(r->weights, next, (size_t)team->workers * sizeof *next);
    }
    fast__free(next);
    fast__free(weights);
    fast__free(ranks);
    return err;
}

void fast__representative_fini(fast_representative *represent)
{
    fast__free(represent->weights);
    fast__free(represent->members);
    fast__free(represent->outputs);
    fast__free(represent->mean);
}

/* Votes. */

fast_err fast__vote_new(const fast_team *team, fast_vote *vote)
{
    const int64_t count = replica_count(team);

    vote->step = -1;
    FAST_TRY(fast__alloc("who voted", team->workers, sizeof *vote->came, &vote->came));
    FAST_TRY(fast__alloc("the mean of replicas", count, sizeof *vote->sum, &vote->sum));
    FAST_TRY(fast__alloc("a replica", count, sizeof *vote->first, &vote->first));
    FAST_TRY(fast__alloc("a centre", count, sizeof *vote->middle, &vote->middle));
    if (team->representative.weights)
        FAST_TRY(fast__alloc("mixed replicas", count, sizeof *vote->mixed, &vote->mixed));
    if (team->representative.members)
        FAST_TRY(fast__alloc("an ensemble's models", team->workers * count, sizeof *vote->members,
                             &vote->members));
    return FAST_OK;
}

void fast__vote_free(const fast_vote *vote)
{
    fast__free(vote->came);
    fast__free(vote->sum);
    fast__free(vote->first);
    fast__free(vote->middle);
    fast__free(vote->mixed);
    fast__free(vote->members);
}

void fast__vote_clear(const fast_team *team, fast_vote *vote, int64_t step)
{
    const int64_t count = replica_count(team);

    memset(vote->came, 0, (size_t)team->workers * sizeof *vote->came);
    memset(vote->sum, 0, (size_t)count * sizeof *vote->sum);
    if (vote->mixed)
        memset(vote->mixed, 0, (size_t)count * sizeof *vote->mixed);
    vote->step = step;
    vote->count = 0;
    vote->local = 0;
    vote->spread = 0;
    vote->limit = LIMIT / (double)team->workers;
    vote->saturated = false;
    vote->same = true;
    vote->centre = -1;
    vote->chosen = -1;
}

/* Add a part of a replica to the sums. */
static void add_part(fast_vote *vote, double weight, const float *x, int64_t offset, int64_t count)
{
    if (vote->count == 0)
        fast__vector_copy(count, x, vote->first + offset);
    else if (vote->same)
        vote->same = fast__vector_equal(count, vote->first + offset, x);
    for (int64_t i = 0; i < count; i++) {
        const double value = (double)x[i];
        const double distance = value - (double)vote->first[offset + i];

        if (offset == 0) /* state that is not trained does not count */
            vote->spread += distance * distance;

        if (!(fabs(value) < vote->limit))
            vote->saturated = true;
        else
            vote->sum[offset + i] += llrint(value * FIXED);
    }
    for (int64_t i = 0; vote->mixed && i < count; i++)
        if (fabs((double)x[i]) < vote->limit)
            vote->mixed[offset + i] += llrint(weight * (double)x[i] * FIXED);
}

/* Is this replica to be chosen before the one that was? Of equal ones the smaller rank, so that the
 * order in which they come does not matter. */
static bool is_better(const fast_team *team, const fast_vote *vote, const fast_voter *replica)
{
    const fast_representative *r = &team->representative;
    const int64_t workers = team->workers;
    const double before = isnan(vote->loss) ? INFINITY : vote->loss;
    const double loss = isnan(replica->loss) ? INFINITY : replica->loss;

    if (vote->chosen < 0)
        return true;
    if (r->policy == FAST_POLICY_WORKER)
        return (replica->rank - r->rank + workers) % workers <
               (vote->chosen - r->rank + workers) % workers;
    return loss < before || (!(before < loss) && replica->rank < vote->chosen);
}

/* Keep a replica that may be taken as it is. */
static void retain(const fast_team *team, fast_vote *vote, const fast_voter *replica)
{
    const int64_t params = team->run->learner->params.count;
    const int64_t count = replica_count(team);
    const fast_representative *r = &team->representative;

    if (is_better(team, vote, replica)) {
        vote->chosen = replica->rank;
        vote->loss = replica->loss;
        fast__vector_copy(params, replica->w, vote->middle);
        fast__vector_copy(count - params, replica->s, vote->middle + params);
    }
    if (r->policy == FAST_POLICY_ENSEMBLE) {
        fast__vector_copy(params, replica->w, vote->members + replica->rank * count);
        fast__vector_copy(count - params, replica->s,
                          vote->members + replica->rank * count + params);
    }
}

void fast__vote_cast(const fast_team *team, fast_vote *vote, const fast_voter *replica)
{
    const fast_learner *learner = team->run->learner;
    const fast_representative *r = &team->representative;
    const double weight = r->weights ? r->weights[replica->rank] : 1;

    FAST_ASSERT(replica->rank >= 0 && replica->rank < team->workers);
    FAST_ASSERT(!vote->came[replica->rank]);
    if (r->policy == FAST_POLICY_AUTO && replica->centre &&
        replica->centre_version > vote->centre) {
        fast__vector_copy(learner->params.count, replica->centre, vote->middle);
        vote->centre = replica->centre_version;
    }
    if (r->policy == FAST_POLICY_BEST || r->policy == FAST_POLICY_WORKER ||
        r->policy == FAST_POLICY_ENSEMBLE)
        retain(team, vote, replica);
    const int64_t count = learner->params.count, state = learner->state.count;
    add_part(vote, weight, fast__map(replica->w, count, FAST_ACCESS_READ), 0, count);
    add_part(vote, weight, fast__map(replica->s, state, FAST_ACCESS_READ), count, state);
    fast__unmap(replica->s, state, FAST_ACCESS_READ);
    fast__unmap(replica->w, count, FAST_ACCESS_READ);
    vote->came[replica->rank] = true;
    vote->count++;
}

/* sum_i |w_i - m|^2 = sum_i |w_i - f|^2 - n |m - f|^2, where f, the first of the n replicas, is as
 * close as the others are, so that little cancels. */
static double divergence(const fast_team *team, const fast_vote *vote)
{
    const double unit = 1 / (FIXED * (double)vote->count);
    double distance = 0;

    if (vote->same || vote->saturated)
        return vote->same ? 0 : NAN;
    for (int64_t i = 0; i < team->run->learner->params.count; i++) {
        const double d = (double)vote->sum[i] * unit - (double)vote->first[i];

        distance += d * d;
    }
    return sqrt(fmax(0, vote->spread / (double)vote->count - distance));
}

/* The weights of all who came, in the order of ranks. */
static double weight_sum(const fast_team *team, const fast_vote *vote)
{
    double sum = 0;

    for (int64_t j = 0; j < team->workers; j++)
        sum += vote->came[j] ? team->representative.weights[j] : 0;
    return sum;
}

/* The members of the vote stand from now on, packed. The memory of both is exchanged. */
static void take_members(fast_team *team, fast_vote *vote)
{
    fast_representative *r = &team->representative;
    const int64_t count = replica_count(team);
    float *old = r->members;

    r->member_count = 0;
    for (int64_t j = 0; j < team->workers; j++)
        if (vote->came[j])
            memmove(vote->members + r->member_count++ * count, vote->members + j * count,
                    (size_t)count * sizeof(float));
    r->members = vote->members;
    vote->members = old;
}

void fast__vote_count(fast_team *team, fast_vote *vote)
{
    fast_learner *learner = team->run->learner;
    const int64_t count = learner->params.count;
    const double mass = vote->mixed ? weight_sum(team, vote) : 0;
    /* Nobody came whom the mixing reaches: their mean says more than nothing. */
    const int64_t *sum = mass > 0 ? vote->mixed : vote->sum;
    const double unit = 1 / (FIXED * (mass > 0 ? mass : (double)vote->count));
    const float *exact = vote->same ? vote->first : vote->chosen >= 0 ? vote->middle : NULL;

    FAST_ASSERT(vote->count > 0);
    team->measures.divergence = divergence(team, vote);
    float *w = fast__map(learner->w, count, FAST_ACCESS_WRITE);
    float *s = fast__map(learner->s, learner->state.count, FAST_ACCESS_WRITE);
    for (int64_t i = 0; i < count; i++)
        w[i] = vote->centre >= 0 ? vote->middle[i]
               : exact           ? exact[i]
                                 : (float)((double)sum[i] * unit);
    for (int64_t i = 0; i < learner->state.count; i++)
        s[i] = exact ? exact[count + i] : (float)((double)sum[count + i] * unit);
    /* A replica too large for a vote has diverged, so a mean has no meaning: the run's
     * model becomes one that is not a number. */
    if (vote->saturated && !exact && vote->centre < 0)
        w[0] = NAN;
    fast__unmap(learner->s, learner->state.count, FAST_ACCESS_WRITE);
    fast__unmap(learner->w, count, FAST_ACCESS_WRITE);
    team->representative.member_count = 0;
    if (team->representative.policy == FAST_POLICY_ENSEMBLE && !vote->same) /* several, not one */
        take_members(team, vote);
}
