/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Forecasts by operators. Goal: work, depth and Brent's bounds are the textbook's; a device's time
 * is its closed form, twice as fast a device's half; a table has power laws exactly, its own
 * entries, and its rules outside; on this machine every operator with products has a forecast and
 * a measurement. Method: a small network, several devices, and a table that is made up.
 */
#include "base/err.h"
#include "fast/lab.h"
#include "lab/time_table.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

enum { ROWS_MAX = 16 };
typedef struct rows {
    fast_forecast_measure row[ROWS_MAX];
    int count;
} rows;

static void collect(void *ctx, const fast_forecast_measure *m)
{
    rows *r = ctx;

    assert_true(r->count < ROWS_MAX);
    assert_true((m->operator_name == NULL) == (r->count == 3));
    r->row[r->count++] = *m;
}

static rows forecast(const char *machine, const char *processors)
{
    const bool here = strstr(machine, "this") != NULL;
    const char *const options[] = { "model=mlp:hidden=32",
                                    "data=digits:train=64,test=8",
                                    "batch=8",
                                    here ? "engine=auto" : "engine=ref",
                                    "optimizer=sgd",
                                    machine,
                                    processors,
                                    NULL };
    rows r = { .count = 0 };

    if (fast_bench_forecast(options, collect, &r))
        fail_msg("%s", fast_error_detail());
    assert_int_equal(r.count, 4);
    return r;
}

/* 784 -> 32 -> 10 with batch 8: dense, relu, dense, and the step. */
static void work_and_depth_are_the_textbooks(void **state)
{
    const rows one = forecast("machine=v100", "processors=1");
    const rows many = forecast("machine=v100", "processors=1000000000");
    const fast_forecast_measure *first = &one.row[0], *relu = &one.row[1], *second = &one.row[2];
    const double n = 784 * 32 + 32 + 32 * 10 + 10;

    (void)state;
    /* The first layer needs no gradient of its input: 2 products instead of 3. */
    assert_true(first->work == 2 * 2.0 * 8 * 784 * 32);
    assert_true(relu->work == 3.0 * 8 * 32);
    assert_true(second->work == 3 * 2.0 * 8 * 32 * 10);
    assert_true(first->depth == 3 * (1 + 10) + 3 && relu->depth == 3);
    assert_true(second->depth == 3 * (1 + 5) + 3);
    assert_true(one.row[3].work ==
                first->work + relu->work + second->work + 4 * n); /* and the update */
    assert_true(one.row[3].depth == 3 * (11 + 1 + 6) + 3 + 4);
    for (int i = 0; i < 4; i++) {
        const fast_forecast_measure *a = &one.row[i], *b = &many.row[i];

        assert_true(a->brent_low == fmax(a->work, a->depth));
        assert_true(a->brent_high == a->work + a->depth);
        assert_true(b->brent_low == b->depth);
        assert_true(b->brent_high >= b->depth && b->brent_high < b->depth + 1);
        assert_true(isnan(a->table_s) && isnan(a->measured_s));
    }
}

/* W / (peak share) + bytes / bandwidth, of the table of devices. */
static void a_device_has_its_closed_form(void **state)
{
    const rows v100 = forecast("machine=v100", "processors=4");
    const rows h100 = forecast("machine=h100", "processors=4"),
               h200 = forecast("machine=h200", "processors=4");
    const fast_forecast_measure *m = &v100.row[0];
    const double bytes = 3 * 4.0 * (8 * (784 + 32) + 784 * 32 + 32);
    const char *const bad[] = { "model=mlp:hidden=32", "data=digits:train=64,test=8",
                                "machine=abacus", NULL };
    rows none = { .count = 0 };

    (void)state;
    assert_true(m->bytes == bytes);
    assert_true(fabs(m->device_s - (m->work / (15.7e12 * 0.5) + bytes / 900e9)) < 1e-15);
    for (int i = 0; i < 4; i++) /* the same arithmetic, more bandwidth */
        assert_true(h200.row[i].device_s < h100.row[i].device_s &&
                    h100.row[i].device_s < v100.row[i].device_s);
    assert_int_equal(fast_bench_forecast(bad, collect, &none), FAST_EINVAL);
    assert_non_null(strstr(fast_error_detail(), "abacus"));
}

static void a_table_has_power_laws(void **state)
{
    fast_time_table t;
    const double at[3] = { 5, 90, 33 }, entry[3] = { 8, 8, 2 };
    const double above[3] = { 64, 2048, 2 }, below[3] = { 1, 2, 0.5 };

    (void)state;
    for (int i = 0; i < FAST_TABLE_SIZES; i++) {
        t.sizes[0][i] = 1 << (i + 1);
        t.sizes[1][i] = pow(8, i);
        t.sizes[2][i] = 2 + 20 * i;
    }
    for (int i = 0; i < 64; i++) {
        const int u = i / 16, v = i / 4 % 4, w = i % 4;

        t.seconds[u][v][w] =
            1e-6 * t.sizes[0][u] * pow(t.sizes[1][v], 0.5) * pow(t.sizes[2][w], 1.5);
    }
    const double wanted = 1e-6 * 5 * pow(90, 0.5) * pow(33, 1.5);
    assert_true(fabs(fast__table_seconds(&t, at) - wanted) < 1e-12);
    assert_true(fabs(fast__table_seconds(&t, entry) - t.seconds[2][1][0]) < 1e-15);
    assert_true(fabs(fast__table_seconds(&t, above) - 4 * 4 * t.seconds[3][3][0]) < 1e-12);
    t.seconds[0][0][0] = 7;
    assert_true(fabs(fast__table_seconds(&t, (double[3]){ 1, 1, 0.5 }) - 7) < 1e-12);
    assert_true(fast__table_seconds(&t, below) > 0);
}

#ifndef FAST_SLOW
/* Keep the last row, of the whole step. */
static void keep_last(void *ctx, const fast_forecast_measure *m)
{
    *(fast_forecast_measure *)ctx = *m;
}

static bool within(double forecast_s, double measured_s)
{
    return forecast_s < 2 * measured_s && measured_s < 2 * forecast_s;
}

/* Forecasts of a step are within a factor of two, in one of three tries: others may use the machine
 * while the device is measured and not while the step is. */
static void check_model(const char *model)
{
    const char *const options[] = { model, "batch=32", "data=digits:train=64,test=8", NULL };
    bool good = false;

    for (int tries = 0; tries < 3 && !good; tries++) {
        fast_forecast_measure m = { .model = NULL };

        assert_int_equal(fast_bench_forecast(options, keep_last, &m), FAST_OK);
        print_message("%s: device %.0f us, table %.0f us, measured %.0f us\n", model,
                      1e6 * m.device_s, 1e6 * m.table_s, 1e6 * m.measured_s);
        good = within(m.device_s, m.measured_s) && within(m.table_s, m.measured_s);
    }
    assert_true(good);
}
#endif

/* A network of convolutions has a step that the share of a dense product misses by more than a
 * factor of two. */
static void this_machine_is_measured(void **state)
{
    const rows r = forecast("machine=this", "processors=2");

    (void)state;
    for (int i = 0; i < 4; i++) {
        const fast_forecast_measure *m = &r.row[i];

        assert_true(m->device_s > 0 && m->table_s > 0);
        assert_true(isfinite(m->measured_s) == (i != 1));
    }
#ifndef FAST_SLOW
    check_model("model=mlp");
    check_model("model=lenet");
#endif
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(work_and_depth_are_the_textbooks),
        cmocka_unit_test(a_device_has_its_closed_form),
        cmocka_unit_test(a_table_has_power_laws),
        cmocka_unit_test(this_machine_is_measured),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
