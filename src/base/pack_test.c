/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Goal: records come back as they were put, and a block that is cut or forged is never believed.
 * Method: odd sizes, also 0; every prefix; sizes that lie.
 */
#include "base/pack.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

enum { COUNT = 5, ROOM = 512 };

static size_t fill(uint8_t *out)
{
    fast_pack pack = { .out = out };

    for (int64_t i = 0; i < COUNT; i++)
        fast__pack_put(&pack, i, -i, "some data", (size_t)(2 * i));
    return pack.size;
}

static void records_come_back(void **state)
{
    _Alignas(8) uint8_t bytes[ROOM];
    fast_pack_record record = { 0 };
    size_t at = 0;
    int64_t count = 0;

    (void)state;
    const size_t size = fill(NULL);
    assert_true(size % 8 == 0 && size <= sizeof bytes);
    assert_int_equal(fill(bytes), size);
    assert_true(fast__pack_is_whole(bytes, size));
    for (; fast__pack_next(bytes, size, &at, &record); count++) {
        assert_int_equal(record.kind, count);
        assert_int_equal(record.number, -count);
        assert_int_equal(record.size, 2 * count);
        assert_memory_equal(record.data, "some data", record.size);
    }
    assert_int_equal(count, COUNT);
    assert_true(fast__pack_is_whole(bytes, 0));
}

static void forged_blocks_are_found(void **state)
{
    static const int64_t lies[] = { -1, INT64_MIN, INT64_MAX, INT64_MAX - 7, 9, 1000, -8 };
    _Alignas(8) uint8_t bytes[ROOM];
    const size_t size = fill(bytes);
    int64_t wholes = 0;

    (void)state;
    for (size_t cut = 1; cut < size; cut++)
        wholes += fast__pack_is_whole(bytes, cut);
    assert_int_equal(wholes, COUNT - 1); /* where a record ends */
    for (size_t i = 0; i < sizeof lies / sizeof lies[0]; i++) {
        memcpy(bytes + 16, &lies[i], sizeof lies[i]); /* the first one's size */
        assert_false(fast__pack_is_whole(bytes, size));
    }
}

/* Records that follow an emptied one stay whole. */
static void a_record_may_be_emptied(void **state)
{
    _Alignas(8) uint8_t bytes[ROOM];
    const size_t size = fill(bytes);
    fast_pack_record record;
    size_t at = 0;
    int64_t count = 0;

    (void)state;
    assert_int_equal(fast__pack_empty(bytes, size, COUNT + 1), size); /* no such record */
    const size_t less = fast__pack_empty(bytes, size, 2);
    assert_int_equal(less, size - 8);
    assert_true(fast__pack_is_whole(bytes, less));
    for (; fast__pack_next(bytes, less, &at, &record); count++) {
        assert_int_equal(record.number, -count);
        assert_int_equal(record.size, count == 2 ? 0 : 2 * count);
        assert_memory_equal(record.data, "some data", record.size);
    }
    assert_int_equal(count, COUNT);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(records_come_back),
        cmocka_unit_test(forged_blocks_are_found),
        cmocka_unit_test(a_record_may_be_emptied),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
