/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Copies of a range, one behind the other (chain replication: van Renesse and Schneider 2004; of
 * parameter servers: Li et al. 2014). All requests go to the first copy. Each copy applies a
 * request and passes it on as it is, with the number of the actor that sent it; the last answers.
 *
 *     writer --ADD 7--> first --ADD 7 of writer--> ... --> last
 *        ^------------------------ ACK 7 --------------------+
 *
 * All copies apply the same updates in the same order. An update that was acknowledged is at all of
 * them; a writer stores the others, FAST_SPACE_WINDOW at most, and an owner knows the number of
 * each writer's last update: after a change of the chain the stored ones are sent again, and those
 * that the chain has are dropped. So none is lost and none is applied twice.
 *
 *   the first is down   the next one tells all writers (ROLE): they send to it what it lacks
 *   the last is down    the one before it acknowledges all that it has, and tells the writers:
 *                       gets that the lost copy was to answer are sent again
 *   another is down     the one before it sends its state (STATE) to the one behind it
 *   one comes back      it asks all others (JOIN): they take it for lost, if they have not yet, and
 *                       for the new last copy; the one before it sends it its state
 *
 * A copy that was only silent, and is heard again, is told to join anew (REJOIN), since the others
 * have continued without it. The order of the chain is part of a state: the receiver takes it over,
 * but for copies whose last JOIN it knows and the sender does not; they are behind all others.
 *
 *     lost copy restarts             others                         last of them
 *       | JOIN n --------------------> | it is lost, then the last     |
 *       | JOIN n -------------------------------------------------->   | its next is new
 *       | <------------------------------- STATE: order, range, callers, function
 *       | <------------------------------- requests after it, passed on
 *       | ROLE to all writers: send your gets again
 *
 * The state is the values and versions of the range, its writers' clocks and numbers, and that of
 * the owner's function. Copies end from the last to the first, so that nobody takes an end for a
 * loss.
 *
 * Cost: a request is sent once by its writer and once by every copy but the last; a change of the
 * chain costs one state. Memory at a writer: its last updates.
 */
#include "space/space_chain.h"

#include "base/memory.h"
#include "space/space_checkpoint.h"
#include "space/space_service.h"
#include "transport/mailbox.h"
#include "transport/peers.h"

#include <string.h>

enum { NEW_LINK = -2 }; /* no copy: the next one, whoever it is, needs the state */

/* The state of a caller, in a STATE. */
typedef struct caller_state {
    int64_t sequence; /* number of its last update or tick */
    int64_t version;  /* version that its last update made */
    int64_t tensor;   /* tensor of that update */
    int64_t greeted;  /* 1: it opened the space */
    int64_t member;   /* as in its slot */
    int64_t clock;    /* rounds that it has finished */
    int64_t updates;  /* updates that it made */
} caller_state;

/* The chain as a copy sees it, in a STATE. */
typedef struct chain_state {
    int64_t length;                       /* copies that are not lost */
    int64_t order[FAST_SPACE_COPIES_MAX]; /* those copies, first to last */
    int64_t joins[FAST_SPACE_COPIES_MAX]; /* numbers of the last JOINs */
} chain_state;

/* Return the actor of a copy of an owner's range. */
static int64_t actor_of(const fast_space *space, int64_t copy, int64_t owner)
{
    FAST_ASSERT(copy >= 0 && copy < space->copies.count);
    return space->copies.ids[copy * space->map.owner_count + owner];
}

/* Return the copy of an owner's range that an actor has; -1: it has none. */
static int64_t copy_of(const fast_space *space, int64_t owner, int64_t id)
{
    FAST_ASSERT(owner >= 0 && owner < space->map.owner_count);
    for (int64_t k = 0; k < space->copies.count; k++)
        if (actor_of(space, k, owner) == id)
            return k;
    return -1;
}

bool fast__copies_owns(const fast_space *space, int64_t owner, int64_t id)
{
    return space->copies.count > 0 ? copy_of(space, owner, id) >= 0
                                   : space->map.owners[owner].id == id;
}

bool fast__space_leads(const fast_space *space)
{
    FAST_ASSERT(space->map.me >= 0);
    return !space->copies.link || space->copies.link->first;
}

/* Open and close. */

/* Refuse options that the copies could not keep equal. */
static fast_err check_options(const fast_space_options *o)
{
    FAST_ASSERT(o->copies != NULL);
    if (o->copy_count < 0 || o->copy_count >= FAST_SPACE_COPIES_MAX)
        return fast__fail(FAST_EINVAL, "space \"%s\" has %lld copies; there may be %d", o->name,
                          (long long)o->copy_count, FAST_SPACE_COPIES_MAX - 1);
    if (o->eager || o->stalest_first || o->cache_indices || o->announce > 0 || o->pieces)
        return fast__fail(FAST_EINVAL,
                          "space \"%s\": copies apply updates in one order, each whole; leave out "
                          "eager, stalest_first, cache_indices, announce and pieces",
                          o->name);
    return FAST_OK;
}

/* Find this actor's copy, and set up the chain in the order of the copies. A restarted owner has
 * lost its state. */
static fast_err link_new(fast_space *space)
{
    fast_space_link *link = NULL;

    FAST_ASSERT(space->map.me >= 0);
    FAST_TRY(fast__alloc("a copy of a space", 1, sizeof *link, &link));
    space->copies.link = link;
    link->me = copy_of(space, space->map.me, fast_actor_id(space->actor));
    link->length = space->copies.count;
    for (int64_t k = 0; k < link->length; k++)
        link->order[k] = k;
    link->joined = fast_actor_life(space->actor) == 0;
    link->before = link->me - 1;
    link->after = link->me + 1 < link->length ? link->me + 1 : -1;
    link->first = link->joined && link->me == 0;
    return FAST_OK;
}

fast_err fast__copies_new(fast_space *space, const fast_space_options *options)
{
    fast_space_copies *c = &space->copies;
    const int64_t owners = options->owner_count;

    if (options->copy_count == 0)
        return FAST_OK;
    FAST_TRY(check_options(options));
    if (fast__space_differs(space, 0))
        return fast__fail(FAST_EINVAL,
                          "space \"%s\": the copy that answers may change, and a codec of "
                          "differences needs one; leave out codec_down, or use fp16",
                          options->name);
    FAST_ASSERT(c->ids != NULL);
    c->save = options->save;
    c->load = options->load;
    c->ctx = options->ctx;
    return space->map.me >= 0 ? link_new(space)
                              : fast__alloc("updates of a space", owners * FAST_SPACE_WINDOW,
                                            sizeof *c->unacked, &c->unacked);
}

void fast__copies_free(fast_space *space)
{
    fast_space_copies *c = &space->copies;

    for (int64_t i = 0; c->unacked && i < space->map.owner_count * FAST_SPACE_WINDOW; i++)
        fast_msg_free(c->unacked[i]);
    fast__free(c->unacked);
    fast__free(c->link);
    fast__free(c->ids);
    *c = (fast_space_copies){ 0 };
}

void fast__copies_watch(fast_space *space)
{
    fast_actor *actor = space->actor;

    FAST_ASSERT(space->map.owner_count > 0);
    for (int64_t i = 0; i < space->copies.count * space->map.owner_count; i++) {
        const int64_t id = space->copies.ids[i];

        if (actor->met && id != fast_actor_id(actor) && actor->world->actors[id])
            fast__peers_ask(actor, id);
    }
}

/* Messages between copies. They are trusted as far as a space trusts its owners: sizes and numbers
 * are checked, so that a message of another program changes nothing. */

/* Send a message without values to another copy; that it is down is no error. */
static fast_err tell(fast_space *space, int64_t copy, fast_space_kind kind)
{
    const fast_space_link *link = space->copies.link;
    const int64_t me = space->map.me, words[3] = { link->joins[link->me] };
    const fast_err err = fast__space_tell(space, actor_of(space, copy, me), kind, 0, me, words);

    FAST_ASSERT(kind == FAST_SPACE_JOIN || kind == FAST_SPACE_REJOIN);
    return err == FAST_EPEER ? FAST_OK : err;
}

/* Ask all other copies for a place at the end of the chain. */
static fast_err ask_to_join(fast_space *space)
{
    fast_space_link *link = space->copies.link;
    const int64_t life = fast_actor_life(space->actor) << 32;

    FAST_ASSERT(!link->joined);
    link->joins[link->me] = (life > link->joins[link->me] ? life : link->joins[link->me]) + 1;
    for (int64_t k = 0; k < space->copies.count; k++)
        if (k != link->me)
            FAST_TRY(tell(space, k, FAST_SPACE_JOIN));
    return FAST_OK;
}

fast_err fast__copies_join(fast_space *space)
{
    FAST_ASSERT(space->copies.count == 0 || space->map.me < 0 || space->copies.link);
    return space->copies.link && !space->copies.link->joined ? ask_to_join(space) : FAST_OK;
}

/* Return the bytes of the part of a STATE that has the chain and the callers. */
static size_t head_size(const fast_space *space)
{
    FAST_ASSERT(space->copies.link != NULL);
    return sizeof(chain_state) + (size_t)fast_actor_count(space->actor) * sizeof(caller_state);
}

/* Write the chain. */
static void save_chain(const fast_space_link *link, chain_state *out)
{
    FAST_ASSERT(link->length <= FAST_SPACE_COPIES_MAX);
    *out = (chain_state){ .length = 0 };
    for (int64_t i = 0; i < link->length; i++)
        if (!link->lost[link->order[i]])
            out->order[out->length++] = link->order[i];
    memcpy(out->joins, link->joins, sizeof link->joins);
}

/* Make a buffer with the chain and the callers' states. */
static fast_err save_head(fast_space *space, fast_buffer **out)
{
    const int64_t count = fast_actor_count(space->actor);
    const fast_space_slot *slots = fast__space_own_store(space)->slots;

    FAST_ASSERT(space->owned.service != NULL);
    FAST_TRY(fast_buffer_new(space->actor, head_size(space), out));
    save_chain(space->copies.link, fast_buffer_data(*out));
    caller_state *list = (caller_state *)((chain_state *)fast_buffer_data(*out) + 1);
    for (int64_t i = 0; i < count; i++) {
        const fast_space_caller *c = &space->owned.service->callers[i];

        list[i] = (caller_state){ .sequence = c->sequence,
                                  .version = c->version,
                                  .tensor = c->tensor,
                                  .greeted = c->greeted,
                                  .member = atomic_load(&slots[i].member),
                                  .clock = atomic_load(&slots[i].clock),
                                  .updates = atomic_load(&slots[i].updates) };
    }
    return FAST_OK;
}

/* Add this copy's state to a message: the space's records, the callers, the function's bytes. */
static fast_err add_state(fast_space *space, fast_msg *msg)
{
    const fast_space_copies *c = &space->copies;
    fast_pack pack = { 0 };
    fast_buffer *buffer = NULL;

    FAST_ASSERT(msg->part_count == 0);
    fast__space_save(space, true, &pack);
    FAST_TRY(fast_buffer_new(space->actor, pack.size, &buffer));
    pack = (fast_pack){ .out = fast_buffer_data(buffer) };
    fast__space_save(space, true, &pack);
    fast_msg_add(msg, &buffer);
    msg->parts[0].size = pack.size;
    FAST_TRY(save_head(space, &buffer));
    fast_msg_add(msg, &buffer);
    msg->parts[1].size = head_size(space);
    const size_t size = c->save ? c->save(c->ctx, NULL) : 0;
    if (size == 0)
        return FAST_OK;
    FAST_TRY(fast_buffer_new(space->actor, size, &buffer));
    (void)c->save(c->ctx, fast_buffer_data(buffer));
    fast_msg_add(msg, &buffer);
    msg->parts[2].size = size;
    return FAST_OK;
}

/* Send the state to the next copy, which continues from it. It is made between two requests: all
 * before it are in the state, and all after it are passed on behind it. */
static fast_err send_state(fast_space *space)
{
    const fast_space_link *link = space->copies.link;
    const int64_t words[3] = { 0 };
    fast_msg *msg = NULL;

    FAST_ASSERT(link->after >= 0);
    FAST_TRY(fast__space_message(space, FAST_SPACE_STATE, 0, space->map.me, words, &msg));
    fast_err err = add_state(space, msg);
    if (err) {
        fast_msg_free(msg);
        return err;
    }
    err = fast_charge(space->actor, 0, 2.0 * (double)fast_msg_size(msg));
    if (err) {
        fast_msg_free(msg);
        return err;
    }
    err = fast_send(space->actor, actor_of(space, link->after, space->map.me), &msg);
    return err == FAST_EPEER ? FAST_OK : err;
}

/* Take over the callers' states; answers to their gets are another copy's matter, until they are
 * asked again. */
static void load_callers(fast_space *space, const caller_state *list)
{
    fast_space_service *s = space->owned.service;
    fast_space_store *store = fast__space_own_store(space);

    FAST_ASSERT(list != NULL);
    /* Writers only: owners of copies are in their own stores alone. */
    for (int64_t k = 0; k < space->clocks.writer_count; k++) {
        const int64_t i = space->clocks.writers[k];
        fast_space_caller *c = &s->callers[i];

        fast__service_drop(s, i, NULL);
        c->sequence = list[i].sequence;
        c->version = list[i].version;
        c->tensor = list[i].tensor;
        c->greeted = list[i].greeted != 0;
        atomic_store(&store->slots[i].member, (uint32_t)list[i].member);
        atomic_store(&store->slots[i].clock, list[i].clock);
        atomic_store(&store->slots[i].updates, list[i].updates);
    }
    store->slowest = store->active = -1;
    store->clock = 0;
    for (int64_t t = 0; t < space->map.tensor_count; t++) {
        fast_buffer_free(s->snapshots[t].buffer);
        s->snapshots[t] = (fast_space_snapshot){ 0 };
    }
    s->dirty = true;
}

/* Return the chain of a STATE that has the right parts and names both ends; else NULL. */
static const chain_state *chain_in(const fast_space *space, const fast_msg *msg, int64_t from)
{
    const fast_space_link *link = space->copies.link;
    const chain_state *chain = msg->part_count >= 2 ? fast_msg_data(msg, 1) : NULL;
    int64_t seen = 0;

    FAST_ASSERT(from >= 0 && from != link->me);
    if (!chain || msg->parts[1].size != head_size(space) || chain->length < 2 ||
        chain->length > space->copies.count || link->lost[from])
        return NULL;
    for (int64_t i = 0; i < chain->length; i++) {
        const int64_t copy = chain->order[i];

        if (copy < 0 || copy >= space->copies.count || (seen & (int64_t)1 << copy))
            return NULL;
        seen |= (int64_t)1 << copy;
    }
    return (seen & (int64_t)1 << from) && (seen & (int64_t)1 << link->me) ? chain : NULL;
}

/* Take over the chain of the copy before, but for copies whose later JOIN it does not know. */
static void load_chain(fast_space_link *link, int64_t count, const chain_state *chain)
{
    bool listed[FAST_SPACE_COPIES_MAX] = { false }, later[FAST_SPACE_COPIES_MAX] = { false };

    FAST_ASSERT(count <= FAST_SPACE_COPIES_MAX);
    for (int64_t k = 0; k < count; k++)
        later[k] = k != link->me && link->joins[k] > chain->joins[k] && !link->lost[k];
    link->length = 0;
    for (int64_t i = 0; i < chain->length; i++)
        if (!later[chain->order[i]])
            link->order[link->length++] = chain->order[i];
    for (int64_t i = 0; i < link->length; i++)
        listed[link->order[i]] = true;
    for (int64_t k = 0; k < count; k++) {
        if (later[k])
            link->order[link->length++] = k;
        else if (k != link->me)
            link->lost[k] = !listed[k];
        if (!later[k] && !listed[k])
            link->life[k] = UINT32_MAX; /* the copy before tells it */
        link->joins[k] =
            later[k] || link->joins[k] > chain->joins[k] ? link->joins[k] : chain->joins[k];
    }
}

/* STATE: continue from the state of the copy before. Requests that were lost with a copy between
 * the two are in it, so the next copy needs it too, and the last one acknowledges them. */
static fast_err take_state(fast_space *space, const fast_msg *msg, int64_t from)
{
    const fast_space_copies *c = &space->copies;
    fast_space_link *link = space->copies.link;
    const chain_state *chain = chain_in(space, msg, from);

    if (!chain)
        return FAST_OK;
    FAST_TRY(fast__space_load(space, fast_actor_id(space->actor), fast_msg_data(msg, 0),
                              msg->parts[0].size));
    load_callers(space, (const caller_state *)(chain + 1));
    if (msg->part_count > 2 && c->load)
        FAST_TRY(c->load(c->ctx, fast_msg_data(msg, 2), msg->parts[2].size));
    FAST_TRY(fast_charge(space->actor, 0, 2.0 * (double)fast_msg_size(msg)));
    load_chain(link, c->count, chain);
    link->joined = true;
    link->first = false;
    link->before = from;
    link->after = NEW_LINK;
    return fast__copies_advance(space);
}

/* JOIN: a copy has no state. It is lost, and then the last. One that a STATE told of is known. */
static fast_err take_join(fast_space *space, const fast_msg *msg, int64_t from)
{
    fast_space_link *link = space->copies.link;
    int64_t left = 0;

    FAST_ASSERT(from >= 0 && from != link->me);
    if (msg->words[FAST_SPACE_W_A] <= link->joins[from])
        return FAST_OK;
    link->joins[from] = msg->words[FAST_SPACE_W_A];
    /* The chain without it may have another first copy. */
    link->lost[from] = true;
    link->life[from] = UINT32_MAX;
    FAST_TRY(fast__copies_advance(space));
    for (int64_t i = 0; i < link->length; i++)
        if (link->order[i] != from)
            link->order[left++] = link->order[i];
    link->order[left++] = from;
    link->length = left;
    link->lost[from] = false;
    return fast__copies_advance(space);
}

/* REJOIN: the others continued without this copy, which has to start anew. */
static fast_err take_rejoin(fast_space *space)
{
    fast_space_link *link = space->copies.link;

    FAST_ASSERT(link != NULL);
    if (!link->joined)
        return FAST_OK;
    link->joined = link->first = false;
    for (int64_t id = 0; id < fast_actor_count(space->actor); id++)
        fast__service_drop(space->owned.service, id, NULL);
    return ask_to_join(space);
}

fast_err fast__space_start_anew(fast_space *space)
{
    FAST_ASSERT(space->copies.link != NULL);
    return take_rejoin(space);
}

bool fast__copies_handle(fast_space *space, const fast_msg *msg, fast_err *err_out)
{
    const int64_t kind = msg->words[FAST_SPACE_W_KIND];
    const bool between =
        kind == FAST_SPACE_JOIN || kind == FAST_SPACE_REJOIN || kind == FAST_SPACE_STATE;

    FAST_ASSERT(err_out != NULL);
    if (!space->copies.link || !between)
        return false;
    const int64_t from = copy_of(space, space->map.me, msg->from);
    if (from < 0 || from == space->copies.link->me) {
        space->owned.service->refused++;
        return true;
    }
    *err_out = kind == FAST_SPACE_JOIN    ? take_join(space, msg, from)
               : kind == FAST_SPACE_STATE ? take_state(space, msg, from)
                                          : take_rejoin(space);
    return true;
}

/* Requests. */

/* The owner's word of a request that was passed on has 1 + its first sender in its upper half. */
bool fast__copies_accept(const fast_space *space, fast_msg *msg)
{
    const fast_space_link *link = space->copies.link;
    const int64_t word = msg->words[FAST_SPACE_W_OWNER];
    const int64_t origin = (int64_t)((uint64_t)word >> 32) - 1;

    if (!link)
        return true;
    FAST_ASSERT(space->map.me >= 0);
    if (!link->joined)
        return false;
    if (origin < 0)
        return link->first;
    if (link->before < 0 || msg->from != actor_of(space, link->before, space->map.me) ||
        origin >= fast_actor_count(space->actor))
        return false;
    msg->from = origin;
    msg->words[FAST_SPACE_W_OWNER] = word & UINT32_MAX;
    return true;
}

/* Copy a message; its parts are shared. */
static fast_err copy_message(fast_space *space, const fast_msg *msg, fast_msg **out)
{
    FAST_ASSERT(msg->part_count <= FAST_MSG_PARTS_MAX);
    FAST_TRY(fast_msg_new(space->actor, msg->tag, out));
    memcpy((*out)->words, msg->words, sizeof msg->words);
    (*out)->declared = msg->declared;
    for (int i = 0; i < msg->part_count; i++) {
        const fast_msg_part *part = &msg->parts[i];

        if (!fast_buffer_is_frozen(part->buffer))
            fast_buffer_freeze(part->buffer);
        fast_msg_add_view(*out, part->buffer, part->offset, part->size);
    }
    return FAST_OK;
}

fast_err fast__copies_pass(fast_space *space, const fast_msg *msg)
{
    const fast_space_link *link = space->copies.link;
    fast_msg *copy = NULL;

    if (!link || link->after < 0)
        return FAST_OK;
    FAST_ASSERT(msg->words[FAST_SPACE_W_OWNER] == space->map.me);
    FAST_TRY(copy_message(space, msg, &copy));
    copy->words[FAST_SPACE_W_OWNER] |= (msg->from + 1) << 32;
    /* A copy that is down gets nothing: fast__copies_advance() finds another for the state. */
    const fast_err err =
        fast_send(space->actor, actor_of(space, link->after, space->map.me), &copy);
    return err == FAST_EPEER ? FAST_OK : err;
}

bool fast__copies_answer(const fast_space *space)
{
    const fast_space_link *link = space->copies.link;

    FAST_ASSERT(space->map.me >= 0);
    return !link || (link->joined && link->after < 0);
}

int64_t fast__copies_next(const fast_space *space)
{
    const fast_space_link *link = space->copies.link;

    FAST_ASSERT(space->map.me >= 0);
    if (!link || !link->joined || link->after < 0)
        return -1;
    const int64_t id = actor_of(space, link->after, space->map.me);
    return fast_member_is_down(space->actor, id) ? -1 : id;
}

/* The chain. */

/* Tell all writers of this copy's place, and the last copy's of all that it has applied. */
static fast_err tell_role(fast_space *space)
{
    const fast_space_service *s = space->owned.service;
    const fast_space_slot *slots = fast__space_own_store(space)->slots;
    const fast_space_link *link = space->copies.link;

    FAST_ASSERT(link->joined);
    for (int64_t i = 0; i < space->clocks.writer_count; i++) {
        const int64_t id = space->clocks.writers[i];
        const fast_space_caller *c = &s->callers[id];

        if (fast_member_is_down(space->actor, id))
            continue;
        if (fast__copies_answer(space) && c->greeted)
            FAST_TRY(fast__service_answer(space, id, FAST_SPACE_ACK, c->tensor, c->sequence,
                                          c->version, 0));
        FAST_TRY(fast__service_answer(space, id, FAST_SPACE_ROLE, 0, c->sequence,
                                      atomic_load(&slots[id].member) / 2, link->first));
    }
    return FAST_OK;
}

/* Note which copies went down, and tell those that are heard again that they have to join. */
static fast_err look(fast_space *space)
{
    fast_space_link *link = space->copies.link;

    FAST_ASSERT(link != NULL);
    for (int64_t k = 0; k < space->copies.count; k++) {
        const int64_t id = actor_of(space, k, space->map.me);
        const bool down = k != link->me && fast_member_is_down(space->actor, id);

        if (down && !link->lost[k]) {
            link->lost[k] = true;
            link->life[k] = fast__peer(space->actor, id)->life;
        } else if (!down && link->lost[k] && link->life[k] != UINT32_MAX && link->joined) {
            const bool same = fast__peer(space->actor, id)->life == link->life[k];

            link->life[k] = UINT32_MAX; /* told once; a new life joins by itself */
            if (same)
                FAST_TRY(tell(space, k, FAST_SPACE_REJOIN));
        }
    }
    return FAST_OK;
}

/* Find the copies before and behind this one that are not lost. */
static void find_neighbours(const fast_space_link *link, int64_t *before_out, int64_t *after_out)
{
    bool passed = false;

    FAST_ASSERT(link->length > 0);
    *before_out = *after_out = -1;
    for (int64_t i = 0; i < link->length; i++) {
        const int64_t k = link->order[i];

        if (k == link->me)
            passed = true;
        else if (!link->lost[k] && !passed)
            *before_out = k;
        else if (!link->lost[k] && *after_out < 0)
            *after_out = k;
    }
}

/*
 * Called before requests are handled, and after every message between copies. It compares the chain
 * as it is now with the links of this copy:
 *
 *   nobody is before it any more    it is the first: the writers are told, and send to it
 *   another copy is behind it       that one gets the state, and answers from now on
 *   nobody is behind it any more    it is the last: it acknowledges all updates, and answers
 *
 * The copy before it changes by a STATE alone, so that no request is applied out of order.
 */
fast_err fast__copies_advance(fast_space *space)
{
    fast_space_link *link = space->copies.link;
    int64_t before, after;

    if (!link)
        return FAST_OK;
    FAST_ASSERT(space->map.me >= 0);
    FAST_TRY(look(space));
    if (!link->joined)
        return FAST_OK;
    find_neighbours(link, &before, &after);
    const bool first = before < 0 && !link->first, moved = after != link->after;
    if (before < 0) /* a copy that is found before this one later has its state from this one */
        link->before = -1;
    link->first = before < 0;
    link->after = after;
    /* The next copy answers from now on: gets that are pending here are sent again to it. */
    if (moved && after >= 0) {
        for (int64_t id = 0; id < fast_actor_count(space->actor); id++)
            fast__service_drop(space->owned.service, id, NULL);
        FAST_TRY(send_state(space));
    }
    return first || (moved && after < 0) ? tell_role(space) : FAST_OK;
}

/* Actors that use the space. */

fast_err fast__copies_retain(fast_space *space, int64_t owner, const fast_msg *msg)
{
    fast_msg **unacked = space->copies.unacked;
    const int64_t number = msg->words[FAST_SPACE_W_A];

    if (!unacked)
        return FAST_OK;
    fast_msg **slot = &unacked[owner * FAST_SPACE_WINDOW + number % FAST_SPACE_WINDOW];
    FAST_ASSERT(owner < space->map.owner_count);
    fast_msg_free(*slot); /* of an update that failed */
    *slot = NULL;
    return copy_message(space, msg, slot);
}

void fast__copies_acked(fast_space *space, int64_t owner, int64_t from)
{
    fast_msg **unacked = space->copies.unacked;

    FAST_ASSERT(from >= 0);
    for (int64_t n = from + 1; unacked && n <= space->map.owners[owner].acked; n++) {
        fast_msg **slot = &unacked[owner * FAST_SPACE_WINDOW + n % FAST_SPACE_WINDOW];

        fast_msg_free(*slot);
        *slot = NULL;
    }
}

/* Send the updates and ticks again that follow number `from`. */
static fast_err send_again(fast_space *space, int64_t owner, int64_t from)
{
    const fast_space_owner *o = &space->map.owners[owner];

    FAST_ASSERT(space->copies.unacked != NULL);
    for (int64_t n = (from > o->acked ? from : o->acked) + 1; n <= o->sent; n++) {
        const fast_msg *msg =
            space->copies.unacked[owner * FAST_SPACE_WINDOW + n % FAST_SPACE_WINDOW];
        fast_msg *copy = NULL;

        FAST_ASSERT(msg && msg->words[FAST_SPACE_W_A] == n);
        FAST_TRY(copy_message(space, msg, &copy));
        FAST_TRY(fast_send(space->actor, o->id, &copy));
    }
    return FAST_OK;
}

/* Send all that a copy in a new place may lack. */
static fast_err catch_up(fast_space *space, int64_t owner, int64_t from, bool known, bool first)
{
    const fast_space_owner *o = &space->map.owners[owner];
    const int64_t none[3] = { 0 };
    const int64_t hello[3] = { (int64_t)space->signature, fast_actor_life(space->actor),
                               space->clocks.own };

    FAST_ASSERT(!space->copies.link);
    if (first && !known)
        FAST_TRY(fast__space_tell(space, o->id, FAST_SPACE_HELLO, 0, owner, hello));
    if (first)
        FAST_TRY(send_again(space, owner, known ? from : 0));
    if (o->asked != 0) /* by a get or a task */
        FAST_TRY(fast__remote_ask(space, owner));
    return o->leaving && !o->left ? fast__space_tell(space, o->id, FAST_SPACE_LEAVE, 0, owner, none)
                                  : FAST_OK;
}

/* Gets and LEAVEs go to the first copy also where only the last has changed: they are passed on to
 * it. Answers that come twice are dropped, like those to gets that were given up. */
fast_err fast__copies_follow(fast_space *space, int64_t owner, const fast_msg *msg)
{
    fast_space_owner *o = &space->map.owners[owner];
    const bool first = msg->words[FAST_SPACE_W_C] != 0;
    const bool known = msg->words[FAST_SPACE_W_B] == fast_actor_life(space->actor) + 1;

    if (!space->copies.unacked)
        return FAST_OK;
    FAST_ASSERT(fast__copies_owns(space, owner, msg->from));
    if (first)
        o->id = msg->from;
    const fast_err err = catch_up(space, owner, msg->words[FAST_SPACE_W_A], known, first);
    /* It went down again: the next first copy tells. */
    return err == FAST_EPEER ? FAST_OK : err;
}

int64_t fast__copies_whom(const fast_space *space, int64_t owner)
{
    const int64_t id = space->map.owners[owner].id;

    FAST_ASSERT(owner >= 0);
    if (space->copies.count == 0 || !fast_member_is_down(space->actor, id))
        return id;
    for (int64_t k = 0; k < space->copies.count; k++)
        if (!fast_member_is_down(space->actor, actor_of(space, k, owner)))
            return actor_of(space, k, owner);
    return id;
}

fast_err fast__copies_excuse(const fast_space *space, int64_t owner, fast_err err)
{
    if (err != FAST_EPEER || space->copies.count == 0)
        return err;
    FAST_ASSERT(owner >= 0 && owner < space->map.owner_count);
    return fast_member_is_down(space->actor, fast__copies_whom(space, owner)) ? err : FAST_OK;
}
