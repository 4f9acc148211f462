/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stddef.h>

/* Return the length in bytes (1 to 4) of the UTF-8 sequence that starts at `text`, of which `size`
 * bytes may be read; 0 if it is not one. Refuses overlong forms, surrogates and values above
 * U+10FFFF. */
int fast__utf8_length(const char *text, size_t size);
