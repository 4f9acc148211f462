/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Goal: the timeline of a simulated run with faults is valid, its times are those of the virtual
 * clock, its spans nest although a clock jumps back and a node restarts, and the faults are on it.
 * Method: a ring of actors under a schedule of faults; the checker of timelines reads the file.
 */
#include "fast/comm.h"
#include "fast/run.h"

#include "base/err.h"
#include "base/file.h"
#include "base/memory.h"
#include "trace.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

/* Send to the next and wait a little for the one before, whatever happens. */
static fast_err ring_main(fast_actor *actor, void *ctx)
{
    const int64_t count = fast_actor_count(actor), id = fast_actor_id(actor);
    (void)ctx;
    for (int64_t i = 0; i < 50; i++) {
        fast_msg *msg = NULL;
        FAST_TRY(fast_msg_new(actor, 1, &msg));
        fast_err err = fast_send(actor, (id + 1) % count, &msg);
        if (err == FAST_ECANCELED)
            return err;
        FAST_TRY(fast_charge(actor, 1e5, 1e5));
        err = fast_receive(actor, (id + count - 1) % count, 1, fast_now(actor) + 100000, &msg);
        if (err == FAST_ECANCELED)
            return err;
        if (!err)
            fast_msg_free(msg);
    }
    return FAST_OK;
}

static void run(const char *faults, int64_t instants, const char *said)
{
    char path[64], trace[80], schedule[200], why[256];
    trace_summary summary;
    char *text = NULL;
    size_t size = 0;
    snprintf(path, sizeof path, "fault_trace_test.%d.json", (int)getpid());
    snprintf(trace, sizeof trace, "trace=%s", path);
    snprintf(schedule, sizeof schedule, "faults=%s", faults);
    const char *options[] = { "transport=sim", trace, schedule, "check=yes", NULL };
    const fast_role role = { "worker", 4, ring_main, NULL };
    const fast_err err = fast_actors_run(options, &role, 1, NULL);
    if (err && err != FAST_ECANCELED)
        fail_msg("%s: %s", faults, fast_error_detail());
    if (!trace_check(path, &summary, why))
        fail_msg("%s: %s", faults, why);
    assert_int_equal(fast__file_read(path, 1 << 26, &text, &size), FAST_OK);
    unlink(path);
    if (summary.instants != instants || !strstr(text, said))
        fail_msg("%s: %lld instants, and %s", faults, (long long)summary.instants, said);
    assert_true(summary.spans > 200);
    fast__free(text);
}

static void test_faults(void **state)
{
    (void)state;
    run("pause 1 at 1ms for 1ms", 2, "\"name\":\"pause ends\"");
    run("jump 2 at 1ms by -900us", 1, "\"name\":\"jump\"");
    run("crash 3 at 1ms; restart 3 at 2ms", 2, "\"name\":\"restart\"");
    run("partition 0,1|2,3 at 500us for 500us", 8, "\"name\":\"partition ends\"");
}

/* A worker that hangs or crashes has a mark in its own row, once, at the time it was found out. */
static void test_lost(void **state)
{
    static const char *const cases[][2] = { { "faults=pause 2 at 1ms for 100000s",
                                              "does not answer" },
                                            { "faults=crash 2 at 1ms", "is lost" } };
    char path[64], trace[80], why[256];
    trace_summary summary;

    (void)state;
    snprintf(path, sizeof path, "fault_trace_test.%d.json", (int)getpid());
    snprintf(trace, sizeof trace, "trace=%s", path);
    for (int i = 0; i < 2; i++) {
        const char *options[] = { "engine=ref",
                                  "model=mlp:hidden=8",
                                  "data=digits:train=64,test=16",
                                  "batch=8",
                                  "plan=no",
                                  "workers=4",
                                  "steps=200",
                                  "strategy=gossip_async:how=pull,p=0.5",
                                  "transport=sim",
                                  i == 0 ? "cluster=ethernet-10g:detection=1000000s"
                                         : "cluster=ethernet-10g",
                                  "timeout=0.5",
                                  cases[i][0],
                                  trace,
                                  NULL };
        fast_run *run = NULL;
        char *text = NULL;
        size_t size = 0;

        if (fast_run_open(options, &run) || fast_run_train(run))
            fail_msg("%s", fast_error_detail());
        fast_run_close(run);
        if (!trace_check(path, &summary, why))
            fail_msg("%s: %s", cases[i][0], why);
        assert_int_equal(fast__file_read(path, 1 << 26, &text, &size), FAST_OK);
        unlink(path);
        const char *at = strstr(text, cases[i][1]);
        assert_non_null(at);
        const char *line = at;
        while (line > text && line[-1] != '\n')
            line--;
        const char *tid = strstr(line, "\"tid\":2");
        if (!tid || tid > strchr(line, '\n') || strstr(at + 1, cases[i][1]))
            fail_msg("%s: %.200s", cases[i][0], line);
        fast__free(text);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(test_faults),
                                        cmocka_unit_test(test_lost) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
