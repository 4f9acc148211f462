/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "base/option.h"
#include "fast/plugin.h"
#include "tensor/device.h"
#include "tensor/segment.h"

/*
 * Codecs: the encoded form of a vector on the wire. A vector passes through this folder so:
 *
 *   chain.c     "significance+topk:ratio=0.01+zstd" -> selections, a codec, and lossless stages
 *   coder.c     one flow of vectors: a chain with its error feedback and its state, blocks framed
 *   codecs.c    the registries; one file a codec (or a few that differ in a line), or a stage
 *   bits.h      bit and variable-length fields; noise.h: random numbers at the speed of memory
 *
 * A codec turns a block of floats into bytes and back. It is a kernel: the coder maps vectors for
 * it. It is pure: the same configuration, input, state and key give the same bytes, on every
 * machine. Encoding neither allocates nor fails. Decoding trusts nothing: hostile bytes give
 * FAST_EFORMAT and touch nothing outside the block. A block with a value that is not finite decodes
 * to one with such a value, so that a run that diverges is seen to.
 */

/* The unit of encoding: a segment, seen as a matrix, or a whole vector (one row). */
typedef struct fast_block {
    int64_t rows;  /* the first dimension; 1 for vectors */
    int64_t cols;  /* product of the other dimensions */
    int64_t count; /* rows * cols; at least 1, below 2^31 */
} fast_block;

/* The model that the vectors of a flow change, as their sender knows it. */
typedef struct fast_codec_model {
    const float *w; /* weights, of the layout; NULL: not known */
    float rate; /* x changes its weight by rate |x|: the learning rate if gradients are sent, 1 if
                       differences of weights are */
    int64_t taken; /* steps that the sender has taken; at least 1 */
    bool last;     /* no vector follows: selections send everything */
    bool due;    /* elements that have waited must be sent: a bound of staleness would be broken */
    double loss; /* of the sender's last gradient; NaN: not known */
    double elapsed_s; /* seconds since the flow's last vector, by its sender's clock; negative: not
                         known */
} fast_codec_model;
/* Look at the model at the time of an encoding. */
typedef void fast_codec_model_fn(void *ctx, fast_codec_model *out);

/* One encoding. Memory is the caller's; the scratch is aligned to FAST_ALIGN, floats to a float,
 * bytes not at all. Nothing overlaps. */
typedef struct fast_encoding {
    fast_block block; /* shape of x */
    const float *x;   /* [count] */
    float *error;     /* [count]: residual e of error feedback, or NULL. x + e is encoded instead of
                         x, and e becomes the loss. NULL without FAST_CODEC_FEEDBACK */
    float *state;     /* [state()]: the codec's own, of this flow; zero before the first encoding */
    void *scratch;    /* [scratch()] bytes, undefined before and after */
    uint64_t key;     /* of all random numbers; different for each encoding */
    int64_t step;     /* of training, from 0: for warm-ups */
    double progress;  /* of training, in epochs: for warm-ups */
    int64_t workers;  /* number of workers that send such gradients at a step */
    float shared;     /* SHARES: the scale of all workers; 0: the codec measures its own */
    /* For selections. */
    double fraction; /* of the whole vector that the block is */
    const float *w;  /* [count]: the weights that x changes; NULL: not known, which counts as 0 */
    const fast_codec_model *model; /* of those weights */
} fast_encoding;

/* How decoding combines d, the decoded vector, with y. */
typedef enum fast_decode_mode {
    FAST_DECODE_SET, /* y = scale d */
    FAST_DECODE_ADD, /* y += scale d */
} fast_decode_mode;

typedef struct fast_decoding {
    fast_block block;      /* shape of y */
    const uint8_t *in;     /* [size]; any alignment */
    size_t size;           /* bytes */
    fast_decode_mode mode; /* set or add */
    float scale;           /* multiplies the decoded values */
    float *y;              /* [count]; undefined after an error */
    void *scratch;         /* [scratch()] bytes */
} fast_decoding;

/* Rounds, instead of bytes: a codec whose messages can be summed as dense vectors (PowerSGD). The
 * group averages the dense vectors of each round over all workers, in place. */
typedef struct fast_codec_rounds {
    int count; /* number of rounds */
    /* Return the floats of a round. */
    int64_t (*size)(const void *config, const fast_block *block, int round);
    /* Write this worker's dense vector. Round 0 reads x and the residual. */
    void (*send)(const void *config, const fast_encoding *e, int round, float *dense);
    /* Read the mean over all workers. After the last round y is the decoded mean and e->error the
     * loss of this worker's contribution; before, y is NULL. */
    void (*take)(const void *config, const fast_encoding *e, int round, const float *dense,
                 float *y);
} fast_codec_rounds;

enum {
    FAST_CODEC_LOSSLESS = 1 << 0,    /* decodes to the same numbers */
    FAST_CODEC_UNBIASED = 1 << 1,    /* the mean over keys is x: error feedback does not help */
    FAST_CODEC_SPARSE = 1 << 2,      /* decodes to few values other than 0: pairs() */
    FAST_CODEC_LAYERS = 1 << 3,      /* means and norms are of a layer: scope layer by default */
    FAST_CODEC_RAW = 1 << 4,         /* precise enough for weights, not only for differences */
    FAST_CODEC_FEEDBACK = 1 << 5,    /* encode() does the error feedback itself */
    FAST_CODEC_ACCUMULATES = 1 << 6, /* has a residual of its own in its state: no error feedback */
    FAST_CODEC_VOTES = 1 << 7,       /* workers' encodings are summed and the sum's signs taken */
    FAST_CODEC_PLAIN = 1 << 8,       /* no error feedback by default */
    FAST_CODEC_MOMENTUM = 1 << 9, /* adds momentum to gradients: the update rule must have none */
    FAST_CODEC_EXACT = 1 << 10,   /* every encoding takes bound() bytes: the coder refuses others */
    FAST_CODEC_MODEL = 1 << 11,   /* compares with the weights: the sender must know them */
    FAST_CODEC_DEFERS = 1 << 12, /* holds elements back for a while: sends them when they are due */
    FAST_CODEC_LOSS = 1 << 14,   /* looks at the sender's loss */
    FAST_CODEC_RULE = 1 << 15,   /* does part of an update rule's work: for gradients alone */
    FAST_CODEC_SHARES = 1 << 13, /* all senders of a sum agree on the largest scale() of a block */
};

/* Operations of codecs that do not state theirs. */
enum { FAST_CODEC_OPERATIONS = 16 };

typedef struct fast_codec {
    const char *name;           /* as users type it */
    const char *summary;        /* one line, for help */
    const fast_option *options; /* of its configuration; NULL: it has none */
    size_t config_size;         /* bytes of the configuration */
    unsigned traits;            /* FAST_CODEC_* */
    int operations;             /* cost in simulated time: operations to encode an element, or to
                                   decode two; 0: FAST_CODEC_OPERATIONS */

    /* Return traits that depend on the options, besides `traits`. May be NULL. */
    unsigned (*more)(const void *config);
    /* Return the bytes that a block takes at most. */
    size_t (*bound)(const void *config, const fast_block *block);
    /* Return the floats of state, and the bytes of scratch for encode and decode; NULL: 0. */
    int64_t (*state)(const void *config, const fast_block *block);
    size_t (*scratch)(const void *config, const fast_block *block);
    /* Encode to out[bound()] and return the bytes written. */
    size_t (*encode)(const void *config, const fast_encoding *e, uint8_t *out);
    /* Decode to d->y. FAST_EFORMAT if the bytes are not an encoding of such a block. NULL for
     * SPARSE codecs: pairs() is enough. */
    fast_err (*decode)(const void *config, const fast_decoding *d);
    /* SPARSE: write the entries of an encoding, sorted by index, to index[count] and value[count],
     * and their number to *count_out. The scratch has `count` bytes. FAST_EFORMAT. */
    fast_err (*pairs)(const void *config, const fast_decoding *d, uint32_t *index, float *value,
                      int64_t *count_out);
    const fast_codec_rounds *rounds; /* NULL: it has no rounds */
    /* Replace x[count] by its projection to the space in which the encoding `e` would lie: x of
     * that space are encoded without loss. NULL: encodings lie in no space that is known before. */
    void (*project)(const void *config, const fast_encoding *e, float *x);
    /* SHARES: return the scale of x[n] by itself; NaN if an element is not finite. */
    float (*scale)(const void *config, int64_t n, const float *x);
    /* Selections, which have no operation besides this one: move elements of send[count] that wait
     * for a later vector to wait[count], which is 0 there. Elements that are not finite are sent.
     * Another selection, a codec or `nonzero` encodes the rest. NULL: it is no selection. */
    void (*select)(const void *config, const fast_encoding *e, float *send, float *wait);
} fast_codec;

/* A lossless stage over the bytes that a codec made. */
typedef struct fast_stage {
    const char *name;           /* as users type it */
    const char *summary;        /* one line, for help */
    const fast_option *options; /* of its configuration; NULL: it has none */
    size_t config_size;         /* bytes of the configuration */

    /* Return the bytes that `size` bytes take at most, and the bytes of scratch (NULL: 0). */
    size_t (*bound)(const void *config, size_t size);
    size_t (*scratch)(const void *config, size_t size);
    /* Pack to out[bound()] and return the bytes written. */
    size_t (*pack)(const void *config, const uint8_t *in, size_t size, void *scratch, uint8_t *out);
    /* Unpack to out[room], the bytes written to *size_out. FAST_EFORMAT, also if room is short. */
    fast_err (*unpack)(const void *config, const uint8_t *in, size_t size, void *scratch,
                       uint8_t *out, size_t room, size_t *size_out);
} fast_stage;

extern const fast_codec *const fast__codecs[]; /* NULL ends the list */
extern const fast_stage *const fast__stages[]; /* NULL ends the list */

/* A chain by name: selections, at most one codec, then stages. Immutable; shared by all coders of a
 * run, which parses each chain once and passes the pointer on. */
typedef struct fast_chain fast_chain;

enum { FAST_SELECTIONS_MAX = 4, FAST_STAGES_MAX = 4, FAST_CHAIN_TEXT_MAX = 512 };

/* Parse "selection:key=value+codec:key=value+stage:key=value"; "none" and stages alone send floats
 * as they are, selections alone are followed by `nonzero`. FAST_EINVAL for unknown names and
 * options, for two codecs, for parts in another order, and for a codec that needs every element. */
fast_err fast__chain_open(const char *spec, fast_chain **out);
/* The same with a filter of the caller's that the text may name; NULL: none. It is borrowed until
 * close. FAST_EINVAL too if it is no filter. */
fast_err fast__chain_open_with(const char *spec, const fast_filter *filter, fast_chain **out);
void fast__chain_close(fast_chain *chain);                    /* NULL is allowed */
const fast_codec *fast__chain_codec(const fast_chain *chain); /* NULL: the chain has no codec */
/* Return the traits of the codec with its options; without a codec LOSSLESS and RAW. */
unsigned fast__chain_traits(const fast_chain *chain);
const char *fast__chain_text(const fast_chain *chain);  /* as users typed it */
bool fast__chain_is_none(const fast_chain *chain);      /* true without codec and stage */
bool fast__chain_selects(const fast_chain *chain);      /* true if it begins with a selection */
bool fast__chain_only_selects(const fast_chain *chain); /* true if users named nothing else */
bool fast__chain_only_fades(const fast_chain *chain); /* true if it is `decay` and loses nothing */
/* True if selected elements are sent exactly, whatever stages follow: users named no codec. */
bool fast__chain_selects_exactly(const fast_chain *chain);

/* Of a codec that SHARES: the scale() of x[n], mapped. */
float fast__chain_scale(const fast_chain *chain, int64_t n, const float *x);

/* How a chain is laid over a vector. */
typedef struct fast_coder_options {
    const fast_chain *chain;    /* borrowed */
    const fast_layout *layout;  /* of the whole vector; borrowed */
    const fast_device *device;  /* of the flow's state; NULL: the host */
    int64_t offset;             /* first element of the range that flows here: a shard, a bucket */
    int64_t count;              /* elements of that range */
    int scope;                  /* 0 as the codec says, 1 a block for each layer, 2 one for all */
    int feedback;               /* 0 as the codec says, 1 yes, 2 no */
    int64_t small;              /* blocks of fewer elements go as they are (with scope layer) */
    int64_t workers;            /* as in fast_encoding; 0: 1 */
    uint64_t seed;              /* of the run */
    uint64_t flow;              /* distinct for each sender, receiver and vector of the run */
    fast_codec_model_fn *model; /* the model that the vectors change; NULL: not known */
    void *model_ctx;            /* argument of model */
} fast_coder_options;

/* One flow of vectors from one sender; its receivers need only a coder with the same chain, layout
 * and range, of which they use the decoding half. Not for two threads at once. */
typedef struct fast_coder fast_coder;

/* Make a coder. FAST_EINVAL for options that contradict the codec, FAST_ENOMEM. */
fast_err fast__coder_new(const fast_coder_options *options, fast_coder **out);
void fast__coder_free(fast_coder *coder); /* NULL is allowed */
/* Return the bytes that one vector takes at most. */
size_t fast__coder_bound(const fast_coder *coder);

/* How urgent an encoding is, for selections. */
typedef struct fast_coder_pace {
    bool due;             /* elements that have waited must be sent */
    bool all;             /* all elements must be sent */
    bool timed;           /* the times are known */
    double now_s;         /* the sender's time at the last encoding */
    double elapsed_s;     /* since the encoding before to the same receiver */
    const float *weights; /* [count] that the range changes; NULL: by the coder's model */
} fast_coder_pace;

/* Before an encoding: tell selections whether elements that have waited are due, and the sender's
 * time. */
void fast__coder_set_due(fast_coder *coder, bool due, double now_s);
/* The same, and more, for the next encodings; `weights` are borrowed until it is set again. */
void fast__coder_set_pace(fast_coder *coder, const fast_coder_pace *pace);
/* Encode by these scales, one for each block, from now on; borrowed. NULL: by the codec's own. */
void fast__coder_share(fast_coder *coder, const float *scales);
/* Encode x, the range, at a step: the bytes written. Neither allocates nor fails. */
size_t fast__coder_encode(fast_coder *coder, int64_t step, double progress, const float *x,
                          uint8_t *out);
/* y = scale d or y += scale d, over the range. FAST_EFORMAT. */
fast_err fast__coder_decode(fast_coder *coder, const uint8_t *in, size_t size,
                            fast_decode_mode mode, float scale, float *y);
/* Encode x, the range, by the selections of the chain alone: y becomes the part that is sent. */
void fast__coder_select(fast_coder *coder, const float *x, float *y);
/* Return whether encodings lie in a space of their codec; not if the chain selects elements. */
bool fast__coder_projects(const fast_coder *coder);
/* Replace x, the range, by its projection to the space of the next encoding, which there is. */
void fast__coder_project(fast_coder *coder, float *x);
/* Encode or decode `count` blocks from `first` on; x and y are the whole range, of which only those
 * blocks are touched. fast__coder_encode_end() ends a vector once all its blocks are encoded. A
 * piece takes fast__coder_bound() at most. */
size_t fast__coder_encode_part(fast_coder *coder, int64_t first, int64_t count, int64_t step,
                               double progress, const float *x, uint8_t *out);
void fast__coder_encode_end(fast_coder *coder);
fast_err fast__coder_decode_part(fast_coder *coder, int64_t first, int64_t count, const uint8_t *in,
                                 size_t size, fast_decode_mode mode, float scale, float *y);
/* Return the number of blocks of the range, and where block i lies in it. */
int64_t fast__coder_block_count(const fast_coder *coder);
void fast__coder_block_at(const fast_coder *coder, int64_t i, int64_t *at_out, int64_t *count_out);
/* SPARSE codecs over one block: its entries, as of pairs(). FAST_EFORMAT; FAST_ENOTSUP for other
 * codecs and for several blocks. */
fast_err fast__coder_pairs(fast_coder *coder, const uint8_t *in, size_t size, uint32_t *index,
                           float *value, int64_t *count_out);

/* Return the residual of error feedback, `count` elements; NULL without feedback. */
float *fast__coder_residual(const fast_coder *coder);
/* Return all state of the flow, for checkpoints: the residual, then the codec's own. */
float *fast__coder_state(const fast_coder *coder, int64_t *count_out);
/* Return the number of vectors encoded so far: it keys the random choices. */
int64_t fast__coder_encodings(const fast_coder *coder);
/* Return the time of the last fast__coder_set_due(), from which the next vector is timed; 0: it was
 * never called. A checkpoint restores it. */
double *fast__coder_last_s(fast_coder *coder);
/* Start again, as if `encodings` vectors had been encoded: state and residual become 0. */
void fast__coder_restart(fast_coder *coder, int64_t encodings);

/* Return the number of rounds; 0 for codecs without, for which the rest is not. The dense vectors
 * of a round's blocks lie one after the other. */
int fast__coder_round_count(const fast_coder *coder);
int64_t fast__coder_round_size(const fast_coder *coder, int round);
void fast__coder_round_send(fast_coder *coder, int64_t step, double progress, int round,
                            const float *x, float *dense);
/* Take the mean of the round in; y, the range, is complete after the last one. */
void fast__coder_round_take(fast_coder *coder, int round, const float *dense, float *y);
