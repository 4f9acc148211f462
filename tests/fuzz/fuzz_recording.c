/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Fuzzes recordings: any bytes give an error in one line, or traces whose every event can be read
 * and whose critical sections each have an actor. As random bytes rarely have correct sums, the
 * bytes are also read with corrected sums, which then do not reveal the damage.
 */
#include "base/hash.h"
#include "base/memory.h"
#include "transport/record/recording.h"

#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void walk(const fast_recording *recording)
{
    for (int64_t actor = 0; actor < recording->actors && actor < 64; actor++) {
        fast_trace_reader reader;
        fast_trace_event event;

        fast__trace_rewind(recording, actor, &reader);
        while (!fast__trace_is_at_end(recording, &reader))
            FAST_ASSERT(fast__trace_read(recording, &reader, &event));
    }
    for (int lock = 0; lock < FAST_TRACE_LOCKS; lock++)
        for (int64_t section = 0; section < recording->sections[lock]; section++)
            FAST_ASSERT(recording->owner_of[lock][section] >= 0 &&
                        recording->owner_of[lock][section] < recording->actors);
}

/* Read a copy of the bytes, which the parser takes. */
static void try_it(const uint8_t *data, size_t size)
{
    unsigned char *bytes = NULL;
    fast_recording recording = { 0 };

    FAST_ASSERT(fast__alloc("bytes", (int64_t)size, 1, &bytes) == FAST_OK);
    memcpy(bytes, data, size);
    const fast_err err = fast__recording_parse("input", bytes, size, &recording);
    if (err) {
        FAST_ASSERT(err == FAST_EFORMAT);
        FAST_ASSERT(strlen(fast_error_detail()) > 0);
        FAST_ASSERT(strchr(fast_error_detail(), '\n') == NULL);
        return;
    }
    walk(&recording);
    fast__recording_fini(&recording);
}

static uint32_t get_u32(const uint8_t *from)
{
    return from[0] | (uint32_t)from[1] << 8 | (uint32_t)from[2] << 16 | (uint32_t)from[3] << 24;
}

/* Put the sum of a head and what follows it behind both; the next sum begins with it. */
static uint64_t mend(uint8_t *at, size_t head, size_t count, uint64_t before)
{
    const uint64_t sum = fast__hash(at + head, count, fast__hash(at, head, before));

    for (int i = 0; i < 8; i++)
        at[head + count + (size_t)i] = (uint8_t)(sum >> 8 * i);
    return sum;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    enum { HEAD = 16, PIECE = 8, SUM = 8 };
    uint8_t *copy = NULL;
    size_t at = 0;
    uint64_t sum = 0;

    try_it(data, size);
    FAST_ASSERT(fast__alloc("a copy", (int64_t)size, 1, &copy) == FAST_OK);
    memcpy(copy, data, size);
    for (size_t head = HEAD; size - at >= head + SUM; head = PIECE) {
        const size_t count = get_u32(copy + at + head - 4);

        if (count > size - at - head - SUM)
            break;
        sum = mend(copy + at, head, count, sum);
        at += head + count + SUM;
    }
    try_it(copy, size);
    fast__free(copy);
    return 0;
}
