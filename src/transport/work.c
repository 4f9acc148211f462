/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Computing, as an actor does it: the transport says how long it takes, here it is counted. Where a
 * transport leaves the running of work to this file, reports are made as they come, and what the
 * actor has posted is advanced after each: so a segment is reduced while later layers compute.
 */
#include "transport/transport.h"

/* The recorder of an actor that runs its work itself. */
typedef struct direct_run {
    fast_report_sink recorder;
    fast_actor *actor;
} direct_run;

static void direct_report(fast_report_sink *recorder, fast_work *work, double operations,
                          int64_t offset, int64_t count)
{
    fast_actor *actor = ((direct_run *)recorder)->actor;
    (void)operations;
    if (work->report)
        work->report(work->ctx, offset, count);
    if (actor->tasks)
        fast__progress(actor);
}

void fast_work_report(fast_work *work, double operations, int64_t offset, int64_t count)
{
    FAST_ASSERT(work != NULL && work->recorder != NULL);
    fast_report_sink *recorder = work->recorder;
    recorder->report(recorder, work, operations, offset, count);
}

fast_err fast__charge_codec(fast_actor *actor, const char *name, int64_t begin, double operations,
                            double bytes, fast_counter *spent)
{
    FAST_ASSERT(operations >= 0 && bytes >= 0);
    if (actor->stopped)
        return fast__fail(FAST_ECANCELED, "this actor was stopped");
    const fast_err err = actor->world->transport->charge(actor, operations, bytes);
    if (err == FAST_ECANCELED)
        actor->stopped = true;
    fast__count(spent, fast_now(actor) - begin);
    if (actor->seen)
        fast__timeline_add(actor, FAST_SPAN_CODEC, name, begin, -1, 0);
    return err;
}

fast_err fast_charge(fast_actor *actor, double operations, double bytes)
{
    FAST_ASSERT(actor != NULL);
    FAST_ASSERT(operations >= 0 && bytes >= 0);
    if (actor->stopped)
        return fast__fail(FAST_ECANCELED, "this actor was stopped");
    const int64_t begin = fast_now(actor);
    const fast_err err = actor->world->transport->charge(actor, operations, bytes);
    if (err == FAST_ECANCELED)
        actor->stopped = true;
    fast__count(&actor->counters.compute_ns, fast_now(actor) - begin);
    if (actor->seen)
        fast__timeline_add(actor, FAST_SPAN_COMPUTE, "charge", begin, -1, 0);
    return err;
}

fast_err fast__compute_direct(fast_actor *actor, fast_work *work)
{
    direct_run run = { { direct_report }, actor };
    work->recorder = &run;
    const fast_err err = work->run(work);
    work->recorder = NULL;
    return err;
}

fast_err fast_compute(fast_actor *actor, fast_work *work)
{
    FAST_ASSERT(actor != NULL && work != NULL);
    FAST_ASSERT(work->run != NULL);
    if (actor->stopped)
        return fast__fail(FAST_ECANCELED, "this actor was stopped");
    const fast_transport *transport = actor->world->transport;
    const int64_t begin = fast_now(actor);
    const fast_err err =
        transport->compute ? transport->compute(actor, work) : fast__compute_direct(actor, work);
    fast__count(&actor->counters.compute_ns, fast_now(actor) - begin);
    if (actor->seen)
        fast__timeline_add(actor, FAST_SPAN_COMPUTE, work->name ? work->name : "compute", begin, -1,
                           0);
    return err;
}
