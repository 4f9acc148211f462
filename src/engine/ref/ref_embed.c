/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Embedding: tokens [T], whole numbers in floats, become rows of a table: y[t] = W[x[t]], plus P[t]
 * with a position table P. Backward: dW[x[t]] += dy[t], rows of absent tokens are 0; dP[t] is the
 * sum over samples. Tokens have no gradient. The pass's tokens were checked before; an embedding of
 * any other input than the graph's rounds down and is clamped to the table.
 */
#include "engine/ref/ref.h"

#include <string.h>

/* Return the row of the table for a token; clamped to the table, and -1 where the node has a part
 * of the table without it. The comparison is written so that NaN becomes row 0. */
static int64_t row_of(const fast_ref_call *call, float token, int64_t C)
{
    const int64_t own = fast__ref_weight_count(call->graph, call->node, FAST_W_WEIGHT) / C;
    const int64_t rows = call->node->columns[1] > 0 ? call->node->columns[1] : own;
    const int64_t row = !(token >= 0.0F) ? 0 : token < (float)rows ? (int64_t)token : rows - 1;
    const int64_t at = row - call->node->columns[0];
    return at >= 0 && at < own ? at : -1;
}

/* Copy the row of each token, plus the row of its position. */
static void embed_forward(fast_ref_call *call)
{
    const int64_t T = call->node->shape[0];
    const int64_t C = call->node->shape[1];
    const float *w = fast__ref_weight(call, FAST_W_WEIGHT);
    const float *p = fast__ref_weight(call, FAST_W_BIAS);
    for (int64_t i = 0; i < call->n * T; i++) {
        const int64_t row = row_of(call, call->x[0][i], C);
        for (int64_t c = 0; c < C; c++)
            call->y[i * C + c] = (row < 0 ? 0.0F : w[row * C + c]) + (p ? p[i % T * C + c] : 0.0F);
    }
}

/* Rows of tokens that do not occur have a gradient of 0. */
static void embed_backward(fast_ref_call *call)
{
    const int64_t T = call->node->shape[0];
    const int64_t C = call->node->shape[1];
    const int64_t count = fast__ref_weight_count(call->graph, call->node, FAST_W_WEIGHT);
    float *dw = fast__ref_grad(call, FAST_W_WEIGHT);
    float *dp = fast__ref_grad(call, FAST_W_BIAS);
    memset(dw, 0, (size_t)count * sizeof(float));
    if (dp)
        memset(dp, 0, (size_t)(T * C) * sizeof(float));
    for (int64_t i = 0; i < call->n * T; i++) {
        const int64_t row = row_of(call, call->x[0][i], C);
        for (int64_t c = 0; row >= 0 && c < C; c++)
            dw[row * C + c] += call->dy[i * C + c];
        for (int64_t c = 0; dp && c < C; c++)
            dp[i % T * C + c] += call->dy[i * C + c];
    }
}

const fast_ref_op fast__ref_embed = { NULL, embed_forward, embed_backward };
