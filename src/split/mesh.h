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
 */
typedef struct fast_mesh {
    int64_t data;   /* replicas; 0 while it is to follow from the number of workers */
    int64_t pipe;   /* stages of a replica */
    int64_t tensor; /* shards of a stage */
} fast_mesh;

/* The options of a mesh, for help. */
extern const fast_option fast__mesh_options[];

/* Parse "data=2,pipe=3,tensor=2"; a dimension that is left out is 1, or for `data` what `workers`
 * leaves; with workers=1, the default, it is 1. FAST_EINVAL if the product is not the number of
 * workers. */
fast_err fast__mesh_parse(const char *spec, int64_t workers, fast_mesh *out);

/* Return the number of workers of a mesh. */
int64_t fast__mesh_size(const fast_mesh *mesh);

/* Coordinates of a worker. */
typedef struct fast_mesh_place {
    int64_t data;   /* which replica */
    int64_t pipe;   /* which stage of it, from the input on */
    int64_t tensor; /* which shard of that */
} fast_mesh_place;

/* Return the place of a worker, and the worker of a place. */
fast_mesh_place fast__mesh_place(const fast_mesh *mesh, int64_t worker);
int64_t fast__mesh_worker(const fast_mesh *mesh, fast_mesh_place place);
