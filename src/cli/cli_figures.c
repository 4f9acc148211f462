/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Figures of a model on its test set, for people: one line after training, on demand the classes
 * and the confusion matrix. They are read from JSON, so that a run that just ended and one of the
 * store look alike. The store may be of another program: whatever is not a number is "-".
 *
 *   Classes
 *     class    rows  predicted  precision  recall      F1     AUC
 *         0      50         48     0.9375  0.9000  0.9184  0.9921
 *
 *   Confusion matrix: rows are the class, columns the prediction
 *               0     1
 *         0    45     5
 */
#include "cli_figures.h"
#include "cmd_runs.h"

#include <math.h>
#include <string.h>

enum { CELL_MIN = 6, NAME_MAX_WIDTH = 20, CLASSES_SHOWN = 100 };

/* The number of a key; NAN if it has none. */
static double number_of(const json_t *object, const char *key)
{
    const json_t *value = json_object_get(object, key);

    return json_is_number(value) ? json_number_value(value) : NAN;
}

/* Write ", name 0.1234"; nothing if the figure is not defined. */
static void put_figure(const json_t *figures, const char *key, const char *name, bool *first,
                       FILE *out)
{
    const double value = number_of(figures, key);

    if (!isfinite(value))
        return;
    fprintf(out, "%s%s %.4g", *first ? "" : ", ", name, value);
    *first = false;
}

void cli_figures_line(const json_t *figures, FILE *out)
{
    static const struct {
        const char *key, *name;
    } rows[] = { { "f1", "macro F1" },   { "precision", "precision" },
                 { "recall", "recall" }, { "auc", "AUC" },
                 { "mae", "MAE" },       { "rmse", "RMSE" },
                 { "r2", "R2" } };
    bool first = true;

    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        put_figure(figures, rows[i].key, rows[i].name, &first, out);
}

/* Write a figure of a class, right-aligned; "-" if it is not defined. */
static void put_cell(const json_t *row, const char *key, int width, FILE *out)
{
    const double value = number_of(row, key);

    if (isfinite(value))
        fprintf(out, "  %*.4f", width, value);
    else
        fprintf(out, "  %*s", width, "-");
}

/* The name of a class, at most `width` columns, or its number. */
static const char *class_text(const json_t *classes, size_t i, int width, char text[CLI_SAFE_MAX])
{
    const char *name = json_string_value(json_object_get(json_array_get(classes, i), "name"));

    if (name)
        return cli_text_safe(name, width, text);
    snprintf(text, CLI_SAFE_MAX, "%zu", i);
    return text;
}

/* The columns of the longest name of a class, from 5 to 20. */
static int class_width(const json_t *classes)
{
    char text[CLI_SAFE_MAX];
    int width = 5;

    for (size_t i = 0; i < json_array_size(classes) && i < CLASSES_SHOWN; i++) {
        const int length = (int)strlen(class_text(classes, i, NAME_MAX_WIDTH, text));
        width = length > width ? length : width;
    }
    return width;
}

/* The table of the classes. */
static void put_classes(const json_t *classes, cli_page *page)
{
    const int width = class_width(classes);
    const json_t *row;
    char name[CLI_SAFE_MAX];
    size_t i;

    cli_page_title(page, "Classes");
    fprintf(page->out, "  %*s  %8s  %9s  %9s  %7s  %7s  %7s\n", width, "class", "rows", "predicted",
            "precision", "recall", "F1", "AUC");
    json_array_foreach(classes, i, row)
    {
        if (i == CLASSES_SHOWN) {
            fprintf(page->out, "  and %zu more: --json has them\n", json_array_size(classes) - i);
            break;
        }
        fprintf(page->out, "  %*s  %8.0f  %9.0f", width,
                class_text(classes, i, NAME_MAX_WIDTH, name), number_of(row, "actual"),
                number_of(row, "predicted"));
        put_cell(row, "precision", 9, page->out);
        put_cell(row, "recall", 7, page->out);
        put_cell(row, "f1", 7, page->out);
        put_cell(row, "auc", 7, page->out);
        fputc('\n', page->out);
    }
}

/* Columns of a matrix's cell: as wide as its largest number, and a space. */
static int cell_width(const json_t *matrix)
{
    const json_t *row, *cell;
    double largest = 0;
    size_t i, j;

    json_array_foreach(matrix, i, row) json_array_foreach(row, j, cell) largest =
        fmax(largest, json_number_value(cell));
    const int width = snprintf(NULL, 0, "%.0f", largest) + 1;
    return width > CELL_MIN ? width : CELL_MIN;
}

/* The confusion matrix, if it is not wider than the page. Names of columns are cut to a cell. */
static void put_matrix(const json_t *matrix, const json_t *classes, cli_page *page)
{
    const int width = cell_width(matrix), label = class_width(classes) + 2;
    const size_t count = json_array_size(matrix);
    const json_t *row, *cell;
    char name[CLI_SAFE_MAX];
    size_t i, j;

    cli_page_title(page, "Confusion matrix: rows are the class, columns the prediction");
    if ((size_t)(page->width - label) / (size_t)width < count) {
        fprintf(page->out, "  of %zu classes, wider than this page: --json has it\n", count);
        return;
    }
    fprintf(page->out, "%*s", label, "");
    for (j = 0; j < count; j++)
        fprintf(page->out, "%*s", width, class_text(classes, j, width - 1, name));
    fputc('\n', page->out);
    json_array_foreach(matrix, i, row)
    {
        fprintf(page->out, "%*s", label, class_text(classes, i, NAME_MAX_WIDTH, name));
        json_array_foreach(row, j, cell)
            fprintf(page->out, "%*.0f", width, json_number_value(cell));
        fputc('\n', page->out);
    }
}

void cli_figures_tables(const json_t *figures, cli_page *page)
{
    const json_t *classes = json_object_get(figures, "by_class");
    const json_t *matrix = json_object_get(figures, "confusion");

    if (json_array_size(classes) > 0)
        put_classes(classes, page);
    if (json_array_size(matrix) > 0)
        put_matrix(matrix, classes, page);
}
