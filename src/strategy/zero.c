/* SPDX-License-Identifier: Apache-2.0 */
/*
 * zero: synchronous data parallelism whose model states are sharded over the workers (ZeRO, FSDP).
 *
 *     g_i <- gradient of worker i's batch at w        sum_j: slice j of the sum, at worker j
 *     w_j <- rule(w_j, 1/P sum_j g)                   worker j's slice, with its slice of the state
 *     w   <- all slices                               at every worker
 *
 * The vectors are cut into units of about `bucket` bytes, and each unit into a slice for each
 * worker, so that all links are used at a time. A sum has the canonical order, and an elementwise
 * rule does not see how a vector is cut: the bits are those of allreduce.
 *
 *   stage 1   the rule's state is sharded: a worker has its slices of it
 *   stage 2   gradients too: a unit is summed as soon as the backward pass has made it, and dropped
 *   stage 3   parameters too: a layer's units are gathered before the forward pass reads them and
 *             dropped two layers later, and once more for the backward pass. The next unit is on
 *             its way while a layer is computed. The two layers that are read last stay
 *
 *   state of a layer      forward               backward              step
 *     w       own  gather  all  drop   own  gather  all  drop   own  update
 *     g                                             all  sum    own  drop
 *
 * Cost per worker and step, in models of G bytes:
 *
 *   stage   sent              w      g      rule's state of k vectors
 *   1       2 (P - 1)/P G     G      G      k G / P
 *   2       2 (P - 1)/P G     G      G / P  k G / P
 *   3       3 (P - 1)/P G     G / P  G / P  k G / P      besides the units under way
 *
 * Stage 3 sends (P - 1)/P of the units of the last two layers less. A sum copies gradients to
 * messages, so a few are under way at a time: between two layers of the backward pass the older
 * ones are waited for. A gradient of several micro-batches is summed after the last one, and its w
 * is gathered once.
 *
 * Rajbhandari et al., "ZeRO: Memory Optimizations Toward Training Trillion Parameter Models", SC
 * 2020; Zhao et al., "PyTorch FSDP", VLDB 2023.
 */
#include "base/err.h"
#include "base/memory.h"
#include "comm/sliced.h"
#include "strategy/overlap.h"
#include "tensor/vector.h"
#include "trainer/sharded.h"

#include <stdio.h>

enum { STAGE_1 = 1, STAGE_2 = 2, STAGE_3 = 3 };
enum {
    AHEAD = 2,  /* units that are summed or gathered while one is waited for, after a gradient */
    WINDOW = 8, /* sums under way in a backward pass: their messages are copies of gradients */
};

/* Options. */
typedef struct zero_options {
    int64_t stage;  /* 1 to 3: what is sharded */
    int64_t bucket; /* bytes of a unit */
} zero_options;

static const fast_option options[] = {
    FAST_OPT_INT(zero_options, stage, "2", 1, 3,
                 "what is sharded: 1 the optimizer's state, 2 gradients too, 3 parameters too"),
    FAST_OPT_INT(zero_options, bucket, "131072", 4096, 1e12,
                 "bytes of gradients or parameters that are summed or gathered at once"),
    FAST_OPT_END,
};

/* A unit of the vectors. */
typedef struct zero_unit {
    fast_sliced slices;   /* of its sum */
    fast_request *sum;    /* under way; or NULL */
    fast_request *gather; /* of w, under way; or NULL */
    int64_t missing;      /* elements of g that are not final in this step */
    bool whole;           /* w of the unit is here, or on its way */
    bool held;            /* it is counted as held */
} zero_unit;

/* A range of units, from low to high; none if low is above it. */
typedef struct zero_range {
    int64_t low, high; /* indices of its ends */
} zero_range;

/* A worker's part. */
typedef struct zero {
    fast_trainer *t;           /* the worker */
    const zero_options *c;     /* options */
    int64_t count;             /* units */
    fast_slice *slices;        /* [count]: their ranges, and the own slices */
    zero_unit *units;          /* [count] */
    int64_t *order;            /* [count]: units in the order in which their gradients are final */
    int64_t ready;             /* length of order in this step */
    int64_t started;           /* of these, those whose sums have started */
    int64_t finished;          /* of these, those whose sums are done for certain */
    int64_t window;            /* sums under way at most in a backward pass */
    fast_sliced gather;        /* of w and of the rule's state */
    bool drops;                /* the vectors are this worker's alone: ranges may be dropped */
    bool layered;              /* the pass asks for ranges of w before it reads them: it may wait */
    bool instant;              /* it would, but takes an instant of virtual time */
    bool settled;              /* worker 0 has been given all of w and of the rule's state */
    bool backward;             /* the forward pass is over */
    bool again;                /* the backward pass has reported */
    zero_range read[2];        /* units of the layer that the pass reads, and of the one before */
    int64_t read_offset;       /* of that layer's parameters; -1: none yet */
    int64_t held_w, held_g;    /* floats of w and g that are held */
    int64_t own;               /* floats of all own slices */
    fast_err err;              /* first failure inside a report */
    char why[FAST_DETAIL_MAX]; /* its detail */
} zero;

/* The scale of a sum that makes it a mean. */
static float mean_of(const zero *z)
{
    FAST_ASSERT(z->t->workers >= 1);
    return 1.0f / (float)z->t->workers;
}

/* Remember how much this worker holds now. */
static void note_held(zero *z)
{
    FAST_ASSERT(z->held_w >= 0);
    FAST_ASSERT(z->held_g >= 0);
    fast__trainer_holds(z->t, z->held_w + z->held_g, z->own);
}

/* Drop all but the own slice of a unit of x, a vector of this worker. */
static void drop_others(const zero *z, int64_t i, float *x)
{
    const fast_slice *s = &z->slices[i];

    FAST_ASSERT(i >= 0 && i < z->count);
    if (z->drops)
        fast__trainer_drop(x, s->offset, s->count, s->own_offset, s->own_count);
}

/* Remember the first failure of a report, which cannot return it. */
static void fail(zero *z, fast_err err)
{
    FAST_ASSERT(err <= FAST_OK);
    if (!err || z->err)
        return;
    z->err = err;
    snprintf(z->why, sizeof z->why, "%s", fast_error_detail());
}

/* Count w of a unit as held, or as held no more. */
static void hold(zero *z, int64_t i, bool held)
{
    const int64_t others = z->slices[i].count - z->slices[i].own_count;

    FAST_ASSERT(others >= 0);
    if (z->units[i].held != held)
        z->held_w += held ? others : -others;
    z->units[i].held = held;
    note_held(z);
}

/* w of a unit is not needed any more until it is gathered again. */
static void drop_weights(zero *z, int64_t i)
{
    FAST_ASSERT(z->c->stage == STAGE_3 && !z->units[i].gather);
    if (!z->units[i].whole)
        return;
    z->units[i].whole = false;
    hold(z, i, false);
    drop_others(z, i, z->t->w);
}

/* Start to gather a unit of x, of which each worker has its slice, to `root` or to all (-1). Equal
 * replicas of the simulator are one copy: only the messages are needed. */
static fast_err gather_unit(zero *z, int64_t i, float *x, int64_t root, fast_request **out)
{
    const fast_slice *s = &z->slices[i];

    FAST_ASSERT(i >= 0 && i < z->count);
    return fast__sliced_gather(&z->gather, z->drops ? x + s->offset : NULL, s->count, root, out);
}

/* Start to gather w of a unit, unless it is here. */
static fast_err start_gather(zero *z, int64_t i)
{
    zero_unit *u = &z->units[i];

    FAST_ASSERT(u->whole || !u->gather);
    if (u->whole)
        return FAST_OK;
    u->whole = true;
    hold(z, i, true);
    return gather_unit(z, i, z->t->w, -1, &u->gather);
}

/* Wait for a request, if there is one. */
static fast_err finish(fast_request **request)
{
    return *request ? fast_request_wait(request, FAST_SOON) : FAST_OK;
}

/* Start the sum of a unit, all of whose gradient is here; all but the own slice is free then. */
static fast_err start_sum(zero *z, int64_t i)
{
    const fast_slice *s = &z->slices[i];

    FAST_ASSERT(!z->units[i].sum && z->started < z->ready);
    z->started++;
    fast__trainer_slice_summed(z->t, s->count);
    FAST_TRY(
        fast__sliced_sum(&z->units[i].slices, z->t->g + s->offset, s->count, &z->units[i].sum));
    if (z->c->stage >= STAGE_2) {
        drop_others(z, i, z->t->g);
        z->held_g -= s->count - s->own_count;
    }
    return FAST_OK;
}

/* Start the sums of units whose gradients are final, with `wait` all of them, else as many as fit
 * the window. It moves only where this may wait, so that sums and gathers start in one order at all
 * workers. */
static fast_err start_ready(zero *z, bool wait)
{
    while (z->started < z->ready) {
        if (z->started - z->finished >= z->window) {
            if (!wait)
                return FAST_OK;
            FAST_TRY(finish(&z->units[z->order[z->finished]].sum));
            z->finished++;
        }
        FAST_TRY(start_sum(z, z->order[z->started]));
    }
    return FAST_OK;
}

/* The unit that an element is in: all but the last have one length. */
static int64_t unit_at(const zero *z, int64_t at)
{
    FAST_ASSERT(at >= 0 && at < z->t->count);
    return at / z->slices[0].count;
}

/* Where the whole pass is one instant of virtual time nothing was dropped for it. In the first
 * report the units that would have been are asked for again, in the order of the backward pass. */
static void gather_again(zero *z)
{
    for (int64_t i = z->count - 1; i >= 0 && !z->err; i--)
        if (!z->units[i].held)
            fail(z, gather_unit(z, i, z->t->w, -1, &z->units[i].gather));
}

/* A unit's gradient is final, in a report. With stage 3 its parameters are not read again. */
static void unit_ready(zero *z, int64_t i)
{
    z->order[z->ready++] = i;
    fail(z, start_ready(z, false));
    if (z->c->stage < STAGE_3 || z->err)
        return;
    if (z->layered) {
        drop_weights(z, i);
    } else if (z->instant) {
        hold(z, i, true); /* at least now */
        hold(z, i, false);
    }
}

/* Report of the gradient, in the same order at every worker. */
static void report(void *ctx, int64_t offset, int64_t count)
{
    zero *z = ctx;

    if (z->instant && !z->again)
        gather_again(z);
    z->again = z->backward = true;
    for (int64_t at = offset; at < offset + count && !z->err;) {
        const int64_t i = unit_at(z, at);
        const fast_slice *s = &z->slices[i];
        const int64_t end =
            s->offset + s->count < offset + count ? s->offset + s->count : offset + count;

        if (z->units[i].missing == s->count && z->t->micro_batches == 1) {
            z->held_g += s->count;
            note_held(z);
        }
        z->units[i].missing -= end - at;
        FAST_ASSERT(z->units[i].missing >= 0);
        if (z->units[i].missing == 0)
            unit_ready(z, i);
        at = end;
    }
}

/* Is a unit in a range? */
static bool is_in(zero_range r, int64_t i)
{
    return i >= r.low && i <= r.high;
}

/* The forward pass has left these units: drop those that neither the layer that it reads nor the
 * one before needs. One step of an engine may read both. */
static void leave(zero *z, zero_range old)
{
    FAST_ASSERT(!z->backward);
    for (int64_t i = old.low; i <= old.high; i++) {
        if (is_in(z->read[0], i) || is_in(z->read[1], i))
            continue;
        if (z->layered)
            drop_weights(z, i);
        else if (z->instant)
            hold(z, i, false);
    }
}

/* The pass is about to read a layer, in both directions: its units have to be here, and the next
 * one on its way. */
static fast_err need(void *ctx, int64_t offset, int64_t count)
{
    zero *z = ctx;

    /* The backward pass waits for the sums of the layer above. */
    if (z->again)
        FAST_TRY(start_ready(z, true));
    if (count == 0 || z->c->stage < STAGE_3)
        return FAST_OK;
    const zero_range now = { unit_at(z, offset), unit_at(z, offset + count - 1) };
    const zero_range old = z->read[1];

    z->backward = z->backward || offset <= z->read_offset;
    const int64_t next = z->backward ? now.low - 1 : now.high + 1;
    for (int64_t i = now.low; i <= now.high; i++)
        FAST_TRY(start_gather(z, i));
    if (next >= 0 && next < z->count)
        FAST_TRY(start_gather(z, next));
    for (int64_t i = now.low; i <= now.high; i++)
        FAST_TRY(finish(&z->units[i].gather));
    z->read_offset = offset;
    z->read[1] = z->read[0];
    z->read[0] = now;
    if (!z->backward)
        leave(z, old);
    return FAST_OK;
}

/* Stages 1 and 2: a slice of w is updated, and everyone gets it. At most AHEAD units are on their
 * way. */
static fast_err spread_unit(zero *z, int64_t n)
{
    const int64_t i = z->order[n];

    FAST_ASSERT(z->c->stage < STAGE_3 && !z->units[i].gather);
    FAST_TRY(gather_unit(z, i, z->t->w, -1, &z->units[i].gather));
    return n >= AHEAD ? finish(&z->units[z->order[n - AHEAD]].gather) : FAST_OK;
}

/* The own slice of a unit is updated: its gradient is of no use any more. */
static fast_err unit_updated(zero *z, int64_t n)
{
    const int64_t i = z->order[n];
    const fast_slice *s = &z->slices[i];

    if (z->c->stage >= STAGE_2) {
        z->held_g -= s->own_count;
        if (z->drops)
            fast__trainer_drop(z->t->g, s->own_offset, s->own_count, 0, 0);
    }
    return z->c->stage < STAGE_3 ? spread_unit(z, n) : FAST_OK;
}

/* Wait for the sums in the order of their start, and update the own slices: one by one, or all once
 * the norms are known. Stage 1 starts them here, a few at a time. */
static fast_err update(zero *z)
{
    const bool alone = fast__trainer_slices_alone(z->t);

    while (z->ready < z->count) { /* stage 1 reports nothing */
        FAST_ASSERT(z->c->stage == STAGE_1);
        z->order[z->ready] = z->ready;
        z->ready++;
    }
    if (z->c->stage >= STAGE_2)
        FAST_TRY(start_ready(z, true));
    for (int64_t n = 0; n < z->count; n++) {
        while (z->started < z->count && z->started <= n + AHEAD)
            FAST_TRY(start_sum(z, z->order[z->started]));
        FAST_ASSERT(n < z->started);
        FAST_TRY(finish(&z->units[z->order[n]].sum));
        if (!alone)
            continue;
        fast__trainer_update_slice(z->t, &z->slices[z->order[n]], mean_of(z));
        FAST_TRY(unit_updated(z, n));
    }
    if (!alone)
        FAST_TRY(fast__trainer_update_slices(z->t, z->slices, z->count, mean_of(z)));
    for (int64_t n = 0; n < z->count && !alone; n++)
        FAST_TRY(unit_updated(z, n));
    for (int64_t n = 0; n < z->count; n++)
        FAST_TRY(finish(&z->units[n].gather));
    return fast__trainer_slices_done(z->t, mean_of(z));
}

/* A step. */
static fast_err step(zero *z)
{
    fast_trainer *t = z->t;
    const bool by_layer = z->c->stage == STAGE_3;

    FAST_ASSERT(z->err == FAST_OK);
    z->ready = z->started = z->finished = 0;
    z->backward = z->again = false;
    /* Of several micro-batches the first fills all of g. */
    if (z->c->stage == STAGE_1 || t->micro_batches > 1)
        z->held_g = t->count;
    note_held(z);
    z->read_offset = -1;
    z->read[0] = z->read[1] = (zero_range){ 0, -1 };
    for (int64_t i = 0; i < z->count; i++)
        z->units[i].missing = z->slices[i].count;
    FAST_TRY(fast__trainer_gradient_again(t, by_layer || z->layered ? need : NULL,
                                          z->c->stage >= STAGE_2 ? report : NULL, z, z->layered));
    fast_actor_at(t->actor, t->step, "gradient");
    if (z->err)
        return fast__fail(z->err, "%s", z->why);
    for (int64_t i = 0; i < z->count && by_layer; i++) {
        FAST_TRY(finish(&z->units[i].gather));
        drop_weights(z, i);
    }
    FAST_TRY(update(z));
    return fast__allreduce_state(t);
}

/* Gather a vector, of which each worker has its slices, to worker 0 or to all (root -1). */
static fast_err gather_vector(zero *z, float *x, int64_t root)
{
    fast_request *request = NULL;

    FAST_ASSERT(x != NULL && root >= -1);
    for (int64_t i = 0; i < z->count; i++) {
        FAST_TRY(gather_unit(z, i, x, root, &request));
        FAST_TRY(finish(&request));
    }
    return FAST_OK;
}

/* Between steps: worker 0 gets the parameters, for an evaluation, and the rule's state where a
 * checkpoint may be written. */
static fast_err settle(void *ctx)
{
    zero *z = ctx;
    float *slot;

    fast_actor_at(z->t->actor, z->t->step, "sharded state");
    z->settled = z->t->rank == 0;
    if (z->c->stage == STAGE_3)
        FAST_TRY(gather_vector(z, z->t->w, 0));
    for (int i = 0; fast__trainer_state_end(z->t) != FAST_STATE_OWN &&
                    (slot = fast_trainer_rule_slot(z->t, i)) != NULL;
         i++)
        FAST_TRY(gather_vector(z, slot, 0));
    fast__trainer_state_is_whole(z->t, fast__trainer_state_end(z->t) != FAST_STATE_OWN);
    return FAST_OK;
}

/* Drop what other workers own: of what was gathered between steps, and at a program's start. */
static void drop_all(zero *z)
{
    float *slot;

    FAST_ASSERT(z->slices != NULL);
    z->settled = false;
    fast__trainer_state_is_whole(z->t, false);
    for (int64_t i = 0; i < z->count; i++) {
        for (int k = 0; (slot = fast_trainer_rule_slot(z->t, k)) != NULL; k++)
            drop_others(z, i, slot);
        if (z->c->stage >= STAGE_2 && z->drops)
            fast__trainer_drop(z->t->g, z->slices[i].offset, z->slices[i].count, 0, 0);
        if (z->c->stage == STAGE_3)
            drop_others(z, i, z->t->w);
    }
}

/* The program is over at all workers alike: complete what others read. A run that was canceled may
 * be saved to a file that no option names. */
static fast_err complete(zero *z)
{
    const fast_state_end end = fast__trainer_state_end(z->t);

    FAST_ASSERT(end >= FAST_STATE_OWN && end <= FAST_STATE_ALL);
    const bool saved = end != FAST_STATE_OWN || z->t->step < z->t->step_count;
    const int64_t root = end == FAST_STATE_ALL ? -1 : 0;
    float *slot;

    fast_actor_at(z->t->actor, z->t->step, "sharded state");
    if (z->c->stage == STAGE_3)
        FAST_TRY(gather_vector(z, z->t->w, root));
    for (int i = 0; saved && (slot = fast_trainer_rule_slot(z->t, i)) != NULL; i++)
        FAST_TRY(gather_vector(z, slot, root));
    fast__trainer_state_is_whole(z->t, saved);
    return FAST_OK;
}

/* Take all memory. */
static fast_err open_zero(zero *z)
{
    fast_trainer *t = z->t;
    const bool by_layer = z->c->stage == STAGE_3;
    const int64_t size = z->c->bucket / (int64_t)sizeof(float);

    FAST_ASSERT(size >= 1);
    FAST_ASSERT(t->count >= 1);
    z->count = (t->count + size - 1) / size;
    FAST_TRY(fast__alloc("units", z->count + 1, sizeof *z->slices, &z->slices));
    FAST_TRY(fast__alloc("units", z->count + 1, sizeof *z->units, &z->units));
    FAST_TRY(fast__alloc("units", z->count + 1, sizeof *z->order, &z->order));
    FAST_TRY(fast__sliced_init(&z->gather, t->group));
    for (int64_t i = 0; i < z->count; i++) {
        fast_slice *s = &z->slices[i];

        s->offset = i * size;
        s->count = size < t->count - s->offset ? size : t->count - s->offset;
        FAST_TRY(fast__sliced_init(&z->units[i].slices, t->group));
        fast_group_range(t->group, s->count, t->rank, &s->own_offset, &s->own_count);
        s->own_offset += s->offset;
        z->own += s->own_count;
        z->units[i].whole = z->c->stage < STAGE_3;
    }
    z->drops = fast__trainer_owns_model(t);
    z->layered = z->c->stage >= STAGE_2 && fast__trainer_reads_layers(t);
    z->instant = by_layer && fast__trainer_would_read_layers(t);
    z->window = z->layered ? WINDOW : z->count;
    z->held_w = by_layer ? z->own : t->count;
    return FAST_OK;
}

/* Give all memory back. */
static void close_zero(zero *z)
{
    FAST_ASSERT(z->t != NULL);
    for (int64_t i = 0; z->units && i < z->count; i++) {
        fast_request *requests[] = { z->units[i].sum, z->units[i].gather };

        /* Only a wait frees a request; after a failure it does not wait. */
        for (int k = 0; k < 2; k++)
            if (requests[k] && fast_request_wait(&requests[k], FAST_AT_ONCE))
                continue;
        fast__sliced_fini(&z->units[i].slices);
    }
    fast__sliced_fini(&z->gather);
    fast__free(z->slices);
    fast__free(z->units);
    fast__free(z->order);
}

/* Train to the end. */
static fast_err train(zero *z)
{
    fast_trainer *t = z->t;
    float *slot;

    for (int i = 0; z->drops && (slot = fast_trainer_rule_slot(t, i)) != NULL; i++)
        fast__trainer_will_drop(slot, t->count);
    if (z->drops && z->c->stage >= STAGE_2)
        fast__trainer_will_drop(t->g, t->count);
    if (z->drops && z->c->stage == STAGE_3)
        fast__trainer_will_drop(t->w, t->count);
    drop_all(z);
    while (fast_trainer_next(t)) {
        if (z->settled)
            drop_all(z);
        FAST_TRY(step(z));
    }
    FAST_TRY(fast_trainer_end(t));
    return complete(z);
}

/* The program of a worker. One worker owns all. */
static fast_err worker(fast_trainer *t, const void *config)
{
    zero z = { .t = t, .c = config };

    FAST_ASSERT(t->group != NULL);
    FAST_TRY(fast__trainer_can_slice(t));
    FAST_TRY(fast_group_algorithm(t->group, "auto"));
    fast_err err = open_zero(&z);
    fast_trainer_settle(t, settle, &z);
    if (!err)
        err = train(&z);
    fast_trainer_settle(t, NULL, NULL);
    close_zero(&z);
    return err;
}

const fast_strategy fast__strategy_zero = {
    .name = "zero",
    .summary = "allreduce whose optimizer state, gradients and parameters are sharded (ZeRO, FSDP)",
    .options = options,
    .config_size = sizeof(zero_options),
    .synchronous = true,
    .identical = true,
    .sends = "gradients",
    .worker = worker,
};
