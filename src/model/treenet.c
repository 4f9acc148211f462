/* SPDX-License-Identifier: Apache-2.0 */
/*
 * TreeNets: a trunk that M copies of the layers above a junction share.
 *
 *     x - trunk -+- member 1 - p_1 -+
 *                +- member 2 - p_2 -+- mean p - loss
 *                +- member M - p_M -+
 *
 * The loss decides what the members learn for:
 *
 *     probabilities   -log of the mean of softmax(y_m): the ensemble as it is evaluated
 *     scores          cross-entropy of the mean of y_m
 *     members         sum of the losses of the members, each by itself; the mean of their
 *                     probabilities is evaluated
 *     best            multiple choice learning: of each sample the loss of the member that has the
 *                     smallest; the mean of their probabilities is evaluated
 *
 * The mean enters the cross-entropy as its logarithm z: softmax(z) is the mean again, as its sum is
 * 1. With one member the network is the plain one. Regression takes the mean of the answers.
 *
 * Lee, Purushwalkam, Cogswell, Crandall and Batra, "Why M Heads are Better than One: Training a
 * Diverse Ensemble of Deep Networks", 2015.
 */
#include "model/models.h"

#include <stddef.h>
#include <stdio.h>

typedef enum treenet_loss { LOSS_PROBABILITIES, LOSS_SCORES, LOSS_MEMBERS, LOSS_BEST } treenet_loss;

typedef struct treenet_config {
    int64_t branches;  /* M */
    int64_t junction;  /* layers with weights below the branches */
    char filters[256]; /* convolutions as "20x50"; none: no convolutions */
    char hidden[256];  /* widths of the dense layers behind them */
    int64_t embedding; /* width of a token's vector */
    int loss;          /* a treenet_loss */
} treenet_config;

static const fast_option treenet_options[] = {
    FAST_OPT_INT(treenet_config, branches, "4", 1, FAST_INPUTS_MAX, "members of the ensemble"),
    FAST_OPT_INT(treenet_config, junction, "1", 0, 2 * FAST_WIDTHS_MAX,
                 "layers that all members share, from the input on"),
    FAST_OPT_TEXT(treenet_config, filters, "none", NULL,
                  "filters of convolutions of 3x3, each with max_pool 2, joined by x"),
    FAST_OPT_TEXT(treenet_config, hidden, "256x256", NULL,
                  "widths of the hidden layers behind them, joined by x; none: no hidden layer"),
    FAST_OPT_INT(treenet_config, embedding, "32", 1, 65536, "width of a token's vector"),
    FAST_OPT_CHOICE(treenet_config, loss, "probabilities", "probabilities|scores|members|best",
                    "loss of the mean of the members' probabilities, or of their scores, or of "
                    "each member, or of the best member of each sample"),
    FAST_OPT_END
};

/* The layers of a plain network: convolutions, then dense layers. */
typedef struct treenet_layers {
    int64_t widths[2 * FAST_WIDTHS_MAX]; /* filters, then units */
    int conv_count;                      /* how many of them are convolutions */
    int count;                           /* length of widths */
} treenet_layers;

/* A tree under construction. */
typedef struct treenet_tree {
    const treenet_config *config;  /* its options */
    const fast_model_input *input; /* the data */
    treenet_layers layers;         /* of a path from the input to an output */
    fast_text *text;               /* receives the network */
} treenet_tree;

/* Write a layer with its activation; `from` names its input, or is empty. */
static fast_err add_layer(const treenet_tree *tree, int i, const char *prefix, const char *from)
{
    const long long width = tree->layers.widths[i];

    if (i >= tree->layers.conv_count)
        return fast__text_add(tree->text, "%sdense%d: dense %lld%s\n%srelu%d: relu\n", prefix,
                              i + 1 - tree->layers.conv_count, width, from, prefix, i + 1);
    return fast__text_add(tree->text,
                          "%sconv%d: conv %lld kernel=3 pad=1%s\n%srelu%d: relu\n"
                          "%spool%d: max_pool 2\n",
                          prefix, i + 1, width, from, prefix, i + 1, prefix, i + 1);
}

/* Write the words that make a layer read the last one of the trunk. */
static void name_trunk(const treenet_tree *tree, char *text, size_t size)
{
    const int last = (int)tree->config->junction;

    if (last > 0)
        snprintf(text, size, " from %s%d", last <= tree->layers.conv_count ? "pool" : "relu", last);
    else
        snprintf(text, size, " from %s",
                 tree->input->tokens || tree->input->rank == 2 ? "flatten1" : "input");
}

/* Are the members' probabilities averaged, or their scores? */
static bool averages_probabilities(const treenet_tree *tree)
{
    return !tree->input->regression && tree->config->loss != LOSS_SCORES;
}

/* Does each sample train its best member alone? */
static bool chooses_best(const treenet_tree *tree)
{
    return !tree->input->regression && tree->config->loss == LOSS_BEST;
}

/* Write a member: its layers, its output, and with a loss of its own a head. */
static fast_err add_member(const treenet_tree *tree, const char *prefix, const char *trunk)
{
    const bool one = tree->config->branches == 1;
    const char *from = trunk;

    for (int i = (int)tree->config->junction; i < tree->layers.count; i++) {
        FAST_TRY(add_layer(tree, i, prefix, from));
        from = "";
    }
    FAST_TRY(fast__text_add(tree->text, "%sscores: dense %lld%s\n", prefix,
                            (long long)tree->input->outputs, from));
    if (!one && tree->config->loss == LOSS_MEMBERS)
        FAST_TRY(fast__text_add(tree->text, "%shead: head\n", prefix));
    if (!one && averages_probabilities(tree) && !chooses_best(tree))
        return fast__text_add(tree->text, "%sp: softmax\n", prefix);
    return FAST_OK;
}

/* Write the loss of the best members, on the scores of all, and the mean of their probabilities:
 *
 *     member 1 .. M: scores - concat - head best - [M, K] - softmax - mean over M - log
 *
 * The scores are one vector, so that members are branches which end in one place. */
static fast_err add_best(const treenet_tree *tree)
{
    const int branches = (int)tree->config->branches;

    FAST_TRY(fast__text_add(tree->text, "scores: concat"));
    for (int m = 1; m <= branches; m++)
        FAST_TRY(fast__text_add(tree->text, " member%d.scores", m));
    return fast__text_add(tree->text,
                          "\nbest: head best\nmembers: reshape %dx%lld\np: softmax\n"
                          "mean: reduce mean axes=0\nguard: map affine b=1e-12\nmap log\n",
                          branches, (long long)tree->input->outputs);
}

/* Write the mean of the members. The summand guards the logarithm of a probability that is 0. */
static fast_err add_mean(const treenet_tree *tree)
{
    const bool logarithm = averages_probabilities(tree);
    const int branches = (int)tree->config->branches;

    FAST_TRY(fast__text_add(tree->text, "sum: add"));
    for (int m = 1; m <= branches; m++)
        FAST_TRY(fast__text_add(tree->text, " member%d.%s", m, logarithm ? "p" : "scores"));
    FAST_TRY(fast__text_add(tree->text, "\nmean: map affine a=%.9g%s\n", 1.0 / branches,
                            logarithm ? " b=1e-12" : ""));
    return logarithm ? fast__text_add(tree->text, "map log\n") : FAST_OK;
}

/* List the layers between the input and the outputs. */
static fast_err list_layers(treenet_tree *tree, const char *name)
{
    const treenet_config *c = tree->config;
    treenet_layers *layers = &tree->layers;
    int dense = 0;

    FAST_TRY(fast__model_widths("model treenet: filters", c->filters, layers->widths,
                                &layers->conv_count));
    FAST_TRY(fast__model_widths("model treenet: hidden", c->hidden,
                                layers->widths + layers->conv_count, &dense));
    layers->count = layers->conv_count + dense;
    if (layers->conv_count > 30)
        return fast__fail(FAST_EINVAL,
                          "model treenet: %d convolutions, each of which halves the "
                          "image; use at most 30",
                          layers->conv_count);
    if (layers->conv_count > 0)
        FAST_TRY(fast__model_need_images(name, tree->input, (int64_t)1 << layers->conv_count));
    if (c->junction > layers->count)
        return fast__fail(FAST_EINVAL,
                          "model treenet: junction %lld is above its %d hidden layers; the outputs "
                          "belong to the members",
                          (long long)c->junction, layers->count);
    return FAST_OK;
}

/* Write the trunk, the members and their mean. */
static fast_err treenet_write(const fast_model *model, const void *config,
                              const fast_model_input *input, fast_text *text)
{
    const treenet_config *c = config;
    treenet_tree tree = { .config = c, .input = input, .text = text };
    char trunk[32], prefix[32] = "";

    FAST_TRY(fast__model_need_one_answer(model->name, input));
    FAST_TRY(list_layers(&tree, model->name));
    FAST_TRY(fast__model_add_vector(input, c->embedding, text));
    for (int i = 0; i < (int)c->junction; i++)
        FAST_TRY(add_layer(&tree, i, "", ""));
    name_trunk(&tree, trunk, sizeof trunk);
    for (int m = 1; m <= (int)c->branches; m++) {
        if (c->branches > 1)
            snprintf(prefix, sizeof prefix, "member%d.", m);
        FAST_TRY(add_member(&tree, prefix, trunk));
    }
    if (c->branches > 1)
        FAST_TRY(chooses_best(&tree) ? add_best(&tree) : add_mean(&tree));
    const bool by_heads = c->loss == LOSS_MEMBERS || chooses_best(&tree);
    return fast__model_add_loss(input, c->branches == 1 || !by_heads, text);
}

const fast_model fast__model_treenet = {
    .name = "treenet",
    .summary = "ensemble on a shared trunk, with a loss of its mean",
    .options = treenet_options,
    .config_size = sizeof(treenet_config),
    .writes_loss = true,
    .write = treenet_write,
};
