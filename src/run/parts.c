/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Every part that can be chosen by name, as one kind of list: what `--help`, the manual and shell
 * completion are made of. The registries are lists of pointers to the parts' own types; their
 * names, summaries and tables are copied here once, at the first question.
 *
 * fast_part_list("codec", &n) has the codecs, then their stages; "train" and "actors" have one part
 * each, with all options of the command. An unknown kind gives NULL and 0. Any thread may ask.
 */
#include "codec/codec.h"
#include "comm/allreduces.h"
#include "comm/topology.h"
#include "run/representative.h"
#include "run/run.h"
#include "split/planner.h"
#include "strategy/strategy.h"
#include "strategy/systems.h"
#include "transport/sim/cluster.h"
#include "transport/sim/fault.h"
#include "transport/transport.h"

#include <pthread.h>
#include <string.h>

enum { PARTS_MAX = 256 };

typedef struct part_list {
    fast_part parts[PARTS_MAX]; /* copied from the registry */
    int64_t count;              /* number of parts */
} part_list;

/* Written once, under pthread_once(), and constant from then on. */
static part_list models, datas, optimizers, engines, strategies, topologies, transports, allreduces,
    clusters, systems, codecs, policies, planners;
static fast_system system_list[PARTS_MAX];

/* Append a part to a list. */
static void add(part_list *list, fast_part part)
{
    FAST_ASSERT(list->count < PARTS_MAX);
    list->parts[list->count++] = part;
}

/* Add every part of a registry: a list of pointers that ends with NULL. */
#define ADD_ALL(list, registry)                               \
    for (int i = 0; (registry)[i]; i++)                       \
    add(list, (fast_part){ .name = (registry)[i]->name,       \
                           .summary = (registry)[i]->summary, \
                           .options = (registry)[i]->options })

/* Copy all registries into lists of parts, once. */
static void fill(void)
{
    fast_part cluster;

    ADD_ALL(&models, fast__models);
    ADD_ALL(&datas, fast__data_kinds);
    ADD_ALL(&optimizers, fast__rules);
    ADD_ALL(&allreduces, fast__allreduces);
    ADD_ALL(&codecs, fast__codecs);
    ADD_ALL(&codecs, fast__stages);
    ADD_ALL(&topologies, fast__topologies);
    ADD_ALL(&planners, fast__planners);
    for (int i = 0; fast__engines[i]; i++)
        add(&engines, (fast_part){ fast__engines[i]->name, fast__engines[i]->summary });
    for (int i = 0; fast__transports[i]; i++)
        add(&transports, (fast_part){ fast__transports[i]->name, fast__transports[i]->summary });
    for (int i = 0; fast__cluster_part(i, &cluster); i++)
        add(&clusters, cluster);
    for (int i = 0; fast__strategies[i]; i++) {
        const fast_strategy *s = fast__strategies[i];

        add(&strategies, (fast_part){ s->name, s->summary, s->options, s->exclusions });
    }
    for (int i = 0; fast__policies[i].name; i++)
        add(&policies, fast__policies[i]);
    for (int i = 0; fast__system_at(i); i++) {
        system_list[i] = *fast__system_at(i);
        add(&systems, (fast_part){ system_list[i].name, system_list[i].title });
    }
}

static pthread_once_t once = PTHREAD_ONCE_INIT;

const fast_system *fast_system_list(int64_t *count_out)
{
    FAST_ASSERT(count_out != NULL);
    pthread_once(&once, fill);
    *count_out = systems.count;
    return system_list;
}

/* The lists are made at the first call and constant from then on. */
const fast_part *fast_part_list(const char *kind, int64_t *count_out)
{
    static const struct {
        const char *kind;
        const part_list *list;
    } lists[] = { { "model", &models },         { "data", &datas },
                  { "optimizer", &optimizers }, { "engine", &engines },
                  { "cluster", &clusters },     { "topology", &topologies },
                  { "strategy", &strategies },  { "transport", &transports },
                  { "allreduce", &allreduces }, { "system", &systems },
                  { "codec", &codecs },         { "representative", &policies },
                  { "planner", &planners } };
    FAST_ASSERT(kind != NULL && count_out != NULL);
    pthread_once(&once, fill);
    *count_out = 0;
    if (strcmp(kind, "train") == 0) {
        *count_out = 1;
        return &fast__run_part;
    }
    if (strcmp(kind, "shard") == 0) {
        *count_out = 1;
        return &fast__shard_part;
    }
    if (strcmp(kind, "actors") == 0) {
        *count_out = 1;
        return &fast__actors_part;
    }
    if (strcmp(kind, "fault") == 0)
        return fast__fault_list(count_out);
    if (strcmp(kind, "schedule") == 0)
        return fast__schedule_list(count_out);
    if (strcmp(kind, "layer") == 0)
        return fast__layer_list(count_out);
    for (size_t i = 0; i < sizeof lists / sizeof lists[0]; i++)
        if (strcmp(lists[i].kind, kind) == 0) {
            *count_out = lists[i].list->count;
            return lists[i].list->parts;
        }
    return NULL;
}
