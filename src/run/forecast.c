/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Forecast of the time of a step, by a model that does not look at the steps that it forecasts;
 * printed beside the measurement. With n parameters and P workers
 *
 *   compute    mean over workers of operations / speed + bytes / memory. On `sim` speeds are the
 *              cluster's; on a real machine the first steps' times stand for all
 *   exchange   sums S(n) + trips alpha + waits 4 n beta + moved n / memory, of what the strategy
 *              tells (fast_cost), and what of the models that travel behind the gradient is longer
 *              than that; S by the model of the collectives (comm/cost_model.h). Sums of parts that
 *              start during the backward pass follow one another but for their latency S(1):
 *              f_k = max(f_{k-1}, ready_k) + S(n_k) - S(1); f_last + S(1) - gradient is left.
 *              Links without contention carry them side by side: max_k (ready_k + S(n_k)) is the
 *              end. The first step sums after its gradient
 *   servers    a server's link transfers one model after the other, and it makes one update after
 *              the other (`sim`: in n gamma seconds): where workers synchronise at each step the
 *              last is answered after all others, and no step is shorter than
 *              P served max(4 n beta, n gamma) / servers
 *              Where the links of a cluster have no contention, transfers go side by side: those of
 *              all workers, those to several servers, and those to several neighbours
 *   straggler  the expected maximum over workers of the mean of `steps` draws of a step's
 *              computing, less the mean: 256 random draws, of the cluster's jitter, or of the
 *              first steps
 *
 * Work and depth are those of Work-Depth models (Blelloch 1996; Ben-Nun and Hoefler 2019, section
 * 2.4): a product of inner length k takes 1 + ceil(log2 k) dependent operations, other layers one;
 * the backward pass twice the forward pass, and the sum over the batch its logarithm. A worker is
 * one core: computing takes the work and not the depth; the largest speed-up is work / depth.
 *
 * Not forecast: what `algorithm=auto` measures in the first step before it chooses,
 * faults, queues behind unlucky neighbours, and that workers share a memory bus.
 *
 * Example of sums during the backward pass: a gradient of 30 ms, two parts of n / 2, S = 8 ms each
 * and S(1) = 1 ms. The forward pass is a third, so part 1 is ready at 30 (1/3 + 2/3 1/2) = 20 ms:
 *
 *     f_1 = max(0, 20) + 8 - 1 = 27;   f_2 = max(27, 30) + 8 - 1 = 37;   left = 37 + 1 - 30 = 8 ms
 *
 * Only the sum of the last part is seen: the other is hidden behind the gradient.
 *
 * Between processes alpha, beta and gamma are measured before the first step, by all workers.
 *
 * Order: worker 0 forecasts its sums at the end of its program, while its group exists, under the
 * team's mutex; the rest is computed by the caller's thread while the world is still open. NAN
 * stands for a figure that is not known: a strategy that tells no costs, or no step that was timed.
 */
#include "base/memory.h"
#include "base/rng.h"
#include "comm/cost_model.h"
#include "run/team.h"
#include "tensor/vector.h"
#include "transport/sim/sim.h"

#include <math.h>
#include <string.h>

enum { DRAWS = 256, BARRIER_MAX = 64 };       /* draws of the straggler; steps between barriers */
enum { BUS_FLOATS = 1 << 19, BUS_TRIES = 3 }; /* of the measurement of memory */

static const double LOCAL_ALPHA = 1e-6; /* a wake-up between threads that have a core each */

/* The first steps are skipped: they warm up caches and choose kernels. */
void fast__first_add(fast_first *first, double seconds)
{
    const int64_t at = first->seen - FAST_FIRST_SKIPPED;

    if (at >= FAST_FIRST_STEPS)
        return;
    if (at >= 0)
        first->seconds[at] = seconds;
    first->seen++;
}

/* Number of steps that were timed, the skipped ones not counted. */
static int64_t first_count(const fast_first *first)
{
    return first->seen > FAST_FIRST_SKIPPED ? first->seen - FAST_FIRST_SKIPPED : 0;
}

/* Return the depth of a step: dependent operations on the longest path through the network, forward
 * and backward; NAN if the run has no graph. */
double fast__run_depth(const fast_run *run)
{
    const fast_graph *graph = run->graph;
    double longest = 0;
    double *depth = NULL;

    if (!graph || fast__alloc("depths", graph->node_count, sizeof *depth, &depth))
        return NAN;
    for (int i = 0; i < graph->node_count; i++) {
        const fast_node *node = &graph->nodes[i];
        double before = 0;

        for (int k = 0; k < node->input_count; k++)
            before = fmax(before, depth[node->inputs[k]]);
        depth[i] = before + fast__node_depth(graph, i);
        longest = fmax(longest, depth[i]);
    }
    fast__free(depth);
    return 3 * longest + ceil(log2((double)run->config.batch)) + FAST_UPDATE_OPERATIONS;
}

/* The machine, as far as a worker's step depends on it. */
typedef struct forecast_machine {
    const fast_sim *sim; /* NULL: a real one */
    double memory;       /* seconds for a byte moved through it */
    bool queues;         /* a node's link transfers one message after the other */
    double slowest;      /* seconds of a byte on the slowest link to a server */
    fast_comm_cost cost; /* between workers */
    fast_comm_cost
        server; /* between a worker and a server, on average; gamma: of an update there */
} forecast_machine;

/* Expected latency of a simulated link, in seconds. */
static double link_alpha(const fast_sim_link *link)
{
    const double loss = (double)link->loss * 0x1p-32;

    return ((double)link->latency_ns + (double)link->overhead_ns + 0.5 * (double)link->jitter_ns +
            loss / (1 - loss) * (double)link->retry_ns) *
           1e-9;
}

/* Seconds of a byte over a simulated link: of its ends, or of one connection if that is slower. */
static double link_beta(const fast_sim_link *link)
{
    return fmax(link->ns_per_byte, link->stream_ns_per_byte) * 1e-9;
}

/* amount / speed; 0 where the speed is not limited. */
static double per(double amount, double speed)
{
    return speed > 0 ? amount / speed : 0;
}

/* Seconds of a simulated worker's charge, without jitter; actors beyond the cores wait for one. */
static double sim_seconds(const fast_sim *sim, int64_t i, double operations, double bytes)
{
    const fast_sim_node *node = sim->actors[i].node;
    int64_t actors = 0;

    for (int64_t k = 0; node->spec.cores > 0 && k < sim->base.roles[0].count; k++)
        actors += sim->actors[k].node == node;
    return (per(operations, node->spec.speed) + per(bytes, node->spec.memory)) * node->slow *
           fmax(1, per((double)actors, (double)node->spec.cores));
}

/* The dearest link between neighbours by rank, the mean link to the servers. */
static void sim_costs(const fast_team *team, forecast_machine *m)
{
    const fast_sim *sim = m->sim;
    const int64_t n = team->workers;

    for (int64_t i = 0; i < n; i++) {
        const fast_sim_actor *to = &sim->actors[(i + 1) % n];
        const fast_sim_link *link = fast__sim_link(sim, sim->actors[i].node, to->node);

        m->memory = fmax(m->memory, per(1, sim->actors[i].node->spec.memory));
        m->cost.gamma = fmax(m->cost.gamma, sim_seconds(sim, i, 1, 12));
        if (n > 1) {
            m->cost.alpha = fmax(m->cost.alpha, link_alpha(link));
            m->cost.beta = fmax(m->cost.beta, link_beta(link));
            m->queues |= link->contention;
            m->cost.side_by_side = !m->queues;
        }
        for (int64_t k = 0; k < team->servers; k++) {
            const double share = 1 / (double)(n * team->servers);

            link = fast__sim_link(sim, sim->actors[i].node, sim->actors[n + k].node);
            m->server.alpha += share * link_alpha(link);
            m->server.beta += share * link_beta(link);
            m->slowest = fmax(m->slowest, link_beta(link));
            m->queues |= link->contention;
            m->server.gamma +=
                share * sim_seconds(sim, n + k, FAST_UPDATE_OPERATIONS, FAST_UPDATE_BYTES);
        }
    }
}

/* Seconds for a byte through this machine's memory, by a short sum of vectors. */
static double time_memory(void)
{
    double best = INFINITY;
    float *x = NULL;

    if (fast__alloc("a vector to measure with", 2 * BUS_FLOATS, sizeof *x, &x))
        return 0;
    for (int i = 0; i < BUS_TRIES; i++) {
        const int64_t begin = fast__run_wall();

        fast__vector_add(BUS_FLOATS, x, x + BUS_FLOATS);
        best = fmin(best, (double)(fast__run_wall() - begin) * 1e-9);
    }
    fast__free(x);
    return best / (12.0 * BUS_FLOATS);
}

/* The links between processes cost as measured by fast__forecast_network(). */
static forecast_machine machine_of(const fast_team *team)
{
    forecast_machine m = { .queues = true };

    if (team->place.world->inner == &fast__transport_sim) {
        m.queues = false;
        m.sim = (const fast_sim *)team->place.world;
        sim_costs(team, &m);
        return m;
    }
    m.memory = team->workers + team->servers > 1 ? time_memory() : 0;
    m.cost = (fast_comm_cost){ .alpha = LOCAL_ALPHA, .beta = 2 * m.memory, .gamma = 12 * m.memory };
    if (team->costs.network.alpha > 0)
        m.cost = team->costs.network;
    m.server = (fast_comm_cost){ .alpha = m.cost.alpha, .beta = m.cost.beta };
    return m;
}

/* Return the seconds of a sum of `count` floats. Local workers sum in memory: each reads all
 * vectors of its slice, and writes the sum to all. */
static double sum_seconds(fast_group *group, const forecast_machine *m, bool local, int64_t count)
{
    if (local && !m->sim)
        return 4 * m->cost.alpha + 8 * (double)count * m->memory;
    return fast__model_at(group, &m->cost, count);
}

/* Set an actor's counters back to an earlier copy. Called by the actor, their only writer. */
static void uncount(fast_counters *now, const fast_counters *before)
{
    fast__count(&now->messages_sent, before->messages_sent - now->messages_sent);
    fast__count(&now->bytes_sent, before->bytes_sent - now->bytes_sent);
    fast__count(&now->messages_received, before->messages_received - now->messages_received);
    fast__count(&now->compute_ns, before->compute_ns - now->compute_ns);
    fast__count(&now->wait_ns, before->wait_ns - now->wait_ns);
    fast__count(&now->waits, before->waits - now->waits);
}

/* A group of its own: if the measurement fails, that of the strategy is still usable. Costs a few
 * milliseconds, once a run; later groups recall it. Its messages are not counted as the run's. */
void fast__forecast_network(fast_team_actor *self)
{
    fast_team *team = self->team;
    fast_actor *actor = self->context.trainer.actor;
    fast_counters *counters = &actor->counters;
    fast_group *group = NULL;

    if (team->place.alone || team->run->clock.is_virtual || fast_actor_life(actor) > 0)
        return;
    const fast_counters before = *counters;
    if (!fast_group_all(actor, "worker", &group) && !fast__model_fit(group, FAST_SOON) &&
        self->context.trainer.rank == 0 && group->cost) {
        fast__mutex_lock(&team->mutex);
        team->costs.network = *group->cost;
        fast__mutex_unlock(&team->mutex);
    }
    self->cutting.uncounted += counters->messages_sent - before.messages_sent;
    uncount(counters, &before);
    fast_group_free(group);
}

/* Called by worker 0 while its group exists; the result is read when the run is over. */
void fast__forecast_sums(fast_team_actor *self)
{
    fast_team *team = self->team;
    fast_group *group = self->context.trainer.group;
    const forecast_machine m = machine_of(team);

    fast__mutex_lock(&team->mutex);
    for (int64_t i = 0; i < team->costs.cost.bucket_count && team->costs.cost.buckets; i++)
        team->costs.part_s[i] = sum_seconds(group, &m, team->place.alone, team->costs.parts[i]);
    team->costs.small_s = sum_seconds(group, &m, team->place.alone, 1);
    team->costs.sum_s = sum_seconds(group, &m, team->place.alone, self->context.trainer.count);
    fast__mutex_unlock(&team->mutex);
}

/* One draw of what worker i computes in a step; NAN if nothing is known of it. */
static double draw(const fast_team *team, const forecast_machine *m, int64_t i, fast_rng *rng)
{
    const fast_team_actor *self = team->actors[i];
    const double n = (double)team->run->learner->params.count;

    if (m->sim) {
        const double jitter = m->sim->actors[i].node->spec.jitter;

        return sim_seconds(m->sim, i, team->run->learner->flops + FAST_UPDATE_OPERATIONS * n,
                           FAST_UPDATE_BYTES * n) *
               (1 + jitter * (double)fast__rng_uniform(rng));
    }
    const int64_t count = self ? first_count(&self->measures.begun) : 0;
    return count > 0 ? self->measures.begun.seconds[fast__rng_below(rng, (uint64_t)count)] : NAN;
}

/* Estimate the computing of a step: the mean over workers, and the expected maximum over workers of
 * their means between two barriers. NAN if no worker of this process has been timed. */
static void compute(const fast_team *team, const forecast_machine *m, double *mean_out,
                    double *slowest_out)
{
    const double steps = fmin(fmax(team->costs.cost.barrier, 1), BARRIER_MAX);
    double sum = 0, slowest = 0;
    int64_t count = 0;
    fast_rng rng;

    fast__rng_init(&rng, 1, FAST_PURPOSE_TEST, 0, 0, 0);
    for (int k = 0; k < DRAWS; k++) {
        double most = 0;

        for (int64_t i = 0; i < team->workers; i++) {
            double mean = 0;

            for (int j = 0; j < (int)steps; j++)
                mean += draw(team, m, i, &rng) / floor(steps);
            if (!isfinite(mean)) /* of another process */
                continue;
            sum += mean;
            count++;
            most = fmax(most, mean);
        }
        slowest += most / DRAWS;
    }
    *mean_out = count > 0 ? sum / (double)count : NAN;
    *slowest_out = slowest;
}

/* Return the seconds that sums which start during the backward pass need after the gradient, which
 * itself takes `gradient` seconds. */
static double overlapped(const fast_team *team, const forecast_machine *m, double gradient)
{
    const double n = (double)team->run->learner->params.count;
    double finish = 0, done = 0;

    for (int64_t i = 0; i < team->costs.cost.bucket_count; i++) {
        const double part = team->costs.part_s[i] - team->costs.small_s;

        done += (double)team->costs.parts[i] / n;
        const double ready = gradient * (1.0 / 3 + 2.0 / 3 * done);
        finish = m->queues ? fmax(finish, ready) + part : fmax(finish, ready + part);
    }
    const double left = fmax(0, finish + team->costs.small_s - gradient);
    const double steps = fmax(1, (double)fast__measure_tally(team, 0).steps);
    return left + (team->costs.sum_s - left) / steps; /* the first hides nothing */
}

/* Return the seconds of the transfers that a worker waits for, each of which takes `transfer`. */
static double waited(const fast_team *team, const forecast_machine *m, double transfer)
{
    const fast_cost *c = &team->costs.cost;
    const double n = (double)team->run->learner->params.count;

    if (m->queues)
        return c->waits * transfer;
    if (team->servers == 0)
        return fmin(c->waits, 1) * transfer;
    /* The slowest worker of a round counts. */
    return c->waits * (c->barrier > 0 && c->barrier < 2 ? 4 * n * m->slowest : transfer) /
           (double)team->servers;
}

/* Return the seconds of a worker's exchange in a step that computes for `seconds`. */
static double exchange(const fast_team *team, const forecast_machine *m, double seconds)
{
    const fast_cost *c = &team->costs.cost;
    const double n = (double)team->run->learner->params.count;
    const double work = team->run->learner->flops;
    const double gradient = seconds * work / (work + FAST_UPDATE_OPERATIONS * n);
    const double moved = c->moved * n * m->memory;
    const fast_comm_cost *cost = team->servers > 0 && c->served > 0 ? &m->server : &m->cost;
    const double transfer = 4 * n * cost->beta;
    /* One worker's part of a server's time; several servers work side by side. */
    const double each = team->servers > 0
                            ? c->served * fmax(m->queues ? transfer : 0, n * m->server.gamma) /
                                  (double)team->servers
                            : 0;
    const double served = each * (double)team->workers;
    double sum = c->buckets ? overlapped(team, m, gradient) : 0;

    if (!c->buckets && c->allreduces > 0)
        sum = c->allreduces * team->costs.sum_s;
    sum += c->round_trips * cost->alpha + waited(team, m, transfer) + moved;
    if (c->waits > 0 && team->servers > 0) /* its own update is made before it is answered */
        sum += c->served * n * m->server.gamma / (double)team->servers;
    /* Workers of a barrier are answered one after the other, so they continue one by one. */
    if (c->barrier > 0 && c->barrier < 2 && served > 0)
        sum += fmax(0, served - each);
    const double hidden = m->queues || team->servers > 0 ? c->hidden : fmin(c->hidden, 1);
    if (c->hidden > 0)
        sum += fmax(0, cost->alpha + hidden * transfer - gradient / fmax(1, c->barrier));
    return fmax(sum, served - seconds);
}

/* Forecast a step, if the trainer told its costs and a worker of this process was timed. */
static void forecast_team(const fast_team *team, fast_result *r)
{
    const forecast_machine m = machine_of(team);
    double mean, slowest;

    if (team->costs.known)
        compute(team, &m, &mean, &slowest);
    if (!team->costs.known || !isfinite(mean))
        return;
    r->predicted_compute_s = mean;
    r->predicted_straggler_s =
        team->costs.cost.barrier > 0 && slowest - mean > 1e-6 * mean ? slowest - mean : 0;
    r->predicted_exchange_s = exchange(team, &m, mean + r->predicted_straggler_s);
}

/* Without a world nothing has trained in this call. */
void fast__run_forecast(fast_run *run)
{
    fast_result *r = &run->result;

    r->work = run->learner->flops + FAST_UPDATE_OPERATIONS * (double)run->learner->params.count;
    r->depth = fast__run_depth(run);
    if (run->team->place.world && !fast__split_is(run->team))
        forecast_team(run->team, r);
    r->predicted_step_s =
        r->predicted_compute_s + r->predicted_exchange_s + r->predicted_straggler_s;
}
