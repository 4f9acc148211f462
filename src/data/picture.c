/* SPDX-License-Identifier: Apache-2.0 */
/*
 * From a file to pixels of one form.
 *
 *   decoder (picture_png.c, picture_jpeg.c) -> rows -> channels -> resample -> upright
 *
 * Files are recognised by their first bytes, whatever their name says: pictures from the web often
 * have the wrong ending.
 *
 * A picture is never in memory as a whole, unless its format forbids rows in order (interlaced PNG;
 * progressive JPEG, whose coefficients libjpeg holds). Sizes are compared with limits before
 * anything is allocated, so a file of a few bytes that claims to be 60,000 pixels wide costs
 * nothing. Orientation is applied to the small result: sizes are exchanged before resizing where it
 * is a quarter of a circle.
 */
#include "data/picture.h"

#include "base/file.h"
#include "base/memory.h"
#include "data/picture_decoder.h"

#include <stdlib.h>
#include <string.h>

/* Check the size, then prepare to resize; a quarter of a circle exchanges the sides. */
fast_err fast__picture_begin(fast_picture_work *work, int64_t height, int64_t width,
                             int64_t channels, int64_t pixels_max)
{
    FAST_ASSERT(channels == 1 || channels == 3);
    if (height < 1 || width < 1 || height > pixels_max / width)
        return fast__fail(FAST_EFORMAT,
                          "%s has %lld x %lld pixels; at most %lld are read: make it smaller",
                          work->name, (long long)width, (long long)height, (long long)pixels_max);
    work->source = (fast_picture_form){ height, width, channels };
    if (work->form == NULL)
        return FAST_OK;
    const bool lies = work->orientation >= 5;
    work->resample = (fast_resample){ .source_height = height,
                                      .source_width = width,
                                      .height = lies ? work->form->width : work->form->height,
                                      .width = lies ? work->form->height : work->form->width,
                                      .channels = work->form->channels };
    FAST_TRY(fast__alloc("a row of a picture", width, 3, &work->line));
    return fast__resample_init(&work->resample);
}

/* Convert to the form's channels: before resizing, so that a grey form costs a third. */
void fast__picture_row(fast_picture_work *work, const uint8_t *pixels)
{
    const int64_t width = work->source.width;
    if (work->source.channels == work->form->channels) {
        fast__resample_add(&work->resample, pixels);
        return;
    }
    for (int64_t i = 0; i < width; i++) {
        if (work->form->channels == 3) {
            work->line[3 * i] = work->line[3 * i + 1] = work->line[3 * i + 2] = pixels[i];
        } else {
            const uint8_t *p = pixels + 3 * i;
            work->line[i] = (uint8_t)((299 * p[0] + 587 * p[1] + 114 * p[2] + 500) / 1000);
        }
    }
    fast__resample_add(&work->resample, work->line);
}

/* Copy planes of H x W, which lie as orientation says, to upright ones. EXIF names the places of
 * the first row and the first column:
 *
 *   1 top, left    2 top, right    3 bottom, right    4 bottom, left
 *   5 left, top    6 right, top    7 right, bottom    8 left, bottom
 *
 * From 5 on rows are columns. */
static void set_upright(const uint8_t *from, const fast_picture_form *form, int orientation,
                        uint8_t *to)
{
    const int64_t H = form->height, W = form->width;
    const bool lies = orientation >= 5;
    const bool mirror_x =
        orientation == 2 || orientation == 3 || orientation == 6 || orientation == 7;
    const bool mirror_y =
        orientation == 3 || orientation == 4 || orientation == 7 || orientation == 8;
    for (int64_t c = 0; c < form->channels; c++) {
        for (int64_t y = 0; y < H; y++) {
            for (int64_t x = 0; x < W; x++) {
                const int64_t v = mirror_y ? H - 1 - y : y;
                const int64_t u = mirror_x ? W - 1 - x : x;
                to[(c * H + y) * W + x] = from[c * H * W + (lies ? u * H + v : v * W + u)];
            }
        }
    }
}

/* Choose the decoder by the first bytes. */
static fast_err decode(fast_picture_work *work)
{
    static const uint8_t png[] = { 0x89, 'P', 'N', 'G', '\r', '\n', 0x1a, '\n' };
    static const uint8_t jpeg[] = { 0xff, 0xd8, 0xff };
    if (work->size >= sizeof png && memcmp(work->bytes, png, sizeof png) == 0)
        return fast__png_decode(work);
    if (work->size >= sizeof jpeg && memcmp(work->bytes, jpeg, sizeof jpeg) == 0)
        return fast__jpeg_decode(work);
    return fast__fail(FAST_EFORMAT, "%s is neither a PNG nor a JPEG file", work->name);
}

/* Write the resized picture, upright. */
static fast_err finish(const fast_picture_work *work, uint8_t *out)
{
    const fast_picture_form *form = work->form;
    if (work->orientation <= 1) {
        fast__resample_write(&work->resample, out);
        return FAST_OK;
    }
    uint8_t *planes;
    FAST_TRY(fast__alloc("a picture", form->height * form->width, (size_t)form->channels, &planes));
    fast__resample_write(&work->resample, planes);
    set_upright(planes, form, work->orientation, out);
    fast__free(planes);
    return FAST_OK;
}

/* Decode, finish, free in any case. */
fast_err fast__picture_decode(const char *name, const void *bytes, size_t size,
                              const fast_picture_form *form, uint8_t *out)
{
    FAST_ASSERT(form->channels == 1 || form->channels == 3);
    FAST_ASSERT(form->height > 0 && form->height <= FAST_PICTURE_SIDE_MAX);
    FAST_ASSERT(form->width > 0 && form->width <= FAST_PICTURE_SIDE_MAX);
    fast_picture_work work = {
        .name = name, .bytes = bytes, .size = size, .form = form, .orientation = 1
    };
    fast_err err = decode(&work);
    if (!err)
        err = finish(&work, out);
    fast__resample_fini(&work.resample);
    fast__free(work.line);
    fast__free(work.whole);
    return err;
}

/* Read the file whole: pictures are small, and decoders want to look back. */
fast_err fast__picture_read(const char *path, const fast_picture_form *form, uint8_t *out)
{
    void *bytes;
    size_t size;
    FAST_TRY(fast__file_read(path, FAST_PICTURE_FILE_MAX, &bytes, &size));
    const fast_err err = fast__picture_decode(path, bytes, size, form, out);
    fast__free(bytes);
    return err;
}

/* Decode the header alone. */
fast_err fast__picture_measure(const char *path, fast_picture_form *out)
{
    void *bytes;
    size_t size;
    FAST_TRY(fast__file_read(path, FAST_PICTURE_FILE_MAX, &bytes, &size));
    fast_picture_work work = { .name = path, .bytes = bytes, .size = size, .orientation = 1 };
    const fast_err err = decode(&work);
    fast__free(work.whole);
    fast__free(bytes);
    if (err)
        return err;
    *out = work.source;
    if (work.orientation >= 5) {
        out->height = work.source.width;
        out->width = work.source.height;
    }
    return FAST_OK;
}

/* Read a whole number of an object. */
static int64_t whole_of(const json_t *object, const char *key)
{
    const json_t *value = json_object_get(object, key);
    return json_is_integer(value) ? (int64_t)json_integer_value(value) : -1;
}

/* A recipe comes from a model file: numbers are checked. */
fast_err fast__picture_form_read(const json_t *recipe, fast_picture_form *out)
{
    const fast_picture_form form = { .height = whole_of(recipe, "height"),
                                     .width = whole_of(recipe, "width"),
                                     .channels = whole_of(recipe, "channels") };
    if (form.height < 1 || form.height > FAST_PICTURE_SIDE_MAX || form.width < 1 ||
        form.width > FAST_PICTURE_SIDE_MAX || (form.channels != 1 && form.channels != 3))
        return fast__fail(FAST_EFORMAT,
                          "a recipe of pictures needs height and width from 1 to %d and 1 or 3 "
                          "channels",
                          FAST_PICTURE_SIDE_MAX);
    *out = form;
    return FAST_OK;
}
