/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "base/option.h"

/*
 * A mesh: the workers of a run as a product of dimensions. Along `data` they have copies of one
 * part of the model and different samples, and a strategy makes them cooperate; along `pipe` they
 * have consecutive stages of the model; along `tensor` shards of the tensors of one stage. Workers
 * are numbered with the last dimension fastest:
 *
 *     data=2,pipe=3       worker   0  1  2   3  4  5
 *                         data     0  0  0   1  1  1
 *                         pipe     0  1  2   0  1  2
 *
 * Stages may have replicas of their own, which take the micro-batches of one pipeline round-robin.
 * Then those of a stage are neighbours:
 *
 *     pipe=3,replicas=3x1x2    worker   0  1  2   3   4  5
 *                              replica  0  1  2   0   0  1
 *                              pipe     0  0  0   1   2  2
 */
enum {
    FAST_MESH_STAGES_MAX = 32,    /* stages with replicas of their own */
    FAST_MESH_REPLICAS_MAX = 1024 /* of one of them */
};

typedef struct fast_mesh {
    int64_t data;   /* replicas of all stages; 0 while it is to follow from the number of workers;
                          1 with `counts` */
    int64_t pipe;   /* stages of a replica */
    int64_t tensor; /* shards of a stage */
    char replicas[96]; /* of each stage, "3x1x2"; "": of all stages as many */
    int16_t
        counts[FAST_MESH_STAGES_MAX]; /* [pipe] `replicas` as numbers; [0] = 0: none are given */
} fast_mesh;

/* The options of a mesh, for help. */
extern const fast_option fast__mesh_options[];

/* Parse "data=2,pipe=3,tensor=2"; a dimension that is left out is 1, or for `data` what `workers`
 * leaves; with workers=0, which stands for any number, it is 1. Or "pipe=2,replicas=3x1".
 * FAST_EINVAL if these are not as many workers, or not as many stages. */
fast_err fast__mesh_parse(const char *spec, int64_t workers, fast_mesh *out);

/* Set the dimensions of a mesh that a text gives, and leave the others as they are. FAST_EINVAL. */
fast_err fast__mesh_given(const char *spec, fast_mesh *mesh);

/* Return the number of workers of a mesh. */
int64_t fast__mesh_size(const fast_mesh *mesh);

/* Return the number of replicas of a stage. */
int64_t fast__mesh_replicas(const fast_mesh *mesh, int64_t stage);

/* Coordinates of a worker. */
typedef struct fast_mesh_place {
    int64_t data;   /* which replica, of the model or of the stage */
    int64_t pipe;   /* which stage of it, from the input on */
    int64_t tensor; /* which shard of that */
} fast_mesh_place;

/* Return the place of a worker, and the worker of a place. */
fast_mesh_place fast__mesh_place(const fast_mesh *mesh, int64_t worker);
int64_t fast__mesh_worker(const fast_mesh *mesh, fast_mesh_place place);
