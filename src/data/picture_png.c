/* SPDX-License-Identifier: Apache-2.0 */
/*
 * PNG by libpng: all bit depths and colour types become 8 bits of grey or RGB; palettes are looked
 * up, 16 bits scaled, alpha dropped. Ancillary chunks (colour profiles, texts) expand to at most
 * CHUNK_MAX bytes, and take no more memory than the file has. Rows arrive in order; an interlaced
 * picture needs all of them in memory, up to FAST_PICTURE_WHOLE_PIXELS_MAX pixels.
 *
 * Colours are taken as they are: gamma and profiles are not applied, as in other readers of
 * training pictures. A transparent pixel has the colour that is stored below its alpha.
 *
 * libpng reports errors by a function that must not return: it jumps to png_run(), whose state is
 * all in one struct, so that nothing is lost by the jump.
 */
#include "base/memory.h"
#include "data/byte_reader.h"
#include "data/picture_decoder.h"

#ifdef FAST_HAVE_PNG
#include <png.h>
#include <setjmp.h>
#include <stdlib.h>
#include <string.h>

enum { CHUNK_MAX = 1 << 20, CHUNKS_MAX = 16 }; /* bytes and number of ancillary chunks */
enum { ROW_MAX = 16 << 20 };                   /* bytes of a row, and of zlib's state, at most */

/* One file that is being decoded. */
typedef struct png_work {
    fast_picture_work *work; /* where rows go */
    size_t at;               /* bytes of the file that were read */
    png_structp png;         /* libpng's state */
    png_infop info;          /* the header */
    uint8_t *row;            /* one row as libpng writes it */
    uint8_t **rows;          /* of an interlaced picture: rows of work->whole */
    fast_err err;            /* why it jumped */
    jmp_buf jump;            /* where it jumps */
} png_work;

/* libpng found an error. */
static _Noreturn void png_failed(png_structp png, const char *text)
{
    png_work *w = png_get_error_ptr(png);
    if (!w->err)
        w->err = fast__fail(FAST_EFORMAT, "%s is a damaged PNG file: %s", w->work->name, text);
    longjmp(w->jump, 1);
}

/* Warnings concern chunks that are not used. */
static void png_warned(png_structp png, const char *text)
{
    (void)png;
    (void)text;
}

/* Give libpng the next bytes of the file. */
static void png_feed(png_structp png, uint8_t *out, size_t size)
{
    png_work *w = png_get_io_ptr(png);
    if (size > w->work->size - w->at)
        png_error(png, "it ends early");
    memcpy(out, w->work->bytes + w->at, size);
    w->at += size;
}

/* Memory of libpng, which is counted as all other. It allocates a text by the length that its chunk
 * claims, before it reads a byte of it. */
static void *png_take(png_structp png, size_t size)
{
    png_work *w = png_get_mem_ptr(png);
    void *memory = NULL;
    fast_err err;
    if (w != NULL && size > w->work->size + ROW_MAX)
        err = fast__fail(FAST_EFORMAT, "%s is a damaged PNG file: a chunk claims %zu bytes",
                         w->work->name, size);
    else
        err = fast__alloc("a PNG file", (int64_t)size, 1, &memory);
    if (err && w != NULL)
        w->err = err;
    return memory;
}

/* Free memory of libpng. */
static void png_give(png_structp png, void *memory)
{
    (void)png;
    fast__free(memory);
}

/* Ask for 8 bits of grey or RGB; return the channels. */
static int64_t set_transforms(png_work *w)
{
    const int type = png_get_color_type(w->png, w->info);
    png_set_expand(w->png);
    png_set_scale_16(w->png);
    png_set_strip_alpha(w->png);
    return type == PNG_COLOR_TYPE_GRAY || type == PNG_COLOR_TYPE_GRAY_ALPHA ? 1 : 3;
}

/* Refuse sizes that deflate cannot make of a file of this size; start the picture. */
static fast_err begin(png_work *w, bool *interlaced_out)
{
    fast_picture_work *work = w->work;
    const int64_t width = png_get_image_width(w->png, w->info);
    const int64_t height = png_get_image_height(w->png, w->info);
    const int64_t row_size = (int64_t)png_get_rowbytes(w->png, w->info);
    *interlaced_out = png_get_interlace_type(w->png, w->info) != PNG_INTERLACE_NONE;
    if (row_size * height > (int64_t)work->size * FAST_DEFLATE_RATIO_MAX)
        return fast__fail(FAST_EFORMAT,
                          "%s claims to have %lld x %lld pixels, which its %zu bytes cannot hold",
                          work->name, (long long)width, (long long)height, work->size);
    return fast__picture_begin(work, height, width, set_transforms(w),
                               *interlaced_out ? FAST_PICTURE_WHOLE_PIXELS_MAX
                                               : FAST_PICTURE_PIXELS_MAX);
}

/* Decode all rows, each when it is complete. */
static fast_err read_rows(png_work *w, bool interlaced)
{
    const fast_picture_form *source = &w->work->source;
    if (interlaced)
        png_set_interlace_handling(w->png);
    png_read_update_info(w->png, w->info);
    const int64_t row_size = (int64_t)png_get_rowbytes(w->png, w->info);
    FAST_ASSERT(row_size == source->width * source->channels);
    if (!interlaced) {
        FAST_TRY(fast__alloc("a row of a PNG file", row_size, 1, &w->row));
        for (int64_t y = 0; y < source->height; y++) {
            png_read_row(w->png, w->row, NULL);
            fast__picture_row(w->work, w->row);
        }
        return FAST_OK;
    }
    FAST_TRY(fast__alloc("a PNG file", source->height, (size_t)row_size, &w->work->whole));
    FAST_TRY(fast__alloc("rows of a PNG file", source->height, sizeof *w->rows, &w->rows));
    for (int64_t y = 0; y < source->height; y++)
        w->rows[y] = w->work->whole + y * row_size;
    png_read_image(w->png, w->rows);
    for (int64_t y = 0; y < source->height; y++)
        fast__picture_row(w->work, w->rows[y]);
    return FAST_OK;
}

/* Everything that may jump. */
static fast_err png_run(png_work *w)
{
    bool interlaced;
    if (setjmp(w->jump))
        return w->err;
    w->info = png_create_info_struct(w->png);
    if (w->info == NULL)
        return w->err ? w->err : fast__fail(FAST_ENOMEM, "no memory for a PNG file");
    png_set_user_limits(w->png, 1 << 20, 1 << 20);
    png_set_chunk_malloc_max(w->png, CHUNK_MAX);
    png_set_chunk_cache_max(w->png, CHUNKS_MAX);
    png_set_read_fn(w->png, w, png_feed);
    png_read_info(w->png, w->info);
    FAST_TRY(begin(w, &interlaced));
    if (w->work->form == NULL)
        return FAST_OK;
    FAST_TRY(read_rows(w, interlaced));
    png_read_end(w->png, NULL);
    return FAST_OK;
}

/* Make the state of libpng, run, destroy it in any case. */
fast_err fast__png_decode(fast_picture_work *work)
{
    png_work w = { .work = work };
    if (setjmp(w.jump))
        return w.err;
    w.png = png_create_read_struct_2(PNG_LIBPNG_VER_STRING, &w, png_failed, png_warned, &w,
                                     png_take, png_give);
    if (w.png == NULL)
        return w.err ? w.err : fast__fail(FAST_ENOMEM, "no memory for a PNG file");
    const fast_err err = png_run(&w);
    png_destroy_read_struct(&w.png, &w.info, NULL);
    fast__free(w.row);
    fast__free(w.rows);
    return err;
}
#else
fast_err fast__png_decode(fast_picture_work *work)
{
    return fast__fail(FAST_ENOTSUP,
                      "%s: this build reads no PNG files; install libpng-dev and build again",
                      work->name);
}
#endif
