/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Training is lean. Goal: after the first step no thread of the process allocates, and training
 * lenet stays below 150 MB. Method: this program's own malloc family counts the calls between the
 * end of step 1 and the end of step 10, evaluations included, for every engine of the build. The
 * sanitizers bring allocators of their own: there the steps run and nothing is counted.
 */
#include "fast/run.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static atomic_bool counting;
static atomic_llong allocations;

#if defined(__GLIBC__) && !defined(FAST_SANITIZED)
static void count(void)
{
    if (atomic_load(&counting))
        atomic_fetch_add(&allocations, 1);
}

/* The C library's own, under the names that it keeps for programs like this one. */
void *__libc_malloc(size_t size);
void *__libc_calloc(size_t number, size_t size);
void *__libc_realloc(void *memory, size_t size);
void *__libc_memalign(size_t alignment, size_t size);

void *malloc(size_t size)
{
    count();
    return __libc_malloc(size);
}

void *calloc(size_t number, size_t size)
{
    count();
    return __libc_calloc(number, size);
}

void *realloc(void *memory, size_t size)
{
    count();
    return __libc_realloc(memory, size);
}

void *aligned_alloc(size_t alignment, size_t size)
{
    count();
    return __libc_memalign(alignment, size);
}

int posix_memalign(void **out, size_t alignment, size_t size)
{
    count();
    void *memory = __libc_memalign(alignment, size);
    if (!memory)
        return ENOMEM;
    *out = memory;
    return 0;
}
#endif

static void on_event(void *ctx, const fast_event *event)
{
    (void)ctx;
    if (event->kind == FAST_EVENT_EVALUATE && event->step == 1)
        atomic_store(&counting, true);
    if (event->kind == FAST_EVENT_EVALUATE && event->step == 10)
        atomic_store(&counting, false);
}

static void assert_lean(const char *engine, const char *model, const char *more)
{
    char engine_option[64];
    snprintf(engine_option, sizeof engine_option, "engine=%s", engine);
#ifdef FAST_SLOW
    const char *const batch = "batch=4";
#else
    const char *const batch = "batch=16";
#endif
    const char *const options[] = { engine_option,     model, "data=digits:train=200,test=20",
                                    "steps=11",        batch, "plan=no",
                                    "evaluate=1steps", more,  NULL };
    fast_run *run;
    if (fast_run_open(options, &run) != FAST_OK)
        fail_msg("%s", fast_error_detail());
    fast_run_watch(run, on_event, NULL);
    atomic_store(&allocations, 0);
    assert_int_equal(fast_run_train(run), FAST_OK);
    assert_false(atomic_load(&counting));
    if (atomic_load(&allocations) != 0)
        fail_msg("%s, %s: %lld allocations in steps 2 to 10", engine, model,
                 (long long)atomic_load(&allocations));
    fast_run_close(run);
}

/* The default job, data set included; where Fashion-MNIST is not installed, on rendered digits. */
static void memory_is_bounded(void **state)
{
    (void)state;
#ifndef FAST_SANITIZED
    const char *options[] = { "steps=3", "evaluate=end", "plan=no", NULL, NULL };
#ifdef FAST_SLOW
    options[3] = "data=digits:train=6000,test=100";
#endif
    fast_run *run;
    if (fast_run_open(options, &run) != FAST_OK)
        fail_msg("%s", fast_error_detail());
    assert_int_equal(fast_run_train(run), FAST_OK);
    assert_true(fast_run_result(run)->memory_peak < 150000000);
    fast_run_close(run);
#endif
}

static void steps_do_not_allocate(void **state)
{
    (void)state;
    int64_t engine_count = 0;
    const fast_part *engines = fast_part_list("engine", &engine_count);
    assert_true(engine_count > 0);
    for (int64_t i = 0; i < engine_count; i++) {
        assert_lean(engines[i].name, "model=lenet", "optimizer=momentum");
        assert_lean(engines[i].name, "model=lenet", "optimizer=lamb");
        assert_lean(engines[i].name, "model=lenet", "augment=shift:2+flip");
    }
}

/* The counter counts: without this a broken one would pass. */
static void counter_counts(void **state)
{
    (void)state;
#if defined(__GLIBC__) && !defined(FAST_SANITIZED)
    atomic_store(&allocations, 0);
    atomic_store(&counting, true);
    char *volatile memory = malloc(100);
    free(memory);
    atomic_store(&counting, false);
    assert_int_equal(atomic_load(&allocations), 1);
#endif
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(counter_counts),
        cmocka_unit_test(steps_do_not_allocate),
        cmocka_unit_test(memory_is_bounded),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
