/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Numbers of a checkpoint in a run of other workers. A model that is split over workers
 * and one that is whole take the same steps with as many replicas:
 *
 *     workers=2                          2 replicas, each batch counted once
 *     mesh=data=2,pipe=3   workers=6     2 replicas, each batch counted three times
 *
 * Replicas of single stages take the batches of one worker round-robin. Each tells the mean loss of
 * its own, so that losses are counted by workers, and answers by stages:
 *
 *     mesh=pipe=2,replicas=3x1   workers=4   1 replica, four losses a step, each answer twice
 */
#include "run/checkpoint/moved.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static const char *get_saved(const fast_tensors *tensors, const char *key)
{
    const char *value = fast__tensors_meta(tensors, key);
    return value ? value : "";
}

/* Read the workers and the mesh of a checkpoint, of which a whole model has one stage; false if it
 * has none, or others than a run can have. */
static bool read_mesh(const fast_tensors *tensors, int64_t *workers_out, fast_mesh *out)
{
    const char *mesh = get_saved(tensors, "option.mesh");
    int64_t workers = 0;

    if (sscanf(get_saved(tensors, "option.workers"), "%" SCNd64, &workers) != 1 || workers < 1 ||
        workers > INT32_MAX)
        return false;
    *workers_out = workers;
    *out = (fast_mesh){ .data = workers, .pipe = 1, .tensor = 1 };
    return !mesh[0] || fast__mesh_parse(mesh, workers, out) == FAST_OK;
}

int64_t fast__moved_replicas(const fast_tensors *tensors)
{
    int64_t workers;
    fast_mesh mesh;

    return read_mesh(tensors, &workers, &mesh) ? mesh.data : 0;
}

bool fast__moved_flushed(const fast_run *run, const fast_tensors *tensors)
{
    static const char *const flushed[] = { "1f1b", "gpipe", "interleaved", "zero_bubble" };
    const char *theirs = get_saved(tensors, "option.pipeline");
    bool found = !theirs[0];

    for (size_t i = 0; i < sizeof flushed / sizeof flushed[0]; i++)
        found = found || strcmp(theirs, flushed[i]) == 0;
    return found && fast__pipe_drains((fast_pipeline)run->config.pipeline);
}

int64_t fast__moved_step(const fast_run *run, const fast_tensors *tensors, int64_t step)
{
    const int64_t theirs = fast__moved_replicas(tensors);

    return theirs < 1 ? step : step * theirs / run->config.replicas;
}

fast_run_sums fast__moved_sums(const fast_run *run, const fast_tensors *tensors, fast_run_sums sums)
{
    const fast_run_config *c = &run->config;
    const int64_t copies = c->mesh[0] ? c->split.pipe * c->split.tensor : 1;
    int64_t workers = 0;
    fast_mesh mesh;

    if (!read_mesh(tensors, &workers, &mesh) || mesh.data != c->replicas)
        return sums;
    const int64_t theirs = mesh.pipe * mesh.tensor;
    if (workers == c->workers && theirs == copies)
        return sums;
    return (fast_run_sums){ .loss = sums.loss * (double)c->workers / (double)workers,
                            .batches = sums.batches * c->workers / workers,
                            .correct = sums.correct * copies / theirs,
                            .positions = sums.positions * copies / theirs };
}
