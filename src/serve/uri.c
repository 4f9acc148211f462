/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Targets of requests, parsed strictly: what is not plainly right is refused instead of repaired,
 * so that there is one spelling of each name and nothing to hide behind escapes.
 *
 *     target = path [ "?" arg *( "&" arg ) ]      arg = name [ "=" value ]
 *
 * A path has no escapes at all: "/%2e%2e/" is refused, not decoded. Names and values of arguments
 * are decoded in place, + being a space; the results are UTF-8 without control characters. Cost:
 * one pass, no memory.
 */
#include "serve/uri.h"

#include "base/utf8.h"

#include <string.h>

/* Characters that a path may have besides the slash. */
static bool is_plain(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' ||
           c == '_' || c == '.';
}

/* Segments of plain characters, none of them empty but the last, none that begins with a dot. */
static bool is_path(const char *path)
{
    if (*path != '/')
        return false;
    while (*path) {
        const char *segment = ++path; /* after the slash */

        while (is_plain(*path))
            path++;
        if (*path && *path != '/')
            return false;
        if (*segment == '.')
            return false;
        if (*path && path == segment)
            return false;
    }
    return true;
}

/* The value of a hexadecimal digit; -1 for any other character. */
static int hex(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    c = (char)(c | 0x20);
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* Decode in place; false if it is malformed. */
static bool decode(char *text)
{
    const char *from = text;
    char *to = text;
    size_t left;

    for (; *from; from++) {
        char c = *from;

        if (c == '%') {
            const int high = hex(from[1]), low = high < 0 ? -1 : hex(from[2]);

            if (low < 0)
                return false;
            c = (char)(high * 16 + low);
            from += 2;
        } else if (c == '+') {
            c = ' ';
        }
        if ((unsigned char)c < ' ' || c == 0x7f)
            return false;
        *to++ = c;
    }
    *to = '\0';
    /* Decoded escapes must be UTF-8 as well. */
    left = (size_t)(to - text);
    while (left > 0) {
        const int length = fast__utf8_length(to - left, left);

        if (length == 0)
            return false;
        left -= (size_t)length;
    }
    return true;
}

/* Split the query at & and =, and decode it in place. Empty arguments are skipped; one without =
 * has an empty value. */
static fast_err parse_args(char *text, fast_uri *out)
{
    char *next;

    for (; text; text = next) {
        char *value;

        next = strchr(text, '&');
        if (next)
            *next++ = '\0';
        if (!*text)
            continue;
        if (out->count == FAST_URI_ARGS)
            return fast__fail(FAST_EINVAL, "more than %d arguments", FAST_URI_ARGS);
        value = strchr(text, '=');
        if (value)
            *value++ = '\0';
        if (!decode(text) || (value && !decode(value)))
            return fast__fail(FAST_EINVAL, "an argument is malformed");
        out->args[out->count].name = text;
        out->args[out->count].value = value ? value : "";
        out->count++;
    }
    return FAST_OK;
}

/* On failure the path is empty, so that a malformed target matches no route. */
fast_err fast__uri_parse(const char *raw, fast_uri *out)
{
    const size_t size = strlen(raw);
    char *question;

    FAST_ASSERT(out);
    out->count = 0;
    out->path = out->text;
    out->text[0] = '\0';
    if (size >= FAST_URI_MAX)
        return fast__fail(FAST_EINVAL, "the address is longer than %d bytes", FAST_URI_MAX - 1);
    memcpy(out->text, raw, size + 1);
    question = strchr(out->text, '?');
    if (question)
        *question = '\0';
    if (!is_path(out->text)) {
        out->text[0] = '\0';
        return fast__fail(FAST_EINVAL, "the path is malformed");
    }
    return question ? parse_args(question + 1, out) : FAST_OK;
}

const char *fast__uri_arg(const fast_uri *uri, const char *name)
{
    for (int i = 0; i < uri->count; i++)
        if (strcmp(uri->args[i].name, name) == 0)
            return uri->args[i].value;
    return NULL;
}

/* Digits at `*at`, a number of at most `max`; false without digits or beyond it. */
static bool read_count(const char **at, int64_t max, int64_t *out)
{
    int64_t value = 0;
    const char *c = *at;

    FAST_ASSERT(max >= 0);
    for (; *c >= '0' && *c <= '9'; c++) {
        /* Compared before it is multiplied: no overflow. */
        if (value > (max - (*c - '0')) / 10)
            return false;
        value = 10 * value + (*c - '0');
    }
    if (c == *at || value > max)
        return false;
    *at = c;
    *out = value;
    return true;
}

fast_err fast__uri_count(const fast_uri *uri, const char *name, int64_t standard, int64_t max,
                         int64_t *out)
{
    const char *value = fast__uri_arg(uri, name);
    int64_t count = standard;

    if (value && (!read_count(&value, max, &count) || *value))
        return fast__fail(FAST_EINVAL, "%s must be a whole number from 0 to %lld", name,
                          (long long)max);
    *out = count;
    return FAST_OK;
}

/* # matches a positive number without leading zeros: each run has one address. */
bool fast__uri_match(const fast_uri *uri, const char *pattern, int64_t *id_out)
{
    const char *path = uri->path;
    int64_t id = 0;

    for (; *pattern; pattern++) {
        if (*pattern == '#') {
            if (*path == '0' || !read_count(&path, INT64_MAX - 9, &id))
                return false;
        } else if (*pattern != *path++) {
            return false;
        }
    }
    if (*path)
        return false;
    if (id > 0)
        *id_out = id;
    return true;
}
