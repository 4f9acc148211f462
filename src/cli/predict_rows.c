/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Predictions as CSV, JSON lines or NPY, batch by batch.
 *
 *   CSV    sample,class,probability              the most probable class
 *          sample,class_1,probability_1,...      --top K
 *          sample,setosa,versicolor,...          --values probabilities, or logits
 *          sample,file,class,probability         pictures
 *          sample,value                          regression; value_1, value_2 of several outputs
 *   JSON   {"sample": 0, "class": "setosa", "probability": 0.98}, one object a line
 *   NPY    int64 [N] classes, or float32 [N, K] probabilities, logits or values
 *
 * Models that answer at each position have a column `position` after `sample`, and one more
 * dimension.
 * Samples are counted from 0 in the order of the source. Numbers have the digits that a float needs
 * to be read back to the bit.
 */
#include "predict_rows.h"

#include "cli.h"
#include "cmd_runs.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { NPY_HEADER = 128, CLASS_TEXT = 32 };

/* The name of a class, or its number. */
static const char *class_text(const cli_rows *rows, int64_t i, char number[CLASS_TEXT])
{
    const char *name = fast_predictor_class(rows->of, i);

    snprintf(number, CLASS_TEXT, "%lld", (long long)i);
    return name ? name : number;
}

/* A field of a CSV file: quoted where a reader would split it. Names are of the model's file or of
 * files: a terminal gets them without controls. */
static void put_field(FILE *out, const char *text)
{
    char safe[CLI_SAFE_MAX];

    if (isatty(fileno(out)))
        text = cli_text_safe(text, CLI_SAFE_MAX, safe);
    if (!text[strcspn(text, ",\"\r\n")]) {
        fputs(text, out);
        return;
    }
    fputc('"', out);
    for (; *text; text++)
        fprintf(out, *text == '"' ? "\"%c" : "%c", *text);
    fputc('"', out);
}

/* True if rows have the model's values, not its most probable classes. */
static bool has_values(const cli_rows *rows)
{
    return rows->size.classes == 0 || rows->values != ROWS_CLASS;
}

/* The first line of a CSV file. */
static void put_names(const cli_rows *rows)
{
    char number[CLASS_TEXT];

    fprintf(rows->out, "sample%s%s", rows->named ? ",file" : "",
            rows->size.positions > 1 ? ",position" : "");
    if (rows->size.classes == 0)
        for (int64_t k = 0; k < rows->size.outputs; k++)
            fprintf(rows->out, rows->size.outputs > 1 ? ",value_%lld" : ",value", (long long)k + 1);
    else if (has_values(rows))
        for (int64_t k = 0; k < rows->size.outputs; k++) {
            fputc(',', rows->out);
            put_field(rows->out, class_text(rows, k, number));
        }
    else
        for (int64_t k = 0; k < rows->top; k++)
            fprintf(rows->out,
                    rows->top > 1 ? ",class_%lld,probability_%lld" : ",class,probability",
                    (long long)k + 1, (long long)k + 1);
    fputc('\n', rows->out);
}

/* One answer of the model. */
typedef struct rows_answer {
    int64_t sample;             /* from 0 */
    int64_t position;           /* from 0 */
    const float *values;        /* logits, probabilities or values, as they are written */
    const float *probabilities; /* of the classes; NULL: regression */
    const int64_t *best;        /* [top]: the most probable classes */
} rows_answer;

/* Set best[0..top) to the indices of the largest values, the first among equals first. Each value
 * is inserted where it belongs: cheap, because few displace one of the best. */
static void find_top(const float *values, int64_t count, int64_t top, int64_t *best)
{
    int64_t found = 0;

    for (int64_t i = 0; i < count; i++) {
        int64_t at = found < top ? found++ : top;

        for (; at > 0 && values[i] > values[best[at - 1]]; at--)
            if (at < top)
                best[at] = best[at - 1];
        if (at < top)
            best[at] = i;
    }
}

/* Write an answer as a line of CSV. */
static void put_csv(const cli_rows *rows, const rows_answer *a)
{
    char number[CLASS_TEXT];

    fprintf(rows->out, "%lld", (long long)a->sample);
    if (rows->named) {
        fputc(',', rows->out);
        put_field(rows->out, fast_samples_name(rows->from, a->sample));
    }
    if (rows->size.positions > 1)
        fprintf(rows->out, ",%lld", (long long)a->position);
    if (has_values(rows))
        for (int64_t k = 0; k < rows->size.outputs; k++)
            fprintf(rows->out, ",%.9g", (double)a->values[k]);
    else
        for (int64_t k = 0; k < rows->top; k++) {
            fputc(',', rows->out);
            put_field(rows->out, class_text(rows, a->best[k], number));
            fprintf(rows->out, ",%.9g", (double)a->probabilities[a->best[k]]);
        }
    fputc('\n', rows->out);
}

/* A number with the digits that a float needs; null if it is not finite. */
static json_t *real(float value)
{
    char text[32];

    snprintf(text, sizeof text, "%.9g", (double)value);
    json_t *number = json_real(strtod(text, NULL));
    return number ? number : json_null();
}

/* Set a text; bytes of a file's name that are not UTF-8 are replaced. */
static void set_text(json_t *object, const char *key, const char *text)
{
    const size_t size = fast_text_utf8(text, NULL, 0) + 1;
    char *clean = malloc(size);

    if (clean)
        fast_text_utf8(text, clean, size);
    json_object_set_new(object, key, json_string(clean ? clean : ""));
    free(clean);
}

/* Set the class and its probability. */
static void set_class(const cli_rows *rows, const rows_answer *a, int64_t k, json_t *object)
{
    char number[CLASS_TEXT];
    const char *name = class_text(rows, a->best[k], number);

    json_object_set_new(object, "class",
                        name == number ? json_integer(a->best[k]) : json_string(name));
    json_object_set_new(object, "probability", real(a->probabilities[a->best[k]]));
}

/* Values by the names of classes, or as a list. */
static json_t *values_of(const cli_rows *rows, const rows_answer *a)
{
    char number[CLASS_TEXT];
    json_t *tree = rows->size.classes > 0 ? json_object() : json_array();

    for (int64_t k = 0; k < rows->size.outputs; k++)
        if (rows->size.classes > 0)
            json_object_set_new(tree, class_text(rows, k, number), real(a->values[k]));
        else
            json_array_append_new(tree, real(a->values[k]));
    return tree;
}

/* Write an answer as a line of JSON. Returns false without memory. */
static bool put_json(const cli_rows *rows, const rows_answer *a)
{
    json_t *object = json_object();

    json_object_set_new(object, "sample", json_integer(a->sample));
    if (rows->named)
        set_text(object, "file", fast_samples_name(rows->from, a->sample));
    if (rows->size.positions > 1)
        json_object_set_new(object, "position", json_integer(a->position));
    if (rows->size.classes > 0)
        set_class(rows, a, 0, object);
    if (!has_values(rows) && rows->top > 1) {
        json_t *list = json_array();

        for (int64_t k = 0; k < rows->top; k++) {
            json_t *entry = json_object();

            set_class(rows, a, k, entry);
            json_array_append_new(list, entry);
        }
        json_object_set_new(object, "top", list);
    } else if (rows->size.classes == 0 && rows->size.outputs == 1) {
        json_object_set_new(object, "value", real(a->values[0]));
    } else if (has_values(rows)) {
        json_object_set_new(object,
                            rows->size.classes == 0       ? "values"
                            : rows->values == ROWS_LOGITS ? "logits"
                                                          : "probabilities",
                            values_of(rows, a));
    }
    const bool fine = object && json_dumpf(object, rows->out, JSON_REAL_PRECISION(9)) == 0;
    json_decref(object);
    fputc('\n', rows->out);
    return fine;
}

/* Write an answer as elements of an array. */
static void put_npy(const cli_rows *rows, const rows_answer *a)
{
    if (has_values(rows))
        fwrite(a->values, sizeof(float), (size_t)rows->size.outputs, rows->out);
    else
        fwrite(a->best, sizeof(int64_t), (size_t)rows->top, rows->out);
}

/* Write the header of an NPY file: magic, version 1.0, length, a dictionary, spaces. */
static void put_npy_header(const cli_rows *rows)
{
    char header[NPY_HEADER + 1], shape[64] = "";
    const int64_t last = has_values(rows) ? rows->size.outputs : rows->top;

    if (rows->size.positions > 1)
        snprintf(shape, sizeof shape, " %lld,", (long long)rows->size.positions);
    if (has_values(rows) || rows->top > 1)
        snprintf(shape + strlen(shape), sizeof shape - strlen(shape), " %lld,", (long long)last);
    memset(header, ' ', NPY_HEADER);
    memcpy(header, "\x93NUMPY\x01\x00\x76\x00", 10);
    const int used = snprintf(header + 10, NPY_HEADER - 10,
                              "{'descr': '%s', 'fortran_order': False, 'shape': (%lld,%s), }",
                              has_values(rows) ? "<f4" : "<i8",
                              (long long)(rows->rows / rows->size.positions), shape);
    header[10 + used] = ' ';
    header[NPY_HEADER - 1] = '\n';
    fwrite(header, 1, NPY_HEADER, rows->out);
}

/* Write the part before the rows. The first batch tells whether samples have names. */
static void begin(cli_rows *rows, const fast_prediction *batch)
{
    rows->named = batch->count > 0 && fast_samples_name(rows->from, batch->first) != NULL;
    if (rows->format == ROWS_CSV)
        put_names(rows);
    else if (rows->format == ROWS_NPY)
        put_npy_header(rows);
}

int cli_rows_add(cli_rows *rows, const fast_prediction *batch)
{
    const int64_t K = rows->size.outputs, positions = rows->size.positions;
    const bool raw = rows->values == ROWS_LOGITS || !batch->probabilities;
    int64_t *best = malloc((size_t)rows->top * sizeof *best);
    bool fine = best != NULL;

    if (batch->first == 0)
        begin(rows, batch);
    for (int64_t i = 0; fine && i < batch->count * positions; i++) {
        const rows_answer answer = { .sample = batch->first + i / positions,
                                     .position = i % positions,
                                     .values =
                                         (raw ? batch->outputs : batch->probabilities) + i * K,
                                     .probabilities =
                                         batch->probabilities ? batch->probabilities + i * K : NULL,
                                     .best = best };
        if (answer.probabilities)
            find_top(answer.probabilities, K, rows->top, best);
        if (rows->format == ROWS_CSV)
            put_csv(rows, &answer);
        else if (rows->format == ROWS_NPY)
            put_npy(rows, &answer);
        else
            fine = put_json(rows, &answer);
        rows->rows++;
    }
    free(best);
    fflush(rows->out);
    return fine ? CLI_DONE : cli_fail(CLI_FAILED, "out of memory");
}

int cli_rows_end(cli_rows *rows)
{
    if (rows->format == ROWS_NPY) {
        if (fseek(rows->out, 0, SEEK_SET) != 0)
            return cli_fail(CLI_FAILED, "cannot write the header of an NPY file");
        put_npy_header(rows);
    }
    return CLI_DONE;
}
