/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Runs of actors: one table of options for parsing, help and completion, and fast_actors_run(),
 * which opens a world, runs it and closes it.
 */
#include "transport/transport.h"

#include <stdio.h>
#include <string.h>

typedef fast_actors_config C;

const fast_option fast__actors_options[] = {
    FAST_OPT_TEXT(C, transport, "threads", "transport", "what runs the actors"),
    FAST_OPT_INT(C, seed, "1", 0, 9007199254740992.0, "seed of everything that is random"),
    FAST_OPT_REAL(C, timeout, "30", 1e-6, 1e9, "seconds that a wait takes at most"),
    FAST_OPT_TEXT(C, cluster, "", "cluster", "sim: the cluster, a preset or a file"),
    FAST_OPT_TEXT(C, placement, "", NULL,
                  "sim: nodes of the workers in their order, like 3,0,1-2; else as the cluster "
                  "says"),
    FAST_OPT_TEXT(C, faults, "", NULL, "sim: a schedule of faults, random, or a file"),
    FAST_OPT_INT(C, pool, "0", 0, 1024, "sim: threads that compute; 0: none besides its own"),
    FAST_OPT_TEXT(C, trace, "", "file", "write a timeline of all actors to this file (Perfetto)"),
    FAST_OPT_BOOL(C, check, "no", "verify the transport's contract while it runs"),
    FAST_OPT_CHOICE(C, bind, "none", "none|core|numa",
                    "threads: bind actors to cores, or neighbours to NUMA nodes"),
    FAST_OPT_TEXT(C, record, "", "file",
                  "threads: write the order of all that happens to this file"),
    FAST_OPT_TEXT(C, replay, "", "file", "threads: repeat the run that was recorded in this file"),
    FAST_OPT_END,
};

const fast_part fast__actors_part = { "actors", "run actors", fast__actors_options };

/* FAST_EINVAL or FAST_ENOTSUP unless the run can be recorded: its order must be decided by the
 * machine, and all of it in one process. */
static fast_err check_record(const fast_actors_config *config)
{
    const char *name = config->record[0] ? "record" : "replay";
    const char *path = config->record[0] ? config->record : config->replay;

    if (!path[0])
        return FAST_OK;
    if (config->record[0] && config->replay[0])
        return fast__fail(FAST_EINVAL, "record and replay are two runs: give one of them");
    if (strcmp(config->transport, "sim") == 0)
        return fast__fail(FAST_EINVAL,
                          "%s=%.200s: a run on sim repeats to the bit by itself; leave it out",
                          name, path);
    if (strcmp(config->transport, "threads") != 0)
        return fast__fail(FAST_ENOTSUP,
                          "%s=%.200s needs transport=threads: the processes of %s would have to "
                          "share one order",
                          name, path, config->transport);
    if (config->check)
        return fast__fail(FAST_EINVAL, "%s=%.200s and check=yes exclude each other", name, path);
    return FAST_OK;
}

/* Combinations only: the values were checked when they were parsed. */
fast_err fast__actors_check(const fast_actors_config *config)
{
    FAST_TRY(check_record(config));
    if (strcmp(config->transport, "sim") == 0)
        return FAST_OK;
    if (config->cluster[0])
        return fast__fail(FAST_EINVAL, "cluster=%s needs transport=sim, not %s", config->cluster,
                          config->transport);
    if (config->placement[0])
        return fast__fail(FAST_EINVAL, "placement=%s needs transport=sim, not %s",
                          config->placement, config->transport);
    if (config->faults[0])
        return fast__fail(FAST_EINVAL, "faults=%s needs transport=sim, not %s", config->faults,
                          config->transport);
    return FAST_OK;
}

/* *out is set only if all options are valid. */
fast_err fast__actors_parse(const char *const *options, fast_actors_config *out)
{
    static const char where[] = "actors";
    fast_actors_config config;
    char name[64];

    FAST_ASSERT(out != NULL);
    memset(&config, 0, sizeof config);
    fast__options_default(fast__actors_options, &config);
    for (int i = 0; options && options[i]; i++) {
        const char *equals = strchr(options[i], '=');
        const size_t length = equals ? (size_t)(equals - options[i]) : 0;
        if (!equals || length >= sizeof name)
            return fast__fail(FAST_EINVAL, "%s: \"%s\" is not name=value", where, options[i]);
        memcpy(name, options[i], length);
        name[length] = '\0';
        FAST_TRY(fast__options_set(where, fast__actors_options, &config, name, equals + 1));
    }
    FAST_TRY(fast__actors_check(&config));
    *out = config;
    return FAST_OK;
}

/* A recording that was given up is an error of the run, though its result is valid. */
fast_err fast_actors_run(const char *const *options, const fast_role *roles, int64_t role_count,
                         fast_actors_result *result_out)
{
    fast_actors_config config;
    fast_world *world = NULL;

    FAST_TRY(fast__actors_parse(options, &config));
    FAST_TRY(fast__world_open(&config, roles, role_count, &world));
    fast_err err = fast__world_run(world, result_out);
    if (!err && fast__record_note(world))
        err = fast__fail(FAST_EIO, "%s", fast__record_note(world));
    fast__world_close(world);
    return err;
}
