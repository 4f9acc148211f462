/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "base/pack.h"
#include "codec/codec.h"
#include "comm/spread.h"

/* The sum of vectors over a group, of which codecs make what is sent; coded.c says how. One object
 * for each member, which outlives groups: what it owes is part of the member's state. */
typedef struct fast_coded fast_coded;

/* How a sum is made. */
typedef enum fast_coded_way {
    FAST_CODED_AUTO,    /* by what it costs */
    FAST_CODED_ROUNDS,  /* the codec's dense vectors are summed, round by round */
    FAST_CODED_SPARSE,  /* streams of entries are merged */
    FAST_CODED_GATHER,  /* all encodings go to everyone, who decodes them */
    FAST_CODED_STRIPED, /* each member sums a slice, and sends it to all */
} fast_coded_way;

/* What was encoded and decoded so far. Others may look. */
typedef struct fast_coded_figures {
    fast_counter bytes_in;  /* of floats that were encoded */
    fast_counter bytes_out; /* of their encodings */
    fast_counter bytes_dec; /* of floats that were decoded */
    fast_counter encode_ns; /* that encoding took */
    fast_counter decode_ns; /* that decoding took */
} fast_coded_figures;

/* The same at all members, but for the rank and the figures. */
typedef struct fast_coded_options {
    const fast_chain *up;      /* what members send; borrowed */
    const fast_chain *down;    /* what comes back; "none": floats, where anything does; borrowed */
    const fast_layout *layout; /* of the vectors; borrowed */
    int scope;                 /* as in fast_coder_options, likewise the next two */
    int feedback;              /* of what comes back where that codec can have it */
    int64_t small;             /* blocks with fewer elements go as they are */
    int64_t size;              /* of the group */
    int64_t rank;              /* in it */
    uint64_t seed;             /* of the run */
    fast_coded_way way;        /* FAST_EINVAL where it does not fit */
    fast_coded_figures *figures; /* where to count; borrowed. NULL: its own */
} fast_coded_options;

/* Refuse what does not go together, with the reason; the layout may be of any vector. */
fast_err fast__coded_check(const fast_coded_options *options);
/* The same of what the codec and the options of its use ask for alone. */
fast_err fast__coded_check_coder(const fast_coded_options *options);
fast_err fast__coded_new(const fast_coded_options *options, fast_coded **out);
void fast__coded_free(fast_coded *coded); /* NULL is allowed */
fast_coded_way fast__coded_way(const fast_coded *coded);
const fast_coded_figures *fast__coded_figures(const fast_coded *coded);
/* True if a member's later messages depend on what it sent before. */
bool fast__coded_remembers(const fast_coded *coded);
/* All that the member owes and its codecs keep, as records of this kind; take one of them over:
 * FAST_EFORMAT if it does not fit. */
void fast__coded_pack(const fast_coded *coded, fast_pack *pack, int64_t kind);
fast_err fast__coded_unpack(fast_coded *coded, const fast_record *record);
/* Owe nothing, as after `sums` calls. */
void fast__coded_restart(fast_coded *coded, int64_t sums);

/* x, of the layout, becomes the sum over the group, the same bits at all members. A collective. */
fast_err fast__coded_sum(fast_coded *coded, fast_group *group, int64_t step, double progress,
                         float *x, int64_t deadline);

/* coded_early.c: the same in pieces of whole layers, each of which begins when its layers are
 * there. Only the way gather, with a block for each layer; the bits are those of one sum. */
typedef struct fast_coded_piece {
    int64_t offset;      /* of its elements */
    int64_t count;       /* of them */
    int64_t first;       /* block of the coder */
    int64_t block_count; /* of it */
    size_t size;         /* bytes of the own encoding */
    int64_t spent_ns;    /* on it, not yet charged; simulated time is */
    fast_spread spread;  /* of the encodings */
} fast_coded_piece;

/* Cut in pieces of at least `least` floats, from the last layer to the first; *count_out is 0 where
 * sums cannot begin early. The group is the sums'. */
fast_err fast__coded_cut(fast_coded *coded, fast_group *group, int64_t least,
                         fast_coded_piece **out, int64_t *count_out);
void fast__coded_cut_free(fast_coded_piece *pieces, int64_t count);
/* Encode a piece of x, the whole vector, and post it. Never blocks. */
fast_err fast__coded_start(fast_coded *coded, fast_coded_piece *piece, int64_t step,
                           double progress, const float *x);
/* Wait for everybody's, and make the sum in x. After the last of a step's: fast__coded_end(). */
fast_err fast__coded_finish(fast_coded *coded, fast_coded_piece *piece, float *x, int64_t deadline);
void fast__coded_end(fast_coded *coded);

/* The coder of whole vectors, for coded_early.c; NULL where there is none. */
fast_coder *fast__coded_whole(fast_coded *coded, const fast_chain **chain_out,
                              fast_coded_figures **figures_out);
/* The sum of signs becomes its sign, where members vote. */
void fast__coded_vote(const fast_coded *coded, int64_t count, float *y);

/* Charge for an encoding of `count` floats to `size` bytes, or a decoding, that began then. */
fast_err fast__charge_encode(fast_actor *actor, const fast_chain *chain, int64_t begin,
                             int64_t count, size_t size, fast_coded_figures *figures);
fast_err fast__charge_decode(fast_actor *actor, const fast_chain *chain, int64_t begin,
                             int64_t count, size_t size, fast_coded_figures *figures);

/* coded_way.c: the way that these options ask for, or the cheapest. `blocks` are those of the whole
 * vector's coder. */
fast_err fast__coded_choose(const fast_coded_options *options, int64_t blocks, fast_coded_way *out);
/* How the vector's coder, or a slice's, is made. */
fast_coder_options fast__coded_coder(const fast_coded_options *options, int64_t offset,
                                     int64_t count);
