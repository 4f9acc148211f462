/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

/* The flags that print numbers as this program does: values of 9 digits stay as they are. */
#define CLI_JSON_FLAGS (JSON_ENCODE_ANY | JSON_REAL_PRECISION(15))

/* One JSON object in one line: begin, members in their order, end, which prints it. Members for
 * which memory is missing make `end` print nothing and say so. */
typedef struct cli_json {
    FILE *out;      /* where the line goes */
    json_t *object; /* NULL once memory was missing */
} cli_json;

void cli_json_begin(cli_json *json, FILE *out);
void cli_json_text(cli_json *json, const char *key, const char *value); /* NULL gives null */
void cli_json_int(cli_json *json, const char *key, int64_t value);
void cli_json_real(cli_json *json, const char *key, double value); /* null if it is not finite */
void cli_json_bool(cli_json *json, const char *key, bool value);
/* Seconds since 1970, with milliseconds. */
void cli_json_date(cli_json *json, const char *key, double value);
/* A text that is JSON itself; null for NULL and for anything else. */
void cli_json_raw(cli_json *json, const char *key, const char *value);
/* 16 digits as text, because many readers store numbers as doubles of 53 bits; 0 gives null. */
void cli_json_hash(cli_json *json, const char *key, uint64_t value);
void cli_json_end(cli_json *json);
