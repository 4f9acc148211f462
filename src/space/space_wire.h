/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "space/space_state.h"

/* Messages of a space: space_wire.c has their format. */

/* Indices of a message's words. */
enum {
    FAST_SPACE_W_KIND,   /* fast_space_kind */
    FAST_SPACE_W_TENSOR, /* number of the tensor */
    FAST_SPACE_W_OWNER,  /* number of the owner in the space */
    FAST_SPACE_W_A,      /* first argument of the kind */
    FAST_SPACE_W_B,      /* second argument of the kind */
    FAST_SPACE_W_C       /* third argument of the kind */
};

uint64_t fast__space_tag(const fast_space *space, bool answer);
/* Return what an actor that waits for a space's answers tells of its wait: for actor `whom`. */
fast_wait fast__space_wait(fast_space *space, int64_t whom, const char *doing, int64_t deadline);
/* Make a message without values; or make and send it. */
fast_err fast__space_message(fast_space *space, fast_space_kind kind, int64_t tensor, int64_t owner,
                             const int64_t words[3], fast_msg **out);
fast_err fast__space_tell(fast_space *space, int64_t to, fast_space_kind kind, int64_t tensor,
                          int64_t owner, const int64_t words[3]);

/* space_remote.c: remote owners, from the side of the actor that uses a space. */

/* Send a PUT, ADD or TICK, waiting for room until its deadline. Where adds may be announced an add
 * is only made ready; flush() announces those of many bytes, and sends them. */
fast_err fast__remote_update(fast_space *space, fast_space_operation *op);
fast_err fast__remote_flush(fast_space *space);
/* Wait until all owners have applied the updates that were sent to them. */
fast_err fast__remote_settle(fast_space *space, int64_t deadline);
/* Ask an owner for its range of a get. Its `asked` is 0 afterwards if eager values answer it. */
fast_err fast__remote_get_start(fast_space *space, int64_t owner, const fast_space_operation *get);
/* Wait for all of the get under way, or for a range of it. */
fast_err fast__remote_get_wait(fast_space *space);
fast_err fast__remote_get_need(fast_space *space, int64_t offset, int64_t count);
/* Ask an owner to notify this actor of the next version. */
fast_err fast__remote_watch(fast_space *space, int64_t owner, int64_t tensor);
/* Handle the answers that have arrived; never blocks. */
fast_err fast__remote_advance(fast_space *space);
/* Send LEAVE to all owners, and wait for their answers. */
fast_err fast__remote_leave(fast_space *space);

/* space_owner.c: the service of an owner. Nothing in it blocks. */
fast_err fast__service_new(fast_space *space);
void fast__service_free(fast_space *space);
/* Handle the requests that have arrived. */
fast_err fast__service_advance(fast_space *space);
/* In fast_space_serve(), in virtual time: wait until the requests of this instant have arrived, and
 * answer them. */
fast_err fast__service_gather(fast_space *space);
/* Note that the owner itself changed something, which pending requests may wait for. */
void fast__service_touch(fast_space *space);
/* Return the actor that holds back a get of `origin`; -1 if it has none pending. */
int64_t fast__service_explain(fast_space *space, int64_t origin);
/* Return true if an update that was announced to this owner has not arrived. */
bool fast__service_awaits(fast_space *space);
/* Tell the actors that are still in that the owner closes. */
void fast__service_close(fast_space *space);
/* Return the number of requests that were dropped because they made no sense. */
int64_t fast__service_refused(const fast_space *space);
/* Return the floats of an actor's next update that have arrived in pieces, and where they are. */
int64_t fast__service_staged(const fast_space *space, int64_t from, const float **x_out);
