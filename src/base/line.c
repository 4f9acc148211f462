/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One printable line of text, for the details of errors and for the log.
 *
 * Messages quote names that users type and that files contain, so they are made safe for terminals:
 * no control characters, no line feeds, a bounded length that shows where it was cut. No memory is
 * allocated.
 */
#include "base/line.h"

#include "base/err.h"

#include <stdio.h>
#include <string.h>

/* Largest size of a line; longer lines are cut. */
enum { LINE_MAX_SIZE = 1024 };

void fast__line_format(char *line, size_t size, const char *format, va_list args)
{
    /* The arguments may point into `line`, as when a caller prefixes a detail with a path. */
    char text[LINE_MAX_SIZE];
    FAST_ASSERT(size >= 4);
    FAST_ASSERT(size <= sizeof text);

    const int length = vsnprintf(text, size, format, args);
    FAST_ASSERT(length >= 0);
    for (char *c = text; *c; c++) {
        if ((unsigned char)*c < ' ' || *c == 0x7f)
            *c = '?';
    }
    if ((size_t)length >= size)
        memcpy(text + size - 4, "...", 4);
    memcpy(line, text, strlen(text) + 1);
}
