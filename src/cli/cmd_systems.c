/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `fast systems`: the named systems of the literature in the columns of Langer et al.'s taxonomy,
 * grouped by how consistent their replicas are, with the flags that each stands for. With a name it
 * explains one; --json prints one object a line, --markdown makes docs/systems.md, which a test
 * compares.
 *
 *   Synchronous: one model at every step
 *     bsp               Bulk synchronous parallel
 *     ...
 *
 * `fast systems --all` is the whole table:
 *
 *   Synchronous: one model at every step
 *     bsp               DP       central    sync.           allreduce; any
 *         --strategy allreduce --lr 0.1
 *         The reference of all comparisons: N workers of batch B compute the same as
 *         one worker of batch N B.
 *
 * Everything goes to standard output. --markdown wins over --json, and ignores a name. Exit codes:
 * 0, or 2 for a flag or a name that does not exist:
 *
 *   fast: no system "downpuor"; did you mean "downpour"?
 */
#include "cli_json.h"
#include "cli_page.h"
#include "cli_tables.h"

#include <string.h>

/* Consistency, from the strictest on: the groups of the table. */
static const struct {
    const char *name;  /* as the systems' column says it */
    const char *title; /* and as a title */
} groups[] = {
    { "synchronous", "Synchronous: one model at every step" },
    { "periodic", "Periodic: replicas learn alone and synchronise" },
    { "bounded", "Bounded: replicas are late by a bound at most" },
    { "asynchronous", "Asynchronous: late without a bound, but every update arrives" },
    { "partial", "Partial: updates reach some replicas and may never reach others" },
    { "none", "None: independent learners" },
};
enum { GROUP_COUNT = sizeof groups / sizeof groups[0] };
enum { WIDE = 78 }; /* columns that the table of all systems needs */

static const char *const columns =
    "DP is data parallelism, MP model parallelism, PS parameter server. \"central\" is one model "
    "that all learn, \"decentral\" a model for each worker. A system is trained with fast train "
    "--system NAME; flags that are given besides it win.";

/* A system's flags as a command line writes them: "--strategy ps:slack=3 --optimizer sgd". */
static void flags_text(const fast_system *s, char *text, size_t size)
{
    size_t used = 0;

    for (const char *at = s->flags; *at && used < size; at += *at == ' ') {
        const int name = (int)strcspn(at, "="), length = (int)strcspn(at, " ");

        used += (size_t)snprintf(text + used, size - used, "%s--%.*s %.*s", used > 0 ? " " : "",
                                 name, at, length - name - 1, at + name + 1);
        at += length;
    }
}

/* Print flags on lines of their own. Where one is longer than the line, a space follows the last
 * comma that fits; fast systems NAME has it whole, to be copied. */
static void print_flags(cli_page *page, const char *flags)
{
    const size_t room = (size_t)page->width - 6;
    char text[2048];
    size_t used = 0;

    for (const char *at = flags; *at && used + 4 < sizeof text;) {
        size_t length = strcspn(at, " ");

        while (length > room && memrchr(at, ',', length - 1))
            length = (size_t)((const char *)memrchr(at, ',', length - 1) - at) + 1;
        used += (size_t)snprintf(text + used, sizeof text - used, "%.*s ", (int)length, at);
        at += length;
        at += *at == ' ';
    }
    text[used < sizeof text ? used : sizeof text - 1] = '\0';
    cli_page_text(page, 6, text);
}

/* One system in the table: four columns of fixed width, exchange and topology wrapped from column
 * 56 on, then flags, remarks, the system that it is an alias of, and missing parts, each on lines
 * of its own that are indented by six. A narrow page has no columns: they are a line below the
 * name. */
static void print_row(cli_page *page, const fast_system *s)
{
    char left[128], text[1024];

    snprintf(left, sizeof left, "%-17s %-8s %-10s %s", s->name, s->parallelism, s->optimisation,
             s->scheduling);
    snprintf(text, sizeof text, "%s; %s", s->exchange, s->topology);
    if (page->width < WIDE) {
        cli_page_text(page, 2, s->name);
        snprintf(text, sizeof text, "%s, %s, %s; %s; %s", s->parallelism, s->optimisation,
                 s->scheduling, s->exchange, s->topology);
        cli_page_text(page, 6, text);
    } else {
        cli_page_row(page, 2, 56, left, text);
    }
    flags_text(s, text, sizeof text);
    print_flags(page, text);
    cli_page_text(page, 6, s->remarks);
    if (s->alias_of) {
        snprintf(text, sizeof text, "Alias of %s. What told it apart: %s.", s->alias_of,
                 s->differs);
        cli_page_text(page, 6, text);
    }
    if (s->missing) {
        snprintf(text, sizeof text, "Missing here: %s.", s->missing);
        cli_page_text(page, 6, text);
    }
}

/* Print the title of a group, without its explanation in a narrow window. */
static void print_title(cli_page *page, const char *text)
{
    char title[128];

    snprintf(title, sizeof title, "%s", text);
    if ((int)strlen(title) > page->width)
        title[strcspn(title, ":")] = '\0';
    cli_page_title(page, title);
}

/* Print all systems under the titles of their groups; a group without systems has no title. */
static void print_table(cli_page *page, const fast_system *systems, int64_t count)
{
    char head[128];

    cli_page_text(page, 0, columns);
    snprintf(head, sizeof head, "%-17s %-8s %-10s %s", "system", "parallel", "optimised",
             "scheduling");
    fputc('\n', page->out);
    if (page->width < WIDE)
        cli_page_text(page, 0,
                      "Below the name: parallelism, optimisation, scheduling; exchange; topology.");
    else
        cli_page_row(page, 2, 56, head, "exchange; topology");
    for (int group = 0; group < GROUP_COUNT; group++) {
        bool titled = false;

        for (int64_t i = 0; i < count; i++) {
            if (strcmp(systems[i].consistency, groups[group].name) != 0)
                continue;
            if (!titled)
                print_title(page, groups[group].title);
            titled = true;
            print_row(page, &systems[i]);
        }
    }
}

/* Print the short list: a line for each system, by family; aliases are left out. */
static void print_short(cli_page *page, const fast_system *systems, int64_t count)
{
    cli_page_text(page, 0,
                  "fast train --system NAME trains like one of these; fast systems NAME explains "
                  "it; fast systems --all has the whole table, with aliases.");
    for (int group = 0; group < GROUP_COUNT; group++) {
        bool titled = false;

        for (int64_t i = 0; i < count; i++) {
            char text[128];
            const int room = page->width - 22;

            if (systems[i].alias_of || strcmp(systems[i].consistency, groups[group].name) != 0)
                continue;
            if (!titled)
                print_title(page, groups[group].title);
            titled = true;
            /* One line each: a title that is too long is cut. */
            snprintf(text, sizeof text, "%.*s", room < 120 ? room : 120, systems[i].title);
            if (strlen(systems[i].title) > strlen(text))
                memcpy(text + strlen(text) - 2, "..", 2);
            fprintf(page->out, "  %-19.19s %s\n", systems[i].name, text);
        }
    }
}

/* Everything of one system: its title and authors, the columns of the taxonomy by name, the command
 * that it stands for, missing parts, and the systems that have the same flags.
 *
 *   downpour
 *     Downpour SGD (Dean et al. 2012)
 *
 *   Taxonomy
 *     parallelism     DP
 *   ...
 *   It stands for
 *     fast train --strategy ps:servers=2,fetch=5,push=5,warm=0.4 --optimizer adagrad ...
 *
 *   The same flags, and what tells them apart
 *     distbelief      model-parallel replicas
 */
static void print_one(cli_page *page, const fast_system *systems, int64_t count,
                      const fast_system *s)
{
    const char *const rows[][2] = {
        { "parallelism", s->parallelism }, { "optimisation", s->optimisation },
        { "scheduling", s->scheduling },   { "exchange", s->exchange },
        { "topology", s->topology },       { "consistency", s->consistency },
        { "remarks", s->remarks },
    };
    char text[1024];

    fprintf(page->out, "%s\n", s->name);
    snprintf(text, sizeof text, "%s (%s)", s->title, s->by);
    cli_page_text(page, 2, text);
    cli_page_title(page, "Taxonomy");
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        cli_page_row(page, 2, 18, rows[i][0], rows[i][1]);
    cli_page_title(page, "It stands for");
    flags_text(s, text, sizeof text);
    fprintf(page->out, "  fast train %s\n", text);
    cli_page_title(page, "Missing here");
    cli_page_text(page, 2, s->missing ? s->missing : "nothing");
    for (int64_t i = 0, found = 0; i < count; i++) {
        const fast_system *other = &systems[i];
        const bool mine = other->alias_of && strcmp(other->alias_of, s->name) == 0;
        const bool first = s->alias_of && strcmp(s->alias_of, other->name) == 0;

        if (!mine && !first)
            continue;
        if (found++ == 0)
            cli_page_title(page, "The same flags, and what tells them apart");
        cli_page_row(page, 2, 18, other->name, mine ? other->differs : s->differs);
    }
}

/* Print one system as an object. */
static void print_json(const fast_system *s, FILE *out)
{
    cli_json json;

    cli_json_begin(&json, out);
    cli_json_text(&json, "name", s->name);
    cli_json_text(&json, "title", s->title);
    cli_json_text(&json, "by", s->by);
    if (s->row > 0)
        cli_json_int(&json, "row", s->row);
    else
        cli_json_text(&json, "row", NULL);
    cli_json_text(&json, "flags", s->flags);
    cli_json_text(&json, "parallelism", s->parallelism);
    cli_json_text(&json, "optimisation", s->optimisation);
    cli_json_text(&json, "scheduling", s->scheduling);
    cli_json_text(&json, "exchange", s->exchange);
    cli_json_text(&json, "topology", s->topology);
    cli_json_text(&json, "consistency", s->consistency);
    cli_json_text(&json, "remarks", s->remarks);
    cli_json_text(&json, "missing", s->missing);
    cli_json_text(&json, "alias_of", s->alias_of);
    cli_json_text(&json, "differs", s->differs);
    cli_json_end(&json);
}

/* Text in a cell of a Markdown table, with a backslash before each character that has a meaning. */
static void put_cell(FILE *out, const char *text)
{
    for (; *text; text++) {
        if (strchr("|<>*_`\\", *text))
            fputc('\\', out);
        fputc(*text, out);
    }
}

/* Print one system as a row of docs/systems.md. */
static void put_markdown_row(FILE *out, const fast_system *s)
{
    const char *const cells[] = { s->parallelism, s->optimisation, s->scheduling, s->exchange,
                                  s->topology };
    char flags[1024];

    flags_text(s, flags, sizeof flags);
    if (s->row > 0)
        fprintf(out, "| %lld ", (long long)s->row);
    else
        fputs("| ", out);
    fprintf(out, "| `%s` | ", s->name);
    put_cell(out, s->title);
    fputs(" (", out);
    put_cell(out, s->by);
    fputc(')', out);
    for (size_t i = 0; i < sizeof cells / sizeof cells[0]; i++) {
        fputs(" | ", out);
        put_cell(out, cells[i]);
    }
    fprintf(out, " | `%s` | ", flags);
    put_cell(out, s->remarks);
    if (s->alias_of) {
        fprintf(out, " Alias of `%s`; what told it apart: ", s->alias_of);
        put_cell(out, s->differs);
        fputc('.', out);
    }
    fputs(" | ", out);
    put_cell(out, s->missing ? s->missing : "");
    fputs(" |\n", out);
}

/* Print docs/systems.md. */
static void print_markdown(const fast_system *systems, int64_t count, FILE *out)
{
    fprintf(out,
            "# Systems\n\n"
            "Made by `fast systems --markdown` from the tables that `--system` reads.\n\n"
            "A system is a name for options of a run: `fast train --workers 4 --system ssp` is "
            "`fast train --workers 4` with the flags of its row.\n"
            "Flags that are given besides it win: `--system ssp --optimizer adam` changes the "
            "rule, `--system ssp --strategy ps:slack=5` the bound. Another strategy than the "
            "system's is refused.\n"
            "`fast systems NAME` explains one, and `fast systems --json` prints all for "
            "programs.\n\n"
            "The columns are those of Langer et al., \"Distributed Training of Deep Learning "
            "Models: A Taxonomic Perspective\" (2020): *parallelism* of the original (DP data, MP "
            "model), *optimisation* (central: one model; decentral: a model at each worker), "
            "*scheduling*, *exchange* of parameters, *topology* (PS: parameter server), remarks.\n"
            "Rows with a number are techniques of the surveys that FAST follows; those without "
            "are later ones.\n"
            "*Missing* is what of the original the flags do not do. Aliases have the same flags: "
            "FAST's actors, groups and spaces hide what told them apart, and their row says what "
            "that was.\n");
    for (int group = 0; group < GROUP_COUNT; group++) {
        bool titled = false;

        for (int64_t i = 0; i < count; i++) {
            if (strcmp(systems[i].consistency, groups[group].name) != 0)
                continue;
            if (!titled)
                fprintf(out,
                        "\n## %s\n\n"
                        "| # | system | what | parallelism | optimisation | scheduling | "
                        "exchange | topology | flags | remarks | missing |\n"
                        "|--:|---|---|---|---|---|---|---|---|---|---|\n",
                        groups[group].title);
            titled = true;
            put_markdown_row(out, &systems[i]);
        }
    }
}

/* One command line, read. */
typedef struct systems_line {
    const char *name; /* of a system; or NULL */
    bool json;        /* print objects */
    bool markdown;    /* print docs/systems.md */
    bool all;         /* print the whole table */
} systems_line;

/* Take one flag of the command line, or a word that is no flag (option NULL), for
 * cli_flags_read(). */
static int set(void *ctx, const fast_option *option, const char *value)
{
    systems_line *line = ctx;

    if (!option && line->name)
        return cli_fail(CLI_USAGE, "systems takes one name, not \"%.60s\" too", value);
    if (!option)
        line->name = value;
    else if (strcmp(option->name, "json") == 0)
        line->json = strcmp(value, "no") != 0;
    else if (strcmp(option->name, "all") == 0)
        line->all = strcmp(value, "no") != 0;
    else
        line->markdown = strcmp(value, "no") != 0;
    return CLI_DONE;
}

/* Names of systems, for fast_text_nearest(). */
static const char *name_at(const void *ctx, int64_t i)
{
    return ((const fast_system *)ctx)[i].name;
}

/* The command `fast systems`. */
int cli_systems(int argc, char **argv)
{
    systems_line line = { 0 };
    const int code = cli_flags_read(cli_command_find("systems"), argc, argv, set, &line);
    int64_t count = 0, one = -1;
    const fast_system *systems = fast_system_list(&count);
    const char *nearest;
    cli_page page;

    if (code != CLI_DONE)
        return code == CLI_HELPED ? CLI_DONE : code;
    for (int64_t i = 0; line.name && i < count; i++)
        if (strcmp(systems[i].name, line.name) == 0)
            one = i;
    if (line.name && one < 0) {
        nearest = fast_text_nearest(line.name, name_at, systems, count);
        return nearest
                   ? cli_fail(CLI_USAGE, "no system \"%.60s\"; did you mean \"%s\"?", line.name,
                              nearest)
                   : cli_fail(CLI_USAGE, "no system \"%.60s\"; fast systems lists all", line.name);
    }
    cli_page_init(&page, stdout);
    if (line.markdown)
        print_markdown(systems, count, stdout);
    else if (line.json)
        for (int64_t i = 0; i < count; i++) {
            if (one < 0 || one == i)
                print_json(&systems[i], stdout);
        }
    else if (one >= 0)
        print_one(&page, systems, count, &systems[one]);
    else if (!line.all)
        print_short(&page, systems, count);
    else
        print_table(&page, systems, count);
    return CLI_DONE;
}
