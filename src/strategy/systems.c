/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The named systems by name, and how a preset is merged with options given by the user.
 *
 *     system=ssp                      strategy=ps:servers=2,slack=3 optimizer=sgd
 *     system=ssp strategy=ps:slack=5  strategy=ps:slack=5,servers=2 optimizer=sgd
 *     system=ssp strategy=local       refused: another family is another system
 *     system=ssp optimizer=adam       the user's optimizer
 */
#include "strategy/systems.h"

#include "base/err.h"
#include "base/option.h"

#include <stdio.h>
#include <string.h>

extern const fast_system fast__systems_allreduce[];
extern const fast_system fast__systems_codec[];
extern const fast_system fast__systems_elastic[];
extern const fast_system fast__systems_gossip[];
extern const fast_system fast__systems_local[];
extern const fast_system fast__systems_ps[];
extern const fast_system fast__systems_split[];

/* The order of `fast systems`: from synchronous to partial communication, then codecs and
 * split models. */
const fast_system *const fast__systems[] = {
    fast__systems_allreduce, fast__systems_local, fast__systems_ps,    fast__systems_elastic,
    fast__systems_gossip,    fast__systems_codec, fast__systems_split, NULL,
};

const fast_system *fast__system_at(int64_t i)
{
    FAST_ASSERT(i >= 0);
    for (int table = 0; fast__systems[table]; table++)
        for (const fast_system *row = fast__systems[table]; row->name; row++)
            if (i-- == 0)
                return row;
    return NULL;
}

/* For fast__name_find(). */
static const char *name_at(const void *ctx, int64_t i)
{
    (void)ctx;
    FAST_ASSERT(i >= 0);
    return fast__system_at(i)->name;
}

fast_err fast__system_find(const char *name, const fast_system **out)
{
    const char *nearest = NULL;
    int64_t count = 0;
    int64_t i;

    FAST_ASSERT(name != NULL && out != NULL);
    while (fast__system_at(count))
        count++;
    i = fast__name_find(name, name_at, NULL, count, &nearest);
    if (i < 0 && nearest)
        return fast__fail(FAST_EINVAL, "no system \"%.60s\"; did you mean \"%s\"?", name, nearest);
    if (i < 0)
        return fast__fail(FAST_EINVAL, "no system \"%.60s\"; fast systems lists all %lld", name,
                          (long long)count);
    *out = fast__system_at(i);
    return FAST_OK;
}

/* A value has no spaces: the tables' test checks that. */
const char *fast__system_flag(const char *flags, char *text, size_t size)
{
    const size_t length = strcspn(flags += strspn(flags, " "), " ");

    if (length == 0)
        return NULL;
    FAST_ASSERT(length < size); /* the tables are tested */
    memcpy(text, flags, length);
    text[length] = 0;
    return flags + length;
}

/* True if the list "key=value,..." has the first key of `pair`, a list of that form too. */
static bool has_key(const char *pairs, const char *pair)
{
    const size_t length = strcspn(pair, "=,");

    FAST_ASSERT(length > 0);
    while (pairs && *pairs) {
        if (strcspn(pairs, "=,") == length && memcmp(pairs, pair, length) == 0)
            return true;
        pairs = strchr(pairs, ',');
        pairs = pairs ? pairs + 1 : NULL;
    }
    return false;
}

fast_err fast__system_merge(const fast_system *system, const char *option, const char *preset,
                            const char *given, char *text, size_t size)
{
    char ours[32], theirs[32];
    const char *pairs = NULL, *given_pairs = NULL;
    size_t used;

    FAST_ASSERT(text != NULL && size > 0);
    FAST_TRY(fast__spec_split(preset, ours, sizeof ours, &pairs));
    FAST_TRY(fast__spec_split(given, theirs, sizeof theirs, &given_pairs));
    if (strcmp(ours, theirs) != 0)
        return fast__fail(FAST_EINVAL,
                          "system=%s is %s=%s, which %s=%.60s contradicts; give one of them",
                          system->name, option, preset, option, given);
    used = (size_t)snprintf(text, size, "%s", given);
    /* Append the preset's pairs whose keys the user did not give. */
    for (; pairs && *pairs; pairs += strcspn(pairs, ","), pairs += *pairs == ',') {
        if (has_key(given_pairs, pairs) || used >= size)
            continue;
        used += (size_t)snprintf(text + used, size - used, "%c%.*s", strchr(text, ':') ? ',' : ':',
                                 (int)strcspn(pairs, ","), pairs);
    }
    /* snprintf() returned the length that it needed. */
    if (used >= size)
        return fast__fail(FAST_EINVAL, "%s=%.60s... is too long beside system=%s", option, given,
                          system->name);
    return FAST_OK;
}
