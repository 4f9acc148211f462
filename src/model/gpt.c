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
 * With experts=E the two dense layers are a mixture of experts (engine/experts.h), in each block or
 * in one of `every`:
 *
 *     norm2 - router - balance - route ----.------------------------.
 *       \________________________________ dispatch - experts1 - gelu - experts2 - combine
 *
 * Its context is the data's length. Initial weights are normal with standard deviation 0.02; those
 * of the layer that ends a block are smaller by sqrt(2 depth), so that the residual sum does not
 * grow with depth. Radford et al., "Language Models are Unsupervised Multitask Learners", 2019.
 */
#include "model/models.h"

#include "engine/experts.h"
#include "model/layer.h"

#include <math.h>
#include <stddef.h>
#include <stdio.h>

typedef struct gpt_config {
    int64_t width;   /* width of a position's vector */
    int64_t heads;   /* attention heads */
    int64_t depth;   /* number of blocks */
    double dropout;  /* probability, at the end of each branch */
    int64_t experts; /* of a block's dense layers; 0: one of each for all positions */
    int64_t every;   /* with experts: each block of this number has them */
    int64_t top;     /* experts of a position */
    double capacity; /* slots of an expert, in shares of the positions */
    double balance;  /* weight of the loss that balances experts */
} gpt_config;

static const fast_option gpt_options[] = {
    FAST_OPT_INT(gpt_config, width, "128", 1, 65536, "width of a position's vector"),
    FAST_OPT_INT(gpt_config, heads, "4", 1, 65536, "heads; the width is a multiple of them"),
    FAST_OPT_INT(gpt_config, depth, "4", 1, 256, "blocks"),
    FAST_OPT_REAL(gpt_config, dropout, "0", 0, 0.99, "dropout at the end of each branch"),
    FAST_OPT_INT(gpt_config, experts, "0", 0, FAST_EXPERTS_MAX,
                 "mixture of experts in the place of dense layers; 0: none"),
    FAST_OPT_INT(gpt_config, every, "1", 1, 256, "blocks from one with experts to the next"),
    FAST_OPT_INT(gpt_config, top, "1", 1, FAST_ROUTES_MAX, "experts of a position"),
    FAST_OPT_REAL(gpt_config, capacity, "1.25", 1e-3, 1024,
                  "slots of an expert, in shares of the positions"),
    FAST_OPT_REAL(gpt_config, balance, "0.01", 0, 1e6, "weight of the loss that balances experts"),
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

/* Write the dense layers of block n, or its experts, on its norm2; copy the last one's name.
 *
 *     dense1 - gelu - dense2
 *     router - balance - route - dispatch - experts1 - gelu - experts2 - combine
 */
static fast_err add_middle(const gpt_config *c, int n, char end[40], fast_text *text)
{
    const long long w = c->width, E = c->experts;
    const double std = 0.02 / sqrt(2.0 * (double)c->depth);

    if (E == 0 || n % c->every != 0) {
        FAST_TRY(fast__text_add(text, "block%d.dense1: dense %lld init=normal\n", n, 4 * w));
        FAST_TRY(fast__text_add(text, "block%d.gelu: gelu\n", n));
        snprintf(end, 40, "block%d.dense2", n);
        return fast__text_add(text, "%s: dense %lld init=normal std=%g\n", end, w, std);
    }
    FAST_TRY(fast__text_add(text, "block%d.router: dense %lld bias=no init=normal\n", n, E));
    FAST_TRY(fast__text_add(text, "block%d.balance: head balance weight=%g\n", n, c->balance));
    FAST_TRY(fast__text_add(text, "block%d.route: route %lld capacity=%g\n", n, (long long)c->top,
                            c->capacity));
    FAST_TRY(
        fast__text_add(text, "block%d.dispatch: dispatch block%d.norm2 block%d.route\n", n, n, n));
    FAST_TRY(fast__text_add(text, "block%d.experts1: experts %lld count=%lld init=normal\n", n,
                            4 * w, E));
    FAST_TRY(fast__text_add(text, "block%d.gelu: gelu\n", n));
    FAST_TRY(fast__text_add(text, "block%d.experts2: experts %lld count=%lld init=normal std=%g\n",
                            n, w, E, std));
    snprintf(end, 40, "block%d.combine", n);
    return fast__text_add(text, "%s: combine block%d.experts2 block%d.route\n", end, n, n);
}

/* Write one block. */
static fast_err add_block(const gpt_config *c, int n, const char *from, fast_text *text)
{
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
    FAST_TRY(add_middle(c, n, end, text));
    snprintf(name, sizeof name, "block%d", n);
    return add_branch(c, end, middle, name, text);
}

/* Refuse options of mixtures that the model does not have, or whose numbers do not fit. */
static fast_err check_experts(const char *model, const gpt_config *c)
{
    gpt_config plain;

    fast__options_default(gpt_options, &plain);
    const char *option = c->every != plain.every                                        ? "every"
                         : c->top != plain.top                                          ? "top"
                         : c->capacity > plain.capacity || c->capacity < plain.capacity ? "capacity"
                         : c->balance > plain.balance || c->balance < plain.balance     ? "balance"
                                                                                        : NULL;
    if (c->experts == 0 && option)
        return fast__fail(FAST_EINVAL, "model %s: %s is of experts: give experts=4 too", model,
                          option);
    if (c->experts > 0 && c->top > c->experts)
        return fast__fail(FAST_EINVAL, "model %s: top %lld is more than experts %lld", model,
                          (long long)c->top, (long long)c->experts);
    if (c->experts > 0 && c->every > c->depth)
        return fast__fail(FAST_EINVAL, "model %s: every %lld is more than depth %lld", model,
                          (long long)c->every, (long long)c->depth);
    return FAST_OK;
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
    FAST_TRY(check_experts(model->name, c));
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
