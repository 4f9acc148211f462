/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "base/err.h"

/*
 * A scanner for the JSON of file headers: punctuation, strings and counts, one after the other. The
 * caller's grammar decides what may come next, so nothing nests deeper than the caller goes. Every
 * failure is FAST_EFORMAT and names the byte.
 */
typedef struct fast_json {
    const char *where; /* names the file in messages */
    const char *text;  /* the first byte; not terminated */
    const char *at;    /* the next byte */
    const char *end;   /* after the last byte */
} fast_json;

/* Fail at the current byte: `where`, byte 17: `what`. */
fast_err fast__json_fail(const fast_json *json, const char *what);

/* The next byte after white space, which is not consumed; 0 at the end. */
char fast__json_peek(fast_json *json);

/* Consume `c`, after white space; fail if something else is there. */
fast_err fast__json_expect(fast_json *json, char c);

/* Go on to the next member of a list that ends with `close`: sets *more_out to false, and consumes
 * `close`, at its end; otherwise consumes the comma that all but the first need. */
fast_err fast__json_next(fast_json *json, char close, bool first, bool *more_out);

/* A string: decoded UTF-8 without NUL, which a C string could not hold. Writes it to `out`, with a
 * NUL, unless `out` is NULL; the caller has measured it that way. *size_out has its size with the
 * NUL. */
fast_err fast__json_string(fast_json *json, char *out, size_t *size_out);

/* A whole number from 0 to 2^63 - 1, without sign, point, exponent or leading zeros. */
fast_err fast__json_count(fast_json *json, int64_t *out);

/* The length of the UTF-8 sequence at `text`, of which `size` bytes are left; 0 if it is not valid:
 * cut off, overlong, a surrogate or above U+10FFFF. */
int fast__utf8_length(const char *text, size_t size);
