/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Goal: all that workers of synchronous strategies keep from one step to the next lasts: replicas,
 * rules, centres, outer momentum, masses, the places in changing graphs, residuals of codecs and
 * copies at neighbours. A run that was stopped and continues ends with the bits of the one that was
 * not. Method: small runs of every such member of the families, with and without codecs, in sim and
 * on threads, are canceled at evaluations and continue; or another run resumes a copy of a
 * checkpoint that they made on their way, or of the one that a cancel left. Then phases, damage,
 * forged numbers, weights that are loaded, and memory that ends. With the argument "mpi", under
 * mpirun: checkpoints of several processes.
 */
#include "base/memory.h"
#include "fast/run.h"
#include "run/team.h"
#include "small_run.h"
#include "strategy/strategy.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

enum { STEPS = 16, OPTIONS_MAX = 24, PATH_MAX_HERE = 256 };

#ifdef FAST_SANITIZED
enum { BRIEF = 1 };
#else
enum { BRIEF = 0 };
#endif

static char folder[64] = "state_test.XXXXXX";

/* Runs, by what matters here. */
typedef struct job {
    const char *strategy;
    const char *more;  /* another option */
    const char *codec; /* or a third option */
} job;

static const job jobs[] = {
    { "strategy=gossip", "seed=1", "codec=none" },
    { "strategy=gossip:drop=0.3", "seed=1", "codec=none" },
    { "strategy=gossip:first=adapt,rounds=2", "topology=hypercube:one=yes", "codec=none" },
    { "strategy=gossip:push=yes", "topology=exponential:one=yes", "codec=none" },
    { "strategy=gossip:push=yes,drop=0.2", "topology=exponential:one=yes", "codec=topk:ratio=0.1" },
    { "strategy=gossip:period=3,correct=1", "topology=pairs", "codec=qsgd" },
    { "strategy=gossip", "seed=1", "codec=powersgd" },
    { "strategy=gossip", "seed=1", "codec=randk:ratio=0.2" },
    { "strategy=gossip:sends=gradients", "topology=full", "codec=dgc:ratio=0.05" },
    { "strategy=gossip:sends=gradients", "seed=1", "codec=qsgd" },
    { "strategy=local:period=4", "seed=1", "codec=none" },
    { "strategy=local:period=3,outer=nesterov", "optimizer=momentum", "codec=none" },
    { "strategy=local:period=2,outer=classical,polyak=0.1", "seed=1", "codec=topk:ratio=0.1" },
    { "strategy=local:period=2,delay=yes,grow=0.2", "seed=1", "codec=onebit" },
    { "strategy=local:period=3,state=average", "optimizer=momentum", "codec=qsgd" },
    { "strategy=elastic_sync", "optimizer=momentum", "codec=none" },
    { "strategy=elastic_sync:mu=0.9,restart=7", "seed=1", "codec=none" },
    { "strategy=elastic_sync:mu=0.9,period=2", "seed=1", "codec=qsgd" },
    { "strategy=elastic_sync:period=2", "seed=1", "codec=powersgd" },
    { "strategy=allreduce", "optimizer=momentum", "codec=onebit" },
    { "strategy=distill", "optimizer=momentum", "codec=none" },
    { "strategy=distill:teach=0.4,fresh=no", "optimizer=adam", "codec=onebit" },
    { "strategy=distill:teach=0.4", "optimizer=sgd", "codec=qsgd" },
    { "strategy=distill:teach=0.3", "optimizer=sgd", "codec=randk:ratio=0.2" },
    { "strategy=ps:slack=0", "optimizer=momentum", "codec=none" },
    { "strategy=ps:slack=0,servers=2", "optimizer=adam", "codec=none" },
    { "strategy=ps:slack=0,servers=0,momentum=0.3", "optimizer=momentum", "codec=topk:ratio=0.1" },
    { "strategy=ps:slack=0,servers=2", "codec_down=topk:ratio=0.2", "codec=qsgd" },
    { "strategy=ps:slack=0,servers=0", "codec_down=powersgd", "codec=none" },
    { "strategy=ps:slack=0,overlap=yes", "optimizer=momentum", "codec=onebit" },
    { "strategy=ps:slack=0,servers=2,priority=yes,overlap=yes", "optimizer=adam", "codec=none" },
    { "strategy=ps:slack=0,factors=yes,servers=3", "optimizer=momentum", "codec=none" },
    { "strategy=ps:slack=0,servers=0,overlap=yes,hybrid=yes", "model=mlp:hidden=600",
      "optimizer=momentum" },
    { "strategy=ps:slack=0,filter=0.3,cache=yes,l1=0.001", "seed=2", "codec=none" },
    { "strategy=ps:slack=0,budget=400,skip=0.3,servers=3", "optimizer=adam", "codec=none" },
    { "strategy=allreduce", "optimizer=momentum", "codec=significance:threshold=0.3+skip" },
    { "strategy=ps:slack=0,servers=2", "seed=3", "codec=significance:threshold=0.3+onebit" },
    { "strategy=local:period=2", "seed=1", "codec=budget:bytes=400" },
    { "strategy=ps:slack=0,stalest=yes", "codec_down=qsgd", "codec=powersgd" },
    { "strategy=ps:slack=0", "codec_down=int8", "codec=dgc:ratio=0.05,momentum=0.5" },
    { "strategy=ps:slack=0,servers=2", "model=resnet8:width=4", "codec=none" },
    { "strategy=distill:teach=0.7", "optimizer=momentum", "codec=none" },
    { "strategy=allreduce:algorithm=ring,bucket=64", "seed=1", "codec=none" },
};

/* Who cancels a run at evaluations. */
typedef struct stopper {
    fast_run *run;
    int64_t count; /* how often so far */
} stopper;

static void stop(void *ctx, const fast_event *event)
{
    stopper *s = ctx;

    if (event->kind != FAST_EVENT_EVALUATE || event->step >= STEPS || event->step % 5 != 0)
        return;
    s->count++;
    fast_run_cancel(s->run);
}

static fast_run *open_job(const job *j, const char *const *extra)
{
    const char *options[OPTIONS_MAX] = { "data=digits:train=480,test=40",
                                         "model=mlp:hidden=12",
                                         "workers=4",
                                         "batch=8",
                                         "lr=0.05",
                                         "steps=16",
                                         "evaluate=5steps",
                                         "engine=ref",
                                         "optimizer=sgd",
                                         j->strategy,
                                         j->codec,
                                         j->more };
    int count = 12;
    fast_run *run = NULL;

    if (strncmp(j->more, "optimizer=", 10) == 0) { /* an option is given once */
        options[8] = j->more;
        options[11] = "seed=1";
    }
    if (strncmp(j->more, "model=", 6) == 0) {
        options[1] = j->more;
        options[11] = "seed=1";
    }
    if (strncmp(j->codec, "optimizer=", 10) == 0) {
        options[8] = j->codec;
        options[10] = "codec=none";
    }
    for (; *extra; extra++)
        options[count++] = *extra;
    if (fast_run_open(options, &run))
        fail_msg("%s %s: %s", j->strategy, j->codec, fast_error_detail());
    return run;
}

/* Train to the end, however often it is stopped on the way. */
static uint64_t train(const job *j, const char *transport, bool stops)
{
    fast_run *run = open_job(j, (const char *const[]){ transport, NULL });
    stopper s = { .run = run };
    uint64_t hash;

    if (stops)
        fast_run_watch(run, stop, &s);
    do {
        if (fast_run_train(run))
            fail_msg("%s %s: %s", j->strategy, j->codec, fast_error_detail());
    } while (fast_run_result(run)->canceled);
    assert_int_equal(fast_run_result(run)->steps, STEPS);
    assert_true(!stops || s.count > 0);
    hash = fast_run_result(run)->params_hash;
    fast_run_close(run);
    return hash;
}

static void a_canceled_run_continues(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof jobs / sizeof jobs[0]; i += BRIEF ? 3 : 1) {
        const uint64_t hash = train(&jobs[i], "transport=sim", false);

        if (train(&jobs[i], "transport=sim", true) != hash)
            fail_msg("%s %s %s: another model after a cancel", jobs[i].strategy, jobs[i].more,
                     jobs[i].codec);
        if (i % 4 == 0 && train(&jobs[i], "transport=threads", true) != hash)
            fail_msg("%s %s %s: another model after a cancel on threads", jobs[i].strategy,
                     jobs[i].more, jobs[i].codec);
    }
}

/* Who copies the checkpoint of a step, and may cancel the run there. */
typedef struct copier {
    fast_run *run;
    const char *copy;   /* where it goes */
    int64_t at;         /* of this step */
    bool cancel;        /* the run there */
    int64_t saved_step; /* of the last one */
} copier;

static void copy_at(void *ctx, const fast_event *event)
{
    copier *c = ctx;

    if (event->kind != FAST_EVENT_SAVE)
        return;
    c->saved_step = event->step;
    if (event->step == c->at)
        test_copy_file(event->text, c->copy);
    if (event->step == c->at && c->cancel)
        fast_run_cancel(c->run);
}

static void path_of(const char *name, char path[PATH_MAX_HERE], const char *option)
{
    snprintf(path, PATH_MAX_HERE, "%s%s/%s.safetensors", option, folder, name);
}

/* Train with a checkpoint every 3 steps, of which the one of step `at` is copied. */
static uint64_t train_and_copy(const job *j, const char *transport, copier *c)
{
    char checkpoint[PATH_MAX_HERE], copy[PATH_MAX_HERE];

    path_of("whole", checkpoint, "checkpoint=");
    path_of("copy", copy, "");
    fast_run *run = open_job(
        j, (const char *const[]){ transport, "checkpoint_every=3steps", checkpoint, NULL });
    c->run = run;
    c->copy = copy;
    fast_run_watch(run, copy_at, c);
    if (fast_run_train(run))
        fail_msg("%s %s: %s", j->strategy, j->codec, fast_error_detail());
    const uint64_t hash = fast_run_result(run)->params_hash;
    fast_run_close(run);
    return hash;
}

static uint64_t resume(const job *j, const char *transport, const char *name)
{
    char path[PATH_MAX_HERE];

    path_of(name, path, "resume=");
    fast_run *run = open_job(j, (const char *const[]){ transport, path, NULL });
    if (fast_run_train(run))
        fail_msg("%s %s: %s", j->strategy, j->codec, fast_error_detail());
    const uint64_t hash = fast_run_result(run)->params_hash;
    fast_run_close(run);
    return hash;
}

static void a_resumed_run_has_the_same_bits(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof jobs / sizeof jobs[0]; i += BRIEF ? 3 : 1) {
        const job *j = &jobs[i];
        const char *const transport = i % 4 == 1 ? "transport=threads" : "transport=sim";
        const int64_t at = i % 2 ? 6 : 9;
        const uint64_t hash = train(j, "transport=sim", false);
        copier c = { .at = at };

        if (train_and_copy(j, transport, &c) != hash)
            fail_msg("%s %s: checkpoints change the model", j->strategy, j->codec);
        assert_int_equal(c.saved_step, STEPS);
        if (resume(j, "transport=sim", "copy") != hash)
            fail_msg("%s %s: another model after a resume at step %lld", j->strategy, j->codec,
                     (long long)at);
        c.cancel = true;
        (void)train_and_copy(j, transport, &c);
        assert_in_range(c.saved_step, at, STEPS); /* it stops where a period ends */
        if (resume(j, "transport=threads", "whole") != hash)
            fail_msg("%s %s: another model after a cancel and a resume", j->strategy, j->codec);
    }
}

/* Strategies that change: a cut before, at and after the change. */
static void phases_are_resumed(void **state)
{
    static const job changing[] = {
        { "strategy=local:period=2", "phases=gossip@step=6", "codec=topk:ratio=0.1" },
        { "strategy=gossip", "phases=allreduce@step=9", "codec=none" },
        { "strategy=allreduce", "phases=elastic_sync:mu=0.9@step=6", "codec=onebit" },
        { "strategy=gossip:push=yes", "phases=local:outer=nesterov@step=9", "codec=none" },
        { "strategy=ps:slack=0,servers=2", "phases=allreduce@step=6", "codec=topk:ratio=0.1" },
        { "strategy=local:period=3", "phases=ps:slack=0,momentum=0.5@step=9", "codec=qsgd" },
    };

    (void)state;
    for (size_t i = 0; i < sizeof changing / sizeof changing[0]; i++)
        for (int64_t at = 3; at <= 12; at += 3) {
            const job *j = &changing[i];
            copier c = { .at = at };

            const uint64_t hash = train_and_copy(j, "transport=sim", &c);
            assert_true(train(j, "transport=sim", false) == hash);
            if (resume(j, "transport=sim", "copy") != hash)
                fail_msg("%s %s: another model after a resume at step %lld", j->strategy, j->more,
                         (long long)at);
        }
}

/* A file that says something else is refused, wherever it was changed; and so are other options. */
static void what_does_not_fit_is_refused(void **state)
{
    const job *j = &jobs[4];
    char copy[PATH_MAX_HERE], option[PATH_MAX_HERE];
    copier c = { .at = 6 };

    (void)state;
    path_of("copy", copy, "");
    path_of("copy", option, "resume=");
    (void)train_and_copy(j, "transport=sim", &c);
    const char *const again[] = { "data=digits:train=480,test=40",
                                  "model=mlp:hidden=12",
                                  "workers=4",
                                  "batch=8",
                                  "lr=0.06",
                                  "steps=16",
                                  "evaluate=5steps",
                                  "engine=ref",
                                  "optimizer=sgd",
                                  j->strategy,
                                  j->codec,
                                  j->more,
                                  option,
                                  NULL };
    fast_run *run = NULL;
    assert_int_equal(fast_run_open(again, &run), FAST_EINVAL);
    assert_non_null(strstr(fast_error_detail(), "lr=0.05"));
    char load[PATH_MAX_HERE]; /* a checkpoint is a file of weights, too */
    path_of("copy", load, "load=");
    fast_run_close(open_job(j, (const char *const[]){ load, NULL }));
    FILE *file = fopen(copy, "r+b");
    assert_non_null(file);
    fseek(file, -5, SEEK_END);
    fputc(77, file);
    fclose(file);
    const char *same[14];
    memcpy(same, again, sizeof again);
    same[4] = "lr=0.05";
    assert_int_equal(fast_run_open(same, &run), FAST_EFORMAT);
    assert_non_null(strstr(fast_error_detail(), "damaged"));
}

/* Memory ends while a run is resumed and trains: it says so, and nothing leaks. */
static void memory_may_end(void **state)
{
    const job *j = &jobs[4];
    copier c = { .at = 6 };
    char option[PATH_MAX_HERE];
    int64_t failed = 0;

    (void)state;
    path_of("copy", option, "resume=");
    (void)train_and_copy(j, "transport=sim", &c);
    for (int64_t n = 0; n < 400; n += BRIEF ? 40 : 9) {
        fast_run *run = open_job(j, (const char *const[]){ "transport=sim", option, NULL });

        fast__alloc_fail_after(n, true);
        const fast_err err = fast_run_train(run);
        fast__alloc_fail_after(-1, true);
        failed += err != FAST_OK; /* of the actor that tells most, which may have lost another */
        fast_run_close(run);
    }
    assert_true(failed > 0);
}

/* Numbers that a forged checkpoint gives a strategy. */
typedef struct forgery {
    const char *strategy;
    int64_t words; /* of 8 bytes that it keeps as number 0 */
    int64_t at;    /* which of them is not what it left */
    int64_t value; /* but this */
} forgery;

static const forgery forgeries[] = {
    { "gossip", 2, 1, -3 },
    { "gossip", 2, 1, INT64_MAX },
    { "local", 6, 1, INT64_MAX },
    { "local", 6, 2, -1 },
    { "local", 6, 3, INT64_MAX },
    { "local", 6, 4, INT64_MAX },
    { "local", 6, 5, -1 },
    { "elastic_sync", 8, 6, INT64_MIN },
    { "elastic_sync", 8, 7, INT64_MAX },
};
static const forgery *forged;
static const fast_strategy *begins; /* the strategy that it names */

/* As the strategy would begin after such a checkpoint. */
static fast_err begin_forged(fast_trainer *t, const void *config)
{
    void *memory = NULL;
    FAST_TRY(fast_trainer_persist(t, 0, (size_t)forged->words * sizeof(int64_t), &memory));
    ((int64_t *)memory)[forged->at] = forged->value;
    return begins->worker(t, config);
}

static void forged_numbers_are_refused(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof forgeries / sizeof *forgeries; i++) {
        static const char *const options[] = {
            "data=digits:train=48,test=8", "workers=2",  "batch=8",       "steps=2",
            "model=mlp:hidden=4",          "engine=ref", "transport=sim", NULL
        };
        forged = &forgeries[i];
        for (int k = 0; fast__strategies[k]; k++)
            if (strcmp(fast__strategies[k]->name, forged->strategy) == 0)
                begins = fast__strategies[k];
        fast_strategy strategy = *begins;
        strategy.name = "forged";
        strategy.worker = begin_forged;
        fast_run *run = NULL;
        assert_int_equal(fast_run_open_strategy(options, &strategy, &run), FAST_OK);
        const fast_err err = fast_run_train(run);
        if (err != FAST_EFORMAT)
            fail_msg("%s, word %d: %s", forged->strategy, (int)forged->at, fast_err_name(err));
        fast_run_close(run);
    }
}

static bool is_first; /* this process has worker 0 */

/* Ranks see one folder; the model of the run is at the first. */
static void ranks_are_resumed(void **state)
{
    static const size_t some[] = { 1,  4,  6,  8,  12, 13, 17, 19, 20,
                                   21, 23, 24, 25, 26, 28, 32, 34, 39 };

    (void)state;
    for (size_t i = 0; i < sizeof some / sizeof some[0]; i++) {
        const job *j = &jobs[some[i]];
        copier c = { .at = 9 };
        const uint64_t hash = train(j, "transport=sim", false);
        const uint64_t whole = train_and_copy(j, "transport=mpi", &c);
        const bool first = c.saved_step == STEPS;
        const uint64_t again = resume(j, "transport=mpi", "copy");

        if (first && whole != hash)
            fail_msg("%s %s: another model on ranks", j->strategy, j->codec);
        if (first && again != hash)
            fail_msg("%s %s: another model after a resume on ranks", j->strategy, j->codec);
        if (first && resume(j, "transport=sim", "whole") != hash)
            fail_msg("%s %s: the end on ranks is another one in sim", j->strategy, j->codec);
        is_first = first;
    }
}

/* A step between processes costs their network, whatever makes the sum. */
static void ranks_forecast_the_network(void **state)
{
    static const job tree = { "strategy=allreduce:algorithm=tree,overlap=no", "seed=1",
                              "codec=none" };
    const char *const mpi[] = { "transport=mpi", NULL };
    fast_run *run = open_job(&tree, mpi);

    (void)state;
    assert_int_equal(fast_run_train(run), FAST_OK);
    const double alpha = run->team->costs.network.alpha;
    assert_true(alpha > 0 || !fast_run_is_first(run));
    assert_true(fast_run_result(run)->predicted_exchange_s >= 2 * alpha || !fast_run_is_first(run));
    /* The vectors of the measurement are no bytes of the run: 16 sums of at most 40 kB. */
    assert_true(fast_run_result(run)->bytes_sent < 4 * STEPS * 2 * 45000);
    fast_run_close(run);
}

static int make_folder(void **state)
{
    (void)state;
    return mkdtemp(folder) ? 0 : -1;
}

static int remove_folder(void **state)
{
    char path[PATH_MAX_HERE];

    (void)state;
    path_of("whole", path, "");
    (void)remove(path);
    path_of("copy", path, "");
    (void)remove(path);
    return rmdir(folder);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest on_ranks[] = { cmocka_unit_test(ranks_forecast_the_network),
                                           cmocka_unit_test(ranks_are_resumed) };
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_canceled_run_continues),
        cmocka_unit_test(a_resumed_run_has_the_same_bits),
        cmocka_unit_test(phases_are_resumed),
        cmocka_unit_test(what_does_not_fit_is_refused),
        cmocka_unit_test(memory_may_end),
        cmocka_unit_test(forged_numbers_are_refused),
    };

    if (argc > 1 && strcmp(argv[1], "mpi") == 0) {
        snprintf(folder, sizeof folder, "state_test.%ld", (long)getppid());
        (void)mkdir(folder, 0777); /* who comes first makes it */
        const int failed = cmocka_run_group_tests(on_ranks, NULL, NULL);
        if (is_first) /* nobody else looks into it any more */
            (void)remove_folder(NULL);
        return failed;
    }
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
