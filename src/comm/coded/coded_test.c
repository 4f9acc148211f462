/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Goal: a coded sum is near the sum, the same bits at every member, by every way, with every codec,
 *   on threads as in sim; error feedback holds in both directions; it sends what it says; who does
 *   not come is waited for until the deadline; what does not go together is refused.
 * Method: all codecs of the registry in groups of 1 to 5, beside the plain sum; the same vector
 *   summed many times, whose mean must be that vector's sum; counters of bytes; each allocation
 *   fails once.
 */
#include "base/hash.h"
#include "base/memory.h"
#include "base/rng.h"
#include "comm/coded.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#ifdef FAST_SANITIZED
enum { MEMBERS_MAX = 3 };
#else
enum { MEMBERS_MAX = 5 };
#endif
enum { COUNT = 24 * 40 + 24 + 7 + 300, SUMS = 4, MEANS = 240 };

static const fast_segment segments[] = {
    { .name = "a", .offset = 0, .count = 24 * 40, .shape = { 24, 40 }, .rank = 2 },
    { .name = "b", .offset = 24 * 40, .count = 24, .shape = { 24 }, .rank = 1 },
    { .name = "c", .offset = 24 * 40 + 24, .count = 7, .shape = { 7 }, .rank = 1 },
    { .name = "d", .offset = 24 * 40 + 31, .count = 300, .shape = { 3, 10, 10 }, .rank = 3 },
};
static const fast_layout layout = { segments, 4, COUNT };

/* A test: the work of the members of a group, and its results. */
typedef struct job {
    const char *up; /* chains */
    const char *down;
    fast_coded_way way; /* that is asked for */
    int scope;          /* of codecs */
    int feedback;       /* error feedback of codecs */
    int64_t sums;       /* of vectors that differ; 0: MEANS of the same */
    fast_coded_way found;
    uint64_t hash[MEMBERS_MAX]; /* of all sums */
    double error[MEMBERS_MAX];  /* of the last one, or of the mean; relative */
    int64_t bytes[MEMBERS_MAX]; /* sent by the first sum */
    int64_t in, out;            /* member 0's figures */
    float *last;                /* [COUNT]: member 0's last sum; NULL: not wanted */
} job;

static void fill(int64_t rank, int64_t sum, float *x)
{
    fast_rng rng;

    fast__rng_init(&rng, 5, FAST_PURPOSE_TEST, (uint64_t)rank, 0, (uint64_t)sum);
    for (int64_t i = 0; i < COUNT; i++)
        x[i] = fast__rng_normal(&rng) * (i % 7 ? 0.01f : 1);
}

/* |a/k - b| / |b| */
static double distance(const float *a, double k, const float *b)
{
    double d = 0, all = 0;

    for (int64_t i = 0; i < COUNT; i++) {
        const double e = (double)a[i] / k - (double)b[i];

        d += e * e;
        all += (double)b[i] * (double)b[i];
    }
    return sqrt(d / all);
}

static fast_err sums(job *j, fast_coded *coded, fast_group *group, float (*v)[COUNT])
{
    const int64_t rank = fast_group_rank(group), count = j->sums > 0 ? j->sums : MEANS;
    float *x = v[0], *plain = v[1], *all = v[2];

    for (int64_t k = 0; k < count; k++) {
        const int64_t before = group->actor->counters.bytes_sent;

        fill(rank, j->sums > 0 ? k : 0, x);
        memcpy(plain, x, sizeof v[0]);
        FAST_TRY(fast__coded_sum(coded, group, k, 0, x, FAST_SOON));
        if (k == 0)
            j->bytes[rank] = group->actor->counters.bytes_sent - before;
        FAST_TRY(fast_allreduce(group, plain, COUNT, FAST_SOON));
        j->hash[rank] = fast__hash(x, sizeof v[0], j->hash[rank]);
        if (j->last && rank == 0)
            memcpy(j->last, x, sizeof v[0]);
        for (int64_t i = 0; i < COUNT; i++)
            all[i] += x[i];
        j->error[rank] =
            j->sums > 0 ? distance(x, 1, plain) : distance(all, (double)(k + 1), plain);
    }
    return FAST_OK;
}

static fast_err job_main(fast_actor *actor, void *ctx)
{
    job *j = ctx;
    fast_chain *up = NULL, *down = NULL;
    fast_coded *coded = NULL;
    fast_group *group = NULL;
    float(*v)[COUNT] = NULL;
    fast_err err = fast__chain_open(j->up, &up);

    if (!err)
        err = fast__chain_open(j->down, &down);
    if (!err)
        err = fast_group_all(actor, NULL, &group);
    if (!err)
        err = fast_group_algorithm(group, "butterfly");
    if (!err)
        err = fast__alloc("vectors", 3, sizeof *v, &v);
    if (!err) {
        const fast_coded_options o = { .up = up,
                                       .down = down,
                                       .layout = &layout,
                                       .scope = j->scope,
                                       .feedback = j->feedback,
                                       .size = fast_group_size(group),
                                       .rank = fast_group_rank(group),
                                       .seed = 3,
                                       .way = j->way };
        err = fast__coded_new(&o, &coded);
    }
    if (!err)
        err = sums(j, coded, group, v);
    if (!err && fast_group_rank(group) == 0) {
        j->found = fast__coded_way(coded);
        j->in = fast__coded_figures(coded)->bytes_in;
        j->out = fast__coded_figures(coded)->bytes_out;
    }
    fast__coded_free(coded);
    fast_group_free(group);
    fast__chain_close(up);
    fast__chain_close(down);
    fast__free(v);
    return err;
}

static void run(const char *transport, int64_t members, job *j)
{
    char option[64];
    const char *options[] = { option, "timeout=60", NULL };
    const fast_role roles[] = { { "worker", members, job_main, j } };

    snprintf(option, sizeof option, "transport=%s", transport);
    memset(j->hash, 0, sizeof j->hash);
    if (fast_actors_run(options, roles, 1, NULL) != FAST_OK)
        fail_msg("%s, back %s, way %d, %lld members on %s: %s", j->up, j->down, (int)j->way,
                 (long long)members, transport, fast_error_detail());
    for (int64_t i = 1; i < members; i++)
        if (j->hash[i] != j->hash[0])
            fail_msg("%s, back %s, way %d: members 0 and %lld of %lld differ on %s", j->up, j->down,
                     (int)j->way, (long long)i, (long long)members, transport);
}

/* Traits with the default options. */
static unsigned traits_of(const char *name)
{
    fast_chain *chain = NULL;

    assert_int_equal(fast__chain_open(name, &chain), FAST_OK);
    const unsigned traits = fast__chain_traits(chain);
    fast__chain_close(chain);
    return traits;
}

/* A codec by every way that it has. */
static void check_ways(const fast_codec *codec, int64_t members)
{
    static const fast_coded_way ways[] = {
        FAST_CODED_AUTO,   FAST_CODED_SPARSE,  FAST_CODED_MERGED,
        FAST_CODED_GATHER, FAST_CODED_STRIPED, FAST_CODED_STRIPED
    };

    for (int i = 0; i < 6; i++) {
        const bool merged = i == 1 || i == 2;
        job j = { .up = codec->name,
                  .down = i == 5 ? codec->name : "none",
                  .way = ways[i],
                  .scope = merged ? 2 : 0,
                  .sums = SUMS };
        job again = j;

        if ((merged && !codec->pairs) || (i > 0 && codec->rounds))
            continue;
        run("sim", members, &j);
        run("threads", members, &again);
        assert_int_equal(j.hash[0], again.hash[0]);
        if (members == 1)
            assert_true(j.error[0] == 0); /* nothing is sent */
        /* fixed saturates beyond its range, where these vectors are. */
        if ((traits_of(codec->name) & FAST_CODEC_RAW) && strcmp(codec->name, "fixed") != 0 &&
            !(j.error[0] < 0.05))
            fail_msg("%s, way %d: the sum is wrong by %g of itself", codec->name, (int)ways[i],
                     j.error[0]);
    }
}

static void test_all_codecs(void **state)
{
    (void)state;
    for (int i = 0; fast__codecs[i]; i++)
        for (int64_t members = 1; members <= MEMBERS_MAX; members++)
            check_ways(fast__codecs[i], members);
}

/* Feedback brings all of a vector through in time; without it what a codec leaves out is lost. */
static void test_feedback(void **state)
{
    static const struct {
        const char *up;
        const char *down;
    } chains[] = { { "topk:ratio=0.05", "none" },
                   { "topk:ratio=0.05", "topk:ratio=0.1" },
                   { "sign", "sign" },
                   { "onebit", "onebit" } };

    (void)state;
    for (size_t i = 0; i < sizeof chains / sizeof chains[0]; i++) {
        job fed = { .up = chains[i].up, .down = chains[i].down };
        job lost = { .up = chains[i].up, .down = chains[i].down, .feedback = 2 };

        run("sim", 3, &fed);
        run("sim", 3, &lost);
        if (!(fed.error[0] < 0.3 && fed.error[0] < lost.error[0] / 2))
            fail_msg("%s, back %s: the mean is off by %g with feedback, and by %g without", fed.up,
                     fed.down, fed.error[0], lost.error[0]);
    }
}

/* Majorities of signs: the mean over members is 1, 0 or -1. */
static void test_votes(void **state)
{
    job j = { .up = "vote", .down = "none", .sums = 1 };
    job striped = { .up = "vote", .down = "none", .way = FAST_CODED_STRIPED, .sums = 1 };

    (void)state;
    run("sim", 2, &j);
    run("sim", 2, &striped);
    assert_int_equal(j.hash[0], striped.hash[0]);
    float x[2][COUNT], y[COUNT];
    fill(0, 0, x[0]);
    fill(1, 0, x[1]);
    for (int64_t i = 0; i < COUNT; i++)
        y[i] = (x[0][i] < 0) != (x[1][i] < 0) ? 0 : x[0][i] < 0 ? -2 : 2;
    assert_int_equal(j.hash[0], fast__hash(y, sizeof y, 0));
}

/* Elements of a sum by a shared scale are whole multiples of it, up to the number of members, and
 * the scale is the largest magnitude of the layer at any member; the mean of many is the sum. */
static void check_scales(const char *codec, fast_coded_way way, const char *down, int64_t members)
{
    float y[COUNT], x[MEMBERS_MAX][COUNT];
    job j = { .up = codec, .down = down, .way = way, .sums = 1, .last = y };
    job mean = { .up = codec, .down = down, .way = way };

    run("sim", members, &j);
    for (int64_t r = 0; r < members; r++)
        fill(r, 0, x[r]);
    for (int s = 0; s < 4; s++) {
        const int64_t end = segments[s].offset + segments[s].count;
        double scale = 0;

        for (int64_t i = segments[s].offset; i < end; i++)
            for (int64_t r = 0; r < members; r++)
                scale = fmax(scale, fabs((double)x[r][i]));
        scale = ceil(ldexp(scale, 15 - ilogb(scale))) * ldexp(1, ilogb(scale) - 15);
        for (int64_t i = segments[s].offset; i < end; i++) {
            const double whole = (double)y[i] / scale;

            if (whole != rint(whole) || fabs(whole) > (double)members)
                fail_msg("%s: %g is %.9g times the scale %g", codec, (double)y[i], whole, scale);
        }
    }
    run("sim", members, &mean);
    assert_true(mean.error[0] < 0.35);
}

static void test_shared_scales(void **state)
{
    (void)state;
    for (int64_t members = 2; members <= MEMBERS_MAX; members++) {
        check_scales("terngrad:clip=0,share=yes", FAST_CODED_GATHER, "none", members);
        check_scales("terngrad:clip=0,share=yes", FAST_CODED_STRIPED, "entropy", members);
    }
}

/* Members send their encodings and headers, nothing else. */
static void test_bytes(void **state)
{
    enum { HEADERS = 256 };
    job j = { .up = "onebit", .down = "none", .way = FAST_CODED_GATHER, .sums = 1 };
    job both = { .up = "int8", .down = "int8", .sums = 1 };
    job sparse = { .up = "topk", .down = "none", .way = FAST_CODED_SPARSE, .scope = 2, .sums = 1 };

    (void)state;
    run("sim", 2, &j);
    assert_int_equal(j.in, COUNT * 4);
    assert_true(j.out < COUNT * 4 / 10 && j.bytes[0] < j.out + HEADERS);
    assert_true(j.bytes[0] >= j.out);
    run("sim", 2, &both);
    assert_int_equal(both.found, FAST_CODED_STRIPED);
    assert_true(both.bytes[0] < COUNT + 2 * HEADERS + COUNT / 4);
    run("sim", 2, &sparse);
    assert_true(sparse.bytes[0] < 8 * (COUNT / 100 + 2) + HEADERS);
}

/* Only one member comes. */
static fast_err alone_main(fast_actor *actor, void *ctx)
{
    fast_chain *chain = NULL, *none = NULL;
    fast_coded *coded = NULL;
    fast_group *group = NULL;
    float x[COUNT] = { 0 };

    (void)ctx;
    if (fast_actor_id(actor) == 1)
        return fast_sleep_until(actor, 5000000000);
    FAST_TRY(fast_group_all(actor, NULL, &group));
    fast_err err = fast__chain_open("fp16", &chain);
    if (!err)
        err = fast__chain_open("none", &none);
    if (!err) {
        const fast_coded_options o = {
            .up = chain, .down = none, .layout = &layout, .size = fast_group_size(group)
        };
        err = fast__coded_new(&o, &coded);
    }
    if (!err)
        err = fast__coded_sum(coded, group, 0, 0, x, FAST_SOON);
    if (err == FAST_ETIMEDOUT && fast__coded_sum(coded, group, 1, 0, x, FAST_SOON) != FAST_OK)
        err = FAST_OK; /* in time, and the group is unusable from then on */
    else
        err = fast__fail(FAST_EINVAL, "it did not time out");
    fast__coded_free(coded);
    fast_group_free(group);
    fast__chain_close(chain);
    fast__chain_close(none);
    return err;
}

static void test_deadline(void **state)
{
    const char *options[] = { "transport=sim", "timeout=1", NULL };
    const fast_role roles[] = { { "worker", 2, alone_main, NULL } };

    (void)state;
    assert_int_equal(fast_actors_run(options, roles, 1, NULL), FAST_OK);
}

/* Options over chains. */
static fast_err try(const char *up, const char *down, int feedback, fast_coded_way way, bool make)
{
    fast_chain *chain = NULL, *back = NULL;
    fast_coded *coded = NULL;

    assert_int_equal(fast__chain_open(up, &chain), FAST_OK);
    assert_int_equal(fast__chain_open(down, &back), FAST_OK);
    const fast_coded_options o = {
        .up = chain, .down = back, .layout = &layout, .feedback = feedback, .size = 4, .way = way
    };
    fast_err err = fast__coded_check(&o);
    for (int64_t n = 0; !err && make && n < 1000; n++) { /* each allocation fails once */
        fast__alloc_fail_after(n, true);
        err = fast__coded_new(&o, &coded);
        fast__alloc_fail_after(-1, false);
        fast__coded_free(coded);
        coded = NULL;
        if (err != FAST_ENOMEM)
            break;
        err = FAST_OK;
    }
    fast__chain_close(chain);
    fast__chain_close(back);
    return err;
}

static void test_refused(void **state)
{
    (void)state;
    assert_int_equal(try("fp16", "none", 0, FAST_CODED_AUTO, true), FAST_OK);
    assert_int_equal(try("topk", "sign", 1, FAST_CODED_AUTO, true), FAST_OK);
    assert_int_equal(try("topk", "none", 0, FAST_CODED_SPARSE, true), FAST_OK);
    assert_int_equal(try("fp16", "qsgd", 1, FAST_CODED_AUTO, true), FAST_OK);
    assert_int_equal(try("none", "sign", 0, FAST_CODED_AUTO, false), FAST_EINVAL);
    assert_int_equal(try("qsgd", "none", 1, FAST_CODED_AUTO, false), FAST_EINVAL);
    assert_int_equal(try("fp16", "none", 0, FAST_CODED_SPARSE, true), FAST_EINVAL);
    assert_int_equal(try("fp16", "none", 0, FAST_CODED_ROUNDS, true), FAST_EINVAL);
}

/* The way by its cost: entries that overlap are merged, what shrinks little is striped. */
static void test_choice(void **state)
{
    static const struct {
        const char *codec;
        int64_t count, members;
        fast_coded_way way;
        const char *sum;
    } cases[] = {
        { "topk:ratio=0.001", 1000000, 2, FAST_CODED_GATHER },
        { "topk:ratio=0.001", 1000000, 64, FAST_CODED_SPARSE },
        { "topk:ratio=0.3", 1000000, 64, FAST_CODED_STRIPED },
        { "onebit", 1000000, 8, FAST_CODED_GATHER },
        { "onebit", 1000000, 128, FAST_CODED_STRIPED },
        { "fp16", 1000000, 16, FAST_CODED_STRIPED },
        { "fp16", 100, 4, FAST_CODED_GATHER },
        { "topk:ratio=0.001", 1000000, 4, FAST_CODED_SPARSE, "sparse" },
        { "topk:ratio=0.1", 1000000, 8, FAST_CODED_SPLIT, "sparse" },
        { "topk:ratio=0.1", 100, 8, FAST_CODED_SPARSE, "sparse" },
        { "topk:ratio=0.001", 1000000, 2, FAST_CODED_SPARSE, "sparse" },
        { "topk:ratio=0.1", 100, 2, FAST_CODED_BUTTERFLY, "butterfly" },
        { "fp16", 100, 4, FAST_CODED_STRIPED, "stripes" },
    };

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const fast_segment whole = {
            .name = "x", .count = cases[i].count, .shape = { cases[i].count }, .rank = 1
        };
        const fast_layout one = { &whole, 1, cases[i].count };
        fast_chain *chain = NULL, *none = NULL;
        fast_coded_way way = FAST_CODED_AUTO;
        fast_sparse_plan plan;

        assert_int_equal(fast__chain_open(cases[i].codec, &chain), FAST_OK);
        assert_int_equal(fast__chain_open("none", &none), FAST_OK);
        const fast_coded_options o = {
            .up = chain, .down = none, .layout = &one, .size = cases[i].members, .sum = cases[i].sum
        };
        assert_int_equal(fast__coded_choose(&o, 1, &way, &plan), FAST_OK);
        if (way != cases[i].way)
            fail_msg("%s over %lld members: way %d", cases[i].codec, (long long)cases[i].members,
                     (int)way);
        fast__chain_close(chain);
        fast__chain_close(none);
    }
}

/* Methods by name, and texts that name no method. */
static void test_names(void **state)
{
    static const char *const bad[] = { "",
                                       "doubl",
                                       "rounds",
                                       "gather:2",
                                       "butterfly:",
                                       "butterfly:1",
                                       "butterfly:4x",
                                       "butterfly:4x2,",
                                       "butterfly:4x2,bits=3",
                                       "split:",
                                       "split:4x2",
                                       "sparse:bits=",
                                       "gather:bits=8",
                                       "butterfly:512",
                                       "butterfly:2x2x2x2x2x2x2x2x2",
                                       "butterfly:4,2",
                                       "butterfly:-2" };
    fast_coded_way way = FAST_CODED_AUTO;
    fast_sparse_plan plan;

    (void)state;
    assert_int_equal(fast__coded_way_parse("butterfly:8x4x2", &way, &plan), FAST_OK);
    assert_true(way == FAST_CODED_BUTTERFLY && plan.count == 3);
    assert_true(plan.degrees[0] == 8 && plan.degrees[1] == 4 && plan.degrees[2] == 2);
    assert_string_equal(fast__coded_way_name(way), "butterfly");
    assert_int_equal(fast__coded_way_parse("butterfly:3x5,bits=4", &way, &plan), FAST_OK);
    assert_true(plan.count == 2 && plan.degrees[1] == 5 && plan.bits == 4);
    assert_int_equal(fast__coded_way_parse("butterfly:bits=8", &way, &plan), FAST_OK);
    assert_true(plan.count == 2 && plan.degrees[0] == 4 && plan.bits == 8);
    assert_int_equal(fast__coded_way_parse("sparse:bits=2", &way, &plan), FAST_OK);
    assert_true(way == FAST_CODED_MERGED && plan.bits == 2);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        if (fast__coded_way_parse(bad[i], &way, &plan) != FAST_EINVAL)
            fail_msg("%s is read", bad[i]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_all_codecs), cmocka_unit_test(test_feedback),
        cmocka_unit_test(test_votes),      cmocka_unit_test(test_shared_scales),
        cmocka_unit_test(test_bytes),      cmocka_unit_test(test_deadline),
        cmocka_unit_test(test_refused),    cmocka_unit_test(test_choice),
        cmocka_unit_test(test_names),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
