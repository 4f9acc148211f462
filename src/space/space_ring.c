/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A consistent-hash ring (Karger et al. 1997) that assigns ranges of keys to servers, as in Li et
 * al. 2014, section 4.3. Keys are in order on the ring, so that a range of keys is an arc; each
 * server is at several points of it, its virtual servers, and a virtual server holds the keys
 * between the point before its own and its own.
 *
 *     point(server s, virtual server v) = hash(s, v) / 2^64;   point(0, 0) = 1, the end of the ring
 *
 *     0 ---- s2 ------- s0 -- s1 ---- s0 ---------- s2 --- s1 ---- 1 = s0
 *
 * The points of a server do not depend on the other servers. A further server therefore takes keys
 * from the others, about 1 / (servers + 1) of all, and no key moves between two of the others.
 * With v virtual servers each the shares differ by about 1 / sqrt(v).
 */
#include "space/space_state.h"

#include "base/hash.h"
#include "base/memory.h"

#include <stdlib.h>

/* A virtual server on the ring. */
typedef struct ring_point {
    double at;      /* its point, in (0, 1] */
    int64_t number; /* virtual server v of server s: v * servers + s */
} ring_point;

/* By their points; of equal points, which hold no key between them, by their numbers. */
static int compare_points(const void *a, const void *b)
{
    const ring_point *p = a, *q = b;

    FAST_ASSERT(p && q);
    if (p->at != q->at)
        return p->at < q->at ? -1 : 1;
    return (p->number > q->number) - (p->number < q->number);
}

/* Fifty bits of the hash make a fraction that is exact, and below 1. */
static double point_of(int64_t server, int64_t virtual_server)
{
    const int64_t key[2] = { server, virtual_server };

    FAST_ASSERT(server >= 0 && virtual_server >= 0);
    if (server == 0 && virtual_server == 0)
        return 1;
    return (double)((fast__hash(key, sizeof key, 0) >> 14) + 1) / (double)(INT64_C(1) << 50);
}

fast_err fast_space_ring(int64_t servers, int64_t virtual_servers, int64_t *numbers, double *ends)
{
    ring_point *points = NULL;
    int64_t count;

    FAST_ASSERT(numbers && ends);
    if (servers < 1 || virtual_servers < 1 || !fast__mul_size(servers, virtual_servers, &count))
        return fast__fail(FAST_EINVAL, "a ring of %lld servers with %lld virtual servers each",
                          (long long)servers, (long long)virtual_servers);
    FAST_TRY(fast__alloc("a ring", count, sizeof *points, &points));
    for (int64_t i = 0; i < count; i++)
        points[i] = (ring_point){ point_of(i % servers, i / servers), i };
    qsort(points, (size_t)count, sizeof *points, compare_points);
    for (int64_t i = 0; i < count; i++) {
        numbers[i] = points[i].number;
        ends[i] = points[i].at;
    }
    FAST_ASSERT(ends[count - 1] == 1);
    fast__free(points);
    return FAST_OK;
}
