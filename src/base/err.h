/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "fast/fast.h"

/* Record why an operation failed and return its code. Called once, where the error is decided;
 * callers only pass the code on. The text is lower case, one line, without a full stop. errno is
 * preserved. */
#define fast__fail(err, ...) fast__fail_with((err), fast__fail_record(__VA_ARGS__))

/* The two halves of fast__fail(), split so that the compiler sees that the result equals `err` and
 * is not FAST_OK. */
int fast__fail_record(const char *format, ...) __attribute__((format(printf, 1, 2)));
static inline __attribute__((always_inline)) fast_err fast__fail_with(fast_err err, int recorded)
{
    (void)recorded;
    return err;
}

/* Prefix the detail of an error with `where`, for an error that was decided without knowing the
 * place, such as the name of a parsed file. Returns err; no effect for FAST_OK. */
fast_err fast__fail_in(fast_err err, const char *where);

/* Use `detail` for the errors of this thread from now on; NULL restores the thread's own buffer.
 * Returns the buffer before. Called where coroutines are switched on one thread. */
enum { FAST_DETAIL_MAX = 512 };
char *fast__fail_buffer(char detail[FAST_DETAIL_MAX]);

/* Check `size`, the first field of a struct `name` of the caller, against `known`, the bytes of the
 * struct in this library. 0 is always known. FAST_EINVAL. */
fast_err fast__check_size(const char *name, size_t size, size_t known);

/* Return from the calling function if `expr` fails. The only macro in FAST that hides a return;
 * a function with something to undo writes `if (err) goto undo_x;` instead. */
#define FAST_TRY(expr)                    \
    do {                                  \
        const fast_err try_err_ = (expr); \
        if (try_err_ != FAST_OK)          \
            return try_err_;              \
    } while (0)

/* Stop at once if an invariant is broken: a bug in FAST. Active in every build type. */
#define FAST_ASSERT(cond) ((cond) ? (void)0 : fast__assert_failed(#cond, __FILE__, __LINE__))
_Noreturn void fast__assert_failed(const char *cond, const char *file, int line);
