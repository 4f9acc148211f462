/* SPDX-License-Identifier: Apache-2.0 */
/*
 * distill: an ensemble, then one model that learns what the ensemble knows.
 *
 *     members, the first `teach` of the steps:   w_i <- rule(w_i, g_i)       nothing is exchanged
 *     once:        everyone gets all members; the student begins with the first weights, or with
 *                  `fresh=no` with the mean of the members
 *     student:     q   = share 1/P sum_m softmax(z_m / T) + (1 - share) label
 *                  g_i = gradient of - sum_k q_k log softmax(z)_k on worker i's batch
 *                  w   <- rule(w, 1/P sum_i g_i)                              as allreduce
 *
 * The temperature T softens the teachers, so that what they hold for unlikely shows too; the
 * student's own is 1 (Hinton et al. 2015 divide its outputs, too, and multiply the gradient by
 * T^2). The schedule of the learning rate is run through twice, once for each part.
 *
 * While members train the representative is the ensemble, later the student, which costs at run
 * time what one member does. A run that is stopped and goes on, or is resumed, is equal to the bit:
 * each worker keeps the first weights and the member that it was, and all send theirs once more.
 *
 * Codecs encode the student's gradients, step by step. Members travel once, as they are: a teacher
 * that is off teaches so for the rest of the run.
 *
 * Cost per worker: an allgather of P models, once; an allreduce of the gradient in a student's
 * step; P forward passes besides the student's; memory: P + 2 models.
 */
#include "base/err.h"
#include "base/memory.h"
#include "strategy/strategy.h"
#include "tensor/vector.h"

#include <string.h>

typedef struct distill_config {
    double teach;       /* part of the steps in which members train */
    double temperature; /* of the teachers */
    double share;       /* of their predictions in the targets */
    bool fresh;         /* the student begins with the first weights */
} distill_config;

static const fast_option options[] = {
    FAST_OPT_REAL(distill_config, teach, "0.5", 0.001, 0.999,
                  "part of the run's steps in which members train"),
    FAST_OPT_REAL(distill_config, temperature, "2", 0.001, 1e6,
                  "that the members' outputs are divided by before they teach"),
    FAST_OPT_REAL(distill_config, share, "0.9", 0, 1,
                  "of the members' predictions in the targets; the rest is the labels'"),
    FAST_OPT_BOOL(distill_config, fresh, "yes",
                  "the student begins with the first weights; no: with the members' mean"),
    FAST_OPT_END,
};

/* A worker's part in both lives. */
typedef struct distillation {
    fast_trainer *t;
    const distill_config *c;
    int64_t *begun; /* persistent: 0 before the first step, then 1, with the student 2 */
    float *first;   /* persistent, [w and s]: the student's first values */
    float *member;  /* persistent, [w and s]: this worker's model when the student started */
    double *shares; /* [workers] scratch: contributions */
    float *models;  /* [workers][w and s]: the members */
    int64_t change; /* step after which the student learns */
} distillation;

/* The rate of a step, in the part of the run that it belongs to. */
static double rate_of(const distillation *l, int64_t step)
{
    const double all = (double)l->t->step_count;
    const double from = step < l->change ? 0 : (double)l->change;
    const double span = step < l->change ? (double)l->change : all - (double)l->change;

    return fast_trainer_lr(l->t, (int64_t)(((double)step - from) * all / span));
}

/* Everyone gets all members, which teach from now on. */
static fast_err meet_members(const distillation *l)
{
    fast_trainer *t = l->t;
    const int64_t size = t->count + t->state_count;

    memcpy(l->models + t->rank * size, l->member, (size_t)size * sizeof *l->member);
    fast_actor_at(t->actor, t->step, "members");
    FAST_TRY(fast_allgather(t->group, l->models, t->workers * size, FAST_SOON));
    return fast_trainer_teach(t, l->models, t->workers, l->c->temperature, l->c->share);
}

/* The member becomes the student. */
static fast_err begin_student(const distillation *l)
{
    fast_trainer *t = l->t;
    const int64_t size = t->count + t->state_count;

    memcpy(l->member, t->w, (size_t)t->count * sizeof *t->w);
    memcpy(l->member + t->count, t->s, (size_t)t->state_count * sizeof *t->s);
    FAST_TRY(meet_members(l));
    if (!l->c->fresh) {
        memset(l->first, 0, (size_t)size * sizeof *l->first);
        for (int64_t m = 0; m < t->workers; m++)
            fast__vector_axpy(size, 1.0f / (float)t->workers, l->models + m * size, l->first);
    }
    /* The mean of the members holds as much of each; new weights hold nothing of any. */
    memset(l->shares, 0, (size_t)t->workers * sizeof *l->shares);
    fast_trainer_adopt(
        t, &(fast_vector){ .x = l->first, .shares = l->c->fresh ? l->shares : NULL, .age = -1 });
    memcpy(t->s, l->first + t->count, (size_t)t->state_count * sizeof *t->s);
    fast_trainer_reset_rule(t);
    *l->begun = 2;
    return FAST_OK;
}

/* A step of the student: the mean gradient of all workers, and the mean of what is not trained. */
static fast_err learn(fast_trainer *t)
{
    const float part = 1.0f / (float)t->workers;

    fast_actor_at(t->actor, t->step, "gradient");
    FAST_TRY(fast_trainer_sum(t, t->g));
    FAST_TRY(fast_trainer_update(t, t->g, part));
    if (t->state_count > 0) {
        fast_actor_at(t->actor, t->step, "state");
        FAST_TRY(fast_allreduce(t->group, t->s, t->state_count, FAST_SOON));
        fast__vector_scale(t->state_count, part, t->s);
    }
    return FAST_OK;
}

static fast_err train(const distillation *l)
{
    fast_trainer *t = l->t;

    /* Members wait for one another where the student begins, and after that at each step. */
    t->period = t->step < l->change ? l->change : 1;
    t->free_running = t->step < l->change;
    if (*l->begun == 2 && t->step >= l->change)
        FAST_TRY(meet_members(l));
    while (fast_trainer_next(t)) {
        const bool member = t->step < l->change;

        t->lr = rate_of(l, t->step);
        FAST_TRY(fast_trainer_gradient(t, NULL, NULL));
        FAST_TRY(member ? fast_trainer_update(t, t->g, 1) : learn(t));
        if (member && t->step == l->change) {
            FAST_TRY(begin_student(l));
            t->period = 1;
            t->free_running = false;
        }
    }
    return fast_trainer_end(t);
}

/* Ask for the persistent memory before the first step. */
static fast_err persist(distillation *l)
{
    const fast_trainer *t = l->t;
    const size_t size = (size_t)(t->count + t->state_count) * sizeof(float);
    void *memory[3] = { NULL };

    for (int i = 0; i < 3; i++)
        FAST_TRY(fast_trainer_persist(l->t, i, i == 0 ? sizeof *l->begun : size, &memory[i]));
    l->begun = memory[0];
    l->first = memory[1];
    l->member = memory[2];
    if (*l->begun != 0)
        return FAST_OK;
    memcpy(l->first, t->w, (size_t)t->count * sizeof(float));
    memcpy(l->first + t->count, t->s, (size_t)t->state_count * sizeof(float));
    *l->begun = 1;
    return FAST_OK;
}

static fast_err worker(fast_trainer *t, const void *config)
{
    const int64_t size = t->count + t->state_count;
    distillation l = { .t = t, .c = config };
    fast_err err, last;

    l.change = (int64_t)(l.c->teach * (double)t->step_count);
    if (l.change < 1)
        l.change = 1;
    err = fast__alloc("all members", t->workers * size, sizeof(float), &l.models);
    if (!err)
        err = fast__alloc("contributions", t->workers, sizeof *l.shares, &l.shares);
    if (!err)
        err = persist(&l);
    if (!err)
        err = train(&l);
    last = t->step >= l.change ? fast_trainer_teach(t, NULL, 0, 1, 0) : FAST_OK;
    fast__free(l.models);
    fast__free(l.shares);
    return err ? err : last;
}

const fast_strategy fast__strategy_distill = {
    .name = "distill",
    .summary = "independent models, then one student that learns from their mean predictions",
    .options = options,
    .config_size = sizeof(distill_config),
    .synchronous = true,
    .resumable = true,
    .uses_codec = true,
    .sends = "gradients",
    .representative = "ensemble",
    .worker = worker,
};
