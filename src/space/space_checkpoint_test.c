/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Goal: a space that loads the saved state of another one has the same state, to the bit; forged
 * records are refused or make no difference, and never crash. Method: one actor owns, writes and
 * reads with codecs that have a residual and copies at readers; its records are loaded by a fresh
 * space and saved again; then every word and the size of each record is changed.
 */
#include "space/space_checkpoint.h"
#include "space/space_store.h"

#include "base/memory.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { COUNT = 200, ROUNDS = 3, BYTES = 65536 };

/* Records are read as numbers of 8 bytes. */
typedef union block {
    uint8_t bytes[BYTES];
    int64_t words[BYTES / 8];
} block;

/* Nobody else can use the space yet. */
static fast_err has_it_first(void *ctx, fast_space *space)
{
    assert_true(atomic_load(&space->map.owners[0].store.head->state) != FAST_SPACE_OPEN);
    *(fast_space **)ctx = space;
    return FAST_OK;
}

static fast_err open_space(fast_actor *actor, const char *name, fast_space **out)
{
    fast_space *first = NULL;
    static const int64_t ids[] = { 0 };
    const fast_space_tensor tensors[] = { { "w", COUNT, NULL }, { "s", 3, NULL } };

    FAST_TRY(fast__space_open(actor,
                              &(fast_space_options){ .name = name,
                                                     .tensors = tensors,
                                                     .tensor_count = 2,
                                                     .owners = ids,
                                                     .owner_count = 1,
                                                     .writers = ids,
                                                     .writer_count = 1,
                                                     .codec = "onebit",
                                                     .codec_down = "topk:ratio=0.1" },
                              NULL, has_it_first, &first, out));
    assert_ptr_equal(first, *out);
    return FAST_OK;
}

static size_t save(const fast_space *space, block *out)
{
    fast_pack pack = { 0 };

    fast__space_save(space, false, &pack);
    assert_in_range(pack.size, 1, BYTES);
    pack = (fast_pack){ .out = out->bytes };
    fast__space_save(space, false, &pack);
    return pack.size;
}

/* Each word of heads and data becomes another number. */
static fast_err forge(fast_space *space, const block *good, size_t size)
{
    static const int64_t numbers[] = { -1, 0, 1, 2, 1000, INT64_MAX, INT64_MIN };
    block *bad = malloc(sizeof *bad);
    int64_t refused = 0;

    assert_non_null(bad);
    for (size_t i = 0; i < size / 8; i++)
        for (size_t k = 0; k < sizeof numbers / sizeof *numbers; k++) {
            float x[COUNT];

            *bad = *good;
            bad->words[i] = numbers[k];
            const fast_err err = fast__space_load(space, 0, bad->bytes, size);
            assert_true(err == FAST_OK || err == FAST_EFORMAT);
            refused += err != FAST_OK;
            const fast_err other = fast__space_load(space, 1, bad->bytes, size);
            assert_true(other == FAST_OK || other == FAST_EFORMAT);
            const fast_err values = fast__space_values_load(bad->bytes, size, 0, COUNT, x);
            assert_true(values == FAST_OK || values == FAST_EFORMAT);
        }
    assert_true(refused > 0);
    free(bad);
    return fast__space_load(space, 0, good->bytes, size);
}

static fast_err program(fast_actor *actor, void *ctx)
{
    block *first = ctx, *second = first + 1;
    fast_space *a = NULL, *b = NULL;
    float x[COUNT], y[COUNT], w[COUNT] = { 0 };

    FAST_TRY(open_space(actor, "a", &a));
    FAST_TRY(open_space(actor, "b", &b));
    for (int r = 0; r < ROUNDS; r++) {
        for (int i = 0; i < COUNT; i++)
            x[i] = (float)((i * 37 + r * 11) % 17) - 7;
        FAST_TRY(fast_space_add(a, 0, x, FAST_SOON));
        FAST_TRY(fast_space_get(a, 0, y, NULL, FAST_SOON));
    }
    const size_t size = save(a, first);
    FAST_TRY(fast__space_values_load(first->bytes, size, 0, COUNT, w));
    assert_memory_equal(w, fast__space_values(a, 0, 0), sizeof w);
    FAST_TRY(fast_space_put(b, 0, w, FAST_SOON));
    FAST_TRY(fast__space_load(b, 0, first->bytes, size));
    assert_int_equal(save(b, second), size);
    assert_memory_equal(first->bytes, second->bytes, size);
    FAST_TRY(forge(b, first, size));
    /* From here on both go the same way. */
    FAST_TRY(fast_space_add(a, 0, x, FAST_SOON));
    FAST_TRY(fast_space_add(b, 0, x, FAST_SOON));
    FAST_TRY(fast_space_get(a, 0, x, NULL, FAST_SOON));
    FAST_TRY(fast_space_get(b, 0, y, NULL, FAST_SOON));
    assert_memory_equal(x, y, sizeof x);
    fast_space_close(b);
    fast_space_close(a);
    return FAST_OK;
}

static void records_are_the_space(void **state)
{
    static const char *const transports[] = { "transport=threads", "transport=sim" };

    (void)state;
    for (int i = 0; i < 2; i++) {
        block *blocks = calloc(2, sizeof *blocks);
        const char *const options[] = { transports[i], "timeout=60", NULL };
        const fast_role role = { "worker", 1, program, blocks };

        assert_non_null(blocks);
        if (fast_actors_run(options, &role, 1, NULL))
            fail_msg("%s: %s", transports[i], fast_error_detail());
        free(blocks);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(records_are_the_space) };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
