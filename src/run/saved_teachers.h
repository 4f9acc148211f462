/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "learner/learner.h"
#include "run/run.h"

/*
 * Saved models as teachers of a run's model: files of `fast train --save`, each with a network of
 * its own. A learner asks them for their outputs of its batches.
 */
typedef struct fast_saved_teachers fast_saved_teachers;

/* Open the files, joined by '+', and store them in *teachers, which lends from *out; its
 * temperature and share are the caller's. FAST_EINVAL if a model's inputs or outputs are not those
 * of the run; fails as fast_predictor_open(). */
fast_err fast__saved_teachers_open(const fast_run *run, const char *files, fast_teachers *teachers,
                                   fast_saved_teachers **out);
void fast__saved_teachers_close(fast_saved_teachers *teachers);
