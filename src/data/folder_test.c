/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Goal: folders of pictures and CIFAR's files become the samples and classes that they hold,
 * whether decoded at the start or by batches; broken ones are named or counted. Method: folders in
 * a temporary place, with pictures whose every pixel tells their number.
 */
#include "base/file.h"
#include "base/folder_fixture.h"
#include "data/loader.h"
#include "data/picture_fixture.h"
#include "data/picture_list.h"

#include <fcntl.h>
#include <sys/stat.h>

/* Write a file below the root, with its folders. */
static void write_at(const char *name, const void *from, size_t size)
{
    char path[256];
    snprintf(path, sizeof path, "%s/%s", root, name);
    char *slash = strrchr(path, '/');
    *slash = 0;
    assert_int_equal(fast__file_make_folder(path), FAST_OK);
    *slash = '/';
    const int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, from, size), (ssize_t)size);
    close(fd);
}

#ifdef FAST_HAVE_PNG
/* Write a grey PNG file of 6 x 6 pixels of one value. */
static void write_png(const char *name, uint8_t value)
{
    static bytes file;
    uint8_t rows[36];
    memset(rows, value, sizeof rows);
    png_make(&(png_made){ 6, 6, PNG_COLOR_TYPE_GRAY, 8, false }, rows, &file);
    write_at(name, file.at, file.size);
}

/* The spec of the root with more options. */
static const char *spec(const char *more)
{
    static char text[FIXTURE_SPEC];
    snprintf(text, sizeof text, "folder:path=%s%s", root, more);
    return text;
}

/* Two classes with `count` pictures each; picture i of class c has the value 100 c + i. */
static void write_classes(const char *below, int count)
{
    for (int c = 0; c < 2; c++)
        for (int i = 0; i < count; i++) {
            char name[64];
            snprintf(name, sizeof name, "%s%s/%02d.png", below, c == 0 ? "ant" : "bee", i);
            write_png(name, (uint8_t)(100 * c + i));
        }
}

static void classes_are_folders(void **state)
{
    (void)state;
    fast_data *train, *test;
    write_classes("train/", 3);
    write_classes("test/", 1);
    write_at("train/notes.txt", "x", 1);
    write_at("train/bee/thumbs.db", "x", 1);
    open_well(spec(",normalize=none"), &train, &test);
    assert_int_equal(train->count, 6);
    assert_int_equal(test->count, 2);
    assert_int_equal(train->classes, 2);
    assert_memory_equal(train->class_names, "ant\0bee", 8);
    assert_string_equal(train->recipe,
                        "{\"kind\": \"pictures\", \"height\": 6, \"width\": 6, \"channels\": 1}");
    for (int i = 0; i < 6; i++) {
        assert_int_equal(train->labels[i], i / 3);
        assert_int_equal(((uint8_t *)train->x)[36 * i + 7], 100 * (i / 3) + i % 3);
    }
    assert_int_equal(test->labels[1], 1);
    fast_data_free(train);
    fast_data_free(test);
    open_well(spec(",size=3x5,channels=rgb"), &train, &test);
    assert_int_equal(train->shape[0], 3);
    assert_int_equal(train->shape[1], 3);
    assert_int_equal(train->shape[2], 5);
    /* Mean of the training pictures: (0 + 1 + 2 + 100 + 101 + 102) / 6. */
    assert_float_equal(train->mean[2], 51, 1e-4);
    assert_float_equal(test->mean[2], 51, 1e-4);
    fast_data_free(train);
    fast_data_free(test);
}

static void a_fraction_is_drawn_by_the_seed(void **state)
{
    (void)state;
    fast_data *a, *a_test, *b, *b_test;
    write_classes("", 10);
    open_well(spec(",test_fraction=0.25"), &a, &a_test);
    open_well(spec(",test_fraction=0.25,split_seed=7"), &b, &b_test);
    assert_int_equal(a->count, 15);
    assert_int_equal(a_test->count, 5);
    assert_memory_not_equal(a_test->x, b_test->x, 5 * 36);
    /* No picture is lost, none is twice: values are the pictures' numbers. */
    int seen[256] = { 0 };
    for (int i = 0; i < 15; i++)
        seen[((uint8_t *)a->x)[36 * i]]++;
    for (int i = 0; i < 5; i++)
        seen[((uint8_t *)a_test->x)[36 * i]]++;
    for (int i = 0; i < 20; i++)
        assert_int_equal(seen[100 * (i / 10) + i % 10], 1);
    fast_data_free(a);
    fast_data_free(a_test);
    fast_data_free(b);
    fast_data_free(b_test);
}

static void batches_decode_the_same(void **state)
{
    (void)state;
    fast_data *a, *a_test, *b, *b_test;
    write_classes("train/", 9);
    write_classes("test/", 2);
    open_well(spec(",size=4"), &a, &a_test);
    open_well(spec(",size=4,decode=batch"), &b, &b_test);
    assert_null(b->x);
    assert_non_null(b->rows);
    const fast_loader_options options = {
        .seed = 3, .batch = 4, .shuffle = true, .augment = "shift:1+noise:0.1", .prefetch = 2
    };
    fast_loader *la, *lb;
    assert_int_equal(fast__loader_new(a, &options, &la), FAST_OK);
    assert_int_equal(fast__loader_new(b, &options, &lb), FAST_OK);
    for (int64_t step = 0; step < 12; step++) {
        const fast_batch *x, *y;
        assert_int_equal(fast__loader_get(la, step, &x), FAST_OK);
        assert_int_equal(fast__loader_get(lb, step, &y), FAST_OK);
        assert_memory_equal(x->x, y->x, 4 * 16 * sizeof(float));
        assert_memory_equal(x->labels, y->labels, 4 * sizeof(int32_t));
    }
    /* A picture that disappears is an error of its batch, by name. */
    char path[128];
    for (int i = 0; i < 9; i++) {
        snprintf(path, sizeof path, "%s/train/ant/%02d.png", root, i);
        remove(path);
    }
    fast_err err = FAST_OK;
    const fast_batch *batch;
    for (int64_t step = 20; step < 24 && !err; step++)
        err = fast__loader_get(lb, step, &batch);
    assert_int_equal(err, FAST_ENOENT);
    assert_non_null(strstr(fast_error_detail(), "/train/ant/"));
    fast__loader_free(la);
    fast__loader_free(lb);
    fast_data_free(a);
    fast_data_free(a_test);
    fast_data_free(b);
    fast_data_free(b_test);
}

static void broken_pictures_are_named_or_counted(void **state)
{
    (void)state;
    fast_data *train, *test;
    write_classes("", 4);
    write_at("bee/00.png", "not a picture", 13);
    open_badly(spec(",size=6,channels=grey"), FAST_EFORMAT, "bee/00.png is neither", 1 << 20);
    /* The first picture decides the form, or the first one that can be decoded. */
    write_at("ant/00.png", "not a picture", 13);
    open_badly(spec(",test_fraction=0"), FAST_EFORMAT, "ant/00.png is neither", 1 << 20);
    open_well(spec(",test_fraction=0,broken=skip"), &train, &test);
    assert_int_equal(train->shape[1], 6);
    assert_int_equal(train->count, 6);
    fast_data_free(train);
    write_png("ant/00.png", 0);
    const char *const modes[] = {
        ",size=6,channels=grey,broken=skip,test_fraction=0",
        ",size=6,channels=grey,broken=skip,test_fraction=0,decode=batch"
    };
    /* A link that leads nowhere is not left out silently, but counted. */
    char link[256];
    snprintf(link, sizeof link, "%s/bee/link.png", root);
    assert_int_equal(symlink("/nowhere/at/all", link), 0);
    for (int i = 0; i < 2; i++) {
        open_well(spec(modes[i]), &train, &test);
        assert_int_equal(train->count, 7);
        assert_int_equal(train->labels[3], 0);
        assert_int_equal(train->labels[4], 1);
        assert_null(test);
        fast_data_free(train);
    }
}

static void wrong_folders_are_refused(void **state)
{
    (void)state;
    open_badly("folder", FAST_EINVAL, "folder:path=PATH", 1 << 16);
    open_badly("folder:path=/nowhere", FAST_ENOENT, "/nowhere", 1 << 16);
    open_badly(spec(""), FAST_ENOENT, "has no pictures", 1 << 16);
    write_png("a.png", 1);
    open_badly(spec(""), FAST_EFORMAT, "no folders", 1 << 16);
    write_classes("train/", 2);
    open_badly(spec(",size=0"), FAST_EINVAL, "size=0", 1 << 16);
    open_badly(spec(",size=2x"), FAST_EINVAL, "size=2x", 1 << 16);
    open_badly(spec(",size=9999"), FAST_EINVAL, "size=9999", 1 << 16);
    write_png("test/cat/1.png", 1);
    open_badly(spec(""), FAST_EFORMAT, "test/cat is no class", 1 << 16);
}

static void lists_have_files_in_order(void **state)
{
    (void)state;
    fast_picture_list list;
    char path[128];
    write_classes("", 2);
    assert_int_equal(fast__picture_list_open(root, "bee\0ant\0", 2, true, &list), FAST_OK);
    assert_int_equal(list.count, 4);
    assert_int_equal(list.labels[0], 1); /* ant */
    assert_int_equal(list.labels[2], 0); /* bee */
    fast__picture_list_fini(&list);
    assert_int_equal(fast__picture_list_open(root, "wasp\0", 1, false, &list), FAST_OK);
    assert_int_equal(list.labels[0], -1);
    fast__picture_list_fini(&list);
    snprintf(path, sizeof path, "%s/bee", root);
    assert_int_equal(fast__picture_list_open(path, NULL, 0, false, &list), FAST_OK);
    assert_int_equal(list.count, 2);
    assert_int_equal(list.classes, 0);
    fast__picture_list_fini(&list);
    snprintf(path, sizeof path, "%s/bee/01.png", root);
    assert_int_equal(fast__picture_list_open(path, NULL, 0, false, &list), FAST_OK);
    assert_int_equal(list.count, 1);
    assert_string_equal(fast__picture_path(&list, 0), path);
    fast__picture_list_fini(&list);
}

static void folders_open_without_memory(void **state)
{
    (void)state;
    write_classes("", 3);
    open_without_memory(spec(",test_fraction=0.3"));
    open_without_memory(spec(",decode=batch,broken=skip,test_fraction=0.3"));
}
#endif

/* Write records of CIFAR-10: record i has label i % 10 and pixels of value i. */
static void write_cifar(const char *name, int count, int label_size)
{
    static uint8_t records[8 * (3072 + 2)];
    const int size = 3072 + label_size;
    assert_true(count <= 8);
    for (int i = 0; i < count; i++) {
        memset(records + i * size, i, (size_t)size);
        records[i * size + label_size - 1] = (uint8_t)(i % 10);
    }
    write_at(name, records, (size_t)(count * size));
}

static void cifar_is_read(void **state)
{
    (void)state;
    char text[FIXTURE_SPEC];
    fast_data *train, *test;
    snprintf(text, sizeof text, "cifar10:folder=%s,normalize=unit", root);
    open_badly(text, FAST_ENOENT, "data_batch_1.bin", 1 << 16);
    write_cifar("train.bin", 4, 2);
    write_cifar("test.bin", 2, 2);
    open_well(text, &train, &test);
    assert_int_equal(train->classes, 100);
    fast_data_free(train);
    fast_data_free(test);
    write_cifar("data_batch_1.bin", 3, 1);
    write_cifar("data_batch_3.bin", 5, 1);
    write_cifar("test_batch.bin", 2, 1);
    write_at("batches.meta.txt", "a\nb\nc\nd\ne\nf\ng\nh\ni\nj\n\n", 21);
    open_well(text, &train, &test);
    assert_int_equal(train->count, 8);
    assert_int_equal(test->count, 2);
    assert_int_equal(train->labels[7], 4);
    assert_int_equal(((uint8_t *)train->x)[7 * 3072 + 3071], 4);
    assert_memory_equal(train->class_names, "a\0b\0c\0d\0e\0f\0g\0h\0i\0j", 20);
    fast_data_free(train);
    fast_data_free(test);
    open_without_memory(text);
    write_at("data_batch_1.bin", "abc", 3);
    open_badly(text, FAST_EFORMAT, "3 bytes", 1 << 17);
    uint8_t record[3073] = { 10 };
    write_at("data_batch_1.bin", record, sizeof record);
    open_badly(text, FAST_EFORMAT, "label 10 of record 0", 1 << 17);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, make_root, drop_root)

int main(void)
{
    const struct CMUnitTest tests[] = {
#ifdef FAST_HAVE_PNG
        TEST(classes_are_folders),
        TEST(a_fraction_is_drawn_by_the_seed),
        TEST(batches_decode_the_same),
        TEST(broken_pictures_are_named_or_counted),
        TEST(wrong_folders_are_refused),
        TEST(lists_have_files_in_order),
        TEST(folders_open_without_memory),
#endif
        TEST(cifar_is_read),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
