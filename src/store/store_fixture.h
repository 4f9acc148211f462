/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "store/store.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* For tests: a folder of its own with an open store in it. */
typedef struct fixture {
    char folder[64]; /* to be removed */
    char path[96];   /* of the store */
    fast_store *store;
} fixture;

#define assert_ok(expr)                                                   \
    do {                                                                  \
        const fast_err err_ = (expr);                                     \
        if (err_ != FAST_OK)                                              \
            fail_msg("%s: %s", fast_err_text(err_), fast_error_detail()); \
    } while (0)

static inline int setup(void **state)
{
    static fixture f;
    memset(&f, 0, sizeof f);
    snprintf(f.folder, sizeof f.folder, "/tmp/fast-store-XXXXXX");
    assert_non_null(mkdtemp(f.folder));
    snprintf(f.path, sizeof f.path, "%s/runs.db", f.folder);
    assert_ok(fast_store_open(f.path, true, &f.store));
    *state = &f;
    return 0;
}

static inline int teardown(void **state)
{
    fixture *f = *state;
    char command[256];
    fast_store_close(f->store);
    snprintf(command, sizeof command, "chmod -R u+rwx %s; rm -rf %s", f->folder, f->folder);
    return system(command);
}
