/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Folders of pictures:
 *
 *   FOLDER/cat/1.png  FOLDER/cat/2.jpg  FOLDER/dog/1.png      classes cat (0) and dog (1)
 *   FOLDER/1.png  FOLDER/2.png                                no classes
 *
 * One level of folders is read. Files with other endings are ignored, as notes and thumbnails lie
 * beside pictures; a text that ends in .png is an error when it is decoded.
 */
#include "data/picture_list.h"

#include "base/file.h"
#include "base/memory.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>

enum { CLASSES_MAX = 65536 };

/* FAST_ENOENT for a folder without pictures; names the kind of data that it has instead. */
static fast_err fail_empty(const char *path)
{
    static const struct {
        const char *file; /* by which the folder is known */
        const char *what; /* for people */
        const char *spec; /* to write before its path */
    } others[] = { { "index.json", "shards", "shards:dir=" },
                   { "data_batch_1.bin", "CIFAR-10", "cifar10:folder=" },
                   { "train.bin", "CIFAR-100", "cifar100:folder=" } };
    char name[FAST_PATH_MAX + 32];

    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++) {
        struct stat info;

        snprintf(name, sizeof name, "%s/%s", path, others[i].file);
        if (stat(name, &info) == 0)
            return fast__fail(FAST_ENOENT, "%s has no pictures, but %s: write %s%s", path,
                              others[i].what, others[i].spec, path);
    }
    return fast__fail(FAST_ENOENT,
                      "%s has no pictures: .png, .jpg or .jpeg files in a folder for each class",
                      path);
}

/* The list while it grows. */
typedef struct list_work {
    fast_picture_list list; /* as far as it is known */
    size_t text_size;       /* bytes of list.text that are used */
    size_t text_room;       /* bytes of list.text */
    int64_t room;           /* files that offsets and labels have room for */
    size_t names_size;      /* bytes of list.class_names that are used */
    size_t names_room;      /* bytes of list.class_names */
    bool given;             /* class names are the caller's */
} list_work;

/* Make room for `size` bytes, of which `used` are used: twice as large as before, at least. */
static fast_err grow(void *block, size_t used, size_t size, size_t *room)
{
    if (size <= *room)
        return FAST_OK;
    char *larger;
    const size_t next = size > 2 * *room ? size : 2 * *room;
    FAST_TRY(fast__alloc("a list of pictures", (int64_t)next, 1, &larger));
    char *old;
    memcpy(&old, block, sizeof old);
    if (used > 0)
        memcpy(larger, old, used);
    fast__free(old);
    memcpy(block, &larger, sizeof larger);
    *room = next;
    return FAST_OK;
}

/* Append a file. */
static fast_err add_file(list_work *w, const char *path, int32_t label)
{
    fast_picture_list *l = &w->list;
    const size_t size = strlen(path) + 1;
    FAST_TRY(grow(&l->text, w->text_size, w->text_size + size, &w->text_room));
    if (l->count == w->room) {
        size_t offsets = (size_t)w->room * sizeof *l->offsets;
        size_t labels = (size_t)w->room * sizeof *l->labels;
        const size_t next = w->room > 0 ? (size_t)w->room * 2 : 64;
        FAST_TRY(grow(&l->offsets, offsets, next * sizeof *l->offsets, &offsets));
        FAST_TRY(grow(&l->labels, labels, next * sizeof *l->labels, &labels));
        w->room = (int64_t)next;
    }
    memcpy(l->text + w->text_size, path, size);
    l->offsets[l->count] = (int64_t)w->text_size;
    l->labels[l->count++] = label;
    w->text_size += size;
    return FAST_OK;
}

/* Return the number of a class of the caller's, or -1. */
static int32_t find_class(const fast_picture_list *list, const char *name)
{
    const char *at = list->class_names;
    for (int64_t i = 0; i < list->classes; i++, at += strlen(at) + 1) {
        if (strcmp(at, name) == 0)
            return (int32_t)i;
    }
    return -1;
}

/* Append a class of this name, and return its number. */
static fast_err add_class(list_work *w, const char *name, int32_t *label_out)
{
    fast_picture_list *l = &w->list;
    const size_t size = strlen(name) + 1;
    if (l->classes == CLASSES_MAX)
        return fast__fail(FAST_EFORMAT, "there are more than %d folders of pictures", CLASSES_MAX);
    FAST_TRY(grow(&l->class_names, w->names_size, w->names_size + size, &w->names_room));
    memcpy(l->class_names + w->names_size, name, size);
    w->names_size += size;
    *label_out = (int32_t)l->classes++;
    return FAST_OK;
}

/* Leave out hidden files, "." and "..". */
static int is_visible(const struct dirent *entry)
{
    return entry->d_name[0] != '.';
}

/* Order of bytes, whatever the locale. */
static int by_bytes(const struct dirent **a, const struct dirent **b)
{
    return strcmp((*a)->d_name, (*b)->d_name);
}

/* Files are pictures by their ending. */
static bool is_picture(const char *name)
{
    const char *dot = strrchr(name, '.');
    return dot != NULL && (strcasecmp(dot, ".png") == 0 || strcasecmp(dot, ".jpg") == 0 ||
                           strcasecmp(dot, ".jpeg") == 0);
}

/* Called for each entry of a folder; `path` ends with `name`. */
typedef fast_err entry_fn(list_work *w, const char *path, const char *name, bool folder,
                          int32_t label, bool answers);

/* Call `each` for the entries of a folder, in order. */
static fast_err walk(list_work *w, const char *folder, entry_fn *each, int32_t label, bool answers)
{
    struct dirent **entries;
    const int count = scandir(folder, &entries, is_visible, by_bytes);
    if (count < 0)
        return fast__fail(errno == ENOMEM ? FAST_ENOMEM : FAST_EIO, "cannot read the folder %s: %s",
                          folder, strerror(errno));
    fast_err err = FAST_OK;
    for (int i = 0; i < count; i++) {
        char path[FAST_PATH_MAX];
        struct stat info;
        const int length = snprintf(path, sizeof path, "%s/%s", folder, entries[i]->d_name);
        if (!err && length >= (int)sizeof path)
            err = fast__fail(FAST_EFORMAT, "the path of %s is too long", entries[i]->d_name);
        /* A link that leads nowhere is a picture that cannot be read, and counts as one. */
        const bool there = !err && stat(path, &info) == 0;
        if (there || (!err && errno == ENOENT))
            err = each(w, path, entries[i]->d_name, there && S_ISDIR(info.st_mode), label, answers);
        free(entries[i]);
    }
    free(entries);
    return err;
}

/* An entry of the folder of a class. */
static fast_err add_entry(list_work *w, const char *path, const char *name, bool folder,
                          int32_t label, bool answers)
{
    (void)answers;
    return !folder && is_picture(name) ? add_file(w, path, label) : FAST_OK;
}

/* An entry of the whole folder: a class is a folder with pictures in it; an empty one would be a
 * class without samples. */
static fast_err add_folder(list_work *w, const char *path, const char *name, bool folder,
                           int32_t label, bool answers)
{
    if (!folder)
        return FAST_OK;
    const int64_t before = w->list.count;
    FAST_TRY(walk(w, path, add_entry, -1, answers));
    if (w->list.count == before)
        return FAST_OK;
    if (!w->given)
        FAST_TRY(add_class(w, name, &label));
    else
        label = find_class(&w->list, name);
    if (label < 0 && answers)
        return fast__fail(FAST_EFORMAT, "%s is no class of the model; its first one is %s", path,
                          w->list.class_names != NULL ? w->list.class_names : "without a name");
    for (int64_t i = before; i < w->list.count; i++)
        w->list.labels[i] = label;
    return FAST_OK;
}

/* Copy the class names of the caller. */
static fast_err take_names(list_work *w, const char *class_names, int64_t classes)
{
    const char *at = class_names;
    for (int64_t i = 0; i < classes; i++, at += strlen(at) + 1) {
        int32_t label;
        FAST_TRY(add_class(w, at, &label));
    }
    w->given = true;
    return FAST_OK;
}

/* Fill the list. */
static fast_err fill(list_work *w, const char *path, bool answers)
{
    struct stat info;
    if (stat(path, &info) != 0)
        return fast__fail(FAST_ENOENT, "there is no folder or picture %s", path);
    if (!S_ISDIR(info.st_mode))
        return add_file(w, path, -1);
    FAST_TRY(walk(w, path, add_folder, -1, answers));
    if (w->list.count == 0)
        FAST_TRY(walk(w, path, add_entry, -1, answers));
    return w->list.count > 0 ? FAST_OK : fail_empty(path);
}

/* Names of the caller first, then the files. */
fast_err fast__picture_list_open(const char *path, const char *class_names, int64_t classes,
                                 bool answers, fast_picture_list *out)
{
    list_work w = { .room = 0 };
    fast_err err = class_names != NULL ? take_names(&w, class_names, classes) : FAST_OK;
    if (!err)
        err = fill(&w, path, answers);
    if (err) {
        fast__picture_list_fini(&w.list);
        return err;
    }
    *out = w.list;
    return FAST_OK;
}

/* Free the arrays; an empty list is fine. */
void fast__picture_list_fini(fast_picture_list *list)
{
    fast__free(list->text);
    fast__free(list->offsets);
    fast__free(list->labels);
    fast__free(list->class_names);
    *list = (fast_picture_list){ .count = 0 };
}

const char *fast__picture_path(const fast_picture_list *list, int64_t i)
{
    FAST_ASSERT(i >= 0 && i < list->count);
    return list->text + list->offsets[i];
}
