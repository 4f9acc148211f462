/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The run's clock: the one place of this level that asks for the time. It decides nothing about
 * what is computed, only what is reported and when; where a transport drives the run, the transport
 * owns the clock and answers here instead.
 *
 *     caller                         fast__run_now()
 *     a run at rest, but on `sim`    the machine's monotonic clock
 *     an actor that drives the run   its own clock: clock.actor is set while it holds the mutex
 *     `sim` without an actor         0: reading, saving and reporting take no virtual time
 *
 * Progress is shown by the machine's clock also on `sim`: a simulated hour may take a second.
 */
#include "base/clock.h"

#include "run/run.h"
#include "transport/transport.h"

int64_t fast__run_now(const fast_run *run)
{
    FAST_ASSERT(run != NULL);
    if (run->clock.actor)
        return fast__steady_now(run->clock.actor);
    return run->clock.is_virtual ? 0 : fast__clock_ns();
}

int64_t fast__run_wall(void)
{
    return fast__clock_ns();
}

bool fast__run_is_time(fast_run *run)
{
    const int64_t now_ns = fast__clock_ns();

    if (now_ns - run->sinks.shown_ns < 100000000)
        return false;
    run->sinks.shown_ns = now_ns;
    return true;
}
