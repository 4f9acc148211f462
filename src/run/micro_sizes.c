/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The option micro_batch: the sizes of the micro-batches that a pass is computed in.
 *
 *     N       as many micro-batches of N samples as the batch has, and one of the rest
 *     auto    the fastest by measurement (engine/micro_batch.h), among the whole batch and 16, 32,
 *             48, 64, 96, ... samples: whole vectors of lanes
 *
 * A size is measured once on a machine, with its kernels as the plan chooses them for it: the
 * shortest of a few passes, forward and backward, in time of the processor, and the time of adding
 * its gradient to a sum. The plan file has a line for each network and size:
 *
 *     micro 1 <hash of the network> 32 <engine> <method> <libraries>\t<seconds> s <bytes> bytes
 *
 * Where the memory is limited, a size is compiled first, which tells the bytes of its workspace and
 * allocates none: sizes that do not fit are never run, so the process does not exceed its limit for
 * a measurement. They are not written either, since another limit may admit them.
 *
 * A batch is only cut where that saves at least a twentieth, and with auto only where the gradient
 * stays the same to rounding: batch norm over whole batches is not.
 */
#include "run/micro_sizes.h"

#include "base/log.h"
#include "base/memory.h"
#include "base/option.h"
#include "engine/cpu/gemm.h"
#include "engine/cpu/plan.h"
#include "run/pass_trial.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { KEY_MAX = 512 }; /* bytes of a line's key */

static const int64_t step_sizes[] = { 16,  32,  48,  64,   96,   128,  192, 256,
                                      384, 512, 768, 1024, 1536, 2048, 3072 };
static const double WORTH = 0.95; /* of the whole batch's time, at most */

bool fast__run_has_micro(const fast_run *run)
{
    return strcmp(run->config.micro_batch, "no") != 0;
}

/* Measure a size, unless its workspace does not fit: its seconds are then INFINITY. */
static fast_err measure(const fast_run *run, const fast_engine_options *options, int64_t room,
                        fast_micro_size *size)
{
    fast_engine_options own = *options;
    fast_pass_trial trial = { 0 };

    own.batch = size->count;
    size->seconds = INFINITY;
    fast_err err = run->engine->compile(run->graph, &own, &trial.program);
    if (!err)
        size->memory = trial.program->memory;
    if (!err && (room == 0 || size->memory <= room)) {
        err = fast__pass_trial_open(run->graph, &trial);
        if (!err)
            err = fast__pass_trial_time(&trial, &size->seconds);
    }
    fast__pass_trial_close(&trial);
    return err;
}

/* Read a size's line of the plan, or measure it and write the line. */
static fast_err look_up(const fast_run *run, const fast_engine_options *options, int64_t room,
                        fast_conv_plan *plan, fast_micro_size *size)
{
    char machine[KEY_MAX / 2], key[KEY_MAX], text[64];
    long long bytes = 0;

    fast__gemm_machine(machine, sizeof machine);
    snprintf(key, sizeof key, "micro 1 %016llx %lld %s %s %s",
             (unsigned long long)fast__pass_trial_hash(run->graph), (long long)size->count,
             run->engine->name, options->method ? options->method : "auto", machine);
    const char *line = fast__plan_get(plan, key);
    if (line && sscanf(line, "%lf s %lld bytes", &size->seconds, &bytes) == 2 &&
        size->seconds > 0 && size->seconds < 1e6 && bytes > 0) {
        size->memory = bytes;
        return FAST_OK;
    }
    fast__log(FAST_LOG_INFO, "measuring a pass of %lld samples, once", (long long)size->count);
    FAST_TRY(measure(run, options, room, size));
    if (!isfinite(size->seconds))
        return FAST_OK;
    snprintf(text, sizeof text, "%.9f s %lld bytes", size->seconds, (long long)size->memory);
    return fast__plan_put(plan, key, text);
}

/* Micro-batches of `size` samples, and a last one of the rest. */
static fast_err cut_evenly(int64_t batch, int64_t size, fast_micro_plan *out)
{
    const int64_t count = (batch + size - 1) / size;

    FAST_ASSERT(size > 0 && size <= batch);
    if (count > FAST_MICRO_PARTS_MAX)
        return fast__fail(FAST_EINVAL,
                          "micro_batch=%lld cuts a batch of %lld into %lld parts, of at most %d; "
                          "take larger ones",
                          (long long)size, (long long)batch, (long long)count,
                          FAST_MICRO_PARTS_MAX);
    *out = (fast_micro_plan){ .part_count = (int)count };
    for (int64_t i = 0; i < count; i++)
        out->parts[i] = i < count - 1 || batch % size == 0 ? size : batch % size;
    return FAST_OK;
}

/* The times of all sizes that the gradient allows; the last is the whole batch. */
static fast_err all_sizes(const fast_run *run, const fast_engine_options *options, int64_t room,
                          fast_micro_size sizes[FAST_MICRO_SIZES_MAX], int *count_out)
{
    const int64_t batch = options->batch;
    fast_conv_plan *plan = NULL;
    fast_err err = FAST_OK;
    int count = 0;

    /* From the smallest to the whole batch, which is always allowed. */
    _Static_assert(sizeof step_sizes / sizeof *step_sizes < FAST_MICRO_SIZES_MAX,
                   "all sizes and the batch fit");
    for (size_t i = 0; i < sizeof step_sizes / sizeof *step_sizes; i++)
        if (step_sizes[i] < batch && fast__micro_is_exact(run->graph, step_sizes[i]))
            sizes[count++] = (fast_micro_size){ .count = step_sizes[i] };
    sizes[count++] = (fast_micro_size){ .count = batch };
    *count_out = count;
    if (count == 1)
        return FAST_OK;
    FAST_TRY(fast__plan_open(options->plan_path, &plan));
    for (int i = 0; i < count && !err; i++)
        err = look_up(run, options, room, plan, &sizes[i]);
    fast__plan_close(plan);
    return err;
}

/* Write "32 + 32" or "12 x 32 + 16" of the micro-batches. */
static void write_parts(const fast_micro_plan *plan, char *text, size_t size)
{
    size_t at = 0;

    FAST_ASSERT(size > 0);
    text[0] = '\0';
    for (int i = 0, same; i < plan->part_count && at < size; i += same) {
        for (same = 1; i + same < plan->part_count && plan->parts[i + same] == plan->parts[i];)
            same++;
        if (i > 0)
            at += (size_t)snprintf(text + at, size - at, " + ");
        if (same > 1 && at < size)
            at += (size_t)snprintf(text + at, size - at, "%d x ", same);
        if (at < size)
            at += (size_t)snprintf(text + at, size - at, "%lld", (long long)plan->parts[i]);
    }
}

/* Choose the fastest micro-batches, and tell what was found: the sizes, their time and that of the
 * whole batch, or why the batch stays whole. */
static fast_err choose(fast_run *run, const fast_engine_options *options, int64_t room,
                       fast_micro_plan *out)
{
    fast_micro_size sizes[FAST_MICRO_SIZES_MAX], fitting[FAST_MICRO_SIZES_MAX];
    char *note = run->text.micro_note, parts[128];
    const size_t note_size = sizeof run->text.micro_note;
    int count = 0, fit = 0;

    FAST_TRY(all_sizes(run, options, room, sizes, &count));
    const fast_micro_size whole = sizes[count - 1];
    if (count == 1) {
        snprintf(note, note_size,
                 options->batch > step_sizes[0]
                     ? "the batch is computed whole: batch norm needs all of it"
                     : "the batch is computed whole: it is small");
        return cut_evenly(options->batch, options->batch, out);
    }
    for (int i = 0; i < count; i++)
        if (isfinite(sizes[i].seconds) && (room == 0 || sizes[i].memory <= room))
            fitting[fit++] = sizes[i];
    /* Nothing fits: the smallest is compiled to recompute activations. */
    if (fit == 0)
        return cut_evenly(options->batch, sizes[0].count, out);
    FAST_TRY(fast__micro_choose(fitting, fit, options->batch, room, out));
    /* Without a saving that is larger than what measurements vary by, the batch stays whole. */
    const bool fits = isfinite(whole.seconds) && (room == 0 || whole.memory <= room);
    if (fits && out->seconds > WORTH * whole.seconds) {
        snprintf(note, note_size,
                 "the batch is computed whole: micro-batches take %.3g ms instead "
                 "of %.3g ms",
                 1e3 * out->seconds, 1e3 * whole.seconds);
        return cut_evenly(options->batch, options->batch, out);
    }
    write_parts(out, parts, sizeof parts);
    const int used = snprintf(note, note_size, "micro-batches of %s samples: %.3g ms", parts,
                              1e3 * out->seconds);
    if (fits)
        snprintf(note + used, note_size - (size_t)used, " instead of %.3g ms", 1e3 * whole.seconds);
    return FAST_OK;
}

fast_err fast__run_micro_parts(fast_run *run, const fast_engine_options *options, int64_t room,
                               fast_micro_plan *out)
{
    const char *text = run->config.micro_batch;
    int64_t size = options->batch;

    FAST_ASSERT(run->graph != NULL && run->engine != NULL);
    if (strcmp(text, "auto") == 0)
        return choose(run, options, room, out);
    if (fast__run_has_micro(run))
        FAST_TRY(fast__parse_int("micro_batch", text, &size));
    if (size < 1 || size > options->batch)
        return fast__fail(FAST_EINVAL,
                          "micro_batch=%s is not between 1 and the batch, %lld; write auto or no "
                          "for others",
                          text, (long long)options->batch);
    if (!fast__micro_is_exact(run->graph, size) && size < options->batch)
        snprintf(run->text.micro_note, sizeof run->text.micro_note,
                 "batch norm sees the %lld samples of a micro-batch at a time, instead of %lld",
                 (long long)size, (long long)options->batch);
    return cut_evenly(options->batch, size, out);
}
