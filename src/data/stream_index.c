/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The index of shards, as JSON:
 *
 *   {"format": "fast-shards", "version": 1, "dtype": "u8", "shape": [1, 28, 28], "classes": 10,
 *    "outputs": 10, "positions": 1, "tokens": false, "vocabulary": 0, "channels": 1,
 *    "mean": [0], "scale": [0.0039215688], "class_names": [...], "alphabet": [97, 98],
 *    "recipe": "...", "target_mean": 387836.3, "target_scale": 6.75e-6,
 *    "rows": 10699, "compression": "none",
 *    "train": {"count": 12000, "answers": [48000, "3f..."], "shards": [[8388016, "9a..."], ...]},
 *    "test": {...}}
 *
 * target_mean and target_scale are of a regression whose targets were standardised, else left out.
 * A file is [bytes, checksum]. An index comes from elsewhere: every number is checked before it is
 * used.
 */
#include "data/stream_index.h"

#include "base/file.h"
#include "base/json.h"
#include "base/memory.h"
#include "data/make.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

enum { VERSION = 1, INDEX_PATH_MAX = FAST_PATH_MAX + 16, VALUES_MAX = 1 << 28 };

static const char *const part_names[2] = { "train", "test" };

void fast__stream_name(int part, int64_t shard, char name[FAST_STREAM_NAME_MAX])
{
    FAST_ASSERT(part == 0 || part == 1);
    if (shard < 0)
        snprintf(name, FAST_STREAM_NAME_MAX, "%s.answers", part_names[part]);
    else
        snprintf(name, FAST_STREAM_NAME_MAX, "%s-%06" PRId64 ".shard", part_names[part], shard);
}

int64_t fast__stream_rows(const fast_stream_index *index, int part, int64_t shard)
{
    const fast_stream_part *p = &index->part[part];
    FAST_ASSERT(shard >= 0 && shard < p->shards);
    return shard < p->shards - 1 ? index->rows : p->count - shard * index->rows;
}

void fast__stream_index_fini(fast_stream_index *index)
{
    fast__free(index->form.mean);
    fast__free(index->form.scale);
    fast__free(index->form.alphabet);
    fast__free(index->form.class_names);
    fast__free(index->form.recipe);
    fast__free(index->form.summary);
    for (int i = 0; i < 2; i++)
        fast__free(index->part[i].files);
    *index = (fast_stream_index){ .rows = 0 };
}

/* Read. */

/* Refuse the index. */
static fast_err bad(const char *path, const char *key)
{
    return fast__fail(FAST_EFORMAT, "%s: \"%s\" is missing or wrong: write the shards again", path,
                      key);
}

/* Read a whole number from `min` to `max`. */
static fast_err get_int(const char *path, const json_t *object, const char *key, int64_t min,
                        int64_t max, int64_t *out)
{
    const json_t *value = json_object_get(object, key);
    if (!json_is_integer(value) || json_integer_value(value) < min ||
        json_integer_value(value) > max)
        return bad(path, key);
    *out = (int64_t)json_integer_value(value);
    return FAST_OK;
}

/* Read `count` finite numbers as floats. */
static fast_err get_floats(const char *path, const json_t *object, const char *key, int64_t count,
                           float **out)
{
    const json_t *list = json_object_get(object, key);
    if (!json_is_array(list) || (int64_t)json_array_size(list) != count)
        return bad(path, key);
    FAST_TRY(fast__alloc("constants of normalisation", count, sizeof **out, out));
    for (int64_t i = 0; i < count; i++) {
        const json_t *value = json_array_get(list, (size_t)i);
        (*out)[i] = (float)json_number_value(value);
        if (!json_is_number(value) || !isfinite((*out)[i]))
            return bad(path, key);
    }
    return FAST_OK;
}

/* Read [bytes, checksum]. */
static fast_err get_file(const char *path, const json_t *value, const char *key,
                         fast_stream_file *out)
{
    const json_t *size = json_array_get(value, 0);
    const char *hash = json_string_value(json_array_get(value, 1));
    int used = 0;
    if (json_array_size(value) != 2 || !json_is_integer(size) || json_integer_value(size) < 1 ||
        hash == NULL || sscanf(hash, "%16" SCNx64 "%n", &out->hash, &used) != 1 || hash[used] != 0)
        return bad(path, key);
    out->size = (int64_t)json_integer_value(size);
    return FAST_OK;
}

/* Read one part, which is missing if there is no such set. The number of shards follows from the
 * number of samples, so that a list of another length is an error; plain files have exactly the
 * bytes of their samples, and zstd never makes them much larger. */
static fast_err get_part(const char *path, const json_t *root, int number, fast_stream_index *index)
{
    const char *name = part_names[number];
    const json_t *object = json_object_get(root, name);
    fast_stream_part *part = &index->part[number];
    if (object == NULL && number > 0)
        return FAST_OK;
    FAST_TRY(get_int(path, object, "count", 1, UINT32_MAX, &part->count));
    FAST_TRY(get_file(path, json_object_get(object, "answers"), "answers", &part->answers));
    const fast_data *form = &index->form;
    int64_t answers;
    if (!fast__mul_size(part->count, 4 * (form->classes > 0 ? form->positions : form->outputs),
                        &answers) ||
        answers != part->answers.size)
        return bad(path, "answers");
    const json_t *list = json_object_get(object, "shards");
    const int64_t shards = (part->count + index->rows - 1) / index->rows;
    if (!json_is_array(list) || (int64_t)json_array_size(list) != shards)
        return bad(path, "shards");
    FAST_TRY(fast__alloc("an index of shards", shards, sizeof *part->files, &part->files));
    part->shards = shards;
    for (int64_t i = 0; i < shards; i++) {
        FAST_TRY(get_file(path, json_array_get(list, (size_t)i), "shards", &part->files[i]));
        const int64_t plain =
            fast__stream_rows(index, number, i) * (int64_t)fast__data_row_size(form);
        if (index->compressed ? part->files[i].size > plain + plain / 128 + 1024
                              : part->files[i].size != plain)
            return bad(path, "shards");
    }
    return FAST_OK;
}

/* Read a list of texts as class names. */
static fast_err get_names(const char *path, const json_t *list, fast_data *form)
{
    int64_t size = 0;
    if (list == NULL)
        return FAST_OK;
    if (!json_is_array(list) || (int64_t)json_array_size(list) != form->classes)
        return bad(path, "class_names");
    for (size_t i = 0; i < json_array_size(list); i++) {
        if (!json_is_string(json_array_get(list, i)))
            return bad(path, "class_names");
        size += (int64_t)json_string_length(json_array_get(list, i)) + 1;
    }
    FAST_TRY(fast__alloc("class names", size, 1, &form->class_names));
    char *at = form->class_names;
    for (size_t i = 0; i < json_array_size(list); i++) {
        const size_t length = json_string_length(json_array_get(list, i));
        memcpy(at, json_string_value(json_array_get(list, i)), length + 1);
        at += length + 1;
    }
    return FAST_OK;
}

/* Read the texts of a set. */
static fast_err get_texts(const char *path, const json_t *root, fast_data *form)
{
    const json_t *alphabet = json_object_get(root, "alphabet");
    const char *recipe = json_string_value(json_object_get(root, "recipe"));
    FAST_TRY(get_names(path, json_object_get(root, "class_names"), form));
    if (recipe != NULL) {
        FAST_TRY(fast__alloc("a recipe", (int64_t)strlen(recipe) + 1, 1, &form->recipe));
        memcpy(form->recipe, recipe, strlen(recipe) + 1);
    }
    if (alphabet == NULL)
        return FAST_OK;
    if (!json_is_array(alphabet) || (int64_t)json_array_size(alphabet) != form->vocabulary)
        return bad(path, "alphabet");
    FAST_TRY(fast__alloc("an alphabet", form->vocabulary + 1, 1, &form->alphabet));
    for (int64_t i = 0; i < form->vocabulary; i++) {
        const json_t *byte = json_array_get(alphabet, (size_t)i);
        if (!json_is_integer(byte) || json_integer_value(byte) < 0 ||
            json_integer_value(byte) > 255)
            return bad(path, "alphabet");
        form->alphabet[i] = (char)json_integer_value(byte);
    }
    return FAST_OK;
}

/* Read how the targets of a regression were standardised; without it they were not. */
static fast_err get_targets(const char *path, const json_t *root, fast_data *form)
{
    if (!json_object_get(root, "target_scale"))
        return FAST_OK;
    form->target_mean = (float)fast__json_number(root, "target_mean");
    form->target_scale = (float)fast__json_number(root, "target_scale");
    if (!isfinite(form->target_mean) || !isfinite(form->target_scale) || !(form->target_scale > 0))
        return bad(path, "target_scale");
    return FAST_OK;
}

/* Read the form of a sample. Sizes are limited so that products of two of them do not overflow. */
static fast_err get_form(const char *path, const json_t *root, fast_data *form)
{
    const char *dtype = json_string_value(json_object_get(root, "dtype"));
    const json_t *shape = json_object_get(root, "shape");
    if (dtype == NULL || (strcmp(dtype, "u8") != 0 && strcmp(dtype, "f32") != 0))
        return bad(path, "dtype");
    form->dtype = strcmp(dtype, "u8") == 0 ? FAST_U8 : FAST_F32;
    form->rank = (int)json_array_size(shape);
    if (form->rank < 1 || form->rank > 3)
        return bad(path, "shape");
    form->features = 1;
    for (int i = 0; i < form->rank; i++) {
        const json_t *value = json_array_get(shape, (size_t)i);
        form->shape[i] = json_is_integer(value) ? (int64_t)json_integer_value(value) : 0;
        if (form->shape[i] < 1 || form->shape[i] > VALUES_MAX / form->features)
            return bad(path, "shape");
        form->features *= form->shape[i];
    }
    FAST_TRY(get_int(path, root, "classes", 0, FAST_CLASSES_MAX, &form->classes));
    FAST_TRY(get_int(path, root, "outputs", 1, VALUES_MAX, &form->outputs));
    FAST_TRY(get_int(path, root, "positions", 1, VALUES_MAX, &form->positions));
    FAST_TRY(get_int(path, root, "vocabulary", 0, VALUES_MAX, &form->vocabulary));
    FAST_TRY(get_int(path, root, "channels", 1, form->features, &form->channels));
    form->tokens = json_is_true(json_object_get(root, "tokens"));
    if (form->features % form->channels != 0)
        return bad(path, "channels");
    if ((form->classes > 0 && form->outputs != form->classes) ||
        (form->tokens && form->vocabulary < 1))
        return bad(path, "outputs");
    FAST_TRY(get_floats(path, root, "mean", form->channels, &form->mean));
    FAST_TRY(get_floats(path, root, "scale", form->channels, &form->scale));
    FAST_TRY(get_targets(path, root, form));
    return get_texts(path, root, form);
}

/* Read everything from the parsed text. */
static fast_err read_root(const char *path, const json_t *root, fast_stream_index *index)
{
    const char *format = json_string_value(json_object_get(root, "format"));
    const char *compression = json_string_value(json_object_get(root, "compression"));
    int64_t version;
    if (format == NULL || strcmp(format, "fast-shards") != 0)
        return fast__fail(FAST_EFORMAT, "%s is no index of shards", path);
    FAST_TRY(get_int(path, root, "version", 1, INT32_MAX, &version));
    if (version != VERSION)
        return fast__fail(FAST_EFORMAT, "%s has version %lld; this program reads version %d", path,
                          (long long)version, VERSION);
    FAST_TRY(get_form(path, root, &index->form));
    FAST_TRY(get_int(path, root, "rows", 1, UINT32_MAX, &index->rows));
    if ((int64_t)fast__data_row_size(&index->form) > (INT64_C(1) << 40) / index->rows)
        return bad(path, "rows");
    if (compression == NULL ||
        (strcmp(compression, "none") != 0 && strcmp(compression, "zstd") != 0))
        return bad(path, "compression");
    index->compressed = strcmp(compression, "zstd") == 0;
    FAST_TRY(get_part(path, root, 0, index));
    return get_part(path, root, 1, index);
}

/* Read the text, parse it, check it; nothing of it stays on failure. */
fast_err fast__stream_index_read(const char *folder, fast_stream_index *out)
{
    char path[INDEX_PATH_MAX];
    char *text;
    size_t size;
    json_t *root;
    snprintf(path, sizeof path, "%s/index.json", folder);
    FAST_TRY(fast__file_read(path, FAST_STREAM_INDEX_MAX, &text, &size));
    fast_err err = fast__json_read(path, text, size, &root);
    fast__free(text);
    if (err)
        return err;
    fast_stream_index index = { .rows = 0 };
    err = read_root(path, root, &index);
    json_decref(root);
    if (err) {
        fast__stream_index_fini(&index);
        return err;
    }
    *out = index;
    return FAST_OK;
}

/* Write. */

/* A file as [bytes, checksum]. */
static json_t *file_json(const fast_stream_file *file)
{
    char hash[20];
    json_t *list = json_array();
    snprintf(hash, sizeof hash, "%016" PRIx64, file->hash);
    fast__json_append(&list, json_integer(file->size));
    fast__json_append(&list, fast__json_text(hash));
    return list;
}

/* A part with all its files. */
static json_t *part_json(const fast_stream_part *part)
{
    json_t *object = json_object();
    json_t *list = json_array();
    for (int64_t i = 0; i < part->shards; i++)
        fast__json_append(&list, file_json(&part->files[i]));
    fast__json_set(&object, "count", json_integer(part->count));
    fast__json_set(&object, "answers", file_json(&part->answers));
    fast__json_set(&object, "shards", list);
    return object;
}

/* A list of numbers, which read back to the bit. */
static json_t *floats_json(const float *values, int64_t count)
{
    json_t *list = json_array();
    for (int64_t i = 0; i < count; i++)
        fast__json_append(&list, fast__json_exact((double)values[i]));
    return list;
}

/* Add the texts of the set, as far as it has them. An alphabet is bytes, which need not be
 * UTF-8. */
static void set_texts(json_t **root, const fast_data *form)
{
    json_t *list = json_array();
    const char *at = form->class_names;
    for (int64_t i = 0; at != NULL && i < form->classes; i++, at += strlen(at) + 1)
        fast__json_append(&list, fast__json_text(at));
    if (form->class_names != NULL)
        fast__json_set(root, "class_names", list);
    else
        json_decref(list);
    list = json_array();
    for (int64_t i = 0; form->alphabet != NULL && i < form->vocabulary; i++)
        fast__json_append(&list, json_integer((uint8_t)form->alphabet[i]));
    if (form->alphabet != NULL)
        fast__json_set(root, "alphabet", list);
    else
        json_decref(list);
    if (form->recipe != NULL)
        fast__json_set(root, "recipe", fast__json_text(form->recipe));
}

/* The whole index. */
static json_t *index_json(const fast_stream_index *index)
{
    const fast_data *form = &index->form;
    json_t *root = json_object();
    json_t *shape = json_array();
    for (int i = 0; i < form->rank; i++)
        fast__json_append(&shape, json_integer(form->shape[i]));
    fast__json_set(&root, "format", fast__json_text("fast-shards"));
    fast__json_set(&root, "version", json_integer(VERSION));
    fast__json_set(&root, "dtype", fast__json_text(form->dtype == FAST_U8 ? "u8" : "f32"));
    fast__json_set(&root, "shape", shape);
    fast__json_set(&root, "classes", json_integer(form->classes));
    fast__json_set(&root, "outputs", json_integer(form->outputs));
    fast__json_set(&root, "positions", json_integer(form->positions));
    fast__json_set(&root, "tokens", json_boolean(form->tokens));
    fast__json_set(&root, "vocabulary", json_integer(form->vocabulary));
    fast__json_set(&root, "channels", json_integer(form->channels));
    fast__json_set(&root, "mean", floats_json(form->mean, form->channels));
    fast__json_set(&root, "scale", floats_json(form->scale, form->channels));
    if (form->target_scale != 1) {
        fast__json_set(&root, "target_mean", fast__json_exact((double)form->target_mean));
        fast__json_set(&root, "target_scale", fast__json_exact((double)form->target_scale));
    }
    set_texts(&root, form);
    fast__json_set(&root, "rows", json_integer(index->rows));
    fast__json_set(&root, "compression", fast__json_text(index->compressed ? "zstd" : "none"));
    fast__json_set(&root, "train", part_json(&index->part[0]));
    if (index->part[1].count > 0)
        fast__json_set(&root, "test", part_json(&index->part[1]));
    return root;
}

/* The text of an index, as fast__file_replace() writes it. */
static fast_err put_text(void *ctx, void *stream)
{
    FAST_TRY(fast__file_put(stream, ctx, strlen(ctx)));
    return fast__file_put(stream, "\n", 1);
}

/* Make the text first, so that a failure leaves the old index. */
fast_err fast__stream_index_write(const char *folder, const fast_stream_index *index)
{
    char path[INDEX_PATH_MAX];
    char *text;
    json_t *root = index_json(index);
    FAST_TRY(fast__json_print(&root, &text));
    snprintf(path, sizeof path, "%s/index.json", folder);
    const fast_err err = fast__file_replace(path, put_text, text);
    fast__free(text);
    return err;
}
