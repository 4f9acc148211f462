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
    const int64_t batch = team->run->config.batch, replicas = team->run->config.replicas;
    bool mixes = false, stands = false; /* consensus, ensemble: in any phase */

    for (int64_t i = 0; i < team->phases.count; i++) {
        const fast_strategy *strategy = team->phases.list[i].strategy;

        FAST_TRY(choose(team, strategy));
        mixes = mixes || (!strategy->identical && r->policy == FAST_POLICY_CONSENSUS);
        stands = stands || (!strategy->identical && r->policy == FAST_POLICY_ENSEMBLE);
    }
    if (r->policy == FAST_POLICY_WORKER && r->rank >= replicas)
        return fast__fail(FAST_EINVAL,
                          "representative worker:rank=%lld: there are %lld workers, from 0",
                          (long long)r->rank, (long long)replicas);
    if (mixes)
        FAST_TRY(fast__alloc("weights of mixing", replicas, sizeof *r->weights, &r->weights));
    if (stands) {
        const int64_t each = graph->positions * graph->outputs;

        FAST_TRY(fast__alloc("an ensemble's models", replicas * replica_count(team),
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
    const int64_t replicas = team->run->config.replicas;

    memset(next, 0, (size_t)replicas * sizeof *next);
    for (int64_t i = 0; i < replicas; i++) {
        double self = 1 / (double)replicas;
        int64_t count;

        if (!team->topology) { /* the full graph: an equal share of everyone */
            for (int64_t j = 0; j < replicas; j++)
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
    const int64_t replicas = team->run->config.replicas;
    double *next = NULL, *weights = NULL;
    int64_t *ranks = NULL;
    fast_err err;

    r->member_count = 0;
    FAST_TRY(choose(team, team->strategy));
    if (!r->weights)
        return FAST_OK;
    memset(r->weights, 0, (size_t)replicas * sizeof *r->weights);
    r->weights[0] = 1;
    err = fast__alloc("weights of a round", replicas, sizeof *next, &next);
    if (!err)
        err = fast__alloc("weights of neighbours", degree, sizeof *weights, &weights);
    if (!err)
        err = fast__alloc("neighbours", degree, sizeof *ranks, &ranks);
    for (int64_t round = r->rounds; !err && round > 0; round--) {
        mix_back(team, round - 1, r->weights, next, ranks, weights);
        memcpy(r->weights, next, (size_t)replicas * sizeof *next);
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

/* Allocate the memory of a vote on one part. */
static fast_err new_part(const fast_team *team, int64_t index, fast_vote_part *part)
{
    const fast_team_part of = fast__split_part(team, index);
    const int64_t count = of.params->count + of.state->count;

    part->params = of.params->count;
    part->state = of.state->count;
    FAST_TRY(fast__alloc("the mean of replicas", count, sizeof *part->sum, &part->sum));
    FAST_TRY(fast__alloc("a replica", count, sizeof *part->first, &part->first));
    FAST_TRY(fast__alloc("a centre", count, sizeof *part->middle, &part->middle));
    if (team->representative.weights)
        FAST_TRY(fast__alloc("mixed replicas", count, sizeof *part->mixed, &part->mixed));
    if (team->representative.members)
        FAST_TRY(fast__alloc("an ensemble's models", team->run->config.replicas * count,
                             sizeof *part->members, &part->members));
    return FAST_OK;
}

fast_err fast__vote_new(const fast_team *team, fast_vote *vote)
{
    const int64_t parts = fast__split_parts(team);

    vote->step = -1;
    FAST_TRY(fast__alloc("who voted", team->workers, sizeof *vote->came, &vote->came));
    FAST_TRY(fast__alloc("votes on parts", parts, sizeof *vote->parts, &vote->parts));
    vote->part_count = parts;
    for (int64_t i = 0; i < parts; i++)
        FAST_TRY(new_part(team, i, &vote->parts[i]));
    return FAST_OK;
}

void fast__vote_free(const fast_vote *vote)
{
    for (int64_t i = 0; i < vote->part_count; i++) {
        fast__free(vote->parts[i].sum);
        fast__free(vote->parts[i].first);
        fast__free(vote->parts[i].middle);
        fast__free(vote->parts[i].mixed);
        fast__free(vote->parts[i].members);
    }
    fast__free(vote->parts);
    fast__free(vote->came);
}

void fast__vote_clear(const fast_team *team, fast_vote *vote, int64_t step)
{
    memset(vote->came, 0, (size_t)team->workers * sizeof *vote->came);
    for (int64_t i = 0; i < vote->part_count; i++) {
        fast_vote_part *part = &vote->parts[i];
        const size_t count = (size_t)(part->params + part->state);

        memset(part->sum, 0, count * sizeof *part->sum);
        if (part->mixed)
            memset(part->mixed, 0, count * sizeof *part->mixed);
        part->count = 0;
        part->spread = 0;
        part->saturated = false;
        part->same = true;
        part->centre = -1;
        part->chosen = -1;
    }
    vote->step = step;
    vote->count = 0;
    vote->local = 0;
    vote->limit = LIMIT / (double)team->run->config.replicas;
}

/* Add the parameters of a replica, or its state, to the sums. */
static void add_values(fast_vote_part *part, double limit, double weight, const float *x,
                       int64_t offset, int64_t count)
{
    if (part->count == 0)
        fast__vector_copy(count, x, part->first + offset);
    else if (part->same)
        part->same = fast__vector_equal(count, part->first + offset, x);
    for (int64_t i = 0; i < count; i++) {
        const double value = (double)x[i];
        const double distance = value - (double)part->first[offset + i];

        if (offset == 0) /* state that is not trained does not count */
            part->spread += distance * distance;

        if (!(fabs(value) < limit))
            part->saturated = true;
        else
            part->sum[offset + i] += llrint(value * FIXED);
    }
    for (int64_t i = 0; part->mixed && i < count; i++)
        if (fabs((double)x[i]) < limit)
            part->mixed[offset + i] += llrint(weight * (double)x[i] * FIXED);
}

/* Is this replica to be chosen before the one that was? Of equal ones the smaller rank, so that the
 * order in which they come does not matter. */
static bool is_better(const fast_team *team, const fast_vote_part *part, int64_t rank, double loss)
{
    const fast_representative *r = &team->representative;
    const int64_t replicas = team->run->config.replicas;
    const double before = isnan(part->loss) ? INFINITY : part->loss;
    const double now = isnan(loss) ? INFINITY : loss;

    if (part->chosen < 0)
        return true;
    if (r->policy == FAST_POLICY_WORKER)
        return (rank - r->rank + replicas) % replicas <
               (part->chosen - r->rank + replicas) % replicas;
    return now < before || (!(before < now) && rank < part->chosen);
}

/* Keep a replica that may be taken as it is. */
static void retain(const fast_team *team, fast_vote_part *part, int64_t rank,
                   const fast_voter *replica)
{
    const fast_representative *r = &team->representative;

    if (is_better(team, part, rank, replica->loss)) {
        part->chosen = rank;
        part->loss = replica->loss;
        fast__vector_copy(part->params, replica->w, part->middle);
        fast__vector_copy(part->state, replica->s, part->middle + part->params);
    }
    if (r->policy == FAST_POLICY_ENSEMBLE) {
        float *member = part->members + rank * (part->params + part->state);

        fast__vector_copy(part->params, replica->w, member);
        fast__vector_copy(part->state, replica->s, member + part->params);
    }
}

void fast__vote_cast(const fast_team *team, fast_vote *vote, const fast_voter *replica)
{
    const fast_representative *r = &team->representative;
    const int64_t rank = fast__split_rank(team, replica->worker);
    const double weight = r->weights ? r->weights[rank] : 1;

    FAST_ASSERT(replica->worker >= 0 && replica->worker < team->workers);
    FAST_ASSERT(!vote->came[replica->worker]);
    fast_vote_part *part = &vote->parts[fast__split_part_of(team, replica->worker)];
    if (r->policy == FAST_POLICY_AUTO && replica->centre &&
        replica->centre_version > part->centre) {
        fast__vector_copy(part->params, replica->centre, part->middle);
        part->centre = replica->centre_version;
    }
    if (r->policy == FAST_POLICY_BEST || r->policy == FAST_POLICY_WORKER ||
        r->policy == FAST_POLICY_ENSEMBLE)
        retain(team, part, rank, replica);
    const int64_t count = part->params, state = part->state;
    add_values(part, vote->limit, weight, fast__map(replica->w, count, FAST_ACCESS_READ), 0, count);
    add_values(part, vote->limit, weight, fast__map(replica->s, state, FAST_ACCESS_READ), count,
               state);
    fast__unmap(replica->s, state, FAST_ACCESS_READ);
    fast__unmap(replica->w, count, FAST_ACCESS_READ);
    vote->came[replica->worker] = true;
    vote->count++;
    part->count++;
}

/* sum_i |w_i - m|^2 = sum_i |w_i - f|^2 - n |m - f|^2, where f, the first of the n replicas, is as
 * close as the others are, so that little cancels. Distances of parts add up; layers that all
 * shards have count at each. */
static double divergence(const fast_vote *vote)
{
    double all = 0;

    for (int64_t p = 0; p < vote->part_count; p++) {
        const fast_vote_part *part = &vote->parts[p];
        const double unit = 1 / (FIXED * (double)part->count);
        double distance = 0;

        if (part->same || part->count == 0)
            continue;
        if (part->saturated)
            return NAN;
        for (int64_t i = 0; i < part->params; i++) {
            const double d = (double)part->sum[i] * unit - (double)part->first[i];

            distance += d * d;
        }
        all += fmax(0, part->spread / (double)part->count - distance);
    }
    return sqrt(all);
}

/* The weights of all who came with a part, in the order of ranks. */
static double weight_sum(const fast_team *team, const fast_vote *vote, int64_t part)
{
    double sum = 0;

    for (int64_t j = 0; j < team->workers; j++)
        if (vote->came[j] && fast__split_part_of(team, j) == part)
            sum += team->representative.weights[fast__split_rank(team, j)];
    return sum;
}

/* Copy a part of a replica, w and then s, to its place in those of the whole model. */
static void put_part(const fast_team *team, int64_t index, const float *from, float *w, float *s)
{
    const fast_team_part part = fast__split_part(team, index);
    const float *state = from + part.params->count;

    if (part.map) {
        fast__split_map_gather(part.map, from, w);
        fast__split_map_gather(part.state_map, state, s);
    } else {
        memcpy(w, from, (size_t)part.params->count * sizeof *w);
        memcpy(s, state, (size_t)part.state->count * sizeof *s);
    }
}

/* The members of the vote that came with all their parts stand from now on, packed. */
static void take_members(fast_team *team, const fast_vote *vote)
{
    fast_representative *r = &team->representative;
    const int64_t count = replica_count(team);

    r->member_count = 0;
    for (int64_t rank = 0; rank < team->run->config.replicas; rank++) {
        float *member = r->members + r->member_count * count;
        int64_t came = 0;

        for (int64_t j = 0; j < team->workers; j++)
            came += vote->came[j] && fast__split_rank(team, j) == rank;
        if (came < vote->part_count)
            continue;
        for (int64_t p = 0; p < vote->part_count; p++)
            put_part(team, p,
                     vote->parts[p].members + rank * (vote->parts[p].params + vote->parts[p].state),
                     member, member + team->run->learner->params.count);
        r->member_count++;
    }
}

/* Put the elected values of a part into its memory of the first replica. */
static void elect(const fast_team *team, const fast_vote *vote, int64_t index)
{
    fast_vote_part *part = &vote->parts[index];
    const double mass = part->mixed ? weight_sum(team, vote, index) : 0;
    /* Nobody came whom the mixing reaches: their mean says more than nothing. */
    const int64_t *sum = mass > 0 ? part->mixed : part->sum;
    const double unit = 1 / (FIXED * (mass > 0 ? mass : (double)part->count));
    const float *exact = part->same ? part->first : part->chosen >= 0 ? part->middle : NULL;
    float *out = part->first;

    for (int64_t i = 0; i < part->params + part->state; i++)
        out[i] = i < part->params && part->centre >= 0 ? part->middle[i]
                 : exact                               ? exact[i]
                                                       : (float)((double)sum[i] * unit);
    /* A replica too large for a vote has diverged, so a mean has no meaning: the run's
     * model becomes one that is not a number. */
    if (part->saturated && !exact && part->centre < 0)
        out[0] = NAN;
}

void fast__vote_count(fast_team *team, fast_vote *vote)
{
    fast_learner *learner = team->run->learner;
    const int64_t count = learner->params.count;
    bool same = true;

    FAST_ASSERT(vote->count > 0);
    team->measures.divergence = divergence(vote);
    float *w = fast__map(learner->w, count, FAST_ACCESS_UPDATE);
    float *s = fast__map(learner->s, learner->state.count, FAST_ACCESS_UPDATE);
    for (int64_t p = 0; p < vote->part_count; p++) {
        same = same && vote->parts[p].same;
        if (vote->parts[p].count == 0) /* all who had it are lost: the last one stands */
            continue;
        elect(team, vote, p);
        put_part(team, p, vote->parts[p].first, w, s);
    }
    fast__unmap(learner->s, learner->state.count, FAST_ACCESS_UPDATE);
    fast__unmap(learner->w, count, FAST_ACCESS_UPDATE);
    team->run->evaluation.partial = false;
    team->representative.member_count = 0;
    if (team->representative.policy == FAST_POLICY_ENSEMBLE && !same) /* several, not one */
        take_members(team, vote);
}
