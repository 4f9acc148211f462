/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Collectives of MPI for groups whose members live on as many ranks.
 *
 * MPI_Comm_create_group() blocks until every member calls it, so no member calls it before all are
 * ready: each member sends FAST_WIRE_READY to rank 0, and rank 0 sends FAST_WIRE_GO to all. Since
 * one rank decides, all ranks make their communicators in one order, and two teams that overlap
 * cannot deadlock. A member whose wait failed meanwhile calls it too, so that no member waits for
 * it.
 *
 * A vector is summed in chunks: copied into one of two buffers, reduced there by MPI_Iallreduce(),
 * copied back, so that copying one overlaps with reducing the other. A wait of a member ends at its
 * deadline; the buffer stays with MPI, the team is broken, and the process aborts the job when it
 * exits, since MPI could not be finalised.
 */
#include "transport/mpi/mpi_collective.h"

#include "base/memory.h"
#include "transport/peers.h"

#include <pthread.h>
#include <string.h>

/* Time to wait for a member that has ended: its last messages may still arrive. */
#define PATIENCE_NS ((int64_t)1000 * 1000 * 1000)

enum {
    TEAMS_MAX = 1024,         /* teams of a world */
    CHUNK_FLOATS = 64 * 1024, /* floats of a buffer: 256 KiB was the fastest up to 4 MiB */
    COMM_TAG_FIRST = 16,      /* first tag of MPI for making communicators */
    COMM_TAGS = 16384,        /* number of these tags: keys are hashed to them */
    CHUNKS = 2
};

/* State of a chunk: the actor writes FREE and ASKED, the port's thread RUNNING and DONE. */
enum {
    CHUNK_FREE,    /* the actor may fill it */
    CHUNK_ASKED,   /* the port's thread may start it */
    CHUNK_RUNNING, /* MPI uses it */
    CHUNK_DONE     /* the actor may copy the result */
};

typedef struct mpi_chunk {
    atomic_int state;    /* decides which thread may use the other fields */
    bool barrier;        /* a barrier: no floats */
    int count;           /* floats in x */
    float *x;            /* [CHUNK_FLOATS], allocated at the first use */
    MPI_Request request; /* active while RUNNING */
} mpi_chunk;

/* State of a team. */
enum {
    TEAM_NEW,    /* no call on this rank yet */
    TEAM_WANTED, /* an actor called: FAST_WIRE_READY is to be sent */
    TEAM_TOLD,   /* FAST_WIRE_READY was sent */
    TEAM_MADE,   /* the communicator exists */
    TEAM_BROKEN  /* a wait failed: no collective is possible any more */
};

typedef struct mpi_team {
    struct mpi_team *next;    /* the team made before */
    uint64_t key;             /* key of the group */
    int64_t actor;            /* the member of this rank; -1: it has not called yet */
    int64_t count;            /* number of members */
    int *ranks;               /* of the members, in their order; NULL: no call yet */
    int64_t ready_count;      /* rank 0: number of members that are ready */
    int *ready;               /* rank 0: ranks of the members that are ready */
    atomic_int state;         /* TEAM_... */
    bool broken;              /* a wait of the member of this rank failed */
    bool going;               /* comm is valid */
    MPI_Comm comm;            /* valid if `going` */
    uint64_t asked;           /* requested chunks: chunk i is chunks[i % CHUNKS]; actor only */
    uint64_t begun;           /* chunks that MPI was given, in one order at all members */
    mpi_chunk chunks[CHUNKS]; /* buffers */
} mpi_team;

struct fast_mpi_teams {
    pthread_mutex_t mutex; /* guards the list and the fields of teams that are not atomic */
    mpi_team *first;       /* the newest team */
    int count;             /* number of teams */
    atomic_bool asked;     /* there is a request for the port's thread */
};

fast_err fast__mpi_teams_new(fast_port *port)
{
    FAST_TRY(fast__alloc("native collectives", 1, sizeof *port->teams, &port->teams));
    pthread_mutex_init(&port->teams->mutex, NULL);
    return FAST_OK;
}

bool fast__mpi_teams_free(fast_port *port)
{
    struct fast_mpi_teams *teams = port->teams;
    for (mpi_team *t = teams->first; t; t = t->next)
        for (int i = 0; i < CHUNKS; i++)
            if (atomic_load(&t->chunks[i].state) == CHUNK_RUNNING)
                return false;
    while (teams->first) {
        mpi_team *t = teams->first;
        teams->first = t->next;
        if (t->going)
            MPI_Comm_free(&t->comm);
        for (int i = 0; i < CHUNKS; i++)
            fast__free(t->chunks[i].x);
        fast__free(t->ranks);
        fast__free(t->ready);
        fast__free(t);
    }
    pthread_mutex_destroy(&teams->mutex);
    fast__free(teams);
    return true;
}

/* Return the team of a key, made at its first use. The mutex is held. FAST_ENOTSUP, FAST_ENOMEM. */
static fast_err team_find(fast_port *port, uint64_t key, mpi_team **out)
{
    struct fast_mpi_teams *teams = port->teams;
    mpi_team *t = teams->first;
    while (t && t->key != key)
        t = t->next;
    if (!t) {
        if (teams->count == TEAMS_MAX)
            return fast__fail(FAST_ENOTSUP, "native: more than %d groups in one run", TEAMS_MAX);
        FAST_TRY(fast__alloc("a native collective", 1, sizeof *t, &t));
        t->key = key;
        t->actor = -1;
        t->next = teams->first;
        teams->first = t;
        teams->count++;
    }
    *out = t;
    return FAST_OK;
}

/* Make the communicator of a team; blocks until every member does. */
static fast_err team_make(fast_port *port, mpi_team *t)
{
    MPI_Group all = MPI_GROUP_NULL;
    MPI_Group group = MPI_GROUP_NULL;
    FAST_ASSERT(t->ranks != NULL && !t->going);
    MPI_Comm_group(port->comm, &all);
    MPI_Group_incl(all, (int)t->count, t->ranks, &group);
    const int code = MPI_Comm_create_group(port->comm, group,
                                           COMM_TAG_FIRST + (int)(t->key % COMM_TAGS), &t->comm);
    MPI_Group_free(&group);
    MPI_Group_free(&all);
    FAST_TRY(fast__mpi_check(code, "MPI_Comm_create_group"));
    MPI_Comm_set_errhandler(t->comm, MPI_ERRORS_RETURN);
    t->going = true;
    atomic_store(&t->state, t->broken ? TEAM_BROKEN : TEAM_MADE);
    if (port->wake)
        port->wake(port->ctx, t->actor);
    return FAST_OK;
}

/* Rank 0: note that the member on `rank` is ready; after the last one, send FAST_WIRE_GO to all.
 * The mutex is held. FAST_EFORMAT. */
static fast_err team_count(fast_port *port, mpi_team *t, int rank, int64_t count)
{
    if (count < 2 || count > port->process->ranks || (t->ready && t->ready_count >= count) ||
        (t->ranks && t->count != count))
        return fast__fail(FAST_EFORMAT, "rank %d has a native group of %lld members that differs",
                          rank, (long long)count);
    if (!t->ready)
        FAST_TRY(fast__alloc("ranks of a group", count, sizeof *t->ready, &t->ready));
    for (int64_t i = 0; i < t->ready_count; i++)
        if (t->ready[i] == rank)
            return fast__fail(FAST_EFORMAT, "rank %d is twice in a native group", rank);
    t->ready[t->ready_count++] = rank;
    if (t->ready_count < count)
        return FAST_OK;
    bool here = false;
    for (int64_t i = 0; i < count; i++) {
        here = here || t->ready[i] == port->process->rank;
        if (t->ready[i] != port->process->rank)
            fast__port_tell(port, t->ready[i], FAST_WIRE_GO, (int64_t)t->key, 0);
    }
    return here ? team_make(port, t) : FAST_OK;
}

fast_err fast__mpi_team_ready(fast_port *port, int rank, uint64_t key, int64_t count)
{
    mpi_team *t = NULL;
    pthread_mutex_lock(&port->teams->mutex);
    fast_err err = team_find(port, key, &t);
    if (!err)
        err = team_count(port, t, rank, count);
    pthread_mutex_unlock(&port->teams->mutex);
    return err;
}

fast_err fast__mpi_team_go(fast_port *port, int rank, uint64_t key)
{
    mpi_team *t = NULL;
    pthread_mutex_lock(&port->teams->mutex);
    fast_err err = team_find(port, key, &t);
    if (!err && (rank != 0 || !t->ranks || t->going))
        err = fast__fail(FAST_EFORMAT, "rank %d starts a native group that nobody asked for", rank);
    if (!err)
        err = team_make(port, t);
    pthread_mutex_unlock(&port->teams->mutex);
    return err;
}

/* Start the requested chunks in their order. */
static fast_err chunk_begin(mpi_team *t, int64_t *events)
{
    for (mpi_chunk *s = &t->chunks[t->begun % CHUNKS]; atomic_load(&s->state) == CHUNK_ASKED;
         s = &t->chunks[t->begun % CHUNKS]) {
        const int code = s->barrier ? MPI_Ibarrier(t->comm, &s->request)
                                    : MPI_Iallreduce(MPI_IN_PLACE, s->x, s->count, MPI_FLOAT,
                                                     MPI_SUM, t->comm, &s->request);
        FAST_TRY(fast__mpi_check(code, "a collective"));
        atomic_store(&s->state, CHUNK_RUNNING);
        t->begun++;
        ++*events;
    }
    return FAST_OK;
}

/* Test whether a running chunk is done. */
static fast_err chunk_end(mpi_chunk *s, int64_t *events)
{
    if (atomic_load(&s->state) != CHUNK_RUNNING)
        return FAST_OK;
    int done = 0;
    FAST_TRY(fast__mpi_check(MPI_Test(&s->request, &done, MPI_STATUS_IGNORE), "a collective"));
    if (done) {
        atomic_store(&s->state, CHUNK_DONE);
        ++*events;
    }
    return FAST_OK;
}

/* Advance the requests of a team. The mutex is held. Sets *pending_out if a chunk still runs. */
static fast_err team_advance(fast_port *port, mpi_team *t, int64_t *events, bool *pending_out)
{
    const int64_t before = *events;
    const int state = atomic_load(&t->state);
    if (state == TEAM_WANTED) {
        atomic_store(&t->state, TEAM_TOLD);
        ++*events;
        if (port->process->rank == 0)
            FAST_TRY(team_count(port, t, 0, t->count));
        else
            fast__port_tell(port, 0, FAST_WIRE_READY, (int64_t)t->key, t->count);
    }
    bool pending = false;
    if (t->going)
        FAST_TRY(chunk_begin(t, events));
    for (int i = 0; i < CHUNKS && t->going; i++) {
        FAST_TRY(chunk_end(&t->chunks[i], events));
        pending = pending || atomic_load(&t->chunks[i].state) == CHUNK_RUNNING;
    }
    if (*events > before && port->wake && t->actor >= 0)
        port->wake(port->ctx, t->actor);
    *pending_out = *pending_out || pending;
    return FAST_OK;
}

bool fast__mpi_team_is_asked(const fast_port *port)
{
    return atomic_load_explicit(&port->teams->asked, memory_order_relaxed);
}

int64_t fast__mpi_team_progress(fast_port *port)
{
    struct fast_mpi_teams *teams = port->teams;
    if (!atomic_load_explicit(&teams->asked, memory_order_acquire))
        return 0;
    int64_t events = 0;
    bool pending = false;
    pthread_mutex_lock(&teams->mutex);
    for (mpi_team *t = teams->first; t; t = t->next) {
        const fast_err err = team_advance(port, t, &events, &pending);
        if (err)
            fast__port_fail(port, err);
    }
    if (!pending)
        atomic_store(&teams->asked, false);
    pthread_mutex_unlock(&teams->mutex);
    return events;
}

/* A call of fast__mpi_native(). */
typedef struct mpi_call {
    fast_port *port;                   /* of the world */
    fast_actor *actor;                 /* the calling actor */
    const fast_native *native;         /* the request */
    void (*notify)(fast_world *world); /* tells the port's thread about a request */
    mpi_team *team;                    /* team of the group */
    fast_wait wait;                    /* of the call */
    int64_t patience;                  /* deadline for a member that has ended; 0: no member has */
} mpi_call;

/* Return the calling actor's team. FAST_ENOTSUP if two members share a rank. */
static fast_err team_join(fast_port *port, const fast_actor *actor, const fast_native *native,
                          mpi_team **out)
{
    const fast_world *world = port->world;
    mpi_team *t = NULL;
    for (int64_t i = 0; i < native->count; i++)
        for (int64_t j = 0; j < i; j++)
            if (world->places[native->ids[i]].node == world->places[native->ids[j]].node)
                return fast__fail(FAST_ENOTSUP,
                                  "native: %lld and %lld share rank %lld; MPI's collectives need a "
                                  "rank for each",
                                  (long long)native->ids[j], (long long)native->ids[i],
                                  (long long)world->places[native->ids[i]].node);
    FAST_TRY(team_find(port, native->key, &t));
    if (t->ranks) {
        *out = t;
        return t->count == native->count && t->actor == actor->id
                   ? FAST_OK
                   : fast__fail(FAST_EINVAL, "native: two groups have one key");
    }
    int *ranks = NULL;
    FAST_TRY(fast__alloc("ranks of a group", native->count, sizeof *ranks, &ranks));
    for (int64_t i = 0; i < native->count; i++)
        ranks[i] = (int)world->places[native->ids[i]].node;
    t->ranks = ranks;
    t->count = native->count;
    t->actor = actor->id;
    atomic_store(&t->state, TEAM_WANTED);
    *out = t;
    return FAST_OK;
}

/* Tell the port's thread about a request. */
static void ask(const mpi_call *c)
{
    pthread_mutex_lock(&c->port->teams->mutex);
    atomic_store(&c->port->teams->asked, true);
    pthread_mutex_unlock(&c->port->teams->mutex);
    c->notify(c->port->world);
}

/* Return a member that is down, or -1. */
static int64_t member_down(const fast_actor *actor, const fast_native *native)
{
    if (actor->mailbox.down_count == 0)
        return -1;
    for (int64_t i = 0; i < native->count; i++)
        if (fast__peer(actor, native->ids[i])->down)
            return native->ids[i];
    return -1;
}

/* Wait once; a failure breaks the team. A member that has ended may have contributed before: its
 * messages get PATIENCE_NS to arrive. */
static fast_err team_wait(mpi_call *c)
{
    fast_actor *actor = c->actor;
    const int64_t down = member_down(actor, c->native);
    const int64_t now = fast_now(actor);
    fast_err err = FAST_OK;
    if (down < 0) {
        err = fast__wait_once(actor, &c->wait);
    } else {
        c->patience = c->patience ? c->patience : now + PATIENCE_NS;
        if (now < c->patience && now < c->wait.deadline)
            err = actor->world->transport->wait(actor, c->patience);
        else
            err = fast__peers_check(actor, down);
    }
    if (!err)
        return FAST_OK;
    pthread_mutex_lock(&c->port->teams->mutex);
    c->team->broken = true;
    atomic_store(&c->team->state, TEAM_BROKEN);
    pthread_mutex_unlock(&c->port->teams->mutex);
    return err;
}

/* Copy the floats from `offset` on into a free chunk and request it. FAST_ENOMEM. */
static fast_err chunk_ask(mpi_chunk *s, const fast_native *native, int64_t offset)
{
    const int64_t left = native->size - offset;
    s->barrier = native->kind == FAST_NATIVE_BARRIER;
    s->count = s->barrier ? 0 : (int)(left < CHUNK_FLOATS ? left : CHUNK_FLOATS);
    if (!s->barrier && !s->x)
        FAST_TRY(fast__alloc("a native collective's buffer", CHUNK_FLOATS, sizeof *s->x, &s->x));
    if (!s->barrier)
        memcpy(s->x, native->x + offset, (size_t)s->count * sizeof *s->x);
    atomic_store(&s->state, CHUNK_ASKED);
    return FAST_OK;
}

/* Copy chunks in, have them reduced, copy the results back. */
static fast_err team_run(mpi_call *c)
{
    const fast_native *native = c->native;
    mpi_team *t = c->team;
    const int64_t size = native->kind == FAST_NATIVE_BARRIER ? 1 : native->size;
    int64_t begun = 0;
    int64_t ended = 0;
    uint64_t first = t->asked;
    while (ended < size) {
        mpi_chunk *s = &t->chunks[t->asked % CHUNKS];
        if (begun < size && atomic_load(&s->state) == CHUNK_FREE) {
            FAST_TRY(chunk_ask(s, native, begun));
            begun += s->barrier ? 1 : s->count;
            t->asked++;
            ask(c);
            continue;
        }
        s = &t->chunks[first % CHUNKS];
        if (atomic_load(&s->state) != CHUNK_DONE) {
            FAST_TRY(team_wait(c));
            continue;
        }
        if (!s->barrier)
            memcpy(native->x + ended, s->x, (size_t)s->count * sizeof *s->x);
        ended += s->barrier ? 1 : s->count;
        atomic_store(&s->state, CHUNK_FREE);
        first++;
    }
    return FAST_OK;
}

fast_err fast__mpi_native(fast_port *port, fast_actor *actor, const fast_native *native,
                          void (*notify)(fast_world *world))
{
    FAST_ASSERT(native->count > 0 && native->size >= 0);
    if (native->kind == FAST_NATIVE_ALLREDUCE && !native->x)
        return fast__fail(FAST_ENOTSUP, "native: a vector without values is for simulation");
    if (native->count == 1)
        return FAST_OK;
    mpi_call c = { .port = port, .actor = actor, .native = native, .notify = notify };
    c.wait = (fast_wait){
        .waiting = true,
        .whom = FAST_ANY,
        .tag = FAST_TAG_GROUP,
        .since = fast_now(actor),
        .deadline = fast__deadline(actor, native->deadline),
        .doing = native->kind == FAST_NATIVE_BARRIER ? "native barrier" : "native allreduce",
    };
    pthread_mutex_lock(&port->teams->mutex);
    const fast_err err = team_join(port, actor, native, &c.team);
    pthread_mutex_unlock(&port->teams->mutex);
    FAST_TRY(err);
    ask(&c);
    while (atomic_load(&c.team->state) != TEAM_MADE) {
        if (atomic_load(&c.team->state) == TEAM_BROKEN)
            return fast__fail(FAST_EPEER,
                              "native: a collective of this group failed before; make a "
                              "group with the next generation");
        FAST_TRY(team_wait(&c));
    }
    return team_run(&c);
}
