/* SPDX-License-Identifier: Apache-2.0 */
/*
 * 06_strategy - a strategy of your own: follow the leader. Workers train alone; every few steps all
 * workers take the model of the worker with the lowest loss. It runs on every transport.
 *
 *     cc 06_strategy.c -o 06_strategy $(pkg-config --cflags --libs fast) && ./06_strategy sim
 */
#include <fast/strategy.h>
#include <stdio.h>

enum { WORKERS = 4, PERIOD = 4 };

static fast_err follow(fast_trainer *t, const void *config)
{
    float loss[WORKERS] = { 0 }; /* running mean of each worker */
    float mine = 0;
    fast_err err = FAST_OK;

    (void)config;
    t->period = PERIOD; /* steps between points where all workers may stop together */
    while (!err && fast_trainer_next(t)) {
        err = fast_trainer_gradient(t, NULL, NULL);
        err = err ? err : fast_trainer_update(t, t->g, 1);
        mine += 0.1f * ((float)t->loss - mine);
        if (err || t->step % PERIOD != 0)
            continue;
        loss[t->rank] = mine;
        err = fast_allgather(t->group, loss, WORKERS, FAST_SOON);
        int64_t best = 0;
        for (int64_t i = 1; i < WORKERS; i++)
            best = loss[i] < loss[best] ? i : best;
        size_t size = (size_t)t->count * sizeof *t->w;
        err = err ? err : fast_broadcast(t->group, best, t->w, size, FAST_SOON);
    }
    return err ? err : fast_trainer_end(t);
}

static const fast_strategy leader = {
    .name = "follow", .summary = "follow the leader", .synchronous = true, .worker = follow
};

int main(int argc, char **argv)
{
    char transport[64];
    const char *options[] = {
        "data=digits:train=2000,test=500", "epochs=4", "workers=4", "batch=16", transport, NULL
    };
    fast_run *run = NULL;

    snprintf(transport, sizeof transport, "transport=%s", argc > 1 ? argv[1] : "threads");
    fast_err err = fast_run_open_strategy(options, &leader, &run);
    err = err ? err : fast_run_train(run);
    if (err)
        fprintf(stderr, "%s\n", fast_error_detail());
    else
        printf("test accuracy %.1f%%\n", 100 * fast_run_result(run)->test_accuracy);
    fast_run_close(run);
    return err ? 1 : 0;
}
