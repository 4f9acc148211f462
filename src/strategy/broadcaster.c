/* SPDX-License-Identifier: Apache-2.0 */
/*
 * broadcast: every worker's gradients reach all workers, through other workers, and in spite of
 * crashes:
 *
 *     every step      w_i <- rule(w_i, (g_i + all updates that arrived since the last step) / P)
 *     every `period`  the sum of the own gradients since the last one is broadcast: an update
 *     it arrives      if it is new: add it to the gradients of the next step, and forward it once
 *
 * A worker that has sent `slack` updates more than it has seen of another one waits for that one,
 * or its messages would pile up; nobody waits for a single update, which without correction may be
 * lost.
 *
 * With plain SGD and a constant learning rate all replicas are equal up to rounding once all
 * updates have arrived, in any order: consistency is eventual. Updates are numbered by their
 * origin, and a copy of an update that is here already is dropped.
 *
 *   how=tree      along a spanning tree without loops, which is rebuilt at run time
 *                 (broadcaster_tree.c); after Wang et al. (2014)
 *   how=gossip    corrected gossip (Hoefler, Barak, Shiloh and Drezner 2017). In each of T rounds
 *                 every worker that has the update sends it to a random worker; then each sends it
 *                 to the `width` next ranks on both sides that are up, on a ring
 *
 * Rounds of gossip are labels of messages: a worker that gets an update with the label r sends it
 * with the labels r + 1 .. T; if a copy with a smaller label comes later, it sends those of the
 * labels between. So the workers that are reached do not depend on the time of messages, and are
 * those of rounds in lockstep: fast__spread_rounds() has the exact number that reaches all with a
 * given probability. A worker that the correction reaches first forwards it on the ring as well:
 * updates travel on the graph of the ranks that differ by at most `width`, which stays connected
 * while fewer than 2 `width` workers are down without being known to be so. Then all workers that
 * are up get every update that one of them has, though its origin may have crashed.
 *
 * The end. A worker tells all others how many updates it has sent, and forwards until it has all
 * updates of all workers that are up; then it tells so, and forwards until all have told. Without
 * correction some updates never arrive, and only the first is awaited.
 *
 * Cost per worker: for each update of any worker at most arity + 1 messages of a gradient, with
 * gossip at most T + 2 `width`. Memory: two vectors, a byte for each update that is told apart, and
 * with a tree the last `retain` gradients.
 */
#include "strategy/broadcaster.h"

#include "base/err.h"
#include "base/memory.h"
#include "strategy/vector_kernels.h"
#include "tensor/vector.h"
#include "trainer/part.h"
#include "trainer/remember.h"
#include "transport/transport.h"

#include <string.h>

enum {
    WINDOW_MAX = 1 << 16, /* updates of an origin that are told apart; older ones count as seen */
    SLOTS_MAX = 1 << 22,  /* updates of all origins that are told apart, if they are many */
    SLACK = 64,           /* updates for `retain` where there is no slack */
    LIFE_SHIFT = 40,      /* numbers of a restarted worker start above those of its earlier life */
    LABEL_MAX = 250       /* largest label: one byte holds it */
};
static const int64_t LOOK_NS = 100000; /* between looks for messages, at least */

static const fast_option options[] = {
    FAST_OPT_CHOICE(fast_broadcast_config, how, "tree", "tree|gossip",
                    "tree: along a spanning tree that is rebuilt at run time; gossip: random "
                    "rounds, then a correction on a ring"),
    FAST_OPT_INT(fast_broadcast_config, period, "1", 1, 1e12, "steps between updates of a worker"),
    FAST_OPT_INT(fast_broadcast_config, slack, "4", -1, 1e12,
                 "updates by which a worker may be ahead of the newest one of any other; -1: any "
                 "number"),
    FAST_OPT_INT(fast_broadcast_config, arity, "2", 1, 1 << 20, "tree: children of a worker"),
    FAST_OPT_REAL(fast_broadcast_config, slow, "16", 0, 1e9,
                  "tree: avoid a link whose answers take this many times as long as its first "
                  "ones; 0: never"),
    FAST_OPT_INT(fast_broadcast_config, retain, "0", 0, 1e6,
                 "tree: updates that a worker retains for neighbours of a new tree; 0: by the "
                 "slack, all that may be missing there"),
    FAST_OPT_INT(fast_broadcast_config, rounds, "0", 0, LABEL_MAX,
                 "gossip: rounds; 0: as many as sure asks for"),
    FAST_OPT_REAL(fast_broadcast_config, sure, "0.9", 0, 0.999999,
                  "gossip: probability that the rounds alone reach all workers"),
    FAST_OPT_INT(fast_broadcast_config, width, "1", 0, 1 << 20,
                 "gossip: ranks on each side of the ring that the correction sends to; 0: none"),
    FAST_OPT_END,
};

int64_t fast__broadcast_kind(const fast_broadcaster *b, int64_t kind)
{
    FAST_ASSERT(kind >= 0 && kind < FAST_BROADCAST_KINDS);
    return b->program * FAST_BROADCAST_KINDS + kind;
}

fast_err fast__broadcast_tell(fast_broadcaster *b, int64_t rank, const int64_t *words)
{
    fast_msg *msg = NULL;

    FAST_ASSERT(rank != b->t->rank);
    FAST_TRY(fast_msg_new(b->t->actor, FAST_TAG_MODEL, &msg));
    memcpy(msg->words, words, sizeof msg->words);
    msg->words[FAST_BROADCAST_KIND] = fast__broadcast_kind(b, words[FAST_BROADCAST_KIND]);
    const fast_err err = fast_send(b->t->actor, b->t->worker_ids[rank], &msg);
    return fast__is_peers(err) ? FAST_OK : err;
}

fast_err fast__broadcast_send(fast_broadcaster *b, int64_t rank, const fast_broadcast_item *item)
{
    fast_msg *msg = NULL;

    FAST_ASSERT(rank != b->t->rank && item->buffer != NULL);
    FAST_TRY(fast_msg_new(b->t->actor, FAST_TAG_MODEL, &msg));
    memcpy(msg->words, item->words, sizeof msg->words);
    msg->words[FAST_BROADCAST_KIND] = fast__broadcast_kind(b, FAST_BROADCAST_UPDATE);
    fast_msg_add_view(msg, item->buffer, item->offset, (size_t)b->t->count * sizeof(float));
    const fast_err err = fast_send(b->t->actor, b->t->worker_ids[rank], &msg);
    return fast__is_peers(err) ? FAST_OK : err;
}

/* Send to the next `width` ranks on one side that are up. */
static fast_err correct_side(fast_broadcaster *b, const fast_broadcast_item *item, int64_t side)
{
    const fast_trainer *t = b->t;
    int64_t sent = 0;

    FAST_ASSERT(side == 1 || side == -1);
    for (int64_t i = 1; i < t->workers && sent < b->c->width; i++) {
        const int64_t rank = (t->rank + side * i + t->workers) % t->workers;

        if (fast_member_is_down(t->actor, t->worker_ids[rank]))
            continue;
        FAST_TRY(fast__broadcast_send(b, rank, item));
        sent++;
    }
    return FAST_OK;
}

/* Gossip: send an update with the labels after `label`, up to that of the copy that was here
 * before, `known`; a new one, known < 0, is sent in the remaining rounds and in the correction. */
static fast_err spread(fast_broadcaster *b, const fast_broadcast_item *item, int64_t label,
                       int64_t known)
{
    const fast_trainer *t = b->t;
    fast_broadcast_item copy = *item;
    const int64_t last = known < 0 || known > b->rounds ? b->rounds : known;

    FAST_ASSERT(label >= 0);
    if (t->workers == 1)
        return FAST_OK;
    for (int64_t round = label + 1; round <= last; round++) {
        const int64_t skip = (int64_t)(fast_random(t->actor) % (uint64_t)(t->workers - 1));

        copy.words[FAST_BROADCAST_LABEL] = round;
        FAST_TRY(fast__broadcast_send(b, (t->rank + 1 + skip) % t->workers, &copy));
    }
    if (known >= 0)
        return FAST_OK;
    copy.words[FAST_BROADCAST_LABEL] = b->rounds + 1;
    FAST_TRY(correct_side(b, &copy, 1));
    return correct_side(b, &copy, -1);
}

/* Note an update of a label. Return the label of its copy that was here before, or -1; INT64_MAX
 * if it is too old to be told apart. */
static int64_t note_update(fast_broadcaster *b, int64_t origin, int64_t number, int64_t label)
{
    uint8_t *seen = b->seen + origin * b->window;
    int64_t *top = &b->top[origin];
    uint8_t *slot = &seen[number % b->window];

    FAST_ASSERT(number > 0 && label >= 0 && label <= LABEL_MAX + 1);
    if (number <= *top - b->window)
        return INT64_MAX;
    if (number > *top) {
        const int64_t fresh = number - *top < b->window ? number - *top : b->window;

        for (int64_t i = 0; i < fresh; i++)
            seen[(number - i) % b->window] = 0;
        *top = number;
    }
    const int64_t known = (int64_t)*slot - 1;

    if (known < 0)
        b->got[origin]++;
    if (known < 0 || label < known)
        *slot = (uint8_t)(label + 1);
    return known;
}

void fast__broadcast_forget(fast_broadcaster *b)
{
    const int64_t cuts = fast__trainer_cuts(b->t);

    FAST_ASSERT(b->cuts <= cuts);
    for (int64_t i = 0; b->cuts < cuts && i < b->retain; i++) {
        fast_buffer_free(b->log[i].buffer);
        b->log[i].buffer = NULL;
    }
    b->cuts = cuts;
}

/* Retain an update for neighbours of a new tree. */
static void retain(fast_broadcaster *b, const fast_broadcast_item *item)
{
    fast_broadcast_item *slot = &b->log[b->log_next];

    FAST_ASSERT(b->log_next < b->retain);
    fast__broadcast_forget(b);
    fast_buffer_free(slot->buffer);
    *slot = *item;
    fast_buffer_hold(item->buffer);
    b->log_next = (b->log_next + 1) % b->retain;
}

/* due <- due + g. Not charged: the pass overlaps that of the gradient. */
static const fast_kernel add_due = { "sum of gradients", 0, 0, 2, 1, false, fast__run_add };

/* Add a gradient to those of the next update. */
static fast_err add_gradient(fast_broadcaster *b, fast_vector g)
{
    const fast_vector due = { .x = b->due, .shares = b->due_shares, .age = -1 };

    FAST_ASSERT(g.shares != NULL);
    b->due_count++;
    return fast_trainer_apply(b->t, &add_due, NULL, (fast_vector[]){ due, g });
}

/* Handle an update that arrived. */
static fast_err take_update(fast_broadcaster *b, fast_msg *msg)
{
    fast_trainer *t = b->t;
    const int64_t *words = msg->words, from = fast__trainer_rank(t, msg->from);
    const int64_t origin = words[FAST_BROADCAST_ORIGIN], label = words[FAST_BROADCAST_LABEL];
    const int64_t age = t->step - words[FAST_BROADCAST_STEP];

    if (msg->part_count != 1 || msg->parts[0].size != (size_t)t->count * sizeof(float) ||
        origin < 0 || origin >= t->workers || words[FAST_BROADCAST_NUMBER] < 1 || label < 0 ||
        label > LABEL_MAX + 1)
        return fast__fail(FAST_EFORMAT, "broadcast: worker %lld sent no update", (long long)from);
    FAST_ASSERT(from != t->rank);
    if (b->c->how == FAST_BROADCAST_TREE && origin == from) {
        int64_t echo[FAST_MSG_WORDS];

        memcpy(echo, words, sizeof echo);
        echo[FAST_BROADCAST_KIND] = FAST_BROADCAST_ECHO;
        FAST_TRY(fast__broadcast_tell(b, from, echo));
    }
    if (origin == t->rank) /* it came back */
        return FAST_OK;
    const int64_t known = note_update(b, origin, words[FAST_BROADCAST_NUMBER], label);
    if (known >= 0 && (b->c->how == FAST_BROADCAST_TREE || label >= known))
        return FAST_OK;
    fast_broadcast_item item = { msg->parts[0].buffer, msg->parts[0].offset, { 0 } };

    memcpy(item.words, words, sizeof item.words);
    if (!fast_buffer_is_frozen(item.buffer))
        fast_buffer_freeze(item.buffer);
    if (b->c->how == FAST_BROADCAST_GOSSIP)
        FAST_TRY(spread(b, &item, label, known));
    else
        FAST_TRY(fast__tree_forward(b, &item, from));
    if (known >= 0)
        return FAST_OK;
    if (b->log)
        retain(b, &item);
    fast_trainer_shares_of(t, origin, b->shares);
    for (int64_t i = 0; i < fast_trainer_share_count(t); i++)
        b->shares[i] *= (double)words[FAST_BROADCAST_STEPS];
    return add_gradient(b, (fast_vector){ .x = (float *)(uintptr_t)fast_msg_data(msg, 0),
                                          .shares = b->shares,
                                          .age = age > 0 ? age : 0 });
}

/* Note that a worker has ended or is done, and on a tree forward it. */
static fast_err take_end(fast_broadcaster *b, const fast_msg *msg, int64_t from)
{
    const int64_t rank = msg->words[1];
    const bool done = msg->words[FAST_BROADCAST_KIND] == FAST_BROADCAST_DONE;

    if (rank < 0 || rank >= b->t->workers || msg->words[2] < 0)
        return fast__fail(FAST_EFORMAT, "broadcast: worker %lld sent no number of updates",
                          (long long)from);
    FAST_ASSERT(from != b->t->rank);
    if (rank == b->t->rank || (done ? b->done[rank] : b->total[rank] >= 0))
        return FAST_OK;
    if (done)
        b->done[rank] = true;
    else
        b->total[rank] = msg->words[2];
    return b->tree.parent ? fast__tree_tell(b, msg->words, from) : FAST_OK;
}

/* Handle a message of any kind; called in all waits. */
static fast_err serve(void *ctx, fast_msg **move)
{
    fast_broadcaster *b = ctx;
    fast_msg *msg = *move;
    const int64_t rank = fast__trainer_rank(b->t, msg->from);

    const int64_t program = msg->words[FAST_BROADCAST_KIND] / FAST_BROADCAST_KINDS;

    FAST_ASSERT(rank >= 0 && rank < b->t->workers);
    b->heard_ns = fast_now(b->t->actor);
    b->silent[rank] = false;
    if (program < b->program) /* a copy that was in flight when the run was canceled */
        return FAST_OK;
    if (fast_actor_life(b->t->actor) > 0) /* a restarted worker does not know the number */
        b->program = program;
    msg->words[FAST_BROADCAST_KIND] %= FAST_BROADCAST_KINDS;
    switch (msg->words[FAST_BROADCAST_KIND]) {
    case FAST_BROADCAST_UPDATE:
        return take_update(b, msg);
    case FAST_BROADCAST_TOTAL:
    case FAST_BROADCAST_DONE:
        return take_end(b, msg, rank);
    default:
        return b->tree.parent ? fast__tree_handle(b, msg) : FAST_OK;
    }
}

/* Broadcast the own gradients that were not sent yet. */
static fast_err send_sum(fast_broadcaster *b)
{
    fast_trainer *t = b->t;
    const int64_t number = (b->life << LIFE_SHIFT) + t->step;
    fast_broadcast_item item = { .words = { FAST_BROADCAST_UPDATE, t->rank, number, t->step, 0,
                                            b->sum_count } };
    size_t size;
    fast_err err;

    FAST_ASSERT(number > 0);
    fast_actor_at(t->actor, t->step, "gradient");
    FAST_TRY(fast__floats_pack(t, NULL, 0, b->sum, t->count, &item.buffer, &size));
    fast_buffer_freeze(item.buffer);
    fast__vector_fill(t->count, 0, b->sum);
    b->sum_count = 0;
    b->got[t->rank]++;
    if (b->log)
        retain(b, &item);
    err = b->c->how == FAST_BROADCAST_GOSSIP ? spread(b, &item, 0, -1)
                                             : fast__tree_forward(b, &item, -1);
    fast_buffer_free(item.buffer);
    return err;
}

/* Update by all gradients that are due. */
static fast_err apply_due(fast_broadcaster *b)
{
    fast_trainer *t = b->t;
    const fast_vector due = { .x = b->due, .shares = b->due_shares, .age = -1 };

    FAST_ASSERT(b->due_count > 0);
    FAST_TRY(fast_trainer_update_by(t, &due, 1 / (float)t->workers));
    fast__vector_fill(t->count, 0, b->due);
    memset(b->due_shares, 0, (size_t)fast_trainer_share_count(t) * sizeof *b->due_shares);
    b->due_count = 0;
    return FAST_OK;
}

/* True if every update reaches all workers that are up: without correction it may not. */
static bool is_reliable(const fast_broadcast_config *c)
{
    FAST_ASSERT(c->width >= 0);
    return c->how == FAST_BROADCAST_TREE || c->width > 0;
}

/* True if nothing is awaited of any worker that is up: its updates, or (`all`) that it is done. */
static bool is_complete(const fast_broadcaster *b, bool all)
{
    const fast_trainer *t = b->t;
    /* A restarted worker, and gossip without correction, lack updates. */
    const bool whole = is_reliable(b->c) && b->life == 0;

    for (int64_t rank = 0; rank < t->workers; rank++) {
        if (rank == t->rank || fast_member_is_down(t->actor, t->worker_ids[rank]))
            continue;
        if (all ? !b->done[rank] : b->total[rank] < 0 || (whole && b->got[rank] < b->total[rank]))
            return false;
    }
    FAST_ASSERT(t->workers >= 1);
    return true;
}

/* Sleep for a moment, in which messages are handled, and look after the tree. The longer nobody was
 * heard of, the longer is the moment. */
static fast_err wait_a_little(fast_broadcaster *b, fast_service *service)
{
    const int64_t now = fast_now(b->t->actor), quiet = (now - b->heard_ns) / 8;

    FAST_ASSERT(service != NULL);
    FAST_TRY(fast_sleep_until(b->t->actor, now + (quiet > LOOK_NS ? quiet : LOOK_NS)));
    FAST_TRY(fast_service_poll(service));
    return b->tree.parent ? fast__tree_look(b) : FAST_OK;
}

/* Tell all workers, then handle messages until nothing is awaited of them. Gives up when nobody was
 * heard of for a timeout. */
static fast_err await_all(fast_broadcaster *b, fast_service *service, const int64_t *words,
                          bool all)
{
    fast_trainer *t = b->t;
    const int64_t start = fast_now(t->actor);
    const int64_t timeout = fast__soon(t->actor, start) - start;

    if (b->tree.parent)
        FAST_TRY(fast__tree_tell(b, words, -1));
    for (int64_t i = 1; i < t->workers && !b->tree.parent; i++)
        FAST_TRY(fast__broadcast_tell(b, (t->rank + i) % t->workers, words));
    FAST_ASSERT(timeout > 0);
    b->heard_ns = start;
    while (!is_complete(b, all) && fast_now(t->actor) - b->heard_ns < timeout)
        FAST_TRY(wait_a_little(b, service));
    return FAST_OK;
}

/* The end of a worker, as the comment above says. */
static fast_err leave(fast_broadcaster *b, fast_service *service)
{
    const int64_t me = b->t->rank;
    const int64_t total[FAST_MSG_WORDS] = { FAST_BROADCAST_TOTAL, me, b->got[me] };
    const int64_t done[FAST_MSG_WORDS] = { FAST_BROADCAST_DONE, me };

    FAST_ASSERT(service != NULL);
    fast_actor_at(b->t->actor, b->t->step, "the last messages");
    b->total[me] = b->got[me];
    FAST_TRY(await_all(b, service, total, false));
    if (!is_complete(b, false))
        fast_trainer_note(b->t, "broadcast: some updates never arrived; raise retain or width");
    b->done[me] = true;
    FAST_TRY(await_all(b, service, done, true));
    return b->due_count > 0 ? apply_due(b) : FAST_OK;
}

/* True if this worker is more than the slack ahead of the newest update of another one. Until the
 * first update of that one arrives, the own updates of this program count: the workers of a run
 * that continues are at different steps. */
static bool is_late(const fast_broadcaster *b, int64_t rank)
{
    const fast_trainer *t = b->t;
    const int64_t newest = b->top[rank] & (((int64_t)1 << LIFE_SHIFT) - 1);
    const int64_t ahead =
        newest > 0 ? t->step / b->c->period - newest / b->c->period : b->got[t->rank];

    FAST_ASSERT(b->c->slack >= 0);
    return rank != t->rank && b->total[rank] < 0 && !b->silent[rank] && ahead > b->c->slack &&
           !fast_member_is_down(t->actor, t->worker_ids[rank]);
}

/* True if this worker is too many updates ahead of one that is up. */
static bool is_ahead(const fast_broadcaster *b)
{
    FAST_ASSERT(b->t->workers >= 1);
    for (int64_t rank = 0; rank < b->t->workers; rank++)
        if (is_late(b, rank))
            return true;
    return false;
}

/* Handle messages until nobody is too many updates behind. Workers that are not heard of for a
 * timeout are not waited for until they are. */
static fast_err await_slack(fast_broadcaster *b, fast_service *service)
{
    fast_trainer *t = b->t;
    const int64_t start = fast_now(t->actor);
    const int64_t timeout = fast__soon(t->actor, start) - start;

    fast_actor_at(t->actor, t->step, "updates");
    b->heard_ns = start;
    while (is_ahead(b) && fast_now(t->actor) - b->heard_ns < timeout)
        FAST_TRY(wait_a_little(b, service));
    FAST_ASSERT(timeout > 0);
    for (int64_t rank = 0; rank < t->workers; rank++)
        b->silent[rank] = b->silent[rank] || is_late(b, rank);
    return FAST_OK;
}

/* Train to the end. */
static fast_err train(fast_broadcaster *b, fast_service *service)
{
    fast_trainer *t = b->t;

    FAST_ASSERT(service != NULL);
    while (fast_trainer_next(t)) {
        FAST_TRY(fast_service_poll(service));
        if (b->tree.parent)
            FAST_TRY(fast__tree_look(b));
        if (b->c->slack >= 0 && is_reliable(b->c))
            FAST_TRY(await_slack(b, service));
        FAST_TRY(fast_trainer_gradient(t, NULL, NULL));
        fast__vector_add(t->count, t->g, b->sum);
        b->sum_count++;
        if (t->step % b->c->period == 0)
            FAST_TRY(send_sum(b));
        FAST_TRY(add_gradient(b, fast_trainer_grad(t)));
        FAST_TRY(apply_due(b));
    }
    FAST_TRY(fast_trainer_end(t));
    if (b->sum_count > 0)
        FAST_TRY(send_sum(b));
    return leave(b, service);
}

/* Free everything, also after a failed broadcaster_init(). */
static void broadcaster_fini(fast_broadcaster *b)
{
    FAST_ASSERT(b->t != NULL);
    fast__tree_fini(b);
    for (int64_t i = 0; b->log && i < b->retain; i++)
        fast_buffer_free(b->log[i].buffer);
    fast__free(b->log);
    fast__free(b->seen);
    fast__free(b->top);
    fast__free(b->got);
    fast__free(b->total);
    fast__free(b->done);
    fast__free(b->silent);
    fast__vector_free(b->sum);
    fast__vector_free(b->due);
    fast__free(b->due_shares);
    fast__free(b->shares);
}

/* Have snapshots include the worker's memory, but for the updates that it retains. */
static fast_err remember(fast_broadcaster *b)
{
    fast_trainer *t = b->t;
    const int64_t n = t->workers;
    const size_t numbers = (size_t)n * sizeof *b->top, floats = (size_t)t->count * sizeof *b->sum;
    const size_t shares = (size_t)fast_trainer_share_count(t) * sizeof *b->due_shares;
    bool sane = true;

    FAST_TRY(fast__trainer_remember(t, 0, b->seen, (size_t)(n * b->window)));
    FAST_TRY(fast__trainer_remember(t, 1, b->top, numbers));
    FAST_TRY(fast__trainer_remember(t, 2, b->got, numbers));
    FAST_TRY(fast__trainer_remember(t, 3, b->total, numbers));
    FAST_TRY(fast__trainer_remember_flags(t, 4, b->done, n));
    FAST_TRY(fast__trainer_remember_flags(t, 5, b->silent, n));
    FAST_TRY(fast__trainer_remember(t, FAST_BROADCAST_SUM, b->sum, floats));
    FAST_TRY(fast__trainer_remember(t, FAST_BROADCAST_DUE, b->due, floats));
    FAST_TRY(fast__trainer_remember(t, 8, b->due_shares, shares));
    FAST_TRY(fast__trainer_remember(t, 9, &b->sum_count, sizeof b->sum_count));
    FAST_TRY(fast__trainer_remember(t, 10, &b->due_count, sizeof b->due_count));
    FAST_TRY(fast__trainer_remember(t, 11, &b->life, sizeof b->life));
    for (int64_t i = 0; i < n; i++)
        sane = sane && b->top[i] >= 0 && b->top[i] <= INT64_MAX / 4 && b->got[i] >= 0 &&
               b->got[i] <= INT64_MAX / 4 && b->total[i] >= -1;
    FAST_ASSERT(n >= 1);
    FAST_TRY(fast__trainer_check_saved(t, sane && b->sum_count >= 0 && b->due_count >= 0 &&
                                              b->life >= 0 && b->life < 1 << 20));
    return b->tree.parent ? fast__tree_remember(b) : FAST_OK;
}

/* Allocate the state of a worker. */
static fast_err broadcaster_init(fast_trainer *t, const fast_broadcast_config *c,
                                 fast_broadcaster *b)
{
    const int64_t n = t->workers, shares = fast_trainer_share_count(t);

    int64_t *programs = NULL;

    *b = (fast_broadcaster){
        .t = t, .c = c, .life = fast_actor_life(t->actor), .cuts = fast__trainer_cuts(t)
    };
    FAST_TRY(fast_trainer_persist(t, 0, sizeof *programs, (void **)&programs));
    *programs += !fast_trainer_resumed(t);
    b->program = b->life > 0 ? 0 : *programs;
    b->rounds = c->rounds > 0 ? c->rounds : fast__spread_rounds(n, c->sure);
    FAST_ASSERT(b->rounds <= LABEL_MAX);
    b->window = t->step_count + 2; /* equal in a resumed run */
    if (b->window > WINDOW_MAX)
        b->window = WINDOW_MAX;
    if (b->window > SLOTS_MAX / n)
        b->window = SLOTS_MAX / n;
    FAST_TRY(fast__alloc("updates", n * b->window, sizeof *b->seen, &b->seen));
    FAST_TRY(fast__alloc("numbers of updates", n, sizeof *b->top, &b->top));
    FAST_TRY(fast__alloc("numbers of updates", n, sizeof *b->got, &b->got));
    FAST_TRY(fast__alloc("numbers of updates", n, sizeof *b->total, &b->total));
    FAST_TRY(fast__alloc("workers that are done", n, sizeof *b->done, &b->done));
    FAST_TRY(fast__alloc("silent workers", n, sizeof *b->silent, &b->silent));
    FAST_TRY(fast__vector_new(fast__device_of(t->w), "own gradients", t->count, &b->sum));
    FAST_TRY(fast__vector_new(fast__device_of(t->w), "gradients", t->count, &b->due));
    FAST_TRY(fast__alloc("contributions", shares, sizeof *b->due_shares, &b->due_shares));
    FAST_TRY(fast__alloc("contributions", shares, sizeof *b->shares, &b->shares));
    for (int64_t rank = 0; rank < n; rank++)
        b->total[rank] = -1;
    if (c->how == FAST_BROADCAST_GOSSIP)
        return FAST_OK;
    /* A worker whose newest update is missing elsewhere is at most the slack ahead of that, and
     * others at most the slack ahead of it. */
    b->retain = c->retain > 0 ? c->retain : 2 * n * (c->slack < 0 ? SLACK : c->slack + 1);
    FAST_TRY(fast__alloc("retained updates", b->retain, sizeof *b->log, &b->log));
    return fast__tree_init(b);
}

/* A worker with a slack waits for updates of the others. */
static void cost(const void *config, const fast_trainer *t, fast_cost *out)
{
    const fast_broadcast_config *c = config;

    (void)t;
    FAST_ASSERT(c->period >= 1);
    if (c->slack >= 0 && is_reliable(c))
        out->barrier = (double)(c->period * (c->slack + 1));
}

/* The program of a worker. */
static fast_err worker(fast_trainer *t, const void *config)
{
    fast_service *service = NULL;
    fast_broadcaster b;
    fast_err err;

    FAST_ASSERT(config != NULL);
    err = broadcaster_init(t, config, &b);
    if (!err)
        err = remember(&b);
    if (!err)
        err = fast_serve(t->actor, FAST_TAG_MODEL, serve, &b, &service);
    if (!err)
        err = train(&b, service);
    fast_service_end(service);
    broadcaster_fini(&b);
    return err;
}

const fast_strategy fast__strategy_broadcast = {
    .name = "broadcast",
    .summary = "gradients reach all workers through others, by a dynamic tree or corrected gossip",
    .options = options,
    .config_size = sizeof(fast_broadcast_config),
    .sends = "gradients",
    .answers = "nothing",
    .resumable = true,
    .cost = cost,
    .worker = worker,
};
