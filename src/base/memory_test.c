/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Goal: memory is aligned, zeroed and bounded, fails where a test asks for it, and an arena that
 * was measured is exactly large enough; under the address sanitizer it has red zones.
 * Method: limits of the checked arithmetic, absurd sizes, the fault hook, and a measured layout.
 */
#include "base/memory.h"
#include "base/thread.h"

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
#endif

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

static void test_arithmetic(void **state)
{
    (void)state;
    int64_t out = 7;
    assert_true(fast__mul_size(INT64_MAX, 1, &out));
    assert_true(out == INT64_MAX);
    assert_true(fast__mul_size(0, INT64_MAX, &out));
    assert_int_equal(out, 0);
    assert_true(fast__add_size(INT64_MAX - 1, 1, &out));
    assert_true(out == INT64_MAX);

    out = 7;
    assert_false(fast__mul_size((int64_t)1 << 32, (int64_t)1 << 31, &out));
    assert_false(fast__mul_size(-1, 1, &out));
    assert_false(fast__mul_size(1, -1, &out));
    assert_false(fast__mul_size(-1, -1, &out));
    assert_false(fast__add_size(INT64_MAX, 1, &out));
    assert_false(fast__add_size(-1, 5, &out));
    assert_false(fast__add_size(5, -1, &out));
    assert_int_equal(out, 7);
}

/* Pages: zeros, writable to the last byte, bounded, and part of the fault hook. */
static void test_pages(void **state)
{
    enum { SIZE = 300001 };
    unsigned char *x = NULL;

    (void)state;
    assert_int_equal(fast__pages_new("pages", SIZE, &x), FAST_OK);
    assert_int_equal((uintptr_t)x % FAST_ALIGN, 0);
    for (int64_t i = 0; i < SIZE; i += 997)
        assert_int_equal(x[i], 0);
    x[SIZE - 1] = 1;
    fast__pages_free(x, SIZE);
    fast__pages_free(NULL, SIZE);
    x = NULL;
    assert_int_equal(fast__pages_new("pages", INT64_MAX, &x), FAST_ENOMEM);
    fast__alloc_fail_after(0, true);
    assert_int_equal(fast__pages_new("pages", SIZE, &x), FAST_ENOMEM);
    assert_null(x);
    fast__alloc_fail_after(-1, true);
}

static void test_alloc(void **state)
{
    (void)state;
    for (int64_t count = 0; count < 300; count += 13) {
        float *x = NULL;
        assert_int_equal(fast__alloc("a vector", count, sizeof *x, &x), FAST_OK);
        assert_non_null(x);
        assert_int_equal((uintptr_t)x % FAST_ALIGN, 0);
        for (int64_t i = 0; i < count; i++)
            assert_true(x[i] == 0);
        memset(x, 0xff, (size_t)count * sizeof *x);
        fast__free(x);
    }
    fast__free(NULL);
}

static void test_alloc_absurd(void **state)
{
    (void)state;
    float *x = (float *)state;
    assert_int_equal(fast__alloc("a vector", INT64_MAX / 2, 4, &x), FAST_ENOMEM);
    assert_non_null(strstr(fast_error_detail(), "a vector"));
    assert_int_equal(fast__alloc("a vector", (int64_t)1 << 58, 4, &x), FAST_ENOMEM);
    assert_int_equal(fast__alloc("a vector", -1, 4, &x), FAST_ENOMEM);
    assert_int_equal(fast__alloc("a vector", 1, SIZE_MAX, &x), FAST_ENOMEM);
    assert_ptr_equal(x, state); /* untouched */
}

static bool works(void)
{
    void *x = NULL;
    const fast_err err = fast__alloc("a block", 1, 1, &x);
    fast__free(x);
    assert_true(err == FAST_OK || err == FAST_ENOMEM);
    return err == FAST_OK;
}

static void *works_elsewhere(void *ctx)
{
    *(bool *)ctx = works();
    return NULL;
}

static void test_fault(void **state)
{
    (void)state;
    const int64_t before = fast__alloc_count();
    fast__alloc_fail_after(2, true);
    assert_true(works());
    assert_true(works());
    assert_false(works());
    assert_true(works());
    assert_int_equal(fast__alloc_count() - before, 4);

    fast__alloc_fail_after(0, false);
    assert_false(works());
    assert_false(works());

    /* Another thread is not meant. */
    bool elsewhere = false;
    fast_thread thread;
    assert_int_equal(fast__thread_start(&thread, works_elsewhere, &elsewhere), FAST_OK);
    fast__thread_join(&thread);
    assert_true(elsewhere);

    fast__alloc_fail_after(-1, false);
    assert_true(works());
}

typedef struct layout {
    float *a;
    double *b;
    char *c;
    char *none;
} layout;

static void lay_out(fast_arena *arena, layout *l)
{
    l->a = fast__arena_take(arena, 17, sizeof *l->a);
    l->b = fast__arena_take(arena, 3, sizeof *l->b);
    l->none = fast__arena_take(arena, 0, 1);
    l->c = fast__arena_take(arena, 64, 1);
}

static void test_arena(void **state)
{
    (void)state;
    fast_arena measure = { 0 };
    layout l;
    lay_out(&measure, &l);
    assert_true(measure.used >= 17 * 4 + 3 * 8 + 64);

    fast_arena arena = { .size = measure.used };
    assert_int_equal(fast__alloc("an arena", (int64_t)arena.size, 1, &arena.base), FAST_OK);
    for (int round = 0; round < 3; round++) { /* an arena is reset by its owner */
        arena.used = 0;
        lay_out(&arena, &l);
        assert_int_equal(arena.used, arena.size);
        assert_int_equal((uintptr_t)l.a % FAST_ALIGN, 0);
        assert_int_equal((uintptr_t)l.b % FAST_ALIGN, 0);
        assert_int_equal((uintptr_t)l.c % FAST_ALIGN, 0);
        memset(l.a, 1, 17 * sizeof *l.a);
        memset(l.b, 2, 3 * sizeof *l.b);
        memset(l.c, 3, 64);
        assert_int_equal(((unsigned char *)l.a)[67], 1);
        assert_int_equal(((unsigned char *)l.b)[0], 2);
        assert_int_equal(((unsigned char *)l.b)[23], 2);
#if defined(__SANITIZE_ADDRESS__)
        assert_false(__asan_address_is_poisoned((char *)l.a + 67));
        assert_true(__asan_address_is_poisoned((char *)l.a + 68));
        assert_true(__asan_address_is_poisoned((char *)l.b + 24));
        assert_true(__asan_address_is_poisoned(l.c + 64));
#endif
    }
    fast__free(arena.base);
}

/* Whole pages of a range are given back and are 0 afterwards; all else stays. A large block takes
 * no memory before it is written. */
static void test_drop(void **state)
{
    enum { BYTES = 64 << 20, FIRST = 5000, LAST = BYTES - 7000 };
    unsigned char *block = NULL;

    (void)state;
#ifndef FAST_SANITIZED
    const int64_t before = fast__memory_resident();
#endif
    assert_int_equal(fast__alloc("a large block", BYTES, 1, &block), FAST_OK);
#ifndef FAST_SANITIZED
    assert_true(fast__memory_resident() < before + BYTES / 4);
#endif
    assert_true(fast__alloc_is_lazy(BYTES));
    assert_false(fast__alloc_is_lazy(1 << 20));
    fast__memory_small_pages(block, BYTES);
    for (int64_t i = 0; i < BYTES; i += 512)
        assert_int_equal(block[i], 0);
    memset(block, 7, BYTES);
    fast__memory_drop(block + FIRST, 10); /* no whole page */
    assert_int_equal(block[FIRST], 7);
    fast__memory_drop(block + FIRST, LAST - FIRST);
#ifndef FAST_SANITIZED
    assert_true(before == 0 || fast__memory_resident() < before + BYTES / 4);
#endif
    for (int i = 0; i < FIRST; i++)
        assert_int_equal(block[i], 7);
    for (int64_t i = LAST; i < BYTES; i++)
        assert_int_equal(block[i], 7);
    assert_int_equal(block[BYTES / 2], 0);
    block[BYTES / 2] = 3; /* it is memory again */
    fast__free(block);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_arithmetic), cmocka_unit_test(test_alloc),
        cmocka_unit_test(test_pages),      cmocka_unit_test(test_alloc_absurd),
        cmocka_unit_test(test_fault),      cmocka_unit_test(test_arena),
        cmocka_unit_test(test_drop),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
