/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The saved state of each worker and server in checkpoints, besides the one model that they hold in
 * any case.
 *
 *   equal replicas        where codecs have residuals: those of error feedback and the codecs' own
 *                         vectors (PowerSGD's last factors, DGC's momentum and sums) of its sums
 *   different replicas    the whole state of a worker (trainer/saved.c). Of a server its part of
 *                         the model and of the rule's state
 *   between two phases    the rule's state, where both have replicas that differ: everything else
 *                         starts anew
 *
 *   saved      in mid-run each worker packs its own when it comes to a step at which a checkpoint
 *              is due; the last one packs the servers', which cannot continue before it does, and
 *              saves. A worker that comes to a later checkpoint before waits. Workers of other
 *              processes send theirs to worker 0 (collect_states.c). At rest all are packed
 *   loaded     retained here until the worker's context is made, which starts with it
 *
 * The file has a tensor worker/RANK or server/RANK for each, of records (base/pack.h) that are not
 * numbers. A replica that equals the run's model is left out.
 *
 * Memory: one copy of all saved state, where a checkpoint is asked for.
 *
 * A tensor, byte by byte; integers and doubles in the machine's order, records one after the other:
 *
 *     offset  bytes
 *          0      8   kind      int64, FAST_SAVED_* of trainer/saved.h: 1 numbers, 2 weights, ...
 *          8      8   number    int64, which one of its kind
 *         16      8   size      int64, bytes of data
 *         24   size   data      then zeros up to a multiple of 8
 *
 * The first record is this file's: kind 1, number 0, size 16, the mean loss of the last batches and
 * their count as doubles; 40 bytes in all. Of asynchronous strategies it has size 32: the actor's
 * step and its steps that were counted follow (24 in older files, without the latter). The others
 * are the trainer's, and in a snapshot (cut.c) the transport's. The tensor's dtype is F32, its
 * shape [bytes / 4]: records are multiples of 8 bytes, so nothing is cut. A replica that
 * equals the run's model has a weights record of size 0.
 *
 * Collection for one step; `step`, `arrived` and `whole` are guarded by the team's mutex:
 *
 *     step = -1 --admit(s)--> step = s, arrived = 0 --arrive--> arrived = 1, 2, ...
 *                               ^                                 | the last of workers_up
 *                               +-- admit(next): a new step <-- whole = s: write the file
 *
 * admit() of another step is false while 0 < arrived < workers_up. So states of two steps never
 * mix, and a file holds one step of all actors. A worker that was lost has no state of that step:
 * writing the file then fails with FAST_EPEER, which is a note of the run, and the last file stays.
 */
#include "base/memory.h"
#include "base/pack.h"
#include "run/team.h"
#include "space/space_checkpoint.h"
#include "tensor/safetensors.h"
#include "tensor/vector.h"
#include "transport/saved_actor.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* The part at a step, as the run is now. */
static fast_saved_extent part_at(const fast_team *team, int64_t step)
{
    if (!team->saved.states)
        return FAST_SAVE_NONE;
    for (int64_t i = 0; i + 1 < team->phases.count; i++) {
        const fast_phase *old = &team->phases.list[i], *next = old + 1;
        const bool differ = old->strategy->resumable && !next->strategy->identical;

        if (old->end == step)
            return differ && !next->reset && fast__optimizer_slot(team->run->optimizer, 0)
                       ? FAST_SAVE_RULE
                       : FAST_SAVE_NONE;
    }
    if (!team->saved.on)
        return FAST_SAVE_NONE;
    return team->strategy->identical ? FAST_SAVE_SUMS : FAST_SAVE_ALL;
}

bool fast__saved_states_can(const fast_team *team)
{
    return part_at(team, team->run->step) != FAST_SAVE_NONE;
}

/* Have the codecs of any worker's sums residuals? Found by making such a sum. */
static fast_err find_residuals(const fast_team *team, bool *out)
{
    const int64_t members = fast__codec_members(team->run);

    for (int64_t i = 0; i < members && members > 1 && !*out; i++) {
        fast_coded *coded = NULL;

        FAST_TRY(fast__codec_sum_new(team->run, i, &coded));
        *out = coded && fast__coded_remembers(coded);
        fast__coded_free(coded);
    }
    return FAST_OK;
}

/* Workers and servers whose records a checkpoint of a step has. */
static int64_t count_at(const fast_team *team, int64_t step)
{
    const fast_saved_extent part = part_at(team, step);

    return part == FAST_SAVE_NONE
               ? 0
               : team->workers + (part == FAST_SAVE_ALL ? team->saved.servers : 0);
}

/* "worker 3". */
static void name_of(const fast_team *team, int64_t i, char between, char name[FAST_TENSOR_NAME_MAX])
{
    const bool worker = i < team->workers;

    snprintf(name, FAST_TENSOR_NAME_MAX, "%s%c%lld", worker ? "worker" : "server", between,
             (long long)(worker ? i : i - team->workers));
}

fast_err fast__saved_states_open(fast_team *team)
{
    fast_saved_states *o = &team->saved;

    *o = (fast_saved_states){ .step = -1, .whole = -1, .open = true };
    if (team->strategy->identical)
        FAST_TRY(find_residuals(team, &o->on));
    else
        o->on = team->strategy->resumable;
    const bool differ = o->on && !team->strategy->identical;
    const int64_t servers =
        differ ? team->phases.list[team->phases.current].servers * fast__split_parts(team) : 0;
    FAST_TRY(fast__alloc("saved states", team->workers + servers, sizeof *o->states, &o->states));
    o->servers = servers;
    for (int64_t i = 0; i < team->workers + servers; i++)
        o->states[i].step = -1;
    if (differ) {
        o->votes = true;
        FAST_TRY(fast__vote_new(team, &o->vote));
    }
    return FAST_OK;
}

void fast__saved_states_free(fast_team *team)
{
    fast_saved_states *o = &team->saved;

    for (int64_t i = 0; o->states && i < team->workers + o->servers; i++)
        fast__free(o->states[i].bytes);
    fast__free(o->states);
    if (o->votes)
        fast__vote_free(&o->vote);
    *o = (fast_saved_states){ .step = -1, .whole = -1 };
}

fast_err fast__saved_states_reopen(fast_team *team)
{
    const bool open = team->saved.open;

    fast__saved_states_free(team);
    return open ? fast__saved_states_open(team) : FAST_OK;
}

bool fast__saved_states_waits(const fast_run *run)
{
    return run->team->place.world && part_at(run->team, run->step) != FAST_SAVE_NONE &&
           run->team->saved.whole != run->step;
}

/* Packing. */

/* Save an actor of this process as it is now; NULL: it has not started, and differs in nothing. */
static void save_actor(const fast_team_actor *self, fast_saved_extent extent, fast_pack *pack)
{
    const double numbers[4] = { self ? self->progress.loss : 0,
                                self ? (double)self->progress.loss_count : 0,
                                self ? (double)self->context.trainer.step : 0,
                                self ? (double)self->progress.counted : 0 };
    /* Synchronous workers are all at the run's step. */
    const bool steps = self && !self->team->strategy->synchronous;

    fast__pack_put(pack, FAST_SAVED_NUMBERS, 0, numbers, (steps ? 4 : 2) * sizeof *numbers);
    if (self)
        fast__context_save(&self->context, extent, pack);
    if (self && extent == FAST_SAVE_CUT) /* at rest nobody has messages */
        fast__actor_save(self->context.trainer.actor, FAST_SAVED_STREAM, FAST_SAVED_MESSAGE, pack);
}

fast_err fast__saved_states_pack(fast_team *team, int64_t i, int64_t step)
{
    fast_saved *saved = &team->saved.states[i];
    const bool cut =
        part_at(team, step) == FAST_SAVE_ALL && team->actors[i] && team->actors[i]->cutting.packs;
    const fast_saved_extent part = cut ? FAST_SAVE_CUT : part_at(team, step);
    fast_pack pack = { 0 };

    FAST_ASSERT(part != FAST_SAVE_NONE);
    save_actor(team->actors[i], part, &pack);
    FAST_TRY(fast__saved_reserve(saved, pack.size));
    pack = (fast_pack){ .out = saved->bytes };
    save_actor(team->actors[i], part, &pack);
    FAST_ASSERT(pack.size == saved->size);
    saved->step = step;
    return FAST_OK;
}

bool fast__saved_states_due(const fast_team *team, int64_t step)
{
    return part_at(team, step) != FAST_SAVE_NONE;
}

bool fast__saved_states_admit(fast_team *team, int64_t step)
{
    fast_saved_states *o = &team->saved;

    if (o->step == step)
        return true;
    if (o->step >= 0 && o->whole != o->step && o->arrived > 0 &&
        o->arrived < team->progress.workers_up)
        return false;
    o->step = step;
    o->arrived = 0;
    if (o->votes)
        fast__vote_clear(team, &o->vote, step);
    return true;
}

fast_err fast__saved_states_arrive(fast_team_actor *self, int64_t step, bool *last_out)
{
    fast_team *team = self->team;
    fast_saved_states *o = &team->saved;

    FAST_ASSERT(o->step == step);
    *last_out = false;
    FAST_TRY(fast__saved_states_pack(team, self->number, step));
    if (++o->arrived < team->progress.workers_up)
        return FAST_OK;
    /* No round is complete without this worker: the servers' state does not change. */
    for (int64_t i = team->workers; i < count_at(team, step); i++)
        if (team->actors[i])
            FAST_TRY(fast__saved_states_pack(team, i, step));
    o->whole = step;
    *last_out = true;
    return FAST_OK;
}

/* Find the record of a kind; false if the actor saved no such record. */
static bool find_record(const fast_saved *saved, int64_t kind, fast_pack_record *out)
{
    for (size_t at = 0; fast__pack_next(saved->bytes, saved->size, &at, out);)
        if (out->kind == kind)
            return true;
    return false;
}

fast_err fast__saved_states_take(fast_team *team, int64_t i, int64_t step, const void *bytes,
                                 size_t size)
{
    fast_saved_states *o = &team->saved;
    fast_saved *saved = &o->states[i];
    const fast_team_part part =
        fast__split_part(team, i < team->workers ? fast__split_part_of(team, i) : 0);
    fast_pack_record w, s;

    FAST_TRY(fast__saved_reserve(saved, size));
    memcpy(saved->bytes, bytes, size);
    saved->step = step;
    /* A run that stops at the step of a checkpoint sends the states again: they have voted. */
    if (i < team->workers && o->votes && o->step == step && o->whole != step &&
        (team->strategy->synchronous || team->cut.voting) &&
        find_record(saved, FAST_SAVED_WEIGHTS, &w) && find_record(saved, FAST_SAVED_STATE, &s) &&
        w.size == (size_t)part.params->count * sizeof(float) &&
        s.size == (size_t)part.state->count * sizeof(float))
        fast__vote_cast(team, &o->vote,
                        &(fast_voter){ .worker = i, .w = w.data, .s = s.data, .loss = 0 });
    return FAST_OK;
}

/* At rest: all actors are at the run's step; those of other processes sent their state when they
 * ended. */
static fast_err take_all(fast_team *team)
{
    fast_saved_states *o = &team->saved;
    const int64_t count = count_at(team, team->run->step);
    char name[FAST_TENSOR_NAME_MAX];
    bool begun = false;

    for (int64_t i = 0; i < count; i++)
        begun = begun || team->actors[i];
    for (int64_t i = 0; i < count; i++) {
        /* Asynchronous workers of other processes end at steps of their own. */
        if (!team->actors[i] && o->states[i].step >= 0 && !team->strategy->synchronous)
            o->states[i].step = team->run->step;
        if (o->states[i].step == team->run->step && !team->actors[i])
            continue;
        name_of(team, i, ' ', name);
        if (begun && !team->actors[i])
            return fast__fail(FAST_EPEER,
                              "%s is in another process, which did not send its state: give "
                              "checkpoint=FILE when the run is opened",
                              name);
        FAST_TRY(fast__saved_states_pack(team, i, team->run->step));
    }
    o->step = team->run->step;
    o->arrived = 0;
    return FAST_OK;
}

/* Files. */

int64_t fast__saved_states_count(const fast_run *run)
{
    return count_at(run->team, run->step);
}

/* A replica that is the run's model is in the file once. */
static void leave_out(const fast_run *run, fast_saved *saved)
{
    const size_t size = (size_t)run->learner->params.count * sizeof(float);
    fast_pack_record r;

    if (find_record(saved, FAST_SAVED_WEIGHTS, &r) && r.size == size &&
        fast__vector_equal(run->learner->params.count, r.data, run->learner->w))
        saved->size = fast__pack_empty(saved->bytes, saved->size, FAST_SAVED_WEIGHTS);
}

fast_err fast__saved_states_list(fast_run *run, fast_tensor *tensors,
                                 char (*names)[FAST_TENSOR_NAME_MAX])
{
    fast_team *team = run->team;
    const int64_t count = fast__saved_states_count(run);

    if (count > 0 && !team->place.world)
        FAST_TRY(take_all(team));
    for (int64_t i = 0; i < count; i++) {
        fast_saved *saved = &team->saved.states[i];

        if (saved->step != run->step) {
            name_of(team, i, ' ', names[i]);
            return fast__fail(FAST_EPEER, "%s did not send its state", names[i]);
        }
        name_of(team, i, '/', names[i]);
        leave_out(run, saved);
        const int64_t floats = (int64_t)(saved->size / sizeof(float));
        tensors[i] = (fast_tensor){ .name = names[i],
                                    .dtype = FAST_F32,
                                    .rank = 1,
                                    .shape = { floats },
                                    .count = floats,
                                    .data = saved->bytes };
    }
    return FAST_OK;
}

/* Return the tensor of an actor; NULL if the file has no tensor of records for it. */
static const fast_tensor *find(const fast_team *team, const fast_tensors *tensors, int64_t i)
{
    char name[FAST_TENSOR_NAME_MAX];

    name_of(team, i, '/', name);
    const fast_tensor *t = fast__tensors_find(tensors, name);
    return t && t->dtype == FAST_F32 &&
                   fast__pack_is_whole(t->data, (size_t)t->count * sizeof(float))
               ? t
               : NULL;
}

fast_err fast__saved_states_check(const fast_run *run, const char *path,
                                  const fast_tensors *tensors)
{
    char name[FAST_TENSOR_NAME_MAX];

    for (int64_t i = 0; i < fast__saved_states_count(run); i++)
        if (!find(run->team, tensors, i)) {
            name_of(run->team, i, ' ', name);
            return fast__fail(FAST_EINVAL,
                              "%s does not hold the state of %s with strategy %s and codec %s",
                              path, name, run->team->strategy->name, run->config.codec);
        }
    return FAST_OK;
}

fast_err fast__saved_states_load(fast_run *run, const fast_tensors *tensors)
{
    fast_team *team = run->team;

    for (int64_t i = 0; i < fast__saved_states_count(run); i++) {
        fast_saved_states *o = &team->saved;
        const fast_tensor *t = find(team, tensors, i);
        const size_t size = (size_t)t->count * sizeof(float);

        FAST_TRY(fast__saved_reserve(&o->states[i], size));
        if (size > 0) /* a forged file's may be empty */
            memcpy(o->states[i].bytes, t->data, size);
        o->states[i].step = o->step = o->loaded = run->step;
    }
    for (int64_t i = 0; i + 1 < team->phases.count; i++) {
        const fast_phase *old = &team->phases.list[i];

        if (old->end != run->step || (old->strategy->identical && !old[1].reset))
            continue;
        fast__rule_state_clear(run->optimizer, run->learner->params.count);
    }
    return FAST_OK;
}

/* Beginning. */

/* The host's own record. */
static fast_err load_numbers(fast_team_actor *self, const fast_pack_record *r)
{
    fast_trainer *t = &self->context.trainer;
    double numbers[4] = { 0, 0, -1, -1 };
    const bool steps = r->size > 2 * sizeof *numbers;

    if (r->size % sizeof *numbers || r->size > sizeof numbers || r->size < 2 * sizeof *numbers)
        return fast__fail(FAST_EFORMAT,
                          "the checkpoint's record %lld of a worker has %zu bytes, not %zu",
                          (long long)r->kind, r->size, sizeof numbers);
    memcpy(numbers, r->data, r->size);
    self->progress.loss = numbers[0];
    self->progress.loss_count = numbers[1] >= 0 && numbers[1] < 1e9 ? (int64_t)numbers[1] : 0;
    if (steps && !(numbers[2] >= 0 && numbers[2] <= (double)FAST_STEPS_MAX && numbers[3] >= -1 &&
                   numbers[3] <= (double)FAST_STEPS_MAX))
        return fast__fail(FAST_EFORMAT, "the checkpoint's step of a worker is damaged");
    self->progress.counted = (int64_t)numbers[3];
    if (steps)
        t->step =
            (int64_t)fmin(numbers[2], (double)t->step_count); /* a shorter run may resume it */
    return FAST_OK;
}

/* The state loaded for actor i, if an actor that starts at this step takes it over; else NULL. */
static const fast_saved *loaded(const fast_team *team, int64_t i, int64_t step)
{
    const fast_saved_states *o = &team->saved;

    if (!o->states || i >= team->workers + o->servers || o->loaded <= 0 ||
        o->states[i].step != o->loaded || step != o->loaded)
        return NULL;
    return &o->states[i];
}

fast_err fast__saved_states_begin(fast_team_actor *self)
{
    const fast_team *team = self->team;
    const int64_t i = self->number + (self->context.learner ? 0 : team->workers);
    const fast_saved *saved = loaded(team, i, self->context.step_begun);
    fast_pack_record record;

    for (size_t at = 0; saved && fast__pack_next(saved->bytes, saved->size, &at, &record);)
        if (record.kind == FAST_SAVED_STREAM || record.kind == FAST_SAVED_MESSAGE)
            self->context.resumed = true;
        else
            FAST_TRY(record.kind == FAST_SAVED_NUMBERS
                         ? load_numbers(self, &record)
                         : fast__context_load(&self->context, &record));
    return FAST_OK;
}

fast_err fast__saved_states_continue(fast_team_actor *self)
{
    const fast_team *team = self->team;
    fast_actor *actor = self->context.trainer.actor;
    const fast_saved *saved = loaded(team, fast_actor_id(actor), self->context.step_begun);
    fast_pack_record record;

    for (size_t at = 0; saved && fast__pack_next(saved->bytes, saved->size, &at, &record);)
        if (record.kind == FAST_SAVED_STREAM)
            FAST_TRY(fast__actor_load_stream(actor, &record));
        else if (record.kind == FAST_SAVED_MESSAGE) {
            FAST_TRY(fast__actor_load_message(actor, &record));
            self->cutting.uncounted++;
        }
    return FAST_OK;
}

fast_err fast__saved_states_restore(const fast_team_actor *self, int64_t number, fast_space *space)
{
    const fast_team *team = self->team;
    const int64_t me = fast_actor_id(self->context.trainer.actor);
    fast_pack_record record;

    if (!self->context.resumed && self->context.trainer.step != team->saved.loaded)
        return FAST_OK; /* it has its own state */
    for (int64_t i = 0; i < team->workers + team->saved.servers; i++) {
        const fast_saved *saved = i == me ? NULL : loaded(team, i, self->context.step_begun);

        for (size_t at = 0; saved && fast__pack_next(saved->bytes, saved->size, &at, &record);)
            if (record.kind == FAST_SAVED_SPACE && record.number == number)
                FAST_TRY(fast__space_load(space, team->ids[i], record.data, record.size));
    }
    return FAST_OK;
}

/* At rest all states are packed here, unless the run did it while it trained. */
fast_err fast_run_checkpoint(fast_run *run, const char *path)
{
    FAST_ASSERT(run != NULL);
    char own[FAST_PATH_MAX];
    FAST_TRY(fast__team_can_resume(run->team, "checkpoint"));
    FAST_TRY(fast__split_can_resume(run->team, NULL));
    if (run->team->actors[0] && run->team->actors[0]->context.sharded.parted)
        return fast__fail(FAST_EINVAL,
                          "strategy %s: each worker has a part of the optimizer's state, "
                          "and the run has ended: open it with the option checkpoint",
                          run->team->strategy->name);
    if (!run->team->saved.open)
        FAST_TRY(fast__saved_states_open(run->team));
    if (!path) {
        FAST_TRY(fast__checkpoint_path(run, false, own, sizeof own));
        path = own;
    }
    FAST_TRY(fast__checkpoint_save(run, path));
    snprintf(run->text.checkpoint, sizeof run->text.checkpoint, "%s", path);
    fast__run_tell(run, FAST_EVENT_SAVE, path);
    return FAST_OK;
}
