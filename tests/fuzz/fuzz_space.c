/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Fuzzes the messages of spaces: three actors in the simulator open one space, and one of them
 * sends the input as messages (forge.h) with the tags of requests and of answers. The first byte
 * chooses who that is, its owner or one of its users; the second chooses the space's options. The
 * others put, add, get and tick meanwhile. Whatever the messages are, a call succeeds or fails with
 * a reason, and the run ends.
 */
#include "forge.h"
#include "space/space.h"
#include "space/space_wire.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { ACTORS = 3, COUNT = 40, SMALL = 8, MESSAGES_MAX = 64 };

typedef struct scene {
    forge input;      /* the messages */
    int64_t attacker; /* the actor that sends them */
    int form;         /* of the options */
} scene;

/* The options of a form; codecs, layers and pieces of the first tensor exclude each other. */
static fast_space_options options_of(int form)
{
    static const int64_t ids[ACTORS] = { 0, 1, 2 };
    static const fast_space_tensor tensors[] = { { "a", COUNT, NULL }, { "b", SMALL, NULL } };
    static const fast_space_layer layers[] = {
        { .offset = 8, .outputs = 4, .inputs = 4, .rows = 3 }
    };
    static const char *const codecs[] = { "topk:ratio=0.1", "int8", "qsgd", "onebit" };
    fast_space_options o = { .name = "space",
                             .tensors = tensors,
                             .tensor_count = 2,
                             .owners = ids,
                             .owner_count = form & 64 ? 2 : 1,
                             .writers = ids + 1,
                             .writer_count = 2,
                             .eager = (form & 16) != 0,
                             .stalest_first = (form & 32) != 0 };

    o.sparse = form % 16 == 1 || form % 16 == 2;
    o.cache_indices = form % 16 == 2;
    o.pieces = form % 16 == 3 || form % 16 == 4;
    if (form % 16 == 5) {
        o.layers = layers;
        o.layer_count = 1;
    }
    if (form % 16 == 4 || (form % 16 >= 6 && form % 16 < 10))
        o.codec = codecs[form % 4];
    if (form % 16 >= 8 && form % 16 < 12)
        o.codec_down = codecs[form % 4];
    return o;
}

/* Operations of a well-behaved actor on the space. */
static fast_err use(const scene *s, fast_space *space)
{
    float x[COUNT] = { 1, 0, 2 }, y[COUNT] = { 0 };
    fast_err err = fast_space_put(space, 1, x, FAST_SOON);

    for (int i = 0; i < 3 && !err; i++) {
        fast_space_read read = { .clock_min = i };

        if (s->form % 16 == 3 || s->form % 16 == 4) {
            err = fast_space_add_piece(space, x, 0, COUNT / 2);
            if (!err)
                err = fast_space_add_piece(space, x, COUNT / 2, COUNT - COUNT / 2);
        }
        if (!err)
            err = s->form % 16 == 3 || s->form % 16 == 4 ? fast_space_add_end(space, x, FAST_SOON)
                                                         : fast_space_add(space, 0, x, FAST_SOON);
        if (!err)
            err = fast_space_tick(space, i + 1);
        if (!err)
            err = fast_space_get(space, i % 2, y, &read, FAST_SOON);
        x[i + 3] = 1;
    }
    return err;
}

static fast_err attack(fast_actor *actor, scene *s, fast_space *space)
{
    const int64_t ids[] = { 0, 1, 2 };
    const uint64_t tags[] = { fast__space_tag(space, false), fast__space_tag(space, true) };

    for (int i = 0; s->input.left > 0 && i < MESSAGES_MAX; i++)
        FAST_TRY(forge_send(&s->input, actor, ids, ACTORS, tags, 2));
    return FAST_OK;
}

static fast_err program(fast_actor *actor, void *ctx)
{
    scene *s = ctx;
    const int64_t id = fast_actor_id(actor);
    const fast_space_options options = options_of(s->form);
    fast_space *space = NULL;

    FAST_TRY(fast_space_open(actor, &options, &space));
    fast_err err = id == s->attacker ? attack(actor, s, space) : FAST_OK;
    if (!err)
        err = id < options.owner_count ? fast_space_serve(space, FAST_SOON) : use(s, space);
    fast_space_close(space);
    return err;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    scene s = { .input = { data, size } };
    const fast_role roles[] = { { "worker", ACTORS, program, &s } };

    s.attacker = forge_byte(&s.input) % 2 == 0 ? ACTORS - 1 : 0;
    s.form = forge_byte(&s.input);
    const fast_err err = fast_actors_run(
        (const char *[]){ "transport=sim", "cluster=ethernet-1g", "timeout=5", NULL }, roles, 1,
        NULL);
    FAST_ASSERT(!err || fast_error_detail()[0] != '\0');
    return 0;
}
