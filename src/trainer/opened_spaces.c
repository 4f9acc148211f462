/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The spaces of a strategy, and their state while they are closed: where replicas, servers' ranges
 * and residuals of codecs last from one call to the next, and in checkpoints, a space that is
 * closed leaves its records in the context, and the next one of its name starts with them.
 *
 *   opened   by name, whose hash is the id. Owners start with the values, codecs with the residuals
 *            and copies, of the records
 *   closed   its records are made anew, if the strategy can be resumed
 *
 * Memory: a copy of the records, while no space is open, or a checkpoint is made.
 */
#include "base/hash.h"
#include "base/memory.h"
#include "space/space_checkpoint.h"
#include "space/space_state.h"
#include "tensor/vector.h"
#include "trainer/context.h"
#include "trainer/in_place.h"
#include "trainer/part.h"

#include <stdio.h>
#include <string.h>

/* A space of a strategy, or its state. */
typedef struct fast_opened_space {
    struct fast_opened_space *next; /* of the same actor; NULL: the last */
    int64_t id;                     /* hash of its name */
    fast_space *space;              /* while it is open; else NULL */
    fast_saved saved;               /* its records when it was last closed */
    fast_context *context;          /* of the actor that opened it */
    fast_space_fn *apply;           /* the strategy's function at the owner; NULL: w += x */
    void *ctx;                      /* argument of apply */
    bool copy;                      /* it repeats the updates of another space */
    bool chain;                     /* it has copies, of which the first one counts */
    int64_t aggregate;              /* adds that make one update of the model, at least 1 */
} fast_opened_space;

/* Find the entry of an id, or add it. */
static fast_err find(fast_context *c, int64_t id, fast_opened_space **out)
{
    fast_opened_space **at = &c->spaces;

    FAST_ASSERT(out != NULL);
    while (*at && (*at)->id != id)
        at = &(*at)->next;
    if (!*at) {
        FAST_TRY(fast__alloc("spaces of a strategy", 1, sizeof **at, at));
        (*at)->id = id;
    }
    *out = *at;
    return FAST_OK;
}

fast_err fast__context_load_space(fast_context *context, int64_t id, const void *bytes, size_t size)
{
    fast_opened_space *entry = NULL;

    FAST_ASSERT(bytes != NULL || size == 0);
    FAST_TRY(find(context, id, &entry));
    FAST_TRY(fast__saved_reserve(&entry->saved, size));
    if (size > 0)
        memcpy(entry->saved.bytes, bytes, size);
    return FAST_OK;
}

void fast__context_forget_spaces(fast_context *context)
{
    while (context->spaces) {
        fast_opened_space *entry = context->spaces;

        context->spaces = entry->next;
        fast__free(entry->saved.bytes);
        fast__free(entry);
    }
}

void fast__context_close_spaces(fast_context *context)
{
    for (fast_opened_space *entry = context->spaces; entry; entry = entry->next)
        entry->space = NULL;
}

void fast__context_pack_spaces(const fast_context *context, bool clocks, fast_pack *pack,
                               int64_t kind)
{
    FAST_ASSERT(pack != NULL);
    for (const fast_opened_space *entry = context->spaces; entry; entry = entry->next) {
        fast_pack inner = { 0 };

        if (!entry->space) {
            fast__pack_put(pack, kind, entry->id, entry->saved.bytes, entry->saved.size);
            continue;
        }
        fast__space_save(entry->space, clocks, &inner);
        inner = (fast_pack){ .out = fast__pack_add(pack, kind, entry->id, inner.size) };
        if (inner.out)
            fast__space_save(entry->space, clocks, &inner);
    }
}

/* An owner's values are there before anybody reads them. */
static fast_err load_values(fast_context *c, const fast_saved *saved, const fast_space_options *o)
{
    fast_trainer *t = &c->trainer;

    FAST_ASSERT(saved != NULL && o != NULL);
    for (int64_t i = 0; i < o->tensor_count && !c->learner; i++) {
        float *x = o->tensors[i].initial == t->w   ? t->w
                   : o->tensors[i].initial == t->s ? t->s
                                                   : NULL;

        if (x && o->tensors[i].count > 0)
            FAST_TRY(fast__space_values_load(saved->bytes, saved->size, i, o->tensors[i].count, x));
    }
    return FAST_OK;
}

/* A space that is being opened. */
typedef struct opening {
    fast_context *context;    /* of the actor that opens it */
    fast_opened_space *entry; /* in the context's list */
    bool plain;               /* without codecs */
} opening;

/* An update at the owner. Its staleness is counted in updates of the model, if it is accepted. On
 * shared memory it runs in the writer's thread. */
static bool apply_counted(void *ctx, const fast_space_update *u, float *w)
{
    const fast_opened_space *entry = ctx;
    const int64_t n = entry->aggregate;

    FAST_ASSERT(u != NULL && w != NULL);
    FAST_ASSERT(n > 0);
    if (!entry->apply)
        fast__vector_add(u->count, u->x, w);
    else if (!entry->apply(entry->ctx, u, w))
        return false;
    if (entry->copy || (entry->chain && !fast__space_leads(entry->space)))
        return true;
    if (u->tensor == 0 && !entry->context->options.phase.synchronous)
        fast__context_stale(entry->context, u->version / n - u->read / n);
    return true;
}

/* The start of a visit by another actor: count it as apply_counted() counts an update. */
static void begin_counted(void *ctx, void *owner, const fast_space_update *u)
{
    const fast_space_visitor *visitor = ctx;
    const fast_opened_space *entry = owner;

    FAST_ASSERT(entry->aggregate == 1 && !entry->copy && !entry->chain);
    fast__context_stale(entry->context, u->version - u->read);
    if (visitor->begin)
        visitor->begin(visitor->ctx, entry->ctx, u);
}

static void visit_counted(void *ctx, int64_t offset, int64_t count, float *values)
{
    const fast_space_visitor *visitor = ctx;

    FAST_ASSERT(count > 0);
    visitor->piece(visitor->ctx, offset, count, values);
}

static void after_counted(void *ctx, int64_t offset, int64_t count)
{
    const fast_space_visitor *visitor = ctx;

    FAST_ASSERT(count > 0);
    visitor->after(visitor->ctx, offset, count);
}

fast_err fast__trainer_visit(fast_space *space, const float *x, const fast_space_visitor *visitor,
                             int64_t *version_out, int64_t deadline)
{
    fast_space_visitor inner = *visitor;
    const fast_space_visitor counted = { .begin = begin_counted,
                                         .piece = visit_counted,
                                         .after = visitor->after ? after_counted : NULL,
                                         .ctx = &inner,
                                         .reads = visitor->reads };

    FAST_ASSERT(visitor->piece != NULL);
    return fast__space_visit(space, x, &counted, version_out, deadline);
}

/* The state of the strategy's function at an owner: that of its program. */
static size_t save_function(void *ctx, void *out)
{
    const fast_opened_space *entry = ctx;
    fast_pack pack = { .out = out };

    FAST_ASSERT(entry->context != NULL);
    fast__context_save_program(entry->context, &pack);
    return pack.size;
}

/* The state of the program at another copy's owner. */
static fast_err load_function(void *ctx, const void *bytes, size_t size)
{
    const fast_opened_space *entry = ctx;

    FAST_ASSERT(entry->context != NULL);
    return fast__context_load_program(entry->context, bytes, size);
}

/* Other actors find a space whole and in its place: at a checkpoint another thread packs an
 * owner's, which serves from the moment that it is open. */
static fast_err load_space(void *ctx, fast_space *space)
{
    const opening *o = ctx;
    const fast_saved *saved = &o->entry->saved;
    const fast_context_options *options = &o->context->options;

    FAST_ASSERT(space != NULL);
    FAST_ASSERT(o->entry != NULL);
    FAST_TRY(fast__space_load(space, fast_actor_id(o->context->trainer.actor), saved->bytes,
                              saved->size));
    FAST_TRY(options->host->restore(options->host_ctx, o->entry->id, space));
    o->entry->space = space;
    return FAST_OK;
}

/* The layers, and the gaps between them, as matrices one after the other. */
static fast_err list_matrices(const fast_layout *layout, fast_matrix **out, int64_t *count_out)
{
    int64_t at = 0, count = 0;

    FAST_ASSERT(layout != NULL);
    FAST_TRY(fast__alloc("layers", 2 * layout->segment_count + 1, sizeof **out, out));
    for (int64_t i = 0; i < layout->segment_count; i++) {
        const fast_segment *s = &layout->segments[i];
        const int64_t rows = s->rank > 1 && s->shape[0] > 0 ? s->shape[0] : 1;

        if (s->offset > at)
            (*out)[count++] = (fast_matrix){ 1, s->offset - at };
        if (s->count > 0)
            (*out)[count++] = (fast_matrix){ rows, s->count / rows };
        at = s->offset + s->count;
    }
    if (layout->count > at)
        (*out)[count++] = (fast_matrix){ 1, layout->count - at };
    *count_out = count;
    return FAST_OK;
}

/* Open it, through the codecs of the phase unless its values are sent as they are. */
static fast_err open_encoded(opening *o, const fast_space_options *options, fast_space **out)
{
    fast_context *c = o->context;
    const fast_codec_pair *pair = &c->codecs.pair;
    const fast_space_chains chains = {
        { [FAST_SPACE_UP] = pair->up, [FAST_SPACE_DOWN] = pair->down }, fast__context_look, c
    };
    fast_space_options encoded = *options;
    fast_matrix *matrices = NULL;
    fast_err err;

    FAST_ASSERT(o->entry != NULL);
    FAST_ASSERT(out != NULL);
    if (o->plain || !fast__codec_pair_encodes(pair))
        return fast__space_open(c->trainer.actor, options, NULL, load_space, o, out);
    FAST_TRY(list_matrices(fast__context_layout(c), &matrices, &encoded.matrix_count));
    encoded.matrices = matrices;
    encoded.feedback = pair->feedback;
    encoded.codec_scope = pair->scope;
    encoded.codec_small = pair->small;
    encoded.epoch_rounds = c->trainer.epoch_steps;
    err = fast__space_open(c->trainer.actor, &encoded, &chains, load_space, o, out);
    if (!err)
        fast__space_figures(*out, &c->codecs.figures);
    fast__free(matrices);
    return err;
}

/* The name of a space: where the model is split each part has its own, which actors of one process
 * must not take for another's. */
static void name_space_of_part(const fast_trainer *t, const char *name,
                               char out[FAST_SPACE_NAME_MAX])
{
    const int64_t part = fast__trainer_part(t);

    FAST_ASSERT(part >= 0);
    FAST_ASSERT(name != NULL);
    snprintf(out, FAST_SPACE_NAME_MAX, "part %lld: %s", (long long)part, name);
}

/* Open a space whose updates are counted, `plain` or through the codecs. */
static fast_err open_counted(fast_trainer *t, bool plain, const fast_space_options *options,
                             fast_space **out)
{
    fast_context *c = fast__context_of(t);
    const fast_chain *up = c->codecs.pair.up;
    opening o = { .context = c, .plain = plain };
    fast_space_options counted = *options;
    char name[FAST_SPACE_NAME_MAX];
    fast_err err;

    FAST_ASSERT(options->name != NULL);
    FAST_ASSERT(out != NULL);
    FAST_ASSERT(options->tensors[0].count == t->count || plain ||
                !fast__codec_pair_encodes(&c->codecs.pair));
    FAST_ASSERT(options->aggregate >= 0);
    if (fast__trainer_part(t) > 0) {
        name_space_of_part(t, options->name, name);
        counted.name = name;
    }
    FAST_TRY(find(c, (int64_t)fast__hash(counted.name, strlen(counted.name), 0), &o.entry));
    FAST_TRY(load_values(c, &o.entry->saved, options));
    o.entry->context = c;
    o.entry->apply = options->apply;
    o.entry->ctx = options->ctx;
    o.entry->copy = options->replica;
    o.entry->chain = options->copy_count > 0;
    o.entry->aggregate = options->aggregate > 0 ? options->aggregate : 1;
    /* The space calls apply_counted(), which calls the strategy's own function. */
    counted.apply = apply_counted;
    counted.ctx = o.entry;
    counted.save = save_function;
    counted.load = load_function;
    if (options->cache_indices && !(up && fast__chain_selects_exactly(up)))
        fast_trainer_note(t, "no indices are cached: give a codec that only selects, like kkt");
    err = open_encoded(&o, &counted, out);
    if (err)
        o.entry->space = NULL;
    return err;
}

fast_err fast_trainer_space(fast_trainer *t, const fast_space_options *options, fast_space **out)
{
    FAST_ASSERT(t->actor != NULL);
    return open_counted(t, false, options, out);
}

fast_err fast__trainer_space_plain(fast_trainer *t, const fast_space_options *options,
                                   fast_space **out)
{
    FAST_ASSERT(t->actor != NULL);
    return open_counted(t, true, options, out);
}

/* Make the records of a space that is about to be closed. */
static fast_err save_space(const fast_space *space, fast_saved *saved)
{
    fast_pack pack = { 0 };

    FAST_ASSERT(space != NULL && saved != NULL);
    fast__space_save(space, false, &pack);
    FAST_TRY(fast__saved_reserve(saved, pack.size));
    pack = (fast_pack){ .out = saved->bytes };
    fast__space_save(space, false, &pack);
    return FAST_OK;
}

fast_err fast_trainer_space_close(fast_trainer *t, fast_space *space)
{
    fast_context *c = fast__context_of(t);
    fast_err err = FAST_OK;

    FAST_ASSERT(t->actor != NULL);
    for (fast_opened_space *entry = c->spaces; entry && space; entry = entry->next) {
        if (entry->space != space)
            continue;
        entry->space = NULL;
        /* A space that is opened again under this name must not load an older state. */
        entry->saved.size = 0;
        if (c->options.phase.resumes)
            err = save_space(space, &entry->saved);
    }
    fast_space_close(space);
    return err;
}
