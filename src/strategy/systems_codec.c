/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Systems that are known for their messages: codecs with error feedback, sparse sums, and the rules
 * and learning rates of their papers. A codec is one option of a run, so each system is a strategy
 * of the other tables with a codec; the columns are those of its paper.
 *
 * Codecs that hold most of a gradient back use plain SGD here: momentum would count residuals that
 * are sent late once more, and diverges at learning rates that work without a codec
 * (docs/codecs.md).
 */
#include "strategy/systems.h"

#include <stddef.h>

/* The columns of the taxonomy: all these systems are data parallel, with one central model. */
#define COLUMNS(SCHEDULING, EXCHANGE, TOPOLOGY, CONSISTENCY)                    \
    .parallelism = "DP", .optimisation = "central", .scheduling = (SCHEDULING), \
    .exchange = (EXCHANGE), .topology = (TOPOLOGY), .consistency = (CONSISTENCY)

const fast_system fast__systems_codec[] = {
    {
        .name = "one-bit",
        .title = "1-bit SGD: a sign for each gradient, with error feedback",
        .by = "Seide et al. 2014",
        .row = 66,
        .flags =
            "strategy=allreduce codec=onebit:adagrad=yes,warmup=20 codec_down=onebit:warmup=20 "
            "optimizer=sgd lr=0.05",
        COLUMNS("sync.", "striped scatter-reduce", "distributed PS, k = n", "synchronous"),
        .remarks = "Each worker sums a slice, and encodes the sum again: error feedback on both "
                   "ways. Rows have the means of their positive and negative elements. AdaGrad "
                   "comes before the exchange (after it: codec=onebit, optimizer=adagrad), and 20 "
                   "steps of whole gradients are the warm start.",
    },
    {
        .name = "li-filters",
        .title = "Filters of the parameter server: insignificant changes are not sent",
        .by = "Li et al. 2014",
        .row = 67,
        .flags = "strategy=ps:servers=2,slack=8,cache=yes "
                 "codec=significance:threshold=0.001+skip:probability=0.1+lz4 optimizer=sgd "
                 "lr=0.05 batch=8",
        COLUMNS("bounded", "ad hoc", "distributed PS", "bounded"),
        .remarks = "The significant entries of each gradient are sent, some of them later at "
                   "random, keys that repeat are cached, and the messages are compressed without "
                   "loss. For sparse models add ps:l1=0.001 and the codec kkt:l1=0.001. Filters "
                   "of one's own: fast_run_open_filter().",
    },
    {
        .name = "qsgd",
        .title = "QSGD: unbiased stochastic quantisation with Elias coding",
        .by = "Alistarh et al. 2017",
        .row = 72,
        .flags = "strategy=allreduce codec=qsgd:bits=4,bucket=512,code=elias lr=0.1",
        COLUMNS("sync.", "allgather", "any", "synchronous"),
        .remarks = "Fewer bits are more variance, which more workers average: no state between "
                   "steps.",
    },
    {
        .name = "terngrad",
        .title = "TernGrad: gradients of three values",
        .by = "Wen et al. 2017",
        .row = 73,
        .flags = "strategy=ps:slack=0,servers=2 codec=terngrad:clip=2.5,share=yes",
        COLUMNS("sync.", "ad hoc", "distributed PS", "synchronous"),
        .remarks = "Layer by layer, cut at 2.5 deviations first; workers agree on the largest "
                   "scale, so that the sum of P of them at a server is one of 2 P + 1 values, "
                   "exactly. Servers answer with weights; with --strategy allreduce --codec-sum "
                   "stripes --codec-down entropy each worker is the server of a slice, and answers "
                   "with those sums in few bits.",
    },
    {
        .name = "dgc",
        .title = "Deep gradient compression: one element of a thousand, with momentum correction",
        .by = "Lin et al. 2018",
        .row = 74,
        .flags = "strategy=allreduce codec=dgc:ratio=0.001,threshold=sample "
                 "optimizer=sgd:weight_decay=0.0005 lr=0.4",
        COLUMNS("sync.", "allgather", "any", "synchronous"),
        .remarks =
            "Momentum is added before the selection, and forgotten where an element is sent; "
            "four epochs of warm-up send 1/4, 1/16, 1/64 and 1/256. The threshold is that of a "
            "sample of 1%, and of the elements that reach it, if they are too many. For recurrent "
            "networks add clip=2.",
    },
    {
        /* The codec is that of dgc, without its warm-up and with another choice. */
        .name = "esgd",
        .title = "eSGD: edge devices send important coordinates, the residual has momentum",
        .by = "Tao and Li 2018",
        .row = 75,
        .flags = "strategy=ps:slack=0 codec=dgc:ratio=0.1,momentum=0.9,warmup=0,choose=loss "
                 "optimizer=sgd lr=0.4",
        COLUMNS("sync.", "ad hoc", "star", "synchronous"),
        .remarks = "One of ten coordinates is sent, by its size and by a hidden weight, which "
                   "remembers how often its updates have lowered the worker's loss; the residual "
                   "of the others has momentum, so that coordinates that stay small are sent as "
                   "well.",
    },
    {
        .name = "tictac",
        .title = "TicTac: parameters are sent in the order that the graph needs them",
        .by = "Hashemi et al. 2019",
        .row = 77,
        .flags = "strategy=ps:slack=0,overlap=yes,priority=tac lr=0.1",
        COLUMNS("sync.", "ordered transfers", "single PS", "synchronous"),
        .remarks = "A server sends weights in an order that follows from the graph of operators "
                   "and times (TAC), which follow from each operator's operations and one measured "
                   "speed; priority=tic is that of the graph alone. The next "
                   "step begins with those that came. Sums are ordered by allreduce:priority=yes.",
    },
    {
        .name = "strom",
        .title = "Threshold of Strom: a residual that reaches tau is sent as tau",
        .by = "Strom 2015",
        .row = 78,
        .flags = "strategy=partial:how=parts,parts=1 codec=threshold:tau=0.004+entropy "
                 "optimizer=sgd lr=0.8 schedule=cosine:warmup=1 batch=8",
        COLUMNS("async.", "ad hoc", "full mesh", "asynchronous"),
        .remarks = "Each worker sends its messages, lists of indices with signs, entropy coded, to "
                   "all others, and adds those that have arrived: no worker waits for another. A "
                   "replica takes the sent part of its own gradient, so that all replicas are "
                   "equal once all messages have arrived. With strategy=allreduce it is "
                   "synchronous.",
    },
    {
        .name = "top-k",
        .title = "Relative threshold: the largest part of the gradient",
        .by = "Aji and Heafield 2017; Dryden et al. 2016",
        .row = 79,
        .flags = "strategy=allreduce codec=topk:ratio=0.01 lr=0.1",
        COLUMNS("sync.", "allgather", "any", "synchronous"),
        .remarks = "One element of a hundred; the others wait as the residual.",
    },
    {
        .name = "adaptive-threshold",
        .title = "Two thresholds that follow the gradient, and a mean for each side",
        .by = "Dryden et al. 2016",
        .row = 80,
        .flags = "strategy=allreduce codec=adaptive:ratio=0.01 optimizer=sgd lr=0.4 "
                 "schedule=cosine:warmup=1",
        COLUMNS("sync.", "allreduce", "any", "synchronous"),
        .remarks = "No value travels but two means: 300 times smaller at one of a hundred.",
    },
    {
        .name = "stochastic-rounding",
        .title = "Fixed point with stochastic rounding",
        .by = "Gupta et al. 2015",
        .row = 81,
        .flags = "strategy=allreduce codec=fixed:bits=16,round=random lr=0.1",
        COLUMNS("sync.", "any", "any", "synchronous"),
        .remarks = "A value between two points is rounded to one of them at random, without bias. "
                   "The grid is that of messages: arithmetic is in floats.",
    },
    {
        /* The paper has 32 centroids for dense layers and 256 for convolutions. */
        .name = "deep-compression",
        .title = "Deep compression: pruned, values shared by k-means, Huffman coded",
        .by = "Han et al. 2016",
        .row = 82,
        .flags = "strategy=allreduce codec=kmeans:ratio=0.1,clusters=32+huffman lr=0.1",
        COLUMNS("sync.", "any", "any", "synchronous"),
        .remarks = "Its three steps as a chain over what is sent: a tenth of each layer, as the "
                   "number of one of 32 centroids, which start evenly spaced, with a Huffman code. "
                   "--save-codec compresses the file of a trained model by the same chain, and "
                   "--load FILE --tied yes trains its centroids by the sums of their gradients.",
    },
    {
        /* Measured exponents are exact, and codec=flexpoint has them; the paper predicts. */
        .name = "flexpoint",
        .title = "Flexpoint: a shared exponent for each tensor",
        .by = "Koester et al. 2017",
        .row = 85,
        .flags =
            "strategy=allreduce codec=flexpoint:bits=16,exponent=predicted,exponent_bits=5 lr=0.1",
        COLUMNS("sync.", "any", "any", "synchronous"),
        .remarks = "16 bits an element and an exponent of 5 bits for a layer, which Autoflex "
                   "predicts from "
                   "the maxima of the 16 vectors before; larger elements saturate. The tensors in "
                   "that format are those of messages: arithmetic is in floats.",
    },
    {
        .name = "ef-signsgd",
        .title = "Local gradient accumulation: error feedback makes signs converge",
        .by = "Karimireddy et al. 2019; Stich et al. 2018",
        .row = 86,
        .flags = "strategy=allreduce codec=sign feedback=yes optimizer=sgd lr=0.4 "
                 "schedule=cosine:warmup=1",
        COLUMNS("sync.", "allgather", "any", "synchronous"),
        .remarks = "The error of an encoding is added to the next gradient: sigma-delta modulation "
                   "of gradients. --codec decay:rate=0.9+sign lets it fade, and --feedback no "
                   "shows the difference.",
    },
    /* Later systems: estimates of gradients, momentum that stays local, and votes. All of them are
     * synchronous, with one central model, and differ in what is sent alone. Learning rates were
     * chosen on a small network, as the best of three or four. */
    {
        .name = "ef21",
        .title = "EF21: differences to an estimate of the gradient are compressed",
        .by = "Richtarik et al. 2021",
        .row = 0,
        .flags = "strategy=allreduce codec=topk:ratio=0.05 feedback=ef21 optimizer=sgd lr=0.8",
        COLUMNS("sync.", "sparse allreduce", "any", "synchronous"),
        .remarks = "A worker and all others hold an estimate of its gradient, which grows by the "
                   "encoded difference; the update is the mean of the estimates. With a codec that "
                   "loses nothing it is synchronous SGD.",
        .missing = "full gradients, which its proofs need: a batch is one of many (EF21-SGD)",
    },
    {
        .name = "demo",
        .title = "DeMo: decoupled momentum, of which the fast components are sent",
        .by = "Peng et al. 2024",
        .row = 0,
        .flags = "strategy=allreduce codec=dct:chunk=64,top=8,beta=0.999 "
                 "optimizer=lion:beta1=0,beta2=0,weight_decay=0 lr=0.003",
        COLUMNS("sync.", "allgather", "any", "synchronous"),
        .remarks = "Each worker sends the largest cosine coefficients of its momentum and retains "
                   "the rest; weights move by the sign of the sum. With all coefficients and "
                   "optimizer=sgd it is synchronous SGD.",
        .missing = "transforms in two dimensions: chunks are neighbours in a row of weights",
    },
    {
        .name = "one-bit-adam",
        .title = "1-bit Adam: a warm-up by Adam, then signs of momentum over frozen squares",
        .by = "Tang et al. 2021",
        .row = 0,
        .flags = "strategy=allreduce codec=onebit:beta=0.9,warmup=100 codec_down=onebit:warmup=100 "
                 "optimizer=adam:freeze=100,eps=1e-4 lr=0.005",
        COLUMNS("sync.", "striped scatter-reduce", "distributed PS, k = n", "synchronous"),
        .remarks = "For 100 steps it is Adam; then the mean of squares stays, and workers send "
                   "their momentum by one bit, with error feedback at workers and owners of "
                   "slices.",
        .missing = "momentum from the common mean: each worker's is of its own gradients, whose "
                   "mean is the same; a warm-up that ends when the squares have settled",
    },
    {
        .name = "cocktail-sgd",
        .title = "CocktailSGD: random sparsification, top-k and quantisation",
        .by = "Wang et al. 2023",
        .row = 0,
        .flags = "strategy=allreduce codec=skip:probability=0.9+topk:ratio=0.02,value=fp16 "
                 "optimizer=sgd lr=0.4",
        COLUMNS("sync.", "allgather", "any", "synchronous"),
        .remarks = "A tenth of the elements at random, the largest fifth of these, with values of "
                   "16 bits; the others wait as the residual.",
        .missing = "values of 4 bits; random choices that all workers share; messages that overlap "
                   "with the next step",
    },
    {
        .name = "distributed-lion",
        .title = "Distributed Lion: workers vote on the sign of each step",
        .by = "Liu et al. 2024",
        .row = 0,
        .flags = "strategy=allreduce codec=vote:beta1=0.9,beta2=0.99 "
                 "optimizer=sgd:weight_decay=0.01 lr=0.003",
        COLUMNS("sync.", "allgather", "any", "synchronous"),
        .remarks = "Each worker sends the signs of Lion's step by its own momentum, one bit a "
                   "weight; the majority is the update, with decoupled weight decay. The variant "
                   "that averages is the codec sign.",
        .missing = "a vote of 0: an element whose mean is 0 votes for +1",
    },
    {
        .name = "momentum-correction",
        .title = "Momentum correction, clipping and warm-up, at one of a hundred",
        .by = "Lin et al. 2018",
        .row = 87,
        .flags = "strategy=allreduce codec=dgc:ratio=0.01,clip=2,warmup=1 "
                 "optimizer=sgd:weight_decay=0.0005 lr=0.4 batch=8",
        COLUMNS("sync.", "allgather", "any", "synchronous"),
        .remarks = "The parts of deep gradient compression that keep accuracy, with a shorter "
                   "warm-up.",
    },
    /* Sums of sparse streams, by the method that each paper is about (docs/codec-exchange.md). */
    {
        .name = "kylix",
        .title = "Kylix: a sparse allreduce on a butterfly",
        .by = "Zhao and Canny 2014",
        .row = 88,
        .flags = "strategy=allreduce codec=topk:ratio=0.02,hold=2 codec_sum=butterfly:4x2 lr=0.1",
        COLUMNS("sync.", "sparse allreduce", "butterfly", "synchronous"),
        .remarks =
            "Ranges of entries are merged in the layers of a butterfly, of degree 4, then 2 "
            "(with 4 to 7 workers one layer), and their sums gathered in the reverse order. "
            "Indices that a link has seen are not "
            "sent again: they are chosen in every second step, and the steps between send values "
            "alone. Without the paper's replication of machines.",
    },
    {
        .name = "sparcml",
        .title = "SparCML: sparse streams that turn dense",
        .by = "Renggli et al. 2019",
        .row = 89,
        .flags = "strategy=allreduce codec=topk:ratio=0.01 codec_sum=sparse:bits=8 lr=0.1",
        COLUMNS("sync.", "sparse allreduce", "any", "synchronous"),
        .remarks = "Streams of index and value are merged by recursive doubling or by split and "
                   "allgather, as a cost model chooses, and turn dense where that is shorter. "
                   "Values have 8 bits in streams and in dense sums. Its non-blocking variant sums "
                   "layers during the backward pass: overlap=yes with codec_scope=layer.",
    },
    {
        .name = "activation-exchange",
        .title = "Activations and errors instead of gradients of dense layers",
        .by = "Chilimbi et al. 2014",
        .row = 92,
        .flags = "strategy=ps:factors=auto optimizer=sgd lr=0.05 batch=8",
        COLUMNS("async.", "ad hoc", "single PS", "asynchronous"),
        .remarks =
            "The server multiplies them out, where N (Cin + Cout) is less than Cin Cout: the "
            "part of Project Adam that saves bytes.",
    },
    {
        .name = "konecny",
        .title = "Sketched updates of federated clients",
        .by = "Konecny et al. 2016",
        .row = 93,
        .flags = "strategy=federated:part=0.75,over=1,epochs=1 codec=sketch:bits=2,keep=0.5 "
                 "shard=contiguous optimizer=sgd lr=0.2 batch=4",
        COLUMNS("sync.", "reduce", "star", "periodic"),
        .remarks = "A server samples clients for each round; the update of a client is subsampled, "
                   "rotated and quantised at random: no state between rounds.",
    },
    {
        .name = "konecny-structured",
        .title = "Structured updates of federated clients",
        .by = "Konecny et al. 2016",
        .row = 0,
        .flags = "strategy=federated:part=0.75,over=1,epochs=1,subspace=yes "
                 "codec=structured:kind=lowrank,ratio=0.25 shard=contiguous optimizer=sgd lr=0.2 "
                 "batch=4",
        COLUMNS("sync.", "reduce", "star", "periodic"),
        .remarks =
            "Clients train the right factor of updates of low rank, whose left factor is "
            "random; codec=structured:kind=mask has a random mask instead. The space changes "
            "with each round.",
    },
    { .name = NULL },
};
