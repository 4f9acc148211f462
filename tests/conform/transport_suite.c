/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Parts shared by the cases of the transports' suite: options of a run, expectations that become
 * errors, messages whose bytes follow from one number, and a barrier.
 */
#include "conform/transport_suite.h"

#include "base/rng.h"

#include <stdio.h>
#include <string.h>

/* Tags that no case uses and FAST_TAG_ANY leaves alone. */
#define TAG_ENTER (FAST_TAG_GROUP + 0xfff0)
#define TAG_LEAVE (FAST_TAG_GROUP + 0xfff1)

fast_err suite_run_roles(const suite *on, const fast_role *roles, int64_t role_count,
                         const char *option, fast_actors_result *result_out)
{
    char transport[64];
    snprintf(transport, sizeof transport, "transport=%s", on->transport);
    const char *options[] = { transport,    "seed=7",
                              "timeout=60", on->check ? "check=yes" : "check=no",
                              option,       NULL };
    return fast_actors_run(options, roles, role_count, result_out);
}

fast_err suite_run(const suite *on, fast_actor_fn *main, void *ctx, int64_t count,
                   const char *option, fast_actors_result *result_out)
{
    const fast_role role = { "worker", count, main, ctx };
    return suite_run_roles(on, &role, 1, option, result_out);
}

static const char *base_name(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

fast_err suite_expect(bool holds, const char *condition, const char *file, int line)
{
    if (holds)
        return FAST_OK;
    return fast__fail(FAST_EINVAL, "%s:%d: not %s", base_name(file), line, condition);
}

fast_err suite_expect_err(fast_err err, fast_err code, const char *call, const char *file, int line)
{
    if (err == code)
        return FAST_OK;
    char said[200];
    snprintf(said, sizeof said, "%s", err ? fast_error_detail() : "");
    return fast__fail(FAST_EINVAL, "%s:%d: %s gives %s, not %s (%s)", base_name(file), line, call,
                      fast_err_name(err), fast_err_name(code), said);
}

int64_t suite_late(fast_actor *actor)
{
    return fast_now(actor) + 60000000000;
}

fast_err suite_send(fast_actor *actor, int64_t to, uint64_t tag, int64_t word)
{
    fast_msg *msg = NULL;
    FAST_TRY(fast_msg_new(actor, tag, &msg));
    for (int i = 0; i < FAST_MSG_WORDS; i++)
        msg->words[i] = word + i;
    return fast_send(actor, to, &msg);
}

/* The bytes of a message: a counter times an odd number, cheap and different everywhere. */
static unsigned char byte_of(int64_t word, size_t i)
{
    return (unsigned char)(((uint64_t)word * 31 + i + 1) * 0x9e3779b97f4a7c15u >> 56);
}

fast_err suite_send_bytes(fast_actor *actor, int64_t to, uint64_t tag, int64_t word, size_t size)
{
    fast_msg *msg = NULL;
    fast_buffer *buffer = NULL;
    FAST_TRY(fast_msg_new(actor, tag, &msg));
    msg->words[0] = word;
    const fast_err err = fast_buffer_new(actor, size, &buffer);
    if (err) {
        fast_msg_free(msg);
        return err;
    }
    unsigned char *bytes = fast_buffer_data(buffer);
    for (size_t i = 0; i < size; i++)
        bytes[i] = byte_of(word, i);
    fast_msg_add(msg, &buffer);
    return fast_send(actor, to, &msg);
}

fast_err suite_check_bytes(const fast_msg *msg, int64_t word, size_t size)
{
    FAST_TRY(EXPECT(msg->part_count == 1));
    FAST_TRY(EXPECT(msg->words[0] == word));
    FAST_TRY(EXPECT(msg->parts[0].size == size));
    const unsigned char *bytes = fast_msg_data(msg, 0);
    for (size_t i = 0; i < size; i++)
        if (bytes[i] != byte_of(word, i))
            return fast__fail(FAST_EINVAL, "byte %zu of %zu differs", i, size);
    return FAST_OK;
}

fast_err suite_receive(fast_actor *actor, int64_t from, uint64_t tag, int64_t word)
{
    fast_msg *msg = NULL;
    FAST_TRY(fast_receive(actor, from, tag, FAST_SOON, &msg));
    const int64_t got = msg->words[0];
    const bool right = msg->tag == tag && (from == FAST_ANY || msg->from == from) &&
                       msg->to == fast_actor_id(actor);
    fast_msg_free(msg);
    FAST_TRY(EXPECT(right));
    if (got != word)
        return fast__fail(FAST_EINVAL, "message %lld of actor %lld came where %lld was next",
                          (long long)got, (long long)from, (long long)word);
    return FAST_OK;
}

fast_err suite_barrier(fast_actor *actor)
{
    const int64_t count = fast_actor_count(actor), id = fast_actor_id(actor);
    if (id != 0) {
        FAST_TRY(suite_send(actor, 0, TAG_ENTER, id));
        return suite_receive(actor, 0, TAG_LEAVE, 0);
    }
    for (int64_t i = 1; i < count; i++)
        FAST_TRY(suite_receive(actor, i, TAG_ENTER, i));
    for (int64_t i = 1; i < count; i++)
        FAST_TRY(suite_send(actor, i, TAG_LEAVE, 0));
    return FAST_OK;
}
