/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Networks that are rolled out over the frames of a sequence. Each edge between two layers has a
 * delay of 0 or 1 frames, and the rollout pattern says which: at frame t a layer reads an edge of
 * delay d from frame t - d.
 *
 *     sequential    all delays 0: the layers of a frame follow each other
 *     streaming     all delays 1: each layer of a frame reads the frame before, so that none waits
 *                   for another, and the answer to a frame comes as many frames later as its
 *                   shortest path has layers
 *
 *     frame          0     1     2     3          hidden=A x B, streaming
 *     A reads        -     x0    x1    x2
 *     B reads        -     -     A1    A2
 *     answer reads   -     -     -     B2         the first answer: to x0, three frames later
 *
 * Activations belong to their layer; the edge from a recurrent layer to itself always has a delay
 * of 1. Skip edges are concatenated: the first answers come over the shortest path, and later ones
 * see deeper layers. The losses of the frames that have an answer are averaged; the others do not
 * count. One frame's answer is evaluated.
 *
 * Fischer, Koehler and Pfeil, "The streaming rollout of deep networks", 2018.
 */
#include "model/models.h"

#include <stddef.h>
#include <string.h>

enum { SKIP_NO, SKIP_OUTPUT, SKIP_ALL };

typedef struct rollout_config {
    char hidden[256];  /* widths of the hidden layers */
    char pattern[192]; /* streaming, sequential, or a delay for each layer */
    int skip;          /* which layers read all layers before them */
    bool recurrent;    /* hidden layers read themselves */
    int64_t frames;    /* of data that are no sequences; 0: twice the layers */
    int64_t answer;    /* frame that is evaluated; -1: the last one */
    int64_t embedding; /* width of a token's vector */
} rollout_config;

static const fast_option rollout_options[] = {
    FAST_OPT_TEXT(rollout_config, hidden, "64x64", NULL,
                  "widths of the hidden layers, joined by x; none: no hidden layer"),
    FAST_OPT_TEXT(rollout_config, pattern, "streaming", NULL,
                  "delays of the edges into the layers: streaming, sequential, or as in 1x0x1 for "
                  "each layer, the output layer last"),
    FAST_OPT_CHOICE(rollout_config, skip, "no", "no|output|all",
                    "layers that also read the input and all layers before them"),
    FAST_OPT_BOOL(rollout_config, recurrent, "yes",
                  "hidden layers are rnn; no: dense layers with ReLU"),
    FAST_OPT_INT(rollout_config, frames, "0", 0, 4096,
                 "frames for which an image or a vector is shown; 0: twice the layers"),
    FAST_OPT_INT(rollout_config, answer, "-1", -1, 1 << 20,
                 "frame whose answer is evaluated, from 0; -1: the last one"),
    FAST_OPT_INT(rollout_config, embedding, "64", 1, 65536, "width of a token's vector"),
    FAST_OPT_END
};

/* A network under construction. */
typedef struct rollout {
    const rollout_config *config;        /* the options */
    const char *source;                  /* name of the node with the frames */
    int64_t widths[FAST_WIDTHS_MAX + 1]; /* of the layers, the output layer last */
    int count;                           /* number of layers */
    bool delayed[FAST_WIDTHS_MAX + 1];   /* delays of the edges into them */
    int64_t frames;                      /* W */
    int64_t first;                       /* first frame with an answer */
} rollout;

/* Parse the pattern into a delay for each layer. */
static fast_err parse_pattern(const char *text, rollout *r)
{
    const bool all = strcmp(text, "streaming") == 0;

    if (all || strcmp(text, "sequential") == 0) {
        for (int i = 0; i < r->count; i++)
            r->delayed[i] = all;
        return FAST_OK;
    }
    bool fits = strlen(text) == (size_t)(2 * r->count - 1);
    for (int i = 0; fits && i < r->count; i++) {
        fits = (text[2 * i] == '0' || text[2 * i] == '1') && (i == 0 || text[2 * i - 1] == 'x');
        r->delayed[i] = text[2 * i] == '1';
    }
    if (!fits)
        return fast__fail(FAST_EINVAL,
                          "model rollout: pattern \"%.60s\"; write streaming, sequential, or %d "
                          "times 0 or 1, joined by x",
                          text, r->count);
    return FAST_OK;
}

/* Return whether a layer reads all layers before it. */
static bool skips(const rollout *r, int layer)
{
    return layer > 0 && (r->config->skip == SKIP_ALL ||
                         (r->config->skip == SKIP_OUTPUT && layer == r->count - 1));
}

/* Return the delay of the shortest path from the frames to the output: that of the layers behind
 * the last one that reads the frames. */
static int64_t first_answer(const rollout *r)
{
    int64_t delay = 0;

    for (int i = 0; i < r->count; i++)
        delay = (skips(r, i) ? 0 : delay) + r->delayed[i];
    return delay;
}

/* Find the number of frames, and check that the last one and the evaluated one have an answer. */
static fast_err find_frames(const fast_model_input *input, rollout *r)
{
    const rollout_config *c = r->config;
    const bool sequence = input->tokens || input->rank == 2;

    if (sequence && c->frames > 0)
        return fast__fail(
            FAST_EINVAL, "model rollout: these data are sequences of %lld frames; leave frames out",
            (long long)input->shape[0]);
    r->frames = sequence ? input->shape[0] : c->frames > 0 ? c->frames : 2 * r->count;
    r->first = first_answer(r);
    if (r->first >= r->frames)
        return fast__fail(FAST_EINVAL,
                          "model rollout: the first answer comes after %lld frames, and there are "
                          "%lld; use more frames or fewer layers",
                          (long long)r->first, (long long)r->frames);
    if (c->answer >= r->frames || (c->answer >= 0 && c->answer < r->first))
        return fast__fail(FAST_EINVAL,
                          "model rollout: answer=%lld; the frames %lld to %lld have an answer",
                          (long long)c->answer, (long long)r->first, (long long)r->frames - 1);
    return FAST_OK;
}

/* Write the node with the frames. */
static fast_err add_frames(const fast_model_input *input, rollout *r, fast_text *text)
{
    r->source = "frames";
    if (input->tokens)
        return fast__text_add(text, "frames: embed %lld\n", (long long)r->config->embedding);
    if (input->rank != 2)
        return fast__text_add(text, "frames: repeat %lld\n", (long long)r->frames);
    r->source = "input";
    return FAST_OK;
}

/* Write a layer: its skip edges, its delay, its weights, its activation. */
static fast_err add_layer(const rollout *r, int layer, fast_text *text)
{
    const bool output = layer == r->count - 1;
    const int n = layer + 1;

    if (skips(r, layer)) {
        FAST_TRY(fast__text_add(text, "edges%d: concat %s", n, r->source));
        for (int i = 1; i <= layer; i++)
            FAST_TRY(fast__text_add(text, " unit%d", i));
        FAST_TRY(fast__text_add(text, "\n"));
    }
    if (r->delayed[layer])
        FAST_TRY(fast__text_add(text, "delay%d: delay\n", n));
    if (output)
        return fast__text_add(text, "answers: dense %lld\n", (long long)r->widths[layer]);
    if (r->config->recurrent)
        return fast__text_add(text, "unit%d: rnn %lld\n", n, (long long)r->widths[layer]);
    return fast__text_add(text, "layer%d: dense %lld\nunit%d: relu\n", n,
                          (long long)r->widths[layer], n);
}

/* Write the losses of the frames that have an answer, and the answer that is evaluated. */
static fast_err add_answers(const rollout *r, fast_text *text)
{
    const int64_t outputs = r->widths[r->count - 1];
    const int64_t evaluated = r->config->answer >= 0 ? r->config->answer : r->frames - 1;

    for (int64_t t = r->first; t < r->frames; t++)
        FAST_TRY(fast__text_add(text,
                                "frame%lld: part %lld shape=%lld from answers\n"
                                "head%lld: head weight=%.9g\n",
                                (long long)t, (long long)(t * outputs), (long long)outputs,
                                (long long)t, 1.0 / (double)(r->frames - r->first)));
    return fast__text_add(text, "answer: part %lld shape=%lld from answers\n",
                          (long long)(evaluated * outputs), (long long)outputs);
}

static fast_err rollout_write(const fast_model *model, const void *config,
                              const fast_model_input *input, fast_text *text)
{
    const rollout_config *c = config;
    rollout r = { .config = c };

    FAST_TRY(fast__model_need_one_answer(model->name, input));
    FAST_TRY(fast__model_widths("model rollout: hidden", c->hidden, r.widths, &r.count));
    r.widths[r.count++] = input->outputs;
    if (c->skip != SKIP_NO && r.count > FAST_INPUTS_MAX)
        return fast__fail(FAST_EINVAL,
                          "model rollout: skip edges of %d hidden layers; at most %d, or skip=no",
                          r.count - 1, FAST_INPUTS_MAX - 1);
    FAST_TRY(parse_pattern(c->pattern, &r));
    FAST_TRY(find_frames(input, &r));
    FAST_TRY(add_frames(input, &r, text));
    for (int i = 0; i < r.count; i++)
        FAST_TRY(add_layer(&r, i, text));
    FAST_TRY(add_answers(&r, text));
    return fast__model_add_loss(input, false, text);
}

const fast_model fast__model_rollout = {
    .name = "rollout",
    .summary = "layers rolled out over frames, each edge with or without a delay",
    .options = rollout_options,
    .config_size = sizeof(rollout_config),
    .writes_loss = true,
    .write = rollout_write,
};
