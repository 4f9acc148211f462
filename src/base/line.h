/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdarg.h>
#include <stddef.h>

/* Format into `line` as one printable line: control characters, which names from hostile files may
 * contain, become '?'; a text that does not fit ends in "...". Arguments may point into `line`. */
void fast__line_format(char *line, size_t size, const char *format, va_list args)
    __attribute__((format(printf, 3, 0)));
