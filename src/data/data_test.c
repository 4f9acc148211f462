/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Goal: sets in memory are what they say, and every kind opens, repeats and survives a lack of
 * memory. Method: loops over the registry for what all kinds promise; hand-made sets for checks,
 * splits and normalisation; the definitions of synthetic sets, recomputed.
 */
#include "data/data.h"

#include "data/data_fixture.h"
#include "data/make.h"
#include "data/sample_gather.h"

#include <math.h>
#include <stdlib.h>

enum { HEAP_MAX = 1 << 20 };

static fast_err new_set(fast_data_options options)
{
    fast_data *data = NULL;
    const fast_err err = fast_data_new(&options, &data);
    assert_true((data != NULL) == (err == FAST_OK));
    fast_data_free(data);
    return err;
}

static void sets_of_ones_own(void **state)
{
    (void)state;
    float x[] = { 1, 2, 3, 4 };
    int32_t labels[] = { 0, 1 };
    const float targets[] = { 0.5f, 1.5f };
    const fast_data_options good = {
        .count = 2, .rank = 1, .shape = { 2 }, .x = x, .labels = labels, .classes = 2
    };
    fast_data_options o = good;
    assert_int_equal(new_set(o), FAST_OK);
    o.labels = NULL;
    assert_int_equal(new_set(o), FAST_EINVAL);
    o.targets = targets;
    o.outputs = 1;
    assert_int_equal(new_set(o), FAST_OK);
    o.labels = labels;
    assert_int_equal(new_set(o), FAST_EINVAL);
    for (int wrong = 0; wrong < 7; wrong++) {
        o = good;
        o.count = wrong == 0 ? 0 : wrong == 1 ? -1 : 2;
        o.rank = wrong == 2 ? 4 : wrong == 3 ? 0 : 1;
        o.shape[0] = wrong == 4 ? -2 : 2;
        o.classes = wrong == 5 ? 0 : 2;
        o.x = wrong == 6 ? NULL : x;
        assert_int_equal(new_set(o), FAST_EINVAL);
    }
    labels[1] = 2;
    assert_int_equal(new_set(good), FAST_EFORMAT);
    assert_non_null(strstr(fast_error_detail(), "label 2 of sample 1"));
    labels[1] = -1;
    assert_int_equal(new_set(good), FAST_EFORMAT);
    labels[1] = 1;
    x[3] = INFINITY;
    assert_int_equal(new_set(good), FAST_EFORMAT);
    assert_non_null(strstr(fast_error_detail(), "element 1 of sample 1"));
    x[3] = 4;
    o = good;
    o.count = INT64_MAX / 2;
    assert_int_equal(new_set(o), FAST_EINVAL);
    o = good;
    o.rank = 3;
    o.shape[0] = o.shape[1] = o.shape[2] = (int64_t)1 << 31;
    assert_int_equal(new_set(o), FAST_EINVAL);
    for (int64_t n = 0; n < 5; n++) {
        fast__alloc_fail_after(n, true);
        assert_int_equal(new_set(good), FAST_ENOMEM);
        fast__alloc_fail_after(-1, true);
    }
}

static void standardising_uses_the_training_set(void **state)
{
    (void)state;
    /* Two channels of two elements; the second never changes. */
    const fast_data like = {
        .count = 2, .rank = 3, .shape = { 2, 1, 2 }, .dtype = FAST_U8, .classes = 1
    };
    fast_data *train, *test;
    assert_int_equal(fast__data_make(&like, &train), FAST_OK);
    assert_int_equal(fast__data_make(&like, &test), FAST_OK);
    memcpy(train->x, (uint8_t[]){ 1, 3, 9, 9, 5, 7, 9, 9 }, 8);
    memcpy(test->x, (uint8_t[]){ 4, 6, 9, 10, 0, 0, 0, 0 }, 8);
    assert_int_equal(fast__data_normalize(FAST_NORMALIZE_STANDARD, train, test), FAST_OK);
    const float deviation = sqrtf(5);
    float out[4];
    fast__gather(test, (uint32_t[]){ 0 }, 1, out);
    assert_true(fabsf(out[0]) < 1e-6f);
    assert_true(fabsf(out[1] - 2 / deviation) < 1e-6f);
    assert_true(out[2] == 0 && out[3] == 1);
    fast_data_free(train);
    fast_data_free(test);
}

/* Every length and type of the gather against the formula. */
static void gather_is_the_formula(void **state)
{
    (void)state;
    for (int dtype = 0; dtype < 2; dtype++) {
        for (int64_t features = 1; features < 70; features++) {
            const bool table = features % 3 == 0;
            const fast_data like = { .count = 20,
                                     .rank = 1,
                                     .shape = { features },
                                     .dtype = dtype == 0 ? FAST_U8 : FAST_F32,
                                     .channels = table ? features : 1,
                                     .classes = 1 };
            fast_data *data;
            assert_int_equal(fast__data_make(&like, &data), FAST_OK);
            for (int64_t i = 0; i < 20 * features; i++) {
                if (dtype == 0)
                    ((uint8_t *)data->x)[i] = (uint8_t)(i * 37);
                else
                    ((float *)data->x)[i] = (float)(i * 37 % 1001) / 7;
            }
            for (int64_t c = 0; c < data->channels; c++) {
                data->mean[c] = 3.7f + (float)c;
                data->scale[c] = 0.013f * (float)(c + 1);
            }
            uint32_t samples[17];
            for (uint32_t i = 0; i < 17; i++)
                samples[i] = i * 7 % 20;
            float *out = malloc((size_t)features * 17 * sizeof *out);
            assert_non_null(out);
            fast__gather(data, samples, 17, out);
            for (int64_t i = 0; i < 17 * features; i++) {
                const int64_t from = samples[i / features] * features + i % features;
                const float x = dtype == 0 ? ((uint8_t *)data->x)[from] : ((float *)data->x)[from];
                const int64_t c = table ? i % features : 0;
                assert_true(out[i] == (x - data->mean[c]) * data->scale[c]);
            }
            free(out);
            fast_data_free(data);
        }
    }
}

/* Samples held out are no longer trained on, keep the normalisation and replace the test set. */
static void held_out_is_not_trained_on(void **state)
{
    (void)state;
    const fast_data like = {
        .count = 40, .rank = 1, .shape = { 1 }, .dtype = FAST_U8, .classes = 40
    };
    fast_data *train, *test;
    assert_int_equal(fast__data_make(&like, &train), FAST_OK);
    assert_int_equal(fast__data_make(&like, &test), FAST_OK);
    for (int i = 0; i < 40; i++)
        ((uint8_t *)train->x)[i] = (uint8_t)(train->labels[i] = i);
    train->mean[0] = 3;
    train->scale[0] = 0.5f;
    assert_int_equal(fast__data_hold_out(0.001, &train, &test), FAST_OK);
    assert_int_equal(train->count, 39);
    assert_int_equal(test->count, 1);
    assert_int_equal(fast__data_hold_out(0.25, &train, &test), FAST_OK);
    assert_int_equal(train->count, 29);
    assert_int_equal(test->count, 10);
    assert_true(train->mean[0] == 3 && test->mean[0] == 3 && test->scale[0] == 0.5f);
    for (int i = 0; i < 10; i++)
        for (int k = 0; k < 29; k++)
            assert_int_not_equal(test->labels[i], train->labels[k]);
    fast_data *const before[] = { train, test };
    assert_int_equal(fast__data_hold_out(0.99, &train, &test), FAST_EINVAL);
    assert_non_null(strstr(fast_error_detail(), "holdout=0.99 leaves none of 29 samples"));
    assert_true(train == before[0] && test == before[1]);
    fast_data_free(train);
    fast_data_free(test);
}

/* Constants of normalisation are of the samples that are trained on, and all sets have them. */
static void held_out_is_not_normalised_by(void **state)
{
    fast_data *train, *test, *remaining, *held;
    double sum = 0;

    (void)state;
    assert_int_equal(
        fast__data_open("digits:train=40,test=8,normalize=standard", 1, &train, &test, NULL),
        FAST_OK);
    assert_int_equal(fast__data_hold_out(0.25, &train, &test), FAST_OK);
    for (int64_t i = 0; i < train->count * train->features; i++)
        sum += ((const uint8_t *)train->x)[i];
    sum /= (double)(train->count * train->features);
    assert_true(fabs(train->mean[0] - sum) < 1e-4);
    assert_true(test->mean[0] == train->mean[0] && test->scale[0] == train->scale[0]);

    assert_int_equal(fast__data_validation(train, 0.5, &remaining, &held), FAST_OK);
    assert_int_equal(fast__data_refit(remaining, held, test), FAST_OK);
    assert_true(remaining->mean[0] != train->mean[0]);
    assert_true(held->mean[0] == remaining->mean[0] && test->mean[0] == remaining->mean[0]);
    fast_data_free(remaining);
    fast_data_free(held);
    fast_data_free(train);
    fast_data_free(test);
}

static void split_keeps_every_sample(void **state)
{
    (void)state;
    for (int shuffle = 0; shuffle < 2; shuffle++) {
        const fast_data like = {
            .count = 100, .rank = 1, .shape = { 1 }, .dtype = FAST_U8, .classes = 100
        };
        fast_data *all, *train, *test;
        assert_int_equal(fast__data_make(&like, &all), FAST_OK);
        for (int i = 0; i < 100; i++)
            ((uint8_t *)all->x)[i] = (uint8_t)(all->labels[i] = i);
        assert_int_equal(fast__data_split(&all, 0.25, shuffle, &train, &test), FAST_OK);
        assert_null(all);
        assert_int_equal(train->count, 75);
        assert_int_equal(test->count, 25);
        int seen[100] = { 0 }, moved = 0;
        for (int i = 0; i < 100; i++) {
            const fast_data *part = i < 75 ? train : test;
            const int at = i < 75 ? i : i - 75;
            assert_int_equal(((uint8_t *)part->x)[at], part->labels[at]);
            seen[part->labels[at]]++;
            moved += part->labels[at] != i;
        }
        /* A file that is sorted by label must not leave some classes to the test set alone. */
        assert_true(shuffle ? moved > 90 : moved == 0);
        for (int i = 0; i < 100; i++)
            assert_int_equal(seen[i], 1);
        fast_data_free(train);
        fast_data_free(test);
    }
}

/* The kinds that need no file. */
static const char *const synthetic[] = { "digits",    "spirals", "blobs", "linear",
                                         "nonlinear", "copy",    "words" };
enum { SYNTHETIC_COUNT = sizeof synthetic / sizeof synthetic[0] };

static size_t x_size(const fast_data *data, int64_t count)
{
    return (size_t)(count * data->features) * (data->dtype == FAST_U8 ? 1 : sizeof(float));
}

static void compare(const fast_data *a, const fast_data *b, int64_t count)
{
    assert_memory_equal(a->x, b->x, x_size(a, count));
    if (a->labels != NULL)
        assert_memory_equal(a->labels, b->labels, (size_t)(count * a->positions) * 4);
    else
        assert_memory_equal(a->targets, b->targets, (size_t)(count * a->outputs) * 4);
}

static void samples_depend_on_seed_and_number_alone(void **state)
{
    (void)state;
    for (int i = 0; i < SYNTHETIC_COUNT; i++) {
        char few[64], many[64];
        snprintf(few, sizeof few, "%s:train=40,test=30", synthetic[i]);
        snprintf(many, sizeof many, "%s:train=90,test=50", synthetic[i]);
        fast_data *a, *a_test, *b, *b_test, *c, *c_test;
        open_well(few, &a, &a_test);
        open_well(many, &b, &b_test);
        assert_int_equal(fast__data_open(few, 2, &c, &c_test, NULL), FAST_OK);
        assert_int_equal(a->count, 40);
        assert_int_equal(a_test->count, 30);
        compare(a, b, 40);
        compare(a_test, b_test, 30);
        assert_memory_not_equal(a->x, a_test->x, x_size(a, 30));
        assert_memory_not_equal(a->x, c->x, x_size(a, 30));
        assert_int_equal(fast__data_check(a), FAST_OK);
        fast_data_free(a);
        fast_data_free(a_test);
        fast_data_free(b);
        fast_data_free(b_test);
        fast_data_free(c);
        fast_data_free(c_test);
        open_without_memory(few);
    }
}

/* Digits are neither noise nor a table lookup: the nearest class mean knows most but not all. */
static void digits_are_learnable_and_not_trivial(void **state)
{
    (void)state;
    fast_data *train, *test;
    open_well("digits:train=2000,test=500", &train, &test);
    double(*mean)[784] = calloc(10, sizeof *mean);
    int count[10] = { 0 }, right = 0;
    assert_non_null(mean);
    for (int64_t i = 0; i < train->count; i++) {
        count[train->labels[i]]++;
        for (int k = 0; k < 784; k++)
            mean[train->labels[i]][k] += ((uint8_t *)train->x)[i * 784 + k];
    }
    for (int c = 0; c < 10; c++)
        assert_in_range(count[c], 140, 260);
    for (int64_t i = 0; i < test->count; i++) {
        double best = INFINITY;
        int guess = 0;
        for (int c = 0; c < 10; c++) {
            double distance = 0;
            for (int k = 0; k < 784; k++) {
                const double d = ((uint8_t *)test->x)[i * 784 + k] - mean[c][k] / count[c];
                distance += d * d;
            }
            guess = distance < best ? c : guess;
            best = distance < best ? distance : best;
        }
        right += guess == test->labels[i];
    }
    assert_in_range(right, 200, 450); /* 40 to 90% */
    free(mean);
    fast_data_free(train);
    fast_data_free(test);
}

static void copy_repeats(void **state)
{
    (void)state;
    fast_data *train, *test;
    open_well("copy:train=50,length=5,symbols=3", &train, &test);
    assert_true(train->tokens);
    assert_int_equal(train->vocabulary, 5);
    assert_int_equal(train->positions, 10);
    for (int64_t i = 0; i < 50; i++) {
        const uint8_t *x = (uint8_t *)train->x + 10 * i;
        const int32_t *labels = train->labels + 10 * i;
        for (int t = 0; t < 5; t++) {
            assert_in_range(x[t], 2, 4);
            assert_int_equal(labels[t], 0);
            assert_int_equal(x[5 + t], t == 0 ? 1 : 0);
            assert_int_equal(labels[5 + t], x[t]);
        }
    }
    fast_data_free(train);
    fast_data_free(test);
}

/* Without noise, two samples of one feature fix the line that the others lie on. Friedman's
 * function has about mean 0 and variance 1. */
static void linear_is_linear(void **state)
{
    (void)state;
    fast_data *train, *test;
    open_well("linear:train=4,test=1,features=1,noise=0", &train, &test);
    const float *x = train->x;
    const float *y = train->targets;
    const double slope = (double)(y[1] - y[0]) / (double)(x[1] - x[0]);
    for (int i = 2; i < 4; i++)
        assert_true(fabs((double)y[0] + slope * (double)(x[i] - x[0]) - (double)y[i]) < 1e-4);
    fast_data_free(train);
    fast_data_free(test);
    open_well("nonlinear:train=2000,noise=0", &train, &test);
    double sum = 0, squares = 0;
    for (int i = 0; i < 2000; i++) {
        sum += (double)train->targets[i];
        squares += (double)train->targets[i] * (double)train->targets[i];
    }
    assert_true(fabs(sum / 2000) < 0.1 && fabs(squares / 2000 - 1) < 0.15);
    fast_data_free(train);
    fast_data_free(test);
}

static void text_predicts_the_next_character(void **state)
{
    (void)state;
    char spec[FIXTURE_SPEC];
    data_fixture f = fixture_make("abcabcabdabcabc", 15);
    fast_data *train, *test;
    snprintf(spec, sizeof spec, "text:file=%s,length=3,test_fraction=0.25", f.path);
    open_well(spec, &train, &test);
    assert_int_equal(train->count, 3);
    assert_int_equal(test->count, 1);
    assert_int_equal(train->vocabulary, 4);
    assert_int_equal(train->positions, 3);
    assert_memory_equal(train->alphabet, "abcd", 4);
    assert_memory_equal(test->alphabet, "abcd", 4);
    assert_memory_equal(train->x, "\0\1\2\0\1\2\0\1\3", 9);
    assert_memory_equal(test->x, "\0\1\2", 3);
    for (int i = 0; i < 8; i++)
        assert_int_equal(train->labels[i], ((uint8_t *)train->x)[i + 1]);
    assert_int_equal(train->labels[8], 0);
    fast_data_free(train);
    fast_data_free(test);
    open_without_memory(spec);
    snprintf(spec, sizeof spec, "text:file=%s,length=15", f.path);
    open_badly(spec, FAST_EFORMAT, "needs 16", HEAP_MAX);
    fixture_drop(&f);
    open_badly("text", FAST_EINVAL, "text:file=", HEAP_MAX);
}

static void names_are_found_or_suggested(void **state)
{
    (void)state;
    open_badly("digit", FAST_EINVAL, "did you mean \"digits\"", HEAP_MAX);
    open_badly("atuo", FAST_EINVAL, "auto", HEAP_MAX);
    open_badly("digits:trian=3", FAST_EINVAL, "train", HEAP_MAX);
    open_badly("digits:train=0", FAST_EINVAL, "train", HEAP_MAX);
    open_badly("digits:normalize=units", FAST_EINVAL, "unit", HEAP_MAX);
    open_badly("auto:train=3", FAST_EINVAL, "no options", HEAP_MAX);
    open_badly("", FAST_EINVAL, "", HEAP_MAX);
    for (int i = 0; fast__data_kinds[i] != NULL; i++) {
        assert_true(strlen(fast__data_kinds[i]->name) < 32);
        assert_non_null(fast__data_kinds[i]->open);
        assert_non_null(fast__data_kinds[i]->options);
        assert_true(strlen(fast__data_kinds[i]->summary) > 10);
    }
}

/* Where Fashion-MNIST is installed, it is what it should be. */
static void fashion_mnist(void **state)
{
    (void)state;
    fast_data *train = NULL, *test = NULL;
    const fast_err err = fast__data_open("fashion-mnist", 1, &train, &test, NULL);
    if (err == FAST_ENOENT || err == FAST_ENOTSUP)
        skip();
    assert_int_equal(err, FAST_OK);
    assert_int_equal(train->count, 60000);
    assert_int_equal(test->count, 10000);
    assert_int_equal(train->features, 784);
    assert_int_equal(train->classes, 10);
    int64_t sum = 0;
    for (int64_t i = 0; i < 60000 * 784; i++)
        sum += ((uint8_t *)train->x)[i];
    assert_true(fabs((double)sum / (60000 * 784.0) / 255 - 0.2860) < 1e-4); /* as published */
    assert_int_equal(train->labels[0], 9);
    fast_data_free(train);
    fast_data_free(test);
}

/* "auto" never fails, and says so where it is not Fashion-MNIST. */
static void auto_is_always_there(void **state)
{
    (void)state;
    fast_data *train, *test;
    const char *note = "untouched";
    assert_int_equal(fast__data_open("auto", 1, &train, &test, &note), FAST_OK);
    assert_int_equal(train->features, 784);
    assert_true((train->count == 60000) == (note == NULL));
    if (note != NULL)
        assert_non_null(strstr(note, "digits"));
    fast_data_free(train);
    fast_data_free(test);
}

static void sets_larger_than_the_memory_are_refused(void **state)
{
    (void)state;
    /* 800 GB: refused before anything is allocated, with what it would take. */
    open_badly("blobs:train=10000000,features=20000", FAST_ENOMEM, "take 800.0 GB", 1 << 20);
    assert_non_null(strstr(fast_error_detail(), "GB of memory are free"));
    assert_true(fast__memory_available() > 1 << 20);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sets_larger_than_the_memory_are_refused),
        cmocka_unit_test(sets_of_ones_own),
        cmocka_unit_test(standardising_uses_the_training_set),
        cmocka_unit_test(gather_is_the_formula),
        cmocka_unit_test(split_keeps_every_sample),
        cmocka_unit_test(held_out_is_not_trained_on),
        cmocka_unit_test(held_out_is_not_normalised_by),
        cmocka_unit_test(samples_depend_on_seed_and_number_alone),
        cmocka_unit_test(digits_are_learnable_and_not_trivial),
        cmocka_unit_test(copy_repeats),
        cmocka_unit_test(linear_is_linear),
        cmocka_unit_test(text_predicts_the_next_character),
        cmocka_unit_test(names_are_found_or_suggested),
        cmocka_unit_test(fashion_mnist),
        cmocka_unit_test(auto_is_always_there),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
