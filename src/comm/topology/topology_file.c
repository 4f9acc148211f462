/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Topologies from a file, one link a line:
 *
 *     # comments and empty lines are skipped
 *     size 4          optional, before the first link: the group must have as many
 *     directed        optional, before the first link: links lead one way
 *     0 1             a link between ranks, its weight by the degrees
 *     1 2 0.25        a link with the share that each takes of the other; then all links have one
 *     step            what follows is the graph of the next step; the last is followed by the first
 *
 * Undirected graphs must be fit for mixing (fast_topology_check()); directed ones need not be,
 * since push-sum only asks that no rank gives away more than it has.
 */
#include "comm/topology.h"

#include "base/memory.h"

#include <string.h>

enum { STEPS_MAX = 4096, RANK_STEPS_MAX = 1 << 22, WORDS_MAX = 4, WORD_MAX = 32 };

/* The state of reading a file. */
typedef struct topology_reader {
    int64_t size;              /* of the group */
    bool directed;             /* links lead one way */
    bool weighted;             /* the first link has a weight */
    int64_t line;              /* from 1 */
    fast_topology_link *links; /* links read, with room for one a line */
    int64_t count;             /* of links */
    int64_t *starts;           /* of the steps */
    int64_t steps;             /* finished ones */
} topology_reader;

/* Cut a line into words; their number, or WORDS_MAX + 1 where there are more or one is too long. */
static int words_of(const char *at, const char *end, char words[WORDS_MAX][WORD_MAX])
{
    FAST_ASSERT(at <= end);
    int count = 0;

    while (at < end && *at != '#') {
        int64_t length = 0;

        if (*at == ' ' || *at == '\t' || *at == '\r') {
            at++;
            continue;
        }
        while (at + length < end && !strchr(" \t\r#", at[length]))
            length++;
        /* strchr() finds the zero byte too: one inside the text ends no word and is no word. */
        if (count == WORDS_MAX || length >= WORD_MAX || length == 0)
            return WORDS_MAX + 1;
        memcpy(words[count], at, (size_t)length);
        words[count++][length] = 0;
        at += length;
    }
    return count;
}

/* Fail because of a line that has no form listed above. */
static fast_err bad_line(const topology_reader *r)
{
    FAST_ASSERT(r->line > 0);
    return fast__fail(FAST_EINVAL,
                      "line %lld is not a link \"0 1\" or \"0 1 0.25\", \"size N\", "
                      "\"directed\" or \"step\"",
                      (long long)r->line);
}

/* Parse a rank of the group. */
static fast_err rank_of(const topology_reader *r, const char *word, int64_t *out)
{
    FAST_ASSERT(out);
    int64_t rank = 0;

    if (fast__parse_int("a rank", word, &rank) != FAST_OK)
        return bad_line(r);
    if (r->size == 0)
        return fast__fail(FAST_EINVAL, "the file must say \"size N\" before its first link");
    if (rank < 0 || rank >= r->size)
        return fast__fail(FAST_EINVAL, "line %lld names rank %lld; ranks are 0 to %lld",
                          (long long)r->line, (long long)rank, (long long)r->size - 1);
    *out = rank;
    return FAST_OK;
}

/* Read a link, with or without a weight. */
static fast_err read_link(topology_reader *r, int count, char words[WORDS_MAX][WORD_MAX])
{
    FAST_ASSERT(count > 0);
    fast_topology_link link = { .weight = -1 };

    if (count < 2 || count > 3)
        return bad_line(r);
    FAST_TRY(rank_of(r, words[0], &link.from));
    FAST_TRY(rank_of(r, words[1], &link.to));
    if (count == 3) {
        if (fast__parse_real("a weight", words[2], &link.weight) != FAST_OK)
            return bad_line(r);
        if (!(link.weight >= 0 && link.weight <= 1))
            return fast__fail(FAST_EINVAL, "line %lld: a weight is from 0 to 1, not %s",
                              (long long)r->line, words[2]);
    }
    if (r->count == 0)
        r->weighted = count == 3;
    if (r->weighted != (count == 3))
        return fast__fail(FAST_EINVAL, "line %lld: either all links have a weight or none has",
                          (long long)r->line);
    r->links[r->count++] = link;
    return FAST_OK;
}

/* Read one line, cut into words. */
static fast_err read_line(topology_reader *r, int count, char words[WORDS_MAX][WORD_MAX])
{
    FAST_ASSERT(count > 0);
    if (count == 1 && strcmp(words[0], "step") == 0) {
        if (r->steps + 2 > STEPS_MAX)
            return fast__fail(FAST_EINVAL, "line %lld: more than %d steps", (long long)r->line,
                              STEPS_MAX);
        r->starts[++r->steps] = r->count;
        return FAST_OK;
    }
    if (count == 1 && strcmp(words[0], "directed") == 0 && r->count == 0) {
        r->directed = true;
        return FAST_OK;
    }
    if (count == 2 && strcmp(words[0], "size") == 0 && r->count == 0) {
        int64_t size = 0;

        if (fast__parse_int("size", words[1], &size) != FAST_OK || size < 1 ||
            size > FAST_TOPOLOGY_SIZE_MAX)
            return fast__fail(FAST_EINVAL, "line %lld: size is 1 to %d", (long long)r->line,
                              FAST_TOPOLOGY_SIZE_MAX);
        if (r->size && r->size != size)
            return fast__fail(FAST_EINVAL, "the topology is of %lld ranks, the group of %lld",
                              (long long)size, (long long)r->size);
        r->size = size;
        return FAST_OK;
    }
    return read_link(r, count, words);
}

/* Read all lines. */
static fast_err read_text(topology_reader *r, const char *text, size_t bytes)
{
    FAST_ASSERT(text || bytes == 0);
    const char *end = text + bytes;

    for (const char *at = text; at < end;) {
        const char *stop = memchr(at, '\n', (size_t)(end - at));
        char words[WORDS_MAX][WORD_MAX];
        int count;

        if (!stop)
            stop = end;
        r->line++;
        count = words_of(at, stop, words);
        if (count > 0)
            FAST_TRY(read_line(r, count, words));
        at = stop + (stop < end);
    }
    if (r->size == 0)
        return fast__fail(FAST_EINVAL, "the file does not say \"size N\"");
    r->starts[++r->steps] = r->count;
    if (r->size * r->steps > RANK_STEPS_MAX)
        return fast__fail(FAST_EINVAL, "%lld steps of %lld ranks are more than %d in all",
                          (long long)r->steps, (long long)r->size, RANK_STEPS_MAX);
    return FAST_OK;
}

fast_err fast__topology_parse(const char *text, size_t bytes, int64_t size, fast_topology **out)
{
    FAST_ASSERT(out && size >= 0);
    topology_reader r = { .size = size };
    fast_topology *topology = NULL;
    int64_t lines = 1;
    fast_err err;

    for (size_t i = 0; i < bytes; i++)
        lines += text[i] == '\n';
    FAST_TRY(fast__alloc("a topology's links", lines, sizeof *r.links, &r.links));
    err = fast__alloc("a topology's steps", STEPS_MAX + 1, sizeof *r.starts, &r.starts);
    if (!err)
        err = read_text(&r, text, bytes);
    if (!err)
        err = fast__topology_list(r.size, r.steps, r.starts, r.links, r.directed, &topology);
    if (!err && !r.directed)
        err = fast_topology_check(topology);
    fast__free(r.links);
    fast__free(r.starts);
    if (err) {
        fast_topology_free(topology);
        return err;
    }
    *out = topology;
    return FAST_OK;
}
