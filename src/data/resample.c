/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Separable resizing with a triangle filter.
 *
 * With s = source / result, pixel j of the result has its centre at (j + 1/2) s in the source, and
 * pixel i of the source weighs t((i + 1/2 - (j + 1/2) s) / max(s, 1)), t(x) = max(0, 1 - |x|);
 * weights of a pixel are divided by their sum, which also handles the borders. For s <= 1 this is
 * bilinear interpolation; for s > 1 the triangle is s times as wide, so that every pixel of the
 * source has the same weight in the whole result. Pillow's BILINEAR filter has the same formula.
 *
 * Each row is resized when it arrives and added to the few rows of the result that it belongs to.
 * Cost: about 2 multiplications for each byte of the source.
 */
#include "data/resample.h"

#include "base/memory.h"

#include <math.h>

/* Weight of pixel i of the source for pixel j of the result. */
static double weight_of(int64_t i, int64_t j, double scale)
{
    const double width = scale > 1 ? scale : 1;
    const double distance = fabs(((double)i + 0.5 - ((double)j + 0.5) * scale) / width);
    return distance < 1 ? 1 - distance : 0;
}

/* The first pixel, and the one after the last, of `count` that weigh something at `centre`. */
static void span_of(double centre, double reach, int64_t count, int64_t *first, int64_t *end)
{
    const double low = floor(centre - reach);
    const double high = ceil(centre + reach);
    *first = low < 0 ? 0 : (int64_t)low;
    *end = high > (double)count ? count : (int64_t)high;
    FAST_ASSERT(*first<count && * end> 0);
}

/* Fill the weights of all columns. */
static void weigh_columns(fast_resample *r)
{
    const double scale = (double)r->source_width / (double)r->width;
    float *weights = r->weights;
    for (int64_t j = 0; j < r->width; j++) {
        int64_t first, end;
        span_of(((double)j + 0.5) * scale, scale > 1 ? scale : 1, r->source_width, &first, &end);
        double sum = 0;
        for (int64_t i = first; i < end; i++)
            sum += weight_of(i, j, scale);
        for (int64_t i = first; i < end; i++)
            *weights++ = (float)(weight_of(i, j, scale) / sum);
        r->firsts[j] = first;
        r->counts[j] = end - first;
    }
}

/* Fill the sums of weights of all rows. */
static void weigh_rows(fast_resample *r)
{
    const double scale = (double)r->source_height / (double)r->height;
    for (int64_t j = 0; j < r->height; j++) {
        int64_t first, end;
        span_of(((double)j + 0.5) * scale, scale > 1 ? scale : 1, r->source_height, &first, &end);
        double sum = 0;
        for (int64_t i = first; i < end; i++)
            sum += weight_of(i, j, scale);
        r->norms[j] = (float)(1 / sum);
    }
}

/* Allocate everything. A column uses at most 2 s + 2 pixels of the source, or 4 where it grows. */
fast_err fast__resample_init(fast_resample *r)
{
    FAST_ASSERT(r->source_height > 0 && r->source_width > 0);
    FAST_ASSERT(r->height > 0 && r->width > 0 && r->channels > 0);
    const int64_t pixels = r->width * r->channels;
    r->row = 0;
    r->sums = r->line = r->norms = r->weights = NULL;
    r->firsts = r->counts = NULL;
    fast_err err = fast__alloc("a picture", r->height * pixels, sizeof *r->sums, &r->sums);
    if (!err)
        err = fast__alloc("a row of a picture", pixels, sizeof *r->line, &r->line);
    if (!err)
        err = fast__alloc("weights of rows", r->height, sizeof *r->norms, &r->norms);
    if (!err)
        err = fast__alloc("weights of columns", 2 * r->source_width + 4 * r->width,
                          sizeof *r->weights, &r->weights);
    if (!err)
        err = fast__alloc("columns", r->width, sizeof *r->firsts, &r->firsts);
    if (!err)
        err = fast__alloc("columns", r->width, sizeof *r->counts, &r->counts);
    if (err) {
        fast__resample_fini(r);
        return err;
    }
    weigh_columns(r);
    weigh_rows(r);
    return FAST_OK;
}

/* Free the arrays; a struct of zeros is fine. */
void fast__resample_fini(fast_resample *r)
{
    fast__free(r->sums);
    fast__free(r->line);
    fast__free(r->norms);
    fast__free(r->weights);
    fast__free(r->firsts);
    fast__free(r->counts);
    r->sums = r->line = r->norms = r->weights = NULL;
    r->firsts = r->counts = NULL;
}

/* Resize one row to r->line. */
static void resize_row(fast_resample *r, const uint8_t *pixels)
{
    const int64_t C = r->channels;
    const float *weights = r->weights;
    for (int64_t j = 0; j < r->width; j++) {
        const uint8_t *from = pixels + r->firsts[j] * C;
        float sum[4] = { 0, 0, 0, 0 };
        FAST_ASSERT(C <= 4);
        for (int64_t i = 0; i < r->counts[j]; i++) {
            for (int64_t c = 0; c < C; c++)
                sum[c] += weights[i] * (float)from[i * C + c];
        }
        weights += r->counts[j];
        for (int64_t c = 0; c < C; c++)
            r->line[j * C + c] = sum[c];
    }
}

/* Resize the row, then add it to the rows of the result whose triangle covers it. */
void fast__resample_add(fast_resample *r, const uint8_t *pixels)
{
    FAST_ASSERT(r->row < r->source_height);
    const double scale = (double)r->source_height / (double)r->height;
    const double reach = scale > 1 ? scale : 1;
    const double low = floor(((double)r->row + 0.5 - reach) / scale - 0.5);
    const int64_t count = r->width * r->channels;
    resize_row(r, pixels);
    for (int64_t j = low < 0 ? 0 : (int64_t)low; j < r->height; j++) {
        if (((double)j + 0.5) * scale - reach > (double)r->row + 0.5)
            break;
        const float weight = (float)weight_of(r->row, j, scale);
        float *sums = r->sums + j * count;
        for (int64_t i = 0; weight > 0 && i < count; i++)
            sums[i] += weight * r->line[i];
    }
    r->row++;
}

/* Divide by the weights, round, and separate the channels. */
void fast__resample_write(const fast_resample *r, uint8_t *out)
{
    FAST_ASSERT(r->row == r->source_height);
    const int64_t plane = r->height * r->width;
    for (int64_t y = 0; y < r->height; y++) {
        for (int64_t i = 0; i < r->width * r->channels; i++) {
            const float value = r->sums[y * r->width * r->channels + i] * r->norms[y] + 0.5f;
            const int64_t at = i % r->channels * plane + y * r->width + i / r->channels;
            out[at] = value < 0 ? 0 : value > 255 ? 255 : (uint8_t)value;
        }
    }
}
