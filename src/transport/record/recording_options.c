/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The options that a recording belongs to, one a line, as name=value. They are in its header, where
 * any viewer shows them, and must be equal in a replay; the error names the first that differs.
 */
#include "base/memory.h"
#include "transport/record/recording.h"
#include "transport/record/replay.h"
#include "transport/transport.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum { OWN_MAX = 4096 }; /* bytes of the lines before the job's */

fast_err fast__record_text(const fast_world *world, char **out)
{
    const fast_actors_config *c = &world->config;
    const char *job = c->job ? c->job : "";
    char *text = NULL;
    size_t used;

    FAST_ASSERT(out != NULL);
    if (strlen(job) > FAST_RECORDING_TEXT_MAX - OWN_MAX)
        return fast__fail(FAST_EINVAL, "the options of this run are too long to be recorded");
    FAST_TRY(fast__alloc("a recording", (int64_t)(strlen(job) + OWN_MAX), 1, &text));
    used = (size_t)snprintf(text, OWN_MAX, "transport=%s\nseed=%" PRId64 "\ntimeout=%.17g\n",
                            c->transport, c->seed, c->timeout);
    for (int64_t i = 0; i < world->role_count && used < OWN_MAX / 2; i++)
        used += (size_t)snprintf(text + used, OWN_MAX / 2, "%.200ss=%" PRId64 "\n",
                                 world->roles[i].name, world->roles[i].count);
    memcpy(text + used, job, strlen(job) + 1);
    *out = text;
    return FAST_OK;
}

/* Return the length of the first line of a text of `size` bytes, at most 200. */
static int line_length(const char *text, size_t size)
{
    const char *end = memchr(text, '\n', size);
    const size_t length = end ? (size_t)(end - text) : size;
    return (int)(length < 200 ? length : 200);
}

fast_err fast__record_check(const char *path, const fast_recording *recording, const char *text)
{
    const char *theirs = recording->text;
    const size_t mine_size = strlen(text);
    size_t at = 0, begin = 0;

    if (recording->text_size == mine_size && memcmp(theirs, text, mine_size) == 0)
        return FAST_OK;
    while (at < recording->text_size && at < mine_size && theirs[at] == text[at]) {
        at++;
        if (text[at - 1] == '\n')
            begin = at;
    }
    const int a = line_length(theirs + begin, recording->text_size - begin);
    const int b = line_length(text + begin, mine_size - begin);
    for (int i = 0; i < a; i++)
        if (theirs[begin + (size_t)i] < ' ')
            return fast__fail(FAST_EINVAL, "recording \"%.200s\" is of another run", path);
    return fast__fail(FAST_EINVAL,
                      "recording \"%.200s\" is of a run with %.*s, and this one has %.*s; give "
                      "the same options",
                      path, a, theirs + begin, b, text + begin);
}
