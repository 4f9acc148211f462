/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What each worker and server keeps, in checkpoints, besides the one model that they hold in any
 * case.
 *
 *   replicas are one      where codecs owe: residuals of error feedback and the codecs' own vectors
 *                         (PowerSGD's last factors, DGC's momentum and sums) of its coded sum
 *   replicas differ       all of a worker: its replica and its rule's state, what its strategy
 *                         keeps (kept.c), its sums, and its flows and spaces (spaces.c) with what
 *                         receivers hold. Of a server its part of the model and of the rule's state
 *   between two phases    the rule's state, where both have replicas that differ: all else begins
 *                         anew
 *
 *   saved      in mid-run each worker packs its own when it comes to a step at which a checkpoint
 *              is due; who comes last packs the servers', which cannot go on before it does, and
 *              saves. Nobody begins with a later one before: it waits. Those of other processes
 *              send theirs to worker 0 (gather.c). At rest the seats' are packed
 *   loaded     kept here until the worker's seat is made, which begins with it
 *
 * The file has a tensor worker/RANK or server/RANK for each, of records (base/pack.h) that are not
 * numbers. Of a rule's vector only what lies between its first and its last number that is not 0 is
 * written, of a replica that is the run's model nothing. What chance draws is by the number of an
 * encoding, which is part of it.
 *
 * Memory: one copy of all that is kept, where a checkpoint is asked for.
 */
#include "base/memory.h"
#include "base/pack.h"
#include "run/team.h"
#include "space/space_checkpoint.h"
#include "tensor/safetensors.h"

#include <stdio.h>
#include <string.h>

/* Kinds of records. Their numbers: of the rule's vector, of what is kept, of the coder, the flow,
 * the space. */
enum { NUMBERS = 1, WEIGHTS, STATE, RULE, CARRIED, KEPT, SUM, FLOW, SPACE };

/* Which part of a worker a checkpoint holds. */
typedef enum owed_part { PART_NONE, PART_SUMS, PART_RULE, PART_ALL } owed_part;

/* The part at a step, as the run is now. */
static owed_part part_at(const fast_team *team, int64_t step)
{
    if (!team->owed.blobs)
        return PART_NONE;
    for (int64_t i = 0; i + 1 < team->phase_count; i++) {
        const fast_phase *old = &team->phases[i], *next = old + 1;
        const bool differ = old->strategy->resumes && !next->strategy->identical;

        if (old->end == step)
            return differ && !next->reset && fast__optimizer_slot(team->run->optimizer, 0)
                       ? PART_RULE
                       : PART_NONE;
    }
    if (!team->owed.on)
        return PART_NONE;
    return team->strategy->identical ? PART_SUMS : PART_ALL;
}

/* Do the codecs of any worker's sums owe? By making what they would go through. */
static fast_err find_debts(const fast_team *team, bool *out)
{
    for (int64_t i = 0; i < team->workers && team->workers > 1 && !*out; i++) {
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
    const owed_part part = part_at(team, step);

    return part == PART_NONE ? 0 : team->workers + (part == PART_ALL ? team->owed.servers : 0);
}

/* "worker 3". */
static void name_of(const fast_team *team, int64_t i, char between, char name[FAST_TENSOR_NAME_MAX])
{
    const bool worker = i < team->workers;

    snprintf(name, FAST_TENSOR_NAME_MAX, "%s%c%lld", worker ? "worker" : "server", between,
             (long long)(worker ? i : i - team->workers));
}

fast_err fast__owed_open(fast_team *team)
{
    fast_owed *o = &team->owed;

    *o = (fast_owed){ .step = -1, .whole = -1, .open = true };
    if (team->strategy->identical)
        FAST_TRY(find_debts(team, &o->on));
    else
        o->on = team->strategy->resumes;
    const bool differ = o->on && !team->strategy->identical;
    const int64_t servers = differ ? team->phases[team->phase].servers : 0;
    FAST_TRY(
        fast__alloc("what workers keep", team->workers + servers, sizeof *o->blobs, &o->blobs));
    o->servers = servers;
    for (int64_t i = 0; i < team->workers + servers; i++)
        o->blobs[i].step = -1;
    if (differ) {
        o->votes = true;
        FAST_TRY(fast__vote_new(team, &o->vote));
    }
    return FAST_OK;
}

void fast__owed_free(fast_team *team)
{
    fast_owed *o = &team->owed;

    for (int64_t i = 0; o->blobs && i < team->workers + o->servers; i++)
        fast__free(o->blobs[i].bytes);
    fast__free(o->blobs);
    if (o->votes)
        fast__vote_free(&o->vote);
    *o = (fast_owed){ .step = -1, .whole = -1 };
}

fast_err fast__owed_again(fast_team *team)
{
    const bool open = team->owed.open;

    fast__owed_free(team);
    return open ? fast__owed_open(team) : FAST_OK;
}

bool fast__owed_waits(const fast_run *run)
{
    return run->team && run->team->world && part_at(run->team, run->step) != PART_NONE &&
           run->team->owed.whole != run->step;
}

/* Packing. */

/* To the bit: -0 is another number. */
static bool is_zero(float x)
{
    uint32_t bits;

    memcpy(&bits, &x, sizeof bits);
    return bits == 0;
}

/* The rule's vectors: where each begins to be other than 0, and what is there. */
static void pack_rule(const fast_seat *seat, fast_pack *pack)
{
    const int64_t count = seat->trainer.count;
    const float *slot;

    for (int i = 0; (slot = fast__optimizer_slot(seat->optimizer, i)) != NULL; i++) {
        int64_t low = 0, high = count;

        while (low < high && is_zero(slot[low]))
            low++;
        while (low < high && is_zero(slot[high - 1]))
            high--;
        const size_t size = (size_t)(high - low) * sizeof *slot;
        uint8_t *at = fast__pack_add(pack, RULE, i, sizeof low + size);
        if (!at)
            continue;
        memcpy(at, &low, sizeof low);
        memcpy(at + sizeof low, slot + low, size);
    }
}

/* What an actor of this process has now; NULL: it has not begun, and nothing is different. */
static void pack_seat(const fast_seat *seat, owed_part part, fast_pack *pack)
{
    const fast_trainer *t = seat ? &seat->trainer : NULL;
    const double numbers[2] = { t ? seat->loss : 0, t ? (double)seat->loss_count : 0 };

    fast__pack_put(pack, NUMBERS, 0, numbers, sizeof numbers);
    if (!t)
        return;
    if (part != PART_SUMS)
        pack_rule(seat, pack);
    if (part != PART_RULE && seat->coded)
        fast__coded_pack(seat->coded, pack, SUM);
    if (part != PART_ALL)
        return;
    if (seat->learner) {
        fast__pack_put(pack, WEIGHTS, 0, t->w, (size_t)t->count * sizeof *t->w);
        fast__pack_put(pack, STATE, 0, t->s, (size_t)t->state_count * sizeof *t->s);
        fast__pack_put(pack, CARRIED, 0, seat->carried, (size_t)t->workers * sizeof *seat->carried);
    }
    fast__spaces_pack(seat, pack, SPACE);
    for (const fast_kept *kept = seat->kept; kept; kept = kept->next)
        fast__pack_put(pack, KEPT, kept->number, kept->data, kept->size);
    fast__flows_pack(&seat->flows, pack, FLOW);
}

fast_err fast__blob_reserve(fast_blob *blob, size_t size)
{
    if (size > blob->room) {
        fast__free(blob->bytes);
        *blob = (fast_blob){ .step = -1 };
        FAST_TRY(fast__alloc("what a worker keeps", (int64_t)size, 1, &blob->bytes));
        blob->room = size;
    }
    blob->size = size;
    return FAST_OK;
}

fast_err fast__owed_pack(fast_team *team, int64_t i, int64_t step)
{
    fast_blob *blob = &team->owed.blobs[i];
    const owed_part part = part_at(team, step);
    fast_pack pack = { 0 };

    FAST_ASSERT(part != PART_NONE);
    pack_seat(team->seats[i], part, &pack);
    FAST_TRY(fast__blob_reserve(blob, pack.size));
    pack = (fast_pack){ .out = blob->bytes };
    pack_seat(team->seats[i], part, &pack);
    FAST_ASSERT(pack.size == blob->size);
    blob->step = step;
    return FAST_OK;
}

bool fast__owed_is_due(const fast_team *team, int64_t step)
{
    return part_at(team, step) != PART_NONE;
}

bool fast__owed_turn(fast_team *team, int64_t step)
{
    fast_owed *o = &team->owed;

    if (o->step == step)
        return true;
    if (o->step >= 0 && o->whole != o->step && o->arrived > 0 && o->arrived < team->workers_up)
        return false;
    o->step = step;
    o->arrived = 0;
    if (o->votes)
        fast__vote_clear(team, &o->vote, step);
    return true;
}

fast_err fast__owed_arrive(fast_seat *seat, int64_t step, bool *last_out)
{
    fast_team *team = seat->team;
    fast_owed *o = &team->owed;

    FAST_ASSERT(o->step == step);
    *last_out = false;
    FAST_TRY(fast__owed_pack(team, seat->trainer.rank, step));
    if (seat->trainer.rank == 0)
        o->sums = team->run->sums;
    if (++o->arrived < team->workers_up)
        return FAST_OK;
    /* No round is complete without this worker: what servers keep stays as it is. */
    for (int64_t i = team->workers; i < count_at(team, step); i++)
        if (team->seats[i])
            FAST_TRY(fast__owed_pack(team, i, step));
    o->whole = step;
    *last_out = true;
    return FAST_OK;
}

/* The record of a kind; false: there is none. */
static bool find_record(const fast_blob *blob, int64_t kind, fast_record *out)
{
    for (size_t at = 0; fast__pack_next(blob->bytes, blob->size, &at, out);)
        if (out->kind == kind)
            return true;
    return false;
}

fast_err fast__owed_take(fast_team *team, int64_t i, int64_t step, const void *bytes, size_t size)
{
    fast_owed *o = &team->owed;
    fast_blob *blob = &o->blobs[i];
    const fast_learner *learner = team->run->learner;
    fast_record w, s;

    FAST_TRY(fast__blob_reserve(blob, size));
    memcpy(blob->bytes, bytes, size);
    blob->step = step;
    if (i < team->workers && o->votes && o->step == step && find_record(blob, WEIGHTS, &w) &&
        find_record(blob, STATE, &s) && w.size == (size_t)learner->params.count * sizeof(float) &&
        s.size == (size_t)learner->state.count * sizeof(float))
        fast__vote_cast(team, &o->vote,
                        &(fast_replica){ .rank = i, .w = w.data, .s = s.data, .loss = 0 });
    return FAST_OK;
}

/* At rest: all seats are at the run's step; those of other processes sent theirs when they ended.
 */
static fast_err take_all(fast_team *team)
{
    fast_owed *o = &team->owed;
    const int64_t count = count_at(team, team->run->step);
    char name[FAST_TENSOR_NAME_MAX];
    bool begun = false;

    for (int64_t i = 0; i < count; i++)
        begun = begun || team->seats[i];
    for (int64_t i = 0; i < count; i++) {
        if (o->blobs[i].step == team->run->step && !team->seats[i])
            continue;
        name_of(team, i, ' ', name);
        if (begun && !team->seats[i])
            return fast__fail(FAST_EINVAL,
                              "%s is in another process, which did not send what it keeps: give "
                              "checkpoint=FILE when the run is opened",
                              name);
        FAST_TRY(fast__owed_pack(team, i, team->run->step));
    }
    o->step = team->run->step;
    o->arrived = 0;
    return FAST_OK;
}

/* Files. */

int64_t fast__owed_count(const fast_run *run)
{
    return run->team ? count_at(run->team, run->step) : 0;
}

/* A replica that is the run's model is in the file once. */
static void leave_out(const fast_run *run, fast_blob *blob)
{
    const size_t size = (size_t)run->learner->params.count * sizeof(float);
    fast_record r;

    if (find_record(blob, WEIGHTS, &r) && r.size == size &&
        memcmp(r.data, run->learner->w, size) == 0)
        blob->size = fast__pack_empty(blob->bytes, blob->size, WEIGHTS);
}

fast_err fast__owed_list(fast_run *run, fast_tensor *tensors, char (*names)[FAST_TENSOR_NAME_MAX])
{
    fast_team *team = run->team;
    const int64_t count = fast__owed_count(run);

    if (count > 0 && !team->world)
        FAST_TRY(take_all(team));
    for (int64_t i = 0; i < count; i++) {
        fast_blob *blob = &team->owed.blobs[i];

        if (blob->step != run->step) {
            name_of(team, i, ' ', names[i]);
            return fast__fail(FAST_EPEER, "%s did not say what it keeps", names[i]);
        }
        name_of(team, i, '/', names[i]);
        leave_out(run, blob);
        const int64_t floats = (int64_t)(blob->size / sizeof(float));
        tensors[i] = (fast_tensor){ .name = names[i],
                                    .dtype = FAST_F32,
                                    .rank = 1,
                                    .shape = { floats },
                                    .count = floats,
                                    .data = blob->bytes };
    }
    return FAST_OK;
}

/* The tensor of an actor; NULL: there is none that is made of records. */
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

fast_err fast__owed_check(const fast_run *run, const char *path, const fast_tensors *tensors)
{
    char name[FAST_TENSOR_NAME_MAX];

    for (int64_t i = 0; i < fast__owed_count(run); i++)
        if (!find(run->team, tensors, i)) {
            name_of(run->team, i, ' ', name);
            return fast__fail(FAST_EINVAL,
                              "%s does not hold what %s keeps with strategy %s and codec %s", path,
                              name, run->team->strategy->name, run->config.codec);
        }
    return FAST_OK;
}

fast_err fast__owed_load(fast_run *run, const fast_tensors *tensors)
{
    fast_team *team = run->team;
    float *slot;

    for (int64_t i = 0; i < fast__owed_count(run); i++) {
        fast_owed *o = &team->owed;
        const fast_tensor *t = find(team, tensors, i);
        const size_t size = (size_t)t->count * sizeof(float);

        FAST_TRY(fast__blob_reserve(&o->blobs[i], size));
        memcpy(o->blobs[i].bytes, t->data, size);
        o->blobs[i].step = o->step = o->loaded = run->step;
    }
    for (int64_t i = 0; team && i + 1 < team->phase_count; i++) {
        const fast_phase *old = &team->phases[i];

        if (old->end != run->step || (old->strategy->identical && !old[1].reset))
            continue;
        for (int k = 0; (slot = fast__optimizer_slot(run->optimizer, k)) != NULL; k++)
            memset(slot, 0, (size_t)run->learner->params.count * sizeof *slot);
    }
    return FAST_OK;
}

/* Beginning. */

/* Copy a record that must have this size. */
static fast_err copy_record(const fast_record *r, void *out, size_t size)
{
    if (!out || r->size != size)
        return fast__fail(FAST_EFORMAT,
                          "the checkpoint's record %lld of a worker has %zu bytes, not %zu",
                          (long long)r->kind, r->size, size);
    if (size > 0)
        memcpy(out, r->data, size);
    return FAST_OK;
}

/* A vector of the rule. */
static fast_err unpack_rule(const fast_seat *seat, const fast_record *r)
{
    const int64_t count = seat->trainer.count;
    const int slots = 64; /* more than any rule has */
    float *slot = r->number >= 0 && r->number < slots
                      ? fast__optimizer_slot(seat->optimizer, (int)r->number)
                      : NULL;
    int64_t low = -1;

    if (r->size >= sizeof low)
        memcpy(&low, r->data, sizeof low);
    const size_t size = r->size - sizeof low;
    if (!slot || low < 0 || low > count || size > (size_t)(count - low) * sizeof *slot)
        return fast__fail(FAST_EFORMAT, "the checkpoint's record of the rule's state is damaged");
    memset(slot, 0, (size_t)count * sizeof *slot);
    memcpy(slot + low, (const uint8_t *)r->data + sizeof low, size / sizeof *slot * sizeof *slot);
    return FAST_OK;
}

static fast_err unpack_record(fast_seat *seat, const fast_record *r)
{
    const fast_trainer *t = &seat->trainer;
    const size_t size = (size_t)t->count * sizeof(float);
    double numbers[2] = { 0 };
    void *kept = NULL;

    switch (r->kind) {
    case NUMBERS:
        FAST_TRY(copy_record(r, numbers, sizeof numbers));
        seat->loss = numbers[0];
        seat->loss_count = numbers[1] >= 0 && numbers[1] < 1e9 ? (int64_t)numbers[1] : 0;
        return FAST_OK;
    case WEIGHTS:
        return r->size > 0 ? copy_record(r, t->w, size) : FAST_OK;
    case STATE:
        return t->state_count ? copy_record(r, t->s, (size_t)t->state_count * sizeof(float))
                              : FAST_OK;
    case RULE:
        return unpack_rule(seat, r);
    case CARRIED:
        return copy_record(r, seat->carried, (size_t)t->workers * sizeof *seat->carried);
    case KEPT:
        if (r->number < 0 || r->size == 0)
            return fast__fail(FAST_EFORMAT, "the checkpoint's record of a strategy is damaged");
        FAST_TRY(fast__kept_get(seat, r->number, r->size, &kept));
        return copy_record(r, kept, r->size);
    case SPACE:
        return fast__spaces_leave(seat, r->number, r->data, r->size);
    case SUM:
    case FLOW:
        return fast__codec_unpack(seat, r->kind == FLOW, r);
    default:
        return fast__fail(FAST_EFORMAT, "the checkpoint has a record of unknown kind %lld",
                          (long long)r->kind);
    }
}

/* What was loaded for actor i, where a seat that began at this step begins with it; else NULL. */
static const fast_blob *loaded(const fast_team *team, int64_t i, int64_t step)
{
    const fast_owed *o = &team->owed;

    if (!o->blobs || i >= team->workers + o->servers || o->loaded <= 0 ||
        o->blobs[i].step != o->loaded || step != o->loaded)
        return NULL;
    return &o->blobs[i];
}

fast_err fast__owed_begin(fast_seat *seat)
{
    const fast_team *team = seat->team;
    const int64_t i = seat->trainer.rank + (seat->learner ? 0 : team->workers);
    const fast_blob *blob = loaded(team, i, seat->step_begun);
    fast_record record;

    for (size_t at = 0; blob && fast__pack_next(blob->bytes, blob->size, &at, &record);)
        FAST_TRY(unpack_record(seat, &record));
    return FAST_OK;
}

fast_err fast__owed_others(const fast_seat *seat, int64_t number, fast_space *space)
{
    const fast_team *team = seat->team;
    const int64_t me = fast_actor_id(seat->trainer.actor);
    fast_record record;

    if (seat->trainer.step != team->owed.loaded) /* it goes on by itself */
        return FAST_OK;
    for (int64_t i = 0; i < team->workers + team->owed.servers; i++) {
        const fast_blob *blob = i == me ? NULL : loaded(team, i, seat->step_begun);

        for (size_t at = 0; blob && fast__pack_next(blob->bytes, blob->size, &at, &record);)
            if (record.kind == SPACE && record.number == number)
                FAST_TRY(fast__space_load(space, team->ids[i], record.data, record.size));
    }
    return FAST_OK;
}
