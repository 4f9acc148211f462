/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The failure of a synchronous run for a person: which worker crashed and when, instead of how the
 * others noticed. On `sim` the time of a crash is known; on other transports the workers' own words
 * stay.
 *
 *   worker 3 crashed at 200 ms; allreduce cannot continue without it; use quorum:backup=1, ps or
 *   gossip_async
 *
 * A run of a synchronous strategy that ends since a peer is lost needed that peer.
 */
#include "run/team.h"
#include "transport/sim/fault.h"
#include "transport/sim/sim.h"

#include <string.h>

/* Is it one of the strategies that the sentence recommends? Their own words stay. */
static bool continues(const char *strategy)
{
    return strcmp(strategy, "quorum") == 0 || strcmp(strategy, "ps") == 0 ||
           strcmp(strategy, "gossip_async") == 0;
}

fast_err fast__team_crash(const fast_team *team, fast_err err)
{
    const fast_sim *sim = (const fast_sim *)team->place.world;
    int64_t first = -1;
    char name[64], time[FAST_TIME_TEXT];

    FAST_ASSERT(err != FAST_OK);
    if (team->place.world->inner != &fast__transport_sim || err != FAST_EPEER ||
        !team->strategy->synchronous || continues(team->strategy->name))
        return err;
    for (int64_t i = 0; i < team->workers; i++) {
        const fast_sim_actor *actor = &sim->actors[i];

        if (actor->base.err == FAST_ECANCELED && actor->crashed_ns > 0 &&
            (first < 0 || actor->crashed_ns < sim->actors[first].crashed_ns))
            first = i;
    }
    if (first < 0)
        return err;
    fast__actor_name(team->place.world, first, name, sizeof name);
    fast__time_text(sim->actors[first].crashed_ns, time);
    const int digits = (int)strspn(time, "0123456789.");
    return fast__fail(err,
                      "%s crashed at %.*s %s; %s cannot continue without it; use "
                      "quorum:backup=1, ps or gossip_async",
                      name, digits, time, time + digits, team->strategy->name);
}
