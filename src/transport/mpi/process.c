/* SPDX-License-Identifier: Apache-2.0 */
/*
 * MPI in this process: it is initialised at the first world, unless the program has done so, and
 * finalised when the process exits if it was initialised here. MPI can be initialised only once, so
 * this is the one place with state that outlives a world; a mutex guards it.
 *
 * A rank that exits in the middle of a run, or after a run that left something in MPI (a collective
 * that never ended, a peer that never came or never sent its last packet), aborts the job:
 * MPI_Finalize() would wait for the other ranks for ever, and they for it.
 */
#include "transport/mpi/process.h"

#include "base/clock.h"
#include "base/memory.h"
#include "base/thread.h"

#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { RETAINED_MAX = 64 };

static struct {
    pthread_mutex_t mutex; /* guards all fields */
    bool begun;            /* `process` is filled */
    bool ours;             /* MPI was initialised here */
    pid_t pid;             /* process that initialised it: a forked child must not finalise */
    int worlds;            /* number of open worlds */
    bool unclean;          /* a world left something in MPI */
    int64_t patience_ns;   /* time that an exit with `unclean` leaves to other ranks */
    bool missed;           /* a rank did not come to the last world */
    int retained_count;    /* pointers in retained */
    void *retained[RETAINED_MAX]; /* memory that MPI may still use: referenced, so no leak */
    fast_mpi_process process;     /* constant once initialised */
} state = { .mutex = PTHREAD_MUTEX_INITIALIZER };

enum {
    YIELD_NS = 200 * 1000,       /* a wait yields this long before it sleeps */
    SLEEP_NS_MIN = 20 * 1000,    /* shorter sleeps cost more than they last */
    SLEEP_NS_MAX = 500 * 1000,   /* longest time that a message waits for a sleeping actor */
    LATE_NS = 100 * 1000 * 1000, /* a look at the clock so late is a standstill */
};

int64_t fast__mpi_pause(fast_mpi_pause *pause, int64_t now)
{
    if (pause->since == 0)
        pause->since = now;
    const int64_t waited = now - pause->since;
    if (waited < pause->spin_ns)
        return 0;
    if (pause->rung)
        return SLEEP_NS_MAX;
    if (waited < pause->spin_ns + YIELD_NS) {
        sched_yield();
        return 0;
    }
    const int64_t sleep = waited / 8;
    return sleep < SLEEP_NS_MIN ? SLEEP_NS_MIN : sleep > SLEEP_NS_MAX ? SLEEP_NS_MAX : sleep;
}

fast_err fast__mpi_check(int code, const char *doing)
{
    if (code == MPI_SUCCESS)
        return FAST_OK;
    char text[MPI_MAX_ERROR_STRING] = "";
    int length = 0;
    MPI_Error_string(code, text, &length);
    return fast__fail(FAST_EPEER, "mpi: %s failed: %s", doing, text);
}

fast_err fast__mpi_await(MPI_Request *request, int64_t until, const char *doing)
{
    fast_mpi_pause pause = { 0 };
    int64_t looked = fast__clock_ns();
    for (;;) {
        int done = 0;
        FAST_TRY(fast__mpi_check(MPI_Test(request, &done, MPI_STATUS_IGNORE), doing));
        if (done)
            return FAST_OK;
        const int64_t now = fast__clock_ns();
        if (now - looked > LATE_NS) /* the process stood still, and maybe the others too */
            until += now - looked;
        looked = now;
        if (now >= until)
            return fast__fail(FAST_ETIMEDOUT, "mpi: %s took too long: a rank does not answer",
                              doing);
        const int64_t sleep = fast__mpi_pause(&pause, now);
        if (sleep)
            nanosleep(&(struct timespec){ .tv_nsec = sleep }, NULL);
    }
}

/* Finalise MPI or abort the job: the exit handler. */
static void finish(int status, void *ctx)
{
    int over = 0;
    (void)ctx;
    MPI_Finalized(&over);
    if (over || getpid() != state.pid)
        return;
    if (state.worlds == 0 && state.patience_ns > 0)
        nanosleep(&(struct timespec){ .tv_sec = (time_t)(state.patience_ns / 1000000000),
                                      .tv_nsec = (long)(state.patience_ns % 1000000000) },
                  NULL);
    if (state.worlds > 0 || state.unclean || state.missed)
        MPI_Abort(MPI_COMM_WORLD, state.worlds > 0 ? EXIT_FAILURE : status);
    else if (state.ours)
        MPI_Finalize();
}

/* FAST_ENOTSUP if the calling thread may not call MPI. */
static fast_err level_check(int level)
{
    int main_thread = 0;
    MPI_Is_thread_main(&main_thread);
    if (level < MPI_THREAD_SERIALIZED && !main_thread)
        return fast__fail(FAST_ENOTSUP, "mpi: MPI was initialised for its main thread alone, and "
                                        "this is another; use MPI_THREAD_SERIALIZED");
    return FAST_OK;
}

/* Tell all ranks the name of this machine, for errors that name a rank. The names last as long as
 * the process. */
static fast_err hosts_gather(fast_mpi_process *process, int64_t until)
{
    char name[FAST_MPI_HOST_MAX] = "";
    MPI_Request request = MPI_REQUEST_NULL;
    FAST_TRY(fast__alloc("names of machines", process->ranks, sizeof name, &process->hosts));
    if (gethostname(name, sizeof name - 1))
        name[0] = '?';
    FAST_TRY(fast__mpi_check(MPI_Iallgather(name, sizeof name, MPI_CHAR, process->hosts,
                                            sizeof name, MPI_CHAR, process->base, &request),
                             "the start"));
    return fast__mpi_await(&request, until, "the start");
}

/* Tell all ranks how to reach this one's bell, and map those of this machine. */
static fast_err bells_gather(fast_mpi_process *process, int64_t until)
{
    MPI_Request request = MPI_REQUEST_NULL;
    fast_bell_card mine, *cards = NULL;
    FAST_TRY(fast__bells_new(process->ranks, &mine, &process->bells));
    FAST_TRY(fast__alloc("bells", process->ranks, sizeof *cards, &cards));
    fast_err err = fast__mpi_check(MPI_Iallgather(&mine, sizeof mine, MPI_BYTE, cards, sizeof mine,
                                                  MPI_BYTE, process->base, &request),
                                   "the start");
    if (!err)
        err = fast__mpi_await(&request, until, "the start");
    if (err) {
        fast__mpi_retain(cards); /* MPI may still write to it */
        return err;
    }
    for (int i = 0; i < process->ranks; i++)
        if (strcmp(process->hosts[i], process->hosts[process->rank]) == 0)
            fast__bells_add(process->bells, i, &cards[i]);
    fast__free(cards);
    return FAST_OK;
}

/* Make a communicator for FAST alone, and count the ranks of this machine by its name: MPI's own
 * way, MPI_Comm_split_type(), has no deadline. */
static fast_err communicator_make(fast_mpi_process *process, int64_t until)
{
    MPI_Request request = MPI_REQUEST_NULL;
    FAST_TRY(fast__mpi_check(MPI_Comm_idup(MPI_COMM_WORLD, &process->base, &request), "the start"));
    FAST_TRY(fast__mpi_await(&request, until, "the start"));
    MPI_Comm_set_errhandler(process->base, MPI_ERRORS_RETURN);
    MPI_Comm_rank(process->base, &process->rank);
    MPI_Comm_size(process->base, &process->ranks);
    FAST_TRY(hosts_gather(process, until));
    for (int i = 0; i < process->ranks; i++)
        process->beside += strcmp(process->hosts[i], process->hosts[process->rank]) == 0;
    return bells_gather(process, until);
}

/* Set Open MPI's limits, unless the user or mpirun has set them. Eager messages over TCP: its own
 * 64 KiB make a longer message wait for a round trip before most of its bytes leave, which doubles
 * a step on links with a latency; the gradient of a small model fits into 1 MiB. Pieces under way
 * of a message: its own 3 make a message through shared memory wait for its receiver every 96 KiB,
 * and that one may have no processor just then.
 * Other implementations of MPI do not read these variables. */
static void settings_prefer(void)
{
    static const char *const settings[][2] = {
        { "OMPI_MCA_btl_tcp_eager_limit", "1048576" },
        { "OMPI_MCA_btl_tcp_rndv_eager_limit", "1048576" },
        { "OMPI_MCA_btl_tcp_max_send_size", "1048576" },
        { "OMPI_MCA_pml_ob1_send_pipeline_depth", "64" },
    };

    for (size_t i = 0; i < sizeof settings / sizeof settings[0]; i++)
        setenv(settings[i][0], settings[i][1], 0);
}

/* Initialise MPI if needed and fill state.process. The mutex is held. After a failure other ranks
 * may wait for this one in MPI, or never come: the exit aborts the job. */
static fast_err process_begin(int64_t patience_ns)
{
    int begun = 0;
    int over = 0;
    MPI_Initialized(&begun);
    MPI_Finalized(&over);
    if (over)
        return fast__fail(FAST_ENOTSUP, "mpi: MPI was finalised already; run the actors before it");
    if (!begun) {
        int level = 0;
        settings_prefer();
        FAST_TRY(fast__mpi_check(MPI_Init_thread(NULL, NULL, MPI_THREAD_SERIALIZED, &level),
                                 "MPI_Init_thread"));
        state.ours = true;
    }
    if (state.pid == 0) {
        state.pid = getpid();
        if (on_exit(finish, NULL))
            return fast__fail(FAST_ENOMEM, "mpi: no room for an exit handler");
    }
    fast_mpi_process process = { .cores = (int)fast__cpu_count() };
    process.bound = process.cores < sysconf(_SC_NPROCESSORS_ONLN);
    MPI_Query_thread(&process.level);
    FAST_TRY(level_check(process.level));
    state.unclean = true;
    FAST_TRY(communicator_make(&process, fast__clock_ns() + patience_ns));
    state.unclean = false;
    state.process = process;
    state.begun = true;
    return FAST_OK;
}

fast_err fast__mpi_begin(int64_t patience_ns, const fast_mpi_process **out)
{
    pthread_mutex_lock(&state.mutex);
    const fast_err err =
        state.begun ? level_check(state.process.level) : process_begin(patience_ns);
    pthread_mutex_unlock(&state.mutex);
    if (!err)
        *out = &state.process;
    return err;
}

void fast__mpi_retain(void *memory)
{
    pthread_mutex_lock(&state.mutex);
    if (state.retained_count < RETAINED_MAX)
        state.retained[state.retained_count++] = memory;
    pthread_mutex_unlock(&state.mutex);
}

void fast__mpi_enter(void)
{
    pthread_mutex_lock(&state.mutex);
    state.worlds++;
    state.missed = false;
    pthread_mutex_unlock(&state.mutex);
}

void fast__mpi_missed(void)
{
    pthread_mutex_lock(&state.mutex);
    state.missed = true;
    pthread_mutex_unlock(&state.mutex);
}

void fast__mpi_leave(bool clean, int64_t patience_ns)
{
    pthread_mutex_lock(&state.mutex);
    FAST_ASSERT(state.worlds > 0);
    state.worlds--;
    state.unclean = state.unclean || !clean;
    if (patience_ns > state.patience_ns)
        state.patience_ns = patience_ns;
    pthread_mutex_unlock(&state.mutex);
}
