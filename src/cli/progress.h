/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "fast/run.h"

#include <stdio.h>

/* The progress of a run: one line that is redrawn on a terminal, plain lines elsewhere. */
typedef struct cli_progress {
    FILE *file;     /* standard error */
    bool terminal;  /* redraw one line */
    bool color;     /* with colours */
    bool quiet;     /* say nothing but notes */
    bool drawn;     /* a line is on the screen that must be cleared first */
    int64_t epochs; /* of the run, 0 where it counts steps */
    double line_s;  /* time_s of the last plain line */
} cli_progress;

void cli_progress_init(cli_progress *progress, FILE *file, bool quiet, int64_t epochs);

/* Show an event of kind PROGRESS, EVALUATE or NOTE. */
void cli_progress_show(cli_progress *progress, const fast_event *event);

/* Clear the redrawn line, so that something else can be written. */
void cli_progress_clear(cli_progress *progress);

/* "1:02:03", "0:32"; "" where the time is not known. */
void cli_progress_time(double seconds, char text[32]);

/* Columns of the terminal, at most 200; 80 where it does not tell. */
int cli_progress_width(FILE *file);

/* A bar for anything that is counted: redrawn on a terminal at most ten times a second; elsewhere a
 * line every 30 seconds. */
typedef struct cli_bar {
    FILE *file;     /* standard error */
    bool terminal;  /* redraw one line */
    bool color;     /* with colours */
    bool drawn;     /* a line is on the screen that must be cleared first */
    double shown_s; /* when it was shown last, by the machine's clock */
    char note[160]; /* the latest note; shown until the next one */
} cli_bar;

void cli_bar_init(cli_bar *bar, FILE *file);
/* "12/64 runs [====>    ] 1:32 left  note"; `note` "" leaves the last one, `count` 0: not known. */
void cli_bar_show(cli_bar *bar, const char *what, int64_t done, int64_t count, double seconds_left,
                  const char *note);
void cli_bar_clear(cli_bar *bar);
