/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Goal: kernels compute on every device, and on vectors of different devices, what they compute on
 * the host, and the device `check` finds code that dereferences a vector. Method: each kernel on
 * both devices, to the bit, at odd offsets; forbidden accesses under a handler of SIGSEGV, and one
 * in a child process whose message is read; two threads that map one allocation; a device with
 * kernels of its own that counts their calls; allocations that fail.
 */
#include "tensor/device_check.h"

#include "base/hash.h"
#include "base/memory.h"
#include "base/rng.h"
#include "base/thread.h"
#include "tensor/race.h"
#include "tensor/stream_copy.h"
#include "tensor/sum.h"
#include "tensor/vector.h"

#include <math.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

enum { COUNT = 5003, OFFSET = 7, PART = 4001, SUMMANDS = 7 };

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

static float *new_vector(const fast_device *device, int64_t count)
{
    float *x = NULL;

    assert_int_equal(fast__vector_new(device, "a test's vector", count, &x), FAST_OK);
    assert_ptr_equal(fast__device_of(x), device);
    return x;
}

static void draw(uint64_t sample, int64_t n, float *x)
{
    fast_rng rng;

    fast__rng_init(&rng, 3, FAST_PURPOSE_TEST, 0, 0, sample);
    for (int64_t i = 0; i < n; i++)
        x[i] = fast__rng_normal(&rng);
}

/* Results of kernels that are not vectors. */
typedef struct device_figures {
    double dot, norm2, max_abs;
    uint64_t hash;
    int64_t extent[2];
} device_figures;

/* x on one device and y on another after all kernels, one after the other. */
static device_figures run_kernels(const fast_device *one, const fast_device *other, float *x,
                                  float *y)
{
    float *all[2] = { new_vector(one, COUNT), new_vector(other, COUNT) }, *a = all[0] + OFFSET,
          *b = all[1] + OFFSET, most = 0;
    unsigned char bytes[1 + 2 * PART];
    device_figures out = { 0 };

    fast__vector_copy(COUNT, x, all[0]);
    fast__vector_copy(COUNT, y, all[1]);
    fast__vector_scale(PART, 0.5f, b);
    fast__vector_add(PART, a, b);
    fast__vector_axpy(PART, -1.25f, a, b);
    fast__vector_axpby(PART, 2, b, 0.75f, a);
    fast__vector_mix(PART, 0.375f, b, a);
    fast__vector_difference(PART, -0.5f, a, b);
    fast__vector_add(PART, a, a); /* the same vector twice */
    fast__vector_copy(PART, a, a);
    fast__vector_convert(PART, FAST_F32, a, FAST_F16, bytes + 1, 1);
    fast__vector_convert(PART, FAST_F16, bytes + 1, FAST_F32, a, 1);
    out.dot = fast__vector_dot(PART, a, b);
    out.norm2 = fast__vector_norm2(COUNT, all[1]);
    out.max_abs = (double)fast__vector_max_abs(PART, a);
    assert_true(fast__vector_norm2_max(PART, a, &most) > 0 && (double)most == out.max_abs);
    assert_true(fast__vector_finite(COUNT, all[0]));
    fast__vector_fill(3, -0.0f, all[1] + COUNT - 3);
    fast__vector_fill(OFFSET, 0, all[1]);
    fast__vector_extent(COUNT, all[1], &out.extent[0], &out.extent[1]);
    fast__vector_fill(0, 1, all[1] + COUNT); /* nothing */
    fast__vector_copy(PART, a, b);
    assert_true(fast__vector_equal(PART, a, b) && !fast__vector_equal(COUNT, all[0], all[1]));
    fast__stream_copy(all[1] + 32, all[0] + 3, 100);
    out.hash = fast__vector_hash(PART, a, 3);
    fast__vector_copy(COUNT, all[0], x);
    fast__vector_copy(COUNT, all[1], y);
    assert_true(out.hash == fast__hash(x + OFFSET, PART * sizeof *x, 3));
    fast__vector_free(all[0]);
    fast__vector_free(all[1]);
    return out;
}

static void test_same_bits(void **state)
{
    const fast_device *pairs[][2] = { { &fast__host, &fast__host },
                                      { check, check },
                                      { &fast__host, check },
                                      { check, &fast__host } };
    static float x[4][COUNT], y[4][COUNT];
    device_figures figures[4];

    (void)state;
    for (int d = 0; d < 4; d++) {
        draw(1, COUNT, x[d]);
        draw(2, COUNT, y[d]);
        figures[d] = run_kernels(pairs[d][0], pairs[d][1], x[d], y[d]);
        assert_memory_equal(x[0], x[d], sizeof x[0]);
        assert_memory_equal(y[0], y[d], sizeof y[0]);
        assert_memory_equal(&figures[0], &figures[d], sizeof figures[0]);
    }
    assert_true(figures[0].extent[0] == OFFSET && figures[0].extent[1] == COUNT);
    assert_true(fast__device_check_maps(check) > 0);
}

/* Canonical sums of vectors on both devices: those of the host. */
static void test_sums(void **state)
{
    static float host[SUMMANDS][COUNT], want[COUNT], got[COUNT];
    const float *from[SUMMANDS];
    float *x[SUMMANDS];

    (void)state;
    for (int n = 1; n <= SUMMANDS; n++) {
        for (int i = 0; i < n; i++) {
            draw((uint64_t)i, COUNT, host[i]);
            from[i] = host[i];
            x[i] = new_vector(i % 3 == 1 ? &fast__host : check, COUNT);
            fast__vector_copy(COUNT, host[i], x[i]);
        }
        fast__sum(from, n, COUNT, want);
        float *y = new_vector(check, COUNT);
        fast__sum((const float *const *)x, n, COUNT, y);
        assert_true(fast__vector_equal(COUNT, y, want));
        fast__sum_all(x, n, OFFSET, PART);
        for (int i = 0; i < n; i++) {
            fast__vector_copy(COUNT, x[i], got);
            assert_memory_equal(got + OFFSET, want + OFFSET, PART * sizeof *got);
            assert_memory_equal(got, host[i], OFFSET * sizeof *got);
            fast__vector_free(x[i]);
        }
        fast__vector_free(y);
    }
}

/* Shared host memory and a vector of a device. */
static void test_races(void **state)
{
    static float host[COUNT];
    static _Atomic float shared[COUNT];
    float *x = new_vector(check, COUNT), *y = new_vector(check, COUNT);

    (void)state;
    draw(1, COUNT, host);
    fast__vector_copy(COUNT, host, x);
    fast__race_store(shared, x, COUNT);
    fast__race_load(shared, y, COUNT);
    assert_true(fast__vector_equal(COUNT, host, y));
    fast__vector_free(x);
    fast__vector_free(y);
}

static void test_new_is_zero(void **state)
{
    (void)state;
    float *a = new_vector(check, 3), *b = new_vector(check, COUNT), *none = new_vector(check, 0);
    int64_t extent[2];

    assert_int_equal((uintptr_t)b % FAST_ALIGN, 0);
    assert_true(fast__vector_max_abs(3, a) == 0 && fast__vector_max_abs(COUNT, b) == 0);
    fast__vector_extent(3, a, &extent[0], &extent[1]);
    assert_true(extent[0] == 0 && extent[1] == 0);
    fast__vector_free(a);
    fast__vector_free(b);
    fast__vector_free(none);
    fast__vector_free(NULL);
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
    float *x = new_vector(check, COUNT);

    assert_true(faults(x, READ_IT) && faults(x + COUNT - 1, WRITE_IT));
    float *mapped = fast__map(x, COUNT, FAST_ACCESS_READ);
    assert_false(faults(mapped, READ_IT));
    assert_true(faults(mapped, WRITE_IT)); /* it is open for reading alone */
    float *again = fast__map(x + 1, 2, FAST_ACCESS_UPDATE);
    assert_false(faults(again, WRITE_IT));
    fast__unmap(x, COUNT, FAST_ACCESS_READ);
    assert_false(faults(again, READ_IT));
    assert_true(faults(x + COUNT + FAST_ALIGN / sizeof(float), READ_IT)); /* the guard */
    fast__unmap(x + 1, 2, FAST_ACCESS_UPDATE);
    assert_true(faults(x + 1, READ_IT));
    fast__vector_free(x);
    assert_true(faults(x, READ_IT));
}

/* An access outside of kernels ends the process with a message that names the vector. */
static void test_message(void **state)
{
    float *x = new_vector(check, COUNT);
    char text[4096] = "";
    size_t size = 0;
    int ends[2], status = 0;

    (void)state;
    assert_int_equal(pipe(ends), 0);
    const pid_t child = fork();
    if (child == 0) {
        const fast_device *own = NULL; /* the first of the process installs the handler again */

        dup2(ends[1], STDERR_FILENO);
        fast__vector_free(x);
        fast__device_check_close(check);
        signal(SIGSEGV, SIG_DFL); /* not the handler of this suite */
        if (fast__device_check_open(&own))
            _exit(1);
        volatile float *v = new_vector(own, COUNT);
        _exit(v[42] == 0);
    }
    close(ends[1]);
    for (ssize_t n = 1; n > 0 && size < sizeof text - 1; size += (size_t)n) {
        n = read(ends[0], text + size, sizeof text - 1 - size);
        n = n > 0 ? n : 0;
    }
    close(ends[0]);
    waitpid(child, &status, 0);
    assert_false(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    if (!strstr(text, "element 42 of \"a test's vector\" (5003 floats)"))
        fail_msg("the message is \"%s\"", text);
    fast__vector_free(x);
}

/* A kernel that writes less than it said leaves NaN. */
static void test_write_is_whole(void **state)
{
    (void)state;
    float *x = new_vector(check, 10), out[10];

    float *mapped = fast__map(x, 10, FAST_ACCESS_WRITE);
    for (int i = 0; i < 9; i++)
        mapped[i] = 1;
    fast__unmap(x, 10, FAST_ACCESS_WRITE);
    fast__vector_copy(10, x, out);
    assert_true(out[8] == 1 && isnan(out[9]));
    assert_false(fast__vector_finite(10, x));
    fast__vector_free(x);
}

/* Between two devices that do not know each other. */
static void test_two_devices(void **state)
{
    const fast_device *other = NULL;
    static float x[COUNT], y[COUNT];

    (void)state;
    assert_int_equal(fast__device_check_open(&other), FAST_OK);
    float *a = new_vector(check, COUNT), *b = new_vector(other, COUNT);
    draw(3, COUNT, x);
    fast__vector_copy(COUNT, x, a);
    fast__vector_copy(COUNT, a, b);
    fast__vector_copy(COUNT, b, y);
    assert_memory_equal(x, y, sizeof x);
    fast__vector_free(a);
    fast__vector_free(b);
    fast__device_check_close(other);
    fast__device_check_close(NULL);
    assert_ptr_equal(fast__device_of(b), &fast__host);
}

static void *work(void *ctx)
{
    float *half = ctx;

    for (int i = 0; i < 2000; i++) {
        fast__vector_axpby(1, 0, half + i % 100, 1, half + i % 100);
        fast__vector_scale(1000, 1, half);
        FAST_ASSERT(fast__vector_norm2(1000, half) == 1000);
    }
    return NULL;
}

/* Threads that map halves of one allocation do not close each other's. */
static void test_threads(void **state)
{
    (void)state;
    float *all = new_vector(check, 2000);
    fast_thread threads[2];

    fast__vector_fill(2000, 1, all);
    for (int i = 0; i < 2; i++)
        assert_int_equal(fast__thread_start(&threads[i], work, all + 1000 * i), FAST_OK);
    for (int i = 0; i < 2; i++)
        fast__thread_join(&threads[i]);
    assert_true(faults(all, READ_IT));
    fast__vector_free(all);
}

/* A device with kernels of its own: each counts its calls and computes on copies of the host's. */
static int calls;
static float stored[2 * COUNT + 64]; /* its memory */
static int64_t stored_count;

/* Define own_<name>(): the host's kernel, counted. The device is removed meanwhile, so that the
 * host's kernels take its memory for the host's. */
#define OWN(type, name, arguments, call)                                            \
    static type own_##name arguments                                                \
    {                                                                               \
        fast__device_remove(device);                                                \
        calls++;                                                                    \
        type result = call;                                                         \
        assert_int_equal(fast__device_add(device, stored, sizeof stored), FAST_OK); \
        return result;                                                              \
    }
#define OWN_VOID(name, arguments, call)                                             \
    static void own_##name arguments                                                \
    {                                                                               \
        fast__device_remove(device);                                                \
        calls++;                                                                    \
        call;                                                                       \
        assert_int_equal(fast__device_add(device, stored, sizeof stored), FAST_OK); \
    }
#define OF const fast_device *device, int64_t n /* the first two arguments of each */
OWN_VOID(copy, (OF, const float *x, float *y), fast__vector_copy(n, x, y))
OWN_VOID(fill, (OF, float a, float *y), fast__vector_fill(n, a, y))
OWN_VOID(scale, (OF, float a, float *y), fast__vector_scale(n, a, y))
OWN_VOID(add, (OF, const float *x, float *y), fast__vector_add(n, x, y))
OWN_VOID(axpy, (OF, float a, const float *x, float *y), fast__vector_axpy(n, a, x, y))
OWN_VOID(mix, (OF, float a, const float *x, float *y), fast__vector_mix(n, a, x, y))
OWN_VOID(difference, (OF, float a, const float *x, float *y), fast__vector_difference(n, a, x, y))
OWN_VOID(axpby, (OF, float a, const float *x, float b, float *y), fast__vector_axpby(n, a, x, b, y))
OWN(double, dot, (OF, const float *x, const float *y), fast__vector_dot(n, x, y))
OWN(double, norm2, (OF, const float *x), fast__vector_norm2(n, x))
OWN(float, max_abs, (OF, const float *x), fast__vector_max_abs(n, x))

static fast_err own_alloc(const fast_device *device, const char *what, int64_t count, float **out)
{
    (void)device;
    (void)what;
    *out = stored + stored_count;
    stored_count += (count + 15) / 16 * 16;
    return FAST_OK;
}

static void own_free(const fast_device *device, float *at)
{
    (void)device;
    (void)at;
}

static float *own_map(const fast_device *device, float *at, int64_t count, fast_access access)
{
    (void)device;
    (void)count;
    (void)access;
    return at;
}

static void own_unmap(const fast_device *device, float *at, int64_t count, fast_access access)
{
    own_map(device, at, count, access);
}

static void test_own_kernels(void **state)
{
    static const fast_device_kernels kernels = {
        own_copy, own_fill,       own_scale, own_add,   own_axpy,    own_axpby,
        own_mix,  own_difference, own_dot,   own_norm2, own_max_abs,
    };
    static const fast_device device = { .name = "own",
                                        .kernels = &kernels,
                                        .alloc = own_alloc,
                                        .free = own_free,
                                        .map = own_map,
                                        .unmap = own_unmap };
    static float x[2][COUNT], y[2][COUNT];
    device_figures figures[2];

    (void)state;
    assert_int_equal(fast__device_add(&device, stored, sizeof stored), FAST_OK);
    for (int d = 0; d < 2; d++) {
        const fast_device *at = d == 0 ? &fast__host : &device;

        draw(1, COUNT, x[d]);
        draw(2, COUNT, y[d]);
        figures[d] = run_kernels(at, at, x[d], y[d]);
        assert_int_equal(calls, d == 0 ? 0 : 15); /* kernels of two devices and others are not */
    }
    fast__device_remove(&device);
    assert_memory_equal(x[0], x[1], sizeof x[0]);
    assert_memory_equal(y[0], y[1], sizeof y[0]);
    assert_memory_equal(&figures[0], &figures[1], sizeof figures[0]);
}

static void test_no_memory(void **state)
{
    const fast_device *other = NULL, *more[FAST_DEVICES_MAX] = { NULL };
    float *x = NULL;

    (void)state;
    fast__alloc_fail_after(0, true);
    assert_int_equal(fast__device_check_open(&other), FAST_ENOMEM);
    assert_null(other);
    fast__alloc_fail_after(0, true);
    assert_int_equal(fast__vector_new(check, "a vector", COUNT, &x), FAST_ENOMEM);
    fast__alloc_fail_after(0, true);
    assert_int_equal(fast__vector_new(&fast__host, "a vector", COUNT, &x), FAST_ENOMEM);
    fast__alloc_fail_after(-1, true);
    assert_int_equal(fast__vector_new(check, "a vector", INT64_C(1) << 40, &x), FAST_ENOMEM);
    assert_null(x);
    for (int i = 1; i < FAST_DEVICES_MAX; i++) /* `check` is one of them */
        assert_int_equal(fast__device_check_open(&more[i]), FAST_OK);
    assert_int_equal(fast__device_check_open(&other), FAST_ENOMEM);
    for (int i = 1; i < FAST_DEVICES_MAX; i++)
        fast__device_check_close(more[i]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_same_bits),      cmocka_unit_test(test_sums),
        cmocka_unit_test(test_races),          cmocka_unit_test(test_new_is_zero),
        cmocka_unit_test(test_faults),         cmocka_unit_test(test_message),
        cmocka_unit_test(test_write_is_whole), cmocka_unit_test(test_two_devices),
        cmocka_unit_test(test_threads),        cmocka_unit_test(test_own_kernels),
        cmocka_unit_test(test_no_memory),
    };

    return cmocka_run_group_tests(tests, open_check, close_check);
}
