/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The spaces of a strategy, and what is left of them: where replicas, servers' ranges and what
 * codecs owe last from one call to the next, and in checkpoints (owed.c), a space that is closed
 * leaves its records at the seat, and the one that takes its place begins with them.
 *
 *   opened     by name, of which a number is made
 *   begins     owners with the values that they had; codecs with what they owed and held
 *   closed     its records are made once more, if the strategy can be resumed
 *
 * Memory: a copy of what the records hold, while no space is open, or a checkpoint is made.
 */
#include "base/hash.h"
#include "base/memory.h"
#include "run/team.h"
#include "space/space_checkpoint.h"

#include <string.h>

/* The entry of a number, made if there is none. */
static fast_err find(fast_seat *seat, int64_t number, fast_left **out)
{
    fast_left **at = &seat->spaces;

    while (*at && (*at)->number != number)
        at = &(*at)->next;
    if (!*at) {
        FAST_TRY(fast__alloc("spaces of a strategy", 1, sizeof **at, at));
        (*at)->number = number;
    }
    *out = *at;
    return FAST_OK;
}

fast_err fast__spaces_leave(fast_seat *seat, int64_t number, const void *bytes, size_t size)
{
    fast_left *left = NULL;

    FAST_TRY(find(seat, number, &left));
    FAST_TRY(fast__blob_reserve(&left->blob, size));
    if (size > 0)
        memcpy(left->blob.bytes, bytes, size);
    return FAST_OK;
}

void fast__spaces_drop(fast_seat *seat)
{
    while (seat->spaces) {
        fast_left *left = seat->spaces;

        seat->spaces = left->next;
        fast__free(left->blob.bytes);
        fast__free(left);
    }
}

void fast__spaces_pack(const fast_seat *seat, fast_pack *pack, int64_t kind)
{
    for (const fast_left *left = seat->spaces; left; left = left->next) {
        fast_pack inner = { 0 };

        if (!left->space) {
            fast__pack_put(pack, kind, left->number, left->blob.bytes, left->blob.size);
            continue;
        }
        fast__space_save(left->space, &inner);
        inner = (fast_pack){ .out = fast__pack_add(pack, kind, left->number, inner.size) };
        if (inner.out)
            fast__space_save(left->space, &inner);
    }
}

/* An owner's values are there before anybody reads them. */
static fast_err begin_values(fast_seat *seat, const fast_left *left, const fast_space_options *o)
{
    fast_trainer *t = &seat->trainer;

    for (int64_t i = 0; i < o->tensor_count && !seat->learner; i++) {
        float *x = o->tensors[i].initial == t->w   ? t->w
                   : o->tensors[i].initial == t->s ? t->s
                                                   : NULL;

        if (x && o->tensors[i].count > 0)
            FAST_TRY(fast__space_values_load(left->blob.bytes, left->blob.size, i,
                                             o->tensors[i].count, x));
    }
    return FAST_OK;
}

/* A space that is opened, and its place. */
typedef struct place {
    fast_seat *seat; /* whose */
    fast_left *left; /* its entry */
} place;

/* Others find a space whole and in its place: at a checkpoint another thread packs an owner's,
 * which serves from the moment that it is open. */
static fast_err begin_space(void *ctx, fast_space *space)
{
    const place *p = ctx;
    const fast_blob *blob = &p->left->blob;
    const int64_t me = fast_actor_id(p->seat->trainer.actor);

    FAST_TRY(fast__space_load(space, me, blob->bytes, blob->size));
    FAST_TRY(fast__owed_others(p->seat, p->left->number, space));
    p->left->space = space;
    return FAST_OK;
}

fast_err fast_trainer_space(fast_trainer *t, const fast_space_options *options, fast_space **out)
{
    fast_seat *seat = t->run;
    place p = { .seat = seat };
    fast_err err;

    FAST_ASSERT(options->tensors[0].count == t->count);
    FAST_TRY(find(seat, (int64_t)fast__hash(options->name, strlen(options->name), 0), &p.left));
    FAST_TRY(begin_values(seat, p.left, options));
    err = fast__codec_space_open(t, options, begin_space, &p, out);
    if (err)
        p.left->space = NULL;
    return err;
}

fast_err fast_trainer_space_close(fast_trainer *t, fast_space *space)
{
    fast_seat *seat = t->run;
    fast_err err = FAST_OK;

    for (fast_left *left = seat->spaces; left && space; left = left->next) {
        fast_pack pack = { 0 };

        if (left->space != space)
            continue;
        left->space = NULL;
        left->blob.size = 0;
        if (!seat->team->strategy->resumes)
            continue;
        fast__space_save(space, &pack);
        err = fast__blob_reserve(&left->blob, pack.size);
        pack = (fast_pack){ .out = left->blob.bytes };
        if (!err)
            fast__space_save(space, &pack);
    }
    fast_space_close(space);
    return err;
}
