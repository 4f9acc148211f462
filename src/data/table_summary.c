/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One line for people:
 *
 *   regression on `value`, 12 numeric and 3 text columns (31 features), 41 missing values replaced
 *   by means
 *
 * Names come from files: control characters, which a terminal would obey, are shown as ?.
 */
#include "data/table_summary.h"

#include "base/memory.h"
#include "base/utf8.h"

#include <stdio.h>
#include <string.h>

enum { LINE_MAX_SIZE = 1024, NAME_SHOWN = 40, NAMES_SHOWN = 4 };

/* The line so far. */
typedef struct summary_line {
    char text[LINE_MAX_SIZE]; /* ends with a zero byte */
    size_t used;              /* bytes before it */
} summary_line;

/* Append a text, as far as there is room. */
__attribute__((format(printf, 2, 3))) static void say(summary_line *line, const char *format, ...)
{
    va_list list;
    va_start(list, format);
    const int size =
        vsnprintf(line->text + line->used, sizeof line->text - line->used, format, list);
    va_end(list);
    FAST_ASSERT(size >= 0);
    line->used += (size_t)size;
    if (line->used >= sizeof line->text)
        line->used = sizeof line->text - 1;
}

/* Append a name without control characters, shortened at the end of a character. */
static void say_name(summary_line *line, const char *name)
{
    char shown[NAME_SHOWN + 4];
    size_t used = 0;
    while (*name != 0) {
        int size = fast__utf8_length(name, strlen(name));
        /* The control characters of the second half of Latin-1 have two bytes: c2 80 to c2 9f. */
        const unsigned char a = (unsigned char)name[0];
        const bool control =
            size == 0 || a < 0x20 || a == 0x7f || (a == 0xc2 && (unsigned char)name[1] < 0xa0);
        size = size == 0 ? 1 : size;
        if (used + (size_t)size > NAME_SHOWN) {
            memcpy(shown + used, "...", 3);
            used += 3;
            break;
        }
        memcpy(shown + used, control ? "?" : name, control ? 1 : (size_t)size);
        used += control ? 1 : (size_t)size;
        name += size;
    }
    shown[used] = 0;
    say(line, "%s", shown);
}

/* Append the task and the target. */
static void say_task(const fast_table *table, summary_line *line)
{
    say(line, "%s on %s", table->regression ? "regression" : "classification",
        table->header ? "`" : "column ");
    say_name(line, table->columns[table->target].name);
    say(line, "%s", table->header ? "`" : "");
    const double deviation = 1 / (double)table->target_scale;
    if (table->regression && table->target_scale != 1)
        say(line, " (%.*f +- %.*f, standardised)", deviation > 100 ? 0 : 6,
            (double)table->target_mean, deviation > 100 ? 0 : 6, deviation);
    if (table->regression)
        return;
    say(line, " (%lld class%s", (long long)table->classes.count,
        table->classes.count == 1 ? "" : "es");
    for (int64_t i = 0; i < table->classes.count && table->classes.count <= NAMES_SHOWN; i++) {
        say(line, "%s", i == 0 ? ": " : ", ");
        say_name(line, table->classes.at[i]);
    }
    say(line, ")");
}

/* Append the numbers of columns by kind. */
static void say_columns(const fast_table *table, summary_line *line)
{
    static const char *const names[] = { "numeric", "text", "date" };
    int64_t counts[3] = { 0 }, total = 0;
    int kinds = 0, said = 0;
    for (int64_t i = 0; i < table->column_count; i++) {
        const fast_column_kind kind = table->columns[i].kind;
        if (kind == FAST_COLUMN_DROPPED)
            continue;
        counts[kind == FAST_COLUMN_NUMERIC ? 0 : kind == FAST_COLUMN_DATE ? 2 : 1]++;
        total++;
    }
    for (int k = 0; k < 3; k++)
        kinds += counts[k] > 0;
    for (int k = 0; k < 3; k++) {
        if (counts[k] == 0)
            continue;
        const bool last = said > 0 && said == kinds - 1;
        say(line, "%s%lld %s", last ? " and " : ", ", (long long)counts[k], names[k]);
        said++;
    }
    say(line, " column%s (%lld feature%s)", total == 1 ? "" : "s", (long long)table->features,
        table->features == 1 ? "" : "s");
}

/* Append the columns that were left out without being asked for. */
static void say_dropped(const fast_table_fit *fit, summary_line *line)
{
    int64_t count = 0;
    for (int64_t i = 0; i < fit->table->column_count; i++) {
        if (!fit->dropped_own[i])
            continue;
        if (count < NAMES_SHOWN) {
            say(line, "%s", count == 0 ? ", without " : ", ");
            say_name(line, fit->table->columns[i].name);
        }
        count++;
    }
    if (count > NAMES_SHOWN)
        say(line, " and %lld more", (long long)(count - NAMES_SHOWN));
    if (count > 0)
        say(line, " (each row has its own text, or none)");
}

/* Task first, then columns, then everything that was replaced or left out without being asked. */
fast_err fast__table_summary(const fast_table_config *config, const fast_table_fit *fit,
                             const int64_t missing[2], char **out)
{
    summary_line line = { .used = 0 };
    say_task(fit->table, &line);
    say_columns(fit->table, &line);
    if (missing[0] > 0)
        say(&line, ", %lld missing value%s replaced by %s%s", (long long)missing[0],
            missing[0] == 1 ? "" : "s", missing[0] == 1 ? "the mean" : "means",
            config->missing == FAST_MISSING_INDICATOR ? " and marked" : "");
    if (missing[1] > 0)
        say(&line, ", %lld missing text%s", (long long)missing[1], missing[1] == 1 ? "" : "s");
    const int64_t rows = fit->view.rows - fit->samples;
    if (rows > 0)
        say(&line, ", %lld row%s without a target left out", (long long)rows, rows == 1 ? "" : "s");
    say_dropped(fit, &line);
    if (fit->latin1)
        say(&line, ", read as Latin-1");
    FAST_TRY(fast__alloc("a summary", (int64_t)line.used + 1, 1, out));
    memcpy(*out, line.text, line.used + 1);
    return FAST_OK;
}
