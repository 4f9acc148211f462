/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "run/run.h"

/*
 * The run store as a sink of a run's events, where the option `store` asks for it. store_sink.c
 * decides which rows there are and hands them over; store_writer.c is the thread that writes them.
 * None of these functions fails or waits for the store, but for the last row; without a store they
 * do nothing.
 */

/* fast_run_train() starts: start the writer. */
void fast__store_sink_begin(fast_run *run);
/* Store an event of the run. Called by the thread that may touch the run. */
void fast__store_sink_event(fast_run *run, fast_event_kind kind, const char *text);
/* Store that an actor is lost, hangs or is back: a mark of the run's curves. */
void fast__store_sink_fault(fast_run *run, bool over, const char *text);
/* Store that another strategy starts. */
void fast__store_sink_phase(fast_run *run, const char *text);
/* The actors of a world are about to be closed: add up their counters. The world took `time_ns`,
 * which the run has counted. */
void fast__store_sink_world(fast_run *run, int64_t time_ns);
/* fast_run_train() is over, with this error: write the rest, and wait until it is written. */
void fast__store_sink_end(fast_run *run, fast_err err);
/* The run is about to be closed: free the sink. */
void fast__store_sink_free(fast_run *run);

/* The words that repeat a run of these options: fast train --model ...; the caller frees them. */
fast_err fast__command_words(const char *const *options, char **out);
