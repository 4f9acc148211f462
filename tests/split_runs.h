/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "run/team.h"

/*
 * Runs of split models beside those of whole ones, for suites of one kind of split. `small` are the
 * options of a suite, `more` those of a case, which replace them; both end with NULL, and `more`
 * may be NULL.
 */
struct CMUnitTest;

/* The transport of the suite, "transport=threads"; whether its workers are processes of MPI, and
 * the rank of this one. */
const char *test_transport(void);
bool test_is_mpi(void);
int64_t test_rank(void);

/* Open a run; fails the test if it cannot be opened. */
fast_run *test_open_run(const char *const *small, const char *const *more);

/* Train a whole model and a split one: return the largest difference of two parameters or two
 * statistics, and set that of the losses, each relative to the largest. 0 at ranks that have no
 * whole result. */
double test_split_distance(const char *const *small, const char *const *whole,
                           const char *const *split, double *loss_out);

/* Fail the test unless a split run has the parameters, statistics and losses of the whole one: the
 * options of `job`, with a mesh and a layout, which may be NULL. `bound` is relative. */
void test_split_equals(const char *const *small, const char *const *job, const char *mesh,
                       const char *layout, double bound);

/* Return the sentence by which a run is refused; fails the test if it is not. */
const char *test_refusal(const char *const *small, const char *const *more);

/* Open and train with every allocation failing in turn. */
void test_out_of_memory(const char *const *small, const char *const *more);

/* Run the tests over threads and in the simulator, or with the word "mpi" over the ranks of
 * mpirun. */
int test_split_main(int argc, char **argv, const struct CMUnitTest *tests, size_t count);
