/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "comm/allreduces.h"

/* The model of the transport by which `auto` chooses. */

/* Fit the group's model now, if it is not yet. A collective: all members call it. */
fast_err fast__model_fit(fast_group *group, int64_t deadline);

/* What the model says for algorithm i, which is open, and vectors of `count` floats; NAN if there
 * is no model yet. */
double fast__model_seconds(fast_group *group, int i, int64_t count);

/* The seconds of the group's allreduce of `count` floats at these prices, by the algorithm that it
 * uses. Its model is theirs from then on, so it is for groups that have done their work. NAN if it
 * cannot say. */
double fast__model_at(fast_group *group, const fast_price *price, int64_t count);

/* Groups up to this size are small enough to play their schedules. */
enum { FAST_PREDICT_MAX = 32 };

/* The seconds of a schedule, at the last of the ranks. False if the group is too large, or too much
 * is under way at once. */
bool fast__schedule_predict(const fast_price *price, const fast_ask *ask, fast_round_fn *rounds,
                            double *seconds_out);
