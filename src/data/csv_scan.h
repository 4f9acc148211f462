/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "base/err.h"

/*
 * Reading CSV field by field (RFC 4180 and common deviations): quoted fields with doubled quotes
 * and line feeds inside, CR LF, blank lines, spaces around fields.
 */
typedef struct fast_csv {
    const char *name; /* name of the file, for messages; borrowed */
    const char *at;   /* next byte */
    const char *end;  /* first byte after the text */
    char delimiter;   /* ' ' means any run of spaces and tabs */
    int64_t line;     /* line number of `at`, from 1 */
} fast_csv;

/* A field as it stands in the text; surrounding quotes are removed, doubled quotes inside are
 * not. */
typedef struct fast_csv_field {
    const char *at; /* first byte, not terminated */
    int64_t size;   /* bytes */
    int64_t line;   /* line number where it begins */
    bool quoted;    /* it was in quotes */
    bool last;      /* last field of its record */
} fast_csv_field;

/* Start at the beginning of `size` bytes; a delimiter of 0 is guessed from the first line. */
void fast__csv_init(const char *name, const char *text, size_t size, char delimiter, fast_csv *out);

/* Advance to the next record; false at the end. */
bool fast__csv_record(fast_csv *csv);

/* Scan the next field of the record. FAST_EFORMAT for an open quote or text after a closing one. */
fast_err fast__csv_next(fast_csv *csv, fast_csv_field *out);

/* Skip a whole record. FAST_EFORMAT as fast__csv_next(). */
fast_err fast__csv_skip(fast_csv *csv);

/* Convert a field to a finite number, written with this decimal point ('.' or ','); false if the
 * field is not a number. */
bool fast__csv_number(const fast_csv_field *field, char decimal, double *out);

/* Return whether a field says that its value is missing: it is empty, ?, NA, N/A, #N/A, <NA>, NaN,
 * null or None, in any case. */
bool fast__csv_missing(const fast_csv_field *field);

/* Return whether a field is an infinity by name: inf, infinity, with or without a sign. */
bool fast__csv_infinite(const fast_csv_field *field);

/* Longest text in bytes that is a category, a class or a name of a column. */
enum { FAST_WORD_MAX = 256 };

/* Copy the text of a field, with doubled quotes made single, and a zero byte; false if it is longer
 * than FAST_WORD_MAX. */
bool fast__csv_word(const fast_csv_field *field, char word[FAST_WORD_MAX + 1]);

/* Make a file's bytes UTF-8: text that is not is read as Latin-1, and *text moves. FAST_EFORMAT for
 * UTF-16 and for zero bytes, FAST_ENOMEM. */
fast_err fast__csv_decode(const char *name, char **text, size_t *size);
