/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `fast run -n 4 SCRIPT [ARGUMENTS]`: start a program of the user's as the workers of one job, by
 * mpirun in place of this process. SCRIPT is a Python script (its name ends with .py), which
 * python3 runs, or any program that calls fast_run_open() with transport=mpi:
 *
 *   fast run -n 4 train.py --epochs 3   ->   mpirun -n 4 ... python3 train.py --epochs 3
 *
 * Words after SCRIPT are the script's, also those that begin with a hyphen. More workers than cores
 * are allowed, and each has one thread for its arithmetic, unless the environment says otherwise.
 * The Python package beside this program, of the source tree or of `make install`, is found by the
 * script. The exit code is mpirun's: that of the first process that failed, 128 + N after signal N.
 * mpirun's own page about it is left out.
 */
#include "cli_tables.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { WORDS_MAX = 1024 };

/* One command line, read. */
typedef struct run_line {
    const char *workers; /* number of processes, as text */
    const char *hosts;   /* where they run; NULL: here */
    const char *python;  /* interpreter of scripts */
} run_line;

/* Take one flag of the command line, for cli_flags_read(). */
static int set(void *ctx, const fast_option *option, const char *value)
{
    run_line *line = ctx;
    char *end;

    if (!option)
        return CLI_DONE;
    if (strcmp(option->name, "hosts") == 0) {
        line->hosts = value;
        return CLI_DONE;
    }
    if (strcmp(option->name, "python") == 0) {
        line->python = value;
        return CLI_DONE;
    }
    const long count = strtol(value, &end, 10);
    if (*end || end == value || count < 1 || count > 65536)
        return cli_fail(CLI_USAGE, "%.60s workers: write a number from 1 to 65536", value);
    line->workers = value;
    return CLI_DONE;
}

/* Set a variable for the processes to be started, where the user has not set it. */
static void set_default(const char *name, const char *value)
{
    (void)setenv(name, value, 0);
}

/* Let scripts find the Python package beside this program: python/ of the source tree whose build
 * folder this is, or the folder of `make install`. */
static void add_package(void)
{
    static const char *const places[] = { "/../../python", "/../lib/fast/python",
                                          "/../lib/x86_64-linux-gnu/fast/python",
                                          "/../lib/aarch64-linux-gnu/fast/python" };
    char self[PATH_MAX], path[PATH_MAX + 64], all[2 * PATH_MAX + 128];
    const ssize_t length = readlink("/proc/self/exe", self, sizeof self - 1);

    if (length < 0)
        return;
    self[length] = '\0';
    *strrchr(self, '/') = '\0';
    for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
        const char *given = getenv("PYTHONPATH");

        snprintf(path, sizeof path, "%s%s/fast/_native.py", self, places[i]);
        if (access(path, R_OK) != 0)
            continue;
        *(strrchr(path, '/') - strlen("/fast")) = '\0';
        snprintf(all, sizeof all, "%s%s%.4000s", path, given && *given ? ":" : "",
                 given ? given : "");
        (void)setenv("PYTHONPATH", all, 1);
        return;
    }
}

/* The environment of the processes: several on a core are allowed, also for root in a container. */
static void set_environment(void)
{
    set_default("OMP_NUM_THREADS", "1");
    set_default("OMPI_MCA_rmaps_base_oversubscribe", "1");
    set_default("OMPI_MCA_hwloc_base_binding_policy", "none");
    set_default("OMPI_MCA_orte_execute_quiet", "1"); /* the script's own error is enough */
    set_default("PYTHONFAULTHANDLER", "1");          /* a crash tells where */
    set_default("OMPI_MCA_btl_vader_single_copy_mechanism", "none");
    if (geteuid() == 0) {
        set_default("OMPI_ALLOW_RUN_AS_ROOT", "1");
        set_default("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1");
    }
    add_package();
}

/* True if a program's name is that of a Python script. */
static bool is_script(const char *name)
{
    const char *dot = strrchr(name, '.');
    return dot && strcmp(dot, ".py") == 0;
}

/* Start the processes in place of this one; returns only if mpirun cannot be started. */
static int start(const run_line *line, int argc, char **argv)
{
    const char *words[WORDS_MAX] = { "mpirun", "-n", line->workers };
    int used = 3;

    if (argc > WORDS_MAX - 8)
        return cli_fail(CLI_USAGE, "%d words for the script; at most %d are passed on", argc,
                        WORDS_MAX - 8);
    if (line->hosts) {
        words[used++] = "--host";
        words[used++] = line->hosts;
    }
    if (is_script(argv[0])) {
        if (access(argv[0], R_OK) != 0)
            return cli_fail(CLI_USAGE, "cannot read \"%.200s\": %s", argv[0], strerror(errno));
        words[used++] = line->python;
    }
    for (int i = 0; i < argc; i++)
        words[used++] = argv[i];
    set_environment();
    execvp("mpirun", (char *const *)words);
    return cli_fail(CLI_FAILED, "cannot start mpirun: %s; install openmpi-bin", strerror(errno));
}

/* The command `fast run`. */
int cli_run(int argc, char **argv)
{
    const cli_command *command = cli_command_find("run");
    run_line line = { .workers = "2", .python = "python3" };
    char *flags[WORDS_MAX];
    char workers[] = "--workers";
    int count = 0, at = 0;

    /* Flags end at the first word that is neither one nor the value of one: the script. */
    while (at < argc && count < WORDS_MAX - 2 && (at == 0 || argv[at][0] == '-')) {
        const bool short_flag = strcmp(argv[at], "-n") == 0;
        const bool alone = at > 0 && !strchr(argv[at], '=') && at + 1 < argc;

        flags[count++] = short_flag ? workers : argv[at];
        at++;
        if (alone && strcmp(flags[count - 1], "--help") != 0 && strcmp(flags[count - 1], "-h") != 0)
            flags[count++] = argv[at++];
    }
    const int code = cli_flags_read(command, count, flags, set, &line);

    if (code != CLI_DONE)
        return code == CLI_HELPED ? CLI_DONE : code;
    if (at >= argc)
        return cli_fail(CLI_USAGE, "run needs a script: fast run -n 4 train.py");
    if (cli_ranks() > 1)
        return cli_fail(CLI_USAGE,
                        "a launcher has started this process already; start the script "
                        "by it: mpirun -n 4 python3 %.200s",
                        argv[at]);
    return start(&line, argc - at, argv + at);
}
