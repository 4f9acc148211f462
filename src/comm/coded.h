/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "base/pack.h"
#include "codec/codec.h"
#include "comm/allgatherv.h"

/* The sum of vectors over a group, sent encoded (coded.c). One object for each member, which
 * outlives groups: its residual is part of the member's state. */
typedef struct fast_coded fast_coded;

/* The method of a sum. */
typedef enum fast_coded_way {
    FAST_CODED_AUTO,      /* the cheapest */
    FAST_CODED_ROUNDS,    /* the codec's dense vectors are summed, round by round */
    FAST_CODED_SPARSE,    /* streams of entries are merged by recursive doubling */
    FAST_CODED_SPLIT,     /* streams of entries are merged by split and allgather */
    FAST_CODED_BUTTERFLY, /* streams of entries are merged on a butterfly of any degrees */
    FAST_CODED_MERGED,    /* the cheaper of SPARSE and SPLIT */
    FAST_CODED_GATHER,    /* all encodings go to all members, which decode them */
    FAST_CODED_STRIPED,   /* each member sums a slice, and sends it to all */
    FAST_CODED_WAYS       /* number of methods */
} fast_coded_way;

/* How sparse streams are summed: the layers of a butterfly, and the bits of values in messages. The
 * last degree is that of all layers that follow, and a layer has no more than the members that are
 * left. Degrees that are no powers of two give sums other bits. */
enum { FAST_SPARSE_DEGREE_MAX = 256, FAST_SPARSE_LAYERS_MAX = 8 };
typedef struct fast_sparse_plan {
    int64_t count;                           /* length of degrees; 0: recursive doubling */
    int64_t degrees[FAST_SPARSE_LAYERS_MAX]; /* of the layers, the first one first */
    int bits;                                /* 2, 4 or 8: rounded at random; 0: floats */
} fast_sparse_plan;

/* Indices that links remember from call to call, so that those that stay the same are sent once.
 * One for each member, for calls with one plan; all members use theirs, or none does. */
typedef struct fast_sparse_memory fast_sparse_memory;
fast_err fast__sparse_memory_new(fast_sparse_memory **out); /* FAST_ENOMEM */
void fast__sparse_memory_clear(fast_sparse_memory *memory); /* of all members between two calls */
void fast__sparse_memory_free(fast_sparse_memory *memory);  /* NULL is allowed */

/* Options of a sparse allreduce, the same at all members. */
typedef struct fast_sparse_call {
    const fast_sparse_plan *plan; /* NULL: recursive doubling with floats */
    fast_sparse_memory *memory;   /* this member's; NULL: indices are always sent */
    uint64_t key;                 /* of the random numbers of rounding, another one for each call */
} fast_sparse_call;

/* As fast_allreduce_sparse() and fast_allreduce_sparse_start(), by a plan. */
fast_err fast__allreduce_sparse(fast_group *group, const fast_sparse *x,
                                const fast_sparse_call *how, float *y, int64_t deadline);
fast_err fast__allreduce_sparse_start(fast_group *group, const fast_sparse *x,
                                      const fast_sparse_call *how, float *y, fast_request **out);

/* Bytes and time of encodings and decodings so far. Any thread may read them. */
typedef struct fast_coded_figures {
    fast_counter bytes_in;  /* bytes of floats that were encoded */
    fast_counter bytes_out; /* bytes of their encodings */
    fast_counter bytes_dec; /* bytes of floats that were decoded */
    fast_counter encode_ns; /* time of encodings */
    fast_counter decode_ns; /* time of decodings */
    fast_counter way;       /* fast_coded_way of sums; FAST_CODED_AUTO before the first one */
} fast_coded_figures;

/* Besides the values of fast_coder_options.feedback: EF21, of sums alone. A member sends the
 * encoded difference of its vector to its estimate h of it, h grows by what was sent, and the sum
 * of all estimates is the result (Richtarik, Sokolov and Fatkhullin 2021):
 *
 *     c = C(x - h),   h <- h + c,   H <- H + sum c,   x <- H
 */
enum { FAST_FEEDBACK_EF21 = 3 };

/* Options of a sum, the same at all members except for the rank and the figures. */
typedef struct fast_coded_options {
    const fast_chain *up;      /* codec of vectors that members send; borrowed */
    const fast_chain *down;    /* codec of sums that come back; "none": floats; borrowed */
    const fast_layout *layout; /* of the vectors; borrowed */
    const fast_device *device; /* of residuals and scratch vectors; NULL: the host */
    int scope;                 /* as in fast_coder_options */
    int feedback;       /* as in fast_coder_options; of `down` too, where that codec can have it */
    int64_t small;      /* blocks with fewer elements go as they are */
    int64_t size;       /* of the group */
    int64_t rank;       /* in it */
    uint64_t seed;      /* of the run */
    fast_coded_way way; /* the method; FAST_EINVAL where the codec does not allow it */
    const char *sum;    /* the method by name, as fast__coded_way_parse() reads it; NULL: `way` */
    fast_coded_figures *figures; /* where to count; borrowed. NULL: its own */
    fast_codec_model_fn *model;  /* that the vectors change; NULL: not known */
    void *model_ctx;             /* argument of model */
} fast_coded_options;

/* Refuse options that exclude each other, with the reason; the layout may be of any vector. */
fast_err fast__coded_check(const fast_coded_options *options);
/* Refuse options of the codec alone that exclude each other. */
fast_err fast__coded_check_coder(const fast_coded_options *options);
/* Make the object of one member. FAST_EINVAL for options that exclude each other, FAST_ENOMEM. */
fast_err fast__coded_new(const fast_coded_options *options, fast_coded **out);
void fast__coded_free(fast_coded *coded); /* NULL is allowed */
/* Read the name of a method: auto, gather, stripes, sparse, double, split, butterfly, or
 * butterfly:4x3 with the degrees of its layers; of the last four also with bits=8. FAST_EINVAL. */
fast_err fast__coded_way_parse(const char *text, fast_coded_way *way_out,
                               fast_sparse_plan *plan_out);
/* Return the name of a method. */
const char *fast__coded_way_name(fast_coded_way way);
/* Return the method that was chosen; never FAST_CODED_AUTO. */
fast_coded_way fast__coded_way(const fast_coded *coded);
/* True if it sums estimates of the vectors (EF21). */
bool fast__coded_estimates(const fast_coded *coded);
/* Return the figures that it counts in. */
const fast_coded_figures *fast__coded_figures(const fast_coded *coded);
/* True if a member's later messages depend on what it sent before. */
bool fast__coded_remembers(const fast_coded *coded);
/* Save the member's residuals and its codecs' vectors as records of this kind; restore one of them:
 * FAST_EFORMAT if it does not fit. */
void fast__coded_pack(const fast_coded *coded, fast_pack *pack, int64_t kind);
fast_err fast__coded_unpack(fast_coded *coded, const fast_pack_record *record);
/* Clear all residuals; the next sum is number `sums`. */
void fast__coded_restart(fast_coded *coded, int64_t sums);

/* x, of the layout, becomes the sum over the group, the same bits at all members. A collective. */
fast_err fast__coded_sum(fast_coded *coded, fast_group *group, int64_t step, double progress,
                         float *x, int64_t deadline);

/* coded_early.c: a sum in pieces of whole layers, each of which starts when its layers are final,
 * with a block for each layer. By the method gather, or by nonblocking sums of streams; the bits
 * are those of one sum, unless values of few bits are rounded at random. */
typedef struct fast_coded_piece {
    int64_t offset;         /* its first element */
    int64_t count;          /* its elements */
    int64_t first;          /* its first block of the coder */
    int64_t block_count;    /* its blocks */
    size_t size;            /* bytes of this member's encoding */
    int64_t spent_ns;       /* time of that encoding, not yet charged */
    fast_allgatherv spread; /* exchange of the encodings */
    fast_request *request;  /* where streams are merged: its sum under way; else NULL */
} fast_coded_piece;

/* Cut in pieces of at least `least` floats, from the last layer to the first; *count_out is 0 where
 * sums cannot start early. `group` is the group of the sums. */
fast_err fast__coded_cut(fast_coded *coded, fast_group *group, int64_t least,
                         fast_coded_piece **out, int64_t *count_out);
/* Free the pieces, also those that were not finished. NULL is allowed. */
void fast__coded_cut_free(fast_coded_piece *pieces, int64_t count);
/* Encode a piece of x, the whole vector, and post it. Never blocks. */
fast_err fast__coded_start(fast_coded *coded, fast_coded_piece *piece, int64_t step,
                           double progress, const float *x);
/* Wait for all members' encodings of a piece, and sum them in x. Call fast__coded_end() after the
 * last piece of a step. */
fast_err fast__coded_finish(fast_coded *coded, fast_coded_piece *piece, float *x, int64_t deadline);
/* End the sum of a step whose pieces are all finished. */
void fast__coded_end(fast_coded *coded);

/* Return the coder of whole vectors, for coded_early.c; NULL where the sum is striped. */
fast_coder *fast__coded_whole(fast_coded *coded, const fast_chain **chain_out,
                              fast_coded_figures **figures_out);
/* Where streams are merged: set *out to the entries of an encoding of `count` blocks from `first`
 * on, in memory that the next call uses again; out->size has their elements. FAST_EFORMAT. */
fast_err fast__coded_entries(fast_coded *coded, int64_t first, int64_t count, const void *data,
                             size_t size, fast_sparse *out);
/* Return a vector of the whole count, for the sums of pieces; where streams of several blocks are
 * merged. */
float *fast__coded_dense(const fast_coded *coded);
/* Return the options of the next sparse allreduce: of the whole vector (0), or of a piece, from
 * 1. */
fast_sparse_call fast__coded_call(const fast_coded *coded, int64_t piece);
/* Replace the sum of signs by its sign, where members vote. */
void fast__coded_vote(const fast_coded *coded, int64_t count, float *y);

/* Charge for an encoding of `count` floats to `size` bytes, or for a decoding, that started at the
 * time `begin`. */
fast_err fast__charge_encode(fast_actor *actor, const fast_chain *chain, int64_t begin,
                             int64_t count, size_t size, fast_coded_figures *figures);
fast_err fast__charge_decode(fast_actor *actor, const fast_chain *chain, int64_t begin,
                             int64_t count, size_t size, fast_coded_figures *figures);

/* coded_way.c: set the method that these options name, or the cheapest, with its layers. `blocks`
 * is the number of blocks of the whole vector's coder. */
fast_err fast__coded_choose(const fast_coded_options *options, int64_t blocks, fast_coded_way *out,
                            fast_sparse_plan *plan_out);
/* Return the options of the coder of a vector, or of a slice. */
fast_coder_options fast__coded_coder(const fast_coded_options *options, int64_t offset,
                                     int64_t count);
