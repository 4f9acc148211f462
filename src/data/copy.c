/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The copy task: remember a sequence and repeat it (Hochreiter and Schmidhuber's and later Graves'
 * test of memory). For n = 3 symbols:
 *
 *   position  0   1   2   3   4   5
 *   x         a   b   c   >   .   .
 *   label     .   .   .   a   b   c
 *
 * Token 0 is the blank, 1 the delimiter, the symbols follow. Every position has one correct answer:
 * blank while reading, then the symbols. All positions count, so a model without memory gets half
 * of them right, and one in `symbols` of the rest.
 */
#include "data/synthetic.h"

enum { BLANK, DELIMITER, SYMBOL };

typedef struct copy_config {
    int64_t train;   /* training samples */
    int64_t test;    /* test samples */
    int64_t length;  /* n, symbols to remember */
    int64_t symbols; /* number of different symbols */
} copy_config;

static const fast_option copy_options[] = {
    FAST_OPT_INT(copy_config, train, "10000", 1, 10000000, "training samples"),
    FAST_OPT_INT(copy_config, test, "1000", 1, 10000000, "test samples"),
    FAST_OPT_INT(copy_config, length, "8", 1, 10000, "symbols to remember"),
    FAST_OPT_INT(copy_config, symbols, "8", 1, 254, "symbols that exist"),
    FAST_OPT_END,
};

/* Draw one sequence and its labels. */
static void draw_copy(const void *config, uint64_t seed, fast_rng *rng, fast_data *data, int64_t i)
{
    (void)seed;
    const copy_config *c = config;
    uint8_t *x = (uint8_t *)data->x + i * data->features;
    int32_t *labels = data->labels + i * data->positions;
    for (int64_t t = 0; t < c->length; t++) {
        const uint8_t symbol = (uint8_t)(SYMBOL + fast__rng_below(rng, (uint64_t)c->symbols));
        x[t] = symbol;
        x[c->length + t] = t == 0 ? DELIMITER : BLANK;
        labels[t] = BLANK;
        labels[c->length + t] = symbol;
    }
}

/* Sequences of 2 n tokens with a label at each position. */
static fast_err copy_open(const void *config, uint64_t seed, fast_data **train_out,
                          fast_data **test_out)
{
    const copy_config *c = config;
    const fast_data like = { .rank = 1,
                             .shape = { 2 * c->length },
                             .dtype = FAST_U8,
                             .positions = 2 * c->length,
                             .classes = c->symbols + SYMBOL,
                             .tokens = true,
                             .vocabulary = c->symbols + SYMBOL };
    return fast__synthetic_open(&like, c->train, c->test, draw_copy, c, seed, FAST_NORMALIZE_NONE,
                                train_out, test_out);
}

const fast_data_kind fast__data_copy = {
    .name = "copy",
    .summary = "remember symbols and repeat them; needs no file",
    .options = copy_options,
    .config_size = sizeof(copy_config),
    .open = copy_open,
};
