/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Rendered digits: 28 x 28 images of 0 to 9, drawn with a pen, so that FAST has an image set that
 * needs no file.
 *
 * A digit is one or two strokes through a few points in the unit square; some have two ways of
 * writing. Points are jittered, joined by Catmull-Rom curves (smooth strokes) or straight lines,
 * rotated, slanted, stretched, shifted, and drawn with a round pen of random width: the value of a
 * pixel is clamp(r + 1/2 - d), where d is its distance from the stroke and r the pen's radius.
 * Noise is the sum of four bytes, which is close enough to a normal distribution and costs one
 * random word. Sample i is a function of (seed, i) alone. Cost: about 15 microseconds a sample.
 */
#include "data/synthetic.h"

#include <math.h>
#include <string.h>

enum { SIDE = 28, POINTS_MAX = 9, STROKES_MAX = 2, CLASSES = 10, CURVE_STEPS = 6 };

typedef struct digit_stroke {
    int count;                   /* number of points; 0: no stroke */
    bool smooth;                 /* joined by curves, not lines */
    float points[POINTS_MAX][2]; /* x to the right, y down, in the unit square */
} digit_stroke;

typedef struct digit_glyph {
    int digit; /* class of the image */
    digit_stroke strokes[STROKES_MAX];
} digit_glyph;

/* All ways of writing; the glyphs of a digit are neighbours. */
/* clang-format off */
static const digit_glyph glyphs[] = {
    { 0, { { 9, true, { { .5f, 0 }, { .15f, .15f }, { .05f, .5f }, { .15f, .85f }, { .5f, 1 },
              { .85f, .85f }, { .95f, .5f }, { .85f, .15f }, { .5f, 0 } } } } },
    { 1, { { 2, false, { { .55f, 0 }, { .5f, 1 } } } } },
    { 1, { { 3, false, { { .25f, .25f }, { .55f, 0 }, { .55f, 1 } } },
          { 2, false, { { .25f, 1 }, { .85f, 1 } } } } },
    { 2, { { 7, true, { { .1f, .25f }, { .3f, .03f }, { .65f, .03f }, { .85f, .27f },
              { .65f, .57f }, { .3f, .8f }, { .08f, 1 } } },
          { 2, false, { { .08f, 1 }, { .95f, .98f } } } } },
    { 3, { { 5, true, { { .12f, .12f }, { .5f, 0 }, { .85f, .22f }, { .7f, .43f },
              { .4f, .48f } } },
          { 5, true, { { .4f, .48f }, { .8f, .58f }, { .9f, .8f }, { .5f, 1 },
              { .08f, .87f } } } } },
    { 4, { { 4, false, { { .65f, 1 }, { .65f, 0 }, { .08f, .65f }, { .95f, .65f } } } } },
    { 4, { { 3, false, { { .25f, .02f }, { .1f, .52f }, { .88f, .52f } } },
          { 2, false, { { .78f, .1f }, { .68f, 1 } } } } },
    { 5, { { 3, false, { { .85f, 0 }, { .22f, 0 }, { .15f, .45f } } },
          { 6, true, { { .15f, .45f }, { .5f, .37f }, { .85f, .52f }, { .88f, .78f }, { .5f, 1 },
              { .1f, .88f } } } } },
    { 6, { { 9, true, { { .75f, .03f }, { .35f, .2f }, { .12f, .6f }, { .25f, .92f }, { .6f, 1 },
              { .87f, .8f }, { .8f, .55f }, { .5f, .47f }, { .15f, .68f } } } } },
    { 7, { { 3, false, { { .08f, .03f }, { .9f, .03f }, { .38f, 1 } } } } },
    { 7, { { 3, false, { { .08f, .05f }, { .9f, .03f }, { .42f, 1 } } },
          { 2, false, { { .35f, .5f }, { .85f, .48f } } } } },
    { 8, { { 9, true, { { .5f, .47f }, { .18f, .3f }, { .25f, .05f }, { .5f, 0 }, { .75f, .05f },
              { .82f, .3f }, { .5f, .47f }, { .2f, .62f }, { .12f, .8f } } },
          { 6, true, { { .12f, .8f }, { .28f, .98f }, { .5f, 1 }, { .78f, .95f }, { .88f, .75f },
              { .5f, .47f } } } } },
    { 9, { { 9, true, { { .85f, .3f }, { .6f, .52f }, { .25f, .45f }, { .13f, .22f }, { .4f, .0f },
              { .75f, .05f }, { .87f, .3f }, { .8f, .65f }, { .5f, 1 } } } } },
};
/* clang-format on */
enum { GLYPH_COUNT = sizeof glyphs / sizeof glyphs[0] };

typedef struct digits_config {
    int64_t train;  /* training samples */
    int64_t test;   /* test samples */
    double noise;   /* standard deviation of a pixel's noise, in a range of 1 */
    double distort; /* how much samples vary; 0: all alike but for the noise */
    int normalize;  /* a fast_normalize */
} digits_config;

static const fast_option digits_options[] = {
    FAST_OPT_INT(digits_config, train, "12000", 1, 10000000, "training samples"),
    FAST_OPT_INT(digits_config, test, "2000", 1, 10000000, "test samples"),
    FAST_OPT_REAL(digits_config, noise, "0.18", 0, 1, "standard deviation of a pixel's noise"),
    FAST_OPT_REAL(digits_config, distort, "1.25", 0, 2,
                  "how much shift, turn, slant, size and shape vary"),
    FAST_OPT_CHOICE(digits_config, normalize, "unit", FAST_NORMALIZE_CHOICES,
                    "bytes divided by 255, mean 0 and deviation 1, or as they are"),
    FAST_OPT_END,
};

/* The pen of one sample, and its image. */
typedef struct digit_pen {
    float a[2][2];            /* map from the centred unit square to pixels */
    float shift[2];           /* image's centre plus a random shift */
    float radius;             /* radius of the round tip */
    float ink;                /* darkest value, at most 1 */
    float image[SIDE * SIDE]; /* values from 0 to 1 */
} digit_pen;

/* Uniform in [-a, a). */
static float spread(fast_rng *rng, double a)
{
    return (float)a * (2 * fast__rng_uniform(rng) - 1);
}

/* Draw a straight line; where strokes overlap the darker value stays. */
static void draw_line(digit_pen *p, const float from[2], const float to[2])
{
    const float reach = p->radius + 0.5f;
    const float dx = to[0] - from[0];
    const float dy = to[1] - from[1];
    const float length2 = dx * dx + dy * dy;
    const int x0 = (int)fmaxf(0, floorf(fminf(from[0], to[0]) - reach));
    const int x1 = (int)fminf(SIDE - 1, ceilf(fmaxf(from[0], to[0]) + reach));
    const int y0 = (int)fmaxf(0, floorf(fminf(from[1], to[1]) - reach));
    const int y1 = (int)fminf(SIDE - 1, ceilf(fmaxf(from[1], to[1]) + reach));
    for (int y = y0; y <= y1; y++) {
        for (int x = x0; x <= x1; x++) {
            const float px = (float)x - from[0];
            const float py = (float)y - from[1];
            float t = length2 > 0 ? (px * dx + py * dy) / length2 : 0;
            t = t < 0 ? 0 : t > 1 ? 1 : t;
            const float ex = px - t * dx;
            const float ey = py - t * dy;
            const float value = fminf(1, reach - sqrtf(ex * ex + ey * ey)) * p->ink;
            float *pixel = &p->image[y * SIDE + x];
            *pixel = value > *pixel ? value : *pixel;
        }
    }
}

/* Return the point at t in [0, 1] of the Catmull-Rom curve from b to c. */
static float curve(float a, float b, float c, float d, float t)
{
    return b + 0.5f * t * (c - a + t * (2 * a - 5 * b + 4 * c - d + t * (3 * (b - c) + d - a)));
}

/* Draw one stroke with jittered points. */
static void draw_stroke(digit_pen *p, const digit_stroke *s, double jitter, fast_rng *rng)
{
    float points[POINTS_MAX][2];
    FAST_ASSERT(s->count <= POINTS_MAX);
    for (int i = 0; i < s->count; i++) {
        const float x = s->points[i][0] - 0.5f + spread(rng, jitter);
        const float y = s->points[i][1] - 0.5f + spread(rng, jitter);
        points[i][0] = p->a[0][0] * x + p->a[0][1] * y + p->shift[0];
        points[i][1] = p->a[1][0] * x + p->a[1][1] * y + p->shift[1];
    }
    const int steps = s->smooth ? CURVE_STEPS : 1;
    for (int i = 0; i + 1 < s->count; i++) {
        const float *a = points[i > 0 ? i - 1 : i];
        const float *b = points[i];
        const float *c = points[i + 1];
        const float *d = points[i + 2 < s->count ? i + 2 : i + 1];
        float from[2] = { b[0], b[1] };
        for (int k = 1; k <= steps; k++) {
            const float t = (float)k / (float)steps;
            float to[2] = { c[0], c[1] };
            for (int axis = 0; axis < 2 && k < steps; axis++)
                to[axis] = curve(a[axis], b[axis], c[axis], d[axis], t);
            draw_line(p, from, to);
            memcpy(from, to, sizeof from);
        }
    }
}

/* Choose rotation, slant, size, position and width, about as handwriting varies. */
static void choose(digit_pen *p, double distort, fast_rng *rng)
{
    memset(p->image, 0, sizeof p->image);
    const float angle = spread(rng, 0.26 * distort); /* 15 degrees */
    const float slant = spread(rng, 0.25 * distort);
    const float width = 12.5f * (1 + spread(rng, 0.22 * distort));
    const float height = 18.5f * (1 + spread(rng, 0.15 * distort));
    const float c = cosf(angle);
    const float s = sinf(angle);
    /* rotation * slant * stretch */
    p->a[0][0] = c * width;
    p->a[0][1] = (-c * slant - s) * height;
    p->a[1][0] = s * width;
    p->a[1][1] = (-s * slant + c) * height;
    for (int axis = 0; axis < 2; axis++)
        p->shift[axis] = (SIDE - 1) / 2.0f + spread(rng, 3 * distort);
    p->radius = 1.25f + spread(rng, 0.6 * (distort < 1 ? distort : 1));
    p->ink = 0.85f + spread(rng, 0.15 * (distort < 1 ? distort : 1));
}

/* Draw one sample and its label. */
static void draw_digit(const void *config, uint64_t seed, fast_rng *rng, fast_data *data, int64_t i)
{
    (void)seed;
    const digits_config *c = config;
    uint8_t *image = (uint8_t *)data->x + i * SIDE * SIDE;
    const int digit = (int)fast__rng_below(rng, CLASSES);
    int first = 0, count = 0;
    for (int g = GLYPH_COUNT - 1; g >= 0; g--) {
        if (glyphs[g].digit == digit) {
            first = g;
            count++;
        }
    }
    const digit_glyph *shape = &glyphs[first + (int)fast__rng_below(rng, (uint64_t)count)];
    digit_pen p;
    choose(&p, c->distort, rng);
    for (int s = 0; s < STROKES_MAX; s++)
        draw_stroke(&p, &shape->strokes[s], 0.045 * c->distort, rng);
    /* The sum of four bytes has mean 510 and standard deviation 147.8. */
    const float noise = (float)(c->noise * 255 / 147.8);
    for (int k = 0; k < SIDE * SIDE; k++) {
        float value = p.image[k] * 255;
        if (noise > 0) {
            const uint32_t word = fast__rng_u32(rng);
            const uint32_t sum =
                (word & 255) + (word >> 8 & 255) + (word >> 16 & 255) + (word >> 24);
            value += noise * ((float)sum - 510);
        }
        value = value < 0 ? 0 : value > 255 ? 255 : value;
        image[k] = (uint8_t)(value + 0.5f);
    }
    data->labels[i] = digit;
}

/* Images of one channel, in bytes as files have them. */
static fast_err digits_open(const void *config, uint64_t seed, fast_data **train_out,
                            fast_data **test_out)
{
    const digits_config *c = config;
    const fast_data like = {
        .rank = 3, .shape = { 1, SIDE, SIDE }, .dtype = FAST_U8, .classes = CLASSES
    };
    return fast__synthetic_open(&like, c->train, c->test, draw_digit, c, seed,
                                (fast_normalize)c->normalize, train_out, test_out);
}

const fast_data_kind fast__data_digits = {
    .name = "digits",
    .summary = "rendered digits, 28x28, 10 classes; needs no file",
    .options = digits_options,
    .config_size = sizeof(digits_config),
    .open = digits_open,
};
