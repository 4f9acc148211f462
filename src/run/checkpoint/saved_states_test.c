/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Goal: the residuals of codecs are part of a checkpoint, so that a resumed run ends with
 * the bits of the one that was not interrupted; and codecs that change during a run do so there as
 * well. Method: a run keeps a copy of its checkpoint of step 5, and continues; another one resumes
 * the copy. Codecs with error feedback, with vectors of their own and with both directions; sums
 * by rounds, by entries, in slices; in sim and on threads; a cancel; two phases; damage.
 */
#include "base/hash.h"
#include "base/memory.h"
#include "fast/run.h"
#include "small_run.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

enum { CUT = 5, OPTIONS_MAX = 24, PATH_MAX_HERE = 256 };

#ifdef FAST_SANITIZED
enum { BRIEF = 1 };
#else
enum { BRIEF = 0 };
#endif

static char folder[] = "saved_test.XXXXXX";

/* Task of a watcher of a run. */
typedef struct watcher {
    fast_run *run;
    const char *copy;   /* a copy of the checkpoint of step `at` goes here; NULL: none */
    int64_t at;         /* that step */
    bool cancel;        /* and the run is canceled there */
    int64_t saved_step; /* of the last file */
} watcher;

static void watch(void *ctx, const fast_event *event)
{
    watcher *w = ctx;

    if (event->kind != FAST_EVENT_SAVE)
        return;
    w->saved_step = event->step;
    if (event->step == w->at && w->copy)
        test_copy_file(event->text, w->copy);
    if (event->step == w->at && w->cancel)
        fast_run_cancel(w->run);
}

static void path_of(const char *name, char path[PATH_MAX_HERE], const char *option)
{
    snprintf(path, PATH_MAX_HERE, "%s%s/%s.safetensors", option, folder, name);
}

static fast_run *open_run(const char *const *extra)
{
    const char *options[OPTIONS_MAX] = { "data=digits:train=480,test=40",
                                         "model=mlp:hidden=24",
                                         "workers=3",
                                         "batch=8",
                                         "lr=0.05",
                                         "steps=12",
                                         "evaluate=6steps",
                                         "engine=ref",
                                         "optimizer=sgd" };
    int count = 9;
    fast_run *run = NULL;

    for (; *extra; extra++)
        options[count++] = *extra;
    if (fast_run_open(options, &run))
        return NULL;
    return run;
}

/* Train, and tell the hash of all parameters and of the epoch's loss. */
static uint64_t train(const char *const *extra, watcher *w)
{
    fast_run *run = open_run(extra);
    uint64_t hash;

    if (!run)
        fail_msg("%s: %s", extra[1], fast_error_detail());
    if (w) {
        w->run = run;
        fast_run_watch(run, watch, w);
    }
    if (fast_run_train(run))
        fail_msg("%s: %s", extra[1], fast_error_detail());
    hash =
        fast__hash(&fast_run_result(run)->loss, sizeof(double), fast_run_result(run)->params_hash);
    fast_run_close(run);
    return hash;
}

/* The run of these options, cut at a step and resumed. */
static void cut_and_resume(const char *transport, const char *codec, const char *more, int64_t at)
{
    char whole[PATH_MAX_HERE], copy[PATH_MAX_HERE], resume[PATH_MAX_HERE];
    watcher w = { .copy = copy, .at = at };

    path_of("whole", whole, "checkpoint=");
    path_of("copy", copy, "");
    path_of("copy", resume, "resume=");
    const uint64_t hash = train(
        (const char *const[]){ transport, codec, more, "checkpoint_every=5steps", whole, NULL },
        &w);
    assert_int_equal(w.saved_step, 12);
    const uint64_t again =
        train((const char *const[]){ transport, codec, more, resume, NULL }, NULL);
    if (again != hash)
        fail_msg("%s %s %s: another model or loss after a resume at step %lld", transport, codec,
                 more, (long long)at);
}

static void a_resumed_run_has_the_same_bits(void **state)
{
    static const char *const codecs[][2] = {
        { "codec=topk:ratio=0.05", "seed=1" },
        { "codec=sign", "codec_down=sign" },
        { "codec=powersgd", "seed=1" },
        { "codec=dgc:ratio=0.02", "seed=1" },
        { "codec=onebit", "codec_down=int8" },
        { "codec=topk+entropy", "codec_scope=layer" },
        { "codec=qsgd", "seed=1" },
        { "codec=adaptive:ratio=0.05", "seed=1" },
    };

    (void)state;
    for (size_t i = 0; i < sizeof codecs / sizeof codecs[0]; i++) {
        cut_and_resume("transport=sim", codecs[i][0], codecs[i][1], CUT);
        if (i % 3 == 0 && !BRIEF)
            cut_and_resume("transport=threads", codecs[i][0], codecs[i][1], 2 * CUT);
    }
}

/* Codecs that change: a cut before, after, and at the change. */
static void codecs_change_in_phases(void **state)
{
    static const char *const changes[] = { "phases=@step=7,codec=topk:ratio=0.05,value=fp16",
                                           "phases=@step=5,codec=sign",
                                           "phases=@step=3,codec=none" };

    (void)state;
    for (size_t i = 0; i < sizeof changes / sizeof changes[0]; i++) {
        cut_and_resume("transport=sim", "codec=onebit", changes[i], CUT);
        cut_and_resume("transport=sim", "codec=none", i == 2 ? "seed=1" : changes[i], 2 * CUT);
    }
    /* It does change: neither codec alone gives these bits. */
    const char *const sim = "transport=sim";
    const uint64_t both =
        train((const char *const[]){ sim, "codec=onebit", changes[1], NULL }, NULL);
    assert_int_not_equal(both, train((const char *const[]){ sim, "codec=onebit", NULL }, NULL));
    assert_int_not_equal(both, train((const char *const[]){ sim, "codec=sign", NULL }, NULL));
    /* codec=none from the start on is a run without a codec. */
    assert_int_equal(
        train((const char *const[]){ sim, "codec=none", "phases=@step=4,codec=none", NULL }, NULL),
        train((const char *const[]){ sim, "codec=none", NULL }, NULL));
}

static void a_canceled_run_continues(void **state)
{
    char path[PATH_MAX_HERE], resume[PATH_MAX_HERE];
    watcher w = { .at = CUT, .cancel = true };

    (void)state;
    path_of("cancel", path, "checkpoint=");
    path_of("cancel", resume, "resume=");
    const char *const codec = "codec=topk:ratio=0.05";
    train((const char *const[]){ "transport=sim", codec, "checkpoint_every=5steps", path, NULL },
          &w);
    assert_in_range(w.saved_step, CUT, 11);
    assert_int_equal(train((const char *const[]){ "transport=sim", codec, resume, NULL }, NULL),
                     train((const char *const[]){ "transport=sim", codec, NULL }, NULL));
}

static void refuses(const char *const *extra, const char *why)
{
    assert_null(open_run(extra));
    if (!strstr(fast_error_detail(), why))
        fail_msg("\"%s\" does not say \"%s\"", fast_error_detail(), why);
}

static void what_is_wrong_is_told(void **state)
{
    char path[PATH_MAX_HERE], copy[PATH_MAX_HERE], resume[PATH_MAX_HERE];
    watcher w = { .copy = copy, .at = CUT };
    const char *const sim = "transport=sim";

    (void)state;
    path_of("whole", path, "checkpoint=");
    path_of("copy", copy, "");
    path_of("copy", resume, "resume=");
    train((const char *const[]){ sim, "codec=topk", "checkpoint_every=5steps", path, NULL }, &w);
    refuses((const char *const[]){ sim, "codec=sign", resume, NULL }, "codec=topk");
    refuses((const char *const[]){ sim, "phases=@step=3", NULL }, "nothing changes");
    refuses((const char *const[]){ sim, "phases=@step=3,codec=nosuch", NULL }, "nosuch");
    refuses((const char *const[]){ sim, "phases=@codec=topk", NULL }, "say when");
    refuses((const char *const[]){ sim, "phases=ensemble@step=3,codec=topk", NULL }, "ensemble");
    FILE *file = fopen(copy, "r+b"); /* a bit of a residual, at the end of the file */
    assert_non_null(file);
    fseek(file, -2, SEEK_END);
    fputc(1, file);
    fclose(file);
    refuses((const char *const[]){ sim, "codec=topk", resume, NULL }, "damaged");
}

static void memory_may_end(void **state)
{
    char path[PATH_MAX_HERE];

    (void)state;
    path_of("memory", path, "checkpoint=");
    for (int64_t n = 0; n < 600; n += BRIEF ? 60 : 7) {
        fast__alloc_fail_after(n, true);
        fast_run *run = open_run((const char *const[]){ "transport=sim", "codec=sign", path,
                                                        "phases=@step=3,codec=topk", NULL });
        fast__alloc_fail_after(-1, true);
        fast_run_close(run);
    }
}

static int make_folder(void **state)
{
    (void)state;
    return mkdtemp(folder) ? 0 : -1;
}

static int remove_folder(void **state)
{
    static const char *const names[] = { "whole", "copy", "cancel", "memory" };
    char path[PATH_MAX_HERE];

    (void)state;
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        path_of(names[i], path, "");
        (void)remove(path);
    }
    return rmdir(folder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_resumed_run_has_the_same_bits),
        cmocka_unit_test(codecs_change_in_phases),
        cmocka_unit_test(a_canceled_run_continues),
        cmocka_unit_test(what_is_wrong_is_told),
        cmocka_unit_test(memory_may_end),
    };

    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
