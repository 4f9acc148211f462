/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Synthetic sets: two parts, drawn sample by sample, each from a stream of its own, so that a
 * larger set begins with the samples of a smaller one and the test set shares no samples with
 * either.
 */
#include "data/synthetic.h"

#include "base/log.h"

enum { LARGE = 1000000 }; /* samples that take seconds to draw */

/* Draw the training or the test set. */
static fast_err draw_part(const fast_data *like, uint64_t part, int64_t count, fast_draw_fn *draw,
                          const void *config, uint64_t seed, fast_data **out)
{
    fast_data sizes = *like;
    sizes.count = count;
    fast_data *data;
    FAST_TRY(fast__data_make(&sizes, &data));
    const int64_t quarter = count / 4;
    for (int64_t i = 0; i < count; i++) {
        /* Drawing takes microseconds a sample: a large set would be a long silence. */
        if (count >= LARGE && i % quarter == 0)
            fast__log(FAST_LOG_INFO, "drawing %lld samples: %lld%%", (long long)count,
                      (long long)(i / quarter * 25));
        fast_rng rng;
        fast__rng_init(&rng, seed, FAST_PURPOSE_SYNTHETIC, part, 0, (uint64_t)i);
        draw(config, seed, &rng, data, i);
    }
    *out = data;
    return FAST_OK;
}

/* Draw both parts from streams of their own, then finish them as sets from files are. */
fast_err fast__synthetic_open(const fast_data *like, int64_t train, int64_t test,
                              fast_draw_fn *draw, const void *config, uint64_t seed,
                              fast_normalize how, fast_data **train_out, fast_data **test_out)
{
    FAST_ASSERT(train > 0 && test > 0);
    fast_data *train_set;
    fast_data *test_set;
    FAST_TRY(draw_part(like, FAST_PART_TRAIN, train, draw, config, seed, &train_set));
    const fast_err err = draw_part(like, FAST_PART_TEST, test, draw, config, seed, &test_set);
    if (err) {
        fast_data_free(train_set);
        return err;
    }
    return fast__data_finish(how, &train_set, &test_set, train_out, test_out);
}
