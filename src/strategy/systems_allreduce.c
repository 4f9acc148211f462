/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Systems of the families allreduce and quorum: synchronous training with one model at every step.
 * They differ in the algorithm of the sum, in the workers that a step waits for, and in the
 * schedule and optimizer for large batches.
 */
#include "strategy/systems.h"

#include <stddef.h>

const fast_system fast__systems_allreduce[] = {
    /* The reference, and overlap of sums with the backward pass. */
    {
        .name = "bsp",
        .title = "bulk synchronous parallel: the mean gradient of all workers at each step",
        .by = "Valiant 1990",
        .row = 37,
        .flags = "strategy=allreduce lr=0.1",
        FAST_TAXONOMY("DP", "central", "sync.", "allreduce", "any", "synchronous"),
        .remarks = "The reference of all comparisons: N workers of batch B compute the same as one "
                   "worker of batch N B.",
    },
    {
        .name = "pytorch-ddp",
        .title = "PyTorch DistributedDataParallel",
        .by = "Paszke et al. 2019; Li et al. 2020",
        .row = 17,
        .flags = "strategy=allreduce:overlap=yes,bucket=26214400 lr=0.1",
        FAST_TAXONOMY("MP + DP", "central", "sync.", "allreduce", "single or replicated PS",
                      "synchronous"),
        .remarks = "Buckets of gradients are reduced during the backward pass; the optimizer is "
                   "replicated. Model parallelism of PyTorch is not part of DDP.",
    },
    {
        .name = "sfb",
        .title = "sufficient factor broadcasting",
        .by = "Xie et al. 2015",
        .row = 90,
        .flags = "strategy=allreduce:factors=yes lr=0.1",
        FAST_TAXONOMY("DP", "decentral", "sync.", "broadcast", "full mesh", "synchronous"),
        .remarks = "Dense layers broadcast the sufficient factors of their gradients to all peers, "
                   "which multiply them out; at most 64 workers.",
    },
    /* Model states that are sharded: strategy zero. */
    {
        .name = "zero-1",
        .title = "ZeRO stage 1: sharded optimizer state",
        .by = "Rajbhandari et al. 2020",
        .row = 0,
        .flags = "strategy=zero:stage=1 optimizer=adam lr=0.001",
        FAST_TAXONOMY("DP", "central", "sync.", "reduce-scatter, allgather", "sharded PS",
                      "synchronous"),
        .remarks = "P_os: each worker updates its slices of the model with its slices of Adam's "
                   "state, and all gather them. The bits are those of bsp.",
        .missing = "mixed precision, ZeRO-R, offload to the host",
    },
    {
        .name = "zero-2",
        .title = "ZeRO stage 2: sharded gradients and optimizer state",
        .by = "Rajbhandari et al. 2020",
        .row = 0,
        .flags = "strategy=zero:stage=2 optimizer=adam lr=0.001",
        FAST_TAXONOMY("DP", "central", "sync.", "reduce-scatter, allgather", "sharded PS",
                      "synchronous"),
        .remarks = "P_os+g: gradients are summed to their owners bucket by bucket during the "
                   "backward pass, and dropped.",
        .missing = "mixed precision, ZeRO-R, offload to the host",
    },
    {
        .name = "zero-3",
        .title = "ZeRO stage 3: sharded parameters, gradients and optimizer state",
        .by = "Rajbhandari et al. 2020",
        .row = 0,
        .flags = "strategy=zero:stage=3 optimizer=adam lr=0.001",
        FAST_TAXONOMY("DP", "central", "sync.", "reduce-scatter, allgather", "sharded PS",
                      "synchronous"),
        .remarks = "P_os+g+p: parameters are gathered before a layer's forward and backward pass "
                   "and dropped afterwards.",
        .missing = "mixed precision, ZeRO-R, offload to the host",
    },
    {
        .name = "fsdp",
        .title = "PyTorch FullyShardedDataParallel",
        .by = "Zhao et al. 2023",
        .row = 0,
        .flags = "strategy=zero:stage=3 optimizer=adam lr=0.001",
        FAST_TAXONOMY("DP", "central", "sync.", "reduce-scatter, allgather", "sharded PS",
                      "synchronous"),
        .remarks = "FULL_SHARD: units of the flat parameters are gathered for each pass, the next "
                   "one ahead of time.",
        .missing = "mixed precision, hybrid sharding, offload to the host",
        .alias_of = "zero-3",
        .differs = "units follow modules that the user wraps; FAST cuts the flat parameters by "
                   "bytes for both",
    },
    /* Algorithms of the allreduce. */
    {
        .name = "horovod",
        .title = "Horovod: allreduce on a ring",
        .by = "Sergeev and Del Balso 2018",
        .row = 122,
        .flags = "strategy=allreduce:algorithm=ring,overlap=yes,bucket=67108864 lr=0.1",
        FAST_TAXONOMY("DP", "central", "sync.", "allreduce", "replicated PS", "synchronous"),
        .remarks =
            "Gradients are summed in buckets of 64 MiB as they become final. The buffer and cycle "
            "of tensor fusion are not here, nor the coordinator of tensors that are ready: "
            "workers make them final in one order.",
    },
    {
        .name = "baidu-ring",
        .title = "Baidu's ring allreduce",
        .by = "Gibiansky 2017",
        .row = 0,
        .flags = "strategy=allreduce:algorithm=ring,overlap=no lr=0.1",
        FAST_TAXONOMY("DP", "central", "sync.", "allreduce", "replicated PS", "synchronous"),
        .remarks = "The bandwidth-optimal ring allreduce of high performance computing, applied to "
                   "deep learning: one sum of the whole gradient.",
    },
    {
        .name = "caffe2",
        .title = "Caffe2: data parallelism by Gloo",
        .by = "Facebook 2017",
        .row = 3,
        .flags = "strategy=allreduce:algorithm=rabenseifner lr=0.1",
        FAST_TAXONOMY("DP", "central", "sync.", "allreduce", "replicated PS", "synchronous"),
        .remarks = "Recursive halving and doubling over all workers; corresponds to CaffeOnSpark "
                   "without servers.",
    },
    {
        .name = "chainermn",
        .title = "Chainer and ChainerMN",
        .by = "Tokui et al. 2015; Akiba et al. 2017",
        .row = 4,
        .flags = "strategy=allreduce:algorithm=hierarchical lr=0.1",
        FAST_TAXONOMY("DP", "central", "sync.", "allreduce", "replicated PS", "synchronous"),
        .remarks = "Reduces within a node first, then among nodes.",
    },
    /* Rounds that do not wait for all workers: the family quorum. */
    {
        .name = "a-bsp",
        .title = "A-BSP: a round ends when the fastest worker is done",
        .by = "Wang et al. 2018",
        .row = 33,
        .flags = "strategy=quorum:quorum=1,partial=yes lr=0.1 batch=4 accumulate=4",
        FAST_TAXONOMY("DP", "central", "sync.", "reduce, broadcast", "any", "synchronous"),
        .remarks = "Slower workers push the update of the fraction of their batch that they have "
                   "processed, here in quarters, and continue with the rest in the next round.",
    },
    {
        .name = "eager-sgd",
        .title = "Eager-SGD: partial collectives that add stale gradients later",
        .by = "Li et al. 2020",
        .row = 0,
        .flags = "strategy=quorum:backup=1,late=add lr=0.1",
        FAST_TAXONOMY("DP", "central", "sync.", "partial allreduce", "any", "synchronous"),
        .remarks = "A partial allreduce waits for a majority of workers or for the first one; here "
                   "for all but one. A late gradient is added to the next step.",
        .missing = "a majority of random initiators; the mean is over the gradients that arrived, "
                   "not over all workers",
    },
    /* Schedules and optimizers for large batches. */
    {
        .name = "linear-scaling",
        .title = "Linear scaling of the learning rate, with warm-up",
        .by = "Goyal et al. 2017",
        .row = 103,
        .flags = "strategy=allreduce lr=0.1 schedule=cosine:warmup=1,scale=64",
        FAST_TAXONOMY("DP", "central", "sync.", "allreduce", "replicated PS", "synchronous"),
        .remarks =
            "The learning rate grows linearly with the global batch, after a gradual warm-up "
            "in the first epoch. FAST's momentum does not contain the learning rate, so it "
            "needs no momentum correction.",
    },
    {
        .name = "lars-32k",
        .title = "LARS: a learning rate for each layer, for batches of 32k",
        .by = "You et al. 2017",
        .row = 104,
        .flags =
            "strategy=allreduce optimizer=lars lr=2.5 schedule=polynomial:power=2,warmup=1 batch=8",
        FAST_TAXONOMY("DP", "central", "sync.", "allreduce", "replicated PS", "synchronous"),
        .remarks = "Layer-wise adaptive rate scaling: the learning rate of a layer is proportional "
                   "to the norm of its weights over the norm of its gradient.",
    },
    {
        .name = "cyclic-lr",
        .title = "Cyclical learning rates",
        .by = "Smith 2017",
        .row = 107,
        .flags = "strategy=allreduce schedule=cyclic",
        FAST_TAXONOMY("DP", "central", "sync.", "allreduce", "replicated PS", "synchronous"),
        .remarks = "The learning rate cycles between two bounds, so no schedule has to be tuned. "
                   "Cosines with warm restarts (SGDR) are --schedule cosine:period=1,grow=2.",
    },
    {
        .name = "akiba",
        .title = "Extremely large minibatches",
        .by = "Akiba et al. 2017",
        .row = 109,
        .flags = "strategy=allreduce:algorithm=hierarchical "
                 "optimizer=rmsprop:momentum=0.9,sgd=200 lr=0.0005 schedule=polynomial:warmup=1",
        FAST_TAXONOMY("DP", "central", "sync.", "allreduce", "replicated PS", "synchronous"),
        .remarks =
            "ImageNet in 15 minutes on 1,024 GPUs: RMSProp warm-up with a transition to SGD. "
            "Its slow-start schedule of 90 epochs is --schedule "
            "pieces:at=40/70/85,factors=0.5/0.075/0.01/0.001. Batch normalisation has "
            "moving averages here; the paper's has none.",
    },
    {
        .name = "powerai-ddl",
        .title = "PowerAI DDL: allreduce over the dimensions of the network",
        .by = "Cho et al. 2017",
        .row = 0,
        .flags = "strategy=allreduce:algorithm=dimensions lr=0.1",
        FAST_TAXONOMY("DP", "central", "sync.", "allreduce", "replicated PS", "synchronous"),
        .remarks = "Rings along one dimension after the other, each on the slices that the one "
                   "before left: few bytes on the slow links. dimensions:sizes=4x8x2 sets any "
                   "number of sides.",
    },
    {
        .name = "mariana",
        .title = "Mariana: a chain of GPUs",
        .by = "Zou et al. 2014",
        .row = 130,
        .flags = "strategy=allreduce:algorithm=chain lr=0.1",
        FAST_TAXONOMY("DP", "central", "sync.", "chain", "line", "synchronous"),
        .remarks = "Gradients are passed along a line of workers in chunks, each of which adds its "
                   "own, and their sum is passed back. Its split of convolutional networks and its "
                   "cluster of CPUs for speech are not here.",
    },
    { .name = NULL },
};
