/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Locally connected layers, as in the networks of COTS HPC (Coates et al., "Deep learning with COTS
 * HPC systems", 2013): windows with weights of their own at each place, pooling behind each layer,
 * then a dense layer that classifies.
 *
 *     for each width:  local KERNEL, w - relu - avg_pool 2     dense
 *
 * Nearly all parameters are filters, one for each place, and rows of them belong to rows of the
 * image: split by rows, a worker has those of its own rows alone.
 */
#include "model/models.h"

#include <stddef.h>

typedef struct cots_config {
    char filters[256]; /* of a place in each layer, as "8x16x16" */
    int64_t kernel;    /* height and width of the windows; odd */
    int64_t tile;      /* distance of places with equal weights; 0: none have */
} cots_config;

static const fast_option cots_options[] = {
    FAST_OPT_TEXT(cots_config, filters, "8x16x16", NULL,
                  "filters of a place in each layer, joined by x"),
    FAST_OPT_INT(cots_config, kernel, "5", 1, 63, "height and width of the windows: odd"),
    FAST_OPT_INT(cots_config, tile, "0", 0, 65536,
                 "distance of places with equal weights, as in tiled networks; 0: none have"),
    FAST_OPT_END
};

/* Write the network's text. */
static fast_err cots_write(const fast_model *model, const void *config_of_model,
                           const fast_model_input *input, fast_text *text)
{
    const cots_config *c = config_of_model;
    int64_t widths[FAST_WIDTHS_MAX];
    int count = 0;

    FAST_TRY(fast__model_widths("model cots: filters", c->filters, widths, &count));
    FAST_TRY(fast__model_need_images(model->name, input, count < 16 ? (int64_t)1 << count : 65536));
    if (count == 0 || c->kernel % 2 == 0)
        return fast__fail(FAST_EINVAL, "model cots: %s",
                          count == 0 ? "filters names no width; give at least one, like 8"
                                     : "kernel must be odd, so that a window has a middle");
    for (int i = 0; i < count; i++)
        FAST_TRY(fast__text_add(text,
                                "local %lld kernel=%lld tile=%lld pad=same init=he\nrelu\n"
                                "avg_pool 2\n",
                                (long long)widths[i], (long long)c->kernel, (long long)c->tile));
    return fast__text_add(text, "dense %lld\n", (long long)input->outputs);
}

const fast_model fast__model_cots = {
    .name = "cots",
    .summary = "locally connected layers, with own weights at each place, and pooling",
    .options = cots_options,
    .config_size = sizeof(cots_config),
    .write = cots_write,
};
