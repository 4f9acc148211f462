/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How small and how wrong codecs are. Goal: nobody makes a codec's messages larger, or its error
 * worse, without noticing; documented sizes hold. Method: a gradient of lenet's
 * 431,080 parameters, drawn with whole numbers so that it has the same bits everywhere (layers and
 * rows of different scales, heavy tails, dead rows), is encoded once by each line's codec of
 * tests/golden/codecs.csv. The bytes, with all headers, must be those of the line (to 5% where
 * another library's stage ends the chain), the relative error |decoded - x| / |x| within 1e-4 of
 * it. Every registered codec and stage must have a line. What is promised of sizes is measured on
 * a real gradient as well: lenet's after a few steps on rendered digits.
 *
 * With FAST_GOLDEN=print in the environment the lines are printed instead, with those that are
 * missing, after which the difference to the file is to be explained; with FAST_GOLDEN=real those
 * of the real gradient.
 */
#include "base/memory.h"
#include "base/rng.h"
#include "codec/codec.h"
#include "run/run.h"
#include "tensor/vector.h"

#include "devices.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define GOLDEN FAST_SOURCE_FOLDER "/tests/golden/codecs.csv"
#define HEADER "bytes,ratio,error,codec"

enum { LINES_MAX = 256, LINE_MAX_SIZE = 256 };

/* lenet's parameters, in the order of the model. */
static const fast_segment segments[] = {
    { .name = "conv1.weight", .offset = 0, .count = 500, .shape = { 20, 1, 5, 5 }, .rank = 4 },
    { .name = "conv1.bias", .offset = 500, .count = 20, .shape = { 20 }, .rank = 1 },
    { .name = "conv2.weight", .offset = 520, .count = 25000, .shape = { 50, 20, 5, 5 }, .rank = 4 },
    { .name = "conv2.bias", .offset = 25520, .count = 50, .shape = { 50 }, .rank = 1 },
    { .name = "fc1.weight", .offset = 25570, .count = 400000, .shape = { 500, 800 }, .rank = 2 },
    { .name = "fc1.bias", .offset = 425570, .count = 500, .shape = { 500 }, .rank = 1 },
    { .name = "fc2.weight", .offset = 426070, .count = 5000, .shape = { 10, 500 }, .rank = 2 },
    { .name = "fc2.bias", .offset = 431070, .count = 10, .shape = { 10 }, .rank = 1 },
};
enum { SEGMENTS = sizeof segments / sizeof segments[0], ALL = 431080 };
static const fast_layout layout = { segments, SEGMENTS, ALL };

/* A line of the file. */
typedef struct golden {
    long long bytes;           /* of the encoding */
    double ratio;              /* bytes before by bytes after */
    double error;              /* relative */
    char codec[LINE_MAX_SIZE]; /* as it is typed */
} golden;

/* Weights for selections, and a learning rate of 0.1. */
static void look(void *ctx, fast_codec_model *out)
{
    static float w[ALL];

    (void)ctx;
    for (int i = 0; i < ALL; i++)
        w[i] = (float)(i % 101 - 50) / 1024;
    *out = (fast_codec_model){ .w = w, .rate = 0.1f, .taken = 1 };
}

static golden lines[LINES_MAX];
static int line_count;
static float drawn[ALL];              /* of which the lines are */
static const float *gradient = drawn; /* the vector to encode */
static float trained[ALL];            /* lenet's own */
static float decoded[ALL];

/* The sum of four uniform numbers is near enough to normal, and exact. */
static void draw(void)
{
    static const float scales[SEGMENTS] = { 0x1p-5f, 0x1p-5f, 0x1p-7f, 0x1p-7f,
                                            0x1p-9f, 0x1p-9f, 0x1p-6f, 0x1p-6f };
    fast_rng rng;

    fast__rng_init(&rng, 5, FAST_PURPOSE_TEST, 0, 0, 0);
    for (int s = 0; s < SEGMENTS; s++) {
        const int64_t row = segments[s].count / segments[s].shape[0];

        for (int64_t i = 0; i < segments[s].count; i++) {
            const uint32_t r = fast__rng_u32(&rng);
            const uint32_t t = fast__rng_u32(&rng);
            const uint32_t tail = t % 64;
            const int32_t sum = (int32_t)((r & 0xff) + (r >> 8 & 0xff) + (r >> 16 & 0xff)) +
                                (int32_t)(r >> 24) - 510;
            float v = ((float)sum + (float)(t >> 8) * 0x1p-24f) * 0x1p-8f * scales[s];

            v *= tail == 0 ? 8 : tail < 6 ? 3 : 1;         /* heavy tails */
            v *= i / row % 7 == 3 && row > 1 ? 0.125f : 1; /* rows that learn little */
            drawn[segments[s].offset + i] = i / row % 11 == 5 && row > 1 ? 0 : v;
        }
    }
}

static void measure(const char *spec, golden *g)
{
    fast_chain *chain = NULL;
    fast_coder *coder = NULL;
    uint8_t *bytes = NULL;

    if (fast__chain_open(spec, &chain))
        fail_msg("%s: %s", spec, fast_error_detail());
    const fast_coder_options o = { .chain = chain,
                                   .model = look,
                                   .layout = &layout,
                                   .device = devices_now,
                                   .count = ALL,
                                   .workers = 4,
                                   .seed = 1 };
    assert_int_equal(fast__coder_new(&o, &coder), FAST_OK);
    assert_int_equal(fast__alloc("bytes", (int64_t)fast__coder_bound(coder), 1, &bytes), FAST_OK);
    const size_t size = devices_encode(coder, 1000, 100, gradient, bytes);
    assert_int_equal(devices_decode(coder, bytes, size, FAST_DECODE_SET, 1, decoded), FAST_OK);
    fast__vector_axpy(ALL, -1, gradient, decoded);
    snprintf(g->codec, sizeof g->codec, "%s", spec);
    g->bytes = (long long)size;
    g->ratio = (double)ALL * sizeof(float) / (double)size;
    g->error = sqrt(fast__vector_norm2(ALL, decoded) / fast__vector_norm2(ALL, gradient));
    fast__free(bytes);
    fast__coder_free(coder);
    fast__chain_close(chain);
}

static int read_golden(void **state)
{
    char line[LINE_MAX_SIZE];
    FILE *file = fopen(GOLDEN, "r");

    (void)state;
    if (!file || !fgets(line, sizeof line, file) || strcmp(line, HEADER "\n") != 0)
        return -1;
    while (fgets(line, sizeof line, file)) {
        golden *g = &lines[line_count++];

        if (line_count > LINES_MAX ||
            sscanf(line, "%lld,%lf,%lf,%255[^\n]", &g->bytes, &g->ratio, &g->error, g->codec) != 4)
            return -1;
    }
    fclose(file);
    draw();
    return 0;
}

static const golden *find(const char *spec)
{
    for (int i = 0; i < line_count; i++)
        if (strcmp(lines[i].codec, spec) == 0)
            return &lines[i];
    return NULL;
}

/* A codec, or a stage, that has no line by its bare name. */
static void add_missing(const char *name)
{
    if (find(name) || line_count == LINES_MAX)
        return;
    snprintf(lines[line_count++].codec, LINE_MAX_SIZE, "%s", name);
}

static void print(void)
{
    for (int i = 0; fast__codecs[i]; i++)
        add_missing(fast__codecs[i]->name);
    for (int i = 0; fast__stages[i]; i++)
        add_missing(fast__stages[i]->name);
    printf(HEADER "\n");
    for (int i = 0; i < line_count; i++) {
        golden g;

        measure(lines[i].codec, &g);
        printf("%lld,%.2f,%.6f,%s\n", g.bytes, g.ratio, g.error, g.codec);
    }
}

/* The bytes of other people's libraries differ a little from version to version; where FAST is
 * built without one, its lines are left out. */
static bool is_foreign(const char *spec)
{
    return strstr(spec, "zstd") || strstr(spec, "lz4");
}

static bool is_built(const char *spec)
{
    fast_chain *chain = NULL;
    const bool built = fast__chain_open(spec, &chain) == FAST_OK;

    fast__chain_close(chain);
    return built;
}

static void sizes_and_errors_are_golden(void **state)
{
    (void)state;
    for (int i = 0; i < line_count; i++) {
        const long long room = is_foreign(lines[i].codec) ? lines[i].bytes / 20 : 0;
        golden g;

        if (is_foreign(lines[i].codec) && !is_built(lines[i].codec))
            continue;
        measure(lines[i].codec, &g);
        if (llabs(g.bytes - lines[i].bytes) > room || !(fabs(g.error - lines[i].error) <= 1e-4))
            fail_msg("%s: %lld bytes and error %.6f, where %lld and %.6f are golden", g.codec,
                     g.bytes, g.error, lines[i].bytes, lines[i].error);
    }
}

/* The device changes neither. */
static void device_check_is_golden(void **state)
{
    assert_int_equal(fast__device_check_open(&devices_now), FAST_OK);
    sizes_and_errors_are_golden(state);
    fast__device_check_close(devices_now);
    devices_now = &fast__host;
}

static void all_have_a_line(void **state)
{
    (void)state;
    for (int i = 0; fast__codecs[i]; i++)
        if (!find(fast__codecs[i]->name))
            fail_msg("%s has no line in " GOLDEN, fast__codecs[i]->name);
    for (int i = 0; fast__stages[i]; i++)
        if (!find(fast__stages[i]->name))
            fail_msg("%s has no line in " GOLDEN, fast__stages[i]->name);
}

/* The gradient that lenet has after a few steps. */
static void train(void)
{
    static const char *const options[] = { "data=digits:train=512,test=16",
                                           "model=lenet",
                                           "batch=32",
                                           "lr=0.05",
                                           "steps=8",
                                           "evaluate=no",
                                           "plan=no",
                                           NULL };
    fast_run *run = NULL;

    assert_int_equal(fast_run_open(options, &run), FAST_OK);
    assert_int_equal(fast_run_train(run), FAST_OK);
    assert_int_equal(run->learner->params.count, ALL);
    memcpy(trained, run->learner->g, sizeof trained);
    fast_run_close(run);
    assert_true(fast__vector_norm2(ALL, trained) > 0);
}

static void documented_sizes_hold(void **state)
{
    static const struct {
        const char *codec; /* as in the file */
        double least;      /* times smaller */
    } promised[] = {
        { "onebit", 28 },         { "terngrad", 15.9 },      { "terngrad:clip=0,pack=base3", 19 },
        { "qsgd:code=elias", 8 }, { "topk:ratio=0.01", 40 }, { "dgc:ratio=0.001,warmup=0", 300 },
    };

    (void)state;
    train();
    for (size_t i = 0; i < 2 * (sizeof promised / sizeof promised[0]); i++) {
        golden g;

        gradient = i % 2 ? trained : drawn;
        assert_non_null(find(promised[i / 2].codec));
        measure(promised[i / 2].codec, &g);
        if (!(g.ratio >= promised[i / 2].least))
            fail_msg("%s is %.2f times smaller, not %.1f, on a %s gradient", g.codec, g.ratio,
                     promised[i / 2].least, i % 2 ? "real" : "drawn");
    }
    gradient = drawn;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sizes_and_errors_are_golden),
        cmocka_unit_test(device_check_is_golden),
        cmocka_unit_test(all_have_a_line),
        cmocka_unit_test(documented_sizes_hold),
    };
    const char *wish = getenv("FAST_GOLDEN");

    if (wish && strcmp(wish, "real") == 0) { /* the lines of the real gradient */
        const int bad = read_golden(NULL);

        train();
        gradient = trained;
        print();
        return bad;
    }

    if (wish && strcmp(wish, "print") == 0) {
        const int bad = read_golden(NULL);

        print();
        return bad;
    }
    return cmocka_run_group_tests(tests, read_golden, NULL);
}
