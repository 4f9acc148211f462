/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Texts as words of a large vocabulary, to be classified by their topic: a set for sparse models. A
 * sample is `length` words; each is with probability `topical` one of the words of its class, which
 * are the vocabulary's words c, c + classes, c + 2 classes, ..., and any word otherwise. Frequent
 * words come first, as in a natural text: word w of n is drawn as floor(n^u) - 1 of a uniform u,
 * with a probability of about 1 / (w ln n) (Zipf).
 *
 * A batch has few of the words, so the gradient of an embedding touches few of its rows.
 */
#include "data/synthetic.h"

#include <math.h>

typedef struct words_config {
    int64_t train;      /* training samples */
    int64_t test;       /* test samples */
    int64_t classes;    /* number of topics */
    int64_t vocabulary; /* number of different words */
    int64_t length;     /* words of a sample */
    double topical;     /* probability that a word is one of its class */
} words_config;

static const fast_option words_options[] = {
    FAST_OPT_INT(words_config, train, "10000", 1, 10000000, "training samples"),
    FAST_OPT_INT(words_config, test, "1000", 1, 10000000, "test samples"),
    FAST_OPT_INT(words_config, classes, "4", 2, 1000, "topics, a class each"),
    FAST_OPT_INT(words_config, vocabulary, "10000", 2, 10000000, "words that exist"),
    FAST_OPT_INT(words_config, length, "20", 1, 10000, "words of a sample"),
    FAST_OPT_REAL(words_config, topical, "0.3", 0, 1, "probability that a word is of the topic"),
    FAST_OPT_END,
};

/* Draw one of n words, small numbers more often. */
static int64_t draw_word(fast_rng *rng, int64_t n)
{
    const int64_t word = (int64_t)pow((double)n + 1, (double)fast__rng_uniform(rng)) - 1;

    return word < 0 ? 0 : word >= n ? n - 1 : word;
}

/* Draw the words of a random topic. */
static void draw_words(const void *config, uint64_t seed, fast_rng *rng, fast_data *data, int64_t i)
{
    (void)seed;
    const words_config *c = config;
    const int64_t label = (int64_t)fast__rng_below(rng, (uint64_t)c->classes);
    const int64_t own = (c->vocabulary - label + c->classes - 1) / c->classes;
    float *x = (float *)data->x + i * data->features;
    for (int64_t k = 0; k < c->length; k++) {
        const bool topical = (double)fast__rng_uniform(rng) < c->topical;
        x[k] = (float)(topical && own > 0 ? label + c->classes * draw_word(rng, own)
                                          : draw_word(rng, c->vocabulary));
    }
    data->labels[i] = (int32_t)label;
}

/* Sequences of tokens with one label each. */
static fast_err words_open(const void *config, uint64_t seed, fast_data **train_out,
                           fast_data **test_out)
{
    const words_config *c = config;
    const fast_data like = { .rank = 1,
                             .shape = { c->length },
                             .dtype = FAST_F32,
                             .classes = c->classes,
                             .tokens = true,
                             .vocabulary = c->vocabulary };
    return fast__synthetic_open(&like, c->train, c->test, draw_words, c, seed, FAST_NORMALIZE_NONE,
                                train_out, test_out);
}

const fast_data_kind fast__data_words = {
    .name = "words",
    .summary = "texts of a large vocabulary, a class a topic; needs no file",
    .options = words_options,
    .config_size = sizeof(words_config),
    .open = words_open,
};
