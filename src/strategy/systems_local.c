/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Systems of the families local and federated: every worker trains alone for a period, then models
 * are averaged. They differ in the period and in the outer step on the average.
 */
#include "strategy/systems.h"

#include <stddef.h>

const fast_system fast__systems_local[] = {
    /* The mean of models, every few steps or once. */
    {
        .name = "sparknet",
        .title = "SparkNet: local steps, then the mean of all models",
        .by = "Moritz et al. 2016",
        .row = 18,
        .flags = "strategy=local:period=50,master=tree "
                 "optimizer=momentum:weight_decay=0.0005 lr=0.025 batch=4",
        FAST_TAXONOMY("DP", "decentral", "sync.", "reduce", "dedicated master node", "periodic"),
        .remarks =
            "Caffe solvers, in the paper under Spark's map-reduce: a master broadcasts the model, "
            "and after 50 "
            "local steps, which amortise the cost of a slow network, it averages the workers'. "
            "Momentum stays at its worker.",
    },
    {
        .name = "deeplearning4j",
        .title = "deeplearning4j: parameter averaging",
        .by = "Eclipse 2014",
        .row = 19,
        .flags = "strategy=local:period=5,state=average,master=tree lr=0.1",
        FAST_TAXONOMY("DP", "decentral", "sync.", "reduce", "dedicated master node", "periodic"),
        .remarks = "A master averages parameters every 5 steps, in the original under Spark, and "
                   "the optimizer's "
                   "state too. Its other mode is deeplearning4j-sharing.",
    },
    {
        .name = "deeplearning4j-sharing",
        .title = "deeplearning4j: gradient sharing",
        .by = "Eclipse 2017",
        .row = 0,
        .flags = "strategy=partial:how=parts,parts=1 codec=threshold:tau=0.01+entropy "
                 "optimizer=sgd lr=0.4 batch=8",
        FAST_TAXONOMY("DP", "central", "async.", "ad hoc", "full mesh", "asynchronous"),
        .remarks =
            "Its asynchronous mode: updates of Strom's threshold to all other workers, which "
            "apply them when they arrive.",
        .missing = "thresholds that change during a run, and a bitmap for messages with many "
                   "elements",
    },
    {
        .name = "parallel-sgd",
        .title = "ParallelSGD: independent runs that are averaged once",
        .by = "Zinkevich et al. 2010",
        .row = 47,
        .flags = "strategy=local:period=0 optimizer=sgd lr=0.2",
        FAST_TAXONOMY("DP", "decentral", "sync.", "reduce", "none until the end", "none"),
        .remarks =
            "One average at the end of the run. Proved for convex losses; networks that diverge "
            "have no useful mean.",
    },
    {
        .name = "model-averaging",
        .title = "Model averaging every k steps",
        .by = "McDonald et al. 2010; Povey et al. 2014",
        .row = 48,
        .flags = "strategy=local:period=8 lr=0.1",
        FAST_TAXONOMY("DP", "decentral", "sync.", "allreduce", "any", "periodic"),
        .remarks = "Between synchronous SGD (k = 1) and ParallelSGD (k = all).",
    },
    /* An outer step on the mean, and rounds of clients. */
    {
        .name = "bmuf",
        .title = "BMUF: blockwise model update filtering",
        .by = "Chen and Huo 2016",
        .row = 46,
        .flags =
            "strategy=local:period=16,outer=nesterov,momentum=0.75,rate=1 optimizer=sgd lr=0.2",
        FAST_TAXONOMY("DP", "decentral", "sync.", "allreduce", "any", "periodic"),
        .remarks = "Block momentum compensates for the smaller step of an average; 1 - 1/P suits P "
                   "workers, and 0.75 is for 4.",
    },
    {
        .name = "fedavg",
        .title = "FedAvg: federated averaging",
        .by = "McMahan et al. 2017",
        .row = 159,
        .flags = "strategy=federated:part=0.75,over=1,epochs=1 shard=contiguous optimizer=sgd "
                 "lr=0.2 batch=4",
        FAST_TAXONOMY("DP", "decentral", "sync.", "reduce", "star", "periodic"),
        .remarks = "In each round a random fraction of the devices (federated:part) takes "
                   "federated:epochs passes over its own data; models are averaged with weights "
                   "n_k/n. Give --shard dirichlet for unequal, non-IID data.",
    },
    {
        .name = "federated-scale",
        .title = "Federated learning at scale",
        .by = "Bonawitz et al. 2019",
        .row = 35,
        .flags = "strategy=federated:part=0.5,over=1.3,window=60,least=0.8,epochs=1,pace=yes "
                 "shard=contiguous optimizer=sgd lr=0.2 batch=4",
        FAST_TAXONOMY("DP", "decentral", "sync.", "reduce", "star", "periodic"),
        .remarks = "1.3 times as many devices are selected as reports are needed; those that "
                   "report late, or after federated:window seconds, are left out, and a round with "
                   "too few reports is abandoned. Pace steering tells devices when to come back. "
                   "Reports are not encrypted: the paper's secure aggregation is an option of its "
                   "system.",
    },
    /* Updates by several gradients: batches that are fixed or grow. */
    {
        .name = "bunch",
        .title = "Bunch mode: several gradients make one update",
        .by = "Farber and Asanovic 1997",
        .row = 119,
        .flags = "strategy=local:period=4,delay=yes lr=0.1 batch=4",
        FAST_TAXONOMY("DP", "central", "sync.", "allreduce", "any", "synchronous"),
        .remarks =
            "Gradients of four steps are accumulated before they are exchanged: fewer messages "
            "and larger batches.",
    },
    {
        .name = "batch-growth",
        .title = "Increase the batch size instead of decaying the learning rate",
        .by = "Smith et al. 2018",
        .row = 105,
        .flags = "strategy=local:period=1,delay=yes,grow=1,longest=16 schedule=constant",
        FAST_TAXONOMY("DP", "central", "sync.", "allreduce", "any", "synchronous"),
        .remarks = "The number of gradients in an update doubles with every epoch, up to 16 "
                   "(local:grow, factor); the learning rate is constant. "
                   "local:milestones=2+5+7 grows it at epochs of unequal distances.",
    },
    {
        .name = "variance-batch",
        .title = "A batch that grows with the variance of gradients",
        .by = "Friedlander and Schmidt 2012; Byrd et al. 2012",
        .row = 106,
        .flags =
            "strategy=local:period=1,delay=yes,noise=1,longest=4 lr=0.1 schedule=constant batch=8",
        FAST_TAXONOMY("DP", "central", "sync.", "allreduce", "any", "synchronous"),
        .remarks =
            "The batch doubles when the standard deviation of the mean gradient, estimated from "
            "the workers' gradients, exceeds its norm; a single worker's stays as it is.",
    },
    {
        .name = "adaptive-batch",
        .title = "Batch sizes by an estimate of the noise",
        .by = "Orr 1996",
        .row = 108,
        .flags = "strategy=local:period=1,delay=yes,noise=1,shrink=yes,longest=4 lr=0.1 "
                 "schedule=constant batch=8",
        FAST_TAXONOMY("DP", "central", "sync.", "allreduce", "any", "synchronous"),
        .remarks = "The batch grows when the deviation of the mean gradient exceeds its norm, and "
                   "shrinks when that of half the batch would not. One estimate and one batch size "
                   "serve all weights; the paper has one of each for every weight.",
    },
    /* Means over time and outer optimizers. */
    {
        .name = "polyak",
        .title = "Polyak-Ruppert averaging",
        .by = "Polyak and Juditsky 1992",
        .row = 118,
        .flags = "strategy=local:period=1,polyak=1 schedule=constant",
        FAST_TAXONOMY("DP", "central", "sync.", "allreduce", "any", "synchronous"),
        .remarks =
            "The running mean of all models since the first epoch is evaluated; the learning "
            "rate stays constant.",
    },
    {
        .name = "slowmo",
        .title = "SlowMo: slow momentum over averages",
        .by = "Wang et al. 2020",
        .row = 0,
        .flags = "strategy=local:period=12,outer=classical,momentum=0.7,rate=1 lr=0.0125 batch=8",
        FAST_TAXONOMY("DP", "decentral", "sync.", "allreduce", "any", "periodic"),
        .remarks =
            "A slow momentum step on the average of local models, after any local optimizer.",
    },
    {
        .name = "diloco",
        .title = "DiLoCo: an inner and an outer optimizer",
        .by = "Douillard et al. 2023",
        .row = 0,
        .flags = "strategy=local:period=100,outer=nesterov,momentum=0.9,rate=0.7 optimizer=adamw "
                 "lr=0.002 batch=4",
        FAST_TAXONOMY("DP", "decentral", "sync.", "allreduce", "any", "periodic"),
        .remarks =
            "AdamW as inner, Nesterov momentum as outer optimizer; for language models on poorly "
            "connected islands of machines.",
    },
    /* Staggered outer steps: the same parts, one fragment of the model at a time. */
    {
        .name = "streaming-diloco",
        .title = "Streaming DiLoCo: fragments of the model in turn",
        .by = "Douillard et al. 2025",
        .row = 0,
        .flags = "strategy=local:period=100,fragments=4,overlap=5,outer=nesterov,momentum=0.9,"
                 "rate=0.7 codec=qsgd:bits=4,norm=max optimizer=adamw lr=0.002 batch=4",
        FAST_TAXONOMY("DP", "decentral", "sync.", "allgather", "any", "periodic"),
        .remarks = "DiLoCo whose outer steps are staggered: every 25 steps another quarter of the "
                   "model is exchanged, so that the largest message is a quarter. Outer gradients "
                   "have 4 bits, travel during 5 steps, and are mixed half and half with the "
                   "worker's own weights.",
        .missing = "fragments of whole layers, every fourth one: they are ranges of equal length; "
                   "4-bit floats (E3M0): its 4 bits are levels of equal distance",
    },
    {
        .name = "post-local-sgd",
        .title = "Post-local SGD: synchronous first, local later",
        .by = "Lin et al. 2020",
        .row = 0,
        .flags = "strategy=local:period=16,after=1 batch=8",
        FAST_TAXONOMY("DP", "decentral", "sync.", "allreduce", "any", "periodic"),
        .remarks =
            "Synchronous SGD in the first epoch, then local SGD with averages every 16 steps.",
    },
    { .name = NULL },
};
