/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The registry of the transports in this build, in the order of `fast info`. A transport that is
 * not built in is not unknown: its error names the switch.
 */
#include "transport/transport.h"

#include <string.h>

const fast_transport *const fast__transports[] = {
    &fast__transport_threads,
    &fast__transport_sim,
#ifdef FAST_HAVE_MPI
    &fast__transport_mpi,
#endif
    NULL,
};

static const char *name_at(const void *ctx, int64_t i)
{
    (void)ctx;
    return fast__transports[i]->name;
}

fast_err fast__transport_find(const char *name, const fast_transport **out)
{
    int64_t count = 0;

    FAST_ASSERT(name != NULL && out != NULL);
    while (fast__transports[count])
        count++;
    const int64_t i = fast__name_find(name, name_at, NULL, count, NULL);
    if (i >= 0) {
        *out = fast__transports[i];
        return FAST_OK;
    }
    if (strcmp(name, "mpi") == 0)
        return fast__fail(FAST_ENOTSUP,
                          "no transport \"mpi\" in this build; configure with -DFAST_MPI=ON");
    return fast__name_unknown("transport", name, name_at, NULL, count);
}
