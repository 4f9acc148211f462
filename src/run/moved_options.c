/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Options of strategy ps that are codecs now, which any strategy may use. For one version
 *
 *     strategy=ps:slack=8,filter=0.001,skip=0.1 codec=none+lz4
 *
 * means, with a warning,
 *
 *     strategy=ps:slack=8 codec=significance:threshold=0.001+skip:probability=0.1+lz4
 *
 * In the chain they come in the order of the table, in which ps applied them. They replace those of
 * a named system.
 */
#include "run/run.h"

#include "base/log.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* An option of ps, and the codec with the option that replace it. */
static const char *const moved[][3] = {
    { "kkt", "kkt", "l1" },
    { "filter", "significance", "threshold" },
    { "skip", "skip", "probability" },
    { "budget", "budget", "bytes" },
};

/* Find option `key` of a spec; NULL: it is not there. */
static char *find_option(char *spec, const char *key)
{
    const size_t length = strlen(key);

    for (char *at = strchr(spec, ':'); at; at = strchr(at, ','))
        if (strncmp(++at, key, length) == 0 && at[length] == '=')
            return at;
    return NULL;
}

/* Cut option `key` out of a spec, its value to `value`; false: it is not there. */
static bool take_option(char *spec, const char *key, char *value, size_t size)
{
    char *at = find_option(spec, key);

    if (!at)
        return false;
    const size_t length = strcspn(at, ",");
    snprintf(value, size, "%.*s", (int)(length - strlen(key) - 1), at + strlen(key) + 1);
    if (at[length]) /* with the comma behind it, or the comma or colon before it */
        memmove(at, at + length + 1, strlen(at + length + 1) + 1);
    else
        at[-1] = 0;
    return true;
}

/* Cut the parts of this name out of a chain. */
static void drop_codec(char *chain, const char *name)
{
    const size_t length = strlen(name);

    for (char *at = chain, *next; at && *at; at = next) {
        next = strchr(at, '+');
        const bool found = strncmp(at, name, length) == 0 && strcspn(at, ":+") == length;

        if (next)
            next++;
        if (!found)
            continue;
        if (next) {
            memmove(at, next, strlen(next) + 1);
            next = at;
        } else {
            *(at > chain ? at - 1 : at) = 0;
        }
    }
}

/* The value that the codec's option takes; "0": the old option had no effect. */
static fast_err value_of(char *spec, const char *key, char *value, size_t size)
{
    char *l1 = find_option(spec, "l1");

    if (strcmp(key, "kkt") != 0 || strcmp(value, "no") == 0) {
        if (strcmp(value, "no") == 0 || strtod(value, NULL) == 0)
            snprintf(value, size, "0");
        return FAST_OK;
    }
    if (!l1)
        return fast__fail(FAST_EINVAL,
                          "ps: kkt=%s needs l1: it leaves out gradients that the "
                          "proximal step of l1 undoes; give codec=kkt:l1=X and ps:l1=X",
                          value);
    snprintf(value, size, "%.*s", (int)strcspn(l1 + 3, ","), l1 + 3);
    return FAST_OK;
}

fast_err fast__options_moved(char *strategy, char *codec, size_t codec_size)
{
    char parts[FAST_SPEC_MAX] = "", rest[FAST_SPEC_MAX], value[64];
    bool found = false;

    for (size_t i = 0; i < sizeof moved / sizeof moved[0]; i++) {
        const size_t used = strlen(parts);

        if (strncmp(strategy, "ps:", 3) != 0 ||
            !take_option(strategy, moved[i][0], value, sizeof value))
            continue;
        found = true;
        drop_codec(codec, moved[i][1]);
        FAST_TRY(value_of(strategy, moved[i][0], value, sizeof value));
        if (strcmp(value, "0") == 0)
            continue;
        snprintf(parts + used, sizeof parts - used, "%s%s:%s=%s", used > 0 ? "+" : "", moved[i][1],
                 moved[i][2], value);
        fast__log(FAST_LOG_WARN,
                  "ps: option %s is codec=%s:%s=%s now; the old name works in this version only",
                  moved[i][0], moved[i][1], moved[i][2], value);
    }
    if (!found)
        return FAST_OK;
    const char *old = strncmp(codec, "none", 4) == 0 ? codec + 4 + (codec[4] == '+') : codec;
    snprintf(rest, sizeof rest, "%s", old);
    if (strlen(parts) + strlen(rest) + 2 > codec_size)
        return fast__fail(FAST_EINVAL, "codec=%.60s...: it is too long", parts);
    snprintf(codec, codec_size, "%s%s%s", parts, *parts && *rest ? "+" : "",
             *rest || *parts ? rest : "none");
    return FAST_OK;
}
