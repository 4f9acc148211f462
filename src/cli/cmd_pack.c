/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `fast pack PROGRAM`: write a program that needs nothing but itself, with its network, settings,
 * weights and data inside:
 *
 *   $ fast pack digits --model lenet --data digits --epochs 3
 *   digits: 6.3 MB, 0 files inside; ./digits says what it does
 *
 * The program is fast-runtime, which is built and installed beside fast, with files behind it.
 */
#include "cli.h"
#include "cli_tables.h"
#include "fast/pack.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* The command line. */
typedef struct pack_line {
    const char *out;     /* the program to write */
    const char *runtime; /* --runtime, or NULL */
    const char *weights; /* --weights, or NULL */
    bool without_data;   /* --without-data */
    cli_list options;    /* of the run */
    json_t *words;       /* of the run, as fast train takes them */
} pack_line;

/* One word of the command line; for cli_flags_read(). */
static int set(void *ctx, const fast_option *option, const char *value)
{
    pack_line *line = ctx;
    char word[4200];

    if (!option && line->out)
        return cli_fail(CLI_USAGE, "one program at a time: %s or %s", line->out, value);
    if (!option)
        line->out = value;
    else if (strcmp(option->name, "runtime") == 0)
        line->runtime = value;
    else if (strcmp(option->name, "weights") == 0)
        line->weights = value;
    else if (strcmp(option->name, "without_data") == 0)
        line->without_data = strcmp(value, "yes") == 0;
    else {
        const int length = snprintf(word, sizeof word, "--%s=%s", option->name, value);
        if (length >= (int)sizeof word)
            return cli_fail(CLI_USAGE, "--%s is longer than %zu bytes", option->name, sizeof word);
        for (char *c = word + 2; *c && *c != '='; c++)
            if (*c == '_')
                *c = '-';
        json_array_append_new(line->words, json_string(word));
        return cli_list_add(&line->options, option->name, value);
    }
    return CLI_DONE;
}

/* Find fast-runtime: beside this program, or where it is installed. False if it is nowhere. */
static bool find_runtime(char *path, size_t size)
{
    static const char *const places[] = { "fast-runtime", "../lib/fast/fast-runtime",
                                          "../libexec/fast/fast-runtime" };
    char self[4000];
    const ssize_t length = readlink("/proc/self/exe", self, sizeof self - 1);

    if (length <= 0)
        return false;
    self[length] = 0;
    char *slash = strrchr(self, '/');
    if (slash)
        slash[1] = 0;
    for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
        snprintf(path, size, "%s%s", slash ? self : "", places[i]);
        if (access(path, X_OK) == 0)
            return true;
    }
    return false;
}

/* The settings that packed.c reads. */
static char *settings_of(const pack_line *line)
{
    const char *slash = strrchr(line->out, '/');
    const bool trains = line->options.count > 0 || !line->weights;
    json_t *settings =
        json_pack("{s:s, s:o, s:s?}", "name", slash ? slash + 1 : line->out, "train",
                  trains ? json_incref(line->words) : json_null(), "model", line->weights);
    char *text = settings ? json_dumps(settings, JSON_COMPACT) : NULL;

    json_decref(settings);
    return text;
}

/* Write the program and say so. */
static int pack(const pack_line *line, const char *runtime)
{
    const char *files[] = { line->weights, NULL };
    char *settings = settings_of(line);
    const bool trains = line->options.count > 0 || !line->weights;
    static const char *const none[] = { NULL };
    fast_pack_result result = { 0 };

    if (!settings)
        return cli_fail(CLI_USAGE, "a word of the command line is not UTF-8, or memory is missing");
    const fast_pack_options options = {
        .size = sizeof options,
        .runtime = runtime,
        .out = line->out,
        .settings = settings,
        .options = !trains               ? NULL
                   : line->options.items ? (const char *const *)line->options.items
                                         : none,
        .files = files,
        .without_data = line->without_data,
    };
    const fast_err err = fast_pack_write(&options, &result);
    free(settings);
    if (err)
        return cli_fail_err(err);
    fprintf(stderr, "%s: %.1f MB, %lld file%s inside; %s%s says what it does\n", line->out,
            (double)result.bytes / 1e6, (long long)result.files, result.files == 1 ? "" : "s",
            strchr(line->out, '/') ? "" : "./", line->out);
    return CLI_DONE;
}

int cli_pack(int argc, char **argv)
{
    pack_line line = { .words = json_array() };
    char found[4096];

    json_array_append_new(line.words, json_string("--store=none")); /* the runtime has no store */
    int code = cli_flags_read(cli_command_find("pack"), argc, argv, set, &line);

    if (code == CLI_DONE && !line.out)
        code = cli_fail(CLI_USAGE, "which program? fast pack PROGRAM --model lenet --data digits");
    if (code == CLI_DONE && !line.runtime) {
        if (find_runtime(found, sizeof found))
            line.runtime = found;
        else
            code = cli_fail(CLI_USAGE, "fast-runtime is not beside fast; build it (it needs static "
                                       "libraries), or name it with --runtime");
    }
    if (code == CLI_DONE)
        code = pack(&line, line.runtime);
    cli_list_free(&line.options);
    json_decref(line.words);
    return code == CLI_HELPED ? CLI_DONE : code;
}
