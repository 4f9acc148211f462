/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Goal: what is threads' own: pointers arrive unchanged, sleeping and waking lose nothing, memory
 * is stable, many actors share few cores, memory is shared under keys. Method: small programs of
 * actors that count what they saw.
 */
#include "base/memory.h"
#include "transport/transport.h"

#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <string.h>

#include <cmocka.h>

#ifdef FAST_SANITIZED
enum { ROUNDS = 2000, STREAM = 20000 };
#else
enum { ROUNDS = 20000, STREAM = 1000000 };
#endif

static fast_err send_word(fast_actor *actor, int64_t to, uint64_t tag, int64_t word)
{
    fast_msg *msg;
    FAST_TRY(fast_msg_new(actor, tag, &msg));
    msg->words[0] = word;
    return fast_send(actor, to, &msg);
}

static fast_err receive_word(fast_actor *actor, int64_t from, uint64_t tag, int64_t *word_out)
{
    fast_msg *msg = NULL;
    FAST_TRY(fast_receive(actor, from, tag, FAST_SOON, &msg));
    *word_out = msg->words[0];
    fast_msg_free(msg);
    return FAST_OK;
}

static void run(const char *const *options, const fast_role *roles, int64_t count)
{
    fast_actors_result result;
    const fast_err err = fast_actors_run(options, roles, count, &result);
    if (err)
        fail_msg("%s: %s", fast_err_name(err), fast_error_detail());
    assert_int_equal(result.ended_count, result.actor_count);
    assert_int_equal(result.copies, 0);
}

static fast_err ping_pong(fast_actor *actor, void *ctx)
{
    (void)ctx;
    const int64_t me = fast_actor_id(actor);
    for (int64_t i = 0; i < ROUNDS; i++) {
        int64_t word = 0;
        if (me == 0)
            FAST_TRY(send_word(actor, 1, 7, i));
        FAST_TRY(receive_word(actor, 1 - me, 7, &word));
        if (word != i)
            return fast__fail(FAST_EFORMAT, "round %lld brought %lld", (long long)i,
                              (long long)word);
        if (me == 1)
            FAST_TRY(send_word(actor, 0, 7, i));
    }
    return FAST_OK;
}

#ifdef FAST_HAVE_HWLOC
/* With bind=core an actor runs on the processors of one core, two actors on different ones if the
 * machine has two cores. */
static fast_err note_core(fast_actor *actor, void *ctx)
{
    cpu_set_t *sets = ctx;
    if (sched_getaffinity(0, sizeof *sets, &sets[fast_actor_id(actor)]) != 0)
        return fast__fail(FAST_EIO, "no affinity");
    return ping_pong(actor, NULL);
}

static void actors_are_bound(void **state)
{
    cpu_set_t sets[2], here, both;
    const fast_role roles[] = { { "worker", 2, note_core, sets } };
    const char *const options[] = { "transport=threads", "bind=core", NULL };
    (void)state;
    run(options, roles, 1);
    assert_int_equal(sched_getaffinity(0, sizeof here, &here), 0);
    CPU_AND(&both, &sets[0], &sets[1]);
    for (int i = 0; i < 2; i++)
        assert_true(CPU_COUNT(&sets[i]) >= 1 && CPU_COUNT(&sets[i]) <= CPU_COUNT(&here));
    if (CPU_COUNT(&here) > 8) /* at most 8 processors a core: there are two cores */
        assert_int_equal(CPU_COUNT(&both), 0);
    else if (!CPU_EQUAL(&sets[0], &here))
        assert_true(CPU_COUNT(&both) == 0 || CPU_EQUAL(&sets[0], &sets[1]));
}
#endif

static void two_actors_take_turns(void **state)
{
    (void)state;
    const fast_role roles[] = { { "worker", 2, ping_pong, NULL } };
    run(NULL, roles, 1);
    run((const char *[]){ "check=yes", NULL }, roles, 1);
}

/* Payloads keep their addresses, whatever their size, there and back. */
static fast_err same_pointer(fast_actor *actor, void *ctx)
{
    (void)ctx;
    for (size_t size = 1; size < (size_t)1 << 22; size *= 3) {
        fast_msg *msg = NULL;
        fast_buffer *buffer = NULL;
        if (fast_actor_id(actor) == 1) {
            FAST_TRY(fast_receive(actor, 0, 1, FAST_SOON, &msg));
            FAST_TRY(fast_send(actor, 0, &msg));
            continue;
        }
        FAST_TRY(fast_buffer_new(actor, size, &buffer));
        const void *data = fast_buffer_data(buffer);
        memset(fast_buffer_data(buffer), 7, size);
        FAST_TRY(fast_msg_new(actor, 1, &msg));
        fast_msg_add(msg, &buffer);
        FAST_TRY(fast_send(actor, 1, &msg));
        FAST_TRY(fast_receive(actor, 1, 1, FAST_SOON, &msg));
        const bool same = fast_msg_data(msg, 0) == data && msg->parts[0].size == size;
        fast_msg_free(msg);
        if (!same)
            return fast__fail(FAST_EFORMAT, "%zu bytes have moved", size);
    }
    return FAST_OK;
}

static void payloads_are_not_copied(void **state)
{
    (void)state;
    const fast_role roles[] = { { "worker", 2, same_pointer, NULL } };
    run(NULL, roles, 1);
}

/* Actor 0 freezes a buffer for all others; they read it at the same time. */
static fast_err broadcast(fast_actor *actor, void *ctx)
{
    (void)ctx;
    const int64_t count = fast_actor_count(actor);
    for (int round = 0; round < 50; round++) {
        fast_msg *msg = NULL;
        int64_t sum = 0;
        if (fast_actor_id(actor) == 0) {
            fast_buffer *buffer = NULL;
            FAST_TRY(fast_buffer_new(actor, 1000, &buffer));
            memset(fast_buffer_data(buffer), round, 1000);
            fast_buffer_freeze(buffer);
            for (int64_t to = 1; to < count; to++) {
                FAST_TRY(fast_msg_new(actor, 1, &msg));
                fast_msg_add_view(msg, buffer, (size_t)to, 900);
                FAST_TRY(fast_send(actor, to, &msg));
            }
            fast_buffer_free(buffer);
            for (int64_t i = 1; i < count; i++)
                FAST_TRY(receive_word(actor, FAST_ANY, 2, &sum));
            continue;
        }
        FAST_TRY(fast_receive(actor, 0, 1, FAST_SOON, &msg));
        const unsigned char *bytes = fast_msg_data(msg, 0);
        for (int i = 0; i < 900; i++)
            sum += bytes[i];
        fast_msg_free(msg);
        if (sum != (int64_t)900 * round)
            return fast__fail(FAST_EFORMAT, "the sum is %lld", (long long)sum);
        FAST_TRY(send_word(actor, 0, 2, sum));
    }
    return FAST_OK;
}

static void frozen_buffers_are_shared(void **state)
{
    (void)state;
    const fast_role roles[] = { { "worker", 9, broadcast, NULL } };
    run(NULL, roles, 1);
    run((const char *[]){ "check=yes", NULL }, roles, 1);
}

/* A stream from 0 to 1, which asks for the next WINDOW when it has had them. */
enum { WINDOW = 500 };
typedef struct growth {
    fast_pool_use warm;   /* after a tenth */
    fast_pool_use use;    /* at the end */
    _Atomic int64_t late; /* allocations of both actors' threads after the first tenth */
} growth;

static fast_err streamer(fast_actor *actor, void *ctx)
{
    growth *g = ctx;
    int64_t word = 0, before = 0;
    for (int64_t i = 0; i < STREAM; i++) {
        if (i == STREAM / 10) {
            before = fast__alloc_count();
            if (fast_actor_id(actor) == 0)
                g->warm = fast__pool_used(actor->world->pool);
        }
        if (fast_actor_id(actor) == 0) {
            fast_msg *msg = NULL;
            fast_buffer *buffer = NULL;
            FAST_TRY(fast_msg_new(actor, 1, &msg));
            FAST_TRY(fast_buffer_new(actor, 64, &buffer));
            fast_msg_add(msg, &buffer);
            msg->words[0] = i;
            FAST_TRY(fast_send(actor, 1, &msg));
            if (i % WINDOW == WINDOW - 1)
                FAST_TRY(receive_word(actor, 1, 2, &word));
        } else {
            FAST_TRY(receive_word(actor, 0, 1, &word));
            if (word != i)
                return fast__fail(FAST_EFORMAT, "%lld came as %lld", (long long)i, (long long)word);
            if (i % WINDOW == WINDOW - 1)
                FAST_TRY(send_word(actor, 0, 2, 0));
        }
    }
    atomic_fetch_add(&g->late, fast__alloc_count() - before);
    if (fast_actor_id(actor) == 0)
        g->use = fast__pool_used(actor->world->pool);
    return FAST_OK;
}

static void memory_is_stable_over_a_stream(void **state)
{
    (void)state;
    growth g = { 0 };
    const fast_role roles[] = { { "worker", 2, streamer, &g } };
    run(NULL, roles, 1);
    /* Nothing but the few batches by which the window was fuller later than in the first tenth. */
    assert_true(g.use.bytes < 2 * (WINDOW + 6 * 32) * 512);
    assert_true(g.use.allocations - g.warm.allocations <= 2 * (WINDOW / 32 + 1));
    assert_true(atomic_load(&g.late) <= 2 * (WINDOW / 32 + 1) + 4);
}

/* Small and large messages mixed, in bursts that fill what there is, keep their order. */
static fast_err mixer(fast_actor *actor, void *ctx)
{
    (void)ctx;
    enum { BURST = 100, BURSTS = ROUNDS / 50 };
    const int64_t me = fast_actor_id(actor);
    int64_t word = 0;
    for (int64_t i = 0; i < (int64_t)BURST * BURSTS; i++) {
        fast_msg *msg = NULL;
        FAST_TRY(fast_msg_new(actor, 1, &msg));
        msg->words[0] = i;
        msg->words[5] = -i;
        msg->generation = (uint32_t)i;
        if (fast_random(actor) % 3 == 0) {
            fast_buffer *buffer = NULL;
            FAST_TRY(fast_buffer_new(actor, 8, &buffer));
            fast_msg_add(msg, &buffer);
        }
        FAST_TRY(fast_send(actor, 1 - me, &msg));
        if (i % BURST < BURST - 1)
            continue;
        for (int64_t j = i - BURST + 1; j <= i; j++) {
            FAST_TRY(fast_receive(actor, j % 2 ? FAST_ANY : 1 - me, 1, FAST_SOON, &msg));
            const bool good = msg->words[0] == j && msg->words[5] == -j && msg->from == 1 - me &&
                              msg->generation == (uint32_t)j;
            word = msg->words[0];
            fast_msg_free(msg);
            if (!good)
                return fast__fail(FAST_EFORMAT, "%lld came as %lld", (long long)j, (long long)word);
        }
        if (fast_random(actor) % 8 == 0) /* sometimes the other falls asleep */
            FAST_TRY(fast_sleep_until(actor, fast_now(actor) + 200000));
    }
    return FAST_OK;
}

static void small_and_large_keep_their_order(void **state)
{
    (void)state;
    const fast_role roles[] = { { "worker", 2, mixer, NULL } };
    run(NULL, roles, 1);
}

/* A wait ends by its deadline, however much comes that it does not wait for. */
static fast_err flood(fast_actor *actor, void *ctx)
{
    (void)ctx;
    int64_t word = 0;
    fast_msg *msg = NULL;
    switch (fast_actor_id(actor)) {
    case 0: {
        const fast_err err = fast_receive(actor, 2, 1, fast_now(actor) + 5000000, &msg);
        if (err != FAST_ETIMEDOUT)
            return fast__fail(FAST_EFORMAT, "the wait ended with %s", fast_err_name(err));
        FAST_TRY(send_word(actor, 1, 9, 0));
        return send_word(actor, 2, 9, 0);
    }
    case 1:
        for (int64_t i = 0; i < 3000000; i++) {
            const fast_err sent = send_word(actor, 0, 2, i);
            if (sent) /* it has ended, so it is right */
                return sent == FAST_EPEER ? FAST_OK : sent;
            const fast_err err = fast_receive(actor, 0, 9, FAST_AT_ONCE, &msg);
            fast_msg_free(msg);
            if (err != FAST_ETIMEDOUT)
                return err == FAST_EPEER ? FAST_OK : err;
        }
        return fast__fail(FAST_EFORMAT, "the wait did not end");
    default:
        return receive_word(actor, 0, 9, &word);
    }
}

static void floods_prolong_no_wait(void **state)
{
    (void)state;
    const fast_role roles[] = { { "worker", 3, flood, NULL } };
    fast_actors_result result;
    const fast_err err = fast_actors_run(NULL, roles, 1, &result);
    if (err)
        fail_msg("%s", fast_error_detail());
}

/* More actors than cores: a token goes around, and everyone talks to everyone. */
static fast_err crowd(fast_actor *actor, void *ctx)
{
    (void)ctx;
    const int64_t me = fast_actor_id(actor), count = fast_actor_count(actor);
    int64_t word = 0;
    for (int round = 0; round < 3; round++) {
        for (int64_t i = 1; i < count; i++)
            FAST_TRY(send_word(actor, (me + i) % count, 1, round));
        for (int64_t i = 1; i < count; i++) {
            FAST_TRY(receive_word(actor, (me + i) % count, 1, &word));
            if (word != round)
                return fast__fail(FAST_EFORMAT, "round %lld came in %d", (long long)word, round);
        }
        if (me == 0)
            FAST_TRY(send_word(actor, 1, 2, 1));
        FAST_TRY(receive_word(actor, (me + count - 1) % count, 2, &word));
        if (me > 0)
            FAST_TRY(send_word(actor, (me + 1) % count, 2, word + 1));
        else if (word != count)
            return fast__fail(FAST_EFORMAT, "the token saw %lld", (long long)word);
    }
    return FAST_OK;
}

static void many_actors_share_few_cores(void **state)
{
    (void)state;
    const fast_role roles[] = { { "worker", 64, crowd, NULL } };
    run(NULL, roles, 1);
}

/* Memory under a key is one for all, cleared; and wake() ends a wait for what is written there. */
typedef struct board {
    _Atomic int64_t turn;
    int64_t total;
} board;

static fast_err sharer(fast_actor *actor, void *ctx)
{
    (void)ctx;
    const int64_t me = fast_actor_id(actor), count = fast_actor_count(actor);
    board *b = NULL;
    void *other = NULL;
    FAST_TRY(fast_actor_share(actor, 5, sizeof *b, &b));
    FAST_TRY(fast_actor_share(actor, 6, 10, &other));
    if (other == (void *)b)
        return fast__fail(FAST_EFORMAT, "two keys, one memory");
    if (fast_actor_share(actor, 6, 11, &other) != FAST_EINVAL)
        return fast__fail(FAST_EFORMAT, "another size was accepted");
    const fast_wait wait = { .whom = FAST_ANY,
                             .since = fast_now(actor),
                             .deadline = fast__deadline(actor, FAST_SOON),
                             .doing = "turn" };
    for (int64_t round = 0; round < 300; round++) {
        while (atomic_load(&b->turn) != round * count + me)
            FAST_TRY(fast__wait_once(actor, &wait));
        b->total++;
        atomic_fetch_add(&b->turn, 1);
        actor->world->transport->wake(actor, (me + 1) % count);
    }
    if (me == count - 1 && b->total != 300 * count)
        return fast__fail(FAST_EFORMAT, "%lld turns", (long long)b->total);
    return FAST_OK;
}

static void memory_is_shared_by_key(void **state)
{
    (void)state;
    const fast_role roles[] = { { "worker", 3, sharer, NULL } };
    run(NULL, roles, 1);
    run((const char *[]){ "check=yes", NULL }, roles, 1);
}

/* Messages to actors that have ended are counted, and never waited for. */
static fast_err late(fast_actor *actor, void *ctx)
{
    _Atomic int *ended = ctx;
    if (fast_actor_id(actor) == 1) {
        atomic_store(ended, 1);
        return FAST_OK;
    }
    while (!atomic_load(ended))
        FAST_TRY(fast_sleep_until(actor, fast_now(actor) + 100000));
    /* Its end may not have been heard of yet. */
    const fast_err err = send_word(actor, 1, 1, 0);
    return err == FAST_EPEER ? FAST_OK : err;
}

static void messages_to_the_gone_are_freed(void **state)
{
    (void)state;
    _Atomic int ended = 0;
    const fast_role roles[] = { { "worker", 2, late, &ended } };
    fast_actors_result result;
    assert_int_equal(fast_actors_run(NULL, roles, 1, &result), FAST_OK);
    assert_int_equal(result.messages_lost, result.messages_sent);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
#ifdef FAST_HAVE_HWLOC
        cmocka_unit_test(actors_are_bound),
#endif
        cmocka_unit_test(two_actors_take_turns),
        cmocka_unit_test(payloads_are_not_copied),
        cmocka_unit_test(frozen_buffers_are_shared),
        cmocka_unit_test(memory_is_stable_over_a_stream),
        cmocka_unit_test(small_and_large_keep_their_order),
        cmocka_unit_test(floods_prolong_no_wait),
        cmocka_unit_test(many_actors_share_few_cores),
        cmocka_unit_test(memory_is_shared_by_key),
        cmocka_unit_test(messages_to_the_gone_are_freed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
