/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Updates as factors. Goal: owners multiply them out to the writer's own product, to the bit,
 * however layers are cut over owners; fewer bytes travel; parts that make no sense are refused.
 * Method: a writer and three owners in the simulator, and messages made by hand.
 */
#include "space/space_form.h"
#include "tensor/factors.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

/* A bias, a layer, a bias, a layer, a bias. */
enum { O1 = 7, C1 = 30, O2 = 40, C2 = 11, ROWS = 3, AT1 = 5, AT2 = AT1 + O1 * C1 + 4 };
enum { COUNT = AT2 + O2 * C2 + 3, OWNERS = 3 };

static const int64_t ids[] = { 0, 1, 2, 3 };
static const fast_space_layer layers[] = { { AT1, O1, C1, ROWS }, { AT2, O2, C2, ROWS } };

static fast_space_options options_of(int64_t owners, bool factors)
{
    static const fast_space_tensor tensors[] = { { "a", COUNT, NULL } };
    return (fast_space_options){ .name = "space",
                                 .tensors = tensors,
                                 .tensor_count = 1,
                                 .owners = ids,
                                 .owner_count = owners,
                                 .writers = ids + OWNERS,
                                 .writer_count = 1,
                                 .layers = factors ? layers : NULL,
                                 .layer_count = factors ? 2 : 0 };
}

/* Fill with NaN, to see that these values are not read. */
static void fill(float *x, float *const factors[2], const int64_t rows[2])
{
    for (int i = 0; i < COUNT; i++)
        x[i] = (float)(i % 17) - 8.25f;
    for (int l = 0; l < 2; l++) {
        const fast_space_layer *layer = &layers[l];
        const int64_t n = rows[l] * (layer->outputs + layer->inputs);
        fast_outer part = { factors[l], factors[l] + rows[l] * layer->outputs, rows[l],
                            layer->outputs };
        for (int64_t i = 0; i < n; i++)
            factors[l][i] = (float)((i * 7 + l) % 23) * 0.37f - 3;
        fast__factors_compose(&part, 1, layer->inputs, 0, layer->outputs * layer->inputs,
                              x + layer->offset);
    }
}

/* The writer adds, and reads what became of it. */
static fast_err add_and_read(fast_actor *actor, fast_space *space, bool factors)
{
    static float u1[ROWS * (O1 + C1)], u2[ROWS * (O2 + C2)];
    float *const thin[2] = { u1, u2 };
    float x[COUNT], y[COUNT], wanted[COUNT];
    const int64_t rows[2] = { ROWS, 2 };
    fast_space_read read = { .version_min = 1 };
    (void)actor;
    fill(wanted, thin, rows);
    memcpy(x, wanted, sizeof x);
    if (factors) {
        const float *const given[2] = { u1, u2 };
        memset(x + AT1, 0xff, O1 * C1 * sizeof *x);
        memset(x + AT2, 0xff, O2 * C2 * sizeof *x);
        FAST_TRY(fast_space_add_factors(space, x, given, rows, FAST_SOON));
    } else {
        FAST_TRY(fast_space_add(space, 0, x, FAST_SOON));
    }
    FAST_TRY(fast_space_get(space, 0, y, &read, FAST_SOON));
    for (int i = 0; i < COUNT; i++) /* added to 0 */
        if (y[i] != wanted[i])
            return fast__fail(FAST_EFORMAT, "element %d is %g, not %g", i, (double)y[i],
                              (double)wanted[i]);
    return FAST_OK;
}

typedef struct job {
    int64_t owners; /* of the space */
    bool factors;   /* else the sums as they are */
} job;

static fast_err program(fast_actor *actor, void *ctx)
{
    const job *j = ctx;
    const fast_space_options options = options_of(j->owners, j->factors);
    fast_space *space;
    FAST_TRY(fast_space_open(actor, &options, &space));
    const fast_err err = fast_actor_id(actor) == OWNERS     ? add_and_read(actor, space, j->factors)
                         : fast_actor_id(actor) < j->owners ? fast_space_serve(space, FAST_SOON)
                                                            : FAST_OK;
    fast_space_close(space);
    return err;
}

static fast_actors_result run(const char *transport, fast_actor_fn *main, void *ctx)
{
    const fast_role roles[] = { { "worker", OWNERS + 1, main, ctx } };
    const bool sim = strcmp(transport, "transport=sim") == 0;
    const char *const options[] = { transport, "timeout=60", sim ? "cluster=ethernet-1g" : NULL,
                                    NULL };
    fast_actors_result result;
    const fast_err err = fast_actors_run(options, roles, 1, &result);
    if (err)
        fail_msg("%s: %s: %s", transport, fast_err_name(err), fast_error_detail());
    return result;
}

static void owners_multiply_out(void **state)
{
    (void)state;
    for (int64_t owners = 1; owners <= OWNERS; owners++) {
        job plain = { owners, false }, thin = { owners, true };
        const int64_t whole = run("transport=sim", program, &plain).bytes_sent;
        assert_true(run("transport=sim", program, &thin).bytes_sent < whole);
        (void)run("transport=threads", program, &thin);
    }
}

/* An update by hand: floats that are of no layer, rows, and floats of factors. */
static fast_err send(fast_actor *actor, fast_space *space, size_t plain, const int64_t *rows,
                     size_t thin)
{
    const int64_t words[3] = { 1, 0, 0 };
    fast_buffer *a, *b;
    fast_msg *msg;
    FAST_TRY(fast__space_message(space, FAST_SPACE_ADD, 0, 0, words, &msg));
    if (fast_buffer_new(actor, plain * 4, &a) || fast_buffer_new(actor, thin, &b))
        return FAST_ENOMEM;
    memset(fast_buffer_data(a), 0, plain * 4);
    memset(fast_buffer_data(b), 0, thin);
    if (thin >= 16)
        memcpy(fast_buffer_data(b), rows, 16);
    fast_msg_add(msg, &a);
    msg->parts[0].size = plain * 4;
    fast_msg_add(msg, &b);
    msg->parts[1].size = thin;
    return fast_send(actor, 0, &msg);
}

static fast_err send_nonsense(fast_actor *actor, void *ctx)
{
    enum { PLAIN = 12, THIN = 16 + 4 * (2 * (O1 + C1) + O2 + C2) };
    static const int64_t good[] = { 2, 1 }, many[] = { ROWS + 1, 1 }, none[] = { -1, 1 },
                         huge[] = { INT64_MAX, 1 };
    const fast_space_options options = options_of(1, true);
    fast_space_counters counters;
    fast_space *space;
    fast_err err = FAST_OK;
    (void)ctx;
    FAST_TRY(fast_space_open(actor, &options, &space));
    if (fast_actor_id(actor) == OWNERS) {
        err = send(actor, space, PLAIN, many, THIN);
        err = err ? err : send(actor, space, PLAIN, none, THIN);
        err = err ? err : send(actor, space, PLAIN, huge, THIN);
        err = err ? err : send(actor, space, PLAIN + 1, good, THIN);
        err = err ? err : send(actor, space, PLAIN, good, THIN - 4);
        err = err ? err : send(actor, space, PLAIN, good, 8);
        err = err ? err : send(actor, space, PLAIN, good, THIN);
    }
    if (fast_actor_id(actor) == 0)
        err = fast_space_serve(space, FAST_SOON);
    if (!err && fast_actor_id(actor) == 0) {
        fast_space_count(space, &counters);
        if (counters.refused != 6 || counters.applied != 1)
            err = fast__fail(FAST_EFORMAT, "%lld refused, %lld applied",
                             (long long)counters.refused, (long long)counters.applied);
    }
    fast_space_close(space);
    return err;
}

static void nonsense_is_refused(void **state)
{
    (void)state;
    (void)run("transport=sim", send_nonsense, NULL);
}

static fast_err open_wrong(fast_actor *actor, void *ctx)
{
    const fast_space_layer bad[] = { { 0, 0, 3, 1 },
                                     { 0, 3, 3, 0 },
                                     { COUNT - 8, 3, 3, 1 },
                                     { -1, 1, 1, 1 },
                                     { 0, INT64_MAX, INT64_MAX, 1 } };
    fast_space_options options = options_of(1, true);
    fast_space *space = NULL;
    (void)ctx;
    options.layer_count = 1;
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        options.layers = &bad[i];
        if (fast_space_open(actor, &options, &space) != FAST_EINVAL)
            return fast__fail(FAST_EFORMAT, "layer %zu is taken", i);
    }
    options.layers = layers;
    options.codec = "fp16";
    if (fast_space_open(actor, &options, &space) != FAST_EINVAL)
        return fast__fail(FAST_EFORMAT, "a codec is taken");
    return FAST_OK;
}

static void wrong_layers_are_refused(void **state)
{
    (void)state;
    (void)run("transport=sim", open_wrong, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(owners_multiply_out),
        cmocka_unit_test(nonsense_is_refused),
        cmocka_unit_test(wrong_layers_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
