/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "base/err.h"

/* Bytes of a path at most, with its zero byte. */
enum { FAST_PATH_MAX = 4096 };

/* Open a regular file for reading, never waiting for one. FAST_ENOENT if it does not exist,
 * FAST_EFORMAT if it is something else, FAST_EIO. The caller closes *fd_out. */
fast_err fast__file_open(const char *path, int *fd_out, int64_t *size_out);

/* Read a regular file whole into memory that the caller frees with fast__free(). FAST_ENOENT if it
 * does not exist, FAST_EFORMAT if it is larger than `size_max`. One zero byte follows the data. */
fast_err fast__file_read(const char *path, size_t size_max, void *out, size_t *size_out);

/* Replace a file so that a crash leaves the old one or the new one: temporary file beside it,
 * write, fsync, rename, fsync of the folder. `write` is called with the stream and `ctx`; its
 * failure, or a full disk, leaves the old file as it was and no temporary behind. Only a regular
 * file is replaced: FAST_EINVAL for a folder or a device. */
typedef fast_err fast_file_write_fn(void *ctx, void *stream);
fast_err fast__file_replace(const char *path, fast_file_write_fn *write, void *ctx);

/* Append bytes to the stream given to a fast_file_write_fn. */
fast_err fast__file_put(void *stream, const void *bytes, size_t size);

/* Make a folder and its parents. */
fast_err fast__file_make_folder(const char *path);

/* $FAST_HOME, else $XDG_CACHE_HOME/fast, else $HOME/.cache/fast; FAST_ENOENT without any. */
fast_err fast__file_cache_folder(char *path, size_t size);
