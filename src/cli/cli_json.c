/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writing JSON (RFC 8259), one object a line. Bytes that are not valid
 * UTF-8 (from file names) are replaced, so that the line always parses.
 */
#include "cli_json.h"

#include <math.h>
#include <string.h>

/* Bytes of the UTF-8 sequence at `s`, or 0 if it is not one. */
static int sequence_length(const unsigned char *s)
{
    if (s[0] < 0x80)
        return 1;
    const int length = s[0] >= 0xf0 ? 4 : s[0] >= 0xe0 ? 3 : 2;
    if (s[0] < 0xc2 || s[0] > 0xf4)
        return 0;
    for (int i = 1; i < length; i++)
        if ((s[i] & 0xc0) != 0x80)
            return 0;
    if ((s[0] == 0xe0 && s[1] < 0xa0) || (s[0] == 0xed && s[1] > 0x9f) ||
        (s[0] == 0xf0 && s[1] < 0x90) || (s[0] == 0xf4 && s[1] > 0x8f))
        return 0;
    return length;
}

static void put_text(FILE *file, const char *text)
{
    fputc('"', file);
    for (const unsigned char *s = (const unsigned char *)text; *s;) {
        const int length = sequence_length(s);
        if (length == 0)
            fputs("\\ufffd", file);
        else if (*s == '"' || *s == '\\')
            fprintf(file, "\\%c", *s);
        else if (*s < 0x20)
            fprintf(file, "\\u%04x", *s);
        else
            fwrite(s, 1, (size_t)length, file);
        s += length ? length : 1;
    }
    fputc('"', file);
}

static void put_key(cli_json *json, const char *key)
{
    fputs(json->first ? "" : ", ", json->out);
    json->first = false;
    put_text(json->out, key);
    fputs(": ", json->out);
}

void cli_json_begin(cli_json *json, FILE *out)
{
    *json = (cli_json){ out, true };
    fputc('{', out);
}

void cli_json_text(cli_json *json, const char *key, const char *value)
{
    put_key(json, key);
    if (value)
        put_text(json->out, value);
    else
        fputs("null", json->out);
}

void cli_json_int(cli_json *json, const char *key, int64_t value)
{
    put_key(json, key);
    fprintf(json->out, "%lld", (long long)value);
}

static void put_real(FILE *file, double value)
{
    if (isfinite(value))
        fprintf(file, "%.9g", value);
    else
        fputs("null", file);
}

void cli_json_real(cli_json *json, const char *key, double value)
{
    put_key(json, key);
    put_real(json->out, value);
}

void cli_json_ints(cli_json *json, const char *key, const int64_t *values, int64_t count)
{
    put_key(json, key);
    for (int64_t i = 0; i < count; i++)
        fprintf(json->out, "%s%lld", i ? ", " : "[", (long long)values[i]);
    fputs(count ? "]" : "[]", json->out);
}

void cli_json_reals(cli_json *json, const char *key, const double *values, int64_t count)
{
    put_key(json, key);
    fputc('[', json->out);
    for (int64_t i = 0; i < count; i++) {
        fputs(i ? ", " : "", json->out);
        put_real(json->out, values[i]);
    }
    fputc(']', json->out);
}

void cli_json_bool(cli_json *json, const char *key, bool value)
{
    put_key(json, key);
    fputs(value ? "true" : "false", json->out);
}

void cli_json_raw(cli_json *json, const char *key, const char *value)
{
    put_key(json, key);
    fputs(value ? value : "null", json->out);
}

void cli_json_hash(cli_json *json, const char *key, uint64_t value)
{
    char text[17];
    snprintf(text, sizeof text, "%016llx", (unsigned long long)value);
    cli_json_text(json, key, value ? text : NULL);
}

void cli_json_end(cli_json *json)
{
    fputs("}\n", json->out);
    fflush(json->out);
}
