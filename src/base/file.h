/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "base/err.h"

/* Largest size of a path in bytes, with its terminating zero. */
enum { FAST_PATH_MAX = 4096 };

/* Open a regular file for reading without ever blocking; a path inside a packed program comes first
 * (embedded.h). FAST_ENOENT if it does not exist,
 * FAST_EFORMAT if it is no regular file, FAST_EIO. The caller closes *fd_out. */
fast_err fast__file_open(const char *path, int *fd_out, int64_t *size_out);

/* Tell whether a path can be read, inside a packed program too. */
bool fast__file_exists(const char *path);

/* Call `watch` with every path that this thread opens from now on; NULL: no longer. */
typedef void fast_file_watch_fn(void *ctx, const char *path);
void fast__file_watch(fast_file_watch_fn *watch, void *ctx);

/* Read a whole regular file into memory that the caller frees with fast__free(). FAST_ENOENT if it
 * does not exist, FAST_EFORMAT if it is larger than `size_max`. A zero byte follows the data. */
fast_err fast__file_read(const char *path, size_t size_max, void *out, size_t *size_out);

/* Replace a file atomically: temporary file beside it, write, fsync, rename, fsync of the folder.
 * `write` is called with `ctx` and the stream; if it fails or the disk is full, the old file is
 * unchanged and no temporary remains. FAST_EINVAL if `path` is a folder or a device. */
typedef fast_err fast_file_write_fn(void *ctx, void *stream);
fast_err fast__file_replace(const char *path, fast_file_write_fn *write, void *ctx);

/* Remove temporary files that processes which were killed have left beside `path`. Files that
 * another process is writing stay. Errors are ignored. */
void fast__file_sweep(const char *path);

/* Append bytes to the stream passed to a fast_file_write_fn. */
fast_err fast__file_put(void *stream, const void *bytes, size_t size);

/* Create a folder and its parents. */
fast_err fast__file_make_folder(const char *path);

/* Write the cache folder to `path`: $FAST_HOME, else $XDG_CACHE_HOME/fast, else $HOME/.cache/fast.
 * FAST_ENOENT if none of the variables is set. */
fast_err fast__file_cache_folder(char *path, size_t size);
