/* SPDX-License-Identifier: Apache-2.0 */
/*
 * 11_split - a model that four workers share, one stage each, as three pipelines run it: GPipe and
 * 1F1B, which drain at each step, and PipeDream, which never does. The simulator tells the waiting
 * without a cluster; transport=mpi runs the same on one.
 *
 *     cc 11_split.c -o 11_split $(pkg-config --cflags --libs fast) -lm && ./11_split
 */
#include <fast/run.h>

#include <stdio.h>

/* Train 512 samples in a schedule and print what the workers did; false if that failed. */
static int train(const char *pipeline, const char *accumulate, const char *steps)
{
    const char *const options[] = { "model=mlp:hidden=256x256x256",
                                    "data=digits",
                                    "mesh=pipe=4",
                                    "batch=8",
                                    "transport=sim",
                                    "evaluate=no",
                                    pipeline,
                                    accumulate,
                                    steps,
                                    NULL };
    fast_run *run = NULL;

    if (fast_run_open(options, &run) != FAST_OK || fast_run_train(run) != FAST_OK) {
        fprintf(stderr, "%s\n", fast_error_detail());
        fast_run_close(run);
        return 0;
    }
    const fast_result *r = fast_run_result(run);
    printf("%-18s %.4f s, %2.0f%% of it waiting, updates at most %d late\n", pipeline,
           r->virtual_time_s, 100 * r->wait_s / r->virtual_time_s, (int)r->staleness_max);
    fast_run_close(run);
    return 1;
}

int main(void)
{
    return train("pipeline=gpipe", "accumulate=8", "steps=8") &&
                   train("pipeline=1f1b", "accumulate=8", "steps=8") &&
                   train("pipeline=pipedream", "accumulate=1", "steps=64")
               ? 0
               : 1;
}
