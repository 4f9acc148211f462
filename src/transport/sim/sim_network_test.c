/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Goal: delivery is in order and exactly once whatever the links do, and only unreliable messages
 * vanish, double and overtake. Method: numbered messages over links with jitter, loss, duplication
 * and reordering; the receiver checks every number. Links of zones and of single pairs have their
 * own times. The overhead, the rendezvous and the bandwidth of one connection follow their closed
 * forms. Cut links hold messages back, one way or both, and lose the unreliable ones.
 */
#include "transport/sim/sim.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { TAG = 3, COUNT = 500, SENDERS = 3 };

typedef struct tally {
    int64_t seen[COUNT];        /* how often each number came */
    int64_t overtakes;          /* numbers smaller than the one before */
    int64_t received;           /* of all */
    int64_t last_time;          /* of the newest */
    bool unreliable;            /* messages are sent unreliably */
    fast_sim_counters counters; /* of the network */
    int64_t times[8];           /* of single messages */
} tally;

static fast_err many(fast_actor *actor, void *ctx)
{
    tally *t = ctx;
    const int64_t id = fast_actor_id(actor);
    int64_t last[SENDERS + 1] = { 0 };

    for (int64_t i = 0; i < COUNT && id > 0; i++) {
        fast_msg *msg = NULL;
        FAST_TRY(fast_msg_new(actor, TAG, &msg));
        msg->words[0] = i;
        msg->unreliable = t->unreliable;
        msg->declared = (size_t)(fast_random(actor) % 2000);
        FAST_TRY(fast_send(actor, 0, &msg));
        if (i % 7 == 0)
            FAST_TRY(fast_sleep_until(actor, fast_now(actor) + 100000));
    }
    /* The news of an end is reliable: it does not wait for what may overtake. */
    if (id > 0)
        return fast_sleep_until(actor, fast_now(actor) + 1000000000);
    while (id == 0) {
        fast_msg *msg = NULL;
        if (fast_receive(actor, FAST_ANY, TAG, FAST_SOON, &msg))
            return FAST_OK; /* everybody has ended */
        t->seen[msg->words[0]]++;
        t->overtakes += msg->words[0] < last[msg->from];
        last[msg->from] = msg->words[0];
        t->received++;
        t->last_time = fast_now(actor);
        fast_msg_free(msg);
    }
    return FAST_OK;
}

/* Run with a look at the world. */
static void run(const char *cluster, tally *t)
{
    fast_actors_config config;
    const fast_role role = { "worker", SENDERS + 1, many, t };
    const char *options[] = { "transport=sim", "timeout=100", NULL };
    fast_world *world = NULL;
    assert_int_equal(fast__actors_parse(options, &config), FAST_OK);
    snprintf(config.cluster, sizeof config.cluster, "%s", cluster);
    assert_int_equal(fast__world_open(&config, &role, 1, &world), FAST_OK);
    if (fast__world_run(world, NULL))
        fail_msg("%s", fast_error_detail());
    t->counters = ((fast_sim *)world)->network.counters;
    fast__world_close(world);
}

static void check_exactly_once(const tally *t)
{
    for (int i = 0; i < COUNT; i++)
        assert_int_equal(t->seen[i], SENDERS);
    assert_int_equal(t->overtakes, 0);
}

static void test_order_on_bad_links(void **state)
{
    (void)state;
    tally plain = { 0 }, bad = { 0 }, queued = { 0 };
    run("ideal", &plain);
    check_exactly_once(&plain);
    assert_int_equal(plain.counters.retransmits, 0);
    run("ideal:latency=100us,jitter=20,loss=20%,duplicate=20%,reorder=20%,retry=1ms", &bad);
    check_exactly_once(&bad);
    assert_in_range(bad.counters.retransmits, 200, 600); /* a quarter of 1500 */
    assert_in_range(bad.counters.duplicates, 200, 400);
    assert_in_range(bad.counters.reordered, 200, 400);
    assert_true(bad.last_time > plain.last_time);
    run("ideal:latency=100us,jitter=20,loss=20%,reorder=20%,contention=yes", &queued);
    check_exactly_once(&queued);
}

static void test_unreliable_messages(void **state)
{
    (void)state;
    tally t = { .unreliable = true };
    run("ideal", &t); /* the links are good: all come, small ones overtake large ones */
    for (int i = 0; i < COUNT; i++)
        assert_int_equal(t.seen[i], SENDERS);
    t = (tally){ .unreliable = true };
    run("ideal:latency=100us,jitter=20", &t);
    assert_true(t.overtakes > 100);
    assert_int_equal(t.received, SENDERS * COUNT);
    t = (tally){ .unreliable = true };
    run("ideal:loss=50%", &t);
    assert_in_range(t.received, SENDERS * COUNT * 4 / 10, SENDERS * COUNT * 6 / 10);
    assert_in_range(t.counters.retransmits, 0, 50); /* news of ends only */
    t = (tally){ .unreliable = true };
    run("ideal:duplicate=50%", &t);
    assert_in_range(t.received, SENDERS * COUNT * 14 / 10, SENDERS * COUNT * 16 / 10);
}

/* A duplicated payload is shared and intact. */
static fast_err payload(fast_actor *actor, void *ctx)
{
    tally *t = ctx;
    fast_msg *msg = NULL;
    if (fast_actor_id(actor) == 1)
        for (int i = 0; i < 50; i++) {
            fast_buffer *buffer = NULL;
            FAST_TRY(fast_msg_new(actor, TAG, &msg));
            FAST_TRY(fast_buffer_new(actor, sizeof i, &buffer));
            memcpy(fast_buffer_data(buffer), &i, sizeof i);
            msg->words[0] = i;
            msg->unreliable = true;
            fast_msg_add(msg, &buffer);
            FAST_TRY(fast_send(actor, 0, &msg));
        }
    if (fast_actor_id(actor) == 1)
        return fast_sleep_until(actor, 1000000000);
    while (fast_actor_id(actor) == 0 && !fast_receive(actor, FAST_ANY, TAG, FAST_SOON, &msg)) {
        assert_int_equal(*(const int *)fast_msg_data(msg, 0), msg->words[0]);
        t->received++;
        fast_msg_free(msg);
    }
    return FAST_OK;
}

static void test_duplicates_share_their_payload(void **state)
{
    (void)state;
    tally t = { 0 };
    const fast_role role = { "worker", 2, payload, &t };
    const char *options[] = { "transport=sim", "cluster=ideal:duplicate=50%,jitter=3", NULL };
    assert_int_equal(fast_actors_run(options, &role, 1, NULL), FAST_OK);
    assert_in_range(t.received, 60, 95);
}

enum { SENT_MAX = 4 };

/* Messages that actor 0 sends at once, and when each arrives. */
typedef struct sending {
    int64_t count;           /* number of messages */
    size_t sizes[SENT_MAX];  /* bytes of each */
    int64_t to[SENT_MAX];    /* receiver of each */
    int64_t times[SENT_MAX]; /* its arrival, ns */
} sending;

static fast_err send_sizes(fast_actor *actor, void *ctx)
{
    sending *s = ctx;
    for (int64_t i = 0; i < s->count; i++) {
        fast_msg *msg = NULL;
        if (fast_actor_id(actor) == 0) {
            FAST_TRY(fast_msg_new(actor, TAG, &msg));
            msg->declared = s->sizes[i];
            FAST_TRY(fast_send(actor, s->to[i], &msg));
        } else if (fast_actor_id(actor) == s->to[i]) {
            FAST_TRY(fast_receive(actor, 0, TAG, FAST_SOON, &msg));
            s->times[i] = fast_now(actor);
            fast_msg_free(msg);
        }
    }
    return FAST_OK;
}

static void check_times(const char *cluster, sending s, const int64_t *expected)
{
    char option[128];
    const fast_role role = { "worker", 3, send_sizes, &s };
    const char *options[] = { "transport=sim", option, NULL };
    snprintf(option, sizeof option, "cluster=%s", cluster);
    if (fast_actors_run(options, &role, 1, NULL))
        fail_msg("%s", fast_error_detail());
    for (int64_t i = 0; i < s.count; i++)
        if (s.times[i] != expected[i])
            fail_msg("%s: message %lld took %lld ns, not %lld", cluster, (long long)i,
                     (long long)s.times[i], (long long)expected[i]);
}

/* With L = 1 ms, 1 / G = 1 MB/s, o = 10 us and 1 / S = 500 kB/s, a message of m bytes takes
 * L + o + m G, above 64 KiB 2 L more, over a slow connection m (S - G) more. */
static void test_terms_of_loggp(void **state)
{
    (void)state;
    const sending one = { 1, { 65536 }, { 1 }, { 0 } }, above = { 1, { 65537 }, { 1 }, { 0 } };
    const sending two = { 2, { 1000, 1000 }, { 1, 1 }, { 0 } };
    const sending fan = { 2, { 1000, 1000 }, { 1, 2 }, { 0 } };
    const char *plain = "ideal:latency=1ms,bandwidth=1MB/s";
    check_times(plain, one, (int64_t[]){ 66536000 });
    check_times(plain, above, (int64_t[]){ 66537000 });
    const char *eager = "ideal:latency=1ms,bandwidth=1MB/s,eager=64KiB";
    check_times(eager, one, (int64_t[]){ 66536000 });
    check_times(eager, above, (int64_t[]){ 68537000 });
    check_times("ideal:latency=1ms,bandwidth=1MB/s,eager=64KiB,contention=yes", above,
                (int64_t[]){ 68537000 });
    check_times("ideal:latency=1ms,bandwidth=1MB/s,overhead=10us", one, (int64_t[]){ 66546000 });
    /* Messages of one connection follow each other; those of two do not wait for each other. */
    const char *stream = "ideal:latency=1ms,bandwidth=1MB/s,stream=500kB/s";
    check_times(stream, two, (int64_t[]){ 3000000, 5000000 });
    check_times(stream, fan, (int64_t[]){ 3000000, 3000000 });
    /* A connection that is faster than its ends changes nothing. */
    check_times("ideal:latency=1ms,bandwidth=1MB/s,stream=2MB/s", one, (int64_t[]){ 66536000 });
    /* One packet passes a message of another pair at both ends, and none of its own pair. */
    const sending pass = { 2, { 10000, 100 }, { 1, 2 }, { 0 } };
    const sending own = { 2, { 10000, 100 }, { 1, 1 }, { 0 } };
    const char *packets = "ideal:latency=1ms,bandwidth=1MB/s,contention=yes,packet=1kB";
    check_times("ideal:latency=1ms,bandwidth=1MB/s,contention=yes", pass,
                (int64_t[]){ 11000000, 11100000 });
    check_times(packets, pass, (int64_t[]){ 11000000, 1100000 });
    check_times(packets, own, (int64_t[]){ 11000000, 11000000 });
    /* With contention the ends take o + m G for each message. */
    check_times("ideal:latency=1ms,bandwidth=1MB/s,overhead=10us,contention=yes", fan,
                (int64_t[]){ 2010000, 3020000 });
}

#ifdef FAST_HAVE_YAML
/* Actor 0 sends to each other, which notes when it came. */
static fast_err spread(fast_actor *actor, void *ctx)
{
    tally *t = ctx;
    fast_msg *msg = NULL;
    for (int64_t to = 1; to < fast_actor_count(actor) && fast_actor_id(actor) == 0; to++) {
        FAST_TRY(fast_msg_new(actor, TAG, &msg));
        FAST_TRY(fast_send(actor, to, &msg));
    }
    if (fast_actor_id(actor) == 0)
        return FAST_OK;
    FAST_TRY(fast_receive(actor, 0, TAG, FAST_SOON, &msg));
    t->times[fast_actor_id(actor)] = fast_now(actor);
    fast_msg_free(msg);
    return FAST_OK;
}

static void test_links_of_zones_and_pairs(void **state)
{
    (void)state;
    static const char text[] = "nodes: {count: 4, zone: a, overrides: [{nodes: 2-3, zone: b}]}\n"
                               "links:\n"
                               "  latency: 1us\n"
                               "  contention: no\n"
                               "  local: {latency: 3ns}\n"
                               "  overrides:\n"
                               "    - {between: [a, b], latency: 1ms}\n"
                               "    - {from: 0, to: 3, latency: 7ms}\n"
                               "placement: {worker: [0, 1, 2, 3, 0]}\n";
    char path[] = "/tmp/fast_cluster_XXXXXX.yaml";
    tally t = { 0 };
    const int fd = mkstemps(path, 5);
    assert_true(fd >= 0);
    FILE *file = fdopen(fd, "w");
    assert_non_null(file);
    fputs(text, file);
    fclose(file);
    char option[64];
    snprintf(option, sizeof option, "cluster=%s", path);
    const fast_role role = { "worker", 5, spread, &t };
    const char *options[] = { "transport=sim", option, NULL };
    const fast_err err = fast_actors_run(options, &role, 1, NULL);
    remove(path);
    if (err)
        fail_msg("%s", fast_error_detail());
    assert_int_equal(t.times[1], 1000);
    assert_int_equal(t.times[2], 1000000);
    assert_int_equal(t.times[3], 7000000);
    assert_int_equal(t.times[4], 3); /* on the same node */
}
#endif

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_order_on_bad_links),
        cmocka_unit_test(test_unreliable_messages),
        cmocka_unit_test(test_duplicates_share_their_payload),
        cmocka_unit_test(test_terms_of_loggp),
#ifdef FAST_HAVE_YAML
        cmocka_unit_test(test_links_of_zones_and_pairs),
#endif
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
