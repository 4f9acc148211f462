/* SPDX-License-Identifier: Apache-2.0 */
/*
 * 02_own_data - bring your own data: any array of floats with labels (or targets, for regression).
 * Here: is a point inside a ring? The trained network predicts two points.
 */
#include <fast/run.h>

#include <math.h>
#include <stdio.h>

enum { COUNT = 4000, TEST = 1000 };

static float x[COUNT][2];
static int32_t labels[COUNT];

/* Points of a low-discrepancy sequence, which needs no random generator. */
static void make_ring(void)
{
    for (int i = 0; i < COUNT; i++) {
        x[i][0] = (float)(2 * fmod(0.7548776662 * (i + 1), 1) - 1);
        x[i][1] = (float)(2 * fmod(0.5698402910 * (i + 1), 1) - 1);
        const float radius = hypotf(x[i][0], x[i][1]);
        labels[i] = radius > 0.4F && radius < 0.8F;
    }
}

static fast_err make_data(int first, int count, fast_data **out)
{
    const fast_data_options options = {
        .count = count,
        .rank = 1,
        .shape = { 2 },
        .x = x[first],
        .labels = labels + first,
        .classes = 2,
    };
    return fast_data_new(&options, out);
}

int main(void)
{
    const char *options[] = {
        "model=mlp:hidden=32x32", "optimizer=adam", "lr=0.01", "epochs=20", "batch=32", NULL,
    };
    fast_data *train = NULL;
    fast_data *test = NULL;
    fast_run *run = NULL;

    make_ring();
    fast_err err = make_data(0, COUNT - TEST, &train);
    if (err == FAST_OK)
        err = make_data(COUNT - TEST, TEST, &test);
    if (err == FAST_OK)
        err = fast_run_open_with(options, NULL, train, test, &run);
    if (err == FAST_OK)
        err = fast_run_train(run);
    if (err == FAST_OK) {
        const float points[2][2] = { { 0.6F, 0.0F }, { 0.1F, 0.1F } };
        float outputs[2][2];
        printf("test accuracy %.1f%%\n", 100 * fast_run_result(run)->test_accuracy);
        err = fast_run_predict(run, 2, points[0], outputs[0]);
        for (int i = 0; i < 2 && err == FAST_OK; i++)
            printf("(%.1f, %.1f) is %s the ring\n", (double)points[i][0], (double)points[i][1],
                   outputs[i][1] > outputs[i][0] ? "inside" : "outside");
    }
    if (err != FAST_OK)
        fprintf(stderr, "%s\n", fast_error_detail());
    fast_run_close(run);
    fast_data_free(test);
    fast_data_free(train);
    return err == FAST_OK ? 0 : 1;
}
