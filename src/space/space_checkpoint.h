/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "base/pack.h"
#include "codec/shadow.h"
#include "space/space_form.h"

/* The state of an actor's view of a space between two rounds, for checkpoints: space_checkpoint.c
 * lists it. */

/* Append the state to a block of records; in mid-run with the clocks and versions. */
void fast__space_save(const fast_space *space, bool clocks, fast_pack *pack);
/* Restore the state that actor `from` saved, which is this one or the other end of its flows. Call
 * it before the first operation. FAST_EFORMAT, FAST_ENOMEM. */
fast_err fast__space_load(fast_space *space, int64_t from, const void *bytes, size_t size);
/* Copy the saved ranges of a tensor of `length` floats to x, for use as initial values of a space;
 * the rest of x does not change. FAST_EFORMAT. */
fast_err fast__space_values_load(const void *bytes, size_t size, int64_t tensor, int64_t length,
                                 float *x);

/* The codecs' state of a view. Fields that an actor does not have are NULL. */
typedef struct fast_space_flows {
    fast_coder *const *coders[FAST_SPACE_WAYS]; /* [owner]: of adds, of reads */
    fast_shadows *const *shadows;               /* [owner]: how differences are read */
    fast_shadow *held;                          /* [owner]: values that this reader holds */
    fast_shadow *readers;                       /* [actors]: values that remote readers hold */
    int64_t actors;                             /* length of `readers` */
} fast_space_flows;
/* Set *out; false if the space has no codec. */
bool fast__space_flows(const fast_space *space, fast_space_flows *out);

/* Open a space; call `first`, if not NULL, before any other actor can use it. `chains`, lent while
 * the space is open, are its codecs; NULL: those that the options name. */
typedef fast_err fast_space_first_fn(void *ctx, fast_space *space);
fast_err fast__space_open(fast_actor *actor, const fast_space_options *options,
                          const fast_space_chains *chains, fast_space_first_fn *first, void *ctx,
                          fast_space **out);
