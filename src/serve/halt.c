/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Stops runs, whoever started them, on this machine: SIGINT first, on which `fast train` finishes
 * its step, saves where asked and says so in the store; SIGTERM after a while, or when asked again,
 * which ends it at once.
 *
 * A process number alone may belong to another process by now. So a handle of the process (pidfd)
 * is taken first and the store is asked after that whether the run still runs, which it decides
 * by when the process began; the signal then goes to the handle.
 */
#include "serve/server.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

static const int64_t patience_ns = 20 * (int64_t)1000000000;

/* The process of a run. */
typedef struct run_facts {
    int64_t pid;  /* of its process */
    bool running; /* as the store says */
    bool here;    /* on this machine, and visible */
} run_facts;

/* Copy the facts about a run's process from its row. `here` compares the machine's name and the
 * process namespace with those that the run stored. */
static fast_err read_facts(void *ctx, const void *row)
{
    const fast_stored_run *run = row;
    run_facts *facts = ctx;
    char host[256] = "", space[80] = "/";
    const ssize_t got = readlink("/proc/self/ns/pid", space + 1, sizeof space - 3);

    (void)!gethostname(host, sizeof host - 1);
    snprintf(space + 1 + (got > 0 ? got : 0), 2, "/");
    facts->pid = run->pid;
    facts->running = strcmp(run->status, "running") == 0;
    facts->here = run->host && run->boot && strcmp(run->host, host) == 0 &&
                  strstr(run->boot, space) != NULL && run->pid > 1;
    return FAST_OK;
}

/* The handle of a running run's process, or -1 and the request was answered. */
static int find_process(fast_server *server, fast_http_request *request, int64_t run)
{
    run_facts facts = { 0, false, false };
    fast_err err = fast_store_find(server->store, run, read_facts, &facts);
    int fd = -1;

    if (!err && facts.running && facts.here) {
        /* The row is read again with the handle open: a run that still runs now has the process
         * that the handle stands for. */
        fd = (int)syscall(SYS_pidfd_open, (pid_t)facts.pid, 0);
        err = fast_store_find(server->store, run, read_facts, &facts);
    }
    if (err)
        fast__reply_err(request, err);
    else if (!facts.running)
        fast__reply_error(request, 409, "run %lld does not run any more", (long long)run);
    else if (!facts.here)
        fast__reply_error(request, 409, "run %lld is not a run of this machine", (long long)run);
    else if (fd < 0)
        fast__reply_error(request, 409, "the process of run %lld cannot be opened: %s",
                          (long long)run, strerror(errno));
    else
        return fd;
    if (fd >= 0)
        close(fd);
    return -1;
}

/* Send a signal to the process behind a pidfd, which is never another process with the same
 * number. */
static bool send_signal(int fd, int number)
{
    return syscall(SYS_pidfd_send_signal, fd, number, NULL, 0) == 0;
}

/* POST /api/runs/#/stop. The first request sends SIGINT and remembers the process, so that
 * fast__halt_tick() can send SIGTERM later; a second request sends SIGTERM at once. */
void fast__serve_stop(fast_server *server, fast_http_request *request, int64_t id)
{
    serve_halt *halt = NULL;
    json_t *answer;
    bool again = false;
    int fd;

    for (int i = 0; i < SERVE_HALTS_MAX; i++) {
        if (server->halts[i].run == id)
            again = true;
        if (server->halts[i].run == id || (!halt && server->halts[i].run == 0))
            halt = &server->halts[i];
    }
    fd = find_process(server, request, id);
    if (fd < 0)
        return;
    if (!send_signal(fd, again ? SIGTERM : SIGINT)) {
        fast__reply_error(request, 409, "run %lld cannot be told to stop: %s", (long long)id,
                          strerror(errno));
        close(fd);
        return;
    }
    /* Without a free place the run was told once, and nobody presses it later. */
    if (halt && !again)
        *halt = (serve_halt){ .run = id, .fd = fd, .since = server->ticked };
    else
        close(fd);
    answer = json_object();
    fast__json_set(&answer, "stopping", json_integer(id));
    fast__reply_json(request, 202, &answer);
}

/* Look at the processes that were told to stop: forget those that ended, and press those that did
 * not in time. */
void fast__halt_tick(fast_server *server, int64_t now)
{
    for (int i = 0; i < SERVE_HALTS_MAX; i++) {
        serve_halt *halt = &server->halts[i];
        struct pollfd ended = { .fd = halt->fd, .events = POLLIN };

        if (halt->run == 0)
            continue;
        if (poll(&ended, 1, 0) == 0) {
            if (now - halt->since < patience_ns)
                continue;
            (void)!send_signal(halt->fd, SIGTERM);
        }
        close(halt->fd);
        halt->run = 0;
    }
}

void fast__halt_fini(fast_server *server)
{
    for (int i = 0; i < SERVE_HALTS_MAX; i++)
        if (server->halts[i].run > 0)
            close(server->halts[i].fd);
}
