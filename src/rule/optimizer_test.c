/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Goal: an optimizer does the same whatever the cut, keeps its promises on decay, clipping and
 * memory, and refuses bad specifications. Method: loops over the registry, so that a new rule is
 * tested by existing; whole vector against random cuts to the bit, on odd sizes and unaligned
 * memory; plain formulas in double precision; every allocation made to fail once. All of it runs on
 * the host and on the device check.
 */
#include "base/hash.h"
#include "base/memory.h"
#include "base/rng.h"
#include "rule/kernel.h"

#include "devices.h"

#include <stdio.h>
#include <string.h>

enum { COUNT = 1237 + 61 + 640 + 10 + 3 };

/* The gap of three after the second segment is padding. */
static const fast_segment segments[] = {
    { .name = "a.weight", .offset = 0, .count = 1237, .rank = 1, .decay = true },
    { .name = "a.bias", .offset = 1237, .count = 61, .rank = 1 },
    { .name = "b.weight", .offset = 1301, .count = 640, .rank = 1, .decay = true },
    { .name = "b.bias", .offset = 1941, .count = 10, .rank = 1 },
};
static const fast_layout layout = { segments, 4, COUNT };

/* Options that bring every branch of a rule's loop to life, but not clipping by norm. */
static const char *const variants[] = { "", "weight_decay=0.1", "weight_decay=0.1,decay_all=yes",
                                        "clip_value=0.4,weight_decay=0.05" };

static void fill(float *x, int64_t n, uint64_t sample)
{
    fast_rng rng;

    fast__rng_init(&rng, 3, FAST_PURPOSE_TEST, 0, 0, sample);
    for (int64_t i = 0; i < n; i++)
        x[i] = fast__rng_normal(&rng);
}

static fast_optimizer *make(const char *spec)
{
    fast_optimizer *optimizer = NULL;

    assert_int_equal(fast__optimizer_new(devices_now, spec, &layout, &optimizer), FAST_OK);
    return optimizer;
}

/* Update a range of whole vectors; those of another device are copied there and back. */
static void apply(fast_optimizer *optimizer, int64_t step, double lr, float *w, const float *g,
                  int64_t offset, int64_t count)
{
    if (devices_now == &fast__host) { /* where it is: it may be unaligned */
        fast__optimizer_apply(optimizer, step, lr, w, g, offset, count);
        return;
    }
    float *params = devices_put(w + offset, count), *grad = devices_put(g + offset, count);
    fast__optimizer_apply_range(optimizer, step, lr, params, grad, 1, offset, count);
    devices_get(params, count, w + offset);
    fast__vector_free(grad);
}

/* Copy state vector i to the host; false past the last. */
static bool slot_of(const fast_optimizer *optimizer, int i, float *out)
{
    const float *slot = fast__optimizer_slot(optimizer, i);

    if (slot)
        fast__vector_copy(COUNT, slot, out);
    return slot != NULL;
}

/* Five steps whole and in random cuts, on memory that begins anywhere: the same bits. */
static void check_cuts(const char *spec)
{
    static float whole[COUNT + 1], cut[COUNT + 1], g[COUNT + 1], slots[2][COUNT];
    fast_optimizer *a = make(spec), *b = make(spec);
    fast_rng rng;

    fast__rng_init(&rng, 11, FAST_PURPOSE_TEST, 0, 0, 0);
    fill(whole, COUNT + 1, 0);
    memcpy(cut, whole, sizeof cut);
    for (int64_t step = 1; step <= 5; step++) {
        fill(g, COUNT + 1, (uint64_t)step);
        apply(a, step, 0.05, whole + 1, g + 1, 0, COUNT);
        for (int64_t begin = 0, n; begin < COUNT; begin += n) {
            n = 1 + (int64_t)fast__rng_below(&rng, 200);
            n = n < COUNT - begin ? n : COUNT - begin;
            apply(b, step, 0.05, cut + 1, g + 1, begin, n);
        }
        assert_memory_equal(whole, cut, sizeof cut);
        for (int i = 0; slot_of(a, i, slots[0]) && slot_of(b, i, slots[1]); i++)
            assert_memory_equal(slots[0], slots[1], sizeof slots[0]);
    }
    fast__optimizer_free(a);
    fast__optimizer_free(b);
}

static void test_cuts(void **state)
{
    (void)state;
    for (int i = 0; fast__rules[i]; i++) {
        if (fast__rules[i]->by_segment || fast__rules[i]->observe)
            continue;
        for (size_t k = 0; k < sizeof variants / sizeof *variants; k++) {
            char spec[128];

            snprintf(spec, sizeof spec, "%s:%s", fast__rules[i]->name, variants[k]);
            check_cuts(spec);
        }
    }
    check_cuts("rmsprop:momentum=0.5");
    check_cuts("rmsprop:centered=yes");
    check_cuts("rmsprop:centered=yes,momentum=0.5");
}

/* Every rule moves every parameter against its gradient at step 1, and by a finite amount. */
static void test_descends(void **state)
{
    static float w[COUNT], before[COUNT], g[COUNT];

    (void)state;
    for (int i = 0; fast__rules[i]; i++) {
        fast_optimizer *optimizer = make(fast__rules[i]->name);

        assert_ptr_equal(fast__optimizer_rule(optimizer), fast__rules[i]);
        fill(w, COUNT, 0);
        fill(g, COUNT, 1);
        for (int64_t k = 0; k < COUNT; k++)
            g[k] += g[k] > 0 ? 0.5f : -0.5f;
        memcpy(before, w, sizeof w);
        apply(optimizer, 1, 0.5, w, g, 0, COUNT);
        for (int64_t k = 0; k < COUNT; k++)
            assert_true(g[k] > 0 ? w[k] < before[k] : w[k] > before[k]);
        fast__optimizer_free(optimizer);
    }
}

/* momentum, ten steps, against the formula in double precision. */
static void test_momentum_formula(void **state)
{
    static float w[COUNT], g[COUNT];
    static double wd[COUNT], vd[COUNT];
    fast_optimizer *optimizer = make("momentum:momentum=0.8,dampening=0.25,weight_decay=0.01");

    (void)state;
    fill(w, COUNT, 0);
    for (int64_t i = 0; i < COUNT; i++) {
        wd[i] = (double)w[i];
        vd[i] = 0;
    }
    for (int64_t step = 1; step <= 10; step++) {
        fill(g, COUNT, (uint64_t)step);
        apply(optimizer, step, 0.1, w, g, 0, COUNT);
        for (int64_t i = 0; i < COUNT; i++) {
            const bool decay = i < 1237 || (i >= 1301 && i < 1941);
            const double grad = (double)g[i] + (decay ? 0.01 * wd[i] : 0);

            vd[i] = 0.8 * vd[i] + (step == 1 ? 1 : 0.75) * grad;
            wd[i] -= 0.1 * vd[i];
            assert_true(fabs((double)w[i] - wd[i]) < 2e-6);
        }
    }
    fast__optimizer_free(optimizer);
}

/* RMSProp that turns into SGD: long before the middle the one, long after it the other; and in
 * between the formula, by hand. */
static void test_rmsprop_turns_into_sgd(void **state)
{
    static const struct {
        const char *spec, *same; /* to rounding */
        double lr;               /* of `same`, where the other has 0.01 */
    } limits[] = {
        { "rmsprop:sgd=30,center=1000000", "rmsprop", 0.01 },
        { "rmsprop:sgd=30,center=1000000,momentum=0.9", "rmsprop:momentum=0.9", 0.01 },
        { "rmsprop:sgd=30,center=0,width=1", "sgd", 0.3 },
        { "rmsprop:sgd=30,center=0,width=1,momentum=0.9", "momentum:momentum=0.9", 0.3 },
    };
    fast_optimizer *one;
    double w0 = 1, square = 0;
    float a[COUNT], b[COUNT], g[COUNT];

    (void)state;
    for (size_t i = 0; i < sizeof limits / sizeof limits[0]; i++) {
        fast_optimizer *x = make(limits[i].spec), *y = make(limits[i].same);

        fill(a, COUNT, 1);
        fill(b, COUNT, 1);
        for (int64_t step = 1; step <= 20; step++) {
            fill(g, COUNT, (uint64_t)step + 1);
            apply(x, step, 0.01, a, g, 0, COUNT);
            apply(y, step, limits[i].lr, b, g, 0, COUNT);
        }
        for (int k = 0; k < COUNT; k++)
            assert_true(fabs((double)(a[k] - b[k])) < 1e-4);
        fast__optimizer_free(x);
        fast__optimizer_free(y);
    }
    one = make("rmsprop:sgd=30,center=5,width=4,alpha=0.9,eps=0.01");
    fill(a, COUNT, 0);
    a[0] = 1;
    for (int64_t step = 1; step <= 9; step++) {
        static const double said[] = { 0.0676676416183064,
                                       0.111565080074215,
                                       0.183939720585721,
                                       0.303265329856317,
                                       0.5,
                                       0.75,
                                       1,
                                       1,
                                       1 };
        const double say = said[step - 1], grad = (double)step / 4;

        fill(g, COUNT, 1);
        g[0] = (float)grad;
        square = 0.9 * square + 0.1 * grad * grad;
        w0 -= 0.01 * (30 * say + (1 - say) / (sqrt(square) + 0.01)) * grad;
        apply(one, step, 0.01, a, g, 0, COUNT);
        assert_true(fabs((double)a[0] - w0) < 1e-5);
    }
    fast__optimizer_free(one);
}

/* A range decays where all of it does: not in biases, nor in padding. */
static void test_decays(void **state)
{
    fast_optimizer *none = make("momentum"), *weights = make("momentum:weight_decay=0.1");
    fast_optimizer *all = make("momentum:weight_decay=0.1,decay_all=yes");

    (void)state;
    assert_false(fast__optimizer_decays(none, 0, 1237));
    assert_true(fast__optimizer_decays(weights, 0, 1237));
    assert_true(fast__optimizer_decays(weights, 1301, 640));
    assert_false(fast__optimizer_decays(weights, 1236, 2));
    assert_false(fast__optimizer_decays(weights, 1237, 61));
    assert_false(fast__optimizer_decays(weights, 1300, 2));
    assert_true(fast__optimizer_decays(all, 0, 1298));
    assert_false(fast__optimizer_decays(all, 1290, 20));
    assert_true(fast__optimizer_decays(all, 1301, 650));
    fast__optimizer_free(none);
    fast__optimizer_free(weights);
    fast__optimizer_free(all);
}

/* Clipping by norm leaves a shorter gradient alone to the bit and scales a longer one. */
static void test_clip_norm(void **state)
{
    static float a[COUNT], b[COUNT], g[COUNT];
    fast_optimizer *plain = make("sgd"), *loose = make("sgd:clip_norm=1000");
    fast_optimizer *tight = make("sgd:clip_norm=0.5");
    double norm = 0;

    (void)state;
    assert_true(fast__optimizer_by_range(plain));
    assert_false(fast__optimizer_by_range(tight));
    fill(g, COUNT, 1);
    fill(a, COUNT, 0);
    fill(b, COUNT, 0);
    apply(plain, 1, 0.1, a, g, 0, COUNT);
    apply(loose, 1, 0.1, b, g, 0, COUNT);
    assert_memory_equal(a, b, sizeof a);

    memset(a, 0, sizeof a);
    apply(tight, 1, 1.0, a, g, 0, COUNT);
    for (int64_t i = 0; i < COUNT; i++)
        norm += (double)a[i] * (double)a[i];
    assert_true(fabs(sqrt(norm) - 0.5) < 1e-5);
    fast__optimizer_free(plain);
    fast__optimizer_free(loose);
    fast__optimizer_free(tight);
}

/* Clipping by value bounds every element, and a gradient that is not a number stays visible. */
static void test_clip_value(void **state)
{
    static float w[COUNT], g[COUNT];
    fast_optimizer *optimizer = make("sgd:clip_value=0.25");

    (void)state;
    fill(g, COUNT, 1);
    g[0] = INFINITY;
    g[1] = -INFINITY;
    g[2] = NAN;
    memset(w, 0, sizeof w);
    apply(optimizer, 1, 1.0, w, g, 0, COUNT);
    assert_true(w[0] == -0.25f);
    assert_true(w[1] == 0.25f);
    assert_true(isnan(w[2]));
    for (int64_t i = 3; i < COUNT; i++)
        assert_true(w[i] == -(g[i] > 0.25f ? 0.25f : g[i] < -0.25f ? -0.25f : g[i]));
    fast__optimizer_free(optimizer);
}

/* Weight decay touches what the layout marks, everything where asked, and no padding. */
static void test_decay_flags(void **state)
{
    static float w[COUNT], g[COUNT];

    (void)state;
    for (int all = 0; all < 2; all++) {
        fast_optimizer *optimizer =
            make(all ? "adamw:weight_decay=0.5,decay_all=yes" : "adamw:weight_decay=0.5");

        for (int64_t i = 0; i < COUNT; i++)
            w[i] = 2;
        apply(optimizer, 1, 0.1, w, g, 0, COUNT);
        for (int64_t i = 0; i < COUNT; i++) {
            const bool decay = i < 1237 || (i >= 1301 && i < 1941);

            assert_true(fabsf(w[i] - (all || decay ? 1.9f : 2.0f)) < 1e-6f);
        }
        fast__optimizer_free(optimizer);
    }
}

/* RMSProp holds only the slots that its options need. */
static void test_slots(void **state)
{
    static const struct {
        const char *spec;
        int slots;
    } cases[] = {
        { "sgd", 0 },
        { "momentum", 1 },
        { "adam", 2 },
        { "rmsprop", 1 },
        { "rmsprop:momentum=.9", 2 },
        { "rmsprop:centered=yes", 2 },
        { "lamb", 2 },
        { "rmsprop:momentum=.9,centered=yes", 3 },
    };

    (void)state;
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        fast_optimizer *optimizer = make(cases[k].spec);

        for (int i = 0; i < 4; i++) {
            static float slot[COUNT];
            const bool there = slot_of(optimizer, i, slot);

            assert_int_equal(there, i < cases[k].slots);
            for (int64_t j = 0; there && j < COUNT; j++)
                assert_true(slot[j] == 0.0f);
        }
        fast__optimizer_free(optimizer);
    }
}

/* The bits are the same in every build and on every machine: each rule's weights after five steps
 * have one hash. A change of a formula's order of operations shows here, and must be meant. */
static void test_same_bits_everywhere(void **state)
{
    static const struct {
        const char *spec;
        uint64_t hash;
    } golden[] = {
        { "sgd:clip_norm=3", 0x5fb683d7e12d0d1d },
        { "momentum", 0x28757b99004144d7 },
        { "momentum:clip_value=0.3,weight_decay=0.01", 0x625a6e6876bde234 },
        { "nesterov:dampening=0.1", 0x68627b13d3c1e0d8 },
        { "adagrad:lr_decay=0.1", 0x4ce842ec0842ff68 },
        { "rmsprop:momentum=0.9,centered=yes", 0xe6d3fec496019646 },
        { "adam:weight_decay=0.01", 0x64a350e9726b7b79 },
        { "adamw", 0x441680d4af270531 },
        { "lars:weight_decay=0.01", 0x3fedf962ea0df952 },
        { "lamb", 0x560741012235dacf },
    };
    static float w[COUNT], g[COUNT];

    (void)state;
    for (size_t k = 0; k < sizeof golden / sizeof *golden; k++) {
        fast_optimizer *optimizer = make(golden[k].spec);
        fast_rng rng;

        fast__rng_init(&rng, 5, FAST_PURPOSE_TEST, 0, 0, 0);
        for (int64_t i = 0; i < COUNT; i++)
            w[i] = fast__rng_uniform(&rng) - 0.5f;
        for (int64_t step = 1; step <= 5; step++) {
            for (int64_t i = 0; i < COUNT; i++)
                g[i] = fast__rng_uniform(&rng) - 0.5f;
            apply(optimizer, step, 0.0625, w, g, 0, COUNT);
        }
        if (fast__hash(w, sizeof w, 0) != golden[k].hash)
            fail_msg("%s: 0x%016llx", golden[k].spec,
                     (unsigned long long)fast__hash(w, sizeof w, 0));
        fast__optimizer_free(optimizer);
    }
}

/* Steps of yellowfin on a gradient whose length and sign are functions of the step; the first
 * weight's last step is *step_out. */
static void fin(const char *spec, int64_t steps, double (*f)(int64_t), double lr, double *step_out)
{
    static float w[COUNT], g[COUNT], before;
    fast_optimizer *optimizer = make(spec);

    memset(w, 0, sizeof w);
    for (int64_t step = 1; step <= steps; step++) {
        for (int i = 0; i < COUNT; i++)
            g[i] = (float)(f(step) / sqrt(COUNT));
        before = w[0];
        apply(optimizer, step, lr, w, g, 0, COUNT);
    }
    *step_out = (double)(w[0] - before);
    fast__optimizer_free(optimizer);
}

static double steady(int64_t step)
{
    (void)step;
    return 3;
}

static double exploding(int64_t step)
{
    return step == 50 ? 300 : 3;
}

static double swinging(int64_t step)
{
    return step % 2 ? 2 : -2;
}

static double ranging(int64_t step)
{
    return step % 2 ? 1 : 1.5;
}

/* Closed forms of YellowFin. A steady gradient: no momentum, and a step of g / |g|^2 times the
 * learning rate; the slow start takes a t / (10 window) of it. One that swings: D = 1 / a, C = a^2,
 * so that (1 - x)^3 = x / 2 whatever the length; its root by Cardano is the paper's formula. */
static void test_yellowfin(void **state)
{
    double step, other;

    (void)state;
    fin("yellowfin:slow_start=no,beta=0.5", 50, steady, 0.5, &step);
    assert_true(fabs(step + 0.5 / 3 / sqrt(COUNT)) < 1e-6);
    fin("yellowfin:beta=0,window=2", 5, steady, 1, &step);
    assert_true(fabs(step + 5.0 / 20 / 3 / sqrt(COUNT)) < 1e-6);
    /* Before it knows anything: the initial rate. */
    fin("yellowfin:slow_start=no,beta=0.9999999,initial=0.25", 1, steady, 1, &step);
    assert_true(fabs(step + 0.25 * 3 / sqrt(COUNT)) < 1e-6);
    /* A gradient that is a hundred times longer than all before moves as if it were as long. */
    fin("yellowfin:slow_start=no,beta=0.5", 50, exploding, 1, &step);
    assert_true(fabs(step) < 2.0 / 3 / sqrt(COUNT));

    const double p = 0.5, w3 = (-sqrt(p * p + 4.0 / 27 * p * p * p) - p) / 2;
    const double root = cbrt(w3) - p / 3 / cbrt(w3) + 1, mu = root * root;
    const double alpha = (1 - root) * (1 - root) / 4;
    /* v = -mu v - alpha g settles at alternating steps of alpha a / (1 + mu). */
    fin("yellowfin:slow_start=no,beta=0.995", 4000, swinging, 1, &step);
    assert_true(fabs(fabs(step) * sqrt(COUNT) / (alpha * 2 / (1 + mu)) - 1) < 0.01);

    /* The range of curvatures bounds the momentum from below: with lengths 1 and 1.5 it is (0.5 /
     * 2.5)^2, and v gets to the mean of g times alpha / (1 - mu), alternating around it. */
    fin("yellowfin:slow_start=no,beta=0.995", 4000, ranging, 1, &step);
    fin("yellowfin:slow_start=no,beta=0.995", 4001, ranging, 1, &other);
    assert_true(fabs((step + other) / 2 * sqrt(COUNT) / (-1.25 * 0.64 / (1 - 0.04)) - 1) < 0.01);
}

/* A vector without elements, and one with a single one, are vectors too. */
static void test_small(void **state)
{
    static const fast_segment one = { .name = "w", .count = 1, .rank = 1, .decay = true };
    const fast_layout layouts[] = { { NULL, 0, 0 }, { &one, 1, 1 } };

    (void)state;
    for (int i = 0; fast__rules[i]; i++) {
        for (int k = 0; k < 2; k++) {
            fast_optimizer *optimizer = NULL;
            float w = 1, g = 1;

            assert_int_equal(
                fast__optimizer_new(devices_now, fast__rules[i]->name, &layouts[k], &optimizer),
                FAST_OK);
            apply(optimizer, 1, 0.1, &w, &g, 0, k);
            assert_true(k == 0 ? w == 1 : w < 1);
            fast__optimizer_free(optimizer);
        }
    }
    fast__optimizer_free(NULL);
}

static void test_apply_allocates_nothing(void **state)
{
    static float w[COUNT], g[COUNT];

    (void)state;
    for (int i = 0; fast__rules[i]; i++) {
        fast_optimizer *optimizer = NULL;

        assert_int_equal(
            fast__optimizer_new(&fast__host, fast__rules[i]->name, &layout, &optimizer), FAST_OK);
        const int64_t before = fast__alloc_count();

        fast__optimizer_apply(optimizer, 1, 0.1, w, g, 0, COUNT);
        assert_int_equal(fast__alloc_count(), before);
        fast__optimizer_free(optimizer);
    }
}

static void test_out_of_memory(void **state)
{
    (void)state;
    for (int i = 0; fast__rules[i]; i++) {
        fast_optimizer *const untouched = (fast_optimizer *)&layout;
        fast_optimizer *optimizer = untouched;
        fast_err err = FAST_ENOMEM;

        for (int64_t n = 0; err != FAST_OK; n++) {
            assert_true(n < 20);
            fast__alloc_fail_after(n, true);
            err = fast__optimizer_new(devices_now, fast__rules[i]->name, &layout, &optimizer);
            fast__alloc_fail_after(-1, true);
            assert_true(err == FAST_OK || err == FAST_ENOMEM);
            assert_int_equal(optimizer != untouched, err == FAST_OK);
        }
        fast__optimizer_free(optimizer);
    }
}

/* A wrong specification is refused with a detail that helps, and nothing is made. */
static void test_hostile(void **state)
{
    static const struct {
        const char *spec;
        const char *says; /* in the detail */
    } cases[] = {
        { "", "" },
        { ":", "" },
        { "adm", "adam" },
        { "no such rule at all, and a very long name for it", "" },
        { "momentum:momentun=0.9", "momentum" },
        { "momentum:momentum=", "momentum" },
        { "momentum:momentum=nan", "momentum" },
        { "momentum:momentum=inf", "momentum" },
        { "momentum:momentum=1.5", "1.5" },
        { "momentum:momentum=-0.1", "-0.1" },
        { "momentum:momentum=0.9x", "0.9x" },
        { "adam:beta1=1", "beta1" },
        { "adam:beta2=1", "beta2" },
        { "adam:eps=-1", "eps" },
        { "sgd:clip_norm=-1", "clip_norm" },
        { "sgd:clip_norm=1e400", "clip_norm" },
        { "sgd:weight_decay", "weight_decay" },
        { "rmsprop:centered=maybe", "centered" },
        { "lamb:,,", "" },
    };

    (void)state;
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        fast_optimizer *optimizer = NULL;

        if (fast__optimizer_new(&fast__host, cases[k].spec, &layout, &optimizer) != FAST_EINVAL)
            fail_msg("\"%s\" was not refused", cases[k].spec);
        assert_null(optimizer);
        if (!strstr(fast_error_detail(), cases[k].says))
            fail_msg("\"%s\": %s", cases[k].spec, fast_error_detail());
    }
}

/* Options of every rule begin with what all have, and have a help line each. */
static void test_tables(void **state)
{
    (void)state;
    for (int i = 0; fast__rules[i]; i++) {
        const fast_rule *rule = fast__rules[i];
        int common = 0;

        assert_true(rule->slots <= FAST_RULE_SLOTS_MAX);
        assert_non_null(rule->summary);
        for (const fast_option *o = rule->options; o->name; o++) {
            assert_non_null(o->help);
            assert_true(o->offset < rule->config_size);
            common += o->offset < sizeof(fast_rule_common);
        }
        assert_int_equal(common, 4);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_cuts),
        cmocka_unit_test(test_descends),
        cmocka_unit_test(test_momentum_formula),
        cmocka_unit_test(test_rmsprop_turns_into_sgd),
        cmocka_unit_test(test_clip_norm),
        cmocka_unit_test(test_clip_value),
        cmocka_unit_test(test_decay_flags),
        cmocka_unit_test(test_slots),
        cmocka_unit_test(test_same_bits_everywhere),
        cmocka_unit_test(test_yellowfin),
        cmocka_unit_test(test_small),
        cmocka_unit_test(test_apply_allocates_nothing),
        cmocka_unit_test(test_out_of_memory),
        cmocka_unit_test(test_hostile),
        cmocka_unit_test(test_decays),
        cmocka_unit_test(test_tables),
    };

    return devices_run(tests, sizeof tests / sizeof tests[0], NULL, NULL);
}
