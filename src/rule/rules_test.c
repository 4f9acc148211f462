/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Goal: every rule gives PyTorch's weights, step by step. Method: tests/oracle/make_rules.py runs
 * torch.optim (LARS, LAMB, Lion and Muon from their papers' formulas) on fixed gradients and rates,
 * with many options; each tensor of its file is named by the specification that it belongs to.
 * Rounding alone may differ: a few units in the last place. Both on the host and on the device
 * check.
 */
#include "rule/rule.h"
#include "tensor/device_check.h"
#include "tensor/safetensors.h"
#include "tensor/vector.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

enum { STEPS = 10, COUNT = 7 * 11 + 7 + 3 * 7 + 3 };

/* The layout of the script. */
static const fast_segment segments[] = {
    { .name = "a.weight", .offset = 0, .count = 77, .shape = { 7, 11 }, .rank = 2, .decay = true },
    { .name = "a.bias", .offset = 77, .count = 7, .shape = { 7 }, .rank = 1 },
    { .name = "b.weight", .offset = 84, .count = 21, .shape = { 3, 7 }, .rank = 2, .decay = true },
    { .name = "b.bias", .offset = 105, .count = 3, .shape = { 3 }, .rank = 1 },
};
static const fast_layout layout = { segments, 4, COUNT };

static void load(const fast_tensors *tensors, const char *name, int64_t count, float *out)
{
    const fast_tensor *tensor = fast__tensors_find(tensors, name);

    assert_non_null(tensor);
    assert_int_equal(tensor->dtype, FAST_F32);
    assert_int_equal(tensor->count, count);
    memcpy(out, tensor->data, (size_t)count * sizeof *out);
}

/* Run one specification; the largest deviation relative to max(1, |w|). */
static double deviation(const fast_device *device, const fast_tensors *tensors, const char *spec)
{
    static float w[COUNT], g[STEPS][COUNT], lr[STEPS], expect[STEPS][COUNT];
    fast_optimizer *optimizer = NULL;
    double worst = 0;
    float *params = NULL, *grad = NULL;

    load(tensors, "w", COUNT, w);
    load(tensors, "g", STEPS * COUNT, &g[0][0]);
    load(tensors, "lr", STEPS, lr);
    load(tensors, spec, STEPS * COUNT, &expect[0][0]);
    assert_int_equal(fast__optimizer_new(device, spec, &layout, &optimizer), FAST_OK);
    assert_int_equal(fast__vector_new(device, "parameters", COUNT, &params), FAST_OK);
    assert_int_equal(fast__vector_new(device, "a gradient", COUNT, &grad), FAST_OK);
    fast__vector_copy(COUNT, w, params);
    for (int step = 0; step < STEPS; step++) {
        fast__vector_copy(COUNT, g[step], grad);
        fast__optimizer_apply(optimizer, step + 1, (double)lr[step], params, grad, 0, COUNT);
        fast__vector_copy(COUNT, params, w);
        for (int i = 0; i < COUNT; i++) {
            const double e = (double)expect[step][i];
            const double d = fabs((double)w[i] - e) / fmax(1, fabs(e));

            assert_true(isfinite(w[i]));
            worst = fmax(worst, d);
        }
    }
    fast__vector_free(params);
    fast__vector_free(grad);
    fast__optimizer_free(optimizer);
    return worst;
}

static void test_oracle(void **state)
{
    const char *path = FAST_SOURCE_FOLDER "/tests/oracle/rules.safetensors";
    fast_tensors *tensors = NULL;
    const fast_device *check = NULL;
    int cases = 0;

    (void)state;
    assert_int_equal(fast__device_check_open(&check), FAST_OK);
    if (fast__tensors_open(path, &tensors) != FAST_OK)
        fail_msg("%s", fast_error_detail());
    for (int r = 0; fast__rules[r]; r++) {
        const size_t length = strlen(fast__rules[r]->name);
        double worst = -1;

        for (int64_t i = 0; i < fast__tensors_count(tensors); i++) {
            const char *name = fast__tensors_at(tensors, i)->name;

            if (strncmp(name, fast__rules[r]->name, length) != 0 ||
                (name[length] != ':' && name[length] != '\0'))
                continue;
            worst = fmax(worst, deviation(&fast__host, tensors, name));
            worst = fmax(worst, deviation(check, tensors, name));
            if (worst > 2e-6)
                fail_msg("%s deviates by %g", name, worst);
            cases++;
        }
        assert_true(worst >= 0); /* every rule has a case */
        print_message("%s: largest deviation %.1e\n", fast__rules[r]->name, worst);
    }
    assert_int_equal(cases + 3, fast__tensors_count(tensors));
    fast__tensors_close(tensors);
    fast__device_check_close(check);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_oracle),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
