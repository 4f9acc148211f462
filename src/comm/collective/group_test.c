/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Goal: groups of any members work beside each other; wrong ones are refused; what is left of an
 *   old generation is dropped; a group that failed refuses every call and says why; nothing is
 *   allocated once a group is warm, and nothing leaks where memory runs out.
 * Method: small programs of actors on threads and on sim; each checks its own side and reports by
 *   failing.
 */
#include "base/err.h"
#include "base/memory.h"
#include "comm/collective.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

/* A condition of an actor's program, which cmocka's own checks must not jump out of. */
#define EXPECT(cond) expect((cond), __LINE__, #cond)

static fast_err expect(bool holds, int line, const char *what)
{
    if (holds)
        return FAST_OK;
    char last[256];
    snprintf(last, sizeof last, "%s", fast_error_detail());
    return fast__fail(FAST_EINVAL, "line %d: %s; last error: %s", line, what, last);
}

static const char *const transports[] = { "threads", "sim", NULL };

static fast_err run(const char *transport, int64_t actors, fast_actor_fn *program,
                    fast_actors_result *result)
{
    const fast_role roles[] = { { "worker", actors, program, NULL } };
    char option[64];
    snprintf(option, sizeof option, "transport=%s", transport);
    const char *options[] = { option, "timeout=20", NULL };
    return fast_actors_run(options, roles, 1, result);
}

/* Run it on every transport; it must end well. */
static void run_all(int64_t actors, fast_actor_fn *program)
{
    for (int i = 0; transports[i]; i++) {
        const fast_err err = run(transports[i], actors, program, NULL);
        if (err)
            print_error("%s: %s\n", transports[i], fast_error_detail());
        assert_int_equal(err, FAST_OK);
    }
}

static fast_err refused(fast_actor *actor, void *ctx)
{
    const int64_t self = fast_actor_id(actor), other = 1 - self;
    const int64_t none[] = { other }, twice[] = { self, other, self }, far[] = { self, 2 };
    const int64_t below[] = { -1, self }, both[] = { 1, 0 };
    fast_group *group = NULL;
    (void)ctx;
    FAST_TRY(EXPECT(fast_group_new(actor, none, 1, 1, &group) == FAST_EINVAL));
    FAST_TRY(EXPECT(strstr(fast_error_detail(), "not a member") != NULL));
    FAST_TRY(EXPECT(fast_group_new(actor, twice, 3, 1, &group) == FAST_EINVAL));
    FAST_TRY(EXPECT(strstr(fast_error_detail(), "twice") != NULL));
    FAST_TRY(EXPECT(fast_group_new(actor, far, 2, 1, &group) == FAST_EINVAL));
    FAST_TRY(EXPECT(fast_group_new(actor, below, 2, 1, &group) == FAST_EINVAL));
    FAST_TRY(EXPECT(fast_group_new(actor, both, 0, 1, &group) == FAST_EINVAL));
    FAST_TRY(EXPECT(fast_group_new(actor, both, 2, 0, &group) == FAST_EINVAL));
    FAST_TRY(EXPECT(fast_group_all(actor, "server", &group) == FAST_EINVAL));
    FAST_TRY(EXPECT(group == NULL));

    FAST_TRY(fast_group_new(actor, both, 2, 3, &group));
    FAST_TRY(EXPECT(fast_group_rank(group) == 1 - self && fast_group_size(group) == 2));
    FAST_TRY(EXPECT(fast_group_member(group, 0) == 1 && fast_group_generation(group) == 3));
    float x = 1;
    FAST_TRY(EXPECT(fast_reduce(group, 2, &x, 1, FAST_SOON) == FAST_EINVAL));
    FAST_TRY(EXPECT(fast_broadcast(group, -1, &x, 4, FAST_SOON) == FAST_EINVAL));
    FAST_TRY(EXPECT(fast_allreduce(group, &x, -1, FAST_SOON) == FAST_EINVAL));
    FAST_TRY(EXPECT(fast_alltoall(group, NULL, INT64_MAX / 8, NULL, FAST_SOON) == FAST_EINVAL));
    FAST_TRY(EXPECT(fast_group_algorithm(group, "buterfly") == FAST_EINVAL));
    FAST_TRY(EXPECT(strstr(fast_error_detail(), "did you mean \"butterfly\"") != NULL));
    FAST_TRY(EXPECT(fast_group_algorithm(group, "ring:chunk=-1") == FAST_EINVAL));
    FAST_TRY(EXPECT(fast_group_algorithm(group, "auto:x=1") == FAST_EINVAL));
    FAST_TRY(EXPECT(fast_group_algorithm(group, "native") == FAST_ENOTSUP));
    FAST_TRY(EXPECT(strstr(fast_error_detail(), "native needs mpi") != NULL));
    /* None of that was a collective: the group still works. */
    const fast_err err = fast_allreduce(group, &x, 1, FAST_SOON);
    FAST_TRY(EXPECT(err == FAST_OK && x == 2));
    fast_group_free(group);
    fast_group_free(NULL);
    return FAST_OK;
}

static void test_refused(void **state)
{
    (void)state;
    run_all(2, refused);
}

/* Even and odd actors in reverse order, and all of them, by turns. */
static fast_err overlapping(fast_actor *actor, void *ctx)
{
    const int64_t self = fast_actor_id(actor), n = fast_actor_count(actor);
    int64_t ids[16], count = 0;
    fast_group *half = NULL, *all = NULL;
    (void)ctx;
    for (int64_t id = n - 1; id >= 0; id--)
        if (id % 2 == self % 2)
            ids[count++] = id;
    FAST_TRY(fast_group_new(actor, ids, count, 1, &half));
    FAST_TRY(fast_group_all(actor, NULL, &all));
    FAST_TRY(fast_group_algorithm(half, "tree"));
    FAST_TRY(fast_group_algorithm(all, "rabenseifner"));
    for (int step = 0; step < 20; step++) {
        float x[3] = { (float)self, 1, (float)step };
        FAST_TRY(fast_allreduce(half, x, 3, FAST_SOON));
        FAST_TRY(EXPECT(x[1] == (float)count && x[2] == (float)(step * count)));
        FAST_TRY(fast_allreduce(all, x, 3, FAST_SOON));
        float want = 0;
        for (int64_t id = 0; id < n; id++)
            want += (float)(id * (id % 2 ? n / 2 : n - n / 2));
        FAST_TRY(EXPECT(x[0] == want));
    }
    fast_group_free(half);
    fast_group_free(all);
    return FAST_OK;
}

static void test_overlapping(void **state)
{
    (void)state;
    run_all(7, overlapping);
}

/* Two groups of the same members and generation, used unevenly and at once, made again. */
static fast_err twins(fast_actor *actor, void *ctx)
{
    const float n = (float)fast_actor_count(actor);
    (void)ctx;
    for (int life = 0; life < 3; life++) {
        fast_group *a = NULL, *b = NULL;
        FAST_TRY(fast_group_all(actor, NULL, &a));
        FAST_TRY(fast_group_all(actor, NULL, &b));
        FAST_TRY(EXPECT(a->key != b->key));
        FAST_TRY(fast_group_algorithm(a, "auto"));
        FAST_TRY(fast_group_algorithm(b, "auto"));
        for (int i = 0; i < 7; i++) {
            float x[3] = { 1, 2, (float)i }, y[3] = { 5, 6, (float)i };
            fast_request *first = NULL, *second = NULL;
            if (i % 3)
                FAST_TRY(fast_allreduce(a, x, 3, FAST_SOON));
            FAST_TRY(EXPECT(x[0] == (i % 3 ? n : 1)));
            FAST_TRY(fast_allreduce_start(a, x, 3, &first));
            FAST_TRY(fast_allreduce_start(b, y, 3, &second));
            FAST_TRY(fast_request_wait(&second, FAST_SOON));
            FAST_TRY(fast_request_wait(&first, FAST_SOON));
            FAST_TRY(EXPECT(x[0] == (i % 3 ? n * n : n) && y[0] == 5 * n));
        }
        fast_group_free(a);
        fast_group_free(b);
    }
    return FAST_OK;
}

static void test_twins(void **state)
{
    (void)state;
    for (int64_t n = 1; n <= 5; n++)
        run_all(n, twins);
}

/* Actor 0 gives up on generation 1 while actor 1 still sends in it; then both continue in 2. */
static fast_err generations(fast_actor *actor, void *ctx)
{
    const int64_t self = fast_actor_id(actor);
    const int64_t ids[] = { 0, 1 };
    fast_group *old = NULL, *new = NULL;
    (void)ctx;
    float x = (float)self;
    FAST_TRY(fast_group_new(actor, ids, 2, 1, &old));
    FAST_TRY(fast_group_algorithm(old, "butterfly"));
    fast_request *request = NULL;
    if (self == 1)
        FAST_TRY(fast_allreduce_start(old, &x, 1, &request));
    FAST_TRY(fast_group_new(actor, ids, 2, 2, &new));
    FAST_TRY(fast_barrier(new, FAST_SOON));
    if (self == 0) {
        /* The message of actor 1 has arrived, and does not count. */
        FAST_TRY(EXPECT(fast_allreduce(old, &x, 1, FAST_AT_ONCE) == FAST_ETIMEDOUT));
        FAST_TRY(EXPECT(actor->counters.messages_stale == 1));
    }
    fast_group_free(old);
    if (request)
        FAST_TRY(EXPECT(fast_request_wait(&request, FAST_AT_ONCE) == FAST_ECANCELED));
    float y = 1;
    FAST_TRY(fast_allreduce(new, &y, 1, FAST_SOON));
    FAST_TRY(EXPECT(y == 2));
    fast_group_free(new);
    return FAST_OK;
}

static void test_generations(void **state)
{
    (void)state;
    run_all(2, generations);
}

/* Rows and columns of a square, made in this order: the list {0, 2} is not the actors 0 and 1. */
static fast_err crossing(fast_actor *actor, void *ctx)
{
    const int64_t self = fast_actor_id(actor);
    const int64_t row[] = { self / 2 * 2, self / 2 * 2 + 1 }, column[] = { self % 2, self % 2 + 2 };
    fast_group *rows = NULL, *columns = NULL;
    float x = (float)self, y = (float)self;
    (void)ctx;
    FAST_TRY(fast_group_new(actor, row, 2, 1, &rows));
    FAST_TRY(fast_group_new(actor, column, 2, 1, &columns));
    FAST_TRY(fast_allreduce(rows, &x, 1, FAST_SOON));
    FAST_TRY(fast_allreduce(columns, &y, 1, FAST_SOON));
    FAST_TRY(EXPECT(x == (float)(row[0] + row[1])));
    FAST_TRY(EXPECT(y == (float)(column[0] + column[1])));
    fast_group_free(rows);
    fast_group_free(columns);
    return FAST_OK;
}

static void test_crossing(void **state)
{
    (void)state;
    run_all(4, crossing);
}

/* Worker 2 does not come: the others' errors say so, and again when they try again. */
static fast_err absent(fast_actor *actor, void *ctx)
{
    fast_group *group = NULL;
    (void)ctx;
    FAST_TRY(fast_group_all(actor, NULL, &group));
    FAST_TRY(fast_group_algorithm(group, "tree"));
    float x[2] = { 1, 2 };
    fast_err err = FAST_OK;
    if (fast_actor_id(actor) == 0) {
        err = fast_allreduce(group, x, 2, fast_now(actor) + 100000000);
        FAST_TRY(EXPECT(err == FAST_ETIMEDOUT));
        FAST_TRY(EXPECT(strstr(fast_error_detail(), "allreduce") != NULL));
        FAST_TRY(EXPECT(strstr(fast_error_detail(), "worker 2") != NULL));
        FAST_TRY(EXPECT(fast_barrier(group, FAST_SOON) == FAST_ETIMEDOUT));
        FAST_TRY(EXPECT(strstr(fast_error_detail(), "unusable") != NULL));
        FAST_TRY(EXPECT(strstr(fast_error_detail(), "worker 2") != NULL));
        fast_request *request = NULL;
        FAST_TRY(EXPECT(fast_allreduce_start(group, x, 2, &request) == FAST_ETIMEDOUT));
        FAST_TRY(EXPECT(request == NULL));
    } else if (fast_actor_id(actor) == 2) {
        FAST_TRY(fast_sleep_until(actor, fast_now(actor) + 300000000));
    } else {
        err = fast_allreduce(group, x, 2, fast_now(actor) + 100000000);
        FAST_TRY(EXPECT(err != FAST_OK));
    }
    fast_group_free(group);
    return FAST_OK;
}

static void test_absent(void **state)
{
    (void)state;
    run_all(3, absent);
}

/* Members that disagree about the count, or about having a vector, find out. */
static fast_err disagreeing(fast_actor *actor, void *ctx)
{
    const int64_t self = fast_actor_id(actor);
    float x[4] = { 0 };
    (void)ctx;
    for (uint32_t generation = 1; generation <= 2; generation++) {
        const int64_t ids[] = { 0, 1 };
        fast_group *group = NULL;
        FAST_TRY(fast_group_new(actor, ids, 2, generation, &group));
        FAST_TRY(fast_group_algorithm(group, "butterfly"));
        const fast_err err = generation == 1 ? fast_allreduce(group, x, 2 + self, FAST_SOON)
                                             : fast_allreduce(group, self ? NULL : x, 4, FAST_SOON);
        FAST_TRY(EXPECT(err == FAST_EINVAL));
        FAST_TRY(
            EXPECT(strstr(fast_error_detail(), self ? "worker 0 sent" : "worker 1 sent") != NULL));
        fast_group_free(group);
    }
    return FAST_OK;
}

static void test_disagreeing(void **state)
{
    (void)state;
    run_all(2, disagreeing);
}

/* Actors in turn on three nodes: any order of these sums has the same bits. */
static fast_err on_nodes(fast_actor *actor, void *ctx)
{
    const int64_t n = fast_actor_count(actor), self = fast_actor_id(actor);
    const char *algorithms[] = { "hierarchical", "hierarchical:across=tree",
                                 "hierarchical:members=3,across=butterfly" };
    fast_group *group = NULL;
    (void)ctx;
    FAST_TRY(fast_group_all(actor, NULL, &group));
    for (int a = 0; a < 3; a++) {
        float x[5];
        for (int i = 0; i < 5; i++)
            x[i] = (float)(self + i);
        FAST_TRY(fast_group_algorithm(group, algorithms[a]));
        FAST_TRY(fast_allreduce(group, x, 5, FAST_SOON));
        for (int64_t i = 0; i < 5; i++)
            FAST_TRY(EXPECT(x[i] == (float)(n * (n - 1) / 2 + n * i)));
    }
    fast_group_free(group);
    return FAST_OK;
}

static void test_nodes(void **state)
{
    (void)state;
    for (int64_t n = 1; n <= 11; n++) {
        const fast_role roles[] = { { "worker", n, on_nodes, NULL } };
        const char *options[] = { "transport=sim", "cluster=ethernet-10g:nodes=3", NULL };
        const fast_err err = fast_actors_run(options, roles, 1, NULL);
        if (err)
            print_error("%s\n", fast_error_detail());
        assert_int_equal(err, FAST_OK);
    }
}

/* Whatever allocates in `sim` is counted here, because all its actors are one thread's. */
static fast_err warm(fast_actor *actor, void *ctx)
{
    static const char *const algorithms[] = { "tree", "butterfly", "ring", "rabenseifner",
                                              "hierarchical:members=2" };
    enum { COUNT = 300, ROUNDS = 12 };
    const int64_t n = fast_actor_count(actor);
    float x[COUNT], y[8 * COUNT], z[8 * COUNT];
    fast_group *group = NULL;
    int64_t before = 0;
    (void)ctx;
    memset(x, 0, sizeof x);
    memset(z, 0, sizeof z);
    FAST_TRY(fast_group_all(actor, NULL, &group));
    for (int round = 0; round < ROUNDS; round++) {
        if (round == ROUNDS / 2)
            before = fast__alloc_count();
        if (round == ROUNDS - 1)
            FAST_TRY(EXPECT(fast__alloc_count() == before));
        for (int a = 0; a < 5; a++) {
            fast_request *requests[2];
            FAST_TRY(fast_group_algorithm(group, algorithms[a]));
            FAST_TRY(fast_allreduce(group, x, COUNT, FAST_SOON));
            FAST_TRY(fast_allreduce_start(group, x, COUNT / 2, &requests[0]));
            FAST_TRY(fast_allreduce_start(group, x + COUNT / 2, COUNT / 2, &requests[1]));
            FAST_TRY(fast_request_wait(&requests[0], FAST_SOON));
            FAST_TRY(fast_request_wait(&requests[1], FAST_SOON));
        }
        FAST_TRY(fast_reduce(group, n - 1, x, COUNT, FAST_SOON));
        FAST_TRY(fast_broadcast(group, n - 1, x, sizeof x, FAST_SOON));
        FAST_TRY(fast_reduce_scatter(group, x, COUNT, FAST_SOON));
        FAST_TRY(fast_allgather(group, x, COUNT, FAST_SOON));
        FAST_TRY(fast_alltoall(group, z, COUNT, y, FAST_SOON));
        FAST_TRY(fast_barrier(group, FAST_SOON));
    }
    FAST_TRY(EXPECT(n <= 8));
    fast_group_free(group);
    return FAST_OK;
}

static void test_warm(void **state)
{
    (void)state;
    run_all(1, warm);
    /* How many buffers are under way at once on several threads is theirs to decide. */
    const fast_err err = run("sim", 5, warm, NULL);
    if (err)
        print_error("%s\n", fast_error_detail());
    assert_int_equal(err, FAST_OK);
}

/* A group of one, so that nobody waits for an actor without memory. */
static fast_err starved(fast_actor *actor, void *ctx)
{
    const int64_t self = fast_actor_id(actor);
    (void)ctx;
    for (int64_t n = 0;; n++) {
        fast_group *group = NULL;
        fast_request *request = NULL;
        float x = 1;
        fast__alloc_fail_after(n, true);
        fast_err err = fast_group_new(actor, &self, 1, 1, &group);
        if (!err)
            err = fast_group_algorithm(group, "hierarchical:members=2");
        if (!err)
            err = fast_allreduce_start(group, &x, 1, &request);
        if (!err)
            err = fast_request_wait(&request, FAST_SOON);
        fast__alloc_fail_after(-1, true);
        FAST_TRY(EXPECT(request == NULL));
        fast_group_free(group);
        if (err == FAST_OK) {
            FAST_TRY(EXPECT(n >= 4 && x == 1));
            return FAST_OK;
        }
        FAST_TRY(EXPECT(err == FAST_ENOMEM));
    }
}

static void test_starved(void **state)
{
    (void)state;
    run_all(1, starved);
}

/* One member has no memory for a message: everyone's call ends, and the group is unusable. */
static fast_err starved_inside(fast_actor *actor, void *ctx)
{
    const int64_t n = fast_actor_count(actor);
    fast_group *group = NULL;
    float *x = NULL;
    (void)ctx;
    FAST_TRY(fast_group_all(actor, NULL, &group));
    FAST_TRY(fast_group_algorithm(group, "butterfly"));
    fast_err err = fast__alloc("a test's vector", 100000, sizeof *x, &x);
    if (fast_actor_id(actor) == n - 1)
        fast__alloc_fail_after(0, false);
    if (!err)
        err = fast_allreduce(group, x, 100000, fast_now(actor) + 200000000);
    fast__alloc_fail_after(-1, false);
    const fast_err again = fast_barrier(group, FAST_SOON);
    fast_group_free(group);
    fast__free(x);
    FAST_TRY(EXPECT(err != FAST_OK && again == err));
    FAST_TRY(EXPECT(fast_actor_id(actor) != n - 1 || err == FAST_ENOMEM));
    return FAST_OK;
}

static void test_starved_inside(void **state)
{
    (void)state;
    const fast_err err = run("threads", 3, starved_inside, NULL);
    if (err)
        print_error("%s\n", fast_error_detail());
    assert_int_equal(err, FAST_OK);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_refused),        cmocka_unit_test(test_overlapping),
        cmocka_unit_test(test_generations),    cmocka_unit_test(test_twins),
        cmocka_unit_test(test_crossing),       cmocka_unit_test(test_absent),
        cmocka_unit_test(test_disagreeing),    cmocka_unit_test(test_warm),
        cmocka_unit_test(test_nodes),          cmocka_unit_test(test_starved),
        cmocka_unit_test(test_starved_inside),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
