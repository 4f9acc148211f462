/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "fast/comm.h"

/*
 * Record and replay of a run whose order the machine decides: see replay.c. A world that is neither
 * recorded nor replayed has no record state, and its actors no trace: each call below costs one
 * comparison then.
 */
struct fast_world;
struct fast_recording;
typedef struct fast_trace fast_trace;               /* of an actor */
typedef struct fast_record_state fast_record_state; /* of a world */

/* Record or replay an open world, as its options say, before it runs. FAST_EINVAL if the recording
 * belongs to another run, FAST_EFORMAT if it is damaged, FAST_EIO, FAST_ENOMEM. */
fast_err fast__record_wrap(struct fast_world *world);

/* Return why the recording of a world was abandoned; NULL: it was not. After the run. */
const char *fast__record_note(const struct fast_world *world);
/* Return whether the run was stopped because it did not follow its recording. */
bool fast__record_is_broken(const struct fast_world *world);
/* Stop a replay on behalf of the user. */
void fast__record_stop(struct fast_world *world, const char *why);

/* Record the delivery of a message, or hold it back in a replay until it is due: then true, and the
 * message is taken. First in fast__deliver() where the actor has a trace. */
bool fast__record_deliver(fast_actor *actor, fast_msg *msg);

/* Return the clock without recording it, for timelines and reports, which other threads may switch
 * on. With a trace it is the last time that the actor's program read. */
int64_t fast__record_peek_now(fast_actor *actor);

/* Record a value that is decided outside of the actor's program; a replay returns the recorded
 * one. */
int64_t fast__record_value(fast_actor *actor, int64_t value);

/* recording_options.c: return the options that a world's recording belongs to, as lines of
 * name=value; the caller frees them. FAST_EINVAL if they are too long, FAST_ENOMEM. */
fast_err fast__record_text(const struct fast_world *world, char **out);
/* FAST_EINVAL, naming the first line that differs, if a recording belongs to other options. */
fast_err fast__record_check(const char *path, const struct fast_recording *recording,
                            const char *text);
