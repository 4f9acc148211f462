/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reading safetensors, strictly.
 *
 *     0      u64, little-endian: n, the size of the header
 *     8      {"__metadata__": {"key": "text", ...},
 *             "name": {"dtype": "F32", "shape": [2, 3], "data_offsets": [0, 24]}, ...}
 *     8 + n  the bytes of the tensors; offsets count from here
 *
 * The header is gone over twice with the same code: once to check its grammar and to measure what
 * it holds, once to store it in memory of just that size. A tensor takes at least 48 bytes of
 * header and 112 bytes of memory, so the memory is at most a small multiple of the file. Then they
 * are sorted by offset, which must leave neither holes nor overlaps, and by name, which finds
 * duplicates and serves the look-up. Cost: n log n in the number of tensors.
 */
#include "tensor/safetensors.h"

#include "base/file.h"
#include "base/memory.h"
#include "tensor/json.h"

#include <stdlib.h>
#include <string.h>

#if __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "safetensors are read and written as they are in memory: little-endian hosts only"
#endif

enum { HEADER_SIZE_MAX = 100000000 };

/* Files are read whole; larger ones than any memory are refused by name. */
static const size_t FILE_SIZE_MAX = (size_t)1 << 40;

typedef struct meta_pair {
    const char *key;   /* in `text` of its file */
    const char *value; /* of that key */
} meta_pair;

struct fast_tensors {
    unsigned char *file;       /* the whole file where it was read from disk; NULL if borrowed */
    const unsigned char *data; /* where offsets count from */
    int64_t data_size;         /* bytes from there to the end */

    fast_tensor *tensors;       /* sorted by offset */
    int64_t count;              /* of them */
    const fast_tensor **sorted; /* the same, sorted by name */
    meta_pair *meta;            /* sorted by key */
    int64_t meta_count;         /* of them */
    char *text;                 /* all names, keys and values, each with its NUL */
    int64_t text_size;          /* of it */
};

/* The header. While `tensors` is NULL it is only measured: the counts and text_size grow. */

static fast_err read_text(fast_tensors *t, fast_json *json, const char **out)
{
    char *to = t->text ? t->text + t->text_size : NULL;
    size_t size;
    FAST_TRY(fast__json_string(json, to, &size));
    t->text_size += (int64_t)size;
    *out = to;
    return FAST_OK;
}

static fast_err read_meta(fast_tensors *t, fast_json *json)
{
    bool more;
    FAST_TRY(fast__json_expect(json, '{'));
    for (bool first = true;; first = false) {
        FAST_TRY(fast__json_next(json, '}', first, &more));
        if (!more)
            return FAST_OK;
        meta_pair pair;
        FAST_TRY(read_text(t, json, &pair.key));
        FAST_TRY(fast__json_expect(json, ':'));
        FAST_TRY(read_text(t, json, &pair.value));
        if (t->meta)
            t->meta[t->meta_count] = pair;
        t->meta_count++;
    }
}

/* A string of a tensor's own entry: a word of the format, so a short one. */
static fast_err read_word(fast_json *json, char word[16])
{
    fast_json start = *json;
    size_t size;
    FAST_TRY(fast__json_string(json, NULL, &size));
    if (size > 16)
        return fast__json_fail(&start, "expected dtype, shape or data_offsets, or a type");
    return fast__json_string(&start, word, &size);
}

static fast_err read_shape(fast_json *json, fast_tensor *tensor)
{
    bool more;
    tensor->count = 1;
    FAST_TRY(fast__json_expect(json, '['));
    for (bool first = true;; first = false) {
        FAST_TRY(fast__json_next(json, ']', first, &more));
        if (!more)
            return FAST_OK;
        if (tensor->rank == FAST_TENSOR_RANK_MAX)
            return fast__json_fail(json, "more than 8 dimensions");
        int64_t *length = &tensor->shape[tensor->rank++];
        FAST_TRY(fast__json_count(json, length));
        if (!fast__mul_size(tensor->count, *length, &tensor->count))
            return fast__json_fail(json, "the shape has too many elements");
    }
}

static fast_err read_offsets(const fast_tensors *t, fast_json *json, int64_t *begin_out,
                             int64_t *end_out)
{
    int64_t begin, end;
    FAST_TRY(fast__json_expect(json, '['));
    FAST_TRY(fast__json_count(json, &begin));
    FAST_TRY(fast__json_expect(json, ','));
    FAST_TRY(fast__json_count(json, &end));
    FAST_TRY(fast__json_expect(json, ']'));
    if (begin > end || end > t->data_size)
        return fast__json_fail(json, "data_offsets are not inside the file");
    *begin_out = begin;
    *end_out = end;
    return FAST_OK;
}

/* {"dtype", "shape", "data_offsets"}, in any order, each once, and nothing else. */
static fast_err read_tensor(const fast_tensors *t, fast_json *json, fast_tensor *tensor)
{
    bool has_dtype = false, has_shape = false, has_offsets = false, more;
    int64_t begin = 0, end = 0, size;
    char word[16];
    FAST_TRY(fast__json_expect(json, '{'));
    for (bool first = true;; first = false) {
        FAST_TRY(fast__json_next(json, '}', first, &more));
        if (!more)
            break;
        FAST_TRY(read_word(json, word));
        FAST_TRY(fast__json_expect(json, ':'));
        if (strcmp(word, "dtype") == 0 && !has_dtype) {
            FAST_TRY(read_word(json, word));
            if (!fast__dtype_find(word, &tensor->dtype))
                return fast__json_fail(json, "this type of element is not known");
            has_dtype = true;
        } else if (strcmp(word, "shape") == 0 && !has_shape) {
            FAST_TRY(read_shape(json, tensor));
            has_shape = true;
        } else if (strcmp(word, "data_offsets") == 0 && !has_offsets) {
            FAST_TRY(read_offsets(t, json, &begin, &end));
            has_offsets = true;
        } else {
            return fast__json_fail(json, "expected dtype, shape and data_offsets, each once");
        }
    }
    if (!has_dtype || !has_shape || !has_offsets)
        return fast__json_fail(json, "a tensor needs dtype, shape and data_offsets");
    if (!fast__mul_size(tensor->count, (int64_t)fast__dtype_size(tensor->dtype), &size) ||
        size != end - begin)
        return fast__json_fail(json, "shape and data_offsets disagree about the size");
    tensor->data = t->data + begin;
    return FAST_OK;
}

/* The name of an entry; *is_meta_out tells the metadata from a tensor. */
static fast_err read_name(fast_tensors *t, fast_json *json, const char **name_out,
                          bool *is_meta_out)
{
    fast_json start = *json;
    const int64_t before = t->text_size;
    FAST_TRY(read_text(t, json, name_out));

    /* While measuring there is no text to look at, and escapes can spell any letter. */
    char name[sizeof "__metadata__"];
    size_t size = (size_t)(t->text_size - before);
    *is_meta_out = false;
    if (size == sizeof name) {
        FAST_TRY(fast__json_string(&start, name, &size));
        *is_meta_out = strcmp(name, "__metadata__") == 0;
    }
    return FAST_OK;
}

static fast_err read_header(fast_tensors *t, fast_json json)
{
    bool more, seen_meta = false;
    t->count = t->meta_count = t->text_size = 0;
    if (json.at == json.end || *json.at != '{')
        return fast__json_fail(&json, "the header does not begin with '{'");
    json.at++;
    for (bool first = true;; first = false) {
        FAST_TRY(fast__json_next(&json, '}', first, &more));
        if (!more)
            break;
        fast_tensor tensor = { 0 };
        bool is_meta;
        FAST_TRY(read_name(t, &json, &tensor.name, &is_meta));
        FAST_TRY(fast__json_expect(&json, ':'));
        if (is_meta) {
            if (seen_meta)
                return fast__json_fail(&json, "a second __metadata__");
            seen_meta = true;
            FAST_TRY(read_meta(t, &json));
            continue;
        }
        FAST_TRY(read_tensor(t, &json, &tensor));
        if (t->tensors)
            t->tensors[t->count] = tensor;
        t->count++;
    }
    for (; json.at < json.end; json.at++) {
        if (*json.at != ' ')
            return fast__json_fail(&json, "only spaces may follow the header");
    }
    return FAST_OK;
}

/* Order, holes, duplicates. */

size_t fast__tensor_size(const fast_tensor *tensor)
{
    return (size_t)tensor->count * fast__dtype_size(tensor->dtype);
}

/* Order by offset, empty tensors first at equal offsets, then by name. */
static int compare_offsets(const void *a, const void *b)
{
    const fast_tensor *x = a, *y = b;
    if (x->data != y->data)
        return (const char *)x->data < (const char *)y->data ? -1 : 1;
    const size_t x_size = fast__tensor_size(x), y_size = fast__tensor_size(y);
    if (x_size != y_size)
        return x_size < y_size ? -1 : 1;
    return strcmp(x->name, y->name);
}

static int compare_names(const void *a, const void *b)
{
    return strcmp((*(const fast_tensor *const *)a)->name, (*(const fast_tensor *const *)b)->name);
}

static int compare_meta(const void *a, const void *b)
{
    return strcmp(((const meta_pair *)a)->key, ((const meta_pair *)b)->key);
}

static fast_err check_order(fast_tensors *t, const char *where)
{
    qsort(t->tensors, (size_t)t->count, sizeof *t->tensors, compare_offsets);
    const unsigned char *next = t->data;
    for (int64_t i = 0; i < t->count; i++) {
        const fast_tensor *tensor = &t->tensors[i];
        if (tensor->data != next)
            return fast__fail(FAST_EFORMAT, "%s: %s before tensor \"%s\"", where,
                              (const unsigned char *)tensor->data > next ? "a hole" : "an overlap",
                              tensor->name);
        next += fast__tensor_size(tensor);
        t->sorted[i] = tensor;
    }
    if (next != t->data + t->data_size)
        return fast__fail(FAST_EFORMAT, "%s: %lld bytes follow the last tensor", where,
                          (long long)(t->data + t->data_size - next));

    qsort(t->sorted, (size_t)t->count, sizeof *t->sorted, compare_names);
    for (int64_t i = 1; i < t->count; i++) {
        if (strcmp(t->sorted[i - 1]->name, t->sorted[i]->name) == 0)
            return fast__fail(FAST_EFORMAT, "%s: two tensors are named \"%s\"", where,
                              t->sorted[i]->name);
    }
    qsort(t->meta, (size_t)t->meta_count, sizeof *t->meta, compare_meta);
    for (int64_t i = 1; i < t->meta_count; i++) {
        if (strcmp(t->meta[i - 1].key, t->meta[i].key) == 0)
            return fast__fail(FAST_EFORMAT, "%s: two metadata keys are \"%s\"", where,
                              t->meta[i].key);
    }
    return FAST_OK;
}

static fast_err store_header(fast_tensors *t, const fast_json *json)
{
    FAST_TRY(fast__alloc("tensor names", t->text_size, 1, &t->text));
    FAST_TRY(fast__alloc("tensors", t->count, sizeof *t->tensors, &t->tensors));
    FAST_TRY(fast__alloc("tensor index", t->count, sizeof *t->sorted, &t->sorted));
    FAST_TRY(fast__alloc("tensor metadata", t->meta_count, sizeof *t->meta, &t->meta));
    FAST_TRY(read_header(t, *json));
    return check_order(t, json->where);
}

static fast_err tensors_new(const char *where, const unsigned char *bytes, size_t size,
                            fast_tensors **out)
{
    uint64_t header_size;
    if (size < sizeof header_size)
        return fast__fail(FAST_EFORMAT, "%s: %zu bytes are too few for a header", where, size);
    memcpy(&header_size, bytes, sizeof header_size);
    if (header_size > HEADER_SIZE_MAX)
        return fast__fail(FAST_EFORMAT, "%s: a header of %llu bytes; at most %d are read", where,
                          (unsigned long long)header_size, HEADER_SIZE_MAX);
    if (header_size > size - sizeof header_size)
        return fast__fail(FAST_EFORMAT, "%s: a header of %llu bytes in a file of %zu", where,
                          (unsigned long long)header_size, size);

    fast_tensors *t;
    FAST_TRY(fast__alloc("tensors", 1, sizeof *t, &t));
    const char *text = (const char *)bytes + sizeof header_size;
    const fast_json json = { where, text, text, text + header_size };
    t->data = bytes + sizeof header_size + header_size;
    t->data_size = (int64_t)(size - sizeof header_size - header_size);
    fast_err err = read_header(t, json);
    if (!err)
        err = store_header(t, &json);
    if (err) {
        fast__tensors_close(t);
        return err;
    }
    *out = t;
    return FAST_OK;
}

fast_err fast__tensors_parse(const void *bytes, size_t size, fast_tensors **out)
{
    FAST_ASSERT(bytes != NULL || size == 0);
    FAST_ASSERT(out != NULL);
    return tensors_new("safetensors", bytes, size, out);
}

fast_err fast__tensors_open(const char *path, fast_tensors **out)
{
    FAST_ASSERT(path != NULL);
    FAST_ASSERT(out != NULL);
    unsigned char *file;
    size_t size;
    FAST_TRY(fast__file_read(path, FILE_SIZE_MAX, &file, &size));
    fast_tensors *t;
    const fast_err err = tensors_new(path, file, size, &t);
    if (err) {
        fast__free(file);
        return err;
    }
    t->file = file;
    *out = t;
    return FAST_OK;
}

void fast__tensors_close(fast_tensors *tensors)
{
    if (!tensors)
        return;
    fast__free(tensors->tensors);
    fast__free(tensors->sorted);
    fast__free(tensors->meta);
    fast__free(tensors->text);
    fast__free(tensors->file);
    fast__free(tensors);
}

int64_t fast__tensors_count(const fast_tensors *tensors)
{
    return tensors->count;
}

const fast_tensor *fast__tensors_at(const fast_tensors *tensors, int64_t i)
{
    FAST_ASSERT(i >= 0);
    FAST_ASSERT(i < tensors->count);
    return &tensors->tensors[i];
}

const fast_tensor *fast__tensors_find(const fast_tensors *tensors, const char *name)
{
    const fast_tensor wanted = { .name = name }, *key = &wanted;
    const fast_tensor **found = bsearch(&key, tensors->sorted, (size_t)tensors->count,
                                        sizeof *tensors->sorted, compare_names);
    return found ? *found : NULL;
}

const char *fast__tensors_meta(const fast_tensors *tensors, const char *key)
{
    const meta_pair wanted = { .key = key };
    const meta_pair *found = bsearch(&wanted, tensors->meta, (size_t)tensors->meta_count,
                                     sizeof *tensors->meta, compare_meta);
    return found ? found->value : NULL;
}
