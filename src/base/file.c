/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Files: bounded reads, atomic replacement, folders.
 *
 * Replacement writes a new file beside the old one and renames it:
 *
 *     create path.PID.N.tmp, write, fsync, close, rename to path, fsync the folder
 *
 * A crash or a full disk at any point leaves the old file or the new one, never a mixture. A
 * failure that the program survives also removes the temporary file; after a killed process the
 * next replacement, or fast__file_sweep(), removes it. The writer holds a lock on it, which the
 * system releases when the process dies, on any machine that sees the folder. Writes go through a
 * buffer of 64 KB. Only regular files are replaced: a device or a pipe of that name is refused.
 */
#include "base/file.h"

#include "base/embedded.h"
#include "base/memory.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
    STREAM_SIZE = 64 * 1024,  /* of the buffer of a stream */
    TEMPORARY_COUNT_MAX = 100 /* names that are tried for a temporary file */
};

/* The stream that a fast_file_write_fn writes to. */
typedef struct file_stream {
    int fd;                            /* descriptor of the temporary file */
    size_t used;                       /* bytes in the buffer */
    const char *path;                  /* path of the file that will be replaced, for messages */
    unsigned char buffer[STREAM_SIZE]; /* bytes that were not yet written */
} file_stream;

/* Who is told of the files that this thread opens. */
static _Thread_local fast_file_watch_fn *watcher;
static _Thread_local void *watcher_ctx;

void fast__file_watch(fast_file_watch_fn *watch, void *ctx)
{
    watcher = watch;
    watcher_ctx = ctx;
}

bool fast__file_exists(const char *path)
{
    return fast__embedded_has(path) || access(path, R_OK) == 0;
}

fast_err fast__file_open(const char *path, int *fd_out, int64_t *size_out)
{
    FAST_ASSERT(path != NULL);
    const fast_err inside = fast__embedded_open(path, fd_out, size_out);
    if (inside != FAST_ENOENT)
        return inside;
    if (watcher)
        watcher(watcher_ctx, path);
    /* Without O_NONBLOCK a named pipe would wait for a writer. */
    const int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0)
        return fast__fail(errno == ENOENT || errno == ENOTDIR ? FAST_ENOENT : FAST_EIO,
                          "cannot read \"%s\": %s", path, strerror(errno));
    struct stat info;
    if (fstat(fd, &info)) {
        const int reason = errno;
        close(fd);
        return fast__fail(FAST_EIO, "cannot read \"%s\": %s", path, strerror(reason));
    }
    if (!S_ISREG(info.st_mode)) {
        close(fd);
        /* Readers map a file or read it in several passes; standard input has flags of its own. */
        return S_ISFIFO(info.st_mode)
                   ? fast__fail(FAST_EFORMAT,
                                "\"%s\" is a pipe, and this is read more than once: write it to "
                                "a file first",
                                path)
                   : fast__fail(FAST_EFORMAT, "\"%s\" is not a regular file", path);
    }
    *fd_out = fd;
    *size_out = (int64_t)info.st_size;
    return FAST_OK;
}

/* Read exactly `size` bytes. */
static fast_err read_all(int fd, const char *path, unsigned char *bytes, size_t size)
{
    size_t done = 0;
    while (done < size) {
        const ssize_t got = read(fd, bytes + done, size - done);
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return fast__fail(FAST_EIO, "cannot read \"%s\": %s", path, strerror(errno));
        if (got == 0)
            return fast__fail(FAST_EIO, "\"%s\" became shorter while it was read", path);
        done += (size_t)got;
    }
    return FAST_OK;
}

fast_err fast__file_read(const char *path, size_t size_max, void *out, size_t *size_out)
{
    FAST_ASSERT(path != NULL);
    FAST_ASSERT(out != NULL);
    int fd;
    int64_t size;
    FAST_TRY(fast__file_open(path, &fd, &size));

    unsigned char *bytes = NULL;
    fast_err err;
    if ((size_t)size > size_max || size == INT64_MAX)
        err = fast__fail(FAST_EFORMAT, "\"%s\" has %lld bytes; at most %zu are read", path,
                         (long long)size, size_max);
    else
        err = fast__alloc("a file", size + 1, 1, &bytes);
    if (!err)
        err = read_all(fd, path, bytes, (size_t)size);
    close(fd);
    if (err) {
        fast__free(bytes);
        return err;
    }
    /* `out` is a pointer to a pointer of any type. */
    memcpy(out, &bytes, sizeof bytes);
    if (size_out)
        *size_out = (size_t)size;
    return FAST_OK;
}

/* Write all of `size` bytes to the temporary file. */
static fast_err stream_write(file_stream *stream, const unsigned char *bytes, size_t size)
{
    while (size > 0) {
        const ssize_t put = write(stream->fd, bytes, size);
        if (put < 0 && errno == EINTR)
            continue;
        if (put < 0)
            return fast__fail(FAST_EIO, "cannot write \"%s\": %s", stream->path, strerror(errno));
        bytes += put;
        size -= (size_t)put;
    }
    return FAST_OK;
}

/* Write the buffered bytes. */
static fast_err stream_flush(file_stream *stream)
{
    const size_t used = stream->used;
    stream->used = 0;
    return stream_write(stream, stream->buffer, used);
}

fast_err fast__file_put(void *to, const void *bytes, size_t size)
{
    file_stream *stream = to;
    FAST_ASSERT(stream != NULL);
    FAST_ASSERT(stream->used <= STREAM_SIZE);
    if (size == 0)
        return FAST_OK;
    if (size > STREAM_SIZE - stream->used)
        FAST_TRY(stream_flush(stream));
    if (size > STREAM_SIZE)
        return stream_write(stream, bytes, size);
    memcpy(stream->buffer + stream->used, bytes, size);
    stream->used += size;
    return FAST_OK;
}

/* Lock a new temporary file. False if a sweep has removed it before it was locked, or is about to.
 * A file system without locks is no error. */
static bool temporary_lock(int fd)
{
    struct stat info;
    if (flock(fd, LOCK_EX | LOCK_NB) && errno == EWOULDBLOCK)
        return false;
    return fstat(fd, &info) != 0 || info.st_nlink > 0;
}

/* Create a new file beside `path`. Two processes that replace one file at once get different
 * names. */
static fast_err temporary_open(const char *path, char temporary[FAST_PATH_MAX], int *fd_out)
{
    for (int i = 0; i < TEMPORARY_COUNT_MAX; i++) {
        const int length =
            snprintf(temporary, FAST_PATH_MAX, "%s.%ld.%d.tmp", path, (long)getpid(), i);
        if (length < 0 || length >= FAST_PATH_MAX)
            return fast__fail(FAST_EINVAL, "the path \"%.64s...\" is too long", path);
        const int fd = open(temporary, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
        if (fd >= 0 && temporary_lock(fd)) {
            *fd_out = fd;
            return FAST_OK;
        }
        if (fd >= 0)
            close(fd);
        else if (errno != EEXIST)
            break;
    }
    return fast__fail(errno == ENOENT || errno == ENOTDIR ? FAST_ENOENT : FAST_EIO,
                      "cannot write \"%s\": %s", path, strerror(errno));
}

/* Make a rename survive a crash. File systems without this ability return EINVAL, which is no
 * error. */
static fast_err folder_sync(const char *path)
{
    char folder[FAST_PATH_MAX];
    const char *slash = strrchr(path, '/');
    const size_t length = slash ? (size_t)(slash - path) : 0;
    FAST_ASSERT(length < sizeof folder);
    memcpy(folder, path, length);
    folder[length] = 0;
    const char *name = !slash ? "." : length == 0 ? "/" : folder;

    const int fd = open(name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0)
        return FAST_OK; /* the folder may be written but not listed */
    const int failed = fsync(fd);
    const int reason = errno;
    close(fd);
    if (failed && reason != EINVAL && reason != ENOTSUP)
        return fast__fail(FAST_EIO, "cannot sync the folder of \"%s\": %s", path, strerror(reason));
    return FAST_OK;
}

/* Tell whether a file name is a temporary of `name`: NAME.PID.N.tmp. */
static bool is_temporary(const char *name, const char *entry)
{
    const size_t length = strlen(name);
    char *end;
    if (strncmp(entry, name, length) != 0 || entry[length] != '.')
        return false;
    if (strtol(entry + length + 1, &end, 10) <= 0 || *end != '.')
        return false;
    strtol(end + 1, &end, 10);
    return strcmp(end, ".tmp") == 0;
}

/* Remove a temporary file that no process has locked. Its writer may have renamed it and made the
 * next of that name before it was locked here: that one stays. */
static void sweep_entry(int folder, const char *entry)
{
    struct stat info, named;
    const int fd = openat(folder, entry, O_RDWR | O_CLOEXEC | O_NONBLOCK | O_NOFOLLOW);
    if (fd < 0)
        return;
    if (fstat(fd, &info) == 0 && S_ISREG(info.st_mode) && flock(fd, LOCK_EX | LOCK_NB) == 0 &&
        fstatat(folder, entry, &named, AT_SYMLINK_NOFOLLOW) == 0 && named.st_ino == info.st_ino &&
        named.st_dev == info.st_dev)
        unlinkat(folder, entry, 0);
    close(fd);
}

void fast__file_sweep(const char *path)
{
    const char *slash = strrchr(path, '/');
    char folder[FAST_PATH_MAX];
    snprintf(folder, sizeof folder, "%.*s", slash ? (int)(slash - path + 1) : 1,
             slash ? path : ".");
    DIR *open_folder = opendir(folder);
    if (!open_folder)
        return;
    const char *name = slash ? slash + 1 : path;
    for (struct dirent *entry; (entry = readdir(open_folder)) != NULL;)
        if (is_temporary(name, entry->d_name))
            sweep_entry(dirfd(open_folder), entry->d_name);
    closedir(open_folder);
}

fast_err fast__file_replace(const char *path, fast_file_write_fn *write_fn, void *ctx)
{
    FAST_ASSERT(path != NULL);
    FAST_ASSERT(write_fn != NULL);
    struct stat info;
    if (!stat(path, &info) && !S_ISREG(info.st_mode))
        return fast__fail(FAST_EINVAL, "\"%s\" is not a regular file; it is not replaced", path);

    fast__file_sweep(path);
    file_stream *stream;
    FAST_TRY(fast__alloc("a file's buffer", 1, sizeof *stream, &stream));
    char temporary[FAST_PATH_MAX];
    stream->path = path;
    fast_err err = temporary_open(path, temporary, &stream->fd);
    if (err)
        goto undo_stream;

    err = write_fn(ctx, stream);
    if (!err)
        err = stream_flush(stream);
    if (!err && fsync(stream->fd))
        err = fast__fail(FAST_EIO, "cannot sync \"%s\": %s", path, strerror(errno));
    /* The lock is held until the file has its name: a sweep removes what is not locked. */
    if (!err && rename(temporary, path))
        err = fast__fail(FAST_EIO, "cannot replace \"%s\": %s", path, strerror(errno));
    if (close(stream->fd) && !err)
        err = fast__fail(FAST_EIO, "cannot write \"%s\": %s", path, strerror(errno));
    if (err)
        goto undo_temporary;
    fast__free(stream);
    return folder_sync(path);

undo_temporary:
    unlink(temporary);
undo_stream:
    fast__free(stream);
    return err;
}

fast_err fast__file_make_folder(const char *path)
{
    char part[FAST_PATH_MAX];
    const size_t length = strlen(path);
    if (length == 0 || length >= sizeof part)
        return fast__fail(FAST_EINVAL, "the path \"%.64s\" is empty or too long", path);
    memcpy(part, path, length + 1);

    for (char *c = part + 1;; c++) {
        if (*c != '/' && *c != 0)
            continue;
        const char end = *c;
        *c = 0;
        struct stat info;
        const int reason = mkdir(part, 0777) ? errno : 0;
        if (reason && (stat(part, &info) || !S_ISDIR(info.st_mode)))
            return fast__fail(FAST_EIO, "cannot make the folder \"%s\": %s", part,
                              strerror(reason));
        *c = end;
        if (end == 0)
            return FAST_OK;
    }
}

fast_err fast__file_cache_folder(char *path, size_t size)
{
    const char *own = getenv("FAST_HOME");
    const char *cache = getenv("XDG_CACHE_HOME");
    const char *home = getenv("HOME");
    int length;
    if (own && *own)
        length = snprintf(path, size, "%s", own);
    else if (cache && *cache == '/')
        length = snprintf(path, size, "%s/fast", cache);
    else if (home && *home)
        length = snprintf(path, size, "%s/.cache/fast", home);
    else
        return fast__fail(FAST_ENOENT, "no folder for the cache; set FAST_HOME to one");
    if (length < 0 || (size_t)length >= size)
        return fast__fail(FAST_EINVAL, "the path of the cache folder is too long");
    return FAST_OK;
}
