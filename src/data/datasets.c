/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The kinds of data sets by name, and opening one from a user's text: "digits",
 * "csv:file=iris.csv,target=species". "auto" is the default of a program without options: it never
 * needs a file that does not exist.
 */
#include "base/memory.h"
#include "data/data.h"
#include "data/make.h"

#include <stdio.h>
#include <string.h>

const fast_data_kind *const fast__data_kinds[] = {
    &fast__data_fashion_mnist,
    &fast__data_digits,
    &fast__data_idx,
    &fast__data_csv,
    &fast__data_npy,
    &fast__data_npz,
    &fast__data_text,
    &fast__data_folder,
    &fast__data_cifar10,
    &fast__data_shards,
    &fast__data_spirals,
    &fast__data_blobs,
    &fast__data_linear,
    &fast__data_nonlinear,
    &fast__data_copy,
    &fast__data_words,
    NULL,
};

enum { KIND_COUNT = sizeof fast__data_kinds / sizeof fast__data_kinds[0] - 1, NAME_MAX_SIZE = 64 };

#ifdef FAST_HAVE_ZLIB
static const char digits_note[] = "Fashion-MNIST is not installed (package dataset-fashion-mnist): "
                                  "training on rendered digits";
#else
static const char digits_note[] =
    "this build has no zlib to unpack Fashion-MNIST with: training on "
    "rendered digits";
#endif

/* Name of kind `i`, then "auto", for messages. */
static const char *name_at(const void *ctx, int64_t i)
{
    (void)ctx;
    return i < KIND_COUNT ? fast__data_kinds[i]->name : "auto";
}

/* Parse the options of a kind and open it. */
static fast_err open_kind(const fast_data_kind *kind, const char *text, uint64_t seed,
                          fast_data **train_out, fast_data **test_out)
{
    void *config;
    FAST_TRY(fast__alloc("a data set's options", 1, kind->config_size, &config));
    fast__options_default(kind->options, config);
    char where[NAME_MAX_SIZE + 8];
    snprintf(where, sizeof where, "data %s", kind->name);
    fast_err err = fast__options_parse(where, kind->options, config, text);
    if (!err)
        err = kind->open(config, seed, train_out, test_out);
    fast__free(config);
    return err;
}

/* Find the kind of "name:key=value,...", parse its options and open both sets. *note_out gets a
 * remark on the choice, or NULL. */
fast_err fast__data_open(const char *spec, uint64_t seed, fast_data **train_out,
                         fast_data **test_out, const char **note_out)
{
    FAST_ASSERT(spec != NULL && train_out != NULL && test_out != NULL);
    char name[NAME_MAX_SIZE];
    const char *text;
    const char *note = NULL;
    FAST_TRY(fast__spec_split(spec, name, sizeof name, &text));
    if (strcmp(name, "auto") == 0) {
        if (text != NULL && text[0] != 0)
            return fast__fail(FAST_EINVAL, "data auto has no options; name a data set");
        const bool found = fast__fashion_mnist_found();
        note = found ? NULL : digits_note;
        snprintf(name, sizeof name, "%s",
                 found ? fast__data_fashion_mnist.name : fast__data_digits.name);
    }
    const int64_t i = fast__name_find(name, name_at, NULL, KIND_COUNT, NULL);
    if (i < 0)
        return fast__name_unknown("data", name, name_at, NULL, KIND_COUNT + 1);
    FAST_TRY(open_kind(fast__data_kinds[i], text, seed, train_out, test_out));
    FAST_ASSERT(*train_out != NULL && (*train_out)->count > 0);
    if (note_out != NULL)
        *note_out = note;
    return FAST_OK;
}
