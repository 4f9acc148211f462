/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `fast shard DATA --out FOLDER`: write a data set as shards, which fast train streams with --data
 * shards:dir=FOLDER. The data set is a word or --data. The result goes to standard output:
 *
 *   12,000 training and 2,000 test samples in 3 shards, 11.0 MB: digits-shards
 *
 * With --json it is one object. Exit codes: 0, 1 if writing failed, 2 for wrong options or data.
 */
#include "cli_json.h"
#include "cli_tables.h"

#include <string.h>

/* One command line, read. */
typedef struct shard_line {
    cli_list options; /* for fast_shards_write() */
    const char *out;  /* the folder; or NULL */
    bool data;        /* the data set is named */
    bool json;        /* print an object */
} shard_line;

/* Take one flag of the command line, or the data set (option NULL), for cli_flags_read(). */
static int set(void *ctx, const fast_option *option, const char *value)
{
    shard_line *line = ctx;

    if (!option && line->data)
        return cli_fail(CLI_USAGE, "shard takes one data set, not \"%.60s\" too", value);
    if (option && strcmp(option->name, "json") == 0) {
        line->json = strcmp(value, "no") != 0;
        return CLI_DONE;
    }
    if (!option || strcmp(option->name, "data") == 0)
        line->data = true;
    if (option && strcmp(option->name, "out") == 0)
        line->out = value;
    return cli_list_add(&line->options, option ? option->name : "data", value);
}

/* Print the result. */
static void print_result(const shard_line *line, const fast_shards_result *r)
{
    char train[32], test[32], shards[32];
    cli_json json;

    if (line->json) {
        cli_json_begin(&json, stdout);
        cli_json_int(&json, "train", r->train);
        cli_json_int(&json, "test", r->test);
        cli_json_int(&json, "shards", r->shards);
        cli_json_int(&json, "bytes", r->bytes);
        cli_json_text(&json, "out", line->out);
        cli_json_end(&json);
        return;
    }
    cli_group_digits(r->train, train);
    cli_group_digits(r->test, test);
    cli_group_digits(r->shards, shards);
    printf("%s training and %s test samples in %s shards, %.1f MB: %s\n", train, test, shards,
           (double)r->bytes / 1e6, line->out);
}

/* The command `fast shard`. */
int cli_shard(int argc, char **argv)
{
    shard_line line = { .json = false };
    fast_shards_result result;
    int code = cli_flags_read(cli_command_find("shard"), argc, argv, set, &line);

    if (code == CLI_DONE && (!line.data || !line.out))
        code = cli_fail(CLI_USAGE, "shard needs a data set and a folder: fast shard DATA --out "
                                   "FOLDER");
    if (code == CLI_DONE) {
        const fast_err err = fast_shards_write((const char *const *)line.options.items, &result);

        if (err)
            code = cli_fail_err(err);
        else
            print_result(&line, &result);
    }
    cli_list_free(&line.options);
    return code == CLI_HELPED ? CLI_DONE : code;
}
