/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Goal: views do on every device what vectors do on the host, and the device `check` finds code
 * that dereferences a view. Method: each kernel on both devices, to the bit, on slices at odd
 * offsets; forbidden accesses under a handler of SIGSEGV; two threads that map one allocation; a
 * device with kernels of its own that counts their calls; allocations that fail.
 */
#include "tensor/device_check.h"

#include "base/memory.h"
#include "base/rng.h"
#include "base/thread.h"
#include "tensor/vector.h"
#include "tensor/view.h"

#include <math.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

enum { COUNT = 5003, OFFSET = 7, PART = 4001 };

static const fast_device *check; /* open during all tests */

static int open_check(void **state)
{
    (void)state;
    return fast__device_check_open(&check);
}

static int close_check(void **state)
{
    (void)state;
    fast__device_check_close(check);
    return 0;
}

static fast_view new_view(const fast_device *device, int64_t count)
{
    fast_view view = { 0 };

    assert_int_equal(fast__view_new(device, "a test's vector", count, &view), FAST_OK);
    assert_int_equal(view.count, count);
    return view;
}

static void draw(uint64_t sample, int64_t n, float *x)
{
    fast_rng rng;

    fast__rng_init(&rng, 3, FAST_PURPOSE_TEST, 0, 0, sample);
    for (int64_t i = 0; i < n; i++)
        x[i] = fast__rng_normal(&rng);
}

/* x and y on the device after all kernels, one after the other; their sums in out[3]. */
static void run_kernels(const fast_device *device, float *x, float *y, double out[3])
{
    fast_view all[2] = { new_view(device, COUNT), new_view(device, COUNT) }, part[2];
    const uint32_t index[] = { 0, 5, 17, PART - 1 };
    float value[4];
    unsigned char bytes[1 + 2 * PART];

    fast__view_copy(fast__view_input(x, COUNT), all[0]);
    fast__view_copy(fast__view_input(y, COUNT), all[1]);
    for (int i = 0; i < 2; i++)
        part[i] = fast__view_slice(all[i], OFFSET, PART);
    fast__view_scale(0.5f, part[1]);
    fast__view_add(part[0], part[1]);
    fast__view_axpy(-1.25f, part[0], part[1]);
    fast__view_axpby(2, part[1], 0.75f, part[0]);
    fast__view_mix(0.375f, part[1], part[0]);
    fast__view_difference(-0.5f, part[0], part[1]);
    fast__view_add(part[0], part[0]); /* the same vector twice */
    fast__view_gather(part[0], 4, index, value);
    fast__view_scatter_add(4, index, value, 3, part[1]);
    fast__view_store(part[0], FAST_F16, 1, bytes + 1);
    fast__view_load(FAST_F16, bytes + 1, 1, part[0]);
    out[0] = fast__view_dot(part[0], part[1]);
    out[1] = fast__view_norm2(all[1]);
    out[2] = (double)fast__view_max_abs(part[0]);
    assert_true(fast__view_finite(all[0]));
    fast__view_fill(-0.0f, fast__view_slice(all[1], COUNT - 3, 3));
    fast__view_fill(1, fast__view_slice(all[1], COUNT, 0)); /* nothing */
    fast__view_copy(part[0], part[1]);
    fast__view_copy(all[0], fast__view_host(x, COUNT));
    fast__view_copy(all[1], fast__view_host(y, COUNT));
    fast__view_free(&all[0]);
    fast__view_free(&all[1]);
    assert_null(all[0].at);
}

static void test_same_bits(void **state)
{
    static float x[2][COUNT], y[2][COUNT];
    double sums[2][3];

    (void)state;
    for (int d = 0; d < 2; d++) {
        draw(1, COUNT, x[d]);
        draw(2, COUNT, y[d]);
        run_kernels(d == 0 ? &fast__host : check, x[d], y[d], sums[d]);
    }
    assert_memory_equal(x[0], x[1], sizeof x[0]);
    assert_memory_equal(y[0], y[1], sizeof y[0]);
    assert_memory_equal(sums[0], sums[1], sizeof sums[0]);
    assert_true(fast__device_check_maps(check) > 0);
}

static void test_new_is_zero(void **state)
{
    (void)state;
    fast_view a = new_view(check, 3), b = new_view(check, COUNT), none = { 0 };

    assert_int_equal((uintptr_t)b.at % FAST_ALIGN, 0);
    assert_true(fast__view_max_abs(a) == 0 && fast__view_max_abs(b) == 0);
    fast__view_free(&a);
    fast__view_free(&b);
    fast__view_free(&none);
    fast__view_free(&none);
}

static sigjmp_buf after; /* where a fault continues */

static void on_fault(int number)
{
    siglongjmp(after, number);
}

typedef enum touch { READ_IT, WRITE_IT } touch;

/* True if the access is a fault. */
static bool faults(float *at, touch what)
{
    const struct sigaction action = { .sa_handler = on_fault };
    struct sigaction before;
    volatile bool faulted = true;

    sigaction(SIGSEGV, &action, &before);
    if (sigsetjmp(after, 1) == 0) {
        volatile float *v = at;

        if (what == WRITE_IT)
            *v = 1;
        else
            (void)*v;
        faulted = false;
    }
    sigaction(SIGSEGV, &before, NULL);
    return faulted;
}

static void test_faults(void **state)
{
    (void)state;
    fast_view view = new_view(check, COUNT);

    assert_true(faults(view.at, READ_IT) && faults(view.at + COUNT - 1, WRITE_IT));
    float *mapped = fast__view_map(view, FAST_ACCESS_READ);
    assert_false(faults(mapped, READ_IT));
    assert_true(faults(mapped, WRITE_IT)); /* it is open for reading alone */
    float *again = fast__view_map(fast__view_slice(view, 1, 2), FAST_ACCESS_UPDATE);
    assert_false(faults(again, WRITE_IT));
    fast__view_unmap(view, FAST_ACCESS_READ, mapped);
    assert_false(faults(again, READ_IT));
    assert_true(faults(view.at + COUNT + FAST_ALIGN / sizeof(float), READ_IT)); /* the guard */
    fast__view_unmap(fast__view_slice(view, 1, 2), FAST_ACCESS_UPDATE, again);
    assert_true(faults(view.at + 1, READ_IT));
    fast__view_free(&view);
}

/* A kernel that writes less than it said leaves NaN. */
static void test_write_is_whole(void **state)
{
    (void)state;
    fast_view view = new_view(check, 10);
    float out[10];

    float *mapped = fast__view_map(view, FAST_ACCESS_WRITE);
    for (int i = 0; i < 9; i++)
        mapped[i] = 1;
    fast__view_unmap(view, FAST_ACCESS_WRITE, mapped);
    fast__view_copy(view, fast__view_host(out, 10));
    assert_true(out[8] == 1 && isnan(out[9]));
    assert_false(fast__view_finite(view));
    fast__view_free(&view);
}

/* Between two devices that do not know each other. */
static void test_two_devices(void **state)
{
    const fast_device *other = NULL;
    static float x[COUNT], y[COUNT];

    (void)state;
    assert_int_equal(fast__device_check_open(&other), FAST_OK);
    fast_view a = new_view(check, COUNT), b = new_view(other, COUNT);
    draw(3, COUNT, x);
    fast__view_copy(fast__view_input(x, COUNT), a);
    fast__view_copy(a, b);
    fast__view_copy(b, fast__view_host(y, COUNT));
    assert_memory_equal(x, y, sizeof x);
    fast__view_free(&a);
    fast__view_free(&b);
    fast__device_check_close(other);
    fast__device_check_close(NULL);
}

static void *work(void *ctx)
{
    const fast_view *half = ctx;

    for (int i = 0; i < 2000; i++) {
        const fast_view one = fast__view_slice(*half, i % 100, 1);

        fast__view_axpby(0, one, 1, one);
        fast__view_scale(1, *half);
        FAST_ASSERT(fast__view_norm2(*half) == (double)half->count);
    }
    return NULL;
}

/* Threads that map halves of one allocation do not close each other's. */
static void test_threads(void **state)
{
    (void)state;
    fast_view all = new_view(check, 2000);
    fast_view halves[2] = { fast__view_slice(all, 0, 1000), fast__view_slice(all, 1000, 1000) };
    fast_thread threads[2];

    fast__view_fill(1, all);
    for (int i = 0; i < 2; i++)
        assert_int_equal(fast__thread_start(&threads[i], work, &halves[i]), FAST_OK);
    for (int i = 0; i < 2; i++)
        fast__thread_join(&threads[i]);
    assert_true(faults(all.at, READ_IT));
    fast__view_free(&all);
}

/* A device with kernels of its own: each counts its calls, with the host's arithmetic. */
static int calls;

/* Define own_<name>(): the host's kernel, counted. */
#define OWN(type, name, arguments, body) \
    static type own_##name arguments     \
    {                                    \
        (void)device;                    \
        calls++;                         \
        body;                            \
    }
#define OF const fast_device *device, int64_t n /* the first two arguments of each */
OWN(void, fill, (OF, float a, float *y), fast__vector_fill(n, a, y))
OWN(void, scale, (OF, float a, float *y), fast__vector_scale(n, a, y))
OWN(void, add, (OF, const float *x, float *y), fast__vector_add(n, x, y))
OWN(void, axpy, (OF, float a, const float *x, float *y), fast__vector_axpy(n, a, x, y))
OWN(void, mix, (OF, float a, const float *x, float *y), fast__vector_mix(n, a, x, y))
OWN(void, difference, (OF, float a, const float *x, float *y), fast__vector_difference(n, a, x, y))
OWN(void, axpby, (OF, float a, const float *x, float b, float *y),
    fast__vector_axpby(n, a, x, b, y))
OWN(double, dot, (OF, const float *x, const float *y), return fast__vector_dot(n, x, y))
OWN(double, norm2, (OF, const float *x), return fast__vector_norm2(n, x))
OWN(float, max_abs, (OF, const float *x), return fast__vector_max_abs(n, x))

static void own_copy(const fast_device *device, fast_view from, fast_view to)
{
    (void)device;
    calls++;
    memcpy(to.at, from.at, (size_t)from.count * sizeof *to.at);
}

static void test_own_kernels(void **state)
{
    static const fast_device_kernels kernels = {
        own_fill, own_scale,      own_add, own_axpy,  own_axpby,
        own_mix,  own_difference, own_dot, own_norm2, own_max_abs,
    };
    fast_device device = fast__host;
    static float x[2][COUNT], y[2][COUNT];
    double sums[2][3];

    (void)state;
    device.kernels = &kernels;
    device.copy = own_copy;
    for (int d = 0; d < 2; d++) {
        draw(1, COUNT, x[d]);
        draw(2, COUNT, y[d]);
        run_kernels(d == 0 ? &fast__host : &device, x[d], y[d], sums[d]);
        assert_int_equal(calls, d == 0 ? 0 : 17); /* but gather, scatter, store and load */
    }
    assert_memory_equal(x[0], x[1], sizeof x[0]);
    assert_memory_equal(y[0], y[1], sizeof y[0]);
    assert_memory_equal(sums[0], sums[1], sizeof sums[0]);
}

static void test_no_memory(void **state)
{
    const fast_device *other = NULL;
    fast_view view = { 0 };

    (void)state;
    fast__alloc_fail_after(0, true);
    assert_int_equal(fast__device_check_open(&other), FAST_ENOMEM);
    assert_null(other);
    fast__alloc_fail_after(0, true);
    assert_int_equal(fast__view_new(check, "a vector", COUNT, &view), FAST_ENOMEM);
    fast__alloc_fail_after(0, true);
    assert_int_equal(fast__view_new(&fast__host, "a vector", COUNT, &view), FAST_ENOMEM);
    fast__alloc_fail_after(-1, true);
    assert_null(view.at);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_same_bits),   cmocka_unit_test(test_new_is_zero),
        cmocka_unit_test(test_faults),      cmocka_unit_test(test_write_is_whole),
        cmocka_unit_test(test_two_devices), cmocka_unit_test(test_threads),
        cmocka_unit_test(test_own_kernels), cmocka_unit_test(test_no_memory),
    };

    return cmocka_run_group_tests(tests, open_check, close_check);
}
