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
