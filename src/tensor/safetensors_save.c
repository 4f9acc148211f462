/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writing safetensors (safetensors.c has the format), whole or not at all.
 *
 * Spaces pad the header to a multiple of 8, so that tensors of one element type are aligned for a
 * program that maps the file. The same tensors give the same bytes. Cost: one pass over the data.
 */
#include "base/file.h"
#include "base/json.h"
#include "base/memory.h"
#include "tensor/device.h"
#include "tensor/safetensors.h"

#include <string.h>

/* A file to be written. */
typedef struct tensors_writer {
    const fast_tensor *tensors; /* in the order of the file */
    int64_t count;              /* number of tensors */
    char *header;               /* padded with spaces */
    uint64_t header_size;       /* bytes of the header, a multiple of 8 */
} tensors_writer;

/* FAST_EINVAL if a name or a value is not UTF-8: a replaced one would be another name. */
static fast_err check_text(const char *text)
{
    if (fast_text_utf8(text, NULL, 0) != strlen(text))
        return fast__fail(FAST_EINVAL, "\"%.64s\" is not UTF-8; it cannot be saved", text);
    return FAST_OK;
}

static json_t *entry_of(const fast_tensor *tensor, int64_t begin, int64_t size)
{
    json_t *entry = json_object(), *shape = json_array(), *offsets = json_array();

    for (int i = 0; i < tensor->rank; i++)
        fast__json_append(&shape, json_integer(tensor->shape[i]));
    fast__json_append(&offsets, json_integer(begin));
    fast__json_append(&offsets, json_integer(begin + size));
    fast__json_set(&entry, "dtype", json_string(fast__dtype_name(tensor->dtype)));
    fast__json_set(&entry, "shape", shape);
    fast__json_set(&entry, "data_offsets", offsets);
    return entry;
}

static fast_err make_tree(const tensors_writer *w, const char *const *meta, json_t **tree)
{
    json_t *pairs = json_object();
    fast_err err = FAST_OK;
    int64_t begin = 0;

    for (const char *const *pair = meta; !err && pair && *pair; pair += 2) {
        FAST_ASSERT(pair[1] != NULL);
        err = check_text(pair[0]);
        if (!err)
            err = check_text(pair[1]);
        if (!err)
            fast__json_set(&pairs, pair[0], json_string(pair[1]));
    }
    if (meta && meta[0])
        fast__json_set(tree, "__metadata__", pairs);
    else
        json_decref(pairs);
    for (int64_t i = 0; !err && i < w->count; i++) {
        const int64_t size = (int64_t)fast__tensor_size(&w->tensors[i]);

        err = check_text(w->tensors[i].name);
        if (!err)
            fast__json_set(tree, w->tensors[i].name, entry_of(&w->tensors[i], begin, size));
        begin += size;
    }
    return err;
}

static fast_err make_header(tensors_writer *w, const char *const *meta)
{
    json_t *tree = json_object();
    fast_err err = make_tree(w, meta, &tree);

    if (!err) {
        const size_t size = tree ? json_dumpb(tree, NULL, 0, JSON_COMPACT) : 0;

        w->header_size = (size + 7) / 8 * 8;
        err = size > 0 ? fast__alloc("header", (int64_t)w->header_size, 1, &w->header)
                       : fast__fail(FAST_ENOMEM, "no memory for a header of safetensors");
        if (!err) {
            memset(w->header, ' ', w->header_size);
            json_dumpb(tree, w->header, size, JSON_COMPACT);
        }
    }
    json_decref(tree);
    return err;
}

static fast_err write_file(void *ctx, void *stream)
{
    const tensors_writer *w = ctx;

    FAST_TRY(fast__file_put(stream, &w->header_size, sizeof w->header_size));
    FAST_TRY(fast__file_put(stream, w->header, w->header_size));
    for (int64_t i = 0; i < w->count; i++) {
        const fast_tensor *t = &w->tensors[i];
        const fast_err err = fast__file_put(stream, fast__map(t->data, t->count, FAST_ACCESS_READ),
                                            fast__tensor_size(t));

        fast__unmap(t->data, t->count, FAST_ACCESS_READ);
        FAST_TRY(err);
    }
    return FAST_OK;
}

/* Refuse a tensor that a reader would refuse; add its bytes to *total. */
static fast_err check_tensor(const fast_tensor *tensor, int64_t *total)
{
    FAST_ASSERT(tensor->name != NULL);
    FAST_ASSERT(tensor->data != NULL || tensor->count == 0);
    int64_t count = 1, size;
    bool fits = tensor->rank >= 0 && tensor->rank <= FAST_TENSOR_RANK_MAX;
    for (int i = 0; fits && i < tensor->rank; i++)
        fits = fast__mul_size(count, tensor->shape[i], &count);
    if (!fits || count != tensor->count || strcmp(tensor->name, "__metadata__") == 0 ||
        !fast__mul_size(count, (int64_t)fast__dtype_size(tensor->dtype), &size) ||
        !fast__add_size(*total, size, total))
        return fast__fail(FAST_EINVAL, "tensor \"%s\": its shape, count or name cannot be saved",
                          tensor->name);
    return FAST_OK;
}

fast_err fast__tensors_save(const char *path, const fast_tensor *tensors, int64_t count,
                            const char *const *meta)
{
    FAST_ASSERT(path != NULL);
    FAST_ASSERT(count >= 0);
    int64_t total = 0;
    for (int64_t i = 0; i < count; i++) {
        FAST_TRY(check_tensor(&tensors[i], &total));
        for (int64_t j = 0; j < i; j++) {
            if (strcmp(tensors[i].name, tensors[j].name) == 0)
                return fast__fail(FAST_EINVAL, "two tensors are named \"%s\"", tensors[i].name);
        }
    }
    tensors_writer writer = { tensors, count, NULL, 0 };
    fast_err err = make_header(&writer, meta);
    if (!err)
        err = fast__file_replace(path, write_file, &writer);
    fast__free(writer.header);
    return err;
}
