/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Text of a language model of characters. The model predicts the next character at each of its T
 * positions from the characters up to there, so the text so far is put at the first positions, or
 * the last T characters of it, and the logits of the last one are drawn from:
 *
 *     p(c) = softmax(logits / temperature), among the top_k most probable characters
 *
 * Character n is drawn with the random stream (seed, n), so a text repeats. Cost: a forward pass of
 * one sample a character.
 */
#include "base/memory.h"
#include "base/rng.h"
#include "engine/loss.h"
#include "run/predict/predictor.h"

#include <math.h>
#include <string.h>

/* Set the tokens of the model's window to the end of the prompt; FAST_EINVAL for a character that
 * the model does not know. *used_out is the number of tokens. */
static fast_err read_prompt(const fast_predictor *p, const char *prompt, float *window,
                            int64_t *used_out)
{
    const int64_t T = p->sizes.inputs;
    const size_t size = prompt ? strlen(prompt) : 0;
    int number[256];

    if (size == 0)
        return fast__fail(FAST_EINVAL, "a prompt of at least one character is needed");
    fast__text_numbers(p->recipe, number);
    for (size_t i = 0; i < size; i++)
        if (number[(unsigned char)prompt[i]] < 0)
            return fast__fail(FAST_EINVAL,
                              "byte %zu of the prompt, 0x%02x, is not among the %lld characters "
                              "that the model knows",
                              i, (unsigned char)prompt[i], (long long)p->recipe->like->vocabulary);
    const size_t skipped = size > (size_t)T ? size - (size_t)T : 0;
    for (size_t i = skipped; i < size; i++)
        window[i - skipped] = (float)number[(unsigned char)prompt[i]];
    *used_out = (int64_t)(size - skipped);
    return FAST_OK;
}

/* Draw a token: `u` in [0, 1) chooses among the top_k logits by their probabilities. */
static int64_t draw(const float *logits, int64_t count, const fast_generate_options *o, float u)
{
    const int64_t top = o->top_k > 0 && o->top_k < count ? o->top_k : count;
    int64_t chosen[256] = { 0 };
    bool used[256] = { false };
    double weights[256], sum = 0;

    FAST_ASSERT(count <= 256);
    for (int64_t k = 0; k < top; k++) {
        int64_t best = -1;

        for (int64_t i = 0; i < count; i++)
            if (!used[i] && (best < 0 || logits[i] > logits[best]))
                best = i;
        used[best] = true;
        chosen[k] = best;
        weights[k] = exp(((double)logits[best] - (double)logits[chosen[0]]) / o->temperature);
        sum += weights[k];
    }
    double left = (double)u * sum;
    for (int64_t k = 0; k < top; k++) {
        if (left < weights[k])
            return chosen[k];
        left -= weights[k];
    }
    return chosen[0];
}

/* Append a token to the window, which drops its first one when it is full. */
static void push(float *window, int64_t T, int64_t *used, int64_t token)
{
    if (*used == T) {
        memmove(window, window + 1, (size_t)(T - 1) * sizeof *window);
        *used = T - 1;
    }
    window[(*used)++] = (float)token;
}

/* Refuse models without characters, and numbers that have no meaning. */
static fast_err check_options(const fast_predictor *p, const fast_generate_options *o)
{
    FAST_TRY(fast__check_size("fast_generate_options", o->size, sizeof *o));
    if (!p->sizes.text || p->sizes.positions != p->sizes.inputs)
        return fast__fail(FAST_ENOTSUP, "the model is no language model of characters: it answers "
                                        "samples of data, and generates no text");
    if (!(o->temperature >= 0) || o->length < 0 || o->top_k < 0)
        return fast__fail(FAST_EINVAL, "length, temperature and top_k are 0 or more");
    return FAST_OK;
}

fast_err fast_predictor_generate(fast_predictor *predictor, const fast_generate_options *options,
                                 fast_generate_fn *put, void *ctx)
{
    const int64_t T = predictor->sizes.inputs, K = predictor->sizes.outputs;
    float *window = predictor->x;
    int64_t used = 0;

    FAST_TRY(check_options(predictor, options));
    FAST_TRY(read_prompt(predictor, options->prompt, window, &used));
    for (int64_t n = 0; n < options->length; n++) {
        fast_rng rng;

        /* Positions behind the text hold any token: the model does not look ahead. */
        memset(window + used, 0, (size_t)(T - used) * sizeof *window);
        FAST_TRY(fast__predictor_pass(predictor, 1, NULL, NULL, NULL));
        const float *logits = predictor->outputs + (used - 1) * K;
        fast__rng_init(&rng, (uint64_t)options->seed, FAST_PURPOSE_GENERATE, 0, (uint64_t)n, 0);
        const int64_t token = options->temperature > 0
                                  ? draw(logits, K, options, fast__rng_uniform(&rng))
                                  : fast__argmax(K, logits);
        if (!put(ctx, predictor->recipe->like->alphabet[token]))
            return FAST_OK;
        push(window, T, &used, token);
    }
    return FAST_OK;
}
