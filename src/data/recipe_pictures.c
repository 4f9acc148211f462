/* SPDX-License-Identifier: Apache-2.0 */
/*
 * New pictures for a model: one PNG or JPEG file, or a folder of them, decoded to the form of the
 * training set, batch by batch. With answers the sub-folders of the folder are the classes, by
 * their names; without, every file is a sample, whatever its folder. Samples are in the order of
 * their sorted paths. Memory: the paths, and one batch.
 */
#include "base/file.h"
#include "base/memory.h"
#include "data/picture.h"
#include "data/picture_list.h"
#include "data/recipe.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

typedef struct picture_source {
    fast_source base;
    const fast_recipe *recipe; /* borrowed */
    fast_picture_form form;    /* of a sample */
    fast_picture_list list;    /* files, by class */
    int64_t done;              /* files that were handed out */
} picture_source;

/* Decode one file into sample i. FAST_EFORMAT for a file without a class where answers are
 * wanted. */
static fast_err read_picture(const picture_source *self, int64_t i, fast_data *data)
{
    const int64_t file = self->done + i;
    const char *path = fast__picture_path(&self->list, file);

    if (self->base.answers && self->list.labels[file] < 0)
        return fast__fail(FAST_EFORMAT, "%s is in no folder of a class that the model knows", path);
    if (self->base.answers)
        data->labels[i] = self->list.labels[file];
    return fast__picture_read(path, &self->form, (uint8_t *)data->x + i * data->features);
}

/* Decode the next files. A file that cannot be decoded ends the prediction with its name: a missing
 * row would shift all that follow. */
static fast_err picture_next(fast_source *source, int64_t count, fast_data **out)
{
    picture_source *self = (picture_source *)source;
    const int64_t left = self->list.count - self->done;
    fast_data *data;
    fast_err err = FAST_OK;

    *out = NULL;
    if (left == 0)
        return FAST_OK;
    count = count < left ? count : left;
    FAST_TRY(fast__recipe_set(self->recipe, FAST_U8, count, &data));
    for (int64_t i = 0; i < count && !err; i++)
        err = read_picture(self, i, data);
    if (err) {
        fast_data_free(data);
        return err;
    }
    self->done += count;
    *out = data;
    return FAST_OK;
}

/* The path of a picture. */
static const char *picture_name(const fast_source *source, int64_t sample)
{
    return fast__picture_path(&((const picture_source *)source)->list, sample);
}

/* Free the list of files. */
static void picture_close(fast_source *source)
{
    picture_source *self = (picture_source *)source;

    fast__picture_list_fini(&self->list);
    fast__free(self);
}

/* Write the folder of the samples: PATH/test if PATH is a data set of train and test, else PATH. A
 * model has seen the pictures of the first, and figures on them say little. Folders of this name
 * cannot be classes there: the training set was read in the same way. */
static void find_folder(const char *path, char folder[FAST_PATH_MAX])
{
    char train[FAST_PATH_MAX + 8];
    struct stat info;

    snprintf(train, sizeof train, "%s/train", path);
    const bool parts = stat(train, &info) == 0 && S_ISDIR(info.st_mode);
    if (!parts || snprintf(folder, FAST_PATH_MAX, "%s/test", path) >= FAST_PATH_MAX ||
        stat(folder, &info) != 0)
        snprintf(folder, FAST_PATH_MAX, "%s", path);
}

/* Read the form and list the files. Form and shape both come from the model's file, and a hostile
 * one may contradict itself. */
static fast_err open_parts(picture_source *self, const char *path)
{
    const fast_data *like = self->recipe->like;
    const fast_picture_form *form = &self->form;

    FAST_TRY(fast__picture_form_read(self->recipe->source, &self->form));
    if (like->rank != 3 || like->shape[0] != form->channels || like->shape[1] != form->height ||
        like->shape[2] != form->width || like->classes == 0 || like->positions != 1)
        return fast__fail(FAST_EFORMAT,
                          "the model's pictures of %lldx%lld pixels do not fit its network",
                          (long long)form->height, (long long)form->width);
    char folder[FAST_PATH_MAX];
    find_folder(path, folder);
    return fast__picture_list_open(folder, like->class_names, like->class_names ? like->classes : 0,
                                   self->base.answers, &self->list);
}

/* Open a file or a folder. */
fast_err fast__picture_source_open(const fast_recipe *recipe, const char *path, bool answers,
                                   fast_source **out)
{
    picture_source *self;

    if (strcmp(path, "-") == 0)
        return fast__fail(FAST_EINVAL, "pictures are read from files, not from standard input");
    FAST_TRY(fast__alloc("a source", 1, sizeof *self, &self));
    self->base = (fast_source){
        .answers = answers, .next = picture_next, .name = picture_name, .close = picture_close
    };
    self->recipe = recipe;
    const fast_err err = open_parts(self, path);
    if (err) {
        fast__free(self);
        return err;
    }
    *out = &self->base;
    return FAST_OK;
}
