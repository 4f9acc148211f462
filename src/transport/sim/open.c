/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A simulated world: made from its cluster, and the effects of faults while it runs.
 *
 * Placement: the actors of a role live round-robin on the nodes of the cluster, so that servers
 * share nodes with workers; a cluster file may give a role its own nodes, and so do the option
 * placement, for workers, and a strategy whose servers are dedicated. A cluster without a count of
 * nodes has as many as its largest role, and those of dedicated servers.
 */
#include "base/memory.h"
#include "transport/sim/sim.h"

#include <string.h>

/* Return the node of actor `index` of role r. */
static int64_t place_of(const fast_sim *sim, int64_t r, int64_t index)
{
    const fast_cluster *cluster = sim->cluster;
    const char *role = sim->base.roles[r].name;
    int64_t room = 0;

    for (int64_t i = 0; i < cluster->place_count; i++)
        if (strcmp(cluster->places[i].role, role) == 0)
            room += cluster->places[i].last - cluster->places[i].first + 1;
    if (room == 0)
        return (fast__world_first_node(&sim->base, r) + index) % sim->node_count;
    index %= room;
    for (int64_t i = 0;; i++) {
        const fast_place_spec *place = &cluster->places[i];
        if (strcmp(place->role, role) != 0)
            continue;
        if (index <= place->last - place->first)
            return (place->first + index) % sim->node_count;
        index -= place->last - place->first + 1;
    }
}

/* Return the number of nodes: the cluster's, or as many as its placement and the roles need. */
static int64_t count_nodes(const fast_sim *sim)
{
    const fast_cluster *cluster = sim->cluster;
    int64_t count = cluster->node_count;

    for (int64_t i = 0; i < cluster->place_count && cluster->node_count == 0; i++)
        if (cluster->places[i].last >= count)
            count = cluster->places[i].last + 1;
    for (int64_t i = 0; i < sim->base.role_count && cluster->node_count == 0; i++) {
        const int64_t end = fast__world_first_node(&sim->base, i) + sim->base.roles[i].count;

        count = end > count ? end : count;
    }
    return count;
}

/* Refuse a placement by the option on nodes that do not exist. */
static fast_err check_placement(const fast_sim *sim, int64_t count)
{
    const char *placement = sim->base.config.placement;

    for (int64_t i = 0; placement[0] && i < sim->cluster->place_count; i++)
        if (strcmp(sim->cluster->places[i].role, "worker") == 0 &&
            sim->cluster->places[i].last >= count)
            return fast__fail(
                FAST_EINVAL, "placement=%.100s: node %lld, but the cluster has nodes 0 to %lld",
                placement, (long long)sim->cluster->places[i].last, (long long)(count - 1));
    return FAST_OK;
}

/* Make the nodes of the cluster. */
static fast_err nodes_open(fast_sim *sim)
{
    const fast_cluster *cluster = sim->cluster;
    const int64_t count = count_nodes(sim);

    FAST_TRY(check_placement(sim, count));
    for (int64_t i = 0; i < cluster->link_count; i++) {
        const fast_sim_link_spec *link = &cluster->links[i];
        if (!link->zones && (link->from >= count || link->to >= count))
            return fast__fail(FAST_EINVAL,
                              "the cluster has a link from node %lld to %lld, but %lld nodes",
                              (long long)link->from, (long long)link->to, (long long)count);
    }
    FAST_TRY(fast__alloc("simulated nodes", count, sizeof *sim->nodes, &sim->nodes));
    sim->node_count = count;
    for (int64_t i = 0; i < sim->node_count; i++) {
        fast_sim_node *node = &sim->nodes[i];
        node->spec = cluster->nodes[i % cluster->spec_count];
        node->slow = 1;
        fast__rng_init(&node->rng, (uint64_t)sim->base.config.seed, FAST_PURPOSE_NODE, (uint64_t)i,
                       0, 0);
        if (node->spec.cores > 0)
            FAST_TRY(
                fast__alloc("cores", node->spec.cores, sizeof *node->core_free, &node->core_free));
    }
    return FAST_OK;
}

/* Make the actors and place them on nodes. */
static fast_err actors_open(fast_sim *sim)
{
    fast_world *world = &sim->base;

    FAST_TRY(fast__alloc("simulated actors", world->count, sizeof *sim->actors, &sim->actors));
    FAST_TRY(fast__alloc("timers", world->count, sizeof *sim->queue.timers, &sim->queue.timers));
    int64_t id = 0;
    for (int64_t r = 0; r < world->role_count; r++)
        for (int64_t i = 0; i < world->roles[r].count; i++, id++) {
            fast_sim_actor *actor = &sim->actors[id];
            world->places[id].node = place_of(sim, r, i);
            world->places[id].here = true;
            actor->node = &sim->nodes[world->places[id].node];
            actor->timer = actor->deadline = INT64_MAX;
            actor->timer_slot = id;
            sim->queue.timers[id] = actor;
            fast__rng_init(&actor->rng, (uint64_t)world->config.seed, FAST_PURPOSE_NETWORK,
                           (uint64_t)id, 0, 0);
            FAST_TRY(fast__actor_init(&actor->base, world, id));
            world->actors[id] = &actor->base;
        }
    sim->alive = world->count;
    return FAST_OK;
}

/* Make all parts of a world; fast__sim_close() frees them after a failure. */
static fast_err fill(fast_sim *sim, const fast_actors_config *config, const fast_role *roles,
                     int64_t role_count)
{
    FAST_TRY(fast__world_init(&sim->base, &fast__transport_sim, config, roles, role_count));
    FAST_TRY(fast__cluster_open(config->cluster, &sim->cluster));
    if (config->placement[0])
        FAST_TRY(fast__cluster_place(sim->cluster, "worker", config->placement));
    FAST_TRY(nodes_open(sim));
    FAST_TRY(actors_open(sim));
    FAST_TRY(fast__sim_network_open(sim));
    FAST_TRY(fast__stacks_open(sim->base.count, FAST_STACK_SIZE, &sim->stacks));
    FAST_TRY(fast__sim_pool_open(sim));
    FAST_TRY(fast__faults_open(sim));
    return FAST_OK;
}

/* A cluster file and faults are read here: errors in them are found before the run starts. */
fast_err fast__sim_open(const fast_actors_config *config, const fast_role *roles,
                        int64_t role_count, fast_world **world_out)
{
    fast_sim *sim = NULL;

    FAST_TRY(fast__alloc("a simulated world", 1, sizeof *sim, &sim));
    const fast_err err = fill(sim, config, roles, role_count);
    if (err) {
        fast__sim_close(&sim->base);
        return err;
    }
    *world_out = &sim->base;
    return FAST_OK;
}

/* Also for a world that was opened in part. Work in the pool ends first: it uses the actors. */
void fast__sim_close(fast_world *world)
{
    fast_sim *sim = (fast_sim *)world;

    if (!sim)
        return;
    fast__sim_pool_close(sim);
    fast__faults_close(sim);
    fast__sim_queue_close(sim);
    fast__sim_network_close(sim);
    for (int64_t i = 0; sim->actors && i < world->count; i++) {
        fast__free(sim->actors[i].pairs.slots);
        fast__free(sim->actors[i].job.reports);
        if (world->actors[i])
            fast__actor_fini(&sim->actors[i].base);
    }
    for (int64_t i = 0; i < sim->node_count; i++) {
        fast__share_free(&sim->nodes[i].shares);
        fast__free(sim->nodes[i].core_free);
    }
    fast__stacks_close(&sim->stacks);
    fast__cluster_free(sim->cluster);
    fast__free(sim->nodes);
    fast__free(sim->actors);
    fast__world_fini(world);
    fast__free(sim);
}

/* A call that starts an actor keeps the run going until it is due. */
void fast__sim_at(fast_sim *sim, int64_t time, fast_sim_call *call, bool starts)
{
    if (fast__sim_push(sim, time, starts ? FAST_SIM_STARTER : FAST_SIM_CALL, call) && starts)
        sim->pending++;
}

/* A running program is unwound: its next call returns FAST_ECANCELED. */
void fast__sim_crash(fast_sim *sim, int64_t id)
{
    FAST_ASSERT(id >= 0 && id < sim->base.count);
    FAST_ASSERT(!sim->running);
    fast_sim_actor *actor = &sim->actors[id];

    if (actor->state == FAST_SIM_OVER)
        return;
    fast__sim_trace(sim, FAST_SIM_CALL, id, 1, 0, 0);
    actor->base.stopped = true;
    actor->crashed_ns = sim->now;
    actor->resume = 0; /* no RESUME or START event has this order: those scheduled are stale */
    fast__sim_forget_work(sim, actor);
    if (!actor->fiber.alive) { /* it has not started: no program sets its result */
        actor->state = FAST_SIM_OVER;
        actor->base.err = sim->err ? FAST_OK : FAST_ECANCELED;
        sim->alive--;
        return;
    }
    fast__sim_unwind(sim, actor);
}

/* A new life: mailbox, tasks and random stream start anew. */
void fast__sim_restart(fast_sim *sim, int64_t id)
{
    FAST_ASSERT(id >= 0 && id < sim->base.count);
    fast_sim_actor *actor = &sim->actors[id];
    const int64_t life = actor->base.life + 1;
    const fast_counters counters = actor->base.counters;
    fast_timeline *timeline = actor->base.timeline;

    if (actor->state != FAST_SIM_OVER || !actor->base.stopped)
        return;
    /* Counters and timeline continue through its lives. */
    actor->base.timeline = NULL;
    sim->base.ended_count -= actor->base.ended;
    fast__actor_fini(&actor->base);
    memset(&actor->base, 0, sizeof actor->base);
    actor->base.life = life;
    const fast_err err = fast__actor_init(&actor->base, &sim->base, id);
    if (err) {
        fast__timeline_free(timeline);
        fast__sim_fail(sim, err);
        return;
    }
    if (timeline) {
        fast__timeline_free(actor->base.timeline);
        actor->base.timeline = timeline;
    }
    actor->base.counters = counters;
    actor->woken = false;
    actor->state = FAST_SIM_UNBORN;
    /* `pairs` stay: messages of the earlier life are not overtaken. */
    fast__rng_init(&actor->rng, (uint64_t)sim->base.config.seed, FAST_PURPOSE_NETWORK, (uint64_t)id,
                   (uint64_t)life, 0);
    sim->alive++;
    fast__sim_resume_at(sim, actor, sim->now, FAST_SIM_START);
}

/* Read when the run schedules the START events. */
void fast__sim_start_late(fast_sim *sim, int64_t id, int64_t time)
{
    FAST_ASSERT(id >= 0 && id < sim->base.count);
    FAST_ASSERT(sim->actors[id].state == FAST_SIM_UNBORN);
    sim->actors[id].start_ns = time;
}

void fast__sim_pause(fast_sim *sim, int64_t node, int64_t until)
{
    FAST_ASSERT(node >= 0 && node < sim->node_count);
    fast_sim_node *n = &sim->nodes[node];
    const int64_t from = n->paused_until > sim->now ? n->paused_until : sim->now;

    /* Overlapping pauses count once: charges are extended by paused_ns when they end. */
    if (until <= from)
        return;
    n->paused_ns += until - from;
    n->paused_until = until;
}

/* For charges that start from now on. */
void fast__sim_slow(fast_sim *sim, int64_t node, double factor)
{
    FAST_ASSERT(node >= 0 && node < sim->node_count);
    FAST_ASSERT(factor > 0);
    sim->nodes[node].slow = factor;
}

void fast__sim_clock_jump(fast_sim *sim, int64_t node, int64_t delta_ns)
{
    FAST_ASSERT(node >= 0 && node < sim->node_count);
    fast_sim_node *n = &sim->nodes[node];

    if (n->clock_ns + delta_ns < -sim->now)
        delta_ns = -sim->now - n->clock_ns;
    n->clock_ns += delta_ns;
    /* Deadlines are times of the node's clock, so they shift with it. */
    for (int64_t i = 0; i < sim->base.count; i++) {
        fast_sim_actor *actor = &sim->actors[i];
        if (actor->node != n || actor->state != FAST_SIM_WAITING || actor->deadline == INT64_MAX)
            continue;
        const int64_t deadline = actor->deadline - delta_ns;
        fast__sim_timer_set(sim, actor, deadline > sim->now ? deadline : sim->now);
    }
}

/* A membership event that is scheduled. */
typedef struct member_news {
    int64_t to, about; /* as in fast__sim_tell() */
    uint64_t tag;      /* FAST_TAG_DOWN or FAST_TAG_UP */
} member_news;

/* Deliver a membership event to one actor. */
static void tell_one(fast_sim *sim, fast_sim_actor *to, const member_news *news)
{
    fast_msg *msg = NULL;

    if (to->state == FAST_SIM_OVER || to->base.id == news->about)
        return;
    const fast_err err = fast_msg_new(&to->base, news->tag, &msg);
    if (err) {
        fast__sim_fail(sim, err);
        return;
    }
    /* The failure detector is local to the receiver: the message comes from itself. */
    msg->from = msg->to = to->base.id;
    msg->words[0] = news->about;
    fast__sim_trace(sim, FAST_SIM_CALL, to->base.id, news->about, news->tag, 0);
    if (fast__deliver(&to->base, msg) && to->state == FAST_SIM_WAITING)
        fast__sim_resume(sim, to);
}

/* The event owns its news, which are freed here. */
void fast__sim_tell_now(fast_sim *sim, void *what)
{
    member_news *news = what;

    if (news->to != FAST_ANY)
        tell_one(sim, &sim->actors[news->to], news);
    for (int64_t i = 0; news->to == FAST_ANY && i < sim->base.count; i++)
        tell_one(sim, &sim->actors[i], news);
    fast__free(news);
}

/* A queue that is full or closed refuses the event; the news are then freed. */
void fast__sim_tell(fast_sim *sim, int64_t to, int64_t about, bool down, int64_t delay_ns)
{
    FAST_ASSERT(to >= FAST_ANY && to < sim->base.count);
    FAST_ASSERT(about >= 0 && about < sim->base.count);
    member_news *news = NULL;
    const fast_err err = fast__alloc("a membership event", 1, sizeof *news, &news);

    if (err) {
        fast__sim_fail(sim, err);
        return;
    }
    *news = (member_news){ .to = to, .about = about, .tag = down ? FAST_TAG_DOWN : FAST_TAG_UP };
    if (!fast__sim_push(sim, sim->now + delay_ns, FAST_SIM_TELL, news))
        fast__free(news);
}
