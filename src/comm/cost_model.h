/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "comm/allreduces.h"

/* The cost model of the transport, by which `auto` chooses an algorithm. */

/* Fit the group's model, unless it has been. A collective: all members call it. */
fast_err fast__model_fit(fast_group *group, int64_t deadline);

/* Return the seconds that the model predicts for algorithm i, which is open, and vectors of `count`
 * floats; NAN if the group has no model yet. */
double fast__model_seconds(fast_group *group, int i, int64_t count);

/* Return the seconds of the group's allreduce of `count` floats at this cost, by the algorithm that
 * it uses; NAN if it cannot say. The group's model has this cost from then on, so it is for groups
 * that have finished their work. */
double fast__model_at(fast_group *group, const fast_comm_cost *cost, int64_t count);

/* Schedules of groups up to this size are simulated move by move. */
enum { FAST_PREDICT_MAX = 32 };

/* Set the seconds that a schedule takes, until its last rank ends. False if the group is too large,
 * or too many messages are in flight at once. */
bool fast__schedule_predict(const fast_comm_cost *cost, const fast_ask *ask, fast_round_fn *rounds,
                            double *seconds_out);
