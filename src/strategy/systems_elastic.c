/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Systems of the families elastic, elastic_sync, elastic_tree, mpca, hogwild, dogwild and ensemble:
 * elastic averaging, shared memory without locks, and independent learners.
 */
#include "strategy/systems.h"

#include <stddef.h>

/* A build without hwloc cannot bind workers, and refuses to. */
#ifdef FAST_HAVE_HWLOC
#define ON_NUMA_NODES " bind=numa"
#else
#define ON_NUMA_NODES ""
#endif

const fast_system fast__systems_elastic[] = {
    /* Springs to a centre variable. */
    {
        .name = "easgd",
        .title = "EASGD: elastic averaging SGD",
        .by = "Zhang et al. 2015",
        .row = 8,
        .flags = "strategy=elastic:alpha=0.25,period=4 optimizer=sgd lr=0.2 batch=4",
        FAST_TAXONOMY("DP", "decentral", "async.", "ad hoc", "single master", "asynchronous"),
        .remarks =
            "Springs pull workers towards a centre variable; worker and centre move by opposite "
            "amounts (elastic symmetry).",
    },
    {
        .name = "eamsgd",
        .title = "EAMSGD: EASGD with momentum",
        .by = "Zhang et al. 2015",
        .row = 9,
        .flags = "strategy=elastic:alpha=0.25,period=4 optimizer=nesterov lr=0.025 batch=4",
        FAST_TAXONOMY("DP", "decentral", "async.", "ad hoc", "single master", "asynchronous"),
        .remarks = "Nesterov's momentum in the local steps only, not in the elastic exchange.",
    },
    {
        .name = "sync-easgd",
        .title = "Synchronous EASGD",
        .by = "Zhang et al. 2015",
        .row = 0,
        .flags = "strategy=elastic_sync:period=1 optimizer=sgd lr=0.1 batch=4",
        FAST_TAXONOMY("DP", "decentral", "sync.", "allreduce", "central average", "periodic"),
        .remarks = "The elastic step of all workers at once, around a common centre variable.",
    },
    {
        .name = "crossbow",
        .title = "CROSSBOW: synchronous model averaging",
        .by = "Koliousis et al. 2019",
        .row = 34,
        .flags = "strategy=elastic_sync:mu=0.9,period=1,restart=-1,tune=8 lr=0.025 "
                 "schedule=step:every=3 batch=8",
        FAST_TAXONOMY("DP", "decentral", "sync.", "allreduce", "central average", "periodic"),
        .remarks = "Many learners with small batches around a central average with momentum, "
                   "which restarts when the learning rate changes. One more worker learns every 8 "
                   "steps, while throughput grows; elastic_sync:tune=0 lets all learn at once.",
    },
    {
        .name = "crossbow-tuner",
        .title = "CROSSBOW's auto-tuner",
        .by = "Koliousis et al. 2019",
        .row = 171,
        .flags = "strategy=elastic_sync:mu=0.9,period=1,restart=-1,tune=8 lr=0.025 "
                 "schedule=step:every=3 batch=8",
        FAST_TAXONOMY("DP", "decentral", "sync.", "allreduce", "central average", "periodic"),
        .remarks = "Learners are added while one more raises the throughput by "
                   "elastic_sync:gain, 5%; the first that does not leaves again.",
        .alias_of = "crossbow",
        .differs = "the part of CROSSBOW that chooses the number of learners",
    },
    /* Springs along a tree, and to an extrapolated master. */
    {
        .name = "tree-easgd",
        .title = "TreeEASGD: elastic averaging on a tree",
        .by = "Zhang 2016",
        .row = 21,
        .flags = "strategy=elastic_tree:up=2x4,down=2x4,slack=2 topology=tree optimizer=sgd lr=0.2 "
                 "batch=4",
        FAST_TAXONOMY("DP", "decentral", "bounded", "ad hoc", "tree", "asynchronous"),
        .remarks = "All nodes of the tree are workers; each exchanges with its parent and children "
                   "at the periods of its level, and waits for a neighbour that is more than two "
                   "models behind (elastic_tree:slack).",
    },
    {
        .name = "mpca-sgd",
        .title = "MPCA-SGD: model penalty and extrapolated master model",
        .by = "Langer et al. 2018",
        .row = 12,
        .flags = "strategy=mpca:tree=yes optimizer=sgd lr=0.2 batch=4",
        FAST_TAXONOMY("DP", "decentral", "soft-bounded", "binomial tree", "dedicated master node",
                      "asynchronous"),
        .remarks =
            "Models are gathered along a binomial tree while workers train, and the next round "
            "starts when the last one was answered; a penalty term in the loss pulls workers to "
            "the master, and extrapolation compensates for staleness.",
    },
    /* Shared memory, and its emulation by messages. */
    {
        .name = "hogwild",
        .title = "Hogwild!: shared memory without locks",
        .by = "Niu et al. 2011",
        .row = 22,
        .flags = "strategy=hogwild optimizer=sgd lr=0.05 batch=8",
        FAST_TAXONOMY("DP", "central", "async.", "shared memory", "one machine", "asynchronous"),
        .remarks =
            "Only weights that an update changes are written; sparse updates are added atomically, "
            "dense ones may overwrite one another (--data words has sparse gradients). An update "
            "takes the time of a pass over the model, however few weights it changes. Updates of P "
            "workers add up: divide the --lr of one worker by P.",
    },
    {
        .name = "hogwild-pp",
        .title = "Hogwild++: replicas and a token",
        .by = "Zhang et al. 2016",
        .row = 30,
        .flags = "strategy=hogwild:clusters=2 optimizer=sgd batch=8" ON_NUMA_NODES,
        FAST_TAXONOMY("DP", "decentral", "async.", "shared memory, ring", "ring of replicas",
                      "asynchronous"),
        .remarks = "One model for each cluster of cores; a token passes the changes around a ring, "
                   "with decay. On threads the workers of a cluster are bound to one NUMA node. "
                   "The decay is the paper's idea; its formula is chosen here.",
    },
    {
        .name = "dogwild",
        .title = "Dogwild: Hogwild over machines",
        .by = "Noel and Osindero 2014",
        .row = 25,
        .flags = "strategy=dogwild optimizer=sgd lr=0.05 batch=8",
        FAST_TAXONOMY("DP", "central", "async.", "unreliable messages", "single master",
                      "asynchronous"),
        .remarks = "Updates of random chunks are sent by messages that may get lost. The master "
                   "adds changes; with dogwild:sends=weights it is overwritten by weights.",
        .missing = "datagrams between machines: messages get lost in the simulator only, on "
                   "threads and MPI all arrive",
    },
    /* Independent learners. */
    {
        .name = "ensemble",
        .title = "Ensembles: independent members",
        .by = "Hansen and Salamon 1990",
        .row = 157,
        .flags = "strategy=ensemble shard=all",
        FAST_TAXONOMY("DP", "-", "-", "none", "none", "none"),
        .remarks = "Members start from weights of their own and train independently on the whole "
                   "data set; "
                   "the ensemble predicts the mean of their predictions.",
    },
    {
        .name = "distillation",
        .title = "Knowledge distillation: a student learns from an ensemble",
        .by = "Hinton et al. 2015",
        .row = 158,
        .flags = "strategy=distill:temperature=2,share=0.25,teach=0.25 batch=8",
        FAST_TAXONOMY("DP", "-", "sync.", "once all models, then allreduce", "none", "synchronous"),
        .remarks =
            "Members train in the first quarter of the steps; then one student learns from the "
            "mean of their predictions, with the temperature in its own outputs too. A smaller "
            "student learns from saved models: distill:teachers=a.safetensors+b.safetensors.",
    },
    { .name = NULL },
};
