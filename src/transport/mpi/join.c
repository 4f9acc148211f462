/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How the ranks meet when a world opens: everyone says hello to rank 0, with the number of the
 * world and a hash of what it runs; rank 0 answers everyone with the verdict, which is the same
 * for all. Then a communicator is made, and a barrier gives all clocks a common zero. 2 (p - 1)
 * small messages at rank 0, once a run.
 *
 * Plain messages rather than a collective of MPI: rank 0 knows who is missing, and can say so.
 */
#include "transport/mpi/join.h"

#include "base/clock.h"
#include "base/memory.h"

#include <stdatomic.h>
#include <time.h>

enum { TAG_HELLO = 1, TAG_VERDICT = 2 };

/* How much longer the others wait for rank 0's verdict than it waits for them. */
enum { GRACE_NS = 1000 * 1000 * 1000 };

/* Both messages. */
typedef struct join_message {
    int64_t world; /* how many worlds this process has opened: an older one is late mail */
    uint64_t hash; /* of what the rank runs */
    int64_t err;   /* in the verdict */
    int64_t rank;  /* in the verdict: whose fault it is */
} join_message;

/* Worlds opened so far, in step on all ranks. */
static atomic_llong worlds;

/* The verdict as an error. */
static fast_err verdict_error(const join_message *verdict)
{
    if (verdict->err == FAST_OK)
        return FAST_OK;
    if (verdict->err == FAST_EINVAL)
        return fast__fail(FAST_EINVAL,
                          "mpi: rank %lld runs other actors, another seed or another build than "
                          "rank 0; start the same program with the same options on every rank",
                          (long long)verdict->rank);
    return fast__fail(FAST_ETIMEDOUT,
                      "mpi: rank %lld did not come; every rank must run the actors, at about the "
                      "same time (option timeout)",
                      (long long)verdict->rank);
}

/* Rank 0: receive from everyone until the time is up, and judge. */
static fast_err hellos_await(const fast_mpi_process *process, const join_message *mine,
                             join_message *hellos, MPI_Request *requests, int64_t until,
                             join_message *verdict)
{
    *verdict = *mine;
    for (int rank = 1; rank < process->ranks; rank++)
        FAST_TRY(fast__mpi_check(MPI_Irecv(&hellos[rank], sizeof *hellos, MPI_BYTE, rank, TAG_HELLO,
                                           process->base, &requests[rank]),
                                 "the meeting"));
    for (int rank = 1; rank < process->ranks; rank++) {
        const fast_err err = fast__mpi_await(&requests[rank], until, "the meeting");
        if (err && err != FAST_ETIMEDOUT)
            return err;
        if (!err && hellos[rank].world < mine->world) {
            FAST_TRY(fast__mpi_check(MPI_Irecv(&hellos[rank], sizeof *hellos, MPI_BYTE, rank,
                                               TAG_HELLO, process->base, &requests[rank]),
                                     "the meeting"));
            rank--; /* late mail of a world that failed: look again */
            continue;
        }
        const bool same = hellos[rank].world == mine->world && hellos[rank].hash == mine->hash;
        if (verdict->err == FAST_OK && (err || !same)) {
            verdict->err = err ? FAST_ETIMEDOUT : FAST_EINVAL;
            verdict->rank = rank;
        }
    }
    return FAST_OK;
}

/* Rank 0's part. */
static fast_err lead(const fast_mpi_process *process, const join_message *mine, int64_t until)
{
    join_message *hellos = NULL;
    MPI_Request *requests = NULL;
    join_message verdict = { 0 };
    FAST_TRY(fast__alloc("ranks", process->ranks, sizeof *hellos, &hellos));
    fast_err err = fast__alloc("ranks", process->ranks, sizeof *requests, &requests);
    if (err)
        goto undo_hellos;
    for (int rank = 0; rank < process->ranks; rank++)
        requests[rank] = MPI_REQUEST_NULL;
    err = hellos_await(process, mine, hellos, requests, until, &verdict);
    for (int rank = 1; rank < process->ranks; rank++) {
        if (requests[rank] != MPI_REQUEST_NULL) {
            MPI_Cancel(&requests[rank]);
            MPI_Wait(&requests[rank], MPI_STATUS_IGNORE);
        }
        /* Small enough for MPI to take at once; it goes to those that are late, too. */
        if (!err)
            err = fast__mpi_check(
                MPI_Send(&verdict, sizeof verdict, MPI_BYTE, rank, TAG_VERDICT, process->base),
                "the meeting");
    }
    if (!err)
        err = verdict_error(&verdict);
    fast__free(requests);
undo_hellos:
    fast__free(hellos);
    return err;
}

/* Everyone else's. */
static fast_err follow(const fast_mpi_process *process, const join_message *mine, int64_t until)
{
    join_message verdict = { 0 };
    FAST_TRY(fast__mpi_check(MPI_Send(mine, sizeof *mine, MPI_BYTE, 0, TAG_HELLO, process->base),
                             "the meeting"));
    do {
        MPI_Request request = MPI_REQUEST_NULL;
        FAST_TRY(fast__mpi_check(
            MPI_Irecv(&verdict, sizeof verdict, MPI_BYTE, 0, TAG_VERDICT, process->base, &request),
            "the meeting"));
        const fast_err err = fast__mpi_await(&request, until, "the meeting");
        if (err) {
            MPI_Cancel(&request);
            MPI_Wait(&request, MPI_STATUS_IGNORE);
            verdict = (join_message){ .err = FAST_ETIMEDOUT };
            return err == FAST_ETIMEDOUT ? verdict_error(&verdict) : err;
        }
    } while (verdict.world < mine->world);
    return verdict_error(&verdict);
}

fast_err fast__mpi_join(const fast_mpi_process *process, uint64_t hash, int64_t until,
                        MPI_Comm *comm_out)
{
    const join_message mine = { .world = atomic_fetch_add(&worlds, 1) + 1, .hash = hash };
    MPI_Comm comm = MPI_COMM_NULL;
    MPI_Request request = MPI_REQUEST_NULL;
    if (process->rank == 0)
        FAST_TRY(lead(process, &mine, until));
    else
        FAST_TRY(follow(process, &mine, until + GRACE_NS));

    until += 2 * (int64_t)GRACE_NS; /* everyone is here */
    FAST_TRY(fast__mpi_check(MPI_Comm_idup(process->base, &comm, &request), "the meeting"));
    FAST_TRY(fast__mpi_await(&request, until, "the meeting"));
    MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
    FAST_TRY(fast__mpi_check(MPI_Ibarrier(comm, &request), "the meeting"));
    FAST_TRY(fast__mpi_await(&request, until, "the meeting"));
    *comm_out = comm;
    return FAST_OK;
}
