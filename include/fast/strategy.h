/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * strategy.h - how actors cooperate: groups and their collectives, topologies, and spaces, the
 * tensor-moving interface, useful without a strategy or a model. The rules of fast.h and actor.h
 * hold; examples/04_space.c is a whole program.
 *
 *   Numbers    Vectors are float. A NULL vector with a count moves sizes without values: what the
 *              exchange costs can be simulated without the memory that it would take.
 *   Order      Sums follow one canonical order: with n = 2^k + r members, ranks 2i and 2i+1 are
 *              added first for i < r; then the 2^k sums as a perfect binary tree, element by
 *              element. tree, butterfly, rabenseifner and direct compute exactly it; ring, native
 *              and hierarchical with members that are not whole aligned powers of two do not.
 *   Deadlines  As in actor.h. A collective that failed leaves its group unusable: make a new one
 *              with the next generation.
 */

#include "fast/actor.h"

#ifdef __cplusplus
extern "C" {
#endif

/* An ordered, immutable set of actors with a generation. */
typedef struct fast_group fast_group;

/* Every member makes the group with the same list and the same generation (from 1); two groups of
 * the same list and generation are two, made in the same order by all. Messages of older
 * generations between members are dropped and counted from then on. FAST_EINVAL if the actor is not
 * in the list, or the list names one twice. The group borrows the actor. */
FAST_API FAST_MUST_CHECK fast_err fast_group_new(fast_actor *actor, const int64_t *ids,
                                                 int64_t count, uint32_t generation,
                                                 fast_group **out);
/* All actors of a role, or all where role is NULL, as generation 1. */
FAST_API FAST_MUST_CHECK fast_err fast_group_all(fast_actor *actor, const char *role,
                                                 fast_group **out);
FAST_API void fast_group_free(fast_group *group); /* NULL is allowed */
FAST_API int64_t fast_group_rank(const fast_group *group);
FAST_API int64_t fast_group_size(const fast_group *group);
FAST_API int64_t fast_group_member(const fast_group *group, int64_t rank); /* an actor's number */
FAST_API uint32_t fast_group_generation(const fast_group *group);

/* Wait for all members. */
FAST_API FAST_MUST_CHECK fast_err fast_barrier(fast_group *group, int64_t deadline);
/* Copy `size` bytes from the root's `data` to everyone's. */
FAST_API FAST_MUST_CHECK fast_err fast_broadcast(fast_group *group, int64_t root, void *data,
                                                 size_t size, int64_t deadline);
/* The sum of all vectors at the root; the others' are as they were. */
FAST_API FAST_MUST_CHECK fast_err fast_reduce(fast_group *group, int64_t root, float *x,
                                              int64_t count, int64_t deadline);
/* The sum of all vectors at everyone, by the group's algorithm. */
FAST_API FAST_MUST_CHECK fast_err fast_allreduce(fast_group *group, float *x, int64_t count,
                                                 int64_t deadline);
/* Rank r's range of [0, count) for reduce-scatter and allgather: as equal as possible. */
FAST_API void fast_group_range(const fast_group *group, int64_t count, int64_t rank,
                               int64_t *offset_out, int64_t *count_out);
/* The sum of all vectors, of which rank r keeps its range in place; the rest is undefined. */
FAST_API FAST_MUST_CHECK fast_err fast_reduce_scatter(fast_group *group, float *x, int64_t count,
                                                      int64_t deadline);
/* Everyone's range, to everyone, in place. */
FAST_API FAST_MUST_CHECK fast_err fast_allgather(fast_group *group, float *x, int64_t count,
                                                 int64_t deadline);
/* x holds `count` floats for each rank in order; y receives as many from each. */
FAST_API FAST_MUST_CHECK fast_err fast_alltoall(fast_group *group, const float *x, int64_t count,
                                                float *y, int64_t deadline);
/* Send x to each of the ranks in `to`, receive as many floats from each of `from`, one after the
 * other, into y. */
FAST_API FAST_MUST_CHECK fast_err fast_neighbour_exchange(fast_group *group, const int64_t *to,
                                                          int64_t to_count, const int64_t *from,
                                                          int64_t from_count, const float *x,
                                                          int64_t count, float *y,
                                                          int64_t deadline);

/* How this group's allreduce works: "auto", or one of fast_part_list("allreduce"): tree, butterfly,
 * ring, rabenseifner, hierarchical, direct, native, with options ("ring:chunk=65536"). auto takes
 * the fastest of those with the canonical order by a model of the transport's latency, cost per
 * byte and cost per addition (T = alpha messages + beta bytes + gamma additions), fitted by a few
 * exchanges on first use, the same for all members. FAST_EINVAL, FAST_ENOTSUP if the transport
 * cannot. */
FAST_API FAST_MUST_CHECK fast_err fast_group_algorithm(fast_group *group, const char *spec);
/* What was chosen for vectors of `count` floats, and the seconds that the model predicts. */
FAST_API const char *fast_group_choice(fast_group *group, int64_t count, double *seconds_out);

/* A collective under way. Its actor advances it in its waits, and at the reports of its work. */
typedef struct fast_request fast_request;

/* Begin an allreduce of x[0 .. count), which is lent until the request is done. Members begin their
 * requests in the same order. */
FAST_API FAST_MUST_CHECK fast_err fast_allreduce_start(fast_group *group, float *x, int64_t count,
                                                       fast_request **out);
/* Advance everything that the actor has posted; true in *done_out once this one is finished. */
FAST_API FAST_MUST_CHECK fast_err fast_request_test(fast_request *request, bool *done_out);
/* Wait for it and free it, also when it fails. */
FAST_API FAST_MUST_CHECK fast_err fast_request_wait(fast_request **move, int64_t deadline);

/* A sparse vector: sorted distinct indices below `size`, and their values. */
typedef struct fast_sparse {
    int64_t size;    /* of the dense vector */
    int64_t count;   /* of entries */
    int64_t space;   /* entries that fit */
    uint32_t *index; /* ascending */
    float *value;    /* theirs */
} fast_sparse;

/* The sum of all sparse vectors, dense, at everyone: index-value streams are merged pairwise and
 * turn dense where that is shorter (SparCML's split by density). x is lent and not changed; y has
 * x->size floats. */
FAST_API FAST_MUST_CHECK fast_err fast_allreduce_sparse(fast_group *group, const fast_sparse *x,
                                                        float *y, int64_t deadline);

/* Who talks to whom, and with which weight; static, or another graph at each step. */
typedef struct fast_topology fast_topology;

/* "ring", "torus:rows=4", "file:PATH": fast_part_list("topology"). Random ones are drawn from
 * `seed`. Everyone makes the same. FAST_EINVAL if there is no such graph of this size. */
FAST_API FAST_MUST_CHECK fast_err fast_topology_new(const char *spec, int64_t size, uint64_t seed,
                                                    fast_topology **out);
FAST_API void fast_topology_free(fast_topology *topology); /* NULL is allowed */
FAST_API int64_t fast_topology_size(const fast_topology *topology);
FAST_API int64_t fast_topology_degree_max(const fast_topology *topology); /* over all steps */
FAST_API int64_t fast_topology_period(const fast_topology *topology);     /* 1: static */
/* Whom `rank` sends to at `step`; weights[i] is what it takes of ranks[i] when it mixes, and
 * *self_out what it keeps of its own. Both arrays hold fast_topology_degree_max(); the count is
 * returned. Graphs are symmetric unless fast_topology_is_directed(). */
FAST_API int64_t fast_topology_out(const fast_topology *topology, int64_t step, int64_t rank,
                                   int64_t *ranks, double *weights, double *self_out);
FAST_API int64_t fast_topology_in(const fast_topology *topology, int64_t step, int64_t rank,
                                  int64_t *ranks, double *weights, double *self_out);
FAST_API bool fast_topology_is_directed(const fast_topology *topology);
/* Check the mixing weights of a step: rows and columns sum to 1, none is negative, and over a
 * period everyone is reached. FAST_EINVAL says which rank is wrong. */
FAST_API FAST_MUST_CHECK fast_err fast_topology_check(const fast_topology *topology);
/* 1 - the second largest modulus of the eigenvalues of a period's mixing: how fast averages
 * spread. */
FAST_API double fast_topology_gap(const fast_topology *topology);

/*
 * Spaces: tensors in a global address space. Each has a version, the number of updates applied to
 * it, and each writer a clock, the number of rounds that it has finished; the space's clock is the
 * smallest of them. A read that asks for a clock is bounded staleness.
 */
typedef struct fast_space fast_space;

/* A part of a vector that is a matrix: what some codecs see a layer as. */
typedef struct fast_matrix {
    int64_t rows; /* at least 1 */
    int64_t cols; /* likewise */
} fast_matrix;

/* A matrix in the first tensor that may be added to as factors: rows of u and v, and the matrix is
 * the sum of their outer products. */
typedef struct fast_space_layer {
    int64_t offset;  /* of the matrix in the tensor; layers are in this order, and apart */
    int64_t outputs; /* its rows */
    int64_t inputs;  /* its columns */
    int64_t rows;    /* of factors, at most */
} fast_space_layer;

typedef struct fast_space_tensor {
    const char *name;     /* of the tensor */
    int64_t count;        /* of floats */
    const float *initial; /* values at the start, read by the owners; NULL: zeros */
} fast_space_tensor;

/* An update that reached the owner. */
typedef struct fast_space_update {
    int64_t tensor;  /* its number */
    int64_t offset;  /* of the owner's range in the tensor */
    int64_t count;   /* of floats */
    const float *x;  /* what was added */
    int64_t from;    /* the writer */
    int64_t clock;   /* the writer's, when it sent it */
    int64_t version; /* of the tensor here, before it */
    int64_t read;    /* the version that the writer last got: version - read is the staleness */
} fast_space_update;

/* A function at the owner: apply the update to w[0 .. count), and return true; or reject it. Runs
 * once for each update and range, never two at once for one range; on memory that is shared, in the
 * thread of the writer, with the owner's ctx. It makes no call with an actor. */
typedef bool fast_space_fn(void *ctx, const fast_space_update *update, float *w);

typedef struct fast_space_options {
    const char *name;                 /* the same at everyone */
    const fast_space_tensor *tensors; /* the same list at everyone */
    int64_t tensor_count;             /* at least 1 */
    const int64_t *owners;  /* actors that hold it; each tensor is cut into as many ranges */
    int64_t owner_count;    /* at least 1 */
    bool whole;             /* tensors are not cut: tensor i lives at owner i mod count */
    const int64_t *writers; /* whose clocks count; NULL: all actors that are not owners,
                                         or all where everyone is an owner */
    int64_t writer_count;   /* of writers */
    bool eager;   /* owners send the first tensor to far actors that have read it, whenever the
                               smallest clock rises; a get takes it if it is new enough */
    bool stalest; /* of far requests that wait at an owner, that of the smallest clock is first */
    bool sparse;  /* far updates with many zeros travel without them: 8 bytes for each other */
    bool cache;   /* sparse: of the first tensor, places that are those of the update before are not
                     sent again; both ends keep them */
    bool follows; /* a copy of another space: updates may name versions that it has not reached */
    const char *codec;      /* of what is added to the first tensor, by name with its options;
                               NULL: floats as they are */
    const char *codec_down; /* of what is read of it: of values where the codec keeps those (fp16,
                               bf16, int8), else of differences to what a reader holds, of which
                               an owner has one copy for each far reader */
    int feedback;           /* error feedback of adds: 0 as the codec says, 1 yes, 2 no */
    int codec_scope;        /* 0 as the codec says, 1 a layer (matrix) at a time, 2 all at once */
    int64_t codec_small;    /* layers of fewer floats go as they are */
    int64_t epoch_rounds;   /* rounds of an epoch, for codecs that warm up; 0: unknown */
    const fast_matrix *matrices; /* that it is made of, one after the other, for codecs; NULL: one
                                    vector */
    int64_t matrix_count;        /* of them */
    const fast_space_layer *layers; /* that fast_space_add_factors() may add to; NULL: none. Not
                                       with a codec, nor sparse */
    int64_t layer_count;            /* of them */
    bool pieces;                    /* fast_space_add_piece() may be used: owners keep a range for
                                       each writer. Not with layers or sparse; with a
                                       codec whole layers go, as they become whole */
    fast_space_fn *apply;           /* at the owners; NULL: w += x */
    void *ctx;                      /* for apply */
    double operations; /* of apply for each float, which simulated nodes take time for */
    double bytes;      /* that it moves; 0 and 0: those of w += x, 1 and 12 */
} fast_space_options;

/* Every actor that uses the space opens it alike, owners first or last, once in a run. Does not
 * wait. On transports without shared memory its owners answer in their waits, or in
 * fast_space_serve(). FAST_EINVAL, FAST_ENOMEM. */
FAST_API FAST_MUST_CHECK fast_err fast_space_open(fast_actor *actor,
                                                  const fast_space_options *options,
                                                  fast_space **out);
/* Leave. What this actor sent is applied; its clock no longer holds others back. An owner stays, as
 * in fast_space_serve(), until the others have left too, at most the run's timeout. */
FAST_API void fast_space_close(fast_space *space);                             /* NULL is allowed */
FAST_API int64_t fast_space_find(const fast_space *space, const char *tensor); /* or -1 */

/* Replace a tensor. Takes effect for a later get() of the same actor; may wait for room until the
 * deadline. FAST_EPEER if an owner is gone. */
FAST_API FAST_MUST_CHECK fast_err fast_space_put(fast_space *space, int64_t tensor, const float *x,
                                                 int64_t deadline);
/* Add to a tensor, or whatever the function at the owner does. */
FAST_API FAST_MUST_CHECK fast_err fast_space_add(fast_space *space, int64_t tensor, const float *x,
                                                 int64_t deadline);
/* Add to the first tensor, of which the layers are given as factors: factors[i] has rows[i] rows of
 * u, `outputs` floats each, then those of v, `inputs` each. Far owners multiply them out; for near
 * ones it is done here, in x, whose ranges of the layers are undefined before and after. */
FAST_API FAST_MUST_CHECK fast_err fast_space_add_factors(fast_space *space, float *x,
                                                         const float *const *factors,
                                                         const int64_t *rows, int64_t deadline);
/* Add to the first tensor in pieces, x being the whole vector: each goes out as soon as it is
 * final, and all of them are applied as one update when it ends. Pieces are apart and cover the
 * tensor. A piece never blocks. */
FAST_API FAST_MUST_CHECK fast_err fast_space_add_piece(fast_space *space, const float *x,
                                                       int64_t offset, int64_t count);
FAST_API FAST_MUST_CHECK fast_err fast_space_add_end(fast_space *space, const float *x,
                                                     int64_t deadline);
/* This actor has finished `clock` rounds; what it added before counts to them. */
FAST_API FAST_MUST_CHECK fast_err fast_space_tick(fast_space *space, int64_t clock);

/* What a read asks for, and what it saw: the smallest over the ranges of the tensor. */
typedef struct fast_space_read {
    int64_t version_min; /* in: wait until this many updates are applied */
    int64_t clock_min;   /* in: wait until every writer has finished this many rounds */
    bool either;         /* in: one of the two will do; else both are waited for */
    bool whole;          /* in: values as they are where codec_down sends differences: at the end */
    int64_t version;     /* out */
    int64_t clock;       /* out */
} fast_space_read;

/* Copy a tensor to x: of each range one version, never parts of two. `read` may be NULL: whatever
 * there is. FAST_ETIMEDOUT names the writer that is behind; FAST_EPEER: nobody is left to write. */
FAST_API FAST_MUST_CHECK fast_err fast_space_get(fast_space *space, int64_t tensor, float *x,
                                                 fast_space_read *read, int64_t deadline);

/* Called by the watching actor, in its waits, after a tensor changed; several changes may be told
 * as one. It must not wait. A NULL function ends it. */
typedef void fast_space_watch_fn(void *ctx, int64_t tensor, int64_t version, int64_t clock);
FAST_API FAST_MUST_CHECK fast_err fast_space_watch(fast_space *space, int64_t tensor,
                                                   fast_space_watch_fn *watch, void *ctx);

/* For owners that do nothing else: answer until every owner and writer, and whoever else opened the
 * space, closed it, serves too, or ended; or until the deadline passes (FAST_ETIMEDOUT). */
FAST_API FAST_MUST_CHECK fast_err fast_space_serve(fast_space *space, int64_t deadline);

/* Counters of this actor's part. */
typedef struct fast_space_counters {
    int64_t applied;       /* updates, at an owner */
    int64_t rejected;      /* by the function at the owner */
    int64_t gets;          /* answered at an owner */
    int64_t waited;        /* gets that had to wait */
    int64_t staleness_sum; /* over applied adds */
    int64_t staleness_max; /* likewise */
    int64_t refused;       /* messages that made no sense, at an owner */
} fast_space_counters;
FAST_API void fast_space_count(const fast_space *space, fast_space_counters *out);

#ifdef __cplusplus
}
#endif
