/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `fast show FILE`: the description of a saved model: how it was trained, its inputs, its classes,
 * its network, its tensors. --json prints the description as one object. A file of another program
 * or of an earlier version shows its tensors alone.
 */
#include "cli_page.h"
#include "cli_tables.h"
#include "cmd_runs.h"

#include "fast/predict.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

enum { COLUMN = 18, LIST_MAX = 64, NAME_WIDTH = 256 };

/* One command line, read. */
typedef struct show_line {
    const char *file; /* the model */
    bool json;        /* print the object */
} show_line;

/* Take the file's name, or --json. */
static int set_flag(void *ctx, const fast_option *option, const char *value)
{
    show_line *line = ctx;

    if (!option && line->file)
        return cli_fail(CLI_USAGE, "show takes one file, not \"%.60s\" too", value);
    if (!option)
        line->file = value;
    else
        line->json = strcmp(value, "yes") == 0;
    return CLI_DONE;
}

/* Print a member as a row; texts without quotes. Control characters of a hostile file are not
 * printed. */
static void print_member(cli_page *page, const char *name, const json_t *value)
{
    char safe[CLI_SAFE_MAX];
    char *text = json_is_string(value)
                     ? strdup(json_string_value(value))
                     : json_dumps(value, JSON_ENCODE_ANY | JSON_REAL_PRECISION(9));

    for (char *c = text; c && *c; c++)
        if ((unsigned char)*c < ' ' || *c == 127)
            *c = ' ';
    if (text && value && !json_is_null(value))
        cli_page_row(page, 2, COLUMN, cli_text_safe(name, NAME_WIDTH, safe), text);
    free(text);
}

/* A column as a row: its kind, then its other members. */
static void print_column(cli_page *page, const char *name, const char *kind, json_t *rest)
{
    char *more = json_dumps(rest, JSON_REAL_PRECISION(6));
    const size_t size = more ? strlen(more) : 0;
    json_t *text = json_sprintf("%s%s%.*s", kind ? kind : "unknown", size > 2 ? ": " : "",
                                size > 2 ? (int)size - 2 : 0, size > 2 ? more + 1 : "");

    print_member(page, name, text);
    json_decref(text);
    free(more);
}

/* The members of an object as rows. */
static void print_object(cli_page *page, const char *title, json_t *object)
{
    const char *key;
    json_t *value;

    if (!json_is_object(object))
        return;
    cli_page_title(page, title);
    json_object_foreach(object, key, value)
    {
        const bool list = json_is_array(value);

        if (!json_is_object(value) && strcmp(key, "columns") != 0 &&
            (!list || json_array_size(value) <= LIST_MAX))
            print_member(page, key, value);
    }
}

/* The columns of a table: the kind of each, its categories, and the number of a missing field. */
static void print_columns(cli_page *page, const json_t *source)
{
    const json_t *columns = json_object_get(source, "columns");
    const json_int_t target = json_integer_value(json_object_get(source, "target"));
    size_t i;
    json_t *column;

    if (!json_is_array(columns))
        return;
    cli_page_title(page, "Columns");
    json_array_foreach(columns, i, column)
    {
        const char *name = json_string_value(json_object_get(column, "name"));
        const char *kind = json_string_value(json_object_get(column, "kind"));
        json_t *rest = json_copy(column);

        json_object_del(rest, "name");
        json_object_del(rest, "kind");
        if (i < LIST_MAX && name)
            print_column(page, name, (json_int_t)i == target ? "target" : kind, rest);
        json_decref(rest);
    }
    if (i > LIST_MAX)
        printf("  ... and %zu more; --json has all\n", i - LIST_MAX);
}

/* The network, a layer a line. */
static void print_network(cli_page *page, const json_t *network)
{
    const char *text = json_string_value(network);

    if (!text)
        return;
    cli_page_title(page, "Network");
    for (bool start = true; *text; text++) {
        if (start)
            fputs("  ", page->out);
        start = *text == '\n';
        fputc(start || ((unsigned char)*text >= ' ' && *text != 127) ? *text : ' ', page->out);
    }
}

/* The tensors with their types and shapes. */
static void print_tensors(cli_page *page, const json_t *tensors)
{
    size_t i;
    json_t *tensor;

    cli_page_title(page, "Tensors");
    json_array_foreach(tensors, i, tensor)
    {
        const char *name = json_string_value(json_object_get(tensor, "name"));
        char *shape = json_dumps(json_object_get(tensor, "shape"), 0), safe[CLI_SAFE_MAX];

        if (i < LIST_MAX)
            printf("  %-24s %-5s %s\n", cli_text_safe(name, NAME_WIDTH, safe),
                   json_string_value(json_object_get(tensor, "dtype")), shape ? shape : "");
        free(shape);
    }
    if (i > LIST_MAX)
        printf("  ... and %zu more; --json has all\n", i - LIST_MAX);
}

/* Print the description for people. */
static int print_text(const char *file, const char *text)
{
    json_t *tree = json_loads(text, 0, NULL);
    const json_t *model = json_object_get(tree, "model");
    cli_page page;

    if (!tree)
        return cli_fail(CLI_FAILED, "out of memory");
    cli_page_init(&page, stdout);
    printf("%s\n", file);
    if (!json_is_object(json_object_get(tree, "training")))
        print_member(&page, "model", model);
    print_object(&page, "Training", json_object_get(tree, "training"));
    print_object(&page, "Inputs and answers", json_object_get(tree, "data"));
    print_object(&page, "Source", json_object_get(json_object_get(tree, "data"), "source"));
    print_columns(&page, json_object_get(json_object_get(tree, "data"), "source"));
    print_network(&page, json_object_get(tree, "network"));
    print_tensors(&page, json_object_get(tree, "tensors"));
    if (json_is_null(json_object_get(tree, "data")))
        fputs("\nThe file does not describe its inputs: predict needs --model and --data as in its "
              "training.\n",
              stdout);
    json_decref(tree);
    return CLI_DONE;
}

/* The command `fast show`. */
int cli_show(int argc, char **argv)
{
    show_line line = { NULL, false };
    const fast_predictor_options options = { .describe = true };
    fast_predictor *predictor = NULL;
    int code = cli_flags_read(cli_command_find("show"), argc, argv, set_flag, &line);

    if (code == CLI_DONE && !line.file)
        code = cli_fail(CLI_USAGE, "show needs a saved model: fast show MODEL.safetensors");
    if (code == CLI_DONE) {
        const fast_err err = fast_predictor_open(line.file, &options, &predictor);

        code = err ? cli_fail_err(err) : CLI_DONE;
    }
    if (code == CLI_DONE && line.json)
        printf("%s\n", fast_predictor_json(predictor));
    else if (code == CLI_DONE)
        code = print_text(line.file, fast_predictor_json(predictor));
    fast_predictor_close(predictor);
    return code == CLI_HELPED ? CLI_DONE : code;
}
