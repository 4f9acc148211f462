/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Measures of several workers in a run's result; docs/measures.md has the formulas.
 *
 *   staleness     a histogram of all updates, in buckets 0, 1, 2, 3, 4-7, 8-15, ...; a quantile is
 *                 the end of the bucket in which it lies
 *   completeness  mean over i, j of min(1, c_ij / mean_i c_ij), c_ij the contribution of worker j
 *                 in replica i. While workers train, each counts its own: known are those of the
 *                 last vote
 *   time          training = life - evaluation;  compute, as counted by the actor;
 *                 waiting  = blocked - flight - evaluation by others meanwhile;
 *                 exchange = training - compute - waiting - codecs
 *   step          training / steps, mean of the workers, in all processes
 *
 * Evaluation is no part of training: a worker's own is the time that it spends between steps; where
 * workers go in step it also waits, somewhere in its exchange, while another one evaluates.
 *
 * Cost: a few additions for each step and update; P min(P, 256) for completeness at each vote, and
 * less often above 512 workers. Above 256 workers j is one of a sample (trainer/vectors.c).
 *
 * Where a worker's life goes; `flight` is the time of messages under way, which is exchange:
 *
 *     |<------------------------------ life ------------------------------>|
 *     | compute | codecs | exchange, with flight | waiting | pause | stood |
 *     |<-------------------- training -------------------->|
 *
 * `pause` is the worker's own evaluation, `stood` that of another one while it waits.
 *
 * Examples. Updates of staleness 0, 0, 1, 5 have p50 = 0, the bucket of the second, and p95 = 5:
 * the bucket 4-7 ends at 7, and no update is beyond the maximum. Two workers that never exchange
 * have c = (10 0; 0 10), column means 5, and completeness (1 + 0 + 0 + 1) / 4 = 0.5; with equal
 * replicas it is 1. A codec that leaves 1/4 of the bytes and takes 1 ns a byte each way breaks even
 * at (1 - 1/4) 8e-6 / 2e-9 = 3,000 Mbit/s.
 *
 * Counters of actors are atomic and written by their actor alone: a look in mid-run stops nobody.
 * When a world closes its counters are added to the tally of each actor.
 */
#include "run/team.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

void fast__staleness_add(fast_staleness *s, int64_t staleness)
{
    int bucket = (int)(staleness < 4 ? staleness : 4);

    FAST_ASSERT(staleness >= 0);
    for (int64_t end = 8; staleness >= end && bucket < FAST_STALENESS_BUCKETS - 1; end *= 2)
        bucket++;
    s->counts[bucket]++;
    s->count++;
    s->sum += staleness;
    if (staleness > s->max)
        s->max = staleness;
}

/* The end of the bucket that holds update number part * count; -1 without any. */
static int64_t quantile(const fast_staleness *s, double part)
{
    int64_t seen = 0;

    for (int i = 0; i < FAST_STALENESS_BUCKETS && s->count > 0; i++) {
        const int64_t end = i < 4 ? i : (INT64_C(8) << (i - 4)) - 1;

        seen += s->counts[i];
        if ((double)seen >= part * (double)s->count)
            return end < s->max ? end : s->max;
    }
    return s->count > 0 ? s->max : -1;
}

void fast__measure_begin(fast_team *team)
{
    for (int64_t i = 0; i < team->workers + team->servers; i++) {
        fast_team_actor *self = team->actors[i];

        if (!self)
            continue;
        atomic_store(&self->measures.steps, 0);
        atomic_store(&self->measures.pause_ns, 0);
        atomic_store(&self->measures.end_ns, 0);
    }
    team->measures.pause_before_ns = fast__counted(&team->run->progress.times.pause_ns);
    team->measures.live = true;
}

void fast__measure_vote(fast_team_actor *self)
{
    memcpy(self->measures.contributions, self->context.shares.w,
           (size_t)fast__share_columns(self->context.trainer.workers) * sizeof(double));
}

/* The time of an actor, without jumps of its clock; no call that a recording has. */
static int64_t life_of(fast_actor *actor)
{
    return actor->world->inner->steady ? fast__steady_now(actor) : fast__record_peek_now(actor);
}

/* Mean step of a worker, in seconds; 0 before the first. */
static double step_of(const fast_tally *tally)
{
    const fast_worker w = fast__measure_split(tally);

    if (w.steps == 0)
        return 0;
    return (w.compute_s + w.exchange_s + w.wait_s +
            (double)(tally->encode_ns + tally->decode_ns) * 1e-9) /
           (double)w.steps;
}

void fast__measure_leave(fast_team_actor *self)
{
    const fast_counters *c = &self->context.trainer.actor->counters;

    atomic_store(&self->measures.end.compute_ns, fast__counted(&c->compute_ns));
    atomic_store(&self->measures.end.wait_ns, fast__counted(&c->wait_ns));
    atomic_store(&self->measures.end.flight_ns, fast__counted(&c->flight_ns));
    atomic_store(&self->measures.end_ns, life_of(self->context.trainer.actor));
    const fast_tally tally =
        fast__measure_tally(self->team, fast_actor_id(self->context.trainer.actor));
    atomic_fetch_add(&self->team->place.world->sums.own, (long long)(step_of(&tally) * 1e9));
}

void fast__measure_return(fast_team_actor *self)
{
    const int64_t end = fast__counted(&self->measures.end_ns);

    FAST_ASSERT(self->team->measures.live);
    if (end > 0)
        fast__count(&self->measures.pause_ns, life_of(self->context.trainer.actor) - end);
    atomic_store(&self->measures.end_ns, 0);
}

/* Figures of a worker's codecs, which continue from call to call. */
static void take_codec(const fast_team_actor *self, fast_tally *tally)
{
    const fast_coded_figures *f = &self->context.codecs.figures;

    tally->encode_ns = fast__counted(&f->encode_ns);
    tally->decode_ns = fast__counted(&f->decode_ns);
    tally->codec_in = fast__counted(&f->bytes_in);
    tally->codec_out = fast__counted(&f->bytes_out);
    tally->codec_dec = fast__counted(&f->bytes_dec);
}

fast_tally fast__measure_tally(const fast_team *team, int64_t i)
{
    const fast_team_actor *self = team->actors[i];
    const fast_run *run = team->run;
    const fast_actor *actor =
        team->measures.live && team->place.world ? team->place.world->actors[i] : NULL;
    fast_tally tally = self ? self->measures.tally : (fast_tally){ 0 };

    if (self)
        take_codec(self, &tally);
    if (!self || !actor)
        return tally;
    const fast_counters *c = &actor->counters;
    const int64_t end = fast__counted(&self->measures.end_ns);
    const int64_t pause = fast__counted(&self->measures.pause_ns);
    const int64_t evaluation =
        fast__counted(&run->progress.times.pause_ns) - team->measures.pause_before_ns;

    const fast_counters *times = end ? &self->measures.end : c;

    tally.compute_ns += fast__counted(&times->compute_ns);
    tally.wait_ns += fast__counted(&times->wait_ns);
    tally.flight_ns += fast__counted(&times->flight_ns);
    tally.bytes += fast__counted(&c->bytes_sent);
    tally.messages += fast__counted(&c->messages_sent);
    tally.life_ns += end || !run->clock.actor ? end : life_of(run->clock.actor);
    tally.pause_ns += pause;
    if (team->strategy->synchronous && evaluation > pause)
        tally.stood_ns += evaluation - pause;
    tally.steps += fast__counted(&self->measures.steps);
    return tally;
}

void fast__measure_end(fast_team *team)
{
    FAST_ASSERT(team->place.world != NULL);
    for (int64_t i = 0; i < team->workers + team->servers; i++) {
        fast_team_actor *self = team->actors[i];

        team->measures.waited[i] += fast__counted(&team->place.world->waited[i]);
        if (!self)
            continue;
        if (fast__counted(&self->measures.end_ns) == 0 &&
            self->context.trainer.actor == team->place.world->actors[i])
            fast__measure_leave(self);
        self->measures.tally = fast__measure_tally(team, i);
        if (i < team->workers)
            fast__measure_vote(self);
    }
    team->measures.elsewhere_s = (double)atomic_load(&team->place.world->sums.others) * 1e-9;
    team->measures.live = false;
}

fast_worker fast__measure_split(const fast_tally *tally)
{
    const double training = (double)(tally->life_ns - tally->pause_ns - tally->stood_ns) * 1e-9;
    const double blocked = (double)(tally->wait_ns - tally->flight_ns - tally->stood_ns) * 1e-9;
    const double codec = (double)(tally->encode_ns + tally->decode_ns) * 1e-9;
    fast_worker w = { .steps = tally->steps,
                      .compute_s = (double)tally->compute_ns * 1e-9,
                      .wait_s = fmax(0, blocked),
                      .bytes_sent = tally->bytes,
                      .messages_sent = tally->messages };

    w.exchange_s = fmax(0, training - w.compute_s - w.wait_s - codec);
    return w;
}

/* Its replica counts no more. Others may look once its program is over. */
static bool is_lost(const fast_team_actor *self)
{
    return self->over && self->lost;
}

/* Add a replica's contributions, times its share, to the column means. */
static void add_row(const double *c, int64_t columns, double share, double *mean)
{
    for (int64_t j = 0; j < columns; j++)
        mean[j] += c[j] * share;
}

/* Sum min(1, c_j / mean_j) of one replica; columns that nobody contributed to count 0. */
static double row_sum(const double *c, int64_t columns, const double *mean)
{
    double sum = 0;

    for (int64_t j = 0; j < columns; j++)
        sum += mean[j] <= 0 ? 0 : c[j] < mean[j] ? c[j] / mean[j] : 1;
    return sum;
}

/* The mean of min(1, c_ij / mean_i c_ij), of the contribution c_ij of worker j in replica i. Rows
 * are read one after the other: by columns, each of P^2 reads would miss the cache. */
static double completeness(const fast_team *team)
{
    const int64_t columns = fast__share_columns(team->run->config.replicas);
    double *mean = team->measures.column_means, sum = 0, all = 0;
    int64_t replicas = 0;

    if (team->strategy->identical)
        return 1;
    for (int64_t i = 0; i < team->workers; i++) {
        if (!team->actors[i]) /* of another process, or nothing was trained */
            return NAN;
        replicas += !is_lost(team->actors[i]);
    }
    memset(mean, 0, (size_t)columns * sizeof *mean);
    for (int64_t i = 0; i < team->workers; i++)
        if (!is_lost(team->actors[i]))
            add_row(team->actors[i]->measures.contributions, columns, 1 / (double)replicas, mean);
    for (int64_t j = 0; j < columns; j++)
        all += mean[j];
    for (int64_t i = 0; i < team->workers; i++)
        if (!is_lost(team->actors[i]))
            sum += row_sum(team->actors[i]->measures.contributions, columns, mean);
    return all > 0 ? sum / (double)(replicas * columns) : NAN;
}

/* Whom the others waited for most. */
static void blame(fast_team *team)
{
    fast_result *r = &team->run->result;
    int64_t most = 0, sum = 0;

    for (int64_t i = 0; i < team->workers + team->servers; i++) {
        const fast_world *world = team->measures.live ? team->place.world : NULL;
        const int64_t ns =
            team->measures.waited[i] + (world ? fast__counted(&world->waited[i]) : 0);

        sum += ns;
        if (ns <= most)
            continue;
        most = ns;
        snprintf(team->measures.waited_for, sizeof team->measures.waited_for, "%s %lld",
                 i < team->workers ? "worker" : "server",
                 (long long)(i < team->workers ? i : i - team->workers));
    }
    r->waited_for = most > 0 ? team->measures.waited_for : NULL;
    r->waited_share = most > 0 ? (double)most / (double)sum : NAN;
}

/* Codecs of this process's workers; bench_codec.c has the formula of the break-even, here for each
 * byte that was encoded and decoded. */
static void measure_codecs(fast_team *team)
{
    fast_result *r = &team->run->result;
    double in = 0, out = 0, decoded = 0, encode = 0, decode = 0;
    int way = FAST_CODED_AUTO;

    for (int64_t i = 0; i < team->workers; i++) {
        const fast_tally tally = fast__measure_tally(team, i);

        in += (double)tally.codec_in;
        out += (double)tally.codec_out;
        decoded += (double)tally.codec_dec;
        encode += (double)tally.encode_ns * 1e-9;
        decode += (double)tally.decode_ns * 1e-9;
        if (team->actors[i]) /* all members sum by the same method */
            way = (int)fast__counted(&team->actors[i]->context.codecs.figures.way);
    }
    r->codec_sum = way == FAST_CODED_AUTO ? NULL : fast__coded_way_name((fast_coded_way)way);
    r->codec_bytes_in = (int64_t)in;
    r->codec_bytes_out = (int64_t)out;
    r->encode_s = team->place.here > 0 ? encode / (double)team->place.here : 0;
    r->decode_s = team->place.here > 0 ? decode / (double)team->place.here : 0;
    r->codec_s = r->encode_s + r->decode_s;
    r->break_even_mbit_per_s =
        in > 0 && decoded > 0 ? (1 - out / in) * 8e-6 / (encode / in + decode / decoded) : NAN;
}

/* Write the mean times of this process's workers, the mean step of the workers of all processes,
 * and the traffic of all its actors, into the result. */
static void measure_times(fast_team *team)
{
    fast_result *r = &team->run->result;
    const double share = team->place.here > 0 ? 1 / (double)team->place.here : 0;
    double compute = 0, exchange = 0, wait = 0, step = 0;
    int64_t steps = 0;

    r->bytes_sent = r->messages_sent = 0;
    for (int64_t i = 0; i < team->workers + team->servers; i++) {
        const fast_tally tally = fast__measure_tally(team, i);
        const fast_worker w = fast__measure_split(&tally);

        r->bytes_sent += tally.bytes;
        r->messages_sent += tally.messages;
        if (i >= team->workers)
            continue;
        compute += w.compute_s * share;
        exchange += w.exchange_s * share;
        wait += w.wait_s * share;
        steps += w.steps;
        step += step_of(&tally);
    }
    r->compute_s = compute;
    r->exchange_s = exchange;
    r->wait_s = wait;
    /* Other processes have told theirs at their end. */
    r->step_s = steps == 0 ? NAN
                : team->measures.elsewhere_s > 0
                    ? (step + team->measures.elsewhere_s) / (double)team->workers
                    : step * share;
    r->bytes_per_step = steps > 0 ? (double)r->bytes_sent / (double)steps : NAN;
    team->run->progress.times.compute_ns = (int64_t)(compute * 1e9);
}

void fast__team_measure(fast_team *team)
{
    const fast_staleness *s = &team->measures.staleness;
    fast_result *r = &team->run->result;

    if (team->single) {
        team->run->progress.times.compute_ns = fast__measure_tally(team, 0).compute_ns;
        r->compute_s = (double)team->run->progress.times.compute_ns * 1e-9;
        return;
    }
    r->staleness_mean = s->count > 0 ? (double)s->sum / (double)s->count : NAN;
    r->staleness_max = s->count > 0 ? s->max : -1;
    r->staleness_p50 = quantile(s, 0.5);
    r->staleness_p95 = quantile(s, 0.95);
    memcpy(r->staleness, s->counts, sizeof r->staleness);
    r->divergence = team->measures.divergence;
    if (team->measures.momentum_weight > 0) {
        r->momentum = team->measures.momentum_sum / team->measures.momentum_weight;
        r->momentum_error = 1 / sqrt(team->measures.momentum_weight);
    }
    /* Sums over all workers at each event of each worker would take the square of their number:
     * thousands of workers have the figures of some events ago. */
    if (team->measures.figures_due-- > 0)
        return;
    team->measures.figures_due = team->workers * fast__share_columns(team->workers) >> 18;
    r->completeness = completeness(team);
    measure_times(team);
    measure_codecs(team);
    blame(team);
}

bool fast_run_worker(const fast_run *run, int64_t rank, fast_worker *out)
{
    FAST_ASSERT(run != NULL && out != NULL);
    if (run->team->single || rank < 0 || rank >= run->team->workers || !run->team->actors[rank])
        return false;
    const fast_tally tally = run->team->actors[rank]->measures.tally;
    *out = fast__measure_split(&tally);
    return true;
}
