/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "run/run.h"

/*
 * Keeping a run in the store, where the option `store` asks for it: none of these fails or waits,
 * and all of them do nothing where there is nothing to keep. keep.c decides what is kept and hands
 * it over; keep_writer.c is the thread that writes it.
 */

/* fast_run_train() begins: start the writer. */
void fast__keep_begin(fast_run *run);
/* An event of the run; called by who may touch the run. */
void fast__keep_event(fast_run *run, fast_event_kind kind, const char *text);
/* Another strategy from here on. */
void fast__keep_phase(fast_run *run, const char *text);
/* The actors of a world are about to be closed: what they counted is added
 * up. The world took `time_ns`, which the run has counted. */
void fast__keep_world(fast_run *run, int64_t time_ns);
/* fast_run_train() is over, with this error: write the rest, and wait for that. */
void fast__keep_end(fast_run *run, fast_err err);
/* Free it; the run is about to be closed. */
void fast__keep_free(fast_run *run);

/* The words that repeat a run of these options: fast train --model ...; the caller frees them. */
fast_err fast__keep_command(const char *const *options, char **out);
