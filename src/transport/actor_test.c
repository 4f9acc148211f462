/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Goal: what every actor is promised, whatever carries its messages: order, deadlines, ends of
 * peers, self-sends, posted tasks, computing, names and random streams; and that wrong options and
 * roles are refused with one clear sentence. Method: small programs on threads; each returns the
 * first thing that it finds wrong, which the run then names.
 */
#include "base/memory.h"
#include "transport/transport.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

/* Inside a program: give up with the line that is wrong. */
#define NEED(cond)                                                                          \
    FAST_TRY((cond) ? FAST_OK                                                               \
                    : fast__fail(FAST_EFORMAT, "line %d: %s (detail: %s)", __LINE__, #cond, \
                                 fast_error_detail()))

static fast_err send_word(fast_actor *actor, int64_t to, uint64_t tag, int64_t word)
{
    fast_msg *msg = NULL;
    FAST_TRY(fast_msg_new(actor, tag, &msg));
    msg->words[0] = word;
    return fast_send(actor, to, &msg);
}

static fast_err receive_word(fast_actor *actor, int64_t from, uint64_t tag, int64_t deadline,
                             int64_t *word_out)
{
    fast_msg *msg = NULL;
    FAST_TRY(fast_receive(actor, from, tag, deadline, &msg));
    *word_out = msg->words[0];
    fast_msg_free(msg);
    return FAST_OK;
}

static void run_on(const char *const *options, const fast_role *roles, int64_t count,
                   fast_actors_result *result)
{
    const fast_err err = fast_actors_run(options, roles, count, result);
    if (err)
        fail_msg("%s: %s", fast_err_name(err), fast_error_detail());
    assert_int_equal(result->ended_count, result->actor_count);
}

/* Both as it is and inside the checking wrapper. */
static void run(const fast_role *roles, int64_t count)
{
    fast_actors_result result;
    run_on(NULL, roles, count, &result);
    run_on((const char *[]){ "check=yes", NULL }, roles, count, &result);
}

/* Sizes that no counter holds are refused, the largest that is allowed is not. */
static fast_err declare(fast_actor *actor, void *ctx)
{
    (void)ctx;
    fast_msg *msg = NULL;
    const size_t sizes[] = { SIZE_MAX, SIZE_MAX / 2, FAST_MSG_DECLARED_MAX + 1 };
    for (int i = 0; i < 3; i++) {
        FAST_TRY(fast_msg_new(actor, 1, &msg));
        msg->declared = sizes[i];
        NEED(fast_send(actor, 1 - fast_actor_id(actor), &msg) == FAST_EINVAL);
        NEED(msg == NULL);
    }
    FAST_TRY(fast_msg_new(actor, 1, &msg));
    msg->declared = FAST_MSG_DECLARED_MAX;
    FAST_TRY(fast_send(actor, 1 - fast_actor_id(actor), &msg));
    FAST_TRY(fast_receive(actor, FAST_ANY, 1, FAST_SOON, &msg));
    NEED(msg->declared == FAST_MSG_DECLARED_MAX);
    fast_msg_free(msg);
    return FAST_OK;
}

static void absurd_sizes_are_refused(void **state)
{
    (void)state;
    run((const fast_role[]){ { "worker", 2, declare, NULL } }, 1);
}

static fast_err who(fast_actor *actor, void *ctx)
{
    (void)ctx;
    const int64_t me = fast_actor_id(actor);
    NEED(fast_actor_count(actor) == 5);
    NEED(strcmp(fast_actor_role(actor, 2), "worker") == 0);
    NEED(strcmp(fast_actor_role(actor, 3), "server") == 0);
    NEED(fast_actor_index(actor, 2) == 2 && fast_actor_index(actor, 4) == 1);
    NEED(fast_actor_first(actor, "server") == 3 && fast_actor_size(actor, "server") == 2);
    NEED(fast_actor_first(actor, "client") == -1 && fast_actor_size(actor, "client") == 0);
    NEED(fast_actor_life(actor) == 0 && fast_actor_node(actor, me) == 0);
    NEED(fast_actor_is_local(actor, (me + 1) % 5));
    const int64_t then = fast_now(actor);
    NEED(then >= 0);
    FAST_TRY(fast_sleep_until(actor, then + 2000000));
    NEED(fast_now(actor) >= then + 2000000);

    /* The stream is the actor's and the seed's alone. */
    fast_rng rng;
    fast__rng_init(&rng, 1, FAST_PURPOSE_ACTOR, (uint64_t)me, 0, 0);
    const uint64_t high = fast__rng_u32(&rng), low = fast__rng_u32(&rng);
    NEED(fast_random(actor) == (high << 32 | low));
    return FAST_OK;
}

static void actors_know_each_other(void **state)
{
    (void)state;
    const fast_role roles[] = { { "worker", 3, who, NULL }, { "server", 2, who, NULL } };
    run(roles, 2);
}

/* Everyone sends COUNT numbered messages with two tags to everyone, itself too. */
static fast_err everyone(fast_actor *actor, void *ctx)
{
    enum { COUNT = 50 };
    (void)ctx;
    const int64_t actors = fast_actor_count(actor);
    for (int64_t i = 0; i < COUNT; i++)
        for (int64_t to = 0; to < actors; to++)
            FAST_TRY(send_word(actor, to, (uint64_t)(3 + i % 2), i));
    /* Of one sender, tag by tag; of the others, as they come. */
    for (int64_t i = 1; i < COUNT; i += 2) {
        int64_t word = -1;
        FAST_TRY(receive_word(actor, 0, 4, FAST_SOON, &word));
        NEED(word == i);
    }
    int64_t next[16][2] = { { 0 } };
    next[0][1] = COUNT;
    for (int64_t i = 0; i < (2 * actors - 1) * COUNT / 2; i++) {
        fast_msg *msg = NULL;
        FAST_TRY(fast_receive(actor, FAST_ANY, FAST_TAG_ANY, FAST_SOON, &msg));
        const int64_t from = msg->from, word = msg->words[0];
        const bool good = msg->to == fast_actor_id(actor) && msg->tag == (uint64_t)(3 + word % 2) &&
                          word / 2 == next[from][word % 2];
        fast_msg_free(msg);
        NEED(good);
        next[from][word % 2]++;
    }
    fast_msg *msg = NULL;
    NEED(fast_receive(actor, fast_actor_id(actor), 3, FAST_AT_ONCE, &msg) == FAST_ETIMEDOUT);
    return FAST_OK;
}

static void order_holds_for_each_pair(void **state)
{
    (void)state;
    const fast_role roles[] = { { "worker", 5, everyone, NULL } };
    run(roles, 1);
}

/* Actor 0 waits with every kind of deadline; actor 1 answers when it is told to. */
static fast_err deadlines(fast_actor *actor, void *ctx)
{
    (void)ctx;
    fast_msg *msg = NULL;
    int64_t word = 0;
    if (fast_actor_id(actor) == 1) {
        FAST_TRY(receive_word(actor, 0, 1, FAST_SOON, &word));
        return send_word(actor, 0, 2, 44);
    }
    NEED(fast_receive(actor, 1, 2, FAST_AT_ONCE, &msg) == FAST_ETIMEDOUT);
    NEED(msg == NULL);
    fast_actor_at(actor, 12, "weights");
    NEED(fast_receive(actor, 1, 2, 1, &msg) == FAST_ETIMEDOUT); /* long past */
    const int64_t then = fast_now(actor);
    NEED(fast_receive(actor, 1, 2, then + 20000000, &msg) == FAST_ETIMEDOUT);
    NEED(fast_now(actor) >= then + 20000000);
    NEED(strstr(fast_error_detail(), "worker 0") && strstr(fast_error_detail(), "worker 1"));
    NEED(strstr(fast_error_detail(), "12") && strstr(fast_error_detail(), "weights"));
    NEED(fast_receive(actor, FAST_ANY, 2, then + 20000001, &msg) == FAST_ETIMEDOUT);
    NEED(msg == NULL);
    FAST_TRY(send_word(actor, 1, 1, 0));
    FAST_TRY(receive_word(actor, 1, 2, FAST_SOON, &word));
    NEED(word == 44);
    /* A message that has arrived is received although the deadline has passed. */
    FAST_TRY(send_word(actor, 0, 3, 45));
    FAST_TRY(receive_word(actor, 0, 3, 1, &word));
    NEED(word == 45);
    FAST_TRY(send_word(actor, 0, 3, 46));
    FAST_TRY(receive_word(actor, 0, 3, FAST_AT_ONCE, &word));
    NEED(word == 46);
    return FAST_OK;
}

static void waits_end_by_their_deadlines(void **state)
{
    (void)state;
    const fast_role roles[] = { { "worker", 2, deadlines, NULL } };
    run(roles, 1);
}

static fast_err soon(fast_actor *actor, void *ctx)
{
    int64_t word = 0;
    (void)ctx;
    if (fast_actor_id(actor) == 1) /* stays until it is told */
        return receive_word(actor, 0, 1, INT64_MAX, &word);
    NEED(receive_word(actor, 1, 2, FAST_SOON, &word) == FAST_ETIMEDOUT);
    NEED(fast_now(actor) >= 50000000);
    return send_word(actor, 1, 1, 0);
}

static void soon_is_the_timeout(void **state)
{
    (void)state;
    const fast_role roles[] = { { "worker", 2, soon, NULL } };
    fast_actors_result result;
    run_on((const char *[]){ "timeout=0.05", NULL }, roles, 1, &result);
    assert_true(result.wait_ns >= 50000000);
    assert_true(result.time_ns >= 50000000);
}

/* Busy until actor 0 says that it is done. */
static fast_err be_busy(fast_actor *actor)
{
    int64_t word = 0;
    fast_err err = FAST_ETIMEDOUT;
    for (int i = 0; i < 30000 && err == FAST_ETIMEDOUT; i++) {
        FAST_TRY(fast_sleep_until(actor, fast_now(actor) + 1000000));
        err = receive_word(actor, 0, 1, FAST_AT_ONCE, &word);
    }
    return err;
}

/* 3 sends nothing, so 2 times out; 1 waits for 2 and 0 for 1: both learn who is behind it. */
static fast_err chain(fast_actor *actor, void *ctx)
{
    fast_msg *msg = NULL;
    char name[32];
    (void)ctx;
    switch (fast_actor_id(actor)) {
    case 3:
        return be_busy(actor);
    case 2:
        return fast_receive(actor, 3, 9, fast_now(actor) + 100000000, &msg);
    case 1:
        return fast_receive(actor, 2, 9, FAST_SOON, &msg);
    default:
        NEED(fast_receive(actor, 1, 9, FAST_SOON, &msg) == FAST_EPEER);
        NEED(strstr(fast_error_detail(), "worker 1 left") != NULL);
        /* On a busy machine 2 may find that it was not served itself, or that another one did not
         * answer in its tick of a few milliseconds; blame_test.c has the exact cases. */
        snprintf(name, sizeof name, "worker %lld", (long long)actor->culprit);
        NEED(strstr(fast_error_detail(), name) != NULL);
        NEED(send_word(actor, 1, 9, 0) == FAST_EPEER);
        NEED(fast_member_is_down(actor, 1) && !fast_member_is_down(actor, 3));
        return send_word(actor, 3, 1, 0);
    }
}

static void who_left_is_blamed_through_the_chain(void **state)
{
    (void)state;
    const fast_role roles[] = { { "worker", 4, chain, NULL } };
    fast_actors_result result;
    /* The first failure by number is the run's. */
    const fast_err err = fast_actors_run(NULL, roles, 1, &result);
    if (err != FAST_EPEER)
        fail_msg("%s: %s", fast_err_name(err), fast_error_detail());
    assert_memory_equal(fast_error_detail(), "worker 1: worker 2 left", 23);
    assert_int_equal(result.ended_count, 2);
}

/* Messages of an actor that has ended are received first; then it is gone. */
static fast_err leaver(fast_actor *actor, void *ctx)
{
    int64_t word = 0;
    fast_msg *msg = NULL;
    (void)ctx;
    if (fast_actor_id(actor) == 1) {
        for (int64_t i = 0; i < 10; i++)
            FAST_TRY(send_word(actor, 0, 1, i));
        return FAST_OK;
    }
    FAST_TRY(fast_sleep_until(actor, 50000000));
    for (int64_t i = 0; i < 10; i++) {
        FAST_TRY(receive_word(actor, i % 2 ? 1 : FAST_ANY, 1, FAST_SOON, &word));
        NEED(word == i);
    }
    NEED(fast_receive(actor, 1, 1, FAST_SOON, &msg) == FAST_EPEER);
    NEED(fast_receive(actor, 1, 1, FAST_AT_ONCE, &msg) == FAST_EPEER);
    NEED(strcmp(fast_error_detail(), "worker 1 has ended") == 0);
    NEED(fast_receive(actor, FAST_ANY, 1, FAST_SOON, &msg) == FAST_EPEER); /* nobody is left */
    NEED(send_word(actor, 1, 1, 0) == FAST_EPEER);
    fast_member member;
    NEED(fast_member_next(actor, &member));
    NEED(member.id == 1 && member.down && member.ended && member.culprit == -1);
    NEED(!fast_member_next(actor, &member));
    /* Oneself is still there. */
    FAST_TRY(send_word(actor, 0, 5, 50));
    return receive_word(actor, FAST_ANY, 5, FAST_SOON, &word);
}

static void the_last_words_are_heard(void **state)
{
    (void)state;
    const fast_role roles[] = { { "worker", 2, leaver, NULL } };
    run(roles, 1);
}

/* A canceled run: every call says so, at once. */
static fast_err stopped(fast_actor *actor, void *ctx)
{
    fast_msg *msg = NULL;
    (void)ctx;
    if (fast_actor_id(actor) == 0) {
        FAST_TRY(fast_sleep_until(actor, 20000000));
        atomic_store(&actor->world->canceled, true);
        actor->world->transport->wake(actor, 1);
        return FAST_OK;
    }
    NEED(fast_receive(actor, 0, 1, FAST_SOON, &msg) == FAST_ECANCELED);
    NEED(fast_receive(actor, 1, 1, FAST_AT_ONCE, &msg) == FAST_ECANCELED);
    NEED(send_word(actor, 1, 1, 0) == FAST_ECANCELED);
    NEED(fast_sleep_until(actor, 3000000000) == FAST_ECANCELED);
    NEED(fast_charge(actor, 1, 1) == FAST_ECANCELED);
    return FAST_ECANCELED;
}

static void a_canceled_run_ends(void **state)
{
    (void)state;
    const fast_role roles[] = { { "worker", 2, stopped, NULL } };
    assert_int_equal(fast_actors_run(NULL, roles, 1, NULL), FAST_ECANCELED);
}

/* A task that counts messages with its tag, and ends after some. */
typedef struct counter {
    fast_task task;
    int64_t seen;
    int64_t wanted;
} counter;

static fast_err count_advance(fast_actor *actor, fast_task *task, bool *done)
{
    counter *c = (counter *)task;
    fast_msg *msg;
    while (c->seen < c->wanted && (msg = fast__take(actor, FAST_ANY, 77)) != NULL) {
        c->seen++;
        const bool bad = msg->words[0] < 0;
        fast_msg_free(msg);
        if (bad)
            return fast__fail(FAST_EFORMAT, "a bad number");
    }
    *done = c->seen == c->wanted;
    return FAST_OK;
}

static fast_err poster(fast_actor *actor, void *ctx)
{
    (void)ctx;
    int64_t word = 0;
    if (fast_actor_id(actor) == 1) {
        for (int64_t i = 0; i < 11; i++)
            FAST_TRY(send_word(actor, 0, 77, i));
        FAST_TRY(receive_word(actor, 0, 2, FAST_SOON, &word));
        FAST_TRY(send_word(actor, 0, 77, -1));
        FAST_TRY(send_word(actor, 0, 1, 0));
        return FAST_OK;
    }
    counter first = { .task = { .advance = count_advance }, .wanted = 4 };
    counter second = { .task = { .advance = count_advance }, .wanted = 7 };
    counter third = { .task = { .advance = count_advance }, .wanted = 1 };
    fast__post(actor, &first.task);
    fast__post(actor, &second.task);
    const fast_wait wait = { .whom = FAST_ANY,
                             .since = fast_now(actor),
                             .deadline = fast__deadline(actor, FAST_SOON),
                             .doing = "count" };
    while (!second.task.done)
        FAST_TRY(fast__wait_once(actor, &wait));
    NEED(first.task.done && first.seen == 4 && second.seen == 7);
    NEED(actor->tasks == NULL);
    fast__post(actor, &third.task);
    FAST_TRY(send_word(actor, 1, 2, 0));
    FAST_TRY(receive_word(actor, 1, 1, FAST_SOON, &word)); /* any wait advances it */
    fast__progress(actor);
    NEED(third.task.done && third.task.err == FAST_EFORMAT);
    fast__post(actor, &second.task);
    fast__unpost(actor, &second.task);
    fast__unpost(actor, &second.task);
    NEED(actor->tasks == NULL);
    return FAST_OK;
}

static void tasks_advance_in_waits(void **state)
{
    (void)state;
    const fast_role roles[] = { { "worker", 2, poster, NULL } };
    run(roles, 1);
}

typedef struct sum {
    fast_work work;
    int64_t total;
    int64_t reported;
} sum;

static fast_err sum_run(fast_work *work)
{
    sum *s = (sum *)work;
    for (int64_t i = 0; i < 10; i++) {
        s->total += i;
        fast_work_report(work, 10, i, 1);
    }
    work->operations = 100;
    return FAST_OK;
}

static void sum_report(void *ctx, int64_t offset, int64_t count)
{
    *(int64_t *)ctx += offset + count;
}

static fast_err computer(fast_actor *actor, void *ctx)
{
    (void)ctx;
    sum s = { .work = { .run = sum_run, .report = sum_report, .name = "sum" } };
    s.work.ctx = &s.reported;
    FAST_TRY(fast_compute(actor, &s.work));
    NEED(s.total == 45 && s.reported == 55);
    s.work.report = NULL;
    FAST_TRY(fast_compute(actor, &s.work));
    NEED(s.total == 90 && s.reported == 55);
    return fast_charge(actor, 1e6, 1e6);
}

static void computing_reports(void **state)
{
    (void)state;
    const fast_role roles[] = { { "worker", 1, computer, NULL } };
    run(roles, 1);
}

static void refuses(const char *const *options, const fast_role *roles, int64_t count,
                    fast_err expected, const char *says)
{
    assert_int_equal(fast_actors_run(options, roles, count, NULL), expected);
    if (!strstr(fast_error_detail(), says))
        fail_msg("\"%s\" does not say \"%s\"", fast_error_detail(), says);
}

static void wrong_options_and_roles_are_refused(void **state)
{
    (void)state;
    const fast_role good[] = { { "worker", 2, who, NULL } };
    const fast_role twice[] = { { "worker", 2, who, NULL }, { "worker", 2, who, NULL } };
    const fast_role none[] = { { "worker", 0, who, NULL } };
    const fast_role many[] = { { "worker", INT64_MAX, who, NULL } };
    const fast_role idle[] = { { "worker", 1, NULL, NULL } };
    const fast_role unnamed[] = { { "", 1, who, NULL } };
    refuses((const char *[]){ "transport=threats", NULL }, good, 1, FAST_EINVAL, "\"threads\"");
    refuses((const char *[]){ "transpor=threads", NULL }, good, 1, FAST_EINVAL, "transport");
    refuses((const char *[]){ "transport", NULL }, good, 1, FAST_EINVAL, "name=value");
    refuses((const char *[]){ "timeout=0", NULL }, good, 1, FAST_EINVAL, "timeout");
    refuses((const char *[]){ "cluster=wan", NULL }, good, 1, FAST_EINVAL,
            "cluster=wan needs transport=sim, not threads");
    refuses((const char *[]){ "faults=random", NULL }, good, 1, FAST_EINVAL,
            "faults=random needs transport=sim, not threads");
#ifndef FAST_HAVE_MPI
    refuses((const char *[]){ "transport=mpi", NULL }, good, 1, FAST_ENOTSUP, "-DFAST_MPI=ON");
#endif
    refuses(NULL, twice, 2, FAST_EINVAL, "two roles are named worker");
    refuses(NULL, none, 1, FAST_EINVAL, "0 actors");
    refuses(NULL, many, 1, FAST_EINVAL, "actors");
    refuses(NULL, idle, 1, FAST_EINVAL, "no program");
    refuses(NULL, unnamed, 1, FAST_EINVAL, "no name");
    refuses(NULL, NULL, 0, FAST_EINVAL, "no roles");
}

static void the_parts_are_listed(void **state)
{
    (void)state;
    int64_t count = 0;
    const fast_part *part = fast_part_list("actors", &count);
    assert_int_equal(count, 1);
    assert_string_equal(part->options[0].name, "transport");
    part = fast_part_list("transport", &count);
    assert_true(count >= 1);
    assert_string_equal(part->name, "threads");
}

/* Fail the n-th allocation of opening a world: each is an error, and leaves nothing behind. */
static void every_allocation_of_open_may_fail(void **state)
{
    (void)state;
    const fast_role roles[] = { { "worker", 3, who, NULL } };
    for (int check = 0; check <= 1; check++)
        for (int64_t n = 0;; n++) {
            const char *options[] = { check ? "check=yes" : "check=no", "trace=unused.json", NULL };
            fast_actors_config config;
            fast_world *world = NULL;
            assert_int_equal(fast__actors_parse(options, &config), FAST_OK);
            fast__alloc_fail_after(n, true);
            const fast_err err = fast__world_open(&config, roles, 1, &world);
            fast__alloc_fail_after(-1, true);
            fast__world_close(world);
            if (!err) {
                assert_true(n > 4);
                break;
            }
            assert_int_equal(err, FAST_ENOMEM);
            assert_null(world);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(absurd_sizes_are_refused),
        cmocka_unit_test(actors_know_each_other),
        cmocka_unit_test(order_holds_for_each_pair),
        cmocka_unit_test(waits_end_by_their_deadlines),
        cmocka_unit_test(soon_is_the_timeout),
        cmocka_unit_test(who_left_is_blamed_through_the_chain),
        cmocka_unit_test(the_last_words_are_heard),
        cmocka_unit_test(a_canceled_run_ends),
        cmocka_unit_test(tasks_advance_in_waits),
        cmocka_unit_test(computing_reports),
        cmocka_unit_test(wrong_options_and_roles_are_refused),
        cmocka_unit_test(the_parts_are_listed),
        cmocka_unit_test(every_allocation_of_open_may_fail),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
