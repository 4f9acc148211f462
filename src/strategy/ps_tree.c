/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The tree of proxies between the workers and the model (MXNet's levels of servers; MLNet's overlay
 * of aggregation, Mai et al. 2015):
 *
 *     model      <- level 1: `proxies` of them
 *     level l    <- level l + 1: `fanin` times as many, at most as many as workers
 *     level L    <- workers
 *
 * Members of a proxy are neighbours, and groups as equal as possible. Where they are not equal, the
 * mean of a proxy has a weight in the mean above it, so that each worker's gradient counts as much
 * as another's:
 *
 *     weight = its workers / workers of all members of the round above, times their number
 */
#include "strategy/ps_tree.h"
#include "base/err.h"

int64_t fast__ps_width(const ps_config *c, int64_t workers, int64_t level)
{
    int64_t width = c->proxies;

    FAST_ASSERT(level >= 1 && level <= c->levels);
    for (int64_t l = 1; l < level && width < workers; l++)
        width *= c->fanin;
    return width < workers ? width : workers;
}

int64_t fast__ps_proxies(const ps_config *c, int64_t workers)
{
    int64_t count = 0;

    FAST_ASSERT(workers > 0);
    for (int64_t l = 1; c->proxies > 0 && l <= c->levels; l++)
        count += fast__ps_width(c, workers, l);
    return count;
}

/* Return the rank of the first worker below proxy `index` of a level; that of one past the last
 * proxy is the number of workers. */
static int64_t first_below(const ps_config *c, int64_t workers, int64_t level, int64_t index)
{
    int64_t width = fast__ps_width(c, workers, level);

    FAST_ASSERT(index >= 0 && index <= width);
    for (; level < c->levels; level++) {
        const int64_t below = fast__ps_width(c, workers, level + 1);

        index = index * below / width;
        width = below;
    }
    return index * workers / width;
}

ps_node fast__ps_node(const ps_config *c, const fast_trainer *t, int64_t level, int64_t index)
{
    const int64_t width = fast__ps_width(c, t->workers, level);
    const int64_t owners = fast__ps_owners(c, t->workers);
    const int64_t below = level < c->levels ? fast__ps_width(c, t->workers, level + 1) : t->workers;
    const int64_t from = index * below / width;
    const int64_t *ids = t->server_ids + owners;
    ps_node node = { .level = level, .index = index, .size = (index + 1) * below / width - from };

    FAST_ASSERT(index >= 0 && index < width);
    for (int64_t l = 1; l < level; l++)
        ids += fast__ps_width(c, t->workers, l);
    node.id = ids[index];
    node.members = level < c->levels ? ids + width + from : t->worker_ids + from;
    node.first = first_below(c, t->workers, level, index);
    node.workers = first_below(c, t->workers, level, index + 1) - node.first;
    FAST_ASSERT(node.size > 0 && node.workers > 0);
    /* The round above: that of the model, or of the proxy that serves this one. */
    int64_t members = width, all = t->workers;
    if (level > 1) {
        const ps_node up = fast__ps_node_above(c, t, level - 1, node.first);

        members = up.size;
        all = up.workers;
    }
    node.weight = (double)(node.workers * members) / (double)all;
    return node;
}

ps_node fast__ps_node_above(const ps_config *c, const fast_trainer *t, int64_t level, int64_t rank)
{
    int64_t index = 0;

    FAST_ASSERT(rank >= 0 && rank < t->workers);
    while (first_below(c, t->workers, level, index + 1) <= rank)
        index++;
    return fast__ps_node(c, t, level, index);
}
