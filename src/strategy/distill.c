/* SPDX-License-Identifier: Apache-2.0 */
/*
 * distill: train an ensemble, then one student from the ensemble's predictions.
 *
 *     members, for the fraction `teach` of the steps:
 *                  w_i <- rule(w_i, g_i)                                      nothing is exchanged
 *                  from initial weights of their own
 *     once:        every worker gets all members; the student starts from the initial weights, or
 *                  with `fresh=no` from the mean of the members
 *     student:     q   = 1/P sum_m softmax(z_m / T)
 *                  g_i = gradient on worker i's batch of
 *                        - share T^2 sum_k q_k log softmax(z / T)_k
 *                        - (1 - share) log softmax(z)_label
 *                  w   <- rule(w, 1/P sum_i g_i)                              as allreduce
 *
 * The temperature T softens the predictions of teachers and student, so that unlikely classes count
 * too; T^2 makes up for gradients that fall with it (Hinton et al. 2015). Each of the two phases
 * runs through the whole schedule of the learning rate.
 *
 * While members train, the ensemble represents the run; later the student does, at the inference
 * cost of one member. A run that is cancelled and continued, or resumed, gives the same bits: each
 * worker persists the initial weights and its member, and members are gathered again.
 *
 * With `teachers`, saved models of any network, there are no members: the run's model is the
 * student from the first step on, and may be smaller than its teachers.
 *
 * Codecs encode the student's gradients. Members are sent once, without a codec, because an error
 * in a teacher would last for the rest of the run.
 *
 * Cost per worker: an allgather of P models, once; an allreduce of the gradient in a student's
 * step; P forward passes besides the student's; memory: P + 2 models. With M saved teachers:
 * M forward passes of theirs, and M models.
 */
#include "base/err.h"
#include "base/memory.h"
#include "strategy/exchange.h"
#include "tensor/vector.h"
#include "trainer/remember.h"

#include <string.h>

typedef struct distill_config {
    double teach;       /* fraction of the steps in which members train */
    double temperature; /* T: the teachers' outputs are divided by it */
    double share; /* weight of the teachers' predictions in the targets; the labels have the rest */
    bool fresh;   /* the student starts from the initial weights, not from the members' mean */
    char teachers[512]; /* saved models that teach in the place of members; "": none */
} distill_config;

static const fast_option options[] = {
    FAST_OPT_REAL(distill_config, teach, "0.5", 0.001, 0.999,
                  "fraction of the run's steps in which the members train"),
    FAST_OPT_REAL(distill_config, temperature, "2", 0.001, 1e6,
                  "temperature by which the outputs of members and student are divided"),
    FAST_OPT_REAL(
        distill_config, share, "0.9", 0, 1,
        "weight of the members' predictions in the student's targets; labels have the rest"),
    FAST_OPT_BOOL(distill_config, fresh, "yes",
                  "start the student from the initial weights; no: from the mean of the members"),
    FAST_OPT_TEXT(distill_config, teachers, "", NULL,
                  "saved models, joined by +, of any network: they teach, and no members train"),
    FAST_OPT_END,
};

/* Values of `phase`, which is persistent. */
enum { PHASE_NEW, PHASE_MEMBER, PHASE_STUDENT };

/* A worker in both phases. */
typedef struct distillation {
    fast_trainer *t;         /* the worker */
    const distill_config *c; /* its options */
    int64_t *phase;          /* persistent: PHASE_* */
    float *first;            /* persistent, [w and s]: values from which the student starts */
    float *member;           /* persistent, [w and s]: this worker's member */
    double *shares;          /* scratch: contributions */
    float *models;           /* [workers][w and s]: the members */
    int64_t change;          /* steps of the members: the student takes the others */
} distillation;

/* Return the learning rate of a step: each phase runs through the whole schedule. */
static double phase_lr(const distillation *l, int64_t step)
{
    const double all = (double)l->t->step_count;
    const double from = step < l->change ? 0 : (double)l->change;
    const double span = step < l->change ? (double)l->change : all - (double)l->change;

    FAST_ASSERT(step >= 0 && span > 0);
    return fast_trainer_lr(l->t, (int64_t)(((double)step - from) * all / span));
}

/* Gather all members at every worker and set them as teachers. */
static fast_err gather_members(const distillation *l)
{
    fast_trainer *t = l->t;
    const int64_t size = t->count + t->state_count;

    FAST_ASSERT(*l->phase == PHASE_STUDENT || t->step == l->change);
    fast__vector_copy(size, l->member, l->models + t->rank * size);
    fast_actor_at(t->actor, t->step, "members");
    FAST_TRY(fast_allgather(t->group, l->models, t->workers * size, FAST_SOON));
    return fast_trainer_teach(t, l->models, t->workers, l->c->temperature, l->c->share);
}

/* Persist this worker's member and start the student. */
static fast_err start_student(const distillation *l)
{
    fast_trainer *t = l->t;
    const int64_t size = t->count + t->state_count;

    FAST_ASSERT(t->step == l->change && *l->phase == PHASE_MEMBER);
    fast__vector_copy(t->count, t->w, l->member);
    fast__vector_copy(t->state_count, t->s, l->member + t->count);
    FAST_TRY(gather_members(l));
    if (!l->c->fresh) {
        fast__vector_fill(size, 0, l->first);
        for (int64_t m = 0; m < t->workers; m++)
            fast__vector_axpy(size, 1.0f / (float)t->workers, l->models + m * size, l->first);
    }
    /* The mean of the members has equal contributions of all; initial weights have none. */
    memset(l->shares, 0, (size_t)fast_trainer_share_count(t) * sizeof *l->shares);
    fast_trainer_adopt(
        t, &(fast_vector){ .x = l->first, .shares = l->c->fresh ? l->shares : NULL, .age = -1 });
    fast__vector_copy(t->state_count, l->first + t->count, t->s);
    fast_trainer_reset_rule(t);
    *l->phase = PHASE_STUDENT;
    return FAST_OK;
}

/* A step of the student: update by the mean gradient, and average the state that is not trained. */
static fast_err student_step(fast_trainer *t)
{
    const float share = 1.0f / (float)t->workers;

    FAST_ASSERT(t->period == 1);
    fast_actor_at(t->actor, t->step, "gradient");
    FAST_TRY(fast_trainer_sum(t, t->g));
    FAST_TRY(fast_trainer_update(t, t->g, share));
    return fast__state_average(t);
}

/* Train to the end: members, then the student. */
static fast_err train(const distillation *l)
{
    fast_trainer *t = l->t;

    FAST_ASSERT(l->change >= 1 && *l->phase != PHASE_NEW);
    /* Members synchronise where the student starts, and from there on at each step. */
    t->period = t->step < l->change ? l->change : 1;
    t->free_running = t->step < l->change;
    if (*l->phase == PHASE_STUDENT && t->step >= l->change)
        FAST_TRY(gather_members(l));
    while (fast_trainer_next(t)) {
        const bool member = t->step < l->change;

        t->lr = phase_lr(l, t->step);
        FAST_TRY(fast_trainer_gradient(t, NULL, NULL));
        FAST_TRY(member ? fast_trainer_update(t, t->g, 1) : student_step(t));
        if (member && t->step == l->change) {
            FAST_TRY(start_student(l));
            t->period = 1;
            t->free_running = false;
        }
    }
    return fast_trainer_end(t);
}

/* Find the persistent blocks; new ones get the initial weights. */
static fast_err persist(distillation *l)
{
    const fast_trainer *t = l->t;
    const size_t size = (size_t)(t->count + t->state_count) * sizeof(float);
    void *memory[3] = { NULL };

    FAST_ASSERT(size > 0);
    for (int i = 0; i < 3; i++)
        FAST_TRY(fast_trainer_persist(l->t, i, i == 0 ? sizeof *l->phase : size, &memory[i]));
    l->phase = memory[0];
    l->first = memory[1];
    l->member = memory[2];
    if (*l->phase != PHASE_NEW)
        return FAST_OK;
    fast__vector_copy(t->count, t->w, l->first);
    fast__vector_copy(t->state_count, t->s, l->first + t->count);
    fast__trainer_draw(l->t);
    *l->phase = PHASE_MEMBER;
    return FAST_OK;
}

/* Train the student of saved models, from the first step on. */
static fast_err learn(fast_trainer *t, const distill_config *c)
{
    FAST_ASSERT(c->teachers[0]);
    FAST_TRY(fast__trainer_teach_saved(t, c->teachers, c->temperature, c->share));
    while (fast_trainer_next(t)) {
        FAST_TRY(fast_trainer_gradient(t, NULL, NULL));
        FAST_TRY(student_step(t));
    }
    return fast_trainer_end(t);
}

static fast_err worker(fast_trainer *t, const void *config)
{
    const int64_t size = t->count + t->state_count;
    distillation l = { .t = t, .c = config };
    fast_err err, last;

    FAST_ASSERT(l.c != NULL && t->group != NULL);
    FAST_TRY(fast_trainer_teach(t, NULL, 0, 1, 0)); /* refused now, not after the members' phase */
    if (l.c->teachers[0]) {
        err = learn(t, l.c);
        last = fast_trainer_teach(t, NULL, 0, 1, 0);
        return err ? err : last;
    }
    l.change = (int64_t)(l.c->teach * (double)t->step_count);
    if (l.change < 1)
        l.change = 1;
    err = fast__vector_new(fast__device_of(t->w), "all members", t->workers * size, &l.models);
    if (!err)
        err =
            fast__alloc("contributions", fast_trainer_share_count(t), sizeof *l.shares, &l.shares);
    if (!err)
        err = persist(&l);
    if (!err)
        err = train(&l);
    last = t->step >= l.change ? fast_trainer_teach(t, NULL, 0, 1, 0) : FAST_OK;
    fast__vector_free(l.models);
    fast__free(l.shares);
    return err ? err : last;
}

static const fast_exclusion exclusions[] = {
    { "teachers", "teach|fresh", NULL,
      "saved models teach from the first step, and no members train" },
    { NULL, NULL, NULL, NULL },
};

const fast_strategy fast__strategy_distill = {
    .name = "distill",
    .summary = "independent models, then one student trained on their mean predictions",
    .options = options,
    .exclusions = exclusions,
    .config_size = sizeof(distill_config),
    .synchronous = true,
    .resumable = true,
    .uses_codec = true,
    .sends = "gradients",
    .representative = "ensemble",
    .worker = worker,
};
