/* SPDX-License-Identifier: Apache-2.0 */
/*
 * NPY, the format in which numpy saves one array:
 *
 *   6 bytes   \x93 N U M P Y
 *   2 bytes   version, 1.0 to 3.0
 *   2 bytes   length of the header, little endian (4 bytes from version 2 on)
 *   header    a Python dictionary: {'descr': '<f4', 'fortran_order': False, 'shape': (60, 4), }
 *   ...       the elements, row major
 *
 * Floats f4, f8, integers i1 to i8 and u1 to u4 and truth values b1 are read. Python objects are
 * not: they are pickles, and to read a pickle is to run a program.
 */
#include "data/array.h"

#include "base/memory.h"

#include <ctype.h>
#include <string.h>

enum { HEADER_MAX = 4096 }; /* bytes; plain arrays need about 128 */

/* The header's text while it is parsed. */
typedef struct npy_parser {
    const char *name; /* name of the file */
    const char *at;   /* next byte; the text ends with a zero byte */
} npy_parser;

/* Skip the white space of Python's literals. */
static void skip_space(npy_parser *p)
{
    while (*p->at == ' ' || *p->at == '\n' || *p->at == '\t')
        p->at++;
}

/* Skip `c` with white space around it; false if another character follows. */
static bool take(npy_parser *p, char c)
{
    skip_space(p);
    if (*p->at != c)
        return false;
    p->at++;
    skip_space(p);
    return true;
}

/* Fail at the current position. */
static fast_err fail_header(const npy_parser *p)
{
    return fast__fail(FAST_EFORMAT, "%s has a damaged NPY header at \"%.16s\"", p->name, p->at);
}

/* Parse a quoted string of fewer than `size` bytes. */
static fast_err take_string(npy_parser *p, char *out, size_t size)
{
    skip_space(p);
    const char quote = *p->at;
    if (quote != '\'' && quote != '"')
        return fail_header(p);
    const char *start = p->at + 1;
    const char *end = strchr(start, quote);
    if (end == NULL || (size_t)(end - start) >= size)
        return fail_header(p);
    memcpy(out, start, (size_t)(end - start));
    out[end - start] = 0;
    p->at = end + 1;
    return FAST_OK;
}

/* Parse (2, 3), (2,) or (); Python 2 wrote 2L. */
static fast_err take_shape(npy_parser *p, fast_array *npy)
{
    if (!take(p, '('))
        return fail_header(p);
    npy->rank = 0;
    while (!take(p, ')')) {
        int64_t value = 0;
        if (!isdigit((unsigned char)*p->at))
            return fail_header(p);
        for (; isdigit((unsigned char)*p->at); p->at++) {
            if (!fast__mul_size(value, 10, &value) || !fast__add_size(value, *p->at - '0', &value))
                return fast__fail(FAST_EFORMAT, "%s claims a dimension that overflows", p->name);
        }
        take(p, 'L');
        if (npy->rank == FAST_ARRAY_RANK_MAX)
            return fast__fail(FAST_EFORMAT, "%s has more than %d dimensions", p->name,
                              FAST_ARRAY_RANK_MAX);
        npy->shape[npy->rank++] = value;
        if (!take(p, ',') && *p->at != ')')
            return fail_header(p);
    }
    return FAST_OK;
}

/* Parse the element type and refuse those that FAST cannot read. */
static fast_err take_dtype(npy_parser *p, fast_array *npy)
{
    char text[16];
    skip_space(p);
    if (*p->at == '[')
        return fast__fail(FAST_EFORMAT, "%s holds records; save its columns as one plain array",
                          p->name);
    FAST_TRY(take_string(p, text, sizeof text));
    const char order = text[0];
    const bool ordered = order == '<' || order == '|' || order == '=' || order == '>';
    const char *type = text + (ordered ? 1 : 0);
    if (type[0] == 'O')
        return fast__fail(FAST_EFORMAT,
                          "%s holds Python objects, which are programs and not read; "
                          "save numbers, as with x.astype('float32')",
                          p->name);
    static const char *const known[] = {
        "f4", "f8", "u1", "u2", "u4", "i1", "i2", "i4", "i8", "b1"
    };
    bool found = false;
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++)
        found = found || strcmp(type, known[i]) == 0;
    if (!found)
        return fast__fail(FAST_EFORMAT,
                          "%s holds elements of type '%s'; f4, f8, u1, i4 and i8 are "
                          "read",
                          p->name, text);
    npy->kind = type[0];
    npy->width = type[1] - '0';
    if (order == '>' && npy->width > 1)
        return fast__fail(FAST_EFORMAT, "%s is big endian ('%s'); save it with x.astype('<%s')",
                          p->name, text, type);
    return FAST_OK;
}

/* Parse True or False. */
static fast_err take_truth(npy_parser *p, bool *out)
{
    skip_space(p);
    const bool yes = strncmp(p->at, "True", 4) == 0;
    if (!yes && strncmp(p->at, "False", 5) != 0)
        return fail_header(p);
    p->at += yes ? 4 : 5;
    *out = yes;
    return FAST_OK;
}

/* Parse the dictionary. */
static fast_err parse(npy_parser *p, fast_array *npy, bool *fortran)
{
    bool has_shape = false;
    if (!take(p, '{'))
        return fail_header(p);
    while (!take(p, '}')) {
        char key[16];
        FAST_TRY(take_string(p, key, sizeof key));
        if (!take(p, ':'))
            return fail_header(p);
        if (strcmp(key, "descr") == 0) {
            FAST_TRY(take_dtype(p, npy));
        } else if (strcmp(key, "fortran_order") == 0) {
            FAST_TRY(take_truth(p, fortran));
        } else if (strcmp(key, "shape") == 0) {
            FAST_TRY(take_shape(p, npy));
            has_shape = true;
        } else {
            return fast__fail(FAST_EFORMAT, "%s has an NPY header with \"%s\"", p->name, key);
        }
        if (!take(p, ',') && *p->at != '}')
            return fail_header(p);
    }
    if (npy->kind == 0 || !has_shape)
        return fast__fail(FAST_EFORMAT, "%s has an NPY header without %s", p->name,
                          has_shape ? "descr" : "shape");
    return FAST_OK;
}

/* Read magic, version, length and the dictionary of the header; the reader is then at the first
 * element. */
fast_err fast__npy_header(fast_byte_reader *reader, fast_array *out)
{
    uint8_t bytes[8];
    uint8_t length[4] = { 0 };
    char text[HEADER_MAX + 1];
    FAST_TRY(fast__reader_read(reader, bytes, 8));
    if (memcmp(bytes, "\x93NUMPY", 6) != 0)
        return fast__fail(FAST_EFORMAT, "%s is not an NPY file", reader->name);
    if (bytes[6] < 1 || bytes[6] > 3)
        return fast__fail(FAST_EFORMAT, "%s is NPY version %d.%d; 1.0 to 3.0 are read",
                          reader->name, bytes[6], bytes[7]);
    FAST_TRY(fast__reader_read(reader, length, bytes[6] == 1 ? 2 : 4));
    const uint32_t size = (uint32_t)length[0] | (uint32_t)length[1] << 8 |
                          (uint32_t)length[2] << 16 | (uint32_t)length[3] << 24;
    if (size > HEADER_MAX)
        return fast__fail(FAST_EFORMAT,
                          "%s has an NPY header of %u bytes; a plain array's is below "
                          "%d",
                          reader->name, size, HEADER_MAX);
    FAST_TRY(fast__reader_read(reader, text, size));
    text[size] = 0;

    fast_array npy = { 0 };
    bool fortran = false;
    npy_parser p = { .name = reader->name, .at = text };
    FAST_TRY(parse(&p, &npy, &fortran));
    FAST_TRY(fast__array_check(reader, &npy));
    if (fortran && npy.rank > 1)
        return fast__fail(FAST_EFORMAT,
                          "%s is in Fortran order; save it with numpy.ascontiguousarray(x)",
                          reader->name);
    *out = npy;
    return FAST_OK;
}
