/* SPDX-License-Identifier: Apache-2.0 */
/*
 * From reading to use: a part of the set becomes the test set, and the training set's constants
 * normalise both.
 *
 * Standardisation is x' = (x - m) / s with m and s of each channel over the training set alone
 * (two passes in double are exact enough). A constant channel has s = 1, so that it becomes 0
 * instead of a division by zero.
 */
#include "base/memory.h"
#include "base/rng.h"
#include "data/make.h"

#include <math.h>
#include <string.h>

/* Element i of all samples. */
static double element(const fast_data *data, int64_t i)
{
    return data->dtype == FAST_U8 ? ((const uint8_t *)data->x)[i] : ((const float *)data->x)[i];
}

/* Add to sums[g] the elements of sample n that belong to group g, or the squares of their distances
 * from means[g]. A group is a channel of images or a column: of a sequence, at all positions. */
static void add_sample(const fast_data *data, int64_t n, int64_t groups, const double *means,
                       double *sums)
{
    const int64_t start = n * data->features;
    const int64_t run = data->rank == 3 ? data->features / groups : 1;
    for (int64_t i = 0; i < data->features; i += run) {
        const int64_t g = i / run % groups;
        double part = 0; /* sum of one sample: keeps the sum of a large set accurate */
        for (int64_t k = start + i; k < start + i + run; k++) {
            const double d = element(data, k) - (means != NULL ? means[g] : 0);
            part += means != NULL ? d * d : d;
        }
        sums[g] += part;
    }
}

/* Set mean and scale of one channel. */
static void set_constants(fast_data *data, int64_t c, double mean, double deviation)
{
    data->mean[c] = (float)mean;
    data->scale[c] = deviation > 1e-12 * (1 + fabs(mean)) ? (float)(1 / deviation) : 1;
    /* Values near the limits of float overflow one of the two: such a channel is not
     * normalised. */
    if (!isfinite(data->mean[c]) || !isfinite(data->scale[c])) {
        data->mean[c] = 0;
        data->scale[c] = 1;
    }
}

/* Set mean and scale so that every channel has mean 0 and deviation 1. */
static fast_err standardize(fast_data *data)
{
    const int64_t groups = data->rank == 2 && data->channels > 1 ? data->shape[1] : data->channels;
    const double size = (double)data->count * (double)(data->features / groups);
    double *means;
    FAST_TRY(fast__alloc("sums of columns", groups, 2 * sizeof *means, &means));
    double *squares = means + groups;
    for (int64_t n = 0; n < data->count; n++)
        add_sample(data, n, groups, NULL, means);
    for (int64_t g = 0; g < groups; g++)
        means[g] /= size;
    for (int64_t n = 0; n < data->count; n++)
        add_sample(data, n, groups, means, squares);
    for (int64_t c = 0; c < data->channels; c++) {
        set_constants(data, c, means[c % groups], sqrt(squares[c % groups] / size));
    }
    fast__free(means);
    return FAST_OK;
}

/* Set mean and scale of samples that are not in memory, in one pass over them, since each pass
 * reads and decodes: deviation^2 = mean of x^2 - mean^2. Sums of bytes are exact, and floats are
 * summed in doubles. */
static fast_err standardize_rows(fast_data *data)
{
    const int64_t run = data->features / data->channels;
    void *row;
    double *sums;
    FAST_TRY(fast__alloc("a sample", 1, fast__data_row_size(data), &row));
    fast_err err = fast__alloc("sums of channels", 2 * data->channels, sizeof *sums, &sums);
    if (err)
        goto undo_row;
    for (int64_t n = 0; n < data->count && !err; n++) {
        err = fast__data_row(data, n, row);
        for (int64_t i = 0; i < data->features && !err; i++) {
            const double v =
                data->dtype == FAST_U8 ? ((uint8_t *)row)[i] : (double)((float *)row)[i];
            sums[i / run * 2] += v;
            sums[i / run * 2 + 1] += v * v;
        }
    }
    for (int64_t c = 0; c < data->channels && !err; c++) {
        const double mean = sums[2 * c] / (double)(data->count * run);
        const double square = sums[2 * c + 1] / (double)(data->count * run) - mean * mean;
        set_constants(data, c, mean, sqrt(square > 0 ? square : 0));
    }
    fast__free(sums);
undo_row:
    fast__free(row);
    return err;
}

/* Give a set, which may be NULL, the constants of the training set: a model must see all samples
 * under the same ones. */
static void copy_constants(const fast_data *train, fast_data *set)
{
    if (set == NULL)
        return;
    FAST_ASSERT(set->channels == train->channels);
    memcpy(set->mean, train->mean, (size_t)train->channels * sizeof(float));
    memcpy(set->scale, train->scale, (size_t)train->channels * sizeof(float));
}

/* Set the constants of normalisation from the training set; the test set gets the same ones. */
fast_err fast__data_normalize(fast_normalize how, fast_data *train, fast_data *test)
{
    FAST_ASSERT(test == NULL || test->channels == train->channels);
    train->fitted = !train->tokens && how == FAST_NORMALIZE_STANDARD;
    if (train->fitted)
        FAST_TRY(train->rows != NULL ? standardize_rows(train) : standardize(train));
    if (!train->tokens && how == FAST_NORMALIZE_UNIT && train->dtype == FAST_U8) {
        for (int64_t c = 0; c < train->channels; c++)
            train->scale[c] = 1.0f / 255.0f;
    }
    copy_constants(train, test);
    return FAST_OK;
}

/* Sample at a position of the fixed shuffle. The run's seed has no effect: every run tests on the
 * same samples. */
static size_t shuffled(int64_t count, int64_t at)
{
    return fast__rng_permute(0, FAST_PURPOSE_SYNTHETIC, 0, (uint64_t)count, (uint64_t)at);
}

/* Copy `part->count` samples of `all`, from position `first` of the shuffle. */
static void copy_part(const fast_data *all, bool shuffle, int64_t first, fast_data *part)
{
    const size_t x_size = (size_t)all->features * fast__dtype_size(all->dtype);
    const size_t label_size = (size_t)all->positions * sizeof(int32_t);
    const size_t target_size = (size_t)all->outputs * sizeof(float);
    for (int64_t i = 0; i < part->count; i++) {
        const size_t from = shuffle ? shuffled(all->count, first + i) : (size_t)(first + i);
        memcpy((char *)part->x + (size_t)i * x_size, (const char *)all->x + from * x_size, x_size);
        if (all->labels != NULL)
            memcpy((char *)part->labels + (size_t)i * label_size,
                   (const char *)all->labels + from * label_size, label_size);
        else
            memcpy((char *)part->targets + (size_t)i * target_size,
                   (const char *)all->targets + from * target_size, target_size);
    }
}

/* Make a set of `count` samples of `all`. */
static fast_err make_part(const fast_data *all, bool shuffle, int64_t first, int64_t count,
                          fast_data **out)
{
    fast_data like = *all;
    like.count = count;
    fast_data *part;
    FAST_TRY(fast__data_make(&like, &part));
    const fast_err err = fast__data_copy_texts(all, part);
    if (err) {
        fast_data_free(part);
        return err;
    }
    copy_part(all, shuffle, first, part);
    *out = part;
    return FAST_OK;
}

/* Number of samples of a test set that is `fraction` of the whole: at least one. */
static int64_t count_test(int64_t count, double fraction)
{
    const int64_t test = (int64_t)(fraction * (double)count + 0.5);
    return test < 1 ? 1 : test;
}

/* The same shuffle and the same count as divide(), without samples. */
void fast__data_split_mark(int64_t count, double fraction, bool *test)
{
    const int64_t first = count - count_test(count, fraction);
    /* A split that leaves nothing to train on fails when it is made. */
    for (int64_t i = first; first > 0 && i < count; i++)
        test[shuffled(count, i)] = true;
}

/* Divide `all` into training set and test set, which is `fraction` of it; `all` stays the
 * caller's. */
static fast_err divide(const fast_data *all, const char *option, double fraction, bool shuffle,
                       fast_data **train_out, fast_data **test_out)
{
    FAST_ASSERT(fraction > 0 && fraction < 1);
    if (all->rows != NULL)
        return fast__fail(FAST_EINVAL,
                          "%s=%g divides samples in memory, and these are read from disk: give "
                          "them a test set of their own",
                          option, fraction);
    const int64_t test_count = count_test(all->count, fraction);
    if (all->count < 2)
        return fast__fail(FAST_EINVAL, "one sample cannot be split; set %s=0", option);
    if (test_count >= all->count)
        return fast__fail(FAST_EINVAL, "%s=%g leaves none of %lld samples to train on", option,
                          fraction, (long long)all->count);
    fast_data *train = NULL;
    FAST_TRY(make_part(all, shuffle, 0, all->count - test_count, &train));
    const fast_err err = make_part(all, shuffle, all->count - test_count, test_count, test_out);
    if (err)
        fast_data_free(train);
    else
        *train_out = train;
    return err;
}

/* Split a set, which is consumed; with a fraction of 0 it becomes the training set itself. */
fast_err fast__data_split(fast_data **move, double fraction, bool shuffle, fast_data **train_out,
                          fast_data **test_out)
{
    fast_data *all = *move;
    *move = NULL;
    FAST_ASSERT(all != NULL && fraction >= 0 && fraction < 1);
    if (fraction == 0) {
        *train_out = all;
        *test_out = NULL;
        return FAST_OK;
    }
    const fast_err err = divide(all, "test_fraction", fraction, shuffle, train_out, test_out);
    fast_data_free(all);
    return err;
}

/* Constants that were given, or are the same for all data, stay as they are. */
fast_err fast__data_refit(fast_data *train, fast_data *held, fast_data *test)
{
    if (!train->fitted)
        return FAST_OK;
    FAST_TRY(fast__data_normalize(FAST_NORMALIZE_STANDARD, train, held));
    copy_constants(train, test);
    return FAST_OK;
}

/* Divide a training set that is open. Both parts have the constants of the whole. */
static fast_err divide_open(const fast_data *all, const char *option, double fraction,
                            fast_data **train_out, fast_data **part_out)
{
    FAST_TRY(divide(all, option, fraction, true, train_out, part_out));
    (*train_out)->fitted = all->fitted;
    copy_constants(all, *train_out);
    copy_constants(all, *part_out);
    return FAST_OK;
}

fast_err fast__data_validation(const fast_data *all, double fraction, fast_data **train_out,
                               fast_data **validation_out)
{
    return divide_open(all, "validation", fraction, train_out, validation_out);
}

/* Replace the test set by a fraction of the training set, for choices that must not see the test
 * set. */
fast_err fast__data_hold_out(double fraction, fast_data **train, fast_data **test)
{
    fast_data *remaining;
    fast_data *held;
    FAST_TRY(divide_open(*train, "holdout", fraction, &remaining, &held));
    const fast_err err = fast__data_refit(remaining, held, NULL);
    if (err) {
        fast_data_free(remaining);
        fast_data_free(held);
        return err;
    }
    fast_data_free(*train);
    fast_data_free(*test);
    *train = remaining;
    *test = held;
    return FAST_OK;
}

/* Check both sets, and that their samples have the same form: a model that is built for one must
 * fit the other. */
static fast_err check_pair(const fast_data *train, const fast_data *test)
{
    FAST_TRY(fast__data_check(train));
    if (test == NULL)
        return FAST_OK;
    FAST_TRY(fast__data_check(test));
    bool same = train->rank == test->rank && train->channels == test->channels &&
                train->positions == test->positions && train->outputs == test->outputs &&
                train->classes == test->classes;
    for (int i = 0; i < train->rank; i++)
        same = same && train->shape[i] == test->shape[i];
    if (!same)
        return fast__fail(FAST_EFORMAT,
                          "training and test samples differ: %lld features and %lld outputs, "
                          "%lld features and %lld outputs",
                          (long long)train->features, (long long)train->outputs,
                          (long long)test->features, (long long)test->outputs);
    return FAST_OK;
}

/* Split a test set off unless one was read, then finish both. */
fast_err fast__data_finish_split(fast_normalize how, double fraction, bool shuffle,
                                 fast_data **train_move, fast_data **test_move,
                                 fast_data **train_out, fast_data **test_out)
{
    if (*test_move == NULL)
        FAST_TRY(fast__data_split(train_move, fraction, shuffle, train_move, test_move));
    return fast__data_finish(how, train_move, test_move, train_out, test_out);
}

/* Check both sets and normalise them. Consumes its arguments, also on failure. */
fast_err fast__data_finish(fast_normalize how, fast_data **train_move, fast_data **test_move,
                           fast_data **train_out, fast_data **test_out)
{
    fast_data *train = *train_move;
    fast_data *test = *test_move;
    *train_move = *test_move = NULL;
    FAST_ASSERT(train != NULL);
    fast_err err = check_pair(train, test);
    if (!err)
        err = fast__data_normalize(how, train, test);
    if (err) {
        fast_data_free(train);
        fast_data_free(test);
        return err;
    }
    *train_out = train;
    *test_out = test;
    return FAST_OK;
}
