/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Goal: numpy's files are read as numpy writes them, and nothing else is. Method: NPY files and zip
 * files made byte by byte in memory, right ones of every type and shape, then each wrong one with
 * a bound on the memory asked for.
 */
#include "data/data.h"

#include "data/data_fixture.h"
#include "data/sample_gather.h"

#include <math.h>
#include <stdlib.h>

#ifdef FAST_HAVE_ZLIB
#include <zlib.h>
#endif

enum { HEAP_MAX = 1 << 20 };

/* A value of `width` bytes, little endian. */
static void put_little(bytes *b, uint64_t value, int width)
{
    for (int i = 0; i < width; i++) {
        const uint8_t byte = (uint8_t)(i < 8 ? value >> (8 * i) : 0);
        put(b, &byte, 1);
    }
}

/* An NPY file with this header, and `size` bytes of data. */
static void npy(bytes *b, int version, const char *header, const void *data, size_t size)
{
    b->size = 0;
    put(b, "\x93NUMPY", 6);
    put_little(b, (uint64_t)version, 2);
    put_little(b, strlen(header), version == 1 ? 2 : 4);
    put(b, header, strlen(header));
    put(b, data, size);
}

#define HEADER(type, order, shape) \
    "{'descr': '" type "', 'fortran_order': " order ", 'shape': (" shape "), }   \n"

static bytes x_file, y_file, scratch; /* large: not on the stack */

static void y_make(int count)
{
    char header[128];
    int64_t labels[64];
    for (int i = 0; i < count; i++)
        labels[i] = i % 3;
    snprintf(header, sizeof header, HEADER("<i8", "False", "%d,"), count);
    npy(&y_file, 1, header, labels, (size_t)count * 8);
}

static const char *spec_of(const data_fixture *x, const data_fixture *y, const char *more)
{
    static char spec[FIXTURE_SPEC];
    snprintf(spec, sizeof spec, "npy:x=%s,y=%s,test_fraction=0%s", x->path, y->path, more);
    return spec;
}

static fast_data *pair(const char *more)
{
    data_fixture fx = fixture_make(x_file.at, x_file.size),
                 fy = fixture_make(y_file.at, y_file.size);
    fast_data *train, *test;
    open_well(spec_of(&fx, &fy, more), &train, &test);
    fixture_drop(&fx);
    fixture_drop(&fy);
    return train;
}

static void refuse(const char *more, fast_err want, const char *word)
{
    data_fixture fx = fixture_make(x_file.at, x_file.size),
                 fy = fixture_make(y_file.at, y_file.size);
    open_badly(spec_of(&fx, &fy, more), want, word, HEAP_MAX);
    fixture_drop(&fx);
    fixture_drop(&fy);
}

static void every_type_and_version(void **state)
{
    (void)state;
    const float f4[] = { 1.5f, -2, 3, 4 };
    const double f8[] = { 1.5, -2, 3, 4 };
    const int32_t i4[] = { 1, -2, 3, 4 };
    const int64_t i8[] = { 1, -2, 3, 4 };
    const int16_t i2[] = { 1, -2, 3, 4 };
    const uint8_t u1[] = { 1, 254, 3, 4 };
    y_make(2);
    npy(&x_file, 1, HEADER("<f4", "False", "2, 2"), f4, sizeof f4);
    for (int version = 1; version <= 3; version++) {
        npy(&x_file, version, HEADER("<f4", "False", "2, 2"), f4, sizeof f4);
        fast_data *data = pair("");
        assert_int_equal(data->count, 2);
        assert_int_equal(data->rank, 1);
        assert_int_equal(data->shape[0], 2);
        assert_int_equal(data->labels[1], 1);
        assert_memory_equal(data->x, f4, sizeof f4);
        fast_data_free(data);
    }
    const struct {
        const char *header;
        const void *data;
        size_t size;
        float first;
    } cases[] = { { HEADER("<f8", "False", "2, 2"), f8, sizeof f8, 1.5f },
                  { HEADER("<i4", "False", "2L, 2L"), i4, sizeof i4, 1 },
                  { HEADER("<i8", "False", "2,2,"), i8, sizeof i8, 1 },
                  { HEADER("<i2", "False", "2, 2"), i2, sizeof i2, 1 },
                  { HEADER("=i8", "False", "2, 2"), i8, sizeof i8, 1 } };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        npy(&x_file, 1, cases[i].header, cases[i].data, cases[i].size);
        fast_data *data = pair("");
        const float *x = data->x;
        assert_true(x[0] == cases[i].first && x[1] == -2 && x[2] == 3 && x[3] == 4);
        fast_data_free(data);
    }
    npy(&x_file, 1, HEADER("|u1", "False", "2, 2"), u1, sizeof u1);
    fast_data *data = pair("");
    assert_int_equal(data->dtype, FAST_U8);
    assert_memory_equal(data->x, u1, sizeof u1);
    assert_true(data->scale[0] == 1.0f / 255.0f);
    fast_data_free(data);
}

static void shapes(void **state)
{
    (void)state;
    uint8_t u1[48];
    for (int i = 0; i < 48; i++)
        u1[i] = (uint8_t)i;
    y_make(2);
    npy(&x_file, 1, HEADER("|u1", "False", "2, 4, 6"), u1, 48);
    fast_data *data = pair("");
    assert_int_equal(data->rank, 3);
    assert_int_equal(data->shape[0], 1);
    assert_int_equal(data->shape[2], 6);
    fast_data_free(data);
    data = pair(",as=sequence");
    assert_int_equal(data->rank, 2);
    assert_int_equal(data->shape[0], 4);
    assert_int_equal(data->shape[1], 6);
    fast_data_free(data);
    npy(&x_file, 1, HEADER("|u1", "False", "2, 2, 3, 4"), u1, 48);
    data = pair("");
    assert_int_equal(data->shape[0], 2);
    assert_int_equal(data->channels, 2);
    assert_int_equal(data->shape[1], 3);
    fast_data_free(data);
    npy(&x_file, 1, HEADER("|u1", "False", "2, 24"), u1, 48);
    data = pair(",as=tokens");
    assert_true(data->tokens);
    assert_int_equal(data->vocabulary, 48);
    assert_true(data->scale[0] == 1);
    fast_data_free(data);
    refuse(",as=sequence", FAST_EFORMAT, "expected 3");
    refuse(",as=tokens,vocabulary=47", FAST_EFORMAT, "token 47");
    npy(&x_file, 1, HEADER("|u1", "True", "2,"), u1, 2); /* Fortran's order of one dimension */
    data = pair("");
    fast_data_free(data);
    const double targets[] = { 0.5, -1, 2, 3 };
    npy(&y_file, 1, HEADER("<f8", "False", "2, 2"), targets, sizeof targets);
    data = pair("");
    assert_int_equal(data->classes, 0);
    assert_int_equal(data->outputs, 2);
    assert_true(data->targets[1] == -1);
    fast_data_free(data);
}

static void hostile_headers_are_refused(void **state)
{
    (void)state;
    static const struct {
        const char *header;
        const char *word;
    } cases[] = {
        { HEADER("|O", "False", "2, 2"), "Python objects" },
        { HEADER(">f4", "False", "2, 2"), "big endian" },
        { HEADER("<f4", "True", "2, 2"), "Fortran" },
        { HEADER("<c8", "False", "2, 2"), "type '<c8'" },
        { HEADER("<f44", "False", "2, 2"), "type '<f44'" },
        { HEADER("", "False", "2, 2"), "type ''" },
        { "{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (2,), }", "records" },
        { HEADER("<f4", "False", "2, 268435456"), "claims 2147483648 bytes" },
        { HEADER("<f4", "False", "2, 99999999999999999999"), "overflows" },
        { HEADER("<f4", "False", "4294967296, 4294967296"), "overflow" },
        { HEADER("<f4", "False", "2, -1"), "damaged" },
        { HEADER("<f4", "False", "2, 0"), "dimension 1" },
        { HEADER("<f4", "False", ""), "single number" },
        { HEADER("<f4", "False", "1, 1, 1, 1, 2"), "more than 4" },
        { HEADER("<f4", "Maybe", "2, 2"), "damaged" },
        { "{'descr': '<f4', 'fortran_order': False, }", "without shape" },
        { "{'shape': (2, 2), }", "without descr" },
        { "{'descr': '<f4', 'x': 1}", "\"x\"" },
        { "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 2)", "damaged" },
        { "{'descr': '<f4", "damaged" },
        { "", "damaged" },
        { "{{{{{{{{{{", "damaged" },
    };
    const float f4[] = { 1, 2, 3, 4 };
    y_make(2);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        npy(&x_file, 1, cases[i].header, f4, sizeof f4);
        refuse("", FAST_EFORMAT, cases[i].word);
    }
    npy(&x_file, 1, HEADER("<f4", "False", "2, 2"), f4, sizeof f4);
    const size_t size = x_file.size;
    for (x_file.size = 0; x_file.size < size; x_file.size++)
        refuse("", FAST_EFORMAT, "");
    put(&x_file, "!", 1);
    put(&x_file, "!", 1);
    refuse("", FAST_EFORMAT, "more data");
    x_file.at[6] = 4;
    refuse("", FAST_EFORMAT, "version 4");
    x_file.at[0] = 0;
    refuse("", FAST_EFORMAT, "not an NPY file");
    npy(&x_file, 2, HEADER("<f4", "False", "2, 2"), f4, sizeof f4);
    x_file.at[11] = 0x7f; /* a header of 2 GB */
    refuse("", FAST_EFORMAT, "header of");
}

static void bad_values_are_refused(void **state)
{
    (void)state;
    float f4[] = { 1, 2, 3, 4 };
    y_make(3);
    npy(&x_file, 1, HEADER("<f4", "False", "2, 2"), f4, sizeof f4);
    refuse("", FAST_EFORMAT, "2 samples");
    const int64_t labels[] = { 1, INT64_MAX };
    npy(&y_file, 1, HEADER("<i8", "False", "2,"), labels, sizeof labels);
    refuse("", FAST_EFORMAT, "label 1 of");
    y_make(2);
    refuse(",classes=1", FAST_EFORMAT, "is 1, not in 0 to 0");
    const double f8[] = { 1, 1e300, 3, 4 };
    npy(&x_file, 1, HEADER("<f8", "False", "2, 2"), f8, sizeof f8);
    refuse("", FAST_EFORMAT, "not a finite");
    npy(&x_file, 1, HEADER("<f4", "False", "2, 2"), f4, sizeof f4);
    f4[1] = 1.5f;
    npy(&x_file, 1, HEADER("<f4", "False", "2, 2"), f4, sizeof f4);
    refuse(",as=tokens", FAST_EFORMAT, "token 1.5");
    refuse(",test_x=a", FAST_EINVAL, "test_y");
    open_badly("npy", FAST_EINVAL, "npy:x=", HEAP_MAX);
    open_badly("npz", FAST_EINVAL, "npz:file=", HEAP_MAX);
}

/* A zip file of two arrays; the sizes of the first can be made to lie. */
static void zip(bytes *out, unsigned method, const bytes *x, uint32_t x_unpacked, uint32_t x_crc)
{
    const bytes *files[] = { x, &y_file };
    uint32_t offsets[2];
    out->size = 0;
    for (int i = 0; i < 2; i++) {
        offsets[i] = (uint32_t)out->size;
        put(out, "PK\3\4", 4);
        put_little(out, 0, 22); /* sizes that a reader must not believe */
        put_little(out, 5, 2);
        put_little(out, 3, 2);
        put(out, i == 0 ? "x.npy" : "y.npy", 5);
        put(out, "ext", 3);
        put(out, files[i]->at, files[i]->size);
    }
    const size_t start = out->size;
    for (int i = 0; i < 2; i++) {
        put(out, "PK\1\2", 4);
        put_little(out, 0, 6);
        put_little(out, i == 0 ? method : 0, 2);
        put_little(out, 0, 4);
        uint32_t crc = x_crc;
#ifdef FAST_HAVE_ZLIB
        if (i == 1)
            crc = (uint32_t)crc32(0, y_file.at, (uInt)y_file.size);
#endif
        put_little(out, crc, 4);
        put_little(out, files[i]->size, 4);
        put_little(out, i == 0 ? x_unpacked : files[i]->size, 4);
        put_little(out, 5, 2);
        put_little(out, 0, 12);
        put_little(out, offsets[i], 4);
        put(out, i == 0 ? "x.npy" : "y.npy", 5);
    }
    const size_t end = out->size;
    put(out, "PK\5\6", 4);
    put_little(out, 0, 4);
    put_little(out, 2, 2);
    put_little(out, 2, 2);
    put_little(out, end - start, 4);
    put_little(out, start, 4);
    put_little(out, 0, 2);
}

static const char *npz_spec(const data_fixture *f, const char *more)
{
    static char spec[FIXTURE_SPEC];
    snprintf(spec, sizeof spec, "npz:file=%s,test_fraction=0%s", f->path, more);
    return spec;
}

static void refuse_zip(const char *more, fast_err want, const char *word)
{
    data_fixture f = fixture_make(scratch.at, scratch.size);
    open_badly(npz_spec(&f, more), want, word, HEAP_MAX);
    fixture_drop(&f);
}

static uint32_t crc_of(const bytes *b)
{
#ifdef FAST_HAVE_ZLIB
    return (uint32_t)crc32(0, b->at, (uInt)b->size);
#else
    (void)b;
    return 0;
#endif
}

static void stored_arrays(void **state)
{
    (void)state;
    const float f4[] = { 1, 2, 3, 4 };
    y_make(2);
    npy(&x_file, 1, HEADER("<f4", "False", "2, 2"), f4, sizeof f4);
    zip(&scratch, 0, &x_file, (uint32_t)x_file.size, crc_of(&x_file));
    data_fixture f = fixture_make(scratch.at, scratch.size);
    fast_data *train, *test;
    open_well(npz_spec(&f, ""), &train, &test);
    assert_memory_equal(train->x, f4, sizeof f4);
    assert_int_equal(train->labels[1], 1);
    fast_data_free(train);
    open_without_memory(npz_spec(&f, ",test_x=x,test_y=y"));
    fixture_drop(&f);

    refuse_zip(",x=q", FAST_EINVAL, "it has x, y");
    const size_t size = scratch.size;
    for (scratch.size = 0; scratch.size < size; scratch.size++)
        refuse_zip("", FAST_EFORMAT, "");
    scratch.at[size - 3] ^= 0x40; /* the directory's offset */
    refuse_zip("", FAST_EFORMAT, "outside");
    zip(&scratch, 0, &x_file, (uint32_t)x_file.size, crc_of(&x_file));
    memset(scratch.at + size - 6, 0xff, 4);
    refuse_zip("", FAST_EFORMAT, "zip64");
    /* The directory is 2 entries of 51 bytes before the end record of 22; the sizes of x, at 20
     * and 24 in its entry, reach beyond the file. */
    zip(&scratch, 0, &x_file, (uint32_t)x_file.size, crc_of(&x_file));
    memset(scratch.at + size - 22 - 2 * 51 + 20 + 2, 0x7f, 2);
    memset(scratch.at + size - 22 - 2 * 51 + 24 + 2, 0x7f, 2);
    refuse_zip("", FAST_EFORMAT, "ends outside");
    zip(&scratch, 12, &x_file, (uint32_t)x_file.size, 0);
    refuse_zip("", FAST_EFORMAT, "method 12");
    zip(&scratch, 0, &x_file, 1 << 30, 0);
    refuse_zip("", FAST_EFORMAT, "method 0");
#ifdef FAST_HAVE_ZLIB
    zip(&scratch, 0, &x_file, (uint32_t)x_file.size, crc_of(&x_file) + 1);
    refuse_zip("", FAST_EFORMAT, "checksum");
#endif
}

/* Every byte of a good file set to 0, 255 and one more: an error or another set, never a crash. */
static void any_byte_may_be_wrong(void **state)
{
    (void)state;
    const float f4[] = { 1, 2, 3, 4 };
    y_make(2);
    npy(&x_file, 1, HEADER("<f4", "False", "2, 2"), f4, sizeof f4);
    zip(&scratch, 0, &x_file, (uint32_t)x_file.size, crc_of(&x_file));
    for (size_t i = 0; i < scratch.size; i++) {
        const uint8_t right = scratch.at[i];
        const uint8_t wrong[] = { 0, 255, (uint8_t)(right + 1) };
        for (int k = 0; k < 3; k++) {
            scratch.at[i] = wrong[k];
            data_fixture f = fixture_make(scratch.at, scratch.size);
            fast_data *train = NULL, *test = NULL;
            fast__alloc_largest();
            if (fast__data_open(npz_spec(&f, ""), 1, &train, &test, NULL) == FAST_OK)
                fast_data_free(train);
            assert_true(fast__alloc_largest() <= HEAP_MAX);
            fixture_drop(&f);
        }
        scratch.at[i] = right;
    }
}

#ifdef FAST_HAVE_ZLIB
static void deflated(const void *from, size_t size, bytes *out)
{
    z_stream z = { 0 };
    void *copy = malloc(size);
    assert_non_null(copy);
    memcpy(copy, from, size);
    assert_int_equal(deflateInit2(&z, 9, Z_DEFLATED, -15, 9, Z_DEFAULT_STRATEGY), Z_OK);
    z.next_in = copy;
    z.avail_in = (uInt)size;
    z.next_out = out->at;
    z.avail_out = sizeof out->at;
    assert_int_equal(deflate(&z, Z_FINISH), Z_STREAM_END);
    out->size = sizeof out->at - z.avail_out;
    deflateEnd(&z);
    free(copy);
}

static bytes packed;

static void deflated_arrays(void **state)
{
    (void)state;
    float f4[200];
    for (int i = 0; i < 200; i++)
        f4[i] = (float)(i % 7);
    y_make(2);
    npy(&x_file, 1, HEADER("<f4", "False", "2, 100"), f4, sizeof f4);
    deflated(x_file.at, x_file.size, &packed);
    const uint32_t crc = crc_of(&x_file);
    zip(&scratch, 8, &packed, (uint32_t)x_file.size, crc);
    data_fixture f = fixture_make(scratch.at, scratch.size);
    fast_data *train, *test;
    open_well(npz_spec(&f, ""), &train, &test);
    assert_memory_equal(train->x, f4, sizeof f4);
    fast_data_free(train);
    open_without_memory(npz_spec(&f, ""));
    fixture_drop(&f);

    zip(&scratch, 8, &packed, (uint32_t)x_file.size, crc + 1);
    refuse_zip("", FAST_EFORMAT, "checksum");
    /* A claim that deflate cannot keep, one that it could but does not, and one that is too low. */
    zip(&scratch, 8, &packed, 1 << 30, crc);
    refuse_zip("", FAST_EFORMAT, "which deflate cannot");
    zip(&scratch, 8, &packed, (uint32_t)x_file.size - 100, crc);
    refuse_zip("", FAST_EFORMAT, "can hold at most");
    const size_t size = packed.size;
    for (packed.size = 0; packed.size < size; packed.size += 3) {
        zip(&scratch, 8, &packed, (uint32_t)x_file.size, crc);
        refuse_zip("", FAST_EFORMAT, "");
    }
    /* A bomb: 4 MB of zeros behind an array of 16 bytes. */
    npy(&x_file, 1, HEADER("<f4", "False", "2, 2"), f4, 16);
    const size_t bomb_size = 1 << 22;
    uint8_t *bomb = calloc(1, bomb_size);
    assert_non_null(bomb);
    memcpy(bomb, x_file.at, x_file.size);
    deflated(bomb, bomb_size, &packed);
    free(bomb);
    zip(&scratch, 8, &packed, (uint32_t)bomb_size, 0);
    refuse_zip("", FAST_EFORMAT, "more data");
}
#endif

/* Columns of very different size: each has a mean and a deviation of its own, and a sequence's
 * column has the same ones at every position. */
static void columns_are_standardised_one_by_one(void **state)
{
    (void)state;
    const float vectors[] = { 1, 1000, 3, 3000, 5, 5000, 7, 7000 };
    y_make(4);
    npy(&x_file, 1, HEADER("<f4", "False", "4, 2"), vectors, sizeof vectors);
    fast_data *data = pair(",normalize=standard");
    assert_int_equal(data->channels, 2);
    assert_true(data->mean[0] == 4 && data->mean[1] == 4000);
    assert_true(fabsf(data->scale[0] - 1 / sqrtf(5)) < 1e-6f);
    assert_true(fabsf(data->scale[1] - 1e-3f / sqrtf(5)) < 1e-9f);
    float out[4];
    fast__gather(data, (uint32_t[]){ 3 }, 1, out);
    assert_true(fabsf(out[0] - 3 / sqrtf(5)) < 1e-6f && fabsf(out[1] - 3 / sqrtf(5)) < 1e-6f);
    fast_data_free(data);
    y_make(2);
    npy(&x_file, 1, HEADER("<f4", "False", "2, 2, 2"), vectors, sizeof vectors);
    data = pair(",normalize=standard,as=sequence");
    assert_true(data->mean[0] == 4 && data->mean[1] == 4000);
    fast__gather(data, (uint32_t[]){ 0 }, 1, out);
    for (int i = 0; i < 4; i++)
        assert_true(fabsf(out[i] - (i < 2 ? -3 : -1) / sqrtf(5)) < 1e-6f);
    fast_data_free(data);
    const uint8_t small[] = { 0, 100, 2, 200 };
    npy(&x_file, 1, HEADER("|u1", "False", "2, 2"), small, sizeof small);
    data = pair(",normalize=standard");
    fast__gather(data, (uint32_t[]){ 0, 1 }, 2, out);
    assert_true(out[0] == -1 && out[1] == -1 && out[2] == 1 && out[3] == 1);
    fast_data_free(data);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_type_and_version),
        cmocka_unit_test(shapes),
        cmocka_unit_test(columns_are_standardised_one_by_one),
        cmocka_unit_test(hostile_headers_are_refused),
        cmocka_unit_test(bad_values_are_refused),
        cmocka_unit_test(stored_arrays),
        cmocka_unit_test(any_byte_may_be_wrong),
#ifdef FAST_HAVE_ZLIB
        cmocka_unit_test(deflated_arrays),
#endif
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
