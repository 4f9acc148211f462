/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A writer of the model, which is a worker, or a proxy for its group of workers: reads, writes and
 * clocks, on every copy of the model.
 *
 * Copies. Every write and tick goes to all copies, a read to the first that is whole. An owner that
 * is down loses its copy, no more: the writers go on with the others, which hold the same updates.
 * One that comes back is not used again: there is one copy less from then on.
 * With slack 0 the rounds of all copies are summed in the canonical order: they are equal to the
 * bit, and a crash changes nothing. Cost: the writes once more for each copy.
 *
 * Value bound v (Wei et al. 2015; value-bounded asynchronous parallel, Dai et al. 2015): what this
 * writer has sent and some other has not read may move no weight by more than v / sqrt(t):
 *
 *     u += lr x;   if max |u| > v / sqrt(t):  wait until all have read what holds u;   u <- 0
 *
 * A writer's clock then is the version that it last read, and to wait is to read with a clock. It
 * reads before it waits: of all that wait, the one with the oldest read waits for nobody, hence
 * there is no deadlock.
 */
#include "base/memory.h"
#include "space/space.h"
#include "strategy/ps.h"
#include "tensor/vector.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static const int64_t WARM_NS = 100000000; /* between looks whether who goes ahead is there */

/* What is kept with slack 0, by number. */
enum { KEPT_HELD, KEPT_SUM };

/* Copy `i` has lost an owner: leave it. What is left of it is of no use to anybody. */
static void lose(ps_client *cl, int64_t i)
{
    (void)!fast_trainer_space_close(cl->t, cl->spaces[i]); /* nobody goes on from there */
    cl->spaces[i] = NULL;
    while (cl->first < cl->c->replicas && !cl->spaces[cl->first])
        cl->first++;
}

/* Is there a copy besides this one? */
static bool is_last(const ps_client *cl, int64_t i)
{
    for (int64_t k = 0; k <= cl->c->replicas; k++)
        if (k != i && cl->spaces[k])
            return false;
    return true;
}

static fast_err get(ps_client *cl, int64_t tensor, float *x, fast_space_read *read)
{
    for (;;) {
        const int64_t i = cl->first;
        const fast_err err = fast_space_get(cl->spaces[i], tensor, x, read, FAST_SOON);

        if (err != FAST_EPEER || is_last(cl, i))
            return err;
        lose(cl, i);
    }
}

static fast_err add(ps_client *cl, int64_t tensor, const float *x)
{
    for (int64_t i = 0; i <= cl->c->replicas; i++) {
        const fast_err err =
            cl->spaces[i] ? fast_space_add(cl->spaces[i], tensor, x, FAST_SOON) : FAST_OK;

        if (err && (err != FAST_EPEER || is_last(cl, i)))
            return err;
        if (err)
            lose(cl, i);
    }
    return FAST_OK;
}

/* The newest gradient, with layers that are factors. */
static fast_err add_factors(ps_client *cl)
{
    const ps_layers *l = &cl->layers;

    for (int64_t i = 0; i <= cl->c->replicas; i++) {
        const fast_err err = cl->spaces[i] ? fast_space_add_factors(cl->spaces[i], cl->g,
                                                                    l->factors, l->rows, FAST_SOON)
                                           : FAST_OK;

        if (err && (err != FAST_EPEER || is_last(cl, i)))
            return err;
        if (err)
            lose(cl, i);
    }
    return FAST_OK;
}

/* Send what is final and waits. */
static void send_piece(ps_client *cl)
{
    for (int64_t i = 0; i <= cl->c->replicas && !cl->err && cl->low < cl->high; i++)
        if (cl->spaces[i])
            cl->err = fast_space_add_piece(cl->spaces[i], cl->g, cl->low, cl->high - cl->low);
    if (cl->err)
        snprintf(cl->why, sizeof cl->why, "%s", fast_error_detail());
    cl->low = cl->high = 0;
}

void fast__ps_report(void *ctx, int64_t offset, int64_t count)
{
    ps_client *cl = ctx;
    const bool below = offset + count == cl->low, above = offset == cl->high;

    if (cl->low != cl->high && !below && !above)
        send_piece(cl);
    if (cl->low == cl->high) {
        cl->low = offset;
        cl->high = offset + count;
    } else if (below) {
        cl->low = offset;
    } else {
        cl->high = offset + count;
    }
    if (cl->high - cl->low >= PS_PIECE)
        send_piece(cl);
}

/* The newest gradient, whose pieces are on their way. */
static fast_err add_end(ps_client *cl)
{
    send_piece(cl);
    if (cl->err)
        return fast__fail(cl->err, "%s", cl->why);
    for (int64_t i = 0; i <= cl->c->replicas; i++) {
        const fast_err err =
            cl->spaces[i] ? fast_space_add_end(cl->spaces[i], cl->g, FAST_SOON) : FAST_OK;

        if (err && (err != FAST_EPEER || is_last(cl, i)))
            return err;
        if (err)
            lose(cl, i);
    }
    return FAST_OK;
}

static fast_err tick(ps_client *cl, int64_t clock)
{
    for (int64_t i = 0; i <= cl->c->replicas; i++) {
        const fast_err err = cl->spaces[i] ? fast_space_tick(cl->spaces[i], clock) : FAST_OK;

        if (err && (err != FAST_EPEER || is_last(cl, i)))
            return err;
        if (err)
            lose(cl, i);
    }
    return FAST_OK;
}

/* The other copies: what was read counts as read there. With slack 0 the round that it ended has to
 * have ended there too. */
static fast_err follow(ps_client *cl, const fast_space_read *wish)
{
    for (int64_t i = cl->first + 1; i <= cl->c->replicas; i++) {
        fast_space_read read = *wish;
        fast_err err = FAST_OK;

        if (!cl->spaces[i])
            continue;
        if (cl->c->slack == 0)
            err = fast_space_get(cl->spaces[i], cl->tensors.carried, NULL, &read, FAST_SOON);
        if (err == FAST_EPEER) {
            lose(cl, i);
            continue;
        }
        FAST_TRY(err);
        fast__space_follow(cl->spaces[i], cl->spaces[cl->first], 0);
    }
    return FAST_OK;
}

/* What a read waits for: with backup workers the next update, whoever made it, or that all who are
 * left have done their part and it was not enough; else the slowest writer, within the slack. */
static fast_space_read wish(const ps_client *cl)
{
    const ps_config *c = cl->c;

    if (c->backup > 0 && !cl->begun)
        return (fast_space_read){ .version_min = 0 };
    if (c->backup > 0)
        return (fast_space_read){ .version_min =
                                      (cl->round + 1) * fast__ps_batch(c, cl->writer_count),
                                  .clock_min = cl->round + 1,
                                  .either = true };
    if (c->slack < 0 || c->value > 0)
        return (fast_space_read){ .clock_min = 0 };
    return (fast_space_read){ .clock_min = c->global ? cl->step - cl->step % (c->slack + 1)
                                                     : cl->step - c->slack };
}

/* Begin to read the model in the order of its layers (TicTac: Hashemi et al. 2019; P3: Jayarajan et
 * al. 2019). The state comes before: it is as new, and one get is under way at a time. */
static fast_err start_reading(ps_client *cl, const fast_space_read *wanted)
{
    fast_trainer *t = cl->t;
    fast_space_read read = *wanted;

    fast_actor_at(t->actor, cl->step, "weights");
    if (cl->seen) {
        FAST_TRY(get(cl, cl->tensors.state, t->s, &read));
        memcpy(cl->seen, t->s, (size_t)t->state_count * sizeof *t->s);
    }
    FAST_TRY(fast__space_get_start(cl->spaces[0], t->w, wanted, FAST_SOON));
    cl->coming = true;
    return FAST_OK;
}

fast_err fast__ps_need(void *ctx, int64_t offset, int64_t count)
{
    const ps_client *cl = ctx;

    return fast__space_get_need(cl->spaces[0], offset, count);
}

fast_err fast__ps_arrive(ps_client *cl)
{
    fast_space_read read;

    if (!cl->coming)
        return FAST_OK;
    cl->coming = false;
    FAST_TRY(fast__space_get_end(cl->spaces[0], &read));
    cl->version = read.version;
    cl->round = read.version / fast__ps_batch(cl->c, cl->writer_count);
    if (cl->base)
        memcpy(cl->base, cl->t->w, (size_t)cl->t->count * sizeof *cl->base);
    return FAST_OK;
}

static fast_err read_model(ps_client *cl, const fast_space_read *wanted)
{
    fast_trainer *t = cl->t;
    fast_space_read read = *wanted;

    fast_actor_at(t->actor, cl->step, "weights");
    if (cl->got)
        read.version = cl->version;
    else
        FAST_TRY(get(cl, 0, t->w, &read));
    cl->got = false;
    FAST_TRY(follow(cl, wanted));
    cl->version = read.version;
    cl->over = wanted->either && read.version < wanted->version_min;
    cl->round = read.version / fast__ps_batch(cl->c, cl->writer_count);
    if (cl->base)
        memcpy(cl->base, t->w, (size_t)t->count * sizeof *t->w);
    if (cl->c->value > 0)
        FAST_TRY(tick(cl, cl->version));
    if (!cl->seen)
        return FAST_OK;
    FAST_TRY(get(cl, cl->tensors.state, t->s, NULL));
    memcpy(cl->seen, t->s, (size_t)t->state_count * sizeof *t->s);
    return FAST_OK;
}

/* Reads of rounds. */
static fast_err read_round(ps_client *cl, const fast_space_read *wanted, bool last)
{
    FAST_TRY(cl->c->priority && !last ? start_reading(cl, wanted) : read_model(cl, wanted));
    if (cl->held)
        *cl->held = cl->step + 1;
    return FAST_OK;
}

fast_err fast__ps_begin(ps_client *cl)
{
    const fast_trainer *t = cl->t;

    FAST_ASSERT(cl->held != NULL);
    if (*cl->held != t->step + 1)
        return fast__ps_fetch(cl, false);
    if (cl->seen)
        memcpy(cl->seen, t->s, (size_t)t->state_count * sizeof *t->s);
    return FAST_OK;
}

fast_err fast__ps_fetch(ps_client *cl, bool last)
{
    fast_space_read wanted = wish(cl);

    wanted.whole = last;
    cl->got = cl->got && !last;
    if (cl->over && !last) /* somebody has to come back */
        wanted = (fast_space_read){ .version_min = wanted.version_min };
    return read_round(cl, &wanted, last);
}

/* Should the first worker go away, the others begin without it; one that comes back finds what was
 * learned. */
fast_err fast__ps_warm(ps_client *cl)
{
    fast_trainer *t = cl->t;
    const double wanted = cl->c->warm * (double)t->epoch_steps, most = (double)t->step_count;
    const int64_t steps = (int64_t)(wanted < most ? wanted : most);
    fast_err err = t->rank > 0 && t->step == 0 && steps > 0 ? FAST_ETIMEDOUT : FAST_OK;

    fast_actor_at(t->actor, t->step, "the first steps of worker 0");
    while (err == FAST_ETIMEDOUT && !fast_member_is_down(t->actor, t->worker_ids[0])) {
        fast_space_read read = { .version_min = steps / cl->c->push };

        err = fast_space_get(cl->spaces[cl->first], 0, t->w, &read, fast_now(t->actor) + WARM_NS);
    }
    /* A server that is down is met again by the next read, which knows of copies. */
    return err == FAST_ETIMEDOUT || err == FAST_EPEER ? FAST_OK : err;
}

void fast__ps_learned(ps_client *cl)
{
    if (cl->sum)
        fast__vector_add(cl->t->count, cl->g, cl->sum);
}

/* What was learned since the last read, in place of it: the difference, or its mean by step. */
static const float *difference(const ps_client *cl, int64_t steps)
{
    const float scale = cl->c->send == PS_SEND_MEAN ? 1.0f / (float)steps : 1.0f;

    for (int64_t i = 0; i < cl->t->count; i++)
        cl->base[i] = scale * (cl->t->w[i] - cl->base[i]);
    return cl->base;
}

/* Of the gradients that wait, those that matter to their weights and fit the budget, or all at the
 * end. The rate stands for the rule: momentum and the like are the server's. */
static const float *significant(const ps_client *cl)
{
    const ps_config *c = cl->c;
    const bool last = cl->step >= cl->t->step_count;
    const int64_t entry = sizeof(uint32_t) + sizeof(float);
    fast_rng rng;
    const ps_selection how = {
        .lr = (float)fast_trainer_lr(cl->t, cl->step - 1),
        .bound = last ? 0 : (float)(c->filter / sqrt((double)cl->step)),
        .l1 = c->kkt ? (float)c->l1 : 0,
        .skip = last ? 0 : (float)c->skip,
        .rng = &rng,
        .most = last || c->budget == 0 ? INT64_MAX : c->budget / entry,
    };

    fast__rng_init(&rng, cl->seed, FAST_PURPOSE_EXCHANGE, (uint64_t)cl->t->rank,
                   (uint64_t)cl->step & UINT32_MAX, 0);
    fast__ps_select(cl->t->count, cl->t->w, &how, cl->sum, cl->part);
    return cl->part;
}

/* The selective barrier (Gaia: Hsieh et al. 2017): a write that is long on its way is announced, so
 * that no other reads the ranges that it changes before it has come. */
static fast_err announce(ps_client *cl, const float *x)
{
    const int64_t count = cl->t->count, bytes = (int64_t)sizeof *x * count;
    const int64_t packed = 2 * (int64_t)sizeof *x * fast__space_entries(x, count);

    if ((packed < bytes ? packed : bytes) <= cl->c->barrier)
        return FAST_OK;
    for (int64_t i = 0; i <= cl->c->replicas; i++) {
        const fast_err err = cl->spaces[i] ? fast__space_announce(cl->spaces[i], x) : FAST_OK;

        if (err && (err != FAST_EPEER || is_last(cl, i)))
            return err;
        if (err)
            lose(cl, i);
    }
    return FAST_OK;
}

/* Wait until what this writer has sent moves no weight of any other by more than the bound. */
static fast_err hold_value(ps_client *cl, const float *x)
{
    const double bound = cl->c->value / sqrt((double)cl->step);
    const fast_space_read now = { .version_min = 0 };
    fast_space_read seen = now;

    fast__vector_axpy(cl->t->count, (float)fast_trainer_lr(cl->t, cl->step - 1), x, cl->unseen);
    if ((double)fast__vector_max_abs(cl->t->count, cl->unseen) <= bound)
        return FAST_OK;
    FAST_TRY(read_model(cl, &now));
    seen.clock_min = cl->version;
    FAST_TRY(read_model(cl, &seen));
    memset(cl->unseen, 0, (size_t)cl->t->count * sizeof *cl->unseen);
    return FAST_OK;
}

/* May the model be read as it is when it is written, and is it read next? */
static bool joins(const ps_client *cl)
{
    return cl->near && cl->t->step % cl->c->fetch == 0 && cl->t->step < cl->t->step_count;
}

fast_err fast__ps_push(ps_client *cl)
{
    fast_trainer *t = cl->t;
    const float *x = cl->base   ? difference(cl, cl->step - cl->pushed)
                     : cl->part ? significant(cl)
                     : cl->sum  ? cl->sum
                                : cl->g;

    fast_actor_at(t->actor, cl->step, cl->base ? "difference" : "gradient");
    if (cl->c->barrier > 0)
        FAST_TRY(announce(cl, x));
    if (cl->layers.count > 0)
        fast__ps_layers_take(t, &cl->layers);
    cl->got = joins(cl);
    FAST_TRY(cl->got ? fast__space_add_get(cl->spaces[0], x, t->w, &cl->version, FAST_SOON)
             : cl->layers.count > 0 ? add_factors(cl)
             : cl->pieces           ? add_end(cl)
                                    : add(cl, 0, x));
    cl->pushed = cl->step;
    cl->begun = true;
    if (cl->seen) { /* of the state, each writer's change counts 1/P */
        for (int64_t i = 0; i < t->state_count; i++)
            cl->seen[i] = (t->s[i] - cl->seen[i]) / (float)cl->writer_count;
        FAST_TRY(add(cl, cl->tensors.state, cl->seen));
        memcpy(cl->seen, t->s, (size_t)t->state_count * sizeof *t->s);
    }
    if (cl->unseen)
        FAST_TRY(hold_value(cl, x));
    if (cl->sum && !cl->part)
        memset(cl->sum, 0, (size_t)t->count * sizeof *cl->sum);
    return FAST_OK;
}

fast_err fast__ps_tick(ps_client *cl)
{
    if (cl->c->value > 0)
        return FAST_OK;
    /* With backup workers: it adds no more to the round that it read, late or not. */
    return tick(cl, cl->c->backup > 0 ? cl->round + 1 : cl->step);
}

fast_err fast__ps_ask_carried(ps_client *cl, float *counts)
{
    memset(counts, 0, (size_t)cl->writer_count * sizeof *counts);
    FAST_TRY(add(cl, cl->tensors.carried, counts)); /* the owner fills it in */
    return get(cl, cl->tensors.carried, counts, NULL);
}

fast_err fast__ps_carry(ps_client *cl)
{
    const double *held = fast_trainer_carried(cl->t);
    float *counts;
    fast_err err;

    FAST_TRY(fast__alloc("what is carried", cl->writer_count, sizeof *counts, &counts));
    err = fast__ps_ask_carried(cl, counts);
    for (int64_t i = 0; !err && held && i < cl->writer_count; i++)
        fast_trainer_carry(cl->t, i, (double)counts[i] - held[i]);
    fast__free(counts);
    return err;
}

fast_err fast__ps_skip(ps_client *cl)
{
    fast_trainer *t = cl->t;
    const int64_t epoch = t->step / t->epoch_steps, next = (epoch + 1) * t->epoch_steps;

    if (!cl->ends || t->step % t->epoch_steps == 0)
        return FAST_OK;
    FAST_TRY(get(cl, cl->tensors.epochs, cl->ends, NULL));
    if ((double)cl->ends[epoch] < cl->c->epochs * (double)t->workers)
        return FAST_OK;
    if (cl->sum && cl->pushed < cl->step)
        FAST_TRY(fast__ps_push(cl));
    t->step = next < t->step_count ? next : t->step_count;
    cl->step = cl->pushed = t->step;
    return fast__ps_tick(cl);
}

fast_err fast__ps_epoch(ps_client *cl)
{
    const int64_t length = cl->t->epoch_steps;

    if (!cl->ends || cl->t->step % length != 0)
        return FAST_OK;
    memset(cl->ends, 0, (size_t)cl->tensors.epochs_len * sizeof *cl->ends);
    cl->ends[cl->t->step / length - 1] = 1;
    return add(cl, cl->tensors.epochs, cl->ends);
}

/* Memory that lasts; *out is a pointer of any kind. */
static fast_err keep(fast_trainer *t, int64_t number, size_t size, void *out)
{
    void *memory = NULL;

    FAST_TRY(fast_trainer_keep(t, number, size, &memory));
    memcpy(out, &memory, sizeof memory);
    return FAST_OK;
}

/* The vectors that the options need. */
static fast_err client_init(ps_client *cl)
{
    const ps_config *c = cl->c;
    const int64_t count = cl->t->count;
    const bool parts = fast__ps_filters(c);

    if (c->send != PS_SEND_GRADIENTS)
        FAST_TRY(fast__alloc("the weights read", count, sizeof *cl->base, &cl->base));
    else if (parts && c->slack == 0)
        FAST_TRY(keep(cl->t, KEPT_SUM, (size_t)count * sizeof *cl->sum, &cl->sum));
    else if (c->push > 1 || parts)
        FAST_TRY(fast__alloc("gradients to push", count, sizeof *cl->sum, &cl->sum));
    if (c->slack == 0)
        FAST_TRY(keep(cl->t, KEPT_HELD, sizeof *cl->held, &cl->held));
    if (parts)
        FAST_TRY(fast__alloc("significant gradients", count, sizeof *cl->part, &cl->part));
    if (c->skip > 0)
        cl->seed = fast_random(cl->t->actor);
    if (c->value > 0)
        FAST_TRY(fast__alloc("unseen updates", count, sizeof *cl->unseen, &cl->unseen));
    if (cl->t->state_count > 0)
        FAST_TRY(fast__alloc("the state read", cl->t->state_count, sizeof *cl->seen, &cl->seen));
    FAST_TRY(fast__ps_layers_new(cl->t, c, &cl->layers));
    cl->pieces = fast__ps_pieces(c, &cl->layers);
    for (int64_t i = 0; i <= c->replicas; i++)
        FAST_TRY(fast__ps_open(cl->t, c, i, &cl->layers, NULL, &cl->tensors, &cl->spaces[i]));
    cl->near = c->slack < 0 && c->value == 0 && c->replicas == 0 && c->proxies == 0 &&
               c->epochs == 1 && !c->priority && !cl->pieces && cl->layers.count == 0 &&
               fast__space_is_at_hand(cl->spaces[0]);
    if (c->epochs < 1)
        FAST_TRY(
            fast__alloc("ends of epochs", cl->tensors.epochs_len, sizeof *cl->ends, &cl->ends));
    return FAST_OK;
}

fast_err fast__ps_client_open(fast_trainer *t, const ps_config *c, float *g, ps_client *out)
{
    const int64_t *ids;
    fast_err err;

    *out = (ps_client){ .t = t, .c = c, .g = g, .step = t->step, .pushed = t->step };
    out->writer_count = fast__ps_writers(c, t, &ids);
    err = client_init(out);
    if (!err && t->step > 0 && c->backup == 0) /* a run that goes on: its clocks do too */
        err = fast__ps_tick(out);
    if (err)
        (void)!fast__ps_client_close(out); /* what is left is of no use */
    return err;
}

fast_err fast__ps_client_close(ps_client *cl)
{
    fast_err last = FAST_OK;

    for (int64_t i = 0; i <= PS_REPLICAS_MAX && cl->t; i++) {
        const fast_err err = fast_trainer_space_close(cl->t, cl->spaces[i]);

        last = last ? last : err;
        cl->spaces[i] = NULL;
    }
    for (int64_t i = 0; i < cl->layers.count; i++) {
        const fast_err err = fast_trainer_factor(cl->t, cl->layers.numbers[i], false);
        FAST_ASSERT(!err || !cl->layers.factors[i]);
    }
    fast__ps_layers_free(&cl->layers);
    if (cl->t && cl->c->slack != 0)
        fast__free(cl->sum);
    fast__free(cl->part);
    fast__free(cl->base);
    fast__free(cl->unseen);
    fast__free(cl->ends);
    fast__free(cl->seen);
    cl->sum = cl->part = cl->base = cl->unseen = cl->ends = cl->seen = NULL;
    return last;
}
