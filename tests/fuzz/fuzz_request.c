/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Fuzzes what the server reads of requests: the target, the bodies, the cookie. The first byte
 * chooses. Any bytes give an error in one line, or something that keeps its promises: a path
 * without tricks, arguments and words that are UTF-8 without control characters in bounds, and
 * text that is valid JSON again when it is written back.
 */
#include "base/memory.h"
#include "serve/guard.h"
#include "serve/serve_body.h"

#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Text is written as JSON that is valid, and has nothing that HTML could misread. */
static void check_text(const char *text)
{
    fast_page page = { .bytes = NULL };
    json_t *value = fast__json_text(text), *again = NULL;

    fast__page_json(&page, &value);
    FAST_ASSERT(!page.failed);
    FAST_ASSERT(fast__json_read("page", page.bytes, page.size, &again) == FAST_OK);
    json_decref(again);
    FAST_ASSERT(!strpbrk(page.bytes, "<>&\n"));
    fast__page_fini(&page);
}

static void check_uri(const char *text)
{
    fast_uri uri;
    int64_t id = 0, count = 0;

    if (fast__uri_parse(text, &uri) != FAST_OK) {
        FAST_ASSERT(strlen(fast_error_detail()) > 0);
        return;
    }
    FAST_ASSERT(uri.path[0] == '/');
    FAST_ASSERT(!strstr(uri.path, "/."));
    FAST_ASSERT(!strstr(uri.path, "//"));
    FAST_ASSERT(!strpbrk(uri.path, "%\\?#"));
    for (int i = 0; i < uri.count; i++) {
        check_text(uri.args[i].name);
        check_text(uri.args[i].value);
    }
    if (fast__uri_match(&uri, "/api/runs/#/metrics", &id))
        FAST_ASSERT(id > 0);
    if (fast__uri_count(&uri, "limit", 5, 1000, &count) == FAST_OK)
        FAST_ASSERT(count >= 0 && count <= 1000);
}

static fast_err on_option(void *ctx, const char *name, const char *value)
{
    (void)ctx;
    FAST_ASSERT(strlen(name) < FAST_BODY_TEXT_MAX);
    FAST_ASSERT(strlen(value) < FAST_BODY_TEXT_MAX);
    check_text(value);
    return FAST_OK;
}

static fast_err on_word(void *ctx, const char *word)
{
    (void)ctx;
    FAST_ASSERT(strlen(word) < FAST_BODY_TEXT_MAX);
    check_text(word);
    return FAST_OK;
}

static void check_body(const char *text, size_t size)
{
    json_t *value = NULL;
    const bool valid = fast__json_read("body", text, size, &value) == FAST_OK;

    json_decref(value);
    if (fast__body_launch(text, size, on_option, on_word, NULL) == FAST_OK)
        FAST_ASSERT(valid);
    if (fast__body_tags(text, size, on_word, on_word, NULL) == FAST_OK)
        FAST_ASSERT(valid);
}

/* Headers that are fuzzed never hold the token, so nobody is let in. */
static void check_guard(const char *text)
{
    const fast_guard guard = { .port = 8080, .token = "0123456789abcdef0123456789abcdef" };
    const fast_facts facts = { .method = "GET",
                               .path = "/api/runs",
                               .host = "127.0.0.1:8080",
                               .cookie = text,
                               .authorization = text[0] == 'B' ? text : NULL };
    fast_http_access access = FAST_HTTP_STRANGER;
    const char *why = NULL;

    if (strstr(text, guard.token))
        return;
    FAST_ASSERT(fast__guard_check(&guard, &facts, &access, &why) == 401 ||
                access == FAST_HTTP_STRANGER);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *text;

    if (size == 0)
        return 0;
    FAST_ASSERT(fast__alloc("input", (int64_t)size, 1, &text) == FAST_OK);
    memcpy(text, data + 1, size - 1);
    if (data[0] == 'u')
        check_uri(text);
    else if (data[0] == 'b')
        check_body(text, size - 1);
    else if (data[0] == 'g')
        check_guard(text);
    else
        check_text(text);
    fast__free(text);
    return 0;
}
