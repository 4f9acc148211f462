/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Binding of threads. Goal: places are the cores or NUMA nodes of a machine; clusters of workers
 * are each on one node; descriptions that make no sense are refused; a thread that is bound runs on
 * its core alone. Method: synthetic topologies of hwloc, and one thread of this machine.
 */
#include "base/binding.h"

#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "base/thread.h"

#ifdef FAST_HAVE_HWLOC
static void places_are_cores_and_nodes(void **state)
{
    fast_binding *cores = NULL, *nodes = NULL;

    (void)state;
    assert_int_equal(fast__binding_new(FAST_BIND_CORE, "numa:2 core:4 pu:2", &cores), FAST_OK);
    assert_int_equal(fast__binding_new(FAST_BIND_NUMA, "numa:2 core:4 pu:2", &nodes), FAST_OK);
    assert_int_equal(fast__binding_places(cores), 8);
    assert_int_equal(fast__binding_places(nodes), 2);
    for (int64_t i = 0; i < 8; i++) {
        assert_int_equal(fast__binding_place(cores, i, 8), i);
        assert_int_equal(fast__binding_node(cores, i), i / 4);
    }
    /* Two threads are on two nodes; 16 share cores in pairs. */
    assert_int_equal(fast__binding_node(cores, fast__binding_place(cores, 1, 2)), 1);
    assert_int_equal(fast__binding_place(cores, 15, 16), 7);
    fast__binding_free(cores);
    fast__binding_free(nodes);
}

/* As hogwild has them: worker i of P is in cluster i C / P. */
static void clusters_are_on_one_node(void **state)
{
    static const struct {
        const char *machine;
        int64_t nodes, clusters, workers;
    } cases[] = { { "numa:2 core:4 pu:1", 2, 2, 8 },
                  { "numa:2 core:4 pu:1", 2, 4, 8 },
                  { "numa:4 core:2 pu:2", 4, 4, 13 },
                  { "numa:3 core:2 pu:1", 3, 3, 7 },
                  { "numa:1 core:2 pu:1", 1, 2, 4 } };

    (void)state;
    for (size_t k = 0; k < sizeof cases / sizeof cases[0]; k++) {
        const int64_t c = cases[k].clusters, p = cases[k].workers;
        fast_binding *b = NULL;

        assert_int_equal(fast__binding_new(FAST_BIND_NUMA, cases[k].machine, &b), FAST_OK);
        assert_int_equal(fast__binding_places(b), cases[k].nodes);
        for (int64_t i = 0; i < p; i++) {
            const int64_t cluster = i * c / p, place = fast__binding_place(b, i, p);

            assert_int_equal(fast__binding_node(b, place), cluster * cases[k].nodes / c);
        }
        fast__binding_free(b);
    }
}

static void nonsense_is_refused(void **state)
{
    fast_binding *b = NULL;

    (void)state;
    assert_int_equal(fast__binding_new(FAST_BIND_CORE, "socket of wood", &b), FAST_EINVAL);
    assert_null(b);
}

/* Bind to the last core: the processors of this thread are then those of one core. */
static void *bound(void *ctx)
{
    const fast_binding *b = ctx;
    cpu_set_t set;
    int count = 0;

    if (!fast__binding_apply(b, fast__binding_places(b) - 1))
        return NULL; /* the system does not let it */
    assert_int_equal(sched_getaffinity(0, sizeof set, &set), 0);
    for (int i = 0; i < CPU_SETSIZE; i++)
        count += CPU_ISSET(i, &set) != 0;
    assert_in_range(count, 1, 8);
    assert_true(fast__binding_places(b) == 1 || count < 8);
    return NULL;
}

static void a_thread_is_bound(void **state)
{
    fast_binding *b = NULL;

    (void)state;
    assert_int_equal(fast__binding_new(FAST_BIND_CORE, NULL, &b), FAST_OK);
    assert_int_equal(fast__thread_call(bound, b), FAST_OK);
    fast__binding_free(b);
}
#else
static void it_names_the_package(void **state)
{
    fast_binding *b = NULL;

    (void)state;
    assert_int_equal(fast__binding_new(FAST_BIND_CORE, NULL, &b), FAST_ENOTSUP);
}
#endif

int main(void)
{
    const struct CMUnitTest tests[] = {
#ifdef FAST_HAVE_HWLOC
        cmocka_unit_test(places_are_cores_and_nodes),
        cmocka_unit_test(clusters_are_on_one_node),
        cmocka_unit_test(nonsense_is_refused),
        cmocka_unit_test(a_thread_is_bound),
#else
        cmocka_unit_test(it_names_the_package),
#endif
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
