/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Goal: a space keeps its promises whatever carries it: nothing that was added is lost, a read
 * never returns less than it asked for nor parts of two versions, waits end and name who is behind.
 *
 * Method: programs of actors that check what they read and return an error if it is wrong, run in
 * every setting: near (all actors share memory), far (none do: messages only), mixed (two by two),
 * on threads and in the simulator, there with several seeds; and once more with the vectors of
 * spaces on the device `check`, on which an access outside a kernel ends the test. Under mpirun the
 * program takes "mpi" as its argument and runs the same over MPI.
 */
#include "space/space_store.h"

#include "base/memory.h"
#include "tensor/device_check.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#ifdef FAST_SANITIZED
enum { ROUNDS = 40, SEEDS = 3 };
#else
enum { ROUNDS = 120, SEEDS = 12 };
#endif
enum { ACTORS = 6, LARGE = 1003 };

/* Who shares memory with whom: actors id / near are in one place. */
typedef struct setting {
    const char *name;
    const char *transport;
    const char *cluster; /* of the simulator; "" elsewhere */
    int64_t near;        /* 0: as the transport places them */
    int64_t seeds;       /* how many are tried */
} setting;

static const setting all_settings[] = {
    { "threads, near", "threads", "", ACTORS, 1 },
    { "threads, far", "threads", "", 1, 1 },
    { "threads, mixed", "threads", "", 2, 1 },
    { "sim, near", "sim", "laptop", 0, 1 },
    { "sim, far", "sim", "hetero:jitter=2", 0, SEEDS },
    { "sim, mixed", "sim", "hetero:nodes=3,jitter=2", 0, SEEDS },
};
static const setting mpi_setting = { "mpi", "mpi", "", 0, 1 };
/* Set by main alone. */
static bool on_mpi;
static int64_t rounds = ROUNDS;

/* A scenario; equal for all its actors. */
typedef struct scenario {
    int64_t owners; /* number of owners */
    bool whole;
    int64_t actors;
    int64_t base; /* of the owners' numbers */
} scenario;

static fast_err wrong(const char *what, double is, double should)
{
    return fast__fail(FAST_EFORMAT, "%s is %g, not %g", what, is, should);
}

static fast_err try_run(const setting *set, const fast_device *device, int64_t seed,
                        fast_actor_fn *program, void *ctx, int64_t actors)
{
    char seed_text[32], transport[32], cluster[64];
    snprintf(cluster, sizeof cluster, "cluster=%s", set->cluster);
    snprintf(seed_text, sizeof seed_text, "seed=%lld", (long long)seed);
    snprintf(transport, sizeof transport, "transport=%s", set->transport);
    const fast_role roles[] = { { "worker", actors, program, ctx } };
    fast_actors_config config;
    fast_world *world = NULL;
    FAST_TRY(fast__actors_parse((const char *[]){ transport, seed_text, "timeout=60",
                                                  set->cluster[0] ? cluster : NULL, NULL },
                                &config));
    FAST_TRY(fast__world_open(&config, roles, 1, &world));
    world->device = device;
    for (int64_t i = 0; set->near > 0 && i < actors; i++)
        world->places[i].node = i / set->near;
    const fast_err err = fast__world_run(world, NULL);
    fast__world_close(world);
    return err;
}

/* Run a program of actors in every setting. */
static void run_with(fast_actor_fn *program, void *ctx, int64_t actors)
{
    const setting *settings = on_mpi ? &mpi_setting : all_settings;
    const size_t count = on_mpi ? 1 : sizeof all_settings / sizeof all_settings[0];
    const fast_device *check = NULL;
    assert_int_equal(fast__device_check_open(&check), FAST_OK);
    for (size_t i = 0; i < count; i++)
        for (int64_t seed = 0; seed <= settings[i].seeds; seed++) {
            const fast_device *device = seed == 0 ? check : &fast__host;
            const fast_err err = try_run(&settings[i], device, seed, program, ctx, actors);
            if (err)
                fail_msg("%s, %s, seed %lld: %s: %s", settings[i].name, device->name,
                         (long long)seed, fast_err_name(err), fast_error_detail());
        }
    fast__device_check_close(check);
}

/* A space with two tensors, one of them large, owned by the first actors. */
static fast_err open_space(fast_actor *actor, const scenario *s, fast_space_fn *apply,
                           fast_space **out)
{
    static const fast_space_tensor tensors[] = { { "large", LARGE, NULL }, { "small", 2, NULL } };
    static const int64_t ids[] = { 0, 1, 2, 3, 4, 5, 6, 7 };
    const fast_space_options options = { .name = "weights",
                                         .tensors = tensors,
                                         .tensor_count = 2,
                                         .owners = ids + s->base,
                                         .owner_count = s->owners,
                                         .whole_tensors = s->whole,
                                         .writers = ids,
                                         .writer_count = fast_actor_count(actor),
                                         .apply = apply };
    return fast_space_open(actor, &options, out);
}

/* Sleep for a random time of up to `most` nanoseconds, so that schedules differ. */
static fast_err dawdle(fast_actor *actor, int64_t most)
{
    const int64_t time = (int64_t)(fast_random(actor) % (uint64_t)most);
    return fast_sleep_until(actor, fast_now(actor) + time);
}

/* Everyone adds its number to everything, many times, and reads the exact total at the end. */
static fast_err add_all(fast_actor *actor, void *ctx)
{
    const scenario *s = ctx;
    const int64_t n = fast_actor_count(actor);
    fast_space *space;
    float x[LARGE], y[LARGE];
    FAST_TRY(open_space(actor, s, NULL, &space));
    for (int64_t i = 0; i < LARGE; i++)
        x[i] = (float)(fast_actor_id(actor) + 1);
    fast_err err = FAST_OK;
    for (int64_t r = 0; r < rounds && !err; r++) {
        err = fast_space_add(space, 0, x, FAST_SOON);
        if (!err)
            err = fast_space_add(space, 1, x, FAST_SOON);
    }
    fast_space_read read = { .clock_min = 1 };
    if (!err)
        err = fast_space_tick(space, 1);
    for (int64_t t = 0; t < 2 && !err; t++) {
        err = fast_space_get(space, t, y, &read, FAST_SOON);
        const float total = (float)(rounds * n * (n + 1) / 2);
        for (int64_t i = 0; i < (t ? 2 : LARGE) && !err; i++)
            if (y[i] != total)
                err = wrong("a total", (double)y[i], (double)total);
        if (!err && read.version != rounds * n)
            err = wrong("the version", (double)read.version, (double)(rounds * n));
        if (!err && read.clock != 1)
            err = wrong("the clock", (double)read.clock, 1);
    }
    if (!err && fast_space_find(space, "small") != 1)
        err = wrong("find", 0, 1);
    fast_space_counters counters;
    fast_space_count(space, &counters);
    const int64_t mine = fast_actor_id(actor) - s->base;
    const int64_t ranges = mine < 0 || mine >= s->owners ? 0
                           : s->whole                    ? (mine < 2 ? (s->owners == 1 ? 2 : 1) : 0)
                                                         : 1 + (mine < 2);
    if (!err && counters.applied != ranges * rounds * n)
        err = wrong("what was applied", (double)counters.applied, (double)(ranges * rounds * n));
    fast_space_close(space);
    return err;
}

static void adds_lose_nothing(void **state)
{
    (void)state;
    for (int64_t owners = 1; owners <= 3; owners++)
        for (int whole = 0; whole < 2; whole++)
            run_with(add_all, &(scenario){ .owners = owners, .whole = whole != 0 }, ACTORS);
    run_with(add_all, &(scenario){ .owners = 4 }, 4);
    run_with(add_all, &(scenario){ .owners = 1, .base = 3 }, 4);
}

/* An actor reads what it just wrote, since no other actor writes to its tensor. */
static fast_err write_and_read(fast_actor *actor, void *ctx)
{
    (void)ctx;
    static const fast_space_tensor tensors[] = {
        { "0", 37, NULL }, { "1", 37, NULL }, { "2", 37, NULL }, { "3", 37, NULL }
    };
    static const int64_t owners[] = { 2, 0 };
    const int64_t me = fast_actor_id(actor);
    const fast_space_options options = { .name = "mine",
                                         .tensors = tensors,
                                         .tensor_count = 4,
                                         .owners = owners,
                                         .owner_count = 2,
                                         .whole_tensors = true };
    fast_space *space;
    float x[37], y[37];
    FAST_TRY(fast_space_open(actor, &options, &space));
    fast_err err = FAST_OK;
    for (int64_t r = 0; r < rounds && !err; r++) {
        for (int64_t i = 0; i < 37; i++)
            x[i] = (float)(r * 100 + i);
        err = fast_space_put(space, me, x, FAST_SOON);
        if (!err)
            err = fast_space_add(space, me, x, FAST_SOON);
        fast_space_read read = { .version_min = 2 * r + 2 };
        if (!err)
            err = fast_space_get(space, me, y, &read, FAST_SOON);
        for (int64_t i = 0; i < 37 && !err; i++)
            if (y[i] != 2 * x[i])
                err = wrong("what was written", (double)y[i], 2 * (double)x[i]);
        if (!err && read.version != 2 * r + 2)
            err = wrong("the version", (double)read.version, (double)(2 * r + 2));
    }
    fast_space_close(space);
    return err;
}

static void one_reads_what_one_wrote(void **state)
{
    (void)state;
    run_with(write_and_read, NULL, 4);
}

/* Add ones and get in one visit, where that can be: what is got holds what was added, of each range
 * one version; and an owner that only serves does not ask to be woken by updates. */
static fast_err visit(fast_actor *actor, void *ctx)
{
    const scenario *s = ctx;
    fast_space *space;
    float x[LARGE], y[LARGE];
    int64_t version = 0, last = 0;
    FAST_TRY(open_space(actor, s, NULL, &space));
    for (int64_t i = 0; i < LARGE; i++)
        x[i] = 1;
    const bool serves = fast_actor_id(actor) < s->owners;
    fast_err err = serves ? fast_space_serve(space, FAST_SOON) : FAST_OK;
    for (int64_t r = 0; !serves && r < rounds && !err && fast__space_is_local(space); r++) {
        err = fast__space_add_get(space, x, y, &version, FAST_SOON);
        float least = y[0];
        for (int64_t o = 0; o < s->owners && !err; o++) {
            int64_t offset, count;
            fast__space_range(space, o, 0, &offset, &count);
            for (int64_t i = offset; i < offset + count && !err; i++)
                if (y[i] != y[offset])
                    err = wrong("a torn visit", (double)y[i], (double)y[offset]);
            least = y[offset] < least ? y[offset] : least;
            if (!err && *fast__space_at(space, space->clocks.read, o, 0) != (int64_t)y[offset])
                err = wrong("what counts as read", (double)y[offset], (double)version);
            if (!err && atomic_load(&space->map.owners[o].store.slots[o].armed) != 0)
                err = wrong("an owner that is woken by updates", 1, 0);
        }
        if (!err && (version != (int64_t)least || version <= last))
            err = wrong("the version", (double)version, (double)least);
        last = version;
    }
    fast_space_close(space);
    return err;
}

static void an_add_and_a_get_are_one_visit(void **state)
{
    (void)state;
    run_with(visit, &(scenario){ .owners = 1 }, 3);
    run_with(visit, &(scenario){ .owners = 2 }, ACTORS);
}

/* Check what a read of the large tensor saw: ranges are not torn, nothing is older than asked. */
static fast_err check_read(const scenario *s, const float *y, const fast_space_read *read,
                           int64_t n, int64_t *version_last)
{
    if (read->version < read->version_min || read->version < *version_last)
        return wrong("an old version", (double)read->version, (double)read->version_min);
    if (read->clock < read->clock_min)
        return wrong("an old clock", (double)read->clock, (double)read->clock_min);
    *version_last = read->version;
    const int64_t cuts = s->whole ? 1 : s->owners;
    for (int64_t o = 0; o < cuts; o++) {
        const int64_t part = LARGE / cuts, more = LARGE % cuts;
        const int64_t begin = o * part + (o < more ? o : more), count = part + (o < more);
        for (int64_t i = begin; i < begin + count; i++)
            if (y[i] != y[begin])
                return wrong("a torn read", (double)y[i], (double)y[begin]);
        /* Every writer adds 1 in each round: after clock c there are at least n c. */
        if (y[begin] < (float)(n * read->clock_min) || y[begin] < (float)read->version_min)
            return wrong("an old value", (double)y[begin], (double)(n * read->clock_min));
        if (y[begin] < (float)read->version)
            return wrong("a value older than its version", (double)y[begin], (double)read->version);
    }
    return FAST_OK;
}

/* Rounds of reading with bounded staleness, adding and ticking, at random speeds. */
static fast_err stale_rounds(fast_actor *actor, void *ctx)
{
    const scenario *s = ctx;
    const int64_t n = fast_actor_count(actor);
    fast_space *space;
    float x[LARGE], y[LARGE];
    int64_t last = 0;
    FAST_TRY(open_space(actor, s, NULL, &space));
    for (int64_t i = 0; i < LARGE; i++)
        x[i] = 1;
    fast_err err = FAST_OK;
    for (int64_t r = 0; r < rounds / 2 && !err; r++) {
        const int64_t bound = (int64_t)(fast_random(actor) % 4);
        fast_space_read read = { .clock_min = r > bound ? r - bound : 0 };
        /* Its own r updates are there in any case, and others' that are as far. */
        read.version_min = fast_random(actor) % 2 ? read.clock_min * n : r;
        err = fast_space_get(space, 0, y, &read, FAST_SOON);
        if (!err)
            err = check_read(s, y, &read, n, &last);
        if (!err && fast_random(actor) % 3 == 0)
            err = dawdle(actor, 200000);
        if (!err)
            err = fast_space_add(space, 0, x, FAST_SOON);
        if (!err)
            err = fast_space_tick(space, r + 1);
    }
    fast_space_close(space);
    return err;
}

static void reads_are_as_new_as_asked(void **state)
{
    (void)state;
    run_with(stale_rounds, &(scenario){ .owners = 1 }, ACTORS);
    run_with(stale_rounds, &(scenario){ .owners = 3 }, ACTORS);
    run_with(stale_rounds, &(scenario){ .owners = 2, .whole = true }, 3);
    run_with(stale_rounds, &(scenario){ .owners = 4 }, 4);
}

/* The function at the owner: half of what is not negative; the rest is rejected. */
static bool half(void *ctx, const fast_space_update *update, float *w)
{
    (void)ctx;
    if (update->x[0] < 0)
        return false;
    for (int64_t i = 0; i < update->count; i++)
        w[i] += update->x[i] / 2;
    return true;
}

static fast_err say(fast_actor *actor, int64_t to, uint64_t tag)
{
    fast_msg *msg;
    FAST_TRY(fast_msg_new(actor, tag, &msg));
    return fast_send(actor, to, &msg);
}

static fast_err hear(fast_actor *actor, int64_t from, uint64_t tag)
{
    fast_msg *msg;
    FAST_TRY(fast_receive(actor, from, tag, FAST_SOON, &msg));
    fast_msg_free(msg);
    return FAST_OK;
}

/* Actor 0 owns, 1 reads, 2 adds three times and once in vain, then 1 adds: it is three behind. */
static fast_err reject_steps(fast_actor *actor, fast_space *space)
{
    float x[LARGE], y[LARGE], bad[LARGE];
    for (int64_t i = 0; i < LARGE; i++) {
        x[i] = 2;
        bad[i] = -1;
    }
    fast_space_read read = { .version_min = 3 };
    switch (fast_actor_id(actor)) {
    case 0:
        return fast_space_serve(space, FAST_SOON);
    case 1:
        FAST_TRY(fast_space_get(space, 0, y, NULL, FAST_SOON));
        FAST_TRY(say(actor, 2, 5));
        FAST_TRY(hear(actor, 2, 5));
        FAST_TRY(fast_space_add(space, 0, x, FAST_SOON));
        read.version_min = 4;
        FAST_TRY(fast_space_get(space, 0, y, &read, FAST_SOON));
        return y[7] == 4 ? FAST_OK : wrong("the sum of halves", (double)y[7], 4);
    default:
        FAST_TRY(hear(actor, 1, 5));
        for (int i = 0; i < 3; i++) {
            FAST_TRY(fast_space_get(space, 0, y, NULL, FAST_SOON));
            FAST_TRY(fast_space_add(space, 0, x, FAST_SOON));
        }
        FAST_TRY(fast_space_add(space, 0, bad, FAST_SOON));
        FAST_TRY(fast_space_get(space, 0, y, &read, FAST_SOON));
        return say(actor, 1, 5);
    }
}

static fast_err reject(fast_actor *actor, void *ctx)
{
    const scenario *s = ctx;
    fast_space *space;
    fast_space_counters counters;
    FAST_TRY(open_space(actor, s, half, &space));
    fast_err err = reject_steps(actor, space);
    fast_space_count(space, &counters);
    if (!err && fast_actor_id(actor) == 0) {
        if (counters.applied != 4 || counters.rejected != 1)
            err = wrong("what was applied", (double)counters.applied, 4);
        else if (counters.staleness_sum != 3 || counters.staleness_max != 3)
            err = wrong("the staleness", (double)counters.staleness_sum, 3);
        else if (counters.gets != 6 || counters.refused != 0)
            err = wrong("the gets", (double)counters.gets, 6);
    }
    fast_space_close(space);
    return err;
}

static void owners_apply_and_reject(void **state)
{
    (void)state;
    run_with(reject, &(scenario){ .owners = 1 }, 3);
}

/* The owner itself brings the version that the others wait for, and then only receives. */
static fast_err bring(fast_actor *actor, void *ctx)
{
    fast_space *space;
    float x[LARGE] = { 0 };
    fast_space_read read = { .version_min = 1 };
    FAST_TRY(open_space(actor, ctx, NULL, &space));
    fast_err err;
    if (fast_actor_id(actor) == 0) {
        err = fast_sleep_until(actor, fast_now(actor) + 5000000);
        if (!err)
            err = fast_space_add(space, 0, x, FAST_SOON);
        for (int64_t id = 1; id < fast_actor_count(actor) && !err; id++)
            err = hear(actor, id, 5);
    } else {
        err = fast_space_get(space, 0, x, &read, FAST_SOON);
        if (!err)
            err = say(actor, 0, 5);
    }
    fast_space_close(space);
    return err;
}

static void owners_answer_after_updates_of_their_own(void **state)
{
    (void)state;
    run_with(bring, &(scenario){ .owners = 1 }, 3);
}

/* Observations of a watcher. */
typedef struct seen {
    int64_t version;
    int64_t calls;
} seen;

static void note(void *ctx, int64_t tensor, int64_t version, int64_t clock)
{
    seen *s = ctx;
    (void)clock;
    if (tensor == 0 && version > s->version)
        s->version = version;
    s->calls++;
}

static fast_err watch(fast_actor *actor, void *ctx)
{
    const scenario *s = ctx;
    const int64_t n = fast_actor_count(actor), me = fast_actor_id(actor);
    fast_space *space;
    float x[LARGE] = { 0 };
    seen saw = { 0, 0 };
    FAST_TRY(open_space(actor, s, NULL, &space));
    fast_err err = fast_space_watch(space, 0, me < 2 ? note : NULL, &saw);
    for (int64_t r = 0; r < rounds / 4 && !err; r++)
        err = fast_space_add(space, 0, x, FAST_SOON);
    const int64_t last = n * (rounds / 4), end = fast__deadline(actor, FAST_SOON);
    while (!err && me < 2 && saw.version < last) {
        if (fast_now(actor) > end)
            err = wrong("the version that was told", (double)saw.version, (double)last);
        else
            err = fast_sleep_until(actor, fast_now(actor) + 1000000);
    }
    if (!err && me < 2 && (saw.calls < 1 || saw.calls > last * s->owners))
        err = wrong("calls of a watcher", (double)saw.calls, (double)last);
    fast_space_close(space);
    return err;
}

static void watchers_see_the_last_version(void **state)
{
    (void)state;
    run_with(watch, &(scenario){ .owners = 1 }, ACTORS);
    run_with(watch, &(scenario){ .owners = 3 }, ACTORS);
    run_with(watch, &(scenario){ .owners = 1, .base = 2 }, 4);
}

/* Is this the error, and does it name that actor? */
static fast_err check_error(fast_err err, fast_err expected, const char *name)
{
    if (err != expected)
        return fast__fail(FAST_EFORMAT, "got %s and not %s", fast_err_name(err),
                          fast_err_name(expected));
    if (name && !strstr(fast_error_detail(), name)) {
        char detail[FAST_DETAIL_MAX];
        snprintf(detail, sizeof detail, "%s", fast_error_detail());
        return fast__fail(FAST_EFORMAT, "%s is not in: %.400s", name, detail);
    }
    return FAST_OK;
}

/* A get that must time out and name actor 2. On a busy machine a remote owner may be too slow to
 * say whom it waits for; in the simulator it is not. */
static fast_err get_in_vain(fast_actor *actor, fast_space *space, fast_space_read read)
{
    float x[LARGE];
    const bool slow =
        !fast_actor_is_local(actor, 0) && strcmp(actor->world->inner->name, "sim") != 0;
    const fast_err err = fast_space_get(space, 0, x, &read, fast_now(actor) + 600000000);
    if (slow && err == FAST_ETIMEDOUT && strstr(fast_error_detail(), "does not answer"))
        return FAST_OK;
    return check_error(err, FAST_ETIMEDOUT, "worker 2");
}

/* Actor 2 finishes no round until 1 has given up on it. Actor 0 owns, 3 is ahead. */
static fast_err lag_steps(fast_actor *actor, fast_space *space)
{
    float x[LARGE] = { 0 };
    switch (fast_actor_id(actor)) {
    case 0:
        FAST_TRY(fast_space_tick(space, 9));
        return fast_space_serve(space, FAST_SOON);
    case 1:
        FAST_TRY(fast_space_tick(space, 5));
        FAST_TRY(hear(actor, 3, 5));
        FAST_TRY(get_in_vain(actor, space, (fast_space_read){ .clock_min = 2 }));
        FAST_TRY(get_in_vain(actor, space, (fast_space_read){ .version_min = 2 }));
        FAST_TRY(say(actor, 2, 5));
        return say(actor, 3, 5);
    case 2:
        return hear(actor, 1, 5);
    default:
        FAST_TRY(fast_space_add(space, 0, x, FAST_SOON));
        FAST_TRY(fast_space_tick(space, 3));
        FAST_TRY(fast_space_get(space, 0, x, NULL, FAST_SOON));
        FAST_TRY(say(actor, 1, 5));
        return hear(actor, 1, 5);
    }
}

static fast_err lag(fast_actor *actor, void *ctx)
{
    fast_space *space;
    FAST_TRY(open_space(actor, ctx, NULL, &space));
    const fast_err err = lag_steps(actor, space);
    fast_space_close(space);
    return err;
}

static void timeouts_name_who_is_behind(void **state)
{
    (void)state;
    run_with(lag, &(scenario){ .owners = 1 }, 4);
}

/* Actors 2 and 3 go while 1 waits for their clocks, 3 without a word; later nobody is left. */
static fast_err go_steps(fast_actor *actor, fast_space *space, bool *mute)
{
    float x[LARGE] = { 0 };
    fast_space_read read = { .clock_min = 4 };
    switch (fast_actor_id(actor)) {
    case 0:
        return fast_space_serve(space, FAST_SOON);
    case 1:
        FAST_TRY(fast_space_tick(space, 4));
        FAST_TRY(fast_space_get(space, 0, x, &read, FAST_SOON));
        if (read.clock < 4)
            return wrong("the clock", (double)read.clock, 4);
        read = (fast_space_read){ .version_min = 100 };
        return check_error(fast_space_get(space, 0, x, &read, FAST_SOON), FAST_EPEER, NULL);
    case 2:
        FAST_TRY(fast_space_tick(space, 2));
        return dawdle(actor, 20000000);
    default:
        FAST_TRY(fast_space_tick(space, 1));
        *mute = true;
        return dawdle(actor, 20000000);
    }
}

static fast_err go(fast_actor *actor, void *ctx)
{
    fast_space *space;
    bool mute = false;
    FAST_TRY(open_space(actor, ctx, NULL, &space));
    const fast_err err = go_steps(actor, space, &mute);
    if (mute)
        fast__space_abandon(space);
    else
        fast_space_close(space);
    /* An actor that closed continues with something else: leaving counts, not ending. */
    if (!err && fast_actor_id(actor) == 1)
        return say(actor, 2, 6);
    return !err && fast_actor_id(actor) == 2 ? hear(actor, 1, 6) : err;
}

static void who_is_gone_holds_nobody_back(void **state)
{
    (void)state;
    run_with(go, &(scenario){ .owners = 1 }, 4);
}

/* The owner ends without a word: others are told, and hang nowhere. */
static fast_err vanish(fast_actor *actor, void *ctx)
{
    fast_space *space;
    float x[LARGE] = { 0 };
    FAST_TRY(open_space(actor, ctx, NULL, &space));
    if (fast_actor_id(actor) == 0) {
        fast__space_abandon(space);
        return FAST_OK;
    }
    fast_err err = FAST_OK;
    while (!err)
        err = fast_space_get(space, 0, x, NULL, FAST_SOON);
    err = check_error(err, FAST_EPEER, NULL);
    fast_space_close(space);
    return err;
}

static void an_owner_that_vanished_is_an_error(void **state)
{
    (void)state;
    run_with(vanish, &(scenario){ .owners = 1 }, 3);
}

/* An owner's serve ends by its deadline and names who stays. */
static fast_err stay(fast_actor *actor, void *ctx)
{
    fast_space *space;
    FAST_TRY(open_space(actor, ctx, NULL, &space));
    fast_err err;
    if (fast_actor_id(actor) == 0) {
        err = check_error(fast_space_serve(space, fast_now(actor) + 100000000), FAST_ETIMEDOUT,
                          "worker 1");
        if (!err)
            err = say(actor, 1, 5);
    } else {
        err = hear(actor, 0, 5);
    }
    fast_space_close(space);
    return err;
}

static void serving_ends_by_its_deadline(void **state)
{
    (void)state;
    run_with(stay, &(scenario){ .owners = 1 }, 2);
}

/* Who opened another space by that name is refused, and so is who comes twice. */
static fast_err differ(fast_actor *actor, void *ctx)
{
    const int64_t me = fast_actor_id(actor);
    scenario mine = *(const scenario *)ctx;
    fast_space *space, *second;
    float x[LARGE] = { 0 };
    mine.whole = me == 1;
    fast_err err = open_space(actor, &mine, NULL, &space);
    if (me == 1) {
        /* Refused at once where the memory tells, or by the first operation. */
        if (!err) {
            err = fast_space_get(space, 0, x, NULL, FAST_SOON);
            fast_space_close(space);
        }
        return check_error(err, FAST_EINVAL, "weights");
    }
    FAST_TRY(err);
    err = check_error(open_space(actor, &mine, NULL, &second), FAST_EINVAL, "already");
    if (!err && me == 2) {
        fast_space_close(space);
        space = NULL;
        err = open_space(actor, &mine, NULL, &space);
        if (!err)
            err = fast_space_get(space, 0, x, NULL, FAST_SOON);
        /* A remote owner that has gone meanwhile cannot refuse. */
        err = err == FAST_EPEER && !fast_actor_is_local(actor, 0)
                  ? FAST_OK
                  : check_error(err, FAST_EINVAL, "before");
    }
    fast_space_close(space);
    return err;
}

static void other_spaces_are_refused(void **state)
{
    (void)state;
    run_with(differ, &(scenario){ .owners = 1 }, 3);
}

/* Rounds as above, without a word about values: owners forget in a crash, and nodes may lie. */
static fast_err carry_on(fast_actor *actor, void *ctx)
{
    fast_space *space;
    float x[LARGE] = { 1 };
    FAST_TRY(open_space(actor, ctx, NULL, &space));
    fast_err err = fast_space_watch(space, 1, note, &(seen){ 0, 0 });
    for (int64_t r = 0; r < 20 && !err; r++) {
        fast_space_read read = { .clock_min = r > 2 ? r - 2 : 0 };
        err = fast_space_get(space, 0, x, &read, FAST_SOON);
        if (!err && (read.version < 0 || read.clock < read.clock_min))
            err = wrong("an old clock", (double)read.clock, (double)read.clock_min);
        if (!err)
            err = fast_charge(actor, 1e6, 0);
        if (!err)
            err = fast_space_add(space, 0, x, FAST_SOON);
        if (!err)
            err = fast_space_put(space, 1, x, FAST_SOON);
        if (!err)
            err = fast_space_tick(space, r + 1);
    }
    fast_space_close(space);
    return err;
}

/* Whatever fails, every actor ends with a reason, and in time. */
static void faults_end_every_wait(void **state)
{
    (void)state;
    static const char *const clusters[] = { "cluster=hetero:jitter=2", "cluster=edge:nodes=3",
                                            "cluster=laptop" };
    for (int64_t seed = 1; seed <= 10 * SEEDS && !on_mpi; seed++) {
        scenario s = { .owners = 1 + seed % 3, .base = seed % 2 };
        char text[32];
        snprintf(text, sizeof text, "seed=%lld", (long long)seed);
        const fast_role role = { "worker", 5, carry_on, &s };
        fast_actors_result result;
        const fast_err err =
            fast_actors_run((const char *[]){ "transport=sim", clusters[seed / 3 % 3], text,
                                              "faults=random", "timeout=2", "check=yes", NULL },
                            &role, 1, &result);
        if (err && err != FAST_ETIMEDOUT && err != FAST_EPEER && err != FAST_ECANCELED)
            fail_msg("seed %lld: %s: %s", (long long)seed, fast_err_name(err), fast_error_detail());
        if (result.time_ns > (int64_t)300 * 1000000000)
            fail_msg("seed %lld took %g s", (long long)seed, (double)result.time_ns * 1e-9);
    }
}

int main(int argc, char **argv)
{
    on_mpi = argc > 1 && strcmp(argv[1], "mpi") == 0;
    rounds = on_mpi ? 40 : ROUNDS; /* Ranks may be more than cores, and each keeps one busy. */
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(adds_lose_nothing),
        cmocka_unit_test(one_reads_what_one_wrote),
        cmocka_unit_test(an_add_and_a_get_are_one_visit),
        cmocka_unit_test(reads_are_as_new_as_asked),
        cmocka_unit_test(owners_apply_and_reject),
        cmocka_unit_test(owners_answer_after_updates_of_their_own),
        cmocka_unit_test(watchers_see_the_last_version),
        cmocka_unit_test(timeouts_name_who_is_behind),
        cmocka_unit_test(who_is_gone_holds_nobody_back),
        cmocka_unit_test(an_owner_that_vanished_is_an_error),
        cmocka_unit_test(serving_ends_by_its_deadline),
        cmocka_unit_test(other_spaces_are_refused),
        cmocka_unit_test(faults_end_every_wait),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
