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
 *   global       every s + 1 rounds each worker, not only a worker that is ahead, waits for all
 *                other workers (SSP as Ben-Nun and Hoefler 2019 describe it); no update is more
 *                than (P - 1)(s + 1) updates late
 *   warm         epochs of worker 0 before the other workers start (Downpour's warm start)
 *   eager        servers send new values to all readers when the slowest worker has ticked; a read
 *                takes the newest values that arrived, if they are new enough, and adds those of
 *                the worker's own last s updates that they lack (ESSP: Dai et al. 2015;
 *                ps_unseen.c)
 *   cache_age a  a worker computes with the values of its last read, and its own updates since
 *                then, for up to a rounds, while they are within the slack; then it asks the
 *                servers again (the client's cache of SSP)
 *   stalest      a server answers the request of the worker that is furthest behind first
 *   value v      no worker computes with weights that differ from the true ones by more than
 *                v / sqrt(t): a worker waits before it sends an update that might (VAP:
 *                ps_consistency.c); weak: it waits after it has sent too much itself
 *   aggregate n  gradients of an update: workers (BSP), 1 (asynchronous)
 *   softsync k   n = workers / k (k-softsync, Rudra: Gupta et al. 2016)
 *   backup b     with s = 0: the first workers - b gradients of a round are its update, later ones
 *                are dropped, and a late worker continues with the newest model (Chen et al. 2016)
 *   redundant r  r groups of workers compute the same batches: worker i those of worker i mod P/r.
 *                The first gradient of a batch counts, the others are dropped, and a worker that is
 *                behind continues where the first one is (DistBelief's redundant agents)
 *   fetch, push  steps between reads and between writes. Between two reads the worker takes a local
 *                step w_i <- w_i - lr g_i after every gradient; a write is the sum of the gradients
 *                since the last one, to which the server applies its rule (Downpour's client)
 *   epochs p     an epoch ends when workers have computed the gradients of the fraction p of its
 *                samples; all workers skip the rest (Project Adam: Chilimbi et al. 2014, 75%). With
 *                backup workers a quorum ends steps, and this fraction epochs
 *   send         gradients: a write is their sum; differences: w_i - w_read after `push` local
 *                steps by the worker's rule, which the server adds; mean: that difference divided
 *                by `push` (AGN, ADAG: Hermans et al. 2017)
 *   barrier b    a write of more than b bytes is announced, and other workers' reads of the ranges
 *                that it changes wait until it has arrived (Gaia's selective barrier)
 *   cache        indices of gradients that the codec selects (significance, budget, skip, kkt) are
 *                sent again only when they change
 *   l1           every update ends with a proximal step of weight l1, which makes weights 0; the
 *                codec kkt leaves out gradients that such a step would undo. That changes nothing
 *                where each gradient is an update of plain SGD and its weight is 0 as it was read
 *   staleness    scale of an update that is d updates late: none: 1; inverse: 1 / max(1, d), as in
 *                staleness-aware async-SGD (Zhang et al. 2016) and DynSGD (Jiang et al. 2017);
 *                workers: 1 / workers, whatever d is (ConSGD, Jiang et al. 2017)
 *   reject       updates that are later than this are dropped
 *   compensate   DC-ASGD's lambda, constant or (decay > 0) adaptive: compensate.c
 *   momentum     of the model's changes at the servers, also negative: ps_owner.c; their total
 *                momentum is measured: ps_momentum.c
 *   groups       the slack holds inside each group of workers; groups do not wait for each other
 *   proxies      a server for each group of workers, between the group and the model: ps_proxy.c;
 *                in a tree of `levels`, each with `fanin` others below it. With fetch and push they
 *                are caches of the model, which they read and write back so often
 *   rows         with proxies: before each epoch a worker learns which rows its batches will read,
 *                and reads these from its proxy, ahead of the pass (LazyTable: Cui et al. 2014;
 *                ps_rows.c)
 *   flows, rate  order in which gradients enter a proxy or the servers, and their rate: ps_flow.c
 *   mirror       no servers: each proxy has a model, and sends its changes to all others, filtered
 *                by the codec (Gaia's data centres): ps_mirror.c
 *   free_running workers do not wait for the others of their proxy, and k is at most the workers:
 *                ps_learners.c
 *   tasks        each range of keys is read and written by tasks with dependencies: ps_tasks.c
 *   ring v       a consistent-hash ring cuts the model into ranges, v for each server: ps_ring.c
 *   replicas     copies of the model, each with as many servers; a crash of one loses nothing
 *   chain        updates pass along the copies, server by server, instead of from each worker to
 *                all; a server that comes back catches up (space/space_chain.c; Li et al. 2014)
 *   factors      dense layers are sent to the servers as factors, which multiply them out:
 *                ps_factors.c
 *   hybrid       a dense layer goes to the other workers as factors, and each updates its own copy,
 *                where that is fewer bytes than by the servers (Poseidon: Zhang et al. 2017):
 *                ps_hybrid.c
 *   overlap      gradients are sent while earlier layers are computed, and become one update when
 *                all have arrived (wait-free back-propagation: Zhang et al. 2017); with a codec in
 *                pieces of whole layers
 *   priority     the model is read in slices in the order of its layers, or in TicTac's orders
 *                (ps_order.c), and the next step starts when its first layer has arrived
 *   dedicated    servers live on nodes of their own. With T_w, R_w and U_w for the transfer, the
 *                addition and the update of the model, a round of n workers and one such server
 *                takes 2 n T_w + (n - 1) R_w + U_w at most, and n asynchronous steps n T_w + U_w
 *   path         with s = 0: gradients reach the server by a collective: ps_master.c
 *
 * With s = 0 and n = workers the gradients of a round are summed in the canonical order: it is
 * `allreduce` to the bit. With backup workers those that arrived in time are summed in the order of
 * their ranks. Staleness is counted in updates of the model.
 *
 * Cost per worker and step: one add and one get of the model, cut over the servers; the servers
 * move P times that. Memory at a server: its range, the rule's state, and with s = 0 a range for
 * each worker.
 */
#include "strategy/ps_mirror.h"
#include "strategy/ps_tree.h"

#include "base/err.h"
#include "base/memory.h"
#include "space/space.h"
#include "tensor/sum.h"
#include "tensor/vector.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static const fast_option options[] = {
    FAST_OPT_INT(ps_config, servers, "1", 0, 65536,
                 "servers that share the model; 0: one for each worker"),
    FAST_OPT_INT(ps_config, ring, "0", 0, 1024,
                 "virtual servers of each server on a consistent-hash ring, which cuts the model "
                 "into ranges of keys; 0: equal ranges, one for each server"),
    FAST_OPT_INT(ps_config, replicas, "0", 0, PS_REPLICAS_MAX,
                 "copies of the model besides the first, each at servers of its own"),
    FAST_OPT_BOOL(ps_config, chain, "no",
                  "with replicas: servers pass updates from copy to copy, and a server that comes "
                  "back catches up; else workers write to all copies"),
    FAST_OPT_INT(ps_config, proxies, "0", 0, 65536,
                 "groups of workers, each with a proxy that reads and writes for it; 0: none"),
    FAST_OPT_INT(
        ps_config, groups, "0", 0, 65536,
        "groups of workers, whose members are bound by the slack among themselves, and not "
        "to the other groups; 0: all workers are one group"),
    FAST_OPT_BOOL(
        ps_config, tasks, "no",
        "read and write each range of keys by tasks of its own, which depend on the rounds "
        "of the workers on that range"),
    FAST_OPT_BOOL(
        ps_config, mirror, "no",
        "each proxy has a model of its own, as a data centre has, and sends its changes to "
        "all others; there are no other servers"),
    FAST_OPT_INT(
        ps_config, levels, "1", 1, 16,
        "levels of proxies: those of the first write the model, those of the last serve "
        "the workers; until it reads, a proxy that is a write-back cache shows its group's "
        "updates with the whole learning rate, not their part of the mean"),
    FAST_OPT_INT(ps_config, fanin, "2", 1, 1024,
                 "with levels: proxies of a level for each one above it"),
    FAST_OPT_CHOICE(ps_config, flows, "shared", "shared|rank|behind",
                    "gradients on their way to a proxy or server share its link, or enter one at a "
                    "time: the lowest rank first, or the sender that is furthest behind"),
    FAST_OPT_REAL(ps_config, rate, "0", 0, 1e15,
                  "bytes a second at which a worker or proxy sends gradients; 0: any"),
    FAST_OPT_INT(ps_config, slack, "-1", -1, 1e12,
                 "rounds that a worker may be ahead of the slowest; 0: synchronous, -1: unbounded"),
    FAST_OPT_BOOL(ps_config, global, "no",
                  "with slack: every slack + 1 rounds each worker waits for all others, not only "
                  "a worker that is ahead"),
    FAST_OPT_REAL(ps_config, warm, "0", 0, 1e9,
                  "epochs that worker 0 trains before the other workers start (warm start)"),
    FAST_OPT_INT(ps_config, aggregate, "0", 0, 65536,
                 "gradients in an update; 0: those of all workers with slack=0, else 1"),
    FAST_OPT_INT(ps_config, softsync, "0", 0, 65536,
                 "N of N-softsync: an update has workers / N gradients; 0: set by aggregate"),
    FAST_OPT_INT(ps_config, backup, "0", 0, 65536,
                 "with slack=0: backup workers, whose gradients a round does not wait for"),
    FAST_OPT_INT(ps_config, redundant, "1", 1, 64,
                 "workers that compute each batch, in as many groups; the first result counts"),
    FAST_OPT_INT(ps_config, fetch, "1", 1, 1e12,
                 "steps between reads of the model; a worker takes local steps between them"),
    FAST_OPT_INT(ps_config, push, "1", 1, 1e12,
                 "steps between writes; a write is the sum of the gradients since the last"),
    FAST_OPT_CHOICE(ps_config, send, "gradients", "gradients|differences|mean",
                    "a write is the sum of gradients, the difference of weights after local "
                    "steps, or that difference divided by the number of steps"),
    FAST_OPT_CHOICE(ps_config, staleness, "none", "none|inverse|workers",
                    "scale of an update: 1, one over its staleness, or one over the number of "
                    "workers"),
    FAST_OPT_INT(ps_config, reject, "-1", -1, 1e12,
                 "drop updates whose staleness is larger than this; -1: none"),
    FAST_OPT_REAL(ps_config, value, "0", 0, 1e30,
                  "value bound: no worker's weights differ from the true ones by more than this "
                  "divided by sqrt(step); 0: no bound"),
    FAST_OPT_BOOL(ps_config, weak, "no",
                  "with value: bound the unread updates of each worker alone, after it has sent "
                  "them"),
    FAST_OPT_BOOL(
        ps_config, eager, "no",
        "servers send new values unasked whenever the slowest worker ends a round; own updates "
        "that these lack count as steps of plain SGD, whatever the servers do with them"),
    FAST_OPT_BOOL(ps_config, rows, "no",
                  "with proxies: before each epoch a worker learns which rows of embeddings its "
                  "batches will read, and reads these and the other layers only"),
    FAST_OPT_INT(
        ps_config, cache_age, "0", 0, 1e12,
        "with slack: a worker uses the values of a read again for up to this many rounds, "
        "within the slack, with its own updates as steps of plain SGD; 0: every step asks the "
        "servers"),
    FAST_OPT_BOOL(ps_config, stalest, "no",
                  "servers answer the worker that is furthest behind first"),
    FAST_OPT_REAL(ps_config, epochs, "1", 0.01, 1,
                  "fraction of the samples of an epoch after which it ends for all workers"),
    FAST_OPT_INT(ps_config, barrier, "0", 0, 1e15,
                 "announce writes of more bytes than this: other workers' reads of the changed "
                 "ranges wait for the write; 0: announce none"),
    FAST_OPT_REAL(ps_config, l1, "0", 0, 1e6,
                  "weight of an l1 penalty: servers take a proximal step after each update"),
    FAST_OPT_BOOL(ps_config, cache, "no",
                  "send the indices of elements that the codec selects only when they change"),
    FAST_OPT_REAL(ps_config, compensate, "0", 0, 1e6,
                  "weight lambda of the first-order correction of late gradients (DC-ASGD); 0: "
                  "no correction"),
    FAST_OPT_REAL(ps_config, decay, "0", 0, 0.9999999,
                  "with compensate: decay of the running mean square that makes lambda adaptive; "
                  "0: constant"),
    FAST_OPT_REAL(ps_config, momentum, "0", -0.9999999, 0.9999999,
                  "momentum of the model's changes at the servers, besides the optimizer's; may "
                  "be negative"),
    FAST_OPT_FACTORS(ps_config),
    FAST_OPT_BOOL(ps_config, hybrid, "no",
                  "send a dense layer to the other workers as factors where that is fewer bytes "
                  "than by the servers (Poseidon)"),
    FAST_OPT_BOOL(ps_config, overlap, "no",
                  "send gradients of late layers while those of earlier layers are computed"),
    FAST_OPT_CHOICE(ps_config, priority, "no", "no|yes|tic|tac",
                    "read weights in slices, and start the next step with those that came; yes: in "
                    "the order of the layers, tic: of the graph's dependencies, tac: of these and "
                    "measured times (TicTac)"),
    FAST_OPT_BOOL(ps_config, free_running, "no",
                  "with proxies: workers do not wait for the others of their proxy, which takes "
                  "gradients as they come (Rudra)"),
    FAST_OPT_BOOL(ps_config, dedicated, "no",
                  "servers live on nodes of their own, which follow the workers'"),
    FAST_OPT_CHOICE(ps_config, path, "none", "none|tree|scatter|direct",
                    "with slack=0: collective by which the sum of gradients reaches one dedicated "
                    "server and weights return: binomial tree, slices, or each worker's own "
                    "messages; none: reads and writes of the servers' space"),
    FAST_OPT_END,
};

/* Count the owners of all copies, and the proxies. */
static int64_t servers(const void *config, int64_t workers)
{
    const ps_config *c = config;

    FAST_ASSERT(c->replicas >= 0 && c->replicas <= PS_REPLICAS_MAX);
    return fast__ps_owners(c, workers) + fast__ps_proxies(c, workers);
}

int64_t fast__ps_spare(const ps_config *c, int64_t writers)
{
    FAST_ASSERT(writers > 0);
    return c->slack == 0 ? c->backup + writers - writers / c->redundant : 0;
}

bool fast__ps_has_spare(const ps_config *c)
{
    FAST_ASSERT(c->redundant > 0);
    return c->slack == 0 && (c->backup > 0 || c->redundant > 1);
}

int64_t fast__ps_batch(const ps_config *c, int64_t writers)
{
    FAST_ASSERT(writers > 0);
    FAST_ASSERT(c->backup < writers);
    if (c->softsync)
        return c->softsync < writers ? writers / c->softsync : 1;
    return c->aggregate ? c->aggregate : c->slack == 0 ? writers - fast__ps_spare(c, writers) : 1;
}

/* Options that do not go together. */
static const fast_exclusion exclusions[] = {
    /* Rounds. */
    { "slack=0", "softsync|send|compensate|fetch|push|value", NULL,
      "all workers take every round, and a round is one update of all their gradients" },
    { "backup", NULL, "slack=0", "backup workers are those that a round does not wait for" },
    { "groups", NULL, "slack", "the slack bounds the delay inside a group" },
    { "groups", "slack=0|proxies|redundant|mirror", NULL,
      "groups share the model without a round of all workers; proxies make groups that are "
      "synchronous inside" },
    { "redundant",
      "backup|proxies|softsync|aggregate|value|eager|warm|epochs|fetch|push|send|overlap|priority|"
      "hybrid|cache_age|path|barrier",
      NULL, "of the workers that compute a batch the first counts, in every step" },
    { "eager", NULL, "slack", "eager values are as old as the slack allows" },
    { "cache_age", NULL, "slack", "values of an earlier read are as old as the slack allows" },
    { "cache_age", "eager|send|fetch|value|backup|barrier|priority|factors=yes", NULL,
      "a worker adds the gradients of its own steps to the values that it read" },
    { "rows", NULL, "proxies", "workers read rows from the cache of their proxy" },
    { "rows", "free_running|mirror", NULL, "rows are those of the rounds of a group" },
    { "rows", "value", NULL, "rows that a batch does not read are older than any bound of values" },
    { "global", NULL, "slack", "workers wait for all others where the slack ends" },
    { "weak", NULL, "value", "it weakens the value bound" },
    { "value", "slack", NULL, "a bound on values and one on rounds may wait for each other" },
    { "warm", "slack|value|proxies", NULL, "worker 0 trains ahead of the others" },
    { "softsync", "aggregate", NULL, "both set the number of gradients in an update" },
    /* The update. */
    { "send", "l1|value|epochs|compensate", NULL,
      "it needs gradients, and differences of weights are written" },
    { "decay", NULL, "compensate", "it makes the weight of the compensation adaptive" },
    /* Messages to the servers. */
    { "barrier", "slack=0|eager|send|factors=yes|overlap", NULL,
      "it holds reads back until a whole gradient has arrived" },
    { "overlap", "send|push|value|proxies|barrier|factors=yes", NULL,
      "it sends one gradient as it is while it is computed" },
    { "factors=yes", "send|push|value|proxies|barrier", NULL,
      "factors are those of one whole gradient" },
    { "factors=yes", "fetch", NULL, "a local step between two reads needs the gradient itself" },
    { "priority", "replicas|proxies|eager|value|backup|barrier", NULL,
      "it reads the model layer by layer from its first copy" },
    { "flows", "overlap|replicas|path", NULL, "a gradient enters one server at a time, whole" },
    { "rate", "overlap|path", NULL, "it holds whole gradients back" },
    { "hybrid", "factors|priority|replicas|proxies|eager|backup|value|barrier", "slack=0",
      "every worker updates the layers that workers send each other in each round" },
    { "tasks", "proxies|eager|value|backup|barrier|priority|overlap|hybrid|cache_age", NULL,
      "a step is a pull and a push of each range, which depend on one another" },
    { "tasks", "factors=yes|send|fetch|push|redundant|flows|rate|mirror", NULL,
      "a push is one gradient as it is" },
    { "hybrid", NULL, "overlap", "layers are sent as they become final" },
    { "priority=tic", NULL, "slack=0", "TicTac orders the reads of synchronous rounds" },
    { "priority=tac", NULL, "slack=0", "TicTac orders the reads of synchronous rounds" },
    /* Placement. */
    { "proxies", "send|backup|epochs", NULL,
      "workers of a proxy read and write gradients in every round" },
    { "mirror",
      "servers|replicas|levels|free_running|fetch|push|aggregate|softsync|value|eager|stalest|"
      "compensate|"
      "momentum|"
      "l1|staleness|reject|flows|rate|factors=yes|cache_age|cache",
      "proxies", "each data centre applies its own updates, and adds those of the others" },
    { "free_running", NULL, "proxies", "without proxies no worker waits for another one" },
    { "free_running", "slack|levels|value|eager|fetch|push|barrier|flows|rate", NULL,
      "workers take their proxy's newest weights and send one gradient at a time" },
    { "levels", NULL, "proxies", "it is the depth of the tree of proxies" },
    { "fanin", NULL, "levels", "it is the number of proxies below each one" },
    { "replicas", "backup|eager|value", NULL, "every copy must hold the same updates" },
    { "chain", NULL, "replicas", "it is a chain of copies" },
    { "chain", "stalest|cache|barrier|overlap", NULL,
      "copies apply whole updates in the order of the first" },
    { "path", NULL, "slack=0", "a collective takes the gradients of all workers" },
    { "path", "servers|replicas|proxies|backup|staleness|reject|stalest|l1|momentum", NULL,
      "one server makes one update of the sum of all gradients" },
    { "path", "barrier|cache|factors=yes|overlap|priority|ring|tasks|groups", NULL,
      "gradients and weights are sent whole, by a collective" },
    { NULL, NULL, NULL, NULL },
};

/* Refuse numbers that do not fit the workers. */
static fast_err check_counts(const ps_config *c, int64_t workers)
{
    const int64_t writers = c->proxies > 0 ? c->proxies : workers;

    FAST_ASSERT(workers > 0);
    if (c->proxies > workers)
        return fast__fail(FAST_EINVAL, "ps: proxies=%lld are more than %lld workers",
                          (long long)c->proxies, (long long)workers);
    if (c->groups > workers)
        return fast__fail(FAST_EINVAL, "ps: groups=%lld are more than %lld workers",
                          (long long)c->groups, (long long)workers);
    if (c->mirror && c->proxies > PS_MIRRORS_MAX)
        return fast__fail(FAST_EINVAL, "ps: proxies=%lld with mirror: there are at most %d",
                          (long long)c->proxies, PS_MIRRORS_MAX);
    if (c->proxies > 0 && workers > FAST_SUM_MAX * fast__ps_width(c, workers, c->levels))
        return fast__fail(FAST_EINVAL, "ps: a proxy takes at most %d workers", FAST_SUM_MAX);
    if (c->backup >= writers)
        return fast__fail(FAST_EINVAL, "ps: backup=%lld must be smaller than the %lld workers",
                          (long long)c->backup, (long long)writers);
    if (workers % c->redundant != 0 || (c->redundant > 1 && c->slack > 0))
        return fast__fail(FAST_EINVAL,
                          c->slack > 0
                              ? "ps: with redundant=%lld no step waits for the slowest of %lld "
                                "workers; leave out slack, or set it to 0"
                              : "ps: redundant=%lld does not divide %lld workers",
                          (long long)c->redundant, (long long)workers);
    if (c->redundant > 1 && c->replicas > 0 && !c->chain)
        return fast__fail(FAST_EINVAL,
                          "ps: redundant=%lld with replicas=%lld needs chain=yes: copies that "
                          "workers write to may take different gradients first",
                          (long long)c->redundant, (long long)c->replicas);
    if (c->slack == 0 && c->redundant == 1 && fast__ps_batch(c, writers) != writers - c->backup)
        return fast__fail(FAST_EINVAL,
                          "ps: with slack=0 a round is one update of %lld gradients; leave out "
                          "aggregate=%lld",
                          (long long)(writers - c->backup), (long long)c->aggregate);
    if (c->slack == 0 && c->epochs < 1 && c->backup == 0)
        return fast__fail(FAST_EINVAL,
                          "ps: epochs=%g with slack=0 needs backup workers: otherwise all workers "
                          "take every round",
                          c->epochs);
    if (c->slack > 0 && c->push - 1 > c->slack)
        return fast__fail(FAST_EINVAL,
                          "ps: push=%lld holds gradients back for longer than slack=%lld allows",
                          (long long)c->push, (long long)c->slack);
    if (c->slack == 0 && writers > FAST_SUM_MAX)
        return fast__fail(FAST_EINVAL, "ps: slack=0 takes at most %d workers, not %lld",
                          FAST_SUM_MAX, (long long)writers);
    return FAST_OK;
}

/* Does a rule of this library need whole layers, or the norm of the whole gradient? */
static bool needs_whole(const char *optimizer)
{
    static const char *const rules[] = { "lars", "lamb", "muon" };
    const char *clip = strstr(optimizer, "clip_norm=");
    const size_t length = strcspn(optimizer, ":");

    FAST_ASSERT(length > 0);
    for (size_t i = 0; i < sizeof rules / sizeof rules[0]; i++)
        if (strlen(rules[i]) == length && strncmp(rules[i], optimizer, length) == 0)
            return true;
    return clip && strtod(clip + strlen("clip_norm="), NULL) > 0;
}

/* FAST_EINVAL: servers cannot apply the rule to gradients. */
static fast_err refuse_rule(void)
{
    return fast__fail(FAST_EINVAL, "ps: a server holds a range of the model, and this optimizer "
                                   "needs whole layers or the whole gradient; use "
                                   "send=differences, or another one, like momentum or adam");
}

/* Refuse periods that do not fit each other, numbers that do not fit the workers, and rules that
 * servers cannot apply. */
static fast_err check(const void *config, int64_t workers, const char *optimizer)
{
    const ps_config *c = config;
    const bool strict = c->value > 0 && !c->weak;

    FAST_ASSERT(c->fetch > 0 && c->push > 0);
    if (strict && optimizer && strcmp(optimizer, "sgd") != 0)
        return fast__fail(FAST_EINVAL,
                          "ps: value bounds steps of plain sgd, not of optimizer %s; use sgd or "
                          "weak=yes",
                          optimizer);
    if (strict && (c->momentum != 0 || c->l1 > 0 || c->compensate > 0))
        return fast__fail(FAST_EINVAL,
                          "ps: value bounds steps of plain sgd: leave out momentum, l1 "
                          "and compensate, or use weak=yes");
    if (c->push > 1 && (strict || (c->value > 0 && c->proxies > 0)))
        return fast__fail(FAST_EINVAL,
                          "ps: value bounds updates before a worker computes with them, and "
                          "push=%lld holds back updates that are in use: leave it out%s",
                          (long long)c->push, c->proxies > 0 ? "" : ", or use weak=yes");
    if (c->send != PS_SEND_GRADIENTS && c->fetch != c->push)
        return fast__fail(FAST_EINVAL,
                          "ps: differences are to the weights that were read: fetch=%lld and "
                          "push=%lld must be equal",
                          (long long)c->fetch, (long long)c->push);
    if (c->levels > 1 && c->fetch != c->push)
        return fast__fail(FAST_EINVAL,
                          "ps: a proxy reads from the one above in the rounds that it writes: "
                          "with levels fetch=%lld and push=%lld must be equal",
                          (long long)c->fetch, (long long)c->push);
    if (c->path != FAST_VIA_NONE)
        return fast__via_check("ps", (fast_via)c->path, workers);
    if (c->send == PS_SEND_GRADIENTS && optimizer && needs_whole(optimizer))
        return refuse_rule();
    return check_counts(c, workers);
}

/* Refuse a rule that needs more than the range of the model that a server holds: one of the caller,
 * whose name check() does not know. */
static fast_err check_rule(const fast_trainer *t, const ps_config *c)
{
    FAST_ASSERT(t->count > 0);
    if (c->send != PS_SEND_GRADIENTS || fast_trainer_can_update_range(t))
        return FAST_OK;
    return refuse_rule();
}

/* Refuse a value bound where gradients or weights are not sent as they are. */
static fast_err check_codec(const fast_trainer *t, const ps_config *c)
{
    const fast_codec_fit fit = c->value > 0 && !c->weak ? fast_trainer_codec_fit(t) : FAST_FIT_NONE;

    FAST_ASSERT(t->count > 0);
    if (fit == FAST_FIT_NONE || fit == FAST_FIT_LOSSLESS)
        return FAST_OK;
    return fast__fail(FAST_EINVAL,
                      "ps: value bounds updates as they are, and a codec changes them; "
                      "leave it out, or use weak=yes");
}

/* A server's program: that of an owner of a copy, or of a proxy, by its rank. */
static fast_err server(fast_trainer *t, const void *config)
{
    const ps_config *c = config;
    const int64_t shards = fast__ps_shards(c, t->workers), owners = fast__ps_owners(c, t->workers);

    FAST_ASSERT(t->rank >= 0 && t->rank < owners + fast__ps_proxies(c, t->workers));
    if (c->path != FAST_VIA_NONE)
        return fast__ps_master(t, c);
    FAST_TRY(check_rule(t, c));
    if (t->rank < owners)
        return fast__ps_own(t, c, t->rank / shards);
    return c->free_running ? fast__ps_collector(t, c, t->rank - owners)
                           : fast__ps_proxy(t, c, t->rank - owners);
}

/* Forecast the messages of a step. A read is answered after the write that was sent before it. */
static void cost(const void *config, const fast_trainer *t, fast_cost *out)
{
    const ps_config *c = config;
    /* Workers of equal speed read when the values have reached the age. */
    const int64_t reused = c->cache_age < c->slack ? c->cache_age : c->slack > 0 ? c->slack : 0;
    const double reads = 1 / (double)(reused > 0 ? 1 + reused : c->fetch);
    const double writes = 1 / (double)c->push;

    const double part = fast__ps_hybrid_cost(c, t, out); /* of the model, that servers hold */

    FAST_ASSERT(c->fetch > 0 && c->push > 0);
    FAST_ASSERT(part > 0 && part <= 1);
    out->round_trips += 2 * reads;
    out->waits += part * (reads + fmin(reads, writes));
    out->served = part * fmax(reads, writes);
    out->barrier = c->slack < 0 ? 0 : (double)c->slack + 1;
    if (c->path != FAST_VIA_NONE) {
        out->served = 0; /* the master's link is part of the path */
        fast__via_cost((fast_via)c->path, t->workers, 1, out);
    }
}

/* True if all workers take their steps together, and each update holds all their gradients: then
 * servers and workers can be checkpointed between any two steps. */
static bool by_rounds(const ps_config *c)
{
    FAST_ASSERT(c->slack >= -1);
    return c->slack == 0 && !fast__ps_has_spare(c) && c->replicas == 0 && c->proxies == 0 &&
           !c->eager;
}

/* Rounds (slack 0): BSP. Each round ends with a read of the model, so that no worker starts the
 * next round before all workers have ended this one. Between two rounds all hold the servers'
 * weights: checkpoints are taken there. With `priority` some weights may still be in transit. */
static fast_err train_rounds(fast_trainer *t, const ps_config *c, ps_writer *wr)
{
    FAST_ASSERT(c->slack == 0);
    FAST_ASSERT(wr->model_step != NULL);
    t->free_running = c->priority != PS_PRIORITY_NO || c->tasks;
    fast_trainer_settle(t, fast__ps_arrive, wr);
    if (*wr->model_step != t->step + 1)
        FAST_TRY(fast__ps_read(wr, false));
    else if (wr->state_read)
        fast__vector_copy(t->state_count, t->s, wr->state_read);
    while (fast_trainer_next(t)) {
        FAST_TRY(fast__ps_check_lost(t, c));
        FAST_TRY(fast__ps_gradient(wr)); /* g_i <- gradient at w */
        FAST_TRY(fast__space_agree(wr->copies.spaces[0], t->group, wr->g));
        FAST_TRY(fast__ps_push(wr));                           /* add(g_i) */
        FAST_TRY(fast__ps_tick(wr));                           /* tick(c + 1) */
        FAST_TRY(fast__ps_read(wr, t->step >= t->step_count)); /* w <- get(w) of this round */
        FAST_TRY(fast__ps_hybrid_finish(wr));                  /* the layers sent as factors */
        fast_trainer_adopt(t, &(fast_vector){ .x = t->w, .age = -1 });
    }
    fast_trainer_settle(t, NULL, NULL);
    FAST_TRY(fast__ps_arrive(wr));
    return fast_trainer_end(t);
}

/* Read how many steps of each worker the last weights hold. */
static fast_err read_contributions(ps_writer *wr)
{
    const int64_t n = wr->writer_count;
    fast_vector w = fast_trainer_model(wr->t);
    float *counts = NULL;
    fast_err err = fast__alloc("contributions", n, sizeof *counts, &counts);

    FAST_ASSERT(n == wr->t->workers);
    if (!err)
        err = fast__ps_ask_contributions(wr, counts);
    for (int64_t i = 0; !err && i < fast_trainer_share_count(wr->t); i++)
        w.shares[i] = (double)counts[fast_trainer_share_rank(wr->t, i) % (n / wr->c->redundant)];
    if (!err)
        fast_trainer_adopt(wr->t, &w);
    fast__free(counts);
    return err;
}

/* Bounded or unbounded staleness: SSP's figure, step for step. */
static fast_err train(fast_trainer *t, const ps_config *c, ps_writer *wr)
{
    ps_decision decision = PS_STEP;

    FAST_ASSERT(c->proxies == 0);
    FAST_TRY(fast__ps_warm(wr));
    while (fast_trainer_next(t)) {
        FAST_TRY(fast__ps_prepare(wr, &decision)); /* w_i <- get(w) within the slack */
        if (decision == PS_STOP)
            break;
        if (decision == PS_WAIT)
            continue;
        FAST_TRY(fast__ps_gradient(wr)); /* g_i <- gradient at w_i */
        if (t->step % c->push == 0 || t->step == t->step_count)
            FAST_TRY(fast__ps_push(wr)); /* add(g_i) */
        FAST_TRY(fast__ps_tick(wr));     /* tick(c + 1) */
        FAST_TRY(fast__ps_cache_own(wr));
    }
    FAST_TRY(fast_trainer_end(t));
    /* All rounds are made, whichever workers missed some: more of them would start here. */
    if (fast__ps_has_spare(c) && (decision == PS_STOP || t->step >= t->step_count))
        *wr->model_step = t->step_count;
    if (!fast__ps_has_spare(c) || wr->round < t->step_count)
        FAST_TRY(fast__ps_read(wr, true));
    return read_contributions(wr);
}

/* A worker's program. The writer is closed whatever happens: its state is that of a resume. */
static fast_err worker(fast_trainer *t, const void *config)
{
    const ps_config *c = config;
    ps_writer wr;
    fast_err err;

    FAST_ASSERT(t->rank >= 0 && t->rank < t->workers);
    if (c->path != FAST_VIA_NONE)
        return fast__ps_master_worker(t, c);
    FAST_TRY(check_rule(t, c));
    FAST_TRY(check_codec(t, c));
    if (c->proxies > 0)
        return c->free_running ? fast__ps_learner(t, c) : fast__ps_group_worker(t, c);
    FAST_TRY(fast__ps_writer_open(t, c, t->g, &wr));
    fast__ps_flow_note(t, c, wr.copies.spaces[0]);
    err = by_rounds(c) ? train_rounds(t, c, &wr) : train(t, c, &wr);
    const fast_err last = fast__ps_writer_close(&wr);
    return err ? err : last;
}

/* The kind of vector that workers send, for the choice of codecs. */
static const char *sends_by(const void *config)
{
    const ps_config *c = config;

    FAST_ASSERT(c->send >= PS_SEND_GRADIENTS && c->send <= PS_SEND_MEAN);
    if (c->path != FAST_VIA_NONE)
        return "sums"; /* on their way they are not encoded */
    return c->send == PS_SEND_GRADIENTS && !c->mirror ? "gradients" : "differences";
}

/* The kind of vector that servers answer with. */
static const char *answers_by(const void *config)
{
    const ps_config *c = config;

    FAST_ASSERT(c != NULL);
    return c->priority || c->rows ? "slices" : "weights";
}

/* True if servers live on nodes of their own. */
static bool dedicated(const void *config)
{
    const ps_config *c = config;

    FAST_ASSERT(c != NULL);
    return c->dedicated || c->path != FAST_VIA_NONE;
}

/* The declaration that the options make: rounds are synchronous, and can be resumed. */
static const fast_strategy *member_of(const void *config);

#define FAMILY                                                                                     \
    .name = "ps", .summary = "parameter servers: synchronous, bounded staleness, or asynchronous", \
    .options = options, .config_size = sizeof(ps_config), .uses_codec = true,                      \
    .sends = "gradients", .answers = "weights", .member = member_of, .sends_by = sends_by,         \
    .answers_by = answers_by, .servers = servers, .check = check, .cost = cost, .worker = worker,  \
    .server = server, .exclusions = exclusions, .dedicated = dedicated

static const fast_strategy rounds = { FAMILY, .synchronous = true, .resumable = true };
const fast_strategy fast__strategy_ps = { FAMILY, .resumable = true };

static const fast_strategy *member_of(const void *config)
{
    FAST_ASSERT(config != NULL);
    return by_rounds(config) ? &rounds : &fast__strategy_ps;
}
