/* SPDX-License-Identifier: Apache-2.0 */
/*
 * 07_learner - a learner of your own: logistic regression on points that it draws itself, of class
 * 1 where x0 + x1 + x2 + x3 > 0. It trains under every strategy, on every transport.
 *
 *     cc 07_learner.c -o 07_learner $(pkg-config --cflags --libs fast) -lm
 *     ./07_learner strategy=gossip transport=sim workers=4
 */
#include <fast/learner.h>
#include <math.h>
#include <stdio.h>

enum { INPUTS = 4, TRAIN = 20000, TEST = 1000 };

/* The mean of log(1 + exp(-z)) or log(1 + exp(z)), z = w . x, over a batch or the test set. */
static fast_err learn(void *ctx, fast_learner_request *t)
{
    const int64_t count = t->g ? t->batch : TEST;
    const int64_t first = t->g ? (t->step * t->workers + t->worker) * count % TRAIN : TRAIN;

    (void)ctx;
    t->loss = 0;
    for (int k = 0; t->g && k < INPUTS; k++)
        t->g[k] = 0;
    for (int64_t i = first; i < first + count; i++) {
        float x[INPUTS], sum = 0, z = 0;
        for (int k = 0; k < INPUTS; k++) { /* a hash of the sample's number */
            x[k] = sinf((float)(i % 9973) * 7.1f * (float)(k + 1));
            sum += x[k];
            z += t->w[k] * x[k];
        }
        t->loss += log1p(exp(sum > 0 ? (double)-z : (double)z)) / (double)count;
        t->correct += (z > 0) == (sum > 0);
        for (int k = 0; t->g && k < INPUTS; k++)
            t->g[k] += (1 / (1 + expf(-z)) - (sum > 0)) * x[k] / (float)count;
    }
    t->samples = t->counted = count;
    return FAST_OK;
}

int main(int argc, char **argv)
{
    const fast_learner_tensor w = { "w", 1, { INPUTS }, NULL };
    const fast_learner_kind kind = { sizeof kind,       "logistic",       .params = &w,
                                     .param_count = 1,  .samples = TRAIN, .operations = 99,
                                     .gradient = learn, .evaluate = learn };
    const char *options[32] = { "workers=2", "epochs=4" }; /* and the arguments */
    fast_run *run = NULL;

    for (int i = 1; i < argc && i < 28; i++)
        options[1 + i] = argv[i];
    fast_err err = fast_run_open_learner(options, &kind, NULL, &run);
    err = err ? err : fast_run_train(run);
    if (err)
        return fprintf(stderr, "%s\n", fast_error_detail()), 1;
    printf("test accuracy %.1f%%\n", 100 * fast_run_result(run)->test_accuracy);
    fast_run_close(run);
    return 0;
}
