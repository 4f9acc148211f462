/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "base/err.h"

/*
 * Files inside a program: fast/pack.h has the layout. One program a process; its directory is read
 * before other threads exist and never changes, so that lookups need no lock.
 */

enum { FAST_EMBEDDED_FILES_MAX = 4096, FAST_EMBEDDED_DIRECTORY_MAX = 16 << 20 };

/* Read the directory of a program. FAST_ENOENT: nothing is packed behind it, FAST_EFORMAT,
 * FAST_EIO, FAST_ENOMEM. The settings are lent until fast__embedded_close(). */
fast_err fast__embedded_read(const char *program, const char **settings_out);
/* Forget it, for tests. */
void fast__embedded_close(void);

/* Tell whether the program has a file of this path. */
bool fast__embedded_has(const char *path);

/* Open the file of this path inside the program, as fast__file_open() does. FAST_ENOENT, without
 * a message: no embedded file has this path. FAST_EFORMAT: its checksum is wrong. */
fast_err fast__embedded_open(const char *path, int *fd_out, int64_t *size_out);

/* Write the program `out`, executable: `runtime` with the files behind it. FAST_EFORMAT if that is
 * packed already. */
fast_err fast__embedded_write(const char *runtime, const char *out, const char *settings,
                              const char *const *files, int64_t count, int64_t *bytes_out);
