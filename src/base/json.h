/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "base/err.h"

#include <jansson.h>
#include <stdio.h>

/*
 * JSON by jansson, with the conventions of this library in one place:
 *
 *  - Numbers that are not finite are null. Measured numbers are rounded to 9 digits when they enter
 *    a tree; trees are printed with 15, so that numbers that were read keep their digits.
 *  - Bytes of texts that are not UTF-8 become U+FFFD: output never fails because of a file's name.
 *  - Members keep the order in which they were set.
 *  - A value for which memory was missing is NULL, and makes the object or array that it is put
 *    into NULL. So a tree is built straight down and looked at once, when it is printed.
 *
 * jansson allocates with malloc(). Its allocation functions are global to the process and may be in
 * use by the program around this library, so they stay untouched; texts that leave this interface
 * are of fast__alloc().
 */

/* Make a value. NULL where memory is missing. */
json_t *fast__json_text(const char *text); /* null for NULL */
json_t *fast__json_real(double value);     /* 9 digits; null if it is not finite */
json_t *fast__json_exact(double value);    /* as it is; null if it is not finite */
json_t *fast__json_hash(uint64_t value);   /* 16 digits as text: doubles have 53 bits; 0: null */

/* Set a member of *object, or append to *array. Takes `value`. Where it is NULL or memory is
 * missing, the container is freed and becomes NULL. `key` is UTF-8. */
void fast__json_set(json_t **object, const char *key, json_t *value);
void fast__json_append(json_t **array, json_t *value);

/* Print *move, which is freed and becomes NULL, in one line: {"a": 1, "b": [2, 3]}. The text is the
 * caller's (fast__free). FAST_ENOMEM also where *move is NULL. */
fast_err fast__json_print(json_t **move, char **out);
/* Write it to a file, with a line feed. FAST_EIO, FAST_ENOMEM. */
fast_err fast__json_write(json_t **move, FILE *file);

/* The flags of json_dumpb() and others that print numbers as above. */
#define FAST_JSON_FLAGS (JSON_ENCODE_ANY | JSON_REAL_PRECISION(15))

/* Read a text that is one JSON value, or the first value of a text: *used_out is then its size.
 * Objects have no member twice, texts have no zero byte, nesting ends at jansson's 2048.
 * FAST_EFORMAT with `where` and the byte, FAST_ENOMEM. */
fast_err fast__json_read(const char *where, const char *text, size_t size, json_t **out);
fast_err fast__json_read_first(const char *where, const char *text, size_t size, size_t *used_out,
                               json_t **out);

/* The number of an object's member, NAN if it has no such number. */
double fast__json_number(const json_t *object, const char *key);
