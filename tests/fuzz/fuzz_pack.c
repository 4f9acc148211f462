/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Fuzzes packed records: any bytes are records up to the first that is not whole. Every record lies
 * inside the block and behind the one before it; packed again they give the same bytes, apart from
 * the zeros between them; and a record that loses its data leaves the others as they were.
 */
#include "base/err.h"
#include "base/memory.h"
#include "base/pack.h"

#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Read all records of a block; add them to a pack. The bytes that they take come back. */
static size_t walk(const uint8_t *data, size_t size, fast_pack *pack)
{
    fast_pack_record r;
    size_t at = 0, last = 0;

    while (fast__pack_next(data, size, &at, &r)) {
        const uint8_t *begin = r.data;

        FAST_ASSERT(at > last && at <= size);
        FAST_ASSERT(begin >= data + last && begin + r.size <= data + at);
        fast__pack_put(pack, r.kind, r.number, r.data, r.size);
        last = at;
    }
    FAST_ASSERT(at == last);
    FAST_ASSERT(fast__pack_is_whole(data, size) == (at == size));
    return at;
}

/* The records of two blocks are equal, but that the first of a kind, if one is named, has no data
 * in the second. */
static void compare(const uint8_t *a, size_t a_size, const uint8_t *b, size_t b_size,
                    const int64_t *kind)
{
    fast_pack_record r, s;
    size_t at = 0, also = 0;
    bool emptied = false;

    while (fast__pack_next(a, a_size, &at, &r)) {
        const bool empty = kind && r.kind == *kind && !emptied;

        FAST_ASSERT(fast__pack_next(b, b_size, &also, &s));
        FAST_ASSERT(r.kind == s.kind && r.number == s.number);
        FAST_ASSERT(s.size == (empty ? 0 : r.size));
        FAST_ASSERT(s.size == 0 || memcmp(r.data, s.data, s.size) == 0);
        emptied = emptied || empty;
    }
    FAST_ASSERT(also == b_size);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    fast_pack counted = { 0 }, pack = { 0 };
    fast_pack_record first;
    size_t at = 0;

    const size_t used = walk(data, size, &counted);
    FAST_ASSERT(counted.size == used);
    FAST_ASSERT(fast__alloc("a block", (int64_t)used + 1, 1, &pack.out) == FAST_OK);
    FAST_ASSERT(walk(data, size, &pack) == used && pack.size == used);
    FAST_ASSERT(fast__pack_is_whole(pack.out, used));
    compare(data, used, pack.out, used, NULL);
    if (fast__pack_next(data, used, &at, &first)) {
        const size_t less = fast__pack_empty(pack.out, used, first.kind);

        FAST_ASSERT(less <= used);
        compare(data, used, pack.out, less, &first.kind);
    }
    fast__free(pack.out);
    return 0;
}
