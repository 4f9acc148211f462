/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "base/err.h"

#include <mpi.h>

/*
 * What this process has of MPI, whichever world is open: its rank, and a communicator that nobody
 * else uses. MPI can be initialised once in the life of a process.
 */
typedef struct fast_mpi_process {
    MPI_Comm base; /* all ranks, ours alone */
    int rank;      /* of this process */
    int ranks;     /* of all */
    int beside;    /* ranks on this machine, with this one */
    int cores;     /* that this process may run on */
    bool bound;    /* the launcher gave it some of the machine's cores for itself */
    int level;     /* of threads: MPI_THREAD_SERIALIZED where we initialised it */
} fast_mpi_process;

/* Initialise MPI if nobody has, the first time; lend what is known. MPI's own start waits for all
 * ranks without a deadline. FAST_ENOTSUP if MPI is finalised already or may
 * not be called by this thread, FAST_ETIMEDOUT, FAST_EPEER for what MPI reports. */
fast_err fast__mpi_begin(int64_t until, const fast_mpi_process **out);

/* A world is open, or was closed; `clean` if nothing of it is left in MPI. A process that exits
 * with an open or unclean world aborts the job, so that no rank waits for it. */
void fast__mpi_enter(void);
void fast__mpi_leave(bool clean);
/* Keep memory that MPI may still touch until the process ends. */
void fast__mpi_keep(void *memory);

/* FAST_EPEER, and the text of MPI's error, if `code` is one. */
fast_err fast__mpi_check(int code, const char *doing);

/* How a wait polls: at once for a while if there is a core for everyone, then yielding, then with
 * short sleeps that grow with the wait, so that it adds at most an eighth to it. */
typedef struct fast_mpi_pause {
    int64_t spin_ns; /* how long to poll at once: set at the start */
    int64_t since;   /* when the wait began; 0: it has not */
} fast_mpi_pause;

/* How long to sleep now: 0 for none. Yields by itself when it is time to. */
int64_t fast__mpi_pause(fast_mpi_pause *pause, int64_t now);

/* Wait for a request until `until` of fast__clock_ns(). FAST_ETIMEDOUT leaves it under way. */
fast_err fast__mpi_await(MPI_Request *request, int64_t until, const char *doing);
