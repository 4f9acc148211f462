/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Record and replay of a run: what belongs to this level. transport/record/ does the work; here is
 * what the recording says it belongs to, which runs have anything to record, and the proof that a
 * replay is one: every worker's weights are hashed where its program begins and where it ends, and
 * the hashes are in its recording.
 *
 * The job is text, one "name=value" a line in the order of the options' table, then two hashes:
 *
 *     model=lenet
 *     ...
 *     plan_hash=0123456789abcdef
 *     data_hash=fedcba9876543210
 *
 * A replay whose job differs computes something else and is refused with FAST_EINVAL and
 * the first line that differs (transport/record/recording_options.c). Options that have a former
 * name are written under it, so that older recordings still match.
 */
#include "base/memory.h"
#include "run/team.h"
#include "tensor/vector.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* Options that may differ: files that are written or whose content is compared otherwise, and those
 * of which the transport's own lines speak. */
static bool is_free(const char *name)
{
    static const char *const names[] = { "save",   "load",     "checkpoint",  "checkpoint_every",
                                         "resume", "plan",     "log",         "system",
                                         "trace",  "record",   "replay",      "transport",
                                         "seed",   "timeout",  "workers",     "store",
                                         "name",   "batch_of", "tensorboard", NULL };
    for (int i = 0; names[i]; i++)
        if (strcmp(names[i], name) == 0)
            return true;
    return false;
}

fast_err fast__run_job(fast_run *run, char **out)
{
    enum { NAME_MAX_SIZE = 64 };
    int64_t count = 2;
    char *text = NULL;
    size_t used = 0, size;

    FAST_ASSERT(run != NULL && out != NULL);
    for (const fast_option *o = fast__run_options; o->name; o++)
        count++;
    size = (size_t)count * (FAST_PATH_MAX + NAME_MAX_SIZE);
    FAST_TRY(fast__alloc("the options of a recording", (int64_t)size, 1, &text));
    for (const fast_option *o = fast__run_options; o->name; o++) {
        if (is_free(o->name))
            continue;
        used += (size_t)snprintf(text + used, NAME_MAX_SIZE, "%s=",
                                 o->former ? o->former : o->name); /* as older recordings have it */
        fast__config_text(o, &run->config, text + used, FAST_PATH_MAX);
        used += strlen(text + used);
        text[used++] = '\n';
    }
    snprintf(text + used, size - used, "plan_hash=%016" PRIx64 "\ndata_hash=%016" PRIx64 "\n",
             fast__run_plan_hash(run), fast__run_data_hash(run));
    *out = text;
    return FAST_OK;
}

fast_err fast__team_can_record(const fast_team *team)
{
    const char *name = team->run->config.record[0] ? "record" : "replay";

    if (team->run->config.phases[0])
        return fast__fail(FAST_ENOTSUP,
                          "%s: a recording is of one strategy; leave out phases=%.100s", name,
                          team->run->config.phases);
    if (!team->strategy->synchronous)
        return FAST_OK;
    if (team->single)
        return fast__fail(FAST_EINVAL, "%s: one worker repeats to the bit by itself; leave it out",
                          name);
    return fast__fail(FAST_EINVAL,
                      "%s: strategy %s is synchronous and repeats to the bit by itself; leave it "
                      "out",
                      name, team->strategy->name);
}

void fast__team_lock(const fast_team_actor *self)
{
    fast_critical_begin(self->context.trainer.actor, FAST_CRITICAL_TEAM);
    fast__mutex_lock(&self->team->mutex);
}

void fast__team_unlock(const fast_team_actor *self)
{
    fast__mutex_unlock(&self->team->mutex);
    fast_critical_end(self->context.trainer.actor);
}

void fast__team_compare(fast_team_actor *self, const char *when)
{
    const fast_trainer *t = &self->context.trainer;
    char why[160];

    if (!self->team->place.job)
        return;
    const int64_t hash = (int64_t)fast__vector_hash(t->count, t->w, 0);
    if (fast__record_value(t->actor, hash) == hash)
        return;
    snprintf(why, sizeof why,
             "the run does not follow its recording: worker %" PRId64
             " %s with other weights than then",
             t->rank, when);
    fast__record_stop(self->team->place.world, why);
}
