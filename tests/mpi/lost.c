/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A program for lost.py: worker 0 waits for the last worker, which lives on the last rank and ends
 * in the way that the argument says: killed, by exit(), stopped, with an error, or well. Prints
 * what the run says.
 */
#include "base/err.h"
#include "fast/comm.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { WORKERS = 4 };

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
    const fast_err err = fast_actors_run(options, roles, 1, NULL);
    printf("%s\n", err ? fast_error_detail() : "all went well");
    fflush(stdout);
    return err ? 1 : 0;
}
