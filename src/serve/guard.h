/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "serve/http.h"

/* The facts that decide whether a request is answered: headers as they arrived, NULL if absent. */
typedef struct fast_facts {
    const char *method;        /* "GET" */
    const char *path;          /* without arguments */
    const char *host;          /* NULL too where there are several */
    const char *origin;        /* of a page's request */
    const char *site;          /* Sec-Fetch-Site, of a browser */
    const char *authorization; /* of a program */
    const char *cookie;        /* of a browser */
    const char *type;          /* Content-Type */
    int64_t body;              /* bytes that are announced */
} fast_facts;

/* The server's side of it. */
typedef struct fast_guard {
    int64_t port;                      /* that it listens on */
    bool tls;                          /* it speaks https itself */
    char origin[FAST_HTTP_ORIGIN_MAX]; /* the address that browsers open: "https://a.org"; or "" */
    char token[2 * FAST_HTTP_TOKEN_BYTES + 1]; /* hexadecimal digits */
} fast_guard;

/* 0 if the request may be answered, with *access_out; else the status to refuse it with, and
 * *why_out, a constant sentence. */
int fast__guard_check(const fast_guard *guard, const fast_facts *facts,
                      fast_http_access *access_out, const char **why_out);

/* True if `text` is the token; takes the same time wherever it differs. */
bool fast__guard_is_token(const fast_guard *guard, const char *text, size_t size);

/* True if a browser reaches this host of ours by https, so that its cookie can be `Secure`. */
bool fast__guard_is_secure(const fast_guard *guard, const char *host);

/* The cookie's name, which has the port: cookies do not know ports. */
enum { FAST_GUARD_COOKIE_MAX = 32 };
void fast__guard_cookie(const fast_guard *guard, char name[FAST_GUARD_COOKIE_MAX]);
