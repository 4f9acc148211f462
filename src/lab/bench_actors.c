/* SPDX-License-Identifier: Apache-2.0 */
/* The workers of a measurement: actors on the transport and the cluster that its options name. */
#include "base/option.h"
#include "fast/comm.h"
#include "lab/bench.h"

#include <stdio.h>

fast_err fast__bench_actors(const fast_bench_place *place, int64_t workers, fast_actor_fn *program,
                            void *ctx)
{
    char transport[64], cluster[4112], timeout[64], seed[64], number[48];
    const char *options[] = { transport, timeout, seed, place->cluster[0] ? cluster : NULL, NULL };
    const fast_role roles[] = { { "worker", workers, program, ctx } };

    FAST_ASSERT(workers > 0);
    fast__real_text(place->timeout, number, sizeof number);
    snprintf(transport, sizeof transport, "transport=%s", place->transport);
    snprintf(timeout, sizeof timeout, "timeout=%s", number);
    snprintf(seed, sizeof seed, "seed=%lld", (long long)place->seed);
    snprintf(cluster, sizeof cluster, "cluster=%s", place->cluster);
    return fast_actors_run(options, roles, 1, NULL);
}
