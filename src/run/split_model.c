/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The whole model of a run whose workers have parts of it: where it comes from, and how the parts
 * come together.
 *
 * In one process the run's own learner has it in memory. Where several processes have parts none
 * needs to have memory for all: the run's model is on disk (tensor/device_file.h), and
 *
 *     drawn      a process draws the layers that its actors have parts of, each tensor from a
 *                random stream of its own: the bits of the whole model's
 *     read       a file of weights or a checkpoint, tensor by tensor
 *     gathered   to worker 0's process, for evaluation and files
 *
 * so that resident is what was touched last, at most a tensor or a message.
 *
 * A part is sent as one sequence of floats, in pieces of at most PIECE, each of which worker 0 asks
 * for when it has stored the one before. Replicas of parts are equal: those of replica 0 are sent.
 *
 *     part      | w              | s     | slot 0 of the rule | slot 1 |     slots for checkpoints
 *     pieces    |     0     |     1      |     2     |     3      | 4  |
 *
 *     TAG_ASK    worker 0 to a worker of replica 0    words[0] step, words[1] first float
 *     TAG_PIECE  its answer                           words as asked; part 0: the floats
 *
 * Example: of four stages with 300,000 parameters each, adam and a checkpoint, a part has 900,000
 * floats. Worker 0 asks each of the others for 4 pieces, and stores the first one as
 *
 *     floats 0 to 262,143            the first parameters of the stage
 *
 * the second as the other 37,856 and the first 224,288 of the first moments, and so on. A shard's
 * parameters are slices of tensors: its map says where each row belongs.
 *
 * Where all workers are in one process there are no messages: worker 0's thread copies the parts
 * when all programs have ended, and asks the others' threads in mid-run, as processes are asked.
 *
 * Cost: two messages a piece; 4 bytes a parameter, 12 with the rule's state of adam.
 */
#include "base/memory.h"
#include "run/team.h"
#include "tensor/device_file.h"
#include "tensor/vector.h"

enum { TAG_ASK = 0x7fffff20, TAG_PIECE = 0x7fffff22 }; /* messages between processes */
enum { PIECE = 1 << 18 };                              /* floats: 1 MiB */

/* Where the model comes from. */

int64_t fast__split_segment(const fast_layout *layout, int64_t element)
{
    int64_t low = 0, high = layout->segment_count - 1;

    FAST_ASSERT(element >= 0 && element < layout->count);
    while (low < high) {
        const int64_t middle = (low + high + 1) / 2;

        if (layout->segments[middle].offset <= element)
            low = middle;
        else
            high = middle - 1;
    }
    return low;
}

/* Take room for the tensors of some layers: a page that has none on disk must not be written. */
static fast_err reserve_layers(const fast_run *run, const fast_layout *layout, const bool *layers,
                               const float *vector)
{
    for (int64_t i = 0; i < layout->segment_count; i++) {
        const fast_segment *s = &layout->segments[i];

        if (layers[s->layer])
            FAST_TRY(fast__device_file_reserve(run->evaluation.file, vector + s->offset, s->count));
    }
    return FAST_OK;
}

/* Draw a layer, and give the memory of its tensors back. */
static fast_err draw_layer(fast_team *team, int layer, bool *layers)
{
    const fast_run *run = team->run;
    const fast_learner *model = run->learner;

    layers[layer] = true;
    FAST_TRY(reserve_layers(run, &model->params, layers, model->w));
    FAST_TRY(reserve_layers(run, &model->state, layers, model->s));
    fast__graph_init_layers(run->graph, (uint64_t)run->config.seed, layers, model->w, model->s);
    layers[layer] = false;
    team->split.drawn[layer] = true;
    fast__device_file_flush(run->evaluation.file);
    return FAST_OK;
}

/* Draw layers that are not drawn yet, one after the other. */
static fast_err draw_layers(fast_team *team, bool *layers)
{
    const int count = team->run->graph->node_count;
    bool *one = NULL;
    fast_err err = FAST_OK;

    FAST_TRY(fast__alloc("a layer", count, sizeof *one, &one));
    for (int i = 0; i < count && !err; i++)
        if (layers[i] && !team->split.drawn[i])
            err = draw_layer(team, i, one);
    fast__free(one);
    return err;
}

/* Allocate marks of layers: those that are drawn, at the first call, and others. */
static fast_err new_marks(fast_team *team, bool **out)
{
    const int64_t count = team->run->graph->node_count;

    FAST_ASSERT(count > 0);
    if (!team->split.drawn)
        FAST_TRY(fast__alloc("drawn layers", count, sizeof **out, &team->split.drawn));
    return fast__alloc("layers of a part", count, sizeof **out, out);
}

/* The layer that has an element of a vector. */
static int layer_at(const fast_layout *layout, int64_t element)
{
    return layout->segments[fast__split_segment(layout, element)].layer;
}

fast_err fast__split_model_draw(fast_team *team, const fast_team_part *part)
{
    const fast_run *run = team->run;
    const fast_layout *params = &run->learner->params, *state = &run->learner->state;
    bool *layers = NULL;

    FAST_ASSERT(part->map != NULL);
    if (!run->evaluation.partial)
        return FAST_OK;
    FAST_TRY(new_marks(team, &layers));
    for (int64_t i = 0; i < part->map->count; i++)
        if (part->map->pieces[i].columns > 0)
            layers[layer_at(params, part->map->pieces[i].whole)] = true;
    for (int64_t i = 0; i < part->state_map->count; i++)
        if (part->state_map->pieces[i].columns > 0)
            layers[layer_at(state, part->state_map->pieces[i].whole)] = true;
    const fast_err err = draw_layers(team, layers);
    fast__free(layers);
    return err;
}

/* Number of vectors of the rule's state that a part is sent with: all where a checkpoint is due. */
static int slots_due(const fast_team *team)
{
    int count = 0;

    if (!team->run->config.checkpoint[0])
        return 0;
    while (fast__optimizer_slot(team->run->optimizer, count))
        count++;
    return count;
}

/* Take room for the vectors of the model, and of the rule where they are needed. */
static fast_err reserve_all(const fast_run *run, bool rule)
{
    const fast_learner *model = run->learner;
    const float *slot;

    FAST_TRY(fast__device_file_reserve(run->evaluation.file, model->w, model->params.count));
    FAST_TRY(fast__device_file_reserve(run->evaluation.file, model->s, model->state.count));
    for (int i = 0; rule && (slot = fast__optimizer_slot(run->optimizer, i)) != NULL; i++)
        FAST_TRY(fast__device_file_reserve(run->evaluation.file, slot, model->params.count));
    return FAST_OK;
}

fast_err fast__split_model_open(fast_team *team)
{
    FAST_ASSERT(team->run->learner != NULL);
    return team->run->evaluation.file && team->place.first
               ? reserve_all(team->run, slots_due(team) > 0)
               : FAST_OK;
}

fast_err fast__split_model_reserve(fast_team *team)
{
    fast_run *run = team->run;

    FAST_ASSERT(run->learner != NULL);
    if (!run->evaluation.file)
        return FAST_OK;
    FAST_TRY(reserve_all(run, run->config.resume[0] != 0));
    run->evaluation.partial = false;
    return FAST_OK;
}

fast_err fast__split_model_complete(fast_team *team)
{
    fast_run *run = team->run;
    bool *layers = NULL;

    if (!run->evaluation.file || !run->evaluation.partial)
        return FAST_OK;
    FAST_TRY(new_marks(team, &layers));
    for (int i = 0; i < run->graph->node_count; i++)
        layers[i] = true;
    const fast_err err = draw_layers(team, layers);
    fast__free(layers);
    run->evaluation.partial = err != FAST_OK;
    return err;
}

/* One model again. */

/* The vectors of a part in the order in which they are sent: w, s, and the rule's, of which there
 * are those that a checkpoint has. */
enum { VECTORS_MAX = 2 + FAST_RULE_SLOTS_MAX };
typedef struct part_vectors {
    float *of[VECTORS_MAX];      /* of a worker; or NULL */
    int64_t counts[VECTORS_MAX]; /* their elements */
    int count;                   /* number of vectors */
    int64_t floats;              /* of all of them */
} part_vectors;

static part_vectors vectors_of(const fast_team *team, int64_t worker)
{
    const fast_team_part part = fast__split_part(team, fast__split_part_of(team, worker));
    const fast_team_actor *self = team->actors[worker];
    part_vectors v = { .counts = { part.params->count, part.state->count },
                       .count = 2 + slots_due(team) };

    if (self) {
        v.of[0] = self->context.trainer.w;
        v.of[1] = self->context.trainer.s;
    }
    for (int i = 2; i < v.count; i++) {
        v.of[i] = self ? fast__optimizer_slot(self->context.optimizer, i - 2) : NULL;
        v.counts[i] = part.params->count;
    }
    for (int i = 0; i < v.count; i++)
        v.floats += v.counts[i];
    return v;
}

double fast__split_gather_bytes(const fast_team *team)
{
    double bytes = 0;

    for (int64_t p = 0; p < fast__split_parts(team) && team->place.first; p++) {
        const int64_t worker = fast__split_first(team, p);

        if (team->place.mine[worker])
            continue;
        const int64_t floats = vectors_of(team, worker).floats;
        bytes += (double)(floats < PIECE ? floats : PIECE) * sizeof(float);
    }
    return bytes;
}

/* Store elements [offset, offset + count) of vector i of a part in the run's model. */
static void put(fast_team *team, const fast_team_part *part, int i, int64_t offset, int64_t count,
                const float *from)
{
    const fast_run *run = team->run;
    float *to = i == 0   ? run->learner->w
                : i == 1 ? run->learner->s
                         : fast__optimizer_slot(run->optimizer, i - 2);

    FAST_ASSERT(i >= 0 && i < VECTORS_MAX && to != NULL);
    fast__split_map_gather_range(i == 1 ? part->state_map : part->map, offset, count, from, to);
}

/* Go through floats [at, at + count) of a part: copy a worker's to `out`, or store `in`. */
static void move(fast_team *team, int64_t worker, int64_t at, int64_t count, float *out,
                 const float *in)
{
    const fast_team_part part = fast__split_part(team, fast__split_part_of(team, worker));
    const part_vectors v = vectors_of(team, worker);
    int64_t first = 0; /* of a vector in the sequence */

    FAST_ASSERT(at >= 0 && at + count <= v.floats && (out == NULL) != (in == NULL));
    for (int i = 0; i < v.count; i++) {
        const int64_t from = at > first ? at - first : 0;
        const int64_t end = at + count - first < v.counts[i] ? at + count - first : v.counts[i];
        const int64_t place = first + from - at;

        first += v.counts[i];
        if (from >= end)
            continue;
        if (out)
            fast__vector_copy(end - from, v.of[i] + from, out + place);
        else
            put(team, &part, i, from, end - from, in + place);
    }
}

/* Give the memory of the run's model back, where it is on disk. */
static void flush(const fast_team *team)
{
    FAST_ASSERT(team->run->learner != NULL);
    if (team->run->evaluation.file)
        fast__device_file_flush(team->run->evaluation.file);
}

/* Take over the part of a worker of this process, with the rule's state. */
static void take_own(fast_team *team, int64_t worker)
{
    const fast_team_part part = fast__split_part(team, fast__split_part_of(team, worker));
    const part_vectors v = vectors_of(team, worker);

    for (int i = 0; i < v.count; i++)
        for (int64_t at = 0; at < v.counts[i]; at += PIECE) {
            const int64_t left = v.counts[i] - at;

            put(team, &part, i, at, left < PIECE ? left : PIECE, v.of[i] + at);
            flush(team);
        }
}

/* Answer with a piece. */
static fast_err send_piece(const fast_team_actor *self, int64_t at, int64_t count)
{
    fast_team *team = self->team;
    const fast_trainer *t = &self->context.trainer;
    fast_buffer *buffer = NULL;
    fast_msg *msg = NULL;

    FAST_TRY(fast_msg_new(t->actor, TAG_PIECE, &msg));
    const fast_err err = fast_buffer_new(t->actor, (size_t)count * sizeof(float), &buffer);
    if (err) {
        fast_msg_free(msg);
        return err;
    }
    move(team, self->number, at, count, fast_buffer_data(buffer), NULL);
    msg->words[0] = t->step;
    msg->words[1] = at;
    fast_msg_add(msg, &buffer);
    return fast_send(t->actor, team->ids[0], &msg);
}

/* Receive from a worker that may be slow, as it is where worker 0 evaluates; whether it is gone is
 * told. */
static fast_err receive_slowly(fast_actor *actor, int64_t from, uint64_t tag, fast_msg **out)
{
    fast_err err = FAST_ETIMEDOUT;

    FAST_ASSERT(from >= 0);
    while (err == FAST_ETIMEDOUT)
        err = fast_receive(actor, from, tag, FAST_SOON, out);
    return err;
}

fast_err fast__split_send(const fast_team_actor *self)
{
    fast_team *team = self->team;
    const fast_trainer *t = &self->context.trainer;
    const int64_t floats = vectors_of(team, self->number).floats;

    if (fast__mesh_place(&team->split.mesh, self->number).data > 0 || self->number == 0)
        return FAST_OK;
    fast_actor_at(t->actor, t->step, "worker 0, which gathers the model");
    for (int64_t at = 0; at < floats; at += PIECE) {
        fast_msg *msg = NULL;

        FAST_TRY(receive_slowly(t->actor, team->ids[0], TAG_ASK, &msg));
        const bool fits = msg->words[0] == t->step && msg->words[1] == at;
        const long long step = (long long)msg->words[0];
        fast_msg_free(msg);
        if (!fits)
            return fast__fail(FAST_EFORMAT, "worker 0 asked for a part of step %lld, not %lld",
                              step, (long long)t->step);
        FAST_TRY(send_piece(self, at, floats - at < PIECE ? floats - at : PIECE));
    }
    return FAST_OK;
}

/* Receive floats [at, at + count) of a worker's part. */
static fast_err receive_piece(const fast_team_actor *self, int64_t worker, int64_t at,
                              int64_t count)
{
    fast_team *team = self->team;
    const fast_trainer *t = &self->context.trainer;
    fast_msg *msg = NULL;

    FAST_TRY(fast_msg_new(t->actor, TAG_ASK, &msg));
    msg->words[0] = t->step;
    msg->words[1] = at;
    FAST_TRY(fast_send(t->actor, team->ids[worker], &msg));
    FAST_TRY(receive_slowly(t->actor, team->ids[worker], TAG_PIECE, &msg));
    if (msg->words[0] != t->step || msg->words[1] != at || msg->part_count != 1 ||
        msg->parts[0].size != (size_t)count * sizeof(float)) {
        const long long step = (long long)msg->words[0];

        fast_msg_free(msg);
        return fast__fail(FAST_EFORMAT, "worker %lld sent its stage of step %lld, not %lld",
                          (long long)worker, step, (long long)t->step);
    }
    fast__mutex_lock(&team->mutex);
    move(team, worker, at, count, NULL, fast_msg_data(msg, 0));
    flush(team);
    fast__mutex_unlock(&team->mutex);
    fast_msg_free(msg);
    return FAST_OK;
}

/* Receive the part of one worker. A stage is as far as the first one, or a few messages behind. */
static fast_err receive_part(const fast_team_actor *self, int64_t worker)
{
    fast_team *team = self->team;
    const int64_t floats = vectors_of(team, worker).floats;

    FAST_ASSERT(worker > 0);
    fast_actor_at(self->context.trainer.actor, self->context.trainer.step,
                  "the weights of a stage");
    for (int64_t at = 0; at < floats; at += PIECE)
        FAST_TRY(receive_piece(self, worker, at, floats - at < PIECE ? floats - at : PIECE));
    return FAST_OK;
}

fast_err fast__split_gather(const fast_team_actor *self)
{
    fast_team *team = self->team;

    FAST_ASSERT(self->number == 0);
    for (int64_t i = 1; i < fast__split_parts(team); i++)
        FAST_TRY(receive_part(self, fast__split_first(team, i)));
    fast__mutex_lock(&team->mutex);
    take_own(team, 0);
    team->measures.divergence = 0;
    team->run->evaluation.partial = false;
    fast__mutex_unlock(&team->mutex);
    return FAST_OK;
}

fast_err fast__split_leave(const fast_team_actor *self)
{
    fast_team *team = self->team;

    if (!team->place.first)
        return fast__split_send(self);
    if (self->number > 0)
        return FAST_OK;
    for (int64_t i = 1; i < fast__split_parts(team); i++)
        if (!team->actors[fast__split_first(team, i)])
            FAST_TRY(receive_part(self, fast__split_first(team, i)));
    team->run->evaluation.partial = false;
    return FAST_OK;
}

void fast__split_take_ends(fast_team *team)
{
    /* A process without worker 0 has no room for the run's model, and no use for it. */
    if (team->run->evaluation.file && !team->place.first)
        return;
    for (int64_t i = 0; i < fast__split_parts(team); i++)
        if (team->actors[fast__split_first(team, i)])
            take_own(team, fast__split_first(team, i));
    team->measures.divergence = 0;
}
