/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Allreduce of sparse vectors: streams of sorted indices and their values are merged, and a sum
 * becomes dense where that is shorter (sparse_stream.c).
 *
 * With n = m + r members, ranks 2i + 1 give their vectors to ranks 2i for i < r, and at the end
 * ranks 2i pass the sum on. The m that remain are numbered, and sum by one of two methods:
 *
 *   double      m = 2^k. Each exchanges its whole sum with the partner at distance 1, 2, 4, ...:
 *               log2(m) messages of 8 k, 16 k, ... bytes for k entries each, where no two indices
 *               are equal
 *   butterfly   layers of degrees d1, d2, ..., whose product is m. Downwards a member cuts its
 *               range into d equal parts, sends part j to member j of its group, and merges the
 *               parts that arrive. Upwards the groups of the layers, the last one first, send each
 *               other their sums. Groups of the first layer are d1 neighbours, those of the second
 *               one d2 members at the distance d1, ... 2 (d - 1) messages a layer, which take at
 *               most 2 * 4 bytes an element in all. One layer of m is the split and allgather of
 *               SparCML.
 *
 *                   range of a member, 8 members, degrees 4x2:
 *                   |0       |1       |2       |3       |    layer 1: part of neighbours 0 .. 3
 *                   |0   |4   |                              layer 2: half of it, with member + 4
 *
 * Where degrees are powers of two, m = 2^k, and both add in the canonical order (comm.h), so the
 * bits are those of the dense sum, whatever the method: an entry is added to +0 where the other
 * stream has none; v + 0 is v, but -0 + 0 is +0. Other degrees add neighbours first, and have bits
 * of their own, the same at all members and on every transport.
 *
 * Memory of links: a stream whose indices are those of the last one on its link is sent without
 * them. Where the entries of all members stay the same, indices are sent once, and then values.
 *
 * Values of few bits: all members that hold a sum round it by the same random numbers, and each
 * continues with the rounded values that it sent, so that all end with the same bits.
 *
 * A call is a list of stages: post messages, wait for those of some members, merge them. It is run
 * blocking, or as a task of the actor.
 *
 * C. Renggli et al., "SparCML: high-performance sparse communication for machine learning", 2019
 * (SSAR by recursive doubling, and split and allgather; rounded values; nonblocking calls). H. Zhao
 * and J. Canny, "Kylix: a sparse allreduce for commodity clusters", 2014 (a butterfly of unequal
 * degrees, whose indices are configured once).
 */
#include "base/hash.h"
#include "base/memory.h"
#include "comm/allreduces.h"
#include "comm/coded.h"
#include "comm/coded/sparse_stream.h"
#include "comm/collective.h"
#include "tensor/vector.h"

#include <inttypes.h>
#include <string.h>

enum { DEGREE_MAX = FAST_SPARSE_DEGREE_MAX, STAGES_MAX = 2 * 64 + 2 };

/* The use of a stage for the messages of its group. */
typedef enum sparse_kind {
    STAGE_GIVE,    /* send the sum to the peer */
    STAGE_TAKE,    /* replace the sum by the peer's */
    STAGE_ADD,     /* add the peer's sum */
    STAGE_SWAP,    /* send the sum to the peer, and add the peer's */
    STAGE_SCATTER, /* give each member of the group its part, and merge those of the own part */
    STAGE_GATHER,  /* exchange the sums of the parts */
} sparse_kind;

/* A stage, with its group as this member sees it. Numbers are those of the members that remain
 * after folding; peer_of() makes them ranks. */
typedef struct sparse_stage {
    sparse_kind kind; /* of the stage */
    int64_t degree;   /* members of the group; 1: the peer alone */
    int64_t stride;   /* between their numbers, or of a swap between the two */
    int64_t own;      /* place of this member among them; -1: it is not the peer */
    int64_t first;    /* number of the first one; of a stage with one peer: its rank */
    int64_t folded;   /* r: numbers below it are ranks 2i, the others follow; -1: ranks */
    int64_t range;    /* elements before a scatter, after a gather */
    uint64_t holders; /* equal at all members that hold the same sum before this stage */
    bool exact;       /* values are sent as floats */
} sparse_stage;

/* Indices that links remember, for each stage and member of its group. */
struct fast_sparse_memory {
    int64_t width;              /* members of the largest group */
    int64_t count;              /* length of each list: stages times width; 0: not used yet */
    fast_stream_list *sent;     /* [stages][degree] */
    fast_stream_list *received; /* [stages][degree] */
};

/* The arguments of a call, lent until it starts. */
typedef struct sparse_arguments {
    const fast_sparse *x;        /* the member's vector */
    const fast_sparse_call *how; /* plan, memory, key */
    float *y;                    /* the result */
} sparse_arguments;

/* One call under way, in the collective's retained buffer. */
typedef struct sparse_call {
    fast_group *group;               /* lent */
    fast_sparse_memory *memory;      /* or NULL */
    fast_stream_form form;           /* of values; the key is the call's */
    int64_t size;                    /* of the dense vector */
    int64_t range;                   /* elements of the range that `sum` is of */
    float *y;                        /* the result */
    int stage_count;                 /* length of stages */
    int at;                          /* the stage under way */
    bool posted;                     /* its messages were sent */
    int64_t next;                    /* place of the member that is waited for */
    fast_stream sum;                 /* partial sum */
    fast_stream parts[DEGREE_MAX];   /* that arrived, or the own one */
    sparse_stage stages[STAGES_MAX]; /* of this member */
} sparse_call;

/* Refuse vectors that are not sparse vectors. */
static fast_err check(const fast_sparse *x)
{
    FAST_ASSERT(x);
    if (x->size < 0 || x->size > UINT32_MAX || x->count < 0 || x->count > x->size)
        return fast__fail(FAST_EINVAL,
                          "a sparse vector of %" PRId64 " entries and size %" PRId64
                          "; there are at most as many entries as elements",
                          x->count, x->size);
    if (x->count > x->space)
        return fast__fail(FAST_EINVAL,
                          "a sparse vector of %" PRId64 " entries in a space of %" PRId64, x->count,
                          x->space);
    if (x->count > 0 && (!x->index || !x->value))
        return fast__fail(FAST_EINVAL, "a sparse vector without indices or values");
    for (int64_t i = 0; i < x->count; i++) {
        if ((int64_t)x->index[i] >= x->size)
            return fast__fail(FAST_EINVAL,
                              "entry %" PRId64 " of a sparse vector has index %" PRIu32
                              "; its size is %" PRId64,
                              i, x->index[i], x->size);
        if (i > 0 && x->index[i] <= x->index[i - 1])
            return fast__fail(FAST_EINVAL,
                              "entry %" PRId64 " of a sparse vector has index %" PRIu32
                              " after %" PRIu32 "; indices ascend, each once",
                              i, x->index[i], x->index[i - 1]);
    }
    return FAST_OK;
}

/* Stages. */

/* Return the first element of part q of d parts of a range, as equal as can be. */
static int64_t part_at(int64_t range, int64_t d, int64_t q)
{
    FAST_ASSERT(d > 0 && q >= 0 && q <= d);
    return range / d * q + range % d * q / d;
}

/* Return the elements of part q of the stage's range. */
static int64_t part_size(const sparse_stage *stage, int64_t q)
{
    FAST_ASSERT(stage->range >= 0);
    return part_at(stage->range, stage->degree, q + 1) - part_at(stage->range, stage->degree, q);
}

/* Return the rank of member q of the group. */
static int64_t peer_of(const sparse_stage *stage, int64_t q)
{
    FAST_ASSERT(q >= 0 && q < stage->degree);
    const int64_t number = stage->first + q * stage->stride;
    if (stage->folded < 0)
        return number;
    return number < stage->folded ? 2 * number : number + stage->folded;
}

/* Add a stage with one peer, by rank. */
static sparse_stage *add_peer(sparse_call *s, sparse_kind kind, int64_t rank)
{
    FAST_ASSERT(s->stage_count < STAGES_MAX);
    sparse_stage *stage = &s->stages[s->stage_count++];
    *stage = (sparse_stage){
        .kind = kind, .degree = 1, .own = -1, .first = rank, .folded = -1, .range = s->size
    };
    return stage;
}

/* Add the stages of recursive doubling among m members, a power of two. Those whose numbers agree
 * above the distance hold the same sum. */
static void plan_double(sparse_call *s, int64_t own, int64_t m)
{
    const int64_t r = s->group->size - m;
    for (int64_t distance = 1; distance < m; distance *= 2) {
        const int64_t other = own ^ distance;
        FAST_ASSERT(other < m);
        sparse_stage *stage = add_peer(s, STAGE_SWAP, other < r ? 2 * other : other + r);
        stage->stride = distance;
        stage->holders = (uint64_t)(own / distance);
    }
}

/* Return the degree of a layer: as the plan says, the last degree again and again, and no more than
 * the members that are left. */
static int64_t degree_of(const fast_sparse_plan *plan, int layer, int64_t left)
{
    FAST_ASSERT(plan->count > 0 && left > 1);
    const int64_t d = plan->degrees[layer < plan->count ? layer : plan->count - 1];
    return d < left ? d : left;
}

/* Return how many members take part after folding: a power of two, or a product of degrees. */
static int64_t members_left(const fast_sparse_plan *plan, int64_t n)
{
    bool powers = true;
    int64_t m = 1;
    for (int64_t i = 0; plan && i < plan->count; i++)
        powers &= (plan->degrees[i] & (plan->degrees[i] - 1)) == 0;
    if (powers) {
        while (m * 2 <= n)
            m *= 2;
        return m;
    }
    for (int layer = 0; n / m > 1; layer++)
        m *= degree_of(plan, layer, n / m);
    FAST_ASSERT(m <= n && n - m < m);
    return m;
}

/* Add the stages of a butterfly: down through all layers, and up again. The ranges of the layers
 * are nested. Members that hold the same sum in a gather have the same part of its range. */
static void plan_butterfly(sparse_call *s, const fast_sparse_plan *plan, int64_t own, int64_t m)
{
    const int base = s->stage_count;
    int64_t range = s->size, start = 0;
    int layers = 0;
    for (int64_t stride = 1; stride < m; layers++) {
        const int64_t d = degree_of(plan, layers, m / stride), place = own / stride % d;
        FAST_ASSERT(d >= 2 && d <= DEGREE_MAX && s->stage_count < STAGES_MAX / 2);
        sparse_stage *stage = &s->stages[s->stage_count++];
        *stage = (sparse_stage){ .kind = STAGE_SCATTER,
                                 .degree = d,
                                 .stride = stride,
                                 .own = place,
                                 .first = own - place * stride,
                                 .folded = s->group->size - m,
                                 .range = range };
        start += part_at(range, d, place);
        range = part_size(stage, place);
        stage->holders = (uint64_t)start; /* of the part, for the gather */
        stride *= d;
    }
    for (int i = layers - 1; i >= 0; i--) {
        sparse_stage *stage = &s->stages[s->stage_count++];
        *stage = s->stages[base + i];
        stage->kind = STAGE_GATHER;
    }
}

/* Fold, sum, unfold. */
static void plan_stages(sparse_call *s, const fast_sparse_plan *plan)
{
    const int64_t n = s->group->size, rank = s->group->rank;
    const int64_t m = members_left(plan, n), r = n - m;
    const bool folded = rank < 2 * r;
    FAST_ASSERT(n >= 1 && m >= 1);
    if (folded && rank % 2 == 1) {
        add_peer(s, STAGE_GIVE, rank - 1);
        add_peer(s, STAGE_TAKE, rank - 1)->exact = true;
        return;
    }
    if (folded)
        add_peer(s, STAGE_ADD, rank + 1);
    const int64_t own = folded ? rank / 2 : rank - r;
    if (plan && plan->count > 0)
        plan_butterfly(s, plan, own, m);
    else
        plan_double(s, own, m);
    if (folded)
        add_peer(s, STAGE_GIVE, rank + 1)->exact = true;
}

/* Messages. */

/* Return the form of the values of a stage; those that hold the same sum use the same key. */
static fast_stream_form form_of(const sparse_call *s, const sparse_stage *stage)
{
    fast_stream_form form = { .bits = stage->exact ? 0 : s->form.bits };
    const bool own = stage->kind == STAGE_SCATTER || stage->kind == STAGE_GIVE;
    const uint64_t words[] = { stage->kind, stage->holders, (uint64_t)stage->stride,
                               own ? (uint64_t)s->group->rank : 0 };
    FAST_ASSERT(form.bits >= 0);
    if (form.bits > 0)
        form.key = fast__hash(words, sizeof words, s->form.key);
    return form;
}

/* Return the list that a link remembers, or NULL. */
static fast_stream_list *list_of(const sparse_call *s, bool sent, int64_t q)
{
    const fast_sparse_memory *memory = s->memory;
    const sparse_kind kind = s->stages[s->at].kind;
    if (!memory || (kind != STAGE_SCATTER && kind != STAGE_GATHER))
        return NULL;
    FAST_ASSERT(s->at * memory->width + q < memory->count);
    return &(sent ? memory->sent : memory->received)[s->at * memory->width + q];
}

/* Send a stream to member q of the stage's group. */
static fast_err post_one(sparse_call *s, fast_collective *c, int64_t q, const fast_stream *x,
                         fast_stream *rounded)
{
    const sparse_stage *stage = &s->stages[s->at];
    fast_msg *msg = NULL;
    FAST_ASSERT(peer_of(stage, q) != s->group->rank);
    FAST_TRY(fast__collective_message(c, &msg));
    msg->words[2] = s->size;
    const fast_err err =
        fast__stream_pack(s->group->actor, form_of(s, stage), x, list_of(s, true, q), msg, rounded);
    if (err) {
        fast_msg_free(msg);
        return err;
    }
    return fast_send(s->group->actor, fast_group_member(s->group, peer_of(stage, q)), &msg);
}

/* Cut the sum, and send each member its part; the own one stays. */
static fast_err post_parts(sparse_call *s, fast_collective *c, const sparse_stage *stage)
{
    const int64_t d = stage->degree;
    fast_err err = FAST_OK;
    FAST_ASSERT(s->range == stage->range);
    for (int64_t q = 0; q < d && !err; q++) {
        fast_stream part = { 0 };
        err = fast__stream_cut(s->group->actor, s->form.bits, &s->sum, part_at(s->range, d, q),
                               part_at(s->range, d, q + 1), &part);
        if (!err && q == stage->own) {
            s->parts[q] = part;
            continue;
        }
        if (!err)
            err = post_one(s, c, q, &part, NULL);
        fast_buffer_free(part.buffer);
    }
    return err;
}

/* Post all messages of the stage under way. All are sent before any is awaited, so that no two
 * members wait for each other. One frozen buffer serves the messages of a gather. The sum is
 * replaced by the values that were sent, where others continue with those. */
static fast_err post(sparse_call *s, fast_collective *c)
{
    const sparse_stage *stage = &s->stages[s->at];
    const bool shared = stage->kind == STAGE_SWAP || stage->kind == STAGE_GATHER;
    fast_stream rounded = { 0 };
    fast_err err = FAST_OK;
    FAST_ASSERT(!s->posted);
    if (stage->kind == STAGE_ADD || stage->kind == STAGE_TAKE)
        return FAST_OK;
    if (stage->kind == STAGE_SCATTER)
        return post_parts(s, c, stage);
    for (int64_t q = 0; q < stage->degree && !err; q++)
        if (q != stage->own)
            err = post_one(s, c, q, &s->sum, shared ? &rounded : NULL);
    if (!err && rounded.buffer)
        fast__stream_replace(&s->sum, rounded);
    else
        fast_buffer_free(rounded.buffer);
    return err;
}

/* Take the stream of a message, about the range that the stage expects from member q. */
static fast_err accept(sparse_call *s, int64_t q, fast_msg *msg)
{
    const sparse_stage *stage = &s->stages[s->at];
    const int64_t range = stage->kind == STAGE_SCATTER  ? part_size(stage, stage->own)
                          : stage->kind == STAGE_GATHER ? part_size(stage, q)
                                                        : s->range;
    fast_err err = FAST_EINVAL;
    FAST_ASSERT(!s->parts[q].buffer);
    if (msg->words[2] == s->size)
        err = fast__stream_unpack(s->group->actor, form_of(s, stage), range, list_of(s, false, q),
                                  msg, &s->parts[q]);
    if (err == FAST_EINVAL)
        return fast__fail(FAST_EINVAL,
                          "sparse allreduce of %" PRId64 " floats here and %" PRId64
                          " at actor %" PRId64 "; all members must make the same calls",
                          s->size, msg->words[2], msg->from);
    return err;
}

/* Add stream b to stream a of a range. */
static fast_err add(sparse_call *s, int64_t range, fast_stream *a, const fast_stream *b)
{
    fast_stream sum = { 0 };
    FAST_ASSERT(a != b);
    FAST_TRY(fast__stream_combine(s->group->actor, s->form.bits, range, a, b, &sum));
    fast__stream_replace(a, sum);
    return FAST_OK;
}

/* Merge the parts in a tree: neighbours first, then sums of pairs, as recursive doubling adds. A
 * degree that is no power of two leaves the last parts for a later round. */
static fast_err merge_parts(sparse_call *s, const sparse_stage *stage)
{
    const int64_t d = stage->degree, range = part_size(stage, stage->own);
    FAST_ASSERT(s->parts[stage->own].buffer);
    for (int64_t step = 1; step < d; step *= 2)
        for (int64_t q = 0; q + step < d; q += 2 * step)
            FAST_TRY(add(s, range, &s->parts[q], &s->parts[q + step]));
    fast__stream_replace(&s->sum, s->parts[0]);
    s->parts[0] = (fast_stream){ 0 };
    s->range = range;
    return FAST_OK;
}

/* Put the parts of all members together. */
static fast_err join_parts(sparse_call *s, const sparse_stage *stage)
{
    const int64_t d = stage->degree;
    int64_t starts[DEGREE_MAX + 1];
    fast_stream all = { 0 };
    FAST_ASSERT(s->range == part_size(stage, stage->own));
    for (int64_t q = 0; q <= d; q++)
        starts[q] = part_at(stage->range, d, q);
    s->parts[stage->own] = s->sum;
    s->sum = (fast_stream){ 0 };
    FAST_TRY(fast__stream_join(s->group->actor, s->form.bits, s->parts, d, starts, &all));
    s->sum = all;
    s->range = stage->range;
    return FAST_OK;
}

/* All messages of the stage are there: merge them. */
static fast_err finish(sparse_call *s)
{
    const sparse_stage *stage = &s->stages[s->at];
    fast_err err = FAST_OK;
    FAST_ASSERT(s->posted);
    if (stage->kind == STAGE_SCATTER)
        err = merge_parts(s, stage);
    else if (stage->kind == STAGE_GATHER)
        err = join_parts(s, stage);
    else if (stage->kind == STAGE_ADD || stage->kind == STAGE_SWAP)
        err = add(s, s->range, &s->sum, &s->parts[0]);
    if (!err && stage->kind == STAGE_TAKE) {
        fast__stream_replace(&s->sum, s->parts[0]);
        s->parts[0] = (fast_stream){ 0 };
    }
    for (int64_t q = 0; q < stage->degree; q++)
        fast__stream_replace(&s->parts[q], (fast_stream){ 0 });
    s->at++;
    s->posted = false;
    s->next = 0;
    return err;
}

/* Write the result, which is dense, whatever form the last partial sum has. */
static void write_result(const sparse_call *s)
{
    FAST_ASSERT(s->range == s->size);
    if (s->size == 0)
        return;
    if (s->sum.dense) {
        fast__vector_copy(s->size, s->sum.value, s->y);
        return;
    }
    float *to = fast__map(s->y, s->size, FAST_ACCESS_WRITE);
    memset(to, 0, (size_t)s->size * sizeof *to);
    for (int64_t i = 0; i < s->sum.count; i++)
        to[s->sum.index[i]] = s->sum.value[i];
    fast__unmap(s->y, s->size, FAST_ACCESS_WRITE);
}

/* The collective. */

/* Make room for the lists of all links, which the first call does. */
static fast_err memory_reserve(fast_sparse_memory *m, const sparse_call *s)
{
    FAST_ASSERT(m && s->stage_count >= 0);
    if (m->count > 0 || s->stage_count == 0)
        return FAST_OK;
    for (int i = 0; i < s->stage_count; i++)
        m->width = s->stages[i].degree > m->width ? s->stages[i].degree : m->width;
    const int64_t count = s->stage_count * m->width;
    FAST_TRY(fast__alloc("memory of links", count, sizeof *m->sent, &m->sent));
    FAST_TRY(fast__alloc("memory of links", count, sizeof *m->received, &m->received));
    m->count = count;
    return FAST_OK;
}

/* Make the call of a collective that starts; its arguments are lent until then. */
static fast_err begin(fast_collective *c)
{
    const sparse_arguments *a = c->x;
    FAST_ASSERT(a && !c->retained);
    FAST_TRY(fast_buffer_new(c->group->actor, sizeof(sparse_call), &c->retained));
    sparse_call *s = fast_buffer_data(c->retained);
    *s = (sparse_call){ .group = c->group,
                        .memory = a->how->memory,
                        .form = { a->how->plan ? a->how->plan->bits : 0, a->how->key },
                        .size = a->x->size,
                        .range = a->x->size,
                        .y = a->y };
    c->x = NULL;
    plan_stages(s, a->how->plan);
    if (s->memory)
        FAST_TRY(memory_reserve(s->memory, s));
    return fast__stream_start(c->group->actor, s->form.bits, a->x, &s->sum);
}

/* Advance: post, take the messages that are there, merge. */
static fast_err sparse_advance(fast_collective *c, bool *done)
{
    if (!c->retained)
        FAST_TRY(begin(c));
    sparse_call *s = fast_buffer_data(c->retained);
    FAST_ASSERT(s->at <= s->stage_count);
    while (s->at < s->stage_count) {
        const sparse_stage *stage = &s->stages[s->at];
        if (!s->posted)
            FAST_TRY(post(s, c));
        s->posted = true;
        for (; s->next < stage->degree && stage->kind != STAGE_GIVE; s->next++) {
            if (s->next == stage->own)
                continue;
            c->whom = fast_group_member(s->group, peer_of(stage, s->next));
            fast_msg *msg = fast__take(s->group->actor, c->whom, c->tag);
            if (!msg)
                return FAST_OK;
            c->whom = c->since = -1;
            const fast_err err = accept(s, s->next, msg);
            fast_msg_free(msg);
            FAST_TRY(err);
        }
        FAST_TRY(finish(s));
    }
    write_result(s);
    *done = true;
    return FAST_OK;
}

/* Release the streams of a call, done or given up. */
static void sparse_drop(fast_collective *c)
{
    sparse_call *s = c->retained ? fast_buffer_data(c->retained) : NULL;
    for (int64_t q = 0; s && q < DEGREE_MAX; q++)
        fast_buffer_free(s->parts[q].buffer);
    if (s)
        fast_buffer_free(s->sum.buffer);
    FAST_ASSERT(c->group);
}

static const fast_algorithm sparse = { .name = "sparse",
                                       .advance = sparse_advance,
                                       .drop = sparse_drop };

fast_err fast_allreduce_sparse(fast_group *group, const fast_sparse *x, float *y, int64_t deadline)
{
    FAST_ASSERT(group != NULL);
    return fast__allreduce_sparse(group, x, &(fast_sparse_call){ 0 }, y, deadline);
}

fast_err fast__allreduce_sparse(fast_group *group, const fast_sparse *x,
                                const fast_sparse_call *how, float *y, int64_t deadline)
{
    const sparse_arguments arguments = { x, how, y };
    FAST_ASSERT(group != NULL && x != NULL);
    FAST_TRY(check(x));
    FAST_ASSERT(y != NULL || x->size == 0);
    fast_collective c = { .group = group,
                          .doing = "sparse allreduce",
                          .algorithm = &sparse,
                          .x = &arguments,
                          .element = 1 };
    return fast__collective_run(&c, deadline);
}

fast_err fast_allreduce_sparse_start(fast_group *group, const fast_sparse *x, float *y,
                                     fast_request **out)
{
    FAST_ASSERT(group != NULL);
    return fast__allreduce_sparse_start(group, x, &(fast_sparse_call){ 0 }, y, out);
}

fast_err fast__allreduce_sparse_start(fast_group *group, const fast_sparse *x,
                                      const fast_sparse_call *how, float *y, fast_request **out)
{
    const sparse_arguments arguments = { x, how, y };
    FAST_ASSERT(group != NULL && x != NULL && out != NULL);
    FAST_TRY(check(x));
    FAST_ASSERT(y != NULL || x->size == 0);
    const fast_collective c = { .group = group,
                                .doing = "sparse allreduce",
                                .algorithm = &sparse,
                                .x = &arguments,
                                .element = 1 };
    return fast__request_start(&c, out);
}

/* Memory of links. */

fast_err fast__sparse_memory_new(fast_sparse_memory **out)
{
    FAST_ASSERT(out != NULL);
    return fast__alloc("memory of links", 1, sizeof **out, out);
}

void fast__sparse_memory_clear(fast_sparse_memory *m)
{
    FAST_ASSERT(m != NULL);
    for (int64_t i = 0; i < m->count; i++) {
        fast__stream_list_free(&m->sent[i]);
        fast__stream_list_free(&m->received[i]);
    }
}

void fast__sparse_memory_free(fast_sparse_memory *m)
{
    if (!m)
        return;
    fast__sparse_memory_clear(m);
    fast__free(m->sent);
    fast__free(m->received);
    fast__free(m);
}
