/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Systems that split the model: pipelines of stages, and shards of tensors. Pipelines differ in the
 * order of passes, in what is in flight, and in the age of the weights that a gradient is of. Two
 * stages or shards are what the smallest machine has cores for; --mesh data=D,pipe=S,tensor=T gives
 * others.
 */
#include "strategy/systems.h"

#include <stddef.h>

const fast_system fast__systems_split[] = {
    {
        .name = "gpipe",
        .title = "GPipe: micro-batches through stages, all forward, then all backward",
        .by = "Huang et al. 2019",
        .row = 138,
        .flags = "strategy=allreduce mesh=pipe=2 pipeline=gpipe accumulate=8 batch=8 lr=0.1",
        FAST_TAXONOMY("MP + DP", "central", "sync.", "activations, allreduce", "chain",
                      "synchronous"),
        .remarks = "A step drains the pipeline, so the gradient is that of one worker; stages wait "
                   "for (S - 1) / (M + S - 1) of it with M micro-batches.",
        .missing = "recomputation of the activations of a stage in the backward pass",
    },
    {
        .name = "pipedream-flush",
        .title = "1F1B with a flush: one forward and one backward pass in turn",
        .by = "Narayanan et al. 2021",
        .row = 0,
        .flags = "strategy=allreduce mesh=pipe=2 pipeline=1f1b accumulate=8 batch=8 lr=0.1",
        FAST_TAXONOMY("MP + DP", "central", "sync.", "activations, allreduce", "chain",
                      "synchronous"),
        .remarks = "The steps and the bubble of GPipe with at most as many activations as stages; "
                   "the schedule of Megatron-LM's pipelines.",
    },
    {
        .name = "pipedream",
        .title = "PipeDream: a pipeline that is never drained, with stashed weights",
        .by = "Narayanan et al. 2019",
        .row = 139,
        .flags = "strategy=allreduce mesh=pipe=2 pipeline=pipedream batch=8 lr=0.025",
        FAST_TAXONOMY("MP + DP", "central", "bounded", "activations, allreduce", "chain",
                      "bounded"),
        .remarks = "Both passes of a batch use the weights of its forward pass; stage s updates "
                   "with gradients that are S - 1 - s updates old.",
        .missing = "stages with replicas of different numbers, a partition by measured profiles, "
                   "vertical sync",
    },
    {
        .name = "megatron",
        .title = "Megatron-LM: pairs of layers split by columns and by rows",
        .by = "Shoeybi et al. 2019",
        .row = 0,
        .flags = "strategy=allreduce mesh=tensor=2 batch=64 lr=0.1",
        FAST_TAXONOMY("MP + DP", "central", "sync.", "allreduce of activations", "any",
                      "synchronous"),
        .remarks =
            "The first layer of a pair is split by its outputs, or by heads, the second by its "
            "inputs: one sum of activations forward and one backward.",
        .missing = "split embeddings, and the loss over split vocabularies",
    },
    { .name = NULL },
};
