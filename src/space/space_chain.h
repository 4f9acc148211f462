/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "space/space_wire.h"

/* Chains of copies: space_chain.c has the protocol. All functions do nothing, and answer as if this
 * owner were the only copy, where the space has no copies. Nothing here blocks. */

/* Note the copies of the options, after the owners and tensors. FAST_EINVAL for options that do not
 * go with copies. */
fast_err fast__copies_new(fast_space *space, const fast_space_options *options);
void fast__copies_free(fast_space *space);
/* Return true if actor `id` owns a copy of an owner's range. */
bool fast__copies_owns(const fast_space *space, int64_t owner, int64_t id);
/* Ask the transport to tell this actor of the ends of the copies' owners. */
void fast__copies_watch(fast_space *space);

/* At an owner. */

/* A copy that has no state asks for it: once, when it opens. */
fast_err fast__copies_join(fast_space *space);
/* Handle a message between copies, and set *err_out if that fails; false if it is a request. */
bool fast__copies_handle(fast_space *space, const fast_msg *msg, fast_err *err_out);
/* Return true if a request is to be handled; one that was passed on becomes its first sender's. */
bool fast__copies_accept(const fast_space *space, fast_msg *msg);
/* Pass a request on to the next copy. */
fast_err fast__copies_pass(fast_space *space, const fast_msg *msg);
/* Return true if this copy answers requests: the last one. */
bool fast__copies_answer(const fast_space *space);
/* Look who is down, and take the place of the copies that are. */
fast_err fast__copies_advance(fast_space *space);
/* Return an actor that an owner must not end before: that of the next copy; or -1. */
int64_t fast__copies_next(const fast_space *space);

/* At an actor that uses the space. */

/* Store an update or tick until the last copy has acknowledged it. Its parts are shared, not
 * copied. FAST_ENOMEM. */
fast_err fast__copies_retain(fast_space *space, int64_t owner, const fast_msg *msg);
/* Forget those that were acknowledged since number `from`. */
void fast__copies_acked(fast_space *space, int64_t owner, int64_t from);
/* ROLE: the first copy is another now, or the last one is. Send again what it may lack. */
fast_err fast__copies_follow(fast_space *space, int64_t owner, const fast_msg *msg);
/* Return the actor that is waited for: the first copy, or, while it is down, another one. */
int64_t fast__copies_whom(const fast_space *space, int64_t owner);
/* Return FAST_OK instead of FAST_EPEER where another copy may take over. */
fast_err fast__copies_excuse(const fast_space *space, int64_t owner, fast_err err);
/* Send the request of the get under way to an owner. space_remote.c */
fast_err fast__remote_ask(fast_space *space, int64_t owner);
