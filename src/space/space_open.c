/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Opening, serving and closing a space. Opening does not wait: an owner fills its store; any other
 * actor sends HELLO to remote owners and learns with its first operation whether an owner is there.
 * A name is used once in a run by each life of an actor.
 *
 * Closing is orderly: updates that were sent are applied, and an owner stays until all other actors
 * have left, as they may still read its ranges. All actors send LEAVE before they wait, so that
 * actors that are owners and writers at once do not wait for each other in a ring.
 *
 *     owner           open: fill the store, state = OPEN     close: serve until all have left,
 *                                                                   state = CLOSED, free
 *     local actor     open: enter the slot of each store     close: mark the slot as left
 *     remote actor    open: send HELLO to each owner         close: send LEAVE, wait for LEFT
 *
 * An owner that may not wait any longer, because its time is up or it was stopped, closes all the
 * same. It first waits for the update that is being applied (fast__space_store_shut()), so that its
 * function is not called afterwards. Other actors then get FAST_EPEER.
 *
 * Memory: an owner's store (space_store.c), and 16 bytes for each owner and tensor at every actor.
 * Everything but lists of sparse places is allocated at open.
 */
#include "space/space_chain.h"
#include "space/space_checkpoint.h"
#include "space/space_form.h"
#include "space/space_order.h"
#include "space/space_store.h"

#include "base/hash.h"
#include "base/memory.h"
#include "transport/peers.h"

#include <string.h>

/* Marks of an actor while a space is opened. */
enum {
    IS_OWNER = 1, /* it has ranges */
    IS_WRITER = 2 /* its clock counts */
};

/* The task of an open space: handle messages that have arrived; never blocks. */
static fast_err advance(fast_actor *actor, fast_task *task, bool *done)
{
    fast_space *space = (fast_space *)task;
    (void)actor;
    (void)done;
    FAST_ASSERT(space->actor == actor);
    if (space->map.remote_count > 0)
        FAST_TRY(fast__remote_advance(space));
    if (space->owned.service)
        FAST_TRY(fast__service_advance(space));
    if (space->reader.watched)
        fast__space_told(space);
    return FAST_OK;
}

/* Return the actor that a waiting `origin` is held back by; -1 if this space does not hold it. */
static int64_t explain(fast_actor *actor, fast_task *task, int64_t origin)
{
    fast_space *space = (fast_space *)task;
    FAST_ASSERT(space->actor == actor);
    return space->owned.service ? fast__service_explain(space, origin) : -1;
}

/* Two open spaces of one actor must differ in their tags, not only in their names. */
static fast_err check_name(fast_actor *actor, const char *name, uint64_t key)
{
    FAST_ASSERT(name);
    for (const fast_task *task = actor->tasks; task; task = task->next) {
        const fast_space *other = (const fast_space *)task;
        if (task->advance != advance || other->key != key)
            continue;
        if (strcmp(other->name, name) == 0)
            return fast__fail(FAST_EINVAL, "space \"%s\" is open already", name);
        return fast__fail(FAST_EINVAL,
                          "the names \"%s\" and \"%s\" collide: call the space otherwise", name,
                          other->name);
    }
    return FAST_OK;
}

/* Set `bit` in `marks` for a list of actors. FAST_EINVAL if one is unknown or named twice. */
static fast_err mark(const fast_actor *actor, const char *what, const int64_t *ids, int64_t count,
                     uint8_t bit, uint8_t *marks)
{
    FAST_ASSERT(count == 0 || ids);
    for (int64_t i = 0; i < count; i++) {
        if (ids[i] < 0 || ids[i] >= fast_actor_count(actor))
            return fast__fail(FAST_EINVAL, "%s %lld of a space is not one of %lld actors", what,
                              (long long)ids[i], (long long)fast_actor_count(actor));
        if (marks[ids[i]] & bit)
            return fast__fail(FAST_EINVAL, "actor %lld is twice among the %ss of a space",
                              (long long)ids[i], what);
        marks[ids[i]] |= bit;
    }
    return FAST_OK;
}

/* Refuse lists of tensors that no space can have. */
static fast_err check_tensors(const fast_space_options *options)
{
    FAST_ASSERT(options->name);
    if (options->tensor_count < 1 || options->tensor_count > FAST_SPACE_TENSORS_MAX)
        return fast__fail(FAST_EINVAL, "a space has 1 to %d tensors, not %lld",
                          FAST_SPACE_TENSORS_MAX, (long long)options->tensor_count);
    for (int64_t t = 0; t < options->tensor_count; t++) {
        const fast_space_tensor *tensor = &options->tensors[t];
        if (!tensor->name || strlen(tensor->name) >= FAST_SPACE_NAME_MAX)
            return fast__fail(FAST_EINVAL,
                              "tensor %lld of space \"%s\" needs a name of less than %d "
                              "bytes",
                              (long long)t, options->name, FAST_SPACE_NAME_MAX);
        if (tensor->count < 1)
            return fast__fail(FAST_EINVAL, "tensor \"%s\" of space \"%s\" has %lld floats",
                              tensor->name, options->name, (long long)tensor->count);
        for (int64_t i = 0; i < t; i++)
            if (strcmp(options->tensors[i].name, tensor->name) == 0)
                return fast__fail(FAST_EINVAL, "space \"%s\" has two tensors called \"%s\"",
                                  options->name, tensor->name);
    }
    return FAST_OK;
}

/* Return the text of a codec, as users typed it; NULL: values travel without a codec. */
static const char *text_of(const fast_chain *chain)
{
    return chain ? fast__chain_text(chain) : NULL;
}

/* Return the hash of the options that all actors must agree on. */
static uint64_t sign(const fast_space_options *o, const fast_space_chains *chains)
{
    FAST_ASSERT(o->tensors && o->owners);
    const char *const codec = chains ? text_of(chains->way[FAST_SPACE_UP]) : o->codec;
    const char *const down = chains ? text_of(chains->way[FAST_SPACE_DOWN]) : o->codec_down;
    uint64_t h = fast__hash(o->name, strlen(o->name), (uint64_t)o->tensor_count);
    for (int64_t t = 0; t < o->tensor_count; t++) {
        h = fast__hash(o->tensors[t].name, strlen(o->tensors[t].name), h);
        h = fast__hash(&o->tensors[t].count, sizeof o->tensors[t].count, h);
    }
    h = fast__hash(o->owners, (size_t)o->owner_count * sizeof *o->owners,
                   h + o->whole_tensors + 2 * (uint64_t)o->eager + 4 * (uint64_t)o->cache_indices);
    if (o->ends)
        h = fast__hash(o->ends, (size_t)o->owner_count * sizeof *o->ends, h + 9);
    if (codec)
        h = fast__hash(codec, strlen(codec), h + 3);
    if (down)
        h = fast__hash(down, strlen(down), h + 5);
    if (o->layer_count > 0)
        h = fast__hash(o->layers, (size_t)o->layer_count * sizeof *o->layers, h + 7);
    if (o->writers)
        h = fast__hash(o->writers, (size_t)o->writer_count * sizeof *o->writers, h + 1);
    if (o->copy_count > 0)
        h = fast__hash(o->copies, (size_t)(o->copy_count * o->owner_count) * sizeof *o->copies,
                       h + 9);
    return h;
}

/* List the writers: the actors that are named; or all that are not owners; or all. */
static fast_err list_writers(fast_space *space, const fast_space_options *options, uint8_t *marks)
{
    FAST_ASSERT(space->map.owner_count > 0);
    const int64_t actors = fast_actor_count(space->actor), me = fast_actor_id(space->actor);
    const bool all = options->owner_count == actors;
    int64_t count = 0;
    if (options->writers)
        FAST_TRY(mark(space->actor, "writer", options->writers, options->writer_count, IS_WRITER,
                      marks));
    for (int64_t id = 0; id < actors; id++) {
        if (!options->writers && (all || !(marks[id] & IS_OWNER)))
            marks[id] |= IS_WRITER;
        if (id == me)
            space->clocks.rank = marks[id] & IS_WRITER ? count : -1;
        count += (marks[id] & IS_WRITER) != 0;
    }
    space->clocks.writer_count = count;
    if (space->map.remote_count == space->map.owner_count)
        return FAST_OK; /* Only actors that use a store need the list. */
    FAST_TRY(fast__alloc("the writers of a space", count, sizeof *space->clocks.writers,
                         &space->clocks.writers));
    FAST_TRY(fast__alloc("the actors of a space", actors, sizeof *space->clocks.expected,
                         &space->clocks.expected));
    FAST_TRY(fast__alloc("the actors of a space", actors, sizeof *space->clocks.excused,
                         &space->clocks.excused));
    for (int64_t id = 0, i = 0; id < actors; id++) {
        /* Owners of copies neither read nor write. */
        space->clocks.expected[id] =
            (marks[id] & (space->copies.count > 0 ? IS_WRITER : IS_OWNER | IS_WRITER)) != 0;
        if (marks[id] & IS_WRITER)
            space->clocks.writers[i++] = id;
    }
    return FAST_OK;
}

/* Copy the tensors' names and sizes. */
static fast_err list_tensors(fast_space *space, const fast_space_options *options)
{
    FAST_ASSERT(!space->map.counts);
    const int64_t count = options->tensor_count;
    space->map.tensor_count = count;
    FAST_TRY(fast__alloc("the tensors of a space", count, sizeof *space->map.counts,
                         &space->map.counts));
    FAST_TRY(fast__alloc("the tensors of a space", count, FAST_SPACE_NAME_MAX, &space->map.names));
    for (int64_t t = 0; t < count; t++) {
        space->map.counts[t] = options->tensors[t].count;
        memcpy(space->map.names + t * FAST_SPACE_NAME_MAX, options->tensors[t].name,
               strlen(options->tensors[t].name) + 1);
    }
    int64_t cells;
    if (!fast__mul_size(count, options->owner_count, &cells))
        return fast__fail(FAST_EINVAL, "space \"%s\" is too large", space->name);
    FAST_TRY(fast__alloc("the versions of a space", cells, sizeof *space->clocks.read,
                         &space->clocks.read));
    return fast__alloc("the versions of a space", cells, sizeof *space->clocks.told,
                       &space->clocks.told);
}

/* Find out if any other actor shares this actor's memory, and if any does not. */
static void find_neighbours(const fast_actor *actor, bool *local_out, bool *remote_out)
{
    FAST_ASSERT(local_out && remote_out);
    *local_out = *remote_out = false;
    for (int64_t id = 0; id < fast_actor_count(actor); id++) {
        if (id == fast_actor_id(actor))
            continue;
        const bool local = fast_actor_is_local(actor, id);
        *local_out |= local;
        *remote_out |= !local;
    }
}

/* Copy the fractions where ranges end. FAST_EINVAL if they do not ascend to 1. */
static fast_err list_ends(fast_space *space, const fast_space_options *options)
{
    FAST_ASSERT(!space->map.ends && options->owner_count > 0);
    double last = 0;
    for (int64_t i = 0; i < options->owner_count; i++) {
        if (!(options->ends[i] >= last) || options->ends[i] > 1)
            return fast__fail(FAST_EINVAL, "ends of space \"%s\": %g after %g do not ascend to 1",
                              options->name, options->ends[i], last);
        last = options->ends[i];
    }
    if (last < 1)
        return fast__fail(FAST_EINVAL, "the last range of space \"%s\" ends at %g, not at 1",
                          options->name, last);
    FAST_TRY(fast__alloc("the ends of ranges", options->owner_count, sizeof *space->map.ends,
                         &space->map.ends));
    memcpy(space->map.ends, options->ends, (size_t)options->owner_count * sizeof *options->ends);
    return FAST_OK;
}

/* List the actors of all copies, the owners first. */
static fast_err list_copies(fast_space *space, const fast_space_options *options)
{
    const int64_t owners = options->owner_count, more = options->copy_count;
    if (more <= 0)
        return FAST_OK;
    FAST_ASSERT(options->copies);
    FAST_TRY(fast__alloc("the copies of a space", (more + 1) * owners, sizeof *space->copies.ids,
                         &space->copies.ids));
    memcpy(space->copies.ids, options->owners, (size_t)owners * sizeof *options->owners);
    memcpy(space->copies.ids + owners, options->copies,
           (size_t)(more * owners) * sizeof *options->copies);
    space->copies.count = more + 1;
    return FAST_OK;
}

/* Return true if this actor uses an owner's memory: never, where there are copies, that of another
 * actor. */
static bool shares(const fast_space *space, int64_t owner)
{
    FAST_ASSERT(owner >= 0 && owner < space->map.owner_count);
    return space->copies.count > 0 ? owner == space->map.me
                                   : fast_actor_is_local(space->actor, space->map.owners[owner].id);
}

/* List the owners, and find this actor among them. */
static fast_err list_owners(fast_space *space, const fast_space_options *options)
{
    FAST_ASSERT(!space->map.owners);
    fast_actor *actor = space->actor;
    FAST_TRY(fast__alloc("the owners of a space", options->owner_count, sizeof *space->map.owners,
                         &space->map.owners));
    space->map.owner_count = options->owner_count;
    FAST_TRY(list_copies(space, options));
    for (int64_t i = 0; i < space->map.owner_count; i++) {
        space->map.owners[i].id = options->owners[i];
        if (fast__copies_owns(space, i, fast_actor_id(actor)))
            space->map.me = i;
    }
    for (int64_t i = 0; i < space->map.owner_count; i++)
        space->map.remote_count += !shares(space, i);
    /* Actors that run in step would contend for every lock, or link: each starts with another
     * owner, and where each writer has an owner on its node with the next one. */
    space->map.first = fast_actor_id(actor) % space->map.owner_count;
    for (int64_t i = 0; space->map.remote_count > 0 && i < options->writer_count; i++)
        if (options->writers && options->writers[i] == fast_actor_id(actor))
            space->map.first = (i + 1) % space->map.owner_count;
    if (space->map.remote_count == 0 && actor->world->transport->virtual_clock)
        space->map.first = 0; /* where time is simulated local actors do not run side by side */
    return FAST_OK;
}

/* Map the memory of local owners: shared, unless no other actor is local. */
static fast_err map_stores(fast_space *space, bool shared)
{
    FAST_ASSERT(space->map.owners);
    fast_actor *actor = space->actor;
    for (int64_t i = 0; i < space->map.owner_count; i++) {
        fast_space_owner *owner = &space->map.owners[i];
        int64_t size;
        void *memory;
        if (!shares(space, i))
            continue;
        if (!fast__space_store_size(space, i, &size))
            return fast__fail(FAST_EINVAL, "space \"%s\" is too large", space->name);
        if (i == space->map.me && !shared) {
            FAST_TRY(fast__alloc("a space", size, 1, &space->owned.memory));
            memory = space->owned.memory;
        } else {
            const uint64_t key = fast__hash(space->name, strlen(space->name), (uint64_t)i + 1);
            const fast_err err = fast_actor_share(actor, key, (size_t)size, &memory);
            if (err == FAST_EINVAL)
                return fast__fail(FAST_EINVAL,
                                  "space \"%s\" is open elsewhere with other tensors or owners",
                                  space->name);
            FAST_TRY(err);
        }
        fast__space_store_map(space, memory, &owner->store);
        if (i == space->map.me)
            FAST_TRY(fast__space_store_values(space));
    }
    return FAST_OK;
}

/* Enter the stores of local owners: once in a life. */
static fast_err enter(fast_space *space)
{
    FAST_ASSERT(space->map.owners);
    const uint32_t mine = 2 * ((uint32_t)fast_actor_life(space->actor) + 1);
    for (int64_t i = 0; i < space->map.owner_count; i++) {
        fast_space_store *store = &space->map.owners[i].store;
        if (!store->head)
            continue;
        fast_space_slot *slot = &store->slots[fast_actor_id(space->actor)];
        /* Only this actor writes its slot, so that the answer needs no order. */
        if (atomic_load(&slot->member) >= mine)
            return fast__fail(FAST_EINVAL,
                              "this actor has opened space \"%s\" before: use another name",
                              space->name);
        fast__space_begin(space, i);
        atomic_store(&slot->clock, space->clocks.own); /* 0, or a snapshot's */
        atomic_store(&slot->member, mine);
        fast__space_end(space);
    }
    return FAST_OK;
}

/* Some transports tell only actors that asked of another's end: an owner asks for all, and all ask
 * for it. */
static void exchange_interest(fast_space *space)
{
    FAST_ASSERT(space->map.me >= 0);
    fast_actor *actor = space->actor;
    for (int64_t id = 0; actor->met && id < fast_actor_count(actor); id++) {
        fast_actor *other = actor->world->actors[id];
        if (!other || id == fast_actor_id(actor) || !space->clocks.expected[id])
            continue;
        fast__peers_ask(actor, id);
        if (!other->ended && other->met)
            other->met[actor->id / 64] |= (uint64_t)1 << (actor->id % 64);
    }
}

/* Return the floats of this owner's largest range. */
static int64_t largest_range(const fast_space *space)
{
    FAST_ASSERT(space->map.me >= 0);
    int64_t largest = 1;
    for (int64_t t = 0; t < space->map.tensor_count; t++) {
        int64_t offset, count;
        fast__space_range(space, space->map.me, t, &offset, &count);
        largest = count > largest ? count : largest;
    }
    return largest;
}

/* Send HELLO to remote owners, and to all copies: a restarted actor does not know the first. */
static fast_err greet(fast_space *space)
{
    const int64_t owners = space->map.owner_count, copies = space->copies.count;
    const int64_t words[3] = { (int64_t)space->signature, fast_actor_life(space->actor),
                               space->clocks.own };
    FAST_ASSERT(owners > 0);
    for (int64_t i = 0; i < (copies > 0 ? copies : 1) * owners; i++) {
        const int64_t id = copies > 0 ? space->copies.ids[i] : space->map.owners[i].id;
        if (space->map.owners[i % owners].store.head)
            continue;
        const fast_err err = fast__space_tell(space, id, FAST_SPACE_HELLO, 0, i % owners, words);
        if (err && err != FAST_EPEER) /* The first operation that needs that owner fails. */
            return err;
    }
    return FAST_OK;
}

/* Make all parts of a space, let other actors in, and send HELLO to remote owners. */
static fast_err build(fast_space *space, const fast_space_options *options,
                      const fast_space_chains *chains, uint8_t *marks, fast_space_first_fn *first,
                      void *ctx)
{
    FAST_ASSERT(space->map.me == -1);
    FAST_ASSERT(marks);
    bool local, remote;
    fast_actor *actor = space->actor;
    /* The order matters: codecs and pieces need the ranges, stores the tensors, services the
     * stores; other actors may enter from fast__space_store_open() on. */
    find_neighbours(actor, &local, &remote);
    FAST_TRY(mark(actor, "owner", options->owners, options->owner_count, IS_OWNER, marks));
    FAST_TRY(mark(actor, "copy", options->copies, options->copy_count * options->owner_count,
                  IS_OWNER, marks));
    FAST_TRY(list_owners(space, options));
    if (options->ends)
        FAST_TRY(list_ends(space, options));
    FAST_TRY(list_writers(space, options, marks));
    FAST_TRY(list_tensors(space, options));
    if (chains || options->codec || options->codec_down)
        FAST_TRY(fast__space_codec_new(space, options, chains));
    if (options->pieces && (options->sparse || options->layer_count > 0))
        return fast__fail(FAST_EINVAL,
                          "space \"%s\": pieces are added as they are; leave out sparse and layers",
                          options->name);
    if (options->pieces && fast__space_is_coded(space, FAST_SPACE_UP, 0))
        FAST_TRY(fast__space_pieces_new(space));
    if (options->layer_count > 0)
        FAST_TRY(fast__space_layers_new(space, options));
    FAST_TRY(fast__copies_new(space, options));
    if (space->copies.count > 0) { /* they talk by messages alone */
        local = false;
        remote = true;
    }
    FAST_TRY(map_stores(space, local));
    if (space->map.me >= 0 && remote)
        FAST_TRY(fast__service_new(space));
    if (space->map.me >= 0 && remote && (space->sparse.enabled || space->layers.list))
        FAST_TRY(fast__vector_new(fast__space_device(space), "an update", largest_range(space),
                                  &space->dense));
    space->owned.shared = local;
    if (space->map.me >= 0)
        fast__space_store_fill(space, options);
    if (first)
        FAST_TRY(first(ctx, space));
    for (int64_t i = 0; i < space->map.owner_count; i++)
        space->map.owners[i].ticked = space->clocks.own; /* 0, or a snapshot's */
    FAST_TRY(enter(space));
    if (space->map.me >= 0) {
        fast__space_store_open(space);
        exchange_interest(space);
    }
    fast__copies_watch(space);
    FAST_TRY(fast__copies_join(space));
    return space->copies.link ? FAST_OK : greet(space);
}

/* Free a space, as much of it as was made. */
static void destroy(fast_space *space)
{
    FAST_ASSERT(space->actor);
    FAST_ASSERT(space);
    fast__service_free(space);
    fast__space_tasks_free(space);
    fast__copies_free(space);
    for (int64_t i = 0; i < space->map.owner_count; i++) {
        fast_msg_free(space->map.owners[i].pushed);
        fast_msg_free(space->map.owners[i].ready);
    }
    fast__space_pieces_free(space);
    fast__space_codec_free(space);
    fast__space_sparse_free(space);
    fast__vector_free(space->dense);
    fast__free(space->layers.list);
    fast__free(space->map.counts);
    fast__free(space->map.names);
    fast__free(space->map.owners);
    fast__free(space->map.ends);
    fast__free(space->clocks.writers);
    fast__free(space->clocks.expected);
    fast__free(space->clocks.excused);
    fast__free(space->clocks.read);
    fast__free(space->clocks.told);
    fast__free(space->reader.watched);
    fast__space_order_free(&space->reader.order);
    fast__free(space->owned.memory);
    fast__free(space);
}

/* Check all options before anything is made; a failed open leaves nothing. */
fast_err fast__space_open(fast_actor *actor, const fast_space_options *options,
                          const fast_space_chains *chains, fast_space_first_fn *first, void *ctx,
                          fast_space **out)
{
    FAST_ASSERT(actor && options && out);
    FAST_TRY(fast__check_size("fast_space_options", options->size, sizeof *options));
    if (!options->name || options->name[0] == 0 || strlen(options->name) >= FAST_SPACE_NAME_MAX)
        return fast__fail(FAST_EINVAL, "a space needs a name of 1 to %d bytes",
                          FAST_SPACE_NAME_MAX - 1);
    FAST_TRY(check_tensors(options));
    if (options->owner_count < 1 || options->owner_count > fast_actor_count(actor) ||
        (options->writers && options->writer_count < 0))
        return fast__fail(FAST_EINVAL, "space \"%s\" has %lld owners among %lld actors",
                          options->name, (long long)options->owner_count,
                          (long long)fast_actor_count(actor));
    const uint64_t key = fast__hash(options->name, strlen(options->name), 0) >> 16;
    FAST_TRY(check_name(actor, options->name, key));

    fast_space *space;
    uint8_t *marks = NULL;
    FAST_TRY(fast__alloc("a space", 1, sizeof *space, &space));
    space->actor = actor;
    space->key = key;
    space->map.me = -1;
    space->map.whole = options->whole_tensors;
    space->map.causal = options->causal;
    space->reader.eager = options->eager;
    space->owned.stalest = options->stalest_first;
    space->sparse.enabled = options->sparse;
    space->sparse.cache = options->cache_indices;
    space->announce = options->announce;
    space->owned.follows = options->replica;
    space->pieces.enabled = options->pieces;
    space->owned.operations = options->operations > 0 ? options->operations : 1;
    space->owned.bytes = options->bytes > 0 ? options->bytes : 3 * sizeof(float);
    space->signature = sign(options, chains);
    memcpy(space->name, options->name, strlen(options->name) + 1);
    fast_err err = fast__alloc("the actors of a space", fast_actor_count(actor), 1, &marks);
    if (!err)
        err = build(space, options, chains, marks, first, ctx);
    fast__free(marks);
    if (err) {
        const fast_space_head *head =
            space->map.me >= 0 ? fast__space_own_store(space)->head : NULL;
        if (head && atomic_load(&head->state) == FAST_SPACE_OPEN)
            fast__space_store_shut(space);
        destroy(space);
        return err;
    }
    space->task = (fast_task){
        .advance = advance,
        .explain = explain,
        .background = true,
        .watches = space->map.me >= 0 || space->copies.count > 0,
    };
    fast__post(actor, &space->task);
    *out = space;
    return FAST_OK;
}

fast_err fast_space_open(fast_actor *actor, const fast_space_options *options, fast_space **out)
{
    FAST_ASSERT(actor && options && out);
    return fast__space_open(actor, options, NULL, NULL, NULL, out);
}

/* Leave every owner; remote ones have applied everything when they answer. */
static fast_err leave(fast_space *space)
{
    FAST_ASSERT(space->map.owner_count > 0);
    if (space->actor->stopped) /* It can send nothing; the other actors learn that it is down. */
        return fast__fail(FAST_ECANCELED, "this actor was stopped");
    for (int64_t i = 0; i < space->map.owner_count; i++) {
        if (!space->map.owners[i].store.head)
            continue;
        fast__space_begin(space, i);
        fast__space_left(space, i, fast_actor_id(space->actor));
        fast__space_end(space);
    }
    return space->map.remote_count > 0 && !space->copies.link ? fast__remote_leave(space) : FAST_OK;
}

/* Return another actor that is still in, or -1. An owner is woken when one leaves, and not by
 * updates: where it does nothing else it would keep the writers from their cores. */
static int64_t find_active(fast_space *space, fast_space_store *store, int64_t me)
{
    FAST_ASSERT(store->head);
    fast__space_begin(space, space->map.me);
    const int64_t other = fast__space_active(space, store, me);
    fast__space_end(space);
    return other < 0 ? fast__copies_next(space) : other;
}

/* Return the next wait of a server: to the deadline, or in pieces if it is INT64_MAX. At the end of
 * a piece without any message, silent actors are suspected: they have left. */
static fast_wait serve_wait(fast_space *space, int64_t deadline)
{
    FAST_ASSERT(deadline > 0);
    if (deadline == INT64_MAX)
        deadline = fast__patience(space->actor, FAST_PATIENCE);
    fast_wait wait = fast__space_wait(space, FAST_ANY, "space serve", deadline);
    wait.tag = fast__space_tag(space, false);
    return wait;
}

/*
 * Answer in waits until all other actors have left. A wait without a deadline is renewed after each
 * message, so that an owner which hears nothing for a few timeouts suspects the silent actors, and
 * in the end counts them as gone.
 */
static fast_err serve(fast_space *space, const fast_space_operation *op)
{
    fast_actor *actor = space->actor;
    fast_space_store *store = fast__space_own_store(space);
    uint64_t stamp = actor->mailbox.stamp;
    FAST_ASSERT(op->kind == FAST_SPACE_SERVE);
    FAST_TRY(leave(space));
    fast_wait wait = serve_wait(space, op->deadline);
    /* Each wait is for any message, and ends early when a local actor leaves. */
    for (;;) {
        FAST_TRY(space->task.err);
        if (space->owned.gathers) /* after every wait: requests may have been postponed in it */
            FAST_TRY(fast__service_gather(space));
        const int64_t other = find_active(space, store, op->from);
        if (other < 0)
            return FAST_OK;
        const fast_err err = fast__wait_once(actor, &wait);
        const bool renews =
            op->deadline == INT64_MAX && (err == FAST_ETIMEDOUT || actor->mailbox.stamp != stamp);
        /* Something was heard, or it is time to ask who is silent. */
        if (renews) {
            stamp = actor->mailbox.stamp;
            wait = serve_wait(space, op->deadline);
        } else if (err == FAST_ETIMEDOUT) {
            char name[64];
            fast__actor_name(actor->world, other, name, sizeof name);
            actor->culprit = other;
            return fast__fail(FAST_ETIMEDOUT, "%s has not left space \"%s\"", name, space->name);
        }
        /* An actor that went down has left: only if it still counts is its end an error. */
        if (err && err != FAST_EPEER && err != FAST_ETIMEDOUT)
            return err;
        if (err == FAST_EPEER && find_active(space, store, op->from) == other)
            return err;
    }
}

/* SERVE. In virtual time many requests arrive at one instant, and the order of their answers
 * decides how evenly links are used: it is that of fast_space_pending, not that of arrival. */
static fast_err execute_serve(fast_space *space, const fast_space_operation *op)
{
    FAST_ASSERT(op->kind == FAST_SPACE_SERVE);
    space->owned.gathers = space->owned.service && !space->owned.stalest && !space->reader.eager &&
                           space->announce == 0 && space->actor->world->transport->virtual_clock;
    const fast_err err = serve(space, op);
    space->owned.gathers = false;
    return err;
}

/* Callable any number of times: an owner that has left its own store as a writer stays out. */
fast_err fast_space_serve(fast_space *space, int64_t deadline)
{
    FAST_ASSERT(space);
    if (space->map.me < 0)
        return fast__fail(FAST_EINVAL, "only an owner serves space \"%s\"", space->name);
    return execute_serve(
        space, &(fast_space_operation){ .kind = FAST_SPACE_SERVE,
                                        .from = fast_actor_id(space->actor),
                                        .deadline = fast__deadline(space->actor, deadline) });
}

/* Nothing is sent and no lock is taken: other actors learn of the end from the transport. */
void fast__space_abandon(fast_space *space)
{
    if (!space)
        return;
    fast__unpost(space->actor, &space->task);
    destroy(space);
}

/* An owner serves first; any other actor only says that it leaves. */
void fast_space_close(fast_space *space)
{
    if (!space)
        return;
    if (space->tasks && fast_space_wait(space, 0, FAST_SOON) != FAST_OK) {
        /* Tasks that cannot finish any more are dropped, as if they had not been submitted. */
    }
    if (space->map.me >= 0) {
        /* That other actors stay too long, or that this one was stopped, is no error of close. */
        const fast_err err = fast_space_serve(space, FAST_SOON);
        fast__space_store_shut(space);
        if (err != FAST_ECANCELED && space->owned.service)
            fast__service_close(space);
    } else {
        const fast_err err = leave(space);
        (void)err;
    }
    fast__space_abandon(space);
}
