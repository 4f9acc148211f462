/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "run/run.h"

/* Cut the network of a run into `count` stages by measured times (--cuts measured): ends[s]
 * receives the last node of stage s, and the option `cuts` the names of the cuts, which give them
 * again without a measurement. Stage s is divided among replicas[s] workers, NULL: one each.
 * FAST_EINVAL if it has fewer places with a name, or several losses. FAST_ENOMEM; fails as the
 * engine does. */
fast_err fast__split_measured(fast_run *run, int64_t count, const int16_t *replicas, int *ends);
