/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>

/*
 * A sign of life for what tells nothing while it works: on a terminal, from the second second on,
 * one line with what is done and for how long, drawn by a thread of its own. Elsewhere nothing.
 * Who writes to the terminal meanwhile calls cli_busy_clear() first.
 */
typedef struct cli_busy {
    FILE *file;            /* standard error */
    bool runs;             /* the thread does; written before it starts */
    char what[128];        /* all below is guarded by mutex */
    double about_s;        /* how long it takes on a quiet machine; 0: not known */
    double begun_s;        /* by the machine's clock */
    bool drawn;            /* the line is on the screen */
    bool ended;            /* the thread shall end */
    pthread_t thread;      /* draws the sign of life */
    pthread_mutex_t mutex; /* guards the fields from `what` on */
    pthread_cond_t wake;   /* `ended` has changed */
} cli_busy;

void cli_busy_begin(cli_busy *busy, FILE *file, const char *what, double about_s);
void cli_busy_clear(cli_busy *busy);
/* Clear the line and end the thread; does nothing a second time. */
void cli_busy_end(cli_busy *busy);
