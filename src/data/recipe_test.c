/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Recipes. Goal: a description that is written and read back makes the same inputs to the bit, new
 * data are read in batches of any size, and every member that is wrong is refused by name. Method:
 * describe sets of several kinds, read their samples again through sources, damage descriptions.
 */
#include "data/data_fixture.h"
#include "data/recipe.h"
#include "data/sample_gather.h"

/* The description of a set, read back. The text is freed. */
static fast_recipe *recipe_of(const fast_data *data)
{
    fast_recipe *recipe = NULL;
    char *text = NULL;

    assert_int_equal(fast__recipe_write(data, &text), FAST_OK);
    if (fast__recipe_read("test", text, &recipe))
        fail_msg("%s", fast_error_detail());
    fast__free(text);
    return recipe;
}

/* Constants and sizes survive to the bit; samples by name are those of the test set. */
static void check_round(const char *spec)
{
    fast_data *train, *test, *batch = NULL;
    fast_source *source = NULL;
    int64_t seen = 0;

    open_well(spec, &train, &test);
    fast_recipe *recipe = recipe_of(train);
    assert_int_equal(recipe->like->features, train->features);
    assert_int_equal(recipe->like->classes, train->classes);
    assert_int_equal(recipe->like->positions, train->positions);
    assert_int_equal(recipe->like->outputs, train->outputs);
    assert_int_equal(recipe->like->tokens, train->tokens);
    assert_memory_equal(recipe->like->mean, train->mean, (size_t)train->channels * sizeof(float));
    assert_memory_equal(recipe->like->scale, train->scale, (size_t)train->channels * sizeof(float));
    if (fast__source_open(recipe, spec, true, &source))
        fail_msg("%s", fast_error_detail());
    for (;;) {
        float want[7 * 784], got[7 * 784];
        uint32_t there[7], here[7];

        assert_int_equal(source->next(source, 7, &batch), FAST_OK);
        if (batch == NULL)
            break;
        for (uint32_t i = 0; i < (uint32_t)batch->count; i++) {
            there[i] = (uint32_t)seen + i;
            here[i] = i;
        }
        fast__gather(test, there, batch->count, want);
        fast__gather(batch, here, batch->count, got);
        assert_memory_equal(want, got, (size_t)(batch->count * test->features) * sizeof(float));
        seen += batch->count;
        fast_data_free(batch);
    }
    assert_int_equal(seen, test->count);
    source->close(source);
    fast__recipe_free(recipe);
    fast_data_free(train);
    fast_data_free(test);
}

/* Sets that differ in what a description holds: bytes with one and the other normalisation, floats,
 * a regression, tokens with an answer at each position. */
static void descriptions_are_read_back(void **state)
{
    (void)state;
    check_round("digits:train=30,test=16,normalize=standard");
    check_round("digits:train=30,test=16,normalize=unit");
    check_round("blobs:train=30,test=16");
    check_round("nonlinear:train=30,test=16");
    check_round("copy:train=30,test=16,length=3,symbols=4");
}

/* Append the header of an NPY array and its elements. */
static void put_npy(bytes *b, const char *type, const char *shape, const void *values, size_t size)
{
    char text[128] = { 0 };
    const int length = snprintf(text, sizeof text,
                                "{'descr': '%s', 'fortran_order': False, "
                                "'shape': %s, }\n",
                                type, shape);
    const uint8_t head[] = { 0x93, 'N', 'U', 'M', 'P', 'Y', 1, 0, (uint8_t)length, 0 };

    b->size = 0;
    put(b, head, sizeof head);
    put(b, text, (size_t)length);
    put(b, values, size);
}

/* An NPY file for a model of 2 x 3 bytes: the shape must agree, and floats must be on its scale. */
static void arrays_are_checked(void **state)
{
    (void)state;
    static bytes b;
    const uint8_t pixels[12] = { 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 255 };
    const float fractions[6] = { 0.1f, 0.2f, 0.3f, 0, 1, 0.5f };
    const float wide[6] = { 0.5f, 17, 255, 0, 1, 3 };
    const struct {
        const char *type;   /* of the elements */
        const char *shape;  /* of the file */
        const void *values; /* elements */
        size_t size;        /* bytes */
        const char *error;  /* a part of the sentence; or NULL */
    } cases[] = {
        { "|u1", "(2, 2, 3)", pixels, 12, NULL },
        { "|u1", "(2, 1, 2, 3)", pixels, 12, NULL },
        { "<f4", "(1, 2, 3)", wide, 24, NULL },
        { "<f4", "(1, 2, 3)", fractions, 24, "bytes of 0 to 255" },
        { "|u1", "(2, 3, 2)", pixels, 12, "the model takes 6" },
        { "|u1", "(3, 4)", pixels, 12, "4 values" },
        { "|u1", "(2, 2, 3)", pixels, 11, "at most 11" },
    };
    const char *text = "{\"version\": 1, \"shape\": [1, 2, 3], \"dtype\": \"U8\", \"mean\": [0], "
                       "\"scale\": [1], \"classes\": 2, \"outputs\": 2, \"source\": {\"kind\": "
                       "\"array\"}}";
    fast_recipe *recipe = NULL;

    assert_int_equal(fast__recipe_read("test", text, &recipe), FAST_OK);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        fast_source *source = NULL;
        fast_data *batch = NULL;

        put_npy(&b, cases[i].type, cases[i].shape, cases[i].values, cases[i].size);
        data_fixture f = fixture_make(b.at, b.size);
        fast_err err = fast__source_open(recipe, f.path, false, &source);
        if (!err)
            err = source->next(source, 8, &batch);
        assert_int_equal(err, cases[i].error ? FAST_EFORMAT : FAST_OK);
        if (cases[i].error && !strstr(fast_error_detail(), cases[i].error))
            fail_msg("case %zu: %s", i, fast_error_detail());
        fast_data_free(batch);
        if (source)
            source->close(source);
        fixture_drop(&f);
    }
    fast__recipe_free(recipe);
}

/* Text in batches: overlapping answers, the rest is dropped, unknown characters have a line. */
static void text_is_read_by_its_alphabet(void **state)
{
    (void)state;
    data_fixture book = fixture_make("abcab\ncabcabcabc", 16), other = fixture_make("ab\ncaX", 6);
    char spec[FIXTURE_SPEC];
    fast_data *train, *test, *batch = NULL;
    fast_source *source = NULL;
    const uint8_t want[] = { 1, 2, 3, 1, 2, 0 };

    snprintf(spec, sizeof spec, "text:file=%s,length=3,test_fraction=0", book.path);
    open_well(spec, &train, &test);
    fast_recipe *recipe = recipe_of(train);
    assert_int_equal(recipe->like->vocabulary, 4);
    assert_memory_equal(recipe->like->alphabet, "\nabc", 4);
    assert_int_equal(fast__source_open(recipe, book.path, true, &source), FAST_OK);
    assert_int_equal(source->next(source, 2, &batch), FAST_OK);
    assert_int_equal(batch->count, 2);
    assert_memory_equal(batch->x, want, sizeof want);
    assert_int_equal(batch->labels[2], 1);
    assert_int_equal(batch->labels[5], 3);
    fast_data_free(batch);
    assert_int_equal(source->next(source, 9, &batch), FAST_OK);
    assert_int_equal(batch->count, 3);
    fast_data_free(batch);
    assert_int_equal(source->next(source, 9, &batch), FAST_OK);
    assert_null(batch);
    source->close(source);
    assert_int_equal(fast__source_open(recipe, other.path, true, &source), FAST_OK);
    assert_int_equal(source->next(source, 9, &batch), FAST_EFORMAT);
    assert_non_null(strstr(fast_error_detail(), "line 2"));
    assert_non_null(strstr(fast_error_detail(), "0x58"));
    source->close(source);
    fast__recipe_free(recipe);
    fast_data_free(train);
    fixture_drop(&book);
    fixture_drop(&other);
}

/* Read all `samples` of a file with batches of `count`, and compare them with `want`. */
static void check_table(const fast_recipe *recipe, const char *text, int64_t count,
                        const float *want, int64_t samples)
{
    data_fixture f = fixture_make(text, strlen(text));
    fast_source *source = NULL;
    fast_data *batch = NULL;
    int64_t seen = 0;

    if (fast__source_open(recipe, f.path, false, &source))
        fail_msg("%s", fast_error_detail());
    for (;;) {
        if (source->next(source, count, &batch))
            fail_msg("%s", fast_error_detail());
        if (!batch)
            break;
        assert_true(batch->count == count || seen + batch->count == samples);
        assert_true(seen + batch->count <= samples);
        assert_memory_equal(batch->x, want + 2 * seen, (size_t)batch->count * 2 * sizeof *want);
        seen += batch->count;
        fast_data_free(batch);
    }
    assert_int_equal(seen, samples);
    source->close(source);
    fixture_drop(&f);
}

/* Columns are matched by name whatever their order; quotes, blank lines, and no names at all. */
static void tables_are_read_in_blocks(void **state)
{
    (void)state;
    static const char training[] = "a,b,kind\n1,2,x\n3,4,y\n5,7,x\n2,2,y\n";
    static const float want[] = { 1, 2, 3, 4, 5, 6, 7, 8, 9, 10 };
    static const char quoted[] = "note,b,a\r\n\"one\ntwo, \"\"three\"\"\",2,1\r\n\r\n,4,3\r\n\n5\" "
                                 "nail,6,5\nx,8,7\n\"\",10,9\n \n";
    /* The same five samples: with answers, in another order, without names, and among columns that
     * the model does not know. */
    static const char *const same[] = {
        "a,b,kind\n1,2,x\n3,4,x\n5,6,y\n7,8,y\n9,10,x\n",
        "b,a\n2,1\n4,3\n6,5\n8,7\n10,9",
        "1,2\n3,4\n5,6\n7,8\n9,10\n",
        quoted,
    };
    data_fixture f = fixture_make(training, strlen(training));
    char spec[FIXTURE_SPEC];
    fast_data *train, *test;

    snprintf(spec, sizeof spec, "csv:file=%s,test_fraction=0,normalize=none", f.path);
    open_well(spec, &train, &test);
    fast_recipe *recipe = recipe_of(train);
    for (size_t i = 0; i < sizeof same / sizeof *same; i++)
        for (int64_t count = 1; count < 8; count++)
            check_table(recipe, same[i], count, want, 5);
    fast__recipe_free(recipe);
    fast_data_free(train);
    fixture_drop(&f);
}

/* Lines of errors are those of the file, in any block. */
static void errors_of_tables_have_lines(void **state)
{
    (void)state;
    static const char training[] = "a,b,kind\n1,2,x\n3,4,y\n5,7,x\n2,2,y\n";
    /* A file and a part of the sentence; blocks of two records. */
    static const char *const cases[][2] = {
        { "", "is empty" },
        { "a,c\n1,2\n", "no column \"b\"" },
        { "a,b\n1,2\n3,4\n5,6\n7,oops\n", ":5:" },
        { "a,b\n1,2\n3,4\n5\n7,8\n", ":4:" },
        { "a,b\n1,2\n\"3,4\n5,6\n", "quote" },
    };
    data_fixture f = fixture_make(training, strlen(training));
    char spec[FIXTURE_SPEC];
    fast_data *train, *test;

    snprintf(spec, sizeof spec, "csv:file=%s,test_fraction=0", f.path);
    open_well(spec, &train, &test);
    fast_recipe *recipe = recipe_of(train);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        data_fixture bad = fixture_make(cases[i][0], strlen(cases[i][0]));
        fast_source *source = NULL;
        fast_data *batch = NULL;
        fast_err err = fast__source_open(recipe, bad.path, false, &source);

        while (!err) {
            err = source->next(source, 2, &batch);
            if (!err && !batch)
                fail_msg("case %zu was read", i);
            fast_data_free(batch);
            batch = NULL;
        }
        assert_int_equal(err, FAST_EFORMAT);
        if (!strstr(fast_error_detail(), cases[i][1]))
            fail_msg("case %zu: %s", i, fast_error_detail());
        if (source)
            source->close(source);
        fixture_drop(&bad);
    }
    fast__recipe_free(recipe);
    fast_data_free(train);
    fixture_drop(&f);
}

/* Every member that is wrong is named. */
static void wrong_members_are_named(void **state)
{
    (void)state;
#define TAIL "\"mean\": [0], \"scale\": [1], \"source\": {\"kind\": \"array\"}}"
    /* A description and the member that its error names. */
    static const char *const cases[][2] = {
        { "nothing", "at byte" },
        { "{\"version\": 2}", "version 2" },
        { "{\"version\": 1, \"shape\": [], " TAIL, "\"shape\"" },
        { "{\"version\": 1, \"shape\": [99999, 99999], " TAIL, "\"shape\"" },
        { "{\"version\": 1, \"shape\": [-1], " TAIL, "\"shape\"" },
        { "{\"version\": 1, \"shape\": [4], \"dtype\": \"F64\", " TAIL, "\"dtype\"" },
        { "{\"version\": 1, \"shape\": [4], \"dtype\": \"F32\", \"channels\": 3, " TAIL,
          "\"channels\"" },
        { "{\"version\": 1, \"shape\": [4], \"dtype\": \"F32\", \"channels\": 2, " TAIL,
          "\"mean\"" },
        { "{\"version\": 1, \"shape\": [4], \"dtype\": \"F32\", \"mean\": [1e99], \"scale\": [1]}",
          "\"mean\"" },
        { "{\"version\": 1, \"shape\": [4], \"dtype\": \"F32\", \"classes\": 99999, " TAIL,
          "\"classes\"" },
        { "{\"version\": 1, \"shape\": [4], \"dtype\": \"F32\", \"classes\": 2, \"class_names\": "
          "[\"a\"], " TAIL,
          "\"class_names\"" },
        { "{\"version\": 1, \"shape\": [4], \"dtype\": \"F32\", \"vocabulary\": 2, \"alphabet\": "
          "[7, 7], \"classes\": 2, " TAIL,
          "\"alphabet\"" },
        { "{\"version\": 1, \"shape\": [4], \"dtype\": \"F32\", \"mean\": [0], \"scale\": [1], "
          "\"source\": {\"kind\": \"runes\"}}",
          "\"source\"" },
        { "{\"version\": 1, \"shape\": [4], \"dtype\": \"F32\", \"mean\": [0], \"scale\": [1]}",
          "\"source\"" },
    };
#undef TAIL
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        fast_recipe *recipe = NULL;

        assert_int_equal(fast__recipe_read("test", cases[i][0], &recipe), FAST_EFORMAT);
        assert_null(recipe);
        if (!strstr(fast_error_detail(), cases[i][1]))
            fail_msg("case %zu: %s", i, fast_error_detail());
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(descriptions_are_read_back),   cmocka_unit_test(arrays_are_checked),
        cmocka_unit_test(text_is_read_by_its_alphabet), cmocka_unit_test(tables_are_read_in_blocks),
        cmocka_unit_test(errors_of_tables_have_lines),  cmocka_unit_test(wrong_members_are_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
