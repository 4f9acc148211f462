/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Goal: IDX is read as it is written, and hostile files are refused early. Method: files made byte
 * by byte in memory, of every type and rank, plain and gzipped; then each way in which one can be
 * wrong, with a bound on the memory asked for.
 */
#include "data/data.h"

#include "data/data_fixture.h"

#include <stdlib.h>

#ifdef FAST_HAVE_ZLIB
#include <zlib.h>
#endif

enum { HEAP_MAX = 65536 };

/* The `width` low bytes of a value, big endian. */
static void put_big(bytes *b, uint64_t value, int width)
{
    for (int i = width - 1; i >= 0; i--) {
        const uint8_t byte = (uint8_t)(value >> (8 * i));
        put(b, &byte, 1);
    }
}

static bytes header(int type, int rank, const uint32_t *dims)
{
    bytes b = { .size = 0 };
    put_big(&b, (uint64_t)type << 8 | (uint64_t)rank, 4);
    for (int i = 0; i < rank; i++)
        put_big(&b, dims[i], 4);
    return b;
}

static bytes labels_of(int count)
{
    bytes b = header(8, 1, (uint32_t[]){ (uint32_t)count });
    for (int i = 0; i < count; i++)
        put_big(&b, (uint64_t)(i % 3), 1);
    return b;
}

static const char *spec_of(const data_fixture *x, const data_fixture *y, const char *more)
{
    static char spec[FIXTURE_SPEC];
    snprintf(spec, sizeof spec, "idx:images=%s,labels=%s%s", x->path, y->path, more);
    return spec;
}

static void bytes_stay_bytes(void **state)
{
    (void)state;
    bytes x = header(8, 3, (uint32_t[]){ 4, 2, 3 });
    for (int i = 0; i < 24; i++)
        put_big(&x, (uint64_t)(i * 10), 1);
    const bytes y = labels_of(4);
    data_fixture fx = fixture_make(x.at, x.size), fy = fixture_make(y.at, y.size);
    fast_data *train, *test;
    open_well(spec_of(&fx, &fy, ""), &train, &test);
    assert_null(test);
    assert_int_equal(train->dtype, FAST_U8);
    assert_int_equal(train->count, 4);
    assert_int_equal(train->rank, 3);
    assert_int_equal(train->shape[0], 1);
    assert_int_equal(train->shape[1], 2);
    assert_int_equal(train->shape[2], 3);
    assert_int_equal(train->features, 6);
    assert_int_equal(train->classes, 3);
    assert_int_equal(train->outputs, 3);
    assert_true(train->mean[0] == 0 && train->scale[0] == 1.0f / 255.0f);
    for (int i = 0; i < 24; i++)
        assert_int_equal(((uint8_t *)train->x)[i], i * 10);
    for (int i = 0; i < 4; i++)
        assert_int_equal(train->labels[i], i % 3);
    fast_data_free(train);
    fixture_drop(&fx);
    fixture_drop(&fy);
}

static void every_type_is_decoded(void **state)
{
    (void)state;
    static const struct {
        int type, width;
        double values[3];
    } cases[] = { { 0x09, 1, { -128, 0, 127 } },
                  { 0x0b, 2, { -32768, -1, 32767 } },
                  { 0x0c, 4, { -2000000, 7, 1 << 20 } },
                  { 0x0d, 4, { -1.5, 0.25, 1e10 } },
                  { 0x0e, 8, { -1.5, 0.25, 1e-10 } } };
    for (size_t k = 0; k < sizeof cases / sizeof cases[0]; k++) {
        bytes x = header(cases[k].type, 2, (uint32_t[]){ 3, 1 });
        bytes y = header(cases[k].type, 1, (uint32_t[]){ 3 });
        for (int i = 0; i < 3; i++) {
            const double value = cases[k].values[i];
            const float single = (float)value;
            uint32_t bits32;
            uint64_t bits = (uint64_t)(int64_t)value;
            memcpy(&bits32, &single, 4);
            if (cases[k].type == 0x0d)
                bits = bits32;
            if (cases[k].type == 0x0e)
                memcpy(&bits, &value, 8);
            put_big(&x, bits, cases[k].width);
            put_big(&y, cases[k].type < 0x0d ? (uint64_t)i : bits, cases[k].width);
        }
        data_fixture fx = fixture_make(x.at, x.size), fy = fixture_make(y.at, y.size);
        fast_data *train, *test;
        open_well(spec_of(&fx, &fy, ""), &train, &test);
        assert_int_equal(train->dtype, FAST_F32);
        for (int i = 0; i < 3; i++) {
            assert_true(((float *)train->x)[i] == (float)cases[k].values[i]);
            if (cases[k].type < 0x0d)
                assert_int_equal(train->labels[i], i);
            else
                assert_true(train->targets[i] == (float)cases[k].values[i]);
        }
        fast_data_free(train);
        fixture_drop(&fx);
        fixture_drop(&fy);
    }
}

static void refuse(const bytes *x, const bytes *y, const char *more, fast_err want,
                   const char *word)
{
    data_fixture fx = fixture_make(x->at, x->size), fy = fixture_make(y->at, y->size);
    open_badly(spec_of(&fx, &fy, more), want, word, HEAP_MAX);
    fixture_drop(&fx);
    fixture_drop(&fy);
}

static void hostile_files_are_refused(void **state)
{
    (void)state;
    const bytes y = labels_of(4);
    bytes good = header(8, 2, (uint32_t[]){ 4, 2 });
    put(&good, "12345678", 8);

    bytes bad = good;
    bad.at[0] = 1;
    refuse(&bad, &y, "", FAST_EFORMAT, "not an IDX file");
    bad = good;
    bad.at[2] = 0x0a;
    refuse(&bad, &y, "", FAST_EFORMAT, "not an IDX file");
    bad = good;
    bad.at[3] = 0;
    refuse(&bad, &y, "", FAST_EFORMAT, "0 dimensions");
    bad.at[3] = 200;
    refuse(&bad, &y, "", FAST_EFORMAT, "200 dimensions");
    for (size_t size = 0; size < good.size; size++) {
        bad = good;
        bad.size = size;
        refuse(&bad, &y, "", FAST_EFORMAT, size < 12 ? "ends early" : "claims 8 bytes");
    }
    bad = good;
    put(&bad, "9", 1);
    refuse(&bad, &y, "", FAST_EFORMAT, "more data");
    bad = header(8, 2, (uint32_t[]){ 4, 1 << 28 });
    put(&bad, "12345678", 8);
    refuse(&bad, &y, "", FAST_EFORMAT, "claims 1073741824 bytes");
    bad = header(0x0e, 4, (uint32_t[]){ 4, UINT32_MAX, UINT32_MAX, UINT32_MAX });
    refuse(&bad, &y, "", FAST_EFORMAT, "overflow");
    bad = header(8, 2, (uint32_t[]){ 4, 0 });
    refuse(&bad, &y, "", FAST_EFORMAT, "dimension 1");
    bad = labels_of(5);
    refuse(&good, &bad, "", FAST_EFORMAT, "4 samples");
    bad = header(8, 3, (uint32_t[]){ 4, 1, 1 });
    put(&bad, "\0\0\0\0", 4);
    refuse(&good, &bad, "", FAST_EFORMAT, "3 dimensions");
}

static void bad_values_are_refused(void **state)
{
    (void)state;
    const bytes y = labels_of(4);
    bytes good = header(8, 2, (uint32_t[]){ 4, 2 });
    put(&good, "12345678", 8);
    bytes bad = labels_of(4);
    bad.at[10] = 200;
    refuse(&good, &bad, ",classes=10", FAST_EFORMAT, "label 2 of");
    bad = header(0x0c, 1, (uint32_t[]){ 4 });
    for (int i = 0; i < 4; i++)
        put_big(&bad, i == 3 ? UINT64_MAX : 0, 4);
    refuse(&good, &bad, "", FAST_EFORMAT, "is -1, not in");
    bad = header(0x0c, 1, (uint32_t[]){ 4 });
    for (int i = 0; i < 4; i++)
        put_big(&bad, i == 3 ? INT32_MAX : 0, 4);
    refuse(&good, &bad, "", FAST_EFORMAT, "is 2147483647, not in");
    bad = header(0x0d, 2, (uint32_t[]){ 4, 1 });
    for (int i = 0; i < 4; i++)
        put_big(&bad, i == 2 ? 0x7fc00000 : 0, 4);
    refuse(&bad, &y, "", FAST_EFORMAT, "sample 2 is not a finite");
}

static void wrong_options_are_refused(void **state)
{
    (void)state;
    open_badly("idx", FAST_EINVAL, "images=", HEAP_MAX);
    open_badly("idx:images=/none,labels=/none", FAST_ENOENT, "/none", HEAP_MAX);
    open_badly("idx:images=/,labels=/", FAST_EFORMAT, "not a regular file", HEAP_MAX);
    open_badly("idx:images=a,labels=b,test_images=c", FAST_EINVAL, "test_labels", HEAP_MAX);
    open_badly("idx:image=a", FAST_EINVAL, "images", HEAP_MAX);
    open_badly("fashion-mnist:folder=/none", FAST_ENOENT, "dataset-fashion-mnist", HEAP_MAX);
}

static void memory_may_run_out(void **state)
{
    (void)state;
    bytes x = header(8, 2, (uint32_t[]){ 4, 2 });
    put(&x, "12345678", 8);
    const bytes y = labels_of(4);
    data_fixture fx = fixture_make(x.at, x.size), fy = fixture_make(y.at, y.size);
    open_without_memory(spec_of(&fx, &fy, ",test_fraction=0.5"));
    char spec[FIXTURE_SPEC];
    snprintf(spec, sizeof spec, "idx:images=%s,labels=%s,test_images=%s,test_labels=%s", fx.path,
             fy.path, fx.path, fy.path);
    open_without_memory(spec);
    fixture_drop(&fx);
    fixture_drop(&fy);
}

#ifdef FAST_HAVE_ZLIB
static bytes gzipped(const void *from, size_t size)
{
    bytes b = { .size = 0 };
    z_stream z = { 0 };
    assert_int_equal(deflateInit2(&z, 9, Z_DEFLATED, 15 + 16, 9, Z_DEFAULT_STRATEGY), Z_OK);
    void *copy = malloc(size);
    assert_non_null(copy);
    memcpy(copy, from, size);
    z.next_in = copy;
    z.avail_in = (uInt)size;
    z.next_out = b.at;
    z.avail_out = sizeof b.at;
    assert_int_equal(deflate(&z, Z_FINISH), Z_STREAM_END);
    b.size = sizeof b.at - z.avail_out;
    deflateEnd(&z);
    free(copy);
    return b;
}

static void gzip_is_unpacked_and_checked(void **state)
{
    (void)state;
    bytes x = header(8, 2, (uint32_t[]){ 4, 2 });
    put(&x, "12345678", 8);
    const bytes y = labels_of(4), x_gz = gzipped(x.at, x.size), y_gz = gzipped(y.at, y.size);
    data_fixture fx = fixture_make(x_gz.at, x_gz.size), fy = fixture_make(y_gz.at, y_gz.size);
    fast_data *train, *test;
    open_well(spec_of(&fx, &fy, ",normalize=standard,test_fraction=0.25"), &train, &test);
    assert_int_equal(train->count, 3);
    assert_int_equal(test->count, 1);
    assert_true(train->mean[0] > '1' && train->mean[0] < '8');
    assert_true(test->mean[0] == train->mean[0] && test->scale[0] == train->scale[0]);
    fast_data_free(train);
    fast_data_free(test);
    fixture_drop(&fx);
    fixture_drop(&fy);
    bytes bad = x_gz;
    for (bad.size = 2; bad.size < x_gz.size; bad.size++)
        refuse(&bad, &y, "", FAST_EFORMAT, "");
    bad = x_gz;
    bad.at[bad.size - 6] ^= 1; /* the checksum */
    refuse(&bad, &y, "", FAST_EFORMAT, "cannot decompress");
}

/* Members that follow one another are one file, as gzip has it; anything else at the end is not. */
static void bytes_after_gzip_are_refused(void **state)
{
    (void)state;
    bytes x = header(8, 2, (uint32_t[]){ 4, 2 });
    put(&x, "12345678", 8);
    const bytes y = labels_of(4), first = gzipped(x.at, 10),
                second = gzipped(x.at + 10, x.size - 10);
    bytes whole = first;
    put(&whole, second.at, second.size);
    data_fixture fx = fixture_make(whole.at, whole.size), fy = fixture_make(y.at, y.size);
    fast_data *train, *test;
    open_well(spec_of(&fx, &fy, ",test_fraction=0.25"), &train, &test);
    assert_int_equal(train->count + test->count, 4);
    fast_data_free(train);
    fast_data_free(test);
    fixture_drop(&fx);
    fixture_drop(&fy);
    bytes bad = gzipped(x.at, x.size);
    put(&bad, "tail", 4);
    refuse(&bad, &y, "", FAST_EFORMAT, "bytes after its gzip data");
    bad = whole;
    bad.at[first.size + 1] ^= 1; /* magic of the second member */
    refuse(&bad, &y, "", FAST_EFORMAT, "");
}

/* A compressed file of some hundred bytes that claims a gigabyte, and one that really unpacks to
 * 256 KB but claims 4 bytes. */
static void bombs_are_refused(void **state)
{
    (void)state;
    const bytes y = labels_of(4);
    const bytes claim = header(8, 2, (uint32_t[]){ 4, 1 << 28 });
    const bytes claim_gz = gzipped(claim.at, claim.size);
    refuse(&claim_gz, &y, "", FAST_EFORMAT, "claims 1073741824 bytes");
    const size_t size = 1 << 18;
    uint8_t *bomb = calloc(1, size);
    assert_non_null(bomb);
    const bytes start = header(8, 2, (uint32_t[]){ 4, 1 });
    memcpy(bomb, start.at, start.size);
    const bytes bomb_gz = gzipped(bomb, size);
    free(bomb);
    refuse(&bomb_gz, &y, "", FAST_EFORMAT, "more data");
}
#endif

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bytes_stay_bytes),
        cmocka_unit_test(every_type_is_decoded),
        cmocka_unit_test(hostile_files_are_refused),
        cmocka_unit_test(bad_values_are_refused),
        cmocka_unit_test(wrong_options_are_refused),
        cmocka_unit_test(memory_may_run_out),
#ifdef FAST_HAVE_ZLIB
        cmocka_unit_test(gzip_is_unpacked_and_checked),
        cmocka_unit_test(bytes_after_gzip_are_refused),
        cmocka_unit_test(bombs_are_refused),
#endif
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
