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
 * Selections come in the order in which ps applied them, and replace those of a named system.
 */
#include "run/run.h"

#include "base/log.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Cut the text from `at` to the next separator out of a list; return false if `at` is NULL. */
static bool cut(char *at, char separator)
{
    char *next = at ? strchr(at, separator) : NULL;

    if (next)
        memmove(at, next + 1, strlen(next));
    else if (at)
        *at = 0;
    return at != NULL;
}

/* Take option `key` out of a spec, its value to `value`; return false if it is not there. */
static bool take(char *spec, const char *key, char value[64])
{
    char *at = strstr(spec, key);

    if (!at || (at[-1] != ':' && at[-1] != ','))
        return false;
    snprintf(value, 64, "%.*s", (int)strcspn(at + strlen(key), ","), at + strlen(key));
    return cut(at, ',');
}

/* Cut a separator off the end. */
static void trim(char *text, const char *separators)
{
    const size_t size = strlen(text);

    if (size > 0 && strchr(separators, text[size - 1]))
        text[size - 1] = 0;
}

fast_err fast__options_moved(char *strategy, char *codec, size_t codec_size)
{
    static const char *const moved[][3] = { { "kkt=", "kkt", "l1" },
                                            { "filter=", "significance", "threshold" },
                                            { "skip=", "skip", "probability" },
                                            { "budget=", "budget", "bytes" } };
    char chain[FAST_SPEC_MAX] = "", value[64];
    bool found = false;

    for (size_t i = 0; strncmp(strategy, "ps:", 3) == 0 && i < 4; i++) {
        const size_t used = strlen(chain);

        if (!take(strategy, moved[i][0], value))
            continue;
        found = true;
        cut(strstr(codec, moved[i][1]), '+');
        const char *l1 = strcmp(value, "yes") == 0 ? strstr(strategy, "l1=") : NULL;
        if (strcmp(value, "yes") == 0 && !l1)
            return fast__fail(FAST_EINVAL, "ps: kkt=yes needs l1, whose step it foresees");
        if (l1)
            snprintf(value, sizeof value, "%.*s", (int)strcspn(l1 + 3, ","), l1 + 3);
        if (strcmp(value, "no") == 0 || strtod(value, NULL) == 0)
            continue;
        snprintf(chain + used, sizeof chain - used, "%s:%s=%s+", moved[i][1], moved[i][2], value);
        fast__log(FAST_LOG_WARN,
                  "ps: option %.*s is codec=%s:%s=%s now; the old name works in this version only",
                  (int)strlen(moved[i][0]) - 1, moved[i][0], moved[i][1], moved[i][2], value);
    }
    if (!found)
        return FAST_OK;
    trim(strategy, ":,");
    const char *rest = strncmp(codec, "none", 4) == 0 ? codec + 4 + (codec[4] == '+') : codec;
    if (strlen(chain) + strlen(rest) >= sizeof chain || strlen(chain) + strlen(rest) >= codec_size)
        return fast__fail(FAST_EINVAL, "codec=%.60s...: it is too long", chain);
    memcpy(chain + strlen(chain), rest, strlen(rest) + 1);
    trim(chain, "+");
    snprintf(codec, codec_size, "%s", *chain ? chain : "none");
    return FAST_OK;
}
