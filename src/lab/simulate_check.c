/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Promises of FAST under any faults, checked after a simulation:
 *
 *   - every actor's program ends, unless its node crashed;
 *   - every wait ends by its deadline, by the clock of its node: a node that stands still or whose
 *     clock jumps is that much late, and what an actor computes inside a wait comes on top;
 *   - messages come once and in order while both ends are up;
 *   - a sum is wrong only if somebody lied;
 *   - once faults are over, a program that tries again hears of everyone who is there.
 *
 * These are safety properties and a liveness property that hold for every program; giving up with
 * an error is allowed, being late or wrong without one is not. The first promise that is broken, by
 * the lowest worker, is written to `broken`; the order of the checks is that of the list, so that a
 * worker that hangs is not reported as one that missed messages.
 *
 * The checks use the schedule that was simulated, not its text: a lie excuses a wrong sum, a pause
 * of 500 ms excuses waits of its node that are 500 ms late. A fault excuses its own effect alone.
 */
#include "lab/simulate.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The i-th fault of the schedule. */
static const fast_fault *fault_at(const fast_simulate_outcome *o, int64_t i)
{
    return &o->faults->list[i];
}

/* Number of faults of the schedule. */
static int64_t fault_count(const fast_simulate_outcome *o)
{
    return o->faults ? o->faults->count : 0;
}

/* How late a wait of this node's actor may be: the sum of its node's pauses and clock jumps, and
 * the computing that a wait includes, times the largest slowdown. The sum over all faults of the
 * run is an upper bound, whichever of them fell into the wait. */
static int64_t lateness(const fast_simulate_outcome *o, int64_t node)
{
    double slow = 1;
    int64_t late = 0;
    for (int64_t i = 0; i < fault_count(o); i++) {
        const fast_fault *fault = fault_at(o, i);
        if (fault->node != node)
            continue;
        if (fault->kind == FAST_FAULT_PAUSE)
            late += fault->length;
        if (fault->kind == FAST_FAULT_JUMP)
            late += llabs(fault->jump);
        if (fault->kind == FAST_FAULT_SLOW && fault->by > slow)
            slow = fault->by;
    }
    /* Reductions of an allreduce are computed inside its wait: ten passes over the vector, at
     * 100 MB/s at least. */
    late += (int64_t)(slow * (double)o->config->size * 100) + 1000;
    /* The first measurements of `auto` take about a millisecond of computing. */
    if (strcmp(o->config->algorithm, "auto") == 0)
        late += (int64_t)(slow * 1e6);
    return late;
}

/* True if the schedule has a fault of this kind. */
static bool has(const fast_simulate_outcome *o, fast_fault_kind kind)
{
    for (int64_t i = 0; i < fault_count(o); i++)
        if (fault_at(o, i)->kind == kind)
            return true;
    return false;
}

/* Whether every fault ends, so that everyone who is there can be heard of. Only cuts and partitions
 * without `for` last forever and separate nodes that run; a lossy link delivers in the end, and a
 * node that crashed for good is counted by crashed_for_good(). */
static bool heals(const fast_simulate_outcome *o)
{
    for (int64_t i = 0; i < fault_count(o); i++)
        if (fault_at(o, i)->length == 0 && (fault_at(o, i)->kind == FAST_FAULT_CUT ||
                                            fault_at(o, i)->kind == FAST_FAULT_PARTITION))
            return false;
    return true;
}

/* How many crashed for good, and are rightly missed by the others. */
static int64_t crashed_for_good(const fast_simulate_outcome *o)
{
    int64_t count = 0;
    for (int64_t i = 0; i < o->config->workers; i++)
        count += o->actors[i].crashed;
    return count;
}

/* Check the promises that concern one actor. */
static void check_actor(fast_simulate_outcome *o, int64_t i, int64_t node)
{
    const fast_simulate_actor *a = &o->actors[i];
    const long long id = (long long)i;
    if (!a->ended)
        snprintf(o->broken, sizeof o->broken, "worker %lld never ended", id);
    else if (a->overrun_ns > lateness(o, node))
        snprintf(o->broken, sizeof o->broken, "a wait of worker %lld was %.6f s late", id,
                 (double)a->overrun_ns * 1e-9);
    else if (a->disorder > 0)
        snprintf(o->broken, sizeof o->broken,
                 "%lld messages reached worker %lld twice or out of order", (long long)a->disorder,
                 id);
    else if (a->wrong > 0 && !has(o, FAST_FAULT_LIE))
        snprintf(o->broken, sizeof o->broken, "worker %lld got a wrong sum, and nobody lied", id);
    else if (a->missed > 0 && !a->crashed && heals(o) && a->missed > crashed_for_good(o))
        snprintf(o->broken, sizeof o->broken,
                 "worker %lld did not hear of %lld others though the faults are over", id,
                 (long long)a->missed);
}

void fast__simulate_check(fast_simulate_outcome *outcome)
{
    FAST_ASSERT(outcome->config != NULL);
    for (int64_t i = 0; i < outcome->config->workers && outcome->broken[0] == 0; i++)
        check_actor(outcome, i, outcome->actors[i].node);
}
