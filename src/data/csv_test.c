/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Goal: tables are read as people write them, and what is wrong is named by line and column.
 * Method: small texts in memory with every form of field, header and label; then each mistake.
 */
#include "data/csv_scan.h"

#include "data/data_fixture.h"

#include <stdlib.h>

enum { HEAP_MAX = 1 << 20 };

static const char *spec_of(const data_fixture *f, const char *more)
{
    static char spec[FIXTURE_SPEC];
    snprintf(spec, sizeof spec, "csv:file=%s,test_fraction=0,normalize=none%s", f->path, more);
    return spec;
}

/* Open a text as a table; the caller frees. */
static fast_data *table(const char *text, const char *more)
{
    data_fixture f = fixture_make(text, strlen(text));
    fast_data *train, *test;
    open_well(spec_of(&f, more), &train, &test);
    assert_null(test);
    fixture_drop(&f);
    return train;
}

static void check_x(const fast_data *data, int64_t count, const float *x)
{
    assert_int_equal(data->count * data->features, count);
    for (int64_t i = 0; i < count; i++)
        assert_true(((const float *)data->x)[i] == x[i]);
}

static void words_become_classes(void **state)
{
    (void)state;
    fast_data *data = table("a,b,kind\n1,2,dog\n3,4,cat\n5,6,dog\n", "");
    check_x(data, 6, (float[]){ 1, 2, 3, 4, 5, 6 });
    assert_int_equal(data->features, 2);
    assert_int_equal(data->channels, 2);
    assert_int_equal(data->classes, 2);
    assert_int_equal(data->labels[0], 1);
    assert_int_equal(data->labels[1], 0);
    assert_int_equal(data->labels[2], 1);
    fast_data_free(data);
}

static void labels_by_name_and_number(void **state)
{
    (void)state;
    static const char *const more[] = { ",label=b", ",label=1", ",label=-2" };
    for (int i = 0; i < 3; i++) {
        fast_data *data = table("a,b,c\n1,0,3\n4,2,6\n", more[i]);
        check_x(data, 4, (float[]){ 1, 3, 4, 6 });
        assert_int_equal(data->classes, 3);
        assert_int_equal(data->labels[0], 0);
        assert_int_equal(data->labels[1], 2);
        fast_data_free(data);
    }
}

static void forms_of_text(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        const char *more;
    } same[] = {
        { "1,2,0\n3,4,1\n", "" },
        { "1,2,0\n3,4,1", "" },
        { "\xef\xbb\xbf"
          "1,2,0\r\n3,4,1\r\n",
          "" },
        { "\n\n 1 , 2,0 \n\n\t3,\t4,1\n  \n", "" },
        { "\"1\",\"2\",\"0\"\n\"3\",4,1\n", "" },
        { "1;2;0\n3;4;1\n", "" },
        { "1\t2\t0\n3\t4\t1\n", "" },
        { "1|2|0\n3|4|1\n", ",delimiter=pipe" },
        { "  1   2 0\n3 4\t1  \r\n\n", ",delimiter=space" },
        { "x,y,z\n1,2,0\n3,4,1\n", "" },
        { "\"x, the first\",\"y\"\"s\",\"z\nz\"\n1,2,0\n3,4,1\n", "" },
        { "7,8,9\n1,2,0\n3,4,1\n", ",header=yes" },
        { "1.0,2e0,0\n+3,.4e1,1\n", "" },
    };
    for (size_t i = 0; i < sizeof same / sizeof same[0]; i++) {
        fast_data *data = table(same[i].text, same[i].more);
        check_x(data, 4, (float[]){ 1, 2, 3, 4 });
        assert_int_equal(data->classes, 2);
        assert_int_equal(data->labels[0], 0);
        assert_int_equal(data->labels[1], 1);
        fast_data_free(data);
    }
}

static void quoted_words_are_labels(void **state)
{
    (void)state;
    fast_data *data = table("1,\"b, \"\"x\"\"\"\n2,a\n3,\"b, \"\"x\"\"\"\n4,\"two\nlines\"\n", "");
    assert_int_equal(data->count, 4);
    assert_int_equal(data->classes, 3);
    assert_int_equal(data->labels[0], 1);
    assert_int_equal(data->labels[1], 0);
    assert_int_equal(data->labels[2], 1);
    assert_int_equal(data->labels[3], 2);
    fast_data_free(data);
}

static void tasks_are_guessed_and_given(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        const char *more;
        int64_t classes;
    } cases[] = {
        { "1,0.5\n2,1.5\n", "", 0 },
        { "1,-1\n2,3\n", "", 0 },
        { "1,5000\n2,3\n", "", 0 },
        { "1,5\n2,3\n", "", 6 },
        { "1,5\n2,3\n", ",task=regression", 0 },
        { "1,5000\n2,3\n", ",task=classes", 5001 },
        { "1,-1\n2,1\n", ",task=classes", 2 },
        { "1,-1\n2,1\n3,-1\n", "", 2 },
        { "1,-1\n2,+1\n3,0\n", "", 3 },
        { "1,1.0\n2,0.0\n3,1\n", "", 2 },
        { "1,-1\n2,1\n", ",task=regression", 0 },
        { "1,-2.5\n2,1\n3,-2.5\n", ",task=classes", 2 },
        /* A missing answer is not a word among numbers. */
        { "1,0.5\n2,NA\n3,1.5\n", "", 0 },
        { "1,0.5\n2,nan\n3,1.5\n", "", 0 },
        { "1,0.5\n2,inf\n3,1.5\n", "", 0 },
        { "1,0.5\n2,\n3,1.5\n", "", 0 },
        { "1,0.5\n2,?\n3,1.5\n", "", 0 },
        { "1,2\n2,null\n3,0\n", "", 3 },
        { "1,cat\n2,\n3,dog\n", "", 2 },
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        fast_data *data = table(cases[i].text, cases[i].more);
        assert_int_equal(data->classes, cases[i].classes);
        assert_int_equal(data->outputs, cases[i].classes > 0 ? cases[i].classes : 1);
        fast_data_free(data);
    }
    fast_data *data = table("1,0.5\n2,-1.5\n", "");
    assert_true(data->targets[0] == 0.5f && data->targets[1] == -1.5f);
    fast_data_free(data);
}

/* Rows without an answer are left out, and counted where people see it. */
static void missing_answers_are_dropped(void **state)
{
    (void)state;
    fast_data *data = table("x,y\n1,0.5\n2,NA\n3,\n4,-inf\n5,1.5\n", "");
    check_x(data, 2, (float[]){ 1, 5 });
    assert_true(data->targets[0] == 0.5f && data->targets[1] == 1.5f);
    assert_string_equal(data->summary, "regression on `y`, 1 numeric column (1 feature), 3 rows "
                                       "without a target left out");
    fast_data_free(data);
    data = table("x,y\n1,-1\n2,+1\n", "");
    assert_string_equal(data->summary, "classification on `y` (2 classes: -1, 1), 1 numeric column "
                                       "(1 feature)");
    assert_memory_equal(data->class_names, "-1\0001", 5);
    assert_int_equal(data->labels[0], 0);
    assert_int_equal(data->labels[1], 1);
    fast_data_free(data);
}

/* Many different whole numbers are amounts, unless there are many rows of each. */
static void many_whole_numbers_are_amounts(void **state)
{
    (void)state;
    char text[8192];
    for (int kinds = 20; kinds <= 21; kinds++) {
        for (int each = 19; each <= 20; each++) {
            size_t used = 0;
            for (int i = 0; i < kinds * each; i++)
                used += (size_t)snprintf(text + used, sizeof text - used, "%d,%d\n", i, i % kinds);
            fast_data *data = table(text, "");
            assert_int_equal(data->classes, kinds == 20 || each == 20 ? kinds : 0);
            fast_data_free(data);
        }
    }
}

static void numbers_are_exact(void **state)
{
    (void)state;
    static const char *const texts[] = { "0.1",
                                         "123456789012345",
                                         "1234567890.12345",
                                         "-0.00001",
                                         "3.",
                                         ".5",
                                         "1e-3",
                                         "1234567890123456789",
                                         "0.12345678901234567890123",
                                         "98765432109876543210.5" };
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        double value;
        const fast_csv_field field = { .at = texts[i], .size = (int64_t)strlen(texts[i]) };
        assert_true(fast__csv_number(&field, '.', &value));
        assert_true(value == strtod(texts[i], NULL));
    }
    static const char *const wrong[] = { "",    "-",     ".",    "1.2.3", "1x", "nan",
                                         "inf", "1e999", "0x10", "--1",   "1 2" };
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        double value;
        const fast_csv_field field = { .at = wrong[i], .size = (int64_t)strlen(wrong[i]) };
        if (fast__csv_number(&field, '.', &value))
            fail_msg("\"%s\" is a number", wrong[i]);
    }
}

static void mistakes_are_named(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        const char *more;
        fast_err err;
        const char *word;
    } cases[] = {
        { "", "", FAST_EFORMAT, "is empty" },
        { "\n \n", "", FAST_EFORMAT, "is empty" },
        { "a,b\n", ",header=yes", FAST_EFORMAT, "no samples" },
        { "1\n2\n", "", FAST_EFORMAT, "one column" },
        { "1,2,0\n1,2,1\n", ",drop=2", FAST_EINVAL, "drop= names column 2, which is the target" },
        { "1,a\n1,b\n1,c\n1,d\n1,e\n1,f\n1,g\n1,h\n1,i\n1,j\n1,k\n1,l\n1,m\n1,n\n1,o\n1,p\n1,q\n"
          "1,r\n1,s\n1,t\n1,u\n",
          "", FAST_EFORMAT, "21 different texts in 21 rows" },
        { "1,2,0\n1,2\n", "", FAST_EFORMAT, ":2: 2 fields, expected 3" },
        { "1,2,0\n1,2,3,4\n", "", FAST_EFORMAT, ":2: 4 fields, expected 3" },
        { "1,2,0\n1,,0\n", ",missing=refuse", FAST_EFORMAT, ":2: column 1 is empty" },
        { "1,2,0\n\n1,nan,0\n", ",missing=refuse", FAST_EFORMAT, ":3: column 1 is \"nan\"" },
        { "1,2,0\n1,inf,0\n", "", FAST_EFORMAT, "finite" },
        { "1,nan,0\n3,4,1\n5,6,0\n", ",missing=refuse", FAST_EFORMAT, ":1: column 1 is \"nan\"" },
        { "-Inf,0\n4,1\n6,0\n", "", FAST_EFORMAT, ":1: column 0 is \"-Inf\"" },
        { "1,1e999,0\n3,4,1\n5,6,0\n", "", FAST_EFORMAT, ":1: column 1 is \"1e999\"" },
        { "1,x,0\n3,4,1\n5,6,0\n", "", FAST_EFORMAT, ":1: column 1 is \"x\"" },
        { "1,2,0\n1,1e39,0\n", "", FAST_EFORMAT, "column 1 is \"1e39\"" },
        { "1,2,0\nx,2,0\n", "", FAST_EFORMAT, ":2: column 0 is \"x\"" },
        { "1,2,0\n1,2,\n", ",missing_target=refuse", FAST_EFORMAT, ":2: column 2 is empty" },
        { "1,2,0\n1,\"2,0\n", "", FAST_EFORMAT, ":2: a quote is opened" },
        { "1,\"2\"x,0\n", "", FAST_EFORMAT, ":1: text follows" },
        { "1,2,x\n1,2,0\n", ",task=regression,header=no", FAST_EFORMAT, ":1: column 2" },
        { "a,b\n1,2\n", ",target=c", FAST_EINVAL, "no column \"c\"" },
        { "a,b\n1,2\n", ",target=2", FAST_EINVAL, "target=2" },
        { "a,b\n1,2\n", ",target=-3", FAST_EINVAL, "target=-3" },
        { "a,b\n1,2\n", ",target=a,header=no", FAST_EINVAL, "is a name" },
        { "a,b\n1,2\n", ",header=no", FAST_EFORMAT, ":1: column 0 is \"a\"" },
        { "1,2\n", ",test_fraction=0.5", FAST_EINVAL, "cannot be split" },
        { "1,0.5\n2,1e39\n", "", FAST_EFORMAT, ":2: column 1 is \"1e39\", not a finite number" },
        { "1,0.5\n2,x\n3,1.5\n", "", FAST_EFORMAT, ":2: column 1 is \"x\", but most targets" },
        { "1,\n2,NA\n", "", FAST_EFORMAT, ":1: column 1 is empty" },
        { "x,y\n1,2\n1,nan\n", ",missing_target=refuse", FAST_EFORMAT, ":3: column 1 is missing" },
        { "\xff\xfe"
          "1\t2",
          "", FAST_EFORMAT, "is UTF-16; convert it" },
        { "\xfe\xff", "", FAST_EFORMAT, "is UTF-16; convert it" },
        { "a,b\n1,x\n2,y\n", ",columns=c", FAST_EINVAL, "columns=c is not a column" },
        { "a,b\n1,x\n2,y\n", ",drop=a", FAST_EFORMAT, "no column is left" },
        { "a,b\nu,0\nv,1\nw,1\n", ",text=refuse,target=b", FAST_EFORMAT,
          ":2: column 0 (a) is \"u\"" },
        { "a,b\nu,0\nv,1\nw,1\n", ",text=onehot,categories=2,target=b", FAST_EINVAL,
          "column 0 (a)" },
        { "a,b\n3/4/2020,0\n5/6/2020,1\n", "", FAST_EFORMAT, "give dates=dmy or dates=mdy" },
        { "a,b\n2020-01-01,0\nlater,1\n", "", FAST_EFORMAT, ":3: column 0 (a) is \"later\"" },
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        data_fixture f = fixture_make(cases[i].text, strlen(cases[i].text));
        open_badly(spec_of(&f, cases[i].more), cases[i].err, cases[i].word, HEAP_MAX);
        fixture_drop(&f);
    }
    data_fixture zero = fixture_make("1,2\n1,\0003\n", 9);
    open_badly(spec_of(&zero, ""), FAST_EFORMAT, ":2: a zero byte", HEAP_MAX);
    fixture_drop(&zero);
    open_badly("csv", FAST_EINVAL, "csv:file=", HEAP_MAX);
    open_badly("csv:file=/none", FAST_ENOENT, "/none", HEAP_MAX);
    open_badly("csv:file=/,delimiter=coma", FAST_EINVAL, "comma", HEAP_MAX);
}

static void test_files_use_the_same_classes(void **state)
{
    (void)state;
    char spec[FIXTURE_SPEC];
    data_fixture a = fixture_make("a,k\n1,x\n3,y\n", 12);
    data_fixture b = fixture_make("a,k\n9,y\n", 8);
    data_fixture c = fixture_make("a,k\n9,z\n", 8);
    fast_data *train, *test;
    snprintf(spec, sizeof spec, "csv:file=%s,test_file=%s", a.path, b.path);
    open_well(spec, &train, &test);
    assert_int_equal(test->count, 1);
    assert_int_equal(test->labels[0], 1);
    assert_int_equal(test->classes, 2);
    /* The training set's constants: mean 2, deviation 1. */
    assert_true(test->mean[0] == 2 && test->scale[0] == 1);
    fast_data_free(train);
    fast_data_free(test);
    open_without_memory(spec);
    snprintf(spec, sizeof spec, "csv:file=%s,test_file=%s", a.path, c.path);
    open_badly(spec, FAST_EFORMAT, ":2: column 1 (k) is \"z\", a class that does not occur",
               HEAP_MAX);
    fixture_drop(&a);
    fixture_drop(&b);
    fixture_drop(&c);
}

/* Columns of the test file are found by their names: another order, further columns. */
static void test_files_are_matched_by_name(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        const char *wrong; /* NULL: it is the same table */
    } cases[] = {
        { "a,b,k\n5,60,y\n", NULL },
        { "k,b,a\ny,60,5\n", NULL },
        { "b,extra,k,a\n60,?,y,5\n", NULL },
        { "5,60,y\n", NULL }, /* without names: by position */
        { "a,c,k\n5,60,y\n", "has no column \"b\"" },
        { "a,b\n5,60\n", "has no column \"k\"" },
        { "p,q,r\n5,60,y\n", "has none of the training file's columns" },
        { "5,60,7,y\n", "has 4 columns" },
    };
    data_fixture train_file = fixture_make("a,b,k\n1,20,x\n3,40,y\n", 20);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char spec[FIXTURE_SPEC];
        data_fixture f = fixture_make(cases[i].text, strlen(cases[i].text));
        fast_data *train, *test;
        snprintf(spec, sizeof spec, "csv:file=%s,test_file=%s", train_file.path, f.path);
        if (cases[i].wrong != NULL) {
            open_badly(spec, FAST_EFORMAT, cases[i].wrong, HEAP_MAX);
        } else {
            open_well(spec, &train, &test);
            check_x(test, 2, (float[]){ 5, 60 });
            assert_int_equal(test->labels[0], 1);
            fast_data_free(train);
            fast_data_free(test);
        }
        fixture_drop(&f);
    }
    fixture_drop(&train_file);
}

static void memory_may_run_out(void **state)
{
    (void)state;
    char spec[FIXTURE_SPEC];
    static const char text[] =
        "a,t,d,k\n1,u,2020-01-02,x\n,v,2020-01-03,y\n5,u,,x\n2,,2020-02-02,x\n";
    data_fixture f = fixture_make(text, strlen(text));
    snprintf(spec, sizeof spec, "csv:file=%s,test_fraction=0.4", f.path);
    open_without_memory(spec);
    fixture_drop(&f);
}

/* Wide first lines and many short ones must not multiply. */
static void memory_follows_the_file(void **state)
{
    (void)state;
    enum { SIZE = 200000 };
    char *text = malloc(SIZE);
    assert_non_null(text);
    memset(text, ',', SIZE / 2);
    memset(text + SIZE / 2, '\n', SIZE / 2);
    data_fixture f = fixture_make(text, SIZE);
    open_badly(spec_of(&f, ""), FAST_EFORMAT, "is empty", SIZE + 1);
    fixture_drop(&f);
    for (int i = SIZE / 2; i < SIZE; i += 2)
        text[i] = '1';
    f = fixture_make(text, SIZE);
    open_badly(spec_of(&f, ",header=yes"), FAST_EFORMAT, "1 fields", SIZE + 1);
    fixture_drop(&f);
    free(text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(words_become_classes),
        cmocka_unit_test(labels_by_name_and_number),
        cmocka_unit_test(forms_of_text),
        cmocka_unit_test(quoted_words_are_labels),
        cmocka_unit_test(tasks_are_guessed_and_given),
        cmocka_unit_test(missing_answers_are_dropped),
        cmocka_unit_test(many_whole_numbers_are_amounts),
        cmocka_unit_test(numbers_are_exact),
        cmocka_unit_test(mistakes_are_named),
        cmocka_unit_test(test_files_use_the_same_classes),
        cmocka_unit_test(test_files_are_matched_by_name),
        cmocka_unit_test(memory_may_run_out),
        cmocka_unit_test(memory_follows_the_file),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
