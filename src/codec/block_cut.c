/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The blocks of a flow: one, or one for each segment of its layout (scope layer). Of a segment that
 * the range cuts within its rows the whole rows are a block, so that codecs of matrices work on
 * shards too, and the parts of rows before and behind are two more.
 */
#include "codec/block_cut.h"

#include <string.h>

/* The lesser of two counts. */
static int64_t min64(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

/* Blocks of one segment at most: whole rows of a matrix, and parts of rows before and behind. */
enum { CUTS = 3 };

/* Cut the part of segment s that lies in the range; return the number of blocks. */
static int64_t cut_segment(const fast_coder_options *o, const fast_segment *s,
                           coder_block out[CUTS])
{
    const int64_t begin = s->offset > o->offset ? s->offset : o->offset;
    const int64_t end = min64(s->offset + s->count, o->offset + o->count);
    const int64_t cols = s->rank > 1 && s->shape[0] > 0 ? s->count / s->shape[0] : s->count;
    const int64_t count = end > begin ? end - begin : 0;
    const int64_t head = cols > 0 ? min64((cols - (begin - s->offset) % cols) % cols, count) : 0;
    const int64_t rows = cols > 0 ? (count - head) / cols : 0, tail = count - head - rows * cols;
    const int64_t counts[CUTS] = { head, rows * cols, tail };
    int64_t n = 0, at = begin - o->offset;

    if (count == 0)
        return 0;
    if (rows < 2) {
        out[0] = (coder_block){ .block = { 1, count, count }, .at = at };
        return 1;
    }
    for (int i = 0; i < CUTS; at += counts[i++])
        if (counts[i] > 0)
            out[n++] =
                (coder_block){ .block = { i == 1 ? rows : 1, i == 1 ? cols : counts[i], counts[i] },
                               .at = at };
    return n;
}

int64_t fast__blocks_cut(const fast_coder_options *o, bool layers, coder_block *blocks)
{
    int64_t count = 0;

    if (!layers) {
        if (blocks)
            blocks[0] = (coder_block){ .block = { 1, o->count, o->count } };
        return 1;
    }
    for (int64_t i = 0; i < o->layout->segment_count; i++) {
        coder_block cuts[CUTS];
        const int64_t n = cut_segment(o, &o->layout->segments[i], cuts);

        if (blocks)
            memcpy(blocks + count, cuts, (size_t)n * sizeof *cuts);
        count += n;
    }
    return count;
}
