/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "base/pack.h"
#include "codec/shadow.h"
#include "space/space_form.h"

/* What an actor's view of a space keeps between rounds, for checkpoints; space_keep.c says what. */

/* Add it to a block of records. */
void fast__space_save(const fast_space *space, fast_pack *pack);
/* Take it over: what actor `from` left, this one or the other end of its flows. Before the first
 * operation. FAST_EFORMAT, FAST_ENOMEM. */
fast_err fast__space_load(fast_space *space, int64_t from, const void *bytes, size_t size);
/* Before the space is opened: the ranges of a tensor of `length` floats that it had, in x, which
 * stays as it is elsewhere. FAST_EFORMAT. */
fast_err fast__space_values_load(const void *bytes, size_t size, int64_t tensor, int64_t length,
                                 float *x);

/* The codecs' part of a view; false: it has none. What an actor does not have is NULL. */
typedef struct fast_space_flows {
    fast_coder *const *coders[FAST_SPACE_WAYS]; /* [owner] */
    fast_shadows *const *shadows;               /* [owner]: how differences are read */
    fast_shadow *held;                          /* [owner]: what this reader holds */
    fast_shadow *readers;                       /* [actors]: what far readers hold */
    int64_t actors;                             /* of them */
} fast_space_flows;
bool fast__space_flows(const fast_space *space, fast_space_flows *out);

/* Open a space; `first`, if not NULL, has it before anybody else can. */
typedef fast_err fast_space_first_fn(void *ctx, fast_space *space);
fast_err fast__space_open(fast_actor *actor, const fast_space_options *options,
                          fast_space_first_fn *first, void *ctx, fast_space **out);
