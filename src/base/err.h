/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "fast/fast.h"

/* Record why an operation failed and return its code. Called once, where the error is decided;
 * callers above only pass the code on. The text is lower case, one line, without a full stop.
 * errno stays as it was. */
#define fast__fail(err, ...) fast__fail_with((err), fast__fail_record(__VA_ARGS__))

/* The two halves of fast__fail(): apart, so that a compiler sees that what comes out is what goes
 * in, and not FAST_OK. */
int fast__fail_record(const char *format, ...) __attribute__((format(printf, 1, 2)));
static inline __attribute__((always_inline)) fast_err fast__fail_with(fast_err err, int recorded)
{
    (void)recorded;
    return err;
}

/* Put `where` before the detail of an error that something below decided without knowing where: the
 * name of the file whose text was parsed. Returns err; does nothing for FAST_OK. */
fast_err fast__fail_in(fast_err err, const char *where);

/* The detail belongs to the calling actor. A transport whose actors are not threads swaps the
 * buffer when it switches actors; NULL goes back to the thread's own. */
enum { FAST_DETAIL_MAX = 512 };
void fast__fail_buffer(char detail[FAST_DETAIL_MAX]);

/* Return from the calling function if `expr` fails. The only macro in FAST that hides a return;
 * a function with something to undo writes `if (err) goto undo_x;` instead. */
#define FAST_TRY(expr)                    \
    do {                                  \
        const fast_err try_err_ = (expr); \
        if (try_err_ != FAST_OK)          \
            return try_err_;              \
    } while (0)

/* A broken invariant is a bug in FAST: stop at once, in every build type. */
#define FAST_ASSERT(cond) ((cond) ? (void)0 : fast__assert_failed(#cond, __FILE__, __LINE__))
_Noreturn void fast__assert_failed(const char *cond, const char *file, int line);
