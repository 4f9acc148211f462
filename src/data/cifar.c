/* SPDX-License-Identifier: Apache-2.0 */
/*
 * CIFAR-10 and CIFAR-100 in their binary form: pictures of 32 x 32 pixels, one record after the
 * other.
 *
 *   CIFAR-10    data_batch_1.bin to data_batch_5.bin, test_batch.bin; fewer batches are fine
 *               1 byte label, 3072 bytes: 1024 red, 1024 green, 1024 blue, row by row
 *   CIFAR-100   train.bin, test.bin
 *               1 byte coarse label, 1 byte fine label, 3072 bytes
 *
 * Class names are the lines of batches.meta.txt or fine_label_names.txt, if the file is beside the
 * pictures and has one for each class.
 */
#include "base/file.h"
#include "base/memory.h"
#include "data/byte_reader.h"
#include "data/make.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { SIDE = 32, PIXELS = 3 * SIDE * SIDE, FILES_MAX = 6, NAMES_MAX = 1 << 16 };

typedef struct cifar_config {
    char folder[FAST_PATH_MAX]; /* where the files are */
    int normalize;              /* a fast_normalize */
} cifar_config;

static const fast_option cifar_options[] = {
    FAST_OPT_TEXT(cifar_config, folder, "", NULL,
                  "folder of data_batch_1.bin ... and test_batch.bin; of CIFAR-100: of train.bin "
                  "and test.bin"),
    FAST_OPT_CHOICE(cifar_config, normalize, "standard", FAST_NORMALIZE_CHOICES,
                    "bytes divided by 255, mean 0 and deviation 1 a channel, or as they are"),
    FAST_OPT_END,
};

/* One of the two sets. */
typedef struct cifar_form {
    const char *train[FILES_MAX]; /* names of the training files; ends with NULL */
    const char *test[2];          /* name of the test file, and NULL */
    const char *names;            /* file with a class name a line */
    int64_t label_size;           /* bytes before the pixels; the last one is the label */
    int64_t classes;              /* number of classes */
} cifar_form;

static const cifar_form forms[] = {
    { { "data_batch_1.bin", "data_batch_2.bin", "data_batch_3.bin", "data_batch_4.bin",
        "data_batch_5.bin" },
      { "test_batch.bin" },
      "batches.meta.txt",
      1,
      10 },
    { { "train.bin" }, { "test.bin" }, "fine_label_names.txt", 2, 100 },
};

enum { FILE_PATH_MAX = FAST_PATH_MAX + 32 };

/* Write the path of a file of the folder; return whether it can be read. */
static bool path_of(const char *folder, const char *name, char path[FILE_PATH_MAX])
{
    snprintf(path, FILE_PATH_MAX, "%s/%s", folder, name);
    return fast__file_exists(path);
}

/* Count the records of a file. FAST_EFORMAT if its size is no multiple of a record's. */
static fast_err count_records(const char *path, int64_t record, int64_t *count)
{
    fast_byte_reader reader;
    FAST_TRY(fast__reader_open(path, &reader));
    const bool plain = reader.inflate == NULL;
    const int64_t size = reader.bound;
    fast__reader_close(&reader);
    if (!plain)
        return fast__fail(FAST_EFORMAT, "%s is compressed: unpack it first", path);
    if (size == 0 || size % record != 0)
        return fast__fail(FAST_EFORMAT,
                          "%s has %lld bytes, which is no multiple of a record's %lld", path,
                          (long long)size, (long long)record);
    *count += size / record;
    return FAST_OK;
}

/* Read the records of a file to the set, from sample *at on. The file is opened a second time, and
 * may have changed since it was counted: it never fills more than the set has room for. */
static fast_err read_file(const char *path, const cifar_form *form, fast_data *data, int64_t *at)
{
    fast_byte_reader reader;
    int64_t count = 0;
    FAST_TRY(count_records(path, PIXELS + form->label_size, &count));
    FAST_TRY(fast__reader_open(path, &reader));
    fast_err err = FAST_OK;
    for (int64_t i = 0; i < count && *at < data->count && !err; i++, ++*at) {
        uint8_t label[2] = { 0, 0 };
        err = fast__reader_read(&reader, label, form->label_size);
        if (!err && label[form->label_size - 1] >= form->classes)
            err = fast__fail(FAST_EFORMAT, "%s: label %d of record %lld is not below %lld", path,
                             label[form->label_size - 1], (long long)i, (long long)form->classes);
        data->labels[*at] = label[form->label_size - 1];
        if (!err)
            err = fast__reader_read(&reader, (uint8_t *)data->x + *at * PIXELS, PIXELS);
    }
    fast__reader_close(&reader);
    return err;
}

/* Read the files of a list that exist: a part of CIFAR-10 is fine for a trial. *out stays NULL if
 * none does. */
static fast_err read_part(const char *folder, const cifar_form *form, const char *const *files,
                          fast_data **out)
{
    char path[FILE_PATH_MAX];
    int64_t count = 0, at = 0;
    for (int i = 0; files[i] != NULL; i++) {
        if (path_of(folder, files[i], path))
            FAST_TRY(count_records(path, PIXELS + form->label_size, &count));
    }
    if (count == 0)
        return FAST_OK;
    fast_data *data;
    FAST_TRY(fast__data_make(&(fast_data){ .count = count,
                                           .rank = 3,
                                           .shape = { 3, SIDE, SIDE },
                                           .dtype = FAST_U8,
                                           .classes = form->classes },
                             &data));
    fast_err err = FAST_OK;
    for (int i = 0; files[i] != NULL && !err; i++) {
        if (path_of(folder, files[i], path))
            err = read_file(path, form, data, &at);
    }
    if (!err && at != count)
        err = fast__fail(FAST_EIO, "the files in %s changed while they were read", folder);
    if (err) {
        fast_data_free(data);
        return err;
    }
    *out = data;
    return FAST_OK;
}

/* The file is text of people: line ends of any system, perhaps an empty line at the end.
 *
 * Take the class names of a file with a name a line; without a name for each class they stay
 * numbers. */
static fast_err read_names(const char *folder, const cifar_form *form, fast_data *data)
{
    char path[FILE_PATH_MAX];
    char *text;
    size_t size;
    if (!path_of(folder, form->names, path))
        return FAST_OK;
    FAST_TRY(fast__file_read(path, NAMES_MAX, &text, &size));
    /* A name ends with its zero byte; empty lines are dropped. */
    int64_t names = 0;
    size_t used = 0;
    for (size_t i = 0; i < size && names < form->classes; i++) {
        const bool end = text[i] == '\n' || text[i] == '\r' || text[i] == 0;
        if (end && (used == 0 || text[used - 1] == 0))
            continue;
        names += end;
        text[used++] = end ? 0 : text[i];
    }
    if (names < form->classes && used > 0 && text[used - 1] != 0) {
        text[used] = 0;
        names++;
    }
    if (names == form->classes)
        data->class_names = text;
    else
        fast__free(text);
    return FAST_OK;
}

/* Give the set the recipe of pictures of this size. */
static fast_err describe(const char *folder, const cifar_form *form, fast_data *data)
{
    static const char recipe[] =
        "{\"kind\": \"pictures\", \"height\": 32, \"width\": 32, \"channels\": 3}";
    FAST_TRY(read_names(folder, form, data));
    FAST_TRY(fast__alloc("a recipe", sizeof recipe, 1, &data->recipe));
    memcpy(data->recipe, recipe, sizeof recipe);
    return FAST_OK;
}

/* Read CIFAR-10, or CIFAR-100 if its files are there instead. */
static fast_err cifar_open(const void *config, uint64_t seed, fast_data **train_out,
                           fast_data **test_out)
{
    (void)seed;
    const cifar_config *c = config;
    if (c->folder[0] == 0)
        return fast__fail(FAST_EINVAL, "data cifar10 needs a folder: cifar10:folder=PATH");
    for (size_t i = 0; i < sizeof forms / sizeof forms[0]; i++) {
        fast_data *train = NULL, *test = NULL;
        FAST_TRY(read_part(c->folder, &forms[i], forms[i].train, &train));
        if (train == NULL)
            continue;
        fast_err err = describe(c->folder, &forms[i], train);
        if (!err)
            err = read_part(c->folder, &forms[i], forms[i].test, &test);
        if (!err)
            return fast__data_finish((fast_normalize)c->normalize, &train, &test, train_out,
                                     test_out);
        fast_data_free(train);
        return err;
    }
    return fast__fail(FAST_ENOENT, "no %s/%s; unpack CIFAR-10's binary version there", c->folder,
                      forms[0].train[0]);
}

const fast_data_kind fast__data_cifar10 = {
    .name = "cifar10",
    .summary = "CIFAR-10 or CIFAR-100 in binary files: pictures of 32x32, 10 or 100 classes",
    .options = cifar_options,
    .config_size = sizeof(cifar_config),
    .open = cifar_open,
};
