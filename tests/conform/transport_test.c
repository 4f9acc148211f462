/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Goal: every transport keeps the contract of comm.h and transport.h.
 * Method: one suite of small programs of actors, run on each transport of the registry, bare and
 * wrapped in `check`: a new transport is tested by existing. Started by mpirun, all ranks run it on
 * the transport mpi, and each looks at the actors that it hosts. The options of runs, and runs
 * without memory, are tested once.
 *
 * An argument restricts it to the cases whose name holds that text.
 */
#include "conform/transport_suite.h"

#include "base/memory.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { CASES_MAX = 400, NAME_MAX_SIZE = 96 };

/* A case on a transport. */
typedef struct planned {
    suite on;
    const suite_case *what;
    char name[NAME_MAX_SIZE];
} planned;

static const suite_case *const lists[] = { suite_messages, suite_buffers, suite_waits,
                                           suite_members, suite_compute };

/* Started by mpirun or srun. */
static bool under_mpi(void)
{
    return getenv("OMPI_COMM_WORLD_SIZE") || getenv("PMI_RANK") || getenv("PMIX_RANK");
}

static void test_case(void **state)
{
    const planned *plan = *state;
    const fast_err err = plan->what->run(&plan->on);
    if (err)
        fail_msg("%s: %s: %s", plan->name, fast_err_name(err), fast_error_detail());
}

static fast_err idle_main(fast_actor *actor, void *ctx)
{
    (void)ctx;
    return EXPECT(fast_actor_id(actor) >= 0);
}

/* Every bad option is refused with one sentence that shows what was wrong. */
static void test_options(void **state)
{
    (void)state;
    static const struct {
        const char *option;
        const char *said; /* in the detail */
    } bad[] = {
        { "transport=thread", "threads" },
        { "transport=", "transport" },
        { "transport=check", "check" },
        { "sead=1", "seed" },
        { "seed=-1", "seed" },
        { "seed=x", "seed" },
        { "seed=1e3", "seed" },
        { "timeout=0", "timeout" },
        { "timeout=-3", "timeout" },
        { "timeout=nan", "timeout" },
        { "timeout=inf", "timeout" },
        { "check=maybe", "check" },
        { "pool=-1", "pool" },
        { "pool=99999999999999999999", "pool" },
        { "seed", "seed" },
        { "", "name=value" },
        { "=3", "" },
        { "faults=random", "sim" },
        { "cluster=laptop", "sim" },
    };
    const fast_role role = { "worker", 2, idle_main, NULL };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        const char *options[] = { bad[i].option, NULL };
        const fast_err err = fast_actors_run(options, &role, 1, NULL);
        const char *detail = fast_error_detail();
        if (err != FAST_EINVAL || !strstr(detail, bad[i].said) || !detail[0] ||
            strchr(detail, '\n') || detail[strlen(detail) - 1] == '.')
            fail_msg("\"%s\" gives %s: %s", bad[i].option, fast_err_name(err), detail);
    }
}

static void expect_bad_roles(const fast_role *roles, int64_t count, const char *said)
{
    const fast_err err = fast_actors_run(NULL, roles, count, NULL);
    if (err != FAST_EINVAL || !strstr(fast_error_detail(), said))
        fail_msg("%s gives %s: %s", said, fast_err_name(err), fast_error_detail());
}

static void test_roles(void **state)
{
    (void)state;
    expect_bad_roles(NULL, 0, "role");
    expect_bad_roles(&(fast_role){ "worker", 0, idle_main, NULL }, 1, "worker");
    expect_bad_roles(&(fast_role){ "worker", -5, idle_main, NULL }, 1, "-5");
    expect_bad_roles(&(fast_role){ "worker", INT64_MAX, idle_main, NULL }, 1, "worker");
    expect_bad_roles(&(fast_role){ "worker", 1, NULL, NULL }, 1, "program");
    expect_bad_roles(&(fast_role){ "", 1, idle_main, NULL }, 1, "name");
    expect_bad_roles(&(fast_role){ NULL, 1, idle_main, NULL }, 1, "name");
    const fast_role twice[] = { { "worker", 1, idle_main, NULL },
                                { "worker", 1, idle_main, NULL } };
    expect_bad_roles(twice, 2, "worker");
}

/* Sends and receives a little, so that pools are needed. */
static fast_err little_main(fast_actor *actor, void *ctx)
{
    (void)ctx;
    const int64_t count = fast_actor_count(actor), id = fast_actor_id(actor);
    FAST_TRY(suite_send_bytes(actor, (id + 1) % count, 1, id, 100));
    fast_msg *msg = NULL;
    FAST_TRY(fast_receive(actor, (id + count - 1) % count, 1, FAST_SOON, &msg));
    fast_msg_free(msg);
    return FAST_OK;
}

/* Fail the n-th allocation of the calling thread: the run fails for that reason, or does without;
 * the sanitizers look for leaks. */
static void test_no_memory(void **state)
{
    const planned *plan = *state;
    for (int64_t n = 0;; n++) {
        assert_true(n < 10000);
        const int64_t before = fast__alloc_count();
        fast__alloc_fail_after(n, true);
        const fast_err err = suite_run(&plan->on, little_main, NULL, 2, "timeout=0.5", NULL);
        fast__alloc_fail_after(-1, true);
        const bool reached = fast__alloc_count() - before > n;
        if (err && err != FAST_ENOMEM && err != FAST_EPEER && err != FAST_ETIMEDOUT)
            fail_msg("allocation %lld: %s: %s", (long long)n, fast_err_name(err),
                     fast_error_detail());
        if (!reached) {
            assert_int_equal(err, FAST_OK);
            break;
        }
    }
}

int main(int count, char **arguments)
{
    static planned plans[CASES_MAX];
    static const suite_case no_memory = { "no memory", NULL, false };
    struct CMUnitTest tests[CASES_MAX + 2];
    size_t used = 0;
    const bool mpi = under_mpi();
    for (int i = 0; fast__transports[i]; i++) {
        const char *name = fast__transports[i]->name;
        if ((strcmp(name, "mpi") == 0) != mpi)
            continue;
        for (int way = 0; way < (mpi ? 2 : 3); way++) {
            /* Bare, checked, and, where one process hosts all, as a pair. */
            const suite on = { name, way == 1, !mpi, way == 2 ? 2 : SUITE_ACTORS };
            for (size_t k = 0; k < sizeof lists / sizeof *lists; k++)
                for (const suite_case *c = lists[k]; c->name; c++)
                    if (way != 2 || c->pair)
                        plans[used++] = (planned){ .on = on, .what = c };
            if (!mpi && way != 2)
                plans[used++] = (planned){ .on = on, .what = &no_memory };
            assert_true(used < CASES_MAX - 64);
        }
    }
    size_t test_count = 0;
    for (size_t i = 0; i < used; i++) {
        planned *p = &plans[i];
        snprintf(p->name, sizeof p->name, "%s%s: %s", p->on.transport,
                 p->on.check        ? " checked"
                 : p->on.count == 2 ? " pair"
                                    : "",
                 p->what->name);
        if (count > 1 && !strstr(p->name, arguments[1]))
            continue;
        tests[test_count++] =
            (struct CMUnitTest){ p->name, p->what == &no_memory ? test_no_memory : test_case, NULL,
                                 NULL, p };
    }
    if (count < 2 && !mpi) {
        tests[test_count++] = (struct CMUnitTest)cmocka_unit_test(test_options);
        tests[test_count++] = (struct CMUnitTest)cmocka_unit_test(test_roles);
    }
    return _cmocka_run_group_tests("transports", tests, test_count, NULL, NULL);
}
