/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Goal: vectors on disk are vectors as on the host. Method: kernels on both, to the bit; contents
 * after all pages were given back; what does not fit, and folders that do not exist.
 */
#include "tensor/device_file.h"

#include "base/memory.h"
#include "tensor/vector.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { COUNT = (1 << 21) + 77 }; /* several blocks of a hash, and a part of a page */

static void vectors_are_those_of_the_host(void **state)
{
    const fast_device *file = NULL;
    float *x = NULL, *y = NULL, *right = NULL;

    (void)state;
    assert_int_equal(fast__device_file_open(2 * COUNT * (int64_t)sizeof *x, &file), FAST_OK);
    assert_int_equal(fast__vector_new(file, "x", COUNT, &x), FAST_OK);
    assert_int_equal(fast__vector_new(file, "y", COUNT, &y), FAST_OK);
    assert_int_equal(fast__alloc("right", COUNT, sizeof *right, &right), FAST_OK);
    assert_int_equal(fast__device_file_reserve(file, x, COUNT), FAST_OK);
    assert_int_equal(fast__device_file_reserve(file, y, COUNT), FAST_OK);
    assert_true(fast__device_of(x + COUNT - 1) == file && fast__device_of(right) == &fast__host);
    assert_true(fast__vector_max_abs(COUNT, x) == 0);
    for (int i = 0; i < COUNT; i++)
        right[i] = (float)(i % 1000) - 499.5f;
    fast__vector_copy(COUNT, right, x);
    fast__vector_axpy(COUNT, 2, x, y);
    fast__vector_axpy(COUNT, 1, right, right);
    fast__device_file_flush(file);
    assert_true(fast__vector_equal(COUNT, right, y));
    assert_true(fast__vector_hash(COUNT, right, 3) == fast__vector_hash(COUNT, y, 3));
    assert_true(fast__vector_hash(COUNT - 77, right, 3) == fast__vector_hash(COUNT - 77, y, 3));
    fast__vector_free(y);
    fast__vector_free(x);
    fast__device_file_close(file);
    fast__free(right);
    assert_false(fast__devices_exist());
}

static void what_does_not_fit_is_told(void **state)
{
    const fast_device *file = NULL;
    float *x = NULL;

    (void)state;
    assert_int_equal(fast__device_file_open(1000, &file), FAST_OK);
    assert_int_equal(fast__vector_new(file, "x", 1 << 20, &x), FAST_ENOMEM);
    assert_int_equal(fast__vector_new(file, "x", INT64_MAX, &x), FAST_ENOMEM);
    fast__device_file_close(file);
    fast__device_file_close(NULL);
    setenv("TMPDIR", "/no/such/folder", 1);
    assert_int_equal(fast__device_file_open(1000, &file), FAST_EIO);
    assert_non_null(strstr(fast_error_detail(), "TMPDIR"));
    unsetenv("TMPDIR");
    fast__alloc_fail_after(0, true);
    assert_int_equal(fast__device_file_open(1000, &file), FAST_ENOMEM);
    fast__alloc_fail_after(-1, true);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(vectors_are_those_of_the_host),
        cmocka_unit_test(what_does_not_fit_is_told),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
