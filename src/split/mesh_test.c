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
    check("pipe=3", 0, 1, 3, 1);
    check("pipe=3", 6, 2, 3, 1);
    check("data=2,pipe=3", 0, 2, 3, 1);
    check("data=2,pipe=3", 6, 2, 3, 1);
    check("data=5", 0, 5, 1, 1);
    check("pipe=1", 4, 4, 1, 1);
    check("data=1", 1, 1, 1, 1);
    check("pipe=1", 1, 1, 1, 1);
    check("tensor=2", 0, 1, 1, 2);
    check("pipe=2,tensor=2", 8, 2, 2, 2);
}

static void what_does_not_fit_is_refused(void **state)
{
    (void)state;
    fast_mesh mesh;
    assert_int_equal(fast__mesh_parse("pipe=3", 4, &mesh), FAST_EINVAL);
    assert_int_equal(fast__mesh_parse("data=2,pipe=3", 5, &mesh), FAST_EINVAL);
    assert_non_null(strstr(fast_error_detail(), "6 workers"));
    assert_int_equal(fast__mesh_parse("pipe=3", 1, &mesh), FAST_EINVAL);
    assert_non_null(strstr(fast_error_detail(), "3 workers, and workers=1"));
    assert_int_equal(fast__mesh_parse("pipe=0", 1, &mesh), FAST_EINVAL);
    assert_int_equal(fast__mesh_parse("pipe=2,data=2,pipe=2", 1, &mesh), FAST_EINVAL);
    assert_non_null(strstr(fast_error_detail(), "pipe 2 times"));
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

static void stages_may_have_replicas_of_their_own(void **state)
{
    (void)state;
    fast_mesh mesh;
    assert_int_equal(fast__mesh_parse("pipe=3,replicas=3x1x2", 0, &mesh), FAST_OK);
    assert_int_equal(fast__mesh_size(&mesh), 6);
    assert_int_equal(fast__mesh_parse("replicas=3x1x2,pipe=3", 6, &mesh), FAST_OK);
    assert_int_equal(mesh.data, 1);
    static const int64_t replicas[] = { 3, 1, 2 };
    for (int64_t i = 0, s = 0, j = 0; i < 6; i++) {
        const fast_mesh_place place = fast__mesh_place(&mesh, i);
        assert_int_equal(fast__mesh_replicas(&mesh, s), replicas[s]);
        assert_int_equal(place.pipe, s);
        assert_int_equal(place.data, j);
        assert_int_equal(place.tensor, 0);
        assert_int_equal(fast__mesh_worker(&mesh, place), i);
        j = j + 1 < replicas[s] ? j + 1 : 0;
        s += j == 0;
    }
    assert_int_equal(fast__mesh_parse("data=4,pipe=3", 0, &mesh), FAST_OK);
    assert_int_equal(fast__mesh_replicas(&mesh, 2), 4);
    assert_int_equal(fast__mesh_parse("pipe=1,replicas=1024", 0, &mesh), FAST_OK);
    static const char *const bad[][2] = {
        { "pipe=2,replicas=2x1x1", "of 3 stages" },  { "pipe=2,replicas=2", "of 1 stages" },
        { "pipe=2,replicas=2x", "like 3x1" },        { "pipe=2,replicas=x1", "like 3x1" },
        { "pipe=2,replicas=2x0", "like 3x1" },       { "pipe=2,replicas=2x-1", "like 3x1" },
        { "pipe=2,replicas=1025x1", "to 1024" },     { "pipe=2,replicas=2y1", "like 3x1" },
        { "data=2,pipe=2,replicas=2x1", "data" },    { "data=1,pipe=2,replicas=2x1", "data" },
        { "tensor=2,pipe=2,replicas=2x1", "whole" }, { "pipe=2,replicas=", "empty" }
    };
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        assert_int_equal(fast__mesh_parse(bad[i][0], 0, &mesh), FAST_EINVAL);
        assert_non_null(strstr(fast_error_detail(), bad[i][1]));
    }
    assert_int_equal(fast__mesh_parse("pipe=2,replicas=2x1", 4, &mesh), FAST_EINVAL);
    assert_non_null(strstr(fast_error_detail(), "3 workers"));
    assert_int_equal(
        fast__mesh_parse("pipe=33,replicas=1x1x1x1x1x1x1x1x1x1x1x1x1x1x1x1x1x1x1x1x1x1x"
                         "1x1x1x1x1x1x1x1x1x1x1",
                         1, &mesh),
        FAST_EINVAL);
    assert_non_null(strstr(fast_error_detail(), "32 stages"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(data_follows_from_the_workers),
        cmocka_unit_test(what_does_not_fit_is_refused),
        cmocka_unit_test(places_and_workers_are_inverse),
        cmocka_unit_test(stages_may_have_replicas_of_their_own),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
