/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Goal: what is threads' own: pointers arrive unchanged, sleeping and waking lose nothing, memory
 * is stable, many actors share few cores, memory is shared under keys. Method: small programs of
 * actors that count what they saw.
 */
#include "base/memory.h"
#include "transport/transport.h"

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

static void two_actors_take_turns(void **state)
{
    (void)state;
    const fast_role roles[] = { { "worker", 2, ping_pong, NULL } };
    run(NULL, roles, 1);
    run((const char *[]){ "check=yes", NULL }, roles, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(two_actors_take_turns),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
