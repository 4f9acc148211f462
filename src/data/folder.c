/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Folders of pictures by class (picture_list.c). The folder has sub-folders train and test with a
 * folder for each class, or folders of classes alone: then a fraction of all pictures becomes the
 * test set, drawn by split_seed.
 *
 *   files by class -> form of all -> [broken ones dropped] -> x in memory, or rows -> normalised
 *
 * All pictures get one form: the size that is asked for, or the size of the first one. In memory a
 * picture is height * width * channels bytes. With decode=batch nothing is: a batch reads and
 * decodes its files when it is made, by the prefetching thread or by preprocessing actors, so that
 * a set may be larger than the memory.
 */
#include "base/hash.h"
#include "base/log.h"
#include "base/memory.h"
#include "base/rng.h"
#include "data/make.h"
#include "data/picture.h"
#include "data/picture_list.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

typedef struct folder_config {
    char path[FAST_PATH_MAX]; /* the folder */
    char size[32];            /* "HEIGHTxWIDTH", "SIDE" or "auto" */
    int channels;             /* auto, grey, rgb */
    double test_fraction;     /* fraction to test on, without a folder `test` */
    int64_t split_seed;       /* which samples that are */
    int normalize;            /* a fast_normalize */
    int broken;               /* refuse, skip */
    int decode;               /* open, batch */
} folder_config;

enum { CHANNELS_AUTO, CHANNELS_GREY, CHANNELS_RGB };
enum { BROKEN_REFUSE, BROKEN_SKIP };
enum { DECODE_OPEN, DECODE_BATCH };

static const fast_option folder_options[] = {
    FAST_OPT_TEXT(folder_config, path, "", NULL,
                  "folder with train/CLASS and test/CLASS, or CLASS"),
    FAST_OPT_TEXT(folder_config, size, "auto", NULL,
                  "size of all pictures, 32 or 48x64 (height x width); auto: of the first"),
    FAST_OPT_CHOICE(folder_config, channels, "auto", "auto|grey|rgb",
                    "channels of all pictures; auto: of the first"),
    FAST_OPT_REAL(folder_config, test_fraction, "0.2", 0, 0.9,
                  "fraction of the pictures to test on if there is no folder test"),
    FAST_OPT_INT(folder_config, split_seed, "0", 0, 1e15, "draws that fraction"),
    FAST_OPT_CHOICE(folder_config, normalize, "standard", FAST_NORMALIZE_CHOICES,
                    "bytes divided by 255, mean 0 and deviation 1 a channel, or as they are"),
    FAST_OPT_CHOICE(folder_config, broken, "refuse", "refuse|skip",
                    "pictures that cannot be decoded: an error, or left out and counted"),
    FAST_OPT_CHOICE(folder_config, decode, "open", "open|batch",
                    "when: all into memory at the start, or each when a batch needs it"),
    FAST_OPT_END,
};

/* Pictures that are decoded when they are read. They have no blocks: files are small, any order of
 * them costs the same, and the shuffle is that of a set in memory. */
typedef struct picture_rows {
    fast_rows base;         /* the contract */
    fast_picture_list list; /* files; row i is file i */
    fast_picture_form form; /* of all */
} picture_rows;

/* Read and decode one file. */
static fast_err rows_read(fast_rows *rows, int64_t sample, int64_t when, void *out)
{
    picture_rows *self = (picture_rows *)rows;
    (void)when;
    return fast__picture_read(fast__picture_path(&self->list, sample), &self->form, out);
}

/* Free the list with the rows. */
static void rows_free(fast_rows *rows)
{
    picture_rows *self = (picture_rows *)rows;
    fast__picture_list_fini(&self->list);
    fast__free(self);
}

static const fast_rows_ops rows_ops = { .read = rows_read, .expect = NULL, .free = rows_free };

/* Parse "auto", "SIDE" or "HEIGHTxWIDTH": height first, as in shapes of tensors. "auto" leaves the
 * form as it is. */
static fast_err parse_size(const char *text, fast_picture_form *form)
{
    long long height = 0, width = 0;
    int used = -1;
    if (strcmp(text, "auto") == 0)
        return FAST_OK;
    if (sscanf(text, "%lldx%lld%n", &height, &width, &used) != 2) {
        used = -1;
        if (sscanf(text, "%lld%n", &height, &used) == 1)
            width = height;
    }
    if (used < 0 || text[used] != 0 || height < 1 || width < 1 || height > FAST_PICTURE_SIDE_MAX ||
        width > FAST_PICTURE_SIDE_MAX)
        return fast__fail(FAST_EINVAL,
                          "data folder: size=%s is not auto, a side or HEIGHTxWIDTH, from 1 to %d",
                          text, FAST_PICTURE_SIDE_MAX);
    form->height = height;
    form->width = width;
    return FAST_OK;
}

/* True for an error of the picture itself: a file that is damaged, or a link that leads nowhere.
 * Missing memory and a disk that fails are errors of the run. */
static bool is_broken(fast_err err)
{
    return err == FAST_EFORMAT || err == FAST_ENOENT;
}

/* Decide the form: by the options, or by the first picture. Pictures of photographers are larger
 * than a network wants: without a size they are refused with the size that is possible. */
static fast_err choose_form(const folder_config *c, const fast_picture_list *list,
                            fast_picture_form *out)
{
    fast_picture_form form = { .height = 0 };
    FAST_TRY(parse_size(c->size, &form));
    form.channels = c->channels == CHANNELS_GREY ? 1 : c->channels == CHANNELS_RGB ? 3 : 0;
    if (form.height == 0 || form.channels == 0) {
        fast_picture_form first;
        int64_t i = 0;
        fast_err err = fast__picture_measure(fast__picture_path(list, 0), &first);
        while (is_broken(err) && c->broken == BROKEN_SKIP && ++i < list->count)
            err = fast__picture_measure(fast__picture_path(list, i), &first);
        FAST_TRY(err);
        if (form.height == 0 &&
            (first.height > FAST_PICTURE_SIDE_MAX || first.width > FAST_PICTURE_SIDE_MAX))
            return fast__fail(FAST_EINVAL, "%s has %lld x %lld pixels; choose size=SIDE up to %d",
                              fast__picture_path(list, i), (long long)first.width,
                              (long long)first.height, FAST_PICTURE_SIDE_MAX);
        if (form.height == 0) {
            form.height = first.height;
            form.width = first.width;
        }
        form.channels = form.channels != 0 ? form.channels : first.channels;
    }
    *out = form;
    return FAST_OK;
}

/* Give a set its class names and the recipe, with which a model file can repeat the inputs:
 * {"kind": "pictures", "height": H, "width": W, "channels": C}. */
static fast_err describe(fast_data *data, const fast_picture_list *list,
                         const fast_picture_form *form)
{
    enum { RECIPE_MAX = 128 };
    const size_t size = fast__class_names_size(list->class_names, list->classes);
    FAST_TRY(fast__alloc("class names", (int64_t)size, 1, &data->class_names));
    memcpy(data->class_names, list->class_names, size);
    FAST_TRY(fast__alloc("a recipe", RECIPE_MAX, 1, &data->recipe));
    snprintf(data->recipe, RECIPE_MAX,
             "{\"kind\": \"pictures\", \"height\": %lld, \"width\": %lld, \"channels\": %lld}",
             (long long)form->height, (long long)form->width, (long long)form->channels);
    return FAST_OK;
}

/* Drop the files that cannot be decoded; those that can stay in order. Costs one more pass over all
 * files, which is the cost of knowing the number of samples before training. */
static fast_err drop_broken(const fast_picture_form *form, fast_picture_list *list)
{
    const int64_t count = list->count;
    char first[FAST_DETAIL_MAX] = "";
    uint8_t *pixels;
    FAST_TRY(fast__alloc("a picture", form->height * form->width, (size_t)form->channels, &pixels));
    list->count = 0;
    fast_err err = FAST_OK;
    for (int64_t i = 0; i < count && !err; i++) {
        err = fast__picture_read(list->text + list->offsets[i], form, pixels);
        if (!err) {
            list->offsets[list->count] = list->offsets[i];
            list->labels[list->count++] = list->labels[i];
        } else if (is_broken(err)) {
            if (first[0] == 0)
                snprintf(first, sizeof first, "%s", fast_error_detail());
            err = FAST_OK;
        }
    }
    fast__free(pixels);
    if (!err && list->count == 0)
        err = fast__fail(FAST_EFORMAT, "no picture can be decoded: %s", first);
    else if (!err && list->count < count)
        fast__log(FAST_LOG_WARN,
                  "%lld of %lld pictures are broken and were left out; the first: %s",
                  (long long)(count - list->count), (long long)count, first);
    return err;
}

/* Hash of names, sizes and times of the files: a changed file gives another set, and a checkpoint
 * of the old one is refused. */
static uint64_t hash_files(const fast_picture_list *list)
{
    uint64_t hash = (uint64_t)list->count;
    for (int64_t i = 0; i < list->count; i++) {
        const char *path = fast__picture_path(list, i);
        struct stat info = { .st_size = 0 };
        hash = fast__hash(path, strlen(path), hash);
        if (stat(path, &info) == 0) {
            const int64_t facts[] = { info.st_size, info.st_mtim.tv_sec, info.st_mtim.tv_nsec };
            hash = fast__hash(facts, sizeof facts, hash);
        }
    }
    return hash;
}

/* Make rows of a list, which is moved into them, also on failure. */
static fast_err make_rows(const fast_picture_form *form, fast_picture_list *move, fast_rows **out)
{
    picture_rows *rows;
    const fast_err err = fast__alloc("files of pictures", 1, sizeof *rows, &rows);
    if (err) {
        fast__picture_list_fini(move);
        return err;
    }
    *rows = (picture_rows){ .base = { .ops = &rows_ops, .hash = hash_files(move) },
                            .list = *move,
                            .form = *form };
    *move = (fast_picture_list){ .count = 0 };
    *out = &rows->base;
    return FAST_OK;
}

/* Fill x by decoding every file. */
static fast_err decode_all(const fast_picture_list *list, const fast_picture_form *form,
                           fast_data *data)
{
    for (int64_t i = 0; i < list->count; i++)
        FAST_TRY(fast__picture_read(fast__picture_path(list, i), form,
                                    (uint8_t *)data->x + i * data->features));
    return FAST_OK;
}

/* Make a set of a list, which is consumed, also on failure. With decode=batch the rows own the list
 * from then on, and the set owns the rows as soon as it exists: each error path frees what is not
 * owned by a later stage. */
static fast_err make_set(const folder_config *c, const fast_picture_form *form,
                         fast_picture_list *move, fast_data **out)
{
    fast_data like = { .count = move->count,
                       .rank = 3,
                       .shape = { form->channels, form->height, form->width },
                       .dtype = FAST_U8,
                       .classes = move->classes };
    fast_picture_list list = *move;
    *move = (fast_picture_list){ .count = 0 };
    fast_data *data = NULL;
    fast_err err = FAST_OK;
    if (c->decode == DECODE_BATCH) {
        err = make_rows(form, &list, &like.rows);
        if (err)
            return err;
        list = ((picture_rows *)like.rows)->list; /* a view from here on */
    }
    err = fast__data_make(&like, &data);
    if (err && like.rows != NULL)
        rows_free(like.rows);
    if (!err && like.rows == NULL)
        err = decode_all(&list, form, data);
    if (!err)
        err = describe(data, &list, form);
    if (!err)
        memcpy(data->labels, list.labels, (size_t)list.count * sizeof *list.labels);
    if (c->decode != DECODE_BATCH)
        fast__picture_list_fini(&list);
    if (err) {
        fast_data_free(data);
        return err;
    }
    *out = data;
    return FAST_OK;
}

/* Copy files [first, end) of the order that the seed draws to a list of their own. All paths are
 * copied, used or not: lists are small beside pictures. */
static fast_err copy_list(const folder_config *c, const fast_picture_list *all, int64_t first,
                          int64_t end, fast_picture_list *out)
{
    fast_picture_list list = { .count = end - first, .classes = all->classes };
    const int64_t last = all->offsets[all->count - 1];
    const size_t size = (size_t)last + strlen(all->text + last) + 1;
    const size_t names = fast__class_names_size(all->class_names, all->classes);
    fast_err err = fast__alloc("paths", (int64_t)size, 1, &list.text);
    if (!err)
        err = fast__alloc("paths", list.count, sizeof *list.offsets, &list.offsets);
    if (!err)
        err = fast__alloc("labels", list.count, sizeof *list.labels, &list.labels);
    if (!err)
        err = fast__alloc("class names", (int64_t)names, 1, &list.class_names);
    if (err) {
        fast__picture_list_fini(&list);
        return err;
    }
    memcpy(list.text, all->text, size);
    memcpy(list.class_names, all->class_names, names);
    for (int64_t i = 0; i < list.count; i++) {
        const uint64_t at = fast__rng_permute((uint64_t)c->split_seed, FAST_PURPOSE_SYNTHETIC, 0,
                                              (uint64_t)all->count, (uint64_t)(first + i));
        list.offsets[i] = all->offsets[at];
        list.labels[i] = all->labels[at];
    }
    *out = list;
    return FAST_OK;
}

/* Divide the files into those to train on and those to test on. */
static fast_err split_list(const folder_config *c, fast_picture_list *train,
                           fast_picture_list *test)
{
    const int64_t tests = (int64_t)(c->test_fraction * (double)train->count + 0.5);
    if (tests == 0)
        return FAST_OK;
    if (tests >= train->count)
        return fast__fail(FAST_EINVAL, "test_fraction=%g leaves none of %lld pictures to train on",
                          c->test_fraction, (long long)train->count);
    fast_picture_list rest;
    FAST_TRY(copy_list(c, train, 0, train->count - tests, &rest));
    const fast_err err = copy_list(c, train, train->count - tests, train->count, test);
    if (err) {
        fast__picture_list_fini(&rest);
        return err;
    }
    fast__picture_list_fini(train);
    *train = rest;
    return FAST_OK;
}

/* List both parts: of folders train and test, or one list that is divided. Classes are those of the
 * training folder; a test folder with another class is a mistake. */
static fast_err list_parts(const folder_config *c, fast_picture_list *train,
                           fast_picture_list *test)
{
    char path[FAST_PATH_MAX + 8];
    struct stat info;
    snprintf(path, sizeof path, "%s/train", c->path);
    const bool parts = stat(path, &info) == 0 && S_ISDIR(info.st_mode);
    FAST_TRY(fast__picture_list_open(parts ? path : c->path, NULL, 0, true, train));
    if (train->classes == 0)
        return fast__fail(FAST_EFORMAT,
                          "%s has pictures, but no folders: put those of each class into a folder",
                          parts ? path : c->path);
    if (!parts)
        return split_list(c, train, test);
    snprintf(path, sizeof path, "%s/test", c->path);
    if (stat(path, &info) != 0)
        return FAST_OK;
    return fast__picture_list_open(path, train->class_names, train->classes, true, test);
}

/* Make both sets of their lists, which are consumed. */
static fast_err make_sets(const folder_config *c, fast_picture_list *train, fast_picture_list *test,
                          fast_data **train_out, fast_data **test_out)
{
    fast_picture_form form;
    fast_data *train_set = NULL, *test_set = NULL;
    FAST_TRY(choose_form(c, train, &form));
    if (c->broken == BROKEN_SKIP) {
        FAST_TRY(drop_broken(&form, train));
        if (test->count > 0)
            FAST_TRY(drop_broken(&form, test));
    }
    FAST_TRY(make_set(c, &form, train, &train_set));
    const fast_err err = test->count > 0 ? make_set(c, &form, test, &test_set) : FAST_OK;
    if (err) {
        fast_data_free(train_set);
        return err;
    }
    return fast__data_finish((fast_normalize)c->normalize, &train_set, &test_set, train_out,
                             test_out);
}

/* List the files, then decode them or leave that to batches. */
static fast_err folder_open(const void *config, uint64_t seed, fast_data **train_out,
                            fast_data **test_out)
{
    (void)seed;
    const folder_config *c = config;
    fast_picture_list train = { .count = 0 }, test = { .count = 0 };
    if (c->path[0] == 0)
        return fast__fail(FAST_EINVAL, "data folder needs a folder: folder:path=PATH");
    fast_err err = list_parts(c, &train, &test);
    if (!err)
        err = make_sets(c, &train, &test, train_out, test_out);
    fast__picture_list_fini(&train);
    fast__picture_list_fini(&test);
    return err;
}

const fast_data_kind fast__data_folder = {
    .name = "folder",
    .summary = "PNG and JPEG pictures in a folder for each class",
    .options = folder_options,
    .config_size = sizeof(folder_config),
    .open = folder_open,
};
