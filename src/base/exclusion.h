/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "base/option.h"

/*
 * Options that do not go together, as data: refusals before a run and the manual are both made from
 * one table.
 *
 * A term names an option of the table: `backup` holds where the option differs from its default,
 * `slack=0` where it has that value, `slack!=0` where it has another one. Terms joined by `&` must
 * all hold; of terms joined by `|` one is enough.
 */
typedef struct fast_exclusion {
    const char *when;     /* terms joined by `&` that make the row apply */
    const char *excludes; /* terms joined by `|` that must not hold then; NULL: see `needs` */
    const char *needs;    /* terms joined by `|` of which one must hold then; NULL: none */
    const char *why;      /* the reason, a clause without a full stop */
} fast_exclusion;

/* Check a configuration against `rows`, which end with a row whose `when` is NULL. Return
 * FAST_EINVAL for the first row that is violated; the detail names both options with their values,
 * and the reason. A term that names no option, or a value that does not parse, is a bug. */
fast_err fast__exclusions_check(const char *where, const fast_option *options,
                                const fast_exclusion *rows, const void *config);
