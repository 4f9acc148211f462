/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * space.h - spaces: tensors in a global address space, owned by some actors and reachable by all.
 * The rules of fast.h and comm.h hold; examples/04_space.c is a whole program.
 *
 * Each tensor has a version, the number of updates applied to it, and each writer a clock, the
 * number of rounds that it has finished; the space's clock is the smallest of them. A read that
 * asks for a clock is bounded staleness. A NULL vector with a count moves sizes without values.
 */

#include "fast/comm.h"

#ifdef __cplusplus
extern "C" {
#endif

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

/* The state of a function at an owner, for a copy that is to continue where another one is: write
 * it to `out` and return its bytes (out NULL: only return them); or replace it by `size` bytes that
 * another owner's function wrote. FAST_EFORMAT. */
typedef size_t fast_space_save_fn(void *ctx, void *out);
typedef fast_err fast_space_load_fn(void *ctx, const void *bytes, size_t size);

/* A function at the owner: apply the update to w[0 .. count) and return true, or reject it. Called
 * once for each update and range, never twice at once for one range; in shared memory by the
 * writer's thread, with the owner's ctx. It must not use an actor. It gets host memory, unless the
 * options say `apply_on_device`. */
typedef bool fast_space_fn(void *ctx, const fast_space_update *update, float *w);

typedef struct fast_space_options {
    size_t size;                      /* bytes of this struct, as in fast.h; 0 means sizeof */
    const char *name;                 /* of the space; the same at all actors */
    const fast_space_tensor *tensors; /* the same list at all actors */
    int64_t tensor_count;             /* at least 1 */
    const int64_t *owners; /* actors that own it; each tensor is cut into as many ranges */
    int64_t owner_count;   /* at least 1 */
    const int64_t *copies; /* [copy_count][owner_count]: actors that own further copies of the
                               owners' ranges. Updates pass along the chain of a range's copies, and
                               the last one answers. An owner that is down loses nothing: the next
                               one takes its place, and one that restarts gets the state of the
                               last and is the last then. Memory is not shared. Not
                               with eager, stalest_first, cache_indices, announce, pieces, watches,
                               or codec_down of differences */
    int64_t copy_count;    /* further copies; 0: an owner that is down is lost */
    const double *ends;    /* [owner_count] where each owner's range of a tensor ends, as a fraction
                               of it: ascending, the last 1 (fast_space_ring()); NULL: ranges are
                               as equal as possible */
    bool whole_tensors;    /* tensors are not cut: tensor i lives at owner i mod count */
    const int64_t *writers; /* actors whose clocks count; NULL: all that are not owners, or all
                               actors where all are owners */
    int64_t writer_count;   /* number of writers */
    bool eager;  /* owners send the first tensor to remote actors that have read it, whenever the
                     smallest clock rises; a get uses it if it is new enough */
    bool causal; /* an update returns when its owners have applied it: a message that its writer
                      sends later, and all that follows from it, comes after the update */
    bool stalest_first; /* owners handle remote requests of the smallest clock first */
    bool sparse; /* remote updates with many zeros travel without them: 8 bytes for each entry */
    bool cache_indices; /* sparse: both ends store the indices of the last update of the first
                           tensor, and an update with equal indices does not send them again */
    int64_t announce;   /* adds to the first tensor of more bytes than this are announced: other
                           actors' gets wait for them; 0: none is */
    bool replica;       /* a replica of another space, which may be behind its readers' versions */
    const char *codec;  /* codec of adds to the first tensor, by name with its options; NULL:
                               floats */
    const struct fast_filter *filter; /* a filter of your own (plugin.h) that codec and codec_down
                               may name; NULL: none. Borrowed until the space is closed */
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
    void *ctx;                      /* first argument of apply, save and load */
    fast_space_save_fn *save;       /* with copies: state of the function; NULL: it has none */
    fast_space_load_fn *load;       /* its counterpart; or NULL */
    int64_t aggregate;              /* adds that make one update of the model: the trainer counts
                                       staleness in updates; 0 means 1 */
    double operations;              /* of apply, for each float, for simulated time */
    double bytes;         /* that apply moves, for each float; 0 and 0: those of w += x, 1 and 12 */
    bool apply_on_device; /* apply computes by kernels alone, so that w and x may stay on the
                             run's device */
} fast_space_options;

/* Cut the keys of a space by a consistent-hash ring: `servers` servers are at `virtual_servers`
 * points each, and range i ends at ends[i] and belongs to number[i] = v * servers + s, virtual
 * server v of server s. Both lists have servers * virtual_servers entries. One more server takes
 * about 1 / (servers + 1) of the keys; all others stay where they are. FAST_EINVAL, FAST_ENOMEM. */
FAST_API FAST_MUST_CHECK fast_err fast_space_ring(int64_t servers, int64_t virtual_servers,
                                                  int64_t *numbers, double *ends);

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
    int64_t version_min;  /* in: wait until this many updates are applied */
    int64_t clock_min;    /* in: wait until every writer has finished this many rounds */
    bool either;          /* in: one of the two suffices; else both are waited for */
    int64_t writer;       /* in: first of the writers whose clocks clock_min is about, by its place
                            among them in the order of actors */
    int64_t writer_count; /* in: number of those writers, a group; 0: all. Not with version_min */
    bool full_values;     /* in: all values, not differences, where codec_down sends those */
    int64_t version;      /* out: smallest version over the ranges of the tensor */
    int64_t clock;        /* out: smallest clock over their owners */
} fast_space_read;

/* Copy a tensor to x: of each range one version, never parts of two. read NULL: without conditions.
 * FAST_ETIMEDOUT names the slowest writer; FAST_EPEER: no writer is left. */
FAST_API FAST_MUST_CHECK fast_err fast_space_get(fast_space *space, int64_t tensor, float *x,
                                                 fast_space_read *read, int64_t deadline);

/*
 * Tasks: pushes and pulls of ranges of keys, which are in progress at the same time unless one
 * depends on another (Li et al. 2014, sections 3.4 and 3.5). The keys of a tensor are its floats; a
 * range of keys is that of one owner. It has a vector clock: the rounds that each writer has
 * finished on it, set by that writer's tasks. A task depends on tasks of its own actor (`after`)
 * and on rounds of any writers (`when`), so that the tasks of all actors are one graph without
 * cycles. In a pull of round t a when.clock_min of t is sequential consistency: every writer has
 * finished the rounds before; t - tau is a bounded delay: none is more than tau rounds behind; 0 is
 * eventual consistency.
 *
 * Tasks start in fast_space_submit() and fast_space_wait(). A range has one pull at a time.
 */
typedef struct fast_space_task {
    size_t size;          /* bytes of this struct, as in fast.h; 0 means sizeof */
    int64_t tensor;       /* number of the tensor */
    int64_t range;        /* first range of keys, by the order of the owners */
    int64_t range_count;  /* number of ranges; 0: all */
    const float *push;    /* the tensor's values, of which those of the ranges are added; NULL:
                             none. Lent until the task starts: in submit, if it waits for nothing */
    float *pull;          /* the tensor's values, of which those of the ranges are read; NULL:
                             none. Not with push. Lent until the task has finished */
    int64_t clock;        /* rounds that this actor has finished on the ranges when the task has;
                             0: its clock stays as it is */
    fast_space_read when; /* conditions of the ranges' versions and clocks; full_values */
    const int64_t *after; /* tasks of this actor that must have finished; NULL: none */
    int64_t after_count;  /* length of `after`, at most FAST_SPACE_AFTER_MAX */
    int64_t *clock_seen;  /* out, when it has finished: the smallest clock over the ranges and the
                             writers of `when`, one writer's of one range: its entry of the vector
                             clock. NULL: not wanted */
} fast_space_task;
enum { FAST_SPACE_AFTER_MAX = 8 };

/* Return the number of ranges that tensors are cut into, and the floats of one of them. */
FAST_API int64_t fast_space_range_count(const fast_space *space);
FAST_API void fast_space_keys(const fast_space *space, int64_t tensor, int64_t range,
                              int64_t *offset_out, int64_t *count_out);
/* Submit a task; *number_out, from 1, is its number for `after` and for wait. It may wait for room
 * among the unfinished tasks, or for an owner, for the run's timeout. FAST_EINVAL; else the error
 * of the first task that fails, which is then dropped. */
FAST_API FAST_MUST_CHECK fast_err fast_space_submit(fast_space *space, const fast_space_task *task,
                                                    int64_t *number_out);
/* Wait until a task has finished, 0: all tasks; a push has when its owners have applied it. Fails
 * as fast_space_get() does, and as submit does with a task's error. */
FAST_API FAST_MUST_CHECK fast_err fast_space_wait(fast_space *space, int64_t task,
                                                  int64_t deadline);
/* Return true if a task has finished; waits for nothing. */
FAST_API bool fast_space_finished(const fast_space *space, int64_t task);

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
