/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where the store is: the path that was given, else, or for "auto", the place for a user's data
 * that the XDG Base Directory Specification names: $XDG_DATA_HOME/fast/runs.db,
 * ~/.local/share/fast/runs.db. A relative $XDG_DATA_HOME is ignored, as the specification says.
 */
#include "store/store.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Return the path of the store in `out`. FAST_EINVAL for "none" and "no", which name no store, and
 * for a path that is too long; FAST_ENOENT where neither $HOME nor $XDG_DATA_HOME is set. */
fast_err fast_store_path(const char *path, char *out, size_t size)
{
    FAST_ASSERT(out && size > 0);
    const char *data = getenv("XDG_DATA_HOME");
    const char *home = getenv("HOME");
    char text[4096];
    int length;

    if (path && (strcmp(path, "none") == 0 || strcmp(path, "no") == 0))
        return fast__fail(FAST_EINVAL, "'%s' means no store: give the path of one", path);
    if (path && *path && strcmp(path, "auto") != 0)
        length = snprintf(text, sizeof text, "%s", path);
    else if (data && *data == '/')
        length = snprintf(text, sizeof text, "%s/fast/runs.db", data);
    else if (home && *home)
        length = snprintf(text, sizeof text, "%s/.local/share/fast/runs.db", home);
    else
        return fast__fail(FAST_ENOENT, "no folder for the run store; give its path with --store");
    /* A path that was cut would name another file. */
    if (length < 0 || (size_t)length >= size || (size_t)length >= sizeof text)
        return fast__fail(FAST_EINVAL, "the path of the run store is too long");
    snprintf(out, size, "%s", text);
    return FAST_OK;
}
