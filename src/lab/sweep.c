/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The words of a user -> what is compared.
 *
 *   bsp,ssp                       a list: at its commas, but key=value goes with what is before it:
 *   none,topk:ratio=0.1,small=64  two values
 *   0..3                          a range in steps of one
 *   1..9+2                        in steps of two: 1, 3, 5, 7, 9
 *   2..16x2                       times two: 2, 4, 8, 16
 *   ps:slack=0..3                 ranges may stand inside of values
 *
 * An option that stands for several values is an axis; lines are all combinations, the first axis
 * the slowest. --system and --strategy are one axis: both name a way of training, and --system may
 * name a strategy that no system is called like. Options whose values hold commas of their own
 * (files, faults) are lists only by being given again.
 *
 * An example, with data named so that no standard job is added:
 *
 *   --system bsp,ssp --workers 2..8x2 --batch 16 --data digits --tune lr=0.1,0.2
 *
 *   axes     system = bsp, ssp        workers = 2, 4, 8
 *   lines    "bsp, workers 2"   "bsp, workers 4"   "bsp, workers 8"
 *            "ssp, workers 2"   "ssp, workers 4"   "ssp, workers 8"
 *   job      batch=16  data=digits          options with one value, shared by all lines
 *   space    lr=0.1    lr=0.2               for the trials of each line
 *
 * Order of events: read the options into axes, each value checked against the table of a run before
 * anything runs; add standards for options that were not given; combine the axes; read the trials,
 * which may not name an option that an axis has. Any error is FAST_EINVAL (or FAST_ENOMEM) and
 * leaves nothing to close.
 *
 * Bounds: 1024 values a list, 16 axes, 256 lines and 256 settings of the tuned options. Products
 * are compared with their bound after each factor, so they cannot overflow.
 */
#include "lab/compare.h"

#include "base/memory.h"
#include "base/option.h"

#include <math.h>
#include <string.h>

enum { VALUE_MAX = 4096, VALUES_MAX = 1024, AXES_MAX = 16, PIECE_MAX = 256 };

/* The job where no data is named: small enough for a few minutes, with a target that tells ways of
 * training. The update rule and the course of the rate are the same for all, as the data. */
static const char *const standard_job[] = { "model=lenet",       "data=digits:train=6000,test=1000",
                                            "workers=8",         "batch=16",
                                            "epochs=6",          "optimizer=sgd",
                                            "schedule=constant", "evaluate=12steps",
                                            "target=0.95",       NULL };
static const char standard_tuning[] = "lr=0.0125..0.8x2";
static const char standard_systems[] =
    "bsp,backup-workers,fedavg,ssp,downpour,easgd,d-psgd,ad-psgd";

/* Lists and ranges. */

/* The end of a number at `text`, or NULL. A point counts only before a digit: ".." ends it. */
static const char *number_end(const char *text, double *out)
{
    const char *at = text + (*text == '-');
    const size_t digits = strspn(at, "0123456789");
    char copy[64];

    if (digits == 0)
        return NULL;
    at += digits;
    if (at[0] == '.' && strspn(at + 1, "0123456789") > 0)
        at += 1 + strspn(at + 1, "0123456789");
    if ((at[0] == 'e' || at[0] == 'E') &&
        strspn(at + 1 + (at[1] == '-' || at[1] == '+'), "0123456789") > 0) {
        at += 1 + (at[1] == '-' || at[1] == '+');
        at += strspn(at, "0123456789");
    }
    if ((size_t)(at - text) >= sizeof copy)
        return NULL;
    snprintf(copy, sizeof copy, "%.*s", (int)(at - text), text);
    return fast__parse_real("range", copy, out) == FAST_OK ? at : NULL;
}

/* A range in a value: from..to, from..to+step, from..toxfactor. */
typedef struct sweep_range {
    size_t begin; /* where it stands in the value */
    size_t end;   /* offset behind the range */
    double from;  /* first value */
    double to;    /* last one at most */
    double step;  /* added, or multiplied by */
    bool times;   /* multiplied */
} sweep_range;

/* The first range of a value, at its beginning or behind = or : alone. */
static bool range_find(const char *value, sweep_range *out)
{
    for (size_t i = 0; value[i]; i++) {
        const char *at = i == 0 || value[i - 1] == '=' || value[i - 1] == ':'
                             ? number_end(value + i, &out->from)
                             : NULL;
        const char *step;

        if (!at || at[0] != '.' || at[1] != '.')
            continue;
        at = number_end(at + 2, &out->to);
        if (!at)
            continue;
        out->step = 1;
        out->times = *at == 'x';
        step = *at == 'x' || *at == '+' ? number_end(at + 1, &out->step) : NULL;
        if (out->times && !step)
            continue;
        out->begin = i;
        out->end = (size_t)((step ? step : at) - value);
        return true;
    }
    return false;
}

/* A number of a range as one would write it: 0.3, not what 0.1 + 2 * 0.1 is to the last bit. Twelve
 * digits are fewer than a double has and more than anyone types, so rounding errors vanish. */
static void number_text(double number, char text[64])
{
    char *comma;

    snprintf(text, 64, "%.12g", number);
    comma = strchr(text, ','); /* of a locale */
    if (comma)
        *comma = '.';
}

/*
 * Append a value, with its ranges spelled out. The first range is replaced by each of its numbers
 * and the result is expanded again, so several ranges in a value give all combinations, the last
 * one fastest:
 *
 *   ps:slack=0..1,servers=1..2   ->   ps:slack=0,servers=1   ps:slack=0,servers=2
 *                                     ps:slack=1,servers=1   ps:slack=1,servers=2
 *
 * FAST_EINVAL for a range that falls, a step that is not positive, a factor of 1 or less, a start
 * of 0 with a factor, and more than VALUES_MAX values.
 */
static fast_err add_value(const char *value, fast_words *out)
{
    sweep_range r;

    if (!range_find(value, &r))
        return out->count < VALUES_MAX
                   ? fast__words_add(out, value)
                   : fast__fail(FAST_EINVAL, "more than %d values; take larger steps", VALUES_MAX);
    if (!(r.to >= r.from) || (r.times ? !(r.step > 1 && r.from > 0) : !(r.step > 0)))
        return fast__fail(FAST_EINVAL,
                          "the range %.*s never ends; write 1..4, 1..9+2 or 2..16x2, the smaller "
                          "number first",
                          (int)(r.end - r.begin), value + r.begin);
    double number = r.from;
    /* Sums are computed from the start, not from the number before, so that errors do not add up.
       The end has a tolerance: 0.1 + 2 * 0.1 is a little more than 0.3, and 0.1..0.3+0.1 includes
       it. */
    for (int64_t i = 1; number <= r.to + 1e-9 * fabs(r.to); i++) {
        char text[64], whole[VALUE_MAX];

        number_text(number, text);
        snprintf(whole, sizeof whole, "%.*s%s%s", (int)r.begin, value, text, value + r.end);
        FAST_TRY(add_value(whole, out));
        number = r.times ? number * r.step : r.from + (double)i * r.step;
    }
    return FAST_OK;
}

/* True for options whose values may hold commas that separate nothing of ours. */
static bool is_whole(const fast_option *option)
{
    return strcmp(option->name, "faults") == 0 || strcmp(option->name, "phases") == 0 ||
           strcmp(option->name, "name") == 0 ||
           (option->type == FAST_OPTION_TEXT && option->choices &&
            strcmp(option->choices, "file") == 0);
}

/* True if a piece is key=value, which belongs to the part that is named before it: in
 * "none,topk:ratio=0.1,small=64" the last comma does not separate, as topk has a colon. */
static bool is_key(const char *piece, const char *before)
{
    const size_t length = strspn(piece, "abcdefghijklmnopqrstuvwxyz_0123456789");

    return length > 0 && piece[length] == '=' && strchr(before, ':');
}

fast_err fast__sweep_values(const fast_option *option, const char *text, fast_words *out)
{
    char value[VALUE_MAX];
    size_t used = 0;

    if (is_whole(option))
        return fast__words_add(out, text);
    if (strlen(text) >= sizeof value)
        return fast__fail(FAST_EINVAL, "%s: %zu bytes are too long", option->name, strlen(text));
    for (const char *at = text;; at++) {
        value[used] = '\0';
        if (*at == ',' && is_key(at + 1, value)) {
            value[used++] = *at;
        } else if (*at == ',' || *at == '\0') {
            if (used == 0 && (*at == ',' || at > text))
                return fast__fail(FAST_EINVAL, "%s=%.200s: a value of the list is empty",
                                  option->name, text);
            FAST_TRY(add_value(value, out));
            used = 0;
        } else {
            value[used++] = *at;
        }
        if (*at == '\0')
            return FAST_OK;
    }
}

/* Axes. */

/* One axis: the values of an option, or of system and strategy together. */
typedef struct sweep_axis {
    const fast_option *option; /* the first that it was given by */
    fast_words values;         /* "name=value" */
} sweep_axis;

/* A sweep while it is read. */
typedef struct sweep_reader {
    const fast_option *table;       /* of a run */
    sweep_axis axes[AXES_MAX + 64]; /* every option that was given has one; most have one value */
    int64_t count;                  /* number of axes */
    fast_sweep *sweep;              /* the result */
    const char *command;            /* compare or search: before words that are wrong */
} sweep_reader;

/* Systems and strategies are one axis: the way of training. */
static bool is_way(const char *name)
{
    return strcmp(name, "system") == 0 || strcmp(name, "strategy") == 0;
}

/* Find the axis of an option; a system and a strategy share theirs. */
static sweep_axis *axis_find(sweep_reader *r, const char *name)
{
    for (int64_t i = 0; i < r->count; i++)
        if (strcmp(r->axes[i].option->name, name) == 0 ||
            (is_way(name) && is_way(r->axes[i].option->name)))
            return &r->axes[i];
    return NULL;
}

/* "name=value" as its option and its value. Files that every run would write are refused. */
static fast_err split(const sweep_reader *r, const char *text, const fast_option **option_out,
                      const char **value_out)
{
    static const char files[] =
        "|save|checkpoint|checkpoint_every|resume|log|trace|record|replay|batch_of|tensorboard|";
    const char *equals = strchr(text, '=');
    char name[64], mark[72];

    if (!equals || (size_t)(equals - text) >= sizeof name)
        return fast__fail(FAST_EINVAL, "\"%.100s\" is not name=value", text);
    snprintf(name, sizeof name, "%.*s", (int)(equals - text), text);
    const fast_option *own = fast__options_find(r->table, name);
    snprintf(mark, sizeof mark, "|%s|", own ? own->name : name);
    if (strstr(files, mark))
        return fast__fail(FAST_EINVAL,
                          "%s is of one run; a %s has many, and they would "
                          "share a file; leave it out",
                          name, strcmp(r->command, "search") == 0 ? "search" : "comparison");
    *option_out = fast__options_find(r->table, name);
    *value_out = equals + 1;
    if (!*option_out) /* the table's own words for it */
        return fast__options_set(r->command, r->table, NULL, name, equals + 1);
    return FAST_OK;
}

/* Names of parts, for fast__name_find(). */
static const char *part_name(const void *parts, int64_t i)
{
    return ((const fast_part *)parts)[i].name;
}

/* True if a kind has a part of this name. */
static bool is_part(const char *kind, const char *name)
{
    int64_t count = 0;
    const fast_part *parts = fast_part_list(kind, &count);

    return fast__name_find(name, part_name, parts, count, NULL) >= 0;
}

/* A way of training is known by its name, before anything runs; where no system has the name of a
 * strategy, --system means the strategy. */
static fast_err check_way(const sweep_reader *r, const fast_option **option, const char *value)
{
    const fast_option *strategy = fast__options_find(r->table, "strategy");
    int64_t count = 0;
    const fast_part *parts = fast_part_list((*option)->choices, &count);
    char name[64];

    snprintf(name, sizeof name, "%.*s", (int)strcspn(value, ":"), value);
    if (is_part((*option)->choices, name) || (*option == strategy && strcmp(name, "auto") == 0))
        return FAST_OK;
    if (is_part("strategy", name)) {
        *option = strategy;
        return FAST_OK;
    }
    return fast__name_unknown((*option)->name, name, part_name, parts, count);
}

/* Add a value to an axis. Two lines of one name could not be told apart; phases are no lines
 * and may come back. */
static fast_err axis_add(sweep_axis *a, const char *name, const char *value)
{
    const int64_t count = a->values.count;

    FAST_TRY(fast__words_format(&a->values, "%s=%s", name, value));
    for (int64_t i = 0; i < count && strcmp(name, "phases") != 0; i++)
        if (strcmp(a->values.items[i], a->values.items[count]) == 0)
            return fast__fail(FAST_EINVAL, "%s=%.100s is given twice; leave one out", name, value);
    return FAST_OK;
}

/* Read one option into its axis: a list or a range adds several values. */
static fast_err read_option(sweep_reader *r, const char *text)
{
    const fast_option *option;
    const char *value;
    fast_words values = { 0 };
    sweep_axis *a;
    fast_err err;

    FAST_TRY(split(r, text, &option, &value));
    a = axis_find(r, option->name);
    if (!a) {
        FAST_ASSERT(r->count < AXES_MAX + 64);
        a = &r->axes[r->count++];
        *a = (sweep_axis){ .option = option };
    }
    err = fast__sweep_values(option, value, &values);
    for (int64_t i = 0; !err && i < values.count; i++) {
        const fast_option *way = option;

        if (is_way(option->name))
            err = check_way(r, &way, values.items[i]);
        if (!err)
            err = fast__options_set(r->command, r->table, NULL, way->name, values.items[i]);
        if (!err)
            err = axis_add(a, way->name, values.items[i]);
    }
    fast__words_fini(&values);
    return err;
}

/*
 * Add the standard values of options that were not given:
 *
 *   no --data                              the options of standard_job, each unless it was given;
 *                                          --steps or a budget stand in for its epochs
 *   that job, or --cluster or --faults     transport=sim: times repeat, and clusters and faults
 *                                          exist nowhere else
 *   no option with several values,         the eight standard systems, as there would be nothing
 *   and no --system or --strategy          to compare; not for a search
 */
static fast_err read_standards(sweep_reader *r, bool budget, bool search)
{
    const bool job = axis_find(r, "data") == NULL;
    const bool sim = job || axis_find(r, "cluster") || axis_find(r, "faults");
    char systems[sizeof standard_systems + 8];
    bool several = false;

    for (int i = 0; job && standard_job[i]; i++) {
        char name[64];

        snprintf(name, sizeof name, "%.*s", (int)strcspn(standard_job[i], "="), standard_job[i]);
        if (strcmp(name, "epochs") == 0 && (budget || axis_find(r, "steps")))
            continue;
        if (!axis_find(r, name))
            FAST_TRY(read_option(r, standard_job[i]));
    }
    if (sim && !axis_find(r, "transport"))
        FAST_TRY(read_option(r, "transport=sim"));
    for (int64_t i = 0; i < r->count; i++)
        several = several ||
                  (r->axes[i].values.count > 1 && strcmp(r->axes[i].option->name, "phases") != 0);
    if (search || several || axis_find(r, "system"))
        return FAST_OK;
    snprintf(systems, sizeof systems, "system=%s", standard_systems);
    return read_option(r, systems);
}

/* How a value is called in a line's name: parts by their own name, numbers with the option's. */
static void value_name(const fast_option *option, const char *text, char name[PIECE_MAX])
{
    const char *value = strchr(text, '=') + 1;
    const bool part = option->type == FAST_OPTION_TEXT && option->choices;

    if (strncmp(option->name, "codec", 5) == 0 && strcmp(value, "none") == 0)
        snprintf(name, PIECE_MAX, "no %.60s", option->name);
    else if (part && strcmp(value, "auto") != 0 && value[0])
        snprintf(name, PIECE_MAX, "%.180s", value);
    else
        snprintf(name, PIECE_MAX, "%.60s %.180s", option->name, value);
}

/* The line of one combination, given by its number: the last axis changes fastest. The number is
 * read as digits in a mixed radix, one digit an axis: with 2 systems and 3 numbers of workers line
 * 4 = 1 * 3 + 1 is the second system with the second number. A sweep without an axis has one line,
 * named after its system. */
static fast_err line_make(const sweep_reader *r, sweep_axis *const *axes, int64_t count,
                          int64_t number, fast_sweep_line *line)
{
    char name[PIECE_MAX], whole[AXES_MAX * PIECE_MAX] = "";
    int64_t at[AXES_MAX];
    fast_words one = { 0 };

    for (int64_t i = count - 1; i >= 0; i--) {
        at[i] = number % axes[i]->values.count;
        number /= axes[i]->values.count;
    }
    for (int64_t i = 0; i < count; i++) {
        const char *text = axes[i]->values.items[at[i]];
        const size_t used = strlen(whole);

        value_name(axes[i]->option, text, name);
        snprintf(whole + used, sizeof whole - used, "%s%s", i ? ", " : "", name);
        FAST_TRY(fast__words_add(&line->options, text));
    }
    if (count == 0) {
        sweep_axis *way = axis_find((sweep_reader *)(uintptr_t)r, "system");

        snprintf(whole, sizeof whole, "%.200s",
                 way ? strchr(way->values.items[0], '=') + 1 : "fast train");
    }
    const fast_err err = fast__words_add(&one, whole);
    if (!err) {
        line->name = one.items[0];
        one.count = 0;
    }
    fast__words_fini(&one);
    return err;
}

/* Axes with one value are the job's; all combinations of the others are the lines. */
static fast_err combine(sweep_reader *r)
{
    sweep_axis *axes[AXES_MAX];
    int64_t count = 0, product = 1;
    fast_sweep *sweep = r->sweep;

    for (int64_t i = 0; i < r->count; i++) {
        sweep_axis *a = &r->axes[i];
        const bool is_phase = strcmp(a->option->name, "phases") == 0;

        if (a->values.count > 1 && !is_phase) {
            if (count == AXES_MAX)
                return fast__fail(FAST_EINVAL, "more than %d options have several values",
                                  AXES_MAX);
            axes[count++] = a;
            product *= a->values.count; /* VALUES_MAX to the 16th: stopped before it overflows */
            if (product > FAST_COMPARE_LINES_MAX)
                return fast__fail(FAST_EINVAL,
                                  "the sweep has more than %d lines; leave some values out",
                                  FAST_COMPARE_LINES_MAX);
            continue;
        }
        for (int64_t k = 0; k < a->values.count; k++)
            FAST_TRY(fast__words_add(&sweep->job, a->values.items[k]));
    }
    FAST_TRY(fast__alloc("lines of a comparison", product, sizeof *sweep->lines, &sweep->lines));
    sweep->line_count = product;
    for (int64_t i = 0; i < product; i++)
        FAST_TRY(line_make(r, axes, count, i, &sweep->lines[i]));
    return FAST_OK;
}

/* Trials. */

/*
 * Read "0.001..1:log" or "0..0.9:linear", a range that is searched at any of its numbers;
 * *found_out tells whether the text is one. FAST_EINVAL for a range without room, and for a
 * logarithm of numbers that are not positive.
 */
static fast_err read_range(const fast_option *option, const char *text, fast_search_option *out,
                           bool *found_out)
{
    const char *colon = strrchr(text, ':');
    const bool log = colon && strcmp(colon, ":log") == 0;
    sweep_range r;

    *found_out = log || (colon && strcmp(colon, ":linear") == 0);
    const bool listed = strstr(text, ":log,") || strstr(text, ":linear,");
    if (!*found_out && !listed)
        return FAST_OK;
    if (listed || !range_find(text, &r) || r.begin != 0 || text + r.end != colon || r.times ||
        r.step != 1)
        return fast__fail(FAST_EINVAL, "%s=%.100s: write a range as 0.001..1:log or 0..0.9:linear",
                          option->name, text);
    if (!(r.to > r.from) || (log && !(r.from > 0)))
        return fast__fail(FAST_EINVAL, "%s=%.100s: the range has no room; %s", option->name, text,
                          log ? "write two numbers above 0, the smaller first"
                              : "write the smaller number first");
    out->low = r.from;
    out->high = r.to;
    out->log = log;
    out->whole = option->type == FAST_OPTION_INT;
    return FAST_OK;
}

/* True if all values of an option are numbers. */
static bool are_numbers(const fast_words *values)
{
    for (int64_t i = 0; i < values->count; i++) {
        double number;
        const char *text = strchr(values->items[i], '=') + 1;
        const char *end = number_end(text, &number);

        if (!end || *end)
            return false;
    }
    return true;
}

/* Refuse "0.1..0.9", which would be its first value alone: a range without a step counts by 1. */
static fast_err check_step(const fast_option *option, const char *value)
{
    double from, to;
    const char *end = number_end(value, &from);

    if (!end || strncmp(end, "..", 2) != 0)
        return FAST_OK;
    end = number_end(end + 2, &to);
    if (!end || *end || !(to > from && to - from < 1))
        return FAST_OK;
    return fast__fail(FAST_EINVAL,
                      "%s=%.80s: give a factor or a step, as %.80sx2 or %.80s+0.1, or search it as "
                      "%.80s:log",
                      option->name, value, value, value, value);
}

/* Read one option to tune into the space. */
static fast_err read_tune(sweep_reader *r, const char *text, fast_search_option *out)
{
    const fast_option *option;
    const char *value;
    fast_words values = { 0 };
    bool range;

    FAST_TRY(split(r, text, &option, &value));
    if (axis_find(r, option->name) || strcmp(option->name, "seed") == 0)
        return fast__fail(FAST_EINVAL, "%s is given and cannot be tuned too; leave one out",
                          option->name);
    if (!*value)
        return fast__fail(FAST_EINVAL, "nothing to try for %s; write %s=0.1,0.2", option->name,
                          option->name);
    out->name = option->name;
    FAST_TRY(check_step(option, value));
    FAST_TRY(read_range(option, value, out, &range));
    fast_err err = range ? fast__words_format(&values, "%.12g", out->low)
                         : fast__sweep_values(option, value, &values);
    if (!err && range)
        err = fast__words_format(&values, "%.12g", out->high);
    for (int64_t i = 0; !err && i < values.count; i++) {
        err = fast__options_set(r->command, r->table, NULL, option->name, values.items[i]);
        if (!err && !range)
            err = fast__words_format(&out->values, "%s=%s", option->name, values.items[i]);
    }
    out->numbers = range || are_numbers(&out->values);
    fast__words_fini(&values);
    return err;
}

/* Refuse an option that is tuned twice. */
static fast_err check_space(const fast_search_space *space)
{
    for (int64_t i = 0; i < space->count; i++) {
        for (int64_t k = 0; k < i; k++)
            if (strcmp(space->options[i].name, space->options[k].name) == 0)
                return fast__fail(FAST_EINVAL, "%s is tuned twice; give all its values at once",
                                  space->options[i].name);
    }
    return FAST_OK;
}

/* Read the tuned options: those given, or the standard learning rates, seven from 0.0125 to 0.8,
 * each twice the one before. Those are for the standard job alone: for a user's data a grid that
 * fits is unknown, and without --tune nothing is tuned. --tune no switches the standard grid
 * off. */
static fast_err read_space(sweep_reader *r, const char *const *tune, bool standard)
{
    const char *const standards[] = { standard_tuning, NULL };
    fast_search_space *space = &r->sweep->space;

    if (!tune && standard && !axis_find(r, "lr"))
        tune = standards;
    if (!tune || !tune[0] || strcmp(tune[0], "no") == 0)
        return FAST_OK;
    for (; tune[space->count];) {
        if (space->count == AXES_MAX)
            return fast__fail(FAST_EINVAL, "more than %d options are tuned", AXES_MAX);
        space->count++; /* before it is read: the caller closes it */
        FAST_TRY(read_tune(r, tune[space->count - 1], &space->options[space->count - 1]));
    }
    return check_space(space);
}

/* A search has one line, and something to search. */
static fast_err check_search(const sweep_reader *r)
{
    const fast_sweep *sweep = r->sweep;

    if (sweep->line_count > 1) {
        const char *first = sweep->lines[0].options.items[0];

        return fast__fail(FAST_EINVAL, "%.*s has several values; search them with --tune %.*s=...",
                          (int)strcspn(first, "="), first, (int)strcspn(first, "="), first);
    }
    if (sweep->space.count == 0)
        return fast__fail(FAST_EINVAL, "nothing to search; write --tune lr=0.001..1:log or --tune "
                                       "batch=8,16,32");
    return FAST_OK;
}

fast_err fast__sweep_open(const fast_compare_config *config, fast_sweep *out)
{
    int64_t part_count = 0;
    sweep_reader *r;
    fast_err err = FAST_OK;

    *out = (fast_sweep){ 0 };
    FAST_TRY(fast__alloc("a sweep", 1, sizeof *r, &r));
    r->table = fast_part_list("train", &part_count)->options;
    r->sweep = out;
    r->command = config->trials_only ? "search" : "compare";
    for (int64_t i = 0; !err && config->options && config->options[i]; i++)
        err = read_option(r, config->options[i]);
    const bool standard = axis_find(r, "data") == NULL;
    if (!err && config->budget && config->budget[0] &&
        (axis_find(r, "steps") || axis_find(r, "epochs")))
        err = fast__fail(FAST_EINVAL, "a budget of %.40s is the end of every run; leave out %s",
                         config->budget, axis_find(r, "steps") ? "steps" : "epochs");
    if (!err)
        err = read_standards(r, config->budget && config->budget[0], config->trials_only);
    if (!err)
        err = combine(r);
    if (!err)
        err = read_space(r, config->tune, standard);
    out->trials_only = config->trials_only;
    if (!err && out->trials_only)
        err = check_search(r);
    for (int64_t i = 0; i < r->count; i++)
        fast__words_fini(&r->axes[i].values);
    fast__free(r);
    if (err)
        fast__sweep_close(out);
    return err;
}

void fast__sweep_close(fast_sweep *sweep)
{
    fast__words_fini(&sweep->job);
    for (int64_t i = 0; i < sweep->line_count; i++) {
        fast__free(sweep->lines[i].name);
        fast__words_fini(&sweep->lines[i].options);
    }
    fast__search_space_fini(&sweep->space);
    fast__free(sweep->lines);
    *sweep = (fast_sweep){ 0 };
}
