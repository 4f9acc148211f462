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
        .flags = "strategy=allreduce mesh=pipe=2 pipeline=gpipe recompute=yes accumulate=8 batch=4 "
                 "lr=0.1",
        FAST_TAXONOMY("MP + DP", "central", "sync.", "activations, allreduce", "chain",
                      "synchronous"),
        .remarks =
            "A step drains the pipeline, so the gradient is that of one worker; stages wait "
            "for (S - 1) / (M + S - 1) of it with M micro-batches. Activations inside a stage "
            "are computed again in the backward pass.",
    },
    {
        .name = "pipedream-flush",
        .title = "1F1B with a flush: one forward and one backward pass in turn",
        .by = "Narayanan et al. 2021",
        .row = 0,
        .flags = "strategy=allreduce mesh=pipe=2 pipeline=1f1b accumulate=8 batch=4 lr=0.1",
        FAST_TAXONOMY("MP + DP", "central", "sync.", "activations, allreduce", "chain",
                      "synchronous"),
        .remarks = "The steps and the bubble of GPipe with at most as many activations as stages; "
                   "the schedule of Megatron-LM's pipelines.",
    },
    {
        .name = "interleaved-1f1b",
        .title = "Interleaved 1F1B: each worker has several stages",
        .by = "Narayanan et al. 2021",
        .row = 0,
        .flags = "strategy=allreduce mesh=pipe=2 pipeline=interleaved chunks=2 accumulate=8 "
                 "batch=4 lr=0.1",
        FAST_TAXONOMY("MP + DP", "central", "sync.", "activations, allreduce", "ring",
                      "synchronous"),
        .remarks = "Micro-batches go through the workers V times, in groups of S: stages wait for "
                   "(S - 1) / (V M + S - 1) of a step, for V times the messages of 1F1B.",
    },
    {
        .name = "zero-bubble",
        .title = "Zero bubble: gradients of weights fill the end of 1F1B (ZB-H1)",
        .by = "Qi et al. 2023",
        .row = 0,
        .flags = "strategy=allreduce mesh=pipe=2 pipeline=zero_bubble accumulate=8 batch=4 lr=0.1",
        FAST_TAXONOMY("MP + DP", "central", "sync.", "activations, allreduce", "chain",
                      "synchronous"),
        .remarks = "Gradients of values are sent on first; those of weights follow when there is "
                   "time. The bubble is (S - 1) (F + B - W), a third of 1F1B's with equal passes.",
        .missing = "ZB-H2 and ZB-V, schedules found by search, validation of the norm behind the "
                   "update",
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
                   "with gradients that are S - 1 - s updates old. vertical_sync=yes is its "
                   "vertical sync, cuts=measured its partition by measured profiles. With "
                   "mesh=pipe=2,replicas=2x1 accumulate=2 the first stage has two workers, to "
                   "which micro-batches go round-robin.",
        .missing = "a partition that chooses the numbers of replicas too; of stages with different "
                   "numbers those with fewer update after a round, not after each of their own",
    },
    {
        .name = "pipedream-2bw",
        .title =
            "PipeDream-2BW: a pipeline that is never drained, with two versions of the weights",
        .by = "Narayanan et al. 2021",
        .row = 0,
        .flags = "strategy=allreduce mesh=pipe=2 pipeline=pipedream_2bw accumulate=4 batch=4 "
                 "lr=0.05",
        FAST_TAXONOMY("MP + DP", "central", "bounded", "activations, allreduce", "chain",
                      "bounded"),
        .remarks = "All stages update after some micro-batches, with the gradient at the weights "
                   "before the last update; one older version is stored.",
        .missing =
            "its planner of stages, micro-batches and recomputation: fast plan searches these "
            "for 1f1b, gpipe and pipedream",
    },
    {
        .name = "stale-pipeline",
        .title = "Mini-batch pipelining: stages without flush and without older weights",
        .by = "Langer et al. 2020, 3.1.1",
        .row = 140,
        .flags = "strategy=allreduce mesh=pipe=2 pipeline=stale batch=8 lr=0.025",
        FAST_TAXONOMY("MP + DP", "central", "bounded", "activations, allreduce", "chain",
                      "bounded"),
        .remarks = "The forward pass of a batch at stage s uses weights that are S - 1 - s updates "
                   "older than those of its backward pass.",
    },
    {
        .name = "pipelined-backprop",
        .title = "Pipelined backpropagation: a layer on each device, delayed updates",
        .by = "Petrowski et al. 1993; Chen et al. 2012",
        .row = 152,
        .flags = "strategy=allreduce model=mlp:hidden=256 mesh=pipe=2 pipeline=stale pipe_delay=2 "
                 "batch=8 lr=0.025",
        FAST_TAXONOMY("MP + DP", "central", "bounded", "activations, allreduce", "chain",
                      "bounded"),
        .remarks = "Each stage has one dense layer and runs the forward pass of one batch and the "
                   "backward pass of an older one in a period, so that messages have a period of "
                   "time: layer s updates with gradients that are 2 (S - 1 - s) updates late.",
        .missing = "the output layer alone on several devices: tensor=2 with "
                   "layout=output=vocabulary stripes it, and gives all layers as many devices",
    },
    {
        .name = "spectrain",
        .title = "SpecTrain: a stale pipeline whose forward passes use predicted weights",
        .by = "Chen, Yang and Cheng 2018",
        .row = 0,
        .flags = "strategy=allreduce mesh=pipe=2 pipeline=stale pipe_extrapolate=forward batch=8 "
                 "lr=0.025",
        FAST_TAXONOMY("MP + DP", "central", "bounded", "activations, allreduce", "chain",
                      "bounded"),
        .remarks = "The forward pass at stage s uses w - k lr v, with k = S - 1 - s updates to "
                   "come and the momentum v: an estimate of the weights of the backward pass.",
    },
    {
        .name = "pipemare",
        .title = "PipeMare: a stale pipeline with rescheduled rates and corrected weights",
        .by = "Yang et al. 2021",
        .row = 0,
        .flags = "strategy=allreduce mesh=pipe=2 pipeline=stale pipe_delay=2 "
                 "pipe_extrapolate=backward pipe_lr_steps=200 batch=8 lr=0.025",
        FAST_TAXONOMY("MP + DP", "central", "bounded", "activations, allreduce", "chain",
                      "bounded"),
        .remarks = "A stage divides its learning rate by its staleness at first, and its backward "
                   "passes use an estimate of the weights of the forward pass by the mean change "
                   "of an update.",
        .missing = "first epochs that are synchronous, recomputed activations with a third "
                   "estimate of the weights",
    },
    {
        .name = "ampnet",
        .title = "AMPNet: stages that act on messages as they come, and update by themselves",
        .by = "Gaunt et al. 2017",
        .row = 150,
        .flags =
            "strategy=allreduce mesh=pipe=2 pipeline=ampnet pipe_active=4 accumulate=2 batch=4 "
            "lr=0.025",
        FAST_TAXONOMY("MP + DP", "central", "async.", "activations", "chain", "asynchronous"),
        .remarks = "A stage runs the pass of whatever message is there, gradients first, and "
                   "updates after accumulate gradients; at most pipe_active micro-batches are in "
                   "flight.",
        .missing = "an intermediate representation with branches, loops and joins of messages, "
                   "whose control flow depends on the sample",
    },
    {
        .name = "megatron",
        .title = "Megatron-LM: pairs of layers split by columns and by rows",
        .by = "Shoeybi et al. 2019",
        .row = 0,
        .flags = "strategy=allreduce mesh=tensor=2 batch=32 lr=0.1",
        FAST_TAXONOMY("MP + DP", "central", "sync.", "allreduce of activations", "any",
                      "synchronous"),
        .remarks =
            "The first layer of a pair is split by its outputs, or by heads, the second by its "
            "inputs: one sum of activations forward and one backward.",
        .missing = "embeddings and the loss over split vocabularies: they are of layout, with "
                   "embed=vocabulary and output=vocabulary, and not in the preset",
    },
    {
        .name = "megatron-sp",
        .title = "Megatron-LM with sequence parallelism: norms and dropout by positions",
        .by = "Korthikanti et al. 2022",
        .row = 0,
        .flags = "strategy=allreduce model=gpt data=copy mesh=tensor=2 "
                 "layout=embed=vocabulary,output=vocabulary,sequence batch=16 lr=0.1",
        FAST_TAXONOMY("MP + DP", "central", "sync.", "gather and scatter of activations", "any",
                      "synchronous"),
        .remarks = "A pair's sum is a scatter before layers on own positions and a gather behind "
                   "them: the same bytes, and less activations.",
        .missing = "gathering the input of a pair once more in the backward pass instead of "
                   "storing it, selective recomputation",
    },
    {
        .name = "ulysses",
        .title = "DeepSpeed-Ulysses: sequences in slices, attention by heads",
        .by = "Jacobs et al. 2023",
        .row = 0,
        .flags = "strategy=allreduce model=gpt data=copy mesh=tensor=2 layout=ulysses batch=16 "
                 "lr=0.1",
        FAST_TAXONOMY("MP + DP", "central", "sync.", "all-to-all, allreduce", "any", "synchronous"),
        .remarks = "Queries, keys and values change from slices of positions to slices of heads by "
                   "all-to-all, and back; weights are whole at each worker.",
        .missing = "ZeRO 3 over the workers of a sequence, sparse attention",
    },
    {
        .name = "krizhevsky",
        .title = "One weird trick: data-parallel convolutions, model-parallel dense layers",
        .by = "Krizhevsky 2014",
        .row = 142,
        .flags = "strategy=allreduce model=alexnet:width=16,hidden=256 mesh=tensor=2 "
                 "layout=conv=samples,output=vocabulary,dense=pairs batch=16 accumulate=2 lr=0.02",
        FAST_TAXONOMY("MP + DP", "central", "sync.", "activations, allreduce", "any",
                      "synchronous"),
        .remarks = "Scheme (c): each micro-batch has as many samples of each worker, whose "
                   "activations are gathered before the dense layers; accumulate=1 is scheme (a), "
                   "all samples at once. Dense layers exchange sums of pairs and figures of "
                   "classes.",
        .missing = "scheme (b), in which one worker at a time sends all its samples; exchanges "
                   "while the batch before is computed; a step of the dense layers after each part "
                   "of a batch",
    },
    {
        .name = "ring-attention",
        .title = "Ring attention: keys and values go round, queries stay",
        .by = "Liu, Zaharia and Abbeel 2023",
        .row = 0,
        .flags = "strategy=allreduce model=gpt data=copy mesh=tensor=2 layout=ring batch=16 "
                 "lr=0.1",
        FAST_TAXONOMY("MP + DP", "central", "sync.", "keys and values, allreduce", "ring",
                      "synchronous"),
        .remarks = "A worker has the activations of its slice of the sequence alone; blocks of "
                   "keys and values visit it, backward with their gradients.",
        .missing = "moves of blocks while the block before is computed, feed-forward layers in "
                   "blocks",
    },
    {
        .name = "cots-hpc",
        .title = "COTS HPC: locally connected layers on a distributed array",
        .by = "Coates et al. 2013",
        .row = 5,
        .flags = "strategy=allreduce model=cots mesh=tensor=2 layout=local=spatial batch=32 lr=0.2",
        FAST_TAXONOMY("MP", "central", "sync.", "halo exchange", "any", "synchronous"),
        .remarks = "Images, activations and filters are split by rows; a worker fetches the rows "
                   "that its windows reach beyond its own. tensor=T is the number of partitions.",
        .missing = "partitions along columns or both dimensions, L2 pooling, local contrast "
                   "normalisation, training without labels by reconstruction",
    },
    {
        .name = "mesh-tensorflow",
        .title = "Mesh-TensorFlow: dimensions of tensors mapped to dimensions of a mesh",
        .by = "Shazeer et al. 2018",
        .row = 141,
        .flags = "strategy=allreduce model=gpt data=copy mesh=data=2,tensor=2 "
                 "layout=vocab,heads,hidden batch=16 lr=0.1",
        FAST_TAXONOMY("MP + DP", "central", "sync.", "allreduce of activations", "mesh",
                      "synchronous"),
        .remarks = "The paper's Transformer: batch over data; vocabulary, hidden units and heads "
                   "over tensor. Another layout changes what is exchanged, never what is computed; "
                   "collectives are inserted where the layout of a value changes.",
        .missing = "dimensions that the user names: those of the layers have fixed names; a tensor "
                   "split along two dimensions of the mesh besides data and pipe",
    },
    {
        .name = "cannon",
        .title = "Cannon's product: dense layers in blocks on a square of workers",
        .by = "Cannon 1969",
        .row = 154,
        .flags = "strategy=allreduce mesh=tensor=4 layout=dense=cannon batch=64 lr=0.1",
        FAST_TAXONOMY("MP", "central", "sync.", "shifts of blocks", "grid", "synchronous"),
        .remarks =
            "Blocks of inputs and of weights move along rows and columns of the grid, sqrt(T) "
            "- 1 times each, and back with their gradients. Windows with halo exchange: "
            "cots-hpc and layout=conv=spatial; redundant rows and tiles: "
            "layout=conv=redundant, cots:tile=2; 1.5D products: 1-5d.",
        .missing = "blocks that stay blocks from layer to layer: values between layers are whole",
    },
    {
        .name = "1-5d",
        .title = "1.5D products: weights in parts on some workers, samples on others",
        .by = "Gholami et al. 2018",
        .row = 0,
        .flags = "strategy=allreduce mesh=data=2,tensor=2 layout=dense=outputs batch=32 lr=0.1",
        FAST_TAXONOMY("MP + DP", "central", "sync.", "gather and sum of activations, allreduce",
                      "grid", "synchronous"),
        .remarks = "On a grid of batch and model, tensor=T shards have the outputs of a layer and "
                   "data=R replicas the samples; weights are summed over the R copies.",
        .missing = "the paper's cost model of grids: fast plan with layout=dense=outputs chooses "
                   "one by dry runs",
    },
    {
        .name = "micro-batches",
        .title = "mu-cuDNN, ZNNi: a batch in the micro-batches that the machine computes fastest",
        .by = "Oyama et al. 2018; Zlateski, Lee and Seung 2016",
        .row = 155,
        .flags = "strategy=allreduce micro_batch=auto lr=0.1",
        FAST_TAXONOMY("DP", "central", "sync.", "allreduce", "any", "synchronous"),
        .remarks = "Sizes are measured with the kernels that the plan chooses for them, and chosen "
                   "by dynamic programming within --memory; the gradient is that of the batch. A "
                   "pass has one sequence of sizes for all layers.",
    },
    {
        .name = "switch-transformer",
        .title = "Switch Transformer: one expert a position, experts over workers",
        .by = "Fedus et al. 2021",
        .row = 0,
        .flags = "strategy=allreduce model=gpt:experts=4,every=2 data=copy mesh=tensor=2 batch=16 "
                 "lr=0.1",
        FAST_TAXONOMY("MP + DP", "central", "sync.", "all-to-all, allreduce", "any", "synchronous"),
        .remarks = "Each second block has experts with the capacity 1.25 and the paper's loss of "
                   "balance; each worker has some experts and routes its own samples.",
        .missing = "noise in the router, selective precision, dropout of experts",
    },
    {
        .name = "gshard",
        .title = "GShard: two experts a position, experts over workers",
        .by = "Lepikhin et al. 2020",
        .row = 0,
        .flags = "strategy=allreduce model=gpt:experts=4,every=2,top=2,capacity=1 data=copy "
                 "mesh=tensor=2 batch=16 lr=0.1",
        FAST_TAXONOMY("MP + DP", "central", "sync.", "all-to-all, allreduce", "any", "synchronous"),
        .remarks = "An expert has 2 T / E slots for a group of T positions, first choices before "
                   "second ones; groups are samples.",
        .missing = "the random choice whether a second expert is asked, groups of several samples",
    },
    {
        .name = "treenets",
        .title = "TreeNets: branches on a shared trunk, one on each device",
        .by = "Lee et al. 2015",
        .row = 153,
        .flags = "strategy=allreduce mesh=tensor=2 model=treenet:branches=4 batch=64 lr=0.1",
        FAST_TAXONOMY("MP + DP", "central", "sync.", "allreduce of activations", "tree",
                      "synchronous"),
        .remarks =
            "The loss is that of the mean of the members' probabilities. Shards have the trunk and "
            "their members each; the trunk's gradient is the sum over all branches. Multiple "
            "choice learning is treenet:loss=best with layout=concat=branches.",
    },
    {
        .name = "deep-stacking",
        .title = "Deep stacking networks: modules on the input and all answers below",
        .by = "Deng, Yu and Platt 2012",
        .row = 151,
        .flags = "strategy=allreduce mesh=pipe=2 model=dsn:modules=4 accumulate=8 batch=8 lr=0.1",
        FAST_TAXONOMY("MP + DP", "central", "sync.", "activations, allreduce", "chain",
                      "synchronous"),
        .remarks = "Each module has a loss of its own, and no gradient passes to those below it; "
                   "stages have consecutive modules.",
        .missing = "upper weights of a module in closed form: all follow the gradient",
    },
    {
        .name = "streaming-rollout",
        .title = "Streaming rollout: every edge has a delay, and all layers compute each frame",
        .by = "Fischer, Koehler and Pfeil 2018",
        .row = 147,
        .flags = "strategy=allreduce model=rollout:hidden=64x64 mesh=tensor=2 layout=streaming "
                 "batch=32 lr=0.05",
        FAST_TAXONOMY("MP", "central", "sync.", "outputs of a frame", "chain", "synchronous"),
        .remarks = "Each layer reads the frame before, so that all layers of a frame, each on one "
                   "worker, compute at once, and S workers with equal layers take 1 / S of the "
                   "time. rollout:pattern=1x0x1 gives edges a delay or none, skip=output early "
                   "answers; frames before the first answer do not count.",
        .missing = "convolutions over frames, edges from later layers to earlier ones, skip edges "
                   "between workers: layers with them are computed by each",
    },
    {
        .name = "strads",
        .title = "STRADS: scheduled blocks of nearly independent variables",
        .by = "Kim et al. 2016",
        .row = 149,
        .flags = "strategy=strads:blocks=32,scheduled=16,candidates=32,dependency=1 optimizer=sgd "
                 "lr=0.2 batch=4",
        FAST_TAXONOMY("MP", "central", "sync.", "allreduce of blocks", "any", "synchronous"),
        .remarks = "Schedule: blocks that changed most are drawn, and those that depend on each "
                   "other by measured curvature left out. Update and aggregate: gradients of the "
                   "chosen blocks are summed. newton=yes with l1 is the paper's Lasso.",
        .missing = "workers that hold and compute the scheduled variables alone: each has the "
                   "whole model and computes its whole gradient",
    },
    { .name = NULL },
};
