/* SPDX-License-Identifier: Apache-2.0 */
#include "split_runs.h"

#include "base/memory.h"

#ifdef FAST_HAVE_MPI
#include "base/clock.h"
#include "transport/mpi/process.h"
#endif

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

enum { OPTIONS_MAX = 48, ALLOCATIONS_MAX = 40000, WAIT_S = 60 };

static const char *transport = "transport=threads"; /* of all runs that do not name one */
static int64_t rank;                                /* of this process */

const char *test_transport(void)
{
    return transport;
}

bool test_is_mpi(void)
{
    return strcmp(transport, "transport=mpi") == 0;
}

int64_t test_rank(void)
{
    return rank;
}

/* Put one list behind the other. */
static void join(const char *const *small, const char *const *more,
                 const char *options[OPTIONS_MAX])
{
    int used = 0;
    for (int i = 0; small[i]; i++)
        options[used++] = small[i];
    for (int i = 0; more && more[i]; i++)
        options[used++] = more[i];
    FAST_ASSERT(used < OPTIONS_MAX);
    options[used] = NULL;
}

fast_run *test_open_run(const char *const *small, const char *const *more)
{
    const char *options[OPTIONS_MAX];
    fast_run *run = NULL;
    join(small, more, options);
    if (fast_run_open(options, &run))
        fail_msg("%s", fast_error_detail());
    return run;
}

/* The largest difference of two elements, relative to the largest one. */
static double distance(int64_t count, const float *a, const float *b)
{
    double far = 0, large = 0;
    for (int64_t i = 0; i < count; i++) {
        const double off = fabs((double)a[i] - (double)b[i]);
        far = isnan(off) ? INFINITY : fmax(far, off);
        large = fmax(large, fabs((double)a[i]));
    }
    return far > 0 ? far / large : 0;
}

double test_split_distance(const char *const *small, const char *const *whole,
                           const char *const *split, double *loss_out)
{
    fast_run *a = test_open_run(small, whole), *b = test_open_run(small, split);
    if (fast_run_train(a) || fast_run_train(b))
        fail_msg("%s", fast_error_detail());
    const fast_learner *right = a->learner, *got = b->learner;
    const double far = fmax(distance(right->params.count, right->w, got->w),
                            distance(right->state.count, right->s, got->s));
    const double loss = fast_run_result(a)->loss;
    *loss_out = rank == 0 ? fabs(fast_run_result(b)->loss - loss) / loss : 0;
    fast_run_close(a);
    fast_run_close(b);
    return rank == 0 ? far : 0;
}

void test_split_equals(const char *const *small, const char *const *job, const char *mesh,
                       const char *layout, double bound)
{
    const char *whole[OPTIONS_MAX], *split[OPTIONS_MAX];
    double loss = 0;
    join(job, (const char *const[]){ strstr(mesh, "data=2") ? "workers=2" : "workers=1", NULL },
         whole);
    join(job, (const char *const[]){ mesh, transport, layout, NULL }, split);
    const double far = test_split_distance(small, whole, split, &loss);
    if (!(far < bound) || !(loss < bound))
        fail_msg("%s %s %s %s: parameters off by %g, loss by %g", job[0], job[1], mesh,
                 layout ? layout : "", far, loss);
}

const char *test_refusal(const char *const *small, const char *const *more)
{
    const char *options[OPTIONS_MAX];
    fast_run *run = NULL;
    join(small, more, options);
    assert_int_equal(fast_run_open(options, &run), FAST_EINVAL);
    return fast_error_detail();
}

void test_out_of_memory(const char *const *small, const char *const *more)
{
    const char *options[OPTIONS_MAX];
    join(small, more, options);
    for (int64_t n = 0;; n++) {
        fast_run *run = NULL;
        fast__alloc_fail_after(n, true);
        fast_err err = fast_run_open(options, &run);
        if (!err)
            err = fast_run_train(run);
        fast__alloc_fail_after(-1, true);
        fast_run_close(run);
        if (!err)
            return;
        assert_int_equal(err, FAST_ENOMEM);
        assert_true(n < ALLOCATIONS_MAX);
    }
}

int test_split_main(int argc, char **argv, const struct CMUnitTest *tests, size_t count)
{
    int failed = 0;
    if (argc > 1 && strcmp(argv[1], "mpi") == 0) {
#ifdef FAST_HAVE_MPI
        const fast_mpi_process *process = NULL;
        transport = "transport=mpi";
        if (fast__mpi_begin(fast__clock_ns() + (int64_t)WAIT_S * 1000 * 1000 * 1000, &process))
            return 1;
        rank = process->rank;
#else
        return 1;
#endif
        return _cmocka_run_group_tests("mpi", tests, count, NULL, NULL);
    }
    for (int i = 0; i < 2; i++) {
        transport = i == 0 ? "transport=threads" : "transport=sim";
        failed += _cmocka_run_group_tests(transport, tests, count, NULL, NULL);
    }
    return failed;
}
