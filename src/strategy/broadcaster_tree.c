/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The tree of `broadcast`. Updates are forwarded once, to all neighbours but the one that they came
 * from, so that on a tree each worker gets each update once. The tree changes at run time: when a
 * worker crashes or is back, and when a link becomes slow.
 *
 *     coordinator   the lowest rank that is up. It plans a tree without loops, of the workers that
 *                   are up and without the links that were reported, numbers it, and sends it to
 *                   all; a worker adopts a plan of a larger number. If the coordinator crashes, the
 *                   next rank is it: version = (last / P + 1) P + rank, so that no two are equal
 *     slow links    a neighbour answers each update of its sender's own. A link is reported when an
 *                   answer takes `slow` times the mean of the first ones, also while it is awaited
 *     new links     a worker sends the last `retain` updates to a neighbour that it did not have
 *                   before. Let A B be a link of the new tree and u an update at A. If u came
 *                   before the change, and B was no neighbour, A sends u now; if B was one, A has
 *                   sent it then; if u comes later, A forwards it. So u crosses every link of the
 *                   new tree, and reaches all workers, whatever was lost with the old one. Copies
 *                   that arrive twice meanwhile are dropped by their number
 *
 * Cost: P - 1 updates of each worker's update in all, and as many answers as its own neighbours; a
 * change costs P - 1 plans and the retained updates of each new link.
 */
#include "base/err.h"
#include "base/memory.h"
#include "strategy/broadcaster.h"
#include "trainer/part.h"
#include "trainer/remember.h"
#include "transport/saved_actor.h"

#include <math.h>
#include <string.h>

enum {
    USUAL = 4,    /* answers whose mean is the usual time of a link */
    UNPLACED = -3 /* instead of a parent, while a tree is planned */
};

/* Return the lowest rank that is up in this worker's view. */
static int64_t coordinator(const fast_broadcaster *b)
{
    const fast_trainer *t = b->t;
    int64_t rank = 0;

    FAST_ASSERT(t->workers >= 1);
    while (rank < t->rank && fast_member_is_down(t->actor, t->worker_ids[rank]))
        rank++;
    return rank;
}

/* Return the first rank of order[count] that has room for a child, over a link that is not avoided;
 * -1 if none has. */
static int64_t find_parent(int64_t workers, int64_t arity, const bool *avoided, int64_t rank,
                           const int64_t *children, const int64_t *order, int64_t count)
{
    FAST_ASSERT(rank >= 0 && rank < workers);
    for (int64_t i = 0; i < count; i++)
        if (children[order[i]] < arity && (!avoided || !avoided[rank * workers + order[i]]))
            return order[i];
    return -1;
}

void fast__tree_plan(int64_t workers, int64_t arity, const bool *up, const bool *avoided,
                     int64_t *parent, int64_t *children, int64_t *order)
{
    int64_t count = 0, full = 0, left = 0;

    FAST_ASSERT(workers >= 1 && arity >= 1);
    for (int64_t rank = 0; rank < workers; rank++) {
        parent[rank] = up[rank] ? UNPLACED : FAST_TREE_OUTSIDE;
        children[rank] = 0;
        left += up[rank];
    }
    /* Each pass places a rank: the first one that a good link leads to, or if none is left the
     * first one, by an avoided link. The first ranks of `order` are full: they are skipped. */
    while (left-- > 0) {
        int64_t rank = 0, best = -1, first = -1;

        while (full < count && children[order[full]] == arity)
            full++;
        for (; rank < workers && best < 0; rank++) {
            if (parent[rank] != UNPLACED)
                continue;
            first = first < 0 ? rank : first;
            if (count == 0)
                break;
            best = find_parent(workers, arity, avoided, rank, children, order + full, count - full);
        }
        rank = best >= 0 ? rank - 1 : first;
        if (best < 0 && count > 0)
            best = find_parent(workers, arity, NULL, rank, children, order + full, count - full);
        parent[rank] = best >= 0 ? best : FAST_TREE_ROOT;
        children[best >= 0 ? best : rank] += best >= 0;
        order[count++] = rank;
    }
}

/* Send a new neighbour all that is known here: retained updates, and which workers have ended. */
static fast_err bring_up_to_date(fast_broadcaster *b, int64_t rank)
{
    FAST_ASSERT(b->tree.neighbour[rank]);
    fast__broadcast_forget(b);
    for (int64_t i = 0; i < b->retain; i++) {
        const fast_broadcast_item *item = &b->log[(b->log_next + i) % b->retain];

        if (item->buffer)
            FAST_TRY(fast__broadcast_send(b, rank, item));
    }
    for (int64_t i = 0; i < b->t->workers; i++) {
        const int64_t total[FAST_MSG_WORDS] = { FAST_BROADCAST_TOTAL, i, b->total[i] };
        const int64_t done[FAST_MSG_WORDS] = { FAST_BROADCAST_DONE, i };

        if (b->total[i] >= 0)
            FAST_TRY(fast__broadcast_tell(b, rank, total));
        if (b->done[i])
            FAST_TRY(fast__broadcast_tell(b, rank, done));
    }
    return FAST_OK;
}

/* Send a plan to a worker. */
static fast_err send_plan(fast_broadcaster *b, int64_t rank, fast_buffer *plan, size_t offset,
                          int64_t version)
{
    fast_msg *msg = NULL;

    FAST_ASSERT(rank != b->t->rank);
    FAST_TRY(fast_msg_new(b->t->actor, FAST_TAG_MODEL, &msg));
    msg->words[FAST_BROADCAST_KIND] = fast__broadcast_kind(b, FAST_BROADCAST_PLAN);
    msg->words[1] = version;
    fast_msg_add_view(msg, plan, offset, (size_t)b->t->workers * sizeof *b->tree.parent);
    const fast_err err = fast_send(b->t->actor, b->t->worker_ids[rank], &msg);
    return fast__is_peers(err) ? FAST_OK : err;
}

/* Take over a plan: find the neighbours, and send retained updates to the new ones. */
static fast_err adopt(fast_broadcaster *b, const int64_t *parent, int64_t version)
{
    fast_broadcast_tree *tree = &b->tree;
    const fast_trainer *t = b->t;
    fast_err err = FAST_OK;

    FAST_ASSERT(version >= tree->version);
    tree->rebuilt += version > 0;
    tree->version = version;
    memcpy(tree->was, tree->neighbour, (size_t)t->workers * sizeof *tree->was);
    if (parent != tree->parent)
        memcpy(tree->parent, parent, (size_t)t->workers * sizeof *parent);
    for (int64_t rank = 0; rank < t->workers; rank++) {
        tree->neighbour[rank] = parent[rank] == t->rank || parent[t->rank] == rank;
        if (!tree->neighbour[rank])
            tree->pending[rank] = -1;
    }
    for (int64_t rank = 0; rank < t->workers && version > 0 && !err; rank++)
        if (tree->neighbour[rank] && !tree->was[rank])
            err = bring_up_to_date(b, rank);
    return err;
}

/* Coordinator: plan a tree, send it to all workers that are up, and adopt it. */
static fast_err announce(fast_broadcaster *b)
{
    fast_broadcast_tree *tree = &b->tree;
    fast_trainer *t = b->t;
    const int64_t version = (tree->version / t->workers + 1) * t->workers + t->rank;
    const size_t size = (size_t)t->workers * sizeof *tree->parent;
    fast_buffer *plan = NULL;
    fast_err err = FAST_OK;

    FAST_ASSERT(coordinator(b) == t->rank);
    FAST_TRY(fast_buffer_new(t->actor, size, &plan));
    for (int64_t rank = 0; rank < t->workers; rank++)
        tree->was[rank] = rank == t->rank || !fast_member_is_down(t->actor, t->worker_ids[rank]);
    fast__tree_plan(t->workers, b->c->arity, tree->was, tree->avoided, tree->parent, tree->children,
                    tree->order);
    memcpy(fast_buffer_data(plan), tree->parent, size);
    fast_buffer_freeze(plan);
    tree->wanted = false;
    for (int64_t rank = 0; rank < t->workers && !err; rank++)
        if (rank != t->rank && tree->parent[rank] != FAST_TREE_OUTSIDE)
            err = send_plan(b, rank, plan, 0, version);
    fast_buffer_free(plan);
    return err ? err : adopt(b, tree->parent, version);
}

/* Report this worker's link to a rank to the coordinator; -1: ask for the tree. */
static fast_err report(fast_broadcaster *b, int64_t to, int64_t rank)
{
    const int64_t words[FAST_MSG_WORDS] = { FAST_BROADCAST_AVOID, rank, b->tree.version };

    FAST_ASSERT(rank >= -1 && rank < b->t->workers);
    return to == b->t->rank ? FAST_OK : fast__broadcast_tell(b, to, words);
}

/* Coordinator: note the slow link of two ranks, or if one is -1 that a tree is wanted. */
static fast_err note(fast_broadcaster *b, int64_t from, int64_t rank)
{
    fast_broadcast_tree *tree = &b->tree;
    const int64_t workers = b->t->workers;

    FAST_ASSERT(from >= 0 && from < workers);
    if (coordinator(b) != b->t->rank)
        return FAST_OK;
    tree->wanted = true;
    if (rank < 0 || rank >= workers)
        return FAST_OK;
    if (!tree->avoided)
        FAST_TRY(
            fast__alloc("slow links", workers * workers, sizeof *tree->avoided, &tree->avoided));
    tree->avoided[from * workers + rank] = true;
    tree->avoided[rank * workers + from] = true;
    return FAST_OK;
}

/* Report the links whose answers are late. */
static fast_err look_at_links(fast_broadcaster *b)
{
    fast_broadcast_tree *tree = &b->tree;
    const int64_t now = fast__actor_time(b->t->actor);

    FAST_ASSERT(b->c->slow > 0);
    for (int64_t rank = 0; rank < b->t->workers; rank++) {
        if (tree->pending[rank] < 0 || tree->told[rank] || tree->answers[rank] < USUAL ||
            (double)(now - tree->pending[rank]) <= b->c->slow * tree->usual[rank])
            continue;
        tree->told[rank] = true;
        FAST_TRY(note(b, b->t->rank, rank));
        FAST_TRY(report(b, coordinator(b), rank));
    }
    return FAST_OK;
}

fast_err fast__tree_look(fast_broadcaster *b)
{
    const fast_broadcast_tree *tree = &b->tree;
    const fast_trainer *t = b->t;
    bool changed = tree->wanted;

    FAST_ASSERT(tree->parent != NULL);
    if (b->c->slow > 0)
        FAST_TRY(look_at_links(b));
    if (coordinator(b) != t->rank)
        return FAST_OK;
    for (int64_t rank = 0; rank < t->workers && !changed; rank++)
        changed = rank != t->rank && (tree->parent[rank] == FAST_TREE_OUTSIDE) !=
                                         fast_member_is_down(t->actor, t->worker_ids[rank]);
    return changed || tree->wanted ? announce(b) : FAST_OK;
}

/* Note the time of an answer. */
static void take_echo(fast_broadcaster *b, const fast_msg *msg)
{
    fast_broadcast_tree *tree = &b->tree;
    const int64_t rank = fast__trainer_rank(b->t, msg->from);
    const double took = (double)(fast__actor_time(b->t->actor) - tree->pending[rank]);

    FAST_ASSERT(rank >= 0 && rank < b->t->workers);
    if (tree->pending[rank] < 0) /* of an update that was sent before the oldest pending one */
        return;
    if (tree->answers[rank] < USUAL)
        tree->usual[rank] += (took - tree->usual[rank]) / (double)++tree->answers[rank];
    tree->pending[rank] = -1; /* the next update of its own starts the clock again */
}

/* Adopt a plan that is newer, and forward it on its own links: that to the coordinator may be the
 * one that is slow. */
static fast_err take_plan(fast_broadcaster *b, const fast_msg *msg)
{
    const int64_t from = fast__trainer_rank(b->t, msg->from), version = msg->words[1];
    fast_buffer *plan = msg->parts[0].buffer;

    FAST_ASSERT(from != b->t->rank);
    /* A sender that plans without knowing the newest version is told. */
    if (version <= b->tree.version)
        return version < b->tree.version ? report(b, from, -1) : FAST_OK;
    FAST_TRY(adopt(b, fast_msg_data(msg, 0), version));
    if (!fast_buffer_is_frozen(plan))
        fast_buffer_freeze(plan);
    for (int64_t rank = 0; rank < b->t->workers; rank++)
        if (b->tree.neighbour[rank] && rank != from)
            FAST_TRY(send_plan(b, rank, plan, msg->parts[0].offset, version));
    return FAST_OK;
}

fast_err fast__tree_tell(fast_broadcaster *b, const int64_t *words, int64_t but)
{
    FAST_ASSERT(but < b->t->workers);
    for (int64_t rank = 0; rank < b->t->workers; rank++)
        if (b->tree.neighbour[rank] && rank != but)
            FAST_TRY(fast__broadcast_tell(b, rank, words));
    return FAST_OK;
}

fast_err fast__tree_handle(fast_broadcaster *b, const fast_msg *msg)
{
    switch (msg->words[FAST_BROADCAST_KIND]) {
    case FAST_BROADCAST_ECHO:
        take_echo(b, msg);
        return FAST_OK;
    case FAST_BROADCAST_AVOID:
        if (msg->words[2] > b->tree.version) /* this worker restarted */
            b->tree.version = msg->words[2];
        return note(b, fast__trainer_rank(b->t, msg->from), msg->words[1]);
    default:
        FAST_ASSERT(msg->words[FAST_BROADCAST_KIND] == FAST_BROADCAST_PLAN);
        if (msg->part_count != 1 ||
            msg->parts[0].size != (size_t)b->t->workers * sizeof *b->tree.parent)
            return fast__fail(FAST_EFORMAT, "broadcast: worker %lld sent no tree",
                              (long long)msg->from);
        return take_plan(b, msg);
    }
}

fast_err fast__tree_forward(fast_broadcaster *b, const fast_broadcast_item *item, int64_t from)
{
    fast_broadcast_tree *tree = &b->tree;
    const int64_t now = fast__actor_time(b->t->actor);

    FAST_ASSERT(item->buffer != NULL);
    for (int64_t rank = 0; rank < b->t->workers; rank++) {
        if (!tree->neighbour[rank] || rank == from)
            continue;
        FAST_TRY(fast__broadcast_send(b, rank, item));
        if (from < 0 && tree->pending[rank] < 0)
            tree->pending[rank] = now;
    }
    return FAST_OK;
}

void fast__tree_fini(fast_broadcaster *b)
{
    fast_broadcast_tree *tree = &b->tree;

    FAST_ASSERT(b->t != NULL);
    fast__free(tree->parent);
    fast__free(tree->avoided);
    fast__free(tree->neighbour);
    fast__free(tree->was);
    fast__free(tree->children);
    fast__free(tree->order);
    fast__free(tree->pending);
    fast__free(tree->usual);
    fast__free(tree->answers);
    fast__free(tree->told);
}

fast_err fast__tree_remember(fast_broadcaster *b)
{
    enum { FIRST = 16 }; /* number of the first one */
    fast_broadcast_tree *tree = &b->tree;
    fast_trainer *t = b->t;
    const int64_t n = t->workers;
    const size_t numbers = (size_t)n * sizeof *tree->parent;
    bool sane = true;

    if (fast__trainer_cut_on(t) && !tree->avoided)
        FAST_TRY(fast__alloc("slow links", n * n, sizeof *tree->avoided, &tree->avoided));
    FAST_TRY(fast__trainer_remember(t, FIRST, &tree->version, sizeof tree->version));
    FAST_TRY(fast__trainer_remember(t, FIRST + 1, tree->parent, numbers));
    FAST_TRY(fast__trainer_remember_flags(t, FIRST + 2, tree->avoided, n * n));
    FAST_TRY(fast__trainer_remember_flags(t, FIRST + 3, &tree->wanted, 1));
    FAST_TRY(fast__trainer_remember_flags(t, FIRST + 4, tree->neighbour, n));
    FAST_TRY(fast__trainer_remember(t, FIRST + 5, tree->pending, numbers));
    FAST_TRY(fast__trainer_remember(t, FIRST + 6, tree->usual, (size_t)n * sizeof *tree->usual));
    FAST_TRY(fast__trainer_remember(t, FIRST + 7, tree->answers, numbers));
    FAST_TRY(fast__trainer_remember_flags(t, FIRST + 8, tree->told, n));
    FAST_TRY(fast__trainer_remember(t, FIRST + 9, &tree->rebuilt, sizeof tree->rebuilt));
    for (int64_t i = 0; i < n; i++)
        sane = sane && tree->parent[i] >= FAST_TREE_OUTSIDE && tree->parent[i] < n &&
               tree->pending[i] >= -1 && isfinite(tree->usual[i]) && tree->answers[i] >= 0;
    FAST_ASSERT(tree->parent != NULL);
    return fast__trainer_check_saved(t, sane && tree->version >= 0 &&
                                            tree->version <= INT64_MAX / 4 && tree->rebuilt >= 0 &&
                                            !tree->neighbour[t->rank]);
}

fast_err fast__tree_init(fast_broadcaster *b)
{
    fast_broadcast_tree *tree = &b->tree;
    const fast_trainer *t = b->t;
    const int64_t n = t->workers;

    FAST_TRY(fast__alloc("a tree", n, sizeof *tree->parent, &tree->parent));
    FAST_TRY(fast__alloc("neighbours", n, sizeof *tree->neighbour, &tree->neighbour));
    FAST_TRY(fast__alloc("neighbours", n, sizeof *tree->was, &tree->was));
    FAST_TRY(fast__alloc("children", n, sizeof *tree->children, &tree->children));
    FAST_TRY(fast__alloc("ranks of a tree", n, sizeof *tree->order, &tree->order));
    FAST_TRY(fast__alloc("times of links", n, sizeof *tree->pending, &tree->pending));
    FAST_TRY(fast__alloc("times of links", n, sizeof *tree->usual, &tree->usual));
    FAST_TRY(fast__alloc("answers of links", n, sizeof *tree->answers, &tree->answers));
    FAST_TRY(fast__alloc("slow links", n, sizeof *tree->told, &tree->told));
    FAST_ASSERT(tree->told != NULL);
    for (int64_t rank = 0; rank < n; rank++) {
        tree->was[rank] = true;
        tree->pending[rank] = -1;
    }
    fast__tree_plan(n, b->c->arity, tree->was, NULL, tree->parent, tree->children, tree->order);
    FAST_TRY(adopt(b, tree->parent, 0));
    /* The tree may have changed before this worker restarted: ask for it. */
    if (fast_actor_life(t->actor) == 0)
        return FAST_OK;
    FAST_TRY(note(b, t->rank, -1));
    return report(b, coordinator(b), -1);
}
