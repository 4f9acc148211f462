/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The program: finds the command by its name and hands over. `--help` anywhere asks for the help of
 * the command, before anything else is read. Exit codes: 0 done, 1 failed, 2 usage, 75 saved and to
 * be run again.
 *
 *   code  name          meaning
 *      0  CLI_DONE      the command did its work
 *      1  CLI_FAILED    it could not: a failed run, a full disk, no memory
 *      2  CLI_USAGE     the command line, or a file that it names, is wrong; nothing ran
 *     75  CLI_AGAIN     stopped by a signal, with a checkpoint to resume from
 *    130  CLI_CANCELED  stopped by a signal, without a checkpoint
 *
 * A second Ctrl-C ends the program by the signal itself (cli_on_interrupt()), which a shell reports
 * as 130 for SIGINT and 143 for SIGTERM.
 *
 * Standard output has the data of a command and nothing else, so that a pipe or a JSON parser can
 * read it. Standard error has errors ("fast: ..."), notes ("note: ..."), progress and summaries.
 */
#include "cli.h"

#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { NOTE_MAX = 512, SENTENCE_MAX = 8192 };

/* One line on standard error, for example:
 *
 *   fast: no option --modle; did you mean --model?
 *   fast: rank 1 on node7: cannot read "run.safetensors": No such file or directory
 */
int cli_fail(int code, const char *format, ...)
{
    char text[SENTENCE_MAX];
    va_list arguments;
    char host[64] = "?";
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    for (char *c = text; *c; c++)
        if ((unsigned char)*c < ' ' || *c == 127)
            *c = '?';
    /* In one piece: the lines of several ranks may be mixed. */
    char line[SENTENCE_MAX + 128];
    if (cli_ranks() > 1 && gethostname(host, sizeof host - 1) == 0)
        snprintf(line, sizeof line, "fast: rank %d on %s: %s\n", cli_rank(), host, text);
    else
        snprintf(line, sizeof line, "fast: %s\n", text);
    fputs(line, stderr);
    return code;
}

/* The detail that the library recorded is preferred to the general text of the error code, because
 * it names the value that is wrong: there is no run 99 in "s.db". */
int cli_fail_err(fast_err err)
{
    const char *detail = fast_error_detail();
    const bool usage =
        err == FAST_EINVAL || err == FAST_ENOTSUP || err == FAST_ENOENT || err == FAST_EFORMAT;
    return cli_fail(usage ? CLI_USAGE : CLI_FAILED, "%s", detail[0] ? detail : fast_err_text(err));
}

/* The rule of no-color.org: any non-empty value of NO_COLOR switches colours off. Lines that are
 * redrawn do not ask here: they need a terminal only, because clearing a line is no colour. */
bool cli_has_color(FILE *file)
{
    const char *no_color = getenv("NO_COLOR");
    const char *term = getenv("TERM");
    return isatty(fileno(file)) && !(no_color && no_color[0]) && term && strcmp(term, "dumb") != 0;
}

/* Without memory the word is written as it is: the line is for people, and a wrong quote costs less
 * than a missing word. */
void cli_put_quoted(FILE *file, const char *word)
{
    const size_t size = fast_text_quote(word, NULL, 0) + 1;
    char *text = malloc(size);

    if (text)
        fast_text_quote(word, text, size);
    fputs(text ? text : word, file);
    free(text);
}

/* Names of commands, for fast_text_nearest(). */
static const char *command_at(const void *ctx, int64_t i)
{
    (void)ctx;
    return cli_commands[i].name;
}

/* True for the words that people type to ask for help. */
static bool is_help(const char *word)
{
    return strcmp(word, "--help") == 0 || strcmp(word, "-h") == 0;
}

/* A note of the library, such as why a first run waits. It may come for every
 * layer; a person reads it once. Levels below FAST_LOG_INFO are not shown. On a terminal the note
 * first clears the line of progress that may be there, which the next event draws again. */
static void show_log(void *ctx, fast_log_level level, const char *line)
{
    char *last = ctx;
    if (level < FAST_LOG_INFO || strcmp(last, line) == 0)
        return;
    snprintf(last, NOTE_MAX, "%s", line);
    fprintf(stderr, "%snote: %s\n", isatty(STDERR_FILENO) ? "\r\033[K" : "", line);
}

/* Find the command and run it; a usage error names the nearest:
 *
 *   fast: no command "trian"; did you mean "train"?
 *
 * All arguments are searched for --help before the command reads its first flag, so that help is
 * printed even for a command line with a mistake in it. */
static int run_command(int argc, char **argv)
{
    static char last[NOTE_MAX];
    fast_log_set(show_log, last);
    if (argc < 2 || is_help(argv[1])) {
        char name[] = "help";
        char *help[] = { name, NULL };
        return cli_help(1, help);
    }
    if (strcmp(argv[1], "--version") == 0 || strcmp(argv[1], "version") == 0 ||
        strcmp(argv[1], "-V") == 0) {
        printf("fast %s\n", fast_version());
        return CLI_DONE;
    }
    const cli_command *command = cli_command_find(argv[1]);
    if (command) {
        /* Words after the script of `fast run` are the script's. */
        for (int at = 2; at < argc && command->main != cli_run; at++)
            if (is_help(argv[at]))
                return cli_help_topic(argv[1]);
        return command->main(argc - 1, argv + 1);
    }
    const char *how, *other = cli_other_word(argv[1], &how);
    if (other)
        return cli_fail(CLI_USAGE, "no command \"%s\"; did you mean \"%s\"? (%s)", argv[1], other,
                        how);
    int64_t count = 0;
    while (cli_commands[count].name)
        count++;
    const char *nearest = fast_text_nearest(argv[1], command_at, NULL, count);
    if (nearest)
        return cli_fail(CLI_USAGE, "no command \"%s\"; did you mean \"%s\"?", argv[1], nearest);
    return cli_fail(CLI_USAGE, "no command \"%s\"; fast help lists them", argv[1]);
}

/* A standard stream that the caller closed must not be the number of the next file that is opened,
 * or talk would go into it: what reads nothing and takes nothing holds its place. */
static void hold_standard_streams(void)
{
    for (int fd = 0; fd <= 2; fd++)
        if (fcntl(fd, F_GETFD) == -1 && open("/dev/null", fd == 0 ? O_WRONLY : O_RDONLY) != fd)
            _exit(CLI_FAILED);
}

/* Output is done only once it is written: a full disk must not look like success. */
int main(int argc, char **argv)
{
    hold_standard_streams();
    signal(SIGXFSZ,
           SIG_IGN); /* a file beyond `ulimit -f` is an error of its write, as a full disk */
    int code;
    if (!cli_packed(&argc, &argv, &code))
        code = run_command(argc, argv);
    if (fflush(stdout) == 0 && !ferror(stdout))
        return code;
    return cli_fail(code == CLI_DONE ? CLI_FAILED : code, "cannot write standard output");
}
