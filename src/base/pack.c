/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Records in a block of bytes. A block is written twice: first to count its bytes, then to fill
 * them. Sizes are checked before they are used when reading, since files may be forged.
 */
#include "base/pack.h"

#include "base/err.h"

#include <string.h>

enum { ALIGN = 8, HEAD = 3 * 8 };

/* Return the bytes of a record with `size` bytes of data. */
static size_t whole_size(size_t size)
{
    return HEAD + (size + ALIGN - 1) / ALIGN * ALIGN;
}

void *fast__pack_add(fast_pack *pack, int64_t kind, int64_t number, size_t size)
{
    const int64_t head[3] = { kind, number, (int64_t)size };
    uint8_t *at = pack->out ? pack->out + pack->size : NULL;

    FAST_ASSERT(size <= (size_t)INT64_MAX / 2);
    pack->size += whole_size(size);
    if (!at)
        return NULL;
    memset(at, 0, whole_size(size));
    memcpy(at, head, sizeof head);
    return at + HEAD;
}

void fast__pack_put(fast_pack *pack, int64_t kind, int64_t number, const void *data, size_t size)
{
    void *at = fast__pack_add(pack, kind, number, size);

    if (at && size > 0)
        memcpy(at, data, size);
}

bool fast__pack_next(const void *bytes, size_t size, size_t *at, fast_pack_record *out)
{
    int64_t head[3];

    FAST_ASSERT(*at <= size);
    if (size - *at < HEAD)
        return false;
    memcpy(head, (const uint8_t *)bytes + *at, sizeof head);
    if (head[2] < 0 || (uint64_t)head[2] > size || whole_size((size_t)head[2]) > size - *at)
        return false;
    *out = (fast_pack_record){ .kind = head[0],
                               .number = head[1],
                               .size = (size_t)head[2],
                               .data = (const uint8_t *)bytes + *at + HEAD };
    *at += whole_size((size_t)head[2]);
    return true;
}

size_t fast__pack_empty(void *bytes, size_t size, int64_t kind)
{
    fast_pack_record record;
    size_t from = 0, at = 0;

    while (fast__pack_next(bytes, size, &at, &record)) {
        uint8_t *begin = (uint8_t *)bytes + from;
        const int64_t head[3] = { kind, record.number, 0 };

        if (record.kind == kind) {
            memcpy(begin, head, sizeof head);
            memmove(begin + HEAD, (uint8_t *)bytes + at, size - at);
            return size - (at - from - HEAD);
        }
        from = at;
    }
    return size;
}

bool fast__pack_is_whole(const void *bytes, size_t size)
{
    fast_pack_record record;
    size_t at = 0;

    while (fast__pack_next(bytes, size, &at, &record))
        ;
    return at == size;
}
