/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The compatibility matrix of codecs: codec x strategy x direction x transport. Goal: each cell
 * runs, in sim learns and repeats, or is refused with a reason, never anything else. Method: runs
 * of milliseconds on the points of tests/matrix.c, with settings that suit a model of 232
 * parameters. Here every two values of two dimensions occur in a cell (a pairwise cover);
 * `tools/soak matrix` runs every cell.
 *
 *     codec_matrix_test             the cover
 *     codec_matrix_test all FILE    every cell; FILE receives a line for each, with tabs between:
 *                                   strategy, codec, direction, transport, outcome, reason
 */
#include "base/memory.h"
#include "codec/codec.h"
#include "fast/run.h"
#include "matrix.h"
#include "strategy/strategy.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

enum { STRATEGY, CODEC, WAY, TRANSPORT, DIMENSIONS };
enum { UP, DOWN, BOTH, WAYS };
enum { VALUES_MAX = 40, ROWS_MAX = 4000, TEXT = 320, FILE_MAX = 1 << 22, TRAIN = 192, TEST = 64 };

#ifdef FAST_SANITIZED
enum { STRIDE = 16 }; /* every STRIDE-th cell is run */
#else
enum { STRIDE = 1 };
#endif

static const char *const ways[] = { "up", "down", "both" };
static const char *const transports[] = { "sim", "threads" };
static const char *names[VALUES_MAX]; /* of codecs, and of stages after a plus */
static int sizes[DIMENSIONS];
static fast_data *train_data, *test_data;
static double first_loss;

/* Options with which a codec learns on so small a model; others take their defaults and 0.1. */
typedef struct setting {
    const char *codec; /* by name */
    const char *spec;  /* as it is given */
    double rate;       /* of plain SGD */
} setting;

static setting setting_of(int codec)
{
    static const setting list[] = {
        { "topk", "topk:ratio=0.2", 0.1 },
        { "randk", "randk:ratio=0.3", 0.02 },
        { "dgc", "dgc:ratio=0.2,warmup=0", 0.02 },
        { "structured", "structured:ratio=0.3", 0.02 },
        { "adaptive", "adaptive:ratio=0.2", 0.1 },
        { "threshold", "threshold:tau=0.02", 0.1 },
        { "significant", "significant:factor=1", 0.1 },
        { "vote", "vote", 0.005 },
    };
    setting s = { names[codec], names[codec], 0.1 };

    for (size_t i = 0; i < sizeof list / sizeof *list; i++)
        if (strcmp(list[i].codec, names[codec]) == 0)
            s = list[i];
    return s;
}

static fast_err open_cell(const int cell[DIMENSIONS], const char *const *more, fast_run **out)
{
    const char *options[24] = { "model=mlp:hidden=12", "engine=ref", "plan=no",
                                "workers=4",           "batch=4",    "timeout=60",
                                "evaluate=end",        "prefetch=0", "schedule=constant",
                                "optimizer=sgd" };
    char text[4][TEXT];
    int count = 10;

    if (cell) {
        const fast_strategy *strategy = fast__strategies[cell[STRATEGY]];
        const setting s = setting_of(cell[CODEC]);
        const bool near = strategy->shares_memory && cell[TRANSPORT] == 0;

        snprintf(text[0], TEXT, "strategy=%s", strategy->name);
        snprintf(text[1], TEXT, "transport=%s", transports[cell[TRANSPORT]]);
        snprintf(text[2], TEXT, "codec=%s", cell[WAY] == DOWN ? "none" : s.spec);
        snprintf(text[3], TEXT, "codec_down=%s", cell[WAY] == UP ? "none" : s.spec);
        for (int i = 0; i < 4; i++)
            options[count++] = text[i];
        if (near)
            options[count++] = "cluster=laptop";
    }
    for (; *more; more++)
        options[count++] = *more;
    return fast_run_open_with(options, NULL, train_data, test_data, out);
}

static test_outcome run_once(const int cell[DIMENSIONS], const char *device, fast_result *result,
                             char why[TEXT])
{
    const fast_strategy *strategy = fast__strategies[cell[STRATEGY]];
    const bool sums = strategy->shares_memory || strcmp(strategy->name, "dogwild") == 0;
    char lr[32];
    fast_run *run = NULL;

    snprintf(lr, sizeof lr, "lr=%g", setting_of(cell[CODEC]).rate / (sums ? 2 : 1));
    fast_err err = open_cell(cell, (const char *const[]){ lr, "steps=64", device, NULL }, &run);
    if (!err)
        err = fast_run_train(run);
    if (err)
        snprintf(why, TEXT, "%s", fast_error_detail());
    else
        *result = *fast_run_result(run);
    fast_run_close(run);
    if (err)
        return (err == FAST_EINVAL || err == FAST_ENOTSUP) && strlen(why) > 20 ? TEST_REFUSED
                                                                               : TEST_FAILED;
    return TEST_RAN;
}

/* A cell: it ran and learned, and in sim it did the same with its vectors on the device `check`; or
 * it was refused. */
static test_outcome run_cell(const int cell[DIMENSIONS], char why[TEXT])
{
    fast_result first = { 0 }, second = { 0 };
    test_outcome outcome = run_once(cell, "device=host", &first, why);

    if (outcome != TEST_RAN)
        return outcome;
    why[0] = '\0';
    /* On threads late updates are as late as the machine is busy: learning is checked in sim. */
    const double most = cell[TRANSPORT] == 0 ? 0.995 * first_loss : 1e6;
    if (strcmp(first.stop, "done") != 0 || !(first.test_loss < most)) {
        snprintf(why, TEXT, "stopped: %s, with test loss %g after %g", first.stop, first.test_loss,
                 first_loss);
        return TEST_FAILED;
    }
    if (cell[TRANSPORT] != 0)
        return TEST_RAN;
    outcome = run_once(cell, "device=check", &second, why);
    if (outcome == TEST_RAN && first.params_hash != second.params_hash) {
        snprintf(why, TEXT, "does not repeat on the device check");
        return TEST_FAILED;
    }
    return outcome;
}

static void name_cell(const int cell[DIMENSIONS], char text[TEXT])
{
    snprintf(text, TEXT, "%s\t%s\t%s\t%s", fast__strategies[cell[STRATEGY]]->name,
             names[cell[CODEC]], ways[cell[WAY]], transports[cell[TRANSPORT]]);
}

/* Everything goes with everything, or says why not. */
static bool always(const void *ctx, int a, int va, int b, int vb)
{
    (void)ctx;
    return a < b && va >= 0 && vb >= 0;
}

static void every_pair_runs_or_is_refused(void **state)
{
    static test_row rows[ROWS_MAX];
    const int count = test_cover(sizes, DIMENSIONS, always, NULL, rows, ROWS_MAX);
    int failed = 0, ran = 0;

    (void)state;
    assert_true(count >= sizes[STRATEGY] * sizes[CODEC]);
    for (int r = 0; r < count; r += STRIDE) {
        char why[TEXT] = "", name[TEXT];
        const test_outcome outcome = run_cell(rows[r].value, why);

        ran += outcome == TEST_RAN;
        if (outcome != TEST_FAILED)
            continue;
        name_cell(rows[r].value, name);
        print_error("%s: %s\n", name, why);
        failed++;
    }
    print_message("%d cells of a cover, %d ran\n", count, ran);
    assert_int_equal(failed, 0);
    assert_true(ran > count / STRIDE / 3);
}

/* Every strategy that sends over links takes some codec: none is left out by accident. Three have
 * none: workers of broadcast forward the gradients of others as floats, those of zero send slices,
 * those of strads the few blocks that are updated. */
static void every_strategy_that_sends_takes_codecs(void **state)
{
    (void)state;
    for (int s = 0; s < sizes[STRATEGY]; s++) {
        const fast_strategy *strategy = fast__strategies[s];
        const bool mute =
            strategy->shares_memory || !strategy->sends ||
            strcmp(strategy->sends, "nothing") == 0 || strcmp(strategy->name, "broadcast") == 0 ||
            strcmp(strategy->name, "zero") == 0 || strcmp(strategy->name, "strads") == 0;
        const int cell[DIMENSIONS] = { s, 0, UP, 0 }; /* the first codec is of half floats */
        char why[TEXT] = "";
        const test_outcome outcome = run_cell(cell, why);

        if (outcome == TEST_FAILED || (outcome == TEST_REFUSED && !mute))
            fail_msg("%s with %s: %s", strategy->name, names[0], why);
    }
}

static void document_is_of_this_build(void **state)
{
    static char text[FILE_MAX];
    FILE *file = fopen(FAST_SOURCE_FOLDER "/results/matrix.md", "r");

    (void)state;
    assert_non_null(file);
    const size_t size = fread(text, 1, sizeof text - 1, file);
    fclose(file);
    text[size] = '\0';
    const char *section = strstr(text, "## Codecs");
    assert_non_null(section);
    for (int i = 0; i < sizes[CODEC]; i++) {
        char quoted[64];

        snprintf(quoted, sizeof quoted, "`%s`", names[i]);
        if (!strstr(section, quoted))
            fail_msg("results/matrix.md is older than codec %s; make it again: tools/soak matrix",
                     names[i]);
    }
}

static int run_all(const char *path)
{
    FILE *file = fopen(path, "w");
    int cell[DIMENSIONS], failed = 0;

    if (!file)
        return 2;
    for (int i = 0; i < sizes[STRATEGY] * sizes[CODEC] * WAYS * sizes[TRANSPORT]; i++) {
        static const char *const words[] = { "ran", "refused", "failed" };
        char why[TEXT] = "", name[TEXT];

        cell[TRANSPORT] = i % sizes[TRANSPORT];
        cell[WAY] = i / sizes[TRANSPORT] % WAYS;
        cell[CODEC] = i / sizes[TRANSPORT] / WAYS % sizes[CODEC];
        cell[STRATEGY] = i / sizes[TRANSPORT] / WAYS / sizes[CODEC];
        const test_outcome outcome = run_cell(cell, why);
        name_cell(cell, name);
        fprintf(file, "%s\t%s\t%s\n", name, words[outcome], why);
        if (outcome == TEST_FAILED)
            fprintf(stderr, "%s: %s\n", name, why);
        failed += outcome == TEST_FAILED;
    }
    return fclose(file) ? 2 : failed > 0;
}

static void prepare(void)
{
    static const char *const still[] = { "workers=1", "epochs=0", NULL };
    static char stages[8][32];
    fast_run *run = NULL;
    int count = 0;

    for (int i = 0; fast__codecs[i]; i++)
        names[count++] = fast__codecs[i]->name;
    for (int i = 0; fast__stages[i]; i++) {
        snprintf(stages[i], sizeof stages[i], "%s", fast__stages[i]->name);
        names[count++] = stages[i];
    }
    sizes[CODEC] = count;
    while (fast__strategies[sizes[STRATEGY]])
        sizes[STRATEGY]++;
    sizes[WAY] = WAYS;
    sizes[TRANSPORT] = 2;
    train_data = test_points(TRAIN, 1);
    test_data = test_points(TEST, 2);
    FAST_ASSERT(open_cell(NULL, still, &run) == FAST_OK && fast_run_train(run) == FAST_OK);
    first_loss = fast_run_result(run)->test_loss;
    fast_run_close(run);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_pair_runs_or_is_refused),
        cmocka_unit_test(every_strategy_that_sends_takes_codecs),
        cmocka_unit_test(document_is_of_this_build),
    };

    prepare();
    const int result = argc == 3 && strcmp(argv[1], "all") == 0
                           ? run_all(argv[2])
                           : cmocka_run_group_tests(tests, NULL, NULL);
    fast_data_free(train_data);
    fast_data_free(test_data);
    return result;
}
