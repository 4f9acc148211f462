/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Goal: PNG and JPEG files of every kind become the same bytes, resized as the formula says, and
 * hostile files cost neither memory nor a crash. Method: files written by libpng and libjpeg in
 * memory; resized values against sums by hand; every truncation and many single changed bytes.
 */
#include "data/picture.h"

#include "data/picture_fixture.h"
#include "data/resample.h"

#include <math.h>

enum { HEAP_MAX = 1 << 20 };

static bytes file; /* the file of a test */

#if defined FAST_HAVE_PNG || defined FAST_HAVE_JPEG
/* Decode `file`, which must be fine. */
static void decode(const fast_picture_form *form, uint8_t *out)
{
    const fast_err err = fast__picture_decode("test", file.at, file.size, form, out);
    if (err)
        fail_msg("%s", fast_error_detail());
}

#endif

/* Decode `file`, which must be refused by a sentence that says `word`. */
static void decode_badly(const fast_picture_form *form, const char *word)
{
    static uint8_t out[64 * 64 * 3];
    fast__alloc_largest();
    const fast_err err = fast__picture_decode("bad.pic", file.at, file.size, form, out);
    assert_int_equal(err, FAST_EFORMAT);
    if (strstr(fast_error_detail(), word) == NULL || strstr(fast_error_detail(), "bad.pic") == NULL)
        fail_msg("\"%s\" does not say bad.pic and \"%s\"", fast_error_detail(), word);
    assert_true(fast__alloc_largest() <= HEAP_MAX);
}

/* The formula of resample.c, pixel by pixel in double. */
static double expected_at(const uint8_t *x, int n, int m, int j)
{
    const double s = (double)n / m, reach = s > 1 ? s : 1;
    double sum = 0, all = 0;
    for (int i = 0; i < n; i++) {
        const double d = fabs((i + 0.5 - (j + 0.5) * s) / reach);
        const double w = d < 1 ? 1 - d : 0;
        sum += w * x[i];
        all += w;
    }
    return sum / all;
}

static void resizing_follows_the_formula(void **state)
{
    (void)state;
    const int sizes[][2] = { { 1, 1 }, { 1, 7 },  { 7, 1 },   { 8, 8 },   { 8, 4 },
                             { 9, 4 }, { 5, 13 }, { 64, 28 }, { 100, 3 }, { 28, 64 } };
    uint8_t x[128], out[128];
    for (int i = 0; i < 128; i++)
        x[i] = (uint8_t)(i * 37 % 251);
    for (size_t k = 0; k < sizeof sizes / sizeof sizes[0]; k++) {
        const int n = sizes[k][0], m = sizes[k][1];
        /* As a row, then as a column. */
        fast_resample r = {
            .source_height = 1, .source_width = n, .height = 1, .width = m, .channels = 1
        };
        assert_int_equal(fast__resample_init(&r), FAST_OK);
        fast__resample_add(&r, x);
        fast__resample_write(&r, out);
        fast__resample_fini(&r);
        for (int j = 0; j < m; j++)
            assert_true(fabs(out[j] - expected_at(x, n, m, j)) <= 0.51);
        r = (fast_resample){
            .source_height = n, .source_width = 1, .height = m, .width = 1, .channels = 1
        };
        assert_int_equal(fast__resample_init(&r), FAST_OK);
        for (int i = 0; i < n; i++)
            fast__resample_add(&r, x + i);
        fast__resample_write(&r, out);
        fast__resample_fini(&r);
        for (int j = 0; j < m; j++)
            assert_true(fabs(out[j] - expected_at(x, n, m, j)) <= 0.51);
    }
}

static void shrinking_by_two_averages(void **state)
{
    (void)state;
    /* A checkerboard becomes grey: a filter without area would leave black or white. */
    uint8_t x[16 * 16], out[4 * 4];
    for (int i = 0; i < 256; i++)
        x[i] = (i / 16 + i) % 2 ? 255 : 0;
    fast_resample r = {
        .source_height = 16, .source_width = 16, .height = 4, .width = 4, .channels = 1
    };
    assert_int_equal(fast__resample_init(&r), FAST_OK);
    for (int y = 0; y < 16; y++)
        fast__resample_add(&r, x + 16 * y);
    fast__resample_write(&r, out);
    fast__resample_fini(&r);
    for (int i = 0; i < 16; i++)
        assert_in_range(out[i], 126, 129);
}

#ifdef FAST_HAVE_PNG
/* Rows of a picture: sample k of pixel (x, y), 8 bits. */
static uint8_t value_of(int x, int y, int k)
{
    return (uint8_t)(x * 40 + y * 3 + k * 70);
}

static void fill_rows(const png_made *how, int channels, uint8_t *rows)
{
    for (int y = 0; y < how->height; y++)
        for (int x = 0; x < how->width; x++)
            for (int k = 0; k < channels; k++) {
                const int at = (y * how->width + x) * channels + k;
                if (how->depth == 16) {
                    /* 257 v scales to v. */
                    rows[2 * at] = rows[2 * at + 1] = value_of(x, y, k);
                } else {
                    rows[at] = value_of(x, y, k);
                }
            }
}

static void every_kind_of_png_is_read(void **state)
{
    (void)state;
    const struct {
        int type, channels, depth;
    } kinds[] = { { PNG_COLOR_TYPE_GRAY, 1, 8 },       { PNG_COLOR_TYPE_GRAY, 1, 16 },
                  { PNG_COLOR_TYPE_GRAY_ALPHA, 2, 8 }, { PNG_COLOR_TYPE_RGB, 3, 8 },
                  { PNG_COLOR_TYPE_RGB, 3, 16 },       { PNG_COLOR_TYPE_RGB_ALPHA, 4, 8 },
                  { PNG_COLOR_TYPE_RGB_ALPHA, 4, 16 } };
    uint8_t rows[5 * 4 * 4 * 2], out[3 * 5 * 4];
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
        for (int interlace = 0; interlace < 2; interlace++) {
            const png_made how = { 4, 5, kinds[i].type, kinds[i].depth, interlace };
            const int colors = kinds[i].channels >= 3 ? 3 : 1;
            const fast_picture_form form = { 5, 4, colors };
            fill_rows(&how, kinds[i].channels, rows);
            png_make(&how, rows, &file);
            decode(&form, out);
            for (int at = 0; at < 20 * colors; at++)
                assert_int_equal(out[at], value_of(at % 20 % 4, at % 20 / 4, at / 20));
        }
    }
}

static void palettes_and_bits_are_looked_up(void **state)
{
    (void)state;
    /* One bit a pixel: 1010 0000 is a row of 3 pixels. */
    const uint8_t rows[] = { 0xa0, 0x40 };
    uint8_t out[3 * 2 * 3];
    const png_made how = { 3, 2, PNG_COLOR_TYPE_PALETTE, 1, false };
    png_make(&how, rows, &file);
    decode(&(fast_picture_form){ 2, 3, 3 }, out);
    const uint8_t red[] = { 200, 10, 200, 10, 200, 10 };
    assert_memory_equal(out, red, sizeof red);
    const png_made grey = { 3, 2, PNG_COLOR_TYPE_GRAY, 1, false };
    png_make(&grey, rows, &file);
    decode(&(fast_picture_form){ 2, 3, 1 }, out);
    const uint8_t bits[] = { 255, 0, 255, 0, 255, 0 };
    assert_memory_equal(out, bits, sizeof bits);
}

static void channels_are_converted(void **state)
{
    (void)state;
    const uint8_t rgb[] = { 255, 0, 0, 0, 255, 0, 0, 0, 255 };
    uint8_t out[9];
    png_make(&(png_made){ 3, 1, PNG_COLOR_TYPE_RGB, 8, false }, rgb, &file);
    decode(&(fast_picture_form){ 1, 3, 1 }, out);
    const uint8_t grey[] = { 76, 150, 29 };
    assert_memory_equal(out, grey, sizeof grey);
    png_make(&(png_made){ 3, 1, PNG_COLOR_TYPE_GRAY, 8, false }, grey, &file);
    decode(&(fast_picture_form){ 1, 3, 3 }, out);
    for (int i = 0; i < 9; i++)
        assert_int_equal(out[i], grey[i % 3]);
}

/* Overwrite a header's size, with its checksum. */
static void claim_size(uint32_t width, uint32_t height)
{
    for (int i = 0; i < 4; i++) {
        file.at[16 + i] = (uint8_t)(width >> (24 - 8 * i));
        file.at[20 + i] = (uint8_t)(height >> (24 - 8 * i));
    }
    uint32_t crc = ~0u;
    for (int i = 12; i < 29; i++) {
        crc ^= file.at[i];
        for (int k = 0; k < 8; k++)
            crc = crc >> 1 ^ (crc & 1 ? 0xedb88320u : 0);
    }
    for (int i = 0; i < 4; i++)
        file.at[29 + i] = (uint8_t)(~crc >> (24 - 8 * i));
}

static void png_bombs_are_refused(void **state)
{
    (void)state;
    const uint8_t rows[64] = { 0 };
    const fast_picture_form form = { 8, 8, 3 };
    png_make(&(png_made){ 4, 4, PNG_COLOR_TYPE_RGB, 8, false }, rows, &file);
    claim_size(60000, 60000);
    decode_badly(&form, "60000 x 60000 pixels");
    claim_size(0x7fffffff, 1);
    decode_badly(&form, "damaged PNG");
    claim_size(5000, 5);
    decode_badly(&form, "cannot hold");
    claim_size(50, 5);
    decode_badly(&form, "damaged PNG");
    png_make(&(png_made){ 4, 4, PNG_COLOR_TYPE_GRAY, 8, true }, rows, &file);
    claim_size(200, 200);
    decode_badly(&form, "damaged PNG");
    /* The chunk after the header becomes a text of 1.6 GB. */
    const uint8_t text[8] = { 0x60, 0, 0, 0, 't', 'E', 'X', 't' };
    png_make(&(png_made){ 4, 4, PNG_COLOR_TYPE_RGB, 8, false }, rows, &file);
    memcpy(file.at + 33, text, sizeof text);
    decode_badly(&form, "damaged PNG");
}
#endif

#ifdef FAST_HAVE_JPEG
/* A picture with a red upper left quarter on grey. */
static void corner_pixels(int width, int height, uint8_t *pixels)
{
    for (int y = 0; y < height; y++)
        for (int x = 0; x < width; x++) {
            const bool red = x < width / 2 && y < height / 2;
            uint8_t *p = pixels + 3 * (y * width + x);
            p[0] = red ? 220 : 100;
            p[1] = p[2] = red ? 20 : 100;
        }
}

static void jpegs_are_read(void **state)
{
    (void)state;
    static uint8_t pixels[32 * 48 * 3], out[3 * 48 * 32];
    corner_pixels(32, 48, pixels);
    for (int progressive = 0; progressive < 2; progressive++) {
        jpeg_make(&(jpeg_made){ 32, 48, 3, progressive, 0 }, pixels, &file);
        decode(&(fast_picture_form){ 48, 32, 3 }, out);
        assert_in_range(out[4 * 32 + 4], 210, 230);         /* red */
        assert_in_range(out[48 * 32 + 4 * 32 + 4], 10, 30); /* green */
        assert_in_range(out[40 * 32 + 28], 95, 105);        /* outside */
    }
    memset(pixels, 77, sizeof pixels);
    jpeg_make(&(jpeg_made){ 32, 48, 1, false, 0 }, pixels, &file);
    decode(&(fast_picture_form){ 4, 4, 1 }, out);
    for (int i = 0; i < 16; i++)
        assert_in_range(out[i], 76, 78);
}

static void orientation_is_applied(void **state)
{
    (void)state;
    static uint8_t pixels[32 * 48 * 3];
    /* Where the red corner is when the picture stands upright: (bottom, right). */
    const int corner[9][2] = { { 0, 0 }, { 0, 0 }, { 0, 1 }, { 1, 1 }, { 1, 0 },
                               { 0, 0 }, { 0, 1 }, { 1, 1 }, { 1, 0 } };
    corner_pixels(32, 48, pixels);
    for (int o = 0; o <= 8; o++) {
        uint8_t out[3 * 2 * 2];
        jpeg_make(&(jpeg_made){ 32, 48, 3, false, o }, pixels, &file);
        decode(&(fast_picture_form){ 2, 2, 3 }, out);
        for (int i = 0; i < 4; i++) {
            const bool red = i / 2 == corner[o][0] && i % 2 == corner[o][1];
            if (red != (out[i] > 150))
                fail_msg("orientation %d: pixel %d is %d", o, i, out[i]);
        }
    }
}

static void jpegs_that_cannot_be_used_are_refused(void **state)
{
    (void)state;
    static uint8_t pixels[32 * 48 * 4];
    const fast_picture_form form = { 8, 8, 3 };
    jpeg_make(&(jpeg_made){ 32, 48, 4, false, 0 }, pixels, &file);
    decode_badly(&form, "CMYK");
    corner_pixels(32, 48, pixels);
    jpeg_make(&(jpeg_made){ 32, 48, 3, false, 0 }, pixels, &file);
    file.size /= 2;
    decode_badly(&form, "damaged JPEG");
    /* The frame header: ff c0, length, bits, height, width. */
    jpeg_make(&(jpeg_made){ 32, 48, 3, true, 0 }, pixels, &file);
    for (size_t i = 0; i + 9 < file.size; i++) {
        if (file.at[i] == 0xff && file.at[i + 1] == 0xc2) {
            memset(file.at + i + 5, 0xf0, 4); /* 61680 x 61680, progressive */
            break;
        }
    }
    decode_badly(&form, "61680 x 61680 pixels");
    for (size_t i = 0; i + 9 < file.size; i++) {
        if (file.at[i] == 0xff && file.at[i + 1] == 0xc2) {
            memset(file.at + i + 5, 0x1f, 4); /* 7967 x 7967: coefficients of 360 MB */
            break;
        }
    }
    decode_badly(&form, "more than 128 MB");
}
#endif

#if defined FAST_HAVE_PNG && defined FAST_HAVE_JPEG
/* Decode a changed file: any result but a crash, and bounded memory. */
static void decode_anything(const uint8_t *at, size_t size)
{
    uint8_t out[3 * 8 * 8];
    const fast_picture_form form = { 8, 8, 3 };
    uint8_t *exact = malloc(size > 0 ? size : 1);
    memcpy(exact, at, size);
    fast__alloc_largest();
    const fast_err err = fast__picture_decode("x", exact, size, &form, out);
    assert_true(err == FAST_OK || err == FAST_EFORMAT);
    assert_true(fast__alloc_largest() <= FAST_PICTURE_MEMORY_MAX);
    free(exact);
}

static void damaged_files_do_no_harm(void **state)
{
    (void)state;
    uint8_t pixels[12 * 12 * 3];
    for (size_t i = 0; i < sizeof pixels; i++)
        pixels[i] = (uint8_t)(i * 31);
    for (int kind = 0; kind < 4; kind++) {
        if (kind < 2)
            png_make(&(png_made){ 12, 12, PNG_COLOR_TYPE_RGB, 8, kind == 1 }, pixels, &file);
        else
            jpeg_make(&(jpeg_made){ 12, 12, 3, kind == 3, 6 }, pixels, &file);
        const bytes whole = file;
        for (size_t i = 0; i < whole.size; i++) {
            decode_anything(whole.at, i);
            for (int bit = 0; bit < 8; bit += 3) {
                file.at[i] = whole.at[i] ^ (uint8_t)(1 << bit);
                decode_anything(file.at, whole.size);
            }
            file.at[i] = whole.at[i];
        }
    }
}

static void memory_may_fail(void **state)
{
    (void)state;
    uint8_t pixels[12 * 12 * 3] = { 0 }, out[3 * 8 * 8];
    const fast_picture_form form = { 8, 8, 3 };
    for (int kind = 0; kind < 3; kind++) {
        if (kind < 2)
            png_make(&(png_made){ 12, 12, PNG_COLOR_TYPE_RGB, 8, kind == 1 }, pixels, &file);
        else
            jpeg_make(&(jpeg_made){ 12, 12, 3, false, 6 }, pixels, &file);
        fast_err err = FAST_ENOMEM;
        for (int64_t n = 0; err; n++) {
            fast__alloc_fail_after(n, true);
            err = fast__picture_decode("x", file.at, file.size, &form, out);
            fast__alloc_fail_after(-1, true);
            if (err && err != FAST_ENOMEM)
                fail_msg("allocation %lld: %s", (long long)n, fast_error_detail());
            assert_true(n < 1000);
        }
    }
}
#endif

static void other_files_are_refused(void **state)
{
    (void)state;
    const fast_picture_form form = { 8, 8, 3 };
    file.size = 0;
    decode_badly(&form, "neither a PNG nor a JPEG");
    put(&file, "GIF89a", 6);
    decode_badly(&form, "neither a PNG nor a JPEG");
}

static void recipes_are_read(void **state)
{
    (void)state;
    const struct {
        const char *text;
        bool fine;
    } recipes[] = { { "{\"height\": 2, \"width\": 3, \"channels\": 1}", true },
                    { "{\"height\": 2, \"width\": 3, \"channels\": 2}", false },
                    { "{\"height\": 0, \"width\": 3, \"channels\": 1}", false },
                    { "{\"height\": 2, \"width\": 999999, \"channels\": 1}", false },
                    { "{\"height\": \"2\", \"width\": 3, \"channels\": 1}", false },
                    { "{}", false } };
    for (size_t i = 0; i < sizeof recipes / sizeof recipes[0]; i++) {
        json_t *json;
        fast_picture_form form = { 0 };
        assert_int_equal(fast__json_read("recipe", recipes[i].text, strlen(recipes[i].text), &json),
                         FAST_OK);
        assert_int_equal(fast__picture_form_read(json, &form) == FAST_OK, recipes[i].fine);
        assert_int_equal(form.width, recipes[i].fine ? 3 : 0);
        json_decref(json);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(resizing_follows_the_formula),
        cmocka_unit_test(shrinking_by_two_averages),
#ifdef FAST_HAVE_PNG
        cmocka_unit_test(every_kind_of_png_is_read),
        cmocka_unit_test(palettes_and_bits_are_looked_up),
        cmocka_unit_test(channels_are_converted),
        cmocka_unit_test(png_bombs_are_refused),
#endif
#ifdef FAST_HAVE_JPEG
        cmocka_unit_test(jpegs_are_read),
        cmocka_unit_test(orientation_is_applied),
        cmocka_unit_test(jpegs_that_cannot_be_used_are_refused),
#endif
#if defined FAST_HAVE_PNG && defined FAST_HAVE_JPEG
        cmocka_unit_test(damaged_files_do_no_harm),
        cmocka_unit_test(memory_may_fail),
#endif
        cmocka_unit_test(other_files_are_refused),
        cmocka_unit_test(recipes_are_read),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
