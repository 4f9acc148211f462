/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Goal: an allreduce of random vectors gives the same bits on every transport, in every build, for
 * each algorithm. Method: hashes of results for many sizes, stored in git
 * (tests/golden/allreduce.csv): every actor compares its own with them, on every transport of the
 * registry, or, started by mpirun, on mpi. The vectors' magnitudes differ so much that another
 * order of additions shows. The hashes of algorithms with the canonical order are also computed
 * here, from its definition.
 *
 * `same_bits_test print` prints the file's lines, computed on threads.
 */
#include "base/file.h"
#include "base/hash.h"
#include "base/memory.h"
#include "base/rng.h"
#include "conform/transport_suite.h"
#include "fast/comm.h"

#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static const char *const algorithms[] = {
    "tree",   "butterfly", "rabenseifner",    "hierarchical:members=2", "hierarchical:members=4",
    "direct", "ring",      "ring:chunk=1000",
};
enum { ALGORITHMS = sizeof algorithms / sizeof *algorithms };

/* The largest last: it takes long with sanitizers. */
static const int64_t counts[] = { 1, 3, 1000, 65537 };
enum { COUNTS = sizeof counts / sizeof *counts, ACTORS_MAX = 8, GOLDEN_MAX = 1 << 20 };

/* A run of actors: one algorithm, all counts. */
typedef struct bits {
    const char *algorithm; /* with options */
    const char *golden;    /* the file; NULL: print the lines instead */
} bits;

/* Element i of the vector of an actor: of any sign, from 2^-20 to 2^20. */
static void fill(int64_t id, float *x, int64_t count)
{
    fast_rng rng;
    fast__rng_init(&rng, 2024, FAST_PURPOSE_TEST, (uint64_t)id, 0, 0);
    for (int64_t i = 0; i < count; i++) {
        const uint32_t r = fast__rng_u32(&rng);
        const uint32_t exponent = 127 - 20 + (r >> 8 & 0xff) * 40 / 255;
        const uint32_t word = (r & 0x80000000u) | exponent << 23 | (fast__rng_u32(&rng) >> 9);
        memcpy(&x[i], &word, sizeof word);
    }
}

/* Compare with the line of the golden file, or print it. */
static fast_err compare(fast_actor *actor, const bits *b, int64_t count, const float *x)
{
    char line[128], hash[32];
    snprintf(line, sizeof line, "\n%s,%" PRId64 ",%" PRId64 ",", b->algorithm,
             fast_actor_count(actor), count);
    snprintf(hash, sizeof hash, "%016" PRIx64,
             fast__hash(x, (size_t)count * sizeof *x, (uint64_t)count));
    if (!b->golden) {
        if (fast_actor_id(actor) == 0)
            printf("%s%s\n", line + 1, hash);
        return FAST_OK;
    }
    const char *known = strstr(b->golden, line);
    if (!known)
        return fast__fail(FAST_EINVAL, "no line \"%s\" in tests/golden/allreduce.csv", line + 1);
    known += strlen(line);
    if (strncmp(known, hash, 16) != 0)
        return fast__fail(FAST_EINVAL, "%s%s, where %.16s is golden", line + 1, hash, known);
    return FAST_OK;
}

static fast_err reduce(fast_actor *actor, const bits *b, fast_group *group, float *x)
{
    const fast_err err = fast_group_algorithm(group, b->algorithm);
    if (err == FAST_ENOTSUP && strcmp(b->algorithm, "direct") == 0)
        return FAST_OK; /* its members share no memory here */
    FAST_TRY(err);
#ifdef FAST_SANITIZED
    const int used = COUNTS - 1;
#else
    const int used = COUNTS;
#endif
    for (int k = 0; k < used; k++) {
        fill(fast_actor_id(actor), x, counts[k]);
        FAST_TRY(fast_allreduce(group, x, counts[k], FAST_SOON));
        FAST_TRY(compare(actor, b, counts[k], x));
    }
    return fast_barrier(group, FAST_SOON);
}

static fast_err bits_main(fast_actor *actor, void *ctx)
{
    fast_group *group = NULL;
    float *x = NULL;
    FAST_TRY(fast__alloc("a vector", counts[COUNTS - 1], sizeof *x, &x));
    fast_err err = fast_group_all(actor, NULL, &group);
    if (!err)
        err = reduce(actor, ctx, group, x);
    fast_group_free(group);
    fast__free(x);
    return err;
}

/* The sum by its definition: with n = 2^k + r vectors, 2i and 2i + 1 are added first for i < r,
 * then neighbours, until one is left. */
static void canonical_sum(int64_t n, int64_t count, float *x)
{
    float *parts = NULL;
    int64_t power = 1, left = 0;
    assert_int_equal(fast__alloc("vectors", n * count, sizeof *parts, &parts), FAST_OK);
    for (int64_t id = 0; id < n; id++)
        fill(id, parts + id * count, count);
    while (power * 2 <= n)
        power *= 2;
    for (int64_t i = 0; i < n; left++) {
        const bool pair = left < n - power;
        for (int64_t e = 0; e < count; e++)
            parts[left * count + e] =
                pair ? parts[i * count + e] + parts[(i + 1) * count + e] : parts[i * count + e];
        i += pair ? 2 : 1;
    }
    for (; left > 1; left /= 2)
        for (int64_t i = 0; i < left / 2; i++)
            for (int64_t e = 0; e < count; e++)
                parts[i * count + e] = parts[2 * i * count + e] + parts[(2 * i + 1) * count + e];
    memcpy(x, parts, (size_t)count * sizeof *x);
    fast__free(parts);
}

/* The file's hashes of algorithms with the canonical order are those of that order's sum. */
static void check_canonical(const char *golden, int64_t actors, int64_t count)
{
    float *x = NULL;
    assert_int_equal(fast__alloc("a vector", count, sizeof *x, &x), FAST_OK);
    canonical_sum(actors, count, x);
    const uint64_t hash = fast__hash(x, (size_t)count * sizeof *x, (uint64_t)count);
    fast__free(x);
    for (int a = 0; a < ALGORITHMS; a++) {
        char line[128];
        const int64_t members = a == 3 ? 2 : a == 4 ? 4 : 1;
        if (strncmp(algorithms[a], "ring", 4) == 0 || actors % members != 0)
            continue;
        snprintf(line, sizeof line, "\n%s,%" PRId64 ",%" PRId64 ",%016" PRIx64 "\n", algorithms[a],
                 actors, count, hash);
        if (!strstr(golden, line))
            fail_msg("the golden file does not have%s", line);
    }
}

/* Every algorithm and number of actors on one transport. */
static void test_bits(void **state)
{
    const suite *on = *state;
    char *golden = NULL;
    size_t size = 0;
    assert_int_equal(fast__file_read(FAST_SOURCE_FOLDER "/tests/golden/allreduce.csv", GOLDEN_MAX,
                                     &golden, &size),
                     FAST_OK);
    for (int64_t actors = on->alone ? 2 : 4; actors <= ACTORS_MAX; actors++)
        for (int a = 0; a < ALGORITHMS; a++) {
            bits b = { algorithms[a], golden };
            if (suite_run(on, bits_main, &b, actors, NULL, NULL))
                fail_msg("%s: %s", on->transport, fast_error_detail());
        }
    fast__free(golden);
}

static void test_golden(void **state)
{
    (void)state;
    char *golden = NULL;
    size_t size = 0;
    assert_int_equal(fast__file_read(FAST_SOURCE_FOLDER "/tests/golden/allreduce.csv", GOLDEN_MAX,
                                     &golden, &size),
                     FAST_OK);
    for (int64_t actors = 2; actors <= ACTORS_MAX; actors++)
        for (int k = 0; k < COUNTS; k++)
            check_canonical(golden, actors, counts[k]);
    fast__free(golden);
}

/* The golden file, as it is now. */
static int print(void)
{
    const suite on = { "threads", false, true, 0 };
    printf("algorithm,actors,count,hash\n");
    for (int64_t actors = 2; actors <= ACTORS_MAX; actors++)
        for (int a = 0; a < ALGORITHMS; a++) {
            bits b = { algorithms[a], NULL };
            if (suite_run(&on, bits_main, &b, actors, NULL, NULL)) {
                fprintf(stderr, "%s\n", fast_error_detail());
                return 1;
            }
        }
    return 0;
}

int main(int argument_count, char **arguments)
{
    static suite places[16];
    static char names[16][64];
    struct CMUnitTest tests[17];
    size_t used = 0;
    const bool mpi = getenv("OMPI_COMM_WORLD_SIZE") || getenv("PMI_RANK") || getenv("PMIX_RANK");
    if (argument_count > 1 && strcmp(arguments[1], "print") == 0)
        return print();
    for (int i = 0; fast__transports[i] && used < 15; i++) {
        const char *name = fast__transports[i]->name;
        if ((strcmp(name, "mpi") == 0) != mpi)
            continue;
        for (int check = 0; check < 2; check++) {
            places[used] = (suite){ name, check == 1, !mpi, 0 };
            snprintf(names[used], sizeof names[used], "%s%s", name, check ? " checked" : "");
            tests[used] = (struct CMUnitTest){ names[used], test_bits, NULL, NULL, &places[used] };
            used++;
        }
    }
    tests[used++] = (struct CMUnitTest)cmocka_unit_test(test_golden);
    return _cmocka_run_group_tests("the same bits", tests, used, NULL, NULL);
}
