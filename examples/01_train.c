/* SPDX-License-Identifier: Apache-2.0 */
/*
 * 01_train - train a network in a few lines. The options are the flags of `fast train`, as text:
 * try "model=resnet8", or "data=spirals" with "model=mlp".
 *
 *     cc 01_train.c -o 01_train $(pkg-config --cflags --libs fast) && ./01_train
 */
#include <fast/run.h>

#include <stdio.h>

/* Print one line after every evaluation. */
static void watch(void *ctx, const fast_event *event)
{
    (void)ctx;
    if (event->kind == FAST_EVENT_EVALUATE)
        printf("epoch %lld  loss %.4f  test accuracy %.2f%%\n", (long long)event->result->epoch,
               event->result->loss, 100 * event->result->test_accuracy);
}

int main(void)
{
    const char *options[] = {
        "model=lenet", "data=digits:train=6000,test=1000", "epochs=3", "seed=1", NULL,
    };
    fast_run *run;
    if (fast_run_open(options, &run) != FAST_OK) {
        fprintf(stderr, "%s\n", fast_error_detail());
        return 1;
    }
    fast_run_watch(run, watch, NULL);
    fast_err err = fast_run_train(run);
    if (err == FAST_OK) {
        const fast_result *result = fast_run_result(run);
        printf("%.0f samples/s, parameters %016llx\n", result->samples_per_s,
               (unsigned long long)result->params_hash);
    } else {
        fprintf(stderr, "%s\n", fast_error_detail());
    }
    fast_run_close(run);
    return err == FAST_OK ? 0 : 1;
}
