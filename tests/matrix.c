/* SPDX-License-Identifier: Apache-2.0 */
/* The cells of the compatibility matrix: see matrix.h. */
#include "matrix.h"

#include "base/memory.h"
#include "base/rng.h"
#include "fast/run.h"
#include "strategy/strategy.h"

#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

enum { FEATURES = 14, CLASSES = 4, TRAIN = 192, TEST = 64, NAME_MAX_ = 120 };

static test_dimension dimensions[TEST_DIMENSIONS];
static char members[TEST_VALUES_MAX][NAME_MAX_];
static fast_data *train_data, *test_data;
static double first_loss;
static pthread_once_t once = PTHREAD_ONCE_INIT;

bool test_member_of(const char *member, const char *strategy)
{
    const size_t length = strlen(strategy);

    return strncmp(member, strategy, length) == 0 &&
           (member[length] == '\0' || member[length] == ':');
}

bool test_has_topology(const char *member)
{
    for (int i = 0; fast__strategies[i]; i++)
        if (test_member_of(member, fast__strategies[i]->name))
            return fast__strategies[i]->topology != NULL;
    return false;
}

bool test_is_near(const char *member)
{
    for (int i = 0; fast__strategies[i]; i++)
        if (test_member_of(member, fast__strategies[i]->name))
            return fast__strategies[i]->shares_memory;
    return false;
}

static void add_value(test_dimension *d, const char *value)
{
    for (int i = 0; i < d->count; i++)
        if (strcmp(d->values[i], value) == 0)
            return;
    FAST_ASSERT(d->count < TEST_VALUES_MAX);
    d->values[d->count++] = value;
}

/* The strategy of a preset with its options, up to the next flag. */
static const char *member_of(const fast_system *system, int slot)
{
    const char *spec = system->flags + strlen("strategy=");
    const size_t length = strcspn(spec, " ");

    FAST_ASSERT(slot < TEST_VALUES_MAX && length < NAME_MAX_);
    memcpy(members[slot], spec, length);
    members[slot][length] = '\0';
    return members[slot];
}

static void list_strategies(test_dimension *d)
{
    int64_t count = 0;
    const fast_system *systems = fast_system_list(&count);

    for (int i = 0; fast__strategies[i]; i++) {
        add_value(d, fast__strategies[i]->name);
        for (int64_t k = 0; k < count; k++) {
            const char *member = member_of(&systems[k], d->count);

            /* A subspace is that of a codec, of which this matrix has none. */
            if (test_member_of(member, fast__strategies[i]->name) && !strstr(member, "subspace"))
                add_value(d, member);
        }
    }
}

static void list_parts(test_dimension *d, const char *kind)
{
    int64_t count = 0;
    const fast_part *parts = fast_part_list(kind, &count);

    for (int64_t i = 0; i < count; i++)
        if (strcmp(parts[i].name, "file") != 0)
            add_value(d, parts[i].name);
}

/* Points around the corners of a cube, one a class: a line cannot tell them apart, a small network
 * can soon. */
fast_data *test_points(int64_t count, uint64_t stream)
{
    static float x[TEST_POINTS_MAX * FEATURES];
    static int32_t labels[TEST_POINTS_MAX];
    const fast_data_options options = { .count = count,
                                        .rank = 1,
                                        .shape = { FEATURES },
                                        .x = x,
                                        .labels = labels,
                                        .classes = CLASSES };
    fast_data *data = NULL;
    fast_rng rng;

    FAST_ASSERT(count <= TEST_POINTS_MAX);
    fast__rng_init(&rng, 1, FAST_PURPOSE_TEST, stream, 0, 0);
    for (int64_t i = 0; i < count; i++) {
        labels[i] = (int32_t)(i % CLASSES);
        for (int j = 0; j < FEATURES; j++)
            x[i * FEATURES + j] = (float)((j + labels[i]) % CLASSES == 0 ? 1.0 : 0.0) +
                                  (float)fast__rng_below(&rng, 1000) / 1000.0f - 0.5f;
    }
    const fast_err err = fast_data_new(&options, &data);

    FAST_ASSERT(err == FAST_OK);
    return data;
}

fast_data *test_train_points, *test_test_points;

int test_points_begin(void **state)
{
    (void)state;
    test_train_points = test_points(192, 1);
    test_test_points = test_points(64, 2);
    return 0;
}

int test_points_end(void **state)
{
    (void)state;
    fast_data_free(test_train_points);
    fast_data_free(test_test_points);
    return 0;
}

/* The settings of a rule that suit the small job; one that is not here takes its standard ones. */
typedef struct rule_settings {
    const char *rule; /* by name */
    const char *spec; /* as an option */
    double rate;      /* 0: the rule's own */
} rule_settings;

static rule_settings settings_of(const test_row *cell)
{
    static const rule_settings list[] = { { "sgd", "optimizer=sgd", 0.1 },
                                          { "momentum", "optimizer=momentum", 0.05 },
                                          { "nesterov", "optimizer=nesterov", 0.05 },
                                          { "adagrad", "optimizer=adagrad", 0.05 },
                                          { "adadelta", "optimizer=adadelta:eps=1e-3", 1 },
                                          { "rmsprop", "optimizer=rmsprop", 0.005 },
                                          { "adam", "optimizer=adam", 0.02 },
                                          { "adamw", "optimizer=adamw", 0.02 },
                                          { "lars", "optimizer=lars:trust=0.5", 0.05 },
                                          { "lamb", "optimizer=lamb", 0.02 },
                                          { "lion", "optimizer=lion", 0.005 },
                                          { "muon", "optimizer=muon", 0.02 },
                                          { "yellowfin", "optimizer=yellowfin:beta=0.9,window=3", 1 } };
    const char *member = dimensions[TEST_STRATEGY].values[cell->value[TEST_STRATEGY]];
    const char *rule = dimensions[TEST_RULE].values[cell->value[TEST_RULE]];
    rule_settings settings = { rule, NULL, 0 };

    for (size_t i = 0; i < sizeof list / sizeof *list; i++)
        if (strcmp(list[i].rule, rule) == 0)
            settings = list[i];
    /* Where all workers' steps add up, the rate is as many times too high. */
    if (test_member_of(member, "dogwild") || test_is_near(member))
        settings.rate /= 2;
    return settings;
}

static fast_err open_cell(const test_row *cell, const char *const *more, fast_run **out)
{
    static const char *const always[] = {
        "model=mlp:hidden=12", "engine=ref",   "plan=no",    "workers=4",        "batch=4",
        "timeout=60",          "evaluate=end", "prefetch=0", "schedule=constant"
    };
    const char *options[32] = { NULL };
    char text[TEST_DIMENSIONS][NAME_MAX_ + 16];
    int count = 0;

    for (size_t i = 0; i < sizeof always / sizeof *always; i++)
        options[count++] = always[i];
    for (int d = 0; cell && d < TEST_DIMENSIONS; d++) {
        snprintf(text[d], sizeof text[d], "%s=%s", dimensions[d].option,
                 dimensions[d].values[cell->value[d]]);
        options[count++] = text[d];
    }
    for (; *more; more++)
        options[count++] = *more;
    FAST_ASSERT(count < 32);
    return fast_run_open_with(options, NULL, train_data, test_data, out);
}

static void prepare(void)
{
    static const char *const still[] = { "workers=1", "epochs=0", NULL };
    test_dimension *d = dimensions;
    fast_run *run = NULL;

    d[TEST_STRATEGY].option = "strategy";
    list_strategies(&d[TEST_STRATEGY]);
    d[TEST_TOPOLOGY].option = "topology";
    add_value(&d[TEST_TOPOLOGY], "auto");
    list_parts(&d[TEST_TOPOLOGY], "topology");
    d[TEST_RULE].option = "optimizer";
    list_parts(&d[TEST_RULE], "optimizer");
    d[TEST_TRANSPORT].option = "transport";
    list_parts(&d[TEST_TRANSPORT], "transport");
    train_data = test_points(TRAIN, 1);
    test_data = test_points(TEST, 2);
    FAST_ASSERT(open_cell(NULL, still, &run) == FAST_OK && fast_run_train(run) == FAST_OK);
    first_loss = fast_run_result(run)->test_loss;
    fast_run_close(run);
}

const test_dimension *test_matrix(void)
{
    pthread_once(&once, prepare);
    return dimensions;
}

void test_cell_name(const test_row *cell, char text[TEST_CELL_TEXT])
{
    size_t used = 0;

    for (int d = 0; d < TEST_DIMENSIONS; d++)
        used += (size_t)snprintf(text + used, TEST_CELL_TEXT - used, "%s%s=%s", d ? " " : "",
                                 dimensions[d].option, dimensions[d].values[cell->value[d]]);
    FAST_ASSERT(used < TEST_CELL_TEXT);
}

/* Open and train once. */
static test_outcome run_cell(const test_row *cell, bool probe, const char *device,
                             fast_result *result, char why[TEST_CELL_TEXT])
{
    const char *near =
        test_is_near(dimensions[TEST_STRATEGY].values[cell->value[TEST_STRATEGY]]) &&
                strcmp(dimensions[TEST_TRANSPORT].values[cell->value[TEST_TRANSPORT]], "sim") == 0
            ? "cluster=laptop"
            : NULL;
    const rule_settings settings = settings_of(cell);
    char lr[32];
    const char *more[] = { lr,
                           probe ? "steps=1" : "steps=48",
                           device,
                           settings.spec ? settings.spec : near,
                           settings.spec ? near : NULL,
                           NULL };
    fast_run *run = NULL;
    fast_err err;

    snprintf(lr, sizeof lr, settings.rate > 0 ? "lr=%g" : "lr=auto", settings.rate);
    err = open_cell(cell, more, &run);
    if (!err)
        err = fast_run_train(run);
    if (err) {
        snprintf(why, TEST_CELL_TEXT, "%s", fast_error_detail());
        fast_run_close(run);
        if ((err == FAST_EINVAL || err == FAST_ENOTSUP) && strlen(why) > 20)
            return TEST_REFUSED;
        return TEST_FAILED;
    }
    *result = *fast_run_result(run);
    if (!fast_run_is_first(run)) /* another rank evaluates */
        result->test_loss = 0;
    fast_run_close(run);
    return TEST_RAN;
}

test_outcome test_cell(const test_row *cell, bool probe, char why[TEST_CELL_TEXT])
{
    const bool sim =
        strcmp(dimensions[TEST_TRANSPORT].values[cell->value[TEST_TRANSPORT]], "sim") == 0;
    fast_result first = { 0 }, second = { 0 };
    test_outcome outcome = run_cell(cell, probe, "device=host", &first, why);

    if (outcome != TEST_RAN || probe)
        return outcome;
    why[0] = '\0';
    if (strcmp(first.stop, "done") != 0 || !(first.test_loss < 0.995 * first_loss)) {
        snprintf(why, TEST_CELL_TEXT, "stopped: %s, with test loss %g after %g", first.stop,
                 first.test_loss, first_loss);
        return TEST_FAILED;
    }
    if (!sim)
        return TEST_RAN;
    /* On `check` an access to a vector outside a kernel ends the test. */
    outcome = run_cell(cell, false, "device=check", &second, why);
    if (outcome == TEST_RAN &&
        (first.params_hash != second.params_hash || first.time_s != second.time_s)) {
        snprintf(why, TEST_CELL_TEXT, "does not repeat: 0x%016llx, then 0x%016llx on check",
                 (unsigned long long)first.params_hash, (unsigned long long)second.params_hash);
        return TEST_FAILED;
    }
    return outcome;
}
