/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Systems of the families gossip, gossip_async, partial and broadcast: decentralised training
 * without a master. Workers exchange with a few others, synchronously or asynchronously, and except
 * with `broadcast` an update may never reach all workers.
 */
#include "strategy/systems.h"

#include <stddef.h>

const fast_system fast__systems_gossip[] = {
    /* Synchronous mixing on a fixed graph or in rotation. */
    {
        .name = "d-psgd",
        .title = "D-PSGD: decentralised parallel SGD on a ring",
        .by = "Lian et al. 2017",
        .row = 6,
        .flags = "strategy=gossip:first=combine topology=ring optimizer=sgd lr=0.2 batch=8",
        FAST_TAXONOMY("DP", "decentral", "sync.", "2:1 reduce", "closed ring", "partial"),
        .remarks = "Weights are averaged with two neighbours while the gradient is computed; the "
                   "communication of a worker does not grow with P.",
    },
    {
        .name = "neighbour-exchange",
        .title = "Exchange with the neighbours of a fixed graph",
        .by = "Jiang et al. 2017",
        .row = 63,
        .flags = "strategy=gossip:first=adapt topology=torus lr=0.1",
        FAST_TAXONOMY("DP", "decentral", "sync.", "ad hoc", "fixed graph", "partial"),
        .remarks = "A worker updates, then averages with its neighbours. Choose the graph by "
                   "--topology.",
    },
    {
        .name = "gossipgrad",
        .title = "GossipGraD: one partner a step, in rotation",
        .by = "Daily et al. 2018",
        .row = 61,
        .flags = "strategy=gossip:first=adapt topology=exponential:one=yes,renumber=16 shard=ring "
                 "lr=0.1",
        FAST_TAXONOMY("DP", "decentral", "sync.", "ad hoc", "dissemination", "partial"),
        .remarks = "Partners are 1, 2, 4, ... ranks further on: an update is at all workers after "
                   "log2 P steps, when the ranks are renumbered. Batches move to the next worker "
                   "of a ring: it reads them from the data set, so no samples are sent. A model is "
                   "one message, where the paper sends layer by layer.",
    },
    /* Groups instead of pairs: one axis of a grid a step. */
    {
        .name = "moshpit-sgd",
        .title = "Moshpit SGD: groups along the axes of a grid average in turn",
        .by = "Ryabinin et al. 2021",
        .row = 0,
        .flags = "strategy=gossip:first=adapt topology=grid lr=0.1",
        FAST_TAXONOMY("DP", "decentral", "sync.", "allreduce in groups", "grid", "partial"),
        .remarks = "Each step averages the models of one line of the grid; after a step for each "
                   "axis all models have the exact mean. --topology grid:axes=1 averages all.",
        .missing = "groups that form anew from the workers that are up; several steps between "
                   "averages; an allreduce inside a group: its members send each other their "
                   "models",
    },
    /* Directed graphs, and links that are dropped. */
    {
        .name = "sgp",
        .title = "SGP: stochastic gradient push",
        .by = "Assran et al. 2019",
        .row = 0,
        .flags = "strategy=gossip:push=yes,first=adapt topology=exponential:one=yes lr=0.1",
        FAST_TAXONOMY("DP", "decentral", "sync.", "push-sum", "directed exponential graph",
                      "partial"),
        .remarks =
            "Push-sum: a mass is sent with the weights, which conserves the mean on directed "
            "graphs.",
    },
    {
        .name = "corrected-gossip",
        .title = "Corrected gossip: a reliable broadcast",
        .by = "Hoefler et al. 2017",
        .row = 62,
        .flags = "strategy=broadcast:how=gossip,sure=0.9,width=2,period=4,slack=1 optimizer=sgd "
                 "lr=0.2 batch=8",
        FAST_TAXONOMY("DP", "central", "bounded", "broadcast", "p2p and ring", "asynchronous"),
        .remarks = "Updates are broadcast in random rounds, whose number follows from the "
                   "probability that they reach all workers (broadcast:sure), then by a correction "
                   "on a ring, so that all workers that are up get them while fewer than four of "
                   "them, 2 broadcast:width, crash before it is noticed.",
    },
    {
        .name = "dynamic-tree",
        .title = "Dynamic topologies without loops",
        .by = "Wang et al. 2014",
        .row = 129,
        .flags = "strategy=broadcast:how=tree,period=4 optimizer=sgd lr=0.4 batch=8",
        FAST_TAXONOMY("DP", "central", "bounded", "broadcast", "dynamic tree", "asynchronous"),
        .remarks = "Updates are forwarded once along a spanning tree, which is rebuilt at run "
                   "time, around workers that crash and links that become slow.",
    },
    {
        .name = "partial-comm",
        .title = "Partial communication",
        .by = "Viviani et al. 2019",
        .row = 64,
        .flags = "strategy=gossip:first=adapt,drop=0.5 topology=full lr=0.1",
        FAST_TAXONOMY("DP", "decentral", "sync.", "ad hoc", "p2p", "partial"),
        .remarks = "Updates are dropped, not only delayed. Measure accuracy against completeness: "
                   "--strategy gossip:drop=X.",
    },
    /* Asynchronous exchanges of pairs. */
    {
        .name = "ad-psgd",
        .title = "AD-PSGD: asynchronous decentralised parallel SGD",
        .by = "Lian et al. 2018",
        .row = 55,
        .flags = "strategy=gossip_async:how=average,overlap=yes topology=ring lr=0.1",
        FAST_TAXONOMY("DP", "decentral", "async.", "ad hoc", "p2p, random edges", "partial"),
        .remarks =
            "A worker averages with a random neighbour while its gradient is computed. Free of "
            "deadlock on any graph; the paper needs a bipartite one.",
    },
    {
        .name = "gosgd",
        .title = "GoSGD: sum-weighted random gossip",
        .by = "Blot et al. 2016",
        .row = 11,
        .flags = "strategy=gossip_async:how=push,p=0.1 topology=full lr=0.025 batch=4",
        FAST_TAXONOMY("DP", "decentral", "soft-bounded", "ad hoc", "p2p mesh", "partial"),
        .remarks =
            "Each push gives half of the sum weight away. Sum weights always add up to 1, so "
            "that workers reach consensus if no gradient is applied.",
    },
    {
        .name = "random-pairs",
        .title = "Gossip for optimisation: random pairs average, then take a gradient step",
        .by = "Ram et al. 2010",
        .row = 58,
        .flags = "strategy=gossip_async:how=average,overlap=no,edges=weights topology=full "
                 "optimizer=sgd lr=0.4",
        FAST_TAXONOMY("DP", "decentral", "async.", "ad hoc", "p2p, random edges", "partial"),
        .remarks =
            "A random pair averages its models; each worker then takes a subgradient step at the "
            "average. The weights of --topology file:PATH are the probabilities of its edges; "
            "those of the complete graph are equal.",
    },
    {
        .name = "randomised-gossip",
        .title = "Randomised gossip",
        .by = "Boyd et al. 2006",
        .row = 59,
        .flags = "strategy=gossip_async:how=average,overlap=no,edges=best topology=full "
                 "optimizer=sgd lr=0.4",
        FAST_TAXONOMY("DP", "decentral", "async.", "ad hoc", "p2p, random edges", "partial"),
        .remarks = "A worker and a random neighbour average their models, with probabilities of "
                   "edges that make the second largest eigenvalue of the expected mixing matrix, "
                   "the rate of consensus, small; the run tells it. Give --lr 0 for consensus "
                   "alone, and the graph by --topology, of at most 1024 workers.",
    },
    {
        .name = "gossip-sgd",
        .title = "Gossiping SGD: pull the model of a random peer",
        .by = "Jin et al. 2016",
        .row = 60,
        .flags = "strategy=gossip_async:how=pull,p=0.5 topology=full lr=0.1",
        FAST_TAXONOMY("DP", "decentral", "async.", "ad hoc", "p2p, random edges", "partial"),
        .remarks =
            "A worker averages its model with the one that it pulls; how=push,mass=no is the "
            "variant that pushes.",
    },
    /* Parts of gradients or models, asynchronous. */
    {
        .name = "malt",
        .title = "MALT: scatter and gather on a graph",
        .by = "Li et al. 2015",
        .row = 29,
        .flags = "strategy=partial:how=scatter topology=halton lr=0.1",
        FAST_TAXONOMY("DP", "decentral", "async.", "scatter, gather", "p2p, Halton graph",
                      "partial"),
        .remarks =
            "Writes to queues (partial:queue) at log P neighbours, which average them; slack=0 is "
            "its bulk synchronous form. Survivors send past crashed workers.",
        .missing = "a gather function of one's own; one-sided writes: workers send messages",
    },
    {
        .name = "ako",
        .title = "Ako: partial gradient exchange",
        .by = "Watcharapichat et al. 2016",
        .row = 94,
        .flags = "strategy=partial:how=parts,parts=0 optimizer=sgd lr=0.2 batch=4",
        FAST_TAXONOMY("DP", "decentral", "async.", "partitions", "full mesh", "partial"),
        .remarks =
            "Each step sends another partition of the accumulated gradient to all workers; the "
            "number of partitions follows from the bandwidth of the link, measured before the "
            "first "
            "step, and the worker's speed.",
    },
    {
        .name = "keuper-asgd",
        .title = "ASGD: partial states to random peers",
        .by = "Keuper and Pfreundt 2015",
        .row = 53,
        .flags = "strategy=partial:how=states,scaled=yes optimizer=sgd lr=0.2 batch=8",
        FAST_TAXONOMY("DP", "decentral", "async.", "ad hoc", "p2p", "partial"),
        .remarks =
            "A state that arrives is merged if the own step moves towards it (Parzen window): half "
            "of the difference, times the learning rate, is added.",
        .missing = "one-sided writes: workers send messages",
    },
    {
        .name = "statement-1",
        .title = "All updates in any order, then a flush",
        .by = "Viviani et al. 2019",
        .row = 65,
        .flags =
            "strategy=partial:how=parts,parts=4,flush=yes optimizer=sgd lr=0.1 schedule=constant "
            "batch=4",
        FAST_TAXONOMY("DP", "decentral", "async.", "partitions", "full mesh", "asynchronous"),
        .remarks =
            "With plain SGD and a constant learning rate all replicas are equal once every update "
            "has arrived, for any delay.",
    },
    { .name = NULL },
};
