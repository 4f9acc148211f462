/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Goal: schedules are right by themselves: for any number of members and any count, every message
 *   that is sent is received with the same size, nobody waits for ever, sums have the bits of the
 *   canonical order, and the longest path takes what the closed form says.
 * Method: an interpreter of moves for all ranks at once, without actors: queues of a message's
 *   values and the time at which it arrives, L + size G after it was sent; sums take no time.
 */
#include "base/rng.h"
#include "comm/allreduces.h"
#include "comm/collective/moves.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* A message on its way. */
typedef struct letter {
    float *x;            /* its values; NULL where only sizes move */
    int64_t count;       /* number of values */
    double time;         /* of its arrival */
    struct letter *next; /* of the same pair */
} letter;

/* One rank. */
typedef struct player {
    float *x;         /* its vector */
    letter *retained; /* see FAST_MOVE_RETAIN */
    bool frozen;      /* the retained letter must not be added to */
    letter **in;      /* by sender: the oldest */
    double time;      /* of its last move */
    int64_t got;      /* elements that came, in all */
    int64_t round;    /* the next */
    int move, count;  /* within `moves` */
    fast_move moves[FAST_ROUND_MOVES];
} player;

/* A whole group. */
typedef struct play {
    fast_round_fn *rounds;
    fast_ask ask; /* rank is filled in */
    bool carries; /* values, or sizes only */
    double latency, gap;
    player *players;
} play;

static letter *letter_new(const float *x, int64_t count)
{
    letter *made = calloc(1, sizeof *made);
    made->count = count;
    if (x) {
        made->x = malloc((size_t)count * sizeof *x + 1);
        memcpy(made->x, x, (size_t)count * sizeof *x);
    }
    return made;
}

static void letter_free(letter *gone)
{
    if (gone)
        free(gone->x);
    free(gone);
}

static void keep(player *p, letter *what, bool frozen)
{
    letter_free(p->retained);
    p->retained = what;
    p->frozen = frozen;
}

static void play_send(play *g, int64_t rank, const fast_move *move)
{
    player *p = &g->players[rank];
    const float *x = g->carries ? p->x + move->offset : NULL;
    if (move->flags & FAST_MOVE_RETAINED) {
        assert_non_null(p->retained);
        assert_int_equal(p->retained->count, move->count);
        x = p->retained->x;
    }
    letter *sent = letter_new(x, move->count);
    sent->time = p->time + g->latency + 4.0 * (double)move->count * g->gap;
    if (move->flags & FAST_MOVE_RETAIN)
        keep(p, letter_new(x, move->count), true);
    else if (move->flags & FAST_MOVE_RETAINED)
        keep(p, NULL, false);
    letter **last = &g->players[move->peer].in[rank];
    while (*last)
        last = &(*last)->next;
    *last = sent;
}

static void add(int64_t n, const float *x, float *y)
{
    for (int64_t i = 0; i < n; i++)
        y[i] += x[i];
}

static void play_apply(play *g, player *p, const fast_move *move, letter *got)
{
    if (move->kind == FAST_MOVE_ADD && (move->flags & FAST_MOVE_RETAINED)) {
        assert_non_null(p->retained);
        assert_false(p->frozen);
    }
    if (g->carries) {
        float *x = p->x + move->offset;
        if (move->kind == FAST_MOVE_ADD)
            add(move->count, got->x, move->flags & FAST_MOVE_RETAINED ? p->retained->x : x);
        else if (move->kind == FAST_MOVE_MERGE)
            add(move->count, x, got->x);
        if (move->kind == FAST_MOVE_COPY || (move->flags & FAST_MOVE_STORE))
            memcpy(x, got->x, (size_t)move->count * sizeof *x);
    }
    if (move->flags & FAST_MOVE_RETAIN)
        keep(p, got, false);
    else
        letter_free(got);
}

/* One move of a rank; false if it waits or is done. */
static bool play_step(play *g, int64_t rank)
{
    player *p = &g->players[rank];
    if (p->count == FAST_ROUNDS_END)
        return false;
    if (p->move == p->count) {
        g->ask.rank = rank;
        p->move = 0;
        p->count = g->rounds(&g->ask, p->round++, p->moves);
        assert_in_range(p->count + 1, 0, FAST_ROUND_MOVES + 1);
        return true;
    }
    const fast_move *move = &p->moves[p->move];
    assert_in_range(move->peer, 0, g->ask.size - 1);
    assert_int_not_equal(move->peer, rank);
    assert_true(move->offset >= 0 && move->count >= 0);
    assert_true(move->offset + move->count <= g->ask.count);
    if (move->count > 0 && move->kind == FAST_MOVE_SEND) {
        play_send(g, rank, move);
    } else if (move->count > 0) {
        letter *got = p->in[move->peer];
        if (!got)
            return false;
        assert_int_equal(got->count, move->count);
        p->in[move->peer] = got->next;
        p->time = got->time > p->time ? got->time : p->time;
        p->got += got->count;
        play_apply(g, p, move, got);
    }
    p->move++;
    return true;
}

/* All ranks to their ends; the latest one's time. */
static double play_run(play *g)
{
    const int64_t n = g->ask.size;
    bool any = true;
    while (any) {
        any = false;
        for (int64_t r = 0; r < n; r++)
            while (play_step(g, r))
                any = true;
    }
    double time = 0;
    for (int64_t r = 0; r < n; r++) {
        player *p = &g->players[r];
        assert_int_equal(p->count, FAST_ROUNDS_END);
        for (int64_t s = 0; s < n; s++)
            assert_null(p->in[s]);
        time = p->time > time ? p->time : time;
        keep(p, NULL, false);
        *p = (player){ .x = p->x, .in = p->in, .got = p->got };
    }
    return time;
}

static play play_new(fast_round_fn *rounds, int64_t size, int64_t count, bool carries)
{
    play g = { .rounds = rounds, .ask = { .size = size, .count = count }, .carries = carries };
    g.players = calloc((size_t)size, sizeof *g.players);
    for (int64_t r = 0; r < size; r++) {
        g.players[r].in = calloc((size_t)size, sizeof(letter *));
        g.players[r].x = malloc((size_t)(carries ? count : 0) * sizeof(float) + 1);
    }
    return g;
}

static void play_free(play *g)
{
    for (int64_t r = 0; r < g->ask.size; r++) {
        free(g->players[r].in);
        free(g->players[r].x);
    }
    free(g->players);
}

/* Random numbers of different sizes, so that the order of their sum shows. */
static void draw(play *g)
{
    fast_rng rng;
    fast__rng_init(&rng, 7, FAST_PURPOSE_TEST, 0, (uint64_t)g->ask.size, (uint64_t)g->ask.count);
    for (int64_t r = 0; r < g->ask.size; r++)
        for (int64_t i = 0; i < g->ask.count; i++)
            g->players[r].x[i] = fast__rng_normal(&rng) * (float)(1 << fast__rng_below(&rng, 12));
}

/* The canonical order, as comm.h says it. */
static float reference(const play *g, int64_t i)
{
    const int64_t n = g->ask.size;
    float sums[64];
    int64_t core = 1;
    while (2 * core <= n)
        core *= 2;
    const int64_t extra = n - core;
    for (int64_t c = 0; c < core; c++)
        sums[c] = c < extra ? g->players[2 * c].x[i] + g->players[2 * c + 1].x[i]
                            : g->players[c + extra].x[i];
    for (; core > 1; core /= 2)
        for (int64_t c = 0; c < core / 2; c++)
            sums[c] = sums[2 * c] + sums[2 * c + 1];
    return sums[0];
}

static const int64_t counts[] = { 0, 1, 2, 3, 5, 16, 31, 64, 101 };
enum { COUNTS = sizeof counts / sizeof counts[0], MEMBERS_MAX = 33, COUNT_MAX = 101 };

static void test_sums(void **state)
{
    (void)state;
    float want[COUNT_MAX];
    for (int a = 0; fast__allreduces[a]; a++)
        for (int64_t n = 1; n <= MEMBERS_MAX && fast__allreduces[a]->rounds; n++)
            for (int c = 0; c < COUNTS; c++) {
                if (fast__allreduces[a]->open)
                    continue;
                play g = play_new(fast__allreduces[a]->rounds, n, counts[c], true);
                draw(&g);
                for (int64_t i = 0; i < counts[c]; i++)
                    want[i] = reference(&g, i);
                play_run(&g);
                const size_t size = (size_t)counts[c] * sizeof(float);
                for (int64_t r = 0; r < n; r++) {
                    assert_memory_equal(g.players[r].x, g.players[0].x, size);
                    for (int64_t i = 0; i < counts[c]; i++)
                        assert_true(fabsf(g.players[r].x[i] - want[i]) <= 0.05f);
                    if (fast__allreduces[a]->canonical)
                        assert_memory_equal(g.players[r].x, want, size);
                }
                play_free(&g);
            }
}

/* Sums to any root leave the others' vectors alone; broadcasts reach everyone. */
static void test_roots(void **state)
{
    (void)state;
    enum { COUNT = 5 };
    float want[COUNT], before[MEMBERS_MAX][COUNT];
    for (int64_t n = 1; n <= MEMBERS_MAX; n++)
        for (int64_t root = 0; root < n; root++) {
            play g = play_new(fast__rounds_reduce, n, COUNT, true);
            g.ask.root = root;
            draw(&g);
            for (int64_t i = 0; i < COUNT; i++)
                want[i] = reference(&g, i);
            for (int64_t r = 0; r < n; r++)
                memcpy(before[r], g.players[r].x, sizeof want);
            play_run(&g);
            for (int64_t r = 0; r < n; r++)
                assert_memory_equal(g.players[r].x, r == root ? want : before[r], sizeof want);
            g.rounds = fast__rounds_broadcast;
            play_run(&g);
            for (int64_t r = 0; r < n; r++)
                assert_memory_equal(g.players[r].x, want, sizeof want);
            play_free(&g);
        }
}

/* Ranges of all, gathered by all: element i is i. */
static void test_allgather(void **state)
{
    (void)state;
    for (int64_t n = 1; n <= MEMBERS_MAX; n++)
        for (int c = 0; c < COUNTS; c++) {
            play g = play_new(fast__rounds_allgather, n, counts[c], true);
            for (int64_t r = 0; r < n; r++) {
                int64_t offset, count;
                fast__range(counts[c], n, r, &offset, &count);
                for (int64_t i = 0; i < counts[c]; i++)
                    g.players[r].x[i] = i >= offset && i < offset + count ? (float)i : -1.0f;
            }
            play_run(&g);
            for (int64_t r = 0; r < n; r++) {
                int64_t offset, count;
                fast__range(counts[c], n, r, &offset, &count);
                assert_int_equal(g.players[r].got, counts[c] - count); /* nothing twice */
                for (int64_t i = 0; i < counts[c]; i++)
                    assert_true(g.players[r].x[i] == (float)i);
            }
            play_free(&g);
        }
}

/* Section 2.4 of the survey: L = alpha, G = beta; additions are free. */
static void test_closed_forms(void **state)
{
    (void)state;
    const fast_comm_cost cost = { 3e-6, 0.25e-9, 0 };
    const fast_algorithm *algorithms[] = { &fast__allreduce_tree, &fast__allreduce_butterfly,
                                           &fast__allreduce_ring, &fast__allreduce_rabenseifner };
    for (size_t a = 0; a < 4; a++)
        for (int64_t n = 2; n <= 256; n *= 2)
            for (int64_t count = 256; count <= 1 << 28; count *= 1 << 10) {
                play g = play_new(algorithms[a]->rounds, n, count, false);
                g.latency = cost.alpha;
                g.gap = cost.beta;
                const double time = play_run(&g);
                const double steps = (double)fast__log2_ceil(n), m = 4.0 * (double)count;
                const double L = cost.alpha, G = cost.beta, P = (double)n;
                const double forms[] = { 2 * steps * (L + m * G), steps * (L + m * G),
                                         2 * (P - 1) * (L + m * G / P),
                                         2 * L * steps + 2 * m * G * (P - 1) / P };
                g.ask.rank = 0;
                assert_true(fabs(time - forms[a]) <= 1e-9 * forms[a]);
                assert_true(fabs(algorithms[a]->seconds(&cost, &g.ask) - time) <= 1e-9 * time);
                play_free(&g);
            }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_sums),
        cmocka_unit_test(test_roots),
        cmocka_unit_test(test_allgather),
        cmocka_unit_test(test_closed_forms),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
