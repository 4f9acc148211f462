/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Rows of the store as text: for people, safe on their terminal, and as JSON. A name may hold an
 * escape sequence that moves the cursor or writes to the clipboard; here it becomes question marks.
 */
#include "cmd_runs.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* Columns of a text: the later bytes of UTF-8 take none. */
static int columns_of(const char *text)
{
    int columns = 0;
    for (; *text; text++)
        columns += ((unsigned char)*text & 0xc0) != 0x80;
    return columns;
}

const char *cli_text_safe(const char *text, int width, char safe[CLI_SAFE_MAX])
{
    if (!text)
        return "-";
    const bool cut = columns_of(text) > width || strlen(text) + 4 > CLI_SAFE_MAX;
    const int room = cut ? width - 2 : width;
    size_t used = 0;
    int columns = 0;
    for (const unsigned char *c = (const unsigned char *)text; *c; c++) {
        /* Controls are those of ASCII, and 0xc2 0x80 to 0x9f. */
        const bool wide = *c == 0xc2 && c[1] >= 0x80 && c[1] < 0xa0;
        columns += (*c & 0xc0) != 0x80;
        if (columns > room || used + 4 > CLI_SAFE_MAX)
            break;
        safe[used++] = wide || *c < ' ' || *c == 0x7f ? '?' : (char)*c;
        c += wide;
    }
    snprintf(safe + used, CLI_SAFE_MAX - used, "%s", cut ? ".." : "");
    return safe;
}

/* A number of bytes with a unit that fits it. */
static void bytes_text(double bytes, char text[CLI_VALUE_MAX])
{
    static const char *const units[] = { "B", "kB", "MB", "GB", "TB" };
    int unit = 0;

    while (bytes >= 1000 && unit < 4) {
        bytes /= 1000;
        unit++;
    }
    snprintf(text, CLI_VALUE_MAX, "%.*f %s", unit == 0 || bytes >= 100 ? 0 : 1, bytes, units[unit]);
}

/* "2026-01-31 17:05", local time. */
static void date_text(double seconds, char text[CLI_VALUE_MAX])
{
    const time_t date = (time_t)seconds;
    struct tm local;

    if (!(fabs(seconds) < 1e11) || !localtime_r(&date, &local) ||
        strftime(text, CLI_VALUE_MAX, "%Y-%m-%d %H:%M", &local) == 0)
        snprintf(text, CLI_VALUE_MAX, "-");
}

/* True if a text has this ending. */
static bool ends_with(const char *text, const char *end)
{
    const size_t length = strlen(text), size = strlen(end);
    return length >= size && strcmp(text + length - size, end) == 0;
}

/* The unit follows from the name of the column:
 *
 *   created, finished    2026-11-16 08:33     local time
 *   *_accuracy           26.20%
 *   bytes, bytes_sent    53.8 MB, 672 kB      powers of 1000
 *   samples_per_s        18125/s
 *   other *_s            0.32 s, 75.2 s       from an hour on 1:05 h, which is hours and minutes
 *   all others           2.27561              six digits
 */
void cli_value_text(const char *column, double value, char text[CLI_VALUE_MAX])
{
    if (!isfinite(value))
        snprintf(text, CLI_VALUE_MAX, "-");
    else if (strcmp(column, "created") == 0 || strcmp(column, "finished") == 0)
        date_text(value, text);
    else if (ends_with(column, "_accuracy"))
        snprintf(text, CLI_VALUE_MAX, "%.2f%%", 100 * value);
    else if (strcmp(column, "bytes_sent") == 0 || strcmp(column, "bytes") == 0)
        bytes_text(value, text);
    else if (strcmp(column, "samples_per_s") == 0)
        snprintf(text, CLI_VALUE_MAX, "%.0f/s", value);
    else if (ends_with(column, "_s") && value >= 3600)
        snprintf(text, CLI_VALUE_MAX, "%.0f:%02.0f h", floor(value / 3600),
                 floor(fmod(value, 3600) / 60));
    else if (ends_with(column, "_s"))
        snprintf(text, CLI_VALUE_MAX, value < 10 ? "%.2f s" : "%.1f s", value);
    else
        snprintf(text, CLI_VALUE_MAX, "%.6g", value);
}

const char *cli_column_text(const fast_column *column, const void *row, char text[CLI_SAFE_MAX])
{
    const void *at = (const char *)row + column->offset;
    char value[CLI_VALUE_MAX];

    if (column->kind == FAST_COLUMN_TEXT || column->kind == FAST_COLUMN_JSON)
        return cli_text_safe(*(const char *const *)at, CLI_SAFE_MAX, text);
    if (column->kind == FAST_COLUMN_REAL) {
        cli_value_text(column->name, *(const double *)at, value);
    } else {
        const int64_t number = *(const int64_t *)at;
        if (number == -1)
            snprintf(value, sizeof value, "-");
        else if (strncmp(column->name, "bytes", 5) == 0)
            bytes_text((double)number, value);
        else
            snprintf(value, sizeof value, "%lld", (long long)number);
    }
    snprintf(text, CLI_SAFE_MAX, "%s", value);
    return text;
}

void cli_run_free(fast_stored_run *run)
{
    int64_t count = 0;
    const fast_column *columns = fast_store_columns(FAST_STORE_RUNS, &count);

    for (int64_t i = 0; i < count; i++) {
        char **at = (char **)(void *)((char *)run + columns[i].offset);
        if (columns[i].kind == FAST_COLUMN_TEXT || columns[i].kind == FAST_COLUMN_JSON) {
            free(*at);
            *at = NULL;
        }
    }
}

bool cli_run_copy(const fast_stored_run *row, fast_stored_run *out)
{
    int64_t count = 0;
    const fast_column *columns = fast_store_columns(FAST_STORE_RUNS, &count);
    bool whole = true;

    *out = *row;
    for (int64_t i = 0; i < count; i++) {
        char **at = (char **)(void *)((char *)out + columns[i].offset);
        if (columns[i].kind != FAST_COLUMN_TEXT && columns[i].kind != FAST_COLUMN_JSON)
            continue;
        if (*at)
            *at = strdup(*at);
        whole = whole &&
                (*at || !*(char *const *)(const void *)((const char *)row + columns[i].offset));
    }
    if (!whole)
        cli_run_free(out);
    return whole;
}

/* Copy a run that was asked for by its number: its texts are lent for this call only. */
static fast_err on_run(void *ctx, const void *row)
{
    return cli_run_copy(row, ctx) ? FAST_OK : FAST_ENOMEM;
}

int cli_run_get(fast_store *store, int64_t id, fast_stored_run *out)
{
    const fast_err err = fast_store_find(store, id, on_run, out);
    return err ? cli_fail_err(err) : CLI_DONE;
}

/* Missing numbers and texts are null. A JSON column (the options) is left out where it was not
 * read, as in a list of runs. */
void cli_row_json(fast_store_table table, int64_t run, const void *row, FILE *out)
{
    int64_t count = 0;
    const fast_column *columns = fast_store_columns(table, &count);
    cli_json json;

    cli_json_begin(&json, out);
    if (run)
        cli_json_int(&json, "run", run);
    for (int64_t i = 0; i < count; i++) {
        const void *at = (const char *)row + columns[i].offset;
        const char *name = columns[i].name;
        if (strcmp(name, "created") == 0 || strcmp(name, "finished") == 0)
            cli_json_date(&json, name, *(const double *)at);
        else if (columns[i].kind == FAST_COLUMN_REAL)
            cli_json_real(&json, name, *(const double *)at);
        else if (columns[i].kind == FAST_COLUMN_TEXT)
            cli_json_text(&json, name, *(const char *const *)at);
        else if (columns[i].kind == FAST_COLUMN_JSON && *(const char *const *)at)
            cli_json_raw(&json, name, *(const char *const *)at);
        else if (columns[i].kind == FAST_COLUMN_INT && *(const int64_t *)at != -1)
            cli_json_int(&json, name, *(const int64_t *)at);
        else if (columns[i].kind == FAST_COLUMN_INT)
            cli_json_raw(&json, name, NULL);
    }
    cli_json_end(&json);
}
