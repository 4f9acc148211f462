/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The trainer alone. Goal: updates by range are updates, sums are equal everywhere, micro-batches
 * and missed steps are counted, contributions follow kernels, memory lasts, and saved state comes
 * back to the bit or is refused.
 * Method: programs of the test's own on the fake host, whose gradients are known. A program returns
 * an error where it finds something else.
 */
#include "fake_host.h"

#include "base/memory.h"
#include "tensor/vector.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

static fast_err expect(bool is_so, const char *text)
{
    return is_so ? FAST_OK : fast__fail(FAST_EINVAL, "not so: %s", text);
}

/* Run a program at each worker and expect it to find all that it looks for. */
static void run(fast_err (*worker)(fast_trainer *t, const void *config), int64_t workers)
{
    const fast_strategy own = { .name = "own", .resumable = true, .worker = worker };
    const fake_options options = { .strategy = "own", .own = &own, .workers = workers, .steps = 4 };
    fake_result r;

    fake_run(&options, &r);
    if (r.err)
        fail_msg("%s", r.detail);
}

/* An element of a vector on any device. */
static float at(const float *x)
{
    float value;

    fast__vector_copy(1, x, &value);
    return value;
}

static fast_err update_by_range(fast_trainer *t, const void *config)
{
    float whole[FAKE_COUNT];

    (void)config;
    FAST_TRY(
        expect(fast_trainer_can_update_range(t) && fast_trainer_lr(t, 3) == 0.5, "sgd by range"));
    while (fast_trainer_next(t)) {
        FAST_TRY(fast_trainer_gradient(t, NULL, NULL));
        for (int64_t i = 0; i < FAKE_COUNT; i++)
            whole[i] = at(t->w + i) - 0.5f * (at(t->g + i) * 2);
        for (int64_t i = 0; i < FAKE_COUNT; i += 2)
            fast_trainer_update_range(t, t->step, t->lr, t->w + i, t->g + i, 2, i, 2);
        FAST_TRY(expect(fast__vector_equal(FAKE_COUNT, t->w, whole), "w <- w - lr scale g"));
    }
    return fast_trainer_end(t);
}

static void ranges_are_an_update(void **state)
{
    (void)state;
    run(update_by_range, 1);
}

static fast_err sum_vectors(fast_trainer *t, const void *config)
{
    float x[FAKE_COUNT];

    (void)config;
    FAST_TRY(expect(fast_trainer_codec_fit(t) == FAST_FIT_NONE, "no codec"));
    for (int64_t i = 0; i < FAKE_COUNT; i++)
        x[i] = (float)(t->rank + i);
    FAST_TRY(fast_trainer_sum(t, x));
    for (int64_t i = 0; i < FAKE_COUNT; i++)
        FAST_TRY(expect(x[i] == (float)(3 + 3 * i), "0 + 1 + 2 + 3 i"));
    return FAST_OK;
}

static void sums_are_over_all_workers(void **state)
{
    (void)state;
    run(sum_vectors, 3);
}

/* y <- (3 y + x) / 4. */
static void quarter(const void *ctx, int64_t n, float *const *x)
{
    (void)ctx;
    for (int64_t i = 0; i < n; i++)
        x[0][i] = (3 * x[0][i] + x[1][i]) / 4;
}

/* Mix values of worker 1 into the replica of worker 0: as a whole, then half of them. */
static fast_err mix_contributions(fast_trainer *t, const void *config)
{
    const fast_kernel kernel = { "quarter", 3, 12, 2, 1, false, quarter };
    float x[FAKE_COUNT] = { 0 };
    double shares[2] = { 0 };
    fast_vector v[2] = { fast_trainer_model(t), { x, shares, 3 } };

    (void)config;
    fast_trainer_shares_of(t, 1, shares);
    FAST_TRY(expect(shares[0] == 0 && shares[1] == 2, "a gradient of worker 1"));
    v[0].shares[0] = 8;
    v[0].shares[1] = 2;
    FAST_TRY(fast_trainer_apply(t, &kernel, NULL, v));
    FAST_TRY(expect(v[0].shares[0] == 6 && v[0].shares[1] == 2, "(3 y + x) / 4"));
    FAST_TRY(fast_trainer_apply_range(t, &kernel, NULL, v, 1, FAKE_COUNT / 2));
    FAST_TRY(expect(v[0].shares[0] == 5.25 && v[0].shares[1] == 2, "half of the change"));
    return expect(shares[0] == 0 && shares[1] == 2, "operands that are read do not change");
}

static void contributions_follow_kernels(void **state)
{
    const fast_strategy own = { .name = "own", .resumable = true, .worker = mix_contributions };
    const fake_options options = { .strategy = "own", .own = &own, .workers = 2, .steps = 1 };
    fake_result r;

    (void)state;
    fake_run(&options, &r);
    if (r.err)
        fail_msg("%s", r.detail);
    /* Each kernel counts the age of the values that arrived. */
    assert_int_equal(r.actors[0].observed[FAST_OBSERVE_STALENESS], 2);
    assert_true(r.actors[0].contributions[0] == 5.25);
}

static fast_err count_steps(fast_trainer *t, const void *config)
{
    (void)config;
    FAST_TRY(fast_trainer_micro_gradient(t, 0));
    FAST_TRY(expect(t->step == 0, "a micro-batch counts no step"));
    float g = at(t->g);
    const double first = 0.5 * FAKE_COUNT * (double)(g * g);
    fast__vector_fill(FAKE_COUNT, 0, t->w);
    fast__vector_fill(1, g + 1, t->w); /* another loss */
    FAST_TRY(fast_trainer_micro_gradient(t, 1));
    g = at(t->g);
    const double second = 0.5 * (double)(g * g) + first * (FAKE_COUNT - 1) / FAKE_COUNT;
    fast_trainer_count_step(t);
    FAST_TRY(expect(t->step == 1 && t->loss == (first + second) / 2, "the mean of both losses"));
    const double loss = t->loss;
    fast_trainer_count_step(t);
    FAST_TRY(expect(t->step == 2 && t->loss == loss, "a missed step has no loss"));
    fast_trainer_set_step(t, 4);
    FAST_TRY(expect(t->step == 4 && !fast_trainer_next(t), "no step after the last"));
    return fast_trainer_end(t);
}

static void micro_batches_make_a_step(void **state)
{
    (void)state;
    run(count_steps, 1);
}

static fast_err use_blocks(fast_trainer *t, const void *config)
{
    int64_t *block = NULL;
    void *again = NULL, *other = NULL;

    (void)config;
    FAST_TRY(fast_trainer_persist(t, 7, sizeof *block, (void **)&block));
    FAST_TRY(expect(*block == 0, "a new block is 0"));
    *block = 12;
    FAST_TRY(fast_trainer_persist(t, 8, 1, &other));
    FAST_TRY(fast_trainer_persist(t, 7, sizeof *block, &again));
    FAST_TRY(expect(again == block && *block == 12, "the block is found again"));
    FAST_TRY(
        expect(fast_trainer_persist(t, 7, 1, &other) == FAST_EINVAL, "another size is refused"));
    return FAST_OK;
}

static void blocks_last(void **state)
{
    (void)state;
    run(use_blocks, 2);
}

/* All records of a context, in memory that the caller frees. */
static fast_err save(const fast_context *c, fast_saved *out)
{
    fast_pack pack = { 0 };

    fast__context_save(c, FAST_SAVE_ALL, &pack);
    FAST_TRY(fast__saved_reserve(out, pack.size));
    pack = (fast_pack){ .out = out->bytes };
    fast__context_save(c, FAST_SAVE_ALL, &pack);
    return expect(pack.size == out->size, "both passes have one size");
}

static fast_err load(fast_context *c, const fast_saved *saved)
{
    fast_pack_record record;

    for (size_t at = 0; fast__pack_next(saved->bytes, saved->size, &at, &record);)
        FAST_TRY(fast__context_load(c, &record));
    return FAST_OK;
}

static fast_err save_and_load(fast_trainer *t, const void *config)
{
    fast_context *c = fast__context_of(t);
    fast_saved saved = { .step = -1 }, after = { .step = -1 };
    int64_t *block = NULL;
    fast_vector v = { 0 };

    (void)config;
    FAST_TRY(fast_trainer_persist(t, 1, sizeof *block, (void **)&block));
    FAST_TRY(fast_trainer_persist_vector(t, 2, &v));
    fast__vector_fill(FAKE_COUNT, 6, v.x);
    FAST_TRY(fast_trainer_gradient(t, NULL, NULL));
    FAST_TRY(fast_trainer_update(t, t->g, 1));
    *block = 5;
    fast_err err = save(c, &saved);
    fast__vector_fill(1, -1, t->w + 3);
    fast__vector_fill(FAKE_COUNT, 0, v.x);
    *block = 0;
    if (!err)
        err = load(c, &saved);
    if (!err)
        err = expect(at(t->w + 3) == at(t->w + 2) && *block == 5, "w and the block are back");
    if (!err)
        err = save(c, &after);
    if (!err)
        err = expect(after.size == saved.size && !memcmp(after.bytes, saved.bytes, saved.size),
                     "the bytes are the same");
    if (!err) { /* as in a run, where the block is read before the strategy asks for it */
        fast__context_drop_blocks(c);
        err = load(c, &saved);
    }
    if (!err)
        err = fast_trainer_persist_vector(t, 2, &v);
    if (!err)
        err = expect(at(v.x + 5) == 6 && fast__device_of(v.x) == fast__device_of(t->w),
                     "the vector is back, on the device of w");
    fast__free(saved.bytes);
    fast__free(after.bytes);
    return err;
}

static void saved_state_returns(void **state)
{
    (void)state;
    run(save_and_load, 2);
}

static fast_err load_damaged(fast_trainer *t, const void *config)
{
    static const uint8_t bytes[FAKE_COUNT * sizeof(float)] = { 0 };
    const int64_t kinds[] = { FAST_SAVED_WEIGHTS,
                              FAST_SAVED_RULE,
                              FAST_SAVED_CONTRIBUTIONS,
                              FAST_SAVED_SUM,
                              FAST_SAVED_FLOW,
                              FAST_SAVED_NUMBERS,
                              99 };

    (void)config;
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        const fast_pack_record short_one = { .kind = kinds[i], .size = 3, .data = bytes };

        FAST_TRY(expect(fast__context_load(fast__context_of(t), &short_one) == FAST_EFORMAT,
                        "is refused"));
    }
    const fast_pack_record empty = { .kind = FAST_SAVED_WEIGHTS, .data = bytes };
    const fast_pack_record nameless = {
        .kind = FAST_SAVED_BLOCK, .number = -1, .size = 4, .data = bytes
    };
    FAST_TRY(expect(fast__context_load(fast__context_of(t), &empty) == FAST_OK,
                    "the run's model stands"));
    return expect(fast__context_load(fast__context_of(t), &nameless) == FAST_EFORMAT,
                  "block -1 is refused");
}

static void damaged_state_is_refused(void **state)
{
    (void)state;
    run(load_damaged, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ranges_are_an_update),         cmocka_unit_test(sums_are_over_all_workers),
        cmocka_unit_test(micro_batches_make_a_step),    cmocka_unit_test(blocks_last),
        cmocka_unit_test(saved_state_returns),          cmocka_unit_test(damaged_state_is_refused),
        cmocka_unit_test(contributions_follow_kernels),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
