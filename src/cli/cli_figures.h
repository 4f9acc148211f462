/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "cli_page.h"

#include <jansson.h>

/* Figures of a model as `fast train --json` and the store have them, for people. `figures` is the
 * object of that name; anything else in its place prints nothing. */

/* One line: "macro F1 0.7213, precision ..., AUC ..." or "MAE ..., RMSE ..., R2 ...". */
void cli_figures_line(const json_t *figures, FILE *out);
/* A table of the classes, and the confusion matrix where it fits the page. */
void cli_figures_tables(const json_t *figures, cli_page *page);
