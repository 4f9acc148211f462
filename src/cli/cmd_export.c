/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `fast export MODEL FILE.onnx`: a saved model as an ONNX file, for other programs. The model
 * describes its network; --model and --data stand in for a file of an earlier version.
 *
 * Exit codes: 0; 1 if the file cannot be written; 2 if a flag or the model is wrong.
 */
#include "cli_tables.h"

#include "fast/predict.h"

#include <string.h>

/* One command line, read. */
typedef struct export_line {
    const char *model;              /* first word */
    const char *out;                /* second word */
    fast_predictor_options options; /* of the model */
} export_line;

/* Take a file's name, or a flag that completes an older file. */
static int set_flag(void *ctx, const fast_option *option, const char *value)
{
    export_line *line = ctx;

    if (!option && line->out)
        return cli_fail(CLI_USAGE, "export takes two files, not \"%.60s\" too", value);
    if (!option && line->model)
        line->out = value;
    else if (!option)
        line->model = value;
    else if (strcmp(option->name, "model") == 0)
        line->options.model = value;
    else
        line->options.data = value;
    return CLI_DONE;
}

/* The command `fast export`. */
int cli_export(int argc, char **argv)
{
    export_line line = { .options = { .batch = 1 } };
    fast_predictor *predictor = NULL;
    int code = cli_flags_read(cli_command_find("export"), argc, argv, set_flag, &line);

    if (code == CLI_DONE && !line.out)
        code = cli_fail(CLI_USAGE, "export needs a saved model and a file to write: "
                                   "fast export MODEL.safetensors MODEL.onnx");
    const char *dot = line.out ? strrchr(line.out, '.') : NULL;
    if (code == CLI_DONE && (!dot || strcmp(dot, ".onnx") != 0))
        code = cli_fail(CLI_USAGE, "export writes ONNX: give a file that ends in .onnx, not %.200s",
                        line.out);
    if (code == CLI_DONE) {
        fast_err err = fast_predictor_open(line.model, &line.options, &predictor);

        if (!err)
            err = fast_predictor_export(predictor, line.out);
        code = err ? cli_fail_err(err) : CLI_DONE;
    }
    fast_predictor_close(predictor);
    return code == CLI_HELPED ? CLI_DONE : code;
}
