/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `fast predict MODEL DATA` and `fast evaluate MODEL DATA`: a saved model on new data.
 *
 *   fast predict iris.safetensors new.csv > classes.csv
 *   fast predict lenet.safetensors x.npy --values probabilities --out p.npy
 *   fast predict gpt.safetensors --prompt "Once upon" --length 400
 *   fast evaluate iris.safetensors test.csv
 *
 * Predictions go to standard output or to --out, which is written beside the file and renamed at
 * the end: a failure leaves the old file. Talk goes to standard error. A language model continues a
 * prompt: --prompt, or the text of a file or of standard input.
 *
 * Exit codes: 0; 1 if output cannot be written; 2 if a flag, the model or the data are wrong.
 */
#include "cli_json.h"
#include "cli_page.h"
#include "cli_tables.h"
#include "cmd_runs.h"
#include "predict_rows.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { PATH_SIZE = 4096, PROMPT_MAX = 1 << 20, CLASSES_SHOWN = 40, MATRIX_SHOWN = 16 };

/* One command line, read. */
typedef struct predict_line {
    const char *model_file;         /* first word */
    const char *data;               /* second word; or NULL */
    const char *out;                /* of --out; or NULL */
    cli_rows rows;                  /* format, values, top */
    fast_predictor_options options; /* of the model */
    fast_generate_options text;     /* of generated text */
    bool json;                      /* evaluate: print an object */
} predict_line;

/* Read a number from `min` on. A usage error for anything else. */
static int read_number(const fast_option *option, const char *value, double *out)
{
    char *end = NULL, flag[CLI_FLAG_MAX];

    *out = strtod(value, &end);
    if (end != value && !*end && isfinite(*out) && *out >= option->min &&
        (option->type == FAST_OPTION_REAL || *out == floor(*out)) && *out <= option->max)
        return CLI_DONE;
    cli_flag_name(option, flag);
    return cli_fail(CLI_USAGE, "%s takes a %snumber from %g to %g, not \"%.60s\"", flag,
                    option->type == FAST_OPTION_INT ? "whole " : "", option->min, option->max,
                    value);
}

/* Read one of "a|b|c" as its index. A usage error names the choices. */
static int read_choice(const fast_option *option, const char *value, int *out)
{
    const char *at = option->choices;
    char flag[CLI_FLAG_MAX];

    for (int i = 0; *at; i++) {
        const size_t length = strcspn(at, "|");

        if (strlen(value) == length && strncmp(at, value, length) == 0) {
            *out = i;
            return CLI_DONE;
        }
        at += length + (at[length] == '|');
    }
    cli_flag_name(option, flag);
    return cli_fail(CLI_USAGE, "%s is one of %s, not \"%.60s\"", flag, option->choices, value);
}

/* Take a flag with a number. */
static int set_number(predict_line *line, const fast_option *option, const char *value)
{
    double number = 0;
    const int code = read_number(option, value, &number);

    if (strcmp(option->name, "top") == 0)
        line->rows.top = (int64_t)number;
    else if (strcmp(option->name, "batch") == 0)
        line->options.batch = (int64_t)number;
    else if (strcmp(option->name, "length") == 0)
        line->text.length = (int64_t)number;
    else if (strcmp(option->name, "temperature") == 0)
        line->text.temperature = number;
    else if (strcmp(option->name, "top_k") == 0)
        line->text.top_k = (int64_t)number;
    else
        line->text.seed = (int64_t)number;
    return code;
}

/* Take a flag, or a word: the model, then the data. */
static int set_flag(void *ctx, const fast_option *option, const char *value)
{
    predict_line *line = ctx;
    int choice = 0, code = CLI_DONE;

    if (!option && line->data)
        return cli_fail(CLI_USAGE, "one model and one source of data, not \"%.60s\" too", value);
    if (!option && !line->model_file)
        line->model_file = value;
    else if (!option)
        line->data = value;
    else if (option->type == FAST_OPTION_BOOL)
        line->json = strcmp(value, "yes") == 0;
    else if (option->type == FAST_OPTION_INT || option->type == FAST_OPTION_REAL)
        return set_number(line, option, value);
    else if (option->type == FAST_OPTION_CHOICE) {
        code = read_choice(option, value, &choice);
        if (strcmp(option->name, "format") == 0)
            line->rows.format = (rows_format)choice;
        else
            line->rows.values = (rows_values)choice;
    } else if (strcmp(option->name, "out") == 0)
        line->out = value;
    else if (strcmp(option->name, "prompt") == 0)
        line->text.prompt = value;
    else if (strcmp(option->name, "model") == 0)
        line->options.model = value;
    else if (strcmp(option->name, "data") == 0)
        line->options.data = value;
    else
        line->options.engine = value;
    return code;
}

/* The format that the name of --out tells; CSV for anything else. */
static int choose_format(predict_line *line)
{
    const char *dot = line->out ? strrchr(line->out, '.') : NULL;

    if (line->rows.format == ROWS_AUTO)
        line->rows.format = dot && strcmp(dot, ".npy") == 0 ? ROWS_NPY
                            : dot && (strcmp(dot, ".json") == 0 || strcmp(dot, ".jsonl") == 0)
                                ? ROWS_JSON
                                : ROWS_CSV;
    if (line->rows.format == ROWS_NPY && !line->out)
        return cli_fail(CLI_USAGE,
                        "an NPY file begins with its length, so it needs a file: --out FILE.npy");
    return CLI_DONE;
}

/* Open --out under a name of its own, or take standard output. */
static int open_out(const predict_line *line, char temporary[PATH_SIZE], FILE **out)
{
    if (!line->out) {
        *out = stdout;
        return CLI_DONE;
    }
    if (snprintf(temporary, PATH_SIZE, "%s.tmp", line->out) >= PATH_SIZE)
        return cli_fail(CLI_USAGE, "--out %.60s... is too long", line->out);
    *out = fopen(temporary, "wb");
    return *out ? CLI_DONE : cli_fail(CLI_USAGE, "--out %s: %s", line->out, strerror(errno));
}

/* Close --out: rename it where all is well, else remove it. */
static int close_out(const predict_line *line, const char *temporary, FILE *out, int code)
{
    if (!line->out)
        return code;
    const bool written = !ferror(out);
    if (fclose(out) != 0 || !written)
        code = code ? code : cli_fail(CLI_FAILED, "cannot write %s", line->out);
    if (code == CLI_DONE && rename(temporary, line->out) != 0)
        code = cli_fail(CLI_FAILED, "cannot write %s: %s", line->out, strerror(errno));
    if (code != CLI_DONE)
        remove(temporary);
    return code;
}

/* Predict every sample of the source. */
static int predict_samples(const predict_line *line, fast_predictor *predictor, FILE *out)
{
    const fast_predictor_sizes *sizes = fast_predictor_get_sizes(predictor);
    cli_rows rows = line->rows;
    fast_samples *samples = NULL;
    fast_prediction batch;
    fast_err err = fast_samples_open(predictor, line->data, false, &samples);
    int code = CLI_DONE;

    if (err)
        return cli_fail_err(err);
    rows.out = out;
    rows.of = predictor;
    rows.size = *sizes;
    rows.top = rows.top > sizes->outputs ? sizes->outputs : rows.top;
    rows.from = samples;
    do {
        err = fast_samples_next(samples, &batch);
        if (!err)
            code = cli_rows_add(&rows, &batch);
    } while (!err && code == CLI_DONE && batch.count > 0 && !ferror(out));
    if (!err && code == CLI_DONE)
        code = cli_rows_end(&rows);
    fast_samples_close(samples);
    return err ? cli_fail_err(err) : code;
}

/* Read a prompt from a file or from standard input; at most PROMPT_MAX bytes of its end matter. */
static int read_prompt(const char *path, char **out)
{
    FILE *file = strcmp(path, "-") == 0 ? stdin : fopen(path, "rb");
    char *text = file ? malloc(2 * PROMPT_MAX + 1) : NULL;
    size_t used = 0, got;

    if (!file)
        return cli_fail(CLI_USAGE, "cannot read \"%s\": %s", path, strerror(errno));
    while (text && (got = fread(text + used, 1, 2 * PROMPT_MAX - used, file)) > 0) {
        used += got;
        if (used == 2 * PROMPT_MAX) {
            memmove(text, text + PROMPT_MAX, PROMPT_MAX);
            used = PROMPT_MAX;
        }
    }
    const bool failed = ferror(file) != 0;
    if (file != stdin)
        fclose(file);
    if (!text || failed) {
        free(text);
        return cli_fail(CLI_FAILED, "cannot read \"%s\"", path);
    }
    text[used] = '\0';
    *out = text;
    return CLI_DONE;
}

/* A text that is generated. */
typedef struct predict_text {
    FILE *out;          /* where it goes */
    const char *prompt; /* not written yet; NULL: it was */
} predict_text;

/* Write a generated character at once: a reader wants to see the text grow. The prompt comes before
 * the first one, so that a prompt that is refused leaves no output. */
static bool put_character(void *ctx, char character)
{
    predict_text *text = ctx;

    if (text->prompt)
        fputs(text->prompt, text->out);
    text->prompt = NULL;
    /* The alphabet is of the model's file: it sends no controls to a terminal. */
    const bool control =
        ((unsigned char)character < ' ' && character != '\n' && character != '\t') ||
        character == 0x7f;
    if (control && isatty(fileno(text->out)))
        character = '?';
    return fputc(character, text->out) != EOF && fflush(text->out) == 0;
}

/* Continue a prompt. */
static int generate(const predict_line *line, fast_predictor *predictor, FILE *out)
{
    fast_generate_options options = line->text;
    char *text = NULL;

    if (options.prompt && line->data)
        return cli_fail(CLI_USAGE, "the prompt is --prompt or the text of %s, not both",
                        line->data);
    if (!options.prompt && line->data) {
        const int code = read_prompt(line->data, &text);

        if (code != CLI_DONE)
            return code;
        options.prompt = text;
    }
    if (!options.prompt)
        return cli_fail(CLI_USAGE,
                        "a language model continues a text: give --prompt TEXT, a file, or - for "
                        "standard input");
    predict_text written = { out, options.prompt };
    const fast_err err = fast_predictor_generate(predictor, &options, put_character, &written);
    if (!err)
        fputc('\n', out);
    free(text);
    return err ? cli_fail_err(err) : CLI_DONE;
}

/* Read the command line and open the model; *out stays NULL where help was printed. */
static int open_model(const char *command, int argc, char **argv, predict_line *line,
                      fast_predictor **out)
{
    const int code = cli_flags_read(cli_command_find(command), argc, argv, set_flag, line);

    if (code != CLI_DONE)
        return code;
    if (!line->model_file)
        return cli_fail(CLI_USAGE, "%s needs a saved model: fast %s MODEL.safetensors DATA",
                        command, command);
    const fast_err err = fast_predictor_open(line->model_file, &line->options, out);
    return err ? cli_fail_err(err) : CLI_DONE;
}

/* Refuse flags that have no meaning for the model: a text has neither a table nor values, and a
 * regression no classes. */
static int check_flags(const predict_line *line, const fast_predictor_sizes *sizes)
{
    const char *dot = line->out ? strrchr(line->out, '.') : "";
    const bool table = dot && (strcmp(dot, ".npy") == 0 || strcmp(dot, ".json") == 0 ||
                               strcmp(dot, ".jsonl") == 0 || strcmp(dot, ".csv") == 0);
    const bool values = line->rows.values != ROWS_CLASS, top = line->rows.top != 1;

    if (sizes->text && (line->rows.format != ROWS_AUTO || table))
        return cli_fail(CLI_USAGE, "%s is a language model, which writes text: leave out %s",
                        line->model_file, table ? "the ending of --out" : "--format");
    if (sizes->text && (values || top))
        return cli_fail(CLI_USAGE, "%s is a language model, which writes text: leave out %s",
                        line->model_file, values ? "--values" : "--top");
    if (sizes->classes == 0 && (values || top))
        return cli_fail(CLI_USAGE, "%s predicts numbers and has no classes: leave out %s",
                        line->model_file, values ? "--values" : "--top");
    return CLI_DONE;
}

/* Predict or generate, into --out or standard output. */
static int predict(predict_line *line, fast_predictor *predictor)
{
    const bool text = fast_predictor_get_sizes(predictor)->text;
    char temporary[PATH_SIZE];
    FILE *out = NULL;

    if (!text && line->text.prompt)
        return cli_fail(CLI_USAGE, "%s is no language model; --prompt is for one",
                        line->model_file);
    if (!text && !line->data)
        return cli_fail(CLI_USAGE, "predict needs data: a file, - for standard input, or a data "
                                   "set by name");
    int code = check_flags(line, fast_predictor_get_sizes(predictor));
    if (code == CLI_DONE)
        code = choose_format(line);
    if (code == CLI_DONE)
        code = open_out(line, temporary, &out);
    if (code != CLI_DONE)
        return code;
    code = text ? generate(line, predictor, out) : predict_samples(line, predictor, out);
    return close_out(line, temporary, out, code);
}

/* The command `fast predict`. */
int cli_predict(int argc, char **argv)
{
    predict_line line = { .rows = { .top = 1 },
                          .text = { .length = 200, .temperature = 1, .seed = 1 } };
    fast_predictor *predictor = NULL;
    int code = open_model("predict", argc, argv, &line, &predictor);

    if (code == CLI_DONE)
        code = predict(&line, predictor);
    fast_predictor_close(predictor);
    return code == CLI_HELPED ? CLI_DONE : code;
}

/* Rows by class: how many there are, and precision, recall, F1 and AUC of each. Names are of the
 * model's file, which may be hostile. */
static void print_classes(const fast_predictor *predictor, const fast_figures *f)
{
    printf("\n%-20s %8s %9s %9s %9s %9s\n", "class", "samples", "precision", "recall", "F1", "AUC");
    for (int64_t i = 0; i < f->classes && i < CLASSES_SHOWN; i++) {
        const fast_class_figures *c = &f->by_class[i];
        const char *name = fast_predictor_class(predictor, i);
        char number[32], safe[CLI_SAFE_MAX];

        snprintf(number, sizeof number, "%lld", (long long)i);
        printf("%-20s %8lld %9.4f %9.4f %9.4f %9.4f\n",
               cli_text_safe(name ? name : number, 20, safe), (long long)c->actual, c->precision,
               c->recall, c->f1, c->auc);
    }
    if (f->classes > CLASSES_SHOWN)
        printf("... and %lld more; --json has all\n", (long long)(f->classes - CLASSES_SHOWN));
}

/* The confusion matrix: rows are the true classes, columns the predicted ones. */
static void print_matrix(const fast_figures *f)
{
    if (!f->confusion || f->classes > MATRIX_SHOWN)
        return;
    fputs("\nconfusion, a row for each true class, a column for each predicted one\n", stdout);
    for (int64_t i = 0; i < f->classes; i++) {
        for (int64_t k = 0; k < f->classes; k++)
            printf("%s%6lld", k ? " " : "", (long long)f->confusion[i * f->classes + k]);
        fputc('\n', stdout);
    }
}

/* Print the scores for people. */
static void print_scores(const fast_predictor *predictor, const fast_scores *scores)
{
    const fast_predictor_sizes *sizes = fast_predictor_get_sizes(predictor);
    const fast_figures *f = &scores->figures;
    char samples[32];

    cli_group_digits(scores->samples, samples);
    printf("%s samples, loss %.4f", samples, scores->loss);
    if (sizes->text)
        printf(", perplexity %.2f", exp(scores->loss));
    if (sizes->classes == 0) {
        printf(", R2 %.4f, MAE %.6g, RMSE %.6g\n", f->r2, f->mae, f->rmse);
        return;
    }
    printf(", accuracy %.2f%%", 100 * f->accuracy);
    if (sizes->text) {
        fputc('\n', stdout);
        return;
    }
    printf(", F1 %.4f", f->f1);
    if (isfinite(f->auc))
        printf(", AUC %.4f", f->auc);
    fputc('\n', stdout);
    print_classes(predictor, f);
    print_matrix(f);
}

/* The command `fast evaluate`. */
int cli_evaluate(int argc, char **argv)
{
    predict_line line = { .json = false };
    fast_predictor *predictor = NULL;
    fast_scores scores;
    int code = open_model("evaluate", argc, argv, &line, &predictor);

    if (code == CLI_DONE && !line.data)
        code = cli_fail(CLI_USAGE, "evaluate needs data with answers: a file, - for standard "
                                   "input, or a data set by name");
    if (code == CLI_DONE) {
        const fast_err err = fast_predictor_evaluate(predictor, line.data, &scores);

        code = err ? cli_fail_err(err) : CLI_DONE;
    }
    if (code == CLI_DONE && line.json)
        printf("%s\n", scores.json);
    else if (code == CLI_DONE)
        print_scores(predictor, &scores);
    fast_predictor_close(predictor);
    return code == CLI_HELPED ? CLI_DONE : code;
}
