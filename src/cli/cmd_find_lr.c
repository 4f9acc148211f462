/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `fast find-lr`: a learning rate to start with, by a range test of some hundred steps. The flags
 * are those of `fast train`, with --lr-min and --lr-max. Standard output has the curve of the
 * smoothed loss and the suggestion, or with --json an object for each step and one for the result:
 *
 *   try --lr 0.063: a tenth of 0.63, at which the loss was smallest; it fell fastest at 0.16
 *
 * Exit codes: 0 found, 1 the loss never fell, 2 usage, 130 after Ctrl-C, which suggests nothing.
 */
#include "busy.h"
#include "cli.h"
#include "cli_json.h"
#include "cli_tables.h"
#include "plot.h"

#include <math.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

/* One command line, read, and the points of its test. */
typedef struct find_line {
    cli_list options;               /* for the library */
    bool json;                      /* print objects */
    double first, last;             /* learning rates */
    double *lr;                     /* of the points */
    double *loss;                   /* smoothed, of the points */
    int64_t count;                  /* of points */
    int64_t room;                   /* for points */
    volatile sig_atomic_t canceled; /* set by a signal: the test ends after its step */
} find_line;

/* A signal: end the test. */
static void cancel(void *object)
{
    ((find_line *)object)->canceled = 1;
}

/* Read a learning rate. */
static int set_rate(const char *name, const char *value, double *out)
{
    char *end = NULL;

    *out = strtod(value, &end);
    if (end == value || *end || !(*out > 0) || !(*out <= 1e9))
        return cli_fail(CLI_USAGE, "--%s takes a learning rate above 0, not \"%.60s\"", name,
                        value);
    return CLI_DONE;
}

/* Take a flag: those of a run become options of the library. */
static int set_flag(void *ctx, const fast_option *option, const char *value)
{
    find_line *line = ctx;

    if (!option)
        return cli_fail(CLI_USAGE, "\"%s\" is not an option; options begin with --", value);
    if (strcmp(option->name, "json") == 0) {
        line->json = strcmp(value, "yes") == 0;
        return CLI_DONE;
    }
    if (strcmp(option->name, "lr_min") == 0)
        return set_rate("lr-min", value, &line->first);
    if (strcmp(option->name, "lr_max") == 0)
        return set_rate("lr-max", value, &line->last);
    return cli_list_add(&line->options, option->name, value);
}

/* Keep a point for the curve, or print it. */
static bool on_point(void *ctx, const fast_lr_point *point)
{
    find_line *line = ctx;

    if (line->json) {
        cli_json json;

        cli_json_begin(&json, stdout);
        cli_json_real(&json, "lr", point->lr);
        cli_json_real(&json, "loss", point->loss);
        cli_json_real(&json, "smoothed", point->smoothed);
        cli_json_end(&json);
        return !line->canceled;
    }
    if (line->count == line->room) {
        const int64_t room = line->room > 0 ? 2 * line->room : 128;
        double *lr = realloc(line->lr, (size_t)room * sizeof *lr);
        if (lr)
            line->lr = lr;
        double *loss = lr ? realloc(line->loss, (size_t)room * sizeof *loss) : NULL;
        if (loss)
            line->loss = loss;
        if (!lr || !loss) /* the curve ends here; the suggestion does not need it */
            return !line->canceled;
        line->room = room;
    }
    line->lr[line->count] = point->lr;
    line->loss[line->count++] = point->smoothed;
    return !line->canceled;
}

/* Print the result as an object. */
static void put_json(const fast_lr_range *range)
{
    cli_json json;

    cli_json_begin(&json, stdout);
    cli_json_int(&json, "steps", range->steps);
    cli_json_bool(&json, "diverged", range->diverged);
    cli_json_real(&json, "steepest", range->steepest);
    cli_json_real(&json, "minimum", range->minimum);
    cli_json_real(&json, "suggested", range->suggested);
    cli_json_end(&json);
}

/* Print the curve and the suggestion. The losses behind the limit are far above the others: the
 * curve ends at twice the first one. */
static void put_text(const find_line *line, const fast_lr_range *range)
{
    int64_t shown = 0;

    while (shown < line->count && line->loss[shown] <= 2 * line->loss[0])
        shown++;
    cli_plot_log(line->lr, line->loss, shown, range->suggested, "loss", stdout);
    if (isnan(range->suggested)) {
        cli_fail(CLI_FAILED, "the loss did not fall between %g and %g; try other learning rates",
                 line->first, line->last);
        return;
    }
    printf("\ntry --lr %.2g: a tenth of %.2g, at which the loss was smallest; it fell fastest at "
           "%.2g\n",
           range->suggested, range->minimum, range->steepest);
    if (!range->diverged && range->minimum > line->last / 3)
        printf("the loss still fell near %g: a larger --lr-max may find a larger rate\n",
               line->last);
}

int cli_find_lr(int argc, char **argv)
{
    find_line line = { .first = 1e-5, .last = 10 };
    fast_lr_range range = { .suggested = NAN };
    cli_busy busy = { .runs = false };
    int code = cli_flags_read(cli_command_find("find-lr"), argc, argv, set_flag, &line);

    if (code == CLI_DONE) {
        if (!line.json)
            cli_busy_begin(&busy, stderr, "trying learning rates", 0);
        cli_on_interrupt(cancel, &line);
        const fast_err err = fast_find_lr((const char *const *)line.options.items, line.first,
                                          line.last, on_point, &line, &range);
        cli_on_interrupt(NULL, NULL);
        cli_busy_end(&busy);
        if (err == FAST_ECANCELED)
            code = cli_fail(CLI_CANCELED, "interrupted: %s", fast_error_detail());
        else if (err)
            code = cli_fail_err(err);
        else if (line.json)
            put_json(&range);
        else
            put_text(&line, &range);
        if (!err && isnan(range.suggested))
            code = CLI_FAILED;
    }
    free(line.lr);
    free(line.loss);
    cli_list_free(&line.options);
    return code == CLI_HELPED ? CLI_DONE : code;
}
