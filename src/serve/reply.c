/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Answers. Each has headers that stop a browser from doing more with it than it should: no
 * sniffing of types, no referrer, no framing, nothing loaded from elsewhere, no scripts but the
 * files that are embedded here. There are no CORS headers: other origins read nothing.
 *
 * Errors are {"error": sentence}. A stream is copied piece by piece into libmicrohttpd's buffer;
 * one that has nothing to say sleeps.
 */
#include "serve/serve_request.h"

#include "base/memory.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

enum { BLOCK = 16384 };

static const char *const standard_headers[][2] = {
    { "Content-Security-Policy",
      "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
      "connect-src 'self'; font-src 'self'; base-uri 'none'; form-action 'none'; "
      "frame-ancestors 'none'" },
    { "X-Content-Type-Options", "nosniff" },
    { "X-Frame-Options", "DENY" },
    { "Referrer-Policy", "no-referrer" },
    { "Cross-Origin-Opener-Policy", "same-origin" },
    { "Cross-Origin-Resource-Policy", "same-origin" },
};

/* Make `response` the answer. NULL: there was no memory for it, and the connection closes. */
static void answer(fast_http_request *request, int status, struct MHD_Response *response)
{
    const size_t count = sizeof standard_headers / sizeof standard_headers[0];

    FAST_ASSERT(!request->response);
    for (size_t i = 0; response && i < count; i++)
        MHD_add_response_header(response, standard_headers[i][0], standard_headers[i][1]);
    request->response = response;
    request->status = status;
    request->gone = NULL;
    fast__request_resume(request);
}

/* An answer of a type that is made anew each time. */
static void answer_fresh(fast_http_request *request, int status, const char *type,
                         struct MHD_Response *response)
{
    if (response) {
        MHD_add_response_header(response, MHD_HTTP_HEADER_CONTENT_TYPE, type);
        MHD_add_response_header(response, MHD_HTTP_HEADER_CACHE_CONTROL, "no-store");
    }
    answer(request, status, response);
}

/* A response whose text is a constant of the program: nothing is copied or freed. */
static struct MHD_Response *from_constant(const char *text)
{
    return MHD_create_response_from_buffer(strlen(text), (void *)(uintptr_t)text,
                                           MHD_RESPMEM_PERSISTENT);
}

/* The text moves into the response. Without memory for it a constant text says so. */
void fast__reply(fast_http_request *request, int status, const char *type, fast_page *take)
{
    struct MHD_Response *response = NULL;

    if (!take->failed)
        response = MHD_create_response_from_buffer_with_free_callback(
            take->size, take->bytes ? take->bytes : NULL, fast__free);
    if (response) {
        *take = (fast_page){ .bytes = NULL };
    } else {
        fast__page_fini(take);
        status = 503;
        type = "application/json";
        response = from_constant("{\"error\":\"out of memory\"}");
    }
    answer_fresh(request, status, type, response);
}

void fast__reply_json(fast_http_request *request, int status, json_t **move)
{
    fast_page text = { .bytes = NULL };

    fast__page_json(&text, move);
    fast__reply(request, status, "application/json", &text);
}

void fast__reply_error(fast_http_request *request, int status, const char *format, ...)
{
    char sentence[FAST_DETAIL_MAX];
    json_t *answer = json_object();
    va_list args;

    va_start(args, format);
    vsnprintf(sentence, sizeof sentence, format, args);
    va_end(args);
    fast__json_set(&answer, "error", fast__json_text(sentence));
    fast__reply_json(request, status, &answer);
}

/* Map an error to a status: 4xx for the client's mistakes, 503 where trying again may help, else
 * 500. */
void fast__reply_err(fast_http_request *request, fast_err err)
{
    const char *detail = fast_error_detail();
    int status = 500;

    FAST_ASSERT(err);
    if (err == FAST_EINVAL || err == FAST_EFORMAT)
        status = 400;
    else if (err == FAST_ENOENT)
        status = 404;
    else if (err == FAST_ENOMEM || err == FAST_ETIMEDOUT)
        status = 503;
    fast__reply_error(request, status, "%s", detail[0] ? detail : fast_err_text(err));
}

/* Files are compressed when the program is built, and never change while it runs: a browser that
 * has the file gets 304. */
void fast__reply_asset(fast_http_request *request, const fast_asset *asset)
{
    const char *known = fast__request_header(request, MHD_HTTP_HEADER_IF_NONE_MATCH);
    const bool same = known && strcmp(known, asset->etag) == 0;
    struct MHD_Response *response = MHD_create_response_from_buffer(
        same ? 0 : asset->size, (void *)(uintptr_t)asset->bytes, MHD_RESPMEM_PERSISTENT);

    if (response) {
        MHD_add_response_header(response, MHD_HTTP_HEADER_ETAG, asset->etag);
        MHD_add_response_header(response, MHD_HTTP_HEADER_CACHE_CONTROL,
                                asset->immutable ? "private, max-age=31536000, immutable"
                                                 : "private, no-cache");
        if (!same) {
            MHD_add_response_header(response, MHD_HTTP_HEADER_CONTENT_TYPE, asset->type);
            MHD_add_response_header(response, MHD_HTTP_HEADER_CONTENT_ENCODING, "gzip");
        }
    }
    answer(request, same ? 304 : 200, response);
}

/* Exchange the token in the address for a cookie, and send the browser to an address without it:
 * addresses end up in histories. */
void fast__reply_cookie(fast_http_request *request, bool stay)
{
    const fast_guard *guard = &request->http->guard;
    const char *host = fast__request_header(request, MHD_HTTP_HEADER_HOST);
    char name[FAST_GUARD_COOKIE_MAX], cookie[200];
    struct MHD_Response *response = from_constant(stay ? "{}" : "");

    /* It lasts a month, as the token lasts longer than the server. */
    fast__guard_cookie(guard, name);
    snprintf(cookie, sizeof cookie, "%s=%s; Path=/; Max-Age=2592000; HttpOnly; SameSite=Strict%s",
             name, guard->token, fast__guard_is_secure(guard, host) ? "; Secure" : "");
    if (response) {
        MHD_add_response_header(response, MHD_HTTP_HEADER_SET_COOKIE, cookie);
        if (stay)
            MHD_add_response_header(response, MHD_HTTP_HEADER_CONTENT_TYPE, "application/json");
        else
            MHD_add_response_header(response, MHD_HTTP_HEADER_LOCATION, "/");
        MHD_add_response_header(response, MHD_HTTP_HEADER_CACHE_CONTROL, "no-store");
    }
    answer(request, stay ? 200 : 303, response);
}

/* libmicrohttpd asks for bytes of a stream. */
static ssize_t on_room(void *ctx, uint64_t position, char *buffer, size_t max)
{
    fast_http_stream *stream = ctx;
    fast_http_request *request = stream->request;
    fast_page *piece = &request->piece;
    fast_http_stream_state state = FAST_STREAM_MORE;
    size_t size;

    (void)position;
    if (request->left || request->http->closing)
        return MHD_CONTENT_READER_END_WITH_ERROR;
    /* The last piece was sent: ask for the next one. */
    if (request->piece_at == piece->size) {
        piece->size = 0;
        request->piece_at = 0;
        state = stream->next(stream, piece);
    }
    if (piece->failed)
        return MHD_CONTENT_READER_END_WITH_ERROR;
    size = piece->size - request->piece_at;
    if (size == 0 && state == FAST_STREAM_END)
        return MHD_CONTENT_READER_END_OF_STREAM;
    if (size == 0) {
        /* One that promises more and gives nothing is asked again with the next connection's. */
        if (state == FAST_STREAM_IDLE)
            fast__request_suspend(request);
        return 0;
    }
    if (size > max)
        size = max;
    memcpy(buffer, piece->bytes + request->piece_at, size);
    request->piece_at += size;
    return (ssize_t)size;
}

/* libmicrohttpd is done with a stream. */
static void on_stream_end(void *ctx)
{
    fast_http_stream *stream = ctx;

    if (stream->request)
        stream->request->stream = NULL;
    stream->free(stream);
}

void fast__reply_stream(fast_http_request *request, int status, const char *type,
                        fast_http_stream *stream)
{
    struct MHD_Response *response;

    stream->request = request;
    request->stream = stream;
    response =
        MHD_create_response_from_callback(MHD_SIZE_UNKNOWN, BLOCK, on_room, stream, on_stream_end);
    if (!response) {
        request->stream = NULL;
        stream->free(stream);
        fast__reply_error(request, 503, "out of memory");
        return;
    }
    answer_fresh(request, status, type, response);
}

void fast__stream_wake(fast_http_stream *stream)
{
    if (stream->request)
        fast__request_resume(stream->request);
}
