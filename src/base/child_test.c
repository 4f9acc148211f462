/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Goal: a child's lines come back whole and in order, its end is told once and after them, it is
 * ended when asked, and nothing of it is left behind: no descriptor, no zombie, no process.
 * Method: small shell scripts; deadlines are long, and only those that are meant to pass are short.
 */
#include "base/child.h"
#include "base/clock.h"
#include "base/memory.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#define LONG_NS INT64_C(60000000000)

static int open_count(void)
{
    int count = 0;
    DIR *d = opendir("/proc/self/fd");

    assert_non_null(d);
    while (readdir(d))
        count++;
    closedir(d);
    return count;
}

static fast_child *start(const char *script, int64_t line_max)
{
    const char *const argv[] = { "sh", "-c", script, NULL };
    fast_child *child = NULL;

    assert_int_equal(
        fast__child_start(&(fast_child_options){ .argv = argv, .line_max = line_max }, &child),
        FAST_OK);
    return child;
}

static fast_child_event next(fast_child *child)
{
    fast_child_event event;
    int64_t which = -1;

    assert_int_equal(fast__child_next(&child, 1, LONG_NS, &which, &event), FAST_OK);
    assert_int_equal(which, 0);
    return event;
}

static void expect(fast_child *child, fast_child_kind kind, const char *line)
{
    const fast_child_event event = next(child);

    assert_int_equal(event.kind, kind);
    assert_string_equal(event.line, line);
}

static void expect_end(fast_child *child, int code, int number)
{
    const fast_child_event event = next(child);

    assert_int_equal(event.kind, FAST_CHILD_END);
    assert_int_equal(event.code, code);
    assert_int_equal(event.signal, number);
}

/* Lines of both streams, an empty one, one without a line feed, then the exit code, once. */
static void lines_and_end(void **state)
{
    (void)state;
    const int before = open_count();
    fast_child *child = start("echo one; echo; printf two; exit 3", 0);
    fast_child_event event;
    int64_t which = -1;

    assert_true(fast__child_pid(child) > 0);
    expect(child, FAST_CHILD_OUT, "one");
    expect(child, FAST_CHILD_OUT, "");
    expect(child, FAST_CHILD_OUT, "two");
    expect_end(child, 3, 0);
    assert_int_equal(fast__child_next(&child, 1, LONG_NS, &which, &event), FAST_EINVAL);
    fast__child_free(child);
    child = start("echo no >&2; cat; exit 0", 0); /* standard input is empty */
    expect(child, FAST_CHILD_ERR, "no");
    expect_end(child, 0, 0);
    fast__child_free(child);
    assert_int_equal(open_count(), before);
    assert_int_equal(waitpid(-1, NULL, WNOHANG), -1);
    assert_int_equal(errno, ECHILD);
}

/* Much more than a pipe holds, and every line is there. */
static void many_lines(void **state)
{
    (void)state;
    fast_child *child = start("i=0; while [ $i -lt 20000 ]; do echo \"line $i of many\"; "
                              "i=$((i+1)); done",
                              0);
    char line[64];

    for (int i = 0; i < 20000; i++) {
        snprintf(line, sizeof line, "line %d of many", i);
        expect(child, FAST_CHILD_OUT, line);
    }
    expect_end(child, 0, 0);
    fast__child_free(child);
}

/* A line that is too long is cut and said to be; the next one is whole. Around the limit too. */
static void long_lines(void **state)
{
    (void)state;
    for (int length = 7; length <= 9; length++) {
        char script[128];
        snprintf(script, sizeof script, "echo %.*s; echo after", length, "abcdefghijkl");
        fast_child *child = start(script, 8);
        fast_child_event event = next(child);

        assert_int_equal(event.cut, length > 8);
        assert_int_equal(strlen(event.line), length > 8 ? 8 : length);
        expect(child, FAST_CHILD_OUT, "after");
        expect_end(child, 0, 0);
        fast__child_free(child);
    }
    fast_child *child = start("head -c 300000 /dev/zero | tr '\\0' x; echo; echo after", 100000);
    fast_child_event event = next(child);
    assert_true(event.cut);
    assert_int_equal(strlen(event.line), 100000);
    expect(child, FAST_CHILD_OUT, "after");
    expect_end(child, 0, 0);
    fast__child_free(child);
    child = start("head -c 300000 /dev/zero | tr '\\0' x", 0); /* no line feed at all */
    event = next(child);
    assert_false(event.cut);
    assert_int_equal(strlen(event.line), 300000);
    expect_end(child, 0, 0);
    fast__child_free(child);
}

/* Several at once: each one's lines come in its order, whoever is first. */
static void several(void **state)
{
    (void)state;
    fast_child *children[4] = { start("echo 0; echo 1; echo 2", 0), NULL,
                                start("echo 0; echo 1; echo 2 >&2", 0), start("kill -9 $$", 0) };
    int lines[4] = { 0 };
    int64_t which = -1;

    for (int ends = 0; ends < 3;) {
        fast_child_event event;
        assert_int_equal(fast__child_next(children, 4, LONG_NS, &which, &event), FAST_OK);
        assert_true(which == 0 || which == 2 || which == 3);
        if (event.kind == FAST_CHILD_END) {
            assert_int_equal(event.signal, which == 3 ? SIGKILL : 0);
            assert_int_equal(event.code, which == 3 ? -1 : 0);
            ends++;
        } else {
            lines[which]++;
        }
    }
    assert_int_equal(lines[0], 3);
    assert_int_equal(lines[2], 3);
    for (int i = 0; i < 4; i++)
        fast__child_free(children[i]);
}

/* A deadline passes; SIGTERM ends it, and what ignores that is killed, with what it started. */
static void stops(void **state)
{
    (void)state;
    fast_child *child = start("echo ready; exec sleep 600", 0);
    fast_child_event event;
    int64_t which = -1;

    expect(child, FAST_CHILD_OUT, "ready");
    assert_int_equal(fast__child_next(&child, 1, 1000000, &which, &event), FAST_ETIMEDOUT);
    fast__child_terminate(child);
    expect_end(child, -1, SIGTERM);
    fast__child_terminate(child); /* too late, and harmless */
    fast__child_stop(child, 0);
    fast__child_free(child);

    child = start("trap '' TERM; sleep 600 & echo $!; wait", 0);
    event = next(child);
    const pid_t grandchild = (pid_t)strtol(event.line, NULL, 10);
    assert_true(grandchild > 0);
    fast__child_stop(child, 1000000);
    fast__child_free(child);
    /* An orphan goes when init reaps it; a zombie that nobody reaps has ended too. */
    const int64_t until = fast__clock_ns() + LONG_NS;
    for (bool runs = true; runs;) {
        char path[64], state_letter = 'Z';
        snprintf(path, sizeof path, "/proc/%d/stat", (int)grandchild);
        FILE *file = fopen(path, "r");
        if (file) {
            if (fscanf(file, "%*d (%*[^)]) %c", &state_letter) != 1)
                state_letter = 'Z';
            fclose(file);
        }
        runs = file && state_letter != 'Z' && state_letter != 'X';
        assert_true(fast__clock_ns() < until);
    }
}

/* A grandchild that keeps the pipes open does not hide the child's end. */
static void pipe_stays_open(void **state)
{
    (void)state;
    fast_child *child = start("sleep 600 & echo $!; exit 5", 0);
    const fast_child_event event = next(child);
    const pid_t grandchild = (pid_t)strtol(event.line, NULL, 10);

    expect_end(child, 5, 0);
    fast__child_free(child);
    kill(grandchild, SIGKILL);
}

/* Freed while it runs: killed and reaped. */
static void freed(void **state)
{
    (void)state;
    const int before = open_count();
    fast_child *child = start("sleep 600", 0);
    const pid_t pid = (pid_t)fast__child_pid(child);

    fast__child_free(child);
    fast__child_free(NULL);
    assert_int_equal(kill(pid, 0), -1);
    assert_int_equal(errno, ESRCH);
    assert_int_equal(open_count(), before);
}

/* The child has the three descriptors and no other, even one that is not closed at exec. */
static void no_leaks(void **state)
{
    (void)state;
    const int leak = open("/dev/null", O_RDONLY);
    fast_child *child = start("for f in /proc/$$/fd/*; do case ${f##*/} in 0|1|2|10) ;; "
                              "*) test -e \"$f\" && echo \"open ${f##*/}\";; esac; done; echo end",
                              0);

    assert_true(leak > 2);
    expect(child, FAST_CHILD_OUT, "end");
    expect_end(child, 0, 0);
    fast__child_free(child);
    close(leak);
}

static void no_program(void **state)
{
    (void)state;
    const int before = open_count();
    const char *const none[] = { "/nowhere/fast-program", NULL };
    const char *const folder[] = { "/", NULL };
    fast_child *child = NULL;

    assert_int_equal(fast__child_start(&(fast_child_options){ .argv = none }, &child), FAST_ENOENT);
    assert_non_null(strstr(fast_error_detail(), "/nowhere/fast-program"));
    assert_int_equal(fast__child_start(&(fast_child_options){ .argv = folder }, &child), FAST_EIO);
    assert_null(child);
    assert_int_equal(open_count(), before);
}

/* No memory: for the child, and for its lines. */
static void no_memory(void **state)
{
    (void)state;
    const int before = open_count();
    const char *const argv[] = { "echo", "line", NULL };

    for (int64_t n = 0; n < 2; n++) {
        fast_child *child = NULL;
        fast_child_event event;
        int64_t which = -1;

        fast__alloc_fail_after(n, true);
        fast_err err = fast__child_start(&(fast_child_options){ .argv = argv }, &child);
        assert_int_equal(err, n == 0 ? FAST_ENOMEM : FAST_OK);
        if (n == 1)
            assert_int_equal(fast__child_next(&child, 1, LONG_NS, &which, &event), FAST_ENOMEM);
        fast__alloc_fail_after(-1, true);
        fast__child_free(child);
    }
    assert_int_equal(open_count(), before);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lines_and_end), cmocka_unit_test(many_lines),
        cmocka_unit_test(long_lines),    cmocka_unit_test(several),
        cmocka_unit_test(stops),         cmocka_unit_test(pipe_stays_open),
        cmocka_unit_test(freed),         cmocka_unit_test(no_leaks),
        cmocka_unit_test(no_program),    cmocka_unit_test(no_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
