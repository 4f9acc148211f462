/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Question: is the memory of every process what was predicted when the run was opened? The program
 * of bench/memory.py: trains a run with the options of the command line, as one of the processes of
 * mpirun or alone, and prints a line: the peak of this process as it was predicted, as it was
 * measured, and the run's loss, or nan where another process has that.
 *
 *     bench_memory NAME=VALUE ...
 */
#include "fast/run.h"

#include <stdio.h>

int main(int argc, char **argv)
{
    fast_run *run = NULL;
    fast_err err = fast_run_open((const char *const *)argv + (argc > 0), &run);

    if (!err)
        err = fast_run_train(run);
    if (err) {
        fprintf(stderr, "%s\n", fast_error_detail());
        fast_run_close(run);
        return 1;
    }
    const fast_result *r = fast_run_result(run);
    printf("memory %lld %lld %g %d\n", (long long)r->predicted_memory, (long long)r->memory_peak,
           r->loss, (int)fast_run_is_first(run));
    fast_run_close(run);
    return 0;
}
