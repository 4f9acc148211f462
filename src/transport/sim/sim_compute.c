/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Computing in virtual time. A charge of c operations and b bytes takes
 *
 *     (c / speed + b / memory) * slow * (1 + jitter * u),   u uniform in [0, 1)
 *
 * of its node's clock; u is drawn from the node's stream. A node with k cores does k charges at a
 * time; further ones queue, in the order of asking.
 *
 * A work is computed for real. Its actor is appended to the list of this instant; when no other
 * actor can request a work at this instant, all works of the list are run, on the pool's threads if
 * it has any, and joined. Then, in the order of the requests, their costs become charges. So no
 * result depends on the thread that ran a work. Reports of a work are stored with their operations,
 * and replayed on the actor's stack at that fraction of its charge.
 */
#include "base/memory.h"
#include "base/thread.h"
#include "transport/sim/sim.h"

#include <string.h>

/* Threads that run works. */
typedef struct fast_sim_pool {
    pthread_mutex_t mutex; /* guards all fields */
    pthread_cond_t asked;  /* there are works, or the pool ends */
    pthread_cond_t done;   /* signals that the last work is done */
    fast_sim_actor *next;  /* actor whose work is run next */
    int64_t left;          /* works that are not done */
    bool ends;             /* the threads must return */
    int64_t thread_count;  /* number of threads besides the scheduler's */
    fast_thread threads[]; /* [thread_count] */
} fast_sim_pool;

/* Return the seconds of an amount at a speed; 0 if either is not positive. */
static double cost_of(double amount, double speed)
{
    return amount > 0 && speed > 0 ? amount / speed : 0;
}

/* Return the time of a charge on a node, with jitter. */
static int64_t charge_ns(fast_sim_node *node, double operations, double bytes)
{
    double seconds = cost_of(operations, node->spec.speed) + cost_of(bytes, node->spec.memory);

    seconds *= node->slow;
    if (node->spec.jitter > 0)
        seconds *= 1 + node->spec.jitter * ((double)fast__rng_u32(&node->rng) * 0x1p-32);
    const double ns = seconds * 1e9 + 0.5;
    return ns < 1e18 ? (int64_t)ns : INT64_C(1000000000000000000);
}

/* Reserve the core that is free first for `ns`; returns when the charge starts. */
static int64_t take_core(const fast_sim *sim, fast_sim_node *node, int64_t ns)
{
    int64_t least = 0;

    if (!node->core_free)
        return sim->now;
    for (int64_t i = 1; i < node->spec.cores; i++)
        if (node->core_free[i] < node->core_free[least])
            least = i;
    const int64_t begin = node->core_free[least] > sim->now ? node->core_free[least] : sim->now;
    node->core_free[least] = begin + ns;
    return begin;
}

/* Block the actor until a time of the simulation. FAST_ECANCELED. */
static fast_err busy_until(fast_sim_actor *actor, int64_t time)
{
    fast_sim *sim = (fast_sim *)actor->base.world;

    if (time <= sim->now)
        return FAST_OK;
    actor->paused_ns = actor->node->paused_ns;
    fast__sim_resume_at(sim, actor, time, FAST_SIM_RESUME);
    return fast__sim_block(actor, FAST_SIM_BUSY);
}

fast_err fast__sim_charge(fast_actor *base, double operations, double bytes)
{
    fast_sim_actor *actor = (fast_sim_actor *)base;
    fast_sim *sim = (fast_sim *)base->world;

    if (base->stopped)
        return fast__fail(FAST_ECANCELED, "the actor was stopped");
    const int64_t ns = charge_ns(actor->node, operations, bytes);
    return ns ? busy_until(actor, take_core(sim, actor->node, ns) + ns) : FAST_OK;
}

/* Store a report; called from inside run(), perhaps on a thread of the pool. */
static void store_report(fast_report_sink *sink, fast_work *work, double operations, int64_t offset,
                         int64_t count)
{
    fast_sim_actor *actor =
        (fast_sim_actor *)(void *)((char *)sink - offsetof(fast_sim_actor, job.sink));

    (void)work;
    if (actor->job.report_count == actor->job.report_room) {
        const int64_t room = actor->job.report_room ? 2 * actor->job.report_room : 16;
        fast_sim_report *reports = NULL;
        const fast_err err = fast__alloc("reports", room, sizeof *reports, &reports);
        if (err) {
            actor->job.sink_err = err;
            return;
        }
        if (actor->job.report_count)
            memcpy(reports, actor->job.reports, (size_t)actor->job.report_count * sizeof *reports);
        fast__free(actor->job.reports);
        actor->job.reports = reports;
        actor->job.report_room = room;
    }
    actor->job.reports[actor->job.report_count++] = (fast_sim_report){ operations, offset, count };
}

/* Run the work of an actor. */
static void run_one(fast_sim_actor *actor)
{
    fast__fail_buffer(actor->base.detail);
    actor->job.err = actor->job.work->run(actor->job.work);
    if (!actor->job.err)
        actor->job.err = actor->job.sink_err;
    fast__fail_buffer(NULL);
}

/* Run works of the pool's list until it is empty. The mutex is held at both ends. */
static void pool_help(fast_sim_pool *pool)
{
    while (pool->next) {
        fast_sim_actor *actor = pool->next;
        pool->next = actor->job.next;
        pthread_mutex_unlock(&pool->mutex);
        run_one(actor);
        pthread_mutex_lock(&pool->mutex);
        if (--pool->left == 0)
            pthread_cond_signal(&pool->done);
    }
}

/* Run works until the pool ends: the main function of its threads. */
static void *pool_main(void *ctx)
{
    fast_sim_pool *pool = ctx;

    pthread_mutex_lock(&pool->mutex);
    while (!pool->ends) {
        pool_help(pool);
        if (!pool->ends)
            pthread_cond_wait(&pool->asked, &pool->mutex);
    }
    pthread_mutex_unlock(&pool->mutex);
    return NULL;
}

fast_err fast__sim_pool_open(fast_sim *sim)
{
    const int64_t count = sim->base.config.pool - 1;
    fast_sim_pool *pool = NULL;

    sim->works.end = &sim->works.first;
    if (count <= 0)
        return FAST_OK;
    FAST_TRY(fast__alloc("a pool of threads", 1,
                         sizeof *pool + (size_t)count * sizeof pool->threads[0], &pool));
    pthread_mutex_init(&pool->mutex, NULL);
    pthread_cond_init(&pool->asked, NULL);
    pthread_cond_init(&pool->done, NULL);
    sim->works.pool = pool;
    while (pool->thread_count < count) {
        FAST_TRY(fast__thread_start(&pool->threads[pool->thread_count], pool_main, pool));
        pool->thread_count++;
    }
    return FAST_OK;
}

void fast__sim_pool_close(fast_sim *sim)
{
    fast_sim_pool *pool = sim->works.pool;

    if (!pool)
        return;
    pthread_mutex_lock(&pool->mutex);
    pool->ends = true;
    pthread_cond_broadcast(&pool->asked);
    pthread_mutex_unlock(&pool->mutex);
    for (int64_t i = 0; i < pool->thread_count; i++)
        fast__thread_join(&pool->threads[i]);
    pthread_cond_destroy(&pool->done);
    pthread_cond_destroy(&pool->asked);
    pthread_mutex_destroy(&pool->mutex);
    fast__free(pool);
    sim->works.pool = NULL;
}

void fast__sim_run_works(fast_sim *sim)
{
    fast_sim_pool *pool = sim->works.pool;
    fast_sim_actor *first = sim->works.first;
    FAST_ASSERT(first != NULL);

    sim->works.first = NULL;
    sim->works.end = &sim->works.first;
    if (pool && first->job.next) {
        pthread_mutex_lock(&pool->mutex);
        pool->next = first;
        for (fast_sim_actor *actor = first; actor; actor = actor->job.next)
            pool->left++;
        pthread_cond_broadcast(&pool->asked);
        pool_help(pool);
        while (pool->left > 0)
            pthread_cond_wait(&pool->done, &pool->mutex);
        pthread_mutex_unlock(&pool->mutex);
    } else {
        for (fast_sim_actor *actor = first; actor; actor = actor->job.next)
            run_one(actor);
    }
    for (fast_sim_actor *actor = first; actor; actor = actor->job.next)
        fast__sim_resume_at(sim, actor, sim->now, FAST_SIM_RESUME);
}

void fast__sim_forget_work(fast_sim *sim, fast_sim_actor *actor)
{
    for (fast_sim_actor **at = &sim->works.first; *at; at = &(*at)->job.next)
        if (*at == actor) {
            *at = actor->job.next;
            if (!*at)
                sim->works.end = at;
            return;
        }
}

fast_err fast__sim_compute(fast_actor *base, fast_work *work)
{
    fast_sim_actor *actor = (fast_sim_actor *)base;
    fast_sim *sim = (fast_sim *)base->world;

    if (base->stopped)
        return fast__fail(FAST_ECANCELED, "the actor was stopped");
    actor->job.sink.report = store_report;
    actor->job.report_count = 0;
    actor->job.sink_err = FAST_OK;
    actor->job.work = work;
    actor->job.next = NULL;
    actor->paused_ns = actor->node->paused_ns;
    work->sink = &actor->job.sink;
    *sim->works.end = actor;
    sim->works.end = &actor->job.next;
    const fast_err stopped = fast__sim_block(actor, FAST_SIM_BUSY);
    work->sink = NULL;
    actor->job.work = NULL;
    FAST_TRY(stopped);
    if (actor->job.err)
        return actor->job.err;

    const int64_t ns = charge_ns(actor->node, work->operations, work->bytes);
    int64_t begin = take_core(sim, actor->node, ns);
    for (int64_t i = 0; i < actor->job.report_count && work->report; i++) {
        const fast_sim_report *report = &actor->job.reports[i];
        const double fraction = work->operations > 0 ? report->operations / work->operations : 1;
        const double at = (double)ns * (fraction < 1 ? fraction > 0 ? fraction : 0 : 1) + 0.5;
        const int64_t paused = actor->node->paused_ns;
        FAST_TRY(busy_until(actor, begin + (int64_t)at));
        begin += actor->node->paused_ns - paused; /* the pauses of the node are added */
        work->report(work->ctx, report->offset, report->count);
        fast__progress(base);
    }
    return busy_until(actor, begin + ns);
}
