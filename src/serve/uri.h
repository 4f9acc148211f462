/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "base/err.h"

/*
 * The target of a request: a path and arguments. Paths are plain: letters, digits, - _ . and single
 * slashes, no escapes and no segment that begins with a dot, because no name of ours needs more.
 * Arguments are decoded, UTF-8, without control characters.
 */
enum { FAST_URI_MAX = 2048, FAST_URI_ARGS = 16 };

typedef struct fast_uri {
    char text[FAST_URI_MAX]; /* holds what the pointers point to */
    const char *path;        /* "/api/runs" */
    int count;               /* of arguments */
    struct {
        const char *name;  /* never NULL */
        const char *value; /* "" where there is no = */
    } args[FAST_URI_ARGS]; /* in the order that they came in */
} fast_uri;

/* Parse `raw` as it was sent. FAST_EINVAL if it is too long, has too many arguments, or holds
 * anything else than it should. */
fast_err fast__uri_parse(const char *raw, fast_uri *out);

/* The value of an argument, or NULL. */
const char *fast__uri_arg(const fast_uri *uri, const char *name);

/* The whole number in an argument, from 0 to `max`, `standard` where it is absent. FAST_EINVAL. */
fast_err fast__uri_count(const fast_uri *uri, const char *name, int64_t standard, int64_t max,
                         int64_t *out);

/* True if the path is `pattern`, in which a # stands for a number from 1 on, given to *id_out. */
bool fast__uri_match(const fast_uri *uri, const char *pattern, int64_t *id_out);
