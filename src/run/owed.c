/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What workers owe, in checkpoints: residuals of error feedback and the codecs' own vectors
 * (PowerSGD's last factors, DGC's momentum and sums) of every worker's coded sum.
 *
 *   saved      in mid-run each worker copies its own here when it comes to a step at which a
 *              checkpoint is due; who comes last saves. Nobody can be further than the gradient of
 *              the next step, because every sum needs all workers. At rest the seats' are saved
 *   loaded     kept here until a worker's first sum, which begins with them
 *
 * The file has a tensor codec/RANK for each worker, of as many floats as its coders keep; chance is
 * drawn by the number of the sum, which is the step's. A phase begins with nothing owed: a file of
 * its very begin has none of these.
 *
 * Memory: one copy of all that is owed, where a checkpoint is asked for and codecs owe.
 */
#include "base/memory.h"
#include "run/team.h"
#include "tensor/safetensors.h"

#include <stdio.h>
#include <string.h>

/* Floats of worker `rank`: by making what its sums would go through. */
static fast_err size_of(const fast_team *team, int64_t rank, int64_t *out)
{
    fast_coded *coded = NULL;

    FAST_TRY(fast__codec_sum_new(team->run, rank, &coded));
    *out = coded ? fast__coded_state(coded, NULL) : 0;
    fast__coded_free(coded);
    return FAST_OK;
}

fast_err fast__owed_open(fast_team *team)
{
    fast_owed *o = &team->owed;
    int64_t total = 0;

    *o = (fast_owed){ .step = -1, .whole = -1, .open = true };
    if (team->workers == 1 || !team->strategy->identical)
        return FAST_OK;
    FAST_TRY(fast__alloc("sizes of what workers owe", team->workers + 1, sizeof *o->at, &o->at));
    for (int64_t i = 0; i < team->workers; i++) {
        int64_t count = 0;

        FAST_TRY(size_of(team, i, &count));
        o->at[i] = total;
        total += count;
    }
    o->at[team->workers] = total;
    if (total == 0)
        return FAST_OK;
    if (!team->alone)
        return fast__fail(FAST_ENOTSUP,
                          "codec %s keeps what a worker has not sent yet, which a checkpoint of "
                          "several processes does not hold: leave out checkpoint and resume",
                          team->run->config.codec);
    return fast__alloc("what workers owe", total, sizeof *o->values, &o->values);
}

void fast__owed_free(fast_team *team)
{
    fast__free(team->owed.at);
    fast__free(team->owed.values);
    team->owed = (fast_owed){ .step = -1, .whole = -1 };
}

fast_err fast__owed_again(fast_team *team)
{
    const bool open = team->owed.open;

    fast__owed_free(team);
    return open ? fast__owed_open(team) : FAST_OK;
}

bool fast__owed_waits(const fast_run *run)
{
    return run->team && run->team->owed.values && run->team->world &&
           run->team->owed.whole != run->step;
}

/* Copy what a worker owes now. */
static void take(fast_team *team, int64_t i)
{
    fast_owed *o = &team->owed;
    const int64_t count = o->at[i + 1] - o->at[i];
    const fast_seat *seat = team->seats[i];

    if (seat && seat->coded)
        FAST_ASSERT(fast__coded_state(seat->coded, o->values + o->at[i]) == count);
    else if (seat && !fast__owed_begins(seat)) /* it has not summed yet */
        memset(o->values + o->at[i], 0, (size_t)count * sizeof *o->values);
}

bool fast__owed_arrive(fast_seat *seat, int64_t step)
{
    fast_team *team = seat->team;
    fast_owed *o = &team->owed;

    FAST_ASSERT(o->values != NULL);
    if (o->step != step) {
        o->step = step;
        o->arrived = 0;
    }
    take(team, seat->trainer.rank);
    if (seat->trainer.rank == 0)
        o->sums = team->run->sums;
    if (++o->arrived < team->workers_up)
        return false;
    o->whole = step;
    return true;
}

/* At rest: all seats are at the run's step. */
static void take_all(fast_team *team)
{
    fast_owed *o = &team->owed;

    if (o->step == team->run->step)
        return;
    for (int64_t i = 0; i < team->workers; i++)
        take(team, i);
    o->step = team->run->step;
}

int64_t fast__owed_count(const fast_run *run)
{
    const fast_team *team = run->team;

    if (!team || !team->owed.values || !team->strategy->identical)
        return 0;
    for (int64_t i = 0; i + 1 < team->phase_count; i++)
        if (team->phases[i].end == run->step) /* the next one begins with nothing */
            return 0;
    return team->workers;
}

void fast__owed_list(fast_run *run, fast_tensor *tensors, char (*names)[FAST_TENSOR_NAME_MAX])
{
    fast_team *team = run->team;
    const int64_t count = fast__owed_count(run);

    if (count > 0)
        take_all(team);
    for (int64_t i = 0; i < count; i++) {
        fast_owed *o = &team->owed;

        snprintf(names[i], sizeof names[i], "codec/%lld", (long long)i);
        tensors[i] = (fast_tensor){ .name = names[i],
                                    .dtype = FAST_F32,
                                    .rank = 1,
                                    .shape = { o->at[i + 1] - o->at[i] },
                                    .count = o->at[i + 1] - o->at[i],
                                    .data = o->values + o->at[i] };
    }
}

/* The tensor of a worker; NULL: there is none of that length. */
static const fast_tensor *find(const fast_team *team, const fast_tensors *tensors, int64_t i)
{
    const fast_owed *o = &team->owed;
    char name[FAST_TENSOR_NAME_MAX];

    snprintf(name, sizeof name, "codec/%lld", (long long)i);
    const fast_tensor *t = fast__tensors_find(tensors, name);
    return t && t->count == o->at[i + 1] - o->at[i] && t->dtype == FAST_F32 ? t : NULL;
}

fast_err fast__owed_check(const fast_run *run, const char *path, const fast_tensors *tensors)
{
    for (int64_t i = 0; i < fast__owed_count(run); i++)
        if (!find(run->team, tensors, i))
            return fast__fail(FAST_EINVAL,
                              "%s does not hold what worker %lld owes to the others with codec %s",
                              path, (long long)i, run->config.codec);
    return FAST_OK;
}

void fast__owed_load(fast_run *run, const fast_tensors *tensors)
{
    for (int64_t i = 0; i < fast__owed_count(run); i++) {
        fast_owed *o = &run->team->owed;
        const fast_tensor *t = find(run->team, tensors, i);

        memcpy(o->values + o->at[i], t->data, (size_t)t->count * sizeof *o->values);
        o->step = o->loaded = run->step;
    }
}

bool fast__owed_begins(const fast_seat *seat)
{
    const fast_team *team = seat->team;
    const fast_owed *o = &team->owed;

    return o->values && o->loaded > 0 && seat->step_begun == o->loaded;
}

void fast__owed_begin(fast_seat *seat)
{
    const fast_owed *o = &seat->team->owed;

    if (fast__owed_begins(seat))
        fast__coded_state_set(seat->coded, o->values + o->at[seat->trainer.rank]);
}
