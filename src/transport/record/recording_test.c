/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Goal: a recorded program of actors sees the same messages, clocks and lock order in a replay;
 * what does not belong to it, is damaged or is not followed is refused in one sentence. Method: a
 * program that receives from anyone, polls, sleeps and adds to shared memory writes down what it
 * saw; every byte of a small recording is changed once, and every length cut off.
 */
#include "transport/record/recording.h"
#include "transport/record/replay.h"

#include "base/file.h"
#include "base/memory.h"
#include "transport/transport.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

enum { ACTORS = 4, ROUNDS = 30, SEEN = 4096, KEY = 77 };

/* Events that the actors saw, in their order. */
typedef struct seen {
    int64_t values[ACTORS][SEEN];
    int64_t counts[ACTORS];
    int64_t rounds; /* of each */
} seen;

static char path[64];
static const char *timeout = "timeout=60";

static void see(seen *s, int64_t id, int64_t value)
{
    assert_true(s->counts[id] < SEEN);
    s->values[id][s->counts[id]++] = value;
}

/* Everyone sends to everyone, takes what comes, and changes a number so that the order shows. */
static fast_err talk(fast_actor *actor, void *ctx)
{
    seen *s = ctx;
    const int64_t me = fast_actor_id(actor), count = fast_actor_count(actor);
    int64_t *shared = NULL;
    fast_msg *msg = NULL;

    FAST_TRY(fast_actor_share(actor, KEY, sizeof *shared, &shared));
    for (int64_t i = 0; i < s->rounds; i++) {
        for (int64_t to = 0; to < count; to++) {
            FAST_TRY(fast_msg_new(actor, 5, &msg));
            msg->words[0] = i;
            const fast_err err = fast_send(actor, to, &msg);
            see(s, me, err); /* who has ended is down, once this actor has heard of it */
        }
        fast_critical_begin(actor, KEY);
        *shared = (*shared * 3 + me) % 1000003;
        see(s, me, *shared);
        fast_critical_end(actor);
        while (fast_receive(actor, FAST_ANY, 5, FAST_AT_ONCE, &msg) == FAST_OK) {
            see(s, me, msg->from * 1000 + msg->words[0]);
            fast_msg_free(msg);
        }
        see(s, me, fast_now(actor));
        FAST_TRY(fast_sleep_until(actor, fast_now(actor) + 20000));
        see(s, me, fast__record_value(actor, i));
    }
    fast_member member;
    while (fast_member_next(actor, &member))
        see(s, me, member.id + (member.down ? 100 : 0));
    return FAST_OK;
}

static fast_err run(const char *option, const char *more, seen *s, fast_actor_fn *program)
{
    char text[96];
    const char *options[] = { "transport=threads", text, timeout, more, NULL };
    const fast_role roles[] = { { "worker", ACTORS, program, s } };

    memset(s->counts, 0, sizeof s->counts);
    if (s->rounds == 0)
        s->rounds = ROUNDS;
    snprintf(text, sizeof text, "%s=%s", option, path);
    return fast_actors_run(options, roles, 1, NULL);
}

static seen first, again;

static void repeats(void **state)
{
    (void)state;
    assert_int_equal(run("record", NULL, &first, talk), FAST_OK);
    for (int i = 0; i < 5; i++) {
        if (run("replay", NULL, &again, talk))
            fail_msg("%s", fast_error_detail());
        assert_memory_equal(first.counts, again.counts, sizeof first.counts);
        for (int64_t id = 0; id < ACTORS; id++)
            assert_memory_equal(first.values[id], again.values[id],
                                (size_t)first.counts[id] * sizeof first.values[id][0]);
    }
    assert_int_equal(unlink(path), 0);
}

/* Another program than the recorded one. */
static fast_err silent(fast_actor *actor, void *ctx)
{
    (void)ctx;
    return fast_actor_id(actor) == 0 ? FAST_OK : talk(actor, ctx);
}

static void other_programs(void **state)
{
    (void)state;
    timeout = "timeout=1"; /* after which it is known that something does not come */
    assert_int_equal(run("record", NULL, &first, talk), FAST_OK);
    assert_int_equal(run("replay", NULL, &again, silent), FAST_EINVAL);
    assert_non_null(strstr(fast_error_detail(), "does not follow its recording"));
    again.rounds = ROUNDS + 1;
    assert_int_equal(run("replay", NULL, &again, talk), FAST_EINVAL);
    assert_non_null(strstr(fast_error_detail(), "does not follow its recording"));
    again.rounds = ROUNDS - 1;
    assert_int_equal(run("replay", NULL, &again, talk), FAST_EINVAL);
    again.rounds = ROUNDS;
    assert_int_equal(run("replay", "seed=9", &again, talk), FAST_EINVAL);
    assert_non_null(strstr(fast_error_detail(), "with seed=1, and this one has seed=9"));
    assert_int_equal(run("replay", "check=yes", &again, talk), FAST_EINVAL);
    assert_int_equal(unlink(path), 0);
    assert_int_equal(run("replay", NULL, &again, talk), FAST_ENOENT);
    timeout = "timeout=60";
    snprintf(path, sizeof path, "no/such/folder/record");
    assert_int_equal(run("record", NULL, &again, talk), FAST_EIO);
    snprintf(path, sizeof path, "record_unit_test.%d.rec", (int)getpid());
}

/* Parse `size` bytes of a recording. */
static fast_err parse(const unsigned char *bytes, size_t size)
{
    fast_recording recording = { 0 };
    unsigned char *copy = NULL;

    assert_int_equal(fast__alloc("a copy", (int64_t)size, 1, &copy), FAST_OK);
    memcpy(copy, bytes, size);
    const fast_err err = fast__recording_parse("copy", copy, size, &recording);
    if (!err)
        fast__recording_fini(&recording);
    return err;
}

static void damage(void **state)
{
    unsigned char *bytes = NULL;
    size_t size = 0;

    (void)state;
    first.rounds = 2;
    assert_int_equal(run("record", NULL, &first, talk), FAST_OK);
    first.rounds = ROUNDS;
    assert_int_equal(fast__file_read(path, FAST_RECORDING_MAX, &bytes, &size), FAST_OK);
    assert_int_equal(parse(bytes, size), FAST_OK);
    for (size_t i = 0; i < size; i++) {
        assert_int_equal(parse(bytes, i), FAST_EFORMAT);
        bytes[i] ^= 4;
        assert_int_equal(parse(bytes, size), FAST_EFORMAT);
        bytes[i] ^= 4;
    }
    for (int64_t n = 0;; n++) {
        unsigned char *copy = NULL;
        fast_recording recording = { 0 };

        assert_int_equal(fast__alloc("a copy", (int64_t)size, 1, &copy), FAST_OK);
        memcpy(copy, bytes, size);
        fast__alloc_fail_after(n, true);
        const fast_err err = fast__recording_parse("copy", copy, size, &recording);
        fast__alloc_fail_after(-1, false);
        if (!err) {
            fast__recording_fini(&recording);
            assert_true(n > 3);
            break;
        }
        assert_int_equal(err, FAST_ENOMEM);
    }
    fast__free(bytes);
    assert_int_equal(unlink(path), 0);
}

/* Files with correct checksums and forged traces: actor, kind and value of each event. */
static void hostile(void **state)
{
    static const struct {
        fast_err err;
        int64_t events[3][3]; /* kind FAST_TRACE_KINDS: none */
    } all[] = {
        { FAST_OK, { { 0, FAST_TRACE_LOCK, 0 }, { 1, FAST_TRACE_LOCK, 16 }, { 0, 4, 9 } } },
        { FAST_EFORMAT, { { 0, FAST_TRACE_LOCK, 0 }, { 1, FAST_TRACE_LOCK, 0 }, { 0, 4, 9 } } },
        { FAST_EFORMAT, { { 0, FAST_TRACE_LOCK, 16 }, { 0, 4, 9 }, { 0, 4, 9 } } },
        { FAST_EFORMAT, { { 0, FAST_TRACE_LOCK, INT64_MAX }, { 0, 4, 9 }, { 0, 4, 9 } } },
        { FAST_EFORMAT, { { 0, FAST_TRACE_NOW, 1 }, { 0, 4, 9 }, { 0, 4, 9 } } },
        { FAST_EFORMAT, { { 0, FAST_TRACE_NOW, INT64_MAX }, { 0, 4, 9 }, { 0, 4, 9 } } },
        { FAST_EFORMAT, { { 0, FAST_TRACE_DELIVER, 2 }, { 0, 4, 9 }, { 0, 4, 9 } } },
        { FAST_EFORMAT, { { 0, FAST_TRACE_WAIT, 2 }, { 0, 4, 9 }, { 0, 4, 9 } } },
        { FAST_EFORMAT, { { 0, FAST_TRACE_KINDS, 0 }, { 0, 4, 9 }, { 0, 4, 9 } } },
    };

    (void)state;
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
        static fast_recording_writer file;
        unsigned char event[FAST_TRACE_EVENT_MAX], *bytes = NULL;
        size_t size = 0;

        assert_int_equal(fast__recording_create(&file, path, 2, "seed=1\n"), FAST_OK);
        for (int k = 0; k < 3; k++) {
            const int64_t *e = all[i].events[k];
            fast__recording_append(&file, e[0], event,
                                   fast__trace_put(event, (fast_trace_kind)e[1], (uint64_t)e[2]));
        }
        fast__recording_finish(&file);
        fast__recording_discard(&file);
        assert_int_equal(fast__file_read(path, FAST_RECORDING_MAX, &bytes, &size), FAST_OK);
        assert_int_equal(parse(bytes, size), all[i].err);
        fast__free(bytes);
    }
    assert_int_equal(unlink(path), 0);
}

static void events(void **state)
{
    static const uint64_t values[] = {
        0, 1, 15, 16, 2047, 2048, UINT32_MAX, INT64_MAX, UINT64_MAX
    };
    unsigned char bytes[FAST_TRACE_EVENT_MAX];

    (void)state;
    for (int kind = 0; kind < FAST_TRACE_KINDS; kind++)
        for (size_t i = 0; i < sizeof values / sizeof values[0]; i++) {
            const size_t size = fast__trace_put(bytes, (fast_trace_kind)kind, values[i]);
            fast_trace_reader reader = { bytes, bytes + size, -1 };
            fast_trace_event event;

            assert_true(size <= FAST_TRACE_EVENT_MAX);
            assert_true(fast__trace_read(NULL, &reader, &event));
            assert_int_equal(event.kind, kind);
            assert_true(event.value == values[i]);
            reader = (fast_trace_reader){ bytes, bytes + size - 1, -1 };
            if (size > 1)
                assert_false(fast__trace_read(NULL, &reader, &event));
        }
    for (int64_t i = -3; i <= 3; i++)
        assert_true(fast__trace_unfold(fast__trace_fold(i)) == i);
    assert_true(fast__trace_unfold(fast__trace_fold(INT64_MIN)) == INT64_MIN);
}

/* Without memory a world is not opened, and nothing is left behind. */
static void no_memory(void **state)
{
    (void)state;
    for (int64_t n = 0; n < 200; n++) {
        fast__alloc_fail_after(n, true);
        const fast_err err = run("record", NULL, &first, talk);
        fast__alloc_fail_after(-1, false);
        if (!err)
            break;
        assert_int_equal(err, FAST_ENOMEM);
        assert_int_not_equal(access(path, F_OK), 0);
    }
    assert_int_equal(unlink(path), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(repeats), cmocka_unit_test(other_programs), cmocka_unit_test(damage),
        cmocka_unit_test(hostile), cmocka_unit_test(events),         cmocka_unit_test(no_memory),
    };

    snprintf(path, sizeof path, "record_unit_test.%d.rec", (int)getpid());
    return cmocka_run_group_tests(tests, NULL, NULL);
}
