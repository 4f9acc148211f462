/* SPDX-License-Identifier: Apache-2.0 */
/*
 * JPEG by libjpeg-turbo: grey or RGB rows, baseline and progressive. CMYK, which is for print, is
 * refused. The memory of libjpeg is limited, and so is the number of scans: a progressive file of a
 * few kilobytes can ask for thousands of passes over all pixels. A file that libjpeg repairs
 * (truncated, bad codes) counts as damaged: training on grey areas would be silent harm.
 *
 * libjpeg writes to no temporary file here: where the coefficients of a progressive picture do not
 * fit into the limit, it fails, and the file is refused.
 *
 * The EXIF orientation is tag 0x0112 of the first directory in the APP1 segment:
 *
 *   "Exif\0\0", "II" or "MM", 42, offset of a directory
 *   number of entries; 12 bytes each: tag, type, count, value
 */
#include "base/memory.h"
#include "data/picture_decoder.h"

#ifdef FAST_HAVE_JPEG
#include <setjmp.h>
#include <stdio.h>
#include <string.h>

#include <jpeglib.h>

#include <jerror.h>

enum { SCANS_MAX = 100, EXIF_MAX = 65533, TAG_ORIENTATION = 0x0112, EXIF_HEAD = 6 };

/* One file that is being decoded. libjpeg hands its own structs to callbacks, which are the first
 * fields, so that a cast finds the rest. */
typedef struct jpeg_work {
    struct jpeg_decompress_struct jpeg; /* libjpeg's state */
    struct jpeg_error_mgr errors;       /* its callbacks */
    struct jpeg_progress_mgr progress;  /* called now and again: counts scans */
    fast_picture_work *work;            /* where rows go */
    uint8_t *row;                       /* one row */
    fast_err err;                       /* why it jumped */
    jmp_buf jump;                       /* where it jumps */
} jpeg_work;

/* libjpeg found an error. */
static _Noreturn void jpeg_failed(j_common_ptr jpeg)
{
    jpeg_work *w = (jpeg_work *)jpeg;
    char text[JMSG_LENGTH_MAX];
    jpeg->err->format_message(jpeg, text);
    if (jpeg->err->msg_code == JERR_OUT_OF_MEMORY || jpeg->err->msg_code == JERR_NO_BACKING_STORE)
        w->err = fast__fail(FAST_EFORMAT, "%s needs more than %d MB to decode: make it smaller",
                            w->work->name, FAST_PICTURE_MEMORY_MAX >> 20);
    else
        w->err = fast__fail(FAST_EFORMAT, "%s is a damaged JPEG file: %s", w->work->name, text);
    longjmp(w->jump, 1);
}

/* A warning: the file is damaged, and libjpeg would guess. Bytes between segments do no harm. */
static void jpeg_warned(j_common_ptr jpeg, int level)
{
    if (level < 0 && jpeg->err->msg_code != JWRN_EXTRANEOUS_DATA &&
        jpeg->err->msg_code != JWRN_ADOBE_XFORM)
        jpeg_failed(jpeg);
}

/* The library never prints. */
static void jpeg_ignored(j_common_ptr jpeg)
{
    (void)jpeg;
}

/* Refuse files with too many scans. */
static void jpeg_progressed(j_common_ptr jpeg)
{
    jpeg_work *w = (jpeg_work *)jpeg;
    if (w->jpeg.input_scan_number <= SCANS_MAX)
        return;
    w->err = fast__fail(FAST_EFORMAT, "%s has more than %d scans: save it again", w->work->name,
                        SCANS_MAX);
    longjmp(w->jump, 1);
}

/* A number of 2 or 4 bytes, in the byte order of the segment. */
static uint32_t exif_number(const uint8_t *at, int width, bool big)
{
    uint32_t value = 0;
    for (int i = 0; i < width; i++)
        value |= (uint32_t)at[i] << 8 * (big ? width - 1 - i : i);
    return value;
}

/* Return the orientation of an APP1 segment, or 1. */
static int exif_orientation(const uint8_t *bytes, size_t size)
{
    if (size < EXIF_HEAD + 8 || memcmp(bytes, "Exif\0", EXIF_HEAD) != 0)
        return 1;
    bytes += EXIF_HEAD;
    size -= EXIF_HEAD;
    const bool big = bytes[0] == 'M';
    const uint32_t start = exif_number(bytes + 4, 4, big);
    if (start > size - 2)
        return 1;
    const uint32_t count = exif_number(bytes + start, 2, big);
    for (uint32_t i = 0; i < count; i++) {
        const size_t at = start + 2 + (size_t)i * 12;
        if (at + 12 > size)
            return 1;
        if (exif_number(bytes + at, 2, big) != TAG_ORIENTATION)
            continue;
        const uint32_t value = exif_number(bytes + at + 8, 2, big);
        return value >= 1 && value <= 8 ? (int)value : 1;
    }
    return 1;
}

/* Read the header and start the picture. */
static fast_err begin(jpeg_work *w)
{
    struct jpeg_decompress_struct *jpeg = &w->jpeg;
    jpeg_save_markers(jpeg, JPEG_APP0 + 1, EXIF_MAX);
    jpeg_read_header(jpeg, TRUE);
    for (jpeg_saved_marker_ptr m = jpeg->marker_list; m != NULL; m = m->next) {
        const int orientation = exif_orientation(m->data, m->data_length);
        if (orientation > 1)
            w->work->orientation = orientation;
    }
    if (jpeg->jpeg_color_space == JCS_CMYK || jpeg->jpeg_color_space == JCS_YCCK)
        return fast__fail(FAST_EFORMAT, "%s has the colours of a printer (CMYK): convert it to RGB",
                          w->work->name);
    const bool grey = jpeg->jpeg_color_space == JCS_GRAYSCALE;
    jpeg->out_color_space = grey ? JCS_GRAYSCALE : JCS_RGB;
    jpeg->dct_method = JDCT_ISLOW;
    return fast__picture_begin(w->work, jpeg->image_height, jpeg->image_width, grey ? 1 : 3,
                               FAST_PICTURE_PIXELS_MAX);
}

/* Everything that may jump. */
static fast_err jpeg_run(jpeg_work *w)
{
    if (setjmp(w->jump))
        return w->err;
    jpeg_create_decompress(&w->jpeg);
    w->jpeg.mem->max_memory_to_use = FAST_PICTURE_MEMORY_MAX;
    w->jpeg.progress = &w->progress;
    w->progress.progress_monitor = jpeg_progressed;
    jpeg_mem_src(&w->jpeg, w->work->bytes, w->work->size);
    FAST_TRY(begin(w));
    if (w->work->form == NULL)
        return FAST_OK;
    jpeg_start_decompress(&w->jpeg);
    const fast_picture_form *source = &w->work->source;
    FAST_ASSERT(w->jpeg.output_components == source->channels);
    FAST_TRY(fast__alloc("a row of a JPEG file", source->width, (size_t)source->channels, &w->row));
    while (w->jpeg.output_scanline < w->jpeg.output_height) {
        jpeg_read_scanlines(&w->jpeg, &w->row, 1);
        fast__picture_row(w->work, w->row);
    }
    jpeg_finish_decompress(&w->jpeg);
    return FAST_OK;
}

/* Set the callbacks, run, destroy the state in any case. */
fast_err fast__jpeg_decode(fast_picture_work *work)
{
    jpeg_work w = { .work = work };
    w.jpeg.err = jpeg_std_error(&w.errors);
    w.errors.error_exit = jpeg_failed;
    w.errors.emit_message = jpeg_warned;
    w.errors.output_message = jpeg_ignored;
    const fast_err err = jpeg_run(&w);
    jpeg_destroy_decompress(&w.jpeg);
    fast__free(w.row);
    return err;
}
#else
fast_err fast__jpeg_decode(fast_picture_work *work)
{
    return fast__fail(FAST_ENOTSUP,
                      "%s: this build reads no JPEG files; install libjpeg-dev and build again",
                      work->name);
}
#endif
