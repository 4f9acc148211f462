/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The token of a store's server, which lasts longer than the server: bookmarks and cookies work
 * after a restart. It is in a file beside the store, which only its owner may read:
 *
 *   runs.db          the store
 *   runs.db.token    "67ea202a070be97d399e3c82f624b542\n", mode 0600
 *
 * A file that another user owns or can read, a link, or one that holds anything else is replaced
 * by a new token: it may have been read. A folder that cannot be written to gives a token that
 * lasts as long as the server.
 */
#include "serve/token.h"

#include "base/file.h"
#include "base/system_random.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* The file is small and trusted only after these checks, so that a text which somebody else put
 * there is never a token that opens this server. */

/* True if `text` is a token: lower-case hexadecimal digits, and nothing behind but a line feed. */
static bool is_token(const char *text, size_t size)
{
    const size_t length = FAST_HTTP_TOKEN_SIZE - 1;

    return size >= length && strspn(text, "0123456789abcdef") == length &&
           (size == length || (size == length + 1 && text[length] == '\n'));
}

/* Read the token of a file that is safe to trust. */
static bool read_token(const char *path, char token[FAST_HTTP_TOKEN_SIZE])
{
    const int fd = open(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    char text[FAST_HTTP_TOKEN_SIZE + 2] = "";
    struct stat st;
    bool found = false;

    if (fd < 0)
        return false;
    if (fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && st.st_uid == geteuid() &&
        (st.st_mode & 077) == 0) {
        const ssize_t got = read(fd, text, sizeof text - 1);

        found = got > 0 && is_token(text, (size_t)got);
    }
    close(fd);
    if (found)
        snprintf(token, FAST_HTTP_TOKEN_SIZE, "%.32s", text);
    return found;
}

/* Write a token to a file of mode 0600. The link fails if another server was first: its token is
 * then read. Returns false if the file could not be made. */
static bool write_token(const char *path, const char *token)
{
    char made[FAST_PATH_MAX];
    const int length = snprintf(made, sizeof made, "%s.XXXXXX", path);
    const int fd = length > 0 && (size_t)length < sizeof made ? mkostemp(made, O_CLOEXEC) : -1;

    if (fd < 0)
        return false;
    const bool whole = dprintf(fd, "%s\n", token) == FAST_HTTP_TOKEN_SIZE;
    const bool linked = close(fd) == 0 && whole && link(made, path) == 0;
    unlink(made);
    return linked;
}

fast_err fast__token_load(const char *store, bool renew, char token[FAST_HTTP_TOKEN_SIZE])
{
    unsigned char random[FAST_HTTP_TOKEN_BYTES];
    char path[FAST_PATH_MAX];
    const int length = snprintf(path, sizeof path, "%s.token", store);

    if (length < 0 || (size_t)length >= sizeof path)
        return fast__fail(FAST_EINVAL, "the path of the run store is too long");
    if (!renew && read_token(path, token))
        return FAST_OK;
    FAST_TRY(fast__system_random(random, sizeof random));
    for (size_t i = 0; i < sizeof random; i++)
        snprintf(token + 2 * i, 3, "%02x", random[i]);
    /* Another server may start at the same time: the first link wins, and both use its token. */
    const bool gone = unlink(path) == 0 || errno == ENOENT;
    if (renew && !gone)
        return fast__fail(FAST_EIO, "the token in \"%s\" cannot be replaced: %s", path,
                          strerror(errno));
    if (!write_token(path, token))
        (void)read_token(path, token);
    return FAST_OK;
}
