/* SPDX-License-Identifier: Apache-2.0 */
/*
 * 10_filter - a filter of your own between workers and parameter servers: each worker sends the
 * elements of a gradient that are above a multiple of their mean size; the others wait and add up.
 *
 *     cc 10_filter.c -o 10_filter $(pkg-config --cflags --libs fast) -lm && ./10_filter
 */
#include <fast/run.h>
#include <math.h>
#include <stddef.h>
#include <stdio.h>

typedef struct above_config {
    double times; /* smallest element that is sent, in mean sizes */
} above_config;

static const fast_option above_options[] = {
    { .name = "times",
      .standard = "1",
      .help = "smallest element that is sent, in mean sizes of all",
      .type = FAST_OPTION_REAL,
      .offset = offsetof(above_config, times),
      .max = 1000 },
    { 0 },
};

static void select_above(const void *config, const fast_filter_update *update, float *send,
                         float *wait)
{
    double sum = 0;
    for (int64_t i = 0; i < update->count; i++)
        sum += fabs((double)send[i]);
    const double mean = sum / (double)update->count;
    const double bound = ((const above_config *)config)->times * mean;
    for (int64_t i = 0; i < update->count; i++)
        if (fabs((double)send[i]) < bound) { /* false for NaN, which is sent */
            wait[i] = send[i];
            send[i] = 0;
        }
}

static const fast_filter above = { .name = "above",
                                   .options = above_options,
                                   .config_size = sizeof(above_config),
                                   .select = select_above };

int main(void)
{
    static const char *const codecs[] = { "codec=none", "codec=above", "codec=above:times=4" };
    for (int i = 0; i < 3; i++) {
        const char *options[] = { "data=digits:train=2000,test=500",
                                  "model=mlp:hidden=32",
                                  "epochs=8",
                                  "workers=4",
                                  "batch=16",
                                  "strategy=ps:slack=0,cache=yes",
                                  "optimizer=sgd",
                                  "lr=0.2",
                                  "transport=sim",
                                  "cluster=ethernet-1g",
                                  codecs[i],
                                  NULL };
        fast_run *run = NULL;
        fast_err err = fast_run_open_filter(options, &above, &run);
        err = err ? err : fast_run_train(run);
        if (err)
            fprintf(stderr, "%s\n", fast_error_detail());
        else
            printf("%-20s test accuracy %.1f%%, %.1f MB sent\n", codecs[i],
                   100 * fast_run_result(run)->test_accuracy,
                   1e-6 * (double)fast_run_result(run)->bytes_sent);
        fast_run_close(run);
        if (err)
            return 1;
    }
    return 0;
}
