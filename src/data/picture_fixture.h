/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * For the tests of pictures: PNG and JPEG files in memory, made by the libraries' own writers.
 */
#include "data/data_fixture.h"

#include <stdlib.h>

enum { SIDE_MAX = 256 }; /* of the pictures of tests */

#ifdef FAST_HAVE_PNG
#include <png.h>

/* How a PNG file is written. */
typedef struct png_made {
    int width;      /* pixels */
    int height;     /* pixels */
    int type;       /* PNG_COLOR_TYPE_* */
    int depth;      /* bits of a sample */
    bool interlace; /* Adam7 */
} png_made;

/* Append what libpng writes to the file. */
static inline void png_append(png_structp png, png_bytep from, png_size_t size)
{
    put(png_get_io_ptr(png), from, size);
}

/* Memory needs no flush. */
static inline void png_flushed(png_structp png)
{
    (void)png;
}

/* Write rows, which hold bytes as PNG has them: 16 bits are big endian, fewer than 8 are packed.
 * A palette has two colours. An error of libpng ends the test. */
static inline void png_make(const png_made *how, const uint8_t *rows, bytes *out)
{
    png_structp png = png_create_write_struct(PNG_LIBPNG_VER_STRING, NULL, NULL, NULL);
    png_infop info = png_create_info_struct(png);
    assert_int_equal(setjmp(png_jmpbuf(png)), 0);
    out->size = 0;
    png_set_write_fn(png, out, png_append, png_flushed);
    png_set_IHDR(png, info, (png_uint_32)how->width, (png_uint_32)how->height, how->depth,
                 how->type, how->interlace ? PNG_INTERLACE_ADAM7 : PNG_INTERLACE_NONE,
                 PNG_COMPRESSION_TYPE_DEFAULT, PNG_FILTER_TYPE_DEFAULT);
    if (how->type == PNG_COLOR_TYPE_PALETTE) {
        const png_color palette[2] = { { 10, 20, 30 }, { 200, 100, 50 } };
        png_set_PLTE(png, info, palette, 2);
    }
    png_write_info(png, info);
    const size_t row_size = png_get_rowbytes(png, info);
    const int passes = how->interlace ? png_set_interlace_handling(png) : 1;
    for (int pass = 0; pass < passes; pass++)
        for (int y = 0; y < how->height; y++)
            png_write_row(png, rows + (size_t)y * row_size);
    png_write_end(png, info);
    png_destroy_write_struct(&png, &info);
}
#endif

#ifdef FAST_HAVE_JPEG
#include <jpeglib.h>

/* How a JPEG file is written. */
typedef struct jpeg_made {
    int width;        /* pixels */
    int height;       /* pixels */
    int channels;     /* 1, 3, or 4 for CMYK */
    bool progressive; /* several scans */
    int orientation;  /* EXIF; 0: no EXIF */
} jpeg_made;

/* Write pixels, `channels` bytes each. The EXIF segment has one entry, the orientation. */
static inline void jpeg_make(const jpeg_made *how, const uint8_t *pixels, bytes *out)
{
    struct jpeg_compress_struct jpeg;
    struct jpeg_error_mgr errors;
    unsigned char *memory = NULL;
    unsigned long size = 0;
    jpeg.err = jpeg_std_error(&errors);
    jpeg_create_compress(&jpeg);
    jpeg_mem_dest(&jpeg, &memory, &size);
    jpeg.image_width = (JDIMENSION)how->width;
    jpeg.image_height = (JDIMENSION)how->height;
    jpeg.input_components = how->channels;
    jpeg.in_color_space = how->channels == 1   ? JCS_GRAYSCALE
                          : how->channels == 3 ? JCS_RGB
                                               : JCS_CMYK;
    jpeg_set_defaults(&jpeg);
    jpeg_set_quality(&jpeg, 95, TRUE);
    if (how->progressive)
        jpeg_simple_progression(&jpeg);
    jpeg_start_compress(&jpeg, TRUE);
    if (how->orientation > 0) {
        uint8_t exif[] = {
            'E', 'x', 'i', 'f', 0,  0, 'M', 'M', 0, 42, 0, 0, 0,
            8,   0,   1,   1,   18, 0, 3,   0,   0, 0,  1, 0, (uint8_t)how->orientation,
            0,   0,   0,   0,   0,  0
        };
        jpeg_write_marker(&jpeg, JPEG_APP0 + 1, exif, sizeof exif);
    }
    for (int y = 0; y < how->height; y++) {
        uint8_t row[4 * SIDE_MAX], *at = row;
        const size_t size_row = (size_t)(how->width * how->channels);
        assert_true(size_row <= sizeof row);
        memcpy(row, pixels + (size_t)y * size_row, size_row);
        jpeg_write_scanlines(&jpeg, &at, 1);
    }
    jpeg_finish_compress(&jpeg);
    out->size = 0;
    put(out, memory, size);
    free(memory);
    jpeg_destroy_compress(&jpeg);
}
#endif
