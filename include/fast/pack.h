/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * pack.h - one program with a network, its settings, weights and data inside.
 *
 *     static fast_err pack_digits(void)
 *     {
 *         const char *const run[] = { "model=lenet", "data=digits", NULL };
 *         const fast_pack_options options = { .size = sizeof options,
 *                                             .runtime = "fast-runtime",
 *                                             .out = "digits",
 *                                             .options = run,
 *                                             .settings = "{\"train\": [\"--model=lenet\"]}" };
 *         fast_pack_result result;
 *         return fast_pack_write(&options, &result);
 *     }
 *
 * A packed program is a static program of FAST (`fast-runtime`) with files behind it:
 *
 *   the program, the files one after the other, a directory of them in JSON, its size in 8 bytes,
 *   and the magic "FASTPACK".
 *
 * When it has read its own directory, every path that the directory names is read from inside, so
 * that options keep their words: csv:file=iris.csv is the packed iris.csv.
 */

#include "fast/fast.h"

#ifdef __cplusplus
extern "C" {
#endif

/* A program to write; zero and NULL mean default. */
typedef struct fast_pack_options {
    size_t size;                /* bytes of this struct, as in fast.h; 0 means sizeof */
    const char *runtime;        /* program to put it behind */
    const char *out;            /* program to write; replaced if it is one */
    const char *settings;       /* JSON object for the program, given back by fast_pack_read() */
    const char *const *options; /* options of a run, which is opened to check them and to find the
                                   files that it reads; NULL: no run */
    const char *const *files;   /* further files, as weights; ends with NULL; may be NULL */
    bool without_data;          /* leave out the files of option data */
} fast_pack_options;

/* The result of packing. */
typedef struct fast_pack_result {
    int64_t files; /* packed */
    int64_t bytes; /* of the program with all files */
} fast_pack_result;

/* Write a packed program. Fails as fast_run_open() does; FAST_ENOENT without `runtime` or a file,
 * FAST_EFORMAT if `runtime` is packed already, FAST_EINVAL if `out` is a file but no program, or if
 * the data are a folder or shards and not left out; FAST_EIO. */
FAST_API FAST_MUST_CHECK fast_err fast_pack_write(const fast_pack_options *options,
                                                  fast_pack_result *out);

/* Read the directory of a packed program, in most cases of this one: its files are read from inside
 * from now on, by all threads. Call it once, before any other call. *settings_out is lent until the
 * process ends. FAST_ENOENT: it is not packed. FAST_EFORMAT: it is damaged. */
FAST_API FAST_MUST_CHECK fast_err fast_pack_read(const char *program, const char **settings_out);

#ifdef __cplusplus
}
#endif
