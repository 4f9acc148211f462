/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ps: parameter servers. The model is a space; its owners apply the update rule.
 *
 *     worker i, round c:  w_i <- get(w) once every worker has finished c - s rounds
 *                         g_i <- gradient at w_i;  add(g_i);  tick(c + 1)
 *     server:             of every n gradients that arrive:  w <- rule(w, scale 1/n sum g)
 *
 *   slack s      0: bulk synchronous (BSP); > 0: stale synchronous (SSP, Ho et al. 2013: Petuum,
 *                Cui et al., GeePS); -1: unbounded (Downpour, Dean et al. 2012)
 *   global       slack counts from the last round that all have met in: every s + 1 rounds each
 *                worker, not only who is ahead, waits for all others (SSP as Ben-Nun and Hoefler
 *                2019 describe it); no update is more than (P - 1)(s + 1) updates late
 *   warm         epochs of worker 0 before the others begin (Downpour's warm start, Dean et al.)
 *   eager        servers send new values to all readers when the slowest worker has ticked; a read
 *                takes the newest that came, if it is new enough, which may lack the worker's
 *                own last s updates (ESSP: Dai et al. 2015)
 *   stalest      of the requests that wait at a server that of the worker furthest behind is first
 *   value v      a worker waits while what it sent and others did not see moves a weight by more
 *                than v / sqrt(t) (VAP: ps_client.c)
 *   aggregate n  workers (BSP), 1 (asynchronous)
 *   softsync k   n = workers / k (k-softsync, Rudra: Gupta et al. 2016)
 *   backup b     with s = 0: the first workers - b gradients of a round are its update, the others
 *                are dropped, and who was late goes on with the newest model (Chen et al. 2016)
 *   fetch, push  steps between reads and between writes; gradients between two writes are summed
 *   epochs p     an epoch ends when the part p of the workers ended theirs; the others leave out
 *                the rest (Project Adam: Chilimbi et al. 2014, 75%)
 *   send         what a write is: gradients: their sum; differences: w_i - w_read after `push`
 *                local steps by the worker's rule, which the server adds; mean: the same by `push`
 *                (AGN, ADAG: Hermans et al. 2017)
 *   filter v     only what would move its weight by more than the part v / sqrt(t) is sent; the
 *   budget b     largest of it first, and no more than b bytes; the rest waits and adds up, until
 *                the last push takes all (ps_filter.c: Li et al., Gaia, Bösen). What is sent is
 *                packed where that is shorter: 8 bytes for each that is not 0
 *   barrier b    a write of more than b bytes is announced, and others' reads of the ranges that it
 *                changes wait until it has come (Gaia's selective barrier)
 *   skip p       what would be sent waits by chance, and adds up; not at the last push
 *   cache        the places of what is sent are sent again only when they change
 *   l1, kkt      every update ends with a proximal step of weight l1, which makes weights 0; kkt:
 *                gradients that such a step would take back are not sent. That changes nothing
 *                where each gradient is an update of plain SGD and its weight is 0 as it was read
 *   staleness    scale of an update that is d updates late: none: 1; inverse: 1 / max(1, d), as in
 *                staleness-aware async-SGD (Zhang et al. 2016) and DynSGD (Jiang et al. 2017);
 *                workers: 1 / workers, whatever d is (ConSGD, likewise)
 *   reject       updates that are later than this are dropped
 *   compensate   DC-ASGD's lambda, constant or (decay > 0) adaptive: compensate.c
 *   momentum     of the model's changes at the servers, also negative: ps_owner.c; the momentum
 *                that they have in all is measured: ps_momentum.c
 *   proxies      a server for each group of workers, between it and the model: ps_proxy.c
 *   replicas     copies of the model, each with as many servers; a crash of one loses nothing
 *   factors      dense layers go to the servers as factors, which multiply them out: ps_factors.c
 *   overlap      gradients go out while earlier layers are computed, and are one update when all
 *                are there (wait-free back-propagation: Zhang et al. 2017); with a codec whole
 *                layers do
 *   priority     the model is read in slices in the order of its layers, and the next step begins
 *                when its first layer has come
 *   lost         whether the others go on without a worker that crashed, or stop and name it
 *
 * With s = 0 and n = workers the gradients of a round are summed in the canonical order, so that it
 * is `allreduce` to the bit; with backup workers those that came, in the order of their ranks.
 * Staleness is counted in updates of the model.
 *
 * Cost per worker and step: one add and one get of the model, cut over the servers; the servers
 * move P times that. Memory at a server: its range, the rule's state, and with s = 0 a range for
 * each worker.
 */
#include "strategy/ps.h"

#include "base/err.h"
#include "base/exclusion.h"
#include "base/memory.h"
#include "comm/sum.h"

#include <math.h>
#include <string.h>

static const fast_option options[] = {
    FAST_OPT_INT(ps_config, servers, "1", 0, 65536,
                 "servers that share the model; 0: one for each worker"),
    FAST_OPT_INT(ps_config, replicas, "0", 0, PS_REPLICAS_MAX,
                 "copies of the model besides the first, at servers of their own"),
    FAST_OPT_INT(ps_config, proxies, "0", 0, 65536,
                 "groups of workers, each with a proxy that speaks for it; 0: none"),
    FAST_OPT_INT(ps_config, slack, "-1", -1, 1e12,
                 "rounds that a worker may be ahead of the slowest; 0: synchronous, -1: any"),
    FAST_OPT_BOOL(ps_config, global, "no",
                  "slack: every slack + 1 rounds all wait for all, not only who is ahead"),
    FAST_OPT_REAL(ps_config, warm, "0", 0, 1e9,
                  "epochs in which worker 0 trains before the others begin (warm start)"),
    FAST_OPT_INT(ps_config, aggregate, "0", 0, 65536,
                 "gradients in an update; 0: all workers' with slack 0, else 1"),
    FAST_OPT_INT(ps_config, softsync, "0", 0, 65536,
                 "workers / N gradients in an update (N-softsync); 0: by aggregate"),
    FAST_OPT_INT(ps_config, backup, "0", 0, 65536,
                 "slack 0: workers whose gradients a round does not wait for"),
    FAST_OPT_INT(ps_config, fetch, "1", 1, 1e12, "steps between reads of the model"),
    FAST_OPT_INT(ps_config, push, "1", 1, 1e12, "steps between writes of gradients"),
    FAST_OPT_CHOICE(ps_config, send, "gradients", "gradients|differences|mean",
                    "what is written: sums of gradients, differences of weights after local "
                    "steps, or those by the number of steps"),
    FAST_OPT_CHOICE(ps_config, staleness, "none", "none|inverse|workers",
                    "how much an update counts: whole, one over its staleness, or one over the "
                    "number of workers"),
    FAST_OPT_INT(ps_config, reject, "-1", -1, 1e12,
                 "drop updates that are more updates late than this; -1: none"),
    FAST_OPT_REAL(ps_config, value, "0", 0, 1e30,
                  "wait while what others have not seen would move a weight by more than this, by "
                  "the root of the step; 0: not"),
    FAST_OPT_BOOL(ps_config, eager, "no",
                  "servers send new values when the slowest worker has ticked, unasked"),
    FAST_OPT_BOOL(ps_config, stalest, "no",
                  "servers serve the worker that is furthest behind first"),
    FAST_OPT_REAL(ps_config, epochs, "1", 0.01, 1,
                  "part of the workers whose end of an epoch ends it for the others too"),
    FAST_OPT_REAL(ps_config, filter, "0", 0, 1e6,
                  "keep back what would move a weight by a smaller part than this, by the root of "
                  "the step; 0: nothing"),
    FAST_OPT_INT(ps_config, budget, "0", 0, 1e15,
                 "bytes of a write, the largest changes first, 8 for each; 0: any"),
    FAST_OPT_INT(ps_config, barrier, "0", 0, 1e15,
                 "bytes of a write that is announced: others' reads of what it changes wait for "
                 "it; 0: none"),
    FAST_OPT_REAL(ps_config, skip, "0", 0, 0.9999,
                  "probability that what would be sent waits, and adds up; 0: never"),
    FAST_OPT_REAL(ps_config, l1, "0", 0, 1e6,
                  "servers take this, by the rate, from every weight's size after each update, "
                  "down to 0"),
    FAST_OPT_BOOL(ps_config, kkt, "no",
                  "l1: of weights that are 0, gradients no larger than l1 are not sent"),
    FAST_OPT_BOOL(ps_config, cache, "no",
                  "filters: places of entries are not sent again while they are the same"),
    FAST_OPT_REAL(ps_config, compensate, "0", 0, 1e6,
                  "correct late gradients to first order with this weight (DC-ASGD); 0: not"),
    FAST_OPT_REAL(
        ps_config, decay, "0", 0, 0.9999999,
        "compensate: makes the weight adaptive by a mean of squares that keeps this part"),
    FAST_OPT_REAL(ps_config, momentum, "0", -0.9999999, 0.9999999,
                  "of the model's changes at the servers, besides the rule's; may be negative"),
    FAST_OPT_CHOICE(ps_config, lost, "auto", "auto|go|stop",
                    "when a worker crashes the others go on, or stop and name it; auto: stop with "
                    "slack 0 and no backup workers"),
    FAST_OPT_FACTORS(ps_config),
    FAST_OPT_BOOL(ps_config, overlap, "no",
                  "send gradients to the servers while others are computed"),
    FAST_OPT_BOOL(ps_config, priority, "no",
                  "what the next step needs first is read first, and it begins with that"),
    FAST_OPT_END,
};

static int64_t servers(const void *config, int64_t workers)
{
    const ps_config *c = config;

    return fast__ps_shards(c, workers) * (1 + c->replicas) + c->proxies;
}

int64_t fast__ps_batch(const ps_config *c, int64_t writers)
{
    if (c->softsync)
        return c->softsync < writers ? writers / c->softsync : 1;
    return c->aggregate ? c->aggregate : c->slack == 0 ? writers - c->backup : 1;
}

bool fast__ps_filters(const ps_config *c)
{
    return c->filter > 0 || c->budget > 0 || c->skip > 0 || c->kkt;
}

/* Options that do not go together. */
static const fast_exclusion exclusions[] = {
    /* Rounds. */
    { "slack=0", "softsync|send|compensate|fetch|push|value|epochs", NULL,
      "all workers take every round, and a round is one update of all their gradients" },
    { "slack=0&lost=go", NULL, "backup", "a round without backup workers needs all workers" },
    { "backup", NULL, "slack=0", "backup workers are those that a round does not wait for" },
    { "eager", NULL, "slack", "eager values are as old as the slack allows" },
    { "global", NULL, "slack", "workers wait for all others where the slack ends" },
    { "value", "slack", NULL, "a bound on values and one on rounds may wait for each other" },
    { "warm", "slack|value|proxies", NULL, "worker 0 trains ahead of the others" },
    { "softsync", "aggregate", NULL, "both set the number of gradients in an update" },
    /* The update. */
    { "send", "filter|budget|skip|kkt|l1|value|epochs|compensate", NULL,
      "it needs gradients, and differences of weights are written" },
    { "decay", NULL, "compensate", "it makes the weight of the compensation adaptive" },
    { "kkt", NULL, "l1", "it leaves out gradients that the proximal step of l1 takes back" },
    { "cache", NULL, "filter|budget|skip|kkt", "whole gradients have no indices to cache" },
    /* The way to the servers. */
    { "barrier", "slack=0|eager|send|factors=yes|overlap", NULL,
      "it holds reads back until a whole gradient has arrived" },
    { "overlap", "send|push|filter|budget|skip|kkt|value|proxies|barrier|factors=yes", NULL,
      "it sends one gradient as it is while it is computed" },
    { "factors=yes", "send|push|filter|budget|skip|kkt|value|proxies|barrier", NULL,
      "factors are those of one whole gradient" },
    { "priority", "replicas|proxies|eager|value|backup|barrier", NULL,
      "it reads the model layer by layer from its first copy" },
    /* Placement. */
    { "proxies", "fetch|push|send|backup|epochs|lost=stop", NULL,
      "workers of a proxy read and write gradients in every round" },
    { "replicas", "backup|eager|value", NULL, "every copy must hold the same updates" },
    { NULL, NULL, NULL, NULL },
};

/* Refuse numbers that do not fit the workers. */
static fast_err check_counts(const ps_config *c, int64_t workers)
{
    const int64_t writers = c->proxies > 0 ? c->proxies : workers;

    if (c->proxies > workers)
        return fast__fail(FAST_EINVAL, "ps: proxies=%lld are more than %lld workers",
                          (long long)c->proxies, (long long)workers);
    if (c->proxies > 0 && workers > FAST_SUM_MAX * c->proxies)
        return fast__fail(FAST_EINVAL, "ps: a proxy takes at most %d workers", FAST_SUM_MAX);
    if (c->backup >= writers)
        return fast__fail(FAST_EINVAL, "ps: backup=%lld leaves none of %lld workers",
                          (long long)c->backup, (long long)writers);
    if (c->slack == 0 && fast__ps_batch(c, writers) != writers - c->backup)
        return fast__fail(FAST_EINVAL,
                          "ps: with slack=0 a round is one update of %lld gradients; leave out "
                          "aggregate=%lld",
                          (long long)(writers - c->backup), (long long)c->aggregate);
    if (c->slack == 0 && writers > FAST_SUM_MAX)
        return fast__fail(FAST_EINVAL, "ps: slack=0 takes at most %d workers, not %lld",
                          FAST_SUM_MAX, (long long)writers);
    return FAST_OK;
}

static fast_err check(const void *config, int64_t workers, const char *optimizer)
{
    const ps_config *c = config;

    (void)optimizer;
    FAST_TRY(fast__exclusions_check("ps", options, exclusions, c));
    if (c->send != PS_SEND_GRADIENTS && c->fetch != c->push)
        return fast__fail(FAST_EINVAL,
                          "ps: differences are to the weights that were read: fetch=%lld and "
                          "push=%lld must be equal",
                          (long long)c->fetch, (long long)c->push);
    return check_counts(c, workers);
}

/* A server holds a range of the model: no rule that needs norms of more than that. */
static fast_err check_rule(const fast_trainer *t, const ps_config *c)
{
    if (c->send != PS_SEND_GRADIENTS || fast_trainer_can_update_range(t))
        return FAST_OK;
    return fast__fail(FAST_EINVAL, "ps: a server holds a range of the model, and this optimizer "
                                   "needs norms of whole layers or of all; use send=differences, "
                                   "or one without norms");
}

static fast_err server(fast_trainer *t, const void *config)
{
    const ps_config *c = config;
    const int64_t shards = fast__ps_shards(c, t->workers), owners = shards * (1 + c->replicas);

    FAST_TRY(check_rule(t, c));
    return t->rank < owners ? fast__ps_own(t, c, t->rank / shards)
                            : fast__ps_proxy(t, c, t->rank - owners);
}

/* A read is answered behind the write that was sent before it. */
static void cost(const void *config, const fast_trainer *t, fast_cost *out)
{
    const ps_config *c = config;
    const double reads = 1 / (double)c->fetch, writes = 1 / (double)c->push;

    (void)t;
    out->round_trips = 2 * reads;
    out->waits = reads + fmin(reads, writes);
    out->served = fmax(reads, writes);
    out->barrier = c->slack < 0 ? 0 : (double)c->slack + 1;
}

/* Are steps rounds, which all workers take together and of which each is the work of all? Then
 * servers and workers can be kept between any two of them. */
static bool by_rounds(const ps_config *c)
{
    return c->slack == 0 && c->backup == 0 && c->replicas == 0 && c->proxies == 0 && !c->eager;
}

/* Rounds (slack 0): BSP. The model is read at the end of each round, so that no worker begins the
 * next one before all have ended this one, and between two rounds all hold the servers' weights:
 * workers and servers can be saved there. With `priority` some weights may still be on their way.
 */
static fast_err train_rounds(fast_trainer *t, const ps_config *c, ps_writer *wr)
{
    t->free_running = c->priority;
    fast_trainer_settle(t, fast__ps_arrive, wr);
    if (*wr->model_step != t->step + 1)
        FAST_TRY(fast__ps_read(wr, false));
    else if (wr->state_read)
        memcpy(wr->state_read, t->s, (size_t)t->state_count * sizeof *t->s);
    while (fast_trainer_next(t)) {
        FAST_TRY(fast__ps_check_lost(t, c));
        FAST_TRY(fast__ps_gradient(wr));                       /* g_i <- gradient at w */
        FAST_TRY(fast__ps_push(wr));                           /* add(g_i) */
        FAST_TRY(fast__ps_tick(wr));                           /* tick(c + 1) */
        FAST_TRY(fast__ps_read(wr, t->step >= t->step_count)); /* w <- get(w) of this round */
        fast_trainer_adopt(t, &(fast_vector){ .x = t->w, .age = -1 });
    }
    fast_trainer_settle(t, NULL, NULL);
    FAST_TRY(fast__ps_arrive(wr));
    return fast_trainer_end(t);
}

/* Read the contributions of the last weights. */
static fast_err read_contributions(ps_writer *wr)
{
    const int64_t n = wr->writer_count;
    fast_vector w = fast_trainer_model(wr->t);
    float *counts = NULL;
    fast_err err = fast__alloc("contributions", n, sizeof *counts, &counts);

    FAST_ASSERT(n == wr->t->workers);
    if (!err)
        err = fast__ps_ask_contributions(wr, counts);
    for (int64_t i = 0; !err && i < n; i++)
        w.shares[i] = (double)counts[i];
    if (!err)
        fast_trainer_adopt(wr->t, &w);
    fast__free(counts);
    return err;
}

/* Bounded or unbounded staleness: SSP's figure, step for step. */
static fast_err train(fast_trainer *t, const ps_config *c, ps_writer *wr)
{
    ps_turn turn = PS_STEP;

    FAST_TRY(fast__ps_warm(wr));
    while (fast_trainer_next(t)) {
        FAST_TRY(fast__ps_prepare(wr, &turn)); /* w_i <- get(w) within the slack */
        if (turn == PS_STOP)
            break;
        if (turn == PS_WAIT)
            continue;
        FAST_TRY(fast__ps_gradient(wr)); /* g_i <- gradient at w_i */
        if (t->step % c->push == 0 || t->step == t->step_count)
            FAST_TRY(fast__ps_push(wr)); /* add(g_i) */
        FAST_TRY(fast__ps_tick(wr));     /* tick(c + 1) */
    }
    FAST_TRY(fast_trainer_end(t));
    if (c->backup == 0 || wr->round < t->step_count)
        FAST_TRY(fast__ps_read(wr, true));
    return read_contributions(wr);
}

static fast_err worker(fast_trainer *t, const void *config)
{
    const ps_config *c = config;
    ps_writer wr;
    fast_err err;

    FAST_TRY(check_rule(t, c));
    if (c->proxies > 0)
        return fast__ps_group_worker(t, c);
    FAST_TRY(fast__ps_writer_open(t, c, t->g, &wr));
    err = by_rounds(c) ? train_rounds(t, c, &wr) : train(t, c, &wr);
    const fast_err last = fast__ps_writer_close(&wr);
    return err ? err : last;
}

static const char *sends_by(const void *config)
{
    const ps_config *c = config;

    return c->send == PS_SEND_GRADIENTS ? "gradients" : "differences";
}

static const char *answers_by(const void *config)
{
    const ps_config *c = config;

    return c->priority ? "slices" : "weights";
}

/* Rounds are synchronous, and can be resumed. */
static const fast_strategy *member_of(const void *config);

#define FAMILY                                                                                     \
    .name = "ps", .summary = "parameter servers: synchronous, bounded staleness, or asynchronous", \
    .options = options, .config_size = sizeof(ps_config), .uses_codec = true,                      \
    .sends = "gradients", .answers = "weights", .member = member_of, .sends_by = sends_by,         \
    .answers_by = answers_by, .servers = servers, .check = check, .cost = cost, .worker = worker,  \
    .server = server, .exclusions = exclusions

static const fast_strategy rounds = { FAMILY, .synchronous = true, .resumable = true };
const fast_strategy fast__strategy_ps = { FAMILY };

static const fast_strategy *member_of(const void *config)
{
    return by_rounds(config) ? &rounds : &fast__strategy_ps;
}
