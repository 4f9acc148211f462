/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A small GPT: token and position vectors, `depth` pre-norm blocks, a last norm, a dense layer.
 *
 *     x <- x + attention(norm(x))
 *     x <- x + dense(gelu(dense_4w(norm(x))))
 *
 * which is, with the names that the text has,
 *
 *     from ---------------- add1 ------------------------- block1
 *       \ norm1 - attention /   \ norm2 - dense1 - gelu - dense2 /
 *
 * Its context is the data's length. Initial weights are normal with standard deviation 0.02; those
 * of the dense layer that ends a block are smaller by sqrt(2 depth), so that the residual sum does
 * not grow with depth. Radford et al., "Language Models are Unsupervised Multitask Learners", 2019.
 */
#include "model/models.h"

#include "model/layer.h"

#include <math.h>
#include <stddef.h>
#include <stdio.h>

typedef struct gpt_config {
    int64_t width;  /* width of a position's vector */
    int64_t heads;  /* attention heads */
    int64_t depth;  /* number of blocks */
    double dropout; /* probability, at the end of each branch */
} gpt_config;

static const fast_option gpt_options[] = {
    FAST_OPT_INT(gpt_config, width, "128", 1, 65536, "width of a position's vector"),
    FAST_OPT_INT(gpt_config, heads, "4", 1, 65536, "heads; the width is a multiple of them"),
    FAST_OPT_INT(gpt_config, depth, "4", 1, 256, "blocks"),
    FAST_OPT_REAL(gpt_config, dropout, "0", 0, 0.99, "dropout at the end of each branch"),
    FAST_OPT_END
};

/* Close a branch that ends with layer `end`: x + branch, named `name`. */
static fast_err add_branch(const gpt_config *c, const char *end, const char *from, const char *name,
                           fast_text *text)
{
    if (c->dropout > 0)
        FAST_TRY(fast__text_add(text, "%s.dropout: dropout %g\n", end, c->dropout));
    return fast__text_add(text, "%s: add %s %s%s\n", name, from, end,
                          c->dropout > 0 ? ".dropout" : "");
}

/* Write one block. */
static fast_err add_block(const gpt_config *c, int n, const char *from, fast_text *text)
{
    const long long w = c->width;
    const double std = 0.02 / sqrt(2.0 * (double)c->depth);
    char middle[40];
    char end[40];
    char name[40];

    FAST_TRY(fast__text_add(text, "block%d.norm1: layer_norm from %s\n", n, from));
    FAST_TRY(fast__text_add(text, "block%d.attention: attention %lld init=normal\n", n,
                            (long long)c->heads));
    snprintf(middle, sizeof middle, "block%d.add1", n);
    snprintf(end, sizeof end, "block%d.attention", n);
    FAST_TRY(add_branch(c, end, from, middle, text));
    FAST_TRY(fast__text_add(text, "block%d.norm2: layer_norm from %s\n", n, middle));
    FAST_TRY(fast__text_add(text, "block%d.dense1: dense %lld init=normal\n", n, 4 * w));
    FAST_TRY(fast__text_add(text, "block%d.gelu: gelu\n", n));
    FAST_TRY(fast__text_add(text, "block%d.dense2: dense %lld init=normal std=%g\n", n, w, std));
    snprintf(end, sizeof end, "block%d.dense2", n);
    snprintf(name, sizeof name, "block%d", n);
    return add_branch(c, end, middle, name, text);
}

/* Write embedding, blocks, norm and the dense layer. Data with one answer a sample read the last
 * position. */
static fast_err gpt_write(const fast_model *model, const void *config,
                          const fast_model_input *input, fast_text *text)
{
    const gpt_config *c = config;
    char shape[64];
    char from[40] = "embed";

    if (!input->tokens)
        return fast__fail(FAST_EINVAL, "%s takes tokens, but these data are numbers of shape %s",
                          model->name, fast__shape_text(input->rank, input->shape, shape));
    if (c->width % c->heads)
        return fast__fail(FAST_EINVAL, "model %s: heads %lld do not divide width %lld", model->name,
                          (long long)c->heads, (long long)c->width);
    FAST_TRY(
        fast__text_add(text, "embed: embed %lld position=yes std=0.02\n", (long long)c->width));
    for (int n = 1; n <= c->depth; n++) {
        FAST_TRY(add_block(c, n, from, text));
        snprintf(from, sizeof from, "block%d", n);
    }
    FAST_TRY(fast__text_add(text, "norm: layer_norm\n"));
    if (input->positions <= 1)
        FAST_TRY(fast__text_add(text, "last\n"));
    return fast__text_add(text, "dense: dense %lld init=normal\n", (long long)input->outputs);
}

const fast_model fast__model_gpt = {
    .name = "gpt",
    .summary = "small generative transformer, for text",
    .options = gpt_options,
    .config_size = sizeof(gpt_config),
    .write = gpt_write,
};
