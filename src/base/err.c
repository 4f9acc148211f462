/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Errors: names and texts of the codes, the detail of the last error, and assertions.
 *
 * The detail belongs to the calling actor. An actor is a thread, unless a transport runs many
 * actors on one thread: then it gives each its own buffer and swaps the pointer when it switches.
 * So an error that an actor has not yet reported survives failures of other actors.
 */
#include "base/err.h"

#include "base/line.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

/* The thread's own buffer, and the one in use: NULL means the thread's own. */
static _Thread_local char detail_own[FAST_DETAIL_MAX];
static _Thread_local char *detail_now;

/* Turn the value of a macro into a string. */
#define TEXT_OF(x)  TEXT_OF_(x)
#define TEXT_OF_(x) #x

const char *fast_version(void)
{
    return TEXT_OF(FAST_VERSION_MAJOR) "." TEXT_OF(FAST_VERSION_MINOR) "." TEXT_OF(
        FAST_VERSION_PATCH);
}

const char *fast_err_name(fast_err err)
{
    switch (err) {
    case FAST_OK:
        return "OK";
#define X(name, code, text) \
    case FAST_##name:       \
        return #name;
        FAST_ERR_MAP(X)
#undef X
    }
    return "unknown";
}

const char *fast_err_text(fast_err err)
{
    switch (err) {
    case FAST_OK:
        return "no error";
#define X(name, code, text) \
    case FAST_##name:       \
        return text;
        FAST_ERR_MAP(X)
#undef X
    }
    return "unknown error";
}

/* The detail buffer of the calling actor. */
static char *detail(void)
{
    return detail_now ? detail_now : detail_own;
}

fast_err fast__fail_in(fast_err err, const char *where)
{
    char said[FAST_DETAIL_MAX];

    if (!err)
        return FAST_OK;
    snprintf(said, sizeof said, "%s", detail());
    return fast__fail(err, "%s: %s", where, said);
}

const char *fast_error_detail(void)
{
    return detail();
}

int fast__fail_record(const char *format, ...)
{
    FAST_ASSERT(format != NULL);
    const int reason = errno;
    va_list args;
    va_start(args, format);
    fast__line_format(detail(), FAST_DETAIL_MAX, format, args);
    va_end(args);
    errno = reason;
    return 0;
}

fast_err fast__check_size(const char *name, size_t size, size_t known)
{
    if (size == 0 || size == known)
        return FAST_OK;
    return fast__fail(
        FAST_EINVAL,
        "%s has %zu bytes in the caller, and %zu in this library: set size, or compile "
        "against the headers of this library",
        name, size, known);
}

char *fast__fail_buffer(char buffer[FAST_DETAIL_MAX])
{
    char *before = detail_now;
    detail_now = buffer;
    return before;
}

/* The one place in the library that prints and stops: an invariant is broken, so no further result
 * could be trusted. */
_Noreturn void fast__assert_failed(const char *cond, const char *file, int line)
{
    fprintf(stderr, "%s:%d: assertion failed: %s\n", file, line, cond);
    abort();
}
