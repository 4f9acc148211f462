/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A scanner for the JSON of file headers (RFC 8259), over untrusted bytes.
 *
 * It knows tokens, not structure: the caller asks for what its format has next, so there is no
 * recursion to bound and nothing is stored. Escapes are decoded, \uD83D\uDE00 pairs included; what
 * is left must be UTF-8 (RFC 3629). Cost: one pass.
 */
#include "tensor/json.h"

#include <string.h>

fast_err fast__json_fail(const fast_json *json, const char *what)
{
    FAST_ASSERT(json->at >= json->text);
    return fast__fail(FAST_EFORMAT, "%s: header, byte %lld: %s", json->where,
                      (long long)(json->at - json->text), what);
}

char fast__json_peek(fast_json *json)
{
    FAST_ASSERT(json->at <= json->end);
    for (; json->at < json->end; json->at++) {
        const char c = *json->at;
        if (c != ' ' && c != '\n' && c != '\t' && c != '\r')
            return c;
    }
    return 0;
}

fast_err fast__json_expect(fast_json *json, char c)
{
    FAST_ASSERT(c != 0);
    if (fast__json_peek(json) != c) {
        const char what[] = { 'e', 'x', 'p', 'e', 'c', 't', 'e', 'd', ' ', '\'', c, '\'', 0 };
        return fast__json_fail(json, what);
    }
    json->at++;
    return FAST_OK;
}

fast_err fast__json_next(fast_json *json, char close, bool first, bool *more_out)
{
    if (fast__json_peek(json) == close) {
        json->at++;
        *more_out = false;
        return FAST_OK;
    }
    if (!first)
        FAST_TRY(fast__json_expect(json, ','));
    *more_out = true;
    return FAST_OK;
}

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
    for (int i = 1; i < length; i++) {
        if ((s[i] & 0xc0) != 0x80)
            return 0;
    }
    /* The second byte decides about overlong forms, surrogates and what is above the last plane. */
    if ((s[0] == 0xe0 && s[1] < 0xa0) || (s[0] == 0xed && s[1] > 0x9f) ||
        (s[0] == 0xf0 && s[1] < 0x90) || (s[0] == 0xf4 && s[1] > 0x8f))
        return 0;
    return length;
}

/* Four hexadecimal digits. */
static bool hex_read(fast_json *json, uint32_t *out)
{
    if (json->end - json->at < 4)
        return false;
    uint32_t code = 0;
    for (int i = 0; i < 4; i++) {
        const char c = json->at[i];
        uint32_t digit;
        if (c >= '0' && c <= '9')
            digit = (uint32_t)(c - '0');
        else if (c >= 'a' && c <= 'f')
            digit = (uint32_t)(c - 'a') + 10;
        else if (c >= 'A' && c <= 'F')
            digit = (uint32_t)(c - 'A') + 10;
        else
            return false;
        code = code << 4 | digit;
    }
    json->at += 4;
    *out = code;
    return true;
}

/* The code point after "\u"; two escapes where it is above U+FFFF. */
static bool code_read(fast_json *json, uint32_t *out)
{
    uint32_t code, low;
    if (!hex_read(json, &code))
        return false;
    if (code >= 0xd800 && code <= 0xdbff) {
        if (json->end - json->at < 2 || json->at[0] != '\\' || json->at[1] != 'u')
            return false;
        json->at += 2;
        if (!hex_read(json, &low) || low < 0xdc00 || low > 0xdfff)
            return false;
        code = 0x10000 + ((code - 0xd800) << 10 | (low - 0xdc00));
    } else if (code >= 0xdc00 && code <= 0xdfff) {
        return false;
    }
    *out = code;
    return code != 0;
}

static int utf8_write(uint32_t code, char out[4])
{
    if (code < 0x80) {
        out[0] = (char)code;
        return 1;
    }
    const int length = code < 0x800 ? 2 : code < 0x10000 ? 3 : 4;
    for (int i = length - 1; i > 0; i--) {
        out[i] = (char)(0x80 | (code & 0x3f));
        code >>= 6;
    }
    static const uint8_t first[5] = { 0, 0, 0xc0, 0xe0, 0xf0 };
    out[0] = (char)(first[length] | code);
    return length;
}

/* What follows a backslash, as UTF-8; 0 if it is no escape. */
static int escape_read(fast_json *json, char out[4])
{
    static const char letters[] = "\"\\/bfnrt", meanings[] = "\"\\/\b\f\n\r\t";
    if (json->at == json->end)
        return 0;
    const char c = *json->at++;
    uint32_t code;
    if (c == 'u')
        return code_read(json, &code) ? utf8_write(code, out) : 0;
    const char *found = c ? strchr(letters, c) : NULL;
    if (!found)
        return 0;
    out[0] = meanings[found - letters];
    return 1;
}

fast_err fast__json_string(fast_json *json, char *out, size_t *size_out)
{
    FAST_TRY(fast__json_expect(json, '"'));
    size_t size = 0;
    for (;;) {
        if (json->at == json->end)
            return fast__json_fail(json, "the string does not end");
        char piece[4];
        const char *bytes = json->at;
        int length;
        if (*bytes == '"')
            break;
        if (*bytes == '\\') {
            json->at++;
            length = escape_read(json, piece);
            bytes = piece;
        } else {
            length = (unsigned char)*bytes < ' '
                         ? 0
                         : fast__utf8_length(bytes, (size_t)(json->end - bytes));
            json->at += length;
        }
        if (length == 0)
            return fast__json_fail(json, "not a character of a string");
        if (out)
            memcpy(out + size, bytes, (size_t)length);
        size += (size_t)length;
    }
    json->at++;
    if (out)
        out[size] = 0;
    *size_out = size + 1;
    return FAST_OK;
}

fast_err fast__json_count(fast_json *json, int64_t *out)
{
    const char first = fast__json_peek(json);
    if (first < '0' || first > '9')
        return fast__json_fail(json, "expected a whole number");
    const char *start = json->at;
    int64_t value = 0;
    for (; json->at < json->end && *json->at >= '0' && *json->at <= '9'; json->at++) {
        if (__builtin_mul_overflow(value, 10, &value) ||
            __builtin_add_overflow(value, *json->at - '0', &value))
            return fast__json_fail(json, "the number is too large");
    }
    if (first == '0' && json->at - start > 1)
        return fast__json_fail(json, "a number begins with 0");
    *out = value;
    return FAST_OK;
}
