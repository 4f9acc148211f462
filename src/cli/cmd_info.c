/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `fast info`: the version, this machine as far as it matters for speed, the engines, and the
 * optional libraries: which are in this build and what each brings. With --json one object a line:
 * the machine first, then an engine or a feature each.
 *
 *   fast 0.1.0
 *
 *   Machine
 *     processor             Intel(R) Xeon(R) Processor, x86_64
 *     vector instructions   AVX-512
 *     cores                 2
 *     memory                25.3 GB
 *     plan folder           /home/ada/.cache/fast
 *
 *   Engines, the fastest first
 *     cpu                   oneDNN, libxsmm and OpenBLAS, batch innermost
 *
 *   This build has
 *     zstd 1.5.4            smaller messages: the stage zstd of codecs
 *
 * Libraries that this build lacks follow under "Missing, and what it would bring". Everything goes
 * to standard output. The exit code is 0, or 2 for a word or a flag that info does not take.
 */
#include "cli_json.h"
#include "cli_page.h"
#include "cli_tables.h"

#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>
#include <unistd.h>

/* The machine, as the operating system describes it. */
typedef struct info_machine {
    char processor[128]; /* model name of the processor */
    char arch[64];       /* "x86_64" */
    const char *isa;     /* the widest vectors that FAST has kernels for */
    int64_t cores;       /* processors that are online */
    int64_t memory;      /* bytes */
    char cache[4096];    /* folder of the plan file; "" if no folder is known */
} info_machine;

/* The widest vectors that this processor has and FAST has kernels for. */
static const char *isa_name(void)
{
#if defined(__x86_64__)
    if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
        __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq"))
        return "AVX-512";
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"))
        return "AVX2";
#endif
    return "baseline";
}

/* $FAST_HOME, else $XDG_CACHE_HOME/fast, else $HOME/.cache/fast. An empty variable counts as unset.
 * The folder is not created and need not exist. */
static void find_cache(char *text, size_t size)
{
    static const struct {
        const char *variable;
        const char *below;
    } places[] = { { "FAST_HOME", "" }, { "XDG_CACHE_HOME", "/fast" }, { "HOME", "/.cache/fast" } };

    text[0] = '\0';
    for (size_t i = 0; i < sizeof places / sizeof places[0]; i++) {
        const char *value = getenv(places[i].variable);

        if (!value || !value[0])
            continue;
        snprintf(text, size, "%s%s", value, places[i].below);
        return;
    }
}

/* Ask the operating system about this machine. */
static void look(info_machine *m)
{
    struct utsname name;
    const long pages = sysconf(_SC_PHYS_PAGES), page_size = sysconf(_SC_PAGESIZE);

    memset(m, 0, sizeof *m);
    fast_processor_name(m->processor, sizeof m->processor);
    if (uname(&name) == 0)
        snprintf(m->arch, sizeof m->arch, "%.63s", name.machine);
    m->isa = isa_name();
    m->cores = sysconf(_SC_NPROCESSORS_ONLN);
    m->memory = pages > 0 && page_size > 0 ? (int64_t)pages * page_size : 0;
    find_cache(m->cache, sizeof m->cache);
}

/* Print the machine, the engines and the features, one object a line. The first member tells the
 * kind of a line:
 *
 *   {"version": "0.1.0", "processor": "Intel(R) Xeon(R) Processor", "arch": "x86_64", ...}
 *   {"engine": "ref", "summary": "plain C, needs no library; the truth for tests"}
 *   {"feature": "zstd", "present": true, "version": "1.5.4", "brings": "..."}
 */
static void print_json(const info_machine *m, FILE *out)
{
    int64_t engine_count = 0, feature_count = 0;
    const fast_part *engines = fast_part_list("engine", &engine_count);
    const fast_feature *features = fast_feature_list(&feature_count);
    cli_json json;

    cli_json_begin(&json, out);
    cli_json_text(&json, "version", fast_version());
    cli_json_text(&json, "processor", m->processor);
    cli_json_text(&json, "arch", m->arch);
    cli_json_text(&json, "isa", m->isa);
    cli_json_int(&json, "cores", m->cores);
    cli_json_int(&json, "memory", m->memory);
    cli_json_text(&json, "plan_folder", m->cache[0] ? m->cache : NULL);
    cli_json_end(&json);
    for (int64_t i = 0; i < engine_count; i++) {
        cli_json_begin(&json, out);
        cli_json_text(&json, "engine", engines[i].name);
        cli_json_text(&json, "summary", engines[i].summary);
        cli_json_end(&json);
    }
    for (int64_t i = 0; i < feature_count; i++) {
        cli_json_begin(&json, out);
        cli_json_text(&json, "feature", features[i].name);
        cli_json_bool(&json, "present", features[i].present);
        cli_json_text(&json, "version", features[i].version);
        cli_json_text(&json, "brings", features[i].brings);
        cli_json_end(&json);
    }
}

/* Print the features that are present, or those that are not, under a title of their own. */
static void print_features(cli_page *page, bool present)
{
    int64_t count = 0;
    const fast_feature *features = fast_feature_list(&count);
    bool titled = false;

    for (int64_t i = 0; i < count; i++) {
        char left[96];

        if (features[i].present != present)
            continue;
        if (!titled)
            cli_page_title(page, present ? "This build has" : "Missing, and what it would bring");
        titled = true;
        snprintf(left, sizeof left, "%s %s", features[i].name,
                 features[i].version ? features[i].version : "");
        cli_page_row(page, 2, 24, left, features[i].brings);
    }
}

/* Print all of it for people. */
static void print_text(const info_machine *m, FILE *out)
{
    int64_t count = 0;
    const fast_part *engines = fast_part_list("engine", &count);
    cli_page page;
    char text[256];

    cli_page_init(&page, out);
    fprintf(out, "fast %s\n", fast_version());
    cli_page_title(&page, "Machine");
    snprintf(text, sizeof text, "%s, %s", m->processor, m->arch);
    cli_page_row(&page, 2, 24, "processor", text);
    cli_page_row(&page, 2, 24, "vector instructions", m->isa);
    snprintf(text, sizeof text, "%lld", (long long)m->cores);
    cli_page_row(&page, 2, 24, "cores", text);
    snprintf(text, sizeof text, "%.1f GB", (double)m->memory * 1e-9);
    cli_page_row(&page, 2, 24, "memory", text);
    cli_page_row(&page, 2, 24, "plan folder",
                 m->cache[0] ? m->cache : "none; set FAST_HOME to save measured choices");
    cli_page_title(&page, "Engines, the fastest first");
    for (int64_t i = 0; i < count; i++)
        cli_page_row(&page, 2, 24, engines[i].name, engines[i].summary ? engines[i].summary : "");
    print_features(&page, true);
    print_features(&page, false);
}

/* Take one flag of the command line, or a word that is no flag (option NULL), for
 * cli_flags_read(). */
static int set(void *ctx, const fast_option *option, const char *value)
{
    if (!option)
        return cli_fail(CLI_USAGE, "info takes no words, but \"%.60s\" was given", value);
    *(bool *)ctx = strcmp(value, "no") != 0;
    return CLI_DONE;
}

/* The command `fast info`. */
int cli_info(int argc, char **argv)
{
    bool json = false;
    const int code = cli_flags_read(cli_command_find("info"), argc, argv, set, &json);
    info_machine m;

    if (code != CLI_DONE)
        return code == CLI_HELPED ? CLI_DONE : code;
    look(&m);
    if (json)
        print_json(&m, stdout);
    else
        print_text(&m, stdout);
    return CLI_DONE;
}
