/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Coroutines. The switch is Boost.Context's jump_fcontext(), two routines of assembly with C
 * linkage that save the callee's registers on the stack and exchange stack pointers: a few
 * nanoseconds. Without that library it is ucontext, which also saves the signal mask, by a system
 * call.
 *
 * All stacks are one mapping that reserves nothing: a stack costs the pages that were touched, 4 KB
 * for an actor that only waits. The lowest page of each is a guard as long as there are few enough
 * of them: each splits the mapping in two, and the kernel has about 65,000 mappings for a process.
 *
 *     base   | guard | stack 0 grows down <- | guard | stack 1 <- | ...
 *
 * The sanitizers are told about every switch: the address sanitizer keeps a fake stack for each,
 * the thread sanitizer a history.
 */
#include "base/fiber.h"

#include "base/memory.h"

#include <sys/mman.h>
#include <unistd.h>

#if defined(__SANITIZE_ADDRESS__)
#define FIBER_ASAN 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define FIBER_ASAN 1
#endif
#endif
#if defined(__SANITIZE_THREAD__)
#define FIBER_TSAN 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define FIBER_TSAN 1
#endif
#endif

#ifdef FIBER_ASAN
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#endif
#ifdef FIBER_TSAN
#include <sanitizer/tsan_interface.h>
#endif

/* Larger worlds have no guards. The tops of stacks differ by some cache lines, or the frames of all
 * fibers would fall on the same few sets of the caches. */
enum {
    GUARDS_MAX = 8192, /* stacks with a guard page */
    COLOURS = 16,      /* different offsets of the tops of stacks */
    COLOUR_SIZE = 192  /* bytes between two offsets */
};

#ifdef FAST_HAVE_FCONTEXT
typedef struct fiber_transfer {
    void *from; /* the context that jumped here */
    void *data; /* passed by that context */
} fiber_transfer;
fiber_transfer jump_fcontext(void *to, void *data);
void *make_fcontext(void *top, size_t size, void (*main)(fiber_transfer));
#else
#include <ucontext.h>
#endif

fast_err fast__stacks_open(int64_t count, int64_t each, fast_stacks *out)
{
    FAST_ASSERT(count > 0 && each > 0);
    int64_t size;
    void *base = MAP_FAILED;

    if (fast__mul_size(count, each, &size))
        base = mmap(NULL, (size_t)size, PROT_READ | PROT_WRITE,
                    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (base == MAP_FAILED)
        return fast__fail(FAST_ENOMEM, "no memory for the stacks of %lld coroutines",
                          (long long)count);
    /* With huge pages the first write to a stack would allocate its neighbours too. */
    madvise(base, (size_t)size, MADV_NOHUGEPAGE);
    *out = (fast_stacks){ .base = base, .size = (size_t)size, .count = count, .each = each };
    if (count <= GUARDS_MAX)
        for (int64_t i = 0; i < count; i++)
            if (mprotect(out->base + i * each, (size_t)sysconf(_SC_PAGESIZE), PROT_NONE))
                break; /* guards are optional */
    return FAST_OK;
}

void fast__stacks_close(fast_stacks *stacks)
{
    if (!stacks->base)
        return;
#ifdef FIBER_ASAN
    ASAN_UNPOISON_MEMORY_REGION(stacks->base, stacks->size);
#endif
    munmap(stacks->base, stacks->size);
    *stacks = (fast_stacks){ .base = NULL };
}

/* Tell the sanitizers about a switch: just before, and just after. */

static void switch_begin(void **fake, const void *stack, size_t size, void *race)
{
#ifdef FIBER_ASAN
    __sanitizer_start_switch_fiber(fake, stack, size);
#endif
#ifdef FIBER_TSAN
    __tsan_switch_to_fiber(race, 0);
#endif
    (void)fake;
    (void)stack;
    (void)size;
    (void)race;
}

static void switch_end(void *fake, const void **stack, size_t *size)
{
#ifdef FIBER_ASAN
    __sanitizer_finish_switch_fiber(fake, stack, size);
#endif
    (void)fake;
    (void)stack;
    (void)size;
}

#ifdef FAST_HAVE_FCONTEXT

/* Jump to the fiber, or back; each side stores where the other continues. */
static void jump_in(fast_fiber *fiber)
{
    fiber->context = jump_fcontext(fiber->context, fiber).from;
}

static void jump_out(fast_fiber *fiber)
{
    fiber->caller = jump_fcontext(fiber->caller, NULL).from;
}

static void fiber_main(fast_fiber *fiber);

static void entry(fiber_transfer from)
{
    fast_fiber *fiber = from.data;
    fiber->caller = from.from;
    fiber_main(fiber);
}

static void context_make(fast_fiber *fiber)
{
    fiber->context = make_fcontext(fiber->stack + fiber->size, fiber->size, entry);
}

#else

/* Both contexts are at the top of the stack, above the frames of the program. */
typedef struct fiber_contexts {
    ucontext_t inside, outside;
} fiber_contexts;

static void jump_in(fast_fiber *fiber)
{
    swapcontext(fiber->caller, fiber->context);
}

static void jump_out(fast_fiber *fiber)
{
    swapcontext(fiber->context, fiber->caller);
}

static void fiber_main(fast_fiber *fiber);

/* makecontext() passes integers only: the pointer is passed in halves. */
static void entry(unsigned high, unsigned low)
{
    fiber_main((fast_fiber *)(uintptr_t)((uint64_t)high << 32 | low));
}

static void context_make(fast_fiber *fiber)
{
    const size_t room = (sizeof(fiber_contexts) + FAST_ALIGN - 1) / FAST_ALIGN * FAST_ALIGN;
    fiber_contexts *both = (fiber_contexts *)(void *)(fiber->stack + fiber->size - room);
    const uint64_t number = (uint64_t)(uintptr_t)fiber;

    fiber->context = &both->inside;
    fiber->caller = &both->outside;
    getcontext(&both->inside);
    both->inside.uc_stack.ss_sp = fiber->stack;
    both->inside.uc_stack.ss_size = fiber->size - room;
    both->inside.uc_link = NULL;
    makecontext(&both->inside, (void (*)(void))entry, 2, (unsigned)(number >> 32),
                (unsigned)number);
}

#endif

static void fiber_main(fast_fiber *fiber)
{
    switch_end(NULL, &fiber->above, &fiber->above_size);
    fiber->main(fiber->ctx);
    fiber->alive = false;
    /* Without a pointer to store it, the sanitizer frees the fake stack: the fiber never returns.
     * */
    switch_begin(NULL, fiber->above, fiber->above_size, fiber->race_caller);
    jump_out(fiber);
    FAST_ASSERT(fiber->alive); /* An ended fiber was resumed. */
}

void fast__fiber_begin(fast_fiber *fiber, const fast_stacks *stacks, int64_t i,
                       void (*main)(void *ctx), void *ctx)
{
    FAST_ASSERT(i >= 0 && i < stacks->count);
    FAST_ASSERT(!fiber->alive);
    *fiber = (fast_fiber){ .stack = stacks->base + i * stacks->each,
                           .size = (size_t)(stacks->each - i % COLOURS * COLOUR_SIZE),
                           .main = main,
                           .ctx = ctx,
                           .alive = true };
#ifdef FIBER_ASAN
    ASAN_UNPOISON_MEMORY_REGION(fiber->stack, (size_t)stacks->each);
#endif
    context_make(fiber);
}

void fast__fiber_resume(fast_fiber *fiber)
{
    void *fake = NULL;
    FAST_ASSERT(fiber->alive);
#ifdef FIBER_TSAN
    if (!fiber->race)
        fiber->race = __tsan_create_fiber(0);
    fiber->race_caller = __tsan_get_current_fiber();
#endif
    switch_begin(&fake, fiber->stack, fiber->size, fiber->race);
    jump_in(fiber);
    switch_end(fake, NULL, NULL);
#ifdef FIBER_TSAN
    if (!fiber->alive) {
        __tsan_destroy_fiber(fiber->race);
        fiber->race = NULL;
    }
#endif
}

void fast__fiber_yield(fast_fiber *fiber)
{
    switch_begin(&fiber->fake, fiber->above, fiber->above_size, fiber->race_caller);
    jump_out(fiber);
    switch_end(fiber->fake, &fiber->above, &fiber->above_size);
}
