/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "split/pipeline.h"
#include "tensor/device.h"

/*
 * Versions of a stage's weights, in a pipeline that is never drained: which of them the passes of a
 * micro-batch read. Version n is that before the update of step n; the newest one is the learner's.
 *
 *   pipedream        both passes read the newest version at the time of the forward pass
 *   vertical sync    both passes read the version that the first stage read
 *   pipedream_2bw    both passes of step n read version n - 1
 *   stale, ampnet    each pass reads the newest version
 */

typedef struct fast_pipe_versions {
    fast_pipe_place place;             /* of the stage */
    fast_pipe_extrapolate extrapolate; /* with `stale` */
    int64_t count;                     /* elements of each version */
    float **older;                     /* [room]: version v is in row v mod room */
    int64_t room;                      /* older versions that are stored; 0: none */
    int64_t begun;                     /* step at which the pipeline was empty */
    float *estimate;                   /* extrapolated weights; NULL: none are */
    float *velocity;                   /* backward: mean change of an update; NULL: none */
} fast_pipe_versions;

/* Allocate for the weights of a stage: `count` elements on a device. FAST_ENOMEM: fini() is still
 * to be called. */
fast_err fast__pipe_versions_init(fast_pipe_versions *versions, const fast_pipe_place *place,
                                  fast_pipe_extrapolate extrapolate, const fast_device *device,
                                  int64_t count);
void fast__pipe_versions_fini(fast_pipe_versions *versions); /* all 0 is allowed */

/* The pipeline is empty at this step: no older version is known. */
void fast__pipe_versions_restart(fast_pipe_versions *versions, int64_t step);
/* A step starts with the newest weights w. */
void fast__pipe_versions_step(fast_pipe_versions *versions, int64_t step, const float *w);

/* Return the version that the passes of micro-batch `number` read if its forward pass is in this
 * step; `first` is that of the first stage, for vertical sync. */
int64_t fast__pipe_version(const fast_pipe_versions *versions, int64_t step, int64_t number,
                           int64_t first);
/* Return the weights of a forward pass, or a backward pass, that were w at this step, lent until
 * the next call. */
const float *fast__pipe_versions_forward(fast_pipe_versions *versions, int64_t step, int64_t number,
                                         int64_t version, const float *w);
const float *fast__pipe_versions_backward(fast_pipe_versions *versions, int64_t step,
                                          int64_t version, const float *w);
/* Return how many updates before `step` the weights of a backward pass were the newest ones. */
int64_t fast__pipe_versions_age(const fast_pipe_versions *versions, int64_t step, int64_t version);
/* The last backward pass of a step does not read a range again: store it, before it is updated. */
void fast__pipe_versions_retain(fast_pipe_versions *versions, int64_t step, const float *w,
                                int64_t offset, int64_t count);

/* Return the bytes of all vectors. */
int64_t fast__pipe_versions_bytes(const fast_pipe_versions *versions);

/* Return what a stage multiplies the learning rate of a step by: staleness^(step / steps - 1), up
 * to 1 at `steps`. */
double fast__pipe_rate(const fast_pipe_place *place, int64_t steps, int64_t step);
