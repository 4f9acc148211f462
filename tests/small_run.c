/* SPDX-License-Identifier: Apache-2.0 */
/* The small run of strategies' tests. */
#include "small_run.h"

#include "base/err.h"
#include "transport/sim/cluster.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

fast_result test_small_run(const char *strategy, int workers, const char *const *more)
{
    char text[256], count[32];
    const char *options[40] = { "model=mlp:hidden=12",
                                "data=digits:train=160,test=32",
                                "engine=ref",
                                "plan=no",
                                "transport=sim",
                                "timeout=60",
                                "batch=4",
                                "steps=24",
                                "evaluate=end",
                                "optimizer=sgd",
                                "lr=0.05",
                                text,
                                count };
    int used = 13;
    fast_run *run = NULL;
    fast_result result;

    for (int i = 0; more && more[i]; i++) {
        FAST_ASSERT(used < 39);
        options[used++] = more[i];
    }
    snprintf(text, sizeof text, "strategy=%s", strategy);
    snprintf(count, sizeof count, "workers=%d", workers);
    if (fast_run_open(options, &run) != FAST_OK || fast_run_train(run) != FAST_OK)
        fail_msg("%s: %s", strategy, fast_error_detail());
    result = *fast_run_result(run);
    assert_string_equal(result.stop, "done");
    assert_true(isfinite(result.test_loss));
    fast_run_close(run);
    return result;
}

void test_copy_file(const char *from, const char *to)
{
    FILE *in = fopen(from, "rb"), *out = fopen(to, "wb");
    char bytes[65536];
    size_t size;

    assert_non_null(in);
    assert_non_null(out);
    while ((size = fread(bytes, 1, sizeof bytes, in)) > 0)
        assert_int_equal(fwrite(bytes, 1, size, out), size);
    fclose(in);
    fclose(out);
}

static char cluster_file[64]; /* the last one that was written; or "" */

/* Remove the cluster file at the end of the program. */
static void drop_cluster(void)
{
    if (cluster_file[0])
        remove(cluster_file);
}

const char *test_separate_servers(int workers, int servers)
{
    static char option[96];
    fast_cluster *cluster = NULL;
    FILE *file;

    if (!cluster_file[0])
        (void)!atexit(drop_cluster);
    else
        remove(cluster_file);
    snprintf(cluster_file, sizeof cluster_file, "/tmp/fast-cluster-%ld-%d-%d.yaml", (long)getpid(),
             workers, servers);
    file = fopen(cluster_file, "w");
    assert_non_null(file);
    fprintf(file, "nodes: {count: %d}\nplacement: {server: %d-%d}\n", workers + servers, workers,
            workers + servers - 1);
    fclose(file);
    if (fast__cluster_open(cluster_file, &cluster) == FAST_ENOTSUP) /* a build without YAML */
        skip();
    fast__cluster_free(cluster);
    snprintf(option, sizeof option, "cluster=%s", cluster_file);
    return option;
}

void test_refused(const char *const *strategies, size_t count, const char *begin)
{
    for (size_t i = 0; i < count; i++) {
        const char *options[] = { strategies[i], "workers=4", "data=digits:train=64,test=16",
                                  "batch=8", NULL };
        fast_run *run = NULL;

        if (fast_run_open(options, &run) != FAST_EINVAL ||
            strncmp(fast_error_detail(), begin, strlen(begin)) != 0)
            fail_msg("%s: %s", strategies[i], fast_error_detail());
    }
}
