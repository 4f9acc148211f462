/* SPDX-License-Identifier: Apache-2.0 */
/*
 * GET /api/comparisons: comparisons of the store with their verdicts, newest first, as
 * {"comparisons": [...]}; with ?name=NAME that one, with `result`: the facts of its verdict, its
 * lines, trials and runs. 404 if the store has no comparison of this name.
 */
#include "serve/server.h"

/* Append one comparison to an array. */
static fast_err add_comparison(void *ctx, const void *row)
{
    const fast_stored_comparison *c = row;
    json_t **array = ctx, *o = json_object();

    fast__json_set(&o, "name", fast__json_text(c->name));
    fast__json_set(&o, "created", fast__json_exact(c->created));
    fast__json_set(&o, "status", fast__json_text(c->status));
    fast__json_set(&o, "command", fast__json_text(c->command));
    fast__json_set(&o, "verdict", fast__json_text(c->verdict));
    if (c->result) {
        json_t *result = json_loads(c->result, 0, NULL);

        fast__json_set(&o, "result", result ? result : json_null());
    }
    fast__json_append(array, o);
    return *array ? FAST_OK : fast__fail(FAST_ENOMEM, "out of memory");
}

void fast__serve_comparisons(fast_server *server, fast_http_request *request, int64_t id)
{
    const char *name = fast__uri_arg(fast__request_uri(request), "name");
    json_t *array = json_array(), *answer = NULL;
    const fast_err err = fast_store_comparisons(server->store, name, add_comparison, &array);

    (void)id;
    if (err || (name && json_array_size(array) == 0)) {
        json_decref(array);
        if (err)
            fast__reply_err(request, err);
        else
            fast__reply_error(request, 404, "the store has no comparison of this name");
        return;
    }
    answer = json_object();
    fast__json_set(&answer, "comparisons", array);
    fast__reply_json(request, 200, &answer);
}
