/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The state of one actor's view of a space between two rounds, in records (base/pack.h), so that a
 * space that is opened later continues where this one was closed:
 *
 *   VALUES   an owner's range of a tensor
 *   CODER    a flow: the number of vectors it has encoded, its residual, its codec's own vectors
 *   HELD     the values of an owner's range that this reader holds, where differences are read
 *   READER   the values that a remote reader holds, as the owner knows them
 *   CLOCKS   in a snapshot: this actor's clock, then the versions that it last read, by owner and
 *            tensor, all int64
 *   VERSIONS in a snapshot: of the tensors at an owner, int64
 *   REQUESTS in a snapshot, of a remote owner: updates and ticks sent to it, those that the values
 *            last read hold, and those that all held values have where differences are read
 *   PUSHED   in a snapshot: values that a remote eager owner sent unasked: the receiver's updates
 *            that they hold, their version and clock, then the encoded values
 *   CALLERS  in a snapshot, of an owner: the clock at which it last sent values unasked, then for
 *            each actor whether it is sent any, its updates, and the version and clock that all
 *            elements have which it was sent
 *   COPIED   in a snapshot, of a tensor at an owner: the version of its copy for readers
 *
 * Versions and clocks start anew, unless it is a snapshot of programs in mid-run. Where both ends
 * share memory the reader holds what a remote owner would: records of the other end are used where
 * the actor's own lack something, so that a space may be saved on one transport and restored on
 * another.
 *
 * A snapshot is packed by each actor itself, while no message is in flight and no operation under
 * way: all requests are acknowledged, and messages are numbered anew. Only the sender counts on, so
 * that no two actors' records have to agree.
 *
 * Example: a worker of two servers, with eager values of the second one that hold 5 of its 7
 * updates and ticks, version 12, clock 3:
 *
 *     CLOCKS 0     3 | 12 0 | 11 0         its clock, then versions by owner and tensor
 *     REQUESTS 0   7 7 0                   the first server's values hold all of them
 *     REQUESTS 1   7 5 0
 *     PUSHED 1     5 12 3 | values
 *
 * An owner's records may be made by another thread while no actor can complete a round: nothing
 * that is read here changes then. Cost: a copy.
 */
#include "space/space_checkpoint.h"
#include "space/space_service.h"
#include "tensor/vector.h"

#include <string.h>

enum { VALUES = 1, CODER, HELD, READER, CLOCKS, VERSIONS, REQUESTS, PUSHED, CALLERS, COPIED };
enum { PUSHED_HELD, PUSHED_VERSION, PUSHED_CLOCK, PUSHED_WORDS }; /* int64 before its values */
enum { CALLER_WORDS = 4 };                                        /* int64 for each actor */
static const int64_t COUNT_MAX = INT64_MAX / 4; /* of requests: no sum overflows */

/* Words that precede the floats of a record. */
enum {
    WORD_A,        /* VALUES: offset of the range; CODER: encodings; HELD, READER: messages */
    WORD_WHOLE,    /* HELD, READER: 1 if values were ever received; CODER: elements are due */
    WORD_FRACTION, /* HELD, READER: bits of the fraction of a difference that was sent; CODER, of a
                      flow up in a snapshot: bits of the time of its last vector */
    WORD_TIME,     /* READER: bits of the time of the last message to it */
    WORDS
};

/* Append a record of words and floats. */
static void put(fast_pack *pack, int64_t kind, int64_t number, const int64_t words[WORDS],
                const float *floats, int64_t count)
{
    const size_t head = WORDS * sizeof *words, size = (size_t)count * sizeof *floats;
    uint8_t *at = fast__pack_add(pack, kind, number, head + size);

    FAST_ASSERT(count >= 0 && (count == 0 || floats != NULL));
    if (!at)
        return;
    memcpy(at, words, head);
    if (count > 0)
        fast__vector_copy(count, floats, at + head);
}

/* Append the ranges that this actor owns. */
static void put_values(const fast_space *space, fast_pack *pack)
{
    FAST_ASSERT(pack);
    for (int64_t tensor = 0; space->map.me >= 0 && tensor < space->map.tensor_count; tensor++) {
        int64_t offset, count;

        fast__space_range(space, space->map.me, tensor, &offset, &count);
        if (count > 0)
            put(pack, VALUES, tensor, (const int64_t[WORDS]){ [WORD_A] = offset },
                fast__space_values(space, space->map.me, tensor), count);
    }
}

/* Append the values that a reader holds. */
static void put_shadow(fast_pack *pack, int64_t kind, int64_t number, const fast_shadows *shadows,
                       const fast_shadow *shadow)
{
    FAST_ASSERT(shadow->values);
    int64_t words[WORDS] = { [WORD_A] = shadow->number, [WORD_WHOLE] = shadow->whole };

    memcpy(&words[WORD_FRACTION], &shadow->sent, sizeof shadow->sent);
    memcpy(&words[WORD_TIME], &shadow->now_s, sizeof shadow->now_s);
    put(pack, kind, number, words, shadow->values, fast__shadows_floats(shadows));
}

/* Append the clock, the versions that were read, and those of an owner: staleness is the difference
 * of the two, and a read waits for clocks. */
static void put_clocks(const fast_space *space, fast_pack *pack)
{
    const int64_t tensor_count = space->map.tensor_count;
    const size_t cells = (size_t)(space->map.owner_count * tensor_count) * sizeof(int64_t);
    uint8_t *at = fast__pack_add(pack, CLOCKS, 0, sizeof(int64_t) + cells);

    FAST_ASSERT(space->clocks.read != NULL);
    if (at) {
        memcpy(at, &space->clocks.own, sizeof(int64_t));
        memcpy(at + sizeof(int64_t), space->clocks.read, cells);
    }
    if (space->map.me < 0)
        return;
    at = fast__pack_add(pack, VERSIONS, 0, (size_t)tensor_count * sizeof(int64_t));
    for (int64_t t = 0; at && t < tensor_count; t++) {
        const int64_t version = atomic_load(&fast__space_own_store(space)->ranges[t].version);

        memcpy(at + (size_t)t * sizeof version, &version, sizeof version);
    }
}

/* Append the counts of requests to remote owners, and values that they sent unasked. Local owners
 * have neither: their ranges are used in place. An owner that is remote in the resumed run and was
 * local before starts with the counts 0 at both ends. */
static void put_requests(const fast_space *space, fast_pack *pack)
{
    FAST_ASSERT(space->map.owner_count > 0);
    for (int64_t i = 0; i < space->map.owner_count; i++) {
        const fast_space_owner *o = &space->map.owners[i];
        const fast_msg *msg = o->pushed;

        if (!o->store.head)
            fast__pack_put(pack, REQUESTS, i, (const int64_t[3]){ o->sent, o->seen, o->complete },
                           3 * sizeof(int64_t));
        if (!msg || msg->part_count != 1)
            continue;
        const int64_t words[PUSHED_WORDS] = {
            [PUSHED_HELD] = o->base - msg->words[FAST_SPACE_W_A],
            [PUSHED_VERSION] = msg->words[FAST_SPACE_W_B],
            [PUSHED_CLOCK] = msg->words[FAST_SPACE_W_C],
        };
        uint8_t *at = fast__pack_add(pack, PUSHED, i, sizeof words + msg->parts[0].size);
        if (!at)
            continue;
        memcpy(at, words, sizeof words);
        if (msg->parts[0].size > 0)
            memcpy(at + sizeof words, fast_msg_data(msg, 0), msg->parts[0].size);
    }
}

/* Append an owner's knowledge of the actors that use it. The number of updates decides the order of
 * its answers, and an eager owner sends values to actors that have read. */
static void put_callers(const fast_space *space, fast_pack *pack)
{
    const fast_space_service *s = space->owned.service;
    const int64_t actors = fast_actor_count(space->actor);
    const size_t size = (size_t)(1 + CALLER_WORDS * actors) * sizeof(int64_t);

    FAST_ASSERT(space->map.me >= 0);
    uint8_t *at = fast__pack_add(pack, CALLERS, 0, size);
    if (!at)
        return;
    memcpy(at, &(int64_t){ s ? s->pushed : 0 }, sizeof(int64_t));
    for (int64_t i = 0; i < actors; i++) {
        const int64_t words[CALLER_WORDS] = {
            s && s->callers[i].reads,
            atomic_load(&fast__space_own_store(space)->slots[i].updates),
            s ? s->callers[i].held_version : 0,
            s ? s->callers[i].held_clock : 0,
        };

        memcpy(at + (size_t)(1 + CALLER_WORDS * i) * sizeof(int64_t), words, sizeof words);
    }
}

/* Append the versions of an owner's copies: the next reader of the same version costs no copy, in
 * the resumed run as in the one that was saved, so that both take the same time. */
static void put_copied(const fast_space *space, fast_pack *pack)
{
    const fast_space_service *s = space->owned.service;

    FAST_ASSERT(space->map.me >= 0);
    for (int64_t t = 0; s && t < space->map.tensor_count; t++)
        if (s->snapshots[t].copied)
            fast__pack_put(pack, COPIED, t, &s->snapshots[t].version, sizeof(int64_t));
}

/* Append a flow; with the time of its last vector if it is `timed`: a budget of bandwidth grows
 * with the time since then. */
static void put_coder(const fast_space *space, fast_pack *pack, int64_t number, bool timed,
                      fast_coder *coder)
{
    int64_t words[WORDS] = { [WORD_A] = fast__coder_encodings(coder) }, count = 0;
    const float *floats = fast__coder_state(coder, &count);

    FAST_ASSERT(number >= 0);
    words[WORD_WHOLE] = timed && fast__space_due(space);
    if (timed)
        memcpy(&words[WORD_FRACTION], fast__coder_last_s(coder), sizeof(double));
    put(pack, CODER, number, words, floats, count);
}

/* Values first, then flows, then what readers hold: the order in which they are restored. */
void fast__space_save(const fast_space *space, bool clocks, fast_pack *pack)
{
    fast_space_flows flows;

    FAST_ASSERT(space != NULL && pack != NULL);
    put_values(space, pack);
    if (clocks) {
        put_clocks(space, pack);
        put_requests(space, pack);
    }
    if (clocks && space->map.me >= 0) {
        put_callers(space, pack);
        put_copied(space, pack);
    }
    if (!fast__space_flows(space, &flows))
        return;
    for (int way = 0; way < FAST_SPACE_WAYS; way++)
        for (int64_t i = 0; flows.coders[way] && i < space->map.owner_count; i++) {
            fast_coder *coder = flows.coders[way][i];

            if (!coder || (way == FAST_SPACE_UP && space->clocks.rank < 0))
                continue; /* an actor that only decodes has no residual */
            put_coder(space, pack, way * space->map.owner_count + i, clocks && way == FAST_SPACE_UP,
                      coder);
        }
    for (int64_t i = 0; flows.held && i < space->map.owner_count; i++)
        if (flows.held[i].values)
            put_shadow(pack, HELD, i, flows.shadows[i], &flows.held[i]);
    for (int64_t i = 0; flows.readers && i < flows.actors; i++)
        if (flows.readers[i].values)
            put_shadow(pack, READER, i, flows.shadows[space->map.me], &flows.readers[i]);
}

/* Read a record's words and return its floats; NULL if it does not have `count` floats. */
static const uint8_t *open_record(const fast_pack_record *record, int64_t words[WORDS],
                                  int64_t count)
{
    FAST_ASSERT(count >= 0);
    const size_t head = WORDS * sizeof *words;

    if (record->size != head + (size_t)count * sizeof(float))
        return NULL;
    memcpy(words, record->data, head);
    return (const uint8_t *)record->data + head;
}

/* The error for a record that does not fit this space. */
static fast_err damaged(const fast_space *space, const fast_pack_record *record)
{
    FAST_ASSERT(record);
    return fast__fail(
        FAST_EFORMAT, "record %lld of kind %lld, %zu bytes, does not belong to space \"%s\"",
        (long long)record->number, (long long)record->kind, record->size, space->name);
}

/* Restore a flow: its encodings, residual and codec's vectors. */
static fast_err take_coder(fast_space *space, const fast_space_flows *flows,
                           const fast_pack_record *record)
{
    FAST_ASSERT(record->kind == CODER);
    const int64_t owners = space->map.owner_count, number = record->number;
    int64_t words[WORDS], count = 0;
    fast_coder *coder = NULL;

    if (number >= 0 && number < FAST_SPACE_WAYS * owners && flows->coders[number / owners])
        coder = flows->coders[number / owners][number % owners];
    float *floats = coder ? fast__coder_state(coder, &count) : NULL;
    const uint8_t *from = coder ? open_record(record, words, count) : NULL;
    if (!from)
        return damaged(space, record);
    fast__coder_restart(coder, words[WORD_A] & INT64_MAX);
    fast__vector_copy(count, from, floats);
    if (words[WORD_FRACTION] == 0)
        return FAST_OK;
    double last_s = -1;
    memcpy(&last_s, &words[WORD_FRACTION], sizeof last_s);
    if (!(last_s >= 0 && last_s < 1e10))
        return damaged(space, record);
    *fast__coder_last_s(coder) = last_s;
    fast__space_set_due(space, words[WORD_WHOLE] != 0);
    return FAST_OK;
}

/* Restore the values that a reader holds. */
static fast_err take_shadow(const fast_space *space, const fast_shadows *shadows,
                            fast_shadow *shadow, const fast_pack_record *record)
{
    FAST_ASSERT(record->kind == HELD || record->kind == READER);
    const int64_t count = shadows ? fast__shadows_floats(shadows) : 0;
    int64_t words[WORDS];
    const uint8_t *from = shadows ? open_record(record, words, count) : NULL;

    if (!from)
        return damaged(space, record);
    FAST_TRY(fast__shadow_reserve(shadows, shadow));
    fast__vector_copy(count, from, shadow->values);
    memcpy(&shadow->sent, &words[WORD_FRACTION], sizeof shadow->sent);
    memcpy(&shadow->now_s, &words[WORD_TIME], sizeof shadow->now_s);
    if (!(shadow->now_s >= 0 && shadow->now_s < 1e10))
        return damaged(space, record);
    shadow->number = (uint32_t)words[WORD_A];
    shadow->whole = words[WORD_WHOLE] != 0;
    return FAST_OK;
}

/* Restore values of an owner whose range has not changed; others were restored before, by offset
 * (fast__space_values_load()). */
static fast_err take_values(const fast_space *space, const fast_pack_record *record)
{
    const bool known = record->number >= 0 && record->number < space->map.tensor_count;
    int64_t words[WORDS], offset = 0, count = 0;

    FAST_ASSERT(record->kind == VALUES);
    if (known && space->map.me >= 0)
        fast__space_range(space, space->map.me, record->number, &offset, &count);
    const uint8_t *from = count > 0 ? open_record(record, words, count) : NULL;
    if (from && words[WORD_A] == offset)
        fast__vector_copy(count, from, fast__space_values(space, space->map.me, record->number));
    return FAST_OK;
}

/* Restore the clock and the versions that were read, or an owner's versions. The owner learns the
 * clock when this actor enters (HELLO, or its slot in shared memory), so that it is in one record
 * only. Numbers below 0 are not of a snapshot; versions that are too large are found when an update
 * names them. */
static fast_err take_clocks(fast_space *space, const fast_pack_record *record)
{
    const int64_t tensor_count = space->map.tensor_count;
    const bool own = record->kind == CLOCKS;
    const int64_t count = own ? 1 + space->map.owner_count * tensor_count : tensor_count;

    FAST_ASSERT(own || record->kind == VERSIONS);
    if (record->size != (size_t)count * sizeof(int64_t) || (!own && space->map.me < 0))
        return damaged(space, record);
    for (int64_t i = 0; i < count; i++) {
        int64_t value = -1;

        memcpy(&value, (const uint8_t *)record->data + (size_t)i * sizeof value, sizeof value);
        if (value < 0)
            return damaged(space, record);
        if (!own)
            atomic_store(&fast__space_own_store(space)->ranges[i].version, value);
        else if (i == 0)
            space->clocks.own = space->clocks.rank >= 0 ? value : 0;
        else
            space->clocks.read[i - 1] = value;
    }
    return FAST_OK;
}

/* Restore the counts of requests to an owner; one that is local now has none. All requests were
 * acknowledged when the snapshot was taken, and the owner counts from 0 again. */
static fast_err take_requests(const fast_space *space, const fast_pack_record *record)
{
    const int64_t i = record->number;
    int64_t words[3];

    FAST_ASSERT(record->kind == REQUESTS);
    if (i < 0 || i >= space->map.owner_count || record->size != sizeof words)
        return damaged(space, record);
    memcpy(words, record->data, sizeof words);
    if (words[0] < 0 || words[0] > COUNT_MAX || words[1] > words[0] || words[1] < -COUNT_MAX ||
        words[2] > words[0] || words[2] < -COUNT_MAX)
        return damaged(space, record);
    fast_space_owner *o = &space->map.owners[i];
    if (!o->store.head) {
        o->sent = o->acked = o->base = words[0];
        o->seen = words[1];
        o->complete = words[2];
    }
    return FAST_OK;
}

/* Restore values that an owner sent unasked; one that is local now has sent none. They are checked
 * when a read uses them, as any message is. */
static fast_err take_pushed(fast_space *space, const fast_pack_record *record)
{
    const int64_t i = record->number;
    int64_t words[PUSHED_WORDS];
    fast_buffer *buffer = NULL;
    fast_msg *msg = NULL;

    FAST_ASSERT(record->kind == PUSHED);
    if (i < 0 || i >= space->map.owner_count || record->size < sizeof words)
        return damaged(space, record);
    memcpy(words, record->data, sizeof words);
    fast_space_owner *o = &space->map.owners[i];
    if (words[PUSHED_HELD] > COUNT_MAX || words[PUSHED_HELD] < -COUNT_MAX ||
        words[PUSHED_VERSION] < 0 || words[PUSHED_CLOCK] < 0 || o->pushed)
        return damaged(space, record);
    if (o->store.head || !space->reader.eager)
        return FAST_OK;
    const int64_t told[3] = { o->base - words[PUSHED_HELD], words[PUSHED_VERSION],
                              words[PUSHED_CLOCK] };
    const size_t size = record->size - sizeof words;
    FAST_TRY(fast__space_message(space, FAST_SPACE_VALUE, 0, i, told, &msg));
    const fast_err err = fast_buffer_new(space->actor, size, &buffer);
    if (err) {
        fast_msg_free(msg);
        return err;
    }
    if (size > 0)
        memcpy(fast_buffer_data(buffer), (const uint8_t *)record->data + sizeof words, size);
    fast_msg_add(msg, &buffer);
    msg->from = o->id;
    o->pushed = msg;
    return FAST_OK;
}

/* Restore an owner's knowledge of the actors that use it, by their numbers. Their clocks are not in
 * it: each actor names its own when it enters. A forged list changes the order of answers, and
 * which actors are sent values, but no value. */
static fast_err take_callers(const fast_space *space, const fast_pack_record *record)
{
    fast_space_service *s = space->owned.service;
    const size_t each = CALLER_WORDS * sizeof(int64_t), actors = record->size / each;
    const uint8_t *at = record->data;

    FAST_ASSERT(record->kind == CALLERS);
    if (space->map.me < 0 || record->size != sizeof(int64_t) + actors * each)
        return damaged(space, record);
    if (s)
        memcpy(&s->pushed, at, sizeof s->pushed);
    /* Actors that make batches are the last ones; another run may have more or fewer. */
    for (int64_t i = 0; i < (int64_t)actors && i < fast_actor_count(space->actor); i++) {
        int64_t words[CALLER_WORDS];

        memcpy(words, at + (size_t)(1 + CALLER_WORDS * i) * sizeof(int64_t), sizeof words);
        if (words[1] < 0 || words[1] > COUNT_MAX || words[2] < 0 || words[3] < 0)
            return damaged(space, record);
        if (s) {
            s->callers[i].reads = words[0] != 0;
            s->callers[i].held_version = words[2];
            s->callers[i].held_clock = words[3];
        }
        atomic_store(&fast__space_own_store(space)->slots[i].updates, words[1]);
    }
    return FAST_OK;
}

/* Restore the version of an owner's copy. The copy itself is made again when it is first asked
 * for, and its time is not charged: it was in the run that was saved. */
static fast_err take_copied(const fast_space *space, const fast_pack_record *record)
{
    fast_space_service *s = space->owned.service;
    int64_t version = -1;

    FAST_ASSERT(record->kind == COPIED);
    if (record->size == sizeof version)
        memcpy(&version, record->data, sizeof version);
    if (version < 0 || record->number < 0 || record->number >= space->map.tensor_count)
        return damaged(space, record);
    if (s) {
        s->snapshots[record->number].version = version;
        s->snapshots[record->number].copied = true;
    }
    return FAST_OK;
}

/* Restore from a record of this actor's own. */
static fast_err take_own(fast_space *space, const fast_space_flows *flows,
                         const fast_pack_record *record)
{
    const int64_t i = record->number;

    FAST_ASSERT(record->data != NULL || record->size == 0);
    switch (record->kind) {
    case VALUES:
        return take_values(space, record);
    case CLOCKS:
    case VERSIONS:
        return take_clocks(space, record);
    case REQUESTS:
        return take_requests(space, record);
    case PUSHED:
        return take_pushed(space, record);
    case CALLERS:
        return take_callers(space, record);
    case COPIED:
        return take_copied(space, record);
    case CODER:
        return take_coder(space, flows, record);
    case HELD:
        if (i < 0 || i >= space->map.owner_count || !flows->held)
            return damaged(space, record);
        return take_shadow(space, flows->shadows[i], &flows->held[i], record);
    case READER: /* a reader that is local now has its own record */
        if (i < 0 || i >= flows->actors || !flows->readers)
            return damaged(space, record);
        return fast_actor_is_local(space->actor, i)
                   ? FAST_OK
                   : take_shadow(space, flows->shadows[space->map.me], &flows->readers[i], record);
    default:
        return damaged(space, record);
    }
}

/* Restore from a record of the other end `from`. */
static fast_err take_others(const fast_space *space, const fast_space_flows *flows, int64_t from,
                            const fast_pack_record *record)
{
    FAST_ASSERT(from >= 0 && from != fast_actor_id(space->actor));
    if (record->kind == HELD && space->map.me >= 0 && record->number == space->map.me &&
        flows->readers && from < flows->actors && !fast_actor_is_local(space->actor, from) &&
        !flows->readers[from].whole)
        return take_shadow(space, flows->shadows[space->map.me], &flows->readers[from], record);
    if (record->kind != READER || record->number != fast_actor_id(space->actor) || !flows->held)
        return FAST_OK;
    for (int64_t i = 0; i < space->map.owner_count; i++)
        if (space->map.owners[i].id == from && space->map.owners[i].store.head)
            return take_shadow(space, flows->shadows[i], &flows->held[i], record);
    return FAST_OK;
}

/* Records of other actors fill gaps only: what this actor saved itself counts. */
fast_err fast__space_load(fast_space *space, int64_t from, const void *bytes, size_t size)
{
    FAST_ASSERT(bytes || size == 0);
    const bool own = from == fast_actor_id(space->actor);
    fast_space_flows flows = { .actors = 0 };
    fast_pack_record record;

    FAST_ASSERT(from >= 0);
    (void)fast__space_flows(space, &flows);
    for (size_t at = 0; fast__pack_next(bytes, size, &at, &record);)
        FAST_TRY(own ? take_own(space, &flows, &record)
                     : take_others(space, &flows, from, &record));
    return FAST_OK;
}

/* An owner list may have changed: ranges are placed by their offset, not by their owner. */
fast_err fast__space_values_load(const void *bytes, size_t size, int64_t tensor, int64_t length,
                                 float *x)
{
    FAST_ASSERT(x || length == 0);
    const size_t head = WORDS * sizeof(int64_t);
    fast_pack_record record;

    FAST_ASSERT(length >= 0);
    for (size_t at = 0; fast__pack_next(bytes, size, &at, &record);) {
        int64_t words[WORDS];

        if (record.kind != VALUES || record.number != tensor)
            continue;
        const int64_t count =
            record.size >= head ? (int64_t)((record.size - head) / sizeof *x) : -1;
        const uint8_t *from = count >= 0 ? open_record(&record, words, count) : NULL;
        if (!from || words[WORD_A] < 0 || words[WORD_A] > length || count > length - words[WORD_A])
            return fast__fail(FAST_EFORMAT, "the checkpoint's values of tensor %lld do not fit",
                              (long long)tensor);
        fast__vector_copy(count, from, x + words[WORD_A]);
    }
    return FAST_OK;
}
