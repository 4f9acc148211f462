/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The named systems. Goal: every preset trains and repeats to the bit, also with its vectors on the
 * device `check`, on which an access outside a kernel ends the test; names, rows and aliases are
 * what the table promises; what is given besides a system wins, and what contradicts it is refused.
 * Method: a loop over the table, with a small model on a few digits and four workers on the
 * simulator; presets are compared by their flags, aliases by the bits that they train, too.
 */
#include "fast/run.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { SYSTEMS_MAX = 256 };

static const fast_system *systems;
static int64_t count;

static int list(void **state)
{
    (void)state;
    systems = fast_system_list(&count);
    return !systems || count < 40 || count > SYSTEMS_MAX;
}

/* A text of the table: there, and in one line. */
static void check_text(const char *text)
{
    assert_non_null(text);
    assert_true(strlen(text) > 0 && !strchr(text, '\n'));
}

static void columns_are_filled(void **state)
{
    static const char *const words[] = { "synchronous",  "periodic", "bounded",
                                         "asynchronous", "partial",  "none" };

    (void)state;
    for (int64_t i = 0; i < count; i++) {
        const fast_system *s = &systems[i];
        bool known = false;

        check_text(s->name);
        check_text(s->title);
        check_text(s->by);
        check_text(s->parallelism);
        check_text(s->optimisation);
        check_text(s->scheduling);
        check_text(s->exchange);
        check_text(s->topology);
        check_text(s->remarks);
        assert_true(s->title[strlen(s->title) - 1] != '.');
        assert_true(s->remarks[strlen(s->remarks) - 1] == '.');
        assert_true(strspn(s->name, "abcdefghijklmnopqrstuvwxyz0123456789-") == strlen(s->name));
        assert_true(strncmp(s->flags, "strategy=", 9) == 0);
        assert_true(!strstr(s->flags, "  "));
        if (s->missing)
            check_text(s->missing);
        for (size_t j = 0; j < sizeof words / sizeof words[0]; j++)
            known = known || strcmp(s->consistency, words[j]) == 0;
        assert_true(known);
    }
}

/* Systems whose gradients are of older weights take small batches, so that they are comparable with
 * each other: strategy/systems.h says why. */
static void stale_systems_have_small_batches(void **state)
{
    (void)state;
    for (int64_t i = 0; i < count; i++) {
        const fast_system *s = &systems[i];
        const bool stale =
            strcmp(s->consistency, "bounded") == 0 || strcmp(s->consistency, "asynchronous") == 0;
        const char *batch = strstr(s->flags, " batch=");

        if (stale && (!batch || atoi(batch + strlen(" batch=")) > 8))
            fail_msg("%s has no batch of at most 8: %s", s->name, s->flags);
    }
}

static const fast_system *find(const char *name)
{
    for (int64_t i = 0; i < count; i++)
        if (strcmp(systems[i].name, name) == 0)
            return &systems[i];
    return NULL;
}

static void aliases_are_equal_and_others_differ(void **state)
{
    (void)state;
    for (int64_t i = 0; i < count; i++) {
        const fast_system *s = &systems[i];
        const fast_system *first = s->alias_of ? find(s->alias_of) : NULL;

        assert_true((s->alias_of != NULL) == (s->differs != NULL));
        if (s->alias_of) {
            assert_non_null(first);
            assert_null(first->alias_of); /* the first of its class, not a chain */
            assert_string_equal(s->flags, first->flags);
        }
        for (int64_t j = 0; j < i; j++) {
            const fast_system *other = &systems[j];
            const bool related = s->alias_of || other->alias_of;

            assert_string_not_equal(s->name, other->name);
            if (!related && strcmp(s->flags, other->flags) == 0)
                fail_msg("%s and %s have the flags %s", s->name, other->name, s->flags);
            if (!related && s->row > 0 && s->row == other->row)
                fail_msg("%s and %s are both row %lld", s->name, other->name, (long long)s->row);
        }
    }
}

/* Is a system for models of tokens, with a layout of their layers? */
static bool has_tokens(const char *name)
{
    const fast_system *system = find(name);

    return system && strstr(system->flags, "data=copy") && strstr(system->flags, "layout=");
}

/* A model that a system can cut: shards of convolutions need some, pipelines enough layers. */
static const char *model_of(const char *name, const char *otherwise)
{
    const fast_system *s = find(name);

    if (s && strstr(s->flags, "layout=local"))
        return "model=cots:filters=2,kernel=3";
    if (s && strstr(s->flags, "layout=conv"))
        return "model=alexnet:width=1,hidden=8";
    if (s && strstr(s->flags, "layout=streaming"))
        return "model=rollout:hidden=8";
    if (has_tokens(name))
        return "model=gpt:width=16,heads=2,depth=1";
    return s && strstr(s->flags, "chunks=") ? "model=mlp:hidden=12x12x12" : otherwise;
}

static fast_err open_system(const char *name, const char *a, const char *b, fast_run **run)
{
    char system[80];
    const bool tokens = has_tokens(name);
    const char *options[] = { system,
                              model_of(name, "model=mlp:hidden=12"),
                              tokens ? "data=copy:train=160,test=32"
                                     : "data=digits:train=160,test=32",
                              "engine=ref",
                              "plan=no",
                              "workers=4",
                              "transport=sim",
                              "batch=4",
                              "steps=10",
                              "evaluate=end",
                              a,
                              a ? b : NULL,
                              NULL };

    snprintf(system, sizeof system, "system=%s", name);
    return fast_run_open(options, run);
}

/* Train a system with its vectors on a device; the bits it ends with. */
static uint64_t train(const char *name, const char *device)
{
    fast_run *run = NULL;
    const fast_result *result;
    uint64_t hash;

    /* Shared memory is that of one simulated machine. */
    const bool near = strstr(find(name)->flags, "strategy=hogwild") != NULL;

    if (open_system(name, device, near ? "cluster=laptop" : NULL, &run) != FAST_OK)
        fail_msg("%s does not open: %s", name, fast_error_detail());
    assert_string_equal(fast_run_option(run, "system"), name);
    if (fast_run_train(run) != FAST_OK)
        fail_msg("%s does not train: %s", name, fast_error_detail());
    result = fast_run_result(run);
    if (strcmp(result->stop, "done") != 0 || !isfinite(result->test_loss))
        fail_msg("%s stopped: %s, test loss %g", name, result->stop, result->test_loss);
    hash = result->params_hash;
    fast_run_close(run);
    return hash;
}

static void every_system_trains_and_repeats(void **state)
{
    static uint64_t hashes[SYSTEMS_MAX];

    (void)state;
    for (int64_t i = 0; i < count; i++) {
        const fast_system *first = systems[i].alias_of ? find(systems[i].alias_of) : NULL;

        hashes[i] = train(systems[i].name, "device=host");
        if (first && first < &systems[i])
            assert_true(hashes[i] == hashes[first - systems]);
        else if (train(systems[i].name, "device=check") != hashes[i])
            fail_msg("%s does not repeat on the device check", systems[i].name);
    }
}

/* The bits of a preset, if it can be cut so, with a model of several buckets. */
static uint64_t train_on(const char *name, const char *transport)
{
    fast_run *run = NULL;

    if (open_system(name, transport, model_of(name, "model=mlp:hidden=64"), &run) ||
        fast_run_train(run))
        fail_msg("%s on %s: %s", name, transport, fast_error_detail());
    const uint64_t hash = fast_run_result(run)->params_hash;
    fast_run_close(run);
    return hash;
}

/* But of those that take messages as they come. */
static void allreduce_has_the_same_bits_on_threads(void **state)
{
    (void)state;
    for (int64_t i = 0; i < count; i++)
        if (strncmp(systems[i].flags, "strategy=allreduce", 18) == 0 &&
            strcmp(systems[i].consistency, "asynchronous") != 0 &&
            train_on(systems[i].name, "transport=threads") !=
                train_on(systems[i].name, "transport=sim"))
            fail_msg("%s has other bits on threads than on sim", systems[i].name);
}

static void given_options_win(void **state)
{
    fast_run *run = NULL;

    (void)state;
    assert_int_equal(open_system("ssp", "optimizer=adam", "strategy=ps:servers=2", &run), FAST_OK);
    assert_string_equal(fast_run_option(run, "optimizer"), "adam");
    assert_string_equal(fast_run_option(run, "strategy"), "ps:servers=2,slack=3,cache_age=3");
    fast_run_close(run);
    assert_int_equal(open_system("ssp", "strategy=ps:slack=5", NULL, &run), FAST_OK);
    assert_string_equal(fast_run_option(run, "strategy"), "ps:slack=5,cache_age=3");
    assert_string_equal(fast_run_option(run, "optimizer"), "sgd");
    fast_run_close(run);
    assert_int_equal(open_system("ssp", "strategy=auto", NULL, &run), FAST_OK);
    assert_string_equal(fast_run_option(run, "strategy"), "ps:slack=3,cache_age=3");
    fast_run_close(run);
}

static void contradictions_are_refused(void **state)
{
    fast_run *run = NULL;

    (void)state;
    assert_int_equal(open_system("ssp", "strategy=local", NULL, &run), FAST_EINVAL);
    assert_non_null(strstr(fast_error_detail(), "contradicts"));
    assert_int_equal(open_system("spp", NULL, NULL, &run), FAST_EINVAL);
    assert_non_null(strstr(fast_error_detail(), "did you mean \"ssp\"?"));
    assert_int_equal(open_system("no such system at all", NULL, NULL, &run), FAST_EINVAL);
    assert_int_equal(open_system("ssp", "strategy=ps:nonsense=1", NULL, &run), FAST_EINVAL);
    assert_null(run);
}

/* Train a system, with another strategy if one is given, and return the result. */
static fast_result measure(const char *name, const char *strategy)
{
    fast_run *run = NULL;
    fast_result result;

    if (open_system(name, "cluster=ethernet-1g", strategy, &run) || fast_run_train(run))
        fail_msg("%s with %s: %s", name, strategy ? strategy : "its strategy", fast_error_detail());
    result = *fast_run_result(run);
    fast_run_close(run);
    return result;
}

/* A preset without the option that it is named for trains, sends or lasts otherwise. */
static void named_options_count(void **state)
{
    (void)state;
    const fast_result k = measure("k-async", NULL);
    assert_true(k.params_hash != measure("k-async", "strategy=ps:aggregate=1").params_hash);
    const fast_result filtered = measure("kkt-filter", NULL);
    const fast_result plain = measure("kkt-filter", "strategy=ps:kkt=no,cache=no");
    assert_true(filtered.bytes_sent != plain.bytes_sent);
    const fast_result ordered = measure("p3", NULL);
    const fast_result whole = measure("p3", "strategy=ps:priority=no");
    assert_true(ordered.params_hash == whole.params_hash);
    assert_true(ordered.virtual_time_s != whole.virtual_time_s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(columns_are_filled),
        cmocka_unit_test(stale_systems_have_small_batches),
        cmocka_unit_test(aliases_are_equal_and_others_differ),
        cmocka_unit_test(every_system_trains_and_repeats),
        cmocka_unit_test(allreduce_has_the_same_bits_on_threads),
        cmocka_unit_test(given_options_win),
        cmocka_unit_test(named_options_count),
        cmocka_unit_test(contradictions_are_refused),
    };
    return cmocka_run_group_tests(tests, list, NULL);
}
