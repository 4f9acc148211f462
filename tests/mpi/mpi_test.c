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
#include "base/memory.h"
#include "fast/actor.h"
#include "transport/mpi/process.h"
#include "transport/transport.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* How much is done: sanitizers are slow. */
#ifdef FAST_SANITIZED
enum { FLOOD = 2000, BIG = 4 << 20, ROUNDS = 5 };
#else
enum { FLOOD = 20000, BIG = 64 << 20, ROUNDS = 20 };
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_around),
        cmocka_unit_test(test_big),
    };
    return cmocka_run_group_tests(tests, group_setup, NULL);
}
