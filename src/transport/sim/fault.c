/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The language of fault schedules: parses text into a list of faults, and verifies the list.
 *
 *     schedule   fault { (";" | line feed) fault }, # to the end of the line is a comment
 *     fault      kind where { clause }, words separated by blanks
 *     where      node, or node-node, node>node, or nodes|nodes|..., nodes>nodes
 *     clause     "at" time, "for" time, "by" number or time, "loss" number, "how" word
 *
 * A table lists the clauses of each kind; a clause that is missing, double or not the kind's is an
 * error, which quotes the fault. Nothing is corrected silently.
 */
#include "transport/sim/fault.h"

#include "base/file.h"
#include "base/memory.h"
#include "base/option.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum {
    WORDS_MAX = 16, /* words of a fault */
    WORD_SIZE = 64, /* bytes of a word, except sides */
    QUOTE_SIZE = 64 /* bytes of a quoted fault in an error */
};

/* The operand of a kind, and its clauses. */
enum {
    ON_NODE, /* a node: 3 */
    ON_LINK, /* a link: 0-3 or 0>3 */
    ON_SIDES /* sides of a partition: 0,1|2,3 */
};
enum {
    TAKES_AT = 1,     /* at TIME: start */
    TAKES_FOR = 2,    /* for TIME: duration */
    TAKES_FACTOR = 4, /* by NUMBER */
    TAKES_JUMP = 8,   /* by TIME */
    TAKES_LOSS = 16,  /* loss PROBABILITY */
    TAKES_HOW = 32    /* how LIE */
};

static const struct fault_kind {
    const char *name; /* in a schedule */
    int where;        /* ON_... */
    int must;         /* clauses that it requires */
    int may;          /* clauses that it accepts */
    const char *like; /* an example, for errors */
} kinds[FAST_FAULT_KINDS] = {
    [FAST_FAULT_CRASH] = { "crash", ON_NODE, TAKES_AT, TAKES_AT, "crash 3 at 1.5s" },
    [FAST_FAULT_RESTART] = { "restart", ON_NODE, TAKES_AT, TAKES_AT, "restart 3 at 2s" },
    [FAST_FAULT_PAUSE] = { "pause", ON_NODE, TAKES_AT | TAKES_FOR, TAKES_AT | TAKES_FOR,
                           "pause 2 at 1s for 500ms" },
    [FAST_FAULT_SLOW] = { "slow", ON_NODE, TAKES_AT | TAKES_FACTOR,
                          TAKES_AT | TAKES_FOR | TAKES_FACTOR, "slow 1 at 0s for 10s by 4" },
    [FAST_FAULT_CUT] = { "cut", ON_LINK, TAKES_AT, TAKES_AT | TAKES_FOR, "cut 0-3 at 1s for 2s" },
    [FAST_FAULT_PARTITION] = { "partition", ON_SIDES, TAKES_AT, TAKES_AT | TAKES_FOR,
                               "partition 0,1|2,3 at 1s for 2s" },
    [FAST_FAULT_LOSSY] = { "lossy", ON_LINK, TAKES_AT | TAKES_LOSS,
                           TAKES_AT | TAKES_FOR | TAKES_LOSS, "lossy 0-1 at 0s for 5s loss 0.2" },
    [FAST_FAULT_JUMP] = { "jump", ON_NODE, TAKES_AT | TAKES_JUMP, TAKES_AT | TAKES_JUMP,
                          "jump 2 at 1s by -3s" },
    [FAST_FAULT_JOIN] = { "join", ON_NODE, TAKES_AT, TAKES_AT, "join 4 at 2s" },
    [FAST_FAULT_LIE] = { "lie", ON_NODE, TAKES_AT | TAKES_HOW, TAKES_AT | TAKES_FOR | TAKES_HOW,
                         "lie 3 at 0s for 10s how negate" },
};

static const char *const lies[] = { "negate", "scale", "random", "nan" };
enum { LIES = sizeof lies / sizeof lies[0] };

/* One fault being parsed. */
typedef struct fault_parser {
    char words[WORDS_MAX]
              [WORD_SIZE];  /* of the fault; the sides of a partition are read from `sides` */
    const char *sides;      /* the second word, in full length */
    int64_t sides_size;     /* bytes of sides */
    int word_count;         /* words in use */
    char quote[QUOTE_SIZE]; /* start of the fault, for errors */
    int64_t number;         /* number of the fault, from 1 */
    int64_t node_count;     /* number of nodes */
    fast_faults *faults;    /* parsed so far, with room for more */
} fault_parser;

const char *fast__fault_kind_name(fast_fault_kind kind)
{
    FAST_ASSERT(kind < FAST_FAULT_KINDS);
    return kinds[kind].name;
}

const fast_part *fast__fault_list(int64_t *count_out)
{
    static const fast_part parts[FAST_FAULT_KINDS] = {
        [FAST_FAULT_CRASH] = { "crash", "all workers of a node stop: crash 3 at 1.5s", NULL },
        [FAST_FAULT_RESTART] = { "restart", "after a crash they begin again: restart 3 at 2s",
                                 NULL },
        [FAST_FAULT_PAUSE] = { "pause", "a node stands still: pause 2 at 1s for 500ms", NULL },
        [FAST_FAULT_SLOW] = { "slow", "computing takes longer: slow 1 at 0s for 10s by 4", NULL },
        [FAST_FAULT_CUT] = { "cut",
                             "nothing passes a link: cut 0-3 at 1s for 2s; one way: cut 0>3 at 1s",
                             NULL },
        [FAST_FAULT_PARTITION] = { "partition",
                                   "no side reaches another: partition 0,1|2,3 at 1s for 2s; one "
                                   "way: 0,1>2,3; one side alone is cut off from all other nodes",
                                   NULL },
        [FAST_FAULT_LOSSY] = { "lossy", "a link loses packets: lossy 0-1 at 0s for 5s loss 0.2",
                               NULL },
        [FAST_FAULT_JUMP] = { "jump", "the clock of a node jumps: jump 2 at 1s by -3s", NULL },
        [FAST_FAULT_JOIN] = { "join", "a node begins late: join 4 at 2s", NULL },
        [FAST_FAULT_LIE] = { "lie",
                             "the numbers that a node sends are false: lie 3 at 0s for 10s how "
                             "negate, scale, random or nan",
                             NULL },
    };
    *count_out = FAST_FAULT_KINDS;
    return parts;
}

const char *fast__lie_name(fast_lie how)
{
    FAST_ASSERT((int)how < LIES);
    return lies[how];
}

static const char *kind_name_at(const void *ctx, int64_t i)
{
    (void)ctx;
    return kinds[i].name;
}

static const char *lie_name_at(const void *ctx, int64_t i)
{
    (void)ctx;
    return lies[i];
}

static bool is_blank(char c)
{
    return c == ' ' || c == '\t' || c == '\r';
}

/* Put the fault in front of the error's detail. */
static fast_err fail_here(const fault_parser *p, fast_err err)
{
    char where[QUOTE_SIZE + 32];
    snprintf(where, sizeof where, "fault %" PRId64 ", \"%s\"", p->number, p->quote);
    return fast__fail_in(err, where);
}

/* Parse the number of a node. */
static fast_err node_read(const fault_parser *p, const char *text, int64_t *out)
{
    int64_t node = -1;
    /* Digits only: fast__parse_int() also accepts signs, and "-" separates the ends of a link. */
    bool plain = *text != 0;
    for (const char *c = text; *c; c++)
        plain = plain && *c >= '0' && *c <= '9';
    if (!plain || fast__parse_int("node", text, &node) != FAST_OK)
        return fast__fail(FAST_EINVAL, "a node is a number from 0 to %" PRId64 ", not \"%.20s\"",
                          p->node_count - 1, text);
    if (node >= p->node_count)
        return fast__fail(FAST_EINVAL, "there is no node %" PRId64 "; nodes are 0 to %" PRId64,
                          node, p->node_count - 1);
    *out = node;
    return FAST_OK;
}

/* Parse a link: "0-3" or "0>3". */
static fast_err link_read(const fault_parser *p, fast_fault *fault)
{
    char first[WORD_SIZE];
    const char *word = p->words[1];
    const size_t split = strcspn(word, "->");
    if (word[split] == 0)
        return fast__fail(FAST_EINVAL, "a link is two nodes, like 0-3 or one way 0>3, not \"%s\"",
                          word);
    memcpy(first, word, split);
    first[split] = 0;
    fault->one_way = word[split] == '>';
    FAST_TRY(node_read(p, first, &fault->node));
    FAST_TRY(node_read(p, word + split + 1, &fault->other));
    if (fault->node == fault->other)
        return fast__fail(FAST_EINVAL, "node %" PRId64 " has no link to itself", fault->node);
    return FAST_OK;
}

/* Add a node to a side; FAST_EINVAL if the partition has it already. */
static fast_err side_add(fault_parser *p, fast_fault *fault, const char *name, int64_t side)
{
    fast_faults *faults = p->faults;
    int64_t node = -1;
    FAST_TRY(node_read(p, name, &node));
    for (int64_t i = 0; i < fault->side_count; i++)
        if (faults->sides[fault->side_first + i].node == node)
            return fast__fail(FAST_EINVAL, "node %" PRId64 " is named twice", node);
    if (faults->side_count == FAST_FAULT_SIDES_MAX)
        return fast__fail(FAST_EINVAL, "partitions name more than %d nodes", FAST_FAULT_SIDES_MAX);
    faults->sides[faults->side_count++] = (fast_fault_side){ node, side };
    fault->side_count++;
    return FAST_OK;
}

/* Parse the sides of a partition: "0,1|2,3" or "0,1>2,3". */
static fast_err sides_read(fault_parser *p, fast_fault *fault)
{
    const char *c = p->sides;
    const char *end = c + p->sides_size;
    int64_t side = 0;
    fault->side_first = p->faults->side_count;
    for (;;) {
        char name[WORD_SIZE];
        size_t size = 0;
        for (; c < end && *c != ',' && *c != '|' && *c != '>'; c++)
            if (size + 1 < sizeof name)
                name[size++] = *c;
        name[size] = 0;
        FAST_TRY(side_add(p, fault, name, side));
        if (c == end)
            break;
        if (*c != ',') {
            if (fault->one_way || (*c == '>' && side > 0))
                return fast__fail(FAST_EINVAL, "one way has two sides, like 0,1>2,3");
            fault->one_way = *c == '>';
            side++;
        }
        c++;
    }
    return FAST_OK;
}

/* Parse the operand of a kind. */
static fast_err where_read(fault_parser *p, const struct fault_kind *kind, fast_fault *fault)
{
    if (p->word_count < 2)
        return fast__fail(FAST_EINVAL, "it says no node; write it like %s", kind->like);
    if (kind->where == ON_SIDES)
        return sides_read(p, fault);
    if (p->sides_size >= WORD_SIZE)
        return fast__fail(FAST_EINVAL, "its second word is too long; write it like %s", kind->like);
    return kind->where == ON_LINK ? link_read(p, fault) : node_read(p, p->words[1], &fault->node);
}

/* Parse the factor of a slow node. */
static fast_err factor_read(const char *value, fast_fault *fault)
{
    FAST_TRY(fast__parse_real("by", value, &fault->by));
    if (fault->by < 1 || fault->by > 1e6)
        return fast__fail(FAST_EINVAL, "by is how many times slower, from 1 to 1000000, not %s",
                          value);
    return FAST_OK;
}

/* Parse the probability of loss; a link that loses everything is a cut one. */
static fast_err loss_read(const char *value, fast_fault *fault)
{
    FAST_TRY(fast__parse_real("loss", value, &fault->by));
    if (fault->by < 0 || fault->by > 0.99)
        return fast__fail(FAST_EINVAL,
                          "loss is from 0 to 0.99, not %s; a link that loses everything is cut",
                          value);
    return FAST_OK;
}

/* Parse the name of a lie. */
static fast_err how_read(const char *value, fast_fault *fault)
{
    const int64_t how = fast__name_find(value, lie_name_at, NULL, LIES, NULL);
    if (how < 0)
        return fast__name_unknown("lie", value, lie_name_at, NULL, LIES);
    fault->how = (fast_lie)how;
    return FAST_OK;
}

/* Parse the time of a clause, which is at least `min`. */
static fast_err time_read(const char *what, const char *value, int64_t min, int64_t *out)
{
    FAST_TRY(fast__time_parse(what, value, out));
    if (*out < min)
        return fast__fail(FAST_EINVAL, "%s must be %s, not %s", what,
                          min > 0 ? "longer than nothing" : "0s or later", value);
    return FAST_OK;
}

/* Parse one clause and add it to *seen. */
static fast_err clause_read(const struct fault_kind *kind, const char *name, const char *value,
                            int *seen, fast_fault *fault)
{
    int which = 0;
    if (strcmp(name, "at") == 0)
        which = TAKES_AT;
    else if (strcmp(name, "for") == 0)
        which = TAKES_FOR;
    else if (strcmp(name, "by") == 0)
        which = kind->may & (TAKES_FACTOR | TAKES_JUMP);
    else if (strcmp(name, "loss") == 0)
        which = TAKES_LOSS;
    else if (strcmp(name, "how") == 0)
        which = TAKES_HOW;
    if ((kind->may & which) == 0)
        return fast__fail(FAST_EINVAL, "%s takes no \"%s\"; write it like %s", kind->name, name,
                          kind->like);
    if (*seen & which)
        return fast__fail(FAST_EINVAL, "it says \"%s\" twice", name);
    if (!value)
        return fast__fail(FAST_EINVAL, "nothing follows \"%s\"; write it like %s", name,
                          kind->like);
    *seen |= which;
    switch (which) {
    case TAKES_AT:
        return time_read("at", value, 0, &fault->at);
    case TAKES_FOR:
        return time_read("for", value, 1, &fault->length);
    case TAKES_FACTOR:
        return factor_read(value, fault);
    case TAKES_JUMP:
        return fast__time_parse("by", value, &fault->jump);
    case TAKES_LOSS:
        return loss_read(value, fault);
    default:
        return how_read(value, fault);
    }
}

/* Parse the words of a fault and append it to the list. */
static fast_err fault_read(fault_parser *p)
{
    fast_fault fault = { .node = -1, .other = -1 };
    const int64_t number = fast__name_find(p->words[0], kind_name_at, NULL, FAST_FAULT_KINDS, NULL);
    if (number < 0)
        return fast__name_unknown("fault", p->words[0], kind_name_at, NULL, FAST_FAULT_KINDS);
    const struct fault_kind *kind = &kinds[number];
    fault.kind = (fast_fault_kind)number;
    FAST_TRY(where_read(p, kind, &fault));
    int seen = 0;
    for (int i = 2; i < p->word_count; i += 2)
        FAST_TRY(clause_read(kind, p->words[i], i + 1 < p->word_count ? p->words[i + 1] : NULL,
                             &seen, &fault));
    if ((seen & kind->must) != kind->must)
        return fast__fail(FAST_EINVAL, "it says too little; write it like %s", kind->like);
    p->faults->list[p->faults->count++] = fault;
    return FAST_OK;
}

/* Split a fault into words. */
static fast_err words_read(fault_parser *p, const char *c, const char *end)
{
    size_t quote = 0;
    p->word_count = 0;
    p->sides_size = 0;
    for (const char *q = c; q < end && quote + 1 < sizeof p->quote; q++)
        p->quote[quote++] = *q >= ' ' && *q != 127 ? *q : '?';
    while (quote > 0 && p->quote[quote - 1] == ' ')
        quote--;
    p->quote[quote] = 0;
    while (c < end) {
        if (is_blank(*c)) {
            c++;
            continue;
        }
        const char *from = c;
        while (c < end && !is_blank(*c))
            c++;
        const size_t size = (size_t)(c - from);
        if (p->word_count == 1) {
            p->sides = from;
            p->sides_size = (int64_t)size;
        } else if (size >= WORD_SIZE || p->word_count == WORDS_MAX) {
            return fast__fail(FAST_EINVAL, "it is too long");
        }
        const size_t copied = size < WORD_SIZE ? size : WORD_SIZE - 1;
        memcpy(p->words[p->word_count], from, copied);
        p->words[p->word_count][copied] = 0;
        p->word_count++;
    }
    return FAST_OK;
}

/* Parse all faults of a text. */
static fast_err faults_read(fault_parser *p, const char *text, size_t size)
{
    const char *c = text;
    const char *end = text + size;
    while (c < end) {
        while (c < end && (is_blank(*c) || *c == '\n' || *c == ';'))
            c++;
        const char *from = c;
        while (c < end && *c != '\n' && *c != ';' && *c != '#')
            c++;
        const char *to = c;
        if (c < end && *c == '#')
            while (c < end && *c != '\n')
                c++;
        if (to == from)
            continue;
        p->number++;
        if (p->faults->count == FAST_FAULTS_MAX)
            return fast__fail(FAST_EINVAL, "a schedule has at most %d faults", FAST_FAULTS_MAX);
        const fast_err err = words_read(p, from, to);
        if (err)
            return fail_here(p, err);
        const fast_err wrong = fault_read(p);
        if (wrong)
            return fail_here(p, wrong);
    }
    return FAST_OK;
}

/* Return 1 plus the number of bytes that are in `any`. */
static int64_t count_of(const char *text, size_t size, const char *any)
{
    int64_t count = 1;
    for (size_t i = 0; i < size; i++)
        count += text[i] != 0 && strchr(any, text[i]) != NULL;
    return count;
}

static int64_t least(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

fast_err fast__faults_new(int64_t count, int64_t side_count, fast_faults **out)
{
    fast_faults *faults = NULL;
    FAST_TRY(fast__alloc("a fault schedule", 1, sizeof *faults, &faults));
    fast_err err = fast__alloc("faults", count, sizeof *faults->list, &faults->list);
    if (!err)
        err = fast__alloc("partitions", side_count, sizeof *faults->sides, &faults->sides);
    if (err) {
        fast__faults_free(faults);
        return err;
    }
    *out = faults;
    return FAST_OK;
}

fast_err fast__faults_parse(const char *text, size_t size, int64_t node_count, fast_faults **out)
{
    FAST_ASSERT(node_count > 0);
    fast_faults *faults = NULL;
    if (size > FAST_FAULT_TEXT_MAX)
        return fast__fail(FAST_EINVAL, "a fault schedule has at most %d bytes",
                          FAST_FAULT_TEXT_MAX);
    /* Separators bound the number of faults; commas and the like bound the number of nodes. */
    FAST_TRY(fast__faults_new(
        least(count_of(text, size, ";\n#"), FAST_FAULTS_MAX),
        least(count_of(text, size, ",|>") + count_of(text, size, ";\n#"), FAST_FAULT_SIDES_MAX),
        &faults));
    fault_parser p = { .node_count = node_count, .faults = faults };
    fast_err err = faults_read(&p, text, size);
    if (!err)
        err = fast__faults_check(faults);
    if (err) {
        fast__faults_free(faults);
        return err;
    }
    *out = faults;
    return FAST_OK;
}

fast_err fast__faults_make(const char *spec, uint64_t seed, int64_t node_count, fast_faults **out)
{
    static const char random[] = "random";
    const size_t length = strlen(random);
    if (strncmp(spec, random, length) == 0 && (spec[length] == 0 || spec[length] == ':'))
        return fast__faults_random(spec[length] ? spec + length + 1 : NULL, seed, node_count, out);
    /* A single word is a file or an error; a text with blanks may be a schedule or a path. */
    const bool is_word = spec[0] != 0 && strpbrk(spec, " \t\n;#") == NULL;
    char *text = NULL;
    size_t size = 0;
    fast_err err = FAST_ENOENT;
    if (spec[0] != 0 && strlen(spec) < FAST_PATH_MAX)
        err = fast__file_read(spec, FAST_FAULT_TEXT_MAX, &text, &size);
    if (err == FAST_ENOENT && is_word)
        return fast__fail(FAST_EINVAL,
                          "no faults \"%.60s\": neither a file, nor random, nor a schedule like "
                          "crash 3 at 1.5s; slow 1 at 0s by 4",
                          spec);
    if (err && is_word)
        return err;
    if (err)
        return fast__faults_parse(spec, strlen(spec), node_count, out);
    err = fast__faults_parse(text, size, node_count, out);
    fast__free(text);
    return fast__fail_in(err, spec);
}

/* Return whether earlier faults have crashed the node of fault `i`. */
static bool is_crashed(const fast_faults *faults, int64_t i)
{
    const fast_fault *fault = &faults->list[i];
    const fast_fault *last = NULL;
    for (int64_t j = 0; j < faults->count; j++) {
        const fast_fault *other = &faults->list[j];
        const bool counts = other->kind == FAST_FAULT_CRASH || other->kind == FAST_FAULT_RESTART;
        if (j == i || !counts || other->node != fault->node || other->at > fault->at ||
            (other->at == fault->at && j > i))
            continue;
        if (!last || other->at >= last->at)
            last = other;
    }
    return last && last->kind == FAST_FAULT_CRASH;
}

fast_err fast__faults_check(const fast_faults *faults)
{
    for (int64_t i = 0; i < faults->count; i++) {
        const fast_fault *fault = &faults->list[i];
        char text[QUOTE_SIZE];
        fast__fault_text(faults, fault, text, sizeof text);
        if (fault->kind == FAST_FAULT_CRASH && is_crashed(faults, i))
            return fast__fail(FAST_EINVAL, "\"%s\": the node has crashed before, without a restart",
                              text);
        if (fault->kind == FAST_FAULT_RESTART && !is_crashed(faults, i))
            return fast__fail(FAST_EINVAL, "\"%s\": the node has not crashed before", text);
        for (int64_t j = 0; fault->kind == FAST_FAULT_JOIN && j < faults->count; j++) {
            const fast_fault *other = &faults->list[j];
            if (j < i && other->kind == FAST_FAULT_JOIN && other->node == fault->node)
                return fast__fail(FAST_EINVAL, "\"%s\": the node joins twice", text);
            if (other->kind == FAST_FAULT_CRASH && other->node == fault->node &&
                other->at < fault->at)
                return fast__fail(FAST_EINVAL, "\"%s\": the node crashes before it joins", text);
        }
    }
    return FAST_OK;
}

fast_err fast__faults_pick(const fast_faults *faults, const bool *chosen, fast_faults **out)
{
    fast_faults *picked = NULL;
    FAST_TRY(fast__faults_new(faults->count, faults->side_count, &picked));
    for (int64_t i = 0; i < faults->count; i++) {
        if (chosen && !chosen[i])
            continue;
        fast_fault *fault = &picked->list[picked->count++];
        *fault = faults->list[i];
        if (fault->side_count == 0)
            continue;
        memcpy(picked->sides + picked->side_count, faults->sides + fault->side_first,
               (size_t)fault->side_count * sizeof *picked->sides);
        /* The rows of a partition move with it. */
        fault->side_first = picked->side_count;
        picked->side_count += fault->side_count;
    }
    *out = picked;
    return FAST_OK;
}

void fast__faults_free(fast_faults *faults)
{
    if (!faults)
        return;
    fast__free(faults->list);
    fast__free(faults->sides);
    fast__free(faults);
}
