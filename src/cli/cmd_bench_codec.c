/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `fast bench codec`: a line for each codec: how much smaller, how fast beside memcpy(), how wrong,
 * and the bandwidth of a link below which it pays.
 */
#include "busy.h"
#include "cli_json.h"
#include "cli_tables.h"

#include <inttypes.h>

/* How measurements are shown. */
typedef struct codec_show {
    bool json;
    bool head;     /* the head of the table was printed */
    cli_busy busy; /* a sign of life between two rows */
} codec_show;

static void show_line(const fast_codec_measure *m)
{
    printf("%-28s %9.2f %10.2f %10.2f %9.2f %9.2f %10.2e %14.0f\n", m->codec,
           (double)m->bytes_in / (double)m->bytes_out, m->encode_gb_per_s, m->decode_gb_per_s,
           m->copy_s / m->encode_s, m->copy_s / m->decode_s, m->error, m->break_even_mbit_per_s);
}

static void show_measure(void *ctx, const fast_codec_measure *m)
{
    codec_show *show = ctx;
    cli_json json;

    cli_busy_clear(&show->busy);
    if (show->json) {
        cli_json_begin(&json, stdout);
        cli_json_text(&json, "codec", m->codec);
        cli_json_int(&json, "bytes_in", m->bytes_in);
        cli_json_int(&json, "bytes_out", m->bytes_out);
        cli_json_real(&json, "encode_gb_per_s", m->encode_gb_per_s);
        cli_json_real(&json, "decode_gb_per_s", m->decode_gb_per_s);
        cli_json_real(&json, "copy_gb_per_s", m->copy_gb_per_s);
        cli_json_real(&json, "error", m->error);
        cli_json_real(&json, "break_even_mbit_per_s", m->break_even_mbit_per_s);
        cli_json_end(&json);
    } else {
        if (!show->head)
            printf("%-28s %9s %10s %10s %9s %9s %10s %14s\n", "codec", "smaller", "enc GB/s",
                   "dec GB/s", "of memcpy", "of memcpy", "error", "pays below Mb/s");
        show->head = true;
        show_line(m);
    }
    fflush(stdout);
}

int cli_bench_codec(const char *const *options, bool json)
{
    codec_show show = { .json = json };
    fast_err err;

    cli_busy_begin(&show.busy, stderr, "measuring codecs", 0);
    err = fast_bench_codec(options, show_measure, &show);
    cli_busy_end(&show.busy);

    return err ? cli_fail_err(err) : CLI_DONE;
}
