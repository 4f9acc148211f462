/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Bodies of requests, at most 64 KiB each: read by jansson as a tree, then walked.
 */
#include "serve/serve_body.h"

#include <string.h>

/* The members that a body may have, and their readers. */
typedef struct body_reader {
    const char *options;         /* name of the object of options; NULL if the body has none */
    fast_body_option_fn *option; /* takes one option */
    const char *arrays[2];       /* names of the arrays of words; NULL: unused */
    fast_body_word_fn *words[2]; /* take one word each */
    void *ctx;                   /* argument of all callbacks */
} body_reader;

/* The error for a body that is JSON, but not of the shape that the address takes. */
static fast_err wrong_shape(const char *expected)
{
    return fast__fail(FAST_EFORMAT, "the body is not the JSON that is expected here: %s", expected);
}

/* FAST_EINVAL for a text that is too long for an option or a tag. */
static fast_err check_size(const char *text)
{
    if (strlen(text) >= FAST_BODY_TEXT_MAX)
        return fast__fail(FAST_EINVAL, "a text of the body is longer than %d bytes",
                          FAST_BODY_TEXT_MAX - 1);
    return FAST_OK;
}

/* Write the value of an option as a command line would have it: forms of the dashboard send numbers
 * and truth values as JSON has them. */
static fast_err value_text(const json_t *value, char text[FAST_BODY_TEXT_MAX])
{
    if (json_is_string(value)) {
        FAST_TRY(check_size(json_string_value(value)));
        snprintf(text, FAST_BODY_TEXT_MAX, "%s", json_string_value(value));
    } else if (json_is_boolean(value)) {
        snprintf(text, FAST_BODY_TEXT_MAX, "%s", json_is_true(value) ? "yes" : "no");
    } else if (json_is_number(value)) {
        const size_t size = json_dumpb(value, text, FAST_BODY_TEXT_MAX - 1, FAST_JSON_FLAGS);

        FAST_ASSERT(size > 0);
        FAST_ASSERT(size < FAST_BODY_TEXT_MAX);
        text[size] = '\0';
    } else {
        return wrong_shape("an option is a text, a number, true or false");
    }
    return FAST_OK;
}

/* Give each member of the object of options to the reader's callback, as text. */
static fast_err read_options(json_t *object, const body_reader *reader)
{
    char text[FAST_BODY_TEXT_MAX];
    const char *name;
    json_t *value;

    if (!json_is_object(object))
        return wrong_shape("options are an object");
    json_object_foreach(object, name, value)
    {
        FAST_TRY(check_size(name));
        FAST_TRY(value_text(value, text));
        FAST_TRY(reader->option(reader->ctx, name, text));
    }
    return FAST_OK;
}

/* Give each text of an array to a callback; anything but texts is refused. */
static fast_err read_words(const json_t *array, fast_body_word_fn *take, void *ctx)
{
    if (!json_is_array(array))
        return wrong_shape("tags are an array of texts");
    for (size_t i = 0; i < json_array_size(array); i++) {
        const char *word = json_string_value(json_array_get(array, i));

        if (!word)
            return wrong_shape("tags are an array of texts");
        FAST_TRY(check_size(word));
        FAST_TRY(take(ctx, word));
    }
    return FAST_OK;
}

/* Read the members of the body. Unknown members are refused: a misspelled one must not be
 * ignored. */
static fast_err read_members(json_t *object, const body_reader *reader)
{
    const char *name;
    json_t *value;

    if (!json_is_object(object))
        return wrong_shape("an object");
    json_object_foreach(object, name, value)
    {
        int i = 0;

        if (reader->options && strcmp(name, reader->options) == 0) {
            FAST_TRY(read_options(value, reader));
            continue;
        }
        while (i < 2 && !(reader->arrays[i] && strcmp(name, reader->arrays[i]) == 0))
            i++;
        if (i == 2)
            return fast__fail(FAST_EINVAL, "the body has an unknown member \"%.60s\"", name);
        FAST_TRY(read_words(value, reader->words[i], reader->ctx));
    }
    return FAST_OK;
}

/* Parse a body and read it. The tree is freed before the function returns. */
static fast_err read_body(const char *body, size_t size, const body_reader *reader)
{
    json_t *object = NULL;

    FAST_TRY(fast__json_read("the body", body, size, &object));
    const fast_err err = read_members(object, reader);
    json_decref(object);
    return err;
}

fast_err fast__body_launch(const char *body, size_t size, fast_body_option_fn *option,
                           fast_body_word_fn *tag, void *ctx)
{
    return read_body(body, size, &(body_reader){ "options", option, { "tags" }, { tag }, ctx });
}

fast_err fast__body_tags(const char *body, size_t size, fast_body_word_fn *add,
                         fast_body_word_fn *remove, void *ctx)
{
    return read_body(body, size,
                     &(body_reader){ NULL, NULL, { "add", "remove" }, { add, remove }, ctx });
}
