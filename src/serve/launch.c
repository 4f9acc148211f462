/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Starts runs: `fast train` as a process of its own, on the same store, in a process group of its
 * own, so that Ctrl-C at the server's terminal does not reach it. A run continues when the server
 * ends; the store has it, and any server can stop it.
 *
 * The answer waits for one of three: the run's row in the store, known by its process number and by
 * being newer than all before (201 and its number); the end of the process, whose last words become
 * the error (400); or a minute. Its standard error goes into a file without a name, which needs no
 * reader and outlives the server.
 *
 * Options are checked against the table of a run before anything is started. Those that name files
 * are refused: what a browser may do ends at the store.
 */
#include "serve/server.h"

#include "base/clock.h"
#include "base/memory.h"
#include "base/option.h"
#include "serve/serve_body.h"
#include "serve/serve_words.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

enum {
    TAGS_MAX = 16,   /* of a new run */
    TAG_SIZE = 65,   /* bytes of a tag, its end included */
    SAID_MAX = 4096, /* bytes of a process's last words */
    EXIT_USAGE = 2   /* of `fast train`, where an option is wrong */
};
static const int64_t patience_ns = 60 * (int64_t)1000000000;

struct serve_launch {
    struct serve_launch *next;     /* of the server's list */
    fast_http_request *request;    /* that waits; NULL once it was answered */
    serve_words words;             /* the command line */
    char tags[TAGS_MAX][TAG_SIZE]; /* for the new run */
    int tag_count;                 /* number of tags */
    pid_t pid;                     /* of the process */
    int said;                      /* the file that its standard error goes to; -1 */
    int64_t newest;                /* number of the newest run before it */
    int64_t began;                 /* when; nanoseconds */
};

/* Free a launch. Its process is not touched: the run goes its own way and is in the store. */
static void free_launch(serve_launch *launch)
{
    fast__serve_words_free(&launch->words);
    if (launch->said >= 0)
        close(launch->said);
    fast__free(launch);
}

/* The reader of the answer has gone. */
static void on_gone(void *ctx)
{
    ((serve_launch *)ctx)->request = NULL;
}

/* An option of the body, as a word of the command line. */
static fast_err on_option(void *ctx, const char *name, const char *value)
{
    int64_t count = 0;
    const fast_part *train = fast_part_list("train", &count);

    FAST_ASSERT(count == 1);
    FAST_TRY(fast__options_set("fast train", train->options, NULL, name, value));
    const fast_option *option = fast__options_find(train->options, name);
    FAST_ASSERT(option != NULL);
    return fast__serve_words_option(&((serve_launch *)ctx)->words, option, value);
}

/* A tag of the body, stored until the run has a number. */
static fast_err on_tag(void *ctx, const char *tag)
{
    serve_launch *launch = ctx;

    if (launch->tag_count == TAGS_MAX || strlen(tag) >= TAG_SIZE || !*tag)
        return fast__fail(FAST_EINVAL, "a run takes at most %d tags of 1 to %d bytes", TAGS_MAX,
                          TAG_SIZE - 1);
    /* Refused before the run starts: the store would refuse it afterwards. */
    for (const char *c = tag; *c; c++)
        if ((unsigned char)*c < ' ' || *c == 0x7f || *c == ',')
            return fast__fail(FAST_EINVAL, "a tag holds no commas and no control characters");
    snprintf(launch->tags[launch->tag_count++], TAG_SIZE, "%s", tag);
    return FAST_OK;
}

/* Start the process: no input, no output, errors into the file. */
static fast_err spawn(serve_launch *launch)
{
    posix_spawn_file_actions_t actions;
    posix_spawnattr_t attributes;
    sigset_t none, all;
    int failed;

    launch->said = memfd_create("fast", MFD_CLOEXEC);
    if (launch->said < 0)
        return fast__fail(FAST_EIO, "cannot make a file in memory: %s", strerror(errno));
    sigemptyset(&none);
    sigfillset(&all);
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
    posix_spawn_file_actions_addopen(&actions, 1, "/dev/null", O_WRONLY, 0);
    posix_spawn_file_actions_adddup2(&actions, launch->said, 2);
    posix_spawnattr_init(&attributes);
    posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGMASK |
                                              POSIX_SPAWN_SETSIGDEF);
    /* A group of its own: Ctrl-C at the server's terminal does not reach it. Signals start with
     * their default actions: the server's own handlers and masks are not inherited. */
    posix_spawnattr_setpgroup(&attributes, 0);
    posix_spawnattr_setsigmask(&attributes, &none);
    posix_spawnattr_setsigdefault(&attributes, &all);
    failed = posix_spawn(&launch->pid, launch->words.items[0], &actions, &attributes,
                         launch->words.items, environ);
    posix_spawnattr_destroy(&attributes);
    posix_spawn_file_actions_destroy(&actions);
    if (failed)
        return fast__fail(FAST_EIO, "cannot start %s: %s", launch->words.items[0],
                          strerror(failed));
    return FAST_OK;
}

/* Take the number of the run in a row. */
static fast_err take_id(void *ctx, const void *row)
{
    *(int64_t *)ctx = ((const fast_stored_run *)row)->id;
    return FAST_OK;
}

/* Read the body into a command line, and start it. */
static fast_err begin(fast_server *server, fast_http_request *request, serve_launch *launch)
{
    size_t size;
    const char *body = fast__request_body(request, &size);

    FAST_TRY(fast__serve_words_add(&launch->words, "%s%s", server->program, ""));
    FAST_TRY(fast__serve_words_add(&launch->words, "%s%s", "train", ""));
    FAST_TRY(fast__serve_words_add(&launch->words, "%s%s", "--quiet", ""));
    FAST_TRY(fast__serve_words_add(&launch->words, "--%s=%s", "store", server->path));
    FAST_TRY(fast__body_launch(body, size, on_option, on_tag, launch));
    /* The new run is known by a higher number and by the number of its process. */
    FAST_TRY(fast_store_list(server->store, &(fast_store_query){ .sort = "-id", .limit = 1 },
                             take_id, &launch->newest, NULL));
    launch->began = fast__clock_ns();
    return spawn(launch);
}

/* POST /api/runs. The answer is sent by fast__launch_tick() when the run is in the store. */
void fast__serve_launch(fast_server *server, fast_http_request *request, int64_t id)
{
    serve_launch *launch;
    int count = 0;
    fast_err err;

    (void)id;
    for (launch = server->launches; launch; launch = launch->next)
        count++;
    if (!server->program[0]) {
        fast__reply_error(request, 409, "this server starts no runs");
        return;
    }
    /* A page that is reloaded in a loop must not fill the machine. */
    if (count >= SERVE_LAUNCHES_MAX) {
        fast__reply_error(request, 429, "%d runs that were started here still run; stop one",
                          count);
        return;
    }
    err = fast__alloc("run", 1, sizeof *launch, &launch);
    if (err) {
        fast__reply_err(request, err);
        return;
    }
    launch->said = -1;
    err = begin(server, request, launch);
    if (err) {
        free_launch(launch);
        fast__reply_err(request, err);
        return;
    }
    launch->request = request;
    launch->next = server->launches;
    server->launches = launch;
    fast__request_later(request, on_gone, launch);
}

/* The number of the run that the process began; 0 if the store does not have it yet. */
static int64_t find_run(fast_server *server, const serve_launch *launch)
{
    char where[64];
    int64_t run = 0;

    snprintf(where, sizeof where, "pid=%lld,id>%lld", (long long)launch->pid,
             (long long)launch->newest);
    if (fast_store_list(server->store,
                        &(fast_store_query){ .where = where, .sort = "-id", .limit = 1 }, take_id,
                        &run, NULL) != FAST_OK)
        return 0;
    return run;
}

/* The run is in the store: give it its tags, and answer. */
static void answer_begun(fast_server *server, serve_launch *launch, int64_t run)
{
    fast_http_request *request = launch->request;
    json_t *answer;
    fast_store *store = NULL;
    fast_err err = FAST_OK;

    if (launch->tag_count > 0)
        err = fast_store_open(server->path, true, &store);
    for (int i = 0; !err && i < launch->tag_count; i++)
        err = fast_store_tag(store, run, launch->tags[i]);
    fast_store_close(store);
    launch->request = NULL;
    if (err) {
        fast__reply_err(request, err);
        return;
    }
    answer = json_object();
    fast__json_set(&answer, "id", json_integer(run));
    fast__reply_json(request, 201, &answer);
}

/* It ended without a run: its last line says why. */
static void answer_refused(serve_launch *launch, int status)
{
    static const char prefix[] = "fast: ";
    fast_http_request *request = launch->request;
    const bool usage = WIFEXITED(status) && WEXITSTATUS(status) == EXIT_USAGE;
    char said[SAID_MAX];
    const off_t size = lseek(launch->said, 0, SEEK_END);
    const off_t from = size > SAID_MAX - 1 ? size - (SAID_MAX - 1) : 0;
    ssize_t got = pread(launch->said, said, sizeof said - 1, from);
    char *line;

    got = got < 0 ? 0 : got;
    while (got > 0 && said[got - 1] == '\n')
        got--;
    said[got] = '\0';
    line = strrchr(said, '\n');
    line = line ? line + 1 : said;
    if (strncmp(line, prefix, sizeof prefix - 1) == 0)
        line += sizeof prefix - 1;
    launch->request = NULL;
    fast__reply_error(request, usage ? 400 : 500, "%s",
                      *line ? line : "the run ended before it began");
}

/* One of them; true if it has ended. */
static bool look(fast_server *server, serve_launch *launch, int64_t now)
{
    int status = 0;
    const bool ended = waitpid(launch->pid, &status, WNOHANG) != 0;
    int64_t run;

    if (launch->request) {
        run = find_run(server, launch);
        if (run > 0) {
            answer_begun(server, launch, run);
        } else if (ended) {
            answer_refused(launch, status);
        } else if (now - launch->began > patience_ns) {
            fast_http_request *request = launch->request;

            launch->request = NULL;
            fast__reply_error(request, 504,
                              "the run has not started within a minute; it continues");
        }
    }
    return ended;
}

void fast__launch_tick(fast_server *server, int64_t now)
{
    serve_launch **at = &server->launches;

    while (*at) {
        serve_launch *launch = *at;

        if (look(server, launch, now)) {
            *at = launch->next;
            free_launch(launch);
        } else {
            at = &launch->next;
        }
    }
}

void fast__launch_fini(fast_server *server)
{
    while (server->launches) {
        serve_launch *launch = server->launches;

        server->launches = launch->next;
        free_launch(launch);
    }
}
