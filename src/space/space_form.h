/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "space/space_wire.h"

/*
 * Forms: how the values of one range travel. A form turns the values of an operation into parts of
 * a message and back; it knows nothing of owners' stores, windows or versions.
 *
 *   form       for                              parts
 *   sizes      simulations without values       none; the bytes are declared
 *   dense      PUT, ADD, VALUE                  the floats
 *   sparse     ADD with many zeros              places, values          space_sparse.c
 *   factored   ADD with layers as factors       other floats, factors   space_factors.c
 *   encoded    ADD, VALUE of tensor 0           the codec's bytes       space_codec.c
 *   staged     ADD that was sent in pieces      none                    space_pieces.c
 */

/* Packed values. Buffers belong to the caller. */
typedef struct fast_space_packed {
    fast_buffer *buffers[2]; /* NULL: no such part */
    size_t sizes[2];         /* bytes of each part that are used */
    size_t declared;         /* bytes that travel as a number only */
} fast_space_packed;

typedef struct fast_space_form {
    const char *name; /* one word */

    /* Return the most bytes that pack() makes of the operation's range. */
    size_t (*bound)(const fast_space *space, const fast_space_operation *op);
    /* Pack op->x, or op->factors, to a zeroed *out; on failure it holds nothing. May charge the
     * sender. Never blocks. FAST_ENOMEM. */
    fast_err (*pack)(fast_space *space, const fast_space_operation *op, fast_space_packed *out);
    /* Set op->x to the range's values, lent until the next unpack(); false if the message's parts
     * make no sense, whatever a hostile sender put there. Charges nothing. */
    bool (*unpack)(fast_space *space, const fast_msg *msg, fast_space_operation *op);
    /* Charge the receiver for unpack(), after the values were used. NULL: unpacking is free. */
    fast_err (*cost)(fast_space *space, const fast_msg *msg, const fast_space_operation *op);
} fast_space_form;

extern const fast_space_form fast__space_form_sizes;
extern const fast_space_form fast__space_form_dense;
extern const fast_space_form fast__space_form_sparse;
extern const fast_space_form fast__space_form_factored;
extern const fast_space_form fast__space_form_encoded;
extern const fast_space_form fast__space_form_staged;

/* Return the form that the values of an operation travel in. Sets op->entries where it counts
 * them. */
const fast_space_form *fast__space_form_of(const fast_space *space, fast_space_operation *op);
/* Return the form of the values in a message; NULL: it has none of them. */
const fast_space_form *fast__space_form_in(const fast_space *space, const fast_msg *msg,
                                           const fast_space_operation *op);
/* Pack the operation's range by its form. */
fast_err fast__space_pack(fast_space *space, fast_space_operation *op, fast_space_packed *out);
/* Pack the operation's range and add the parts to a message. */
fast_err fast__space_fill(fast_space *space, fast_space_operation *op, fast_msg *msg);
/* Unpack a message's values to op->x and set op->form; false if they make no sense. */
bool fast__space_unpack(fast_space *space, const fast_msg *msg, fast_space_operation *op);

/* space_sparse.c */
void fast__space_sparse_free(fast_space *space);
/* Pack lists of places and values of the first tensor by the stages of a chain from now on; it is
 * borrowed. FAST_ENOMEM. */
fast_err fast__space_sparse_stage(fast_space *space, const fast_chain *chain);

/* space_pieces.c: updates in pieces. */

/* With a codec: note that all of each block is missing. */
fast_err fast__space_pieces_new(fast_space *space);
void fast__space_pieces_free(fast_space *space);
/* Charge for the pieces of an update, all of which have been given. */
fast_err fast__space_pieces_end(fast_space *space);
/* At an owner: return true if this is a piece of its range. */
bool fast__space_is_piece(const fast_space *space, const fast_msg *msg);
/* At an owner: copy a piece to the writer's copy of the range; *floats_out is 0 if it makes no
 * sense. */
fast_err fast__space_take_piece(fast_space *space, const fast_msg *msg, float *stage,
                                int64_t *floats_out);

/* space_factors.c: copy the layers of the options; FAST_EINVAL for layers that do not fit. */
fast_err fast__space_layers_new(fast_space *space, const fast_space_options *options);

/* space_codec.c: the first tensor, where it travels encoded. */
typedef enum fast_space_way {
    FAST_SPACE_UP,   /* values that are added */
    FAST_SPACE_DOWN, /* values that are read */
    FAST_SPACE_WAYS
} fast_space_way;

/* Codecs of the first tensor that were parsed before; borrowed. */
typedef struct fast_space_chains {
    const fast_chain *way[FAST_SPACE_WAYS]; /* NULL: floats without a codec */
    fast_codec_model_fn *model;             /* that adds change; NULL: not known */
    void *model_ctx;                        /* argument of model */
} fast_space_chains;

/* Use these chains; NULL: open those that the options name. FAST_EINVAL for codecs that cannot be
 * used here. */
fast_err fast__space_codec_new(fast_space *space, const fast_space_options *options,
                               const fast_space_chains *chains);
void fast__space_codec_free(fast_space *space);
bool fast__space_is_coded(const fast_space *space, fast_space_way way, int64_t tensor);
/* Replace *x, an update of the first tensor that travels as floats, by the elements that the codec
 * selects; the others wait. Lent until the next selection. Other updates stay as they are. */
void fast__space_select(fast_space *space, const float **x);
/* Return true if a tensor is read as differences to the values that each reader holds. */
bool fast__space_differs(const fast_space *space, int64_t tensor);
/* Return the coder of adds to an owner's range, NULL where that is empty, with its chain and
 * figures where those are asked for. */
fast_coder *fast__space_coder(const fast_space *space, int64_t owner, const fast_chain **chain_out,
                              fast_coded_figures **figures_out);
/* Return where the codecs of a space count. */
fast_coded_figures *fast__space_counts(const fast_space *space);
/* Return how far the run is, in epochs. */
double fast__space_progress(const fast_space *space);
/* At an owner, with differences: reader `id` joined again, or asks for all, and holds nothing. */
void fast__space_forget(fast_space *space, int64_t id);
/* At a reader with a local owner, with differences: hold nothing, so that all of the range comes
 * next. */
void fast__space_drop(fast_space *space, int64_t owner);
/* At a reader, with differences: add what an owner sent to the held values, each message once and
 * in its order; false if it makes no sense. Charges nothing. */
bool fast__space_take(fast_space *space, int64_t owner, const void *in, size_t size);
/* At a reader, with differences: return where the owner's last message brought new values, elements
 * that are not 0; NULL if it brought all. */
const float *fast__space_changed_part(const fast_space *space, int64_t owner);
/* At an owner whose answers have a budget: let the next answers hold no elements back, or some. */
void fast__space_send_all(fast_space *space, bool all);
/* At an owner: true if the last answer to a reader held nothing back. */
bool fast__space_is_complete(const fast_space *space, int64_t reader);
/* Charge for a decoding of `size` bytes to an owner's range. */
fast_err fast__space_pay(fast_space *space, fast_space_way way, int64_t owner, size_t size);
/* Encode and decode a local range, so that it has the bits that would arrive by a message; lent
 * until the next. Charged. */
fast_err fast__space_recode(fast_space *space, fast_space_way way, int64_t owner, const float *x,
                            const float **out);
