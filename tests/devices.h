/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "codec/codec.h"
#include "tensor/device_check.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

/*
 * Suites on every device: the host, and check, on which a dereference outside a kernel is a fault.
 * A suite has its vectors on the host and passes copies on `devices_now` to the tested code.
 */
static const fast_device *devices_now = &fast__host;

/* Run a group of tests once on each device; return the number of failures. */
static inline int devices_run(const struct CMUnitTest *tests, size_t count, CMFixtureFunction setup,
                              CMFixtureFunction teardown)
{
    int failed = _cmocka_run_group_tests("host", tests, count, setup, teardown);

    if (fast__device_check_open(&devices_now))
        return 1;
    failed += _cmocka_run_group_tests("check", tests, count, setup, teardown);
    fast__device_check_close(devices_now); /* asserts that nothing leaked */
    return failed;
}

/* Copy host floats to a new vector of the device; and back, which frees it. */
static inline fast_view devices_put(const float *x, int64_t count)
{
    fast_view view = { 0 };

    assert_int_equal(fast__view_new(devices_now, "a test's vector", count, &view), FAST_OK);
    fast__view_copy(fast__view_input(x, count), view);
    return view;
}

static inline void devices_get(fast_view view, float *out)
{
    fast__view_copy(view, fast__view_host(out, view.count));
    fast__view_free(&view);
}

/* Elements of a coder's range, of a layout without padding. */
static inline int64_t devices_count(const fast_coder *coder)
{
    int64_t at, count;

    fast__coder_block_at(coder, fast__coder_block_count(coder) - 1, &at, &count);
    return at + count;
}

/* fast__coder_encode() and fast__coder_decode() by way of the device, which is the coder's. */
static inline size_t devices_encode(fast_coder *coder, int64_t step, double progress,
                                    const float *x, uint8_t *out)
{
    fast_view view = devices_put(x, devices_count(coder));
    const size_t size = fast__coder_encode_view(coder, step, progress, view, out);

    fast__view_free(&view);
    return size;
}

static inline fast_err devices_decode(fast_coder *coder, const uint8_t *in, size_t size,
                                      fast_decode_mode mode, float scale, float *y)
{
    const fast_view view = devices_put(y, devices_count(coder));
    const fast_err err = fast__coder_decode_view(coder, in, size, mode, scale, view);

    devices_get(view, y);
    return err;
}
