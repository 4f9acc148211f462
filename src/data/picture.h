/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "base/err.h"
#include "base/json.h"

/*
 * Pictures in files: PNG (libpng) and JPEG (libjpeg-turbo), decoded to bytes of one form. Files are
 * hostile: no file makes these functions take more memory than FAST_PICTURE_MEMORY_MAX and the
 * result. A build without a library refuses its files with FAST_ENOTSUP and the package's name.
 */
enum {
    FAST_PICTURE_SIDE_MAX = 2048,            /* largest height and width of a form */
    FAST_PICTURE_FILE_MAX = 64 << 20,        /* largest file */
    FAST_PICTURE_PIXELS_MAX = 1 << 26,       /* pixels of a picture that is read row by row */
    FAST_PICTURE_WHOLE_PIXELS_MAX = 1 << 24, /* pixels of one that is not: interlaced */
    FAST_PICTURE_MEMORY_MAX = 128 << 20      /* bytes that decoding takes at most */
};

/* The form of every picture of a set: x is [channels][height][width] bytes. */
typedef struct fast_picture_form {
    int64_t height;   /* 1 to FAST_PICTURE_SIDE_MAX */
    int64_t width;    /* 1 to FAST_PICTURE_SIDE_MAX */
    int64_t channels; /* 1: grey, 3: red, green, blue */
} fast_picture_form;

/* Decode a file in memory to `form`: resized, upright as its EXIF orientation says, without its
 * alpha channel; grey is 0.299 R + 0.587 G + 0.114 B. `name` is for messages. FAST_EFORMAT if it is
 * no such file, damaged, too large or in CMYK; FAST_ENOTSUP, FAST_ENOMEM. */
fast_err fast__picture_decode(const char *name, const void *bytes, size_t size,
                              const fast_picture_form *form, uint8_t *out);

/* Read and decode a file. */
fast_err fast__picture_read(const char *path, const fast_picture_form *form, uint8_t *out);

/* Read the size in pixels of a file, as it is shown upright, and its channels: 1 or 3. */
fast_err fast__picture_measure(const char *path, fast_picture_form *out);

/* Read a form from a recipe {"kind": "pictures", "height": H, "width": W, "channels": C}.
 * FAST_EFORMAT. */
fast_err fast__picture_form_read(const json_t *recipe, fast_picture_form *out);
