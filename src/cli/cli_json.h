/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

/* One flat JSON object, written as it goes: begin, members, end (with a line feed). */
typedef struct cli_json {
    FILE *out;
    bool first; /* no member was written yet */
} cli_json;

void cli_json_begin(cli_json *json, FILE *out);
void cli_json_text(cli_json *json, const char *key, const char *value); /* NULL gives null */
void cli_json_int(cli_json *json, const char *key, int64_t value);
void cli_json_real(cli_json *json, const char *key, double value); /* null where not finite */
void cli_json_bool(cli_json *json, const char *key, bool value);
/* Text that is JSON itself; NULL gives null. */
void cli_json_raw(cli_json *json, const char *key, const char *value);
/* 16 digits as text, because readers keep numbers as doubles of 53 bits; 0 gives null. */
void cli_json_hash(cli_json *json, const char *key, uint64_t value);
/* A list of whole numbers, or of others; null where not finite. */
void cli_json_ints(cli_json *json, const char *key, const int64_t *values, int64_t count);
void cli_json_reals(cli_json *json, const char *key, const double *values, int64_t count);
void cli_json_end(cli_json *json);
