/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `fast bench allreduce`: a line for each algorithm and length, with the columns of the usual
 * benchmarks of MPI: bytes of a vector, microseconds of a call, GB/s of the vector. The last column
 * is what the model behind `auto` predicts. Under mpirun every rank runs this, and only the first
 * one has something to report.
 */
#include "busy.h"
#include "cli_json.h"
#include "cli_tables.h"

#include <inttypes.h>
#include <math.h>

/* How measurements are shown. */
typedef struct allreduce_show {
    bool json;
    bool head;     /* the head of the table was printed */
    cli_busy busy; /* a sign of life between two rows */
} allreduce_show;

static void show_line(const fast_allreduce_measure *measure)
{
    printf("%-9s %-20s %7" PRId64 " %12" PRId64 " %12.2f %10.3f", measure->transport,
           measure->algorithm, measure->workers, measure->bytes, 1e6 * measure->seconds,
           measure->gb_per_s);
    if (isfinite(measure->predicted_s))
        printf(" %12.2f\n", 1e6 * measure->predicted_s);
    else
        printf(" %12s\n", "-");
}

static void show_measure(void *ctx, const fast_allreduce_measure *measure)
{
    allreduce_show *show = ctx;
    cli_json json;

    cli_busy_clear(&show->busy);
    if (show->json) {
        cli_json_begin(&json, stdout);
        cli_json_text(&json, "transport", measure->transport);
        cli_json_text(&json, "algorithm", measure->algorithm);
        cli_json_int(&json, "workers", measure->workers);
        cli_json_int(&json, "bytes", measure->bytes);
        cli_json_real(&json, "us", 1e6 * measure->seconds);
        cli_json_real(&json, "gb_per_s", measure->gb_per_s);
        cli_json_real(&json, "predicted_us", 1e6 * measure->predicted_s);
        cli_json_end(&json);
    } else {
        if (!show->head)
            printf("%-9s %-20s %7s %12s %12s %10s %12s\n", "transport", "algorithm", "workers",
                   "bytes", "us", "GB/s", "predicted us");
        show->head = true;
        show_line(measure);
    }
    fflush(stdout);
}

int cli_bench_allreduce(const char *const *options, bool json)
{
    allreduce_show show = { .json = json };
    fast_err err;

    cli_busy_begin(&show.busy, stderr, "measuring sums over workers", 0);
    err = fast_bench_allreduce(options, show_measure, &show);
    cli_busy_end(&show.busy);

    return err ? cli_fail_err(err) : CLI_DONE;
}
