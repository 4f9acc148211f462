/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Conventions on top of jansson: rounding, replaced bytes, missing memory.
 *
 * A number with a whole value is stored as an integer, so that 15 prints as 15 and not as 15.0.
 * Rounding to 9 digits goes through text, as printf and strtod round; 9 digits survive the way
 * through a double and 15 printed digits unchanged.
 */
#include "base/json.h"

#include "base/memory.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

json_t *fast__json_text(const char *text)
{
    json_t *value;
    char *clean;

    if (!text)
        return json_null();
    value = json_string(text);
    if (value)
        return value;
    /* Not UTF-8, or no memory, which the next allocation will tell. */
    const size_t size = fast_text_utf8(text, NULL, 0) + 1;
    if (fast__alloc("JSON text", (int64_t)size, 1, &clean))
        return NULL;
    fast_text_utf8(text, clean, size);
    value = json_string(clean);
    fast__free(clean);
    return value;
}

json_t *fast__json_exact(double value)
{
    if (!isfinite(value))
        return json_null();
    if (fabs(value) < 1e15 && value == floor(value) && !(value == 0 && signbit(value)))
        return json_integer((json_int_t)value);
    return json_real(value);
}

json_t *fast__json_real(double value)
{
    char digits[32];

    if (!isfinite(value))
        return json_null();
    snprintf(digits, sizeof digits, "%.9g", value);
    return fast__json_exact(strtod(digits, NULL));
}

json_t *fast__json_hash(uint64_t value)
{
    char digits[17];

    snprintf(digits, sizeof digits, "%016llx", (unsigned long long)value);
    return fast__json_text(value ? digits : NULL);
}

void fast__json_set(json_t **object, const char *key, json_t *value)
{
    FAST_ASSERT(key != NULL);
    if (json_object_set_new(*object, key, value) == 0)
        return;
    json_decref(*object);
    *object = NULL;
}

void fast__json_append(json_t **array, json_t *value)
{
    if (json_array_append_new(*array, value) == 0)
        return;
    json_decref(*array);
    *array = NULL;
}

static fast_err no_memory(void)
{
    return fast__fail(FAST_ENOMEM, "no memory for JSON");
}

fast_err fast__json_print(json_t **move, char **out)
{
    const size_t size = *move ? json_dumpb(*move, NULL, 0, FAST_JSON_FLAGS) : 0;
    fast_err err = size > 0 ? fast__alloc("JSON", (int64_t)size + 1, 1, out) : no_memory();

    if (!err && json_dumpb(*move, *out, size, FAST_JSON_FLAGS) != size) {
        fast__free(*out);
        err = no_memory();
    }
    json_decref(*move);
    *move = NULL;
    return err;
}

fast_err fast__json_write(json_t **move, FILE *file)
{
    char *text = NULL;

    FAST_TRY(fast__json_print(move, &text));
    const bool written = fputs(text, file) >= 0 && fputc('\n', file) != EOF && fflush(file) == 0;
    fast__free(text);
    return written ? FAST_OK : fast__fail(FAST_EIO, "cannot write JSON");
}

static fast_err read_with(const char *where, const char *text, size_t size, size_t flags,
                          size_t *used_out, json_t **out)
{
    json_error_t error;
    json_t *value;

    FAST_ASSERT(where != NULL);
    FAST_ASSERT(text != NULL || size == 0);
    value = json_loadb(text ? text : "", size, JSON_DECODE_ANY | JSON_REJECT_DUPLICATES | flags,
                       &error);
    if (!value && json_error_code(&error) == json_error_out_of_memory)
        return no_memory();
    if (!value)
        return fast__fail(FAST_EFORMAT, "%s: %s, at byte %d", where, error.text, error.position);
    *used_out = (size_t)error.position;
    *out = value;
    return FAST_OK;
}

fast_err fast__json_read(const char *where, const char *text, size_t size, json_t **out)
{
    size_t used;

    return read_with(where, text, size, 0, &used, out);
}

fast_err fast__json_read_first(const char *where, const char *text, size_t size, size_t *used_out,
                               json_t **out)
{
    return read_with(where, text, size, JSON_DISABLE_EOF_CHECK, used_out, out);
}

double fast__json_number(const json_t *object, const char *key)
{
    const json_t *value = json_object_get(object, key);

    return json_is_number(value) ? json_number_value(value) : NAN;
}
