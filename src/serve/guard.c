/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Who may ask what. The server listens on the loopback, where every user of the machine and every
 * page in the user's browser can send to it; so a request is answered only if all of this holds:
 *
 *   Host        is 127.0.0.1:PORT, localhost:PORT or that of the origin which the user gave,
 *               or a name of a stranger's that leads here (DNS rebinding) would make us part of
 *               his site;
 *   Origin      is ours where there is one, and is there when a browser asks for a change: pages of
 *               other sites, other ports included, are refused;
 *   Sec-Fetch-Site, which browsers send, says "same-origin", or "none" for what the user typed; the
 *               front page alone, which shows nothing by itself, may be linked to from elsewhere;
 *   the token   128 bits from the system, is in `Authorization: Bearer` or in the cookie, compared
 *               in a time that does not depend on where it differs;
 *   Content-Type is JSON where there is a body: a form cannot send that.
 */
#include "serve/guard.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

/* Compare with the token in constant time: every byte is looked at, whatever the text holds, so
 * that the time of an answer tells nothing about the token. */
bool fast__guard_is_token(const fast_guard *guard, const char *text, size_t size)
{
    const size_t length = sizeof guard->token - 1;
    unsigned differs = size != length;

    FAST_ASSERT(strlen(guard->token) == length);
    for (size_t i = 0; i < length; i++) {
        const char c = i < size ? text[i] : '\0';

        differs |= (unsigned char)(c ^ guard->token[i]);
    }
    return differs == 0;
}

/* The name holds the port: servers on two ports of one machine share a browser's cookies. */
void fast__guard_cookie(const fast_guard *guard, char name[FAST_GUARD_COOKIE_MAX])
{
    snprintf(name, FAST_GUARD_COOKIE_MAX, "fast_ui_%lld", (long long)guard->port);
}

/* The origin of our pages for a request to `host`; false for a host that is not ours. */
static bool origin_of(const fast_guard *guard, const char *host, char out[FAST_HTTP_ORIGIN_MAX])
{
    static const char *const names[] = { "127.0.0.1", "localhost" };
    const char *after = strstr(guard->origin, "://");
    char ours[64];

    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        snprintf(ours, sizeof ours, "%s:%lld", names[i], (long long)guard->port);
        if (strcasecmp(ours, host) == 0) {
            snprintf(out, FAST_HTTP_ORIGIN_MAX, "%s://%s", guard->tls ? "https" : "http", ours);
            return true;
        }
    }
    snprintf(out, FAST_HTTP_ORIGIN_MAX, "%s", guard->origin);
    return after && strcasecmp(after + 3, host) == 0;
}

bool fast__guard_is_secure(const fast_guard *guard, const char *host)
{
    char ours[FAST_HTTP_ORIGIN_MAX];

    return host && origin_of(guard, host, ours) && strncmp(ours, "https:", 6) == 0;
}

/* True if one of the cookies is ours, with the token. */
static bool has_cookie(const fast_guard *guard, const char *cookies)
{
    char name[FAST_GUARD_COOKIE_MAX];
    size_t length;

    fast__guard_cookie(guard, name);
    length = strlen(name);
    for (const char *at = cookies; *at;) {
        const size_t size = strcspn(at, ";");

        if (size > length && strncmp(at, name, length) == 0 && at[length] == '=' &&
            fast__guard_is_token(guard, at + length + 1, size - length - 1))
            return true;
        /* The next cookie of the header. */
        at += size;
        at += strspn(at, "; \t");
    }
    return false;
}

/* Who asks; false if it shows a token that is wrong. */
static bool find_access(const fast_guard *guard, const fast_facts *facts, fast_http_access *out)
{
    static const char bearer[] = "Bearer ";
    const size_t length = sizeof bearer - 1;

    *out = FAST_HTTP_STRANGER;
    if (facts->authorization) {
        const char *text = facts->authorization;

        if (strncasecmp(text, bearer, length) != 0 ||
            !fast__guard_is_token(guard, text + length, strlen(text + length)))
            return false;
        *out = FAST_HTTP_BEARER;
    } else if (facts->cookie && has_cookie(guard, facts->cookie)) {
        *out = FAST_HTTP_COOKIE;
    }
    return true;
}

/* True if a content type is JSON, with or without parameters ("; charset=utf-8"). */
static bool is_json(const char *type)
{
    static const char json[] = "application/json";
    const size_t length = sizeof json - 1;

    return type && strncasecmp(type, json, length) == 0 &&
           (type[length] == '\0' || type[length] == ';' || type[length] == ' ');
}

/* Where the request comes from: 0, or the status that refuses it. */
static int check_sender(const fast_guard *guard, const fast_facts *facts, const char **why_out)
{
    char ours[FAST_HTTP_ORIGIN_MAX];

    if (!facts->host || !origin_of(guard, facts->host, ours)) {
        *why_out = "this server answers to 127.0.0.1 and localhost with its port alone; fast ui "
                   "--origin names another address";
        return 403;
    }
    if (facts->origin && strcasecmp(facts->origin, ours) != 0) {
        *why_out = "pages of other origins are not answered";
        return 403;
    }
    if (facts->site && strcmp(facts->site, "same-origin") != 0 &&
        strcmp(facts->site, "none") != 0 && strcmp(facts->path, "/") != 0) {
        *why_out = "pages of other sites are not answered";
        return 403;
    }
    return 0;
}

/* The order matters: a sender from elsewhere learns nothing about methods, tokens or limits. */
int fast__guard_check(const fast_guard *guard, const fast_facts *facts,
                      fast_http_access *access_out, const char **why_out)
{
    const bool reads = strcmp(facts->method, "GET") == 0;
    const bool changes = strcmp(facts->method, "POST") == 0 || strcmp(facts->method, "DELETE") == 0;
    const int status = check_sender(guard, facts, why_out);
    fast_http_access access;

    if (status)
        return status;
    if (!reads && !changes) {
        *why_out = "only GET, POST and DELETE are known";
        return 405;
    }
    if (!find_access(guard, facts, &access)) {
        *why_out = "the token is wrong";
        return 401;
    }
    /* A browser sends its cookie with requests of any page; only Origin says which page it was. */
    if (changes && access == FAST_HTTP_COOKIE && !facts->origin) {
        *why_out = "a change needs the header Origin, or the token as a bearer";
        return 403;
    }
    if (reads && facts->body > 0) {
        *why_out = "a GET has no body";
        return 400;
    }
    if (facts->body > FAST_HTTP_BODY_MAX) {
        *why_out = "the body is larger than 64 KiB";
        return 413;
    }
    if (facts->body > 0 && !is_json(facts->type)) {
        *why_out = "the body must be application/json";
        return 415;
    }
    *access_out = access;
    return 0;
}
