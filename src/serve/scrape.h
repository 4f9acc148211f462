/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "fast/store.h"
#include "serve/serve_page.h"

/*
 * Runs as text of OpenMetrics 1.0, which Prometheus reads. Rows come in one after the other; the
 * text wants all samples of a family together, so each family is gathered by itself.
 */
enum { FAST_SCRAPE_FAMILIES = 20 };
#define FAST_SCRAPE_TYPE "application/openmetrics-text; version=1.0.0; charset=utf-8"

typedef struct fast_scrape {
    fast_page samples[FAST_SCRAPE_FAMILIES]; /* of each family */
} fast_scrape;

/* Add what a run measured; one with the number -1 is alone, and its samples have no label `run`. */
void fast__scrape_add(fast_scrape *scrape, const fast_stored_run *run);

/* The whole text, after what is in `text`; the scrape is empty then. */
void fast__scrape_end(fast_scrape *scrape, fast_page *text);
