/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The check of collectives.h. Vectors are made of a hash of (seed, rank, index), so that everyone
 * can compute everyone's; their sizes differ by factors up to 4096, so that the order of a sum
 * shows in its bits.
 */
#include "collectives.h"

#include "base/err.h"
#include "tensor/vector.h"

#include <math.h>
#include <string.h>

float collectives_element(uint64_t seed, int64_t rank, int64_t i)
{
    uint64_t z = seed + 0x9e3779b97f4a7c15u * ((uint64_t)rank * 1000003u + (uint64_t)i + 1);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    z ^= z >> 31;
    const float unit = (float)(z >> 40) * 0x1p-24f - 0.5f;
    return unit * (float)(1u << (z & 15) % 13);
}

float collectives_sum(uint64_t seed, int64_t n, int64_t i)
{
    float sums[1024];
    int64_t core = 1;
    while (2 * core <= n)
        core *= 2;
    FAST_ASSERT(core <= 1024);
    const int64_t extra = n - core;
    for (int64_t c = 0; c < core; c++)
        sums[c] = c < extra ? collectives_element(seed, 2 * c, i) +
                                  collectives_element(seed, 2 * c + 1, i)
                            : collectives_element(seed, c + extra, i);
    for (; core > 1; core /= 2)
        for (int64_t c = 0; c < core / 2; c++)
            sums[c] = sums[2 * c] + sums[2 * c + 1];
    return sums[0];
}

/* The ring's order: segment s begins at rank s + 1. */
static float ring_sum(uint64_t seed, int64_t n, int64_t segment, int64_t i)
{
    float sum = collectives_element(seed, (segment + 1) % n, i);
    for (int64_t k = 2; k <= n; k++)
        sum += collectives_element(seed, (segment + k) % n, i);
    return sum;
}

/* True if the group's algorithm has this name, with any options. */
static bool is_named(const char *algorithm, const char *name)
{
    return strncmp(algorithm, name, strlen(name)) == 0;
}

/* One actor's check. */
typedef struct check {
    fast_group *group;
    const collectives *what;
    int64_t n, rank; /* of the group */
    int64_t count;   /* of floats */
    float *x, *y;    /* n * count floats and a guard each, on the device */
} check;

static const float GUARD = 12345.5f;

/* Floats of x and of y. */
static int64_t room(const check *c)
{
    return c->n * c->count + 1;
}

static void fill(const check *c)
{
    float *x = fast__map(c->x, room(c), FAST_ACCESS_UPDATE);

    for (int64_t i = 0; i < c->count; i++)
        x[i] = collectives_element(c->what->seed, c->rank, i);
    x[c->count] = GUARD;
    fast__unmap(c->x, room(c), FAST_ACCESS_UPDATE);
}

static fast_err wrong(const check *c, const char *what, int64_t i, float got, float want)
{
    return fast__fail(FAST_EINVAL,
                      "%s of %lld floats at rank %lld of %lld: element %lld is %a, not %a", what,
                      (long long)c->count, (long long)c->rank, (long long)c->n, (long long)i,
                      (double)got, (double)want);
}

/* Element i of a vector on any device. */
static float at(const float *x, int64_t i)
{
    float value;

    fast__vector_copy(1, x + i, &value);
    return value;
}

/* x[begin .. end) are the canonical sums, and nothing was written behind the vector. */
static fast_err expect_sums(const check *c, const char *what, int64_t begin, int64_t end)
{
    for (int64_t i = begin; i < end; i++) {
        const float want = collectives_sum(c->what->seed, c->n, i);
        if (!fast__vector_equal(1, c->x + i, &want))
            return wrong(c, what, i, at(c->x, i), want);
    }
    return at(c->x, c->count) == GUARD ? FAST_OK
                                       : wrong(c, what, c->count, at(c->x, c->count), GUARD);
}

/* x are the sums from the first rank to the last, to the bit (chain), or up to rounding. */
static fast_err expect_other_sums(const check *c, bool exact)
{
    for (int64_t i = 0; i < c->count; i++) {
        float want = 0, size = 0;

        for (int64_t r = 0; r < c->n; r++) {
            want += collectives_element(c->what->seed, r, i);
            size += fabsf(collectives_element(c->what->seed, r, i));
        }
        if (!(fabsf(at(c->x, i) - want) <= (exact ? 0 : 1e-6f * size)))
            return wrong(c, c->what->algorithm, i, at(c->x, i), want);
    }
    return at(c->x, c->count) == GUARD
               ? FAST_OK
               : wrong(c, c->what->algorithm, c->count, at(c->x, c->count), GUARD);
}

static fast_err check_allreduce(const check *c)
{
    fill(c);
    FAST_TRY(fast_allreduce(c->group, c->x, c->count, FAST_SOON));
    if (is_named(c->what->algorithm, "chain") || is_named(c->what->algorithm, "dimensions"))
        return expect_other_sums(c, is_named(c->what->algorithm, "chain"));
    if (strncmp(c->what->algorithm, "ring", 4) != 0)
        return expect_sums(c, c->what->algorithm, 0, c->count);
    for (int64_t s = 0; s < c->n; s++) {
        int64_t offset, count;
        fast_group_range(c->group, c->count, s, &offset, &count);
        for (int64_t i = offset; i < offset + count; i++) {
            const float want = ring_sum(c->what->seed, c->n, s, i);
            if (!fast__vector_equal(1, c->x + i, &want))
                return wrong(c, c->what->algorithm, i, at(c->x, i), want);
        }
    }
    return FAST_OK;
}

/* Three pieces at once, begun in one order and waited for in another. */
static fast_err check_requests(const check *c)
{
    if (is_named(c->what->algorithm, "native") || is_named(c->what->algorithm, "ring") ||
        is_named(c->what->algorithm, "chain") || is_named(c->what->algorithm, "dimensions"))
        return FAST_OK;
    fast_request *requests[3] = { NULL, NULL, NULL };
    fast_err err = FAST_OK;
    fill(c);
    for (int64_t k = 0; k < 3 && !err; k++) {
        const int64_t begin = k * c->count / 3, end = (k + 1) * c->count / 3;
        err = fast_allreduce_start(c->group, c->x + begin, end - begin, &requests[k]);
    }
    bool done = false;
    if (!err)
        err = fast_request_test(requests[0], &done);
    for (int64_t k = 2; k >= 0; k--)
        if (requests[k]) {
            const fast_err waited = fast_request_wait(&requests[k], FAST_SOON);
            err = err ? err : waited;
        }
    return err ? err : expect_sums(c, "allreduce_start", 0, c->count);
}

static fast_err check_roots(const check *c)
{
    for (int64_t root = 0; root<c->n; root += c->n> 5 ? 3 : 1) {
        fill(c);
        FAST_TRY(fast_reduce(c->group, root, c->x, c->count, FAST_SOON));
        if (c->rank == root)
            FAST_TRY(expect_sums(c, "reduce", 0, c->count));
        for (int64_t i = 0; i < c->count && c->rank != root; i++)
            if (at(c->x, i) != collectives_element(c->what->seed, c->rank, i))
                return wrong(c, "reduce", i, at(c->x, i), 0);
        FAST_TRY(fast_broadcast(c->group, root, c->x, (size_t)c->count * sizeof *c->x, FAST_SOON));
        FAST_TRY(expect_sums(c, "broadcast", 0, c->count));
    }
    return FAST_OK;
}

static fast_err check_ranges(const check *c)
{
    int64_t offset, count;
    fast_group_range(c->group, c->count, c->rank, &offset, &count);
    fill(c);
    FAST_TRY(fast_reduce_scatter(c->group, c->x, c->count, FAST_SOON));
    FAST_TRY(expect_sums(c, "reduce_scatter", offset, offset + count));
    fast__vector_fill(offset, -1, c->x);
    fast__vector_fill(c->count - offset - count, -1, c->x + offset + count);
    FAST_TRY(fast_allgather(c->group, c->x, c->count, FAST_SOON));
    return expect_sums(c, "allgather", 0, c->count);
}

/* Block r of x is the r-th stretch of this rank's long vector; block r of y comes from rank r. */
static fast_err check_alltoall(const check *c)
{
    const uint64_t seed = c->what->seed;
    float *x = fast__map(c->x, room(c), FAST_ACCESS_UPDATE);
    for (int64_t i = 0; i < c->n * c->count; i++)
        x[i] = collectives_element(seed, c->rank, i);
    fast__unmap(c->x, room(c), FAST_ACCESS_UPDATE);
    fast__vector_fill(1, GUARD, c->y + c->n * c->count);
    FAST_TRY(fast_alltoall(c->group, c->x, c->count, c->y, FAST_SOON));
    for (int64_t r = 0; r < c->n; r++)
        for (int64_t i = 0; i < c->count; i++) {
            const float want = collectives_element(seed, r, c->rank * c->count + i);
            if (at(c->y, r * c->count + i) != want)
                return wrong(c, "alltoall", r * c->count + i, at(c->y, r * c->count + i), want);
        }
    if (at(c->y, c->n * c->count) != GUARD)
        return wrong(c, "alltoall", c->n * c->count, at(c->y, c->n * c->count), GUARD);
    return FAST_OK;
}

/* To the two ranks above, from the two below; rank 0 sends to itself as well. */
static fast_err check_neighbours(const check *c)
{
    const int64_t n = c->n, r = c->rank;
    const int64_t to[] = { (r + 1) % n, (r + 2) % n, 0 };
    const int64_t from[] = { (r + n - 1) % n, (r + 2 * n - 2) % n, 0 };
    const int64_t degree = r == 0 ? 3 : 2;
    if (degree > n)
        return FAST_OK;
    fill(c);
    FAST_TRY(fast_neighbour_exchange(c->group, to, degree, from, degree, c->x, c->count, c->y,
                                     FAST_SOON));
    for (int64_t k = 0; k < degree; k++)
        for (int64_t i = 0; i < c->count; i++) {
            const float want = collectives_element(c->what->seed, from[k], i);
            if (at(c->y, k * c->count + i) != want)
                return wrong(c, "neighbour_exchange", i, at(c->y, k * c->count + i), want);
        }
    return FAST_OK;
}

static fast_err check_all(const check *c)
{
    FAST_TRY(check_allreduce(c));
    FAST_TRY(check_requests(c));
    if (c->what->allreduce_only)
        return FAST_OK;
    FAST_TRY(fast_barrier(c->group, FAST_SOON));
    FAST_TRY(check_roots(c));
    FAST_TRY(check_ranges(c));
    FAST_TRY(check_alltoall(c));
    return c->n >= 3 ? check_neighbours(c) : FAST_OK;
}

fast_err collectives_main(fast_actor *actor, void *ctx)
{
    check c = { .what = ctx };
    const fast_device *device = c.what->device ? c.what->device : &fast__host;
    FAST_TRY(fast_group_all(actor, NULL, &c.group));
    fast_err err = fast_group_algorithm(c.group, c.what->algorithm);
    c.n = fast_group_size(c.group);
    c.rank = fast_group_rank(c.group);
    for (int64_t k = 0; k < c.what->count_count && !err; k++) {
        c.count = c.what->counts[k];
        err = fast__vector_new(device, "a test's vectors", room(&c), &c.x);
        if (!err)
            err = fast__vector_new(device, "a test's vectors", room(&c), &c.y);
        if (!err)
            err = check_all(&c);
        fast__vector_free(c.x);
        fast__vector_free(c.y);
        c.x = c.y = NULL;
    }
    fast_group_free(c.group);
    return err;
}
