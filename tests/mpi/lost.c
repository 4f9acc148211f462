/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A program for lost.py: worker 0 waits for the last worker, which lives on the last rank and ends
 * in the way that the argument says: killed, by exit(), stopped, with an error, or well. "absent":
 * the last rank hangs before it joins the others. Prints what the run says.
 */
#include "base/err.h"
#include "fast/comm.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <mpi.h>

enum { WORKERS = 4 };

static bool absent; /* the last rank never joins */

/* MPI's own, but for a rank that is absent: the first call of FAST that concerns all ranks. */
int MPI_Comm_idup(MPI_Comm comm, MPI_Comm *out, MPI_Request *request)
{
    int rank = 0, ranks = 1;
    PMPI_Comm_rank(comm, &rank);
    PMPI_Comm_size(comm, &ranks);
    while (absent && rank == ranks - 1)
        pause();
    return PMPI_Comm_idup(comm, out, request);
}

static fast_err work(fast_actor *actor, void *ctx)
{
    const char *how = ctx;
    const int64_t last = fast_actor_count(actor) - 1;
    fast_msg *msg = NULL;
    if (fast_actor_id(actor) != last) {
        FAST_TRY(fast_receive(actor, last, 1, FAST_SOON, &msg));
        fast_msg_free(msg);
        return FAST_OK;
    }
    /* The others wait by now, or soon. */
    FAST_TRY(fast_sleep_until(actor, fast_now(actor) + 200 * 1000 * 1000));
    if (strcmp(how, "kill") == 0)
        raise(SIGKILL);
    if (strcmp(how, "stop") == 0)
        raise(SIGSTOP);
    if (strcmp(how, "exit") == 0)
        exit(3);
    if (strcmp(how, "fail") == 0)
        return fast__fail(FAST_EIO, "the disk is full");
    for (int64_t to = 0; to < last; to++) {
        FAST_TRY(fast_msg_new(actor, 1, &msg));
        FAST_TRY(fast_send(actor, to, &msg));
    }
    return FAST_OK;
}

int main(int argc, char **argv)
{
    const char *const options[] = { "transport=mpi", argc > 2 ? argv[2] : "timeout=60", NULL };
    const fast_role roles[] = { { "worker", WORKERS, work, argc > 1 ? argv[1] : "well" } };
    absent = argc > 1 && strcmp(argv[1], "absent") == 0;
    const fast_err err = fast_actors_run(options, roles, 1, NULL);
    printf("%s\n", err ? fast_error_detail() : "all went well");
    fflush(stdout);
    return err ? 1 : 0;
}
