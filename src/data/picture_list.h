/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "base/err.h"

/*
 * Files of pictures, by class: the folder that a file is in is its class. Names are sorted by their
 * bytes, so that the order is the same everywhere.
 */
typedef struct fast_picture_list {
    int64_t count;     /* number of files */
    char *text;        /* paths, each with its zero byte, one after the other */
    int64_t *offsets;  /* [count]: where a path starts in `text` */
    int32_t *labels;   /* [count]: class, or -1 for a file in no class's folder */
    char *class_names; /* names of the classes, each with its zero byte; NULL without classes */
    int64_t classes;   /* number of classes */
} fast_picture_list;

/* List one file, or all .png, .jpg and .jpeg files of a folder: those of its sub-folders, which are
 * the classes, or, if it has no sub-folder with pictures, its own, without a class. Hidden files
 * are left out. Given `class_names`, `classes` of them, classes have those numbers; a sub-folder of
 * another name is FAST_EFORMAT if `answers` are wanted, else its files have no class. FAST_ENOENT
 * without any picture, FAST_EIO, FAST_ENOMEM. */
fast_err fast__picture_list_open(const char *path, const char *class_names, int64_t classes,
                                 bool answers, fast_picture_list *out);
void fast__picture_list_fini(fast_picture_list *list);

/* Return the path of file `i`. */
const char *fast__picture_path(const fast_picture_list *list, int64_t i);
