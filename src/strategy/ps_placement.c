/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where the model lives: on `servers` owners, each with a range, and in copies of it at owners of
 * their own.
 *
 *     write, tick   to every copy          read   from the first copy that is whole
 *
 * An owner that is down loses its copy, no more: the writers continue with the other copies, which
 * hold the same updates. A server that restarts is not used again. With slack 0 all copies sum a
 * round in the canonical order: they are equal to the bit, and a crash changes nothing.
 *
 * In a chain the copies are one space, whose owners pass updates on: a writer writes to the first
 * and reads from the last (space/space_chain.c).
 *
 * Cost: the writes once more for each copy, by the writers or by the servers.
 */
#include "space/space.h"
#include "strategy/ps_keys.h"
#include "strategy/ps_tree.h"
#include "trainer/part.h"
#include "transport/transport.h"

int64_t fast__ps_shards(const ps_config *c, int64_t workers)
{
    FAST_ASSERT(workers > 0);
    return (c->servers ? c->servers : workers) * (c->ring ? c->ring : 1);
}

int64_t fast__ps_owners(const ps_config *c, int64_t workers)
{
    FAST_ASSERT(c->replicas >= 0 && c->replicas <= PS_REPLICAS_MAX);
    return c->mirror ? 0 : fast__ps_shards(c, workers) * (1 + c->replicas);
}

int64_t fast__ps_writers(const ps_config *c, const fast_trainer *t, const int64_t **ids_out)
{
    const int64_t owners = fast__ps_owners(c, t->workers);

    FAST_ASSERT(owners + c->proxies <= t->servers);
    *ids_out = c->proxies > 0 ? t->server_ids + owners : t->worker_ids;
    return c->proxies > 0 ? c->proxies : t->workers;
}

/* Leave copy `i`, which has lost an owner. Its saved state is of no use. */
static void copy_lose(ps_copies *copies, int64_t i)
{
    FAST_ASSERT(i >= 0 && i < copies->count && copies->spaces[i]);
    (void)!fast_trainer_space_close(copies->t, copies->spaces[i]);
    copies->spaces[i] = NULL;
    while (copies->first + 1 < copies->count && !copies->spaces[copies->first])
        copies->first++;
}

/* True if no copy besides `i` is left. */
static bool copy_is_last(const ps_copies *copies, int64_t i)
{
    FAST_ASSERT(i >= 0 && i < copies->count);
    for (int64_t k = 0; k < copies->count; k++)
        if (k != i && copies->spaces[k])
            return false;
    return true;
}

bool fast__ps_copy_lose(ps_copies *copies, int64_t i, fast_err err)
{
    FAST_ASSERT(i >= 0 && i < copies->count);
    if (err != FAST_EPEER || copy_is_last(copies, i))
        return false;
    copy_lose(copies, i);
    return true;
}

fast_err fast__ps_copies_open(fast_trainer *t, const ps_config *c, const ps_layers *layers,
                              ps_copies *out)
{
    *out = (ps_copies){ .t = t, .count = c->chain ? 1 : 1 + c->replicas, .bounded = c->slack > 0 };
    FAST_ASSERT(out->count <= PS_REPLICAS_MAX + 1);
    for (int64_t i = 0; i < out->count; i++)
        FAST_TRY(fast__ps_open(t, c, i, layers, NULL, &out->tensors, &out->spaces[i]));
    return fast__ps_flow_init(t, c, t->server_ids[0], &out->flow);
}

fast_err fast__ps_copies_close(ps_copies *copies)
{
    fast_err first = FAST_OK;

    FAST_ASSERT(copies->count <= PS_REPLICAS_MAX + 1);
    for (int64_t i = 0; i < copies->count; i++) {
        const fast_err err = fast_trainer_space_close(copies->t, copies->spaces[i]);

        first = first ? first : err;
        copies->spaces[i] = NULL;
    }
    return first;
}

/* The wait that timed out told everybody, servers too, and the next read does not wait for that
 * writer. Each further writer that hangs may cost one more such read; the same one twice is an
 * error. */
bool fast__ps_missed_writer(const ps_copies *copies, fast_err err, int64_t *blamed)
{
    const int64_t culprit = copies->t->actor->culprit;
    const bool missed = err == FAST_ETIMEDOUT && copies->bounded && culprit != *blamed &&
                        culprit >= 0 && fast__trainer_is_worker(copies->t, culprit) &&
                        fast_member_is_down(copies->t->actor, culprit);

    FAST_ASSERT(copies->count > 0);
    *blamed = culprit;
    return missed;
}

fast_err fast__ps_copies_get(ps_copies *copies, int64_t tensor, float *x, fast_space_read *read)
{
    int64_t blamed = -1;

    FAST_ASSERT(tensor >= 0 && tensor < copies->tensors.count);
    for (;;) {
        const int64_t i = copies->first;
        const fast_err err = fast_space_get(copies->spaces[i], tensor, x, read, FAST_SOON);

        if (fast__ps_missed_writer(copies, err, &blamed))
            continue;

        /* An owner is down: the read is repeated at the next copy, which holds the same updates. */
        if (err != FAST_EPEER || copy_is_last(copies, i))
            return err;
        copy_lose(copies, i);
    }
}

/* Perform a write on one copy. */
static fast_err copy_write(fast_space *space, const ps_operation *op)
{
    switch (op->kind) {
    case PS_WRITE_ADD:
        return fast_space_add(space, op->tensor, op->x, FAST_SOON);
    case PS_WRITE_FACTORS:
        return fast_space_add_factors(space, op->g, op->layers->factors, op->layers->rows,
                                      FAST_SOON);
    case PS_WRITE_END:
        return fast_space_add_end(space, op->x, FAST_SOON);
    case PS_WRITE_TICK:
        break;
    }
    FAST_ASSERT(op->kind == PS_WRITE_TICK);
    return fast_space_tick(space, op->clock);
}

fast_err fast__ps_copies_write(ps_copies *copies, const ps_operation *op)
{
    FAST_ASSERT(op->x || op->g || op->kind == PS_WRITE_TICK);
    for (int64_t i = 0; i < copies->count; i++) {
        const fast_err err = copies->spaces[i] ? copy_write(copies->spaces[i], op) : FAST_OK;

        if (err && (err != FAST_EPEER || copy_is_last(copies, i)))
            return err;
        if (err)
            copy_lose(copies, i);
    }
    return FAST_OK;
}

fast_err fast__ps_copies_follow(ps_copies *copies, bool rounds, const fast_space_read *read)
{
    FAST_ASSERT(copies->first < copies->count);
    for (int64_t i = copies->first + 1; i < copies->count; i++) {
        fast_space_read there = *read;
        fast_err err = FAST_OK;

        if (!copies->spaces[i])
            continue;
        /* A read of a short tensor under the same condition waits for the round. */
        if (rounds)
            err = fast_space_get(copies->spaces[i], copies->tensors.contributions, NULL, &there,
                                 FAST_SOON);
        if (err == FAST_EPEER) {
            copy_lose(copies, i);
            continue;
        }
        FAST_TRY(err);
        fast__space_follow(copies->spaces[i], copies->spaces[copies->first], 0);
    }
    return FAST_OK;
}
