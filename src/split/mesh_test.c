/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Goal: meshes are parsed as documented, and places and workers are inverse to each other.
 *
 * Method: specs with and without a number of workers; all places of small meshes.
 */
#include "split/mesh.h"

#include "fast/fast.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

static void check(const char *spec, int64_t workers, int64_t data, int64_t pipe, int64_t tensor)
{
    fast_mesh mesh;
    assert_int_equal(fast__mesh_parse(spec, workers, &mesh), FAST_OK);
    assert_int_equal(mesh.data, data);
    assert_int_equal(mesh.pipe, pipe);
    assert_int_equal(mesh.tensor, tensor);
}

static void data_follows_from_the_workers(void **state)
{
    (void)state;
    check("pipe=3", 1, 1, 3, 1);
    check("pipe=3", 6, 2, 3, 1);
    check("data=2,pipe=3", 1, 2, 3, 1);
    check("data=2,pipe=3", 6, 2, 3, 1);
    check("data=5", 1, 5, 1, 1);
    check("pipe=1", 4, 4, 1, 1);
    check("tensor=2", 1, 1, 1, 2);
    check("pipe=2,tensor=2", 8, 2, 2, 2);
}

static void what_does_not_fit_is_refused(void **state)
{
    (void)state;
    fast_mesh mesh;
    assert_int_equal(fast__mesh_parse("pipe=3", 4, &mesh), FAST_EINVAL);
    assert_int_equal(fast__mesh_parse("data=2,pipe=3", 5, &mesh), FAST_EINVAL);
    assert_non_null(strstr(fast_error_detail(), "6 workers"));
    assert_int_equal(fast__mesh_parse("pipe=0", 1, &mesh), FAST_EINVAL);
    assert_int_equal(fast__mesh_parse("depth=2", 1, &mesh), FAST_EINVAL);
}

static void places_and_workers_are_inverse(void **state)
{
    (void)state;
    for (int64_t data = 1; data < 5; data++)
        for (int64_t pipe = 1; pipe < 13; pipe++) {
            const fast_mesh mesh = { data, pipe / 3 + 1, pipe % 3 + 1 };
            const int64_t size = mesh.data * mesh.pipe * mesh.tensor;
            assert_int_equal(fast__mesh_size(&mesh), size);
            for (int64_t i = 0; i < size; i++) {
                const fast_mesh_place place = fast__mesh_place(&mesh, i);
                assert_int_equal(fast__mesh_worker(&mesh, place), i);
            }
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(data_follows_from_the_workers),
        cmocka_unit_test(what_does_not_fit_is_refused),
        cmocka_unit_test(places_and_workers_are_inverse),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
