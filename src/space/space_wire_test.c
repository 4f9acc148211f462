/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Goal, with remote actors: zeros that do not travel change no bit, and
 * entries that make no sense are refused; who is furthest behind is served first; eager values
 * spare a read its way, and are as new as it asks for; updates take their time. Method: three
 * actors in the simulator, each on a node of its own, with clocks that are set by hand.
 */
#include "space/space_form.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

enum { COUNT = 1000, MILLISECOND = 1000000 };

static const int64_t ids[] = { 0, 1, 2 };

static fast_space_options options_of(void)
{
    static const fast_space_tensor tensors[] = { { "a", COUNT, NULL } };
    return (fast_space_options){ .name = "space",
                                 .tensors = tensors,
                                 .tensor_count = 1,
                                 .owners = ids,
                                 .owner_count = 1,
                                 .writers = ids + 1,
                                 .writer_count = 2 };
}

static fast_actors_result run(fast_actor_fn *program, void *ctx)
{
    const fast_role roles[] = { { "worker", 3, program, ctx } };
    fast_actors_result result;
    const fast_err err = fast_actors_run(
        (const char *[]){ "transport=sim", "cluster=ethernet-1g", "timeout=60", NULL }, roles, 1,
        &result);
    if (err)
        fail_msg("%s: %s", fast_err_name(err), fast_error_detail());
    return result;
}

/* Actor 1 adds vectors with few, with many and with strange values; actor 2 reads their sum. */
static fast_err send_sparse(fast_actor *actor, void *ctx)
{
    const bool *sparse = ctx;
    fast_space_options options = options_of();
    static const float strange[] = { -0.0f, 1e-40f, -3e38f, 7 };
    float x[COUNT] = { 0 }, y[COUNT];
    fast_space_read read = { .version_min = 3 };
    fast_space *space;
    options.sparse = *sparse;
    FAST_TRY(fast_space_open(actor, &options, &space));
    fast_err err = FAST_OK;
    if (fast_actor_id(actor) == 0)
        err = fast_space_serve(space, FAST_SOON);
    for (int k = 0; fast_actor_id(actor) == 1 && k < 3 && !err; k++) {
        for (int i = 0; i < 4; i++) /* 4, 8 and 1000 values */
            x[100 * k + 7 * i] = strange[i];
        for (int i = 0; k == 2 && i < COUNT; i++)
            x[i] += 1;
        err = fast_sleep_until(actor, (k + 1) * (int64_t)MILLISECOND); /* one answer for each */
        if (!err)
            err = fast_space_add(space, 0, x, FAST_SOON);
    }
    if (fast_actor_id(actor) == 2)
        err = fast_space_get(space, 0, y, &read, FAST_SOON);
    for (int i = 0; fast_actor_id(actor) == 2 && i < COUNT && !err; i++) {
        const bool known = i != 0 && i != 7 && i != 14 && i != 21 && i < 100;
        if (known && y[i] != 1)
            err = fast__fail(FAST_EFORMAT, "value %d is %g", i, (double)y[i]);
        if (i == 21 && y[i] != 22)
            err = fast__fail(FAST_EFORMAT, "value %d is %g", i, (double)y[i]);
    }
    fast_space_close(space);
    return err;
}

static void zeros_do_not_travel(void **state)
{
    bool sparse = false;
    const int64_t whole = run(send_sparse, &sparse).bytes_sent;
    (void)state;
    sparse = true;
    const int64_t less = whole - run(send_sparse, &sparse).bytes_sent;
    /* Two of the vectors have 4 and 8 values, of 8 bytes. */
    assert_int_equal(less, 2 * COUNT * 4 - (4 + 8) * 8);
}

/* How places are sent. */
typedef struct places_case {
    bool cache;        /* lists are sent once */
    const char *codec; /* of adds; NULL: none */
    bool uneven;       /* gaps between places differ: lists compress badly */
} places_case;

/* The place behind `i` of a list with about every n-th. */
static int next_place(const places_case *how, int i, int n)
{
    return i + (how->uneven && n < 100 ? 1 + (int)((uint32_t)(i * n) * 2654435761u >> 16) % n : n);
}

/* Actor 1 adds vectors whose places are the same, change, and are the same again. */
static fast_err send_places(fast_actor *actor, void *ctx)
{
    const places_case *how = ctx;
    static const int steps[] = { 7, 7, 7, 9, 9, 400, 7, 7 }; /* 400: two entries */
    fast_space_options options = options_of();
    fast_space_read read = { .version_min = 8 };
    float x[COUNT], y[COUNT], sum[COUNT] = { 0 };
    fast_space *space;
    fast_err err = FAST_OK;
    options.sparse = true;
    options.cache_indices = how->cache;
    options.codec = how->codec;
    FAST_TRY(fast_space_open(actor, &options, &space));
    if (fast_actor_id(actor) == 0)
        err = fast_space_serve(space, FAST_SOON);
    for (int k = 0; k < 8 && !err; k++) {
        memset(x, 0, sizeof x);
        for (int i = 3; i < 700; i = next_place(how, i, steps[k]))
            x[i] = (float)(i + k);
        for (int i = 0; i < COUNT; i++)
            sum[i] += x[i];
        if (fast_actor_id(actor) != 1)
            continue;
        err = fast_sleep_until(actor, (k + 1) * (int64_t)MILLISECOND);
        if (!err)
            err = fast_space_add(space, 0, x, FAST_SOON);
    }
    if (fast_actor_id(actor) == 2 && !err)
        err = fast_space_get(space, 0, y, &read, FAST_SOON);
    if (fast_actor_id(actor) == 2 && !err && memcmp(y, sum, sizeof y) != 0)
        err = fast__fail(FAST_EFORMAT, "another sum");
    fast_space_close(space);
    return err;
}

static int64_t bytes_of(bool cache, const char *codec, bool uneven)
{
    places_case how = { cache, codec, uneven };
    return run(send_places, &how).bytes_sent;
}

static void places_are_sent_once(void **state)
{
    (void)state;
    /* 100 places come three times again, 78 once; a hash is 8 bytes. */
    assert_int_equal(bytes_of(false, NULL, false) - bytes_of(true, NULL, false),
                     (3 * 100 + 78) * 4 - 4 * 8);
}

/* Both together: what is left of cached messages, their values, is compressed, and so are lists of
 * places that are new. The sums are the same, as send_places() checks. */
static void cached_messages_are_compressed(void **state)
{
    const int64_t cached = bytes_of(true, "skip:probability=0", true),
                  packed = bytes_of(false, "skip:probability=0+entropy", true),
                  both = bytes_of(true, "skip:probability=0+entropy", true);
    (void)state;
    assert_int_equal(cached, bytes_of(true, NULL, true));
    if (!(both < cached - 1000 && both < packed - 200))
        fail_msg("%lld bytes with both, %lld cached, %lld compressed", (long long)both,
                 (long long)cached, (long long)packed);
}

/* An update by hand, of entries. */
static fast_err send_entries(fast_actor *actor, fast_space *space, const uint32_t *places,
                             size_t places_size, size_t values_size)
{
    const int64_t words[3] = { 1, 0, 0 };
    fast_buffer *a, *b;
    fast_msg *msg;
    FAST_TRY(fast__space_message(space, FAST_SPACE_ADD, 0, 0, words, &msg));
    if (fast_buffer_new(actor, places_size, &a) || fast_buffer_new(actor, values_size, &b))
        return FAST_ENOMEM;
    memcpy(fast_buffer_data(a), places, places_size);
    memset(fast_buffer_data(b), 0, values_size);
    fast_msg_add(msg, &a);
    fast_msg_add(msg, &b);
    return fast_send(actor, 0, &msg);
}

static fast_err send_nonsense(fast_actor *actor, void *ctx)
{
    static const uint32_t past[] = { 3, COUNT }, back[] = { 5, 4 }, twice[] = { 5, 5 },
                          good[] = { 1, 2 };
    fast_space_options options = options_of();
    fast_space_counters counters;
    fast_space *space;
    fast_err err = FAST_OK;
    options.sparse = options.cache_indices = true;
    options.codec = ctx; /* bytes that no stages packed, where it has stages */
    FAST_TRY(fast_space_open(actor, &options, &space));
    if (fast_actor_id(actor) == 1) {
        FAST_TRY(send_entries(actor, space, good, 8, 12)); /* a hash of places never sent */
        FAST_TRY(send_entries(actor, space, past, 8, 8));
        FAST_TRY(send_entries(actor, space, back, 8, 8));
        FAST_TRY(send_entries(actor, space, twice, 8, 8));
        FAST_TRY(send_entries(actor, space, good, 8, 4));
        FAST_TRY(send_entries(actor, space, good, 7, 7));
    }
    if (fast_actor_id(actor) == 0) {
        err = fast_space_serve(space, FAST_SOON);
        fast_space_count(space, &counters);
        if (!err && (counters.refused != 6 || counters.applied != 0))
            err = fast__fail(FAST_EFORMAT, "%lld refused", (long long)counters.refused);
    }
    fast_space_close(space);
    return err;
}

/* Orders that repeat or exceed floats of the tensor. */
static fast_err send_orders(fast_actor *actor, void *ctx)
{
    static const fast_space_stretch bad[][2] = {
        { { 0, COUNT - 1 }, { COUNT, 1 } }, { { 0, COUNT }, { 0, COUNT } },
        { { 1, COUNT }, { 0, 1 } },         { { 0, COUNT + 1 }, { COUNT, -1 } },
        { { 0, INT64_MAX }, { -1, 1 } },    { { 0, COUNT / 2 }, { COUNT / 2, INT64_MAX } },
    };
    const int64_t words[3] = { 0 };
    const int count = (int)(sizeof bad / sizeof bad[0]);
    fast_space_options options = options_of();
    fast_space_counters counters;
    fast_space *space;
    fast_err err = FAST_OK;
    (void)ctx;
    FAST_TRY(fast_space_open(actor, &options, &space));
    for (int i = 0; i <= count && fast_actor_id(actor) == 1; i++) { /* the last: a broken size */
        fast_buffer *a;
        fast_msg *msg;
        FAST_TRY(fast__space_message(space, FAST_SPACE_ORDER, 0, 0, words, &msg));
        FAST_TRY(fast_buffer_new(actor, sizeof bad[0] - (i == count), &a));
        memcpy(fast_buffer_data(a), bad[i % count], sizeof bad[0] - (i == count));
        fast_msg_add(msg, &a);
        FAST_TRY(fast_send(actor, 0, &msg));
    }
    if (fast_actor_id(actor) == 0) {
        err = fast_space_serve(space, FAST_SOON);
        fast_space_count(space, &counters);
        if (!err && counters.refused != count + 1)
            err = fast__fail(FAST_EFORMAT, "%lld refused", (long long)counters.refused);
    }
    fast_space_close(space);
    return err;
}

/* Actor 1 announces an update at 1 ms and sends it at 5 ms, or leaves; actor 2 reads at 2 ms. */
enum { SILENT, ANNOUNCED, BROKEN };
static fast_err read_announced(fast_actor *actor, void *ctx)
{
    const int how = *(const int *)ctx;
    const int64_t me = fast_actor_id(actor);
    fast_space_options options = options_of();
    fast_space_read read = { .version_min = 0 };
    float x[COUNT] = { [7] = 1 }, y[COUNT];
    fast_space *space;
    fast_err err = FAST_OK;
    FAST_TRY(fast_space_open(actor, &options, &space));
    if (me == 0)
        err = fast_space_serve(space, FAST_SOON);
    else
        err = fast_sleep_until(actor, me * (int64_t)MILLISECOND);
    if (!err && me == 1 && how != SILENT)
        err = fast__space_announce(space);
    if (!err && me == 1) /* who announced reads what there is */
        err = fast_space_get(space, 0, y, &read, FAST_SOON);
    if (!err && me == 1 && fast_now(actor) > 2 * (int64_t)MILLISECOND)
        err = fast__fail(FAST_EFORMAT, "it waits for itself");
    if (!err && me == 1)
        err = fast_sleep_until(actor, 5 * (int64_t)MILLISECOND);
    if (!err && me == 1 && how != BROKEN)
        err = fast_space_add(space, 0, x, FAST_SOON);
    if (!err && me == 2)
        err = fast_space_get(space, 0, y, &read, FAST_SOON);
    if (!err && me == 2 && read.version != (how == ANNOUNCED))
        err = fast__fail(FAST_EFORMAT, "read version %lld", (long long)read.version);
    if (!err && me == 2 && (fast_now(actor) > 5 * (int64_t)MILLISECOND) != (how != SILENT))
        err = fast__fail(FAST_EFORMAT, "read at %lld ns", (long long)fast_now(actor));
    fast_space_close(space);
    return err;
}

static void reads_wait_for_what_is_announced(void **state)
{
    (void)state;
    for (int how = SILENT; how <= BROKEN; how++)
        run(read_announced, &how);
}

/* Slices, the first floats first, or the last half first: what is needed is there before the rest
 * is. */
enum { LARGE = 5 * FAST_SPACE_SLICE + 77 };
typedef struct slices {
    int64_t owners;
    bool backwards; /* by an order */
} slices;
static fast_err read_slices(fast_actor *actor, void *ctx)
{
    static float x[LARGE], y[LARGE];
    static const fast_space_tensor tensors[] = { { "a", LARGE, NULL } };
    static const fast_space_stretch halves[] = { { LARGE / 2, LARGE - LARGE / 2 },
                                                 { 0, LARGE / 2 } };
    const slices *s = ctx;
    const int64_t me = fast_actor_id(actor), owners = s->owners;
    const int64_t early = s->backwards ? LARGE / 2 : 0, late = s->backwards ? 0 : LARGE - 1;
    fast_space_options options = options_of();
    fast_space_read read = { .version_min = 1 };
    fast_space *space;
    int64_t first = 0;
    options.tensors = tensors;
    options.owner_count = owners;
    FAST_TRY(fast_space_open(actor, &options, &space));
    fast_err err = me < owners ? fast_space_serve(space, FAST_SOON) : FAST_OK;
    if (me == 2) {
        for (int64_t i = 0; i < LARGE; i++)
            x[i] = (float)(1 + i % 1000);
        err = fast_space_add(space, 0, x, FAST_SOON);
        memset(y, 0, sizeof y);
        if (!err && s->backwards)
            err = fast__space_set_order(space, halves, 2);
        if (!err)
            err = fast__space_get_start(space, y, &read, FAST_SOON);
        if (!err)
            err = fast__space_get_need(space, early + 5, 10);
        first = fast_now(actor);
        if (!err && (y[early + 14] != x[early + 14] || (owners == 1 && y[late] != 0)))
            err = fast__fail(FAST_EFORMAT, "not in order");
        if (!err)
            err = fast__space_get_need(space, late, 1);
        if (!err && y[late] != x[late])
            err = fast__fail(FAST_EFORMAT, "not there");
        if (!err)
            err = fast__space_get_end(space, &read);
        if (!err && (memcmp(x, y, sizeof y) != 0 || read.version != 1))
            err = fast__fail(FAST_EFORMAT, "other values, version %lld", (long long)read.version);
        if (!err && fast_now(actor) <= first + MILLISECOND)
            err = fast__fail(FAST_EFORMAT, "all came at once");
        if (!err) /* the next get is as ever */
            err = fast_space_get(space, 0, y, NULL, FAST_SOON);
    }
    fast_space_close(space);
    return err;
}

static void slices_come_in_order(void **state)
{
    (void)state;
    for (int64_t owners = 1; owners <= 2; owners++)
        for (int backwards = 0; backwards < 2; backwards++)
            run(read_slices, &(slices){ owners, backwards == 1 });
}

/* An order of some ranges: these arrive, in slices of many ranges, and no others; a get of another
 * kind brings all. */
static fast_err read_rows(fast_actor *actor, void *ctx)
{
    enum { ROW = 7, ROWS = LARGE / (3 * ROW) };
    static float x[LARGE], y[LARGE];
    static fast_space_stretch rows[ROWS];
    static const fast_space_tensor tensors[] = { { "a", LARGE, NULL } };
    const int64_t me = fast_actor_id(actor), owners = *(const int64_t *)ctx;
    fast_space_options options = options_of();
    fast_space_read read = { .version_min = 1 };
    fast_space *space;
    options.tensors = tensors;
    options.owner_count = owners;
    FAST_TRY(fast_space_open(actor, &options, &space));
    fast_err err = me < owners ? fast_space_serve(space, FAST_SOON) : FAST_OK;
    if (me == 2) {
        for (int64_t i = 0; i < LARGE; i++)
            x[i] = (float)(1 + i % 1000);
        for (int64_t i = 0; i < ROWS; i++) /* the last row first */
            rows[i] = (fast_space_stretch){ (ROWS - 1 - i) * 3 * ROW, ROW };
        memset(y, 0, sizeof y);
        err = fast_space_add(space, 0, x, FAST_SOON);
        if (!err)
            err = fast__space_set_order(space, rows, ROWS);
        if (!err)
            err = fast__space_get_start(space, y, &read, FAST_SOON);
        if (!err)
            err = fast__space_get_need(space, 0, 1);
        if (!err && y[0] != x[0])
            err = fast__fail(FAST_EFORMAT, "row 0 is not there");
        if (!err)
            err = fast__space_get_end(space, &read);
        for (int64_t i = 0; i < LARGE && !err; i++)
            if (y[i] != (i / ROW % 3 == 0 && i / (3 * ROW) < ROWS ? x[i] : 0))
                err = fast__fail(FAST_EFORMAT, "float %lld is %g", (long long)i, (double)y[i]);
        if (!err)
            err = fast_space_get(space, 0, y, NULL, FAST_SOON);
        if (!err && memcmp(x, y, sizeof y) != 0)
            err = fast__fail(FAST_EFORMAT, "not all values");
    }
    fast_space_close(space);
    return err;
}

static void rows_come_alone(void **state)
{
    (void)state;
    for (int64_t owners = 1; owners <= 2; owners++)
        run(read_rows, &owners);
}

/* Owner 1 reads, and owner 0, whose range is longer by one, answers by hand with entries: nobody
 * sends those. Then there is something to read. */
static fast_err answer_nonsense(fast_actor *actor, void *ctx)
{
    static const fast_space_tensor tensors[] = { { "a", COUNT + 1, NULL } };
    const int64_t me = fast_actor_id(actor), words[3] = { 1, 5, 5 };
    const uint32_t places[3] = { 0, 1, COUNT / 2 };
    const float values[3] = { 7, 7, 7 };
    fast_space_options options = options_of();
    fast_space_read read = { .version_min = 1 };
    float x[COUNT + 1] = { 1 };
    fast_space *space;
    fast_err err = FAST_OK;
    (void)ctx;
    options.tensors = tensors;
    options.owner_count = 2;
    options.sparse = options.cache_indices = true;
    FAST_TRY(fast_space_open(actor, &options, &space));
    if (me == 0) {
        fast_buffer *a, *b;
        fast_msg *msg;
        FAST_TRY(fast_sleep_until(actor, MILLISECOND));
        FAST_TRY(fast__space_message(space, FAST_SPACE_VALUE, 0, 0, words, &msg));
        FAST_TRY(fast_buffer_new(actor, sizeof places, &a));
        FAST_TRY(fast_buffer_new(actor, sizeof values, &b));
        memcpy(fast_buffer_data(a), places, sizeof places);
        memcpy(fast_buffer_data(b), values, sizeof values);
        fast_msg_add(msg, &a);
        fast_msg_add(msg, &b);
        FAST_TRY(fast_send(actor, 1, &msg));
    }
    if (me == 1)
        err = fast_space_get(space, 0, x, &read, FAST_SOON);
    if (me == 1 && !err && (read.version != 1 || x[0] != 1 || x[COUNT / 2] != 0))
        err = fast__fail(FAST_EFORMAT, "read %g of version %lld", (double)x[0],
                         (long long)read.version);
    if (me == 2)
        err = fast_sleep_until(actor, 2 * (int64_t)MILLISECOND);
    if (me == 2 && !err)
        err = fast_space_add(space, 0, x, FAST_SOON);
    fast_space_close(space);
    return err;
}

static void nonsense_is_refused(void **state)
{
    (void)state;
    run(send_nonsense, NULL);
    run(send_nonsense, "skip+entropy");
    run(send_orders, NULL);
    run(answer_nonsense, NULL);
}

/* Whose updates came in which order. */
typedef struct order {
    bool stalest; /* the option */
    int64_t from[4];
    int count;
} order;

static bool note(void *ctx, const fast_space_update *u, float *w)
{
    order *o = ctx;
    (void)w;
    o->from[o->count++] = u->from;
    return true;
}

/* Actor 1 is ahead and asks first, while the owner computes; actor 2 is behind. */
static fast_err compete(fast_actor *actor, void *ctx)
{
    order *o = ctx;
    const int64_t me = fast_actor_id(actor);
    fast_space_options options = options_of();
    const float x[COUNT] = { 1 };
    fast_space *space;
    fast_err err = FAST_OK;
    options.stalest_first = o->stalest;
    options.apply = note;
    options.ctx = o;
    FAST_TRY(fast_space_open(actor, &options, &space));
    if (me > 0) {
        err = fast_space_tick(space, me == 1 ? 9 : 3);
        if (!err)
            err = fast_sleep_until(actor, (20 + me) * (int64_t)MILLISECOND);
        for (int i = 0; i < 2 && !err; i++)
            err = fast_space_add(space, 0, x, FAST_SOON);
    } else {
        err = fast_sleep_until(actor, 10 * (int64_t)MILLISECOND);
        if (!err)
            err = fast_charge(actor, 1e11, 0);
        if (!err)
            err = fast_space_serve(space, FAST_SOON);
    }
    fast_space_close(space);
    return err;
}

static void the_stalest_is_first(void **state)
{
    static const int64_t by_arrival[] = { 1, 1, 2, 2 }, by_clock[] = { 2, 2, 1, 1 };
    (void)state;
    for (int i = 0; i < 2; i++) {
        order o = { .stalest = i == 1 };
        run(compete, &o);
        assert_int_equal(o.count, 4);
        assert_memory_equal(o.from, i == 1 ? by_clock : by_arrival, sizeof o.from);
    }
}

/* The cost of an owner's function, and the time at which its update could be read. */
typedef struct dear {
    double operations; /* the option */
    int64_t ns;        /* from the update to the read */
} dear;

static bool accept(void *ctx, const fast_space_update *u, float *w)
{
    (void)ctx;
    (void)u;
    (void)w;
    return true;
}

static fast_err wait_for_update(fast_actor *actor, void *ctx)
{
    dear *d = ctx;
    fast_space_options options = options_of();
    fast_space_read read = { .version_min = 1 };
    float x[COUNT] = { 1 };
    fast_space *space;
    fast_err err = FAST_OK;
    options.apply = accept;
    options.operations = d->operations;
    FAST_TRY(fast_space_open(actor, &options, &space));
    if (fast_actor_id(actor) == 0)
        err = fast_space_serve(space, FAST_SOON);
    if (fast_actor_id(actor) == 1) {
        const int64_t begin = fast_now(actor);
        err = fast_space_add(space, 0, x, FAST_SOON);
        if (!err)
            err = fast_space_get(space, 0, x, &read, FAST_SOON);
        d->ns = fast_now(actor) - begin;
    }
    fast_space_close(space);
    return err;
}

/* An owner takes its time for what its function does. */
static void updates_cost_time(void **state)
{
    dear cheap = { 0 }, same = { .operations = 1 }, dear_one = { .operations = 1e6 };
    (void)state;
    run(wait_for_update, &cheap);
    run(wait_for_update, &same);
    run(wait_for_update, &dear_one);
    assert_true(cheap.ns > 0 && cheap.ns == same.ns);
    assert_true(dear_one.ns > cheap.ns + 10 * (int64_t)MILLISECOND);
}

/* Two writers tick in turn, and read with a slack of 1; how long their reads took, in all. */
typedef struct reads {
    bool eager; /* the option */
    int64_t wait_ns;
} reads;

static fast_err read_often(fast_actor *actor, void *ctx)
{
    reads *r = ctx;
    const int64_t me = fast_actor_id(actor);
    fast_space_options options = options_of();
    float x[COUNT] = { 0 };
    fast_space *space;
    fast_err err = FAST_OK;
    options.eager = r->eager;
    x[me] = 1;
    FAST_TRY(fast_space_open(actor, &options, &space));
    if (me == 0)
        err = fast_space_serve(space, FAST_SOON);
    for (int64_t c = 0; me > 0 && c < 20 && !err; c++) {
        float y[COUNT];
        fast_space_read read = { .clock_min = c - 1 };
        const int64_t then = fast_now(actor);
        err = fast_space_get(space, 0, y, &read, FAST_SOON);
        r->wait_ns += fast_now(actor) - then;
        if (!err && (read.clock < c - 1 || y[1] < (float)(c - 1) || y[2] < (float)(c - 1)))
            err = fast__fail(FAST_EFORMAT, "round %lld read an old value", (long long)c);
        if (!err)
            err = fast_sleep_until(actor, (c + 1) * (int64_t)MILLISECOND);
        if (!err)
            err = fast_space_add(space, 0, x, FAST_SOON);
        if (!err)
            err = fast_space_tick(space, c + 1);
    }
    fast_space_close(space);
    return err;
}

static void eager_values_spare_the_way(void **state)
{
    reads asked = { .eager = false }, sent = { .eager = true };
    (void)state;
    run(read_often, &asked);
    run(read_often, &sent);
    assert_true(sent.wait_ns < asked.wait_ns / 2);
}

/* Actor 1 adds, then tells actor 2, which reads. Its link to the owner is slow, that to actor 2 is
 * fast, so that the message overtakes the update unless updates are causal. */
static fast_err overtake(fast_actor *actor, void *ctx)
{
    bool *const seen = ctx;
    fast_space_options options = options_of();
    float x[COUNT], y[COUNT] = { 0 };
    fast_space *space;
    fast_msg *msg = NULL;
    fast_err err = FAST_OK;
    for (int i = 0; i < COUNT; i++)
        x[i] = 1;
    options.causal = seen[0];
    FAST_TRY(fast_space_open(actor, &options, &space));
    if (fast_actor_id(actor) == 0)
        err = fast_space_serve(space, FAST_SOON);
    if (fast_actor_id(actor) == 1) {
        err = fast_space_add(space, 0, x, FAST_SOON);
        if (!err)
            err = fast_msg_new(actor, 1, &msg);
        if (!err)
            err = fast_send(actor, 2, &msg);
    }
    if (fast_actor_id(actor) == 2) {
        err = fast_receive(actor, 1, 1, FAST_SOON, &msg);
        fast_msg_free(msg);
        if (!err)
            err = fast_space_get(space, 0, y, NULL, FAST_SOON);
        seen[1] = y[0] == 1 && y[COUNT - 1] == 1;
    }
    fast_space_close(space);
    return err;
}

static void causal_updates_are_not_overtaken(void **state)
{
    const fast_role roles[] = { { "worker", 3, overtake, NULL } };
    (void)state;
    for (int causal = 0; causal < 2; causal++) {
        bool seen[2] = { causal, !causal };
        fast_role role = roles[0];
        role.ctx = seen;
        const fast_err err =
            fast_actors_run((const char *[]){ "transport=sim", "cluster=ethernet-1g", "timeout=60",
                                              "faults=cut 1>0 at 0s for 50ms", NULL },
                            &role, 1, NULL);
        if (err)
            fail_msg("%s: %s", fast_err_name(err), fast_error_detail());
        assert_int_equal(seen[1], causal);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(zeros_do_not_travel),
        cmocka_unit_test(places_are_sent_once),
        cmocka_unit_test(cached_messages_are_compressed),
        cmocka_unit_test(slices_come_in_order),
        cmocka_unit_test(rows_come_alone),
        cmocka_unit_test(reads_wait_for_what_is_announced),
        cmocka_unit_test(nonsense_is_refused),
        cmocka_unit_test(the_stalest_is_first),
        cmocka_unit_test(updates_cost_time),
        cmocka_unit_test(eager_values_spare_the_way),
        cmocka_unit_test(causal_updates_are_not_overtaken),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
