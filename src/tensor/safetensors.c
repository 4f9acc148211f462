/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reading safetensors, strictly.
 *
 *     0      u64, little-endian: n, the size of the header
 *     8      {"__metadata__": {"key": "text", ...},
 *             "name": {"dtype": "F32", "shape": [2, 3], "data_offsets": [0, 24]}, ...}
 *     8 + n  the bytes of the tensors; offsets count from here
 *
 * The header is read twice with the same code: once to check its grammar and to measure its
 * contents, once to store them in memory of just that size. A tensor takes at least 48 bytes of
 * header and 112 bytes of memory, so the memory is at most a small multiple of the file. Then the
 * tensors are sorted by offset, which must leave neither holes nor overlaps, and by name, which
 * finds duplicates and serves the look-up. Cost: n log n in the number of tensors.
 */
#include "tensor/safetensors.h"

#include "base/file.h"
#include "base/json.h"
#include "base/memory.h"

#include <stdlib.h>
#include <string.h>

#if __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "safetensors are read and written as they are in memory: little-endian hosts only"
#endif

enum {
    HEADER_SIZE_MAX = 100000000, /* bytes */
    ENTRY_SIZE_MAX = 65536       /* bytes of one tensor's entry, white space included */
};

/* Files are read whole; larger ones than any memory are refused by name. */
static const size_t FILE_SIZE_MAX = (size_t)1 << 40;

typedef struct meta_pair {
    const char *key;   /* in `text` of its file */
    const char *value; /* in `text` of its file */
} meta_pair;

struct fast_tensors {
    unsigned char *file;       /* the whole file where it was read from disk; NULL if borrowed */
    const unsigned char *data; /* where offsets count from */
    int64_t data_size;         /* bytes from there to the end */

    fast_tensor *tensors;       /* sorted by offset */
    int64_t count;              /* number of tensors */
    const fast_tensor **sorted; /* the tensors sorted by name */
    meta_pair *meta;            /* sorted by key */
    int64_t meta_count;         /* number of pairs */
    char *text;                 /* all names, keys and values, each with its NUL */
    int64_t text_size;          /* bytes of text */
    void **replaced;            /* [count]: data that replaced a tensor's, or NULL; NULL: none */
};

/*
 * The header is read member by member: jansson gets one name, one text or one tensor's entry at a
 * time, never a tree of the whole, so memory stays bounded whatever the header holds. While
 * `tensors` is NULL the header is only measured: the counts and text_size grow.
 */
typedef struct header_reader {
    const char *where; /* name of the file, for errors */
    const char *text;  /* the header */
    const char *at;    /* the byte that is read next */
    const char *end;   /* behind the last one */
} header_reader;

static fast_err fail(const header_reader *r, const char *why)
{
    return fast__fail(FAST_EFORMAT, "%s: %s, at byte %lld of the header", r->where, why,
                      (long long)(r->at - r->text));
}

/* Step over white space; true if `c` follows, which is stepped over too. */
static bool skip(header_reader *r, char c)
{
    while (r->at < r->end && (*r->at == ' ' || *r->at == '\t' || *r->at == '\n' || *r->at == '\r'))
        r->at++;
    if (r->at == r->end || *r->at != c)
        return false;
    r->at++;
    return true;
}

static fast_err expect(header_reader *r, char c)
{
    char why[16] = "expected 'c'";

    why[10] = c;
    return skip(r, c) ? FAST_OK : fail(r, why);
}

/* Read the value that starts with `first`, of at most `size_max` bytes. */
static fast_err read_value(header_reader *r, char first, size_t size_max, json_t **out)
{
    size_t size, used;

    FAST_TRY(expect(r, first));
    r->at--;
    size = (size_t)(r->end - r->at);
    FAST_TRY(fast__json_read_first(r->where, r->at, size < size_max ? size : size_max, &used, out));
    r->at += used;
    return FAST_OK;
}

/* Step to the next member of an object whose brace was read; *more_out is false at its end. */
static fast_err next_member(header_reader *r, bool first, bool *more_out)
{
    *more_out = !skip(r, '}');
    return *more_out && !first ? expect(r, ',') : FAST_OK;
}

/* Read a text. *out points into t->text, or is NULL while that is measured; *is_meta_out, which may
 * be NULL, tells the name of the metadata. */
static fast_err read_text(fast_tensors *t, header_reader *r, const char **out, bool *is_meta_out)
{
    char *to = t->text ? t->text + t->text_size : NULL;
    json_t *value;

    FAST_TRY(read_value(r, '"', HEADER_SIZE_MAX, &value));
    const size_t size = json_string_length(value) + 1;
    if (to)
        memcpy(to, json_string_value(value), size);
    if (is_meta_out)
        *is_meta_out = strcmp(json_string_value(value), "__metadata__") == 0;
    json_decref(value);
    t->text_size += (int64_t)size;
    *out = to;
    return FAST_OK;
}

static fast_err read_meta(fast_tensors *t, header_reader *r)
{
    bool more;

    FAST_TRY(expect(r, '{'));
    for (bool first = true;; first = false) {
        meta_pair pair;

        FAST_TRY(next_member(r, first, &more));
        if (!more)
            return FAST_OK;
        FAST_TRY(read_text(t, r, &pair.key, NULL));
        FAST_TRY(expect(r, ':'));
        FAST_TRY(read_text(t, r, &pair.value, NULL));
        if (t->meta)
            t->meta[t->meta_count] = pair;
        t->meta_count++;
    }
}

/* Whole numbers of 0 and above from an array of at most `max`; false if it is anything else. */
static bool read_counts(const json_t *array, int max, int64_t *counts, int *count_out)
{
    const size_t count = json_array_size(array);

    if (!json_is_array(array) || count > (size_t)max)
        return false;
    for (size_t i = 0; i < count; i++) {
        const json_t *value = json_array_get(array, i);

        if (!json_is_integer(value) || json_integer_value(value) < 0)
            return false;
        counts[i] = json_integer_value(value);
    }
    *count_out = (int)count;
    return true;
}

/* Take an entry {"dtype", "shape", "data_offsets"}; returns why it is wrong, or NULL. */
static const char *take_entry(const fast_tensors *t, const json_t *entry, fast_tensor *tensor)
{
    const json_t *dtype = json_object_get(entry, "dtype");
    int64_t offsets[2] = { 0, 0 }, size;
    int offset_count = 0;

    if (json_object_size(entry) != 3)
        return "expected dtype, shape and data_offsets, each once";
    if (!json_is_string(dtype) || !fast__dtype_find(json_string_value(dtype), &tensor->dtype))
        return "this type of element is not known";
    if (!read_counts(json_object_get(entry, "shape"), FAST_TENSOR_RANK_MAX, tensor->shape,
                     &tensor->rank))
        return "expected a shape of at most 8 whole numbers";
    if (!read_counts(json_object_get(entry, "data_offsets"), 2, offsets, &offset_count) ||
        offset_count != 2 || offsets[0] > offsets[1] || offsets[1] > t->data_size)
        return "data_offsets are not inside the file";
    tensor->count = 1;
    for (int i = 0; i < tensor->rank; i++)
        if (!fast__mul_size(tensor->count, tensor->shape[i], &tensor->count))
            return "the shape has too many elements";
    if (!fast__mul_size(tensor->count, (int64_t)fast__dtype_size(tensor->dtype), &size) ||
        size != offsets[1] - offsets[0])
        return "shape and data_offsets disagree about the size";
    tensor->data = t->data + offsets[0];
    return NULL;
}

static fast_err read_tensor(const fast_tensors *t, header_reader *r, fast_tensor *tensor)
{
    json_t *entry;

    FAST_TRY(read_value(r, '{', ENTRY_SIZE_MAX, &entry));
    const char *why = take_entry(t, entry, tensor);
    json_decref(entry);
    return why ? fail(r, why) : FAST_OK;
}

static fast_err read_header(fast_tensors *t, header_reader r)
{
    bool more, seen_meta = false;

    t->count = t->meta_count = t->text_size = 0;
    if (r.at == r.end || *r.at != '{')
        return fail(&r, "the header does not begin with '{'");
    r.at++;
    for (bool first = true;; first = false) {
        fast_tensor tensor = { 0 };
        bool is_meta;

        FAST_TRY(next_member(&r, first, &more));
        if (!more)
            break;
        FAST_TRY(read_text(t, &r, &tensor.name, &is_meta));
        FAST_TRY(expect(&r, ':'));
        if (is_meta) {
            if (seen_meta)
                return fail(&r, "a second __metadata__");
            seen_meta = true;
            FAST_TRY(read_meta(t, &r));
            continue;
        }
        FAST_TRY(read_tensor(t, &r, &tensor));
        if (t->tensors)
            t->tensors[t->count] = tensor;
        t->count++;
    }
    for (; r.at < r.end; r.at++)
        if (*r.at != ' ')
            return fail(&r, "only spaces may follow the header");
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

static fast_err store_header(fast_tensors *t, const header_reader *r)
{
    FAST_TRY(fast__alloc("tensor names", t->text_size, 1, &t->text));
    FAST_TRY(fast__alloc("tensors", t->count, sizeof *t->tensors, &t->tensors));
    FAST_TRY(fast__alloc("tensor index", t->count, sizeof *t->sorted, &t->sorted));
    FAST_TRY(fast__alloc("tensor metadata", t->meta_count, sizeof *t->meta, &t->meta));
    FAST_TRY(read_header(t, *r));
    return check_order(t, r->where);
}

static fast_err tensors_new(const char *where, const unsigned char *bytes, size_t size,
                            fast_tensors **out)
{
    uint64_t header_size;
    if (size < sizeof header_size)
        return fast__fail(FAST_EFORMAT, "%s: %zu bytes are too few for a header", where, size);
    memcpy(&header_size, bytes, sizeof header_size);
    if (header_size > HEADER_SIZE_MAX)
        return fast__fail(FAST_EFORMAT,
                          "%s is no safetensors file: a header of %llu bytes; at most %d are read",
                          where, (unsigned long long)header_size, HEADER_SIZE_MAX);
    if (header_size > size - sizeof header_size)
        return fast__fail(FAST_EFORMAT, "%s: a header of %llu bytes in a file of %zu", where,
                          (unsigned long long)header_size, size);

    fast_tensors *t;
    FAST_TRY(fast__alloc("tensors", 1, sizeof *t, &t));
    const char *text = (const char *)bytes + sizeof header_size;
    const header_reader reader = { where, text, text, text + header_size };
    t->data = bytes + sizeof header_size + header_size;
    t->data_size = (int64_t)(size - sizeof header_size - header_size);
    fast_err err = read_header(t, reader);
    if (!err)
        err = store_header(t, &reader);
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
    for (int64_t i = 0; tensors->replaced && i < tensors->count; i++)
        fast__free(tensors->replaced[i]);
    fast__free(tensors->replaced);
    fast__free(tensors->tensors);
    fast__free(tensors->sorted);
    fast__free(tensors->meta);
    fast__free(tensors->text);
    fast__free(tensors->file);
    fast__free(tensors);
}

fast_err fast__tensors_replace(fast_tensors *tensors, int64_t i, const fast_tensor *with)
{
    FAST_ASSERT(i >= 0 && i < tensors->count && with->data);
    if (!tensors->replaced)
        FAST_TRY(fast__alloc("replaced tensors", tensors->count, sizeof *tensors->replaced,
                             &tensors->replaced));
    const char *name = tensors->tensors[i].name;
    fast__free(tensors->replaced[i]);
    tensors->tensors[i] = *with;
    tensors->tensors[i].name = name;
    tensors->replaced[i] = (void *)(uintptr_t)with->data;
    return FAST_OK;
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
