/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Schedules: the learning rate of step s as base * factor(s), a pure function.
 *
 *   base        lr, times global batch / scale where the linear scaling rule is on
 *   s < W       factor = from + (1 - from) (s + 1) / W           W = warmup in steps
 *   constant    1
 *   step        gamma^floor(s / every)                           every in steps, from step 0
 *   polynomial  floor + (1 - floor) (1 - t)^power                t = (s - W) / (steps - W)
 *   cosine      floor + (1 - floor) (1 + cos(pi t)) / 2
 *               with restarts: t = (s - W - B) / T, the k-th lasts T = period grow^k from B on
 *   pieces      f_k from epoch e_k on, f_0 before e_1: the slow start of Akiba et al. 2017
 *   cyclic      floor + (1 - floor) gamma^k (1 - |2 x - 1|)    (s - W) / period = k + x, x < 1
 *
 * The rate falls below its floor only in the warm-up. Linear scaling and warm-up: Goyal et al.,
 * "Accurate, Large Minibatch SGD: Training ImageNet in 1 Hour", 2017; cosine: Loshchilov and
 * Hutter, "SGDR", ICLR 2017; cyclic: Smith, "Cyclical Learning Rates for Training Neural Networks",
 * WACV 2017.
 */
#include "rule/schedule.h"

#include "base/memory.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PIECES_MAX = 16 };

/* One configuration for all kinds: each table names the fields that its kind has. */
typedef struct schedule_config {
    double warmup;              /* epochs */
    double warmup_from;         /* factor before the first step */
    double scale;               /* reference batch of the linear scaling rule; 0: off */
    double gamma;               /* factor of each fall or period */
    double every;               /* epochs */
    double period;              /* epochs */
    double grow;                /* of the period, from one restart to the next */
    double power;               /* of the polynomial */
    double floor;               /* lowest factor */
    char at[64];                /* epochs at which pieces end, with / between */
    char factors[64];           /* of the pieces, with / between */
    double ends[PIECES_MAX];    /* of `at`; after the last, INFINITY */
    double heights[PIECES_MAX]; /* of `factors` */
} schedule_config;

/* Where a run is. */
typedef struct schedule_point {
    double s;           /* the step */
    double from;        /* the first step after the warm-up */
    double t;           /* fraction of the steps from there that is done */
    double epoch_steps; /* steps of an epoch */
} schedule_point;

typedef double schedule_factor_fn(const schedule_config *config, const schedule_point *point);

struct fast_schedule {
    schedule_config config;     /* of its kind */
    schedule_factor_fn *factor; /* of its kind */
    double base;                /* the rate that factors multiply */
    int64_t steps;              /* of the whole run */
    int64_t epoch_steps;        /* of an epoch */
    int64_t warmup;             /* steps */
    const double *live;         /* rate of now instead; or NULL */
};

static double constant_factor(const schedule_config *config, const schedule_point *point)
{
    (void)config;
    (void)point;
    return 1;
}

static double step_factor(const schedule_config *config, const schedule_point *point)
{
    /* The small term puts a fall at its step when `every` is not exact in binary. */
    return pow(config->gamma, floor(point->s / (config->every * point->epoch_steps) + 1e-9));
}

static double polynomial_factor(const schedule_config *config, const schedule_point *point)
{
    return config->floor + (1 - config->floor) * pow(1 - point->t, config->power);
}

/* Return the fraction of the time between two restarts that is done: they are after T, T + T g, ...
 * epochs. The small term puts a restart at its step when T is not exact in binary. */
static double since_restart(const schedule_config *config, const schedule_point *point)
{
    const double length = config->period * point->epoch_steps, grow = config->grow;
    const double times = (point->s - point->from) / length;
    double k;

    if (grow == 1) {
        k = floor(times + 1e-9);
        return fmax(times - k, 0);
    }
    k = floor(log1p(times * (grow - 1)) / log(grow) + 1e-9);
    return fmax((times - (pow(grow, k) - 1) / (grow - 1)) / pow(grow, k), 0);
}

static double cosine_factor(const schedule_config *config, const schedule_point *point)
{
    const double pi = 3.14159265358979323846;
    const double t = config->period > 0 ? since_restart(config, point) : point->t;

    return config->floor + (1 - config->floor) * (1 + cos(pi * t)) / 2;
}

static double cyclic_factor(const schedule_config *config, const schedule_point *point)
{
    const double cycles = (point->s - point->from) / (config->period * point->epoch_steps);
    const double k = floor(cycles);
    const double height = 1 - fabs(2 * (cycles - k) - 1);

    return config->floor + (1 - config->floor) * pow(config->gamma, k) * height;
}

/* The small term puts an end at its step when the epoch is not exact in binary. */
static double pieces_factor(const schedule_config *config, const schedule_point *point)
{
    int k = 0;

    while (point->s / point->epoch_steps + 1e-9 >= config->ends[k])
        k++;
    return config->heights[k];
}

#define SCHEDULE_COMMON                                                                    \
    FAST_OPT_REAL(schedule_config, warmup, "0", 0, 1e6,                                    \
                  "epochs in which the learning rate grows to its value"),                 \
        FAST_OPT_REAL(schedule_config, warmup_from, "0", 0, 1,                             \
                      "start of the warm-up, as a fraction of the learning rate"),         \
        FAST_OPT_REAL(                                                                     \
            schedule_config, scale, "0", 0, 1e9,                                           \
            "linear scaling rule: batch that the learning rate was chosen for; 0 is off"), \
        FAST_OPT_END

static const fast_option constant_options[] = {
    SCHEDULE_COMMON,
};

static const fast_option step_options[] = {
    FAST_OPT_REAL(schedule_config, gamma, "0.1", 0, 1, "factor of each fall"),
    FAST_OPT_REAL(schedule_config, every, "30", 1e-6, 1e6, "epochs between falls"),
    SCHEDULE_COMMON,
};

static const fast_option polynomial_options[] = {
    FAST_OPT_REAL(schedule_config, power, "1", 0, 100, "1 is a straight line, 2 a parabola"),
    FAST_OPT_REAL(schedule_config, floor, "0", 0, 1, "end, as a fraction of the learning rate"),
    SCHEDULE_COMMON,
};

static const fast_option cosine_options[] = {
    FAST_OPT_REAL(schedule_config, floor, "0", 0, 1, "end, as a fraction of the learning rate"),
    FAST_OPT_REAL(schedule_config, period, "0", 0, 1e6,
                  "epochs until the first restart (SGDR); 0: none"),
    FAST_OPT_REAL(schedule_config, grow, "1", 1, 100, "factor of the period at each restart"),
    SCHEDULE_COMMON,
};

static const fast_option cyclic_options[] = {
    FAST_OPT_REAL(schedule_config, period, "4", 1e-6, 1e6, "epochs from one low to the next"),
    FAST_OPT_REAL(schedule_config, floor, "0.1", 0, 1,
                  "lowest value, as a fraction of the learning rate"),
    FAST_OPT_REAL(schedule_config, gamma, "1", 0, 1, "factor of the height at each period"),
    SCHEDULE_COMMON,
};

static const fast_option pieces_options[] = {
    FAST_OPT_TEXT(schedule_config, at, "40/70", NULL,
                  "epochs at which the learning rate changes, with / between"),
    FAST_OPT_TEXT(schedule_config, factors, "0.5/0.1/0.01", NULL,
                  "its fractions before the first change and after each, with / between"),
    SCHEDULE_COMMON,
};

enum { SCHEDULE_COUNT = 6 };

static const fast_part schedule_parts[SCHEDULE_COUNT] = {
    { "constant", "a constant learning rate", constant_options },
    { "step", "falls by a factor every few epochs", step_options },
    { "polynomial", "falls along a power of the time left", polynomial_options },
    { "cosine", "falls along half a cosine, once or with restarts", cosine_options },
    { "cyclic", "rises and falls in triangles", cyclic_options },
    { "pieces", "changes at given epochs (slow start)", pieces_options },
};

/* Of the parts above, in their order. */
static schedule_factor_fn *const schedule_factors[SCHEDULE_COUNT] = {
    constant_factor, step_factor, polynomial_factor, cosine_factor, cyclic_factor, pieces_factor,
};

static const char *part_name_at(const void *ctx, int64_t i)
{
    const fast_part *parts = ctx;

    return parts[i].name;
}

const fast_part *fast__schedule_list(int64_t *count_out)
{
    *count_out = SCHEDULE_COUNT;
    return schedule_parts;
}

/* Read at most `room` numbers with / between. FAST_EINVAL. */
static fast_err list_parse(const char *name, const char *text, int room, double *out,
                           int *count_out)
{
    int count = 0;

    /* strtod() would read hexadecimal numbers, infinities and blanks too. */
    if (strspn(text, "0123456789.eE+-/") != strlen(text))
        return fast__fail(FAST_EINVAL, "schedule pieces: %s=%.60s is no list of numbers", name,
                          text);
    for (const char *at = text; *at;) {
        char *end = NULL;
        const double value = strtod(at, &end);

        if (end == at || !(value >= 0 && value <= 1e9) || (*end && *end != '/') ||
            (*end && !end[1]) || count == room)
            return fast__fail(
                FAST_EINVAL,
                "schedule pieces: %s=%s is no list of at most %d numbers with / between", name,
                text, room);
        out[count++] = value;
        at = *end ? end + 1 : end;
    }
    *count_out = count;
    return FAST_OK;
}

/* Read the pieces: one factor more than changes, which ascend. FAST_EINVAL. */
static fast_err pieces_parse(schedule_config *c)
{
    int ends = 0, heights = 0;

    FAST_TRY(list_parse("at", c->at, PIECES_MAX - 1, c->ends, &ends));
    FAST_TRY(list_parse("factors", c->factors, PIECES_MAX, c->heights, &heights));
    if (heights != ends + 1)
        return fast__fail(FAST_EINVAL,
                          "schedule pieces: %d changes need %d factors, not the %d of factors=%s",
                          ends, ends + 1, heights, c->factors);
    for (int i = 1; i < ends; i++)
        if (!(c->ends[i] > c->ends[i - 1]))
            return fast__fail(FAST_EINVAL, "schedule pieces: the epochs at=%s do not ascend",
                              c->at);
    c->ends[ends] = INFINITY;
    return FAST_OK;
}

/* Parse the kind and the configuration of a spec. */
static fast_err schedule_parse(const char *spec, fast_schedule *schedule)
{
    const char *options;
    char name[32], where[64];
    int64_t kind;

    FAST_TRY(fast__spec_split(spec, name, sizeof name, &options));
    kind = fast__name_find(name, part_name_at, schedule_parts, SCHEDULE_COUNT, NULL);
    if (kind < 0)
        return fast__name_unknown("schedule", name, part_name_at, schedule_parts, SCHEDULE_COUNT);
    snprintf(where, sizeof where, "schedule %s", name);
    fast__options_default(schedule_parts[kind].options, &schedule->config);
    FAST_TRY(fast__options_parse(where, schedule_parts[kind].options, &schedule->config, options));
    schedule->factor = schedule_factors[kind];
    if (schedule->factor == pieces_factor)
        FAST_TRY(pieces_parse(&schedule->config));
    if (schedule->config.grow > 1 && schedule->config.period == 0)
        return fast__fail(FAST_EINVAL, "%s: grow=%g is for restarts; give period too", where,
                          schedule->config.grow);
    return FAST_OK;
}

fast_err fast__schedule_new(const fast_schedule_options *options, fast_schedule **out)
{
    fast_schedule parsed = { 0 };
    fast_schedule *schedule;
    double warmup;

    FAST_TRY(schedule_parse(options->spec ? options->spec : "constant", &parsed));
    if (!(options->lr >= 0 && options->lr <= 1e30))
        return fast__fail(FAST_EINVAL, "a learning rate of %g; it must be 0 or more", options->lr);
    if (options->epoch_steps < 1 || options->steps < 0)
        return fast__fail(FAST_EINVAL, "a schedule needs an epoch of at least one step, not %lld",
                          (long long)options->epoch_steps);
    if (parsed.config.scale > 0 && options->global_batch < 1)
        return fast__fail(FAST_EINVAL, "the linear scaling rule needs a global batch");

    parsed.base = options->lr;
    parsed.live = options->live;
    if (parsed.config.scale > 0)
        parsed.base *= (double)options->global_batch / parsed.config.scale;
    parsed.steps = options->steps;
    parsed.epoch_steps = options->epoch_steps;
    warmup = rint(parsed.config.warmup * (double)options->epoch_steps);
    parsed.warmup = warmup < 1e15 ? (int64_t)warmup : (int64_t)1e15;

    FAST_TRY(fast__alloc("schedule", 1, sizeof *schedule, &schedule));
    *schedule = parsed;
    *out = schedule;
    return FAST_OK;
}

void fast__schedule_free(fast_schedule *schedule)
{
    fast__free(schedule);
}

bool fast__schedule_is_live(const fast_schedule *schedule)
{
    return schedule->live != NULL;
}

double fast__schedule_lr(const fast_schedule *schedule, int64_t step)
{
    const schedule_config *config = &schedule->config;
    const double left = (double)(schedule->steps - schedule->warmup);
    schedule_point point = {
        .s = (double)step,
        .from = (double)schedule->warmup,
        .epoch_steps = (double)schedule->epoch_steps,
    };

    FAST_ASSERT(step >= 0);
    if (schedule->live) /* the learner writes it between two steps, on a thread of its own */
        return *(const volatile double *)schedule->live;
    if (step < schedule->warmup)
        return schedule->base *
               (config->warmup_from +
                (1 - config->warmup_from) * (double)(step + 1) / (double)schedule->warmup);
    /* A run that continues after its last step has the last learning rate. */
    point.t = left > 0 ? fmin((point.s - point.from) / left, 1) : 1;
    return schedule->base * schedule->factor(config, &point);
}
