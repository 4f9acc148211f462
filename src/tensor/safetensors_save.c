/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writing safetensors (safetensors.c has the format), whole or not at all.
 *
 * The header is made twice with the same code: once to learn its size, which stands before it, once
 * into the file. Spaces pad it to a multiple of 8, so that tensors of one element type are aligned
 * for whoever maps the file. The same tensors give the same bytes. Cost: one pass over the data.
 */
#include "base/file.h"
#include "base/memory.h"
#include "tensor/json.h"
#include "tensor/safetensors.h"

#include <stdio.h>
#include <string.h>

/* The file being written, and its position. */
typedef struct tensors_writer {
    const fast_tensor *tensors; /* in the order of the file */
    int64_t count;              /* of them */
    const char *const *meta;    /* key, value, ..., NULL; or NULL */
    void *stream;               /* NULL: measure only */
    uint64_t size;              /* bytes of header so far */
} tensors_writer;

static fast_err put(tensors_writer *w, const char *bytes, size_t size)
{
    w->size += size;
    return w->stream ? fast__file_put(w->stream, bytes, size) : FAST_OK;
}

static fast_err put_text(tensors_writer *w, const char *text)
{
    return put(w, text, strlen(text));
}

static fast_err put_count(tensors_writer *w, int64_t count)
{
    char text[24];
    snprintf(text, sizeof text, "%lld", (long long)count);
    return put_text(w, text);
}

static fast_err put_string(tensors_writer *w, const char *text)
{
    FAST_TRY(put(w, "\"", 1));
    for (const char *c = text; *c;) {
        const int length = fast__utf8_length(c, strlen(c));
        if (length == 0)
            return fast__fail(FAST_EINVAL, "\"%.64s\" is not UTF-8; it cannot be saved", text);
        if (*c == '"' || *c == '\\') {
            const char escape[2] = { '\\', *c };
            FAST_TRY(put(w, escape, 2));
        } else if ((unsigned char)*c < ' ') {
            char escape[8];
            snprintf(escape, sizeof escape, "\\u%04x", (unsigned)*c);
            FAST_TRY(put_text(w, escape));
        } else {
            FAST_TRY(put(w, c, (size_t)length));
        }
        c += length;
    }
    return put(w, "\"", 1);
}

static fast_err put_tensor(tensors_writer *w, const fast_tensor *tensor, int64_t begin,
                           int64_t size)
{
    FAST_TRY(put_string(w, tensor->name));
    FAST_TRY(put_text(w, ":{\"dtype\":\""));
    FAST_TRY(put_text(w, fast__dtype_name(tensor->dtype)));
    FAST_TRY(put_text(w, "\",\"shape\":["));
    for (int i = 0; i < tensor->rank; i++) {
        FAST_TRY(put_text(w, i ? "," : ""));
        FAST_TRY(put_count(w, tensor->shape[i]));
    }
    FAST_TRY(put_text(w, "],\"data_offsets\":["));
    FAST_TRY(put_count(w, begin));
    FAST_TRY(put_text(w, ","));
    FAST_TRY(put_count(w, begin + size));
    return put_text(w, "]}");
}

static fast_err put_meta(tensors_writer *w)
{
    FAST_TRY(put_text(w, "\"__metadata__\":{"));
    for (const char *const *pair = w->meta; *pair; pair += 2) {
        FAST_ASSERT(pair[1] != NULL);
        FAST_TRY(put_text(w, pair == w->meta ? "" : ","));
        FAST_TRY(put_string(w, pair[0]));
        FAST_TRY(put_text(w, ":"));
        FAST_TRY(put_string(w, pair[1]));
    }
    return put_text(w, "}");
}

static fast_err put_header(tensors_writer *w)
{
    const bool has_meta = w->meta && w->meta[0];
    w->size = 0;
    FAST_TRY(put_text(w, "{"));
    if (has_meta)
        FAST_TRY(put_meta(w));
    int64_t begin = 0;
    for (int64_t i = 0; i < w->count; i++) {
        const int64_t size = (int64_t)fast__tensor_size(&w->tensors[i]);
        FAST_TRY(put_text(w, i || has_meta ? "," : ""));
        FAST_TRY(put_tensor(w, &w->tensors[i], begin, size));
        begin += size;
    }
    FAST_TRY(put_text(w, "}"));
    while (w->size % 8 != 0)
        FAST_TRY(put_text(w, " "));
    return FAST_OK;
}

static fast_err write_file(void *ctx, void *stream)
{
    tensors_writer *w = ctx;
    const uint64_t header_size = w->size;
    FAST_TRY(fast__file_put(stream, &header_size, sizeof header_size));
    w->stream = stream;
    FAST_TRY(put_header(w));
    FAST_ASSERT(w->size == header_size);
    for (int64_t i = 0; i < w->count; i++)
        FAST_TRY(fast__file_put(stream, w->tensors[i].data, fast__tensor_size(&w->tensors[i])));
    return FAST_OK;
}

/* Refuse tensors that a reader would refuse. */
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
    tensors_writer writer = { tensors, count, meta, NULL, 0 };
    FAST_TRY(put_header(&writer));
    return fast__file_replace(path, write_file, &writer);
}
