/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Random fault schedules by swarm testing (Groce et al., ISSTA 2012): each seed draws from a random
 * half of the kinds of faults, because the absence of one kind reveals errors that its presence
 * hides. The schedule depends on the seed, the options and the number of nodes alone. Times are
 * thousandths of the span, so that they are short texts.
 */
#include "base/memory.h"
#include "base/option.h"
#include "base/rng.h"
#include "transport/sim/fault.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

typedef struct random_config {
    int64_t count;   /* number of faults */
    char kinds[256]; /* "crash+pause", or "all" */
    char span[32];   /* faults start before this time */
} random_config;

static const fast_option options_table[] = {
    FAST_OPT_INT(random_config, count, "3", 1, 1000, "how many faults"),
    FAST_OPT_TEXT(random_config, kinds, "all", NULL, "which, like crash+pause; all: a random half"),
    FAST_OPT_TEXT(random_config, span, "10s", NULL, "they begin before this time"),
    FAST_OPT_END,
};

enum {
    PARTS = 1000,       /* times are multiples of span / PARTS */
    LENGTH_PARTS = 500, /* a fault lasts at most half of the span */
    TRIES_MAX = 32      /* draws for each fault */
};

/* The state of a draw. */
typedef struct fault_drawer {
    fast_rng rng;                   /* random stream of the schedule */
    int64_t node_count;             /* nodes of the cluster */
    int64_t span;                   /* nanoseconds */
    bool allowed[FAST_FAULT_KINDS]; /* kinds to draw from */
    fast_faults *faults;            /* drawn so far, with room for more */
} fault_drawer;

/* Return whether a kind affects links, so that it needs two nodes. */
static bool needs_two(fast_fault_kind kind)
{
    return kind == FAST_FAULT_CUT || kind == FAST_FAULT_PARTITION || kind == FAST_FAULT_LOSSY;
}

/* Return a random number in [0, bound). */
static int64_t below(fault_drawer *d, int64_t bound)
{
    return (int64_t)fast__rng_below(&d->rng, (uint64_t)bound);
}

static const char *kind_name_at(const void *ctx, int64_t i)
{
    (void)ctx;
    return fast__fault_kind_name((fast_fault_kind)i);
}

/* Parse a set of kinds: "crash+pause". */
static fast_err kinds_read(fault_drawer *d, const char *text)
{
    while (*text) {
        char name[32];
        const size_t size = strcspn(text, "+");
        snprintf(name, sizeof name, "%.*s", (int)(size < 31 ? size : 31), text);
        const int64_t kind = fast__name_find(name, kind_name_at, NULL, FAST_FAULT_KINDS, NULL);
        if (kind < 0)
            return fast__name_unknown("fault", name, kind_name_at, NULL, FAST_FAULT_KINDS);
        d->allowed[kind] = true;
        text += size + (text[size] == '+');
    }
    if (d->allowed[FAST_FAULT_RESTART] && !d->allowed[FAST_FAULT_CRASH])
        return fast__fail(FAST_EINVAL, "faults random: restart needs crash among the kinds too");
    return FAST_OK;
}

/* Draw a random half of all kinds, at least one. */
static void kinds_draw(fault_drawer *d)
{
    int64_t count = 0;
    for (int kind = 0; kind < FAST_FAULT_KINDS; kind++) {
        d->allowed[kind] = below(d, 2) == 1 && !(d->node_count < 2 && needs_two(kind));
        count += d->allowed[kind];
    }
    if (d->allowed[FAST_FAULT_RESTART])
        d->allowed[FAST_FAULT_CRASH] = true;
    if (count == 0)
        d->allowed[FAST_FAULT_CRASH] = true;
}

/* Draw the length of a fault. */
static int64_t length_draw(fault_drawer *d)
{
    const int64_t length = d->span / PARTS * (1 + below(d, LENGTH_PARTS));
    return length > 0 ? length : 1;
}

/* Draw two sides with at least one node each, of all nodes or of a few in large clusters. */
static void sides_draw(fault_drawer *d, fast_fault *fault)
{
    enum { NAMED_MAX = 8 };
    const int64_t named = d->node_count < NAMED_MAX ? d->node_count : NAMED_MAX;
    const int64_t first = below(d, d->node_count - named + 1);
    const int64_t split = 1 + below(d, named - 1);
    fault->side_first = d->faults->side_count;
    fault->side_count = named;
    fault->one_way = below(d, 3) == 0;
    for (int64_t i = 0; i < named; i++)
        d->faults->sides[d->faults->side_count++] = (fast_fault_side){ first + i, i >= split };
}

/* Draw a restart of a node that has crashed; without such a node it becomes a crash. */
static void restart_draw(fault_drawer *d, fast_fault *fault)
{
    const fast_fault *crash = NULL;
    for (int64_t i = 0; i < d->faults->count; i++)
        if (d->faults->list[i].kind == FAST_FAULT_CRASH)
            crash = &d->faults->list[i];
    fault->kind = FAST_FAULT_CRASH;
    if (!crash)
        return;
    fault->kind = FAST_FAULT_RESTART;
    fault->node = crash->node;
    fault->at = crash->at + length_draw(d);
}

/* Draw a fault of a kind. */
static fast_fault fault_draw(fault_drawer *d, fast_fault_kind kind)
{
    fast_fault fault = { .kind = kind, .other = -1 };
    fault.at = d->span / PARTS * below(d, PARTS);
    fault.node = below(d, d->node_count);
    switch (kind) {
    case FAST_FAULT_RESTART:
        restart_draw(d, &fault);
        break;
    case FAST_FAULT_SLOW:
        fault.length = length_draw(d);
        fault.by = (double)(2 + below(d, 30));
        break;
    case FAST_FAULT_LOSSY:
    case FAST_FAULT_CUT:
        fault.length = length_draw(d);
        fault.other = (fault.node + 1 + below(d, d->node_count - 1)) % d->node_count;
        fault.one_way = below(d, 3) == 0;
        if (kind == FAST_FAULT_LOSSY)
            fault.by = (double)(1 + below(d, 10)) / 20;
        break;
    case FAST_FAULT_PARTITION:
        fault.length = length_draw(d);
        fault.node = -1;
        sides_draw(d, &fault);
        break;
    case FAST_FAULT_JUMP:
        fault.jump = length_draw(d) * (below(d, 2) == 0 ? 1 : -1);
        break;
    case FAST_FAULT_LIE:
        fault.length = length_draw(d);
        fault.how = (fast_lie)below(d, FAST_LIE_NAN + 1);
        break;
    case FAST_FAULT_PAUSE:
        fault.length = length_draw(d);
        break;
    default:
        break;
    }
    return fault;
}

/* Draw until there are `count` faults that do not contradict each other, or too many draws failed.
 * */
static void faults_draw(fault_drawer *d, int64_t count)
{
    fast_faults *faults = d->faults;
    int64_t tries = 0;
    while (faults->count < count && tries < TRIES_MAX * count) {
        const fast_fault_kind kind = (fast_fault_kind)below(d, FAST_FAULT_KINDS);
        const int64_t side_count = faults->side_count;
        tries++;
        if (!d->allowed[kind] || (d->node_count < 2 && needs_two(kind)))
            continue;
        faults->list[faults->count++] = fault_draw(d, kind);
        if (fast__faults_check(faults) != FAST_OK) {
            faults->count--;
            faults->side_count = side_count;
        }
    }
}

fast_err fast__faults_random(const char *options, uint64_t seed, int64_t node_count,
                             fast_faults **out)
{
    FAST_ASSERT(node_count > 0);
    random_config config;
    fault_drawer d = { .node_count = node_count };
    fast__options_default(options_table, &config);
    FAST_TRY(fast__options_parse("faults random", options_table, &config, options));
    FAST_TRY(fast__time_parse("span", config.span, &d.span));
    if (d.span < PARTS)
        return fast__fail(FAST_EINVAL, "faults random: span is at least 1us, not %s", config.span);
    fast__rng_init(&d.rng, seed, FAST_PURPOSE_FAULT, (uint64_t)node_count, 0, 0);
    if (strcmp(config.kinds, "all") == 0)
        kinds_draw(&d);
    else
        FAST_TRY(kinds_read(&d, config.kinds));
    FAST_TRY(fast__faults_new(config.count, config.count * 8, &d.faults));
    faults_draw(&d, config.count);
    *out = d.faults;
    return FAST_OK;
}
