/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "codec/codec.h"
#include "tensor/device_check.h"
#include "tensor/vector.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

/*
 * Suites on every device: the host, and check, on which an access outside a kernel is a fault.
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
static inline float *devices_put(const float *x, int64_t count)
{
    float *y = NULL;

    assert_int_equal(fast__vector_new(devices_now, "a test's vector", count, &y), FAST_OK);
    fast__vector_copy(count, x, y);
    return y;
}

static inline void devices_get(float *y, int64_t count, float *out)
{
    fast__vector_copy(count, y, out);
    fast__vector_free(y);
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
    float *y = devices_put(x, devices_count(coder));
    const size_t size = fast__coder_encode(coder, step, progress, y, out);

    fast__vector_free(y);
    return size;
}

static inline fast_err devices_decode(fast_coder *coder, const uint8_t *in, size_t size,
                                      fast_decode_mode mode, float scale, float *y)
{
    float *to = devices_put(y, devices_count(coder));
    const fast_err err = fast__coder_decode(coder, in, size, mode, scale, to);

    devices_get(to, devices_count(coder), y);
    return err;
}
