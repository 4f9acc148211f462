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

/* Convert a field to a finite number; false if the field is not a number. */
bool fast__csv_number(const fast_csv_field *field, double *out);
