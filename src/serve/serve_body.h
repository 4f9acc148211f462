/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "base/json.h"

/*
 * Bodies of requests. Both have a fixed shape, members in any order, each at most once:
 *
 *     {"options": {"system": "ssp", "workers": 4, "shrink": true}, "tags": ["night"]}
 *     {"add": ["good"], "remove": ["night"]}
 *
 * A callback that returns anything but FAST_OK ends the reading with that error. FAST_EFORMAT for a
 * text that is not JSON or has another shape, FAST_EINVAL for unknown members and long texts.
 */
enum { FAST_BODY_TEXT_MAX = 1024 }; /* bytes of a text, its zero byte included */
typedef fast_err fast_body_option_fn(void *ctx, const char *name, const char *value);
typedef fast_err fast_body_word_fn(void *ctx, const char *word);

/* Read a request for a run. Each option is given to `option` with its value as a command line has
 * it (yes and no for true and false), each tag to `tag`. */
fast_err fast__body_launch(const char *body, size_t size, fast_body_option_fn *option,
                           fast_body_word_fn *tag, void *ctx);

/* Read a change of tags. Both arrays are optional. */
fast_err fast__body_tags(const char *body, size_t size, fast_body_word_fn *add,
                         fast_body_word_fn *remove, void *ctx);
