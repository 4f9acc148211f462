/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Random bytes of the operating system, for secrets such as the token of `fast ui`. The kernel's
 * generator blocks only until it is seeded after boot; a request of at most 256 bytes is then
 * neither cut short nor interrupted.
 */
#include "base/system_random.h"

#include <errno.h>
#include <sys/random.h>

fast_err fast__system_random(void *bytes, size_t size)
{
    ssize_t got;

    FAST_ASSERT(bytes);
    FAST_ASSERT(size <= 256);
    do
        got = getrandom(bytes, size, 0);
    while (got < 0 && errno == EINTR);
    if (got != (ssize_t)size)
        return fast__fail(FAST_EIO, "the system gives no random bytes");
    return FAST_OK;
}
