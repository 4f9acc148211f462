/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Updates in pieces. Goal: pieces in any order are one update, however the tensor is cut over
 * owners; what is no piece, and an end without all of them, is refused. Method: a writer and three
 * owners in the simulator and on threads, and messages made by hand.
 */
#include "space/space_form.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

enum { COUNT = 100, OWNERS = 3 };

static const int64_t ids[] = { 0, 1, 2, 3 };

static fast_space_options options_of(int64_t owners)
{
    static const fast_space_tensor tensors[] = { { "a", COUNT, NULL } };
    return (fast_space_options){ .name = "space",
                                 .tensors = tensors,
                                 .tensor_count = 1,
                                 .owners = ids,
                                 .owner_count = owners,
                                 .writers = ids + OWNERS,
                                 .writer_count = 1,
                                 .pieces = true };
}

/* Two updates, in pieces from the end and from the start. */
static fast_err add_and_read(fast_space *space)
{
    static const int64_t cuts[] = { 0, 10, 11, 60, COUNT };
    float x[COUNT], y[COUNT];
    fast_space_read read = { .version_min = 2 };
    for (int i = 0; i < COUNT; i++)
        x[i] = (float)i;
    for (int k = 3; k >= 0; k--)
        FAST_TRY(fast_space_add_piece(space, x, cuts[k], cuts[k + 1] - cuts[k]));
    FAST_TRY(fast_space_add_end(space, x, FAST_SOON));
    for (int k = 0; k < 4; k++)
        FAST_TRY(fast_space_add_piece(space, x, cuts[k], cuts[k + 1] - cuts[k]));
    FAST_TRY(fast_space_add_end(space, x, FAST_SOON));
    FAST_TRY(fast_space_get(space, 0, y, &read, FAST_SOON));
    for (int i = 0; i < COUNT; i++)
        if (y[i] != 2 * x[i] || read.version != 2)
            return fast__fail(FAST_EFORMAT, "element %d is %g", i, (double)y[i]);
    return FAST_OK;
}

static fast_err program(fast_actor *actor, void *ctx)
{
    const int64_t *owners = ctx;
    const fast_space_options options = options_of(*owners);
    fast_space *space;
    FAST_TRY(fast_space_open(actor, &options, &space));
    const fast_err err = fast_actor_id(actor) == OWNERS   ? add_and_read(space)
                         : fast_actor_id(actor) < *owners ? fast_space_serve(space, FAST_SOON)
                                                          : FAST_OK;
    fast_space_close(space);
    return err;
}

static void run(const char *transport, fast_actor_fn *main, void *ctx)
{
    const fast_role roles[] = { { "worker", OWNERS + 1, main, ctx } };
    const bool sim = strcmp(transport, "transport=sim") == 0;
    const char *const options[] = { transport, "timeout=60", sim ? "cluster=ethernet-1g" : NULL,
                                    NULL };
    fast_actors_result result;
    const fast_err err = fast_actors_run(options, roles, 1, &result);
    if (err)
        fail_msg("%s: %s: %s", transport, fast_err_name(err), fast_error_detail());
}

static void pieces_are_one_update(void **state)
{
    (void)state;
    for (int64_t owners = 1; owners <= OWNERS; owners++) {
        run("transport=sim", program, &owners);
        run("transport=threads", program, &owners);
    }
}

/* Send a piece of `floats` floats by hand; with 0 floats, the end of the update. */
static fast_err send(fast_actor *actor, fast_space *space, int64_t at, int64_t count, size_t floats)
{
    const int64_t piece[3] = { at, count, 0 }, end[3] = { 1, 0, 0 };
    fast_buffer *buffer;
    fast_msg *msg;
    FAST_TRY(fast__space_message(space, floats ? FAST_SPACE_PIECE : FAST_SPACE_ADD, 0, 0,
                                 floats ? piece : end, &msg));
    if (floats) {
        if (fast_buffer_new(actor, floats * 4, &buffer))
            return FAST_ENOMEM;
        memset(fast_buffer_data(buffer), 0, floats * 4);
        fast_msg_add(msg, &buffer);
        msg->parts[0].size = floats * 4;
    }
    return fast_send(actor, 0, &msg);
}

static fast_err send_nonsense(fast_actor *actor, void *ctx)
{
    static const int64_t bad[][3] = {
        { -1, 5, 5 },        { 0, 0, 1 },         { 0, 5, 4 },
        { COUNT - 4, 5, 5 }, { COUNT, 1, 1 },     { 0, COUNT + 1, 5 },
        { INT64_MAX, 1, 1 }, { 0, INT64_MAX, 1 }, { INT64_MIN, 1, 1 }
    };
    enum { BAD = sizeof bad / sizeof bad[0] };
    const fast_space_options options = options_of(1);
    fast_space_counters counters;
    fast_space *space;
    fast_err err = FAST_OK;
    (void)ctx;
    FAST_TRY(fast_space_open(actor, &options, &space));
    for (int i = 0; i < BAD && !err && fast_actor_id(actor) == OWNERS; i++)
        err = send(actor, space, bad[i][0], bad[i][1], (size_t)bad[i][2]);
    if (!err && fast_actor_id(actor) == OWNERS)
        err = send(actor, space, 0, COUNT - 1, COUNT - 1);
    if (!err && fast_actor_id(actor) == OWNERS)
        err = send(actor, space, 0, 0, 0); /* one is missing */
    if (!err && fast_actor_id(actor) == OWNERS)
        err = send(actor, space, COUNT - 1, 1, 1);
    if (!err && fast_actor_id(actor) == OWNERS)
        err = send(actor, space, 0, 0, 0);
    if (fast_actor_id(actor) == 0)
        err = fast_space_serve(space, FAST_SOON);
    if (!err && fast_actor_id(actor) == 0) {
        fast_space_count(space, &counters);
        if (counters.refused != BAD + 1 || counters.applied != 1)
            err = fast__fail(FAST_EFORMAT, "%lld refused, %lld applied",
                             (long long)counters.refused, (long long)counters.applied);
    }
    fast_space_close(space);
    return err;
}

static void nonsense_is_refused(void **state)
{
    (void)state;
    run("transport=sim", send_nonsense, NULL);
}

/* The same with a codec that loses nothing: three layers over the owners' ranges. */
static const fast_matrix layers[] = { { 5, 5 }, { 10, 5 }, { 25, 1 } };
static fast_err coded_program(fast_actor *actor, void *ctx)
{
    const int64_t *owners = ctx;
    fast_space_options options = options_of(*owners);
    fast_space *space;
    options.codec = "topk:ratio=1";
    options.codec_scope = 1;
    options.matrices = layers;
    options.matrix_count = 3;
    FAST_TRY(fast_space_open(actor, &options, &space));
    const fast_err err = fast_actor_id(actor) == OWNERS   ? add_and_read(space)
                         : fast_actor_id(actor) < *owners ? fast_space_serve(space, FAST_SOON)
                                                          : FAST_OK;
    fast_space_close(space);
    return err;
}

static void coded_pieces_are_one_update(void **state)
{
    (void)state;
    for (int64_t owners = 1; owners <= OWNERS; owners++) {
        run("transport=sim", coded_program, &owners);
        run("transport=threads", coded_program, &owners);
    }
}

/* Blocks that are not there, and bytes that are no encoding. */
static fast_err send_coded_nonsense(fast_actor *actor, void *ctx)
{
    static const int64_t bad[][3] = { { -1, 1, 5 }, { 0, 0, 1 },         { 0, 4, 4 },
                                      { 3, 1, 5 },  { INT64_MAX, 1, 1 }, { 0, INT64_MAX, 1 },
                                      { 0, 1, 1 },  { 2, 1, 300 } };
    enum { BAD = sizeof bad / sizeof bad[0] };
    fast_space_options options = options_of(1);
    fast_space_counters counters;
    fast_space *space;
    fast_err err = FAST_OK;
    (void)ctx;
    options.codec = "topk:ratio=1";
    options.codec_scope = 1;
    options.matrices = layers;
    options.matrix_count = 3;
    FAST_TRY(fast_space_open(actor, &options, &space));
    for (int i = 0; i < BAD && !err && fast_actor_id(actor) == OWNERS; i++)
        err = send(actor, space, bad[i][0], bad[i][1], (size_t)bad[i][2]);
    if (!err && fast_actor_id(actor) == OWNERS)
        err = send(actor, space, 0, 0, 0); /* all is missing */
    if (fast_actor_id(actor) == 0)
        err = fast_space_serve(space, FAST_SOON);
    if (!err && fast_actor_id(actor) == 0) {
        fast_space_count(space, &counters);
        if (counters.refused != BAD + 1 || counters.applied != 0)
            err = fast__fail(FAST_EFORMAT, "%lld refused, %lld applied",
                             (long long)counters.refused, (long long)counters.applied);
    }
    fast_space_close(space);
    return err;
}

static void coded_nonsense_is_refused(void **state)
{
    (void)state;
    run("transport=sim", send_coded_nonsense, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pieces_are_one_update),
        cmocka_unit_test(nonsense_is_refused),
        cmocka_unit_test(coded_pieces_are_one_update),
        cmocka_unit_test(coded_nonsense_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
