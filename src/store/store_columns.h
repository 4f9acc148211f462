/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "store/store.h"

/*
 * Tables as data, for the files that make statements from them: the name of a table, its columns in
 * the order of SELECT and INSERT, and the size of the struct of C that one row fills.
 */

/* A table's name and columns; every table but `runs` also has the column `run`. */
typedef struct fast_store_form {
    const char *name;           /* in SQL */
    const fast_column *columns; /* of its rows */
    int64_t count;              /* number of columns */
    size_t size;                /* bytes of a row */
} fast_store_form;

extern const fast_store_form fast__store_tables[FAST_STORE_TABLES]; /* store_columns.c */
