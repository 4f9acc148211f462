/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The scanner of CSV: fields and numbers. It neither writes to the text nor allocates, so a file is
 * scanned as often as needed: once to count, once for the labels, once for the values.
 *
 * Numbers of up to 15 digits without an exponent, which nearly all are, are converted here: the
 * digits are a whole number below 2^53 and the power of ten is exact, so their quotient is the
 * nearest double. Everything else goes to the general parser.
 */
#include "data/csv_scan.h"

#include "base/memory.h"
#include "base/option.h"
#include "base/utf8.h"

#include <math.h>
#include <string.h>
#include <strings.h>

enum { NUMBER_MAX = 64, DIGITS_MAX = 15 };

/* White space around fields; also between them if spaces delimit. */
static bool is_blank(const fast_csv *csv, char c)
{
    return (c == ' ' || c == '\t' || c == '\r') && (c != csv->delimiter || c == ' ');
}

/* Return the one of ,;|tab that is most frequent in the first line, and as frequent in the lines
 * after it if one of them is: names and numbers have commas inside. A text without any of them has
 * commas. */
static char guess_delimiter(const char *at, const char *end)
{
    enum { LINES = 10, CANDIDATES = 4 };
    static const char candidates[CANDIDATES] = { ',', ';', '\t', '|' };
    int64_t first[CANDIDATES] = { 0 };
    bool same[CANDIDATES] = { true, true, true, true };
    for (int line = 0; line < LINES && at < end; line++) {
        int64_t counts[CANDIDATES] = { 0 };
        bool quoted = false, blank = true;
        for (; at < end && (*at != '\n' || quoted); at++) {
            if (*at == '"')
                quoted = !quoted;
            blank = blank && (*at == ' ' || *at == '\r');
            for (size_t i = 0; i < CANDIDATES; i++)
                counts[i] += !quoted && *at == candidates[i];
        }
        at += at < end;
        line -= blank; /* empty lines are no records */
        for (size_t i = 0; i < CANDIDATES && !blank; i++) {
            first[i] = line == 0 ? counts[i] : first[i];
            same[i] = same[i] && counts[i] == first[i] && first[i] > 0;
        }
    }
    size_t best = 0;
    for (size_t i = 1; i < CANDIDATES; i++) {
        if (same[i] != same[best] ? same[i] : first[i] > first[best])
            best = i;
    }
    return candidates[best];
}

/* Start at the first byte of a text, which is borrowed. */
void fast__csv_init(const char *name, const char *text, size_t size, char delimiter, fast_csv *out)
{
    /* Some programs write UTF-8's byte order mark first. */
    const size_t skip = size >= 3 && memcmp(text, "\xef\xbb\xbf", 3) == 0 ? 3 : 0;
    *out = (fast_csv){ .name = name, .at = text + skip, .end = text + size, .line = 1 };
    out->delimiter = delimiter != 0 ? delimiter : guess_delimiter(out->at, out->end);
}

/* Go to the next record; false at the end of the text. Empty lines are not records. */
bool fast__csv_record(fast_csv *csv)
{
    /* Skip lines of white space. */
    while (csv->at < csv->end && (is_blank(csv, *csv->at) || *csv->at == '\n')) {
        csv->line += *csv->at == '\n';
        csv->at++;
    }
    return csv->at < csv->end;
}

/* Skip the delimiter after a field; false if neither a delimiter nor the end of the line
 * follows. */
static bool finish(fast_csv *csv, fast_csv_field *field)
{
    const char *start = csv->at;
    while (csv->at < csv->end && is_blank(csv, *csv->at))
        csv->at++;
    if (csv->at == csv->end || *csv->at == '\n') {
        field->last = true;
        csv->line += csv->at < csv->end;
        csv->at += csv->at < csv->end;
        return true;
    }
    if (csv->delimiter == ' ')
        return csv->at > start;
    if (*csv->at != csv->delimiter)
        return false;
    csv->at++;
    return true;
}

/* Scan a quoted field; doubled quotes inside are part of it. */
static fast_err next_quoted(fast_csv *csv, fast_csv_field *field)
{
    const char *at = ++csv->at;
    field->at = at;
    field->quoted = true;
    for (;; at++) {
        if (at == csv->end)
            return fast__fail(FAST_EFORMAT, "%s:%lld: a quote is opened and not closed", csv->name,
                              (long long)field->line);
        csv->line += *at == '\n';
        if (*at != '"')
            continue;
        if (at + 1 < csv->end && at[1] == '"')
            at++;
        else
            break;
    }
    field->size = at - field->at;
    csv->at = at + 1;
    if (!finish(csv, field))
        return fast__fail(FAST_EFORMAT, "%s:%lld: text follows a closing quote", csv->name,
                          (long long)csv->line);
    return FAST_OK;
}

/* Read the next field of the record, quoted or plain: it points into the text, without the quotes
 * and spaces around it. */
fast_err fast__csv_next(fast_csv *csv, fast_csv_field *out)
{
    FAST_ASSERT(csv->at <= csv->end);
    while (csv->at < csv->end && is_blank(csv, *csv->at))
        csv->at++;
    fast_csv_field field = { .at = csv->at, .line = csv->line };
    if (csv->at < csv->end && *csv->at == '"') {
        FAST_TRY(next_quoted(csv, &field));
        *out = field;
        return FAST_OK;
    }
    while (csv->at < csv->end && *csv->at != '\n' && *csv->at != csv->delimiter &&
           !(csv->delimiter == ' ' && is_blank(csv, *csv->at)))
        csv->at++;
    const char *stop = csv->at;
    while (stop > field.at && is_blank(csv, stop[-1]))
        stop--;
    field.size = stop - field.at;
    const bool fine = finish(csv, &field);
    FAST_ASSERT(fine);
    *out = field;
    return FAST_OK;
}

/* Skip by scanning: only the scanner knows where a record with quotes ends. */
fast_err fast__csv_skip(fast_csv *csv)
{
    fast_csv_field field = { .last = !fast__csv_record(csv) };
    while (!field.last)
        FAST_TRY(fast__csv_next(csv, &field));
    return FAST_OK;
}

/* Convert a short decimal number; false if it is longer or of another form. */
static bool read_decimal(const char *at, const char *end, char decimal, double *out)
{
    static const double powers[DIGITS_MAX + 1] = { 1e0, 1e1, 1e2,  1e3,  1e4,  1e5,  1e6,  1e7,
                                                   1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15 };
    const bool minus = at < end && *at == '-';
    at += minus;
    int64_t value = 0;
    int digits = 0, places = 0;
    bool point = false;
    for (; at < end; at++) {
        if (*at == decimal && !point) {
            point = true;
            continue;
        }
        if (*at < '0' || *at > '9' || digits == DIGITS_MAX)
            return false;
        value = value * 10 + (*at - '0');
        digits++;
        places += point;
    }
    if (digits == 0)
        return false;
    *out = (minus ? -1.0 : 1.0) * ((double)value / powers[places]);
    return true;
}

/* Parse a field of any length as a number, independent of the locale, without its spaces. */
bool fast__csv_number(const fast_csv_field *field, char decimal, double *out)
{
    double value;
    if (!read_decimal(field->at, field->at + field->size, decimal, &value)) {
        char text[NUMBER_MAX];
        if (field->size < 1 || field->size >= NUMBER_MAX)
            return false;
        memcpy(text, field->at, (size_t)field->size);
        text[field->size] = 0;
        char *comma = decimal != '.' ? strchr(text, decimal) : NULL;
        if (decimal != '.' && strchr(text, '.') != NULL)
            return false;
        if (comma != NULL)
            *comma = '.';
        if (strlen(text) != (size_t)field->size || fast__parse_real("a field", text, &value))
            return false;
    }
    if (!isfinite(value))
        return false;
    *out = value;
    return true;
}

/* Compare a field with a word in lower case, in any case. */
static bool spells(const char *at, int64_t size, const char *word)
{
    return (size_t)size == strlen(word) && strncasecmp(at, word, (size_t)size) == 0;
}

/* The spellings that R, pandas, spreadsheets and the UCI repository write. */
bool fast__csv_missing(const fast_csv_field *field)
{
    static const char *const words[] = { "?",    "na",  "n/a",  "#n/a", "<na>",
                                         "null", "nan", "-nan", "none" };
    bool found = field->size == 0;
    /* Nearly all fields end here. */
    if (!found && (field->size > 4 || (field->at[0] >= '0' && field->at[0] <= '9')))
        return false;
    for (size_t i = 0; i < sizeof words / sizeof *words && !found; i++)
        found = spells(field->at, field->size, words[i]);
    return found;
}

/* An infinity is a value that no network can use: readers refuse it or leave the row out. */
bool fast__csv_infinite(const fast_csv_field *field)
{
    const int64_t sign = field->size > 0 && (field->at[0] == '-' || field->at[0] == '+');
    return spells(field->at + sign, field->size - sign, "inf") ||
           spells(field->at + sign, field->size - sign, "infinity");
}

/* Copy byte by byte, because doubled quotes become one. */
bool fast__csv_word(const fast_csv_field *field, char word[FAST_WORD_MAX + 1])
{
    size_t used = 0;
    for (int64_t i = 0; i < field->size; i++) {
        if (used == FAST_WORD_MAX)
            return false;
        word[used++] = field->at[i];
        /* Inside quotes, a quote is always doubled: the scanner ends the field otherwise. */
        i += field->quoted && field->at[i] == '"';
    }
    word[used] = 0;
    return true;
}

/* Return the number of the line that has the byte at `at`. */
static int64_t line_of(const char *text, const char *at)
{
    int64_t line = 1;
    for (const char *c = text; c < at; c++)
        line += *c == '\n';
    return line;
}

/* Tell whether all bytes are UTF-8, and count those that are not ASCII. */
static bool is_utf8(const char *text, size_t size, size_t *high_out)
{
    bool valid = true;
    size_t high = 0;
    for (size_t i = 0; i < size;) {
        const bool plain = (unsigned char)text[i] < 0x80;
        const int length = plain ? 1 : valid ? fast__utf8_length(text + i, size - i) : 0;
        valid = valid && length > 0;
        high += plain ? 0 : (size_t)(length > 0 ? length : 1);
        i += (size_t)(length > 0 ? length : 1);
    }
    *high_out = high;
    return valid;
}

/* Check the marks of UTF-16 first, because its letters have zero bytes too. */
fast_err fast__csv_decode(const char *name, char **text, size_t *size)
{
    const char *from = *text;
    if (*size >= 2 && (memcmp(from, "\xff\xfe", 2) == 0 || memcmp(from, "\xfe\xff", 2) == 0))
        return fast__fail(FAST_EFORMAT,
                          "%s is UTF-16; convert it: iconv -f UTF-16 -t UTF-8 OLD > NEW", name);
    const char *zero = memchr(from, 0, *size);
    if (zero != NULL)
        return fast__fail(FAST_EFORMAT,
                          "%s:%lld: a zero byte, so this is not a table in UTF-8; if it is UTF-16, "
                          "convert it: iconv -f UTF-16 -t UTF-8 OLD > NEW",
                          name, (long long)line_of(from, zero));
    size_t high;
    if (is_utf8(from, *size, &high))
        return FAST_OK;
    /* A byte of Latin-1 is its code point, which has two bytes in UTF-8. */
    char *to;
    FAST_TRY(fast__alloc("a table in UTF-8", (int64_t)(*size + high + 1), 1, &to));
    size_t used = 0;
    for (size_t i = 0; i < *size; i++) {
        const unsigned char c = (unsigned char)from[i];
        if (c >= 0x80)
            to[used++] = (char)(0xc0 | c >> 6);
        to[used++] = (char)(c < 0x80 ? c : 0x80 | (c & 0x3f));
    }
    fast__free(*text);
    *text = to;
    *size = used;
    return FAST_OK;
}
