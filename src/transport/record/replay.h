/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "fast/actor.h"
#include "transport/record/recording.h"

/*
 * Record and replay of a run whose order is the machine's: see replay.c. A world that is neither
 * recorded nor replayed has no record, and its actors no tape: each place below costs one
 * comparison then.
 */
struct fast_world;
typedef struct fast_trace fast_trace;               /* an actor's */
typedef struct fast_record_state fast_record_state; /* a world's */

/* Record or replay an open world, as its options say, from before it runs. FAST_EINVAL if the
 * recording belongs to another run, FAST_EFORMAT if it is damaged, FAST_EIO, FAST_ENOMEM. */
fast_err fast__record_wrap(struct fast_world *world);

/* Why the recording of a world was given up; NULL: it was not. After the run. */
const char *fast__record_note(const struct fast_world *world);
/* The run did not follow its recording, and was stopped for it. */
bool fast__record_is_broken(const struct fast_world *world);
/* Stop a replay: the user wants it to end. */
void fast__record_stop(struct fast_world *world, const char *why);

/* For fast__deliver(), first, where the actor has a tape. True if the message is taken: its turn
 * has not come. */
bool fast__record_deliver(fast_actor *actor, fast_msg *msg);

/* The clock, for timelines and reports, which look at it when others decide: such a look is not
 * recorded. Where there is a tape, it is what the actor's program last read. */
int64_t fast__record_look(fast_actor *actor);

/* Something that the actor's program looks at and the outside decides: what was recorded, in a
 * replay. */
int64_t fast__record_value(fast_actor *actor, int64_t value);

/* Return the options that a world's recording belongs to, as lines of name=value; the caller frees
 * them. FAST_EINVAL if they are too long, FAST_ENOMEM. */
fast_err fast__record_text(const struct fast_world *world, char **out);
/* FAST_EINVAL, which names the first line that differs, if a recording belongs to other options. */
fast_err fast__record_check(const char *path, const fast_recording *recording, const char *text);
