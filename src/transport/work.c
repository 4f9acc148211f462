/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Works and charges of an actor: the transport decides how long they take, this file counts them.
 * If the transport leaves works to this file, reports are made at once, and the actor's posted
 * tasks advance after each: so a segment is reduced while later layers compute.
 */
#include "transport/transport.h"

/* The report sink of an actor that runs its work itself. */
typedef struct direct_run {
    fast_report_sink sink; /* first: work->sink points here */
    fast_actor *actor;     /* that runs the work */
} direct_run;

/* Pass a report on at once, and let posted collectives advance between two layers. */
static void direct_report(fast_report_sink *sink, fast_work *work, double operations,
                          int64_t offset, int64_t count)
{
    fast_actor *actor = ((direct_run *)sink)->actor;
    (void)operations;
    if (work->report)
        work->report(work->ctx, offset, count);
    if (actor->tasks)
        fast__progress(actor);
}

void fast_work_report(fast_work *work, double operations, int64_t offset, int64_t count)
{
    FAST_ASSERT(work != NULL && work->sink != NULL);
    fast_report_sink *sink = work->sink;
    sink->report(sink, work, operations, offset, count);
}

/* Charge a cost to the transport; a stopped actor's calls fail from now on. */
static fast_err charge(fast_actor *actor, double operations, double bytes)
{
    FAST_ASSERT(operations >= 0 && bytes >= 0);
    const fast_transport *transport = actor->world->transport;
    const fast_err err = transport->charge ? transport->charge(actor, operations, bytes) : FAST_OK;
    if (err == FAST_ECANCELED)
        actor->stopped = true;
    return err;
}

/* Add the time since `begin` to a counter, and a span to the timeline. `begin` and the counter are
 * by the clock without jumps, the timeline is by the actor's own. */
static void account(fast_actor *actor, fast_span span, const char *name, int64_t begin,
                    fast_counter *spent)
{
    const int64_t ns = fast__steady_now(actor) - begin;

    fast__count(spent, ns);
    if (actor->seen)
        fast__timeline_add(actor, span, name, fast__record_peek_now(actor) - ns, -1, 0);
}

fast_err fast__charge_codec(fast_actor *actor, const char *name, int64_t begin, double operations,
                            double bytes, fast_counter *spent)
{
    FAST_ASSERT(actor != NULL && spent != NULL);
    if (actor->stopped)
        return fast__fail(FAST_ECANCELED, "this actor was stopped");
    const fast_err err = charge(actor, operations, bytes);
    account(actor, FAST_SPAN_CODEC, name, begin, spent);
    return err;
}

fast_err fast_charge(fast_actor *actor, double operations, double bytes)
{
    FAST_ASSERT(actor != NULL);
    if (actor->stopped)
        return fast__fail(FAST_ECANCELED, "this actor was stopped");
    if (!actor->world->transport->charge) /* real time passes by itself */
        return FAST_OK;
    const int64_t begin = fast__steady_now(actor);
    const fast_err err = charge(actor, operations, bytes);
    account(actor, FAST_SPAN_COMPUTE, "charge", begin, &actor->counters.compute_ns);
    return err;
}

fast_err fast__compute_direct(fast_actor *actor, fast_work *work)
{
    direct_run run = { { direct_report }, actor };
    work->sink = &run;
    const fast_err err = work->run(work);
    work->sink = NULL;
    return err;
}

fast_err fast_compute(fast_actor *actor, fast_work *work)
{
    FAST_ASSERT(actor != NULL && work != NULL);
    FAST_ASSERT(work->run != NULL);
    if (actor->stopped)
        return fast__fail(FAST_ECANCELED, "this actor was stopped");
    const fast_transport *transport = actor->world->transport;
    const int64_t begin = fast__steady_now(actor);
    const fast_err err =
        transport->compute ? transport->compute(actor, work) : fast__compute_direct(actor, work);
    account(actor, FAST_SPAN_COMPUTE, work->name ? work->name : "compute", begin,
            &actor->counters.compute_ns);
    return err;
}
