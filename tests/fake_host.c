/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The fake host, its learner, and the recording of calls. The linker's --wrap directs every call of
 * a function that is listed below with CALL, in another source file, to __wrap_NAME; __real_NAME is
 * the function itself. tests/CMakeLists.txt reads the names from this file.
 */
#include "fake_host.h"

#include "base/memory.h"
#include "comm/collective.h"
#include "comm/sliced.h"
#include "tensor/device_check.h"
#include "tensor/vector.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

static const fast_segment segments[] = {
    { .name = "weight", .offset = 0, .count = 4, .shape = { 2, 2 }, .rank = 2, .decay = true },
    { .name = "bias", .offset = 4, .count = 2, .shape = { 2 }, .rank = 1 },
};
static const double RATE = 0.5;

/* One actor while it runs. Written by its own program only. */
typedef struct fake_self {
    fast_context context;      /* under test */
    fast_learner learner;      /* a quadratic */
    float *memory;             /* w and g of the learner, on the device */
    float target;              /* of every element of w */
    float taught[FAKE_COUNT];  /* mean of the teachers' w */
    float taught_share;        /* of the teachers in the targets; 0: no teachers */
    const char *inside;        /* innermost call of the trainer under way; NULL: none */
    double charged_operations; /* by kernels so far */
    double charged_bytes;      /* by kernels so far */
    double summed;             /* floats of sums after gradients so far */
    const fake_options *asked; /* of the run */
    int64_t id;                /* the actor's number */
    bool fail_next;            /* the host's next() is to fail */
    fake_actor *out;           /* its results */
} fake_self;

/* All that the actors share. */
typedef struct fake_world {
    const fake_options *options;   /* of the run */
    const fast_device *device;     /* of all vectors */
    const fast_strategy *strategy; /* under test */
    void *config;                  /* options of the strategy */
    fast_topology *topology;       /* NULL: the strategy has none */
    fast_schedule *rates;          /* constant */
    fast_shared_model shared;      /* that workers may share */
    int64_t servers;               /* of the strategy */
    int64_t ids[FAKE_ACTORS_MAX];  /* actors' numbers */
    fake_self *selves;             /* [actors] */
    fake_result *out;              /* of the run */
} fake_world;

/* The learner. */

static fake_self *self_of_learner(fast_learner *learner)
{
    return (fake_self *)((char *)learner - offsetof(fake_self, learner));
}

static fast_err teach(fast_learner *learner, const fast_teachers *teachers)
{
    fake_self *self = self_of_learner(learner);

    self->taught_share = teachers->count > 0 ? (float)teachers->share : 0;
    memset(self->taught, 0, sizeof self->taught);
    for (int64_t m = 0; m < teachers->count; m++) {
        float w[FAKE_COUNT];

        fast__vector_copy(FAKE_COUNT, teachers->models + m * FAKE_COUNT, w);
        for (int64_t i = 0; i < FAKE_COUNT; i++)
            self->taught[i] += w[i] / (float)teachers->count;
    }
    return FAST_OK;
}

static fast_err gradient(fast_learner *learner, fast_gradient *out)
{
    const fake_self *self = self_of_learner(learner);
    const float share = self->taught_share;
    float w[FAKE_COUNT], g[FAKE_COUNT];

    out->loss = 0;
    fast__vector_copy(FAKE_COUNT, learner->w, w);
    for (int64_t i = FAKE_COUNT - 1; i >= 0; i--) {
        g[i] = w[i] - (share * self->taught[i] + (1 - share) * self->target);
        out->loss += 0.5 * (double)(g[i] * g[i]);
    }
    fast__vector_copy(FAKE_COUNT, g, learner->g);
    for (int k = 1; k >= 0 && out->report; k--)
        out->report(out->ctx, segments[k].offset, segments[k].count);
    out->samples = out->positions = 1;
    out->flops = learner->flops;
    return FAST_OK;
}

static const fast_learner_ops learner_ops = { .name = "quadratic",
                                              .gradient = gradient,
                                              .teach = teach };

/* The host. */

static fast_err host_next(void *host, bool *more_out)
{
    fake_self *self = host;
    const fast_trainer *t = &self->context.trainer;

    *more_out = t->step < t->step_count;
    return self->fail_next ? fast__fail(FAST_EIO, "next fails") : FAST_OK;
}

static void host_stepped(void *host, int64_t step, const fast_gradient *batch)
{
    fake_self *self = host;

    (void)batch;
    self->out->steps += step == self->context.trainer.step;
    self->context.trainer.step = step;
}

static void host_failed(void *host, fast_err err)
{
    (void)host;
    (void)err;
}

static void host_observed(void *host, fast_observation kind, double value, double error)
{
    (void)value;
    (void)error;
    ((fake_self *)host)->out->observed[kind]++;
}

static void host_costed(void *host, const fast_cost *cost)
{
    const fake_self *self = host;
    fake_actor *out = self->out;

    out->costed = true;
    out->charged_operations = self->charged_operations;
    out->charged_bytes = self->charged_bytes;
    out->summed = self->summed;
    out->cost = *cost;
    out->cost.buckets = NULL;
    out->cost_parts = 0;
    for (int64_t i = 0; i < cost->bucket_count; i++)
        out->cost_parts += (double)cost->buckets[i];
}

static void host_noted(void *host, const char *text)
{
    (void)host;
    (void)text;
}

/* Batches need no preparation. */
static fast_err host_prepare(void *host, int64_t first, int64_t count)
{
    (void)host;
    (void)first;
    (void)count;
    return FAST_OK;
}

static fast_err host_restore(void *host, int64_t id, fast_space *space)
{
    (void)host;
    (void)id;
    (void)space;
    return FAST_OK;
}

static void host_draw(void *host, int64_t member, float *w, float *s)
{
    (void)host;
    (void)member;
    (void)w;
    (void)s;
}

static fast_err host_teachers(void *host, const char *files, fast_teachers *out)
{
    (void)host;
    (void)out;
    return fast__fail(FAST_ENOENT, "%s: a fake host has no files", files);
}

static const fast_host_ops host_ops = { .next = host_next,
                                        .stepped = host_stepped,
                                        .failed = host_failed,
                                        .observed = host_observed,
                                        .costed = host_costed,
                                        .noted = host_noted,
                                        .prepare = host_prepare,
                                        .restore = host_restore,
                                        .draw = host_draw,
                                        .teachers = host_teachers };

/* Calls. */

/* The fake actor of a trainer; NULL: it belongs to a whole run. */
static fake_self *self_of(const fast_trainer *t)
{
    const fast_context *c = fast__context_of(t);

    return c->options.host == &host_ops ? c->options.host_ctx : NULL;
}

/* Record a call; true if it is to fail. */
static bool record(const fast_trainer *t, const char *name, bool failable)
{
    fake_self *self = self_of(t);

    if (!self)
        return false;
    const size_t used = strlen(self->out->calls);

    snprintf(self->out->calls + used, FAKE_CALLS_SIZE - used, "%s%s", used ? " " : "",
             name + strlen("fast_trainer_"));
    self->out->failable += failable;
    return failable && self->asked->fail_actor == self->id &&
           self->asked->fail_call == self->out->failable;
}

/* Enter a call of the trainer, or leave it for the one around it; returns the call before. */
static const char *enter(const fast_trainer *t, const char *name)
{
    fake_self *self = self_of(t);
    const char *before = self ? self->inside : NULL;

    if (self)
        self->inside = name;
    return before;
}

static fast_err injected(const char *name)
{
    return fast__fail(FAST_EIO, "%s fails", name);
}

#define CALL(name, parameters, arguments)             \
    static const char name##_text[] = #name;          \
    fast_err __real_##name parameters;                \
    fast_err __wrap_##name parameters;                \
    fast_err __wrap_##name parameters                 \
    {                                                 \
        if (record(t, name##_text, true))             \
            return injected(name##_text);             \
        const char *before = enter(t, name##_text);   \
        const fast_err err = __real_##name arguments; \
        enter(t, before);                             \
        return err;                                   \
    }
#define CALL_VOID(name, parameters, arguments) \
    void __real_##name parameters;             \
    void __wrap_##name parameters;             \
    void __wrap_##name parameters              \
    {                                          \
        (void)record(t, #name, false);         \
        __real_##name arguments;               \
    }

CALL(fast_trainer_end, (fast_trainer * t), (t))
CALL(fast_trainer_gradient, (fast_trainer * t, fast_report_fn *report, void *ctx), (t, report, ctx))
CALL(fast_trainer_gradient_when,
     (fast_trainer * t, fast_need_fn *need, fast_report_fn *report, void *ctx),
     (t, need, report, ctx))
CALL(fast_trainer_micro_gradient, (fast_trainer * t, int64_t number), (t, number))
CALL_VOID(fast_trainer_count_step, (fast_trainer * t), (t))
CALL_VOID(fast_trainer_set_step, (fast_trainer * t, int64_t step), (t, step))
CALL_VOID(fast_trainer_settle, (fast_trainer * t, fast_settle_fn *settle, void *ctx),
          (t, settle, ctx))
CALL(fast_trainer_use_factors, (fast_trainer * t, int64_t i, bool wanted), (t, i, wanted))
CALL(fast_trainer_multiply_factors,
     (fast_trainer * t, int64_t i, const float *const *factors, const int64_t *rows, int64_t count,
      float *y),
     (t, i, factors, rows, count, y))
CALL(fast_trainer_sum, (fast_trainer * t, float *x), (t, x))
CALL(fast_trainer_sum_vector, (fast_trainer * t, const fast_vector *v), (t, v))
CALL(fast_trainer_sum_range, (fast_trainer * t, fast_group *group, int64_t offset, int64_t count),
     (t, group, offset, count))
CALL(fast_trainer_sum_range_start,
     (fast_trainer * t, fast_group *group, int64_t offset, int64_t count, fast_request **out),
     (t, group, offset, count, out))
CALL(fast_trainer_sum_list,
     (fast_trainer * t, const float *const *x, int64_t n, int64_t count, float *y),
     (t, x, n, count, y))
CALL(fast_trainer_apply,
     (fast_trainer * t, const fast_kernel *kernel, const void *ctx, const fast_vector *v),
     (t, kernel, ctx, v))
CALL(fast_trainer_apply_range,
     (fast_trainer * t, const fast_kernel *kernel, const void *ctx, const fast_vector *v,
      int64_t rows, int64_t count),
     (t, kernel, ctx, v, rows, count))
CALL_VOID(fast_trainer_adopt, (fast_trainer * t, const fast_vector *v), (t, v))
CALL(fast_trainer_update_by, (fast_trainer * t, const fast_vector *v, float scale), (t, v, scale))
CALL(fast_trainer_sum_cut, (fast_trainer * t, int64_t least, int64_t *count_out),
     (t, least, count_out))
CALL(fast_trainer_sum_start, (fast_trainer * t, int64_t i, const float *x), (t, i, x))
CALL(fast_trainer_sum_finish, (fast_trainer * t, int64_t i, float *x), (t, i, x))
CALL(fast_trainer_space, (fast_trainer * t, const fast_space_options *options, fast_space **out),
     (t, options, out))
CALL(fast_trainer_flow, (fast_trainer * t, const fast_flow_options *options, fast_flow **out),
     (t, options, out))
CALL(fast_trainer_encode,
     (fast_trainer * t, fast_flow *flow, const float *x, void *out, size_t *size_out),
     (t, flow, x, out, size_out))
CALL(fast_trainer_decode,
     (fast_trainer * t, fast_flow *flow, const void *in, size_t size, float scale, float *y),
     (t, flow, in, size, scale, y))
CALL(fast_trainer_decode_values,
     (fast_trainer * t, fast_flow *flow, const void *in, size_t size, const float **out),
     (t, flow, in, size, out))
CALL(fast_trainer_update, (fast_trainer * t, const float *g, float scale), (t, g, scale))
CALL_VOID(fast_trainer_update_range,
          (fast_trainer * t, int64_t step, double lr, float *w, const float *g, float scale,
           int64_t offset, int64_t count),
          (t, step, lr, w, g, scale, offset, count))
CALL(fast_trainer_share, (fast_trainer * t, bool *out), (t, out))
CALL(fast_trainer_update_shared, (fast_trainer * t, const float *g, float scale, int64_t deadline),
     (t, g, scale, deadline))
CALL_VOID(fast_trainer_reset_rule, (fast_trainer * t), (t))
CALL(fast_trainer_teach,
     (fast_trainer * t, const float *models, int64_t model_count, double temperature, double share),
     (t, models, model_count, temperature, share))
CALL(fast_trainer_centre, (fast_trainer * t, float **out), (t, out))
CALL(fast_trainer_persist, (fast_trainer * t, int64_t number, size_t size, void **out),
     (t, number, size, out))
CALL(fast_trainer_persist_vector, (fast_trainer * t, int64_t number, fast_vector *out),
     (t, number, out))

/* It fails as a host does. */
bool __real_fast_trainer_next(fast_trainer *t);
bool __wrap_fast_trainer_next(fast_trainer *t);
bool __wrap_fast_trainer_next(fast_trainer *t)
{
    if (record(t, "fast_trainer_next", true))
        self_of(t)->fail_next = true;
    return __real_fast_trainer_next(t);
}

/* A space is closed also where the call fails: that fast_trainer_space_close() does. */
fast_err __real_fast_trainer_space_close(fast_trainer *t, fast_space *space);
fast_err __wrap_fast_trainer_space_close(fast_trainer *t, fast_space *space);
fast_err __wrap_fast_trainer_space_close(fast_trainer *t, fast_space *space)
{
    const bool fails = record(t, "fast_trainer_space_close", true);
    const fast_err err = __real_fast_trainer_space_close(t, space);

    return fails ? injected("fast_trainer_space_close") : err;
}

/* Costs. */

static fake_world *current; /* of the run under way; NULL: none */

static fake_self *self_of_actor(fast_actor *actor)
{
    return current ? &current->selves[fast_actor_id(actor)] : NULL;
}

/* True if the charge of a call is one of kernels: all charges of fast_trainer_apply(), and in a
 * gradient or an update, which charge deferred kernels, those that have not the proportion of an
 * update. fast_trainer_gradient_when() waits for sums, which are charged too. */
static bool is_kernel(const char *call, double operations, double bytes)
{
    const char *name = call ? call + strlen("fast_trainer_") : "";

    if (strncmp(name, "apply", 5) == 0)
        return true;
    if (strcmp(name, "gradient") != 0 && strncmp(name, "update", 6) != 0)
        return false;
    return operations * FAST_UPDATE_BYTES != bytes * FAST_UPDATE_OPERATIONS;
}

fast_err __real_fast_charge(fast_actor *actor, double operations, double bytes);
fast_err __wrap_fast_charge(fast_actor *actor, double operations, double bytes);
fast_err __wrap_fast_charge(fast_actor *actor, double operations, double bytes)
{
    fake_self *self = self_of_actor(actor);

    /* While a gradient is computed, sums that it started are charged. */
    if (self && !self->context.work.computing && is_kernel(self->inside, operations, bytes)) {
        self->charged_operations += operations;
        self->charged_bytes += bytes;
    }
    return __real_fast_charge(actor, operations, bytes);
}

/* Count floats of a sum as the forecast does: started during a gradient on the run's group, or
 * not. */
static void count_sum(const fast_group *group, int64_t count)
{
    const int64_t id = fast_actor_id(group->actor);

    if (!current || id >= current->options->workers)
        return;
    fake_self *self = &current->selves[id]; /* this actor's own: others run at the same time */
    const fast_context *c = &self->context;
    if (!c->work.computing || group != c->trainer.group) {
        self->summed += (double)count;
        return;
    }
    if (self->out->early_step != c->trainer.step)
        self->out->summed_early = 0;
    self->out->early_step = c->trainer.step;
    self->out->summed_early += (double)count;
}

fast_err __real_fast_allreduce(fast_group *group, float *x, int64_t count, int64_t deadline);
fast_err __wrap_fast_allreduce(fast_group *group, float *x, int64_t count, int64_t deadline);
fast_err __wrap_fast_allreduce(fast_group *group, float *x, int64_t count, int64_t deadline)
{
    count_sum(group, count);
    return __real_fast_allreduce(group, x, count, deadline);
}

fast_err __real_fast_allreduce_start(fast_group *group, float *x, int64_t count,
                                     fast_request **out);
fast_err __wrap_fast_allreduce_start(fast_group *group, float *x, int64_t count,
                                     fast_request **out);
fast_err __wrap_fast_allreduce_start(fast_group *group, float *x, int64_t count, fast_request **out)
{
    count_sum(group, count);
    return __real_fast_allreduce_start(group, x, count, out);
}

fast_err __real_fast__sliced_sum(fast_sliced *s, float *x, int64_t count, fast_request **out);
fast_err __wrap_fast__sliced_sum(fast_sliced *s, float *x, int64_t count, fast_request **out);
fast_err __wrap_fast__sliced_sum(fast_sliced *s, float *x, int64_t count, fast_request **out)
{
    count_sum(s->group, count);
    return __real_fast__sliced_sum(s, x, count, out);
}

/* Programs. */

static fast_err start(fake_world *world, fast_actor *actor, fake_self **out)
{
    const fake_options *asked = world->options;
    const int64_t id = fast_actor_id(actor);
    const bool worker = id < asked->workers;
    fake_self *self = &world->selves[id];

    *self = (fake_self){ .asked = asked, .id = id, .out = &world->out->actors[id] };
    self->target = (float)(id + 1);
    FAST_TRY(fast__vector_new(world->device, "w and g", 2 * FAKE_COUNT, &self->memory));
    self->learner = (fast_learner){ .ops = &learner_ops,
                                    .params = { segments, 2, FAKE_COUNT },
                                    .w = self->memory,
                                    .g = self->memory + FAKE_COUNT,
                                    .s = self->memory + FAKE_COUNT,
                                    .epoch_steps = 4,
                                    .moves = asked->share,
                                    .flops = 1e6 };
    const fast_context_options options = {
        .host = &host_ops,
        .host_ctx = self,
        .rank = worker ? id : id - asked->workers,
        .workers = asked->workers,
        .worker_ids = world->ids,
        .server_ids = world->ids + asked->workers,
        .is_virtual = !asked->transport || strcmp(asked->transport, "sim") == 0,
        .learner = worker ? &self->learner : NULL,
        .model = &self->learner,
        .optimizer = asked->optimizer ? asked->optimizer : "sgd",
        .rates = world->rates,
        .shared = asked->share ? &world->shared : NULL,
        .phase = { .strategy = world->strategy->name,
                   .resumes = world->strategy->resumable,
                   .synchronous = world->strategy->synchronous,
                   .config = world->config,
                   .cost = world->strategy->cost,
                   .topology = world->topology,
                   .servers = world->servers,
                   .step_count = asked->steps },
    };
    *out = self;
    FAST_TRY(fast__context_init(&self->context, &options));
    fast__context_start(&self->context, actor);
    return FAST_OK;
}

/* Leave the results, and free the rest. */
static fast_err stop(fake_self *self, fast_err err)
{
    fast_trainer *t = &self->context.trainer;
    fake_actor *out = self->out;

    fast__context_stop(&self->context);
    fast_group_free(t->group);
    fast__vector_copy(FAKE_COUNT, t->w, out->w);
    out->has_centre = t->centre != NULL;
    if (t->centre)
        fast__vector_copy(FAKE_COUNT, t->centre, out->centre);
    if (self->context.shares.w)
        memcpy(out->contributions, self->context.shares.w,
               (size_t)t->workers * sizeof *out->contributions);
    out->err = err;
    fast__context_fini(&self->context);
    fast__vector_free(self->memory);
    return err;
}

static fast_err worker_main(fast_actor *actor, void *ctx)
{
    fake_world *world = ctx;
    fake_self *self = NULL;

    FAST_TRY(start(world, actor, &self));
    fast_trainer *t = &self->context.trainer;
    fast_err err = fast_group_all(actor, "worker", &t->group);
    return stop(self, err ? err : world->strategy->worker(t, world->config));
}

static fast_err server_main(fast_actor *actor, void *ctx)
{
    fake_world *world = ctx;
    fake_self *self = NULL;

    FAST_TRY(start(world, actor, &self));
    return stop(self, world->strategy->server(&self->context.trainer, world->config));
}

static void open_world(fake_world *world)
{
    const fake_options *o = world->options;
    const fast_schedule_options rates = {
        .spec = "constant", .lr = RATE, .steps = o->steps, .epoch_steps = 4, .global_batch = 1
    };
    const char *topology;

    assert_int_equal(fast__strategy_open(o->strategy, o->own, &world->strategy, &world->config),
                     FAST_OK);
    if (world->strategy->check)
        assert_int_equal(world->strategy->check(world->config, o->workers, "sgd"), FAST_OK);
    world->servers =
        world->strategy->servers ? world->strategy->servers(world->config, o->workers) : 0;
    topology = o->topology ? o->topology : world->strategy->topology;
    if (topology)
        assert_int_equal(fast_topology_new(topology, o->workers, 0, &world->topology), FAST_OK);
    assert_int_equal(fast__schedule_new(&rates, &world->rates), FAST_OK);
    assert_in_range(o->workers, 1, FAKE_WORKERS_MAX);
    assert_in_range(o->workers + world->servers, 1, FAKE_ACTORS_MAX);
    for (int64_t i = 0; i < FAKE_ACTORS_MAX; i++)
        world->ids[i] = i;
}

/* As fast_actors_run(), with the device of the world's vectors. */
static fast_err run_actors(const fake_world *world, const fast_role *roles)
{
    const char *transport = world->options->transport;
    fast_actors_config config;
    fast_world *actors = NULL;

    memset(&config, 0, sizeof config);
    fast__options_default(fast__actors_options, &config);
    snprintf(config.transport, sizeof config.transport, "%s", transport ? transport : "sim");
    config.timeout = 2;
    FAST_TRY(fast__world_open(&config, roles, world->servers > 0 ? 2 : 1, &actors));
    actors->device = world->device;
    const fast_err err = fast__world_run(actors, NULL);
    fast__world_close(actors);
    return err;
}

/* Run all programs with vectors on a device. */
static void run_on(const fast_device *device, const fake_options *options, fake_result *out)
{
    fake_self selves[FAKE_ACTORS_MAX];
    fake_world world = { .options = options, .device = device, .selves = selves, .out = out };

    memset(out, 0, sizeof *out);
    memset(selves, 0, sizeof selves);
    open_world(&world);
    fast__shared_model_init(&world.shared);
    const fast_role roles[] = { { "worker", options->workers, worker_main, &world },
                                { "server", world.servers, server_main, &world } };
    current = &world;
    out->err = run_actors(&world, roles);
    current = NULL;
    snprintf(out->detail, sizeof out->detail, "%s", out->err ? fast_error_detail() : "");
    out->actor_count = options->workers + world.servers;
    fast__shared_model_fini(&world.shared);
    fast__schedule_free(world.rates);
    fast_topology_free(world.topology);
    fast__free(world.config);
}

/* On `check` an access of a strategy to a vector outside of kernels ends the test, and so does a
 * vector that is not freed; in the simulator all results are those of the host. */
void fake_run(const fake_options *options, fake_result *out)
{
    const fast_device *check = NULL;
    fake_result again;

    run_on(&fast__host, options, out);
    assert_int_equal(fast__device_check_open(&check), FAST_OK);
    run_on(check, options, &again);
    assert_true(out->err || fast__device_check_maps(check) > 0);
    fast__device_check_close(check);
    if (options->transport && strcmp(options->transport, "sim") != 0)
        return;
    assert_int_equal(out->err, again.err);
    for (int64_t i = 0; i < out->actor_count; i++) {
        assert_string_equal(out->actors[i].calls, again.actors[i].calls);
        assert_memory_equal(out->actors[i].w, again.actors[i].w, sizeof again.actors[i].w);
        assert_memory_equal(out->actors[i].centre, again.actors[i].centre,
                            sizeof again.actors[i].centre);
    }
}

/* Assertions. */

static void add(char *text, size_t size, const char *words)
{
    const size_t used = strlen(text);

    if (words[0])
        snprintf(text + used, size - used, "%s%s", used ? " " : "", words);
}

void fake_assert_calls(const fake_result *result, int64_t actor, const char *head, const char *step,
                       const char *tail)
{
    char wanted[FAKE_CALLS_SIZE] = "";
    const fake_actor *a = &result->actors[actor];

    assert_in_range(actor, 0, result->actor_count - 1);
    add(wanted, sizeof wanted, head);
    for (int64_t i = 0; i < a->steps; i++)
        add(wanted, sizeof wanted, step);
    add(wanted, sizeof wanted, tail);
    assert_string_equal(a->calls, wanted);
}

int64_t fake_assert_errors(const fake_options *options)
{
    fake_options o = *options;
    fake_result all, one;
    int64_t runs = 0;

    o.fail_call = 0;
    fake_run(&o, &all);
    assert_int_equal(all.err, FAST_OK);
    for (o.fail_actor = 0; o.fail_actor < all.actor_count; o.fail_actor++)
        for (o.fail_call = 1; o.fail_call <= all.actors[o.fail_actor].failable; o.fail_call++) {
            fake_run(&o, &one);
            const fake_actor *a = &one.actors[o.fail_actor];

            if (a->err != FAST_EIO || one.err == FAST_OK)
                fail_msg("%s: call %lld of actor %lld failed, and its program returned %d after %s",
                         o.strategy, (long long)o.fail_call, (long long)o.fail_actor, (int)a->err,
                         a->calls);
            runs++;
        }
    return runs;
}
