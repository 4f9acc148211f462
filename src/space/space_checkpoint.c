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
 *
 * Versions and clocks start anew, unless it is a snapshot of programs in mid-run. Where both ends
 * share memory the reader holds what a remote owner would: records of the other end are used where
 * the actor's own lack something, so that a space may be saved on one transport and restored on
 * another.
 *
 * A snapshot is packed by each actor itself, while no message is in flight and no operation under
 * way: requests, acknowledgements and values that were sent unasked need no records, and sequence
 * numbers start anew at both ends.
 *
 * An owner's records may be made by another thread while no actor can complete a round: nothing
 * that is read here changes then. Cost: a copy.
 */
#include "space/space_checkpoint.h"
#include "space/space_store.h"
#include "tensor/vector.h"

#include <string.h>

enum { VALUES = 1, CODER, HELD, READER, CLOCKS, VERSIONS };

/* Words that precede the floats of a record. */
enum {
    WORD_A,        /* VALUES: offset of the range; CODER: encodings; HELD, READER: messages */
    WORD_WHOLE,    /* HELD, READER: 1 if values were ever received */
    WORD_FRACTION, /* HELD, READER: bits of the fraction of a difference that was sent */
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

/* Values first, then flows, then what readers hold: the order in which they are restored. */
void fast__space_save(const fast_space *space, bool clocks, fast_pack *pack)
{
    fast_space_flows flows;

    FAST_ASSERT(space != NULL && pack != NULL);
    put_values(space, pack);
    if (clocks)
        put_clocks(space, pack);
    if (!fast__space_flows(space, &flows))
        return;
    for (int way = 0; way < FAST_SPACE_WAYS; way++)
        for (int64_t i = 0; flows.coders[way] && i < space->map.owner_count; i++) {
            fast_coder *coder = flows.coders[way][i];
            int64_t count = 0;

            if (!coder || (way == FAST_SPACE_UP && space->clocks.rank < 0))
                continue; /* an actor that only decodes has no residual */
            const float *floats = fast__coder_state(coder, &count);
            put(pack, CODER, way * space->map.owner_count + i,
                (const int64_t[WORDS]){ [WORD_A] = fast__coder_encodings(coder) }, floats, count);
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
static fast_err take_coder(const fast_space *space, const fast_space_flows *flows,
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
