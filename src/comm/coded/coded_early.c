/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Coded sums that start before the vector is complete (wait-free back-propagation with codecs):
 * where each layer is a block of its own, a piece of some layers can be encoded and sent while
 * earlier layers are still computed. Encodings go straight to all other members (allgatherv.c) and
 * are decoded by rank, as with the method gather of coded.c: a block's encoding depends on its
 * layer, its residual and the number of the sum, so the bits do not depend on the pieces.
 *
 * Where streams of entries are merged (sparse.c), a piece is a nonblocking sparse allreduce of its
 * layers instead (SparCML's nonblocking calls).
 *
 * Cost: for each piece P - 1 messages, and a frame of its own. Time for encoding is charged when
 * the piece is waited for: a piece is posted inside a backward pass and must not take simulated
 * time there.
 */
#include "base/memory.h"
#include "comm/coded.h"
#include "tensor/vector.h"

/* Cut from the last block to the first; with pieces NULL only count them. */
static int64_t cut(const fast_coder *coder, int64_t least, fast_coded_piece *pieces)
{
    FAST_ASSERT(least >= 0);
    int64_t count = 0, end = fast__coder_block_count(coder);

    while (end > 0) {
        fast_coded_piece p = { .first = end };

        while (p.first > 0 && (p.count == 0 || p.count < least)) {
            int64_t size;

            fast__coder_block_at(coder, --p.first, &p.offset, &size);
            p.count += size;
        }
        p.block_count = end - p.first;
        end = p.first;
        if (pieces)
            pieces[count] = p;
        count++;
    }
    return count;
}

/* Return true if a sum merges streams of entries. */
static bool merges(const fast_coded *c)
{
    const fast_coded_way way = fast__coded_way(c);

    FAST_ASSERT(way != FAST_CODED_AUTO);
    return way >= FAST_CODED_SPARSE && way <= FAST_CODED_BUTTERFLY;
}

/* Pieces are cut once for a group and used in every step. */
fast_err fast__coded_cut(fast_coded *c, fast_group *group, int64_t least, fast_coded_piece **out,
                         int64_t *count_out)
{
    FAST_ASSERT(out && count_out);
    const fast_chain *chain;
    fast_coded_figures *figures;
    const fast_coder *coder = fast__coded_whole(c, &chain, &figures);
    fast_coded_piece *pieces = NULL;
    fast_err err = FAST_OK;

    *out = NULL;
    *count_out = 0;
    if (fast__coded_estimates(c) || (fast__coded_way(c) != FAST_CODED_GATHER && !merges(c)) ||
        (fast__chain_traits(chain) & FAST_CODEC_SHARES) || fast__coder_block_count(coder) < 2)
        return FAST_OK;
    const int64_t count = cut(coder, least, NULL);
    FAST_TRY(fast__alloc("pieces of a coded sum", count, sizeof *pieces, &pieces));
    cut(coder, least, pieces);
    for (int64_t i = 0; i < count && !err; i++)
        err = fast__allgatherv_init(&pieces[i].spread, group, "coded sum");
    if (err) {
        fast__coded_cut_free(pieces, count);
        return err;
    }
    *out = pieces;
    *count_out = count;
    return FAST_OK;
}

void fast__coded_cut_free(fast_coded_piece *pieces, int64_t count)
{
    FAST_ASSERT(count >= 0);
    for (int64_t i = 0; pieces && i < count; i++) {
        if (pieces[i].request) /* given up: its wait frees it, whatever its outcome */
            (void)!fast_request_wait(&pieces[i].request, FAST_AT_ONCE);
        fast__allgatherv_fini(&pieces[i].spread);
    }
    fast__free(pieces);
}

/* Start the sparse allreduce of a piece's entries, to its place in the sum's dense vector. */
static fast_err start_merging(fast_coded *c, fast_coded_piece *p, fast_buffer **move)
{
    fast_sparse x = { .size = p->count };
    fast_err err =
        fast__coded_entries(c, p->first, p->block_count, fast_buffer_data(*move), p->size, &x);
    const fast_sparse_call how = fast__coded_call(c, p->first + 1);

    FAST_ASSERT(!p->request);
    fast_buffer_free(*move);
    *move = NULL;
    if (err)
        return err;
    return fast__allreduce_sparse_start(p->spread.collective.group, &x, &how,
                                        fast__coded_dense(c) + p->offset, &p->request);
}

/* The time of the encoding is measured here and charged in fast__coded_finish(). */
fast_err fast__coded_start(fast_coded *c, fast_coded_piece *p, int64_t step, double progress,
                           const float *x)
{
    FAST_ASSERT(p->block_count > 0 && x);
    const fast_chain *chain;
    fast_coded_figures *f;
    fast_coder *coder = fast__coded_whole(c, &chain, &f);
    fast_actor *actor = p->spread.collective.group->actor;
    const int64_t begin = fast__steady_now(actor);
    fast_buffer *buffer = NULL;

    FAST_TRY(fast_buffer_new(actor, fast__coder_bound(coder), &buffer));
    p->size = fast__coder_encode_part(coder, p->first, p->block_count, step, progress, x,
                                      fast_buffer_data(buffer));
    fast__count(&f->bytes_in, p->count * (int64_t)sizeof *x);
    fast__count(&f->bytes_out, (int64_t)p->size);
    p->spent_ns = fast__steady_now(actor) - begin;
    return merges(c) ? start_merging(c, p, &buffer)
                     : fast__allgatherv_start(&p->spread, &buffer, p->size);
}

/* Decoded by rank, so that all members add in the same order. */
fast_err fast__coded_finish(fast_coded *c, fast_coded_piece *p, float *x, int64_t deadline)
{
    FAST_ASSERT(p->size > 0 && x);
    const fast_chain *chain;
    fast_coded_figures *f;
    fast_coder *coder = fast__coded_whole(c, &chain, &f);
    fast_group *group = p->spread.collective.group;
    fast_actor *actor = group->actor;

    if (p->request) {
        FAST_TRY(fast_request_wait(&p->request, deadline));
        fast__vector_copy(p->count, fast__coded_dense(c) + p->offset, x + p->offset);
    }
    FAST_TRY(fast__charge_encode(actor, chain, fast__steady_now(actor) - p->spent_ns, p->count,
                                 p->size, f));
    for (int64_t r = 0; r < group->size && !merges(c); r++) {
        const fast_allgatherv_part *part = NULL;

        FAST_TRY(fast__allgatherv_wait(&p->spread, r, deadline, &part));
        const int64_t begin = fast__steady_now(actor);
        FAST_TRY(fast__coder_decode_part(coder, p->first, p->block_count, part->data, part->size,
                                         r ? FAST_DECODE_ADD : FAST_DECODE_SET, 1, x));
        fast__count(&f->bytes_dec, p->count * (int64_t)sizeof *x);
        FAST_TRY(fast__charge_decode(actor, chain, begin, p->count, part->size, f));
    }
    fast__allgatherv_drop(&p->spread);
    fast__coded_vote(c, p->count, x + p->offset);
    return FAST_OK;
}

/* The coder now counts one encoding for all pieces of the step. */
void fast__coded_end(fast_coded *c)
{
    FAST_ASSERT(fast__coded_way(c) == FAST_CODED_GATHER || merges(c));
    const fast_chain *chain;
    fast_coded_figures *figures;

    fast__coder_encode_end(fast__coded_whole(c, &chain, &figures));
}
