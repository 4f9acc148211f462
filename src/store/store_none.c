/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The store of a build without SQLite: it cannot be opened, and says what is missing. Nothing else
 * is ever called, because there is no handle to call it with; but callers link against all of it,
 * so that no other file has to know whether the build has a store.
 */
#include "store/store.h"

/* Nothing here looks at its arguments. */
#pragma GCC diagnostic ignored "-Wunused-parameter"

/* The one error of this build. Its text names the package and the switch. */
static fast_err missing(void)
{
    return fast__fail(FAST_ENOTSUP, "this build stores no runs, as it has no SQLite; install "
                                    "libsqlite3-dev and configure with -DFAST_SQLITE=ON");
}

fast_err fast_store_open(const char *path, bool write, fast_store **out)
{
    return missing();
}

void fast_store_close(fast_store *store)
{
    FAST_ASSERT(store == NULL);
}

void fast__store_patience(fast_store *store, int milliseconds)
{
}

fast_err fast__store_begin(fast_store *store, const fast_stored_run *run, int64_t *id_out)
{
    return missing();
}

fast_err fast__store_update(fast_store *store, int64_t id, const fast_stored_run *run)
{
    return missing();
}

fast_err fast__store_put(fast_store *store, fast_store_table table, int64_t run, const void *row)
{
    return missing();
}

fast_err fast__store_comparison_put(fast_store *store, const fast_stored_comparison *row)
{
    return missing();
}

fast_err fast_store_comparisons(fast_store *store, const char *name, fast_store_row_fn *each,
                                void *ctx)
{
    return missing();
}

fast_err fast__store_trim(fast_store *store, int64_t run, int64_t seq)
{
    return missing();
}

bool fast__store_has_moved(fast_store *store)
{
    return false;
}

fast_err fast__store_transaction_begin(fast_store *store)
{
    return missing();
}

fast_err fast__store_transaction_end(fast_store *store)
{
    return missing();
}

void fast__store_transaction_undo(fast_store *store)
{
}

void fast__store_make_room(fast_store *store)
{
}

fast_err fast_store_list(fast_store *store, const fast_store_query *query, fast_store_row_fn *each,
                         void *ctx, int64_t *total_out)
{
    return missing();
}

fast_err fast_store_find(fast_store *store, int64_t run, fast_store_row_fn *each, void *ctx)
{
    return missing();
}

fast_err fast_store_read(fast_store *store, fast_store_table table, int64_t run, int64_t after,
                         fast_store_row_fn *each, void *ctx)
{
    return missing();
}

fast_err fast_store_series_new(fast_store *store, int64_t run, int64_t after, int64_t every,
                               int64_t limit, fast_store_series **out)
{
    return missing();
}

void fast_store_series_free(fast_store_series *series)
{
    FAST_ASSERT(series == NULL);
}

fast_err fast_store_tag(fast_store *store, int64_t run, const char *tag)
{
    return missing();
}

fast_err fast_store_untag(fast_store *store, int64_t run, const char *tag)
{
    return missing();
}

fast_err fast_store_note(fast_store *store, int64_t run, const char *text)
{
    return missing();
}

fast_err fast_store_views(fast_store *store, fast_store_row_fn *each, void *ctx)
{
    return missing();
}

fast_err fast_store_view(fast_store *store, const char *name, const char *query)
{
    return missing();
}

fast_err fast_store_delete(fast_store *store, int64_t run)
{
    return missing();
}

fast_err fast_store_changes(fast_store *store, int64_t *out)
{
    return missing();
}
