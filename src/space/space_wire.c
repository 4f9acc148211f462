/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Messages of a space. A tag is FAST_TAG_SPACE, 48 bits of the name's hash, and 0 for requests (to
 * owners) or 1 for answers. The words of a message:
 *
 *     0 kind | 1 tensor | 2 owner's number in the space | 3, 4, 5 as fast_space_kind lists them
 *
 * PUT, ADD and VALUE carry the values of one range in one of the forms of space_form.h.
 */
#include "space/space_wire.h"

#include <string.h>

/* Requests and answers have different tags: an actor may be owner and reader at once. */
uint64_t fast__space_tag(const fast_space *space, bool answer)
{
    FAST_ASSERT(space->key >> 48 == 0);
    return FAST_TAG_SPACE | space->key << 8 | (answer ? 1 : 0);
}

/* The tag of answers: blame follows the owner that has not answered. */
fast_wait fast__space_wait(fast_space *space, int64_t whom, const char *doing, int64_t deadline)
{
    FAST_ASSERT(doing);
    return (fast_wait){ .waiting = true,
                        .whom = whom,
                        .tag = fast__space_tag(space, true),
                        .since = fast_now(space->actor),
                        .deadline = deadline,
                        .doing = doing };
}

fast_err fast__space_message(fast_space *space, fast_space_kind kind, int64_t tensor, int64_t owner,
                             const int64_t words[3], fast_msg **out)
{
    fast_msg *msg;
    FAST_ASSERT(kind > FAST_SPACE_SERVE && kind < FAST_SPACE_KINDS);
    FAST_TRY(fast_msg_new(space->actor, fast__space_tag(space, kind >= FAST_SPACE_ACK), &msg));
    msg->words[FAST_SPACE_W_KIND] = kind;
    msg->words[FAST_SPACE_W_TENSOR] = tensor;
    msg->words[FAST_SPACE_W_OWNER] = owner;
    memcpy(&msg->words[FAST_SPACE_W_A], words, 3 * sizeof *words);
    *out = msg;
    return FAST_OK;
}

/* For messages without values; those with values are filled first and sent by their callers. */
fast_err fast__space_tell(fast_space *space, int64_t to, fast_space_kind kind, int64_t tensor,
                          int64_t owner, const int64_t words[3])
{
    FAST_ASSERT(owner >= 0 && owner < space->map.owner_count);
    fast_msg *msg;
    FAST_TRY(fast__space_message(space, kind, tensor, owner, words, &msg));
    return fast_send(space->actor, to, &msg);
}
