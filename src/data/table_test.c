/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Goal: tables as people have them become the features that they should, an encoder comes back from
 * JSON as it was, and nothing hostile takes memory or crashes. Method: small texts in memory with
 * one property each; then every member of a description wrong; then columns of very many texts.
 */
#include "data/table.h"

#include "data/data_fixture.h"
#include "data/make.h"

#include <math.h>
#include <stdlib.h>

/* Open a text as a table without a test set; the caller frees. */
static fast_data *read_table(const char *text, const char *more)
{
    char spec[FIXTURE_SPEC];
    data_fixture f = fixture_make(text, strlen(text));
    fast_data *train, *test;
    snprintf(spec, sizeof spec, "csv:file=%s,test_fraction=0,normalize=none%s", f.path, more);
    open_well(spec, &train, &test);
    fixture_drop(&f);
    return train;
}

/* Read a text, compare its features, and its summary up to a length. */
static void check(const char *text, const char *more, int64_t features, const float *x,
                  const char *summary)
{
    fast_data *data = read_table(text, more);
    if (data->features != features)
        fail_msg("%s: %lld features", text, (long long)data->features);
    for (int64_t i = 0; i < data->count * features; i++)
        if (!(fabsf(((const float *)data->x)[i] - x[i]) <= 1e-6f * fabsf(x[i])))
            fail_msg("%s: feature %lld is %g, expected %g", text, (long long)i,
                     ((const double)((const float *)data->x)[i]), (double)x[i]);
    if (strncmp(data->summary, summary, strlen(summary)) != 0)
        fail_msg("\"%s\", expected \"%s\"", data->summary, summary);
    fast_data_free(data);
}

static void texts_become_features(void **state)
{
    (void)state;
    check("a,t,y\n1,red,0\n2,blue,1\n3,red,1\n", "", 3, (float[]){ 1, 0, 1, 2, 1, 0, 3, 0, 1 },
          "classification on `y` (2 classes: 0, 1), 1 numeric and 1 text columns (3 features)");
    /* A missing text is a category of its own; texts have quotes, commas and line feeds inside. */
    check("t,y\n\"a, \"\"b\"\"\",0\n,1\n\"c\nd\",0\n\"a, \"\"b\"\"\",1\n", "", 3,
          (float[]){ 0, 1, 0, 1, 0, 0, 0, 0, 1, 0, 1, 0 },
          "classification on `y` (2 classes: 0, 1), 1 text column (3 features), 1 missing text");
    check("a,t,y\n1,red,0\n2,blue,1\n", ",text=drop", 1, (float[]){ 1, 2 },
          "classification on `y` (2 classes: 0, 1), 1 numeric column (1 feature)");
    /* Numbers as text, by choice. */
    check("a,t,y\n1,7,0\n2,8,1\n", ",categorical=t", 3, (float[]){ 1, 1, 0, 2, 0, 1 },
          "classification on `y` (2 classes: 0, 1), 1 numeric and 1 text columns");
    /* More than categories=2: hashed. */
    fast_data *data = read_table("name,a,y\nu,1,0\nv,2,1\nw,3,1\n", ",categories=2,buckets=7");
    assert_int_equal(data->features, 8);
    fast_data_free(data);
    /* Each of 21 rows has its own text: it is left out, unless it is asked for. */
    char text[512] = "name,a,y\n";
    for (int i = 0; i < 21; i++)
        snprintf(text + strlen(text), sizeof text - strlen(text), "n%d,%d,%d\n", i, i, i % 2);
    data = read_table(text, "");
    assert_int_equal(data->features, 1);
    assert_non_null(strstr(data->summary, ", without name (each row has its own text, or none)"));
    fast_data_free(data);
    data = read_table(text, ",categorical=name");
    assert_int_equal(data->features, 22);
    fast_data_free(data);
    data = read_table(text, ",text=onehot");
    assert_int_equal(data->features, 22);
    fast_data_free(data);
}

static void hashes_are_stable(void **state)
{
    (void)state;
    fast_data *data = read_table("t,y\nu,0\nv,1\nu,1\n\"u\",0\n", ",text=hash,buckets=5");
    const float *x = data->x;
    assert_int_equal(data->features, 5);
    for (int row = 0; row < 4; row++) {
        float sum = 0;
        for (int i = 0; i < 5; i++)
            sum += x[row * 5 + i];
        assert_true(sum == 1);
        assert_true((row == 1) == (memcmp(x, x + row * 5, 5 * sizeof *x) != 0));
    }
    /* Model files depend on it: bucket of "u" and of "v". */
    assert_true(x[4] == 1 && x[5 + 0] == 1);
    fast_data_free(data);
}

static void missing_values_are_replaced(void **state)
{
    (void)state;
    static const char text[] = "a,b,y\n1,10,0\n,20,1\n5,NA,0\n?,30,1\n";
    check(text, "", 2, (float[]){ 1, 10, 3, 20, 5, 20, 3, 30 },
          "classification on `y` (2 classes: 0, 1), 2 numeric columns (2 features), 3 missing "
          "values replaced by means");
    check(text, ",missing=indicator", 4,
          (float[]){ 1, 0, 10, 0, 3, 1, 20, 0, 5, 0, 20, 1, 3, 1, 30, 0 },
          "classification on `y` (2 classes: 0, 1), 2 numeric columns (4 features), 3 missing "
          "values replaced by means and marked");
    /* A column without any value is left out. */
    check("a,b,y\n1,,0\n2,NA,1\n", "", 1, (float[]){ 1, 2 },
          "classification on `y` (2 classes: 0, 1), 1 numeric column (1 feature), without b");
}

static void dates_become_features(void **state)
{
    (void)state;
    fast_data *data = read_table("d,y\n31/12/2023,0\n1/2/2024,1\n,1\n", "");
    const float *x = data->x;
    assert_int_equal(data->features, 5);
    assert_true(x[0] == 19722 && x[5] == 19754 && x[10] == 19738);
    fast_data_free(data);
    data = read_table("d,y\n2024-02-01 12:00,0\n2024-02-02,1\n", "");
    assert_int_equal(data->features, 7);
    assert_true(((const float *)data->x)[0] == 19754.5f);
    fast_data_free(data);
    data = read_table("d,y\n3/4/2024,0\n4/4/2024,1\n", ",dates=mdy");
    assert_true(((const float *)data->x)[0] == 19786);
    fast_data_free(data);
    data = read_table("d,y\n2024-02-01,0\n2024-02-02,1\n", ",dates=text");
    assert_int_equal(data->features, 2);
    fast_data_free(data);
}

static void spellings_of_tables(void **state)
{
    (void)state;
    static const char number[] = "classification on `y`";
    check("a;b;y\n1,5;2;0\n-2,25;3;1\n", "", 2, (float[]){ 1.5f, 2, -2.25f, 3 }, number);
    check("a;b;y\n1.5;2,5;0\n2.5;3,5;1\n", ",decimal=comma,categorical=a", 3,
          (float[]){ 1, 0, 2.5f, 0, 1, 3.5f }, number);
    check("a\tb\ty\n1\tx y\t0\n2\tz\t1\n", "", 3, (float[]){ 1, 1, 0, 2, 0, 1 }, number);
    check("size, cm;mass, kg;time, s;y\n1,5;2;3;0\n2,5;3;4;1\n", "", 3,
          (float[]){ 1.5f, 2, 3, 2.5f, 3, 4 }, number);
    check("\n\na;y\n1,5;0\n2,5;1\n", "", 1, (float[]){ 1.5f, 2.5f }, number);
    check("a|b|y\n1|x|0\n2|z|1\n", "", 3, (float[]){ 1, 1, 0, 2, 0, 1 }, number);
    check("\xef\xbb\xbf"
          "a,b,y\r\n1,x,0\r\n2,z,1\r\n",
          "", 3, (float[]){ 1, 1, 0, 2, 0, 1 }, number);
    /* Latin-1: the names are UTF-8 from then on. */
    check("gr\xf6\xdf"
          "e,y\n1,\xe4\n2,b\n",
          ",target=0,task=regression", 2, (float[]){ 0, 1, 1, 0 },
          "regression on `gr\xc3\xb6\xc3\x9f"
          "e`, 1 text column (2 features), read as Latin-1");
    check("a,b,y\n1,x,0\n2,z,1\n", ",columns=a,target=y", 1, (float[]){ 1, 2 }, number);
    check("a,b,y\n1,x,0\n2,z,1\n", ",columns=0", 1, (float[]){ 1, 2 }, number);
    check("a,a+b,y\n1,5,0\n2,6,1\n", ",columns=a+b", 1, (float[]){ 5, 6 }, number);
    check("a,b,c,y\n1,5,7,0\n2,6,8,1\n", ",drop=a+2", 1, (float[]){ 5, 6 }, number);
    /* Names are not obeyed by terminals. */
    check("\x1b[31m,y\n1,0.5\n2,1.5\n", ",target=0,task=regression", 1, (float[]){ 0.5f, 1.5f },
          "regression on `?[31m`, 1 numeric");
}

static void first_lines_are_understood(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        int64_t count;
    } cases[] = {
        { "low,red,no\nhigh,blue,yes\nlow,blue,no\n", 3 },     /* data repeat themselves */
        { "size,colour,buy\nhigh,blue,yes\nlow,red,no\n", 2 }, /* names do not */
        { "x,colour,buy\n1,blue,yes\n2,red,no\n", 2 },         /* a number stands below a name */
        { "2024-01-01,blue,yes\n2024-01-02,red,no\n", 2 },     /* a date is a value */
        { "3,blue,yes\n4,red,no\n", 2 },
        { ",colour,buy\n1,blue,yes\n2,red,no\n", 2 }, /* the index that pandas writes */
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        fast_data *data = read_table(cases[i].text, "");
        assert_int_equal(data->count, cases[i].count);
        fast_data_free(data);
    }
}

/* Replacements, categories and scales come from the training samples alone. */
static void test_samples_decide_nothing(void **state)
{
    (void)state;
    enum { ROWS = 50 };
    char text[ROWS * 32], spec[FIXTURE_SPEC];
    bool test_row[ROWS] = { false };
    fast__data_split_mark(ROWS, 0.2, test_row);
    size_t used = (size_t)snprintf(text, sizeof text, "a,t,y\n");
    for (int i = 0; i < ROWS; i++)
        used += (size_t)snprintf(text + used, sizeof text - used, "%s,%s,%d\n",
                                 test_row[i] ? (i % 2 ? "1000" : "")
                                 : i % 2     ? "2"
                                             : "4",
                                 test_row[i] ? "rare"
                                 : i % 3     ? "u"
                                             : "v",
                                 i % 2);
    data_fixture f = fixture_make(text, used);
    fast_data *train, *test;
    snprintf(spec, sizeof spec, "csv:file=%s", f.path);
    open_well(spec, &train, &test);
    assert_int_equal(train->count, 40);
    assert_int_equal(train->features, 3); /* a, u, v */
    assert_true(fabsf(train->mean[0] - 3) < 0.5f && train->scale[0] > 0.9f);
    assert_true(train->mean[1] == 0 && train->scale[1] == 1 && test->scale[2] == 1);
    for (int64_t i = 0; i < test->count; i++) {
        const float *x = (const float *)test->x + 3 * i;
        assert_true(x[0] == 1000 || x[0] == train->mean[0]);
        assert_true(x[1] == 0 && x[2] == 0);
    }
    fast_data_free(train);
    fast_data_free(test);
    fixture_drop(&f);
}

static const char mixed[] = "age,town,born,id,note,y\n"
                            "31,Ulm,2020-01-01 10:00,a1,7,no\n"
                            ",Bonn,2021-05-05 11:30,b2,8,yes\n"
                            "44,,2022-02-02 12:00,c3,7,no\n"
                            "17,Ulm,,d4,9,yes\n";
static const char mixed_options[] = ",categories=3,missing=indicator,categorical=note,drop=id";

/* The table of a recipe. */
static fast_table *table_of(const char *recipe)
{
    json_t *json;
    fast_table *table;
    assert_int_equal(fast__json_read("recipe", recipe, strlen(recipe), &json), FAST_OK);
    if (fast__table_from_json("recipe", json, &table))
        fail_msg("%s: %s", recipe, fast_error_detail());
    json_decref(json);
    return table;
}

/* A table that went through JSON encodes other files to the same bits, in any order of columns. */
static void recipes_read_new_files(void **state)
{
    (void)state;
    fast_data *train = read_table(mixed, mixed_options);
    fast_table *table = table_of(train->recipe);
    json_t *again = fast__table_json(table);
    char *text;
    assert_int_equal(fast__json_print(&again, &text), FAST_OK);
    assert_string_equal(text, train->recipe);
    fast__free(text);

    const fast_table_source same = { "same.csv", mixed, strlen(mixed), 0, 0 };
    fast_data *data;
    assert_int_equal(fast__table_read(table, &same, true, &data), FAST_OK);
    assert_int_equal(data->count, train->count);
    assert_memory_equal(data->x, train->x, (size_t)(data->count * data->features) * sizeof(float));
    assert_memory_equal(data->labels, train->labels, (size_t)data->count * sizeof(int32_t));
    fast_data_free(data);

    /* Without the target, in another order, with a town that nobody knew. */
    static const char other[] = "note,born,town,age\n7,2020-01-01 10:00,Ulm,31\n?,?,Rom,?\n";
    const fast_table_source source = { "other.csv", other, strlen(other), 0, 0 };
    assert_int_equal(fast__table_read(table, &source, false, &data), FAST_OK);
    assert_int_equal(data->count, 2);
    assert_memory_equal(data->x, train->x, (size_t)data->features * sizeof(float));
    assert_int_equal(fast__table_read(table, &source, true, &data), FAST_EFORMAT);
    assert_non_null(strstr(fast_error_detail(), "no column \"y\""));
    fast_data_free(data);

    /* Messages count lines from the one that the caller gives. */
    static const char block[] = "age,town,born,note\nold,Ulm,,7\n";
    const fast_table_source late = { "late.csv", block, strlen(block), 1000, 0 };
    assert_int_equal(fast__table_read(table, &late, false, &data), FAST_EFORMAT);
    assert_non_null(strstr(fast_error_detail(), "late.csv:1000: column 0 (age) is \"old\""));
    fast__table_free(table);
    fast_data_free(train);
}

/* Targets far from 1 are standardised by the training set, and a recipe reads others so. */
static void targets_are_scaled(void **state)
{
    (void)state;
    static const char text[] = "a,y\n1,100000\n2,300000\n";
    fast_data *data = read_table(text, "");
    assert_true(data->target_mean == 200000 && data->target_scale == 1e-5f);
    assert_true(fabsf(data->targets[0] + 1) < 1e-6f && fabsf(data->targets[1] - 1) < 1e-6f);
    assert_non_null(strstr(data->summary, "regression on `y` (200000 +- 100000, standardised)"));
    fast_table *table = table_of(data->recipe);
    static const char other[] = "y,a\n400000,7\n";
    const fast_table_source source = { "other.csv", other, strlen(other), 0, 0 };
    fast_data *again;
    assert_int_equal(fast__table_read(table, &source, true, &again), FAST_OK);
    assert_true(fabsf(again->targets[0] - 2) < 1e-6f && again->target_mean == 200000);
    fast_data_free(again);
    fast_data_free(data);
    fast__table_free(table);
    data = read_table(text, ",scale_target=no");
    assert_true(data->targets[1] == 300000 && data->target_mean == 0 && data->target_scale == 1);
    fast_data_free(data);
    data = read_table("a,y\n1,1.5\n2,3.5\n", "");
    assert_true(data->targets[1] == 3.5f && data->target_scale == 1);
    fast_data_free(data);
    data = read_table("a,y\n1,1.5\n2,3.5\n", ",scale_target=yes");
    assert_true(data->targets[1] == 1 && data->target_mean == 2.5f);
    fast_data_free(data);
    data = read_table("a,y\n1,7.5\n2,7.5\n", ",scale_target=yes"); /* equal: as they are */
    assert_true(data->targets[1] == 7.5f);
    fast_data_free(data);
}

/* Every allocation of reading a description and a file may fail. */
static void memory_may_run_out(void **state)
{
    (void)state;
    fast_data *train = read_table(mixed, mixed_options);
    json_t *json;
    assert_int_equal(fast__json_read("recipe", train->recipe, strlen(train->recipe), &json),
                     FAST_OK);
    const fast_table_source same = { "same.csv", mixed, strlen(mixed), 0, 0 };
    fast_err err = FAST_ENOMEM;
    for (int64_t n = 0; err != FAST_OK; n++) {
        fast_table *table = NULL;
        fast_data *data = NULL;
        fast__alloc_fail_after(n, true);
        err = fast__table_from_json("recipe", json, &table);
        if (!err)
            err = fast__table_read(table, &same, true, &data);
        fast__alloc_fail_after(-1, true);
        assert_true(err == FAST_OK || err == FAST_ENOMEM);
        fast__table_free(table);
        fast_data_free(data);
        assert_true(n < 1000);
    }
    json_decref(json);
    fast_data_free(train);
}

/* Replace one text of a description by another one: it must be refused, or still be a table. */
static void descriptions_may_be_hostile(void **state)
{
    (void)state;
    fast_data *train = read_table(mixed, mixed_options);
    static const struct {
        const char *from, *to;
    } cases[] = {
        { "\"numeric\"", "\"number\"" },
        { "\"columns\"", "\"column\"" },
        { "\"target\": 5", "\"target\": 6" },
        { "\"target\": 5", "\"target\": -1" },
        { "\"decimal\": \".\"", "\"decimal\": \"x\"" },
        { "\"classes\": [\"no\", \"yes\"]", "\"classes\": [\"yes\", \"no\"]" },
        { "\"classes\": [\"no\", \"yes\"]", "\"classes\": []" },
        { "\"classes\": [\"no\", \"yes\"]", "\"classes\": [1, 2]" },
        { "\"task\": \"classes\"", "\"task\": \"regression\"" },
        { "\"numbers\": false", "\"numbers\": true" },
        { "\"numbers\": false", "\"numbers\": 3" },
        { "\"target_scale\": 1", "\"target_scale\": 0" },
        { "\"target_mean\": 0", "\"target_mean\": \"x\"" },
        { "\"fill\": [", "\"fill\": [1, " },
        { "\"fill\": [", "\"fill\": [\"a\", " },
        { "\"kind\": \"category\", \"categories\": [",
          "\"kind\": \"category\", \"categories\": [3, " },
        { "\"kind\": \"category\"", "\"kind\": \"hashed\"" },
        { "\"kind\": \"category\"", "\"kind\": \"hashed\", \"buckets\": 99999999" },
        { "\"order\": \"ymd\"", "\"order\": \"dym\"" },
        { "\"clock\": true", "\"clock\": false" },
        { "{\"name\": \"age\"", "{\"name\": 7" },
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char text[4096];
        const char *at = strstr(train->recipe, cases[i].from);
        if (at == NULL)
            fail_msg("%s is not in %s", cases[i].from, train->recipe);
        snprintf(text, sizeof text, "%.*s%s%s", (int)(at - train->recipe), train->recipe,
                 cases[i].to, at + strlen(cases[i].from));
        json_t *json;
        fast_table *table = NULL;
        assert_int_equal(fast__json_read("recipe", text, strlen(text), &json), FAST_OK);
        fast__alloc_largest();
        if (fast__table_from_json("recipe", json, &table) != FAST_EFORMAT)
            fail_msg("%s is accepted", cases[i].to);
        assert_true(fast__alloc_largest() < 1 << 16);
        json_decref(json);
    }
    fast_data_free(train);
}

/* The tables of examples/tables say what their page shows. */
static void examples_are_understood(void **state)
{
    (void)state;
    static const struct {
        const char *spec;
        int64_t features;
        const char *summary;
    } cases[] = {
        { "titanic.csv,target=Survived,drop=PassengerId", 11,
          "classification on `Survived` (2 classes: 0, 1), 5 numeric and 2 text columns (11 "
          "features), 132 missing values replaced by means, 5 missing texts, without Name, Ticket, "
          "Cabin (each row has its own text, or none)" },
        { "adult.csv", 49,
          "classification on column 14 (2 classes: <=50K, >50K), 6 numeric and 8 text columns (49 "
          "features), 290 missing texts" },
        { "housing.csv,target=median_house_value", 12,
          "regression on `median_house_value` (226328 +- 78173, standardised), 8 numeric and 1 "
          "text columns (12 features), 14 missing values replaced by means" },
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char spec[FIXTURE_SPEC];
        fast_data *train, *test;
        snprintf(spec, sizeof spec, "csv:file=" FAST_SOURCE_FOLDER "/examples/tables/%s",
                 cases[i].spec);
        open_well(spec, &train, &test);
        assert_int_equal(train->features, cases[i].features);
        assert_string_equal(train->summary, cases[i].summary);
        fast_data_free(train);
        fast_data_free(test);
    }
}

/* 10^6 different texts in a column: the set of categories is bounded. */
static void many_texts_take_bounded_memory(void **state)
{
    (void)state;
    enum { ROWS = 1000000, LINE_SIZE = 24 };
    char *text = malloc((size_t)ROWS * LINE_SIZE);
    assert_non_null(text);
    size_t used = 0;
    for (int i = 0; i < ROWS; i++)
        used += (size_t)snprintf(text + used, LINE_SIZE, "%d,t%d,%d\n", i, i, i % 2);
    data_fixture f = fixture_make(text, used);
    char spec[FIXTURE_SPEC];
    fast_data *train, *test;
    for (int hash = 0; hash < 2; hash++) {
        snprintf(spec, sizeof spec, "csv:file=%s,test_fraction=0,text=%s,buckets=2", f.path,
                 hash ? "hash" : "auto");
        fast__alloc_largest();
        open_well(spec, &train, &test);
        assert_int_equal(train->features, hash ? 3 : 1);
        /* The answers of the rows are the largest block. */
        assert_true(fast__alloc_largest() <= (int64_t)ROWS * (int64_t)sizeof(fast_csv_field));
        fast_data_free(train);
    }
    fixture_drop(&f);
    /* One field of 20 MB is not a category, and quoted or not it is no reason to fail. */
    memset(text, 'x', (size_t)ROWS * LINE_SIZE);
    memcpy(text, "a,b,y\n1,", 8);
    memcpy(text + (size_t)ROWS * LINE_SIZE - 13, ",0\n2,short,1\n", 13);
    f = fixture_make(text, (size_t)ROWS * LINE_SIZE);
    snprintf(spec, sizeof spec, "csv:file=%s,test_fraction=0,header=yes,target=2,task=classes",
             f.path);
    open_well(spec, &train, &test);
    assert_int_equal(train->count, 2);
    assert_int_equal(train->features, 1);
    fast_data_free(train);
    fixture_drop(&f);
    free(text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(texts_become_features),
        cmocka_unit_test(hashes_are_stable),
        cmocka_unit_test(missing_values_are_replaced),
        cmocka_unit_test(dates_become_features),
        cmocka_unit_test(spellings_of_tables),
        cmocka_unit_test(first_lines_are_understood),
        cmocka_unit_test(test_samples_decide_nothing),
        cmocka_unit_test(recipes_read_new_files),
        cmocka_unit_test(targets_are_scaled),
        cmocka_unit_test(memory_may_run_out),
        cmocka_unit_test(descriptions_may_be_hostile),
        cmocka_unit_test(examples_are_understood),
        cmocka_unit_test(many_texts_take_bounded_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
