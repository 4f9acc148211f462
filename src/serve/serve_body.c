/* SPDX-License-Identifier: Apache-2.0 */
/*
 * JSON that others wrote, on the scanner of file headers. Bodies have a fixed shape:
 *
 *     {"options": {"system": "ssp", "workers": 4, "shrink": true}, "tags": ["night"]}
 *     {"add": ["good"], "remove": ["night"]}
 *
 * Members may come in any order, each once; unknown ones are errors. Values of options are texts,
 * numbers or truths, and all become the text that a command line would have. Cost: one pass.
 */
#include "serve/serve_body.h"

#include "base/memory.h"

#include <string.h>

enum { DEPTH_MAX = 32 };

/* A number as JSON writes it: moves past it, false if there is none. */
static bool skip_number(fast_json *json)
{
    const char *at = json->at;
    const char *digits;

    if (at < json->end && *at == '-')
        at++;
    digits = at;
    while (at < json->end && *at >= '0' && *at <= '9')
        at++;
    if (at == digits || (*digits == '0' && at - digits > 1))
        return false;
    if (at < json->end && *at == '.') {
        digits = ++at;
        while (at < json->end && *at >= '0' && *at <= '9')
            at++;
        if (at == digits)
            return false;
    }
    if (at < json->end && (*at == 'e' || *at == 'E')) {
        at++;
        if (at < json->end && (*at == '+' || *at == '-'))
            at++;
        digits = at;
        while (at < json->end && *at >= '0' && *at <= '9')
            at++;
        if (at == digits)
            return false;
    }
    json->at = at;
    return true;
}

/* Move past the word, if it is next. */
static bool skip_word(fast_json *json, const char *word)
{
    const size_t length = strlen(word);

    if ((size_t)(json->end - json->at) < length || memcmp(json->at, word, length) != 0)
        return false;
    json->at += length;
    return true;
}

/* Move past one value. */
static fast_err skip_value(fast_json *json, int depth)
{
    const char c = fast__json_peek(json);
    const char close = c == '{' ? '}' : ']';
    bool more = true;
    size_t size;

    if (c == '"')
        return fast__json_string(json, NULL, &size);
    if (c != '{' && c != '[')
        return skip_word(json, "true") || skip_word(json, "false") || skip_word(json, "null") ||
                       skip_number(json)
                   ? FAST_OK
                   : fast__json_fail(json, "expected a value");
    if (depth == DEPTH_MAX)
        return fast__json_fail(json, "nested too deep");
    json->at++;
    for (bool first = true;; first = false) {
        FAST_TRY(fast__json_next(json, close, first, &more));
        if (!more)
            return FAST_OK;
        if (c == '{') {
            FAST_TRY(fast__json_string(json, NULL, &size));
            FAST_TRY(fast__json_expect(json, ':'));
        }
        FAST_TRY(skip_value(json, depth + 1));
    }
}

bool fast__json_is_valid(const char *text, size_t size)
{
    fast_json json = { "value", text, text, text + size };

    return skip_value(&json, 0) == FAST_OK && fast__json_peek(&json) == 0 && json.at == json.end;
}

/* A text of at most FAST_JSON_WORD_MAX bytes, its end included. */
static fast_err read_word(fast_json *json, char out[FAST_JSON_WORD_MAX])
{
    fast_json measure = *json;
    size_t size;

    FAST_TRY(fast__json_string(&measure, NULL, &size));
    if (size > FAST_JSON_WORD_MAX)
        return fast__fail(FAST_EINVAL, "a text of the body is longer than %d bytes",
                          FAST_JSON_WORD_MAX - 1);
    return fast__json_string(json, out, &size);
}

/* The value of an option, as a command line would have it. */
static fast_err read_value(fast_json *json, char out[FAST_JSON_WORD_MAX])
{
    const char c = fast__json_peek(json);
    const char *start = json->at;

    if (c == '"')
        return read_word(json, out);
    if (skip_word(json, "true")) {
        memcpy(out, "yes", 4);
    } else if (skip_word(json, "false")) {
        memcpy(out, "no", 3);
    } else if (skip_number(json)) {
        const size_t size = (size_t)(json->at - start);

        if (size >= FAST_JSON_WORD_MAX)
            return fast__fail(FAST_EINVAL, "a number of the body is too long");
        memcpy(out, start, size);
        out[size] = '\0';
    } else {
        return fast__json_fail(json, "expected a text, a number, true or false");
    }
    return FAST_OK;
}

/* What is done with a body's words. */
typedef struct body_reader {
    fast_json_option_fn *option; /* takes options; or NULL */
    fast_json_word_fn *words[2]; /* take the words of the arrays */
    const char *names[3];        /* of the members: two arrays and, or NULL, the options */
    void *ctx;                   /* of all */
} body_reader;

static fast_err read_options(fast_json *json, const body_reader *reader)
{
    char name[FAST_JSON_WORD_MAX], value[FAST_JSON_WORD_MAX];
    bool more = true;

    FAST_TRY(fast__json_expect(json, '{'));
    for (bool first = true;; first = false) {
        FAST_TRY(fast__json_next(json, '}', first, &more));
        if (!more)
            return FAST_OK;
        FAST_TRY(read_word(json, name));
        FAST_TRY(fast__json_expect(json, ':'));
        FAST_TRY(read_value(json, value));
        FAST_TRY(reader->option(reader->ctx, name, value));
    }
}

static fast_err read_words(fast_json *json, const body_reader *reader, int which)
{
    char word[FAST_JSON_WORD_MAX];
    bool more = true;

    FAST_TRY(fast__json_expect(json, '['));
    for (bool first = true;; first = false) {
        FAST_TRY(fast__json_next(json, ']', first, &more));
        if (!more)
            return FAST_OK;
        FAST_TRY(read_word(json, word));
        FAST_TRY(reader->words[which](reader->ctx, word));
    }
}

/* The object with the members that the reader names. */
static fast_err read_object(fast_json *json, const body_reader *reader)
{
    bool seen[3] = { false, false, false };
    char name[FAST_JSON_WORD_MAX];
    bool more = true;

    FAST_TRY(fast__json_expect(json, '{'));
    for (bool first = true;; first = false) {
        int which = 0;

        FAST_TRY(fast__json_next(json, '}', first, &more));
        if (!more)
            break;
        FAST_TRY(read_word(json, name));
        FAST_TRY(fast__json_expect(json, ':'));
        while (which < 3 && !(reader->names[which] && strcmp(reader->names[which], name) == 0))
            which++;
        if (which == 3)
            return fast__fail(FAST_EINVAL, "the body has an unknown member \"%.60s\"", name);
        if (seen[which])
            return fast__fail(FAST_EINVAL, "the body has \"%s\" twice", name);
        seen[which] = true;
        FAST_TRY(which == 2 ? read_options(json, reader) : read_words(json, reader, which));
    }
    if (fast__json_peek(json) != 0 || json->at != json->end)
        return fast__json_fail(json, "something follows the object");
    return FAST_OK;
}

/* Read the whole body; errors of its form name the byte. */
static fast_err read_body(const char *body, size_t size, const body_reader *reader)
{
    fast_json json = { "body", body, body, body + size };
    const fast_err err = read_object(&json, reader);

    if (err != FAST_EFORMAT)
        return err;
    return fast__fail(FAST_EFORMAT, "the body is not the JSON that is expected here, at byte %lld",
                      (long long)(json.at - json.text));
}

fast_err fast__json_launch(const char *body, size_t size, fast_json_option_fn *option,
                           fast_json_word_fn *tag, void *ctx)
{
    const body_reader reader = { option, { tag, NULL }, { "tags", NULL, "options" }, ctx };

    return read_body(body, size, &reader);
}

fast_err fast__json_tags(const char *body, size_t size, fast_json_word_fn *add,
                         fast_json_word_fn *remove, void *ctx)
{
    const body_reader reader = { NULL, { add, remove }, { "add", "remove", NULL }, ctx };

    return read_body(body, size, &reader);
}
