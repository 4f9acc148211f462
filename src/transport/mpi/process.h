/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "base/err.h"
#include "transport/mpi/bell.h"

#include <mpi.h>

enum { FAST_MPI_HOST_MAX = 64 };

/*
 * MPI in this process, for all worlds: its rank, and a communicator for FAST alone. MPI can be
 * initialised once in the life of a process.
 */
typedef struct fast_mpi_process {
    MPI_Comm base; /* all ranks; not used by other libraries */
    int rank;      /* rank of this process */
    int ranks;     /* number of ranks */
    int beside;    /* ranks on this machine, including this one */
    int cores;     /* cores that this process may use */
    bool bound;    /* the launcher bound it to some of the machine's cores */
    int level;     /* thread level: MPI_THREAD_SERIALIZED if FAST initialised MPI */
    char (*hosts)[FAST_MPI_HOST_MAX]; /* [ranks]: machine of each, cut if it is longer */
    fast_bells *bells;                /* ends the sleep of a rank that something was sent to */
} fast_mpi_process;

/* Initialise MPI at the first call, unless the program has done so. MPI's own start waits for all
 * ranks without a deadline; what follows takes `patience_ns` at most. FAST_ENOTSUP if MPI is
 * finalised already or may not be called by this thread, FAST_ETIMEDOUT, FAST_EPEER for errors of
 * MPI. */
fast_err fast__mpi_begin(int64_t patience_ns, const fast_mpi_process **out);

/* Count a world that was opened, or closed; `clean` if it left nothing in MPI. A process that exits
 * with an open or unclean world aborts the job, so that no rank waits for it; it gives another rank
 * that has more to do `patience_ns` to do so first. The job's exit status is that of the process,
 * or 1 if it exits in a world. */
void fast__mpi_enter(void);
void fast__mpi_leave(bool clean, int64_t patience_ns);
/* Note that a rank did not come to a world. Until the next world a process that exits aborts the
 * job: MPI would wait for that rank. */
void fast__mpi_missed(void);
/* Retain memory that MPI may still use until the process ends. */
void fast__mpi_retain(void *memory);

/* Return FAST_EPEER with MPI's text if `code` is an error of MPI. */
fast_err fast__mpi_check(int code, const char *doing);

/* The polling of a wait: busy for a while if every thread has a core. Then a rank that a bell wakes
 * sleeps, and another one yields before it sleeps for short times, that grow with the wait and
 * lengthen it by an eighth at most. */
typedef struct fast_mpi_pause {
    int64_t spin_ns; /* time to poll without a pause: set at the start */
    int64_t since;   /* start of the wait; 0: not started */
    bool rung;       /* a bell ends the sleep: it may be long, and nothing is gained by yielding */
} fast_mpi_pause;

/* Return the time to sleep now, 0: do not sleep. Yields the processor itself when it is time. */
int64_t fast__mpi_pause(fast_mpi_pause *pause, int64_t now);

/* Wait for a request until `until` of fast__clock_ns(). After FAST_ETIMEDOUT it is still active. */
fast_err fast__mpi_await(MPI_Request *request, int64_t until, const char *doing);
