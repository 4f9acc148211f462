/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Systems of the family ps: one model at servers, with synchronous, bounded or unbounded staleness.
 * They differ in the number of servers, the bound, and the treatment of late updates.
 */
#include "strategy/systems.h"

#include <stddef.h>

/* The columns of the taxonomy: all these systems optimise one central model. */
#define COLUMNS(PARALLELISM, SCHEDULING, EXCHANGE, TOPOLOGY, CONSISTENCY)                \
    .parallelism = (PARALLELISM), .optimisation = "central", .scheduling = (SCHEDULING), \
    .exchange = (EXCHANGE), .topology = (TOPOLOGY), .consistency = (CONSISTENCY)

const fast_system fast__systems_ps[] = {
    {
        .name = "firecaffe",
        .title = "FireCaffe: gradients reduced on a binomial tree to one server",
        .by = "Iandola et al. 2016",
        .row = 10,
        .flags = "strategy=ps:slack=0,path=tree lr=0.1",
        COLUMNS("DP", "sync.", "binomial tree", "single PS", "synchronous"),
        .remarks = "The sum of the gradients reaches the server, at a node of its own, after "
                   "log2(P + 1) rounds; it makes the update, and the weights come back along the "
                   "tree.",
    },
    {
        .name = "bigdl",
        .title = "BigDL: each worker serves a slice of the model",
        .by = "Dai et al. 2019",
        .row = 1,
        .flags = "strategy=ps:servers=0,slack=0 lr=0.1",
        COLUMNS("DP", "sync.", "scatter-reduce", "distributed PS, k = n", "synchronous"),
        .remarks = "A reduce-scatter of gradients, an update of the slice, an allgather of "
                   "weights; in the paper by the block manager of Spark, which is not here.",
    },
    {
        .name = "caffe-on-spark",
        .title = "CaffeOnSpark",
        .by = "Yahoo 2016",
        .row = 2,
        .flags = "strategy=ps:servers=0,slack=0 lr=0.1",
        COLUMNS("DP", "sync.", "scatter-reduce", "distributed PS, k = n", "synchronous"),
        .remarks = "Repeated calls of MPI over RDMA; here by any transport, without Spark.",
        .alias_of = "bigdl",
        .differs = "the exchange: RDMA instead of a block manager",
    },
    {
        .name = "mxnet",
        .title = "MXNet: KVStore, asynchronous",
        .by = "Chen et al. 2015",
        .row = 13,
        .flags = "strategy=ps:servers=0,proxies=2 optimizer=sgd lr=0.1 batch=8",
        COLUMNS("MP + DP", "bounded", "scatter-reduce", "distributed PS, k = n, proxies",
                "asynchronous"),
        .remarks = "Push gradients, pull weights; the optimizer is at the server; a proxy "
                   "reads and writes for the workers of a machine. Its synchronous mode is bigdl, "
                   "its 2-bit codec with error feedback --codec threshold:tau=0.5,pack=bits.",
        .missing = "pushes and pulls of single keys through proxies: a worker reads and writes the "
                   "whole model; without proxies they are ps:overlap=yes,priority=yes",
    },
    {
        .name = "parameter-server",
        .title = "Parameter Server with bounded delay",
        .by = "Li et al. 2014",
        .row = 14,
        .flags = "strategy=ps:servers=2,ring=4,slack=8,tasks=yes,replicas=1,chain=yes "
                 "optimizer=sgd lr=0.05 batch=8",
        COLUMNS("MP + DP", "bounded", "reduce, ad hoc", "distributed PS", "bounded"),
        .remarks =
            "Ranges of keys are on a hash ring, each with a vector clock. Pulls and pushes "
            "of ranges are tasks whose dependencies bound the delay; slack 0 is sequential, "
            "slack -1 eventual consistency. Servers pass updates along a chain of copies; "
            "none joins during a run. Filters are the codecs significance, skip and kkt, the "
            "option cache, and those of fast_run_open_filter(): with one the push is one for "
            "all ranges, and what it holds back is outside of the bound. groups=n makes "
            "worker groups; each worker has the whole model.",
    },
    {
        .name = "kkt-filter",
        .title = "Parameter Server for sparse models: l1, KKT filter, cached keys",
        .by = "Li et al. 2014, section 5.1",
        .flags = "strategy=ps:servers=2,slack=8,l1=0.0001,cache=yes codec=kkt:l1=0.0001 "
                 "optimizer=sgd lr=0.05 batch=8",
        COLUMNS("DP", "bounded", "ad hoc", "distributed PS", "bounded"),
        .remarks = "Servers take a proximal step of l1 after each update. Workers leave out "
                   "gradients of zero weights that this step would undo, and send the list of keys "
                   "only when it changes.",
        .missing = "delayed block proximal gradient by feature blocks",
    },
    {
        .name = "p3",
        .title = "P3: priority-based parameter propagation",
        .by = "Jayarajan et al. 2019",
        .flags = "strategy=ps:servers=0,slack=0,overlap=yes,priority=yes lr=0.1",
        COLUMNS("DP", "sync.", "ordered transfers", "distributed PS, k = n", "synchronous"),
        .remarks = "Gradients are sent while earlier layers are computed. Weights are read in "
                   "slices, the first layer first, and the next forward pass starts with it.",
        .missing = "priorities of gradients: they are sent to the servers in the order in which "
                   "they become final",
    },
    {
        .name = "poseidon",
        .title = "Poseidon",
        .by = "Zhang et al. 2015, 2017",
        .row = 91,
        .flags = "strategy=ps:servers=0,slack=0,overlap=yes,hybrid=yes lr=0.1",
        COLUMNS("DP", "sync.", "servers or factors", "hybrid", "synchronous"),
        .remarks = "A layer is sent while earlier layers are still computed (wait-free "
                   "backpropagation): to the servers as a gradient, or to the other workers as "
                   "sufficient factors, whichever has fewer bytes; above 64 workers always as a "
                   "gradient.",
    },
    {
        .name = "k-async",
        .title = "K-async SGD: an update is the mean of the first K gradients that arrive",
        .by = "Dutta et al. 2018",
        .flags = "strategy=ps:aggregate=2 optimizer=sgd lr=0.1 batch=8",
        COLUMNS("DP", "async.", "ad hoc", "single PS", "asynchronous"),
        .remarks = "Workers that were not among the first K continue with their gradients of older "
                   "weights.",
    },
    {
        .name = "li-et-al",
        .title = "Li et al.: consistency by choice",
        .by = "Li et al. 2014",
        .row = 27,
        .flags = "strategy=ps:servers=2,ring=4,slack=8,tasks=yes,replicas=1,chain=yes "
                 "optimizer=sgd lr=0.05 batch=8",
        COLUMNS("MP + DP", "bounded", "reduce, ad hoc", "distributed PS", "bounded"),
        .remarks = "The same system as row 14, as a point of the synchronisation spectrum.",
        .alias_of = "parameter-server",
        .differs = "nothing, it is the same system",
    },
    {
        .name = "petuum",
        .title = "Petuum: SSP with eager distribution",
        .by = "Xing et al. 2015",
        .row = 15,
        .flags = "strategy=ps:servers=0,slack=3,eager=yes optimizer=sgd lr=0.025 batch=8",
        COLUMNS("MP + DP", "bounded", "ad hoc, eager", "distributed PS", "bounded"),
        .remarks = "Pioneered delay bounds; eager pushes lower the mean staleness where links are "
                   "not the limit; a worker sees its own updates at once.",
        .missing =
            "model parallelism in the preset: --mesh data=2,pipe=2 beside it splits the model "
            "into stages; shards of layers: tensor is refused with slack",
    },
    {
        .name = "ssp",
        .title = "SSP: stale synchronous parallel",
        .by = "Cipar et al. 2013; Ho et al. 2013",
        .row = 24,
        .flags = "strategy=ps:slack=3,cache_age=3 optimizer=sgd lr=0.05 batch=8",
        COLUMNS("DP", "bounded", "ad hoc", "distributed PS", "bounded"),
        .remarks =
            "A read waits until the slowest worker is at most s rounds behind. A worker uses "
            "the values of a read, and its own updates since then, while they are within "
            "the bound.",
    },
    {
        .name = "ssp-global",
        .title = "SSP with a global synchronisation at the bound",
        .by = "Ho et al. 2013",
        .row = 36,
        .flags = "strategy=ps:slack=3,cache_age=3,global=yes optimizer=sgd lr=0.05 batch=8",
        COLUMNS("DP", "bounded", "ad hoc", "distributed PS", "bounded"),
        .remarks = "Every s + 1 rounds all workers wait for all, so that no worker is ever more "
                   "than s ahead; with ssp only a worker that is ahead waits.",
    },
    {
        .name = "delay-bound",
        .title = "Delay bound",
        .by = "Ho et al. 2013",
        .row = 44,
        .flags = "strategy=ps:slack=3,cache_age=3 optimizer=sgd lr=0.05 batch=8",
        COLUMNS("DP", "bounded", "ad hoc", "distributed PS", "bounded"),
        .remarks = "The rule of SSP, as one of the bounds of the taxonomy.",
        .alias_of = "ssp",
        .differs = "nothing, it is another name",
    },
    {
        .name = "lazytable",
        .title = "LazyTable: SSP with caches and prefetch",
        .by = "Cui et al. 2014",
        .row = 26,
        .flags = "strategy=ps:proxies=2,slack=3,cache_age=3,rows=yes optimizer=sgd lr=0.1 batch=8",
        COLUMNS("DP", "bounded", "ad hoc", "distributed PS, proxies", "bounded"),
        .remarks =
            "A proxy is the cache of a process: it writes the mean of its workers' gradients "
            "and asks the servers when its values reach the bound. Before each epoch a virtual "
            "iteration learns which rows a worker's batches read, and these are fetched from the "
            "proxy ahead of the pass.",
        .missing = "values that a thread uses again: it asks its process's cache at each step; "
                   "slack among the threads of a process; sizes of caches: they hold the whole "
                   "model",
    },
    {
        .name = "essp",
        .title = "ESSP: eager stale synchronous parallel",
        .by = "Dai et al. 2015",
        .row = 28,
        .flags = "strategy=ps:slack=3,eager=yes optimizer=sgd lr=0.0125 batch=4",
        COLUMNS("DP", "bounded", "ad hoc", "distributed PS", "bounded"),
        .remarks =
            "Servers push fresh values to readers at every clock, so that a read seldom waits, "
            "which lowers the mean staleness where links are not the limit; a worker adds its own "
            "updates that they lack (read-my-writes).",
    },
    {
        .name = "geeps",
        .title = "GeePS: a parameter server in the memory of GPUs",
        .by = "Cui et al. 2016",
        .row = 31,
        .flags = "strategy=ps:servers=0,slack=1 optimizer=sgd lr=0.05 batch=8",
        COLUMNS("DP", "bounded", "ad hoc", "distributed PS, k = n", "bounded"),
        .remarks = "Staging hides transfers; its authors found that little slack is best.",
        .missing = "memory of GPUs, a pre-built index, staging and swapping",
    },
    {
        .name = "tensorflow",
        .title = "TensorFlow: synchronous replicas with backup workers",
        .by = "Abadi et al. 2016",
        .row = 20,
        .flags = "strategy=ps:servers=0,slack=0,backup=1 lr=0.1",
        COLUMNS("MP + DP", "bounded", "scatter-reduce", "distributed PS, k = n", "synchronous"),
        .remarks = "Each worker serves a part of the model by default. The first N of N + b "
                   "gradients are a step.",
        .missing =
            "a placement of single operators; split models with backup workers: --mesh needs "
            "ps:backup=0; its asynchronous mode is mxnet, its allreduce bsp",
    },
    {
        .name = "backup-workers",
        .title = "Synchronous SGD with backup workers",
        .by = "Chen et al. 2016",
        .row = 40,
        .flags = "strategy=ps:slack=0,backup=1 lr=0.1",
        COLUMNS("DP", "sync.", "ad hoc", "single PS", "synchronous"),
        .remarks =
            "Late gradients are dropped, so that no step waits for stragglers; a late worker "
            "continues with the newest model.",
    },
    {
        .name = "quorum",
        .title = "Aggregation by quorum, epochs that end at 75%",
        .by = "Langer et al. 2020",
        .row = 41,
        .flags = "strategy=ps:slack=0,backup=1,epochs=0.75 lr=0.1",
        COLUMNS("DP", "sync.", "ad hoc", "single PS", "synchronous"),
        .remarks = "A step ends when all workers but one have arrived, an epoch when 75% of its "
                   "samples have been processed. The quorum is given as the number of workers "
                   "that may be late.",
    },
    {
        .name = "value-bound",
        .title = "Value bound",
        .by = "Langer et al. 2020; Wei et al. 2015",
        .row = 43,
        .flags = "strategy=ps:value=0.5 optimizer=sgd lr=0.05 batch=8",
        COLUMNS("DP", "bounded", "ad hoc", "distributed PS", "bounded"),
        .remarks = "A worker waits before it sends an update while others have not read enough: "
                   "no worker's weights differ from the true ones by more than a bound that falls "
                   "with the root of the step. An update that alone is larger than the bound "
                   "divided by the number of workers waits for all reads, and is sent whole.",
    },
    {
        .name = "value-bound-weak",
        .title = "Weak value bound: each worker bounds its own unread updates",
        .by = "Wei et al. 2015",
        .flags = "strategy=ps:value=0.05,weak=yes optimizer=sgd batch=8",
        COLUMNS("DP", "bounded", "ad hoc", "distributed PS", "bounded"),
        .remarks = "A worker that has sent updates which others have not read, and which move a "
                   "weight by more than a bound that falls with the root of the step, waits.",
    },
    {
        .name = "consgd",
        .title = "ConSGD: updates scaled by the number of workers under SSP",
        .by = "Jiang et al. 2017",
        .row = 0,
        .flags = "strategy=ps:slack=3,staleness=workers optimizer=sgd lr=0.4 batch=8",
        COLUMNS("DP", "bounded", "ad hoc", "distributed PS", "bounded"),
        .remarks = "The constant sibling of DynSGD.",
    },
    {
        .name = "dc-asgd",
        .title = "DC-ASGD: asynchronous SGD with delay compensation",
        .by = "Zheng et al. 2017",
        .row = 52,
        .flags = "strategy=ps:compensate=0.04 optimizer=sgd lr=0.05 batch=8",
        COLUMNS("DP", "async.", "ad hoc", "single PS", "asynchronous"),
        .remarks = "A late gradient is corrected to first order by the change of the model since "
                   "it was read.",
    },
    {
        .name = "dc-asgd-a",
        .title = "DC-ASGD with an adaptive weight",
        .by = "Zheng et al. 2017",
        .row = 0,
        .flags = "strategy=ps:compensate=2,decay=0.95 optimizer=sgd batch=8",
        COLUMNS("DP", "async.", "ad hoc", "single PS", "asynchronous"),
        .remarks = "The correction is divided by a running mean square of the gradient.",
    },
    {
        .name = "agn",
        .title = "AGN and ADAG: accumulated gradients, normalised",
        .by = "Hermans et al. 2017",
        .row = 54,
        .flags = "strategy=ps:fetch=4,push=4,send=mean optimizer=sgd lr=0.2 batch=8",
        COLUMNS("DP", "async.", "ad hoc", "single PS", "asynchronous"),
        .remarks =
            "Local steps explore; their accumulated update is divided by their number before "
            "it is added.",
    },
    {
        .name = "dynsgd",
        .title = "DynSGD: updates scaled by their staleness under SSP",
        .by = "Jiang et al. 2017",
        .row = 32,
        .flags = "strategy=ps:slack=3,staleness=inverse optimizer=sgd lr=0.2 batch=8",
        COLUMNS("DP", "bounded", "ad hoc", "distributed PS", "bounded"),
        .remarks = "For workers of different speeds: late updates count less.",
    },
    {
        .name = "bosen",
        .title = "Bösen: SSP within a budget of bandwidth",
        .by = "Wei et al. 2015",
        .row = 49,
        .flags = "strategy=ps:servers=0,slack=30,eager=yes codec=budget:bandwidth=1.6e8 "
                 "codec_down=budget:bandwidth=1.6e8 optimizer=sgd lr=0.025 batch=8",
        COLUMNS("DP", "bounded", "ad hoc", "distributed PS", "bounded"),
        .remarks = "Updates are sent in the order of their relative size, within a budget of bits "
                   "per second, early when the link is idle, and at the latest when the staleness "
                   "bound demands it. Servers send new values unasked, within a budget and an "
                   "order of the same kind, and all that a reader lacks when the bound demands "
                   "it. The bound comes before the budget: workers have been seen to send 1.07 "
                   "times and servers 1.26 times what it allows, and more with a small slack, or a "
                   "model that takes longer than half of it.",
    },
    {
        .name = "pmls",
        .title = "PMLS: Bösen and STRADS",
        .by = "Petuum 2016",
        .row = 50,
        .flags = "strategy=ps:servers=0,slack=30,eager=yes codec=budget:bandwidth=1.6e8 "
                 "codec_down=budget:bandwidth=1.6e8 optimizer=sgd lr=0.025 batch=8",
        COLUMNS("DP", "bounded", "ad hoc", "distributed PS", "bounded"),
        .remarks = "Bösen with a scheduler of model-parallel work.",
        .missing = "the scheduler in the same run: STRADS is a strategy of its own, strads, whose "
                   "workers compute the whole gradient",
        .alias_of = "bosen",
        .differs = "the scheduler STRADS",
    },
    {
        .name = "downpour",
        .title = "Downpour SGD",
        .by = "Dean et al. 2012",
        .row = 23,
        .flags = "strategy=ps:servers=2,fetch=5,push=5,warm=0.4 optimizer=adagrad lr=0.01 batch=4",
        COLUMNS("DP", "async.", "ad hoc", "distributed PS", "asynchronous"),
        .remarks = "Replicas take local steps, push the gradients that accrued and fetch every few "
                   "steps, and never wait for each other; Adagrad at the servers and a warm start, "
                   "in which one replica trains alone, make it stable. A replica waits for its "
                   "fetch, not for its push; the paper's does both in the background.",
    },
    {
        .name = "distbelief",
        .title = "DistBelief",
        .by = "Dean et al. 2012",
        .row = 7,
        .flags = "strategy=ps:servers=2,fetch=5,push=5,warm=0.4 optimizer=adagrad lr=0.01 batch=4",
        COLUMNS("MP + DP", "async.", "ad hoc", "distributed PS", "asynchronous"),
        .remarks = "The first large system: replicas that are split over machines, under "
                   "Downpour.",
        .missing =
            "model parallelism and replicated shards in the preset: --mesh data=2,pipe=2 and "
            "ps:replicas=1 beside it give them; redundant replicas of split models; fetches and "
            "pushes in the background",
        .alias_of = "downpour",
        .differs = "model-parallel replicas",
    },
    {
        .name = "project-adam",
        .title = "Project Adam",
        .by = "Chilimbi et al. 2014",
        .row = 16,
        .flags = "strategy=ps:servers=2,epochs=0.75,replicas=1,factors=auto optimizer=sgd lr=0.05 "
                 "batch=8",
        COLUMNS("MP + DP", "async.", "ad hoc", "distributed PS", "asynchronous"),
        .remarks = "Dense layers send activations and errors, and servers multiply them; an epoch "
                   "ends when 75% of its samples have been processed.",
        .missing =
            "split models with epochs=0.75: --mesh needs ps:epochs=1; layers that are cut to "
            "fit a cache; agreement by Paxos: copies are written by the workers",
    },
    {
        .name = "gpu-a-sgd",
        .title = "GPU A-SGD",
        .by = "Paine et al. 2013",
        .row = 57,
        .flags = "strategy=ps:fetch=2,push=2 optimizer=sgd lr=0.025 batch=4",
        COLUMNS("DP", "async.", "ad hoc", "single PS", "asynchronous"),
        .remarks = "Downpour's client among GPUs, by plain SGD: local steps between fetches.",
        .missing = "GPUs: a worker is a processor; fetches and pushes in the background",
    },
    {
        .name = "staleness-aware",
        .title = "Staleness-aware asynchronous SGD",
        .by = "Zhang et al. 2016",
        .row = 51,
        .flags = "strategy=ps:staleness=inverse optimizer=sgd lr=0.4 batch=8",
        COLUMNS("DP", "async.", "ad hoc", "distributed PS", "asynchronous"),
        .remarks = "The learning rate of a gradient is divided by its staleness.",
    },
    {
        .name = "rudra",
        .title = "Rudra: n-softsync",
        .by = "Gupta et al. 2016",
        .row = 39,
        .flags = "strategy=ps:proxies=2,free_running=yes,softsync=1,staleness=inverse "
                 "optimizer=sgd lr=0.4 batch=8",
        COLUMNS("DP", "async.", "ad hoc", "hierarchical PS", "asynchronous"),
        .remarks = "An update is made of P/n gradients, whichever learners computed them; a proxy "
                   "takes gradients as they come and reads and writes for its learners, which do "
                   "not wait for each other. The learning rate is divided by the staleness.",
    },
    {
        .name = "stalest-first",
        .title = "A queue of workers by their staleness",
        .by = "Langer et al. 2020",
        .row = 42,
        .flags = "strategy=ps:stalest=yes optimizer=sgd lr=0.05 batch=8",
        COLUMNS("DP", "async.", "ad hoc", "distributed PS", "asynchronous"),
        .remarks = "A server answers the waiting request of the worker that is furthest behind "
                   "first; in shared memory no request waits.",
    },
    {
        .name = "reject-late",
        .title = "Rejection of late updates",
        .by = "Langer et al. 2020",
        .row = 45,
        .flags = "strategy=ps:reject=4 optimizer=sgd batch=8",
        COLUMNS("DP", "async.", "ad hoc", "distributed PS", "asynchronous"),
        .remarks = "Updates that are too late are dropped; slow workers contribute nothing, which "
                   "biases the model.",
    },
    {
        .name = "async-momentum",
        .title = "Asynchrony begets momentum",
        .by = "Mitliagkas et al. 2016",
        .row = 56,
        .flags = "strategy=ps:momentum=-0.2 optimizer=sgd batch=8",
        COLUMNS("DP", "async.", "ad hoc", "distributed PS", "asynchronous"),
        .remarks = "P workers are an implicit momentum of 1 - 1/P, which is measured, so the "
                   "explicit one is set lower, even negative.",
    },
    {
        .name = "gaia-asp",
        .title = "Approximate synchronous parallel over a WAN",
        .by = "Hsieh et al. 2017",
        .row = 38,
        .flags = "strategy=ps:proxies=2,mirror=yes,slack=1,barrier=100000 "
                 "codec=significance:threshold=0.01 optimizer=sgd lr=0.2 batch=8",
        COLUMNS("DP", "bounded", "ad hoc", "hierarchical PS", "bounded"),
        .remarks =
            "A server and a model in each data centre. Only significant changes are sent between "
            "data centres, to each of the others; the rest is used locally and adds up until it is "
            "significant; the slack is that of the mirror clocks. Many changes are announced, and "
            "reads at their receiver, which are of the whole model, wait for them.",
    },
    { .name = NULL },
};
