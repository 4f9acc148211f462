/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `fast ui`: the dashboard. It serves the store on 127.0.0.1 until Ctrl-C, prints the address to
 * open, which has the token, and starts a browser only where it is asked to. The address goes to
 * standard output, one line, for programs too. It is the same at every start, unless its port is
 * taken.
 *
 *   http://127.0.0.1:8420/?token=a4ec68b96b4513ab6a6062033af7e29d             (standard output)
 *   open this address in a browser; Ctrl-C ends, and runs that were started continue
 *                                                                             (standard error)
 *
 * The line is flushed at once, so that a program which starts `fast ui` can read it from a pipe.
 * --metrics open serves /metrics without the token, for a Prometheus on this machine.
 *
 * Signals: SIGINT and SIGTERM stop the server in order, and a second one does no more than the
 * first; this command does not use cli_on_interrupt(), as it has no long step to abandon. SIGPIPE
 * is ignored. Exit codes: 0 after a signal, 2 for a wrong flag, else as cli_fail_err() says.
 */
#include "cli_tables.h"

#include <errno.h>
#include <signal.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { PORT = 8420 }; /* the standard port, so that bookmarks last */

/* One command line, read. */
typedef struct ui_line {
    fast_server_options server; /* zero: the standard */
    bool open;                  /* a browser */
} ui_line;

/* The server that a signal stops: a handler gets nothing else. */
static fast_server *volatile signalled;

/* Ask the server to end. Only sets a flag, as a signal handler may. */
static void on_signal(int number)
{
    fast_server *server = signalled;

    (void)number;
    if (server)
        fast_server_stop(server);
}

/* Take one flag of the command line, or a word that is no flag (option NULL), for
 * cli_flags_read(). */
static int set(void *ctx, const fast_option *option, const char *value)
{
    ui_line *line = ctx;
    fast_server_options *s = &line->server;
    const struct {
        const char *name;
        const char **text;
    } texts[] = { { "store", &s->store },
                  { "host", &s->host },
                  { "origin", &s->origin },
                  { "cert", &s->cert },
                  { "key", &s->key } };
    const struct {
        const char *name;
        bool *flag;
    } flags[] = { { "open", &line->open },
                  { "insecure", &s->insecure },
                  { "read_only", &s->read_only },
                  { "new_token", &s->new_token } };
    char *end = NULL;

    if (!option)
        return cli_fail(CLI_USAGE, "\"%.60s\" is not an option; options begin with --", value);
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        if (strcmp(option->name, texts[i].name) == 0) {
            *texts[i].text = value;
            return CLI_DONE;
        }
    for (size_t i = 0; i < sizeof flags / sizeof *flags; i++)
        if (strcmp(option->name, flags[i].name) == 0) {
            *flags[i].flag = strcmp(value, "yes") == 0;
            return CLI_DONE;
        }
    if (strcmp(option->name, "metrics") == 0) {
        s->open_metrics = strcmp(value, "open") == 0;
        return s->open_metrics || strcmp(value, "token") == 0
                   ? CLI_DONE
                   : cli_fail(CLI_USAGE, "--metrics is token or open, not \"%.60s\"", value);
    }
    s->port = strtol(value, &end, 10);
    s->free_port = false;
    return end == value || *end || s->port < 0 || s->port > 65535
               ? cli_fail(CLI_USAGE, "--port takes a number from 0 to 65535, not \"%.60s\"", value)
               : CLI_DONE;
}

/* Stop at Ctrl-C; a browser that leaves in the middle of an answer is no reason to end. */
static void catch_signals(fast_server *server)
{
    struct sigaction action = { .sa_handler = on_signal };

    signalled = server;
    sigemptyset(&action.sa_mask);
    sigaction(SIGINT, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
    action.sa_handler = SIG_IGN;
    sigaction(SIGPIPE, &action, NULL);
}

/* Let the desktop open the address; it is printed anyway. The child is not waited for, and a
 * desktop without xdg-open is told, but no error. */
static void open_browser(const char *url)
{
    char program[] = "xdg-open";
    char *address = strdup(url);
    char *words[] = { program, address, NULL };
    pid_t pid;
    const int failed = address ? posix_spawnp(&pid, program, NULL, NULL, words, environ) : ENOMEM;

    if (failed)
        fprintf(stderr, "xdg-open cannot be started: %s\n", strerror(failed));
    free(address);
}

/* Open the server, say its address and serve until a signal comes. The server gets the path of this
 * program, by which it starts the runs that the user asks for in the browser, and the groups of
 * options, from which the page builds its form. */
static int serve(ui_line *line)
{
    char program[4096];
    const ssize_t got = readlink("/proc/self/exe", program, sizeof program - 1);
    fast_server *server = NULL;
    fast_err err;

    program[got > 0 ? got : 0] = '\0';
    line->server.program = got > 0 ? program : NULL;
    line->server.groups = cli_groups;
    err = fast_server_open(&line->server, &server);
    if (err)
        return cli_fail_err(err);
    catch_signals(server);
    if (line->server.free_port && fast_server_port(server) != line->server.port)
        fprintf(stderr,
                "port %lld is taken, perhaps by another fast ui: this one listens on port %lld; "
                "--port chooses one\n",
                (long long)line->server.port, (long long)fast_server_port(server));
    if (!fast_server_has_pages())
        fputs("this build has no pages, as npm was missing when it was made: install npm and "
              "configure again; /api and /metrics are served\n",
              stderr);
    printf("%s\n", fast_server_url(server));
    fflush(stdout);
    fputs("open this address in a browser; Ctrl-C ends, and runs that were started continue\n",
          stderr);
    if (line->open)
        open_browser(fast_server_url(server));
    err = fast_server_run(server);
    signalled = NULL;
    fast_server_close(server);
    return err ? cli_fail_err(err) : CLI_DONE;
}

/* The command `fast ui`. */
int cli_ui(int argc, char **argv)
{
    ui_line line = { .server = { .port = PORT, .free_port = true } };
    const int code = cli_flags_read(cli_command_find("ui"), argc, argv, set, &line);

    if (code != CLI_DONE)
        return code == CLI_HELPED ? CLI_DONE : code;
    return serve(&line);
}
