/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Fashion-MNIST (Xiao, Rasul, Vollgraf 2017): 60,000 training and 10,000 test images of clothes,
 * 28 x 28 bytes, 10 classes; four gzipped IDX files, as Debian's dataset-fashion-mnist installs
 * them. Unpacked straight into place it takes 55 MB.
 */
#include "data/make.h"

#include "base/file.h"

#include <stdio.h>
#include <unistd.h>

#define FOLDER "/usr/share/datasets/fashion-mnist"

enum { CLASSES = 10, FILE_MAX = FAST_PATH_MAX + 64 };

/* Names of the classes in their order, each with its zero byte. */
static char class_names[] = "T-shirt/top\0Trouser\0Pullover\0Dress\0Coat\0Sandal\0Shirt\0Sneaker\0"
                            "Bag\0Ankle boot";

typedef struct fashion_config {
    char folder[FAST_PATH_MAX]; /* folder of the four files */
    int normalize;              /* a fast_normalize */
} fashion_config;

static const fast_option fashion_options[] = {
    FAST_OPT_TEXT(fashion_config, folder, FOLDER, NULL, "folder of the four gzipped IDX files"),
    FAST_OPT_CHOICE(fashion_config, normalize, "unit", FAST_NORMALIZE_CHOICES,
                    "bytes divided by 255, mean 0 and deviation 1, or as they are"),
    FAST_OPT_END,
};

/* Tell whether the four files of the package are readable and this build can unpack them. */
bool fast__fashion_mnist_found(void)
{
#ifdef FAST_HAVE_ZLIB
    return fast__file_exists(FOLDER "/train-images-idx3-ubyte.gz") &&
           fast__file_exists(FOLDER "/train-labels-idx1-ubyte.gz") &&
           fast__file_exists(FOLDER "/t10k-images-idx3-ubyte.gz") &&
           fast__file_exists(FOLDER "/t10k-labels-idx1-ubyte.gz");
#else
    return false; /* the files may exist, but this build cannot unpack them */
#endif
}

/* Find the plain file that gunzip leaves, or else the gzipped one. */
static void find(const char *folder, const char *name, char path[FILE_MAX])
{
    snprintf(path, FILE_MAX, "%s/%s", folder, name);
    if (!fast__file_exists(path))
        snprintf(path, FILE_MAX, "%s/%s.gz", folder, name);
}

/* Read the training ("train") or test ("t10k") set. */
static fast_err read_part(const char *folder, const char *part, fast_data **out)
{
    char name[64], images[FILE_MAX], labels[FILE_MAX];
    snprintf(name, sizeof name, "%s-images-idx3-ubyte", part);
    find(folder, name, images);
    snprintf(name, sizeof name, "%s-labels-idx1-ubyte", part);
    find(folder, name, labels);
    if (!fast__file_exists(images))
        return fast__fail(FAST_ENOENT,
                          "no %s; install the package dataset-fashion-mnist, or give "
                          "fashion-mnist:folder=PATH",
                          images);
    fast_data *data;
    FAST_TRY(fast__idx_read(images, labels, CLASSES, &data));
    const fast_data texts = { .classes = CLASSES, .class_names = class_names };
    const fast_err err = fast__data_copy_texts(&texts, data);
    if (err) {
        fast_data_free(data);
        return err;
    }
    *out = data;
    return FAST_OK;
}

/* Read both pairs of files in the folder; FAST_ENOENT names the package that has them. */
static fast_err fashion_open(const void *config, uint64_t seed, fast_data **train_out,
                             fast_data **test_out)
{
    (void)seed;
    const fashion_config *c = config;
    fast_data *train;
    fast_data *test;
    FAST_TRY(read_part(c->folder, "train", &train));
    const fast_err err = read_part(c->folder, "t10k", &test);
    if (err) {
        fast_data_free(train);
        return err;
    }
    return fast__data_finish((fast_normalize)c->normalize, &train, &test, train_out, test_out);
}

const fast_data_kind fast__data_fashion_mnist = {
    .name = "fashion-mnist",
    .summary = "70,000 images of clothes, 28x28, 10 classes (package dataset-fashion-mnist)",
    .options = fashion_options,
    .config_size = sizeof(fashion_config),
    .open = fashion_open,
};
