/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "fast/run.h"

/*
 * The named systems: presets of a run's options, with the columns of the taxonomy. A table a family
 * (systems_FAMILY.c), because a preset is a point in its family's options; each ends with a row
 * whose name is NULL. Presets of equal flags are aliases of the first of them, and say how the
 * published systems differ.
 *
 * Presets of bounded or asynchronous consistency take at most 8 samples a worker and step: "the
 * mini-batch size per learner should be reduced as more learners are added to the system to
 * preserve the model accuracy" (Rudra, Gupta et al. 2016), and presets that are compared with each
 * other have the same.
 */
extern const fast_system *const fast__systems[]; /* the tables; the last is NULL */

/*
 * The taxonomy's columns of a row, in the order in which `fast systems` prints them:
 *
 *   parallelism   DP: data parallelism, MP: model parallelism
 *   optimisation  central: all workers update one model; decentral: each updates its own
 *   scheduling    sync., async., or bounded: the steps that workers may differ by
 *   exchange      the collective or pattern of messages
 *   topology      the nodes that exchange
 *   consistency   when the updates of one worker reach the models of all others
 */
#define FAST_TAXONOMY(parallelism_, optimisation_, scheduling_, exchange_, topology_,      \
                      consistency_)                                                        \
    .parallelism = parallelism_, .optimisation = optimisation_, .scheduling = scheduling_, \
    .exchange = exchange_, .topology = topology_, .consistency = consistency_

/* Find a system by its name. FAST_EINVAL names the most similar one. */
fast_err fast__system_find(const char *name, const fast_system **out);

/* Return the i-th of all systems in the order of the tables; NULL past the last. */
const fast_system *fast__system_at(int64_t i);

/* Copy the next "name=value" of a system's flags to text[0 .. size) and return the rest of the
 * flags; NULL after the last. */
const char *fast__system_flag(const char *flags, char *text, size_t size);

/* Join a preset's "name:key=value,..." with the user's, whose keys win. FAST_EINVAL if the two name
 * different components, or the text does not fit. */
fast_err fast__system_merge(const fast_system *system, const char *option, const char *preset,
                            const char *given, char *text, size_t size);
