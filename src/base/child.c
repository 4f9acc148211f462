/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Child processes, by fork and exec.
 *
 * Between fork and exec only async-signal-safe functions are called, so that a program with threads
 * may start children. A third pipe that closes at exec reports errno if exec fails: "no such
 * program" is an error of the start, not an exit code to guess from. close_range() marks every
 * descriptor above the standard three, also those of libraries, to be closed at exec.
 *
 * Pipes are read without blocking, after poll. A child has ended when waitpid says so; the lines it
 * wrote before are still in its pipes and are read first. A grandchild may hold a pipe open for
 * ever, hence the end of the pipes is not awaited: after the child's end they are read until they
 * are empty.
 *
 * Cost: one read for up to 64 KiB of lines; memory for the longest line so far, at most line_max.
 */
#include "base/child.h"

#include "base/clock.h"
#include "base/memory.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

/* SLICE_NS: interval of waitpid calls, because no descriptor of ours signals a child's end. */
enum { STREAMS = 2, BUFFER_MIN = 4096, LINE_MAX_STANDARD = 1 << 20, SLICE_NS = 20000000 };
enum { CHILDREN_MAX = 256 };

/* One pipe of a child, and the bytes that were read but not yet delivered. */
typedef struct child_stream {
    int fd;       /* -1: closed */
    char *bytes;  /* `size` bytes and a terminating zero */
    size_t size;  /* bytes of the buffer */
    size_t begin; /* first byte that was not yet delivered */
    size_t end;   /* first byte that was not yet read */
    size_t seen;  /* bytes up to here hold no line feed */
    bool skips;   /* the rest of a line that was too long is being discarded */
} child_stream;

struct fast_child {
    int input;                     /* its standard input; -1: empty */
    pid_t pid;                     /* process id, and id of its process group */
    bool reaped;                   /* waitpid returned its status */
    bool told;                     /* the end was delivered */
    int status;                    /* as waitpid gives it */
    size_t line_max;               /* bytes after which a line is cut */
    child_stream streams[STREAMS]; /* standard output, standard error */
    int first;                     /* the stream that is asked first */
};

/* Close a descriptor once. */
static void close_fd(int *fd)
{
    if (*fd >= 0)
        close(*fd);
    *fd = -1;
}

/* In the child: become the program. Never returns; a failure is reported as errno through
 * `report`. */
static _Noreturn void become(const fast_child_options *options, const int out[STREAMS], int report,
                             int in, pid_t parent)
{
    sigset_t none;

    sigemptyset(&none);
    signal(SIGPIPE, SIG_DFL);
    sigprocmask(SIG_SETMASK, &none, NULL);
    setpgid(0, 0);
    if (!options->stays) {
        prctl(PR_SET_PDEATHSIG, SIGTERM);
        if (getppid() != parent) /* it died before the line above */
            _exit(127);
    }
    if (in < 0)
        in = open("/dev/null", O_RDONLY);
    if (in >= 0 && dup2(in, 0) >= 0 && dup2(out[0], 1) >= 0 && dup2(out[1], 2) >= 0) {
        close_range(3, ~0U, CLOSE_RANGE_CLOEXEC);
        execvp(options->argv[0], (char *const *)options->argv);
    }
    const int reason = errno;
    if (write(report, &reason, sizeof reason) < 0)
        _exit(126);
    _exit(127);
}

/* Open a pipe whose ends both have numbers above 2: dup2 in the child would close smaller ones. */
static bool open_pipe(int ends[2])
{
    int low[2];

    if (pipe2(low, O_CLOEXEC) != 0)
        return false;
    for (int i = 0; i < 2; i++) {
        ends[i] = low[i] > 2 ? low[i] : fcntl(low[i], F_DUPFD_CLOEXEC, 3);
        if (ends[i] != low[i])
            close(low[i]);
    }
    if (ends[0] >= 0 && ends[1] >= 0)
        return true;
    close_fd(&ends[0]);
    close_fd(&ends[1]);
    return false;
}

/* Fork and exec, and wait until exec succeeded or failed. `in` is the standard input; -1: empty.
 * Returns 0, or errno. */
static int spawn(fast_child *child, const fast_child_options *options, int pipes[STREAMS + 1][2],
                 int in)
{
    const int out[STREAMS] = { pipes[0][1], pipes[1][1] };
    const pid_t parent = getpid();
    int reason = 0;
    ssize_t got;

    child->pid = fork();
    if (child->pid < 0)
        return errno;
    if (child->pid == 0)
        become(options, out, pipes[STREAMS][1], in, parent);
    setpgid(child->pid,
            child->pid); /* in both processes, so that neither has to wait for the other */
    for (int i = 0; i <= STREAMS; i++)
        close_fd(&pipes[i][1]);
    do
        got = read(pipes[STREAMS][0], &reason, sizeof reason);
    while (got < 0 && errno == EINTR);
    if (got == 0)
        return 0; /* closed by exec */
    while (waitpid(child->pid, &child->status, 0) < 0 && errno == EINTR)
        ;
    return got == (ssize_t)sizeof reason && reason ? reason : EIO;
}

fast_err fast__child_start(const fast_child_options *options, fast_child **out)
{
    int pipes[STREAMS + 1][2] = { { -1, -1 }, { -1, -1 }, { -1, -1 } }, in[2] = { -1, -1 };
    fast_child *child;
    int reason = 0;

    FAST_ASSERT(options->argv && options->argv[0]);
    FAST_TRY(fast__alloc("child process", 1, sizeof *child, &child));
    child->line_max = options->line_max > 0 ? (size_t)options->line_max : LINE_MAX_STANDARD;
    for (int i = 0; i <= STREAMS && !reason; i++)
        if (!open_pipe(pipes[i]))
            reason = errno;
    if (!reason && options->input && socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, in) != 0)
        reason = errno;
    if (!reason)
        reason = spawn(child, options, pipes, in[0]);
    close_fd(&in[0]);
    child->input = in[1];
    for (int i = 0; i <= STREAMS; i++)
        close_fd(&pipes[i][1]);
    close_fd(&pipes[STREAMS][0]);
    for (int i = 0; i < STREAMS; i++) {
        child->streams[i].fd = pipes[i][0];
        if (pipes[i][0] >= 0)
            fcntl(pipes[i][0], F_SETFL, O_NONBLOCK);
    }
    if (reason) {
        child->reaped = true;
        fast__child_free(child);
        return fast__fail(reason == ENOENT ? FAST_ENOENT : FAST_EIO, "cannot start %s: %s",
                          options->argv[0], strerror(reason));
    }
    *out = child;
    return FAST_OK;
}

/* Make room behind `end` for at least one byte; a line of line_max bytes always fits. */
static fast_err make_room(child_stream *s, size_t line_max)
{
    size_t size = s->size ? 2 * s->size : BUFFER_MIN;
    char *bytes;

    if (s->begin > 0) {
        memmove(s->bytes, s->bytes + s->begin, s->end - s->begin);
        s->end -= s->begin;
        s->seen -= s->begin;
        s->begin = 0;
    }
    if (s->end < s->size)
        return FAST_OK;
    if (size > line_max + 1)
        size = line_max + 1;
    FAST_ASSERT(size > s->size);
    FAST_TRY(fast__alloc("line of a child process", (int64_t)size + 1, 1, &bytes));
    if (s->end > 0)
        memcpy(bytes, s->bytes, s->end);
    fast__free(s->bytes);
    s->bytes = bytes;
    s->size = size;
    return FAST_OK;
}

/* Deliver the text from `begin` to `end` as a line, and continue at `next`. */
static void give_line(child_stream *s, size_t end, size_t next, fast_child_event *event)
{
    s->bytes[end] = '\0';
    event->line = s->bytes + s->begin;
    s->begin = next;
    s->seen = next;
}

/* Deliver a line that is already in the buffer; returns false if it holds no whole line. */
static bool take_line(child_stream *s, size_t line_max, fast_child_event *event)
{
    while (s->begin < s->end) {
        char *feed = memchr(s->bytes + s->seen, '\n', s->end - s->seen);
        const size_t stop = feed ? (size_t)(feed - s->bytes) : s->end;
        const bool was_skipping = s->skips;

        s->seen = stop;
        if (!feed && !s->skips && stop - s->begin <= line_max)
            return false;
        s->skips = !feed;
        if (was_skipping) {
            s->begin = s->seen = feed ? stop + 1 : s->end;
            continue;
        }
        event->cut = !feed;
        give_line(s, feed ? stop : s->begin + line_max, feed ? stop + 1 : s->end, event);
        return true;
    }
    s->begin = s->end = s->seen = 0;
    return false;
}

/* Read once without blocking. *more_out tells whether bytes arrived. */
static fast_err fill(fast_child *child, child_stream *s, bool *more_out)
{
    ssize_t got;

    *more_out = false;
    if (s->fd < 0)
        return FAST_OK;
    FAST_TRY(make_room(s, child->line_max));
    got = read(s->fd, s->bytes + s->end, s->size - s->end);
    if (got > 0) {
        s->end += (size_t)got;
        *more_out = true;
    } else if (got == 0 || (errno != EAGAIN && errno != EINTR)) {
        close_fd(&s->fd);
    }
    return FAST_OK;
}

/* Fetch the child's status if it has ended. */
static void reap(fast_child *child)
{
    if (!child->reaped && waitpid(child->pid, &child->status, WNOHANG) == child->pid)
        child->reaped = true;
}

/* Deliver the next event of one child without waiting; *found_out tells whether there is one. */
static fast_err look(fast_child *child, fast_child_event *event, bool *found_out)
{
    *event = (fast_child_event){ .line = "" };
    *found_out = true;
    reap(child); /* first: all output from before the end is then in the pipes */
    for (int k = 0; k < STREAMS; k++) {
        const int i = (child->first + k) % STREAMS;
        child_stream *s = &child->streams[i];
        bool more = true;

        while (more) {
            if (take_line(s, child->line_max, event)) {
                event->kind = i == 0 ? FAST_CHILD_OUT : FAST_CHILD_ERR;
                child->first = (i + 1) % STREAMS;
                return FAST_OK;
            }
            FAST_TRY(fill(child, s, &more));
        }
        if (s->begin < s->end && (s->fd < 0 || child->reaped)) { /* no line feed will come */
            event->kind = i == 0 ? FAST_CHILD_OUT : FAST_CHILD_ERR;
            give_line(s, s->end, s->end, event);
            return FAST_OK;
        }
    }
    if (child->reaped) {
        close_fd(&child->streams[0].fd);
        close_fd(&child->streams[1].fd);
        child->told = true;
        event->kind = FAST_CHILD_END;
        event->code = WIFEXITED(child->status) ? WEXITSTATUS(child->status) : -1;
        event->signal = WIFSIGNALED(child->status) ? WTERMSIG(child->status) : 0;
        return FAST_OK;
    }
    *found_out = false;
    return FAST_OK;
}

/* Sleep until something can be read, at most `wait_ns`; false if a signal arrived. */
static bool sleep_on(fast_child *const *children, int64_t count, int64_t wait_ns)
{
    struct pollfd polls[CHILDREN_MAX * STREAMS];
    nfds_t used = 0;

    for (int64_t i = 0; i < count; i++)
        for (int k = 0; children[i] && !children[i]->told && k < STREAMS; k++)
            if (children[i]->streams[k].fd >= 0)
                polls[used++] = (struct pollfd){ children[i]->streams[k].fd, POLLIN, 0 };
    if (wait_ns > SLICE_NS)
        wait_ns = SLICE_NS;
    const struct timespec time = { 0, wait_ns > 0 ? wait_ns : 0 };
    return ppoll(polls, used, &time, NULL) >= 0 || errno != EINTR;
}

fast_err fast__child_next(fast_child *const *children, int64_t count, int64_t wait_ns,
                          int64_t *which, fast_child_event *event_out)
{
    const int64_t until = fast__clock_ns() + wait_ns;
    bool found = false;

    FAST_ASSERT(count >= 0 && count <= CHILDREN_MAX);
    for (;;) {
        /* The child that the last call answered is asked last. */
        const int64_t first = *which >= 0 && *which < count ? *which + 1 : 0;
        int64_t alive = 0;

        for (int64_t k = 0; k < count; k++) {
            const int64_t i = (first + k) % count;

            if (!children[i] || children[i]->told)
                continue;
            alive++;
            FAST_TRY(look(children[i], event_out, &found));
            if (found) {
                *which = i;
                return FAST_OK;
            }
        }
        if (alive == 0)
            return fast__fail(FAST_EINVAL, "no child process is left to wait for");
        const int64_t left = until - fast__clock_ns();
        if (left <= 0 || !sleep_on(children, count, left))
            return fast__fail(FAST_ETIMEDOUT, "no child process said anything in time");
    }
}

/* Send a signal to the child's process group, if the child still runs. */
static void send_signal(fast_child *child, int number)
{
    if (child->reaped)
        return;
    reap(child);
    if (!child->reaped) /* the group exists as long as the child is not reaped */
        kill(-child->pid, number);
}

void fast__child_terminate(fast_child *child)
{
    send_signal(child, SIGTERM);
}

void fast__child_kill(fast_child *child)
{
    send_signal(child, SIGKILL);
}

void fast__child_answer(fast_child *child)
{
    /* A socket, and not a pipe: a child that does not read any more raises no signal here. */
    if (child->input >= 0 && send(child->input, "\n", 1, MSG_NOSIGNAL | MSG_DONTWAIT) < 0)
        close_fd(&child->input);
}

void fast__child_end_input(fast_child *child)
{
    close_fd(&child->input);
}

void fast__child_stop(fast_child *child, int64_t wait_ns)
{
    const int64_t until = fast__clock_ns() + wait_ns;
    fast_child_event event = { .kind = FAST_CHILD_OUT };
    int64_t which = 0;

    fast__child_terminate(child);
    while (!child->told) {
        const int64_t left = until - fast__clock_ns();
        const fast_err err = fast__child_next(&child, 1, left, &which, &event);

        if (left <= 0 || (err && err != FAST_ETIMEDOUT))
            break;
    }
    if (child->reaped)
        return;
    fast__child_kill(child);
    while (!child->reaped && waitpid(child->pid, &child->status, 0) < 0 && errno == EINTR)
        ;
    child->reaped = true;
}

int64_t fast__child_pid(const fast_child *child)
{
    return child->pid;
}

void fast__child_free(fast_child *child)
{
    if (!child)
        return;
    if (!child->reaped)
        fast__child_stop(child, 0);
    close_fd(&child->input);
    for (int i = 0; i < STREAMS; i++) {
        close_fd(&child->streams[i].fd);
        fast__free(child->streams[i].bytes);
    }
    fast__free(child);
}
