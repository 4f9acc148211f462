/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Layouts and maps of chunks, one after the other: segments, pieces and ranges move by the elements
 * of the chunks before.
 */
#include "split/chunks.h"

#include "base/memory.h"

/* Append a layout; the chunks before have *layout. */
static void append_layout(const fast_layout *chunk, fast_segment *segments, fast_layout *layout)
{
    for (int64_t i = 0; i < chunk->segment_count; i++) {
        fast_segment *out = &segments[layout->segment_count++];

        *out = chunk->segments[i];
        out->offset += layout->count;
    }
    layout->count += chunk->count;
}

/* Append the pieces of a map; the chunks before have `before` elements. */
static void append_map(const fast_split_map *chunk, int64_t before, fast_split_map *map)
{
    for (int64_t i = 0; i < chunk->count; i++) {
        fast_split_piece *piece = &map->pieces[map->count++];

        *piece = chunk->pieces[i];
        piece->part += before;
    }
}

/* Append a chunk. */
static void append(const fast_split_shard *shard, fast_split_chunks *out)
{
    const int64_t params = out->params.count;

    append_map(&shard->map, params, &out->map);
    append_map(&shard->state_map, out->state.count, &out->state_map);
    for (int64_t i = 0; i < shard->partial_count; i++)
        out->partial[out->partial_count++] =
            (fast_split_range){ shard->partial[i].offset + params, shard->partial[i].count };
    append_layout(&shard->params, (fast_segment *)(uintptr_t)out->params.segments, &out->params);
    append_layout(&shard->state, (fast_segment *)(uintptr_t)out->state.segments, &out->state);
}

/* Allocate what the chunks need together. */
static fast_err allocate(const fast_split_shard *const *shards, int64_t count,
                         fast_split_chunks *out)
{
    int64_t params = 0, state = 0, pieces = 0, partial = 0;

    for (int64_t i = 0; i < count; i++) {
        params += shards[i]->params.segment_count;
        state += shards[i]->state.segment_count;
        pieces += shards[i]->map.count;
        partial += shards[i]->partial_count;
    }
    FAST_TRY(fast__alloc("tensors of chunks", params + state + 1, sizeof *out->segments,
                         &out->segments));
    FAST_TRY(
        fast__alloc("pieces of chunks", pieces + 1, sizeof *out->map.pieces, &out->map.pieces));
    FAST_TRY(fast__alloc("pieces of states", state + 1, sizeof *out->state_map.pieces,
                         &out->state_map.pieces));
    FAST_TRY(fast__alloc("partial tensors", partial + 1, sizeof *out->partial, &out->partial));
    out->params.segments = out->segments;
    out->state.segments = out->segments + params;
    return FAST_OK;
}

fast_err fast__split_chunks_new(const fast_split_shard *const *shards, int64_t count,
                                fast_split_chunks **out)
{
    fast_split_chunks *chunks = NULL;

    FAST_ASSERT(count >= 1);
    FAST_TRY(fast__alloc("chunks", 1, sizeof *chunks, &chunks));
    const fast_err err = allocate(shards, count, chunks);
    if (err) {
        fast__split_chunks_free(chunks);
        return err;
    }
    for (int64_t i = 0; i < count; i++)
        append(shards[i], chunks);
    *out = chunks;
    return FAST_OK;
}

void fast__split_chunks_free(fast_split_chunks *chunks)
{
    if (!chunks)
        return;
    fast__free(chunks->segments);
    fast__free(chunks->map.pieces);
    fast__free(chunks->state_map.pieces);
    fast__free(chunks->partial);
    fast__free(chunks);
}
