/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which step an operator of the graph becomes.
 */
#include "engine/cpu/cpu.h"

/* Several operators may share a kind of step; a flatten is a step only where rows must move. */
const fast_cpu_op *fast__cpu_op_find(fast_op op)
{
    static const fast_cpu_op *const ops[FAST_OP_COUNT] = {
        [FAST_OP_INPUT] = &fast__cpu_input,
        [FAST_OP_DENSE] = &fast__cpu_dense,
        [FAST_OP_RELU] = &fast__cpu_act,
        [FAST_OP_LEAKY_RELU] = &fast__cpu_act,
        [FAST_OP_TANH] = &fast__cpu_act,
        [FAST_OP_SIGMOID] = &fast__cpu_act,
        [FAST_OP_GELU] = &fast__cpu_act,
        [FAST_OP_ADD] = &fast__cpu_add,
        [FAST_OP_CONCAT] = &fast__cpu_concat,
        [FAST_OP_LAST] = &fast__cpu_last,
        [FAST_OP_CONV] = &fast__cpu_conv,
        [FAST_OP_MAX_POOL] = &fast__cpu_max_pool,
        [FAST_OP_AVG_POOL] = &fast__cpu_avg_pool,
        [FAST_OP_GLOBAL_POOL] = &fast__cpu_global_pool,
        [FAST_OP_BATCH_NORM] = &fast__cpu_batch_norm,
        [FAST_OP_LAYER_NORM] = &fast__cpu_layer_norm,
        [FAST_OP_SOFTMAX] = &fast__cpu_softmax,
        [FAST_OP_DROPOUT] = &fast__cpu_dropout,
        [FAST_OP_EMBED] = &fast__cpu_embed,
        [FAST_OP_RNN] = &fast__cpu_recurrent,
        [FAST_OP_LSTM] = &fast__cpu_recurrent,
        [FAST_OP_GRU] = &fast__cpu_recurrent,
        [FAST_OP_ATTENTION] = &fast__cpu_attention,
        [FAST_OP_MAP] = &fast__cpu_custom,
        [FAST_OP_ARITH] = &fast__cpu_custom,
        [FAST_OP_SCALE] = &fast__cpu_custom,
        [FAST_OP_SHIFT] = &fast__cpu_custom,
        [FAST_OP_MATMUL] = &fast__cpu_custom,
        [FAST_OP_TRANSPOSE] = &fast__cpu_custom,
        [FAST_OP_RESHAPE] = &fast__cpu_custom,
        [FAST_OP_SLICE] = &fast__cpu_custom,
        [FAST_OP_REDUCE] = &fast__cpu_custom,
        [FAST_OP_LOG_SOFTMAX] = &fast__cpu_custom,
        [FAST_OP_HEAD] = &fast__cpu_head,
        [FAST_OP_DETACH] = &fast__cpu_add, /* a copy; its gradient is never asked for */
        [FAST_OP_ROUTE] = &fast__cpu_custom,
        [FAST_OP_DISPATCH] = &fast__cpu_custom,
        [FAST_OP_COMBINE] = &fast__cpu_custom,
        [FAST_OP_PART] = &fast__cpu_last,
        [FAST_OP_EXPERTS] = &fast__cpu_experts,
        [FAST_OP_LOCAL] = &fast__cpu_local,
        [FAST_OP_DELAY] = &fast__cpu_custom,
        [FAST_OP_REPEAT] = &fast__cpu_custom,
        [FAST_OP_CUSTOM] = &fast__cpu_custom,
        [FAST_OP_CLASS_FIGURES] = &fast__cpu_classes,
        [FAST_OP_ATTENTION_CORE] = &fast__cpu_attention_core,
        [FAST_OP_EXCHANGE] = &fast__cpu_exchange,
        [FAST_OP_FLATTEN] = &fast__cpu_permute, /* where it is a step at all */
    };

    FAST_ASSERT(op >= 0 && op < FAST_OP_COUNT);
    return ops[op];
}
