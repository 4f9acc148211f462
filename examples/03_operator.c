/* SPDX-License-Identifier: Apache-2.0 */
/*
 * 03_operator - write an operator: a function and its derivative, used as a layer of a network that
 * is built line by line in the network language (docs/networks.md).
 * Here: swish, y = x s(x) with s(x) = 1 / (1 + exp(-x)) (Ramachandran et al. 2017).
 */
#include <fast/run.h>

#include <math.h>
#include <stdio.h>

static fast_err swish_shape(const void *config, int input_count, const int *ranks,
                            const int64_t (*shapes)[3], int *rank_out, int64_t shape_out[3])
{
    (void)config;
    if (input_count != 1)
        return FAST_EINVAL;
    *rank_out = ranks[0];
    for (int i = 0; i < ranks[0]; i++)
        shape_out[i] = shapes[0][i];
    return FAST_OK;
}

static void swish_forward(const void *config, int64_t count, const int64_t *sizes,
                          const float *const *x, float *y)
{
    (void)config;
    for (int64_t i = 0; i < count * sizes[0]; i++)
        y[i] = x[0][i] / (1 + expf(-x[0][i]));
}

/* dy/dx = s + y (1 - s). */
static void swish_backward(const void *config, int64_t count, const int64_t *sizes,
                           const float *const *x, const float *y, const float *dy, float *const *dx)
{
    (void)config;
    for (int64_t i = 0; dx[0] != NULL && i < count * sizes[0]; i++) {
        const float s = 1 / (1 + expf(-x[0][i]));
        dx[0][i] += dy[i] * (s + y[i] * (1 - s));
    }
}

static const fast_operator swish = {
    .name = "swish", .shape = swish_shape, .forward = swish_forward, .backward = swish_backward
};

int main(void)
{
    const char *options[] = { "data=spirals", "optimizer=adam", "lr=0.01", "epochs=20", NULL };
    fast_network *network = NULL;
    fast_run *run = NULL;

    fast_err err = fast_network_new(&network);
    if (err == FAST_OK)
        err = fast_network_add(network, "input 2");
    if (err == FAST_OK)
        err = fast_network_add(network, "dense 64");
    if (err == FAST_OK)
        err = fast_network_add_operator(network, "swish", &swish, NULL, NULL);
    if (err == FAST_OK)
        err = fast_network_add(network, "dense 2");
    if (err == FAST_OK)
        err = fast_run_open_with(options, network, NULL, NULL, &run);
    if (err == FAST_OK)
        err = fast_run_train(run);
    if (err == FAST_OK)
        printf("with swish: test accuracy %.1f%%\n", 100 * fast_run_result(run)->test_accuracy);
    else
        fprintf(stderr, "%s\n", fast_error_detail());
    fast_run_close(run);
    fast_network_free(network);
    return err == FAST_OK ? 0 : 1;
}
