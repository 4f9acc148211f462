/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Codecs of a space. Goal: what is added and read goes through the codec, on every transport alike,
 * loses only what the codec does, and takes fewer bytes. Method: vectors that a codec keeps exactly
 * must give exact totals, near and far; error feedback must deliver the rest in time; the bytes
 * that were sent are compared with those without a codec; what makes no sense is refused.
 */
#include "space/space_form.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

enum { COUNT = 1000, ACTORS = 4, ROUNDS = 20 };

/* A test: the work of all actors. */
typedef struct job {
    const char *up;   /* codec of adds */
    const char *down; /* of gets */
    int feedback;     /* of adds */
    int64_t owners;   /* number of owners: the first actors */
    int64_t quiet;    /* rounds of zeros after the others, which send the residuals */
    int64_t again;    /* gets after which all must be there; 0: one */
    bool eager;       /* owners send unasked */
    bool matrices;    /* the tensor is two matrices */
    void (*fill)(int64_t round, float *x); /* the update of a round: small whole numbers */
} job;

static fast_err wrong(int64_t i, double is, double should)
{
    return fast__fail(FAST_EFORMAT, "element %lld is %g, not %g", (long long)i, is, should);
}

static fast_err open_space(fast_actor *actor, const job *j, fast_space **out)
{
    static const int64_t ids[] = { 0, 1, 2, 3 };
    static const fast_matrix matrices[] = { { 20, 30 }, { 1, 400 } };
    const fast_space_tensor tensors[] = { { "w", COUNT, NULL }, { "plain", 3, NULL } };
    const fast_space_options options = { .name = "coded",
                                         .tensors = tensors,
                                         .tensor_count = 2,
                                         .owners = ids,
                                         .owner_count = j->owners,
                                         .writers = ids,
                                         .writer_count = ACTORS,
                                         .codec = j->up,
                                         .codec_down = j->down,
                                         .feedback = j->feedback,
                                         .eager = j->eager,
                                         .matrices = j->matrices ? matrices : NULL,
                                         .matrix_count = j->matrices ? 2 : 0 };
    return fast_space_open(actor, &options, out);
}

static fast_err work(fast_space *space, const job *j)
{
    const float odd[3] = { 0.1f, 1e-30f, 3e30f }; /* of no codec's taste */
    float x[COUNT], y[COUNT], total[COUNT] = { 0 };
    fast_space_read read = { .clock_min = 1 };
    if (j->again > 0)
        FAST_TRY(fast_space_get(space, 0, y, NULL, FAST_SOON));
    for (int64_t r = 0; r < ROUNDS + j->quiet; r++) {
        memset(x, 0, sizeof x);
        if (r < ROUNDS)
            j->fill(r, x);
        for (int64_t i = 0; i < COUNT; i++)
            total[i] += ACTORS * x[i];
        FAST_TRY(fast_space_add(space, 0, x, FAST_SOON));
    }
    FAST_TRY(fast_space_put(space, 1, odd, FAST_SOON));
    for (int64_t i = 0; i <= j->again; i++) {
        FAST_TRY(fast_space_tick(space, i + 1));
        read.clock_min = i + 1;
        FAST_TRY(fast_space_get(space, 0, y, &read, FAST_SOON));
    }
    for (int64_t i = 0; i < COUNT; i++)
        if (y[i] != total[i])
            return wrong(i, (double)y[i], (double)total[i]);
    FAST_TRY(fast_space_get(space, 1, y, &read, FAST_SOON));
    return memcmp(y, odd, sizeof odd) == 0 ? FAST_OK : wrong(0, (double)y[0], (double)odd[0]);
}

static fast_err program(fast_actor *actor, void *ctx)
{
    fast_space *space = NULL;
    FAST_TRY(open_space(actor, ctx, &space));
    const fast_err err = work(space, ctx);
    fast_space_close(space);
    return err;
}

/* Bytes that the job sends on a transport. */
static int64_t run(const job *j, const char *transport, const char *cluster)
{
    char text[64];
    const char *const options[] = { transport, "timeout=60", cluster ? text : NULL, NULL };
    const fast_role role = { "worker", ACTORS, program, (void *)(uintptr_t)j };
    fast_actors_result result;
    snprintf(text, sizeof text, "cluster=%s", cluster ? cluster : "");
    if (fast_actors_run(options, &role, 1, &result))
        fail_msg("%s, %s%s: %s", j->up ? j->up : "none", transport, cluster ? text : "",
                 fast_error_detail());
    return result.bytes_sent;
}

static void fill_all(int64_t round, float *x)
{
    for (int64_t i = 0; i < COUNT; i++)
        x[i] = (float)((i * 7 + round) % 9 - 4);
}

/* The same magnitude everywhere, so that 1-bit codecs keep it. */
static void fill_signs(int64_t round, float *x)
{
    for (int64_t i = 0; i < COUNT; i++)
        x[i] = (i * 5 + round) % 3 ? 2.0f : -2.0f;
}

/* 127 is a power of no two, but int8 keeps it: its scale is 1. */
static void fill_bytes(int64_t round, float *x)
{
    for (int64_t i = 0; i < COUNT; i++)
        x[i] = (float)((i % 10 == 0 ? 127 : (i * 11 + round) % 254 - 127));
}

static void fill_few(int64_t round, float *x)
{
    x[(round * 37) % COUNT] = 3;
    x[(round * 91 + 5) % COUNT] = -5;
}

static void what_a_codec_keeps_arrives(void **state)
{
    static const job jobs[] = {
        { .up = NULL, .owners = 2, .fill = fill_all },
        { .up = "fp16", .owners = 1, .fill = fill_all },
        { .up = "bf16", .owners = 3, .fill = fill_all },
        { .up = "onebit", .owners = 2, .fill = fill_signs },
        { .up = "onebit", .owners = 2, .fill = fill_signs, .matrices = true },
        { .up = "sign", .owners = 4, .fill = fill_signs, .feedback = 2 },
        { .up = "int8", .owners = 1, .fill = fill_bytes },
        { .up = "topk:ratio=0.01", .owners = 2, .fill = fill_few },
        { .up = "topk:ratio=0.01", .owners = 1, .fill = fill_few, .feedback = 2 },
        { .up = "fp16", .down = "fp16", .owners = 2, .fill = fill_all },
        { .down = "bf16", .owners = 2, .fill = fill_signs },
    };

    (void)state;
    for (size_t i = 0; i < sizeof jobs / sizeof jobs[0]; i++) {
        run(&jobs[i], "transport=threads", NULL);
        run(&jobs[i], "transport=sim", "ethernet-10g");
        run(&jobs[i], "transport=sim", "laptop");
    }
}

/* Each round sends a tenth of the elements; the rest is a residual, and arrives later. */
static void residuals_arrive(void **state)
{
    const job j = { .up = "topk:ratio=0.1", .owners = 2, .fill = fill_all, .quiet = 12 };

    (void)state;
    run(&j, "transport=threads", NULL);
    run(&j, "transport=sim", "ethernet-10g");
}

/* Values by codecs for gradients: each get brings what differs most, and in the end all is there.
 * A whole vector goes first, so that two owners send a tenth of what differs each time. */
static void differences_are_read(void **state)
{
    static const job jobs[] = {
        { .up = "fp16", .down = "topk:ratio=0.1", .owners = 2, .fill = fill_all, .again = 12 },
        { .up = "fp16", .down = "topk:ratio=0.1", .owners = 3, .fill = fill_all, .again = 14 },
        { .down = "topk:ratio=0.25+zstd",
          .owners = 1,
          .fill = fill_all,
          .again = 6,
          .eager = true },
    };

    (void)state;
    for (size_t i = 0; i < sizeof jobs / sizeof jobs[0]; i++) {
        run(&jobs[i], "transport=threads", NULL);
        run(&jobs[i], "transport=sim", "ethernet-10g");
        run(&jobs[i], "transport=sim", "laptop");
    }
}

static void fewer_bytes_are_sent(void **state)
{
    const job plain = { .owners = 1, .fill = fill_signs };
    const job up = { .up = "onebit", .owners = 1, .fill = fill_signs };
    const job down = { .down = "fp16", .owners = 1, .fill = fill_signs };
    const int64_t all = run(&plain, "transport=sim", "ethernet-10g");
    const int64_t floats = 4 * COUNT;

    (void)state;
    /* Three remote writers; one of the four is the owner. */
    assert_true(all - run(&up, "transport=sim", "ethernet-10g") >=
                3 * ROUNDS * (floats - COUNT / 8 - 40));
    assert_true(all - run(&down, "transport=sim", "ethernet-10g") >= 3 * (floats / 2 - 16));
    const job often = { .owners = 1, .fill = fill_few, .again = 12 };
    const job few = { .down = "topk:ratio=0.1", .owners = 1, .fill = fill_few, .again = 12 };
    assert_true(run(&often, "transport=sim", "ethernet-10g") -
                    run(&few, "transport=sim", "ethernet-10g") >=
                3 * 12 * (floats - 900));
}

static fast_err refused(fast_actor *actor, void *ctx)
{
    const job *j = ctx;
    fast_space *space = NULL;
    const fast_err err = open_space(actor, j, &space);
    return err == FAST_EINVAL ? FAST_OK : fast__fail(FAST_EFORMAT, "%s was not refused", j->up);
}

static void nonsense_is_refused(void **state)
{
    static const job bad[] = { { .up = "fp61", .owners = 1 },
                               { .up = "fp16", .down = "dgc", .owners = 1 },
                               { .up = "qsgd", .owners = 1, .feedback = 1 } };
    const char *const options[] = { "transport=sim", NULL };

    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        const fast_role role = { "worker", ACTORS, refused, (void *)(uintptr_t)&bad[i] };

        assert_int_equal(fast_actors_run(options, &role, 1, NULL), FAST_OK);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_a_codec_keeps_arrives), cmocka_unit_test(residuals_arrive),
        cmocka_unit_test(differences_are_read),       cmocka_unit_test(fewer_bytes_are_sent),
        cmocka_unit_test(nonsense_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
