/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "data/picture.h"
#include "data/resample.h"

/*
 * Between a decoder of one file format and picture.c, which makes the form of its rows. A decoder
 * calls fast__picture_begin() once it knows the size, then fast__picture_row() for each row from
 * the top. Private to this folder.
 */
typedef struct fast_picture_work {
    const char *name;              /* of the file, for messages */
    const uint8_t *bytes;          /* the file */
    size_t size;                   /* bytes of the file */
    const fast_picture_form *form; /* wanted; NULL: only the size is */
    fast_picture_form source;      /* of the file, before its orientation; set by begin */
    int orientation;               /* EXIF: 1 to 8; 1 is upright */
    fast_resample resample;        /* from the source to the form */
    uint8_t *line;                 /* one row in the form's channels */
    uint8_t *whole;                /* the decoder's own: a whole picture, if it needs one */
} fast_picture_work;

/* Start a picture of `channels` (1 or 3) bytes a pixel. FAST_EFORMAT if it has more than
 * `pixels_max` pixels, FAST_ENOMEM. */
fast_err fast__picture_begin(fast_picture_work *work, int64_t height, int64_t width,
                             int64_t channels, int64_t pixels_max);

/* Add the next row, in the source's channels. */
void fast__picture_row(fast_picture_work *work, const uint8_t *pixels);

/* The decoders. With work->form NULL they stop after fast__picture_begin(). */
fast_err fast__png_decode(fast_picture_work *work);
fast_err fast__jpeg_decode(fast_picture_work *work);
