/* SPDX-License-Identifier: Apache-2.0 */
/*
 * UTF-8 (RFC 3629): which bytes are one character, and text with the others replaced. Names of
 * files and hosts may hold any bytes; JSON and terminals want characters.
 */
#include "base/utf8.h"

#include "base/err.h"

#include <string.h>

int fast__utf8_length(const char *text, size_t size)
{
    const unsigned char *s = (const unsigned char *)text;

    if (size == 0)
        return 0;
    if (s[0] < 0x80)
        return 1;
    const int length = s[0] >= 0xf0 ? 4 : s[0] >= 0xe0 ? 3 : 2;
    if (s[0] < 0xc2 || s[0] > 0xf4 || size < (size_t)length)
        return 0;
    for (int i = 1; i < length; i++)
        if ((s[i] & 0xc0) != 0x80)
            return 0;
    /* The second byte tells overlong forms, surrogates and values above the last plane. */
    if ((s[0] == 0xe0 && s[1] < 0xa0) || (s[0] == 0xed && s[1] > 0x9f) ||
        (s[0] == 0xf0 && s[1] < 0x90) || (s[0] == 0xf4 && s[1] > 0x8f))
        return 0;
    return length;
}

size_t fast_text_utf8(const char *text, char *out, size_t size)
{
    static const char replacement[] = "\xef\xbf\xbd";
    size_t left = strlen(text), used = 0;
    bool full = size == 0;

    FAST_ASSERT(out != NULL || size == 0);
    if (size > 0)
        out[0] = '\0';
    while (left > 0) {
        const size_t length = (size_t)fast__utf8_length(text, left);
        const size_t written = length > 0 ? length : sizeof replacement - 1;

        full = full || used + written >= size;
        if (!full) {
            memcpy(out + used, length > 0 ? text : replacement, written);
            out[used + written] = '\0';
        }
        used += written;
        text += length > 0 ? length : 1;
        left -= length > 0 ? length : 1;
    }
    return used;
}
