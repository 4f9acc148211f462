/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "transport/mpi/process.h"

/* Synchronise all ranks that open a world, until `until` of fast__clock_ns(): verify that they run
 * equal actors (`hash` is equal), and make a communicator for them. Collective. FAST_ETIMEDOUT
 * names a rank that did not join, FAST_EINVAL one that runs other actors, FAST_EPEER one that
 * declined; all ranks that joined return the same result. */
fast_err fast__mpi_join(const fast_mpi_process *process, uint64_t hash, int64_t until,
                        MPI_Comm *comm_out);
/* In the place of fast__mpi_join(): tell the other ranks that this one does not join, and why. */
void fast__mpi_decline(const fast_mpi_process *process, const char *why);
