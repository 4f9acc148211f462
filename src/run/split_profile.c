/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Stages by measured profiles, as PipeDream makes them (Narayanan et al. 2019): the time of each
 * piece between two places where the network can be cut, forward and backward, and from those the
 * partition whose slowest stage is the fastest (split/partition.c).
 *
 *     conv1 relu pool | conv2 relu pool | dense1 relu | dense2     pieces
 *        3.1 ms              4.0 ms          0.7 ms      0.1 ms    measured
 *                       |                                          2 stages: 3.1 and 4.8 ms
 *
 * A piece begins with a layer that has parameters, whose name is that of the cut before it. It is
 * compiled and timed by itself, for a micro-batch of the run (pass_trial.h), once on a machine: the
 * plan file has a line for each network and size, so that later runs have the same stages:
 *
 *     piece 1 <hash of the piece> 16 <engine> <method> <libraries>\t<seconds> s
 *
 * A boundary is charged for the activations and their gradients, which both sides move through
 * memory, as in split/cost.c.
 */
#include "run/split_profile.h"

#include "base/log.h"
#include "base/memory.h"
#include "engine/cpu/gemm.h"
#include "engine/cpu/plan.h"
#include "run/pass_trial.h"
#include "split/named_cuts.h"
#include "split/partition.h"
#include "split/stage.h"

#include <stdio.h>

enum { KEY_MAX = 512, MOVES = 4 }; /* bytes of a line's key; floats moved for each that crosses */

/* A profile under way. */
typedef struct split_profile {
    fast_run *run;               /* whose network it is */
    fast_engine_options options; /* of its programs */
    fast_conv_plan *plan;        /* where times are read and written */
    int *ends;                   /* [count] last node of each piece */
    double *seconds;             /* [count] of a pass through each piece */
    double *crossing;            /* [count] of moving what leaves it */
    int64_t *last;               /* [stages] the last piece of each */
    int64_t count;               /* pieces */
} split_profile;

/* Time a piece. */
static fast_err measure(const split_profile *p, const fast_graph *graph, double *seconds_out)
{
    fast_pass_trial trial = { 0 };
    fast_err err = p->run->engine->compile(graph, &p->options, &trial.program);

    FAST_ASSERT(p->options.batch > 0);
    if (!err)
        err = fast__pass_trial_open(graph, &trial);
    if (!err)
        err = fast__pass_trial_time(&trial, seconds_out);
    fast__pass_trial_close(&trial);
    return err;
}

/* Read a piece's line of the plan, or measure it and write the line. */
static fast_err look_up(const split_profile *p, const fast_graph *graph, double *seconds_out)
{
    char machine[KEY_MAX / 2], key[KEY_MAX], text[64];

    fast__gemm_machine(machine, sizeof machine);
    snprintf(key, sizeof key, "piece 1 %016llx %lld %s %s %s",
             (unsigned long long)fast__pass_trial_hash(graph), (long long)p->options.batch,
             p->run->engine->name, p->options.method ? p->options.method : "auto", machine);
    const char *line = fast__plan_get(p->plan, key);
    if (line && sscanf(line, "%lf s", seconds_out) == 1 && *seconds_out > 0 && *seconds_out < 1e6)
        return FAST_OK;
    fast__log(FAST_LOG_INFO, "measuring a piece of %d layer%s, once", graph->node_count - 1,
              graph->node_count == 2 ? "" : "s");
    FAST_TRY(measure(p, graph, seconds_out));
    snprintf(text, sizeof text, "%.9f s", *seconds_out);
    return fast__plan_put(p->plan, key, text);
}

/* Time all pieces. */
static fast_err measure_all(split_profile *p)
{
    const fast_graph *graph = p->run->graph;

    for (int64_t i = 0; i < p->count; i++) {
        const int first = i > 0 ? p->ends[i - 1] : 0;
        const double floats = (double)(p->options.batch * graph->nodes[p->ends[i]].count);
        fast_split_stage *piece = NULL;

        FAST_TRY(fast__split_stage_new(graph, first, p->ends[i], &piece));
        const fast_err err = look_up(p, &piece->graph, &p->seconds[i]);
        fast__split_stage_free(piece);
        FAST_TRY(err);
        p->crossing[i] = MOVES * floats * (double)sizeof(float) / fast__split_speed_typical.bytes;
    }
    return FAST_OK;
}

/* Replace the option by the names of the cuts that were chosen. */
static void write_cuts(const split_profile *p, int64_t stages)
{
    char *text = p->run->config.cuts;
    const size_t size = sizeof p->run->config.cuts;
    size_t used = 0;

    FAST_ASSERT(stages >= 1);
    text[0] = '\0';
    for (int64_t s = 0; s < stages - 1 && used < size; s++) {
        char name[64];

        fast__split_cut_name(p->run->graph, p->ends[p->last[s]], name, sizeof name);
        used += (size_t)snprintf(text + used, size - used, "%s%s", s > 0 ? "," : "", name);
    }
}

/* Measure, divide and name. */
static fast_err choose(split_profile *p, int64_t stages, const int16_t *replicas, int *ends)
{
    FAST_TRY(fast__plan_open(p->options.plan_path, &p->plan));
    const fast_err err = measure_all(p);
    fast__plan_close(p->plan);
    FAST_TRY(err);
    FAST_TRY(fast__split_partition(p->seconds, p->crossing, p->count, replicas, stages, p->last));
    for (int64_t s = 0; s < stages; s++)
        ends[s] = p->ends[p->last[s]];
    write_cuts(p, stages);
    return FAST_OK;
}

/* List the pieces: one behind each cut that has a name, and the first. */
static fast_err list_pieces(split_profile *p, int64_t stages)
{
    const fast_graph *graph = p->run->graph;

    FAST_TRY(fast__alloc("pieces", graph->node_count + 1, sizeof *p->ends, &p->ends));
    p->count = fast__split_cut_list(graph, p->ends);
    p->ends[p->count++] = graph->node_count - 1;
    if (p->count < stages)
        return fast__fail(FAST_EINVAL,
                          "cuts=measured: the model has %lld places before layers where one tensor "
                          "passes, and %lld stages need %lld; use fewer stages",
                          (long long)p->count - 1, (long long)stages, (long long)stages - 1);
    FAST_TRY(fast__alloc("times of pieces", p->count, sizeof *p->seconds, &p->seconds));
    FAST_TRY(fast__alloc("times of boundaries", p->count, sizeof *p->crossing, &p->crossing));
    return fast__alloc("stages", stages, sizeof *p->last, &p->last);
}

fast_err fast__split_measured(fast_run *run, int64_t count, const int16_t *replicas, int *ends)
{
    split_profile p = { .run = run, .options = fast__run_engine_options(run) };

    FAST_ASSERT(count >= 1 && ends != NULL);
    if (fast__graph_has_heads(run->graph))
        return fast__fail(FAST_EINVAL, "cuts=measured times the layers of a chain, and this model "
                                       "has heads on the way; name the cuts");
    p.options.recompute = run->config.recompute == FAST_RUN_RECOMPUTE_YES;
    fast_err err = list_pieces(&p, count);
    if (!err)
        err = choose(&p, count, replicas, ends);
    fast__free(p.ends);
    fast__free(p.seconds);
    fast__free(p.crossing);
    fast__free(p.last);
    return err;
}
