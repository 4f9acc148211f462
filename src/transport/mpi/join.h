/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "transport/mpi/process.h"

/* Meet all ranks that open a world, until `until` of fast__clock_ns(): check that they run the
 * same actors (`hash` is equal), make a communicator for them. Collective. FAST_ETIMEDOUT names a
 * rank that did not come, FAST_EINVAL one that runs something else; every rank that came gets the
 * same answer. */
fast_err fast__mpi_join(const fast_mpi_process *process, uint64_t hash, int64_t until,
                        MPI_Comm *comm_out);
