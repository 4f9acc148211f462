/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Recipes: a training set described as JSON, and the description read back. recipe.h has the form.
 *
 * Constants of normalisation are floats, printed as doubles of 15 digits, so that they are read
 * back to the bit. Reading trusts nothing: a member that is missing, of another type or out of
 * range is FAST_EFORMAT with its name, and sizes are bounded before memory is taken: a sample has
 * at most SAMPLE_MAX values, a text FAST_RECIPE_SIZE_MAX bytes.
 *
 * To add a kind of source: a function that opens it, and a line of `kinds`.
 *
 *   member        value                                  for
 *   version       1                                      a reader that knows another one refuses
 *   shape         1 to 3 numbers                         one sample: [C], [T, C], [C, H, W], [T]
 *   dtype         "U8" or "F32"                          whether samples were bytes
 *   channels      a divisor of the sample's size         mean and scale: one number for each
 *   classes       0 for a regression                     with `outputs` and `positions`
 *   class_names   one text for each class                left out where classes are numbers
 *   target_mean   with target_scale: of a regression     left out where targets are unchanged
 *   vocabulary    number of tokens                       left out where samples are numbers
 *   alphabet      bytes in rising order                  text as characters
 *   source        an object with a "kind"                the row of `kinds`
 */
#include "data/recipe.h"

#include "base/memory.h"
#include "data/make.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

enum {
    VERSION = 1,         /* of the description */
    SAMPLE_MAX = 1 << 24 /* values of a sample: an image of 2,300 x 2,300 pixels in colour */
};

/* Kinds of sources, by the member "kind" of a recipe's source. */
static const fast_source_kind kinds[] = {
    { "array", "an NPY or IDX file, or a data set by name", true, fast__array_source_open },
    { "pictures", "a picture, a folder, or a data set by name", true, fast__picture_source_open },
    { "table", "a CSV file, or - for standard input", false, fast__table_source_open },
    { "text", "a text file, or - for standard input", false, fast__text_source_open },
};
enum { PICTURES = 1, KIND_COUNT = sizeof kinds / sizeof *kinds };

/* Floats as an array. */
static json_t *write_floats(const float *values, int64_t count)
{
    json_t *array = json_array();

    for (int64_t i = 0; i < count; i++)
        fast__json_append(&array, fast__json_exact((double)values[i]));
    return array;
}

/* The names of classes as an array of texts. */
static json_t *write_names(const char *names, int64_t count)
{
    json_t *array = json_array();

    for (int64_t i = 0; i < count; i++, names += strlen(names) + 1)
        fast__json_append(&array, fast__json_text(names));
    return array;
}

/* Bytes as an array of numbers: an alphabet need not be UTF-8. */
static json_t *write_bytes(const char *bytes, int64_t count)
{
    json_t *array = json_array();

    for (int64_t i = 0; i < count; i++)
        fast__json_append(&array, json_integer((unsigned char)bytes[i]));
    return array;
}

/* The part that the set's reader wrote; a set without one is an array in memory or drawn. */
static fast_err write_source(const fast_data *data, json_t **out)
{
    static const char array[] = "{\"kind\": \"array\"}";
    const char *text = data->recipe ? data->recipe : array;

    return fast__json_read("recipe", text, strlen(text), out);
}

/* Members follow the fields of fast_data; optional ones are left out where the set lacks them. The
 * text is made whole and measured last: a set of a few columns takes less than a kilobyte. */
fast_err fast__recipe_write(const fast_data *data, char **out)
{
    json_t *tree = json_object(), *shape = json_array(), *source = NULL;

    FAST_ASSERT(data != NULL && out != NULL);
    for (int i = 0; i < data->rank; i++)
        fast__json_append(&shape, json_integer(data->shape[i]));
    fast__json_set(&tree, "version", json_integer(VERSION));
    fast__json_set(&tree, "shape", shape);
    fast__json_set(&tree, "dtype", json_string(fast__dtype_name(data->dtype)));
    fast__json_set(&tree, "channels", json_integer(data->channels));
    fast__json_set(&tree, "mean", write_floats(data->mean, data->channels));
    fast__json_set(&tree, "scale", write_floats(data->scale, data->channels));
    fast__json_set(&tree, "classes", json_integer(data->classes));
    if (data->class_names)
        fast__json_set(&tree, "class_names", write_names(data->class_names, data->classes));
    fast__json_set(&tree, "positions", json_integer(data->positions));
    fast__json_set(&tree, "outputs", json_integer(data->outputs));
    if (data->target_scale != 1) {
        fast__json_set(&tree, "target_mean", fast__json_exact((double)data->target_mean));
        fast__json_set(&tree, "target_scale", fast__json_exact((double)data->target_scale));
    }
    if (data->tokens)
        fast__json_set(&tree, "vocabulary", json_integer(data->vocabulary));
    if (data->alphabet)
        fast__json_set(&tree, "alphabet", write_bytes(data->alphabet, data->vocabulary));
    const fast_err err = write_source(data, &source);
    if (err) {
        json_decref(tree);
        return err;
    }
    fast__json_set(&tree, "source", source);
    FAST_TRY(fast__json_print(&tree, out));
    if (strlen(*out) <= FAST_RECIPE_SIZE_MAX)
        return FAST_OK;
    fast__free(*out);
    *out = NULL;
    return fast__fail(FAST_ENOTSUP, "the inputs take more than %d bytes to describe",
                      FAST_RECIPE_SIZE_MAX);
}

/* A description while it is read. */
typedef struct recipe_reader {
    const char *where;  /* name of the file */
    const json_t *tree; /* the description */
} recipe_reader;

/* Say which member is wrong, and its proper form. */
static fast_err fail(const recipe_reader *r, const char *member, const char *expected)
{
    return fast__fail(FAST_EFORMAT, "%s: \"%s\" of its data is not %s", r->where, member, expected);
}

/* Read a whole number from `min` to `max`; a member that is missing is `min`. Every limit is below
 * 2^32, so that products of two of them do not overflow. */
static fast_err read_int(const recipe_reader *r, const char *member, int64_t min, int64_t max,
                         int64_t *out)
{
    const json_t *value = json_object_get(r->tree, member);

    if (!value) {
        *out = min;
        return FAST_OK;
    }
    if (!json_is_integer(value) || json_integer_value(value) < min ||
        json_integer_value(value) > max)
        return fail(r, member, "a whole number in its range");
    *out = json_integer_value(value);
    return FAST_OK;
}

/* Read the sizes of a sample and of its answers. The product of the shape is bounded factor by
 * factor: a description of a hundred bytes can claim any size, and the first sample would take it.
 * Whether the sizes fit each other is checked by fast__data_make(), whether they fit the network by
 * the caller. */
static fast_err read_sizes(const recipe_reader *r, fast_data *like)
{
    const json_t *shape = json_object_get(r->tree, "shape");
    const json_t *dtype = json_object_get(r->tree, "dtype");
    int64_t features = 1;

    if (!json_is_array(shape) || json_array_size(shape) < 1 || json_array_size(shape) > 3)
        return fail(r, "shape", "a list of 1 to 3 numbers");
    like->rank = (int)json_array_size(shape);
    for (int i = 0; i < like->rank; i++) {
        const json_t *value = json_array_get(shape, (size_t)i);

        like->shape[i] = json_is_integer(value) ? json_integer_value(value) : 0;
        if (like->shape[i] < 1 || like->shape[i] > SAMPLE_MAX / features)
            return fail(r, "shape", "a sample of a size that is read");
        features *= like->shape[i];
    }
    if (!json_is_string(dtype) || !fast__dtype_find(json_string_value(dtype), &like->dtype) ||
        (like->dtype != FAST_U8 && like->dtype != FAST_F32))
        return fail(r, "dtype", "U8 or F32");
    FAST_TRY(read_int(r, "channels", 1, features, &like->channels));
    if (features % like->channels != 0)
        return fail(r, "channels", "a divisor of the size of a sample");
    FAST_TRY(read_int(r, "classes", 0, FAST_CLASSES_MAX, &like->classes));
    FAST_TRY(read_int(r, "positions", 1, features, &like->positions));
    FAST_TRY(read_int(r, "outputs", 1, SAMPLE_MAX, &like->outputs));
    FAST_TRY(read_int(r, "vocabulary", 0, FAST_CLASSES_MAX, &like->vocabulary));
    like->tokens = like->vocabulary > 0;
    like->count = 1;
    return FAST_OK;
}

/* Read the constants of a regression's targets; without them targets are unchanged. */
static fast_err read_target(const recipe_reader *r, fast_data *like)
{
    like->target_scale = 1;
    if (!json_object_get(r->tree, "target_scale"))
        return FAST_OK;
    like->target_mean = (float)fast__json_number(r->tree, "target_mean");
    like->target_scale = (float)fast__json_number(r->tree, "target_scale");
    if (!isfinite(like->target_mean) || !isfinite(like->target_scale) || !(like->target_scale > 0))
        return fail(r, "target_scale", "a number above 0, with a target_mean");
    return FAST_OK;
}

/* Read `count` finite floats. A double that a float cannot hold becomes infinite, and is refused
 * too. */
static fast_err read_floats(const recipe_reader *r, const char *member, int64_t count, float *out)
{
    const json_t *array = json_object_get(r->tree, member);

    if (!json_is_array(array) || json_array_size(array) != (size_t)count)
        return fail(r, member, "one number for each channel");
    for (int64_t i = 0; i < count; i++) {
        const json_t *value = json_array_get(array, (size_t)i);

        out[i] = json_is_number(value) ? (float)json_number_value(value) : NAN;
        if (!isfinite(out[i]))
            return fail(r, member, "a list of finite numbers");
    }
    return FAST_OK;
}

/* Read the names of classes, where there are any, into one block: texts with their zero bytes, one
 * after the other. A text cannot have a zero byte inside: the parser refuses it. */
static fast_err read_names(const recipe_reader *r, fast_data *like)
{
    const json_t *array = json_object_get(r->tree, "class_names");
    size_t size = 0;

    if (!array)
        return FAST_OK;
    if (!json_is_array(array) || json_array_size(array) != (size_t)like->classes ||
        like->classes == 0)
        return fail(r, "class_names", "one text for each class");
    for (size_t i = 0; i < json_array_size(array); i++) {
        if (!json_is_string(json_array_get(array, i)))
            return fail(r, "class_names", "a list of texts");
        size += json_string_length(json_array_get(array, i)) + 1;
    }
    FAST_TRY(fast__alloc("names of classes", (int64_t)size, 1, &like->class_names));
    char *end = like->class_names;
    for (size_t i = 0; i < json_array_size(array); i++) {
        const json_t *text = json_array_get(array, i);

        memcpy(end, json_string_value(text), json_string_length(text) + 1);
        end += json_string_length(text) + 1;
    }
    return FAST_OK;
}

/* Read the alphabet of a text, where there is one: different bytes in rising order, as text.c
 * numbers them. Such a model predicts characters, so its classes are its tokens. */
static fast_err read_alphabet(const recipe_reader *r, fast_data *like)
{
    const json_t *array = json_object_get(r->tree, "alphabet");
    int64_t last = -1;

    if (!array)
        return FAST_OK;
    if (!json_is_array(array) || !like->tokens || like->vocabulary > 256 ||
        json_array_size(array) != (size_t)like->vocabulary || like->classes != like->vocabulary)
        return fail(r, "alphabet", "one byte for each token");
    FAST_TRY(fast__alloc("alphabet", like->vocabulary, 1, &like->alphabet));
    for (int64_t i = 0; i < like->vocabulary; i++) {
        const json_t *value = json_array_get(array, (size_t)i);

        if (!json_is_integer(value) || json_integer_value(value) <= last ||
            json_integer_value(value) > 255)
            return fail(r, "alphabet", "a rising list of bytes");
        last = json_integer_value(value);
        like->alphabet[i] = (char)last;
    }
    return FAST_OK;
}

/* The kind of a recipe's source; NULL if this version knows no such kind. */
static const fast_source_kind *find_kind(const json_t *source)
{
    const json_t *name = json_object_get(source, "kind");

    for (int i = 0; json_is_string(name) && i < KIND_COUNT; i++)
        if (strcmp(kinds[i].name, json_string_value(name)) == 0)
            return &kinds[i];
    return NULL;
}

/* Fill a recipe from a description that was parsed. Parts that were made before an error are freed
 * with the recipe. */
static fast_err read_members(const recipe_reader *r, fast_recipe *recipe)
{
    fast_data like = { 0 };
    int64_t version;

    if (!json_is_object(r->tree))
        return fail(r, "fast_data", "an object");
    FAST_TRY(read_int(r, "version", 0, INT64_MAX, &version));
    if (version != VERSION)
        return fast__fail(FAST_EFORMAT,
                          "%s describes its data in version %lld; this program reads version %d",
                          r->where, (long long)version, VERSION);
    FAST_TRY(read_sizes(r, &like));
    FAST_TRY(read_target(r, &like));
    FAST_TRY(fast__data_make(&like, &recipe->like));
    FAST_TRY(read_floats(r, "mean", like.channels, recipe->like->mean));
    FAST_TRY(read_floats(r, "scale", like.channels, recipe->like->scale));
    FAST_TRY(read_names(r, recipe->like));
    FAST_TRY(read_alphabet(r, recipe->like));
    recipe->source = json_incref(json_object_get(r->tree, "source"));
    return find_kind(recipe->source) ? FAST_OK : fail(r, "source", "of a kind that is known");
}

/* The text is parsed once; jansson refuses members that occur twice and zero bytes in texts. What
 * was read before an error is freed with the recipe. */
fast_err fast__recipe_read(const char *where, const char *text, fast_recipe **out)
{
    const size_t size = strlen(text);
    fast_recipe *recipe = NULL;
    json_t *tree;

    if (size > FAST_RECIPE_SIZE_MAX)
        return fast__fail(FAST_EFORMAT, "%s describes its data in %zu bytes; at most %d are read",
                          where, size, FAST_RECIPE_SIZE_MAX);
    FAST_TRY(fast__json_read(where, text, size, &tree));
    fast_err err = fast__alloc("a recipe", 1, sizeof *recipe, &recipe);
    if (!err)
        err = read_members(&(recipe_reader){ where, tree }, recipe);
    json_decref(tree);
    if (err) {
        fast__recipe_free(recipe);
        return err;
    }
    *out = recipe;
    return FAST_OK;
}

/* NULL is allowed. */
void fast__recipe_free(fast_recipe *recipe)
{
    if (recipe == NULL)
        return;
    fast_data_free(recipe->like);
    json_decref(recipe->source);
    fast__free(recipe);
}

/* A set of the recipe's sizes gets its constants; texts stay in the recipe. */
fast_err fast__recipe_set(const fast_recipe *recipe, fast_dtype dtype, int64_t count,
                          fast_data **out)
{
    fast_data like = *recipe->like;
    fast_data *data;

    like.dtype = dtype;
    like.count = count;
    FAST_TRY(fast__data_make(&like, &data));
    memcpy(data->mean, recipe->like->mean, (size_t)data->channels * sizeof(float));
    memcpy(data->scale, recipe->like->scale, (size_t)data->channels * sizeof(float));
    *out = data;
    return FAST_OK;
}

/* Open a data set by name: all of its samples, or its test set where it has one. Files that would
 * be split are read whole: a prediction is wanted for every sample, in the order of the file. */
static fast_err open_named(const fast_recipe *recipe, const fast_data_kind *kind, const char *spec,
                           bool answers, fast_source **out)
{
    char text[FAST_PATH_MAX];
    fast_data *train = NULL, *test = NULL;
    const bool splits = fast__options_find(kind->options, "test_fraction") != NULL &&
                        !strstr(spec, "test_fraction=");
    const int length = snprintf(text, sizeof text, "%s%s", spec,
                                !splits             ? ""
                                : strchr(spec, ':') ? ",test_fraction=0"
                                                    : ":test_fraction=0");

    if (length < 0 || (size_t)length >= sizeof text)
        return fast__fail(FAST_EINVAL, "\"%.60s...\" is too long", spec);
    FAST_TRY(fast__data_open(text, 1, &train, &test, NULL));
    fast_data *wanted = test ? test : train;
    fast_data_free(test ? train : NULL);
    return fast__set_source_open(recipe, answers, &wanted, out);
}

/* The data set that "name" or "name:..." names; NULL for a path. */
static const fast_data_kind *named_kind(const char *name)
{
    const size_t length = strcspn(name, ":");

    for (const fast_data_kind *const *kind = fast__data_kinds; *kind; kind++)
        if (strlen((*kind)->name) == length && strncmp((*kind)->name, name, length) == 0)
            return *kind;
    return NULL;
}

/* Copy the path of "csv:file=PATH,...", which may be in quotes, as options are written; false if it
 * is empty or too long. Other options are left out: the model's encoder has its own. */
static bool file_of(const char *value, char path[FAST_PATH_MAX])
{
    const bool quoted = *value == '"';
    size_t used = 0;

    for (value += quoted; *value && (quoted || *value != ','); value++) {
        if (quoted && *value == '"' && *++value != '"')
            break;
        if (used + 1 == FAST_PATH_MAX)
            return false;
        path[used++] = *value;
    }
    path[used] = '\0';
    return used > 0;
}

/* Open shards for a model of a table or a text: they hold features and no columns, so they must be
 * of the same encoder as the model's: the same columns, categories and values for missing cells.
 * Normalisation is the model's. */
static fast_err open_encoded(const fast_recipe *recipe, const char *spec, bool answers,
                             fast_source **out)
{
    fast_data *train = NULL, *test = NULL;
    json_t *source = NULL;

    FAST_TRY(fast__data_open(spec, 1, &train, &test, NULL));
    fast_data *wanted = test ? test : train;
    fast_err err = write_source(wanted, &source);
    if (!err && !json_equal(source, recipe->source))
        err = fast__fail(FAST_EFORMAT,
                         "%s were encoded otherwise than the data of the model; give the source "
                         "of the shards, or shards of the model's data",
                         spec);
    json_decref(source);
    fast_data_free(test ? train : NULL);
    if (err) {
        fast_data_free(wanted);
        return err;
    }
    return fast__set_source_open(recipe, answers, &wanted, out);
}

/* Write "shards:dir=PATH" if a path is a folder of shards, which their index tells. False for a
 * path that is anything else. */
static bool is_shards(const char *path, char spec[FAST_PATH_MAX])
{
    char index[FAST_PATH_MAX];
    struct stat info;

    /* A path that would need quotes in a spec is left to the caller. */
    if (snprintf(index, sizeof index, "%s/index.json", path) >= (int)sizeof index ||
        stat(index, &info) != 0 || strpbrk(path, ",\""))
        return false;
    return snprintf(spec, FAST_PATH_MAX, "shards:dir=%s", path) < FAST_PATH_MAX;
}

/* A name of a data set is looked for first, then the recipe's kind opens the path. Tables, texts
 * and pictures are read by the recipe, also where a kind of data is before the path. */
fast_err fast__source_open(const fast_recipe *recipe, const char *name, bool answers,
                           fast_source **out)
{
    const fast_source_kind *kind = find_kind(recipe->source);
    const fast_data_kind *data = named_kind(name);
    const bool folder = data && strcmp(data->name, "folder") == 0 && kind == &kinds[PICTURES];
    const char *const key = folder ? ":path=" : ":file=";
    const char *file = strstr(name, key);
    char path[FAST_PATH_MAX];

    FAST_ASSERT(kind != NULL && out != NULL);
    if (!data && is_shards(name, path)) {
        name = path;
        data = named_kind(name);
    }
    if (data && file && (!kind->by_name || folder) && file_of(file + strlen(key), path))
        return kind->open(recipe, path, answers, out);
    if (data && kind->by_name)
        return open_named(recipe, data, name, answers, out);
    if (data && strcmp(data->name, "shards") == 0)
        return open_encoded(recipe, name, answers, out);
    if (data)
        return fast__fail(FAST_EINVAL, "the model takes %s, not the data set %s", kind->expect,
                          name);
    return kind->open(recipe, name, answers, out);
}
