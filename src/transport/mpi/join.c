/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How the ranks of a world synchronise at its start: every rank sends rank 0 a hello with the
 * number of the world and a hash of its actors; rank 0 sends all ranks one verdict. Then a
 * communicator is made, and a barrier gives all clocks a common zero. Cost: 2 (p - 1) small
 * messages at rank 0, once a run.
 *
 * Plain messages rather than a collective of MPI: rank 0 knows which rank is missing and names it.
 * A rank that cannot join, as it failed to open what the actors need, sends its hello with the
 * error; rank 0 sends its verdict then:
 *
 *     rank 2    hello: no room for the model --> rank 0    verdict: rank 2 declined --> all ranks
 */
#include "transport/mpi/join.h"

#include "base/clock.h"
#include "base/memory.h"

#include <stdatomic.h>
#include <stdio.h>
#include <time.h>

enum {
    TAG_HELLO = 1,  /* to rank 0 */
    TAG_VERDICT = 2 /* from rank 0 */
};

/* Time by which other ranks wait longer for the verdict than rank 0 waits for them. */
enum { GRACE_NS = 1000 * 1000 * 1000 };

/* A hello, or the verdict. */
typedef struct join_message {
    int64_t world; /* number of the world in this process: older ones are late */
    uint64_t hash; /* of the version, seed and roles of the rank */
    int64_t err;   /* hello: FAST_EPEER of a rank that declines. Verdict: FAST_OK, FAST_ETIMEDOUT,
                      FAST_EINVAL or FAST_EPEER */
    int64_t rank;  /* verdict: the rank that caused the error */
    char why[256]; /* FAST_EPEER: what that rank says */
} join_message;

/* Worlds opened so far; equal on all ranks. */
static atomic_llong worlds;

/* Return the verdict as an error with its detail. */
static fast_err verdict_error(const fast_mpi_process *process, const join_message *verdict)
{
    const char *host = process->hosts[verdict->rank];

    if (verdict->err == FAST_OK)
        return FAST_OK;
    if (verdict->err == FAST_EINVAL)
        return fast__fail(
            FAST_EINVAL,
            "mpi: rank %lld runs other actors, another seed or another build than "
            "rank 0 (on %s); start the same program with the same options on every rank",
            (long long)verdict->rank, host);
    if (verdict->err == FAST_EPEER)
        return fast__fail(FAST_EPEER, "mpi: rank %lld (on %s) cannot take part: %s",
                          (long long)verdict->rank, host, verdict->why);
    return fast__fail(
        FAST_ETIMEDOUT,
        "mpi: rank %lld did not come (on %s); every rank must run the actors, at about "
        "the same time (option timeout), and find its files (--resume, --load, data) "
        "on its own machine",
        (long long)verdict->rank, host);
}

/* Rank 0: receive all hellos until `until`, and decide the verdict. */
static fast_err hellos_await(const fast_mpi_process *process, const join_message *mine,
                             join_message *hellos, MPI_Request *requests, int64_t until,
                             join_message *verdict)
{
    *verdict = *mine;
    for (int rank = 1; rank < process->ranks; rank++)
        FAST_TRY(fast__mpi_check(MPI_Irecv(&hellos[rank], sizeof *hellos, MPI_BYTE, rank, TAG_HELLO,
                                           process->base, &requests[rank]),
                                 "joining"));
    for (int rank = 1; rank < process->ranks; rank++) {
        const fast_err err = fast__mpi_await(&requests[rank], until, "joining");
        if (err && err != FAST_ETIMEDOUT)
            return err;
        if (!err && hellos[rank].world < mine->world) {
            FAST_TRY(fast__mpi_check(MPI_Irecv(&hellos[rank], sizeof *hellos, MPI_BYTE, rank,
                                               TAG_HELLO, process->base, &requests[rank]),
                                     "joining"));
            rank--; /* a late hello of a world that failed: receive again */
            continue;
        }
        const bool same = hellos[rank].world == mine->world && hellos[rank].hash == mine->hash;
        if (!err && hellos[rank].world == mine->world && hellos[rank].err) {
            *verdict = hellos[rank];
            return FAST_OK; /* nobody waits for the others */
        }
        if (verdict->err == FAST_OK && (err || !same)) {
            verdict->err = err ? FAST_ETIMEDOUT : FAST_EINVAL;
            verdict->rank = rank;
        }
    }
    return FAST_OK;
}

/* Rank 0: await all ranks and send them the verdict. */
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
        /* Small enough for MPI to buffer; late ranks get it too. */
        if (!err)
            err = fast__mpi_check(
                MPI_Send(&verdict, sizeof verdict, MPI_BYTE, rank, TAG_VERDICT, process->base),
                "joining");
    }
    if (!err)
        err = verdict_error(process, &verdict);
    fast__free(requests);
undo_hellos:
    fast__free(hellos);
    return err;
}

/* Other ranks: send a hello and await the verdict. */
static fast_err follow(const fast_mpi_process *process, const join_message *mine, int64_t until)
{
    join_message verdict = { 0 };
    FAST_TRY(fast__mpi_check(MPI_Send(mine, sizeof *mine, MPI_BYTE, 0, TAG_HELLO, process->base),
                             "joining"));
    do {
        MPI_Request request = MPI_REQUEST_NULL;
        FAST_TRY(fast__mpi_check(
            MPI_Irecv(&verdict, sizeof verdict, MPI_BYTE, 0, TAG_VERDICT, process->base, &request),
            "joining"));
        const fast_err err = fast__mpi_await(&request, until, "joining");
        if (err) {
            MPI_Cancel(&request);
            MPI_Wait(&request, MPI_STATUS_IGNORE);
            verdict = (join_message){ .err = FAST_ETIMEDOUT };
            return err == FAST_ETIMEDOUT ? verdict_error(process, &verdict) : err;
        }
    } while (verdict.world < mine->world);
    return verdict_error(process, &verdict);
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

    until += 2 * (int64_t)GRACE_NS; /* all ranks have joined */
    FAST_TRY(fast__mpi_check(MPI_Comm_idup(process->base, &comm, &request), "joining"));
    FAST_TRY(fast__mpi_await(&request, until, "joining"));
    MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
    FAST_TRY(fast__mpi_check(MPI_Ibarrier(comm, &request), "joining"));
    FAST_TRY(fast__mpi_await(&request, until, "joining"));
    *comm_out = comm;
    return FAST_OK;
}

void fast__mpi_decline(const fast_mpi_process *process, const char *why)
{
    join_message mine = { .world = atomic_fetch_add(&worlds, 1) + 1,
                          .err = FAST_EPEER,
                          .rank = process->rank };

    snprintf(mine.why, sizeof mine.why, "%s", why);
    if (process->rank > 0)
        MPI_Send(&mine, sizeof mine, MPI_BYTE, 0, TAG_HELLO, process->base);
    for (int rank = 1; rank < process->ranks && process->rank == 0; rank++)
        MPI_Send(&mine, sizeof mine, MPI_BYTE, rank, TAG_VERDICT, process->base);
}
