/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Goal: files are read within bounds, and replaced whole or not at all.
 * Method: a fresh folder; writers that fail, a disk that is full (a limit on the size of files
 * stands in for it), memory that is not there; afterwards the old file and nothing else is left.
 */
#include "base/clock.h"
#include "base/file.h"
#include "base/memory.h"
#include "base/thread.h"

#include <dirent.h>
#include <fcntl.h>
#include <limits.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

static char folder[64];

static const char *inside(const char *name)
{
    static char path[256];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    return path;
}

static int set_up(void **state)
{
    (void)state;
    snprintf(folder, sizeof folder, "%s/fast_file_XXXXXX",
             getenv("TMPDIR") ? getenv("TMPDIR") : "/tmp");
    return mkdtemp(folder) ? 0 : 1;
}

static int count_entries(void)
{
    int count = 0;
    DIR *d = opendir(folder);
    assert_non_null(d);
    for (struct dirent *e = readdir(d); e; e = readdir(d))
        count += e->d_name[0] != '.';
    closedir(d);
    return count;
}

static int tear_down(void **state)
{
    (void)state;
    char command[128];
    snprintf(command, sizeof command, "rm -rf '%s'", folder);
    return system(command);
}

/* Write `size` bytes of `letter` in pieces, then fail with `err` if it is not FAST_OK. */
typedef struct letters {
    char letter;
    size_t size;
    size_t piece;
    fast_err err;
} letters;

static fast_err put_letters(void *ctx, void *stream)
{
    const letters *l = ctx;
    char *piece;
    FAST_TRY(fast__alloc("letters", (int64_t)l->piece, 1, &piece));
    memset(piece, l->letter, l->piece);
    fast_err err = FAST_OK;
    for (size_t done = 0; !err && done < l->size;) {
        const size_t size = l->size - done < l->piece ? l->size - done : l->piece;
        err = fast__file_put(stream, piece, size);
        done += size;
    }
    fast__free(piece);
    if (!err && l->err)
        err = fast__fail(l->err, "the writer failed");
    return err;
}

static void expect_letters(const char *path, char letter, size_t size)
{
    char *bytes = NULL;
    size_t got = 0;
    assert_int_equal(fast__file_read(path, size, &bytes, &got), FAST_OK);
    assert_int_equal(got, size);
    for (size_t i = 0; i < size; i++)
        assert_int_equal(bytes[i], letter);
    assert_int_equal(bytes[size], 0);
    fast__free(bytes);
}

static void test_round_trip(void **state)
{
    (void)state;
    static const letters cases[] = { { 'a', 0, 1, 0 },          { 'b', 1, 1, 0 },
                                     { 'c', 70000, 3, 0 },      { 'd', 65536, 65536, 0 },
                                     { 'e', 300000, 65537, 0 }, { 'f', 200000, 40000, 0 } };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        letters l = cases[i];
        assert_int_equal(fast__file_replace(inside("file"), put_letters, &l), FAST_OK);
        expect_letters(inside("file"), l.letter, l.size);
    }
    assert_int_equal(count_entries(), 1);
}

static void test_read_refuses(void **state)
{
    (void)state;
    char *bytes = NULL;
    size_t size = 7;
    letters l = { 'a', 100, 100, 0 };
    assert_int_equal(fast__file_replace(inside("hundred"), put_letters, &l), FAST_OK);
    assert_int_equal(fast__file_read(inside("hundred"), 99, &bytes, &size), FAST_EFORMAT);
    assert_int_equal(fast__file_read(inside("none"), 99, &bytes, &size), FAST_ENOENT);
    assert_int_equal(fast__file_read(inside("hundred/x"), 99, &bytes, &size), FAST_ENOENT);
    assert_int_equal(fast__file_read(folder, 99, &bytes, &size), FAST_EFORMAT);
    assert_int_equal(mkfifo(inside("pipe"), 0600), 0);
    assert_int_equal(fast__file_read(inside("pipe"), 99, &bytes, &size), FAST_EFORMAT);
    assert_int_equal(fast__file_read("/dev/zero", 99, &bytes, &size), FAST_EFORMAT);
    assert_null(bytes);
    assert_int_equal(size, 7);
    unlink(inside("pipe"));
    assert_int_equal(fast__file_read(inside("hundred"), 100, &bytes, NULL), FAST_OK);
    fast__free(bytes);
    unlink(inside("hundred"));
}

static void test_failed_writer(void **state)
{
    (void)state;
    letters old = { 'o', 1000, 10, 0 };
    assert_int_equal(fast__file_replace(inside("file"), put_letters, &old), FAST_OK);
    const int before = count_entries();
    letters failing = { 'n', 200000, 100, FAST_EPEER };
    assert_int_equal(fast__file_replace(inside("file"), put_letters, &failing), FAST_EPEER);
    assert_string_equal(fast_error_detail(), "the writer failed");
    expect_letters(inside("file"), 'o', 1000);
    assert_int_equal(count_entries(), before);
}

static void test_full_disk(void **state)
{
    (void)state;
    letters old = { 'o', 1000, 10, 0 };
    assert_int_equal(fast__file_replace(inside("file"), put_letters, &old), FAST_OK);
    const int before = count_entries();
    struct rlimit limit, small;
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &limit), 0);
    small = limit;
    small.rlim_cur = 100000;
    signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
    letters large = { 'n', 200000, 1000, 0 };
    const fast_err err = fast__file_replace(inside("file"), put_letters, &large);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
    assert_int_equal(err, FAST_EIO);
    expect_letters(inside("file"), 'o', 1000);
    assert_int_equal(count_entries(), before);
}

static void test_replace_refuses(void **state)
{
    (void)state;
    letters l = { 'a', 10, 10, 0 };
    /* A pipe of our own stands for devices: a broken check must not cost the machine one. */
    struct stat info;
    assert_int_equal(mkfifo(inside("pipe"), 0600), 0);
    assert_int_equal(fast__file_replace(inside("pipe"), put_letters, &l), FAST_EINVAL);
    assert_int_equal(stat(inside("pipe"), &info), 0);
    assert_true(S_ISFIFO(info.st_mode));
    unlink(inside("pipe"));
    assert_int_equal(fast__file_replace(folder, put_letters, &l), FAST_EINVAL);
    assert_int_equal(fast__file_replace(inside("none/file"), put_letters, &l), FAST_ENOENT);
    char longest[5000];
    memset(longest, 'x', sizeof longest);
    longest[sizeof longest - 1] = 0;
    assert_true(fast__file_replace(longest, put_letters, &l) != FAST_OK);
}

static void test_out_of_memory(void **state)
{
    (void)state;
    letters l = { 'm', 100000, 100, 0 };
    assert_int_equal(fast__file_replace(inside("file"), put_letters, &l), FAST_OK);
    const int before = count_entries();
    for (int64_t n = 0;; n++) {
        fast__alloc_fail_after(n, true);
        const fast_err err = fast__file_replace(inside("file"), put_letters, &l);
        fast__alloc_fail_after(-1, true);
        assert_int_equal(count_entries(), before);
        if (!err) {
            assert_int_equal(n, 2);
            break;
        }
        assert_int_equal(err, FAST_ENOMEM);
    }
    char *bytes = NULL;
    fast__alloc_fail_after(0, true);
    assert_int_equal(fast__file_read(inside("file"), 100000, &bytes, NULL), FAST_ENOMEM);
    fast__alloc_fail_after(-1, true);
    assert_null(bytes);
}

static void test_folders(void **state)
{
    (void)state;
    char deep[256];
    snprintf(deep, sizeof deep, "%s/a/b//c/", folder);
    assert_int_equal(fast__file_make_folder(deep), FAST_OK);
    assert_int_equal(fast__file_make_folder(deep), FAST_OK);
    assert_int_equal(fast__file_make_folder("/"), FAST_OK);
    assert_int_equal(fast__file_make_folder("."), FAST_OK);
    assert_int_equal(fast__file_make_folder(""), FAST_EINVAL);
    struct stat info;
    assert_int_equal(stat(inside("a/b/c"), &info), 0);
    letters l = { 'a', 10, 10, 0 };
    assert_int_equal(fast__file_replace(inside("a/file"), put_letters, &l), FAST_OK);
    assert_int_equal(fast__file_make_folder(inside("a/file/b")), FAST_EIO);
}

static void test_cache_folder(void **state)
{
    (void)state;
    char path[64];
    setenv("FAST_HOME", "/somewhere", 1);
    setenv("XDG_CACHE_HOME", "/cache", 1);
    setenv("HOME", "/home/a", 1);
    assert_int_equal(fast__file_cache_folder(path, sizeof path), FAST_OK);
    assert_string_equal(path, "/somewhere");
    assert_int_equal(fast__file_cache_folder(path, 5), FAST_EINVAL);
    setenv("FAST_HOME", "", 1);
    assert_int_equal(fast__file_cache_folder(path, sizeof path), FAST_OK);
    assert_string_equal(path, "/cache/fast");
    setenv("XDG_CACHE_HOME", "relative", 1); /* to be ignored, says its specification */
    assert_int_equal(fast__file_cache_folder(path, sizeof path), FAST_OK);
    assert_string_equal(path, "/home/a/.cache/fast");
    unsetenv("HOME");
    assert_int_equal(fast__file_cache_folder(path, sizeof path), FAST_ENOENT);
}

/* The clock and threads are too small for files of their own. */

static void *note_signals(void *ctx)
{
    sigset_t mask;
    pthread_sigmask(SIG_SETMASK, NULL, &mask);
    *(int *)ctx = sigismember(&mask, SIGINT) + 2 * sigismember(&mask, SIGTERM);
    return NULL;
}

static void test_thread_and_clock(void **state)
{
    (void)state;
    int blocked = 0;
    fast_thread thread;
    const int64_t start = fast__clock_ns();
    assert_int_equal(fast__thread_start(&thread, note_signals, &blocked), FAST_OK);
    fast__thread_join(&thread);
    assert_int_equal(blocked, 3); /* signals go to the program's threads */
    assert_true(fast__clock_ns() > start);
    sigset_t mask;
    pthread_sigmask(SIG_SETMASK, NULL, &mask);
    assert_int_equal(sigismember(&mask, SIGINT), 0);
}

/* Make an empty file and return its descriptor. */
static int touch(const char *name)
{
    const int fd = open(inside(name), O_WRONLY | O_CREAT, 0666);
    assert_true(fd >= 0);
    return fd;
}

/* A killed process's temporary file goes, whatever its number is used for now; a file that is being
 * written stays, on any machine, and so does everything like it. */
static void test_sweeps(void **state)
{
    (void)state;
    char left[64], reused[64], written[64];
    snprintf(left, sizeof left, "s.%d.0.tmp", INT_MAX);
    snprintf(reused, sizeof reused, "s.%ld.0.tmp", (long)getpid());
    snprintf(written, sizeof written, "s.%d.1.tmp", INT_MAX);
    const char *const names[] = { left, reused, "s.tmp", "s.x.0.tmp", "other.1.0.tmp" };
    const int count = (int)(sizeof names / sizeof names[0]);
    for (int i = 0; i < count; i++)
        close(touch(names[i]));
    const int writer = touch(written);
    assert_int_equal(flock(writer, LOCK_EX), 0);
    letters l = { .letter = 'n', .size = 3, .piece = 3 };
    const int before = count_entries();
    assert_int_equal(fast__file_replace(inside("s"), put_letters, &l), FAST_OK);
    assert_int_equal(count_entries(), before - 1); /* two went, one came */
    for (int i = 0; i < count; i++)
        assert_int_equal(access(inside(names[i]), F_OK) == 0, i >= 2);
    assert_int_equal(access(inside(written), F_OK), 0);
    close(writer); /* as the system does when a process dies */
    fast__file_sweep(inside("s"));
    assert_int_not_equal(access(inside(written), F_OK), 0);
    for (int i = 2; i < count; i++)
        unlink(inside(names[i]));
    unlink(inside("s"));
}

/* Another process that sweeps all the time removes no file that is being replaced. */
static void test_sweeps_beside_a_writer(void **state)
{
    letters l = { .letter = 'x', .size = 10, .piece = 10 };
    fast_err err = FAST_OK;

    (void)state;
    const pid_t child = fork();
    assert_true(child >= 0);
    while (child == 0)
        fast__file_sweep(inside("beside"));
    for (int i = 0; i < 300 && !err; i++)
        err = fast__file_replace(inside("beside"), put_letters, &l);
    kill(child, SIGKILL);
    waitpid(child, NULL, 0);
    unlink(inside("beside"));
    if (err)
        fail_msg("%s", fast_error_detail());
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_sweeps),           cmocka_unit_test(test_sweeps_beside_a_writer),
        cmocka_unit_test(test_round_trip),       cmocka_unit_test(test_read_refuses),
        cmocka_unit_test(test_failed_writer),    cmocka_unit_test(test_full_disk),
        cmocka_unit_test(test_replace_refuses),  cmocka_unit_test(test_out_of_memory),
        cmocka_unit_test(test_folders),          cmocka_unit_test(test_cache_folder),
        cmocka_unit_test(test_thread_and_clock),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
