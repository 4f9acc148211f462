/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Goal: new pictures of a model are read in the order of their paths, with the classes of their
 * folders where answers are wanted, and keep their names. Method: two folders of grey pictures of
 * one value each, read again through the recipe of the set that they make.
 */
#include "base/file.h"
#include "base/folder_fixture.h"
#include "data/picture_fixture.h"
#include "data/recipe.h"

#include <sys/stat.h>

#ifdef FAST_HAVE_PNG
/* Write picture i of a class, whose every pixel is `value`. */
static void write_png(const char *folder, int i, uint8_t value)
{
    static bytes file;
    uint8_t rows[36];
    char path[160];

    memset(rows, value, sizeof rows);
    png_make(&(png_made){ 6, 6, PNG_COLOR_TYPE_GRAY, 8, false }, rows, &file);
    snprintf(path, sizeof path, "%s/%s", root, folder);
    assert_int_equal(fast__file_make_folder(path), FAST_OK);
    snprintf(path, sizeof path, "%s/%s/%d.png", root, folder, i);
    FILE *out = fopen(path, "wb");
    assert_non_null(out);
    assert_int_equal(fwrite(file.at, 1, file.size, out), file.size);
    fclose(out);
}

/* Read the pictures below `folder` in batches of two; returns their number. Values are 100 times
 * the class and the number of the picture. */
static int64_t check_folder(const fast_recipe *recipe, const char *folder, bool answers)
{
    fast_source *source = NULL;
    fast_data *batch = NULL;
    char path[160];
    int64_t seen = 0;

    snprintf(path, sizeof path, "%s/%s", root, folder);
    if (fast__source_open(recipe, path, answers, &source))
        fail_msg("%s", fast_error_detail());
    for (;;) {
        assert_int_equal(source->next(source, 2, &batch), FAST_OK);
        if (!batch)
            break;
        for (int64_t i = 0; i < batch->count; i++, seen++) {
            const int value = ((const uint8_t *)batch->x)[i * batch->features];
            char name[16];

            snprintf(name, sizeof name, "/%d.png", value % 100);
            assert_non_null(strstr(source->name(source, seen), name));
            assert_int_equal(batch->labels[i], answers ? value / 100 : 0);
        }
        fast_data_free(batch);
    }
    source->close(source);
    return seen;
}

static void new_pictures_are_read_by_their_recipe(void **state)
{
    (void)state;
    fast_data *train = NULL, *test = NULL;
    fast_recipe *recipe = NULL;
    fast_source *source = NULL;
    char spec[FIXTURE_SPEC], *text = NULL;

    for (int i = 0; i < 4; i++) {
        write_png("set/ant", i, (uint8_t)i);
        write_png("set/bee", i, (uint8_t)(100 + i));
        write_png("other/wasp", i, (uint8_t)i);
    }
    snprintf(spec, sizeof spec, "folder:path=%s/set,test_fraction=0", root);
    open_well(spec, &train, &test);
    assert_int_equal(fast__recipe_write(train, &text), FAST_OK);
    assert_int_equal(fast__recipe_read("test", text, &recipe), FAST_OK);
    assert_int_equal(check_folder(recipe, "set", true), 8);
    assert_int_equal(check_folder(recipe, "set", false), 8);
    assert_int_equal(check_folder(recipe, "other", false), 4);
    assert_int_equal(check_folder(recipe, "set/bee/2.png", false), 1);
    snprintf(spec, sizeof spec, "%s/other", root);
    assert_int_equal(fast__source_open(recipe, spec, true, &source), FAST_EFORMAT);
    assert_non_null(strstr(fast_error_detail(), "wasp"));
    /* A data set of train and test stands for its test set; the size is the model's. */
    write_png("both/train/ant", 0, 0);
    write_png("both/test/bee", 5, 105);
    assert_int_equal(check_folder(recipe, "both", true), 1);
    assert_int_equal(check_folder(recipe, "both", false), 1);
    /* A link that leads nowhere is a picture that cannot be read. */
    snprintf(spec, sizeof spec, "%s/both/test/bee/9.png", root);
    assert_int_equal(symlink("/nowhere/at/all", spec), 0);
    snprintf(spec, sizeof spec, "folder:path=%s/both", root);
    fast_data *batch = NULL;
    assert_int_equal(fast__source_open(recipe, spec, true, &source), FAST_OK);
    assert_int_not_equal(source->next(source, 8, &batch), FAST_OK);
    assert_non_null(strstr(fast_error_detail(), "9.png"));
    source->close(source);
    fast__recipe_free(recipe);
    fast__free(text);
    fast_data_free(train);
}
#endif

/* Standard input has no pictures, whatever the build. */
static void standard_input_is_refused(void **state)
{
    (void)state;
    static const char text[] =
        "{\"version\": 1, \"shape\": [1, 6, 6], \"dtype\": \"U8\", \"mean\": [0], \"scale\": [1], "
        "\"classes\": 2, \"outputs\": 2, \"source\": {\"kind\": \"pictures\", \"height\": 6, "
        "\"width\": 6, \"channels\": 1}}";
    fast_recipe *recipe = NULL;
    fast_source *source = NULL;

    assert_int_equal(fast__recipe_read("test", text, &recipe), FAST_OK);
    assert_int_equal(fast__source_open(recipe, "-", false, &source), FAST_EINVAL);
    assert_non_null(strstr(fast_error_detail(), "standard input"));
    fast__recipe_free(recipe);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
#ifdef FAST_HAVE_PNG
        cmocka_unit_test(new_pictures_are_read_by_their_recipe),
#endif
        cmocka_unit_test(standard_input_is_refused),
    };
    return cmocka_run_group_tests(tests, make_root, drop_root);
}
