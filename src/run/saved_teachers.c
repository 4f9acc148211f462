/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Teachers from files. A file describes its network and its inputs; a pass over a batch of the run
 * is one of that network, with the engine and the batch of the run. The values of a batch are
 * normalised as the run's data are, so a teacher's inputs must have the same recipe: the same
 * means, classes and vocabulary.
 *
 * Memory: a program and a workspace for each file and worker.
 */
#include "run/saved_teachers.h"

#include "base/memory.h"
#include "data/recipe.h"
#include "run/predict/predictor.h"

#include <stdio.h>
#include <string.h>

enum { TEACHERS_MAX = 64 };

struct fast_saved_teachers {
    fast_predictor *list[TEACHERS_MAX]; /* [count] */
    int64_t count;
};

/* The outputs of one of the models for a batch. */
static fast_err ask(void *ctx, int64_t i, const fast_batch *batch, float *outputs)
{
    const fast_saved_teachers *teachers = ctx;
    const fast_predictor *p = teachers->list[i];
    fast_pass pass = { .params = p->w, .state = p->s, .batch = batch, .outputs = outputs };

    FAST_ASSERT(i < teachers->count && batch->count <= p->sizes.batch);
    return p->engine->run(p->program, p->workspace, &pass);
}

/* Are a model's inputs described as those of the run's data? */
static fast_err compare_recipes(const char *path, const fast_predictor *p, const char *recipe)
{
    json_t *described = NULL, *wanted = NULL;

    FAST_ASSERT(recipe != NULL);
    FAST_TRY(fast__json_read(path, p->json, strlen(p->json), &described));
    fast_err err = fast__json_read("the data", recipe, strlen(recipe), &wanted);
    if (!err && !json_equal(json_object_get(described, "data"), wanted))
        err = fast__fail(FAST_EINVAL,
                         "%s was trained on data that are described or normalised in another way; "
                         "train teachers and student with the same --data",
                         path);
    json_decref(described);
    json_decref(wanted);
    return err;
}

/* Open a file, and check that it answers to the run's batches. */
static fast_err open_teacher(const fast_run *run, const char *path, const char *recipe,
                             fast_predictor **out)
{
    const fast_predictor_options options = { .engine = run->config.engine,
                                             .plan = run->config.plan,
                                             .batch = run->program->batch };
    const fast_graph *graph = run->graph;

    FAST_TRY(fast_predictor_open(path, &options, out));
    const fast_predictor *p = *out;
    if (p->sizes.outputs != graph->outputs || p->sizes.positions != graph->positions ||
        p->graph->loss != graph->loss)
        return fast__fail(FAST_EINVAL,
                          "%s has %lld outputs for %lld positions, and the student %lld for %lld; "
                          "a teacher answers what the student is asked",
                          path, (long long)p->sizes.outputs, (long long)p->sizes.positions,
                          (long long)graph->outputs, (long long)graph->positions);
    if (p->sizes.batch < run->program->batch)
        return fast__fail(FAST_EINVAL, "%s: a batch of %lld samples is too large for this network",
                          path, (long long)run->program->batch);
    return compare_recipes(path, p, recipe);
}

/* Open all files of the list. */
static fast_err open_all(const fast_run *run, const char *files, const char *recipe,
                         fast_saved_teachers *teachers)
{
    char path[FAST_PATH_MAX];

    FAST_ASSERT(teachers->count == 0);
    for (const char *at = files; *at;) {
        const size_t length = strcspn(at, "+");

        if (length == 0 || length >= sizeof path)
            return fast__fail(FAST_EINVAL, "teachers=%.60s: give files, joined by +", files);
        if (teachers->count == TEACHERS_MAX)
            return fast__fail(FAST_EINVAL, "at most %d teachers", TEACHERS_MAX);
        snprintf(path, sizeof path, "%.*s", (int)length, at);
        const fast_err err = open_teacher(run, path, recipe, &teachers->list[teachers->count]);

        teachers->count += teachers->list[teachers->count] != NULL;
        FAST_TRY(err);
        at += length + (at[length] == '+');
    }
    return FAST_OK;
}

fast_err fast__saved_teachers_open(const fast_run *run, const char *files, fast_teachers *teachers,
                                   fast_saved_teachers **out)
{
    fast_saved_teachers *self = NULL;
    char *recipe = NULL;

    FAST_ASSERT(run->program != NULL && files[0]);
    FAST_TRY(fast__recipe_write(run->data.train, &recipe));
    fast_err err = fast__alloc("teachers", 1, sizeof *self, &self);
    if (!err)
        err = open_all(run, files, recipe, self);
    fast__free(recipe);
    if (err) {
        fast__saved_teachers_close(self);
        return err;
    }
    teachers->count = self->count;
    teachers->ask = ask;
    teachers->ctx = self;
    teachers->flops = 0;
    for (int64_t i = 0; i < self->count; i++)
        teachers->flops += self->list[i]->program->flops_forward;
    *out = self;
    return FAST_OK;
}

void fast__saved_teachers_close(fast_saved_teachers *teachers)
{
    for (int64_t i = 0; teachers && i < teachers->count; i++)
        fast_predictor_close(teachers->list[i]);
    fast__free(teachers);
}
