/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "fast/run.h"

/*
 * A whole run that takes milliseconds: 24 steps of a small network on rendered digits, with plain
 * SGD in the simulator. `more`, which ends with NULL or is NULL, changes any of it ("lr=0.02"). A
 * run that does not come to its end with a finite loss fails the test.
 */
fast_result test_small_run(const char *strategy, int workers, const char *const *more);

/* Copy a file, such as a checkpoint that the run is about to replace. */
void test_copy_file(const char *from, const char *to);

/* Return the option "cluster=FILE" of a cluster in which node i has worker i and node `workers` + j
 * server j, so that a fault hits one of them. The file is removed when the test program ends; the
 * text is valid until the next call. Skips the test where cluster files cannot be read. */
const char *test_separate_servers(int workers, int servers);

/* Fail the test unless a run with each of `count` strategies and 4 workers is refused when it is
 * opened, by a sentence that starts with `begin`. */
void test_refused(const char *const *strategies, size_t count, const char *begin);
