/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads what timelines export: a strict checker of JSON, and then, as the exporter writes one event
 * a line, the events' fields by their names.
 */
#include "trace.h"

#include "base/file.h"
#include "base/memory.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ACTOR_COUNT_MAX = 4096, DEPTH_MAX = 64, ARROW_COUNT_MAX = 1 << 16 };

static const char *skip_space(const char *at)
{
    while (*at == ' ' || *at == '\n' || *at == '\t' || *at == '\r')
        at++;
    return at;
}

/* After a string, or NULL. */
static const char *skip_string(const char *at)
{
    if (*at++ != '"')
        return NULL;
    for (; *at != '"'; at++) {
        if ((unsigned char)*at < 0x20)
            return NULL; /* the end of the text too */
        if (*at != '\\')
            continue;
        at++;
        if (*at == 'u') {
            for (int i = 0; i < 4; i++)
                if (!strchr("0123456789abcdefABCDEF", *++at) || !*at)
                    return NULL;
        } else if (!*at || !strchr("\"\\/bfnrt", *at)) {
            return NULL;
        }
    }
    return at + 1;
}

/* After a number without exponent, or NULL. */
static const char *skip_number(const char *at)
{
    at += *at == '-';
    const char *begin = at;
    while (*at >= '0' && *at <= '9')
        at++;
    if (at == begin || (*begin == '0' && at > begin + 1))
        return NULL;
    if (*at == '.') {
        begin = ++at;
        while (*at >= '0' && *at <= '9')
            at++;
        if (at == begin)
            return NULL;
    }
    return at;
}

/* After a value, or NULL. */
static const char *skip_value(const char *at, int depth)
{
    at = skip_space(at);
    if (*at != '{' && *at != '[')
        return *at == '"' ? skip_string(at) : skip_number(at);
    const bool object = *at == '{';
    const char close = object ? '}' : ']';
    if (depth >= 16)
        return NULL;
    at = skip_space(at + 1);
    if (*at == close)
        return at + 1;
    for (;;) {
        if (object) {
            at = skip_string(skip_space(at));
            if (!at || *(at = skip_space(at)) != ':')
                return NULL;
            at++;
        }
        at = skip_value(at, depth + 1);
        if (!at)
            return NULL;
        at = skip_space(at);
        if (*at == close)
            return at + 1;
        if (*at++ != ',')
            return NULL;
    }
}

/* The value after a key of a line; a number with a fraction is a time in us, returned in ns. */
static bool number_of(const char *line, const char *key, int64_t *out)
{
    const char *at = strstr(line, key);
    const char *end = strchr(line, '\n');
    if (!at || (end && at > end))
        return false;
    at += strlen(key);
    int64_t whole = 0;
    int digits = 0;
    if (sscanf(at, "%" SCNd64 "%n", &whole, &digits) != 1)
        return false;
    *out = at[digits] == '.' ? llround(strtod(at, NULL) * 1000) : whole;
    return true;
}

/* The spans of one actor that are open at the last begin. */
typedef struct actor_state {
    int64_t begin;           /* of the last span */
    int64_t ends[DEPTH_MAX]; /* of the open ones */
    int64_t depth;           /* how many */
} actor_state;

static bool check_span(const char *line, actor_state *states, trace_summary *out, char why[256])
{
    int64_t id = -1, begin = -1, length = -1;
    if (!number_of(line, "\"tid\":", &id) || !number_of(line, "\"ts\":", &begin) ||
        !number_of(line, "\"dur\":", &length) || id < 0 || id >= ACTOR_COUNT_MAX || length < 0) {
        snprintf(why, 256, "a span without its fields: %.120s", line);
        return false;
    }
    actor_state *s = &states[id];
    if (begin < s->begin) {
        snprintf(why, 256, "actor %" PRId64 " goes back from %" PRId64 " to %" PRId64, id, s->begin,
                 begin);
        return false;
    }
    s->begin = begin;
    while (s->depth > 0 && s->ends[s->depth - 1] <= begin && s->ends[s->depth - 1] < begin + length)
        s->depth--;
    if (s->depth > 0 && s->ends[s->depth - 1] < begin + length) {
        snprintf(why, 256, "actor %" PRId64 "'s span at %" PRId64 " ends after its parent", id,
                 begin);
        return false;
    }
    if (s->depth == DEPTH_MAX) {
        /* Spans of no length that touch: the oldest is over. */
        memmove(s->ends, s->ends + 1, sizeof s->ends - sizeof s->ends[0]);
        s->depth--;
    }
    s->ends[s->depth++] = begin + length;
    out->spans++;
    out->last_ns = begin + length > out->last_ns ? begin + length : out->last_ns;
    out->depth_max = s->depth > out->depth_max ? s->depth : out->depth_max;
    return true;
}

static bool check_lines(const char *text, actor_state *states, int64_t *tails, trace_summary *out,
                        char why[256])
{
    for (const char *line = text; line; line = strchr(line, '\n')) {
        line += *line == '\n';
        int64_t id = -1, time = -1;
        if (strncmp(line, "{\"ph\":\"", 7) != 0)
            continue;
        switch (line[7]) {
        case 'X':
            if (!check_span(line, states, out, why))
                return false;
            break;
        case 's':
        case 'f':
            if (!number_of(line, "\"id\":", &id) || !number_of(line, "\"ts\":", &time) || id < 0 ||
                id >= ARROW_COUNT_MAX || (line[7] == 'f' && time < tails[id])) {
                snprintf(why, 256, "a broken arrow: %.120s", line);
                return false;
            }
            if (line[7] == 's')
                tails[id] = time;
            out->arrows += line[7] == 'f';
            break;
        default:
            out->instants += line[7] == 'i';
            out->counters += line[7] == 'C';
            out->names += line[7] == 'M';
        }
    }
    return true;
}

bool trace_check(const char *path, trace_summary *out, char why[256])
{
    char *text = NULL;
    size_t size = 0;
    actor_state *states = NULL;
    int64_t *tails = NULL;
    bool good = false;
    *out = (trace_summary){ 0 };
    snprintf(why, 256, "cannot read it");
    if (!fast__file_read(path, (size_t)1 << 30, &text, &size) &&
        !fast__alloc("a trace", ACTOR_COUNT_MAX, sizeof *states, &states) &&
        !fast__alloc("a trace", ARROW_COUNT_MAX, sizeof *tails, &tails)) {
        const char *end = skip_value(text, 0);
        snprintf(why, 256, "it is no JSON");
        out->dropped = strstr(text, "earlier events were dropped") != NULL;
        good = strlen(text) == size && end && !*skip_space(end) &&
               check_lines(text, states, tails, out, why);
    }
    fast__free(tails);
    fast__free(states);
    fast__free(text);
    return good;
}
