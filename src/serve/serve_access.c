/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Who may do what here. GET /api/server tells the pages the store and whether runs can be started;
 * POST /api/login {"token": TOKEN} exchanges the token, which a person has typed, for the cookie.
 * The login needs no token in its headers, so it says nothing but whether the token is right.
 *
 *   GET  /api/server   {"version": "0.1.0", "store": null, "starts_runs": true, "read_only": false}
 *   POST /api/login    200 and the cookie, 401 for another token, 400 for another body
 *
 * `store` is null if it is the one that commands use without --store, else its whole path, which
 * the pages write into the commands that they show.
 */
#include "serve/server.h"

#include <stdlib.h>
#include <string.h>

/* GET /api/server: facts that the commands and the buttons of the pages depend on. */
void fast__serve_server(fast_server *server, fast_http_request *request, int64_t id)
{
    char usual[FAST_PATH_MAX], whole[FAST_PATH_MAX];
    const char *path = realpath(server->path, whole) ? whole : server->path;
    const bool own =
        fast_store_path(NULL, usual, sizeof usual) == FAST_OK && strcmp(usual, server->path) == 0;
    json_t *o = json_object();

    (void)id;
    fast__json_set(&o, "version", fast__json_text(fast_version()));
    fast__json_set(&o, "store", own ? json_null() : fast__json_text(path));
    fast__json_set(&o, "starts_runs", json_boolean(server->program[0] != '\0'));
    fast__json_set(&o, "read_only", json_boolean(server->read_only));
    fast__reply_json(request, 200, &o);
}

/* POST /api/login. The body has one member, so that a misspelled one is not ignored; the token is
 * compared in constant time. */
void fast__serve_login(fast_server *server, fast_http_request *request, int64_t id)
{
    size_t size;
    const char *body = fast__request_body(request, &size);
    json_t *o = NULL;
    const fast_err err = fast__json_read("the body", body, size, &o);
    const char *token = err ? NULL : json_string_value(json_object_get(o, "token"));

    (void)id;
    if (err)
        fast__reply_err(request, err);
    else if (!token || json_object_size(o) != 1)
        fast__reply_error(request, 400, "a login is {\"token\": TOKEN}");
    else if (!fast__http_is_token(server->http, token))
        fast__reply_error(request, 401, "this is not the token of this server");
    else
        fast__reply_cookie(request, true);
    json_decref(o);
}
