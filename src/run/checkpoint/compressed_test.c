/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Compressed files of weights, and training of their shared values (deep compression). Goal: a
 * compressed file has the weights that the codec decodes to, few of them different, and is small;
 * shared values are trained by the sums of their elements' gradients, pruned weights stay 0, and
 * the result is compressed without loss; hostile bytes are refused. Method: small runs; one step of
 * plain SGD beside the step of a run that is not tied; a file of which bytes are changed.
 */
#include "run/run.h"
#include "tensor/safetensors.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#define CHAIN "kmeans:ratio=0.2,clusters=8+huffman"

static char folder[] = "/tmp/fast-compressed-XXXXXX";

static int make_folder(void **state)
{
    (void)state;
    return mkdtemp(folder) ? 0 : -1;
}

static int remove_folder(void **state)
{
    static const char *const names[] = { "plain", "small", "again", "bad" };
    char path[64];

    (void)state;
    for (int i = 0; i < 4; i++) {
        snprintf(path, sizeof path, "%s/%s", folder, names[i]);
        unlink(path);
    }
    return rmdir(folder);
}

static const char *in_folder(const char *option, const char *name, char *text)
{
    snprintf(text, 96, "%s%s/%s", option, folder, name);
    return text;
}

/* Open a run with up to five more options; NULL ends them early. */
static fast_err open_with(const char *const *more, fast_run **run)
{
    const char *options[16] = { "engine=ref",
                                "model=mlp:hidden=30x20",
                                "batch=16",
                                "evaluate=no",
                                "data=digits:train=160,test=8",
                                "optimizer=sgd",
                                "schedule=constant",
                                "plan=no" };
    int count = 8;

    while (*more)
        options[count++] = *more++;
    return fast_run_open(options, run);
}

#define LIST(...) ((const char *const[]){ __VA_ARGS__, NULL })

/* The weights of a run that trains, or only opens; the caller frees them. */
static float *weights_of(const char *const *more, bool trains, fast_layout *layout)
{
    static fast_segment segments[16];
    fast_run *run = NULL;

    if (open_with(more, &run) || (trains && fast_run_train(run)))
        fail_msg("%s: %s", more[0], fast_error_detail());
    const fast_layout *own = &run->learner->params;
    float *w = malloc((size_t)own->count * sizeof *w);
    memcpy(w, run->learner->w, (size_t)own->count * sizeof *w);
    assert_in_range(own->segment_count, 1, 16);
    memcpy(segments, own->segments, (size_t)own->segment_count * sizeof *segments);
    *layout = (fast_layout){ segments, own->segment_count, own->count };
    fast_run_close(run);
    return w;
}

static long size_of(const char *name)
{
    char path[96];
    FILE *file = fopen(in_folder("", name, path), "rb");

    assert_non_null(file);
    fseek(file, 0, SEEK_END);
    const long size = ftell(file);
    fclose(file);
    return size;
}

/* A fifth of the weights of each tensor, the largest, of 8 values. */
static void expect_shared(const fast_layout *layout, const float *w)
{
    for (int64_t s = 0; s < layout->segment_count; s++) {
        const fast_segment *segment = &layout->segments[s];
        float values[9];
        int different = 0;
        int64_t set = 0;

        for (int64_t i = 0; i < segment->count; i++) {
            const float x = w[segment->offset + i];
            int k = 0;

            while (k < different && values[k] != x)
                k++;
            assert_true(k < 9);
            values[k] = x;
            different = k == different ? k + 1 : different;
            set += x != 0;
        }
        assert_in_range(set, 1, segment->count / 5 + 1);
    }
}

static void files_are_compressed(void **state)
{
    char plain[96], small[96], load[96];
    fast_layout layout;

    (void)state;
    free(weights_of(LIST("steps=60", "lr=0.2", in_folder("save=", "plain", plain)), true, &layout));
    free(weights_of(
        LIST("steps=60", "lr=0.2", in_folder("save=", "small", small), "save_codec=" CHAIN), true,
        &layout));
    assert_true(size_of("small") * 8 < size_of("plain"));
    float *before = weights_of(LIST(in_folder("load=", "plain", load)), false, &layout);
    float *after = weights_of(LIST(in_folder("load=", "small", load)), false, &layout);
    expect_shared(&layout, after);
    for (int64_t i = 0; i < layout.count; i++) /* pruned, or near its centroid */
        assert_true(after[i] == 0 || fabsf(after[i] - before[i]) < 0.3f * fabsf(before[i]) + 0.1f);
    free(before);
    free(after);
}

/* One step of SGD: the change of a shared value is the sum of its elements' changes. */
static void shared_values_take_sums(void **state)
{
    char load[96];
    fast_layout layout;

    (void)state;
    in_folder("load=", "small", load);
    for (int several = 0; several < 2; several++) {
        const char *workers = several ? "workers=3" : "workers=1", *sim = "transport=sim";
        float *w = weights_of(LIST(load), false, &layout);
        float *alone = weights_of(LIST(load, "steps=1", "lr=0.5", workers, sim), true, &layout);
        float *tied =
            weights_of(LIST(load, "steps=1", "lr=0.5", "tied=yes", workers, sim), true, &layout);

        expect_shared(&layout, tied);
        for (int64_t s = 0; s < layout.segment_count; s++) {
            const int64_t first = layout.segments[s].offset, end = first + layout.segments[s].count;

            for (int64_t i = first; i < end; i += 7) {
                double sum = 0;

                for (int64_t j = first; j < end; j++)
                    sum += w[j] == w[i] ? (double)alone[j] - (double)w[j] : 0;
                const double moved = (double)tied[i] - (double)w[i];
                if (fabs(moved - (w[i] == 0 ? 0 : sum)) > 1e-4 * (1 + fabs(sum)))
                    fail_msg("element %lld moves by %g, not by %g", (long long)i, moved, sum);
            }
        }
        free(w);
        free(alone);
        free(tied);
    }
}

/* Trained values are as few as before: compressed again, they lose nothing. */
static void trained_values_are_compressed_again(void **state)
{
    char load[96], save[96];
    fast_layout layout;

    (void)state;
    in_folder("load=", "small", load);
    float *trained = weights_of(LIST(load, "steps=20", "lr=0.01", "tied=yes",
                                     in_folder("save=", "again", save), "save_codec=" CHAIN),
                                true, &layout);
    float *read = weights_of(LIST(in_folder("load=", "again", load)), false, &layout);
    assert_memory_equal(trained, read, (size_t)layout.count * sizeof *read);
    expect_shared(&layout, read);
    free(trained);
    free(read);
}

static void hostile_files_are_refused(void **state)
{
    char path[96], load[96];
    const long size = size_of("small");
    uint8_t *bytes = malloc((size_t)size);
    int refused = 0;

    (void)state;
    FILE *file = fopen(in_folder("", "small", path), "rb");
    assert_int_equal(fread(bytes, 1, (size_t)size, file), size);
    fclose(file);
    for (long at = size - 1; at > 8; at -= 1 + size / 150) {
        fast_run *run = NULL;
        const uint8_t good = bytes[at];

        bytes[at] ^= 0x5b;
        file = fopen(in_folder("", "bad", path), "wb");
        assert_int_equal(fwrite(bytes, 1, (size_t)size, file), size);
        fclose(file);
        bytes[at] = good;
        const fast_err err = open_with(LIST(in_folder("load=", "bad", load)), &run);
        assert_true(err == FAST_OK || err == FAST_EFORMAT || err == FAST_EINVAL);
        refused += err != FAST_OK;
        fast_run_close(run);
    }
    assert_true(refused > 20);
    free(bytes);
}

static void nonsense_is_refused(void **state)
{
    static const char *const cases[][3] = {
        { "save_codec=kmeans", "steps=1", "give save too" },
        { "save=/tmp/x.onnx", "save_codec=kmeans", "its own format" },
        { "save=/tmp/x.safetensors", "save_codec=dgc", "for messages" },
        { "save=/tmp/x.safetensors", "save_codec=kmean", "kmeans" },
    };

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        fast_run *run = NULL;

        assert_int_equal(open_with(LIST(cases[i][0], cases[i][1]), &run), FAST_EINVAL);
        if (!strstr(fast_error_detail(), cases[i][2]))
            fail_msg("%s", fast_error_detail());
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(files_are_compressed),
        cmocka_unit_test(shared_values_take_sums),
        cmocka_unit_test(trained_values_are_compressed_again),
        cmocka_unit_test(hostile_files_are_refused),
        cmocka_unit_test(nonsense_is_refused),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
