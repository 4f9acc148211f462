/* SPDX-License-Identifier: Apache-2.0 */
/*
 * JSON of commands, by jansson: one object a line. Numbers are rounded to 9 digits, and whole ones
 * are printed without a point. Bytes of texts that are not UTF-8 (from file names) are replaced, so
 * that the line always parses.
 *
 *   cli_json_real   0.1 + 0.2        0.3
 *                   32667.84591      32667.8459
 *                   64.0             64
 *                   NAN, INFINITY    null
 *   cli_json_date   1794818029.6921  1794818029.692
 *   cli_json_hash   0x29bc...        "29bc0c2ef7d8915a"
 *   cli_json_text   NULL             null
 *
 * Members are printed in the order in which they were added. A member without a value is printed as
 * null and not left out: lines of one kind have the same members, as a table has columns.
 * Every line is flushed, so that a reader of a pipe sees each result as soon as it is known.
 */
#include "cli_json.h"

#include "cli.h"

#include <math.h>
#include <stdlib.h>

/* Add a member. Without memory the object is given up, and cli_json_end() prints nothing of it. */
static void put(cli_json *json, const char *key, json_t *value)
{
    if (json_object_set_new(json->object, key, value) == 0)
        return;
    json_decref(json->object);
    json->object = NULL;
}

/* Add a number; null if it is not finite, which JSON cannot write. */
static void put_number(cli_json *json, const char *key, double value)
{
    if (!isfinite(value))
        put(json, key, json_null());
    else if (fabs(value) < 1e15 && value == floor(value))
        put(json, key, json_integer((json_int_t)value));
    else
        put(json, key, json_real(value));
}

void cli_json_begin(cli_json *json, FILE *out)
{
    *json = (cli_json){ out, json_object() };
}

void cli_json_text(cli_json *json, const char *key, const char *value)
{
    const size_t size = value ? fast_text_utf8(value, NULL, 0) + 1 : 0;
    char *clean = value ? malloc(size) : NULL;

    if (clean)
        fast_text_utf8(value, clean, size);
    put(json, key, value ? json_string(clean) : json_null());
    free(clean);
}

void cli_json_int(cli_json *json, const char *key, int64_t value)
{
    put(json, key, json_integer(value));
}

/* The digits go through text: rounding to 9 decimal digits in binary would leave more. */
void cli_json_real(cli_json *json, const char *key, double value)
{
    char digits[32];

    snprintf(digits, sizeof digits, "%.9g", value);
    put_number(json, key, strtod(digits, NULL));
}

void cli_json_bool(cli_json *json, const char *key, bool value)
{
    put(json, key, json_boolean(value));
}

void cli_json_date(cli_json *json, const char *key, double value)
{
    put_number(json, key, round(value * 1000) / 1000);
}

/* The text is parsed and printed again, so that one line remains one line. */
void cli_json_raw(cli_json *json, const char *key, const char *value)
{
    json_t *tree = value ? json_loads(value, JSON_DECODE_ANY, NULL) : NULL;

    put(json, key, tree ? tree : json_null());
}

void cli_json_hash(cli_json *json, const char *key, uint64_t value)
{
    char text[17];

    snprintf(text, sizeof text, "%016llx", (unsigned long long)value);
    cli_json_text(json, key, value ? text : NULL);
}

void cli_json_end(cli_json *json)
{
    if (!json->object || json_dumpf(json->object, json->out, CLI_JSON_FLAGS) != 0)
        cli_fail(CLI_FAILED, "out of memory");
    else
        fputc('\n', json->out);
    fflush(json->out);
    json_decref(json->object);
    json->object = NULL;
}
