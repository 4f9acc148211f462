/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Augmentation: each epoch sees each sample slightly changed.
 *
 *   shift:k   move by up to k pixels in both directions; pixels from outside are 0 (that is, pad by
 *             k and cut at random, as is usual for CIFAR)
 *   flip      mirror left to right with probability 1/2
 *   crop:k    cut a window of (H - k) x (W - k) at random and stretch it to the image (bilinear)
 *   noise:s   add normal noise with standard deviation s, after normalisation
 *
 * The draws are a stream keyed by (epoch, sample): any worker, any batch and any restart see the
 * same variation. They are taken in a fixed order, so that adding one does not change the others.
 */
#include "data/augment.h"

#include "base/option.h"
#include "base/rng.h"

#include <math.h>
#include <string.h>

static const char *const names[] = { "shift", "flip", "crop", "noise" };
enum { SHIFT, FLIP, CROP, NOISE, NAME_COUNT, WORD_MAX = 64 };

/* Name of augmentation `i`, for fast__name_find(). */
static const char *name_at(const void *ctx, int64_t i)
{
    (void)ctx;
    return names[i];
}

/* Parse a number of pixels below `limit`. */
static fast_err parse_pixels(const char *name, const char *text, int64_t limit, int64_t *out)
{
    int64_t value;
    FAST_TRY(fast__parse_int(name, text, &value));
    if (value < 0 || value >= limit)
        return fast__fail(FAST_EINVAL, "augment %s:%lld is not in 0 to %lld pixels", name,
                          (long long)value, (long long)limit - 1);
    *out = value;
    return FAST_OK;
}

/* Parse one word, such as "shift:2". */
static fast_err parse_word(char *word, const fast_data *data, fast_augment *augment)
{
    char *value = strchr(word, ':');
    if (value != NULL)
        *value++ = 0;
    const int64_t which = fast__name_find(word, name_at, NULL, NAME_COUNT, NULL);
    if (which < 0)
        return fast__name_unknown("augment", word, name_at, NULL, NAME_COUNT);
    if (which != NOISE && data->rank != 3)
        return fast__fail(FAST_EINVAL, "augment %s needs images", word);
    if (which == FLIP && value == NULL) {
        augment->flip = true;
        return FAST_OK;
    }
    if (which == FLIP || value == NULL)
        return fast__fail(FAST_EINVAL, "augment %s %s a value, as in %s", word,
                          which == FLIP ? "does not take" : "needs",
                          which == FLIP    ? "flip"
                          : which == NOISE ? "noise:0.1"
                                           : "shift:2");
    const int64_t side = data->shape[1] < data->shape[2] ? data->shape[1] : data->shape[2];
    if (which == SHIFT)
        return parse_pixels(word, value, side, &augment->shift);
    if (which == CROP)
        return parse_pixels(word, value, side, &augment->crop);
    double noise;
    FAST_TRY(fast__parse_real("augment noise", value, &noise));
    if (!(noise >= 0) || noise > 1000)
        return fast__fail(FAST_EINVAL, "augment noise:%g is not in 0 to 1000", noise);
    augment->noise = noise;
    return FAST_OK;
}

/* Split the text at '+' and parse each word. Nothing is set if one is wrong. */
fast_err fast__augment_parse(const char *text, const fast_data *data, fast_augment *out)
{
    fast_augment augment = { 0 };
    if (text == NULL || text[0] == 0) {
        *out = augment;
        return FAST_OK;
    }
    if (data->tokens)
        return fast__fail(FAST_EINVAL, "tokens cannot be augmented");
    for (const char *at = text; at != NULL;) {
        const char *end = strchr(at, '+');
        const size_t size = end != NULL ? (size_t)(end - at) : strlen(at);
        char word[WORD_MAX];
        if (size >= sizeof word)
            return fast__fail(FAST_EINVAL, "augment \"%.60s...\" is too long", at);
        memcpy(word, at, size);
        word[size] = 0;
        FAST_TRY(parse_word(word, data, &augment));
        at = end != NULL ? end + 1 : NULL;
    }
    *out = augment;
    return FAST_OK;
}

/* Tell whether samples change at all: gathering is all that is done otherwise. */
bool fast__augment_any(const fast_augment *augment)
{
    return augment->shift > 0 || augment->flip || augment->crop > 0 || augment->noise > 0;
}

/* x(h, w) = from(h - down, w - right), mirrored first if `mirror`; `fill` outside the image. */
static void move(const float *from, int64_t H, int64_t W, int64_t down, int64_t right, bool mirror,
                 float fill, float *x)
{
    for (int64_t h = 0; h < H; h++) {
        for (int64_t w = 0; w < W; w++) {
            const int64_t row = h - down;
            int64_t column = w - right;
            const bool inside = row >= 0 && row < H && column >= 0 && column < W;
            if (mirror)
                column = W - 1 - column;
            x[h * W + w] = inside ? from[row * W + column] : fill;
        }
    }
}

/* Stretch the window of H - crop rows and W - crop columns at (top, left) to the image. */
static void stretch(const float *from, int64_t H, int64_t W, int64_t crop, int64_t top,
                    int64_t left, float *x)
{
    const float step_h = H > 1 ? (float)(H - crop - 1) / (float)(H - 1) : 0;
    const float step_w = W > 1 ? (float)(W - crop - 1) / (float)(W - 1) : 0;
    for (int64_t h = 0; h < H; h++) {
        const float y = (float)top + (float)h * step_h;
        const int64_t h0 = (int64_t)y;
        const int64_t h1 = h0 + 1 < H ? h0 + 1 : h0;
        const float fh = y - (float)h0;
        for (int64_t w = 0; w < W; w++) {
            const float z = (float)left + (float)w * step_w;
            const int64_t w0 = (int64_t)z;
            const int64_t w1 = w0 + 1 < W ? w0 + 1 : w0;
            const float fw = z - (float)w0;
            const float a = from[h0 * W + w0] * (1 - fw) + from[h0 * W + w1] * fw;
            const float b = from[h1 * W + w0] * (1 - fw) + from[h1 * W + w1] * fw;
            x[h * W + w] = a * (1 - fh) + b * fh;
        }
    }
}

/* Draw all numbers first, in a fixed order, then move, stretch and add noise. `scratch` holds
 * one channel of the sample. */
void fast__augment_apply(const fast_augment *augment, const fast_data *data, uint64_t seed,
                         uint64_t epoch, uint32_t sample, float *x, float *scratch)
{
    fast_rng rng;
    fast__rng_init(&rng, seed, FAST_PURPOSE_AUGMENT, 0, epoch, sample);
    uint32_t draw[5];
    for (int i = 0; i < 5; i++)
        draw[i] = fast__rng_u32(&rng);
    const int64_t span = 2 * augment->shift + 1;
    const int64_t down = (int64_t)(draw[0] % (uint64_t)span) - augment->shift;
    const int64_t right = (int64_t)(draw[1] % (uint64_t)span) - augment->shift;
    const bool mirror = augment->flip && (draw[2] & 1) != 0;
    const int64_t top = (int64_t)(draw[3] % (uint64_t)(augment->crop + 1));
    const int64_t left = (int64_t)(draw[4] % (uint64_t)(augment->crop + 1));

    const int64_t H = data->shape[1];
    const int64_t W = data->shape[2];
    const size_t plane = (size_t)(H * W);
    for (int64_t c = 0; data->rank == 3 && c < data->shape[0]; c++) {
        float *image = x + (size_t)c * plane;
        if (augment->shift > 0 || mirror) {
            memcpy(scratch, image, plane * sizeof(float));
            const int64_t channel = data->channels == data->shape[0] ? c : 0;
            const float fill = (0 - data->mean[channel]) * data->scale[channel];
            move(scratch, H, W, down, right, mirror, fill, image);
        }
        if (augment->crop > 0) {
            memcpy(scratch, image, plane * sizeof(float));
            stretch(scratch, H, W, augment->crop, top, left, image);
        }
    }
    for (int64_t i = 0; augment->noise > 0 && i < data->features; i++)
        x[i] += (float)augment->noise * fast__rng_normal(&rng);
}
