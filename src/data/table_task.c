/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Classes or regression? The answers decide, unless the task is given:
 *
 *   texts                                     a class each, in sorted order; many texts that
 *                                             hardly repeat (names, dates) are an error
 *   whole numbers from 0 to 999, few of them  a class each, with the number as its place
 *   -1 and 1, or -1, 0 and 1                  classes, in that order
 *   other numbers                             regression
 *
 * Whole numbers are few if there are at most 20 different ones, or 20 rows for each. A text among
 * numbers is an error and not a class: one typing mistake must not make classes of all numbers.
 */
#include "base/memory.h"
#include "base/option.h"
#include "data/category_set.h"
#include "data/make.h"
#include "data/table_fit.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { GUESS_MAX = 1000, FEW = 20 };

/* Properties of all answers. */
typedef struct answer_facts {
    int64_t numbers;              /* answers that are numbers */
    int64_t words;                /* all others */
    const fast_csv_field *a_word; /* the first one that is not a number */
    bool whole;                   /* all numbers are whole */
    double low, top;              /* smallest and largest number */
    int64_t different;            /* different numbers among 0 to GUESS_MAX - 1 */
} answer_facts;

/* Collect the properties. */
static answer_facts find_facts(const fast_table_fit *fit)
{
    answer_facts facts = { .whole = true, .low = INFINITY, .top = -INFINITY };
    bool seen[GUESS_MAX] = { false };
    for (int64_t row = 0; row < fit->view.rows; row++) {
        double value;
        if (fit->use[row] == FAST_USE_NONE)
            continue;
        if (!fast__csv_number(&fit->labels[row], fit->table->decimal, &value)) {
            facts.a_word = facts.words++ == 0 ? &fit->labels[row] : facts.a_word;
            continue;
        }
        facts.numbers++;
        facts.whole = facts.whole && value == floor(value);
        facts.low = fmin(facts.low, value);
        facts.top = fmax(facts.top, value);
        if (facts.whole && value >= 0 && value < GUESS_MAX && !seen[(int)value]) {
            seen[(int)value] = true;
            facts.different++;
        }
    }
    return facts;
}

/* Make classes of the different texts. */
static fast_err make_words(fast_table_fit *fit)
{
    fast_category_set set = { 0 };
    fast_err err = FAST_OK;
    for (int64_t row = 0; row < fit->view.rows && !err && !set.full; row++) {
        if (fit->use[row] != FAST_USE_NONE)
            err = fast__category_put(&set, &fit->labels[row]);
        if (!err && set.full && set.count < FAST_CATEGORIES_MAX)
            err = fast__table_fail(fit->table, &fit->view, fit->table->target, &fit->labels[row],
                                   "longer than the 256 bytes that a class may have");
    }
    if (!err && set.full)
        err = fast__fail(FAST_EFORMAT, "%s has more than %d different labels", fit->view.name,
                         FAST_CLASSES_MAX);
    if (!err)
        err = fast__category_words(&set, false, &fit->table->classes);
    fast__category_fini(&set);
    return err;
}

/* Order of numbers, for qsort(). */
static int compare_numbers(const void *left, const void *right)
{
    const double a = *(const double *)left;
    const double b = *(const double *)right;
    return (a > b) - (a < b);
}

/* Write `count` numbers as names of classes. */
static fast_err name_numbers(const double *values, int64_t count, fast_table_words *out)
{
    enum { DIGITS = 32 };
    char *text;
    const char **at = NULL;
    FAST_TRY(fast__alloc("names of classes", count, DIGITS, &text));
    fast_err err = fast__alloc("names of classes", count, sizeof *at, &at);
    for (int64_t i = 0; i < count && !err; i++) {
        at[i] = text + i * DIGITS;
        fast__real_text(values != NULL ? values[i] : (double)i, text + i * DIGITS, DIGITS);
    }
    if (!err)
        err = fast__table_words_make(count, at, out);
    fast__free(at);
    fast__free(text);
    return err;
}

/* Make classes of the different numbers. */
static fast_err make_values(fast_table_fit *fit)
{
    double *values;
    int64_t count = 0, different = 0;
    FAST_TRY(fast__alloc("labels of a table", fit->view.rows, sizeof *values, &values));
    for (int64_t row = 0; row < fit->view.rows; row++)
        if (fit->use[row] != FAST_USE_NONE &&
            fast__csv_number(&fit->labels[row], fit->table->decimal, &values[count]))
            count++;
    qsort(values, (size_t)count, sizeof *values, compare_numbers);
    for (int64_t i = 0; i < count; i++) {
        if (i == 0 || values[i] != values[different - 1])
            values[different++] = values[i];
    }
    fast_err err = FAST_OK;
    if (different > FAST_CLASSES_MAX)
        err = fast__fail(FAST_EFORMAT, "%s has %lld different labels, at most %d are classes",
                         fit->view.name, (long long)different, FAST_CLASSES_MAX);
    if (!err)
        err = name_numbers(values, different, &fit->table->classes);
    fast__free(values);
    return err;
}

/* Decide in the order of the list above: texts, places, signs, and regression for the rest. A class
 * with one or two rows cannot be learned: a target of such texts is taken for a mistake, since a
 * run on it ends with an accuracy of 0 and no reason. */
fast_err fast__table_fit_task(const fast_table_config *config, fast_table_fit *fit)
{
    fast_table *table = fit->table;
    const answer_facts f = find_facts(fit);
    const bool given = config->task == FAST_TASK_CLASSES;
    if (f.words > 0 && config->task != FAST_TASK_CLASSES &&
        (config->task == FAST_TASK_REGRESSION || f.numbers >= f.words))
        return fast__table_fail(table, &fit->view, table->target, f.a_word,
                                config->task == FAST_TASK_REGRESSION
                                    ? "not a finite number"
                                    : "but most targets are numbers; correct it, or give "
                                      "task=classes");
    /* The place of a class is its number where that is possible, so that labels 0 to 9 stay. */
    const bool places = f.whole && f.low >= 0 && f.top < (given ? FAST_CLASSES_MAX : GUESS_MAX);
    const bool few = f.different <= FEW || f.numbers >= FEW * f.different;
    const bool signs = f.whole && f.low == -1 && f.top <= 1;
    table->regression = config->task == FAST_TASK_REGRESSION ||
                        (!given && f.words == 0 && !(places && few) && !signs);
    table->numbers = !table->regression && f.words == 0;
    if (table->regression)
        return FAST_OK;
    if (f.words > 0) {
        FAST_TRY(make_words(fit));
        const int64_t classes = table->classes.count;
        return given || classes <= FEW || 2 * classes <= f.words
                   ? FAST_OK
                   : fast__fail(FAST_EFORMAT,
                                "%s: the target has %lld different texts in %lld rows, such as "
                                "names or dates, which are no classes; choose another one with "
                                "target=, or give task=classes",
                                fit->view.name, (long long)classes, (long long)f.words);
    }
    if (places)
        return name_numbers(NULL, (int64_t)f.top + 1, &table->classes);
    return make_values(fit);
}
