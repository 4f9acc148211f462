/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Goal: the transport mpi carries every kind of message between any number of ranks, in order,
 * whole and without waiting for itself; its collectives agree with sums done by hand; and what
 * goes wrong on one rank is told by name on the others. What all transports have in common is
 * tested by the conformance suite.
 *
 * Method: every rank runs this program. It is started plainly, as one rank, and by mpirun with 2
 * and 4 (see CMakeLists.txt here); the number of actors follows the number of ranks. Contents are
 * functions of (sender, number), so that a receiver can check every byte. Sanitizers do not know
 * MPI's own memory: leaks are not looked for under mpirun, and tsan does not run this.
 */
#include "base/clock.h"
#include "base/hash.h"
#include "base/memory.h"
#include "fast/comm.h"
#include "transport/mpi/process.h"
#include "transport/peers.h"
#include "transport/transport.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

/* How much is done: sanitizers are slow. */
#ifdef FAST_SANITIZED
enum { FLOOD = 2000, BIG = 4 << 20, ROUNDS = 5, STREAM = 5000 };
#else
enum { FLOOD = 8000, BIG = 64 << 20, ROUNDS = 20, STREAM = 50000 };
#endif

static int ranks;
static int rank;

static const char *const options[] = { "transport=mpi", "timeout=60", NULL };

static int group_setup(void **state)
{
    const fast_mpi_process *process = NULL;
    (void)state;
    if (fast__mpi_begin(fast__clock_ns() + (int64_t)60 * 1000 * 1000 * 1000, &process))
        return 1;
    ranks = process->ranks;
    rank = process->rank;
    return 0;
}

/* In a program: what is false ends it, and says where. */
#define HOLDS(cond) holds((cond), #cond, __LINE__)
static fast_err holds(bool cond, const char *text, int line)
{
    return cond ? FAST_OK : fast__fail(FAST_EINVAL, "line %d: %s does not hold", line, text);
}

static void run_role(fast_actor_fn *main, int64_t count, void *ctx)
{
    const fast_role roles[] = { { "worker", count, main, ctx } };
    fast_actors_result result = { 0 };
    const fast_err err = fast_actors_run(options, roles, 1, &result);
    if (err)
        fprintf(stderr, "rank %d: %s\n", rank, fast_error_detail());
    assert_int_equal(err, FAST_OK);
    assert_int_equal(result.actor_count, count);
}

/* The byte at `i` of a payload. */
static unsigned char byte_of(int64_t from, int64_t number, size_t i)
{
    return (unsigned char)((size_t)from * 131 + (size_t)number * 31 + i * 7 + (i >> 8));
}

static fast_err payload_new(fast_actor *actor, int64_t number, size_t size, fast_buffer **out)
{
    FAST_TRY(fast_buffer_new(actor, size, out));
    unsigned char *data = fast_buffer_data(*out);
    for (size_t i = 0; i < size; i++)
        data[i] = byte_of(fast_actor_id(actor), number, i);
    return FAST_OK;
}

static bool payload_is(const fast_msg *msg, int part, int64_t from, int64_t number, size_t size)
{
    const unsigned char *data = fast_msg_data(msg, part);
    if (msg->parts[part].size != size)
        return false;
    for (size_t i = 0; i < size; i++)
        if (data[i] != byte_of(from, number, i))
            return false;
    return true;
}

static fast_err send_sized(fast_actor *actor, int64_t to, uint64_t tag, int64_t number, size_t size)
{
    fast_msg *msg = NULL;
    fast_buffer *buffer = NULL;
    FAST_TRY(fast_msg_new(actor, tag, &msg));
    msg->words[0] = number;
    if (size > 0) {
        const fast_err err = payload_new(actor, number, size, &buffer);
        if (err) {
            fast_msg_free(msg);
            return err;
        }
        fast_msg_add(msg, &buffer);
    }
    return fast_send(actor, to, &msg);
}

/* A message goes once around all actors. */
static fast_err around(fast_actor *actor, void *ctx)
{
    const int64_t id = fast_actor_id(actor);
    const int64_t count = fast_actor_count(actor);
    fast_msg *msg = NULL;
    (void)ctx;
    FAST_TRY(HOLDS(fast_actor_node(actor, id) == rank));
    if (id == 0)
        FAST_TRY(send_sized(actor, 1 % count, 5, 1, 0));
    FAST_TRY(fast_receive(actor, (id + count - 1) % count, 5, FAST_SOON, &msg));
    FAST_TRY(HOLDS(msg->words[0] == (id == 0 ? count : id)));
    msg->words[0]++;
    if (id != 0)
        return fast_send(actor, (id + 1) % count, &msg);
    fast_msg_free(msg);
    return FAST_OK;
}

static void test_around(void **state)
{
    (void)state;
    run_role(around, ranks, NULL);
    run_role(around, 1, NULL);
    run_role(around, ranks + 1, NULL);
    run_role(around, 3 * (int64_t)ranks, NULL);
}

/* Everyone sends a very large message to everyone, before anyone receives. */
static fast_err exchange_big(fast_actor *actor, void *ctx)
{
    const int64_t id = fast_actor_id(actor);
    const int64_t count = fast_actor_count(actor);
    const size_t size = *(const size_t *)ctx;
    for (int64_t to = 0; to < count; to++)
        if (to != id)
            FAST_TRY(send_sized(actor, to, 9, to, size));
    for (int64_t i = 0; i < count - 1; i++) {
        fast_msg *msg = NULL;
        FAST_TRY(fast_receive(actor, FAST_ANY, 9, FAST_SOON, &msg));
        const bool good = payload_is(msg, 0, msg->from, id, size);
        fast_msg_free(msg);
        FAST_TRY(HOLDS(good));
    }
    return FAST_OK;
}

static void test_big(void **state)
{
    const size_t sizes[] = { 3839, 3840, 3841, 65536, 1000003, BIG };
    (void)state;
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        size_t size = sizes[i] == BIG && ranks > 2 ? BIG / 4 : sizes[i];
        run_role(exchange_big, ranks > 1 ? ranks : 2, &size);
    }
}

/* Everyone sends many small messages to everyone before it receives one: nobody waits for a peer
 * that waits for it. Each pair's come in order, among large ones too. */
static fast_err flood(fast_actor *actor, void *ctx)
{
    const int64_t id = fast_actor_id(actor);
    const int64_t count = fast_actor_count(actor);
    const int64_t each = *(const int64_t *)ctx / count;
    for (int64_t n = 0; n < each; n++)
        for (int64_t to = 0; to < count; to++)
            FAST_TRY(send_sized(actor, to, 3, n, n % 50 == 7 ? 20000 : n % 3 ? 0 : 24));
    for (int64_t from = 0; from < count; from++)
        for (int64_t n = 0; n < each; n++) {
            fast_msg *msg = NULL;
            FAST_TRY(fast_receive(actor, from, 3, FAST_SOON, &msg));
            const int64_t number = msg->words[0];
            const size_t size = n % 50 == 7 ? 20000 : n % 3 ? 0 : 24;
            const bool good = size == 0 ? msg->part_count == 0 : payload_is(msg, 0, from, n, size);
            fast_msg_free(msg);
            FAST_TRY(HOLDS(number == n));
            FAST_TRY(HOLDS(good));
        }
    return HOLDS(id >= 0);
}

static void test_flood(void **state)
{
    int64_t number = FLOOD;
    (void)state;
    run_role(flood, ranks > 1 ? ranks : 2, &number);
    run_role(flood, 2 * (int64_t)ranks, &number);
}

/* Every kind of part arrives as it was: private, frozen, a stretch, empty, four of them. */
static fast_err parts_send(fast_actor *actor, int64_t to, size_t size)
{
    fast_msg *msg = NULL;
    fast_buffer *frozen = NULL;
    fast_buffer *private = NULL;
    fast_buffer *empty = NULL;
    FAST_TRY(payload_new(actor, 1, size, &frozen));
    FAST_TRY(payload_new(actor, 2, size / 2, &private));
    FAST_TRY(payload_new(actor, 3, 0, &empty));
    FAST_TRY(fast_msg_new(actor, 4, &msg));
    fast_buffer_freeze(frozen);
    fast_msg_add(msg, &private);
    fast_msg_add_view(msg, frozen, 10, size - 20);
    fast_msg_add(msg, &empty);
    fast_msg_add(msg, &frozen);
    for (int i = 0; i < FAST_MSG_WORDS; i++)
        msg->words[i] = INT64_MIN + i;
    msg->declared = (size_t)1 << 50;
    msg->generation = 7;
    return fast_send(actor, to, &msg);
}

static fast_err parts_check(fast_msg *msg, size_t size)
{
    FAST_TRY(HOLDS(msg->part_count == 4));
    FAST_TRY(HOLDS(payload_is(msg, 0, msg->from, 2, size / 2)));
    FAST_TRY(HOLDS(payload_is(msg, 3, msg->from, 1, size)));
    FAST_TRY(HOLDS(msg->parts[1].size == size - 20));
    FAST_TRY(HOLDS(
        memcmp(fast_msg_data(msg, 1), (const char *)fast_msg_data(msg, 3) + 10, size - 20) == 0));
    FAST_TRY(HOLDS(msg->parts[2].size == 0));
    FAST_TRY(HOLDS(!fast_buffer_is_frozen(msg->parts[0].buffer)));
    FAST_TRY(HOLDS(fast_buffer_is_frozen(msg->parts[1].buffer)));
    FAST_TRY(HOLDS(fast_buffer_is_frozen(msg->parts[3].buffer)));
    for (int i = 0; i < FAST_MSG_WORDS; i++)
        FAST_TRY(HOLDS(msg->words[i] == INT64_MIN + i));
    return HOLDS(msg->declared == (size_t)1 << 50 && msg->generation == 7);
}

static fast_err parts(fast_actor *actor, void *ctx)
{
    const size_t sizes[] = { 20, 100, 1536, 1700, 100000, 3 << 20 };
    const int64_t count = fast_actor_count(actor);
    const int64_t next = (fast_actor_id(actor) + 1) % count;
    (void)ctx;
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++)
        FAST_TRY(parts_send(actor, next, sizes[i]));
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        fast_msg *msg = NULL;
        FAST_TRY(fast_receive(actor, FAST_ANY, 4, FAST_SOON, &msg));
        const fast_err err = parts_check(msg, sizes[i]);
        fast_msg_free(msg);
        FAST_TRY(err);
    }
    return FAST_OK;
}

static void test_parts(void **state)
{
    (void)state;
    run_role(parts, ranks > 1 ? ranks : 2, NULL);
}

/* Roles share the ranks: server i lives where worker i does. */
static fast_err placed(fast_actor *actor, void *ctx)
{
    (void)ctx;
    for (int64_t id = 0; id < fast_actor_count(actor); id++)
        FAST_TRY(HOLDS(fast_actor_node(actor, id) == fast_actor_index(actor, id) % ranks));
    return HOLDS(fast_actor_node(actor, fast_actor_id(actor)) == rank);
}

static void test_places(void **state)
{
    const fast_role roles[] = { { "worker", ranks, placed, NULL },
                                { "server", ranks + 1, placed, NULL },
                                { "master", 1, placed, NULL } };
    fast_actors_result result = { 0 };
    (void)state;
    assert_int_equal(fast_actors_run(options, roles, 3, &result), FAST_OK);
    assert_int_equal(result.actor_count, 2 * ranks + 2);
    assert_int_equal(result.ended_count, rank == 0 ? 4 : 2);
}

/* Actors of one rank are near: they see one memory, and sum in it directly; others are not. */
static fast_err near_ones(fast_actor *actor, void *ctx)
{
    enum { SIZE = 1000 };
    const int64_t id = fast_actor_id(actor);
    const int64_t ids[] = { id % ranks, id % ranks + ranks };
    atomic_llong *seen = NULL;
    fast_group *group = NULL;
    float x[SIZE];
    (void)ctx;
    for (int64_t other = 0; other < fast_actor_count(actor); other++)
        FAST_TRY(HOLDS(fast_actor_is_local(actor, other) == (other % ranks == rank)));
    FAST_TRY(fast_actor_share(actor, 7, sizeof *seen, &seen));
    atomic_fetch_add(seen, id + 1);
    FAST_TRY(HOLDS(fast_actor_share(actor, 7, 2 * sizeof *seen, &seen) == FAST_EINVAL));
    for (int64_t i = 0; i < SIZE; i++)
        x[i] = (float)(id + i);
    FAST_TRY(fast_group_new(actor, ids, 2, 1, &group));
    fast_err err = fast_group_algorithm(group, "direct");
    for (int round = 0; round < ROUNDS && !err; round++)
        err = fast_allreduce(group, x, SIZE, FAST_SOON);
    fast_group_free(group);
    FAST_TRY(err);
    const float twice = (float)(1 << (ROUNDS - 1));
    for (int64_t i = 0; i < SIZE; i++)
        FAST_TRY(HOLDS(x[i] == twice * (float)(ids[0] + ids[1] + 2 * i)));
    return HOLDS(atomic_load(seen) == ids[0] + ids[1] + 2);
}

static void test_near(void **state)
{
    (void)state;
    run_role(near_ones, 2 * ranks, NULL);
}

/* MPI's own sums and barriers, in a group of all, in a group of some, and where it cannot. */
static fast_err native_sum(fast_actor *actor, const int64_t *ids, int64_t count, uint64_t key,
                           int64_t size)
{
    float *x = NULL;
    float sum = 0;
    bool good = true;
    FAST_TRY(fast__alloc("a vector", size, sizeof *x, &x));
    for (int64_t i = 0; i < size; i++)
        x[i] = (float)((fast_actor_id(actor) + 1) * (i % 100 + 1));
    for (int64_t i = 0; i < count; i++)
        sum += (float)(ids[i] + 1);
    const fast_native native = {
        .kind = FAST_NATIVE_ALLREDUCE, .ids = ids, .count = count, .key = key, .x = x, .size = size
    };
    const fast_err err = actor->world->transport->native(actor, &native);
    for (int64_t i = 0; i < size; i++)
        good = good && x[i] == sum * (float)(i % 100 + 1);
    fast__free(x);
    FAST_TRY(err);
    return HOLDS(good);
}

enum { MANY = 64 };

static fast_err native(fast_actor *actor, void *ctx)
{
    const int64_t sizes[] = { 1, 1000, 65536, 65537, 700000, 0 };
    const int64_t id = fast_actor_id(actor);
    const int64_t count = fast_actor_count(actor);
    int64_t ids[MANY];
    (void)ctx;
    for (int64_t i = 0; i < count; i++)
        ids[i] = i;
    /* As many members as ranks at most, or two would share one. */
    const int64_t some = count < ranks ? count : ranks;
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0] && id < some; i++)
        FAST_TRY(native_sum(actor, ids, some, 11, sizes[i]));
    const fast_native barrier = {
        .kind = FAST_NATIVE_BARRIER, .ids = ids, .count = some, .key = 11
    };
    if (id < some)
        FAST_TRY(actor->world->transport->native(actor, &barrier));
    /* The last ones, in another order. */
    const int64_t pair[] = { some - 1, some - 2 };
    if (some > 2 && (id == pair[0] || id == pair[1]))
        FAST_TRY(native_sum(actor, pair, 2, 12, 5000));
    if (count > ranks && id <= ranks) {
        const fast_native shared = {
            .kind = FAST_NATIVE_BARRIER, .ids = ids, .count = ranks + 1, .key = 13
        };
        FAST_TRY(HOLDS(actor->world->transport->native(actor, &shared) == FAST_ENOTSUP));
    }
    return FAST_OK;
}

static void test_native(void **state)
{
    (void)state;
    run_role(native, ranks, NULL);
    run_role(native, ranks + 1, NULL);
    run_role(native, 2 * (int64_t)ranks, NULL);
}

/* The allreduce `native` of a group: it sums where every member has a process of its own, and is
 * refused where two share one. */
static fast_err native_group(fast_actor *actor, void *ctx)
{
    const int64_t count = fast_actor_count(actor);
    float x[3] = { (float)fast_actor_id(actor), 1, -2 };
    fast_group *group = NULL;
    (void)ctx;
    FAST_TRY(fast_group_all(actor, "worker", &group));
    fast_err err = fast_group_algorithm(group, "native");
    if (!err)
        err = fast_allreduce(group, x, 3, FAST_SOON);
    if (!err)
        err = fast_allreduce(group, x, 0, FAST_SOON);
    fast_group_free(group);
    if (count > ranks)
        return HOLDS(err == FAST_ENOTSUP && strstr(fast_error_detail(), "share one"));
    FAST_TRY(err);
    return HOLDS(x[0] == (float)(count * (count - 1) / 2) && x[1] == (float)count &&
                 x[2] == -2 * (float)count);
}

static void test_native_group(void **state)
{
    (void)state;
    run_role(native_group, ranks, NULL);
    run_role(native_group, ranks + 1, NULL);
}

/* A collective that a member never joins ends at its deadline. It may only run last: MPI keeps a
 * communicator that was not made, or a sum that never ends. */
static fast_err native_alone(fast_actor *actor, void *ctx)
{
    const int64_t ids[] = { 0, 1 };
    const fast_native barrier = { .kind = FAST_NATIVE_BARRIER,
                                  .ids = ids,
                                  .count = 2,
                                  .key = 21,
                                  .deadline = fast_now(actor) + 200 * 1000 * 1000 };
    fast_msg *msg = NULL;
    (void)ctx;
    if (fast_actor_id(actor) == 0) {
        FAST_TRY(HOLDS(actor->world->transport->native(actor, &barrier) == FAST_ETIMEDOUT));
        FAST_TRY(HOLDS(actor->world->transport->native(actor, &barrier) == FAST_EPEER));
        return send_sized(actor, 1, 1, 0, 0);
    }
    if (fast_actor_id(actor) == 1)
        FAST_TRY(fast_receive(actor, 0, 1, FAST_SOON, &msg));
    fast_msg_free(msg);
    return FAST_OK;
}

static void test_native_alone(void **state)
{
    (void)state;
    if (ranks > 1)
        run_role(native_alone, ranks, NULL);
}

/* An actor that fails is named by the actors that wait for it, on every rank. */
static fast_err fails(fast_actor *actor, void *ctx)
{
    fast_msg *msg = NULL;
    (void)ctx;
    if (fast_actor_id(actor) == 1)
        return fast__fail(FAST_EIO, "the disk is on fire");
    const fast_err err = fast_receive(actor, 1, 5, FAST_SOON, &msg);
    FAST_TRY(HOLDS(err == FAST_EPEER && strstr(fast_error_detail(), "worker 1 left")));
    return err;
}

static void test_failure(void **state)
{
    const fast_role roles[] = { { "worker", ranks + 1, fails, NULL } };
    const int64_t start = fast__clock_ns();
    (void)state;
    const fast_err err = fast_actors_run(options, roles, 1, NULL);
    if (rank == 1 || ranks == 1)
        assert_int_equal(err, ranks == 1 ? FAST_EPEER : FAST_EIO);
    else
        assert_int_equal(err, FAST_EPEER);
    assert_non_null(strstr(fast_error_detail(), rank == 1 ? "on fire" : "worker 1 left"));
    assert_true(fast__clock_ns() - start < (int64_t)30 * 1000 * 1000 * 1000);
    run_role(around, ranks, NULL);
}

/* Ranks that run different actors are told so, all of them, and can continue. */
static void test_unlike(void **state)
{
    const fast_role roles[] = { { "worker", ranks + (rank == ranks - 1), around, NULL } };
    (void)state;
    const fast_err err = fast_actors_run(options, roles, 1, NULL);
    assert_int_equal(err, ranks == 1 ? FAST_OK : FAST_EINVAL);
    if (ranks > 1) {
        char name[64];
        snprintf(name, sizeof name, "rank %d runs other actors", ranks - 1);
        assert_non_null(strstr(fast_error_detail(), name));
    }
    run_role(around, ranks, NULL);
}

/* A rank that does not come is named at the timeout, and may come to the next run. */
static void test_missing(void **state)
{
    const char *const hasty[] = { "transport=mpi", "timeout=0.3", NULL };
    const fast_role roles[] = { { "worker", ranks, around, NULL } };
    (void)state;
    if (ranks == 1)
        return;
    if (rank != ranks - 1) {
        char name[64];
        snprintf(name, sizeof name, "rank %d did not come", ranks - 1);
        assert_int_equal(fast_actors_run(hasty, roles, 1, NULL), FAST_ETIMEDOUT);
        assert_non_null(strstr(fast_error_detail(), name));
        return;
    }
    /* Late: the others have left. */
    nanosleep(&(struct timespec){ .tv_sec = 1, .tv_nsec = 500 * 1000 * 1000 }, NULL);
    assert_int_equal(fast_actors_run(hasty, roles, 1, NULL), FAST_ETIMEDOUT);
}

/* A rank that cannot join says why, the others hear of it at once, and all may run actors again. */
static void test_declined(void **state)
{
    const fast_role roles[] = { { "worker", ranks, around, NULL } };
    (void)state;
    for (int absent = 0; absent < ranks && ranks > 1; absent++) {
        const int64_t start = fast__clock_ns();
        char name[64];
        if (rank == absent) {
            fast__world_decline("mpi", "the disk is full");
        } else {
            snprintf(name, sizeof name, "rank %d (on ", absent);
            assert_int_equal(fast_actors_run(options, roles, 1, NULL), FAST_EPEER);
            assert_non_null(strstr(fast_error_detail(), name));
            assert_non_null(strstr(fast_error_detail(), "cannot take part: the disk is full"));
        }
        assert_true(fast__clock_ns() - start < (int64_t)30 * 1000 * 1000 * 1000);
        if (absent % 2 == 0) /* twice in a row, too */
            run_role(around, ranks, NULL);
    }
    fast__world_decline("threads", "nobody waits");
    run_role(around, ranks, NULL);
}

/* Runs follow each other in one process, and worlds that never ran are closed. */
static void test_again(void **state)
{
    fast_actors_config config;
    const fast_role roles[] = { { "worker", ranks + 2, around, NULL } };
    (void)state;
    assert_int_equal(fast__actors_parse(options, &config), FAST_OK);
    for (int i = 0; i < ROUNDS; i++) {
        fast_world *world = NULL;
        run_role(around, 1 + i % (2 * ranks), NULL);
        assert_int_equal(fast__world_open(&config, roles, 1, &world), FAST_OK);
        fast__world_close(world);
    }
}

/* Many messages both ways take no more memory than a few: windows of small and large ones. */
static fast_err stream(fast_actor *actor, void *ctx)
{
    enum { WINDOW = 32, WARM = 50 };
    const int64_t rounds = *(const int64_t *)ctx / WINDOW;
    const int64_t count = fast_actor_count(actor);
    const int64_t to = (fast_actor_id(actor) + 1) % count;
    const int64_t from = (fast_actor_id(actor) + count - 1) % count;
    int64_t before = 0;
    for (int64_t round = 0; round < rounds; round++) {
        if (round == WARM)
            before = fast__pool_used(actor->world->pool).allocations + fast__alloc_count();
        for (int64_t i = 0; i < WINDOW; i++)
            FAST_TRY(send_sized(actor, to, 6, i, i == 5 ? 10000 : i % 2 ? 64 : 0));
        for (int64_t i = 0; i < WINDOW; i++) {
            fast_msg *msg = NULL;
            FAST_TRY(fast_receive(actor, from, 6, FAST_SOON, &msg));
            fast_msg_free(msg);
        }
    }
    const int64_t after = fast__pool_used(actor->world->pool).allocations + fast__alloc_count();
    /* Around the circle some may be ahead by as many windows as there are actors: when that
     * happens for the first time, there are more messages at once than before. */
    return HOLDS(rounds <= WARM || after - before <= 2 * WINDOW * count);
}

static void test_stream(void **state)
{
    int64_t number = getenv("FAST_MANY") ? 1000000 : STREAM;
    (void)state;
    run_role(stream, ranks > 1 ? ranks : 2, &number);
}

/* Random vectors are summed to the same bits on every transport, by each algorithm. */
typedef struct sums {
    const char *algorithm; /* of the allreduce */
    int64_t size;          /* of the vectors */
    uint64_t hash[MANY];   /* of the sum at each actor of this process */
} sums;

static fast_err sum(fast_actor *actor, void *ctx)
{
    sums *s = ctx;
    fast_group *group = NULL;
    float *x = NULL;
    FAST_TRY(fast__alloc("a vector", s->size, sizeof *x, &x));
    for (int64_t i = 0; i < s->size; i++)
        x[i] = (float)(int32_t)fast_random(actor) * 1e-5f;
    fast_err err = fast_group_all(actor, "worker", &group);
    if (!err)
        err = fast_group_algorithm(group, s->algorithm);
    if (!err)
        err = fast_allreduce(group, x, s->size, FAST_SOON);
    if (!err)
        s->hash[fast_actor_id(actor)] = fast__hash(x, (size_t)s->size * sizeof *x, 1);
    fast_group_free(group);
    fast__free(x);
    return err;
}

static void test_same_bits(void **state)
{
    const char *const algorithms[] = { "tree", "butterfly", "ring", "rabenseifner",
                                       "hierarchical" };
    const char *const transports[] = { "transport=mpi", "transport=threads", "transport=sim" };
    const int64_t count = 2 * (int64_t)ranks + 1;
    (void)state;
    for (size_t a = 0; a < sizeof algorithms / sizeof algorithms[0]; a++) {
        sums results[3] = { { "", 0, { 0 } } };
        for (int t = 0; t < 3; t++) {
            const char *const these[] = { transports[t], "seed=5", NULL };
            results[t].algorithm = algorithms[a];
            results[t].size = 10007;
            const fast_role roles[] = { { "worker", count, sum, &results[t] } };
            assert_int_equal(fast_actors_run(these, roles, 1, NULL), FAST_OK);
        }
        for (int64_t id = 0; id < count; id++) {
            const bool here = id % ranks == rank;
            /* Hierarchical sums follow the nodes, and only mpi has more than one here. */
            if (here && strcmp(algorithms[a], "hierarchical") != 0)
                assert_true(results[0].hash[id] == results[1].hash[id]);
            assert_true(!here || results[0].hash[id] == results[0].hash[rank]);
            assert_true(results[0].hash[id] != 0 || !here);
            if (strcmp(algorithms[a], "hierarchical") != 0)
                assert_true(results[1].hash[id] == results[2].hash[id]);
        }
    }
}

/* Without memory the world does not open, and nothing is left of it. One rank: the others would
 * wait for the one that fails. */
static void test_memory(void **state)
{
    fast_actors_config config;
    const fast_role roles[] = { { "worker", 3, around, NULL } };
    fast_world *world = NULL;
    fast_err err = FAST_ENOMEM;
    (void)state;
    if (ranks > 1)
        return;
    assert_int_equal(fast__actors_parse(options, &config), FAST_OK);
    for (int64_t n = 0; err; n++) {
        fast__alloc_fail_after(n, true);
        err = fast__world_open(&config, roles, 1, &world);
        fast__alloc_fail_after(-1, false);
        assert_true(err == FAST_OK ? n > 5 : err == FAST_ENOMEM);
    }
    assert_int_equal(fast__world_run(world, NULL), FAST_OK);
    fast__world_close(world);
}

/* Actor 0 says that it is busy, and is so for longer than a timeout; the others wait for it. */
static fast_err busy(fast_actor *actor, void *ctx)
{
    const struct timespec pause = { .tv_sec = 3 };
    fast_msg *msg = NULL;
    (void)ctx;
    if (fast_actor_id(actor) > 0) {
        FAST_TRY(fast_receive(actor, 0, 1, FAST_SOON, &msg));
        fast_msg_free(msg);
        return FAST_OK;
    }
    fast__peers_tell_busy(actor);
    nanosleep(&pause, NULL);
    fast__peers_tell_stood(actor);
    for (int64_t id = 1; id < fast_actor_count(actor); id++) {
        FAST_TRY(fast_msg_new(actor, 1, &msg));
        FAST_TRY(fast_send(actor, id, &msg));
    }
    return FAST_OK;
}

static void test_busy(void **state)
{
    const char *const these[] = { "transport=mpi", "timeout=2", NULL };
    const fast_role roles[] = { { "worker", ranks, busy, NULL } };
    (void)state;
    if (ranks == 2 && fast_actors_run(these, roles, 1, NULL))
        fail_msg("%s", fast_error_detail());
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_around),       cmocka_unit_test(test_big),
        cmocka_unit_test(test_flood),        cmocka_unit_test(test_parts),
        cmocka_unit_test(test_places),       cmocka_unit_test(test_native),
        cmocka_unit_test(test_near),         cmocka_unit_test(test_failure),
        cmocka_unit_test(test_unlike),       cmocka_unit_test(test_missing),
        cmocka_unit_test(test_declined),     cmocka_unit_test(test_again),
        cmocka_unit_test(test_memory),       cmocka_unit_test(test_stream),
        cmocka_unit_test(test_same_bits),    cmocka_unit_test(test_native_group),
        cmocka_unit_test(test_native_alone), cmocka_unit_test(test_busy),
    };
    return cmocka_run_group_tests(tests, group_setup, NULL);
}
