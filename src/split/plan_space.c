/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The space of a job's plans: the places where the network can be cut, the layouts that its shards
 * may have, and the nodes that workers may live on.
 *
 *     nodes of workers     as the cluster places them: its placement, else one on each node in turn
 *     classes              nodes that differ in no property and no link of their own are exchanged
 *                          for one another without a change: one order of them is enough
 *     parts                a stage without shards is a difference of two sums over nodes; with
 *                          shards it is made as a run makes it, once for each range, number of
 *                          shards and layout
 *
 * Standard layouts: the standard of the option, and for each kind of split the one that gives it to
 * all layers that it fits (`samples`, `pairs`, ...).
 */
#include "split/placement.h"

#include "base/memory.h"
#include "split/kinds.h"
#include "split/named_cuts.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

enum { NODES_STANDARD = 4 };  /* of a cluster without a number of them */
enum { ROUNDS_SAMPLES = 64 }; /* over which blocks of weights are spread */

/* A part with shards that was made. */
typedef struct cached_part {
    int first, last; /* cuts around it */
    int64_t shards;  /* T */
    int layout;      /* number of its layout */
    fast_err err;    /* why it cannot be */
    char why[FAST_DETAIL_MAX];
    fast_plan_part part;      /* if err is FAST_OK */
    struct cached_part *next; /* made before */
} cached_part;

struct fast_plan_cache {
    cached_part *first; /* made last */
};

/* Find the places where the network can be cut, with the sums of costs before each. A run is told a
 * cut by the name of the layer behind it, so there is one place before each layer. */
static fast_err fill_cuts(fast_plan_space *space, int *named, bool *needs)
{
    const fast_graph *graph = space->job.graph;
    fast_split_cost sum = { 0 };
    int64_t state = 0;
    int next = 0;

    const int count = fast__split_cut_list(graph, named);
    FAST_TRY(fast__alloc("cuts", graph->node_count, sizeof *space->cuts, &space->cuts));
    FAST_TRY(fast__alloc("costs", graph->node_count, sizeof *space->prefixes, &space->prefixes));
    FAST_TRY(fast__alloc("states", graph->node_count, sizeof *space->states, &space->states));
    FAST_TRY(fast__alloc("sizes", graph->node_count, sizeof *space->largest, &space->largest));
    fast__graph_needs(graph, needs);
    for (int k = 0; k < graph->node_count; k++) {
        if (k > 0)
            fast__split_cost_add(graph, needs, k, &sum);
        if (k > 0 && graph->nodes[k].count > space->largest[space->cut_count])
            space->largest[space->cut_count] = graph->nodes[k].count;
        for (int w = 0; w < 2; w++)
            if (graph->nodes[k].state[w] >= 0)
                state += graph->state.segments[graph->nodes[k].state[w]].count;
        if (k > 0 && k < graph->node_count - 1 && (next == count || k != named[next]))
            continue;
        next += k > 0;
        space->cuts[space->cut_count] = k;
        space->states[space->cut_count] = state;
        space->prefixes[space->cut_count++] = sum;
    }
    return FAST_OK;
}

/* Find the cuts of the network, with memory for the work. */
static fast_err list_cuts(fast_plan_space *space)
{
    const int64_t count = space->job.graph->node_count;
    bool *needs = NULL;
    int *named = NULL;

    fast_err err = fast__alloc("named cuts", count, sizeof *named, &named);
    err = err ? err : fast__alloc("needs", count, sizeof *needs, &needs);
    err = err ? err : fill_cuts(space, named, needs);
    fast__free(named);
    fast__free(needs);
    return err;
}

/* The node of worker i where the cluster places workers. */
static int64_t placed(const fast_cluster *cluster, int64_t i)
{
    int64_t room = 0;

    for (int64_t k = 0; k < cluster->place_count; k++)
        if (strcmp(cluster->places[k].role, "worker") == 0)
            room += cluster->places[k].last - cluster->places[k].first + 1;
    for (int64_t k = 0, at = room > 0 ? i % room : 0; room > 0; k++) {
        const fast_place_spec *place = &cluster->places[k];

        if (strcmp(place->role, "worker") != 0)
            continue;
        if (at <= place->last - place->first)
            return place->first + at;
        at -= place->last - place->first + 1;
    }
    return cluster->node_count > 0 ? i % cluster->node_count : i;
}

/* Does a node have links of its own? */
static bool has_links(const fast_cluster *cluster, int64_t node)
{
    for (int64_t i = 0; i < cluster->link_count; i++)
        if (!cluster->links[i].zones &&
            (cluster->links[i].from == node || cluster->links[i].to == node))
            return true;
    return false;
}

/* Are two nodes exchanged for one another without a change? */
static bool are_alike(const fast_cluster *cluster, int64_t a, int64_t b)
{
    const fast_node_spec *x = &cluster->nodes[a % cluster->spec_count];
    const fast_node_spec *y = &cluster->nodes[b % cluster->spec_count];

    return !(x->speed > y->speed) && !(x->speed < y->speed) && !(x->memory > y->memory) &&
           !(x->memory < y->memory) && !(x->jitter > y->jitter) && !(x->jitter < y->jitter) &&
           !(x->capacity > y->capacity) && !(x->capacity < y->capacity) && x->cores == y->cores &&
           x->zone == y->zone && !has_links(cluster, a) && !has_links(cluster, b);
}

/* List the nodes that workers may live on, and their classes. */
static fast_err list_nodes(fast_plan_space *space)
{
    const fast_cluster *cluster = space->cluster;
    fast_plan_job *job = &space->job;

    if (job->workers == 0) {
        const fast_node_spec *only = &cluster->nodes[0];

        job->workers = cluster->node_count > 0 ? cluster->node_count : NODES_STANDARD;
        if (cluster->node_count == 1 && only->cores > 0)
            job->workers = only->cores;
        if (job->workers > FAST_PLAN_WORKERS_MAX)
            job->workers = FAST_PLAN_WORKERS_MAX;
    }
    if (job->workers > FAST_PLAN_WORKERS_MAX)
        return fast__fail(FAST_EINVAL, "workers=%lld: plans are of at most %d workers",
                          (long long)job->workers, FAST_PLAN_WORKERS_MAX);
    space->node_count = job->workers;
    FAST_TRY(fast__alloc("nodes", job->workers, sizeof *space->places, &space->places));
    FAST_TRY(fast__alloc("classes", job->workers, sizeof *space->classes, &space->classes));
    for (int64_t i = 0; i < space->node_count; i++) {
        space->places[i] = placed(cluster, i);
        space->classes[i] = i;
        for (int64_t k = 0; k < i; k++)
            if (space->classes[k] == k &&
                (space->places[i] == space->places[k] ||
                 (cluster->node_count != 1 && job->workers <= cluster->node_count &&
                  are_alike(cluster, space->places[i], space->places[k])) ||
                 (cluster->node_count == 0 &&
                  are_alike(cluster, space->places[i], space->places[k])))) {
                space->classes[i] = k;
                break;
            }
    }
    return FAST_OK;
}

fast_err fast__plan_layout_add(fast_plan_space *space, const char *text, int *out)
{
    for (int i = 0; i < space->layout_count; i++)
        if (strcmp(space->layout_texts[i], text) == 0) {
            *out = i;
            return FAST_OK;
        }
    if (space->layout_count == FAST_PLAN_LAYOUTS_MAX ||
        strlen(text) >= sizeof space->layout_texts[0])
        return fast__fail(FAST_EINVAL, "layout=%.60s...: there are too many layouts to plan", text);
    FAST_TRY(fast__layout_map_parse(text, &space->layouts[space->layout_count]));
    snprintf(space->layout_texts[space->layout_count], sizeof space->layout_texts[0], "%s", text);
    *out = space->layout_count++;
    return FAST_OK;
}

bool fast__plan_times(const fast_split_kind *kind)
{
    return kind != &fast__split_streaming;
}

/* Add the layouts that are tried where none is given. */
static fast_err list_layouts(fast_plan_space *space)
{
    const char *given = space->job.layout;
    int number;

    FAST_TRY(fast__plan_layout_add(space, given, &number));
    if (given[0])
        FAST_TRY(fast__layout_map_check(&space->layouts[number], space->job.graph));
    if (strstr(given, "streaming"))
        return fast__fail(FAST_EINVAL,
                          "layout=%.60s: plans do not know the time of streaming; give the mesh to "
                          "fast train",
                          given);
    for (int i = 0; fast__split_kinds[i] && !given[0]; i++)
        if (fast__plan_times(fast__split_kinds[i]))
            FAST_TRY(fast__plan_layout_add(space, fast__split_kinds[i]->name, &number));
    return FAST_OK;
}

/* Refuse what cannot be planned at all. */
static fast_err check_job(const fast_plan_job *job)
{
    FAST_ASSERT(job->graph != NULL && job->cluster != NULL && job->pipeline != NULL);
    FAST_ASSERT(job->strategy != NULL && job->layout != NULL && job->cuts != NULL);
    FAST_ASSERT(job->batch >= 1);
    if (job->mesh.pipe > FAST_PLAN_STAGES_MAX)
        return fast__fail(FAST_EINVAL, "pipe=%lld: plans are of at most %d stages",
                          (long long)job->mesh.pipe, FAST_PLAN_STAGES_MAX);
    return FAST_OK;
}

/* Fill a space whose job is set. */
static fast_err fill(fast_plan_space *space)
{
    FAST_TRY(check_job(&space->job));
    FAST_TRY(fast__cluster_open(space->job.cluster, &space->cluster));
    FAST_TRY(fast__alloc("parts", 1, sizeof *space->cache, &space->cache));
    FAST_TRY(list_cuts(space));
    FAST_TRY(list_nodes(space));
    return list_layouts(space);
}

/* Free a part with shards. */
static void free_part(cached_part *part)
{
    fast__split_shard_free(part->part.shard);
    fast__split_stage_free(part->part.stage);
    fast__free(part);
}

fast_err fast__plan_space_open(const fast_plan_job *job, fast_plan_space **out)
{
    fast_plan_space *space = NULL;

    FAST_TRY(fast__alloc("a space of plans", 1, sizeof *space, &space));
    space->job = *job;
    const fast_err err = fill(space);
    if (err) {
        fast__plan_space_close(space);
        return err;
    }
    *out = space;
    return FAST_OK;
}

void fast__plan_space_close(fast_plan_space *space)
{
    if (!space)
        return;
    for (cached_part *part = space->cache ? space->cache->first : NULL, *next; part; part = next) {
        next = part->next;
        free_part(part);
    }
    fast__free(space->cache);
    fast__free(space->cuts);
    fast__free(space->prefixes);
    fast__free(space->states);
    fast__free(space->largest);
    fast__free(space->places);
    fast__free(space->classes);
    fast__cluster_free(space->cluster);
    fast__free(space);
}

/* Floats of a sample that a shard sends in a change of layout, and whether it sends any. */
static double sent_of(const fast_reshard *how, fast_reshard_kind kind, int64_t shards,
                      int64_t *messages)
{
    const fast_reshard_value value = { how, kind, shards, shards };
    int64_t sum = 0;

    if (kind == FAST_RESHARD_NONE || kind == FAST_RESHARD_SLICE)
        return 0;
    if (kind == FAST_RESHARD_SUM) {
        const fast_reshard_box all = fast__reshard_before(&value, 0);

        *messages += 2;
        return 2.0 * (double)(shards - 1) / (double)shards *
               (double)fast__reshard_count(&value, &all) / (double)shards;
    }
    for (int64_t u = 1; u < shards; u++) {
        const fast_reshard_box part = fast__reshard_common(&value, 0, u);

        sum += fast__reshard_count(&value, &part);
    }
    *messages += sum > 0;
    return (double)sum / (double)shards;
}

/* Add the rounds of a section to its part, by the mean of a sample of many. */
static void add_rounds(const fast_split_section *section, int64_t shards, fast_plan_part *out)
{
    const fast_round_op *op = section->rounds;
    fast_round_call call = { .graph = &section->graph,
                             .samples = ROUNDS_SAMPLES,
                             .shard = shards - 1, /* as make_part() cuts it */
                             .shards = shards };
    const int64_t count = op->rounds(&call);
    double operations = 0, floats = 0;

    for (call.round = 0; call.round < count; call.round++)
        operations += op->operations(&call);
    for (int v = 0; v < FAST_VISITORS_MAX; v++) {
        floats += (double)op->floats(&call, v);
        out->messages += op->floats(&call, v) > 0 ? 2 * (count - 1) : 0;
    }
    out->forward += operations / ROUNDS_SAMPLES;
    out->backward += 2 * operations / ROUNDS_SAMPLES;
    out->exchange_forward += floats * (double)(count - 1) / ROUNDS_SAMPLES;
    out->exchange_backward += 2 * floats * (double)(count - 1) / ROUNDS_SAMPLES;
    out->rounds = true;
}

/* Add what a node exchanges in the middle of a section. Moments are of no sample, and few: they
 * count as messages alone. */
static void add_exchange(const fast_node *node, int64_t shards, fast_plan_part *out)
{
    const fast_reshard *how = node->exchange;

    if (!how)
        return;
    const double forward = sent_of(how, how->forward, shards, &out->messages);
    const double backward = sent_of(how, how->backward, shards, &out->messages);
    out->exchange_forward += node->op == FAST_OP_BATCH_NORM ? 0 : forward;
    out->exchange_backward += node->op == FAST_OP_BATCH_NORM ? 0 : backward;
}

/* Add a section of a shard to its part. */
static fast_err add_section(const fast_split_shard *shard, int64_t k, int64_t shards, bool first,
                            fast_plan_part *out)
{
    const fast_split_section *section = &shard->sections[k];
    const double share = section->divided ? 1 / (double)shards : 1;
    int64_t largest = 0;
    bool *needs = NULL;

    FAST_TRY(fast__alloc("needs", section->graph.node_count, sizeof *needs, &needs));
    fast__graph_needs(&section->graph, needs);
    const double forward = fast__graph_flops_forward(&section->graph);
    if (section->rounds) {
        add_rounds(section, shards, out);
    } else {
        out->forward += share * forward;
        out->backward += share * (fast__graph_flops_train(&section->graph, needs) - forward);
        for (int i = 1; i < section->graph.node_count; i++)
            out->weights += share * fast__split_weights(&section->graph, needs, i);
    }
    fast__free(needs);
    for (int i = 1; i < section->graph.node_count; i++) {
        const int64_t floats = section->graph.nodes[i].count; /* compiled for all samples */

        out->activations += floats;
        largest = floats > largest ? floats : largest;
    }
    out->largest += largest;
    out->copied += section->graph.nodes[0].count;
    out->divided = out->divided || section->divided;
    out->grid = section->enter.grid > out->grid ? section->enter.grid : out->grid;
    for (int i = 1; i < section->graph.node_count; i++)
        add_exchange(&section->graph.nodes[i], shards, out);
    if (!first || k > 0) {
        out->exchange_forward +=
            sent_of(&section->enter, section->enter.forward, shards, &out->messages);
        out->exchange_backward +=
            sent_of(&section->enter, section->enter.backward, shards, &out->messages);
    }
    out->exchange_forward +=
        sent_of(&section->leave, section->leave.forward, shards, &out->messages);
    out->exchange_backward +=
        sent_of(&section->leave, section->leave.backward, shards, &out->messages);
    return FAST_OK;
}

fast_err fast__plan_measure_shard(const fast_split_shard *shard, int64_t shards, bool first,
                                  fast_plan_part *out)
{
    fast_plan_part part = { .params = shard->params.count, .state = shard->state.count };

    for (int64_t i = 0; i < shard->partial_count; i++)
        part.partial += shard->partial[i].count;
    for (int64_t k = 0; k < shard->section_count; k++)
        FAST_TRY(add_section(shard, k, shards, first, &part));
    *out = part;
    return FAST_OK;
}

/* Make a part with shards. */
static fast_err make_part(const fast_plan_space *space, cached_part *cached)
{
    const fast_graph *graph = space->job.graph;
    const int first = space->cuts[cached->first], last = space->cuts[cached->last];
    fast_plan_part *part = &cached->part, measured;

    FAST_TRY(fast__split_stage_new(graph, first, last, &part->stage));
    /* The last shard: where T does not divide a dimension it has the longest range. */
    FAST_TRY(fast__split_shard_new(part->stage, &space->layouts[cached->layout], cached->shards,
                                   cached->shards - 1, &part->shard));
    FAST_TRY(fast__plan_measure_shard(part->shard, cached->shards, first == 0, &measured));
    measured.stage = part->stage;
    measured.shard = part->shard;
    measured.inputs = first > 0 ? graph->nodes[first].count : 0;
    measured.outputs = last < graph->node_count - 1 ? graph->nodes[last].count : 0;
    *part = measured;
    return FAST_OK;
}

/* Find a part with shards, or make it. */
static fast_err shard_part(const fast_plan_space *space, int first, int last, int64_t shards,
                           int layout, fast_plan_part *out)
{
    cached_part *cached = space->cache->first;

    while (cached && (cached->first != first || cached->last != last || cached->shards != shards ||
                      cached->layout != layout))
        cached = cached->next;
    if (!cached) {
        FAST_TRY(fast__alloc("a part", 1, sizeof *cached, &cached));
        cached->first = first;
        cached->last = last;
        cached->shards = shards;
        cached->layout = layout;
        cached->err = make_part(space, cached);
        if (cached->err == FAST_ENOMEM) {
            free_part(cached);
            return FAST_ENOMEM;
        }
        if (cached->err)
            snprintf(cached->why, sizeof cached->why, "%s", fast_error_detail());
        cached->next = space->cache->first;
        space->cache->first = cached;
    }
    if (cached->err)
        return fast__fail(cached->err, "%s", cached->why);
    *out = cached->part;
    return FAST_OK;
}

fast_err fast__plan_part(fast_plan_space *space, const fast_plan *plan, int64_t stage,
                         fast_plan_part *out)
{
    const fast_graph *graph = space->job.graph;
    const int first = stage > 0 ? plan->cuts[stage - 1] : 0, last = plan->cuts[stage];

    FAST_ASSERT(stage >= 0 && stage < fast__plan_stages(plan));
    FAST_ASSERT(first < last && last < space->cut_count);
    if (plan->mesh.tensor > 1)
        return shard_part(space, first, last, plan->mesh.tensor, plan->layout, out);
    const fast_split_cost *a = &space->prefixes[first], *b = &space->prefixes[last];
    *out = (fast_plan_part){
        .forward = b->forward - a->forward,
        .backward = b->backward - a->backward,
        .weights = b->weights - a->weights,
        .params = b->params - a->params,
        .state = space->states[last] - space->states[first],
        .activations = b->activations - a->activations,
        .inputs = first > 0 ? graph->nodes[space->cuts[first]].count : 0,
        .copied = graph->nodes[space->cuts[first]].count,
        .outputs = last < space->cut_count - 1 ? graph->nodes[space->cuts[last]].count : 0,
    };
    for (int i = first + 1; i <= last; i++)
        out->largest = space->largest[i] > out->largest ? space->largest[i] : out->largest;
    return FAST_OK;
}

/* Say why the parts of a plan with shards do not divide its stages, or NULL. */
static fast_err shards_refusal(fast_plan_space *space, const fast_plan *plan, const char **why)
{
    const bool halves = fast__pipe_divides(plan->way.pipeline);
    bool divides = false;

    for (int64_t s = 0; s < fast__plan_stages(plan); s++) {
        fast_plan_part part;
        const fast_err err = fast__plan_part(space, plan, s, &part);

        if (err == FAST_ENOMEM)
            return err;
        *why = err ? "a layout that does not fit the model" : NULL;
        if (err)
            return FAST_OK;
        divides = divides || part.shard->run_count > 0;
        *why = part.divided && fast__plan_micro_batch(space, plan) % plan->mesh.tensor != 0
                   ? "shards cannot have as many samples each"
               : fast__plan_micro_batch(space, plan) < part.grid
                   ? "fewer samples than rows of a grid of shards"
               : halves && part.rounds ? "rounds of shards, whose passes are not divided"
                                       : NULL;
        if (*why)
            return FAST_OK;
    }
    *why = divides ? NULL : "nothing that shards divide";
    return FAST_OK;
}

/* Say what is wrong with the numbers of a plan, or NULL. */
static const char *numbers_refusal(const fast_plan_space *space, const fast_plan *plan)
{
    if (fast__mesh_size(&plan->mesh) > space->node_count)
        return "more workers than there are";
    if (fast__plan_stages(plan) > FAST_PLAN_STAGES_MAX)
        return "too many stages";
    if (space->job.batch % (plan->mesh.data * plan->way.micro_batches) != 0)
        return "the batch does not divide over replicas and micro-batches";
    for (int64_t s = 0; s < fast__plan_stages(plan); s++) {
        const int first = s > 0 ? plan->cuts[s - 1] : 0;

        if (plan->cuts[s] <= first ||
            space->prefixes[plan->cuts[s]].params == space->prefixes[first].params)
            return "a stage without parameters";
    }
    return NULL;
}

fast_err fast__plan_refusal(fast_plan_space *space, const fast_plan *plan, const char **why_out)
{
    *why_out = numbers_refusal(space, plan);
    return !*why_out && plan->mesh.tensor > 1 ? shards_refusal(space, plan, why_out) : FAST_OK;
}

int64_t fast__plan_stages(const fast_plan *plan)
{
    return plan->mesh.pipe * (plan->way.chunks > 1 ? plan->way.chunks : 1);
}

fast_pipe_place fast__plan_place(const fast_plan_space *space, const fast_plan *plan, int64_t stage)
{
    return (fast_pipe_place){ .pipeline = plan->way.pipeline,
                              .stages = plan->mesh.pipe,
                              .stage = stage,
                              .micro_batches = plan->way.micro_batches,
                              .chunks = plan->way.chunks,
                              .delay = space->job.delay,
                              .active = space->job.active,
                              .vertical = space->job.vertical };
}

int64_t fast__plan_micro_batch(const fast_plan_space *space, const fast_plan *plan)
{
    return space->job.batch / plan->mesh.data / plan->way.micro_batches;
}

double fast__plan_computed(const fast_plan_space *space, const fast_plan *plan)
{
    const int64_t granule = space->job.granule > 0 ? space->job.granule : 1;

    return (double)((fast__plan_micro_batch(space, plan) + granule - 1) / granule * granule);
}

int64_t fast__plan_warm(const fast_plan_space *space, const fast_plan *plan)
{
    const fast_pipe_place first = fast__plan_place(space, plan, 0);
    const int64_t M = first.micro_batches;

    return 1 + (fast__pipe_drains(first.pipeline) ? 0 : (fast__pipe_flight(&first) + M - 1) / M);
}

const fast_node_spec *fast__plan_node(const fast_plan_space *space, const fast_plan *plan,
                                      int64_t worker)
{
    FAST_ASSERT(worker >= 0 && worker < fast__mesh_size(&plan->mesh));
    return &space->cluster->nodes[plan->nodes[worker] % space->cluster->spec_count];
}

const fast_sim_link *fast__plan_link(const fast_plan_space *space, int64_t from, int64_t to)
{
    const fast_cluster *cluster = space->cluster;
    const int a = cluster->nodes[from % cluster->spec_count].zone;
    const int b = cluster->nodes[to % cluster->spec_count].zone;
    const fast_sim_link *found = &cluster->link;

    if (from == to)
        return &cluster->local;
    for (int64_t i = 0; i < cluster->link_count; i++) {
        const fast_sim_link_spec *spec = &cluster->links[i];
        const int64_t x = spec->zones ? a : from, y = spec->zones ? b : to;

        if ((spec->from == x && spec->to == y) || (spec->both && spec->from == y && spec->to == x))
            found = &spec->link;
    }
    return found;
}

/* Append "name=value" to a list of texts; returns the bytes that it needs. */
static size_t put(char *text, size_t size, size_t used, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

static size_t put(char *text, size_t size, size_t used, const char *format, ...)
{
    va_list list;

    va_start(list, format);
    const int length =
        vsnprintf(used < size ? text + used : NULL, used < size ? size - used : 0, format, list);
    va_end(list);
    return used + (size_t)length;
}

/* Append the cuts of a plan. */
static size_t put_cuts(const fast_plan_space *space, const fast_plan *plan, char *text, size_t size,
                       size_t used)
{
    const int64_t stages = fast__plan_stages(plan);

    for (int64_t s = 0; s < stages - 1; s++) {
        char name[FAST_SEGMENT_NAME_MAX];

        fast__split_cut_name(space->job.graph, space->cuts[plan->cuts[s]], name, sizeof name);
        used = put(text, size, used, "%s%s", s > 0 ? "," : "cuts=", name);
    }
    return stages > 1 ? used + 1 : used;
}

/* Append the nodes of a plan's workers, unless they are the cluster's own choice. */
static size_t put_nodes(const fast_plan_space *space, const fast_plan *plan, char *text,
                        size_t size, size_t used)
{
    const int64_t workers = fast__mesh_size(&plan->mesh);
    bool own = true;

    for (int64_t i = 0; i < workers; i++)
        own = own && plan->nodes[i] == space->places[i];
    if (own)
        return used;
    for (int64_t i = 0; i < workers;) {
        int64_t end = i;

        while (end + 1 < workers && plan->nodes[end + 1] == plan->nodes[end] + 1)
            end++;
        used = put(text, size, used, "%s%d", i > 0 ? "," : "placement=", plan->nodes[i]);
        if (end > i)
            used = put(text, size, used, "-%d", plan->nodes[end]);
        i = end + 1;
    }
    return used + 1;
}

/* Append the schedule of a plan. */
static size_t put_schedule(const fast_plan_way *way, char *text, size_t size, size_t used)
{
    char name[FAST_PIPELINE_NAME_MAX];

    fast__pipe_name(way->pipeline, name);
    if (way->pipeline != FAST_PIPELINE_1F1B)
        used = put(text, size, used, "pipeline=%s", name) + 1;
    return way->chunks > 1 ? put(text, size, used, "chunks=%lld", (long long)way->chunks) + 1
                           : used;
}

size_t fast__plan_options(const fast_plan_space *space, const fast_plan *plan, char *text,
                          size_t size)
{
    static const char *const strategies[] = { NULL, "zero:stage=1", "zero:stage=2", "zero:stage=3",
                                              "ps:slack=0" };
    size_t used = put(text, size, 0, "mesh=data=%lld", (long long)plan->mesh.data);

    if (plan->mesh.pipe > 1)
        used = put(text, size, used, ",pipe=%lld", (long long)plan->mesh.pipe);
    if (plan->mesh.tensor > 1)
        used = put(text, size, used, ",tensor=%lld", (long long)plan->mesh.tensor);
    used = put_cuts(space, plan, text, size, used + 1);
    if (plan->mesh.tensor > 1 && space->layout_texts[plan->layout][0])
        used = put(text, size, used, "layout=%s", space->layout_texts[plan->layout]) + 1;
    if (plan->mesh.pipe > 1)
        used = put_schedule(&plan->way, text, size, used);
    used = put(text, size, used, "batch=%lld", (long long)fast__plan_micro_batch(space, plan)) + 1;
    used = put(text, size, used, "accumulate=%lld", (long long)plan->way.micro_batches) + 1;
    if (space->job.strategy[0] && plan->mesh.data > 1)
        used = put(text, size, used, "strategy=%s", space->job.strategy) + 1;
    else if (strategies[plan->exchange])
        used = put(text, size, used, "strategy=%s", strategies[plan->exchange]) + 1;
    if (plan->recompute)
        used = put(text, size, used, "recompute=yes") + 1;
    used = put_nodes(space, plan, text, size, used);
    if (used < size)
        text[used] = '\0';
    else if (size > 0)
        text[size - 1] = '\0';
    return used + 1;
}
