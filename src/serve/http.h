/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "base/err.h"
#include "serve/serve_page.h"
#include "serve/uri.h"

/*
 * HTTP, on the loopback unless told otherwise, for one thread: whoever owns the server calls
 * fast__http_wait() again and again, and its handler is called in there. Every request has passed
 * the guard (guard.c) before the handler sees it. A handler answers once, at once or later
 * (fast__request_later()).
 */
typedef struct fast_http fast_http;
typedef struct fast_http_request fast_http_request;

enum {
    FAST_HTTP_BODY_MAX = 65536, /* bytes of a request's body */
    FAST_HTTP_CONNECTIONS = 96, /* at once */
    FAST_HTTP_STRANGERS = 32,   /* connections without the token; a new one closes the oldest */
    FAST_HTTP_HEADERS = 64,     /* of a request */
    FAST_HTTP_MEMORY = 32768,   /* bytes of a connection: the request line and the headers */
    FAST_HTTP_PATIENCE_S = 10,  /* until a request is whole, and between requests */
    FAST_HTTP_TICK_MS = 200,    /* fast__http_wait() returns at least that often */
    FAST_HTTP_TOKEN_BYTES = 16, /* of randomness */
    FAST_HTTP_TOKEN_SIZE = 33,  /* bytes of a token: hexadecimal digits and a zero byte */
    FAST_HTTP_ORIGIN_MAX = 256  /* bytes of an origin, its zero byte included */
};

/* Who may ask, as the guard found out. */
typedef enum fast_http_access {
    FAST_HTTP_STRANGER, /* no token */
    FAST_HTTP_BEARER,   /* the token in `Authorization`: a program */
    FAST_HTTP_COOKIE    /* the token in the cookie: a browser, which sends it by itself */
} fast_http_access;

/* Calls fast__reply...() or fast__request_later() once. */
typedef void fast_http_fn(void *ctx, fast_http_request *request);
/* True if a request with this method and path is answered without the token too. */
typedef bool fast_http_open_fn(void *ctx, const char *method, const char *path);

/* Options of a server; zero means default. */
typedef struct fast_http_options {
    int64_t port;            /* 0: a free one */
    bool free_port;          /* take a free port if that one is taken */
    const char *host;        /* IPv4 address to listen on; NULL: 127.0.0.1 */
    const char *origin;      /* address that browsers open, "https://a.org"; NULL: of the host */
    const char *cert;        /* certificate for https, PEM; NULL: http */
    const char *key;         /* its private key, PEM */
    const char *token;       /* 32 hexadecimal digits; NULL: new ones */
    double patience_s;       /* until a request is whole; 0: FAST_HTTP_PATIENCE_S */
    fast_http_open_fn *open; /* tells which requests need no token; NULL: none */
    fast_http_fn *handler;   /* answers requests that the guard lets in */
    void *ctx;               /* of the handler and of `open` */
} fast_http_options;

/* Listen. FAST_EIO if the port is taken or the certificate is refused, FAST_EINVAL for a host that
 * is no address, FAST_ENOTSUP if libmicrohttpd has no TLS, FAST_ENOMEM. */
fast_err fast__http_open(const fast_http_options *options, fast_http **out);
/* Close all connections; answers break off. NULL is allowed. */
void fast__http_close(fast_http *http);

/* The port that is listened on, also where the system chose it. */
int64_t fast__http_port(const fast_http *http);
/* The token: 32 hexadecimal digits, lent as long as the server is open. */
const char *fast__http_token(const fast_http *http);
/* True if `text` is the token; takes the same time wherever it differs. */
bool fast__http_is_token(const fast_http *http, const char *text);
/* The origin of its pages, "http://127.0.0.1:8420". */
void fast__http_origin(const fast_http *http, char out[FAST_HTTP_ORIGIN_MAX]);

/* Answer requests for a while, at most FAST_HTTP_TICK_MS if no request arrives. */
fast_err fast__http_wait(fast_http *http);

/* Parts of a request, lent until it is answered. The method is GET, POST or DELETE: the guard lets
 * no other through. */
const char *fast__request_method(const fast_http_request *request);
/* The target: its path and its decoded arguments. */
const fast_uri *fast__request_uri(const fast_http_request *request);
/* The body, whole; "" without one. */
const char *fast__request_body(const fast_http_request *request, size_t *size_out);
/* The value of a header; NULL if the request has it not, or twice. */
const char *fast__request_header(const fast_http_request *request, const char *name);

/* Answer with a text of a type, which is taken. A text for which memory was missing becomes an
 * error. */
void fast__reply(fast_http_request *request, int status, const char *type, fast_page *take);
/* Answer with JSON; *move is freed and becomes NULL. NULL becomes the error "out of memory". */
void fast__reply_json(fast_http_request *request, int status, json_t **move);
/* Answer with {"error": sentence}. */
void fast__reply_error(fast_http_request *request, int status, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* The same for a failed call of the library: 400, 404, 409, 503 or 500 by its code. */
void fast__reply_err(fast_http_request *request, fast_err err);

/* Answer with bytes that live as long as the program; `gzip` if they are compressed. */
typedef struct fast_asset {
    const char *path;           /* "/assets/app-1f.js"; "/" is the page */
    const char *type;           /* "text/javascript" */
    const char *etag;           /* quoted */
    const unsigned char *bytes; /* gzip'd */
    size_t size;                /* number of bytes */
    bool immutable;             /* its name changes with its content */
} fast_asset;
/* Answer with a file of the program, or with 304 where the browser has it already. */
void fast__reply_asset(fast_http_request *request, const fast_asset *asset);

/* Go to "/", with the token in a cookie; with `stay` the answer is {} and the browser stays. */
void fast__reply_cookie(fast_http_request *request, bool stay);

/*
 * An answer in pieces. `next` is called when the connection has room: it appends to `text`, which
 * is empty. What it returns: more at once, nothing now (it is asked again after
 * fast__stream_wake()), or the end. `free` is called once, when the answer has ended or its
 * reader has left.
 */
typedef enum fast_http_stream_state {
    FAST_STREAM_MORE, /* a piece was made; ask again as soon as it is sent */
    FAST_STREAM_IDLE, /* nothing to send now; ask again after fast__stream_wake() */
    FAST_STREAM_END   /* the answer is whole */
} fast_http_stream_state;
typedef struct fast_http_stream fast_http_stream;
struct fast_http_stream {
    fast_http_stream_state (*next)(fast_http_stream *stream, fast_page *text); /* the next piece */
    void (*free)(fast_http_stream *stream); /* of the whole object */
    fast_http_request *request;             /* whose answer it is */
};
/* Takes the stream, also where the answer fails. */
void fast__reply_stream(fast_http_request *request, int status, const char *type,
                        fast_http_stream *stream);
/* Let an idle stream continue. */
void fast__stream_wake(fast_http_stream *stream);

/* Answer later, by fast__reply...() from the thread of fast__http_wait() but outside of the
 * handler. `gone` is called instead if the server closes before. */
void fast__request_later(fast_http_request *request, void (*gone)(void *ctx), void *ctx);
