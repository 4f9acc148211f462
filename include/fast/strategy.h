/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * strategy.h - how actors cooperate: groups and their collectives, topologies, and spaces, the
 * tensor-moving interface, useful without a strategy or a model. The rules of fast.h and actor.h
 * hold; examples/04_space.c is a whole program.
 *
 *   Numbers    Vectors are float. A NULL vector with a count moves sizes without values: the cost
 *              of an exchange can be simulated without the memory that it would take.
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
/* Copy `size` bytes from the root's `data` to every member's. */
FAST_API FAST_MUST_CHECK fast_err fast_broadcast(fast_group *group, int64_t root, void *data,
                                                 size_t size, int64_t deadline);
/* Sum all vectors to the root's; the other members' do not change. */
FAST_API FAST_MUST_CHECK fast_err fast_reduce(fast_group *group, int64_t root, float *x,
                                              int64_t count, int64_t deadline);
/* Replace every member's vector by the sum of all, by the group's algorithm. */
FAST_API FAST_MUST_CHECK fast_err fast_allreduce(fast_group *group, float *x, int64_t count,
                                                 int64_t deadline);
/* Set rank r's range of [0, count) for reduce-scatter and allgather: as equal as possible. */
FAST_API void fast_group_range(const fast_group *group, int64_t count, int64_t rank,
                               int64_t *offset_out, int64_t *count_out);
/* Sum all vectors; rank r gets its range of the sum in place, the rest of x is undefined. */
FAST_API FAST_MUST_CHECK fast_err fast_reduce_scatter(fast_group *group, float *x, int64_t count,
                                                      int64_t deadline);
/* Copy every rank's range to all members, in place. */
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
/* Return the algorithm that is used for vectors of `count` floats, and the seconds that the model
 * predicts. */
FAST_API const char *fast_group_choice(fast_group *group, int64_t count, double *seconds_out);

/* A collective under way. Its actor advances it in its waits, and when its work reports. */
typedef struct fast_request fast_request;

/* Start an allreduce of x[0 .. count), which is lent until the request is done. Members start their
 * requests in the same order. */
FAST_API FAST_MUST_CHECK fast_err fast_allreduce_start(fast_group *group, float *x, int64_t count,
                                                       fast_request **out);
/* Advance everything that the actor has posted; true in *done_out once this one is finished. */
FAST_API FAST_MUST_CHECK fast_err fast_request_test(fast_request *request, bool *done_out);
/* Wait for it and free it, also when it fails. */
FAST_API FAST_MUST_CHECK fast_err fast_request_wait(fast_request **move, int64_t deadline);

/* A sparse vector: sorted distinct indices below `size`, and their values. */
typedef struct fast_sparse {
    int64_t size;    /* elements of the dense vector */
    int64_t count;   /* number of entries */
    int64_t space;   /* room for entries */
    uint32_t *index; /* of the entries, ascending */
    float *value;    /* values of the entries */
} fast_sparse;

/* Sum all sparse vectors to a dense y at every member: index-value streams are merged pairwise and
 * become dense where that is shorter (SparCML's split by density). x is lent and does not change; y
 * has x->size floats. */
FAST_API FAST_MUST_CHECK fast_err fast_allreduce_sparse(fast_group *group, const fast_sparse *x,
                                                        float *y, int64_t deadline);

/* A graph of ranks that exchange with each other, with weights; static, or another graph at each
 * step. */
typedef struct fast_topology fast_topology;

/* "ring", "torus:rows=4", "file:PATH": fast_part_list("topology"). Random ones are drawn from
 * `seed`. All members make the same. FAST_EINVAL if no such graph of this size exists. */
FAST_API FAST_MUST_CHECK fast_err fast_topology_new(const char *spec, int64_t size, uint64_t seed,
                                                    fast_topology **out);
FAST_API void fast_topology_free(fast_topology *topology); /* NULL is allowed */
FAST_API int64_t fast_topology_size(const fast_topology *topology);
FAST_API int64_t fast_topology_degree_max(const fast_topology *topology); /* over all steps */
FAST_API int64_t fast_topology_period(const fast_topology *topology);     /* 1: static */
/* List the ranks that `rank` sends to at `step`, and return their number. weights[i] is the share
 * of ranks[i]'s value that it takes when it mixes, *self_out the share of its own. Both arrays hold
 * fast_topology_degree_max(). Graphs are symmetric unless fast_topology_is_directed(). */
FAST_API int64_t fast_topology_out(const fast_topology *topology, int64_t step, int64_t rank,
                                   int64_t *ranks, double *weights, double *self_out);
FAST_API int64_t fast_topology_in(const fast_topology *topology, int64_t step, int64_t rank,
                                  int64_t *ranks, double *weights, double *self_out);
FAST_API bool fast_topology_is_directed(const fast_topology *topology);
/* Check the mixing weights of a step: rows and columns sum to 1, none is negative, and over a
 * period every rank is reached. FAST_EINVAL says which rank is wrong. */
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

/* A matrix in a vector: a layer, for codecs that use rows and columns. */
typedef struct fast_matrix {
    int64_t rows; /* at least 1 */
    int64_t cols; /* at least 1 */
} fast_matrix;

/* A matrix in the first tensor that may be added to as factors: rows of u and v, and the matrix is
 * the sum of their outer products. */
typedef struct fast_space_layer {
    int64_t offset;  /* of the matrix in the tensor; layers ascend and do not overlap */
    int64_t outputs; /* rows of the matrix */
    int64_t inputs;  /* columns of the matrix */
    int64_t rows;    /* most rows of its factors */
} fast_space_layer;

typedef struct fast_space_tensor {
    const char *name;     /* of the tensor */
    int64_t count;        /* number of floats */
    const float *initial; /* values at the start, read by the owners; NULL: zeros */
} fast_space_tensor;

/* An update that reached the owner. */
typedef struct fast_space_update {
    int64_t tensor;  /* number of the tensor */
    int64_t offset;  /* first float of the owner's range in the tensor */
    int64_t count;   /* floats of the range */
    const float *x;  /* values that are added */
    int64_t from;    /* actor that adds them */
    int64_t clock;   /* rounds that this actor had finished */
    int64_t version; /* version of the range before the update */
    int64_t read;    /* version that the writer last got: version - read is the staleness */
} fast_space_update;

/* A function at the owner: apply the update to w[0 .. count) and return true, or reject it. Called
 * once for each update and range, never twice at once for one range; in shared memory by the
 * writer's thread, with the owner's ctx. It must not use an actor. */
typedef bool fast_space_fn(void *ctx, const fast_space_update *update, float *w);

typedef struct fast_space_options {
    const char *name;                 /* of the space; the same at all actors */
    const fast_space_tensor *tensors; /* the same list at all actors */
    int64_t tensor_count;             /* at least 1 */
    const int64_t *owners;  /* actors that own it; each tensor is cut into as many ranges */
    int64_t owner_count;    /* at least 1 */
    bool whole;             /* tensors are not cut: tensor i lives at owner i mod count */
    const int64_t *writers; /* actors whose clocks count; NULL: all that are not owners, or all
                               actors where all are owners */
    int64_t writer_count;   /* number of writers */
    bool eager;   /* owners send the first tensor to remote actors that have read it, whenever the
                     smallest clock rises; a get uses it if it is new enough */
    bool stalest; /* owners handle remote requests of the smallest clock first */
    bool sparse;  /* remote updates with many zeros travel without them: 8 bytes for each entry */
    bool cache; /* sparse: both ends store the places of the last update of the first tensor, and an
                     update with the same places does not send them again */
    bool follows;      /* a replica of another space, which may be behind its readers' versions */
    const char *codec; /* codec of adds to the first tensor, by name with its options; NULL:
                               floats */
    const char *codec_down; /* codec of reads of the first tensor: of values where the codec is
                               fit for them (fp16, bf16, int8), else of differences to the values
                               that a reader holds; an owner then has a copy of its range for
                               each remote reader */
    int feedback;           /* error feedback of adds: 0 as the codec says, 1 yes, 2 no */
    int codec_scope;        /* 0 as the codec says, 1 a layer (matrix) at a time, 2 all at once */
    int64_t codec_small;    /* layers of fewer floats are not encoded */
    int64_t epoch_rounds;   /* rounds of an epoch, for codecs that warm up; 0: unknown */
    const fast_matrix *matrices;    /* of the first tensor, for codecs; NULL: it is one vector */
    int64_t matrix_count;           /* number of matrices */
    const fast_space_layer *layers; /* layers that fast_space_add_factors() may add to; NULL:
                                       none. Not with a codec, nor sparse */
    int64_t layer_count;            /* number of layers */
    bool pieces;                    /* fast_space_add_piece() may be used: owners have a copy of
                                       their range for each writer. Not with layers or sparse; with
                                       a codec a layer is sent when all of it was given */
    fast_space_fn *apply;           /* function at the owners; NULL: w += x */
    void *ctx;                      /* first argument of apply */
    double operations;              /* of apply, for each float, for simulated time */
    double bytes; /* that apply moves, for each float; 0 and 0: those of w += x, 1 and 12 */
} fast_space_options;

/* Open a space. Every actor that uses it opens it with the same options, in any order, once in a
 * run. Does not wait. On transports without shared memory its owners answer in their waits, or in
 * fast_space_serve(). FAST_EINVAL, FAST_ENOMEM. */
FAST_API FAST_MUST_CHECK fast_err fast_space_open(fast_actor *actor,
                                                  const fast_space_options *options,
                                                  fast_space **out);
/* Leave. Updates that this actor sent are applied; its clock no longer counts. An owner stays, as
 * in fast_space_serve(), until the other actors have left too, at most the run's timeout. */
FAST_API void fast_space_close(fast_space *space);                             /* NULL is allowed */
FAST_API int64_t fast_space_find(const fast_space *space, const char *tensor); /* or -1 */

/* Replace a tensor. Takes effect for a later get() of the same actor; may wait for room until the
 * deadline. FAST_EPEER if an owner is gone. */
FAST_API FAST_MUST_CHECK fast_err fast_space_put(fast_space *space, int64_t tensor, const float *x,
                                                 int64_t deadline);
/* Add to a tensor; or do what the function at the owner does. */
FAST_API FAST_MUST_CHECK fast_err fast_space_add(fast_space *space, int64_t tensor, const float *x,
                                                 int64_t deadline);
/* Add to the first tensor, with the layers given as factors: factors[i] has rows[i] rows of u,
 * `outputs` floats each, then those of v, `inputs` each. Remote owners multiply them out; for local
 * ones it is done here, in x, whose values of the layers are undefined before and after. */
FAST_API FAST_MUST_CHECK fast_err fast_space_add_factors(fast_space *space, float *x,
                                                         const float *const *factors,
                                                         const int64_t *rows, int64_t deadline);
/* Add to the first tensor in pieces of x, the whole vector: each is sent as soon as it is given,
 * and fast_space_add_end() applies all as one update. Pieces do not overlap and cover the tensor. A
 * piece never blocks. */
FAST_API FAST_MUST_CHECK fast_err fast_space_add_piece(fast_space *space, const float *x,
                                                       int64_t offset, int64_t count);
FAST_API FAST_MUST_CHECK fast_err fast_space_add_end(fast_space *space, const float *x,
                                                     int64_t deadline);
/* This actor has finished `clock` rounds; its adds before the call belong to them. */
FAST_API FAST_MUST_CHECK fast_err fast_space_tick(fast_space *space, int64_t clock);

/* The conditions of a read, and what it saw. */
typedef struct fast_space_read {
    int64_t version_min; /* in: wait until this many updates are applied */
    int64_t clock_min;   /* in: wait until every writer has finished this many rounds */
    bool either;         /* in: one of the two suffices; else both are waited for */
    bool whole;          /* in: all values, not differences, where codec_down sends those */
    int64_t version;     /* out: smallest version over the ranges of the tensor */
    int64_t clock;       /* out: smallest clock over their owners */
} fast_space_read;

/* Copy a tensor to x: of each range one version, never parts of two. read NULL: without conditions.
 * FAST_ETIMEDOUT names the slowest writer; FAST_EPEER: no writer is left. */
FAST_API FAST_MUST_CHECK fast_err fast_space_get(fast_space *space, int64_t tensor, float *x,
                                                 fast_space_read *read, int64_t deadline);

/* Watch a tensor: the function is called in this actor's waits after the tensor changed, perhaps
 * once for several changes. It must not wait. A NULL function ends the watch. */
typedef void fast_space_watch_fn(void *ctx, int64_t tensor, int64_t version, int64_t clock);
FAST_API FAST_MUST_CHECK fast_err fast_space_watch(fast_space *space, int64_t tensor,
                                                   fast_space_watch_fn *watch, void *ctx);

/* For owners that do nothing else: answer until every owner, writer and other actor that opened the
 * space has closed it, serves too, or ended; or until the deadline passes (FAST_ETIMEDOUT). */
FAST_API FAST_MUST_CHECK fast_err fast_space_serve(fast_space *space, int64_t deadline);

/* Counters of the ranges that this actor owns. */
typedef struct fast_space_counters {
    int64_t applied;       /* updates and puts */
    int64_t rejected;      /* updates that the owner's function rejected */
    int64_t gets;          /* gets answered */
    int64_t waited;        /* gets that had to wait */
    int64_t staleness_sum; /* sum over applied adds */
    int64_t staleness_max; /* largest of an applied add */
    int64_t refused;       /* messages that made no sense */
} fast_space_counters;
FAST_API void fast_space_count(const fast_space *space, fast_space_counters *out);

#ifdef __cplusplus
}
#endif
