/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "fast/run.h"

/*
 * The named systems: presets of a run's options, with the columns of the taxonomy. A table a family
 * (systems_FAMILY.c), because a preset is a point in its family's options; each ends with a row
 * whose name is NULL. Presets of equal flags are aliases: one is the first, and the others say what
 * told them apart.
 */
extern const fast_system *const fast__systems[]; /* the tables; the last is NULL */

/* The system of this name, or FAST_EINVAL with the nearest one. */
fast_err fast__system_find(const char *name, const fast_system **out);

/* The i-th of all systems in the order of the tables; NULL past the last. */
const fast_system *fast__system_at(int64_t i);

/* The next "name=value" of a system's flags: copies it to text[0 .. size) and returns where the
 * rest begins; NULL when there is none. */
const char *fast__system_flag(const char *flags, char *text, size_t size);

/* Join a preset's "name:key=value,..." with the user's, whose keys win. FAST_EINVAL if the two name
 * different parts, or the text does not fit. */
fast_err fast__system_merge(const fast_system *system, const char *option, const char *preset,
                            const char *given, char *text, size_t size);
