/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "tensor/json.h"

/* Reads JSON that others wrote: bodies of requests and columns of the store. */

/* True if all of `text` is one JSON value, nested at most 32 deep. */
bool fast__json_is_valid(const char *text, size_t size);

/* The body {"options": {...}, "tags": [...]} of a request for a run: each option is given to
 * `option` with its value as text (yes and no for true and false), each tag to `tag`; what they
 * return but FAST_OK ends it. FAST_EFORMAT for anything else, FAST_EINVAL for what is too long. */
enum { FAST_JSON_WORD_MAX = 1024 };
typedef fast_err fast_json_option_fn(void *ctx, const char *name, const char *value);
typedef fast_err fast_json_word_fn(void *ctx, const char *word);
fast_err fast__json_launch(const char *body, size_t size, fast_json_option_fn *option,
                           fast_json_word_fn *tag, void *ctx);

/* The body {"add": [...], "remove": [...]}, each an array of texts, both optional. */
fast_err fast__json_tags(const char *body, size_t size, fast_json_word_fn *add,
                         fast_json_word_fn *remove, void *ctx);
