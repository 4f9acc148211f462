/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "cli.h"
#include "cli_json.h"
#include "cli_page.h"
#include "fast/store.h"

/*
 * Functions that the files of `fast runs` share. Texts of a store may be of other programs: every
 * text that is printed on a terminal goes through cli_text_safe().
 */

/* The text without control characters, and at most `width` columns wide, ".." where it was cut;
 * "-" for NULL. */
enum { CLI_SAFE_MAX = 4096 };
const char *cli_text_safe(const char *text, int width, char safe[CLI_SAFE_MAX]);

/* A number of a row as people read it: 79.43%, 8.4 s, 12.3 MB; "-" for none. */
enum { CLI_VALUE_MAX = 64 };
void cli_value_text(const char *column, double value, char text[CLI_VALUE_MAX]);
/* The value of a column as text, safe for a terminal. */
const char *cli_column_text(const fast_column *column, const void *row, char text[CLI_SAFE_MAX]);

/* A row of `runs` with its texts copied; cli_run_free() frees it. False: out of memory. */
bool cli_run_copy(const fast_stored_run *row, fast_stored_run *out);
void cli_run_free(fast_stored_run *run);

/* One run with all columns, to be freed. Says what is wrong. */
int cli_run_get(fast_store *store, int64_t id, fast_stored_run *out);

/* A row as an object in one line; `run` adds the number of the run where it is not 0. */
void cli_row_json(fast_store_table table, int64_t run, const void *row, FILE *out);

/* fast runs show, compare, export. */
int cli_runs_show(fast_store *store, int64_t id, bool json);
int cli_runs_compare(fast_store *store, const int64_t *ids, int count, bool json);
int cli_runs_export(fast_store *store, const fast_store_query *query, const int64_t *ids, int count,
                    bool csv);
